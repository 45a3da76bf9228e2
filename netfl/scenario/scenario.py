"""Scenarios: a YAML file becomes a validated `Scenario`, and all of its errors are reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, TypeAdapter, ValidationError, model_validator

from netfl.access import Access
from netfl.core.family_members import FamilyMember
from netfl.core.formats import FORMAT
from netfl.core.kinds import list_kinds
from netfl.core.remedies import changed
from netfl.core.spec import ByForm, Spec
from netfl.core.spec_errors import faults_of, invalid, to_line_error
from netfl.core.strict_scalars import StrictScalars
from netfl.errors import CONTROLS, Fault, PluginCallError, ScenarioError, suggest
from netfl.files import local_path
from netfl.learning.codec import Codec, Codecs
from netfl.learning.data import Data
from netfl.learning.effective_steps import StepRule
from netfl.learning.model import Model
from netfl.learning.partition import Partition
from netfl.learning.payload import largest_payload, learner_payloads, model_payload
from netfl.learning.spec import CheckpointSpec, EvaluateSpec, LearnerSpec
from netfl.learning.tuning import TuningSpec
from netfl.network.compute import as_tuple
from netfl.scenario import examples
from netfl.scenario import yaml_document as documents
from netfl.scenario.html_card import html_card
from netfl.scenario.key_search import KeySearch
from netfl.scenario.path_errors import SCENARIO, find_place
from netfl.scenario.recording import RECORDED, EventFilter, RecordSpec
from netfl.scenario.sweep_axes import Sweeping
from netfl.scenario.validation import MOST_ROUNDS, cross_faults, planned_rounds, step_rule, unusual_values
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.scenario.yaml_nodes import MAX_DEPTH
from netfl.streams import Streams
from netfl.tracker import Tracker
from netfl.types import EventKind, Payload
from netfl.units import WRITTEN, Seconds, Seed

Name = Annotated[str, Field(pattern=rf"^[^\s/\\{CONTROLS}][^/\\{CONTROLS}]*$", max_length=100)]
"""A name that is valid in a table and in a file name."""

MOST_USERS = 2 * 10**7
"""Number of users beyond which no run would end; larger ones are refused before memory is allocated."""
MOST_REPLICAS = 10**6
"""Number of replicas beyond which no run would end."""

_CARD_PARTS = ("topology", "channel", "mac", "outages", "traffic", "round")
"""Parts of an access that the card of a scenario names."""


def _as_trackers(value: Any) -> Any:
    """Return one tracker as a list of one, none as an empty list; refuse a mapping of trackers, which has no kinds."""
    if value is None:
        return ()
    if isinstance(value, Mapping) and "kind" not in value:
        named = [*value.keys() & {*list_kinds(Tracker)}]
        if named:
            remedy = f"write track: {{kind: {named[0]}, …}}, or a list of such mappings"
            raise invalid("a tracker is a mapping with 'kind'", remedy, "kind")
    return as_tuple(value)


class Scenario(Spec):
    """A complete description of a run, as a YAML file states it."""

    name: Name
    """Name of the run and of its directory."""
    description: str = ""
    """A few sentences on what the scenario shows; the report begins with them."""
    format: Annotated[int, Field(ge=1, le=FORMAT), AfterValidator(lambda _: FORMAT)] = FORMAT
    """Version of the file format, by default 1; once a file is read, it is the current one."""
    seed: Seed = 0
    """Seed of every random draw."""
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] = 1
    """Independent repetitions of the network and of learning."""
    replica_seed: Seed | None = None
    """Seed of the replicas, if it is not ``seed``: other networks, splits and mini-batches of the same data."""
    users: Annotated[int, Field(ge=1, le=MOST_USERS)]
    """Number of users that hold data and train."""
    rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS)] | None = None
    """Number of rounds; give this, ``duration``, or both."""
    duration: Annotated[Seconds, Field(gt=0)] | None = None
    """Simulated time of the run.  The last round is the last that closes at or before it; with ``rounds``, the run ends
    with the first of both.  A network without ``access.round`` carries its own traffic for this time."""
    warmup: Annotated[Seconds, Field(ge=0)] = 0.0
    """Time at the start of the ``duration`` of traffic that the metrics leave out."""
    access: Annotated[Access, FamilyMember()]
    """The random access model: given directly, a replay of a run, or a network."""
    data: Annotated[Data, FamilyMember()] | None = None
    """The data set."""
    partition: Annotated[Partition, FamilyMember()] | None = None
    """Assignment of examples to users."""
    model: Annotated[Model, FamilyMember()] | None = None
    """The model that is trained."""
    learners: dict[Name, LearnerSpec] = Field(default_factory=dict)
    """Learners by name. All share the trace, so that comparisons are paired."""
    codec: Annotated[Codec, FamilyMember()] | None = None
    """The codec of all updates: what they keep of the change of θ, and their size; by default numbers travel whole."""
    codec_down: Annotated[Codec, FamilyMember()] | None = None
    """The codec of θ in the versions that the server sends; by default numbers travel whole."""
    precision: Literal["float32", "float64", "tf32", "bf16"] | None = None
    """Precision of the learners' arithmetic, ``float32`` by default.  ``tf32`` and ``bf16`` are ``float32`` with
    products of less precise factors in training: ``tf32`` on a GPU only, with 10 bits of the mantissa; ``bf16`` with 7
    bits.  Without a codec, an update has 32 bits per number in all cases."""
    tuning: TuningSpec | None = None
    """Tuning of every learner by validation, with the same number of candidates and by the same rule."""
    evaluate: EvaluateSpec | None = None
    """Evaluation of the global models; every 10 rounds by default."""
    record: Annotated[Literal["all", "none"] | tuple[EventKind, ...] | RecordSpec, ByForm()] = RECORDED
    """Kinds of events to store, or a mapping with ``events``, ``users``, ``every`` and ``versions``."""
    checkpoint: Annotated[Literal["none"] | CheckpointSpec, ByForm()] | None = None
    """Interval between checkpoints, 30 s by default; ``none`` writes one only when the run is stopped."""
    track: Annotated[tuple[Annotated[Tracker, FamilyMember()], ...], BeforeValidator(_as_trackers)] = ()
    """Trackers that receive the metrics during the run: one, or a list."""
    sweep: Sweeping | None = None
    """Axes that `netfl sweep` varies, or a search with ``engine: optuna``; other commands ignore them."""
    overrides: dict[Name, dict[str, Any]] = Field(default_factory=dict)
    """Named blocks of dotted paths and values; ``--override NAME`` applies one."""

    _document: ScenarioDocument = PrivateAttr(default_factory=ScenarioDocument)

    @property
    def reports_links(self) -> bool:
        """True if a record or a learner needs how deliveries came over the air, ``Delivery.link``."""
        return self.recording.links or any(spec.aggregation.reads_links for spec in self.learners.values())

    @property
    def reports_lost(self) -> bool:
        """True if a learner needs the trainings that were in vain, ``Delivery.lost_bases``."""
        return any(spec.on_loss == "keep" for spec in self.learners.values())

    @property
    def reports_not_summed(self) -> bool:
        """True if rounds state the updates that sums in the air left out, ``Round.not_summed``."""
        return self.access.info.sums

    @property
    def keeping(self) -> EventFilter:
        """The filter that decides which events are stored."""
        return self.recording.keeping(self.users)

    @property
    def recording(self) -> RecordSpec:
        """The section ``record`` in its long form."""
        return self.record if isinstance(self.record, RecordSpec) else RecordSpec(events=self.record)

    @property
    def versions_kept(self) -> Sequence[int]:
        """The rounds after which the learners' models are kept, besides the last; 0 is the start.  Empty if none is."""
        every = int(self.recording.versions)
        if every == 0:
            return range(0)
        return range(0, self.steps + 1, every)

    @property
    def has_rounds(self) -> bool:
        """True if rounds are served; false if a network carries traffic alone."""
        return self.duration is None or not self.access.info.can_run_timed

    @property
    def traffic_s(self) -> float | None:
        """Simulated time of a run of traffic; ``None`` with rounds."""
        return None if self.has_rounds else self.duration

    @property
    def stop_s(self) -> float | None:
        """Simulated time that ends a run with rounds; ``None`` if only their number does, and for traffic."""
        return self.duration if self.has_rounds else None

    @property
    def planned_rounds(self) -> int | None:
        """Largest number of rounds, or the windows of traffic; ``None`` if only ``duration`` limits it, unknown yet."""
        return planned_rounds(self.rounds, self.duration, self.access)

    @property
    def steps(self) -> int:
        """Bound on the number of rounds to simulate: `planned_rounds`, or the largest that netfl simulates."""
        planned = self.planned_rounds
        return MOST_ROUNDS if planned is None else planned

    @property
    def codecs(self) -> Codecs:
        """The codecs of updates and of broadcasts that change something."""
        return Codecs.of(self.codec, self.codec_down)

    @property
    def payloads(self) -> Mapping[str, Payload]:
        """Sizes of an update and of a broadcast of each learner; empty without learners."""
        if self.model is None or self.data is None:
            return {}
        return learner_payloads(self.learners, self.model, self.data, self.codecs)

    @property
    def largest_payload(self) -> Payload:
        """Sizes that the access bills: of the learners the largest update and the largest broadcast; 0 if unknown.

        They hold the model's parameters, as the codecs send them, t if a learner has one, and what the aggregations
        send beside the model.
        """
        if self.model is None or self.data is None:
            return Payload(0.0, 0.0)
        return largest_payload(self.payloads or {"": model_payload({}, self.model, self.data)})

    @property
    def update_bits(self) -> float:
        """Size of one update; see `largest_payload`."""
        return self.largest_payload.uplink_bits

    @property
    def rare_classes(self) -> tuple[int, ...]:
        """The rare labels, as ``evaluate`` or the partition names them."""
        if self.evaluate is not None and self.evaluate.rare_classes is not None:
            return self.evaluate.rare_classes
        if self.partition is None:
            return ()
        return self.partition.rare_labels

    @property
    def evaluation(self) -> EvaluateSpec:
        """The section ``evaluate``, with its defaults."""
        return self.evaluate or EvaluateSpec()

    @property
    def step_rule(self) -> StepRule:
        """The relation between step sizes and effective steps."""
        return step_rule(self.access, self.users, self.steps)

    @property
    def effective_steps(self) -> Mapping[str, float | None]:
        """Effective step of each learner, its largest weight times ``lr``; ``None`` if the weights have no bound."""
        rule = self.step_rule
        return {name: rule.step(learner) for name, learner in self.learners.items()}

    def streams_of(self, replica: int) -> Streams:
        """Return the random streams of one replica."""
        seed = self.seed if self.replica_seed is None else self.replica_seed
        return Streams(seed).at("replica", replica)

    def located(self, faults: Sequence[Fault]) -> list[Fault]:
        """Return the errors with the lines of their keys, if the scenario was read from a file."""
        return self._document.located(faults)

    def doubts(self) -> list[Fault]:
        """Return a warning for each key with quantities that are probably a mistake in their unit."""
        return self.located([*unusual_values(self, self._document)])

    def plain(self) -> dict[str, Any]:
        """Return the resolved scenario as plain data: everything that decides a run."""
        return self.model_dump(mode="json", exclude={"format", "overrides", "sweep"})

    def to_yaml(self, *, sweep: bool = False) -> str:
        """Return the resolved scenario as YAML, which reproduces the run, or with *sweep* the sweep."""
        content = {"format": FORMAT} | self.plain()
        if sweep and self.sweep is not None:
            content["sweep"] = self.sweep.model_dump(mode="json")
        return documents.dump(content)

    def at(self, values: Mapping[str, Any]) -> Scenario:
        """Return this scenario with other values at dotted paths, without its sweep and overrides.

        Raises:
            ScenarioError: with every error; an error of *values* is located where the sweep states it.
        """
        source = self._document
        document = _open_document(self)
        for section in ("sweep", "overrides"):
            document.data.pop(section, None)
        for path, value in values.items():
            document.put(path, copy_containers(value), _place_in_sweep(source, path))
        return validate(document)

    def _repr_html_(self) -> str:
        return html_card(f"Scenario {self.name}", _card_facts(self))

    @model_validator(mode="after")
    def _consistent(self) -> Scenario:
        sections = {name: getattr(self, name) for name in type(self).model_fields}
        faults = [*cross_faults(sections)]
        if faults:
            raise ValidationError.from_exception_data("Scenario", [to_line_error(fault) for fault in faults])
        if any(learner.step_of for learner in self.learners.values()):
            self.learners.update(self.step_rule.derive(self.learners))
        return self


