"""Change the code in small ways, one at a time, and count how many changes the tests detect.

Most operators are those of mutmut (``pip install mutmut``), without those that make code raise at once (arguments and
values that become ``None``) and those that change text.  Only code inside functions is mutated, except `laws`, with
which the tests compare the rest.  `mutation.toml` lists equivalent mutants, with the reason.

    python benchmarks/mutation.py                        # 200 mutants
    python benchmarks/mutation.py --only network/mac --sample 1000

The first call measures which quick tests run which lines, and how long each takes: about 15 minutes.  A later call
measures the new tests, and tries only mutants that no test has detected before.  All this is kept in `build/mutation`;
remove the folder after larger changes.

The tests are collected once.  Each mutant is a fork of that process, in which the functions get their changed code.
The tests of its line run until one fails: first those whose folders resemble the module's, among equals the fastest.
Code that runs at import, and processes started by tests, cannot be mutated.  Tests beyond ``--budget`` seconds of
processor time are omitted, so the score is a lower bound.  A mutant that takes more than 120 s, where the original does
not, counts as killed, with the outcome "ended".
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import io
import json
import math
import multiprocessing
import os
import resource
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from itertools import accumulate, pairwise
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import coverage
import pytest
from _pytest.runner import runtestprotocol
from mutants import Mutant, draw_mutants

ROOT = Path(__file__).parents[1]
PACKAGES = "network", "learning", "access", "results"
BUILD = ROOT / "build/mutation"
LINES, SECONDS, OUTCOMES = BUILD / "lines", BUILD / "seconds.json", BUILD / "outcomes.json"
PLAN = ROOT / "benchmarks/mutation.toml"
KEYS = "path", "function", "was", "now"
_FORK = multiprocessing.get_context("fork")
_LIMIT_S, _MOST_BYTES = 120, 16 << 30
_BATCH = 500


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield all code objects in *code*, of functions and classes."""
    yield code
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from codes(item)


def key_of(code: CodeType) -> tuple[str, int]:
    """Return the key that identifies a function's code in a mutated module."""
    return code.co_qualname, code.co_firstlineno


def live_objects() -> tuple[list[FunctionType], list[Any]]:
    """Return all functions of imported modules, and all caches."""
    objects = gc.get_objects()
    kinds = FunctionType, functools._lru_cache_wrapper
    functions, caches = ([item for item in objects if type(item) is kind] for kind in kinds)
    return functions, caches


def apply_mutant(mutant: Mutant, functions: list[FunctionType], caches: list[Any]) -> None:
    """Replace the code of the module's functions and clear caches; raise if no function changes."""
    path = str(ROOT / mutant.path)
    mutated = {key_of(code): code for code in codes(compile(mutant.text, path, "exec", dont_inherit=True))}
    changed = False
    for function in functions:
        if function.__code__.co_filename == path:
            code = mutated[key_of(function.__code__)]
            changed |= code != function.__code__
            function.__code__ = code
    for cache in caches:
        cache.cache_clear()
    if not changed:
        raise RuntimeError(f"{mutant.path}: no function of the running module has changed")


