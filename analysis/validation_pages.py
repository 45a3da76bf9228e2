"""Plots of docs/validation.md: the panels of each scenario of scenarios/validation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
Line = Callable[[Mapping[str, Any]], float]


@dataclass(frozen=True)
class Panel:
    """One panel of a plot: a metric over one key of a scenario.

    Args:
        over: the key that varies, or a function that returns the keys that a value sets.
        values: its values.
        metric: the name of the metric in the summary.
        theory: the name of its theory in the summary, or a function that computes it from the changes.
        x: label of the x axis.
        y: label of the y axis.
        curves: further keys that are set, by the label of the curve.
        scale: factors of the x axis and of the y axis.
        log: the axes with logarithmic scales.
        others: further lines, by label: wrong or approximate theories.
        categorical: whether the values are names.
        replicas: independent runs for each value.
        own_seeds: whether each value has its own seed.
        fine: theory is also drawn between the values, at multiples of this; 0 for any value, ``None`` for none, where
            it takes long or has no values between.
    """

    over: str | Callable[[Any], Mapping[str, Any]]
    values: Sequence[Any]
    metric: str
    theory: str | Line
    x: str
    y: str
    curves: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})
    scale: tuple[float, float] = (1.0, 1.0)
    log: str = ""
    others: Mapping[str, str | Line] = field(default_factory=dict)
    categorical: bool = False
    fine: float | None = 0.0
    replicas: int = 4
    own_seeds: bool = False


def support(module: str) -> Any:
    """Return a reference of the tests."""
    sys.path.insert(0, str(ROOT / "tests"))
    return import_module(f"support.{module}")


def dcf_times(changes: Mapping[str, Any]) -> Any:
    """Return the DCF reference of the tests, the standard and the number of stations."""
    return support("dcf_reference"), changes["access.mac.standard"], int(changes["users"])


def dcf(which: int) -> Line:
    """Return the throughput (0) or collisions (1) of the slot-exact reference over 400 s, as a function of changes."""

    def line(changes: Mapping[str, Any]) -> float:
        reference, standard, users = dcf_times(changes)
        return float(reference.simulate(standard, users, 400.0, 2026, edition=2016)[which])

    return line


def bianchi(which: int) -> Line:
    """Return the same by Bianchi's fixed point, in which all stations count busy slots (IEEE J-SAC 18(3), 2000)."""

    def line(changes: Mapping[str, Any]) -> float:
        reference, standard, users = dcf_times(changes)
        times = reference.SETUPS[standard]
        window, stages = times.least + 1, round(np.log2((times.most + 1) / (times.least + 1)))
        low, high = 0.0, 1.0
        for _ in range(60):
            p = (low + high) / 2.0
            growth = sum((2.0 * p) ** i for i in range(stages))
            tau = 2.0 / (window + 1.0 + p * window * growth)
            low, high = (p, high) if 1.0 - (1.0 - tau) ** (users - 1) > p else (low, p)
        busy, good = 1.0 - (1.0 - tau) ** users, users * tau * (1.0 - tau) ** (users - 1)
        success_us = times.data + times.sifs + times.ack + times.difs
        mean_us = (1 - busy) * times.slot + good * success_us + (busy - good) * (times.data + times.bystanders)
        return (good * 12_000 / mean_us * 1e6, float(round(p, 9)))[which]

    return line


STANDARDS = {standard: {"access.mac.standard": standard, "duration": 100.0} for standard in ("802.11a", "802.11b")}
STATIONS = (1, 2, 3, 5, 10, 20, 30, 50)
LOADS = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9)
UP, DOWN = "access.outages.0.up", "access.outages.0.down"
DISTRIBUTIONS: Mapping[str, Mapping[str, Any]] = {
    "exponential": {"distribution": "exponential"},
    "fixed": {"distribution": "fixed"},
    "Weibull 0.7": {"distribution": "weibull", "shape": 0.7},
    "gamma 3": {"distribution": "gamma", "shape": 3},
    "lognormal": {"distribution": "lognormal", "sigma": 1.0},
    "Pareto 2.5": {"distribution": "pareto", "shape": 2.5},
    "uniform": {"distribution": "uniform", "width": 0.5},
    "hyperexp.": {"distribution": "hyperexponential", "cv": 2.0},
}


