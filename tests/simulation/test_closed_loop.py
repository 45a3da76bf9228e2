"""Who is heard depends on what is learned: the same tables again, after stops and in a replay; no trace without."""

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
SIX = {"kind": "blobs", "centers": [[0, 0], [3, 3], [1, 2]], "samples": 40}


def learner(**more):
    return {"objective": "erm", "aggregation": "fedbuff", "lr": 0.3, "batch_size": 4, "local_steps": 3} | more


def said(**more):
    whole = {
        "name": "loop",
        "users": 4,
        "rounds": ROUNDS,
        "replicas": 2,
        "access": {"kind": "support.listening_models:Listening", "m": 2, "learner": "B"},
        "data": SIX,
        "partition": "iid",
        "model": "logistic",
        "learners": {
            "A": learner(),
            "B": learner(objective={"kind": "cvar", "alpha": 0.3, "lr_t": 0.1}, aggregation="fedau"),
        },
        "evaluate": {"every": 5},
        **more,
    }
    return ScenarioDocument({key: value for key, value in whole.items() if value is not None}, "loop")


def scenario(**more):
    return validate(said(**more))


def untaught(**more):
    return scenario(data=None, partition=None, model=None, learners=None, evaluate=None, **more)


def run(folder, observer=None, **more):
    return coupling.run(scenario(**more), folder, device="cpu", observer=observer)


