"""Models of different families work together: checks of scenarios in which every pair of levels meets.

`support.designs` holds the scenarios.  Each failure prints its scenario as YAML.  A scenario that fails may be
reduced by `NETFL_COMPOSITION`, a list of its levels: ``NETFL_COMPOSITION="mac=tdma round=first" pytest ... -k named``.
"""

import copy
import itertools
import os
import re

import numpy as np
import pytest
import simpy
from support import composition_checks as checks
from support import compositions
from support.compositions import RefusedError, budgeted, checked
from support.designs import NEVER, Design, design, parts
from support.scaled_scenarios import scaled
from support.small_network import as_yaml

from netfl.core.kinds import list_kinds
from netfl.errors import ModelError, ScenarioError
from netfl.network.counterfactual import CAUSES
from netfl.network.mac import Mac
from netfl.network.round import RoundPolicy
from netfl.network.validation import inactive_causes
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.types import ScenarioFacts

QUICK = 8
"""Rows of the design that `make test` checks."""
SLOW_MODELS = {"inactivity", "diurnal_rate"}
"""Models that simulate days before time 0, which takes seconds."""
CHUNKS, SLOW_CHUNKS = 24, 8
"""Parts of the design, and those of them that `make slow` checks; `make thorough` checks the others."""
UNIT_CHUNKS, SLOW_UNIT_CHUNKS = 8, 3
"""The same for other units of time."""
MACS = [
    *list_kinds(Mac),
    "priority strict",
    "priority stride",
    "fdma need",
    "my_macs:LongestWait",
    "my_slots:Persistent",
]
ROUNDS = [*list_kinds(RoundPolicy), "duration", "mylab.half:Half"]
FADING = {"channel": "rayleigh"}
"""Fading that differs from frame to frame, so that no user has a lasting advantage."""


def explain(row, problem):
    """Return the message of a failure: the broken invariant, the levels, and the scenario."""
    levels = " ".join(f"{axis}={level}" for axis, level in row.levels.items())
    return f"{problem}\nlevels: {levels}\n{as_yaml(row.data)}"


def check(row, replica=0):
    """Check the invariants of one row; fail with its scenario."""
    try:
        checks.check_run_of(row.scenario, replica)
    except ScenarioError:
        return  # users or parts do not fit together, which the error explains
    except ModelError as error:
        is_cut_off = "permanently cut off" in str(error) and row.data["access"].get("outages")
        access = row.scenario.access
        has_deadline = (
            access.round is not None
            and access.round.deadline_s is not None
            and not access.selection.sets_deadline  # which may be minutes
        )
        may_be_endless = row.scenario.duration is None and not has_deadline
        repeats_short_frames = row.levels.get("exempt") == "airtime"  # at once, while they collide with a long one
        may_be_long = (
            may_be_endless or repeats_short_frames or repeats_at_once(row) or row.data["access"].get("traffic")
        )
        if is_cut_off or ("LongRunError" in str(error) and may_be_long):
            return
        pytest.fail(explain(row, repr(error)))
    except checks.LongRunError:
        has_deadline = row.scenario.duration is None and row.scenario.access.round.deadline_s is not None
        if has_deadline and not repeats_at_once(row):
            pytest.fail(explain(row, "a few rounds with a deadline have too many events"))
    except Exception as error:
        pytest.fail(explain(row, repr(error)))


def repeats_at_once(row):
    """Return whether users repeat their frames at once while they collide: with those of other cells, or in groups."""
    access = row.scenario.access
    if access.mac is None:
        return False
    return access.mac.sends_groups or access.shared_air


@pytest.mark.parametrize("number", range(QUICK))
def test_composition_keeps_invariants(number):
    quick = [index for index, row in enumerate(design().rows) if SLOW_MODELS.isdisjoint(row.values())]
    check(design().build(quick[number]))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", parts(CHUNKS, SLOW_CHUNKS))
