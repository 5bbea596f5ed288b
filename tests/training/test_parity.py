"""Parity: from a stored sequence the learner's path returns the Q-values that the actor saw.

A run acts with fixed parameters in tasks whose episodes end at different times, long enough for the rings to
go round; the Q-values of every (vector step, stream) are noted. Then sequences are sampled, converted and run
as for an update, and every learned timestep and those of the tail are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from dtqn.learning import losses
from dtqn.training.trainer import Trainer
from dtqn.types import Sequences
from replay import SampleInfo
from tests.cases import SMALL, config_from
from tests.learning.learners import errors_of
from tests.training.toys import compute_in, play_toy

NUM_ENVS, STEPS, M = 8, 75, 5
FOREVER = 10**9
OF_GRIDVERSE: dict[str, Any] = {
    "task": "gridverse-memory-7x7",
    "replay": {"burn_in_length": 10, "learn_length": 20, "sequence_period": 20, "capacity": 90 * NUM_ENVS},
    **{"width": 64, "num_heads": 4, "mlp_width": 128, "head_width": 64, "memory_length": 20},
    "embedding_width": 8,
}
"""The task itself, for which the default network and layout are made."""
K = 8
WINDOWED = {"core": "dtqn", "context_length": K, "gate": "residual", "norm": "post"}


class Played(NamedTuple):
    trainer: Trainer
    q: np.ndarray
    """[steps, N, A] as the actor saw them."""
    episode: np.ndarray
    """[steps, N] the number of the timestep's episode in its stream."""


def play(
    monkeypatch: pytest.MonkeyPatch,
    *,
    task: str = "toy",
    dtype: torch.dtype = torch.float64,
    memory_dtype: str = "float64",
    parameters: float = 0.3,
    keeps_keys: bool = False,
    replay: dict[str, Any] | None = None,
    learner: dict[str, Any] | None = None,
    **network: Any,
) -> Played:
    """Act for STEPS vector steps, as a run does while it warms up, and note what the actor sees."""
    if task == "toy":
        play_toy(monkeypatch)
    compute_in(monkeypatch, dtype, memory_dtype, parameters)
    config = config_from(
        {
            "env": task,
            "seed": 3,
            "total_env_steps": FOREVER,
            "warmup_env_steps": FOREVER,
            "metrics_every": FOREVER,
            "device": "cpu",
            "task": {"time_limit": 40},
            "network": SMALL | {"memory_length": M} | network,
            "learner": {"n_step": 3, "env_steps_per_update": 1000 if keeps_keys else 1} | (learner or {}),
            "replay": {
                "capacity": 52 * NUM_ENVS,
                "learn_length": 4,
                "sequence_period": 2,
                "burn_in_length": 3,
            }
            | (replay or {})
            | {"memory_dtype": "float32" if memory_dtype == "float64" else memory_dtype},
            "actor": {"num_envs": NUM_ENVS},
            "evaluation": {"period": FOREVER},
        }
    )

    trainer = Trainer(config)
    q, first = [], []

    def note(module: nn.Module, inputs: Any, output: Any) -> None:
        q.append(output[0].q[:, 0].numpy().copy())
        first.append(inputs[0].first[:, 0].numpy().copy())

    handle = trainer.actor.network.register_forward_hook(note)
    for _ in range(STEPS):
        trainer.advance()
    handle.remove()
    return Played(trainer, np.stack(q), np.cumsum(first, axis=0))


def draw(played: Played, seed: int = 0, size: int = 200) -> tuple[Sequences, SampleInfo]:
    sampled, info = played.trainer.replay.sample(size, np.random.default_rng(seed))
    return played.trainer.schema.sequences(sampled, info.importance_weights), info


