"""The pool steps a run's environments, in the run itself or in workers.

With `inline` the run's own `Actor` steps all of them. With `process` and `ray` each worker has its share of
them and an actor of its own, and works up to `actor.pool.max_lead` vector steps ahead of the learner:

    request     the pool names a vector step's place in the exchange, and which parameters to act with
    answer      the worker has put its timesteps there

The request for a vector step is sent when the learner has done all that was due `max_lead` of them before.
It names the parameters of that moment, so their age does not depend on the clock: a run with workers is the
same every time, on any number of cores. With `max_lead` 0 and one worker it is the inline run. Both sides
wait: the learner for the timesteps of all environments, the workers for their next request.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import torch

from dtqn.acting.actor import Actor
from dtqn.acting.timesteps import Episodes, Timesteps
from dtqn.choices.actor import Processes, RayActors
from dtqn.networks.q_network import QNetwork
from dtqn.settings.config import Config, ConfigError
from dtqn.training import setup
from dtqn.training.acting_worker import ActingWorker, Request
from dtqn.training.exchange import Exchange
from dtqn.training.replay_fields import Schema
from dtqn.training.setup import Share
from dtqn.training.worker import Worker, WorkerError
from envs import TaskError

if TYPE_CHECKING:
    from dtqn.training.ray_workers import RayWorker, RayWorkers

MOST_LOSSES = 3
"""So many losses of a worker without an episode of its environments in between end the run."""
_START_SECONDS = 120.0
"""How long a worker may take to start, on top of a step's time."""
Pool: TypeAlias = "Actor | WorkerPool"
"""All environments of a run, wherever they are stepped."""
Work: TypeAlias = "Worker | RayWorker"
"""Calls that are asked for and answered in turn."""


def make_pool(config: Config, network: QNetwork, schema: Schema) -> Pool:
    """The run's pool, with copies of `network`.

    Raises:
        TaskError: the task cannot be made in a worker.
        ConfigError: workers are lost before they have begun.
    """
    if not config.num_workers:
        return setup.make_actor(config, network)
    try:
        return WorkerPool(config, network, schema)
    except WorkerError as error:
        raise ConfigError(f"actor.pool is {config.actor.pool.name}, but {error}; try inline") from None


def _cluster(config: Config, exchange: Exchange) -> RayWorkers | None:
    """Where workers are Ray's; None: they are processes of this machine."""
    if not isinstance(config.actor.pool, RayActors):
        return None
    try:
        from dtqn.training.ray_workers import RayWorkers  # only here: it is an extra, and takes seconds
    except ImportError:
        raise ConfigError("actor.pool is ray, which is not installed: python -m pip install ray") from None
    return RayWorkers(exchange)


