"""The lines below the tables of a comparison: what its runs share, and what they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dtqn.experiments.comparison_table import Figures
from dtqn.experiments.intervals import LEAST_RUNS
from dtqn.experiments.records import Outcome
from dtqn.experiments.suites import Suite
from dtqn.settings import presets
from dtqn.settings.config import Config, settings_of
from dtqn.settings.task import task_of
from dtqn.text import counted, number

_OF_CONFIGS: Mapping[str, Callable[[Config], object]] = {
    "Budget": lambda config: f"{number(config.total_env_steps)} env steps",
    "Runs end early at success": lambda config: config.stop_at_success,
    "Runs end early at return": lambda config: config.stop_at_return,
    "Env steps between evaluations": lambda config: number(config.evaluation_period),
    "Episodes in a full evaluation": lambda config: config.evaluation.episodes,
    "Actions in evaluations": lambda config: config.evaluation.policy,
    "Step size": lambda config: f"{config.learner.learning_rate:g}",
}
_OF_RUNS = {
    "Episodes of the last evaluation": "episodes",
    "Threads of a run": "threads",
    "Device": "device",
    "Program": "program",
    "Code (digest of the sources)": "code",
    "Machine": "machine",
}
_UNLIKE = (
    "network.encoder.", "network.dueling", "network.distribution", "learner.", "replay.", "actor.", "task."
)  # fmt: skip
"""Settings that are told where any runs differ."""
_CORE = "network.core"
_OF_ONE_CORE = (f"{_CORE}.", "network.width", "network.head_width", "network.recall_weight")
"""Those that are told where runs of the same core differ."""
_TOLD = "learner.learning_rate"
"""The step size, which is always told."""


def notes(
    outcomes: Sequence[Outcome],
    runs: Sequence[Figures],
    given: Mapping[str, str],
    suite: Suite | None,
    metrics: Sequence[str] = (),
) -> list[str]:
    """What the runs share, what they do not, and which are missing."""
    configs, finished = [outcome.config for outcome in outcomes], [run for run in runs if not run["error"]]
    seeds = ", ".join(str(seed) for seed in sorted({config.seed for config in configs}))
    told = ", ".join(f"{name} {value}" for name, value in given.items()) or "none"
    told += ", before the share of the budget" if suite is not None and suite.share != 1 and given else ""
    lines = [] if suite is None else suite.notes()
    lines += [
        "What the columns mean: docs/compare.md.",
        f"Seeds: {seeds}, for every agent.",
        f"Settings given for all alike: {told}.",
    ]
    for what, value in _OF_CONFIGS.items():
        lines += _told(what, [(config.env, config.agent, value(config)) for config in configs])
    for what, key in _OF_RUNS.items():
        lines += _told(what, [(run["env"], run["agent"], run[key]) for run in finished])
    lines += _unlike(configs)
    lines += [*_changed(runs), *_unpublished(configs), *_ceilings(configs)]
    if metrics:
        lines.append(f"{', '.join(metrics)}: the mean over the second half of a run, then over runs.")
    return [*lines, *_missing(outcomes, runs)]


_DIFFER = " DIFFER: "


def _told(what: str, values: Sequence[tuple[str, str, object]]) -> list[str]:
    """`what: value`, task by task if tasks differ, and by runs if the runs of one task differ.

    Empty if no run has a value.
    """
    of_task: dict[str, set[str]] = {}
    having: dict[str, list[str]] = {}
    for env, agent, value in values:
        text = "none" if value in (None, "") else str(value)
        of_task.setdefault(env, set()).add(text)
        having.setdefault(text, []).append(agent)
    if not having.keys() - {"none"}:
        return []
    if any(len(texts) > 1 for texts in of_task.values()):
        each = [
            f"{text} ({counted(len(agents), 'run')} of {', '.join(dict.fromkeys(agents))})"
            for text, agents in having.items()
        ]
        return [f"{what}{_DIFFER}{'; '.join(each)}."]
    of_each = [f"{text} in {env}" for env, (text,) in of_task.items()]
    return [f"{what}: {next(iter(having)) if len(having) == 1 else '; '.join(of_each)}, for every agent."]


def _is_published(agent: str) -> bool:
    """Whether it lies over its task's preset, and so has nearly all settings to itself."""
    return agent in presets.agents() and presets.find_agent(agent).over_task


def _differing(of_runs: Sequence[tuple[str, str, Mapping[str, Any]]], prefixes: tuple[str, ...]) -> list[str]:
    """A line for each setting with such a prefix that differs on a task; `of_runs`: task, agent, settings."""
    names = dict.fromkeys(name for *_, values in of_runs for name in values if name.startswith(prefixes))
    names.pop(_TOLD, None)
    told = (_told(name, [(env, agent, values.get(name)) for env, agent, values in of_runs]) for name in names)
    return [line for found in told for line in found if _DIFFER in line]


def _unlike(configs: Sequence[Config]) -> list[str]:
    of_runs = [(x.env, x.agent, settings_of(x)) for x in configs if not _is_published(x.agent)]
    lines = _differing(of_runs, _UNLIKE)
    for core in dict.fromkeys(values[_CORE] for *_, values in of_runs):
        lines += _differing([run for run in of_runs if run[2][_CORE] == core], _OF_ONE_CORE)
    published = ", ".join(dict.fromkeys(x.agent for x in configs if _is_published(x.agent)))
    return [*lines, *([f"Settings as published, not compared here: {published}."] if published else [])]


def _ceilings(configs: Iterable[Config]) -> list[str]:
    ceilings = {config.env: task_of(config).success_ceiling for config in configs}
    return [
        f"Ceiling: in {env} no agent can exceed {ceiling:.1%} success."
        for env, ceiling in ceilings.items()
        if ceiling < 1
    ]


def _changed(runs: Sequence[Figures]) -> list[str]:
    told = [
        f"{_name(run)} at {', '.join(map(number, run['changed_at']))} env steps"
        for run in runs
        if run["changed_at"]
    ]
    what = "Task or network CHANGED DURING TRAINING (--accept-changed-code)"
    return [f"{what}: {'; '.join(told)}."] if told else []


def _unpublished(configs: Sequence[Config]) -> list[str]:
    """A line for each published agent with settings that are others."""
    changed = dict[str, dict[str, None]]()
    for config in configs:
        if _is_published(config.agent):
            others = [name for name, kept in presets.kept_of_preset(config).items() if not kept]
            changed.setdefault(config.agent, {}).update(dict.fromkeys(others))
    return [
        f"Not as published: {agent} has other {', '.join(names)} here."
        for agent, names in changed.items()
        if names
    ]


def _missing(outcomes: Sequence[Outcome], runs: Sequence[Figures]) -> list[str]:
    return [
        f"{outcome.state.upper()}, in no figure: {_name(run)}, {run['error']} ({run['run_dir']})"
        for outcome, run in zip(outcomes, runs, strict=True)
        if run["error"]
    ]


def _name(run: Figures) -> str:
    return f"{run['env']} {run['agent']} seed {run['seed']}"


def few_runs(lines: Sequence[Figures], baseline: str | None) -> list[str]:
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
    return notes


def ended_early(runs: Sequence[Figures]) -> str:
    """What stands above the tables of runs that ended as soon as they passed; empty of others."""
    done = [run for run in runs if run["score"] is not None]
    if not (early := sum(run["ended_early"] for run in done)):
        return ""
    runs_in_all = counted(len(done), "run")
    return (
        f"{early} of these {runs_in_all} ended when they passed (stop_at_success, stop_at_return): their"
        " result is their best moment, one evaluation counts as solved, and whether they would have "
        "stayed so is not known."
    )
