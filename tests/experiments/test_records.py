"""Records: what they keep of a run, how they are found again, and files that are none."""

import copy
import itertools
import json
import os

import numpy as np
import pytest

from dtqn.experiments import compare, records
from dtqn.experiments.comparison_table import run_figures
from dtqn.experiments.jobs import Job, Pool
from dtqn.experiments.records import LARGEST_BYTES, Identity, Records, of_finished, of_run
from dtqn.experiments.scores import SUCCESS, Score
from dtqn.settings.config import ConfigError
from dtqn.settings.presets import resolve
from dtqn.training.directory import RunDir, config_hash, hash_of, run_identity
from dtqn.training.metrics import read_run

_TASK = "t-maze-passive-10"


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
    config = config or _config()
    assert Records(folder).keep(config, _result(config, **changes), _rows()) == ""
    (file,) = folder.rglob(f"*{config_hash(config)}.json")
    return file


def test_a_record_keeps_the_run_and_is_found_by_its_identity(tmp_path):
    config = _config(**{"learner.n_step": "4"})
    file = _keep(tmp_path / "a", config)
    assert file.relative_to(tmp_path / "a").as_posix() == f"{_TASK}/dqn/seed3-{config_hash(config)}.json"
    content = json.loads(file.read_text())
    assert (
        content["settings"]["learner"]["n_step"] == 4 and "batch_size" not in content["settings"]["learner"]
    )
    assert (
        content["result"]["machine"] == "A B, 2 cores, Linux" and "last_evaluation" not in content["result"]
    )
    elsewhere = tmp_path / "b/another name.json"  # where it lies and what it is called is no part of it
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(file.read_bytes())
    shelf = Records(tmp_path / "b")
    found = shelf.find(config)
    assert (found.config, found.state, found.where, found.error) == (config, "finished", str(elsewhere), "")
    assert (found.result["code"], found.result["seconds"]) == (["abc"], 12.25)
    kept = [row for row in found.rows if "eval/return" in row]
    assert [(row["env_steps"], row["eval/episodes"]) for row in kept] == [(150, 50), (250, 50)]
    assert [row["eval/success"] for row in kept] == [1 / 7, 2 / 7], "to the last digit"
    tallies = [(row["env_steps"], row["train/total_return"]) for row in found.rows if "train/episodes" in row]
    assert tallies == [(100, -1.5), (200, -3.0), (300, -4.5)]
    assert not shelf.problems
    for other in (_config(), _config(**{"learner.n_step": "4", "seed": "4"}), _config(agent="gru")):
        assert shelf.find(other) is None
    assert shelf.find(_config(**{"learner.n_step": "4", "threads": "2", "wandb": "disabled"})) is not None


def test_a_long_run_has_a_small_record_with_its_last_rows(tmp_path):
    config, rows = _config(), _rows(evaluations=1500, tallies=3001)
    assert Records(tmp_path).keep(config, _result(config, rows), rows) == ""
    (file,) = tmp_path.rglob("*.json")
    assert file.stat().st_size < LARGEST_BYTES == 20_000
    kept = Records(tmp_path).find(config).rows
    evaluations = [row["env_steps"] for row in kept if "eval/return" in row]
    tallies = [row["env_steps"] for row in kept if "train/episodes" in row]
    assert evaluations[-1] == 150_050 and tallies[-1] == 300_100
    assert evaluations.pop(0) == 750, "the first with 90 % success"
    assert len({b - a for a, b in itertools.pairwise(evaluations)}) == 1, "evenly"
    assert len(evaluations) > 50 and len(tallies) > 50
    few = of_run(config, _result(config, _rows(100, 256)), _rows(100, 256))
    assert len(few.rows()) == 356, "nothing is left out of what fits"


