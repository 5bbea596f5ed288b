"""A run that an earlier version made: settings that have gone since stand in its files.

`tests/data/run-c9b8378` is such a run, trained and finished at that commit.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dtqn import cli
from dtqn.experiments import records
from dtqn.settings import gone, layers, presets
from dtqn.settings.config import ConfigError
from dtqn.training.directory import RunDir, config_hash, hash_of
from dtqn.training.metrics import read_rows
from tests.tiny import refused

MADE = Path(__file__).parents[1] / "data" / "run-c9b8378"
HASH = "911dafb7"
"""`config_hash` of the run at its own commit."""
NOW = "039306a9"
"""By the names that settings have now."""


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir(Path(shutil.copytree(MADE, tmp_path / "run")))


def set_to(run: RunDir, name: str, value: str) -> None:
    leaf = name.rpartition(".")[2]
    lines = run.config_file.read_text().splitlines(keepends=True)
    changed = [f"  {leaf}: {value}\n" if line.startswith(f"  {leaf}:") else line for line in lines]
    assert changed != lines
    run.config_file.write_text("".join(changed))


def test_its_settings_are_read_and_it_is_the_same_run(run: RunDir) -> None:
    held = layers.flat(layers.read_yaml(run.config_file))
    assert all(held[name] == of.off for name, of in gone.GONE.items())
    assert config_hash(run.read_config()) == NOW
    assert config_hash(presets.resolve(run.config_file, {}, {})) == NOW


def test_it_goes_on_and_is_evaluated(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    before = read_rows(run.metrics_file)
    assert cli.main(["--resume", str(run.path), "--total-env-steps", "600"]) == 0
    rows = read_rows(run.metrics_file)
    assert rows[: len(before)] == before and rows[-1]["env_steps"] == 600
    assert rows[-1]["learner_steps"] > before[-1]["learner_steps"]
    assert cli.main(["eval", str(run.path), "--episodes", "2"]) == 0
    assert not layers.flat(layers.read_yaml(run.config_file)).keys() & gone.GONE.keys()


@pytest.mark.parametrize(
    "name, value, what",
    [
        ("network.dropout", "0.1", "dropout"),
        ("network.bag_size", "4", "DTQN's bag"),
        ("learner.ranks", "2", "learning in several processes"),
        ("actor.publish_period", "3", "syncing weights every few updates"),
        ("replay.initial_priority", "max", "the choice of first priorities"),
        ("learner.novelty_centred", "True", "novelty less its mean"),
        ("network.compression_rate", "3", "the choice of the steps of a compressed slot"),
    ],
)
def test_a_run_with_what_has_gone_is_one_line(
    name: str, value: str, what: str, run: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    set_to(run, name, value)
    end = f"{what} was removed; commit {gone.GONE[name].last_commit} is the last to have it"
    expected = f"{run.config_file}: {name} is {value}; {end}"
    assert refused(capsys, "--resume", run.path) == expected
    assert refused(capsys, "eval", run.path) == expected
    assert refused(capsys, "--config", run.config_file) == f"config is {expected}"


@pytest.mark.parametrize("value", ["0.0", "0.1"])
def test_who_names_what_has_gone_is_told(
    value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = "; dropout was removed; commit c9b8378 is the last to have it"
    assert refused(capsys, "--network.dropout", value) == f"--network.dropout is not an option{end}"
    file = tmp_path / "my.yaml"
    file.write_text(f"network: {{dropout: {value}}}")
    told = refused(capsys, "--config", file)
    assert told == f"network.dropout is not a setting (from {file}){end}"


def test_an_early_record_is_of_the_run_that_its_settings_are_now(run: RunDir) -> None:
    config, result = run.read_config(), run.read_result()
    assert result is not None
    now = records.of_run(config, result, read_rows(run.metrics_file))

    def with_dropout(value: float) -> records.Record:
        settings = now.settings | {"network": now.settings["network"] | {"dropout": value}}
        content = now.model_dump() | {"settings": settings, "settings_hash": hash_of(settings, None)}
        return records.Record.model_validate(content)

    early, other = with_dropout(0.0), with_dropout(0.1)
    assert early.settings_hash not in (NOW, other.settings_hash)
    assert early.identity == now.identity == records.identity(config)
    assert other.identity != now.identity


def test_a_record_with_every_setting_is_read(run: RunDir, tmp_path: Path) -> None:
    """`--config RECORD`, whose defaults hold what has gone."""
    result = run.read_result()
    assert result is not None
    record = records.of_run(run.read_config(), result, read_rows(run.metrics_file))
    defaults = record.defaults | {"learner": record.defaults["learner"] | {"ranks": 1}}
    file = tmp_path / "record.json"
    file.write_text(record.model_copy(update={"defaults": defaults}).model_dump_json())
    assert config_hash(presets.resolve(file, {}, {})) == NOW


def test_a_setting_that_was_not_off_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match=r"network\.dropout is 0\.3"):
        layers.of_today({"network": {"dropout": 0.3}}, "a.json")


def test_a_setting_that_nothing_read_may_have_any_value() -> None:
    uniform = {"replay": {"priority_exponent": 0.0, "initial_priority": "max"}}
    assert layers.of_today(uniform, "a.json") == {"replay.priority_exponent": 0.0}
    by_actor = {"replay": {"priority_exponent": 0.9, "initial_priority": "actor"}}
    assert layers.of_today(by_actor, "a.json") == {"replay.priority_exponent": 0.9}
    with pytest.raises(ConfigError, match=r"replay\.initial_priority is max; the choice of first"):
        layers.of_today({"replay": {"priority_exponent": 0.9, "initial_priority": "max"}}, "a.json")


def test_a_group_that_had_nothing_else_goes_too() -> None:
    content = {"env": "hallway", "network": {}, "learner": {"ranks": 1}}
    assert layers.of_today(content, "a.json") == {"env": "hallway"}


def test_it_is_found_by_its_settings_under_its_earlier_hash(tmp_path: Path) -> None:
    config = RunDir(MADE).read_config()
    path = tmp_path / config.env / config.agent / f"seed{config.seed}-{HASH}"
    shutil.copytree(MADE, path)
    assert RunDir.of_config(config, tmp_path).path == path
    longer = config.model_copy(update={"total_env_steps": config.total_env_steps + 1})
    assert RunDir.of_config(longer, tmp_path).path != path
