"""Warnings for cells that receive more packets than they can send, and bounds of the MACs."""

import numpy as np
import pytest
from support.small_network import PLAIN, make, play

from netfl.access.network import NetworkAccess
from netfl.core.kinds import list_kinds
from netfl.network.mac import Mac
from netfl.streams import Streams
from netfl.types import AccessContext, Law, NullRecorder

FIXED = {"distribution": "fixed", "mean": "1 kbit"}
"""Packet size with an airtime of 1 s."""
BOUNDED = [
    {"kind": "tdma"},
    {"kind": "tdma", "slot": 1.5},
    {"kind": "slotted_aloha", "probability": 0.2},
    {"kind": "slotted_aloha", "adaptive": "known", "slot": 2.0},
    {"kind": "multichannel_aloha", "channels": 3, "probability": 0.6},
    {"kind": "controlled", "channels": 2, "probability": 0.4},
    {"kind": "adaptive_aloha", "channels": 2, "metric": "age"},
    {"kind": "pure_aloha", "backoff": "5 s"},
    {"kind": "round_robin", "poll": 0.25},
    {"kind": "max_snr"},
    {"kind": "proportional_fair", "window": 10},
    {"kind": "priority", "weights": [4, 1, 2, 3]},
    {"kind": "fdma"},
    {"kind": "fdma", "division": "need"},
    {"kind": "noma", "poll": 0.25},
]
UNBOUNDED = [
    {"kind": "slotted_aloha", "probability": 1.0, "max_attempts": 1},
    {"kind": "pure_aloha", "backoff": "5 s", "max_attempts": 1},
]


def build_mac(overrides):
    """Build a MAC from its settings."""
    return NetworkAccess.model_validate(PLAIN | {"mac": overrides}).mac


def carried_hz(overrides, duration_s=2000.0):
    """Return the packets per second, delivered or lost, of four saturated users."""
    traffic = {"kind": "saturated", "size": FIXED}
    base_settings = {key: PLAIN[key] for key in ("topology", "radio", "channel", "reception")}
    if overrides["kind"] == "noma":  # two equal frames are received at once
        base_settings |= {"interference": "sinr", "reception": base_settings["reception"] | {"threshold": "-3.1 dB"}}
    access = NetworkAccess.model_validate(base_settings | {"mac": overrides, "traffic": traffic})
    metrics = {}

    class MetricsRecorder(NullRecorder):
        def final_metrics(self, values):
            metrics.update(values)

    setting = AccessContext(4, 1, 0, Streams(3), np.ones(4), 0.0, 0.0, MetricsRecorder(), duration_s=duration_s)
    [*access.rounds(setting)]
    return (metrics["delivered"] + sum(metrics[key] for key in metrics if key.startswith("lost."))) / duration_s


@pytest.mark.parametrize("overrides", BOUNDED, ids=lambda overrides: "-".join(map(str, overrides.values())))
@pytest.mark.quick_first
def test_departures_respect_bound_of_mac(overrides):
    mac = build_mac(overrides)
    bound_hz = mac.max_frames_hz(1.0, 1.0, 0.0)
    assert carried_hz(overrides) <= bound_hz + 1e-3
    if overrides["kind"] in {"tdma", "max_snr", "fdma", "noma"}:  # no collisions: the bound is tight
        assert carried_hz(overrides) == pytest.approx(bound_hz, rel=3e-3)


@pytest.mark.parametrize("overrides", UNBOUNDED, ids=lambda overrides: overrides["kind"])
def test_single_attempts_have_no_bound(overrides):
    assert build_mac(overrides).max_frames_hz(1.0, 1.0, 0.0) == np.inf
    assert carried_hz(overrides) > 1.0


class Fdma(Mac):
    """A MAC from outside with eight subchannels, which states no bound and names its fields as it likes."""

    subchannels: int = 8
    """Number of subchannels."""
    max_attempts: int | None = None
    """No limit."""
    slot: str = "none"
    """No slot of time."""
    channels: tuple[int, ...] = ()
    """No number of channels."""

    def serve(self, cell):
        while True:
            yield cell.wait_for_backlog()
            for user in cell.backlog().tolist():
                cell.attempt([user], channel=user % self.subchannels, limit=self.max_attempts)

    def laws(self):
        return (Law.none("nothing is drawn"),)


