"""The store of what devices keep: sparse by user, lent to its holders, in checkpoints of this form and of the last."""

import numpy as np
import pytest
import torch
from support.learner_factory import (
    USERS,
    a_round,
    learner,
    mixture,
    network,
    read_back,
    spec,
    split_and_merged,
)

from netfl.learning.aggregation.fedavgm import Fedavgm
from netfl.learning.aggregation.fedstale import Fedstale
from netfl.learning.aggregation.fedvarp import Fedvarp
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.codec import Codecs
from netfl.learning.codec.top_k import TopK
from netfl.learning.cohort import Cohort
from netfl.learning.device_store import CODEC_ERRORS, DeviceStore, UserPlaces, UserRows, rows_in_memory

LEARNERS = {
    "mifa": {"a": spec(aggregation=Mifa()), "b": spec(aggregation=Mifa(server_lr=0.3), lr=0.1)},
    "fedvarp": {"a": spec(aggregation=Fedvarp()), "plain": spec()},
    "fedstale": {"a": spec(aggregation=Fedstale()), "b": spec(aggregation=Fedstale(beta=1, server_lr=0.3))},
    "scaffold": {"a": spec(aggregation=Scaffold()), "b": spec(aggregation=Mifa(), local_steps=3)},
    "inner": {"a": spec(aggregation=Fedavgm(inner=Mifa()))},
    "codec": mixture(),
    "codec and mifa": {"a": spec(aggregation=Mifa()), "b": spec()},
}
REPLICAS = (0, 1)
TOP_K = Codecs(TopK(share=0.2))


def open_learner(name):
    codecs = Codecs()
    if name.startswith("codec"):
        codecs = TOP_K
    return learner(LEARNERS[name], REPLICAS, codecs=codecs)


def rounds():
    return list(zip(*(network(replica, 7) for replica in REPLICAS), strict=True))


def versions(batched):
    return [batched.version(lane) for lane in range(len(batched.lanes))]


def earlier_form(state):
    """Return *state* as netfl wrote it before the store: error feedback by user, and a dense table in the rule."""
    aggregations = [dict(kept) for kept in state["servers"]["aggregations"]]
    devices = {}
    for lane, named in state["devices"].items():
        for name, kept in named.items():
            if name == CODEC_ERRORS:
                pairs = zip(kept["users"].tolist(), kept["rows"], strict=True)
                devices[lane] = {user: row.clone() for user, row in pairs}
            else:
                table = kept["rows"].new_zeros(USERS, kept["rows"].shape[1])
                table[kept["users"]] = kept["rows"]
                aggregations[lane][name.removeprefix("aggregation.")] = table
    earlier = {**state, "servers": {**state["servers"], "aggregations": aggregations}, "devices": devices}
    if not devices:
        del earlier["devices"]
    return earlier


@pytest.mark.parametrize("form", ["file", "earlier", "earlier by workers", "workers", "used learner"])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_restored_learner_continues_with_what_devices_keep(name, form):
    """Equal in all bits, from a checkpoint of today, from one of before the store, and by several workers."""
    whole = open_learner(name)
    all_rounds = rounds()
    for current in all_rounds[:4]:
        whole.step(current)
    state = whole.state()
    if form.startswith("earlier"):
        state = earlier_form(state)
    if form.endswith("workers"):
        state = split_and_merged(state, len(LEARNERS[name]), len(REPLICAS), 4)
    restored = open_learner(name)
    if form == "used learner":
        for current in all_rounds[:2]:
            restored.step(current)
    restored.restore(read_back(state))
    for current in all_rounds[4:]:
        whole.step(current)
        restored.step(current)
    assert all(map(np.array_equal, versions(restored), versions(whole)))


@pytest.mark.parametrize("name", ["mifa", "scaffold", "codec and mifa"])
def test_users_that_never_deliver_are_not_stored(name):
    batched = open_learner(name)
    batched.step([a_round(1, (2, 0)), a_round(1, (0, 0), (3, 0))])
    batched.step([a_round(2, (2, 1)), a_round(2, (0, 1))])
    stored = batched.state()["devices"]
    assert stored
    for lane, named in stored.items():
        for kept in named.values():
            assert kept["users"].tolist() == [[2], [0, 3]][lane % 2]
            assert len(kept["rows"]) == len(kept["users"])
            assert kept["rows"].any(1).all()


def test_a_table_grows_with_the_users_that_deliver():
    """A million users take 8 bytes each, and no row; at most half as many rows more than needed are allocated."""
    users, replica = 10**6, np.zeros(1, np.int64)
    store = DeviceStore(users, replicas=1)
    rows = UserRows(torch.zeros(5), UserPlaces.of_all(users))
    store.adopt(0, {"last": rows, "mean": torch.zeros(5)})
    for count, user in enumerate([7, 999_999, 7, 3, 12, 500, 8, 9, 10], start=1):
        store.add(Cohort(replica, np.array([user]), replica, (slice(0, 1),)))
        rows.table[rows.places.of_user(user)] = float(user)
        assert len(rows.table) <= 1.5 * (count + 1)
    assert rows[torch.tensor([12, 4, 999_999])].tolist() == [[12.0] * 5, [0.0] * 5, [999_999.0] * 5]
    assert rows.places.in_order().tolist() == [7, 999_999, 3, 12, 500, 8, 9, 10]
    assert len(rows) == users


class MifaFromOnes(Mifa):
    """Begins with gradients of 1."""

    def open(self, users, current):
        state = super().open(users, current)
        state["last"].table[1:] = 1.0
        return state | {"mean": torch.ones_like(current)}


def test_rows_that_a_rule_has_written_are_kept():
    """The mean of the stored rows is the stored mean."""
    batched = learner({"a": spec(aggregation=MifaFromOnes())})
    batched.step([a_round(1, (2, 0), (0, 0))])
    state = batched.state()
    rows = state["devices"][0]["aggregation.last"]
    assert rows["users"].tolist() == [0, 1, 2, 3]
    assert (rows["rows"] == 1.0).all(1).tolist() == [False, True, False, True]
    mean = state["servers"]["aggregations"][0]["mean"]
    assert mean.numpy() == pytest.approx(rows["rows"].mean(0).numpy(), abs=1e-12)


def test_places_are_remembered_until_a_user_gets_one():
    places = UserPlaces(5)
    users = torch.tensor([3, 1])
    assert places.of(users).tolist() == [0, 0]
    places.add(1)
    assert places.of(users).tolist() == [0, 1]
    assert places.of(users) is places.of(users)
    places.add(3)
    assert places.of(users).tolist() == [2, 1]
    places.clear()
    assert places.of(users).tolist() == [0, 0]


@pytest.mark.parametrize(("users", "deliveries", "rows"), [(10, 4, 6), (10, 100, 10), (10**6, 0, 0)])
def test_the_forecast_counts_no_more_rows_than_deliveries_fill(users, deliveries, rows):
    assert rows_in_memory(users, deliveries) == rows
