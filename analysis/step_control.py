"""How much of a gain is a larger step: differences from FedAvg with several step sizes, in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from reproduction import Order, Result
from run_results import difference, holds
from wording import listed, signed


def best_controls(results: Mapping[str, Result], orders: Iterable[Order]) -> list[Order]:
    """Return of the orders of each run the one whose second learner has the highest mean: FedAvg at its best step.

    A learner that diverges in a replica is not the best.
    """
    best: dict[tuple[str, ...], Order] = {}
    highest: dict[tuple[str, ...], float] = {}
    for order in orders:
        mean = _mean_below(results, order)
        if difference(results, order).replicas and mean > highest.get(order.parts, -math.inf):
            best[order.parts] = order
            highest[order.parts] = mean
    return [*best.values()]


def _mean_below(results: Mapping[str, Result], order: Order) -> float:
    """Return the mean metric of the second learner; NaN if it diverges in a replica, or has no run."""
    values: list[float] = []
    for part in order.against or order.parts:
        if part in results:
            values += results[part].values(order.below, order.metric)
    return math.fsum(values) / len(values) if values else math.nan


def conclusion(verdicts: Mapping[str, str], base: str) -> str:
    """Return in which runs a gain over *base* remains, as a sentence; that of a single run does not name it.

    Args:
        verdicts: the verdict on the gain, "yes", "no" or "open", by the name of the run.
        base: the learner of the comparison.
    """
    words = {
        "yes": f"a gain over {base} remains",
        "open": f"no gain over {base} is shown",
        "no": f"{base} is better",
    }
    runs: dict[str, list[str]] = {}
    for answer in words:
        if names := [name for name, verdict in verdicts.items() if verdict == answer]:
            runs[answer] = names
    if len(verdicts) == 1:
        return f"So {words[next(iter(runs))]}."
    if len(runs) == 1:
        (answer,) = runs
        return f"So {words[answer]} in {'any' if answer == 'open' else 'all'} of them."
    clauses = [f"{words[answer]} in {listed(names)}" for answer, names in runs.items()]
    return f"So {', and '.join(clauses)}."


def remaining_gain(results: Mapping[str, Result], orders: Sequence[Order], what: str) -> str:
    """Return what remains of the gain of a learner over FedAvg at its best step; empty without runs.

    Args:
        results: the results that exist.
        orders: the learner above FedAvg with each step, of one or more runs.
        what: the examples of the metric.
    """
    best = best_controls(results, orders)
    if not best:
        return ""
    gains = {order.parts[0]: difference(results, order) for order in best}
    cells = []
    for order in best:
        run = order.parts[0]
        name = order.below if len(best) == 1 else f"{run}: {order.below}"
        cells.append(f"{signed(gains[run])} points ({name})")
    verdicts = {order.parts[0]: holds(results, order) for order in best}
    return (
        f"On {what}, {best[0].above} differs from FedAvg at the best of these steps by {listed(cells)}. "
        f"{conclusion(verdicts, 'FedAvg at these steps')}"
    )
