"""Values as people write them, and those that a setting does not take."""

import pytest

from dtqn.settings.config import fields_of, settings_of
from dtqn.settings.presets import resolve
from dtqn.settings.values import legal, nearest
from tests.settings.resolving import error_of


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("learner.learning_rate", "3e-4", 3e-4),
        ("learner.learning-rate", "1e-5", 1e-5),
        ("learner.reward_scale", "1", 1.0),
        ("total_env_steps", "1e6", 1_000_000),
        ("total-env-steps", "2_000_000", 2_000_000),
        ("replay.capacity", "2.5e5", 250_000),
        ("task.time_limit", "none", None),
        ("task.time_limit", "Null", None),
        ("task.time_limit", "500", 500),
        ("network.core.gate_bias", "-1e-1", -0.1),
        ("network.dueling", "False", False),
        ("network.dueling", "true", True),
        ("cuda_graphs", "True", True),
        ("cuda_graphs", "false", False),
        ("cuda_graphs", "auto", "auto"),
    ],
)
def test_text_is_read_as_people_write_it(name, text, value):
    config = resolve(None, {name: text}, {})
    found = settings_of(config)[name.replace("-", "_")]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "value", "should"),
    [
        ("learner.learning_rate", "-1", "a number above 0"),
        ("learner.learning_rate", "fast", "a number above 0"),
        ("learner.learning_rate", "nan", "a number above 0"),
        ("learner.learning_rate", "inf", "a number above 0"),
        ("learner.reward_scale", ".inf", "auto, or a number above 0"),
        ("network.distribution.v_min", "-inf", "a number"),
        ("learner.learning_rate", True, "a number above 0"),
        ("learner.learning_rate", [1], "a number above 0"),
        ("learner.gamma", "1.01", "auto, or a number of at least 0 and at most 1"),
        ("learner.n_step", "0", "an integer of at least 1"),
        ("learner.n_step", "2.5", "an integer of at least 1"),
        ("learner.n_step", "1e400", "an integer of at least 1"),
        ("total_env_steps", "1e20", "an integer of at least 1 and at most 1e18"),
        ("total_env_steps", 10**18 + 1, "an integer of at least 1 and at most 1e18"),
        ("total_env_steps", -(10**20), "an integer of at least 1"),
        ("warmup_env_steps", "1e20", "an integer of at least 0 and at most 1e18, or none"),
        ("threads", "1e20", "auto, or an integer of at least 1 and at most 1e18"),
        ("network.width", "1e20", "an integer of at least 2 and at most 1000000"),
        ("learner.gamma", "1e20", "auto, or a number of at least 0 and at most 1"),
        ("seed", "1e20", "an integer of at least 0 and at most 1e18"),
        ("learner.n_step", None, "an integer of at least 1"),
        ("task.time_limit", "-5", "an integer of at least 1, or none"),
        ("network.dueling", "yes", "true or false"),
        ("network.dueling", 1, "true or false"),
        ("cuda_graphs", "tru", "one of auto, true, false; did you mean true?"),
        ("cuda_graphs", 1, "one of auto, true, false"),
        (
            "network.core.gate",
            "gruu",
            "one of gru, output, input, highway, sigtanh, residual; did you mean gru?",
        ),
        ("env", 5, "text"),
        ("seed", "-1", "an integer of at least 0"),
        ("stop_at_success", "1.5", "a number above 0 and at most 1, or none"),
    ],
)
def test_a_bad_value_is_named_with_its_source_and_what_is_right(name, value, should):
    message = error_of({"network.distribution": "categorical", name: value})
    flag = name if "." in name else name.replace("_", "-")
    assert message.startswith(f"{name} is {value}")
    assert f"(from --{flag})" in message
    assert message.endswith(f"must be {should}")


def test_an_integer_of_hundreds_of_digits_is_beyond_the_limit():
    assert legal(fields_of()["total_env_steps"], 10**400) == "an integer of at least 1 and at most 1e18"
    assert legal(fields_of()["total_env_steps"], -(10**400)) == "an integer of at least 1"
    assert resolve(None, {"total_env_steps": 10**18}, {}).total_env_steps == 10**18, "what is told is legal"


def test_nearest_names():
    assert nearest("n_step", ["learner.n_step", "learner.gamma"]) == "; did you mean learner.n_step?"
    assert nearest("zzz", ["a", "b"]) == "; known: a, b"
    assert nearest("zzz", map(str, range(100))) == ""
