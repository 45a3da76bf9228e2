"""Covering designs over the axes of `support.compositions`: every two levels of two axes meet in a row, or are refused.

A design is stored in `designs/*.csv`, a column for each axis, since drawing it takes minutes: each step is validated.
A new model or level makes `test_stored_design_covers_all_pairs` fail, until rows for it are stored:

    PYTHONPATH=tests python -m support.designs            keep the rows that are valid, and add what is missing
    PYTHONPATH=tests python -m support.designs --levels   the same, if a level occurs in no row
    PYTHONPATH=tests python -m support.designs --anew     draw all rows again, which needs fewer
"""

import argparse
import csv
import itertools
import random
from functools import cache
from pathlib import Path

import pytest

from support.compositions import RefusedError, Row, axes, budgeted, checked

FOLDER = Path(__file__).parent / "designs"
SEED = 1
BUILT_AXES = {
    "air",
    "association",
    "channel",
    "mac",
    "motion",
    "outage",
    "placement",
    "radio",
    "receivers",
    "reception",
    "routing",
    "source",
    "topology",
}
"""Axes whose errors may depend on the layout."""
FIXED_TIMES = {
    **dict.fromkeys(("csma_ca", "csma_ca of several rates", "csma_ca with arf", "csma_ca of hidden stations",
                     "csma_ca of stations that sense all", "csma_ca of 802.15.4", "csma_ca of hidden 802.15.4",
                     "csma_ca of 802.15.4 without acknowledgements"), "slots of a standard"),
    **dict.fromkeys(("lora", "lora logistic"), "bands of a standard"),
    **dict.fromkeys(("lorawan", "lorawan of two demodulators", "lorawan that answers", "lorawan that hops"),
                    "frames and duty cycles of a standard"),
    "underwater": "the speed of sound", "diurnal": "hours of the day", "diurnal_rate": "hours of the day",
    "inactivity": "hours of the day", "disaster": "positions", "my_channels:Foliage": "a carrier", "rain": "a carrier",
    "file": "times of a file", "mylab.blockage:Blockage": "a coherence time of 1 s",
}  # fmt: skip
"""Models whose times do not scale, and why."""
NEVER = {
    ("interference", "over_the_air"): "the axis sums sets it",
    **{("selection", kind): "depends on data or learners, which compositions have not"
       for kind in ("by_size", "f3ast", "fedgs", "oort", "power_of_choice", "ranked", "score", "threshold")},
    ("outage", "renewal of routers"): "the scaled design has no topology",
}  # fmt: skip
"""Axes and levels that occur in no row, and why."""
_SCALED_AXES = ("mac", "round", "channel", "interference", "jammer", "queue", "outage", "traffic", "size", "downlink",
                "transport", "on_new_version", "staleness", "compute", "energy", "trains_when", "server_link",
                "evaluation")  # fmt: skip
_FADING_KINDS = {
    "none",
    "constant",
    "gilbert_elliott",
    "markov",
    "nakagami",
    "rayleigh",
    "rician",
    "mylab.blockage:Blockage",
}
"""Channels that do not depend on positions."""


def _all_levels():
    return {axis: [*levels] for axis, levels in axes().items()}


def _scaled_levels():
    """Return the levels of models without fixed times."""
    levels = {axis: [level for level in axes()[axis] if level not in FIXED_TIMES] for axis in _SCALED_AXES}
    levels["channel"] = [level for level in levels["channel"] if level in _FADING_KINDS]
    return levels


_LEVELS = {"all": _all_levels, "scaled": _scaled_levels}
"""Levels of each axis, by the name of the design."""


