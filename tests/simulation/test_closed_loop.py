"""Closed loop of learning and access: reproducible tables after stops and in replays; no trace without learners."""

import re

import numpy as np
import pandas as pd
import pytest
from support.stop_run import StopAfter

import netfl
from netfl.errors import ModelError, ScenarioError
from netfl.learning.learner import BatchedLearner
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation import run as coupling
from netfl.simulation.dry_run import run_dry
from netfl.simulation.setup import prepare_run

ROUNDS = 14
TABLES = ("rounds", "deliveries", "events", "metrics", "users")
DATA = {"kind": "blobs", "centers": [[0, 0], [3, 3], [1, 2]], "samples": 40}


def learner(**overrides):
    return {"objective": "erm", "aggregation": "fedbuff", "lr": 0.3, "batch_size": 4, "local_steps": 3} | overrides


def make_document(**overrides):
    settings = {
        "name": "loop",
        "users": 4,
        "rounds": ROUNDS,
        "replicas": 2,
        "access": {"kind": "support.listening_models:Listening", "m": 2, "learner": "B"},
        "data": DATA,
        "partition": "iid",
        "model": "logistic",
        "learners": {
            "A": learner(),
            "B": learner(objective={"kind": "cvar", "alpha": 0.3, "lr_t": 0.1}, aggregation="fedau"),
        },
        "evaluate": {"every": 5},
        **overrides,
    }
    return ScenarioDocument({key: value for key, value in settings.items() if value is not None}, "loop")


def scenario(**overrides):
    return validate(make_document(**overrides))


def scenario_without_learners(**overrides):
    return scenario(data=None, partition=None, model=None, learners=None, evaluate=None, **overrides)


def run(folder, observer=None, **overrides):
    return coupling.run(scenario(**overrides), folder, device="cpu", observer=observer)


def assert_same(first, second, tables=TABLES):
    for name in tables:
        pd.testing.assert_frame_equal(first.table(name), second.table(name), check_exact=True)


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    return run(tmp_path_factory.mktemp("whole") / "run")


@pytest.mark.slow
def test_tables_depend_on_the_seed_only(complete, tmp_path):
    assert_same(complete, run(tmp_path / "again"))
    assert not complete.deliveries.equals(run(tmp_path / "other", seed=5).deliveries)


def test_each_replica_uses_its_own_reports(complete):
    delivered = [rows["user"].tolist() for _, rows in complete.deliveries.groupby("replica")]
    assert delivered[0] != delivered[1]
    assert all(len(set(users)) > 2 for users in delivered)
    assert complete.rounds["closed_s"].nunique() > ROUNDS


@pytest.mark.slow
def test_named_learner_controls_the_access(complete, tmp_path):
    other = run(tmp_path / "other", access={"kind": "support.listening_models:Listening", "m": 2, "learner": "A"})
    assert not complete.rounds.equals(other.rounds)
    alone = run(
        tmp_path / "alone",
        access={"kind": "support.listening_models:Listening", "m": 2},
        learners={"A": learner()},
    )
    pd.testing.assert_frame_equal(alone.deliveries, other.deliveries)
    np.testing.assert_allclose(alone.rounds["closed_s"], other.rounds["closed_s"], rtol=1e-4)


@pytest.mark.parametrize("stop_after", [0, 1, 4, 8, ROUNDS - 1])
@pytest.mark.quick_first
def test_stopped_run_resumes_exactly(complete, tmp_path, stop_after):
    stopped = run(tmp_path / "run", StopAfter(stop_after))
    assert (stopped.status, stopped.manifest["rounds_done"]) == ("interrupted", stop_after)
    resumed = coupling.resume(tmp_path / "run", device="cpu")
    assert_same(complete, resumed)
    assert resumed.summary == complete.summary


@pytest.mark.slow
def test_run_can_be_stopped_repeatedly(complete, tmp_path):
    run(tmp_path / "run", StopAfter(6))
    for stop_after, rounds_done in ((9, 9), (3, 9), (11, 11)):
        assert (
            coupling.resume(tmp_path / "run", device="cpu", observer=StopAfter(stop_after)).manifest["rounds_done"]
            == rounds_done
        )
    assert_same(complete, coupling.resume(tmp_path / "run", device="cpu"))