def test_a_table_is_the_same_however_many_rows_a_record_keeps(tmp_path):
    """Runs alike are thinned alike, all evaluations count, and the first one that solved the task is kept."""
    rows = [row for row in _rows(evaluations=240, tallies=1) if "eval/return" in row]
    for row in rows:
        row["eval/success"] = 0.5
    rows[100]["eval/success"] = 0.92
    config, kept = _config(), {}
    for digits in (3, 17):
        for row in rows:
            row["eval/return"] = round(1 / 3, digits)
        outcome = records.of_record(config, of_run(config, _result(config, rows), rows), "")
        found = run_figures(outcome, [SUCCESS])
        assert (found.evaluations, found.env_steps_to_90) == (240, rows[100]["env_steps"])
        kept[digits] = [row["env_steps"] for row in outcome.rows]
    assert kept[3] == kept[17] and 50 < len(kept[3]) < 110


def test_a_run_with_other_defaults_is_not_counted(tmp_path, monkeypatch):
    """Its hash is that of a run now: a hash is of what differs from the defaults."""
    config = _config()
    file = _keep(tmp_path, config)
    content = json.loads(file.read_text())
    assert content["defaults"]["learner"]["batch_size"] == config.learner.batch_size
    assert not set(content["defaults"]["learner"]) & set(content["settings"]["learner"])
    content["defaults"]["learner"]["target_ema_rate"] = 0.5
    content["defaults"]["learner"]["of another version"] = 7
    file.write_text(json.dumps(content))
    shelf = Records(tmp_path)
    assert shelf.find(config) is None
    now = f"now {config.learner.target_ema_rate}"
    assert shelf.problems == [
        f"{file}: defaults have changed since (learner.target_ema_rate is 0.5, {now}); the run is not counted"
    ]
    assert "move it away" in shelf.keep(config, _result(config), _rows())
    del content["defaults"], content["num_evaluations"]  # as early records are
    file.write_text(json.dumps(content))
    found = Records(tmp_path).find(config)
    assert run_figures(found, [SUCCESS]).evaluations == 2


def test_a_run_and_its_record_have_the_same_scores(tmp_path):
    """The run is so long that its record has every fourth tally and every other evaluation alone."""
    rows = _rows(evaluations=300, tallies=400)
    walk = np.random.default_rng(1).normal(size=400).cumsum()
    for row, total in zip([row for row in rows if "train/episodes" in row], walk, strict=True):
        row["train/total_return"] = float(total)
    rows[-1] |= {"eval/return": 0.5, "eval/success": 0.5}  # a tally and an evaluation in one row
    before, config = copy.deepcopy(rows), _config()
    finished = of_finished(config, _result(config, rows), rows, "run")
    Records(tmp_path).keep(config, _result(config, rows), rows)
    recorded = Records(tmp_path).find(config)
    assert recorded._replace(where="run") == finished and rows == before
    kept = finished.rows
    assert len([row for row in kept if "eval/return" in row]) < 300
    scores = [
        Score(kind="mmer", epoch_env_steps=1000),
        Score(kind="bsuite", episodes=333),
        Score(kind="return"),
    ]
    for score in scores:
        assert score.of(kept, 0) is not None
    assert scores[0].of(kept, 0) != scores[0].of(rows, 0)


