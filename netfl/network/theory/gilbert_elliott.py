"""A channel that is good or bad in bursts, as a probe and as packets see it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from netfl.errors import Fault
from netfl.network.channel.gilbert_elliott import GilbertElliott as Channel
from netfl.network.mac.tdma import Tdma
from netfl.network.theory import Theory, TheoryCase, misfit_fault
from netfl.network.theory._air import alone_misfits, budget_db, budget_misfits, random_channels, threshold_of


class GilbertElliott(Theory):
    """A link that stays good for g and bad for b on average loses the share b / (g + b) of its packets, in bursts.

    A probe that looks every T sees a two-state chain of memory e = exp(-T (1/g + 1/b)): it finds the link bad at
    the share π = b / (g + b) of its looks, has it turn bad (1 - π) π (1 - e) / T times a second, and bad stretches of
    T / ((1 - π) (1 - e)) on average, which for short T is b.  SNRs τ apart have the correlation exp(-τ (1/g + 1/b)).
    E. N. Gilbert, Bell Syst. Tech. J. 39, 1960; E. O. Elliott, ibid. 42, 1963.

    For one attempt of each packet, in a slot of its sender's own; the SNR that is needed, and the probe's level, lie
    between those of the two states.

    Example::

        kind: gilbert_elliott
    """

    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        """Another channel; packets that are sent again; a level that tells no state from the other."""
        said, channel = case.said, _channel(case)
        yield from budget_misfits(case)
        yield from alone_misfits(case)
        if channel is None or said.radio is None:
            yield misfit_fault("channel", "one gilbert_elliott channel on a fixed path loss, and a radio")
            return
        low_db, high_db = (budget_db(case) + gain_db for gain_db in (channel.bad_gain, channel.good_gain))
        between = f"an SNR between {low_db:.1f} and {high_db:.1f} dB"
        if any(traffic.buffer is not None or traffic.leaves != "tower" for traffic in said.traffic):
            yield misfit_fault("traffic", "packets that wait without limit and leave at the tower")
        if said.traffic:
            if not isinstance(said.mac, Tdma) or said.mac.max_attempts != 1:
                yield misfit_fault("mac", "tdma with max_attempts: 1")
            least_db = threshold_of(case)
            if least_db is None or not low_db < least_db <= high_db:
                yield misfit_fault("reception", f"all-or-nothing receptions from {between} on", least_db)
        if said.probe is not None and (said.probe.level is None or not low_db < said.probe.level <= high_db):
            yield misfit_fault("probe", f"a level with {between}", said.probe.level)

    def figures(self, case: TheoryCase) -> Mapping[str, float]:
        """Of the packets and of the probe, as far as there are."""
        channel, probe = _channel(case), case.said.probe
        assert channel is not None
        bad, pace_hz = channel.bad / (channel.good + channel.bad), 1.0 / channel.good + 1.0 / channel.bad
        told = {"loss_ratio_theory": bad, "outage_theory": bad} if case.said.traffic else {}
        if probe is not None:
            fresh = -math.expm1(-probe.every * pace_hz)
            told["level_crossing_rate_theory_hz"] = bad * (1.0 - bad) * fresh / probe.every
            told["fade_duration_theory_s"] = probe.every / ((1.0 - bad) * fresh)
            told |= {} if probe.lag is None else {"autocorrelation_theory": math.exp(-probe.lag * pace_hz)}
        return told


def _channel(case: TheoryCase) -> Channel | None:
    """The channel, if it is the only one that is drawn."""
    drawn = random_channels(case)
    return drawn[0] if len(drawn) == 1 and isinstance(drawn[0], Channel) else None
