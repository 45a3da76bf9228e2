"""Nodes below the server merge models: edges, and users that exchange theirs, as accesses from outside netfl."""

import numpy as np
import pandas as pd
import pytest
from support.learner_factory import DATA, SPLIT, USERS, flat, learner, spec, torch_model
from support.merging_accesses import Asynchronous, Edges, Everyone, Gossip, TwoHomes, metropolis
from support.plain_loops import train_plainly
from support.stop_run import StopAfter
from torch import nn

import netfl
from netfl.diagnosis.reading import participation_of_run
from netfl.errors import ScenarioError
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.average_all import AverageAll
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.fedavgm import Fedavgm
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.cohort import Cohort
from netfl.learning.objective.cvar import Cvar
from netfl.learning.schedule.inverse import Inverse
from netfl.results import run_writer
from netfl.results.run_reader import Run
from netfl.simulation.dry_run import run_dry
from netfl.simulation.memory import MemoryEstimate
from netfl.streams import Streams
from netfl.types import AccessContext, NullRecorder

LR = 0.3
FULL = {"batch_size": "full", "local_steps": 1, "lr": LR}
FALLING = Inverse(half=2.0)
EQUAL = Average(weights="equal")


def rounds_of(access, rounds=6, replica=0):
    context = AccessContext(USERS, rounds, replica, Streams(3), np.ones(USERS), 1.0, 1.0, NullRecorder())
    opened = access.open(context)
    while not opened.is_done:
        yield opened.next_round()


def versions_of(access, specs, replicas=(0,), rounds=6, **options):
    """Return the version of each lane after each round, ``[rounds, lanes, size + 1]``."""
    made = learner(specs, replicas=replicas, has_nodes=access.merging_nodes(USERS) > 0, **options)
    versions = []
    for results in zip(*(rounds_of(access, rounds, replica) for replica in replicas), strict=True):
        made.step(results)
        versions.append([made.version(lane) for lane in range(len(made.lanes))])
    return np.array(versions)


def train(theta, user, lr=LR):
    """Return the parameters of *user* after a step from *theta* over all its examples, in plain PyTorch."""
    return flat(train_plainly(torch_model(theta), [SPLIT[user]], DATA, nn.CrossEntropyLoss(), lr=lr)).numpy()


def start():
    """Return the parameters of version 0."""
    return learner({"A": spec(**FULL)}).version(0)[:-1]


RULES = {
    "FedAvg": spec(**FULL),
    "falling": spec(schedule=FALLING, **FULL),
    "CVaR": spec(Cvar(alpha=0.3, gamma=0.2, lr_t=0.1), **FULL),
    "momentum": spec(aggregation=Fedavgm(momentum=0.5), **FULL),
    "MIFA": spec(aggregation=Mifa(), **FULL),
    "SCAFFOLD": spec(aggregation=Scaffold(), **FULL),
    "q-FedAvg": spec(aggregation=Qfedavg(q=1.0), **FULL),
    "FedAU": spec(aggregation=Fedau(cutoff=3), **FULL),
}


def test_one_edge_with_one_edge_round_is_the_server():
    """The edge has each rule and its state, and the server takes its model as it is."""
    below, server = (versions_of(access, RULES) for access in (Edges(edges=1), Everyone()))
    assert np.abs(np.diff(server, axis=0)).max(axis=(0, 2)).min() > 1e-3
    np.testing.assert_allclose(below, server, rtol=1e-9, atol=1e-12)


def test_users_that_train_and_mix_with_all_others_are_fedavg():
    specs = {"FedAvg": spec(aggregation=EQUAL, **FULL), "falling": spec(aggregation=EQUAL, schedule=FALLING, **FULL)}
    peers, server = (versions_of(access, specs) for access in (Gossip(graph="complete"), Everyone()))
    np.testing.assert_allclose(peers, server, rtol=1e-9, atol=1e-12)


def test_gossip_on_a_ring_is_d_psgd():
    weights = metropolis("ring", USERS)
    theta = np.tile(start(), (USERS, 1))
    for version in versions_of(Gossip(), {"A": spec(aggregation=EQUAL, **FULL)}):
        theta = weights @ np.stack([train(theta[user], user) for user in range(USERS)])
        np.testing.assert_allclose(version[0, :-1], theta.mean(0), rtol=1e-9, atol=1e-12)
    assert np.ptp(theta, axis=0).max() > 1e-2  # the users have models of their own


