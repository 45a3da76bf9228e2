"""A warning names the backlog of versions that a unicast downlink gets where rounds close before all users have one."""

import pytest
from support.small_network import make

UNICAST = {"broadcast_rate": None, "downlink": {"mode": "unicast"}, "mac": {"kind": "round_robin"}}


def backlog_warnings(users=10, **overrides):
    access, context, _ = make(users, 1, **UNICAST | overrides)
    return [text for text in access.warnings(context) if text.startswith("backlog of versions")]


def test_round_that_closes_before_all_copies_are_sent():
    """Ten copies of 1 s; the first user may deliver after 1 s for the copy, 1 s of training and 1 s on the air."""
    (text,) = backlog_warnings(round={"kind": "first", "m": 1})
    assert "tower:0 needs 10 s or more to send a version to 10 users" in text
    assert "a round may close after 3 s" in text
    assert "replace" in text
    (text,) = backlog_warnings(downlink={"mode": "unicast", "queued_versions": "keep"})
    assert "ever older" in text


@pytest.mark.parametrize(
    "overrides",
    [
        {"round": {"kind": "first", "m": 8}},  # after 8 + 1 + 1 s
        {"round": {"kind": "first", "m": 10, "deadline": 10}},
        {"round": {"kind": "buffered", "size": 1}},  # each user gets its next version after its update
        {"downlink": {"mode": "multicast"}},
        {"selection": {"kind": "uniform", "m": 3}},  # 3 s
        {"users": 3},
        {"downlink": None, "broadcast_rate": 1e3},
    ],
)
def test_no_warning_where_a_round_lasts_for_all_copies(overrides):
    assert backlog_warnings(**overrides) == []


@pytest.mark.parametrize("rule", [{"kind": "first", "m": 7}, {"kind": "first", "m": 10, "deadline": 9.9}])
def test_warning_begins_where_a_round_may_be_shorter(rule):
    assert len(backlog_warnings(round=rule)) == 1
