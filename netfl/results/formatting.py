"""Names, units and digits of metrics, and numbers, times and lists in sentences."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.learning.performance import metric_on_set, split_group, split_set
from netfl.results.metrics import UNITS, catalogue, find_metric, is_declared
from netfl.results.statistics import HALF, ConfidenceInterval
from netfl.types import RoundProgress

if TYPE_CHECKING:
    import pandas as pd

_HUGE = 1e6
"""Metrics from this value on are displayed in scientific notation."""
_TINY = 1e-2
"""Metrics of plug-ins below this value are displayed in scientific notation."""

_MAX_SETTING = 24
"""Maximum number of characters of a scenario value."""

_ROUNDING = 1e-9
"""Half width of an interval, relative to its mean, up to which it comes from the rounding of sums."""
_SHOWN_FAILURES = 100
"""Failed attempts in a row below which none are reported."""
CUT = "*"
"""Mark of an end of an interval that is cut at the limit of its quantity."""


@dataclass(frozen=True, slots=True)
class MetricText:
    """A value as text, in the parts that tables align.

    Args:
        number: the value.
        spread: its interval: ``± 0.4``, or both ends where it is cut; may be empty.
        unit: its unit; may be empty.
        count: number of replicas of the interval, such as ``(n = 3)``; empty without one.
    """

    number: str
    spread: str = ""
    unit: str = ""
    count: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.number, self.spread, self.unit, self.count) if part)


@dataclass(frozen=True, slots=True)
class CutInterval:
    """The ends of intervals within the possible values, and which of them are cut there."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    is_low_cut: NDArray[np.bool_]
    is_high_cut: NDArray[np.bool_]


def cut_interval(name: str, low: ArrayLike, high: ArrayLike, *, is_difference: bool = False) -> CutInterval:
    """Cut intervals of the metric *name*, or of its differences, at the possible values.

    Student's t knows no limits: the interval of three replicas with 10, 35 and 60 % begins below 0 %.

    >>> found = cut_interval("accuracy", [-0.2, 0.1], [0.9, 1.3])
    >>> found.low, found.high, found.is_low_cut, found.is_high_cut
    (array([0. , 0.1]), array([0.9, 1. ]), array([ True, False]), array([False,  True]))
    """
    lowest, highest = find_metric(name).range
    if is_difference:
        lowest, highest = lowest - highest, highest - lowest
    lows = np.asarray(low, float)
    highs = np.asarray(high, float)
    return CutInterval(
        np.clip(lows, lowest, highest),
        np.clip(highs, lowest, highest),
        lows < lowest - _ROUNDING,
        highs > highest + _ROUNDING,
    )


def _format_spread(
    name: str, estimate: ConfidenceInterval, write: Callable[[float], str], *, is_difference: bool = False
) -> str:
    """Return the interval of a metric as ``± 0.4``, or with both ends where it leaves the possible values."""
    if not estimate.is_shown:
        return ""
    ends = cut_interval(name, estimate.mean - estimate.half, estimate.mean + estimate.half, is_difference=is_difference)
    if not (ends.is_low_cut or ends.is_high_cut):
        return f"± {write(estimate.half)}"
    low = write(float(ends.low)) + CUT * bool(ends.is_low_cut)
    high = write(float(ends.high)) + CUT * bool(ends.is_high_cut)
    return f"[{low}, {high}]"


