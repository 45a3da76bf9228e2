"""Messages that leave the usual path: pushes that nobody pulls, two messages to one node, replies of many sizes."""

import numpy as np
import pytest

pytestmark = pytest.mark.extra
pytest.importorskip("flwr", reason="netfl-sim[flower] is not installed")

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from support.error_messages import assert_messages

from netfl.errors import ScenarioError
from netfl.flower import NetworkGrid
from netfl.flower.grid import FIRST_NODE

LOSSLESS = {"name": "lossless", "users": 2, "rounds": 9, "access": {"kind": "bernoulli", "probability": 1.0}}


def message(user, kind="train", **records):
    return Message(RecordDict(records or {"arrays": ArrayRecord([np.zeros(3)])}), FIRST_NODE + user, kind)


def messages(kind="train", users=2, **records):
    return [message(user, kind, **records) for user in range(users)]


def noting_client(calls):
    """Return a ClientApp that notes the types of its messages, and counts those to each node in its context."""
    app = ClientApp()

    def answer(incoming, context):
        calls.append(incoming.metadata.message_type)
        count = context.state.metric_records.get("calls", MetricRecord({"count": 0}))["count"] + 1
        context.state["calls"] = MetricRecord({"count": count})
        return Message(RecordDict({"metrics": MetricRecord({"count": count})}), reply_to=incoming)

    for kind in ("train", "evaluate", "query"):
        getattr(app, kind)()(answer)
        getattr(app, kind)("second")(answer)
    return app


def padding_client():
    """Return a ClientApp whose reply has a ConfigRecord of as many bytes as the message asks for, times user + 1."""
    app = ClientApp()

    @app.train()
    def train(incoming, context):
        count = incoming.content["config"]["bytes"] * (context.node_config["partition-id"] + 1)
        return Message(RecordDict({"x": ConfigRecord({"b": bytes(count)})}), reply_to=incoming)

    return app


def counts(replies):
    return [reply.content["metrics"]["count"] for reply in replies]


def test_pushed_messages_get_a_round_before_the_next_exchange():
    calls = []
    with NetworkGrid(LOSSLESS, noting_client(calls), sizes="scenario") as grid:
        for expected in (2, 4, 6):
            grid.push_messages(messages())
            assert counts(grid.send_and_receive(messages("query"))) == [expected, expected]
        assert (grid.round, calls) == (3, ["train", "train", "query", "query"] * 3)


@pytest.mark.parametrize("then", ["train", "query", "push", "finish"])
def test_a_push_precedes_whatever_follows_it(then):
    calls = []
    grid = NetworkGrid(LOSSLESS, noting_client(calls), sizes="scenario")
    pushed = list(grid.push_messages(messages()))
    assert (grid.round, calls) == (0, [])
    if then == "push":  # a second message to the same nodes
        grid.push_messages(messages("train.second"))
    elif then == "finish":
        grid.finish()
    else:
        grid.send_and_receive(messages(f"{then}.second"))
    assert calls[:2] == ["train", "train"]
    if then != "finish":
        assert counts(grid.pull_messages(pushed)) == [1, 1]
        grid.close()


def test_pushes_one_by_one_share_a_round():
    calls = []
    with NetworkGrid(LOSSLESS, noting_client(calls), sizes="scenario") as grid:
        pushed = [*grid.push_messages([message(0)]), *grid.push_messages([message(1)])]
        assert counts(grid.pull_messages(pushed)) == [1, 1]
        assert grid.round == 1


def test_two_messages_to_one_node_are_both_answered_in_their_order():
    calls = []
    with NetworkGrid(LOSSLESS, noting_client(calls)) as grid:
        replies = list(grid.send_and_receive([message(0), message(0, "train.second"), message(1)]))
        for user, expected in ((0, [1, 2]), (1, [1])):
            assert counts(reply for reply in replies if reply.metadata.src_node_id == FIRST_NODE + user) == expected
        assert grid.round == 1


def test_one_exchange_may_have_messages_of_several_kinds():
    calls = []
    with NetworkGrid(LOSSLESS, noting_client(calls), evaluation="network") as grid:
        replies = list(grid.send_and_receive([*messages("train"), *messages("evaluate"), *messages("query")]))
        assert len(replies) == 6
        assert grid.round == 2


def test_a_refused_exchange_leaves_the_grid_as_it_was():
    with NetworkGrid(LOSSLESS | {"rounds": 2}, noting_client([]), sizes="scenario") as grid:
        with pytest.raises(ValueError, match="there is no node 1002"):
            grid.send_and_receive([message(0), message(2)])
        with pytest.raises(ValueError, match="there is no node 1002"):
            grid.push_messages([message(0), message(2)])
        for expected in (1, 2):
            assert counts(grid.send_and_receive(messages())) == [expected, expected]
        with pytest.raises(ScenarioError, match="rounds"):
            grid.send_and_receive(messages())
        assert counts(grid.send_and_receive(messages("query"))) == [3, 3]


