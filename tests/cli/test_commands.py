"""The command line: output, exit codes, and errors without a traceback for invalid input."""

# ruff: noqa: E501 - each expected message is on one line

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from support.small_network import SECTION, as_yaml
from typer.testing import CliRunner

import netfl
from netfl import plots
from netfl.cli import app
from netfl.cli.views import print_columns
from netfl.core.family_members import base_of
from netfl.core.kinds import FAMILIES, list_kinds
from netfl.errors import MachineError, ScenarioError
from netfl.scenario.scenario import Scenario
from netfl.scenario.yaml_document import parse
from netfl.sweeps import LocalEngine

GOOD = """\
name: small
users: 3
rounds: 10
access:
  kind: stationary
  rho: [0.5, 0.4, 0.1]
"""
LEARNING = """\
data: {kind: blobs, centers: [[0, 0], [3, 3]], samples: 40}
partition: iid
model: logistic
learners:
  FedAvg: {objective: erm, aggregation: relay, lr: 0.1, batch_size: 4, local_steps: 1}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Run every test in its own folder with two scenarios."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "learning.yaml").write_text(GOOD + LEARNING)
    return tmp_path


def call(*words):
    """Return exit code and output of a command in this process; raise unexpected exceptions."""
    result = CliRunner().invoke(app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.output
    return result.exit_code, result.output


def run_process(*words, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "netfl", *words], capture_output=True, text=True, timeout=60, check=False, **kwargs
    )


class TestValidInput:
    def test_trace_prints_folder_and_summary(self):
        code, output = call("trace", "good.yaml", "--out", "here")
        assert code == 0
        assert output.splitlines()[0] == "small → here"
        assert "10 rounds in 10 s simulated · updates: 10 delivered, 18 superseded, 2 unfinished" in output
        assert output.splitlines()[-1].startswith("done in ")
        assert output.splitlines()[-1].endswith(": here")

    def test_quiet_prints_nothing(self):
        assert call("trace", "good.yaml", "--quiet") == (0, "")
        assert call("run", "learning.yaml", "-q", "--device", "cpu") == (0, "")
        assert Path("runs/small-001/manifest.json").exists()
        assert Path("runs/small-002/metrics.parquet").exists()

    def test_run_prints_learners(self):
        code, output = call("run", "learning.yaml", "--device", "cpu")
        assert code == 0
        assert "FedAvg" in output
        assert "accuracy" in output

    def test_options_change_the_scenario(self):
        words = ["--set", "rounds=4", "--set", "access.rho=[0.2, 0.2, 0.6]", "--set", "record=none", "--seed", "7"]
        assert call("trace", "good.yaml", "--out", "here", *words)[0] == 0
        run = netfl.open_run("here")
        assert (run.scenario["rounds"], run.scenario["access"]["rho"], run.scenario["seed"]) == (4, [0.2, 0.2, 0.6], 7)
        assert run.events.empty

    def test_override_blocks_are_applied(self, folder):
        (folder / "good.yaml").write_text(GOOD + "overrides: {short: {rounds: 2}}\n")
        assert call("trace", "good.yaml", "--override", "short", "--out", "here")[0] == 0
        assert len(netfl.open_run("here").rounds) == 2

    def test_check_estimates_every_file(self):
        code, output = call("check", "good.yaml", "learning.yaml")
        assert code == 0
        assert output.splitlines()[::2] == ["good.yaml: valid keys", "learning.yaml: valid keys"]
        pattern = r"  under 1 s of processor time \(.*, extrapolated from 10 rounds\) after the start of Python, 0\.15 GB of memory, 0\.\d+ MB of disk"
        assert re.fullmatch(pattern, output.splitlines()[1])
        assert not Path("runs").exists()

    def test_check_prints_what_needs_no_simulation_first(self, monkeypatch):
        """A dry run may take minutes; an error that it finds follows what is known before it."""
        steps = []
        monkeypatch.setattr("netfl.cli.inspect.echo", lambda text, **_: steps.append(text))

        def run_dry(scenario):
            steps.append("dry run")
            raise MachineError("no room")

        monkeypatch.setattr("netfl.simulation.dry_run.run_dry", run_dry)
        assert (
            call("check", "learning.yaml", "--set", "learners.FedAvg.objective={kind: cvar, alpha: 0.5, lr_t: 0.1}")[0]
            == 1
        )
        first, lift, *rest = steps
        assert first == "learning.yaml: valid keys"
        assert lift.startswith("  FedAvg (α = 0.5")
        assert rest == ["dry run", "no room"]

    def test_resume_finishes_a_run(self, folder):
        call("trace", "good.yaml", "--out", "here", "-q")
        manifest = json.loads((folder / "here/manifest.json").read_text())
        (folder / "here/manifest.json").write_text(json.dumps(manifest | {"status": "running"}))
        assert call("resume", "here", "-q") == (0, "")
        assert netfl.open_run("here").manifest["status"] == "done"

    def test_version_and_help(self):
        assert call("--version") == (0, f"netfl {netfl.__version__}\n")
        code, output = call("--help")
        assert code == 0
        for command in ("run", "trace", "check", "resume", "extend", "list", "report", "data"):
            assert command in output

    def test_list_shows_families_and_models(self):
        code, output = call("list")
        assert code == 0
        for family in FAMILIES:
            assert family in output
        code, output = call("list", "access")
        assert code == 0
        for kind in list_kinds(base_of("access")):
            assert kind in output
        code, output = call("list", "channel", "log_distance")
        assert code == 0
        assert "exponent" in output


@pytest.mark.parametrize("family", FAMILIES)
def test_list_shows_every_model(family):
    for kind in list_kinds(base_of(family)):
        code, output = call("list", family, kind)
        assert code == 0
        assert "Example" in output


def bad(name, content, message):
    return pytest.param(content, message, id=name)


BAD_FILES = [
    bad("missing", None, "bad.yaml: the file does not exist; did you mean 'good.yaml'?"),
    bad("empty", "", "bad.yaml: it is empty; start from a scenario of netfl: netfl scenarios"),
    bad("not YAML", "a: [", "bad.yaml:1:5: invalid YAML: while parsing a flow node from line 1 on: expected the node content, but found '<stream end>'; check indentation, colons, brackets and quotes"),
    bad("binary", b"\x89PNG\r\n\x1a\n\x00", "bad.yaml: not UTF-8 text: invalid start byte at byte 0; check that it is a YAML file"),
    bad("unknown key", GOOD + "usrs: 3\n", "bad.yaml:7: usrs: unknown key; did you mean 'users'?"),
    bad("wrong unit", GOOD + "  round_length: 5 kg\n", "bad.yaml:7: access.round_length: unknown unit: kg ('5 kg'); write a number in s, or a quantity such as '20 ms'"),
    bad("negative rate", GOOD.replace("0.1]", "-0.1]"), "bad.yaml:6: access.rho.2: should be greater than or equal to 0 (-0.1); write 0 or more"),
    bad("no sum of 1", GOOD.replace("0.1]", "0.4]"), "bad.yaml:6: access.rho: the rates sum to 1.3, not to 1 ([0.5, 0.4, 0.4]); divide each by their sum"),
    bad("no users", GOOD.replace("users: 3", "users: 0"), "bad.yaml:2: users: should be greater than or equal to 1 (0); write 1 or more"),
    bad("rho for others", GOOD.replace("users: 3", "users: 4"), "bad.yaml:6: access.rho: 3 rates for 4 users; give one for each user, or {zipf: 1.0}, or random_simplex"),
    bad("no data", GOOD.replace("small", "x") + "learners: {}\nmodel: logistic\n", "bad.yaml:8: model: has no effect without learners; add 'learners', or leave it out"),
    bad("no replay", GOOD.replace("stationary", "replay").replace("rho: [0.5, 0.4, 0.1]", "run: nowhere"), "bad.yaml:6: access.run: there is no folder {here}/nowhere; name the folder of a finished run"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BAD_FILES)
@pytest.mark.parametrize("command", ["run", "trace", "check"])
def test_invalid_file_is_reported_and_exits_with_2(folder, command, content, message):
    if content is not None:
        (folder / "bad.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert call(command, "bad.yaml") == (2, message.replace("{here}", str(Path.cwd())) + "\n")
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "usrs=5"], "--set usrs=5: usrs: unknown key; did you mean 'users'?"),
        (["--set", "users"], "--set: not of the form PATH=VALUE ('users'); write for example --set users=10"),
        (["--set", "=5"], "--set: not of the form PATH=VALUE ('=5'); write for example --set users=10"),
        (["--set", "users=[1"], "--set users: invalid YAML: while parsing a flow sequence from line 1 on: expected ',' or ']', but got '<stream end>'; check indentation, colons, brackets and quotes"),
        (["--set", "access.rho.9=1"], "--set access.rho.9=1: access.rho.9: no such entry in a list of 3 ('9'); entries are counted from 0"),
        (["--set", "access.round_length=3 kg"], "--set 'access.round_length=3 kg': access.round_length: unknown unit: kg ('3 kg'); write a number in s, or a quantity such as '20 ms'"),
        (["--override", "x"], "good.yaml: overrides: no such block ('x'); known: none"),
        (["--out", "."], "--out: . already exists and is not empty; use another folder, or give none for a new one"),
        (["--out", "good.yaml"], "--out: good.yaml is a file; use another folder, or give none for a new one"),
    ],
)  # fmt: skip
def test_invalid_option_is_reported_and_exits_with_2(words, message):
    assert call("trace", "good.yaml", *words) == (2, message + "\n")
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    "words",
    [["trace", "good.yaml", "--seed", "-1"], ["trace", "good.yaml", "--seed", "x"], ["trace"], ["trac", "good.yaml"], ["run", "good.yaml", "--nope"]],
)  # fmt: skip
def test_usage_error_exits_with_2(words):
    assert call(*words)[0] == 2


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["run", "good.yaml", "--replica", "3"], "--set replicas=VALUE?"),
        (["run", "--replica", "3", "good.yaml", "-q"], "--set replicas=VALUE?"),
        (["check", "good.yaml", "--rounds=5"], "--set rounds=VALUE?"),
        (["sweep", "good.yaml", "--users", "--quiet"], "--set users=VALUE?"),
        (["trace", "good.yaml", "--learner"], "--set learners=VALUE?"),
    ],
)
def test_scenario_key_as_option_gets_a_suggestion(words, hint):
    code, output = call(*words)
    assert code == 2
    option = next(word for word in words if word[:2] == "--").partition("=")[0]
    assert output == f"netfl {words[0]}: no such option: {option}; did you mean {hint}\n"


def test_all_scenario_keys_and_no_others_are_suggested(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for words in (["resume", "here", "--replica", "3"], ["run", "good.yaml", "--nope", "3"]):
        assert "--set replicas" not in call(*words)[1]
    for key in Scenario.model_fields.keys() - {"seed"}:
        assert f"did you mean --set {key}=VALUE?" in call("run", "x", f"--{key}x", "3")[1]
    output = call("sweep", "x", "--seeds", "3")[1]
    assert "did you mean --seed?" in output, "an option of the command comes first"
    assert "--set seed" not in output
    assert "--set overrides" not in call("run", "x", "--overide", "3")[1], "--override is nearer"
    assert "--set tempo=3" not in call("run", "x", "--tempos", "3")[1]
    monkeypatch.setitem(Scenario.model_fields, "tempo", Scenario.model_fields["seed"])
    assert "did you mean --set tempo=VALUE?" in call("run", "x", "--tempos", "3")[1], "the keys are those of Scenario"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "good.yaml", "--device", "gpu"], "--device: no such device ('gpu'); write auto, cpu, cuda or cuda:N"),
        (["resume", "nowhere"], "nowhere is not a run directory: it does not exist; give a folder that netfl wrote"),
        (["report", "nowhere"], "nowhere is not a run directory: it does not exist; give a folder that netfl wrote"),
        (["list", "acess"], "no such family ('acess'); did you mean 'access'?"),
        (["list", "access", "bernouli"], "no such access: 'bernouli'; did you mean 'bernoulli'?"),
        (["list", "access", "x:Y"], "'x:Y' cannot be imported: there is no module 'x'; run in its folder, install its package, or add its folder to PYTHONPATH"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_reported_and_exit_with_2(words, message):
    assert call(*words) == (2, message + "\n")


def test_check_reports_errors_of_all_files(folder):
    (folder / "one.yaml").write_text(GOOD.replace("users", "usrs"))
    (folder / "two.yaml").write_text(GOOD.replace("stationary", "x"))
    code, output = call("check", "one.yaml", "good.yaml", "two.yaml", "no.yaml")
    assert code == 2
    assert "good.yaml: valid keys" in output
    assert [line.split(":")[0] for line in output.splitlines() if ".yaml" in line and "good" not in line] == [
        "one.yaml",
        "two.yaml",
        "no.yaml",
    ]


def test_resuming_a_finished_run_exits_with_2():
    call("trace", "good.yaml", "--out", "here", "-q")
    assert call("resume", "here") == (2, "the run in here is finished; use netfl extend to add replicas\n")


@pytest.mark.parametrize("content", ["", "{", "[]x", "5"])
def test_damaged_manifest_exits_with_1(folder, content):
    (folder / "here").mkdir()
    (folder / "here/manifest.json").write_text(content)
    code, output = call("resume", "here")
    assert code == 1
    assert output.startswith("here/manifest.json cannot be read: it is damaged (")
    assert output.endswith("); restore it from a copy, or repeat the run that wrote it\n")


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["check", "good.yaml"], "netfl.simulation.dry_run.run_dry"),
        (["run", "learning.yaml", "--out", "here", "-q"], "netfl.simulation.run.prepare_run"),
        (["ram", "good.yaml"], "netfl.diagnosis.reading.read_participation"),
        (["report", "good.yaml"], "netfl.results.run_reader.open_run"),
    ],
)
def test_interruption_without_a_run_has_no_remedy(monkeypatch, words, place):
    monkeypatch.setattr(place, interrupt)
    code, output = call(*words)
    assert (code, output.removeprefix("good.yaml: valid keys\n")) == (130, "stopped\n")
    assert not Path("here").exists()


@pytest.mark.parametrize("command", ["run", "trace"])
def test_immediate_interruption_prints_the_command_to_continue(monkeypatch, command):
    with monkeypatch.context() as patch:
        patch.setattr("netfl.simulation.progress.ProgressDisplay.on_round", interrupt)
        code, output = call(command, "learning.yaml", "--out", "here", "-q")
    newest = "there is no checkpoint yet; " if command == "run" else ""
    assert (code, output) == (130, f"stopped; {newest}continue with: netfl resume here\n")
    assert netfl.resume("here", device="cpu").status == "done"


@pytest.mark.parametrize("out", ["good.yaml/run", "/proc/netfl-run", "x" * 300])
def test_unwritable_folder_exits_with_1(out):
    code, output = call("trace", "good.yaml", "--out", out)
    assert code == 1
    assert output.startswith(f"cannot write a run into {out}: ")
    assert len(output.splitlines()) == 1


@pytest.mark.slow
def test_full_disk_exits_with_1_and_leaves_no_complete_table(folder):
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)); from netfl.cli import main; main()"
    words = ["trace", "good.yaml", "--out", "here", "--set", "rounds=100000", "--set", "record=all"]
    process_ = subprocess.run(
        [sys.executable, "-c", limited, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert process_.returncode == 1
    assert "Traceback" not in process_.stderr
    assert process_.stderr.startswith("cannot write here: ")
    assert sorted(path.name for path in Path("here").glob("*.parquet")) == ["users.parquet"]
    assert netfl.open_run("here").manifest["status"] in {"failed", "running"}


@pytest.mark.slow
def test_failing_user_model_is_located(folder):
    (folder / "mine.py").write_text(
        "from netfl.access.stationary import Stationary\n"
        "class Mine(Stationary):\n"
        "    def candidates(self, context, limit=None):\n"
        "        yield from list(super().candidates(context, limit))[:4]\n"
        "        raise LookupError('no more luck')\n"
    )
    environment = os.environ | {"PYTHONPATH": str(folder)}
    process_ = run_process("trace", "good.yaml", "--set", "access.kind='mine:Mine'", "--out", "here", env=environment)
    assert process_.returncode == 1
    assert "mine.py" in process_.stderr
    problem = "its method 'candidates' fails: LookupError: no more luck (mine.py, line 5)"
    assert process_.stderr.splitlines()[-1] == f"mine:Mine, at 4 s of simulated time: {problem}"
    assert len(netfl.open_run("here").rounds) == 4


@pytest.mark.parametrize("command", ["check", "trace", "run"])
def test_error_of_node_layout_is_located(folder, command):
    topology = {"kind": "random_geometric", "routers": 4, "towers": 2, "side": "1 km", "max_distance": "1 m"}
    access = SECTION | {"topology": topology}
    (folder / "laid.yaml").write_text(as_yaml({**parse(GOOD + LEARNING, "good.yaml"), "access": access}))
    line = 1 + [text.strip() for text in (folder / "laid.yaml").read_text().splitlines()].index("max_distance: 1 m")
    code, output = call(command, "laid.yaml")
    assert code == 2
    assert output.splitlines()[-1].startswith(
        f"laid.yaml:{line}: access.topology.max_distance: no path of routers connects tower:"
    )


BETWEEN = ("__exit__", "report_outcome", "note_continuation")
"""Functions at whose entry, for some bytecodes, no context notes how to continue a run that was stopped."""


@pytest.fixture
def interrupt_at_call(monkeypatch):
    """Return a function: call a command whose run stops at round 2, and interrupt it again at a later call of netfl.

    It returns the number of calls of functions of netfl from the stop on, and the code and output of the command.
    """

    def run_command(place, *words):
        calls = 0

        def count_calls(frame, event, _):
            nonlocal calls
            is_counted = frame.f_globals["__name__"].startswith("netfl.") and frame.f_code.co_name not in BETWEEN
            if event == "call" and is_counted:
                calls += 1
                if calls == place:
                    sys.setprofile(None)

                    signal.raise_signal(signal.SIGINT)

        def stop(self, progress):
            if progress.round == 2:
                self.stop = True
                sys.setprofile(count_calls)

        monkeypatch.setattr("netfl.simulation.progress.ProgressDisplay.on_round", stop)
        try:
            outcome = call(*words)
            return calls, *outcome
        finally:
            sys.setprofile(None)

    return run_command


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of an interrupted finalizer
def test_second_interruption_anywhere_names_the_command_that_continues(interrupt_at_call, folder):
    words = ["run", "learning.yaml", "--out", "here", "--set", "rounds=1000"]
    calls, code, output = interrupt_at_call(None, *words)
    assert output.endswith("interrupted after round 2 of 1000; continue with: netfl resume here\n")
    for place in {int(calls ** (step / 40)) for step in range(41)}:
        shutil.rmtree(folder / "here")
        _, code, output = interrupt_at_call(place, *words)
        assert code == 130
        assert re.fullmatch(
            r"stopped; (the newest checkpoint is of round 2; |there is no checkpoint yet; )?"
            r"continue with: netfl resume here"
            r"|interrupted after round 2 of 1000; continue with: netfl resume here",
            output.splitlines()[-1],
        ), place


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_second_interruption_of_an_extension_names_the_command_that_continues(interrupt_at_call):
    call("run", "learning.yaml", "--out", "here", "-q")
    words = ["extend", "here", "--replicas", "2"]
    remedy = "continue with: netfl extend here --replicas 2"
    calls, _, output = interrupt_at_call(None, *words)
    assert output.endswith(f"interrupted with 1 of 2 replicas; {remedy}\n")
    for place in {int(calls ** (step / 20)) for step in range(21)}:
        _, code, output = interrupt_at_call(place, *words)
        assert code == 130
        assert output.splitlines()[-1].endswith(f"; {remedy}"), place


@pytest.mark.parametrize("command", ["run", "trace"])
def test_stopped_run_with_an_open_number_of_rounds_names_its_round(interrupt_at_call, folder, command):
    document = parse(GOOD + LEARNING, "good.yaml")
    del document["rounds"]
    (folder / "open.yaml").write_text(as_yaml({**document, "access": SECTION, "duration": "1000 s"}))
    _, code, output = interrupt_at_call(None, command, "open.yaml", "--out", "here")
    assert code == 130
    assert output.endswith("interrupted after round 2; continue with: netfl resume here\n")


@pytest.mark.slow
def test_second_interruption_names_the_newest_checkpoint():
    changes = ["checkpoint={rounds: 1}", "rounds=1000000", "learners.FedAvg.local_steps=100"]
    words = [sys.executable, "-m", "netfl", "run", "learning.yaml", "--out", "here", "--device", "cpu"]
    words += [word for change in changes for word in ("--set", change)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().endswith("→ here\n")
        while not Path("here/checkpoint.pt").exists() and process.poll() is None:
            time.sleep(0.05)
        for _ in range(2):  # the first asks to stop after the round, the second ends it
            process.send_signal(signal.SIGINT)
            time.sleep(0.01)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.fullmatch(
        r"stopped; (the newest checkpoint is of round [1-9]\d*; )?continue with: netfl resume here\n"
        r"|interrupted after round [1-9]\d* of 1000000; continue with: netfl resume here\n",
        errors,
    )


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_tables_are_readable_after_a_signal(signal_number):
    words = [sys.executable, "-m", "netfl", "trace", "good.yaml", "--set", "rounds=100000000", "--out", "here"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "small → here\n"
        process.send_signal(signal_number)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    run = netfl.open_run("here")
    assert errors == (
        f"interrupted after round {run.manifest['rounds_done']} of 100000000; continue with: netfl resume here\n"
    )
    assert run.manifest["status"] == "interrupted"
    assert "interrupted" not in output
    assert len(run.rounds) == len(run.deliveries) == run.manifest["rounds_done"]
    assert not list(run.folder.glob("*.part"))


@pytest.mark.parametrize(
    ("had_report", "words", "has_report"), [(True, [], True), (False, ["--report"], True), (False, [], False)]
)
@pytest.mark.parametrize("command", ["resume", "extend"])
@pytest.mark.slow
def test_continued_run_updates_its_report(monkeypatch, command, had_report, words, has_report):
    from netfl.simulation.progress import ProgressDisplay

    with monkeypatch.context() as patch:
        if command == "resume":
            patch.setattr(
                ProgressDisplay, "on_round", lambda self, progress: setattr(self, "stop", progress.round >= 4)
            )
        code, _ = call("run", "learning.yaml", "--out", "here", *["--report"] * had_report)
    assert code == (130 if command == "resume" else 0)
    pages = Path("here")
    assert (pages / "report.html").exists() == had_report
    result = call(command, "here", *words, *(["--replicas", "2"] if command == "extend" else []))
    assert result[0] == 0
    assert ("report:  " in result[1]) == has_report
    assert [(pages / name).exists() for name in ("report.html", "overview.png")] == [has_report, has_report]
    if has_report:
        assert "This run is not finished" not in (pages / "report.html").read_text(encoding="utf-8")


def test_targets_and_choices_are_printed(folder):
    learner = "{objective: erm, aggregation: relay, lr: 0.05, batch_size: 4, local_steps: 1}"
    evaluate = "{every: 2, validation: 0.2, targets: [0.01, 1], choose: {own: {learners: [FedAvg, slow], per: user}}}"
    (folder / "targets.yaml").write_text(f"{GOOD}{LEARNING}  slow: {learner}\nevaluate: {evaluate}\n")
    code, output = call("run", "targets.yaml", "--out", "here")
    assert code == 0
    assert "choices: last round" in " ".join(output.split())
    table = output[output.index("first evaluation with a test accuracy of") :]
    assert [line.split()[0] for line in table.splitlines() if "round " in line] == ["FedAvg", "slow", "own"]
    summary = netfl.open_run("here").summary
    assert "own.accuracy.last_round" in summary
    assert not [name for name in summary if name.startswith("own.") and "last_tenth" in name]
    assert "FedAvg.accuracy.last_tenth" in summary


@pytest.mark.slow
def test_unwritable_report_exits_with_1():
    assert call("trace", "good.yaml", "--out", "run", "--quiet")[0] == 0
    code, output = call("report", "run", "--out", "nowhere/report.html")
    assert (code, output.splitlines()[-1]) == (
        1, "cannot write the report: nowhere/report.html.part: No such file or directory; "
        "create the folder nowhere, or name another file"
    )  # fmt: skip
    code, output = call("report", "run", "--out", "x" * 300)
    assert (code, output.splitlines()[-1].rpartition(": ")[2]) == (1, "File name too long; use a shorter name")


def test_check_validates_override_blocks():
    text = Path("good.yaml").read_text() + "\noverrides: {wrong: {rounds: 0}, right: {rounds: 2}}\n"
    Path("blocks.yaml").write_text(text)
    code, output = call("check", "blocks.yaml", "good.yaml")
    assert code == 2
    assert "rounds: should be greater than or equal to 1 (0)" in output
    assert "good.yaml: valid keys" in output
    assert call("check", "good.yaml", "--seed", "4")[0] == 0


def test_missing_cuda_device_is_reported():
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    main = Path(__file__).parents[2] / "scenarios/paper/fig2a.yaml"
    code, output = call("run", str(main), "--device", "cuda", "--out", "run")
    assert (code, output.splitlines()[-1]) == (
        2, "--device: this machine has no CUDA device ('cuda'); write cpu or auto"
    )  # fmt: skip
    assert not Path("run").exists()


def test_list_shows_nested_keys():
    assert "down.distribution" in call("list", "outage", "renewal")[1]
    assert "compute.speed" in call("list", "access", "network")[1]
    assert "learners.NAME.lr" in call("list", "scenario")[1]


@pytest.mark.parametrize("place", ["lr:0.1", "50% ä/x y", "s3:/x", "a#b?c[1]*"])
@pytest.mark.slow
def test_folder_may_have_any_name(place):
    """A relative path with a colon is an address for pyarrow."""
    assert call("trace", "good.yaml", "--out", place, "-q") == (0, "")
    assert len(netfl.open_run(place).rounds) == 10
    assert call("extend", place, "--replicas", "2", "-q") == (0, "")
    assert call("export", place, "--csv", "--perfetto", "--availability", f"{place}/a.csv", "--rounds")[0] == 0
    assert call("verify", place)[0] == 0
    assert call("ram", f"{place}/csv/deliveries.csv", "--json")[0] == 0
    (Path("good.yaml")).write_text(GOOD + "sweep: {seed: [1, 2]}\n")
    assert call("sweep", "good.yaml", "--out", f"{place} swept", "--workers", "1", "-q") == (0, "")
    assert len(netfl.open_sweep(f"{place} swept").rounds) == 20


ADDRESSES = ["s3://bucket/x", "gs://b", "file:///tmp/x"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_address_instead_of_folder_is_reported(folder, address):
    scheme = address.partition(":")[0]
    expected = f"an address ({scheme}://) instead of a local path ('{address}'); give a path on this machine\n"
    for words in (
        ["run", "good.yaml", "--out", address],
        ["check", address],
        ["report", address],
        ["export", address, "--csv"],
    ):
        code, output = call(*words)
        assert code == 2
        assert output.endswith(expected)
    for function in (netfl.open_run, netfl.open_sweep, netfl.load, lambda out: netfl.run(netfl.load("good.yaml"), out)):
        with pytest.raises(ScenarioError, match="an address"):
            function(address)
    assert sorted(file.name for file in folder.iterdir()) == ["good.yaml", "learning.yaml"]


def test_metrics_are_complete_on_a_narrow_terminal():
    keys = {f"access.radio.a_long_key_{number}": ["0.1", "a long value of a key"] for number in range(5)}
    columns = {"fedavg\naccuracy": ["81.2 ± 2.1", "70.1 ± 0.3"], "fedavg\nloss": ["0.1", "0.2"]}
    output = StringIO()
    print_columns(Console(width=80, file=output), keys, columns)
    shown = output.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    assert all(word in shown for word in ("accuracy", "81.2 ± 2.1", "70.1 ± 0.3", "loss", "0.2"))


@pytest.mark.parametrize("words", [["run", "learning.yaml"], ["sweep", "good.yaml"]])
def test_no_workers_is_an_error_of_one_line(words):
    code, output = call(*words, "--workers", "0", "--out", "here", "-q")
    assert (code, output) == (2, "--workers: not a number of processes (0); write a whole number from 1 on\n")
    assert not Path("here").exists()


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", True])
def test_no_workers_of_python_is_an_error(workers):
    with pytest.raises(ScenarioError, match="workers: not a number of processes"):
        netfl.run("learning.yaml", "here", workers=workers)
    with pytest.raises(ScenarioError, match="workers: not a number of processes"):
        LocalEngine(workers)
    assert not Path("here").exists()


@pytest.mark.slow
def test_unknown_metric_and_missing_folder_are_errors_of_one_line():
    run = netfl.run("learning.yaml", "here", device="cpu")
    code, output = call("report", "here", "--latex", "missing/table.tex")
    assert code == 2
    assert output.startswith("--latex: cannot be written: its folder does not exist ('missing/table.tex'); ")
    with pytest.raises(ScenarioError, match=r"metric: no run has this metric \('acuracy'\); did you mean 'accuracy'\?"):
        netfl.compare(run, "acuracy")
    with pytest.raises(ValueError, match="no learner has the metric 'acuracy'; did you mean 'accuracy'"):
        plots.curves(run.metrics, "acuracy")