ScenarioSource = str | Path | Mapping[str, Any] | Scenario
"""Input of `load`: a YAML file, the name of an example such as ``rural_outage``, YAML text, a mapping with the
same keys, or a scenario."""


def as_scenario(source: ScenarioSource) -> Scenario:
    """Return *source* if it is a scenario, else load it.

    Raises:
        ScenarioError: with every error, each located.
    """
    return source if isinstance(source, Scenario) else load(source)


def load(
    source: ScenarioSource,
    overrides: Mapping[str, object] | None = None,
    named: str | Sequence[str] = (),
) -> Scenario:
    """Read and validate a scenario.

    A mapping has the keys of a scenario file.  Its values may be Python objects: models of netfl, such as
    ``channel=[LogDistance(exponent=3), Rayleigh(coherence=10)]``; a `torch.nn.Module`, instance or class, as ``model``;
    NumPy arrays ``(x, label)`` or a `torch.utils.data.Dataset` as ``data``; a NetworkX graph as ``topology``.

    Args:
        source: a YAML file, the name of an example, YAML text, a mapping, or a scenario.
        overrides: dotted paths and values that replace those of *source*.
        named: blocks of the file's ``overrides`` to apply first, in this order; or the only one.

    Raises:
        ScenarioError: with every error, each located.
    """
    _check_arguments(overrides, named)
    document = _open_document(source)
    _apply_named(document, [named] if isinstance(named, str) else named)
    known = [*_learners(document)]
    for key, value in (overrides or {}).items():
        plain = copy_containers(value)
        document.put(key, plain, changed(key, _shown(plain)))
    _check_learners(document, known, overrides or {})
    return validate(document)


