"""Training on every task: all native ones, and those of other packages with every kind of observation."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import envs
from dtqn import cli
from dtqn.settings.config import Config, ConfigError
from dtqn.settings.presets import resolve
from dtqn.training import checkpoint, session
from dtqn.training.directory import RunDir
from dtqn.training.replay_fields import smallest_dtype
from dtqn.training.trainer import Trainer
from dtqn.types import map_tree, named_parts, observation_of
from tests.cases import config_from
from tests.training.test_trainer import run

TINY: dict[str, Any] = {
    "total_env_steps": 1_600,
    "warmup_env_steps": 800,
    "metrics_every": 500,
    "network": {
        "width": 8, "num_layers": 1, "mlp_width": 8, "memory_length": 4, "head_width": 8, "embedding_width": 2
    },
    "learner": {"batch_size": 4, "env_steps_per_update": 100.0},
    "replay": {"capacity": 4_000, "learn_length": 6, "burn_in_length": 2},
    "actor": {"num_envs": 80},
    "evaluation": {"episodes": 4, "num_envs": 4, "period": 10**9},
    "task": {"time_limit": 30},
}  # fmt: skip
ONE: dict[str, Any] = {"episodes": 1, "num_envs": 1, "period": 10**9}
FEW: dict[str, Any] = {"actor": {"num_envs": 10}, "evaluation": ONE | {"episodes": 2}}
SMALL_PICTURES: dict[str, Any] = {"grayscale": True, "resize": 16, "time_limit": 20}
ADAPTED: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "cartpole": ("CartPole-v1", None, {}),
    "cartpole-hidden": ("CartPole-v1", None, {"task": {"hide": [1, 3], "frame_stack": 2}}),
    "entry_point": ("gymnasium.envs.classic_control:CartPoleEnv", None, {}),
    "blackjack": ("Blackjack-v1", None, {}),
    "minigrid-7": ("MiniGrid-MemoryS7-v0", "minigrid", FEW),
    "minigrid-13": (
        "MiniGrid-MemoryS13-v0",
        "minigrid",
        FEW | {"task": {"frame_stack": 2, "time_limit": 20}},
    ),
    "repeat": ("popgym-RepeatPreviousEasy-v0", "popgym", {}),
    "autoencode": ("popgym-AutoencodeEasy-v0", "popgym", {}),
    "concentration": ("popgym-ConcentrationEasy-v0", "popgym", {}),
    "pong": (
        "ALE/Pong-v5",
        "ale_py",
        {"total_env_steps": 200, "actor": {"num_envs": 2}, "evaluation": ONE, "task": SMALL_PICTURES},
    ),
}


def config(env: str, **settings: Any) -> Config:
    merged = TINY | {"env": env}
    for name, value in settings.items():
        merged[name] = merged.get(name, {}) | value if isinstance(value, dict) else value
    if merged["warmup_env_steps"] > merged["total_env_steps"]:
        merged["warmup_env_steps"] = merged["total_env_steps"] // 2
    return config_from(merged)


def adapted(name: str, **settings: Any) -> Config:
    id, package, own = ADAPTED[name]
    if package is not None:
        pytest.importorskip(package)
    return config(id, **(own | settings))


def train(trainer: Trainer) -> None:
    """To the end, with what every run must show."""
    before = {name: value.clone() for name, value in trainer.network.state_dict().items()}
    rows = run(trainer)
    assert trainer.env_steps >= trainer.config.total_env_steps
    assert trainer.learner_steps >= 1
    assert trainer.learner.skipped_updates == 0
    assert np.isfinite(rows[-1]["eval/return"])
    assert np.isfinite([row["learner/loss"] for row in rows if "learner/loss" in row]).all()
    assert (rows[-1]["eval/success"] is not None) == trainer.has_success
    for name, parameter in trainer.network.named_parameters():
        if "embedding" not in name:  # of which some vectors stand for what was not seen
            assert not torch.equal(parameter, before[name]), name


def of_each_kind() -> list[str]:
    """The first size or level of every native task."""
    kinds: dict[str, str] = {}
    for id in envs.ids():
        kinds.setdefault(re.sub(r"(-\d+(x\d+)?)+(-v\d+)?$|-(easy|medium|hard)$", "", id), id)
    return list(kinds.values())


@pytest.mark.parametrize("id", of_each_kind())
def test_every_kind_of_native_task_is_trained_on(id: str) -> None:
    spec = envs.spec(id)
    if not isinstance(spec.action_space, gymnasium.spaces.Discrete):
        with pytest.raises(
            ConfigError, match=rf"env is {id}: its actions are Box.*; Q-learning needs Discrete"
        ):
            Trainer(config(id))
        return
    train(Trainer(config(id, total_env_steps=1_100)))


@pytest.mark.parametrize("name", ADAPTED)
def test_tasks_of_other_packages_are_trained_on(name: str) -> None:
    train(Trainer(adapted(name)))


@pytest.mark.parametrize(("image_encoder", "made"), [("nature", "NatureCNN"), ("minigrid", "MiniGridCNN")])
def test_both_image_encoders_are_trained(image_encoder: str, made: str) -> None:
    settings = {"total_env_steps": 300, "network": {"image_encoder": image_encoder}}
    trainer = Trainer(adapted("minigrid-7", **settings))
    train(trainer)
    names = {type(module).__name__ for module in trainer.network.modules()}
    assert names & {"NatureCNN", "MiniGridCNN"} == {made}


@pytest.mark.parametrize("name", ["cartpole-hidden", "minigrid-7", "autoencode", "concentration", "pong"])
def test_what_is_stored_gives_the_q_values_of_the_actor(name: str) -> None:
    """Timesteps and their order survive replay: from an episode's start the network says what it did then."""
    trainer = Trainer(adapted(name, total_env_steps=120, warmup_env_steps=120))
    while not trainer.finished:
        trainer.advance()
    ids = trainer.replay.end_episodes()
    prefix = trainer.replay.prefix(ids, ["q_max", *trainer.schema.input_names])
    assert len(prefix.starts) >= 2
    inputs = trainer.schema.inputs(prefix.timesteps)
    with torch.no_grad():
        output = trainer.network(inputs, trainer.network.initial_state(len(prefix.starts)))[0]
    real = np.arange(output.q.shape[1]) < prefix.num_timesteps[:, None]
    again = output.q.amax(dim=-1).cpu().numpy()
    np.testing.assert_allclose(again[real], prefix.timesteps["q_max"][real], rtol=1e-5, atol=1e-6)
    assert np.unique(again[real].round(5)).size > 5


