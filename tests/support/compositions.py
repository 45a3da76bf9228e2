"""Small scenarios in which models of all families meet, by levels on axes.

An axis is a family or a key, and its levels are the models of that family (`netfl.core.kinds`), or values of the key.
New models join their axis by their file alone.  The models of the guides and contracts join as plug-ins do: each is a
``package.module:Class`` of `support.guide_models`.  `support.designs` says which levels are combined.
"""

import copy
import itertools
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import list_kinds
from netfl.errors import ScenarioError
from netfl.network.build import build_network
from netfl.network.counterfactual import CAUSES
from netfl.network.layout import NodeId
from netfl.network.reception import minimum_snr_db
from netfl.network.simulator import NetworkSimulator
from netfl.network.sizes import largest_frame_bits
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.setup import access_context
from support import guide_models
from support.scaled_scenarios import shrink
from support.tiny_scenarios import OF_FILES, example_settings

USERS, ROUNDS, DURATION_S = 6, 8, 5.0
BANDWIDTH_HZ, AIRTIME_S = 125e3, 0.05
_AMPLE_DB = 300.0
"""Gain that makes every signal strong enough."""
_CERTAIN = 1.0 - 1e-9
"""Probability of reception that counts as certain."""
_CAPACITY_DB = 0.0
"""SNR that a reception whose rate follows it needs here: one bit per second and hertz."""
BASE = {
    "name": "composition",
    "users": USERS,
    "replicas": 64,
    "access": {
        "kind": "network",
        "topology": {"kind": "star", "distance": "10 m", "rate": "1 Mbps", "delay": "1 ms"},
        "radio": {"power": "16 dBm", "bandwidth": BANDWIDTH_HZ, "noise_figure": "6 dB"},
        "channel": [{"kind": "constant", "gain": f"{_AMPLE_DB} dB"}],
        "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "10 kbps"},
        "mac": {"kind": "round_robin"},
        "update_size": "600 bit",
        "compute": {"speed": 2, "samples": 1},
        "broadcast_rate": "100 kbps",
        "round": {"kind": "first", "m": 2},
    },
}
"""The scenario that the levels change: six equal users, of whom two deliver in a round, with time to idle."""
WIFI_BY_POWER = {"kind": "csma_ca", "senses": "by_power", "sense_threshold": "-30 dBm"}
"""Wi-Fi stations of which none senses another."""
LR_WPAN = {"kind": "csma_ca", "standard": "802.15.4"}
LR_WPAN_RADIO = {
    "radio": {"power": "0 dBm", "bandwidth": "2 MHz", "noise_figure": "6 dB"},
    "channel": [{"kind": "constant", "gain": "-60 dB"}],
    "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "250 kbps"},
}
"""A radio for stations of IEEE 802.15.4 that need one."""
WIFI_RADIO = {
    "radio": {"power": "16 dBm", "bandwidth": "20 MHz", "noise_figure": "6 dB"},
    "channel": [{"kind": "constant", "gain": "-60 dB"}],
    "reception": {"kind": "mcs", "standard": "802.11a"},
}
"""A radio for Wi-Fi stations that need one."""
OF_PAIRS = {"kind": "snr_threshold", "threshold": "-12 dB", "rate": "10 kbps"}
"""Reception of users that send at once, of which two of equal power are received at 1 dB above the threshold."""
RUNNING = {"kind": "random_waypoint", "radius": "1 km", "speed": [200, 400]}
"""Motion of users that change their towers, unless the motion has a level of its own."""
CYCLE_S = 3.0
"""Longest time of a model of outages or fading, as examples with hours would not change in a run of seconds."""
_ROUND_KEYS = ("round", "compute", "broadcast_rate", "update_size")


class RefusedError(Exception):
    """Levels that have no meaning together."""


class Row(NamedTuple):
    """One scenario: its levels by axis, its plain data, and the data validated."""

    levels: dict[str, str]
    data: dict[str, Any]
    scenario: Any


