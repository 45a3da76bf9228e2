"""Shares of the band and frequencies of processors set by an agent: meaning of actions, times and energies."""

import numpy as np
import pytest
from support.gym_environments import NETWORK, make

import netfl
from netfl.core.kinds import kind_of
from netfl.errors import ScenarioError

gymnasium = pytest.importorskip("gymnasium", reason="netfl-sim[gymnasium] is not installed")
pytestmark = pytest.mark.extra

DISTANCES_M = np.array([100.0, 150.0, 200.0])
SPEED_OF_LIGHT_M_S = 299792458.0
BANDWIDTH_HZ, CARRIER_HZ, EXPONENT = 1e6, 2e9, 3.5
BITS = 8e5
CYCLES, SAMPLES, FREQUENCY_HZ = 1e7, 100, np.array([1e9, 2e9, 0.5e9])
CAPACITANCE, TRANSMIT_W = 1e-28, 0.5
DIVIDED = {
    "name": "divided",
    "users": 3,
    "rounds": 10,
    "access": {
        "kind": "network",
        "round": {"kind": "available", "deadline": "10 min"},
        "topology": {"kind": "star", "distances": [*DISTANCES_M], "rate": "1000 Gbps", "delay": 0},
        "radio": {"power": "20 dBm", "bandwidth": BANDWIDTH_HZ},
        "channel": [{"kind": "log_distance", "exponent": EXPONENT, "frequency": CARRIER_HZ}],
        "reception": "shannon",
        "unreachable": "keep",
        "mac": {"kind": "fdma", "division": "allocated"},
        "compute": {"frequency": [*FREQUENCY_HZ], "cycles": CYCLES, "samples": SAMPLES},
        "energy": {"capacitance": CAPACITANCE, "transmit": TRANSMIT_W},
        "broadcast_rate": "1000 Gbps",
        "update_size": BITS,
    },
}


def make_divided(overrides=None, **options):
    return make("ResourceAllocation", scenario=DIVIDED, overrides=overrides, **options)


def rates_bps(share, power_db=0.0):
    """Return the Shannon rate of each user in its share of the band, from distances, power and thermal noise."""
    loss_db = 20 * np.log10(4 * np.pi * CARRIER_HZ / SPEED_OF_LIGHT_M_S) + 10 * EXPONENT * np.log10(DISTANCES_M)
    received_w = 10 ** ((20 + power_db - loss_db - 30) / 10)
    band_hz = share * BANDWIDTH_HZ
    noise_w = 10 ** ((-174 - 30) / 10) * band_hz
    return band_hz * np.log2(1 + received_w / noise_w)


def snr_db():
    """Return the SNR of each user in the whole band at full power."""
    return 10 * np.log10(2 ** (rates_bps(np.ones(3)) / BANDWIDTH_HZ) - 1)


def test_the_agent_sees_speeds_and_the_size_of_uploads():
    environment = make_divided()
    observation, _ = environment.reset(seed=1)
    np.testing.assert_allclose(observation["speed"], FREQUENCY_HZ / FREQUENCY_HZ.max(), rtol=1e-6)
    np.testing.assert_allclose(observation["upload"], BITS / (BITS + 1e6), rtol=1e-6)
    state = environment.simulation.state
    np.testing.assert_allclose(state.speed, FREQUENCY_HZ / CYCLES)
    np.testing.assert_allclose(state.update_bits, BITS)


def test_uploads_include_headers_and_parity():
    """12 groups of 8 packets with 2 of parity, of 1,000 bytes each, 8 of which are header."""
    transport = {"grain": "packet", "mtu": "1 kB", "header": "8 B", "fec": {"data": 8, "total": 10}}
    environment = make_divided({"access.transport": transport, "access.update_size": f"{12 * 8 * 992} B"})
    environment.reset(seed=1)
    [bits] = {*environment.simulation.state.update_bits}
    _, _, _, _, info = environment.step(environment.action_space.sample())
    assert bits * len(info["round"].deliveries) == pytest.approx(info["round"].uplink_bits)
    assert bits == 12 * 10 * 8000


@pytest.mark.parametrize("gap_db", [0.0, 6.0])
def test_a_link_margin_is_the_distance_from_1_bps_per_hz_where_the_rate_follows_the_snr(gap_db):
    reception = {"kind": "shannon", "gap": f"{gap_db} dB"}
    environment = make_divided({"access.reception": reception, "access.radio.power": "40 dBm"})
    observation, _ = environment.reset(seed=1)
    margins_db = snr_db() + 20 - gap_db  # 20 dB more power
    assert (margins_db > 20).all(), "beyond the range of receptions that need an SNR"
    np.testing.assert_allclose(observation["link_margin"], margins_db / 60, rtol=1e-5)


