"""Sweeps as jobs: submitit's local executor runs the same jobs as processes of this machine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import slow_access
from support.inline_sweep_engine import Here
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import MachineError
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.sweeps import SweepObserver
from netfl.sweeps.slurm_engine import SlurmEngine, SlurmOptions

submitit = pytest.importorskip("submitit", reason="netfl-sim[slurm] is not installed")
pytestmark = [pytest.mark.extra, pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")]
TABLES = ("metrics", "final_metrics", "rounds", "deliveries", "events", "users")
SLOW = {"kind": "support.slow_access:Slow", "pause": 0.05}


@pytest.fixture(autouse=True)
def jobs_find_the_tests(monkeypatch, tmp_path):
    """Let jobs import netfl and the models of the tests, and wait less for the results of killed jobs."""
    tests = Path(slow_access.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tests.parent), str(tests)]))
    monkeypatch.setattr(submitit.Job, "_results_timeout_s", 1)
    monkeypatch.chdir(tmp_path)


def scenario(sweep, access=SLOW, **changes):
    content = {"name": "jobs", "users": 4, "rounds": 8, "access": access, "sweep": sweep, **changes}
    return validate(ScenarioDocument(content, "jobs"))


def engine(workers=2, **options):
    return SlurmEngine(SlurmOptions(workers=workers), cluster="local", **options)


class Acting(SweepObserver):
    """Call *action* once, when a task has reached round *after*; record all updates."""

    def __init__(self, action=None, after=1):
        self.stop, self.updates, self._action, self._after = False, [], action, after

    def on_update(self, update):
        self.updates.append(update)
        if self._action is not None and update.round >= self._after:
            action, self._action = self._action, None
            action(self, update)


def stop(observer, update):
    observer.stop = True


def processes(text):
    """Return the processes whose command line or environment contains *text*, but not this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            content = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in content and int(path.name) != os.getpid():
            found.append(int(path.name))
    return found


def test_jobs_equal_this_process(tmp_path):
    swept = netfl.sweep(scenario({"seed": [1, 2, 3]}), tmp_path / "s", engine=engine(), observer=(observer := Acting()))
    expected = netfl.sweep(scenario({"seed": [1, 2, 3]}), tmp_path / "t", engine=Here())
    assert swept.status == "done"
    for name in TABLES:
        assert swept.table(name).equals(expected.table(name)), name
    assert [update.ended for update in observer.updates].count(True) == 3
    assert {update.rounds for update in observer.updates} >= {8}  # the progress is read
    assert sorted(path.suffix for path in (tmp_path / "s/slurm").iterdir() if path.suffix == ".jsonl") == []


def test_a_stopped_sweep_continues(tmp_path):
    long = scenario({"seed": [1, 2, 3]}, rounds=200)
    stopped = netfl.sweep(long, tmp_path / "s", engine=engine(1), observer=Acting(stop, after=5))
    assert stopped.tasks["status"].tolist() == ["interrupted", "missing", "missing"]
    short = scenario({"seed": [1, 2, 3]}, rounds=200, access=SLOW | {"pause": 0.0})
    again = netfl.sweep(long, tmp_path / "s", engine=engine(3), observer=(observer := Acting()))
    assert again.status == "done"
    assert (
        again.table("rounds")
        .drop(columns="trace")
        .equals(netfl.sweep(short, tmp_path / "t", engine=Here()).table("rounds").drop(columns="trace"))
    )
    assert not [update for update in observer.updates if update.error]


def test_a_killed_job_is_repeated(tmp_path):
    def kill(observer, update):
        for number in processes("submitit.core._submit"):
            if str(tmp_path) in Path(f"/proc/{number}/cmdline").read_text():
                os.kill(number, signal.SIGKILL)

    sweep = scenario({"seed": [1, 2]}, rounds=60)
    swept = netfl.sweep(sweep, tmp_path / "s", engine=engine(), observer=(observer := Acting(kill, after=5)))
    assert swept.status == "done"
    restarts = [update for update in observer.updates if not update.ended and update.round == 0]
    assert len(restarts) >= 3


