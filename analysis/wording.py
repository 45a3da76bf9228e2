"""Numbers, lists and paragraphs in the text of docs/reproduction and docs/findings.md."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from netfl.learning.performance import split_set
from netfl.results.formatting import CUT, cut_interval
from netfl.results.statistics import ConfidenceInterval


def listed(words: Sequence[str]) -> str:
    """Join words as in a sentence: ``a, b and c``."""
    return " and ".join([*filter(None, [", ".join(words[:-1])]), words[-1]])


def signed(found: ConfidenceInterval, digits: int = 1) -> str:
    """Return a difference with its sign and its interval, such as ``+4.5 ± 0.9``."""
    return f"{found.mean:+.{digits}f}{half(found, digits)}"


def spread(found: ConfidenceInterval, digits: int, metric: str, scale: float) -> str:
    """Return the interval of a metric such as ``accuracy/class:9`` as text: both ends where it leaves possible values.

    Args:
        found: the metric times *scale*.
        digits: decimal places.
        metric: name of the metric, with its group.
        scale: factor of the metric: 100 for percent.
    """
    name = split_set(metric.partition("/")[0])[0]
    ends = cut_interval(name, (found.mean - found.half) / scale, (found.mean + found.half) / scale)
    if not found.is_shown or not (ends.is_low_cut or ends.is_high_cut):
        return half(found, digits)
    low = f"{scale * float(ends.low):.{digits}f}{CUT * bool(ends.is_low_cut)}"
    high = f"{scale * float(ends.high):.{digits}f}{CUT * bool(ends.is_high_cut)}"
    return f" [{low}, {high}]"


def half(found: ConfidenceInterval, digits: int) -> str:
    """Return the half width of an interval as text; nothing for fewer than three replicas."""
    return f" ± {found.half:.{digits}f}" if found.is_shown else ""


def wrap_paragraph(text: str) -> list[str]:
    """Return the lines of a paragraph of a page; none begins with a percent sign, which makes a comment of a line.

    >>> [line[0] for line in wrap_paragraph(f"{'x' * 118} 5 %")]
    ['x', '5']
    """
    kept = text.replace(" %", "\N{NO-BREAK SPACE}%")
    lines = textwrap.wrap(kept, 120, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}%", " %") for line in lines]
