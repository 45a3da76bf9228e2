"""Present values of the users of a cell: what is true of their links and of their frames now.

The network reads them from a `netfl.network.tower.Tower`.  A MAC reads those that it has declared from its
`netfl.network.radio.cell.Cell`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.clock import Clock
from netfl.network.radio.medium import AirInterface, FramePower
from netfl.network.radio.tx_queue import TxQueue
from netfl.types import Bools, Floats, Ints, Users


class PresentValues:
    """Values of the users of a cell, by their numbers in it.  Reading them changes no draw.

    Args:
        env: clock.
        air: tower and medium of the cell.
        queue: frames of its users.
    """

    def __init__(self, env: Clock, air: AirInterface, queue: TxQueue) -> None:
        self._env = env
        self._tower = air.tower
        self._medium = air.medium
        self._band = air.band
        self._queue = queue
        self._ids = queue.ids
        self.connection = air.medium.connection

    def snr_db(self, users: Users) -> Floats:
        """Return the SNR of each of *users* at the tower, ``[n]``: fading included, and interference excluded."""
        return self._medium.snr_db(self._ids[users], self._tower, self._env.now)

    def modes(self, users: Users) -> Ints:
        """Return the mode of the reception in which each of *users* would send now, ``[n]``."""
        power = self._medium.frame_power(self._ids[users], self._tower, self._env.now)
        return self.chosen_modes(self._ids[users], self._env.now, None, power)

    def airtimes_s(self, users: Users, share: float | Floats | None = None) -> Floats:
        """Return the airtime of the next frame of each of *users* if it were sent now, ``[n]``.

        *share* is that of `netfl.network.radio.cell.Cell.attempt`; by default each sends in the whole band.
        """
        if share is not None:
            share = self._band.radio_shares(self._ids[users], share)
        now_s = self._env.now
        power = self._medium.frame_power(self._ids[users], self._tower, now_s, share)
        modes = self.chosen_modes(self._ids[users], now_s, share, power)
        airtimes_s = self.frame_airtimes_s(users, modes, now_s, share, power)
        if isinstance(airtimes_s, float):
            return np.full(len(users), airtimes_s)
        return airtimes_s

    def connected(self, users: Users) -> Bools:
        """Return whether each of *users* and the tower are up, so that it receives versions, ``[n]``."""
        if self.connection.steady:
            return np.ones(len(users), np.bool_)
        return self.connection.connected(self._ids[users], self._tower.number, self._env.now)

    def can_send(self, users: Users) -> Bools:
        """Return whether each of *users* and the tower, or another that hears it, are up, ``[n]``."""
        if self.connection.steady:
            return np.ones(len(users), np.bool_)
        return self.connection.can_send(self._ids[users], self._tower.number, self._env.now)

    def backlog_lengths(self) -> Ints:
        """Return the number of frames that each user can send, or is sending, ``[size]``."""
        self._queue.refresh(self._env.now)
        return self._queue.lengths(self._env.now)

    def chosen_modes(
        self,
        ids: Ints,
        start_s: float,
        share: float | Floats | None,
        power: FramePower | None = None,
        channel: ArrayLike | None = None,
    ) -> Ints:
        """Return the mode that each sender chooses for a frame from *start_s* on, ``[n]``.

        *share* is the fraction of the bandwidth of its radio that each has, and *channel* that of
        `netfl.network.radio.medium.Medium.choose`.
        """
        power_db = _offset_db(power)
        return self._medium.choose(ids, self._tower, start_s, share=share, power_db=power_db, channel=channel)

    def frame_airtimes_s(
        self,
        users: Users,
        mode: ArrayLike,
        start_s: float,
        share: float | Floats | None,
        power: FramePower | None = None,
        channel: ArrayLike | None = None,
    ) -> float | Floats:
        """Return the airtime of the next frame of each of *users* from *start_s* on, one for all or ``[n]``.

        In a fraction *share* of the bandwidth of its radio, a sender has that fraction of the rate of its mode.
        *channel* is that of `netfl.network.radio.medium.Medium.choose`.
        """
        ids = self._ids[users]
        if self._medium.follows_snr:
            power_db = _offset_db(power)
            rates_bps = self._medium.rates_bps(
                ids, self._tower, start_s, share=share, power_db=power_db, channel=channel
            )
            airtimes_s: float | Floats = self._queue.bits(users) / rates_bps
        else:
            modes = mode if isinstance(mode, int) else np.asarray(mode)
            airtimes_s = self._queue.bits(users) / self._medium.mode_rates_bps(ids, modes)
            if share is not None:
                airtimes_s = airtimes_s / share
        if isinstance(airtimes_s, np.ndarray) and len(users) == 1:
            return airtimes_s.item()
        return airtimes_s


def _offset_db(power: FramePower | None) -> Floats | None:
    return None if power is None else power.offset_db
