"""Records: what they keep of a run, how they are found again, and files that are none."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dtqn.experiments import compare, records
from dtqn.experiments.comparison_table import run_figures
from dtqn.experiments.jobs import Job
from dtqn.experiments.records import LARGEST_BYTES, Records, identity, of_finished, of_run
from dtqn.experiments.scores import SUCCESS, Score
from dtqn.settings import gone, record_files
from dtqn.settings.config import ConfigError
from dtqn.settings.layers import Layer, build, flat
from dtqn.settings.presets import resolve
from dtqn.training.directory import RunDir, config_hash, hash_of, run_identity
from dtqn.training.metrics import read_run
from tests.tiny import printed, refused

_TASK = "t-maze-passive-10"
_ROOT = Path(__file__).parents[2]
_NO_TASK = '{"env": [], "agent": "a", "seed": 1, "settings_hash": "a", "settings": {}}'


def _config(**flags):
    return resolve(None, {"env": _TASK, "agent": "dqn", "seed": "3", "total_env_steps": "4000"} | flags, {})


def _result(config, rows=None, **changes):
    """Of a run that ended with the last evaluation among its rows, those of `_rows` by default."""
    ended = max(row["env_steps"] for row in rows or _rows() if "eval/return" in row)
    result = {"task": run_identity(config).digest, "env_steps": ended, "learner_steps": 70, "seconds": 12.25}
    result |= {"parameters": 218, "threads": 1, "device": "cpu", "program": {"dtqn": "1.2"}}
    return result | {"code": ["abc"], "machine": "A B, 2 cores, Linux", "ends_at": [4000, None]} | changes


def _rows(evaluations=2, tallies=3):
    """Rows of training first, then those of evaluations between them, as a metrics file has them."""
    rows = []
    for i in range(1, tallies + 1):
        tally = {"train/episodes": 5 * i, "train/total_return": -1.5 * i, "train/total_success": 2 * i}
        rows.append(
            {"env_steps": 100 * i, "learner_steps": i, "seconds": 0.1 * i, "learner/loss": 0.3, **tally}
        )
    for i in range(1, evaluations + 1):
        figures = {
            "eval/success": min(i / 7, 1.0),
            "eval/return": -i / 3,
            "eval/length": 11.0,
            "eval/episodes": 50,
        }
        clocks = {"env_steps": 100 * i + 50, "learner_steps": 10 * i, "seconds": 60.0 * i}
        rows.append({**clocks, **figures, "eval/stage": 2, "eval/success_low": 0.1})
    return sorted(rows, key=lambda row: row["env_steps"])


def _keep(folder, config=None, **changes):
    """The file of records of a folder, with one more record at its end."""
    config, file = config or _config(), folder / "all.jsonl"
    assert Records(file).keep(config, of_run(config, _result(config, **changes), _rows())) == ""
    return file


def _contents(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def _write(file, *contents):
    file.write_text("".join(f"{json.dumps(content)}\n" for content in contents))
    return file


def _problem(shelf, config=None):
    """Why a run is not found."""
    assert shelf.find(config or _config()) is None
    (problem,) = shelf.problems
    return problem


def _name(file, config=None):
    """Of a run in a file."""
    config = config or _config()
    return f"{file}#{config.env}/{config.agent}/{config.seed}-{config_hash(config)}"


def test_a_record_keeps_the_run_and_is_found_by_its_identity(tmp_path):
    config = _config(**{"learner.n_step": "4"})
    file = _keep(tmp_path / "a", config)
    (content,) = _contents(file)
    assert (
        content["settings"]["learner"]["n_step"] == 4 and "batch_size" not in content["settings"]["learner"]
    )
    assert (
        content["result"]["machine"] == "A B, 2 cores, Linux" and "last_evaluation" not in content["result"]
    )
    shelf = Records(file)
    found = shelf.find(config)
    assert (found.config, found.state, found.error) == (config, "finished", "")
    assert found.where == _name(file, config)
    assert (found.record.result.code, found.record.result.seconds) == (["abc"], 12.25)
    kept = [row for row in found.record.rows if "eval/return" in row]
    assert [(row["env_steps"], row["eval/episodes"]) for row in kept] == [(150, 50), (250, 50)]
    assert [row["eval/success"] for row in kept] == [1 / 7, 2 / 7], "to the last digit"
    tallies = [
        (row["env_steps"], row["train/total_return"]) for row in found.record.rows if "train/episodes" in row
    ]
    assert tallies == [(100, -1.5), (200, -3.0), (300, -4.5)]
    assert not shelf.problems
    for other in (_config(), _config(**{"learner.n_step": "4", "seed": "4"}), _config(agent="gru")):
        assert shelf.find(other) is None
    assert shelf.find(_config(**{"learner.n_step": "4", "threads": "2", "wandb": "disabled"})) is not None


def test_a_long_run_has_a_small_record_with_its_last_rows(tmp_path):
    config, rows = _config(), _rows(evaluations=1500, tallies=3001)
    file = tmp_path / "all.jsonl"
    assert Records(file).keep(config, of_run(config, _result(config, rows), rows)) == ""
    assert file.stat().st_size < LARGEST_BYTES == 20_000
    kept = Records(file).find(config).record.rows
    evaluations = [row["env_steps"] for row in kept if "eval/return" in row]
    tallies = [row["env_steps"] for row in kept if "train/episodes" in row]
    assert evaluations[-1] == 150_050 and tallies[-1] == 300_100
    assert evaluations[:3] == [150, 750, 850], "the first that shows 90 % success, and the one after it"
    assert evaluations[-10:] == list(range(149_150, 150_051, 100)), "the last ten"
    assert len(evaluations) > 50 and len(tallies) > 50
    few = of_run(config, _result(config, _rows(100, 256)), _rows(100, 256))
    assert len(few.rows) == 356, "nothing is left out of what fits"
    wordy = _config(env="tests.toy:Echo", **{"task.kwargs": {"text": "x" * LARGEST_BYTES}})
    assert of_run(wordy, _result(wordy, rows), rows).rows, "the settings alone are longer"


def test_a_table_is_the_same_however_many_rows_a_record_keeps(tmp_path):
    """Runs alike are thinned alike, all evaluations count, and the first one that solved the task is kept."""
    rows = [row for row in _rows(evaluations=240, tallies=1) if "eval/return" in row]
    for place, row in enumerate(rows):
        row |= {"eval/success": 1.0 if place % 4 == 3 else 0.5}  # always followed by one that fails
    rows[101]["eval/success"] = rows[102]["eval/success"] = 1.0
    config, kept = _config(), {}
    for digits in (3, 17):
        for row in rows:
            row["eval/return"] = round(1 / 3, digits)
        outcome = of_finished(config, _result(config, rows), rows, "")
        found = run_figures(outcome, [SUCCESS])
        assert (found["evaluations"], found["env_steps_to_solved"]) == (240, rows[101]["env_steps"])
        kept[digits] = [row["env_steps"] for row in outcome.record.rows]
    assert kept[3] == kept[17] and 50 < len(kept[3]) < 200


def test_a_run_with_other_defaults_is_not_counted(tmp_path):
    """Its hash is that of a run now: a hash is of what differs from the defaults."""
    config = _config()
    file = _keep(tmp_path, config)
    (content,) = _contents(file)
    assert content["defaults"]["learner"]["max_grad_norm"] == config.learner.max_grad_norm
    assert not flat(content["defaults"]).keys() & flat(content["settings"]).keys()
    content["defaults"]["learner"]["target_update"]["rate"] = 0.5
    assert _problem(Records(_write(file, content)), config) == (
        f"{_name(file)}: is of dqn on {_TASK} with other settings (learner.target_update.rate is 0.5, now "
        f"{config.learner.target_update.rate}), so the run is not counted"
    )
    del content["defaults"], content["num_evaluations"]  # as early records are
    found = Records(_write(file, content)).find(config)
    assert run_figures(found, [SUCCESS])["evaluations"] == 2


def test_a_run_counts_by_what_its_settings_mean_today(tmp_path, monkeypatch):
    """Whatever was a default then, and without settings that have gone and were off: its hash is another."""
    config = _config(**{"learner.n_step": "4"})
    file = _keep(tmp_path, config)
    (content,) = _contents(file)

    def counts(change, defaults=True):
        changed = copy.deepcopy(content)
        change(changed["settings"], changed["defaults"])
        changed["settings_hash"] = hash_of(changed["settings"], None)
        assert changed["settings_hash"] != config_hash(config)
        if not defaults:
            del changed["defaults"]
        shelf = Records(_write(file, changed))
        return shelf.find(config) is not None

    batch, rate = config.learner.batches.size, config.learner.target_update.rate
    batches = content["settings"]["learner"]["batches"]
    # There was another default.
    given = {"batches": batches | {"size": batch}, "target_update": {"rate": rate}}
    other = {"batches": batches | {"size": batch + 1}}
    assert counts(lambda settings, defaults: settings["learner"].update(given))
    assert not counts(lambda settings, defaults: settings["learner"].update(other))
    # An early record tells no defaults: what it gives differed from one, and so did perhaps what it does not.
    assert not counts(lambda settings, defaults: settings["learner"].update(given), defaults=False)
    monkeypatch.setattr(gone, "GONE", {"learner.hint": gone.Gone(0.5, "hints", "abc")})
    for defaults in (True, False):
        assert counts(lambda settings, _: settings["learner"].update(hint=0.5), defaults)
        assert not counts(lambda settings, _: settings["learner"].update(hint=0.25), defaults)
    assert not counts(lambda settings, _: settings["learner"].update(other=0))
    content["defaults"]["learner"]["hint"] = 0.5
    shelf = Records(_write(file, content))
    assert shelf.find(config) is not None and resolve(Path(_name(file, config)), {}, {}).learner.n_step == 4


def test_a_run_and_its_record_have_the_same_scores(tmp_path):
    """The run is so long that its record lacks most of its tallies and evaluations."""
    rows = _rows(evaluations=300, tallies=400)
    walk = np.random.default_rng(1).normal(size=400).cumsum()
    for row, total in zip([row for row in rows if "train/episodes" in row], walk, strict=True):
        row["train/total_return"] = float(total)
    rows[-1] |= {"eval/return": 0.5, "eval/success": 0.5}  # a tally and an evaluation in one row
    before, config = copy.deepcopy(rows), _config()
    finished = of_finished(config, _result(config, rows), rows, "run")
    file = tmp_path / "all.jsonl"
    Records(file).keep(config, of_run(config, _result(config, rows), rows))
    recorded = Records(file).find(config)
    assert recorded._replace(where="run") == finished and rows == before
    assert recorded.record.num_evaluations == 301
    assert recorded.record.metrics == {"learner/loss": pytest.approx(0.3)}
    kept = finished.record.rows
    assert len([row for row in kept if "eval/return" in row]) < 300
    scores = [Score(of="mmer", epoch_env_steps=1000), Score(of="return")]
    for score in scores:
        assert score.value(kept, 0) is not None
    assert scores[0].value(kept, 0) != scores[0].value(rows, 0)


@pytest.mark.parametrize("period", [16_384, 5_000])
def test_a_record_has_the_ends_of_all_epochs_of_the_longest_published_budget(tmp_path, period):
    """POPGym's: 229 epochs of 65 536 env steps. The last row is of no multiple of either period."""
    walk = np.random.default_rng(2).normal(size=15_001_000 // period + 1).cumsum()
    rows = [
        {"env_steps": min(i * period, 15_001_000), "train/episodes": 7 * i, "train/total_return": total}
        for i, total in enumerate(walk, start=1)
    ]
    rows[-1] |= {"eval/return": 0.5, "eval/success": 0.5}
    config, score = _config(), Score(of="mmer", epoch_env_steps=65_536)
    kept = of_finished(config, _result(config, rows), rows, "run").record.rows
    assert len(kept) < 235 and kept[-1]["env_steps"] == 15_001_000
    assert score.value(kept, 0) == score.value(rows, 0)


def test_two_comparisons_keep_one_record_of_a_run(tmp_path):
    config, file = _config(), tmp_path / "all.jsonl"
    one, other = Records(file), Records(file)
    assert one.keep(config, of_run(config, _result(config), _rows())) == ""
    kept = file.read_bytes()
    assert other.keep(config, of_run(config, _result(config, seconds=9.0), _rows())) == ""
    assert file.read_bytes() == kept


def test_processes_add_to_a_file_at_once_while_it_is_sorted(tmp_path):
    """Each line is whole, and none is lost, though sorting puts another file in the place of the first."""
    file, processes, each = tmp_path / "all.jsonl", 4, 12
    _keep(tmp_path)
    line = file.read_text().strip()
    adds = f"""
import json, pathlib, sys
from dtqn.files import append_line, locked
record = json.loads({line!r})
for i in range({each}):
    with locked(pathlib.Path({str(file)!r})) as stream:
        append_line(stream, json.dumps(record | {{"seed": 1000 * int(sys.argv[1]) + i}}))
"""
    running = [subprocess.Popen([sys.executable, "-c", adds, str(i + 1)]) for i in range(processes)]
    while any(process.poll() is None for process in running):
        records.put_in_order(file)
    assert not any(process.returncode for process in running)
    seeds = [content["seed"] for content in _contents(file)]
    expected = [3, *(1000 * (i + 1) + k for i in range(processes) for k in range(each))]
    assert sorted(seeds) == sorted(expected)
    assert records.put_in_order(file) == len(expected)
    assert [content["seed"] for content in _contents(file)] == sorted(expected)


def _git(folder, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=one"]
    return subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def test_two_branches_that_both_grew_a_file_merge(tmp_path, capsys):
    """Nothing is lost and nothing is there twice, whichever of them has sorted the file."""
    folder = tmp_path / "docs/results/records"
    folder.mkdir(parents=True)
    (tmp_path / ".gitattributes").write_bytes((_ROOT / ".gitattributes").read_bytes())
    _git(tmp_path, "init")

    def commit(seeds, *words, sort=False):
        for seed in seeds:
            _keep(folder, _config(seed=str(seed)))
        if sort:
            records.put_in_order(folder / "all.jsonl")
        _git(tmp_path, "add", "-A")
        _git(tmp_path, "commit", "-m", "more")

    commit([7, 5])
    _git(tmp_path, "branch", "two")
    commit([9, 3, 8], sort=True)
    _git(tmp_path, "checkout", "two")
    commit([2, 8, 6])
    _git(tmp_path, "merge", "one")
    file = folder / "all.jsonl"
    assert {content["seed"] for content in _contents(file)} == {2, 3, 5, 6, 7, 8, 9}
    assert printed(capsys, "records", file) == f"{file}: 7 records in order\n"
    assert [content["seed"] for content in _contents(file)] == [2, 3, 5, 6, 7, 8, 9]
    assert not Records(file).problems


@pytest.mark.parametrize("line", ["{", "[1]", '{"env": "x"}', "<<<<<<< HEAD", _NO_TASK])
def test_a_file_with_a_line_that_is_no_record_is_not_sorted(tmp_path, capsys, line):
    file = _keep(tmp_path)
    file.write_text(f"{line}\n{file.read_text()}")
    before = file.read_bytes()
    told = refused(capsys, "records", file)
    assert told == f"{file}, line 1: is no record of a run; mend or remove it"
    assert file.read_bytes() == before
    assert "its name must end in .jsonl" in refused(capsys, "records", tmp_path / "x.json")
    assert "there is no such file" in refused(capsys, "records", tmp_path / "absent.jsonl")
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "Invalid JSON"),
        ("\udcff\udcfe", "Invalid JSON"),
        ("[1]", "must be an object"),
        ('{"env": "x"}', "agent is missing"),
        ("<<<<<<< HEAD", "Invalid JSON"),
    ],
)
def test_a_damaged_line_costs_one_line_and_is_left_as_it_is(tmp_path, content, why):
    config = _config()
    file = _keep(tmp_path)
    good, damaged = file.read_bytes(), content.encode(errors="surrogateescape")
    file.write_bytes(damaged)  # cut, without the line's end
    shelf = Records(file)
    problem = _problem(shelf, config)
    assert problem.startswith(f"{file}, line 1: is no record of a run (") and why in problem
    assert "\n" not in problem
    assert shelf.keep(config, of_run(config, _result(config), _rows())) == ""
    assert file.read_bytes() == damaged + b"\n" + good
    assert Records(file).find(config) is not None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: [column.pop() for column in c["evaluations"].values()], "the last evaluation is not"),
        (lambda c: [column.clear() for column in c["evaluations"].values()], "the last evaluation is not"),
        (lambda c: c.update(evaluations={}), "evaluations has no env_steps"),
        (lambda c: c["evaluations"]["env_steps"].pop(0), "columns of evaluations are not of one length"),
        (lambda c: c["evaluations"].pop("eval/success"), "evaluations has no eval/success"),
        (lambda c: c["evaluations"]["eval/success"].__setitem__(0, 2), "evaluations.eval/success"),
        (lambda c: c["training"].pop("train/episodes"), "training has no train/episodes"),
        (lambda c: c["result"].update(env_steps=5), "the last evaluation is not of the run's end"),
        (lambda c: c["result"].update(seconds=-1), "result.seconds"),
        (lambda c: c["settings"]["learner"].update(n_step=99), "settings_hash does not match its settings"),
        (lambda c: c.update(settings={}), "settings_hash does not match its settings"),
    ],
)
def test_a_record_that_contradicts_itself_is_none(tmp_path, change, why):
    config = _config(**{"learner.n_step": "4"})
    file = _keep(tmp_path, config)
    (content,) = _contents(file)
    change(content)
    problem = _problem(Records(_write(file, content)), config)
    assert problem.startswith(f"{file}, line 1: is no record of a run (") and why in problem


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"seconds": "long"}, "result.seconds is long: must be a valid number"),
        ({"threads": None}, "result.threads is None: must be a valid integer"),
        ({"env_steps": 7}, "the last evaluation is not of the run's end"),
    ],
)
def test_a_result_that_was_edited_is_one_line(edit, why):
    config, rows = _config(), _rows()
    with pytest.raises(ConfigError, match=r"^run: its result\.json makes no record") as caught:
        of_finished(config, _result(config, rows) | edit, rows, "run")
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_a_finished_run_whose_metrics_were_cut_is_in_no_table(tmp_path):
    """Its last row would be taken for its end, and its record would never be made again."""
    config, rows = _config(), _rows()
    directory = RunDir.of_config(config, tmp_path / "runs")
    directory.prepare(config)
    directory.write_result(_result(config, rows))
    directory.metrics_file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert read_run(directory)[0] == rows
    whole = directory.metrics_file.read_bytes().splitlines(keepends=True)
    for kept in (0, 1, len(whole) - 2):
        directory.metrics_file.write_bytes(b"".join(whole[:kept]))
        with pytest.raises(
            ValueError, match=r"metrics.jsonl: ends at \d+ env steps, but the run has finished at 250"
        ):
            read_run(directory)
        job = Job("cut", directory)
        job._read()
        with pytest.raises(ValueError, match="move the run's folder away"):
            compare._outcome(job)


