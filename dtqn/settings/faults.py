"""The one line about a file that pydantic refuses: the field, its value and what would be right."""

from __future__ import annotations

import re

from pydantic import BaseModel, ValidationError

from dtqn.settings.values import choices, legal, meant, nearest, shown


def first_fault(error: ValidationError, model: type[BaseModel] | None = None, what: str = "") -> str:
    """The first mistake in words, such as `run_cap is 0: must be an integer of at least 1`.

    Args:
        model: the part of a file that was read; the descriptions of its fields say what would be right. None:
            pydantic says it.
        what: that part is, such as `a sweep file`.
    """
    fields = model.model_fields if model else {}
    errors = error.errors(include_url=False)
    # A misspelt key is a missing one too.
    found = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    name = ".".join(map(str, found["loc"]))
    if found["type"] == "extra_forbidden":
        return f"{name} is no key of {what}{nearest(name, fields) if fields else ''}"
    if found["type"] == "missing":
        return f"{name} is missing"
    must = re.sub(r"^\w+ should", "must", found["msg"].removeprefix("Value error, "))
    if (field := fields.get(name)) is not None:
        must = f"must be {field.description or legal(field)}{meant(str(found['input']), choices(field))}"
    return f"{name} is {shown(found['input'])}: {must}" if name else must
