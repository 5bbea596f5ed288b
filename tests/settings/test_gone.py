"""Old names of settings: read as the new ones wherever they stand, and told once."""

from pathlib import Path

import pytest

from dtqn.settings import gone
from dtqn.settings.config import fields_of
from dtqn.settings.layers import nested, read_yaml
from dtqn.settings.presets import resolve
from dtqn.training.directory import RunDir
from tests.settings.resolving import error_of

_EARLIER = RunDir(Path(__file__).parents[1] / "data" / "run-c9b8378")
_NEW = {name: new for name, new in gone.MOVED.items() if isinstance(new, str)}


def test_every_old_name_has_a_new_one_and_is_no_setting_itself():
    assert not gone.MOVED.keys() & (fields_of().keys() | gone.GONE.keys())
    assert set(_NEW.values()) <= fields_of().keys()
    assert len(set(_NEW.values())) == len(_NEW)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *[({name: 1}, {new: 1}) for name, new in _NEW.items()],
        ({"network.soft_attention": "true"}, {"network.encoder": "parts"}),
        ({"network.soft_attention": False, "network.encoder": "dtqn"}, {"network.encoder": "dtqn"}),
        ({"network.chrono_init": "true"}, {"network.core.initial_weights": "chrono"}),
        (
            {"network.chrono_init": False, "network.orthogonal_init": True, "network.core": "gru"},
            {"network.core": "gru", "network.core.initial_weights": "orthogonal"},
        ),
        (
            {"network.chrono_init": True, "network.orthogonal_init": True},
            {"network.core.initial_weights": "chrono"},
        ),
        (
            {"network.chrono_init": False, "network.orthogonal_init": False},
            {"network.core.initial_weights": "torch"},
        ),
        ({"learner.rollout_length": 0}, {"learner.batches": "replay"}),
        ({"learner.rollout-length": "8"}, {"learner.batches": "rollout", "learner.batches.length": "8"}),
        (
            {"network.encoder": "a:b", "network.kwargs.a-b": 2},
            {"network.encoder": "a:b", "network.encoder.kwargs.a-b": 2},
        ),
        (
            {"network.core": "a:b", "network.kwargs": {"x": 2}},
            {"network.core": "a:b", "network.core.kwargs": {"x": 2}},
        ),
    ],
)
def test_an_old_name_is_read_as_what_says_the_same_now(old, new):
    assert nested(old) == nested(new)


def test_an_old_name_is_told_once_with_where_it_stands(tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text("network: {num_layers: 3}")
    for _ in range(2):
        config = resolve(file, {"network.memory-length": "7"}, {})
    assert (config.network.core.num_layers, config.network.core.memory_length) == (3, 7)
    told = capsys.readouterr().err.splitlines()
    assert told == [
        f"note: {file}: network.num_layers is now network.core.num_layers",
        "note: the command line: network.memory_length is now network.core.memory_length",
    ]


def test_an_old_name_beside_the_new_one_is_refused():
    both = {"network.num_layers": "2", "network.core.num_layers": "3"}
    assert error_of(both).startswith("network.num_layers is now network.core.num_layers, which is given too")


def test_a_run_of_before_says_what_its_settings_mean_now(capsys):
    config = _EARLIER.read_config()
    held = nested(read_yaml(_EARLIER.config_file))
    assert config.network.core.name == held["network"]["core"]["name"]
    assert not capsys.readouterr().err
