"""How long LoRa frames are on the air, and how large those of LoRaWAN may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.reception.lora import FACTORS

if TYPE_CHECKING:
    from netfl.network.cell import Cell

OVERHEAD_BYTES = 13
"""What a LoRaWAN uplink adds to its application payload: MHDR 1, FHDR 7 without options, FPort 1, MIC 4."""
MOST_BYTES = np.array([222, 222, 115, 51, 51, 51])
"""The largest application payload of each mode, SF7 to SF12 at 125 kHz, in EU868 where repeaters are allowed for."""
_OPTIMISED_FROM_S = 16e-3
"""Low data rate optimisation is mandated for symbols that are longer."""


def time_on_air_s(
    phy_bytes: ArrayLike, modes: ArrayLike, bandwidth_hz: float, coding: int = 1, preamble: int = 8
) -> NDArray[np.float64]:
    """How long LoRa frames with explicit header and CRC are on the air.

    T = 2^SF / B.  The preamble takes (n + 4.25) T, all else 8 + max(ceil((8 PL - 4 SF + 28 + 16) / (4 (SF - 2 DE)))
    (CR + 4), 0) symbols; DE is 1 where T exceeds 16 ms (Semtech, SX1276 data sheet, §4.1.1.6 and §4.1.1.7; AN1200.13).

    Args:
        phy_bytes: PL, the physical payload.
        modes: spreading factor less 7.
        bandwidth_hz: B.
        coding: CR, 1 for code rate 4/5 to 4 for 4/8.
        preamble: n, its programmed symbols.

    >>> (1e3 * time_on_air_s(64, [0, 5], 125e3)).round(3).tolist()
    [118.016, 2793.472]
    """
    factor = FACTORS[np.asarray(modes)]
    symbol_s = 2.0**factor / bandwidth_hz
    optimised = symbol_s > _OPTIMISED_FROM_S
    blocks = np.ceil((8 * np.asarray(phy_bytes) - 4 * factor + 44) / (4 * (factor - 2 * optimised)))
    return np.asarray((preamble + 4.25 + 8 + np.maximum(blocks * (coding + 4), 0)) * symbol_s)


def payload_bytes(cell: Cell, users: NDArray[np.int64]) -> NDArray[np.int64]:
    """The next frame of each of *users*, in whole bytes."""
    return np.ceil(np.broadcast_to(cell.sizes(users), len(users)) / 8.0).astype(np.int64)
