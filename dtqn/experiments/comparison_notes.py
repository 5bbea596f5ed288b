"""The lines below the tables of a comparison: what its runs share, and what they do not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from dtqn.experiments.comparison_table import RunFigures
from dtqn.experiments.intervals import LEAST_RUNS
from dtqn.experiments.records import Outcome
from dtqn.experiments.suites import Suite
from dtqn.settings import presets
from dtqn.settings.config import Config
from dtqn.settings.task import task_of
from dtqn.text import number

TO_90 = (
    "To 90 %: at the first evaluation that shows it, a full one by its success, a shorter one by the lower "
    "end of its Wilson interval; the median over runs (how many got there)."
)
_NAMED = 2  # of the most alike runs, as many are named; more are "all others"
_RANDOM = "one evaluation's episodes on the seeds of a first evaluation"


def notes(
    outcomes: Sequence[Outcome],
    runs: Sequence[RunFigures],
    baseline: str | None,
    given: Mapping[str, str],
    suite: Suite | None,
) -> list[str]:
    """The settings that the runs share, and the meaning of the columns."""
    configs = [outcome.config for outcome in outcomes]
    finished = [run for run in runs if not run.error]
    published = _published(configs)
    return [
        *(suite.notes(published) if suite is not None else ()),
        *_circumstances(configs, finished, suite),
        *_tuning(configs, given, suite),
        *_evaluations(outcomes, runs),
        "updates/s: learner steps by seconds of the whole run, acting and evaluation included.",
        *_statistics(finished, baseline),
        *_of_single_agents(configs, given.get("config"), suite is None or suite.task_presets),
        *_changed(finished),
        *_unpublished(configs, published),
        *_options(configs),
        *_ends(configs),
    ]


def _circumstances(
    configs: Sequence[Config], finished: Sequence[RunFigures], suite: Suite | None
) -> list[str]:
    """Seeds, budget and machine of the runs."""

    def of_finished(value: Callable[[RunFigures], object]) -> list[_Value]:
        return [_Value(run.env, run.agent, run.seed, str(value(run))) for run in finished]

    seeds = ", ".join(str(seed) for seed in sorted({config.seed for config in configs}))
    lines = [
        f"Seeds: {seeds}, for every agent.",
        f"random: uniform actions, {_RANDOM if suite is None else f'as the suite knows them, or {_RANDOM}'}.",
        _same("Budget", _of_each(configs, lambda config: f"{number(config.total_env_steps)} env steps")),
        _same("Threads of a run", of_finished(lambda run: run.threads)),
        _same("Device", of_finished(lambda run: run.device)),
        _same("Program", of_finished(lambda run: run.program)),
    ]
    code, machine = of_finished(attrgetter("code")), of_finished(attrgetter("machine"))
    if any(run.code for run in finished) and not _differ(code):  # else it is told below its table (`codes`)
        lines.append(_same("Code", code))
    if any(run.machine for run in finished):
        lines.append(_same("Machine", machine))
    return lines


def _tuning(configs: Sequence[Config], given: Mapping[str, str], suite: Suite | None) -> list[str]:
    over = ["the task's"] if suite is None or suite.task_presets else []
    over += [] if suite is None else ["the suite's settings"]
    wins = "win" if suite is not None else "wins"
    over_it = f" with {' and '.join(over)} laid over it, which {wins} where both set something"
    over_it += ", unless the agent's has over_task"
    settings = ", ".join(f"{name} {value}" for name, value in given.items()) or "none"
    settings += "" if suite is None or suite.share == 1 or not given else ", before the share of the budget"
    return [
        f"Tuning: every agent is its preset{over_it}; settings given for all alike: {settings}.",
        _by_agent("Step size", _of_each(configs, lambda config: f"{config.learner.learning_rate:g}")),
    ]


def _evaluations(outcomes: Sequence[Outcome], runs: Sequence[RunFigures]) -> list[str]:
    configs = [outcome.config for outcome in outcomes]
    pairs = [pair for pair in zip(outcomes, runs, strict=True) if not pair[1].error]
    return [
        _same("Episodes in a full evaluation", _of_each(configs, attrgetter("evaluation.episodes"))),
        policies(configs),
        "Success and return are of the last evaluation, the mean over runs.",
        *_short_last(pairs),
        "Evaluation seeds: evaluation i of the runs with seed k has the same for every agent.",
        _same("Evaluations", [_number_or_period(*pair) for pair in pairs]),
        f"{TO_90} Minutes are by the clock, before that evaluation and beside whatever else ran.",
    ]


def policies(configs: Sequence[Config]) -> str:
    """The line about who plays the evaluations."""
    return _same("Actions in evaluations", _of_each(configs, attrgetter("evaluation.policy")))


def _statistics(finished: Sequence[RunFigures], baseline: str | None) -> list[str]:
    """The meaning of the columns that need several runs, where there are so many."""
    counts = Counter((run.env, run.agent) for run in finished)
    lines = []
    if max(counts.values(), default=0) >= LEAST_RUNS:
        lines.append(
            "IQM: interquartile mean over runs; in brackets the 95 % interval by percentile bootstrap of "
            f"runs, each task's among themselves; from {LEAST_RUNS} runs of an agent on a task on."
        )
    if baseline is not None and sum(count >= LEAST_RUNS for count in counts.values()) > 1:
        lines.append(
            f"P(better than {baseline}): that the agent's run ends above {baseline}'s; ties count half."
        )
    return lines


def _options(configs: Sequence[Config]) -> list[str]:
    options = _of_each(configs, _task_options)
    told = f"{_same('Task options', options)} random has those of {configs[0].agent}."
    return [told] if _differ(options) else []


def _ends(configs: Sequence[Config]) -> list[str]:
    """Where runs end before their budget, and what nobody can exceed."""
    lines = []
    for name in ("success", "return"):
        goals = _of_each(configs, attrgetter(f"stop_at_{name}"))
        if any(goal.value != "None" for goal in goals):
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


def _published(configs: Sequence[Config]) -> list[str]:
    """The shipped agents among them that keep their own settings on every task."""
    shipped = presets.agents()
    found = dict.fromkeys(config.agent for config in configs if config.agent in shipped)
    return [agent for agent in found if presets.find_agent(agent).over_task]


def _unpublished(configs: Sequence[Config], published: Sequence[str]) -> list[str]:
    """A line for each published agent, which lies over its task's preset, with settings that are others."""
    changed = dict[str, dict[str, None]]()
    for config in configs:
        if config.agent in published:
            others = [name for name, kept in presets.kept_of_preset(config).items() if not kept]
            changed.setdefault(config.agent, {}).update(dict.fromkeys(others))
    return [
        f"Not as published: {agent} has other {', '.join(names)} here."
        for agent, names in changed.items()
        if names
    ]


