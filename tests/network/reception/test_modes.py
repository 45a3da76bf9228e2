"""The order of the modes of a reception changes nothing: the network asks for the most robust and the fastest one."""

from itertools import permutations

import numpy as np
import pytest
from support.small_network import PLAIN, play
from support.tiny_scenarios import MODELS, example_settings

from netfl.access.network import NetworkAccess
from netfl.core.family_members import base_of, find_model
from netfl.network.reception import Reception
from netfl.network.reception.lora import Lora
from netfl.network.reception.mcs import Mcs
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.types import Law, ScenarioFacts

FAMILY = "network/reception"


class Reordered(Reception):
    """Another reception with its modes in another order: mode i is mode ``order[i]`` of *inner*.

    Example::

        kind: modes:Reordered
        order: [1, 0]
        inner: {kind: lora}
    """

    inner: Reception
    order: tuple[int, ...]

    @property
    def modes(self):
        return self.inner.modes

    @property
    def min_sir_db(self):
        sir_db = self.inner.min_sir_db
        return None if sir_db is None else sir_db[np.ix_(self.order, self.order)]

    def rate_bps(self, bandwidth_hz, mode=0):
        return self.inner.rate_bps(bandwidth_hz, self.order[mode])

    def success(self, sinr_db, bandwidth_hz, bits, mode=0):
        return self.inner.success(sinr_db, bandwidth_hz, bits, self.order[mode])

    def choose(self, snr_db, bandwidth_hz):
        return np.argsort(self.order)[self.inner.choose(snr_db, bandwidth_hz)]

    def laws(self):
        return (Law.none("that of another model"),)


def model_of(kind, **settings):
    return find_model(base_of(FAMILY), kind).model_validate(settings)


def multi_mode_receptions():
    """Return every reception with several modes: the examples of all models, and the standards."""
    found = [model_of("mcs", standard="802.11a"), model_of("mcs", standard="lte")]
    for family, kind in MODELS:
        if family == FAMILY:
            settings = {key: value for key, value in example_settings(family, kind).items() if key != "kind"}
            found.append(model_of(kind, **settings))
    return [reception for reception in found if reception.modes > 1]


RECEPTIONS = multi_mode_receptions()
DOWNLINKS = [{"mode": "multicast"}, {"mode": "unicast"}, None]
RADIO_HZ = 125e3


def outcomes_of(reception, downlink, interference="collide", traffic=()):
    """Return all events and metrics of a network of users at different SNRs, around the thresholds of *reception*."""
    bandwidth_hz = RADIO_HZ if isinstance(getattr(reception, "inner", reception), Lora) else 20e6
    middle_db = np.median([reception._median_snr_db(bandwidth_hz, 1e3, mode) for mode in range(reception.modes)])
    longest_s = 1e3 / min(reception.rate_bps(bandwidth_hz, mode) for mode in range(reception.modes))
    noise_dbm = -174.0 + 10.0 * np.log10(bandwidth_hz)
    overrides = {
        "radio": {"power": "20 dBm", "bandwidth": bandwidth_hz},
        "channel": [
            {"kind": "constant", "gain": float(middle_db + noise_dbm - 20.0)},
            {"kind": "lognormal_shadowing", "sigma": 8},
            {"kind": "rayleigh", "coherence": longest_s},
        ],
        "unreachable": "keep",
        "mac": {"kind": "slotted_aloha", "probability": 0.3} if interference == "sinr" else {"kind": "round_robin"},
        "round": {"kind": "first", "m": 3, "deadline": 20.0 * longest_s},
        "interference": interference,
        "reception": reception,
        "compute": {"speed": 1.0 / longest_s, "samples": 1},
        "traffic": traffic,
    }
    if downlink is not None:
        overrides |= {"broadcast_rate": None, "downlink": downlink}
    rounds, log = play(6, 8, **overrides)
    return rounds, sorted(map(repr, log.rows)), log.final_values


@pytest.mark.parametrize("reception", RECEPTIONS, ids=lambda reception: type(reception).__name__)
@pytest.mark.parametrize("downlink", DOWNLINKS, ids=["multicast", "unicast", "ideal"])
@pytest.mark.quick_first
def test_order_of_modes_changes_nothing(reception, downlink):
    expected = outcomes_of(reception, downlink)
    assert any("received" in row for row in expected[1])
    rng = np.random.default_rng(0)
    orders = [range(reception.modes)[::-1], *(rng.permutation(reception.modes) for _ in range(2))]
    for order in orders:
        assert outcomes_of(Reordered(inner=reception, order=tuple(map(int, order))), downlink) == expected