def test_edges_with_edge_rounds_are_hierfavg():
    """Edges average their users by examples, the server the edges by users; the step size falls by rounds."""
    theta = start()
    members = [[0, 2], [1, 3]]
    specs = {"A": spec(schedule=FALLING, **FULL)}
    for index, version in enumerate(versions_of(Edges(edges=2, edge_rounds=3), specs)):
        models = []
        for users in members:
            model = theta
            for _ in range(3):
                trained = np.stack([train(model, user, LR / (1 + index / 2)) for user in users])
                model = np.average(trained, axis=0, weights=[len(SPLIT[user]) for user in users])
            models.append(model)
        theta = np.mean(models, axis=0)
        np.testing.assert_allclose(version[0, :-1], theta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", [AverageAll, Mifa, Fedau])
def test_rules_that_divide_by_users_count_those_of_the_whole_network(rule):
    """Each of two equal edges moves by half of the mean of its users, unless the step of the server is doubled."""
    specs = {"A": spec(aggregation=rule(), **FULL), "doubled": spec(aggregation=rule(server_lr=2.0), **FULL)}
    specs |= {"mean": spec(aggregation=EQUAL, **FULL)}
    once, doubled, mean = versions_of(Edges(edges=2), specs, rounds=1)[0, :, :-1] - start()
    assert np.abs(mean).max() > 1e-3
    np.testing.assert_allclose(once, mean / 2, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(doubled, mean, rtol=1e-9, atol=1e-12)


def test_lanes_and_replicas_beside_each_other_change_nothing():
    """Replicas whose merges fall into other rounds train together, and each is as it is alone."""
    together = versions_of(Asynchronous(), RULES, replicas=(0, 1, 2))
    for replica in range(3):
        alone = versions_of(Asynchronous(), RULES, replicas=(replica,))
        lanes = range(replica, together.shape[1], 3)
        np.testing.assert_allclose(together[:, lanes], alone, rtol=1e-9, atol=1e-12)


def test_an_edge_trains_on_older_versions_of_its_own():
    """The edges of `Asynchronous`, computed by hand."""
    origin = start()
    edges = [{0: origin}, {0: origin}]
    server = origin
    versions = versions_of(Asynchronous(), {"A": spec(**FULL)})
    for result, version in zip(rounds_of(Asynchronous()), versions, strict=True):
        for merge in result.merges:
            if merge.node:
                (delivery,) = merge.deliveries
                kept = edges[merge.node - 1]
                kept[merge.number] = train(kept[delivery.base], delivery.user)  # FedAvg: the mean of what was trained
        before = server
        if result.deliveries:
            server = train(before, 0)
        else:
            newest = [edge[max(edge)] for edge in edges]
            server = (newest[0] + 2.0 * newest[1] + 0.5 * before) / 3.5
        np.testing.assert_allclose(version[0, :-1], server, rtol=1e-9, atol=1e-12)


def test_mini_batches_of_two_nodes_are_draws_of_their_own():
    """Two edges whose versions have the same numbers give their users other examples than one would."""
    made = learner({"A": spec()}, has_nodes=True)
    users = np.zeros(2, np.int64)
    cohort = Cohort(users, users, users + 4, (), nodes=np.array([1, 2]))
    places = made._sampler.draw(cohort, np.array([23, 23]), spec().local_work).places
    alone = Cohort(users[:1], users[:1], users[:1] + 4, (), nodes=np.array([2]))
    assert (places[0] != places[1]).any()
    assert (made._sampler.draw(alone, np.array([23]), spec().local_work).places[0] == places[1]).all()


TABLES = ("rounds", "deliveries", "merges", "merged_models", "merged_updates", "metrics")
LEARNERS = {
    "FedAvg": {"objective": "erm", "aggregation": "average", "lr": 0.2, "local_steps": 2, "batch_size": 8},
    "MIFA": {"objective": "erm", "aggregation": "mifa", "lr": 0.2, "local_steps": 2, "batch_size": 8},
}
SENDING = {"SCAFFOLD": LEARNERS["MIFA"] | {"aggregation": "scaffold"}}
"""A learner whose server sends a message with each version."""
ACCESSES = {
    "edges": Edges(edges=2, edge_rounds=2),
    "gossip": Gossip(),
    "asynchronous": Asynchronous(),
    "two homes": TwoHomes(),
}


def scenario(access, **options):
    """Return a scenario in which users hold different labels."""
    return netfl.Scenario(
        **{
            "name": "merges",
            "users": 6,
            "rounds": 9,
            "replicas": 2,
            "access": access,
            "data": {"kind": "blobs", "centers": [[0, 0], [2, 1], [-1, 2]], "samples": 90},
            "partition": {"kind": "dirichlet", "concentration": 0.5},
            "model": "logistic",
            "learners": LEARNERS,
            "evaluate": {"every": 1, "metrics": ["staleness"]},
        }
        | options
    )


def tables_of(run):
    return {name: run.table(name) for name in TABLES}


def assert_equal_tables(one, other):
    for name, table in tables_of(one).items():
        pd.testing.assert_frame_equal(table, other.table(name), obj=name)


@pytest.fixture(scope="module", params=ACCESSES)
def whole(request, tmp_path_factory):
    """Return an access, and the folder of its run."""
    folder = tmp_path_factory.mktemp(request.param) / "whole"
    netfl.run(scenario(ACCESSES[request.param]), folder, progress=False)
    return ACCESSES[request.param], folder


def test_tables_hold_what_rounds_state(whole):
    access, folder = whole
    run = netfl.open_run(folder)
    tables = tables_of(run)
    context = AccessContext(6, 9, 1, Streams(3), np.ones(6), 1.0, 1.0, NullRecorder())
    results = [*access.rounds(context)]
    assert len(results) == 9
    of_replica = {name: table[table["replica"] == 1] for name, table in tables.items() if "replica" in table}
    assert of_replica["rounds"]["delivered"].tolist() == [len(each.all_deliveries()) for each in results]
    stated = [(merge.node, merge.number, merge.round) for each in results for merge in each.merges]
    rows = of_replica["merges"].sort_values(["round", "place"])
    assert [*zip(rows["node"], rows["number"], rows["version_round"], strict=True)] == stated
    assert len(of_replica["deliveries"]) == sum(len(each.all_deliveries()) for each in results)
    assert len(of_replica["merged_updates"]) == sum(len(merge.deliveries) for each in results for merge in each.merges)
    models = [(each.index, *model) for each in results for merge in each.merges for model in merge.models]
    rows = of_replica["merged_models"]
    columns = (rows[name].tolist() for name in ("round", "source", "source_number", "weight"))
    assert sorted(zip(*columns, strict=True)) == sorted(models)


def test_deliveries_state_their_node_and_the_time_of_their_base(whole):
    access, folder = whole
    deliveries = netfl.open_run(folder).deliveries
    assert (deliveries["node"] > 0).any()
    of_server = deliveries[deliveries["node"] == 0]
    assert (of_server["base_round"] == of_server["base"]).all()
    ages = netfl.results.aggregates.delays(deliveries, netfl.open_run(folder).rounds)["age"]
    if isinstance(access, TwoHomes):
        counts = deliveries.groupby(["node", "user"]).size()
        assert counts.to_dict() == {(1, 0): 18, (1, 1): 36, (2, 0): 18}
    if isinstance(access, Asynchronous):
        assert ages.max() > 0
    else:  # all versions of a round follow the server's newest
        assert (ages == 0).all()
    metrics = netfl.open_run(folder).metrics
    assert metrics.loc[metrics["metric"] == "staleness_max", "value"].max() == ages.max()


def test_a_stopped_run_continues_as_if_it_had_not_stopped(whole, tmp_path):
    access, folder = whole
    netfl.run(scenario(access), tmp_path / "part", progress=False, observer=StopAfter(4))
    resumed = netfl.resume(tmp_path / "part", progress=False)
    assert resumed.status == "done"
    assert_equal_tables(netfl.open_run(folder), resumed)


def test_a_run_that_still_grows_states_the_nodes(tmp_path, monkeypatch):
    class Reader(StopAfter):
        """Reads the tables after the fifth round, as they are written after each."""

        def on_round(self, progress):
            super().on_round(progress)
            if progress.round == 5:
                nodes.append(Run(tmp_path / "run", unfinished=True).deliveries["node"].unique().tolist())

    nodes = []
    monkeypatch.setattr(run_writer, "FLUSH_EVERY_S", 0.0)
    netfl.run(scenario(Edges(edges=2)), tmp_path / "run", progress=False, observer=Reader(9))
    assert [sorted(found) for found in nodes] == [[1, 2]]


@pytest.mark.slow
def test_a_stopped_run_continues_with_any_number_of_workers(whole, tmp_path):
    access, _ = whole
    sending = scenario(access, learners=LEARNERS | SENDING)
    uninterrupted = netfl.run(sending, tmp_path / "whole", progress=False)
    for before, after in ((2, 2), (4, 1), (1, 3)):
        folder = tmp_path / f"from {before} to {after}"
        netfl.run(sending, folder, progress=False, workers=before, observer=StopAfter(4))
        assert_equal_tables(uninterrupted, netfl.resume(folder, progress=False, workers=after))


def test_a_recording_is_replayed_to_the_bit(whole, tmp_path):
    _, folder = whole
    replayed = netfl.run(scenario({"kind": "replay", "run": folder}), tmp_path / "again", progress=False)
    assert_equal_tables(netfl.open_run(folder), replayed)


@pytest.mark.slow
def test_workers_compute_the_same(whole, tmp_path):
    access, folder = whole
    run = netfl.run(scenario(access), tmp_path / "two", progress=False, workers=2)
    assert_equal_tables(netfl.open_run(folder), run)


def test_without_learners_the_trace_is_the_same(whole, tmp_path):
    access, folder = whole
    trace = netfl.trace(scenario(access), tmp_path / "trace")
    for name in ("rounds", "deliveries", "merges", "merged_models", "merged_updates"):
        pd.testing.assert_frame_equal(trace.table(name), netfl.open_run(folder).table(name), obj=name)


def test_the_dry_run_and_the_diagnosis_count_all_deliveries(whole):
    access, folder = whole
    run = netfl.open_run(folder)
    assert len(run.deliveries) == run.rounds["delivered"].sum() > 0
    of_replica = run.deliveries[run.deliveries["replica"] == 0]
    assert participation_of_run(run, 0).delivered.sum() == len(of_replica[["round", "user"]].drop_duplicates())
    assert run_dry(scenario(access)).delivers
    assert run.rounds["delivered"].max() <= access.max_deliveries(6, 9)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"codec_down": "float16"}, "codec_down"),
        ({"evaluate": {"metrics": ["weight_divergence"]}}, "evaluate.metrics"),
    ],
    ids=["codec of broadcasts", "weight divergence"],
)
def test_what_only_the_server_has_is_refused(options, place):
    with pytest.raises(ScenarioError, match=f"{place}: .*nodes of the access"):
        netfl.load(scenario(Edges(edges=2), **options))


def test_nodes_and_their_states_are_in_the_forecast_of_memory():
    bytes_of = {}
    for nodes in (0, 2):
        access = Edges(edges=nodes) if nodes else Everyone()
        bytes_of[nodes] = MemoryEstimate.of(scenario(access), (2,), 3, 2)
    assert bytes_of[2].state_bytes == 3 * bytes_of[0].state_bytes > 0
    assert bytes_of[2].version_bytes > bytes_of[0].version_bytes


def test_a_user_whose_training_diverges_at_an_edge_is_named(tmp_path):
    learners = {"good": LEARNERS["FedAvg"], "bad": LEARNERS["FedAvg"] | {"lr": 1e38, "local_steps": 4}}
    run = netfl.run(scenario(Edges(edges=2), learners=learners), tmp_path / "run", progress=False)
    assert [line.partition(",")[0] for line in run.diverged] == ["bad", "bad"]
    assert all("user" in line for line in run.diverged)
    final = run.metrics[(run.metrics["metric"] == "loss") & (run.metrics["round"] == 9)]
    assert final["learner"].unique().tolist() == ["good"]
