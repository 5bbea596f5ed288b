import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stnp

from dtqn.settings.config import ConfigError
from dtqn.training import checkpoint
from dtqn.training.checkpoint import CheckpointError
from replay import Field, SequenceLayout, SequenceReplay, UniformSampler
from tests.training.fake import edited_checkpoint

_FORMAT = f'"format": {checkpoint.FORMAT}'.encode()
_WEIGHTS = {"layer.bias": torch.zeros(2), "layer.weight": torch.arange(6.0).reshape(2, 3)}


def _round_trip(folder, state):
    checkpoint.save(folder, 7, _WEIGHTS, {"x": state}, {})
    return checkpoint.load_state(folder)["x"]


def _same(old, new):
    assert type(old) is type(new)
    if isinstance(old, dict):
        assert list(old) == list(new)
        for key in old:
            _same(old[key], new[key])
    elif isinstance(old, list | tuple):
        assert len(old) == len(new)
        for a, b in zip(old, new, strict=True):
            _same(a, b)
    elif isinstance(old, torch.Tensor):
        assert old.dtype == new.dtype
        assert old.shape == new.shape
        assert torch.equal(old, new)
    elif isinstance(old, np.ndarray | np.generic):
        assert old.dtype == new.dtype
        assert old.shape == new.shape
        np.testing.assert_array_equal(old, new)
    else:
        assert old == new


_BASE = np.arange(24, dtype=np.float32).reshape(4, 6)
_TENSOR = torch.arange(24).reshape(4, 6)
_LEAVES = {
    "strided": np.arange(12)[::2],
    "reversed": np.arange(12)[::-1],
    "transposed": _BASE.T,
    "column": _BASE[:, 3],
    "broadcast": np.broadcast_to(np.float64(3), (2, 5)),
    "fortran": np.asfortranarray(_BASE),
    "two views of one array": [_BASE[:2], _BASE[1:]],
    "0-d": np.array(5, np.uint64),
    "numpy scalar": np.int32(-3),
    "numpy float": np.float64(0.1),
    "bool": np.array([[True, False]]),
    "float16": np.array([1.5, -65504], np.float16),
    "uint64": np.array([2**64 - 1, 0], np.uint64),
    "uint32": np.array([2**32 - 1], np.uint32),
    "uint16": np.array([2**16 - 1], np.uint16),
    "int8": np.array([-128], np.int8),
    "complex64": np.array([1 + 2j], np.complex64),
    "empty": np.zeros((0, 3), np.int16),
    "nan": np.array([np.nan, np.inf, -0.0]),
    "torch strided": _TENSOR[:, ::2],
    "torch transposed": _TENSOR.T,
    "torch slice of a larger storage": _TENSOR[1:2],
    "torch expanded": torch.ones(1, 3).expand(4, 3),
    "torch 0-d": torch.tensor(3.5, dtype=torch.float64),
    "torch bool": torch.tensor([True, False]),
    "torch bfloat16": torch.tensor([1.5], dtype=torch.bfloat16),
    "torch empty": torch.zeros(3, 0),
    "torch tied": [_TENSOR, _TENSOR],
    "torch generator": torch.Generator().manual_seed(3).get_state(),
    "numpy generator": np.random.default_rng(3).bit_generator.state,
    "mersenne twister": np.random.MT19937(3).state,
    "big integers": 2**200,
    "nothing": None,
    "lists": [1, 2.5, "x", None, [True, []]],
    "integer keys": {0: {"step": torch.tensor(2.0)}, 1: {}},
    "tuples": {"betas": (0.9, 0.999)},
    "keys with a dollar": {"$array": 1, "a/b": np.ones(2), "a": {"b": np.zeros(2)}},
}


@pytest.mark.parametrize("name", _LEAVES)
def test_a_leaf_comes_back_as_it_was(tmp_path, name):
    _same(_LEAVES[name], _round_trip(tmp_path, _LEAVES[name]))


def test_all_leaves_in_one_tree(tmp_path):
    _same(_LEAVES, _round_trip(tmp_path, _LEAVES))


@settings(max_examples=40, deadline=None)
@given(
    array=stnp.arrays(
        dtype=st.one_of(
            stnp.integer_dtypes(endianness="="), stnp.floating_dtypes(sizes=(16, 32, 64), endianness="=")
        ),
        shape=stnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    ),
    data=st.data(),
)
def test_any_view_of_any_array(tmp_path_factory, array, data):
    view = array.transpose(data.draw(st.permutations(range(array.ndim))))
    if view.ndim:
        view = view[:: data.draw(st.sampled_from([1, 2, -1, -2]))]
    _same(view, _round_trip(tmp_path_factory.mktemp("c"), view))