def test_each_part_is_stored_under_its_name_in_the_smallest_dtype() -> None:
    trainer = Trainer(adapted("minigrid-7", total_env_steps=100))
    fields = trainer.replay.fields
    assert {name: (field.shape, field.dtype) for name, field in fields.items() if "observation" in name} == {
        "observation/direction": ((), np.uint8),
        "observation/image": ((7, 7, 3), np.uint8),
    }
    assert fields["prev_action"].dtype == np.uint8


@pytest.mark.parametrize(
    ("space", "dtype"),
    [
        (gymnasium.spaces.Discrete(256), np.uint8),
        (gymnasium.spaces.Discrete(257), np.int16),
        (gymnasium.spaces.Discrete(200, start=-100), np.int8),
        (gymnasium.spaces.Discrete(200, start=-1), np.int16),
        (gymnasium.spaces.Discrete(70_000), np.int32),
        (gymnasium.spaces.MultiDiscrete([3, 40_000]), np.int32),
        (gymnasium.spaces.MultiDiscrete([3, 4], start=[250, 252]), np.uint8),
        (gymnasium.spaces.MultiBinary(4), np.int8),
        (gymnasium.spaces.Box(0, 255, (4, 4, 3), np.uint8), np.uint8),
        (gymnasium.spaces.Box(0, 1, (4,), np.float32), np.float32),
    ],
)
def test_the_smallest_dtype(space: gymnasium.Space[Any], dtype: type) -> None:
    assert smallest_dtype(space) == dtype


