"""Causal attribution: which cause cost users their deliveries.

The network of a finished run is played again, once as it was, and for each user once without each cause for that user
(`netfl.network.spare`), all else drawn alike.  The user's additional deliveries are what the cause cost it.  Only one
user is spared at a time: users who are spared together compete with each other, so that none of them gains anything
where a round closes with the first.  A last play without all causes shows what they cost in combination.

From the first round that differs the plays diverge, so that chance alone makes a difference.  A cause is named only
where it gains more than that (`netfl.diagnosis.gain`), by Bonferroni over all causes and, where the users were picked
as the rarest, over all users: the rarest also had bad luck.  One cause needs no such test: a user that never sends,
because no training of it ends before the round does, is cut off by compute (`netfl.explanation.Training`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.access._building import compute_streams
from netfl.access._sparing import idle_causes
from netfl.access.network import Network
from netfl.diagnosis.gain import gain_p
from netfl.errors import Fault, ScenarioError
from netfl.explanation import ALL, Explanation, Story, Training
from netfl.network.spare import CAUSES, NOBODY
from netfl.reading import Run
from netfl.registry import kind_of
from netfl.scenario import Scenario, load
from netfl.staging import Stage, located, stage
from netfl.types import FATES, Facts, Round, Unrecorded

Progress = Callable[[int, int, str], None]
"""Called before each play: with the plays that are done, with how many there are, and with what is played next."""


def explain(
    run: Run,
    users: Sequence[int] | None = None,
    *,
    rare: int = 3,
    replica: int | None = None,
    tell: Progress | None = None,
) -> Explanation:
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
    staged = stage(scenario.model_copy(update={"replicas": end}), learning=False, first=first)
    idle = idle_causes(access, Facts(scenario.users, scenario.steps))
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
        p = {cause: min(1.0, looks * float(gain_p(before, found[one])[0])) for cause, one in spared.items()}
        together, fair = without.pop(ALL), float(plain.heard.mean())
        fates = {fate: counts[user, fate, ""] for fate in FATES if counts[user, fate, ""]}
        failed = {why: count for (who, kind, why), count in sorted(counts.items()) if (who, kind) == (user, "failed")}
        own = None if trainings is None else trainings(user)
        heard = int(before.sum())
        stories.append(Story(user, heard, before.size, fair, fates, failed, without, together, p, own))
    return Explanation(tuple(stories), causes, idle, tuple(_notes(run, access, plain, replica)))


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

    def by_round(self, staged: Stage, user: int) -> NDArray[np.int64]:
        """The deliveries of *user* in each round, ``[replicas, rounds, 1]``."""
        counts = np.zeros((len(staged.replicas), staged.scenario.steps, 1), np.int64)
        for replica, index, sender, _ in self.rows:
            if sender == user:
                counts[replica - staged.replicas[0], index - 1] += 1
        return counts


class _Counting(Unrecorded):
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


def _play(staged: Stage, access: Network, counts: Counter[tuple[int, str, str]] | None = None) -> _Played:
    """Play what is *staged* by *access*, and add what happens to users to *counts*."""
    played = _Played(np.zeros(staged.scenario.users, np.int64))
    recorder = Unrecorded() if counts is None else _Counting(counts)
    with located(staged.scenario, "access"):
        for setting in staged.settings:
            for one in access.rounds(replace(setting, recorder=recorder)):
                played.add(setting.replica, one)
    return played


def _trainings(
    staged: Stage, access: Network, plain: _Played, counts: Counter[tuple[int, str, str]]
) -> Callable[[int], Training] | None:
    """Return a function of a user that gives its trainings; ``None`` where users do not train.  Each ends in a fate."""
    if access.compute is None:
        return None
    each_s = np.mean([access.compute.time_s(one.samples, compute_streams(one)) for one in staged.settings], axis=0)
    round_s = float(np.median(plain.open_s))

    def of(user: int) -> Training:
        begun = sum(counts[user, fate, ""] for fate in FATES)
        return Training(float(each_s[user]), round_s, begun, counts[user, "trained", ""])

    return of


def _sparing(access: Network, causes: Sequence[str], user: int) -> Network:
    """Return *access* with *user* spared *causes*, beside the users whom it spares already."""
    spare = access.spare or NOBODY
    more = {cause: tuple({*getattr(spare, cause), user}) for cause in causes}
    return access.model_copy(update={"spare": spare.model_copy(update=more)})


def _explicable(run: Run) -> tuple[Scenario, Network]:
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
    elif not isinstance(access, Network):
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
    faults = [*Facts(scenario.users, scenario.steps).strangers("users", users or ())]
    if replica is not None and not 0 <= replica < scenario.replicas:
        faults.append(Fault("--replica", "no such replica", replica, f"there are {scenario.replicas}, from 0"))
    if faults:
        raise ScenarioError(faults)


def _notes(run: Run, access: Network, plain: _Played, replica: int | None) -> list[str]:
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
