"""Allocations and controls in whole networks: times and energies of rounds, shares of the band, and errors."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from support.allocation_energies import energies_j
from support.small_network import SECTION, make, play

import netfl
from netfl.errors import ScenarioError
from netfl.network.allocation import Allocation, AllocationRequest, Decision
from netfl.network.allocation._tradeoff import least_energy_of_sending_j
from netfl.network.allocation.least_energy import LeastEnergy
from netfl.network.allocation.least_time import LeastTime
from netfl.network.outage.battery import Battery
from netfl.report.run_data import RunData
from netfl.report.summary_text import run_status
from netfl.scenario.scenario import validate
from netfl.scenario.validation import nested_faults
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation import setup
from netfl.types import Law, ScenarioFacts

BANDWIDTH_HZ, BITS = 1e6, 2e6
DISTANCES_M = np.array([100.0, 200.0, 400.0])
CYCLES, FREQUENCY_HZ, CAPACITANCE, SAMPLES = 1e7, np.array([1e9, 2e9, 1e9]), 1e-28, 100
TRANSMIT_W = 0.5
PARTS = {
    "topology": {"kind": "star", "distances": [*DISTANCES_M], "rate": "1000 Gbps", "delay": 0},
    "radio": {"power": "20 dBm", "bandwidth": BANDWIDTH_HZ},
    "channel": [{"kind": "log_distance", "exponent": 3.5, "frequency": "2 GHz"}],
    "reception": "shannon",
    "mac": {"kind": "fdma", "division": "allocated"},
    "unreachable": "keep",
    "compute": {"frequency": [*FREQUENCY_HZ], "cycles": CYCLES, "samples": SAMPLES},
    "energy": {"capacitance": CAPACITANCE, "transmit": TRANSMIT_W},
    "update_size": BITS,
    "round": {"kind": "available", "deadline": "1 h"},
}


def request():
    """Return the request that the network should make, from its distances and devices."""
    loss_db = 20 * np.log10(4 * np.pi * 2e9 / 299792458.0) + 35 * np.log10(DISTANCES_M)
    return AllocationRequest(
        known_snr=10 ** ((20 - loss_db + 174 - 60) / 10),
        bits=np.full(3, BITS),
        train_s=SAMPLES * CYCLES / FREQUENCY_HZ,
        train_j=SAMPLES * CAPACITANCE * CYCLES * FREQUENCY_HZ**2,
        fixed_j=np.zeros(3),
        transmit_w=np.full(3, TRANSMIT_W),
        bandwidth_hz=BANDWIDTH_HZ,
    )


def ends_s(round_):
    """Return the time of each user's delivery after the opening, in the order of the users."""
    deliveries = sorted(round_.deliveries, key=lambda delivery: delivery.user)
    return np.array([delivery.arrived_s for delivery in deliveries]) - round_.opened_s


def test_equal_allocation_of_all_users_is_the_equal_division_among_them():
    allocated, _ = play(3, 3, **PARTS, allocation="equal")
    plain, _ = play(3, 3, **(PARTS | {"mac": {"kind": "fdma", "among": "users"}}))
    assert [ends_s(round_).tolist() for round_ in allocated] == [ends_s(round_).tolist() for round_ in plain]


@pytest.mark.parametrize("deadline_s", [2.5, 10.0])
def test_least_energy_meets_its_deadline_at_its_energy(deadline_s):
    rounds, log = play(3, 2, **PARTS, allocation={"kind": "least_energy", "deadline": deadline_s})
    for round_ in rounds:
        assert ends_s(round_) == pytest.approx(np.full(3, deadline_s), rel=1e-4)
    decision = LeastEnergy(deadline=deadline_s).allocate(request())
    assert log.spendings["energy_J"] == pytest.approx(2 * energies_j(request(), decision), rel=1e-4)
    equal, equal_log = play(3, 2, **PARTS, allocation="equal")
    assert log.spendings["energy_J"].sum() < equal_log.spendings["energy_J"].sum()
    assert len(equal) == 2


