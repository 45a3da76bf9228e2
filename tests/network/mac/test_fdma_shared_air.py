"""Frequency division in cells that share the air: places of shares in the band, and interference by their overlap."""

import copy
from typing import ClassVar

import numpy as np
import pytest
from support import composition_checks as checks
from support.error_messages import assert_one_fault
from support.small_network import SECTION, play
from test_compositions import composed, outcomes

from netfl.errors import ScenarioError
from netfl.network.interference import Interference
from netfl.network.radio.spectrum import WHOLE_BAND, FreeSpectrum, Spectrum
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument

BITS = 1e5
BAND_HZ = 1e5
USERS_M = np.array([[100.0, 0.0], [0.0, 300.0], [2100.0, 0.0], [2000.0, 250.0], [1800.0, 0.0]])
TOWERS_M = np.array([[0.0, 0.0], [2000.0, 0.0]])
TOWER_OF = np.array([0, 0, 1, 1, 1])
RADIOS_HZ = np.array([1e5, 1e5, 1e5, 1e5, 2e4])
GRID = 3000
"""Bins of the band in the reference."""


class Noted(Interference):
    """Receives all frames, and keeps the signal and the interference of each user's last one, divided by its noise."""

    notes: ClassVar[dict[int, tuple[float, float]]] = {}

    def success(self, frames):
        for user, signal, power in zip(frames.users.tolist(), frames.signal, frames.interference(), strict=True):
            self.notes[user] = float(signal), float(power)
        return np.ones(len(frames.users))


def network(mac, radios_hz=RADIOS_HZ, **overrides):
    """Return the parts of a network of two cells, 2 km apart, with two and three users."""
    return {
        "topology": {
            "kind": "tree",
            "fanout": [2],
            "towers": TOWERS_M.tolist(),
            "rate": "1000 Gbps",
            "delay": 0,
            "placement": {"kind": "listed", "positions": USERS_M.tolist()},
        },
        "radio": {"power": "0 dBm", "bandwidth": [*radios_hz]},
        "reception": {"kind": "snr_threshold", "threshold": "-60 dB", "rate": "10 kbps"},
        "mac": {"kind": "fdma"} | mac,
        "channel": [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}],
        "update_size": BITS,
        "round": {"kind": "first", "m": 5},
        "unreachable": "keep",
        "shared_air": True,
        "interference": f"{__name__}:Noted",
    } | overrides


def over_noise_hz(tower):
    """Return the received power of each user of 0 dBm at *tower* over the noise in 1 Hz."""
    distances_m = np.linalg.norm(USERS_M - TOWERS_M[tower], axis=1)
    loss_db = 20.0 * np.log10(4.0 * np.pi * 868e6 / 299792458.0) + 30.0 * np.log10(distances_m)
    return 10.0 ** ((0.0 - loss_db + 174.0) / 10.0)


def reference(edges):
    """Return signal and interference of each user over the noise in its share, by sums over bins of the band.

    Args:
        edges: lower and upper edge of each user's share, as fractions of the band, ``[users, 2]``.
    """
    bins = (np.arange(GRID) + 0.5) / GRID
    is_in = (bins >= edges[:, :1]) & (bins < edges[:, 1:])  # [users, bins]
    widths_hz = is_in.sum(axis=1) / GRID * BAND_HZ
    signal = np.empty(5)
    power = np.empty(5)
    for user in range(5):
        received_hz = over_noise_hz(TOWER_OF[user])
        density = (is_in * (received_hz / widths_hz)[:, None])[TOWER_OF[user] != TOWER_OF].sum(
            axis=0
        )  # over that of noise
        signal[user] = received_hz[user] / widths_hz[user]
        power[user] = density[is_in[user]].sum() / is_in[user].sum()
    return signal, power


def edges_of(widths):
    """Return the edges of shares of these *widths*, side by side in each cell."""
    edges = np.empty((5, 2))
    for tower in range(2):
        members = np.flatnonzero(tower == TOWER_OF)
        high = np.cumsum(widths[members])
        edges[members] = np.column_stack([high - widths[members], high])
    return edges


def noted():
    """Return the signals and the interferences that `Noted` has kept."""
    return np.array([Noted.notes[user] for user in range(5)]).T


@pytest.mark.parametrize(
    ("mac", "radios_hz", "widths"),
    [
        ({}, np.full(5, 1e5), [1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3]),
        ({"among": "backlog"}, np.full(5, 1e5), [1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3]),
        ({}, RADIOS_HZ, [0.5, 0.5, 0.4, 0.4, 0.2]),
        ({"division": "given", "shares": [0.5, 0.4, 0.1, 0.5, 0.2]}, RADIOS_HZ, [0.5, 0.4, 0.1, 0.5, 0.2]),
    ],
)
def test_interference_is_the_density_of_others_over_the_overlap(mac, radios_hz, widths):
    """The reference sums densities over bins of the band; frames of one cell do not meet."""
    Noted.notes.clear()
    play(5, 1, **network(mac | {"placement": "ordered"}, radios_hz))
    signal, power = reference(edges_of(np.array(widths)))
    found_signal, found_power = noted()
    assert found_signal == pytest.approx(signal, rel=1e-3)
    assert found_power == pytest.approx(power, rel=1e-3)


