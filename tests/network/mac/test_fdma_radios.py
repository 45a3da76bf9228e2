"""Frequency division among radios of different bandwidths: widths, noise and rates, limits, and errors."""

import copy

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from support.error_messages import assert_one_fault
from support.small_network import SECTION, make, play
from test_compositions import outcomes

from netfl.errors import ScenarioError
from netfl.network._band_division import BandRequest, divide_in_proportion, fill_water, finish_together
from netfl.network.allocation import Allocation, AllocationRequest, Decision
from netfl.network.allocation._tradeoff import shares_for
from netfl.network.allocation.least_energy import LeastEnergy
from netfl.network.allocation.least_time import LeastTime
from netfl.network.mac import Mac
from netfl.network.mac.fdma import Fdma
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.types import Law

BITS = 1e5
DISTANCES_M = np.array([100.0, 250.0, 400.0, 700.0, 1000.0])
RADIOS_HZ = np.array([1e4, 1e5, 5e4, 1e5, 2e4])
BAND_HZ = 1e5
CHANNEL = [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}]


def over_noise_hz(distances_m=DISTANCES_M):
    """Return the received power of users of 0 dBm over the noise in 1 Hz: Friis' loss at 1 m, 30 dB in each decade."""
    loss_db = 20.0 * np.log10(4.0 * np.pi * 868e6 / 299792458.0) + 30.0 * np.log10(distances_m)
    return 10.0 ** ((0.0 - loss_db + 174.0) / 10.0)


def capacity_bps(power_hz, width_hz):
    """Return the capacity in a width: the power over the noise in 1 Hz is *power_hz*."""
    return width_hz * np.log2(1.0 + power_hz / width_hz)


def ends_s(mac, radios_hz=RADIOS_HZ, **overrides):
    """Return the time of each user's delivery after the end of its training, which takes 1 s, ``[users]``."""
    users = len(radios_hz)
    parts = {
        "radio": {"power": "0 dBm", "bandwidth": [*radios_hz]},
        "reception": "shannon",
        "mac": {"kind": "fdma"} | mac,
        "channel": CHANNEL,
        "topology": {"kind": "star", "distances": [*DISTANCES_M[:users]], "rate": "1000 Gbps", "delay": 0},
        "update_size": BITS,
        "round": {"kind": "first", "m": users},
        "unreachable": "keep",
    }
    played, _ = play(users, 1, **(parts | overrides))
    deliveries = sorted(played[-1].deliveries, key=lambda delivery: delivery.user)
    assert [delivery.user for delivery in deliveries] == [*range(users)]
    return np.array([delivery.arrived_s for delivery in deliveries]) - played[-1].opened_s - 1.0


@pytest.mark.parametrize("among", ["users", "backlog"])
@pytest.mark.parametrize(
    ("band_hz", "widths_hz"),
    [
        (None, [1e4, 7e4 / 3, 7e4 / 3, 7e4 / 3, 2e4]),  # of the widest radio: two are at their limits
        (3e5, [1e4, 1e5, 5e4, 1e5, 2e4]),  # more than all radios together
        (2e4, [4e3, 4e3, 4e3, 4e3, 4e3]),  # all radios are wider than a fifth
    ],
)
def test_equal_shares_leave_to_others_what_a_narrow_radio_cannot_use(band_hz, widths_hz, among):
    mac = {"among": among}
    if band_hz is not None:
        mac["band"] = band_hz
    expected_s = BITS / capacity_bps(over_noise_hz(), np.array(widths_hz))
    assert ends_s(mac) == pytest.approx(expected_s, rel=1e-5)


def test_given_shares_are_those_of_the_band():
    shares = np.array([0.1, 0.4, 0.25, 0.15, 0.1])
    mac = {"division": "given", "shares": [*shares]}
    assert ends_s(mac) == pytest.approx(BITS / capacity_bps(over_noise_hz(), shares * BAND_HZ), rel=1e-5)
    mac["band"] = 8e4
    assert ends_s(mac) == pytest.approx(BITS / capacity_bps(over_noise_hz(), shares * 8e4), rel=1e-5)


