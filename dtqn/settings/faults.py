"""The one line about a file that pydantic refuses: the field, its value and what would be right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from dtqn.settings.values import choices, legal, nearest, shown
from envs.errors import meant


def first_fault(error: ValidationError, model: type[BaseModel] | None = None, what: str = "") -> str:
    """The first mistake in words, such as `run_cap is 0: must be an integer of at least 1`.

    Args:
        model: the part of a file that was read; the descriptions of its fields say what would be right. None:
            pydantic says it.
        what: that part is, such as `a sweep file`.
    """
    errors = error.errors(include_url=False)
    # A misspelt key is a missing one too.
    found = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    name, must = ".".join(map(str, found["loc"])), found["msg"].removeprefix("Value error, ")
    keys = [key for key in found["loc"] if isinstance(key, str)]
    fields = _fields(model, keys[:-1])
    if found["type"] == "extra_forbidden":
        return f"{name} is not a key of {what}{nearest(keys[-1], fields) if fields else ''}"
    if found["type"] == "value_error" and not must.startswith("must"):  # it names what it is about
        return ".".join(filter(None, [name, must]))
    field = fields.get(keys[-1]) if keys else None
    if field is not None:
        must = f"must be {field.description or legal(field)}{meant(str(found['input']), choices(field))}"
    if found["type"] == "missing":
        return f"{name} is missing{f': {must}' if field is not None else ''}"
    must = re.sub(r"^\w+ should", "must", must)
    return f"{name} is {shown(found['input'])}: {must}" if name else must


def _fields(model: type[BaseModel] | None, keys: Sequence[str]) -> Mapping[str, FieldInfo]:
    """The fields of a model, or of that which it holds under these keys, alone or in a list."""
    fields = model.model_fields if model else {}
    for key in keys:
        kinds = [fields[key].annotation, *get_args(fields[key].annotation)] if key in fields else []
        fields = next((kind.model_fields for kind in kinds if hasattr(kind, "model_fields")), {})
    return fields
