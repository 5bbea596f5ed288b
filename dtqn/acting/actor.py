"""Acting: each vector step runs the network once for all environments and makes timesteps for replay.

A vector step has five parts, in this order:

1. The network's state is reset for environments that begin an episode.
2. The network runs on every timestep, including last ones and the random warm-up.
3. The actor hands out the timestep, its stored memory and its Q-values together.
4. It chooses actions.
5. The environments step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor

from dtqn.acting.exploration import Bursts, Exploration
from dtqn.acting.novelty import Novelty
from dtqn.acting.timesteps import Episodes, Timesteps, VectorTimesteps
from dtqn.acting.untried import Untried
from dtqn.networks.q_network import QNetwork
from dtqn.types import State, StepInputs, StoredMemory, from_leaves, leaves, map_tree, reset_states


class Actor:
    """Steps N environments with an epsilon-greedy policy of its own copy of the network."""

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
        untried: Untried | None = None,
        capture: Callable[..., Callable[..., Any]] | None = None,
    ) -> None:
        """
        Args:
            network: the actor's own copy; `sync_weights` overwrites its parameters.
            exploration: the share of random actions of each environment.
            bursts: of random actions within episodes.
            generator: draws explorations, random actions and, after a resume, the seed of new episodes.
            keep_cache: keep projected keys and values of the memory from one sync of weights to the next.
            novelty: says which observations are new to their episode; None: nobody asks.
            untried: takes what was never tried, where actions are not random; None: nobody does.
            capture: makes of the forward pass one that is recorded and replayed; None: it runs as it is.
        """
        self.timesteps = VectorTimesteps(env)
        self.network = network.requires_grad_(False)
        self.exploration, self.bursts = exploration, bursts
        self.novelty, self.untried = novelty, untried
        self.generator = generator
        self.keep_cache = keep_cache
        self.version = 0
        self.env_steps = 0
        parameter = next(network.parameters())
        self.device, self.dtype = parameter.device, parameter.dtype
        self._parameters: list[Tensor] = list(network.parameters())
        self._memory_names = list(network.memory_spec())
        self._initial = self._fresh_state()
        # A view: all environments share one start until they step.
        self.state: State = map_tree(lambda x: x.expand(env.num_envs, *x.shape[1:]), self._initial)
        self._run: Callable[..., Any] = self._step if capture is None else capture(self._step)

    def _fresh_state(self) -> State:
        """The state at an episode's start under the present parameters, [1, ...], for all environments."""
        return self._cached(self.network.initial_state(1))

    def _cached(self, state: State) -> State:
        if not self.keep_cache:
            return state
        with torch.no_grad():
            return self.network.cache(state)

    def begin_episodes(self) -> None:
        """Leave the present episodes where they are; all environments begin new ones."""
        self.timesteps.begin(self.generator)

    @torch.no_grad()
    def sync_weights(self, parameters: Sequence[Tensor], version: int) -> None:
        """Take over a network's `parameters`, in its order; `version` is the learner step they are from."""
        torch._foreach_copy_(self._parameters, list(parameters))
        self.version = version
        # Kept keys and values are of the old parameters; the layer inputs that they are made of stay.
        self.state = self._cached(self.state)
        self._initial = self._fresh_state()

    def epsilon(self) -> np.ndarray:
        """[N] the share of random actions of each environment, now."""
        return self.exploration.epsilon(self.env_steps)

    def metrics(self) -> dict[str, float]:
        """The mean share of random actions, now."""
        return {"actor/epsilon": float(self.epsilon().mean())}

    def vector_step(self) -> tuple[Timesteps[np.ndarray], Episodes]:
        """Step every environment once: timesteps [N, ...] for replay, and the episodes that ended."""
        timesteps = self.timesteps
        self.bursts.begin(timesteps.first, self.generator)
        q, state, memory = self._run(timesteps.inputs(self.device, self.dtype), self.state, self._initial)
        q, stored = q.cpu().numpy(), leaves(memory)
        count, everyone = len(q), np.arange(len(q))
        greedy = q.argmax(axis=1)
        epsilon = np.where(self.bursts.active(timesteps.length), 1.0, self.epsilon())
        # Both draws are made for every environment, so that none depends on who explores.
        explore = self.generator.random(count) < epsilon
        best = greedy if self.untried is None else self.untried.best(timesteps.observation, q)
        action = np.where(explore, self.generator.integers(timesteps.num_actions, size=count), best)
        emitted = Timesteps(
            observation=timesteps.observation,
            prev_action=timesteps.prev_action,
            reward=timesteps.reward,
            # A time limit ends an episode, but not what it is worth: its last timestep is bootstrapped from.
            discount=~timesteps.terminated,
            first=timesteps.first,
            last=timesteps.last,
            novel=np.zeros(count, bool),
            q_max=q[everyone, greedy],
            q_min=q.min(axis=1),
            q_taken=q[everyone, action],
            version=np.full(count, self.version),
            memory={name: stored[name][:, 0].cpu().numpy() for name in self._memory_names},
        )
        episodes = timesteps.step(action)
        self.ended = timesteps.last
        # Where that fails these timesteps are still to be had: nothing of them is remembered or counted yet.
        self.state = state
        if self.untried is not None:
            self.untried.acted(action, timesteps.first)
        if self.novelty is not None:
            emitted = emitted._replace(novel=self.novelty.look(emitted.observation, emitted.first))
        self.bursts.end(timesteps.last, timesteps.length)
        # These are the next timesteps by now: a first one came of a reset, which is no env step.
        self.env_steps += count - int(timesteps.first.sum())
        return emitted, episodes

    @torch.no_grad()
    def _step(self, inputs: StepInputs, state: State, initial: State) -> tuple[Tensor, State, StoredMemory]:
        """Q-values [N, A] of each environment's timestep, the state after it and its stored memory."""
        output, state, memory = self.network(inputs, reset_states(state, initial, inputs.first[:, 0]))
        return output.q[:, 0], state, memory

    def _parts(self) -> dict[str, Bursts | Novelty | Untried | None]:
        return {"bursts": self.bursts, "novelty": self.novelty, "untried": self.untried}

    def get_state(self) -> dict[str, Any]:
        """All that `set_state` needs to go on bit for bit."""
        return {
            "rows": self.timesteps.get_state(),
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
        self.timesteps.set_state(state["rows"], self.generator)
        self.network.load_state_dict(state["network"])
        memory = {path: x.to(self.device, copy=True) for path, x in state["memory"].items()}
        self.state = from_leaves(self.network.initial_state(self.timesteps.env.num_envs), memory)
        self._initial = self._fresh_state()
        self.version, self.env_steps = state["version"], state["env_steps"]
        for name, part in self._parts().items():
            if part is not None:
                part.set_state(state[name])
        return state["rows"]["env"] is not None

    def news(self) -> list[str]:
        """No news. A pool of workers may have some."""
        return []

    def close(self) -> None:
        """The environments end with the program."""
