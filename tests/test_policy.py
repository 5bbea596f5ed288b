"""A trained run as a policy, beside the network on whole episodes and beside the suite's own evaluation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import dtqn
import envs
from dtqn.inspection import recorder
from dtqn.policy import Policy, _converted
from dtqn.training import trained
from dtqn.training.directory import RunDir
from dtqn.types import StepInputs
from tests import tiny

_SHORT = (
    *("--env", "gridverse-memory-5x5", "--task.time_limit", "15", "--evaluation.episodes", "8"),
    *("--network.encoder.use_prev_reward", "true"),
)
AGENTS = {
    "gtrxl": ("--network.core.memory_length", "6"),
    "gru": ("--network.core.memory_length", "6"),
    "dtqn": (
        "--network.core.context_length",
        "6",
        "--replay.learn_length",
        "3",
        "--replay.burn_in_length",
        "3",
    ),
}


@pytest.fixture(scope="module", params=AGENTS)
def run_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / request.param
    return tiny.train(path, request.param, *_SHORT, *AGENTS[request.param])


def test_one_environment_acts_as_the_network_does_on_the_whole_episode(run_dir: Path) -> None:
    policy = dtqn.load(run_dir)
    env = gymnasium.make("gridverse-memory-5x5", max_episode_steps=15)
    for episode in range(2):
        policy.reset()
        observation, _ = env.reset(seed=episode)
        reward, over = 0.0, False
        seen, actions, rewards, told = [], [], [], []
        while not over:
            seen.append(observation)
            rewards.append(reward)
            action, q = policy.act(observation, reward, return_q=True)
            assert isinstance(action, int) and action == int(q.argmax())
            actions.append(action)
            told.append(q)
            observation, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
        network = trained.load_network(RunDir(run_dir), policy.config, "last")
        steps = len(seen)
        whole = StepInputs(
            torch.from_numpy(np.stack(seen))[None],
            torch.tensor([[0, *actions[:-1]]]),
            torch.tensor([rewards], dtype=torch.float32),
            torch.arange(steps)[None] == 0,
        )
        with torch.no_grad():
            expected = network(whole, network.initial_state(1))[0].q[0].numpy()
        np.testing.assert_allclose(np.stack(told), expected, atol=1e-4)
        assert steps > 1


def test_arrays_of_the_caller_stay_the_callers(run_dir: Path) -> None:
    """Views are read as they are, and an array that is changed later changes no memory."""
    policies = [dtqn.load(run_dir) for _ in range(2)]
    env = policies[0].make_env(2, seed=5)
    observation, _ = env.reset()
    actions = np.array([1, 2])
    for policy, given in zip(policies, (actions, actions.copy()), strict=True):
        policy.reset(2)
        chosen = policy.act(observation[::-1], np.zeros(2))
        chosen[:] = 0
        policy.acted(given)
    actions[:] = 0
    _, q = policies[0].act(observation, np.zeros(2), return_q=True)
    _, expected = policies[1].act(np.ascontiguousarray(observation), np.zeros(2), return_q=True)
    np.testing.assert_array_equal(q, expected)


def _first_episodes(policy: Policy, env: gymnasium.vector.VectorEnv) -> np.ndarray:
    """The returns of every environment's first episode."""
    num_envs = env.num_envs
    policy.reset(num_envs)
    observation, _ = env.reset()
    reward, first, last = np.zeros(num_envs), np.ones(num_envs, bool), np.zeros(num_envs, bool)
    returns, going = np.zeros(num_envs), np.ones(num_envs, bool)
    while going.any():
        observation, reward, terminated, truncated, _ = env.step(policy.act(observation, reward, first))
        first, last = last, terminated | truncated  # NEXT_STEP autoreset: a first timestep follows a last one
        returns += np.where(going, reward, 0.0)
        going &= ~last
    return returns


def test_a_batch_plays_the_evaluation_of_the_run(run_dir: Path) -> None:
    """The same episodes as those of `eval`, so the same return."""
    policy = dtqn.load(run_dir)
    returns = _first_episodes(policy, policy.make_env(8, seed=5))
    assert returns.mean() == pytest.approx(dtqn.evaluate(run_dir, 8, 5).episode_return)


def test_another_task_is_played_as_by_hand(run_dir: Path) -> None:
    """With the options of the run but for those that are given."""
    seed = np.random.SeedSequence(5)
    for options in ({}, {"time_limit": 4}):
        env = envs.make_vector("gridverse-memory-7x7", 8, seed, **({"time_limit": 15} | options))
        returns = _first_episodes(dtqn.load(run_dir), env)
        other = {"env": "gridverse-memory-7x7"} | {f"task.{name}": value for name, value in options.items()}
        result = dtqn.evaluate(run_dir, 8, 5, other_task=other)
        assert returns.mean() == pytest.approx(result.episode_return)
        assert recorder.load(RunDir(run_dir), "last", 8, 5, other).config.env == "gridverse-memory-7x7"


def test_a_task_of_other_spaces_is_refused(run_dir: Path) -> None:
    with pytest.raises(ValueError, match=r"^env is hallway: its observation space is .*; must be as in"):
        dtqn.evaluate(run_dir, 8, 5, other_task={"env": "hallway"})


def test_what_was_done_instead_enters_the_memory(run_dir: Path) -> None:
    policy = dtqn.load(run_dir)
    observation = envs.make_vector("gridverse-memory-5x5", 1, 3).reset()[0][0]
    told = []
    for done in (0, 1):
        policy.reset()
        policy.act(observation)
        policy.acted(done)
        told.append(policy.act(observation, 0.0, return_q=True)[1])
    assert np.abs(told[0] - told[1]).max() > 1e-6


