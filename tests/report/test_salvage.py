"""Reports of damaged, incomplete and missing runs: a page with a warning, or an error of one line."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import netfl
from netfl import report
from netfl.cli import app
from netfl.core.columns import complete_columns
from netfl.core.formats import FORMAT
from netfl.errors import ScenarioError
from netfl.report import summary_text
from netfl.report.run_data import read_run_data
from netfl.report.run_set import gather_runs
from netfl.report.salvage import salvage_run
from netfl.results.run_reader import open_run
from netfl.results.tables import SCHEMAS, TableWriter, read_stream, stream_of
from netfl.types import Round

pytestmark = pytest.mark.usefixtures("sketched")


@pytest.fixture
def run(make):
    return make(users=8, rounds=30, replicas=1)


def damaged(run, name, content):
    """Open *run* again with *content* in one of its files, or without the file if ``None``."""
    path = run.folder / name
    path.unlink(missing_ok=True) if content is None else path.write_bytes(content)
    return open_run(run.folder)


def status_text(run):
    """Return the text on the status of a run at the top of its report."""
    return "\n".join(summary_text.run_status(read_run_data(run)))


def test_intact_run_is_unchanged(run):
    found, damage = salvage_run(run)
    assert found is run
    assert damage == ()


@pytest.mark.parametrize("name", ["rounds", "metrics"])
@pytest.mark.slow
def test_truncated_table_is_named_and_the_rest_is_shown(run, name):
    whole = (run.folder / f"{name}.parquet").read_bytes()
    found = damaged(run, f"{name}.parquet", whole[: len(whole) // 2])
    text = report.write(found).read_text(encoding="utf-8")
    assert f"{name}.parquet cannot be read, so its plots and tables are missing: " in text
    assert text.count("<svg") > 2


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("manifest.json", b"{nonsense", "Expecting property name"),
        ("manifest.json", b"[1, 2]", "should be a mapping"),
        ("scenario.yaml", b"a: [", "invalid YAML: while parsing a flow node"),
        ("scenario.yaml", b"- 1", "should be a mapping"),
        ("scenario.yaml", b"\xff\xfe\x00", "can't decode byte 0xff"),
        ("metrics.parquet", b"", "Parquet file size is 0 bytes"),
    ],
)
def test_invalid_file_is_named(run, name, content, reason):
    found = damaged(run, name, content)
    assert f"{name} cannot be read" in status_text(found)
    assert reason in status_text(found)


LOST = {
    "rounds.parquet": ["no rounds yet", "It has 0", "0 rounds", "0 replicas", "One replica"],
    "deliveries.parquet": ["Users without deliveries", "Every user had", "sent 0 %", "without a delivery",
                           "were cut off", "Deliveries of each user", "Number of deliveries", "number of deliveries",
                           "deliveries in each round", 'id="replay'],
    "events.parquet": ["No outcomes of updates were recorded", "not recorded", 'id="replay'],
    "metrics.parquet": ["has no learners"],
    "users.parquet": ["have no positions"],
    "nodes.parquet": ["no longer matches"],
    "scenario.yaml": ["no longer matches", "of None rounds"],
    "manifest.json": ["plots and tables are missing", "is not finished", "All 240 updates"],
}  # fmt: skip
"""Parts of sentences that depend on each file."""


@pytest.mark.slow
@pytest.mark.parametrize("name", LOST)
@pytest.mark.parametrize("content", [None, b"\xff?"])
def test_no_sentence_depends_on_a_lost_file(make, name, content):
    if content is None and name in {"manifest.json", "nodes.parquet"}:
        pytest.skip("a run without a network has no nodes, and a folder without a manifest is no run")
    found = damaged(make(users=8, rounds=30, replicas=2), name, content)
    text = report.write(found).read_text(encoding="utf-8").replace("\u00a0", " ")
    for part in LOST[name]:
        assert part not in text
    assert f"{name} {'is missing from the run' if content is None else 'cannot be read'}" in text


def test_effect_of_a_lost_document_is_named(run):
    lost = "manifest.json cannot be read, so the status, the seed and the warnings of the run are unknown: "
    assert lost in status_text(damaged(run, "manifest.json", b"?"))
    found = damaged(run, "scenario.yaml", None)
    assert "scenario.yaml is missing from the run, so the settings of the run are unknown." in status_text(found)


def test_lost_tables_leave_their_facts_out(make):
    run = make(users=8, rounds=30, replicas=2)
    assert summary_text.run_facts(read_run_data(run)) == "8 users · 30 rounds · 2 replicas · seed 5"
    found = damaged(run, "rounds.parquet", None)
    assert summary_text.run_facts(read_run_data(found)) == "8 users · 2 replicas · seed 5"
    for name in ("users.parquet", "scenario.yaml", "metrics.parquet", "deliveries.parquet"):
        found = damaged(run, name, b"\xff?")
    assert summary_text.run_facts(read_run_data(found)) == "seed 5"


def test_run_that_was_interrupted_before_an_evaluation_has_learners(run):
    run.metrics.iloc[:0].to_parquet(run.folder / "metrics.parquet")
    assert "has no learners" not in status_text(open_run(run.folder))


@pytest.mark.slow
def test_comparison_says_nothing_on_lost_tables(make_run, tmp_path):
    folders = [make_run(tmp_path / name, users=8, rounds=30, replicas=2).folder for name in "abc"]
    intact = "\n".join(summary_text.comparison_summary(gather_runs(folders), []))
    assert "Users without deliveries in the first replica" in intact
    assert "B and C share the trace of A" in intact
    damaged(open_run(folders[0]), "deliveries.parquet", b"?")
    damaged(open_run(folders[1]), "events.parquet", b"?")
    damaged(open_run(folders[2]), "scenario.yaml", b"\xff?")
    page = report.write_several(folders, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "trace of A" not in page
    assert "another trace" not in page
    assert "8 of 8 in A" not in page
    assert "Not recorded in B" not in page
    assert "The scenarios of A and B are the same in every key." in page
    for folder in folders[1:]:
        damaged(open_run(folder), "manifest.json", b"?")
        damaged(open_run(folder), "scenario.yaml", b"\xff?")
    page = report.write_several(folders, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "trace of B" not in page
    assert "the same seed, " not in page
    assert "same in every key" not in page
    assert "The runs differ in" not in page


def test_status_is_unknown_without_manifest(run):
    assert "It is unknown whether this run is finished. It has 30 rounds." in status_text(
        damaged(run, "manifest.json", b"?")
    )


@pytest.mark.parametrize("name", ["events.parquet", "metrics.parquet", "scenario.yaml"])
def test_missing_file_of_finished_run_is_named(run, name):
    assert f"{name} is missing from the run" not in status_text(run)
    assert f"{name} is missing from the run" in status_text(damaged(run, name, None))


def test_killed_run_is_marked(run):
    (run.folder / "manifest.json").write_text(json.dumps({"format": FORMAT, "status": "running", "rounds": 30}))
    for name in ("rounds", "deliveries", "events", "metrics"):
        (run.folder / f"{name}.parquet").rename(run.folder / f"{name}.parquet.part")
    text = report.write(open_run(run.folder)).read_text(encoding="utf-8")
    assert "This run is not finished (crashed): it has 0 of 30 rounds." in text
    assert "To continue: netfl resume" in text
    assert "It has no checkpoint, so it starts over." in text
    assert "is missing from the run" not in text
    (run.folder / "checkpoint.pt").touch()
    assert "Its checkpoint keeps the models." in status_text(run)


def test_folder_without_run_gives_one_line(run, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("hello")
    shutil.copytree(run.folder, tmp_path / "bare")
    (tmp_path / "bare" / "manifest.json").unlink()
    for name in ("empty", "file", "bare", "nowhere", "<script>'\" ü"):
        result = CliRunner().invoke(app, ["report", str(tmp_path / name)])
        assert result.exit_code == 2, name
        assert len(result.output.strip().splitlines()) == 1, name
        assert "is not a run directory" in result.output, name


def test_name_that_is_too_long_gives_one_line(tmp_path):
    result = CliRunner().invoke(app, ["report", str(tmp_path / ("long" * 100))])
    assert result.exit_code == 1
    assert len(result.output.strip().splitlines()) == 1
    assert "cannot be read: File name too long" in result.output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_folder_gives_one_line(run):
    run.folder.chmod(0)
    try:
        result = CliRunner().invoke(app, ["report", str(run.folder)])
    finally:
        run.folder.chmod(0o755)
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1


def test_selection_is_diagnosed_without_scenario_and_users(run):
    (run.folder / "scenario.yaml").write_text("junk")
    (run.folder / "users.parquet").unlink()
    view = read_run_data(open_run(run.folder))
    assert view.selection is not None
    assert view.selection.sentence in summary_text.run_summary(view)


KILLED = """
import sys
import netfl
from netfl.results import run_writer
from netfl.scenario.scenario import load

