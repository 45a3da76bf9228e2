"""Numbers and lists in the sentences and tables of docs/reproduction.md."""

from __future__ import annotations

import math
from collections.abc import Sequence

from netfl.results.statistics import ConfidenceInterval


def listed(words: Sequence[str]) -> str:
    """Join words as in a sentence: ``a, b and c``."""
    return " and ".join([*filter(None, [", ".join(words[:-1])]), words[-1]])


def signed(found: ConfidenceInterval, digits: int = 1) -> str:
    """Return a difference with its sign and its interval, such as ``+4.5 ± 0.9``."""
    return f"{found.mean:+.{digits}f}{half(found, digits)}"


def half(found: ConfidenceInterval, digits: int) -> str:
    """Return the half width of an interval as text; nothing for a single replica."""
    return "" if math.isnan(found.half) else f" ± {found.half:.{digits}f}"
