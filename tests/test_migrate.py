"""The script that converts folders of format 1."""

import json
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.restarted_runs import a_scenario

import netfl
from netfl.errors import ScenarioError
from netfl.formats import STAMP
from netfl.results.digests import run_digests, verify_runs

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import migrate


def make_old(folder):
    """Turn a run into one of format 1: rows in another order, digests of tables only."""
    for path in folder.glob("*.parquet"):
        table = pd.read_parquet(path)
        by = ["round", "replica"] if {"round", "replica"} <= {*table} else []
        table = table.sort_values(by, kind="stable") if by else table
        rows = pq.read_table(path).take(table.index.to_numpy())
        pq.write_table(
            rows.replace_schema_metadata({**(rows.schema.metadata or {}), **dict.fromkeys(STAMP, b"1")}), path
        )
    path = folder / "scenario.yaml"
    path.write_text(path.read_text().replace("format: 2\n", "format: 1\n"))
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    old = {key: value for key, value in manifest.items() if key not in {"users", "files", "digest"}}
    path.write_text(json.dumps(old | {"format": 1, "digests": run_digests(folder)}))


def test_an_old_run_becomes_a_new_one(tmp_path):
    run = netfl.run(a_scenario(replicas=2), tmp_path / "run", device="cpu")
    written = {path.name: path.read_bytes() for path in run.folder.glob("*.parquet")}
    make_old(run.folder)
    with pytest.raises(ScenarioError, match=r"format: older than 2, .* python benchmarks/migrate.py \S*/run$"):
        netfl.open_run(run.folder)
    migrate.migrate(run.folder)
    assert {path.name: path.read_bytes() for path in run.folder.glob("*.parquet")} == written
    assert all(result.good for result in verify_runs(run.folder))
    assert netfl.open_run(run.folder).manifest["users"] == 3
    assert (tmp_path / "run.format1/manifest.json").exists()
    with pytest.raises(ValueError, match="exists already"):
        migrate.migrate(run.folder)


def test_changed_tables_are_not_converted(tmp_path):
    run = netfl.trace(a_scenario(), tmp_path / "run")
    make_old(run.folder)
    path = run.folder / "rounds.parquet"
    pd.read_parquet(path).assign(closed_s=9.0).to_parquet(path)
    with pytest.raises(ValueError, match="are not those that the run wrote"):
        migrate.migrate(run.folder)
    assert path.exists()


def test_a_folder_of_another_format_is_refused(tmp_path):
    run = netfl.trace(a_scenario(), tmp_path / "run")
    with pytest.raises(ValueError, match="has the format 2, not 1"):
        migrate.migrate(run.folder)