SMALL_GRAPH = {"side": "300 m", "routers": 8, "towers": 2}
FITTED = {
    "network/mac": {
        "priority": {"weights": {0: 1}, "by": "lottery"},
        "pure_aloha": {"backoff": "100 ms"},
        "lorawan": {"sub_bands": [{"channels": 2, "duty_cycle": 1}]},
        "adaptive_aloha": {"metric": "age"},
    },
    "network/outage": {
        "battery": {"solar": None, "capacity": "10 J", "initial": 1, "charger": {"power": "3 W"}},
        "disaster": {"corners": [["-1 km", "-1 km"], ["1 km", "1 km"]]},
        "regional": {"center": [0, 0]},
        "inactivity": dict.fromkeys(("weights", "diversity"))
        | {
            "gap": {"distribution": "exponential", "mean": "1 min"},
            "session": {"distribution": "exponential", "mean": "10 s"},
        },
        "diurnal_rate": {
            "mean_time_to_failure": "1 min",
            "repair": {"distribution": "exponential", "mean": "10 s"},
        },
    },
    "network/traffic": {
        "constant": {"every": "400 ms"},
        "on_off": {"every": "200 ms"},
        "poisson": {"rate": 1},
        "saturated": {"destination": None},
    },
    "network/topology": {
        "star": {"radius": None, "distance": "10 m"},
        "barabasi_albert": SMALL_GRAPH,
        "waxman": SMALL_GRAPH | {"alpha": 1, "beta": 0.95},
        "random_geometric": SMALL_GRAPH | {"max_distance": "250 m"},
        "tree": {"ring": "100 m", "radius": "150 m"},
        "grid": {"rows": 2, "columns": 2, "towers": [[0, 0], [1, 1]]},
    },
    "network/power_control": {"inversion": {"target": "60 dB"}, "truncated_inversion": {"target": "60 dB"}},
    "network/motion": {"random_waypoint": {"radius": "3 km"}},
    "network/channel": {"radio_map": {"out_of_range": "extend"}},
    "network/round": {"quorum": {"min_share": None}},
    "network/queue": {"drr": {"weights": None}, "relay": {"policy": "round_robin", "weights": None}},
    "access/selection": {"contract": {"tiers": [{"share": 0.5}]}},
}
"""Changes of the examples of models that suit runs of seconds with equal users; a key with ``None`` is left out."""

_ABOVE_NEED_DB = {"target": 3.0, "threshold": 0.5, "reference": 5.0, "good": 8.0}
"""Levels of a power control above the SNR at which every frame is received."""


def members(family: str) -> dict[str, dict[str, Any]]:
    """Return the examples of a family by kind, with the changes in `FITTED`, and the guides' own models."""
    changes = FITTED.get(family, {})
    levels = {}
    for kind in list_kinds(base_of(family)):
        spec = example_settings(family, kind) | OF_FILES.get((family, kind), {}) | changes.get(kind, {})
        levels[kind] = {key: value for key, value in spec.items() if value is not None}
    return levels | guide_models.of_family(family)


def slowed(levels: dict[str, dict[str, Any]], family: str) -> dict[str, dict[str, Any]]:
    """Return *levels* with the times of each shortened to at most `CYCLE_S`."""
    return {name: shrink(base_of(family), spec, CYCLE_S) for name, spec in levels.items()}


_BATTERY = {"kind": "battery", "capacity": "10 J"}
_BATTERY_COSTS = {
    "battery": {"per_training": "2 J", "idle": "1 W"},
    "battery for frames": {"transmit": "20 W"},
    "battery too small": {"per_training": "25 J"},
    "battery of Poisson portions": {"per_training": "2 J", "transmit": "2 W"},
    "battery of Bernoulli portions": {"per_training": "2 J", "idle": "1 W"},
}
"""Costs that each battery pays in rounds, unless the energy has a level of its own."""


