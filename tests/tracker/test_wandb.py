"""Weights & Biases files hold the values of the tables; nothing is printed, and nothing is sent."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.tracked_runs import SCENARIO, TrackerTests, read_scenario

import netfl
from netfl.errors import MachineError
from netfl.results.tracking import PLACES
from netfl.tracker import TrackedRun
from netfl.tracker.wandb import Wandb

wandb = pytest.importorskip("wandb", reason="netfl-sim[wandb] is not installed")
pytestmark = pytest.mark.extra
TRACK = "track: {kind: wandb, project: p}\n"
BLOCK, HEAD = 32768, 7
"""Size of the blocks of a W&B file, and of the header of the file and of each chunk (LevelDB's log format)."""
WAIT_S = 60.0
"""Seconds in which the process of W&B must have written the end of a run."""


def records(path):
    """Yield the records of a W&B file."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, parts = path.read_bytes(), HEAD, b""
    while place + HEAD <= len(content):
        if BLOCK - place % BLOCK < HEAD:
            place += BLOCK - place % BLOCK
            continue
        size, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        parts += content[place + HEAD : place + HEAD + size]
        place += HEAD + size
        if kind in {1, 4}:  # a whole record, or the last chunk of one
            record = Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def ended_records(path):
    """Return the records of a W&B file when its run has ended there, as W&B writes in a process of its own."""
    until_s = time.monotonic() + WAIT_S
    while True:
        found = [*records(path)]
        if any(record.WhichOneof("record_type") == "exit" for record in found):
            return found
        assert time.monotonic() < until_s, f"{path} has no end"
        time.sleep(0.1)


def read_runs(folder):
    """Return the W&B runs below *folder* by type and name: config, rows of the history, and exit code."""
    found = {}
    for path in sorted(Path(folder).glob("wandb/offline-run-*/*.wandb")):
        run, config, rows, exit_code = None, {}, [], None
        for record in ended_records(path):
            if record.WhichOneof("record_type") == "run":
                run = record.run
                config = {item.key: json.loads(item.value_json) for item in run.config.update}
            elif record.WhichOneof("record_type") == "history":
                items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
                rows.append({"step": record.history.step.num} | {key: json.loads(text) for key, text in items.items()})
            elif record.WhichOneof("record_type") == "exit":
                exit_code = record.exit.exit_code
        key = run.job_type, run.display_name
        assert key not in found, "a W&B run is there twice"
        found[key] = {"config": config, "rows": rows, "exit": exit_code, "group": run.run_group, "project": run.project}
    return found


class TestWandb(TrackerTests):
    track = TRACK

    def curve(self, run, learner, replica, name):
        rows = read_runs("r")["learner", f"{learner}-{replica}"]["rows"]
        rows = [row for row in rows if name in row]
        return [row["step"] for row in rows], [row[name] for row in rows], [row["time_s"] for row in rows]

    def summaries(self, run, name):
        rows = read_runs("r")["summary", "r"]["rows"]
        return [row["replicas"] for row in rows], [row[name] for row in rows]

    def check(self, run):
        super().check(run)
        runs = read_runs("r")
        lanes = {(learner, replica) for learner in ("one", "two") for replica in range(run.manifest["replicas"])}
        assert {*runs} == {("summary", "r"), *(("learner", f"{learner}-{replica}") for learner, replica in lanes)}
        assert {(each["group"], each["project"]) for each in runs.values()} == {(runs["summary", "r"]["group"], "p")}
        assert {each["exit"] for each in runs.values()} == {0}
        for learner, replica in lanes:
            config = runs["learner", f"{learner}-{replica}"]["config"]
            assert (config["learner"], config["replica"], config["lr"]) == (learner, replica, 0.1)
            assert config["scenario"]["access"]["rho"] == {"zipf": 1.0}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_are_in_the_folder(folder):
    scenario = read_scenario(SCENARIO + "track: {kind: wandb, folder: there}\n", rounds=5, replicas=1)
    netfl.run(scenario, "r")
    runs = read_runs("there")
    assert {key for key in runs if key[0] == "learner"} == {("learner", "one-0"), ("learner", "two-0")}
    assert {each["project"] for each in runs.values()} == {"tracked"}
    assert not (folder / "r/wandb").exists()


def test_runs_of_the_same_name_are_in_different_groups(folder):
    scenario = read_scenario(SCENARIO + TRACK, rounds=5, replicas=1)
    groups = [json.loads((netfl.run(scenario, out).folder / PLACES).read_text()) for out in ("r", "other/r")]
    assert groups[0]["wandb"]["group"] != groups[1]["wandb"]["group"]


def test_a_failed_run_has_failed_there(folder):
    class Failing(netfl.types.RunObserver):
        def on_round(self, progress):
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        netfl.run(read_scenario(SCENARIO + TRACK, replicas=1), "r", observer=Failing())
    assert {each["exit"] for each in read_runs("r").values()} == {1}


def test_hooks_of_the_program_are_restored(folder):
    hooks = sys.excepthook, sys.exit
    netfl.run(read_scenario(SCENARIO + TRACK, rounds=5, replicas=1), "r")
    assert (sys.excepthook, sys.exit) == hooks
    assert wandb.run is None


def test_nothing_is_printed_or_sent(folder):
    """Run with every address of a server and every proxy set to a port that counts its connections."""
    read_scenario(SCENARIO + TRACK, rounds=5)
    server, connections = socket.create_server(("127.0.0.1", 0)), []

    def count():
        while True:
            try:
                connections.append(server.accept()[0])
            except OSError:
                return

    threading.Thread(target=count, daemon=True).start()
    address = f"http://127.0.0.1:{server.getsockname()[1]}"
    names = ("WANDB_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    environment = (
        os.environ | dict.fromkeys(names, address) | {"NO_PROXY": "", "no_proxy": "", "WANDB_API_KEY": "k" * 40}
    )
    code = "import netfl; netfl.run('x.yaml', 'r', progress=False)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    server.close()
    assert (done.stdout, done.stderr) == ("", "")
    assert len(read_runs("r")) == 5
    assert connections == []


class OnlineRun:
    """Stand-in for the result of `wandb.init` online, where the server has the steps before *starting_step*."""

    def __init__(self, starting_step):
        self.starting_step, self.logged, self.exit_code = starting_step, [], None

    def log(self, values, step):
        self.logged.append((step, values))

    def finish(self, exit_code=0):
        self.exit_code = exit_code


def test_an_online_run_continues_after_the_steps_that_the_server_has(folder, monkeypatch):
    opened = []

    def init(**options):
        opened.append((options, OnlineRun(6)))
        return opened[-1][1]

    monkeypatch.setattr(wandb, "init", init)
    scenario = {"name": "s", "learners": {"A": {"lr": 0.1}}}
    run = TrackedRun(folder, scenario, [("A", 0)], {})
    for _ in range(2):
        log = Wandb(mode="online", entity="team").open(run)
        for index in (0, 5, 10):
            log.log_metrics(("A", 0), index, 2.0 * index, {"accuracy": 0.5})
        log.close("interrupted")
    (first, logged), (second, _) = opened
    assert logged.logged == [(10, {"accuracy": 0.5, "time_s": 20.0})]
    assert logged.exit_code == 0
    assert (first["mode"], first["resume"], first["project"], first["entity"]) == ("online", "allow", "s", "team")
    assert [first[key] for key in ("id", "group", "name")] == [second[key] for key in ("id", "group", "name")]


def test_an_error_of_wandb_is_one_line(folder):
    scenario = read_scenario(SCENARIO + "track: {kind: wandb, project: 'a/b'}\n", rounds=5)
    with pytest.raises(MachineError, match=r"^track: wandb cannot log the run: UsageError: .*netfl.resume\('r'\)$"):
        netfl.run(scenario, "r")
