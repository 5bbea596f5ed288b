"""Acting: one forward pass for all copies of a task at every tick, and the rows that replay stores.

A tick, in this order: the state of the copies that begin an episode is reset; the network runs on every row,
LAST rows and random warm-up steps included; the row, what the pass left behind (its trace row) and the
Q-values are handed out together; actions are chosen; the environments step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch

from dtqn.config import ActorConfig
from dtqn.networks.windowed import QNetwork
from dtqn.schedules import epsilon_ladder, exponential, linear
from dtqn.types import NonFiniteError, State, StepInputs, map_tree, named_parts, reset_rows


class Episodes(NamedTuple):
    """Episodes that ended at a tick, [n] each."""

    episode_return: np.ndarray
    length: np.ndarray
    success: np.ndarray


class VectorRows:
    """The rows that N copies of a task emit, one per copy and tick, as they arrive (NEXT_STEP autoreset).

    The observation is an array [N, ...], or one such array a key for a Dict space.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        self.env = env
        self.begin()

    def begin(self, generator: np.random.Generator | None = None) -> None:
        """New episodes in all copies, seeded by `generator`; without one as the environments were made."""
        count = self.env.num_envs
        seed = None if generator is None else int(generator.integers(2**31))
        self.observation = map_tree(np.asarray, self.env.reset(seed=seed)[0])
        self.prev_action = np.zeros(count, np.int64)
        self.reward = np.zeros(count, np.float64)
        self.terminated = np.zeros(count, bool)
        self.first = np.ones(count, bool)
        self.last = np.zeros(count, bool)
        self.episode_return = np.zeros(count, np.float64)
        self.length = np.zeros(count, np.int64)

    def step(self, action: np.ndarray) -> Episodes:
        """Step every copy; the action of a copy on its LAST row is ignored and begins the next episode."""
        self.first = self.last
        observation, reward, terminated, truncated, infos = self.env.step(action)
        self.observation = map_tree(np.asarray, observation)
        self.prev_action = action
        self.reward = np.asarray(reward, np.float64)
        if not np.isfinite(self.reward).all():
            wrong = self.reward[~np.isfinite(self.reward)][0]
            raise NonFiniteError(f"the task gave the reward {wrong}; every reward must be a finite number")
        self.terminated = np.asarray(terminated)
        self.last = self.terminated | truncated
        self.episode_return = np.where(self.first, 0.0, self.episode_return + self.reward)
        self.length = np.where(self.first, 0, self.length + 1)
        ended = np.flatnonzero(self.last)
        success = infos["is_success"][ended] if "is_success" in infos else np.zeros(len(ended), bool)
        return Episodes(self.episode_return[ended], self.length[ended], success)

    def inputs(self, device: torch.device, dtype: torch.dtype) -> StepInputs:
        """The network's inputs, [N, 1, ...]."""
        return StepInputs(
            map_tree(lambda part: torch.from_numpy(part).to(device)[:, None], self.observation),
            torch.from_numpy(self.prev_action).to(device)[:, None],
            torch.from_numpy(self.reward).to(device, dtype)[:, None],
            torch.from_numpy(self.first).to(device)[:, None],
        )

    _ARRAYS = (
        "observation prev_action reward terminated first last episode_return length".split()  # noqa: SIM905
    )

    def get_state(self) -> dict[str, Any]:
        """`env` is none where the environments' state cannot be saved."""
        env = self.env.get_state()  # type: ignore[attr-defined]
        return {"env": env, **{name: getattr(self, name) for name in self._ARRAYS}}

    def set_state(self, state: dict[str, Any], generator: np.random.Generator) -> None:
        """Goes on from `state`; with new episodes, seeded by `generator`, where the environments' is none."""
        if state["env"] is None:
            self.begin(generator)
            return
        self.env.set_state(state["env"])  # type: ignore[attr-defined]
        for name in self._ARRAYS:
            setattr(self, name, map_tree(np.copy, state[name]))