def run_item(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Run a test and return whether it passed or was skipped."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def first_failure(items: Sequence[pytest.Item], change: Callable[[], None]) -> str:
    """Return the name of the first test that fails after a change, empty if all pass."""
    change()
    for item, following in pairwise([*items, None]):
        if not run_item(item, following):
            return item.nodeid
    return ""


def read_seconds() -> dict[str, float | None]:
    """Return the processor time of each test that has been measured."""
    return json.loads(SECONDS.read_text()) if SECONDS.exists() else {}


def measure(items: Sequence[pytest.Item]) -> None:
    """Add the lines that each test runs, and its processor time; ``None`` for a test that fails."""
    seconds = read_seconds()
    tracer = coverage.Coverage(LINES, source=[str(ROOT / "netfl" / name) for name in PACKAGES], config_file=False)
    tracer.load()
    tracer.start()
    for item, following in pairwise([*items, None]):
        tracer.switch_context(item.nodeid)
        begin_s = time.process_time()
        passed = run_item(item, following)
        seconds[item.nodeid] = time.process_time() - begin_s if passed else None
    tracer.stop()
    tracer.save()
    SECONDS.write_text(json.dumps(seconds, indent=0))


def answer(pipe: Any, limit_s: int, function: Callable[..., Any], *arguments: Any) -> None:
    """Send the result of a function, or its error, and end this process."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    try:
        pipe.send(function(*arguments))
    except Exception as error:
        pipe.send(error)
    os._exit(0)


def run_in_fork(limit_s: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function in a fork of this process, ``None`` if it exceeds the limit of processor time.

    A fork that waits for something ends after six times the limit.
    """
    receiver, sender = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=answer, args=(sender, limit_s, function, *arguments))
    process.start()
    sender.close()
    try:
        result = receiver.recv() if receiver.poll(6 * limit_s) else None
    except EOFError:
        result = None
    finally:
        process.kill()
        process.join()
    if isinstance(result, Exception):
        raise result
    return result


