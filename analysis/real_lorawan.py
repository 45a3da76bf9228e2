"""netfl's model of LoRaWAN beside two devices of Saint Eynard, outdoors and indoors, and one of Tour Perret.

    python analysis/real_lorawan.py fit DIR     choices and fits from the first half of each file, stored
    python analysis/real_lorawan.py judge DIR   the second halves of Saint Eynard by the stored fits, stored
    python analysis/real_lorawan.py page DIR    the plot of docs/measured_world.md, and its tables, from what is stored

DIR holds `saint_eynard_33.csv.gz`, `saint_eynard_32.csv.gz` and `tour_perret.csv.gz`: a row for each frame counter,
with RSSI and SNR at each gateway (empty: not received), derived from CampusIoT/datasets at 14a8a91e (ODbL-1.0).

**Models**, each chosen or fitted on the first half of the frames:

- *snr*: as in netfl, each link has a mean SNR and a normal scatter on each channel, both fixed, and the logistic curve
  of `reception: lora` decides.  Frames are independent given their channel, and so are gateways.
- *static*: the share of frames received by each gateway on each channel, without an SNR, and else the same.
- *drift*: the log-odds of *static*, and a random walk of each gateway, followed by an extended Kalman filter.  The
  variance of its steps is the one with the best one-step log score on the first half.
- *persistence*: the share of the last 500 frames that the gateway received, whatever their channels.

Device 33 hops by a fixed order of eight channels, so that the channel of a lost frame is that of the last one that was
received 8, 16, … frames before.  Those of device 32 are unknown, and its links have one channel each.

**Judged** frame by frame: the mean log score of one-step predictions, which use the past only.  By windows of 500
frames: how often the 95 % interval of the number received, predicted at the begin of the window, holds it.  Of the
whole second half: rate, P(received | last received), P(received | last lost), and the union of all gateways.  Frames
that no gateway received, three or more in a row, stand apart as outages, and are in no union.  The rates of both halves
are compared first, by z.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import optimize, special, stats

from netfl.network.reception.lora import MIN_SNR_DB, Lora
from netfl.plots import style

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
RESULTS = Path(__file__).parent / "results" / "measured"
FITS, SCORES, RATES = (RESULTS / f"real_lorawan_{part}" for part in ("fits.json", "scores.csv", "rates.csv"))
PERIOD = 8
WINDOW = 500
OUTAGE = 3
"""Frames in a row that no gateway received, from which on they are an outage."""
LEAST_RECEIVED = 20
"""Received frames of a (link, channel) from which on its SNR is fitted."""
SHIFTS_DB = np.arange(-8.0, 4.01, 0.5)
WIDTHS_DB = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
STEPS = (0.0, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Variances of a step of the walk of log-odds that are tried."""
SAMPLES = 1000
LOGIT_LIMITS = (1e-4, 1.0 - 1e-4)


@dataclass(frozen=True)
class Frames:
    """Frames of one device in the order of their counters.

    Args:
        received: ``[frames, gateways]``.
        snr_db: of the received ones, else NaN.
        channel: index of the channel by what earlier frames show, 0 without any, ``[frames]``.
    """

    received: Bools
    snr_db: Floats
    channel: NDArray[np.int64]

    def part(self, places: slice) -> Frames:
        """Return some of the frames."""
        return Frames(self.received[places], self.snr_db[places], self.channel[places])


def read(path: Path, *, has_order: bool) -> Frames:
    """Read one file; *has_order* for a device that hops by a fixed order, whose lost frames have known channels."""
    rows = pd.read_csv(path)
    snr_db = rows[[name for name in rows if name.startswith("snr_db_gw")]].to_numpy(float)
    channel = np.zeros(len(rows), int)
    if has_order:
        names = sorted(rows.frequency_mhz.dropna().unique())
        seen = rows.frequency_mhz.map({name: index for index, name in enumerate(names)}).to_numpy(float)
        last = [0] * PERIOD
        for place, now in enumerate(seen):
            channel[place] = last[place % PERIOD]
            if not np.isnan(now):
                last[place % PERIOD] = int(now)
    return Frames(~np.isnan(snr_db), snr_db, channel)


def halves(frames: Frames) -> tuple[Frames, Frames]:
    """Return the first and the second half."""
    middle = len(frames.received) // 2
    return frames.part(slice(0, middle)), frames.part(slice(middle, None))


# The edge of reception


def success(snr_db: Floats, shift_db: float, width_db: float, mode: int) -> Floats:
    """Return netfl's probability of reception."""
    curve = Lora(curve="logistic", shift=shift_db, width=width_db)
    return curve.success(snr_db, 125e3, 0.0, mode)


