"""Hypothesis tests and the verdict that rests on four of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "stationary",
    "Markovian",
    "cyclic",
    "non-stationary",
    "emergent-correlated",
    "cycle + drift",
    "cycle + correlation",
    "drift + correlation",
    "cycle + drift + correlation",
]
"""The kinds of selection process; those with a plus have several causes."""

DECIDES: dict[str, Kind] = {
    "drift": "non-stationary",
    "cycle": "cyclic",
    "memory": "Markovian",
    "dependence": "emergent-correlated",
}
"""The deciding tests with their verdicts, by falling priority: drift and cycles also cause memory."""

COMBINED: dict[tuple[bool, bool, bool], Kind] = {
    (True, True, False): "cycle + drift",
    (True, False, True): "cycle + correlation",
    (False, True, True): "drift + correlation",
    (True, True, True): "cycle + drift + correlation",
}
"""The verdicts where more than one of cycle, drift and dependence is found, each without the effect of the others."""

_CAUSES = {"cycle": "cyclic", "drift": "non-stationary", "correlation": "emergent-correlated"}
"""The verdict of each cause of a combined one, if it is alone."""


@dataclass(frozen=True, slots=True)
class HypothesisTest:
    """A question to the data, with its answer.

    Args:
        name: short name.
        question: in words.
        statistic: name and value of the statistic, in words.
        p: p-value; ``None`` if the question cannot be asked.
        yes: the answer at the corrected level; ``None`` if the question cannot be asked.
        answer: in words.
    """

    __test__ = False
    name: str
    question: str
    statistic: str
    p: float | None
    yes: bool | None
    answer: str

    @property
    def decides(self) -> bool:
        """The verdict rests on this test."""
        return self.name in DECIDES


def holm_rejections(p: Sequence[float | None], level: float) -> list[bool | None]:
    """Reject null hypotheses so that the probability of any false alarm is at most *level*.

    Of n p-values in ascending order, the k-th is rejected if it and all before it are at most ``level / (n - k + 1)``.

    S. Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statist. 6, 1979.

    >>> holm_rejections([0.02, 0.001, None, 0.04], 0.05)
    [True, True, None, True]
    """
    rejected: list[bool | None] = [None if value is None else False for value in p]
    ascending = sorted((value, index) for index, value in enumerate(p) if value is not None)
    remaining = len(ascending)
    for value, index in ascending:
        if value > level / remaining:
            break
        rejected[index] = True
        remaining -= 1
    return rejected


def kind_of(rejected: Mapping[str, bool | None]) -> Kind:
    """Return the verdict of the first deciding test that rejected its null hypothesis, or of several together.

    >>> kind_of({"drift": True, "memory": True}), kind_of({"drift": True, "cycle": True})
    ('non-stationary', 'cycle + drift')
    """
    repeats = bool(rejected.get("cycle"))
    drifts = bool(rejected.get("drift"))
    is_dependent = bool(rejected.get("dependence"))
    combined = COMBINED.get((repeats, drifts, is_dependent))
    if combined is not None:
        return combined
    for name, kind in DECIDES.items():
        if rejected.get(name):
            return kind
    return "stationary"


def parts_of(kind: str) -> frozenset[str]:
    """Return the single verdicts of which a combined one is made, or the verdict itself.

    >>> sorted(parts_of("cycle + drift")), sorted(parts_of("Markovian"))
    (['cyclic', 'non-stationary'], ['Markovian'])
    """
    return frozenset(_CAUSES.get(part, part) for part in kind.split(" + "))
