"""The model card of an exported agent: Markdown under the YAML header that the Hugging Face Hub reads."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from dtqn.acting.evaluation import EvaluationResult
from dtqn.settings import presets
from dtqn.settings.config import Config
from dtqn.settings.names import name_of
from dtqn.text import counted, number, one_line
from dtqn.training.directory import own_networks, task_identity
from dtqn.training.setup import task_spec

_HEADER_TAGS = ("reinforcement-learning", "deep-reinforcement-learning", "partially-observable", "dtqn")
_CARD = """\
---
{header}---

# {title}

| | |
|---|---|
{table}
{pictures}
Scores are of {config.evaluation.policy} episodes on seed {seed}, played at the export. `policy.act` is greedy
in any case. Intervals are of 95 %: Wilson's for success, 1.96 standard errors for the return.

## Load

```python
import dtqn

folder = "FOLDER"  # of these files; huggingface_hub.snapshot_download fetches those of the Hub
policy = dtqn.load(folder)  # weights="best": those that did best in training
policy.reset()
action = policy.act(observation)          # at an episode's first observation
action = policy.act(observation, reward)  # at each one after it
```
{needed}
## Train

    {command}

trains it again. `config.yaml` holds every setting, `certificate.json` how it came about.

## Verify

    python -m dtqn verify FOLDER

compares the files with `certificate.json` and plays the episodes again to compare the score.
"""


def text(
    config: Config,
    about: Mapping[str, Any],
    scores: Mapping[str, EvaluationResult],
    seed: int,
    pictures: Sequence[str],
) -> str:
    """The content of `README.md`.

    Args:
        about: what the checkpoint says of the run.
        scores: by `last` and `best` weights.
        seed: that of their episodes.
        pictures: names of the files beside it that are shown.
    """
    rows = {name: _cell(value) for name, value in _rows(config, about, scores).items()}
    return _CARD.format(
        header=yaml.safe_dump(_header(config, scores["last"]), sort_keys=False),
        title=_cell(f"{name_of(config).agent} on {name_of(config).task}"),
        config=config,
        table="\n".join(f"| {name} | {value} |" for name, value in rows.items()),
        pictures="".join(f"\n![{name.partition('.')[0].replace('_', ' ')}]({name})\n" for name in pictures),
        seed=seed,
        needed=_needed(config),
        command=command(config),
    )


def _cell(value: str) -> str:
    """Text that no table of Markdown takes for more than a cell, be it from a stranger's file."""
    return one_line(value, 500).replace("|", "\\|").replace("<", "&lt;")


def _rows(config: Config, about: Mapping[str, Any], scores: Mapping[str, EvaluationResult]) -> dict[str, str]:
    """The lines of the table, by name."""
    ceiling = task_spec(config).ceiling_note
    rows = {
        "task": f"`{name_of(config).task}` ({task_identity(config).made_of})",
        "agent": f"`{name_of(config).agent}`, core `{config.network.core.name}`",
        "parameters": number(about.get("parameters") or 0),
        **{f"score, {name} weights": score(result) + ceiling for name, result in scores.items()},
        "environment steps": number(about["env_steps"]),
        "seed": str(config.seed),
    }
    if not about["finished"]:
        rows["state"] = f"not finished: {number(config.total_env_steps)} environment steps were planned"
    return rows


def score(result: EvaluationResult) -> str:
    """With 95 % intervals: `success 99.8 % (98.9 to 100.0), return 4.450 ± 0.004, of 500 episodes`."""
    success = ""
    if result.success is not None:
        value, low, high, _ = result.score_interval
        success = f"success {100 * value:.1f} % ({100 * low:.1f} to {100 * high:.1f}), "
    return f"{success}return {_mean_return(result)}, of {counted(result.episodes, 'episode')}"


def _mean_return(result: EvaluationResult) -> str:
    """With half of its 95 % interval, which one episode does not have."""
    half = f" ± {result.return_half_width:.3f}" if result.episodes > 1 else ""
    return f"{result.episode_return:.3f}{half}"


def command(config: Config) -> str:
    """The command that trains the run again, in the folder of its `config.yaml`."""
    shipped = config.agent in presets.agents()
    # Every setting is in the file, so an agent of the user's own needs only its name.
    agent = "" if shipped else f" --agent {shlex.quote(f'{config.agent}=gtrxl')}"
    return f"python -m dtqn --config config.yaml{agent}"


def _header(config: Config, last: EvaluationResult) -> dict[str, Any]:
    metrics: dict[str, float | str] = {"mean_reward": _mean_return(last).replace("±", "+/-")}
    if last.success is not None:
        metrics = {"success_rate": round(float(last.success), 4), **metrics}
    result = {
        "task": {"type": "reinforcement-learning", "name": "reinforcement learning"},
        "dataset": {"type": config.env, "name": config.env},
        "metrics": [{"type": name, "value": value, "verified": False} for name, value in metrics.items()],
    }
    return {
        "library_name": "dtqn",
        "pipeline_tag": "reinforcement-learning",
        "tags": list(dict.fromkeys([*_HEADER_TAGS, config.env, config.agent, config.network.core.name])),
        "model-index": [{"name": f"{config.agent}-{config.env}-seed{config.seed}", "results": [result]}],
    }


def _needed(config: Config) -> str:
    """A note on things that have to be there beside dtqn."""
    task = task_identity(config)
    needed = [] if task.is_native else [f"the task ({task.made_of})"]
    needed += [f"`{name}`" for name in own_networks(config)]
    return f"\nNot in these files, and needed to load it: {', '.join(needed)}.\n" if needed else ""