@pytest.mark.parametrize("leaf", [object(), np.array(["a"]), np.array([1], "datetime64[s]"), {1, 2}])
def test_what_cannot_be_held_is_named(tmp_path, leaf):
    with pytest.raises(TypeError, match="state/x/inner"):
        checkpoint.save(tmp_path, 1, _WEIGHTS, {"x": {"inner": leaf}}, {})
    assert not checkpoint.exists(tmp_path)


def test_arrays_that_come_back_can_be_written(tmp_path):
    state = _round_trip(tmp_path, np.zeros(3))
    state[0] = 1


def test_weights_that_share_memory_come_back_apart(tmp_path):
    """Views of one vector, as an optimiser keeps parameters, and one tensor under two names."""
    flat = torch.arange(6.0)
    weights = {"a": flat[:2], "b": flat[2:].view(2, 2), "tied": flat[:2]}
    checkpoint.save(tmp_path, 7, weights, {}, {})
    _same(weights, {name: checkpoint.load_weights(tmp_path)[1][name] for name in weights})


def _large_replay(streams=3, timesteps=4000):
    """One of some 60 MB with a wide field of memory, whose rings are partly filled."""
    fields = {name: Field((), bool, "timesteps") for name in ("first", "last")}
    fields |= {
        "x": Field((3,), np.int16, "timesteps"),
        "state": Field((1250,), np.float32, "memory", window=2),
    }
    layout = SequenceLayout(learn_length=4, sequence_period=4, burn_in_length=0, n_step=1)
    replay = SequenceReplay(fields, layout, 12_100, streams, UniformSampler)
    rng = np.random.default_rng(0)
    for t in range(timesteps):
        flags = {"first": np.full(streams, t % 10 == 0), "last": np.full(streams, t % 10 == 9)}
        x, memory = rng.integers(-9, 9, (streams, 3)), rng.normal(size=(streams, 1250)).astype(np.float32)
        replay.append(flags | {"x": x.astype(np.int16), "state": memory})
    return replay


def test_replay_is_written_piece_by_piece(tmp_path):
    """What is read back is what a copy of replay holds, and no such copy is made."""
    replay = _large_replay()
    whole = replay.get_state()
    size = whole["rows"]["state"].nbytes
    assert size > 55e6
    tracemalloc.start()
    checkpoint.save(tmp_path, 7, _WEIGHTS, {"replay": replay.get_state(lazily=True), "n": np.int8(3)}, {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.7 * size
    _same({"replay": whole, "n": np.int8(3)}, checkpoint.load_state(tmp_path))
    again = _large_replay(timesteps=0)
    again.set_state(replay.get_state(lazily=True))
    np.testing.assert_equal(again.get_state(), whole)


def _save(folder, env_steps, value=0):
    return checkpoint.save(
        folder, env_steps, _WEIGHTS, {"value": value, "array": np.full(3, value)}, {"rows": value}
    )


def test_the_newest_is_current_and_older_ones_go(tmp_path):
    for steps in (10, 20, 30):
        _save(tmp_path, steps, steps)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["30", "latest"]
    assert sorted(path.name for path in (tmp_path / "30").iterdir()) == [
        "network.safetensors",
        "state.json",
        "state.safetensors",
    ]
    assert checkpoint.read_about(tmp_path) == {"rows": 30}
    _same(dict(sorted(checkpoint.load_weights(tmp_path)[1].items())), _WEIGHTS)


def test_the_same_step_twice(tmp_path):
    for value in (1, 2, 3):
        _save(tmp_path, 10, value)
        assert checkpoint.load_state(tmp_path)["value"] == value
        assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyboardInterrupt(), None),
        (OSError(28, "No space left on device"), "20: cannot be written: No space left on device"),
    ],
    ids=["killed", "full disk"],
)
@pytest.mark.parametrize("stop_at", ["save_file", "sync", "write_whole", "rename"])
def test_a_save_that_ends_before_its_time_leaves_the_old_one(tmp_path, monkeypatch, stop_at, error, told):
    _save(tmp_path, 10, 1)

    def ends(*args, **kwargs):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(*(("pathlib.Path.rename",) if stop_at == "rename" else (checkpoint, stop_at)), ends)
        with pytest.raises((KeyboardInterrupt, ConfigError), match=told):
            _save(tmp_path, 20, 2)
    assert checkpoint.load_state(tmp_path)["value"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["10", "latest"]
    _save(tmp_path, 20, 3)
    assert checkpoint.load_state(tmp_path)["value"] == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["20", "latest"]


def test_what_was_never_given_its_name_is_no_checkpoint(tmp_path):
    """However far it was written: the process died before it was renamed."""
    _save(tmp_path, 20, 2)
    (tmp_path / "20").rename(tmp_path / ".20.tmp")
    (tmp_path / "latest").unlink()
    assert not checkpoint.exists(tmp_path)
    with pytest.raises(checkpoint.CheckpointError, match="holds no checkpoint"):
        checkpoint.current(tmp_path)


def _damage(folder, file, change):
    path = folder / "10" / file
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("state.json", lambda data: data[:-5]),
        ("state.json", lambda data: b"[]"),
        ("state.json", lambda data: b"{}"),
        ("state.json", lambda data: b"\xff\xfe"),
        ("state.json", lambda data: data.replace(_FORMAT, b'"format": 99')),
        ("state.json", lambda data: data.replace(b'"rows": 1', b'"rows": 2')),
        ("state.json", lambda data: data.replace(b'"checksum"', b'"checksun"')),
        ("state.safetensors", lambda data: data[:-1]),
        ("state.safetensors", lambda data: data[:-1] + bytes([data[-1] ^ 1])),
        ("state.safetensors", lambda data: b""),
        ("state.safetensors", lambda data: b"\x80\x04K\x01."),
    ],
)
def test_a_damaged_file_is_one_line_that_names_it(tmp_path, file, change):
    _save(tmp_path, 10, 1)
    _damage(tmp_path, file, change)
    with pytest.raises(CheckpointError) as error:
        checkpoint.load_state(tmp_path)
    assert file in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize("pointer", ["", "20", "../10", "/", "10/.."])
