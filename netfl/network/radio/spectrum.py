"""Places of frames in the band of a cell, by which frames of cells that share the air interfere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from netfl.types import Floats, Ints

_ROUNDING = 1e-12
"""Fraction of the band that counts as none, as rounding."""


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Parts of the band that some frames have, as fractions of the band.

    A frame has several parts where those of others leave none that is wide enough.

    Args:
        count: number of frames, n.
        frames: frame of each part, from 0 to n - 1, ``[parts]``.
        low: lower edge of each part, ``[parts]``.
        high: upper edge of each part, ``[parts]``.
    """

    count: int
    frames: Ints
    low: Floats
    high: Floats

    @staticmethod
    def from_edges(low: Floats, high: Floats) -> Spectrum:
        """Return the spectrum of frames with one part each, between these edges, ``[n]``."""
        return Spectrum(len(low), np.arange(len(low)), low, high)

    @property
    def widths(self) -> Floats:
        """Width of each frame, ``[n]``."""
        return np.bincount(self.frames, weights=self.high - self.low, minlength=self.count).astype(float)

    def select(self, places: Iterable[int]) -> Spectrum:
        """Return the spectrum of some of the frames, by their places."""
        chosen = np.asarray([*places], np.int64)
        new_place = np.full(self.count, -1)
        new_place[chosen] = np.arange(len(chosen))
        frames = new_place[self.frames]
        is_chosen = frames >= 0
        return Spectrum(len(chosen), frames[is_chosen], self.low[is_chosen], self.high[is_chosen])

    def overlap(self, other: Spectrum) -> Floats:
        """Return the part of the band that each frame has in common with each of *other*, ``[n, m]``."""
        low = np.maximum(self.low[:, None], other.low[None, :])
        high = np.minimum(self.high[:, None], other.high[None, :])
        common = np.where(high - low > _ROUNDING, high - low, 0.0)  # [parts, parts]
        overlap = np.zeros((self.count, other.count))
        np.add.at(overlap, (self.frames[:, None], other.frames[None, :]), common)
        return overlap


@dataclass(frozen=True, slots=True)
class FreeSpectrum:
    """Parts of the band that no frame of a cell has, from below, as fractions of the band.

    Args:
        low: lower edge of each part, ``[parts]``.
        high: upper edge of each part, ``[parts]``.
    """

    low: Floats
    high: Floats

    @staticmethod
    def beside(spectra: Iterable[Spectrum]) -> FreeSpectrum:
        """Return what *spectra*, which do not overlap, leave free."""
        taken = [*spectra]
        low = np.concatenate([np.zeros(0), *(spectrum.low for spectrum in taken)])
        high = np.concatenate([np.zeros(0), *(spectrum.high for spectrum in taken)])
        order = np.argsort(low)
        free_low = np.concatenate([[0.0], high[order]])
        free_high = np.concatenate([low[order], [1.0]])
        is_free = free_high - free_low > _ROUNDING
        return FreeSpectrum(free_low[is_free], free_high[is_free])

    def place_in_order(self, shares: Floats) -> Spectrum:
        """Return places of frames with these *shares*, ``[n]``, side by side from below."""
        return self._place(np.cumsum(shares) - shares, shares)

    def place_by_keys(self, shares: Floats, keys: Floats) -> Spectrum:
        """Place frames with these *shares*, ``[n]``, side by side in the order of their *keys*, ``[n + 1]``.

        The idle rest counts as one more frame, with the last key, so that it lies between them.
        """
        free = float((self.high - self.low).sum())
        idle = max(0.0, free - float(shares.sum()))
        widths = np.append(shares, idle)
        order = np.argsort(keys, kind="stable")
        starts = np.empty(len(widths))
        starts[order] = np.cumsum(widths[order]) - widths[order]
        return self._place(starts[:-1], shares)

    def _place(self, starts: Floats, shares: Floats) -> Spectrum:
        """Return places of frames that begin at these *starts* in the free parts, as if these were one."""
        widths = self.high - self.low
        free_starts = np.cumsum(widths) - widths  # [parts]
        low = np.maximum(starts[:, None], free_starts[None, :])
        high = np.minimum((starts + shares)[:, None], (free_starts + widths)[None, :])
        frames, parts = np.nonzero(high - low > _ROUNDING)
        shift = self.low[parts] - free_starts[parts]
        return Spectrum(len(shares), frames, low[frames, parts] + shift, high[frames, parts] + shift)


WHOLE_BAND = FreeSpectrum(np.zeros(1), np.ones(1))
"""A band of which nothing is taken."""