@pytest.mark.parametrize("interval_s", [-1.0, 1e9], ids=["a checkpoint each round", "no checkpoint"])
@pytest.mark.quick_first
def test_crashed_run_resumes_exactly(complete, tmp_path, monkeypatch, interval_s):
    monkeypatch.setattr("netfl.simulation.checkpoints.CHECKPOINT_EVERY_S", interval_s)
    step = BatchedLearner.step

    def crash(self, rounds):
        if rounds[0].index == 8:
            raise RuntimeError("the power went")
        return step(self, rounds)

    with monkeypatch.context() as patch:
        patch.setattr(BatchedLearner, "step", crash)
        with pytest.raises(ModelError, match="the power went"):
            run(tmp_path / "run")
    steps = []
    monkeypatch.setattr(
        BatchedLearner, "step", lambda self, rounds: (steps.append(rounds[0].index), step(self, rounds))[1]
    )
    assert_same(complete, coupling.resume(tmp_path / "run", device="cpu"))
    assert steps[0] == (8 if interval_s < 0 else 1)


@pytest.mark.slow
def test_replay_reproduces_the_run_without_reports(complete, tmp_path):
    access = {"kind": "replay", "run": str(complete.folder)}
    replayed = run(tmp_path / "replayed", access=access)
    assert_same(complete, replayed, ("rounds", "deliveries"))
    pd.testing.assert_frame_equal(complete.metrics, replayed.metrics, rtol=1e-5, atol=1e-5)  # to rounding
    traced = coupling.trace(scenario(access=access), tmp_path / "traced")
    assert_same(complete, traced, ("rounds", "deliveries"))
    assert_same(
        complete,
        coupling.trace(scenario_without_learners(access=access), tmp_path / "untaught"),
        ("rounds", "deliveries"),
    )


@pytest.mark.slow
def test_replicas_can_be_added(tmp_path):
    run(tmp_path / "run", replicas=1)
    extended = netfl.extend(tmp_path / "run", 3, device="cpu", observer=StopAfter(6))
    assert extended.manifest["replicas"] == 1
    extended = netfl.extend(tmp_path / "run", 3, device="cpu")
    at_once = run(tmp_path / "whole", replicas=3)
    assert sorted(extended.rounds["replica"].unique()) == [0, 1, 2]
    for first, second in zip(*(list(run_.deliveries.groupby("replica")) for run_ in (extended, at_once)), strict=True):
        assert first[1]["user"].tolist() == second[1]["user"].tolist()
    extended_times, complete_times = (
        run_.rounds.sort_values(["replica", "round"])["closed_s"] for run_ in (extended, at_once)
    )
    np.testing.assert_allclose(extended_times, complete_times, rtol=1e-4)


def test_trace_of_a_closed_loop_is_refused(tmp_path):
    with pytest.raises(ScenarioError) as error:
        coupling.trace(scenario(), tmp_path / "run")
    assert str(error.value) == (
        "loop: access: it needs the learners' reports, and a trace has no learners "
        "('support.listening_models:Listening'); use netfl.run, then netfl.trace to replay the run"
    )
    assert error.value.exit_code == 2
    assert not (tmp_path / "run").exists()


def test_closed_loop_requires_learners(tmp_path):
    with pytest.raises(ScenarioError, match=r"access: it needs the learners' reports.*; add learners"):
        coupling.run(scenario_without_learners(access={"kind": "support.listening_models:Listening"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {},
            "access: it does not name the learner that it uses ('support.listening_models:Listening'); set learner",
        ),
        ({"learner": "Bb"}, "access: it uses a learner that does not exist ('Bb'); did you mean 'B'?"),
    ],
)
def test_closed_loop_requires_the_name_of_a_learner(settings, message):
    with pytest.raises(ScenarioError) as error:
        run_dry(scenario(access={"kind": "support.listening_models:Listening"} | settings))
    assert str(error.value) == f"loop: {message}"


NEEDIEST = {"kind": "bernoulli", "probability": 0.7, "selection": "support.listening_models:Neediest", "learner": "A"}


