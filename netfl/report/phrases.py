"""Figures, names and lists as they stand in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def clock(seconds: float) -> tuple[float, str]:
    """The unit, in seconds and by name, in which a time of this size is easily read.

    >>> clock(5000.0), clock(0.0)
    ((60.0, 'min'), (1.0, 's'))
    """
    for unit, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2.5 * unit:
            return unit, name
    return 1.0, "s"


def axis_unit(what: str, size: float) -> tuple[float, str]:
    """The unit, and with it the name, of what a curve runs over up to *size*: rounds, seconds, bits or joules.

    >>> axis_unit("time", 5000.0), axis_unit("bits", 3e7), axis_unit("round", 20.0)
    ((60.0, 'simulated time (min)'), (1000000.0, 'sent up (Mb)'), (1.0, 'round'))
    """
    if what == "round":
        return 1.0, "round"
    if what == "time":
        unit, name = clock(size)
        return unit, f"simulated time ({name})"
    told, letter = {"bits": ("sent up", "b"), "energy": ("spent by users", "J")}[what]
    scales = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
    unit, prefix = next((one for one in scales if size >= 2.5 * one[0]), scales[-1])
    return unit, f"{told} ({prefix}{letter})"


def percent(share: float) -> str:
    """A share of one in percent, with as many digits as it needs.

    >>> percent(0.0), percent(0.8125), percent(0.0004), percent(float("nan"))
    ('0 %', '81.2 %', '0.04 %', 'no figure')
    """
    if math.isnan(share):
        return "no figure"
    figure = 100.0 * share
    return (
        f"{figure:.0f} %" if figure == round(figure) else f"{figure:.1f} %" if abs(figure) >= 0.1 else f"{figure:.1g} %"
    )


def format_points(difference: float) -> str:
    """A difference of two shares in percentage points.

    >>> format_points(0.382)
    '38.2 points'
    """
    return f"{100 * difference:.1f} points"


def format_signed(figure: float) -> str:
    """A figure with its sign, the minus as printed.

    >>> format_signed(-0.52)
    '−0.5'
    """
    return f"{figure:+.1f}".replace("-", "−")


def format_count(number: int) -> str:
    """A whole number with thin spaces between its thousands.

    >>> format_count(12000).split()
    ['12', '000']
    """
    return f"{number:,}".replace(",", "\u202f") if abs(number) >= 10_000 else str(number)


def format_duration(seconds: float) -> str:
    """A time in the unit in which it is easily read.

    >>> format_duration(5000), format_duration(0.25), format_duration(0)
    ('83.3 min', '0.25 s', '0 s')
    """
    unit, name = clock(seconds)
    return f"{seconds / unit:.3g} {name}"


def replicas(number: int) -> str:
    """So many replicas.

    >>> replicas(1), replicas(3)
    ('1 replica', '3 replicas')
    """
    return f"{number} replica" if number == 1 else f"{number} replicas"


def labels(classes: Sequence[int]) -> str:
    """Classes by number."""
    return ("class " if len(classes) == 1 else "classes ") + join_words([str(label) for label in classes])


def user_names(numbers: Sequence[int], most: int = 12) -> str:
    """Users by number; the rest of many only counted."""
    more = [f"{len(numbers) - most} more"] if len(numbers) > most else []
    return ("user " if len(numbers) == 1 else "users ") + join_words([*map(str, numbers[:most]), *more])


def format_times(number: int) -> str:
    """How often, in words."""
    return "once" if number == 1 else "twice" if number == 2 else f"{format_count(number)} times"


def join_words(parts: Sequence[str]) -> str:
    """A list in a sentence."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def thinning_sentence(manifest: Mapping[str, Any]) -> str:
    """A sentence, after a space, on the events that a run did not store by choice; nothing where it stored all.

    >>> thinning_sentence({"events_thinned": {"users": 1000, "of": 1000000, "every": 10}})
    ' Events were stored of 1,000 of 1,000,000 users and of one round in 10 alone; other tables and figures are of all.'
    """
    left = manifest.get("events_thinned") or {}
    parts = [f"of {left['users']:,} of {left['of']:,} users"] if "users" in left else []
    parts += [f"of one round in {left['every']:,}"] if "every" in left else []
    return f" Events were stored {' and '.join(parts)} alone; other tables and figures are of all." if parts else ""