def test_allocation_that_saves_energy_saves_the_battery(monkeypatch):
    """Batteries lose what the decisions cost, so that those of a lower frequency and power last longer."""
    opened, open_battery = [], Battery.open
    monkeypatch.setattr(Battery, "open", lambda *args: opened.append(open_battery(*args)) or opened[-1])
    battery = {"kind": "battery", "capacity": "100 J"}
    rounds, _ = play(3, 2, **PARTS, outages=[battery], allocation={"kind": "least_energy", "deadline": 10.0})
    drained_j = 100.0 - opened[-1].charge_j(np.arange(3), rounds[-1].closed_s)
    decision = LeastEnergy(deadline=10.0).allocate(request())
    assert drained_j == pytest.approx(2 * energies_j(request(), decision), rel=1e-4)
    small = battery | {"capacity": float(1.5 * drained_j.max())}
    counts = []
    for allocation in ({"kind": "least_energy", "deadline": 10.0}, "equal"):
        rounds, _ = play(3, 3, **PARTS, outages=[small], allocation=allocation)
        counts.append(sum(len(round_.deliveries) for round_ in rounds))
    assert counts[0] > counts[1]


@pytest.mark.quick_first
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("model", [{"kind": "least_energy", "deadline": 10.0}, {"kind": "least_time", "budget": 0.4}])
def test_sending_may_be_free(model):
    """Without a power of sending, the decisions are those of a power which costs almost nothing."""
    ends = []
    for transmit_w in (0.0, 1e-12):
        energy = PARTS["energy"] | {"transmit": transmit_w}
        rounds, _ = play(3, 1, **(PARTS | {"energy": energy}), allocation=model)
        ends.append(ends_s(rounds[0]).tolist())
    assert ends[0] == ends[1]
    assert len(ends[0]) == 3


@pytest.mark.slow
def test_least_time_keeps_to_its_budget():
    budget_j = 0.4
    rounds, log = play(3, 2, **PARTS, allocation={"kind": "least_time", "budget": budget_j})
    assert (log.spendings["energy_J"] / 2 <= budget_j * (1 + 1e-6)).all()
    decision = LeastTime(budget=budget_j).allocate(request())
    assert log.spendings["energy_J"] / 2 == pytest.approx(energies_j(request(), decision), rel=1e-4)
    assert rounds[0].closed_s == pytest.approx(rounds[1].closed_s - rounds[1].opened_s, rel=1e-6)


@pytest.mark.parametrize("fixed", [{"per_training": "0.25 J"}, {"per_sample": "1 mJ", "per_training": "0.1 J"}])
def test_fixed_energy_of_training_counts_towards_the_budget(fixed):
    energy = PARTS["energy"] | fixed
    fixed_j = np.full(3, 0.25)
    if "per_sample" in fixed:
        fixed_j = np.full(3, 0.1 + 1e-3 * SAMPLES)
    budget_j = 0.4 + float(fixed_j.max())
    rounds, log = play(3, 2, **(PARTS | {"energy": energy}), allocation={"kind": "least_time", "budget": budget_j})
    assert len(rounds[0].deliveries) == 3
    assert (log.spendings["energy_J"] / 2 <= budget_j * (1 + 1e-6)).all()
    decision = LeastTime(budget=budget_j).allocate(replace(request(), fixed_j=fixed_j))
    expected_j = fixed_j + energies_j(request(), decision)
    assert log.spendings["energy_J"] / 2 == pytest.approx(expected_j, rel=1e-4)


def test_users_whose_fixed_energy_exceeds_the_budget_take_no_part():
    fixed_j = np.array([0.0, 0.5, 0.0])
    for model in (LeastTime(budget=0.4), LeastTime(budget=0.5)):
        decision = model.allocate(replace(request(), fixed_j=fixed_j))
        assert (decision.share > 0).tolist() == [True, False, True]


def test_only_selected_users_share_the_band():
    selection = {"kind": "oldest", "m": 2}
    rounds, _ = play(3, 3, **PARTS, allocation="equal", selection=selection)
    for round_ in rounds:
        users = [delivery.user for delivery in sorted(round_.deliveries, key=lambda delivery: delivery.user)]
        assert len(users) == 2
        part = request().select(np.array(users))
        upload_s = BITS / (BANDWIDTH_HZ / 2 * np.log2(1 + 2 * part.snr))
        assert ends_s(round_) == pytest.approx(part.train_s + upload_s, rel=1e-4)


