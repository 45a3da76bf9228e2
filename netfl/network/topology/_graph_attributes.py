"""Attributes of nodes and links in graph files: names of several programs, units, and contradictions.

A **property** is a rate, a delay, a length or a coordinate.  An attribute states it by its name, in any case and with
any separator: ``bandwidth``, ``link_speed``, ``LinkSpeed``.  Its unit is, in this order,

- that of a quantity, such as ``1 Gbps``, or of a rate such as ``10G``;
- for ``ifSpeed`` bit/s, and for ``ifHighSpeed`` Mbit/s (K. McCloghrie, F. Kastenholz, RFC 2863, 2000);
- the last word of its name: ``capacity_mbps``, ``delayMs``;
- an attribute beside it with ``Unit`` or ``Units`` added, such as ``LinkSpeedUnits`` of the Topology Zoo;
- an attribute of the graph such as ``capacity_unit``, ``delay_unit`` and ``distance_unit`` of FNSS.

A number without a unit is an error, but for ``LinkSpeed``, which is then not read, as some files of the Topology Zoo
have it so.  Attributes of one property that contradict each other are an error.

S. Knight et al., "The Internet Topology Zoo", IEEE JSAC 29(9), 2011.  L. Saino, C. Cocora, G. Pavlou, "A toolchain for
simplifying network simulation setup", SIMUTOOLS 2013 (FNSS).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from netfl.files.cells import is_number, parse_quantity
from netfl.units import to_si

_TOLERANCE = 0.01
"""Relative difference of two values that counts as rounding: 2.5 Gbps beside 2488320000 bit/s of an OC-48."""
_WORD = re.compile(r"[A-Z]*[a-zµμ]+|[A-Z]+|[0-9]+")
_LABEL = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KkMGT]?)(?:bps|bit/s|bits/s|b/s)?")
"""A rate in a label, such as ``10 Gbps``, ``155 Mbit/s`` and ``10G``."""
_SHORT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KkMGT])")
"""A rate without its unit, such as ``10G``."""
_MAX_LISTED = 8

LINK_NOTES = frozenset(
    ["color", "id", "key", "label", "linklabel", "linknote", "linktype", "name", "style", "type", "width"]
)
"""Attributes of links that describe them for people, which are not read, but for a rate in a label."""
NODE_NOTES = frozenset(
    [
        "asn",
        "color",
        "country",
        "doubted",
        "hyperedge",
        "id",
        "internal",
        "label",
        "name",
        "role",
        "shape",
        "size",
        "type",
    ],
)
"""Attributes of nodes that describe them for people, and those that are read by their exact names."""


@dataclass(frozen=True, slots=True)
class Property:
    """A quantity that attributes of files state by several names.

    Args:
        words: its name in a message, with an article.
        unit: its SI unit; empty for numbers alone.
        names: names of attributes in lower case, without separators.
        units: units by the last word of a name, or by an attribute that states the unit, in lower case.
        prefixes: further units by an attribute that states the unit, such as ``G`` in ``LinkSpeedUnits``.
        fixed: units of names that a standard or a program defines with their unit.
    """

    words: str
    unit: str
    names: frozenset[str]
    units: Mapping[str, str]
    prefixes: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)


_RATE_UNITS = {
    f"{prefix.lower()}{unit}": f"{prefix}bit/s"
    for prefix in ("", "k", "M", "G", "T")
    for unit in ("bps", "bit/s", "bits/s", "b/s", "bit", "bits")
}
RATE = Property(
    "a rate",
    "bit/s",
    frozenset(
        [
            "bandwidth",
            "bitrate",
            "bw",
            "capacity",
            "datarate",
            "linkbandwidth",
            "linkcapacity",
            "linkrate",
            "linkspeed",
            "maxbandwidth",
            "maxbitrate",
            "maxcapacity",
            "maxrate",
            "rate",
            "speed",
        ]
    ),
    _RATE_UNITS,
    prefixes={prefix.lower(): f"{prefix}bit/s" for prefix in ("k", "M", "G", "T")},
    fixed={"linkspeedraw": "bit/s", "ifspeed": "bit/s", "ifhighspeed": "Mbit/s"},
)
DELAY = Property(
    "a delay",
    "s",
    frozenset(["delay", "latency", "linkdelay", "linklatency", "propagationdelay", "propdelay"]),
    {"s": "s", "sec": "s", "ms": "ms", "msec": "ms", "us": "us", "µs": "us", "μs": "us", "usec": "us", "ns": "ns"},
)
LENGTH = Property(
    "a length",
    "m",
    frozenset(["dist", "distance", "length", "linklength"]),
    {"m": "m", "km": "km"},
)
WEIGHT = Property("a weight", "", frozenset({"weight"}), {})
X = Property("a coordinate", "m", frozenset({"x"}), {"m": "m", "km": "km"})
Y = Property("a coordinate", "m", frozenset({"y"}), {"m": "m", "km": "km"})
LATITUDE = Property("a latitude", "", frozenset({"lat", "latitude"}), {})
LONGITUDE = Property("a longitude", "", frozenset({"lon", "lng", "long", "longitude"}), {})

LINK_PROPERTIES = (RATE, DELAY, LENGTH, WEIGHT)
NODE_PROPERTIES = (X, Y, LATITUDE, LONGITUDE)
_BARE = frozenset({"x", "y"})
"""Names that need a unit in the name, as drawings of graphs use them without."""


@dataclass(frozen=True, slots=True)
class Source:
    """An attribute that states a property: its name, its value in the file, and this value in the SI unit."""

    name: str
    text: str
    value: float


def read_property(
    wanted: Property, attributes: Mapping[str, Any], graph: Mapping[str, Any], *, with_label: bool = False
) -> Source | None:
    """Return a property of a node or link; ``None`` if no attribute states it.

    Args:
        wanted: the property.
        attributes: the attributes of the node or link.
        graph: the attributes of the graph, which may state units.
        with_label: whether a label of a link counts, too.

    Raises:
        ValueError: a value is no number or quantity, has no unit, or contradicts another.
    """
    sources = []
    for name, value in attributes.items():
        if not _is_given(value) or not states(wanted, name):
            continue
        if not _is_unitless_speed(name, attributes):
            sources.append(Source(name, str(value), _to_unit(wanted, name, value, attributes, graph)))
    sources.sort(key=lambda source: not _has_unit(wanted, source.name))  # names with a unit first
    if with_label:
        sources += _label_rates(attributes)
    if not sources:
        return None
    first = sources[0]
    for other in sources[1:]:
        if abs(other.value - first.value) > _TOLERANCE * max(abs(other.value), abs(first.value)):
            raise ValueError(f"{first.name} {first.text} and {other.name} {other.text} contradict each other")
    return first


def states(wanted: Property, name: str) -> bool:
    """Return whether an attribute of this name states the property."""
    words = _words(name)
    folded = "".join(words)
    if folded in wanted.fixed or _has_unit(wanted, name):
        return True
    return folded in wanted.names and folded not in _BARE


def graph_units(graph: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a graph that state units, such as ``capacity_unit``."""
    return {name: value for name, value in graph.items() if _unit_owner(name)}


