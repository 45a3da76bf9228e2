"""The grid: rounds of the network as exchanges of Flower's messages."""

import copy

import numpy as np
import pytest

pytestmark = pytest.mark.extra
pytest.importorskip("flwr", reason="netfl-sim[flower] is not installed")

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from support.flower_apps import adding_client, arrays, averaging
from support.small_network import PLAIN

import netfl
from netfl.errors import ScenarioError
from netfl.flower import NetworkGrid
from netfl.flower.grid import FIRST_NODE
from netfl.flower.message_sizes import message_bits

WHOLE = {"kind": "first", "m": 4}
FAST = {"speed": 2.0, "samples": 1}


def scenario_of(access=None, users=4, rounds=20, **changes):
    """A network in which, with 1000 bits, users 1, 2, 3 and 0 send in turn, and arrive at 2, 3, 4 and 5 s."""
    network = copy.deepcopy(PLAIN) | {"kind": "network", "round": WHOLE, "compute": FAST} | (access or {})
    return {"name": "plain", "users": users, "rounds": rounds, "access": network, "record": "all"} | changes


def messages_of(grid, value=0.0, users=None, kind="train", **config):
    users = range(grid.scenario.users) if users is None else users
    content = {"arrays": arrays(np.full((4, 5), value))} | ({"config": ConfigRecord(config)} if config else {})
    return [Message(RecordDict(dict(content)), FIRST_NODE + user, kind) for user in users]


def user_of(reply):
    return reply.metadata.src_node_id - FIRST_NODE


def value_of(reply):
    return reply.content["arrays"].to_numpy_ndarrays()[0][0, 0]


def split(replies):
    """Return the users with content, in order, and the errors by user."""
    replies = list(replies)
    errors = {user_of(reply): reply.error for reply in replies if reply.has_error()}
    return [user_of(reply) for reply in replies if reply.has_content()], errors


def test_an_exchange_is_a_round_and_only_delivered_updates_are_computed():
    client, calls = adding_client()
    with NetworkGrid(scenario_of({"round": {"kind": "first", "m": 2}}), client, sizes="scenario") as grid:
        replies = list(grid.send_and_receive(messages_of(grid, 3.0)))
        delivered, errors = split(replies)
        assert (grid.round, grid.time_s) == (1, pytest.approx(3.0, abs=1e-5))
        assert delivered == calls == [1, 2]
        assert [value_of(reply) for reply in replies[:2]] == [4.0, 4.0]
        assert sorted(errors) == [0, 3]
        assert {error.code for error in errors.values()} == {ErrorCode.REPLY_MESSAGE_UNAVAILABLE}
        assert errors[3].reason == "user 3: update outstanding when the round closed at 3 s of simulated time"
        split(grid.send_and_receive(messages_of(grid)))
        assert calls == [1, 2, 0, 1]
        counts = grid.events["kind"].value_counts()
        assert (counts["delivered"], counts["superseded"] + counts["late"]) == (4, 2)


def test_only_the_users_that_are_addressed_take_part():
    client, calls = adding_client()
    with NetworkGrid(scenario_of({"round": {"kind": "first", "m": 2}}), client) as grid:
        delivered, errors = split(grid.send_and_receive(messages_of(grid, users=[3, 1])))
        assert sorted(delivered) == sorted(calls) == [1, 3]
        assert not errors
        assert set(grid.events.query("kind == 'received'")["user"]) == {1, 3}


@pytest.mark.parametrize("by", ["timeout", "ttl"])
def test_replies_after_the_timeout_in_simulated_seconds_are_errors(by):
    client, calls = adding_client()
    with NetworkGrid(scenario_of(), client, sizes="scenario") as grid:
        messages = messages_of(grid)
        if by == "ttl":
            for message in messages:
                message.metadata.ttl = 3.5
        delivered, errors = split(grid.send_and_receive(messages, timeout=3.5 if by == "timeout" else None))
        assert delivered == calls == [1, 2]
        assert errors[3].reason == "user 3: the update arrived after 4 s, later than the timeout of 3.5 s"
        assert grid.time_s == pytest.approx(5.0, abs=1e-5)