def times_up_and_down(name: str) -> Mapping[str, Any]:
    """Return the keys of outages with one of `DISTRIBUTIONS`."""
    distribution = DISTRIBUTIONS[name]
    return {UP: {**distribution, "mean": 3000.0}, DOWN: {**distribution, "mean": 600.0}, "duration": 2.6e5}


DIVISIONS = {
    "equal, users": {"access.mac": {"kind": "fdma", "among": "users"}},
    "equal, backlog": {"access.mac.division": "equal"},
    "need": {"access.mac.division": "need"},
    "water-filling": {"access.mac.division": "water_filling"},
}
PATH_LOSS = {"kind": "log_distance", "exponent": 3.5, "reference_distance": 250.0, "reference_loss": "108 dB"}
WATERFALLS: Mapping[str, Mapping[str, Any]] = {
    "a band of their own": {"access.shared_air": False},
    "shared air": {},
    "shared air, fading within frames": {"access.channel": [PATH_LOSS], "access.reception.fading": "rayleigh"},
}


def mean_snr(snr_db: float) -> Mapping[str, Any]:
    """Return the power of a scenario in which it equals the mean SNR."""
    return {"access.radio.power": f"{snr_db:g} dBm"}


PARITIES: Mapping[str, Mapping[str, Any]] = {
    "(4, 4), no parity": {"access.transport.fec": None},
    **{f"({total}, 4)": {"access.transport.fec.total": total} for total in (5, 6, 8)},
}


def packet_loss(share: float) -> Mapping[str, Any]:
    """Return the threshold of the waterfall bound at which this share of the packets is lost at an SNR of 0 dB."""
    return {"access.reception.threshold": f"{10.0 * np.log10(-np.log1p(-share)):.12g} dB"}


def parity(function: str) -> Line:
    """Return a function of the reference of updates with two blocks, as a function of changes."""

    def line(changes: Mapping[str, Any]) -> float:
        threshold_db = float(changes["access.reception.threshold"].removesuffix(" dB"))
        loss = -np.expm1(-(10.0 ** (threshold_db / 10.0)))
        total = changes.get("access.transport.fec.total", 4)
        return float(getattr(support("parity_reference"), function)(4, total, 2, loss))

    return line


STREET_MAP, DRIVE = ROOT / "scenarios/files/street_map.csv", ROOT / "scenarios/files/drive.csv"


def place_in_street(x_m: float) -> Mapping[str, Any]:
    """Return the place of the user, 7 m beside the middle of a street."""
    return {"access.topology.placement": {"kind": "listed", "positions": [[x_m, 7.0]]}}


def map_snr_db(changes: Mapping[str, Any]) -> float:
    """Return the SNR of the user by SciPy; that of 20 dBm at a gain of 0 dB is 128 dB."""
    method = {"bilinear": "linear", "nearest": "nearest"}[changes["access.channel.0.interpolation"]]
    (place_m,) = changes["access.topology.placement"]["positions"]
    return 128.0 + float(support("measured_reference").map_gain_db(STREET_MAP, place_m, method))


def trace_average(which: int) -> Line:
    """Return the mean SNR as a ratio (0) or the share of frames that fade (1) over the trace; 0 dBm is 108 dB."""

    def line(changes: Mapping[str, Any]) -> float:
        power = changes.get("access.radio.power", "10 dBm")
        base_db = 108.0 + float(power.removesuffix(" dBm"))
        interpolation = changes["access.channel.0.interpolation"]
        averages = support("measured_reference").trace_averages(DRIVE, interpolation, base_db, 10.0)
        return float(averages[which])

    return line


def interpolation_of_trace(name: str) -> Mapping[str, Any]:
    """Return the key of an interpolation, at the power of the scenario."""
    return {"access.channel.0.interpolation": name}


INTERPOLATIONS = {name: interpolation_of_trace(name) for name in ("linear", "previous", "nearest")}


