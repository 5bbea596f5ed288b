"""Settings that do not go together, and those that nothing reads."""

import pytest

from dtqn.settings import rules
from dtqn.settings.config import Config, fields_of
from dtqn.settings.presets import resolve
from tests.settings.resolving import error_of

_BURN_IN = {"agent": "drqn", "replay.learn_burn_in": "true"}
_WINDOW = {"agent": "dtqn", "network.core.context_length": "4", "replay.learn_length": "2"}
_DTQN = {"network.encoder": "dtqn"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"network.width": "66", "network.core.num_heads": "4"}, "network.width is 66, not a multiple"),
        ({"replay.sequence_period": "41"}, "replay.sequence_period is 41, above replay.learn_length 40"),
        ({"warmup_env_steps": "500", "total_env_steps": "400"}, "warmup_env_steps is 500, above total_env"),
        (
            {"network.distribution.v_min": "3", "network.distribution.v_max": "3"},
            "network.distribution.v_min is 3.0, not below network.v_max 3.0",
        ),
        (
            {"env": "hallway", "learner.novelty_centred": "true"},
            "learner.novelty_centred is true, but learner.novelty_weight and learner.repeat_cost are 0",
        ),
        (
            {"learner.munchausen": "true", "learner.value_rescaling": "true"},
            "learner.munchausen is true with learner.value_rescaling true",
        ),
        (
            {"learner.munchausen": "true", "network.distribution": "categorical"},
            "learner.munchausen is true with network.distribution categorical",
        ),
        (
            {"env": "t-maze-passive-50", "network.distribution": "categorical"},
            "learner.reward_scale is 25 with network.v_min -10 and network.v_max 10: no atom is the return "
            "of a single reward of 1; try network.v_max 25 and network.v_min -25",
        ),
        ({"cuda_graphs": "true", "device": "cpu"}, "cuda_graphs is true, but device is cpu; try false"),
        ({"cuda_graphs": "true", "agent": "coberl"}, "cuda_graphs is true, but learner.auxiliary_weight is "),
        ({"cuda_graphs": "true", "agent": "pqn"}, "cuda_graphs is true, but learner.rollout_length is "),
        (
            {"cuda_graphs": "true", "learner.optimizer": "radam"},
            "cuda_graphs is true, but learner.optimizer is radam, whose steps the host counts; try false",
        ),
        (_BURN_IN, "replay.learn_burn_in is true with replay.memory refreshed"),
        (
            _BURN_IN | {"replay.memory": "stored"},
            "replay.learn_burn_in is true with replay.initial_priority actor",
        ),
        (
            _WINDOW | {"replay.burn_in_length": "2", "learner.n_step": "5"},
            "learner.n_step is 5, above network.context_length 4",
        ),
        (
            _DTQN | {"network.core.chrono_init": "true"},
            "network.core.chrono_init is true, but network.encoder",
        ),
        (
            _DTQN | {"network.encoder.use_prev_reward": "true"},
            "network.encoder.use_prev_reward is true, but network.enc",
        ),
        (
            {"actor.pool": "process", "actor.pool.num_workers": "33"},
            "actor.pool.num_workers is 33, above actor.num_envs",
        ),
        (
            {"agent": "dtqn", "learner.rollout_length": "16"},
            "learner.rollout_length is 16, but network.core is dtqn, which reads a window for each step",
        ),
        (
            {"agent": "pqn", "actor.num_envs": "12"},
            "learner.batches.minibatches is 16, no divisor of actor.num_envs 12; try 12",
        ),
        (
            {"agent": "pqn", "learner.batches.minibatches": "12"},
            "learner.batches.minibatches is 12, no divisor of actor.num_envs 32; try 8",
        ),
    ],
)
def test_options_that_have_no_meaning_together(flags, message):
    error = error_of(flags)
    assert error.startswith(message)
    assert "try" in error


def test_what_to_try_fits_and_the_sources_are_named():
    message = error_of({"replay.capacity": "1000"})
    assert (
        message.startswith("replay.capacity is 1000") and "replay.capacity from --replay.capacity" in message
    )
    assert "; try 66" in error_of({"network.core.num_heads": "3"}), "an even multiple"
    assert "; try 70" in error_of({"network.width": "65", "network.core.num_heads": "5"})


@pytest.mark.parametrize(
    ("flags", "records"),
    [
        ({}, True),
        ({"agent": "dtqn"}, True),
        ({"agent": "coberl"}, False),
        ({"agent": "pqn"}, False),
        ({"learner.optimizer": "radam"}, False),
        ({"device": "cpu"}, False),
        ({"network.core": "my:core"}, False),
        ({"network.encoder": "my:encoder"}, False),
        ({"network.core": "my:core", "cuda_graphs": "true"}, True),
        ({"cuda_graphs": "false"}, False),
    ],
)
def test_graphs_are_recorded_where_they_hold_the_run_for_certain(flags, records):
    assert resolve(None, flags, {}).records_graphs is records


