"""A scenario file as plain data that remembers where each key stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import TaggedScalar
from ruamel.yaml.representer import SafeRepresenter

from netfl import inputs, shipped, yamltext
from netfl.errors import Fault, ScenarioError
from netfl.version import refuse_newer


@dataclass
class Document:
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
        return isinstance(other, Document | None)

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


def read(path: Path) -> Document:
    """Read a scenario file.

    Raises:
        ScenarioError: there is no such file, it is not a YAML mapping, or its format is newer than this netfl.
    """
    try:
        text = inputs.text(path)
    except FileNotFoundError:
        raise _no(path, "there is no such file", shipped.remedy(path)) from None
    except UnicodeDecodeError as error:
        raise _no(path, f"not a text in UTF-8: {error.reason} at byte {error.start}", "is it a YAML file?") from None
    except OSError as error:
        raise _no(path, f"cannot be read: {error.strerror}", "check the path and its permissions") from None
    content = yamltext.parse(text, str(path))
    if content is None:
        raise _no(path, "the file is empty", "start from a scenario of netfl's: netfl scenarios")
    if not isinstance(content, Mapping):
        what = "a list" if isinstance(content, list) else "one value"
        raise _no(path, f"holds {what}, not a mapping of keys to values", "write 'key: value' lines")
    places = {".".join(keys): f"{path}:{line + 1}" for keys, line in _lines(content, ())}
    refuse_newer(content.get("format"), places.get("format", str(path)))
    return Document(plain(content), str(path), places)


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
    if len(lines) >= yamltext.LARGE:
        if (size := len(lines.encode())) > inputs.MOST_BYTES - 10:
            problem = f"takes {size / 1e6:.3g} MB as text, and {inputs.MOST_BYTES / 1e6:g} MB can be read back"
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


def plain(value: Any) -> Any:
    """A YAML value as plain dictionaries, lists and scalars, without the reader's own types."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
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
