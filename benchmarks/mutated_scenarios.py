"""Check mutants of all scenarios: ``python benchmarks/mutated_scenarios.py [--mutants 3000] [--first 0] [--seed 0]``.

Each mutant of `tests/support/scenario_mutants.py` is read and checked by `netfl check`.  The command prints each mutant
that shows a defect (another exception, too much time or memory, a forbidden scenario that is accepted), the errors
without a remedy, and counts.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def main() -> int:
    """Check the mutants of some numbers and print what they gave; return 1 if one shows a defect."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    mutants: Any = importlib.import_module("support.scenario_mutants")
    outcomes = []
    for outcome in mutants.examine(range(options.first, options.first + options.mutants), options.seed):
        outcomes.append(outcome)
        if outcome.problem:
            print(f"{outcome.number} {outcome.scenario}: {'; '.join(outcome.changes)}\n  {outcome.problem}", flush=True)
        for text, is_located, has_remedy in outcome.faults:
            if not (is_located and has_remedy):
                print(f"{outcome.number} no {'remedy' if is_located else 'place'}: {text}", flush=True)
    located = [fault for outcome in outcomes for fault in outcome.faults if fault[1]]
    print(f"{len(outcomes)} mutants, {sum(outcome.exit_code == 0 for outcome in outcomes)} accepted")
    print(f"{sum(bool(outcome.problem) for outcome in outcomes)} with a defect")
    print(
        f"{len(located)} located errors, {sum(fault[2] for fault in located) / max(1, len(located)):.2%} with a remedy"
    )
    print(f"at most {max(outcome.seconds for outcome in outcomes):.1f} s of processor time")
    print(f"at most {max(outcome.peak_bytes for outcome in outcomes) / 1e9:.2f} GB of memory")
    return int(any(outcome.problem for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
