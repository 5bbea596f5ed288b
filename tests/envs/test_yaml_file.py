"""The one reader of YAML: plain data as `yaml.safe_load` gives it, everything else one line."""

from pathlib import Path

import pytest
import yaml

from envs import yaml_file

_ROOT = Path(__file__).parents[2]
_SHIPPED = sorted((_ROOT / "configs").rglob("*.yaml"))


@pytest.mark.parametrize("path", _SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_is_shipped_reads_as_pyyaml_reads_it(path):
    assert yaml_file.read(path) == yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", None),
        ("a: 2020-01-31\nb: 2020-99-99", {"a": "2020-01-31", "b": "2020-99-99"}),
        ("a: [1, 2.5, true, ~, 'x']", {"a": [1, 2.5, True, None, "x"]}),
        ("<<: {a: 1}", {"<<": {"a": 1}}),
        ("&name {a: 1}", {"a": 1}),
    ],
)
def test_plain_data(text, data):
    assert yaml_file.parse(text) == data


_BOMB = "a: &a [x, x]\n" + "\n".join(f"{new}: &{new} [*{old}, *{old}]" for old, new in ["ab", "bc", "cd"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: {c: 1}\na: 2", "line 3: a is given twice"),
        ("a:\n  b: 1\n  c: 2\n  b: 1", "line 4: b is given twice"),
        ("1: x\n1.0: y", "line 2: 1.0 is given twice"),
        (_BOMB, "line 2: aliases (*name) are not read; write the value out"),
        ("&a [*a]", "line 1: aliases (*name) are not read; write the value out"),
        ("a: !!int x", "line 1: 'x' is no int"),
        ("a: !!float ''", "line 1: '' is no float"),
        ("a: !!bool 3", "line 1: '3' is no bool"),
        ("a: 0x" + "f" * 1000, "line 1: a number of more than 1000 characters"),
        ("a: 1\n? [1]\n: 2", "line 2: a key is a collection; must be text or a number"),
        ("[" * 100_000, "line 1: more than 50 collections inside each other"),
        ("{a: " * 51, "line 1: more than 50 collections inside each other"),
        ("- " * 1000, "line 1: more than 50 collections inside each other"),
        ("a: [1", "is not a YAML file (line 2: did not find expected ',' or ']')"),
        ("a\n---\nb", "is not a YAML file (line 2: but found another document)"),
        ("\x00", "is not a YAML file (a character that YAML forbids)"),
        ("a: !mine 3", "is not a YAML file (line 1: could not determine a constructor for the tag '!mine')"),
    ],
)
def test_what_is_refused_is_one_line(text, message):
    with pytest.raises(ValueError) as error:
        yaml_file.parse(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "tag", ["binary eA==", "timestamp 2020-01-01", "set {a}", "omap [a: 1]", "python/name:os.x ''"]
)
def test_a_tag_of_no_plain_data_is_refused(tag):
    with pytest.raises(ValueError, match=r"is not a YAML file \(line 1: could not determine a constructor"):
        yaml_file.parse(f"!!{tag}")


def test_files(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: \xff")
    with pytest.raises(ValueError, match=r"^is not a YAML file$"):
        yaml_file.read(file)
    file.write_text("# " + "x" * 200_000)
    with pytest.raises(ValueError, match=r"^is longer than 200000 characters$"):
        yaml_file.read(file)
    with pytest.raises(FileNotFoundError):
        yaml_file.read(tmp_path / "absent.yaml")
