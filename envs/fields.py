"""Tasks whose state is a few arrays, each declared once: how it is made, saved, restored and read follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from envs.vector import Arrays, Dynamics, EnvIds, Rng, check_fields, read_field


class Field(NamedTuple):
    """One array of a state, [N, *shape]."""

    name: str
    shape: tuple[int, ...]
    """One environment's."""
    dtype: Any
    low: float
    high: float
    """The largest value, as `low` is the smallest; False and True are 0 and 1."""
    default: Any = None
    """What it is in a state that a user gives without it; None: it has to be given."""


class FieldDynamics(Dynamics):
    """A task whose complete state is `fields`, each an attribute of the field's name.

    A subclass has `restart`, `step` and `observe`. What follows from its fields is made anew in its `put`,
    which a start calls too, with zeros, before it restarts all environments.
    """

    fields: tuple[Field, ...]
    env_ids: EnvIds
    """The numbers of all environments, [N]."""

    def start(self, num: int, rng: Rng) -> None:
        self.put({field.name: np.zeros((num, *field.shape), field.dtype) for field in self.fields})
        self.restart(np.arange(num), rng)

    def get(self) -> Arrays:
        return {field.name: getattr(self, field.name).copy() for field in self.fields}

    def put(self, state: Arrays) -> None:
        self.env_ids = np.arange(len(state[self.fields[0].name]))
        for field in self.fields:
            setattr(self, field.name, state[field.name].copy())

    def read(self, state: Mapping[str, Any], num: int) -> Arrays:
        required = tuple(field.name for field in self.fields if field.default is None)
        optional = tuple(field.name for field in self.fields if field.default is not None)
        check_fields(state, required, optional)
        read = {
            name: read_field(name, state.get(name, default), shape, num, dtype, low, high)
            for name, shape, dtype, low, high, default in self.fields
        }
        self.check(read)
        return read

    def check(self, state: Arrays) -> None:
        """A ValueError of one line where the fields, each within its limits, are together no state of it."""


def require(name: str, values: NDArray[Any], right: NDArray[np.bool_], rule: str) -> None:
    """ValueError unless all of a field's `values` [N] are `right` [N]; it says the first that is not."""
    if not right.all():
        raise ValueError(f"state {name!r} holds {values[~right][0]}; it must be {rule}")