def test_a_job_that_is_always_killed_is_an_error(tmp_path):
    Path("dying.py").write_text(
        "import os, signal\nfrom support.slow_access import Slow\n\n"
        "class Dying(Slow):\n    'Kills its process.'\n\n"
        "    def rounds(self, setting):\n        os.kill(os.getpid(), signal.SIGKILL)\n        yield\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        access = {"kind": "dying:Dying", "pause": 0.0}
        dying = scenario({"seed": [1]}, access=access)
        swept = netfl.sweep(dying, tmp_path / "s", engine=engine(retries=1))
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("dying", None)
    assert swept.status == "partial"
    assert "ended without a result" in swept.tasks["error"][0]


def test_an_error_of_a_model_is_reported(tmp_path):
    failing = scenario({"access.until": [None, 3]})
    swept = netfl.sweep(failing, tmp_path / "s", engine=engine())
    assert swept.points["status"].tolist() == ["done", "missing"]
    assert "RuntimeError: the toy is broken" in swept.tasks["error"][1]


def test_a_task_continues_in_another_job_after_its_time_limit(tmp_path):
    def signal_jobs(observer, update):
        """Send what Slurm sends before the time limit."""
        for number in processes("submitit.core._submit"):
            if str(tmp_path) in Path(f"/proc/{number}/cmdline").read_text():
                os.kill(number, signal.SIGUSR2)

    long = scenario({"seed": [1]}, rounds=80)
    swept = netfl.sweep(
        long, tmp_path / "s", engine=engine(retries=0), observer=(observer := Acting(signal_jobs, after=20))
    )
    assert swept.status == "done"
    assert [update.ended for update in observer.updates].count(True) == 1
    assert len([*(tmp_path / "s/slurm").glob("*_submitted.pkl")]) == 2


def test_jobs_of_a_killed_sweep_are_waited_for(tmp_path):
    long = scenario({"seed": [1]}, rounds=120)
    (tmp_path / "jobs.yaml").write_text(long.to_yaml(sweep=True))
    code = (
        "import netfl; from netfl.sweeps.slurm_engine import *; "
        "netfl.sweep('jobs.yaml', 's', engine=SlurmEngine(cluster='local'))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    while not list(tmp_path.glob("s/slurm/*.jsonl")):
        time.sleep(0.1)
    process.kill()
    process.wait()
    swept = netfl.sweep("jobs.yaml", "s", engine=engine())
    assert swept.status == "done"
    assert len([*(tmp_path / "s/slurm").glob("*_submitted.pkl")]) == 1


def test_an_interrupted_sweep_cancels_its_jobs(tmp_path):
    def interrupt(observer, update):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        netfl.sweep(scenario({"seed": [1, 2]}, rounds=500), tmp_path / "s", engine=engine(), observer=Acting(interrupt))
    end = time.monotonic() + 60
    while (left := processes(str(tmp_path / "s/slurm"))) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == []


def test_a_search_runs_as_jobs(tmp_path):
    pytest.importorskip("optuna", reason="netfl-sim[optuna] is not installed")
    search = {"engine": "optuna", "trials": 4, "metric": "delivered_per_round",
              "parameters": {"access.probability": {"uniform": [0.1, 0.9]}}}  # fmt: skip
    swept = netfl.sweep(
        scenario(search, access={"kind": "bernoulli", "probability": 0.5}), tmp_path / "s", engine=engine()
    )
    assert (swept.status, swept.trials["status"].tolist()) == ("done", ["done"] * 4)


SBATCH = """#!/bin/sh
cp "$1" {folder}/submitted.sh
echo "Submitted batch job 77"
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Provide commands of Slurm that record what is submitted and report every job as cancelled."""
    programs = tmp_path / "bin"
    programs.mkdir()
    table = "JobID|State|NodeList\n77_0|CANCELLED|\n77_1|CANCELLED|\n77|CANCELLED|\n"
    for name, text in {"sbatch": SBATCH.format(folder=tmp_path), "sacct": f"#!/bin/sh\nprintf '{table}'\n",
                       "srun": "#!/bin/sh\n", "scancel": "#!/bin/sh\n"}.items():  # fmt: skip
        (programs / name).write_text(text.replace("\\n", "\n") if name == "sbatch" else text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return tmp_path / "submitted.sh"


def test_a_plan_is_one_array_of_jobs(slurm, tmp_path):
    options = SlurmOptions("short", 90, 2, 3.5, 1, 7, {"account": "physics"})
    swept = netfl.sweep(scenario({"seed": [1, 2]}), tmp_path / "s", engine=SlurmEngine(options, retries=0))
    lines = slurm.read_text().splitlines()
    for line in ("--array=0-1%2", "--partition=short", "--time=90", "--cpus-per-task=2", "--mem=3584MB",
                 "--gpus-per-node=1", "--account=physics", "--job-name=netfl"):  # fmt: skip
        assert f"#SBATCH {line}" in lines, lines
    assert swept.tasks["error"].str.startswith("job 77_").all()


def test_a_refused_submission_is_an_error(slurm, tmp_path):
    (tmp_path / "bin/sbatch").write_text(
        "#!/bin/sh\necho 'sbatch: error: invalid partition specified: x' >&2\nexit 1\n"
    )
    with pytest.raises(MachineError, match=r"the jobs cannot be submitted: .*invalid partition specified: x"):
        netfl.sweep(scenario({"seed": [1, 2]}), tmp_path / "s", engine=SlurmEngine(SlurmOptions("x")))


class TestCommand:
    @pytest.fixture(autouse=True)
    def file(self, tmp_path):
        (tmp_path / "jobs.yaml").write_text(scenario({"seed": [1, 2]}).to_yaml(sweep=True))

    def call(self, *words):
        result = CliRunner().invoke(app, ["sweep", "jobs.yaml", *words])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    def test_options_become_those_of_sbatch(self, slurm):
        words = ("--partition", "short", "--time", "90 min", "--mem", "4 GB", "--cpus", "2", "--workers", "1",
                 "--sbatch", "account=physics", "--retries", "0")  # fmt: skip
        code, _ = self.call("--engine", "slurm", *words)
        assert code == 1  # the jobs of these commands do not run
        lines = slurm.read_text().splitlines()
        for line in ("--array=0-1%1", "--partition=short", "--time=90", "--mem=4GB", "--account=physics"):
            assert f"#SBATCH {line}" in lines, lines

    def test_a_machine_without_slurm_is_an_error(self, monkeypatch):
        monkeypatch.setenv("PATH", "/nowhere")
        problem = "Slurm: this machine has no command sbatch"
        remedy = "run on a login node of the cluster, or use the engine 'local'"
        assert self.call("--engine", "slurm") == (1, f"{problem}; {remedy}\n")


def test_a_missing_package_is_an_error(monkeypatch, tmp_path):
    (tmp_path / "jobs.yaml").write_text(scenario({"seed": [1, 2]}).to_yaml(sweep=True))
    monkeypatch.setitem(sys.modules, "submitit", None)
    result = CliRunner().invoke(app, ["sweep", "jobs.yaml", "--engine", "slurm"])
    problem = "--engine: needs submitit, which is not installed ('slurm'); pip install 'netfl-sim[slurm]'\n"
    assert (result.exit_code, result.output) == (2, problem)
