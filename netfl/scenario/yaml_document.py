"""Scenario files as plain data with the line of each key."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.comments import TaggedScalar
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.representer import SafeRepresenter

from netfl.errors import Fault, ScenarioError
from netfl.network import files
from netfl.scenario import examples
from netfl.types import check_format

MAX_BYTES = 4_000_000
"""Largest YAML text that is read.  JSON is YAML, too, and is read a thousand times as fast, without this limit."""
JSON_FROM = 100_000
"""Texts of at least this many characters are read as JSON if they are; their keys then have no lines."""
MAX_VALUES = 250_000
"""Largest number of keys and values, with every alias written out."""


@dataclass(frozen=True, slots=True)
class _SyntaxHint:
    """Explanation of a parser message.

    Args:
        pattern: a regular expression that the parser's message matches.
        problem: the explanation, with ``{sign}`` for the pattern's group and ``{line}`` for the block's first line.
        remedy: the remedy, with the same fields.
        at_start: show the line where the block began, instead of the line where the parser stopped.
    """

    pattern: str
    problem: str
    remedy: str
    at_start: bool = False


_HINTS = (
    _SyntaxHint(r"character '\\t'", "a tab, where YAML takes only spaces", "replace each tab by spaces"),
    _SyntaxHint(r"character (\S+) that cannot", "a text that begins with {sign}", "put the text in quotes"),
    _SyntaxHint(
        "mapping values are not allowed",
        "the line is indented below one that already has a value",
        "align both, or remove the value of the upper one",
    ),
    _SyntaxHint("could not find expected ':'", "a line without 'key: value'", "write a space after the colon", True),
    _SyntaxHint(
        "expected <block end>",
        "the indentation does not fit the block that begins in line {line}",
        "indent all entries of a block alike, and begin each entry of a list with '- '",
    ),
    _SyntaxHint(
        "sequence entries are not allowed",
        "a list that begins where no list can stand",
        "begin the list in the line below its key, each entry with '- '",
    ),
    _SyntaxHint("(?:node content, but found|but got) '<stream end>'", "a bracket is not closed", "close it", True),
    _SyntaxHint(
        r"flow (?:mapping|sequence) expected ',' or '(.)'",
        "no comma, or no '{sign}' that closes the bracket of line {line}",
        "put commas between the entries, and close the bracket",
    ),
    _SyntaxHint(
        r"the node content, but found '(.+)'", "'{sign}' where a value is wanted", "give a value, or put it in quotes"
    ),
    _SyntaxHint("quoted scalar found unexpected", "a quote is not closed", "end the text with the same quote", True),
    _SyntaxHint(
        "undefined alias '(.*)'",
        "a text that begins with '*', or an alias of no anchor &{sign}",
        "put the text in quotes",
    ),
    _SyntaxHint("scanning an (?:alias|anchor)", "a text that begins with '*' or '&'", "put the text in quotes"),
    _SyntaxHint("single document", "a second document, after a line '---'", "put each scenario into a file of its own"),
    _SyntaxHint(
        "unknown escape character (.+)",
        "a backslash before {sign} in double quotes",
        "use single quotes, or write '\\\\'",
    ),
)
"""Explanations of the parser's messages; the first that matches is used."""
_SECOND_COLON = ("a second ': ' in one line", "put a text that has a colon in quotes, or begin a new line")
_KEY_TWICE = re.compile(r'found duplicate key "(.*?)" with value')