def test_mac_from_outside_is_not_judged_by_its_fields():
    """Eight users on eight subchannels, 6.4 frames of 1 s a second: nothing is warned of."""
    access, setting, _ = make(8, 3, traffic=constant_traffic(1.25))
    access = access.model_copy(update={"mac": Fdma()})
    assert [*access.warnings(setting)] == []
    assert Fdma().max_frames_hz(1.0, 1.0, 0.0) == np.inf
    assert Fdma().attempt_limit is None


def test_late_arrivals_raise_the_bound_of_slots():
    """Frames of 0.1 s in slots of 1.1 s: delays of up to 1 s leave room for eleven frames in a slot."""
    mac = build_mac({"kind": "slotted_aloha", "probability": 0.2, "slot": 1.1})
    assert mac.max_frames_hz(0.1, 0.1, 0.0) == pytest.approx(1 / 1.1)
    assert mac.max_frames_hz(0.1, 0.1, 1.0) == pytest.approx(11 / 1.1)


def test_limit_of_attempts_is_stated():
    """Updates of several frames are warned of, whatever MAC has a limit."""
    for mac in ({"kind": "tdma"}, {"kind": "round_robin"}, {"kind": "pure_aloha", "backoff": "5 s"}):
        assert build_mac(mac).attempt_limit is None
        assert build_mac(mac | {"max_attempts": 3}).attempt_limit == 3
    assert build_mac({"kind": "csma_ca", "max_attempts": 7}).attempt_limit == 7
    assert build_mac({"kind": "lorawan", "max_attempts": 5}).attempt_limit == 5


def test_every_mac_states_its_bound():
    bounded = {overrides["kind"] for overrides in BOUNDED}
    assert {kind for kind in list_kinds(Mac) if kind not in bounded} == {"csma_ca", "lorawan", "simultaneous"}
    assert build_mac({"kind": "csma_ca"}).max_frames_hz(1.0, 1.0, 0.0) == 1.0
    assert build_mac({"kind": "csma_ca", "max_attempts": 7}).max_frames_hz(1.0, 1.0, 0.0) == np.inf


def list_warnings(users=4, **overrides):
    """Return the warnings for a network before its first round."""
    access, setting, _ = make(users, 1, **overrides)
    return [*access.warnings(setting)]


def constant_traffic(time_s, **overrides):
    """Return constant traffic with one packet of each user per *time_s*."""
    return {"kind": "constant", "every": time_s, "size": FIXED} | overrides


@pytest.mark.parametrize(
    ("overrides", "load"),
    [
        ({"traffic": constant_traffic(3.9)}, "1.03"),
        ({"traffic": constant_traffic(4.1), "update_size": 2000.0}, "1.95"),  # slots fit the longest frame
        ({"traffic": constant_traffic(4.1), "mac": {"kind": "tdma", "slot": 2.5}}, "2.44"),
        ({"traffic": {"kind": "poisson", "rate": 0.5, "size": FIXED}}, "2"),
        (
            {
                "traffic": constant_traffic(1.0),
                "mac": {"kind": "multichannel_aloha", "channels": 3, "probability": 0.1},
            },
            "1.33",
        ),
        ({"traffic": constant_traffic(1.0), "interference": {"kind": "capture", "margin": 6.0}}, "4"),
    ],
)
def test_overloaded_cell_is_reported(overrides, load):
    (warning,) = list_warnings(**overrides)
    assert f"the users of tower:0 receive {load} times as many packets as they can send" in warning


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"traffic": constant_traffic(4.1)},
        {"traffic": constant_traffic(1.0, buffer=5)},
        {"traffic": constant_traffic(1.0), "interference": "sinr"},
        {"traffic": constant_traffic(1.0), "mac": {"kind": "slotted_aloha", "probability": 0.2, "max_attempts": 3}},
        {"traffic": {"kind": "saturated", "size": FIXED}},
        {"traffic": constant_traffic(1.0, source="towers")},
        {"traffic": constant_traffic(1.0), "exempt": {"contention": [0]}},
    ],
)
def test_stable_cell_is_not_reported(overrides):
    assert list_warnings(**overrides) == []


MODES = {"kind": "mcs", "standard": "802.11a"}


