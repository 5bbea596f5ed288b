"""The lines below the tables of a comparison: what its runs share, and what they do not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from dtqn.experiments.comparison_table import Line, RunFigures
from dtqn.experiments.intervals import LEAST_RUNS
from dtqn.experiments.records import Outcome
from dtqn.experiments.suites import Suite
from dtqn.settings import presets
from dtqn.settings.config import Config
from dtqn.settings.task import task_of
from dtqn.text import number

MANY_RUNS = 20
"""Runs from which on an interval covers nearly what it says."""
_NAMED = 2  # of the most alike runs, as many are named; more are "all others"

Values = dict[tuple[str, str, int], str]
"""The value of something in each run, by task, agent and seed."""


def _values(runs: Iterable[Any], value: Callable[[Any], object]) -> Values:
    """Of configurations or of figures of runs."""
    return {(run.env, run.agent, run.seed): str(value(run)) for run in runs}


def notes(
    outcomes: Sequence[Outcome], runs: Sequence[RunFigures], given: Mapping[str, str], suite: Suite | None
) -> list[str]:
    """What the runs share, and what they do not."""
    configs = [outcome.config for outcome in outcomes]
    finished = [run for run in runs if not run.error]
    return [
        *(suite.notes() if suite is not None else ()),
        "What the columns mean: docs/compare.md.",
        *_circumstances(configs, finished),
        *_settings(configs, given, suite),
        *_evaluations(configs, finished),
        *_of_single_agents(configs, given.get("config"), suite is None or suite.task_presets),
        *_changed(finished),
        *_unpublished(configs),
        *_options(configs),
        *_ends(configs),
    ]


def _circumstances(configs: Sequence[Config], finished: Sequence[RunFigures]) -> list[str]:
    """Seeds, budget and machine of the runs."""
    seeds = ", ".join(str(seed) for seed in sorted({config.seed for config in configs}))
    lines = [
        f"Seeds: {seeds}, for every agent.",
        _same("Budget", _values(configs, lambda config: f"{number(config.total_env_steps)} env steps")),
        _same("Threads of a run", _values(finished, lambda run: run.threads)),
        _same("Device", _values(finished, lambda run: run.device)),
        _same("Program", _values(finished, lambda run: run.program)),
    ]
    code = _values(finished, lambda run: run.code)
    if any(run.code for run in finished) and not _differ(code):  # else it is told below its table (`codes`)
        lines.append(_same("Code", code))
    if any(run.machine for run in finished):
        lines.append(_same("Machine", _values(finished, lambda run: run.machine)))
    return lines


def _settings(configs: Sequence[Config], given: Mapping[str, str], suite: Suite | None) -> list[str]:
    told = ", ".join(f"{name} {value}" for name, value in given.items()) or "none"
    told += "" if suite is None or suite.share == 1 or not given else ", before the share of the budget"
    return [
        f"Settings given for all alike: {told}.",
        _same("Step size", _values(configs, lambda config: f"{config.learner.learning_rate:g}")),
    ]


def _evaluations(configs: Sequence[Config], finished: Sequence[RunFigures]) -> list[str]:
    """How the runs were evaluated: how often, with how many episodes and by whom."""
    full = _values(configs, lambda config: config.evaluation.episodes)
    last = _values(finished, lambda run: run.episodes)
    often = _values(
        (config for config in configs if config.may_end_early),
        lambda config: (
            f"one, full or not, for each {number(config.evaluation.period)} env steps, until a run ends"
        ),
    )
    counts = _values(finished, lambda run: run.evaluations)
    return [
        _same("Episodes in a full evaluation", full),
        _same("Actions in evaluations", _values(configs, lambda config: config.evaluation.policy)),
        *([] if last.items() <= full.items() else [_same("Episodes of the last evaluation", last)]),
        _same("Evaluations", {run: often.get(run, count) for run, count in counts.items()}),
    ]


def _options(configs: Sequence[Config]) -> list[str]:
    """A line where agents have other options of a task."""

    def changed(config: Config) -> str:
        changed = config.task.model_dump(mode="json", exclude_defaults=True)
        return ", ".join(f"{name} {value}" for name, value in changed.items()) or "none"

    options = _values(configs, changed)
    told = f"{_same('Task options', options)} random has those of {configs[0].agent}."
    return [told] if _differ(options) else []


def _ends(configs: Sequence[Config]) -> list[str]:
    """Where runs end before their budget, and what nobody can exceed."""
    lines = []
    for name in ("success", "return"):
        goals = _values(configs, attrgetter(f"stop_at_{name}"))
        if set(goals.values()) != {"None"}:
            lines.append(_same(f"Runs end early at {name}", goals))
    for config in {config.env: config for config in configs}.values():
        ceiling = task_of(config).success_ceiling
        if ceiling < 1:
            lines.append(f"Ceiling: in {config.env} no agent can exceed {ceiling:.1%} success.")
    return lines


def _of_single_agents(configs: Sequence[Config], file: str | None, task_presets: bool) -> list[str]:
    """A line for each file that is for all agents and holds settings of single ones of these."""
    shared = dict.fromkeys(path for config in configs for path in presets.of_task(config.env) if task_presets)
    notes = []
    for path in [*shared, *([Path(file)] if file else [])]:
        of_agents = presets.Shared.of_file(path).by_agent
        told = [
            f"{agent} {', '.join(f'{name} {value}' for name, value in of_agents[agent].settings())}"
            for agent in dict.fromkeys(config.agent for config in configs)
            if agent in of_agents
        ]
        if told:
            notes.append(f"Settings of single agents in {path.name}: {'; '.join(told)}.")
    return notes


def _changed(runs: Sequence[RunFigures]) -> list[str]:
    told = [
        f"{run.env} {run.agent} seed {run.seed} at {', '.join(map(number, run.changed_at))} env steps"
        for run in runs
        if run.changed_at
    ]
    what = "Task or network CHANGED DURING TRAINING (--accept-changed-code)"
    return [f"{what}: {'; '.join(told)}."] if told else []


def _unpublished(configs: Sequence[Config]) -> list[str]:
    """A line for each published agent, which lies over its task's preset, with settings that are others."""
    changed = dict[str, dict[str, None]]()
    for config in configs:
        if config.agent in presets.agents() and presets.find_agent(config.agent).over_task:
            others = [name for name, kept in presets.kept_of_preset(config).items() if not kept]
            changed.setdefault(config.agent, {}).update(dict.fromkeys(others))
    return [
        f"Not as published: {agent} has other {', '.join(names)} here."
        for agent, names in changed.items()
        if names
    ]


