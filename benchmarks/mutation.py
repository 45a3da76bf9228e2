"""Change the code of models in small ways, one at a time, and count how many changes the tests detect.

`mutation.toml` lists the modules, the tests that must detect their mutants, and equivalent mutants with the reason.
Most operators are those of mutmut (``pip install mutmut``), without those that make code raise at once (arguments and
values that become ``None``) and those that change text.  Only code inside functions is mutated, except `laws`, with
which the tests compare the rest.

    python benchmarks/mutation.py                        # a sample of each module's mutants
    python benchmarks/mutation.py --only mac --sample 1000

The tests are collected once; each mutant is a fork of that process, in which the functions get their changed code and
the tests of the module run, the fastest first, until one fails.  Code that runs at import, and processes started by
tests, cannot be mutated.  The slowest tests beyond a total of ``--most`` seconds of processor time are left out, so the
score is a lower bound.
A mutant that takes three times as long as the original counts as killed, with the outcome "ended".
"""

from __future__ import annotations

import argparse
import functools
import gc
import io
import json
import math
import multiprocessing
import os
import random
import resource
import sys
import time
import tomllib
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from itertools import accumulate, pairwise
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from mutants import mutants

ROOT = Path(__file__).parents[1]
PLAN = ROOT / "benchmarks/mutation.toml"
_FORK = multiprocessing.get_context("fork")
_TIMES, _MORE_S, _WALL, _MOST_BYTES = 3.0, 2.0, 300.0, 16 << 30
_LONG_S = 120.0


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield all code objects in *code*, of functions and classes."""
    yield code
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from codes(item)


def place_of(code: CodeType) -> tuple[str, int]:
    """Return the key that identifies a function's code in a mutated module."""
    return code.co_qualname, code.co_firstlineno


def live() -> tuple[list[FunctionType], list[Any]]:
    """Return all functions of imported modules, and all caches."""
    objects = gc.get_objects()
    kinds = FunctionType, functools._lru_cache_wrapper
    functions, caches = ([item for item in objects if type(item) is kind] for kind in kinds)
    return functions, caches


def mutate(path: Path, text: str, functions: list[FunctionType], caches: list[Any]) -> bool:
    """Replace the code of a module by that in *text* and clear caches; return whether any code changed."""
    new = {place_of(item): item for item in codes(compile(text, str(path), "exec", dont_inherit=True))}
    changed = False
    for item in functions:
        if item.__code__.co_filename == str(path):
            code = new[place_of(item.__code__)]
            changed |= code != item.__code__
            item.__code__ = code
    for item in caches:
        item.cache_clear()
    return changed


def trial(pipe: Any, items: Sequence[pytest.Item], limit_s: float, *change: Any) -> None:
    """Run the tests under a *change* in this process; send the first failed test and the end of each test."""
    seconds = math.ceil(limit_s)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    if change and not mutate(*change):
        pipe.send(RuntimeError(f"{change[0]}: no function of the running module has changed"))
    failed, ends_s = "", [time.process_time()]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        for item, following in zip(items, [*items[1:], None], strict=True):
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                failed = item.nodeid
                break
            ends_s.append(time.process_time())
    pipe.send((failed, ends_s))
    os._exit(0)


def run_trial(items: Sequence[pytest.Item], limit_s: float, *change: Any) -> tuple[str, list[float]] | None:
    """Return the result of `trial`, or ``None`` if it exceeds the limit of processor time."""
    receiver, sender = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=trial, args=(sender, items, limit_s, *change))
    process.start()
    sender.close()
    try:
        answer = receiver.recv() if receiver.poll(_WALL * limit_s) else None
    except EOFError:
        answer = None
    finally:
        process.kill()
        process.join()
    if isinstance(answer, Exception):
        raise answer
    return answer


