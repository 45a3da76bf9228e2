"""The examples in the documentation about data run as printed."""

import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import netfl
from netfl.core.kinds import list_kinds
from netfl.learning.data import Data
from netfl.learning.data import _download as cache
from netfl.learning.data.table import Table
from netfl.learning.partition import Partition
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, parse
from netfl.streams import Streams

PAGE = (Path(__file__).parents[3] / "docs" / "data.md").read_text()


def blocks(language, text):
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [block for block in found if text in block]


def test_the_example_of_arrays_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,), (settings,) = blocks("python", "savez"), blocks("yaml", "mine.npz")
    exec(code, {})
    run = netfl.run(validate(ScenarioDocument(parse(settings, "data.md"), "data.md")), tmp_path / "run", device="cpu")
    assert run.manifest["status"] == "done"
    assert run.users["samples"].sum() == 300 - sum(np.bincount(run_users(tmp_path)) // 5)


def run_users(folder):
    """Return the user numbers in the file that the page writes."""
    with np.load(folder / "mine.npz") as arrays:
        return np.unique(arrays["user"], return_inverse=True)[1]


def test_the_example_of_a_table_is_read_from_csv_and_parquet(tmp_path):
    (text,), (settings,) = blocks("csv", "height,weight"), blocks("yaml", "mine.csv")
    rows = [row for row in csv.reader(text.splitlines()) if row]
    frame = pd.DataFrame(rows[1:] * 10, columns=rows[0]).astype({"height": float, "weight": float, "size": int})
    frame.to_csv(tmp_path / "mine.csv", index=False)
    frame.to_parquet(tmp_path / "mine.parquet")
    keys = parse(settings, "data.md")["data"]
    assert keys.pop("kind") == "table"
    sets = [Table(**keys | {"file": tmp_path / name}).load(Streams(0)) for name in ("mine.csv", "mine.parquet")]
    assert (sets[0].train_x == sets[1].train_x).all()
    assert np.bincount(sets[0].train_user).tolist() == [8, 8]
    assert np.bincount(sets[0].test_user).tolist() == [2, 2]


def test_the_page_names_every_kind_and_file():
    kinds = [*list_kinds(Data), *list_kinds(Partition)]
    assert [kind for kind in kinds if f"`{kind}`" not in PAGE] == []
    files = {file for source in cache.SOURCES.values() for file in source.files if "/" not in file}
    assert [file for file in files if f"`{file}`" not in PAGE] == []
    assert [source.folder for source in cache.SOURCES.values() if f"`{source.folder}/`" not in PAGE] == []


@pytest.mark.parametrize("text", blocks("yaml", "partition: {kind"))
def test_the_examples_of_partitions_are_valid(text):
    base = {"name": "a", "users": 12, "rounds": 2, "data": {"kind": "digits"}, "model": "logistic"}
    base["learners"] = {"a": {"objective": "erm", "aggregation": "average", "lr": 1, "batch_size": 1, "local_steps": 1}}
    base["access"] = {"kind": "stationary", "rho": {"zipf": 1}, "deliveries": 1}
    keys = parse(text.replace("distance", "rho"), "data.md")
    assert validate(ScenarioDocument(base | keys, "data.md")).partition is not None
