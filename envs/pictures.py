"""Pictures of a task: its first state, an episode of random actions, or any other film."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.vector import AnyVectorEnv

SUFFIXES = (".png", ".gif")
MAX_FRAMES = 300
FRAME_MILLISECONDS = 120
LAST_MILLISECONDS = 1500
"""A film's last picture is shown so long, as it tells how the episode ended."""


def random_episode(env: AnyVectorEnv, seed: int) -> list[NDArray[np.uint8]]:
    """The first `MAX_FRAMES` pictures of an episode of random actions in the one environment of `env`."""
    frames = [frame(env)]
    env.action_space.seed(seed)
    over = False
    while not over and len(frames) < MAX_FRAMES:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        over = bool(terminated[0] or truncated[0])
        frames.append(frame(env))
    return frames


def save(env: AnyVectorEnv, file: Path, seed: int) -> int:
    """Writes a .png of the first state or a .gif of a random episode; the number of pictures in it.

    Args:
        env: one environment with render mode "rgb_array".
        seed: of the episode and of the actions.

    Raises:
        ValueError: for another kind of file.
    """
    if file.suffix not in SUFFIXES:
        raise ValueError("its name must end in .png (the first state) or .gif (an episode of random actions)")
    env.reset(seed=seed)
    frames = [frame(env)] if file.suffix == ".png" else random_episode(env, seed)
    write(frames, file)
    return len(frames)


def write(frames: Sequence[NDArray[np.uint8]], file: Path, milliseconds: int = FRAME_MILLISECONDS) -> None:
    """Writes pictures, uint8 [height, width, 3] in pixels, as a .gif, or the first of them as a .png.

    Args:
        milliseconds: how long each but the last is shown.
    """
    from PIL import Image  # not needed where tasks are only made

    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".png":
        Image.fromarray(frames[0]).save(file)
        return
    # A GIF's picture has a palette of its own; one that is shown again is not reduced to 256 colours again.
    keys = [hashlib.sha256(picture.tobytes()).digest() for picture in frames]
    different = dict(zip(keys, frames, strict=True))
    reduced = {key: Image.fromarray(picture).quantize() for key, picture in different.items()}
    first, *others = (reduced[key] for key in keys)
    shown = [*[milliseconds] * len(others), max(milliseconds, LAST_MILLISECONDS)]
    first.save(file, save_all=True, append_images=others, duration=shown, loop=0)


def of_envs(env: AnyVectorEnv, env_ids: Sequence[int]) -> list[NDArray[np.uint8]]:
    """Pictures of some environments of `env` as they are now; no others are drawn."""
    base: Any = env.unwrapped
    if hasattr(base, "picture"):  # a native task
        return [base.picture(env_id) for env_id in env_ids]
    return [base.envs[env_id].render() for env_id in env_ids]  # Gymnasium's, one by one in this process


def frame(env: AnyVectorEnv) -> NDArray[np.uint8]:
    """The picture of the one environment of `env` as it is now."""
    return of_envs(env, [0])[0]
