"""Checkpoints: a tree of arrays and JSON values, stored as safetensors and a JSON skeleton.

    latest                           the name of the current checkpoint, replaced atomically
    <env_steps>/network.safetensors  the policy's weights, all that evaluation needs
    <env_steps>/state.safetensors    every other array, by its path in the tree
    <env_steps>/state.json           the tree without its arrays, what is known of the run, checksums of all
    best.safetensors                 the weights that did best in an evaluation, its figures, a checksum

A checkpoint is written whole under a temporary name, renamed, and only then made current; older ones go
afterwards. So a kill at any moment leaves the old one or the new one, and a full disk leaves the old one.
Nothing that is read can execute code.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from dtqn.files import fault, replacing, sync, write_whole
from dtqn.settings.config import ConfigError
from dtqn.text import one_line
from dtqn.training.directory import EXPORTED_WEIGHTS, file_errors
from dtqn.training.metrics import parsed
from replay import Gathered

FORMAT = 2
_NETWORK, _STATE, _JSON = "network.safetensors", "state.safetensors", "state.json"
_POINTER, _BEST = "latest", "best.safetensors"
WEIGHTS = {"last": EXPORTED_WEIGHTS, "best": _BEST}
"""The files of an exported agent's weights."""
_FOR_ALL = 0o644
"""Others may read the weights; safetensors writes them for their owner alone."""
_ARRAY, _ITEMS, _TUPLE = "$array", "$items", "$tuple"
_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}
"""The names of torch's and numpy's types in a file of safetensors."""
_Array: TypeAlias = torch.Tensor | np.ndarray | Gathered
FOREIGN = (ValueError, LookupError, TypeError, AttributeError, RuntimeError, OverflowError)
"""The errors that unexpected content raises."""


class CheckpointError(ConfigError):
    """A checkpoint that is absent, damaged or of another program, in one line."""


def save(
    folder: Path,
    env_steps: int,
    weights: Mapping[str, torch.Tensor],
    state: dict[str, Any],
    about: dict[str, Any],
) -> Path:
    """Write a checkpoint and make it the current one.

    Args:
        folder: the run's `checkpoint` folder.
        env_steps: names the checkpoint.
        weights: the policy's, kept apart for evaluation.
        state: nested dicts, lists and tuples of numpy arrays, torch tensors, `Gathered` and JSON values.
        about: JSON values that describe the run; `read_about` returns them without the arrays.

    Raises:
        ConfigError: where it cannot be written; the one before is kept, and nothing of the new one.
    """
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        kept = current(folder) if exists(folder) else None
    name = f"{env_steps}-again" if kept == folder / str(env_steps) else str(env_steps)
    temporary, whole = folder / f".{name}.tmp", folder / name
    try:
        with _writing(whole):
            _remove(temporary, whole)
            temporary.mkdir()
            save_file({name: _independent(x) for name, x in weights.items()}, temporary / _NETWORK)
            sync(temporary / _NETWORK)
            _write_state(temporary, state, about)
            sync(temporary)
            temporary.rename(whole)
            write_whole(folder / _POINTER, name + "\n", durable=True)
    except BaseException:
        _remove(temporary, *([] if _pointed(folder) == name else [whole]))
        raise
    _remove(*(other for other in _completed(folder) if other != whole))
    return whole


def _write_state(folder: Path, state: dict[str, Any], about: dict[str, Any]) -> None:
    """A tree as two files, with checksums of its arrays' file and of the weights' file."""
    arrays: dict[str, _Array] = {}
    skeleton = _take_arrays(state, "state", arrays)
    checksums = {_NETWORK: _checksum(folder / _NETWORK)}
    checksums[_STATE] = _write_arrays(folder / _STATE, arrays)
    content = {"format": FORMAT, "about": about, "checksums": checksums, "state": skeleton}
    content["checksum"] = _checksum_of(content)
    (folder / _JSON).write_text(json.dumps(content), encoding="utf-8")
    for file in (_STATE, _JSON):
        sync(folder / file)