@cache
def axes() -> dict[str, dict[str, Any]]:
    """Return the levels of every axis by name; the first of each is the level of `BASE`."""
    macs = members("network/mac")
    macs |= {f"priority {by}": {"kind": "priority", "weights": {0: 1}, "by": by} for by in ("strict", "stride")}
    macs |= {f"fdma {rule}": {"kind": "fdma", "division": rule} for rule in ("need", "water_filling")}
    gateway = macs["lorawan"] | {"demodulators": 2}
    answers = {"acknowledgements": {"duty_cycle": 0.2}, "half_duplex": True, "max_attempts": 3}
    hopping = macs["multichannel_aloha"] | {"hopping": "permutation"}
    macs |= {"lorawan that hops": gateway | {"hopping": "permutation"}, "multichannel_aloha that hops": hopping}
    macs |= {
        "csma_ca of several rates": {"kind": "csma_ca", "rate": ["6 Mbps", "54 Mbps", "24 Mbps"] * 2, "rts": "500 B"},
        "csma_ca with arf": WIFI_BY_POWER | {"rate_adaptation": "arf", "sense_threshold": "-60 dBm"},
        "csma_ca of hidden stations": WIFI_BY_POWER | {"rate_adaptation": "ideal", "rts": 0, "max_attempts": 7},
        "csma_ca of stations that sense all": {"kind": "csma_ca", "rate_adaptation": "ideal"},
        "csma_ca of 802.15.4": LR_WPAN,
        "csma_ca of 802.15.4 without acknowledgements": LR_WPAN | {"acknowledge": False, "max_backoffs": 2},
        "csma_ca of hidden 802.15.4": LR_WPAN | {"senses": "by_power", "sense_threshold": "-30 dBm"},
    }
    macs |= {"lorawan of two demodulators": gateway, "lorawan that answers": gateway | answers}
    outages = members("network/outage")
    del outages["availability"], outages["calendar"]  # files of days
    daily = {kind: outages.pop(kind) for kind in ("inactivity", "diurnal_rate")}  # they begin days before time 0
    outages |= {
        "battery for frames": _BATTERY | {"charger": {"power": "3 W"}},
        "battery too small": _BATTERY | {"restart": 0.5, "charger": {"power": "20 W"}},
        "battery of Poisson portions": _BATTERY | {"charger": {"kind": "poisson", "energy": "2 J", "period": "1 s"}},
        "battery of Bernoulli portions": _BATTERY | {
            "initial": 0.3,
            "charger": {"kind": "bernoulli", "energy": "8 J", "period": "1 s", "probability": 0.4},
        },
        **{f"renewal of {nodes}": outages["renewal"] | {"nodes": nodes} for nodes in ("towers", "routers", "links")},
        "spared": outages["renewal"] | {"in_progress": "finish"},
    }  # fmt: skip
    traffic = {kind: {key: value for key, value in spec.items() if key != "size"}
               for kind, spec in members("network/traffic").items()}  # fmt: skip
    rounds = members("network/round")
    tree = {"kind": "tree", "fanout": [2], "ring": "10 m", "radius": "1 m", "rate": "1 Mbps", "delay": "1 ms"}
    return {
        "mac": {"round_robin": macs.pop("round_robin"), **macs},
        "round": {"first": {"kind": "first", "m": 2}, "duration": None}
        | {kind: rounds[kind] for kind in rounds if kind != "first"},
        "channel": {"none": None} | slowed(members("network/channel"), "network/channel"),
        "reception": {"base": None, **members("network/reception"), "shannon capacity": {"kind": "shannon"},
                      "lora logistic": {"kind": "lora", "curve": "logistic", "shift": "1 dB", "width": "0.5 dB"}},
        "radio": {"one": {}, "powers": {"power": [16 + 2 * (user % 3) for user in range(USERS)],
                                        "antenna_gain": {"distribution": "normal", "mean": "0 dB", "std": "2 dB"}},
                  "bands": {"bandwidth": [1.0, 0.5, 1.0, 0.25, 0.5, 1.0]},
                  "towers": {"tower": {"noise_figure": "3 dB", "antenna_gain": "5 dB"},
                             "towers": {"tower:0": {"noise_figure": "9 dB"}}},
                  "channel noise": {"channel_noise": 3.0}},
        "budget": {"strong": 40.0, "fading": 10.0, "marginal": 1.0},
        "power_control": {"full": None, **members("network/power_control")},
        "interference": {"collide": None, **members("network/interference")},
        "sums": {"none": None, "all": {"power_control": {"kind": "inversion", "target": "0 dB"}, "mac": "simultaneous"},
                 "truncated": {"power_control": {"kind": "truncated_inversion", "target": "0 dB", "threshold": "0 dB"},
                               "mac": {"kind": "simultaneous", "wait": "200 ms"}}},
        "jammer": {"none": None, "exponential": {"duty_cycle": 0.1, "burst": "10 ms"},
                   "fixed": {"duty_cycle": 0.3, "burst": "5 ms", "distribution": "fixed"}},
        "air": {"separate": {}, "shared": {"shared_air": True}},
        "receivers": {"own": {}, "all": {"receivers": "all"}, "common loss": {"receivers": "all", "common_loss": 0.2}},
        "topology": {"base": None, "two towers": tree | {"fanout": [2]}, "routers": tree | {"fanout": [2, 2]},
                     **members("network/topology")},
        "placement": {"same": None, **members("network/placement")},
        "motion": {"none": None, **members("network/motion")},
        "association": {"none": None, **members("network/association"),
                        "carry": {"kind": "nearest_now", "moves": "any_time", "every": "250 ms"},
                        "drop": {"kind": "nearest_now", "moves": "any_time", "every": "250 ms", "on_move": "drop"},
                        "strongest at any time": {"kind": "strongest", "moves": "any_time", "hysteresis": "0 dB"}},
        "queue": {"drop_tail": None, **members("network/queue")},
        "routing": {"default": None, **members("network/routing")},
        "outage": {"none": None, **daily, **slowed(outages, "network/outage")},
        "evaluation": {
            "none": None,
            "answered": {"samples": 3, "answer": 0.2, "every": 2},
            "silent": {"samples": 6, "share": 0.5},
            "hurried": {"samples": [1, 2, 3, 4, 5, 6], "answer": 1.0, "deadline": "600 ms"},
        },
        "server_link": {
            "none": None,
            "shared": {"rate": 20.0},
            "limited": {"rate_up": 20.0, "user_rate": 8.0},
            "shared by towers": {"rate_down": 20.0, "copies": "tower"},
        },
        "trains_when": {"default": None, **members("network/trains_when"),
                        "charge in turns": [{"every": 2}, {"battery_above": 0.4}]},
        "traffic": {"none": None, **traffic},
        "size": {"fixed": "fixed", "exponential": "exponential"},
        "source": {source: source for source in ("users", "towers", "routers")},
        "destination": {"server": "server", "tower": "tower"},
        "downlink": {"ideal": None, "multicast": {"mode": "multicast"}, "unicast": {"mode": "unicast"},
                     "repeated": {"mode": "multicast", "max_attempts": 3},
                     "duty cycle": {"mode": "unicast", "max_attempts": 2, "duty_cycle": 0.3}},
        "transport": {"message": None, "packet": {"grain": "packet", "mtu": None, "header": 16},
                      "arq": {"grain": "packet", "mtu": None, "arq": {"timeout": "300 ms", "retries": 3}},
                      "erase": {"grain": "packet", "mtu": None, "loss": "erase"},
                      "parity": {"grain": "packet", "mtu": None, "fec": {"data": 2, "total": 3},
                                 "arq": {"timeout": "300 ms", "retries": 1}},
                      "compressed": {"assumed_compression": 3, "assumed_compression_down": 2, "header": 16}},
        "deadline": {"none": None, "tight": "0.75 s", "long": "3 s"},
        "on_new_version": {word: word for word in ("restart", "finish", "ignore")},
        "staleness": {"default": None, "0": 0, "1": 1},
        "selection": {"all": None, **members("access/selection"),
                      "called": {"kind": "all", "observe": {"check_in": {"airtime": "100 ms"}}}},
        "compute": {"alike": {}, "jitter": {"jitter": 0.3}, "spread": {"spread": 0.4}, "warm_up": {"warm_up": 0.7}},
        "energy": {"none": None, "counted": {"per_training": 1, "efficiency": 0.3, "receive": 0.1, "idle": 0.01},
                   "by state": {"compute": 2, "efficiency": 0.3, "receive": 0.1, "idle": 0.01, "states": True}},
        "exempt": {"none": None, **{cause: {cause: [0, 3]} for cause in CAUSES}},
    }  # fmt: skip


