"""`envs`: the tasks, and one of them."""

from __future__ import annotations

from collections.abc import Sequence

import envs
from dtqn.commands import argtypes
from dtqn.commands.parser import Parser, option, terminal_width
from dtqn.settings import presets
from dtqn.settings.config import ConfigError, wrong
from dtqn.settings.task import task_of
from dtqn.text import columns


def list_tasks(arguments: Sequence[str]) -> int:
    """List the tasks, or show one."""
    parser = Parser("envs", arguments, "", "List the tasks, or show one.")
    option(parser, "--env X", "show this task")
    picture = "write a picture of it; .png: the first state, .gif: a random episode"
    option(parser, "--render FILE", picture, argtypes.path)
    option(parser, "--seed N", "", argtypes.natural, 1)
    parser.add_settings(lambda name: name.startswith("task."))
    given = parser.read()
    id, file, seed = (given.pop(name) for name in ("env", "render", "seed"))
    if id is None:
        for name in ["render", *given] if file is not None else given:
            raise ConfigError(f"--{name} needs --env")
        rows = envs.rows()
        header = [name.replace("_", " ") for name in rows[0]._fields]
        print("\n".join(columns([header, *rows], terminal_width())))
        return 0
    config = presets.resolve_task(id, given)
    task_of(config)
    options = config.task.model_dump()
    lines = envs.facts(id, **options)
    if file is not None:
        from envs import pictures

        try:
            env = envs.make_vector(id, 1, seed, render_mode="rgb_array", **options)
            lines["picture"] = f"{file} ({pictures.save(env, file, seed)} frames)"
        except (ValueError, OSError) as error:
            raise wrong("--render", file, str(error)) from None
    print("\n".join(columns(list(lines.items()), terminal_width())))
    return 0
