"""Campaign: make the runs that docs/reproduction lacks, for a given time, and write the page.

The list of runs is that of the experiments (`reproduction.Part`). One task is one replica of one part. Tasks run in the
order of the turns of their parts (`reproduction.TURNS`), and within a turn the cheap ones first: by the hours that a
replica still takes, and with equal hours the first replicas of all parts before further ones. Results are added to
analysis/results, so that the work adds up over many days and machines: a replica with a stored result does not run
again, even if its run directory is gone. Checkpoints of unfinished replicas are packed into
analysis/results/checkpoints, 20 MB at most, and continue there on a new clone.

A campaign that is interrupted or killed continues when it is started again. It commits nothing.

    python analysis/campaign.py --list             the plan: hours done and left, replicas done and wanted
    python analysis/campaign.py --hours 2.5        run for two and a half hours, with two workers of one thread each
    python analysis/campaign.py --hours 8 --only fig3 fig4 --runs runs/campaign
    python analysis/campaign.py --hours 1 --together    with a GPU, which trains all replicas of a part in one batch
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import paper
from kept_checkpoints import KeptCheckpoints, round_of_run
from reproduction import Experiment, Part, Result
from run_results import read_results, write_results

from netfl.errors import NetflError
from netfl.learning.data._download import list_datasets
from netfl.results.locking import is_locked, locked
from netfl.results.run_reader import Run
from netfl.sweeps.engine import Engine, LocalEngine
from netfl.sweeps.plan import Task, task_folder
from netfl.sweeps.task import TaskUpdate

KEEP_EVERY_S = 600.0
"""Wall-clock seconds between two times at which checkpoints are packed."""
MARGIN_S = 90.0
"""Seconds before the end of the time at which runs are stopped, for the last round, the plots and the page."""
_WAIT_S = 60.0
"""Maximum time to wait until the workers of a killed campaign have ended."""


@dataclass(frozen=True)
class Replicas:
    """Adjacent replicas of one part, most often one: a task of the campaign.

    Args:
        experiment: the experiment.
        name: the name of the part.
        first: the number of the first replica.
        count: how many they are.
    """

    experiment: Experiment
    name: str
    first: int
    count: int = 1

    @property
    def part(self) -> Part:
        """The part."""
        return self.experiment.parts[self.name]

    @property
    def stem(self) -> str:
        """Name of the task in messages and of its files."""
        last = f"-{self.first + self.count - 1}" if self.count > 1 else ""
        return f"{self.experiment.stem(self.name)}.{self.first}{last}"

    @property
    def numbers(self) -> range:
        """The numbers of the replicas."""
        return range(self.first, self.first + self.count)

    @cached_property
    def key(self) -> str:
        """Key of the task, which depends on the settings."""
        return self._make_task("").key

    @property
    def task(self) -> Task:
        """The task of an engine."""
        return self._make_task(self.part.load(replicas=self.numbers.stop).to_yaml())

    def _make_task(self, text: str) -> Task:
        trace = blake2b(f"{self.stem} {json.dumps(self.part.settings)}".encode(), digest_size=6).hexdigest()
        first, stop = self.numbers.start, self.numbers.stop
        return Task(trace=trace, lanes={}, first=first, stop=stop, levels=[], label=self.stem, text=text, learning=True)


class Campaign:
    """The replicas that are missing, their run directories, and the stored results.

    Args:
        experiments: the experiments.
        folder: the folder of the run directories.
        results: the folder of the stored results.
    """

    def __init__(self, experiments: Sequence[Experiment], folder: Path, results: Path) -> None:
        self.experiments, self.folder, self._results = experiments, folder, results
        self.kept = KeptCheckpoints(results / "checkpoints")

    def results_of(self, experiment: Experiment) -> dict[str, Result]:
        """Return the stored results of an experiment, by part."""
        return read_results(experiment, self._results)

    def missing(self) -> list[Replicas]:
        """Return the replicas without a result, by turn, and within a turn the cheap ones first."""
        found = []
        for experiment in self.experiments:
            stored = self.results_of(experiment)
            for name, part in experiment.parts.items():
                result = stored.get(name)
                for number in range(part.replicas if part.turn else 0):
                    if experiment.is_done(name, number, result):
                        continue
                    replica = Replicas(experiment, name, number)
                    hours = experiment.hours(name, result) * (1 - self.share_done(replica))
                    found.append((part.turn, math.inf if math.isnan(hours) else round(hours, 3), number, replica))
        return [replica for *_, replica in sorted(found, key=lambda entry: entry[:3])]

    def share_done(self, replica: Replicas) -> float:
        """Return the share of the rounds of an unfinished replica that a checkpoint holds."""
        done = max(round_of_run(self.run_folder(replica)), self.kept.round_of(replica.stem))
        return done / replica.part.rounds

    def run_folder(self, replica: Replicas) -> Path:
        """Return the run directory of a replica."""
        return task_folder(self.folder, replica.key)

    def run(
        self,
        engine: Engine,
        should_stop: Callable[[], bool],
        report: Callable[[str], None] = lambda line: None,
        *,
        together: bool = False,
    ) -> set[str]:
        """Run missing replicas until all have a result or *should_stop*.

        Args:
            engine: runs the tasks.
            should_stop: polled regularly; once it returns true, runs end after their round, with a checkpoint.
            report: receives lines for the terminal.
            together: run adjacent replicas of a part as one task, which trains them in one batch, for a GPU; the
                checkpoints of such a task are not packed.

        Returns:
            The names of the experiments with new results.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            for part in self._results.rglob("*.part"):  # a file that a killed campaign was writing
                part.unlink()
            absent = absent_data()
            replicas = [replica for replica in self.missing() if replica.part.data_kind not in absent]
            if together:
                replicas = join_adjacent(replicas)
            changed = {replica.experiment.name for replica in replicas if self._adopt(replica, report)}
            replicas = [replica for replica in replicas if not self._has_result(replica)]
            by_key = {replica.key: replica for replica in replicas}
            packed_at = time.monotonic()

            def on_update(update: TaskUpdate) -> None:
                replica = by_key[update.task]
                if not update.ended:
                    return
                if update.error:
                    report(f"{replica.stem}: failed: {update.error}")
                elif update.stopped:
                    report(f"{replica.stem}: stopped after {self.share_done(replica):.0%} of its rounds")
                else:
                    self._store(replica)
                    changed.add(replica.experiment.name)
                    report(f"{replica.stem}: done")

            def stop() -> bool:
                nonlocal packed_at
                if time.monotonic() - packed_at > KEEP_EVERY_S:
                    self._keep(replicas, report)
                    packed_at = time.monotonic()
                return should_stop()

            engine.run([replica.task for replica in replicas], self.folder, on_update, stop)
            self._keep(replicas, report)
        return changed

    def _adopt(self, replica: Replicas, report: Callable[[str], None]) -> bool:
        """Store the result of a run that was finished before a kill, or unpack a checkpoint; return whether stored."""
        folder, waited_s = self.run_folder(replica), 0.0
        while is_locked(folder) and waited_s < _WAIT_S:  # a worker of a killed campaign that ends its round
            time.sleep(0.5)
            waited_s += 0.5
        if self._is_finished(folder):
            self._store(replica)
            report(f"{replica.stem}: done")
            return True
        if self.kept.restore(replica.stem, folder):
            report(f"{replica.stem}: continues from the stored checkpoint")
        return False

    def _is_finished(self, folder: Path) -> bool:
        try:
            return Run(folder).status == "done"
        except NetflError:
            return False

    def _has_result(self, replica: Replicas) -> bool:
        stored = self.results_of(replica.experiment).get(replica.name)
        return all(replica.experiment.is_done(replica.name, number, stored) for number in replica.numbers)

    def _store(self, replica: Replicas) -> None:
        write_results(replica.experiment, {replica.name: [Run(self.run_folder(replica))]}, self._results)
        self.kept.remove(replica.stem)

    def _keep(self, replicas: Sequence[Replicas], report: Callable[[str], None]) -> None:
        """Pack the checkpoints of unfinished runs, those with the most hours first."""
        unfinished = [replica for replica in replicas if replica.count == 1 and not self._has_result(replica)]
        hours = {replica.stem: self.share_done(replica) * replica.part.core_hours for replica in unfinished}
        started = [replica for replica in unfinished if round_of_run(self.run_folder(replica))]
        for replica in sorted(started, key=lambda each: -hours[each.stem]):
            if not self.kept.keep(replica.stem, self.run_folder(replica)):
                report(f"{replica.stem}: its checkpoint is too large to be kept; it stays in {self.folder}")


