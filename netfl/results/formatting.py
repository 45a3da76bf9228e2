"""Figures as people read them: what they are called, in which unit, and with how many digits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_LABELS = {
    "throughput_bps": "throughput",
    "offered_bps": "offered load",
    "delivered": "delivered",
    "loss_ratio": "lost, in all",
    "lost.lost": "lost, outage",
    "delay_mean_s": "delay, mean",
    "delay_p50_s": "delay, p50",
    "delay_p95_s": "delay, p95",
    "delay_p99_s": "delay, p99",
    "delay_theory_s": "delay, theory",
    "jain": "Jain index",
    "rounds_per_hour": "rounds per hour",
    "delivered_per_round": "delivered per round",
    "attempts_mean": "attempts each",
    "uplink_bits": "sent up",
    "downlink_bits": "sent down",
    "collision_probability": "collisions per attempt",
    "snr_mean_db": "SNR, mean",
    "energy_train_J": "energy, training",
    "energy_send_J": "energy, sending",
    "energy_receive_J": "energy, receiving",
    "energy_idle_J": "energy, idle",
    "energy_max_J": "energy, of one user at most",
    "energy_jain": "Jain index of energy",
    "snr_theory_db": "SNR, theory",
}
"""Figures that have a name of their own; others are called by their own, less the unit."""

_ORDER = (
    "throughput_bps",
    "offered_bps",
    "delivered",
    "share.",
    "loss_ratio",
    "lost.",
    "delay_",
    "utilisation",
    "jain",
)
"""Beginnings of the names of figures, in the order in which they are shown; all others follow."""

_STEPS = {
    "s": ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "bps": ((1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps"), (1.0, "bps")),
    "J": ((1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")),
    "bits": ((8e12, "TB"), (8e9, "GB"), (8e6, "MB"), (8e3, "kB"), (8.0, "B")),
    "hz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")),
    "db": ((1.0, "dB"),),
}
"""For each ending of a name: units from the largest, each with what it is in SI units."""

_SHARES = ("utilisation", "share.")
_SHARE_ENDS = ("_ratio", "_probability", "_share", "availability", "outage", "collision", "loss")
"""Beginnings and endings of the names of figures that are shares of one."""

METRICS = {
    "accuracy": "Accuracy",
    "rare_accuracy": "Rare classes",
    "accuracy_users_worst10": "Worst 10 %",
    "accuracy_users_best10": "Best 10 %",
    "accuracy_users_variance": "Variance",
    "accuracy_users_jain": "Jain index",
    "validation_accuracy": "Validation",
    "loss": "Loss",
    "t": "t",
    "objective": "Objective",
}
"""The columns of tables of learners' final values, in their order, by metric."""

SHARES = frozenset(
    {
        "accuracy",
        "rare_accuracy",
        "accuracy_users_mean",
        "accuracy_users_worst10",
        "accuracy_users_best10",
        "validation_accuracy",
    }
)
"""Metrics that are shares of one and are shown in percent."""

VARIANCES = frozenset({"accuracy_users_variance"})
"""Metrics that are variances of shares and are shown in squared percentage points."""

_HUGE = 1e6
"""A value of a metric from this size on is shown by its power of ten."""

_LONGEST = 24
"""Letters that a value of a scenario's key takes at most."""