run_writer.FLUSH_EVERY_S = 0.2
changes = {"rounds": 5_000, "evaluate.every": 5, "partition.by": "distance", "tuning": None}
netfl.run(load(sys.argv[1], changes), sys.argv[2], device="cpu")
"""
"""A script whose run continues until it is killed."""


def _last_round(stream):
    return max(read_stream(stream)["round"].to_pylist(), default=0)


@pytest.mark.slow
def test_report_of_killed_run_shows_its_tables(tmp_path):
    root, folder = Path(__file__).parents[2], tmp_path / "run"
    command = [sys.executable, "-c", KILLED, root / "scenarios/rural_outage.yaml", folder]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(root)}) as process:
        path, end = stream_of(folder, "rounds"), time.monotonic() + 100
        while time.monotonic() < end and not (path.exists() and _last_round(path) > 12):
            time.sleep(0.2)
        process.kill()
    run = open_run(folder)
    assert run.status == "crashed"
    view = read_run_data(run)
    last = view.rounds
    assert last > 4
    text = report.write(run).read_text(encoding="utf-8")
    assert f"This run is not finished (crashed): it has {last} of 5\u202f000 rounds." in text
    assert text.count("<svg") >= 8
    for section in ("final_metrics", "participation", "outcomes", "network", "replay"):
        assert f'<section id="{section}">' in text
    overrides = {"rounds": last, "partition.by": "distance"}
    whole = netfl.trace(netfl.load(root / "scenarios/rural_outage.yaml", overrides), tmp_path / "whole")
    columns = ["replica", "round", "opened_s", "closed_s", "delivered"]
    pd.testing.assert_frame_equal(view.run.rounds[columns], whole.rounds[columns])
    pd.testing.assert_frame_equal(view.run.deliveries, whole.deliveries)
    assert view.run.events["time_s"].max() <= whole.rounds["closed_s"].max()
    assert run.rounds.empty, "only a report reads unfinished tables"


def test_damaged_stream_is_read_up_to_the_damage(tmp_path):
    table = TableWriter(tmp_path, "rounds", SCHEMAS["rounds"])
    for index in range(5):
        given = {"round": index, "opened_s": 0.0, "closed_s": 1.0, "delivered": 1, "oldest": 0}
        columns = complete_columns(Round, 10, given)
        table.append([np.zeros(10, int), *columns.values()])
        table.flush()
    path = stream_of(tmp_path, "rounds")
    content = path.read_bytes()
    assert read_stream(path)["round"].to_pylist() == np.repeat(np.arange(5), 10).tolist()
    found = set()
    for size in range(0, len(content), 97):
        path.write_bytes(content[:size])
        rows = read_stream(path)["round"].to_pylist()
        assert rows == np.repeat(np.arange(len(rows) // 10), 10).tolist()
        found.add(len(rows))
    assert {0, 10, 20, 30, 40} <= found
    path.write_bytes(b"nonsense" * 100)
    assert read_stream(path).schema.names == SCHEMAS["rounds"].names
    assert isinstance(read_stream(path), pa.Table)
    table.abandon()


def test_tables_of_crashed_run_end_with_last_complete_round(run):
    whole = {name: run.table(name) for name in ("rounds", "deliveries", "events", "metrics")}
    (run.folder / "manifest.json").write_text(json.dumps({"format": FORMAT, "status": "running", "rounds": 30}))
    last = {"rounds": 30, "deliveries": 21, "events": 30, "metrics": 10}
    for name, full in whole.items():
        rows = full[full["round"] <= last[name]]
        table = TableWriter(run.folder, name, SCHEMAS[name])
        table.append([pa.array(rows[field.name], field.type) for field in SCHEMAS[name]])
        table.flush()
        (run.folder / f"{name}.parquet").unlink()
    found, _ = salvage_run(open_run(run.folder))
    assert found.rounds["round"].max() == found.deliveries["round"].max() == 21
    assert found.metrics["round"].max() == 10
    closed_s = whole["rounds"].query("round == 21")["closed_s"].item()
    assert len(found.events) == (whole["events"]["time_s"] <= closed_s).sum() < len(whole["events"])


def write_streams(run, last):
    """Turn *run* into one that crashed after it was resumed, with streams up to round *last*."""
    (run.folder / "manifest.json").write_text(json.dumps({"format": FORMAT, "status": "running", "rounds": 30}))
    for name in ("rounds", "deliveries", "events", "metrics"):
        rows = run.table(name)
        rows = rows[rows["round"] <= last]
        table = TableWriter(run.folder, name, SCHEMAS[name])
        table.append([pa.array(rows[field.name], field.type) for field in SCHEMAS[name]])
        table.flush()


def truncate_tables(run, last):
    """Truncate the tables of *run* after round *last*, as after an earlier stop."""
    for name in ("rounds", "deliveries", "events", "metrics"):
        rows = run.table(name)
        pa.parquet.write_table(
            pa.Table.from_pandas(rows[rows["round"] <= last], SCHEMAS[name], preserve_index=False),
            run.folder / f"{name}.parquet",
        )


@pytest.mark.parametrize(("stopped", "crashed"), [(5, 20), (20, 5)])
def test_report_uses_the_longer_of_tables_and_streams(run, stopped, crashed):
    write_streams(run, crashed)
    truncate_tables(run, stopped)
    found, damage = salvage_run(open_run(run.folder))
    assert damage == ()
    assert found.rounds["round"].max() == found.deliveries["round"].max() == 20
    assert (run.folder / "rounds.arrows.part").exists()


def test_stream_with_other_columns_is_named_and_ignored(run):
    write_streams(run, 20)
    (run.folder / "rounds.parquet").unlink()
    path = stream_of(run.folder, "rounds")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, pa.schema({"a": pa.int8()})) as stream:
        stream.write_batch(pa.record_batch({"a": pa.array([1], pa.int8())}))
    found, damage = salvage_run(open_run(run.folder))
    assert f"rounds.arrows.part cannot be read, so its plots and tables are missing: {path}" in damage[0]
    assert "its columns are a" in damage[0]
    assert found.rounds.empty


def test_stream_of_newer_version_is_rejected(run):
    write_streams(run, 20)
    path = stream_of(run.folder, "rounds")
    schema = SCHEMAS["rounds"].with_metadata({b"netfl.format": b"99"})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema))
    with pytest.raises(ScenarioError, match=f"newer than {FORMAT}"):
        read_stream(path)