def test_compositions_keep_invariants(chunk):
    for index in range(chunk, len(design().rows), CHUNKS):
        check(design().build(index), replica=1)


def is_refused(pair):
    try:
        checked(dict(pair))
    except RefusedError:
        return True
    return False


@pytest.mark.parametrize("name", ["all", "scaled"])
def test_each_level_occurs_in_a_stored_row(name):
    """A level with a wrong value would be refused beside all others, and so pass for covered."""
    assert Design(name).missing_levels() == [], "correct these levels, or store rows of them: make generated"


@pytest.mark.parametrize(("axis", "level"), NEVER)
def test_levels_that_never_occur_are_refused(axis, level):
    assert is_refused({(axis, level)})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["all", "scaled"])
def test_stored_design_covers_all_pairs(name):
    """Or they are refused."""
    stored = Design(name)
    missing = stored.missing()
    assert [pair for pair in missing if not is_refused(pair)] == [], "store rows of these levels: make generated"
    pairs = sum(len(a) * len(b) for a, b in itertools.combinations(stored.levels.values(), 2))
    assert len(missing) < 0.25 * pairs


def accesses_of_levels():
    """Yield the data and the access of each level by itself, where an explanation can simulate it."""
    for axis, levels in Design("all").levels.items():
        for level in levels:
            if axis != "exempt" and not is_refused({(axis, level)}):
                row = checked({axis: level})
                if row.scenario.access.round is not None:
                    yield row


@pytest.mark.slow
def test_no_cause_that_an_explanation_removes_is_refused():
    """An explanation exempts users in a network that was checked before, and does not check the network again."""
    refused = []
    for row in accesses_of_levels():
        access = row.scenario.access
        facts = ScenarioFacts(row.scenario.users, row.scenario.steps)
        inactive = inactive_causes(access, facts, selects_all=access.selects_all)
        for cause in set(CAUSES) - set(inactive):
            data = row.data | {"access": row.data["access"] | {"exempt": {cause: [0]}}}
            try:
                validate(ScenarioDocument(data, "exempt"))
            except ScenarioError:
                refused.append((row.levels, cause))
    assert refused == []


def test_a_run_that_records_nothing_is_cut_off():
    """Users that withhold all their frames send nothing, and rounds without a deadline wait for them for ever."""
    clock = simpy.Environment()

    def wait():
        while True:
            yield clock.timeout(1.0)

    clock.process(wait())
    with pytest.raises(checks.LongRunError), checks.limited_steps(100):
        clock.run()
    assert clock.now == pytest.approx(100.0, abs=2.0)


def test_models_of_guides_are_levels():
    known = compositions.axes()
    assert {"my_macs:LongestWait", "my_slots:Persistent", "mylab.polling:Polling"} <= {*known["mac"]}
    assert {"my_channels:Foliage", "my_path_loss:LinearLoss", "mylab.blockage:Blockage"} <= {*known["channel"]}
    assert "mylab.half:Half" in known["round"]


def test_named_composition_keeps_invariants():
    named = os.environ.get("NETFL_COMPOSITION", "mac=tdma round=first")
    row = budgeted(checked(dict(item.split("=") for item in named.split())))
    check(row)
    check_equal(row)


def check_equal(row, *, within=True):
    """Check that equal users have equal deliveries within chance; fail with the scenario."""
    try:
        found = checks.unequal(row.scenario, within=within)
    except ScenarioError as error:
        pytest.skip(f"a frame does not fit: {error}")
    if found:
        pytest.fail(explain(row, f"equal users have unequal deliveries, for each seed: {found}"))


