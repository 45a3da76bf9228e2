"""Compare the models of the network with closed forms, and print both with the standard error.

    python benchmarks/theory.py

z is the difference in standard errors; |z| below about 3.5 is agreement for a table of this length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from netfl.network.channel.log_distance import LogDistance
from netfl.network.channel.lognormal_shadowing import LognormalShadowing
from netfl.network.channel.rayleigh import Rayleigh
from netfl.network.mac.slotted_aloha import SlottedAloha
from netfl.network.outage.renewal import Renewal
from netfl.network.radio.bench import BenchSetup, slot_successes
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.radios import Radio
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.topology.star import Star
from netfl.streams import Streams

STREAMS = Streams(2026)
DRAWS = 40_000


def aloha() -> Iterator[tuple[str, NDArray[np.float64], float]]:
    """Yield successes per slot of n saturated users: n p (1-p)^(n-1)."""
    for users, probability in ((2, 0.5), (10, 0.05), (10, 0.1), (10, 0.3), (50, 0.02), (50, 0.06)):
        mac = SlottedAloha(probability=probability)
        measured = slot_successes(BenchSetup(mac, users, 1.0, STREAMS.at("aloha", users, probability)), DRAWS)
        yield (
            f"slotted ALOHA, n = {users}, p = {probability}",
            measured,
            users * probability * (1 - probability) ** (users - 1),
        )


def availability() -> Iterator[tuple[str, NDArray[np.float64], float]]:
    """Yield the share of nodes that are up at an instant: E[up] / (E[up] + E[down])."""
    laws = {
        "exponential": {"distribution": "exponential"},
        "Weibull": {"distribution": "weibull", "shape": 0.7},
        "lognormal": {"distribution": "lognormal", "sigma": 0.8},
        "fixed": {"distribution": "fixed"},
    }
    sites = Star(radius=1.0).open(DRAWS, STREAMS)
    for (name, law), (up_s, down_s), instant_s in zip(
        laws.items(), ((100, 25), (40, 60), (300, 5), (25, 75)), (0.0, 77.0, 2000.0, 13.0), strict=True
    ):
        settings = {"nodes": "users", "up": law | {"mean": up_s}, "down": law | {"mean": down_s}}
        timeline = Renewal.model_validate(settings).open(sites, STREAMS.at("renewal", name))
        measured = timeline.up(np.arange(DRAWS), instant_s).astype(float)
        yield f"{name} outages, up {up_s} s, down {down_s} s, at {instant_s:g} s", measured, up_s / (up_s + down_s)


def rayleigh() -> Iterator[tuple[str, NDArray[np.float64], float]]:
    """Yield the fade probability of a Rayleigh link: 1 - exp(-threshold / mean SNR)."""
    radio = Radio(power=14.0, bandwidth=125e3, noise_figure=6.0)
    loss = LogDistance(exponent=3.5, frequency=868e6)
    for distance_m in (100.0, 200.0, 400.0, 800.0):
        for threshold_db in (-7.5, 0.0, 6.0):
            sites = Star(distance=distance_m).open(DRAWS, STREAMS)
            mean_db = float(LinkBudget(radio, (loss,), sites, STREAMS).snr_db(np.array([0]), 0.0)[0])
            air = LinkBudget(
                radio, (loss, Rayleigh(coherence=1.0)), sites, STREAMS.at("rayleigh", distance_m, threshold_db)
            )
            reception = SnrThreshold(threshold=threshold_db, rate=5e3)
            received = reception.is_received(air.snr_db(np.arange(DRAWS), 0.5), radio.bandwidth)
            expected = 1 - math.exp(-(10 ** ((threshold_db - mean_db) / 10)))
            yield f"Rayleigh fades at {distance_m:g} m, threshold {threshold_db:g} dB", 1.0 - received, expected


def shadowing() -> Iterator[tuple[str, NDArray[np.float64], float]]:
    """Yield moments of shadowing in dB: mean 0, variance σ²."""
    sites = Star(radius=1.0).open(DRAWS, STREAMS)
    for sigma_db in (4.0, 8.0):
        gain = LognormalShadowing(sigma=sigma_db).open(sites, STREAMS.at("shadowing", sigma_db))
        drawn_db = gain.gain_db(np.arange(DRAWS), 0.0)
        yield f"shadowing, σ = {sigma_db:g} dB: mean", drawn_db, 0.0
        yield f"shadowing, σ = {sigma_db:g} dB: variance", drawn_db**2, sigma_db**2


def main() -> None:
    """Print the table."""
    table = Table("model", "closed form", "measured", "standard error", "z")
    for rows in (aloha(), availability(), rayleigh(), shadowing()):
        for name, measured, expected in rows:
            error = float(measured.std() / math.sqrt(len(measured)))
            table.add_row(
                name,
                f"{expected:.5f}",
                f"{measured.mean():.5f}",
                f"{error:.5f}",
                f"{(measured.mean() - expected) / error:+.2f}",
            )
        table.add_section()
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
