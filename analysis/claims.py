"""The claims of the papers with their verdicts, counted by kind and by who chose the settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agreement import NO, OPEN, YES
from reproduction import Experiment, Order, Result, Row
from run_results import compare, difference, estimate, holds
from wording import listed

UNTESTED = "untested"
"""The verdict on a claim without a run at the settings of its authors."""
ORDER, EFFECT, NO_EFFECT, EXTREME = (
    "orders",
    "values with an effect",
    "values without an effect",
    "values of 0 or 100 %",
)
"""Kinds of claims."""
KINDS = {
    ORDER: "orders",
    EFFECT: "values with a claimed effect",
    NO_EFFECT: "apart: values without a claimed effect",
    EXTREME: "apart: values of 0 or 100 %",
}
"""The kinds in words; values of the last two are counted apart."""
SETTINGS = {"authors": "at the authors' settings", "ours": "at a setting that we had to choose"}
OTHER_SETTINGS = "other settings"
"""Runs exist, but none at the authors' settings."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, or an order of an experiment of our own, with its verdict.

    Args:
        experiment: its experiment.
        item: the order, or the row with a published value.
        answer: "yes", "open", "no" or "untested".
    """

    experiment: Experiment
    item: Row | Order
    answer: str

    @property
    def kind(self) -> str:
        """The kind: an order, or a value with an effect, without one, or of 0 or 100 %."""
        if isinstance(self.item, Order):
            return ORDER
        if self.item.is_extreme:
            return EXTREME
        return EFFECT if self.experiment.effect(self.item) > 0.0 else NO_EFFECT

    @property
    def settings(self) -> str:
        """Who chose its settings: "authors" or "ours"."""
        return self.experiment.settings

    @property
    def is_tested(self) -> bool:
        """True if a run has the settings of its authors."""
        return self.answer != UNTESTED

    @property
    def is_after_results(self) -> bool:
        """True if the claim or its setting was chosen after results had been seen."""
        return self.experiment.is_after_results(self.item)


def claims_of(experiment: Experiment, results: Mapping[str, Result]) -> list[Claim]:
    """Return the claims of a paper, or of an experiment of our own the orders that have results."""
    items: list[Row | Order] = [*experiment.rows, *experiment.orders]
    if experiment.paper:
        return [
            Claim(experiment, item, answer(experiment, item, results)) for item in items if experiment.is_claim(item)
        ]
    found = [Claim(experiment, order, answer(experiment, order, results)) for order in experiment.orders]
    return [claim for claim in found if claim.is_tested]


def all_claims(experiments: Iterable[Experiment], results: Mapping[str, Mapping[str, Result]]) -> list[Claim]:
    """Return the claims of all papers."""
    return [claim for each in experiments if each.paper for claim in claims_of(each, results[each.name])]


def answer(experiment: Experiment, item: Row | Order, results: Mapping[str, Result]) -> str:
    """Return the verdict on a row or an order; "untested" if it has no results."""
    if isinstance(item, Order):
        return holds(results, item) if has_order(item, results) else UNTESTED
    return compare(results, item, experiment.effect(item)).answer if has_row(item, results) else UNTESTED


def has_row(row: Row, results: Mapping[str, Result]) -> bool:
    """Return whether a part of a row has results with its metric."""
    return estimate(results, row).replicas > 0


def has_order(order: Order, results: Mapping[str, Result]) -> bool:
    """Return whether two parts of an order have results with its metric in the same replica."""
    return difference(results, order).replicas > 0


def is_diverged(results: Mapping[str, Result], row: Row) -> bool:
    """Return whether the learner of a row has been run, and diverged in every replica."""
    known = [results[part] for part in row.parts if part in results]
    return not has_row(row, results) and any(result.values(row.learner, row.metric) for result in known)


def is_shown(order: Order, results: Mapping[str, Result]) -> bool:
    """Return whether an order has results, or could have them: its second learner diverged, or has not been run."""
    second = Row(order.label, order.against or order.parts, order.below, order.metric)
    return has_order(order, results) or lacks_control(order, results) or is_diverged(results, second)


def lacks_control(order: Order, results: Mapping[str, Result]) -> bool:
    """Return whether the runs of the first learner exist, and none of the second one, such as of larger steps."""
    is_known = any(results[part].values(order.above, order.metric) for part in order.parts if part in results)
    return is_known and bool(order.against) and not any(part in results for part in order.against)


def state(experiment: Experiment, results: Mapping[str, Result]) -> str:
    """Return how far the authors' settings of an experiment were run.

    Returns:
        ``full``, ``other settings``, ``2 of 9 replicas``, ``not run``, or ``no data`` if every run needs more than
        time.
    """
    authors = {name: part for name, part in experiment.parts.items() if part.is_authors}
    done = sum(experiment.count_done(name, results.get(name)) for name in authors)
    wanted = sum(part.replicas for part in authors.values())
    if authors and done == wanted:
        return "full"
    if done:
        return f"{done} of {wanted} replicas"
    if results:
        return OTHER_SETTINGS
    return "no data" if all(part.needs for part in authors.values()) else "not run"


def count_sensitivity(experiment: Experiment, results: Mapping[str, Result]) -> int:
    """Return the number of rows and orders with results at other settings than the authors'."""
    if not experiment.paper:
        return 0
    rows = [row for row in experiment.rows if not experiment.is_authors(row) and has_row(row, results)]
    orders = [order for order in experiment.orders if not experiment.is_claim(order) and has_order(order, results)]
    return len(rows) + len(orders)