class Recording(Allocation):
    """Equal shares; it keeps the requests that it gets."""

    observes: ClassVar = ("snr_db",)
    requests: ClassVar[list[AllocationRequest]] = []

    def allocate(self, request):
        self.requests.append(request)
        return Decision(np.full(request.users, 1 / request.users), np.ones(request.users), np.ones(request.users))

    def laws(self):
        return (Law.none("draws nothing"),)


def play_turns(turns, **overrides):
    """Run a round for each of *turns*, the selected users.

    Return the requests, the rounds and, for each frame, its start, its end, its user and its share.  Users train for a
    microsecond, and a round closes with its first delivery.
    """
    parts = PARTS | {"allocation": f"{__name__}:Recording", "round": {"kind": "first", "m": 1}, "energy": None}
    parts["compute"] = {"speed": 1e6, "samples": 1}
    selection = {"kind": "support.small_network:Listed", "turns": turns}
    Recording.requests.clear()
    rounds, log = play(3, len(turns), **(parts | overrides), selection=selection)
    frames = []
    for part in log.attempts:
        share = 10 ** ((10 * np.log10(request().snr[part["user"]]) - part["snr_db"]) / 10)
        frames += zip(part["start_s"], part["end_s"], part["user"], share, strict=True)
    frames = sorted(frame for frame in frames if np.isfinite(frame[3]))
    for start_s, *_ in frames:
        on_air = [share for begin_s, end_s, _, share in frames if begin_s <= start_s < end_s - 1e-9]
        assert sum(on_air) <= 1 + 1e-6
    return [*Recording.requests], rounds, frames


def test_an_allocation_divides_what_a_late_frame_leaves_free():
    """User 2 is still on the air in half of the band when the second round opens, which divides the other half."""
    requests, rounds, frames = play_turns([[0, 2], [0, 1], [1]])
    late_s = next(end_s for start_s, end_s, user, _ in frames if user == 2)
    opened_s = rounds[1].opened_s
    assert late_s > opened_s + 0.1

    # half of the band has half of the noise
    assert [each.bandwidth_hz for each in requests[:2]] == pytest.approx([BANDWIDTH_HZ, BANDWIDTH_HZ / 2])
    assert requests[1].snr == pytest.approx(2 * request().snr[:2])

    # both of its users begin at once, in a quarter of the band each
    begun = [(user, share) for start_s, _, user, share in frames if opened_s <= start_s < opened_s + 1e-3]
    assert sorted(begun) == [(0, pytest.approx(0.25)), (1, pytest.approx(0.25))]
    upload_s = BITS / (BANDWIDTH_HZ / 4 * np.log2(1 + 4 * request().snr[0]))
    assert ends_s(rounds[1])[0] == pytest.approx(upload_s, rel=1e-4)


def test_a_late_frame_of_a_selected_user_leaves_its_own_share():
    """User 2 needs a share of the second round when its frame has ended, so that its half is not taken."""
    requests, rounds, frames = play_turns([[0, 2], [0, 2]])
    assert [each.bandwidth_hz for each in requests] == [BANDWIDTH_HZ] * 2
    begun = [(user, share) for start_s, _, user, share in frames if abs(start_s - rounds[1].opened_s) < 1e-3]
    assert begun == [(0, pytest.approx(0.5))]


def test_the_others_fit_beside_a_late_frame_of_a_selected_user():
    """User 2 has half of the band when the second round opens with all three, who then have a quarter each."""
    requests, rounds, frames = play_turns([[0, 2], [0, 1, 2], [1]])
    assert requests[1].bandwidth_hz == pytest.approx(BANDWIDTH_HZ * 3 / 4)
    opened_s = rounds[1].opened_s
    begun = [(user, share) for start_s, _, user, share in frames if opened_s <= start_s < opened_s + 1e-3]
    assert sorted(begun) == [(0, pytest.approx(0.25)), (1, pytest.approx(0.25))]


def test_new_shares_wait_where_late_frames_leave_nothing():
    """Users 1 and 2 have the whole band when the second round opens by the deadline of the first."""
    rule = {"kind": "first", "m": 1, "deadline": 0.2}
    requests, rounds, frames = play_turns([[1, 2], [0], [0], [0], [0], [0], [0]], round=rule)
    assert rounds[0].closed_s == pytest.approx(0.2)
    assert requests[1].bandwidth_hz == BANDWIDTH_HZ
    late_s = [end_s for _, end_s, user, _ in frames if user in {1, 2}]
    first_s = min(start_s for start_s, _, user, _ in frames if user == 0)
    assert first_s >= min(late_s) > 0.2


