"""Search for files that break a reader: ``python benchmarks/fuzz.py [READER ...] [--seconds 480] [--out DIR]``.

Each reader of `tests/support/file_readers.py` gets files that libFuzzer derives from valid ones, guided by coverage,
through Atheris (``pip install atheris``).  Files that break a reader are stored below the folder, one per location in
the code.  Fixed problems are in `tests/test_readers.py`.
"""

from __future__ import annotations

import argparse
import atexit
import hashlib
import importlib
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NoReturn

import atheris
from networkx.readwrite import edgelist, gml, graphml

TESTS = Path(__file__).parents[1] / "tests"
LIMIT_S = 2.0
"""Largest processor time of a file in s."""
LIMIT_BYTES = 16_384
INSTRUMENTED = ["netfl", "ruamel", "tarfile", "zipfile", "gzip", "csv", "json"]
"""Packages whose coverage guides the search."""
PLAIN = ["pandas", "torch", "scipy.io", "matplotlib"]
"""Packages imported first, so that they are not instrumented, which would be slow."""
_STATE = re.compile(r"#(\d+)\s+(?:INITED|NEW|REDUCE|pulse|DONE|RELOAD)\s+cov: (\d+) ft: (\d+)")


def main() -> None:
    """Fuzz the named readers, or all, each in its own process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readers", nargs="*")
    parser.add_argument("--seconds", type=int, default=480, help="for each reader")
    parser.add_argument("--runs", type=int, default=-1, help="files for each reader; -1 for no limit")
    parser.add_argument("--jobs", type=int, default=1, help="readers at a time")
    parser.add_argument("--out", type=Path, default=Path("runs/fuzz"))
    options = parser.parse_args()
    readers = instrumented()
    seeds = {name: readers[name].seeds() for name in options.readers or readers}
    print(f"{'reader':20} {'files':>9} {'s':>5} {'busy s':>7}  coverage at first, at last  findings")
    waiting, working = [*seeds], {}
    while waiting or working:
        while waiting and len(working) < options.jobs:
            name = waiting.pop(0)
            out = options.out / name
            (out / "findings").mkdir(parents=True, exist_ok=True)
            start_s, child = time.monotonic(), os.fork()
            if not child:
                fuzz(readers[name], seeds[name], out, options.seconds, options.runs)
            working[child] = name, out, start_s
        child, _, used = os.wait3(0)
        name, out, start_s = working.pop(child)
        print(result(name, out, time.monotonic() - start_s, used.ru_utime + used.ru_stime), flush=True)


def instrumented() -> Mapping[str, Any]:
    """Return the readers with instrumented code."""
    for name in PLAIN:
        importlib.import_module(name)
    for module in (edgelist, gml, graphml):
        for item in functions(module):
            atheris.instrument_func(item)
    sys.path.insert(0, str(TESTS))
    with atheris.instrument_imports(include=INSTRUMENTED):
        readers: Mapping[str, Any] = importlib.import_module("support.file_readers").READERS
    return readers


def fuzz(reader: Any, seeds: Sequence[bytes], out: Path, seconds: int, runs: int) -> NoReturn:
    """Fuzz one reader and end this process."""
    with (out / "log.txt").open("wb") as log:
        for number in (1, 2):
            os.dup2(log.fileno(), number)
    atexit.unregister(shutil.rmtree)
    folder = Path(tempfile.mkdtemp())
    importlib.import_module("support.file_reader_seeds").lay(folder)
    corpus = out / "corpus"
    corpus.mkdir(exist_ok=True)
    for data in seeds:
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    arguments = [
        f"-max_total_time={seconds}",
        f"-runs={runs}",
        f"-max_len={LIMIT_BYTES}",
        "-timeout=60",
        "-report_slow_units=60",
    ]
    arguments += ["-rss_limit_mb=3000", f"-artifact_prefix={out / 'findings'}/", str(corpus)]
    atheris.Setup([sys.argv[0], *arguments], watched(lambda data: reader.target(folder, data), out / "findings"))
    atheris.Fuzz()
    os._exit(0)


def result(name: str, out: Path, seconds: float, busy_s: float) -> str:
    """Return the line of results of a reader."""
    states = _STATE.findall((out / "log.txt").read_text(errors="replace"))
    files, coverage = (states[-1][0], f"{states[0][1]} {states[-1][1]}") if states else (0, "none: see log.txt")
    found = sum(path.suffix != ".txt" for path in (out / "findings").iterdir())
    return f"{name:20} {files:>9} {seconds:5.0f} {busy_s:7.0f}  {coverage:26}  {found}"


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions of a module and of its classes."""
    classes = [item for item in vars(module).values() if isinstance(item, type) and item.__module__ == module.__name__]
    for item in [item for place in (module, *classes) for item in vars(place).values()]:
        if isinstance(item, FunctionType) and item.__module__ == module.__name__:
            yield item


def watched(target: Callable[[bytes], None], findings: Path) -> Callable[[bytes], None]:
    """Return *target* with its failures stored, the shortest per location, instead of raised."""

    def watching(data: bytes) -> None:
        start_s = time.process_time()
        try:
            target(data)
        except Exception as error:
            frames = [item for item in traceback.extract_tb(error.__traceback__) if "netfl" in item.filename]
            place = f"{Path(frames[-1].filename).stem}-{frames[-1].lineno}" if frames else "unknown"
            keep(findings / f"{type(error).__name__}-{place}", data, "".join(traceback.format_exception(error)))
        if time.process_time() - start_s > LIMIT_S:
            keep(findings / "slow", data, f"{time.process_time() - start_s:.1f} s")

    return watching


def keep(path: Path, data: bytes, report: str) -> None:
    """Store a finding unless a shorter one of its kind is known."""
    if not path.exists() or len(data) < path.stat().st_size:
        path.write_bytes(data)
        path.with_name(path.name + ".txt").write_text(report)


if __name__ == "__main__":
    main()