@pytest.mark.parametrize("period", [16_384, 5_000])
def test_a_record_has_the_ends_of_all_epochs_of_the_longest_published_budget(tmp_path, period):
    """POPGym's: 229 epochs of 65 536 env steps. The last row is of no multiple of either period."""
    walk = np.random.default_rng(2).normal(size=15_001_000 // period + 1).cumsum()
    rows = [
        {"env_steps": min(i * period, 15_001_000), "train/episodes": 7 * i, "train/total_return": total}
        for i, total in enumerate(walk, start=1)
    ]
    rows[-1] |= {"eval/return": 0.5, "eval/success": 0.5}
    config, score = _config(), Score(kind="mmer", epoch_env_steps=65_536)
    kept = of_finished(config, _result(config, rows), rows, "run").rows
    assert len(kept) < 235 and kept[-1]["env_steps"] == 15_001_000
    assert score.of(kept, 0) == score.of(rows, 0)


def test_a_table_of_a_long_run_is_that_of_its_record(tmp_path):
    config = _config()
    directory = RunDir.of_config(config, tmp_path / "runs")
    directory.prepare(config)
    rows = _rows(evaluations=300, tallies=400)
    directory.metrics_file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    directory.write_result(_result(config, rows))
    with Pool(1) as pool:
        job = Job("long", directory)
        pool.add(job)
        assert [changed.state for changes in pool.changes() for changed in changes] == ["finished"]
    Records(tmp_path / "kept").keep(config, _result(config, rows), rows)
    assert compare._outcome(job).rows == Records(tmp_path / "kept").find(config).rows
    assert compare._outcome(job).num_evaluations == 300
    assert compare._outcome(job).metrics == Records(tmp_path / "kept").find(config).metrics
    assert compare._outcome(job).metrics == {"learner/loss": pytest.approx(0.3)}


def test_two_comparisons_keep_one_record_of_a_run(tmp_path):
    config = _config()
    one, other = Records(tmp_path), Records(tmp_path)
    assert one.keep(config, _result(config), _rows()) == ""
    (file,) = tmp_path.rglob("*.json")
    kept = file.read_bytes()
    assert other.keep(config, _result(config, seconds=9.0), _rows()) == ""
    assert file.read_bytes() == kept


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "Invalid JSON"),
        (b"\xff\xfe", "Invalid JSON"),
        (b"[1]", "Input should be an object"),
        (b'{"env": "x"}', "agent: Field required"),
    ],
)
def test_a_damaged_or_foreign_file_costs_one_line_and_is_left_as_it_is(tmp_path, content, why):
    config = _config()
    file = _keep(tmp_path)
    good = file.read_bytes()
    file.write_bytes(content)
    shelf = Records(tmp_path)
    assert shelf.find(config) is None
    (problem,) = shelf.problems
    assert problem.startswith(f"{file}: is no record of a run (") and why in problem and "\n" not in problem
    told = shelf.keep(config, _result(config), _rows())
    assert told == f"{file}: is no record of the run as it is now, and is left as it is; move it away"
    assert file.read_bytes() == content
    file.rename(tmp_path / "away")
    assert Records(tmp_path).keep(config, _result(config), _rows()) == ""
    assert file.read_bytes() == good


def test_columns_of_different_lengths_are_damage(tmp_path):
    file = _keep(tmp_path)
    content = json.loads(file.read_text())
    content["evaluations"]["env_steps"].pop()
    file.write_text(json.dumps(content))
    shelf = Records(tmp_path)
    assert shelf.find(_config()) is None and len(shelf.problems) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda c: [column.pop() for column in c["evaluations"].values()],
            "the last evaluation is not of the",
        ),
        (lambda c: [column.clear() for column in c["evaluations"].values()], "the last evaluation is not"),
        (lambda c: c.update(evaluations={}), "evaluations has no env_steps"),
        (lambda c: c["evaluations"].pop("eval/success"), "evaluations has no eval/success"),
        (lambda c: c["training"].pop("train/episodes"), "training has no train/episodes"),
        (lambda c: c["evaluations"].update({"eval/success": [7, 7]}), "a success is not between 0 and 1"),
        (lambda c: c["evaluations"]["env_steps"].reverse(), "env_steps of evaluations do not grow"),
        (lambda c: c["training"]["env_steps"].reverse(), "env_steps of training do not grow"),
        (
            lambda c: c["evaluations"]["env_steps"].__setitem__(0, None),
            "env_steps of evaluations do not grow",
        ),
        (lambda c: c.update(num_evaluations=1), "it has 2 evaluations, but num_evaluations is 1"),
        (
            lambda c: c["result"].update(env_steps=5),
            "the last evaluation is not of the run's end, 5 env steps",
        ),
        (lambda c: c["result"].update(seconds=-1), "result.seconds"),
        (lambda c: c["settings"]["learner"].update(n_step=99), "settings_hash is not that of its settings"),
        (lambda c: c.update(settings={}), "settings_hash is not that of its settings"),
    ],
)
def test_a_record_that_contradicts_itself_is_none(tmp_path, change, why):
    config = _config(**{"learner.n_step": "4"})
    file = _keep(tmp_path, config)
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    shelf = Records(tmp_path)
    assert shelf.find(config) is None
    (problem,) = shelf.problems
    assert problem.startswith(f"{file}: is no record of a run (") and why in problem


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"seconds": "long"}, "result.seconds: "),
        ({"threads": None}, "result.threads: "),
        ({"env_steps": 7}, "the last evaluation is not of the run's end, 7 env steps"),
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