def test_reasons_of_failures_name_outcome_and_cause():
    down = {"kind": "maintenance", "windows": [{"nodes": [1], "start": 0, "duration": "1 h"}]}
    access = {"outages": [down], "round": {"kind": "first", "m": 4, "deadline": 20.0}}
    with NetworkGrid(scenario_of(access), adding_client()[0]) as grid:
        delivered, errors = split(grid.send_and_receive(messages_of(grid)))
    assert sorted(delivered) == [0, 2, 3]
    assert errors[1].code == ErrorCode.NODE_UNAVAILABLE
    assert errors[1].reason == "user 1: user not reached when the round closed at 20 s of simulated time"
    fading = {"channel": [{"kind": "constant", "gain": "-300 dB"}], "unreachable": "keep"}
    mac = {"mac": {"kind": "pure_aloha", "backoff": "1 s", "max_attempts": 1}, "round": {"kind": "first", "m": 4}}
    with NetworkGrid(scenario_of(fading | mac), adding_client()[0]) as grid:
        delivered, errors = split(grid.send_and_receive(messages_of(grid)))
    assert not delivered
    assert all(error.code == ErrorCode.REPLY_MESSAGE_UNAVAILABLE for error in errors.values())
    assert errors[0].reason.startswith("user 0: update faded at ") or "collided" in errors[0].reason


def test_state_of_a_node_is_kept_between_messages():
    with NetworkGrid(scenario_of(), adding_client()[0]) as grid:
        for count in (1, 2, 3):
            replies = grid.send_and_receive(messages_of(grid))
            assert [reply.content["metrics"]["calls"] for reply in replies] == [count] * 4


def test_a_client_cannot_change_messages_of_others():
    app, seen = ClientApp(), []

    @app.train()
    def train(message, context):
        seen.append(message.content["config"]["x"])
        message.content["config"]["x"] = 99
        return Message(message.content, reply_to=message)

    with NetworkGrid(scenario_of(), app) as grid:
        messages = messages_of(grid, x=1)
        grid.send_and_receive(messages)
    assert seen == [1, 1, 1, 1]
    assert messages[0].content["config"]["x"] == 1


def test_a_client_that_fails_is_an_error_as_in_flower():
    app = ClientApp()

    @app.train()
    def train(message, context):
        if context.node_config["partition-id"] == 2:
            raise ZeroDivisionError("two")
        return Message(message.content, reply_to=message)

    with NetworkGrid(scenario_of(), app) as grid:
        delivered, errors = split(grid.send_and_receive(messages_of(grid)))
        assert sorted(delivered) == [0, 1, 3]
        assert errors[2].code == ErrorCode.CLIENT_APP_RAISED_EXCEPTION
        assert grid.clients.errors == ["user 2: ZeroDivisionError: two"]


def test_sizes_are_those_of_the_messages_and_replies():
    with NetworkGrid(scenario_of(), adding_client(size=100)[0]) as grid:
        for _ in range(2):
            messages = messages_of(grid, x=1)
            replies = list(grid.send_and_receive(messages))
        events = grid.events
        assert set(events.query("kind == 'broadcast'")["value"]) == {message_bits(messages[0])}
        assert set(events.query("kind == 'sent'")["value"]) == {message_bits(replies[0])}
        frame_s = message_bits(replies[0]) / 1000  # at 1 kbps
        times_s = events.query("kind == 'delivered' and round == 1")["time_s"]
        assert np.diff(times_s) == pytest.approx([frame_s] * 3)


