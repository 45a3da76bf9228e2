"""Acoustic link under water: SNR and delay of a packet."""

from __future__ import annotations

import math
from collections.abc import Mapping

from netfl.network.channel.underwater import Underwater
from netfl.network.mac.pure_aloha import PureAloha
from netfl.network.theory import Condition, Theory, TheoryCase
from netfl.network.theory._links import EQUAL_LINKS, ONE_CELL
from netfl.network.traffic.constant import Constant


def _channel(case: TheoryCase) -> Underwater:
    (channel,) = case.network.channel
    assert isinstance(channel, Underwater)
    return channel


def _bandwidth_hz(case: TheoryCase) -> float:
    assert case.network.radio is not None
    return case.network.radio.bandwidth_bounds_hz[1]


def _has_channel(case: TheoryCase) -> bool:
    channels = case.network.channel
    return len(channels) == 1 and isinstance(channels[0], Underwater) and case.network.radio is not None


def _is_narrow(case: TheoryCase) -> bool:
    return _bandwidth_hz(case) <= _channel(case).frequency / 4.0


def _is_constant(case: TheoryCase) -> bool:
    traffic = case.network.traffic
    if not traffic:
        return True  # only the SNR is compared
    return len(traffic) == 1 and isinstance(traffic[0], Constant) and traffic[0].size.distribution == "fixed"


def _sends_at_once(case: TheoryCase) -> bool:
    traffic = case.network.traffic
    if not traffic:
        return True
    return isinstance(case.network.mac, PureAloha) and case.layout.users == 1 and traffic[0].destination == "tower"


def _do_not_wait(case: TheoryCase) -> bool:
    return all(isinstance(traffic, Constant) and _delay_s(case) < traffic.every for traffic in case.network.traffic)


_CHANNEL = Condition("channel", "one underwater channel alone, and a radio", _has_channel)
_BAND = Condition(
    "radio.bandwidth",
    "bands of at most a quarter of their frequency",
    _is_narrow,
    _bandwidth_hz,
    given=(_CHANNEL,),
)
_TRAFFIC = Condition("traffic", "one kind of traffic, constant, all packets of one size", _is_constant)
_SENDER = Condition(
    "mac", "one user that sends immediately (pure_aloha), to the tower", _sends_at_once, given=(_TRAFFIC,)
)
_NO_WAIT = Condition(
    "traffic",
    lambda case: f"packets that do not wait for each other, every {_delay_s(case):.3g} s at least",
    _do_not_wait,
    given=(_CHANNEL, _SENDER),
)


class UnderwaterLink(Theory):
    """The sonar equation SNR = SL - TL - (NL + 10 log10 B) and the delay l / c + bits / rate of one sender.

    SL = 170.8 + 10 log10(P / 1 W) dB re 1 µPa at 1 m is the source level, TL = 10 k log10 l + α l / 1000 the loss over
    l metres with Thorp's α(f), NL the spectral density of the sea's noise (turbulence, ships, wind, heat) at the centre
    of the band, taken as constant over it, for bands narrow against f.  R. J. Urick, "Principles of Underwater Sound",
    3rd ed., 1983, §2; M. Stojanovic, ACM MC2R 11, 2007, p. 34.

    For packets at a constant interval of one user, which sends each at once, so that none waits.

    Example::

        kind: underwater_link
    """

    conditions = (*EQUAL_LINKS, *ONE_CELL, _CHANNEL, _BAND, _TRAFFIC, _SENDER, _NO_WAIT)

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        channel = _channel(case)
        radio = case.network.radio
        assert radio is not None
        khz = channel.frequency / 1e3
        length_m = _length_m(case)
        radios = radio.open(case.layout.users, case.layout.towers, None, case.streams)
        power_dbm = float(radios.power_dbm[0] + radios.gain_db[0] + radios.tower_gain_db[0])
        source_db = 170.8 + (power_dbm - 30.0)  # SL
        loss_db = 10.0 * channel.spreading * math.log10(length_m) + _thorp_db_km(khz) * length_m / 1e3  # TL
        noise_db = _wenz_db(khz, channel.shipping, channel.wind) + 10.0 * math.log10(_bandwidth_hz(case))
        metrics = {"snr_theory_db": source_db - loss_db - noise_db}
        if case.network.traffic and case.network.reception is not None:
            metrics["delay_theory_s"] = _delay_s(case)
        return metrics


def _length_m(case: TheoryCase) -> float:
    """Return the length l of the path."""
    return math.hypot(float(case.layout.distance_m[0]), _channel(case).depth)


def _delay_s(case: TheoryCase) -> float:
    """Return the delay l / c + bits / rate of a packet."""
    assert case.network.reception is not None
    airtime_s = case.network.traffic[0].size.mean / case.network.reception.rate_bps(_bandwidth_hz(case))
    return _length_m(case) / _channel(case).sound_speed + airtime_s


def _thorp_db_km(khz: float) -> float:
    f2 = khz**2
    return 0.11 * f2 / (1.0 + f2) + 44.0 * f2 / (4100.0 + f2) + 2.75e-4 * f2 + 0.003


def _wenz_db(khz: float, shipping: float, wind_m_s: float) -> float:
    """Return the noise in dB re 1 µPa²/Hz."""
    turbulence = 17.0 - 30.0 * math.log10(khz)
    ships = 40.0 + 20.0 * (shipping - 0.5) + 26.0 * math.log10(khz) - 60.0 * math.log10(khz + 0.03)
    waves = 50.0 + 7.5 * math.sqrt(wind_m_s) + 20.0 * math.log10(khz) - 40.0 * math.log10(khz + 0.4)
    heat = -15.0 + 20.0 * math.log10(khz)
    return 10.0 * math.log10(sum(10.0 ** (part / 10.0) for part in (turbulence, ships, waves, heat)))
