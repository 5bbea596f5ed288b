"""Files written whole: an error on the way costs neither the old file nor a place on the disk."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from dtqn.files import replacing, write_whole


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_as_a_whole(tmp_path: Path, durable: bool) -> None:
    file = tmp_path / "a.json"
    write_whole(file, "old", durable)
    with replacing(file, durable) as temporary:
        temporary.write_text("new, half")
        assert file.read_text() == "old"
        temporary.write_text("new")
    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "diary").write_text("private")
    (tmp_path / ".a.json.tmp").symlink_to("diary")
    write_whole(tmp_path / "a.json", "new")
    assert (tmp_path / "diary").read_text() == "private"
    assert not (tmp_path / "a.json").is_symlink()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_an_error_keeps_the_old_file_and_removes_the_new_one(tmp_path: Path, error: BaseException) -> None:
    file = tmp_path / "a.json"
    write_whole(file, "old")
    with pytest.raises(type(error)), replacing(file) as temporary:
        temporary.write_text("half")
        raise error
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("names_the_temporary_file", [False, True])
def test_an_error_of_the_disk_names_the_file(tmp_path: Path, names_the_temporary_file: bool) -> None:
    """A full disk names none, and nobody knows the temporary one."""
    file = tmp_path / "a.json"
    with pytest.raises(OSError, match="No space left") as caught, replacing(file) as temporary:
        name = [str(temporary)] if names_the_temporary_file else []
        raise OSError(errno.ENOSPC, "No space left on device", *name)
    assert caught.value.filename == str(file)