class Design:
    """A stored covering design.

    Attributes:
        levels: Names of the levels of each axis; the first is that of a row that does not name another.
        rows: Levels by axis, row by row.
    """

    def __init__(self, name: str) -> None:
        self.levels = _LEVELS[name]()
        self._file = FOLDER / f"{name}.csv"
        with self._file.open(encoding="utf-8", newline="") as lines:
            self.rows = [{axis: level for axis, level in row.items() if level} for row in csv.DictReader(lines)]

    def build(self, index: int) -> Row:
        """Return the scenario of one row, with the gain that its budget needs."""
        return budgeted(checked(self.rows[index]))

    def missing(self) -> list[frozenset]:
        """Return the pairs of levels that meet in no row: those that are refused, if the design is whole."""
        pairs = {
            frozenset({(one, a), (two, b)}): None
            for one, two in itertools.combinations(self.levels, 2)
            for a in self.levels[one]
            for b in self.levels[two]
        }
        for row in self.rows:
            for pair in self._pairs_of(row):
                pairs.pop(pair, None)
        return [*pairs]

    def missing_levels(self) -> list[tuple[str, str]]:
        """Return the axes and levels that occur in no row, but for those of `NEVER`."""
        occurring = {pair for row in self.rows for pair in row.items()}
        default = {(axis, levels[0]) for axis, levels in self.levels.items()}
        every = ((axis, level) for axis, levels in self.levels.items() for level in levels)
        return [pair for pair in every if pair not in occurring | default | NEVER.keys()]

    def extend(self) -> None:
        """Drop the rows that are no longer valid, and add rows until all pairs meet that are not refused."""
        self.rows = [row for row in self.rows if self._is_valid(row)]
        rng = random.Random(SEED)
        pairs = self.missing()
        rng.shuffle(pairs)
        missing = dict.fromkeys(pairs)
        while missing:
            first = next(iter(missing))
            row = self._drawn(first, missing, rng)
            if row is None:
                del missing[first]
                continue
            for pair in self._pairs_of(row):
                missing.pop(pair, None)
            self.rows.append(row)

    def store(self) -> None:
        """Write the rows."""
        with self._file.open("w", encoding="utf-8", newline="") as lines:
            writer = csv.DictWriter(lines, [*self.levels], restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)

    def _pairs_of(self, row):
        complete = {axis: row.get(axis, known[0]) for axis, known in self.levels.items()}
        return map(frozenset, itertools.combinations(complete.items(), 2))

    def _is_valid(self, row):
        if any(level not in self.levels.get(axis, ()) for axis, level in row.items()):
            return False
        try:
            budgeted(checked(row))
        except RefusedError:
            return False
        return True

    def _drawn(self, pair, missing, rng):
        """Return a row that begins with a pair, and adds most of the missing ones; ``None`` if the pair is refused."""
        try:
            row = checked(dict(pair)).levels
        except RefusedError:
            return None
        for axis in rng.sample([*self.levels], len(self.levels)):
            if axis in row:
                continue
            for level in self._candidates(row, axis, missing, rng):
                try:
                    row = checked(row | {axis: level}, is_whole=axis in BUILT_AXES).levels
                    break
                except RefusedError:
                    continue
        return row

    def _candidates(self, row, axis, missing, rng):
        """Return the levels of an axis that add the most missing pairs, the best first."""
        gains = {level: sum(frozenset({(axis, level), item}) in missing for item in row.items())
                 for level in self.levels[axis]}  # fmt: skip
        ranked = sorted(self.levels[axis], key=lambda level: (-gains[level], rng.random()))
        return [level for level in ranked[:3] if gains[level]]


@cache
def design(name: str = "all") -> Design:
    """Return a stored design."""
    return Design(name)


def parts(number: int, slow: int) -> list[object]:
    """Return the parts of a design as parameters of a test; those from the number *slow* on are `thorough`."""
    return [pytest.param(part, marks=() if part < slow else pytest.mark.thorough) for part in range(number)]


def main() -> None:
    """Bring all stored designs up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anew", action="store_true", help="draw all rows again")
    parser.add_argument("--levels", action="store_true", help="only if a level occurs in no row, in a second otherwise")
    options = parser.parse_args()
    for name in _LEVELS:
        drawn = Design(name)
        if options.levels and not drawn.missing_levels():
            continue
        if options.anew:
            drawn.rows = []
        drawn.extend()
        drawn.store()


if __name__ == "__main__":
    main()