def test_a_window_of_a_whole_episode_holds_any_bootstrap():
    flags = {
        "agent": "dtqn",
        "env": "bsuite-memory-len-2",  # four rows
        "replay.learn_length": "3",
        "replay.burn_in_length": "1",
        "learner.n_step": "9",
    }
    assert resolve(None, flags | {"network.core.context_length": "4"}, {}).learner.n_step == 9
    too_short = {"network.core.context_length": "3", "replay.burn_in_length": "0"}
    assert error_of(flags | too_short).startswith("learner.n_step is 9, above network.context_length 3")


_PLAIN = {"env": "hallway"}  # no preset of it sets any of these
_UNREAD = {"learner.returns.q_lambda": "0.5", "learner.bootstrap.clip": "2"}
_READ = {"learner.returns": "watkins", "learner.munchausen": "true"}
_ATOMS = {"network.distribution": "categorical", "network.distribution.num_atoms": "8"}
_OF_REPLAY = {
    **dict.fromkeys(
        ("learner.batches.size", "learner.batches.env_steps_per_update", "replay.learn_length"), "9"
    ),
    **dict.fromkeys(("replay.priority_exponent", "replay.importance_sampling_exponent"), "0.5"),
    **{"replay.max_priority_weight": "0.5", "replay.initial_priority": "max", "replay.capacity": "9000"},
    **{"learner.n_step": "5", "replay.sequence_period": "9"},
    **{"learner.target_update.rate": "0.5", "learner.target_update.period": "9"},
}


@pytest.mark.parametrize(
    ("flags", "unread"),
    [
        (_PLAIN | _UNREAD, set(_UNREAD)),
        (_PLAIN | _UNREAD | _READ, set()),
        (_PLAIN | _ATOMS | {"network.distribution.loss": "huber"}, {"network.distribution.loss"}),
        (
            _PLAIN
            | {
                "network.distribution.num_atoms": "8",
                "network.distribution.v_min": "-1",
                "network.distribution.loss": "huber",
            },
            {"network.distribution.num_atoms", "network.distribution.v_min"},
        ),
        ({"learner.target_update.period": "100"}, {"learner.target_update.period"}),
        ({"learner.target_update.period": "100", "learner.target_update": "hard"}, set()),
        (
            {"learner.target_update.rate": "0.1", "learner.target_update": "hard"},
            {"learner.target_update.rate"},
        ),
        ({"actor.epsilon_final": "0.2"}, {"actor.epsilon_final"}),
        ({"actor.epsilon_final": "0.2", "actor.num_envs": "1"}, set()),
        ({"replay.max_priority_weight": "0.5"}, set()),
        (
            {"replay.max_priority_weight": "0.5", "replay.priority_exponent": "0"},
            {"replay.max_priority_weight"},
        ),
        ({"agent": "dtqn", "replay.trace_dtype": "float32"}, {"replay.trace_dtype"}),
        ({"agent": "darqn", "network.core.skip_connections": "true"}, {"network.core.skip_connections"}),
        ({"agent": "darqn", "network.core.skip_connections": "true", "network.core.num_layers": "2"}, set()),
        ({"network.core.skip_connections": "true"}, {"network.core.skip_connections"}),
        (
            {"learner.final_learning_rate_share": "1", "learner.learning_rate_decay_start": "0.1"},
            {"learner.learning_rate_decay_start"},
        ),
        (
            {"learner.batches.epochs": "2", "learner.batches.minibatches": "8"},
            {"learner.batches.epochs", "learner.batches.minibatches"},
        ),
        (
            {"env": "hallway", "learner.target_update": "none", "learner.double_q": "false"},
            {"learner.double_q"},
        ),
        ({"network.encoder.norm": "false"}, {"network.encoder.norm"}),
        ({"network.encoder.norm": "false", "network.encoder.num_layers": "1"}, set()),
        ({"agent": "darqn", "network.encoder.num_layers": "1"}, {"network.encoder.num_layers"}),
        ({"agent": "pqn"} | _OF_REPLAY, set(_OF_REPLAY)),
        ({"agent": "pqn", "learner.returns": "n_step", "learner.n_step": "5"}, {"learner.returns.q_lambda"}),
    ],
)
def test_a_setting_that_the_others_leave_unread_is_named(flags, unread):
    assert resolve(None, flags, {}).unread() == [name for name in fields_of() if name in unread]
    assert Config().unread() == []


def test_rules_about_the_stored_memory_are_asked_with_the_networks_own_window():
    """The suite's own cores are asked by their settings, and give what is asked of a built network."""
    config = resolve(None, {"network.core": "my:core", "replay.memory": "refreshed"}, {})
    assert rules.memory_misfit(config, 3) is None
    assert (rules.memory_misfit(config, 10**6) or "").startswith("replay.capacity is 500000")
    own = resolve(None, {}, {})
    assert rules.memory_misfit(own, own.network.trace_window) is None
