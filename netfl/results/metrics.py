"""Catalogue of metrics: what each is called, its unit, and the tables that show it.

A metric is declared here once.  Formatting, the sections of reports, the views on the terminal, the tables of sweeps
and comparisons, and the reference read the declaration.  A run records no other metric, unless

- a plug-in reports it (`netfl.types.Reported`): its declaration is in the manifest of the run, and functions that show
  the run look it up `with_reported`;
- its access declares it (`netfl.access.AccessInfo.metrics`), or it comes from an app of Flower.  Those are described by
  their names alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Literal

from netfl.errors import find_meant
from netfl.learning.performance import split_group, split_set

UNITS: Mapping[str, tuple[tuple[float, str], ...]] = {
    "s": ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "bps": ((1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps"), (1.0, "bps")),
    "J": ((1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")),
    "bits": ((8e12, "TB"), (8e9, "GB"), (8e6, "MB"), (8e3, "kB"), (8.0, "B")),
    "hz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")),
    "db": ((1.0, "dB"),),
}
"""Units for display, from the largest, with their size in SI units, by the unit at the end of a metric's name."""

View = Literal[
    "final",  # final values of the learners of a run
    "report",  # further final values, in reports only
    "curves",  # curves over rounds and costs
    "others",  # curves of further metrics over the rounds
    "verdict",  # sentences that name the best learner
    "headline",  # the overview of a run, and tables for papers
    "sweep",  # plots and rankings in the report of a sweep
    "points",  # points of a sweep on the terminal
    "delays",  # delays of several runs
    "costs",  # costs of rounds of several runs, beside the delays
    "target",  # cost of a target accuracy
]
"""Tables, plots and sentences for which metrics are selected."""

LAST_RANK = 100
"""Rank of metrics that follow all others in tables of the access."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric, or all metrics whose names match a pattern.

    Args:
        name: its name; ``*`` stands for any characters, as in ``utilisation.*``.
        label: its name in sentences and at axes, in which ``{}`` stands for what ``*`` matches; by default the name in
            words, without its unit.
        head: head of its column in tables of learners, without a capital; by default the label.
        unit: a key of `UNITS`, ``%`` for a share of one, or ``%²`` for a variance of shares; by default the end of the
            name.
        limits: smallest and largest possible value; by default 0 and 1 for a share, no limit below 0 for amounts in a
            unit other than dB, and none for others.
        low_is_good: whether the lowest value is the best; ``None`` if values of learners are not comparable.
        rank: place in tables of the access; metrics of equal rank keep the order in which they are reported.
        is_learned: it is a metric of learners, not of the access.
        has_sets: tables show it for each further test set, too.
        is_cost: a lower value costs less, and payloads of learners change it; always so in bits and joules.
        is_listed: tables of the access show it; others are reported in sentences.
        lists_zero: tables of the access show it if it is 0.
        is_family: it stands for many metrics, of which the terminal shows the largest.
        views: where it is selected, with its name there; empty for its usual name.
    """

    name: str
    label: str = ""
    head: str = ""
    unit: str = ""
    limits: tuple[float, float] | None = None
    low_is_good: bool | None = False
    rank: int = LAST_RANK
    is_learned: bool = False
    has_sets: bool = False
    is_cost: bool = False
    is_listed: bool = True
    lists_zero: bool = True
    is_family: bool = False
    views: Mapping[View, str] = field(default_factory=dict)

    @property
    def is_share(self) -> bool:
        """The metric is a share of one, displayed in percent."""
        return self.unit == "%"

    @property
    def is_pattern(self) -> bool:
        """The entry stands for all metrics whose names match."""
        return "*" in self.name

    @property
    def steps(self) -> tuple[tuple[float, str], ...]:
        """Units for display, from the largest, with their size in SI units."""
        return UNITS.get(self.unit, ((1.0, ""),))

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        if self.limits is not None:
            return self.limits
        if self.is_share:
            return 0.0, 1.0
        is_amount = self.unit == "%²" or (self.unit in UNITS and self.unit != "db")
        return (0.0 if is_amount else -math.inf), math.inf

    def matches(self, name: str) -> bool:
        """Return whether a metric of this *name*, or the one whose theoretical value it is, matches the pattern."""
        return any(fnmatchcase(each, self.name) for each in (name, name.partition("_theory")[0]))

    def named(self, name: str) -> Metric:
        """Return the metric of this *name*, with a label and a unit where they are not declared."""
        before, _, after = self.name.partition("*")
        matched = name.removeprefix(before).removesuffix(after)
        unit = self.unit or name.rpartition("_")[2]
        label = self.label.replace("{}", matched.replace("_", " ")) or _words(name)
        return replace(
            self,
            name=name,
            label=label,
            head=self.head or label,
            unit=unit if unit in {*UNITS, "%", "%²"} else "",
            is_cost=self.is_cost or unit in {"bits", "J"},
        )