def _differ(values: Values) -> bool:
    """Whether runs of one task have different ones."""
    by_task = {env: value for (env, _, _), value in values.items()}
    return any(value != by_task[env] for (env, _, _), value in values.items())


def _same(what: str, values: Values) -> str:
    """`what: value for every agent`, task by task where tasks differ, and every run's where these differ."""
    if _differ(values):
        return f"{what} DIFFER: {_whose(values)}."
    by_task = {env: value for (env, _, _), value in values.items()}
    if len(set(by_task.values())) == 1:
        return f"{what}: {next(iter(by_task.values()))}, for every agent."
    each = [f"{value} in {env}" for env, value in by_task.items()]
    return f"{what}: {'; '.join(each) or 'none'}, for every agent."


def _whose(values: Values) -> str:
    """`runs: value` for each value; the value of most runs comes last, for `all others` where these are many.

    Runs are named by no more than it takes: the agent, where all its runs have the value; the task, where the
    values are of several; the seeds, where an agent's runs of one task have not all the same.
    """
    of_agent, of_task = defaultdict[str, set[str]](set), defaultdict[tuple[str, str], set[str]](set)
    for (env, agent, _), value in values.items():
        of_agent[agent].add(value)
        of_task[env, agent].add(value)
    is_suite = len({env for env, _ in of_task}) > 1
    groups: dict[str, dict[str, list[str]]] = {}
    for (env, agent, seed), value in values.items():
        name = f"{env} {agent}" if is_suite and len(of_agent[agent]) > 1 else agent
        seeds = groups.setdefault(value, {}).setdefault(name, [])
        if len(of_task[env, agent]) > 1:
            seeds.append(str(seed))
    (most, _), *others = Counter(values.values()).most_common()
    each = [f"{_named(groups[value])}: {value}" for value, _ in others]
    each.append(f"{'all others' if len(groups[most]) > _NAMED else _named(groups[most])}: {most}")
    return "; ".join(each)