def _shown(value: object) -> object:
    """Return *value* as the name of an option shows it: mappings, lists and objects are left out."""
    if isinstance(value, float | np.generic | str | None):
        return value
    if isinstance(value, int) and value.bit_length() <= 128:
        return value
    return "…"


def _open_document(source: ScenarioSource) -> ScenarioDocument:
    if isinstance(source, Scenario):
        known = source._document
        data = known.data or source.model_dump(mode="json")
        return ScenarioDocument(copy_containers(data), known.name, dict(known.places))
    if isinstance(source, Mapping):
        scenario = validate(ScenarioDocument(copy_containers(source)))
        return ScenarioDocument(scenario.model_dump(mode="json"))
    if isinstance(source, str) and "\n" in source:
        return documents.read_text(source, "the text")
    if isinstance(source, str | Path):
        path = local_path(source)
        if find_place(path) != "example":
            return documents.read(path)
        document = documents.read(examples.examples_folder() / f"{path}.yaml")
        document.data = examples.locate_files(document.data)
        return document
    remedy = "give a path, the name of an example, YAML text, a mapping or a Scenario"
    if isinstance(folder := getattr(source, "folder", None), Path):  # a run or a sweep
        remedy = f"give the path of its scenario, {str(folder / SCENARIO)!r}"
    raise ScenarioError([Fault("", f"a scenario cannot be read from {type(source).__name__}", None, remedy)])


