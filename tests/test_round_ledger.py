"""Rounds that are not possible are refused at the access, with the reason."""

import math
import re
from dataclasses import replace

import pytest
from support.merging_accesses import Everyone

from netfl.errors import ModelError
from netfl.types import AccessContext, Delivery, Merge, NullRecorder, Round, RoundLedger, VersionRef, waves


def delivery(user=0, base=0):
    return Delivery(user=user, base=base, sent_s=0.0, arrived_s=1.0)


def merge(node=1, number=1, **values):
    return Merge(**{"node": node, "number": number, "round": 0, "time_s": 1.0} | values)


def a_round(index, *merges, deliveries=(), oldest=None, needed=None):
    return Round(
        index=index,
        opened_s=index - 1.0,
        closed_s=float(index),
        deliveries=deliveries,
        oldest=index if oldest is None else oldest,
        merges=merges,
        needed=needed,
    )


SERVER_1 = merge(node=0, number=1, round=1, models=((1, 1, 1.0),))

WRONG = {
    "there are nodes 0 to 2; state more in Access.merging_nodes": [a_round(1, merge(node=3))],
    "node, number and round (0) are whole numbers": [a_round(1, merge(number=4.5))],
    "its number follows version 1; give a larger one, such as 2": [a_round(1, merge(), merge())],
    "its oldest version is 2; give one from 0 to 1": [a_round(1, merge(oldest=2))],
    "its oldest version is -1; give one from 0 to 1": [a_round(1, merge(oldest=-1))],
    "the time of its version is round 7; give one from 0 to 1": [a_round(1, merge(round=7))],
    "the time of its version is round -1; give one from 0 to 1": [a_round(1, merge(round=-1))],
    "it is at 0.5 s; give merges in the order of time, until 1 s": [a_round(1, merge(), merge(node=2, time_s=0.5))],
    "it is at 1.5 s; give merges in the order of time, until 1 s": [a_round(1, merge(time_s=1.5))],
    "it is at nan s; give merges in the order of time, until 1 s": [a_round(1, merge(time_s=math.nan))],
    "the server merges once in a round, last, and makes version 1 of round 1": [
        a_round(1, merge(), SERVER_1, merge(node=2))
    ],
    "last, and makes version 1 of round 1": [a_round(1, merge(), replace(SERVER_1, round=0))],
    "the server merges models or, without a merge": [a_round(1, merge(), SERVER_1, deliveries=(delivery(),))],
    "it needs version 2 of node 1; there are 0": [a_round(1, merge(number=3, deliveries=(delivery(base=2),)))],
    "it needs version 0 of node 1; there are 1": [
        a_round(1, merge()),
        a_round(2, merge(number=2, deliveries=(delivery(),))),
    ],
    "it needs version 0 of node 0; there are 1 to 1": [a_round(1), a_round(2, merge(models=((0, 0, 1.0),)))],
    "it needs version 1 of node 0; there is 0": [a_round(1, merge(models=((0, 1, 1.0),)))],
    "it needs version 1 of node 0; there are 0, 2": [
        a_round(1),
        a_round(2, oldest=0, needed=(0,)),
        a_round(3, merge(models=((0, 1, 1.0),))),
    ],
    "the weights of its models are [0.0]; give finite ones from 0 on, not all 0": [
        a_round(1, merge(models=((0, 0, 0.0),)))
    ],
    "the weights of its models are [2.0, -1.0]": [a_round(1, merge(models=((0, 0, 2.0), (0, 0, -1.0))))],
    "the weights of its models are [inf]": [a_round(1, merge(models=((0, 0, math.inf),)))],
    "the weights of its models are [nan]": [a_round(1, merge(models=((0, 0, math.nan),)))],
}


@pytest.mark.parametrize("reason", WRONG)
def test_an_impossible_merge_is_refused(reason):
    ledger = RoundLedger(users=3, nodes=2, max_deliveries=3)
    *possible, wrong = WRONG[reason]
    for each in possible:
        assert ledger.add_merges(each) == ""
    problem = ledger.add_merges(wrong)
    assert re.match(r"merge .* of node .* in round \d: ", problem)
    assert reason in problem