def test_of_two_records_of_a_run_the_first_is_taken(tmp_path):
    file = _keep(tmp_path)
    (content,) = _contents(file)
    again = content | {"result": content["result"] | {"seconds": 9.0}}
    shelf = Records(_write(file, content, again))
    assert shelf.find(_config()).record.result.seconds == 12.25


def test_a_run_of_a_task_that_has_changed_is_not_counted(tmp_path):
    """Nor does its record hide one of the task as it is now."""
    config = _config()
    file = _keep(tmp_path, config, task="0123456789ab")
    before, shelf = file.read_bytes(), Records(file)
    problem = _problem(shelf, config)
    assert problem.startswith(f"{_name(file)}: the task {_TASK} has changed since (digest 0123456789ab, now ")
    assert shelf.keep(config, of_run(config, _result(config), _rows())) == ""
    assert file.read_bytes().startswith(before) and len(_contents(file)) == 2
    shelf = Records(file)
    assert shelf.find(config).record.result.task == run_identity(config).digest
    assert shelf.problems == []


def test_a_record_with_a_setting_of_a_newer_version_is_told_of(tmp_path):
    file = _keep(tmp_path)
    (content,) = _contents(file)
    content["settings"].setdefault("learner", {})["new_trick"] = 0.5
    content["settings_hash"] = hash_of(content["settings"], None)
    problem = _problem(Records(_write(file, content)))
    assert " with other settings (learner.new_trick, which is not a setting here)" in problem