@pytest.mark.quick_first
@pytest.mark.parametrize(
    "levels",
    [
        {"mac": "fdma", "radio": "bands", "reception": "shannon capacity"},
        {"mac": "fdma need", "radio": "bands", "reception": "mcs"},
        {"mac": "fdma water_filling", "air": "shared", "topology": "two towers", "interference": "sinr"} | FADING,
        {"mac": "fdma need", "air": "shared", "topology": "two towers", "radio": "bands", "interference": "sinr"},
        {"mac": "fdma", "air": "shared", "topology": "two towers", "exempt": "fading", "interference": "sinr"},
        {"mac": "fdma need", "air": "shared", "topology": "two towers", "exempt": "contention"},
        {"mac": "fdma", "air": "shared", "topology": "two towers", "channel": "underwater", "interference": "sinr"},
        {"mac": "fdma", "air": "shared", "topology": "two towers", "transport": "arq", "outage": "renewal"},
    ],
    ids=lambda levels: "-".join(levels.values()),
)
def test_divided_bands_keep_invariants(levels):
    """Radios of several bandwidths divide a band, and cells that share the air."""
    check(composed(levels))


def composed(levels):
    """Return the row with these levels; skip the test if they have no meaning together."""
    try:
        return budgeted(checked(levels))
    except RefusedError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("mac", ["proportional_fair", "priority stride", "tdma", "my_slots:Persistent"])
def test_equal_users_are_equal(mac):
    check_equal(composed({"mac": mac} | FADING))


@pytest.mark.slow
@pytest.mark.parametrize("mac", MACS)
@pytest.mark.parametrize("round_", ROUNDS)
@pytest.mark.parametrize("channel", ["none", "rayleigh"])
def test_equal_users_are_equal_under_each_mac_and_round(mac, round_, channel):
    check_equal(composed({"mac": mac, "round": round_, "channel": channel}))


@pytest.mark.slow
@pytest.mark.parametrize("mac", MACS)
@pytest.mark.parametrize(
    "levels",
    [
        {"channel": "underwater", "round": "duration", "traffic": "saturated", "destination": "tower"},
        {"channel": "underwater"},
        {"round": "duration", "traffic": "saturated", "size": "exponential", "destination": "tower"},
        {"round": "duration", "traffic": "poisson", "size": "exponential"},
        {"interference": "sinr"} | FADING,
        {"interference": "capture"} | FADING,
        {"radio": "towers"} | FADING,
        {"transport": "arq"} | FADING,
        {"downlink": "repeated", "budget": "fading"} | FADING,
        {"downlink": "unicast", "on_new_version": "finish"},
        {"compute": "jitter", "on_new_version": "ignore"},
        {"outage": "renewal"},
        {"outage": "battery"},
        {"queue": "red", "traffic": "poisson"},
        {"deadline": "tight", "compute": "jitter"},
    ],
    ids=lambda levels: "-".join(levels.values()),
)
def test_equal_users_are_equal_under_each_mac_and_other_models(mac, levels):
    check_equal(composed({"mac": mac} | levels), within="outage" not in levels)


@pytest.mark.parametrize(
    ("association", "mac"),
    [("nearest_now", "slotted_aloha"), ("carry", "round_robin"), ("drop", "pure_aloha"), ("carry", "fdma"),
     ("strongest at any time", "slotted_aloha")],
)  # fmt: skip
def test_equal_users_that_roam_are_equal(association, mac):
    """Over all seeds: in one run, users that stay in a small cell have more of it."""
    check_equal(composed({"association": association, "mac": mac} | FADING), within=False)


@pytest.mark.slow
@pytest.mark.parametrize("mac", [mac for mac in MACS if mac != "csma_ca"])  # without positions
@pytest.mark.parametrize("association", ["nearest_now", "strongest", "carry", "drop", "strongest at any time"])
def test_equal_users_that_roam_are_equal_under_each_mac(association, mac):
    """Over all seeds: in one run, users that stay in a small cell have more of it."""
    check_equal(composed({"association": association, "mac": mac} | FADING), within=False)


def test_frames_in_several_slots_keep_invariants():
    check(composed({"mac": "tdma", "size": "exponential"}))


