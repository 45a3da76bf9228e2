"""Admission to the rounds of a network: the selection, and the values that its MACs use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from netfl.access.selection import Selection, UserInfo
from netfl.access.selection._state import SelectionState
from netfl.network.config import NetworkConfig
from netfl.network.layout import NodeId
from netfl.network.observations import NetworkObservations
from netfl.network.radio.medium import Medium
from netfl.network.server import Admission
from netfl.types import QUERIES, AccessContext, Floats, Ints, LearnerReport

_INSTANTS = 32
"""Number of instants at which the air is sampled to estimate airtimes."""
_SPACING_S = 61.0
"""Time between them."""


def build_admission(
    selection: Selection, config: NetworkConfig, context: AccessContext, observations: NetworkObservations
) -> Admission:
    """Return the admission to the rounds of the network that *config* describes, in one replica.

    The selection makes *observations* of the network that has been built.
    """
    airtime_s = None
    if selection.needs_airtime and config.medium is not None and config.service is not None:
        airtime_s = _airtime_s(config, config.medium, config.service.segmentation.max_bits)
    held = None
    if selection.needs_sample_counts:
        held = context.held
    label_mix = None
    if selection.needs_label_mix:
        label_mix = context.label_mix
    update_bits = None
    work = None
    if config.service is not None:
        segmentation = config.service.segmentation
        update_bits = segmentation.total_bits
        work = config.service.samples
    streams = context.streams.at("selection")
    population = UserInfo(context.users, streams, held, airtime_s, update_bits, work, label_mix)
    state = SelectionState(selection, population, context.controls, observations, context.recorder)
    mac_inputs = frozenset[str]()
    if config.mac is not None:
        mac_inputs = config.mac.user_metrics
    if state.selects_all and not mac_inputs:
        return Admission(context.users)
    return SelectionAdmission(state, mac_inputs, context.users)


class SelectionAdmission(Admission):
    """The selection, and the users' values with the names *mac_inputs* that a MAC uses, in one replica."""

    def __init__(self, selection: SelectionState, mac_inputs: AbstractSet[str], users: int) -> None:
        super().__init__(users)
        self._selection = selection
        self._mac_inputs = mac_inputs
        self._all_users = tuple(range(users))
        self._questions = sorted(mac_inputs & {*QUERIES})
        self._answers: dict[str, Floats] = {}  # to these questions, by all users
        self._asked: dict[str, tuple[int, ...]] = {}  # the questions of the selection, with its users
        self._round = 0

    def call(self) -> float:
        return self._selection.call()

    def choose(self, round: int, report: LearnerReport | None) -> Ints:
        """Return the selected users; keep the answers for the MAC, and pass on those for the selection."""
        self._round = round
        if report is not None and report.answers:
            answers = report.answers[0]
            self._answers = {name: answers[name] for name in self._questions}
            report = LearnerReport(report.round, report.metrics, (self._answers_to_selection(answers),))
        return self._selection.choose(round, report)

    def _answers_to_selection(self, answers: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return the answers of the users that the selection has asked."""
        selected_answers = {}
        for name, users in self._asked.items():
            selected_answers[name] = answers[name]
            if name in self._questions:  # the MAC has asked all users
                selected_answers[name] = answers[name][list(users)]
        return selected_answers

    def metrics_for_mac(self) -> Mapping[str, Floats]:
        """Return the values that the MAC uses: answers, and rounds since each user's last delivery."""
        metrics = dict(self._answers)
        if "age" in self._mac_inputs:
            metrics["age"] = self._selection.age(self._round).astype(float)
        return metrics

    def deadline_s(self) -> float | None:
        return self._selection.deadline_s()

    def note_arrival(self, user: int, duration_s: float) -> None:
        self._selection.note_arrival(user, duration_s)

    def record_deliveries(self, round: int, users: Sequence[int]) -> None:
        self._selection.record_deliveries(round, users)

    def queries(self, round: int) -> dict[str, tuple[int, ...]]:
        self._asked = self._selection.queries(round)
        return self._asked | dict.fromkeys(self._questions, self._all_users)


def _airtime_s(config: NetworkConfig, medium: Medium, bits: float) -> Floats:
    """Return the mean airtime of an update of each user to its tower of the start, including faded attempts."""
    airtime_s = np.empty(config.layout.users)
    for number, name in enumerate(config.layout.towers):
        users = np.flatnonzero(config.layout.tower_at_start == number)
        tower = NodeId(name, config.layout.number(name))
        spent_s = np.zeros(len(users))
        successes = np.zeros(len(users))
        for instant in range(_INSTANTS):
            time_s = instant * _SPACING_S
            modes = medium.choose(users, tower, time_s)
            spent_s += medium.airtimes_s(users, tower, time_s, bits, modes)
            successes += medium.success_probability(users, tower, time_s, bits, modes)
        airtime_s[users] = spent_s / np.maximum(successes, 1e-9)
    return airtime_s
