"""Rounds of a scenario, simulated under a rule: without learning for the arrivals, or with it for the time to a target.

The rounds for the arrivals wait for all users up to a long deadline.  Users then contend with all others, and a short
deadline would not change that: what happens in a round before the deadline does not depend on what would come later.
It changes what a round leaves to the next one, such as frames on the air and users that are still training.  So the
advice is checked by rounds under the recommended rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from netfl.core.remedies import argument
from netfl.diagnosis.timeout.advice import Advice, RuleSearch, TimeoutOptions, TimeoutRule, advise, progress
from netfl.diagnosis.timeout.arrivals import Arrivals
from netfl.diagnosis.timeout.logs import attempts_of, timed_network, user_names
from netfl.errors import Fault, ScenarioError
from netfl.results.statistics import ConfidenceInterval, interval
from netfl.scenario.scenario import Scenario
from netfl.simulation.learners import open_learner
from netfl.simulation.setup import prepare_run
from netfl.simulation.simulation import Simulation
from netfl.types import Floats, Ints, Round

ROUNDS = 200
"""Simulated rounds for the arrivals, of all replicas together."""
REPLICAS = 4
"""Least number of replicas, as users and their places differ between them."""
_PILOT = 5
"""Rounds of each replica from which the long deadline is estimated."""
_LONG = 20.0
"""The long deadline, in times until half of the users have delivered."""
_LONGER = 4.0
"""Factor by which it is raised if the best deadline lies at its end."""
_MAX_RAISES = 3
_REFINEMENTS = 3
"""Rules that are tried with learning, beside those of the long deadline and of two critical numbers."""
_PATIENCE = 1.5
"""Time after which a trial is given up, in the longest times of the best one so far."""
_NEARLY = 0.05
"""Relative difference of deadlines and quorums that need no trial of their own."""
_MORE_ROUNDS = 20
"""Rounds of a trial, in those that the target takes without a deadline."""
_DEVIATION = 0.05
"""Relative difference of checked and expected time from which arrivals are simulated again, near the deadline."""
_NEAR = 2.0
"""Deadline of these arrivals, in recommended ones."""
_ENDLESS_S = 1e9
"""Deadline of rounds that close with their quorum."""
_CRITICALS = np.array([0.0, *np.geomspace(0.01, 1e4, 121)])
"""Critical numbers that are compared with the measured progress."""
_EXPONENTS = (1.0, 1.25, 1.5, 1.75, 2.0)
"""Exponents that are compared with it."""

Report = Callable[[str], None]
"""Called with what is simulated next."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Rounds to the target accuracy under one rule.

    Args:
        rule: the rule.
        time_s: simulated time to the target, NaN if it is not reached, ``[replicas]``.
        updates: number of updates of each round until then, by replica.
        size: number of users that take part in a round.
        best: highest accuracy in any replica.
    """

    rule: TimeoutRule
    time_s: Floats
    updates: Sequence[Ints]
    size: int
    best: float

    @property
    def is_reached(self) -> bool:
        """``True`` if every replica reaches the target."""
        return not np.isnan(self.time_s).any()

    @property
    def estimate(self) -> ConfidenceInterval:
        """Mean time over the replicas, with its interval."""
        return interval(self.time_s)

    def progress(self, critical: float, exponent: float = 1.0) -> Floats:
        """Return the progress of all rounds until the target, in full rounds, ``[replicas]``."""
        size = np.array(self.size)
        return np.array([progress(updates, size, critical, exponent).sum() for updates in self.updates])


@dataclass(frozen=True, slots=True)
class ScenarioAdvice:
    """Advice for a scenario.

    Args:
        advice: the advice from simulated arrivals; with a target accuracy it describes the rule of *chosen*.
        checked_s: time to the target of rounds that are simulated under the advised rule.
        round: the key ``access.round`` of the recommended rule.
        max_attempts: the key ``access.mac.max_attempts``; ``None`` if the MAC has no such key, or a limit already.
        trials: rounds with learning under each rule that was tried; none without a target accuracy.
        chosen: the trial of the recommended rule; ``None`` without a target accuracy.
    """

    advice: Advice
    checked_s: float
    round: Mapping[str, object]
    max_attempts: int | None
    trials: Sequence[Trial] = ()
    chosen: Trial | None = None

    @property
    def rule(self) -> TimeoutRule:
        """The recommended rule."""
        return self.advice.best.rule


class ScenarioTrials:
    """Simulated rounds of one scenario.

    Args:
        scenario: a scenario whose access is a network with rounds.
        rounds: rounds for the arrivals, of all replicas together.
        on_trial: called with what is simulated next.

    Attributes:
        scenario: the scenario.
        size: number of users that take part in a round.
    """

    def __init__(self, scenario: Scenario, rounds: int = ROUNDS, on_trial: Report = lambda text: None) -> None:
        self._network = timed_network(scenario)
        self._replicas = range(max(REPLICAS, scenario.replicas))
        self._rounds = math.ceil(rounds / len(self._replicas))
        self.scenario = scenario
        self._report = on_trial
        self.size = self._network.selection.max_selected(scenario.users)

    def round_of(self, rule: TimeoutRule) -> dict[str, object]:
        """Return the key ``access.round`` of a rule; the server knows as much of losses as in the scenario."""
        assert self._network.round is not None
        values: dict[str, object] = {"kind": "quorum", "quorum": rule.quorum, "deadline": rule.deadline_s}
        if not self._network.round.knows_losses:
            values["losses"] = "unknown"
        return values

    def lower_limit(self, max_attempts: int | None) -> int | None:
        """Return *max_attempts* if the MAC can limit its attempts, and does not do so yet; else ``None``."""
        mac = self._network.mac
        if max_attempts is None or mac is None or "max_attempts" not in type(mac).model_fields:
            return None
        return max_attempts if mac.attempt_limit is None else None

    def at(self, rule: TimeoutRule, values: Mapping[str, object]) -> Scenario:
        """Return the scenario under a rule, and with other values at dotted paths."""
        return self.scenario.at(
            {
                "access.round": self.round_of(rule),
                "replicas": len(self._replicas),
                "duration": None,
                "tuning": None,
                **values,
            }
        )

    def long_deadline_s(self) -> float:
        """Return a deadline that is long for most rounds, from the time in which half of the users deliver."""
        self._report("first rounds")
        half = TimeoutRule(_ENDLESS_S, 0.5)
        scenario = self.at(half, {"rounds": _PILOT})
        lasted_s = [each.closed_s - each.opened_s for rounds in self._simulate(scenario) for each in rounds]
        return _LONG * max(float(np.median(lasted_s)), 1e-6)

    def arrivals(self, rule: TimeoutRule) -> Arrivals:
        """Simulate rounds without learning, and return the arrivals of all replicas."""
        scenario = self.at(rule, {"rounds": self._rounds})
        number = count()
        rows: list[tuple[int, int, float, int]] = []
        over_s = []
        for replica, rounds in enumerate(self._simulate(scenario)):
            for each, place in zip(rounds, number, strict=False):
                lasted_s = each.closed_s - each.opened_s
                over_s.append(lasted_s if lasted_s < rule.deadline_s * (1.0 - 1e-9) else math.inf)
                for delivery in each.deliveries:
                    arrived_s = max(delivery.arrived_s - each.opened_s, 0.0)
                    rows.append((place, replica * scenario.users + delivery.user, arrived_s, delivery.attempts))
        table = np.array(rows, float).reshape(-1, 4)
        return Arrivals(
            round=table[:, 0].astype(np.int64),
            user=table[:, 1].astype(np.int64),
            arrived_s=table[:, 2],
            sizes=np.full(len(over_s), self.size),
            over_s=np.array(over_s),
            names=user_names(scenario, self._replicas),
            attempts=attempts_of(scenario, self._network, table[:, 3].astype(np.int64)),
        )

    def _simulate(self, scenario: Scenario) -> Iterator[list[Round]]:
        """Yield the rounds of each replica."""
        for replica in self._replicas:
            with Simulation(scenario, replica, record=False) as simulation:
                rounds = []
                while not simulation.is_done:
                    each = simulation.step()
                    assert each is not None  # there is no duration
                    rounds.append(each)
                yield rounds

    def time_s(self, advice: Advice) -> float:
        """Return the time to the target by rounds that are simulated under the best rule and limit of attempts."""
        options = advice.options
        rule = advice.best.rule
        self._report(f"check of the deadline of {rule.deadline_s:g} s")
        values: dict[str, object] = {"rounds": self._rounds}
        max_attempts = self.lower_limit(advice.max_attempts)
        if max_attempts is not None:
            values["access.mac.max_attempts"] = max_attempts
        rounds = [each for part in self._simulate(self.at(rule, values)) for each in part]
        updates = np.array([len(each.deliveries) for each in rounds])
        made = progress(updates, np.array(self.size), options.critical, options.exponent).mean()
        round_s = options.overhead_s + np.mean([each.closed_s - each.opened_s for each in rounds])
        return float(options.full_rounds * round_s / made) if made else math.inf

    def checked(self, advice: Advice, trials: Sequence[Trial] = (), chosen: Trial | None = None) -> ScenarioAdvice:
        """Return an advice with its check by simulation."""
        limit = self.lower_limit(advice.max_attempts)
        return ScenarioAdvice(advice, self.time_s(advice), self.round_of(advice.best.rule), limit, trials, chosen)

    def learn_without_deadline(self, longest: TimeoutRule, accuracy: float) -> Trial:
        """Train the first learner under the rule *longest*.

        Raises:
            ScenarioError: a replica does not reach the accuracy in the rounds of the scenario.
        """
        max_rounds = self.scenario.steps
        trial = self.learn(longest, accuracy, max_rounds)
        if not trial.is_reached:
            problem = f"not reached by all replicas in {max_rounds} rounds without a deadline; at best {trial.best:.3g}"
            raise ScenarioError([Fault(argument("accuracy"), problem, accuracy, "lower it, or raise rounds")])
        return trial

    def learn(self, rule: TimeoutRule, accuracy: float, max_rounds: int, max_s: float = math.inf) -> Trial:
        """Train the first learner of all replicas under a rule, until each of them reaches an accuracy.

        A replica ends without it after *max_rounds* rounds, or with the round in which *max_s* are over.
        """
        self._report(f"learning with a deadline of {rule.deadline_s:g} s and a quorum of {rule.quorum:g}")
        name = next(iter(self.scenario.learners))
        learner = self.scenario.plain()["learners"][name]
        values = {"rounds": max_rounds, "learners": {name: learner}, "evaluate.every": 1, "evaluate.choose": {}}
        setup = prepare_run(self.at(rule, values), learning=True, replicas=self._replicas)
        times_s = np.full(len(self._replicas), np.nan)
        updates: list[list[int]] = [[] for _ in self._replicas]
        is_open = np.ones(len(self._replicas), bool)
        best = 0.0
        with open_learner(setup, "cpu", learning=True) as trained:
            assert trained is not None
            accesses = [setup.open_access(replica) for replica in self._replicas]
            report = trained.start()
            _check_start(report.metrics, accuracy)
            for _ in range(max_rounds):
                rounds = [
                    access.next_round(report.to(number)) if is_open[number] else None
                    for number, access in enumerate(accesses)
                ]
                report = trained.step(rounds)
                for number, each in enumerate(rounds):
                    if each is None:
                        continue
                    updates[number].append(len(each.deliveries))
                    value = float(report.metrics["accuracy"][number])
                    best = max(best, value)
                    if value >= accuracy:
                        times_s[number] = each.closed_s
                    is_open[number] = value < accuracy and each.closed_s < max_s
                if not is_open.any():
                    break
            for access in accesses:
                access.close()
        return Trial(rule, times_s, [np.array(counts) for counts in updates], self.size, best)


def advise_scenario(
    scenario: Scenario,
    options: TimeoutOptions | None = None,
    *,
    rounds: int = ROUNDS,
    accuracy: float | None = None,
    on_trial: Report = lambda text: None,
) -> ScenarioAdvice:
    """Find the deadline and the quorum of a scenario that minimise the time to a target.

    Args:
        scenario: a scenario whose access is a network with rounds; their present deadline and quorum do not count.
        options: target and conditions of the rule.  With an *accuracy*, their critical number is that of one rule.
        rounds: simulated rounds for the arrivals, of all replicas together.
        accuracy: the target, a test accuracy of the first learner.  It is trained to this accuracy under a few rules,
            from which the critical number is estimated.  By default nothing is trained.
        on_trial: called with what is simulated next.

    Raises:
        ScenarioError: the scenario has no rounds with arrivals, or does not reach the accuracy.
        ModelError: a model failed.
    """
    options = options or TimeoutOptions(seed=scenario.seed)
    options.check()
    trials = ScenarioTrials(scenario, rounds, on_trial)
    if accuracy is not None:
        _check_accuracy(scenario, accuracy)

    # arrivals up to a deadline far beyond the best one
    longest = TimeoutRule(trials.long_deadline_s())
    for _ in range(_MAX_RAISES):
        arrivals = trials.arrivals(longest)
        advice = advise(arrivals, options)
        if advice.best.rule.deadline_s < longest.deadline_s / _LONGER:
            break
        longest = TimeoutRule(longest.deadline_s * _LONGER)

    if accuracy is not None:
        first = trials.learn_without_deadline(longest, accuracy)
        tried = _learn(trials, arrivals, options, first, accuracy)
        measured = fit_progress(tried, options)
        chosen = _choose(tried, RuleSearch(arrivals, measured).best())
        advice = advise(arrivals, measured, chosen.rule)
        return trials.checked(advice, tried, chosen)

    found = trials.checked(advice)
    if abs(found.checked_s / advice.best.time_s - 1.0) > _DEVIATION:  # what rounds leave to the next one matters
        near = TimeoutRule(_NEAR * advice.best.rule.deadline_s)
        found = trials.checked(advise(trials.arrivals(near), options))
    return found


def _check_accuracy(scenario: Scenario, accuracy: float) -> None:
    faults = []
    if not 0.0 < accuracy <= 1.0:
        faults.append(Fault(argument("accuracy"), "not a share above 0", accuracy, "give one such as 0.8"))
    if not scenario.learners:
        faults.append(Fault("learners", "the scenario has no learners", None, f"leave out {argument('accuracy')}"))
    if faults:
        raise ScenarioError(faults)


def _check_start(metrics: Mapping[str, Floats], accuracy: float) -> None:
    """Check the metrics before the first round.

    Raises:
        ScenarioError: they have no accuracy, or it is that of the target already.
    """
    key = argument("accuracy")
    if "accuracy" not in metrics:
        raise ScenarioError([Fault(key, "the targets of these data are numbers", accuracy, "leave it out")])
    if metrics["accuracy"].max() >= accuracy:
        problem = f"the model has it before it is trained ({metrics['accuracy'].max():.3g})"
        raise ScenarioError([Fault(key, problem, accuracy, "raise it")])


def _learn(
    trials: ScenarioTrials, arrivals: Arrivals, options: TimeoutOptions, first: Trial, accuracy: float
) -> list[Trial]:
    """Train under a few rules, and return all trials.

    *first* is the trial without a deadline.  The next rules are the best ones if each round counts the same, and if
    the critical number is that of *options*.  The others follow from the progress measured so far.  A deadline that
    misses the target says nothing about shorter ones, which may leave out other users in each round.
    """
    tried = [first]
    most_rounds = _MORE_ROUNDS * max(map(len, first.updates))

    def learn_untried(*candidates: TimeoutOptions) -> bool:
        """Train under the best rule of the first candidate for which it is a new one; return whether there is one."""
        for candidate in candidates:
            rule = RuleSearch(arrivals, candidate).best()
            if rule is not None and _nearest(rule, tried) is None:
                max_s = _PATIENCE * float(_fastest(tried).time_s.max())
                tried.append(trials.learn(rule, accuracy, most_rounds, max_s))
                return True
        return False

    for critical in (0.0, options.critical):
        learn_untried(replace(options, critical=critical))
    for _ in range(_REFINEMENTS):
        measured = fit_progress(tried, options)
        if not learn_untried(measured, replace(measured, include=1.0)):
            break
    return tried


def _fastest(trials: Sequence[Trial]) -> Trial:
    """Return the trial with the least mean time, of those in which all replicas reach the target."""
    return min((trial for trial in trials if trial.is_reached), key=lambda trial: trial.estimate.mean)


def _nearest(rule: TimeoutRule, trials: Sequence[Trial]) -> Trial | None:
    """Return the trial with the nearest deadline and quorum to those of a rule; ``None`` if none is near."""

    def distance(trial: Trial) -> float:
        of_deadlines = abs(math.log(trial.rule.deadline_s / rule.deadline_s))
        return max(of_deadlines, abs(math.log(trial.rule.quorum / rule.quorum)))

    nearest = min(trials, key=distance)
    return nearest if distance(nearest) < _NEARLY else None


def _choose(trials: Sequence[Trial], rule: TimeoutRule | None) -> Trial:
    """Return the trial of *rule*, the expected best one, unless the measured times of another contradict it.

    Measured times of a few replicas vary much more than expected ones, so that the fastest trial may be so by chance.
    """
    fastest = _fastest(trials)
    if rule is None:
        return fastest
    reached = [trial for trial in trials if trial.is_reached]
    expected = _nearest(rule, reached)
    if expected is None:
        return fastest
    loss = interval(expected.time_s - fastest.time_s)  # of the same replicas
    is_slower = loss.mean - loss.half > 0.0
    return fastest if is_slower else expected


def fit_progress(trials: Sequence[Trial], options: TimeoutOptions) -> TimeoutOptions:
    """Return *options* with the critical number and the exponent of the progress in the *trials* that reach the target.

    All of them reach the same target, so their progress should be the same.  Of each exponent, the critical number is
    taken that minimises the variance over trials of the mean logarithm of the progress: 0 if rounds with fewer updates
    are no worse, and at most 10⁴, where each update counts the same.  The smallest exponent is taken whose variance is
    explained by the differences between replicas; if there is none, that of the least variance.
    """
    reached = [trial for trial in trials if trial.is_reached]
    fits = []
    for exponent in _EXPONENTS:
        spreads = []
        for critical in _CRITICALS:
            amounts = np.log([trial.progress(critical, exponent) for trial in reached])  # [trials, replicas]
            spreads.append(amounts.mean(axis=1).var())
        critical = float(_CRITICALS[int(np.argmin(spreads))])
        fits.append((min(spreads), replace(options, critical=critical, exponent=exponent)))
        if min(spreads) <= _chance(reached, critical, exponent):
            return fits[-1][1]
    return min(fits, key=lambda fit: fit[0])[1]


def _chance(trials: Sequence[Trial], critical: float, exponent: float) -> float:
    """Return the variance by chance of the mean logarithm of the progress, from what replicas do not share."""
    amounts = np.log([trial.progress(critical, exponent) for trial in trials])
    apart = amounts - amounts.mean(axis=0) - amounts.mean(axis=1, keepdims=True) + amounts.mean()
    return float((apart**2).mean() / amounts.shape[1])
