"""Compare agents: train the missing runs, several at a time, then write the table and the curves."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

import envs
from dtqn import plots
from dtqn.acting.evaluation import EvaluationResult
from dtqn.experiments import comparison_table
from dtqn.experiments.comparison_table import RunFigures
from dtqn.experiments.intervals import LEAST_RUNS, band
from dtqn.experiments.jobs import Job, Pool
from dtqn.files import write_whole
from dtqn.settings import presets
from dtqn.settings.config import Config, ConfigError, wrong
from dtqn.settings.task import task_of
from dtqn.text import number
from dtqn.training import chance
from dtqn.training.directory import RunDir, config_hash
from dtqn.training.display import open_runs_view

Clock = tuple[str, str, float]
_CLOCKS: dict[str, Clock] = {
    "env-steps": ("environment steps", "env_steps", 1.0),
    "minutes": ("minutes of training", "seconds", 60.0),
}
"""By file name: the axis, the key of the metrics file and what it is divided by."""
_SEED = 0
"""The seed of the bands' bootstrap."""


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
    """Names with commas between, each once."""
    found = text.split(",")
    for name in found:
        if not name or found.count(name) > 1:
            what = "a name is empty" if not name else f"{name} is there twice"
            raise wrong(option, text, f"{what}; must be names with commas between")
    return found


def plan(
    agents: Sequence[str], seeds: Sequence[int], file: Path | None, given: Mapping[str, str]
) -> list[Config]:
    """The runs of a comparison, by task, then agent, then seed.

    Args:
        agents: what stands for each, as `--agent` takes it.
        file: what `--config` names.
        given: settings of all runs; `env` may be several tasks with commas between.

    Raises:
        ConfigError: for settings that do not make a run of each.
    """
    from dtqn.training import preflight

    def resolve(**own: str) -> Config:
        config = presets.resolve(file, {**given, **own}, os.environ)
        return config.settled(free_cores=1)  # jobs fill the others

    env = given.get("env") or resolve(agent=agents[0]).env
    configs = [
        resolve(env=task, agent=agent, seed=str(seed))
        for task in names("--env", env)
        for agent in agents
        for seed in seeds
    ]
    for config in configs[:: len(seeds)]:
        task_of(config)
        preflight.check(config)
    return configs


def default_folder(configs: Sequence[Config], runs_dir: Path) -> Path:
    """`<runs_dir>/compare/<task>-<hash>`: one folder for one set of runs."""
    tasks = list(dict.fromkeys(config.env for config in configs))
    name = re.sub(r"[^\w.-]+", "-", tasks[0]) if len(tasks) == 1 else f"{len(tasks)}-tasks"
    digest = hashlib.sha256(json.dumps(sorted(map(config_hash, configs))).encode()).hexdigest()
    return runs_dir / "compare" / f"{name}-{digest[:8]}"


def compare(
    configs: Sequence[Config],
    parallel: int,
    runs_dir: Path,
    folder: Path,
    baseline: str | None,
    given: Mapping[str, str],
    own_agents: Sequence[str] = (),
    out: TextIO | None = None,
) -> int:
    """Train what has not finished and write the comparison; the program's exit code.

    Args:
        parallel: trainings at a time.
        runs_dir: where runs are found by their settings.
        folder: where the table and the curves go.
        baseline: the agent that the others are compared with.
        given: the settings that were given for all runs, to be told with the table.
        own_agents: files and variants as they were given, to be told with the table.

    Returns:
        0, 1 where a run has failed (the table is of the others), 128 + n after signal n.

    Raises:
        ConfigError: before anything is trained, where `folder` cannot be made.
    """
    out = out or sys.stdout
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise wrong("--out", folder, f"{error.strerror}; must be a folder") from None
    jobs = [_job(config, runs_dir) for config in configs]
    caught = train(jobs, parallel, out)
    if caught is not None:
        done = sum(job.state == "finished" for job in jobs)
        print(f"interrupted, {done} of {len(jobs)} runs finished; the same command goes on", file=out)
        return 128 + caught
    floors = chance.measured(configs, folder / "random.json")
    runs = [_figures(job) for job in jobs]
    lines = comparison_table.agent_figures(runs, baseline, floors)
    own = [f"Agents of your own: {', '.join(own_agents)}."] if own_agents else []
    notes = [*_notes(jobs, runs, baseline, given), *own, *_missing(runs)]
    under = {env: _unlike(configs, env) for env in [*floors, comparison_table.ALL_TASKS]}
    table = comparison_table.Table(lines, baseline, under, notes)
    text = comparison_table.to_text(table)
    files = {
        "table.txt": text,
        "table.md": comparison_table.to_markdown(table),
        "table.csv": comparison_table.to_csv(table),
        "table.json": comparison_table.to_json(table, runs),
    }
    for name, content in files.items():
        write_whole(folder / name, content)
    for name, clock in _CLOCKS.items():
        panels = _panels(jobs, clock, floors)
        for suffix in ("png", "svg"):
            plots.comparison(panels, folder / f"curves-{name}.{suffix}", clock[0], _lines_and_bands(panels))
    print(f"\n{text}\ntable and curves in {folder}", file=out)
    return 1 if any(run.error for run in runs) else 0


