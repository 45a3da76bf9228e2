"""The user's own network."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, field_validator
from torch import Tensor, nn

from netfl.errors import Fault, ScenarioError
from netfl.learning.model import Model
from netfl.learning.model._batched import SequentialModels
from netfl.registry import PluginError, import_plugin, one_line
from netfl.types import Law

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture
    from netfl.streams import Streams


class Module(Model):
    """A `torch.nn.Module` of the user's own, under cross-entropy: ``[batch, *shape]`` in, ``[batch, classes]`` out.

    Rows of tokens come as whole numbers.  All its parameters are trained, from where its class puts them when it is
    made; what that draws of PyTorch's generator comes from the run's own streams.  Refused is a module whose scores of
    an example depend on the rest of the batch or on chance (batch normalisation, dropout), that remembers, or whose
    parameters are not float32.  To know how large an update is, PyTorch and the class are imported as soon as the
    scenario is read.

    Example::

        kind: module
        module: my_models:Net
        args: {width: 32}
    """

    module: str
    """Its class, as ``package.module:Class``; a file of the folder that netfl is called in will do as a package."""
    args: dict[str, Any] = Field(default_factory=dict)
    """What the class is made with, by name."""

    @field_validator("module")
    @classmethod
    def _names_a_class(cls, value: str) -> str:
        """It tells the module from the class."""
        if not all(value.partition(":")):
            raise ValueError("write it as package.module:Class")
        return value

    def parameters(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        """As many as it has; imports torch."""
        return self.open(shape, classes, tokens).size

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        """The module at work."""
        from netfl.learning.model._batched import ModuleArchitecture

        def begin(streams: Streams) -> NDArray[np.float64]:
            seed = int(streams.rng("module").integers(2**63))
            return flatten_parameters(create_module(self.module, self.args, seed))

        return ModuleArchitecture(create_module(self.module, self.args), begin, tokens=tokens is not None)

    def misfits(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> Iterator[Fault]:
        """It must be there, fit the examples, and score each by itself."""
        yield from faults(self.module, self.args, shape, classes, tokens)

    def laws(self) -> tuple[Law, ...]:
        """Its class says where it starts."""
        return (Law.none("it starts as its class has it"),)


# A module of the user's own: made without a touch of global generators, and looked over before it is trained.


_NORMS = (nn.modules.batchnorm._BatchNorm, nn.SyncBatchNorm)
_BATCH = 3


def create_module(name: str, args: Mapping[str, Any], seed: int = 0) -> nn.Module:
    """The module, whose class draws from PyTorch's generator as *seed* sets it; the generator is put back.

    Raises:
        ScenarioError: there is no such class, or it cannot be made so.
    """
    found = _class(name)
    try:
        with torch.inference_mode(False), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            module: nn.Module = found(**args)
    except Exception as error:  # whatever the user's class does
        problem = f"'{name}' cannot be made with them: {one_line(error)}"
        raise ScenarioError([Fault("args", problem, dict(args), "give what its __init__ wants, by name")]) from error
    return module


def flatten_parameters(module: nn.Module) -> NDArray[np.float64]:
    """Its parameters in a row."""
    return np.concatenate([part.detach().double().numpy().ravel() for part in module.parameters()])


def faults(
    name: str, args: Mapping[str, Any], shape: tuple[int, ...], classes: int, tokens: int | None
) -> Iterator[Fault]:
    """Why the module cannot be trained on examples of *shape*; the first reason is enough."""
    try:
        module = create_module(name, args)
    except ScenarioError as error:
        yield from error.faults
        return
    found = _build(module) or _work(module, shape, classes, tokens)
    if found is not None:
        problem, remedy = found
        yield Fault("module", problem, name, remedy)


def _class(name: str) -> type[nn.Module]:
    """The class that *name* names."""
    try:
        found = import_plugin(name)
    except PluginError as error:
        raise ScenarioError([Fault("module", error.problem, name, error.remedy)]) from error
    if not (inspect.isclass(found) and issubclass(found, nn.Module)):
        remedy = "derive it from torch.nn.Module; one derived from netfl.learning.model.Model is named by 'kind'"
        raise ScenarioError([Fault("module", "is no torch.nn.Module", name, remedy)])
    return found


def _build(module: nn.Module) -> tuple[str, str] | None:
    """What is wrong with its parts, and what would do."""
    if any(isinstance(part, _NORMS) for part in module.modules()):
        problem = "normalises by batch, so that an example's scores depend on the others, and on fillers, of its batch"
        return problem, "take torch.nn.GroupNorm"
    if not [*module.parameters()]:
        return "has no parameters to train", "name a module that has"
    fixed = [name for name, part in module.named_parameters() if not part.requires_grad]
    if fixed:
        return f"has parameters that are not trained: {', '.join(fixed)}", "make them buffers (register_buffer)"
    others = {part.dtype for part in module.parameters()} - {torch.float32}
    if others:
        problem = f"has parameters of type {', '.join(sorted(map(str, others)))}, and models are trained in float32"
        return problem, "leave out .double() and the like, also of x in its forward"
    return None


def _work(module: nn.Module, shape: tuple[int, ...], classes: int, tokens: int | None) -> tuple[str, str] | None:
    """What is wrong with what it makes of a few made-up examples, and what would do."""
    generator = torch.Generator().manual_seed(0)
    if tokens is None:
        x = torch.rand((_BATCH, *shape), generator=generator)
    else:
        x = torch.randint(tokens, (_BATCH, *shape), generator=generator)
    before = [buffer.clone() for buffer in module.buffers()]
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            state = torch.get_rng_state()
            scores, again, alone = module(x), module(x), module(x[:1])
            drew = not torch.equal(state, torch.get_rng_state())
    except Exception as error:  # whatever the user's class does
        problem = f"fails on examples of shape {[_BATCH, *shape]}: {one_line(error)}"
        return problem, "its forward takes a batch of examples and gives a score for each class"
    if not isinstance(scores, Tensor) or scores.shape != (_BATCH, classes):
        shown = list(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        return f"gives {shown} for {_BATCH} examples of {classes} classes", f"[{_BATCH}, {classes}] is wanted"
    if drew or not torch.equal(scores, again):
        return "draws at random when it scores (dropout?), outside the run's streams", "leave that out"
    if any(not torch.equal(one, other) for one, other in zip(before, module.buffers(), strict=True)):
        return "changes its buffers when it scores, which lanes cannot share", "leave running statistics out"
    if not torch.allclose(scores[:1], alone, rtol=1e-3, atol=1e-5):
        return "gives an example other scores in another batch", "let each example's scores depend on it alone"
    return _train(module, x, tokens is not None)


def _train(module: nn.Module, x: Tensor, tokens: bool) -> tuple[str, str] | None:
    """What is wrong with a step on examples *x*, as it is trained, and what would do."""
    theta = torch.from_numpy(flatten_parameters(module)).float()[None]
    try:
        with torch.inference_mode(), torch.random.fork_rng(devices=[]):
            stack = SequentialModels(theta, module, tokens)
            stack.scores(x.float()[None])
            stack.losses(torch.zeros((1, len(x)), dtype=torch.int64))
            stack.descend(torch.full((1, len(x)), 1 / len(x)))
    except Exception as error:  # whatever the user's class does
        return (
            f"fails when it is trained: {one_line(error)}",
            "let its forward give float32, by what autograd can follow",
        )
    return None
