"""Per-step rings: every step of every stream is stored once, in the smallest dtype that holds it.

A *slot* is an index into a ring, `stream * steps_per_stream + timestep % steps_per_stream`; this module sees
slots only. Shape legend: n timesteps, S slots.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

Block = Literal["timesteps", "memory", "stored"]
BLOCKS = ("timesteps", "memory", "stored")


@dataclass(frozen=True, slots=True)
class Field:
    """The array that one step stores under one name."""

    shape: tuple[int, ...]
    """Shape of one timestep's value; `()` for a scalar."""
    dtype: npt.DTypeLike
    """The smallest dtype that holds it. Floats that arrive wider are saturated, never turned into inf."""
    block: Block
    """`timesteps` is gathered in burn_in and learn, `memory` in memory, `stored` is in no batch:
    `learn_timesteps()` and `prefix()` read it."""
    window: int = 0
    """Timesteps of this field that memory holds: a network's state is a function of so many. A `memory` field
    has at least 1; a `timesteps` field with some is gathered in memory as well."""


def checked_fields(fields: Mapping[str, Field]) -> dict[str, Field]:
    """The fields with types of NumPy; a ValueError names the field that cannot be stored."""
    for name in ("first", "last"):
        if name not in fields:
            raise ValueError(f"fields: {name!r} is missing; add {name}=Field((), bool, 'timesteps')")
    checked = {name: replace(field, dtype=np.dtype(field.dtype)) for name, field in fields.items()}
    for name, field in checked.items():
        if name in ("first", "last") and astuple(field)[:3] != ((), np.bool_, "timesteps"):
            raise ValueError(f"fields: {name} is {astuple(field)}; it must be Field((), bool, 'timesteps')")
        if field.block not in BLOCKS:
            raise ValueError(f"fields: {name}.block is {field.block!r}; use one of {', '.join(BLOCKS)}")
        if np.dtype(field.dtype).kind not in "buif":
            raise ValueError(f"fields: {name}.dtype is {field.dtype}; use a bool, integer or float dtype")
        least, most = {"timesteps": (0, math.inf), "memory": (1, math.inf), "stored": (0, 0)}[field.block]
        if not least <= field.window <= most:
            right = f"{'at least ' if most else ''}{least} for block {field.block!r}"
            raise ValueError(f"fields: {name}.window is {field.window}; it must be {right}")
    return checked


def fit(name: str, values: npt.ArrayLike, field: Field, num_timesteps: int) -> Array:
    """`values` as [n, *field.shape], safe to assign into the field's dtype.

    Floats are saturated into narrower floats (a NaN stays a NaN). Everything else must
    be held exactly: action 300 in a uint8 field is a ValueError, not action 44.
    """
    values = np.asarray(values)
    if values.shape != (num_timesteps, *field.shape):
        raise ValueError(f"{name}: shape is {values.shape}; it must be {(num_timesteps, *field.shape)}")
    dtype = np.dtype(field.dtype)
    if values.dtype == dtype or np.can_cast(values.dtype, dtype, "safe"):
        return values
    if values.dtype.kind == "f" and dtype.kind == "f":
        limit = float(np.finfo(dtype).max)
        saturated: Array = np.clip(values, -limit, limit)
        return saturated
    with np.errstate(invalid="ignore"):
        fitted = values.astype(dtype)
    # A NaN is not equal to itself, so no integer field takes one.
    if not np.array_equal(fitted, values):
        wrong = values[fitted != values].flat[0]
        raise ValueError(f"{name}: value {wrong} does not fit the field's dtype {dtype}; use a wider dtype")
    return fitted


def _record(fields: Mapping[str, Field]) -> np.dtype[Any]:
    """The `timesteps` fields of one step, widest first; aligned, so that each is an ordinary array."""
    names = [name for name, field in fields.items() if field.block == "timesteps"]
    names.sort(key=lambda name: -np.dtype(fields[name].dtype).itemsize)
    return np.dtype([(name, fields[name].dtype, fields[name].shape) for name in names], align=True)


def timestep_bytes(fields: Mapping[str, Field]) -> int:
    """Bytes that one step takes in all rings together, the record's padding included."""
    alone = [field for field in fields.values() if field.block != "timesteps"]
    apart = sum(np.dtype(field.dtype).itemsize * math.prod(field.shape) for field in alone)
    return _record(fields).itemsize + apart


_BLOCK_BYTES = 1 << 24