def fit_link(snr_db: Floats, lost: int | None, curve: tuple[float, float], mode: int) -> tuple[float, float, float]:
    """Return the mean and the deviation of the SNR of one (link, channel), and its largest log likelihood.

    Without *lost*, the number of frames that were not received, the SNR of the received ones alone counts.
    """
    values, counts = np.unique(snr_db, return_counts=True)
    grid = np.linspace(-60.0, 40.0, 401)
    on_grid = success(grid, *curve, mode)
    known = float(counts @ np.log(success(values, *curve, mode)))

    def loss(at: Floats) -> float:
        mean, deviation = at[0], np.exp(at[1])
        density = np.exp(-0.5 * ((grid - mean) / deviation) ** 2)
        chance = float(np.clip((density @ on_grid) / density.sum(), 1e-12, 1.0 - 1e-12))
        of_values = counts @ stats.norm.logpdf(values, mean, deviation)
        if lost is None:
            return -float(of_values - counts.sum() * np.log(chance))
        return -float(of_values + lost * np.log1p(-chance))

    found = optimize.minimize(loss, [snr_db.mean(), np.log(snr_db.std() + 0.5)], method="Nelder-Mead",
                              bounds=[(-40.0, 30.0), (np.log(0.5), np.log(15.0))])  # fmt: skip
    return float(found.x[0]), float(np.exp(found.x[1])), known - float(found.fun)


def links_of(frames: Frames, *, lost_known: bool) -> dict[tuple[int, int], tuple[Floats, int | None]]:
    """Return the SNR of each (gateway, channel) with enough frames, and its lost frames, ``None`` if unknown."""
    links = {}
    for gateway in range(frames.received.shape[1]):
        for channel in np.unique(frames.channel):
            here = frames.channel == channel
            got = frames.received[here, gateway]
            if got.sum() >= LEAST_RECEIVED:
                lost = int((~got).sum()) if lost_known else None
                links[gateway, int(channel)] = (frames.snr_db[here, gateway][got], lost)
    return links


def fit_edge(frames: Frames, mode: int, *, lost_known: bool) -> dict[str, Any]:
    """Return the profile of the log likelihood over the shift, and the best curve."""
    links = links_of(frames, lost_known=lost_known)
    table = np.array(
        [[sum(fit_link(*link, (shift, width), mode)[2] for link in links.values()) for width in WIDTHS_DB]
         for shift in SHIFTS_DB]
    )  # fmt: skip
    profile = table.max(1) - table.max()
    inside = SHIFTS_DB[profile >= -stats.chi2.ppf(0.95, 1) / 2.0]
    best = np.unravel_index(table.argmax(), table.shape)
    below = np.concatenate([snr for snr, _ in links.values()]) < MIN_SNR_DB[mode]
    return {
        "links": len(links),
        "received": int(below.size),
        "below_datasheet": float(below.mean()),
        "shift_db": float(SHIFTS_DB[best[0]]),
        "width_db": WIDTHS_DB[best[1]],
        "shift_interval_db": [float(inside.min()), float(inside.max())],
        "is_flat": bool(inside.min() == SHIFTS_DB[0] or inside.max() == SHIFTS_DB[-1]),
        "profile": dict(zip(map(str, SHIFTS_DB.tolist()), profile.round(2).tolist(), strict=True)),
    }


def shares(frames: Frames) -> Floats:
    """Return the share of received frames, ``[gateways, channels]``, with one more frame, received by half."""
    channels = int(frames.channel.max()) + 1
    found = np.zeros((frames.received.shape[1], channels))
    for gateway in range(frames.received.shape[1]):
        for channel in range(channels):
            here = frames.channel == channel
            found[gateway, channel] = (frames.received[here, gateway].sum() + 0.5) / (here.sum() + 1.0)
    return found


def chances_by_snr(frames: Frames, curve: tuple[float, float], mode: int) -> Floats:
    """Return the probability of reception by fits of the SNR, or `shares` without enough frames, in the same shape."""
    found = shares(frames)
    grid = np.linspace(-60.0, 40.0, 401)
    for (gateway, channel), (snr_db, lost) in links_of(frames, lost_known=True).items():
        mean, deviation, _ = fit_link(snr_db, lost, curve, mode)
        density = np.exp(-0.5 * ((grid - mean) / deviation) ** 2)
        found[gateway, channel] = (density @ success(grid, *curve, mode)) / density.sum()
    return found


