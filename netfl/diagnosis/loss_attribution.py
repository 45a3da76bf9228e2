"""Causal attribution of missing deliveries, by counterfactual replay.

The network of a finished run is simulated again: once unchanged, and for each user once without each cause for that
user (`netfl.network.counterfactual`), with the same random draws.  The user's additional deliveries are the cost of the
cause.  Only one user is spared at a time: users that are spared together compete with each other, so that none of them
would gain anything where a round closes with the first delivery.  A last replay without all causes gives their combined
cost.

From the first round that differs the replays diverge, so that chance alone makes a difference.  A cause is named only
if its gain is significant (`gain_p_values`), with Bonferroni's correction over all causes and, if the users were
chosen as the rarest, over all users, because the rarest also had bad luck.  One cause needs no test: a user that never
sends, because no training ends before the round does, is cut off by compute (`Training`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from netfl.access.network import NetworkAccess
from netfl.errors import Fault, ScenarioError
from netfl.network.build import compute_streams
from netfl.network.counterfactual import CAUSES, NO_EXEMPTIONS
from netfl.network.validation import inactive_causes
from netfl.registry import kind_of
from netfl.results.formatting import clock, counted
from netfl.results.run_reader import Run
from netfl.scenario.scenario import Scenario, load
from netfl.simulation.setup import RunSetup, locate_faults, prepare_run
from netfl.types import OUTCOMES, Event, NullRecorder, ScenarioFacts

LEVEL = 0.05
"""Probability that a cause without cost is named."""
ALL = "all"
"""Name of all causes together."""
_MAX_BLOCKS = 40
_MIN_BLOCK_ROUNDS = 5

Progress = Callable[[int, int, str], None]
"""Called before each replay with the number of finished replays, the number of all, and the name of the next."""


@dataclass(frozen=True, slots=True)
class Training:
    """Training times of one user, compared with the rounds.

    Args:
        train_s: mean training time of an update, in seconds.
        round_s: median duration of the rounds, in seconds.
        begun: the number of trainings that the user began.
        finished: the number of trainings that ended before a newer version replaced them.
    """

    train_s: float
    round_s: float
    begun: int
    finished: int


@dataclass(frozen=True, slots=True)
class UserAttribution:
    """Deliveries of one user, actual and without each cause.

    The replays differ from the original in this user alone, so that the result does not depend on the other users that
    are explained.

    Args:
        user: user number.
        deliveries: the number of its deliveries.
        rounds: the number of rounds.
        fair: the deliveries of all users, divided by the number of users.
        outcomes: outcomes of its updates, of `netfl.types.OUTCOMES`.
        failed: failed attempts over the air, by reason.
        without: deliveries without each cause.
        without_all: deliveries without all causes.
        p: p-values of the gains by cause, and by `ALL`: those of `gain_p_values` times the number of tests, at most 1.
        training: its trainings; ``None`` if users do not train.
    """

    user: int
    deliveries: int
    rounds: int
    fair: float
    outcomes: Mapping[str, int]
    failed: Mapping[str, int]
    without: Mapping[str, int]
    without_all: int
    p: Mapping[str, float]
    training: Training | None = None

    @property
    def never_sends(self) -> bool:
        """Rounds close before any training of the user ends: a fact of the run that needs no test."""
        training = self.training
        if training is None or "compute" not in self.without:
            return False
        return training.begun > 0 and training.finished == 0 and training.train_s > training.round_s

    @property
    def gains(self) -> dict[str, int]:
        """Additional deliveries without each cause; may be negative."""
        return {cause: count - self.deliveries for cause, count in self.without.items()}

    @property
    def named(self) -> tuple[str, ...]:
        """Compute if the user `never_sends`, then the causes with significant gains, the largest first."""
        gains = self.gains
        significant = [cause for cause in self.without if gains[cause] > 0 and self.p[cause] <= LEVEL]
        first = ["compute"] if self.never_sends else []
        return (*dict.fromkeys(first + sorted(significant, key=lambda cause: -gains[cause])),)

    @property
    def shares(self) -> dict[str, float]:
        """The share of each `named` cause in the gains of all these; 0 for other causes."""
        gains = {cause: max(0, self.gains[cause]) for cause in self.named}
        total = sum(gains.values()) or 1
        return {cause: gains.get(cause, 0) / total for cause in self.without}

    @property
    def is_combined(self) -> bool:
        """The combined cost of all causes is significant and exceeds the sum over the `named` ones."""
        gains = self.gains
        return self.p[ALL] <= LEVEL and self.without_all - self.deliveries > sum(gains[cause] for cause in self.named)

    @property
    def main(self) -> str | None:
        """The first `named` cause."""
        return next(iter(self.named), None)

    @property
    def sentence(self) -> str:
        """The attribution in words."""
        updates = counted(self.deliveries, "update") if self.deliveries else "no update"
        head = f"user {self.user} delivered {updates} in {self.rounds} rounds (fair share {self.fair:.3g})"
        combined = ""
        if self.is_combined:
            combined = f"; without all of them, it would have delivered {counted(self.without_all, 'update')}"
        if not self.named:
            alone = " alone" if self.is_combined else ""
            return f"{head}: no cause{alone} costs it more deliveries than chance explains{combined}"
        first, without = self.named[0], counted(self.without[self.named[0]], "update")
        return f"{head}: {self._causes}; without {first}, it would have delivered {without}{combined}"

    @property
    def _causes(self) -> str:
        shares, (first, *others) = self.shares, self.named
        if self.never_sends and self.training is not None:
            train, close = clock(self.training.train_s), clock(self.training.round_s)
            return f"compute: it never sends, because it trains for {train} and rounds close after {close} (median)"
        parts = {cause: f"{cause} ({100 * shares[cause]:.0f} %)" for cause in self.named}
        more = ", then " + " and ".join(parts[cause] for cause in others) if others else ""
        return f"{'mostly ' if 0.5 <= shares[first] < 1 else ''}{parts[first]}{more}"


@dataclass(frozen=True)
class LossAttribution:
    """Causes of missing deliveries of several users.

    Args:
        users: one attribution for each user, in the order of the request, by default the rarest first.
        causes: the active causes.
        inactive: the other causes, and the reasons for which they cost nothing.
        notes: limits of the result, in sentences.
    """

    users: tuple[UserAttribution, ...]
    causes: tuple[str, ...]
    inactive: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row per user: user, deliveries, fair; for each cause its deliveries without it, gain, share and p-value.

        If users train, the columns of `Training` follow.
        """
        rows = []
        for user in self.users:
            row: dict[str, Any] = {"user": user.user, "deliveries": user.deliveries, "fair": user.fair}
            for cause in self.causes:
                row[f"without_{cause}"], row[f"gain_{cause}"] = user.without[cause], user.gains[cause]
                row[f"share_{cause}"], row[f"p_{cause}"] = user.shares[cause], user.p[cause]
            row |= {"without_all": user.without_all, "p_all": user.p[ALL], "main": user.main}
            rows.append(row if user.training is None else row | asdict(user.training))
        return pd.DataFrame(rows)

    def to_json(self) -> dict[str, Any]:
        """Return a flat object: for each metric a list over the users."""
        flat: dict[str, Any] = {f"explain.{name}": column.tolist() for name, column in self.table.items()}
        flat["explain.outcomes"] = [dict(user.outcomes) for user in self.users]
        flat["explain.failed"] = [dict(user.failed) for user in self.users]
        flat["explain.sentences"] = [user.sentence for user in self.users]
        return flat | {"explain.idle": dict(self.inactive), "explain.notes": list(self.notes)}


