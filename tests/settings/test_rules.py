"""Settings that do not go together, and those that nothing reads."""

import pytest

from dtqn.settings import rules
from dtqn.settings.config import Config
from dtqn.settings.presets import resolve
from tests.settings.resolving import error_of


def test_sizes_that_contradict_each_other():
    message = error_of({"replay.capacity": "1000"})
    assert "replay.capacity is 1000" in message
    assert "replay.capacity from --replay.capacity" in message
    assert "try" in message
    assert "network.width is 66" in error_of({"network.width": "66", "network.num_heads": "4"})
    assert "; try 66" in error_of({"network.num_heads": "3"}), "an even multiple"
    assert "; try 70" in error_of({"network.width": "65", "network.num_heads": "5"})
    assert "replay.sequence_period is 41" in error_of(
        {"replay.sequence_period": "41", "replay.learn_length": "40"}
    )
    assert "warmup_env_steps is 500" in error_of({"warmup_env_steps": "500", "total_env_steps": "400"})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"network.v_min": "3", "network.v_max": "3"}, "network.v_min is 3.0, not below network.v_max 3.0"),
        (
            {"env": "hallway", "learner.novelty_centred": "true"},
            "learner.novelty_centred is true, but learner.novelty_weight and learner.repeat_cost are 0",
        ),
        (
            {"learner.policy": "target", "learner.target_update": "hard"},
            "learner.policy is target with learner.target_update hard",
        ),
        (
            {"learner.munchausen": "true", "learner.value_rescaling": "true"},
            "learner.munchausen is true with learner.value_rescaling true",
        ),
        (
            {
                "learner.munchausen": "true",
                "network.distribution": "categorical",
                "learner.returns": "n_step",
            },
            "learner.munchausen is true with network.distribution categorical",
        ),
        (
            {"learner.returns": "peng", "network.distribution": "quantile"},
            "learner.returns is peng with network.distribution quantile",
        ),
        (
            {"env": "t-maze-passive-50", "network.distribution": "categorical"},
            "learner.reward_scale is 25 with network.v_min -10 and network.v_max 10: no atom is the return "
            "of a single reward of 1; try network.v_max 25 and network.v_min -25",
        ),
        ({"cuda_graphs": "true", "device": "cpu"}, "cuda_graphs is true, but device is cpu; try false"),
        (
            {"cuda_graphs": "true", "agent": "coberl"},
            "cuda_graphs is true, but learner.auxiliary_weight is ",
        ),
        ({"cuda_graphs": "true", "agent": "pqn"}, "cuda_graphs is true, but learner.rollout_length is "),
        (
            {"cuda_graphs": "true", "learner.optimizer": "radam"},
            "cuda_graphs is true, but learner.optimizer is radam, whose steps the host counts; try false",
        ),
        (
            {"agent": "drqn", "replay.learn_burn_in": "true"},
            "replay.learn_burn_in is true with replay.memory refreshed",
        ),
        (
            {"agent": "drqn", "replay.learn_burn_in": "true", "replay.memory": "stored"},
            "replay.learn_burn_in is true with replay.initial_priority actor",
        ),
        (
            {
                "agent": "dtqn",
                "network.context_length": "4",
                "replay.learn_length": "2",
                "replay.burn_in_length": "2",
                "learner.n_step": "5",
            },
            "learner.n_step is 5, above network.context_length 4",
        ),
    ],
)
def test_options_that_have_no_meaning_together(flags, message):
    error = error_of(flags)
    assert error.startswith(message)
    assert "try" in error


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
    assert resolve(None, flags | {"network.context_length": "4"}, {}).learner.n_step == 9
    too_short = {"network.context_length": "3", "replay.burn_in_length": "0"}
    assert error_of(flags | too_short).startswith("learner.n_step is 9, above network.context_length 3")


def test_what_nothing_reads_is_told():
    assert Config().unread() == []
    given = {
        "learner": {"returns": "n_step", "q_lambda": 0.5, "munchausen_clip": 2.0, "huber_threshold": 2.0}
    }
    assert Config(**given).unread() == [
        "learner.q_lambda",
        "learner.munchausen_clip",
        "learner.huber_threshold",
    ]
    read = {"returns": "watkins", "munchausen": True, "loss": "huber"}
    assert Config(learner=given["learner"] | read).unread() == []
    quantile = {"distribution": "quantile", "num_quantiles": 8, "num_atoms": 21}
    huber = {"returns": "n_step", "loss": "huber", "huber_threshold": 0.1}
    assert Config(network=quantile, learner=huber).unread() == [
        "network.num_atoms",
        "learner.loss",
    ]
    assert Config(network={"num_quantiles": 8, "v_min": -1.0}).unread() == [
        "network.v_min",
        "network.num_quantiles",
    ]


