"""How much of a gain is a larger step: differences from FedAvg with several step sizes, in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from reproduction import Order, Result
from run_results import difference, verdict
from wording import listed, signed


def best_controls(results: Mapping[str, Result], orders: Iterable[Order]) -> list[Order]:
    """Return of the orders of each run the one whose second learner has the highest mean: FedAvg at its best step.

    A learner that diverges in a replica is not the best.
    """
    best: dict[tuple[str, ...], tuple[float, Order]] = {}
    for order in orders:
        known = [results[part] for part in order.against or order.parts if part in results]
        values = [value for result in known for value in result.values(order.below, order.metric)]
        mean = math.fsum(values) / len(values) if values else math.nan
        if difference(results, order).replicas and mean > best.get(order.parts, (-math.inf,))[0]:
            best[order.parts] = mean, order
    return [order for _, order in best.values()]


def conclusion(verdicts: Mapping[str, str], base: str) -> str:
    """Return in which runs a gain remains over the steps of *base*; of a single run without its name.

    Args:
        verdicts: the verdict on the gain, "yes", "no" or "open", by the name of the run.
        base: the learner of the comparison.
    """
    words = {"yes": "a gain remains over these steps", "open": "no gain is shown", "no": f"{base} is better"}
    found = {answer: [name for name in verdicts if verdicts[name] == answer] for answer in words}
    found = {answer: names for answer, names in found.items() if names}
    if len(verdicts) == 1:
        return f"So {words[next(iter(found))]}."
    if len(found) == 1:
        return f"So {words[next(iter(found))]} in {'any' if 'open' in found else 'all'} of them."
    return f"So {', and '.join(f'{words[answer]} in {listed(names)}' for answer, names in found.items())}."


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
    found = {order.parts[0]: difference(results, order) for order in best}
    is_single = len(found) == 1
    cells = [
        f"{signed(found[order.parts[0]])} points ({order.below if is_single else f'{order.parts[0]}: {order.below}'})"
        for order in best
    ]
    ended = conclusion({name: verdict(each) for name, each in found.items()}, "FedAvg")
    return f"On {what}, {best[0].above} differs from FedAvg at the best of its steps by {listed(cells)}. {ended}"
