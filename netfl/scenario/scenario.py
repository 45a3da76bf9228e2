"""Scenarios: one YAML file says everything of a run; all that is wrong with it is said at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field, PrivateAttr, TypeAdapter, ValidationError, model_validator

from netfl.access import Access
from netfl.errors import Fault, ScenarioError, suggest
from netfl.learning.data import Data
from netfl.learning.model import Model
from netfl.learning.partition import Partition
from netfl.learning.spec import CheckpointSpec, EvaluateSpec, LearnerSpec
from netfl.network.files import local_path
from netfl.registry import FamilyMember, LiteralOr, Spec, faults_of, to_line_error
from netfl.scenario import yaml_document as documents
from netfl.scenario.event_filter import EventFilter
from netfl.scenario.recording import RECORDED, EventKind, RecordSpec
from netfl.scenario.sweep_axes import SweepSpec
from netfl.scenario.tracking import TrackSpec
from netfl.scenario.validation import WINDOWS, cross_faults
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.types import FORMAT, UPLINK_WORD_BITS
from netfl.units import WRITTEN, Seconds

Name = Annotated[str, Field(pattern=r"^[^\s/\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]*$", max_length=100)]
"""A name that can stand in a table and in a file name."""

MOST_USERS, MOST_ROUNDS, MOST_REPLICAS = 10**8, 10**12, 10**6
"""What no machine would see the end of, refused before anything is laid out for it."""


class Scenario(Spec):
    """Everything that a run is made from."""

    name: Name
    """What the run is called; the run directory is named after it."""
    description: str = ""
    """What it shows, in a few sentences; the report opens with it."""
    format: Annotated[int, Field(ge=1, le=FORMAT)] = 1
    """The version of the format that the file is written in; that of a file without it is 1."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Decides every random draw."""
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] = 1
    """Independent repetitions of the network and of learning."""
    users: Annotated[int, Field(ge=1, le=MOST_USERS)]
    """How many users hold data and train."""
    rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS)] | None = None
    """How many rounds the server runs; this or ``duration``."""
    duration: Annotated[Seconds, Field(gt=0)] | None = None
    """How long a network is watched that has traffic of its own in place of updates; this or ``rounds``."""
    warmup: Annotated[Seconds, Field(ge=0)] = 0.0
    """How much at the start of ``duration`` does not count for the figures."""
    access: Annotated[Access, FamilyMember()]
    """Who gets heard: a RAM given directly, a replay, or a network."""
    data: Annotated[Data, FamilyMember()] | None = None
    """What the users learn from."""
    partition: Annotated[Partition, FamilyMember()] | None = None
    """Which example belongs to which user."""
    model: Annotated[Model, FamilyMember()] | None = None
    """What is trained."""
    learners: dict[Name, LearnerSpec] = Field(default_factory=dict)
    """Learners by name; all share the trace, so that comparisons are paired."""
    precision: Literal["float32", "float64"] | None = None
    """Of the learners' arithmetic: ``float32`` by default.  Updates are as large with either: 32 bits a number."""
    evaluate: EvaluateSpec | None = None
    """When the global models are evaluated; every 10 rounds by default."""
    record: Annotated[
        Literal["all", "none"] | tuple[EventKind, ...] | RecordSpec, LiteralOr(tuple[EventKind, ...], RecordSpec)
    ] = RECORDED
    """Which kinds of events the trace stores; or a mapping of that, ``events``, ``users``, ``every``, ``versions``."""
    checkpoint: Annotated[Literal["none"] | CheckpointSpec, LiteralOr(CheckpointSpec)] | None = None
    """How often it is kept where learners stand: every 30 s by default; ``none``: only when the run is stopped."""
    track: TrackSpec | None = None
    """Who is told the metrics of learners while a run goes on: TensorBoard, MLflow."""
    sweep: SweepSpec | None = None
    """What `netfl sweep` varies; other commands take the scenario as it is without."""
    overrides: dict[Name, dict[str, Any]] = Field(default_factory=dict)
    """Named blocks of dotted paths and values; one is chosen by ``--override NAME``."""

    _document: ScenarioDocument = PrivateAttr(default_factory=ScenarioDocument)

    @property
    def keeping(self) -> EventFilter:
        """Which events the trace stores."""
        return self.recording.keeping(self.users)

    @property
    def recording(self) -> RecordSpec:
        """What the run keeps, however it is said."""
        return self.record if isinstance(self.record, RecordSpec) else RecordSpec(events=self.record)

    @property
    def versions_kept(self) -> Sequence[int]:
        """The rounds whose versions of the learners' models are kept, in order; 0 is the start."""
        every = int(self.recording.versions)
        return sorted({*range(0, self.steps, every), self.steps}) if every else ()

    @property
    def steps(self) -> int:
        """How many rounds are played: those that are asked for, or the windows of ``duration``."""
        return WINDOWS if self.rounds is None else self.rounds

    @property
    def update_bits(self) -> float:
        """The size of one update or broadcast: the model's parameters, and t where a learner has one; 0 if unknown."""
        if self.model is None or self.data is None:
            return 0.0
        extra = any(learner.objective.t_rate > 0 for learner in self.learners.values())
        parameters = self.model.parameters(self.data.shape, self.data.classes, self.data.tokens)
        return float(UPLINK_WORD_BITS * (parameters + extra))

    @property
    def rare_classes(self) -> tuple[int, ...]:
        """The labels that count as rare: those that ``evaluate`` or the partition names."""
        if self.evaluate is not None and self.evaluate.rare_classes is not None:
            return self.evaluate.rare_classes
        return self.partition.rare_labels if self.partition is not None else ()

    @property
    def evaluation(self) -> EvaluateSpec:
        """When the global models are evaluated, by default too."""
        return self.evaluate or EvaluateSpec()

    def located(self, faults: Sequence[Fault]) -> list[Fault]:
        """The faults with the places where their keys stand, if the scenario was read from a file."""
        return self._document.located(faults)

    def plain(self) -> dict[str, Any]:
        """The scenario as resolved, as plain data: all that decides a run."""
        return self.model_dump(mode="json", exclude={"format", "overrides", "sweep"})

    def to_yaml(self, *, sweep: bool = False) -> str:
        """The scenario as resolved: it alone reproduces the run, and with its *sweep* that."""
        swept = {} if self.sweep is None or not sweep else {"sweep": self.sweep.model_dump(mode="json")}
        return documents.dump({"format": FORMAT} | self.plain() | swept)

    def at(self, values: Mapping[str, Any]) -> Scenario:
        """This scenario with other values at dotted paths, and without a sweep or overrides.

        Raises:
            ScenarioError: with every fault; those of *values* stand where the sweep says them.
        """
        said = self._document
        document = ScenarioDocument(deepcopy(said.data) or self.plain(), said.name, dict(said.places))
        for section in ("sweep", "overrides"):
            document.data.pop(section, None)
        for path, value in values.items():
            document.put(path, deepcopy(value), _said_by_sweep(said, path))
        return checked(document)

    @model_validator(mode="after")
    def _consistent(self) -> Scenario:
        """Refuse parts that do not fit each other."""
        found = list(cross_faults({name: getattr(self, name) for name in type(self).model_fields}))
        if found:
            raise ValidationError.from_exception_data("Scenario", [to_line_error(fault) for fault in found])
        return self