def parse(text: str, name: str, *, lines: bool = True) -> Any:
    """Return *text*, in YAML 1.2, as plain data; nothing in it is executed.

    Args:
        text: the YAML.
        name: its name in messages; a name that begins with ``--`` is an option, which has no lines.
        lines: whether mappings and lists keep their line numbers; reading is faster without.

    Raises:
        ScenarioError: it is not valid YAML, or is too large.
    """
    data = _read_json(text) if len(text) >= JSON_FROM and text.startswith("{") else None
    if data is not None:
        return data
    if len(text) > MAX_BYTES:
        raise _error(name, f"larger than {MAX_BYTES / 1e6:g} MB", "put what is large into a file of its own")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ReusedAnchorWarning)
            data = YAML(typ="rt" if lines else "safe", pure=True).load(text)
        _count_values(data, name, {})
    except ReusedAnchorWarning:
        raise _error(name, "an anchor (&name) stands here twice", "give each its own name") from None
    except DuplicateKeyError as error:
        place = f"{name}:{error.problem_mark.line + 1}" if error.problem_mark else name
        key = _KEY_TWICE.match(str(error.problem))
        raise _error(place, "a key stands here twice", "leave one of them", key and key[1]) from None
    except MarkedYAMLError as error:
        raise ScenarioError([_explain(error, text, name)]) from None
    except TypeError:
        raise _error(name, "a list or a mapping as a key", "keys are texts") from None
    except RecursionError:
        raise _error(name, "nested too deep", "write it flatter") from None
    except (YAMLError, ValueError) as error:
        remedy = "remove control characters, and save the file as UTF-8 text"
        raise _error(name, f"not YAML: {str(error).splitlines()[0]}", remedy) from None
    except (AssertionError, AttributeError, LookupError, NotImplementedError):  # how ruamel.yaml fails on odd texts
        raise _error(name, "not YAML: it cannot be read", "check the punctuation") from None
    return data