def exists(folder: Path) -> bool:
    """Whether a checkpoint was ever completed here; a CheckpointError where `folder` is something else."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder}: is a file; must be the folder of the run's checkpoints")
    return (folder / _POINTER).exists() or bool(_completed(folder))


def current(folder: Path) -> Path:
    """The checkpoint that `latest` names; a CheckpointError where there is none."""
    if not exists(folder):
        raise CheckpointError(f"{folder}: holds no checkpoint")
    name = _pointed(folder)
    if not name or Path(name).name != name or not (folder / name).is_dir():
        there = sorted(path.name for path in _completed(folder))
        right = f"must hold {' or '.join(there)}" if there else "move the run away to train it again"
        raise CheckpointError(f"{folder / _POINTER}: names no checkpoint in its folder; {right}")
    return _opened(folder / name, folder)


def read_about(folder: Path) -> dict[str, Any]:
    """The description of its run that the current checkpoint holds."""
    return _of_current(folder)[1]["about"]


def load_state(folder: Path) -> dict[str, Any]:
    """The current checkpoint's state, every leaf as it was given to `save`."""
    checkpoint, content, arrays = _of_current(folder, _STATE)
    with _reading(checkpoint):
        return _put_arrays(content["state"], arrays)


def check_kinds(state: Any, like: Any, path: str = "state") -> None:
    """A ValueError where a state has something else in a place than another of the same program has there."""
    if isinstance(state, dict) and isinstance(like, dict):
        for key in state.keys() & like.keys():
            check_kinds(state[key], like[key], f"{path}/{key}")
    elif isinstance(state, list) and isinstance(like, list) and len(state) == len(like):
        for index, pair in enumerate(zip(state, like, strict=True)):
            check_kinds(*pair, f"{path}/{index}")
    elif state is not None and like is not None and _kind_of(state) != _kind_of(like):
        raise ValueError(f"{path} is of the type {_kind_of(state)}, must be {_kind_of(like)}")


def _kind_of(leaf: Any) -> object:
    if isinstance(leaf, int | float | np.generic):
        return float
    return leaf.dtype if isinstance(leaf, Gathered | np.ndarray | torch.Tensor) else type(leaf)


def _of_current(folder: Path, file: str = "") -> tuple[Path, dict[str, Any], dict[str, torch.Tensor]]:
    """The current checkpoint, the content of its `state.json`, and the arrays of its `file`, if one is named.

    If another checkpoint replaces it meanwhile, all three are the new one's.
    """
    while True:
        name = _pointed(folder)
        try:
            path = current(folder)
            content = _read_json(path)
            return path, content, _read_tensors(path / file, content["checksums"][file]) if file else {}
        except CheckpointError:
            if _pointed(folder) == name:  # and no training has just replaced it
                raise


