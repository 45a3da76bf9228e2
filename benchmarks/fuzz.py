"""Looks for files that bring a reader down: ``python benchmarks/fuzz.py [READER ...] [--seconds 480] [--out DIR]``.

Each reader of `tests/support/file_readers.py` gets files that libFuzzer makes of good ones, led by the
code that they reach, through Atheris (``pip install atheris``).  What brings a reader down is kept below the folder,
one file for each place in the code; what has been mended is kept in `tests/test_readers.py`.
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
MOST_S = 2.0
"""Processor time that a file may take."""
MOST_BYTES = 16_384
INSTRUMENTED = ["netfl", "ruamel", "tarfile", "zipfile", "gzip", "csv", "json"]
"""Packages whose branches lead the search."""
PLAIN = ["pandas", "torch", "scipy.io", "matplotlib", "pint"]
"""Others, which are there before these so that what these take from them stays as it is: it takes long otherwise."""
_STATE = re.compile(r"#(\d+)\s+(?:INITED|NEW|REDUCE|pulse|DONE|RELOAD)\s+cov: (\d+) ft: (\d+)")


def main() -> None:
    """Fuzz the readers that are named, or all, some at a time, each in a process of its own."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("readers", nargs="*")
    words.add_argument("--seconds", type=int, default=480, help="for each reader")
    words.add_argument("--runs", type=int, default=-1, help="files for each reader; -1 for no limit")
    words.add_argument("--jobs", type=int, default=1, help="readers at a time")
    words.add_argument("--out", type=Path, default=Path("runs/fuzz"))
    said = words.parse_args()
    readers = instrumented()
    seeds = {name: readers[name].seeds() for name in said.readers or readers}
    print(f"{'reader':20} {'files':>9} {'s':>5} {'busy s':>7}  coverage at first, at last  findings")
    waiting, working = [*seeds], {}
    while waiting or working:
        while waiting and len(working) < said.jobs:
            name = waiting.pop(0)
            out = said.out / name
            (out / "findings").mkdir(parents=True, exist_ok=True)
            begun, child = time.monotonic(), os.fork()
            if not child:
                fuzz(readers[name], seeds[name], out, said.seconds, said.runs)
            working[child] = name, out, begun
        child, _, used = os.wait3(0)
        name, out, begun = working.pop(child)
        print(result(name, out, time.monotonic() - begun, used.ru_utime + used.ru_stime), flush=True)


def instrumented() -> Mapping[str, Any]:
    """The readers, all of whose branches are told."""
    for name in PLAIN:
        importlib.import_module(name)
    for module in (edgelist, gml, graphml):
        for one in functions(module):
            atheris.instrument_func(one)
    sys.path.insert(0, str(TESTS))
    with atheris.instrument_imports(include=INSTRUMENTED):
        readers: Mapping[str, Any] = importlib.import_module("readers").READERS
    return readers


def fuzz(reader: Any, seeds: Sequence[bytes], out: Path, seconds: int, runs: int) -> NoReturn:
    """Fuzz one reader in this process, which ends with it."""
    with (out / "log.txt").open("wb") as log:
        for number in (1, 2):
            os.dup2(log.fileno(), number)
    atexit.unregister(shutil.rmtree)
    folder = Path(tempfile.mkdtemp())
    importlib.import_module("reader_seeds").lay(folder)
    corpus = out / "corpus"
    corpus.mkdir(exist_ok=True)
    for data in seeds:
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    words = [
        f"-max_total_time={seconds}",
        f"-runs={runs}",
        f"-max_len={MOST_BYTES}",
        "-timeout=60",
        "-report_slow_units=60",
    ]
    words += ["-rss_limit_mb=3000", f"-artifact_prefix={out / 'findings'}/", str(corpus)]
    atheris.Setup([sys.argv[0], *words], watched(lambda data: reader.target(folder, data), out / "findings"))
    atheris.Fuzz()
    os._exit(0)


def result(name: str, out: Path, seconds: float, busy_s: float) -> str:
    """A line on what came of a reader."""
    states = _STATE.findall((out / "log.txt").read_text(errors="replace"))
    files, coverage = (states[-1][0], f"{states[0][1]} {states[-1][1]}") if states else (0, "none: see log.txt")
    found = sum(path.suffix != ".txt" for path in (out / "findings").iterdir())
    return f"{name:20} {files:>9} {seconds:5.0f} {busy_s:7.0f}  {coverage:26}  {found}"


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions of a module, and those of its classes."""
    classes = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    for one in [one for place in (module, *classes) for one in vars(place).values()]:
        if isinstance(one, FunctionType) and one.__module__ == module.__name__:
            yield one


def watched(target: Callable[[bytes], None], findings: Path) -> Callable[[bytes], None]:
    """*target*, whose failures are kept, the shortest for each place in the code, and do not end the search."""

    def watching(data: bytes) -> None:
        begun = time.process_time()
        try:
            target(data)
        except Exception as error:
            frames = [one for one in traceback.extract_tb(error.__traceback__) if "netfl" in one.filename]
            place = f"{Path(frames[-1].filename).stem}-{frames[-1].lineno}" if frames else "nowhere"
            keep(findings / f"{type(error).__name__}-{place}", data, "".join(traceback.format_exception(error)))
        if time.process_time() - begun > MOST_S:
            keep(findings / "slow", data, f"{time.process_time() - begun:.1f} s")

    return watching


def keep(path: Path, data: bytes, told: str) -> None:
    """Keep a finding, unless a shorter one of its kind is known."""
    if not path.exists() or len(data) < path.stat().st_size:
        path.write_bytes(data)
        path.with_name(path.name + ".txt").write_text(told)


if __name__ == "__main__":
    main()
