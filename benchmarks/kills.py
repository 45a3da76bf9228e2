"""Kill runs at random moments, resume them, and compare every table with that of an undisturbed run.

The scenario is a network with learners, versions and all events, a checkpoint every other round and frequent writes of
tables.  A third of the kills come at any time, a third during a checkpoint, a third while the tables are renamed at the
end.  Runs are forked from this process, so that they need no new imports (Linux).

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

import netfl
from netfl.learning import learner as _torch  # noqa: F401 - imported once, before all forks
from netfl.results import tables
from netfl.results.run_reader import EXTENSION, MERGED
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
    """Run *work* in a forked process; return its id."""
    pid = os.fork()
    if pid:
        return pid
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


def ended(pid: int) -> bool:
    """Return whether the process has ended; raise an error if it failed."""
    ended_pid, status = os.waitpid(pid, os.WNOHANG)
    if ended_pid and status:
        raise RuntimeError(f"a run ended without a kill with {status}")
    return bool(ended_pid)


def wait(pid: int) -> float:
    """Wait for the process to end; return the duration in seconds."""
    begin = time.monotonic()
    while not ended(pid):
        time.sleep(0.005)
    return time.monotonic() - begin


def kill(pid: int, folder: Path, aim: int, seconds: float, rng: random.Random) -> None:
    """Kill a run that takes *seconds* at any time (*aim* 0), at a checkpoint (1), or at its end (2)."""
    begin, at = time.monotonic(), rng.uniform(0, seconds)
    while not ended(pid):
        passed = time.monotonic() - begin
        late = passed > at
        if (
            (aim == 0 and late)
            or (aim == 1 and late and (folder / "checkpoint.pt.part").exists())
            or (aim == 2 and (folder / "rounds.parquet").exists() and rng.random() < 0.1)
        ):
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.0005 if aim else 0.002)


def phase(folder: Path, extending: bool) -> str:
    """Return the phase in which the run was killed, derived from its files."""
    place = folder / EXTENSION if extending else folder
    if extending and (folder / MERGED).exists():
        return PHASES[4]
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
        if name.suffix in {".parquet", ".safetensors", ".yaml"} and name.read_bytes() != twin.read_bytes():
            found.append(str(name))
    same = netfl.open_run(one).summary == netfl.open_run(other).summary
    return found if same else [*found, "summary.json"]


def main() -> None:
    """Print how many were killed in each phase, and how many of these ended as they should."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--what", choices=["run", "workers", "trace", "extend"], default="run")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tables.CHUNK = 200
    scenario, rng = netfl.load(SCENARIO, CHANGES), random.Random(options.seed)
    workers = 2 if options.what == "workers" else 1
    extending = options.what == "extend"

    def begin(folder: Path) -> object:
        if options.what == "trace":
            return netfl.trace(scenario, folder)
        if extending:
            return netfl.extend(folder, MORE, device="cpu")
        return netfl.run(scenario, folder, device="cpu", workers=workers)

    def finish(folder: Path) -> object:
        if extending:
            is_done = netfl.open_run(folder).manifest["replicas"] == MORE and not (folder / MERGED).exists()
            return netfl.open_run(folder) if is_done else begin(folder)
        if not (folder / "manifest.json").exists():
            return begin(folder)
        if netfl.open_run(folder).status == "done":
            return None
        return netfl.resume(folder, device="cpu", workers=workers)

    with TemporaryDirectory() as place:
        repeat_kills(
            scenario,
            Path(place),
            options.kills,
            rng,
            (0, 2) if options.what == "trace" else (0, 1, 2),
            begin,
            finish,
            extending,
        )


def repeat_kills(
    scenario: Scenario,
    place: Path,
    kills: int,
    rng: random.Random,
    aims: tuple[int, ...],
    begin: Callable[[Path], object],
    finish: Callable[[Path], object],
    extending: bool,
) -> None:
    """Run once without a kill, then kill and resume repeatedly."""
    whole, source = place / "whole", place / "source"
    if extending:
        wait(forked(lambda: netfl.run(scenario, source, device="cpu")))
        shutil.copytree(source, whole)
    seconds = wait(forked(lambda: begin(whole)))
    print(f"undisturbed: {seconds:.1f} s", flush=True)
    killed, good = Counter[str](), Counter[str]()
    for number in range(kills):
        folder = place / f"run{number}"
        if extending:
            shutil.copytree(source, folder)
        process = forked(lambda: begin(folder))  # noqa: B023 - it runs at once
        kill(process, folder / EXTENSION if extending else folder, aims[number % len(aims)], seconds, rng)
        phase_ = phase(folder, extending) if folder.exists() else PHASES[0]
        killed[phase_] += 1
        wait(forked(lambda: finish(folder)))  # noqa: B023
        differing = differences(folder, whole)
        if phase_ == PHASES[5]:  # files for a resumption may still exist
            differing = [name for name in differing if not name.endswith((".part", ".pt"))]
        good[phase_] += not differing
        if differing:
            print(f"kill {number}, {phase_}: {', '.join(sorted(differing))}", flush=True)
        shutil.rmtree(folder)
    for phase_ in PHASES:
        print(f"{phase_:22} killed {killed[phase_]:4}, ended as the undisturbed run {good[phase_]:4}")
    if good.total() != kills:
        sys.exit(1)


if __name__ == "__main__":
    main()
