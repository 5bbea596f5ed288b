"""A task's digest changes with what the task consists of, and with nothing else."""

from __future__ import annotations

import importlib.util
import sys

import pytest

import envs
from envs import identity

TASK = """
import gymnasium
import numpy as np
{imports}

class Guess(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.cue = 0, int(self.np_random.integers(2))
        return self.cue, {{}}

    def step(self, action):
        self.t += 1
        return 0, float(action == self.cue) * {reward}, self.t == 3, False, {{}}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_module_and_what_it_imports(folder):
    (folder / "identity_helpers").mkdir()
    (folder / "identity_helpers/__init__.py").write_text("")
    (folder / "identity_helpers/size.py").write_text("from .other import WIDTH\nSIZE = WIDTH")
    (folder / "identity_helpers/other.py").write_text("WIDTH = 2")
    (folder / "identity_beside.py").write_text("NOTHING = 1")
    source = TASK.format(imports="from identity_helpers import size", reward=1)
    file = folder / "identity_guess.py"
    file.write_text(source)
    first = envs.identify("identity_guess:Guess")
    assert not first.is_native
    assert first.made_of.startswith("module identity_guess, ")
    assert "identity_helpers.other" in first.made_of and "numpy" not in first.made_of
    (folder / "identity_beside.py").write_text("NOTHING = 2")
    assert envs.identify("identity_guess:Guess") == first
    seen = {first.digest}
    for path, text in [
        (file, source.replace("* 1", "* 2")),
        (folder / "identity_helpers/size.py", "from .other import WIDTH\nSIZE = WIDTH + 1"),
        (folder / "identity_helpers/other.py", "WIDTH = 3"),
        (folder / "identity_helpers/__init__.py", "X = 1"),
    ]:
        before = path.read_text()
        path.write_text(text)
        seen.add(envs.identify("identity_guess:Guess").digest)
        path.write_text(before)
    assert len(seen) == 5
    assert envs.identify("identity_guess:Guess") == first


@pytest.mark.parametrize("prefix", ["pomdp:", "gridverse:"])
def test_a_file(tmp_path, prefix):
    file = tmp_path / "task"
    file.write_text("discount: 0.9")
    id = f"{prefix}{file}"
    first = envs.identify(id)
    assert (first.made_of, first.is_native) == ("task", False)
    file.write_bytes(file.read_bytes())
    assert envs.identify(id) == first
    file.write_bytes(file.read_bytes() + b" ")
    assert envs.identify(id).digest != first.digest
    file.unlink()
    with pytest.raises(ValueError, match=r"task: No such file"):
        envs.identify(id)


def test_functions_that_a_gridverse_file_names_are_parts_where_the_package_calls_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "named_in_a_world.py"
    module.write_text("def f(): return 1\n")
    (tmp_path / "w.yaml").write_text("reward_functions: [{name: named_in_a_world:f}]")
    for backend, counts in (("gym-gridverse", True), ("native", False)):
        module.write_text("def f(): return 1\n")
        first = envs.identify("gridverse:w.yaml", backend=backend)
        module.write_text("def f(): return 2\n")
        assert (envs.identify("gridverse:w.yaml", backend=backend).digest != first.digest) == counts
        assert ("module named_in_a_world" in first.made_of) == counts


def test_tasks_of_this_suite(monkeypatch):
    ids = [*envs.ids(), "t-maze-passive-1234", "heavenhell-7"]
    found = {id: envs.identify(id) for id in ids}
    assert all(one.is_native for one in found.values())
    assert len({one.digest for one in found.values()}) == len(ids)
    id = "gridverse-memory-7x7"
    assert (
        envs.identify(id, time_limit=None, frame_stack=1).digest
        == found[id].digest
        != envs.identify(id, time_limit=9).digest
    )
    monkeypatch.setattr(identity, "DYNAMICS_VERSION", identity.DYNAMICS_VERSION + 1)
    assert all(envs.identify(id).digest != found[id].digest for id in ids)


def test_tasks_of_gymnasium(monkeypatch):
    """Gymnasium's version is no part, as it changes more often than its tasks do; their source is."""
    made_of = "module gymnasium.envs.classic_control.cartpole"
    assert envs.identify("CartPole-v1").made_of == made_of
    assert envs.identify("CartPole-v1").digest != envs.identify("CartPole-v0").digest


@pytest.mark.parametrize("name", ["site-packages", "target"])
def test_a_package_is_the_same_wherever_it_is_installed(tmp_path, monkeypatch, name):
    """As by `pip install --target DIR`; its modules were taken for a user's own, so its tasks for others."""
    package, kept = tmp_path / name / "identity_wheel", tmp_path / name / "identity_wheel-1.2.dist-info"
    for folder in (package, kept):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text(TASK.format(imports="from identity_wheel import size", reward=1))
    (package / "size.py").write_text("")
    (kept / "METADATA").write_text("Metadata-Version: 2.1\nName: identity-wheel\nVersion: 1.2\n")
    (kept / "RECORD").write_text("identity_wheel/__init__.py,,\nidentity_wheel/size.py,,\n")
    monkeypatch.syspath_prepend(tmp_path / name)
    identity._installed_elsewhere.cache_clear()
    identity._distributions.cache_clear()
    try:
        found = envs.identify("identity_wheel:Guess")
    finally:
        identity._installed_elsewhere.cache_clear()
        identity._distributions.cache_clear()
        sys.modules.pop("identity_wheel", None)
    assert found.made_of == "identity-wheel 1.2, module identity_wheel"


def test_the_version_of_an_installed_package(monkeypatch):
    """`yaml` stands for a package with tasks, and for what `gym_gridverse` is where it is installed."""
    version = "1"
    monkeypatch.setattr(identity.importlib.metadata, "version", lambda name: version)
    monkeypatch.setattr(identity, "_distributions", lambda: {"yaml": ["PyYAML"], "gym_gridverse": ["gym-gv"]})
    first = envs.identify("yaml:SafeLoader")
    assert first.made_of == "PyYAML 1, module yaml"
    spec = importlib.util.find_spec("yaml")
    real = importlib.util.find_spec
    monkeypatch.setattr(
        identity.importlib.util, "find_spec", lambda name: spec if name == "gym_gridverse" else real(name)
    )
    backend = envs.identify("gridverse-memory-7x7", backend="gym-gridverse")
    assert (backend.made_of, backend.is_native) == ("gym-gv 1, module gym_gridverse", False)
    version = "2"
    assert envs.identify("yaml:SafeLoader").digest != first.digest
    assert envs.identify("gridverse-memory-7x7", backend="gym-gridverse").digest != backend.digest