class _Member:
    """A worker, and what it has been asked for."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self.asked: deque[Request] = deque()
        """Requests that are not answered."""
        self.ready = 0
        """Vector steps that are answered and have not been taken."""
        self.incarnation = 0
        self.losses = 0
        """Since an episode of its environments has ended."""
        self.fault: TaskError | WorkerError | None = None
        """Why it is no more."""
        self.work: Work

    def ask(self, method: str, *arguments: Any) -> None:
        """Begin a call. One that cannot be made has the reason as its answer."""
        if self.fault is None:
            try:
                self.work.ask(method, *arguments)
            except WorkerError as error:
                self.fault = error

    @property
    def name(self) -> str:
        return f"environments {self.share.start} to {self.share.stop - 1}"


class WorkerPool:
    """An `Actor` made of workers, which are processes or on Ray.

    One that dies, fails or hangs is replaced by a new one. The open episodes of its environments end there:
    the new worker's first timesteps begin new ones, and replay ends those before as truncated.
    """

    def __init__(self, config: Config, network: QNetwork, schema: Schema) -> None:
        cpu = config.on_cpu()
        self._config, self._timeout = cpu, cast(Processes, config.actor.pool).step_timeout
        self._num_envs, self._max_lead = config.actor.num_envs, config.max_lead
        self._exploration = setup.make_exploration(config.actor, config.warmup)
        self._exchange = Exchange(config, network, schema)
        self.env_steps = self.version = 0
        self._parameters = 0
        """The place in the exchange of the weights that were synced last."""
        self._write_parameters(list(network.parameters()))
        self._taken = 0
        """Vector steps that the run has had since the pool was made."""
        self._asked = 0
        """Vector steps that have been asked for."""
        self._restarts = 0
        self._news: list[str] = []
        self._leads: list[int] = []
        """At each vector step since the last metrics, env steps that all workers were ahead by."""
        self._age = 0
        """Since then, the most learner steps that parameters that acted were behind the synced ones."""
        self._members = [_Member(share) for share in shares(config.actor.num_envs, config.num_workers)]
        self._ray = _cluster(config, self._exchange)
        try:
            self._start_all()
        except BaseException:
            self.close()
            raise

    def vector_step(self) -> tuple[Timesteps[np.ndarray], Episodes]:
        """The next vector step's timesteps [N, ...], to be read before the next call, and episodes it ended.

        Raises:
            TaskError, WorkerError: environments have failed, or their process has.
        """
        self._ask()
        for member in self._members:
            self._wait(member)
        place = self._taken % self._exchange.vector_steps
        timesteps, episodes = self._exchange.read(place)
        self.ended = self._exchange.ended(place).copy()  # workers write there again
        for member in self._members:
            member.ready -= 1
            if self.ended[member.share.env_ids].any():
                member.losses = 0
        self._leads.append(min(member.ready for member in self._members) * self._num_envs)
        self._age = max(self._age, self.version - int(timesteps.version.min()))
        self._taken += 1
        self.env_steps += int((~timesteps.last).sum())
        return timesteps, episodes

    def sync_weights(self, parameters: Sequence[torch.Tensor], version: int) -> None:
        """Act with these parameters from now on; `version` is the learner step that they are from."""
        in_use = {request.parameters for member in self._members for request in member.asked}
        if self._parameters in in_use:
            self._parameters = next(n for n in range(self._exchange.versions) if n not in in_use)
        self._write_parameters(parameters)
        self.version = version

    def begin_episodes(self) -> None:
        """All environments begin new episodes; vector steps that workers are ahead are lost."""
        for member in self._members:
            while member.asked:
                self._answer(member)
            member.ready = 0
            try:
                self._call(member, "begin_episodes")
            except (TaskError, WorkerError) as error:
                self._replace(member, error)
        self._asked = self._taken

    def metrics(self) -> dict[str, float]:
        """Figures of acting since the last call."""
        leads, self._leads = self._leads, []
        age, self._age = self._age, 0
        return {
            "actor/epsilon": float(self._exploration.epsilon(self.env_steps).mean()),
            "actor/lead": float(np.mean(leads)) if leads else 0.0,
            "actor/parameter_age": age,
            "actor/restarts": self._restarts,
        }

    def news(self) -> list[str]:
        """News for the user since the last call, one line each."""
        news, self._news = self._news, []
        return news

    def get_state(self) -> dict[str, Any]:
        """The workers' states too, unless one of them is no more.

        All vector steps that have been asked for are then there, and their timesteps are a part of the state.
        """
        workers = None
        with contextlib.suppress(TaskError, WorkerError):  # if the run goes on, it is replaced
            for member in self._members:
                while member.asked:
                    self._take_answer(member)
            workers = [self._call(member, "get_state") for member in self._members]
        ahead = range(self._taken, self._asked if workers else self._taken)
        return {
            "env_steps": self.env_steps,
            "version": self.version,
            "parameters": [one.clone() for one in self._exchange.parameters[self._parameters]],
            "age": self._age,
            "restarts": self._restarts,
            "incarnations": [member.incarnation for member in self._members],
            "workers": workers,
            "ahead": [self._exchange.get_step(step % self._exchange.vector_steps) for step in ahead],
        }

    def set_state(self, state: dict[str, Any]) -> bool:
        """Go on from `get_state`, before any vector step; whether exactly so, and not with new episodes."""
        self.env_steps, self.version = state["env_steps"], state["version"]
        self._age, self._restarts = state["age"], state["restarts"]
        self._write_parameters(state["parameters"])
        for member, incarnation in zip(self._members, state["incarnations"], strict=True):
            member.incarnation = incarnation
        if state["workers"] is None:
            for member in self._members:
                member.work.close()
                member.incarnation += 1  # for other seeds than at the run's start
            self._start_all()
            return False
        for place, step in enumerate(state["ahead"]):
            self._exchange.set_step(place, step)
        self._asked = len(state["ahead"])
        exact = []
        for member, of_worker in zip(self._members, state["workers"], strict=True):
            exact.append(self._call(member, "set_state", of_worker, state["parameters"]))
            member.ready = self._asked
        return all(exact)

    def close(self) -> None:
        """End the workers, and Ray if it is used."""
        started = [member.work for member in self._members if hasattr(member, "work")]
        for work in started:
            work.end()
        for work in started:
            work.close()
        if self._ray is not None:
            self._ray.close()
        self._exchange.close()

    # Requests and answers.

    def _ask(self) -> None:
        """Ask for the vector steps that may be acted before the next one is taken."""
        while self._asked <= self._taken + self._max_lead:
            request = Request(self._asked % self._exchange.vector_steps, self.version, self._parameters)
            for member in self._members:
                member.asked.append(request)
                member.ask("vector_step", *request)
            self._asked += 1

    def _wait(self, member: _Member) -> None:
        """Wait for the timesteps of the next vector step; see which later ones are there."""
        while member.asked and (not member.ready or member.fault or member.work.answered(0.0)):
            self._answer(member)

    def _answer(self, member: _Member) -> None:
        """Take the answer to its oldest request, by a new worker where this one gives none."""
        try:
            self._take_answer(member)
        except (TaskError, WorkerError) as error:
            self._replace(member, error)

    def _take_answer(self, member: _Member) -> None:
        self._result(member, self._timeout)
        member.asked.popleft()
        member.ready += 1

    def _call(self, member: _Member, method: str, *arguments: Any) -> Any:
        """Call a method of a worker that owes no answer."""
        member.ask(method, *arguments)
        return self._result(member, self._timeout)

    def _result(self, member: _Member, seconds: float) -> Any:
        """The answer that comes next. A worker that has once failed or hung is asked for nothing more."""
        if member.fault is None:
            try:
                if member.work.answered(seconds):
                    return member.work.answer()
                member.fault = WorkerError(
                    f"the process that steps {member.name} does not answer: it hangs, or takes more than "
                    f"{seconds:g} seconds for a step of all of them (actor.pool.step_timeout)"
                )
            except (TaskError, WorkerError) as error:
                member.fault = error
        raise member.fault

    # Processes.

    def _start(self, member: _Member) -> None:
        """Begin to start a worker; `_begun` waits for it."""
        number = self._members.index(member)
        first = (number, member.incarnation) == (0, 0)  # with one worker the run is the inline one
        share = member.share._replace(key=() if first else (number, member.incarnation))
        member.fault = None
        member.work = self._work(f"steps {member.name}", share)
        member.ask("begin")

    def _work(self, task: str, share: Share) -> Work:
        if self._ray is not None:
            return self._ray.start(task, self._config, share, self.env_steps)
        memory = self._exchange.descriptor
        arguments = (self._config, share, self.env_steps, memory)
        return Worker(task, ActingWorker, *arguments, descriptors=[memory])

    def _begun(self, member: _Member) -> None:
        try:
            self._result(member, _START_SECONDS + self._timeout)
        except (TaskError, ConfigError):
            raise
        except ValueError as error:
            asked = f"as actor.pool {self._config.actor.pool.name} asks for"
            raise TaskError(
                self._config.env, f"it cannot be made in another process, {asked}: {error}"
            ) from None

    def _start_all(self) -> None:
        for member in self._members:
            self._start(member)
        for member in self._members:
            try:
                self._begun(member)
            except WorkerError as error:
                self._replace(member, error)

    def _replace(self, member: _Member, error: TaskError | WorkerError) -> None:
        """Start a new worker in the place of one that is lost, and ask it for what this one owes.

        Raises:
            TaskError, WorkerError: the given one, or the last one, where workers are lost again and again.
        """
        while True:
            member.work.kill()
            member.fault = error
            member.losses += 1
            if member.losses >= MOST_LOSSES:
                raise error
            self._restarts += 1
            member.incarnation += 1
            self._news.append(f"{error}; restarted, and the open episodes of {member.name} were cut short")
            try:
                self._start(member)
                self._begun(member)
                break
            except (TaskError, WorkerError) as again:
                error = again
        for request in member.asked:
            member.ask("vector_step", *request)

    @torch.no_grad()
    def _write_parameters(self, parameters: Sequence[torch.Tensor]) -> None:
        torch._foreach_copy_(self._exchange.parameters[self._parameters], list(parameters))


def shares(num_envs: int, num_workers: int) -> list[Share]:
    """The environments of each worker: as many as of each other, or one more in the first ones."""
    parts = np.array_split(np.arange(num_envs), num_workers)
    return [Share(int(part[0]), int(part[-1]) + 1) for part in parts]