def test_water_filling_within_radios_has_the_largest_sum_of_rates():
    """Compare the rates of a run with a general optimiser over the widths."""
    power_hz = over_noise_hz()
    rates_bps = BITS / ends_s({"division": "water_filling"})

    def negative_rate(widths):
        return -capacity_bps(power_hz, np.maximum(widths, 1e-9) * BAND_HZ).sum() / BAND_HZ

    limits = RADIOS_HZ / BAND_HZ
    within = {"type": "ineq", "fun": lambda widths: 1.0 - widths.sum()}
    best = minimize(
        negative_rate, np.full(5, 0.05), method="SLSQP", bounds=[(1e-9, limit) for limit in limits],
        constraints=[within], options={"ftol": 1e-13, "maxiter": 500},
    )  # fmt: skip
    assert best.x[0] == pytest.approx(limits[0])  # the optimum has a radio at its limit, and one that is not
    assert best.x.min() < limits.min()
    assert rates_bps.sum() / BAND_HZ == pytest.approx(-best.fun, rel=1e-5)
    assert rates_bps == pytest.approx(capacity_bps(power_hz, best.x * BAND_HZ), rel=2e-2)


def test_frames_by_need_end_together_but_for_radios_at_their_limits():
    """The reference finds T by Brent's method: Σ min(width_i(T), radio_i) is the band."""
    power_hz = over_noise_hz()

    def widths_hz(time_s):
        needed = []
        for power, radio_hz in zip(power_hz, RADIOS_HZ, strict=True):
            if time_s * capacity_bps(power, radio_hz) <= BITS:
                needed.append(radio_hz)
                continue
            excess = lambda width, power=power: time_s * capacity_bps(power, width) - BITS  # noqa: E731
            needed.append(brentq(excess, 1e-3, radio_hz, xtol=1e-9))
        return np.array(needed)

    time_s = brentq(lambda time_s: widths_hz(time_s).sum() - BAND_HZ, 1e-2, 1e3, xtol=1e-12)
    widths = widths_hz(time_s)
    assert 0 < (widths == RADIOS_HZ).sum() < 5
    found_s = ends_s({"division": "need"})
    assert found_s == pytest.approx(BITS / capacity_bps(power_hz, widths), rel=1e-5)
    assert found_s[widths < RADIOS_HZ] == pytest.approx(np.full((widths < RADIOS_HZ).sum(), time_s), rel=1e-5)