@pytest.mark.parametrize("reception", RECEPTIONS, ids=lambda reception: type(reception).__name__)
@pytest.mark.quick_first
def test_order_of_modes_changes_neither_interference_nor_the_load_of_traffic(reception):
    traffic = [{"kind": "poisson", "load": 0.05, "size": {"mean": "50 B"}}]
    order = tuple(range(reception.modes)[::-1])
    expected = outcomes_of(reception, None, "sinr", traffic)
    assert outcomes_of(Reordered(inner=reception, order=order), None, "sinr", traffic) == expected


ROWS = [
    SnrThreshold(threshold=2.0, rate=1e6),
    SnrThreshold(threshold=7.0, rate=2e6),
    SnrThreshold(threshold=5.0, rate=2e6),  # as fast as the one before, and more robust
    SnrThreshold(threshold=3.0, rate=0.5e6),  # slower than the most robust one
]


@pytest.mark.parametrize("order", [*permutations(range(4))])
def test_order_of_rows_of_a_table_changes_nothing(order):
    table = Mcs(table=tuple(ROWS[row] for row in order))
    assert table.rows[table.most_robust_mode(1e6)] == ROWS[0]
    chosen = table.choose(np.array([-9.0, 1.9, 2.0, 3.5, 5.0, 9.0]), 1e6)
    assert [table.rows[mode] for mode in chosen] == [ROWS[0]] * 4 + [ROWS[2]] * 2


def test_copy_of_a_table_with_other_rows_picks_among_those():
    table = Mcs(table=(ROWS[0], ROWS[1]))
    assert table.choose(np.array([9.0]), 1e6).tolist() == [1]
    assert table.model_copy(update={"table": (ROWS[1], ROWS[0])}).choose(np.array([9.0]), 1e6).tolist() == [0]
    assert table == Mcs(table=(ROWS[0], ROWS[1]))


def test_lora_is_most_robust_with_the_largest_spreading_factor():
    lora = Lora()
    assert lora.most_robust_mode(125e3) == 5
    assert lora.is_received(np.array([-20.1, -20.0]), 125e3).tolist() == [False, True]


def test_size_of_a_version_decides_which_mode_is_most_robust():
    """A packet error rate falls with a steep modulation and with a code, so that the order depends on the size."""
    table = Mcs(
        table=(
            model_of("modulation", scheme="bpsk"),
            model_of("snr_threshold", threshold=5.0, rate=1e5),
        )
    )
    for bits in (1.0, 1e3, 1e9):
        needed_db = [table._median_snr_db(1e6, bits, mode) for mode in (0, 1)]
        assert table.most_robust_mode(1e6, bits) == int(np.argmin(needed_db))
    assert table.most_robust_mode(1e6, 10.0) != table.most_robust_mode(1e6, 1e9)


LORA_AT_MINUS_14_DB = {
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
    "channel": [{"kind": "constant", "gain": "-145.03 dB"}],
    "reception": {"kind": "lora"},
    "mac": {"kind": "round_robin"},
    "broadcast_rate": None,
    "round": {"kind": "first", "m": 1, "deadline": "60 s"},
    "topology": {"kind": "star", "distance": "100 m", "rate": "1 Tbps", "delay": 0},
}


def test_multicast_lasts_and_is_received_as_the_most_robust_mode():
    """At -14 dB SF 7 to 9 are too weak: a multicast uses SF12, 1000 bit at 293 bit/s."""
    rounds, log = play(1, 3, **LORA_AT_MINUS_14_DB, downlink={"mode": "multicast"})
    received_s = [row[1] for row in log.rows if row[0] == "received"]
    assert len(received_s) == 3
    assert received_s[0] == pytest.approx(1000.0 / (12 * 125e3 / 2**12 * 4 / 5), abs=1e-3)
    assert [len(result.deliveries) for result in rounds] == [1, 1, 1]


def test_unicast_uses_the_mode_of_its_user():
    """With 24 dB more gain the SNR is 10 dB: SF7, 1000 bit at 5469 bit/s."""
    overrides = LORA_AT_MINUS_14_DB | {"channel": [{"kind": "constant", "gain": "-121.03 dB"}]}
    _, log = play(1, 1, **overrides, downlink={"mode": "unicast"})
    (received_s,) = [row[1] for row in log.rows if row[0] == "received"]
    assert received_s == pytest.approx(1000.0 / (7 * 125e3 / 2**7 * 4 / 5), abs=1e-3)


def test_spreading_factor_is_refused_with_modes_of_another_reception():
    settings = PLAIN | {"mac": {"kind": "lorawan"}, "reception": {"kind": "mcs", "standard": "802.11a"}}
    faults = [*NetworkAccess.model_validate(settings).faults(ScenarioFacts(1, 1))]
    assert "reception" in [fault.key for fault in faults]