def compose(levels: dict[str, str]) -> dict[str, Any]:  # noqa: PLR0912, PLR0915 - one branch for each axis
    """Return the scenario with these levels, by axis, and the first level of every other axis, as plain data.

    Raises:
        RefusedError: the levels have no meaning together.
    """
    value = {axis: known[levels.get(axis, next(iter(known)))] for axis, known in axes().items()}
    has = {axis: levels.get(axis, next(iter(known))) != next(iter(known)) for axis, known in axes().items()}
    _let_frames_overlap(value, levels)
    _let_channels_differ(value, levels)
    if has["association"]:  # users that walk between two towers
        value["topology"] = value["topology"] or axes()["topology"]["two towers"]
        value["motion"] = value["motion"] or RUNNING
        has["motion"] = True
    if levels.get("exempt") == "outage" and "outage" not in levels:
        value["outage"] = axes()["outage"]["renewal"]
    if levels.get("exempt") == "compute" and "compute" not in levels:
        value["compute"] = axes()["compute"]["spread"]
    if levels.get("channel") == "underwater" and "rate" in (value["reception"] or {}):
        value["reception"] = value["reception"] | {"rate": "4 kbps"}  # the band of sound is 4 kHz
    if has["sums"]:
        _set_sums(value, levels)
    data = copy.deepcopy(BASE)
    access = data["access"]
    access["mac"] = value["mac"]
    bits = _update_bits(value)
    access |= {"update_size": bits, "broadcast_rate": 10 * bits}
    access["topology"]["rate"] = 20 * bits
    _set_service(data, value, has)
    _set_traffic(access, value, has, bits, timed=value["round"] is None)
    _set_places(access, value, levels, bits)
    if "mtu" in (value["transport"] or {}):
        value["transport"] = value["transport"] | {"mtu": bits / 3}
    for key in ("routing", "queue", "motion", "association", "transport", "selection", "energy", "exempt", "staleness"):
        if has[key]:
            access[key] = value[key]
    if has["evaluation"]:  # its answers are stated in updates
        access["evaluation"] = dict(value["evaluation"])
        if "answer" in access["evaluation"]:
            access["evaluation"]["answer"] *= bits
    if has["server_link"]:  # its rates are stated in updates per second
        link = value["server_link"]
        access["server_link"] = {key: bits * rate if isinstance(rate, float) else rate for key, rate in link.items()}
    access |= value["air"] | value["receivers"]
    for key in ("interference", "power_control"):
        if value[key] is not None:
            access[key] = value[key]
    access.setdefault("compute", {}).update(value["compute"])
    if value["channel"] is not None:
        access["channel"] = [*access["channel"], value["channel"]]
    if value["reception"] is not None:
        access["reception"] = value["reception"]
    if value["outage"] is not None:
        access["outages"] = [value["outage"]]
    if levels.get("outage") in _BATTERY_COSTS and not has["energy"]:
        access["energy"] = {"idle": "1 W"} if value["round"] is None else _BATTERY_COSTS[levels["outage"]]
    if value["trains_when"] is not None:
        _set_training_rule(access, value)
    if value["downlink"] is not None:
        access["downlink"] = value["downlink"]
        access.pop("broadcast_rate", None)
    if has["on_new_version"]:
        access["on_new_version"] = value["on_new_version"]
    _fit_radio(access, value, has)
    if value["jammer"] is not None:
        _set_jammer(access, value)
    if value["round"] is None:
        for key in _ROUND_KEYS:
            access.pop(key, None)
    return data