def log_odds(chance: Floats) -> Floats:
    """Return the log-odds of probabilities, none of which is 0 or 1."""
    return np.asarray(special.logit(np.clip(chance, *LOGIT_LIMITS)))


# Predictions


def follow(got: Bools, odds: Floats, step: float) -> tuple[Floats, Floats, Floats]:
    """Return the one-step probabilities, and mean and variance of the walk before each frame and after the last."""
    means, variances = np.zeros(len(got) + 1), np.zeros(len(got) + 1)
    predicted = np.empty(len(got))
    mean = variance = 0.0
    for place in range(len(got)):
        variance += step
        means[place], variances[place] = mean, variance
        predicted[place] = special.expit((odds[place] + mean) / np.sqrt(1.0 + np.pi * variance / 8.0))
        at = special.expit(odds[place] + mean)
        variance = variance / (1.0 + variance * at * (1.0 - at))
        mean += variance * (got[place] - at)
    means[-1], variances[-1] = mean, variance
    return np.clip(predicted, *LOGIT_LIMITS), means, variances


def log_score(got: Bools, chance: Floats) -> float:
    """Return the mean log probability of what happened."""
    return float(np.mean(np.log(np.where(got, chance, 1.0 - chance))))


def best_step(got: Bools, odds: Floats) -> float:
    """Return the variance of steps with the best one-step log score."""
    scores = [log_score(got, follow(got, odds, step)[0]) for step in STEPS]
    return STEPS[int(np.argmax(scores))]


def persistent(got: Bools, before: Bools) -> Floats:
    """Return the share of the last `WINDOW` frames, of those *before* and of *got*, that were received."""
    counts = np.concatenate([[0], np.cumsum(np.concatenate([before[-WINDOW:], got]))])
    return (counts[WINDOW : WINDOW + len(got)] - counts[: len(got)] + 0.5) / (WINDOW + 1.0)


def statistics_of(got: Bools) -> tuple[float, float, float]:
    """Return the rate, P(received | last received) and P(received | last lost); NaN if there is no such frame."""
    last, now = got[:-1], got[1:]
    after_received = float(now[last].mean()) if last.any() else np.nan
    after_lost = float(now[~last].mean()) if not last.all() else np.nan
    return float(got.mean()), after_received, after_lost


def walks(mean: float, variance: float, step: float, frames: int, rng: np.random.Generator) -> Floats:
    """Return samples of a walk that goes on, ``[SAMPLES, frames]``."""
    start = mean + np.sqrt(variance) * rng.standard_normal((SAMPLES, 1))
    return start + np.cumsum(np.sqrt(step) * rng.standard_normal((SAMPLES, frames)), axis=1)


def held(samples: Floats, value: float) -> bool:
    """Return whether the middle 95 % of the samples hold the value."""
    low, high = np.nanquantile(samples, [0.025, 0.975])
    return bool(low <= value <= high)


def union(received: Bools) -> float:
    """Return the share of frames that some gateway received, without those in outages."""
    none = ~received.any(1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], none.astype(int), [0]])))
    is_outage = np.zeros(len(none), bool)
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        is_outage[begin:end] = end - begin >= OUTAGE
    return float(1.0 - none[~is_outage].mean())


DEVICES = {"33": ("saint_eynard_33.csv.gz", True), "32": ("saint_eynard_32.csv.gz", False)}


def fit(folder: Path) -> None:
    """Fit all on the first halves, and store it."""
    stored: dict[str, Any] = {}
    for device, (name, has_order) in DEVICES.items():
        first, _ = halves(read(folder / name, has_order=has_order))
        edge = fit_edge(first, 0, lost_known=True)
        by_snr = log_odds(chances_by_snr(first, (edge["shift_db"], edge["width_db"]), 0))
        static = log_odds(shares(first))
        steps = [best_step(got, static[gateway, first.channel]) for gateway, got in enumerate(first.received.T)]
        stored[device] = {
            "edge": edge,
            "snr": by_snr.round(4).tolist(),
            "static": static.round(4).tolist(),
            "steps": steps,
        }
    first, _ = halves(read(folder / "tour_perret.csv.gz", has_order=False))
    stored["tour_perret"] = {"edge": fit_edge(first, 5, lost_known=False)}
    FITS.write_text(json.dumps(stored, indent=1) + "\n")


