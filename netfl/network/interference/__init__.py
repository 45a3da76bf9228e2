'''Interference family: which of the frames that overlap on one channel are received.

A frame that overlaps with no other is judged by the reception alone.  For frames that overlap, the network asks
`Interference.success` at the end of each transmission, when all that overlapped with it is known.  It draws one uniform
number for each frame and compares it with that probability.  A frame that fails has ``collided`` if it would have been
received without interference, and else ``faded``.

To add a model, write a file in this package, or a class in your own package, that derives from `Interference`.  A
complete one::

    class FirstCome(Interference):
        """The tower receives the frame that begins on a free channel; those that begin during another one are lost.

        Example::

            kind: mylab.first_come:FirstCome
        """

        receives_several = False

        def success(self, frames):
            is_lone = len(frames.users) == 1
            is_first = all(frames.start_s < other.start_s for other in frames.others)
            return frames.alone if is_lone and is_first else np.zeros(len(frames.users))

        def laws(self):
            return (Law.none("nothing is drawn"),)

Frames that overlap with others are *disturbed*.  `Interference.success` gets those that end together, as one
`DisturbedFrames`: the SNR of each frame, the frames with which it overlaps and their powers, the sum of these at the
worst moment (`DisturbedFrames.interference`), and the reception at a given SINR (`DisturbedFrames.received_over`).

A model whose receiver decodes the others, too, such as `sic`, sets `Interference.decodes_others`.  Each of the others
then has `OverlappingFrames.judged`, by which it is a frame to judge itself, and `OverlappingFrames.decoded`.

Users that a MAC lets send at once as a group choose their rates by `Interference.scheduled_snr`.
'''

from __future__ import annotations

from abc import abstractmethod
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.types import Bools, Floats, Ints, Law
from netfl.units import db_to_linear

_Span = tuple[float, float, Floats]
"""Start and end of another transmission, and its power in the band of each judged frame, ``[n]``."""


@dataclass(frozen=True, slots=True)
class OverlappingFrames:
    """Frames of another transmission that overlap with those that are judged.

    Args:
        users: their senders, by their numbers in the network, ``[m]``.
        mode: mode of the reception in which they are sent.
        start_s: time at which they begin to arrive at their tower.
        end_s: time at which they have arrived, less what counts as rounding.
        snr: power of each at the tower of the judged frames, at its start, over the noise in its own band, ``[m]``;
            `DisturbedFrames.interference` converts it to the bands of the judged frames.
        in_share: where the judged frames have shares of a band that cells divide, the interference of each in each
            share over its noise, for an SNR of 1, ``[n, m]``; ``None`` without shares.
        decoded: whether the tower has decoded each, ``[m]``, where it has judged them before; else ``None``.
        judged: returns them as frames to judge, with what overlaps with them by the end of the judged frames; ``None``
            unless the model has `Interference.decodes_others`.
    """

    users: Ints
    mode: int
    start_s: float
    end_s: float
    snr: Floats
    in_share: Floats | None = None
    decoded: Bools | None = None
    judged: Callable[[], DisturbedFrames] | None = None


@dataclass(frozen=True, slots=True)
class ScheduledSignals:
    """Signals of users that a tower lets send at once on one channel, in the whole band.

    Args:
        users: their numbers in the network, ``[n]``.
        snr: power of each over the noise in its band, ``[n]``.
        in_band: interference of each in the band of each over its noise, for an SNR of 1, ``[n, n]``; row: the user
            that is disturbed.  The diagonal has no meaning.
        power: received power of each, in one unit for all, ``[n]``.
    """

    users: Ints
    snr: Floats
    in_band: Floats
    power: Floats

    def sinr(self, kept: float | Floats = 1.0) -> Floats:
        """Return the SINR of each, ``[n]``.

        *kept* is the share of the power of each that is left in the signal of each, one for all or ``[n, n]``.
        """
        weights = kept * self.in_band
        np.fill_diagonal(weights, 0.0)
        return np.asarray(self.snr / (1.0 + weights @ self.snr))