def test_a_record_of_an_own_task_that_has_changed_is_told_of(tmp_path):
    """Its digest is part of the hash, so no run has that any more."""
    file = _keep(tmp_path, task="0123456789ab")
    (content,) = _contents(file)
    content["settings_hash"] = hash_of(content["settings"], content["result"]["task"])
    problem = _problem(Records(_write(file, content)))
    assert f": the task {_TASK} has changed since (digest 0123456789ab, now " in problem


# -- A record as a file of settings --------------------------------------------------------------------------


def test_a_record_is_a_whole_file_of_settings(tmp_path):
    """No preset is laid below it, nor the recipe, which has other returns than the run."""
    config = _config(**{"learner.returns": "n_step", "learner.n_step": "4"})
    file = _keep(tmp_path, config)
    place = Path(f"{file}#{_TASK}/dqn/3")
    assert _config().learner.returns.name != "n_step"
    again = resolve(place, {}, {})
    assert (again.env, again.agent, again.seed) == (_TASK, "dqn", 3) and identity(again) == identity(config)
    assert resolve(place, {"seed": "9", "learner": {"n_step": 5}}, {}).learner.n_step == 5
    (content,) = _contents(file)
    content["defaults"]["learner"]["double_q"] = False
    _write(file, content)
    assert not resolve(place, {}, {}).learner.double_q, "a default of then"


