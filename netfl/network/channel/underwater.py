"""Acoustic links under water: spreading, absorption, delay and the noise of the sea."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.errors import Fault, ScenarioError
from netfl.network.channel import LinkGain, NearLimit, distance_gain
from netfl.network.channel._path_loss import PathLoss
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Hertz, Metres, Unit

_MIN_HZ = 1.0
"""Lowest frequency of Wenz' curves."""
_MIN_M = 1.0
"""Least slant length, at which source levels are stated."""
_STEPS = 2000
"""Logarithmic steps of the integral of the noise over a band."""
_SOURCE_DB = 170.8 - 30.0
"""Source level, in dB re 1 µPa at 1 m, of 1 mW of sound in all directions: ρc P / 4π with ρc = 1.5 MPa s/m."""


class Underwater(PathLoss):
    """An acoustic link under water, f in kHz: loss 10 k log10(l / 1 m) + α(f) l / 1 km in dB over the slant length l.

    l = √(d² + depth²), 1 m at least; the spreading factor k is 1 in a shallow duct (cylindrical), 2 in the deep
    (spherical), 1.5 in practice.  Thorp's absorption α = 0.11 f²/(1 + f²) + 44 f²/(4100 + f²) + 2.75e-4 f² + 0.003 in
    dB/km, valid from 0.4 to 50 kHz near 4 °C, is taken at the centre of the band, for bands narrow against f.

    Noise in dB re 1 µPa²/Hz, after Wenz in Coates' form: turbulence 17 - 30 log10 f, shipping
    40 + 20 (s - 0.5) + 26 log10 f - 60 log10(f + 0.03), wind 50 + 7.5 √w + 20 log10 f - 40 log10(f + 0.4), thermal
    -15 + 20 log10 f.  Their sum over the radio's band, which must lie above 1 Hz, replaces the radio's thermal noise
    and noise figure.  Signals travel at 1500 m/s.

    Power: ``radio.power`` is the sound power sent in all directions (electrical power times the efficiency; a
    directivity adds to it in dB).  Its source level is SL = 170.8 + 10 log10(P / 1 W) dB re 1 µPa at 1 m: 140.8 plus
    the power in dBm.  The noise level NL has the same reference, NL - 140.8 dBm, so that the SNR is SL - loss - NL.

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
    """Difference in depth between users and towers."""
    shipping: Annotated[float, Field(ge=0, le=1)] = 0.5
    """s, the activity of ships from 0 (low) to 1 (high)."""
    wind: Annotated[float, Unit("m/s"), Field(ge=0, le=100)] = 0.0
    """w, the speed of the wind."""
    sound_speed: Annotated[float, Unit("m/s"), Field(ge=1400, le=1700)] = 1500.0
    """Speed of sound: 1400 to 1700 m/s, by temperature, salinity and depth."""

    @property
    def speed_m_s(self) -> float:
        return self.sound_speed

    def delay_s(self, distance_m: Floats) -> Floats:
        return np.asarray(np.hypot(distance_m, self.depth) / self.sound_speed)

    def noise_dbm(self, bandwidth_hz: float) -> float:
        low_hz = self.frequency - bandwidth_hz / 2.0
        high_hz = self.frequency + bandwidth_hz / 2.0
        if low_hz < _MIN_HZ:
            problem = f"a band of {bandwidth_hz:g} Hz around it reaches below {_MIN_HZ:g} Hz"
            raise ScenarioError([Fault("frequency", problem, self.frequency, "reduce radio.bandwidth")])
        band_hz = np.geomspace(low_hz, high_hz, _STEPS + 1)
        density = 10.0 ** (density_db(band_hz, self.shipping, self.wind) / 10.0)
        level_db = float(10.0 * math.log10(np.trapezoid(density, band_hz)))  # NL, the integral over the band
        return level_db - _SOURCE_DB

    @property
    def carrier_hz(self) -> float:
        return self.frequency

    @property
    def near_limit(self) -> NearLimit | None:
        if self.depth >= _MIN_M:
            return None
        return NearLimit(math.sqrt(_MIN_M**2 - self.depth**2))

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        absorption_db_m = absorption_db_km(self.frequency) / 1000.0

        def loss_db(distance_m: Floats) -> Floats:
            length_m = np.maximum(np.hypot(distance_m, self.depth), _MIN_M)
            return np.asarray(10.0 * self.spreading * np.log10(length_m) + absorption_db_m * length_m)

        return distance_gain(layout, loss_db)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("nothing is drawn: loss, delay and noise follow from distance, band and weather"),)


def absorption_db_km(frequency_hz: float) -> float:
    """Return Thorp's absorption in dB/km.

    >>> round(absorption_db_km(10e3), 3)
    1.187
    """
    f2 = (frequency_hz / 1000.0) ** 2  # f² in kHz²
    return 0.11 * f2 / (1.0 + f2) + 44.0 * f2 / (4100.0 + f2) + 2.75e-4 * f2 + 0.003


def density_db(frequency_hz: Floats, shipping: float, wind_m_s: float) -> Floats:
    """Return the spectral density of the noise in dB re 1 µPa²/Hz: turbulence, ships, wind and heat."""
    khz = frequency_hz / 1000.0
    log_f = np.log10(khz)
    turbulence_db = 17.0 - 30.0 * log_f
    shipping_db = 40.0 + 20.0 * (shipping - 0.5) + 26.0 * log_f - 60.0 * np.log10(khz + 0.03)
    wind_db = 50.0 + 7.5 * math.sqrt(wind_m_s) + 20.0 * log_f - 40.0 * np.log10(khz + 0.4)
    thermal_db = -15.0 + 20.0 * log_f
    total = sum(10.0 ** (part_db / 10.0) for part_db in (turbulence_db, shipping_db, wind_db, thermal_db))
    return np.asarray(10.0 * np.log10(total))
