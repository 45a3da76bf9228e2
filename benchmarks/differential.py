"""Compare random networks at another commit with those of this tree: ``python benchmarks/differential.py COMMIT``.

Golden digests hold the scenarios that are shipped.  This command finds changes elsewhere: it draws networks with every
MAC, every distribution of packet sizes and every kind of load, beside random models and numbers
(`tests/support/random_scenarios.py`), and simulates each at both commits with the same seeds.  Both sides have the same
random numbers, so that a network that did not change has the same values to the last digits.  For every other network
the command prints the metrics that differ by more than chance: those whose paired differences over the replicas have a
mean other than 0 with p < 0.001 (t test), or are equal in all replicas.

    python benchmarks/differential.py HEAD~20 --each 4 --seed 1 --out differences.json
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

ROOT = Path(__file__).parents[1]
REPLICAS = 8
ROUNDS = 60
DURATION_S = 30.0
LIMIT_S = 12
"""Longest processor time of one network, in s; a longer one is not compared."""
LEVEL = 1e-3
"""Significance of one comparison."""
DIGITS = 9
"""Decimal digits to which equal values agree."""

Values = Mapping[str, list[float]]
"""Values of each metric, one for each replica."""


def main() -> int:
    """Compare the networks and print the differences; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="the other commit")
    parser.add_argument("--each", type=int, default=3, help="networks for each MAC, distribution of sizes and load")
    parser.add_argument("--mac", action="append", help="only these MACs; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write networks and values to this JSON file")
    options = parser.parse_args()
    networks = draw_networks(options.each, options.seed, options.mac)
    print(f"{len(networks)} networks, {REPLICAS} replicas each", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / "networks.json"
        drawn.write_text(json.dumps(networks))
        after = simulate_at(ROOT, drawn)
        with checkout(options.commit, Path(folder) / "other") as other:
            before = simulate_at(other, drawn)
    if options.out:
        options.out.write_text(json.dumps({"networks": networks, "before": before, "after": after}, indent=1))
    return report(networks, before, after, options.commit)


def draw_networks(each: int, seed: int, only: list[str] | None) -> dict[str, dict[str, Any]]:
    """Return random networks by name, as plain data: *each* for every MAC, distribution of sizes and load."""
    sys.path.insert(0, str(ROOT / "tests"))
    hypothesis = importlib.import_module("hypothesis")
    compositions = importlib.import_module("support.compositions")
    random_scenarios = importlib.import_module("support.random_scenarios")
    networks: dict[str, dict[str, Any]] = {}
    axes = compositions.axes()
    for mac in only or axes["mac"]:
        for load in random_scenarios.LOADS:
            sizes = axes["size"] if load != "updates" else ["fixed"]  # an update has one size
            for size in sizes:
                strategy = random_scenarios.networks(mac, size, load)
                try:
                    drawn = examples_of(strategy, each, seed)
                except hypothesis.errors.Unsatisfiable:
                    print(f"{mac}, {load}, {size}: refused", flush=True)
                    continue
                for number, data in enumerate(drawn):
                    networks[f"{mac}, {load}, {size}, {number}"] = lengthened(data)
    return networks


def examples_of(strategy: Any, count: int, seed: int) -> list[dict[str, Any]]:
    """Return *count* examples of a Hypothesis strategy, the same ones for the same seed.

    The first one that Hypothesis draws is the simplest, whatever the seed, and is left out.
    """
    hypothesis = importlib.import_module("hypothesis")
    examples: list[dict[str, Any]] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count + 1,
        deadline=None,
        database=None,
        suppress_health_check=[*hypothesis.HealthCheck],
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(strategy)
    def collect(data: dict[str, Any]) -> None:
        examples.append(data)

    collect()
    return examples[1:]


def lengthened(data: dict[str, Any]) -> dict[str, Any]:
    """Return the network with enough rounds or time for a comparison."""
    if "rounds" in data:
        return data | {"rounds": ROUNDS, "replicas": REPLICAS}
    return data | {"duration": DURATION_S, "replicas": REPLICAS}


@contextmanager
def checkout(commit: str, folder: Path) -> Iterator[Path]:
    """Check *commit* out into *folder* for as long as the context lasts."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def simulate_at(tree: Path, networks: Path) -> dict[str, dict[str, Any]]:
    """Return the values of each network of the file *networks*, simulated by the package in *tree*."""
    measured = networks.with_name("measured.json")
    program = "import differential; differential.simulate_all()"
    command = [sys.executable, "-P", "-c", program, str(tree), str(networks), str(measured)]
    environment = os.environ | {"PYTHONPATH": f"{tree}{os.pathsep}{Path(__file__).parent}", "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=environment)
    values: dict[str, dict[str, Any]] = json.loads(measured.read_text())
    return values


def simulate_all() -> None:
    """Simulate networks by the package of a tree: the arguments are the tree, their file, and one for their values."""
    warnings.simplefilter("ignore")
    tree, networks, measured = map(Path, sys.argv[1:])
    package = importlib.import_module("netfl")
    if not Path(str(package.__file__)).absolute().is_relative_to(tree.absolute()):
        raise RuntimeError(f"netfl is imported from {package.__file__}, not from {tree}")
    values = {name: simulate(data) for name, data in json.loads(networks.read_text()).items()}
    measured.write_text(json.dumps(values))


def simulate(data: dict[str, Any]) -> dict[str, Any]:
    """Return the values of one network, or the reason why there are none."""
    netfl = importlib.import_module("netfl")
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = netfl.trace(data, f"{folder}/run", progress=False)
            return {"values": values_of(run)}
    except netfl.NetflError as error:
        return {"refused": str(error).splitlines()[0]}
    except (_EndlessError, Exception):
        if signal.getitimer(signal.ITIMER_PROF)[0] > 0.0:
            raise
        return {"refused": f"took more than {LIMIT_S} s"}  # whatever the end met in what it left half done
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class _EndlessError(BaseException):
    """A simulation takes too long; no part of it catches this as an error of its own."""


def _stop(*_: object) -> None:
    raise _EndlessError


def values_of(run: Any) -> dict[str, list[float]]:
    """Return the metrics of the network of a run, and the deliveries of each user, ``{metric: [replicas]}``."""
    replicas = range(REPLICAS)
    values: dict[str, list[float]] = {}
    for metric, rows in run.final_metrics.groupby("metric"):
        by_replica = rows.set_index("replica")["value"]
        values[str(metric)] = [float(by_replica.get(replica, np.nan)) for replica in replicas]
    for user, rows in run.deliveries.groupby("user"):
        counts = rows.groupby("replica").size()
        values[f"deliveries of user {user}"] = [float(counts.get(replica, 0)) for replica in replicas]
    return values


def report(
    networks: Mapping[str, dict[str, Any]],
    before: Mapping[str, dict[str, Any]],
    after: Mapping[str, dict[str, Any]],
    commit: str,
) -> int:
    """Print each network that differs between the commits; return 1 if there are any."""
    equal = compared = by_chance = 0
    differing = []
    for name in networks:
        if "refused" in before[name] or "refused" in after[name]:
            if before[name].get("refused") != after[name].get("refused"):
                differing.append(name)
                print(f"\n{name}: {commit}: {refusal(before[name])}; here: {refusal(after[name])}")
            continue
        compared += 1
        changed = changed_metrics(before[name]["values"], after[name]["values"])
        beyond_chance = {metric: row for metric, row in changed.items() if row[2] < LEVEL}
        if not changed:
            equal += 1
        elif not beyond_chance:
            by_chance += 1
        else:
            differing.append(name)
            print(f"\n{name}: {json.dumps(networks[name]['access'])}")
            for metric, (old, new, p_value) in beyond_chance.items():
                print(f"  {metric:32} {old:12.5g} {new:12.5g}   p = {p_value:.1g}")
    print(f"\n{compared} of {len(networks)} networks simulated at both commits: {equal} have equal values,")
    print(f"{by_chance} differ within chance, {len(differing)} differ by more than chance, or are refused by one")
    return int(bool(differing))


def refusal(outcome: Mapping[str, Any]) -> str:
    """Return the reason why a network was refused, or that it ran."""
    return str(outcome.get("refused", "runs"))


def changed_metrics(before: Values, after: Values) -> dict[str, tuple[float, float, float]]:
    """Return the metrics of both sides whose values differ: their means before and after, and the p-value."""
    changed = {}
    for metric in before.keys() & after.keys():
        old = np.array(before[metric])
        new = np.array(after[metric])
        if np.allclose(old, new, rtol=10.0**-DIGITS, atol=0.0, equal_nan=True):
            continue
        changed[metric] = float(np.nanmean(old)), float(np.nanmean(new)), p_value_of(new - old)
    return dict(sorted(changed.items()))


def p_value_of(differences: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Return the p-value of the t test that the mean of paired *differences* is 0; equal differences give 0."""
    known = differences[np.isfinite(differences)]
    if len(known) < len(differences):
        return 0.0  # one side has values that the other lacks
    if np.ptp(known) == 0.0:
        return 0.0
    return float(stats.ttest_1samp(known, 0.0).pvalue)


if __name__ == "__main__":
    sys.exit(main())
