"""Runs as traces for Perfetto: the tracks show the recorded events."""

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
AIRTIME_S = 8e4 / 50e3


@pytest.fixture
def export_run(tmp_path, monkeypatch):
    """Trace a scenario from text and export it; return the run, the trace and the output."""
    monkeypatch.chdir(tmp_path)

    def run(text, *options, **overrides):
        (tmp_path / "x.yaml").write_text(text)
        finished_run = netfl.trace(
            netfl.load("x.yaml", {key.replace("__", "."): value for key, value in overrides.items()}), "x"
        )
        code, output = call("export", "x", "--perfetto", *options)
        assert code == 0, output
        return finished_run, read("x/trace.json"), output

    return run


def read(path):
    return Trace(json.loads(Path(path).read_text(encoding="utf-8")))


def count(run, *kinds, replica=0):
    events = run.events
    return int((events["kind"].isin(kinds) & (events["replica"] == replica)).sum())


class TestTrace:
    @pytest.mark.slow
    def test_all_recorded_events_are_shown(self, export_run):
        run, trace, output = export_run(NETWORK)
        assert output.count("\n") == 1
        assert trace.other == {"scenario": '<radio> "a"', "replica": 0, "status": "done", "unit": "s"}
        durations_of_state = {name: trace.of("users", name) for name in ("sending", "sending, collided")}
        assert all(durations_of_state.values())
        for durations in durations_of_state.values():  # slots and attempts last as long as an update
            assert np.allclose(durations, AIRTIME_S)
        assert sum(name.startswith("sending") for *_, name in slices_of(trace, "users")) == count(run, "sent")
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
    def test_arrows_connect_training_and_arrival(self, export_run):
        _, trace, _ = export_run(NETWORK)
        for arrow in trace.arrows:
            groups = [group for group, *_ in arrow]
            assert groups == ["users", "users", "cells", "links", "links", "server"]
            assert [name for *_, name in arrow[:2]] == ["training", "sending"]
            user = arrow[0][1].partition(" (")[0]
            assert all(user in {track.partition(" (")[0], name.partition(",")[0]} for _, track, name in arrow)

    @pytest.mark.parametrize("replica", [0, 1])
    @pytest.mark.slow
    def test_outages_and_counters(self, export_run, replica):
        run, trace, _ = export_run(NETWORK, "--replica", replica)
        assert trace.other["replica"] == replica
        events = run.events
        down = events[(events["kind"] == "down") & (events["replica"] == replica)]
        up = events[(events["kind"] == "up") & (events["replica"] == replica)]
        assert len(trace.of("outages")) == len(down) > 3
        ends = sorted(
            end / 1e9 for (group, _), slices in trace.slices.items() if group == "outages" for *_, end, _ in slices
        )
        assert np.allclose(ends[: len(up)], np.sort(up["time_s"]))
        counter = trace.counters["users down"]
        assert max(value for _, value in counter) >= 1
        assert counter[-1][1] == (down["user"] >= 0).sum() - (up["user"] >= 0).sum()
        rounds = run.rounds[run.rounds["replica"] == replica]
        assert [value for _, value in trace.counters["delivered"]] == rounds["delivered"].tolist()

    @pytest.mark.slow
    def test_missing_events_are_reported(self, export_run):
        run, trace, output = export_run(NETWORK.replace("record: all\n", ""))
        assert "received, trained, forwarded were not recorded" in output
        assert "--set record=all" in output
        assert len(trace.arrows) == count(run, "delivered", "late", "discarded")
        assert not trace.of("users", "training")
        assert min(trace.of("users", "sending")) > AIRTIME_S

    @pytest.mark.parametrize("busy", ["finish", "ignore"])
    @pytest.mark.slow
    def test_users_that_finish_outdated_updates(self, export_run, busy):
        run, trace, _ = export_run(NETWORK, access__on_new_version=busy)
        assert np.allclose(trace.of("users", "sending"), AIRTIME_S)
        assert len(trace.of("users", "training")) >= count(run, "trained")
        finished = sorted(trace.of("users", "training"))[-count(run, "trained") :]
        assert np.allclose(finished, 5.0)
        assert len(trace.arrows) == count(run, "delivered", "late")

    @pytest.mark.slow
    def test_updates_in_packets(self, export_run):
        run, trace, _ = export_run(NETWORK, access__transport={"grain": "packet", "mtu": "2 kB"})
        assert len(trace.arrows) == count(run, "delivered", "late", "discarded") > 20
        sent = sum(name.startswith("sending") for *_, name in slices_of(trace, "users"))
        assert sent == count(run, "sent") > 100
        assert np.quantile(trace.of("users", "sending"), 0.9) < 1.1 * AIRTIME_S / 4

    @pytest.mark.slow
    def test_a_direct_access(self, export_run):
        run, trace, output = export_run(DIRECT)
        assert output.count("\n") == 1
        assert len(trace.of("users", "delivered")) == len(trace.arrows) == count(run, "delivered")
        deliveries = run.deliveries.query("replica == 0")
        assert np.allclose(sorted(trace.of("users", "delivered")), np.sort(deliveries.arrived_s - deliveries.sent_s))

    @pytest.mark.slow
    def test_attempts_need_no_other_events(self, export_run):
        """The table of attempts has their ends, also of those that were received, and what carried them."""
        record = {"events": ["sent"], "attempts": True}
        run, trace, _ = export_run(NETWORK.replace("record: all\n", ""), record=record)
        attempts = run.attempts.query("replica == 0")
        expected_s = np.sort(attempts["end_s"] - attempts["start_s"])
        received = attempts["outcome"] == "received"
        assert np.allclose(np.sort(trace.of("cells")), expected_s, atol=1e-8)
        assert np.allclose(trace.of("users", "sending"), AIRTIME_S)
        assert len(trace.of("users", "sending")) == received.sum()
        names = [name for _, name in slices_of(trace, "users") if name.startswith("sending, ")]
        assert sorted(names) == sorted("sending, " + attempts["outcome"][~received].astype(str))
        assert len(trace.arrows) == 0, "arrivals were not recorded"

    @pytest.mark.slow
    def test_attempts_of_packets(self, export_run):
        run, trace, _ = export_run(TRAFFIC, record={"events": "all", "attempts": True})
        attempts = run.attempts
        assert len(trace.of("cells")) == len(attempts) > 100
        assert len(trace.of("users", "sending")) == (attempts["outcome"] == "received").sum()
        assert not trace.arrows

    @pytest.mark.slow
    def test_traffic_alone(self, export_run):
        run, trace, _ = export_run(TRAFFIC)
        assert len(trace.of("users")) == count(run, "delivered", "dropped", "lost", "collided", "given_up")
        delays = run.events.query("kind == 'delivered'").value
        assert np.allclose(sorted(trace.of("users", "delivered")), np.sort(delays), atol=1e-9)
        assert not trace.arrows

    def test_accuracies_are_counters(self, tmp_path, monkeypatch, learning_text):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "x.yaml").write_text(learning_text)
        run = netfl.run(netfl.load("x.yaml"), "x")
        assert call("export", "x", "--perfetto", "--out", "there.json")[0] == 0
        accuracy = run.metrics.query("metric == 'accuracy' and group == '' and learner == 'FedAvg' and replica == 0")
        assert np.allclose(read("there.json").counters["accuracy of FedAvg"], accuracy[["time_s", "value"]], rtol=1e-6)


