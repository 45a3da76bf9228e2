"""Knowledge of losses: when a round closes because no update can come any more, and when it waits for its deadline."""

import copy
import itertools
from functools import cache

import numpy as np
import pytest
from support import composition_checks as checks
from support.compositions import budgeted, checked
from support.designs import design, parts
from support.error_messages import assert_messages
from support.small_network import Listed, play

import netfl
from netfl.errors import ModelError, ScenarioError
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument

LATER_S = 1e5
"""A deadline later than any round without one."""
FADING = {
    "name": "fading",
    "users": 4,
    "rounds": 30,
    "access": {
        "kind": "network",
        "round": {"kind": "available", "deadline": "3 s"},
        "topology": {"kind": "star", "distance": "100 m"},
        "radio": {"power": "0 dBm", "bandwidth": "1 MHz"},
        "channel": [
            {"kind": "log_distance", "exponent": 3.5, "frequency": "868 MHz"},
            {"kind": "rayleigh", "coherence": "10 ms"},
        ],
        "reception": {"kind": "snr_threshold", "threshold": "20 dB", "rate": "1 Mbps"},
        "mac": {"kind": "round_robin", "max_attempts": 1},
        "compute": {"speed": 1000, "samples": 10},
        "broadcast_rate": "10 Mbps",
        "update_size": "1 kB",
    },
}
"""Four users with one attempt each, which most often fails."""


def traced(folder, **overrides):
    scenario = netfl.load(FADING, {f"access.round.{key}": value for key, value in overrides.items()})
    return netfl.trace(scenario, folder, progress=False)


def test_round_closes_with_its_last_loss(tmp_path):
    """Each round lasts 0.8 ms + 10 ms + 4 · 8 ms, and what links and propagation take, instead of 3 s."""
    run = traced(tmp_path / "known")
    lengths_s = run.rounds.closed_s - run.rounds.opened_s
    assert lengths_s.between(0.0428, 0.05).all()
    assert (run.events.kind == "faded").sum() > 100
    without = traced(tmp_path / "without", deadline=None)
    assert list(run.rounds.closed_s) == list(without.rounds.closed_s)


def test_round_that_does_not_know_of_losses_waits(tmp_path):
    run = traced(tmp_path / "unknown", losses="unknown")
    closed_s = run.rounds.closed_s.to_numpy()
    assert closed_s == pytest.approx(3.0 * np.arange(1, 31))


@pytest.mark.parametrize("rule", [{"kind": "first", "m": 2}, {"kind": "available"}])
def test_endless_wait_is_an_error(rule):
    scenario = copy.deepcopy(FADING)
    scenario["access"]["round"] = rule | {"losses": "unknown"}
    with pytest.raises(ScenarioError) as caught:
        netfl.load(scenario)
    assert_messages(
        str(caught.value).splitlines(), ["access.round.losses: … without a deadline … give the round a deadline"]
    )


ONE_ATTEMPT = {"kind": "round_robin", "poll": 0, "max_attempts": 1}


@pytest.mark.parametrize(("min_share", "delivered"), [(0.5, [0, 1]), (0.9, [])])
def test_update_that_awaits_the_end_of_its_round_is_not_waited_for(tmp_path, min_share, delivered):
    """Two updates have come, and it is open whether they count, when the third is lost at 4 s."""
    (tmp_path / "away.csv").write_text("node,start_s,end_s\n2,3.5,60\n")
    [result], log = play(
        3,
        1,
        mac=ONE_ATTEMPT,
        round={"kind": "quorum", "quorum": 1.0, "min_share": min_share, "deadline": 50},
        outages=[{"kind": "calendar", "file": str(tmp_path / "away.csv")}],
    )
    assert [row[1] for row in log.rows if row[0] == "lost"] == [pytest.approx(4.0, abs=1e-3)]
    assert result.closed_s == pytest.approx(4.0, abs=1e-3)
    assert sorted(delivery.user for delivery in result.deliveries) == delivered


def test_older_update_on_its_way_is_waited_for(tmp_path):
    """User 0 sends its first update from 40 to 41 s, and loses the next, from 42 to 43 s; the first arrives at 51 s.

    A link takes 10 s.  The first round closes at 22 s with the update of user 1, which is not selected again.
    """
    (tmp_path / "away.csv").write_text("node,start_s,end_s\n0,10.5,40\n0,42.5,43\n")
    rounds, log = play(
        2,
        2,
        topology={"kind": "star", "radius": "100 m", "rate": "1000 Gbps", "delay": 10},
        round={"kind": "first", "m": 1},
        on_new_version="finish",
        selection=Listed(turns=((0, 1), (0,))),
        outages=[{"kind": "calendar", "file": str(tmp_path / "away.csv")}],
        mac=ONE_ATTEMPT,
    )
    assert [row[1] for row in log.rows if row[0] == "lost"] == [pytest.approx(43.0, abs=1e-3)]
    assert [result.closed_s for result in rounds] == pytest.approx([22.0, 51.0], abs=1e-3)
    assert [(delivery.user, delivery.base) for delivery in rounds[1].deliveries] == [(0, 0)]


