"""Groups of users that a MAC lets send at once, at rates that the others of the group leave too low.

A reception that follows the SINR gives each user of a group the rate over the interference that is left of the others.
Without cancellation that of a user far from the tower may be next to nothing, and the next group waits until its frame
has ended.  The groups are those of the mean SNRs, where all users of a cell have something to send.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from netfl.core.kinds import kind_of
from netfl.network.build import fitted_control, open_budget, towers_at_start
from netfl.network.layout import Layout
from netfl.network.least_time import rounds_to_count
from netfl.network.power_control import SenderLinks
from netfl.network.power_control._conformance import checked_power_db
from netfl.network.radio.user_bands import UserBands
from netfl.network.sizes import largest_frame_bits
from netfl.network.spec import NetworkSpec
from netfl.types import AccessContext, Floats, Ints
from netfl.units import db_to_linear

_INSTANTS_S = tuple(977.0 * number for number in range(16))
"""Instants over which the gain of a link is averaged."""
_MUCH_SLOWER = 100.0
"""Time of a group, relative to that of its users one after the other, from which on it is not intended."""


def late_group_warnings(
    spec: NetworkSpec, context: AccessContext, layout: Layout, deadline_s: float | None
) -> Iterator[str]:
    """Yield a warning about groups whose frames outlast the deadline, or those of their users one after the other.

    Args:
        spec: the network.
        context: what it is built for.
        layout: its towers and users.
        deadline_s: deadline of each round; ``None`` for none.
    """
    mac = spec.mac
    if mac is None or not mac.sends_groups or spec.interference.sums:
        return
    if spec.reception is None or not spec.reception.follows_snr:
        return  # the rates do not depend on the group
    links = _Links(spec, context, layout)
    limit_s = math.inf
    if deadline_s is not None:
        limit_s = deadline_s * rounds_to_count(spec, context)

    late: list[tuple[float, int]] = []  # airtime in the group, and the user
    tower_of = towers_at_start(spec, context, layout)
    for tower in np.unique(tower_of):
        is_sending = (tower_of == tower) & np.isfinite(links.snr_db)
        sending = np.flatnonzero(is_sending)
        if not sending.size:
            continue
        for places in mac.usual_groups(links.snr_db[sending]):
            group = sending[places]
            alone_s = links.airtimes_s(group, links.snr_db[group])
            together_s = links.airtimes_s(group, links.snr_in_group_db(group))
            is_endless = together_s > _MUCH_SLOWER * alone_s.sum()
            misses_deadline = (together_s > limit_s) & (alone_s <= limit_s)
            is_late = is_endless | misses_deadline
            late += zip(together_s[is_late].tolist(), group[is_late].tolist(), strict=True)
    if not late:
        return
    longest_s, user = max(late)
    alone_s = links.airtimes_s(np.array([user]), links.snr_db[[user]])
    closing = ""
    if deadline_s is not None:
        closing = f", and rounds close after {deadline_s:.3g} s"
    have = "users has" if len(late) == 1 else "users have"
    yield (
        f"access.mac: {kind_of(type(mac))} lets users send at once, and with the interference "
        f"{kind_of(type(spec.interference))} {len(late)} of {layout.users} {have} a rate over the others of the group "
        f"that is too low, by mean SNRs: user {user} is on the air for {longest_s:.3g} s, alone for {alone_s[0]:.3g} s"
        f"{closing}; the next group waits as long; take {_remedy(spec)}"
    )


class _Links:
    """Links of the users of a network to their towers, with their mean gains and the powers that they send with."""

    def __init__(self, spec: NetworkSpec, context: AccessContext, layout: Layout) -> None:
        assert spec.reception is not None
        self._budget = open_budget(spec, context, layout)
        self._bands = UserBands(spec.reception, self._budget.bandwidth_hz)
        self._interference = spec.interference
        self._bits = largest_frame_bits(spec, context)
        users = np.arange(layout.users)
        full_db = self._budget.mean_snr_db(users, _INSTANTS_S)
        control = fitted_control(spec, layout, self._budget)
        links = SenderLinks(users, full_db, full_db, lambda: full_db)
        power_db = checked_power_db(control, links)
        self.snr_db: Floats = full_db + np.minimum(power_db, 0.0)  # -inf for those that withhold their frames

    def snr_in_group_db(self, group: Ints) -> Floats:
        """Return the SNR that each user of a group expects among the others, ``[n]``."""
        signals = self._budget.scheduled_signals(group, db_to_linear(self.snr_db[group]))
        return np.asarray(10.0 * np.log10(self._interference.scheduled_snr(signals)))

    def airtimes_s(self, users: Ints, snr_db: Floats) -> Floats:
        """Return the airtime of the largest frame of each user at an SNR, ``[n]``."""
        return np.asarray(self._bits / self._bands.expected_rates_bps(users, snr_db))


def _remedy(spec: NetworkSpec) -> str:
    """Return what shortens the frames."""
    if spec.interference.decodes_others:
        return "a smaller access.interference.residual, a power_control that suits it, or serve one user at a time"
    return "access.interference: sic, or a MAC that serves one user at a time, such as round_robin"