def arrivals_s(info):
    """Return the time of each user's delivery after the opening of the round, in the order of the users."""
    deliveries = sorted(info["round"].deliveries, key=lambda delivery: delivery.user)
    assert [delivery.user for delivery in deliveries] == [0, 1, 2]
    return np.array([delivery.arrived_s for delivery in deliveries]) - info["round"].opened_s


@pytest.mark.parametrize("share", [[1 / 3, 1 / 3, 1 / 3], [0.5, 0.2, 0.3], [0.2, 0.1, 0.1]])
def test_uploads_take_the_time_of_shannon_rates(share):
    environment = make_divided(action="dict", controls=["share"])
    environment.reset(seed=1)
    *_, info = environment.step({"share": share})
    trained_s = SAMPLES * CYCLES / FREQUENCY_HZ
    assert arrivals_s(info) == pytest.approx(trained_s + BITS / rates_bps(np.array(share)), rel=1e-4)


def test_frequency_sets_times_and_energies_of_trainings():
    """At the frequency φ f, c cycles take c / (φ f) and κ c (φ f)²; sending at -3 dB takes half of the power."""
    environment = make_divided(
        action="dict", reward="energy", power_range=(-10 * np.log10(2), 0.0), frequency_range=(0.2, 1.0)
    )
    environment.reset(seed=1)
    u = np.array([1.0, 0.5, 0.0])
    fraction = np.array([1.0, 0.6, 0.2])
    share = np.array([0.5, 0.25, 0.25])
    power = np.array([1.0, 0.0, 1.0])
    _, reward, _, _, info = environment.step({"share": share, "power": power, "frequency": u})
    frequency_hz = fraction * FREQUENCY_HZ
    trained_s = SAMPLES * CYCLES / frequency_hz
    sent_s = BITS / rates_bps(share, 10 * np.log10((1 + power) / 2))
    assert arrivals_s(info) == pytest.approx(trained_s + sent_s, rel=1e-4)
    trained_j = CAPACITANCE * SAMPLES * CYCLES * frequency_hz**2
    sent_j = TRANSMIT_W * (1 + power) / 2 * sent_s
    assert -reward == pytest.approx((trained_j + sent_j).sum(), rel=1e-4)


def test_flat_action_follows_the_formulas():
    environment = make_divided(power_range=(-10.0, 0.0), frequency_range=(0.2, 0.7))
    assert environment.controls == ("share", "power", "frequency")
    assert environment.action_space == gymnasium.spaces.Box(-1.0, 1.0, (9,))
    x = np.array([-1.0, 0.0, 0.5])
    settings = environment.settings(np.tile(x, 3))
    u = (x + 1) / 2
    np.testing.assert_allclose(settings["share"], u / 1.25)
    np.testing.assert_allclose(settings["power"], -10 + 10 * u)
    np.testing.assert_allclose(settings["frequency"], 0.2 + 0.5 * u)


def test_shares_below_the_band_stay_as_they_are():
    environment = make_divided(controls=["share"])
    np.testing.assert_allclose(environment.settings([-0.8, -0.4, -1.0])["share"], [0.1, 0.3, 0.0])


def test_shares_are_divided_in_each_cell():
    access = DIVIDED["access"] | {
        "topology": {"kind": "grid", "rows": 1, "columns": 2, "spacing": "200 m"},
        "compute": {"frequency": 1e9, "cycles": CYCLES, "samples": SAMPLES},
    }
    scenario = DIVIDED | {"users": 8, "access": access}
    environment = make("ResourceAllocation", scenario=scenario, action="dict", controls=["share"])
    environment.reset(seed=1)
    tower_of = environment.simulation.layout.tower_at_start
    share = environment.settings({"share": np.full(8, 0.9)})["share"]
    assert share == pytest.approx(1 / np.bincount(tower_of)[tower_of])
    assert len(set(tower_of.tolist())) == 2
    assert len(environment.step({"share": np.full(8, 0.9)})[-1]["round"].deliveries) == 8


def test_user_without_a_share_takes_no_part():
    environment = make_divided(action="dict", controls=["share"], reward="energy")
    environment.reset(seed=1)
    *_, info = environment.step({"share": [0.5, 0.0, 0.5]})
    assert info["deliveries"].tolist() == [1, 0, 1]
    assert environment.simulation.state.energy_j[1] == 0.0
    *_, info = environment.step({"share": np.zeros(3)})
    assert info["round"].deliveries == ()


@pytest.mark.parametrize("action", ["flat", "dict"])
def test_checker_of_gymnasium_finds_nothing(action):
    from gymnasium.utils.env_checker import check_env

    check_env(make_divided(action=action, rounds=3))