class Campaign:
    """A pytest plugin that runs the collected tests on each mutant."""

    def __init__(self, modules: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
        self._modules, self._options = modules, options
        self.results: list[dict[str, Any]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Test the mutants of all modules."""
        if session.testsfailed:
            raise session.Failed("some tests cannot even be collected")
        self._running = live()
        gc.freeze()
        for module in self._modules:
            items = [item for item in session.items if item.nodeid.startswith(tuple(module["tests"]))]
            self._module(module, items)
        return True

    def _module(self, module: dict[str, Any], items: list[pytest.Item]) -> None:
        """Test a sample of the mutants of one module."""
        path, rng = ROOT / module["path"], random.Random(f"{self._said.seed} {module['path']}")
        answer = run_trial(items, _LONG_S)
        if answer is None or answer[0] or not items:
            sys.exit(f"{module['path']}: without any change, {answer and answer[0]} fails, of {len(items)} tests")
        spans_s = [end_s - begin_s for begin_s, end_s in pairwise(answer[1])]
        order = sorted(range(len(items)), key=spans_s.__getitem__)
        upto_s = list(accumulate(spans_s[place] for place in order))
        number = max(1, bisect(upto_s, self._options.most))
        items, whole_s = [items[place] for place in order[:number]], upto_s[number - 1]
        number, sample = mutants(path, self._options.sample, rng)
        equivalent = {(mutant["function"], mutant["was"], mutant["now"]) for mutant in module.get("equivalent", ())}
        print(f"\n{module['path']}: {len(items)} tests take {whole_s:.1f} s, {number} mutants", flush=True)
        for mutant in sample:
            if mutant.name in equivalent:
                mutant.outcome = "equivalent"
                continue
            limit_s = _TIMES * whole_s + _MORE_S
            answer = run_trial(items, limit_s, path, mutant.text, *self._running)
            mutant.by = answer[0] if answer else ""
            mutant.outcome = "ended" if answer is None else "killed" if mutant.by else "survived"
            if mutant.outcome == "survived":
                print(f"  {mutant.function}\n    - {mutant.was}\n    + {mutant.now}", flush=True)
        self.results.append({"path": module["path"], "mutants": number, "tried": [asdict(mutant) for mutant in sample]})
        print(line_of(self.results[-1]), flush=True)
        if self._options.out:
            self._options.out.write_text(json.dumps(self.results, indent=1))


def wilson(good: int, number: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    z2 = 1.96**2
    middle = (good + z2 / 2) / (number + z2)
    half = 1.96 / (number + z2) * math.sqrt(good * (number - good) / number + z2 / 4)
    return middle - half, middle + half


def counts_of(result: dict[str, Any]) -> tuple[Counter[str], int, int]:
    """Return the outcomes of a module's mutants, the number of detected ones and of those not equivalent."""
    outcomes = Counter(item["outcome"] for item in result["tried"])
    return outcomes, outcomes["killed"] + outcomes["ended"], outcomes.total() - outcomes["equivalent"]


def line_of(result: dict[str, Any]) -> str:
    """Return the line of a module."""
    outcomes, good, number = counts_of(result)
    low, high = wilson(good, number)
    return (
        f"{result['path']:45} {number:4} of {result['mutants']:4}  {good:4} killed ({outcomes['ended']:2} ended)"
        f"  {outcomes['equivalent']:2} equivalent  {good / number:6.1%}  [{low:.0%}, {high:.0%}]"
    )


def total_of(results: Sequence[dict[str, Any]]) -> str:
    """Return the score of all modules, weighted by their mutants, with a 95 % interval for the sampling."""
    score = variance = 0.0
    weight = sum(result["mutants"] for result in results)
    for result in results:
        _, good, number = counts_of(result)
        share, rest = result["mutants"] / weight, 1 - len(result["tried"]) / result["mutants"]
        soft = (good + 1) / (number + 2)
        score += share * good / number
        variance += share**2 * rest * soft * (1 - soft) / number
    tried_ = sum(len(result["tried"]) for result in results)
    return f"{score:.1%} ± {1.96 * math.sqrt(variance):.1%} of {weight} mutants, {tried_} of them drawn"


def main() -> None:
    """Print every survivor, the score of each module and the total score."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="only modules whose path has this in it")
    parser.add_argument("--sample", type=int, default=25, help="mutants of each module, at most")
    parser.add_argument("--most", type=float, default=4.0, help="seconds of all tests of a module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file for all mutants and their outcomes")
    options = parser.parse_args()
    plan = tomllib.loads(PLAN.read_text())["module"]
    modules = [item for item in plan if any(part in item["path"] for part in options.only.split(","))]
    campaign, os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = Campaign(modules, options), "1"
    os.chdir(ROOT)
    files = sorted(
        {str(file) for item in modules for test in item["tests"] for file in ROOT.glob(test.split("::")[0] + "*")}
    )
    sys.path = [place for place in sys.path if Path(place) != PLAN.parent]  # tests import modules of the same names
    arguments = ["-q", "--no-header", "--tb=native", "--assert=plain", "--override-ini=addopts=--import-mode=importlib"]
    if code := pytest.main([*arguments, "-p", "no:cacheprovider", *files], plugins=[campaign]):
        sys.exit(code)
    print("\n" + "\n".join([*map(line_of, campaign.results), total_of(campaign.results)]))


if __name__ == "__main__":
    main()
