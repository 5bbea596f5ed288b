"""The findings of `debug` as people read them in a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dtqn.acting.episode_intervals import Figure
from dtqn.inspection.trials import Verdict
from dtqn.text import columns, one_line

DISTANCES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Steps back for which recall density is printed."""


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
            f"cue rows hold {_figure(figures['cue_times_its_share'])} times their share of the last "
            f"decision's; contamination {_figure(figures['contamination'])}",
        ))  # fmt: skip
    density = [x.value for x in figures["recall_density"] if x is not None]
    rows += [
        ("recall density", "; ".join(f"{d} back: {density[d]:.3f}" for d in DISTANCES if d < len(density))),
        (
            "on observations",
            f"{_figure(figures['on_observations'])} of the last decision, all earlier steps together",
        ),
        ("on actions", f"{_figure(figures['on_actions'])}, by what rows name as the action before"),
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
        ("needs the task one?", _verdict(found["needs_memory"])),
        ("file", f"{out}/debug.json"),
    ]
    return columns(rows, width)


def _cue(cue: dict[str, Any]) -> list[tuple[str, str]]:
    rows, first, held = (_figure(cue[name]) for name in ("rows", "first_row", "held_for"))
    last, some = (_share(cue[f"changes_{which}_decision"]) for which in ("the_last", "some"))
    others = _share(cue["other_rows_change_the_last_decision"])
    return [
        ("cue", f"shown in {rows} rows, first at step {first}, held for {held} steps"),
        ("the other cue", f"changes the last decision in {last}, some decision in {some}"),
        ("as many other rows", f"change the last decision in {others}"),
        ("shown the other cue", f"and the task played on: {_score(cue['score_when_the_other_is_shown'])}"),
    ]


def _score(x: Figure) -> str:
    return f"{_figure(x)} of {x.episodes} episodes"


def _figure(x: Figure | None) -> str:
    if x is None:
        return "unknown"
    return f"{x.value:.3g} [{x.low:.3g}, {x.high:.3g}]" if x.episodes > 1 else f"{x.value:.3g}"


def _share(x: Figure | None) -> str:
    return "unknown" if x is None else f"{x.value:.1%} [{x.low:.1%}, {x.high:.1%}]"


def _verdict(x: Verdict) -> str:
    return f"{x.answer}: {x.because}"
