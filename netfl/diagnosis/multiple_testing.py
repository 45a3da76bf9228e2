"""The verdict: which kind of process a selection is, from the p-values of four tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["stationary", "Markovian", "cyclic", "non-stationary", "emergent-correlated"]
"""What a selection can be."""

DECIDES: dict[str, Kind] = {
    "drift": "non-stationary",
    "cycle": "cyclic",
    "memory": "Markovian",
    "dependence": "emergent-correlated",
}
"""The tests that decide and what each finds, the weightiest first: what drifts or repeats also has memory."""


@dataclass(frozen=True, slots=True)
class HypothesisTest:
    """One question, asked of the data.

    Args:
        name: a word for it.
        question: in words.
        statistic: what was looked at, with its value, in words.
        p: how likely chance brings as much; ``None`` where it cannot be asked.
        yes: the answer, at the level left to it; ``None`` where it cannot be asked.
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
        """Whether the verdict rests on it."""
        return self.name in DECIDES


def holm_rejections(p: Sequence[float | None], level: float) -> list[bool | None]:
    """Which of several null hypotheses to reject, so that all false alarms together stay below *level*.

    S. Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statist. 6, 1979.

    >>> holm_rejections([0.02, 0.001, None, 0.04], 0.05)
    [True, True, None, True]
    """
    asked = sorted((value, at) for at, value in enumerate(p) if value is not None)
    found: list[bool | None] = [None if value is None else False for value in p]
    for rank, (value, at) in enumerate(asked):
        if value > level / (len(asked) - rank):
            break
        found[at] = True
    return found


def kind_of(found: dict[str, bool | None]) -> Kind:
    """The verdict: what the weightiest test found that found something."""
    return next((kind for name, kind in DECIDES.items() if found.get(name)), "stationary")
