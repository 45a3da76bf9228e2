"""Change the law-bearing code in small ways, one at a time, and count how many changes the tests notice.

`mutation.toml` says which modules, which tests must notice their mutants, and which mutants are equivalent, each with
the reason.  Most operators are those of mutmut (``pip install mutmut``); left out are its that make code raise at once
(arguments and values that become ``None``) and those that change text.  Mutated is what is inside of functions, but for
`laws`: they are what tests hold the rest to.

    python benchmarks/mutation.py                        # a sample of each module's mutants
    python benchmarks/mutation.py --only mac --sample 1000

The tests are collected once; each mutant is a fork of that process, in which the functions get their changed code and
the module's tests run, the cheapest first, until one fails.  So nothing that runs at import can be mutated, and what
the tests start in processes of their own is not.  The longest tests beyond ``--most`` seconds of processor time for all
are left out: the score is a lower bound.
A mutant that takes three times as long as none counts as killed: it "ended" otherwise than by a test.
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
    """All code in *code*, of functions and classes."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from codes(one)


def place_of(code: CodeType) -> tuple[str, int]:
    """By what the code of a function is found again in a changed module of as many lines."""
    return code.co_qualname, code.co_firstlineno


def live() -> tuple[list[FunctionType], list[Any]]:
    """All functions of all modules that have been imported; all that keep what they gave."""
    every = gc.get_objects()
    kinds = FunctionType, functools._lru_cache_wrapper
    functions, caches = ([one for one in every if type(one) is kind] for kind in kinds)
    return functions, caches


def mutate(path: Path, text: str, functions: list[FunctionType], caches: list[Any]) -> bool:
    """Give all functions of the module the code that they have in *text*: whether any is another; all forget."""
    new = {place_of(one): one for one in codes(compile(text, str(path), "exec", dont_inherit=True))}
    changed = False
    for one in functions:
        if one.__code__.co_filename == str(path):
            code = new[place_of(one.__code__)]
            changed |= code != one.__code__
            one.__code__ = code
    for one in caches:
        one.cache_clear()
    return changed


def trial(pipe: Any, items: Sequence[pytest.Item], limit_s: float, *change: Any) -> None:
    """In a process of its own: say which test is the first to fail under a *change*, if any, and when each ended."""
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


def tried(items: Sequence[pytest.Item], limit_s: float, *change: Any) -> tuple[str, list[float]] | None:
    """What `trial` says; ``None`` if it did not come to that within so many seconds of processor time."""
    here, there = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=trial, args=(there, items, limit_s, *change))
    process.start()
    there.close()
    try:
        answer = here.recv() if here.poll(_WALL * limit_s) else None
    except EOFError:
        answer = None
    finally:
        process.kill()
        process.join()
    if isinstance(answer, Exception):
        raise answer
    return answer


class Campaign:
    """A plugin of pytest that runs, in place of the tests that were collected, these on each mutant."""

    def __init__(self, modules: Sequence[dict[str, Any]], said: argparse.Namespace) -> None:
        self._modules, self._said = modules, said
        self.results: list[dict[str, Any]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try all modules."""
        if session.testsfailed:
            raise session.Failed("some tests cannot even be collected")
        self._running = live()
        gc.freeze()
        for module in self._modules:
            items = [item for item in session.items if item.nodeid.startswith(tuple(module["tests"]))]
            self._module(module, items)
        return True

    def _module(self, module: dict[str, Any], items: list[pytest.Item]) -> None:
        """Try a sample of one module's mutants."""
        path, rng = ROOT / module["path"], random.Random(f"{self._said.seed} {module['path']}")
        answer = tried(items, _LONG_S)
        if answer is None or answer[0] or not items:
            sys.exit(f"{module['path']}: without any change, {answer and answer[0]} fails, of {len(items)} tests")
        spans_s = [end_s - begin_s for begin_s, end_s in pairwise(answer[1])]
        order = sorted(range(len(items)), key=spans_s.__getitem__)
        upto_s = list(accumulate(spans_s[place] for place in order))
        number = max(1, bisect(upto_s, self._said.most))
        items, whole_s = [items[place] for place in order[:number]], upto_s[number - 1]
        number, sample = mutants(path, self._said.sample, rng)
        equivalent = {(one["function"], one["was"], one["now"]) for one in module.get("equivalent", ())}
        print(f"\n{module['path']}: {len(items)} tests take {whole_s:.1f} s, {number} mutants", flush=True)
        for one in sample:
            if one.name in equivalent:
                one.outcome = "equivalent"
                continue
            limit_s = _TIMES * whole_s + _MORE_S
            answer = tried(items, limit_s, path, one.text, *self._running)
            one.by = answer[0] if answer else ""
            one.outcome = "ended" if answer is None else "killed" if one.by else "survived"
            if one.outcome == "survived":
                print(f"  {one.function}\n    - {one.was}\n    + {one.now}", flush=True)
        self.results.append({"path": module["path"], "mutants": number, "tried": [asdict(one) for one in sample]})
        print(line_of(self.results[-1]), flush=True)
        if self._said.out:
            self._said.out.write_text(json.dumps(self.results, indent=1))


def wilson(good: int, number: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    z2 = 1.96**2
    middle = (good + z2 / 2) / (number + z2)
    half = 1.96 / (number + z2) * math.sqrt(good * (number - good) / number + z2 / 4)
    return middle - half, middle + half


def counts_of(result: dict[str, Any]) -> tuple[Counter[str], int, int]:
    """The outcomes of a module's mutants; how many were noticed, and of how many that could be."""
    outcomes = Counter(one["outcome"] for one in result["tried"])
    return outcomes, outcomes["killed"] + outcomes["ended"], outcomes.total() - outcomes["equivalent"]


def line_of(result: dict[str, Any]) -> str:
    """A module's line."""
    outcomes, good, number = counts_of(result)
    low, high = wilson(good, number)
    return (
        f"{result['path']:45} {number:4} of {result['mutants']:4}  {good:4} killed ({outcomes['ended']:2} ended)"
        f"  {outcomes['equivalent']:2} equivalent  {good / number:6.1%}  [{low:.0%}, {high:.0%}]"
    )


def total_of(results: Sequence[dict[str, Any]]) -> str:
    """The score of all: modules weighed by how many mutants they have; a 95 % interval for the sampling."""
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
    """Print every survivor, and the score of each module and of all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="only modules whose path has this in it")
    parser.add_argument("--sample", type=int, default=25, help="mutants of each module, at most")
    parser.add_argument("--most", type=float, default=4.0, help="seconds of all tests of a module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file for all mutants and their outcomes")
    said = parser.parse_args()
    plan = tomllib.loads(PLAN.read_text())["module"]
    modules = [one for one in plan if any(part in one["path"] for part in said.only.split(","))]
    campaign, os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = Campaign(modules, said), "1"
    os.chdir(ROOT)
    files = sorted(
        {str(file) for one in modules for test in one["tests"] for file in ROOT.glob(test.split("::")[0] + "*")}
    )
    sys.path = [place for place in sys.path if Path(place) != PLAN.parent]  # its files have names that tests import
    options = ["-q", "--no-header", "--tb=native", "--assert=plain", "--override-ini=addopts=--import-mode=importlib"]
    if code := pytest.main([*options, "-p", "no:cacheprovider", *files], plugins=[campaign]):
        sys.exit(code)
    print("\n" + "\n".join([*map(line_of, campaign.results), total_of(campaign.results)]))


if __name__ == "__main__":
    main()
