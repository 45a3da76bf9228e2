"""Findings of our own about tuned learners: hypotheses written before the runs, verdicts by intervals, and their page.

A finding is one sweep, or one for each override block of its scenario in ``scenarios/findings/``.  Each point of a
sweep tunes its learners by validation, so that no learner is ahead by its step size.

    netfl sweep scenarios/findings/absence.yaml --out runs/findings/absence
    netfl sweep scenarios/findings/step_or_cvar.yaml --override sticky --out runs/findings/step_or_cvar-sticky
    python analysis/findings.py runs/findings/*      store the results, write the page and its plots
    python analysis/findings.py                         write the page from the stored results
    python analysis/findings.py --judge                 print which stored choices of step sizes do not stand
"""

from __future__ import annotations

import argparse
import math
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path

import cvar_map
import numpy as np
import pandas as pd
from chosen_candidates import AT_EDGE, INSIDE, NONE_LEARNS, Choice, read_choices
from judged_tuning import DEAD, EDGE, STANDS, judge_choices
from matplotlib.figure import Figure
from wording import wrap_paragraph

import netfl
from netfl.errors import NetflError
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.tuning import MAX_WIDENINGS, grid_centres
from netfl.plots import style
from netfl.results.formatting import cut_interval, format_by_replica
from netfl.results.statistics import ConfidenceInterval, interval, metric_of
from netfl.scenario.scenario import Scenario
from netfl.sweeps.results import Sweep
from netfl.types import Bools, Floats

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "analysis/results/findings"
PAGE = ROOT / "docs/findings.md"
PLOTS = ROOT / "docs/findings"
METRICS = ("accuracy", "rare_accuracy", "jain", "energy_J")
NETWORK_LABELS = {"jain": "Jain index of deliveries", "energy_J": "energy of all users (J)"}
WEIGHT = "weight_times_rate"
"""Metric of FedAU: the mean weight of the rarest user's updates, times its rate; 1 is unbiased."""
FORMER = ""
"""Entry ``tuning`` of rows that were tuned by the former rule; others have the state of their choice."""
_COLUMNS = ["block", "point", "learner", "lr", "replica", "metric", "value", "tuning"]
_TYPES = {"block": str, "point": str, "learner": str}


@dataclass(frozen=True)
class Series:
    """A metric of one learner at one point of one sweep, a value for each replica.

    Args:
        block: label of the sweep.
        point: label of the point.
        learner: name of the learner; empty for a metric of the network.
        metric: name of the metric.
    """

    block: str
    point: str
    learner: str
    metric: str = "rare_accuracy"

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.learner, self.block, self.point)))


@dataclass(frozen=True)
class Hypothesis:
    """A statement about the difference of two series, paired by replica, that was written before the runs.

    Args:
        text: the statement in words.
        first: the series that is expected to be higher, or to be equal.
        second: the series that is subtracted.
        margin: in the unit of the metric: the difference exceeds it, or stays within it in both directions.
        is_equality: the difference stays within the margin.
    """

    text: str
    first: Series
    second: Series
    margin: float = 0.0
    is_equality: bool = False

    def verdict(self, difference: ConfidenceInterval) -> str:
        """Return ``yes``, ``no`` or ``open``, by the 95 % interval of the difference.

        >>> claim = Hypothesis("", Series("", "", "A"), Series("", "", "B"), margin=0.05)
        >>> claim.verdict(ConfidenceInterval(0.2, 0.1, 5)), claim.verdict(ConfidenceInterval(0.1, 0.1, 5))
        ('yes', 'open')
        """
        low, high = difference.mean - difference.half, difference.mean + difference.half
        if np.isnan(difference.half):
            return "open"
        if self.is_equality:
            if -self.margin <= low and high <= self.margin:
                return "yes"
            return "no" if low > self.margin or high < -self.margin else "open"
        if low > self.margin:
            return "yes"
        return "no" if high < self.margin else "open"


@dataclass(frozen=True)
class Finding:
    """A question, the sweeps that answer it, and the hypotheses.

    Args:
        name: name of the scenario file.
        title: heading on the page.
        question: what is asked and how, in words.
        blocks: override block of each sweep by its label; empty for the scenario as it is.
        points: labels of the points of each sweep.
        axis: what the points are.
        learners: the learners, in the order of the plot.
        hypotheses: statements written before the runs.
        core_hours: hours of one core for all sweeps, measured or, before they ran, by `netfl check`.
        answer: what the runs say, in words, written after them; empty before.
        network: metrics of the network that the table shows.
        is_map: the plot is a map of learners and points, with the weights of FedAU, and no lines.
    """

    name: str
    title: str
    question: str
    blocks: Mapping[str, str]
    points: Sequence[str]
    axis: str
    learners: Sequence[str]
    hypotheses: Sequence[Hypothesis]
    core_hours: float
    answer: str = ""
    network: Sequence[str] = ()
    is_map: bool = False

    @property
    def scenario_file(self) -> str:
        """The scenario, from the root of the project."""
        return f"scenarios/findings/{self.name}.yaml"

    @property
    def results_file(self) -> Path:
        """The stored results."""
        return RESULTS / f"{self.name}.csv"

    @property
    def commands(self) -> list[str]:
        """The commands that run the sweeps."""
        commands = []
        for block in self.blocks.values():
            override = f" --override {block}" if block else ""
            folder = f"{self.name}-{block}" if block else self.name
            commands.append(f"netfl sweep {self.scenario_file}{override} --out runs/findings/{folder}")
        return commands

    def load(self, block: str) -> Scenario:
        """Return the scenario of the sweep with an override *block*."""
        return netfl.load(ROOT / self.scenario_file, {}, [block] if block else [])

    @property
    def results(self) -> pd.DataFrame:
        """The stored results: one row for each block, point, learner, replica and metric; empty without any."""
        if not self.results_file.exists():
            return pd.DataFrame(columns=_COLUMNS)
        table = pd.read_csv(self.results_file, keep_default_na=False, na_values={"lr": [""]}, dtype=_TYPES)
        return table if "tuning" in table else table.assign(tuning=FORMER)

    @cached_property
    def judgements(self) -> dict[tuple[str, str, str], str]:
        """The state of each choice of the former rule of tuning, by block, point and learner; see `judge_choices`."""
        states = {}
        for label, block in self.blocks.items():
            rows = self.results
            of_block = judge_choices(self.load(block), rows[(rows["block"] == label) & (rows["tuning"] == FORMER)])
            states |= {(label, *key): state for key, state in of_block.items()}
        return states

    def values(self, series: Series) -> pd.Series[float]:
        """Return the values of a series by replica; empty if it was not run."""
        return self._rows(series)["value"].astype(float)

    def is_inside(self, series: Series) -> pd.Series[bool]:
        """Return by replica whether the choice of a series is inside its range; those of the former rule count."""
        return self._rows(series)["tuning"].isin([FORMER, INSIDE])

    def is_tuned(self, series: Series) -> bool:
        """Return whether the choices of a series are inside in half of its replicas."""
        return bool(self.is_inside(series).mean() >= 0.5)

    def verdict(self, hypothesis: Hypothesis) -> str:
        """Return the verdict of a hypothesis that was run; it is open if a series is not tuned."""
        if not (self.is_tuned(hypothesis.first) and self.is_tuned(hypothesis.second)):
            return "open"
        return hypothesis.verdict(self.difference(hypothesis))

    def difference(self, hypothesis: Hypothesis) -> ConfidenceInterval:
        """Return the mean difference of a hypothesis over the replicas that both series have."""
        return interval(self._paired(hypothesis))

    def difference_inside(self, hypothesis: Hypothesis) -> ConfidenceInterval:
        """Return the mean difference of a hypothesis over the replicas in which both choices are inside."""
        is_inside = self.is_inside(hypothesis.first) & self.is_inside(hypothesis.second)
        paired = self._paired(hypothesis)
        return interval(paired[is_inside[paired.index]])

    def _paired(self, hypothesis: Hypothesis) -> pd.Series[float]:
        """Return the differences of a hypothesis by replica, where both series have one."""
        return (self.values(hypothesis.first) - self.values(hypothesis.second)).dropna()

    def _rows(self, series: Series) -> pd.DataFrame:
        """Return the stored rows of a series by replica."""
        table = self.results
        is_wanted = (table["block"] == series.block) & (table["point"] == series.point)
        is_wanted &= (table["learner"] == series.learner) & (table["metric"] == series.metric)
        return table[is_wanted].set_index("replica")


