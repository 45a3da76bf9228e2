"""A scenario with two learners for tests of trackers, and the tests that every tracker passes."""

from pathlib import Path

import numpy as np
import pytest

import netfl
from support.exported_runs import Stopping, call

SCENARIO = """\
name: tracked
users: 4
rounds: 30
replicas: 2
access: {kind: stationary, rho: {zipf: 1}, deliveries: 1}
data: {kind: digits}
partition: {kind: iid}
model: {kind: logistic}
learners:
  one: {objective: erm, aggregation: relay, lr: 0.1, batch_size: 8, local_steps: 2}
  two:
    objective: {kind: cvar, alpha: 0.3, gamma: 0.1, lr_t: 0.02}
    aggregation: relay
    lr: 0.1
    batch_size: 8
    local_steps: 2
evaluate: {every: 5}
"""
METRICS = (("accuracy", ""), ("loss", "class:9"), ("t", ""))
"""Metrics and groups to compare."""


def read_scenario(text, **overrides):
    """Write a scenario into the current folder, so that its errors have lines, and load it."""
    Path("x.yaml").write_text(text)
    return netfl.load("x.yaml", overrides)


def tracked_curves(run):
    """Yield each learner, replica and metric with its rounds, values and times in the tables of a run."""
    for learner in ("one", "two"):
        for replica in range(run.manifest["replicas"]):
            for metric, group in METRICS:
                rows = run.metrics.query(
                    "learner == @learner and replica == @replica and metric == @metric and group == @group"
                )
                name = f"{metric}/{group}".rstrip("/")
                yield (
                    learner,
                    replica,
                    name,
                    rows["round"].tolist(),
                    rows["value"].to_numpy(),
                    rows["time_s"].to_numpy(),
                )


class TrackerTests:
    """Tests of a tracker with a package of its own.

    A subclass sets ``track``, the section of the scenario, and defines `curve` and `summaries`.
    """

    track = ""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    def curve(self, run, learner, replica, name):
        """Return rounds, values and simulated times as the tool has them."""
        raise NotImplementedError

    def summaries(self, run, name):
        """Return the numbers of replicas and the values of a metric of the summary as the tool has them."""
        raise NotImplementedError

    def check(self, run):
        """Compare the tool with the tables of a run."""
        for learner, replica, name, rounds, values, times_s in tracked_curves(run):
            assert rounds == [0, 5, 10, 15, 20, 25, 30]
            found = self.curve(run, learner, replica, name)
            assert found[0] == rounds, (learner, replica, name)
            np.testing.assert_allclose(found[1], values, rtol=1e-6)
            np.testing.assert_allclose(found[2], times_s, atol=1e-3)
        replicas, values = self.summaries(run, "one.accuracy.last_tenth")
        assert replicas[-1] == run.manifest["replicas"]
        assert values[-1] == pytest.approx(run.summary["one.accuracy.last_tenth"], rel=1e-6)

    def test_tracked_values_equal_the_tables(self):
        self.check(netfl.run(read_scenario(SCENARIO + self.track), "r"))

    @pytest.mark.parametrize("crash", [False, True])
    def test_a_resumed_run_logs_every_value_once(self, crash):
        run = netfl.run(read_scenario(SCENARIO + self.track), "r", observer=Stopping(17))
        if crash:
            (run.folder / "checkpoint.pt").unlink()
        self.check(netfl.resume("r"))

    def test_an_extended_run_is_tracked(self):
        netfl.run(read_scenario(SCENARIO + self.track), "r")
        assert call("extend", "r", "--replicas", 3)[0] == 0
        self.check(netfl.open_run("r"))
