"""Checks of a YAML text before it becomes data: each error has the line and the dotted key of what is wrong.

YAML allows more than a scenario has: keys that are lists or nothing, aliases inside of what they stand for, tags of
other types, and nesting without end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from ruamel.yaml.composer import Composer
from ruamel.yaml.events import Event
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

MAX_DEPTH = 100
"""Most levels of lists and mappings inside of one another."""
MAX_VALUES = 250_000
"""Most keys and values of a YAML text; nested aliases can make memory-filling data of a short one."""
MAX_KEYS = 10_000
"""Most keys of a section; positions and routes have one for each node, and thousands belong into files of their own."""
MAX_TOP_KEYS = 1_000
"""Most keys outside of all sections; a scenario has fewer than fifty."""
_TAGS = "tag:yaml.org,2002:"
_SCALARS = ("str", "int", "float", "bool", "null", "merge")
_NUMBERS = {"int": "a whole number", "float": "a number", "bool": "true or false", "null": "null"}


class YamlNodeError(ValueError):
    """Something that no scenario has.

    Args:
        node: the place, a node or the event that begins it.
        path: the keys that lead there.
        problem: the problem in words.
        remedy: what to do.
    """

    def __init__(self, node: Node | Event, path: tuple[str, ...], problem: str, remedy: str) -> None:
        self.line = node.start_mark.line + 1
        self.key = ".".join(path)
        self.problem = problem
        self.remedy = remedy
        super().__init__(problem)


class LimitedComposer(Composer):
    """Composer of nodes that refuses a section with too many keys as soon as it meets the first in excess.

    ruamel.yaml parses 25,000 keys a second, and each unknown key is searched in all sections.
    """

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self._path: list[str] = []

    def compose_node(self, parent: Node | None, index: Node | int | None) -> Node:
        """Return the next node: a key of the mapping *parent* without *index*, else the value of that key or place."""
        if isinstance(parent, MappingNode) and index is None:
            self._check_count(len(parent.value))
        if not isinstance(index, Node):
            return cast(Node, super().compose_node(parent, index))
        self._path.append(str(index.value))
        node = cast(Node, super().compose_node(parent, index))
        self._path.pop()
        return node

    def _check_count(self, keys: int) -> None:
        if self._path and keys == MAX_KEYS:
            problem = f"more than {keys:,} keys"
            remedy = "check that it is a section, or write the file as JSON"
        elif not self._path and keys == MAX_TOP_KEYS:
            problem = f"more than {keys:,} keys outside of all sections"
            remedy = "check that the file is a scenario"
        else:
            return
        raise YamlNodeError(self.parser.peek_event(), tuple(self._path), problem, remedy)


class NodeCheck:
    """Check of all nodes of a text, which also gives keys the texts that they have in data.

    A key that is written as a number is the text of that number, so that ``2``, ``"2"`` and ``0x2`` are one key.

    Args:
        patterns: the patterns of plain values, by the names of their tags.
    """

    def __init__(self, patterns: Mapping[str, list[re.Pattern[str]]]) -> None:
        self._patterns = patterns
        self._checked: dict[int, tuple[int, int]] = {}  # values and levels of a node, with aliases written out
        self._around: set[int] = set()  # the nodes around the present one

    def check(self, node: Node, path: tuple[str, ...] = (), before: Node | None = None) -> tuple[int, int]:
        """Check a node and all below it.

        Args:
            node: the node; that of an alias is in the line of its anchor.
            path: the keys that lead to the node.
            before: its key, or the list around it, which is in its own line.

        Returns:
            The number of its keys and values, and of its levels, with aliases written out.

        Raises:
            YamlNodeError: it is nothing that a scenario has.
        """
        place = before or node
        if id(node) in self._around:
            raise YamlNodeError(place, path, "an alias is inside of what it stands for", "write the values out")
        if id(node) not in self._checked:
            _check_depth(place, path, 0)
            self._check_tag(node, path)
            self._around.add(id(node))
            self._checked[id(node)] = self._check_parts(node, path)
            self._around.remove(id(node))
        values, levels = self._checked[id(node)]
        _check_depth(place, path, levels)
        if values > MAX_VALUES:
            raise YamlNodeError(place, path, f"more than {MAX_VALUES:,} keys and values", "use fewer aliases")
        return values, levels

    def _check_parts(self, node: Node, path: tuple[str, ...]) -> tuple[int, int]:
        """Check what is in *node*; return its values and levels."""
        parts = []
        if isinstance(node, MappingNode):
            node.value = [(self._normalised_key(key, path), value) for key, value in node.value]
            _check_distinct(node, path)
            parts = [self.check(value, (*path, key.value), key) for key, value in node.value]
            keys = len(parts)
        elif isinstance(node, SequenceNode):
            parts = [self.check(value, (*path, str(index)), node) for index, value in enumerate(node.value)]
            keys = 0
        else:
            return 1, 0
        values_below = sum(values for values, _ in parts)
        levels_below = max((levels for _, levels in parts), default=0)
        return 1 + keys + values_below, 1 + levels_below

    def _normalised_key(self, key: Node, path: tuple[str, ...]) -> Node:
        """Return the node of a key as that of a text, or a merge key as it is."""
        if not isinstance(key, ScalarNode):
            what = "a list" if isinstance(key, SequenceNode) else "a mapping"
            remedy = "write a name before the colon, and quote values that contain [ or {"
            raise YamlNodeError(key, path, f"{what} is used as a key", remedy)
        self._check_tag(key, path)
        tag = str(key.tag).removeprefix(_TAGS)
        if tag == "merge":
            return key
        if tag == "null":
            raise YamlNodeError(
                key, path, f"a key is empty ({key.value or 'nothing'})", "write a name before the colon"
            )
        text = key.value
        if tag == "int":
            text = str(_integer(text))
        return ScalarNode(f"{_TAGS}str", text, key.start_mark, key.end_mark)

    def _check_tag(self, node: Node, path: tuple[str, ...]) -> None:
        """Refuse a tag of another type, or one that the value contradicts."""
        tag = str(node.tag)
        name = tag.removeprefix(_TAGS)
        expected: tuple[str, ...] = _SCALARS
        if isinstance(node, MappingNode):
            expected = ("map",)
        elif isinstance(node, SequenceNode):
            expected = ("seq",)
        if name not in expected:
            shown = tag.replace(_TAGS, "!!")
            raise YamlNodeError(node, path, f"the tag {shown} is not one of this value", "leave the tag out")
        if name in _NUMBERS and not any(pattern.match(node.value) for pattern in self._patterns[name]):
            problem = f"the tag !!{name} says that this is {_NUMBERS[name]}, but it is '{node.value}'"
            raise YamlNodeError(node, path, problem, "leave the tag out")


def _check_depth(place: Node, path: tuple[str, ...], levels: int) -> None:
    if len(path) + levels > MAX_DEPTH:
        problem = f"more than {MAX_DEPTH} lists and mappings are inside of one another"
        raise YamlNodeError(place, path[:3], problem, "check the brackets and the aliases")


def _check_distinct(node: MappingNode, path: tuple[str, ...]) -> None:
    """Refuse a key that a mapping has twice, such as ``2`` and ``"2"``."""
    lines: dict[str, int] = {}
    for key, _ in node.value:
        if key.value in lines and key.tag == f"{_TAGS}str":
            problem = f"the key '{key.value}' is in line {lines[key.value]} already"
            raise YamlNodeError(key, (*path, key.value), problem, "leave one of them out")
        lines.setdefault(key.value, key.start_mark.line + 1)


def _integer(text: str) -> int:
    """Return a whole number in one of the forms of YAML 1.2: decimal, ``0o17`` or ``0xf``."""
    for prefix, base in (("0o", 8), ("0x", 16)):
        if text.startswith(prefix):
            return int(text.removeprefix(prefix), base)
    return int(text)