FEDAVG, CVAR_3, CVAR_1, CVAR_SMALL = "FedAvg", "CVaR 0.3", "CVaR 0.1", "CVaR 0.03"
CVAR_MEMORY = "CVaR 0.1 over MIFA"
_RATES = ("2 %", "1 %", "0.5 %")
_ABSENCES = ("20", "50", "100", "200", "500", "1,000")
_LONGER_ABSENCES = ("20", "50", "200", "1,000")
_CUTOFFS = ("K = 5", "K = 20", "K = 50", "K = 200", "no cutoff")
_MACS = ("slotted ALOHA", "CSMA/CA", "TDMA", "round robin", "age-adaptive ALOHA")
_POINT = 0.05
"""Smallest difference of accuracies that would change a choice between two learners: five points."""


def _gains(block: str, points: Sequence[str], *, is_equality: bool, learner: str = CVAR_3) -> list[Hypothesis]:
    """Return that a FED-CVaR-AVG gains more than five points over FedAvg, or that both are equal within them."""
    words = "is within 5 points of that of" if is_equality else "is more than 5 points above that of"
    return [
        Hypothesis(
            f"{block}, {point}: the rare accuracy of {learner} {words} {FEDAVG}",
            Series(block, point, learner),
            Series(block, point, FEDAVG),
            _POINT,
            is_equality,
        )
        for point in points
    ]