def probe_level(level_db: float) -> Mapping[str, Any]:
    """Return the level of a probe."""
    return {"access.probe.level": f"{level_db:g} dB"}


DELAY, LOAD = "mean delay, ms", "load ρ"

PAGES: Mapping[str, Sequence[Panel]] = {
    "mm1": [
        Panel("access.traffic.load", LOADS, "delay_mean_s", "delay_theory_s", LOAD, DELAY, scale=(1, 1e3),
              replicas=16, own_seeds=True),
        Panel("access.traffic.load", LOADS, "delay_p99_s", "delay_p99_theory_s", LOAD,
              "99 % of delays, ms", scale=(1, 1e3), replicas=16, own_seeds=True),
    ],
    "md1": [Panel("access.traffic.load", LOADS, "delay_mean_s", "delay_theory_s", LOAD, DELAY, scale=(1, 1e3),
                  replicas=16, own_seeds=True)],
    "mm1k": [
        Panel("access.traffic.load", (0.3, 0.5, 0.7, 0.9, 1.0, 1.2, 1.5, 2.0), metric, theory, LOAD, label,
              curves={f"K = {room + 1}": {"access.queue.capacity": room, "duration": 60.0} for room in (1, 4, 9)},
              scale=(1, scale))
        for metric, theory, label, scale in (
            ("loss_ratio", "loss_ratio_theory", "share turned away", 1), ("delay_mean_s", "delay_theory_s", DELAY, 1e3))
    ],
    "tandem": [
        Panel("access.traffic.load", (0.1, 0.3, 0.5, 0.7, 0.8, 0.9), "delay_mean_s", "delay_theory_s", LOAD, DELAY,
              scale=(1, 1e3), others={"if hops were independent": "delay_independent_s"}, fine=0.05, replicas=8),
    ],
    "finite_tandem": [
        Panel("access.queue.capacity", (1, 2, 4, 9, 14, 19), metric, theory, "packets that may wait at a port", label,
              curves={f"load {load:g}": {"access.traffic.load": load, "duration": 60.0} for load in (0.6, 0.9, 1.2)},
              scale=(1, scale), fine=None)
        for metric, theory, label, scale in (
            ("loss_ratio", "loss_ratio_theory", "share lost", 1), ("delay_mean_s", "delay_theory_s", DELAY, 1e3))
    ],
    "slotted_aloha": [
        Panel("access.mac.probability", (0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4), metric, theory, "p", label,
              curves={f"{n} users": {"users": n, "duration": 10.0} for n in (5, 10, 20)}, scale=(1, scale))
        for metric, theory, label, scale in (
            ("throughput_bps", "throughput_theory_bps", "packets per slot", 1e-6),
            ("collision_probability", "collision_probability_theory", "collisions per attempt", 1))
    ],
    "multichannel_aloha": [
        Panel("access.mac.probability", (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0), metric, theory, "p", label,
              curves={f"{m} channel{'s' * (m > 1)}": {"access.mac.channels": m, "duration": 3.0} for m in (1, 4, 8)},
              scale=(1, scale))
        for metric, theory, label, scale in (
            ("throughput_bps", "throughput_theory_bps", "packets per slot", 1e-6),
            ("collision_probability", "collision_probability_theory", "collisions per attempt", 1))
    ],
    "dcf": [
        Panel("users", STATIONS, "throughput_bps", dcf(0), "stations", "throughput, Mb/s", STANDARDS, (1, 1e-6),
              log="x", others={"Bianchi": bianchi(0)}, fine=None),
        Panel("users", STATIONS, "collision_probability", dcf(1), "stations", "collisions per attempt", STANDARDS,
              log="x", others={"Bianchi": bianchi(1)}, fine=None),
    ],
    "nakagami_fading": [
        Panel("access.topology.distance", (60.0, 80.0, 100.0, 120.0, 150.0, 200.0), "fade_probability",
              "fade_probability_theory", "distance, m", "fade probability",
              {f"m = {m:g}": {"access.channel.1.m": m, "duration": 8.0} for m in (0.5, 1, 1.5, 3)}, log="xy"),
    ],
    "waterfall": [
        Panel(mean_snr, (-5.0, 0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0), "loss_ratio",
              "loss_ratio_theory", "mean SNR, dB", "share of frames lost",
              {curve: {**keys, "duration": 5.0} for curve, keys in WATERFALLS.items()}, log="y")
    ],
    "parity": [
        Panel(packet_loss, (0.05, 0.1, 0.2, 0.3), metric, parity(reference), "packet loss p", label,
              {curve: {**keys, "access.transport.loss": loss, "rounds": 6} for curve, keys in PARITIES.items()},
              log=log)
        for loss, metric, reference, label, log in (
            ("drop", "share.delivered", "whole_share", "share of updates delivered", ""),
            ("erase", "parts_lost_share", "parts_lost", "share of parts lost, loss: erase", "y"))
    ],
    "radio_map": [
        Panel(place_in_street, tuple(np.arange(-119.0, 120.0, 16.0).tolist()), "snr_mean_db", map_snr_db, "x, m",
              "SNR, dB", {name: {"access.channel.0.interpolation": name} for name in ("bilinear", "nearest")},
              replicas=2),
    ],
    "trace": [
        Panel(mean_snr, (0.0, 5.0, 10.0, 15.0, 20.0, 30.0), "fade_probability", trace_average(1), "power, dBm",
              "fade probability", INTERPOLATIONS),
        Panel(interpolation_of_trace, tuple(INTERPOLATIONS), "power_mean", trace_average(0), "interpolation",
              "mean SNR, ratio", categorical=True, replicas=16),
    ],
    "jakes": [
        Panel("access.probe.lag", tuple(0.004 * k for k in range(1, 25, 2)), "autocorrelation",
              "autocorrelation_theory", "lag, ms", "autocorrelation of the power", scale=(1e3, 1), fine=0.0005),
        Panel(probe_level, (5.0, 8.0, 11.0, 14.0, 17.0, 20.0, 23.0), "level_crossing_rate_hz",
              "level_crossing_rate_theory_hz", "level, dB (the mean is 20)", "falls below it per second"),
        Panel(probe_level, (5.0, 8.0, 11.0, 14.0, 17.0, 20.0, 23.0), "fade_duration_s",
              "fade_duration_theory_s", "level, dB (the mean is 20)", "mean fade, ms", scale=(1, 1e3), log="y"),
    ],
    "gilbert_elliott": [
        Panel("access.channel.1.bad", (0.002, 0.005, 0.01, 0.02, 0.05), metric, theory, "mean time bad, ms", label,
              {"": {"duration": 40.0}}, (1e3, scale), log="x")
        for metric, theory, label, scale in (
            ("loss_ratio", "loss_ratio_theory", "share of packets lost", 1),
            ("fade_duration_s", "fade_duration_theory_s", "mean bad stretch seen, ms", 1e3),
            ("autocorrelation", "autocorrelation_theory", "autocorrelation over 5 ms", 1))
    ],
    "availability": [
        Panel(times_up_and_down, tuple(DISTRIBUTIONS), metric, theory, "", label, scale=(1, scale), categorical=True)
        for metric, theory, label, scale in (
            ("availability", "availability_theory", "availability", 1),
            ("up_mean_s", "up_mean_theory_s", "mean time up, min", 1 / 60))
    ],
    "underwater_link": [
        Panel("access.topology.distance", (100.0, 300.0, 600.0, 1000.0, 1500.0, 2000.0, 2400.0), metric, theory,
              "distance, m", label)
        for metric, theory, label in (
            ("snr_mean_db", "snr_theory_db", "SNR, dB"), ("delay_mean_s", "delay_theory_s", "mean delay, s"))
    ],
    "divided_band": [
        Panel("access.radio.bandwidth", (0.25e6, 0.5e6, 1e6, 2e6, 4e6, 8e6), "throughput_bps",
              "throughput_theory_bps", "band, MHz", "throughput, Mb/s", DIVISIONS, (1e-6, 1e-6), log="xy", replicas=2),
    ],
}  # fmt: skip