class Campaign:
    """A pytest plugin that runs the collected tests on each mutant."""

    def __init__(self, sample: Sequence[Mutant], budget_s: float) -> None:
        self._sample = sample
        self._budget_s = budget_s
        self._fails_always: dict[str, bool] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Test all mutants of the sample without an outcome."""
        if session.testsfailed:
            raise session.Failed("some tests cannot even be collected")
        for path in {mutant.path for mutant in self._sample}:
            importlib.import_module(path.removesuffix(".py").replace("/", "."))
        self._items = {item.nodeid: item for item in session.items}
        self._live = live_objects()
        gc.freeze()
        measured = read_seconds()
        new = [item for item in session.items if item.nodeid not in measured]
        for start in range(0, len(new), _BATCH):
            run_in_fork(7200, measure, new[start : start + _BATCH])
        self._seconds = {name: seconds for name, seconds in read_seconds().items() if seconds is not None}
        self._lines = coverage.CoverageData(str(LINES))
        self._lines.read()
        for number, mutant in enumerate(self._sample, start=1):
            if not mutant.outcome:
                self._try(mutant)
            if mutant.outcome == "survived":
                print(
                    f"\n{mutant.path}:{mutant.line} {mutant.function}\n  - {mutant.was}\n  + {mutant.now}", flush=True
                )
            if number % 10 == 0:
                print(line_of(f"the first {number}", self._sample[:number]), flush=True)
                write_outcomes(self._sample)
        return True

    def _try(self, mutant: Mutant) -> None:
        """Run the tests of a mutant's line.

        A test that fails without the mutant, too, does not count, nor does a time that is also exceeded without it.
        """
        items = self._tests_of(mutant)
        change = functools.partial(apply_mutant, mutant, *self._live)
        while mutant.outcome == "":
            failed = run_in_fork(_LIMIT_S, first_failure, items, change)
            if failed is None:
                is_slow = run_in_fork(_LIMIT_S, first_failure, items, lambda: None) is None
                mutant.outcome = "survived" if is_slow else "ended"
            elif failed == "":
                mutant.outcome = "survived"
            elif self._fails_unchanged(failed):
                items = [item for item in items if item.nodeid != failed]
            else:
                mutant.outcome = "killed"
                mutant.by = failed

    def _fails_unchanged(self, name: str) -> bool:
        """Return whether a test fails alone, without any mutant."""
        if name not in self._fails_always:
            self._fails_always[name] = run_in_fork(_LIMIT_S, first_failure, [self._items[name]], lambda: None) != ""
        return self._fails_always[name]

    def _tests_of(self, mutant: Mutant) -> list[pytest.Item]:
        """Return the tests that run the line of a mutant, or the last line before it that any test runs.

        The other tests of their files follow: a result that tests share is measured with the first of them.
        """
        module = mutant.path.partition("/")[2]
        tests_by_line = self._lines.contexts_by_lineno(str(ROOT / mutant.path))
        tests_before = (set(tests_by_line.get(line, ())) - {""} for line in range(mutant.line, 0, -1))
        covering: set[str] = next(filter(None, tests_before), set())
        files = {name.partition("::")[0] for name in covering}

        def order(name: str) -> tuple[bool, int, float]:
            tests = name.partition("::")[0].partition("/")[2].replace("/test_", "/")
            shared_folders = len(Path(os.path.commonpath([module, tests])).parts)
            return name not in covering, -shared_folders, self._seconds[name]

        measured = self._items.keys() & self._seconds.keys()
        names = sorted((name for name in measured if name.partition("::")[0] in files), key=order)
        ends_s = accumulate(self._seconds[name] for name in names)
        return [self._items[name] for name, end_s in zip(names, ends_s, strict=True) if end_s <= self._budget_s]


def wilson(good: int, number: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    z2 = 1.96**2
    middle = (good + z2 / 2) / (number + z2)
    half = 1.96 / (number + z2) * math.sqrt(good * (number - good) / number + z2 / 4)
    return middle - half, middle + half


def line_of(name: str, sample: Sequence[Mutant]) -> str:
    """Return a line with the outcomes of mutants."""
    outcomes = Counter(mutant.outcome for mutant in sample)
    good = outcomes["killed"] + outcomes["ended"]
    number = good + outcomes["survived"]
    low, high = wilson(good, number) if number else (0.0, 1.0)
    return (
        f"{name:16} {len(sample):4} mutants  {good:4} killed ({outcomes['ended']:2} ended)"
        f"  {outcomes['equivalent']:3} equivalent  {good / max(number, 1):6.1%}  [{low:.0%}, {high:.0%}]"
    )


def read_outcomes(sample: Sequence[Mutant]) -> None:
    """Set the outcomes of equivalent mutants, and of those that were detected before."""
    equivalent = {tuple(item[key] for key in KEYS) for item in tomllib.loads(PLAN.read_text())["equivalent"]}
    earlier = json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else []
    detected = {tuple(item[key] for key in KEYS): item for item in earlier if item["outcome"] in ("killed", "ended")}
    for mutant in sample:
        key = tuple(getattr(mutant, name) for name in KEYS)
        if key in equivalent:
            mutant.outcome = "equivalent"
        elif key in detected:
            mutant.outcome = detected[key]["outcome"]
            mutant.by = detected[key]["by"]


def write_outcomes(sample: Sequence[Mutant]) -> None:
    """Write all fields of the mutants but the text of the module."""
    OUTCOMES.write_text(json.dumps([{**asdict(mutant), "text": ""} for mutant in sample], indent=1))


def main() -> None:
    """Print every survivor and the scores."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="modules whose path contains this")
    parser.add_argument("--sample", type=int, default=200, help="number of mutants")
    parser.add_argument("--budget", type=float, default=40.0, help="seconds of all tests of a mutant")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    BUILD.mkdir(parents=True, exist_ok=True)
    paths = [
        path for name in PACKAGES for path in sorted(Path("netfl", name).rglob("*.py")) if options.only in str(path)
    ]
    number, sample = draw_mutants(paths, options.sample, options.seed)
    print(f"{len(sample)} of {number} mutants of {len(paths)} modules", flush=True)
    read_outcomes(sample)
    sys.path = [place for place in sys.path if Path(place) != PLAN.parent]  # tests import modules of the same names
    campaign = Campaign(sample, options.budget)
    if code := pytest.main(
        ["-q", "--no-header", "--tb=native", "--assert=plain", "-m", "not slow and not extra"], [campaign]
    ):
        sys.exit(code)
    write_outcomes(sample)
    for name in PACKAGES:
        print(line_of(name, [mutant for mutant in sample if mutant.path.startswith(f"netfl/{name}/")]))
    print(line_of("all", sample))


if __name__ == "__main__":
    main()