class Link:
    """What one gateway received of one device, and the predictions of each model for the second half.

    Args:
        before: received or not, in the first half.
        got: the same in the second half.
        odds: log-odds of *static* for each frame of both halves.
        odds_by_snr: those of *snr* for each frame of the second half.
        step: variance of a step of the walk.
    """

    def __init__(self, before: Bools, got: Bools, odds: Floats, odds_by_snr: Floats, step: float) -> None:
        self.before, self.got, self.step = before, got, step
        self.odds = odds[len(before) :]
        predicted, means, variances = follow(np.concatenate([before, got]), odds, step)
        self._means, self._variances = means[len(before) :], variances[len(before) :]
        self.chances = {
            "snr": special.expit(odds_by_snr),
            "static": special.expit(self.odds),
            "drift": predicted[len(before) :],
            "persistence": persistent(got, before),
        }

    def draw(self, model: str, start: int, frames: int, rng: np.random.Generator) -> Bools:
        """Return samples of the *frames* from *start* on, by what is known before them, ``[SAMPLES, frames]``."""
        places = slice(start, start + frames)
        if model in ("snr", "static"):
            chance: Floats = self.chances[model][None, places]
        elif model == "drift":
            walk = walks(self._means[start], self._variances[start], self.step, frames, rng)
            chance = special.expit(self.odds[places] + walk)
        else:
            known = self.chances[model][start] * (WINDOW + 1.0)
            chance = rng.beta(known, WINDOW + 1.0 - known, (SAMPLES, 1))
        return rng.random((SAMPLES, frames)) < chance

    def scores(self, model: str, rng: np.random.Generator) -> dict[str, Any]:
        """Return the mean log score of one-step predictions, and how many windows' intervals held."""
        starts = range(0, len(self.got) - WINDOW + 1, WINDOW)
        holds = [
            held(
                self.draw(model, start, WINDOW, rng).sum(1).astype(float), float(self.got[start : start + WINDOW].sum())
            )
            for start in starts
        ]
        return {
            "log_score": log_score(self.got, self.chances[model]),
            "windows": len(holds),
            "windows_held": sum(holds),
        }

    def change(self) -> float:
        """Return the z of the test of equal rates of both halves."""
        pooled = np.concatenate([self.before, self.got]).mean()
        error = np.sqrt(pooled * (1.0 - pooled) * (1.0 / len(self.before) + 1.0 / len(self.got)))
        return float((self.got.mean() - self.before.mean()) / error) if error else 0.0


def predicted(samples: Floats, model: str) -> dict[str, float]:
    """Return the median and the 95 % interval of a quantity, as columns of the *model*."""
    low, middle, high = np.nanquantile(samples, [0.025, 0.5, 0.975])
    return {f"{model}_low": low, model: middle, f"{model}_high": high}


def judge(folder: Path) -> None:
    """Judge the second halves by what was stored."""
    fits = json.loads(FITS.read_text())
    scores, rates = [], []
    for device, (name, has_order) in DEVICES.items():
        rng = np.random.default_rng(2026)
        first, second = halves(read(folder / name, has_order=has_order))
        channels = np.concatenate([first.channel, second.channel])
        drawn: dict[str, list[Bools]] = {"snr": [], "static": [], "drift": []}
        for gateway, step in enumerate(fits[device]["steps"]):
            odds = np.array(fits[device]["static"][gateway])[channels]
            odds_by_snr = np.array(fits[device]["snr"][gateway])[second.channel]
            link = Link(first.received[:, gateway], second.received[:, gateway], odds, odds_by_snr, step)
            names = {"device": device, "gateway": gateway}
            scores += [names | {"model": model} | link.scores(model, rng) for model in link.chances]
            for model, samples in drawn.items():
                samples.append(link.draw(model, 0, len(link.got), rng))
            of_first, measured = statistics_of(link.before), statistics_of(link.got)
            persistence = statistics_of(link.before[-WINDOW:])
            for place, quantity in enumerate(("rate", "after_received", "after_lost")):
                row = names | {"quantity": quantity, "first": of_first[place], "measured": measured[place]}
                for model, samples in drawn.items():
                    row |= predicted(np.array([statistics_of(sample)[place] for sample in samples[-1]]), model)
                rates.append(row | {"persistence": persistence[place], "z": link.change() if not place else np.nan})
        row = {"device": device, "gateway": "any", "quantity": "union"}
        row |= {"first": union(first.received), "measured": union(second.received)}
        for model, samples in drawn.items():
            row |= predicted(np.array([union(sample) for sample in np.stack(samples, -1)]), model)
        rates.append(row | {"persistence": union(first.received[-WINDOW:])})
    pd.DataFrame(scores).round(5).to_csv(SCORES, index=False)
    pd.DataFrame(rates).round(5).to_csv(RATES, index=False)


# The page


