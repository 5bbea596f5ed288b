"""Partially observable tasks, vectorised in NumPy.

    import envs

    env = envs.make_vector("gridverse-memory-7x7", num_envs=32, seed=1)
    observation, _ = env.reset()                                        # uint8 [32, 6]
    observation, reward, terminated, truncated, infos = env.step(actions)

After the import, `gymnasium.make("gridverse-memory-7x7")` is the same task.
"""

from envs.errors import NoPictureError, TaskError
from envs.identity import Identity, identify, with_modules
from envs.options import TaskOptions
from envs.registry import (
    TaskRow,
    check_task,
    facts,
    ids,
    is_task,
    make_vector,
    register_with_gymnasium,
    rows,
    spec,
    try_task,
)
from envs.task import TaskSpec

__all__ = [
    "Identity",
    "NoPictureError",
    "TaskError",
    "TaskOptions",
    "TaskRow",
    "TaskSpec",
    "check_task",
    "facts",
    "identify",
    "ids",
    "is_task",
    "make_vector",
    "rows",
    "spec",
    "try_task",
    "with_modules",
]

register_with_gymnasium()
