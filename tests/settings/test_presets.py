"""Presets, files, agents and flags: their order, what they hold, and what is refused."""

import typing

import gymnasium
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import envs
from dtqn.settings import layers, presets
from dtqn.settings.config import Config, ConfigError, choices_of, fields_of, settings_of
from dtqn.settings.layers import Layer, flat, nested, read_yaml
from dtqn.settings.presets import resolve
from tests.settings.resolving import error_of


@pytest.mark.parametrize(
    ("content", "unknown", "near"),
    [
        ("learner: {learning_rat: 1}", "learner.learning_rat", "learner.learning_rate"),
        ("learning_rate: 1", "learning_rate", "learner.learning_rate"),
        ("network: {memory_len: 1}", "network.memory_len", "network.core.memory_length"),
        ("network.memory-len: 1", "network.memory_len", "network.core.memory_length"),
        ("total_steps: 1", "total_steps", "total_env_steps"),
        ("lerner: {n_step: 1}", "lerner", "learner"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest(tmp_path, content, unknown, near):
    file = tmp_path / "my.yaml"
    file.write_text(content)
    assert error_of({}, file) == f"{unknown} is not a setting (from {file}); did you mean {near}?"


@pytest.fixture
def configs(tmp_path, monkeypatch):
    """A folder of presets in place of the shipped one."""
    monkeypatch.setattr(presets, "CONFIGS", tmp_path / "configs")
    presets.recipe.cache_clear()
    yield tmp_path / "configs"
    presets.recipe.cache_clear()


def test_layers_in_their_order(tmp_path, configs):
    for name, content in [
        ("recipe", "learner: {n_step: 1, batch_size: 1, max_grad_norm: 7}"),
        ("agents/gtrxl", "learner: {n_step: 2, batch_size: 2}\nreplay: {learn_length: 2, capacity: 20000}"),
        ("envs/gridverse", "learner: {n_step: 9, returns: peng, q_lambda: 0.3}"),
        ("envs/gridverse-memory", "learner: {n_step: 3}\nreplay: {learn_length: 3}"),
        ("envs/gridverse-memory-7", "learner: {n_step: 9}"),
    ]:
        (configs / name).parent.mkdir(parents=True, exist_ok=True)
        (configs / f"{name}.yaml").write_text(content)
    file = tmp_path / "mine.yaml"
    file.write_text("replay: {learn_length: 4, burn_in_length: 4}\nlearner.gamma: 0.4\nwandb: online")
    config = resolve(file, {"replay.burn-in-length": "5"}, {"WANDB_MODE": "offline"})
    assert config.learner.max_grad_norm == 7, "the recipe"
    assert config.learner.batches.size == 2, "agent preset over the recipe"
    assert config.learner.n_step == 3, "env preset over agent preset, the longest name that ends at a dash"
    assert config.learner.returns.q_lambda == 0.3, "the shorter name below it"
    assert (config.replay.learn_length, config.learner.gamma) == (4, 0.4), "file over presets"
    assert config.wandb == "offline", "WANDB_MODE over the file"
    assert config.replay.burn_in_length == 5, "flags over all"
    assert config.network == Config().network


@pytest.mark.parametrize(
    ("mode", "flags", "wandb"),
    [
        ("", {}, "auto"),
        ("dryrun", {}, "offline"),
        ("run", {}, "online"),
        ("DISABLED", {}, "disabled"),
        ("disabled", {"wandb": "offline"}, "offline"),
        ("disabled", {"wandb": "auto"}, "auto"),
    ],
)
def test_wandb_mode_counts_unless_the_flag_is_given(mode, flags, wandb):
    assert resolve(None, flags, {"WANDB_MODE": mode}).wandb == wandb
    assert error_of({}, environment={"WANDB_MODE": "onlin"}).startswith("wandb is onlin (from WANDB_MODE)")


def test_the_file_chooses_the_presets_unless_a_flag_does(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("agent: gtrx")
    assert f"agent is gtrx (from {file}): gtrx is not an agent; did you mean gtrxl?" in error_of({}, file)
    assert resolve(file, {"agent": "gtrxl"}, {}).agent == "gtrxl"


_DEEP = "learner: " + "{a: " * 60 + "1" + "}" * 60


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- 1\n- 2\n", "config is {}: holds a list"),
        (b"just words", "config is {}: holds a str"),
        (b"\x80\x81\x00\xff", "config is {}: is not a YAML file"),
        (b"a: [1", "config is {}: is not a YAML file (line"),
        (b"a: !!python/object/apply:os.system [ls]", "config is {}: is not a YAML file"),
        (None, "config is {}: there is no such file"),
        (b"seed: 1\nlearner: {n_step: 2}\nseed: 2", "config is {}: line 3: seed is given twice"),
        (b"learner:\n  n_step: 2\n  gamma: 0.9\n  n_step: 3", "config is {}: line 4: n_step is given twice"),
        (b"learner.n_step: 2\nlearner: {n_step: 3}", "config is {}: learner.n_step is given twice"),
        (b"learner: {n_step: 2, n-step: 3}", "config is {}: learner.n_step is given twice"),
        (b"seed: !!int x", "config is {}: line 1: 'x' is no int"),
        (b"a: &a [1]\nb: [*a, *a]", "config is {}: line 2: aliases (*name) are not read; write the"),
        (_DEEP.encode(), "config is {}: line 1: more than 50 collections inside each other"),
        (b"seed: 2020-01-31", "seed is 2020-01-31 (from {}): must be an integer of at least 0"),
        (b"seed: 2020-99-99", "seed is 2020-99-99 (from {}): must be an integer of at least 0"),
        (b"a.b.c.d: 1", "a is not a setting (from {})"),
        (b"? !!int 3\n: 4", "3 is not a setting (from {})"),
        (b"learner: [1]", "learner is [1] (from {}): must be a group of settings"),
        (b"env: CartPole-v1\nlearner: horizon", "learner is horizon (from {}): must be a group of settings"),
        (b"learner: 5\nlearner.n_step: 2", "learner is 5 (from {}): must be a group of settings"),
        (b"seed: [1, {a: b}]", "seed is [1, {{'a': 'b'}}] (from {}): must be an integer of at least 0"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(tmp_path, content, message):
    file = tmp_path / "mine.yaml"
    if content is not None:
        file.write_bytes(content)
    assert error_of({}, file).startswith(message.format(file))


def test_empty_files_and_groups_change_nothing(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("learner:\n  # n_step: 3\n")
    assert resolve(file, {}, {}) == resolve(None, {}, {})
    file.write_text("# nothing")
    assert read_yaml(file) == {}


def test_dots_dashes_and_nesting_are_alike():
    spelled = {"learner.n-step": 1, "learner": {"gamma": 2, "target-update": 3}, "total-env-steps": 4}
    learner = {"n_step": 1, "gamma": 2, "target_update": {"name": 3}}
    assert nested(spelled) == {"learner": learner, "total_env_steps": 4}


@pytest.mark.parametrize(
    "written",
    [
        "network.core: lstm\nnetwork.core.num_layers: 3",
        "network: {core: {name: lstm, num_layers: 3}}",
        "network: {core: lstm, core.num-layers: 3}",
        "network: {core: lstm, num_layers: 3}",
    ],
)
def test_what_is_chosen_and_its_settings_are_spelled_alike(written):
    """The last as before choices had settings of their own."""
    assert nested(yaml.safe_load(written)) == {"network": {"core": {"name": "lstm", "num_layers": 3}}}


def _values(field):
    low = next((getattr(m, "ge", getattr(m, "gt", None)) for m in field.metadata), None)
    kinds = set(typing.get_args(field.annotation)) or {field.annotation}
    if float in kinds:
        return st.floats(max(low or 0.0, 1e-6), 0.999)
    if int in kinds:
        return st.integers(max(low or 0, 1), 10**6)
    return st.booleans() if bool in kinds else st.sampled_from(sorted(kinds - {type(None)}, key=str))


# Those that some value of another setting contradicts are left out.
_BOUND = {"learner.next_window", "learner.auxiliary_weight"}
_FREE = [
    n
    for n in fields_of()
    if n.startswith(("learner.", "actor.exploration.", "actor.epsilon", "evaluation."))
    and n not in _BOUND
    and n in settings_of(Config())
    and n not in choices_of()
]


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_any_legal_settings_survive_yaml_and_flags(data):
    chosen = {
        name: data.draw(_values(fields_of()[name]), name)
        for name in data.draw(st.sets(st.sampled_from(_FREE)))
    }
    if chosen.get("learner.n_step", 0) > 100:
        del chosen["learner.n_step"]
    typed = layers.build([Layer("a", flat(chosen))])
    assert layers.build([Layer(None, flat({name: str(value) for name, value in chosen.items()}))]) == typed
    assert layers.build([Layer("b", flat(yaml.safe_load(layers.to_yaml(typed))))]) == typed


def _presets(folder):
    return sorted((layers.CONFIGS / folder).glob("*.yaml"))


@pytest.mark.parametrize("path", [*_presets("envs"), *_presets("families")], ids=lambda path: path.stem)
def test_every_agent_has_settings_for_the_tasks_of_every_file(path):
    """A family's file is given by `--config`, and not to published agents."""
    ids = [*envs.ids(), "ALE/Pong-v5", "MiniGrid-MemoryS7-v0"]
    of_family = [id for id in ids if id.startswith(path.stem)]
    assert of_family
    file = path if path.parent.name == "families" else None
    for agent in presets.agents():
        if file and presets.find_agent(agent).over_task:
            continue
        for env in of_family:
            config = resolve(file, {"agent": agent, "env": env}, {})
            assert (config.agent, config.env) == (agent, env)


@pytest.mark.parametrize(
    ("env", "files"),
    [
        ("MiniGrid-MemoryS7-v0", ["MiniGrid"]),
        ("MiniGridworld-v0", []),
        ("ALEX-v0", []),
        ("ALE/Pong-v5", ["ALE"]),
        ("my-MiniGrid-MemoryS7-v0", []),
        ("ALE:Corridor", []),  # of a user's own module, however it is called
    ],
)
def test_the_presets_of_a_task_begin_its_name_up_to_the_end_of_a_word(env, files):
    expected = [presets.Shared.of_file(layers.CONFIGS / f"envs/{file}.yaml") for file in files]
    assert presets._env_presets(env) == expected


@pytest.mark.parametrize("agent", [path.stem for path in _presets("agents")])
def test_the_recipe_is_every_agents_but_the_published_ones(agent):
    is_published = agent.endswith("-paper") or agent in ("pqn", "r2d2")
    found = settings_of(resolve(None, {"agent": agent, "env": "CartPole-v1"}, {}))
    below = settings_of(layers.build([presets.recipe()] if not is_published else []))
    own = presets.find_agent(agent).preset.values
    names = presets.recipe().values.keys() & found.keys() & below.keys() - own.keys()
    assert {name: found[name] for name in names} == {name: below[name] for name in names}
    assert is_published or names


def test_the_usual_settings_are_those_of_a_run_for_which_nothing_is_set():
    config = resolve(None, {}, {})
    usual = {name: presets.usual(name) for name in settings_of(config)}
    named = {name: getattr(value, "name", value) for name, value in usual.items()}
    assert layers.build([Layer("usual", named)]) == config


@pytest.mark.parametrize(
    ("env", "timesteps"), [("t-maze-passive-9", 11), ("t-maze-active-9", 13), ("memory-cards-3", 31)]
)
@pytest.mark.parametrize("agent", ["gtrxl", "dtqn", "attn", "lstm"])
def test_agents_have_whole_episodes_where_the_task_fixes_their_length(env, timesteps, agent):
    config = resolve(None, {"env": env, "agent": agent}, {})
    core, reads_window = config.network.core, agent in ("dtqn", "attn")
    assert (core.context_length if reads_window else core.memory_length) == timesteps
    assert config.replay.learn_length == config.replay.period == timesteps
    assert config.replay.burn_in_length == 0 or not reads_window


_MADE = []


def own_task():
    _MADE.append(gymnasium.make("CartPole-v1"))
    return _MADE[-1]


def test_a_setting_may_have_a_value_for_tasks_of_a_fixed_length_and_another_one():
    below = [Layer("own.yaml", {"replay.learn_length": "horizon or 7", "replay.burn_in_length": "0 or 5"})]
    own = f"{__name__}:own_task"
    for env, lengths in (("t-maze-passive-9", (11, 0)), ("CartPole-v1", (7, 5)), (own, (7, 5))):
        replay = resolve(None, {"env": env}, {}, below=below).replay
        assert (replay.learn_length, replay.burn_in_length) == lengths
    assert not _MADE, "a user's task is not made before its run"


def test_the_horizon_of_a_task_without_one_is_one_line_unless_a_flag_gives_a_number():
    below = [Layer("own.yaml", flat({"network.core.memory_length": "horizon"}))]
    with pytest.raises(ConfigError) as error:
        resolve(None, {"env": "CartPole-v1"}, {}, below=below)
    assert str(error.value) == (
        "network.core.memory_length is horizon (from own.yaml), but CartPole-v1 has no fixed "
        "episode length: must be an integer of at least 0 and at most 1000000"
    )
    given = {"env": "CartPole-v1", "network.core.memory_length": "7"}
    assert resolve(None, given, {}, below=below).network.core.memory_length == 7


def test_a_flag_may_name_the_horizon():
    config = resolve(None, {"env": "t-maze-passive-9", "network.core.memory_length": "horizon"}, {})
    assert config.network.core.memory_length == 11
    for limit in ("20", "20.0", "2e1", 20, 20.0):
        longer = {
            "env": "t-maze-passive-9",
            "task.time_limit": limit,
            "network.core.memory_length": "horizon",
        }
        length = resolve(None, longer, {}).network.core.memory_length
        assert length == envs.spec("t-maze-passive-9", time_limit=20).horizon


def test_a_wrong_group_is_named_with_its_own_source(tmp_path):
    """The recipe has settings of that group too."""
    (tmp_path / "mine.yaml").write_text("network: [1]")
    file = str(tmp_path / "mine.yaml")
    assert error_of({"agent": file}) == f"network is [1] (from {file}): must be a group of settings"


def test_a_users_own_words_are_left_as_they_are():
    below = [Layer("own.yaml", {"task.kwargs": {"mode": "horizon"}})]
    assert resolve(None, {"env": "t-maze-passive-9"}, {}, below=below).task.kwargs == {"mode": "horizon"}


@pytest.mark.parametrize("agent", [path.stem for path in _presets("agents")])
@pytest.mark.parametrize("env", ["gridverse-memory-7x7", "t-maze-passive-10", "ALE/Pong-v5"])
def test_a_preset_sets_little_that_is_not_read(agent, env):
    """Only dtqn-paper does: gates that are shared and start without bias, were the gate gru."""
    config = resolve(None, {"agent": agent, "env": env}, {})
    named = {"network.core.gate_bias", "network.core.share_gates"} if agent == "dtqn-paper" else set()
    assert set(config.unread()) == named
    assert presets.unread(config) == [], "and nobody is warned of it"


def test_a_setting_that_its_preset_sets_otherwise_is_warned_of():
    config = resolve(None, {"agent": "dtqn-paper", "network.core.gate_bias": "3"}, {})
    assert presets.unread(config) == ["network.core.gate_bias"]
    of_a_user = config.model_copy(update={"agent": "mine"})
    assert presets.unread(of_a_user) == ["network.core.gate_bias", "network.core.share_gates"]


def _agents(tmp_path):
    """Files of a user's: an agent, and one that is named as a shipped preset."""
    for name in ("my", "gtrxl"):
        (tmp_path / f"{name}.yaml").write_text("network: {core: {name: mingru, memory_length: 9}}")
    (tmp_path / "with-seed.yaml").write_text("seed: 3")
    (tmp_path / "with-agents.yaml").write_text("agents: {drqn: {learner: {n_step: 5}}}")
    return tmp_path


def test_an_agent_of_a_users_file(tmp_path):
    config = resolve(None, {"agent": f"{_agents(tmp_path)}/my.yaml", "env": "t-maze-passive-9"}, {})
    assert (config.agent, config.network.core.name) == ("my", "mingru")
    assert config.network.core.memory_length == 9, "it lies over the recipe"
    config = resolve(None, {"agent": f"mine={tmp_path}/gtrxl.yaml"}, {})
    assert (config.agent, config.network.core.memory_length) == ("mine", 9)


def test_an_agent_file_may_lie_over_the_tasks_preset(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("{over_task: true, replay: {capacity: 9000}, learner: {gamma: 0.9}}")
    config = resolve(None, {"agent": str(file), "env": "ALE/Pong-v5", "learner.gamma": "0.8"}, {})
    assert (config.replay.capacity, config.learner.gamma) == (9000, 0.8), "a flag lies over both"
    assert config.task.resize == 84, "the task's, where the agent says nothing"
    file.write_text("over_task: maybe")
    assert error_of({"agent": str(file)}).endswith(f"{file}: over_task is maybe: must be true or false")


@pytest.mark.parametrize(("over_task", "gamma", "n_step"), [(False, 0.7, 2), (True, 0.9, 9)])
def test_a_suites_settings_change_nothing_of_a_published_agent(tmp_path, over_task, gamma, n_step):
    """`--config` may. All that the agent says nothing of is the suite's, for whatever agent."""
    file, agent = tmp_path / "all.yaml", tmp_path / "mine.yaml"
    file.write_text("{learner: {n_step: 9}, network: {memory_length: 5}}")
    agent.write_text(yaml.safe_dump({"over_task": over_task, "learner": {"gamma": 0.9, "n_step": 8}}))
    of_suite = {"learner.gamma": 0.7, "learner.n_step": 2, "network.core.memory_length": "horizon"}
    suite = [Layer("s", flat(of_suite))]
    budget = [Layer("s", {"total_env_steps": 4000, "warmup_env_steps": 40})]
    flags = {"agent": str(agent), "env": "t-maze-passive-20"}
    config = resolve(file, flags, {}, below=budget, suite=suite)
    assert (config.learner.gamma, config.learner.n_step) == (gamma, n_step)
    assert config.network.core.memory_length == 22
    assert (config.total_env_steps, config.warmup_env_steps) == (4000, 40)
    config = resolve(file, {**flags, "learner.gamma": "0.5"}, {}, below=budget, suite=suite)
    assert config.learner.gamma == 0.5


def test_a_variant_is_its_base_with_a_few_settings_that_win(tmp_path):
    flags = {"env": "t-maze-passive-9", "network.core.memory_length": "5", "network.width": "32"}
    base = resolve(None, flags | {"agent": "gtrxl"}, {})
    assert base.network.core.memory_length == 5
    variant = (
        "long=gtrxl+network.core.memory_length=80+learner.learning_rate=1e+3+network.core.gate_bias=-1e-1"
    )
    config = resolve(None, flags | {"agent": variant}, {})
    found, before = settings_of(config), settings_of(base)
    assert {name: value for name, value in found.items() if value != before[name]} == {
        "agent": "long",
        "network.core.memory_length": 80,
        "learner.learning_rate": 1000.0,
        "network.core.gate_bias": -0.1,
    }
    of_file = resolve(None, {"agent": f"wide={_agents(tmp_path)}/my.yaml+network.width=128"}, {})
    assert (of_file.agent, of_file.network.core.name, of_file.network.width) == ("wide", "mingru", 128)


def test_a_shipped_file_is_found_where_there_is_no_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "configs/agents/lru.yaml"
    assert resolve(None, {"agent": f"mine={name}"}, {}).network.core.name == "lru"
    (tmp_path / "configs/agents").mkdir(parents=True)
    (tmp_path / name).write_text("network: {core: gru}")
    assert resolve(None, {"agent": f"mine={name}"}, {}).network.core.name == "gru"


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("absent.yaml", "absent.yaml: there is no such file"),
        ("./gtrxl.yaml", "gtrxl is the name of a shipped agent; write my-gtrxl=./gtrxl.yaml"),
        ("gtrxl=dqn", "gtrxl is the name of a shipped agent; write my-gtrxl=dqn"),
        ("dqn=gtrxl+seed=1", "dqn is the name of a shipped agent; write my-dqn=gtrxl+seed=1"),
        ("random=gtrxl", "random is the name of random actions; write my-random=gtrxl"),
        ("gtrxl+network.width=32", "gtrxl+network.width=32 has no name; write NAME=gtrxl+network.width=32"),
        ("a=gtrxl+seed", "a=gtrxl+seed: seed has no value; write seed=VALUE"),
        ("a=with-seed.yaml+seed", "a=with-seed.yaml+seed: seed has no value; write seed=VALUE"),
        ("a/b=gtrxl", "a/b is not a name; use letters, digits, dots and dashes: NAME=gtrxl"),
        ("=gtrxl", "'' is not a name; use letters, digits, dots and dashes: NAME=gtrxl"),
        ("..=gtrxl", ".. is not a name; use letters, digits, dots and dashes: NAME=gtrxl"),
        ("_a=gtrxl", "_a is not a name; use letters, digits, dots and dashes: NAME=gtrxl"),
        ("a=gtrx+network.width=32", "gtrx is not an agent; did you mean gtrxl?"),
        ("a=gtrxl+network.width=32+network.width=64", "network.width is given twice"),
        ("a=gtrxl+seed=3", "agent a sets seed, which is not part of an agent; leave it out"),
        ("with-seed.yaml", "with-seed.yaml sets seed, which is not part of an agent; leave it out"),
        ("with-agents.yaml", "with-agents.yaml sets agents, which is not part of an agent; leave it out"),
    ],
)
def test_a_mistake_in_an_agent_is_one_line(tmp_path, monkeypatch, agent, message):
    monkeypatch.chdir(_agents(tmp_path))
    assert error_of({"agent": agent}) == f"agent is {agent} (from --agent): {message}"


def test_a_mistake_in_a_variants_settings_names_the_variant():
    assert error_of({"agent": "a=gtrxl+network.wdth=32"}) == (
        "network.wdth is not a setting (from agent a); did you mean network.width?"
    )
    assert error_of({"agent": "a=gtrxl+network.width=-1"}) == (
        "network.width is -1 (from agent a): must be an integer of at least 2 and at most 1000000"
    )


def test_a_whole_configuration_needs_no_file_of_its_agent(tmp_path):
    """Nor does one of an older version, which lacks the settings that came later."""
    config = resolve(None, {"agent": "long=gtrxl+network.core.memory_length=80"}, {})
    file = tmp_path / "config.yaml"
    for text in (layers.to_yaml(config), layers.to_yaml(config).replace("  epsilon: 0.0\n", "")):
        file.write_text(text)
        assert resolve(file, {}, {}) == config
    assert "epsilon: 0.0" not in text
    assert resolve(file, {"seed": "3"}, {}) == config.model_copy(update={"seed": 3})
    assert "agent is lnog" in error_of({"agent": "lnog"}, file)
    assert error_of({"agent": "dqn"}, file).startswith("agent is dqn (from --agent), but ")


def test_a_files_settings_of_single_agents_lie_over_those_of_all(tmp_path):
    file = tmp_path / "all.yaml"
    own = {"gtrxl": {"learner": {"n_step": 7}, "network.width": 32}, "gated-deltanet": {"learner.n_step": 9}}
    file.write_text(yaml.safe_dump({"learner": {"n_step": 5}, "agents": own}))

    def chosen(agent, **flags):
        return resolve(file, {"agent": agent, **flags}, {})

    assert chosen("mingru").learner.n_step == 5
    gtrxl = chosen("gtrxl")
    assert (gtrxl.learner.n_step, gtrxl.network.width) == (7, 32)
    assert chosen("gated-deltanet").learner.n_step == 9
    # Variants are of the agent, and flags and a variant's own settings lie over all files.
    assert chosen("long=gtrxl+network.core.memory_length=80").learner.n_step == 7
    assert chosen("n=gtrxl+learner.n_step=2").learner.n_step == 2
    assert chosen("gtrxl", **{"learner.n_step": "2"}).learner.n_step == 2
    # A file of the user's has settings of its own.
    mine = tmp_path / "mine.yaml"
    mine.write_text("network: {core: gtrxl}\n")
    assert chosen(str(mine)).learner.n_step == 5


def test_a_tasks_preset_has_settings_of_single_agents(configs):
    """A task's file lies over the agent's, but for one with `over_task`."""
    own = {"one": {"learner": {"gamma": 0.9}}, "two": {"learner": {"gamma": 0.7}}}
    for name, content in (
        ("recipe", {"learner": {"gamma": 0.1}}),
        ("agents/one", {"network": {"core": "lstm"}}),
        ("agents/two", {"over_task": True, "learner": {"gamma": 0.5}}),
        ("envs/heavenhell", {"learner": {"gamma": 0.8}, "agents": own}),
    ):
        (configs / name).parent.mkdir(parents=True, exist_ok=True)
        (configs / f"{name}.yaml").write_text(yaml.safe_dump(content))

    def gamma(agent):
        return resolve(None, {"env": "heavenhell", "agent": agent}, {}).learner.gamma

    assert (gamma("one"), gamma("two"), gamma("three=one+network.width=32")) == (0.9, 0.5, 0.9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "config is {}: agents is 5: must be settings by the name of an agent, such as drqn: "),
        ("{drqnn: {seed: 1}}", "config is {}: agents: drqnn is not an agent; did you mean drqn?"),
        ("{drqn: 5}", "config is {}: agents.drqn is 5: must be a group of settings"),
        ("{drqn: {seed: 1}}", "config is {}, agents.drqn sets seed, which is not part of an agent"),
        ("{drqn: {task: {noise: 0.1}}}", "config is {}, agents.drqn sets task, which has to be the same"),
        ("{drqn: {learner: {nstep: 1}}}", "learner.nstep is not a setting (from {}, agents.drqn); did you"),
    ],
)
def test_a_mistake_in_settings_of_single_agents_is_one_line(tmp_path, text, message):
    file = tmp_path / "all.yaml"
    file.write_text(f"agents: {text}")
    assert error_of({"agent": "drqn"}, file).startswith(message.format(file))


@pytest.mark.parametrize("file", _presets("families"), ids=lambda path: path.stem)
def test_a_file_of_a_family_leaves_nothing_to_the_recipe(file):
    """Its figures were made before there was one."""
    missing = presets.recipe().values.keys() - layers.file_layer(file).values.keys()
    assert {name for name in missing if not name.startswith("learner.returns.")} == set()


_LENGTHS = {
    "gtrxl": (40, None, 4), "mingru": (80, 40, 4), "lstm": (80, 40, 40), "drqn": (80, 40, 40),
    "dtqn": (40, None, 40),
}  # fmt: skip


@pytest.mark.parametrize("family", ["gridverse-memory", "gridverse-memory-four-rooms", "heavenhell"])
@pytest.mark.parametrize(("agent", "lengths"), _LENGTHS.items(), ids=_LENGTHS)
def test_sequences_are_as_long_as_when_the_figures_of_a_family_were_made(family, agent, lengths):
    """By `run.py` at commit c9b8378, before there was a recipe."""
    file = layers.CONFIGS / f"families/{family}.yaml"
    env = next(id for id in envs.ids() if id.startswith(family))
    replay = resolve(file, {"agent": agent, "env": env}, {}).replay
    assert (replay.learn_length, replay.sequence_period, replay.burn_in_length) == lengths