def unread_attributes(parts: Iterable[Mapping[str, Any]], known: tuple[Property, ...], notes: frozenset[str]) -> str:
    """Return the attributes of nodes or links that are not read, with the number of parts that have them.

    Args:
        parts: the attributes of each node or link.
        known: the properties that are read.
        notes: attributes that are no properties, in lower case without separators.
    """
    counts = Counter(
        str(name)
        for attributes in parts
        for name, value in attributes.items()
        if _is_given(value) and (not _is_known(str(name), known, notes) or _is_unitless_speed(name, attributes))
    )
    listed = [f"{name} ({count})" for name, count in sorted(counts.items())[:_MAX_LISTED]]
    if len(counts) > _MAX_LISTED:
        listed.append(f"{len(counts) - _MAX_LISTED} more")
    return ", ".join(listed)


def _is_unitless_speed(name: str, attributes: Mapping[str, Any]) -> bool:
    """Return whether an attribute is a ``LinkSpeed`` of the Topology Zoo without its ``LinkSpeedUnits``."""
    if "".join(_words(name)) != "linkspeed" or not is_number(attributes[name]):
        return False
    return not any(_unit_owner(other) == "linkspeed" and _is_given(value) for other, value in attributes.items())


def _is_known(name: str, known: tuple[Property, ...], notes: frozenset[str]) -> bool:
    if "".join(_words(name)) in notes or any(states(wanted, name) for wanted in known):
        return True
    owner = _unit_owner(name)
    return any(owner in wanted.names for wanted in known)


