"""A few of the forty environments; the command of `tests.forty_environments` tries them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import forty_environments

_SOME = ("tuple_of_dicts", "picture_channels_first", "paid_action_components", "ends_by_registration")


@pytest.mark.parametrize("name", _SOME)
def test_the_return_is_the_one_by_hand(name: str, tmp_path: Path) -> None:
    row = forty_environments.tried(name, tmp_path)
    assert row["ok"], row