def _check_arguments(overrides: object, named: object) -> None:
    """Refuse *overrides* and *named* blocks of other types than `load` documents."""
    faults = []
    if overrides is None:
        pass
    elif not isinstance(overrides, Mapping):
        faults.append(Fault("overrides", "not a mapping of dotted keys to values", overrides, "write {'rounds': 10}"))
    else:
        wrong = [key for key in overrides if not (isinstance(key, str) and key)]
        if wrong:
            remedy = "write dotted keys, as {'rounds': 10}"
            faults.append(Fault("overrides", "has a key that is no text", wrong[0], remedy))
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        faults.append(Fault("named", "neither the name of a block nor a list of names", named, "write ['NAME']"))
    if faults:
        raise ScenarioError(faults)


def copy_containers(value: Any, path: tuple[str, ...] = (), around: tuple[object, ...] = ()) -> Any:
    """Return a copy of nested mappings and lists, with Python's numbers for NumPy's; other objects are shared.

    >>> copy_containers({"a": [np.int64(1), {"b": 2}]})
    {'a': [1, {'b': 2}]}

    Args:
        value: the mapping or the list.
        path: keys that lead to *value*.
        around: mappings and lists around it.

    Raises:
        ScenarioError: a mapping or a list contains itself, or two keys are the same text.
    """
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, Mapping | list):
        return value
    if any(value is outer for outer in around):
        raise ScenarioError([Fault(".".join(path), "contains itself", None, "write a copy of the values")])
    if len(around) >= MAX_DEPTH:
        problem = f"more than {MAX_DEPTH} lists and mappings are inside of one another"
        raise ScenarioError([Fault(".".join(path[:4]), problem, None, "write fewer levels")])
    around = (*around, value)
    if isinstance(value, list):
        return [copy_containers(entry, (*path, str(index)), around) for index, entry in enumerate(value)]
    copied: dict[str, Any] = {}
    for key, entry in value.items():
        key_path = (*path, str(key))
        if str(key) in copied:  # such as 2 and "2"
            raise ScenarioError([Fault(".".join(key_path), "two keys are the same text", key, "leave one of them out")])
        copied[str(key)] = copy_containers(entry, key_path, around)
    return copied


