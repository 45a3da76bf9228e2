"""Damaged run directories: every reader reports one error that names the file and the column or key."""

import json
import os
import random
import re
import shutil
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML
from support.restarted_runs import a_scenario
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import MachineError, NetflError, ScenarioError
from netfl.report.run_data import read_run_data
from netfl.results.digests import verify_runs
from netfl.results.tables import TABLES

EVERY = int(os.environ.get("NETFL_EVERY_DAMAGE", "101"))
"""Distance of the tested cases of damage; 1 tests each, which takes minutes."""
COMMANDS = (
    ("verify", "DIR"), ("verify", "INTACT", "DIR"), ("export", "DIR", "--csv"), ("export", "DIR", "--perfetto"),
    ("export", "DIR", "--positions"), ("export", "DIR", "--availability", "DIR/a.csv"),
    ("export", "DIR", "--availability", "DIR/a.csv", "--rounds"), ("ram", "DIR"),
    ("extend", "DIR", "--replicas", "2", "-q"), ("resume", "DIR", "-q"),
)  # fmt: skip


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A run with all kinds of files."""
    record = {"events": "all", "attempts": True, "versions": True}
    scenario = a_scenario(replicas=2, rounds=6, record=record)
    return netfl.run(scenario, tmp_path_factory.mktemp("intact") / "run", device="cpu").folder


@pytest.fixture
def damaged(intact, tmp_path):
    """A copy of the run."""
    folder = tmp_path / "run"
    shutil.copytree(intact, folder)
    return folder


def read_everything(folder):
    """Read a run as scripts do."""
    run = netfl.open_run(folder)
    for name in ("status", "summary", "scenario", "diverged", "learners", "test_sets", "recorded_kinds"):
        getattr(run, name)
    for name in run.tables:
        run.table(name)
    for replica in range(2):
        versions = run.versions("A", replica)
        assert [versions[index] for index in versions]
    run._repr_html_()


def read_for_a_report(folder):
    """Read a run as its report does, which states what is lost."""
    data = read_run_data(netfl.open_run(folder))
    for name in ("learners", "replicas", "users", "rounds", "end_s", "duration_s", "rare_classes"):
        getattr(data, name)


def assert_no_traceback(folder, intact, case):
    """Read *folder* with all commands: none fails other than with errors of netfl, in a line each."""
    for words in COMMANDS:
        arguments = [word.replace("DIR", str(folder)).replace("INTACT", str(intact)) for word in words]
        result = CliRunner().invoke(app, arguments)
        message = f"{case}: netfl {' '.join(words)}: {result.output}"
        assert result.exception is None or isinstance(result.exception, SystemExit), message
        assert result.exit_code in {0, 1, 2}, message
        assert result.exit_code == 0 or result.output.strip(), message
    for read in (read_everything, read_for_a_report, lambda each: netfl.compare([each, intact], "loss")):
        with suppress(NetflError):
            read(folder)


SLOW_COMMANDS = [
    ("ram", "DIR", "--explain"),
    ("report", "DIR"),
    ("report", "INTACT", "DIR", "--out", "DIR/both.html"),
    ("report", "INTACT", "DIR", "--out", "DIR/both.html", "--latex", "DIR/table.tex"),
]


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("words", SLOW_COMMANDS, ids=" ".join)
def test_slow_commands_do_without_a_table_or_name_it(words, intact, tmp_path):
    for path in sorted(intact.glob("*.parquet")):
        folder = tmp_path / path.stem
        shutil.copytree(intact, folder)
        (folder / path.name).unlink()
        result = CliRunner().invoke(
            app, [word.replace("DIR", str(folder)).replace("INTACT", str(intact)) for word in words]
        )
        assert result.exception is None or isinstance(result.exception, SystemExit), path.name
        assert result.exit_code == 0 or path.stem in result.output, result.output


def change_column(path, name, change):
    """Replace a column by the values that *change* makes of its values."""
    table = pq.read_table(path)
    place = table.schema.names.index(name)
    pq.write_table(table.set_column(place, name, pa.array(change(table[name].to_pylist()))), path)


def drop(path, name):
    pq.write_table(pq.read_table(path).drop_columns([name]), path)


def repeat(path, name):
    table = pq.read_table(path)
    pq.write_table(table.append_column(name, table[name]), path)


def shorten(path, name):
    change_column(path, name, lambda values: [*values[:-1], None])


def other_type(path, name):
    change_column(path, name, lambda values: [str(value) if not isinstance(value, str) else 1.5 for value in values])


def not_finite(path, name):
    change_column(path, name, lambda values: [float("inf") if isinstance(values[0], float) else -7, *values[1:]])


def column_cases(folder):
    """Yield each damage of each column of each table: its name, the file and an act."""
    for path in sorted(folder.glob("*.parquet")):
        for field in pq.read_schema(path):
            acts = [drop, repeat, shorten, other_type]
            if not pa.types.is_dictionary(field.type) and not pa.types.is_large_string(field.type):
                acts.append(not_finite)
            for act in acts:
                yield (
                    f"{path.stem}.{field.name}: {act.__name__}",
                    path.name,
                    lambda file, act=act, name=field.name: act(file, name),
                )


def byte_cases(folder):
    """Yield damages of the bytes of each file: cut, empty, missing, and flipped bits."""
    rng = random.Random(5)
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and each.name != ".lock"):
        name = str(path.relative_to(folder))
        yield f"{name}: missing", name, lambda file: file.unlink()
        for kept in (0, 1, 8, path.stat().st_size // 2, path.stat().st_size - 1):
            yield f"{name}: {kept} bytes", name, lambda file, kept=kept: file.write_bytes(file.read_bytes()[:kept])
        for _ in range(12):
            bit = rng.randrange(8 * path.stat().st_size)
            yield f"{name}: bit {bit}", name, lambda file, bit=bit: flip(file, bit)


def flip(file, bit):
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(bytes(content))


def places_in(value, place=()):
    """Yield the place of each entry of nested mappings and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in items:
        yield (*place, key)
        yield from places_in(entry, (*place, key))


