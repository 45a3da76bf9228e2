"""Validation across the sections of a scenario, each of which is valid on its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from netfl.access import Access
from netfl.core.family_members import find_plugins
from netfl.core.kinds import kind_of
from netfl.core.spec import Spec
from netfl.errors import Fault
from netfl.learning.codec import Codecs
from netfl.learning.conformance import layer_faults, model_faults, payload_faults
from netfl.learning.effective_steps import StepRule
from netfl.learning.evaluation_sets import set_faults
from netfl.learning.payload import learner_payloads, list_payloads
from netfl.learning.spec import LearnerSpec
from netfl.learning.tuning import TuningSpec
from netfl.scenario.recording import RecordSpec
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.streams import Streams
from netfl.types import ScenarioFacts
from netfl.units import Unit, clock_problem, find_unit, to_si

_OPTIONAL = ("codec", "codec_down", "evaluate", "tuning", "checkpoint", "precision")
_LEARNING = ("data", "partition", "model", *_OPTIONAL)
WINDOWS = 100
"""Number of equal windows of a ``duration``.  Each counts as a round, for progress and for stopping a run."""
MOST_ROUNDS = 10**12
"""Largest number of rounds."""
_MAX_EVENTS = 10**9
"""Largest number of events that a run may store, as far as it is known before the run."""
_LINK_REMEDY = (
    "use a network with a radio, and with energy for energy_j; or a replay of a run that recorded them "
    "(record: {links: true})"
)
_ANY_CLASSES = 1 << 30
"""A number of classes with which no error of too few classes is found."""


def cross_faults(parts: Mapping[str, Any], unread: AbstractSet[str] = frozenset()) -> Iterator[Fault]:
    """Yield the errors between sections, whatever the unreadable sections were meant to state.

    Args:
        parts: the sections by name; ``None`` for missing or unreadable ones.
        unread: the names of sections that are present and could not be read.
    """
    yield from _length_faults(parts, unread)
    yield from _learning_faults(parts, unread)
    data = parts["data"]
    evaluate = parts["evaluate"]
    if data is not None and data.is_regression:
        yield from _regression_faults(parts)
    elif data is not None and evaluate is not None:
        for label in evaluate.rare_classes or ():
            if label >= data.classes:
                problem = f"the data have labels 0 to {data.classes - 1}"
                yield Fault("evaluate.rare_classes", problem, label, "use one of them")
        yield from (fault.under("evaluate.sets") for fault in set_faults(data, evaluate.sets))
    if data is not None and 0 in data.shape:
        yield Fault("data", "the examples have no features", [*data.shape], "give each example at least one")
    elif data is not None and parts["model"] is not None:
        examples = (data.shape, data.classes, data.tokens)
        faults = [*model_faults(parts["model"], *examples, is_regression=data.is_regression)]
        yield from (fault.under("model") for fault in faults)
        if not faults:
            yield from _payload_faults(parts)
    has_length = parts["rounds"] is not None or parts["duration"] is not None
    if parts["users"] is None or parts["access"] is None or not has_length:
        return  # nothing can be said of the others
    facts = facts_of(parts)
    yield from _codec_faults(parts)
    yield from _erasure_faults(parts)
    yield from _link_faults(parts)
    yield from _sum_faults(parts)
    yield from _device_faults(parts)
    yield from _merge_faults(parts)
    step_faults = [fault.under("learners") for fault in _step_faults(parts, facts)]
    yield from step_faults
    if parts["tuning"] is not None:
        yield from (fault.under("tuning") for fault in _tuning_faults(parts, facts, has_steps=not step_faults))
    if parts["record"] is not None:
        yield from _record_faults(parts, facts)
    yield from _once_per_file(_certain_faults(parts, _possible(facts, unread)))


def _certain_faults(parts: Mapping[str, Any], cases: Sequence[ScenarioFacts]) -> list[Fault]:
    """Return the errors that the models of the sections find in each of the *cases*."""
    faults_of_cases = []
    for facts in cases:
        faults: list[Fault] = []
        for name, part in parts.items():
            faults += nested_faults(part, name, facts)
        faults_of_cases.append(faults)
    first, *others = faults_of_cases
    return [fault for fault in first if all(fault in faults for faults in others)]


def facts_of(parts: Mapping[str, Any]) -> ScenarioFacts:
    """Return what models may know about the scenario of *parts*.

    Rates of users, which are arrays, are only asked for where learning may need them.
    """
    access: Access = parts["access"]
    data = parts["data"]
    learners = parts["learners"] or {}
    planned = planned_rounds(parts["rounds"], parts["duration"], access)
    rounds = MOST_ROUNDS if planned is None else max(1, planned)
    duration_s = stop_s = None
    if access.info.can_run_timed:
        duration_s = parts["duration"]
    else:
        stop_s = parts["duration"]
    rho = None
    participation = None
    if learners or parts["partition"] is not None:
        rho = access.rates(parts["users"], Streams(0))
        participation = access.participation_rates(parts["users"], Streams(0), np.ones((parts["users"], 1)))
    return ScenarioFacts(
        users=parts["users"],
        rounds=rounds,
        classes=None if data is None else data.classes,
        example_shape=None if data is None else tuple(data.shape),
        max_deliveries=access.max_deliveries(parts["users"], rounds),
        rho_known=rho is not None,
        participation_known=participation is not None,
        placed=access.info.has_positions,
        ranked=access.info.has_ranking,
        sized=data is not None and parts["model"] is not None,
        trained=bool(learners),
        duration_s=duration_s,
        stop_s=stop_s,
        replicas=parts["replicas"] or 1,
        learners=tuple(learners),
        networked=access.info.is_networked,
        coded=tuple(Codecs.of(parts["codec"], parts["codec_down"]).named),
        weighed=any(learner.aggregation.has_user_weights for learner in learners.values()),
    )


def step_rule(access: Access, users: int, rounds: int) -> StepRule:
    """Return the relation between step sizes and effective steps of the learners of *users* that *access* serves."""
    participation = access.participation_rates(users, Streams(0), np.ones((users, 1)))
    return StepRule(users, access.max_deliveries(users, rounds), participation)


def planned_rounds(rounds: int | None, duration_s: float | None, access: Access) -> int | None:
    """Return the largest number of rounds of a run, or its number of windows; ``None`` if only the time limits it."""
    if duration_s is None:
        return rounds
    if access.info.can_run_timed:
        return WINDOWS
    limits = [limit for limit in (rounds, access.rounds_within(duration_s)) if limit is not None]
    return min(limits, default=None)


def _possible(facts: ScenarioFacts, unread: AbstractSet[str]) -> list[ScenarioFacts]:
    """Return the facts and, if a section could not be read, the facts as they may be once it is corrected."""
    if not unread & {"data", "model", "learners"}:
        return [facts]
    classes = _ANY_CLASSES if "data" in unread else facts.classes
    return [facts, replace(facts, classes=classes, sized=True, trained=True, weighed=True)]


def _length_faults(parts: Mapping[str, Any], unread: AbstractSet[str]) -> Iterator[Fault]:
    """Yield the errors of ``rounds``, ``duration`` and ``warmup``."""
    access: Access | None = parts["access"]
    duration_s = parts["duration"]
    warmup_s = parts["warmup"]
    if duration_s is None:
        if parts["rounds"] is None and unread.isdisjoint({"rounds", "duration"}):
            yield Fault("rounds", "missing", None, "give it, or 'duration'")
        if warmup_s and "duration" not in unread:
            yield Fault("warmup", "has no effect without 'duration'", warmup_s, "leave it out")
        return
    if problem := clock_problem(duration_s):
        yield Fault("duration", problem, None, "make it shorter")
    if access is None:
        return
    if access.info.can_run_timed:
        yield from _traffic_faults(parts, unread)
        return
    within = access.rounds_within(duration_s)
    if within is None and not access.info.can_stop:
        remedy = "give 'rounds' in place of 'duration'"
        if access.info.is_networked:
            remedy = "give access.round, or access.traffic"
        yield Fault("duration", "this access has neither rounds that end at a time, nor traffic", duration_s, remedy)
    elif within == 0:
        yield Fault("duration", "no round closes by then", duration_s, "make it longer")
    if warmup_s:
        yield Fault("warmup", "has no effect on rounds", warmup_s, "leave it out")


def _traffic_faults(parts: Mapping[str, Any], unread: AbstractSet[str]) -> Iterator[Fault]:
    """Yield the errors of a ``duration`` of traffic alone, which has no rounds and no learners."""
    duration_s = parts["duration"]
    warmup_s = parts["warmup"]
    for name in ("rounds", "learners", *_LEARNING):
        if parts[name] or name in unread:
            problem = "has no effect on traffic alone: the network serves no rounds"
            yield Fault(name, problem, None, "leave it out, or add access.round")
    if warmup_s is not None and warmup_s >= duration_s:
        yield Fault(
            "warmup", f"is not shorter than the duration, {duration_s:g} s", warmup_s, "make it shorter than 'duration'"
        )


def _learning_faults(parts: Mapping[str, Any], unread: AbstractSet[str]) -> Iterator[Fault]:
    """Yield missing sections, sections without effect, and data that the access needs."""
    access: Access | None = parts["access"]
    learners = parts["learners"] or {}
    learns = bool(learners) or "learners" in unread
    is_of_traffic = parts["duration"] is not None and access is not None and access.info.can_run_timed
    may_need_data = access is None or access.info.needs_labels or access.info.needs_sample_counts
    present = {name for name in _LEARNING if parts[name] is not None or name in unread}
    for name in _LEARNING:
        if learns and name not in present and name not in _OPTIONAL:
            yield Fault(name, "missing; learners need it", None, f"add a section '{name}'")
        is_stated = is_of_traffic or (may_need_data and name in {"data", "partition"})
        if not learns and name in present and not is_stated:
            yield Fault(name, "has no effect without learners", None, "add 'learners', or leave it out")
    if access is None:
        return
    works = {(spec.batch_size, spec.local_epochs, spec.local_steps) for spec in learners.values()}
    if access.info.needs_samples and len(works) > 1:
        yield Fault(
            "access.compute",
            "the learners differ in local work, so its duration is not unique",
            None,
            "give compute.samples",
        )
    is_reported = access.info.has_selection and "data" not in present  # by the selection or the allocation
    needed = None
    if access.info.needs_label_mix or (access.info.has_parts_for_labels and not is_reported):
        needed = "the users' labels"
    elif access.info.needs_sample_counts and not is_reported:
        needed = "how much data users hold"
    if needed is not None and "partition" not in present:
        yield Fault("partition", f"missing; this access depends on {needed}", None, "add data and partition")
    if parts["partition"] is not None:
        yield from _order_faults(access, parts["partition"].ranking_source)


def _order_faults(access: Access, rarity: str | None) -> Iterator[Fault]:
    """Yield the error of a partition and an access that depend on each other."""
    parts = {**access.parts_that_need_samples, **access.parts_that_need_labels}
    if rarity is not None and access.info.needs_label_mix:
        problem = f"depends on the participation, which depends on the labels in the access '{kind_of(type(access))}'"
        yield Fault("partition", problem, None, "use another partition, or another access")
    elif rarity == "prerun" and parts:
        key, part = next(iter(parts.items()))
        problem = f"depends on the participation, and the {key} '{kind_of(type(part))}' on the data that users hold"
        yield Fault("partition", problem, rarity, f"use another {key}, or another order of the users ('by')")
    elif rarity == "prerun" and access.info.is_closed_loop:
        problem = "needs a run of the access alone, but the deliveries depend on the training"
        yield Fault("partition", problem, rarity, "use another order of the users, or another partition")


def _step_faults(parts: Mapping[str, Any], facts: ScenarioFacts) -> Iterator[Fault]:
    """Yield the errors of effective steps: of weights of rules from outside netfl, and of ``step_of``."""
    learners: Mapping[str, LearnerSpec] = parts["learners"] or {}
    with_plugins = {name: learner for name, learner in learners.items() if any(find_plugins(learner))}
    if not with_plugins and not any(learner.step_of for learner in learners.values()):
        return
    rule = step_rule(parts["access"], facts.users, facts.rounds)
    weight_faults = [*rule.weight_faults(with_plugins)]
    yield from weight_faults
    if not weight_faults:
        yield from rule.faults(learners)


def _tuning_faults(parts: Mapping[str, Any], facts: ScenarioFacts, *, has_steps: bool) -> Iterator[Fault]:
    """Yield the errors of the section ``tuning`` with other sections, with keys relative to it.

    Args:
        parts: the sections of the scenario.
        facts: what is known of it.
        has_steps: whether the effective steps of its learners have no errors.
    """
    tuning: TuningSpec = parts["tuning"]
    access = parts["access"]
    data = parts["data"]
    evaluate = parts["evaluate"]
    if learners := parts["learners"]:
        key_faults = [*tuning.key_faults(learners)]
        yield from key_faults
        if not key_faults and has_steps:
            yield from tuning.step_faults(learners, step_rule(access, facts.users, facts.rounds))
    if tuning.replicas > facts.replicas and not any(nested_faults(access, "", facts)):
        validation = replace(facts, replicas=tuning.replicas)
        for fault in islice(nested_faults(access, "", validation), 1):
            yield Fault("replicas", fault.problem, tuning.replicas, "write a smaller number")
    if access.info.is_closed_loop:
        problem = "the deliveries depend on the training of a learner, so that candidates have no common trace"
        yield Fault("", problem, None, "leave it out, or use another access")
    if evaluate is not None and evaluate.on == "validation":
        yield Fault("", "has no effect with evaluate.on: validation", None, "leave one of them out")
    if data is not None and data.is_regression and tuning.criterion.needs_labels:
        yield Fault("by", "needs labels, but the targets of these data are numbers", tuning.by, "use loss")
    elif tuning.by == "rare_accuracy" and not _has_rare_classes(parts):
        yield Fault("by", "there are no rare classes", tuning.by, "give evaluate.rare_classes, or use accuracy")
    for name in tuning.floor:
        if data is not None and data.is_regression:
            problem = "needs labels, but the targets of these data are numbers"
            yield Fault(f"floor.{name}", problem, None, "leave it out")
        elif name == "rare_accuracy" and not _has_rare_classes(parts):
            yield Fault(
                f"floor.{name}", "there are no rare classes", None, "give evaluate.rare_classes, or leave it out"
            )


def _has_rare_classes(parts: Mapping[str, Any]) -> bool:
    """Return whether the scenario of *parts* has rare classes; true where its partition has an error."""
    evaluate = parts["evaluate"]
    partition = parts["partition"]
    if evaluate is not None and evaluate.rare_classes is not None:
        return bool(evaluate.rare_classes) or partition is None
    return partition is None or bool(partition.rare_labels)


def _regression_faults(parts: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the errors of sections that need labels, for data whose targets are numbers."""
    access = parts["access"]
    partition = parts["partition"]
    evaluate = parts["evaluate"]
    cause = "needs labels, but the targets of these data are numbers"
    if partition is not None and partition.needs_labels:
        yield Fault("partition", cause, kind_of(type(partition)), "use iid, or natural for data with users")
    if access is not None and access.info.needs_label_mix:
        yield Fault("access", cause, kind_of(type(access)), "give probabilities that do not depend on labels")
    if access is not None:
        for key, part in access.parts_that_need_labels.items():
            yield Fault(f"access.{key}", cause, kind_of(type(part)), "use another selection")
    if evaluate is None:
        return
    for key in ("targets", "rare_classes"):
        if getattr(evaluate, key):
            yield Fault(f"evaluate.{key}", cause, [*getattr(evaluate, key)], "leave it out")
    for name, choice in evaluate.choose.items():
        if choice.by == "validation_accuracy":
            yield Fault(f"evaluate.choose.{name}.by", cause, choice.by, "use validation_loss")