def _set_jammer(access, value):
    """Set a jammer, with a power 7 dB above the noise where powers are compared."""
    loses_all = (value["interference"] or "collide") in ("collide", {"kind": "collide"})
    senses_by_power = value["mac"].get("senses") == "by_power"
    access["jammer"] = value["jammer"]
    if "radio" in access and (not loses_all or senses_by_power):
        access["jammer"] = access["jammer"] | {"power": "-110 dBm"}


def _set_sums(value, levels):
    """Set the parts that sums in the air need."""
    for axis in ("mac", "reception", "interference", "power_control", "round"):
        if axis in levels:
            raise RefusedError(f"sums in the air have a {axis} of their own")
    mac = value["sums"]["mac"]
    value["mac"] = {"kind": mac} if isinstance(mac, str) else mac
    value["power_control"] = dict(value["sums"]["power_control"])
    value["reception"] = {"kind": "analogue"}
    value["interference"] = "over_the_air"
    value["round"] = {"kind": "available"}


def _set_service(data, value, has):
    """Set rounds or a duration."""
    if value["round"] is None:
        data["duration"] = DURATION_S
        return
    data["rounds"] = ROUNDS
    policy = dict(value["round"])
    has_deadline = "deadline" in find_model(base_of("network/round"), policy["kind"]).model_fields
    if has["deadline"] and not has_deadline:
        raise RefusedError("the rule of rounds has no deadline")
    if has_deadline:
        policy["deadline"] = value["deadline"] or "5 s"
    data["access"]["round"] = policy