def test_a_client_that_fails_leaves_its_context_as_it_was():
    app = ClientApp()

    @app.train()
    def train(incoming, context):
        count = len(context.state)
        context.state[f"r{count}"] = MetricRecord({"x": 1})
        if incoming.content["config"]["fails"]:
            raise ZeroDivisionError
        return Message(RecordDict({"metrics": MetricRecord({"count": count})}), reply_to=incoming)

    with NetworkGrid(LOSSLESS, app, sizes="scenario") as grid:
        for fails, expected in ((False, [0, 0]), (True, []), (False, [1, 1])):
            replies = grid.send_and_receive(messages(config=ConfigRecord({"fails": fails})))
            assert counts(reply for reply in replies if reply.has_content()) == expected


def uplink(grid):
    return grid.access.last.uplink_bits


def test_every_record_counts_from_the_first_round_each_reply_for_its_user():
    with NetworkGrid(LOSSLESS, padding_client()) as grid:
        for count in (25_000, 25_000, 50_000):
            config = ConfigRecord({"bytes": count, "empty": "", "none": [], "text": "ä"})
            grid.send_and_receive(messages(config=config))
            reply_bits = 8 * (3 * count + 2 * len("b"))
            assert uplink(grid) == reply_bits or count == 50_000
        names = len("bytes") + len("empty") + len("none") + len("text")
        assert grid.access.last.downlink_bits == 8 * (names + 8 + 2)


def test_a_reply_that_was_computed_to_know_its_size_is_not_computed_again():
    calls = []
    with NetworkGrid(LOSSLESS, noting_client(calls)) as grid:
        for expected in (1, 2, 3):
            assert counts(grid.send_and_receive(messages())) == [expected, expected]
        assert len(calls) == 6


def test_undelivered_replies_that_only_served_their_size_change_nothing():
    silent = LOSSLESS | {"access": {"kind": "bernoulli", "probability": [1.0, 1e-9]}}
    with NetworkGrid(silent, noting_client([])) as grid:
        for _ in range(3):
            replies = list(grid.send_and_receive(messages()))
            assert [reply.has_error() for reply in replies] == [False, True]
        assert counts(grid.send_and_receive(messages("query"))) == [4, 1]


def test_all_replies_can_be_computed_also_those_that_are_lost():
    everybody = {"kind": "bernoulli", "probability": 1.0, "deliveries": 1}
    with NetworkGrid(LOSSLESS | {"access": everybody}, noting_client([]), replies="all") as grid:
        for _ in range(3):
            replies = list(grid.send_and_receive(messages()))
            assert sorted(reply.has_error() for reply in replies) == [False, True]
        assert counts(grid.send_and_receive(messages("query"))) == [4, 4]


def test_a_user_does_not_reply_to_a_message_that_has_not_reached_it():
    absent = {"kind": "bernoulli", "probability": 0.5}
    with NetworkGrid(LOSSLESS | {"access": absent}, noting_client([]), replies="all") as grid:
        delivered = [0, 0]
        for _ in range(9):
            for reply in grid.send_and_receive(messages()):
                delivered[reply.metadata.src_node_id - FIRST_NODE] += reply.has_content()
        assert counts(grid.send_and_receive(messages("query"))) == [count + 1 for count in delivered]
        assert 0 < min(delivered) < 9


def test_the_growth_of_replies_is_named_where_a_network_is_designed_for_their_size():
    from support.small_network import PLAIN

    network = {"kind": "network", "round": {"kind": "first", "m": 2}, "compute": {"speed": 2.0, "samples": 1}}
    scenario = LOSSLESS | {"access": PLAIN | network}
    sizes = [MetricRecord({"x": 1.0}), MetricRecord({"x": [1.0] * 100})]
    app = ClientApp()

    @app.train()
    def train(incoming, context):
        count = len(context.state)
        context.state[f"r{count}"] = sizes[0]
        return Message(RecordDict({"metrics": sizes[count > 0]}), reply_to=incoming)

    record = ConfigRecord({"a": 1})
    with NetworkGrid(scenario, app) as grid:
        grid.send_and_receive(messages(config=record))
        grid.send_and_receive(messages(config=record))
        with pytest.raises(ScenarioError) as caught:
            grid.send_and_receive(messages(config=record))
        assert_messages(
            [str(caught.value)],
            ["max_update_bits: … grown from 72 to 6408 bits … designed for 72; … of the run: max_update_bits"],
        )
    with NetworkGrid(LOSSLESS, app) as grid:  # nothing is designed for a size
        for _ in range(3):
            grid.send_and_receive(messages(config=record))
        assert uplink(grid) == 2 * 6408
