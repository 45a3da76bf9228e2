"""A scenario file as plain data that remembers where each key stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.comments import TaggedScalar
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.representer import SafeRepresenter
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
from netfl.network import files
from netfl.scenario import examples
from netfl.types import check_format

# YAML made into plain data, within limits: a text that is small must not become large, and no text runs anything.
#
# The limits hold before anything is built.  They are far above what a scenario needs, and far below what a machine has.
# JSON is YAML, too, has no aliases, and is read a thousand times as fast: a large text of JSON has no limits but that
# of
# the file, and of depth.  Netfl writes so what is large itself.


MOST_BYTES = 4_000_000
"""The size of a text that is not JSON."""
LARGE = 100_000
"""Characters from which on a text is read as JSON, if it is that; none of its keys has a line then."""
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


@dataclass(frozen=True, slots=True)
class _Wrong:
    """A way in which a text is no YAML.

    Args:
        sign: a pattern that the parser's message matches.
        problem: what is wrong, with ``{sign}`` for the pattern's group and ``{line}`` for where it began.
        remedy: what to do, in the same way.
        where_it_began: whether the line to show is that where the parser began, not that where it gave up.
    """

    sign: str
    problem: str
    remedy: str
    where_it_began: bool = False


_WRONG = (
    _Wrong(r"character '\\t'", "a tab, where YAML takes only spaces", "replace each tab by spaces"),
    _Wrong(r"character (\S+) that cannot", "a text that begins with {sign}", "put the text in quotes"),
    _Wrong(
        "mapping values are not allowed",
        "the line is indented below one that already has a value",
        "align both, or remove the value of the upper one",
    ),
    _Wrong("could not find expected ':'", "a line without 'key: value'", "write a space after the colon", True),
    _Wrong(
        "expected <block end>",
        "the indentation does not fit the block that begins in line {line}",
        "indent all entries of a block alike, and begin each entry of a list with '- '",
    ),
    _Wrong(
        "sequence entries are not allowed",
        "a list that begins where no list can stand",
        "begin the list in the line below its key, each entry with '- '",
    ),
    _Wrong("(?:node content, but found|but got) '<stream end>'", "a bracket is not closed", "close it", True),
    _Wrong(
        r"flow (?:mapping|sequence) expected ',' or '(.)'",
        "no comma, or no '{sign}' that closes the bracket of line {line}",
        "put commas between the entries, and close the bracket",
    ),
    _Wrong(
        r"the node content, but found '(.+)'", "'{sign}' where a value is wanted", "give a value, or put it in quotes"
    ),
    _Wrong("quoted scalar found unexpected", "a quote is not closed", "end the text with the same quote", True),
    _Wrong(
        "undefined alias '(.*)'",
        "a text that begins with '*', or an alias of no anchor &{sign}",
        "put the text in quotes",
    ),
    _Wrong("scanning an (?:alias|anchor)", "a text that begins with '*' or '&'", "put the text in quotes"),
    _Wrong("single document", "a second document, after a line '---'", "put each scenario into a file of its own"),
    _Wrong(
        "unknown escape character (.+)",
        "a backslash before {sign} in double quotes",
        "use single quotes, or write '\\\\'",
    ),
)
"""What the parser's messages mean for whoever wrote the text; the first that matches counts."""
_SECOND_COLON = ("a second ': ' in one line", "put a text that has a colon in quotes, or begin a new line")
_KEY_TWICE = re.compile(r'found duplicate key "(.*?)" with value')
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
    found = _json(text) if len(text) >= LARGE and text.startswith("{") else None
    if found is not None:
        if _is_too_deep(found):
            _refuse(name, f"more than {MOST_DEPTH} levels deep", "write it flatter")
        return found
    try:
        _Vetting(name).see(text)
        with _sense():
            found = YAML(typ="rt" if lines else "safe", pure=True).load(text)
        _Unfolding(name).see(found)
    except DuplicateKeyError as error:
        place = f"{name}:{error.problem_mark.line + 1}" if error.problem_mark else name
        key = _KEY_TWICE.match(str(error.problem))
        raise ScenarioError(
            [Fault("", "a key stands here twice", key and key[1], "leave one of them", place)]
        ) from None
    except MarkedYAMLError as error:
        raise ScenarioError([_explained(error, text, name)]) from None
    except TypeError:
        raise ScenarioError([Fault("", "a list or a mapping as a key", None, "keys are texts", name)]) from None
    except (YAMLError, ValueError, RecursionError) as error:
        remedy = "remove control characters, and save the file as UTF-8 text"
        raise ScenarioError([Fault("", f"not YAML: {str(error).splitlines()[0]}", None, remedy, name)]) from None
    return found


