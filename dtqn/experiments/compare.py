"""Compare agents: train the missing runs, several at a time, then write the table and the curves."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dtqn.acting.evaluation import EvaluationResult
from dtqn.experiments import (
    also,
    comparison_notes,
    comparison_pictures,
    comparison_table,
    options,
    suites,
)
from dtqn.experiments import search as searches
from dtqn.experiments.comparison_table import Figures
from dtqn.experiments.jobs import Job, RunQueue, fitting
from dtqn.experiments.records import Outcome, Records, of_finished
from dtqn.experiments.scores import RETURN, SUCCESS, Score
from dtqn.experiments.search import Search, chosen_yaml, note, to_markdown
from dtqn.experiments.suites import RECORDS, Suite, SuiteTask
from dtqn.files import write_whole
from dtqn.settings import presets
from dtqn.settings.config import Config, ConfigError, flag, wrong
from dtqn.settings.names import folder_of
from dtqn.settings.record_files import SUFFIX
from dtqn.settings.task import task_of
from dtqn.settings.values import nearest
from dtqn.text import terminal_width
from dtqn.training import chance_level, machine, objects
from dtqn.training.directory import RunDir, config_hash, make_writable
from dtqn.training.display import RunsView
from dtqn.training.metrics import METRICS, SUMMARISED, SUMMARISED_IN_WORDS, whole


class Comparison(NamedTuple):
    """A comparison that is to be made, or gone on with."""

    own: options.Comparison
    """What it is asked for; `jobs` is no longer None."""
    folder: Path
    """Where the table and the curves go."""
    configs: Sequence[Config]
    """Of all runs."""
    given: Mapping[str, str]
    """Settings of all runs as they were typed, to be told with the table."""
    own_agents: Sequence[str] = ()
    """Files and variants of agents, as they were typed."""
    suite: Suite | None = None
    """What the tasks are of, for their scores, its notes and its pictures."""
    search: Search | None = None
    """The equal search that the runs are of, which gets two more files."""
    command: str = ""
    """As it was typed."""
    also: Sequence[str] = ()
    """Tasks that trained agents then play without training."""


def asked(given: dict[str, Any], command: str) -> tuple[int, Path]:
    """Make the comparison that options and settings by name ask for; the exit code, and its folder."""
    own = options.Comparison.of(given)
    searched = [own.search] if isinstance(own.search, str) else own.search or []
    if len(searched) > 1:
        raise wrong("--search", searched[1], "it is given twice; search one setting at a time")
    suite, records = _suite(own, given), own.records
    if suite is not None and records is None and own.budget_share == 1 and RECORDS.is_dir():
        records = RECORDS / f"{suite.name}{SUFFIX}"
    read_metrics(own.metrics)  # which may be wrong
    agents, search = read_agents(own.agents), None
    own_agents = [item for name, item in agents.items() if name != item]
    if searched:
        as_they_are = plan(list(agents.values()), [own.first_seed], own.config, given, suite, here=False)
        search = searches.read(searched[0], agents, given, suite)
        agents = search.items()
    if own.baseline is not None and own.baseline not in agents:
        raise wrong("--baseline", own.baseline, f"it is not one of --agents{nearest(own.baseline, agents)}")
    seeds = range(own.first_seed, own.first_seed + own.seeds)
    configs = plan(list(agents.values()), seeds, own.config, given, suite, not own.records_only)
    search = search and search.settled(as_they_are, configs)
    others = also.read_tasks(names("--also", own.also)) if own.also else []
    also.check(configs, others)
    only_here = next(filter(objects.kept, configs), configs[0])
    objects.settled(only_here, own.jobs)
    if line := objects.told(only_here):
        print(line, flush=True)
    told = {} if own.config is None else {"config": str(own.config)}
    told |= {name: value for name, value in given.items() if name != "env"}
    out = own.out or default_folder(configs, own.runs_dir, suite)
    own = own.model_copy(update={"jobs": own.jobs or fitting(only_here), "records": records})
    comparison = Comparison(own, out, configs, told, own_agents, suite, search, command, others)
    with options.told_to_wandb(WANDB_JOB_TYPE="compare"):
        return compare(comparison), comparison.folder


def _suite(own: options.Comparison, given: Mapping[str, Any]) -> Suite | None:
    """The suite that is compared on, if any, at this share of its budgets."""
    name, tasks, share = own.suite, own.tasks, own.budget_share
    if name is None:
        if share != 1:
            raise wrong("--budget-share", share, "it scales the budgets of a suite; give --suite")
        if tasks is not None:
            raise wrong("--tasks", tasks, "it chooses among the tasks of a suite; without --suite give --env")
        return None
    for setting in ("env", "total_env_steps"):
        if setting in given:
            raise wrong(flag(setting), given[setting], "leave it out with --suite, which sets it")
    suite = suites.read(name, share)
    return suite if tasks is None else suite.only(tasks)


def read_agents(text: str) -> dict[str, str]:
    """Name -> what stands for the agent, from presets, files and variants with commas between.

    Raises:
        ConfigError: for an agent that there is not, and for two of one name.
    """
    agents: dict[str, str] = {}
    for item in names("--agents", text):
        try:
            name = presets.find_agent(item).name
        except ConfigError as error:
            raise wrong("--agents", text, str(error)) from None
        if name in agents:
            raise wrong("--agents", text, f"{name} is the name of two agents; give another")
        agents[name] = item
    return agents


def names(option: str, text: str) -> list[str]:
    """Names with commas between, each once; those in brackets are of a value."""
    found = [""]
    for part in text.split(","):
        is_open = sum(map(found[-1].count, "[{")) > sum(map(found[-1].count, "]}"))
        found[-1:] = [f"{found[-1]},{part}"] if is_open else [found[-1], part]
    del found[0]
    for name in found:
        if not name or found.count(name) > 1:
            what = "a name is empty" if not name else f"{name} is given twice"
            raise wrong(option, text, f"{what}; must be names with commas between")
    return found


def read_metrics(text: str | None) -> list[str]:
    """Names of metrics with commas between, if there are any.

    Raises:
        ConfigError: for one that no table can have.
    """
    found = names("--metrics", text) if text else []
    for name in found:
        if name not in SUMMARISED:
            near = "" if name in METRICS else nearest(name, SUMMARISED)
            right = f"{SUMMARISED_IN_WORDS}, with commas between"
            raise wrong("--metrics", text, f"{name} is no such metric{near}; must be {right}")
    return found


def plan(
    agents: Sequence[str],
    seeds: Sequence[int],
    file: Path | None,
    given: Mapping[str, str],
    suite: Suite | None = None,
    here: bool = True,
) -> list[Config]:
    """The runs of a comparison, by task, then agent, then seed.

    Args:
        agents: what stands for each, as `--agent` takes it.
        file: what `--config` names.
        given: settings of all runs; `env` may be several tasks with commas between.
        suite: the tasks and what it sets for all agents; None for the tasks of `given`.
        here: they are to run, and on this machine.

    Raises:
        ConfigError: for settings that do not make a run of each.
    """
    from dtqn.training import preflight

    def resolve(task: SuiteTask | None = None, **own: str) -> Config:
        config = presets.resolve(
            file,
            {**given, **own},
            os.environ,
            below=() if task is None else (task.budget,),
            suite=() if task is None else task.settings,
            for_all=len(agents) > 1,
        )
        config = config if suite is None else suite.scaled(config)
        return machine.settled(objects.settled(config), free=1)  # jobs fill the others

    tasks: dict[str, SuiteTask | None]
    if suite is None:
        env = given.get("env") or resolve(agent=agents[0]).env
        tasks = dict.fromkeys(names("--env", env))
    else:
        tasks = {task.name: task for task in suite.tasks}
    configs = [
        resolve(task, env=env, agent=agent, seed=str(seed))
        for env, task in tasks.items()
        for agent in agents
        for seed in seeds
    ]
    for config in configs[:: len(seeds)]:
        task_of(config)
        preflight.check(config, here)
    return configs


def default_folder(configs: Sequence[Config], runs_dir: Path, suite: Suite | None = None) -> Path:
    """`<runs_dir>/compare/<task or suite>-<hash>`: one folder for one set of runs."""
    tasks = list(dict.fromkeys(config.env for config in configs))
    name = folder_of(tasks[0]) if len(tasks) == 1 else f"{len(tasks)}-tasks"
    name = name if suite is None else suite.name
    digest = hashlib.sha256(json.dumps(sorted(map(config_hash, configs))).encode()).hexdigest()
    return runs_dir / "compare" / f"{name}-{digest[:8]}"


def compare(of: Comparison) -> int:
    """Train what has not finished and write the comparison; the program's exit code.

    Returns:
        0, 1 where a run has failed (the table is of the others) or a record could not be written, 128 + n
        after signal n.

    Raises:
        ConfigError: before anything is trained, where nothing can be written to its folders.
    """
    shelf, scores = Records(of.own.records), scores_of(of.configs, of.suite)
    if of.own.runs_dir in of.folder.parents:  # as by default
        make_writable("--runs-dir", of.own.runs_dir)
    make_writable("--out", of.folder)
    outcomes, caught = _gathered(of, shelf)
    if caught is not None:
        done = sum(outcome.state == "finished" for outcome in outcomes)
        print(f"interrupted, {done} of {len(outcomes)} runs finished; the same command continues")
        return 128 + caught
    table = _written(of, outcomes, scores)
    if (width := terminal_width(sys.stdout)) is None:
        told = f"{comparison_table.to_text(table)}\ntable and curves"
    else:
        told = (
            f"{comparison_table.to_terminal(table, width)}\nwhole table, {len(table.notes)} notes and curves"
        )
    print(f"\n{told} in {of.folder}")
    if of.also:
        _play_also(of)
    if shelf.unwritten:
        print(f"{shelf.unwritten} of these runs left no record in {of.own.records}, as said above")
    return 1 if shelf.unwritten or any(outcome.state == "failed" for outcome in outcomes) else 0


def _written(
    of: Comparison, outcomes: Sequence[Outcome], scores: Mapping[str, Sequence[Score]]
) -> comparison_table.Table:
    """The table, which has been written with the curves and all else."""
    say = functools.partial(print, flush=True)
    measured = chance_level.measured(of.configs, of.folder / "random.json", say)
    floors = {
        env: floor if of.suite is None else _known(floor, scores[env]) for env, floor in measured.items()
    }
    metrics = read_metrics(of.own.metrics)
    runs = [
        comparison_table.run_figures(outcome, scores[outcome.config.env], metrics) for outcome in outcomes
    ]
    notes = comparison_notes.notes(outcomes, runs, of.given, of.suite, metrics)
    if of.own_agents:
        notes.append(f"Agents of your own: {', '.join(of.own_agents)}.")
    if of.search is not None:
        notes.append(_searched(of, of.search, runs))
    table = _table(of, runs, floors, scores, notes)
    write_whole(of.folder / "table.md", comparison_table.to_markdown(table, of.command))
    write_whole(of.folder / "table.json", comparison_table.to_json(table, runs))
    published = of.suite.published if of.suite else []
    comparison_pictures.draw_curves(outcomes, floors, scores, published, of.folder)
    if of.suite is not None:
        comparison_pictures.draw_suite(of.suite, runs, of.folder)
    return table


def _play_also(of: Comparison) -> None:
    """Trained agents on the other tasks: a table and a figure of their own."""
    file = of.folder / "also.json"
    played = also.measured(of.configs, of.own.runs_dir, of.also, file)
    if not played:
        print("--also: no weights of these runs are here")
        return
    comparison_pictures.draw_also(played, of.folder)
    print("", *also.lines(played), f"figure and values in {file.with_suffix('')}.*", sep="\n")


def _searched(of: Comparison, search: Search, runs: Sequence[Figures]) -> str:
    """The note about a search, whose files have been written."""
    findings, chosen = search.findings(of.configs, runs), of.folder / "chosen.yaml"
    file = Path(of.given["config"]) if "config" in of.given else None
    write_whole(of.folder / "search.md", to_markdown(search, findings))
    write_whole(chosen, chosen_yaml(search, findings, file))
    return f"{note(search, findings)} search.md has these runs, --config {chosen} what was chosen."


def _table(
    of: Comparison,
    runs: Sequence[Figures],
    floors: Mapping[str, EvaluationResult],
    scores: Mapping[str, Sequence[Score]],
    notes: Sequence[str],
) -> comparison_table.Table:
    """The figures of all agents, task by task and pooled, with the lines below each part."""
    groups = {env: [env] for env in scores}
    tasks, families = list(groups), {} if of.suite is None else of.suite.families
    if len(families) > 1:
        pooled = {name: [task.name for task in each] for name, each in families.items()}
        groups |= {name: envs for name, envs in pooled.items() if len(envs) > 1}
    if len(tasks) > 1:
        groups[comparison_table.ALL_TASKS] = tasks
    published = of.suite.published if of.suite is not None else ()
    lines = comparison_table.agent_lines(runs, of.own.baseline, floors, scores, groups, published)
    under = {
        name: [
            *(one.note for one in published if [one.task] == envs),
            *comparison_notes.few_runs([line for line in lines if line["env"] == name], of.own.baseline),
        ]
        for name, envs in groups.items()
    }
    return comparison_table.Table(lines, of.own.baseline, under, notes, comparison_notes.ended_early(runs))


def _gathered(of: Comparison, shelf: Records) -> tuple[list[Outcome], int | None]:
    """The outcome of each run, those without a record trained; the signal that came."""
    known = [shelf.find(config) or _untrained(of, config) for config in of.configs]
    for problem in shelf.problems:
        print(problem)
    if None in known:
        make_writable("--runs-dir", of.own.runs_dir)
        if of.own.records is not None:
            make_writable("--records", of.own.records.parent)
    found = [one or _job(config, of.own.runs_dir) for one, config in zip(known, of.configs, strict=True)]
    caught = _train([one for one in found if isinstance(one, Job)], of.own.jobs or 1, shelf)
    return [_outcome(one) if isinstance(one, Job) else one for one in found], caught


def _untrained(of: Comparison, config: Config) -> Outcome | None:
    """What is told of a run that is not to be trained; None of one that is, or that has finished."""
    if not of.own.records_only or RunDir.of_config(config, of.own.runs_dir).read_result() is not None:
        return None
    return Outcome(config, "not trained", "no directory", "--records-only")


def scores_of(configs: Sequence[Config], suite: Suite | None) -> dict[str, Sequence[Score]]:
    """The scores that judge the runs of each task: a suite's, or success, or else the return.

    Raises:
        ConfigError: one run's settings define success on a task, another run's do not; or a suite asks for
            one where there is none.
    """
    first: dict[str, Config] = {}
    for config in configs:
        one, other = task_of(first.setdefault(config.env, config)).has_success, task_of(config).has_success
        if one != other:
            does, lacks = (first[config.env], config) if one else (config, first[config.env])
            raise ConfigError(
                f"task.success: {does.agent} seed {does.seed} has a success on {config.env}, {lacks.agent} "
                f"seed {lacks.seed} has none, so they have no score in common; must be set for all or none"
            )
    if suite is None:
        return {env: [SUCCESS if task_of(config).has_success else RETURN] for env, config in first.items()}
    scores: dict[str, Sequence[Score]] = {task.name: task.scores for task in suite.tasks}
    for env, config in first.items():
        if "success" in [score.of for score in scores[env]] and not task_of(config).has_success:
            told = f"a score of {env} is success, but the task defines no success; try return"
            raise ConfigError(f"{suite.path}: {told}")
    return scores


def _known(floor: EvaluationResult, scores: Sequence[Score]) -> EvaluationResult:
    """The result of random actions with what a suite knows of it, which is exact or of more episodes."""
    known = {score.of: score.random for score in scores if score.random is not None}
    return floor._replace(
        success=known.get("success", floor.success),
        episode_return=known.get("return", floor.episode_return),
    )


def _job(config: Config, runs_dir: Path) -> Job:
    directory = RunDir.of_config(config, runs_dir)
    directory.prepare(config)
    return Job(f"{config.env} {config.agent} seed {config.seed}", directory)


def _train(jobs: Sequence[Job], at_once: int, shelf: Records) -> int | None:
    """Run all that have not finished, and keep their records; the signal that ended it, if one did."""

    def kept(job: Job) -> str:
        record = _outcome(job).record
        return "" if record is None else shelf.keep(job.config, record)

    with RunQueue(at_once) as queue, contextlib.closing(RunsView(sys.stdout, queue.jobs)) as view:
        for job in jobs:
            queue.add(job)
        for changed in queue.changes():
            view.update(changed)
            told = [kept(job) for job in changed if job.state == "finished"]
            for line in [*queue.news, *filter(None, told)]:
                view.say(line)
    return queue.caught


def _outcome(job: Job) -> Outcome:
    where, result = str(job.directory.path), job.directory.read_result()
    if result is None:
        return Outcome(job.config, job.state, where, job.error if job.state == "failed" else "")
    return of_finished(job.config, result, whole(job.directory.metrics_file, job.rows, result), where)