def _payload_faults(parts: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the errors of learners that send different numbers of bits, where these decide the rounds."""
    access = parts["access"]
    learners = parts["learners"] or {}
    model = parts["model"]
    data = parts["data"]
    codecs = Codecs.of(parts["codec"], parts["codec_down"])
    faults = [*layer_faults(learners, model, data)]
    if not faults:
        faults = [*payload_faults(learners, model, data, codecs)]
    yield from faults
    if faults or access is None:
        return
    if access.info.billing != "own" or access.info.update_bits is not None:
        return  # all learners are billed the same
    payloads = learner_payloads(learners, model, data, codecs)
    if len({*payloads.values()}) > 1:
        problem = f"the learners share one network, but their payloads differ: {list_payloads(payloads)}"
        remedy = (
            "set payload: largest, which bills all of them the largest; or give update_size; or run them one by one"
        )
        yield Fault("access.payload", problem, None, remedy)


def _codec_faults(parts: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the errors of codecs that cannot code a version or suit no rule, and of sizes that replace theirs."""
    codecs = Codecs.of(parts["codec"], parts["codec_down"])
    if codecs.down is not None and not codecs.down.codes_versions:
        problem = "keeps only parts of a change, but a broadcast holds a whole version"
        remedy = "use float16, bfloat16, uniform or qsgd"
        yield Fault("codec_down", problem, kind_of(type(codecs.down)), remedy)
    update_bits = parts["access"].info.update_bits
    if codecs.named and update_bits is not None:
        problem = f"replaces the size that the {' and '.join(codecs.named)} of this scenario states"
        yield Fault("access.update_size", problem, update_bits, "leave it out, or leave the codec out")
    if codecs.up is None:
        return
    for name, learner in (parts["learners"] or {}).items():
        rule = learner.aggregation
        if rule.needs_whole_models:
            codec = kind_of(type(codecs.up))
            problem = f"computes what its users send beside the model from the model, which the codec '{codec}' changes"
            remedy = "leave the codec out (codec_down may stay), or use another aggregation"
            yield Fault(f"learners.{name}.aggregation", problem, kind_of(type(rule)), remedy)


def _erasure_faults(parts: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the errors of learners that cannot take updates of which parts are lost."""
    if not parts["access"].info.can_erase:
        return
    for name, learner in (parts["learners"] or {}).items():
        rule = learner.aggregation
        if not rule.accepts_parts:
            problem = "cannot take updates of which the access erases parts"
            remedy = "use average_received or average_all, or an access that loses whole updates (loss: drop)"
            yield Fault(f"learners.{name}.aggregation", problem, kind_of(type(rule)), remedy)


def _merge_faults(parts: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the errors of what only the server's own versions have, where other nodes merge, too."""
    access = parts["access"]
    if not access.merging_nodes(parts["users"]):
        return
    problem = f"versions of other nodes have none, and nodes of the access '{kind_of(type(access))}' merge"
    codec = Codecs.of(None, parts["codec_down"]).down
    if codec is not None:
        of_codec = f"a codec of the server's broadcasts: {problem}"
        yield Fault("codec_down", of_codec, kind_of(type(codec)), "leave it out")
    for name, learner in (parts["learners"] or {}).items():
        if learner.base != "newest_received":
            of_base = f"a version of the server: {problem}"
            yield Fault(f"learners.{name}.base", of_base, learner.base, "leave it out")
    evaluate = parts["evaluate"]
    if evaluate is not None and "weight_divergence" in evaluate.metrics:
        problem = f"a model beside the server's versions: {problem}"
        yield Fault("evaluate.metrics", problem, "weight_divergence", "leave it out")


def _device_faults(parts: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the errors of updates that do not hold a whole change of the version, where they are coded or erased."""
    codecs = Codecs.of(parts["codec"], parts["codec_down"])
    reasons = [f"the {key} codes whole changes and versions" for key in codecs.named]
    remedy = f"leave it out, or the {' and the '.join(codecs.named)}"
    if parts["access"].info.can_erase:
        reasons = ["the access erases parts of whole changes"]
        remedy = "leave it out, or use an access that loses whole updates (loss: drop)"
    if not reasons:
        return
    reads_changes = codecs.up is not None or parts["access"].info.can_erase
    for name, learner in (parts["learners"] or {}).items():
        device = learner.device
        if device is not None and device.has_personal_layers:
            problem = f"leaves layers out of what is sent, but {reasons[0]}"
            yield Fault(f"learners.{name}.device", problem, kind_of(type(device)), remedy)
        if learner.base == "own" and reads_changes:
            problem = f"the server does not know the models from which users start, but {reasons[0]}"
            yield Fault(f"learners.{name}.base", problem, "own", remedy)


def _link_faults(parts: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the errors of records and learners that need more of how updates came over the air than is known."""
    access = parts["access"]
    offered = access.info.link_values
    record = parts["record"]
    kind = kind_of(type(access))
    if isinstance(record, RecordSpec) and record.links and not offered:
        problem = f"the access '{kind}' does not state how updates come over the air"
        yield Fault("record.links", problem, record.links, "use a network with rounds, or leave it out")
    for name, learner in (parts["learners"] or {}).items():
        if learner.on_loss == "keep" and not access.info.knows_lost:
            problem = f"the access '{kind}' does not state which trainings were in vain"
            remedy = "use a network with rounds, or a replay of one in which a learner had it; or leave it out"
            yield Fault(f"learners.{name}.on_loss", problem, "keep", remedy)
        rule = learner.aggregation
        missing = sorted(rule.reads_links - offered)
        if missing:
            problem = f"needs {' and '.join(missing)} of each delivery, which the access '{kind}' does not state"
            yield Fault(f"learners.{name}.aggregation", problem, kind_of(type(rule)), _LINK_REMEDY)


def _sum_faults(parts: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the errors of learners that need sums in the air, and of codecs and devices that do not fit them."""
    access = parts["access"]
    if access.info.sums and parts["codec"] is not None:
        problem = "codes updates, which a sum in the air has as analogue signals"
        yield Fault("codec", problem, kind_of(type(parts["codec"])), "leave it out")
    for name, learner in (parts["learners"] or {}).items():
        rule = learner.aggregation
        if not rule.reads_not_summed:
            continue
        if not access.info.sums:
            problem = f"needs sums in the air, which the access '{kind_of(type(access))}' does not have"
            remedy = "use a network with interference: over_the_air, or a replay of one; or another aggregation"
            yield Fault(f"learners.{name}.aggregation", problem, kind_of(type(rule)), remedy)
        if learner.device is not None:
            problem = "keeps something from its trainings, which those of updates that a sum left out would change"
            yield Fault(f"learners.{name}.device", problem, kind_of(type(learner.device)), "leave it out")


def _record_faults(parts: Mapping[str, Any], facts: ScenarioFacts) -> Iterator[Fault]:
    """Yield an error if more outcomes of updates would be stored than `_MAX_EVENTS`."""
    record = parts["record"]
    if not isinstance(record, RecordSpec):
        record = RecordSpec(events=record)
    records_superseded = record.events == "all" or "superseded" in record.events
    if not records_superseded or facts.users * facts.rounds * facts.replicas <= _MAX_EVENTS:
        return  # before the rates of all users are computed
    rows = parts["access"].min_updates(facts.users, facts.rounds) * facts.replicas // record.every
    if isinstance(record.users, int):
        rows = rows * record.users // facts.users
    elif record.users is not None:
        rows = rows * len(record.users) // facts.users
    if rows > _MAX_EVENTS:
        problem = (
            f"the outcomes of {rows:,} updates would be stored, most of them superseded: more than {_MAX_EVENTS:,}"
        )
        yield Fault("record", problem, None, "set record: none, or thin them: record: {users: 1000, every: 100}")


def unusual_values(part: object, document: ScenarioDocument, key: str = "") -> Iterator[Fault]:
    """Yield a warning for each key below *part* with quantities that are probably a mistake in their unit.

    A value that is the default of its key is never doubted, whether it is written or not.

    Args:
        part: a scenario, or a part of it.
        document: what the scenario was read from, as some units are doubtful only as they are written.
        key: dotted key of *part*.
    """
    for name, entry in _entries(part):
        below = f"{key}.{name}" if key else str(name)
        if not isinstance(part, Spec):
            yield from unusual_values(entry, document, below)
            continue
        info = type(part).model_fields[str(name)]
        if not info.is_required() and entry == info.get_default(call_default_factory=True):
            continue
        yield from unusual_values(entry, document, below)
        unit = find_unit((info.annotation, *info.metadata))
        if unit is None:
            continue
        values = entry if isinstance(entry, tuple) else (entry,)
        numbers = [value for value in values if isinstance(value, float)]
        doubtful = unit.doubtful(numbers)
        if doubtful:
            yield Fault(below, _doubt(doubtful, len(numbers), unit), None, "check its unit")
            continue
        yield from _misread_levels(below, document.written(below), unit)


def _misread_levels(key: str, written: object, unit: Unit) -> Iterator[Fault]:
    """Yield a warning for the first of the texts *written* at *key* in watts that are probably levels."""
    texts = written if isinstance(written, list) else [written]
    for text in texts:
        if not isinstance(text, str):
            continue
        meant = unit.meant_level(text)
        if meant:
            level = f"{to_si(text, unit.symbol):.3g} {unit.symbol}"
            problem = f"{text} ({level}) is unusual for {unit.quantity}"
            yield Fault(key, problem, None, f"write '{meant}' if that is meant")
            return


def _doubt(doubtful: Sequence[float], count: int, unit: Unit) -> str:
    """Return why the *doubtful* ones of *count* values are, and the first of them."""
    shown = f"{doubtful[0]:g} {unit.symbol}"
    if len(doubtful) > 1:
        shown = f"{len(doubtful)} of {count} values, the first {shown}"
    reason = f"{unit.doubted} ({shown}), which is unusual"
    if unit.quantity:
        return f"{reason} for {unit.quantity}"
    return reason


def _once_per_file(faults: Iterable[Fault]) -> Iterator[Fault]:
    """Yield the errors of a file that several models read only for the first of them."""
    found: set[tuple[str, str, str, str]] = set()
    for fault in faults:
        key = fault.key.rpartition(".")[2]
        if key in {"file", "ids"}:
            error = (key, fault.problem, str(fault.value), fault.remedy)
            if error in found:
                continue
            found.add(error)
        yield fault


def nested_faults(part: object, key: str, facts: ScenarioFacts) -> Iterator[Fault]:
    """Yield the errors that each model below *part* finds."""
    if isinstance(part, Spec):
        yield from (fault.under(key) for fault in part.faults(facts))
    for name, entry in _entries(part):
        yield from nested_faults(entry, f"{key}.{name}" if key else str(name), facts)


def _entries(part: object) -> Iterable[tuple[object, object]]:
    """Return the parts of a model, a mapping or a list, by name or number."""
    if isinstance(part, Spec):
        return ((name, getattr(part, name)) for name in type(part).model_fields)
    if isinstance(part, Mapping):
        return part.items()
    if isinstance(part, tuple):
        return enumerate(part)
    return ()