class HalfMegahertz(Recording):
    """500 kHz for each user, whatever is free."""

    def allocate(self, request):
        users = request.users
        return Decision(np.full(users, 5e5 / request.bandwidth_hz), np.ones(users), np.ones(users))


def test_shares_above_the_free_band_are_an_error():
    with pytest.raises(ScenarioError, match="add up to 2, more than the band that is free"):
        play_turns([[0, 2], [0, 1]], allocation=f"{__name__}:HalfMegahertz")


def scenario(**overrides):
    access = copy.deepcopy(SECTION) | {
        "reception": "shannon",
        "mac": {"kind": "fdma", "division": "allocated"},
        "compute": {"frequency": 1e9, "cycles": 1e7, "samples": 100},
        "energy": {"capacitance": 1e-28, "transmit": "500 mW"},
        "update_size": "100 kB",
    }
    return {"name": "allocated", "users": 3, "rounds": 2, "access": access | overrides}


def load(**overrides):
    return validate(ScenarioDocument(scenario(**overrides)))


class TestControls:
    def test_frequency_and_share_of_a_caller(self):
        with netfl.Simulation(load(round={"kind": "available", "deadline": "1 h"})) as simulation:
            first = simulation.step()
            second = simulation.step(controls={"frequency": [1.0, 0.5, 0.25], "share": [0.5, 0.25, 0.25]})
        trained_s = np.array([1.0, 2.0, 4.0])
        assert len(first.deliveries) == len(second.deliveries) == 3
        at_s = {delivery.user: delivery.sent_s - second.opened_s for delivery in second.deliveries}
        starts_s = np.array([at_s[user] for user in range(3)])
        assert starts_s - starts_s[0] == pytest.approx(trained_s - 1.0, abs=0.2)

    def test_energy_of_a_slower_processor(self):
        with netfl.Simulation(load(energy={"capacitance": 1e-28})) as simulation:
            simulation.step(controls={"frequency": [1.0, 0.5, 0.25]})
            energy_j = simulation.state.energy_j
        assert energy_j[0] == pytest.approx(0.1)
        assert energy_j[1] <= 0.1 * 0.25 + 1e-12

    def test_shares_above_the_band(self):
        problem = r"^controls\.share: .* add up to more than the band"
        with netfl.Simulation(load()) as simulation, pytest.raises(ScenarioError, match=problem):
            simulation.step(controls={"share": 0.5})

    def test_a_user_without_a_share_takes_no_part(self):
        """A user to which the caller gives no share does not train, and no round waits for it."""
        with netfl.Simulation(load(round={"kind": "available"}, energy={"capacitance": 1e-28})) as simulation:
            first = simulation.step(controls={"share": [0.5, 0.0, 0.5]})
            energy_j = simulation.state.energy_j
            second = simulation.step(controls={"share": [0.0, 1.0, 0.0]})
        assert sorted(delivery.user for delivery in first.deliveries) == [0, 2]
        assert energy_j == pytest.approx([0.1, 0.0, 0.1])
        assert [delivery.user for delivery in second.deliveries] == [1]

    def test_a_round_without_any_share_is_over_at_once(self):
        with netfl.Simulation(load(round={"kind": "available"})) as simulation:
            empty = simulation.step(controls={"share": 0.0})
            assert (empty.deliveries, empty.closed_s) == ((), empty.opened_s)
            assert len(simulation.step(controls={"share": 1 / 3}).deliveries) == 3

    @pytest.mark.parametrize("second_db", [-3.0, 0.0, 3.0])
    def test_a_frame_keeps_the_power_with_which_it_was_sent(self, second_db):
        """The second round opens while user 1 is on the air."""
        parts = {
            "topology": {"kind": "star", "distances": [100, 400]},
            "radio": {"power": "20 dBm", "bandwidth": "1 MHz"},
            "channel": [{"kind": "log_distance", "exponent": 3.5, "frequency": "868 MHz"}],
            "round": {"kind": "first", "m": 1, "deadline": "20 s"},
            "mac": "fdma",
            "on_new_version": "finish",
        }
        two_users = validate(ScenarioDocument(scenario(**parts) | {"users": 2}))
        with netfl.Simulation(two_users) as simulation:
            first = simulation.step(controls={"power": 0.0})
            second = simulation.step(controls={"power": [0.0, second_db]})
        assert [delivery.user for delivery in first.deliveries] == [0]
        (delivery,) = second.deliveries
        assert (delivery.user, delivery.base, delivery.attempts) == (1, 0, 1)

    def test_an_allocation_leaves_no_controls(self):
        with netfl.Simulation(load(allocation="equal")) as simulation, pytest.raises(ScenarioError, match="no effect"):
            simulation.step(controls={"share": 0.2})


