"""YAML made into plain data, within limits: a text that is small must not become large, and no text runs anything.

The limits hold before anything is built.  They are far above what a scenario needs, and far below what a machine has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.tokens import (
    AliasToken,
    AnchorToken,
    BlockEndToken,
    BlockMappingStartToken,
    BlockSequenceStartToken,
    FlowMappingEndToken,
    FlowMappingStartToken,
    FlowSequenceEndToken,
    FlowSequenceStartToken,
    KeyToken,
    ScalarToken,
    TagToken,
)

from netfl.errors import Fault, ScenarioError

MOST_BYTES = 4_000_000
"""The size of a file."""
MOST_VALUES = 250_000
"""Keys and values, those that aliases stand for counted each time."""
MOST_DEPTH = 40
"""Mappings and lists within each other."""
MOST_ALIASES = 1_000
"""Aliases (``*name``)."""
MOST_MERGED = 50_000
"""Merge keys (``<<``) times keys and values: the reader of YAML is slow with them."""
MOST_SIGNS = 100_000
"""The length of one text."""
MOST_KEY_SIGNS = 1_000
"""The length of one key."""
MOST_DIGITS = 40
"""The length of a number."""

_OPENING = (BlockMappingStartToken, BlockSequenceStartToken, FlowMappingStartToken, FlowSequenceStartToken)
_CLOSING = (BlockEndToken, FlowMappingEndToken, FlowSequenceEndToken)
_NUMBER = re.compile(r"[-+.]*[0-9][0-9A-Za-z_+.-]*")


def parse(text: str, name: str, *, lines: bool = True) -> Any:
    """*text* as YAML 1.2, by a loader that makes nothing but plain data.

    Args:
        text: the YAML.
        name: what it is called in messages; one that begins with ``--`` is an option, which has no lines.
        lines: whether mappings and lists remember where they stand; it is quicker if not.

    Raises:
        ScenarioError: it is not YAML, or goes beyond a limit.
    """
    try:
        _Vetting(name).see(text)
        with _sense():
            found = YAML(typ="rt" if lines else "safe", pure=True).load(text)
        _Unfolding(name).see(found)
    except DuplicateKeyError as error:
        place = f"{name}:{error.problem_mark.line + 1}" if error.problem_mark else name
        raise ScenarioError([Fault("", "a key stands here twice", None, "leave one of them", place)]) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark and not name.startswith("--") else name
        said = " ".join(str(part) for part in (error.context, error.problem) if part)
        raise ScenarioError([Fault("", f"not YAML: {said}", None, "mind the indentation", place)]) from None
    except TypeError:
        raise ScenarioError([Fault("", "a list or a mapping as a key", None, "keys are texts", name)]) from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise ScenarioError([Fault("", f"not YAML: {str(error).splitlines()[0]}", None, "", name)]) from None
    return found


@contextmanager
def _sense() -> Iterator[None]:
    """What the library runs into, where a text is odd in a way that it does not look for, is a fault of the text."""
    try:
        yield
    except (AssertionError, AttributeError, LookupError, NotImplementedError):
        raise YAMLError("no sense can be made of it") from None


def _tokens(text: str) -> Iterator[Any]:
    """The words of *text*."""
    with _sense():
        yield from YAML(pure=True).scan(text)


class _Vetting:
    """Goes through a text word by word, and stops at the first that goes beyond a limit.

    Args:
        name: what the text is called.
    """

    def __init__(self, name: str) -> None:
        self._name, self._depth, self._values = name, 0, 0
        self._aliases, self._merged = 0, 0
        self._anchors: set[str] = set()

    def see(self, text: str) -> None:
        """Go through *text*.

        Raises:
            ScenarioError: it goes beyond a limit, or holds what no scenario does.
        """
        if len(text) > MOST_BYTES:
            _refuse(self._name, f"larger than {MOST_BYTES / 1e6:g} MB", "put what is large into a file of its own")
        key = False
        for token in _tokens(text):
            problem = self._nested(token) or self._named(token)
            if isinstance(token, ScalarToken):
                self._values += 1
                self._merged += key and token.value == "<<"
                problem = problem or _too_long(token, key=key)
            if problem or self._values > MOST_VALUES:
                said, remedy = problem or (f"more than {MOST_VALUES} keys and values", "put tables into files")
                _refuse(f"{self._name}:{token.start_mark.line + 1}", said, remedy)
            key = isinstance(token, KeyToken)
        if self._merged * self._values > MOST_MERGED:
            _refuse(self._name, f"{self._merged} merge keys in a text of this size", "write out what is merged")

    def _nested(self, token: object) -> tuple[str, str] | None:
        """What is wrong with where *token* stands."""
        self._values += isinstance(token, _OPENING)
        self._depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
        return (f"more than {MOST_DEPTH} levels deep", "write it flatter") if self._depth > MOST_DEPTH else None

    def _named(self, token: Any) -> tuple[str, str] | None:
        """What is wrong with a tag, an anchor or an alias."""
        if isinstance(token, TagToken):
            return "a YAML tag, which means nothing here", "leave it out"
        if isinstance(token, AnchorToken):
            if token.value in self._anchors:
                return f"the anchor &{token.value} stands here a second time", "give each its own name"
            self._anchors.add(token.value)
        self._aliases += isinstance(token, AliasToken)
        return (f"more than {MOST_ALIASES} aliases", "write out some") if self._aliases > MOST_ALIASES else None


class _Unfolding:
    """Counts what values come to when each alias is written out.

    Args:
        name: what the text is called.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[int, tuple[int, int]] = {}
        self._open: set[int] = set()

    def see(self, value: Any) -> tuple[int, int]:
        """How many keys and values there are at and below *value*, and how many levels.

        Raises:
            ScenarioError: they are too many, or *value* holds itself.
        """
        if not isinstance(value, Mapping | list):
            return 1, 0
        one = id(value)
        if one not in self._known:
            if one in self._open:
                _refuse(self._place(value), "an alias for what it stands in itself", "write out what is meant")
            self._open.add(one)
            entries = [*value.values()] if isinstance(value, Mapping) else value
            below = [self.see(entry) for entry in entries]
            self._open.discard(one)
            size = 1 + len(value) * isinstance(value, Mapping) + sum(count for count, _ in below)
            depth = 1 + max((levels for _, levels in below), default=0)
            if size > MOST_VALUES or depth > MOST_DEPTH:
                what = f"{MOST_VALUES} keys and values" if size > MOST_VALUES else f"{MOST_DEPTH} levels"
                _refuse(self._place(value), f"aliases make more than {what} of it", "use fewer")
            self._known[one] = size, depth
        return self._known[one]

    def _place(self, value: Any) -> str:
        """Where *value* stands, if that is known."""
        at = getattr(value, "lc", None)
        return self._name if at is None or at.line is None else f"{self._name}:{at.line + 1}"


def _too_long(token: Any, *, key: bool) -> tuple[str, str] | None:
    """What is wrong with a scalar."""
    size = len(token.value)
    if token.plain and size > MOST_DIGITS and _NUMBER.fullmatch(token.value):
        return f"a number of {size} digits", f"{MOST_DIGITS} are possible; put a text in quotes"
    most = MOST_KEY_SIGNS if key else MOST_SIGNS
    return (f"a {'key' if key else 'text'} of {size} characters", f"{most} are possible") if size > most else None


def _refuse(place: str, problem: str, remedy: str) -> NoReturn:
    """Raise the fault of a text; *place* is a line, which an option has none of."""
    where = place.rpartition(":")[0] if place.startswith("--") and place.rpartition(":")[2].isdecimal() else place
    raise ScenarioError([Fault("", problem, None, remedy, where)])