def _json(text: str) -> Any:
    """What *text* says as JSON; ``None`` if it is none, or says a key twice, which the reader of YAML then explains."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            raise ValueError("a key stands here twice")
        return made

    def refuse_constant(word: str) -> NoReturn:
        raise ValueError(f"{word} is no JSON")

    try:
        return json.loads(text, object_pairs_hook=distinct, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return None


def _is_too_deep(value: Any) -> bool:
    """Whether mappings and lists stand in each other beyond `MOST_DEPTH`; looked through level by level."""
    level = [value]
    for _ in range(MOST_DEPTH):
        entries = (entry for one in level for entry in (one.values() if isinstance(one, dict) else one))
        level = [entry for entry in entries if isinstance(entry, dict | list)]
    return bool(level)


def _explained(error: MarkedYAMLError, text: str, name: str) -> Fault:
    """The fault of a text that is no YAML, in words that need no knowledge of how YAML is read."""
    said, lines = " ".join(str(part) for part in (error.context, error.problem) if part), text.split("\n")
    at = error.problem_mark or error.context_mark
    began = error.context_mark or at
    known = next(((one, found) for one in _WRONG if (found := re.search(one.sign, said))), None)
    if known is None:
        problem, remedy, mark = f"not YAML: {said}", "check the punctuation, and put texts with signs in quotes", at
    else:
        wrong, found = known
        mark = began if wrong.where_it_began else at
        named = {"sign": found[1] if found.groups() else "", "line": began.line + 1 if began else 0}
        problem, remedy = wrong.problem.format_map(named), wrong.remedy.format_map(named)
        if "mapping values" in wrong.sign and mark and ": " in lines[mark.line][: mark.column]:
            problem, remedy = _SECOND_COLON
    number = min(mark.line if mark else 0, len(lines) - 1)
    while number and not lines[number].strip():  # the end of a text is told at its last line
        number -= 1
    place = f"{name}:{number + 1}" if mark and not name.startswith("--") else name
    return Fault("", problem, lines[number].strip() or None, remedy, place)


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


@dataclass
class ScenarioDocument:
    """What a scenario says, and where; where it was said makes no difference between two scenarios.

    Args:
        data: the mapping, of plain dictionaries, lists and scalars.
        name: what the document is called in messages.
        places: dotted key → ``file:line``, or the option that set it.
    """

    data: dict[str, Any] = field(default_factory=dict, compare=False)
    name: str = field(default="", compare=False)
    places: dict[str, str] = field(default_factory=dict, compare=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScenarioDocument | None)

    __hash__ = object.__hash__

    def where(self, key: str) -> str:
        """Where *key* stands, or the nearest thing around it that stands somewhere."""
        parts = key.split(".") if key else []
        while parts:
            place = self.places.get(".".join(parts))
            if place:
                return place
            parts.pop()
        return self.name

    def located(self, faults: Sequence[Fault]) -> list[Fault]:
        """The faults with their places filled in, in the order of the file."""
        found = [Fault(one.key, one.problem, one.value, one.remedy, self.where(one.key)) for one in faults]
        order = {place: index for index, place in enumerate(self.places.values())}
        distinct: dict[tuple[str, str], Fault] = {}
        for one in found:
            distinct.setdefault((one.key, one.problem), one)
        return sorted(distinct.values(), key=lambda one: order.get(one.where, -1))

    def put(self, path: str, value: object, place: str) -> None:
        """Set the dotted *path* to *value*, as said by the option *place*.

        Raises:
            ScenarioError: the path leads through something that is no mapping and no list.
        """
        parents, at, last = path.split("."), self.data, path
        for index, part in enumerate(parents):
            last = ".".join(parents[index:])
            if "." not in last or (isinstance(at, dict) and last in at):  # a key may have dots, as those of a sweep
                break
            at = self._into(at, part, ".".join(parents[: index + 1]), place)
        if isinstance(at, list):
            at[self._index(at, last, path, place)] = value
        else:
            at[last] = value
        for known in [key for key in self.places if key == path or key.startswith(path + ".")]:
            del self.places[known]
        self.places[path] = place

    def _into(self, at: Any, part: str, path: str, place: str) -> Any:
        """The container at *part* of *at*, made if there is none; a bare kind becomes a mapping."""
        if isinstance(at, list):
            key: int | str = self._index(at, part, path, place)
        else:
            key = part
            at.setdefault(part, {})
        if isinstance(at[key], str):
            at[key] = {"kind": at[key]}
        if at[key] is None:
            at[key] = {}
        self.places.setdefault(path, place)
        if not isinstance(at[key], dict | list):
            raise ScenarioError([Fault(path, "has no keys below it", at[key], "set it as a whole", place)])
        return at[key]

    @staticmethod
    def _index(at: list[Any], part: str, path: str, place: str) -> int:
        """A list index."""
        if part.isdecimal() and int(part) < len(at):
            return int(part)
        raise ScenarioError([Fault(path, f"no such entry of a list of {len(at)}", part, "entries count from 0", place)])


def read(path: Path) -> ScenarioDocument:
    """Read a scenario file.

    Raises:
        ScenarioError: there is no such file, it is not a YAML mapping, or its format is newer than this netfl.
    """
    try:
        text = files.read_text(path)
    except FileNotFoundError:
        raise _no(path, "there is no such file", examples.remedy(path)) from None
    except UnicodeDecodeError as error:
        raise _no(path, f"not a text in UTF-8: {error.reason} at byte {error.start}", "is it a YAML file?") from None
    except OSError as error:
        raise _no(path, f"cannot be read: {error.strerror}", "check the path and its permissions") from None
    content = parse(text, str(path))
    if content is None:
        raise _no(path, "the file is empty", "start from a scenario of netfl's: netfl scenarios")
    if not isinstance(content, Mapping):
        what = "a list" if isinstance(content, list) else "one value"
        raise _no(path, f"holds {what}, not a mapping of keys to values", "write 'key: value' lines")
    places = {".".join(keys): f"{path}:{line + 1}" for keys, line in _lines(content, ())}
    check_format(content.get("format"), places.get("format", str(path)))
    return ScenarioDocument(plain_value(content), str(path), places)


class _Representer(SafeRepresenter):
    """Puts every text in quotes that is not plainly a word: the library leaves out some that flow style needs."""

    def text(self, text: str) -> Any:
        """A text as a node."""
        style = None if re.fullmatch(r"[A-Za-z][\w.-]*", text, re.ASCII) else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Representer.add_representer(str, _Representer.text)


def dump(data: Mapping[str, Any]) -> str:
    """*data* as YAML that `read` reads back; what is large as JSON, one line for each key.

    Raises:
        ScenarioError: it is larger than any file that is read.
    """
    lines = _json_lines(data)
    if len(lines) >= LARGE:
        if (size := len(lines.encode())) > files.MAX_BYTES - 10:
            problem = f"takes {size / 1e6:.3g} MB as text, and {files.MAX_BYTES / 1e6:g} MB can be read back"
            remedy = "put long lists into files, such as tables of positions or of availability"
            raise ScenarioError([Fault("", f"the scenario {problem}", None, remedy)])
        return f"{{\n{lines}\n}}\n"
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 110
    out = StringIO()
    yaml.dump(dict(data), out)
    return out.getvalue()


def _json_lines(data: Mapping[str, Any]) -> str:
    """*data* as JSON, one line for each key; empty where it holds what only YAML can say: infinities and dates."""
    said = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    try:
        return ",\n".join(f"{said(key)}: {said(entry)}" for key, entry in data.items())
    except (TypeError, ValueError):
        return ""


def plain_value(value: Any) -> Any:
    """A YAML value as plain dictionaries, lists and scalars, without the reader's own types."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain_value(entry) for entry in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return str(value.value) if isinstance(value, TaggedScalar) else value  # '=', of which YAML 1.1 thought more


def _lines(value: Any, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each dotted key below *value* with its line, in the order of the file."""
    if not (isinstance(value, Mapping | list) and hasattr(value, "lc")):  # a scalar, or read as JSON
        return
    for key, entry in value.items() if isinstance(value, Mapping) else enumerate(value):
        line = (value.lc.data or {}).get(key, [value.lc.line])[0]
        keys = (*above, str(key))
        yield keys, line
        yield from _lines(entry, keys)


def _no(path: Path, problem: str, remedy: str) -> ScenarioError:
    """A fault of the whole file."""
    return ScenarioError([Fault("", problem, None, remedy, str(path))])
