"""One trial of a user's model on made-up examples: its start, its scores, and a training step.

The step of a `torch.nn.Module` is compared with that of ``loss.backward()``, as a loop in plain PyTorch makes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from netfl.core.plugins import one_line
from netfl.learning.architecture import Architecture, Loss, ModuleArchitecture
from netfl.learning.model._user_module import HOOK_REMEDY, find_hooked_parameter
from netfl.learning.module_training import KeyedDropout, ModuleParts, SeededDraws, TrainingStep
from netfl.streams import Streams

_BATCH = 3
_LR = 0.1
"""Step size of the training step that is compared."""
_TOLERANCE = 0.01
"""Difference of two steps relative to the largest number of one; rounding was measured to stay below 0.001."""
_ROUNDING = 1e-6
"""Error of a parameter in float32, relative to the largest of its tensor, or to 1."""
_FRESH_STATE = "let its forward depend on the batch alone, or register what it keeps as a buffer"


def find_problem(
    architecture: Architecture, shape: tuple[int, ...], classes: int, tokens: int | None
) -> tuple[str, str] | None:
    """Return the first problem of *architecture* with its remedy; ``None`` if it can be trained."""
    with torch.random.fork_rng(devices=[]):
        return next(_problems(architecture, shape, classes, tokens), None)


def _problems(
    architecture: Architecture, shape: tuple[int, ...], classes: int, tokens: int | None
) -> Iterator[tuple[str, str]]:
    """Yield problems with remedies.  Only the first is taken: what follows it may fail."""
    if isinstance(architecture, ModuleArchitecture):
        yield from _module_problems(architecture.module)
    try:
        start = architecture.start(Streams(0))
        is_finite = bool(np.isfinite(start).all())
    except Exception as error:  # the user's class can raise anything
        yield f"fails to draw its start: {one_line(error)}", "its start takes the streams and returns a flat array"
    if not isinstance(start, np.ndarray) or start.shape != (architecture.size,):
        shown = f"{list(start.shape)}" if isinstance(start, np.ndarray) else f"a {type(start).__name__}"
        remedy = "return one flat NumPy array, in the order of module.parameters()"
        yield f"starts with {shown}, not an array [{architecture.size}]", remedy
    if not is_finite:
        yield "starts with numbers that are not finite", "let its start draw finite numbers"
    theta = torch.from_numpy(start).float()[None]
    yield from _score_problems(architecture, theta, _make_examples(shape, tokens), classes, tokens)
    yield from _training_problems(architecture, theta, _make_examples(shape, tokens))


def _make_examples(shape: tuple[int, ...], tokens: int | None) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    if tokens is None:
        return torch.rand((_BATCH, *shape), generator=generator)
    examples = torch.randint(tokens, (_BATCH, *shape), generator=generator).float()
    examples[0, 0] = tokens - 1  # an embedding that is too small fails
    return examples


def _module_problems(module: nn.Module) -> Iterator[tuple[str, str]]:
    parts = [*module.parameters(), *module.buffers()]
    if any(nn.parameter.is_lazy(part) for part in parts):
        yield "has a lazy layer, the size of which is not known before the first batch", "give the layer its sizes"
    if any(
        isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None for part in module.modules()
    ):
        problem = "normalises by batch also in evaluation mode, where an example's scores must depend on it alone"
        yield problem, "set track_running_stats=True, or take torch.nn.GroupNorm"
    if not any(part.requires_grad for part in module.parameters()):
        yield "has no parameters to train", "name a module that has, or let some of them require a gradient"
    if any(part.is_complex() for part in parts):
        yield "has complex parameters or buffers", "use real numbers"
    if hooked := find_hooked_parameter(module):
        yield f"has a hook on its parameter '{hooked}'", HOOK_REMEDY


def _attributes(architecture: Architecture) -> Mapping[str, tuple[object, int]]:
    """Return the attributes in which a module could keep state, without its parameters and buffers, and their sizes."""
    if not isinstance(architecture, ModuleArchitecture):
        return {}
    standard = vars(nn.Module()).keys()
    attributes: dict[str, tuple[object, int]] = {}
    for name, part in architecture.module.named_modules():
        if type(part).__module__.startswith("torch."):
            continue
        for key, value in vars(part).items():
            if key not in standard:
                size = len(value) if isinstance(value, list | dict | set | deque) else 0
                attributes[f"{name}.{key}" if name else key] = (value, size)
    return attributes


def _changed_attribute(architecture: Architecture, before: Mapping[str, tuple[object, int]]) -> str | None:
    """Return the first attribute of a module that is not as it was *before*."""
    for name, (value, size) in _attributes(architecture).items():
        value_before, size_before = before.get(name, (None, 0))
        if value is not value_before or size != size_before:
            return name
    return None


def _score_problems(
    architecture: Architecture, theta: Tensor, x: Tensor, classes: int, tokens: int | None
) -> Iterator[tuple[str, str]]:
    attributes = _attributes(architecture)
    state = torch.get_rng_state()
    try:
        with torch.inference_mode():
            scores = architecture.open(theta).scores(x[None])
    except Exception as error:  # the user's class can raise anything
        yield f"fails on examples of shape {list(x.shape)}: {one_line(error)}", _remedy(error, architecture, tokens)
    if not isinstance(scores, Tensor) or scores.shape != (1, _BATCH, classes):
        shown = f"{list(scores.shape[1:])}" if isinstance(scores, Tensor) else f"a {type(scores).__name__}"
        yield f"gives {shown} for {_BATCH} examples of {classes} classes", f"[{_BATCH}, {classes}] is wanted"
    if scores.dtype != torch.float32:
        yield f"gives scores of type {scores.dtype}", "let its forward give float32"

    # the same batch again, and its first example alone
    failure = ""
    is_repeatable = False
    try:
        with torch.inference_mode():
            repeated = architecture.open(theta).scores(x[None])
            single = architecture.open(theta).scores(x[:1][None])
        is_repeatable = torch.equal(scores, repeated)
    except Exception as error:  # it keeps what does not fit another batch
        failure = one_line(error)
    changed = _changed_attribute(architecture, attributes)
    if not torch.equal(state, torch.get_rng_state()):
        yield "draws at random in evaluation mode", "draw only if self.training is true"
    elif changed is not None and not is_repeatable:
        yield f"keeps state from one batch to the next, in its attribute '{changed}'", _FRESH_STATE
    elif failure:
        yield f"fails on a further batch: {failure}", _FRESH_STATE
    elif not is_repeatable:
        yield "gives other scores for the same batch, in evaluation mode", _FRESH_STATE
    if not torch.allclose(scores[:, :1], single, rtol=1e-3, atol=1e-5):
        yield (
            "gives an example different scores in another batch, in evaluation mode",
            "make each example's scores depend on this example alone",
        )


def _remedy(error: Exception, architecture: Architecture, tokens: int | None) -> str:
    """Return the remedy of a forward that fails; most failures of an embedding are those of its input."""
    embeddings: list[int] = []  # their numbers of tokens
    if isinstance(architecture, ModuleArchitecture):
        parts = architecture.module.modules()
        embeddings = [part.num_embeddings for part in parts if isinstance(part, nn.Embedding | nn.EmbeddingBag)]
    if isinstance(error, IndexError) and tokens is not None and embeddings and min(embeddings) < tokens:
        return f"the data have {tokens} tokens, an embedding has {min(embeddings)}: enlarge it"
    if isinstance(architecture, ModuleArchitecture) and "dtype" in str(error):
        other_types = {part.dtype for part in architecture.module.parameters()} - {torch.float32}
        cause = ""
        if other_types:
            cause = f"its parameters have the type {', '.join(sorted(map(str, other_types)))}; "
        return f"{cause}models are trained in float32: leave out .double() and the like, also of x in its forward"
    if "long" in str(error).lower():  # integers are needed, and examples are floats
        if tokens is None:
            return "if the data are rows of tokens, give their number, such as 'tokens: 20' of kind: arrays"
        return "with has_tokens=True, ModuleArchitecture gives it whole numbers"
    return "its forward takes a batch of examples and gives a score for each class"


def _training_problems(architecture: Architecture, theta: Tensor, x: Tensor) -> Iterator[tuple[str, str]]:
    step = TrainingStep([_BATCH], torch.tensor([1 << 40]))
    attributes = _attributes(architecture)
    step_problems: list[tuple[str, str]] = []
    try:
        architecture.prepare(x)
        with torch.inference_mode():
            models = architecture.open(theta)
            repeated = architecture.open(theta).training_scores(x[None], step)
            scores = models.training_scores(x[None], step)
            is_repeatable = torch.equal(scores, repeated)
            losses = scores[..., 0]
            if not (isinstance(architecture, ModuleArchitecture) and architecture.has_loss):  # that has its own trial
                losses = models.losses(torch.zeros((1, _BATCH), dtype=torch.int64))
                models.descend(torch.full((1, _BATCH), 1 / _BATCH))
            models.store(theta.clone())
        if isinstance(architecture, ModuleArchitecture):
            step_problems += _step_problems(architecture, theta, x, step)
    except Exception as error:  # the user's class can raise anything
        changed = _changed_attribute(architecture, attributes)
        remedy = "let its forward be what autograd can follow"
        if "use_reentrant" in str(error):
            remedy = "call checkpoint(…, use_reentrant=False)"
        elif changed is not None:
            remedy = f"{remedy}; it changes its attribute '{changed}': {_FRESH_STATE}"
        yield f"fails when it is trained: {one_line(error)}", remedy
    if not is_repeatable:
        changed = _changed_attribute(architecture, attributes)
        if changed is not None:
            yield f"keeps state from one batch to the next, in its attribute '{changed}'", _FRESH_STATE
        yield "draws at random in training, outside PyTorch's generator", "draw by torch.rand and the like"
    if not isinstance(losses, Tensor) or losses.shape != (1, _BATCH):
        shown = f"{list(losses.shape)}" if isinstance(losses, Tensor) else f"a {type(losses).__name__}"
        yield f"gives losses {shown} for {_BATCH} examples of one model", f"[1, {_BATCH}] is wanted"
    yield from step_problems


def _step_problems(
    architecture: ModuleArchitecture, theta: Tensor, x: Tensor, step: TrainingStep
) -> Iterator[tuple[str, str]]:
    """Compare a training step with that of ``loss.backward()``, from weights that the module itself does not have."""
    generator = torch.Generator().manual_seed(1)
    theta = theta.clone()
    parameters = theta[:, : architecture.trained]  # a view
    parameters *= 0.5 + torch.rand(parameters.shape, generator=generator)
    outputs = architecture.open(theta).training_scores(x[None], step).shape[-1]
    loss: Loss = _cross_entropy
    y = torch.arange(_BATCH) % outputs
    if architecture.has_loss:  # that has its own trial, and here stands a loss that any scores have
        loss = _square_error
        y = torch.randn((_BATCH, outputs), generator=generator)
        architecture = copy(architecture)
        architecture.function = replace(architecture.function, loss=loss)

    has_drawn = False

    def train(lr: float) -> Tensor:
        """Return the change of parameters and buffers in a step, ``[1, size]``."""
        nonlocal has_drawn
        after = torch.empty_like(theta)
        with torch.inference_mode():
            models = architecture.open(theta)
            models.training_scores(x[None], step)
            models.losses(y[None])
            state = torch.get_rng_state()
            models.descend(torch.full((1, _BATCH), lr / _BATCH))
            has_drawn = not torch.equal(state, torch.get_rng_state())
            models.store(after)
        return after - theta

    trained = train(_LR)
    whole = train(1.0)
    plain = _train_plainly(architecture, theta, x, y, loss, step)
    if has_drawn:
        yield "draws at random in its backward pass", "draw in its forward, by torch.rand and the like"
    differing = _differing_part(architecture, theta, trained, _LR, plain)
    if differing is None:
        return
    if _differing_part(architecture, theta, whole, 1.0, plain) is None:
        problem = f"has a backward pass that is not proportional to the gradient, first in '{differing}'"
        yield problem, "leave out what clips or rounds gradients: weights of examples and step sizes scale them"
    problem = f"trains '{differing}' differently from loss.backward() in plain PyTorch"
    yield (
        problem,
        "let its forward and its hooks read parameters and buffers from the module, as self.weight, each time",
    )


def _cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(scores, y, reduction="none")


def _square_error(scores: Tensor, y: Tensor) -> Tensor:
    return (scores - y).square().mean(1)


def _train_plainly(
    architecture: ModuleArchitecture, theta: Tensor, x: Tensor, y: Tensor, loss: Loss, step: TrainingStep
) -> Tensor:
    """Make a step of size 1 as a loop in PyTorch does; return the change of parameters and buffers, ``[1, size]``.

    The module of *architecture* has other weights afterwards.
    """
    module = architecture.module.float()
    if any(part.is_meta for part in ModuleParts.of(module).sent.values()):
        module = module.to_empty(device="cpu")
    sent = ModuleParts.of(module).sent
    with torch.no_grad():
        for part, values in zip(sent.values(), _pieces(architecture, theta), strict=True):
            part.copy_(values.view(part.shape))
    module.train()
    module.zero_grad()
    key = step.keys[0]
    SeededDraws(x.device).seed(int(key))
    examples = x.long() if architecture.function.has_tokens else x.clone()
    with KeyedDropout(key) if architecture.traits.has_dropout else nullcontext():
        scores = module(examples)
    torch.autograd.backward(loss(scores, y).mean())
    with torch.no_grad():
        for part in ModuleParts.of(module).trained.values():
            if part.grad is not None:
                part.sub_(part.grad)
    after = torch.cat([part.detach().flatten() for part in ModuleParts.of(module).sent.values()])
    return after[None] - theta


def _pieces(architecture: ModuleArchitecture, vector: Tensor) -> Sequence[Tensor]:
    """Cut a vector ``[1, size]`` into the flat parameters and buffers."""
    return torch.split(vector[0], [part.numel() for part in architecture.function.parts.sent.values()])


def _differing_part(
    architecture: ModuleArchitecture, theta: Tensor, trained: Tensor, lr: float, plain: Tensor
) -> str | None:
    """Return the first parameter or buffer of which a step of size *lr* differs from that of size 1 in *plain*."""
    pieces = zip(
        architecture.layout,
        _pieces(architecture, theta),
        _pieces(architecture, trained),
        _pieces(architecture, plain),
        strict=True,
    )
    trained_names = architecture.function.parts.trained
    for name, start, change, expected in pieces:
        scale = lr if name in trained_names else 1.0  # buffers do not know the step size
        error = (change - scale * expected).abs().max()
        rounding = _ROUNDING * max(1.0, float(start.abs().max()))
        if not error <= _TOLERANCE * scale * expected.abs().max() + rounding:  # also where it is not a number
            return name
    return None
