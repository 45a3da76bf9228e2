"""Options that several commands share: a command with a parameter of one of these dataclasses has all its options."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from netfl.cli.app import number_option
from netfl.errors import Fault, ScenarioError, suggest

if TYPE_CHECKING:
    from netfl.scenario.scenario import Scenario
    from netfl.simulation.workers.ray_cluster import Cluster
    from netfl.sweeps.slurm_engine import SlurmOptions


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give *command*, in place of each parameter with a dataclass, the options that its fields declare."""
    types = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        annotation = types[parameter.name]
        if not is_dataclass(annotation):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation))
            continue
        groups[parameter.name] = annotation
        options = get_type_hints(annotation, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=options[field.name]
            )
            for field in fields(annotation)
        ]

    @wraps(command)
    def grouped(**values: Any) -> None:
        for name, group in groups.items():
            options = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = group(**options)
        command(**values)

    # Typer reads both
    grouped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    grouped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return grouped


@dataclass(frozen=True, slots=True)
class ScenarioOptions:
    """Changes of a scenario."""

    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Replace the value of one key. The value is YAML."),
    ] = None
    override: Annotated[
        list[str] | None,
        typer.Option("--override", metavar="NAME", help="Apply a block of the scenario's `overrides`."),
    ] = None
    seed: Annotated[int | None, number_option(minimum=0, help="Replace the scenario's seed.")] = None

    def load(self, path: Path, further_overrides: Iterable[str] = ()) -> Scenario:
        """Load the scenario in *path* with these changes and, after the overrides, *further_overrides*."""
        from netfl.scenario import scenario as scenarios
        from netfl.scenario.yaml_document import parse

        values: dict[str, Any] = {}
        for assignment in self.sets or []:
            key, equals, text = assignment.partition("=")
            if not (equals and key):
                remedy = "write for example --set users=10"
                raise ScenarioError([Fault("--set", "not of the form PATH=VALUE", assignment, remedy)])
            values[key] = parse(text, f"--set {key}")
        if self.seed is not None:
            values["seed"] = self.seed
        return scenarios.load(path, values, [*(self.override or []), *further_overrides])


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Processes that share one run."""

    workers: Annotated[
        int, number_option(help="Number of single-threaded processes that share the learners and replicas.")
    ] = 1
    engine: Annotated[str, typer.Option(help="local (processes on this machine) or ray (a cluster).")] = "local"
    address: Annotated[
        str | None, typer.Option(help="With --engine ray: the cluster's address, or auto. Default: start Ray here.")
    ] = None
    gpus: Annotated[
        float | None,
        number_option(
            kind=float, minimum=0, help="With --engine ray: the share of a GPU that each worker gets. Default: 0."
        ),
    ] = None

    def open(self) -> Cluster | int:
        """Return the Ray cluster to use, or the number of processes on this machine.

        Raises:
            ScenarioError: there is no such engine, or it ignores an option that is given.
        """
        _check_engine(self.engine, ("local", "ray"))
        if self.engine == "ray":
            return _cluster(self.address, self.gpus, self.workers)
        _refuse({"--address": self.address, "--gpus": self.gpus}, "ray")
        return self.workers


@dataclass(frozen=True, slots=True)
class SweepEngineOptions:
    """Processes or clusters that share the runs of a sweep."""

    engine: Annotated[str, typer.Option(help="local (this machine), ray or slurm (clusters).")] = "local"
    workers: Annotated[int | None, number_option(help="Number of parallel tasks. Default: the number of cores.")] = None
    address: Annotated[
        str | None, typer.Option(help="With --engine ray: the cluster's address, or auto. Default: start Ray here.")
    ] = None
    gpus: Annotated[
        float | None,
        number_option(
            kind=float,
            minimum=0,
            help="With --engine ray: the share of a GPU of each task. With slurm: the GPUs of a job.",
        ),
    ] = None
    partition: Annotated[
        str | None, typer.Option(help="With --engine slurm: the partition. Default: the cluster's.")
    ] = None
    time: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --engine slurm: the time limit of a job. Default: '1 h'.")
    ] = None
    cpus: Annotated[
        int | None, number_option(minimum=1, help="With --engine slurm: the cores of a job. Default: 1.")
    ] = None
    mem: Annotated[
        str | None, typer.Option(metavar="SIZE", help="With --engine slurm: the memory of a job, such as '4 GB'.")
    ] = None
    sbatch: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="With --engine slurm: a further option of sbatch."),
    ] = None

    def open(self) -> Cluster | SlurmOptions | None:
        """Return the Ray cluster or the resources of Slurm jobs to use; ``None`` for this machine.

        Raises:
            ScenarioError: there is no such engine, or it ignores an option that is given, or an option is invalid.
        """
        _check_engine(self.engine, ("local", "ray", "slurm"))
        if self.engine == "ray":
            self._refuse_slurm()
            return _cluster(self.address, self.gpus, self.workers)
        if self.engine == "slurm":
            _refuse({"--address": self.address}, "ray")
            return self._slurm()
        _refuse({"--address": self.address, "--gpus": self.gpus}, "ray")
        self._refuse_slurm()
        return None

    def _refuse_slurm(self) -> None:
        """Raise an error for each option that only Slurm knows."""
        options = {
            "--partition": self.partition,
            "--time": self.time,
            "--cpus": self.cpus,
            "--mem": self.mem,
            "--sbatch": self.sbatch,
        }
        _refuse(options, "slurm")

    def _slurm(self) -> SlurmOptions:
        from netfl.sweeps.slurm_engine import SlurmOptions

        faults = []
        further: dict[str, str] = {}
        for entry in self.sbatch or ():
            name, equals, value = entry.removeprefix("--").partition("=")
            if name and equals:
                further[name] = value
            else:
                remedy = "write for example --sbatch account=physics"
                faults.append(Fault("--sbatch", "not of the form NAME=VALUE", entry, remedy))
        if self.gpus is not None and self.gpus % 1:
            problem = "not a whole number of GPUs, as a Slurm job needs"
            faults.append(Fault("--gpus", problem, self.gpus, "write a whole number"))
        if faults:
            raise ScenarioError(faults)
        minutes = 60
        if self.time is not None:
            minutes = math.ceil(_quantity("--time", self.time, "s") / 60)
        memory_gb = None
        if self.mem is not None:
            memory_gb = _quantity("--mem", self.mem, "byte") / 1e9
        return SlurmOptions(
            partition=self.partition,
            minutes=minutes,
            cpus=self.cpus or 1,
            memory_gb=memory_gb,
            gpus=int(self.gpus or 0),
            workers=self.workers,
            extra=further,
        )


def _check_engine(engine: str, engines: tuple[str, ...]) -> None:
    if engine not in engines:
        raise ScenarioError([Fault("--engine", "no such engine", engine, suggest(engine, engines))])


def _cluster(address: str | None, gpus: float | None, workers: int | None) -> Cluster:
    from netfl.simulation.workers.ray_cluster import Cluster

    return Cluster(address, gpus or 0.0, workers)


def _refuse(options: Mapping[str, object], engine: str) -> None:
    """Raise an error for each of *options* that is given, since it needs another *engine*."""
    remedy = f"add --engine {engine}"
    faults = [Fault(name, "has no effect", value, remedy) for name, value in options.items() if value is not None]
    if faults:
        raise ScenarioError(faults)


def _quantity(option: str, text: str, unit: str) -> float:
    """Parse a positive quantity with its unit."""
    from netfl.units import QuantityError, to_si

    remedy = "write a number with a unit, such as '2 h' or '4 GB'"
    try:
        value = to_si(text, unit)
    except QuantityError as error:
        raise ScenarioError([Fault(option, str(error), text, error.remedy or remedy)]) from None
    if not value > 0:
        raise ScenarioError([Fault(option, "not above 0", text, remedy)])
    return value
