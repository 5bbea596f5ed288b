"""A few of the forty environments; the command of `tests.forty_environments` tries them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import forty_environments


@pytest.mark.parametrize("name", ["box_uint32", "components_large", "tuple_of_dicts", "ends_by_registration"])
def test_the_return_is_the_one_by_hand(name: str, tmp_path: Path) -> None:
    row = forty_environments.tried(name, tmp_path)
    assert row["ok"], row