def _named(runs: Mapping[str, Sequence[str]]) -> str:
    """Names, and behind them those that have seeds, with these."""
    return ", ".join(
        f"{name} seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}" if seeds else name
        for name, seeds in sorted(runs.items(), key=lambda item: bool(item[1]))
    )


def missing(outcomes: Sequence[Outcome], runs: Sequence[RunFigures]) -> list[str]:
    return [
        f"{outcome.state.upper()}, in no figure: {run.env} {run.agent} seed {run.seed}, "
        f"{run.error} ({run.run_dir})"
        for outcome, run in zip(outcomes, runs, strict=True)
        if run.error
    ]


def of_metrics(metrics: Sequence[str], runs: Sequence[RunFigures]) -> list[str]:
    """The meaning of their columns, and the finished runs that have no such figure."""
    if not metrics:
        return []
    lines = [f"{', '.join(metrics)}: the mean over the second half of a run, then over runs."]
    for name in metrics:
        lacking: dict[str, list[str]] = {}
        for run in runs:
            if not run.error and run.beside[name] is None:
                lacking.setdefault(f"{run.env} {run.agent}", []).append(str(run.seed))
        if lacking:
            lines.append(f"No {name} in: {_named(lacking)}.")
    return lines


_UNLIKE = {
    "network.use_prev_action": "the previous action",
    "network.use_prev_reward": "the previous reward",
    "network.dueling": "a dueling head",
}
"""Parts apart from memory that some presets have and others, as published, lack."""


def unlike(here: Sequence[Config]) -> list[str]:
    """In which of these the agents of some tasks differ: what does not come from their memory."""
    notes = []
    for setting, name in _UNLIKE.items():
        group, _, leaf = setting.partition(".")
        having = {config.agent: getattr(getattr(config, group), leaf) for config in here}
        lacking = [agent for agent, has in having.items() if not has]
        if 0 < len(lacking) < len(having):
            others = ", ".join(agent for agent, has in having.items() if has)
            notes.append(
                f"Not alike in more than memory: {others} with {name}, {', '.join(lacking)} without."
            )
    return notes


def codes(runs: Sequence[RunFigures]) -> list[str]:
    """A line that says whose code was another one, where the runs of a table are not of the same sources."""
    values = _values((run for run in runs if not run.error), lambda run: run.code or "unknown")
    if len(set(values.values())) < 2:
        return []
    return [f"Runs of DIFFERENT CODE (digest of the sources): {_whose(values)}."]


def few_runs(lines: Sequence[Line], baseline: str | None) -> list[str]:
    """Lines that say how far the numbers of runs let a reader trust a table."""
    agents = [line for line in lines if line["runs"]]
    where = " on a task" if lines[0]["tasks"] > 1 else ""
    notes = []
    if few := [line["agent"] for line in agents if line["fewest"] < LEAST_RUNS]:
        notes.append(
            f"Fewer than {LEAST_RUNS} runs{where} of {', '.join(few)}: minimum and maximum, no interval"
            f"{'' if baseline is None else ', no P(better)'}. "
            "These figures do not tell which agent is better."
        )
    if uneven := [line["agent"] for line in agents if 0 < line["fewest"] * line["tasks"] < line["finished"]]:
        notes.append(f"No figures of {', '.join(uneven)}: more runs on some of these tasks than on others.")
    some = [line["agent"] for line in agents if LEAST_RUNS <= line["fewest"] < MANY_RUNS]
    if some := [agent for agent in some if agent not in uneven]:
        notes.append(
            f"Fewer than {MANY_RUNS} runs{where} of {', '.join(some)}: intervals are narrower than they say. "
            f"With {LEAST_RUNS} runs, nominal 95 % cover 80 to 90 % for an IQM, and for a probability "
            "less the nearer it is to 0 or 1, two thirds where it is 0.9 (docs/compare.md)."
        )
    return notes