def test_shares_that_do_not_overlap_do_not_interfere():
    """The cells use opposite ends of the band: no frame meets another, and the model is not asked."""
    Noted.notes.clear()
    mac = {"division": "given", "shares": [0.5, 0.4, 0.1, 0.1, 0.1], "placement": "ordered"}
    rounds, _ = play(5, 1, **network(mac, np.full(5, 1e5)))
    assert len(rounds[0].deliveries) == 5
    assert Noted.notes.keys() == {0, 2, 3, 4}  # user 1 is above 0.5, and the other cell below 0.3


@pytest.mark.parametrize("threshold_db", [-0.01, 0.01])
def test_a_frame_is_received_by_its_signal_over_noise_and_interference(threshold_db):
    """Without `Noted`, user 4 is received just below the SINR of the reference, and collides just above it."""
    signal, power = reference(edges_of(np.array([1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3])))
    sinr_db = 10 * np.log10(signal / (1 + power))
    weakest = int(sinr_db.argmin())
    reception = {"kind": "snr_threshold", "threshold": float(sinr_db.min()) + threshold_db, "rate": "10 kbps"}
    rule = {"kind": "first", "m": 5, "deadline": "60 s"}
    _, log = play(
        5, 1, **network({"placement": "ordered", "max_attempts": 1}, np.full(5, 1e5), reception=reception,
                        interference="sinr", round=rule),
    )  # fmt: skip
    failed = [row for row in log.rows if row[0] == "failed"]
    if threshold_db < 0:
        assert failed == []
    else:
        assert [(row[2], row[-1]) for row in failed] == [(weakest, "collided")]


def test_random_places_differ_from_run_to_run_and_fit_into_the_band():
    found = set()
    for seed in range(4):
        Noted.notes.clear()
        play(5, 1, seed, **network({}, np.full(5, 1e5)))
        _, power = noted()
        assert (power > 0).all()
        found.add(tuple(power.round(6)))
        # the density of the other cell, over the band, is the same wherever its shares lie
        for tower in range(2):
            mine = tower == TOWER_OF
            widths = np.where(mine, 1 / mine.sum(), 0)
            mean_power = (power * widths)[mine].sum()
            others_hz = over_noise_hz(tower)[~mine]
            assert mean_power == pytest.approx(others_hz.sum() / BAND_HZ, rel=1e-6)
    assert len(found) > 1


@pytest.mark.slow
def test_blocks_of_two_cells_meet_by_their_numbers():
    """A user has the interference of the user of the other cell in its block alone, beside that from outside."""
    Noted.notes.clear()
    blocks = {"kind": "fdma", "division": "blocks", "interference": ["-100 dBm", "-110 dBm", "-105 dBm", "-95 dBm"]}
    allocation = {"kind": "block_assignment", "deadline": "1 h", "budget": "1 MJ", "weights": "equal"}
    parts = network(blocks, allocation=allocation, energy={"transmit": "1 W"})
    parts["radio"] = {"power": "0 dBm", "bandwidth": 1e5}
    parts["compute"] = {"frequency": 1e9, "cycles": 1e7, "samples": 100}
    play(5, 1, **parts)
    outside = 10 ** ((np.array([-100, -110, -105, -95]) + 174) / 10) / (BAND_HZ / 4)  # over the noise in a block
    for user, (signal, power) in Noted.notes.items():
        received_hz = over_noise_hz(TOWER_OF[user])
        densities = received_hz / (BAND_HZ / 4)
        # the block is the one in which the signal has this SINR
        block = int(np.argmin(np.abs(densities[user] / (1 + outside) - signal)))
        assert signal == pytest.approx(densities[user] / (1 + outside[block]), rel=1e-4)
        candidates = densities[TOWER_OF[user] != TOWER_OF] / (1 + outside[block])
        assert power == 0 or np.abs(candidates / power - 1).min() < 1e-4
    powers = [power for _, power in Noted.notes.values()]
    assert np.count_nonzero(powers) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("division", ["equal", "need"])
def test_users_of_equal_towers_that_share_the_air_are_equal(division):
    """Places that are drawn favour no user: four towers with two users each, half-way to the centre."""
    row = composed({"mac": "fdma", "air": "shared", "interference": "sinr", "topology": "two towers"})
    data = copy.deepcopy(row.data)
    sites = [[100.0, 0.0], [0.0, 100.0], [-100.0, 0.0], [0.0, -100.0]]
    places = [[0.5 * x, 0.5 * y] for x, y in sites * 2]
    placement = {"kind": "listed", "positions": places}
    data["users"] = 8
    access = data["access"]
    access["mac"] = {"kind": "fdma", "division": division}
    access["topology"] = {"kind": "tree", "fanout": [4], "towers": sites, "placement": placement}
    access["channel"] = [
        {"kind": "log_distance", "exponent": 3.5, "frequency": "868 MHz"},
        {"kind": "rayleigh", "coherence": "1 s"},
    ]
    access["round"] = {"kind": "first", "m": 1, "deadline": "5 s"}
    assert checks.unequal(validate(ScenarioDocument(data, "towers")), within=True) == {}


