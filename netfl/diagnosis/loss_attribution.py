"""Causal attribution: which cause cost users their deliveries.

The network of a finished run is played again, once as it was, and for each user once without each cause for that user
(`netfl.network.counterfactual`), all else drawn alike.  The user's additional deliveries are what the cause cost it.
Only one user is spared at a time: users who are spared together compete with each other, so that none of them gains
anything where a round closes with the first.  A last play without all causes shows what they cost in combination.

From the first round that differs the plays diverge, so that chance alone makes a difference.  A cause is named only
where it gains more than that (`netfl.diagnosis.loss_attribution`), by Bonferroni over all causes and, where the users
were picked
as the rarest, over all users: the rarest also had bad luck.  One cause needs no such test: a user that never sends,
because no training of it ends before the round does, is cut off by compute
(`netfl.diagnosis.loss_attribution.Training`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from netfl.access._builder import compute_streams
from netfl.access._validation import inactive_causes
from netfl.access.network import NetworkAccess
from netfl.errors import Fault, ScenarioError
from netfl.network.counterfactual import CAUSES, NOBODY
from netfl.registry import kind_of
from netfl.results.formatting import clock
from netfl.results.run_reader import Run
from netfl.scenario.scenario import Scenario, load
from netfl.simulation.setup import RunSetup, locate_faults, prepare_run
from netfl.types import FATES, NullRecorder, Round, ScenarioFacts

# Gains: whether users are heard more often in one play of a world than in another, beyond chance.
#
# Two plays that share their random numbers may be alike round by round, or part ways at the first difference and be
# next
# to independent from then on.  So the plays are compared as pairs: round by round, and in blocks of rounds, whose
# spread
# holds whatever the pairs share, and what memory adds.


_BLOCKS = 40
"""Blocks that all rounds are cut into, if there are enough."""
_SHORTEST = 5
"""Rounds that a block has at least."""


def gain_p_values(before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.float64]:
    """How likely chance alone brings as many deliveries more, ``[users]``; one-sided.

    The larger of two p-values: that of the exact sign test of the deliveries by which rounds differ, which holds for
    few of them (Q. McNemar, Psychometrika 12, 1947), and Student's t of the whole difference, which holds for rounds
    with memory: its variance is the larger of what rounds tell and what blocks of rounds do.

    Args:
        before: deliveries in one play, ``[replicas, rounds, users]``.
        after: those in the other.
    """
    more = np.asarray(after, np.int64) - before
    up, down = np.maximum(more, 0).sum(axis=(0, 1)), np.maximum(-more, 0).sum(axis=(0, 1))
    signs = stats.binom.sf(up - 1, up + down, 0.5)
    replicas, rounds, users = more.shape
    number = int(np.clip(-(-_BLOCKS // replicas), 1, max(1, rounds // _SHORTEST)))
    if replicas * number < 2:
        return np.ones(users)
    blocks = np.add.reduceat(more, np.arange(number) * rounds // number, axis=1)
    error = np.sqrt(np.maximum(_variance(more), _variance(blocks)))
    with np.errstate(divide="ignore", invalid="ignore"):
        student = stats.t.sf((up - down) / error, replicas * number - 1)
    return np.where(up > down, np.fmax(signs, student), 1.0)


def _variance(parts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The variance of the sum of ``[replicas, parts, users]``, which are taken for a first-order recursion."""
    rest = parts - parts.mean(axis=(0, 1))
    power, count = (rest**2).sum(axis=(0, 1)), parts.shape[0] * parts.shape[1]
    memory = np.clip((rest[:, 1:] * rest[:, :-1]).sum() / max(float(power.sum()), 1e-12), 0.0, 0.99)
    return np.asarray(power * count / (count - 1) * (1 + memory) / (1 - memory))


# The causes of users' missing deliveries: as numbers, as a table, and in words.


LEVEL = 0.05
"""The probability that any cause is named that costs nobody anything."""
ALL = "all"
"""The name of all causes together."""


@dataclass(frozen=True, slots=True)
class Training:
    """The trainings of one user, beside the rounds that they have to fit into.

    Args:
        train_s: how long the user trains for one update, on average, in seconds.
        round_s: how long rounds are open, the median, in seconds.
        begun: trainings that the user began.
        finished: those that came to an end before a newer version replaced them.
    """

    train_s: float
    round_s: float
    begun: int
    finished: int

    @property
    def is_too_long(self) -> bool:
        """Whether the user never sends anything, because rounds close before it has trained."""
        return self.begun > 0 and self.finished == 0 and self.train_s > self.round_s


