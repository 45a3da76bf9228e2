"""The main loop: the network delivers, the learner trains, the server broadcasts, the writer records.

One round of every replica at a time: each replica's access yields what reached its server, the learners compute the
next version of every lane as one batch, and their report goes back into the network with the broadcast.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from netfl.errors import Fault, MachineError, ModelError, NetflError, ScenarioError
from netfl.lessons import Learning, Lessons
from netfl.lock import locked
from netfl.manifest import Manifest, summarise
from netfl.reading import Run, open_run
from netfl.recording import Writer, fresh, write_json, write_text
from netfl.registry import kind_of
from netfl.scenario import Scenario, load
from netfl.staging import Stage, located, stage, streams_of
from netfl.types import Report, Round
from netfl.watch import Progress, Unwatched, Watch

_AT_THE_END = ("summary.json", "report.html", "overview.png")
"""What is made of a run that has ended, and is out of date once it goes on."""


def run(scenario: Scenario, out: str | Path | None = None, *, device: str = "auto", watch: Watch | None = None) -> Run:
    """Run *scenario*: network and learners.

    Args:
        scenario: from `netfl.load`.
        out: the run directory; by default the next free one below ``runs``.
        device: ``auto``, ``cpu`` or ``cuda``.
        watch: who looks on.

    Raises:
        ScenarioError: the scenario or the folder cannot be used.
        ModelError: a model failed; the run directory holds what was done before.
        MachineError: the machine would not.
    """
    with fresh(_folder(scenario, out)) as folder:
        staged = stage(scenario)
        with _school(staged, device, learning=bool(scenario.learners)) as learner:
            return _perform(staged, learner, folder, watch or Unwatched())


def trace(scenario: Scenario, out: str | Path | None = None, *, watch: Watch | None = None) -> Run:
    """Run the access of *scenario* alone: rounds, deliveries and events, no learning and no torch.

    Args:
        scenario: from `netfl.load`.
        out: the run directory; by default the next free one below ``runs``.
        watch: who looks on.

    Raises:
        NetflError: as `run`.
    """
    with fresh(_folder(scenario, out)) as folder:
        return _perform(stage(scenario, learning=False), None, folder, watch or Unwatched())


def resume(folder: str | Path, *, device: str = "auto", watch: Watch | None = None) -> Run:
    """Go on with a run that was stopped or crashed; its tables become those of a run that never stopped.

    The network runs again from its seed, which is cheap, and is held against what the checkpoint saw; learning goes
    on from there.

    Raises:
        ScenarioError: there is no such run, or it is finished.
        MachineError: the checkpoint is not whole, or the network no longer gives the same rounds.
    """
    found = open_run(folder)
    if not {"status", "learning"} <= found.manifest.keys():
        raise MachineError(f"{found.folder / 'manifest.json'} is damaged: it does not say how the run stands")
    if found.manifest["status"] == "done":
        raise ScenarioError([Fault("", f"the run in {folder} is finished", None, "there is nothing to resume")])
    scenario = load(found.folder / "scenario.yaml")
    staged = stage(scenario, learning=found.manifest["learning"])
    with locked(found.folder), _school(staged, device, learning=found.manifest["learning"]) as learner:
        return _perform(staged, learner, found.folder, watch or Unwatched())


def learner_of(staged: Stage, device: str = "auto") -> Learning:
    """The learners of a staged scenario, at work on *device*."""
    from netfl.learning.learner import Learner  # noqa: PLC0415 - torch

    scenario = staged.scenario
    if scenario.model is None or staged.dataset is None:
        raise ValueError("a scenario without a model or data has no learners")
    learner: Learning = Learner(
        learners=scenario.learners,
        model=scenario.model,
        datasets=[staged.dataset] * scenario.replicas,
        splits=staged.splits,
        evaluate=scenario.evaluation,
        rare_classes=scenario.rare_classes,
        rounds=scenario.rounds,
        streams=[streams_of(scenario, replica).at("learning") for replica in range(scenario.replicas)],
        device=device,
    )
    return learner


@contextmanager
def _school(staged: Stage, device: str, *, learning: bool) -> Iterator[Learning | None]:
    """The learners at work, if they are to learn."""
    if not learning:
        yield None
        return
    learner = learner_of(staged, device)
    with learner.working():
        yield learner


def _perform(staged: Stage, learner: Learning | None, folder: Path, watch: Watch) -> Run:
    """Play all rounds into *folder*; the run as it then is."""
    scenario = staged.scenario
    manifest = Manifest(folder, scenario, learning=learner is not None)
    try:
        for old in (*folder.glob("*.part"), *(folder / name for name in _AT_THE_END)):
            old.unlink(missing_ok=True)
        write_text(folder / "scenario.yaml", scenario.to_yaml())
        manifest.write("running")
        lessons = Lessons(learner, folder)
        manifest.rounds_kept = lessons.kept
        writer = Writer(folder, scenario.replicas, scenario.kinds, lessons.lanes)
        watch.opened(folder, scenario)
        try:
            last = _play(staged, lessons, writer, manifest, watch)
            _close(staged, lessons, writer, manifest, last)
        except OSError:
            writer.abandon()
            raise
        except BaseException:
            _keep(lessons, writer, manifest)
            raise
    except NetflError as error:
        manifest.fail(str(error))
        raise
    except OSError as error:
        manifest.fail(f"the machine would not: {error}")
        problem = f"cannot go on writing {folder}: {error.strerror or error}"
        raise MachineError(f"{problem}; when that is mended, go on with: netfl resume {folder}") from error
    except BaseException as error:
        manifest.fail(f"{type(error).__name__}: {error}")
        raise
    return open_run(folder)


def _play(staged: Stage, lessons: Lessons, writer: Writer, manifest: Manifest, watch: Watch) -> list[Round]:
    """The loop: the last round of each replica."""
    scenario, access = staged.scenario, staged.scenario.access
    for name, columns in (("users", staged.users), ("nodes", staged.nodes)):
        writer.places(name, [columns(replica) for replica in range(scenario.replicas)])
    generators = [
        access.rounds(replace(setting, recorder=recorder))
        for setting, recorder in zip(staged.settings, writer.recorders, strict=True)
    ]
    newest = report = lessons.start()
    writer.metrics(report, [0.0] * scenario.replicas)
    rounds: list[Round] = []
    reply: Report | None = None
    for index in range(1, scenario.rounds + 1):
        if watch.stop:
            break
        rounds = _next(scenario, generators, reply, rounds)
        writer.rounds(rounds)
        with _blamed("learning", rounds[0].closed_s):
            reply = report = lessons.step(rounds)
        manifest.rounds_done = index
        writer.metrics(report, [one.closed_s for one in rounds])
        newest = report if report.metrics else newest
        heard = tuple(delivery.user for delivery in rounds[0].deliveries)
        watch.closed(Progress(index, scenario.rounds, rounds[0].closed_s, heard, newest.metrics, lessons.lanes))
    for generator in generators:
        generator.close()
    return rounds


def _next(
    scenario: Scenario,
    generators: Sequence[Generator[Round, Report | None, None]],
    reply: Report | None,
    before: Sequence[Round],
) -> list[Round]:
    """The next round of every replica, after those *before*."""
    model, time_s = kind_of(type(scenario.access)), before[0].closed_s if before else 0.0
    with located(scenario, "access"), _blamed(model, time_s):
        try:
            return [generator.send(reply) for generator in generators]
        except StopIteration:
            problem = f"no more rounds after round {before[0].index if before else 0} of {scenario.rounds}"
            raise ModelError(model, problem, time_s=time_s) from None


@contextmanager
def _blamed(model: str, time_s: float) -> Iterator[None]:
    """Say which model failed and when, whatever it failed with; that is chained as the cause."""
    try:
        yield
    except (NetflError, OSError):
        raise
    except Exception as error:
        raise ModelError(model, f"{type(error).__name__}: {error}", time_s=time_s) from error


def _close(staged: Stage, lessons: Lessons, writer: Writer, manifest: Manifest, rounds: Sequence[Round]) -> None:
    """Write what stands at the end, and finish or keep the run."""
    reached = rounds[0].index if rounds else 0
    if reached == staged.scenario.rounds:
        for name, table in lessons.plane(staged.dataset).items():
            writer.frame(name, table)
        writer.close()
        fates = [recorder.counts for recorder in writer.recorders]
        write_json(writer.folder / "summary.json", summarise(rounds, fates, lessons.lanes, lessons.reports))
        manifest.write("done")
        lessons.finish()
    else:
        lessons.save(reached)
        _keep(lessons, writer, manifest)
        manifest.write("interrupted")


def _keep(lessons: Lessons, writer: Writer, manifest: Manifest) -> None:
    """Finish the tables of a run that stops early, unless those of an earlier stop reach farther."""
    if manifest.rounds_done < lessons.kept:
        manifest.rounds_done = lessons.kept
        writer.abandon()
    else:
        writer.close()


def _folder(scenario: Scenario, out: str | Path | None) -> Path:
    """The run directory: *out*, or the next free one below ``runs``."""
    if out is not None:
        return Path(out)
    number = 1
    while (folder := Path("runs") / f"{scenario.name}-{number:03d}").exists():
        number += 1
    return folder
