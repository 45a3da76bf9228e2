"""Who may try in a network, and what its MACs are told: by the selection, the learners' answers, and who was heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netfl.access.selection import UserInfo
from netfl.access.selection._base import SelectionState
from netfl.network.admission import Admission, AdmitAll
from netfl.network.config import NetworkConfig
from netfl.network.layout import NodeId
from netfl.network.radio.medium import Medium
from netfl.types import QUESTIONS, AccessContext, LearnerReport

if TYPE_CHECKING:
    from netfl.access.network import NetworkAccess

_MOMENTS, _APART_S = 32, 61.0
"""At how many moments the air is looked at to tell how long users are on it, and how far these are apart."""


def build_admission(network: NetworkAccess, parts: NetworkConfig, setting: AccessContext) -> Admission:
    """Who decides who may try in *network*."""
    chooser = SelectionState(network.selection, _population(network, parts, setting))
    heeds = frozenset[str]() if network.mac is None else network.mac.user_metrics
    return (
        SelectionAdmission(chooser, heeds, setting.users) if heeds or not chooser.everybody else AdmitAll(setting.users)
    )


class SelectionAdmission:
    """The selection, and a MAC that goes by figures of the users, in one replica.

    Args:
        chooser: who may try.
        heeds: what the MAC goes by.
        users: how many there are.
    """

    def __init__(self, chooser: SelectionState, heeds: AbstractSet[str], users: int) -> None:
        self._chooser, self._heeds, self._everybody = chooser, heeds, tuple(range(users))
        self._questions = sorted(heeds & {*QUESTIONS})
        self._figures: dict[str, NDArray[np.float64]] = {}
        self._round = 0
        self._asked: dict[str, tuple[int, ...]] = {}

    def choose(self, round: int, report: LearnerReport | None) -> NDArray[np.int64]:
        """As the selection says; the MAC is told what was asked for it."""
        self._round = round
        if report is not None and report.answers:
            told = report.answers[0]
            self._figures = {name: told[name] for name in self._questions}
            both = {name: list(users) for name, users in self._asked.items() if name in self._questions}
            own = {name: told[name][both[name]] if name in both else told[name] for name in self._asked}
            report = LearnerReport(report.round, report.metrics, (own,))
        return self._chooser.choose(round, report)

    def metrics_for_mac(self) -> Mapping[str, NDArray[np.float64]]:
        """What the MAC asked for, and how many rounds ago each user was heard."""
        age = {"age": self._chooser.age(self._round).astype(float)} if "age" in self._heeds else {}
        return {**self._figures, **age}

    def record_deliveries(self, round: int, users: Sequence[int]) -> None:
        """*users* were heard in *round*."""
        self._chooser.heard(round, users)

    def queries(self, round: int) -> dict[str, tuple[int, ...]]:
        """What the selection asks, and what the MAC goes by, of everybody."""
        self._asked = self._chooser.asks(round)
        return self._asked | dict.fromkeys(self._questions, self._everybody)


def _population(network: NetworkAccess, parts: NetworkConfig, setting: AccessContext) -> UserInfo:
    """What the selection knows of the users."""
    streams, airtime_s = setting.streams.at("selection"), None
    if network.selection.wants_airtime and parts.medium is not None and parts.service is not None:
        airtime_s = _airtime_s(parts, parts.medium, parts.service.segmentation.max_bits)
    return UserInfo(setting.users, streams, setting.held, airtime_s)


def _airtime_s(parts: NetworkConfig, medium: Medium, bits: float) -> NDArray[np.float64]:
    """How long each user is on the air for an update in the mean, attempts that fade included."""
    airtime_s = np.empty(parts.sites.users)
    for number, name in enumerate(parts.sites.towers):
        ids = np.flatnonzero(parts.sites.cell == number)
        tower = NodeId(name, parts.sites.number(name))
        spent_s, won = np.zeros(len(ids)), np.zeros(len(ids))
        for moment in range(_MOMENTS):
            modes = medium.choose(ids, tower, moment * _APART_S)
            each_s = np.array([medium.airtime_s(bits, mode) for mode in range(medium.modes)])
            spent_s += each_s[modes]
            won += medium.success_probability(ids, tower, moment * _APART_S, bits, modes)
        airtime_s[ids] = spent_s / np.maximum(won, 1e-9)
    return airtime_s
