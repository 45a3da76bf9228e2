"""Time of `netfl.Simulation.step` beside ``netfl trace``, over the rounds of shipped scenarios.

Both simulate the same network with the same events recorded; trace also writes them to a run directory, and the loop
keeps them in memory.  The two alternate, and the least of several times counts.  Preparation is included in both.

    python benchmarks/step.py --rounds 300 --repeat 5
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import netfl

ROOT = Path(__file__).parents[1]
SCENARIOS = {
    "rural_outage": {"partition.by": "distance"},
    "emergent_stationary": {},
    "emergent_markov": {},
    "emergent_cyclic": {},
    "access/stationary": {},
    "access/markov": {},
    "access/bursty": {},
    "access/correlated": {},
    "access/drifting": {},
    "access/adversarial": {},
}


def traced(scenario: netfl.Scenario) -> None:
    """Run netfl trace."""
    with tempfile.TemporaryDirectory() as folder:
        netfl.trace(scenario, Path(folder) / "run", progress=False)


def stepped(scenario: netfl.Scenario) -> None:
    """Take all steps, and read the tables at the end."""
    with netfl.Simulation(scenario) as simulation:
        while not simulation.is_done:
            simulation.step()
        simulation.finish()
        simulation.snapshot()


def observed(scenario: netfl.Scenario) -> None:
    """Take all steps, and read the state after each."""
    with netfl.Simulation(scenario) as simulation:
        while not simulation.is_done:
            simulation.step()
            simulation.state  # noqa: B018 - the property reads the network


def timed(function: Callable[[netfl.Scenario], None], scenario: netfl.Scenario) -> float:
    """Return the processor time of a function, in seconds."""
    started = time.process_time()
    function(scenario)
    return time.process_time() - started


def main() -> None:
    """Print a line for each scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", default="", help="part of the names of scenarios")
    options = parser.parse_args()
    print(f"{'scenario':24}{'trace':>9}{'steps':>9}{'ratio':>8}{'state':>9}   rounds/s")
    for name, overrides in SCENARIOS.items():
        if options.only not in name:
            continue
        scenario = netfl.load(ROOT / f"scenarios/{name}.yaml", {"rounds": options.rounds, "replicas": 1, **overrides})
        functions = (traced, stepped, observed)
        times = [[timed(function, scenario) for function in functions] for _ in range(options.repeat)]
        trace_s, step_s, state_s = (min(column) for column in zip(*times, strict=True))
        row = f"{trace_s:8.3f}s{step_s:8.3f}s{step_s / trace_s:8.3f}{state_s / trace_s:9.3f}"
        print(f"{name:24}{row}{options.rounds / step_s:11.0f}")


if __name__ == "__main__":
    main()
