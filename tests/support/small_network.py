"""A small network in which every delivery can be worked out by hand, and a selection that is written down."""

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
"""Users send 1 s each; versions are with them at once."""
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
"""The access of a scenario: a network in which updates get through."""
RULES = [
    {"kind": "first", "m": 2},
    {"kind": "first", "m": 1, "deadline": 7.0},
    {"kind": "quorum", "quorum": 0.6, "deadline": 15.0, "min_share": 0.3},
    {"kind": "available", "deadline": 60.0},
    {"kind": "buffered", "size": 3},
    "asynchronous",
]
"""All rules of rounds, as a scenario says them."""
FADES = [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}, {"kind": "rayleigh", "coherence": "1 s"}]
"""Channels on which signals are too weak now and then."""


def make(users, rounds, seed=1, **said):
    """The network with some keys said otherwise, a setting for it, and what records it."""
    log, access = Memory(unknown=None), NetworkAccess.model_validate(copy.deepcopy(PLAIN) | said)
    streams = Streams(seed).at("access", 0)
    setting = AccessContext(users, rounds, 0, streams, np.ones(users), 1e3, 1e3, log, held=np.arange(1.0, users + 1))
    return access, setting, log


def play(users, rounds, seed=1, **said):
    """Its rounds, and what was recorded."""
    access, setting, log = make(users, rounds, seed, **said)
    return list(access.rounds(setting)), log


class Listed(Selection):
    """Who may try is written down, round by round, and begins anew."""

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
    """*data* as YAML text with one key on each line."""
    writer, text = YAML(typ="safe", pure=True), io.StringIO()
    writer.default_flow_style = False
    writer.dump(data, text)
    return text.getvalue()
