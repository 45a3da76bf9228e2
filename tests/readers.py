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
import reader_seeds as seeds
from recorders import Memory

from netfl import digests, outside, yamltext
from netfl import document as documents
from netfl.access.availability import Availability
from netfl.access.replay import Replay
from netfl.diagnosis import source
from netfl.document import Document
from netfl.errors import NetflError, ScenarioError
from netfl.keeping import CHECKPOINT, Keeper
from netfl.learning.data import _cifar, adult, cinic10, sent140, shakespeare, svhn, vehicle
from netfl.learning.data._cache import Content
from netfl.learning.data._glove import Glove
from netfl.learning.data._idx import read as read_idx
from netfl.learning.data._plays_text import roles
from netfl.learning.data.arrays import Arrays
from netfl.learning.data.table import Table
from netfl.learning.learner import Learner
from netfl.lessons import Lessons
from netfl.network.motion.trajectory import Trajectory
from netfl.network.outage.calendar import Calendar
from netfl.network.placement.table import Table as Places
from netfl.network.topology.file import File
from netfl.network.topology.star import Star
from netfl.reading import Run, open_run
from netfl.report.salvage import salvaged
from netfl.scenario import checked, load
from netfl.schooling import learner_of
from netfl.staging import stage
from netfl.streams import Streams
from netfl.sweeping.ledger import Ledger
from netfl.types import Facts, Setting
from netfl.versionfile import Versions

USERS, ROUNDS = 4, 3
LETTERS_BEFORE = 80
STREAMS = Streams(1)
FACTS = Facts(users=USERS, rounds=ROUNDS)
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
            with warnings.catch_warnings(action="error"), outside.refused():
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


def setting() -> Setting:
    """The world of one replica."""
    ones = np.ones(USERS)
    return Setting(USERS, ROUNDS, 0, STREAMS.at("access", 0), ones, 1e3, 1e3, Memory(), held=ones)


def content(read: Callable[[Content], object]) -> Callable[[Path], object]:
    """Reads a file of a published set."""
    return lambda path: read(Content(path, path.read_bytes()))


def _yaml(path: Path) -> None:
    """As a scenario is read, and as the copy in a run directory is."""
    documents.dump(documents.read(path).data)
    yamltext.parse(path.read_text("latin-1"), str(path), lines=False)


def _cifar10(file: Content) -> None:
    _cifar.records([file], 1)


def _archive(file: Content) -> None:
    _cifar.records(_cifar.members(file, ["data_batch_1.bin"]), 1)


def _cinic(file: Content) -> None:
    cinic10._decoded(file, ("train", "test"))


def _plays(file: Content) -> None:
    for text in roles(file.data.decode("ascii", "ignore")).values():
        if len(text) > LETTERS_BEFORE:
            shakespeare.examples(text)


def _glove(path: Path) -> None:
    Glove(file=path, dimensions=2).means([["the", "of"], ["a"]])


def _replay(path: Path) -> None:
    access = Replay(run=path.parent)
    faults = [*access.faults(FACTS)]
    if faults:
        raise ScenarioError(faults)
    access.most(USERS, ROUNDS)
    access.ranking(setting())
    deque(access.rounds(setting()), 0)


def _papers(path: Path) -> None:
    """What a run says of itself: as it is, and what can be saved of it."""
    run = open_run(path.parent)
    sound, _ = salvaged(run)
    for one in (sound, run):
        _ = one.status, one.diverged, one.summary, one.learners, one.choices


def _run(path: Path) -> None:
    """As reports and the diagnosis read a run."""
    sound, _ = salvaged(open_run(path.parent))
    sound.figures_of(range(2))
    source.of_run(sound)


def _table(name: str) -> Callable[[Path], object]:
    """As a table of a run is read for itself."""

    def read(path: Path) -> None:
        getattr(Run(path.parent), name)
        digests.of_table(path)
        digests.of_table(path, digests.DIGITS)

    return read


def _sweep(path: Path) -> None:
    ledger = Ledger.read(path.parent)
    lanes = ledger.lane_table()
    ledger.point_table(lanes)


def _checkpoint(path: Path) -> None:
    """As a run that goes on reads it."""
    Lessons(learner(), Keeper(path.parent)).restore()


@cache
def learner() -> Learner:
    """One that can go on from the checkpoint that is a seed."""
    return learner_of(stage(checked(Document(seeds.SAID, "small")), learning=True), "cpu")


def _versions(path: Path) -> None:
    found = Versions(path)
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
    "idx": Reader("x.gz", lambda path: read_idx(path, path.read_bytes()), seeds.idx, pack=seeds.gzipped),
    "idx_packed": Reader("x.gz", lambda path: read_idx(path, path.read_bytes()), seeds.idx_packed),
    "cifar": Reader("data_batch_1.bin", content(_cifar10), seeds.cifar, tries=20),
    "cifar_archive": Reader("cifar.tar.gz", content(_archive), seeds.archives, pack=seeds.gzipped),
    "cinic": Reader("cinic.tar.gz", content(_cinic), seeds.pictures, pack=seeds.gzipped),
    "adult": Reader("adult.data", content(adult.read), seeds.adult),
    "plays": Reader("play.txt", content(_plays), seeds.plays),
    "tweets": Reader("tweets.zip", content(sent140.read), seeds.tweets, pack=seeds.pack_tweets),
    "tweets_packed": Reader("tweets.zip", content(sent140.read), seeds.tweets_packed),
    "svhn": Reader("train.mat", content(svhn.read), seeds.svhn, tries=50),
    "vehicle": Reader("vehicle.mat", content(vehicle.read), seeds.vehicle, tries=50),
    "glove": Reader("glove.txt", _glove, seeds.glove),
    "arrays": Reader("mine.npz", of_model(Arrays, features=(2,), **OWN), seeds.arrays, pack=seeds.pack_arrays),
    "arrays_packed": Reader("mine.npz", of_model(Arrays, features=(2,), **OWN), seeds.arrays_packed),
    "table_csv": Reader("mine.csv", of_model(Table, features=2, user="user", **OWN), seeds.tables_csv, tries=50),
    "table_parquet": Reader("mine.parquet", of_model(Table, features=2, user="user", **OWN), seeds.tables_parquet, 30),
    "deliveries_csv": Reader("heard.csv", source.read, seeds.heard_csv, tries=50),
    "deliveries_parquet": Reader("heard.parquet", source.read, seeds.heard_parquet, tries=30),
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