def test_of_two_records_of_a_run_one_is_taken(tmp_path):
    file = _keep(tmp_path)
    twin = tmp_path / "z.json"
    twin.write_bytes(file.read_bytes())
    shelf = Records(tmp_path)
    assert shelf.find(_config()).where == str(file)
    assert shelf.problems == [f"{twin}: is of the same run as {file}, which is taken"]


def test_a_stale_record_hides_no_good_one(tmp_path):
    """Wherever it has been moved to, as it was told to be moved away."""
    file = _keep(tmp_path)
    stale = json.loads(file.read_text())
    stale["result"]["task"] = "0123456789ab"
    (tmp_path / "a.json").write_text(json.dumps(stale))
    shelf = Records(tmp_path)
    assert shelf.find(_config()).where == str(file)
    assert shelf.problems == []


def test_a_run_of_a_task_that_has_changed_is_not_counted(tmp_path):
    config = _config()
    file = _keep(tmp_path, config, task="0123456789ab")
    before, shelf = file.read_bytes(), Records(tmp_path)
    assert shelf.find(config) is None
    (problem,) = shelf.problems
    assert problem.startswith(f"{file}: the task {_TASK} has changed since (digest 0123456789ab, now ")
    assert "move it away" in shelf.keep(config, _result(config), _rows())
    assert file.read_bytes() == before


def test_a_record_of_a_newer_version_is_left_without_advice_to_move_it(tmp_path):
    config = _config()
    file = _keep(tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": 3}))
    before, shelf = file.read_bytes(), Records(tmp_path)
    assert shelf.find(config) is None
    (problem,) = shelf.problems
    assert problem.startswith(
        f"{file}: has version, which this version does not know, so the run is not counted"
    )
    assert (
        shelf.keep(config, _result(config), _rows()) == f"{file}: is of a newer version, and is left as it is"
    )
    assert file.read_bytes() == before


def test_a_record_with_a_setting_of_a_newer_version_is_told_of(tmp_path):
    file = _keep(tmp_path)
    content = json.loads(file.read_text())
    content["settings"].setdefault("learner", {})["new_trick"] = 0.5
    content["settings_hash"] = hash_of(content["settings"], None)
    file.write_text(json.dumps(content))
    shelf = Records(tmp_path)
    assert shelf.find(_config()) is None
    (problem,) = shelf.problems
    assert problem.startswith(
        f"{file}: is of dqn on {_TASK} with other settings (learner.new_trick, which is no setting here)"
    )


def test_a_record_of_an_own_task_that_has_changed_is_told_of(tmp_path):
    """Its digest is part of the hash, so no record is found by it."""
    file = _keep(tmp_path, task="0123456789ab")
    content = json.loads(file.read_text())
    content["settings_hash"] = hash_of(content["settings"], content["result"]["task"])
    file.write_text(json.dumps(content))
    shelf = Records(tmp_path)
    assert shelf.find(_config()) is None
    (problem,) = shelf.problems
    assert problem.startswith(f"{file}: the task {_TASK} has changed since (digest 0123456789ab, now ")


def test_a_record_is_a_whole_file_of_settings(tmp_path):
    """No preset is laid below it: the task's has optimism, which the run was without."""
    config = _config(**{"actor.optimism": "0", "learner.n_step": "4"})
    file = _keep(tmp_path, config)
    assert _config().actor.optimism > 0
    assert Identity.of(resolve(file, {}, {})) == Identity.of(config)
    assert resolve(file, {"seed": "9", "learner": {"n_step": 5}}, {}).learner.n_step == 5
    content = json.loads(file.read_text())
    content["defaults"]["learner"]["double_q"] = False
    file.write_text(json.dumps(content))
    assert not resolve(file, {}, {}).learner.double_q, "a default of then"


def test_the_agent_of_a_record_is_no_other(tmp_path):
    file = _keep(tmp_path)
    with pytest.raises(
        ConfigError, match=f"agent is gru: {file} has all settings of a run of dqn; leave it out"
    ):
        resolve(file, {"agent": "gru"}, {})
    content = json.loads(file.read_text()) | {"settings": 3}
    file.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="settings and defaults of a record must be groups of settings"):
        resolve(file, {}, {})


