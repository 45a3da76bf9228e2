"""Scenario files as plain data with the line of each key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.representer import SafeRepresenter
from ruamel.yaml.resolver import VersionedResolver

from netfl import files
from netfl.core.formats import check_format
from netfl.core.remedies import call
from netfl.errors import Fault, ScenarioError
from netfl.files.json_documents import RepeatedKeyError, parse_json
from netfl.scenario.path_errors import SCENARIO, find_place, wrong_path
from netfl.scenario.renamed_keys import present_path, with_present_names
from netfl.scenario.yaml_nodes import MAX_DEPTH, LimitedComposer, NodeCheck, YamlNodeError

MAX_BYTES = 4_000_000
"""Largest YAML text that is read.  JSON is YAML, too, and is read a thousand times as fast, without this limit."""
JSON_FROM = 100_000
"""Texts of at least this many characters are read as JSON if they are; their keys then have no lines."""

_PLAIN_VALUES = (
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]{1,4000}|0o[0-7]{1,4000}|0x[0-9a-fA-F]{1,3000}", "-+0123456789"),
    ("float", r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("merge", "<<", "<"),
)
"""Values without quotes by the core schema of YAML 1.2 (section 10.3.2), and merge keys: the tag, the pattern, and the
characters that can begin it.  Longer integers remain text, since Python does not convert them."""


class _CoreResolver(VersionedResolver):
    """Resolver by the core schema alone, where ruamel.yaml also reads ``1_0`` as 10, ``0b11`` as 3, and dates."""

    versioned_resolver: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


_PATTERNS: Mapping[str, list[re.Pattern[str]]] = MappingProxyType(
    {
        tag: [re.compile(f"(?:{pattern})$") for other, pattern, _ in _PLAIN_VALUES if other == tag]
        for tag in {tag for tag, _, _ in _PLAIN_VALUES}
    }
)
"""Patterns of plain values by the names of their tags."""
for _tag, _pattern, _first in _PLAIN_VALUES:
    _characters = [*_first]
    if _tag == "null":
        _characters.append("")  # ruamel.yaml's key of an empty value
    for _character in _characters:
        _entry = (f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"))
        _CoreResolver.versioned_resolver.setdefault(_character, []).append(_entry)


def parse(text: str, name: str) -> Any:
    """Return *text*, in YAML 1.2, as plain dictionaries, lists and scalars; nothing in it is executed.

    Args:
        text: the YAML.
        name: its name in messages; a name that begins with ``--`` is an option, which has no lines.

    Raises:
        ScenarioError: it is not valid YAML, or is too large.
    """
    return _load(text, name)[0]


def _load(text: str, name: str) -> tuple[Any, dict[str, str]]:
    """Return the data of `parse`, and the place ``file:line`` of each dotted key.

    A scenario that netfl has written gets the present names of its keys.
    """
    content, places = _load_as_written(text, name)
    if isinstance(content, dict) and "format" in content:
        content = with_present_names(content)
        places = {present_path(path): place for path, place in places.items()}
    return content, places


def _load_as_written(text: str, name: str) -> tuple[Any, dict[str, str]]:
    """Return the data of a text, and the place of each dotted key."""
    if len(text) >= JSON_FROM and text.startswith("{"):
        try:
            return parse_json(text), {}
        except RepeatedKeyError as error:
            raise _error(name, f"invalid JSON: {error}", "leave one of them out") from None
        except ValueError:
            pass  # YAML in braces
    if len(text) > MAX_BYTES:
        raise _error(name, f"larger than {MAX_BYTES / 1e6:g} MB", "move large parts to separate files")
    yaml = YAML(typ="safe", pure=True)
    yaml.Resolver = _CoreResolver
    yaml.Composer = LimitedComposer
    yaml.composer.warn_double_anchors = False  # an alias means the last anchor before it (YAML 1.2.2 §7.1)
    try:
        node = yaml.compose(text)
        data = None
        if node is not None:
            NodeCheck(_PATTERNS).check(node)
            data = _copy(yaml.constructor.construct_document(node))
        return data, {".".join(keys): f"{name}:{line + 1}" for keys, line in _lines(node, ())}
    except YamlNodeError as error:
        raise _error(_line_of(name, error.line), error.problem, error.remedy, error.key) from None
    except MarkedYAMLError as error:
        if missing := _missing_colon(text, error):
            number, written = missing
            lacks = "space after the colon" if ":" in written else "colon after the key"
            raise _error(_line_of(name, number), f"no {lacks} ('{written}')", _colon_remedy(written)) from None
        begun = ""
        if error.context_mark:
            begun = f"{error.context} from line {error.context_mark.line + 1} on: "
        place = name
        mark = error.problem_mark or error.context_mark
        if mark:
            place = _line_of(name, mark.line + 1, mark.column + 1)
        remedy = "check indentation, colons, brackets and quotes"
        raise _error(place, f"invalid YAML: {begun}{error.problem}", remedy) from None
    except RecursionError:
        problem = f"more than {MAX_DEPTH} lists and mappings are inside of one another"
        raise _error(_line_of(name, _deep_line(text)), problem, "check the brackets") from None
    except (YAMLError, ValueError, TypeError, AttributeError, LookupError) as error:
        # errors of ruamel.yaml for control characters and odd punctuation
        line = _failing_line(text, error)
        place = _line_of(name, line) if line else name
        reason = str(error).partition("\n")[0]
        raise _error(place, f"invalid YAML: {reason}", "check that it is a text file") from None


def _line_of(name: str, *numbers: int) -> str:
    """Return the place of a line, and perhaps its column; an option has none."""
    if name.startswith("--"):
        return name
    return ":".join([name, *map(str, numbers)])


_KEY_WITHOUT_COLON = re.compile(r"(?P<key>[A-Za-z_][\w.-]*)(?P<sign>\s+|:)?(?P<value>[^\s:#][^:#]*)?")
"""A line with a key and perhaps its value, but without a colon and a space: ``users 4``, ``users:4``, ``access``."""


def _missing_colon(text: str, error: MarkedYAMLError) -> tuple[int, str] | None:
    """Return the number and the text of the line whose missing colon is the cause of *error*, if it is that."""
    lines = text.splitlines()
    number = None
    if "could not find expected ':'" in str(error.problem) and error.context_mark is not None:
        number = error.context_mark.line
    elif "mapping values are not allowed" in str(error.problem) and error.problem_mark is not None:
        above = range(error.problem_mark.line - 1, -1, -1)  # the line with the colon is taken as the end of a value
        number = next((index for index in above if lines[index].strip()), None)
    if number is None or number >= len(lines):
        return None
    line = lines[number].strip()
    match = _KEY_WITHOUT_COLON.fullmatch(line)
    if match is None or (match["value"] and not match["sign"]):
        return None
    return number + 1, line


def _colon_remedy(line: str) -> str:
    """Return how to write a line whose key has no colon."""
    match = _KEY_WITHOUT_COLON.fullmatch(line)
    assert match is not None
    return f"write '{match['key']}: {match['value'] or ''}".rstrip() + "'"


def _deep_line(text: str) -> int:
    """Return the line in which the brackets or indents of *text* are deeper than `MAX_DEPTH`."""
    depth = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        if isinstance(event, CollectionStartEvent):
            depth += 1
        elif isinstance(event, CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            return int(event.start_mark.line) + 1
    return 1


def _failing_line(text: str, error: Exception) -> int:
    """Return the line at which ruamel.yaml fails with an *error* that states none; 0 if that is not known."""
    if isinstance(error, ReaderError):
        return text.count("\n", 0, error.position) + 1
    line = 0
    with suppress(Exception):  # the error again
        for event in YAML(typ="safe", pure=True).parse(text):
            line = int(event.end_mark.line) + 1
    return line


def _copy(value: Any) -> Any:
    """Return *value* with a copy for each alias."""
    if isinstance(value, dict):
        return {key: _copy(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_copy(entry) for entry in value]
    return value


def _lines(node: Node | None, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield each key below *node*, as a path, with its line."""
    if isinstance(node, MappingNode):
        entries = [(str(key.value), key.start_mark.line, entry) for key, entry in node.value]
    elif isinstance(node, SequenceNode):
        entries = [(str(index), entry.start_mark.line, entry) for index, entry in enumerate(node.value)]
    else:
        return
    for key, line, entry in entries:
        yield (*above, key), line
        yield from _lines(entry, (*above, key))