def explain(
    run: Run,
    users: Sequence[int] | None = None,
    *,
    rare: int = 3,
    replica: int | None = None,
    on_progress: Progress | None = None,
) -> LossAttribution:
    """Find the causes that cost users their deliveries.

    The network is simulated once unchanged, and for each user once for each active cause and once without all causes.

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
        faults.append(Fault("--replica", "no such replica", replica, f"there are {scenario.replicas}, from 0"))
    if faults:
        raise ScenarioError(faults)
    first, end = (0, scenario.replicas) if replica is None else (replica, replica + 1)
    setup = prepare_run(scenario, learning=False, replicas=range(first, end))
    inactive = inactive_causes(access, ScenarioFacts(scenario.users, scenario.steps))
    causes = tuple(cause for cause in CAUSES if cause not in inactive)
    spared = {cause: (cause,) for cause in causes} | {ALL: causes}
    number = min(rare, scenario.users) if users is None else len({*users})
    replays = 1 + number * len({*spared.values()})
    on_progress = on_progress or (lambda done, replays, name: None)
    on_progress(0, replays, "unchanged")
    counts: Counter[tuple[int, str, str]] = Counter()
    original = _replay(setup, access, counts)
    deliveries = original.deliveries
    rarest = np.argsort(deliveries, kind="stable")[:rare].tolist()
    tests = (len(causes) + 1) * (scenario.users if users is None else number)
    train_s, round_s = None, float(np.median(original.open_s))
    if access.compute is not None:
        times_s = [access.compute.time_s(setting.samples, compute_streams(setting)) for setting in setup.contexts]
        train_s = np.mean(times_s, axis=0)
    attributions, done = [], 1
    for user in rarest if users is None else dict.fromkeys(users):
        before, after = original.by_round(user), {}
        for left_out in dict.fromkeys(spared.values()):
            name = left_out[0] if len(left_out) == 1 else "all causes"
            on_progress(done, replays, f"user {user} without {name}")
            after[left_out] = _replay(setup, _spare(access, left_out, user)).by_round(user)
            done += 1
        without = {cause: int(after[left_out].sum()) for cause, left_out in spared.items()}
        outcomes = {outcome: counts[user, outcome, ""] for outcome in OUTCOMES if counts[user, outcome, ""]}
        training = None
        if train_s is not None:  # each training ends in an outcome of its update
            training = Training(float(train_s[user]), round_s, sum(outcomes.values()), counts[user, "trained", ""])
        attributions.append(
            UserAttribution(
                user=user,
                deliveries=int(before.sum()),
                rounds=before.size,
                fair=float(deliveries.mean()),
                outcomes=outcomes,
                failed={why: n for (of, kind, why), n in sorted(counts.items()) if (of, kind) == (user, "failed")},
                without={cause: without[cause] for cause in causes},
                without_all=without[ALL],
                p={
                    cause: min(1.0, tests * float(gain_p_values(before, after[left_out])[0]))
                    for cause, left_out in spared.items()
                },
                training=training,
            )
        )
    return LossAttribution(tuple(attributions), causes, inactive, tuple(_notes(run, access, original, replica)))


def gain_p_values(before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the one-sided p-value of the gain in deliveries, ``[users]``.

    Two replays with common random numbers may agree round by round, or diverge at the first difference and be nearly
    independent from then on, so that they are compared as pairs.  The result is the larger of two p-values: the exact
    sign test of the differing deliveries, which is valid for few of them (Q. McNemar, Psychometrika 12, 1947), and
    Student's t of the whole difference, which is valid with memory: its variance is the larger of those from rounds and
    from blocks of rounds.

    Args:
        before: deliveries in one replay, ``[replicas, rounds, users]``.
        after: deliveries in the other.
    """
    more = np.asarray(after, np.int64) - before
    up, down = np.maximum(more, 0).sum(axis=(0, 1)), np.maximum(-more, 0).sum(axis=(0, 1))
    signs = stats.binom.sf(up - 1, up + down, 0.5)
    replicas, rounds, users = more.shape
    blocks = int(np.clip(-(-_MAX_BLOCKS // replicas), 1, max(1, rounds // _MIN_BLOCK_ROUNDS)))
    if replicas * blocks < 2:
        return np.ones(users)
    sums = np.add.reduceat(more, np.arange(blocks) * rounds // blocks, axis=1)
    error = np.sqrt(np.maximum(_variance(more), _variance(sums)))
    with np.errstate(divide="ignore", invalid="ignore"):
        student = stats.t.sf((up - down) / error, replicas * blocks - 1)
    return np.where(up > down, np.fmax(signs, student), 1.0)


def _variance(parts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the variance of the sum of ``[replicas, parts, users]``, modelled as a first-order recursion."""
    rest = parts - parts.mean(axis=(0, 1))
    power, count = (rest**2).sum(axis=(0, 1)), parts.shape[0] * parts.shape[1]
    memory = np.clip((rest[:, 1:] * rest[:, :-1]).sum() / max(float(power.sum()), 1e-12), 0.0, 0.99)
    return np.asarray(power * count / (count - 1) * (1 + memory) / (1 - memory))


@dataclass(frozen=True, slots=True)
class _Replay:
    """Result of a replay.

    Args:
        setup: the replayed run.
        rows: replica, round, user and base of each delivery.
        open_s: duration of each round, in seconds.
    """

    setup: RunSetup
    rows: list[tuple[int, int, int, int]]
    open_s: list[float]

    @property
    def deliveries(self) -> NDArray[np.int64]:
        """Deliveries of each user."""
        return np.bincount([user for _, _, user, _ in self.rows], minlength=self.setup.scenario.users)

    def by_round(self, user: int) -> NDArray[np.int64]:
        """Return the deliveries of *user* in each round, ``[replicas, rounds, 1]``."""
        counts = np.zeros((len(self.setup.replicas), self.setup.scenario.steps, 1), np.int64)
        for replica, index, sender, _ in self.rows:
            if sender == user:
                counts[replica - self.setup.replicas[0], index - 1] += 1
        return counts


class _CountingRecorder(NullRecorder):
    """A recorder that counts outcomes, failed attempts and finished trainings by user, kind and reason."""

    def __init__(self, counts: Counter[tuple[int, str, str]]) -> None:
        self._counts = counts

    def wants(self, kind: str) -> bool:
        return kind in {"failed", "trained", *OUTCOMES}

    def record(self, event: Event) -> None:
        kind = event.kind
        if not self.wants(kind):
            return
        shape = np.broadcast_shapes(np.shape(event.time_s), np.shape(event.user))
        for number in np.broadcast_to(event.user, shape).ravel().tolist():
            self._counts[number, kind, event.detail if kind == "failed" else ""] += 1
            if kind == "given_up":
                self._counts[number, "failed", event.detail] += 1


def _replay(setup: RunSetup, access: NetworkAccess, counts: Counter[tuple[int, str, str]] | None = None) -> _Replay:
    """Simulate all replicas with *access*, and add events to *counts*."""
    result = _Replay(setup, [], [])
    recorder = NullRecorder() if counts is None else _CountingRecorder(counts)
    with locate_faults(setup.scenario, "access"):
        for setting in setup.contexts:
            for played in access.rounds(replace(setting, recorder=recorder)):
                result.open_s.append(played.closed_s - played.opened_s)
                result.rows.extend((setting.replica, played.index, sent.user, sent.base) for sent in played.deliveries)
    return result


def _spare(access: NetworkAccess, causes: Sequence[str], user: int) -> NetworkAccess:
    """Return *access* with *user* spared *causes*, in addition to the users it already spares."""
    spare = access.exempt or NO_EXEMPTIONS
    more = {cause: tuple({*getattr(spare, cause), user}) for cause in causes}
    return access.model_copy(update={"exempt": spare.model_copy(update=more)})


def _load_network(run: Run) -> tuple[Scenario, NetworkAccess]:
    """Return the scenario of a run and its network; raise a ScenarioError if it cannot be replayed."""
    if run.status != "done":
        problem = f"the run in {run.folder} is not finished ({run.status})"
        raise ScenarioError([Fault("--explain", problem, None, f"finish it first: netfl resume {run.folder}")])
    scenario = load(run.folder / "scenario.yaml")
    access, kind = scenario.access, kind_of(type(scenario.access))
    if scenario.duration is not None:
        problem, remedy = (
            "this run has a duration instead of rounds: it has no updates",
            "explain a run that has rounds",
        )
    elif kind == "replay":
        problem, remedy = "this run replays the deliveries of another", "explain the run that it replays"
    elif not isinstance(access, NetworkAccess):
        problem = f"access '{kind}' is a direct access without a network"
        remedy = "explain a run with access: network"
    elif access.info.is_closed_loop:
        problem = "the deliveries depend on the training, so the network cannot be simulated without the learners"
        remedy = "explain a run whose access does not use the learners"
    else:
        return scenario, access
    raise ScenarioError([Fault("--explain", problem, None, remedy)])


def _notes(run: Run, access: NetworkAccess, original: _Replay, replica: int | None) -> list[str]:
    notes, table = [], run.deliveries
    table = table if replica is None else table[table["replica"] == replica]
    recorded = table[["replica", "round", "user", "base"]].to_numpy().tolist()
    if sorted(map(tuple, recorded)) != sorted(original.rows):
        problem = "The replayed network does not reproduce the deliveries of the run"
        notes.append(f"{problem}; the explanation is of the replay.")
    if replica is None and len({row[0] for row in original.rows}) > 1:
        notes.append("The table below counts the deliveries of all replicas together.")
    if kind_of(type(access.selection)) != "all":
        notes.append("The server does not select all users in every round, which also costs deliveries.")
    return notes