FINDINGS = (
    Finding(
        name="step_or_cvar",
        title="When is CVaR more than a step size?",
        question=(
            "Is CVaR better, or does it only take longer steps? An example whose loss is above the threshold of CVaR "
            "counts (1-γ)/α+γ times, which makes the step longer. Ten users hold the digits, and only the rarest "
            "holds the nines. FedAvg and FED-CVaR-AVG with α = γ = 0.3 and 0.1 have seven step sizes each. Earlier "
            "runs found no gain at equal effective steps on digits with independent rounds, and one of 17 points on "
            "Fashion-MNIST with Markovian access. We therefore expect a gain where the rarest user is away for long, "
            "and none where its rounds are independent."
        ),
        blocks={
            "independent": "",
            "Markov, 50 rounds": "markov",
            "Markov, 200 rounds": "sticky",
            "cycle of 200": "cyclic",
            "fading cell": "emergent",
        },
        points=_RATES,
        axis="deliveries of the rarest user",
        learners=(FEDAVG, CVAR_3, CVAR_1),
        hypotheses=[
            *_gains("independent", _RATES, is_equality=True),
            *_gains("fading cell", _RATES, is_equality=True),
            *_gains("Markov, 200 rounds", _RATES[:2], is_equality=False),
            *_gains("cycle of 200", _RATES[:2], is_equality=False),
        ],
        core_hours=1.0,
        answer=(
            "On digits, nowhere. At each of the fifteen points the tuned CVaR of α = γ = 0.3 is within a point of the "
            "tuned FedAvg, in the mean, and both choose the same effective step. None of the thirty intervals of a "
            "difference, those of α = γ = 0.1 included, excludes zero. Where rounds are independent, and in the cell, "
            "we expected that. Long absences and cycles make the rare class harder for all learners alike, which we "
            "did not expect: the two hypotheses on each are refuted."
        ),
    ),
    Finding(
        name="fashion",
        title="Does a gain of CVaR remain on Fashion-MNIST?",
        question=(
            "In our own experiments with equal steps ([here](reproduction/own_experiments.md)) CVaR of α = γ = 0.1 "
            "gains 17 to 26 points on rare classes. A measurement on two seeds, with FedAvg at five step sizes and "
            "CVaR at three, found that 17 points remain with Markovian access, where digits kept nothing. Here the "
            "same accesses are tuned on fresh seeds, for 2,000 rounds in place of 4,000: thirty users, one of them "
            "delivered in each round, and the three rarest hold the classes 8 and 9. The network has three towers, "
            "fading, collisions, a storm and nights."
        ),
        blocks={
            "Markov": "markov",
            "network": "emergent",
            "independent": "",
            "long absences": "sticky",
            "cycle of 100": "cyclic",
        },
        points=("3 users",),
        axis="users with the rare classes",
        learners=(FEDAVG, CVAR_3, CVAR_1),
        hypotheses=[
            *(
                hypothesis
                for block in ("Markov", "network", "independent", "long absences", "cycle of 100")
                for hypothesis in _gains(block, ("3 users",), is_equality=False, learner=CVAR_1)
            ),
            Hypothesis(
                "Markov, 3 users: the accuracy on all classes of CVaR 0.1 is above that of FedAvg",
                Series("Markov", "3 users", CVAR_1, "accuracy"),
                Series("Markov", "3 users", FEDAVG, "accuracy"),
            ),
        ],
        core_hours=2.4,
        answer=(
            "In none of the five accesses. The gain that we had seen came from the lower end of a grid: FedAvg had "
            "steps of 0.02 to 0.3 and reached 30 % on the rare classes, and its tuned step is 0.00045, a fortieth of "
            "the smallest of those. All three learners choose a step below 0.001, probably because a model that moves "
            "little between two visits of the rare users forgets less. Tuned CVaR of α = γ = 0.1 is 3 to 4 points "
            "below FedAvg on the rare classes, and in the network no difference is shown. In the network and with "
            "cycles FedAvg is best at the smallest step of the widest grid, so that a still smaller one may be "
            "better, which would not help CVaR; with long absences that holds of CVaR of α = γ = 0.3."
        ),
    ),
    Finding(
        name="linear_model",
        title="Where does a gain of CVaR remain?",
        question=(
            "We looked for a network in which a gain remains when all step sizes are tuned. On development seeds, "
            "four replicas each, we tried eleven settings in a cell with fading, whose farthest user is delivered "
            "in one or two of a hundred rounds: digits with a linear model and with three to six hidden units, "
            "Synthetic(1, 1), Adult, and Fashion-MNIST with shirts as the rare class. A gain seemed to remain where "
            "the model cannot fit all classes at once. The clearest was that of shirts with a linear model: 5.7 % "
            "of them right with FedAvg and 11.2 % with CVaR of α = γ = 0.1, for 0.8 points on all classes. Here "
            "that setting runs on fresh seeds, and on a second data set that was not tried before: CIFAR-10, whose "
            "rare class is the cats. The margin of accuracy on all classes is two points. In these two, the step "
            "sizes were chosen, and the last tenth judged, by three to six evaluations, and some of them fell right "
            "after an update of the rare user, which made the rare accuracy of all learners jump. We therefore "
            "repeated both on other seeds with five times as many evaluations, and with the same hypotheses."
        ),
        blocks={
            "Fashion-MNIST, shirts": "",
            "CIFAR-10, cats": "cifar",
            "shirts, evaluated often": "often",
            "cats, evaluated often": "cifar_often",
        },
        points=("1 user",),
        axis="users with the rare class",
        learners=(FEDAVG, CVAR_3, CVAR_1),
        hypotheses=[
            hypothesis
            for block in (
                "Fashion-MNIST, shirts",
                "CIFAR-10, cats",
                "shirts, evaluated often",
                "cats, evaluated often",
            )
            for hypothesis in (
                Hypothesis(
                    f"{block}: the rare accuracy of {CVAR_1} is above that of {FEDAVG}",
                    Series(block, "1 user", CVAR_1),
                    Series(block, "1 user", FEDAVG),
                ),
                Hypothesis(
                    f"{block}: the accuracy on all classes of {CVAR_1} is less than 2 points below that of {FEDAVG}",
                    Series(block, "1 user", CVAR_1, "accuracy"),
                    Series(block, "1 user", FEDAVG, "accuracy"),
                    margin=-0.02,
                ),
            )
        ],
        core_hours=1.4,
        answer=(
            "Here. A linear model cannot fit all classes at once, and the weights of CVaR decide which it fits. All "
            "eight hypotheses hold. With many evaluations tuned CVaR of α = γ = 0.1 has twice as many shirts right "
            "as tuned FedAvg, more in each of ten replicas, and loses nothing on all classes. The gain is small all "
            "the same: five points, from 4.5 % to 9.4 %. Of the cats it is less than a point, and in practice "
            "neither learner knows them. That CVaR is nine points better on all classes of CIFAR-10 is no "
            "comparison of the best that each can do: steps were chosen by the rare accuracy, of which FedAvg has "
            "almost none at any step. Where the model fits all classes, as on digits, no gain was found "
            "([above](#when-is-cvar-more-than-a-step-size)). Other rules gain more than CVaR alone "
            "([below](#shirts-and-cats-with-all-rivals))."
        ),
    ),
    Finding(
        name="absence",
        title="Length of absence at equal rate",
        question=(
            "Two users that are available in one of twenty rounds are not alike if one of them comes once in twenty "
            "rounds and the other for fifty rounds in a thousand. Ten users hold the digits, all available ones are "
            "delivered, and only the rarest holds the nines. From left to right users stay away for longer, and stay "
            "for longer, at the same rates. MIFA keeps the last update of a user that is away, so we expect that its "
            "accuracy falls least. FedAU has the cutoff K = 50."
        ),
        blocks={"": ""},
        points=_ABSENCES,
        axis="mean absence of the rarest user (rounds)",
        learners=(FEDAVG, CVAR_3, "FedAU", "MIFA"),
        hypotheses=[
            Hypothesis(
                "The rare accuracy of FedAvg is more than 10 points lower at absences of 1,000 rounds than at 20",
                Series("", "20", FEDAVG),
                Series("", "1,000", FEDAVG),
                0.1,
            ),
            Hypothesis(
                "At absences of 200 rounds MIFA is more than 5 points above FedAvg on the rare class",
                Series("", "200", "MIFA"),
                Series("", "200", FEDAVG),
                _POINT,
            ),
            Hypothesis(
                "At absences of 200 rounds FedAU is more than 5 points above FedAvg on the rare class",
                Series("", "200", "FedAU"),
                Series("", "200", FEDAVG),
                _POINT,
            ),
            Hypothesis(
                "At absences of 200 rounds CVaR is more than 5 points above FedAvg on the rare class",
                Series("", "200", CVAR_3),
                Series("", "200", FEDAVG),
                _POINT,
            ),
            Hypothesis(
                "At absences of 20 rounds CVaR is within 5 points of FedAvg on the rare class",
                Series("", "20", CVAR_3),
                Series("", "20", FEDAVG),
                _POINT,
                is_equality=True,
            ),
        ],
        core_hours=0.5,
        answer=(
            "The length of absences decides. With tuned steps FedAvg, CVaR and FedAU all lose the rare class as "
            "absences grow: between two visits of the rarest user the model forgets its class. CVaR is within 3 points "
            "of FedAvg up to absences of 200 rounds; at 500 and 1,000 runs differ too much to tell. FedAU with its "
            "cutoff of K = 50 is 7 points above FedAvg at 20 and 50 rounds. From 100 on no gain is shown with this "
            "cutoff, and at 500 and 1,000 its models are poor on all classes. With K = 5 or 20 "
            "([below](#fedaus-cutoff-and-the-length-of-outages)) FedAU is 19 and 20 points above FedAvg at 200 rounds. "
            "Only MIFA, which goes on adding the last update of a user that is away, keeps the class at absences of "
            "hundreds of rounds, for the memory of one update of each user at the server. At 1,000 rounds it has half "
            "of it in the mean, and nearly nothing in two of ten replicas."
        ),
    ),
    Finding(
        name="cutoff",
        title="FedAU's cutoff and the length of outages",
        question=(
            "FedAU weighs a user by the mean interval between its participations, and cuts an interval off at K "
            "rounds. A short cutoff makes the weights of rare users too small, a long one waits for few long "
            "intervals, so that weights differ from run to run. Does the best K grow with the length of absences, and "
            "does any K do what MIFA does, which keeps the last update of a user that is away? Learners, data and "
            "access are those of the finding above, of which four points were known when these hypotheses were written."
        ),
        blocks={"": ""},
        points=_LONGER_ABSENCES,
        axis="mean absence of the rarest user (rounds)",
        learners=(*_CUTOFFS, "MIFA"),
        hypotheses=[
            Hypothesis(
                "At absences of 20 rounds K = 50 is above K = 5 on the rare class",
                Series("", "20", "K = 50"),
                Series("", "20", "K = 5"),
            ),
            Hypothesis(
                "At absences of 20 rounds K = 50 is within 5 points of no cutoff on the rare class",
                Series("", "20", "K = 50"),
                Series("", "20", "no cutoff"),
                _POINT,
                is_equality=True,
            ),
            Hypothesis(
                "At absences of 200 rounds K = 200 is more than 5 points above K = 5 on the rare class",
                Series("", "200", "K = 200"),
                Series("", "200", "K = 5"),
                _POINT,
            ),
            *(
                Hypothesis(
                    f"At absences of 200 rounds MIFA is more than 20 points above {cutoff} on the rare class",
                    Series("", "200", "MIFA"),
                    Series("", "200", cutoff),
                    4 * _POINT,
                )
                for cutoff in _CUTOFFS
            ),
        ],
        core_hours=0.5,
        is_map=True,
        answer=(
            "The best K does not grow. Weights are as the theory has them: K = 5 makes those of the rarest user four "
            "times too small, and a long cutoff or none gives at long absences a mean far above 1 and a spread as "
            "large. But with tuned steps the small weights cost nothing, because all of the steps can be longer (0.8 "
            "in place of 0.05), while the spread cannot be tuned away: at absences of 50 and 200 rounds K = 5 and 20 "
            "are the best, at 200 rounds by 37 points above K = 200. None does what MIFA does, which is above each by "
            "20 to 58 points at 200 rounds; two of the five differences leave open whether by more than 20. At "
            "absences of 1,000 rounds the models of a long cutoff have collapsed: with K = 200 and without a cutoff 9 "
            "and 12 % of all examples are right, which is chance, so that their rare accuracies say nothing."
        ),
    ),
    Finding(
        name="mac_fairness",
        title="The MAC decides fairness",
        question=(
            "Twenty users within three kilometres share one access point. Only the MAC changes: radio, frames, fading "
            "and work are the same. The first three updates of a round count, and the three farthest users hold the "
            "digits 8 and 9. In a collision the stronger frame may be received, so that contention favours the near. "
            "Does a tuned learner repair what the MAC costs?"
        ),
        blocks={"": ""},
        points=_MACS,
        axis="MAC",
        learners=(FEDAVG, CVAR_3, "FedAU"),
        hypotheses=[
            Hypothesis(
                "Deliveries are fairer with TDMA than with slotted ALOHA (Jain index)",
                Series("", "TDMA", "", "jain"),
                Series("", "slotted ALOHA", "", "jain"),
            ),
            Hypothesis(
                "The rare accuracy of FedAvg is more than 5 points higher with TDMA than with slotted ALOHA",
                Series("", "TDMA", FEDAVG),
                Series("", "slotted ALOHA", FEDAVG),
                _POINT,
            ),
            Hypothesis(
                "With slotted ALOHA, FedAU is within 5 points of FedAvg with TDMA on the rare classes",
                Series("", "slotted ALOHA", "FedAU"),
                Series("", "TDMA", FEDAVG),
                _POINT,
                is_equality=True,
            ),
            Hypothesis(
                "ALOHA by age is within 0.02 of round robin in the Jain index",
                Series("", "age-adaptive ALOHA", "", "jain"),
                Series("", "round robin", "", "jain"),
                0.02,
                is_equality=True,
            ),
            Hypothesis(
                "ALOHA by age takes more energy than round robin",
                Series("", "age-adaptive ALOHA", "", "energy_J"),
                Series("", "round robin", "", "energy_J"),
            ),
        ],
        core_hours=0.3,
        answer=(
            "Not here. The MAC changes the fairness of deliveries and the energy, but every MAC delivers the farthest "
            "users often enough, so that all learners reach the same accuracy on the rare classes with all of them, "
            "within two points. Round robin is the fairest and takes the least energy; contention by age is nearly "
            "as fair, and pays for it with energy. What decides is how long a user stays away ([above]"
            "(#length-of-absence-at-equal-rate)), and in this cell no user stays away for long."
        ),
        network=("jain", "energy_J"),
    ),
    Finding(
        name="rare_class_rivals",
        title="Shirts and cats with all rivals",
        question=(
            "The finding [where a gain of CVaR remains](#where-does-a-gain-of-cvar-remain) has no rival but FedAvg. "
            "Here FedAU, known weights and MIFA run beside it, in the same cell on other seeds. Each replica is tuned "
            "by itself, with as many candidates for each learner: FedAU with its cutoff, CVaR with its lr_t, and "
            "with a second α. A candidate must have nine tenths of the accuracy on all classes of the best of its "
            "learner. The tenth user has 1.8 % of the deliveries, N ρ = 0.18: with α = 0.1 and γ = 0.1 CVaR can weigh "
            "it 1.6/N, with α = 0.03 5.4/N. In a loop of our own, with independent deliveries and all steps at an "
            "edge, MIFA had 38.8 % of the shirts, known weights 17.1, FedAU 13.6, CVaR of α = 0.03 and 0.1 6.6 and "
            "3.9, and FedAvg 2.7. CVaR over MIFA, which gained on [the map]"
            "(#where-does-cvar-gain-over-importance-weights-and-memory), was added before any of these runs, "
            "and after [the table](table.md) was seen, in which it gained on Fashion-MNIST under other accesses. It is "
            "a check of the map on real data. The cats have five replicas."
        ),
        blocks={"Fashion-MNIST, shirts": "", "CIFAR-10, cats": "cifar"},
        points=("1 user",),
        axis="users with the rare class",
        learners=(FEDAVG, "FedAU", "known weights", "MIFA", CVAR_1, CVAR_MEMORY, CVAR_SMALL),
        hypotheses=[
            hypothesis
            for block in ("Fashion-MNIST, shirts", "CIFAR-10, cats")
            for hypothesis in (
                Hypothesis(
                    f"{block}: the rare accuracy of MIFA is more than 5 points above that of {CVAR_1}",
                    Series(block, "1 user", "MIFA"),
                    Series(block, "1 user", CVAR_1),
                    _POINT,
                ),
                Hypothesis(
                    f"{block}: the accuracy on all classes of MIFA is less than 2 points below that of {FEDAVG}",
                    Series(block, "1 user", "MIFA", "accuracy"),
                    Series(block, "1 user", FEDAVG, "accuracy"),
                    margin=-0.02,
                ),
                Hypothesis(
                    f"{block}: the rare accuracy of known weights is above that of {CVAR_1}",
                    Series(block, "1 user", "known weights"),
                    Series(block, "1 user", CVAR_1),
                ),
                Hypothesis(
                    f"{block}: the rare accuracy of {CVAR_SMALL} is above that of {CVAR_1}",
                    Series(block, "1 user", CVAR_SMALL),
                    Series(block, "1 user", CVAR_1),
                ),
                Hypothesis(
                    f"{block}: the rare accuracy of {CVAR_1} is above that of {FEDAVG}",
                    Series(block, "1 user", CVAR_1),
                    Series(block, "1 user", FEDAVG),
                ),
                Hypothesis(
                    f"{block}: the rare accuracy of {CVAR_MEMORY} is above that of MIFA",
                    Series(block, "1 user", CVAR_MEMORY),
                    Series(block, "1 user", "MIFA"),
                ),
            )
        ],
        core_hours=1.9,
        answer=(
            "CVaR alone is above FedAvg on both data sets, as in the finding before, and below weights and "
            "memory. Known weights have 16 points more of the cats than CVaR of α = 0.1, and 13.5 points more of "
            "the shirts; MIFA has 19 points more of the shirts. A smaller α helps by three points. **CVaR over "
            "the memory of MIFA has most of the shirts**: 48.7 %, 19 points more than MIFA, as on the map, "
            "here on real data. For the cats this is open with five replicas (17.0 % and 11.8 %). No rule for the "
            "rare class is free: all have up to two and a half points less on all classes of Fashion-MNIST than "
            "FedAvg, and up to three and a half on those of CIFAR-10."
        ),
    ),
    Finding(
        name="fashion_small_steps",
        title="Fashion-MNIST inside the grid",
        question=(
            "In two of the five accesses of the finding [on "
            "Fashion-MNIST](#does-a-gain-of-cvar-remain-on-fashion-mnist) FedAvg was best at the smallest step of "
            "its widest grid. Here the ranges begin around that step, so that smaller ones are inside, each replica "
            "is tuned by itself, CVaR with its lr_t, and a candidate must have nine tenths of the "
            "accuracy on all classes of the best of its learner. If a learner is at the edge of its widest range "
            "again, the comparison stays open."
        ),
        blocks={"cycle of 100": "", "network": "emergent"},
        points=("3 users",),
        axis="users with the rare classes",
        learners=(FEDAVG, CVAR_3, CVAR_1),
        hypotheses=[
            Hypothesis(
                f"{block}: the rare accuracy of {learner} is within 5 points of that of {FEDAVG}",
                Series(block, "3 users", learner),
                Series(block, "3 users", FEDAVG),
                _POINT,
                is_equality=True,
            )
            for block in ("cycle of 100", "network")
            for learner in (CVAR_3, CVAR_1)
        ],
        core_hours=4.6,
        answer=(
            "No gain is shown in either access. The best steps of FedAvg lie inside its range now, in all replicas: "
            "from 0.0004 to 0.0008 under the cycle, from 0.0001 to 0.0006 in the network. CVaR of α = 0.3 is as good "
            "under the cycle, and CVaR of α = 0.1 in the network, with and without the replicas that have a choice of "
            "CVaR at an edge. Without these, CVaR of α = 0.3 is open in the network: its interval ends just above the "
            "margin. CVaR of α = 0.1 is open under the cycle."
        ),
    ),
)