def test_a_pointer_to_nowhere(tmp_path, pointer, others):
    """What is to be done about it depends on whether there is another checkpoint."""
    if others:
        _save(tmp_path, 10)
    (tmp_path / "latest").write_text(pointer)
    told = "must hold 10" if others else "move the run away"
    with pytest.raises(CheckpointError, match=f"latest: names no checkpoint in its folder; {told}"):
        checkpoint.load_state(tmp_path)


def test_no_checkpoint_and_no_best(tmp_path):
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        checkpoint.load_state(tmp_path)
    with pytest.raises(CheckpointError, match="no evaluation yet"):
        checkpoint.load_weights(tmp_path, "best")[1]
    assert checkpoint.best_figures(tmp_path) is None


@pytest.mark.parametrize("after", ["_pointed", "_read_json", "_checksum"])
@pytest.mark.parametrize(
    ("read", "found"),
    [
        (checkpoint.read_about, lambda about: about["rows"]),
        (checkpoint.load_state, lambda state: state["value"]),
        (checkpoint.load_weights, lambda pair: (pair[0]["rows"], float(pair[1]["layer.bias"][0]))),
    ],
    ids=["about", "state", "described"],
)
def test_what_a_training_replaces_meanwhile_is_read_anew(tmp_path, monkeypatch, after, read, found):
    """A checkpoint goes with all of its files when the next one has been written."""
    _save(tmp_path, 10)
    step, newer = getattr(checkpoint, after), iter([20, 30])

    def train_on(*arguments):
        result = step(*arguments)
        if (number := next(newer, None)) is not None:
            with monkeypatch.context() as patch:
                patch.setattr(checkpoint, after, step)
                weights = {name: tensor + number for name, tensor in _WEIGHTS.items()}
                state = {"value": number, "array": np.full(3, number)}
                checkpoint.save(tmp_path, number, weights, state, {"rows": number})
        return result

    monkeypatch.setattr(checkpoint, after, train_on)
    whole = found(read(tmp_path))
    numbers = {*whole} if isinstance(whole, tuple) else {whole}
    assert len(numbers) == 1, "of one checkpoint"
    assert numbers <= {0, 20, 30}


def test_missing_arrays_are_found(tmp_path):
    _save(tmp_path, 10)
    with edited_checkpoint(tmp_path / "10") as content:
        content["state"]["array"]["$array"] = "state/other"
    with pytest.raises(CheckpointError, match="state/other"):
        checkpoint.load_state(tmp_path)


def test_best_weights_and_their_figures_are_one_file(tmp_path):
    checkpoint.save_weights(
        tmp_path, "best", _WEIGHTS, {"env_steps": 5, "eval/success": 0.1, "eval/success_low": None}
    )
    checkpoint.save_weights(
        tmp_path, "best", _WEIGHTS, {"env_steps": 9, "eval/success": 0.3, "eval/success_low": None}
    )
    _same(dict(sorted(checkpoint.load_weights(tmp_path, "best")[1].items())), _WEIGHTS)
    assert checkpoint.best_figures(tmp_path) == {
        "env_steps": 9,
        "eval/success": 0.3,
        "eval/success_low": None,
    }
    assert [path.name for path in tmp_path.iterdir()] == ["best.safetensors"]
