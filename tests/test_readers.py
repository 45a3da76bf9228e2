"""Whatever the bytes of a file, its reader takes them or says what is wrong, in little time."""

import json
import random
import re
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import file_reader_seeds as reader_seeds
from support.file_readers import READERS

MOST_S = 2.0
LONG = {"manifest", "summary"}
"""Readers that open the whole run around their file."""
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
"""What readers stumble over."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where files lie, beside those that there must be."""
    place = tmp_path_factory.mktemp("readers")
    reader_seeds.lay(place)
    return place


def nearly(seeds, rng):
    """One of *seeds* with something cut out, put in, put twice or changed, a few times."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(data))
        end = min(at + int(rng.expovariate(0.2)), len(data))
        other = rng.choice(seeds)
        begin = rng.randint(0, len(other))
        news = [rng.choice(WORDS), rng.randbytes(1), data[at:end] * 2, other[begin : begin + 20], b""]
        data[at:end] = rng.choice(news)
    return bytes(data)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in READERS]
)
def test_files_that_are_nearly_right(folder, name):
    reader, rng = READERS[name], random.Random(name)
    seeds = reader.seeds()
    for data in [*seeds, *(nearly(seeds, rng) for _ in range(reader.tries))]:
        begun = time.process_time()
        reader.target(folder, data)
        assert time.process_time() - begun < MOST_S, data


def of_arrays(name, one):
    """The file of arrays with another one."""
    arrays = {"x": np.ones((6, 2)), "label": np.arange(6) % 3} | {name: one}
    return reader_seeds.written(np.savez, **arrays)


def changed(name, *pairs):
    """A good file with some of its bytes changed."""
    (data, *_) = READERS[name].seeds()
    for old, new in pairs:
        assert old in data
        data = data.replace(old, new)
    return data


def scrambled(name):
    """A good Parquet file whose first page is none."""
    (data,) = READERS[name].seeds()
    return data[:4] + b"\xff" * 60 + data[64:]


def noted(note):
    """A good Parquet file that pandas has noted something in."""
    table = pa.table({"round": [1, 2], "user": [0, 1]}).replace_schema_metadata({"pandas": json.dumps(note)})
    return reader_seeds.written(lambda into: pq.write_table(table, into))


FOUND = {
    "places": (b"user,x_m,y_m\n1e300,1,2\n", "no such user: 1e"),
    "arrays_packed": (lambda: of_arrays("label", np.zeros((6, 1))), r"labels \[6, 1\]"),
    "deliveries_csv": (b"round,user\n", "heard.csv: the table has no rows"),
    "deliveries_csv 2": (b"round,user,replica\n1,a,0\n2,b,x\n1,b,\n", "replica: not a number in each row"),
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
"""What once brought a reader down, and what it says now."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(folder, name):
    data, said = FOUND[name]
    reader = READERS[name.partition(" ")[0]]
    told = reader.target(folder, data if isinstance(data, bytes) else data())
    assert re.search(said, told), told


def test_what_pandas_noted_is_passed_over(folder):
    assert not READERS["deliveries_parquet"].target(folder, noted({"columns": [{}], "index_columns": ["no"]}))