def document_cases(folder):
    """Yield wrong entries of the manifest, the summary and the scenario."""
    values = ("x", None, -1, [1], {"a": 1}, True, float("inf"))
    for name in ("manifest.json", "summary.json", "scenario.yaml"):
        content = YAML(typ="safe").load((folder / name).read_text())
        for text in ("[]", "3", "null", '{"a":', "NaN", '"x"', '{"status": "done"}'):
            yield f"{name}: {text}", name, lambda file, text=text: file.write_text(text)
        for number, place in enumerate(places_in(content)):
            for value in values[number % 2 :: 2]:
                yield f"{name}: {place} = {value}", name, lambda file, place=place, value=value: put(file, place, value)


def put(file, place, value):
    content = YAML(typ="safe").load(file.read_text())
    entry = content
    for key in place[:-1]:
        entry = entry[key]
    entry[place[-1]] = value
    file.write_text(json.dumps(content))


CASES = {"columns": column_cases, "bytes": byte_cases, "documents": document_cases}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_damage_never_causes_a_traceback(kind, intact, tmp_path):
    cases = list(CASES[kind](intact))
    assert len(cases) > 200
    for case, name, act in cases[len(kind) % EVERY :: EVERY]:
        folder = tmp_path / "run"
        shutil.copytree(intact, folder)
        act(folder / name)
        assert_no_traceback(folder, intact, case)
        shutil.rmtree(folder)


@pytest.mark.parametrize("act", [drop, repeat, shorten, other_type, not_finite])
def test_every_column_is_checked(act, intact, tmp_path):
    """A wrong column of a table is an error that names the file and the column."""
    exempt = {drop: HAVE_DEFAULTS, shorten: MAY_BE_EMPTY, not_finite: MAY_BE_INFINITE}.get(act, set())
    for case, name, damage in column_cases(intact):
        column, _, damage_name = case.partition(": ")
        is_declared = not column.startswith(("users.attempts", "users.class"))
        is_optional = act is drop and name == "users.parquet"
        if damage_name != act.__name__ or column in exempt or is_optional or not is_declared:
            continue
        file = tmp_path / name
        shutil.copy(intact / name, file)
        damage(file)
        (tmp_path / "manifest.json").write_bytes((intact / "manifest.json").read_bytes())
        with pytest.raises(MachineError, match=re.escape(f"{file} cannot be read: it is damaged (column ")) as error:
            netfl.open_run(tmp_path).table(file.stem)
        assert f"'{column.partition('.')[2]}'" in str(error.value), case