def test_an_observation_and_its_names() -> None:
    assert named_parts(7) == {"observation": 7}
    assert named_parts({"a/b": 1, "0": 2}) == {"observation/a/b": 1, "observation/0": 2}
    for observation in (7, {"a/b": 1, "0": 2}):
        assert observation_of(named_parts(observation) | {"reward": 3}) == observation
    assert map_tree(lambda x, y: x + y, {"a": 1, "b": None}, {"a": 2, "b": None}) == {"a": 3, "b": None}


def test_actions_that_cannot_be_counted_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"env is Pendulum-v1: its actions are Box.*1024 combinations"
    ) as error:
        Trainer(config("Pendulum-v1"))
    assert "\n" not in str(error.value)


class Lock(gymnasium.Env[Any, Any]):
    """A reward for one combination of two components, and none for its halves."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in self.action_space
        self.steps += 1
        return 1, float(action.tolist() == [1, 1]), self.steps == 5, False, {}


def test_actions_of_several_components_are_trained() -> None:
    """From the actor's index to the environment's tuple, and back into replay beside its reward."""
    trainer = Trainer(config("tests.training.test_any_task:Lock", actor={"num_envs": 10}))
    train(trainer)
    stored = trainer.replay.get_state()["rows"]
    acted = ~stored["first"]
    assert set(stored["prev_action"][acted]) == set(range(6))
    np.testing.assert_array_equal(stored["reward"][acted] == 1, stored["prev_action"][acted] == 4)


def test_windows_of_several_parts_are_trained_on_and_resumed(tmp_path: Path) -> None:
    """The actor's state is then raw inputs of a Dict."""
    window = {"core": "dtqn", "context_length": 8}
    before, after = (Trainer(adapted("minigrid-7", network=window, total_env_steps=1_400)) for _ in range(2))
    while before.env_steps < 1_200:
        before.advance()
    checkpoint.save(tmp_path, 1, {}, before.get_state(), {})
    after.set_state(checkpoint.load_state(tmp_path))
    for name, part in before.actor.state.rows.observation.items():
        assert torch.equal(part, after.actor.state.rows.observation[name])
    assert before.actor.state.filled.max() == 7
    train(after)


@pytest.mark.parametrize("name", ["cartpole-hidden", "autoencode"])
def test_other_tasks_resume_with_new_episodes(name: str, tmp_path: Path) -> None:
    """Open episodes end as truncated with the timestep that waits in the checkpoint; ended ones keep it."""
    before, after = (Trainer(adapted(name, actor={"num_envs": 6})) for _ in range(2))
    while before.env_steps < 1_200 or not before.actor.timesteps.last.any():
        before.advance()
    checkpoint.save(tmp_path, 1, {}, before.get_state(), {})
    after.set_state(checkpoint.load_state(tmp_path))
    assert not after.resume_is_exact
    waiting = before.actor.timesteps
    env_steps = after.env_steps
    after.advance()
    assert after.actor.timesteps.first.all() and after.env_steps == env_steps, "no action was taken"
    trainers = (after, Trainer(before.config))
    seen, fresh = (named_parts(trainer.actor.timesteps.observation) for trainer in trainers)
    if name == "cartpole-hidden":  # the episodes are not those that the run began with
        assert not np.isclose(seen["observation"], fresh["observation"]).any()
    num_timesteps = before.replay.get_state()["accumulator"]["num_rows"]
    train(after)
    stored = after.replay.get_state()["rows"]
    per_stream = after.replay.steps_per_stream
    assert num_timesteps.max() < per_stream, "nothing was overwritten"
    counts = after.replay.get_state()["accumulator"]["num_rows"]
    starts = np.cumsum(np.minimum(counts, per_stream)) - np.minimum(counts, per_stream)
    for env_id, (start, count, cut) in enumerate(zip(starts, counts, num_timesteps, strict=True)):
        if count > per_stream:
            continue
        first, last, discount, reward = (
            stored[key][start : start + count] for key in ("first", "last", "discount", "reward")
        )
        np.testing.assert_array_equal(first[1:], last[:-1])
        assert last[cut] and first[cut + 1]
        assert discount[~last].all()
        assert discount[cut] == (not waiting.terminated[env_id])
        assert first[cut] == waiting.first[env_id]
        assert reward[cut] == np.float32(waiting.reward[env_id])
    assert any(counts <= per_stream)


