"""Forty environments of the kinds that Gymnasium allows, each trained, evaluated, loaded and acted in.

Whatever an agent does, step t of an episode of ten pays t, so its return is 55 (other sums are by hand too).
An action that the environment's space does not hold ends the run. As a command it writes a table:

    python -m tests.forty_environments --out docs/benchmarks/environments.json
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import dtqn
from dtqn.cli import main

_MODULE = "tests.forty_environments"
_FLAGS = [
    *("--agent", "gru", "--network.width", "16", "--total-env-steps", "300", "--warmup-env-steps", "128"),
    *("--actor.num-envs", "4", "--metrics-every", "100", "--evaluation.period", "300"),
    *("--evaluator", "inline", "--evaluation.episodes", "4", "--wandb", "disabled"),
]


class Counted(gymnasium.Env[Any, Any]):
    """Ten steps, of which step t pays t; observations are drawn from their space."""

    observation_space: Space[Any] = Box(-1, 1, (3,))
    action_space: Space[Any] = Discrete(2)
    ending = (True, False)
    kind, expected = "space", 55.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time, self._drawn = 0, copy.deepcopy(self.observation_space)
        self._drawn.seed(3)
        return self._drawn.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.time, self.action = self.time + 1, action
        over = (self.time == 10 and flag for flag in self.ending)
        return self._drawn.sample(), self.pay(), *over, self.info()

    def pay(self) -> Any:
        return self.time

    def info(self) -> dict[str, Any]:
        return {}


class NeedsRenderMode(Counted):
    kind, metadata = "render mode", {"render_modes": ["rgb_array", "human"]}

    def __init__(self, render_mode: str | None) -> None:
        self.render_mode = render_mode


class GlobalSeed(Counted):
    kind = "seeding"

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            np.random.seed(seed)  # noqa: NPY002
        return super().reset(seed=seed)


class NoSeed(Counted):
    kind = "seeding"

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=None)


def _paid(self: Any) -> float:
    """It tells actions and their order apart."""
    return float(np.ravel(self.action) @ np.arange(1, np.size(self.action) + 1)) * self.time


def _printed(_: Counted) -> dict[str, Any]:
    print("a simulator's banner")
    os.write(1, b"its C library's banner\n")
    return {}


def _odd(_: Counted) -> dict[str, Any]:
    odd = {"object": object(), "final_info": None, "episode": "text"}
    return {**odd, "_mask": [1, [2]], "nested": {"a": {}}}


_PART = Dict({"a": Dict({"b": Discrete(3), "c": MultiBinary(2)}), "d": Box(-1, 1, (2,))})
_SPACES: dict[str, Space[Any]] = {
    "discrete": Discrete(5),
    "discrete_from_minus_3": Discrete(5, start=-3),
    "discrete_large": Discrete(70_000),
    "components": MultiDiscrete([3, 4]),
    "components_from_2": MultiDiscrete([3, 4], start=[2, 2]),
    "components_of_two_axes": MultiDiscrete([[2, 3], [4, 5]]),
    "components_large": MultiDiscrete([70_000, 3]),
    "switches": MultiBinary(4),
    "switches_of_two_axes": MultiBinary((2, 3)),
    "one_number": Box(-1, 1, ()),
    "picture": Box(0, 255, (16, 16, 3), np.uint8),
    "picture_channels_first": Box(0, 255, (3, 16, 16), np.uint8),
    "picture_grey": Box(0, 255, (16, 16), np.uint8),
    "picture_of_floats": Box(0, 1, (16, 16, 3)),
    "depth_16_bits": Box(0, 65_535, (16, 16), np.uint16),
    "depth_floats": Box(0, 10, (16, 16)),
    "dict_of_two": Dict({"x": Box(-1, 1, (2,)), "n": Discrete(4)}),
    "nested_dict": _PART,
    "tuple_of_two": Tuple((Discrete(2), Box(0, 1, (2,)))),
    "tuple_of_dicts": Tuple((_PART, Dict({"e": Discrete(2)}))),
    "text_beside": Dict({"says": Text(5), "n": Discrete(4)}),
}
_WHOLE = {name: np.iinfo(name) for name in ("int8", "int16", "int32", "uint8", "uint16", "uint32")}
_BOXES: dict[str, tuple[float, float]] = {
    **{"float16": (-1, 1), "float32": (-100_000, 100_000), "float64": (-1, 1)},
    **{name: (int(limits.min), int(limits.max)) for name, limits in _WHOLE.items()},
    **{"int64": (-(2**40), 2**40), "uint64": (0, 2**40)},
}
_ACTIONS: dict[str, Space[Any]] = {
    "action_from_1": Discrete(3, start=1),
    "action_components": MultiDiscrete([2, 3]),
    "action_components_from_1": MultiDiscrete([2, 3], start=[1, 1]),
    "action_switches": MultiBinary(2),
}
_MADE: dict[str, dict[str, Any]] = {
    "Prints": {"kind": "printing", "info": _printed},
    "OddInfo": {"kind": "info", "info": _odd},
    **{name: {"observation_space": space} for name, space in _SPACES.items()},
    **{
        f"box_{name}": {"kind": "dtype", "observation_space": Box(*ends, (3,), np.dtype(name).type)}
        for name, ends in _BOXES.items()
    },
    **{name: {"kind": "action", "action_space": space} for name, space in _ACTIONS.items()},
    **{f"paid_{name}": {"action_space": x, "pay": _paid, "expected": 0.0} for name, x in _ACTIONS.items()},
    "reward_float32": {"kind": "reward", "pay": lambda self: np.float32(self.time)},
    "reward_int64": {"kind": "reward", "pay": lambda self: np.int64(self.time)},
    "reward_array": {"kind": "reward", "pay": lambda self: np.array(self.time)},
    "reward_flag": {"kind": "reward", "pay": lambda self: self.time == 10, "expected": 1.0},
    "reward_negative": {"kind": "reward", "pay": lambda self: -0.5, "expected": -5.0},
    "ends_truncated": {"kind": "ending", "ending": (False, True)},
    "ends_both": {"kind": "ending", "ending": (True, True)},
    "ends_numpy_flags": {"kind": "ending", "ending": (np.True_, np.False_)},
    "ends_by_registration": {"kind": "limit", "expected": 10.0},
}
_OF: dict[str, type[Counted]] = {made.__name__: made for made in (NeedsRenderMode, GlobalSeed, NoSeed)}
for _name, _more in _MADE.items():
    _OF[_name] = globals()[_name] = type(_name, (Counted,), {"__module__": _MODULE, **_more})
gymnasium.register("Forty-v0", entry_point=_OF["ends_by_registration"], max_episode_steps=4)

NAMES = tuple(name for name in _OF if not name.startswith("paid"))


def _made(name: str) -> gymnasium.Env[Any, Any]:
    if name == "ends_by_registration":
        return gymnasium.make("Forty-v0")
    own: Any = _OF[name]
    return own(render_mode=None) if name == "NeedsRenderMode" else own()


def _loop(policy: Any, env: gymnasium.Env[Any, Any]) -> float:
    """README's."""
    seen, _ = env.reset(seed=0)
    policy.reset()
    action, total, over = policy.act(seen), 0.0, False
    while not over:
        seen, reward, terminated, truncated, _ = env.step(action)
        total, over = total + float(reward), terminated or truncated
        policy.acted(action)  # which changes nothing
        action = policy.act(seen, reward)
    return total