def _set_training_rule(access, value):
    """Set the rule by which users train, with batteries where it reads them."""
    access["trains_when"] = value["trains_when"]
    if "battery" in str(value["trains_when"]) or value["trains_when"]["kind"] == "charging":
        access.setdefault("outages", [axes()["outage"]["battery for frames"]])
        access.setdefault("energy", _BATTERY_COSTS["battery"])


def _let_frames_overlap(value, levels):
    """Set the interference of cells that share the air, and that and the reception of groups, unless levels do."""
    sends_groups = value["mac"]["kind"] == "noma"
    if "interference" not in levels and sends_groups:
        value["interference"] = axes()["interference"]["sic"]
    elif "interference" not in levels and value["air"]:
        value["interference"] = axes()["interference"]["capture"]
    if "reception" not in levels and sends_groups:
        value["reception"] = OF_PAIRS


def _let_channels_differ(value, levels):
    """Take a MAC with several channels for gains or noise that differ between them, unless it has a level."""
    is_selective = (value["channel"] or {}).get("kind") == "frequency_selective"
    if (is_selective or "channel_noise" in value["radio"]) and "mac" not in levels:
        value["mac"] = axes()["mac"]["multichannel_aloha"]


def _channel_noise(mac, noise_db):
    """Return *noise_db* on every second channel of a MAC, and 0 dB on the others."""
    model = find_model(base_of("network/mac"), mac["kind"])
    centres_hz = model.model_validate({key: entry for key, entry in mac.items() if key != "kind"}).channels_hz(1.0)
    channels = 2 if centres_hz is None else len(centres_hz)
    return [f"{noise_db * (number % 2)} dB" for number in range(channels)]


def _update_bits(value):
    """Return the size of a frame that takes `AIRTIME_S` in the fastest mode of the reception."""
    if value["mac"]["kind"] == "csma_ca":
        return 900.0 if value["mac"].get("standard") == "802.15.4" else 8000.0
    spec = value["reception"] or BASE["access"]["reception"]
    model = find_model(base_of("network/reception"), spec["kind"])
    reception = model.model_validate({key: entry for key, entry in spec.items() if key != "kind"})
    if reception.follows_snr:
        return AIRTIME_S * float(reception.expected_rate_bps(_CAPACITY_DB, BANDWIDTH_HZ))
    return AIRTIME_S * max(reception.rate_bps(BANDWIDTH_HZ, mode) for mode in range(reception.modes))


def _set_traffic(access, value, has, bits, *, timed):
    """Set traffic: that of its axis, or Poisson traffic where a key of it has another level."""
    traffic = value["traffic"]
    if traffic is None and not (timed or has["size"] or has["source"] or has["destination"]):
        return
    traffic = dict(traffic or axes()["traffic"]["poisson"])
    size = {"distribution": value["size"], "mean": bits}
    access["traffic"] = traffic | {"size": size, "source": value["source"]}
    if has["destination"]:
        access["traffic"]["destination"] = value["destination"]
    if value["source"] != "users" and timed:
        raise RefusedError("no user sends")


def _set_places(access, value, levels, bits):
    """Set the topology and the positions of users."""
    if value["topology"] is not None:
        access["topology"] = value["topology"] | ({"rate": 20 * bits} if "rate" in value["topology"] else {})
    if (value["motion"] or {}).get("kind") == "sumo_fcd" and "placement" not in levels:
        value["placement"] = value["motion"]  # the positions at time 0
    if value["placement"] is not None:
        for key in ("radius", "distance", "distances"):
            access["topology"].pop(key, None)
        access["topology"]["placement"] = value["placement"]