def _words(name: str) -> str:
    """Return the name of a metric in words, without its unit.

    >>> _words("utilisation.router:0"), _words("delay_theory_s")
    ('utilisation, router:0', 'delay, theory')
    """
    words, _, unit = name.rpartition("_")
    if unit not in UNITS:
        words = name
    words, theory, more = words.partition("_theory")
    words = words.replace(".", ", ")
    if theory:
        words += ", theory"
    return f"{words}{more}".replace("_", " ")


_SHARE = (0.0, 1.0)
_POSITIVE = (0.0, math.inf)
"""Limits of shares that are not displayed in percent, and of amounts without a unit."""

_LEARNING: tuple[Metric, ...] = (
    Metric(
        name="accuracy",
        unit="%",
        has_sets=True,
        views={
            "final": "",
            "curves": "",
            "verdict": "Over all classes",
            "headline": "Test accuracy",
            "sweep": "accuracy",
            "points": "",
        },
    ),
    Metric(
        name="rare_accuracy",
        label="rare-class accuracy",
        head="rare classes",
        unit="%",
        has_sets=True,
        views={
            "final": "",
            "curves": "",
            "verdict": "On the rare classes",
            "headline": "",
            "sweep": "accuracy on the rare classes",
            "points": "",
        },
    ),
    Metric(
        name="accuracy_users_mean",
        label="mean over users",
        unit="%",
        has_sets=True,
        views={"report": "", "sweep": "mean accuracy over users"},
    ),
    Metric(
        name="accuracy_users_worst10",
        label="worst 10 % of users",
        head="worst 10 %",
        unit="%",
        has_sets=True,
        views={"final": "", "headline": "", "sweep": "accuracy of the worst 10 % of users"},
    ),
    Metric(
        name="accuracy_users_best10",
        label="best 10 % of users",
        head="best 10 %",
        unit="%",
        views={"final": ""},
    ),
    Metric(
        name="accuracy_users_variance",
        label="variance over users",
        head="variance",
        unit="%²",
        low_is_good=True,
        views={"final": ""},
    ),
    Metric(name="accuracy_users_jain", label="Jain index of accuracies", limits=_SHARE, views={"final": ""}),
    Metric(
        name="own_accuracy",
        label="own models",
        unit="%",
        views={"final": "", "headline": "", "sweep": "accuracy of the devices' own models", "others": ""},
    ),
    Metric(
        name="own_accuracy_worst10",
        label="own models, worst 10 % of users",
        head="own models, worst 10 %",
        unit="%",
        views={"final": "", "sweep": "accuracy of the worst 10 % of own models"},
    ),
    Metric(name="own_loss", label="loss of own models", low_is_good=True, views={"report": ""}),
    Metric(
        name="fine_tuned_accuracy",
        label="own models after fine-tuning",
        head="fine-tuned",
        unit="%",
        views={"final": "", "headline": "", "sweep": "accuracy of own models after fine-tuning", "others": ""},
    ),
    Metric(
        name="fine_tuned_accuracy_worst10",
        label="own models after fine-tuning, worst 10 % of users",
        head="fine-tuned, worst 10 %",
        unit="%",
        views={"final": ""},
    ),
    Metric(name="fine_tuned_loss", label="loss after fine-tuning", low_is_good=True, views={"report": ""}),
    *(
        Metric(name=f"{prefix}_{name}", limits=_POSITIVE, low_is_good=True, views={"report": ""})
        for prefix in ("own", "fine_tuned")
        for name in ("mse", "mae")
    ),
    Metric(name="validation_accuracy", head="validation", unit="%", views={"final": "", "others": ""}),
    Metric(name="validation_loss", low_is_good=True, views={"others": ""}),
    Metric(name="weight_divergence", limits=_POSITIVE, low_is_good=None, views={"others": ""}),
    Metric(name="gradient_norm", limits=_POSITIVE, low_is_good=None, views={"others": ""}),
    Metric(name="staleness_mean", label="staleness", limits=_POSITIVE, low_is_good=None, views={"others": ""}),
    Metric(name="staleness_max", limits=_POSITIVE, low_is_good=None),
    Metric(
        name="r2",
        label="R²",
        limits=(-math.inf, 1.0),
        has_sets=True,
        views={"final": "", "curves": "", "headline": "R² on the test set", "points": ""},
    ),
    Metric(
        name="mse",
        label="mean squared error",
        head="MSE",
        limits=_POSITIVE,
        low_is_good=True,
        views={"final": "", "headline": ""},
    ),
    Metric(
        name="mae",
        label="mean absolute error",
        head="MAE",
        limits=_POSITIVE,
        low_is_good=True,
        views={"final": ""},
    ),
    Metric(name="loss", low_is_good=True, views={"final": "", "points": ""}),
    Metric(name="t", low_is_good=None, views={"final": ""}),
    Metric(name="objective", low_is_good=None, views={"final": ""}),
    Metric(name="cvar", label="CVaR of the loss", low_is_good=None),
    Metric(name="weight", low_is_good=None),
    Metric(name="chosen", low_is_good=None),
)
"""Metrics of learners, in the order of tables; `docs/metrics.md` defines them."""