def test_a_record_is_named_by_what_tells_it_apart(tmp_path, capsys):
    first, second = _config(), _config(**{"learner.n_step": "4"})
    file = _keep(tmp_path, first)
    _keep(tmp_path, second)
    _keep(tmp_path, _config(seed="12"))
    assert resolve(Path(_name(file, second)), {}, {}).learner.n_step == 4

    def told(name):
        line = refused(capsys, "--config", f"{file}{name}", "--print-config")
        return line.removeprefix(f"config is {file}")

    names = [_name(file, config).partition("#")[2] for config in (first, second)]
    assert told(f"#{_TASK}/dqn/3") == (
        f"#{_TASK}/dqn/3: the file has several of it; must be one of {', '.join(names)}"
    )
    assert told(f"#{_TASK}/dqn/2") == (
        f"#{_TASK}/dqn/2: the file has no such record; the nearest: {_TASK}/dqn/12, {_TASK}/dqn/3"
    )
    assert told("") == ": is a file of records; must be FILE.jsonl#TASK/AGENT/SEED"
    file.unlink()
    assert told(f"#{_TASK}/dqn/3") == ": cannot be read: No such file or directory"


def test_the_agent_of_a_record_is_no_other(tmp_path):
    file = _keep(tmp_path)
    place = Path(_name(file))
    with pytest.raises(
        ConfigError, match=f"agent is gru .from --agent., but {place} holds every setting of dqn"
    ):
        resolve(place, {"agent": "gru"}, {})
    held = _contents(file)[0]
    _write(file, held | {"settings": held["settings"] | {"learner": {"\ud800": 3}}})
    with pytest.raises(ConfigError, match=r"'learner\.\\ud800' is not a setting \(from "):
        resolve(place, {}, {})
    _write(file, _contents(file)[0] | {"settings": 3})
    with pytest.raises(ConfigError, match="settings and defaults of a record must be groups of settings"):
        resolve(place, {}, {})