def test_sizes_of_the_scenario_give_the_trace(tmp_path):
    scenario = netfl.load(scenario_of(rounds=5))
    trace = netfl.trace(scenario, tmp_path / "trace", progress=False)
    with NetworkGrid(scenario, adding_client()[0], sizes="scenario") as grid:
        for _ in range(5):
            grid.send_and_receive(messages_of(grid))
        grid.finish()
    columns = ["time_s", "kind", "user", "value", "detail"]
    ours, theirs = (events.sort_values(columns)[columns] for events in (grid.events, trace.events))
    assert ours.astype(str).values.tolist() == theirs.astype(str).values.tolist()


def test_finish_ends_outstanding_updates_as_in_a_shorter_trace(tmp_path):
    rule = {"round": {"kind": "first", "m": 2}}
    trace = netfl.trace(netfl.load(scenario_of(rule, rounds=3)), tmp_path / "trace", progress=False)
    with NetworkGrid(scenario_of(rule, rounds=20), adding_client()[0], sizes="scenario") as grid:
        for _ in range(3):
            grid.send_and_receive(messages_of(grid))
        grid.finish()
    counts = trace.events["kind"].value_counts().to_dict()
    assert grid.events["kind"].value_counts().to_dict() == counts
    assert counts["unfinished"] == 2


def test_evaluation_and_queries_take_no_time_and_reach_all():
    with NetworkGrid(scenario_of(), adding_client()[0]) as grid:
        replies = list(grid.send_and_receive(messages_of(grid, kind="evaluate")))
        assert [reply.content["metrics"]["accuracy"] for reply in replies] == [0.25] * 4
        replies = list(grid.send_and_receive(messages_of(grid, kind="query")))
        assert [reply.content["metrics"]["user"] for reply in replies] == [0, 1, 2, 3]
        assert (grid.round, grid.time_s) == (0, 0.0)


def test_evaluation_over_the_network_is_a_round_with_small_replies():
    with NetworkGrid(
        scenario_of({"round": {"kind": "first", "m": 3}}), adding_client()[0], evaluation="network"
    ) as grid:
        for _ in range(2):
            delivered, errors = split(grid.send_and_receive(messages_of(grid, kind="evaluate", x=1)))
            assert (len(delivered), len(errors)) == (3, 1)
        assert grid.round == 2
        sent = grid.events.query("kind == 'sent'").groupby("round")["value"].max()
        record = MetricRecord({"num-examples": 1, "accuracy": 0.25})
        assert sent[2] == 8 * record.count_bytes()


def test_replies_are_pulled_when_the_network_has_delivered_them():
    client, calls = adding_client()
    with NetworkGrid(scenario_of({"round": "asynchronous"}), client, sizes="scenario") as grid:
        pushed = dict(zip(grid.push_messages(messages_of(grid, 5.0)), range(4), strict=True))
        assert (grid.round, calls) == (0, [])
        seen = []
        while len(seen) < 3:
            replies = list(grid.pull_messages(pushed))
            seen += [
                (pushed[reply.metadata.reply_to_message_id], round(grid.time_s, 3), value_of(reply))
                for reply in replies
            ]
        assert seen == [(1, 2.0, 6.0), (2, 3.0, 6.0), (3, 4.0, 6.0)]
        assert calls == [1, 2, 3]
        (again,) = grid.push_messages(messages_of(grid, 7.0, users=[2]))
        replies = {}
        while len(replies) < 2:
            replies |= {reply.metadata.reply_to_message_id: reply for reply in grid.pull_messages([*pushed, again])}
        assert value_of(replies[again]) == 8.0
        assert {user_of(reply) for reply in replies.values()} == {0, 2}
        assert not list(grid.pull_messages([*pushed, again]))


def test_a_message_stays_pending_while_its_user_starts_over():
    """A frame of an abandoned update arrives late, and says nothing about the update that is under way."""
    client, calls = adding_client()
    with NetworkGrid(scenario_of({"round": {"kind": "first", "m": 1}}), client, sizes="scenario") as grid:
        pushed, replies = list(grid.push_messages(messages_of(grid))), []
        while len(replies) < 4:
            replies += grid.pull_messages(pushed)
        counts = grid.events["kind"].value_counts()
    assert not any(reply.has_error() for reply in replies)
    assert sorted(calls) == [0, 1, 2, 3]
    assert counts["late"] > 0