@pytest.mark.quick_first
@pytest.mark.parametrize("association", ["strongest", "carry", "drop"])
@pytest.mark.parametrize("levels", [{"outage": "renewal"}, {"outage": "battery", "mac": "slotted_aloha"},
                                    {"transport": "arq"}, {"downlink": "unicast"}, {"round": "asynchronous"},
                                    {"on_new_version": "finish", "energy": "counted"}],
                         ids=lambda levels: "-".join(levels.values()))  # fmt: skip
def test_users_that_roam_keep_invariants(association, levels):
    check(composed({"association": association} | levels))


@pytest.mark.parametrize("mac", ["tdma", "round_robin"])
@pytest.mark.parametrize("levels", [{}, {"channel": "underwater"}, {"interference": "sinr"}], ids=str)
def test_users_that_send_in_turn_have_equal_shares(mac, levels):
    """Users that always have a packet of one size, and are served in turn: their packets differ by one or two."""
    always = {"round": "duration", "traffic": "saturated", "destination": "tower"}
    row = composed({"mac": mac} | always | levels)
    packets = checks.counts(row.scenario, 0).sum(axis=0)
    assert np.ptp(packets) <= 2, explain(row, f"packets of the users: {packets.tolist()}")
    assert packets.min() > 0


@pytest.mark.quick_first
@pytest.mark.parametrize("mac", ["tdma", *(mac for mac in MACS if mac != "tdma")])
def test_equal_towers_are_equal(mac):
    row = composed({"mac": mac})
    data = copy.deepcopy(row.data)
    x, users = 100.0, 8
    sites = [[x, 0.0], [0.0, x], [-x, 0.0], [0.0, -x]]
    data["users"] = users
    data["access"]["topology"] = {"kind": "tree", "fanout": [4], "towers": sites, "placement": {
        "kind": "listed", "positions": [[1.1 * a, 1.1 * b] for a, b in sites * 2]}}  # fmt: skip
    data["access"]["round"]["m"] = 1
    scenario = validate(ScenarioDocument(data, "towers"))
    totals = np.array([checks.counts(scenario, replica).sum(axis=0) for replica in range(10)])
    by_tower = totals.reshape(10, 2, 4).sum(axis=1)
    p_value = checks.p_value(by_tower[None], np.random.default_rng(0))
    assert p_value > checks.LEVEL, f"equal towers deliver {by_tower.sum(axis=0).tolist()}\n{as_yaml(data)}"


def outcomes(scenario, replica=0):
    """Return what a run delivers, without its times, and these times; or the error with which it stops."""
    try:
        rounds, log = checks.simulate(scenario, replica)
    except ModelError as error:
        return [re.sub(r"[\d.e-]+ s", "", str(error))], []
    except checks.LongRunError:  # after as many events in any unit of time
        return ["too many events"], []
    except ScenarioError as error:  # a MAC of a user's own was running
        if "LongRunError" not in str(error):
            raise
        return ["too many events"], []
    if scenario.duration is not None:
        rows = [row for row in log.rows if row[0] == "delivered"]
        return [(row[2], row[3]) for row in rows], [row[1] for row in rows]
    deliveries = [(round_.index, delivery) for round_ in rounds for delivery in round_.deliveries]
    rows = [(index, delivery.user, delivery.base, delivery.attempts) for index, delivery in deliveries]
    return rows, [delivery.arrived_s for _, delivery in deliveries]


def in_other_units(row, factor):
    """Return the scenario with all times multiplied by *factor*."""
    data = copy.deepcopy(row.data)
    data["access"] = scaled(row.scenario.access, factor) | {"kind": "network"}
    if "duration" in data:
        data["duration"] *= factor
    return validate(ScenarioDocument(data, "scaled"))


UNITS = (4.0, 1.0 / 8.0)
"""Factors of all times: powers of 2, so that no order of equal times is decided by rounding."""


