"""The script that converts folders of formats 1 and 2."""

import json
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.restarted_runs import a_scenario
from support.small_network import SECTION

import netfl
from netfl.core.formats import FORMAT, STAMP
from netfl.errors import ScenarioError
from netfl.results.digests import run_digests, verify_runs

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import migrate

EXPONENTIAL = {"distribution": "exponential", "mean": "10 s"}
STEADY = SECTION | {"channel": [{"kind": "constant", "gain": "-90 dB"}]}
"""A network with no key that a conversion adds but those of its round."""


def make_old(folder, number, text=lambda text: text):
    """Turn a run into one of format 1, with rows in another order and digests of tables only, or of format 2."""
    for path in folder.glob("*.parquet"):
        rows = pq.read_table(path)
        if number == 1:
            table = pd.read_parquet(path)
            by = ["round", "replica"] if {"round", "replica"} <= {*table} else []
            table = table.sort_values(by, kind="stable") if by else table
            rows = rows.take(table.index.to_numpy())
        stamp = dict.fromkeys(STAMP, str(number).encode())
        pq.write_table(rows.replace_schema_metadata({**(rows.schema.metadata or {}), **stamp}), path)
    path = folder / "scenario.yaml"
    path.write_text(text(path.read_text().replace(f"format: {FORMAT}\n", f"format: {number}\n")))
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    old = {key: value for key, value in manifest.items() if key not in {"users", "files", "digest"}}
    path.write_text(json.dumps(old | {"format": number, "digests": run_digests(folder)}))


@pytest.mark.parametrize("number", [1, 2])
def test_an_old_run_becomes_a_new_one(tmp_path, number):
    run = netfl.run(a_scenario(replicas=2, access=STEADY), tmp_path / "run", device="cpu")
    written = {path.name: path.read_bytes() for path in run.folder.glob("*.parquet")}
    make_old(run.folder, number)
    with pytest.raises(ScenarioError, match=r"format: older than 3, .* python benchmarks/migrate.py \S*/run$"):
        netfl.open_run(run.folder)
    migrate.migrate(run.folder)
    assert {path.name: path.read_bytes() for path in run.folder.glob("*.parquet")} == written
    assert all(result.good for result in verify_runs(run.folder))
    assert netfl.open_run(run.folder).manifest["users"] == 3
    assert (tmp_path / f"run.format{number}/manifest.json").exists()
    make_old(run.folder, number)
    with pytest.raises(ValueError, match="exists already"):
        migrate.migrate(run.folder)


def test_passes_of_an_old_run_are_converted_with_it(tmp_path):
    tuned = {"tuning": {"by": "accuracy", "trials": 3, "replicas": 1}, "evaluate": {"every": 2, "validation": 0.3}}
    run = netfl.run(a_scenario(record="none", **tuned), tmp_path / "run", device="cpu")
    passes = [path.parent for path in run.folder.glob("tuning/*/manifest.json")]
    for folder in (*passes, run.folder):
        make_old(folder, 2)
    migrate.migrate(run.folder)
    assert {result.file.parent for result in verify_runs(run.folder) if result.good} == {run.folder, *passes}


def test_rounds_of_an_old_run_wait_for_their_deadline(tmp_path):
    """Without `losses` an old run waited; its converted scenario says so, and gives its tables again."""
    away = {
        "kind": "renewal",
        "nodes": "users",
        "up": {"distribution": "exponential", "mean": "2 s"},
        "down": EXPONENTIAL,
    }
    access = STEADY | {"round": {"kind": "available", "deadline": "20 s", "losses": "unknown"}, "outages": [away]}
    access["mac"] = {"kind": "round_robin", "max_attempts": 1}
    scenario = {"name": "old", "users": 4, "rounds": 6, "access": access | {"update_size": "10 kB"}}
    scenario["access"]["compute"] = {"speed": 100, "samples": 20}
    run = netfl.trace(netfl.load(scenario), tmp_path / "run", progress=False)
    make_old(run.folder, 2, lambda text: text.replace(", losses: unknown", ""))
    assert "losses" not in (run.folder / "scenario.yaml").read_text()
    migrate.migrate(run.folder)
    again = netfl.trace(netfl.load(run.folder / "scenario.yaml"), tmp_path / "again", progress=False)
    assert run_digests(again.folder) == run_digests(run.folder)
    now = netfl.trace(netfl.load(scenario, {"access.round.losses": "known"}), tmp_path / "now", progress=False)
    assert now.rounds.closed_s.iloc[-1] < run.rounds.closed_s.iloc[-1]


@pytest.mark.parametrize(
    ("key", "model", "stated"),
    [
        ("round", {"kind": "quorum", "quorum": 0.5, "deadline": 3.0}, {"losses": "unknown"}),
        ("round", {"kind": "first", "m": 2, "deadline": None}, {}),
        ("round", {"kind": "available", "deadline": 3.0, "losses": "known"}, {}),
        ("round", "asynchronous", {}),
        ("mac", "fdma", {"among": "users"}),
        ("mac", {"kind": "fdma", "division": "equal", "among": None}, {"among": "users"}),
        ("mac", {"kind": "fdma", "division": "need", "among": None}, {}),
        ("channel", [{"kind": "log_distance", "reference_distance": 1000.0}], {"min_distance": 1000.0}),
        ("motion", {"kind": "sumo_fcd", "file": "ways.xml"}, {"absent": "rest"}),
        ("motion", None, {}),
    ],
)
def test_former_defaults_are_stated(key, model, stated):
    """At each place of a scenario: in the access, and in sweeps and overrides with their dotted keys."""
    for scenario in ({"access": {key: model}}, {"sweep": {f"access.{key}": [model]}}, {f"access.{key}": model}):
        changed = str(migrate.with_kept_meanings(scenario))
        for name, value in stated.items():
            assert f"{name!r}: {value!r}" in changed
        if not stated:
            assert migrate.with_kept_meanings(scenario) == scenario


def test_a_recording_without_a_manifest_is_converted(tmp_path):
    run = netfl.trace(a_scenario(access=STEADY), tmp_path / "run")
    make_old(run.folder, 2)
    for name in ("manifest.json", "scenario.yaml", "summary.json"):
        (run.folder / name).unlink()
    migrate.migrate(run.folder)
    assert pq.read_schema(run.folder / "rounds.parquet").metadata.items() >= STAMP.items()
    assert (tmp_path / "run.format2").exists()


def test_changed_tables_are_not_converted(tmp_path):
    run = netfl.trace(a_scenario(access=STEADY), tmp_path / "run")
    make_old(run.folder, 2)
    path = run.folder / "rounds.parquet"
    pd.read_parquet(path).assign(closed_s=9.0).to_parquet(path)
    with pytest.raises(ValueError, match="are not those that the run wrote"):
        migrate.migrate(run.folder)
    assert path.exists()


def test_a_folder_of_another_format_is_refused(tmp_path):
    run = netfl.trace(a_scenario(), tmp_path / "run")
    with pytest.raises(ValueError, match="has the format 3, not 1 or 2"):
        migrate.migrate(run.folder)