def as_acted(played: Played, batch: Sequences, info: SampleInfo) -> torch.Tensor:
    """[B, R, A] what the actor saw at the timesteps of the learned segment; padding repeats the last one."""
    start, stream = np.divmod(info.ids, NUM_ENVS)
    step = np.arange(batch.learn.first.shape[1])
    timesteps = start[:, None] + np.minimum(step, batch.learn_timesteps.numpy()[:, None] - 1)
    return torch.from_numpy(played.q[timesteps, stream[:, None]])


@torch.no_grad()
def errors(played: Played, batch: Sequences, info: SampleInfo) -> torch.Tensor:
    """[B] the largest difference between the learner's and the actor's Q-values at real timesteps."""
    network = played.trainer.learner.online
    q = network.learn_values(batch)[0].q
    real = torch.arange(q.shape[1]) < batch.learn_timesteps[:, None]
    return (q - as_acted(played, batch, info)).abs().amax(-1).where(real, 0.0).amax(-1)


def error(played: Played, batch: Sequences, info: SampleInfo) -> float:
    return float(errors(played, batch, info).max())


def assert_every_kind_is_there(played: Played, batch: Sequences, info: SampleInfo) -> None:
    """The batch must hold what the test says it tests."""
    config = played.trainer.config
    held, burned = batch.memory_valid.sum(dim=1), batch.burn_in_timesteps
    window, burn_in = config.network.core.memory_length, config.replay.burn_in_length
    start, stream = np.divmod(info.ids, NUM_ENVS)
    assert (start == 0).sum() == 0 and len(
        played.q
    ) > played.trainer.replay.steps_per_stream  # the rings went round
    assert ((held == 0) & (burned == 0)).any()  # an episode's start
    assert (batch.learned_steps == 1).any() and (batch.learn_timesteps == 7).any()
    terminated = (batch.discount == 0).any(dim=1)
    assert terminated.any() and not terminated.all()
    if window:
        assert (held == window).any()
    if window > 1:
        assert ((held > 0) & (held < window)).any()  # partly filled
    if burn_in > 1:
        number = played.episode[start, stream]
        before = [(played.episode[:, s] == n - 1).sum() for n, s in zip(number, stream, strict=True)]
        after_short = np.array(before) - 1 < burn_in
        assert (after_short & (burned.numpy() > 0)).any()
    started = played.episode[1:] != played.episode[:-1]
    assert (started.any(axis=1) & ~started.all(axis=1)).sum() > 20  # episodes do not begin together


AVERAGES = {"core": "tests.own_cores:Averages"}
"""A core with two windows."""


