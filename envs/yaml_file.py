"""YAML as this suite reads it: plain data, written once, of a bounded size.

Against YAML's own rules a key may not stand twice in a mapping, nothing refers to anything else (`&a`, `*a`,
`<<`), and a date is text. Every mistake is a ValueError of one line.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from envs.errors import check_is_file

_LARGEST = 200_000
"""Characters of a file."""
_DEEPEST = 50
"""Collections inside each other."""
_LONGEST_NUMBER = 1000
"""Characters of a number; Python refuses to print integers of some thousands of digits."""


def read(path: str | Path) -> Any:
    """The content of a YAML file.

    Raises:
        OSError: for a file that cannot be opened, and for a pipe or a device.
        ValueError: one line, without the file's name.
    """
    check_is_file(Path(path))
    with Path(path).open(encoding="utf-8") as file:
        try:
            text = file.read(_LARGEST + 1)
        except UnicodeDecodeError:
            raise ValueError("is not a YAML file") from None
    if len(text) > _LARGEST:
        raise ValueError(f"is longer than {_LARGEST} characters")
    return parse(text)


def parse(text: str) -> Any:
    """The data that a text in YAML stands for; a ValueError of one line where it stands for nothing."""
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_data()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        if mark is not None and isinstance(error, _Refusal):
            raise ValueError(f"line {mark.line + 1}: {error.problem}") from None
        problem = " ".join(str(getattr(error, "problem", None) or "a character that YAML forbids").split())
        where = f" (line {mark.line + 1}: {problem})" if mark else f" ({problem})"
        raise ValueError(f"is not a YAML file{where}") from None
    finally:
        if loader is not None:
            loader.dispose()


class _Refusal(yaml.constructor.ConstructorError):
    """YAML that is right and that is not read."""

    def __init__(self, problem: str, mark: yaml.Mark) -> None:
        super().__init__(None, None, problem, mark)


if yaml.__with_libyaml__:

    class _Events(yaml.composer.Composer, yaml.cyaml.CParser):
        """Events by libyaml, six times as fast, and nodes of them by the composer that `_Loader` extends."""

        def __init__(self, text: str) -> None:
            yaml.cyaml.CParser.__init__(self, text)

else:  # PyYAML built without libyaml

    class _Events(yaml.composer.Composer, yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):  # type: ignore[no-redef]
        def __init__(self, text: str) -> None:
            yaml.reader.Reader.__init__(self, text)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)


class _Loader(_Events, yaml.constructor.SafeConstructor, yaml.resolver.Resolver):
    def __init__(self, text: str) -> None:
        self._depth = 0
        _Events.__init__(self, text)
        yaml.composer.Composer.__init__(self)
        yaml.constructor.SafeConstructor.__init__(self)
        yaml.resolver.Resolver.__init__(self)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise _Refusal("aliases (*name) are not read; write the value out", self.peek_event().start_mark)
        if self._depth == _DEEPEST:
            raise _Refusal(
                f"more than {_DEEPEST} collections inside each other", self.peek_event().start_mark
            )
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        is_number = isinstance(node, yaml.ScalarNode) and node.tag.endswith((":int", ":float"))
        if is_number and len(node.value) > _LONGEST_NUMBER:
            raise _Refusal(f"a number of more than {_LONGEST_NUMBER} characters", node.start_mark)
        try:
            return super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError):  # `!!int x`, `!!timestamp [1]`
            kind = node.tag.rpartition(":")[2]
            raise _Refusal(f"{str(node.value)[:40]!r} is no {kind}", node.start_mark) from None

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise _Refusal("this is no mapping", node.start_mark)
        mapping: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise _Refusal("a key is a collection; must be text or a number", key_node.start_mark)
            if key in mapping:
                raise _Refusal(f"{str(key)[:60]} is given twice", key_node.start_mark)
            mapping[key] = self.construct_object(value_node, deep=deep)
        return mapping


# Plain data alone: a date is text, and there are no merge keys, sets or bytes.
_Loader.yaml_constructors = {
    tag: make
    for tag, make in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.endswith((":null", ":bool", ":int", ":float", ":str", ":seq", ":map"))
}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
