"""Users that return at the instant at which a round closes, and versions that reach busy users."""

from collections import Counter

import pytest
from support.recorders import Memory
from support.small_network import play

from netfl.network.event_log import EventLog
from netfl.types import OUTCOMES

WHOLE = {"mac": {"kind": "round_robin", "poll": 0}, "broadcast_rate": "1e30 bps"}
STAR = {"kind": "star", "radius": "1 m", "rate": "1e30 bps", "delay": 0}
DEADLINE_S = 10.0


def calendar(folder, node, start_s=5.0, end_s=20.0):
    folder.mkdir(exist_ok=True)
    path = folder / "away.csv"
    path.write_text(f"node,start_s,end_s\n{node},{start_s},{end_s}\n")
    return [{"kind": "calendar", "file": str(path)}]


def windows(folder, node):
    path = folder / "windows.csv"
    path.write_text("user,start_s,end_s\n0,0,5\n0,20,1000\n1,0,1000\n2,0,1000\n")
    return [{"kind": "availability", "file": str(path)}]


def renewal(folder, node):
    up = {"distribution": "fixed", "mean": 5.0}
    return [{"kind": "renewal", "nodes": "users", "up": up, "down": {"distribution": "fixed", "mean": 15.0}}]


RETURNS = {
    "calendar": lambda folder: calendar(folder, "0"),
    "tower": lambda folder: calendar(folder, "tower:0"),
    "link": lambda folder: calendar(folder, "tower:0-server"),
    "two": lambda folder: calendar(folder, "0") + calendar(folder / "second", "tower:0", 6.0, 20.0),
    "availability": lambda folder: windows(folder, "0"),
    "renewal": lambda folder: renewal(folder, "0"),
}
"""Outages that end at 20 s, with the second deadline of 10 s; those of `renewal` at other times, too."""


def starts(log):
    """Return the number of updates that begin, by user, base and time to a nanosecond."""
    return Counter((row[3], round(row[1], 6)) for row in log.rows if row[0] == "received")


def check_updates(log):
    """Check that each update begins once and ends once, and that no user begins two at one instant."""
    begun = Counter((row[3], row[5]) for row in log.rows if row[0] == "received")
    ended = Counter((row[3], row[5]) for row in log.rows if row[0] in OUTCOMES)
    assert begun == ended
    assert set(starts(log).values()) == {1}


@pytest.mark.parametrize("on_new_version", ["restart", "finish", "ignore"])
@pytest.mark.parametrize("train_s", [0.0, 0.5, 8.0])
@pytest.mark.parametrize("kind", RETURNS)
@pytest.mark.parametrize("downlink", [False, True])
def test_user_that_returns_at_a_deadline_gets_the_newest_version_alone(
    tmp_path, kind, train_s, on_new_version, downlink
):
    overrides = {"topology": STAR, "outages": RETURNS[kind](tmp_path), "on_new_version": on_new_version}
    overrides |= {"compute": {"speed": 1.0, "samples": train_s}, "energy": {"per_training": 3.0}}
    if downlink:
        overrides |= {"broadcast_rate": None, "downlink": {"mode": "multicast"}}
    rule = {"kind": "first", "deadline": DEADLINE_S, "losses": "unknown"}
    _, log = play(3, 5, round=rule, **(WHOLE | overrides))
    check_updates(log)
    begun = Counter(row[3] for row in log.rows if row[0] == "received")
    assert log.spendings["begun"].tolist() == [begun[user] for user in range(3)]
    if not downlink and on_new_version == "restart" and kind != "renewal":
        returns = [row[5] for row in log.rows if row[0] == "received" and row[3] == 0 and row[1] == pytest.approx(20.0)]
        assert returns == [2.0], "the third version, made by the round that closes at 20 s"


def test_returning_user_pays_one_training(tmp_path):
    """User 0 trains on versions 0 and 2, 3 J each: the version of 10 s is gone when it returns at 20 s."""
    rule = {"kind": "first", "m": 2, "deadline": DEADLINE_S}
    overrides = {"topology": STAR, "outages": calendar(tmp_path, "0"), "energy": {"per_training": 3.0}}
    overrides["compute"] = {"speed": 0.125, "samples": 1}
    _, log = play(2, 3, round=rule, **(WHOLE | overrides))
    assert log.spendings["train_J"][0] == pytest.approx(6.0)
    assert log.spendings["begun"][0] == 2


def test_battery_that_is_up_at_a_deadline_pays_for_the_newest_version(tmp_path):
    """A battery is charged to 4 J, of which a training takes 3 J, when a round closes: 80 s after it was empty."""
    battery = {"kind": "battery", "capacity": 20.0, "restart": 0.2, "charger": {"power": 0.05}}
    rule = {"kind": "available", "deadline": 20.0}
    overrides = {"topology": STAR, "outages": [battery], "round": rule, "compute": {"speed": 1 / 3, "samples": 1}}
    overrides["energy"] = {"per_training": 3.0, "transmit": 0.7, "idle": 0.01}
    rounds, log = play(1, 30, seed=7, **(WHOLE | overrides))
    check_updates(log)
    late = [result for result in rounds if result.opened_s >= 100.0]
    assert sum(len(result.deliveries) for result in late) >= 3
    assert all(outcome == "delivered" or detail == "battery" for outcome, *_, detail in log.rows if outcome in OUTCOMES)


def test_version_that_reaches_a_busy_user_is_held():
    """User 1 trains for 4 s while user 0 makes versions, from the newest of which it begins after that."""
    overrides = {"topology": STAR, "on_new_version": "finish", "round": {"kind": "first", "m": 1}}
    overrides["compute"] = {"speed": [1.0, 0.25], "samples": 1}
    _, log = play(2, 4, **(WHOLE | overrides))
    check_updates(log)
    held = [(row[3], row[5]) for row in log.rows if row[0] == "held"]
    assert (1, 1) in held
    assert not [row for row in log.rows if row[0] == "received" and (row[3], row[5]) == (1, 1)]


def test_event_of_an_undeclared_kind_is_an_error():
    log = EventLog(Memory(), 2)
    with pytest.raises(ValueError, match=r"no kind of events \('recieved'\); name one of .*received"):
        log.event("recieved", 1.0)
    with pytest.raises(ValueError, match="recieved"):
        log.wants("recieved")
