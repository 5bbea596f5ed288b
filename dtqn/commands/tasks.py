"""`envs`: the tasks, and one of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import envs
from dtqn.commands import argtypes
from dtqn.commands.parser import Parser, option
from dtqn.settings import presets
from dtqn.settings.config import ConfigError, wrong
from dtqn.settings.task import task_of
from dtqn.text import columns, shortened, terminal_width


def list_tasks(arguments: Sequence[str]) -> int:
    """List the tasks, or describe one."""
    parser = Parser("envs", arguments, "[WORD]", list_tasks.__doc__)
    option(parser, "word WORD", "list only tasks with this word in any column", nargs="?")
    option(parser, "--env X", "describe this task")
    picture = "write a picture: .png of the first state, .gif of a random episode"
    option(parser, "--render FILE", picture, argtypes.path)
    option(parser, "--seed N", "seed of the picture", argtypes.natural, 1)
    parser.add_settings(lambda name: name.startswith("task."))
    given = parser.read()
    word, id, file, seed = (given.pop(name) for name in ("word", "env", "render", "seed"))
    if id is None:
        for name in ["render", *given] if file is not None else given:
            raise ConfigError(f"--{name} needs --env")
        print("\n".join(_lines(word, terminal_width(sys.stdout))))
        return 0
    if word is not None:
        raise wrong("WORD", word, "it is for the list; leave it out with --env")
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
    print("\n".join(columns(list(lines.items()), terminal_width(sys.stdout))))
    return 0


def _lines(word: str | None, width: int | None) -> list[str]:
    """The list of the tasks that have `word`: all of it, or in a terminal a line each that fits."""
    rows = [row for row in envs.rows() if (word or "").lower() in " ".join(row).lower()]
    if not rows:
        raise wrong("WORD", word, "no task has it; without it all are listed")
    if width is None:
        return columns([[name.replace("_", " ") for name in rows[0]._fields], *rows])
    short = [(row.id, row.time_limit, shortened(row.actions, 13), row.observation) for row in rows]
    lines = columns([("id", "limit", "actions", "observation"), *short])
    return [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines]