def place_of(sweep: Sweep) -> tuple[Finding, str]:
    """Return the finding to which a sweep belongs, and the label of its block.

    Raises:
        ValueError: it belongs to none, as its scenario differs, or it is not complete.
    """
    scenario = sweep.scenario_at(0)
    for finding in FINDINGS:
        if finding.name != scenario.name:
            continue
        for label, block in finding.blocks.items():
            if _settings(finding.load(block)) == _settings(netfl.load(sweep.folder / "scenario.yaml")):
                if sweep.status != "done":
                    raise ValueError(f"{sweep.folder} is not complete; continue it with: netfl resume {sweep.folder}")
                return finding, label
    raise ValueError(f"{sweep.folder} is no sweep of a finding: its scenario {scenario.name!r} differs from the file")


def _settings(scenario: Scenario) -> dict[str, object]:
    """Return the settings on which results depend."""
    ignored = {"description", "overrides", "record", "track"}
    return {key: value for key, value in scenario.plain().items() if key not in ignored}


def extract(sweep: Sweep, finding: Finding, block: str) -> pd.DataFrame:
    """Return the rows of a sweep that are stored; ``lr`` is the chosen step size."""
    finals = sweep.final_metrics.copy()
    finals["metric"] = finals["metric"].map(metric_of)
    finals = finals[finals["metric"].isin(METRICS)]
    steps, states = [], []
    choices = choices_of(sweep)
    for point, learner, replica in finals[["point", "learner", "replica"]].itertuples(index=False):
        choice = choices.get((point, learner, replica), choices.get((point, learner, 0)))
        steps.append(np.nan if choice is None else choice.values.get("lr", np.nan))
        states.append(FORMER if choice is None else choice.state)
    rows = finals.assign(block=block, lr=steps, tuning=states)
    if finding.is_map:
        rows = pd.concat([rows, used_weights(sweep).assign(block=block, tuning=FORMER)])
    rows["point"] = [finding.points[number] for number in rows["point"]]
    return rows[_COLUMNS].sort_values(["point", "learner", "metric", "replica"], kind="stable")


