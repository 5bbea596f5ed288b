"""Copies of an environment, each in a process of its own: one that dies, fails or hangs is named.

The processes are told what to do through pipes and answer through them; observations lie in shared memory.
An error in a process is its answer, a dead process closes its pipe, a hung one answers nothing.
"""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import select
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final, NamedTuple, NoReturn

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import (
    batch_space,
    create_shared_memory,
    iterate,
    read_from_shared_memory,
    write_to_shared_memory,
)
from numpy.typing import NDArray

from envs.adapters.plain import PlainEnv
from envs.entry_points import located
from envs.errors import TaskError

_PARENT_SECONDS: Final = 5.0
"""How often an idle process looks whether its parent is alive."""
_CLOSE_SECONDS: Final = 5.0
"""How long all processes together have to close their environments."""


class _Answer(NamedTuple):
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def _serve(
    make_env: Callable[[], PlainEnv], name: str, number: int, space: Any, memory: Any, pipe: Connection
) -> None:
    """The life of a process: one environment, stepped with NEXT_STEP autoreset until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes its copies
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # no handler that was inherited from it
    env: PlainEnv | None = None
    over = False
    wait = _waiter(pipe)
    try:
        env = make_env()
        while (order := _next_order(pipe, wait)) is not None:
            command, argument = order
            answer: Any = None
            if command == "render":
                answer = env.render()
            elif command == "reset" or over:
                observation, info = env.reset(**(argument if command == "reset" else {}))
                answer, over = _Answer(0.0, False, False, info), False
                write_to_shared_memory(space, number, observation, memory)
            else:
                observation, reward, terminated, truncated, info = env.step(argument)
                answer, over = _Answer(reward, terminated, truncated, info), terminated or truncated
                write_to_shared_memory(space, number, observation, memory)
            _tell(pipe, answer)
    except TaskError as error:
        _tell(pipe, TaskError(name, error.problem, number))
    except Exception as error:  # whatever another package raises
        _tell(pipe, TaskError(name, f"its process failed: {located(error)}", number))
    finally:
        if env is not None:
            env.close()


def _tell(pipe: Connection, what: Any) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        pipe.send(what)


def _waiter(pipe: Connection) -> Callable[[float], bool]:
    """Waits at most so many seconds; whether the pipe then has something to read, its end included."""
    if not hasattr(select, "poll"):
        return pipe.poll
    poller = select.poll()  # what `Connection.poll` makes anew each time
    poller.register(pipe, select.POLLIN)
    return lambda seconds: bool(poller.poll(1000 * seconds))


def _next_order(pipe: Connection, wait: Callable[[float], bool]) -> Any:
    """The parent's next request; None where it asks for nothing more, or is no more."""
    parent = multiprocessing.parent_process()
    try:
        while not wait(_PARENT_SECONDS):
            if parent is not None and not parent.is_alive():
                return None
        return pipe.recv()
    except (EOFError, OSError):
        return None


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in list(signal.Signals) else f"signal {number}"


class ProcessVectorEnv(VectorEnv[Any, Any, NDArray[Any]]):
    """N copies with NEXT_STEP autoreset.

    Args:
        make_env: makes one copy; called in its process.
        name: the task's id.
        num_envs: number of copies N.
        observation_space, action_space: of one copy.
        step_timeout: seconds without any answer after which the copies that owe one count as hung.
        render_mode: that `make_env` makes its copies with.
    """

    def __init__(
        self,
        make_env: Callable[[], PlainEnv],
        name: str,
        num_envs: int,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        *,
        step_timeout: float,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs, self.render_mode = num_envs, render_mode
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space, self.single_action_space = observation_space, action_space
        self.observation_space = batch_space(observation_space, num_envs)
        self.action_space = batch_space(action_space, num_envs)
        self._name, self._step_timeout = name, step_timeout
        context: Any = multiprocessing.get_context()
        memory = create_shared_memory(observation_space, num_envs, context)
        self._observation = read_from_shared_memory(observation_space, memory, num_envs)
        self._pipes: list[Connection] = []
        self._waiters: list[Callable[[float], bool]] = []
        self.processes: list[BaseProcess] = []
        """Process i runs copy i."""
        for number in range(num_envs):
            pipe, theirs = context.Pipe()
            arguments = (make_env, name, number, observation_space, memory, theirs)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            try:
                process.start()
            except OSError as error:  # more processes or files than the machine allows
                self.close()
                raise TaskError(name, f"its process cannot be started: {error}", number) from None
            theirs.close()
            self._pipes.append(pipe)
            self._waiters.append(_waiter(pipe))
            self.processes.append(process)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts a new episode in every copy; `seed` is a list with the seed of each, or None."""
        seeds = seed if seed is not None else [None] * self.num_envs
        self._ask([("reset", {"seed": one, "options": options}) for one in seeds])
        self._answers()
        return copy.deepcopy(self._observation), {}

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """One row of every copy.

        Raises:
            TaskError: where a copy has failed, died or hung; then all processes have ended.
        """
        self._ask([("step", action) for action in iterate(self.action_space, actions)])
        rewards, terminated, truncated, infos = zip(*self._answers(), strict=True)
        return (
            copy.deepcopy(self._observation),
            np.array(rewards, np.float64),
            np.array(terminated, np.bool_),
            np.array(truncated, np.bool_),
            {key: np.array([info[key] for info in infos]) for key in infos[0]},
        )

    def render(self) -> tuple[Any, ...]:
        """A picture of every copy."""
        self._ask([("render", None)] * self.num_envs)
        return tuple(self._answers())

    def _ask(self, orders: Sequence[tuple[str, Any]]) -> None:
        for pipe, order in zip(self._pipes, orders, strict=True):
            _tell(pipe, order)  # to a process that is no more, too, as its answer will show

    def _answers(self) -> list[Any]:
        """The answer of every copy."""
        return [self._answer(number) for number in range(self.num_envs)]

    def _answer(self, number: int) -> Any:
        answered = 0
        while not self._waiters[number](self._step_timeout):
            # With few cores and many copies, others may have answered meanwhile.
            others = sum(wait(0) for wait in self._waiters[number + 1 :])
            if others <= answered:
                self._lose(number)
            answered = others
        try:
            answer = self._pipes[number].recv()
        except (EOFError, OSError):
            self._lose(number)
        if isinstance(answer, TaskError):
            self.close()
            raise answer
        return answer

    def _lose(self, number: int) -> NoReturn:
        """TaskError that says what has become of a copy that gives no answer."""
        process = self.processes[number]
        if self._waiters[number](0):  # closed by its end
            process.join(_CLOSE_SECONDS)
        code = process.exitcode
        if code is None:
            problem = (
                f"its process does not answer: it hangs, or takes more than {self._step_timeout:g} seconds "
                "for a step (task.step_timeout)"
            )
        elif code < 0:
            problem = f"its process was killed by {_signal_name(-code)}"
        else:
            problem = f"its process ended with exit code {code}"
        process.kill()
        self.close()
        raise TaskError(self._name, problem, number)

    def close_extras(self, **kwargs: Any) -> None:
        """Ends all processes, by force those that do not end by themselves."""
        for pipe in self._pipes:
            _tell(pipe, None)
            pipe.close()
        end = time.monotonic() + _CLOSE_SECONDS
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
