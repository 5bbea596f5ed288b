"""Settings: their words, their fixed values, the options of a task, modules of a user's own."""

import dataclasses
import typing

import pytest
import yaml
from pydantic import BaseModel

import envs
from dtqn.settings.config import Config, TaskConfig, fields_of
from dtqn.settings.layers import Layer, flat, nested, yaml_of
from dtqn.settings.presets import resolve
from dtqn.settings.values import legal
from dtqn.training.directory import config_hash, deciding_settings
from tests.settings.resolving import error_of


def test_every_setting_says_what_it_does_and_takes():
    for name, field in fields_of().items():
        assert field.description, name
        assert field.description.endswith("."), name
        assert legal(field), name


def test_there_are_no_more_settings_than_needed():
    assert len(fields_of()) <= 115


def test_settings_cannot_be_changed_after():
    with pytest.raises(Exception, match="frozen"):
        Config().seed = 3
    assert all(
        isinstance(field.default, BaseModel | int | float | str | None)
        for field in Config.model_fields.values()
    )


def test_a_core_and_an_encoder_of_a_users_own():
    """The core may read what several of the suite's have, and tells W when it is built."""
    flags = {"network.core": "my_code.cores:make", "network.encoder": "other:Encoder"}
    odd = {"network.core.num_heads": "5", "network.core.memory_length": "7", "replay.memory_dtype": "float32"}
    weighed = {"learner.auxiliary_weight": "0.5", "replay.memory": "refreshed"}
    config = resolve(None, flags | odd | weighed, {})
    assert (config.network.core.name, config.network.encoder.name) == ("my_code.cores:make", "other:Encoder")
    assert config.unread() == []
    assert config.network.core.memory_window is None
    for name in ("core", "encoder"):
        for wrong in ("my_core", "a:", ":b", "a:b:c", "a b:c", "a/b:c"):
            assert "or module:name of your own" in error_of({f"network.{name}": wrong})
    assert "must be one of" in error_of({"network.core": "lstn"})
    assert error_of({"network.core": "lstn"}).endswith("did you mean lstm?")


_OWN = {"network.core": "my_code.cores:make"}


def test_settings_of_an_own_core_are_those_of_a_file_a_flag_or_a_variant(tmp_path, trusting):
    (tmp_path / "mine.yaml").write_text(
        "network: {core: {name: 'my_code.cores:make', kwargs: {heads: 4, a-b: [1, null]}}}\n"
    )
    agent = {"agent": str(tmp_path / "mine.yaml")}
    assert resolve(None, agent, {}).network.core.kwargs == {"heads": 4, "a-b": [1, None]}
    assert resolve(None, agent | {"network.core.kwargs": "{heads: 2}"}, {}).network.core.kwargs == {
        "heads": 2
    }
    variant = {"agent": "v=gtrxl+network.core=my_code.cores:make+network.core.kwargs={heads: 3}"}
    assert resolve(None, variant, {}).network.core.kwargs == {"heads": 3}
    variant = {"agent": f"v={agent['agent']}+network.core.kwargs.heads=3+network.core.kwargs.gate.bias=none"}
    kwargs = {"heads": 3, "a-b": [1, None], "gate": {"bias": "none"}}
    assert resolve(None, variant, {}).network.core.kwargs == kwargs
    assert resolve(None, _OWN, {}).network.core.kwargs == {}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"network.core.kwargs": "{heads: 4}"},
            "network.core.kwargs is {'heads': 4} (from --network.core.kwargs), but ",
        ),
        (
            _OWN | {"network.core.kwargs": "{1: 4}"},
            "network.core.kwargs is '{1: 4}' (from --network.core.kwargs): must",
        ),
        (
            _OWN | {"network.core.kwargs": "4"},
            "network.core.kwargs is 4 (from --network.core.kwargs): must be a mapping",
        ),
        (
            _OWN | {"network.core.kwargs": "{a: .nan}"},
            "network.core.kwargs is '{a: .nan}' (from --network.core.kwargs): must be a mapping such as "
            "{length: 20}, from names to finite numbers, text",
        ),
        (
            _OWN | {"network.core.kwargs.a": ".nan"},
            "network.core.kwargs is {'a': nan} (from --network.core.kwargs): must be a mapping",
        ),
        (
            _OWN | {"network.core.kwargs": "{a: 4}", "network.core.kwargs.a": "3"},
            "network.core.kwargs.a is given twice",
        ),
        (_OWN | {"network.core.kwargs.": "3"}, "network.core.kwargs. is not a setting"),
        (_OWN | {"network.width.heads": "3"}, "network.width.heads is not a setting"),
        (
            {"task.kwargs": "{1: 4}"},
            "task.kwargs is '{1: 4}' (from --task.kwargs): must be a mapping such as",
        ),
    ],
)
def test_settings_of_ones_own_that_are_wrong_are_one_line(flags, message):
    assert error_of(flags).startswith(message)