def choices_of(sweep: Sweep) -> dict[tuple[int, str, int], Choice]:
    """Return the choices of all points by point, learner and replica; where all replicas have one, of replica 0."""
    candidates = sweep.table("candidates")
    choices = {}
    for (point, learner), rows in candidates.groupby(["point", "learner"], observed=True):
        for replica, choice in read_choices(rows, learner).items():
            choices[int(point), str(learner), replica] = choice
    return choices


def interval_weights(participates: Bools, cutoff: int | None) -> Floats:
    """Return FedAU's weight of a user in each round: the mean of its intervals that ended before, 1 without any.

    Args:
        participates: whether the user participates, by round.
        cutoff: number of rounds at which an interval ends without a participation; ``None`` is no limit.

    Source: Wang and Ji, ICLR 2024, algorithm 2.

    >>> interval_weights(np.array([False, True, False, False, False, True]), 3)
    array([1. , 1. , 2. , 2. , 2. , 2.5])
    """
    lengths: list[int] = []
    weights = []
    lasting = 0
    for is_participating in participates.tolist():
        weights.append(float(np.mean(lengths)) if lengths else 1.0)
        lasting += 1
        if is_participating or lasting == cutoff:
            lengths.append(lasting)
            lasting = 0
    return np.array(weights)


def used_weights(sweep: Sweep) -> pd.DataFrame:
    """Return the mean weight with which each FedAU counted the rarest user's updates, times that user's rate.

    A replica in which the user is never delivered has no row.
    """
    rows = []
    placed = sweep.deliveries.merge(sweep.points[["point", "trace"]], on="trace")
    for (point, replica, user), deliveries in placed.groupby(["point", "replica", "user"]):
        scenario = sweep.scenario_at(point)
        rates = np.array(scenario.access.probability)
        if user != np.argmin(rates):
            continue
        participates = np.zeros(scenario.rounds, bool)
        participates[deliveries["round"].to_numpy() - 1] = True
        for name, learner in scenario.learners.items():
            if not isinstance(learner.aggregation, Fedau):
                continue
            weights = interval_weights(participates, learner.aggregation.cutoff)
            used = float(weights[participates].mean() * rates[user])
            rows.append((point, name, replica, WEIGHT, used))
    return pd.DataFrame(rows, columns=["point", "learner", "replica", "metric", "value"])