def validate(document: ScenarioDocument) -> Scenario:
    """Return the validated scenario of a document.

    Raises:
        ScenarioError: with every error, each located.
    """
    try:
        scenario = Scenario.model_validate(document.data, context=WRITTEN)
    except PluginCallError as failure:
        raise ScenarioError(document.located([_failure_fault(failure, document.data)])) from failure
    except ValidationError as error:
        raise ScenarioError(document.located(_faults(error, document))) from None
    scenario._document = document
    return scenario


def _faults(error: ValidationError, document: ScenarioDocument) -> list[Fault]:
    """Return the errors in the sections of a document, and those between the sections that can be read."""
    search = KeySearch(Scenario, document.data)
    faults = faults_of(error, lambda key, value: _place_remedy(search, document, key, value))
    try:
        return [*faults, *cross_faults(*_usable_parts(document.data))]
    except PluginCallError as failure:
        return [*faults, _failure_fault(failure, document.data)]


def _failure_fault(failure: PluginCallError, data: Mapping[str, Any]) -> Fault:
    """Return the error of a model from outside netfl that fails while a scenario is read, at the first key with it."""
    key = next((key for key, value in _entries(data) if value == failure.model), "")
    return Fault(key.removesuffix(".kind"), failure.problem, failure.model, "correct it")