def _loop_of_two(policy: Any, env: Any) -> float:
    """The same in two environments, to the end of their first episodes."""
    seen, _ = env.reset(seed=0)
    policy.reset(2)
    action, total = policy.act(seen), np.zeros(2)
    while True:
        seen, reward, terminated, truncated, _ = env.step(action)
        total += reward
        if (terminated | truncated).all():
            return float(total.mean())
        action = policy.act(seen, reward)


def tried(name: str, folder: Path) -> dict[str, Any]:
    """A row of the table."""
    run = str(folder / name)
    timestep = {"name": name, "kind": _OF[name].kind, "expected": _OF[name].expected}
    env = f"{_MODULE}:{'Forty-v0' if name == 'ends_by_registration' else name}"
    if main(["--env", env, *_FLAGS, "--run-dir", run]):
        return {**timestep, "ok": False}
    policy = dtqn.load(run)
    two = {}
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        copies = SyncVectorEnv([lambda: _made(name)] * 2, autoreset_mode=mode)
        two[f"loop, {mode.value}"] = _loop_of_two(policy, copies)
    figures = {
        "train": [
            timestep["train/return"] for timestep in dtqn.Run(run).metrics if "train/return" in timestep
        ][-1],
        "evaluate": dtqn.evaluate(run, episodes=4).episode_return,
        "loop": _loop(policy, _made(name)),
        **two,
    }
    earned = [*figures.values(), _loop_of_two(policy, policy.make_env(2))]
    if name.startswith("paid"):  # the agent's own actions decide, others in training
        timestep["expected"], earned = figures["evaluate"], earned[1:]
    return {**timestep, **figures, "ok": bool(np.allclose(earned, timestep["expected"]))}


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        table = [tried(name, Path(folder)) for name in NAMES]
    out.write_text("[\n" + ",\n".join(json.dumps(timestep) for timestep in table) + "\n]\n")
    print(f"{sum(timestep['ok'] for timestep in table)} of {len(table)} as by hand")


if __name__ == "__main__":
    _main()