def store(finding: Finding, block: str, rows: pd.DataFrame) -> None:
    """Replace the rows of a block in the stored results."""
    kept = finding.results[finding.results["block"] != block]
    finding.results_file.parent.mkdir(parents=True, exist_ok=True)
    parts = [part for part in (kept, rows) if len(part)]
    pd.concat(parts).to_csv(finding.results_file, index=False, float_format="%.6g")


MAX_COLUMNS = 3
"""Panels side by side: more are too small to read in a page."""


def draw(finding: Finding) -> Figure:
    """Draw the plot of a finding."""
    if finding.is_map:
        return draw_map(finding)
    if len(finding.points) == 1:
        return draw_blocks(finding)
    return draw_lines(finding)


def draw_map(finding: Finding) -> Figure:
    """Draw maps of learners and points: the weights' bias, their spread over replicas, and the rare accuracy."""
    panels = (
        ("mean weight × rate (1 is unbiased)", WEIGHT, np.mean, 1.0, "{:.2f}"),
        ("its standard deviation", WEIGHT, partial(np.std, ddof=1), 1.0, "{:.2f}"),
        ("rare accuracy (%)", "rare_accuracy", np.mean, 100.0, "{:.0f}"),
        ("its standard deviation (points)", "rare_accuracy", partial(np.std, ddof=1), 100.0, "{:.0f}"),
    )
    figure = style.PlotFigure(figsize=(8.4, 6.2), layout="constrained")
    axes = style.grid_axes(figure, len(panels), 2, sharey=True)
    for ax, (title, metric, statistic, scale, shape) in zip(axes, panels, strict=True):
        values = np.full((len(finding.learners), len(finding.points)), np.nan)
        for row, learner in enumerate(finding.learners):
            for column, point in enumerate(finding.points):
                found = finding.values(Series("", point, learner, metric))
                if len(found):
                    values[row, column] = scale * statistic(found)
        ax.imshow(values, aspect="auto", cmap="Blues", vmin=0.0, vmax=1.25 * np.nanmax(values))
        for row, column in np.ndindex(values.shape):
            value = values[row, column]
            text = "–" if np.isnan(value) else shape.format(value)
            is_dark = value > 0.75 * np.nanmax(values)
            ax.text(column, row, text, ha="center", va="center", color="white" if is_dark else "black")
        ax.set_title(title, fontsize="medium")
        ax.set_xticks(range(len(finding.points)), finding.points)
        ax.grid(visible=False)
    axes[0].set_yticks(range(len(finding.learners)), finding.learners)
    for ax in axes:
        ax.label_outer(remove_inner_ticks=False)
    figure.supxlabel(finding.axis, fontsize="medium")
    return figure


def draw_lines(finding: Finding) -> Figure:
    """Draw the rare accuracy of each learner over the points, a panel for each block that was run.

    Metrics of the network have panels of their own.  Points that are no numbers are not connected.
    """
    blocks = [block for block in finding.blocks if block in set(finding.results["block"])]
    panels = len(blocks) * (1 + len(finding.network))
    columns = min(panels, MAX_COLUMNS)
    lines = -(-panels // columns)
    figure = style.PlotFigure(figsize=(1.6 + 2.8 * max(2, columns), 0.6 + 2.8 * lines), layout="constrained")
    axes = style.grid_axes(figure, panels, columns)
    looks = style.line_styles(finding.learners)
    if not finding.points[0][0].isdigit():
        looks = {learner: {**look, "linestyle": "none"} for learner, look in looks.items()}
    lowest = 100.0
    for ax, block in zip(axes, blocks, strict=False):
        for number, learner in enumerate(finding.learners):
            found = [interval(finding.values(Series(block, point, learner))) for point in finding.points]
            means = np.array([each.mean for each in found])
            halves = np.array([each.half if each.is_shown else np.nan for each in found])
            ends = cut_interval("rare_accuracy", means - halves, means + halves)
            bars = pd.DataFrame(
                {
                    "at": np.arange(len(means)) + 0.07 * (number - (len(finding.learners) - 1) / 2),  # side by side
                    "mean": 100.0 * means,
                    "low": 100.0 * ends.low,
                    "high": 100.0 * ends.high,
                    "low_cut": ends.is_low_cut,
                    "high_cut": ends.is_high_cut,
                }
            )
            options = {"label": learner, "marker": "o", "markersize": 4, "capsize": 3, **looks[learner]}
            style.error_bars(ax, bars, options)
            lowest = min(lowest, float(np.nanmin(bars["low"].fillna(bars["mean"]))))
        ax.set_title(block)
    for place, ax in enumerate(axes[: len(blocks)]):
        ax.set_ylim(max(0.0, 20.0 * np.floor((lowest - 5.0) / 20.0)), 100.0)
        if place % columns:
            ax.tick_params(labelleft=False)
        else:
            ax.set_ylabel("rare accuracy (%)")
    for ax, (metric, block) in zip(axes[len(blocks) :], product(finding.network, blocks), strict=True):
        found = [interval(finding.values(Series(block, point, "", metric))) for point in finding.points]
        means, halves = [each.mean for each in found], [each.half for each in found]
        ax.errorbar(range(len(found)), means, halves, fmt="o", markersize=4, capsize=3, color=style.GREY)
        ax.set_ylabel(NETWORK_LABELS[metric])
    is_long = max(map(len, finding.points)) > 6
    for ax in axes:
        ax.set_xticks(range(len(finding.points)), finding.points, rotation=30 if is_long else 0,
                      ha="right" if is_long else "center")  # fmt: skip
    figure.supxlabel(finding.axis, fontsize="medium")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncol=len(labels))
    return figure


