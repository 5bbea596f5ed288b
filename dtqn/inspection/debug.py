"""The command `debug`: what a trained agent remembers, and whether it has to.

It plays greedy episodes of a run, runs them again with other pasts, and says what its decisions depend on.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dtqn.acting.episode_intervals import Figure, mean, share
from dtqn.files import write_whole
from dtqn.inspection import checks, measures, trials
from dtqn.inspection.measures import Cue, Map
from dtqn.inspection.recorder import Episode, outcomes, play
from dtqn.inspection.trials import Verdict
from dtqn.networks.q_network import QNetwork
from dtqn.settings.names import name_of
from dtqn.text import columns, one_line
from dtqn.training.directory import RunDir, make_writable

MOST_MAPPED = 20
"""Episodes whose every step is replaced."""
MAPPED_TIMESTEPS = 1_500_000
"""Timesteps that a network runs for that, at most: fewer episodes are mapped where they are long."""
BESIDE = 64
"""Timesteps of a replacement that count for what else is computed of a step."""
ALMOST = 0.5
"""From this share of replacements on, an action counts as changed."""


def debug(directory: RunDir, asked: trials.Asked, out: Path) -> dict[str, Any]:
    """All findings, as `debug.json` in the folder `out` has them."""
    run, rivals = trials.subject(directory, asked)
    make_writable("--out", out)
    config, network = run.config, run.network
    generator = np.random.default_rng(asked.seed)
    episodes = play(network, run.make_envs())
    found: dict[str, Any] = {
        "env": config.env,
        "agent": name_of(config).agent,
        "weights": asked.weights,
        "action_names": run.task.name_actions(),
        "episodes": asked.episodes,
        "replacements": asked.replacements,
        "contracts": checks.check(config, network, asked.seed),
        **trials.verdicts(run, rivals, asked, episodes),
    }
    cues = [
        measures.cue(network, episodes, number, asked.replacements, generator)
        for number in range(len(episodes))
    ]
    if any(x is not None for x in cues):
        found["cue"] = _cue_figures(cues, run.score(outcomes(network, run.make_envs(), show_other=True)))
    maps = _maps(network, episodes, asked, generator)
    found["dependence"] = _map_figures(maps, cues)
    found["maps"] = [_as_lists(number, episodes[number], x) for number, x in maps.items()]
    write_whole(out / "debug.json", json.dumps(_plain(found), indent=1) + "\n")
    return found


def _cue_figures(cues: Sequence[Cue | None], shown_other: Figure) -> dict[str, Any]:
    known = [x for x in cues if x is not None]
    return {
        "episodes_that_show_it": len(known),
        "rows": mean([float(x.steps.sum()) for x in known]),
        "first_row": mean([float(np.flatnonzero(x.steps)[0]) for x in known]),
        "held_for": mean([float(measures.held(x)) for x in known]),
        "changes_the_last_decision": share([x.last_flips for x in known]),
        "changes_some_decision": share([bool(x.flips.any()) for x in known]),
        "other_rows_change_the_last_decision": share(
            [x.other_flips > ALMOST for x in known if x.other_flips is not None]
        ),
        "score_when_the_other_is_shown": shown_other,
    }


def _maps(
    network: QNetwork, episodes: Sequence[Episode], asked: trials.Asked, generator: np.random.Generator
) -> dict[int, Map]:
    """Maps of failures and successes in turns, as far as the timesteps of all together allow."""
    order = sorted(range(len(episodes)), key=lambda number: (episodes[number].success, number))
    in_turns = (number for pair in zip(order, reversed(order), strict=True) for number in pair)
    left, maps = float(MAPPED_TIMESTEPS), dict[int, Map]()
    for number in dict.fromkeys(in_turns):
        length, actions = episodes[number].q.shape
        cost = length * (length * (asked.replacements + actions) / 2 + asked.replacements * BESIDE)
        if len(maps) == MOST_MAPPED or (maps and cost > left):
            break
        left -= cost
        maps[number] = measures.mapped(network, episodes, number, asked.replacements, generator)
    return maps


def _map_figures(maps: dict[int, Map], cues: Sequence[Cue | None]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "episodes": len(maps),
        "recall_density": measures.recall_density(list(maps.values())),
        "on_actions": mean([float(x.actions[-1, :-1].sum()) for x in maps.values()]),
        "on_observations": mean([float(x.dependence.advantage[-1, :-1].sum()) for x in maps.values()]),
    }
    with_cue = [(found_cue, maps[n]) for n in maps if (found_cue := cues[n]) is not None]
    if with_cue:
        found["cue_times_its_share"] = mean([measures.times_its_share(*pair) for pair in with_cue])
        found["contamination"] = mean([measures.contamination(*pair) for pair in with_cue])
    looked = [(x.attention[-1], x.dependence.advantage[-1]) for x in maps.values() if x.attention is not None]
    ranks = [x for pair in looked if (x := measures.agreement(*pair)) is not None]
    found["agreement_of_attention"] = {
        "rank_correlation": mean([x.rank_correlation for x in ranks]),
        "top_three": mean([x.top_three for x in ranks]),
    }
    return found


def _as_lists(number: int, episode: Episode, of: Map) -> dict[str, Any]:
    return {
        "episode": number,
        "success": episode.success,
        "return": episode.episode_return,
        "actions": episode.action,
        "q": episode.q.numpy(),
        "cue": None if episode.cue is None else np.flatnonzero(episode.cue),
        "dependence": of.dependence.advantage,
        "flips": of.dependence.flips,
        "dependence_on_actions": of.actions,
        "attention": of.attention,
    }


def _plain(value: Any) -> Any:
    """For JSON: named tuples as objects, arrays as lists of five digits, what is no number as null."""
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


MOST_DISTANCES = 5
"""Recall density is printed at so many distances, those where it is largest."""


def lines(found: dict[str, Any], out: Path, width: int | None) -> list[str]:
    """The findings as text."""
    rows: list[tuple[str, str]] = [
        ("run", f"{found['env']}, {found['agent']}, {found['weights']} weights"),
        ("score", f"{_score(found['score'])}; random actions {_score(found['random'])}"),
    ]
    for check in found["contracts"]:
        if check.difference is None:
            continue
        difference = f"{check.difference:.1e} of the range of Q-values"
        broken = f"BROKEN, by {difference}: {check.contract}"
        rows.append((check.name, f"holds, to {difference}" if check.holds else broken))
    if "cue" in found:
        rows += _cue(found["cue"])
    figures = found["dependence"]
    if "cue_times_its_share" in figures:
        rows.append((
            "dependence",
            f"cue steps hold {_figure(figures['cue_times_its_share'])} times their share of the last "
            f"decision's dependence; contamination {_figure(figures['contamination'])}",
        ))  # fmt: skip
    density = [x.value for x in figures["recall_density"] if x is not None]
    largest = sorted(heapq.nlargest(MOST_DISTANCES, range(len(density)), key=density.__getitem__))
    rows += [
        ("recall density", "; ".join(f"{d} back: {density[d]:.3f}" for d in largest) + " (the largest)"),
        (
            "on observations",
            f"{_figure(figures['on_observations'])} of the last decision, all earlier steps together",
        ),
        ("on actions", f"{_figure(figures['on_actions'])}, with the previous action replaced instead"),
    ]
    agreed = figures["agreement_of_attention"]
    if agreed["rank_correlation"] is not None:
        rank, three = (_figure(agreed[name]) for name in ("rank_correlation", "top_three"))
        rows.append(("attention agrees", f"rank correlation {rank}, {three} of the largest three"))
    rows += [(f"memory {name}", _score(x)) for name, x in found["disturbed"].items()]
    rows += [(f"without memory, {one_line(name, 60)}", _score(x)) for name, x in found["memoryless"].items()]
    rows += [(f"a stack of {steps} steps", _score(x)) for steps, x in found["stacked"].items()]
    rows += [
        ("uses its memory?", _verdict(found["uses_memory"])),
        ("task needs memory?", _verdict(found["needs_memory"])),
        ("file", f"{out}/debug.json"),
    ]
    return columns(rows, width)


def _cue(cue: dict[str, Any]) -> list[tuple[str, str]]:
    steps, first, held = (_figure(cue[name]) for name in ("rows", "first_row", "held_for"))
    last, some = (_share(cue[f"changes_{which}_decision"]) for which in ("the_last", "some"))
    others = _share(cue["other_rows_change_the_last_decision"])
    return [
        ("cue", f"shown at {steps} steps, first at step {first}, held for {held} steps"),
        ("the other cue", f"changes the last decision in {last}, some decision in {some}"),
        ("as many other steps", f"change the last decision in {others}"),
        ("shown the other cue", f"with the task unchanged: {_score(cue['score_when_the_other_is_shown'])}"),
    ]


def _score(x: Figure) -> str:
    return f"{_figure(x)} over {x.episodes} episodes"


def _figure(x: Figure | None) -> str:
    if x is None:
        return "unknown"
    return f"{x.value:.3g} [{x.low:.3g}, {x.high:.3g}]" if x.episodes > 1 else f"{x.value:.3g}"


def _share(x: Figure | None) -> str:
    return "unknown" if x is None else f"{x.value:.1%} [{x.low:.1%}, {x.high:.1%}]"


def _verdict(x: Verdict) -> str:
    return f"{x.answer}: {x.because}"
