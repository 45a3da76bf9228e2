"""Users that deliver no update before rounds close, and the changes with which they do.

One formula finds them: the least time from the opening of a round to an update (the reception of the version, the
training and the frames), against the deadline and against the time after which the round rule closes a round; where
users finish their updates, times the rounds in which an update counts (``staleness``, and those that the run has).  A
remedy is a changed network, and is named only if the same formula finds no such user in it.  Nothing is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from netfl.network.build import build_layout
from netfl.network.least_time import LeastTimes, least_times, rounds_to_count
from netfl.network.round.available import Available
from netfl.network.sizes import broadcast_bits, update_cut
from netfl.network.spec import NetworkSpec
from netfl.types import AccessContext, Bools, Floats

_MUCH_LONGER = 4.0
"""Time of an update, relative to that of a round, from which on its user is left behind.

Rounds last longer than their least time, as frames wait for each other and are repeated.
"""
_MARGIN = 2.0
"""Deadline that a remedy sets, relative to the least time."""
_SENDINGS = 3.0
"""Time that a remedy leaves for the frames of an update, relative to the least one: they wait for slots or others."""
_MAX_FACTOR = 10.0
"""Largest change of a size or a rate that is worth a word."""
_SMALL = 0.005
"""Share of a time that is not worth a word."""


@dataclass(frozen=True, slots=True)
class RoundSetting:
    """A network, what it is built for, and what limits its rounds.

    Args:
        max_selected: largest number of users that take part in a round.
        deadline_s: deadline of each round; ``None`` for none.
        decides_users: whether the selection decides the deadline with the users, so that no rule leaves them behind.
    """

    spec: NetworkSpec
    context: AccessContext
    max_selected: int
    deadline_s: float | None
    decides_users: bool = False

    def needed_s(self, times: LeastTimes) -> Floats:
        """Return the least time from the opening of a round to the update of each user, ``[users]``."""
        return np.asarray(times.first_s + self.receiving_s + self.crossing_s)

    @property
    def crossing_s(self) -> float:
        """Least time on the access link of the server, of a version and of an update."""
        link = self.spec.server_link
        if link is None:
            return 0.0
        update_bits = update_cut(self.spec, self.context).total_bits
        version_bits = broadcast_bits(self.spec, self.context)
        fastest_bps = float(link.limits_bps(self.context.users).max())
        crossing_s = 0.0
        if link.up_bps is not None:
            crossing_s += update_bits / min(link.up_bps, fastest_bps)
        if link.down_bps is not None:
            crossing_s += version_bits / min(link.down_bps, fastest_bps)
        return crossing_s

    @property
    def receiving_s(self) -> float:
        """Least time in which a version is received; over the air, in the fastest mode."""
        rate_bps = self.spec.broadcast_rate
        if self.spec.downlink is not None:
            rate_bps = max(self.spec.air_rates_bps)
        return broadcast_bits(self.spec, self.context) / rate_bps if rate_bps else 0.0


@dataclass(frozen=True, slots=True)
class LateUsers:
    """Users whose updates take longer than rounds.

    Args:
        is_late: whether each user delivers none, ``[users]``.
        limit_s: time after which a round closes.
        rounds: number of rounds in which an update counts.
        by_rule: whether the round rule closes them, and not the deadline.
        times: least times of updates.
        at_best: whether *times* are those with the best signal and the shortest training.
    """

    is_late: Bools
    limit_s: float
    rounds: int
    by_rule: bool
    times: LeastTimes
    at_best: bool


def late_update_warnings(setting: RoundSetting) -> Iterator[str]:
    """Yield a warning about users that deliver no update before rounds close, with the remedies that hold."""
    if not _closes_rounds(setting):
        return
    at_best = least_times(setting.spec, setting.context, at_best=True)
    usual = least_times(setting.spec, setting.context, at_best=False)
    if at_best is None or usual is None:
        return
    late = find_late_users(setting, at_best, usual)
    if late is None:
        return
    changes = [*_remedies(setting, late, usual)]
    remedy = "no single change of the rounds, the trainings or the updates suffices"
    if changes:
        remedy = ", or ".join(changes)
    yield f"{_problem(setting, late)}; {remedy}"


def find_late_users(
    setting: RoundSetting, at_best: LeastTimes, usual: LeastTimes, much_longer: float | Floats = _MUCH_LONGER
) -> LateUsers | None:
    """Return the users that deliver no update in time, ``None`` if there are none.

    Args:
        setting: the rounds.
        at_best: least times with the best signal and the shortest training.
        usual: those with the mean ones.
        much_longer: time of an update, relative to that of a round, from which on its user is left behind, or that of
            each user, ``[users]``.
    """
    rounds = rounds_to_count(setting.spec, setting.context)
    deadline_s = setting.deadline_s
    if deadline_s is not None:
        is_late = setting.needed_s(at_best) > rounds * deadline_s
        if is_late.all():
            return LateUsers(is_late, deadline_s, rounds, by_rule=False, times=at_best, at_best=True)
        is_late = setting.needed_s(usual) > rounds * deadline_s
        if is_late.any():
            return LateUsers(is_late, deadline_s, rounds, by_rule=False, times=usual, at_best=False)
    if setting.decides_users:
        return None
    round_s = least_round_s(setting, usual)
    left_behind = setting.needed_s(usual) > much_longer * rounds * round_s
    if not left_behind.any():
        return None
    return LateUsers(left_behind, round_s, rounds, by_rule=True, times=usual, at_best=False)


def least_round_s(setting: RoundSetting, times: LeastTimes, *, in_a_row: bool = True) -> float:
    """Return the time after which the rule closes a round, if nothing delays the updates; infinity if it waits for all.

    The rule needs k updates.  The k-th of the slowest users that can take part beside another one is the last.  The
    frames of the k updates follow each other on the air of each cell, unless users divide the band or have turns.
    Without *in_a_row*, those of the others are on the air before.
    """
    spec = setting.spec
    assert spec.round is not None
    selected = setting.max_selected
    others = selected - 1
    needed = 1
    while needed <= others and not spec.round.is_complete(needed, selected):
        needed += 1
    if needed > others:
        return math.inf
    slowest_s = np.sort(setting.needed_s(times))[-selected:-1]  # of those that are selected with the slowest of all
    last_s = float(slowest_s[needed - 1])
    if in_a_row and spec.mac is not None and not spec.mac.divides_band and not times.turn_s.any():
        cells = len(build_layout(spec, setting.context).towers)
        last_s += (needed - 1) // cells * times.frames * float(times.airtime_s.min())
    return last_s


def _problem(setting: RoundSetting, late: LateUsers) -> str:
    """Return who is late, by how much, and by what."""
    times = late.times
    needed_s = setting.needed_s(times)
    user = int(np.where(late.is_late, needed_s, np.inf).argmin())
    sending = f"{times.airtime_s[user]:.3g} s on the air"
    if times.frames > 1:
        sending = f"{times.frames} frames of {times.airtime_s[user]:.3g} s, one every {times.spacing_s[user]:.3g} s"
    receiving = ""
    if setting.receiving_s > _SMALL * needed_s[user]:
        receiving = f"receiving {setting.receiving_s:.3g} s, "
    needs = (
        f"user {user}, the fastest of them, needs {needed_s[user]:.3g} s or more "
        f"({receiving}training {times.train_s[user]:.3g} s, {sending})"
    )
    if late.at_best:
        closing = f"rounds close after {late.limit_s:.3g} s{_counted(setting, late)}"
        return f"no update can arrive in time: {needs}, but {closing}"
    share = f"{np.count_nonzero(late.is_late)} of {setting.context.users} users"
    if not late.by_rule:
        problem = f"with their mean signal, {share} deliver no update in time"
        return f"{problem}: {needs}, but rounds close after {late.limit_s:.3g} s{_counted(setting, late)}"
    effect = ""
    if late.rounds == 1 and setting.spec.on_new_version == "restart":
        effect = ", who start over with each version"
    return (
        f"the round rule leaves {share} behind{effect}: {needs}, but rounds close as soon as enough others have "
        f"delivered, after {late.limit_s:.3g} s if nothing delays these{_counted(setting, late)}"
    )


def _counted(setting: RoundSetting, late: LateUsers) -> str:
    """Return the number of rounds in which an update counts, as the end of a sentence; nothing for its own round."""
    if late.rounds == 1:
        return ""
    if late.rounds == setting.context.rounds:
        return f", and the run has {late.rounds} of them"
    return f", and an update counts in {late.rounds} of them (access.staleness: {setting.spec.staleness})"


def _remedies(setting: RoundSetting, late: LateUsers, usual: LeastTimes) -> Iterator[str]:
    """Yield the changes with which the formula finds no late user; *usual* are the times with the mean signal."""
    slowest_s = float(setting.needed_s(usual).max())
    if math.isfinite(slowest_s):  # else a signal is too weak for any update
        yield from _changes_of_rounds(setting, late, _round_up(_MARGIN * slowest_s))
        yield from _changes_of_versions(setting)
    yield from _changes_of_updates(setting, late)


def _changes_of_rounds(setting: RoundSetting, late: LateUsers, deadline_s: float) -> Iterator[str]:
    """Yield a later deadline, and another rule with it, if they hold."""
    if setting.deadline_s is not None:
        if _holds(replace(setting, deadline_s=deadline_s), late):
            yield f"set access.round.deadline: {deadline_s:g} s"
            return
        deadline_s = max(deadline_s, setting.deadline_s)
    patient = setting.spec.model_copy(update={"round": Available(deadline=deadline_s)})
    if _holds(replace(setting, spec=patient, deadline_s=deadline_s), late):
        yield f"wait for all users with access.round: {{kind: available, deadline: {deadline_s:g} s}}"


def _changes_of_versions(setting: RoundSetting) -> Iterator[str]:
    """Yield that users finish their updates, and that these count however old they are, if they hold."""
    spec = setting.spec
    finishing = spec
    change = ""
    if spec.on_new_version == "restart":
        finishing = spec.model_copy(update={"on_new_version": "finish"})
        change = "set access.on_new_version: finish"
    if change and _ends_in_time(replace(setting, spec=finishing)):
        yield change
    elif spec.staleness is not None:
        lasting = finishing.model_copy(update={"staleness": None})
        if _ends_in_time(replace(setting, spec=lasting)):
            together = f"{change} and" if change else "set"
            yield f"{together} access.staleness: null"


def _changes_of_updates(setting: RoundSetting, late: LateUsers) -> Iterator[str]:
    """Yield faster trainings, smaller updates and a faster mode, each alone, if they hold."""
    spec = setting.spec
    times = late.times
    rule_s = least_round_s(setting, times, in_a_row=False)
    limit_s = min(late.limit_s, rule_s) - setting.receiving_s  # by the deadline and the rule
    sending_s = times.first_s - times.train_s
    left_s = float((limit_s - np.maximum(_SENDINGS * sending_s, sending_s + times.turn_s)[late.is_late]).min())
    if left_s > 0.0:
        train_s = _round_down(left_s)
        shorter = np.where(late.is_late, np.minimum(times.train_s, train_s), times.train_s)
        if (shorter < times.train_s).any() and _holds_with(setting, late, train_s=shorter):
            yield f"shorten their trainings to at most {train_s:g} s (access.compute)"
    left_s = float((limit_s - times.train_s[late.is_late]).min())
    if left_s <= 0.0:
        return  # the trainings alone take longer
    factor = _SENDINGS * float(sending_s[late.is_late].max()) / left_s
    if not 1.0 < factor <= _MAX_FACTOR:
        return
    if spec.update_size is not None:
        size = _round_down(spec.update_size / factor)
        if _holds(replace(setting, spec=spec.model_copy(update={"update_size": size})), late):
            yield f"set access.update_size: {size:g} bit"
    elif _holds_with(setting, late, airtime=1.0 / factor):
        yield f"send updates of at most 1/{math.ceil(factor)} of the size (codec, model)"
    rate_bps = getattr(spec.reception, "rate", None)
    if spec.reception is not None and isinstance(rate_bps, float):
        faster_bps = _round_up(rate_bps * factor)
        reception = spec.reception.model_copy(update={"rate": faster_bps})
        if _holds(replace(setting, spec=spec.model_copy(update={"reception": reception})), late):
            yield f"set access.reception.rate: {faster_bps:g} bps"


def _closes_rounds(setting: RoundSetting) -> bool:
    """Return whether rounds close while updates of their version are outstanding."""
    rule = setting.spec.round
    return rule is not None and not rule.is_continuous


def _ends_in_time(setting: RoundSetting) -> bool:
    """Return whether the update of the slowest user still counts where it takes several rounds, with a margin."""
    if not _closes_rounds(setting):
        return True
    times = least_times(setting.spec, setting.context, at_best=False)
    assert times is not None
    rounds_left = float(setting.context.rounds)
    if setting.max_selected < setting.context.users:  # until the user is selected
        rounds_left -= _MARGIN * setting.context.users / setting.max_selected
    rounds = min(rounds_to_count(setting.spec, setting.context), rounds_left)
    round_s = least_round_s(setting, times)
    if setting.deadline_s is not None:
        round_s = min(round_s, setting.deadline_s)
    return bool(_MARGIN * setting.needed_s(times).max() <= rounds * round_s)


def _holds(setting: RoundSetting, late: LateUsers) -> bool:
    """Return whether no user is late in a changed network, and those that are *late* now need no more than a round."""
    if not _closes_rounds(setting):
        return True
    at_best = least_times(setting.spec, setting.context, at_best=True)
    usual = least_times(setting.spec, setting.context, at_best=False)
    assert at_best is not None
    assert usual is not None
    return find_late_users(setting, at_best, usual, _patience(late)) is None


def _patience(late: LateUsers) -> Floats:
    """Return the time of an update, relative to that of a round, that a remedy allows each user, ``[users]``."""
    return np.where(late.is_late, 1.0, _MUCH_LONGER)


def _holds_with(setting: RoundSetting, late: LateUsers, *, train_s: Floats | None = None, airtime: float = 1.0) -> bool:
    """Return whether no user is late with these trainings, or with a fraction of the *airtime*."""
    times = replace(late.times, airtime_s=airtime * late.times.airtime_s, spacing_s=airtime * late.times.spacing_s)
    if train_s is not None:
        times = replace(times, train_s=train_s)
    return find_late_users(setting, times, times, _patience(late)) is None


def _round_up(value: float) -> float:
    """Return a value of two digits that is not smaller.

    >>> _round_up(100.8), _round_up(0.0412)
    (110.0, 0.042)
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step * (1.0 - 1e-12)) * step:.6g}")


def _round_down(value: float) -> float:
    """Return a value of two digits that is not larger.

    >>> _round_down(0.796), _round_down(1250.0)
    (0.79, 1200.0)
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.floor(value / step * (1.0 + 1e-12)) * step:.6g}")