def test_round_without_selected_users_waits_for_its_deadline():
    """Nothing was lost: the server lets nobody take part, and waits for another time."""
    rule = {"kind": "first", "deadline": 7}
    rounds, _ = play(2, 2, selection=Listed(turns=((), (0, 1))), round=rule, mac=ONE_ATTEMPT)
    assert [result.closed_s for result in rounds] == pytest.approx([7.0, 10.0], abs=1e-3)


@pytest.mark.slow
def test_sensors_that_harvest_have_rounds_of_a_minute():
    """Else the policies of the sweep would have less time, the more often they ask a sensor without charge."""
    for policy in netfl.load("sweeps/harvesting").sweep.grid["access.selection"][:2]:
        scenario = netfl.load("sweeps/harvesting", {"access.selection": policy, "rounds": 20})
        with netfl.Simulation(scenario) as simulation:
            rounds = [simulation.step() for _ in range(20)]
        waiting = [each for each in rounds if len(each.deliveries) < 10]
        assert len(waiting) > 10
        assert [each.closed_s - each.opened_s for each in waiting] == pytest.approx([60.0] * len(waiting))


# any composition of models


RULES = {"first", "available", "quorum"}
SLOW_MODELS = {"inactivity", "diurnal_rate"}
"""Models that simulate days before time 0, which takes seconds."""
CHUNKS, SLOW_CHUNKS = 8, 4
"""Parts of the compositions, and those of them that `make slow` checks."""
COMPOSITIONS = 46
"""Number of compositions that are compared with and without a deadline."""


CANNOT_RUN = (
    "LongRunError",  # a MAC of a user's own was running
    "is sent at SF7, which allows",  # LoRaWAN, whose rate is known when the network runs
)
"""Words of errors of compositions that end before their rounds do."""


@cache
def compositions():
    """Return the levels of the first compositions with these rules, each with the deadline that fits its rule."""
    of_rules = (row for row in design().rows if row.get("round", "first") in RULES)
    fitting = (row for row in of_rules if SLOW_MODELS.isdisjoint(row.values()))
    return [
        {axis: level for axis, level in row.items() if axis != "deadline"}
        for row in itertools.islice(fitting, COMPOSITIONS)
    ]


def closings(row, **settings):
    """Return index, opening, closing and deliveries of the rounds of a composition; ``None`` if it cannot run.

    Users evaluate nothing, as the time of that comes after the deadline.
    """
    data = copy.deepcopy(row.data)
    data["access"].pop("evaluation", None)
    data["access"]["round"] |= settings
    try:
        rounds, _ = checks.simulate(validate(ScenarioDocument(data, "losses")))
    except (ModelError, checks.LongRunError):
        return None
    except ScenarioError as error:
        if not any(words in str(error) for words in CANNOT_RUN):
            raise
        return None
    return [(result.opened_s, result.closed_s, result.deliveries) for result in rounds]


def check_deadline(row):
    """Check that a later deadline changes nothing, and that a server without knowledge of losses waits for it."""
    if row.levels.get("selection") == "fedcs":  # which decides the deadline of each round
        return False
    rule = row.scenario.access.round
    kind = row.data["access"]["round"]["kind"]
    if kind != "quorum":
        without = closings(row, deadline=None)
        if without is None or any(closed_s - opened_s >= LATER_S for opened_s, closed_s, _ in without):
            return False
        assert closings(row, deadline=LATER_S) == without, row.levels

    known = closings(row)
    unknown = closings(row, losses="unknown")
    if known is None or unknown is None:
        return False
    for opened_s, closed_s, deliveries in unknown:
        waits = closed_s == pytest.approx(opened_s + rule.deadline_s)
        assert waits or deliveries, row.levels
        assert closed_s <= opened_s + rule.deadline_s * (1 + 1e-9), row.levels

    # until the first round in which they differ, both networks are one
    for earlier, later in zip(known, unknown, strict=True):
        assert earlier[1] <= later[1], row.levels
        if earlier[:2] != later[:2]:
            if kind == "available":  # users that were away count, but nobody waits for them
                assert set(earlier[2]) <= set(later[2]), row.levels
            else:
                assert earlier[2] == later[2], row.levels
            break
    return True


@pytest.mark.quick_first
@pytest.mark.parametrize("number", range(6))
def test_deadline_matters_only_when_it_comes(number):
    check_deadline(budgeted(checked(compositions()[number])))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", parts(CHUNKS, SLOW_CHUNKS))
def test_deadline_matters_only_when_it_comes_in_all_pairs(chunk):
    compared = 0
    for levels in compositions()[6 + chunk :: CHUNKS]:
        row = budgeted(checked(levels))
        if "round" in row.data["access"]:
            compared += check_deadline(row)
    assert compared