def _is_given(value: object) -> bool:
    """Return whether *value* is one: not null, not NaN, and no text of blanks."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return False
    return not (isinstance(value, float) and math.isnan(value))


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case.

    >>> _words("LinkSpeedRaw"), _words("delay_ms"), _words("RATE_BPS"), _words("bandwidthMbps")
    (['link', 'speed', 'raw'], ['delay', 'ms'], ['rate', 'bps'], ['bandwidth', 'mbps'])
    """
    return [word.lower() for word in _WORD.findall(str(name))]


def _has_unit(wanted: Property, name: str) -> bool:
    """Return whether the last word of a name is a unit of the property that the other words name."""
    words = _words(name)
    return "".join(words[:-1]) in wanted.names and words[-1] in wanted.units


def _unit_owner(name: str) -> str:
    """Return the name of the attribute whose unit an attribute states; empty if it states none."""
    words = _words(name)
    if len(words) > 1 and words[-1] in {"unit", "units"}:
        return "".join(words[:-1])
    return ""


def _to_unit(
    wanted: Property, name: str, value: object, attributes: Mapping[str, Any], graph: Mapping[str, Any]
) -> float:
    """Return the value of an attribute in the SI unit.

    Raises:
        ValueError: it is none, or has no unit.
    """
    words = _words(name)
    folded = "".join(words)
    unit = wanted.unit
    if wanted.unit and is_number(value):
        if folded in wanted.fixed:
            unit = wanted.fixed[folded]
        elif _has_unit(wanted, name):
            unit = wanted.units[words[-1]]
        else:
            unit = _stated_unit(wanted, folded, attributes, graph)
    elif wanted.prefixes and (short := _SHORT.fullmatch(str(value).strip())):
        value, prefix = short.groups()
        unit = wanted.prefixes[prefix.lower()]
    if not unit and wanted.unit:
        raise ValueError(f"{name} {value!r} has no unit")
    try:
        if unit != wanted.unit:
            return to_si(f"{value} {unit}", wanted.unit)
        return parse_quantity(value, wanted.unit)
    except ValueError as error:
        raise ValueError(f"{name} {value!r} is {error}") from None


def _stated_unit(wanted: Property, owner: str, attributes: Mapping[str, Any], graph: Mapping[str, Any]) -> str:
    """Return the unit that another attribute states for the numbers of *owner*; empty without one.

    Raises:
        ValueError: it is no unit of this property.
    """
    for stated_by in (attributes, graph):
        for name, value in stated_by.items():
            stated_for = _unit_owner(name)
            is_meant = stated_for == owner or (stated_by is graph and stated_for in wanted.names)
            if not is_meant or not _is_given(value):
                continue
            written = str(value).strip().lower()
            unit = wanted.units.get(written) or wanted.prefixes.get(written)
            if unit is None:
                raise ValueError(f"{name} {value!r} is no unit of {wanted.words[2:]}")
            return unit
    return ""


def _label_rates(attributes: Mapping[str, Any]) -> Iterator[Source]:
    """Yield the rate in a label of the Topology Zoo, such as ``10 Gbps``; other labels are text."""
    for name, value in attributes.items():
        if "".join(_words(name)) != "linklabel":
            continue
        label = _LABEL.fullmatch(str(value).strip())
        if label is not None and not is_number(value):
            number, prefix = label.groups()
            yield Source(name, repr(value), to_si(f"{number} {prefix.replace('K', 'k')}bit/s", "bit/s"))
