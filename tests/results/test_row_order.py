"""Order of the rows of tables: the same rows give the same file, whenever they were written."""

from itertools import count

import numpy as np
import pandas as pd
import pytest
from support.restarted_runs import a_scenario
from support.stop_run import StopAfter

import netfl
from netfl.results import run_writer, tables
from netfl.results.row_order import TIMES, sort_by_cause
from netfl.results.run_writer import RunWriter
from netfl.results.tables import SCHEMAS, MemoryTable
from netfl.types import KINDS, RunObserver

WHOLE = ("users", "nodes", "final_metrics", "regions", "points")


def contents(folder, names=(*TIMES, *WHOLE)):
    """Return the bytes of the tables that a run has, by name."""
    paths = {name: folder / f"{name}.parquet" for name in names}
    return {name: path.read_bytes() for name, path in paths.items() if path.exists()}


def scenario(**changes):
    record = {"events": "all", "attempts": True, "links": True, "versions": True}
    return a_scenario(replicas=2, rounds=12, record=record, **changes)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run of two replicas that nothing delays."""
    return netfl.run(scenario(), tmp_path_factory.mktemp("undisturbed") / "run", device="cpu")


def random_rows(count, rng, *, is_one_round):
    """Return the columns of the table ``events`` in any order, with many ties, and the round closed before each row.

    With *is_one_round* all rows are recorded while one round is open, so that times of different rounds overlap.
    """
    rounds = rng.integers(1, 4, count)
    closed = rounds - 1
    times = rng.integers(0, 3, count) + 3.0 * rounds
    if is_one_round:
        closed = np.zeros(count, np.int64)
        times = rng.integers(0, 3, count) + 0.0
    words = [rng.choice(["b", "a", "ab", ""], count) for _ in range(4)]
    kinds = rng.choice(KINDS[:3], count)
    values = rng.choice([np.nan, 1.0, 2.0], count)
    columns = [
        rng.integers(0, 2, count), times, kinds, rng.integers(0, 2, count),
        words[0], rounds, values, words[1], words[2],
    ]  # fmt: skip
    return columns, closed


@pytest.mark.parametrize("is_one_round", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_sorted_by_all_columns(seed, is_one_round):
    """pandas sorts the same rows by replica, round and time, and then by all other columns."""
    columns, closed = random_rows(500, np.random.default_rng(seed), is_one_round=is_one_round)
    table = MemoryTable("events")
    names = SCHEMAS["events"].names
    words = [name for name in names if name in {"kind", "node", "detail", "traffic"}]
    arrays = [tables.dictionary_column(list(column)) if name in words else column
              for name, column in zip(names, columns, strict=True)]  # fmt: skip
    table.append(arrays, closed=closed)
    read = table.read().to_pandas().astype(dict.fromkeys(words, str))
    given = pd.DataFrame(dict(zip(names, columns, strict=True))).astype(read.dtypes.to_dict())
    first = ["replica", "round", "time_s"]
    expected = given.sort_values([*first, *(name for name in names if name not in first)], ignore_index=True)
    pd.testing.assert_frame_equal(read, expected)


def test_rows_are_sorted_in_every_growing_table(undisturbed):
    of_some_runs = {
        "delivery_towers",
        "erasures",
        "lost_trainings",
        "merges",
        "merged_models",
        "merged_updates",
        "not_summed",
    }
    growing = {name: time for name, time in TIMES.items() if name not in of_some_runs}
    assert set(growing) <= contents(undisturbed.folder).keys()
    for name, time in growing.items():
        table = pd.read_parquet(undisturbed.folder / f"{name}.parquet")
        words = [column for column in table if isinstance(table[column].dtype, pd.CategoricalDtype)]
        table = table.astype(dict.fromkeys(words, str))
        first = ["replica", "round", time]
        columns = [*first, *(column for column in table if column not in first)]
        assert len(table) > 10
        pd.testing.assert_frame_equal(table, table.sort_values(columns, kind="stable", ignore_index=True))


class StreamWatch(RunObserver):
    """Counts the rounds after which the streams of a run have grown."""

    def __init__(self, folder):
        self.grown = 0
        self._folder = folder
        self._size = 0

    def on_round(self, progress):
        size = sum(path.stat().st_size for path in self._folder.glob("*.arrows.part"))
        self.grown += size > self._size
        self._size = size


@pytest.mark.parametrize("chunk", [7, 64])
def test_times_of_writes_do_not_matter(undisturbed, tmp_path, monkeypatch, chunk):
    """Rows are written after random rounds, as on a busy machine, and in chunks of several sizes."""
    seconds = iter(np.random.default_rng(chunk).choice([0.0, 100.0], 1000).cumsum())
    monkeypatch.setattr(run_writer, "monotonic", lambda: next(seconds))
    watch = StreamWatch(tmp_path / "run")
    run = netfl.run(scenario(), tmp_path / "run", device="cpu", observer=watch)
    assert 0 < watch.grown < 12, "rows were written after some rounds, not after each"
    assert contents(run.folder) == contents(undisturbed.folder)
    assert run.manifest["digests"] == undisturbed.manifest["digests"]
    monkeypatch.setattr(tables, "CHUNK", chunk)  # row groups have other sizes now, but the rows are the same
    small = netfl.run(scenario(), tmp_path / "small", device="cpu")
    assert small.manifest["digests"] == undisturbed.manifest["digests"]


def test_late_rows_follow_their_round_in_both_orders_of_writing(tmp_path, monkeypatch):
    """A recorder of another package may record an event of an earlier round; when rows are written does not matter."""

    class Late(RunObserver):
        def on_round(self, progress):
            self.recorder.record(netfl.types.Event("up", 0.5, round=1, user=9 - progress.round % 10))

    late = Late()
    original = RunWriter.__init__

    def init(self, *arguments):
        original(self, *arguments)
        late.recorder = self.recorders[0]

    monkeypatch.setattr(RunWriter, "__init__", init)
    found = []
    for name, step_s in (("often", 100), ("never", 0)):
        clock = count(0, step_s)
        monkeypatch.setattr(run_writer, "monotonic", lambda clock=clock: next(clock))
        access = {"kind": "bernoulli", "probability": 0.5}
        found.append(contents(netfl.trace(a_trace(access), tmp_path / name, observer=late).folder))
    assert found[0] == found[1]


def a_trace(access):
    nothing = dict.fromkeys(("data", "partition", "model", "learners", "evaluate", "checkpoint"))
    return a_scenario(access=access, record="all", rounds=30, replicas=2, **nothing)


def test_resumed_and_extended_traces_have_equal_files(tmp_path):
    access = {"kind": "bernoulli", "probability": 0.5}
    whole = contents(netfl.trace(a_trace(access), tmp_path / "whole").folder)
    netfl.trace(a_trace(access), tmp_path / "stopped", observer=StopAfter(7))
    assert contents(netfl.resume(tmp_path / "stopped").folder) == whole
    netfl.trace(a_trace(access).model_copy(update={"replicas": 1}), tmp_path / "short")
    assert contents(netfl.extend(tmp_path / "short", 2).folder) == whole


def test_events_of_one_instant_are_sorted_by_cause():
    kinds = ["sent", "trained", "received", "delivered", "failed", "sampled"]
    events = pd.DataFrame({"time_s": [2.0] * 5 + [1.0], "kind": kinds})
    assert sort_by_cause(events)["kind"].tolist() == ["sampled", "failed", "delivered", "received", "trained", "sent"]


@pytest.mark.slow
def test_workers_on_a_busy_machine_write_equal_files(undisturbed, tmp_path):
    for number in range(2):
        run = netfl.run(scenario(), tmp_path / f"run{number}", device="cpu", workers=2)
        names = ("rounds", "deliveries", "events", "attempts", "users", "nodes")
        assert contents(run.folder, names) == contents(undisturbed.folder, names)
    first, second = (contents(tmp_path / f"run{number}") for number in range(2))
    assert first == second