@dataclass(frozen=True, slots=True)
class DisturbedFrames:
    """Frames of one transmission that overlap, with each other or with those of other transmissions.

    Powers are linear, and relative to the noise of the receiver.

    Args:
        users: their senders, by their numbers in the network, ``[n]``.
        mode: mode of the reception in which they are sent.
        start_s: time at which they begin to arrive at the tower.
        end_s: time at which they have arrived.
        snr_db: signal of each over the noise, at the start, ``[n]``.
        alone: probability that each is received without interference, ``[n]``.
        others: the other transmissions.
        received_over: returns the probability that each is received where noise and interference are so many times the
            noise, ``[n]`` or one for all; where fading is followed, the interference is constant.
        min_sir_db: minimum ratio of signal to interference for each pair of modes, of a reception that has one.
        noise: power of the noise; 1, or nearly 0 for users that are exempt from it.
        power_in_band: where users have different bandwidths, returns the interference of some users in the bands of
            others, for an SNR of 1; ``power_in_band(users, others)`` is ``[n, m]``.
        band_noise: where users have different bandwidths, returns the noise in the bands of some users, in one unit for
            all, ``[n]``.
        interrupted: whether an outage interrupts each, so that it is not decoded; ``None`` for none.
        kept: share of the power of each that is left in the signals of the others of this transmission, ``[n]``;
            ``None`` for all of it.
        bursts: bursts of a jammer: start, end, and power in the band of each frame over its noise, ``[n]``.
        has_shares: whether the frames have shares of the band to themselves.
    """

    users: Ints
    mode: int
    start_s: float
    end_s: float
    snr_db: Floats
    alone: Floats
    others: Sequence[OverlappingFrames]
    received_over: Callable[[float | Floats], Floats]
    min_sir_db: Floats | None = None
    noise: float = 1.0
    power_in_band: Callable[[Ints, Ints], Floats] | None = None
    band_noise: Callable[[Ints], Floats] | None = None
    interrupted: Sequence[bool] | None = None
    kept: Floats | None = None
    bursts: Sequence[_Span] = ()
    has_shares: bool = False

    @property
    def signal(self) -> Floats:
        """Power of each signal, ``[n]``."""
        return db_to_linear(self.snr_db)

    def keep(self, of_these: Floats, of_others: Sequence[Floats]) -> DisturbedFrames:
        """Return these frames where only a share of each power is left as interference.

        Args:
            of_these: share of the power of each of these frames that is left in those of the others of them, ``[n]``.
            of_others: share of that of each frame of the other transmissions, ``[m]`` each.
        """
        others = [replace(other, snr=other.snr * kept) for other, kept in zip(self.others, of_others, strict=True)]
        return replace(self, kept=of_these, others=others)

    def interference(self, mode: int | None = None) -> Floats:
        """Return the power of all others, or of those in *mode*, at each sender's worst moment, ``[n]``.

        All others include the bursts of a jammer, which have no mode.
        """
        if self.bursts and mode is None:
            return self._interference_with_bursts()
        if any(other.in_share is not None for other in self.others):
            return self._worst_sum([*self._in_shares(mode)])
        if self.power_in_band is not None:
            return self._interference_in_bands(mode, self.power_in_band)

        # other transmissions: their sum is largest when one of them starts
        spans = [
            (other.start_s, other.end_s, float(other.snr.sum())) for other in self.others if mode in {None, other.mode}
        ]
        moments_s = {max(start_s, self.start_s) for start_s, _, _ in spans}
        sums = [sum(power for start_s, end_s, power in spans if start_s <= at_s < end_s) for at_s in moments_s]
        worst = max(sums, default=0.0)

        # the other senders of this transmission
        signals = np.zeros(len(self.users))
        if mode in {None, self.mode}:
            signals = self.signal
        if self.kept is not None:  # without a difference of large powers, as little is left of a strong signal
            signals = signals * self.kept
            return np.asarray(worst + (1.0 - np.eye(len(signals))) @ signals)
        return np.asarray(worst + signals.sum() - signals)

    def _interference_in_bands(self, mode: int | None, power_in_band: Callable[[Ints, Ints], Floats]) -> Floats:
        """Return the interference in the band of each user, in the steps of `interference` for one band."""
        # other transmissions
        spans: list[_Span] = []
        for other in self.others:
            if mode in {None, other.mode}:
                powers = power_in_band(self.users, other.users) @ other.snr
                spans.append((other.start_s, other.end_s, powers))
        worst = self._worst_sum(spans)

        # the other senders of this transmission
        if mode in {None, self.mode}:
            weights = power_in_band(self.users, self.users)
            np.fill_diagonal(weights, 0.0)
            signals = self.signal
            if self.kept is not None:
                signals = signals * self.kept
            worst = worst + weights @ signals
        return worst

    def burst_power(self) -> Floats:
        """Return the power of the jammer at the worst moment of each frame, ``[n]``; 0 without a burst."""
        return self._worst_sum(self.bursts)

    def _interference_with_bursts(self) -> Floats:
        """Return the power of all others and of the jammer, in the band of each frame, ``[n]``."""
        n = len(self.users)
        spans = [*self.bursts]
        for other in self.others:
            if other.in_share is not None:
                powers = other.in_share @ other.snr
            elif self.power_in_band is not None:
                powers = self.power_in_band(self.users, other.users) @ other.snr
            else:
                powers = np.full(n, float(other.snr.sum()))
            spans.append((other.start_s, other.end_s, powers))
        worst = self._worst_sum(spans)
        if self.has_shares:  # senders of one cell have shares to themselves
            return worst
        weights = np.ones((n, n))
        if self.power_in_band is not None:
            weights = self.power_in_band(self.users, self.users)
        np.fill_diagonal(weights, 0.0)
        signals = self.signal
        if self.kept is not None:
            signals = signals * self.kept
        return np.asarray(worst + weights @ signals)

    def _in_shares(self, mode: int | None) -> Iterator[_Span]:
        """Yield the interference of each of the other transmissions; senders of one cell have shares to themselves."""
        for other in self.others:
            if other.in_share is not None and mode in {None, other.mode}:
                yield other.start_s, other.end_s, other.in_share @ other.snr

    def _worst_sum(self, spans: Sequence[_Span]) -> Floats:
        """Return the largest sum of the powers of *spans* that are on the air at once, ``[n]``."""
        worst = np.zeros(len(self.users))
        by_start = sorted(range(len(spans)), key=lambda number: spans[number][0])
        begun = 0
        on_air: list[int] = []  # in the order of *spans*, in which their powers are added
        for at_s in sorted({max(start_s, self.start_s) for start_s, _, _ in spans}):
            while begun < len(spans) and spans[by_start[begun]][0] <= at_s:
                insort(on_air, by_start[begun])
                begun += 1
            on_air = [number for number in on_air if at_s < spans[number][1]]
            worst = np.maximum(worst, np.sum([spans[number][2] for number in on_air], axis=0))
        return worst


class Interference(Spec):
    """Base class of models of interference."""

    receives_several: ClassVar[bool] = True
    """True if several of the frames that overlap can be received.  ``netfl check`` judges by it if a cell is
    overloaded."""
    loses_all: ClassVar[bool] = False
    """True if all frames that overlap are lost; then nothing is computed about them, and cells cannot share the air."""
    decodes_others: ClassVar[bool] = False
    """True if the outcome of a frame depends on which of the others the tower decodes, so that it needs
    `OverlappingFrames.judged`.  A MAC that divides the band cannot be used with it."""

    sums: ClassVar[bool] = False
    """True if the tower receives the sum of the frames that overlap, and none of them by itself."""

    @abstractmethod
    def success(self, frames: DisturbedFrames) -> Floats:
        """Return the probability that each of *frames*, which overlap, is received, ``[n]``."""

    def scheduled_snr(self, signals: ScheduledSignals) -> Floats:
        """Return the SNR by which each of several users that a tower lets send at once chooses its rate, ``[n]``.

        By default it is that of its signal alone.
        """
        return signals.snr

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)


__getattr__ = exported_models(__name__)
