"""One acoustic link under water: how loud and how late a packet arrives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from netfl.errors import Fault
from netfl.network.channel.underwater import Underwater
from netfl.network.mac.pure_aloha import PureAloha
from netfl.network.theory import Theory, TheoryCase, misfit_fault
from netfl.network.theory._air import alone_misfits, budget_misfits
from netfl.network.traffic.constant import Constant


class UnderwaterLink(Theory):
    """The sonar equation SNR = SL - TL - (NL + 10 log10 B) and the delay l / c + bits / rate of one sender.

    SL = 170.8 + 10 log10(P / 1 W) dB re 1 µPa at 1 m is the source level, TL = 10 k log10 l + α l / 1000 the loss over
    l metres with Thorp's α(f), NL the spectral density of the sea's noise (turbulence, ships, wind, heat) at the centre
    of the band, taken as flat over it: for bands narrow against f.  R. J. Urick, "Principles of Underwater Sound",
    3rd ed., 1983, §2; M. Stojanovic, ACM MC2R 11, 2007, p. 34.

    Packets that come at even distances to one user, who sends each at once, so that none waits.

    Example::

        kind: underwater_link
    """

    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        """Another medium, several users, packets that wait."""
        said = case.said
        yield from budget_misfits(case)
        yield from alone_misfits(case)
        if len(said.channel) != 1 or not isinstance(said.channel[0], Underwater) or said.radio is None:
            yield misfit_fault("channel", "one underwater channel alone, and a radio")
            return
        if said.radio.bandwidth > said.channel[0].frequency / 4.0:
            yield misfit_fault(
                "radio.bandwidth", "bands narrow against their frequency, a quarter at most", said.radio.bandwidth
            )
        if not said.traffic:
            return
        traffic = said.traffic[0]
        if len(said.traffic) != 1 or not isinstance(traffic, Constant) or traffic.size.law != "fixed":
            yield misfit_fault("traffic", "one kind of traffic, constant, all packets of one size")
        elif not isinstance(said.mac, PureAloha) or case.sites.users != 1 or traffic.leaves != "tower":
            yield misfit_fault("mac", "one user who sends at once (pure_aloha), to the tower")
        elif (busy_s := self.figures(case)["delay_theory_s"]) >= traffic.every:
            yield misfit_fault("traffic", f"packets that do not wait for each other, every {busy_s:.3g} s at least")

    def figures(self, case: TheoryCase) -> Mapping[str, float]:
        """The SNR, and the delay where there is traffic."""
        (channel,), radio, reception = case.said.channel, case.said.radio, case.said.reception
        assert isinstance(channel, Underwater)
        assert radio is not None
        length_m, khz = math.hypot(float(case.sites.distance_m[0]), channel.depth), channel.frequency / 1e3
        source_db = 170.8 + (radio.power - 30.0)
        loss_db = 10.0 * channel.spreading * math.log10(length_m) + _thorp_db_km(khz) * length_m / 1e3
        noise_db = _wenz_db(khz, channel.shipping, channel.wind) + 10.0 * math.log10(radio.bandwidth)
        told = {"snr_theory_db": source_db - loss_db - noise_db}
        if case.said.traffic and reception is not None:
            airtime_s = case.said.traffic[0].size.mean / reception.rate_bps(radio.bandwidth)
            told["delay_theory_s"] = length_m / channel.sound_speed + airtime_s
        return told


def _thorp_db_km(khz: float) -> float:
    """Thorp's absorption."""
    f2 = khz**2
    return 0.11 * f2 / (1.0 + f2) + 44.0 * f2 / (4100.0 + f2) + 2.75e-4 * f2 + 0.003


def _wenz_db(khz: float, shipping: float, wind_m_s: float) -> float:
    """Noise in dB re 1 µPa²/Hz."""
    turbulence = 17.0 - 30.0 * math.log10(khz)
    ships = 40.0 + 20.0 * (shipping - 0.5) + 26.0 * math.log10(khz) - 60.0 * math.log10(khz + 0.03)
    waves = 50.0 + 7.5 * math.sqrt(wind_m_s) + 20.0 * math.log10(khz) - 40.0 * math.log10(khz + 0.4)
    heat = -15.0 + 20.0 * math.log10(khz)
    return 10.0 * math.log10(sum(10.0 ** (part / 10.0) for part in (turbulence, ships, waves, heat)))
