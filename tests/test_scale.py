"""Many users and rounds: batched and single rounds agree, and omissions are reported."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import netfl
from netfl import plots, report
from netfl.access.stationary import Stationary
from netfl.diagnosis import reading
from netfl.errors import ScenarioError
from netfl.plots.deliveries import MAX_USERS
from netfl.report import animation, summary_text
from netfl.report.run_data import read_run_data
from netfl.results import aggregates
from netfl.results.formatting import format_count
from netfl.results.run_reader import open_run
from netfl.results.statistics import RoundStatistics
from netfl.results.tables import SCHEMAS, EventRecorder, TableWriter
from netfl.scenario.recording import EventFilter, evenly_spaced
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.streams import Streams
from netfl.types import OUTCOMES, AccessContext, Event, NullRecorder, RoundBatch

ROOT = Path(__file__).parents[1]
ONE = {"kind": "stationary", "rho": {"zipf": 1.0}, "deliveries": 1, "round_length": "0.3 s"}


def scenario(users=7, rounds=30, access=ONE, **overrides):
    return validate(
        ScenarioDocument({"name": "many", "seed": 4, "users": users, "rounds": rounds, "access": access, **overrides})
    )


def tables(run):
    return {name: run.table(name) for name in ("rounds", "deliveries", "users", "final_metrics")}


@pytest.mark.parametrize("replicas", [1, 3])
def test_batched_rounds_equal_single_rounds(tmp_path, monkeypatch, replicas):
    monkeypatch.setattr("netfl.access.stationary._BLOCK", 64)
    batched = netfl.trace(scenario(replicas=replicas, record="none", rounds=300), tmp_path / "blocks")
    single = netfl.trace(scenario(replicas=replicas, record=["broadcast"], rounds=300), tmp_path / "rounds")
    for name, table in tables(batched).items():
        pd.testing.assert_frame_equal(table, tables(single)[name], check_exact=True)


def test_rounds_are_batched_only_if_possible():
    class Wants(NullRecorder):
        def wants(self, kind):
            return kind == "superseded"

    context = AccessContext(3, 5, 0, Streams(1), np.ones(3), 8.0, 2.0, NullRecorder())
    access = Stationary(rho=(0.5, 0.3, 0.2), round_length=2.0)
    [block] = access.round_batches(context)
    assert block.closed_s.tolist() == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert access.round_batches(replace(context, recorder=Wants())) is None
    assert Stationary(rho=(0.5, 0.3, 0.2), deliveries=2).round_batches(context) is None
    selective = Stationary.model_validate({"rho": [0.5, 0.3, 0.2], "selection": {"kind": "uniform", "m": 2}})
    assert selective.round_batches(context) is None
    rounds = [*access.rounds(context)]
    same = RoundBatch.of(rounds)
    for table, columns in block.tables.items():
        assert list(columns) == list(same.tables[table])
        for name, values in columns.items():
            np.testing.assert_array_equal(values, same.tables[table][name])


def test_statistics_of_batch_equal_statistics_of_rounds():
    context = AccessContext(5, 500, 0, Streams(2), np.ones(5), 0.1, 0.7, NullRecorder())
    access = Stationary(rho=(0.4, 0.3, 0.1, 0.1, 0.1))
    whole, single = RoundStatistics(5), RoundStatistics(5)
    for block in access.round_batches(context):
        whole.extend(block)
    for round_ in access.rounds(context):
        single.extend(RoundBatch.of([round_]))
    outcomes = dict.fromkeys(OUTCOMES, 1)
    assert whole.final_metrics(outcomes) == single.final_metrics(outcomes)
    assert [whole.until(index) for index in (0, 1, 250, 500)] == [single.until(index) for index in (0, 1, 250, 500)]


def test_batch_of_a_round_without_deliveries():
    class Silent(Stationary):
        def candidates(self, context, limit=None):
            yield np.empty(0, np.int64)

    [round_] = Silent(rho=(0.5, 0.5)).rounds(AccessContext(2, 1, 0, Streams(1), np.ones(2), 1.0, 1.0, NullRecorder()))
    block = RoundBatch.of([round_])
    assert (block.delivered.tolist(), block.user.size, block.user.dtype) == ([0], 0, np.int64)


def test_outcomes_of_a_million_users_are_counted(tmp_path):
    run = netfl.trace(scenario(users=10**6, rounds=20_000, record="none"), tmp_path / "run")
    assert run.summary["outcome.superseded"] == 19_999 * (10**6 - 1)
    assert run.summary["outcome.unfinished"] == 10**6 - 1
    assert run.summary["outcome.delivered"] == 20_000
    assert len(run.events) == 0


def test_unrecorded_events_are_only_counted(tmp_path):
    recorder = EventRecorder(TableWriter(tmp_path, "events", SCHEMAS["events"]), 0, EventFilter(frozenset()))
    recorder.record(Event("superseded", np.broadcast_to(1.0, 10**12), round=1))
    assert recorder.counts["superseded"] == 10**12


@pytest.mark.parametrize("users", [[5, 2], 3])
def test_thinned_events_are_a_subset_with_full_counts(tmp_path, users):
    bernoulli = {"kind": "bernoulli", "probability": 0.4}
    whole = netfl.trace(scenario(access=bernoulli, record="all"), tmp_path / "all")
    record = {"events": "all", "users": users, "every": 4}
    thin = netfl.trace(scenario(access=bernoulli, record=record), tmp_path / "thin")
    for name, table in tables(whole).items():
        pd.testing.assert_frame_equal(table, tables(thin)[name], check_exact=True)
    kept_users = users if isinstance(users, list) else [0, 3, 6]
    rows = whole.events
    rows = rows[(rows["user"].isin(kept_users) | (rows["user"] < 0)) & ((rows["round"] - 1) % 4 == 0)]
    columns = ["time_s", "user", "round", "value"]
    pd.testing.assert_frame_equal(thin.events[columns], rows[columns].reset_index(drop=True))
    assert thin.events["kind"].astype(str).tolist() == rows["kind"].astype(str).tolist()
    assert thin.manifest["events_thinned"] == {"users": len(kept_users), "of": 7, "every": 4}
    assert "events_thinned" not in whole.manifest
    sentence_ = f"Events were stored of {len(kept_users)} of 7 users and of one round in 4 only"
    assert any(sentence_ in sentence for sentence in summary_text.run_summary(read_run_data(thin)))
    assert "events_thinned" not in whole.manifest


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"users": 7}, "record.users: has no effect because there are 7"),
        ({"users": [1, 9]}, "record.users: no such users"),
        ({"every": 30}, "record.every: only the first of the 30 rounds"),
        ({"events": "none", "every": 2}, "record.every: has no effect because neither events nor attempts are stored"),
        ({"users": 0}, "record.users"),
    ],
)
def test_invalid_thinning_is_rejected(record, problem):
    with pytest.raises(ScenarioError, match=problem.replace(".", r"\.")):
        scenario(record=record)


def test_too_many_events_are_rejected_before_the_run():
    with pytest.raises(ScenarioError, match="outcomes of 1,000,000,000,000 updates would be stored"):
        scenario(users=10**6, rounds=10**6)
    for record in ("none", ["delivered"], {"users": 1000, "every": 10}):
        scenario(users=10**6, rounds=10**6, record=record)
    adversarial = {"kind": "adversarial", "inner": ONE, "users": [0]}
    with pytest.raises(ScenarioError, match="would be stored"):
        scenario(users=10**6, rounds=10**6, access=adversarial)
    with pytest.raises(ScenarioError, match="would be stored"):
        scenario(users=10**6, rounds=10**6, record={"users": 100_000, "every": 2})


def test_evenly_spaced_users_include_both_ends():
    for users, count in ((10, 3), (1000, 999), (5, 2)):
        found = evenly_spaced(users, count)
        assert (found[0], found[-1], len(set(found.tolist()))) == (0, users - 1, count)
        assert np.ptp(np.diff(found)) <= 1


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A run with more users than plots show."""
    return netfl.trace(scenario(users=25_000, rounds=60, record="none"), tmp_path_factory.mktemp("wide") / "run")