IMPOSSIBLE = {
    "the delivery of user 3 in round 2: there are users 0 to 2": delivery(user=3),
    "the delivery of user -1 in round 2: there are users 0 to 2": delivery(user=-1),
    "the delivery of user 0 in round 2: it starts from version 2; there are 1 to 1": delivery(base=2),
    "it starts from version 0; there are 1 to 1": delivery(base=0),
    "it is sent at 0 s, arrived at nan s, and the round closed at 2 s": replace(delivery(base=1), arrived_s=math.nan),
    "it is sent at 0 s, arrived at 3 s, and the round closed at 2 s": replace(delivery(base=1), arrived_s=3.0),
    "it is sent at 1.5 s, arrived at 1 s": replace(delivery(base=1), sent_s=1.5),
}


@pytest.mark.parametrize("reason", IMPOSSIBLE)
def test_an_impossible_delivery_is_refused(reason):
    ledger = RoundLedger(users=3, nodes=0, max_deliveries=3)
    ledger.add_merges(a_round(1))
    possible = delivery(base=1)
    assert ledger.delivery_problem(a_round(2, deliveries=(possible,))) == ""
    assert reason in ledger.delivery_problem(a_round(2, deliveries=(possible, IMPOSSIBLE[reason])))


def test_more_deliveries_than_the_access_states_are_refused():
    ledger = RoundLedger(users=3, nodes=1, max_deliveries=1)
    below = a_round(1, merge(deliveries=(delivery(),)), deliveries=(delivery(user=1),))
    assert ledger.delivery_problem(below) == "round 1 has 2 deliveries, but max_deliveries states 1 at most"


def test_older_versions_are_kept_as_merges_and_rounds_state():
    ledger = RoundLedger(users=3, nodes=1, max_deliveries=3)
    rounds = [
        a_round(1, merge(oldest=0), oldest=0),
        a_round(2, merge(number=2, deliveries=(delivery(),), oldest=1), oldest=0, needed=(0,)),
        a_round(3, merge(number=5, models=((0, 0, 1.0), (1, 1, 1.0), (0, 2, 1.0)))),
    ]
    assert [ledger.add_merges(each) for each in rounds] == ["", "", ""]
    last = a_round(4, merge(number=6, models=((1, 1, 1.0),)))
    assert ledger.add_merges(last).endswith("it needs version 1 of node 1; there are 5")


def test_a_merge_has_deliveries_or_models():
    with pytest.raises(ValueError, match="merge 1 of node 1 has deliveries and models; make it two merges"):
        merge(deliveries=(delivery(),), models=((0, 0, 1.0),))


def test_a_model_of_a_merge_has_a_weight():
    with pytest.raises(ValueError, match=r"merge 1 of node 1 has a model \(1, 6\); give node, number and weight"):
        merge(models=((1, 6),))


def test_an_access_that_states_no_nodes_may_not_merge():
    class Undeclared(Everyone):
        """It does not state its nodes.

        Example::

            kind: undeclared
        """

        def rounds(self, context):
            yield a_round(1, merge())

    context = AccessContext(2, 1, 0, None, None, 1.0, 1.0, NullRecorder())
    with pytest.raises(
        ModelError, match=r"merge 1 of node 1 in round 1: there are nodes 0 to 0; state more in Access\.merging_nodes"
    ):
        Undeclared().open(context).next_round()


def test_waves_hold_merges_that_need_nothing_of_each_other():
    merges = [
        merge(node=1, number=1, deliveries=(delivery(),)),
        merge(node=2, number=1, deliveries=(delivery(),)),
        merge(node=1, number=2, models=((1, 1, 1.0), (2, 1, 1.0))),
        merge(node=3, number=1, models=((2, 1, 1.0),)),
        merge(node=3, number=2),
        merge(node=0, number=1, round=1, models=((3, 2, 1.0),)),
    ]
    assert [[each.version for each in wave] for wave in waves(merges)] == [
        [VersionRef(1, 1, 0), VersionRef(2, 1, 0)],
        [VersionRef(1, 2, 0), VersionRef(3, 1, 0)],
        [VersionRef(3, 2, 0)],
        [VersionRef(0, 1, 1)],
    ]
    assert [*waves(())] == []


def test_the_server_merges_last_what_it_got():
    plain = a_round(1, deliveries=(delivery(),))
    assert plain.all_deliveries() is plain.deliveries
    (of_server,) = plain.all_merges()
    assert of_server.version == VersionRef(0, 1, 1)
    assert of_server.deliveries == plain.deliveries
    below = a_round(1, merge(deliveries=(delivery(user=2),)), deliveries=(delivery(user=1),))
    assert [each.user for each in below.all_deliveries()] == [2, 1]
    assert [each.node for each in below.all_merges()] == [1, 0]
    assert [each.node for each in a_round(1, merge(), SERVER_1).all_merges()] == [1, 0]