def join_adjacent(replicas: Sequence[Replicas]) -> list[Replicas]:
    """Return *replicas* with those of a part joined whose numbers follow each other, in the order of their parts."""
    joined: dict[str, list[Replicas]] = {replica.experiment.stem(replica.name): [] for replica in replicas}
    for replica in sorted(replicas, key=lambda each: each.first):
        of_part = joined[replica.experiment.stem(replica.name)]
        if of_part and of_part[-1].numbers.stop == replica.first:
            of_part[-1] = replace(of_part[-1], count=of_part[-1].count + replica.count)
        else:
            of_part.append(replica)
    return [replica for of_part in joined.values() for replica in of_part]


def absent_data() -> frozenset[str]:
    """Return the published data sets that this machine does not have."""
    return frozenset(dataset.name for dataset in list_datasets() if dataset.state != "here")


def plan_lines(campaign: Campaign) -> Iterator[str]:
    """Yield the plan as lines of text: parts in the order of their next replicas, then those that are done."""
    missing: dict[tuple[str, str], list[Replicas]] = {}
    for replica in campaign.missing():
        missing.setdefault((replica.experiment.name, replica.name), []).append(replica)
    yield f"{'run':58} {'replicas':>9} {'h done':>8} {'h left':>8} {'turn':>5}"
    total_done = total_left = 0.0
    places = {key: place for place, key in enumerate(missing)}
    absent, rows = absent_data(), []
    for experiment in campaign.experiments:
        stored = campaign.results_of(experiment)
        for name, part in experiment.parts.items():
            if not part.turn:
                continue
            left = missing.get((experiment.name, name), [])
            hours = experiment.hours(name, stored.get(name))
            shares = [campaign.share_done(replica) for replica in left]
            done_h = (
                (stored[name].core_s / 3600 if name in stored else 0.0) + hours * sum(shares)
                if shares or name in stored
                else 0.0
            )
            left_h = hours * (len(left) - sum(shares)) if left else 0.0
            place = places.get((experiment.name, name), len(places))
            note = f"  no data: {part.data_kind}" if left and part.data_kind in absent else ""
            done = f"{part.replicas - len(left):>4} of {part.replicas:<2}"
            cells = f"{done} {done_h:>8.2f} {left_h:>8.2f} {part.turn:>5}"
            rows.append((place, f"{experiment.stem(name):58} {cells}{note}"))
            total_done, total_left = total_done + done_h, total_left + left_h
    yield from (row for _, row in sorted(rows, key=lambda pair: pair[0]))
    yield f"{'all':58} {'':9} {total_done:>8.2f} {total_left:>8.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line; print the plan, or run it and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, help="wall-clock hours, after which runs are stopped")
    parser.add_argument("--workers", type=int, default=2, help="number of runs at a time, of one thread each")
    parser.add_argument("--runs", type=Path, default=Path("runs/campaign"), help="the folder of the run directories")
    parser.add_argument("--only", nargs="+", metavar="EXPERIMENT", help=f"of {', '.join(paper.EXPERIMENTS)}")
    parser.add_argument("--together", action="store_true", help="train all replicas of a part in one batch, on a GPU")
    parser.add_argument("--list", action="store_true", help="print the plan")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.only or () if name not in paper.EXPERIMENTS]
    if unknown:
        parser.error(f"there is no experiment {unknown[0]!r}. Choose from {', '.join(paper.EXPERIMENTS)}.")
    experiments = [paper.EXPERIMENTS[name] for name in options.only or paper.EXPERIMENTS]
    campaign = Campaign(experiments, options.runs, paper.RESULTS)
    if options.list:
        print("\n".join(plan_lines(campaign)))
        return
    if options.hours is None or options.hours <= 0:
        parser.error("the time is missing. Give it with --hours, or print the plan with --list.")
    if options.workers < 1:
        parser.error(f"--workers {options.workers} is no number of runs. Give 1 or more.")
    deadline, asked = time.monotonic() + 3600 * options.hours - MARGIN_S, list[int]()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: asked.append(received))
    try:
        changed = campaign.run(
            LocalEngine(options.workers),
            lambda: bool(asked) or time.monotonic() > deadline,
            lambda line: print(time.strftime("%H:%M:%S"), line, flush=True),
            together=options.together,
        )
    except NetflError as error:
        parser.error(str(error))
    for path in (path for name in changed for path in paper.draw_plots(paper.EXPERIMENTS[name], {})):
        print(path)
    print(paper.write_page())


if __name__ == "__main__":
    sys.exit(main())