def _error(place: str, problem: str, remedy: str, key: str = "") -> ScenarioError:
    return ScenarioError([Fault(key, problem, None, remedy, place)])


@dataclass
class ScenarioDocument:
    """The content of a scenario file and the lines of its keys.  Two documents are equal wherever they come from.

    Args:
        data: the mapping, of plain dictionaries, lists and scalars.
        name: the name of the document in messages.
        places: dotted key → ``file:line``, or the option that set it.
        paths_set: dotted keys that `put` has set.
    """

    data: dict[str, Any] = field(default_factory=dict, compare=False)
    name: str = field(default="", compare=False)
    places: dict[str, str] = field(default_factory=dict, compare=False)
    paths_set: list[str] = field(default_factory=list, compare=False)

    def where(self, key: str) -> str:
        """Return the place of *key*, or of the nearest section around it that has one."""
        parts = key.split(".") if key else []
        while parts:
            place = self.places.get(".".join(parts))
            if place:
                return place
            parts.pop()
        return self.name

    def written(self, key: str) -> object:
        """Return what the document has at a dotted *key*; ``None`` if it has nothing there."""
        value: object = self.data
        for part in key.split("."):
            if isinstance(value, Mapping):
                value = value.get(part)
            elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
                value = value[int(part)]
            else:
                return None
        return value

    def located(self, faults: Sequence[Fault]) -> list[Fault]:
        """Return the errors with their places, each once, in the order of the file."""
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
        parents = path.split(".")
        last = path
        at: Any = self.data
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
        self.paths_set.append(path)

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
        raise ScenarioError(
            [Fault(path, f"no such entry in a list of {len(at)}", part, "entries are counted from 0", place)]
        )