class Gathered:
    """One field at some slots, [n, *shape], which is read only when it is asked for.

    A copy of all fields would take as much memory again as the rings. It holds until the next write.
    """

    def __init__(self, rings: StepRings, name: str, slots: Ints) -> None:
        self._rings, self._name, self._slots = rings, name, slots
        ring = rings.arrays[name]
        self.shape: tuple[int, ...] = (len(slots), *ring.shape[1:])
        self.dtype: np.dtype[Any] = ring.dtype

    def blocks(self) -> Iterator[Array]:
        """Its values, in pieces of some megabytes."""
        bytes_per_slot = self.dtype.itemsize * math.prod(self.shape[1:])
        size = max(1, _BLOCK_BYTES // max(1, bytes_per_slot))
        for start in range(0, len(self._slots), size):
            yield self._rings.gather(self._name, self._slots[start : start + size])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.asarray(self._rings.gather(self._name, self._slots), dtype)


class StepRings:
    """The rings of all fields. Pages that are never written are never paid for (`np.zeros` is lazy).

    The fields of block `timesteps` are always read together, so they lie together: one ring of records costs
    one cache miss a step where a ring each would cost one a field. The others have rings of their own.
    """

    def __init__(self, fields: Mapping[str, Field], num_slots: int) -> None:
        self._records = np.zeros(num_slots, _record(fields))
        apart = {
            name: np.zeros((num_slots, *field.shape), field.dtype)
            for name, field in fields.items()
            if field.block != "timesteps"
        }
        self._names = self._records.dtype.names or ()
        self.arrays: dict[str, Array] = {name: self._records[name] for name in self._names} | apart
        """Every field, [S, *shape]; fields of block `timesteps` are strided views of the records."""
        self._half = {name for name, array in self.arrays.items() if array.dtype == np.float16}
        self.saturated = 0

    def write(self, slots: Ints, timesteps: Mapping[str, Array]) -> None:
        """Store a whole timestep, which `fit` has passed, at each of `slots` [n]."""
        self._count_saturated(timesteps)
        # Put together here and scattered once: one cache miss a timestep, where each field would have one.
        records: Array = np.empty(len(slots), self._records.dtype)
        for name, values in timesteps.items():
            if name in self._names:
                records[name] = values
            else:
                self.arrays[name][slots] = values
        self._records[slots] = records

    def overwrite(self, slots: Ints, values: Mapping[str, Array]) -> None:
        """Some fields, none of block `timesteps`, at `slots` [n]; of equal slots the last one counts."""
        self._count_saturated(values)
        for name, of_field in values.items():
            self.arrays[name][slots] = of_field

    def _count_saturated(self, values: Mapping[str, Array]) -> None:
        for name in self._half & values.keys():
            found = int(np.count_nonzero(np.abs(values[name]) >= np.finfo(np.float16).max))
            if found and not self.saturated:
                warnings.warn(
                    f"{name}: float16 ends at 65504, as which larger numbers are stored", stacklevel=4
                )
            self.saturated += found

    def gather(self, name: str, slots: Ints) -> Array:
        """One field at `slots` of any shape, [*slots.shape, *field.shape]; always a copy."""
        if name in self._names:
            return self.arrays[name][slots]
        # mode="clip" spares a pass over the indices; they are in range by construction.
        return np.take(self.arrays[name], slots, axis=0, mode="clip")

    def gather_records(self, slots: Ints) -> Array:
        """All fields of block `timesteps` at `slots` of any shape; `gathered[name]` is one field's array."""
        return np.take(self._records, slots, mode="clip")

    def get_state(self, used: Ints) -> dict[str, Gathered]:
        """The timesteps at the slots in use, in that order, field by field."""
        return {name: Gathered(self, name, used) for name in self.arrays}

    def set_state(self, state: Mapping[str, npt.ArrayLike], used: Ints) -> None:
        """Inverse of `get_state`; a ValueError names a field that does not match."""
        if set(state) != set(self.arrays):
            odd = ", ".join(sorted(set(state) ^ set(self.arrays)))
            raise ValueError(f"replay state: fields differ in {odd}; it was saved with other fields")
        for name, ring in self.arrays.items():
            saved, expected = np.asarray(state[name]), (len(used), *ring.shape[1:])
            if saved.shape != expected or saved.dtype != ring.dtype:
                raise ValueError(
                    f"replay state: {name} is {saved.dtype}{saved.shape}; it must be {ring.dtype}{expected}"
                )
        for name, ring in self.arrays.items():
            ring[used] = state[name]