@dataclass(frozen=True, slots=True)
class UserAttribution:
    """One user: its deliveries, and those that it would have had without each cause.

    The plays differ from the one as it was in this user alone, so that a story does not depend on which other users
    are explained beside it.

    Args:
        user: its number.
        heard: its deliveries.
        rounds: in how many rounds.
        fair: the deliveries of all users, divided by their number.
        fates: what its updates came to, of `netfl.types.FATES`.
        failed: attempts over the air that failed and left it to another, or to giving up, by why.
        without: its deliveries without each cause.
        together: its deliveries without all of them.
        p: how likely chance alone brings such a gain to any user by any cause, by cause, and by `ALL` of them: the
            p-value of `netfl.diagnosis.loss_attribution` times how many gains there are, at most 1.
        training: its trainings; ``None`` where users do not train.
    """

    user: int
    heard: int
    rounds: int
    fair: float
    fates: Mapping[str, int]
    failed: Mapping[str, int]
    without: Mapping[str, int]
    together: int
    p: Mapping[str, float]
    training: Training | None = None

    @property
    def never_sends(self) -> bool:
        """Whether training alone keeps the user from ever sending; a fact of the run, whatever chance does."""
        return "compute" in self.without and self.training is not None and self.training.is_too_long

    @property
    def gains(self) -> dict[str, int]:
        """By how many deliveries it has more without each cause; below 0 where it has fewer."""
        return {cause: count - self.heard for cause, count in self.without.items()}

    @property
    def named(self) -> tuple[str, ...]:
        """Compute where it `never_sends`, then the causes whose gains are beyond chance, the largest first."""
        gains = self.gains
        clear = [cause for cause in self.without if gains[cause] > 0 and self.p[cause] <= LEVEL]
        first = ["compute"] if self.never_sends else []
        return (*dict.fromkeys(first + sorted(clear, key=lambda cause: -gains[cause])),)

    @property
    def shares(self) -> dict[str, float]:
        """The gain of each cause that is `named` as a part of the gains of all these; 0 of the others."""
        gains = {cause: max(0, self.gains[cause]) for cause in self.named}
        whole = sum(gains.values()) or 1
        return {cause: gains.get(cause, 0) / whole for cause in self.without}

    @property
    def is_combined(self) -> bool:
        """Whether all causes together cost more deliveries than those `named` do, one by one, beyond chance."""
        gains = self.gains
        return self.p[ALL] <= LEVEL and self.together - self.heard > sum(gains[cause] for cause in self.named)

    @property
    def main(self) -> str | None:
        """The first of the causes that are `named`."""
        return next(iter(self.named), None)

    @property
    def sentence(self) -> str:
        """All that in words."""
        head = f"user {self.user} delivered {_updates(self.heard)} in {self.rounds} rounds (fair share {self.fair:.3g})"
        together = f"without all of them, it would have delivered {_updates(self.together)}"
        if not self.named:
            alone = "no cause alone costs it more deliveries than chance explains"
            return f"{head}: {alone}; {together}" if self.is_combined else f"{head}: {alone.replace(' alone', '')}"
        first, without = self.named[0], self.without[self.named[0]]
        combined = f"; {together}" if self.is_combined else ""
        return f"{head}: {self._verdict}; without {first}, it would have delivered {_updates(without)}{combined}"

    @property
    def _verdict(self) -> str:
        """The causes that are `named`."""
        shares, (first, *others) = self.shares, self.named
        if self.never_sends and self.training is not None:
            train, close = clock(self.training.train_s), clock(self.training.round_s)
            return f"compute: it never sends, because it trains for {train} and rounds close after {close} (median)"
        more = ", then " + " and ".join(f"{cause} ({_percent(shares[cause])})" for cause in others) if others else ""
        return f"{'mostly ' if 0.5 <= shares[first] < 1 else ''}{first} ({_percent(shares[first])}){more}"