class Actor:
    """Steps N copies of a task with an epsilon-greedy policy of its own copy of the network."""

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        network: QNetwork,
        config: ActorConfig,
        generator: np.random.Generator,
        warmup_env_steps: int,
        keep_cache: bool,
    ) -> None:
        """
        Args:
            network: the actor's own copy; `publish` overwrites its parameters.
            warmup_env_steps: environment steps of random actions, at the start.
            keep_cache: keep projected keys and values of the memory from one publishing to the next.
        """
        self.rows = VectorRows(env)
        self.network = network.requires_grad_(False)
        self.config = config
        self.generator = generator
        self.warmup_env_steps = warmup_env_steps
        self.keep_cache = keep_cache
        self.version = 0
        self.env_steps = 0
        self.num_actions = int(env.single_action_space.n)  # type: ignore[attr-defined]
        parameter = next(network.parameters())
        self.device, self.dtype = parameter.device, parameter.dtype
        self._parameters: list[torch.Tensor] = list(network.parameters())
        self._trace_names = list(network.trace_spec())
        count = env.num_envs
        ladder = config.exploration == "ladder" and count > 1
        self.final_epsilon = (
            epsilon_ladder(count, config.ladder_base, config.ladder_exponent)
            if ladder
            else np.full(count, config.epsilon_final)
        )
        self._initial = self._fresh_state()
        self.state: State = self._initial

    def _fresh_state(self) -> State:
        """The state at an episode's start under the actor's present parameters, [N, ...]."""
        return self._cached(self.network.initial_state(len(self.final_epsilon)))

    def _cached(self, state: State) -> State:
        if not self.keep_cache:
            return state
        with torch.no_grad():
            return self.network.cache(state)

    def begin_episodes(self) -> None:
        """Leave the present episodes where they are; all copies begin new ones."""
        self.rows.begin(self.generator)

    @torch.no_grad()
    def publish(self, network: QNetwork, version: int) -> None:
        """Take over the parameters of `network`; `version` is the learner step they are from."""
        torch._foreach_copy_(self._parameters, list(network.parameters()))
        self.version = version
        self.state = self._cached(self.state)
        self._initial = self._fresh_state()

    def epsilon(self) -> np.ndarray:
        """[N] the share of random actions of each copy, now."""
        since = self.env_steps - self.warmup_env_steps
        if since < 0:
            return np.ones(len(self.final_epsilon))
        start, duration = self.config.epsilon_start, self.config.epsilon_anneal_env_steps
        if duration == 0:
            return self.final_epsilon
        if self.config.annealing == "exponential":
            return exponential(start, self.final_epsilon, since, duration)
        return linear(start, self.final_epsilon, since / duration)

    def tick(self) -> tuple[dict[str, np.ndarray], Episodes]:
        """One tick of every copy: its rows [N, ...] for replay, and the episodes that its step ended."""
        rows = self.rows
        with torch.no_grad():
            first = torch.from_numpy(rows.first).to(self.device)
            state = reset_rows(self.state, self._initial, first)
            output, self.state, trace = self.network(rows.inputs(self.device, self.dtype), state)
        q = output.q[:, 0].cpu().numpy()
        count = len(q)
        everyone = np.arange(count)
        greedy = q.argmax(axis=1)
        explore = self.generator.random(count) < self.epsilon()
        action = np.where(explore, self.generator.integers(self.num_actions, size=count), greedy)
        stored = {
            **named_parts(rows.observation),
            "prev_action": rows.prev_action,
            "reward": rows.reward,
            "discount": ~rows.terminated,
            "first": rows.first,
            "last": rows.last,
            "q_max": q[everyone, greedy],
            "q_taken": q[everyone, action],
            "version": np.full(count, self.version),
            **{f"trace/{name}": getattr(trace, name)[:, 0].cpu().numpy() for name in self._trace_names},
        }
        taken = count - int(rows.last.sum())
        episodes = rows.step(action)
        self.env_steps += taken  # not where a copy was lost, so that a checkpoint then counts what is stored
        return stored, episodes

    def get_state(self) -> dict[str, Any]:
        return {
            "rows": self.rows.get_state(),
            "memory": {name: value for name, value in self.state._asdict().items() if value is not None},
            "network": self.network.state_dict(),
            "generator": self.generator.bit_generator.state,
            "version": self.version,
            "env_steps": self.env_steps,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.generator.bit_generator.state = state["generator"]
        self.rows.set_state(state["rows"], self.generator)
        self.network.load_state_dict(state["network"])
        self.state = type(self.state)(
            **{name: map_tree(lambda x: x.to(self.device), value) for name, value in state["memory"].items()}
        )
        self._initial = self._fresh_state()
        self.version, self.env_steps = state["version"], state["env_steps"]