def _fit_radio(access, value, has):
    """Let the radio fit the medium and the MAC, as the bandwidths and rates of standards are fixed."""
    channel = (value["channel"] or {}).get("kind")
    if channel == "underwater":
        access["radio"]["bandwidth"] = "4 kHz"
    if value["mac"]["kind"] == "csma_ca":
        _fit_standard(access, value["mac"], has)
        return
    radio = dict(value["radio"])
    if "power" in radio:
        radio["power"] = [f"{level} dBm" for level in radio["power"]]
        if "downlink" in access:
            access["downlink"] = access["downlink"] | {"power": "16 dBm"}
    if "channel_noise" in radio:
        radio["channel_noise"] = _channel_noise(value["mac"], radio["channel_noise"])
    if "bandwidth" in radio:  # parts of the band of the others
        band_hz = 4e3 if channel == "underwater" else BANDWIDTH_HZ
        radio["bandwidth"] = [band_hz * part for part in radio["bandwidth"]]
    access["radio"] |= radio
    if "tower" in radio and "downlink" not in access:
        del access["radio"]["noise_figure"]  # of users, who receive on a downlink alone


def _fit_standard(access, mac, has):
    """Leave the radio out, or give the one of the standard to stations that need one."""
    if has["budget"]:
        raise RefusedError("there is no link budget without a reception")
    if has["radio"]:
        raise RefusedError("there is no radio without a reception")
    for section in ("radio", "channel", "reception"):
        del access[section]
    if mac.get("standard") == "802.15.4" and "senses" in mac:
        access |= copy.deepcopy(LR_WPAN_RADIO)
    elif "rate_adaptation" in mac:
        access |= copy.deepcopy(WIFI_RADIO)
        if "downlink" in access:
            access["downlink"] = access["downlink"] | {"power": "16 dBm"}


def checked(levels: dict[str, str], *, is_whole: bool = True) -> Row:
    """Return the validated scenario with these levels; if not *is_whole*, its network is not built.

    Raises:
        RefusedError: the levels have no meaning together, or they are refused.
    """
    data = compose(levels)
    try:
        scenario = _build(data, is_whole=is_whole)
    except ScenarioError as error:
        raise RefusedError(str(error)) from error
    if scenario.access.info.is_closed_loop:
        raise RefusedError("learners decide who sends")
    return Row(levels, data, scenario)


def _build(data, *, is_whole=True):
    """Validate plain data and, if *is_whole*, build its network once, as some errors depend on the layout."""
    scenario = validate(ScenarioDocument(data, "composition"))
    if is_whole:
        context = access_context(scenario, 0)
        config = build_network(scenario.access, context)
        try:
            NetworkSimulator(config, context.streams, context.recorder)
        except ScenarioError:
            raise
        except Exception:  # an error of the package: the run of this row reports it with its scenario
            return scenario
    return scenario


def budgeted(row: Row) -> Row:
    """Return the scenario with the gain at which the weakest user has the SNR that its level of the budget states.

    That is 1, 10 or 40 dB above what the most robust mode needs to receive every frame.
    """
    access = row.scenario.access
    if access.radio is None or access.reception is None:
        return row
    context = access_context(row.scenario, 0)
    config = build_network(access, context)
    users = np.arange(row.scenario.users)
    names = [config.layout.towers[index] for index in config.layout.tower_at_start]
    towers = [NodeId(name, config.layout.number(name)) for name in names]
    pairs = itertools.product(np.linspace(0.0, 2 * DURATION_S, 17).tolist(), users.tolist())
    snr_db = [config.medium.snr_db(users[user : user + 1], towers[user], time_s) for time_s, user in pairs]
    have_db = float(np.median(np.reshape(snr_db, (-1, len(users))), axis=0).min())
    bits, reception = largest_frame_bits(access, context), access.reception

    def needed_db(band_hz):
        return min(
            minimum_snr_db(lambda snr_db, mode=mode: reception.success(snr_db, band_hz, bits, mode), _CERTAIN)
            for mode in range(reception.modes)
        )

    need_db = max(map(needed_db, access.radio.bandwidth_bounds_hz))
    if reception.follows_snr or reception.is_analogue:  # any SNR suffices
        need_db = _CAPACITY_DB
    margin_db = axes()["budget"][row.levels.get("budget", "strong")] + getattr(reception, "margin", 0.0)
    data = copy.deepcopy(row.data)
    data["access"]["channel"][0]["gain"] = f"{_AMPLE_DB + need_db + margin_db - have_db:.3f} dB"
    data["access"]["unreachable"] = "keep"
    control = data["access"].get("power_control", {})
    control |= {key: f"{need_db + _ABOVE_NEED_DB[key]:.3f} dB" for key in _ABOVE_NEED_DB if key in control}
    return Row(row.levels, data, _build(data))