def check_scale(row, factor):
    """Check that a scenario has the same outcomes with all times multiplied by *factor*; fail with it."""
    expected, times_s = outcomes(row.scenario)
    found, found_s = outcomes(in_other_units(row, factor))
    first = next((n for n, pair in enumerate(itertools.zip_longest(expected, found)) if pair[0] != pair[1]), None)
    if first is not None:
        differing = f"{expected[first : first + 1]} and {found[first : first + 1]}"
        pytest.fail(explain(row, f"times multiplied by {factor:.3g} change delivery {first}: {differing}"))
    if not np.allclose(np.array(times_s) * factor, found_s, rtol=1e-6):
        pytest.fail(explain(row, f"times multiplied by {factor:.3g} are not the times of the deliveries"))


@pytest.mark.quick_first
@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("factor", UNITS)
def test_outcomes_do_not_depend_on_the_unit_of_time(index, factor):
    check_scale(design("scaled").build(index), factor)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", parts(UNIT_CHUNKS, SLOW_UNIT_CHUNKS))
def test_outcomes_of_all_pairs_do_not_depend_on_the_unit_of_time(chunk):
    """Each row in one other unit."""
    for number, index in enumerate(range(4 + chunk, len(design("scaled").rows), UNIT_CHUNKS)):
        check_scale(design("scaled").build(index), UNITS[number % 2])


@pytest.mark.parametrize("mac", ["max_snr", "tdma"])
def test_permuted_users_permute_the_deliveries(mac):
    check_permutation(mac, "first")


@pytest.mark.slow
@pytest.mark.parametrize("mac", MACS)
@pytest.mark.parametrize("round_", [kind for kind in ROUNDS if kind != "duration"])
def test_permuted_users_permute_the_deliveries_under_each_mac_and_round(mac, round_):
    check_permutation(mac, round_)


def check_permutation(mac, round_):
    """Check that users with permuted speeds have permuted deliveries, where nothing is drawn."""
    row = composed({"mac": mac, "round": round_})
    speeds = np.array([1.31, 2.17, 2.93, 1.79, 3.61, 1.13])
    order = np.array([4, 0, 3, 5, 1, 2])
    tables = []
    for values, numbers, replica in ((speeds, np.arange(6), 0), (speeds, np.arange(6), 1), (speeds[order], order, 0)):
        data = copy.deepcopy(row.data)
        data["rounds"] = 12  # in fewer, two replicas of a scenario that draws may be equal
        data["access"]["compute"]["speed"] = values.tolist()
        scenario = validate(ScenarioDocument(data, "permuted"))
        rank = np.argsort(order) if numbers is order and scenario.access.mac.has_fixed_order else np.arange(6)
        with checks.ordered(rank):
            rows, _ = outcomes(scenario, replica)
        tables.append([(*entry[:1], int(numbers[entry[1]]), *entry[2:]) for entry in rows])
    if tables[0] != tables[1]:
        pytest.skip("the scenario draws")
    assert tables[2] == tables[0], explain(row, f"the users {order.tolist()} are not treated alike")


@pytest.mark.parametrize("reception", ["lora", "mcs", "snr_threshold", "mylab.logistic:Logistic"])
@pytest.mark.parametrize("downlink", ["multicast", "unicast"])
def test_version_is_received_where_an_update_is(reception, downlink):
    """The channel is constant, and of the weakest signal: the most robust mode receives every frame."""
    row = composed({"reception": reception, "downlink": downlink, "budget": "marginal"})
    data = copy.deepcopy(row.data)
    data["access"]["round"] = {"kind": "first", "m": compositions.USERS, "deadline": "60 s"}
    rounds, _ = checks.simulate(validate(ScenarioDocument(data, "versions")))
    bases = [[delivery.base for delivery in round_.deliveries] for round_ in rounds]
    expected = [[round_.index - 1] * compositions.USERS for round_ in rounds]
    assert bases == expected, explain(row, "users at a constant signal that suffices miss versions")


