"""Readers of files accept any bytes or report the problem, in little time."""

import json
import os
import random
import re
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import file_reader_seeds as reader_seeds
from support import grown_files
from support.file_readers import READERS, Reader

from netfl.diagnosis import participation
from netfl.errors import NetflError
from netfl.files.schema import POSITION, USER, FileColumn
from netfl.files.tables import read_table

LIMIT_S = 2.0
LONG = {"manifest", "summary"}
"""Readers that open the whole run of their file."""
WORDS = [
    b"",
    b"0",
    b"-1",
    b"nan",
    b"1e999",
    b"9" * 30,
    b"null",
    b"{}",
    b"[]",
    b'"',
    b",",
    b"\n",
    b"\0",
    b"\xff\xfe",
    b"a",
]
"""Texts that often break readers."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the files beside those of the readers."""
    place = tmp_path_factory.mktemp("readers")
    reader_seeds.lay(place)
    return place


def mutate(seeds, rng):
    """Return one of *seeds* with a few random deletions, insertions, repetitions and changes."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(data))
        end = min(at + int(rng.expovariate(0.2)), len(data))
        other = rng.choice(seeds)
        begin = rng.randint(0, len(other))
        insertions = [rng.choice(WORDS), rng.randbytes(1), data[at:end] * 2, other[begin : begin + 20], b""]
        data[at:end] = rng.choice(insertions)
    return bytes(data)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in READERS]
)
def test_nearly_valid_files_are_read_or_rejected(folder, name):
    reader, rng = READERS[name], random.Random(name)
    seeds = reader.seeds()
    for data in [*seeds, *(mutate(seeds, rng) for _ in range(reader.tries))]:
        start_s = time.process_time()
        message = reader.target(folder, data)
        assert time.process_time() - start_s < LIMIT_S, data
        assert not message or re.search(r"; |netfl\.resume\(", message), message  # what helps


THOROUGH = [pytest.mark.slow, pytest.mark.thorough]
GROWN = {name: grown_files.form_of(reader) for name, reader in READERS.items() if grown_files.form_of(reader)}
"""Readers of files with records, with the form of their files."""
STATED_BYTES = dict.fromkeys(("deliveries_csv", "deliveries_parquet"), participation.MAX_BYTES)
"""Limits that the page on safety states: the diagnosis has a byte for each user in each round."""
OF_RUNS = {
    "gml",
    "manifest",
    "summary",
    "sweep",
    "replay_rounds",
    "replay_deliveries",
    "rounds",
    "events",
    "metrics",
    "users",
}
"""Readers of files that netfl has written itself, and one that takes long: some of their files are tried."""
FILES_OF_RUNS = 5
"""Number of files that are tried of those."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=THOROUGH if name in OF_RUNS else []) for name in GROWN])
def test_memory_and_time_are_proportional_to_the_file(folder, name):
    reader = READERS[name]
    files = [data for seed in reader.seeds()[:1] for data in grown_files.grown(seed, GROWN[name])]
    assert files
    if name in OF_RUNS:
        files = files[:: -(-len(files) // FILES_OF_RUNS)]
    for data in files:
        grown_files.check_bounds(reader, folder, data, STATED_BYTES.get(name, 0.0))


def read_into_a_grid(path):
    """Read a table as a reader does that has no bound on its cells."""
    table = read_table(path)
    x, y = (np.unique(table.numbers(FileColumn(name, POSITION)), return_inverse=True) for name in ("x_m", "y_m"))
    has_point = np.zeros((len(x[0]), len(y[0])), bool)
    has_point[x[1], y[1]] = True


def read_into_places(path):
    """Read a table as a reader does that has an array as long as the largest number."""
    table = read_table(path)
    users = table.users(FileColumn("user", USER))
    table.check()
    np.zeros(users.max() + 1)[users] = 1.0


@pytest.mark.parametrize(
    ("read", "seed"), [(read_into_a_grid, b"x_m,y_m,v\n0,0,1\n"), (read_into_places, b"user,v\n0,1\n")]
)
def test_a_reader_without_a_bound_is_detected(tmp_path, read, seed):
    planted = Reader("planted.csv", read, lambda: [seed])
    with pytest.raises(AssertionError, match=r"bytes for each|more memory than there is"):
        for data in grown_files.grown(seed, "lines"):
            grown_files.check_bounds(planted, tmp_path, data)


@pytest.mark.parametrize("name", sorted(READERS.keys() - {"leaf", "vehicle"}))  # their files are copied before
def test_named_pipes_are_refused(name, tmp_path):
    """Opening one would wait for ever."""
    reader_seeds.lay(tmp_path)
    path = tmp_path / READERS[name].file
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(NetflError):
        READERS[name].read(path)


def with_array(name, array):
    """Return an archive in which one array is replaced."""
    arrays = {"x": np.ones((6, 2)), "label": np.arange(6) % 3} | {name: array}
    return reader_seeds.written(np.savez, **arrays)


def changed(name, *pairs):
    """Return a valid file with some bytes replaced."""
    (data, *_) = READERS[name].seeds()
    for old, new in pairs:
        assert old in data
        data = data.replace(old, new)
    return data


def scrambled(name):
    """Return a Parquet file with an invalid first page."""
    (data,) = READERS[name].seeds()
    return data[:4] + b"\xff" * 60 + data[64:]


def with_pandas_metadata(metadata):
    """Return a Parquet file with metadata of pandas."""
    table = pa.table({"round": [1, 2], "user": [0, 1]}).replace_schema_metadata({"pandas": json.dumps(metadata)})
    return reader_seeds.written(lambda into: pq.write_table(table, into))


KNOWN_PROBLEMS = {
    "places": (b"user,x_m,y_m\n1e300,1,2\n", "not the number of a user .'1e300'"),
    "arrays_packed": (lambda: with_array("label", np.zeros((6, 1))), r"labels \[6, 1\]"),
    "deliveries_csv": (b"round,user\n", "deliveries.csv: the table has no rows"),
    "deliveries_csv 2": (b"round,user,replica\n1,a,0\n2,b,x\n1,b,\n", "deliveries.csv:3: column replica: not a number"),
    "rounds": (lambda: scrambled("rounds"), "rounds.parquet cannot be read"),
    "sweep": (lambda: changed("sweep", (b'"levels"', b'"lovels"')), "sweep.json cannot be read: .*levels"),
    "sweep 2": (
        lambda: changed("sweep", (b'"replicas": 1', b'"replicas": 1000000000000')),
        "sweep.json cannot be read",
    ),
    "checkpoint": (lambda: changed("checkpoint", (b"servers", b"sorvers")), "does not fit this run: KeyError"),
    "checkpoint 2": (lambda: changed("checkpoint", (b"counts", b"cxunts")), "does not fit this run: KeyError"),
    "manifest": (lambda: changed("manifest", (b'"diverged": []', b'"diverged": [1]')), "manifest.json cannot be read"),
}
"""Files that once broke a reader, with a pattern of the error message."""


@pytest.mark.parametrize("name", KNOWN_PROBLEMS)
def test_known_problems_are_reported(folder, name):
    data, expected = KNOWN_PROBLEMS[name]
    reader = READERS[name.partition(" ")[0]]
    message = reader.target(folder, data if isinstance(data, bytes) else data())
    assert re.search(expected, message), message


def test_pandas_metadata_is_ignored(folder):
    assert not READERS["deliveries_parquet"].target(
        folder, with_pandas_metadata({"columns": [{}], "index_columns": ["no"]})
    )