def _entries(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values at and below *value*, each with its dotted key."""
    yield key, value
    entries: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for name, entry in entries:
        yield from _entries(entry, f"{key}.{name}" if key else str(name))


def _place_remedy(search: KeySearch, document: ScenarioDocument, key: str, value: object) -> str:
    """Return the remedy for a *key* that its section does not have; a dotted key that was set is named as a whole."""
    written = next((path for path in document.paths_set if path == key or path.startswith(f"{key}.")), None)
    if written is None:
        return search.remedy(key, value)
    return search.remedy(key, value, written.removeprefix(key), changes=True)


def _card_facts(scenario: Scenario) -> dict[str, object]:
    """Return the facts of a scenario's card: users, rounds, access, data, model and learners."""
    plain = scenario.plain()
    access = plain["access"]
    access_kinds = [access["kind"]]
    access_kinds += [_join_kinds(access[key]) for key in _CARD_PARTS if access.get(key)]
    data_kinds = []
    if plain["data"]:
        data_kinds = [plain["data"]["kind"], (plain["partition"] or {}).get("kind", "")]
    learners = [
        f"{name} ({_join_kinds([spec['objective'], spec['aggregation']])})" for name, spec in plain["learners"].items()
    ]
    return {
        "description": scenario.description,
        "users": f"{scenario.users:,}",
        "rounds": None if scenario.rounds is None else f"{scenario.rounds:,}",
        "duration": None if scenario.duration is None else f"{scenario.duration:g} s",
        "replicas": scenario.replicas,
        "access": " · ".join(access_kinds),
        "data": " · ".join(data_kinds),
        "model": plain["model"] and plain["model"]["kind"],
        "learners": "; ".join(learners),
        "sweep": None if scenario.sweep is None else ", ".join(scenario.sweep.names),
    }


def _join_kinds(models: Any) -> str:
    """Return the kind of a model, or the kinds of a list of models."""
    if not isinstance(models, list):
        models = [models]
    return " + ".join(model["kind"] for model in models)


def _place_in_sweep(document: ScenarioDocument, path: str) -> str:
    """Return the place where the sweep states the values of a dotted *path*."""
    for form in ("grid.", "zip.", "random.parameters.", "parameters.", ""):
        place = document.places.get(f"sweep.{form}{path}")
        if place is not None:
            return place
    return document.where("sweep")


def _usable_parts(data: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Return the sections that are valid on their own, ``None`` for the others, and the names of invalid ones."""
    parts: dict[str, Any] = {}
    unread: set[str] = set()
    for name, field in Scenario.model_fields.items():
        if name not in data and field.is_required():
            parts[name] = None
            continue
        if not field.is_required() and data.get(name) is None:  # missing, or an empty key
            parts[name] = field.get_default(call_default_factory=True)
            continue
        adapter: TypeAdapter[Any] = TypeAdapter(
            cast(Any, Annotated[cast(Any, field.annotation), field, StrictScalars()])
        )
        try:
            parts[name] = adapter.validate_python(data[name], context=WRITTEN)
        except ValidationError:
            parts[name] = None
            unread.add(name)
    return parts, unread


def _learners(document: ScenarioDocument) -> Mapping[str, Any]:
    learners = document.data.get("learners")
    return learners if isinstance(learners, Mapping) else {}


def _check_learners(document: ScenarioDocument, known: Sequence[str], overrides: Mapping[str, object]) -> None:
    """Refuse overrides of unknown learners; an override that names an objective adds a learner."""
    for key, value in overrides.items():
        section, name, *rest = [*key.split("."), ""]
        is_known = name in known or "objective" in (_learners(document).get(name) or {})
        if section == "learners" and any(rest) and not is_known:
            where = changed(key, _shown(copy_containers(value)))
            raise ScenarioError([Fault("learners", "no such learner", name, suggest(name, known), where)])


def _apply_named(document: ScenarioDocument, named: Sequence[str]) -> None:
    blocks = document.data.get("overrides")
    if not isinstance(blocks, Mapping):
        blocks = {}
    for name in named:
        block = blocks.get(name)
        if not isinstance(block, Mapping):
            where = document.where("overrides")
            raise ScenarioError([Fault("overrides", "no such block", name, suggest(name, [*blocks]), where)])
        for key, value in block.items():
            document.put(key, value, document.where(f"overrides.{name}.{key}"))
