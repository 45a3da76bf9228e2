"""Users that FED-CVaR-AVG can weigh more than importance weighting does, by their deliveries.

docs/background/cvar.md explains the bounds, which `netfl.learning.user_weights` computes.

>>> from netfl.diagnosis import participation_from_sequence
>>> participation = participation_from_sequence([0, 1, 2, 0, 1, 0, 0, 1, 0, 1, 0, 1])
>>> lift = cvar_lift(participation, CvarLevel(alpha=0.2, gamma=0.1))
>>> lift.highest.round(3).tolist(), lift.can_lift.tolist()
([0.95, 0.942, 0.383], [True, True, True])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from netfl.core.remedies import argument
from netfl.diagnosis.participation import Participation
from netfl.errors import Fault, ScenarioError
from netfl.learning.spec import LearnerSpec
from netfl.learning.user_weights import CvarLevel, critical_alpha, merge_shares
from netfl.results import aggregates
from netfl.results.chosen_settings import learner_settings
from netfl.results.formatting import join_words
from netfl.results.run_reader import Run
from netfl.scenario.scenario import Scenario
from netfl.types import Bools, Floats, Ints

_SHOWN = 6
"""The largest number of users in a sentence."""


@dataclass(frozen=True, slots=True)
class GroupLift:
    """Weights of a group of users together; see `CvarLift`.

    Args:
        name: the group in words.
        members: user numbers, in order.
        share: total share ρ of the group.
        highest: the largest weight of the group.
        critical_alpha: the α below which this weight exceeds ``members / users``.
        can_lift: whether it does.
    """

    name: str
    members: tuple[int, ...]
    share: float
    highest: float
    critical_alpha: float
    can_lift: bool


@dataclass(frozen=True, slots=True)
class CvarLift:
    """Weights that an objective of FED-CVaR-AVG can give users, all ``[users]``.

    Args:
        learner: the learner whose objective it is; empty for a level that was given.
        level: α and γ.
        names: names of the users.
        share: ρ, the mean weight of each user in a merge.
        highest: the largest weight of each user.
        critical_alpha: the α below which CVaR can weigh the user more than importance weighting, 1/N.
        can_lift: whether CVaR can do so at this level.
        groups: groups of users that share their loss.
    """

    learner: str
    level: CvarLevel
    names: tuple[str, ...]
    share: Floats
    highest: Floats
    critical_alpha: Floats
    can_lift: Bools
    groups: tuple[GroupLift, ...]

    @property
    def relative(self) -> Floats:
        """N ρ, which is 1 for a user with its fair share, ``[users]``."""
        return len(self.names) * self.share

    @property
    def rarest(self) -> Ints:
        """The users with deliveries whose share is below 1/N, the smallest share first."""
        order = np.argsort(self.share, kind="stable")
        return order[(self.share[order] > 0) & (self.relative[order] < 1)]

    @property
    def sentence(self) -> str:
        """The users that CVaR can weigh more than importance weighting, in words."""
        name = self.learner or "FED-CVaR-AVG"
        setting = f"{name} (α = {self.level.alpha:g}, γ = {self.level.gamma:g})"
        rare = self.rarest
        if not len(rare):
            return f"{setting}: no user with deliveries has a share below 1/N, so there is none to lift."
        lifted = rare[self.can_lift[rare]]
        others = rare[~self.can_lift[rare]]
        if not len(lifted):
            lift = f"none more than importance weighting (1/N) does: that needs α < {self._needed()}"
        elif not len(others):
            lift = "all more than importance weighting (1/N) does"
        else:
            lift = f"{len(lifted)} more than importance weighting (1/N) does, but not {self._listed(others)}"
        users = "1 user" if len(rare) == 1 else f"{len(rare)} users"
        return f"{setting}: of {users} with deliveries and a share below 1/N, it can weigh {lift}."

    def rows(self, rare: int) -> list[list[str]]:
        """Return the cells of a table: the groups, then the *rare* users with the smallest shares.

        The columns are the users, ρ, N ρ, the largest weight, the critical α, and whether the weight can exceed 1/N.
        """
        users = len(self.names)
        rows = []
        for group in self.groups:
            relative = users * group.share / len(group.members)
            cells = _cells(group.share, relative, group.highest, group.critical_alpha, can_lift=group.can_lift)
            rows.append([f"{len(group.members)} {group.name}", *cells])
        for user in np.argsort(self.share, kind="stable")[:rare].tolist():
            values = (self.share[user], self.relative[user], self.highest[user], self.critical_alpha[user])
            rows.append([self.names[user], *_cells(*values, can_lift=bool(self.can_lift[user]))])
        return rows

    def to_json(self) -> dict[str, Any]:
        """Return a flat object with dotted names; lists over users follow ``users``."""
        prefix = f"cvar.{self.learner}." if self.learner else "cvar."
        flat: dict[str, Any] = {"alpha": self.level.alpha, "gamma": self.level.gamma, "sentence": self.sentence}
        for name in ("share", "relative", "highest", "critical_alpha", "can_lift"):
            flat[name] = getattr(self, name).tolist()
        for name in ("name", "members", "share", "highest", "critical_alpha", "can_lift"):
            flat[f"groups.{name}"] = [getattr(group, name) for group in self.groups]
        return {prefix + name: value for name, value in flat.items()}

    def _needed(self) -> str:
        return f"{float(self.critical_alpha[self.rarest].max()):.3g}"

    def _listed(self, users: Ints) -> str:
        names = [self.names[user] for user in users[:_SHOWN]]
        if len(users) > _SHOWN:
            listed = f"{', '.join(names)} and {len(users) - _SHOWN} others"
        else:
            listed = join_words(names)
        return f"user{'s' * (len(users) > 1)} {listed}"


def _cells(share: float, relative: float, highest: float, critical: float, *, can_lift: bool) -> list[str]:
    if share == 0:
        return ["0", "0", "0", "–", "never delivered"]
    if relative >= 1:
        standing = "yes, by its share"
    else:
        standing = "yes" if can_lift else "no"
    return [f"{share:.4f}", f"{relative:.2f}", f"{highest:.4f}", f"{critical:.3g}", standing]


def parse_level(text: str) -> CvarLevel:
    """Return the level that *text* states as ``α,γ``.

    >>> parse_level("0.05,0.1")
    CvarLevel(alpha=0.05, gamma=0.1)

    Raises:
        ScenarioError: it is not two numbers, or one is out of its range.
    """
    try:
        alpha, gamma = (float(part) for part in text.split(","))
    except ValueError:
        remedy = "write two numbers with a comma, such as 0.1,0.1"
        raise ScenarioError([Fault(argument("cvar"), "not a level α and a weight γ", text, remedy)]) from None
    return CvarLevel(alpha, gamma)


def cvar_lift(
    participation: Participation,
    level: CvarLevel,
    *,
    learner: str = "",
    merge_weights: Floats | None = None,
    local_steps: Ints | None = None,
    groups: Mapping[str, Sequence[int]] | None = None,
) -> CvarLift:
    """Return the weights that CVaR can give users, from their deliveries.

    ρ_k is the mean weight of user k in a merge of delivered models, times its number of local steps: to first order,
    the share of its gradient in the change of the model.  A user counts once in a round.

    Args:
        participation: the deliveries.
        level: α and γ.
        learner: name of the learner, for the sentence.
        merge_weights: weights of users in a merge, ``[users]``, up to a factor; by default they are equal.
        local_steps: number of local steps of each user, ``[users]``; by default they are equal.
        groups: users that share their loss, such as the only ones with a rare class, by name.
    """
    weights = merge_weights
    if weights is None:
        weights = np.ones(participation.users)
    share = merge_shares(participation.delivered, weights)
    if local_steps is not None:
        share = share * local_steps / (share @ local_steps)  # ρ_k E_k / Σ ρ_j E_j
    of_groups = []
    for name, members in (groups or {}).items():
        of_groups.append(_lift_group(name, members, share, level))
    return _lift_users(learner, level, participation.names, share, tuple(of_groups))


def _lift_users(
    learner: str, level: CvarLevel, names: tuple[str, ...], share: Floats, groups: tuple[GroupLift, ...] = ()
) -> CvarLift:
    users = len(share)
    return CvarLift(
        learner=learner,
        level=level,
        names=names,
        share=share,
        highest=level.highest(share),
        critical_alpha=critical_alpha(share, users, level.gamma),
        can_lift=level.can_lift(share, users),
        groups=groups,
    )


def _lift_group(name: str, members: Sequence[int], share: Floats, level: CvarLevel) -> GroupLift:
    users = len(share)
    total = share[[*members]].sum(keepdims=True)  # [1], as of one user
    return GroupLift(
        name=name,
        members=tuple(members),
        share=float(total[0]),
        highest=float(level.highest(total)[0]),
        critical_alpha=float(critical_alpha(total, users, level.gamma, len(members))[0]),
        can_lift=bool(level.can_lift(total, users, len(members))[0]),
    )


def cvar_lifts(
    run: Run, participation: Participation, replica: int | None = None, level: CvarLevel | None = None
) -> Iterator[CvarLift]:
    """Yield the lifts of a run: for each learner that minimises a CVaR over its deliveries, or for a given *level*.

    Rules that weigh users otherwise, such as `fedau` and `mifa`, are left out: over equal weights, CVaR with α < 1 can
    lift every user.  A given level uses the merges of the first learner that averages models.

    Args:
        run: the run.
        participation: deliveries of *replica*, of all users.
        replica: number of the replica; by default the first.
        level: the level, in place of those of the learners.

    Raises:
        ScenarioError: a level is given, but *participation* lacks users.
    """
    # the users of the replica, their numbers of examples, and their groups
    users = run.users
    groups: dict[str, list[int]] = {}
    number = 0 if replica is None else replica
    if len(users):
        if replica is None:
            number = int(users["replica"].min())
        users = users[users["replica"] == number].sort_values("user")
        if len(users) != participation.users:  # a part of a large population: N and all shares are others
            if level is not None:
                problem = f"needs all {len(users)} users, of which only {participation.users} are analysed"
                raise ScenarioError([Fault(argument("cvar"), problem, None, "analyse a run of fewer rounds")])
            return
        groups = _groups(run, users)
    has_counts = "samples" in users
    examples = np.ones(participation.users, np.int64)
    if has_counts:
        examples = users["samples"].to_numpy()

    for name, learner in _learners(run, number).items():
        weights = learner.aggregation.merge_weights(examples)
        of_learner = learner.objective.cvar_level if level is None else level
        if weights is None or of_learner is None:  # it does not average models, or minimises no CVaR
            continue
        yield cvar_lift(
            participation,
            of_learner,
            learner=name if level is None else "",
            merge_weights=weights,
            local_steps=learner.local_work.count(examples).steps if has_counts else None,
            groups=groups,
        )
        if level is not None:  # one learner's merges are enough
            return
    if level is not None:  # no learner averages models
        yield cvar_lift(participation, level, groups=groups)


def has_cvar_learner(run: Run) -> bool:
    """Return whether a learner of *run* minimises a CVaR, so that `cvar_lifts` may yield something."""
    return any(learner.objective.cvar_level is not None for learner in _learners(run, 0).values())


def stated_lifts(scenario: Scenario) -> Iterator[CvarLift]:
    """Yield the lifts of learners that minimise a CVaR over shares that the access states, before any round.

    The shares are the rates of participation if a round delivers one user, and all users make the same number of local
    steps.  Otherwise they follow from the deliveries of a run.
    """
    access = scenario.access
    if not scenario.learners or access.max_deliveries(scenario.users, scenario.steps) != 1:
        return
    rates = access.participation_rates(scenario.users, scenario.streams_of(0).at("access"))
    if rates is None or not rates.any():
        return
    names = tuple(map(str, range(scenario.users)))
    share = rates / rates.sum()
    for name, learner in scenario.learners.items():
        level = learner.objective.cvar_level
        work = learner.local_work
        has_equal_steps = work.steps is not None or work.batch_size is None
        if level is None or not has_equal_steps:
            continue
        averages_models = learner.aggregation.merge_weights(np.ones(scenario.users, np.int64)) is not None
        if averages_models:
            yield _lift_users(name, level, names, share)


def _learners(run: Run, replica: int) -> dict[str, LearnerSpec]:
    """Return the learners that *run* trained in a replica, with the settings that its tuning chose there.

    Those that cannot be read here are left out, as are those of a scenario in whose place a Flower app ran.
    """
    specified = run.scenario.get("learners") or {}
    tuning = run.manifest.get("tuning") or {}
    learners = {}
    for name, settings in learner_settings(specified, tuning, replica).items():
        if name not in run.learners:
            continue
        try:
            learners[name] = LearnerSpec.model_validate(settings)
        except (ValidationError, ScenarioError):  # a model of another installation
            continue
    return learners


def _groups(run: Run, users: pd.DataFrame) -> dict[str, list[int]]:
    """Return groups of the *users* of a replica: the blocks of its partition, or those that hold a rare class."""
    if "block" in users:
        in_block = users[users["block"] != ""]
        return {f"in block {name}": of_block["user"].tolist() for name, of_block in in_block.groupby("block")}
    table = aggregates.with_delivery_counts(users, run.deliveries, run.rare_classes)
    members = table[table["rare"]]["user"].tolist()
    if not members:
        return {}
    labels = join_words([str(label) for label in run.rare_classes])
    return {f"with class {labels}": members}