def _lines_and_bands(panels: Sequence[plots.Panel]) -> str:
    """The meaning of lines and bands, by the numbers of runs."""
    counts = [curve.runs for panel in panels for curve in panel.curves]
    many, few = "interquartile mean and 95 % bootstrap interval of runs", "mean, minimum and maximum of runs"
    if all(count < LEAST_RUNS for count in counts):
        return f"line and band: {few}"
    if all(count >= LEAST_RUNS for count in counts):
        return f"line and band: {many}"
    return f"line and band: {many}; of fewer than {LEAST_RUNS}: {few}"


_UNLIKE = {
    "network.use_prev_action": "the previous action",
    "network.use_prev_reward": "the previous reward",
    "network.dueling": "a dueling head",
}
"""Parts apart from memory that some presets have and others, as published, lack."""


def _unlike(configs: Sequence[Config], env: str) -> list[str]:
    """In which of these the agents of a task (or of all) differ: what does not come from their memory."""
    here = [config for config in configs if env in (config.env, comparison_table.ALL_TASKS)]
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


def _job(config: Config, runs_dir: Path) -> Job:
    directory = RunDir.of_config(config, runs_dir)
    directory.prepare(config)
    return Job(f"{config.env} {config.agent} seed {config.seed}", directory)


def train(jobs: Sequence[Job], parallel: int, out: TextIO) -> int | None:
    """Run all that have not finished, with one view over them; the signal that ended it, if one did."""
    with Pool(parallel) as pool:
        view = open_runs_view(out, pool.jobs)
        try:
            for job in jobs:
                pool.add(job)
            for changed in pool.changes():
                view.update(changed)
                for line in pool.news:
                    view.say(line)
        finally:
            view.close()
    return pool.caught


def _figures(job: Job) -> RunFigures:
    config = job.config
    error = job.error if job.state == "failed" else ""
    return comparison_table.run_figures(config.env, config.agent, config.seed, job.directory, job.rows, error)


def _notes(
    jobs: Sequence[Job], runs: Sequence[RunFigures], baseline: str | None, given: Mapping[str, str]
) -> list[str]:
    """The settings that the runs share, and the meaning of the columns."""

    def of_each(value: Callable[[Config], str]) -> list[tuple[str, str, str]]:
        return [(job.config.env, job.config.agent, value(job.config)) for job in jobs]

    finished = [run for run in runs if not run.error]
    seeds = ", ".join(str(seed) for seed in sorted({run.seed for run in runs}))
    settings = ", ".join(f"{name} {value}" for name, value in given.items()) or "none"
    notes = [
        f"Seeds: {seeds}, for every agent.",
        "random: uniform actions, one evaluation's episodes on the seeds of a first evaluation.",
        _same("Budget", of_each(lambda config: f"{number(config.total_env_steps)} env steps")),
        _same("Threads of a run", [(run.env, run.agent, str(run.threads)) for run in finished]),
        _same("Device", [(run.env, run.agent, str(run.device)) for run in finished]),
        _same("Program", [(run.env, run.agent, str(run.program)) for run in finished]),
        "Tuning: every agent is its preset with the task's laid over it, which wins where both set something,"
        f" unless the agent's has over_task; settings given for all alike: {settings}.",
        _same("Episodes in a full evaluation", of_each(lambda config: str(config.evaluation.episodes))),
        "Success and return are of the last evaluation (greedy), the mean over runs.",
        "Evaluation seeds: evaluation i of the runs with seed k has the same for every agent.",
        _same("Evaluations", [(run.env, run.agent, str(run.evaluations)) for run in finished]),
        "To 90 %: at the first full evaluation with 90 % success; the median over runs (how many got there). "
        "Minutes are by the clock, beside whatever else ran.",
        "updates/s: learner steps by seconds of the whole run, acting and evaluation included.",
    ]
    counts = Counter((run.env, run.agent) for run in finished)
    if max(counts.values(), default=0) >= LEAST_RUNS:
        notes.append(
            "IQM: interquartile mean over runs; in brackets the 95 % interval by percentile bootstrap of "
            f"runs, each task's among themselves; from {LEAST_RUNS} runs of an agent on a task on."
        )
    if baseline is not None and sum(count >= LEAST_RUNS for count in counts.values()) > 1:
        notes.append(
            f"P(better than {baseline}): that the agent's run ends above {baseline}'s; ties count half."
        )
    if any(job.config.stop_at_success is not None for job in jobs):
        notes.append(_same("Runs end early at success", of_each(lambda config: str(config.stop_at_success))))
    for config in {job.config.env: job.config for job in jobs}.values():
        ceiling = _spec(config).success_ceiling
        if ceiling < 1:
            notes.append(f"Ceiling: in {config.env} no agent can exceed {ceiling:.1%} success.")
    return notes