def test_need_under_modes_divides_by_airtimes_in_the_band():
    """A mode has 1 bit/s/Hz: all frames end at once in widths that are equal, up to their radios."""
    reception = {"kind": "mcs", "table": [{"kind": "snr_threshold", "threshold": "-60 dB", "rate": "1 Mbps"}]}
    found_s = ends_s({"division": "need"}, reception=reception)
    # a mode of 1 Mbit/s in the bandwidth of each radio: widths are in proportion to the bandwidths of the radios
    share = RADIOS_HZ / RADIOS_HZ.sum()
    assert found_s == pytest.approx(BITS / (1e6 * share * BAND_HZ / RADIOS_HZ), rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_divisions_within_limits_meet_their_conditions(seed):
    """Shares add up to 1, none is above its limit, and all others have one level, or one end."""
    rng = np.random.default_rng(seed)
    limits = rng.uniform(0.02, 0.4, 12)
    request = BandRequest(rng.uniform(-10.0, 20.0, 12), rng.uniform(1.0, 3.0, 12), limits)
    for shares, level in (
        (divide_in_proportion(np.ones(12), limits), lambda s: 1.0 / s),
        (fill_water(request), lambda s: request.snr / s),
        (finish_together(request), lambda s: request.bits / (s * np.log1p(request.snr / s))),
    ):
        assert shares.sum() == pytest.approx(1.0)
        assert (shares <= limits * (1 + 1e-12)).all()
        is_free = shares < limits
        assert 0 < is_free.sum() < 12
        common = level(shares)[is_free]
        assert common == pytest.approx(np.full(is_free.sum(), common[0]), rel=1e-6)
        assert (level(shares)[~is_free] >= common[0] * (1 - 1e-9)).all()  # they would have more


def test_radios_that_cannot_fill_the_band_have_all_they_can_use():
    limits = np.array([0.1, 0.2, 0.3])
    request = BandRequest(np.array([0.0, 5.0, 10.0]), np.ones(3), limits)
    for shares in (divide_in_proportion(np.ones(3), limits), fill_water(request), finish_together(request)):
        assert shares.tolist() == limits.tolist()


def test_limits_of_1_change_nothing():
    rng = np.random.default_rng(3)
    free = BandRequest(rng.uniform(-10.0, 20.0, 7), rng.uniform(1.0, 3.0, 7))
    limited = BandRequest(free.snr_db, free.bits, np.ones(7))
    assert fill_water(limited).tolist() == fill_water(free).tolist()
    assert finish_together(limited).tolist() == finish_together(free).tolist()
    assert divide_in_proportion(np.ones(7), np.ones(7)).tolist() == [1 / 7] * 7


def test_bounds_of_shares_keep_to_the_radios():
    class TwoCells:
        users, towers, tower_at_start = 3, ("a", "b"), np.array([0, 0, 1])

    limits = np.array([0.2, 1.0, 0.6])

    def bounds(**keys):
        shares = Fdma(**keys).share_bounds(TwoCells, limits)
        return shares.smallest.tolist(), shares.largest.tolist()

    assert bounds(among="users") == ([0.2, 0.8, 0.6], [0.2, 0.8, 0.6])
    assert bounds() == ([0.2, 0.8, 0.6], limits.tolist())
    assert bounds(division="need") == ([0.0, 0.0, 0.0], limits.tolist())


ALLOCATED = {
    "compute": {"frequency": 1e9, "cycles": 1e7, "samples": 100},
    "energy": {"capacitance": 1e-28, "transmit": "500 mW"},
}


@pytest.mark.parametrize(
    "allocation",
    ["equal", {"kind": "least_energy", "deadline": "6 s"}, {"kind": "least_energy", "deadline": "60 s"},
     {"kind": "least_time", "budget": "0.4 J"}],
)  # fmt: skip
def test_allocations_keep_to_the_radios(allocation):
    """The ends of a run are those of widths that the radios have: none sends faster than in all of its bandwidth."""
    found_s = ends_s({"division": "allocated"}, **ALLOCATED, allocation=allocation)
    fastest_s = BITS / capacity_bps(over_noise_hz(), RADIOS_HZ)
    assert (found_s >= fastest_s * (1 - 1e-6)).all()
    if allocation == "equal":
        widths_hz = np.array([1e4, 7e4 / 3, 7e4 / 3, 7e4 / 3, 2e4])
        assert found_s == pytest.approx(BITS / capacity_bps(over_noise_hz(), widths_hz), rel=1e-5)


def request_of(limits):
    return AllocationRequest(
        known_snr=np.array([1000.0, 30.0, 3.0]),
        bits=np.full(3, 2e6),
        train_s=np.array([1.0, 0.5, 1.0]),
        train_j=np.full(3, 0.1),
        fixed_j=np.zeros(3),
        transmit_w=np.full(3, 0.5),
        bandwidth_hz=1e6,
        max_share=np.array(limits),
    )


def energy_j(request, shares, uploads_s, deadline_s):
    """Return the sum of energies of trainings and uploads that take these times, by their definitions."""
    frequency = np.minimum(1.0, request.train_s / (deadline_s - uploads_s))
    power = (2 ** (request.bits / (uploads_s * shares * request.bandwidth_hz)) - 1) * shares / request.snr
    assert (power <= 1 + 1e-6).all()
    return float((request.train_j * frequency**2 + power * request.transmit_w * uploads_s).sum())


def test_least_energy_within_radios_is_the_optimum():
    """Compare the sum of energies with a general optimiser over shares and upload times."""
    request = request_of([0.25, 0.9, 0.4])
    deadline_s = 6.0
    decision = LeastEnergy(deadline=deadline_s).allocate(request)
    assert decision.share.sum() == pytest.approx(1.0)
    assert (decision.share <= request.limits).all()
    assert decision.share[2] == pytest.approx(0.4)
    rates_bps = decision.share * 1e6 * np.log2(1 + decision.power * request.snr / decision.share)
    found_j = energy_j(request, decision.share, request.bits / rates_bps, deadline_s)

    def total_j(x):
        shares, uploads_s = x[:3], x[3:]
        power = (2 ** (request.bits / (uploads_s * shares * 1e6)) - 1) * shares / request.snr
        frequency = request.train_s / (deadline_s - uploads_s)
        return float((request.train_j * frequency**2 + power * 0.5 * uploads_s).sum())

    start = np.concatenate([[0.25, 0.35, 0.4], np.full(3, 4.5)])
    bounds = [(1e-3, limit) for limit in request.limits] + [(0.5, deadline_s - train_s) for train_s in request.train_s]
    best = minimize(
        total_j, start, method="SLSQP", bounds=bounds,
        constraints=[{"type": "ineq", "fun": lambda x: 1.0 - x[:3].sum()}], options={"ftol": 1e-12, "maxiter": 500},
    )  # fmt: skip
    assert found_j == pytest.approx(best.fun, rel=1e-4)


def test_least_energy_drops_a_user_whose_radio_is_too_narrow_for_the_deadline():
    request = request_of([0.25, 0.9, 0.4])
    needed = shares_for(request, 3.0 - request.train_s, np.ones(3))
    assert needed[0] < 0.25 < needed[2]  # user 2 needs the band for a deadline of 3 s
    decision = LeastEnergy(deadline=3.0).allocate(request_of([0.25, 0.9, needed[2] * 0.99]))
    assert (decision.share > 0).tolist() == [True, True, False]


def test_least_time_is_bound_by_a_narrow_radio():
    """User 2 would need more than its radio can use, and decides the deadline by itself."""
    narrow = 0.2
    request = request_of([1.0, 1.0, narrow])
    decision = LeastTime(budget=5.0).allocate(request)
    assert decision.share[2] == pytest.approx(narrow)
    assert decision.share.sum() == pytest.approx(1.0)
    end_s = request.train_s[2] + request.bits[2] / (narrow * 1e6 * np.log2(1 + request.snr[2] / narrow))
    uploads_s = request.bits / (decision.share * 1e6 * np.log2(1 + decision.power * request.snr / decision.share))
    assert (request.train_s / decision.frequency + uploads_s) == pytest.approx(np.full(3, end_s), rel=1e-6)


def test_a_caller_may_give_a_radio_more_than_it_can_use():
    """A narrow radio uses all of its bandwidth, and the rest of the band stays idle."""
    import netfl

    access = copy.deepcopy(SECTION) | {
        "topology": {"kind": "star", "distances": [*DISTANCES_M[:2]], "rate": "1000 Gbps", "delay": 0},
        "radio": {"power": "0 dBm", "bandwidth": [1e4, 1e5]},
        "channel": CHANNEL, "reception": "shannon", "mac": {"kind": "fdma", "division": "allocated"},
        "compute": {"speed": 1, "samples": 1}, "update_size": f"{BITS} bit", "broadcast_rate": "1000 Gbps",
        "round": {"kind": "first", "m": 2}, "unreachable": "keep",
    }  # fmt: skip
    scenario = validate(ScenarioDocument({"name": "caller", "users": 2, "rounds": 1, "access": access}))
    with netfl.Simulation(scenario) as simulation:
        (first, second) = sorted(simulation.step(controls={"share": [0.5, 0.5]}).deliveries, key=lambda d: d.user)
    expected_s = BITS / capacity_bps(over_noise_hz(DISTANCES_M[:2]), np.array([1e4, 5e4]))
    assert [first.arrived_s - 1, second.arrived_s - 1] == pytest.approx(expected_s, rel=1e-4)


class Half(Allocation):
    """Half of the band for each of two users, whatever their radios."""

    def allocate(self, request):
        return Decision(np.full(2, 0.5), np.ones(2), np.ones(2))

    def laws(self):
        return (Law.none("draws nothing"),)


class HalfMac(Mac):
    """Half of the band for each of two users, whatever their radios."""

    @property
    def divides_band(self):
        return True

    def serve(self, cell):
        while True:
            yield cell.wait_for_backlog()
            cell.attempt(cell.backlog(), share=0.5)

    def laws(self):
        return (Law.none("draws nothing"),)


def test_models_from_outside_that_exceed_a_radio_are_named():
    with pytest.raises(ScenarioError, match=r"allocation: .*\[0\] of the request have wider shares than their radios"):
        ends_s({"division": "allocated"}, RADIOS_HZ[:2], allocation=f"{__name__}:Half")
    with pytest.raises(ScenarioError, match=r"mac: .*share that is wider than the radio of its user"):
        ends_s({"kind": f"{__name__}:HalfMac"}, RADIOS_HZ[:2])
    assert (ends_s({"kind": f"{__name__}:HalfMac"}, RADIOS_HZ[1:3]) > 0).all()


def scenario_of(**changes):
    """Return a scenario of a cell of FDMA; *changes* are keys of ``access``."""
    access = copy.deepcopy(SECTION) | {"mac": {"kind": "fdma"}, "update_size": "1 kB"}
    access["radio"] = access["radio"] | {"bandwidth": [1e6, 2e5, 1e6]}
    access["compute"] = {"speed": 100, "samples": 1}
    return {"name": "band", "users": 3, "rounds": 2, "access": access | changes}


BLOCKS = {"kind": "fdma", "division": "blocks", "interference": ["-60 dBm", "-50 dBm"]}
LIMITS = {"kind": "block_assignment", "deadline": "1 s", "budget": "1 J", "weights": "equal"}
BAD = {
    "a share that is wider than the radio": (
        {"mac": {"kind": "fdma", "division": "given", "shares": [0.3, 0.3, 0.3]}},
        "access.mac.shares", "user 1 has 300000 Hz, and its radio 200000 Hz", "at most 0.2"),
    "blocks for radios that differ": (
        {"mac": BLOCKS, "allocation": LIMITS, "energy": {"transmit": "1 W"}, "reception": "shannon",
         "compute": {"frequency": 1e9, "cycles": 1e7, "samples": 100}},
        "access.radio.bandwidth", "equal radios", "division: allocated"),
    "a band of blocks": (
        {"mac": BLOCKS | {"band": "1 MHz"}, "allocation": LIMITS, "energy": {"transmit": "1 W"},
         "reception": "shannon", "radio": SECTION["radio"],
         "compute": {"frequency": 1e9, "cycles": 1e7, "samples": 100}},
        "access.mac.band", "no effect", "division: equal"),
    "a band of nothing": ({"mac": {"kind": "fdma", "band": 0}}, "access.mac.band", "greater than 0", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_located_error(case):
    changes, key, problem, remedy = BAD[case]
    with pytest.raises(ScenarioError) as caught:
        outcomes(validate(ScenarioDocument(scenario_of(**changes), "band.yaml")))
    assert_one_fault(caught.value, key, problem, remedy)


def test_warnings_know_the_largest_width_of_each_radio():
    """A frame of a radio at its limit takes the airtime of that width, which the warning of held rates states."""
    overrides = {
        "radio": {"power": "0 dBm", "bandwidth": [1e4, 1e4]},
        "reception": "shannon",
        "mac": {"kind": "fdma", "band": 1e5},
        "channel": [*CHANNEL, {"kind": "rayleigh", "coherence": "50 ms"}],
        "topology": {"kind": "star", "distances": [100.0, 100.0]},
        "unreachable": "keep",
        "update_size": BITS,
    }
    access, context, _ = make(2, 1, **overrides)
    (warning,) = [text for text in access.warnings(context) if text.startswith("held rates")]
    overrides |= {"mac": {"kind": "round_robin"}}
    access, context, _ = make(2, 1, **overrides)
    (alone,) = [text for text in access.warnings(context) if text.startswith("held rates")]
    assert warning.split("air for ")[1].split(" (")[0] == alone.split("air for ")[1].split(" (")[0]