def clock(time_s: float) -> str:
    """A simulated time for people.

    >>> clock(59.4), clock(7260), clock(200000)
    ('59.4 s', '2 h 01 min', '2 d 7 h')
    """
    if time_s < 60:
        return f"{time_s:.3g} s"
    minutes = int(time_s // 60)
    if minutes < 60:
        return f"{minutes} min {int(time_s % 60):02d} s"
    hours = minutes // 60
    return f"{hours} h {minutes % 60:02d} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def metric_label(name: str) -> str:
    """What a figure is called.

    >>> metric_label("delay_p95_s"), metric_label("utilisation.router:0"), metric_label("lost.collided")
    ('delay, p95', 'utilisation, router:0', 'lost, collided')
    """
    if name in _LABELS:
        return _LABELS[name]
    if name.startswith("share."):
        return f"updates {name.removeprefix('share.').replace('_', ' ')}"
    words, _, unit = name.rpartition("_")
    words = words if unit in _STEPS else name
    words, theory, more = words.partition("_theory")
    return (words.replace(".", ", ") + (", theory" if theory else "") + more).replace("_", " ")


def sort_key(name: str) -> int:
    """Where a figure stands among others.

    >>> sorted(["jain", "own", "throughput_bps"], key=sort_key)
    ['throughput_bps', 'jain', 'own']
    """
    return next((at for at, start in enumerate(_ORDER) if name.startswith(start)), len(_ORDER))


def format_metric(name: str, value: float | None, half: float | None = None) -> str:
    """A figure with its unit and, where there is one, the half width of its interval.

    >>> format_metric("throughput_bps", 5.1234e6, 2.3e4), format_metric("delay_mean_s", 0.0123)
    ('5.123 ± 0.023 Mbps', '12.3 ms')
    >>> format_metric("loss_ratio", 0.25)
    '25 %'
    >>> format_metric("jain", None), format_metric("delivered", 12345.0), format_metric("delivered", 0.0)
    ('–', '12 345', '0')
    """
    number, spread, unit = format_parts(name, value, half)
    return " ".join(part for part in (number, spread and f"± {spread}", unit) if part)


def format_parts(
    name: str, value: float | None, half: float | None = None, like: float | None = None
) -> tuple[str, str, str]:
    """A figure, the half width of its interval, which may be empty, and the unit of both: that of *like*, if given.

    >>> format_parts("delay_mean_s", 0.0123, 0.0004), format_parts("delay_p99_s", 1.2, like=0.01)
    (('12.30', '0.40', 'ms'), ('1200', '', 'ms'))
    """
    if value is None or not math.isfinite(value):
        return "–", "", ""
    scale, unit = unit_of(name, value if like is None else like)
    if half is None or not math.isfinite(half) or not half > 1e-12 * abs(value):
        return _plain(value / scale), "", unit
    digits = min(9, max(0, 1 - math.floor(math.log10(half / scale))))
    return _grouped(value / scale, digits), _grouped(half / scale, digits), unit


def aligned(names: Sequence[str], summary: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Return `parts` of each of *names*; those of one kind, such as delays, have the unit of the first.

    >>> aligned(["delay_mean_s", "delay_p99_s"], {"delay_mean_s": 0.01, "delay_p99_s": 1.2})
    {'delay_mean_s': ('10', '', 'ms'), 'delay_p99_s': ('1200', '', 'ms')}
    """
    like = {name.partition("_")[0]: summary[name] for name in reversed(names) if "_" in name}
    return {
        name: format_parts(name, summary[name], summary.get(f"{name}.ci95"), like.get(name.partition("_")[0]))
        for name in names
    }


def metric_cell(metric: str, mean: float, half: float = math.nan, replicas: int = 1, of: int = 1) -> str:
    """A learner's value of *metric* in all tables: accuracies in percent, with the half width of its interval.

    Args:
        metric: which metric, such as ``rare_accuracy``.
        mean: over replicas.
        half: the half width of its interval; NaN where there is none.
        replicas: how many replicas have the value; the others diverged.
        of: how many replicas there are.

    >>> metric_cell("accuracy", 0.81234, 0.021, 3, 3), metric_cell("t", 0.5), metric_cell("loss", 2.5e7)
    ('81.2 ± 2.1', '0.500', '2.5e+07')
    >>> metric_cell("accuracy", 0.5, math.nan, 1, 3), metric_cell("accuracy", math.nan, math.nan, 0, 3)
    ('50.0 (1 of 3 replicas)', '–')
    """
    if not replicas or not math.isfinite(mean):
        return "–"
    scale = 100.0 if metric in SHARES else 1e4 if metric in VARIANCES else 1.0
    form = ".1f" if scale > 1.0 else ".1e" if abs(mean) >= _HUGE else ".3f"
    spread = f" ± {scale * half:{form}}" if math.isfinite(half) else ""
    return f"{scale * mean:{form}}{spread}" + (f" ({replicas} of {of} replicas)" if replicas < of else "")


def access_metrics(summary: Mapping[str, object], learners: Iterable[str] = ()) -> list[str]:
    """The figures of a summary that are the access's own, in the order in which they are shown.

    Left out are those of *learners*, those that are told in words, and losses that never came about.
    """
    elsewhere = ("fate.", *(f"{learner}." for learner in learners))
    names = [name for name in summary if not name.startswith(elsewhere) and not name.endswith(".ci95")]
    return sorted((name for name in names if _shown(name, summary)), key=sort_key)


def _shown(name: str, summary: Mapping[str, object]) -> bool:
    """Whether *name* is not told in words, and no loss that never came about."""
    if name in _TOLD_ELSEWHERE:
        return False
    return not (name.startswith(("lost.", "share.")) and summary[name] == 0)


_TOLD_ELSEWHERE = frozenset({"rounds", "replicas", "simulated_s", "duration_s", "warmup_s"})


def format_setting(value: object) -> str:
    """A value of a scenario's key, short enough for a table.

    >>> format_setting(0.30000000000000004), format_setting(12), format_setting("word " * 9)
    ('0.3', '12', 'word word word word wor…')
    """
    word = f"{value:.4g}" if isinstance(value, float) else str(value)
    return word if len(word) <= _LONGEST else f"{word[: _LONGEST - 1]}…"


def unit_of(name: str, value: float) -> tuple[float, str]:
    """What the unit that a figure of this name and size is best read in is in SI units, and its name.

    >>> unit_of("delay_mean_s", 0.02), unit_of("loss_ratio", 0.2)
    ((0.001, 'ms'), (0.01, '%'))
    """
    if name.startswith(_SHARES) or name.partition("_theory")[0].endswith(_SHARE_ENDS):
        return 0.01, "%"
    steps = _STEPS.get(name.rpartition("_")[2], ((1.0, ""),))
    return next((step for step in steps if abs(value) >= step[0]), steps[-1] if value else _base(steps))


def _base(steps: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """The unit of a figure of zero."""
    return next((step for step in steps if step[0] == 1.0), steps[-1])


def _plain(value: float) -> str:
    """A number with four digits that count, or a whole one with all of its own."""
    if value == round(value) and abs(value) < 1e9:
        return _grouped(value, 0)
    return f"{value:.4g}" if abs(value) < 1e4 else _grouped(value, 0)


def _grouped(value: float, digits: int) -> str:
    """A number with spaces between its thousands where it is long."""
    text = f"{value:,.{digits}f}"
    return text.replace(",", " ") if abs(value) >= 1e4 else text.replace(",", "")
