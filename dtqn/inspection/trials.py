"""A run's score with its memory disturbed, the scores of runs without memory, and the two verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from dtqn.acting.episode_intervals import Figure
from dtqn.acting.evaluation import evaluate_random
from dtqn.inspection.recorder import Episode, Outcome, TrainedRun, disturbances, load, outcomes
from dtqn.settings.config import Config, ConfigError
from dtqn.training.directory import RunDir
from dtqn.training.setup import make_env, random_actions

MARGIN = 0.05

Answer = Literal["yes", "no", "cannot tell"]


class Verdict(NamedTuple):
    """Whether a task needs memory, and why we think so."""

    answer: Answer
    because: str
    stack: int | None = None
    """Steps of the shortest frame stack that does as well, where one does and memory is needed."""


def uses_memory(intact: Figure, disturbed: dict[str, Figure], random: Figure, best: float) -> Verdict:
    """`disturbed`: what was done to the memory -> the score."""
    if intact.low <= random.high:
        return Verdict("cannot tell", _beside_random(intact, random))
    margin = MARGIN * (max(best, intact.value) - random.value)
    worst = min(disturbed, key=lambda name: disturbed[name].high)
    if disturbed[worst].high < intact.low - margin:
        return Verdict("yes", f"memory {worst}: {disturbed[worst].value:.3g}, intact: {intact.value:.3g}")
    if all(x.low > intact.high - margin for x in disturbed.values()):
        return Verdict("no", f"no disturbance of its memory costs more than {MARGIN:.0%} of the range")
    return Verdict("cannot tell", "intervals overlap; more episodes would tell (--episodes)")


def needs_memory(
    best_agent: Figure,
    memoryless: dict[str, Figure],
    stacked: dict[int, Figure],
    random: Figure,
    best: float,
) -> Verdict:
    """Whether, and for how many steps.

    Args:
        memoryless: an agent that sees one step -> its score.
        stacked: steps that an agent without memory sees together -> its score.
    """
    if not memoryless:
        return Verdict("cannot tell", "no run without memory is given (--memoryless RUN)")
    if best_agent.low <= random.high:
        return Verdict("cannot tell", _beside_random(best_agent, random))
    margin = MARGIN * (max(best, best_agent.value) - random.value)
    name = max(memoryless, key=lambda run: memoryless[run].low)
    text = f"{name} without memory: {memoryless[name].value:.3g}, this agent: {best_agent.value:.3g}"
    if memoryless[name].low >= best_agent.high - margin:
        return Verdict("no", text)
    if best_agent.low <= max(x.high for x in memoryless.values()) + margin:
        return Verdict("cannot tell", f"{text}; the intervals are not far enough apart")
    enough = [steps for steps, x in sorted(stacked.items()) if x.low >= best_agent.high - margin]
    if enough:
        return Verdict("yes", f"{text}; a stack of {enough[0]} steps does as well", enough[0])
    if stacked and max(x.high for x in stacked.values()) + margin < best_agent.low:
        return Verdict("yes", f"{text}; a stack of {max(stacked)} steps does not do as well")
    return Verdict("yes", text)


def _beside_random(agent: Figure, random: Figure) -> str:
    """Why an agent tells nothing if its interval does not lie above random actions' interval.

    With few episodes even a perfect score has a wide interval, which says nothing against the agent.
    """
    if agent.value <= random.value:
        return "the agent is not better than random actions"
    return (
        f"random actions: {random.value:.3g}, this agent: {agent.value:.3g}; intervals overlap; "
        "more episodes would tell (--episodes)"
    )


RANDOM_SHARES = (0.1, 0.3)
"""Shares of random actions in stochastic play of an agent without memory: chance leads it out of circles."""


class Asked(NamedTuple):
    """What the debugger is asked to play."""

    episodes: int
    replacements: int
    seed: int
    weights: str
    memoryless: Sequence[Path]
    """Runs of agents without memory on the same task."""
    other_task: Mapping[str, Any] = {}
    """Settings of another task to play (`dtqn.settings.task.on_task`); empty: the run's own."""


