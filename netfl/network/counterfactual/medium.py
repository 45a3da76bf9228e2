"""The medium of users that are exempt from fading."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.counterfactual import Exemptions
from netfl.network.layout import NodeId
from netfl.network.radio.fading_medium import ArrivingFrames, FadingMedium, ReceptionDraws
from netfl.network.radio.medium import FramePower
from netfl.network.radio.transmission import Signal, Transmission
from netfl.types import Bools, Floats, Ints

_AMPLE_DB = 200.0
"""An SNR that suffices for any reception."""
_NO_NOISE = 1e-20
"""Noise power, relative to the actual one, that counts as none."""


class UnfadedMedium(FadingMedium):
    """A medium on which exempt users are received without noise, in the fastest mode, unless others interfere.

    Where rates follow the SNR there is no fastest mode, and exempt users keep their rates.

    Draws are those of `FadingMedium`; exempt users have further ones where interference leaves a probability.

    Args:
        parts: the arguments of `FadingMedium`.
    """

    def __init__(self, exemptions: Exemptions, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._exemptions = exemptions
        users = np.arange(self._link_budget.users)
        self._fastest_modes = self._bands.choose(users, np.full(len(users), _AMPLE_DB))  # [users]

    def choose(
        self,
        ids: Ints,
        tower: NodeId,
        time_s: float,
        boost_db: float | Floats | None = None,
        share: float | Floats | None = None,
        power_db: Floats | None = None,
        channel: ArrayLike | None = None,
        *,
        is_group: bool = False,
    ) -> Ints:
        modes = super().choose(ids, tower, time_s, boost_db, share, power_db, channel, is_group=is_group)
        return np.where(self._is_exempt(ids), self._fastest_modes[ids], modes)

    def frame_power(
        self,
        ids: Ints,
        tower: NodeId,
        time_s: float,
        share: float | Floats | None = None,
        wanted_db: Floats | None = None,
    ) -> FramePower | None:
        """Return the powers; exempt users, which are received whatever their channels, withhold no frame."""
        power = super().frame_power(ids, tower, time_s, share, wanted_db)
        if power is None or not power.is_withheld.any():
            return power
        is_sent = power.is_withheld & self._is_exempt(ids)
        return power._replace(offset_db=np.where(is_sent, self._offset_db(ids), power.offset_db))

    def can_receive(self, ids: Ints, tower: NodeId, bits: float, boost_db: float | Floats) -> Bools:
        return super().can_receive(ids, tower, bits, boost_db) | self._is_exempt(ids)

    def lost_for_all(self, ids: Ints) -> Bools | None:
        is_lost = super().lost_for_all(ids)
        if is_lost is None:
            return None
        return is_lost & ~self._is_exempt(ids)

    def _undisturbed_success(self, ids: Ints, signal: Signal) -> Floats:
        return np.where(self._is_exempt(ids), 1.0, super()._undisturbed_success(ids, signal))

    def _lone_reception(self, transmission: Transmission, snr_db: Floats) -> str:
        cause = super()._lone_reception(transmission, snr_db)
        if self._is_exempt(transmission.ids)[0]:
            return ""
        return cause

    def _draw_receptions(self, frames: ArrivingFrames) -> ReceptionDraws:
        outcomes = super()._draw_receptions(frames)
        ids = frames.transmission.ids
        is_exempt = self._is_exempt(ids)
        if not is_exempt.any():
            return outcomes

        # exempt users are judged by the interference alone
        alone = np.ones(len(ids))
        chances = self._disturbed_success(frames, alone, _NO_NOISE)
        chances_of_exempt = [chance[is_exempt] for chance in (alone, *chances)]
        draws = self._draw(frames.transmission, ids[is_exempt], *chances_of_exempt)
        for outcome, chance in zip(outcomes, chances_of_exempt, strict=True):
            outcome[is_exempt] = draws < chance
        return outcomes

    def _is_exempt(self, ids: Ints) -> Bools:
        return self._exemptions.among("fading", ids)
