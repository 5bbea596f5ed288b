"""Checkpoints: a tree of arrays and JSON values, as safetensors beside a JSON skeleton.

    latest                           the name of the current checkpoint, replaced atomically
    <env_steps>/network.safetensors  the online network's weights, all that evaluation needs
    <env_steps>/state.safetensors    every other array, by its path in the tree
    <env_steps>/state.json           the tree without its arrays, what is known of the run, checksums
    best.safetensors                 the weights that did best in an evaluation, with its figures

A checkpoint is written whole under a temporary name, renamed, and only then made current; older ones go
afterwards. So a kill at any moment leaves the old one or the new one. Nothing that is read can execute code.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from dtqn.files import replacing, sync, write_whole
from dtqn.settings.config import ConfigError

FORMAT = 2
_NETWORK, _STATE, _JSON = "network.safetensors", "state.safetensors", "state.json"
_POINTER, _BEST = "latest", "best.safetensors"
_ARRAY, _ITEMS, _TUPLE = "$array", "$items", "$tuple"


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
        weights: the online network's, kept apart for evaluation.
        state: nested dicts, lists and tuples of numpy arrays, torch tensors and JSON values.
        about: JSON values that describe the run; `read_about` returns them without the arrays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    current = _current_name(folder)
    name = f"{env_steps}-again" if current == str(env_steps) else str(env_steps)
    temporary = folder / f".{name}.tmp"
    for leftover in (temporary, folder / name):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary.mkdir()
    arrays: dict[str, torch.Tensor] = {}
    skeleton = _take_arrays(state, "state", arrays)
    save_file(_independent(dict(weights)), temporary / _NETWORK)
    save_file(_independent(arrays), temporary / _STATE)
    checksums = {file: _checksum(temporary / file) for file in (_NETWORK, _STATE)}
    content = {"format": FORMAT, "about": about, "checksums": checksums, "state": skeleton}
    (temporary / _JSON).write_text(json.dumps(content), encoding="utf-8")
    for file in (_NETWORK, _STATE, _JSON):
        sync(temporary / file)
    sync(temporary)
    temporary.rename(folder / name)
    write_whole(folder / _POINTER, name + "\n", durable=True)
    for other in folder.iterdir():
        if other.is_dir() and other.name != name:
            shutil.rmtree(other, ignore_errors=True)
    return folder / name


def exists(folder: Path) -> bool:
    """Whether a checkpoint was ever completed here."""
    return (folder / _POINTER).exists()


def read_about(folder: Path) -> dict[str, Any]:
    """What the current checkpoint says of its run."""
    about: dict[str, Any] = _read_json(_current(folder))["about"]
    return about


def load_state(folder: Path) -> dict[str, Any]:
    """The current checkpoint's state, every leaf as it was given to `save`."""
    current = _current(folder)
    content = _read_json(current)
    arrays = _read_tensors(current / _STATE, content["checksums"][_STATE])
    with _reading(current):
        state: dict[str, Any] = _put_arrays(content["state"], arrays)
    return state


def load_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The online network's weights in the current checkpoint."""
    current = _current(folder)
    return _read_tensors(current / _NETWORK, _read_json(current)["checksums"][_NETWORK])


def save_best(
    folder: Path, weights: Mapping[str, torch.Tensor], figures: dict[str, float | int | None]
) -> None:
    """Keep the weights that did best so far, and the figures of the evaluation that says so, in one file."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / _BEST, durable=True) as temporary:
        save_file(_independent(dict(weights)), temporary, metadata={"figures": json.dumps(figures)})


def load_best(folder: Path) -> dict[str, torch.Tensor]:
    """The weights that did best."""
    if not (folder / _BEST).exists():
        raise CheckpointError(f"{folder / _BEST}: there is no such file; the run has had no evaluation yet")
    return _read_tensors(folder / _BEST)


def best_figures(folder: Path) -> dict[str, Any] | None:
    """The evaluation that chose the best weights; none before the first one."""
    if not (folder / _BEST).exists():
        return None
    with _reading(folder / _BEST), safe_open(folder / _BEST, "pt") as file:
        figures: dict[str, Any] = json.loads(file.metadata()["figures"])
    return figures


def _take_arrays(node: Any, path: str, arrays: dict[str, torch.Tensor]) -> Any:
    """The tree with a marker in place of each array, which goes to `arrays` under its path."""
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
            kind, tensor = "torch", node.detach()
        case np.ndarray() | np.generic():
            kind, tensor = (
                "scalar" if isinstance(node, np.generic) else "numpy",
                _to_torch(np.asarray(node), path),
            )
        case None | bool() | int() | float() | str():
            return node
        case _:
            raise TypeError(f"{path} is a {type(node).__name__}, which a checkpoint cannot hold")
    while path in arrays:  # a key with a slash in it
        path += "'"
    arrays[path] = tensor.reshape(-1)  # 0-d arrays are refused by safetensors: the shape is kept here
    return {_ARRAY: path, "kind": kind, "shape": list(tensor.shape)}


def _to_torch(array: np.ndarray, path: str) -> torch.Tensor:
    if min(array.strides, default=0) < 0:  # even one element can have a negative stride, which torch refuses
        array = array.copy()
    try:
        # A copy where the array is strided, read-only or in the other byte order.
        return torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))
    except TypeError:
        raise TypeError(f"{path} is an array of {array.dtype}, which a checkpoint cannot hold") from None


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


def _independent(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Contiguous CPU tensors that share no memory: safetensors refuses views, or writes them wrongly."""
    result, owners = {}, set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        storage = tensor.untyped_storage()
        if storage.data_ptr() in owners or storage.nbytes() != tensor.nbytes:
            tensor = tensor.clone()
        owners.add(tensor.untyped_storage().data_ptr())
        result[name] = tensor
    return result


def _current_name(folder: Path) -> str | None:
    try:
        return (folder / _POINTER).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _current(folder: Path) -> Path:
    name = _current_name(folder)
    if name is None:
        raise CheckpointError(f"{folder}: holds no checkpoint")
    if not name or Path(name).name != name or not (folder / name).is_dir():
        raise CheckpointError(f"{folder / _POINTER}: names no checkpoint beside it")
    return folder / name


def _read_json(checkpoint: Path) -> dict[str, Any]:
    path = checkpoint / _JSON
    with _reading(path):
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise CheckpointError(
                f"{path}: has format {content['format']}; this version reads format {FORMAT}"
            )
        (
            content["checksums"][_STATE],
            content["checksums"][_NETWORK],
            content["about"],
            content["state"],
        )  # all there
    return content


def _read_tensors(path: Path, checksum: int | None = None) -> dict[str, torch.Tensor]:
    with _reading(path):
        if checksum is not None and _checksum(path) != checksum:
            raise CheckpointError(f"{path}: is damaged: its checksum is not the one in {_JSON}")
        return load_file(path)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever a damaged or foreign file raises, as one line."""
    try:
        yield
    except CheckpointError:
        raise
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path}: is no checkpoint of this program, or damaged ({reason})") from None


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            value = zlib.crc32(block, value)
    return value