def draw_blocks(finding: Finding) -> Figure:
    """Draw the rare accuracy over the blocks that were run, for a finding with a single point.

    The left panel has the learners, the right one the differences of each from the first, paired by replica.
    """
    blocks = [block for block in finding.blocks if block in set(finding.results["block"])]
    (point,) = finding.points
    figure = style.PlotFigure(figsize=(10.2, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    reference, *_ = finding.learners
    for number, (learner, look) in enumerate(style.line_styles(finding.learners).items()):
        values = [finding.values(Series(block, point, learner)) for block in blocks]
        differences = [
            own - finding.values(Series(block, point, reference)) for own, block in zip(values, blocks, strict=True)
        ]
        places = np.arange(len(blocks)) + 0.1 * (number - (len(finding.learners) - 1) / 2)  # side by side
        for ax, shown in ((left, values), (right, differences)):
            if ax is right and learner == reference:
                continue
            found = [interval(each) for each in shown]
            means = [100.0 * each.mean for each in found]
            halves = [100.0 * each.half for each in found]
            ax.errorbar(places, means, halves, label=learner, marker="o", markersize=5, capsize=3,
                        **look | {"linestyle": "none"})  # fmt: skip
    for ax in (left, right):
        ax.set_xticks(range(len(blocks)), [textwrap.fill(block, 56 // len(blocks)) for block in blocks])
        ax.set_xlim(-0.5, len(blocks) - 0.5)
    left.set_ylim(bottom=0.0)
    left.set_ylabel("rare accuracy (%)")
    right.axhline(0.0, color=style.GREY, linewidth=0.8)
    right.set_ylabel(f"minus {reference} (points)")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncol=len(finding.learners))
    return figure


def section(finding: Finding) -> list[str]:
    """Return the lines of a finding on the page."""
    lines = [f"## {finding.title}", "", *wrap_paragraph(finding.question), "", "```", *finding.commands, "```", ""]
    missing = [label or finding.name for label in finding.blocks if label not in set(finding.results["block"])]
    if missing:
        hours = finding.core_hours * len(missing) / len(finding.blocks)
        lines += [f"Not run yet: {'; '.join(missing)} (about {hours:.1f} hours of one core).", ""]
    else:
        lines += [f"All sweeps together took {finding.core_hours:.1f} hours of one core.", ""]
    lines += ["| hypothesis, written before the runs | difference | verdict |", "|---|---|---|"]
    for hypothesis in finding.hypotheses:
        lines.append(_hypothesis_row(finding, hypothesis))
    lines.append("")
    if finding.answer:
        lines += [*wrap_paragraph(finding.answer), ""]
    if len(missing) < len(finding.blocks):
        axis = finding.axis if len(finding.points) > 1 else "accesses"
        lines += [f"![Rare accuracy over the {axis}](findings/{finding.name}.png)", ""]
        lines += [*_table(finding), ""]
    return lines


def _hypothesis_row(finding: Finding, hypothesis: Hypothesis) -> str:
    found = finding.difference(hypothesis)
    if not found.replicas:
        return f"| {hypothesis.text} | – | not run |"
    shown = _shown(hypothesis, found)
    verdict = finding.verdict(hypothesis)
    inside = finding.difference_inside(hypothesis)
    if 1 < inside.replicas < found.replicas:
        shown += f"; inside: {_shown(hypothesis, inside)}"
        verdict += f"; inside: {hypothesis.verdict(inside)}"
    return f"| {hypothesis.text} | {shown} | {verdict} |"


def _shown(hypothesis: Hypothesis, difference: ConfidenceInterval) -> str:
    """Return a difference with its interval and its number of pairs."""
    shown = f"{difference.mean:+.3g} ± {difference.half:.2g}"
    if "accuracy" in hypothesis.first.metric:
        shown = f"{100 * difference.mean:+.1f} ± {100 * difference.half:.1f} points"
    return f"{shown}, {difference.replicas} pairs"


def _table(finding: Finding) -> list[str]:
    """Return the means of all series that were run."""
    has_blocks = [*finding.blocks] != [""]
    first = ["access"] if has_blocks else []
    values = ["learner", "rare classes (%)", "all classes (%)", "step size"]
    columns = [*first, finding.axis, *values, *(NETWORK_LABELS[metric] for metric in finding.network)]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for block in finding.blocks:
        for point in finding.points:
            if finding.values(Series(block, point, finding.learners[0])).empty:
                continue
            network = []
            for metric in finding.network:
                found = interval(finding.values(Series(block, point, "", metric)))
                network.append(f"{found.mean:.3g} ± {found.half:.2g}")
            for learner in finding.learners:
                cells = [block] if has_blocks else []
                cells += [point, learner, *_cells(finding, Series(block, point, learner)), *network]
                lines.append("| " + " | ".join(cells) + " |")
    shown = "The number after ± is half of the 95 % interval. The step size is"
    if (finding.results["tuning"] == FORMER).all():
        return [*lines, "", *wrap_paragraph(f"{shown} {_tuning_sentence(finding)}. {_judgement_sentence(finding)}")]
    return [*lines, "", *wrap_paragraph(f"{shown} {_choice_sentence(finding)}.")]


def _choice_sentence(finding: Finding) -> str:
    """Return how the learners were tuned in each replica, and which choices are at an edge or learn nothing."""
    (block, *_) = finding.blocks.values()
    tuning = finding.load(block).tuning
    assert tuning is not None
    rows = finding.results
    rows = rows[(rows["metric"] == "accuracy") & (rows["learner"] != "")]
    words = {AT_EDGE: "at the edge of the widest range", NONE_LEARNS: "no candidate learns"}
    clauses = []
    for state, meaning in words.items():
        counts = rows[rows["tuning"] == state].groupby(["block", "point", "learner"], sort=False).size()
        named = [f"{Series(block, point, learner)} in {count}" for (block, point, learner), count in counts.items()]
        if named:
            clauses.append(f"{meaning}: {'; '.join(named)}")
    state = f"the median of those tuned by validation {tuning.criterion.label}, each replica by itself"
    return ". Replicas ".join([state, *clauses]) if clauses else f"{state}, all inside their ranges"


def _judgement_sentence(finding: Finding) -> str:
    """Return how many choices of step sizes stand by the present rule of tuning, and why the others do not."""
    found = Counter(finding.judgements.values())
    total = sum(found.values())
    if found[STANDS] == total:
        return f"By the present rule of tuning all {total} choices stand, too."
    reasons = []
    if found[EDGE]:
        reasons.append(f"{found[EDGE]} in the outer sixth of the range")
    if found[DEAD]:
        reasons.append(f"{found[DEAD]} of models that are not shown to be better than a constant answer")
    return (
        f"By the present rule {found[STANDS]} of {total} choices stand. Those with an asterisk are tuned by the former "
        f"rule: {' and '.join(reasons)}."
    )


def _tuning_sentence(finding: Finding) -> str:
    """Return how the step sizes were tuned, and at which points a chosen one is at the edge of the widest grid."""
    (block, *_) = finding.blocks.values()
    tuning = finding.load(block).tuning
    assert tuning is not None
    state = f"tuned by validation {tuning.criterion.label}, with {tuning.trials} candidates each or more"
    edges = [name for label in finding.blocks for name in _at_edges(finding, label)]
    if edges:
        return f"{state}. At the edge of the widest grid, and so not tuned: {'; '.join(edges)}"
    return f"{state}, inside of all grids"


def _at_edges(finding: Finding, label: str) -> list[str]:
    """Return the series of a block whose chosen step size is at an edge of the widest grid.

    A grid is widened at the edge at which a learner has its best, so that only a step at the outermost place of the
    last possible widening is at an edge, or one at the place before if no learner of its point is farther out.
    """
    scenario = finding.load(finding.blocks[label])
    tuning = scenario.tuning
    assert tuning is not None
    centres = grid_centres(scenario.learners, scenario.step_rule)
    rows = finding.results
    rows = rows[(rows["block"] == label) & rows["learner"].isin([*centres])].drop_duplicates(["point", "learner"])
    at_edge = []
    for point, of_point in rows.groupby("point", sort=False):
        places = {
            learner: round(math.log(lr / centres[learner], tuning.factor))
            for learner, lr in zip(of_point["learner"], of_point["lr"], strict=True)
        }
        for learner, place in places.items():
            side = int(math.copysign(1, place))
            farthest = max(side * other for other in places.values())
            edges = [tuning.trials // 2 * (1 + widenings) for widenings in range(1, MAX_WIDENINGS + 1)]
            if abs(place) == edges[-1] or (abs(place) in edges and farthest == abs(place)):
                at_edge.append(str(Series(label, str(point), learner)))
    return at_edge


def _cells(finding: Finding, series: Series) -> tuple[str, str, str]:
    """Return the accuracy on the rare and on all classes, in percent, and the step size chosen."""
    rare = interval(finding.values(series))
    overall = interval(finding.values(Series(series.block, series.point, series.learner, "accuracy")))
    table = finding.results
    is_wanted = (
        (table["block"] == series.block) & (table["point"] == series.point) & (table["learner"] == series.learner)
    )
    steps = table[is_wanted & (table["metric"] == "accuracy")]["lr"].dropna()
    shown = format_by_replica(steps.tolist() or None, digits=2)
    state = finding.judgements.get((series.block, series.point, series.learner), STANDS)
    if state != STANDS:
        shown += " *"
    return f"{100 * rare.mean:.1f} ± {100 * rare.half:.1f}", f"{100 * overall.mean:.1f}", shown


_INTRODUCTION = (
    "Questions that nobody has answered in print, as far as we know. Every hypothesis was written down in "
    "`analysis/findings.py` before its runs. Learners are tuned at each point, by the rare accuracy on validation "
    "examples, with the same number of step sizes ([how](howto/tune.md)). Differences are paired by replica; a verdict "
    "needs the whole 95 % interval of the difference on one side of the margin, otherwise it is *open*. Where each "
    "replica is tuned by itself, it is also open if more than half of the replicas of a learner have no choice inside "
    "the range. If fewer have none, *inside* gives the difference and the verdict without them."
)


def page() -> str:
    """Return the page of all findings."""
    lines = ["# Findings of our own", "", *wrap_paragraph(_INTRODUCTION), ""]
    for finding in FINDINGS:
        lines += section(finding)
    lines += cvar_map.section(cvar_map.stored_rows())
    return "\n".join(lines).rstrip() + "\n"


def judgement_lines() -> Iterator[str]:
    """Yield as text how many choices of the former rule of tuning stand, and those that do not."""
    for finding in FINDINGS:
        found = Counter(finding.judgements.values())
        yield f"{finding.name}: {', '.join(f'{found[state]} {state}' for state in (STANDS, EDGE, DEAD))}"
        for (block, point, learner), state in finding.judgements.items():
            if state != STANDS:
                yield f"    {state}: {Series(block, point, learner)}"


def write_page() -> Path:
    """Draw the plots of all findings with results, and write the page; return its path."""
    PLOTS.mkdir(exist_ok=True)
    plots = {finding.name: partial(draw, finding) for finding in FINDINGS if len(finding.results)}
    plots["cvar_map"] = partial(cvar_map.draw, cvar_map.stored_rows())
    for name, plot in plots.items():
        with style.theme():
            plot().savefig(PLOTS / f"{name}.png", dpi=110, metadata={"Software": None})
    PAGE.write_text(page(), encoding="utf-8")
    return PAGE


def main() -> None:
    """Store the results of sweeps, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", nargs="*", type=Path, help="folders of finished sweeps")
    parser.add_argument("--judge", action="store_true", help="print which stored choices do not stand, and do no more")
    options = parser.parse_args()
    if options.judge:
        print("\n".join(judgement_lines()))
        return
    for folder in options.sweeps:
        try:
            sweep = netfl.open_sweep(folder)
            finding, block = place_of(sweep)
            store(finding, block, extract(sweep, finding, block))
        except (NetflError, ValueError) as error:
            sys.exit(str(error))
    write_page()


if __name__ == "__main__":
    main()