def read(path: Path) -> ScenarioDocument:
    """Read a scenario file.

    Raises:
        ScenarioError: the file does not exist, it is not a YAML mapping, or its format is newer than this netfl.
    """
    name = str(path)
    try:
        if path.name != SCENARIO and find_place(path) in {"file of a run", "folder", "run", "sweep"}:
            raise ScenarioError([wrong_path(path, "scenario")])
        text = files.read_text(path)
    except FileNotFoundError:
        raise ScenarioError([wrong_path(path, "scenario")]) from None
    except UnicodeDecodeError as error:
        raise _error(
            name, f"not UTF-8 text: {error.reason} at byte {error.start}", "check that it is a YAML file"
        ) from None
    except OSError as error:
        raise _error(name, f"cannot be read: {error.strerror}", "check the path and its permissions") from None
    return read_text(text, name)


def read_text(text: str, name: str) -> ScenarioDocument:
    """Read a scenario in YAML; *name* is its name in messages.

    Raises:
        ScenarioError: it is not a YAML mapping, or its format is newer than this netfl.
    """
    content, places = _load(text, name)
    if content is None:
        raise _error(name, "it is empty", f"start from a scenario of netfl: {call('scenarios')}")
    if not isinstance(content, dict):
        what = "a list" if isinstance(content, list) else "one value"
        raise _error(name, f"holds {what}, not a mapping of keys to values", "write 'key: value' lines")
    check_format(content.get("format"), places.get("format", name))
    return ScenarioDocument(content, name, places)


class _Representer(SafeRepresenter):
    """Representer that quotes every text but plain words, since ruamel.yaml omits quotes that flow style needs."""

    def text(self, text: str) -> Any:
        is_plain = re.fullmatch(r"[A-Za-z][\w.-]*", text, re.ASCII)
        style = None if is_plain else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Representer.add_representer(str, _Representer.text)


def dump(data: Mapping[str, Any]) -> str:
    """Return *data* as YAML that `read` reads back, or as JSON with one line per key if it is large."""
    encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
    lines = ",\n".join(f"{encode(key)}: {encode(entry)}" for key, entry in data.items())
    if len(lines) >= JSON_FROM:
        return f"{{\n{lines}\n}}\n"
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 110
    out = StringIO()
    yaml.dump(dict(data), out)
    return out.getvalue()
