"""Acoustic link under water: SNR and delay of a packet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from netfl.errors import Fault
from netfl.network.channel.underwater import Underwater
from netfl.network.mac.pure_aloha import PureAloha
from netfl.network.theory import Theory, TheoryCase, misfit_fault
from netfl.network.theory._links import budget_misfits, cell_misfits
from netfl.network.traffic.constant import Constant


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

    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        network = case.network
        yield from budget_misfits(case)
        yield from cell_misfits(case)
        if len(network.channel) != 1 or not isinstance(network.channel[0], Underwater) or network.radio is None:
            yield misfit_fault("channel", "one underwater channel alone, and a radio")
            return
        bandwidth = network.radio.bandwidth
        if bandwidth > network.channel[0].frequency / 4.0:
            yield misfit_fault("radio.bandwidth", "bands of at most a quarter of their frequency", bandwidth)
        if not network.traffic:
            return
        traffic = network.traffic[0]
        if len(network.traffic) != 1 or not isinstance(traffic, Constant) or traffic.size.distribution != "fixed":
            yield misfit_fault("traffic", "one kind of traffic, constant, all packets of one size")
        elif not isinstance(network.mac, PureAloha) or case.layout.users != 1 or traffic.destination != "tower":
            yield misfit_fault("mac", "one user that sends immediately (pure_aloha), to the tower")
        elif (busy_s := self.predict(case)["delay_theory_s"]) >= traffic.every:
            yield misfit_fault("traffic", f"packets that do not wait for each other, every {busy_s:.3g} s at least")

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        (channel,), radio, reception = case.network.channel, case.network.radio, case.network.reception
        assert isinstance(channel, Underwater)
        assert radio is not None
        length_m, khz = math.hypot(float(case.layout.distance_m[0]), channel.depth), channel.frequency / 1e3
        source_db = 170.8 + (radio.power - 30.0)
        loss_db = 10.0 * channel.spreading * math.log10(length_m) + _thorp_db_km(khz) * length_m / 1e3
        noise_db = _wenz_db(khz, channel.shipping, channel.wind) + 10.0 * math.log10(radio.bandwidth)
        metrics = {"snr_theory_db": source_db - loss_db - noise_db}
        if case.network.traffic and reception is not None:
            airtime_s = case.network.traffic[0].size.mean / reception.rate_bps(radio.bandwidth)
            metrics["delay_theory_s"] = length_m / channel.sound_speed + airtime_s
        return metrics


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