Rivals = Mapping[str, TrainedRun]
"""The runs without memory, by their directories."""


def subject(directory: RunDir, asked: Asked) -> tuple[TrainedRun, Rivals]:
    """The run in a directory, and the runs to compare it with.

    Raises:
        ConfigError: a directory holds no run or no such weights, or a run is not to be compared with.
    """
    run = load(directory, asked.weights, asked.episodes, asked.seed, asked.other_task)
    rivals = {}
    for path in asked.memoryless:
        _comparable(run.config, RunDir(path).read_config(), path)
        rivals[str(path)] = load(RunDir(path), asked.weights, asked.episodes, asked.seed)
    return run, rivals


def verdicts(
    run: TrainedRun,
    rivals: Rivals,
    asked: Asked,
    episodes: Sequence[Episode] | Sequence[Outcome] | None = None,
) -> dict[str, Any]:
    """The scores and both verdicts, as `debug.json` has them.

    Args:
        episodes: the run's own, where they have been played.
    """
    task = run.task
    episodes = outcomes(run.network, run.make_envs()) if episodes is None else episodes
    intact, length = run.score(episodes), float(np.mean([x.length for x in episodes]))
    random = _random(run, asked)
    best = task.success_ceiling if task.has_success else task.best_return
    best = intact.value if best is None else best
    disturbed = {
        name: run.score(outcomes(run.network, run.make_envs(), intervene=change))
        for name, change in disturbances(length).items()
    }
    memoryless, stacked = _scores(rivals, asked.seed)
    return {
        "score": intact,
        "length": length,
        "random": random,
        "disturbed": disturbed,
        "uses_memory": uses_memory(intact, disturbed, random, best),
        "memoryless": memoryless,
        "stacked": stacked,
        "needs_memory": needs_memory(intact, memoryless, stacked, random, best),
    }


def _random(run: TrainedRun, asked: Asked) -> Figure:
    """The score of uniformly random actions."""
    num_envs = min(asked.episodes, run.config.evaluation.num_envs)
    env = make_env(run.config, num_envs, np.random.SeedSequence(asked.seed))
    generator = np.random.default_rng(asked.seed)
    return evaluate_random(env, asked.episodes, run.task.has_success, generator).score_interval


def _scores(rivals: Rivals, seed: int) -> tuple[dict[str, Figure], dict[int, Figure]]:
    """The scores of runs without memory by name, greedy and stochastic, and of stacks by their steps."""
    memoryless, stacked = dict[str, Figure](), dict[int, Figure]()
    for path, rival in rivals.items():
        steps = int(rival.config.task.model_dump()["frame_stack"])
        found = rival.score(outcomes(rival.network, rival.make_envs()))
        if steps > 1:
            stacked[steps] = max(stacked.get(steps, found), found)
            continue
        memoryless[path] = found
        for share in RANDOM_SHARES:
            chance = random_actions(rival.config, share, np.random.SeedSequence(seed))
            found = rival.score(outcomes(rival.network, rival.make_envs(), random_actions=chance))
            memoryless[f"{path}, {share:.0%} random actions"] = found
    return memoryless, stacked


def _comparable(mine: Config, other: Config, path: Path) -> None:
    """Whether the other run, in the directory `path`, is one without memory on the same task."""
    if other.env != mine.env:
        raise ConfigError(
            f"--memoryless is {path}, a run on {other.env}; must be one on the same task, {mine.env}"
        )
    if other.network.core.name != "none":
        raise ConfigError(
            f"--memoryless is {path}, a run with the core {other.network.core.name}; must be one without a "
            "core, such as dqn's"
        )
    if differing := _options(mine).items() ^ _options(other).items():
        names = ", ".join(sorted({f"task.{name}" for name, _ in differing}))
        raise ConfigError(f"--memoryless is {path}, whose {names} differs; must be as in the run itself")


def _options(config: Config) -> Mapping[str, str]:
    return {name: str(value) for name, value in config.task.model_dump(exclude={"frame_stack"}).items()}
