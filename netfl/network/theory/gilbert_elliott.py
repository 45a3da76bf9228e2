"""Gilbert-Elliott channel: loss of packets, and bursts in the samples of a probe."""

from __future__ import annotations

import math
from collections.abc import Mapping

from netfl.network.channel.gilbert_elliott import GilbertElliott as Channel
from netfl.network.mac.tdma import Tdma
from netfl.network.theory import Condition, Theory, TheoryCase
from netfl.network.theory._links import EQUAL_LINKS, ONE_CELL, budget_db, find_random_channel, find_threshold


def _has_channel(case: TheoryCase) -> bool:
    return find_random_channel(case, Channel) is not None and case.network.radio is not None


def _state_snrs_db(case: TheoryCase) -> tuple[float, float]:
    """Return the SNR in the bad and in the good state."""
    channel = find_random_channel(case, Channel)
    assert channel is not None
    path_db = budget_db(case)
    return path_db + channel.bad_gain, path_db + channel.good_gain


def _describe_states(case: TheoryCase) -> str:
    bad_db, good_db = _state_snrs_db(case)
    return f"an SNR between {bad_db:.1f} and {good_db:.1f} dB"


def _tells_states(case: TheoryCase, snr_db: float | None) -> bool:
    """Return whether *snr_db* lies between the SNRs of the two states."""
    bad_db, good_db = _state_snrs_db(case)
    return snr_db is not None and bad_db < snr_db <= good_db


def _leave_at_tower(case: TheoryCase) -> bool:
    return all(traffic.buffer is None and traffic.destination == "tower" for traffic in case.network.traffic)


def _are_attempted_once(case: TheoryCase) -> bool:
    mac = case.network.mac
    return not case.network.traffic or (isinstance(mac, Tdma) and mac.max_attempts == 1)


def _are_lost_in_bad_state(case: TheoryCase) -> bool:
    return not case.network.traffic or _tells_states(case, find_threshold(case))


def _samples_states(case: TheoryCase) -> bool:
    return case.network.probe is None or _tells_states(case, case.network.probe.level)


_CHANNEL = Condition("channel", "one gilbert_elliott channel on a fixed path loss, and a radio", _has_channel)


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

    conditions = (
        *EQUAL_LINKS,
        *ONE_CELL,
        _CHANNEL,
        Condition("traffic", "packets with unlimited waiting that leave at the tower", _leave_at_tower),
        Condition("mac", "tdma with max_attempts: 1", _are_attempted_once),
        Condition(
            "reception",
            lambda case: f"all-or-nothing receptions from {_describe_states(case)} on",
            _are_lost_in_bad_state,
            find_threshold,
            given=(_CHANNEL,),
        ),
        Condition(
            "probe",
            lambda case: f"a level with {_describe_states(case)}",
            _samples_states,
            lambda case: None if case.network.probe is None else case.network.probe.level,
            given=(_CHANNEL,),
        ),
    )

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        channel = find_random_channel(case, Channel)
        probe = case.network.probe
        assert channel is not None
        bad = channel.bad / (channel.good + channel.bad)  # π
        pace_hz = 1.0 / channel.good + 1.0 / channel.bad
        metrics = {}
        if case.network.traffic:
            metrics = {"loss_ratio_theory": bad, "fade_probability_theory": bad}
        if probe is not None:
            change = -math.expm1(-probe.every * pace_hz)  # 1 - e
            metrics["level_crossing_rate_theory_hz"] = bad * (1.0 - bad) * change / probe.every
            metrics["fade_duration_theory_s"] = probe.every / ((1.0 - bad) * change)
            if probe.lag is not None:
                metrics["autocorrelation_theory"] = math.exp(-probe.lag * pace_hz)
        return metrics