@pytest.mark.parametrize(
    "settings",
    [
        *({"replay": {"burn_in_length": length}} for length in range(M + 4)),
        *({"replay": {"burn_in_length": length}} | AVERAGES for length in (0, 1, 3, 7)),
        {"gate": "residual", "norm": "post"},
        {"gate": "output", "norm": "post", "use_prev_action": False},
        {"gate": "input", "dueling": False},
        {"gate": "highway", "use_prev_reward": True},
        {"gate": "sigtanh", "num_layers": 1},
        {"memory_length": 0},
        {"memory_length": 1},
        {"memory_length": 12},
        {"keeps_keys": True},  # the actor keeps keys and values
        {"replay": {"sequence_period": 1}},
        {"replay": {"sequence_period": 4}},
        {"replay": {"sequence_period": 3, "burn_in_length": 7}, "memory_length": 4},
        {"distribution": "categorical", "num_atoms": 5},
    ],
    ids=str,
)
def test_networks_and_layouts(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    played = play(monkeypatch, **settings)
    if "core" not in settings:
        assert (played.trainer.actor.state.keys is not None) == ("keeps_keys" in settings)
    batch, info = draw(played)
    assert_every_kind_is_there(played, batch, info)
    assert error(played, batch, info) < 1e-9


@pytest.mark.parametrize("windowed", [False, True])
def test_the_learners_td_errors_are_of_the_actors_choices(
    windowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q(s_t, a_t) of the learned steps is the actor's, of the action that it took at t.

    Of windows it is in those that begin an episode: with h dividing K, its first K steps are learned so.
    """
    layout = {"learn_length": 4, "burn_in_length": K - 4, "sequence_period": 4}
    played = play(monkeypatch, replay=layout, **WINDOWED) if windowed else play(monkeypatch)
    batch, info = draw(played)
    _, mask, q_taken, *_ = errors_of(played.trainer.learner, batch)
    start, stream = np.divmod(info.ids, NUM_ENVS)
    given = np.stack(played.trainer.actor.timesteps.env.actions)
    begins = batch.episode_step.numpy() == 0
    compared = np.flatnonzero(begins | (not windowed))
    for b in compared:
        for t in range(int(batch.learned_steps[b])):
            step = start[b] + t
            expected = played.q[step, stream[b], given[step, stream[b]]]
            assert q_taken[b, t].item() == pytest.approx(expected, abs=1e-9)
    assert mask.sum() == batch.learned_steps.sum() and batch.learned_steps[compared].sum() > 200
    assert not windowed or set(batch.burn_in_timesteps[begins].tolist()) == {0, 4}


@pytest.mark.parametrize(
    "learner, network",
    [
        ({}, {}),
        ({"value_rescaling": True, "reward_scale": 1.0, "double_q": False}, {"core": "gru"}),
        ({"returns": "peng"}, {}),
        ({"returns": "watkins", "q_lambda": 0.9}, {}),
        ({}, {"distribution": "categorical", "num_atoms": 5}),
    ],
    ids=str,
)
def test_first_priorities_are_the_learners(
    learner: dict[str, Any], network: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While both networks are the one that acted: probabilities are in proportion to them, to alpha."""
    played = play(monkeypatch, learner=learner, **network)
    batch, info = draw(played)
    errors = errors_of(played.trainer.learner, batch)
    config = played.trainer.config.replay
    priority = losses.sequence_priority(errors.td_error, errors.mask)
    share = priority.detach().numpy() ** config.priority_exponent / info.probabilities
    assert priority.std() > 0.1 * priority.mean()
    np.testing.assert_allclose(share, share[0], rtol=1e-4)


def test_without_stored_memory_only_whole_histories_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """`replay.memory: zero` is exact where burn-in goes back to the episode's start."""
    played = play(monkeypatch, replay={"memory": "zero"})
    batch, info = draw(played)
    exact = errors(played, batch, info) < 1e-9
    assert exact.tolist() == (batch.episode_step == 0).tolist()
    assert exact.any() and not exact.all()


@pytest.mark.parametrize(
    "dtype, memory_dtype, bar",
    [
        (torch.float64, "float64", 1e-9),
        (torch.float64, "float32", 1e-7),
        (torch.float32, "float32", 1e-5),
        (torch.float32, "float16", 1e-3),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "settings", [{}, {"gate": "residual", "norm": "post"}, OF_GRIDVERSE], ids=["toy", "residual", "gridverse"]
)
def test_narrower_memory(
    dtype: torch.dtype,
    memory_dtype: str,
    bar: float,
    settings: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bar is a share of the largest |Q|, or of 1."""
    played = play(monkeypatch, dtype=dtype, memory_dtype=memory_dtype, parameters=0.05, **settings)
    batch, info = draw(played)
    assert batch.memory["memory"].dtype == getattr(torch, memory_dtype)
    assert error(played, batch, info) < bar * max(1.0, abs(played.q).max())


def as_the_actor_sees(played: Played, batch: Sequences) -> torch.Tensor:
    """[B, R] whether a timestep's window is the actor's: it begins an episode, or is full and ends there."""
    place = batch.burn_in_timesteps[:, None] + torch.arange(batch.learn.first.shape[1])
    total = (batch.burn_in_timesteps + batch.learn_timesteps)[:, None]
    first_window = (place < K) & ((batch.episode_step == 0)[:, None] | (place == K - 1))
    second_window = (place >= K) & (place == total - 1)
    return (first_window | second_window) & (place < total)


@pytest.mark.parametrize("learn_length", [1, 3, 4, K])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm": "pre", "gate": "gru", "positions": "sinusoidal"},
        {"norm": "none", "num_layers": 1, "head_width": 0},
        {"distribution": "categorical", "num_atoms": 5},
        {"norm": "pre", "share_gates": True, "final_norm": True, "use_prev_reward": True},
    ],
    ids=str,
)
def test_windows(settings: dict[str, Any], learn_length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner's windows and the actor's agree where they hold the same timesteps, and nowhere else."""
    layout = {"learn_length": learn_length, "burn_in_length": K - learn_length, "sequence_period": 1}
    played = play(monkeypatch, replay=layout, **(WINDOWED | settings))
    assert not any(field.block == "memory" for field in played.trainer.replay.fields.values())
    batch, info = draw(played)
    with torch.no_grad():
        q = played.trainer.learner.online.learn_values(batch)[0].q
    difference = (q - as_acted(played, batch, info)).abs().amax(-1)
    same = as_the_actor_sees(played, batch)
    assert difference[same].max() < 1e-9
    place = batch.burn_in_timesteps[:, None] + torch.arange(q.shape[1])
    real = torch.arange(q.shape[1]) < batch.learn_timesteps[:, None]
    others = real & ~same
    assert difference[others].min() > 1e-9 if others.any() else learn_length == 1
    # The batch holds what the test says: episodes' starts, full windows in the middle, second windows.
    assert (same & (place < K - 1)).any() and (same & (place >= K)).any()
    assert (same & (place == K - 1) & (batch.episode_step > 0)[:, None]).any()
    terminated = (batch.discount == 0).any(dim=1)
    assert terminated.any() and not terminated.all()


def shifted(x: torch.Tensor) -> torch.Tensor:
    return x.roll(1, dims=1)


BREAKS: dict[str, Callable[[Sequences], Sequences]] = {
    "prev_action": lambda s: s._replace(learn=s.learn._replace(prev_action=shifted(s.learn.prev_action))),
    "prev_action of burn-in": lambda s: s._replace(
        burn_in=s.burn_in._replace(prev_action=shifted(s.burn_in.prev_action))
    ),
    "observation": lambda s: s._replace(learn=s.learn._replace(observation=shifted(s.learn.observation))),
    "reward": lambda s: s._replace(learn=s.learn._replace(reward=shifted(s.learn.reward))),
    "first": lambda s: s._replace(learn=s.learn._replace(first=torch.zeros_like(s.learn.first))),
    "memory": lambda s: s._replace(memory={name: shifted(x) for name, x in s.memory.items()}),
    "valid": lambda s: s._replace(memory_valid=shifted(s.memory_valid)),
    "all valid": lambda s: s._replace(memory_valid=torch.ones_like(s.memory_valid)),
    "burn-in left out": lambda s: s._replace(burn_in_timesteps=torch.zeros_like(s.burn_in_timesteps)),
    "burn-in one step short": lambda s: s._replace(burn_in_timesteps=(s.burn_in_timesteps - 1).clamp(min=0)),
}


@pytest.fixture(scope="module")
def aligned() -> tuple[Played, Sequences, SampleInfo]:
    """A batch in parity, to be broken: no test changes it."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        played = play(monkeypatch, use_prev_reward=True)
    batch, info = draw(played)
    assert error(played, batch, info) < 1e-9
    return played, batch, info


@pytest.mark.parametrize("name", BREAKS)
def test_a_misalignment_of_one_step_is_seen(name: str, aligned: tuple[Played, Sequences, SampleInfo]) -> None:
    """Each of these must break parity, or the tests above prove nothing of it."""
    played, batch, info = aligned
    assert error(played, BREAKS[name](batch), info) > 1e-3
