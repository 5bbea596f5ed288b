"""The model card of an exported agent: Markdown under the YAML header that the Hugging Face Hub reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from dtqn.acting.evaluation import EvaluationResult
from dtqn.export.certificate import score_of
from dtqn.settings import presets
from dtqn.settings.config import Config
from dtqn.text import counted, duration, number

_HEADER_TAGS = ("reinforcement-learning", "deep-reinforcement-learning", "partially-observable", "dtqn")
_NATIVE = "this suite's own"


def text(
    config: Config,
    certificate: Mapping[str, Any],
    pictures: Sequence[str],
    ceiling_note: str,
    repository: str | None,
) -> str:
    """The content of `README.md`.

    Args:
        pictures: names of the files beside it that are shown.
        ceiling_note: of the success that no agent can exceed; empty where there is none.
        repository: where the Hugging Face Hub will have the files; None where nowhere.
    """
    last = score_of(certificate, "last")
    trained = certificate["trained"]
    task = certificate["task"].get("made_of")
    rows = {
        "task": f"`{config.env}`" + (f" ({task})" if task else ""),
        "agent": f"`{config.agent}`, core `{config.network.core}`",
        "parameters": number(trained["parameters"] or 0),
    }
    for name in certificate["scores"]:
        rows[f"score, {name} weights"] = score(score_of(certificate, name)) + ceiling_note
    rows |= {
        "environment steps": number(trained["env_steps"]),
        "learner updates": number(trained["learner_steps"]),
        "time": f"{duration(trained['seconds'])} on {trained['device']}, {trained['machine']}",
        "seed": str(certificate["seed"]),
        "program": ", ".join(f"{name} {version}" for name, version in trained["program"].items())
        + f"; code {', '.join(trained['code']) or 'unknown'}",
    }  # fmt: skip
    if not trained["finished"]:
        rows["state"] = f"not finished: {number(config.total_env_steps)} environment steps were planned"
    parts = [
        f"---\n{yaml.safe_dump(_header(config, certificate, last), sort_keys=False)}---",
        f"# {config.agent} on {config.env}",
        "| | |\n|---|---|\n" + "\n".join(f"| {name} | {value} |" for name, value in rows.items()),
        *(f"![{name.partition('.')[0].replace('_', ' ')}]({name})" for name in pictures),
        _scores_note(certificate, config.evaluation.policy),
        f"## Load\n\n```python\n{_where(repository)}\n{_LOAD}```",
        _own_note(certificate, task),
        f"## Train\n\n    {command(config)}\n\ntrains it again. `config.yaml` holds every setting.",
        _VERIFY,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _where(repository: str | None) -> str:
    """The lines of Python that find the files."""
    if repository is None:
        return 'import dtqn\n\nfolder = "FOLDER"  # of these files'
    client = "import dtqn\nfrom huggingface_hub import snapshot_download\n\n"
    return f'{client}folder = snapshot_download("{repository}")'


_LOAD = """\
policy = dtqn.load(folder)  # weights="best": those that did best in training
policy.reset()
action = policy.act(observation)          # at an episode's first observation
action = policy.act(observation, reward)  # at each one after it
"""
_VERIFY = """\
## Verify

    python -m dtqn verify FOLDER

compares the files with `certificate.json`, trains the first updates again and compares their metrics, and
plays new episodes to compare the score."""


def score(result: EvaluationResult) -> str:
    """With 95 % intervals: `success 99.8 % (98.9 to 100.0), return 4.450 ± 0.004, of 500 episodes`."""
    success = ""
    if result.success is not None and result.success_low is not None and result.success_high is not None:
        success = (
            f"success {100 * result.success:.1f} % ({100 * result.success_low:.1f} to "
            f"{100 * result.success_high:.1f}), "
        )
    return f"{success}return {_mean_return(result, '±')}, of {counted(result.episodes, 'episode')}"


def _mean_return(result: EvaluationResult, sign: str) -> str:
    """With half of its 95 % interval, which one episode does not have."""
    half = f" {sign} {result.return_half_width:.3f}" if result.episodes > 1 else ""
    return f"{result.episode_return:.3f}{half}"


def command(config: Config) -> str:
    """The command that trains the run again, in the folder of its `config.yaml`."""
    shipped = config.agent in presets.agents()
    # Every setting is in the file, so an agent of the user's own needs only its name.
    agent = "" if shipped else f" --agent {config.agent}=gtrxl"
    return f"python -m dtqn --config config.yaml{agent}"


def _header(config: Config, certificate: Mapping[str, Any], last: EvaluationResult) -> dict[str, Any]:
    metrics = [
        {
            "type": "mean_reward",
            "name": "mean return",
            "value": _mean_return(last, "+/-"),
            "verified": False,
        }
    ]
    if last.success is not None:
        value = round(float(last.success), 4)
        metrics.insert(0, {"type": "success_rate", "name": "success", "value": value, "verified": False})
    return {
        "library_name": "dtqn",
        "pipeline_tag": "reinforcement-learning",
        "tags": list(dict.fromkeys([*_HEADER_TAGS, config.env, config.agent, config.network.core])),
        "model-index": [
            {
                "name": f"{config.agent}-{config.env}-seed{certificate['seed']}",
                "results": [
                    {
                        "task": {"type": "reinforcement-learning", "name": "reinforcement learning"},
                        "dataset": {"type": config.env, "name": config.env},
                        "metrics": metrics,
                    }
                ],
            }
        ],
    }


def _scores_note(certificate: Mapping[str, Any], policy: str) -> str:
    seed = next(iter(certificate["scores"].values()))["seed"]
    alone = "" if policy == "greedy" else " `policy.act` is greedy in any case."
    return (
        f"Scores are of {policy} episodes on seed {seed}, played at the export. Intervals are of 95 %: "
        f"Wilson's for success, 1.96 standard errors for the return.{alone}"
    )


def _own_note(certificate: Mapping[str, Any], made_of: str | None) -> str:
    """A note on things that have to be there beside dtqn."""
    needed = [f"`{name}`" for name in certificate["own_networks"]]
    if made_of and not made_of.startswith(_NATIVE):
        needed.insert(0, f"the task ({made_of})")
    return f"Not in these files, and needed to load it: {', '.join(needed)}." if needed else ""
