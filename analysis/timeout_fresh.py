"""Advised deadlines and the best of the grid again, each chosen from many replicas and measured on others.

    python analysis/timeout_fresh.py             measure what is missing, and store it
    python analysis/timeout_fresh.py --page      write the table of docs/howto/timeout.md from the stored results

Eight replicas do not resolve the 5 % of `timeout_grid.py`, and the least of 20 means of them is lower than the time of
the best deadline.  **Rule, committed before any result**, for the same six scenarios and the same advisor:

- *Best of the grid*: of the same 20 deadlines, that of the least mean time over 64 other replicas (seed 201), of those
  at which all of them reach the target.
- *Advised*: the deadline of ``netfl timeout SCENARIO --accuracy 0.85 --quorum 1 --include 0`` with 32 replicas and the
  double number of rounds (seed 101).
- Both are measured on 256 further replicas (seed 301), paired.  A replica is given up after 1.5 times the longest
  stored time of a replica without a deadline.  The difference is that of the replicas that reach the target under
  both, with its 95 % interval, in the mean time at the best of the grid.
- **The advice passes if the whole interval is at most 5 %, and fails if the whole of it is above; else it is open.**
  It also fails if more replicas miss the target than at the best of the grid.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
import timeout_grid as grid

from netfl.diagnosis.timeout import Trial
from netfl.diagnosis.timeout.advice import TimeoutOptions, TimeoutRule
from netfl.diagnosis.timeout.trials import ScenarioTrials, advise_scenario
from netfl.results.formatting import clock
from netfl.results.statistics import interval

RESULTS = grid.ROOT / "analysis/results/timeout_fresh.csv"
MARKS = re.compile(r"(<!-- fresh: .*? -->\n).*?(<!-- end of fresh -->)", re.DOTALL)
GRID_SEED, GRID_REPLICAS = 201, 64
ADVICE_REPLICAS = 32
FRESH_SEED, FRESH_REPLICAS = 301, 256


def trials_of(name: str, seed: int, replicas: int) -> ScenarioTrials:
    """Return the trials of a scenario with other replicas."""
    return ScenarioTrials(grid.load(name, seed).at({"replicas": replicas}))


def advised_s(name: str) -> float:
    """Return the deadline that is advised."""
    scenario = grid.load(name, grid.OTHER_SEED)
    scenario = scenario.at({"replicas": ADVICE_REPLICAS, "rounds": 2 * scenario.steps})
    options = TimeoutOptions(quorum=1.0, include=0.0, seed=grid.OTHER_SEED)
    return advise_scenario(scenario, options, accuracy=grid.ACCURACY).rule.deadline_s


def measure(name: str) -> Iterator[list[dict[str, object]]]:
    """Yield the rows of one scenario, trial by trial."""
    first = grid.read_results()
    (without,) = grid.times_of(first, name, "none").values()
    max_s = grid.PATIENCE * float(without.max())
    deadlines_s = [*grid.times_of(first, name, "grid")]

    chosen = trials_of(name, GRID_SEED, GRID_REPLICAS)
    max_rounds = 20 * chosen.scenario.steps
    done: dict[float, Trial] = {}
    for deadline_s in deadlines_s:
        done[deadline_s] = chosen.learn(TimeoutRule(deadline_s), grid.ACCURACY, max_rounds, max_s)
        yield grid.rows_of(name, "grid", done[deadline_s])
    reached = [deadline_s for deadline_s, trial in done.items() if trial.is_reached]
    best_s = min(reached, key=lambda deadline_s: done[deadline_s].estimate.mean)

    fresh = trials_of(name, FRESH_SEED, FRESH_REPLICAS)
    for source, deadline_s in (("best", best_s), ("advised", advised_s(name))):
        rule = TimeoutRule(float(f"{deadline_s:.4g}"))
        yield grid.rows_of(name, source, fresh.learn(rule, grid.ACCURACY, max_rounds, max_s))


def table(results: pd.DataFrame) -> str:
    """Return the comparison as a table in Markdown."""
    heads = ("scenario", "best of 20", "advised", "difference", "missed by advice and best", "advice")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name in grid.SCENARIOS:
        if name not in set(results["scenario"]):
            continue
        ((best_s, best),) = grid.times_of(results, name, "best").items()
        ((advised, times),) = grid.times_of(results, name, "advised").items()
        both = np.isfinite(best) & np.isfinite(times)
        loss = interval((times - best)[both] / best[both].mean())
        missed = [int(np.isnan(each).sum()) for each in (times, best)]
        cells = [
            f"`{name}`",
            f"{best_s:.3g} s: {clock(best[both].mean())}",
            f"{advised:.3g} s: {clock(times[both].mean())}",
            f"{100.0 * loss.mean:+.1f} ± {100.0 * loss.half:.1f} %",
            f"{missed[0]} and {missed[1]} of {len(best)}",
            verdict(loss.mean - loss.half, loss.mean + loss.half, *missed),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def verdict(low: float, high: float, missed: int, missed_by_best: int) -> str:
    """Return whether the advice passes, by the interval of its loss and the replicas that miss the target."""
    limit = grid.LIMIT - 1.0
    if missed > missed_by_best or low > limit:
        return "fails"
    return "passes" if high <= limit else "open"


def page(text: str) -> str:
    """Return the text of the page with the table of the stored results."""
    return MARKS.sub(lambda found: f"{found[1]}{table(grid.read_results(RESULTS))}{found[2]}", text)


def main() -> None:
    """Measure, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="write the table from the stored results")
    parser.add_argument("--scenario", choices=[*grid.SCENARIOS], action="append", help="measure these alone")
    options = parser.parse_args()
    if options.page:
        grid.PAGE.write_text(page(grid.PAGE.read_text("utf-8")), "utf-8")
        return
    for name in options.scenario or grid.SCENARIOS:
        stored = grid.read_results(RESULTS)
        if name in set(stored["scenario"]):
            continue
        rows = [row for part in measure(name) for row in part]
        pd.concat([stored, pd.DataFrame(rows)]).to_csv(RESULTS, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
