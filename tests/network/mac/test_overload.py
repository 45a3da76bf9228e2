"""More packets than can leave their users: it is said beforehand, and only where it is so."""

import numpy as np
import pytest
from support.small_network import PLAIN, make, play

from netfl.access._warnings import max_frames_hz
from netfl.access.network import NetworkAccess
from netfl.network.mac import Mac
from netfl.registry import list_kinds
from netfl.streams import Streams
from netfl.types import AccessContext, NullRecorder

FIXED = {"distribution": "fixed", "mean": "1 kbit"}
"""Packets that take a second."""
BOUND = [
    {"kind": "tdma"},
    {"kind": "tdma", "slot": 1.5},
    {"kind": "slotted_aloha", "probability": 0.2},
    {"kind": "slotted_aloha", "adaptive": "known", "slot": 2.0},
    {"kind": "multichannel_aloha", "channels": 3, "probability": 0.6},
    {"kind": "adaptive_aloha", "channels": 2, "metric": "age"},
    {"kind": "pure_aloha", "backoff": "5 s"},
    {"kind": "round_robin", "poll": 0.25},
    {"kind": "max_snr"},
    {"kind": "proportional_fair", "window": 10},
    {"kind": "priority", "weights": [4, 1, 2, 3]},
]
FREE = [
    {"kind": "slotted_aloha", "probability": 1.0, "max_attempts": 1},
    {"kind": "pure_aloha", "backoff": "5 s", "max_attempts": 1},
]


def mac_of(said):
    """A MAC as a scenario says it."""
    return NetworkAccess.model_validate(PLAIN | {"mac": said}).mac


def carried_hz(said, duration_s=2000.0):
    """Packets that leave four users each second who always have another, received or given up."""
    traffic = {"kind": "saturated", "size": FIXED}
    kept = {key: PLAIN[key] for key in ("topology", "radio", "channel", "reception")}
    access = NetworkAccess.model_validate(kept | {"mac": said, "traffic": traffic})
    figures = {}

    class Told(NullRecorder):
        def final_metrics(self, values):
            figures.update(values)

    setting = AccessContext(4, 1, 0, Streams(3), np.ones(4), 0.0, 0.0, Told(), duration_s=duration_s)
    [*access.rounds(setting)]
    return (figures["delivered"] + sum(figures[key] for key in figures if key.startswith("lost."))) / duration_s


@pytest.mark.parametrize("said", BOUND, ids=lambda said: "-".join(map(str, said.values())))
@pytest.mark.quick_first
def test_no_more_leaves_a_cell_than_its_mac_says(said):
    mac = mac_of(said)
    most_hz = max_frames_hz(mac, 1.0, 1.0)
    assert carried_hz(said) <= most_hz + 1e-3
    if said["kind"] in {"tdma", "max_snr"}:  # nothing collides: the bound is what they carry
        assert carried_hz(said) == pytest.approx(most_hz, rel=2e-3)


@pytest.mark.parametrize("said", FREE, ids=lambda said: said["kind"])
def test_where_several_can_be_given_up_at_once_there_is_no_bound(said):
    assert max_frames_hz(mac_of(said), 1.0, 1.0) == np.inf
    assert carried_hz(said) > 1.0


def test_every_mac_has_a_bound_or_says_that_there_is_none():
    bounded = {said["kind"] for said in BOUND}
    assert {kind for kind in list_kinds(Mac) if kind not in bounded} == {"csma_ca", "lorawan"}
    assert max_frames_hz(mac_of({"kind": "csma_ca"}), 1.0, 1.0) == 1.0
    assert max_frames_hz(mac_of({"kind": "csma_ca", "max_attempts": 7}), 1.0, 1.0) == np.inf


def warnings(users=4, **said):
    """What is said of a network before its first round."""
    access, setting, _ = make(users, 1, **said)
    return [*access.warnings(setting)]


def every(time_s, **more):
    """A packet of each user every so often."""
    return {"kind": "constant", "every": time_s, "size": FIXED} | more