@pytest.mark.parametrize(
    ("below", "flags", "kwargs"),
    [
        (
            {"network.core.kwargs": {"heads": 4, "a-b": 1}},
            {"network.core.kwargs.heads": "2"},
            {"heads": 2, "a-b": 1},
        ),
        (
            {"network.core.kwargs": {"heads": 4, "a-b": 1}},
            {"network.core.kwargs.a-b": "0.5"},
            {"heads": 4, "a-b": 0.5},
        ),
        ({"network.core.kwargs.heads": 4}, {"network.core.kwargs": "{size: 1}"}, {"size": 1}),
        ({"network.core.kwargs.heads": 4}, {"network.core.kwargs": "{}"}, {}),
        (
            {"network.core.kwargs": "{heads: 4}"},
            {"network.core.kwargs.size": "[1, 2]"},
            {"heads": 4, "size": [1, 2]},
        ),
        ({}, {"network.core.kwargs.file": "{a"}, {"file": "{a"}),
        (
            {},
            {"network.core.kwargs": "{heads: 4}", "network.core.kwargs.size": "true"},
            {"heads": 4, "size": True},
        ),
    ],
)
def test_one_setting_of_ones_own_is_laid_over_the_others(below, flags, kwargs):
    layer = Layer("below", flat(below))
    assert resolve(None, _OWN | flags, {}, below=[layer]).network.core.kwargs == kwargs


def test_a_mapping_given_as_text_is_written_as_text():
    """Read again it still replaces what is below, key for key."""
    below, long = Layer("below", flat({"network.core.kwargs": {"size": 1}})), "a long word " * 20
    values = nested({"network.core.kwargs": f"{{heads: 4, name: '{long}'}}", "learner.n_step": 3})
    again = Layer("again", flat(yaml.safe_load(yaml_of(values))))
    config = resolve(None, _OWN, {}, below=[below, again])
    assert config.network.core.kwargs == {"heads": 4, "name": long}
    assert config.learner.n_step == 3


def test_settings_of_ones_own_tell_runs_apart_and_leave_others_alone(own_folder):
    (own_folder / "my_own_core.py").write_text("")
    own = {"network.core": "my_own_core:make"}
    several = [own | {"network.core.kwargs": text} for text in ("{}", "{heads: 4}", "{heads: 2}")]
    hashes = [config_hash(resolve(None, flags, {})) for flags in (own, *several)]
    assert hashes[0] == hashes[1] and len(set(hashes)) == 3
    assert "core" not in deciding_settings(resolve(None, {}, {}))["network"]


def test_the_options_of_a_task_are_written_once():
    """Names, order, types, defaults, limits and words of `--task.*` are those of `envs.TaskOptions`."""
    options, kinds = dataclasses.fields(envs.TaskOptions), typing.get_type_hints(envs.TaskOptions)
    made = TaskConfig.model_fields
    assert list(made) == [option.name for option in options]
    for option in options:
        setting = made[option.name]
        assert (setting.annotation, setting.default) == (kinds[option.name], option.default)
        assert setting.description == option.metadata["description"]
    assert legal(made["frame_stack"]) == "an integer of at least 1 and at most 1000"
    assert envs.spec("hallway", **TaskConfig().model_dump()) == envs.spec("hallway")


@pytest.mark.parametrize(
    ("total", "period"), [(5, 1), (12_000, 1_000), (30_000, 2_500), (300_000, 25_000), (10**6, 25_000)]
)
def test_evaluations_come_a_dozen_times_in_a_short_run(total, period):
    config = resolve(None, {"total_env_steps": str(total)}, {})
    assert (config.evaluation.period, config.evaluation_period) == (None, period)
    given = resolve(None, {"total_env_steps": str(total), "evaluation.period": "700"}, {})
    assert given.evaluation_period == 700


def test_a_period_of_25_000_env_steps_is_the_run_that_it_was_when_all_had_it():
    """It is left out of what tells runs apart, and another period is not."""
    for flags, told in (
        ({}, {}),
        ({"evaluation.episodes": "20"}, {"episodes": 20}),
        ({"total_env_steps": "12000", "evaluation.period": "25000"}, {}),
        ({"total_env_steps": "12000"}, {"period": 1000}),
    ):
        assert deciding_settings(resolve(None, flags, {})).get("evaluation", {}) == told