def test_plots_of_many_users_name_the_shown_ones(wide):
    users = wide.users.assign(delivered=np.arange(25_000) % 50, rare=False)
    rows, few = aggregates.sample_users(users, 2000)
    assert (len(rows), few) == (2000, "2\u202f000 of 25\u202f000 users, evenly spaced by rank")
    assert rows["delivered"].is_monotonic_decreasing
    assert rows["delivered"].value_counts().between(39, 41).all()
    assert aggregates.sample_users(users.head(9), 9)[1] == ""
    figures = plots.participation_bars(wide.users, wide.deliveries), plots.participation(wide.users, wide.deliveries)
    for ax in (figure.axes[0] for figure in figures):
        assert "2\u202f000 of 25\u202f000" in ax.get_xlabel() + ax.get_ylabel()
    assert MAX_USERS == 2000


@pytest.mark.slow
def test_report_of_many_users_states_omissions(wide):
    text = report.write(wide, None).read_text(encoding="utf-8")
    assert "2\u202f000 of 25\u202f000 users, evenly spaced by rank" in text
    assert f"more than the limit of {format_count(animation.MAX_USERS)}" in text
    assert len(text) < 3e6


def test_delivery_shares_are_of_the_given_users():
    deliveries = pd.DataFrame({"round": [1, 1, 2, 4, 4], "user": [9_000_000, 3, 3, 7, 7]})
    share = aggregates.delivery_shares(deliveries, [7, 9_000_000], 4, bins=2)
    assert share.tolist() == [[0.0, 0.5], [0.5, 0.0]]


