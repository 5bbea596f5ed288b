"""Changes to the certificate in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


def edit_json(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        content = json.loads((folder / "certificate.json").read_text())
        change(content)
        (folder / "certificate.json").write_text(json.dumps(content))

    return edit


def set_value(name: str, value: object) -> Callable[[Path], None]:
    """The certificate with a value under a dotted name; an Ellipsis takes it out."""

    def change(content: dict) -> None:
        *parts, last = name.split(".")
        for part in parts:
            content = content[part]
        content[last] = value
        if value is ...:
            del content[last]

    return edit_json(change)