def test_a_folder_named_like_a_record_is_none(tmp_path):
    file = _keep(tmp_path)
    (tmp_path / "x.json").mkdir()
    shelf = Records(tmp_path)
    assert shelf.problems == [] and shelf.find(_config()).where == str(file)


def test_records_with_other_settings_are_told_of_once(tmp_path):
    """One line for a task and agent, which names what differs, where a run of that seed would be trained."""
    old = {"learner.n_step": "4", "total_env_steps": "9000"}
    file, _ = (_keep(tmp_path, _config(seed=str(seed), **old)) for seed in (3, 5))
    shelf = Records(tmp_path)
    for seed in (3, 4, 5):
        assert shelf.find(_config(seed=str(seed), total_env_steps="8000")) is None
    assert shelf.problems == [
        f"{file}: is of dqn on {_TASK} with other settings (total_env_steps is 9000, here 8000, "
        "warmup_env_steps is 1800, here 1600, learner.n_step is 4, here 10), so the run is not counted"
    ]
    shelf = Records(tmp_path)
    assert shelf.find(_config(seed="4")) is None and shelf.find(_config(agent="gru")) is None
    assert not shelf.problems, "no such run"
    many = {f"learner.{name}": "0.5" for name in ("gamma", "max_grad_norm", "learning_rate", "reward_scale")}
    assert shelf.find(_config(**old, **many)) is None
    assert shelf.problems[0].endswith(", and 1 more), so the run is not counted")


def test_a_record_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    config = _config()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        told = Records(tmp_path).keep(config, _result(config), _rows())
    assert told.endswith(": cannot be written: No space left on device")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert Records(tmp_path).find(config) is None
    _keep(tmp_path)
    assert Records(tmp_path).find(config) is not None


def test_without_a_folder_there_are_no_records(tmp_path):
    shelf = Records(None)
    assert shelf.find(_config()) is None and shelf.keep(_config(), _result(_config()), _rows()) == ""
    assert len(Records(tmp_path / "absent")) == 0
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"--records is .*file: must be a folder"):
        Records(tmp_path / "file")


def test_a_runs_identity_is_that_of_its_directory():
    config = _config()
    assert Identity.of(config) == (_TASK, "dqn", 3, config_hash(config))
    assert records.of_run(config, _result(config), _rows()).identity == Identity.of(config)


def test_a_folder_that_cannot_be_written_is_refused_before_the_trainings(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"--records .*file/records cannot be written: Not a directory"):
        Records(tmp_path / "file" / "records").check_writable()
    Records(tmp_path / "new").check_writable()
    Records(None).check_writable()