def judged(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of links that received more than 1 % of the frames of one of the halves, and of unions."""
    rates = pd.read_csv(RATES).query("quantity == 'rate'")
    heard = rates[rates[["first", "measured"]].max(axis=1) > 0.01]
    known = {*zip(heard.device, heard.gateway.astype(str), strict=True)}
    names = zip(rows.device, rows.gateway.astype(str), strict=True)
    return rows[[gateway == "any" or (device, gateway) in known for device, gateway in names]]


def edge_lines() -> list[str]:
    """Return the table of the edge of reception."""
    lines = [
        "| device | factor | received | below the data sheet | shift, dB | width, dB |",
        "|---|---|---|---|---|---|",
    ]
    names = {"33": "Saint Eynard 33", "32": "Saint Eynard 32", "tour_perret": "Tour Perret"}
    for device, factor in (("33", 7), ("32", 7), ("tour_perret", 12)):
        edge = json.loads(FITS.read_text())[device]["edge"]
        shift, width = f"{edge['shift_db']:+g}", f"{edge['width_db']:g}"
        if edge["is_flat"]:
            shift, width = f"at most {edge['shift_interval_db'][1]:+g}", "open"
        below = f"{100 * edge['below_datasheet']:.1f} %"
        lines.append(f"| {names[device]} | SF{factor} | {edge['received']:,} | {below} | {shift} | {width} |")
    return lines


def score_lines() -> list[str]:
    """Return the table of scores by device and model."""
    rows = judged(pd.read_csv(SCORES))
    rates = judged(pd.read_csv(RATES))
    lines = [
        "| device | model | log score | windows held | rates held | rates off by | union |",
        "|---|---|---|---|---|---|---|",
    ]
    for device in (33, 32):
        of_device = rates[(rates.device == device)]
        single, together = of_device[of_device.quantity != "union"], of_device[of_device.quantity == "union"].iloc[0]
        for model in ("snr", "static", "drift", "persistence"):
            part = rows[(rows.device == device) & (rows.model == model)]
            inside = "–"
            if model != "persistence":
                holds = (single.measured >= single[f"{model}_low"]) & (single.measured <= single[f"{model}_high"])
                inside = f"{holds.sum()} of {len(holds)}"
            off = (single.measured - single[model]).abs().mean()
            lines.append(
                f"| {device} | {model} | {part.log_score.mean():.3f} "
                f"| {part.windows_held.sum()} of {part.windows.sum()} | {inside} | {off:.3f} | {together[model]:.4f} |"
            )
        lines.append(f"| {device} | *measured* | | | | | {together.measured:.4f} |")
    return lines


def draw(folder: Path) -> None:
    """Draw the share of received frames in windows, and what the static model expects, for device 33."""
    frames = read(folder / DEVICES["33"][0], has_order=True)
    static = special.expit(np.array(json.loads(FITS.read_text())["33"]["static"]))
    figure = Figure(figsize=(8.6, 4.2), layout="constrained")
    starts = np.arange(0, len(frames.received) - WINDOW + 1, WINDOW)
    for gateway, ax in enumerate(figure.subplots(2, 4, sharex=True, sharey=True).flat):
        got, chance = frames.received[:, gateway], static[gateway, frames.channel]
        windows = starts[:, None] + np.arange(WINDOW)
        measured, expected = got[windows].mean(1), chance[windows].mean(1)
        half = 1.96 * np.sqrt((chance * (1.0 - chance))[windows].sum(1)) / WINDOW
        ax.fill_between(starts, 100 * (expected - half), 100 * (expected + half), color=style.ORANGE, alpha=0.35, lw=0)
        ax.plot(starts, 100 * expected, color=style.ORANGE, lw=1.0, label="static model, 95 %")
        ax.plot(starts, 100 * measured, "o", ms=2.5, color=style.BLUE, label="measured")
        ax.axvline(len(got) / 2, color=style.GREY, lw=0.8, ls="--")
        ax.set_title(f"gateway {gateway}", fontsize=9)
        ax.set(ylim=(0, 103))
    figure.supxlabel("frame (fitted left of the dashed line, judged right of it)", fontsize=9)
    figure.supylabel("frames received of 500, %", fontsize=9)
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2, fontsize=8)
    figure.savefig(Path(__file__).parents[1] / "docs/measured_world/saint_eynard.png", dpi=150)


def page(folder: Path) -> None:
    """Draw the plot, and write the tables to the standard output."""
    draw(folder)
    sys.stdout.write("\n".join([*edge_lines(), "", *score_lines(), ""]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("fit", "judge", "page"))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    {"fit": fit, "judge": judge, "page": page}[arguments.action](arguments.folder)