HAVE_DEFAULTS = {
    f"{table}.{column.name}" for table, columns in TABLES.items() for column in columns if column.default is not None
}
"""Columns that a file may lack."""
MAY_BE_INFINITE = {
    "events.value", "attempts.snr_db", "metrics.value", "final_metrics.value", "users.distance_m", "users.speed",
}  # fmt: skip
MAY_BE_EMPTY = MAY_BE_INFINITE | {"rounds.energy_J"} | {
    f"users.{name}" for name in ("x_m", "y_m", "tower", "node", "rank", "samples", "device")
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "column", "change", "problem"),
    [
        ("rounds", "round", lambda values: [*values[:-1], 9], "has 9 in place of 6 in replica 1"),
        ("users", "user", lambda values: [0, 2, *values[2:]], "has 2 in place of 1 in replica 0"),
        ("deliveries", "user", lambda values: [*values[:-1], 3], "has 3, but there are 3"),
        ("deliveries", "replica", lambda values: [*values[:-1], 2], "has 2, but there are 2"),
    ],
)
def test_numbers_are_checked(damaged, name, column, change, problem):
    change_column(damaged / f"{name}.parquet", column, change)
    with pytest.raises(
        MachineError, match=re.escape(f"{name}.parquet cannot be read: it is damaged (column '{column}' ")
    ) as e:
        netfl.open_run(damaged).table(name)
    assert problem in str(e.value)


@pytest.mark.parametrize(
    ("name", "place", "value", "problem"),
    [
        ("manifest.json", ("replicas",), "two", "replicas: should be a valid integer"),
        ("manifest.json", ("status",), "dome", "status: should be 'running', 'done', 'interrupted' or 'failed'"),
        ("manifest.json", ("timings", "total_s"), None, "timings.total_s: should be a valid number"),
        ("summary.json", ("simulated_s",), float("nan"), "simulated_s.*: should be a finite number"),
        ("scenario.yaml", ("users",), "3", "users: should be a valid integer"),
        ("scenario.yaml", ("access",), "x", "access: .*"),
        (
            "scenario.yaml",
            ("partition",),
            {"kind": "rare_classes", "classes": "nine"},
            "partition.classes: should be a list of whole numbers",
        ),
    ],
)
def test_documents_are_checked(damaged, name, place, value, problem):
    put(damaged / name, place, value)
    with pytest.raises(MachineError, match=rf"{name} cannot be read: it is damaged \({problem}"):
        getattr(netfl.open_run(damaged), name.partition(".")[0])


def test_flipped_bits_of_values_are_found_by_page_checksums(damaged):
    """Values are stored plainly here, so that without a checksum other numbers would be read."""
    path = damaged / "rounds.parquet"
    content = path.read_bytes()
    value = np.float64(netfl.open_run(damaged).rounds["closed_s"][0]).tobytes()
    at = content.index(value)
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with pytest.raises(MachineError, match=r"rounds\.parquet cannot be read: it is damaged \(.*(CRC|checksum)"):
        _ = netfl.open_run(damaged).rounds
    bad = [str(result) for result in verify_runs(damaged) if not result.good]
    assert len(bad) == 1
    assert "rounds.parquet: cannot be read" in bad[0]


def test_damaged_metadata_of_pandas_is_not_read(damaged):
    path = damaged / "nodes.parquet"
    nodes = netfl.open_run(damaged).nodes
    content = path.read_bytes()
    assert b'"index_columns": []' in content
    path.write_bytes(content.replace(b'"index_columns": []', b'"index_columns": [?'))
    assert netfl.open_run(damaged).nodes.equals(nodes)


def test_no_command_follows_links(damaged, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (damaged / "csv").symlink_to(precious)
    for words in (*COMMANDS, ("report", "DIR")):
        arguments = [word.replace("DIR", str(damaged)).replace("INTACT", str(damaged)) for word in words]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 2
        assert f"{damaged / 'csv'} is a link, but netfl does not follow links" in result.output.replace("\n", "")
    assert not list(precious.iterdir())
    with pytest.raises(ScenarioError, match="is a link"):
        netfl.open_run(damaged)


@pytest.mark.parametrize("name", ["rounds.parquet", "versions/A-0.safetensors", "new.part", ".lock", "report.html"])
def test_no_command_opens_a_named_pipe(name, damaged):
    """Opening one would wait for ever."""
    (damaged / name).unlink(missing_ok=True)
    os.mkfifo(damaged / name)
    for words in (("verify", "DIR"), ("export", "DIR", "--csv"), ("resume", "DIR"), ("report", "DIR")):
        result = CliRunner().invoke(app, [word.replace("DIR", str(damaged)) for word in words])
        assert result.exit_code == 2
        assert f"{damaged / name} is not a regular file; remove it" in result.output.replace("\n", "")


def test_an_older_folder_is_refused_by_name(damaged):
    put(damaged / "manifest.json", ("format",), 1)
    with pytest.raises(ScenarioError) as error:
        netfl.open_run(damaged)
    message = f"{damaged / 'manifest.json'}: format: older than 3, the format of folders that netfl"
    assert str(error.value).startswith(message)
    assert str(error.value).endswith(f"(1); convert the folder: python benchmarks/migrate.py {damaged}")
