"""Settings that do not go together, and those that nothing reads."""

import pytest

from dtqn.settings.config import Config, fields_of
from dtqn.settings.presets import resolve
from tests.settings.resolving import error_of

_BURN_IN = {"agent": "drqn", "replay.learn_burn_in": "true"}
_WINDOW = {"agent": "dtqn", "network.core.context_length": "4", "replay.learn_length": "2"}
_DTQN = {"network.encoder": "dtqn", "network.core": "lstm"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"network.width": "66", "network.core.num_heads": "4"}, "network.width is 66, not a multiple"),
        ({"warmup_env_steps": "500", "total_env_steps": "400"}, "warmup_env_steps is 500, above total_env"),
        (
            {
                "network.distribution": "categorical",
                "network.distribution.v_min": "3",
                "network.distribution.v_max": "3",
            },
            "network.distribution.v_min is 3.0, not below network.distribution.v_max 3.0",
        ),
        (
            {"learner.reward_scale": "25", "network.distribution": "categorical"},
            "learner.reward_scale is 25 with network.distribution.v_min -10 and network.distribution.v_max "
            "10: no atom reaches the return of a reward of 1; try network.distribution.v_max 25 and "
            "network.distribution.v_min -25",
        ),
        ({"cuda_graphs": "true", "device": "cpu"}, "cuda_graphs is true, but device is cpu; try false"),
        ({"cuda_graphs": "true", "agent": "coberl"}, "cuda_graphs is true, but learner.auxiliary_weight is "),
        ({"cuda_graphs": "true", "agent": "pqn"}, "cuda_graphs is true, but learner.batches is rollout"),
        (
            {"cuda_graphs": "true", "learner.optimizer": "radam"},
            "cuda_graphs is true, but learner.optimizer is radam, whose steps the host counts; try false",
        ),
        (_BURN_IN, "replay.learn_burn_in is true with replay.memory refreshed"),
        (
            _BURN_IN | {"replay.memory": "stored", "replay.priority_exponent": "0.5"},
            "replay.learn_burn_in is true with replay.priority_exponent 0.5",
        ),
        (
            _WINDOW | {"replay.burn_in_length": "2", "learner.n_step": "5"},
            "learner.n_step is 5, above network.core.context_length 4",
        ),
        (
            _DTQN | {"network.core.initial_weights": "chrono"},
            "network.core.initial_weights is chrono, but network.encoder",
        ),
        (
            {"actor.pool": "process", "actor.pool.num_workers": "33"},
            "actor.pool.num_workers is 33, above actor.num_envs",
        ),
        (
            {"agent": "dtqn", "learner.batches": "rollout"},
            "learner.batches is rollout, but network.core is dtqn, which re-reads a window at each",
        ),
        (
            {"agent": "pqn", "actor.num_envs": "12"},
            "learner.batches.minibatches is 16, not a divisor of actor.num_envs 12; try 12",
        ),
        (
            {"agent": "pqn", "learner.batches.minibatches": "12"},
            "learner.batches.minibatches is 12, not a divisor of actor.num_envs 32; try 8",
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
        "env": "bsuite-memory-len-2",  # four timesteps
        "replay.learn_length": "3",
        "replay.burn_in_length": "1",
        "learner.n_step": "9",
    }
    assert resolve(None, flags | {"network.core.context_length": "4"}, {}).learner.n_step == 9
    too_short = {"network.core.context_length": "3", "replay.burn_in_length": "0"}
    assert error_of(flags | too_short).startswith("learner.n_step is 9, above network.core.context_length 3")


_OF_REPLAY = {
    **dict.fromkeys(("replay.priority_exponent", "replay.importance_sampling_exponent"), "0.5"),
    "replay.capacity": "9000",
    **{"learner.n_step": "5", "replay.sequence_period": "9", "replay.learn_length": "9"},
}


@pytest.mark.parametrize(
    ("flags", "unread"),
    [
        ({"actor.epsilon_final": "0.2"}, {"actor.epsilon_final"}),
        ({"actor.epsilon_final": "0.2", "actor.num_envs": "1"}, set()),
        ({"agent": "dtqn", "replay.memory_dtype": "float32"}, {"replay.memory_dtype"}),
        ({"agent": "darqn", "network.core.skip_connections": "true"}, {"network.core.skip_connections"}),
        ({"agent": "darqn", "network.core.skip_connections": "true", "network.core.num_layers": "2"}, set()),
        (
            {"env": "hallway", "learner.target_update": "none", "learner.double_q": "false"},
            {"learner.double_q"},
        ),
        ({"agent": "pqn"} | _OF_REPLAY, set(_OF_REPLAY)),
        ({"agent": "pqn", "learner.returns": "n_step", "learner.n_step": "5"}, set()),
    ],
)
def test_a_setting_that_the_others_leave_unread_is_named(flags, unread):
    assert resolve(None, flags, {}).unread() == [name for name in fields_of() if name in unread]
    assert Config().unread() == []


def test_rules_about_the_stored_memory_are_asked_with_the_networks_own_window():
    """The suite's own cores are asked by their settings, and give what is asked of a built network."""
    config = resolve(None, {"network.core": "my:core", "replay.memory": "refreshed"}, {})
    assert not list(config.replay.memory_misfits(config, 3))
    assert next(config.replay.memory_misfits(config, 10**6)).startswith("replay.capacity is 500000")
    own = resolve(None, {}, {})
    assert not list(own.replay.memory_misfits(own, own.network.core.memory_window))


_LACKING = "which has no such setting; it is for "


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"agent": "lstm", "network.core.gate": "gru"},
            f"network.core.gate is gru (from --network.core.gate), but network.core is lstm, {_LACKING}"
            "gtrxl, coberl, dtqn",
        ),
        ({"learner.returns": "n_step", "learner.returns.q_lambda": "0.5"}, f"{_LACKING}peng, watkins"),
        ({"learner.target_update": "hard", "learner.target_update.rate": "0.1"}, f"{_LACKING}soft"),
        ({"learner.batches.epochs": "2"}, f"but learner.batches is replay, {_LACKING}rollout"),
        ({"agent": "darqn", "network.encoder.num_layers": "1"}, f"{_LACKING}default, module:name"),
        ({"agent": "x=lru+network.core.gate=gru"}, "(from agent x), but network.core is lru"),
    ],
)
def test_a_setting_of_something_else_is_refused_where_it_was_typed(flags, message):
    assert message in error_of(flags)


def test_each_is_used_where_it_applies_by_what_is_for_all_agents(tmp_path):
    file = tmp_path / "shared.yaml"
    file.write_text("network.core: {gate: output, num_layers: 3, context_length: 7}")
    core = resolve(file, {"agent": "lstm"}, {}).network.core
    assert (core.name, core.num_layers) == ("lstm", 3)
    assert resolve(file, {"agent": "gtrxl"}, {}).network.core.gate == "output"
    swept = {"network.core": "lstm", "network.core.gate": "output", "network.core.num_layers": "3"}
    assert resolve(None, swept, {"WANDB_SWEEP_ID": "x"}).network.core.num_layers == 3


def test_an_agents_own_settings_go_with_the_core_that_it_chose(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("network: {core: {gate: output, num_layers: 3}}")
    core = resolve(None, {"agent": str(file), "network.core": "lstm"}, {}).network.core
    assert (core.name, core.num_layers) == ("lstm", 3)
    file.write_text("network: {core: {name: lru, gate: output}}")
    message = f"network.core.gate is output (from {file}), but network.core is lru"
    assert error_of({"agent": str(file)}).startswith(message)