_OF_TRAFFIC = (
    ("throughput_bps", "throughput", "bps", 0),
    ("offered_bps", "offered load", "bps", 1),
    ("delivered", "delivered", "", 2),
    ("loss_ratio", "lost, total", "%", 4),
    ("backlog", "backlog at the end", "", 4),
    ("delay_mean_s", "delay, mean", "s", 6),
    ("delay_p50_s", "delay, p50", "s", 6),
    ("delay_p95_s", "delay, p95", "s", 6),
    ("delay_p99_s", "delay, p99", "s", 6),
    ("jain", "Jain index of deliveries", "", 8),
)
"""Name, label, unit and rank of metrics that each class of traffic has."""

_BY_CLASS: tuple[Metric, ...] = tuple(
    Metric(name=f"{prefix}{name}.*", label=f"{first}{label}, {{}}", unit=unit, rank=rank, is_family=True)
    for prefix, first in (("", ""), ("traffic.", "traffic, "))
    for name, label, unit, rank in _OF_TRAFFIC
)
"""Metrics of classes of traffic, alone or beside updates."""

_ACCESS: tuple[Metric, ...] = (
    Metric(name="rounds", is_listed=False, views={"target": "round {}"}),
    Metric(name="replicas", is_listed=False),
    Metric(name="simulated_s", is_cost=True, is_listed=False),
    Metric(name="duration_s", is_listed=False),
    Metric(name="stop_s", is_listed=False),
    Metric(name="warmup_s", is_listed=False),
    Metric(name="time_s", is_cost=True, views={"target": "{}"}),
    Metric(name="rounds_per_hour", limits=_POSITIVE, views={"sweep": "", "points": "", "costs": "Rounds per hour"}),
    Metric(
        name="delivered_per_round",
        limits=_POSITIVE,
        rank=2,
        views={"headline": "", "sweep": "", "points": ""},
    ),
    Metric(name="duplicates", label="copies of frames that further towers received"),
    Metric(name="frames_clipped", label="frames that needed more power than the radio has", lists_zero=False),
    Metric(
        name="frames_withheld", label="times that a user withheld its frame, as its channel was bad", lists_zero=False
    ),
    Metric(name="access_failures", label="frames given up, as the medium was never free", lists_zero=False),
    Metric(name="left_out", label="left out by the allocation, users times rounds", lists_zero=False),
    Metric(name="users_left_out", label="users left out by the allocation", lists_zero=False),
    Metric(name="rounds_abandoned"),
    Metric(name="evaluations"),
    Metric(name="evaluation_answers"),
    Metric(name="evaluation_missed"),
    Metric(name="evaluation_s"),
    Metric(name="versions_superseded"),
    Metric(name="version_lag_max"),
    Metric(name="throughput_bps", rank=0, views={"headline": "", "sweep": "", "points": ""}),
    Metric(name="offered_bps", label="offered load", rank=1),
    Metric(name="delivered", rank=2),
    Metric(
        name="delay_mean_s",
        label="delay, mean",
        rank=6,
        views={"headline": "", "sweep": "", "points": "", "delays": "Mean delay"},
    ),
    Metric(name="delay_p50_s", label="delay, p50", rank=6, views={"delays": "Median"}),
    Metric(name="delay_p95_s", label="delay, p95", rank=6, views={"delays": "95 % within"}),
    Metric(name="delay_p99_s", label="delay, p99", rank=6, views={"delays": "99 % within"}),
    Metric(
        name="attempts_mean",
        label="attempts per update, delivered ones only",
        views={"costs": "Attempts of a delivered update"},
    ),
    Metric(name="parts_lost_share", label="parts lost of delivered updates", unit="%", rank=4, views={"points": ""}),
    Metric(name="attempts"),
    Metric(name="handovers_per_user_hour", label="handovers per user and hour", limits=_POSITIVE),
    Metric(name="packets_sent"),
    Metric(name="packets_retransmitted"),
    Metric(name="loss_ratio", label="lost, total", unit="%", rank=4, views={"sweep": "", "points": ""}),
    Metric(name="backlog", label="backlog at the end", rank=4),
    Metric(
        name="jain",
        label="Jain index of deliveries",
        limits=_SHARE,
        rank=8,
        views={"headline": "", "sweep": "", "points": ""},
    ),
    Metric(name="uplink_bits", label="sent on the uplink", views={"costs": "Sent up", "target": "{} up"}),
    Metric(name="downlink_bits", label="sent on the downlink", views={"target": "{} down"}),
    Metric(name="uplink_symbols", label="analogue symbols on the uplink", views={"costs": "Sent up in the air"}),
    Metric(name="billed_uplink_bits", label="billed per update"),
    Metric(name="billed_downlink_bits", label="billed per broadcast"),
    Metric(name="collision_probability", label="collisions per attempt", unit="%"),
    Metric(name="fade_probability", unit="%"),
    Metric(name="snr_mean_db", label="SNR, mean"),
    Metric(name="snr_theory_db", label="SNR, theory"),
    Metric(name="power_mean"),
    Metric(name="power_variance"),
    Metric(name="level_crossing_rate_hz"),
    Metric(name="fade_duration_s"),
    Metric(name="autocorrelation"),
    Metric(name="availability", unit="%"),
    Metric(name="up_mean_s"),
    Metric(name="down_mean_s"),
    Metric(name="energy_J", views={"target": "{}"}),
    Metric(name="energy_train_J", label="energy, training"),
    Metric(name="energy_evaluate_J", label="energy, evaluating"),
    Metric(name="energy_send_J", label="energy, sending"),
    Metric(name="energy_receive_J", label="energy, receiving"),
    Metric(name="energy_idle_J", label="energy, idle"),
    Metric(name="energy_per_delivery_J"),
    Metric(name="energy_max_J", label="energy, maximum of a user"),
    Metric(name="energy_jain", label="Jain index of energy"),
    Metric(name="lost.lost", label="lost, outage", rank=5, lists_zero=False, is_family=True),
    # the first pattern that matches counts
    Metric(name="attempts.*", is_listed=False),
    *_BY_CLASS,
    Metric(name="outcome.*", is_listed=False),
    Metric(name="share.*", label="updates {}", unit="%", rank=3, lists_zero=False, is_family=True),
    Metric(name="lost.*", rank=5, lists_zero=False, is_family=True),
    Metric(name="traffic.lost.*", is_family=True),
    Metric(name="utilisation.*", unit="%", rank=7, is_family=True),
    Metric(name="synchronised.*"),
    Metric(name="*.target:*.time_s", is_cost=True),
    # names of users' models, of theory and of prefixed metrics
    Metric(name="throughput_bps*", rank=0),
    Metric(name="offered_bps*", rank=1),
    Metric(name="delivered*", rank=2),
    Metric(name="loss_ratio*", unit="%", rank=4),
    Metric(name="delay_*", rank=6),
    Metric(name="utilisation*", unit="%", rank=7),
    Metric(name="jain*", rank=8),
    *(Metric(name=f"*{end}", unit="%") for end in ("_ratio", "_probability", "_share")),
    *(Metric(name=f"*{end}", unit="%") for end in ("availability", "outage", "collision")),
)
"""Metrics of the access and costs of runs, then patterns."""

