"""A few of the forty environments; the command of `tests.forty_environments` tries them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import forty_environments

_SOME = ("box_uint32", "components_large", "tuple_of_dicts", "picture_channels_first", "text_beside")
_PAID = ("paid_action_from_1", "paid_action_components", "paid_action_switches")


@pytest.mark.parametrize("name", [*_SOME, *_PAID, "ends_by_registration"])
def test_the_return_is_the_one_by_hand(name: str, tmp_path: Path) -> None:
    timestep = forty_environments.tried(name, tmp_path)
    assert timestep["ok"], timestep
