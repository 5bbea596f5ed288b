"""An equal search: every agent of a comparison with the same values of one setting, and what suits each.

Agents are shipped presets: what was chosen for them stands in one file for `--config`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dtqn.experiments.comparison_table import Figures, markdown_table, scored
from dtqn.experiments.suites import Suite
from dtqn.settings import layers, presets
from dtqn.settings.config import Config, fields_of, setting_of, spelled, wrong
from dtqn.settings.values import nearest, shown
from dtqn.text import counted, number
from dtqn.training.directory import MAY_CHANGE
from envs import yaml_file

_RIGHT = "must be SETTING=A,B,..., such as learner.learning_rate=0.0003,0.001,0.003"
_NOT_OF_AGENTS = {"env", "agent", "seed", "task", "evaluation", "metrics_every", *MAY_CHANGE}
"""Groups and settings: what is measured, where a run ends and how it is run is no agent's."""
_RULE = "docs/compare.md has what a cell shows and how a value is chosen."


class Search(NamedTuple):
    """The values of one setting that every agent is trained with."""

    setting: str
    values: tuple[str, ...]
    """As they were given."""
    agents: tuple[str, ...]
    own: Mapping[tuple[str, str], str] = {}
    """By agent and task, the one of the values that the agent has as it is."""

    def items(self) -> dict[str, str]:
        """Each agent with each value, by its name in the comparison, as `--agents` takes it."""
        pairs = [(agent, value) for agent in self.agents for value in self.values]
        return {_name(*pair): f"{_name(*pair)}={pair[0]}+{self.setting}={pair[1]}" for pair in pairs}

    def settled(self, own: Sequence[Config], configs: Sequence[Config]) -> Search:
        """With the values that the agents have as they are.

        Args:
            own: of every agent as it is, on every task.
            configs: of the runs, the agents with every value.

        Raises:
            ConfigError: an agent has a value that is none of them, or two of them.
        """
        text = f"{self.setting}={','.join(self.values)}"
        meant = {(config.agent, config.env): _value(config, self.setting) for config in configs}
        found = {}
        for config in own:
            mine, env = _value(config, self.setting), config.env
            same = [value for value in self.values if meant[_name(config.agent, value), env] == mine]
            if not same:
                right = f"must have {mine} too, which others have to beat"
                raise wrong("--search", text, f"{config.agent} has {mine} on {env}; {right}")
            if len(same) > 1:
                raise wrong("--search", text, f"{' and '.join(same)} are one value")
            found[config.agent, env] = same[0]
        return self._replace(own=found)

    def findings(self, configs: Sequence[Config], runs: Sequence[Figures]) -> list[Finding]:
        """What the runs, which have these configurations, say of each agent."""
        standings: dict[str, list[Standing]] = {}
        for run, config in zip(runs, configs, strict=True):
            standings.setdefault(run["agent"], []).append(Standing.of(run, config))
        return [
            Finding(
                agent,
                {env: value for (name, env), value in self.own.items() if name == agent},
                {value: standings[_name(agent, value)] for value in self.values},
            )
            for agent in self.agents
        ]