def test_a_warning_of_an_allocation_that_sees_the_present():
    def warnings(allocation):
        access, context, _ = make(3, 1, **PARTS, allocation=allocation)
        return [warning for warning in access.warnings(context) if "allocation" in warning]

    assert warnings("equal") == []
    (warning,) = warnings({"kind": "least_energy", "deadline": 10.0})
    assert "see the present snr_db of users without cost" in warning


@pytest.mark.slow
def test_check_and_report_name_an_allocation_that_sees_the_present(tmp_path):
    scenario = load(allocation={"kind": "least_energy", "deadline": 10.0})
    run = netfl.trace(scenario, tmp_path / "run", progress=False)
    (warning,) = [text for text in setup.warnings(scenario) if text.startswith("access.allocation: ")]  # as in a check
    assert "see the present snr_db of users without cost" in warning
    assert any(warning in sentence for sentence in run_status(RunData(run)))


@pytest.mark.parametrize(
    ("overrides", "key", "remedy"),
    [
        ({"allocation": "equal", "mac": "fdma"}, "access.allocation", "division: allocated"),
        ({"allocation": {"kind": "least_time", "budget": "1 J"}, "energy": None}, "access.allocation", "give energy"),
        (
            {"allocation": {"kind": "least_energy", "deadline": "1 s"}, "energy": {"capacitance": 1e-28}},
            "access.allocation",
            "energy.transmit",
        ),
        (
            {
                "allocation": {"kind": "least_energy", "deadline": "1 s"},
                "reception": {"kind": "shannon", "rate": "1 Mbps"},
            },
            "access.allocation",
            "without rate",
        ),
    ],
)
def test_errors(overrides, key, remedy):
    with pytest.raises(ScenarioError) as caught:
        load(**overrides)
    (fault,) = caught.value.faults
    assert fault.key == key
    assert remedy in fault.remedy


@pytest.mark.parametrize("known", [("a", "b"), ("a",)])
def test_power_of_sending_by_device(known):
    parts = {
        "compute": {
            "devices": {"a": {"users": 1, "speed": 50}, "b": {"users": 2, "speed": 20}},
            "cycles": 1e7,
            "samples": 100,
        },
        "energy": {"devices": {name: {"efficiency": 0.2} for name in known}},
        "allocation": {"kind": "least_energy", "deadline": "10 s"},
    }
    if known == ("a", "b"):
        load(**parts)
        return
    with pytest.raises(ScenarioError, match="depends on the power of sending, which is not given"):
        load(**parts)


def test_rounds_in_which_nobody_can_take_part():
    """No user can train in time, and all rounds close as they open."""
    parts = PARTS | {"round": {"kind": "first", "m": 1}, "allocation": {"kind": "least_energy", "deadline": 0.01}}
    rounds, log = play(3, 2, **parts)
    assert [(len(round_.deliveries), float(round_.closed_s)) for round_ in rounds] == [(0, 0.0)] * 2
    assert np.isnan(log.final_values["utilisation.tower:0"])


@pytest.mark.parametrize(("deadline", "selection", "count"), [(10.0, "all", 1), (10.0, "fedcs", 0), (5.0, "all", 0)])
def test_a_warning_of_uploads_planned_after_the_round(deadline, selection, count):
    if selection == "fedcs":
        selection = {"kind": "fedcs", "deadline": "20 s"}
    round_rule = {"kind": "available", "deadline": "5 s"}
    allocation = {"kind": "least_energy", "deadline": deadline}
    access, context, _ = make(3, 1, **PARTS | {"round": round_rule}, allocation=allocation, selection=selection)
    assert len([text for text in access.warnings(context) if "lets uploads end 10 s" in text]) == count


