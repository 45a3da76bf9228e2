"""Merges that are not possible are refused at the access, with the reason."""

import re

import pytest
from support.merging_accesses import Everyone

from netfl.errors import ModelError
from netfl.types import AccessContext, Delivery, Merge, NullRecorder, Round, VersionLedger, VersionRef, waves


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
    "there are nodes 0 to 2": [a_round(1, merge(node=3))],
    "its number is not larger than that of version 1 before it": [a_round(1, merge(), merge())],
    "the server merges once in a round, last, and makes version 1": [a_round(1, merge(), SERVER_1, merge(node=2))],
    "the server merges models or, without a merge": [a_round(1, merge(), SERVER_1, deliveries=(delivery(),))],
    "it needs version 2 of node 1": [a_round(1, merge(number=3, deliveries=(delivery(base=2),)))],
    "it needs version 0 of node 1": [a_round(1, merge()), a_round(2, merge(number=2, deliveries=(delivery(),)))],
    "it needs version 0 of node 0": [a_round(1), a_round(2, merge(models=((0, 0, 1.0),)))],
    "the weights of its models have no positive sum": [a_round(1, merge(models=((0, 0, 0.0),)))],
}


@pytest.mark.parametrize("reason", WRONG)
def test_an_impossible_merge_is_refused(reason):
    ledger = VersionLedger(nodes=2)
    *possible, wrong = WRONG[reason]
    for each in possible:
        ledger.add(each)
    with pytest.raises(ValueError, match=f"^merge .* of node .* in round .*{re.escape(reason)}"):
        ledger.add(wrong)


def test_older_versions_are_kept_as_merges_and_rounds_state():
    ledger = VersionLedger(nodes=1)
    ledger.add(a_round(1, merge(oldest=0), oldest=0))
    ledger.add(a_round(2, merge(number=2, deliveries=(delivery(),), oldest=1), oldest=0, needed=(0,)))
    ledger.add(a_round(3, merge(number=5, models=((0, 0, 1.0), (1, 1, 1.0), (0, 2, 1.0)))))
    with pytest.raises(ValueError, match="it needs version 1 of node 1"):
        ledger.add(a_round(4, merge(number=6, models=((1, 1, 1.0),))))


def test_a_merge_has_deliveries_or_models():
    with pytest.raises(ValueError, match="merge 1 of node 1 has deliveries and models; make it two merges"):
        merge(deliveries=(delivery(),), models=((0, 0, 1.0),))


def test_an_access_that_states_no_nodes_may_not_merge():
    class Undeclared(Everyone):
        """It does not state its nodes.

        Example::

            kind: undeclared
        """

        def rounds(self, context):
            yield a_round(1, merge())

    context = AccessContext(2, 1, 0, None, None, 1.0, 1.0, NullRecorder())
    with pytest.raises(ModelError, match=r"there are nodes 0 to 0, see Access\.merging_nodes"):
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
