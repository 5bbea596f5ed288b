"""The table of a comparison in all its forms: the same figures, and no interval of few runs."""

import re

from dtqn.experiments import compare
from dtqn.experiments.comparison_table import FIGURES, Table
from tests.experiments import comparison_program
from tests.experiments.comparison_program import SCORES, TASK, table_of, text_of

run = comparison_program.run

_MORE = {
    "gtrxl": [[0.96], [1.0], [0.4], [0.9], [0.95]],
    "dtqn": [[0.9], [1.0], [0.96], [0.2], [0.5]],
    "drqn": [[0.4], [0.8]],
}


def test_the_same_figures_in_every_form(run, tmp_path):
    """Two agents with five runs each, and one with two."""
    code, printed = run({TASK: _MORE}, baseline="dtqn")
    assert code == 0
    lines = {line["agent"]: line for line in table_of(tmp_path)["table"]}
    text = text_of(tmp_path)
    assert text in printed
    assert list(lines) == [*_MORE, "random"]
    markdown = [
        line.split("|")[1:-1] for line in (tmp_path / "out/table.md").read_text().splitlines() if "|" in line
    ]
    header = [cell.strip() for cell in markdown[0]]
    for (agent, line), cells in zip(lines.items(), markdown[2:], strict=True):
        cell = dict(zip(header, map(str.strip, cells), strict=True))
        assert cell["success"] == f"{line['success']:.1%}"
        for value in cell.values():
            assert value in text
        iqm, wins = line["iqm"], line["improvement"]
        assert (iqm is None, wins is None) == (agent in ("drqn", "random"), agent != "gtrxl")
        scores = [scores[-1] for scores in _MORE.get(agent, [])]
        shown = "-" if iqm is None else f"{iqm['value']:.1%} [{iqm['low']:.1%}, {iqm['high']:.1%}]"
        assert cell["IQM of success [95 %]"] == shown
        shown = "-" if wins is None else f"{wins['value']:.2f} [{wins['low']:.2f}, {wins['high']:.2f}]"
        assert cell["P(better than dtqn) [95 %]"] == shown
        if agent == "random":
            assert (cell["runs"], cell["success, min to max"], line["minimum"]) == ("-", "-", None)
        else:
            assert (line["minimum"], line["maximum"]) == (min(scores), max(scores))
            assert cell["success, min to max"] == f"{min(scores):.1%} to {max(scores):.1%}"
    few = "Fewer than 5 runs of drqn: minimum and maximum, no interval, no P(better). These figures do not "
    _, _, _, _, _, *under = text.partition(f"{TASK}\n")[2].splitlines()
    under = under[: under.index("")]
    assert table_of(tmp_path)["under"] == {TASK: under}, "right below the table"
    assert any(note.startswith(few) for note in under)
    for note in under:
        assert f"\n{note}\n" in (tmp_path / "out/table.md").read_text()


def test_a_terminal_gets_what_matters_most(run, tmp_path, monkeypatch):
    """In 80 columns; random actions have a success rate of 0.125."""
    monkeypatch.setattr(compare, "terminal_width", lambda out: 80)
    _, printed = run({TASK: _MORE | {"lstm": ["fails"]}}, baseline="dtqn")
    *lines, last = printed.splitlines()
    assert max(map(len, lines)) <= 80
    told = {line["agent"]: line for line in table_of(tmp_path)["table"]}
    rows = {line.split()[0]: re.split("  +", line) for line in lines if line.split()[:1] != []}
    iqm = told["gtrxl"]["iqm"]
    assert rows["gtrxl"][1:3] == ["5", f"{iqm['value']:.1%} [{iqm['low']:.1%}, {iqm['high']:.1%}]"]
    assert rows["gtrxl"][3].startswith(f"{told['gtrxl']['solved']} of 5 [") and len(rows["gtrxl"]) == 5
    assert rows["lstm"] == ["lstm", "0 of 1", *"---"] and rows["random"][:3] == ["random", "-", "12.5%"]
    notes = " ".join(lines).partition("Fewer than")[2]
    assert "FAILED, in no figure: gridverse-memory-7x7 lstm seed 1" in notes and "Seeds:" not in notes
    assert last == f"whole table, {len(table_of(tmp_path)['notes'])} notes and curves in {tmp_path / 'out'}"


def test_three_runs_show_no_interval_anywhere(run, tmp_path):
    run({TASK: SCORES}, baseline="dtqn", pictures=True)
    for text in (text_of(tmp_path), (tmp_path / "out/table.md").read_text()):
        assert "IQM" not in text
        assert text.count("P(better)") == 1, "in the note that says why there is none"
    assert "Fewer than 5 runs of gtrxl, dtqn, drqn" in text
    for line in table_of(tmp_path)["table"]:
        assert line["iqm"] is line["improvement"] is None
    for clock in ("env-steps", "minutes"):
        picture = (tmp_path / f"out/curves-{clock}.svg").read_text()
        assert "line and band: interquartile mean, minimum and maximum of runs" in picture
        assert "gtrxl (n = 3)" in picture and "random actions" in picture


def test_a_column_that_no_row_fills_is_left_out():
    """A task without success has neither that nor a time to solved."""
    bare = dict.fromkeys(figure.key for figure in FIGURES) | {"env": "a", "score": "return", "return": 0.5}
    bare |= {"beside": {}, "tasks": 1}
    whole = bare | {"agent": "lstm", "finished": 2, "runs": 2}
    whole |= {"env_steps": 1_000_000.0, "learner_steps": 20_624.5, "minutes": 12.25}
    random = bare | {"agent": "random", "finished": 0, "runs": 0}
    ((header, *rows),) = Table([whole, random], None, {}, []).parts.values()
    assert header == [
        *("agent", "runs", "return", *(f"{what} of a run" for what in ("env steps", "updates", "minutes"))),
    ]
    assert rows[0] == ["lstm", "2", "0.5", "1 000 000", "20 624", "12.2"]
    assert rows[1] == ["random", "-", "0.5", *"---"]
