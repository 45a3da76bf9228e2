"""The reception of frames of users that may have different bandwidths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from netfl.network.reception import FadedFrames, Reception
from netfl.types import Floats, Ints

_InBand = Callable[[float, Ints], Floats | Ints]
"""``compute(bandwidth_hz, places)``: a value for each user at *places* of a list, all of the same bandwidth."""


class UserBands:
    """A reception that is asked for each user with the user's bandwidth.

    Args:
        reception: the reception, which gets one bandwidth in each call.
        bandwidth_hz: bandwidth of all users, or of each, ``[users]``.

    Attributes:
        common_hz: bandwidth of all users; ``None`` if they differ.
    """

    def __init__(self, reception: Reception, bandwidth_hz: float | Floats) -> None:
        self._reception = reception
        self._bandwidth_hz = bandwidth_hz
        self.common_hz: float | None = None
        if isinstance(bandwidth_hz, float):
            self.common_hz = bandwidth_hz
        self._rates_bps: dict[float, Floats] = {}

    def bandwidths_hz(self, ids: Ints) -> Floats:
        """Return the bandwidth of each user, ``[n]``."""
        if isinstance(self._bandwidth_hz, float):
            return np.full(len(ids), self._bandwidth_hz)
        return self._bandwidth_hz[ids]

    def distinct_hz(self, ids: Ints | None = None) -> list[float]:
        """Return the bandwidths of *ids*, by default of all users, in rising order, each once."""
        if isinstance(self._bandwidth_hz, float):
            return [self._bandwidth_hz]
        bands_hz = self._bandwidth_hz
        if ids is not None:
            bands_hz = bands_hz[ids]
        distinct_hz: list[float] = np.unique(bands_hz).tolist()
        return distinct_hz

    def mode_rates_bps(self, ids: Ints, modes: int | Ints) -> float | Floats:
        """Return the rate of each user's mode in its band, one for all or ``[n]``."""
        if self.common_hz is not None:
            rates_bps = self._rates_in(self.common_hz)[modes]
            if isinstance(rates_bps, np.ndarray):
                return rates_bps
            return float(rates_bps)
        mode_of = np.full(len(ids), modes)

        def in_band(band_hz: float, places: Ints) -> Floats:
            rates_bps: Floats = self._rates_in(band_hz)[mode_of[places]]
            return rates_bps

        return self._by_band(ids, in_band)

    def slowest_bps(self, ids: Ints | None = None) -> float:
        """Return the lowest rate of all modes in the bands of *ids*, by default of all users."""
        return min(float(self._rates_in(band_hz).min()) for band_hz in self.distinct_hz(ids))

    def success(self, ids: Ints, snr_db: Floats, bits: float, mode: int) -> Floats:
        """Return the probability that each user's frame is received at its SNR, ``[n]``."""
        if self.common_hz is not None:
            return self._reception.success(snr_db, self.common_hz, bits, mode)

        def in_band(band_hz: float, places: Ints) -> Floats:
            return self._reception.success(snr_db[places], band_hz, bits, mode)

        return self._by_band(ids, in_band)

    def success_over(self, ids: Ints, frames: FadedFrames) -> Floats:
        """Return the probability that each of *frames* is received, ``[n]``; their bandwidth is that of the users."""
        if self.common_hz is not None:
            return self._reception.success_over(frames)

        def in_band(band_hz: float, places: Ints) -> Floats:
            rate_bps = frames.rate_bps
            if rate_bps is not None:
                rate_bps = rate_bps[places]
            part = replace(frames, sinr_db=frames.sinr_db[places], bandwidth_hz=band_hz, rate_bps=rate_bps)
            return self._reception.success_over(part)

        return self._by_band(ids, in_band)

    def choose(self, ids: Ints, snr_db: Floats) -> Ints:
        """Return the mode that each user picks at its SNR, ``[n]``."""
        if self.common_hz is not None:
            return self._reception.choose(snr_db, self.common_hz)

        def in_band(band_hz: float, places: Ints) -> Ints:
            return self._reception.choose(snr_db[places], band_hz)

        return self._by_band(ids, in_band).astype(np.int64)

    def expected_rates_bps(self, ids: Ints, snr_db: Floats) -> Floats:
        """Return the rate that each user sets by its SNR or, with modes, that of the mode that it picks, ``[n]``."""
        if not self._reception.follows_snr:
            return np.asarray(self.mode_rates_bps(ids, self.choose(ids, snr_db)))
        if self.common_hz is not None:
            return self._reception.expected_rate_bps(snr_db, self.common_hz)

        def in_band(band_hz: float, places: Ints) -> Floats:
            return self._reception.expected_rate_bps(snr_db[places], band_hz)

        return self._by_band(ids, in_band)

    def threshold_db(self, ids: Ints, bits: float) -> float | Floats:
        """Return the SNR at which *bits* are received with a negligible probability, one for all or ``[n]``."""
        if self.common_hz is not None:
            return self._reception.threshold_db(self.common_hz, bits)

        def in_band(band_hz: float, places: Ints) -> Floats:
            return np.full(len(places), self._reception.threshold_db(band_hz, bits))

        return self._by_band(ids, in_band)

    def _rates_in(self, bandwidth_hz: float) -> Floats:
        """Return the rate of each mode in a band, ``[modes]``."""
        if bandwidth_hz not in self._rates_bps:
            modes = range(self._reception.modes)
            self._rates_bps[bandwidth_hz] = np.array([self._reception.rate_bps(bandwidth_hz, mode) for mode in modes])
        return self._rates_bps[bandwidth_hz]

    def _by_band(self, ids: Ints, compute: _InBand) -> Floats:
        """Return *compute* of the users of each bandwidth, ``[n]``; only where they differ."""
        bands_hz = self.bandwidths_hz(ids)
        values = np.empty(len(ids))
        for band_hz in np.unique(bands_hz).tolist():
            places = np.flatnonzero(bands_hz == band_hz)
            values[places] = compute(band_hz, places)
        return values