@pytest.fixture
def learning_text():
    """A scenario with a learner."""
    return (
        "name: x\nusers: 6\nrounds: 20\nreplicas: 2\naccess: {kind: stationary, rho: {zipf: 1}, deliveries: 1}\n"
        "data: {kind: digits}\npartition: {kind: iid}\nmodel: {kind: logistic}\n"
        "learners:\n  FedAvg: {objective: erm, aggregation: relay, lr: 0.1, batch_size: 8, local_steps: 2}\n"
    )


def slices_of(trace, group):
    return [
        (track, name)
        for (group_of_track, track), slices in trace.slices.items()
        for name, *_ in slices
        if group_of_track == group
    ]


class TestTracks:
    def test_overlapping_slices_use_separate_tracks(self):
        trace = trace_of(
            lambda tracks: [tracks.slice(Track("users", "user 3"), "x", *span) for span in [(0, 2), (1, 3), (2, 4)]]
        )
        assert {track: len(slices) for (_, track), slices in trace.slices.items()} == {"user 3": 2, "user 3 (2)": 1}

    def test_times_have_nanosecond_precision_after_years(self):
        year = 3.2e7
        trace = trace_of(
            lambda tracks: [
                tracks.slice(Track("users", "u"), "x", year + offset, year + offset + 0.25) for offset in (0, 0.25)
            ]
        )
        assert [entry[1:3] for entry in trace.slices["users", "u"]] == [
            (32_000_000_000_000_000, 32_000_000_250_000_000),
            (32_000_000_250_000_000, 32_000_000_500_000_000),
        ]

    def test_names_are_escaped(self):
        trace = trace_of(lambda tracks: tracks.slice(Track("links", 'a"\\\n'), 'b"\\\n', 0, 1))
        assert [(track, slices[0][0]) for (_, track), slices in trace.slices.items()] == [('a"\\\n', 'b"\\\n')]


def trace_of(draw):
    file = io.StringIO()
    tracks = TraceEvents(file, {})
    draw(tracks)
    tracks.close()
    return Trace(json.loads(file.getvalue()))


class TestErrors:
    @pytest.mark.slow
    def test_a_run_without_events_is_an_error(self, export_run):
        finished_run, *_ = export_run(NETWORK)
        finished_run.folder.rename("old")
        netfl.trace(netfl.load("x.yaml", {"record": "none"}), "x")
        code, output = call("export", "x", "--perfetto")
        assert code == 2
        assert output == "record: no events were recorded, which a trace needs; run it again with: --set record=all\n"
        assert not (finished_run.folder / "trace.json").exists()

    @pytest.mark.slow
    def test_an_unknown_replica_is_an_error(self, export_run):
        export_run(DIRECT)
        assert call("export", "x", "--perfetto", "--replica", 2) == (
            2,
            "--replica: no such replica is recorded (2); recorded replicas: [0, 1]\n",
        )

    @pytest.mark.slow
    def test_an_interrupted_run_is_exported(self, tmp_path, monkeypatch):
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
    def test_a_crashed_run_is_an_error(self, export_run):
        finished_run, *_ = export_run(DIRECT)
        for name in ("rounds", "events"):
            (finished_run.folder / f"{name}.parquet").rename(finished_run.folder / f"{name}.parquet.part")
        manifest = json.loads((finished_run.folder / "manifest.json").read_text())
        (finished_run.folder / "manifest.json").write_text(json.dumps(manifest | {"status": "running"}))
        code, output = call("export", "x", "--perfetto")
        assert (code, output) == (2, "x has no rounds yet: it is crashed; finish it with: netfl resume x\n")

    @pytest.mark.slow
    def test_times_beyond_the_format_are_an_error(self, export_run):
        """Runs of other clocks, such as a replay, may have them."""
        finished_run, *_ = export_run(DIRECT)
        late = finished_run.rounds.assign(closed_s=lambda rounds: rounds["closed_s"] * 1e9)
        late.to_parquet(finished_run.folder / "rounds.parquet")
        code, output = call("export", "x", "--perfetto")
        assert (code, "292 years" in output) == (2, True)