@pytest.mark.parametrize("downlink", ["multicast", "unicast"])
@pytest.mark.parametrize("reception", ["lora", "mcs", "snr_threshold"])
@pytest.mark.parametrize("channel", ["none", "underwater"])
def test_version_takes_the_time_of_an_update(downlink, reception, channel):
    """One user with the power of its tower: a frame of the same size takes as long in both directions."""
    row = composed({"downlink": downlink, "reception": reception, "channel": channel, "budget": "strong"})
    if downlink == "multicast":
        row = composed({"downlink": downlink, "reception": reception, "channel": channel, "budget": "marginal"})
    data = copy.deepcopy(row.data)
    data["users"] = 1
    data["access"]["topology"] |= {"distance": "1 km" if channel == "none" else "10 m", "delay": 0, "rate": "1000 Gbps"}
    data["access"]["mac"] = {"kind": "tdma"}
    data["access"]["round"] = {"kind": "first", "m": 1, "deadline": "10 min"}
    _, log = checks.simulate(validate(ScenarioDocument(data, "one user")))
    times_s = {kind: [row[1] for row in log.rows if row[0] == kind] for kind in ("broadcast", "received", "sent")}
    arrived_s = [row[1] for row in log.rows if row[0] == "delivered"]
    down_s = np.array(times_s["received"]) - times_s["broadcast"][: len(times_s["received"])]
    up_s = np.array(arrived_s) - times_s["sent"][: len(arrived_s)]
    assert len(down_s) == len(up_s) == compositions.ROUNDS
    assert down_s == pytest.approx(up_s, abs=1e-6), as_yaml(data)


@pytest.mark.parametrize("mac", ["tdma", "round_robin"])
def test_power_increases_deliveries_of_a_scheduled_cell(mac):
    delivered = []
    for gain_db in (0.0, 3.0, 6.0, 12.0):
        row = composed(
            {"mac": mac, "round": "duration", "traffic": "saturated", "channel": "rayleigh", "budget": "fading"}
        )
        data = copy.deepcopy(row.data)
        data["access"]["radio"]["power"] = f"{16.0 + gain_db} dBm"
        delivered.append(checks.counts(validate(ScenarioDocument(data, "power")), 0).sum())
    assert delivered == sorted(delivered), as_yaml(data)
    assert delivered[0] < delivered[-1]


def test_attempts_increase_deliveries_of_a_single_user():
    delivered = []
    for attempts in (1, 2, 4):
        row = composed({"mac": "tdma", "channel": "rayleigh", "budget": "fading", "deadline": "long"})
        data = copy.deepcopy(row.data)
        data["users"], data["rounds"] = 1, 40
        data["access"]["mac"] = {"kind": "tdma", "max_attempts": attempts}
        data["access"]["round"] |= {"m": 1}
        rounds, _ = checks.simulate(validate(ScenarioDocument(data, "attempts")))
        delivered.append(sum(len(round_.deliveries) for round_ in rounds))
    assert delivered == sorted(delivered), as_yaml(data)
    assert delivered[0] < delivered[-1]


@pytest.mark.parametrize("outage", ["none", "renewal"])
def test_deadline_increases_the_deliveries_of_one_round(outage):
    delivered = []
    for deadline in ("0.7 s", "0.8 s", "1 s", "4 s"):
        data = copy.deepcopy(composed({"mac": "round_robin", "outage": outage}).data)
        data["rounds"] = 1
        data["access"]["round"] = {"kind": "first", "m": compositions.USERS, "deadline": deadline}
        rounds, _ = checks.simulate(validate(ScenarioDocument(data, "deadline")))
        delivered.append({delivery.user for delivery in rounds[0].deliveries})
    assert all(fewer <= more for fewer, more in itertools.pairwise(delivered)), as_yaml(data)
    assert delivered[0] < delivered[-1]
