"""Causal explanation of missing deliveries, by counterfactual replay.

The network of a finished run is simulated again: once unchanged, and for a user that delivers less than its fair share,
once without each cause for that user (`netfl.network.counterfactual`), with the same random draws.  Only one user is
exempt at a time: users that are exempt together compete with each other, so that none of them would gain anything where
a round closes with the first delivery.

1. Is the user rare?  `netfl.diagnosis.explanation.rarity` compares it with the fair share, corrected for the number of
   users, whoever is asked for.  Only if chance makes one of equal users as rare in few runs do its causes matter.
2. Is it cut off?  A `LeastTime` that exceeds the longest round explains the user without a replay.
3. What does it gain without all causes that can concern it, and without each?  A gain counts beyond chance, corrected
   for the number of causes, and beyond what a typical user gains.
4. If no single cause explains it: which causes must be removed together?
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from netfl.access.network import NetworkAccess
from netfl.core.kinds import kind_of
from netfl.core.remedies import argument, call
from netfl.diagnosis.explanation.rarity import Rarity, Standing, rarity_of
from netfl.diagnosis.explanation.replays import Evidence, Replay, Replays
from netfl.diagnosis.explanation.result import Explanation
from netfl.diagnosis.explanation.user import LeastTime, UserExplanation
from netfl.errors import Fault, ScenarioError
from netfl.network.build import compute_streams
from netfl.network.counterfactual import CAUSES
from netfl.network.least_time import LeastTimes, counts_until_close, least_times, takes_newest_only
from netfl.network.validation import inactive_causes
from netfl.results.formatting import join_words
from netfl.results.run_reader import Run
from netfl.scenario.scenario import Scenario, load
from netfl.simulation.setup import prepare_run
from netfl.types import OUTCOMES, Floats, ScenarioFacts

_TYPICAL_USERS = 3
"""Number of users near the fair share with whose gains a rare user is compared."""

_REMOVED_LAST = (
    "downlink", "backhaul", "airtime", "superseded", "deadline",
    "contention", "fading", "selection", "compute", "outage",
)  # fmt: skip
"""Order in which causes are kept again if the user delivers nevertheless: rules and details before the main causes."""
_ABSENCES = ("outage", "selection")
"""Causes that may keep a user from delivering even if a bound on its updates does so already."""

Progress = Callable[[int, int, str], None]
"""Called before each replay with the number of finished replays, the number expected, and the name of the next."""


def explain(
    run: Run,
    users: Sequence[int] | None = None,
    *,
    rare: int = 3,
    replica: int | None = None,
    on_progress: Progress | None = None,
) -> Explanation:
    """Find the causes that cost users their deliveries.

    Args:
        run: a finished run whose access is a network.
        users: the users to explain; by default the *rare* users with the fewest deliveries.
        rare: the number of these users.
        replica: the replica; by default all together.
        on_progress: called before each replay.

    Raises:
        ScenarioError: there is nothing to explain, or the run cannot be replayed.
    """
    scenario, access = _load_network(run)
    faults = [*ScenarioFacts(scenario.users, scenario.steps).unknown_users("users", users or ())]
    if replica is not None and not 0 <= replica < scenario.replicas:
        faults.append(Fault(argument("replica"), "no such replica", replica, f"there are {scenario.replicas}, from 0"))
    if faults:
        raise ScenarioError(faults)
    replicas = range(scenario.replicas)
    if replica is not None:
        replicas = range(replica, replica + 1)
    setup = prepare_run(scenario, learning=False, replicas=replicas)
    explainer = _Explainer(Replays(setup, access), on_progress or (lambda done, expected, name: None))
    if users is None:
        users = explainer.rarity.rarest(rare)
    distinct_users = [*dict.fromkeys(users)]
    return Explanation(
        users=tuple(explainer.explain(distinct_users)),
        causes=explainer.causes,
        inactive=explainer.inactive,
        words=explainer.words,
        fair=explainer.rarity.fair,
        notes=tuple(_notes(run, explainer.original, replica)),
    )


class _Explainer:
    """The replays of one run, and what they say of its users."""

    def __init__(self, replays: Replays, on_progress: Progress) -> None:
        self._replays = replays
        self._on_progress = on_progress
        self._done = 0
        self._expected = 1
        facts = ScenarioFacts(replays.setup.scenario.users, replays.setup.scenario.steps)
        self.inactive = inactive_causes(replays.access, facts, selects_all=replays.access.selects_all)
        self.causes = tuple(cause for cause in CAUSES if cause not in self.inactive)
        self.words = _words(replays.access)
        self._evidence = Evidence()
        self._count("unchanged")
        self.original = replays.unchanged(self._evidence)
        self.rarity: Rarity = rarity_of(self.original.by_round())
        self._typical: dict[str, float] = {}

    def explain(self, users: Sequence[int]) -> list[UserExplanation]:
        """Explain *users*, each on its own."""
        without_replays = [self._facts(user) for user in users]
        replayed_users = sum(self._needs_replays(facts) for facts in without_replays)
        self._expected = 1 + replayed_users * (1 + len(self.causes))  # the original, all causes together, and each
        explained = []
        for facts in without_replays:
            needs_replays = self._needs_replays(facts)
            explained.append(self._with_replays(facts) if needs_replays else facts)
        return explained

    def _needs_replays(self, facts: UserExplanation) -> bool:
        """Return whether replays can tell more of a user than is known without."""
        if not facts.is_starving:
            return False
        return not facts.bound_causes or any(cause in self.causes for cause in _ABSENCES)

    def _facts(self, user: int) -> UserExplanation:
        """Return what is known of *user* without a replay of its own."""
        rarity = self.rarity
        deliveries = rarity.deliveries
        evidence = self._evidence
        outcomes = {kind: evidence.outcomes[user, kind] for kind in OUTCOMES if evidence.outcomes[user, kind]}
        failed = {cause: count for (of_user, cause), count in sorted(evidence.failed.items()) if of_user == user}
        standing = rarity.standing(user)
        least_time = self._least_time(user)
        may_be_chance = standing in {Standing.WITHIN_CHANCE, Standing.DOUBTFUL}
        if may_be_chance and not deliveries[user] and least_time is not None and least_time.causes:
            standing = Standing.RARE  # it cannot deliver, whatever chance does
        return UserExplanation(
            user=user,
            standing=standing,
            deliveries=int(deliveries[user]),
            rounds=rarity.rounds,
            empty_rounds=rarity.empty_rounds,
            fair=rarity.fair,
            p=float(rarity.p[user]),
            ties=int((deliveries == deliveries[user]).sum()) - 1,  # without itself
            outcomes=outcomes,
            failed=failed,
            least_time=least_time,
            words=self.words,
        )

    def _with_replays(self, facts: UserExplanation) -> UserExplanation:
        """Return *facts* with the gains of the user."""
        user = facts.user
        causes = [cause for cause in self.causes if self._can_concern(cause, facts)]
        if not causes:
            return facts
        without_all = self._without(causes, user, "all causes")
        together = without_all.gain_over(self.original, user)
        gains = {}
        if len(causes) == 1:
            gains[causes[0]] = together
        else:
            for cause in causes:
                without_cause = self._without([cause], user, self.words.get(cause, cause))
                gains[cause] = without_cause.gain_over(self.original, user)
        explained = replace(facts, gains=gains, together=together)

        # what costs everybody as much does not make this user rare
        if facts.standing is Standing.RARE:
            typical = {cause: self._typical_ratio(cause) for cause in explained.single_causes}
            explained = replace(explained, typical=typical)

        if not explained.is_mostly_explained and explained.is_significant(explained.together):
            explained = self._with_sufficient(explained, causes, without_all)
        return explained

    def _with_sufficient(
        self, explained: UserExplanation, causes: Sequence[str], without_all: Replay
    ) -> UserExplanation:
        """Add the causes that must be removed together, as each suffices to keep the user from delivering.

        Beginning with all causes, one after the other is kept if most of the shortfall is gone nevertheless.
        """
        user = explained.user
        removed = [*causes]
        replay = without_all
        for cause in sorted(causes, key=_REMOVED_LAST.index):
            fewer = [other for other in removed if other != cause]
            if not fewer:
                break
            candidate = self._without(fewer, user, join_words(fewer))
            if explained.is_mostly_gone(candidate.gain_over(self.original, user), fewer):
                removed = fewer
                replay = candidate
        return replace(explained, sufficient=tuple(removed), without_sufficient=replay.gain_over(self.original, user))

    def _can_concern(self, cause: str, facts: UserExplanation) -> bool:
        """Return whether the user can gain anything without *cause*, as far as the unchanged replay tells."""
        if cause == "compute":
            return bool(self._train_s[facts.user] > self._train_s.min())
        if cause == "superseded":
            return "superseded" in facts.outcomes
        if cause == "deadline":
            return "superseded" in facts.outcomes or "late" in facts.outcomes
        return True

    def _typical_ratio(self, cause: str) -> float:
        """Return what typical users deliver without *cause*, each on its own, over what they deliver with it."""
        if cause not in self._typical:
            users = self.rarity.typical(_TYPICAL_USERS)
            self._expected += len(users)
            gains = [self._without([cause], user, cause).gain_over(self.original, user) for user in users]
            before = sum(gain.before for gain in gains)
            after = sum(gain.after for gain in gains)
            ratio = 1.0
            if before:
                ratio = max(1.0, after / before)
            self._typical[cause] = ratio
        return self._typical[cause]

    def _without(self, causes: Sequence[str], user: int, name: str) -> Replay:
        self._count(f"user {user} without {name}")
        return self._replays.without(causes, user)

    def _count(self, name: str) -> None:
        """Report the replay that begins now."""
        self._expected = max(self._expected, self._done + 1)
        self._on_progress(self._done, self._expected, name)
        self._done += 1

    def _least_time(self, user: int) -> LeastTime | None:
        """Return the bound on the updates of *user*; ``None`` where it does not hold, as older updates count."""
        if self._least_times is None:
            return None
        times = self._least_times
        updates = sum(self._evidence.outcomes[user, outcome] for outcome in OUTCOMES)
        return LeastTime(
            train_s=float(times.train_s[user]),
            frames=times.frames,
            frame_s=float(times.spacing_s[user]),
            airtime_s=float(times.airtime_s[user]),
            round_s=max(self.original.open_s),
            trainings=updates,  # each update was begun by one
            finished=self._evidence.trained[user],
            rule="deadline" if takes_newest_only(self._replays.access) else "superseded",
        )

    @cached_property
    def _least_times(self) -> LeastTimes | None:
        """Least times of all users with a mean signal and a mean training, averaged over the replicas."""
        access = self._replays.access
        if not counts_until_close(access):
            return None
        of_replicas = []
        for context in self._replays.setup.contexts:
            times = least_times(access, context, at_best=False)
            if times is not None:
                of_replicas.append(times)
        if not of_replicas:
            return None
        return LeastTimes(
            train_s=np.mean([times.train_s for times in of_replicas], axis=0),
            frames=of_replicas[0].frames,
            airtime_s=np.mean([times.airtime_s for times in of_replicas], axis=0),
            spacing_s=np.mean([times.spacing_s for times in of_replicas], axis=0),
            turn_s=np.mean([times.turn_s for times in of_replicas], axis=0),
        )

    @cached_property
    def _train_s(self) -> Floats:
        """Mean training time of each user over the replicas, ``[users]``; zeros if nobody trains."""
        setup = self._replays.setup
        compute = self._replays.access.compute
        if compute is None:
            return np.zeros(setup.scenario.users)
        times_s = [compute.time_s(context.samples, compute_streams(context)) for context in setup.contexts]
        return np.asarray(np.mean(times_s, axis=0))


def _words(access: NetworkAccess) -> dict[str, str]:
    """Return the words for causes that are not their names: batteries are outages of their users."""
    is_battery = [outage.has_batteries for outage in access.outages]
    if not any(is_battery):
        return {}
    if all(is_battery):
        return {"outage": "battery"}
    return {"outage": "outage or battery"}


def _load_network(run: Run) -> tuple[Scenario, NetworkAccess]:
    """Return the scenario of a run and its network.

    A run that its duration ended becomes one of the rounds that all of its replicas have, so that replays are compared
    round by round.

    Raises:
        ScenarioError: the network cannot be simulated again.
    """
    if run.status != "done":
        problem = f"the run in {run.folder} is not finished ({run.status})"
        raise ScenarioError([Fault("", problem, None, f"finish it first: {call('resume', run.folder)}")])
    scenario = load(run.folder / "scenario.yaml")
    if scenario.stop_s is not None:
        common = int(run.rounds.groupby("replica")["round"].max().min())
        scenario = scenario.model_copy(update={"rounds": common, "duration": None})
    access = scenario.access
    kind = kind_of(type(access))
    if not scenario.has_rounds:
        problem = "this run is one of traffic: it has no updates"
        remedy = "explain a run that has rounds"
    elif kind == "replay":
        problem = "this run replays the deliveries of another"
        remedy = "explain the run that it replays"
    elif not isinstance(access, NetworkAccess):
        problem = f"access '{kind}' is a direct access without a network"
        remedy = "explain a run with access: network"
    elif access.info.is_closed_loop:
        problem = "the deliveries depend on the training, so the network cannot be simulated without the learners"
        remedy = "explain a run whose access does not use the learners"
    else:
        return scenario, access
    raise ScenarioError([Fault("", f"the run in {run.folder} cannot be explained: {problem}", None, remedy)])


def _notes(run: Run, original: Replay, replica: int | None) -> list[str]:
    notes = []
    rounds = original.shape[1]
    recorded = run.deliveries[run.deliveries["round"] <= rounds]
    if run.rounds["round"].max() > rounds:
        notes.append(
            f"Replicas end after different numbers of rounds: the first {rounds} rounds of each are explained."
        )
    if replica is not None:
        recorded = recorded[recorded["replica"] == replica].assign(replica=0)  # the only place
    rows = recorded[["replica", "round", "user", "base"]].to_numpy().tolist()
    if sorted(rows) != sorted(original.rows.tolist()):
        problem = "The replayed network does not reproduce the deliveries of the run"
        notes.append(f"{problem}; the explanation is of the replay.")
    if replica is None and original.shape[0] > 1:
        notes.append("The table below counts the deliveries of all replicas together.")
    return notes
