"""Errors of the system, at any operation on a file of any command: one located line, and a remedy that works."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.disk_faults import FileErrors
from support.restarted_runs import a_scenario
from support.stop_run import StopAfter
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import MachineError, ScenarioError
from netfl.results.digests import signed

ERRORS = ("EACCES", "ENOSPC", "ENAMETOOLONG", "EROFS", "EISDIR", "ENOTDIR", "ELOOP")
QUICK = {
    "trace": "trace DIR/s.yaml --out DIR/new -q",
    "extend": "extend DIR/done --replicas 2 -q --device cpu",
    "csv": "export DIR/done --csv",
    "ram table": "ram DIR/t.csv --users 3",
    "verify": "verify DIR/done",
    "check": "check DIR/s.yaml",
    "new": "new mac my_mac --out DIR/models",
}
SLOW = {
    "run": "run DIR/s.yaml --out DIR/new -q --device cpu",
    "tuned run": "run DIR/tuned.yaml --out DIR/new -q --device cpu",
    "resume": "resume DIR/stopped -q --device cpu",
    "report": "report DIR/done",
    "page": "report DIR/done DIR/twin --out DIR/x.html",
    "latex": "report DIR/done DIR/twin --out DIR/x.html --latex DIR/x.tex",
    "perfetto": "export DIR/done --perfetto",
    "availability": "export DIR/done --availability DIR/a.csv",
    "positions": "export DIR/done --positions",
    "verify two": "verify DIR/done DIR/twin",
    "ram": "ram DIR/done",
    "explain": "ram DIR/done --explain",
    "sweep": "sweep DIR/swept.yaml --out DIR/sweep --trace -q",
    "sweep report": "report DIR/finished",
}
_REMEDY = re.compile(r"(?:with:|finish it:) (netfl (?:resume|extend|verify) [^;'\n]*?)\.?$", re.MULTILINE)
"""A command that an error names."""


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A folder with runs, done and stopped, and scenarios."""
    folder = tmp_path_factory.mktemp("intact")
    netfl.run(a_scenario(), folder / "done", device="cpu")
    shutil.copytree(folder / "done", folder / "twin")
    netfl.run(a_scenario(), folder / "stopped", device="cpu", observer=StopAfter(2))
    (folder / "s.yaml").write_text(a_scenario(rounds=2).to_yaml())
    (folder / "swept.yaml").write_text(f"{a_scenario(rounds=2).to_yaml()}\nsweep: {{seed: [1, 2]}}\n")
    tuning = {"by": "loss", "trials": 3, "replicas": 1}
    tuned = a_scenario(rounds=2, tuning=tuning, evaluate={"every": 1, "validation": 0.2})
    (folder / "tuned.yaml").write_text(tuned.to_yaml())
    netfl.open_run(folder / "done").deliveries[["round", "user"]].to_csv(folder / "t.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def with_sweep(intact):
    """The folder of `intact` with a finished sweep."""
    call(f"sweep {intact}/swept.yaml --out {intact}/finished --trace -q")
    return intact


@pytest.fixture
def place(tmp_path):
    """Where the folder of `intact` is copied to for each operation that fails."""
    return tmp_path / "place"


def call(words):
    return CliRunner().invoke(app, words.split())


def call_with(intact, place, words, name, point=None):
    """Return the result of a command on a fresh copy of *intact*, whose operation *point* fails, and the operations."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(intact, place)
    with FileErrors(place, getattr(errno, name), point).watched() as disk:
        result = call(words.replace("DIR", str(place)))
    return result, disk.operations


def assert_located(place, result, name, case):
    """Check that a failed command prints its error in one line that names a path, and that its remedy works."""
    assert result.exception is None or isinstance(result.exception, SystemExit), case
    if result.exit_code == 0:
        return
    assert result.exit_code in {1, 2}, case
    assert "Traceback" not in result.output, case
    assert "None" not in result.stderr, case
    error = (result.stderr or result.output).strip().splitlines()[-1]
    if "do not agree" not in result.stdout:  # the lines of `verify` name the file
        assert str(place) in error or ".yaml" in error or ".csv" in error, case
        assert re.search(r"; |\. Fix this|\. To start", error), case  # what helps
    can_be_another_reason = name in {"ENOTDIR", "ELOOP"}  # a path that does not exist
    assert os.strerror(getattr(errno, name)) in result.output or can_be_another_reason, case
    for remedy in _REMEDY.findall(result.output):
        tried = call(remedy.removeprefix("netfl "))
        assert tried.exit_code == 0, f"{case}: {remedy}: {tried.output}"


def check_errors(intact, place, words, name):
    reference, operations = call_with(intact, place, words, name)
    assert reference.exit_code == 0, reference.output
    count = len(operations)
    if not count:  # a command that only reads, on a full disk
        return
    for point in sorted({0, 1, 2, count // 2, count - 2, count - 1} & {*range(count)}):
        result, done = call_with(intact, place, words, name, point)
        at = done[point] if point < len(done) else "not reached"
        assert_located(place, result, name, f"{name} at {point} of {count}, {at}: {words}: {result.output}")


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("words", QUICK.values(), ids=QUICK.keys())
@pytest.mark.quick_first
def test_error_of_the_system_is_one_located_line(intact, place, words, name):
    check_errors(intact, place, words, name)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("command", SLOW)
def test_error_of_the_system_in_a_longer_command_is_one_located_line(with_sweep, place, command):
    """The commands above meet all errors; these meet two of them, in turn."""
    name = ERRORS[[*SLOW].index(command) % 2]
    check_errors(with_sweep, place, SLOW[command], name)


def sign(folder, **entries):
    """Write *entries* into a manifest, with its digest."""
    path = folder / "manifest.json"
    path.write_text(json.dumps(signed(json.loads(path.read_text()) | entries)))


OUTSIDE = {
    "parent": "../outside.json",
    "deep": "versions/../../outside.json",
    "absolute": "ABSOLUTE",
    "long": "a" * 300 + ".json",
    "long part": "versions/" + "a" * 300,
    "none": "",
    "dot": ".",
    "backslash": "..\\outside.json",
    "nul": "a\0b",
    "surrogate": "\ud800",
}


@pytest.mark.parametrize("entry", ["files", "digests"])
@pytest.mark.parametrize("file", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_manifest_names_only_files_of_its_run(intact, place, entry, file):
    shutil.copytree(intact / "done", place)
    outside = place.parent / "outside.json"
    outside.write_text("{}")
    file = file.replace("ABSOLUTE", str(outside))
    sign(place, **{entry: {file: "0" * 32}})
    for words in ("verify", "extend --replicas 2", "export --csv", "resume"):
        command, *options = words.split()
        result = CliRunner().invoke(app, [command, str(place), *options])
        assert result.exit_code == 1, (words, result.output)
        error = f"{place}/manifest.json cannot be read: it is damaged ({entry}."
        assert result.output.startswith(error), result.output
        assert "is not the name of a file in the folder of a run" in result.output
        assert len(result.output) < 1000


def test_links_at_any_depth_of_a_run_are_refused(intact, place):
    shutil.copytree(intact / "done", place)
    outside = place.parent / "outside"
    outside.write_text("x")
    deep = place / "extension" / "merged" / "versions"
    deep.mkdir(parents=True)
    (deep / "A-0.safetensors").symlink_to(outside)
    for words in ("verify", "extend --replicas 2 -q", "export --csv", "ram"):
        command, *options = words.split()
        result = CliRunner().invoke(app, [command, str(place), *options])
        assert result.exit_code == 2, (words, result.output)
        assert result.output.startswith(f"{deep}/A-0.safetensors is a link, but netfl does not follow links")


@pytest.mark.slow
def test_index_of_a_sweep_names_only_its_tasks(with_sweep, place):
    shutil.copytree(with_sweep / "finished", place)
    index = json.loads((place / "sweep.json").read_text())
    task = next(iter(index["tasks"].values()))
    for outside in ("x/../../../done", "a" * 300):
        (place / "sweep.json").write_text(json.dumps(index | {"tasks": {**index["tasks"], outside: task}}))
        with pytest.raises(
            MachineError, match=r"sweep\.json cannot be read: it is damaged \(tasks.*is not the key of a task"
        ):
            netfl.open_sweep(place)


def test_learner_of_another_folder_has_no_versions(intact):
    run = netfl.open_run(intact / "done")
    for learner in ("../versions/A", "a" * 300):
        with pytest.raises(ScenarioError, match="does not exist; finish a run with record"):
            run.versions(learner)


COMMANDS_ON_RUNS = (
    "verify DIR", "extend DIR --replicas 2", "resume DIR", "report DIR", "ram DIR", "ram DIR --explain",
    "export DIR --csv", "run DIR/s.yaml --out DIR/new", "sweep DIR/s.yaml --out DIR/new", "check DIR/s.yaml",
    "report DIR DIR", "export DIR --positions", "trace DIR/s.yaml --out DIR/new", "new mac my_mac --out DIR",
)  # fmt: skip
_OTHER_USER = 65534


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may become another user")
def test_folder_without_permissions_is_one_line(intact, request):
    temporary = tempfile.TemporaryDirectory()  # within folders that another user may enter, unlike those of pytest
    request.addfinalizer(temporary.cleanup)
    base = Path(temporary.name)
    base.chmod(0o755)
    folder = base / "run"
    shutil.copytree(intact / "done", folder)
    folder.chmod(0)
    os.chown(folder, _OTHER_USER, _OTHER_USER)
    lines = [words.replace("DIR", str(folder)).split() for words in COMMANDS_ON_RUNS]
    code = (
        "import json, os, sys\n"
        "from typer.testing import CliRunner\n"
        "from netfl.cli import app\n"
        "import netfl.sweeps, netfl.report, netfl.simulation.extend, netfl.cli.views.explanation\n"
        f"os.chdir({str(base)!r}); os.setgid({_OTHER_USER}); os.setuid({_OTHER_USER})\n"
        f"for words in {lines!r}:\n"
        "    result = CliRunner().invoke(app, words)\n"
        "    print(json.dumps([words, result.exit_code, result.output, repr(result.exception)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    outputs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outputs) == len(lines)
    for words, exit_code, output, exception in outputs:
        assert exit_code in {1, 2}, (words, output)
        assert exception.startswith("SystemExit"), (words, exception)
        assert len(output.strip().splitlines()) == 1, (words, output)
        assert str(folder) in output, (words, output)
        assert os.strerror(errno.EACCES) in output, (words, output)
        assert "netfl resume" not in output, (words, output)
        assert not re.search(f"{re.escape(str(folder))}/(?!new|s.yaml)", output), (words, output)  # no file in it
        assert ";" in output, (words, output)  # a remedy


def test_long_names_are_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = a_scenario(rounds=2).to_yaml()
    (tmp_path / "s.yaml").write_text(text)
    name = "a" * 300
    for words in (
        f"verify {name}", f"resume {name}", f"extend {name} --replicas 2", f"report {name}", f"ram {name}",
        f"export {name} --csv", f"check {name}", f"run {name}", f"run s.yaml --out {name}",
        f"trace s.yaml --out {name}", f"sweep s.yaml --set sweep.seed=[1,2] --out {name}", f"new mac {name}",
        f"new mac my_mac --out {name}", f"scenarios {name}", f"trace s.yaml --set name={name}",
    ):  # fmt: skip
        result = call(words)
        assert result.exception is None or isinstance(result.exception, SystemExit), words
        assert result.exit_code in {1, 2}, words
        assert len(result.output.strip().splitlines()) == 1, (words, result.output)
        assert "a" * 20 in result.output, (words, result.output)
        assert "resume" not in result.output.replace("aaa", ""), (words, result.output)
