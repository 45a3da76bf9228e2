"""Kills runs at random moments, goes on with them, and compares every table with that of a run that was left alone.

A network in which who is heard emerges, learners, versions and all events, with a checkpoint every other round and
tables that are written a little at a time.  A third of the kills come at any time, a third while a checkpoint is
written, a third while the tables get their names at the end.  Runs are forked from this process, so that a kill does
not cost the import of everything (Linux).

    python benchmarks/kills.py --kills 50
    python benchmarks/kills.py --kills 10 --what trace      # or workers, extend
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

import netfl
from netfl.learning import learner as _torch  # noqa: F401 - imported once, before all forks
from netfl.results import tables
from netfl.results.run_reader import EXTENSION
from netfl.scenario.scenario import Scenario

SCENARIO = Path(__file__).parents[1] / "scenarios/emergent_stationary.yaml"
CHANGES = {
    "rounds": 100,
    "replicas": 2,
    "partition": "iid",
    "data": {"kind": "blobs", "centers": [[0, 0], [3, 3], [0, 4]], "samples": 600},
    "model": {"kind": "mlp", "hidden": [16]},
    "record": {"events": "all", "versions": 10},
    "checkpoint": {"rounds": 2},
}
MORE = 3
"""Replicas after an extension."""
PHASES = ("before it began", "at work", "writing a checkpoint", "closing", "merging", "done already")


def forked(work: Callable[[], object]) -> int:
    """Do *work* in a process of its own: its number."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        os.setpgid(0, 0)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(number: int) -> bool:
    """Whether the process has ended; well, or there is an error."""
    pid, status = os.waitpid(number, os.WNOHANG)
    if pid and status:
        raise RuntimeError(f"a run that nobody killed ended with {status}")
    return bool(pid)


def wait(number: int) -> float:
    """Wait for the process to end well: the seconds that took."""
    begin = time.monotonic()
    while not ended(number):
        time.sleep(0.005)
    return time.monotonic() - begin


def kill(number: int, folder: Path, aim: int, seconds: float, rng: random.Random) -> None:
    """Kill a run that would take so many *seconds*: at any time, at a checkpoint, or at its end."""
    begin, at = time.monotonic(), rng.uniform(0, seconds)
    while not ended(number):
        passed = time.monotonic() - begin
        late = passed > at
        if (
            (aim == 0 and late)
            or (aim == 1 and late and (folder / "checkpoint.pt.part").exists())
            or (aim == 2 and (folder / "rounds.parquet").exists() and rng.random() < 0.1)
        ):
            os.killpg(number, signal.SIGKILL)
            os.waitpid(number, 0)
            return
        time.sleep(0.0005 if aim else 0.002)


def phase(folder: Path, extending: bool) -> str:
    """What the run was at when it was killed, by what it left."""
    place = folder / EXTENSION if extending else folder
    if not (place / "manifest.json").exists():
        return PHASES[5] if extending and netfl.open_run(folder).manifest["replicas"] == MORE else PHASES[0]
    if netfl.open_run(place).status == "done":
        return PHASES[4] if extending else PHASES[5]
    if (place / "checkpoint.pt.part").exists():
        return PHASES[2]
    return PHASES[3] if (place / "rounds.parquet").exists() else PHASES[1]


def differences(one: Path, other: Path) -> list[str]:
    """The files in which two finished runs differ."""
    names = {path.relative_to(folder) for folder in (one, other) for path in folder.rglob("*")}
    found = [str(name) for name in names if name.name.endswith((".part", ".pt")) or not (one / name).exists()]
    for name in (one / name for name in names if (one / name).exists()):
        twin = other / name.relative_to(one)
        if name.suffix == ".parquet" and not pd.read_parquet(name).equals(pd.read_parquet(twin)):
            found.append(str(name))
        if name.suffix in {".safetensors", ".yaml"} and name.read_bytes() != twin.read_bytes():
            found.append(str(name))
    same = netfl.open_run(one).summary == netfl.open_run(other).summary
    return found if same else [*found, "summary.json"]


def main() -> None:
    """Print how many were killed in each phase, and how many of these ended as they should."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--what", choices=["run", "workers", "trace", "extend"], default="run")
    parser.add_argument("--seed", type=int, default=0)
    said = parser.parse_args()
    tables.CHUNK = 200
    scenario, rng = netfl.load(SCENARIO, CHANGES), random.Random(said.seed)
    workers = 2 if said.what == "workers" else 1
    extending = said.what == "extend"

    def begin(folder: Path) -> object:
        if said.what == "trace":
            return netfl.trace(scenario, folder)
        if extending:
            return netfl.extend(folder, MORE, device="cpu")
        return netfl.run(scenario, folder, device="cpu", workers=workers)

    def finish(folder: Path) -> object:
        if extending:
            return netfl.open_run(folder) if netfl.open_run(folder).manifest["replicas"] == MORE else begin(folder)
        if not (folder / "manifest.json").exists():
            return begin(folder)
        if netfl.open_run(folder).status == "done":
            return None
        return netfl.resume(folder, device="cpu", workers=workers)

    with TemporaryDirectory() as place:
        play(
            scenario,
            Path(place),
            said.kills,
            rng,
            (0, 2) if said.what == "trace" else (0, 1, 2),
            begin,
            finish,
            extending,
        )


def play(
    scenario: Scenario,
    place: Path,
    kills: int,
    rng: random.Random,
    aims: tuple[int, ...],
    begin: Callable[[Path], object],
    finish: Callable[[Path], object],
    extending: bool,
) -> None:
    """Run once alone, then kill and go on, again and again."""
    whole, source = place / "whole", place / "source"
    if extending:
        wait(forked(lambda: netfl.run(scenario, source, device="cpu")))
        shutil.copytree(source, whole)
    seconds = wait(forked(lambda: begin(whole)))
    print(f"alone: {seconds:.1f} s", flush=True)
    killed, good = Counter[str](), Counter[str]()
    for number in range(kills):
        folder = place / f"run{number}"
        if extending:
            shutil.copytree(source, folder)
        process = forked(lambda: begin(folder))  # noqa: B023 - it runs at once
        kill(process, folder / EXTENSION if extending else folder, aims[number % len(aims)], seconds, rng)
        what = phase(folder, extending) if folder.exists() else PHASES[0]
        killed[what] += 1
        wait(forked(lambda: finish(folder)))  # noqa: B023
        wrong = differences(folder, whole)
        if what == PHASES[5]:  # what only was there to go on with may still be there
            wrong = [name for name in wrong if not name.endswith((".part", ".pt"))]
        good[what] += not wrong
        if wrong:
            print(f"kill {number}, {what}: {', '.join(sorted(wrong))}", flush=True)
        shutil.rmtree(folder)
    for what in PHASES:
        print(f"{what:22} killed {killed[what]:4}, ended as left alone {good[what]:4}")
    if good.total() != kills:
        sys.exit(1)


if __name__ == "__main__":
    main()
