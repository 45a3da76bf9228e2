"""Creation and checks of a user's `torch.nn.Module`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from netfl.errors import Fault, ScenarioError
from netfl.learning.model._batched import SequentialModels
from netfl.registry import PluginError, import_plugin, one_line

_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm, nn.SyncBatchNorm)


_BATCH = 3


def create_module(name: str, args: Mapping[str, Any], seed: int = 0) -> nn.Module:
    """Create the module with PyTorch's generator at *seed*; the state of the generator is restored.

    Raises:
        ScenarioError: there is no such class, or it cannot be created with *args*.
    """
    module_class = _import_class(name)
    try:
        with torch.inference_mode(False), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            module: nn.Module = module_class(**args)
    except Exception as error:  # the user's class can raise anything
        problem = f"'{name}' cannot be made with them: {one_line(error)}"
        raise ScenarioError([Fault("args", problem, dict(args), "give what its __init__ wants, by name")]) from error
    return module


def flatten_parameters(module: nn.Module) -> NDArray[np.float64]:
    """Return the parameters as one flat array."""
    return np.concatenate([part.detach().double().numpy().ravel() for part in module.parameters()])


def _import_class(name: str) -> type[nn.Module]:
    try:
        module_class = import_plugin(name)
    except PluginError as error:
        raise ScenarioError([Fault("module", error.problem, name, error.remedy)]) from error
    if not (inspect.isclass(module_class) and issubclass(module_class, nn.Module)):
        remedy = "derive it from torch.nn.Module; one derived from netfl.learning.model.Model is named by 'kind'"
        raise ScenarioError([Fault("module", "is no torch.nn.Module", name, remedy)])
    return module_class


class _Problem(NamedTuple):
    text: str
    remedy: str


def check_parameters(module: nn.Module) -> _Problem | None:
    """Return the first problem of the parameters of *module*, or ``None``."""
    if any(isinstance(part, _BATCH_NORMS) for part in module.modules()):
        problem = "normalises by batch, so that an example's scores depend on the others, and on fillers, of its batch"
        return _Problem(problem, "take torch.nn.GroupNorm")
    if not [*module.parameters()]:
        return _Problem("has no parameters to train", "name a module that has")
    fixed = [name for name, part in module.named_parameters() if not part.requires_grad]
    if fixed:
        return _Problem(
            f"has parameters that are not trained: {', '.join(fixed)}", "make them buffers (register_buffer)"
        )
    others = {part.dtype for part in module.parameters()} - {torch.float32}
    if others:
        problem = f"has parameters of type {', '.join(sorted(map(str, others)))}, and models are trained in float32"
        return _Problem(problem, "leave out .double() and the like, also of x in its forward")
    return None


def check_scores(module: nn.Module, shape: tuple[int, ...], classes: int, tokens: int | None) -> _Problem | None:
    """Check the scores of a few random examples, then a training step."""
    generator = torch.Generator().manual_seed(0)
    if tokens is None:
        x = torch.rand((_BATCH, *shape), generator=generator)
    else:
        x = torch.randint(tokens, (_BATCH, *shape), generator=generator)
    before = [buffer.clone() for buffer in module.buffers()]
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            state = torch.get_rng_state()
            scores, repeated, single = module(x), module(x), module(x[:1])
            has_drawn = not torch.equal(state, torch.get_rng_state())
    except Exception as error:  # the user's class can raise anything
        problem = f"fails on examples of shape {[_BATCH, *shape]}: {one_line(error)}"
        return _Problem(problem, "its forward takes a batch of examples and gives a score for each class")
    if not isinstance(scores, Tensor) or scores.shape != (_BATCH, classes):
        shown = list(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        return _Problem(f"gives {shown} for {_BATCH} examples of {classes} classes", f"[{_BATCH}, {classes}] is wanted")
    if has_drawn or not torch.equal(scores, repeated):
        return _Problem("draws at random when it scores (dropout?), outside the run's streams", "leave that out")
    if any(not torch.equal(old, new) for old, new in zip(before, module.buffers(), strict=True)):
        return _Problem("changes its buffers when it scores, which lanes cannot share", "leave running statistics out")
    if not torch.allclose(scores[:1], single, rtol=1e-3, atol=1e-5):
        return _Problem(
            "gives an example other scores in another batch", "let each example's scores depend on it alone"
        )
    return _check_training(module, x, tokens is not None)


def _check_training(module: nn.Module, x: Tensor, has_tokens: bool) -> _Problem | None:
    theta = torch.from_numpy(flatten_parameters(module)).float()[None]
    try:
        with torch.inference_mode(), torch.random.fork_rng(devices=[]):
            stack = SequentialModels(theta, module, has_tokens)
            stack.scores(x.float()[None])
            stack.losses(torch.zeros((1, len(x)), dtype=torch.int64))
            stack.descend(torch.full((1, len(x)), 1 / len(x)))
    except Exception as error:  # the user's class can raise anything
        return _Problem(
            f"fails when it is trained: {one_line(error)}",
            "let its forward give float32, by what autograd can follow",
        )
    return None
