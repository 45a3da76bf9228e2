"""Gilbert-Elliott channel: loss of packets, and bursts in the samples of a probe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from netfl.errors import Fault
from netfl.network.channel.gilbert_elliott import GilbertElliott as Channel
from netfl.network.mac.tdma import Tdma
from netfl.network.theory import Theory, TheoryCase, misfit_fault
from netfl.network.theory._links import budget_db, budget_misfits, cell_misfits, find_random_channel, find_threshold


class GilbertElliott(Theory):
    """A link that stays good for g and bad for b on average loses the share b / (g + b) of its packets, in bursts.

    A probe that samples every T sees a two-state chain of memory e = exp(-T (1/g + 1/b)): the link is bad in the
    share π = b / (g + b) of the samples, turns bad (1 - π) π (1 - e) / T times a second, and stays bad for
    T / ((1 - π) (1 - e)) on average, which for short T is b.  SNRs τ apart have the correlation exp(-τ (1/g + 1/b)).
    E. N. Gilbert, Bell Syst. Tech. J. 39, 1960; E. O. Elliott, ibid. 42, 1963.

    For one attempt of each packet, in a slot of its sender; the required SNR and the probe's level lie between the SNRs
    of the two states.

    Example::

        kind: gilbert_elliott
    """

    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        network, channel = case.network, find_random_channel(case, Channel)
        yield from budget_misfits(case)
        yield from cell_misfits(case)
        if channel is None or network.radio is None:
            yield misfit_fault("channel", "one gilbert_elliott channel on a fixed path loss, and a radio")
            return
        low_db, high_db = (budget_db(case) + gain_db for gain_db in (channel.bad_gain, channel.good_gain))
        between = f"an SNR between {low_db:.1f} and {high_db:.1f} dB"
        if any(traffic.buffer is not None or traffic.destination != "tower" for traffic in network.traffic):
            yield misfit_fault("traffic", "packets with unlimited waiting that leave at the tower")
        if network.traffic:
            if not isinstance(network.mac, Tdma) or network.mac.max_attempts != 1:
                yield misfit_fault("mac", "tdma with max_attempts: 1")
            min_snr_db = find_threshold(case)
            if min_snr_db is None or not low_db < min_snr_db <= high_db:
                yield misfit_fault("reception", f"all-or-nothing receptions from {between} on", min_snr_db)
        if network.probe is not None and (network.probe.level is None or not low_db < network.probe.level <= high_db):
            yield misfit_fault("probe", f"a level with {between}", network.probe.level)

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        channel, probe = find_random_channel(case, Channel), case.network.probe
        assert channel is not None
        bad, pace_hz = channel.bad / (channel.good + channel.bad), 1.0 / channel.good + 1.0 / channel.bad
        metrics = {"loss_ratio_theory": bad, "outage_theory": bad} if case.network.traffic else {}
        if probe is not None:
            change = -math.expm1(-probe.every * pace_hz)
            metrics["level_crossing_rate_theory_hz"] = bad * (1.0 - bad) * change / probe.every
            metrics["fade_duration_theory_s"] = probe.every / ((1.0 - bad) * change)
            metrics |= {} if probe.lag is None else {"autocorrelation_theory": math.exp(-probe.lag * pace_hz)}
        return metrics
