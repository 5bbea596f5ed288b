"""Acting: one forward pass for all copies of a task at every tick, and the rows that replay stores.

A tick has five parts, in this order:

1. The state of the copies that begin an episode is reset.
2. The network runs on every row, LAST rows and random warm-up steps included.
3. The actor hands out the row, its stored memory and its Q-values together.
4. It chooses actions.
5. The environments step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch

from dtqn.acting.exploration import Bursts, Exploration
from dtqn.acting.novelty import Novelty
from dtqn.acting.optimism import Optimism
from dtqn.acting.timesteps import Episodes, Timesteps, VectorTimesteps
from dtqn.networks.q_network import QNetwork
from dtqn.types import State, StepInputs, StoredMemory, from_leaves, leaves, map_tree, reset_states


class Actor:
    """Steps N copies of a task with an epsilon-greedy policy of its own copy of the network."""

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        network: QNetwork,
        *,
        exploration: Exploration,
        bursts: Bursts,
        generator: np.random.Generator,
        keep_cache: bool,
        novelty: Novelty | None = None,
        optimism: Optimism | None = None,
        capture: Callable[..., Callable[..., Any]] | None = None,
    ) -> None:
        """
        Args:
            network: the actor's own copy; `publish` overwrites its parameters.
            exploration: the share of random actions of each copy.
            bursts: of random actions within episodes.
            generator: draws explorations, random actions and, after a resume, the seed of new episodes.
            keep_cache: keep projected keys and values of the memory from one publishing to the next.
            novelty: says which observations are new to their episode; None: nobody asks.
            optimism: a bonus for what was seldom tried, where actions are not random; None: there is none.
            capture: makes of the forward pass one that is recorded and replayed; None: it runs as it is.
        """
        self.rows = VectorTimesteps(env)
        self.network = network.requires_grad_(False)
        self.exploration, self.bursts = exploration, bursts
        self.novelty, self.optimism = novelty, optimism
        self.generator = generator
        self.keep_cache = keep_cache
        self.version = 0
        self.env_steps = 0
        parameter = next(network.parameters())
        self.device, self.dtype = parameter.device, parameter.dtype
        self._parameters: list[torch.Tensor] = list(network.parameters())
        self._memory_names = list(network.memory_spec())
        self._initial = self._fresh_state()
        # A view: all copies share one start until they step.
        self.state: State = map_tree(lambda x: x.expand(env.num_envs, *x.shape[1:]), self._initial)
        self._run: Callable[..., Any] = self._step if capture is None else capture(self._step)

    def _fresh_state(self) -> State:
        """The state at an episode's start under the actor's present parameters, [1, ...], for all copies."""
        return self._cached(self.network.initial_state(1))

    def _cached(self, state: State) -> State:
        if not self.keep_cache:
            return state
        with torch.no_grad():
            return self.network.cache(state)

    def begin_episodes(self) -> None:
        """Leave the present episodes where they are; all copies begin new ones."""
        self.rows.begin(self.generator)

    @torch.no_grad()
    def publish(self, parameters: Sequence[torch.Tensor], version: int) -> None:
        """Take over a network's `parameters`, in its order; `version` is the learner step they are from."""
        torch._foreach_copy_(self._parameters, list(parameters))
        self.version = version
        # Kept keys and values are of the old parameters; the layer inputs that they are made of stay.
        self.state = self._cached(self.state)
        self._initial = self._fresh_state()

    def epsilon(self) -> np.ndarray:
        """[N] the share of random actions of each copy, now."""
        return self.exploration.epsilon(self.env_steps)

    def metrics(self) -> dict[str, float]:
        """The mean share of random actions, now."""
        return {"actor/epsilon": float(self.epsilon().mean())}

    def tick(self) -> tuple[Timesteps[np.ndarray], Episodes]:
        """One tick of every copy: its rows [N, ...] for replay, and the episodes that its step ended."""
        rows = self.rows
        self.bursts.begin(rows.first, self.generator)
        q_values, state, trace = self._run(rows.inputs(self.device, self.dtype), self.state, self._initial)
        q, left = q_values.cpu().numpy(), leaves(trace)
        count = len(q)
        everyone = np.arange(count)
        greedy = q.argmax(axis=1)
        epsilon = np.where(self.bursts.active(rows.length), 1.0, self.epsilon())
        # Both draws are made for every copy, so that none depends on who explores.
        explore = self.generator.random(count) < epsilon
        # A bonus decides what is tried. The Q-values that are stored do not have it.
        best = greedy if self.optimism is None else (q + self.optimism.bonus(rows.observation)).argmax(axis=1)
        action = np.where(explore, self.generator.integers(rows.num_actions, size=count), best)
        emitted = Timesteps(
            observation=rows.observation,
            prev_action=rows.prev_action,
            reward=rows.reward,
            # A time limit ends an episode, but not what it is worth: its last row is bootstrapped from.
            discount=~rows.terminated,
            first=rows.first,
            last=rows.last,
            novel=np.zeros(count, bool),
            q_max=q[everyone, greedy],
            q_taken=q[everyone, action],
            version=np.full(count, self.version),
            memory={name: left[name][:, 0].cpu().numpy() for name in self._memory_names},
        )
        episodes = rows.step(action)
        self.ended = rows.last
        # Where that fails these rows are still to be had, and nothing has been remembered or counted of them.
        self.state = state
        if self.optimism is not None:
            self.optimism.acted(action, rows.first)
        if self.novelty is not None:
            emitted = emitted._replace(novel=self.novelty.look(emitted.observation, emitted.first))
        self.bursts.end(rows.last, rows.length)
        # These are the next rows by now: a copy that is first there was reset, which is no env step.
        self.env_steps += count - int(rows.first.sum())
        return emitted, episodes

    @torch.no_grad()
    def _step(
        self, inputs: StepInputs, state: State, initial: State
    ) -> tuple[torch.Tensor, State, StoredMemory]:
        """Q-values [N, A] of one row of every copy, the state after it and its trace."""
        output, state, trace = self.network(inputs, reset_states(state, initial, inputs.first[:, 0]))
        return output.q[:, 0], state, trace

    def _parts(self) -> dict[str, Bursts | Novelty | Optimism | None]:
        return {"bursts": self.bursts, "novelty": self.novelty, "optimism": self.optimism}

    def get_state(self) -> dict[str, Any]:
        """All that `set_state` needs to go on bit for bit."""
        return {
            "rows": self.rows.get_state(),
            "memory": leaves(self.state),
            "network": self.network.state_dict(),
            "generator": self.generator.bit_generator.state,
            "version": self.version,
            "env_steps": self.env_steps,
            **{name: None if part is None else part.get_state() for name, part in self._parts().items()},
        }

    def set_state(self, state: dict[str, Any]) -> bool:
        """Go on from `get_state`; whether exactly so, and not with new episodes."""
        self.generator.bit_generator.state = state["generator"]
        self.rows.set_state(state["rows"], self.generator)
        self.network.load_state_dict(state["network"])
        memory = {path: x.to(self.device, copy=True) for path, x in state["memory"].items()}
        self.state = from_leaves(self.network.initial_state(self.rows.env.num_envs), memory)
        self._initial = self._fresh_state()
        self.version, self.env_steps = state["version"], state["env_steps"]
        for name, part in self._parts().items():
            if part is not None:
                part.set_state(state[name])
        return state["rows"]["env"] is not None

    def news(self) -> list[str]:
        """None: of a process beside the run there might be some."""
        return []

    def close(self) -> None:
        """The copies of the task end with the program."""
