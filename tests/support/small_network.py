"""A small network whose deliveries can be computed by hand, and a fixed selection."""

import copy
import io

import numpy as np
from ruamel.yaml import YAML

from netfl.access.network import NetworkAccess
from netfl.access.selection import Selection, Selector
from netfl.streams import Streams
from netfl.types import AccessContext, Law
from support.recorders import Memory

PLAIN = {
    "topology": {"kind": "star", "radius": "100 m", "rate": "1 Gbps", "delay": 0},
    "mac": {"kind": "tdma"},
    "radio": {"power": "20 dBm", "bandwidth": "125 kHz"},
    "channel": [{"kind": "constant", "gain": "0 dB"}],
    "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "1 kbps"},
    "compute": {"speed": 1.0, "samples": 1},
    "broadcast_rate": "1000 Gbps",
    "update_size": 1000.0,
    "round": {"kind": "first", "m": 1},
}
"""A network in which each update takes 1 s and versions arrive at once."""
SECTION = {
    "kind": "network",
    "round": {"kind": "first", "m": 1, "deadline": "10 min"},
    "topology": {"kind": "star", "radius": "200 m"},
    "radio": {"power": "60 dBm", "bandwidth": "1 MHz"},
    "channel": [{"kind": "log_distance", "exponent": 2.5, "frequency": "868 MHz"}],
    "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "50 kbps"},
    "mac": {"kind": "slotted_aloha", "probability": 0.2},
    "compute": {"speed": 100},
    "broadcast_rate": "50 kbps",
}
"""The access section of a scenario: a network that delivers updates."""
RULES = [
    {"kind": "first", "m": 2},
    {"kind": "first", "m": 1, "deadline": 7.0},
    {"kind": "quorum", "quorum": 0.6, "deadline": 15.0, "min_share": 0.3},
    {"kind": "available", "deadline": 60.0},
    {"kind": "buffered", "size": 3},
    "asynchronous",
]
"""All round rules, as written in a scenario."""
FADES = [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}, {"kind": "rayleigh", "coherence": "1 s"}]
"""Channels on which some signals are too weak."""


def make(users, rounds, seed=1, **overrides):
    """Return the network with overrides, an access context and its recorder."""
    log, access = Memory(unknown=None), NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides)
    streams = Streams(seed).at("access", 0)
    context = AccessContext(users, rounds, 0, streams, np.ones(users), 1e3, 1e3, log, held=np.arange(1.0, users + 1))
    return access, context, log


def play(users, rounds, seed=1, **overrides):
    """Run the network with overrides; return its rounds and its recorder."""
    access, context, log = make(users, rounds, seed, **overrides)
    return list(access.rounds(context)), log


class Listed(Selection):
    """Selects a fixed list of users in each round, and repeats from the start."""

    turns: tuple[tuple[int, ...], ...]

    def open(self, population):
        return _Listed(self.turns)

    def laws(self):
        return (Law.none("written down"),)


class _Listed(Selector):
    def __init__(self, turns):
        self._turns = turns

    def choose(self, moment):
        return np.array(self._turns[(moment.round - 1) % len(self._turns)], np.int64)


def as_yaml(data):
    """Return *data* as YAML text with one key per line."""
    writer, text = YAML(typ="safe", pure=True), io.StringIO()
    writer.default_flow_style = False
    writer.dump(data, text)
    return text.getvalue()
