"""Readers of all files that users provide, each with valid files as seeds.

For any bytes, a reader returns their content or raises an error of netfl that locates the problem.
`tests/test_readers.py` repeats known problems and tries some thousand nearly valid files; ``python
benchmarks/fuzz.py`` searches for more, guided by coverage.
"""

import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from netfl.access.availability import Availability
from netfl.access.replay import Replay
from netfl.core.plugins import plugins_disabled
from netfl.diagnosis import reading
from netfl.diagnosis.timeout import read_log
from netfl.errors import NetflError, ScenarioError
from netfl.files.flower_log import read_flower_log
from netfl.files.lorawan import read_lorawan
from netfl.files.phone_logs import read_phone_log, to_trace
from netfl.learning.data import vehicle
from netfl.learning.data._download import FileContent
from netfl.learning.data.arrays import Arrays
from netfl.learning.data.leaf import Leaf
from netfl.learning.data.sent140 import Glove
from netfl.learning.data.table import Table
from netfl.learning.learner import BatchedLearner
from netfl.network.channel.radio_map import RadioMap
from netfl.network.channel.trace import Trace
from netfl.network.motion.trajectory import Trajectory
from netfl.network.outage.calendar import Calendar
from netfl.network.placement.sumo_fcd import SumoFcd
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
        file: the name of its file; the files beside it exist already.
        read: reads the file and uses it as a run does.
        seeds: returns valid files.
        tries: number of nearly valid files that the test suite tries.
        pack: transforms the bytes before they are read, for example to correct checksums.
    """

    file: str
    read: Callable[[Path], object]
    seeds: Callable[[], Sequence[bytes]]
    tries: int = 100
    pack: Callable[[bytes], bytes] = bytes

    def target(self, folder: Path, data: bytes) -> str:
        """Read *data* as the file in *folder*; return the error message, or an empty text.

        Raises:
            Exception: any error that is not one of netfl or is not located.
        """
        path = folder / self.file
        before = path.read_bytes() if path.exists() else None
        path.write_bytes(self.pack(data))
        try:
            with warnings.catch_warnings(action="error"), plugins_disabled():
                self.read(path)
        except NetflError as error:
            message = str(error)
            faults = error.faults if isinstance(error, ScenarioError) else ()
            assert path.stem in message or (faults and all(entry.key or entry.where for entry in faults)), (
                f"not located: {message}"
            )
            return message
        finally:
            path.unlink() if before is None else path.write_bytes(before)
        return ""


def of_model(model: type, **options: object) -> Callable[[Path], object]:
    """Return a function that reads a file as *model* does."""

    def read(path: Path) -> None:
        model_ = model(file=path, **options)
        faults = [*model_.faults(FACTS)]
        if faults:
            raise ScenarioError(faults)
        if isinstance(model_, Trajectory):
            model_.open(SITES, STREAMS).xy_m(np.arange(USERS), 3.0)
        elif isinstance(model_, Trace | RadioMap):
            model_.fitted(20.0, -100.0, 1e6).open(SITES, STREAMS).gain_db(np.arange(USERS), 0.0)
        elif isinstance(model_, SumoFcd):
            model_.open(USERS, np.zeros((1, 2)), STREAMS)
        elif isinstance(model_, Calendar | File):
            model_.open(SITES if isinstance(model_, Calendar) else USERS, STREAMS)
        elif isinstance(model_, Places):
            model_.open(USERS, np.zeros((1, 2)), STREAMS)
        elif isinstance(model_, Availability):
            deque(model_.rounds(setting()), 0)
        else:
            model_.load(STREAMS)

    return read


def setting() -> AccessContext:
    """Return the access context of one replica."""
    ones = np.ones(USERS)
    return AccessContext(USERS, ROUNDS, 0, STREAMS.at("access", 0), ones, 1e3, 1e3, Memory(), held=ones)


def _leaf(path: Path) -> None:
    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    (folder / path.name).write_bytes(path.read_bytes())
    Leaf(folder=folder, features=(2,), labels=3, test_share=0.25).load(STREAMS)


def content(read: Callable[[FileContent], object]) -> Callable[[Path], object]:
    """Return a function that reads a file of a published data set."""
    return lambda path: read(FileContent(path, path.read_bytes()))


def _yaml(path: Path) -> None:
    """Read a scenario, and the copy in a run directory."""
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


def _phone_log(path: Path) -> None:
    to_trace([read_phone_log(path, "rsrp"), read_phone_log(path, "rsrp")], align="clock")
    to_trace([read_phone_log(path, "rate", direction="up")])


def _lorawan(path: Path) -> None:
    log = read_lorawan(path)
    log.recording_of_devices(600.0).tables()
    for device in log.devices:
        log.table(device)
        log.recording_of_gateways(device).tables()


def _run_documents(path: Path) -> None:
    """Read the manifest, summary and scenario of a run, directly and after salvage."""
    run = open_run(path.parent)
    salvaged, _ = salvage_run(run)
    for view in (salvaged, run):
        _ = view.status, view.diverged, view.summary, view.learners, view.choices


def _run(path: Path) -> None:
    """Read a run as reports and the diagnosis do."""
    salvaged, _ = salvage_run(open_run(path.parent))
    salvaged.final_metrics_of(range(2))
    reading.participation_of_run(salvaged)


def _table(name: str) -> Callable[[Path], object]:
    """Return a function that reads one table of a run."""

    def read(path: Path) -> None:
        getattr(Run(path.parent), name)
        digests.table_digest(path)
        digests.table_digest(path, digests.DIGITS)

    return read


def _sweep(path: Path) -> None:
    index = SweepIndex.read(path.parent)
    lanes = index.lane_table()
    index.point_table(lanes)


def _checkpoint(path: Path) -> None:
    """Read a checkpoint as a resumed run does."""
    LearningSession(learner(), CheckpointStore(path.parent)).restore()


@cache
def learner() -> BatchedLearner:
    """Return a learner that can continue from the checkpoint of the seeds."""
    return build_learner(prepare_run(validate(ScenarioDocument(seeds.SCENARIO, "small")), learning=True), "cpu")


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
    "trace": Reader("drive.csv", of_model(Trace, after_end="hold"), seeds.traces),
    "radio_map": Reader("campus.csv", of_model(RadioMap, out_of_range="extend"), seeds.radio_maps),
    "sumo_fcd": Reader("drive.fcd.xml", of_model(SumoFcd), seeds.sumo_fcds),
    "sumo_fcd_csv": Reader("drive.csv", of_model(SumoFcd), seeds.sumo_fcd_tables),
    "sumo_fcd_parquet": Reader("drive.parquet", of_model(SumoFcd), seeds.sumo_fcds_parquet, tries=30),
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
    "leaf": Reader("all_data.json", _leaf, seeds.leaf, tries=50),
    "deliveries_csv": Reader("deliveries.csv", reading.read_participation, seeds.deliveries_csv, tries=50),
    "deliveries_parquet": Reader("deliveries.parquet", reading.read_participation, seeds.deliveries_parquet, tries=30),
    "times_csv": Reader("times.csv", read_log, seeds.times_csv, tries=50),
    "replay_rounds": Reader("replay/rounds.parquet", _replay, seeds.of_run("rounds.parquet"), tries=10),
    "replay_deliveries": Reader("replay/deliveries.parquet", _replay, seeds.of_run("deliveries.parquet"), tries=10),
    "flower_log": Reader("flower.log", read_flower_log, seeds.flower_logs),
    "phone_log": Reader("gnettrack.csv", _phone_log, seeds.phone_logs, tries=50),
    "lorawan": Reader("uplinks.jsonl", _lorawan, seeds.uplinks, tries=50),
    "manifest": Reader("documents/manifest.json", _run_documents, seeds.manifests, tries=50),
    "summary": Reader("documents/summary.json", _run_documents, seeds.of_run("summary.json"), tries=50),
    "resolved": Reader("documents/scenario.yaml", _run_documents, seeds.of_run("scenario.yaml"), tries=5),
    "rounds": Reader("rounds.parquet", _table("rounds"), seeds.of_run("rounds.parquet"), tries=30),
    "events": Reader("events.parquet", _table("events"), seeds.of_run("events.parquet"), tries=30),
    "metrics": Reader("run/metrics.parquet", _run, seeds.of_run("metrics.parquet"), tries=5),
    "users": Reader("run/users.parquet", _run, seeds.of_run("users.parquet"), tries=5),
    "sweep": Reader("sweep.json", _sweep, seeds.sweeps, tries=50),
    "checkpoint": Reader("checkpoint.pt", _checkpoint, seeds.pickled, tries=50, pack=seeds.pack_checkpoint),
    "checkpoint_packed": Reader("checkpoint.pt", _checkpoint, seeds.of_run(CHECKPOINT), tries=20),
    "versions": Reader("A-0.safetensors", _versions, seeds.of_run("versions/A-0.safetensors")),
}
"""All readers, by name."""