@pytest.mark.parametrize(
    ("said", "load"),
    [
        ({"traffic": every(3.9)}, "1.03"),
        ({"traffic": every(4.1), "update_size": 2000.0}, "1.95"),  # slots are as long as the longest
        ({"traffic": every(4.1), "mac": {"kind": "tdma", "slot": 2.5}}, "2.44"),
        ({"traffic": {"kind": "poisson", "rate": 0.5, "size": FIXED}}, "2"),
        ({"traffic": every(1.0), "mac": {"kind": "multichannel_aloha", "channels": 3, "probability": 0.1}}, "1.33"),
        ({"traffic": every(1.0), "interference": "collide", "capture": 6.0}, "4"),
    ],
)
def test_an_overloaded_cell_is_told(said, load):
    (warning,) = warnings(**said)
    assert f"the users of tower:0 receive {load} times as many packets as they can send" in warning


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"traffic": every(4.1)},
        {"traffic": every(1.0, buffer=5)},
        {"traffic": every(1.0), "interference": "sinr"},
        {"traffic": every(1.0), "mac": {"kind": "slotted_aloha", "probability": 0.2, "max_attempts": 3}},
        {"traffic": {"kind": "saturated", "size": FIXED}},
        {"traffic": every(1.0, source="towers")},
        {"traffic": every(1.0), "exempt": {"contention": [0]}},
    ],
)
def test_where_nothing_waits_without_end_nothing_is_told(said):
    assert warnings(**said) == []


MODES = {"kind": "mcs", "standard": "802.11a"}


def test_a_slot_that_faster_modes_leave_idle_is_told():
    """54 Mb/s takes a ninth of the slot that 6 Mb/s fills."""
    radio = PLAIN["radio"] | {"bandwidth": "20 MHz"}
    (warning,) = warnings(mac={"kind": "tdma"}, reception=MODES, radio=radio)
    assert "holds one frame, so that in the fastest mode 89 % of it stay idle" in warning
    (warning,) = warnings(mac={"kind": "tdma", "slot": 1.0}, reception=MODES, radio=radio, update_size="1 Mbit")
    assert "tdma: a slot lasts 1 s and holds one frame, so that in the fastest mode 98 % of it stay idle" in warning
    assert warnings(mac={"kind": "round_robin"}, reception=MODES, radio=radio) == []
    assert warnings(mac={"kind": "tdma"}) == [], "one mode fills its slot"


def test_each_tower_has_its_own_air():
    nodes = {"core": {"role": "server", "position": [0, 0]}}
    nodes |= {name: {"role": "tower", "position": [x, 0]} for name, x in (("west", 0), ("east", 1000))}
    links = [{"between": ["core", name]} for name in ("west", "east")]
    placement = {"kind": "listed", "positions": [[1, 0], [2, 0], [3, 0], [1001, 0]]}
    topology = {"kind": "inline", "nodes": nodes, "links": links, "placement": placement}
    assert warnings(topology=topology, traffic=every(4.0)) == []
    (warning,) = warnings(topology=topology, traffic=every(2.5))
    assert "west receive 1.2 times" in warning


def test_a_duration_ends_whatever_comes():
    access, setting, _ = make(4, 1, traffic=every(1.0))
    assert [*access.warnings(setting)]
    timed = AccessContext(4, 1, 0, setting.streams, setting.samples, 1e3, 1e3, NullRecorder(), duration_s=5.0)
    assert [*access.warnings(timed)] == []


@pytest.mark.slow
def test_rounds_of_an_overloaded_network_get_longer_and_longer():
    def lengths(time_s):
        rounds, _ = play(4, 9, traffic=every(time_s))
        return np.array([one.closed_s - one.opened_s for one in rounds])

    assert (lengths(16.0) < 25.0).all()
    longer = lengths(2.0)  # twice what can leave: what has come by t has left by 2 t
    assert longer[-1] > 20.0 * longer[1]
