"""What the page on data says can be done as it stands there."""

import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import netfl
from netfl.learning.data import Data
from netfl.learning.data import _download as cache
from netfl.learning.data.table import Table
from netfl.learning.partition import Partition
from netfl.registry import list_kinds
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, parse
from netfl.streams import Streams

PAGE = (Path(__file__).parents[3] / "docs" / "data.md").read_text()


def blocks(language, word):
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [block for block in found if word in block]


def test_a_set_of_ones_own_is_written_and_learned_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (written,), (said,) = blocks("python", "savez"), blocks("yaml", "mine.npz")
    exec(written, {})
    run = netfl.run(validate(ScenarioDocument(parse(said, "data.md"), "data.md")), tmp_path / "run", device="cpu")
    assert run.manifest["status"] == "done"
    assert run.users["samples"].sum() == 300 - sum(np.bincount(run_users(tmp_path)) // 5)


def run_users(folder):
    """The numbers of the users in the file that the page writes."""
    with np.load(folder / "mine.npz") as found:
        return np.unique(found["user"], return_inverse=True)[1]


def test_a_table_of_ones_own_is_read_in_both_forms(tmp_path):
    (text,), (said,) = blocks("csv", "height,weight"), blocks("yaml", "mine.csv")
    rows = [row for row in csv.reader(text.splitlines()) if row]
    frame = pd.DataFrame(rows[1:] * 10, columns=rows[0]).astype({"height": float, "weight": float, "size": int})
    frame.to_csv(tmp_path / "mine.csv", index=False)
    frame.to_parquet(tmp_path / "mine.parquet")
    keys = parse(said, "data.md")["data"]
    assert keys.pop("kind") == "table"
    sets = [Table(**keys | {"file": tmp_path / name}).load(Streams(0)) for name in ("mine.csv", "mine.parquet")]
    assert (sets[0].train_x == sets[1].train_x).all()
    assert np.bincount(sets[0].train_user).tolist() == [8, 8]
    assert np.bincount(sets[0].test_user).tolist() == [2, 2]


def test_every_kind_and_every_file_is_named():
    named = [*list_kinds(Data), *list_kinds(Partition)]
    assert [kind for kind in named if f"`{kind}`" not in PAGE] == []
    files = {file for source in cache.SOURCES.values() for file in source.files if "/" not in file}
    assert [file for file in files if f"`{file}`" not in PAGE] == []
    assert [one.folder for one in cache.SOURCES.values() if f"`{one.folder}/`" not in PAGE] == []


@pytest.mark.parametrize("said", blocks("yaml", "partition: {kind"))
def test_partitions_are_said_rightly(said):
    base = {"name": "a", "users": 12, "rounds": 2, "data": {"kind": "digits"}, "model": "logistic"}
    base["learners"] = {"a": {"objective": "erm", "aggregation": "average", "lr": 1, "batch_size": 1, "local_steps": 1}}
    base["access"] = {"kind": "stationary", "rho": {"zipf": 1}, "deliveries": 1}
    keys = parse(said.replace("distance", "rho"), "data.md")
    assert validate(ScenarioDocument(base | keys, "data.md")).partition is not None