def test_slot_with_idle_time_is_reported():
    """A frame at 54 Mb/s takes a ninth of the slot that a frame at 6 Mb/s fills."""
    radio = PLAIN["radio"] | {"bandwidth": "20 MHz"}
    (warning,) = list_warnings(mac={"kind": "tdma"}, reception=MODES, radio=radio)
    assert "holds one frame, so that in the fastest mode 89 % of it stay idle" in warning
    (warning,) = list_warnings(mac={"kind": "tdma", "slot": 1.0}, reception=MODES, radio=radio, update_size="1 Mbit")
    assert "tdma: a slot lasts 1 s and holds one frame, so that in the fastest mode 98 % of it stay idle" in warning
    assert list_warnings(mac={"kind": "round_robin"}, reception=MODES, radio=radio) == []
    assert list_warnings(mac={"kind": "tdma"}) == [], "a single mode fills its slot"


def test_load_is_computed_per_tower():
    nodes = {"core": {"role": "server", "position": [0, 0]}}
    nodes |= {name: {"role": "tower", "position": [x, 0]} for name, x in (("west", 0), ("east", 1000))}
    links = [{"between": ["core", name]} for name in ("west", "east")]
    placement = {"kind": "listed", "positions": [[1, 0], [2, 0], [3, 0], [1001, 0]]}
    topology = {"kind": "inline", "nodes": nodes, "links": links, "placement": placement}
    assert list_warnings(topology=topology, traffic=constant_traffic(4.0)) == []
    (warning,) = list_warnings(topology=topology, traffic=constant_traffic(2.5))
    assert "west receive 1.2 times" in warning


def two_cells(*user_x_m):
    """Return a topology of two towers, 1 km from each other, and users on the line between."""
    nodes = {"core": {"role": "server", "position": [0, 0]}}
    nodes |= {name: {"role": "tower", "position": [x, 0]} for name, x in (("west", 0), ("east", 1000))}
    links = [{"between": ["core", name]} for name in ("west", "east")]
    placement = {"kind": "listed", "positions": [[x, 0] for x in user_x_m]}
    return {"kind": "inline", "nodes": nodes, "links": links, "placement": placement}


@pytest.mark.parametrize(
    ("mac", "shared_air", "user_x_m", "is_warned"),
    [
        ({"kind": "tdma"}, True, (1, 2, 999, 998), True),
        ({"kind": "tdma"}, False, (1, 2, 999, 998), False),
        ({"kind": "tdma"}, True, (1, 2, 3, 998), False),  # one cell has three slots, the other one
        ({"kind": "round_robin"}, True, (1, 2, 999, 998), False),  # follows its backlog
    ],
)
def test_equal_schedules_of_cells_that_share_the_air_are_named(mac, shared_air, user_x_m, is_warned):
    texts = list_warnings(mac=mac, shared_air=shared_air, topology=two_cells(*user_x_m))
    named = [text for text in texts if text.startswith("access.shared_air: 2 cells, such as west and east")]
    assert len(named) == is_warned, texts


EXPONENTIAL = {"distribution": "exponential", "mean": 1000}


@pytest.mark.parametrize(
    ("rate_hz", "slot_s", "load"),
    [(0.17, None, "1.08"), (0.15, None, None), (0.1, 2.0, None), (0.11, 2.0, "1.02")],
)
def test_last_slots_of_exponential_frames_are_not_filled(rate_hz, slot_s, load):
    """Four users fill slots of s mean airtimes, 1 s, with 1 - e^-s frames each: 0.632 for 1 s, 0.865 for 2 s."""
    mac = {"kind": "tdma"} | ({"slot": slot_s} if slot_s else {})
    traffic = {"kind": "poisson", "rate": rate_hz, "size": EXPONENTIAL}
    texts = [text for text in list_warnings(mac=mac, traffic=traffic, update_size=1000.0) if "overloaded" in text]
    assert len(texts) == (load is not None)
    assert all(f"receive {load} times" in text for text in texts)


def test_duration_suppresses_warning():
    access, setting, _ = make(4, 1, traffic=constant_traffic(1.0))
    assert [*access.warnings(setting)]
    timed = AccessContext(4, 1, 0, setting.streams, setting.samples, 1e3, 1e3, NullRecorder(), duration_s=5.0)
    assert [*access.warnings(timed)] == []


@pytest.mark.slow
def test_rounds_of_overloaded_network_grow():
    def round_lengths(time_s):
        rounds, _ = play(4, 9, traffic=constant_traffic(time_s))
        return np.array([result.closed_s - result.opened_s for result in rounds])

    assert (round_lengths(16.0) < 25.0).all()
    overloaded = round_lengths(2.0)  # twice the capacity: packets that arrive by t leave by 2 t
    assert overloaded[-1] > 20.0 * overloaded[1]