def same(one, other, tables=TABLES):
    for name in tables:
        pd.testing.assert_frame_equal(one.table(name), other.table(name), check_exact=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(tmp_path_factory.mktemp("whole") / "run")


@pytest.mark.slow
def test_the_same_seed_gives_the_same_tables_and_another_one_others(whole, tmp_path):
    same(whole, run(tmp_path / "again"))
    assert not whole.deliveries.equals(run(tmp_path / "other", seed=5).deliveries)


def test_who_is_heard_is_decided_in_each_replica_by_its_own_answers(whole):
    heard = [own["user"].tolist() for _, own in whole.deliveries.groupby("replica")]
    assert heard[0] != heard[1]
    assert all(len(set(users)) > 2 for users in heard)
    assert whole.rounds["closed_s"].nunique() > ROUNDS


@pytest.mark.slow
def test_the_learner_that_is_named_decides(whole, tmp_path):
    other = run(tmp_path / "other", access={"kind": "support.listening_models:Listening", "m": 2, "learner": "A"})
    assert not whole.rounds.equals(other.rounds)
    alone = run(
        tmp_path / "alone",
        access={"kind": "support.listening_models:Listening", "m": 2},
        learners={"A": learner()},
    )
    pd.testing.assert_frame_equal(alone.deliveries, other.deliveries)
    np.testing.assert_allclose(alone.rounds["closed_s"], other.rounds["closed_s"], rtol=1e-4)


@pytest.mark.parametrize("after", [0, 1, 4, 8, ROUNDS - 1])
@pytest.mark.quick_first
def test_a_stopped_run_resumes_to_what_it_would_have_been(whole, tmp_path, after):
    stopped = run(tmp_path / "run", StopAfter(after))
    assert (stopped.status, stopped.manifest["rounds_done"]) == ("interrupted", after)
    resumed = coupling.resume(tmp_path / "run", device="cpu")
    same(whole, resumed)
    assert resumed.summary == whole.summary


@pytest.mark.slow
def test_it_can_be_stopped_again_and_again_even_before_its_checkpoint(whole, tmp_path):
    run(tmp_path / "run", StopAfter(6))
    for after, done in ((9, 9), (3, 9), (11, 11)):
        assert (
            coupling.resume(tmp_path / "run", device="cpu", observer=StopAfter(after)).manifest["rounds_done"] == done
        )
    same(whole, coupling.resume(tmp_path / "run", device="cpu"))


@pytest.mark.parametrize("every_s", [-1.0, 1e9], ids=["a checkpoint each round", "no checkpoint"])
@pytest.mark.quick_first
def test_a_crashed_run_resumes_to_what_it_would_have_been(whole, tmp_path, monkeypatch, every_s):
    monkeypatch.setattr("netfl.simulation.checkpoints.CHECKPOINT_EVERY_S", every_s)
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
    same(whole, coupling.resume(tmp_path / "run", device="cpu"))
    assert steps[0] == (8 if every_s < 0 else 1)


@pytest.mark.slow
def test_a_replay_listens_to_nobody_and_learns_the_same(whole, tmp_path):
    access = {"kind": "replay", "run": str(whole.folder)}
    replayed = run(tmp_path / "replayed", access=access)
    same(whole, replayed, ("rounds", "deliveries", "metrics"))
    traced = coupling.trace(scenario(access=access), tmp_path / "traced")
    same(whole, traced, ("rounds", "deliveries"))
    same(whole, coupling.trace(untaught(access=access), tmp_path / "untaught"), ("rounds", "deliveries"))


@pytest.mark.slow
def test_replicas_can_be_added(tmp_path):
    run(tmp_path / "run", replicas=1)
    extended = netfl.extend(tmp_path / "run", 3, device="cpu", observer=StopAfter(6))
    assert extended.manifest["replicas"] == 1
    extended = netfl.extend(tmp_path / "run", 3, device="cpu")
    at_once = run(tmp_path / "whole", replicas=3)
    assert sorted(extended.rounds["replica"].unique()) == [0, 1, 2]
    for one, other in zip(*(list(each.deliveries.groupby("replica")) for each in (extended, at_once)), strict=True):
        assert one[1]["user"].tolist() == other[1]["user"].tolist()
    ours, theirs = (each.rounds.sort_values(["replica", "round"])["closed_s"] for each in (extended, at_once))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_there_is_no_trace_of_it(tmp_path):
    with pytest.raises(ScenarioError) as raised:
        coupling.trace(scenario(), tmp_path / "run")
    assert str(raised.value) == (
        "loop: access: it needs the learners' reports, and a trace has no learners "
        "('support.listening_models:Listening'); use netfl run, then netfl trace to replay the run"
    )
    assert raised.value.exit_code == 2
    assert not (tmp_path / "run").exists()


def test_there_is_no_run_of_it_without_learners(tmp_path):
    with pytest.raises(ScenarioError, match=r"access: it needs the learners' reports.*; add learners"):
        coupling.run(untaught(access={"kind": "support.listening_models:Listening"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            {},
            "access: it does not name the learner that it uses ('support.listening_models:Listening'); set learner",
        ),
        ({"learner": "Bb"}, "access: it uses a learner that does not exist ('Bb'); did you mean 'B'?"),
    ],
)
def test_it_must_say_to_whom_it_listens(told, message):
    with pytest.raises(ScenarioError) as raised:
        run_dry(scenario(access={"kind": "support.listening_models:Listening"} | told))
    assert str(raised.value) == f"loop: {message}"


NEEDIEST = {"kind": "bernoulli", "probability": 0.7, "selection": "support.listening_models:Neediest", "learner": "A"}


def test_a_selection_that_listens_is_named(tmp_path):
    with pytest.raises(
        ScenarioError, match=r"access: its selection 'support\.listening_models:Neediest' needs the learners' reports"
    ):
        coupling.trace(scenario(access=NEEDIEST), tmp_path / "run")
    with pytest.raises(ScenarioError, match="access: the access depends on the learners, but there are no"):
        untaught(access={name: value for name, value in NEEDIEST.items() if name != "learner"})


@pytest.mark.slow
def test_a_selection_that_listens_runs_and_resumes(tmp_path):
    whole = run(tmp_path / "whole", access=NEEDIEST)
    assert whole.deliveries["user"].nunique() > 1
    run(tmp_path / "run", StopAfter(6), access=NEEDIEST)
    same(whole, coupling.resume(tmp_path / "run", device="cpu"))


def test_a_check_opens_the_first_round():
    run_dry(scenario())
    run_dry(scenario(access=NEEDIEST))


@pytest.mark.parametrize(
    "access", [{"kind": "support.listening_models:Listening", "learner": "B"}, NEEDIEST], ids=["access", "selection"]
)
def test_a_partition_cannot_go_by_a_run_without_learning(access):
    partition = {"kind": "rare_classes", "classes": [2], "users": 1, "by": "prerun"}
    with pytest.raises(ScenarioError) as raised:
        scenario(access=access, partition=partition)
    assert str(raised.value) == (
        "loop: partition: needs a run of the access alone, but the deliveries depend on the training "
        "('prerun'); use another order of the users, or another partition"
    )


RICHEST = {"kind": "bernoulli", "probability": 0.7, "selection": "support.listening_models:Richest"}
UNEVEN = {"kind": "rare_classes", "classes": [2], "users": 2, "by": "rho"}


@pytest.mark.slow
def test_a_trace_knows_how_much_users_hold_where_that_is_wanted(tmp_path):
    told = {"access": RICHEST, "partition": UNEVEN}
    live, traced = run(tmp_path / "run", **told), coupling.trace(scenario(**told), tmp_path / "trace")
    same(live, traced, ("rounds", "deliveries", "users"))
    taught = {"model": None, "learners": None, "evaluate": None}
    same(live, coupling.trace(scenario(**told, **taught), tmp_path / "untaught"), ("deliveries", "users"))
    for _, own in live.users.groupby("replica"):
        assert own["samples"].nunique() > 1
    for replica, own in live.deliveries.groupby("replica"):
        held = live.users[live.users["replica"] == replica]["samples"].to_numpy()
        assert (held[own["user"]] > held.mean()).all()


def test_what_users_hold_is_in_the_setting():
    setup = prepare_run(scenario(access=RICHEST, partition=UNEVEN))
    for setting, split in zip(setup.contexts, setup.splits, strict=True):
        assert setting.held.tolist() == [len(rows) for rows in split]
    assert [one.held for one in prepare_run(untaught(access={"kind": "bernoulli", "probability": 1.0})).contexts] == [
        None
    ] * 2


def test_what_users_hold_cannot_go_by_who_is_heard_which_goes_by_that():
    with pytest.raises(ScenarioError, match="partition: depends on the participation, which depends on the partition"):
        scenario(access=RICHEST, partition=UNEVEN | {"by": "prerun"})


def test_who_goes_by_what_users_hold_wants_data():
    with pytest.raises(ScenarioError) as raised:
        untaught(access=RICHEST)
    assert "access.selection: depends on the users' amounts of data, but there are no data; add data" in str(
        raised.value
    )
    with pytest.raises(ScenarioError, match="partition: missing; this access depends on how much data users hold"):
        scenario(access=RICHEST, partition=None, model=None, learners=None, evaluate=None)