class Standing(NamedTuple):
    """How well a run did."""

    env: str
    rank: tuple[float, float] | None
    """The larger the better; None where the run has no result."""
    cell: str
    """The env steps until it solved the task, or reached the score at which it ended early; the score at its
    end where it did not get there or stay."""

    @classmethod
    def of(cls, run: Figures, config: Config) -> Standing:
        env, score, steps = run["env"], run["score"], None
        total, period = config.total_env_steps, config.evaluation_period
        if score is None:
            return cls(env, None, "-")
        if run["solved"] and not run["failed"]:
            steps = run["env_steps_to_solved"]
        elif run["env_steps"] is not None and run["env_steps"] < total:
            steps = run["env_steps"]
        if steps is None:
            return cls(env, (-float("inf"), score), scored(score, run["score_name"]))
        # An evaluation comes some steps after its time, which tells nothing: its number does. The last one
        # is at the end, though that be in the midst of a period.
        evaluation = -(-total // period) if steps >= total else steps // period
        return cls(env, (-float(evaluation), 0.0), number(steps))


class Finding(NamedTuple):
    """What a search says of one agent."""

    agent: str
    own: Mapping[str, str]
    """By task, the value that the agent has there as it is."""
    runs: Mapping[str, Sequence[Standing]]
    """By value, in one order of tasks and seeds."""

    @property
    def lacking(self) -> int:
        """Runs without a result; nothing is chosen before they have one."""
        return sum(each.rank is None for runs in self.runs.values() for each in runs)

    @property
    def chosen(self) -> str | None:
        """The value that is better than the agent's own; None: it keeps that."""
        if self.lacking:
            return None
        ranks = {value: [each.rank or (0.0, 0.0) for each in runs] for value, runs in self.runs.items()}
        owns = [self.own[each.env] for each in next(iter(self.runs.values()))]
        better = [
            value
            for value, mine in ranks.items()
            if any(own != value for own in owns)
            and all(own == value or mine[i] > ranks[own][i] for i, own in enumerate(owns))
        ]

        def rank(value: str) -> float:
            """Over the runs, how many of the better values are above this one, ties halved."""
            pairs = [pair for other in better for pair in zip(ranks[value], ranks[other], strict=True)]
            return sum((theirs > mine) + (theirs == mine) / 2 for mine, theirs in pairs)

        return min(better, key=rank, default=None)

    @property
    def told(self) -> str:
        """`0.003`, or what it keeps."""
        if self.lacking:
            return f"not yet, without a result of {self.lacking} of its runs"
        own = " or ".join(dict.fromkeys(self.own.values()))
        return f"its own, {own}" if self.chosen is None else f"{self.chosen} (its own: {own})"


def read(text: str, agents: Mapping[str, str], given: Mapping[str, Any], suite: Suite | None) -> Search:
    """The search that a text such as `learner.learning_rate=0.0003,0.001,0.003` asks for.

    Args:
        agents: by name, what stands for each.
        given: settings of all runs, by dotted name.

    Raises:
        ConfigError: there is no such setting of an agent, all agents are given a value of it, or one of them
            is of the user's own.
    """
    name, equals, listed = text.partition("=")
    setting, values = spelled(name), tuple(listed.split(","))
    if not equals or len(values) < 2 or not all(values):
        raise wrong("--search", text, _RIGHT)
    for value in values:
        if not re.fullmatch(r"[\w.-]+", value):  # it becomes a part of the agents' names
            right = "must have letters, digits, dots and dashes alone"
            raise wrong("--search", text, f"{shown(value)} cannot be searched: a value {right}")
    known = [name for name in fields_of() if not {name, name.partition(".")[0]} & _NOT_OF_AGENTS]
    if setting_of(setting) not in known:
        raise wrong("--search", text, f"{name} is not an agent's setting{nearest(setting, known)}; {_RIGHT}")
    for agent, item in agents.items():
        if agent not in presets.agents():
            raise wrong("--search", text, f"{item} is not a shipped agent; search those alone")
    if setting in given:
        raise wrong("--search", text, f"{setting} is given for all runs; leave that out")
    for task in suite.tasks if suite is not None else ():
        if any(setting in layer.values for layer in task.settings):
            raise wrong("--search", text, f"the suite sets {setting} for all agents")
    return Search(setting, values, tuple(agents))


def to_markdown(search: Search, findings: Sequence[Finding]) -> str:
    """A table for each task, with a row for each agent and a column for each value."""
    lines = []
    for env in dict.fromkeys(env for _, env in search.own):
        rows = [[f"{search.setting} on {env}", *search.values, "chosen"]]
        for found in findings:
            cells = [", ".join(each.cell for each in runs if each.env == env) for runs in found.runs.values()]
            rows.append([found.agent, *cells, found.told])
        lines += [*markdown_table(rows), ""]
    return "\n".join([*lines, _RULE]) + "\n"


def note(search: Search, findings: Sequence[Finding]) -> str:
    """The line of the comparison's notes."""
    runs = counted(len(findings[0].runs[search.values[0]]), "run")
    found = "; ".join(f"{finding.agent}: {finding.told}" for finding in findings)
    values = ", ".join(search.values)
    return f"Search of {search.setting}: {values}, {runs} of every agent with each. Chosen: {found}."


def chosen_yaml(search: Search, findings: Sequence[Finding], file: Path | None) -> str:
    """What was chosen as a file for `--config`, on top of what the present one holds."""
    given = presets.Shared.of_file(file) if file is not None else presets.Shared(layers.Layer(None, {}), {})
    singles = {name: dict(layer.values) for name, layer in given.by_agent.items()}
    for finding in findings:
        if finding.chosen is not None:
            singles.setdefault(finding.agent, {})[search.setting] = yaml_file.parse(finding.chosen)
    lines = [f"# Chosen by a search of {search.setting}: {', '.join(search.values)}."]
    lines += [f"# {each.agent}: {each.told}." for each in findings if each.lacking]
    own = {name: layers.nested(values) for name, values in singles.items()}
    content = layers.nested(given.layer.values) | ({"agents": own} if own else {})
    return "\n".join(lines) + "\n" + layers.yaml_of(content)


def _name(agent: str, value: str) -> str:
    return f"{agent}-{value}"


def _value(config: Config, setting: str) -> Any:
    return layers.named(config).get(setting)
