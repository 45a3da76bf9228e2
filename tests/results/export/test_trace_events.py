"""Runs as traces for Perfetto: what is on the tracks is what happened."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from support.exported_runs import DIRECT, NETWORK, Stopping, call
from support.trace_event_format import Trace

import netfl
from netfl.results.export.trace_events import TraceEvents, Track

TRAFFIC = """\
name: traffic
users: 4
duration: 20 s
record: all
access:
  kind: network
  topology: {kind: star, radius: 100 m, rate: 1 Mbps}
  mac: {kind: csma_ca}
  traffic: {kind: poisson, rate: 5, size: {distribution: fixed, mean: 1 kB}}
"""
AIR_S = 8e4 / 50e3


@pytest.fixture
def traced(tmp_path, monkeypatch):
    """Traces a scenario in text, and exports it: the run, the trace and what the command said."""
    monkeypatch.chdir(tmp_path)

    def run(text, *more, **overrides):
        (tmp_path / "x.yaml").write_text(text)
        done = netfl.trace(
            netfl.load("x.yaml", {key.replace("__", "."): value for key, value in overrides.items()}), "x"
        )
        code, output = call("export", "x", "--perfetto", *more)
        assert code == 0, output
        return done, read("x/trace.json"), output

    return run


def read(path):
    return Trace(json.loads(Path(path).read_text(encoding="utf-8")))


def count(run, *kinds, replica=0):
    events = run.events
    return int((events["kind"].isin(kinds) & (events["replica"] == replica)).sum())


class TestTrace:
    @pytest.mark.slow
    def test_everything_recorded_is_shown_as_it_was(self, traced):
        run, trace, output = traced(NETWORK)
        assert output.count("\n") == 1
        assert trace.other == {"scenario": '<radio> "a"', "replica": 0, "status": "done", "unit": "s"}
        sendings = {name: trace.of("users", name) for name in ("sending", "sending, collided", "sending, superseded")}
        assert all(sendings.values())
        for lengths in sendings.values():  # slots and attempts last as long as an update
            assert np.allclose(lengths, AIR_S)
        assert sum(name.startswith("sending") for *_, name in whole(trace, "users")) == count(run, "sent")
        assert np.allclose(trace.of("users", "training"), 5.0)
        assert len(trace.of("users", "training")) == count(run, "trained")
        assert trace.of("users", "waiting")
        arrived = count(run, "delivered", "late", "discarded")
        assert len(trace.slices["server", "arrivals"]) == len(trace.arrows) == arrived
        assert len(trace.of("links")) == count(run, "forwarded")
        assert len(trace.slices["server", "rounds"]) == 30
        closed_s = run.rounds.query("replica == 0").closed_s
        assert np.allclose([end / 1e9 for *_, end, _ in trace.slices["server", "rounds"]], closed_s)

    @pytest.mark.slow
    def test_an_update_goes_from_training_to_its_arrival(self, traced):
        _, trace, _ = traced(NETWORK)
        for arrow in trace.arrows:
            groups = [group for group, *_ in arrow]
            assert groups == ["users", "users", "cells", "links", "links", "server"]
            assert [name for *_, name in arrow[:2]] == ["training", "sending"]
            user = arrow[0][1].partition(" (")[0]
            assert all(user in {track.partition(" (")[0], name.partition(",")[0]} for _, track, name in arrow)

    @pytest.mark.parametrize("replica", [0, 1])
    @pytest.mark.slow
    def test_outages_and_counters(self, traced, replica):
        run, trace, _ = traced(NETWORK, "--replica", replica)
        assert trace.other["replica"] == replica
        events = run.events
        down = events[(events["kind"] == "down") & (events["replica"] == replica)]
        up = events[(events["kind"] == "up") & (events["replica"] == replica)]
        assert len(trace.of("outages")) == len(down) > 3
        ends = sorted(end / 1e9 for (group, _), own in trace.slices.items() if group == "outages" for *_, end, _ in own)
        assert np.allclose(ends[: len(up)], np.sort(up["time_s"]))
        counted = trace.counters["users down"]
        assert max(value for _, value in counted) >= 1
        assert counted[-1][1] == (down["user"] >= 0).sum() - (up["user"] >= 0).sum()
        own = run.rounds[run.rounds["replica"] == replica]
        assert [value for _, value in trace.counters["delivered"]] == own["delivered"].tolist()

    @pytest.mark.slow
    def test_what_was_not_recorded_is_said(self, traced):
        run, trace, output = traced(NETWORK.replace("record: all\n", ""))
        assert "received, trained, forwarded were not recorded" in output
        assert "--set record=all" in output
        assert len(trace.arrows) == count(run, "delivered", "late", "discarded")
        assert not trace.of("users", "training")
        assert min(trace.of("users", "sending")) > AIR_S

    @pytest.mark.parametrize("busy", ["finish", "ignore"])
    @pytest.mark.slow
    def test_users_who_go_on_with_what_they_are_at(self, traced, busy):
        run, trace, _ = traced(NETWORK, access__on_new_version=busy)
        assert np.allclose(trace.of("users", "sending"), AIR_S)
        assert len(trace.of("users", "training")) >= count(run, "trained")
        finished = sorted(trace.of("users", "training"))[-count(run, "trained") :]
        assert np.allclose(finished, 5.0)
        assert len(trace.arrows) == count(run, "delivered", "late")

    @pytest.mark.slow
    def test_updates_in_packets(self, traced):
        run, trace, _ = traced(NETWORK, access__transport={"grain": "packet", "mtu": "2 kB"})
        assert len(trace.arrows) == count(run, "delivered", "late", "discarded") > 20
        sent = sum(name.startswith("sending") for *_, name in whole(trace, "users"))
        assert sent == count(run, "sent") > 100
        assert np.quantile(trace.of("users", "sending"), 0.9) < 1.1 * AIR_S / 4

    @pytest.mark.slow
    def test_a_direct_access(self, traced):
        run, trace, output = traced(DIRECT)
        assert output.count("\n") == 1
        assert len(trace.of("users", "delivered")) == len(trace.arrows) == count(run, "delivered")
        own = run.deliveries.query("replica == 0")
        assert np.allclose(sorted(trace.of("users", "delivered")), np.sort(own.arrived_s - own.sent_s))

    @pytest.mark.slow
    def test_traffic_alone(self, traced):
        run, trace, _ = traced(TRAFFIC)
        assert len(trace.of("users")) == count(run, "delivered", "dropped", "lost", "collided", "given_up")
        delays = run.events.query("kind == 'delivered'").value
        assert np.allclose(sorted(trace.of("users", "delivered")), np.sort(delays), atol=1e-9)
        assert not trace.arrows

    def test_accuracies_are_counters(self, tmp_path, monkeypatch, learning_text):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "x.yaml").write_text(learning_text)
        run = netfl.run(netfl.load("x.yaml"), "x")
        assert call("export", "x", "--perfetto", "--out", "there.json")[0] == 0
        own = run.metrics.query("metric == 'accuracy' and group == '' and learner == 'FedAvg' and replica == 0")
        assert np.allclose(read("there.json").counters["accuracy of FedAvg"], own[["time_s", "value"]], rtol=1e-6)


@pytest.fixture
def learning_text():
    """A scenario with a learner."""
    return (
        "name: x\nusers: 6\nrounds: 20\nreplicas: 2\naccess: {kind: stationary, rho: {zipf: 1}, deliveries: 1}\n"
        "data: {kind: digits}\npartition: {kind: iid}\nmodel: {kind: logistic}\n"
        "learners:\n  FedAvg: {objective: erm, aggregation: relay, lr: 0.1, batch_size: 8, local_steps: 2}\n"
    )


def whole(trace, group):
    return [(track, name) for (own, track), slices in trace.slices.items() for name, *_ in slices if own == group]


class TestTracks:
    def test_slices_that_overlap_go_onto_tracks_of_their_own(self):
        trace = drawn(
            lambda tracks: [tracks.slice(Track("users", "user 3"), "x", *span) for span in [(0, 2), (1, 3), (2, 4)]]
        )
        assert {track: len(own) for (_, track), own in trace.slices.items()} == {"user 3": 2, "user 3 (2)": 1}

    def test_times_are_exact_to_the_nanosecond_after_years(self):
        year = 3.2e7
        trace = drawn(
            lambda tracks: [tracks.slice(Track("users", "u"), "x", year + at, year + at + 0.25) for at in (0, 0.25)]
        )
        assert [one[1:3] for one in trace.slices["users", "u"]] == [
            (32_000_000_000_000_000, 32_000_000_250_000_000),
            (32_000_000_250_000_000, 32_000_000_500_000_000),
        ]

    def test_names_are_escaped(self):
        trace = drawn(lambda tracks: tracks.slice(Track("links", 'a"\\\n'), 'b"\\\n', 0, 1))
        assert [(track, own[0][0]) for (_, track), own in trace.slices.items()] == [('a"\\\n', 'b"\\\n')]


def drawn(draw):
    file = io.StringIO()
    tracks = TraceEvents(file, {})
    draw(tracks)
    tracks.close()
    return Trace(json.loads(file.getvalue()))


class TestFaults:
    @pytest.mark.slow
    def test_no_events(self, traced):
        done, *_ = traced(NETWORK)
        done.folder.rename("old")
        netfl.trace(netfl.load("x.yaml", {"record": "none"}), "x")
        code, output = call("export", "x", "--perfetto")
        assert code == 2
        assert output == "record: no events were recorded, which a trace needs; run it again with: --set record=all\n"
        assert not (done.folder / "trace.json").exists()

    @pytest.mark.slow
    def test_no_such_replica(self, traced):
        traced(DIRECT)
        assert call("export", "x", "--perfetto", "--replica", 2) == (
            2,
            "--replica: no such replica is recorded (2); recorded replicas: [0, 1]\n",
        )

    @pytest.mark.slow
    def test_a_run_that_was_stopped(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "x.yaml").write_text(NETWORK)
        netfl.trace(netfl.load("x.yaml"), "x", observer=Stopping(10))
        code, output = call("export", "x", "--perfetto")
        assert code == 0
        assert "the run is interrupted: it has 10 of 30 rounds\n" in output
        trace = read("x/trace.json")
        assert len(trace.slices["server", "rounds"]) == 10
        assert trace.other["status"] == "interrupted"

    @pytest.mark.slow
    def test_a_run_that_crashed(self, traced):
        done, *_ = traced(DIRECT)
        for name in ("rounds", "events"):
            (done.folder / f"{name}.parquet").rename(done.folder / f"{name}.parquet.part")
        told = json.loads((done.folder / "manifest.json").read_text())
        (done.folder / "manifest.json").write_text(json.dumps(told | {"status": "running"}))
        code, output = call("export", "x", "--perfetto")
        assert (code, output) == (2, "x has no rounds yet: it is crashed; finish it with: netfl resume x\n")

    @pytest.mark.slow
    def test_more_years_than_can_be_told(self, traced):
        done, *_ = traced(DIRECT)
        done.folder.rename("old")
        (done.folder.parent / "y.yaml").write_text(DIRECT.replace("0.4", "0.4, round_length: 1e8"))
        netfl.trace(netfl.load("y.yaml"), "y")
        code, output = call("export", "y", "--perfetto")
        assert (code, "292 years" in output) == (2, True)