CATALOGUE: tuple[Metric, ...] = (*(replace(metric, is_learned=True) for metric in _LEARNING), *_ACCESS)
"""All declared metrics and patterns."""

_METRICS: Mapping[str, Metric] = {metric.name: metric for metric in CATALOGUE if not metric.is_pattern}
_PATTERNS: tuple[Metric, ...] = tuple(metric for metric in CATALOGUE if metric.is_pattern)


_REPORTED: ContextVar[Mapping[str, Metric]] = ContextVar("reported", default=MappingProxyType({}))
"""Metrics of plug-ins by name, of the runs that are shown."""


def reported_metrics(entries: Iterable[Mapping[str, Any]]) -> tuple[Metric, ...]:
    """Return the metrics that plug-ins report, from the entries ``reported`` of a manifest."""
    return tuple(
        Metric(
            name=str(entry["name"]),
            label=_label_with_unit(entry),
            head=str(entry["label"]),
            unit=str(entry["unit"]),
            low_is_good=entry["low_is_good"],
            is_learned=bool(entry["is_learned"]),
            views={"final": "", "others": ""} if entry["is_learned"] else {},
        )
        for entry in entries
    )


def _label_with_unit(entry: Mapping[str, Any]) -> str:
    """Return the label of a reported metric; of a learner with its SI unit, as tables of learners convert no units."""
    unit = str(entry["unit"])
    if not entry["is_learned"] or unit not in UNITS:
        return str(entry["label"])
    names = dict(UNITS[unit])
    return f"{entry['label']} ({names.get(1.0, unit)})"