def test_every_record_of_the_results_is_a_run_of_today_by_its_name():
    """Each can be made again by `--config FILE#NAME`; all lines of a file differ, and are in order.

    Runs with OPIQ's bonus are refused with the last commit that makes them.
    """
    files = sorted(_ROOT.glob("docs/*/records/*.jsonl"))
    of_recipe = ("held-out", "second", "third", "development", "left-out")
    files += [_ROOT / "docs" / "benchmarks" / "recipe" / f"{name}.jsonl" for name in of_recipe]
    assert len(files) > 20
    for file in files:
        contents = _contents(file)
        assert contents == sorted(contents, key=records._order), file
        names = [record_files.key_of(content) for content in contents]
        assert len(set(names)) == len(names), file
        for content in contents[:: max(1, len(contents) // 4)]:
            record = records.Record.model_validate(content)
            if content["settings"].get("actor", {}).get("optimism"):
                with pytest.raises(ConfigError, match="OPIQ's bonus was removed; commit fccff49"):
                    record_files.settings_of(content, "")
                continue
            config = build([Layer(None, record_files.settings_of(content, ""))])
            assert (config.env, config.agent, config.seed) == (record.env, record.agent, record.seed)
            if record.defaults:
                assert identity(config) == record.identity, file


def test_records_with_other_settings_are_told_of_once(tmp_path):
    """One line for a task and agent, which names what differs, where a run of that seed would be trained."""
    old = {"learner.n_step": "4", "total_env_steps": "9000"}
    file, _ = (_keep(tmp_path, _config(seed=str(seed), **old)) for seed in (3, 5))
    shelf = Records(file)
    for seed in (3, 4, 5):
        assert shelf.find(_config(seed=str(seed), total_env_steps="8000")) is None
    assert shelf.problems == [
        f"{_name(file, _config(**old))}: is of dqn on {_TASK} with other settings "
        "(total_env_steps is 9000, now 8000, warmup_env_steps is 1800, now 1600, "
        f"learner.n_step is 4, now {_config().learner.n_step}, and 1 more), so the run is not counted"
    ]
    shelf = Records(file)
    assert shelf.find(_config(seed="4")) is None and shelf.find(_config(agent="gru")) is None
    assert not shelf.problems, "no such run"
    many = {f"learner.{name}": "0.5" for name in ("gamma", "max_grad_norm", "learning_rate", "reward_scale")}
    assert shelf.find(_config(**old, **many)) is None
    assert shelf.problems[0].endswith(", and 1 more), so the run is not counted")


def test_a_record_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    config = _config(seed="4")
    file = _keep(tmp_path)
    before = file.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        told = Records(file).keep(config, of_run(config, _result(config), _rows()))
    assert told == f"{file}: cannot be written: No space left on device"
    assert file.read_bytes() == before
    _keep(tmp_path, config)
    assert Records(file).find(config) is not None and Records(file).find(_config()) is not None


def test_without_a_file_there_are_no_records(tmp_path):
    shelf = Records(None)
    assert (
        shelf.find(_config()) is None
        and shelf.keep(_config(), of_run(_config(), _result(_config()), _rows())) == ""
    )
    assert Records(tmp_path / "absent.jsonl").find(_config()) is None
    for other in (tmp_path / "file", tmp_path):
        with pytest.raises(ValueError, match=r"--records is .*: must be a file with the ending \.jsonl"):
            Records(other)


def test_a_file_that_cannot_be_written_is_refused_before_the_runs(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    arguments = ["compare", "--env", _TASK, "--agents", "dqn", "--runs-dir", tmp_path / "runs"]
    told = refused(capsys, *arguments, "--records", tmp_path / "file/all.jsonl")
    assert told.startswith("--records ") and told.endswith("file cannot be written: File exists")
    assert not list((tmp_path / "runs").rglob("config.yaml"))
