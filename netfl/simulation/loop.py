"""The main loop: the network delivers, the learner trains, the server broadcasts, the writer records.

One round of every replica at a time: each replica's access yields what reached its server, the learners compute the
next version of every lane as one batch, and their report goes back into the network with the broadcast.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from netfl.errors import ModelError, NetflError
from netfl.registry import kind_of
from netfl.results.manifest import Manifest
from netfl.results.run_writer import RunWriter
from netfl.results.statistics import RoundStatistics
from netfl.scenario.scenario import Scenario
from netfl.simulation.learning_session import LearningSession
from netfl.simulation.observers import OutageTracker, Progress, RunObserver
from netfl.simulation.setup import RunSetup, locate_faults
from netfl.types import LearnerReport, Recorder, Round, RoundBatch


def run_rounds(
    staged: RunSetup, lessons: LearningSession, writer: RunWriter, manifest: Manifest, watch: RunObserver
) -> list[RoundStatistics]:
    """Play all rounds, or until the watch wants a stop: what the rounds of each replica came to."""
    scenario, access = staged.scenario, staged.scenario.access
    for name, columns in (("users", staged.users), ("nodes", staged.nodes)):
        writer.places(name, [columns(replica) for replica in staged.replicas])
    lookout = OutageTracker(writer.recorders[0])
    recorders: list[Recorder] = [lookout, *writer.recorders[1:]]
    settings = [
        replace(setting, recorder=recorder) for setting, recorder in zip(staged.settings, recorders, strict=True)
    ]
    tallies = [RoundStatistics(scenario.users) for _ in settings]
    blocks = (
        [block for setting in settings if (block := access.round_batches(setting))] if lessons.learner is None else []
    )
    if blocks:
        _play_blocks(scenario, blocks, tallies, writer, manifest, watch)
        return tallies
    generators = [access.rounds(setting) for setting in settings]
    newest = report = lessons.start()
    writer.metrics(report, [0.0] * len(generators))
    rounds: list[Round] = []
    reply: LearnerReport | None = None
    for index in range(1, scenario.steps + 1):
        if watch.stop:
            break
        rounds = next_rounds(scenario, generators, reply, rounds)
        writer.rounds(rounds)
        for tally, one in zip(tallies, rounds, strict=True):
            tally.add(one)
        with blamed("learning", rounds[0].closed_s):
            reply = report = lessons.step(rounds)
        manifest.rounds_done, manifest.diverged = index, lessons.diverged
        writer.metrics(report, [one.closed_s for one in rounds])
        newest = report if report.metrics else newest
        heard = tuple(delivery.user for delivery in rounds[0].deliveries)
        watch.closed(
            Progress(index, scenario.steps, rounds[0].closed_s, heard, lookout.out, newest.metrics, lessons.lanes)
        )
    else:
        _end(scenario, generators, reply, rounds)
    for generator in generators:
        generator.close()
    return tallies


def _play_blocks(
    scenario: Scenario,
    replicas: Sequence[Iterator[RoundBatch]],
    tallies: Sequence[RoundStatistics],
    writer: RunWriter,
    manifest: Manifest,
    watch: RunObserver,
) -> None:
    """Play rounds that nobody learns from many at a time; whoever looks on sees the last of each block."""
    told = zip(*replicas, strict=True)
    while manifest.rounds_done < scenario.steps and not watch.stop:
        with locate_faults(scenario, "access"), blamed(kind_of(type(scenario.access)), 0.0):
            blocks = next(told)
        writer.blocks(blocks)
        for tally, block in zip(tallies, blocks, strict=True):
            tally.extend(block)
        one = blocks[0]
        manifest.rounds_done = int(one.index[-1])
        heard = tuple(one.user[len(one.user) - one.delivered[-1] :].tolist())
        watch.closed(Progress(manifest.rounds_done, scenario.steps, float(one.closed_s[-1]), heard, (), {}, ()))


def next_rounds(
    scenario: Scenario,
    generators: Sequence[Generator[Round, LearnerReport | None, None]],
    reply: LearnerReport | None,
    before: Sequence[Round],
) -> list[Round]:
    """Play the next round of every replica, after those *before*; the accesses are sent *reply*.

    Raises:
        ModelError: an access failed, or has no more rounds.
    """
    model, time_s = kind_of(type(scenario.access)), before[0].closed_s if before else 0.0
    with locate_faults(scenario, "access"), blamed(model, time_s):
        try:
            return [generator.send(_to(reply, place)) for place, generator in enumerate(generators)]
        except StopIteration:
            problem = f"no more rounds after round {before[0].index if before else 0} of {scenario.steps}"
            raise ModelError(model, problem, time_s=time_s) from None


def _end(
    scenario: Scenario,
    generators: Sequence[Generator[Round, LearnerReport | None, None]],
    reply: LearnerReport | None,
    last: Sequence[Round],
) -> None:
    """Let every access do what it does after its *last* round, such as telling its figures."""
    with locate_faults(scenario, "access"), blamed(kind_of(type(scenario.access)), last[0].closed_s):
        for place, generator in enumerate(generators):
            with suppress(StopIteration):
                generator.send(_to(reply, place))


def _to(reply: LearnerReport | None, place: int) -> LearnerReport | None:
    """What the access of the replica at *place* is sent; nothing before its first round."""
    return None if reply is None else reply.to(place)


@contextmanager
def blamed(model: str, time_s: float) -> Iterator[None]:
    """Raise a `ModelError` that names the model and the time, whatever it failed with; that is chained as the cause."""
    try:
        yield
    except (NetflError, OSError):
        raise
    except Exception as error:
        raise ModelError(model, f"{type(error).__name__}: {error}", time_s=time_s) from error