def _spec(config: Config) -> envs.TaskSpec:
    return envs.spec(config.env, **config.task.model_dump())


def _same(what: str, values: Sequence[tuple[str, str, str]]) -> str:
    """`what: value for every agent`, task by task where tasks differ, and every agent's where these differ.

    Args:
        values: task, agent and value of each run.
    """
    by_task: dict[str, set[str]] = {}
    for env, _, value in values:
        by_task.setdefault(env, set()).add(value)
    if any(len(found) > 1 for found in by_task.values()):
        return f"{what} DIFFER: {'; '.join(dict.fromkeys(map(' '.join, values)))}."
    if len(set().union(*by_task.values())) == 1:
        return f"{what}: {values[0][2]}, for every agent."
    each = [f"{value} in {env}" for env, found in by_task.items() for value in found]
    return f"{what}: {'; '.join(each) or 'none'}, for every agent."


def _missing(runs: Sequence[RunFigures]) -> list[str]:
    return [
        f"FAILED, in no figure: {run.env} {run.agent} seed {run.seed}, {run.error} ({run.run_dir})"
        for run in runs
        if run.error
    ]


def _panels(jobs: Sequence[Job], clock: Clock, floors: Mapping[str, EvaluationResult]) -> list[plots.Panel]:
    """A panel for each task, of runs that have finished."""
    panels = []
    for env in dict.fromkeys(job.config.env for job in jobs):
        here = [job for job in jobs if job.config.env == env]
        spec = _spec(here[0].config)
        name = "success" if spec.has_success else "return"
        curves = []
        for agent in dict.fromkeys(job.config.agent for job in here):
            mine = [job for job in here if job.config.agent == agent and job.state == "finished"]
            if mine:
                curves.append(_curve(agent, mine, f"eval/{name}", clock))
        floor = floors[env].success if spec.has_success else floors[env].episode_return
        panels.append(plots.Panel(env, name, curves, spec.success_ceiling, floor))
    return panels


def _curve(agent: str, jobs: Sequence[Job], key: str, clock: Clock) -> plots.Curve:
    """The middle of the runs and their spread at every moment at which one of them was evaluated.

    Between its evaluations a run's value is on the straight line, after its end it stays. The curve begins
    where every run has been evaluated once.
    """
    _, axis, unit = clock
    points = [
        (
            np.array([float(row[axis] or 0) / unit for row in rows]),
            np.array([float(row[key] or 0) for row in rows]),
        )
        for rows in ([row for row in job.rows if row.get(key) is not None] for job in jobs)
    ]
    begin = max(x[0] for x, _ in points)
    x = np.unique(np.concatenate([x for x, _ in points]))
    x = x[x >= begin]
    values = np.stack([np.interp(x, *run) for run in points], axis=1)
    found = band(values, np.random.default_rng(_SEED))
    low, high = (found.low.tolist(), found.high.tolist()) if len(jobs) > 1 else (None, None)
    return plots.Curve(agent, x.tolist(), found.middle.tolist(), low, high, len(jobs))