def load(path: str | Path, overrides: Mapping[str, object] | None = None, named: Sequence[str] = ()) -> Scenario:
    """Read and check a scenario.

    Args:
        path: the YAML file.
        overrides: dotted paths and values that replace the file's.
        named: blocks of the file's ``overrides`` to apply first, in this order.

    Raises:
        ScenarioError: with every fault, each located.
    """
    document = documents.read(local_path(path))
    _apply_named(document, named)
    known = [*_learners(document)]
    for key, value in (overrides or {}).items():
        told = "…" if isinstance(value, Mapping | list) else value
        document.put(key, value, f"--set {key}={told}")
    _check_learners(document, known, overrides or {})
    return checked(document)


def checked(document: ScenarioDocument) -> Scenario:
    """The scenario that *document* says.

    Raises:
        ScenarioError: with every fault, each located.
    """
    try:
        scenario = Scenario.model_validate(document.data, context=WRITTEN)
    except ValidationError as error:
        faults = [*faults_of(error), *cross_faults(*_usable_parts(document.data))]
        raise ScenarioError(document.located(faults)) from None
    scenario._document = document
    return scenario


def _said_by_sweep(document: ScenarioDocument, path: str) -> str:
    """Where a sweep varies *path*."""
    keys = (f"sweep.{form}{path}" for form in ("grid.", "zip.", "random.of.", ""))
    return next((document.places[key] for key in keys if key in document.places), document.where("sweep"))


def _usable_parts(data: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The sections that can be read for themselves, ``None`` for all others; and those that could not be read."""
    parts: dict[str, Any] = {}
    unread: set[str] = set()
    for name, field in Scenario.model_fields.items():
        if name not in data:
            parts[name] = None if field.is_required() else field.get_default(call_default_factory=True)
            continue
        adapter: TypeAdapter[Any] = TypeAdapter(cast(Any, Annotated[cast(Any, field.annotation), field]))
        try:
            parts[name] = adapter.validate_python(data[name], context=WRITTEN)
        except ValidationError:
            parts[name] = None
            unread.add(name)
    return parts, unread


def _learners(document: ScenarioDocument) -> Mapping[str, Any]:
    """The learners as the document has them; none where it has something else in their place."""
    found = document.data.get("learners")
    return found if isinstance(found, Mapping) else {}


def _check_learners(document: ScenarioDocument, known: Sequence[str], overrides: Mapping[str, object]) -> None:
    """Refuse keys of a learner that there is not, unless they make one, for which it takes an objective."""
    for key in overrides:
        section, name, *rest = [*key.split("."), ""]
        made = name in known or "objective" in (_learners(document).get(name) or {})
        if section == "learners" and any(rest) and not made:
            raise ScenarioError([Fault("learners", "no such learner", name, suggest(name, known), f"--set {key}")])


def _apply_named(document: ScenarioDocument, named: Sequence[str]) -> None:
    """Apply override blocks of the document."""
    blocks = document.data.get("overrides")
    blocks = blocks if isinstance(blocks, Mapping) else {}
    for name in named:
        block = blocks.get(name)
        if not isinstance(block, Mapping):
            where = document.where("overrides")
            raise ScenarioError([Fault("overrides", "no such block", name, suggest(name, [*blocks]), where)])
        for key, value in block.items():
            document.put(key, value, document.where(f"overrides.{name}.{key}"))