class TestSpectrum:
    def test_overlap_against_bins(self):
        rng = np.random.default_rng(1)
        bins = (np.arange(20_000) + 0.5) / 20_000
        spectra = []
        for size in (3, 5):
            shares = rng.dirichlet(np.ones(size)) * 0.9
            spectra.append(WHOLE_BAND.place_by_keys(shares, rng.random(size + 1)))
            assert spectra[-1].widths == pytest.approx(shares)
        masks = []
        for spectrum in spectra:
            mask = np.zeros((spectrum.count, len(bins)))
            for frame, low, high in zip(spectrum.frames, spectrum.low, spectrum.high, strict=True):
                mask[frame] += (bins >= low) & (bins < high)
            assert mask.sum(axis=0).max() == 1
            masks.append(mask)
        assert spectra[0].overlap(spectra[1]) == pytest.approx(masks[0] @ masks[1].T / len(bins), abs=2e-4)

    def test_frames_fill_what_others_leave_free(self):
        """Two frames on the air leave three gaps; the first of the new frames needs two of them."""
        free = FreeSpectrum.beside([Spectrum.from_edges(np.array([0.6, 0.1]), np.array([0.7, 0.4]))])
        assert free.low == pytest.approx([0.0, 0.4, 0.7])
        assert free.high == pytest.approx([0.1, 0.6, 1.0])
        placed = free.place_in_order(np.array([0.2, 0.3]))
        assert placed.frames.tolist() == [0, 0, 1, 1]
        assert placed.low == pytest.approx([0.0, 0.4, 0.5, 0.7])
        assert placed.high == pytest.approx([0.1, 0.5, 0.6, 0.9])
        assert placed.widths == pytest.approx([0.2, 0.3])

    def test_selected_frames_keep_their_places(self):
        spectrum = WHOLE_BAND.place_in_order(np.array([0.2, 0.3, 0.5]))
        chosen = spectrum.select([2, 0])
        assert chosen.low[chosen.frames == 0] == pytest.approx([0.5])
        assert chosen.low[chosen.frames == 1] == pytest.approx([0.0])

    def test_edges_that_touch_do_not_overlap(self):
        thirds = WHOLE_BAND.place_in_order(np.full(3, 1 / 3))
        assert (thirds.overlap(thirds) > 0).tolist() == np.eye(3, dtype=bool).tolist()


def scenario_of(**changes):
    access = copy.deepcopy(SECTION) | {
        "mac": {"kind": "fdma"},
        "update_size": "1 kB",
        "topology": {
            "kind": "tree",
            "fanout": [2],
            "towers": [[0, 0], [900, 900]],
            "placement": {"kind": "listed", "positions": [[0, 1], [1, 0], [900, 800]]},
        },
        "unreachable": "keep",
        "compute": {"speed": 100, "samples": 1},
    }
    return {"name": "air", "users": 3, "rounds": 2, "access": access | changes}


@pytest.mark.parametrize(
    "mac",
    [{}, {"among": "backlog"}, {"division": "need"}, {"division": "water_filling"}, {"division": "allocated"},
     {"placement": "ordered"}, {"division": "given", "shares": [0.4, 0.6, 0.5]}],
)  # fmt: skip
@pytest.mark.parametrize("interference", ["sinr", {"kind": "capture", "margin": "3 dB"}])
def test_all_divisions_share_the_air(mac, interference):
    """Every update arrives, as the towers are far apart."""
    changes = {"mac": {"kind": "fdma"} | mac, "shared_air": True, "interference": interference}
    if mac.get("division") == "allocated":
        changes["allocation"] = "equal"
    rows, _ = outcomes(validate(ScenarioDocument(scenario_of(**changes), "air.yaml")))
    assert len(rows) == 2


BAD = {
    "one collision domain": ({"shared_air": True}, "access.shared_air", "one collision domain", "sinr"),
    "places without effect": (
        {"mac": {"kind": "fdma", "placement": "ordered"}}, "access.mac.placement", "without shared_air", ""),
    "places of blocks": (
        {"mac": {"kind": "fdma", "division": "blocks", "interference": ["-60 dBm", "-50 dBm"], "placement": "ordered"},
         "shared_air": True, "interference": "sinr", "energy": {"transmit": "1 W"},
         "compute": {"frequency": 1e9, "cycles": 1e7, "samples": 100},
         "allocation": {"kind": "block_assignment", "deadline": "1 s", "budget": "1 J", "weights": "equal"}},
        "access.mac.placement", "no effect", "division: equal"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_located_error(case):
    changes, key, problem, remedy = BAD[case]
    with pytest.raises(ScenarioError) as caught:
        outcomes(validate(ScenarioDocument(scenario_of(**changes), "air.yaml")))
    assert_one_fault(caught.value, key, problem, remedy)
