"""The band of a cell, which users divide, beside the bandwidths of their radios."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netfl.types import Floats, Ints


@dataclass(frozen=True, slots=True)
class CellBand:
    """The band that the users of a cell divide, and what the radio of each can use of it.

    Shares are fractions of this band.  The rate and the noise of a user are those of its radio, so that a share s of a
    band B is the fraction s B / B_i of the bandwidth B_i of the user.

    Args:
        width_hz: width of the band, B; NaN without a radio.
        radio_parts: bandwidth of the radio of each user over that of the band, B_i / B, ``[users]``; ``None`` if all of
            them have the band.
    """

    width_hz: float = np.nan
    radio_parts: Floats | None = None

    @staticmethod
    def of_radios(bandwidth_hz: Floats, width_hz: float | None) -> CellBand:
        """Return the band of cells whose users have radios of *bandwidth_hz*, ``[users]``.

        *width_hz* is that of the band; ``None`` for the largest bandwidth of a radio.
        """
        if width_hz is None:
            width_hz = float(np.max(bandwidth_hz, initial=0.0))
        if (bandwidth_hz == width_hz).all():
            return CellBand(width_hz)
        return CellBand(width_hz, bandwidth_hz / width_hz)

    def limits(self, ids: Ints) -> Floats:
        """Return the largest share that the radio of each user can use, min(1, B_i / B), ``[n]``."""
        if self.radio_parts is None:
            return np.ones(len(ids))
        return np.minimum(self.radio_parts[ids], 1.0)

    def radio_shares(self, ids: Ints, share: float | Floats) -> float | Floats:
        """Return the fraction of the bandwidth of its radio that each user has in its share, s B / B_i, up to 1.

        One for all or ``[n]``, as *share*; ``[n]`` if the radios differ from the band.
        """
        if self.radio_parts is None:
            return share
        return np.minimum(share / self.radio_parts[ids], 1.0)

    def shares(self, ids: Ints, radio_share: float | Floats) -> Floats:
        """Return the shares of users that have this fraction of the bandwidth of their radios, ``[n]``."""
        if self.radio_parts is None:
            return np.full(len(ids), radio_share)
        return np.asarray(radio_share * self.radio_parts[ids])

    def snr_db(self, ids: Ints, radio_snr_db: Floats) -> Floats:
        """Return the SNR that each user would have in the whole band, from that in the bandwidth of its radio, ``[n]``.

        It has the power of its radio in either, and the noise follows the bandwidth.
        """
        if self.radio_parts is None:
            return radio_snr_db
        return np.asarray(radio_snr_db + 10.0 * np.log10(self.radio_parts[ids]))

    def airtimes_s(self, ids: Ints, radio_airtimes_s: Floats) -> Floats:
        """Return airtimes at the rates that modes would have in the whole band, from those of radios, ``[n]``."""
        if self.radio_parts is None:
            return radio_airtimes_s
        return np.asarray(radio_airtimes_s * self.radio_parts[ids])


RADIO_BAND = CellBand()
"""Band of users whose radios all have it."""
