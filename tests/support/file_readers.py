"""Every reader of files that users bring: what reads one, files that it takes, and what it may do with any other.

Whatever the bytes, a reader gives what is in them or says in one of netfl's own errors what is wrong, and where.
`tests/test_readers.py` replays what was found and tries some thousand files that are nearly right; ``python
benchmarks/fuzz.py`` looks for others, led by what code they reach.
"""

import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from netfl import registry
from netfl.access.availability import Availability
from netfl.access.replay import Replay
from netfl.diagnosis import reading
from netfl.errors import NetflError, ScenarioError
from netfl.learning.data import vehicle
from netfl.learning.data._download import FileContent
from netfl.learning.data.arrays import Arrays
from netfl.learning.data.sent140 import Glove
from netfl.learning.data.table import Table
from netfl.learning.learner import BatchedLearner
from netfl.network.motion.trajectory import Trajectory
from netfl.network.outage.calendar import Calendar
from netfl.network.placement.table import Table as Places
from netfl.network.topology.file import File
from netfl.network.topology.star import Star
from netfl.report.salvage import salvage_run
from netfl.results import digests
from netfl.results.model_snapshots import ModelSnapshots
from netfl.results.run_reader import Run, open_run
from netfl.scenario import yaml_document
from netfl.scenario import yaml_document as documents
from netfl.scenario.scenario import load, validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.checkpoints import CHECKPOINT, CheckpointStore
from netfl.simulation.learners import build_learner
from netfl.simulation.learning_session import LearningSession
from netfl.simulation.setup import prepare_run
from netfl.streams import Streams
from netfl.sweeps.index import SweepIndex
from netfl.types import AccessContext, ScenarioFacts
from support import file_reader_seeds as seeds
from support.recorders import Memory

USERS, ROUNDS = 4, 3
STREAMS = Streams(1)
FACTS = ScenarioFacts(users=USERS, rounds=ROUNDS)
SITES = Star(radius=10).open(USERS, STREAMS)


@dataclass(frozen=True)
class Reader:
    """One reader.

    Args:
        file: what its file is called; what lies beside it is there already.
        read: reads the file, and uses it as a run would.
        seeds: files that it takes.
        tries: how many files that are nearly right the suite tries.
        pack: what becomes of the bytes before they are read: checksums that hold let nearly right ones in.
    """

    file: str
    read: Callable[[Path], object]
    seeds: Callable[[], Sequence[bytes]]
    tries: int = 100
    pack: Callable[[bytes], bytes] = bytes

    def target(self, folder: Path, data: bytes) -> str:
        """Read *data* as the file in *folder*: what is said against it, if anything.

        Raises:
            Exception: whatever is no error of netfl's, or one that does not say where.
        """
        path = folder / self.file
        before = path.read_bytes() if path.exists() else None
        path.write_bytes(self.pack(data))
        try:
            with warnings.catch_warnings(action="error"), registry.plugins_disabled():
                self.read(path)
        except NetflError as error:
            said = str(error)
            faults = error.faults if isinstance(error, ScenarioError) else ()
            assert path.stem in said or (faults and all(one.key or one.where for one in faults)), f"nowhere: {said}"
            return said
        finally:
            path.unlink() if before is None else path.write_bytes(before)
        return ""


def of_model(model: type, **said: object) -> Callable[[Path], object]:
    """Reads a file as the model that names it does."""

    def read(path: Path) -> None:
        one = model(file=path, **said)
        faults = [*one.faults(FACTS)]
        if faults:
            raise ScenarioError(faults)
        if isinstance(one, Trajectory):
            one.open(SITES, STREAMS).xy_m(np.arange(USERS), 3.0)
        elif isinstance(one, Calendar | File):
            one.open(SITES if isinstance(one, Calendar) else USERS, STREAMS)
        elif isinstance(one, Places):
            one.open(USERS, np.zeros((1, 2)), STREAMS)
        elif isinstance(one, Availability):
            deque(one.rounds(setting()), 0)
        else:
            one.load(STREAMS)

    return read


def setting() -> AccessContext:
    """The world of one replica."""
    ones = np.ones(USERS)
    return AccessContext(USERS, ROUNDS, 0, STREAMS.at("access", 0), ones, 1e3, 1e3, Memory(), held=ones)


def content(read: Callable[[FileContent], object]) -> Callable[[Path], object]:
    """Reads a file of a published set."""
    return lambda path: read(FileContent(path, path.read_bytes()))


def _yaml(path: Path) -> None:
    """As a scenario is read, and as the copy in a run directory is."""
    documents.dump(documents.read(path).data)
    yaml_document.parse(path.read_text("latin-1"), str(path))


def _glove(path: Path) -> None:
    Glove(file=path, dimensions=2).mean_vectors([["the", "of"], ["a"]])


def _replay(path: Path) -> None:
    access = Replay(run=path.parent)
    faults = [*access.faults(FACTS)]
    if faults:
        raise ScenarioError(faults)
    access.max_deliveries(USERS, ROUNDS)
    access.ranking(setting())
    deque(access.rounds(setting()), 0)


def _papers(path: Path) -> None:
    """What a run says of itself: as it is, and what can be saved of it."""
    run = open_run(path.parent)
    sound, _ = salvage_run(run)
    for one in (sound, run):
        _ = one.status, one.diverged, one.summary, one.learners, one.choices