def test_diagnosis_with_little_memory_uses_most_delivered_users(wide, monkeypatch):
    monkeypatch.setattr(reading, "MAX_BYTES", 60 * 1000)
    seen = reading.participation_of_run(open_run(wide.folder))
    counts = wide.deliveries["user"].value_counts()
    assert seen.users == 100
    assert {*counts.index.astype(str)} <= {*seen.names}
    assert seen.delivered.sum(axis=0).tolist() == [int(counts.get(int(name), 0)) for name in seen.names]
    assert any("Of 25\u202f000 users only the 100 with the most deliveries" in note for note in seen.notes)


@pytest.mark.slow
def test_shortcut_for_users_that_are_down_changes_nothing(tmp_path, monkeypatch):
    changes = {"users": 120, "rounds": 12, "access.mac.probability": 0.2, "record": "all"}
    scenario_ = netfl.load(ROOT / "benchmarks/many_users.yaml", changes)
    fast = netfl.trace(scenario_, tmp_path / "fast")
    monkeypatch.setattr("netfl.network.outage._combined.CombinedOutages.is_metered", property(lambda self: True))
    slow = netfl.trace(scenario_, tmp_path / "slow")
    for name in ("events", "rounds", "deliveries"):
        tables = [run.table(name) for run in (fast, slow)]
        if name == "events":  # what has no event of its own is recorded when somebody looks
            tables = [table.sort_values([*table.columns], ignore_index=True) for table in tables]
        pd.testing.assert_frame_equal(*tables, check_exact=True)


@pytest.fixture
def scale(monkeypatch):
    """The module `scale_page` of the benchmarks."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("scale_page")


def test_steepness_and_cost_match_calculation_by_hand(scale):
    points = [{"x": x, "cpu_s": 5.0, "peak_mb": 2.0 * x**0.5} for x in (1, 10, 100, 1000)]
    assert scale.steepness(points, "peak_mb") == pytest.approx(0.5)
    assert scale.steepness(points, "cpu_s") == pytest.approx(0.0)
    assert scale.each([{"x": 1, "a": 3.0}, {"x": 11, "a": 8.0}], "a") == 0.5


def test_page_of_scale_shows_measurements(scale):
    kept = json.loads(scale.PAGE.with_suffix(".json").read_text(encoding="utf-8"))
    assert scale.tables(kept) in scale.PAGE.read_text(encoding="utf-8")
    assert scale.PAGE.with_suffix(".png").exists()


def test_no_measurement_grows_faster_than_linearly(scale):
    curves = json.loads(scale.PAGE.with_suffix(".json").read_text(encoding="utf-8"))["curves"]
    assert curves.keys() == scale.CURVES.keys()
    for name, points in curves.items():
        for metric in ("cpu_s", "peak_mb", "disk_mb"):
            assert scale.steepness(points, metric) < 1.15, (name, metric)
