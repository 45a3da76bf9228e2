"""Apps that send no numbers, never return, end the process or change the directory: one error that names the user."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.extra
pytest.importorskip("flwr", reason="netfl-sim[flower] is not installed")

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from support.flower_apps import averaging, server_of

import netfl
import netfl.flower
from netfl.errors import ModelError, ScenarioError
from netfl.flower import call_limits

SCENARIO = {"name": "x", "users": 3, "rounds": 4, "access": {"kind": "stationary", "rho": [1 / 3] * 3, "deliveries": 3}}
FAULTY = 1
"""The user whose ClientApp is faulty."""


def client(act):
    """Return a ClientApp that adds 1; for the user `FAULTY` what *act* makes of the array."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        (value,) = message.content["arrays"].to_numpy_ndarrays()
        value = value + np.float32(1.0)
        if context.node_config["partition-id"] == FAULTY:
            value = act(value)
        metrics = MetricRecord({"num-examples": 5, "loss": 1.0})
        return Message(RecordDict({"arrays": ArrayRecord([value]), "metrics": metrics}), reply_to=message)

    return app


def run(folder, act, **options):
    server, results = server_of(averaging(), 4)
    finished = netfl.flower.run(netfl.load(SCENARIO), server, client(act), folder, progress=False, **options)
    return finished, results


@pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "NaN"), (np.inf, "an infinite number"), (-np.inf, "an infinite number")]
)
def test_number_that_is_not_finite_names_the_user(tmp_path, value, word):
    def act(array):
        array[0, 0] = value
        return array

    with pytest.raises(ModelError) as error:
        run(tmp_path / "run", act)
    assert error.value.user == FAULTY
    assert error.value.time_s is not None
    assert f"ClientApp, user 1, at {error.value.time_s:.6g} s" in str(error.value)
    assert f"replies with {word} in array '0' of 'arrays'" in str(error.value)
    assert netfl.open_run(tmp_path / "run").status == "failed"


def test_arrays_of_whole_numbers_are_finite(tmp_path):
    finished, _ = run(tmp_path / "run", lambda array: array.astype(np.int64))
    assert finished.status == "done"


def sleep(array):
    time.sleep(1000)
    return array


def loop(array):
    while True:
        pass


def swallow(array):
    try:
        sleep(array)
    except Exception:
        return array


@pytest.mark.parametrize("act", [sleep, loop, swallow])
def test_call_that_never_returns_ends_at_the_limit(tmp_path, act):
    begin = time.monotonic()
    with pytest.raises(ModelError, match=r"ClientApp, user 1, .*has not replied within 0\.3 s; .*call_limit_s"):
        run(tmp_path / "run", act, call_limit_s=0.3)
    assert time.monotonic() - begin < 60
    assert netfl.open_run(tmp_path / "run").status == "failed"
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf")])
def test_limit_is_a_time(tmp_path, limit):
    with pytest.raises(ScenarioError, match="call_limit: not a time above 0"):
        run(tmp_path / "run", sleep, call_limit_s=limit)


def test_signal_ends_a_call_that_does_not_return(monkeypatch):
    monkeypatch.setattr(call_limits, "GRACE_S", 0.1)
    handled = []
    before = signal.signal(signal.SIGINT, lambda *_: handled.append(1))
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt), call_limits.limited_time(60.0):
            time.sleep(1000)
        assert handled == [1]
    finally:
        signal.signal(signal.SIGINT, before)


def test_signal_leaves_a_call_that_returns(monkeypatch):
    monkeypatch.setattr(call_limits, "GRACE_S", 5.0)
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with call_limits.limited_time(60.0):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    finally:
        signal.signal(signal.SIGINT, before)


APP = """
import time
from flwr.app import ArrayRecord, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
import numpy as np
server_app, client_app = ServerApp(), ClientApp()

@client_app.train()
def train(message, context):
    open("called", "w").close()
    time.sleep(1e6)

@server_app.main()
def main(grid, context):
    FedAvg(min_available_nodes=2).start(grid, ArrayRecord([np.zeros(4, np.float32)]), num_rounds=4, timeout=600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_the_process(tmp_path, number):
    (tmp_path / "sleeping.py").write_text(APP)
    netfl.load(SCENARIO)
    (tmp_path / "s.yaml").write_text(netfl.load(SCENARIO).to_yaml())
    words = ["-m", "netfl", "flower", "run", "s.yaml", "--app", "sleeping:server_app,client_app", "--out", "run"]
    environment = os.environ | {"PYTHONPATH": str(Path(netfl.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            end = time.monotonic() + 300
            while not (tmp_path / "called").exists() and process.poll() is None:
                assert time.monotonic() < end
                time.sleep(0.1)
            process.send_signal(number)
            output, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 130, (output, errors)
    assert "stopped" in errors
    assert "the run of a Flower app cannot be continued" in errors
    assert "Traceback" not in errors
    assert netfl.open_run(tmp_path / "run").status == "failed"


def test_changed_directory_is_restored_and_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def act(array):
        os.chdir("/")
        return array

    finished, _ = run("run", act)
    assert finished.status == "done"
    assert Path.cwd() == tmp_path
    note = "the ClientApp of user 1 changed the working directory to /; it was changed back"
    assert finished.manifest["app_notes"].count(note) == 1
    assert len(finished.rounds) == 4


def test_directory_that_the_server_changes_is_restored_and_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Moving(type(averaging())):
        def aggregate_train(self, server_round, replies):
            os.chdir("/")
            return super().aggregate_train(server_round, replies)

    strategy = averaging()
    strategy.__class__ = Moving
    server, _ = server_of(strategy, 4)
    finished = netfl.flower.run(netfl.load(SCENARIO), server, client(lambda array: array), "run", progress=False)
    assert finished.status == "done"
    assert Path.cwd() == tmp_path
    note = "the ServerApp changed the working directory to /; it was changed back"
    assert note in finished.manifest["app_notes"]


def test_directory_of_a_failing_app_is_restored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def act(array):
        os.chdir("/")
        raise SystemExit(7)

    with pytest.raises(ModelError, match=r"ClientApp, user 1, .*SystemExit: 7; a ClientApp returns a reply"):
        run("run", act)
    assert Path.cwd() == tmp_path
    assert netfl.open_run("run").status == "failed"
