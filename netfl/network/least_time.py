"""Least time from a version to an update: a bound on what a user can deliver before a round closes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netfl.network.build import build_layout, compute_streams, open_band, open_budget, towers_at_start
from netfl.network.radio.transmission import share_gain_db
from netfl.network.radio.user_bands import UserBands
from netfl.network.sizes import largest_frame_bits, update_cut
from netfl.network.spec import NetworkSpec
from netfl.types import AccessContext, Floats

_INSTANTS_S = tuple(977.0 * number for number in range(16))
"""Instants over which the gain of a link is averaged."""


@dataclass(frozen=True, slots=True)
class LeastTimes:
    """Least time of each user for one update: its training, and its frames one after the other.

    Waiting, collisions, repeats and the way behind the tower come on top.

    Args:
        train_s: training time, in seconds, ``[users]``.
        frames: number of frames of an update.
        airtime_s: airtime of the largest frame, ``[users]``.
        spacing_s: least time from the start of one frame to that of the next, ``[users]``: its airtime and what the MAC
            adds to it, such as the silence of a duty cycle or the slots of the others.
        turn_s: time from one turn of a user to its next, ``[users]``; 0 where no schedule gives turns.
    """

    train_s: Floats
    frames: int
    airtime_s: Floats
    spacing_s: Floats
    turn_s: Floats

    @property
    def first_s(self) -> Floats:
        """Least time of an update whose sender was silent before, ``[users]``: no silence after the last frame."""
        return self.train_s + (self.frames - 1) * self.spacing_s + self.airtime_s


def counts_until_close(spec: NetworkSpec) -> bool:
    """Return whether an update counts only if it arrives before the round after its version closes.

    It does so where its user abandons it for a newer version, and where the server takes none from an older one.
    """
    if spec.round is None or spec.round.is_continuous:
        return False
    return spec.on_new_version == "restart" or takes_newest_only(spec)


def rounds_to_count(spec: NetworkSpec, context: AccessContext) -> int:
    """Return the number of rounds, from that of its version on, in which an update counts; at most those of the run."""
    if counts_until_close(spec):
        return 1
    if spec.staleness is None:
        return context.rounds
    return min(spec.staleness + 1, context.rounds)


def takes_newest_only(spec: NetworkSpec) -> bool:
    """Return whether the server takes no update from an older version than the newest."""
    return spec.staleness == 0 or (spec.staleness is None and spec.is_punctual)


def least_times(spec: NetworkSpec, context: AccessContext, *, at_best: bool) -> LeastTimes | None:
    """Return the least time of each user for one update; ``None`` in a network without rounds or a MAC.

    Args:
        spec: the network.
        context: what it is built for.
        at_best: with the best signal and the shortest training that a user can have; else with its mean ones.
    """
    if spec.compute is None or spec.mac is None:
        return None
    users = np.arange(context.users)
    train_s = spec.compute.time_s(context.samples, compute_streams(context))
    if at_best and spec.compute.jitter:  # trainings have no least duration
        train_s = np.zeros(context.users)

    cut = update_cut(spec, context)
    snr_db = np.full(context.users, np.inf)
    airtime_s = np.full(context.users, np.inf)
    if max(spec.air_rates_bps) > 0.0:
        airtime_s = np.full(context.users, cut.max_bits / max(spec.air_rates_bps))
    if spec.radio is not None and spec.reception is not None:
        layout = build_layout(spec, context)
        budget = open_budget(spec, context, layout)
        bands = UserBands(spec.reception, budget.bandwidth_hz)
        if at_best:
            snr_db = budget.best_frame_snr_db(users)
        else:
            snr_db = budget.mean_snr_db(users, _INSTANTS_S)
        cell_band = open_band(spec, context, layout)
        shares = spec.mac.share_bounds(layout, cell_band.limits(users))
        if shares is None:
            airtime_s = cut.max_bits / bands.expected_rates_bps(users, snr_db)
        else:
            largest = cell_band.radio_shares(users, shares.largest)
            rates_bps = bands.expected_rates_bps(users, snr_db + share_gain_db(largest))
            airtime_s = cut.max_bits / (largest * rates_bps)
    airtime_s, spacing_s = spec.mac.frame_times_s(cut.max_bits, snr_db, airtime_s)
    turn_s = _turns_s(spec, context)
    if cut.count > 1:
        spacing_s = np.maximum(spacing_s, turn_s)
    return LeastTimes(train_s, cut.count, airtime_s, spacing_s, turn_s)


def _turns_s(spec: NetworkSpec, context: AccessContext) -> Floats:
    """Return the time from one turn of each user to its next, ``[users]``; 0 where a MAC has none, or rates vary."""
    assert spec.mac is not None
    tower_of = towers_at_start(spec, context, build_layout(spec, context))
    slowest_bps = min(spec.air_rates_bps)
    if slowest_bps <= 0.0:
        return np.zeros(context.users)
    slowest_s = largest_frame_bits(spec, context) / slowest_bps
    turns_s = [spec.mac.turn_s(int(users), slowest_s) for users in np.bincount(tower_of)]
    return np.asarray(turns_s)[tower_of]