def _run(path: Path) -> None:
    """As reports and the diagnosis read a run."""
    sound, _ = salvage_run(open_run(path.parent))
    sound.final_metrics_of(range(2))
    reading.participation_of_run(sound)


def _table(name: str) -> Callable[[Path], object]:
    """As a table of a run is read for itself."""

    def read(path: Path) -> None:
        getattr(Run(path.parent), name)
        digests.table_digest(path)
        digests.table_digest(path, digests.DIGITS)

    return read


def _sweep(path: Path) -> None:
    ledger = SweepIndex.read(path.parent)
    lanes = ledger.lane_table()
    ledger.point_table(lanes)


def _checkpoint(path: Path) -> None:
    """As a run that goes on reads it."""
    LearningSession(learner(), CheckpointStore(path.parent)).restore()


@cache
def learner() -> BatchedLearner:
    """One that can go on from the checkpoint that is a seed."""
    return build_learner(prepare_run(validate(ScenarioDocument(seeds.SAID, "small")), learning=True), "cpu")


def _versions(path: Path) -> None:
    found = ModelSnapshots(path)
    for index in found:
        dict(found[index])


GRAPH = {"placement": {"kind": "clusters", "radius": 10}, "rate": 1e6, "ring": 5.0, "towers": "all"}
OWN = {"labels": 3, "seed": 1, "test_share": 0.4}
READERS: dict[str, Reader] = {
    "yaml": Reader("a.yaml", _yaml, seeds.texts),
    "scenario": Reader("s.yaml", load, seeds.scenarios, tries=10),
    "trajectory": Reader("walks.csv", of_model(Trajectory, relative=True), seeds.walks),
    "places": Reader("places.csv", of_model(Places), seeds.places),
    "calendar": Reader("down.csv", of_model(Calendar, origin="2024-03-01T00:00Z"), seeds.calendars),
    "availability": Reader("there.csv", of_model(Availability, round_length=10, repeat=60), seeds.availabilities),
    "availability_parquet": Reader(
        "there.parquet", of_model(Availability, round_length=10), seeds.availabilities_parquet, tries=30
    ),
    "availability_json": Reader("there.json", of_model(Availability, round_length=10), seeds.availabilities_json),
    "graphml": Reader("net.graphml", of_model(File, **GRAPH, server="town"), seeds.graphmls),
    "gml": Reader("net.gml", of_model(File, **GRAPH, server="Wien"), seeds.gmls),
    "node_link": Reader("net.json", of_model(File, **GRAPH, server="town"), seeds.node_links),
    "edges": Reader("net.edges", of_model(File, **GRAPH, server="a"), seeds.edges),
    "vehicle": Reader("vehicle.mat", content(vehicle.read_recordings), seeds.vehicle, tries=50),
    "glove": Reader("glove.txt", _glove, seeds.glove),
    "arrays": Reader("mine.npz", of_model(Arrays, features=(2,), **OWN), seeds.arrays, pack=seeds.pack_arrays),
    "arrays_packed": Reader("mine.npz", of_model(Arrays, features=(2,), **OWN), seeds.arrays_packed),
    "table_csv": Reader("mine.csv", of_model(Table, features=2, user="user", **OWN), seeds.tables_csv, tries=50),
    "table_parquet": Reader("mine.parquet", of_model(Table, features=2, user="user", **OWN), seeds.tables_parquet, 30),
    "deliveries_csv": Reader("heard.csv", reading.read_participation, seeds.heard_csv, tries=50),
    "deliveries_parquet": Reader("heard.parquet", reading.read_participation, seeds.heard_parquet, tries=30),
    "replay_rounds": Reader("replay/rounds.parquet", _replay, seeds.of_run("rounds.parquet"), tries=10),
    "replay_deliveries": Reader("replay/deliveries.parquet", _replay, seeds.of_run("deliveries.parquet"), tries=10),
    "manifest": Reader("papers/manifest.json", _papers, seeds.manifests, tries=50),
    "summary": Reader("papers/summary.json", _papers, seeds.of_run("summary.json"), tries=50),
    "resolved": Reader("papers/scenario.yaml", _papers, seeds.of_run("scenario.yaml"), tries=5),
    "rounds": Reader("rounds.parquet", _table("rounds"), seeds.of_run("rounds.parquet"), tries=30),
    "events": Reader("events.parquet", _table("events"), seeds.of_run("events.parquet"), tries=30),
    "metrics": Reader("run/metrics.parquet", _run, seeds.of_run("metrics.parquet"), tries=5),
    "users": Reader("run/users.parquet", _run, seeds.of_run("users.parquet"), tries=5),
    "sweep": Reader("sweep.json", _sweep, seeds.sweeps, tries=50),
    "checkpoint": Reader("checkpoint.pt", _checkpoint, seeds.pickled, tries=50, pack=seeds.pack_checkpoint),
    "checkpoint_packed": Reader("checkpoint.pt", _checkpoint, seeds.of_run(CHECKPOINT), tries=20),
    "versions": Reader("A-0.safetensors", _versions, seeds.of_run("versions/A-0.safetensors")),
}
"""All of them, by name."""