@contextmanager
def with_reported(*metrics: Sequence[Metric]) -> Iterator[None]:
    """Let `find_metric` and the views know reported *metrics*, such as `Run.reported`, until the context ends.

    Of equal names the first one counts: runs that are shown together may have other plug-ins.
    """
    reported = dict(_REPORTED.get())
    for of_run in reversed(metrics):
        reported |= {metric.name: metric for metric in of_run}
    token = _REPORTED.set(MappingProxyType(reported))
    try:
        yield
    finally:
        _REPORTED.reset(token)


def catalogue() -> tuple[Metric, ...]:
    """Return all declared metrics and patterns, and the reported ones of the runs that are shown."""
    return (*CATALOGUE, *_REPORTED.get().values())


def find_metric(name: str) -> Metric:
    """Return the metric of a *name*, whatever its test set: declared itself, by a pattern, or by its name alone.

    A metric that a plug-in reports is known `with_reported`.  Names alone are those of accesses and apps of users;
    `check_declared` has refused others before they were recorded.  A metric of a group, such as
    ``accuracy/block:remote``, is declared with the metric.

    >>> find_metric("delay_mean_s").label, find_metric("utilisation.tower:0").unit, find_metric("own_rate_bps").label
    ('delay, mean', '%', 'own rate')
    """
    without_group, _ = split_group(name)
    base, _ = split_set(without_group)
    declared = _METRICS.get(base) or _REPORTED.get().get(base)
    if declared is None:
        declared = next((pattern for pattern in _PATTERNS if pattern.matches(name)), Metric(name=name))
    return declared.named(name)


def is_declared(name: str) -> bool:
    """Return whether the catalogue has a metric of exactly this *name*."""
    return name in _METRICS


def check_declared(names: Iterable[str], declared: Collection[str] = ()) -> None:
    """Check that metrics of an access are in the catalogue, or among those that it has *declared*.

    A theory names its values after metrics, with ``_theory``, and declares none.

    Args:
        names: the metrics.
        declared: names that the access declares, in which ``*`` stands for any characters.

    Raises:
        ValueError: nobody declares a metric.
    """
    for name in names:
        # traffic beside updates has the metrics of a network without them
        without_prefix = name.removeprefix("traffic.")
        if without_prefix in _METRICS or "_theory" in name or any(pattern.matches(name) for pattern in _PATTERNS):
            continue
        if any(fnmatchcase(name, pattern) for pattern in declared):
            continue
        near = find_meant(name, [*_METRICS]) or next(iter(get_close_matches(name, [*_METRICS], n=1)), "")
        meant = ""
        if near:
            meant = f"did you mean '{near}'? Else "
        raise ValueError(f"no metric ('{name}'); {meant}declare it: AccessInfo(metrics=('{name}',))")


def metrics_in(view: View, *, is_learned: bool | None = None) -> dict[str, str]:
    """Return the metrics that a view selects, in their order, each with its name there.

    Args:
        view: the view.
        is_learned: only metrics of learners, or only metrics of the access.

    >>> list(metrics_in("headline", is_learned=False))
    ['delivered_per_round', 'throughput_bps', 'delay_mean_s', 'jain']
    """
    return {
        metric.name: metric.views[view]
        for metric in catalogue()
        if view in metric.views and is_learned in (None, metric.is_learned)
    }