def _task_options(config: Config) -> str:
    """Those that are not the task's own."""
    changed = config.task.model_dump(mode="json", exclude_defaults=True)
    return ", ".join(f"{name} {value}" for name, value in changed.items()) or "none"


class _Value(NamedTuple):
    """The value of something in a run."""

    env: str
    agent: str
    seed: int
    value: str


def _number_or_period(outcome: Outcome, run: RunFigures) -> _Value:
    """How many evaluations a run has, or, where it may end early, how often it has one."""
    config = outcome.config
    often = f"one, full or not, for each {number(config.evaluation.period)} env steps, until a run ends"
    value = str(run.evaluations) if not config.may_end_early else often
    return _Value(run.env, run.agent, run.seed, value)


def _short_last(pairs: Sequence[tuple[Outcome, RunFigures]]) -> list[str]:
    """A line where the last evaluation of a run has fewer episodes than a full one."""
    if all(run.episodes == outcome.config.evaluation.episodes for outcome, run in pairs):
        return []
    values = [_Value(run.env, run.agent, run.seed, str(run.episodes)) for _, run in pairs]
    return [_same("Episodes of the last evaluation", values)]


def _of_each(configs: Sequence[Config], value: Callable[[Config], object]) -> list[_Value]:
    return [_Value(config.env, config.agent, config.seed, str(value(config))) for config in configs]


def _same(what: str, values: Sequence[_Value]) -> str:
    """`what: value for every agent`, task by task where tasks differ, and every run's where these differ."""
    by_task = _by_task(values)
    if _differ(values):
        return f"{what} DIFFER: {_whose(values)}."
    if len(set().union(*by_task.values())) == 1:
        return f"{what}: {values[0].value}, for every agent."
    each = [f"{value} in {env}" for env, found in by_task.items() for value in found]
    return f"{what}: {'; '.join(each) or 'none'}, for every agent."


def _whose(values: Sequence[_Value]) -> str:
    """`runs: value` for each value; the value of most runs comes last, for `all others` where these are many.

    Runs are named by no more than it takes: the agent, where all its runs have the value; the task, where the
    values are of several; the seeds, where an agent's runs of one task have not all the same.
    """
    of_agent, of_task = defaultdict[str, set[str]](set), defaultdict[tuple[str, str], set[str]](set)
    for of in values:
        of_agent[of.agent].add(of.value)
        of_task[of.env, of.agent].add(of.value)
    is_suite = len({of.env for of in values}) > 1
    groups: dict[str, dict[str, list[str]]] = {}
    for of in values:
        is_alike = len(of_agent[of.agent]) == 1
        name = f"{of.env} {of.agent}" if is_suite and not is_alike else of.agent
        seeds = groups.setdefault(of.value, {}).setdefault(name, [])
        if len(of_task[of.env, of.agent]) > 1:
            seeds.append(str(of.seed))
    (most, _), *others = Counter(of.value for of in values).most_common()
    each = [f"{_named(groups[value])}: {value}" for value, _ in others]
    each.append(f"{'all others' if len(groups[most]) > _NAMED else _named(groups[most])}: {most}")
    return "; ".join(each)


def _named(runs: Mapping[str, Sequence[str]]) -> str:
    """Names, and behind them those that have seeds, with these."""
    return ", ".join(
        f"{name} seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}" if seeds else name
        for name, seeds in sorted(runs.items(), key=lambda item: bool(item[1]))
    )


def _by_agent(what: str, values: Sequence[_Value]) -> str:
    """`what: value for these agents`, where an agent may have its own."""
    if len({of.value for of in values}) == 1:
        return _same(what, values)
    is_suite = len({of.env for of in values}) > 1
    agents: dict[str, dict[str, None]] = {}
    for of in values:
        agents.setdefault(of.value, {})[f"{of.agent} in {of.env}" if is_suite else of.agent] = None
    each = [f"{value} for {', '.join(of)}" for value, of in agents.items()]
    return f"{what}: {'; '.join(each)}."


def _by_task(values: Sequence[_Value]) -> dict[str, set[str]]:
    by_task: dict[str, set[str]] = {}
    for of in values:
        by_task.setdefault(of.env, set()).add(of.value)
    return by_task


def _differ(values: Sequence[_Value]) -> bool:
    """Whether runs of one task have different ones."""
    return any(len(found) > 1 for found in _by_task(values).values())


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
    values = [_Value(run.env, run.agent, run.seed, run.code or "unknown") for run in runs if not run.error]
    if len({of.value for of in values}) < 2:
        return []
    return [f"Runs of DIFFERENT CODE (digest of the sources): {_whose(values)}."]