def test_an_update_of_an_earlier_round_is_a_reply_of_the_round_in_which_it_arrives():
    access = {"round": {"kind": "first", "m": 1}, "on_new_version": "finish"}
    client, _ = adding_client(step=0.5)
    with NetworkGrid(scenario_of(access), client) as grid:
        arrived = []
        for version in range(6):
            replies = grid.send_and_receive(messages_of(grid, float(version)))
            arrived += [(version, user_of(reply), value_of(reply)) for reply in replies if reply.has_content()]
        bases = grid.events.query("kind == 'delivered'")
    assert [(version, user) for version, user, _ in arrived] == list(
        zip(bases["round"] - 1, bases["user"], strict=True)
    )
    assert any(value < version for version, _, value in arrived)
    assert all(value == int(value) + 0.5 <= version + 0.5 for version, _, value in arrived)


def test_direct_accesses_and_replays_work(tmp_path):
    direct = {"name": "direct", "users": 6, "rounds": 8, "access": {"kind": "bernoulli", "probability": 0.4}}
    client, calls = adding_client()
    with NetworkGrid(direct, client, sizes="scenario") as grid:
        result = averaging().start(grid, arrays(np.zeros((4, 5))), num_rounds=8)
        delivered = grid.events.query("kind == 'delivered'")["user"].tolist()
    assert calls == delivered
    assert result.arrays.to_numpy_ndarrays()[0][0, 0] == pytest.approx(
        len(set(grid.events.query("kind == 'delivered'")["round"]))
    )
    trace = netfl.trace(direct, tmp_path / "trace", progress=False)
    replay = direct | {"access": {"kind": "replay", "run": str(trace.folder)}}
    client, calls = adding_client()
    with NetworkGrid(replay, client, sizes="scenario") as grid:
        averaging().start(grid, arrays(np.zeros((4, 5))), num_rounds=8)
    assert calls == trace.deliveries["user"].tolist()
    with NetworkGrid(replay, client, sizes="scenario") as grid, pytest.raises(ScenarioError, match="sample all nodes"):
        grid.send_and_receive(messages_of(grid, users=[1]))


def test_rounds_of_the_scenario_are_the_limit():
    with NetworkGrid(scenario_of(rounds=2), adding_client()[0]) as grid:
        for _ in range(2):
            grid.send_and_receive(messages_of(grid))
        with pytest.raises(ScenarioError, match=r"rounds: the ServerApp needs more than the 2 rounds"):
            grid.send_and_receive(messages_of(grid))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sizes": "many"}, r"sizes: no such value \('many'\); write messages or scenario"),
        ({"replies": "no"}, r"replies: no such value \('no'\); write delivered or all"),
        ({"evaluation": "never"}, r"evaluation: no such value \('never'\); write direct or network"),
    ],
)
def test_wrong_options_are_refused(options, problem):
    with pytest.raises(ScenarioError, match=problem):
        NetworkGrid(scenario_of(), adding_client()[0], **options)


def test_scenarios_without_rounds_are_refused():
    scenario = scenario_of({"traffic": {"kind": "saturated", "size": {"distribution": "fixed", "mean": "1 kB"}}})
    for section, keys in ((scenario, ["rounds"]), (scenario["access"], ["round", "update_size", "broadcast_rate"])):
        for key in [*keys, *({"compute"} & section.keys())]:
            section.pop(key)
    with pytest.raises(ScenarioError, match="duration: Flower needs rounds"):
        NetworkGrid(scenario | {"duration": "1 min"}, adding_client()[0])


def test_closed_loops_are_refused():
    scenario = netfl.load("closed_loop")
    with pytest.raises(ScenarioError, match="needs the reports of netfl's learners, which do not run under Flower"):
        NetworkGrid(scenario, adding_client()[0])