def clock(time_s: float) -> str:
    """Format a simulated time.

    >>> clock(59.4), clock(7260), clock(200000)
    ('59.4 s', '2 h 01 min', '2 d 7 h')
    """
    if time_s < 60:
        return f"{time_s:.3g} s"
    minutes = int(time_s // 60)
    if minutes < 60:
        return f"{minutes} min {int(time_s % 60):02d} s"
    hours = minutes // 60
    if hours < 48:
        return f"{hours} h {minutes % 60:02d} min"
    return f"{hours // 24} d {hours % 24} h"


def format_disk(size: float) -> str:
    """Format a number of bytes on a disk.

    >>> format_disk(1234567), format_disk(2.5e9)
    ('1.23 MB', '2.5 GB')
    """
    if size >= 1e9:
        return f"{size / 1e9:,.3g} GB"
    return f"{size / 1e6:,.3g} MB"


def format_progress(progress: RoundProgress) -> str:
    """Return the progress of an open round in words.

    >>> format_progress(RoundProgress(3, 7260.0, 1234, 1200))
    '2 h 01 min simulated · 1,234 attempts, the last 1,200 of them failed'
    """
    text = f"{clock(progress.time_s)} simulated · {progress.attempts:,} attempts"
    if progress.failed_attempts < _SHOWN_FAILURES:
        return text
    return f"{text}, the last {progress.failed_attempts:,} of them failed"


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit, in seconds and by name, for times up to *seconds*.

    >>> time_unit(5000.0), time_unit(0.0), time_unit(3e-4)
    ((60.0, 'min'), (1.0, 's'), (1e-06, 'µs'))
    """
    for unit, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2.5 * unit:
            return unit, name
    if 2.5e-3 <= seconds < 0.25:
        return 1e-3, "ms"
    if 2.5e-6 <= seconds < 2.5e-3:
        return 1e-6, "µs"
    return 1.0, "s"


def axis_unit(over: str, size: float) -> tuple[float, str]:
    """Return the unit and the label of an axis of rounds, simulated time, bits or energy up to *size*.

    >>> axis_unit("time", 5000.0), axis_unit("bits", 3e7), axis_unit("round", 20.0)
    ((60.0, 'simulated time (min)'), (8000000.0, 'sent on the uplink (MB)'), (1.0, 'round'))
    """
    if over == "round":
        return 1.0, "round"
    if over == "time":
        unit, name = time_unit(size)
        return unit, f"simulated time ({name})"
    if over == "bits":
        label = "sent on the uplink"
        steps = UNITS["bits"]
    else:
        label = "spent by users"
        steps = UNITS["J"]
    unit, symbol = next((step for step in steps if size >= 2.5 * step[0]), steps[-1])
    return unit, f"{label} ({symbol})"


def metric_label(name: str) -> str:
    """Return the label of a metric of the access.

    >>> metric_label("delay_p95_s"), metric_label("utilisation.router:0"), metric_label("lost.collided")
    ('delay, p95', 'utilisation, router:0', 'lost, collided')
    """
    return find_metric(name).label


def learning_label(metric: str) -> str:
    """Return the label of a metric of learners.

    >>> learning_label("rare_accuracy"), learning_label("accuracy@raw"), learning_label("loss/block:remote")
    ('rare-class accuracy', 'accuracy on raw', 'loss, block remote')
    """
    name, test_set, group = _parts(metric)
    declared = find_metric(name)
    label = declared.label if declared.is_learned else name.replace("_", " ")
    label += _on_set(test_set)
    if group:
        label += f", {group}"
    return label


def learner_metrics(sets: Iterable[str] = (), blocks: Iterable[str] = (), *, in_report: bool = False) -> list[str]:
    """Return the metrics that tables of learners show, in their order, with those on further test *sets*.

    The accuracies of blocks follow that on the rare classes.

    Args:
        sets: further test sets.
        blocks: names of blocks of users.
        in_report: include those that only reports have room for.
    """
    views = {"final"}
    if in_report:
        views.add("report")
    metrics = [metric.name for metric in catalogue() if not views.isdisjoint(metric.views)]
    after_rare = metrics.index("rare_accuracy") + 1
    metrics[after_rare:after_rare] = [accuracy_of_block(block) for block in blocks]
    with_sets = [metric for metric in metrics if find_metric(metric).has_sets]
    return [*metrics, *(metric_on_set(metric, name) for name in sets for metric in with_sets)]


def accuracy_of_block(block: str) -> str:
    """Return the name of the accuracy of a block of users."""
    return f"accuracy/block:{block}"


def metric_title(metric: str) -> str:
    """Return the head of a metric's column in tables of learners.

    >>> metric_title("rare_accuracy"), metric_title("accuracy@raw"), metric_title("t")
    ('Rare classes', 'Accuracy on raw', 't')
    """
    head = metric_head(metric)
    if len(head) == 1:  # a symbol keeps its case
        return head
    return capitalized(head)


def metric_head(metric: str) -> str:
    """Return the head of a metric's column on the terminal: its title without a capital, except for names.

    The accuracy of a group has the name of the group alone.

    >>> metric_head("rare_accuracy"), metric_head("accuracy_users_jain"), metric_head("accuracy@MNIST")
    ('rare classes', 'Jain index of accuracies', 'accuracy on MNIST')
    >>> metric_head("accuracy/block:remote"), metric_head("loss/block:remote")
    ('block remote', 'loss, block remote')
    """
    name, test_set, group = _parts(metric)
    head = find_metric(name).head
    if group and name == "accuracy":
        head = group
    elif group:
        head = f"{head}, {group}"
    return head + _on_set(test_set)


def _parts(metric: str) -> tuple[str, str, str]:
    """Return the name of *metric*, its test set, and its group in words, both empty for all examples of the data.

    A name with a slash that is no metric of learners, such as one of an app, has no group.
    """
    without_group, group = split_group(metric)
    name, test_set = split_set(without_group)
    if group and find_metric(name).is_learned:
        return name, test_set, group.replace(":", " ", 1)
    return *split_set(metric), ""


def _on_set(test_set: str) -> str:
    """Return the end of a label for a further test set; empty for that of the data."""
    return f" on {test_set}" if test_set else ""


def is_learned(metric: str) -> bool:
    """Return whether *metric* is declared as a metric of learners; the test set and the group do not matter."""
    return find_metric(metric).is_learned


def is_share(metric: str) -> bool:
    """Return whether a metric of learners is a share of one, displayed in percent, whatever its test set and group."""
    declared = find_metric(metric)
    return declared.is_learned and declared.is_share


def is_variance(metric: str) -> bool:
    """Return whether a metric is a variance of shares, displayed in squared percentage points."""
    return find_metric(metric).unit == "%²"


def capitalized(label: str) -> str:
    """Return *label* with a capital first letter; other letters stay."""
    return f"{label[0].upper()}{label[1:]}"


def sort_key(name: str) -> int:
    """Return the rank of a metric in tables.

    >>> sorted(["jain", "own", "throughput_bps"], key=sort_key)
    ['throughput_bps', 'jain', 'own']
    """
    return find_metric(name).rank


def format_metric(name: str, value: float | None, half: float | None = None, replicas: int = 1) -> str:
    """Format a metric of the network with its unit and, from three *replicas* on, its interval.

    >>> format_metric("throughput_bps", 5.1234e6, 2.3e4, 5), format_metric("delay_mean_s", 0.0123)
    ('5.123 ± 0.023 Mbps (n = 5)', '12.3 ms')
    >>> format_metric("loss_ratio", 0.25), format_metric("delay_mean_s", 0.02, 0.05, 3)
    ('25 %', '20 [0*, 70] ms (n = 3)')
    >>> format_metric("jain", None), format_metric("delivered", 12345.0), format_metric("delivered", 0.0)
    ('–', '12 345', '0')
    """
    return str(format_parts(name, value, half, replicas=replicas))


def format_final(metric: str, value: float | None, half: float = math.nan, replicas: int = 1, of: int = 1) -> str:
    """Format a final value of a learner, or a value of the network, with its unit: accuracies in percent.

    The digits are those of `metric_cell`, so that all outputs state the same number.

    >>> format_final("accuracy", 0.8123), format_final("delay_mean_s", 0.0123), format_final("validation_loss", 1.3901)
    ('81.2 %', '12.3 ms', '1.390')
    >>> format_final("accuracy", 0.8123, 0.021, 5, 5)
    '81.2 ± 2.1 % (n = 5)'
    """
    if is_learned(metric) and value is not None:
        return str(learned_text(metric, ConfidenceInterval(value, half, replicas), of))
    return format_metric(metric, value, half, replicas)


def format_parts(
    name: str,
    value: float | None,
    half: float | None = None,
    like: float | None = None,
    replicas: int = 1,
    *,
    is_difference: bool = False,
) -> MetricText:
    """Format a metric of the network in parts.

    Args:
        name: name of the metric.
        value: its value, or mean over replicas, in SI units.
        half: half width of its interval.
        like: the value that the unit is chosen for; by default *value*.
        replicas: number of replicas; there is no interval below three.
        is_difference: *value* is the difference of two values of the metric.

    >>> format_parts("delay_mean_s", 0.0123, 0.0004, replicas=3)
    MetricText(number='12.30', spread='± 0.40', unit='ms', count='(n = 3)')
    >>> str(format_parts("delay_p99_s", 1.2, like=0.01)), str(format_parts("energy_max_J", 0.06, 6e-13, replicas=3))
    ('1 200 ms', '60 mJ')
    """
    if value is None or not math.isfinite(value):
        return MetricText("–")
    if half is None:
        half = math.nan
    scale, unit = unit_of(name, value if like is None else like)
    estimate = ConfidenceInterval(value / scale, half / scale, replicas)
    if not estimate.is_shown or not estimate.half > _ROUNDING * abs(estimate.mean):
        return MetricText(_plain(estimate.mean), "", unit)
    digits = 1 - math.floor(math.log10(estimate.half))  # two significant ones of the half width
    digits = min(9, max(0, digits))
    in_si = ConfidenceInterval(value, estimate.half * scale, replicas)
    spread = _format_spread(name, in_si, lambda number: _grouped(number / scale, digits), is_difference=is_difference)
    return MetricText(_grouped(estimate.mean, digits), spread, unit, f"(n = {replicas})")


def format_column(name: str, values: Iterable[float | ConfidenceInterval]) -> list[str]:
    """Format values of one metric that are compared, all in the unit of their median, NaN as a dash.

    Args:
        name: name of the metric.
        values: its values in SI units, or their means over replicas with intervals.

    >>> format_column("delay_mean_s", [0.8, 2.0, 130.0, math.nan])
    ['0.8 s', '2 s', '130 s', '–']
    >>> format_column("jain", [ConfidenceInterval(0.5, 0.1, 4)])
    ['0.50 ± 0.10 (n = 4)']
    """
    estimates = []
    for value in values:
        if isinstance(value, ConfidenceInterval):
            estimates.append(value)
        else:
            estimates.append(ConfidenceInterval(value, math.nan, 1))
    sizes = [abs(estimate.mean) for estimate in estimates if math.isfinite(estimate.mean)]
    like = statistics.median(sizes) if sizes else None
    return [str(format_parts(name, estimate.mean, estimate.half, like, estimate.replicas)) for estimate in estimates]


def aligned(names: Sequence[str], summary: Mapping[str, Any]) -> dict[str, MetricText]:
    """Return `format_parts` of each of *names*; metrics of one kind, such as delays, share the unit of the first.

    >>> found = aligned(["delay_mean_s", "delay_p99_s"], {"delay_mean_s": 0.01, "delay_p99_s": 0.12})
    >>> [*map(str, found.values())]
    ['10 ms', '120 ms']
    >>> found = aligned(["energy_J", "energy_per_delivery_J"], {"energy_J": 43570.0, "energy_per_delivery_J": 23.29})
    >>> [*map(str, found.values())]
    ['43.57 kJ', '23.29 J']
    """
    first_of: dict[str, Any] = {}  # value of the first metric of each kind, such as "delay"
    for name in names:
        kind, separator, _ = name.partition("_")
        if separator:
            first_of.setdefault(kind, summary[name])
    replicas = int(summary.get("replicas", 1))
    parts = {}
    for name in names:
        value = summary[name]
        like = first_of.get(name.partition("_")[0])
        if like and value:
            unit, _ = unit_of(name, like)
            if not 0.1 <= abs(value) / unit < 1e4:  # it needs zeros in this unit, or five digits
                like = value
        parts[name] = format_parts(name, value, summary.get(f"{name}{HALF}"), like, replicas)
    return parts


def metric_cell(
    metric: str,
    mean: float,
    half: float = math.nan,
    replicas: int = 1,
    of: int = 1,
    *,
    is_difference: bool = False,
) -> str:
    """Format a learner's value of *metric* for tables: accuracies in percent, with its interval.

    Args:
        metric: name of the metric, such as ``rare_accuracy``.
        mean: mean over replicas.
        half: half width of the interval; NaN without one.
        replicas: number of replicas with a value; in the others training diverged.
        of: number of all replicas.
        is_difference: *mean* is the difference of two values of the metric, and has a sign.

    >>> metric_cell("accuracy", 0.81234, 0.021, 3, 3), metric_cell("t", 0.5), metric_cell("loss", 2.5e7)
    ('81.2 ± 2.1 (n = 3)', '0.500', '2.5e+07')
    >>> metric_cell("accuracy", 0.351, 0.532, 3, 3), metric_cell("accuracy", 0.351, 0.532, 2, 2)
    ('35.1 [0.0*, 88.3] (n = 3)', '35.1')
    >>> metric_cell("accuracy", 0.5, math.nan, 1, 3), metric_cell("accuracy", math.nan, math.nan, 0, 3)
    ('50.0 (n = 1 of 3)', '–')
    >>> metric_cell("accuracy", 0.0506, 0.02, 5, 5, is_difference=True)
    '+5.1 ± 2.0 (n = 5)'
    """
    text = learned_text(metric, ConfidenceInterval(mean, half, replicas), of, is_difference=is_difference)
    return str(replace(text, unit=""))


def learned_text(metric: str, estimate: ConfidenceInterval, of: int = 1, *, is_difference: bool = False) -> MetricText:
    """Return a learner's value of *metric*, or a difference of two, with the digits that all outputs share.

    Args:
        metric: name of the metric.
        estimate: mean over replicas with its interval.
        of: number of all replicas; in those without a value training diverged.
        is_difference: *estimate* is the difference of two values, and has a sign.
    """
    if not estimate.replicas or not math.isfinite(estimate.mean):
        return MetricText("–")
    scale = 1.0
    unit = ""
    if is_share(metric):
        scale = 100.0
        unit = "%"
    elif is_variance(metric):
        scale = 1e4
        unit = "%²"
    form = ".3f"
    if scale > 1.0:
        form = ".1f"
    elif abs(estimate.mean) >= _HUGE:
        form = ".1e"
    elif 0.0 < abs(estimate.mean) < _TINY and not is_declared(split_set(split_group(metric)[0])[0]):
        form = ".2e"  # such as a mean square error of a sum
    signed = f"+{form}" if is_difference else form
    spread = _format_spread(metric, estimate, lambda number: f"{scale * number:{form}}", is_difference=is_difference)
    count = ""
    if estimate.replicas < of:
        count = f"(n = {estimate.replicas} of {of})"
    elif spread:
        count = f"(n = {estimate.replicas})"
    return MetricText(f"{scale * estimate.mean:{signed}}", spread, unit, count)


def access_metrics(summary: Mapping[str, object], learners: Iterable[str] = ()) -> list[str]:
    """Return the names of the metrics of the access in a summary, in display order.

    Metrics of *learners*, outcomes, and losses that did not occur are left out.
    """
    of_learners = tuple(f"{learner}." for learner in learners)
    names = []
    for name, value in summary.items():
        if name.startswith(of_learners) or name.endswith(HALF):
            continue
        metric = find_metric(name)
        if metric.is_listed and (metric.lists_zero or value != 0):
            names.append(name)
    return sorted(names, key=sort_key)


def format_setting(value: object) -> str:
    """Format a value of a scenario, short enough for a table.

    >>> format_setting(0.30000000000000004), format_setting(12), format_setting("word " * 9)
    ('0.3', '12', 'word word word word wor…')
    """
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return shortened(text, _MAX_SETTING)


def format_by_replica(value: object, digits: int = 4) -> str:
    """Format a setting; of a list, which has the value of each replica, the median and the smallest and largest value.

    >>> format_by_replica([0.1, 0.4, 0.2]), format_by_replica([0.1, 0.1]), format_by_replica(0.25)
    ('0.2 (0.1 to 0.4)', '0.1', '0.25')
    >>> format_by_replica(["full", 8, "full"]), format_by_replica([0.2, None])
    ('full, 8', '0.2, –')

    Args:
        value: the setting; ``None`` where there is none.
        digits: digits of a number that is not whole.
    """
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if not isinstance(value, list):
        return format_setting(value)
    texts = dict.fromkeys(format_by_replica(entry, digits) for entry in value)
    if len(texts) == 1 or not all(isinstance(entry, int | float) for entry in value):
        return ", ".join(texts)
    median = format_by_replica(statistics.median(value), digits)
    smallest = format_by_replica(min(value), digits)
    largest = format_by_replica(max(value), digits)
    return f"{median} ({smallest} to {largest})"


def shortened(text: str, max_chars: int) -> str:
    """Return *text*, cut with an ellipsis to at most *max_chars*."""
    if len(text) <= max_chars:
        return text
    return f"{text[: max_chars - 1]}…"


def unit_of(name: str, value: float) -> tuple[float, str]:
    """Return the size in SI units and the name of the unit for a metric of this name and value.

    >>> unit_of("delay_mean_s", 0.02), unit_of("loss_ratio", 0.2)
    ((0.001, 'ms'), (0.01, '%'))
    """
    metric = find_metric(name)
    if metric.is_share:
        return 0.01, "%"
    for size, unit in metric.steps:  # the largest first; 0 has the SI unit
        if abs(value) >= size or (not value and size == 1.0):
            return size, unit
    return metric.steps[-1]


def percent(share: float) -> str:
    """Format a share of one in percent.

    >>> percent(0.0), percent(0.8125), percent(0.0004), percent(float("nan"))
    ('0 %', '81.2 %', '0.04 %', 'no value')
    """
    if math.isnan(share):
        return "no value"
    value = 100.0 * share
    if value == round(value):
        return f"{value:.0f} %"
    if abs(value) >= 0.1:
        return f"{value:.1f} %"
    return f"{value:.1g} %"


def end_alike(first: float, second: float, lead: ConfidenceInterval) -> bool:
    """Return whether two shares are equal, or look so in percent and do not differ significantly.

    Args:
        first: the mean of one over replicas.
        second: the mean of the other.
        lead: their difference by replica; without replicas they cannot be compared.

    >>> lead = ConfidenceInterval(0.0002, math.nan, 1)
    >>> end_alike(0.5031, 0.5029, lead), end_alike(0.5036, 0.5034, lead)
    (True, False)
    """
    if not lead.replicas:
        return False
    look_alike = format_final("accuracy", first) == format_final("accuracy", second)
    return lead.mean == 0.0 or (look_alike and not lead.clear)


def format_points(difference: float) -> str:
    """Format the distance of two shares in percentage points, from their unrounded difference.

    >>> format_points(0.0506), format_points(-0.107), format_points(0.0002)
    ('5.1 points', '10.7 points', 'less than 0.1 points')
    """
    points = f"{100.0 * abs(difference):.1f}"
    if points == "0.0":
        return "less than 0.1 points"
    return f"{points} points"


def format_lead(lead: ConfidenceInterval) -> str:
    """Format the 95 % interval of a difference of shares by replica, in percentage points.

    >>> format_lead(ConfidenceInterval(0.1, 0.02, 3)), format_lead(ConfidenceInterval(0.5, 0.7, 3))
    ('95 % interval +8.0 to +12.0, n = 3 pairs', '95 % interval −20.0 to +100.0*, n = 3 pairs')
    """
    ends = cut_interval("accuracy", lead.mean - lead.half, lead.mean + lead.half, is_difference=True)
    low = format_signed(100.0 * float(ends.low)) + CUT * bool(ends.is_low_cut)
    high = format_signed(100.0 * float(ends.high)) + CUT * bool(ends.is_high_cut)
    return f"95 % interval {low} to {high}, n = {lead.replicas} pairs"


def format_signed(value: float) -> str:
    """Format a number with its sign.

    >>> format_signed(-0.52)
    '−0.5'
    """
    return f"{value:+.1f}".replace("-", "−")


def format_count(number: int) -> str:
    """Format an integer with thin spaces between thousands.

    >>> format_count(12000).split(), format_count(2000).split()
    (['12', '000'], ['2', '000'])
    """
    return f"{number:,}".replace(",", "\u202f")


def counted(number: int, noun: str) -> str:
    """Format a number of things.

    >>> counted(1, "replica"), counted(3, "replica")
    ('1 replica', '3 replicas')
    """
    if number != 1:
        noun += "s"
    return f"{format_count(number)} {noun}"


def class_names(classes: Sequence[int]) -> str:
    """Format a list of class labels."""
    noun = "class" if len(classes) == 1 else "classes"
    return f"{noun} {join_words([str(label) for label in classes])}"


def user_names(numbers: Sequence[int], max_names: int = 12) -> str:
    """Format a list of users; beyond *max_names* they are only counted."""
    noun = "user" if len(numbers) == 1 else "users"
    names = [str(number) for number in numbers[:max_names]]
    if len(numbers) > max_names:
        names.append(f"{len(numbers) - max_names} more")
    return f"{noun} {join_words(names)}"


def left_out_sentence(users: pd.DataFrame) -> str:
    """Return a sentence on the users that an allocation left out of rounds, by the table of users; empty for none."""
    if "left_out" not in users:
        return ""
    rounds = users.groupby("user")["left_out"].sum()
    rounds = rounds[rounds > 0]
    if rounds.empty:
        return ""
    fewest = int(rounds.min())
    largest = int(rounds.max())
    number = counted(largest, "round")
    if fewest < largest:
        number = f"{fewest} to {number}"
    elif len(rounds) > 1:
        number += " each"
    together = ""
    if "replica" in users and users["replica"].nunique() > 1:
        together = ", all replicas together"
    verb = "was" if len(rounds) == 1 else "were"
    names = capitalized(user_names(rounds.index.tolist()))
    return f"{names} {verb} left out by the allocation: of {number}{together}, in which they have no updates."


def join_words(parts: Sequence[str]) -> str:
    """Join a list for a sentence.

    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    if len(parts) == 1:
        return parts[0]
    return ", ".join(parts[:-1]) + " and " + parts[-1]


def _plain(value: float) -> str:
    """Return a number without an interval: whole, or with four digits."""
    if value == round(value) or abs(value) >= 1e3:
        return _grouped(value, 0)
    return f"{value:.4g}"


def _grouped(value: float, digits: int) -> str:
    """Return a number with spaces between thousands."""
    return f"{value:,.{digits}f}".replace(",", " ")