def test_a_user_without_a_share_takes_no_part():
    """User 2 cannot send within the budget, and does not train."""
    limits_j = least_energy_of_sending_j(request())
    budget_j = float(np.sqrt(limits_j[1] * limits_j[2]))
    rounds, log = play(3, 1, **PARTS, allocation={"kind": "least_time", "budget": budget_j})
    assert sorted(delivery.user for delivery in rounds[0].deliveries) == [0, 1]
    assert log.spendings["begun"].tolist() == [1, 1, 0]
    assert rounds[0].closed_s < 3600


@pytest.mark.parametrize("transport", [None, {"grain": "packet", "mtu": "10 kB"}])
def test_sizes_of_a_caller_count(transport):
    """Every update arrives at the deadline of the allocation, whatever its size."""
    allocation = {"kind": "least_energy", "deadline": "8 s"}
    parts = {"topology": {"kind": "star", "distances": [*DISTANCES_M], "rate": "1000 Gbps", "delay": 0}}
    parts |= {"broadcast_rate": "1000 Gbps", "round": {"kind": "available", "deadline": "1 h"}}
    parts |= {"update_size": "20 kB", "transport": transport}
    three_rounds = validate(ScenarioDocument(scenario(**parts, allocation=allocation) | {"rounds": 3}))
    with netfl.Simulation(three_rounds) as simulation:
        for bits in (160e3, 80e3, [160e3, 40e3, 10e3]):
            assert ends_s(simulation.step(update_bits=bits)) == pytest.approx(np.full(3, 8.0), rel=1e-3)


class Greedy(Allocation):
    """Gives every user more of one value than there is, or fails."""

    name: str

    def allocate(self, request):
        users = request.users
        if self.name == "curious":
            return Decision(request.snr / request.snr.sum(), np.ones(users), np.ones(users))
        if self.name == "slow":
            return Decision(np.full(users, 1 / users), np.ones(users), np.full(users, 1e-4))
        if self.name == "one":
            return Decision(np.full(users, 1 / users), np.where(np.arange(users) == 1, 2.0, 1.0), np.ones(users))
        if self.name == "nothing":
            return request.nothing
        if self.name == "none":
            return None
        values = {name: np.full(users, 1 / users) for name in ("share", "power", "frequency")}
        factor = users if self.name == "share" else 2 * users
        values[self.name] = values[self.name] * factor
        return Decision(**values)

    def laws(self):
        return (Law.none("draws nothing"),)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("power", r"power is .* not a fraction of at least 1e-20 for each of 3 users"),
        ("one", r"power is .* not a fraction of at least 1e-20 for each of 3 users"),
        ("slow", r"frequency is .* not a fraction of at least 0.001 for each of 3 users"),
        ("share", "shares of the users of tower:0 add up to 3, more than the band"),
        ("nothing", r"fails: AttributeError.*test_allocated_rounds.py, line \d+"),
        ("none", "gives None"),
    ],
)
def test_a_model_that_fails_or_gives_more_than_there_is(name, problem):
    allocation = {"kind": f"{__name__}:Greedy", "name": name}
    with pytest.raises(ScenarioError, match=rf"allocation: allocate\(\) of .*:Greedy, at 0 s .*{problem}"):
        play(3, 1, **PARTS, allocation=allocation)


class Seer(Greedy):
    """Names a value that no allocation gets."""

    observes: ClassVar = ("battery_j",)


def test_an_allocation_that_observes_what_it_cannot():
    access, _, _ = make(3, 1, **PARTS, allocation={"kind": f"{__name__}:Seer", "name": "power"})
    problems = [fault.problem for fault in nested_faults(access, "", ScenarioFacts(3, 1))]
    assert "it observes battery_j, which an allocation cannot" in problems


def test_an_allocation_that_reads_a_signal_that_it_has_not_declared():
    problem = "allocation: it reads snr_db of users, but declares nothing; add snr_db to `observes` of the allocation"
    with pytest.raises(ScenarioError, match=problem):
        play(3, 1, **PARTS, allocation={"kind": f"{__name__}:Greedy", "name": "curious"})