@dataclass(frozen=True)
class LossAttribution:
    """The causes of missing deliveries, for several users.

    Args:
        stories: one for each user, in the order in which they were asked for, by default the rarest first.
        causes: those that are at work.
        idle: the others, and why they cost nobody anything.
        notes: what else is to be said.
    """

    stories: tuple[UserAttribution, ...]
    causes: tuple[str, ...]
    idle: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row per user: user, heard, fair; for each cause its deliveries without it, gain, share and p-value.

        Where users train, the columns of `Training` follow.
        """
        rows = []
        for one in self.stories:
            row: dict[str, Any] = {"user": one.user, "heard": one.heard, "fair": one.fair}
            for cause in self.causes:
                row[f"without_{cause}"], row[f"gain_{cause}"] = one.without[cause], one.gains[cause]
                row[f"share_{cause}"], row[f"p_{cause}"] = one.shares[cause], one.p[cause]
            row |= {"without_all": one.together, "p_all": one.p[ALL], "main": one.main}
            rows.append(row if one.training is None else row | asdict(one.training))
        return pd.DataFrame(rows)

    def to_json(self) -> dict[str, Any]:
        """All of it, flat: for each figure a list over the users."""
        told: dict[str, Any] = {f"explain.{name}": column.tolist() for name, column in self.table.items()}
        for name in ("fates", "failed"):
            told[f"explain.{name}"] = [dict(getattr(one, name)) for one in self.stories]
        told["explain.sentences"] = [one.sentence for one in self.stories]
        return told | {"explain.idle": dict(self.idle), "explain.notes": list(self.notes)}


def _updates(count: int) -> str:
    """A number of updates."""
    return {0: "no update", 1: "1 update"}.get(count, f"{count} updates")


def _percent(share: float) -> str:
    """A share."""
    return f"{100 * share:.0f} %"


Progress = Callable[[int, int, str], None]
"""Called before each play: with the plays that are done, with how many there are, and with what is played next."""


def explain(
    run: Run,
    users: Sequence[int] | None = None,
    *,
    rare: int = 3,
    replica: int | None = None,
    tell: Progress | None = None,
) -> LossAttribution:
    """Find the causes that cost users their deliveries.

    The network is played once as it was, and for each user once for each cause at work and once without all of them.

    Args:
        run: a finished run whose access is a network.
        users: the users to explain; by default the *rare* users with the fewest deliveries.
        rare: how many these are.
        replica: which replica; by default all together.
        tell: called before each play.

    Raises:
        ScenarioError: there is nothing to explain, or it cannot be played again.
    """
    scenario, access = _explicable(run)
    _check(scenario, users, replica)
    first, end = (0, scenario.replicas) if replica is None else (replica, replica + 1)
    staged = prepare_run(scenario, learning=False, replicas=range(first, end))
    idle = inactive_causes(access, ScenarioFacts(scenario.users, scenario.steps))
    causes = tuple(cause for cause in CAUSES if cause not in idle)
    spared = {cause: (cause,) for cause in causes} | {ALL: causes}
    number = min(rare, scenario.users) if users is None else len({*users})
    plays = 1 + number * len({*spared.values()})
    tell = tell or (lambda done, plays, what: None)
    tell(0, plays, "as it was")
    counts: Counter[tuple[int, str, str]] = Counter()
    plain = _play(staged, access, counts)
    order = np.argsort(plain.heard, kind="stable")[:rare].tolist() if users is None else [*dict.fromkeys(users)]
    looks = (len(causes) + 1) * (scenario.users if users is None else number)
    trainings, stories, done = _trainings(staged, access, plain, counts), [], 1
    for user in order:
        before, found = plain.by_round(staged, user), {}
        for left_out in dict.fromkeys(spared.values()):
            what = left_out[0] if len(left_out) == 1 else "all causes"
            tell(done, plays, f"user {user} without {what}")
            found[left_out] = _play(staged, _sparing(access, left_out, user)).by_round(staged, user)
            done += 1
        without = {cause: int(found[left_out].sum()) for cause, left_out in spared.items()}
        p = {cause: min(1.0, looks * float(gain_p_values(before, found[one])[0])) for cause, one in spared.items()}
        together, fair = without.pop(ALL), float(plain.heard.mean())
        fates = {fate: counts[user, fate, ""] for fate in FATES if counts[user, fate, ""]}
        failed = {why: count for (who, kind, why), count in sorted(counts.items()) if (who, kind) == (user, "failed")}
        own = None if trainings is None else trainings(user)
        heard = int(before.sum())
        stories.append(UserAttribution(user, heard, before.size, fair, fates, failed, without, together, p, own))
    return LossAttribution(tuple(stories), causes, idle, tuple(_notes(run, access, plain, replica)))


@dataclass
class _Played:
    """What came of playing a network.

    Args:
        heard: deliveries of each user.
        rows: replica, round, user and base of each delivery.
        open_s: how long each round was open, in seconds.
    """

    heard: NDArray[np.int64]
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)
    open_s: list[float] = field(default_factory=list)

    def add(self, replica: int, played: Round) -> None:
        """Count the deliveries of a round."""
        self.open_s.append(played.closed_s - played.opened_s)
        for delivery in played.deliveries:
            self.heard[delivery.user] += 1
            self.rows.append((replica, played.index, delivery.user, delivery.base))

    def by_round(self, staged: RunSetup, user: int) -> NDArray[np.int64]:
        """The deliveries of *user* in each round, ``[replicas, rounds, 1]``."""
        counts = np.zeros((len(staged.replicas), staged.scenario.steps, 1), np.int64)
        for replica, index, sender, _ in self.rows:
            if sender == user:
                counts[replica - staged.replicas[0], index - 1] += 1
        return counts


class _Counting(NullRecorder):
    """A recorder that counts the outcomes of updates, the attempts that failed, and the trainings that ended."""

    def __init__(self, counts: Counter[tuple[int, str, str]]) -> None:
        self._counts = counts

    def wants(self, kind: str) -> bool:
        """Outcomes, failures and ends of trainings."""
        return kind in {"failed", "trained", *FATES}

    def event(self, kind: str, time_s: ArrayLike, *, user: ArrayLike = -1, detail: str = "", **told: Any) -> None:
        """Count it, once for each user; the fates of packets of traffic are recorded only where there are no rounds."""
        if self.wants(kind):
            shape = np.broadcast_shapes(np.shape(time_s), np.shape(user))
            for one in np.broadcast_to(user, shape).ravel().tolist():
                self._counts[one, kind, detail if kind == "failed" else ""] += 1
                if kind == "given_up":
                    self._counts[one, "failed", detail] += 1


def _play(staged: RunSetup, access: NetworkAccess, counts: Counter[tuple[int, str, str]] | None = None) -> _Played:
    """Play what is *staged* by *access*, and add what happens to users to *counts*."""
    played = _Played(np.zeros(staged.scenario.users, np.int64))
    recorder = NullRecorder() if counts is None else _Counting(counts)
    with locate_faults(staged.scenario, "access"):
        for setting in staged.contexts:
            for one in access.rounds(replace(setting, recorder=recorder)):
                played.add(setting.replica, one)
    return played


def _trainings(
    staged: RunSetup, access: NetworkAccess, plain: _Played, counts: Counter[tuple[int, str, str]]
) -> Callable[[int], Training] | None:
    """Return a function of a user that gives its trainings; ``None`` where users do not train.  Each ends in a fate."""
    if access.compute is None:
        return None
    each_s = np.mean([access.compute.time_s(one.samples, compute_streams(one)) for one in staged.contexts], axis=0)
    round_s = float(np.median(plain.open_s))

    def of(user: int) -> Training:
        begun = sum(counts[user, fate, ""] for fate in FATES)
        return Training(float(each_s[user]), round_s, begun, counts[user, "trained", ""])

    return of


def _sparing(access: NetworkAccess, causes: Sequence[str], user: int) -> NetworkAccess:
    """Return *access* with *user* spared *causes*, beside the users whom it spares already."""
    spare = access.spare or NOBODY
    more = {cause: tuple({*getattr(spare, cause), user}) for cause in causes}
    return access.model_copy(update={"spare": spare.model_copy(update=more)})


def _explicable(run: Run) -> tuple[Scenario, NetworkAccess]:
    """The scenario of a run and its network, if that can be played again."""
    if run.status != "done":
        problem = f"the run in {run.folder} is not finished ({run.status})"
        raise ScenarioError([Fault("--explain", problem, None, f"finish it first: netfl resume {run.folder}")])
    scenario = load(run.folder / "scenario.yaml")
    access, kind = scenario.access, kind_of(type(scenario.access))
    if scenario.duration is not None:
        problem, remedy = "this run watches traffic for a time: it has no updates", "explain a run that has rounds"
    elif kind == "replay":
        problem, remedy = "this run replays who was heard in another", "explain the run that it replays"
    elif not isinstance(access, NetworkAccess):
        problem = f"access '{kind}' is given directly: no network did anything to it"
        remedy = "explain a run with access: network"
    elif access.closed_loop:
        problem = "who is heard depends on what is learned, so that the network cannot be played without the learners"
        remedy = "explain a run whose access listens to nobody"
    else:
        return scenario, access
    raise ScenarioError([Fault("--explain", problem, None, remedy)])


def _check(scenario: Scenario, users: Sequence[int] | None, replica: int | None) -> None:
    """Users and a replica that there are."""
    faults = [*ScenarioFacts(scenario.users, scenario.steps).strangers("users", users or ())]
    if replica is not None and not 0 <= replica < scenario.replicas:
        faults.append(Fault("--replica", "no such replica", replica, f"there are {scenario.replicas}, from 0"))
    if faults:
        raise ScenarioError(faults)


def _notes(run: Run, access: NetworkAccess, plain: _Played, replica: int | None) -> list[str]:
    """What else is to be said."""
    notes, table = [], run.deliveries
    table = table if replica is None else table[table["replica"] == replica]
    recorded = table[["replica", "round", "user", "base"]].to_numpy().tolist()
    if sorted(map(tuple, recorded)) != sorted(plain.rows):
        problem = "Played again, the network does not give the deliveries of the run"
        notes.append(f"{problem}; this is about what it gives now.")
    if replica is None and len({row[0] for row in plain.rows}) > 1:
        notes.append("The table below counts the deliveries of all replicas together.")
    if kind_of(type(access.selection)) != "all":
        notes.append("The server does not let everybody try in every round, which costs deliveries, too.")
    return notes
