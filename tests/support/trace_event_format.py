"""A schema of the used part of the Trace Event Format (Duca and Sinclair)."""

from collections import defaultdict
from itertools import pairwise

import jsonschema

_TRACK = {"pid": {"type": "integer", "minimum": 1}, "tid": {"type": "integer", "minimum": 0}}
_TIME = {"type": "number", "minimum": 0}
_VALUES = {"type": "object", "additionalProperties": {"type": "number"}}
_NAME = {"type": "string", "minLength": 1}


def _event(phase, required, **properties):
    fields = {"ph": {"const": phase}, "name": _NAME, "cat": _NAME, **_TRACK, "args": {"type": "object"}, **properties}
    return {
        "type": "object",
        "properties": fields,
        "required": ["ph", "name", "pid", "tid", *required],
        "additionalProperties": False,
    }


def _metadata(name, properties):
    return _event(
        "M",
        ["args"],
        name={"const": name},
        args={"type": "object", "properties": properties, "required": [*properties]},
    )


SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["traceEvents"],
    "additionalProperties": False,
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
        "traceEvents": {
            "type": "array",
            "items": {
                "oneOf": [
                    _event("X", ["ts", "dur"], ts=_TIME, dur=_TIME),
                    _event("C", ["ts", "args"], ts=_TIME, args=_VALUES),
                    _event("s", ["ts", "id", "cat"], ts=_TIME, id={"type": "integer"}),
                    _event("t", ["ts", "id", "cat"], ts=_TIME, id={"type": "integer"}),
                    _event("f", ["ts", "id", "cat"], ts=_TIME, id={"type": "integer"}, bp={"const": "e"}),
                    _metadata("process_name", {"name": _NAME}),
                    _metadata("thread_name", {"name": _NAME}),
                    _metadata("process_sort_index", {"sort_index": {"type": "integer"}}),
                    _metadata("thread_sort_index", {"sort_index": {"type": "integer"}}),
                ]
            },
        },
    },
}


class Trace:
    """A validated trace: it fits the format, slices of a track do not overlap, and arrows end at slices.

    Attributes:
        slices: by group and track, in order: name, begin and end in whole nanoseconds, arguments.
        arrows: for each arrow, the group, track and name of the slices that it touches.
        counters: times and values by name.
    """

    def __init__(self, content):
        jsonschema.Draft202012Validator(SCHEMA).validate(content)
        events = content["traceEvents"]
        groups = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        tracks = {
            (event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"
        }
        assert len({*tracks.values()}) <= len(tracks) == len({number for _, number in tracks})
        self.other = content["otherData"]
        self.slices, self.counters = defaultdict(list), defaultdict(list)
        beginnings, arrows = defaultdict(list), defaultdict(list)
        for event in events:
            place = event["pid"], event["tid"]
            begin = round(event.get("ts", 0) * 1000)
            if event["ph"] == "X":
                named = groups[place[0]], tracks[place]
                self.slices[named].append((event["name"], begin, begin + round(event["dur"] * 1000), event["args"]))
                beginnings[place, begin].append((*named, event["name"]))
            elif event["ph"] == "C":
                self.counters[event["name"]].append((event["ts"] / 1e6, event["args"]["value"]))
            elif event["ph"] in "stf":
                arrows[event["id"]].append((event["ph"], place, begin))
        for own in self.slices.values():
            own.sort(key=lambda event: event[1:3])
            assert all(event[2] <= other[1] for event, other in pairwise(own))
        for own in arrows.values():
            assert "".join(phase for phase, *_ in own) == "s" + "t" * (len(own) - 2) + "f"
            assert [begin for *_, begin in own] == sorted(begin for *_, begin in own)
        self.arrows = [[beginnings[place, begin][-1] for _, place, begin in own] for own in arrows.values()]

    def of(self, group, name=""):
        """Return the lengths in seconds of the slices of a group, or of those with a name."""
        return [
            (end - begin) / 1e9
            for (own, _), slices in self.slices.items()
            for called, begin, end, _ in slices
            if own == group and (not name or called == name)
        ]
