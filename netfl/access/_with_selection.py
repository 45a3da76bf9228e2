"""An access with a selection: its fields, the errors of what it observes, and warnings of what no server can see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from netfl.access import Access, AccessInfo
from netfl.access.selection import Selection
from netfl.access.selection.all import All
from netfl.core.family_members import FamilyMember
from netfl.core.kinds import kind_of
from netfl.core.spec import Spec, no_effect
from netfl.errors import Fault, suggest
from netfl.types import OBSERVATIONS, AccessContext, ObservationAge, ScenarioFacts

_WITHOUT_NETWORK = frozenset({"check_in", "age", "loss", "norm", "samples"})
"""Values that every access has."""
_PARTS = {
    "battery_j": "access.outages: [{kind: battery, …}]",
    "energy_j": "access.energy",
    "snr_db": "access.radio and access.channel",
    "rate_bps": "access.radio and access.channel",
    "speed": "access.compute",
}
"""Parts of a network that values need; those that are not named are known of every network."""


class WithSelection(Access):
    """An access in which the server selects the users of a round."""

    selection: Annotated[Selection, FamilyMember()] = All()
    """Users that the server allows to take part in each round; the access decides which of them are delivered."""
    learner: str | None = None
    """The learner whose answers count in a closed loop, if there are several."""

    @property
    def closed_loop_parts(self) -> Mapping[str, Spec]:
        if self.selection.needs_learner_metrics:
            return {"selection": self.selection}
        return {}

    @property
    def reporting_parts(self) -> Mapping[str, Spec]:
        if self.selection.reports:
            return {"selection": self.selection}
        return {}

    @property
    def parts_that_need_samples(self) -> Mapping[str, Spec]:
        if self.selection.needs_sample_counts:
            return {"selection": self.selection}
        return {}

    @property
    def parts_that_need_labels(self) -> Mapping[str, Spec]:
        if self.selection.needs_label_mix:
            return {"selection": self.selection}
        return {}

    @property
    def info(self) -> AccessInfo:
        return replace(
            super().info,
            has_parts_for_labels=bool(self.parts_that_need_labels),
            needs_sample_counts=bool(self.parts_that_need_samples),
            is_closed_loop=bool(self.closed_loop_parts),
            learner=self.learner,
            has_selection=True,
        )

    @property
    def observable(self) -> frozenset[str]:
        """Names of the values that a policy can observe in this access."""
        return _WITHOUT_NETWORK

    def observation_faults(self, ages: Mapping[str, ObservationAge]) -> Iterator[Fault]:
        return self._age_faults({**self.selection.ages, **ages}, "observe")

    def _age_faults(self, ages: Mapping[str, ObservationAge], key: str) -> Iterator[Fault]:
        """Yield the errors of values that this access does not have, or that come with an answer to no call."""
        for name, age in ages.items():
            if name not in OBSERVATIONS:
                yield Fault(f"{key}.{name}", "no such observation", name, suggest(name, [*OBSERVATIONS]))
            elif name not in self.observable:
                yield self._unobservable_fault(name, key)
            elif age == "check_in" and "check_in" not in ages:
                remedy = f"add 'check_in: {{}}' to {key}, or use another age"
                yield Fault(f"{key}.{name}", "comes with an answer, but nobody is called", age, remedy)

    def _unobservable_fault(self, name: str, key: str) -> Fault:
        """Return the error of a value that this access does not have: at the selection, if that reads it by itself."""
        remedy = f"add {_PARTS.get(name)}"
        if not self.info.is_networked:
            remedy = "use access.kind: network"
            if name in _PARTS:
                remedy += f", with {_PARTS[name]}"
        if key == "selection.observe" and name not in self.selection.observe.ages:
            problem = f"needs {name} of the users, but this scenario has no such values"
            return Fault("selection", problem, kind_of(type(self.selection)), f"{remedy}, or use another selection")
        remedy = f"{remedy}, or leave it out, or observe one of {', '.join(sorted(self.observable))}"
        return Fault(f"{key}.{name}", "this scenario has no such values", None, remedy)

    def selection_faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield the errors of values that the selection observes, and of the learner that answers it."""
        if self.selection.reports and self.selection.selects_all:
            names = ", ".join(metric.name for metric in self.selection.reports)
            problem = f"reports {names}, but selects all users in every round, so that it is never asked"
            yield Fault(
                "selection", problem, kind_of(type(self.selection)), "remove its 'selects_all', or its 'reports'"
            )
        unused = self._unused_values
        for fault in self._age_faults(self.selection.ages, "selection.observe"):
            if fault.key.rpartition(".")[2] not in unused:
                yield fault
        yield from self._unused_faults(unused)
        if self.info.is_closed_loop and not (facts.trained or facts.learners):
            part = next(iter(self.closed_loop_parts))
            yield Fault(part, "depends on the learners, but there are none", None, "add data, a model and learners")
            return
        if self.selection.needs_sample_counts and facts.classes is None:
            yield Fault("selection", "depends on the users' amounts of data, but there are no data", remedy="add data")
        if self.selection.needs_label_mix and facts.classes is None:
            problem = "depends on the labels of the users' data, but there are no data"
            yield Fault("selection", problem, remedy="add data and partition")
        yield from self._learner_faults(facts)

    @property
    def _unused_values(self) -> list[str]:
        """Names of the values that the scenario observes, but the selection does not use."""
        used = {*self.selection.observes, *self.selection.can_observe}
        return [name for name in self.selection.observe.ages if name not in used]

    def _unused_faults(self, unused: Sequence[str]) -> Iterator[Fault]:
        """Yield the errors of these *unused* values."""
        used = {*self.selection.observes, *self.selection.can_observe}
        remedy = "leave it out"
        if used:
            remedy = f"leave it out, or observe {' or '.join(sorted(used))}"
        for name in unused:
            yield Fault(f"selection.observe.{name}", "has no effect: this selection does not use it", None, remedy)

    def _learner_faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield a closed loop without a learner or with an ambiguous one, and a learner without effect."""
        if not self.info.is_closed_loop:
            yield from no_effect(self, ["learner"], "because the access does not use the learners")
        elif self.learner is None and len(facts.learners) > 1:
            problem = "several learners are given, but none is named"
            yield Fault("learner", problem, remedy=f"name one of {', '.join(facts.learners)}; all share its trace")
        elif self.learner is not None and facts.learners and self.learner not in facts.learners:
            yield Fault("learner", "no such learner", self.learner, suggest(self.learner, [*facts.learners]))

    def warnings(self, context: AccessContext) -> Iterator[str]:
        yield from super().warnings(context)
        ages = self.selection.ages
        free = [name for name, age in ages.items() if age == "present" and not OBSERVATIONS[name].is_known]
        is_call_free = self.info.is_networked and not self.selection.observe.airtime_s
        if "check_in" in free and not is_call_free:  # it costs airtime, or it is part of the length of a round
            free.remove("check_in")
        if not free:
            return
        remedies = []
        if "check_in" in free:
            remedies.append("give check_in an airtime")
        if others := [name for name in free if name != "check_in"]:
            older = ", ".join(f"{name}: check_in" for name in others)
            remedies.append(f"set observe: {{{older}}} (value of the last answer), or last_delivery in place of it")
        yield (
            f"access.selection.observe: the server sees the present {' and '.join(free)} of users without cost or "
            f"delay, as no real server can; {'; '.join(remedies)}"
        )