def test_agent_takes_the_place_of_an_allocation():
    overrides = {"access.allocation": {"kind": "least_energy", "deadline": "20 s"}}
    environment = make_divided(overrides, action="dict", controls=["share"])
    environment.reset(seed=1)
    *_, info = environment.step({"share": np.full(3, 1 / 3)})
    assert arrivals_s(info).max() < 10
    kept = make(scenario=DIVIDED, overrides=overrides)  # where the agent selects users, the allocation stays
    kept.reset(seed=1)
    *_, info = kept.step(None)
    assert arrivals_s(info) == pytest.approx(np.full(3, 20.0), rel=1e-3)


@pytest.mark.parametrize(
    ("mac", "controls", "known"),
    [
        ({"kind": "fdma"}, None, ("power", "frequency")),
        ({"kind": "fdma", "division": "water_filling"}, ["frequency"], ("frequency",)),
        ({"kind": "round_robin"}, ["power", "frequency"], ("power", "frequency")),
        ({"kind": "round_robin"}, None, ("probability", "power", "frequency")),
    ],
)
def test_mac_stays_if_the_agent_needs_no_other(mac, controls, known):
    overrides = {"access.mac": mac, "access.reception": NETWORK["access"]["reception"]}
    environment = make_divided(overrides, controls=controls)
    assert environment.controls == known
    expected = "controlled" if "probability" in known else mac["kind"]
    assert kind_of(type(environment.scenario.access.mac)) == expected
    environment.reset(seed=1)
    assert environment.step(environment.action_space.sample())[-1]["time_s"] > 0


BLOCKS = {
    "access.mac": {"kind": "fdma", "division": "blocks", "interference": ["10 nW", "20 nW"]},
    "access.allocation": {"kind": "block_assignment", "weights": "equal"},
    "access.reception": {"kind": "waterfall", "threshold": "0.023 dB", "fading": "rayleigh"},
}
SPEED = {"access.compute": {"speed": 10, "samples": 100}, "access.energy": {"per_training": "1 J"}}


@pytest.mark.parametrize(
    ("overrides", "options", "message"),
    [
        (BLOCKS, {}, r"access\.mac: the band of the MAC is blocks, .* \('fdma'\); use division: allocated"),
        ({}, {"controls": ["probability"]},
         r"controls: has no effect .* \('probability'\); use share, power, frequency, deadline; probability needs a"),
        ({"access.mac.division": "equal"}, {"controls": ["share"]},
         r"controls: has no effect .* \('share'\); use power, frequency, deadline; share needs mac: {kind: fdma"),
        (SPEED, {"controls": ["frequency"]},
         r"controls: has no effect .* \('frequency'\); use share, power, deadline; frequency needs compute\.cycles"),
        ({}, {"controls": ["shares"]}, r"controls: no such setting \('shares'\); use share, power, frequency"),
        ({}, {"frequency_range": (0.0, 1.0)}, "frequency_range: not a least and a larger fraction from 0.001 to 1"),
        ({}, {"frequency_range": (0.5, 1.5)}, "frequency_range: not a least and a larger fraction"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_errors(overrides, options, message):
    with pytest.raises(ScenarioError, match=message):
        make_divided(overrides, **options)


def test_network_without_anything_to_set_is_an_error():
    access = {
        key: value
        for key, value in DIVIDED["access"].items()
        if key not in {"radio", "channel", "reception", "unreachable"}
    }
    access |= {"mac": {"kind": "csma_ca", "rate": "12 Mbps"}, "compute": {"speed": 10, "samples": 100}}
    access |= {"energy": {"per_training": "1 J"}, "round": {"kind": "first", "m": 1}}
    with pytest.raises(ScenarioError, match=r"access: nothing of this network can be set by an agent; .*power needs a"):
        make("ResourceAllocation", scenario=DIVIDED | {"access": access}, controls=["power"])


@pytest.mark.parametrize(
    "changes", [{"share": np.full(3, 1.1)}, {"frequency": np.full(3, -0.1)}, {"frequency": np.zeros(2)}, {"rate": 1}]
)
def test_wrong_dictionary_actions_are_errors(changes):
    environment = make_divided(action="dict")
    environment.reset(seed=1)
    with pytest.raises(ScenarioError, match=r"action: not in the action space.*'share': Box"):
        environment.step({**environment.action_space.sample(), **changes})


def test_shares_and_frequencies_reach_the_users():
    environment = make_divided(rounds=4)
    environment.reset(seed=5)
    environment.action_space.seed(1)
    action = environment.action_space.sample()
    with netfl.Simulation(netfl.load(DIVIDED), seed=5) as simulation:
        for _ in range(4):
            expected = simulation.step(controls=environment.settings(action))
            result = environment.step(action)[-1]["round"]
            assert [each.user for each in result.deliveries] == [each.user for each in expected.deliveries]
            assert (result.opened_s, result.closed_s) == (expected.opened_s, expected.closed_s)