class Fixed(gymnasium.Env[Any, Any]):
    """Five steps, and a reward of 1 for the last."""

    observation_space = gymnasium.spaces.Discrete(6)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return 0, {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return self.t, float(self.t == 5), self.t == 5, False, {}


def test_no_terminating_timestep_is_lost_by_a_resume_with_new_episodes(tmp_path: Path) -> None:
    """32 environments end with the run; made longer, replay has every reward and every end."""
    flags = {"env": f"{__name__}:Fixed", "warmup_env_steps": "500", "evaluation.episodes": "10"}
    flags |= {"wandb": "disabled", "total_env_steps": "800", "evaluator": "inline"}
    directory = RunDir(tmp_path / "run")
    assert session.start(resolve(None, flags, {}), directory, io.StringIO()) == 0
    longer = directory.resumed_config({"total_env_steps": 1600}, {})
    assert session.resume(longer, directory, io.StringIO()) == 0
    state = checkpoint.load_state(directory.checkpoints)
    stored = state["replay"]["rows"]
    ended = stored["last"] & ~stored["discount"]
    assert ended.sum() == stored["reward"].sum() == 1600 / 5 - 32, "and 32 timesteps wait"
    assert (stored["last"] == ended).all()


class Enormous(gymnasium.Env[Any, Any]):
    """Its observations are finite and too large for float32 products."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.array([1e30, 1e38]), {}

    def step(self, action: Any) -> Any:
        return np.array([1e30, 1e38]), 0.0, True, False, {}


class Rich(Enormous):
    """Its rewards are finite in float32, and their differences are not."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2), 3e38 if action else -3e38, True, False, {}


@pytest.mark.parametrize(
    ("task", "what", "right"),
    [
        (Enormous, "the network's Q-values are not finite at ", "scale them, to -1 to 1 or so"),
        (Rich, "the TD errors of new sequences are not finite at ", "give a smaller learner.reward_scale"),
    ],
)
def test_numbers_that_are_too_large_are_one_line(
    task: type, what: str, right: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--env", f"{__name__}:{task.__name__}", "--wandb", "disabled", "--run-dir", str(tmp_path)]
    small = ["--total-env-steps", "400", "--actor.num_envs", "4", "--replay.capacity", "4000"]
    small += ["--network.encoder.normalise", "false"]
    assert cli.main([*flags, *small, "--evaluation.episodes", "2", "--learner.reward-scale", "5"]) == 1
    said = "".join(capsys.readouterr()).strip().splitlines()
    (last,) = (line for line in said if line.startswith("error: "))
    assert last.startswith(f"error: {what}")
    assert last.endswith(f"{right}; nothing has been saved yet")


def test_a_picture_without_a_display_is_drawn_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """SDL would complain in a line that begins with `error:`, as ours do."""
    pytest.importorskip("pygame")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SDL_VIDEODRIVER", "")
    monkeypatch.delenv("SDL_VIDEODRIVER")
    env = envs.make_vector("CartPole-v1", 1, 0, render_mode="rgb_array")
    assert os.environ["SDL_VIDEODRIVER"] == "dummy"
    env.close()