def hours_untested(experiment: Experiment, results: Mapping[str, Result]) -> float:
    """Return the core-hours of the runs that the untested claims of an experiment lack."""
    untested = [claim.item for claim in claims_of(experiment, results) if not claim.is_tested]
    needed = {part for item in untested for part in experiment.parts_of(item)}
    return math.fsum(experiment.hours_missing(part, results.get(part)) for part in needed)


def tally(claims: Iterable[Claim]) -> str:
    """Return how many claims agree, are open and disagree: ``3/2/0``; a dash without any."""
    answers = [claim.answer for claim in claims if claim.is_tested]
    return "/".join(str(answers.count(each)) for each in (YES, OPEN, NO)) if answers else "–"


def counts(experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]]) -> str:
    """Return the table of all claims by kind, and by who chose the settings."""
    claims = all_claims(experiments, results)
    lines = [
        f"| agree/open/disagree | {' | '.join(SETTINGS.values())} |",
        f"|---|{'---|' * len(SETTINGS)}",
    ]
    for kind, words in KINDS.items():
        cells = [tally(each for each in claims if (each.kind, each.settings) == (kind, who)) for who in SETTINGS]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    untested = [_untested([each for each in experiments if each.settings == who], results) for who in SETTINGS]
    return "\n".join([*lines, f"| untested | {' | '.join(untested)} |"])


def _untested(experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]]) -> str:
    """Return the number of untested claims of some experiments, and the hours of their runs."""
    count = sum(not claim.is_tested for claim in all_claims(experiments, results))
    hours = sum(hours_untested(each, results[each.name]) for each in experiments if each.paper)
    return f"{count}: {hours:,.0f} core-hours" if count else "0"


def claims_sentence(experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]]) -> str:
    """Return how many claims the papers make, how many are tested, and at which settings."""
    claims = all_claims(experiments, results)
    tested = [claim for claim in claims if claim.is_tested]
    hours = sum(hours_untested(each, results[each.name]) for each in experiments if each.paper)
    papers = count_papers(experiments).capitalize()
    papers += " paper makes" if papers == "One" else " papers make"
    parts = [f"{sum(each.settings == who for each in tested)} {words}" for who, words in SETTINGS.items()]
    sentences = [f"{papers} {len(claims)} claims.", f"{len(tested)} are tested: {listed(parts)}."]
    if len(tested) < len(claims):
        count = len(claims) - len(tested)
        sentences.append(f"The other {count} need {hours:,.0f} core-hours, some also data that we may not distribute.")
    late = [claim for claim in tested if claim.is_after_results]
    if late:
        words = f"Of the tested ones, {len(late)} were chosen, or their setting was, after results had been seen."
        sentences.append(words)
    return " ".join(sentences)


def states_sentence(experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]]) -> str:
    """Return how many experiments are run in full, in part, at other settings, or not."""
    states = [state(each, results[each.name]) for each in experiments if each.paper]
    full, other, lacking, absent = (states.count(word) for word in ("full", OTHER_SETTINGS, "no data", "not run"))
    partial = len(states) - full - other - lacking - absent
    forms = [
        "1 experiment is run in full" if full == 1 else f"{full} experiments are run in full",
        *([f"{partial} in part"] if partial else []),
        *([f"{other} at other settings only"] if other else []),
        *([f"{absent} not yet"] if absent else []),
        *([f"{lacking} not, because the data cannot be distributed"] if lacking else []),
    ]
    return f"{listed(forms)}."


def chosen_sentence(experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]]) -> str:
    """Return which settings of the tested claims we had to choose, as a list."""
    lines = []
    for each in experiments:
        tested = sum(claim.is_tested for claim in claims_of(each, results[each.name]))
        if each.paper and each.chosen and tested:
            words = "1 claim" if tested == 1 else f"{tested} claims"
            lines.append(f"- {each.title} ({words}): {each.chosen}")
    return "\n".join(lines)


def count_papers(experiments: Sequence[Experiment]) -> str:
    """Return the number of papers in words."""
    return _NUMBERS[len({experiment.paper for experiment in experiments} - {""})]
