"""A trained run as a policy: what it would do next, without replay, learner or the run's environments."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import torch

from dtqn.networks.q_network import QNetwork
from dtqn.settings import trust
from dtqn.settings.config import Config, wrong
from dtqn.text import one_line
from dtqn.training import objects, trained
from dtqn.training.directory import RunDir, trained_at
from dtqn.training.setup import make_env, num_actions
from dtqn.types import StepInputs, map_tree, reset_states
from envs import TaskError, registry
from envs.checks import ObservationCheck
from envs.language import SpokenVectorEnv


def load(
    run_dir: str | Path,
    weights: Literal["last", "best"] = "last",
    device: str = "cpu",
    trust_code: bool = False,
    handed: Mapping[str, Any] | None = None,
) -> Policy:
    """The greedy policy of a run.

    Args:
        run_dir: the directory of the run, which may still be training, or of an exported agent; `demo`
            is one that comes with this program.
        weights: from the last checkpoint, or the ones that did best in an evaluation.
        device: where the network runs, as torch names it.
        trust_code: run code that the folder names, such as a task `module:Class`, even if none of your runs
            names it.
        handed: objects that the run was given, by setting, such as `{"env": MyEnv, "network.core": MyCore}`;
            for a run that another process began with objects that no module holds.

    If the task has changed since the run began, a UserWarning of one line says so; the policy acts in the
    task as it is now.

    Raises:
        ValueError: the directory holds no run, or no such weights, or there is no such device; in one line.
    """
    try:
        place = torch.empty(0, device=device).device
    except (AssertionError, RuntimeError) as error:  # as torch says that it was built without
        raise wrong("device", device, f"torch cannot use it here ({one_line(error)}); try cpu") from None
    directory = RunDir(trained_at(Path(run_dir)))
    with trust.given(trust_code):
        objects.named(handed or {}, directory)
        config = directory.read_config()
    if warning := directory.task_warning(config):
        warnings.warn(warning, stacklevel=2)
    network = trained.load_network(directory, config, weights).to(place)
    return Policy(config, network)


class Policy:
    """Acts by the largest Q-value in one environment, or in a batch of N, and remembers what it has seen.

        policy = dtqn.load("runs/gridverse-memory-7x7/gtrxl/seed1")
        policy.reset()
        action = policy.act(observation)                   # at the episode's first observation
        action = policy.act(observation, reward)           # at each one after it

    A batch has a leading dimension N everywhere, and `first` marks the environments that begin an episode.
    """

    def __init__(self, config: Config, network: QNetwork) -> None:
        self.config = config
        self.network = network
        """The network that acts, for `dtqn.inspection`."""
        parameter = next(network.parameters())
        self._device, self._dtype = parameter.device, parameter.dtype
        found = registry.task(config.env, **config.task.model_dump())
        task, self._language = found.spec, found.language
        self._space, self._num_actions = task.observation_space, num_actions(task)
        said = self._language or task
        self.observation_space, self.action_space = said.observation_space, said.action_space
        self._check = ObservationCheck(task.id, task.observation_space)
        self.reset()

    def make_env(self, num_envs: int = 1, seed: int = 0) -> gymnasium.vector.VectorEnv:
        """Environments of the task as the run had them: with its options and wrappers."""
        env = make_env(self.config, num_envs, np.random.SeedSequence(seed))
        return env if self._language is None else SpokenVectorEnv(env, self._language)

    @torch.no_grad()
    def reset(self, num_envs: int | None = None) -> None:
        """Forget everything; an episode begins with the next observation.

        Args:
            num_envs: N, for a batch of environments; None for one environment without a batch dimension.

        Raises:
            ValueError: `num_envs` is no integer of at least 1.
        """
        is_int = isinstance(num_envs, int | np.integer) and not isinstance(num_envs, bool)
        if num_envs is not None and not (is_int and num_envs >= 1):
            right = "must be at least 1, an integer, or None for one environment"
            raise ValueError(f"num_envs is {num_envs!r}; {right}")
        self._batched = num_envs is not None
        self._count = num_envs or 1
        self._initial = self.network.cache(self.network.initial_state(self._count))
        self._state = self._initial
        self._prev_action = np.zeros(self._count, np.int64)
        self._begins = np.ones(self._count, bool)

    @torch.no_grad()
    def act(self, observation: Any, reward: Any = None, first: Any = None, *, return_q: bool = False) -> Any:
        """The greedy action at an observation, which also enters the memory.

        Args:
            observation: as the environment gives it, whether its package or `make_env` made it; [N, ...] in
                a batch.
            reward: the one that arrived with it; [N] in a batch. It is not read where an episode begins,
                so the first call may leave it out.
            first: [N] bool, the environments whose observation begins an episode; one environment: a bool.
                None: all at the first call after `reset`, none at later calls.
            return_q: return the Q-values too.

        Returns:
            An action of `action_space`: an int in the suite's own tasks; [N, ...] in a batch. With `return_q`
            also the Q-values, [A] or [N, A].

        Raises:
            ValueError: an array has another shape than the task's, or numbers that the task cannot show.
        """
        begins = self._begins if first is None else self._batch("first", first, (), bool)
        zeros = np.zeros((self._count,) if self._batched else ())
        rewards = self._batch("reward", zeros if reward is None else reward, (), np.float64)
        with np.errstate(over="ignore"):
            finite = np.isfinite(rewards.astype(np.float32))  # which the network reads
        if not (finite | begins).all():
            number = rewards[~finite][0]
            kind = " in float32" if np.isfinite(number) else ""
            raise ValueError(f"reward holds {number}; must be finite{kind}")
        inputs = StepInputs(
            self._observation(observation),
            torch.from_numpy(self._prev_action).to(self._device)[:, None],
            torch.from_numpy(rewards).to(self._device, self._dtype)[:, None],
            torch.from_numpy(begins).to(self._device)[:, None],
        )
        inputs = inputs._replace(reward=inputs.reward.masked_fill(inputs.first, 0.0))
        state = reset_states(self._state, self._initial, inputs.first[:, 0])
        output, self._state, _ = self.network(inputs, state)
        q = output.q[:, 0].cpu().numpy()
        action = q.argmax(axis=1)
        self._prev_action, self._begins = action.copy(), np.zeros(self._count, bool)
        chosen: Any = action if self._language is None else self._language.acts(action)
        if not self._batched:
            chosen, q = int(action[0]) if self._language is None else chosen[0], q[0]
        return (chosen, q) if return_q else chosen

    def acted(self, action: Any) -> None:
        """Tell which action was taken instead of the one that `act` returned, such as an exploring one.

        Args:
            action: as `act` returns it.

        Raises:
            ValueError: it has another shape, or a number that is no action of the task.
        """
        if self._language is not None:
            action = self._language.numbers(action, self._count if self._batched else None)
        actions, count = self._batch("action", action, (), np.int64), self._num_actions
        if (outside := actions[(actions < 0) | (actions >= count)]).size:
            raise ValueError(f"action holds {outside[0]}; the task has 0 to {count - 1}")
        self._prev_action = actions.copy()

    def _observation(self, observation: Any) -> Any:
        """Tensors [N, 1, ...]"""
        if self._language is not None:
            observation = self._language.seen(observation, self._count if self._batched else None)
        names: Any = "observation"
        space: Any = self._space
        if isinstance(space, gymnasium.spaces.Dict):
            space = space.spaces
            if not isinstance(observation, dict) or observation.keys() != space.keys():
                raise ValueError(f"observation must be a dict with the keys {', '.join(space)}")
            names = {key: f"observation {key}" for key in space}
        arrays = map_tree(
            lambda n, x, part: self._batch(n, x, part.shape or (), part.dtype), names, observation, space
        )
        try:
            self._check(arrays)
        except TaskError as fault:  # here the caller's, who may have no batch
            where = f"environment {fault.env_id}: " if self._batched else ""
            raise ValueError(f"{where}{fault.problem.removeprefix('its ')}") from None
        return map_tree(lambda part: torch.from_numpy(part).to(self._device)[:, None], arrays)

    def _batch(self, name: str, value: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """[N, ...] of what is one such array without a batch."""
        wanted = (self._count, *shape) if self._batched else shape
        try:
            array = np.asarray(value, order="C")
        except ValueError:  # lists of several lengths
            raise ValueError(f"{name} is no array; must be one of the shape {wanted}") from None
        if array.shape != wanted:
            raise ValueError(f"{name} has the shape {array.shape}; must be {wanted}")
        array = array if array.dtype == dtype else _converted(name, array, np.dtype(dtype))
        return array if self._batched else array[None]


def _converted(name: str, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The same numbers in another dtype; a ValueError where they would be others.

    No float becomes an integer: one of a picture in [0, 1] would be black.
    """
    floats = "f" if dtype.kind == "f" else ""
    if array.dtype.kind not in f"biu{floats}":
        raise ValueError(f"{name} is {array.dtype}; must be {dtype}")
    converted = array.astype(dtype)
    if not floats and (other := array[converted != array]).size:
        span = f", {np.iinfo(dtype).min} to {np.iinfo(dtype).max}" if dtype.kind in "iu" else ""
        raise ValueError(f"{name} holds {other[0]}; must be {dtype}{span}")
    return converted
