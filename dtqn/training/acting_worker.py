"""The worker of a pool: an actor with its share of the environments, on the CPU, that acts when asked to."""

from __future__ import annotations

import atexit
import contextlib
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from dtqn.acting.actor import Actor
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import Config
from dtqn.training import machine, setup
from dtqn.training.exchange import Exchange
from dtqn.training.setup import Share
from envs import TaskError


class Request(NamedTuple):
    """A vector step to act."""

    place: int
    """Where its timesteps belong in the exchange."""
    version: int
    """The learner step of the parameters to act with."""
    parameters: int
    """Where they lie in the exchange. They are not overwritten before the request is answered."""


class ActingWorker:
    """Steps its environments and puts their timesteps into the exchange."""

    def __init__(self, config: Config, share: Share, env_steps: int, descriptor: int | None) -> None:
        """`descriptor`: of the pool's exchange, at `env_steps` of the run; None: it has one of its own."""
        machine.prepare()
        self.share, self._num_envs = share, config.actor.num_envs
        self._began_at, self._taken = env_steps, 0
        with contextlib.redirect_stderr(io.StringIO()):  # what a task's adapter says, the run has said
            network: QNetwork = setup.make_network(config)
        self._actor: Actor = setup.make_actor(config, network, share)
        self._actor.env_steps = env_steps
        self._actor.version = -1  # so that the first request brings weights, whose normalisation is measured
        self.exchange = Exchange(config, network, setup.make_schema(config, network), descriptor)
        self._fault: TaskError | None = None
        atexit.register(self._actor.timesteps.env.close)

    def begin(self) -> None:
        """The worker is there."""

    def vector_step(self, *request: int) -> None:
        """Step every environment once. A task that has failed fails again: it is not to be stepped."""
        if self._fault is not None:
            raise self._fault
        try:
            self._vector_step(Request(*request))
        except TaskError as error:
            env_id = None if error.env_id is None else error.env_id + self.share.start
            self._fault = TaskError(error.task, error.problem, env_id)
            raise self._fault from error

    def _vector_step(self, request: Request) -> None:
        actor = self._actor
        if request.version != actor.version:
            actor.sync_weights(self.exchange.parameters[request.parameters], request.version)
        timesteps, episodes = actor.vector_step()
        self.exchange.write(request.place, self.share.env_ids, timesteps, actor.ended, episodes)
        # The run's env steps count all workers': each environment is taken to have as many as these.
        self._taken += int((~timesteps.last).sum())
        actor.env_steps = self._began_at + self._taken * self._num_envs // self.share.num_envs

    def begin_episodes(self) -> None:
        self._actor.begin_episodes()

    def get_state(self) -> dict[str, Any]:
        """All but the parameters, which are the pool's."""
        actor = self._actor.get_state()
        del actor["network"]
        return {"actor": actor, "began_at": self._began_at, "taken": self._taken}

    def set_state(self, state: dict[str, Any], parameters: Sequence[torch.Tensor]) -> bool:
        """Go on from `get_state`, with these parameters; whether exactly so, and not with new episodes."""
        self._began_at, self._taken = state["began_at"], state["taken"]
        # Where the next request's version is the one that has acted last, no weights are synced.
        self._actor.sync_weights(parameters, -1)
        network = self._actor.network.state_dict()
        return self._actor.set_state(state["actor"] | {"network": network})