def _read_json(text: str) -> Any:
    """Return *text* as JSON; ``None`` if it is not, or has a key twice, which the YAML reader explains."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            raise ValueError("a key stands here twice")
        return mapping

    def refuse_constant(word: str) -> NoReturn:
        raise ValueError(f"{word} is no JSON")

    try:
        return json.loads(text, object_pairs_hook=distinct, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return None


def _explain(error: MarkedYAMLError, text: str, name: str) -> Fault:
    message, lines = " ".join(str(part) for part in (error.context, error.problem) if part), text.split("\n")
    stopped = error.problem_mark or error.context_mark
    began = error.context_mark or stopped
    known = next(((hint, match) for hint in _HINTS if (match := re.search(hint.pattern, message))), None)
    if known is None:
        problem, mark = f"not YAML: {message}", stopped
        remedy = "check the punctuation, and put texts with signs in quotes"
    else:
        hint, match = known
        mark = began if hint.at_start else stopped
        fields = {"sign": match[1] if match.groups() else "", "line": began.line + 1 if began else 0}
        problem, remedy = hint.problem.format_map(fields), hint.remedy.format_map(fields)
        if "mapping values" in hint.pattern and mark and ": " in lines[mark.line][: mark.column]:
            problem, remedy = _SECOND_COLON
    number = min(mark.line if mark else 0, len(lines) - 1)
    while number and not lines[number].strip():  # an error at the end of the text is shown at its last line
        number -= 1
    place = f"{name}:{number + 1}" if mark and not name.startswith("--") else name
    return Fault("", problem, lines[number].strip() or None, remedy, place)


def _count_values(value: Any, name: str, known: dict[int, int | None]) -> int:
    """Return the number of keys and values at and below *value*, with aliases written out.

    Args:
        value: what was read.
        name: its name in messages.
        known: the counts so far by the identity of the mapping or list; ``None`` while it is being counted.

    Raises:
        ScenarioError: they are too many, *value* contains itself, or has a tag.
    """
    if not isinstance(value, Mapping | list):
        if isinstance(value, TaggedScalar) and not value.tag.value.startswith("tag:yaml.org,2002:"):
            raise _error(name, "a YAML tag, which means nothing here", "leave it out")
        return 1
    line = getattr(getattr(value, "lc", None), "line", None)
    place = name if line is None or name.startswith("--") else f"{name}:{line + 1}"
    if getattr(getattr(value, "tag", None), "value", None) is not None:
        raise _error(place, "a YAML tag, which means nothing here", "leave it out")
    if id(value) not in known:
        known[id(value)] = None
        entries = [*value.values()] if isinstance(value, Mapping) else value
        count = 1 + len(value) * isinstance(value, Mapping)
        count += sum(_count_values(entry, name, known) for entry in entries)
        if count > MAX_VALUES:
            remedy = "put tables into files, and use fewer aliases"
            raise _error(place, f"more than {MAX_VALUES} keys and values", remedy)
        known[id(value)] = count
    count_before = known[id(value)]
    if count_before is None:
        raise _error(place, "an alias for what it stands in itself", "write out what is meant")
    return count_before


def _error(place: str, problem: str, remedy: str, value: object = None) -> ScenarioError:
    return ScenarioError([Fault("", problem, value, remedy, place)])


@dataclass
class ScenarioDocument:
    """The content of a scenario file and the lines of its keys.  Two documents are equal wherever they come from.

    Args:
        data: the mapping, of plain dictionaries, lists and scalars.
        name: the name of the document in messages.
        places: dotted key → ``file:line``, or the option that set it.
    """

    data: dict[str, Any] = field(default_factory=dict, compare=False)
    name: str = field(default="", compare=False)
    places: dict[str, str] = field(default_factory=dict, compare=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScenarioDocument | None)

    __hash__ = object.__hash__

    def where(self, key: str) -> str:
        """Return the place of *key*, or of the nearest section around it that has one."""
        parts = key.split(".") if key else []
        while parts:
            place = self.places.get(".".join(parts))
            if place:
                return place
            parts.pop()
        return self.name

    def located(self, faults: Sequence[Fault]) -> list[Fault]:
        """Return the faults with their places, each once, in the order of the file."""
        order = {place: index for index, place in enumerate(self.places.values())}
        distinct: dict[tuple[str, str], Fault] = {}
        for fault in faults:
            located = Fault(fault.key, fault.problem, fault.value, fault.remedy, self.where(fault.key))
            distinct.setdefault((fault.key, fault.problem), located)
        return sorted(distinct.values(), key=lambda fault: order.get(fault.where, -1))

    def put(self, path: str, value: object, place: str) -> None:
        """Set the dotted *path* to *value*, as the option *place* states it.

        Raises:
            ScenarioError: the path leads through a value that is neither a mapping nor a list.
        """
        parents, at, last = path.split("."), self.data, path
        for index, part in enumerate(parents):
            last = ".".join(parents[index:])
            if "." not in last or (isinstance(at, dict) and last in at):  # keys of a sweep have dots themselves
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
        """Return the container at *part* of *at*; create it if needed, and turn a bare kind into a mapping."""
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
        raise _error(str(path), "there is no such file", examples.remedy(path)) from None
    except UnicodeDecodeError as error:
        raise _error(
            str(path), f"not a text in UTF-8: {error.reason} at byte {error.start}", "is it a YAML file?"
        ) from None
    except OSError as error:
        raise _error(str(path), f"cannot be read: {error.strerror}", "check the path and its permissions") from None
    content = parse(text, str(path))
    if content is None:
        raise _error(str(path), "the file is empty", "start from a scenario of netfl's: netfl scenarios")
    if not isinstance(content, Mapping):
        what = "a list" if isinstance(content, list) else "one value"
        raise _error(str(path), f"holds {what}, not a mapping of keys to values", "write 'key: value' lines")
    places = {".".join(keys): f"{path}:{line + 1}" for keys, line in _lines(content, ())}
    check_format(content.get("format"), places.get("format", str(path)))
    return ScenarioDocument(plain_value(content), str(path), places)


class _Representer(SafeRepresenter):
    """Representer that quotes every text but plain words, since ruamel.yaml omits quotes that flow style needs."""

    def text(self, text: str) -> Any:
        style = None if re.fullmatch(r"[A-Za-z][\w.-]*", text, re.ASCII) else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Representer.add_representer(str, _Representer.text)


def dump(data: Mapping[str, Any]) -> str:
    """Return *data* as YAML that `read` reads back, or as JSON with one line per key if it is large.

    Raises:
        ScenarioError: it is larger than the largest file that can be read.
    """
    lines = _json_lines(data)
    if len(lines) >= JSON_FROM:
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
    """Return *data* as JSON, one line per key; empty if it holds infinities or dates, which JSON does not have."""
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    try:
        return ",\n".join(f"{encode(key)}: {encode(entry)}" for key, entry in data.items())
    except (TypeError, ValueError):
        return ""


def plain_value(value: Any) -> Any:
    """Return a YAML value as plain dictionaries, lists and scalars."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain_value(entry) for entry in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return str(value.value) if isinstance(value, TaggedScalar) else value  # '=', which has a tag in YAML 1.1


def _lines(value: Any, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield each key below *value*, as a path, with its line."""
    if not (isinstance(value, Mapping | list) and hasattr(value, "lc")):  # a scalar, or read as JSON
        return
    for key, entry in value.items() if isinstance(value, Mapping) else enumerate(value):
        line = (value.lc.data or {}).get(key, [value.lc.line])[0]
        keys = (*above, str(key))
        yield keys, line
        yield from _lines(entry, keys)