def test_error_names_the_closed_loop_selection(tmp_path):
    with pytest.raises(
        ScenarioError, match=r"access: its selection 'support\.listening_models:Neediest' needs the learners' reports"
    ):
        coupling.trace(scenario(access=NEEDIEST), tmp_path / "run")
    censored = {"kind": "adversarial", "inner": NEEDIEST, "users": [0]}
    with pytest.raises(ScenarioError, match=r"access: its inner\.selection 'support\.listening_models:Neediest' needs"):
        coupling.trace(scenario(access=censored), tmp_path / "run")
    with pytest.raises(ScenarioError, match=r"access\.selection: depends on the learners, but there are none"):
        scenario_without_learners(access={name: value for name, value in NEEDIEST.items() if name != "learner"})


@pytest.mark.slow
def test_closed_loop_selection_runs_and_resumes(tmp_path):
    complete = run(tmp_path / "whole", access=NEEDIEST)
    assert complete.deliveries["user"].nunique() > 1
    run(tmp_path / "run", StopAfter(6), access=NEEDIEST)
    assert_same(complete, coupling.resume(tmp_path / "run", device="cpu"))


def test_dry_run_simulates_a_closed_loop():
    run_dry(scenario())
    run_dry(scenario(access=NEEDIEST))


@pytest.mark.parametrize(
    "access", [{"kind": "support.listening_models:Listening", "learner": "B"}, NEEDIEST], ids=["access", "selection"]
)
def test_prerun_partition_of_a_closed_loop_is_refused(access):
    partition = {"kind": "rare_classes", "classes": [2], "users": 1, "by": "prerun"}
    with pytest.raises(ScenarioError) as error:
        scenario(access=access, partition=partition)
    assert str(error.value) == (
        "loop: partition: needs a run of the access alone, but the deliveries depend on the training "
        "('prerun'); use another order of the users, or another partition"
    )


RICHEST = {"kind": "bernoulli", "probability": 0.7, "selection": "support.listening_models:Richest"}
UNEVEN = {"kind": "rare_classes", "classes": [2], "users": 2, "by": "rho"}


@pytest.mark.slow
def test_trace_provides_sample_counts_if_needed(tmp_path):
    settings = {"access": RICHEST, "partition": UNEVEN}
    live, traced = run(tmp_path / "run", **settings), coupling.trace(scenario(**settings), tmp_path / "trace")
    assert_same(live, traced, ("rounds", "deliveries", "users"))
    no_learners = {"model": None, "learners": None, "evaluate": None}
    assert_same(
        live, coupling.trace(scenario(**settings, **no_learners), tmp_path / "untaught"), ("deliveries", "users")
    )
    for _, rows in live.users.groupby("replica"):
        assert rows["samples"].nunique() > 1
    for replica, rows in live.deliveries.groupby("replica"):
        samples = live.users[live.users["replica"] == replica]["samples"].to_numpy()
        assert (samples[rows["user"]] > samples.mean()).all()


def test_context_contains_sample_counts():
    setup = prepare_run(scenario(access=RICHEST, partition=UNEVEN))
    for context, split in zip(setup.contexts, setup.splits, strict=True):
        assert context.held.tolist() == [len(rows) for rows in split]
    assert [
        context.held
        for context in prepare_run(scenario_without_learners(access={"kind": "bernoulli", "probability": 1.0})).contexts
    ] == [None] * 2


def test_circular_dependence_of_partition_and_selection_is_refused():
    problem = "and the selection 'support.listening_models:Richest' on the data that users hold"
    with pytest.raises(ScenarioError, match=re.escape(problem)):
        scenario(access=RICHEST, partition=UNEVEN | {"by": "prerun"})


def test_selection_by_sample_counts_requires_data():
    with pytest.raises(ScenarioError) as error:
        scenario_without_learners(access=RICHEST)
    assert str(error.value) == (
        "loop: access.selection: depends on the users' amounts of data, but there are no data; add data"
    )
    with pytest.raises(ScenarioError, match="partition: missing; this access depends on how much data users hold"):
        scenario(access=RICHEST, partition=None, model=None, learners=None, evaluate=None)