def test_first_forgets_one_environment_alone(run_dir: Path) -> None:
    policy = dtqn.load(run_dir)
    env = policy.make_env(2, seed=1)
    observation, _ = env.reset()
    policy.reset(2)
    begun = policy.act(observation, np.zeros(2), return_q=True)[1]
    policy.act(observation, np.zeros(2), [False, False])
    again = policy.act(observation, np.zeros(2), [True, False], return_q=True)[1]
    np.testing.assert_allclose(again[0], begun[0], atol=1e-5)
    assert np.abs(again[1] - begun[1]).max() > 1e-6


def test_best_weights_are_those_of_the_best_evaluation(run_dir: Path) -> None:
    policy = dtqn.load(run_dir, "best")
    expected = trained.load_network(RunDir(run_dir), policy.config, "best").state_dict()
    assert all(torch.equal(x, expected[name]) for name, x in policy.network.state_dict().items())


def test_mistakes_are_one_line(run_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no run \(there is no config.yaml\)$"):
        dtqn.load(tmp_path)
    with pytest.raises(ValueError, match=r"^weights is bset: must be last or best$"):
        dtqn.load(run_dir, "bset")
    policy = dtqn.load(run_dir)
    with pytest.raises(ValueError, match=r"^observation has the shape \(4,\); must be \(6,\)$"):
        policy.act(np.zeros(4, np.uint8))
    policy.reset(3)
    with pytest.raises(ValueError, match=r"^reward has the shape \(2,\); must be \(3,\)$"):
        policy.act(np.zeros((3, *policy.observation_space.shape), np.uint8), [0.0, 0.0])
    with pytest.raises(ValueError, match=r"^observation is no array; must be one of the shape \(3, 6\)$"):
        policy.act([[0] * 6, [0] * 6, [0] * 5])
    with pytest.raises(ValueError, match=r"^num_envs is 0; must be at least 1"):
        policy.reset(0)


def test_what_the_task_cannot_show_is_one_line(run_dir: Path) -> None:
    """Each number of an observation is embedded by its place: one beyond its space would be another's."""
    policy = dtqn.load(run_dir)
    space = policy.observation_space
    seen = np.zeros(space.shape, space.dtype)
    most = int(space.nvec[0]) - 1
    for first, must in ((most + 1, f"its space has 0 to {most} there"), (-1, "must be uint8, 0 to 255")):
        odd = seen.astype(np.int64)
        odd[0] = first
        with pytest.raises(ValueError, match=f"^observation holds {first}; {must}$"):
            policy.act(odd)
    with pytest.raises(ValueError, match=rf"^observation is float64; must be {space.dtype}$"):
        policy.act(seen + 0.9)
    policy.act(seen.tolist())
    with pytest.raises(ValueError, match=r"^reward holds nan; must be finite$"):
        policy.act(seen, float("nan"))
    with pytest.raises(ValueError, match=r"^reward holds 1e\+39; must be finite in float32$"):
        policy.act(seen, 1e39)
    for odd_count in (2.5, True, "a"):
        with pytest.raises(ValueError, match=r"^num_envs is .*; must be at least 1, an integer, or None"):
            policy.reset(odd_count)
    with pytest.raises(ValueError, match=r"^first is <U5; must be bool$"):
        policy.act(seen, 0.0, "False")
    actions = int(policy.action_space.n)
    for action in (-1, actions):
        with pytest.raises(ValueError, match=rf"^action holds {action}; the task has 0 to {actions - 1}$"):
            policy.acted(action)
    with pytest.raises(ValueError, match=r"^action is float64; must be int64$"):
        policy.acted(0.7)
    policy.reset(2)
    with pytest.raises(
        ValueError, match=rf"^environment 1: observation holds {most + 1}; its space has 0 to {most} there$"
    ):
        policy.act(np.stack([seen, np.full_like(seen, most + 1)]))


def test_a_picture_is_of_the_bytes_of_its_space() -> None:
    small, wide = np.array([0, 255]), np.array([0, 256])
    assert _converted("picture", small, np.dtype(np.uint8)).tolist() == [0, 255]
    with pytest.raises(ValueError, match=r"^picture holds 256; must be uint8, 0 to 255$"):
        _converted("picture", wide, np.dtype(np.uint8))
    with pytest.raises(ValueError, match=r"^picture is float64; must be uint8$"):
        _converted("picture", small / 255, np.dtype(np.uint8))
    assert _converted("floats", small / 255, np.dtype(np.float32)).dtype == np.float32


def test_a_device_that_is_not_there_is_one_line(run_dir: Path) -> None:
    for device in ("tpu", *([] if torch.cuda.is_available() else ["cuda"])):
        with pytest.raises(
            ValueError, match=rf"^device is {device}: torch cannot use it here \(.+; try cpu$"
        ):
            dtqn.load(run_dir, device=device)


def test_the_example_of_the_page_on_usage_plays_an_episode(run_dir: Path) -> None:
    page = (Path(dtqn.__file__).parents[1] / "docs/usage.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n([^`]*dtqn\.load.*?)```", page, re.DOTALL)
    example = example.replace("runs/gridverse-memory-7x7/gtrxl/seed1", str(run_dir)).replace("7x7", "5x5")
    names: dict[str, Any] = {}
    exec(compile(example, "usage.md", "exec"), names)
    assert names["over"] and names["q"].shape == (names["policy"].action_space.n,)