def load_weights(folder: Path, kind: str = "last") -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Weights of the policy and what is told of them, both of one moment, while the run may be training on.

    Args:
        kind: `last`, with the description that `read_about` gives (an exported agent's own), or `best`, with
            the figures of the evaluation that chose them.
    """
    file = folder / WEIGHTS[kind]
    if file.exists():
        return _read_with_figures(file)
    if kind == "best":
        raise CheckpointError(f"{file}: there is no such file; the run has had no evaluation yet")
    _, content, tensors = _of_current(folder, _NETWORK)
    return content["about"], tensors


def save_weights(
    folder: Path, kind: str, weights: Mapping[str, torch.Tensor], figures: Mapping[str, Any]
) -> Path:
    """Keep `best` weights, or `last` ones of an exported agent, with what is told of them in one file."""
    path, text = folder / WEIGHTS[kind], json.dumps(figures)
    tensors = {name: _independent(x) for name, x in weights.items()}
    metadata = {"figures": text, "checksum": str(_checksum_of_tensors(text, tensors))}
    with _writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path, durable=True) as temporary:
            save_file(tensors, temporary, metadata=metadata)
            temporary.chmod(_FOR_ALL)
    return path


def best_figures(folder: Path) -> dict[str, Any] | None:
    """The evaluation that chose the best weights; None before the first one.

    Raises:
        CheckpointError: where the file is damaged.
    """
    if not (folder / _BEST).exists():
        return None
    try:
        return _read_with_figures(folder / _BEST)[0]
    except CheckpointError as error:
        remedy = "if you remove it, the next full evaluation's weights count as the best"
        raise CheckpointError(f"{error}; {remedy}") from None


def remove_best(folder: Path) -> None:
    """Forget the best weights, for a run that starts anew."""
    with _writing(folder / _BEST):
        (folder / _BEST).unlink(missing_ok=True)


def _take_arrays(node: Any, path: str, arrays: dict[str, _Array]) -> Any:
    """The tree with a marker in place of each array, which goes to `arrays` under its path."""
    array: _Array
    match node:
        case dict() if all(isinstance(key, str) and not key.startswith("$") for key in node):
            return {key: _take_arrays(value, f"{path}/{key}", arrays) for key, value in node.items()}
        case dict():  # JSON would turn integer keys into text
            return {
                _ITEMS: [[key, _take_arrays(value, f"{path}/{key}", arrays)] for key, value in node.items()]
            }
        case list():
            return [_take_arrays(value, f"{path}/{i}", arrays) for i, value in enumerate(node)]
        case tuple():
            return {_TUPLE: [_take_arrays(value, f"{path}/{i}", arrays) for i, value in enumerate(node)]}
        case torch.Tensor():
            kind, array = "torch", node.detach()
        case Gathered():
            kind, array = "numpy", node
        case np.ndarray() | np.generic():
            kind = "scalar" if isinstance(node, np.generic) else "numpy"
            array = np.asarray(node, node.dtype.newbyteorder("="))
        case None | bool() | int() | float() | str():
            return node
        case _:
            raise TypeError(f"{path} is a {type(node).__name__}, which a checkpoint cannot hold")
    while path in arrays:  # a key with a slash in it
        path += "'"
    arrays[path] = array
    return {_ARRAY: path, "kind": kind, "shape": list(array.shape)}


def _write_arrays(path: Path, arrays: Mapping[str, _Array]) -> int:
    """Write a file of safetensors and give its checksum; the library would need all arrays in memory at once.

    Arrays are flat and sorted, the widest type first, so that each is aligned for its type. Their shapes are
    in the tree.
    """
    header: dict[str, Any] = {}
    end = 0
    for name in sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name)):
        dtype, count = arrays[name].dtype, math.prod(arrays[name].shape)
        begin, end = end, end + count * dtype.itemsize
        header[name] = {"dtype": _type_name(name, dtype), "shape": [count], "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    checksum = 0
    front: list[Any] = [len(text).to_bytes(8, "little"), text]
    with path.open("wb") as file:
        for block in itertools.chain(front, *(_blocks(arrays[name]) for name in header)):
            file.write(block)
            checksum = zlib.crc32(block, checksum)
    return checksum


def _type_name(path: str, dtype: torch.dtype | np.dtype[Any]) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in _NAMES:
        raise TypeError(f"{path} is an array of {name}, which a checkpoint cannot hold")
    return _NAMES[name]


def _blocks(array: _Array) -> Iterator[np.ndarray]:
    """Its bytes, in pieces."""
    if isinstance(array, torch.Tensor):
        array = _independent(array).reshape(-1).view(torch.uint8).numpy()
    pieces: Iterable[np.ndarray] = array.blocks() if isinstance(array, Gathered) else [array]
    for piece in pieces:
        yield np.ascontiguousarray(piece).reshape(-1).view(np.uint8)


def _put_arrays(node: Any, arrays: dict[str, torch.Tensor]) -> Any:
    match node:
        case {"$array": path, "kind": kind, "shape": shape}:
            tensor = arrays[path].reshape(shape)
            return tensor if kind == "torch" else tensor.numpy() if kind == "numpy" else tensor.numpy()[()]
        case {"$items": items}:
            return {key: _put_arrays(value, arrays) for key, value in items}
        case {"$tuple": values}:
            return tuple(_put_arrays(value, arrays) for value in values)
        case dict():
            return {key: _put_arrays(value, arrays) for key, value in node.items()}
        case list():
            return [_put_arrays(value, arrays) for value in node]
        case _:
            return node


def _independent(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous copy on the CPU: safetensors refuses tensors that share memory, or writes them wrongly."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _is_ours(path: Path) -> bool:
    """Whether a folder is a checkpoint, or the beginning of one, and nobody has put anything there."""
    if path.is_symlink() or not path.is_dir():
        return False
    return {inner.name for inner in path.iterdir()} <= {_NETWORK, _STATE, _JSON}


def _remove(*paths: Path) -> None:
    """Those that are ours; what somebody has put into a folder stays, with the folder."""
    for path in filter(_is_ours, paths):
        shutil.rmtree(path, ignore_errors=True)


def _pointed(folder: Path) -> str:
    """The name in `latest`, or of the only checkpoint if a kill has prevented it; else empty."""
    if not (folder / _POINTER).exists():
        names = [path.name for path in _completed(folder)]
        return names[0] if len(names) == 1 else ""
    try:
        return _opened(folder / _POINTER, folder).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _completed(folder: Path) -> list[Path]:
    """Checkpoints that `save` has given their name, in no order."""
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if path.is_dir() and re.fullmatch(r"\d+(-again)?", path.name)]


def _opened(path: Path, folder: Path) -> Path:
    """The path of a file that may be opened."""
    if problem := fault(path, folder):
        raise CheckpointError(f"{path}: {problem}")
    return path


def _read_json(checkpoint: Path) -> dict[str, Any]:
    path = _opened(checkpoint / _JSON, checkpoint)
    with _reading(path):
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise CheckpointError(
                f"{path}: has format {content['format']}; this version reads format {FORMAT}"
            )
        if content["checksum"] != _checksum_of(content):
            raise CheckpointError(f"{path}: is damaged: its checksum does not match its content")
        checksums = [content["checksums"][file] for file in (_NETWORK, _STATE)]
        if not isinstance(content["about"], dict) or not all(isinstance(one, int) for one in checksums):
            raise TypeError("about must be an object, checksums integers")
    return content


def _read_tensors(path: Path, checksum: int) -> dict[str, torch.Tensor]:
    with _reading(_opened(path, path.parent)):
        if _checksum(path) != checksum:
            raise CheckpointError(f"{path}: is damaged: its checksum does not match the one in {_JSON}")
        return load_file(path)


def _read_with_figures(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Figures and weights."""
    with _reading(_opened(path, path.parent)):
        with safe_open(path, "pt") as file:  # opened once, as a training may replace it
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = metadata["figures"]
        if int(metadata["checksum"]) != _checksum_of_tensors(text, tensors):
            raise CheckpointError(f"{path}: is damaged: its checksum does not match its content")
        if isinstance(figures := parsed(text), str):
            raise ValueError(figures)
        return figures, tensors


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Whatever a full disk or a folder that is no folder raises, as one line."""
    try:
        with file_errors(path, "cannot be written"):
            yield
    except SafetensorError as error:
        raise CheckpointError(f"{path}: cannot be written: {one_line(str(error))}") from None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever a damaged or foreign file raises, as one line."""
    try:
        yield
    except CheckpointError:
        raise
    except (*FOREIGN, OSError, SafetensorError) as error:
        reason = one_line(str(error))
        raise CheckpointError(f"{path}: is not a checkpoint of this program, or damaged ({reason})") from None


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            value = zlib.crc32(block, value)
    return value


def _checksum_of(content: Mapping[str, Any]) -> int:
    """The checksum of all that `state.json` holds except the checksum itself."""
    rest = {name: value for name, value in content.items() if name != "checksum"}
    return zlib.crc32(json.dumps(rest).encode())


def _checksum_of_tensors(text: str, tensors: Mapping[str, torch.Tensor]) -> int:
    value = zlib.crc32(text.encode())
    for name in sorted(tensors):
        value = zlib.crc32(name.encode(), value)
        value = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().tobytes(), value)
    return value
