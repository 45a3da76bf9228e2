"""The mean of changes as a sum in the air gives it: with the noise of the receiver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from netfl.core.spec import ByForm
from netfl.learning.aggregation import Aggregation, State, Tensor, Updates
from netfl.types import Reported


class _Signals(NamedTuple):
    """Signals of the changes of θ in one slot, as the server scales their sum.

    Args:
        changes: Δ of the users that send, ``[k, parameters]``.
        centre: m, the mean of all numbers of all changes, which users subtract, ``[]``.
        divisor: K̂, the number of senders by which the server divides, ``[]``.
        amplitudes: a, amplitude of each user's signal relative to the strongest, ``[k]``.
        noise: variance of the noise of each number of the mean, ``[]``.
    """

    changes: Tensor
    centre: Tensor
    divisor: Tensor
    amplitudes: Tensor
    noise: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean without noise, ``[parameters]``: m + Σ_k a_k (Δ_k - m) / K̂."""
        return self.centre + self.amplitudes @ (self.changes - self.centre) / self.divisor


class OverTheAir(Aggregation):
    """The version moves by the mean change, as a sum in the air gives it: ``x + m + Σ_k a_k (Δ_k - m) / K̂ + noise``.

    Users normalise their changes Δ_k = θ_k - base_k together: m is the mean of all numbers of those that send, v their
    variance, which the server learns and sends before.  The signals arrive with the SNR γ of the strongest; a_k is the
    amplitude relative to it, 1 unless the power of a user was clipped.  Each number is the real part of a symbol, which
    has half of the noise, so that each number of the result has noise of the variance v / (2 γ K̂²).  The scalar t of an
    objective is sent digitally, without noise.

    The server knows the number K of those that send, K̂ = K, or takes its mean: with ``senders: 0.84``,
    K̂ = 0.84 · (number scheduled), which is right on average and adds a variance.  Two errors are metrics, the mean
    square over the numbers of a version: that of the result against the mean of those who sent, and against the mean
    of all that were scheduled, which adds the error by users that are left out.  Beside each stands its formula: the
    noise, and, of N scheduled users of whom K chosen at random send, (1 - K/N) S² / K, with S² the variance between the
    changes of users.

    Source: G. Zhu, Y. Wang and K. Huang, "Broadband analog aggregation for low-latency federated edge learning", IEEE
    Trans. Wireless Commun. 19(1), 2020, with one gain of a user for all of its symbols.

    Example::

        kind: over_the_air
    """

    reports: ClassVar[tuple[Reported, ...]] = (
        Reported("sum_error", "error of the sum, to senders", low_is_good=True),
        Reported("sum_error_formula", "error to senders by formula", low_is_good=True),
        Reported("scheduled_error", "error of the sum, to all", low_is_good=True),
        Reported("scheduled_error_formula", "error to all by formula", low_is_good=True),
    )
    reads_links: ClassVar[frozenset[str]] = frozenset({"snr_db"})
    reads_not_summed: ClassVar[bool] = True

    senders: Annotated[Literal["known"] | Annotated[float, Field(gt=0, le=1)], ByForm()] = "known"
    """``known``: the server knows how many users send; or the share of the scheduled users that send on average, of
    which it takes the number."""

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        signals = self._signals(updates)
        assert updates.draws is not None
        noise = signals.noise.sqrt() * updates.draws.normal(len(current) - 1)
        following = current.clone()
        following[:-1] += signals.mean + noise
        following[-1] += (updates.models - updates.bases)[:, -1].mean()
        return following, state

    def metrics(self, state: State, current: Tensor, updates: Updates, following: Tensor) -> Mapping[str, Tensor]:
        signals = self._signals(updates)
        assert updates.not_summed is not None
        result = (following - current)[:-1]
        scheduled = _join(signals.changes, updates.not_summed[:, :-1])
        mean_sent = signals.changes.mean(0)
        mean_scheduled = scheduled.mean(0)

        sent = len(signals.changes)
        count = len(scheduled)
        gain = sent / signals.divisor  # K / K̂
        spread = signals.noise.new_zeros(())
        if count > 1:
            between_users = ((scheduled - mean_scheduled) ** 2).sum(0).mean() / (count - 1)  # S²
            spread = gain**2 * (1.0 - sent / count) * between_users / sent
        offset = ((gain - 1.0) * (mean_scheduled - signals.centre)) ** 2
        return {
            "sum_error": ((result - mean_sent) ** 2).mean(),
            "sum_error_formula": signals.noise + ((signals.mean - mean_sent) ** 2).mean(),
            "scheduled_error": ((result - mean_scheduled) ** 2).mean(),
            "scheduled_error_formula": signals.noise + spread + offset.mean(),
        }

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        return 1.0

    def _signals(self, updates: Updates) -> _Signals:
        """Return what arrives of the changes of θ."""
        changes = (updates.models - updates.bases)[:, :-1]
        snr_db = updates.links["snr_db"]
        strongest_db = snr_db.max()
        centre = changes.mean()
        variance = ((changes - centre) ** 2).mean()
        divisor = changes.new_tensor(float(len(changes)))
        if self.senders != "known":
            assert updates.not_summed is not None
            divisor = self.senders * (divisor + len(updates.not_summed))
        snr = 10.0 ** (strongest_db / 10.0)  # γ
        noise = variance / (2.0 * snr * divisor**2)
        amplitudes = 10.0 ** ((snr_db - strongest_db) / 20.0)
        return _Signals(changes, centre, divisor, amplitudes, noise)


def _join(first: Tensor, second: Tensor) -> Tensor:
    """Return the rows of both."""
    import torch

    return torch.cat([first, second])