@pytest.mark.parametrize(
    ("flags", "unread"),
    [
        ({"learner.target_update_period": "100"}, ["learner.target_update_period"]),
        ({"learner.target_update_period": "100", "learner.target_update": "hard"}, []),
        ({"learner.target_ema_rate": "0.1", "learner.target_update": "hard"}, ["learner.target_ema_rate"]),
        ({"actor.epsilon_final": "0.2"}, ["actor.epsilon_final"]),
        ({"actor.epsilon_final": "0.2", "actor.num_envs": "1"}, []),
        ({"replay.max_priority_weight": "0.5"}, []),
        (
            {"replay.max_priority_weight": "0.5", "replay.priority_exponent": "0"},
            ["replay.max_priority_weight"],
        ),
        ({"agent": "dtqn", "replay.trace_dtype": "float32"}, ["replay.trace_dtype"]),
        ({"agent": "darqn", "network.skip_connections": "true"}, ["network.skip_connections"]),
        ({"agent": "darqn", "network.skip_connections": "true", "network.num_layers": "2"}, []),
        ({"network.skip_connections": "true"}, ["network.skip_connections"]),
        (
            {"learner.final_learning_rate_share": "1", "learner.learning_rate_decay_start": "0.1"},
            ["learner.learning_rate_decay_start"],
        ),
        ({"learner.epochs": "2", "learner.minibatches": "8"}, ["learner.epochs", "learner.minibatches"]),
        (
            {"env": "hallway", "learner.target_update": "none", "learner.double_q": "false"},
            ["learner.double_q"],
        ),
        ({"network.encoder_norm": "false"}, ["network.encoder_norm"]),
        ({"network.encoder_norm": "false", "network.encoder_layers": "1"}, []),
        ({"agent": "darqn", "network.encoder_layers": "1"}, ["network.encoder_layers"]),
        (
            {
                "agent": "pqn",
                "learner.n_step": "5",
                "learner.batch_size": "8",
                "replay.capacity": "9000",
                "learner.env_steps_per_update": "9",
                "replay.learn_length": "9",
                "replay.sequence_period": "9",
                "replay.priority_exponent": "0.5",
                "replay.importance_sampling_exponent": "0.5",
                "replay.max_priority_weight": "0.5",
                "replay.initial_priority": "max",
                "learner.target_ema_rate": "0.5",
                "learner.target_update_period": "9",
            },
            [
                "learner.batch_size",
                "learner.n_step",
                "learner.target_ema_rate",
                "learner.target_update_period",
                "learner.env_steps_per_update",
                "replay.capacity",
                "replay.learn_length",
                "replay.sequence_period",
                "replay.priority_exponent",
                "replay.importance_sampling_exponent",
                "replay.max_priority_weight",
                "replay.initial_priority",
            ],
        ),
        ({"agent": "pqn", "learner.returns": "n_step", "learner.n_step": "5"}, ["learner.q_lambda"]),
    ],
)
def test_a_setting_that_the_others_leave_unread_is_named(flags, unread):
    assert resolve(None, flags, {}).unread() == unread


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"agent": "dtqn", "learner.rollout_length": "16"},
            "learner.rollout_length is 16, but network.core is dtqn, which reads a window for each step",
        ),
        (
            {"agent": "pqn", "actor.num_envs": "12"},
            "learner.minibatches is 16, no divisor of actor.num_envs 12; try 12",
        ),
        (
            {"agent": "pqn", "learner.minibatches": "12"},
            "learner.minibatches is 12, no divisor of actor.num_envs 32; try 8",
        ),
    ],
)
def test_a_rollout_that_cannot_be_is_one_line(flags, message):
    assert error_of(flags).startswith(message)


def test_rules_about_the_stored_memory_are_asked_with_the_networks_own_window():
    """The suite's own cores are asked by their settings, and give what is asked of a built network."""
    config = resolve(None, {"network.core": "my:core", "replay.memory": "refreshed"}, {})
    assert rules.memory_misfit(config, 3) is None
    assert (rules.memory_misfit(config, 10**6) or "").startswith("replay.capacity is 500000")
    own = resolve(None, {}, {})
    assert rules.memory_misfit(own, own.network.trace_window) is None
