"""Sound under water: spreading, absorption, the noise of the sea, and its slowness."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.errors import Fault, ScenarioError
from netfl.network.channel import Channel, Gain
from netfl.network.channel._distance import by_distance
from netfl.network.channel._sea import LEAST_HZ, absorption_db_km, noise_db
from netfl.network.sites import Sites
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Hertz, Metres, Unit

SOURCE_DB = 170.8 - 30.0
"""Source level, in dB re 1 µPa at 1 m, of 1 mW of sound in all directions: ρc P / 4π with ρc = 1.5 MPa s/m."""


class Underwater(Channel):
    """An acoustic link under water, f in kHz: loss 10 k log10(l / 1 m) + α(f) l / 1 km in dB over the slant length l.

    l = √(d² + depth²), 1 m at least; the spreading factor k is 1 in a shallow duct (cylindrical), 2 in the deep
    (spherical), 1.5 in practice.  Thorp's absorption α = 0.11 f²/(1 + f²) + 44 f²/(4100 + f²) + 2.75e-4 f² + 0.003 in
    dB/km, valid from 0.4 to 50 kHz near 4 °C, is taken at the centre of the band: bands narrow against f.

    Noise in dB re 1 µPa²/Hz, after Wenz in Coates' form: turbulence 17 - 30 log10 f, shipping
    40 + 20 (s - 0.5) + 26 log10 f - 60 log10(f + 0.03), wind 50 + 7.5 √w + 20 log10 f - 40 log10(f + 0.4), thermal
    -15 + 20 log10 f.  Their sum over the radio's band, which must lie above 1 Hz, takes the place of the radio's
    thermal noise and noise figure.  Signals travel at 1500 m/s.

    Power: ``radio.power`` is that of the sound sent in all directions (electrical power times the efficiency; a
    directivity adds to it in dB).  Its source level is SL = 170.8 + 10 log10(P / 1 W) dB re 1 µPa at 1 m: 140.8 plus
    the figure in dBm.  The noise level NL is told at the same reference, as NL - 140.8 dBm, so that the SNR is
    SL - loss - NL.

    M. Stojanovic, "On the relationship between capacity and distance in an underwater acoustic communication
    channel", ACM MC2R 11 (2007), p. 34; W. H. Thorp, J. Acoust. Soc. Am. 42 (1967), p. 270; G. M. Wenz, ibid. 34
    (1962), p. 1936; R. Coates, "Underwater Acoustic Systems" (1989).

    Example::

        kind: underwater
        frequency: 20 kHz
        depth: 100 m
    """

    frequency: Annotated[Hertz, Field(ge=400.0, le=50e3)]
    """f, the centre of the band: 400 Hz to 50 kHz."""
    spreading: Annotated[float, Field(ge=1, le=2)] = 1.5
    """k, from 1 (cylindrical) to 2 (spherical)."""
    depth: Annotated[Metres, Field(ge=0)] = 0.0
    """How much deeper users are than towers, or the other way round."""
    shipping: Annotated[float, Field(ge=0, le=1)] = 0.5
    """s, the activity of ships from 0 (low) to 1 (high)."""
    wind: Annotated[float, Unit("m/s"), Field(ge=0, le=100)] = 0.0
    """w, the speed of the wind."""
    sound_speed: Annotated[float, Unit("m/s"), Field(ge=1400, le=1700)] = 1500.0
    """How fast sound is: 1400 to 1700 m/s, by temperature, salinity and depth."""

    @property
    def speed_m_s(self) -> float:
        """That of sound."""
        return self.sound_speed

    def delay_s(self, distance_m: NDArray[np.float64]) -> NDArray[np.float64]:
        """Over the slant."""
        return np.asarray(np.hypot(distance_m, self.depth) / self.sound_speed)

    def noise_dbm(self, bandwidth_hz: float) -> float:
        """The sea's noise, as the power of sound at 1 m that is as loud.

        Raises:
            netfl.errors.ScenarioError: the band reaches below 1 Hz.
        """
        if self.frequency - bandwidth_hz / 2.0 < LEAST_HZ:
            problem = f"a band of {bandwidth_hz:g} Hz around it reaches below {LEAST_HZ:g} Hz"
            raise ScenarioError([Fault("frequency", problem, self.frequency, "narrow radio.bandwidth")])
        return noise_db(self.frequency, bandwidth_hz, self.shipping, self.wind) - SOURCE_DB

    def open(self, sites: Sites, streams: Streams) -> Gain:
        """The losses of all links."""
        absorption_db_m = absorption_db_km(self.frequency) / 1000.0

        def loss_db(distance_m: NDArray[np.float64]) -> NDArray[np.float64]:
            length_m = np.maximum(np.hypot(distance_m, self.depth), 1.0)
            return np.asarray(10.0 * self.spreading * np.log10(length_m) + absorption_db_m * length_m)

        return by_distance(sites, loss_db)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("nothing is drawn: loss, delay and noise follow from distance, band and weather"),)
