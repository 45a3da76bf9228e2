"""One trial of a user's model on made-up examples: its start, its scores, and a training step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from netfl.learning.architecture import Architecture, ModuleArchitecture
from netfl.learning.module_training import TrainingStep
from netfl.registry import one_line
from netfl.streams import Streams

_BATCH = 3


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


def _score_problems(
    architecture: Architecture, theta: Tensor, x: Tensor, classes: int, tokens: int | None
) -> Iterator[tuple[str, str]]:
    try:
        with torch.inference_mode():
            state = torch.get_rng_state()
            scores, repeated, single = (architecture.open(theta).scores(part[None]) for part in (x, x, x[:1]))
            has_drawn = not torch.equal(state, torch.get_rng_state())
    except Exception as error:  # the user's class can raise anything
        yield f"fails on examples of shape {list(x.shape)}: {one_line(error)}", _remedy(error, architecture, tokens)
    if not isinstance(scores, Tensor) or scores.shape != (1, _BATCH, classes):
        shown = f"{list(scores.shape[1:])}" if isinstance(scores, Tensor) else f"a {type(scores).__name__}"
        yield f"gives {shown} for {_BATCH} examples of {classes} classes", f"[{_BATCH}, {classes}] is wanted"
    if scores.dtype != torch.float32:
        yield f"gives scores of type {scores.dtype}", "let its forward give float32"
    if has_drawn or not torch.equal(scores, repeated):
        yield "draws at random in evaluation mode", "draw only if self.training is true"
    if not torch.allclose(scores[:, :1], single, rtol=1e-3, atol=1e-5):
        yield (
            "gives an example different scores in another batch, in evaluation mode",
            "make each example's scores depend on this example alone",
        )


def _remedy(error: Exception, architecture: Architecture, tokens: int | None) -> str:
    """Return the remedy of a forward that fails; most failures of an embedding are those of its input."""
    parts = architecture.module.modules() if isinstance(architecture, ModuleArchitecture) else ()
    sizes = [part.num_embeddings for part in parts if isinstance(part, nn.Embedding | nn.EmbeddingBag)]
    if isinstance(error, IndexError) and tokens is not None and sizes and min(sizes) < tokens:
        return f"the data have {tokens} tokens, an embedding has {min(sizes)}: enlarge it"
    if isinstance(architecture, ModuleArchitecture) and "dtype" in str(error):
        others = {part.dtype for part in architecture.module.parameters()} - {torch.float32}
        cause = f"its parameters have the type {', '.join(sorted(map(str, others)))}; " if others else ""
        return f"{cause}models are trained in float32: leave out .double() and the like, also of x in its forward"
    if "long" in str(error).lower():  # integers are needed, and examples are floats
        if tokens is None:
            return "if the data are rows of tokens, give their number, such as 'tokens: 20' of kind: arrays"
        return "with has_tokens=True, ModuleArchitecture gives it whole numbers"
    return "its forward takes a batch of examples and gives a score for each class"


def _training_problems(architecture: Architecture, theta: Tensor, x: Tensor) -> Iterator[tuple[str, str]]:
    step = TrainingStep([_BATCH], torch.tensor([1 << 40]))
    try:
        architecture.prepare(x)
        with torch.inference_mode():
            models, repeated = architecture.open(theta), architecture.open(theta).training_scores(x[None], step)
            scores = models.training_scores(x[None], step)
            is_repeatable, losses = torch.equal(scores, repeated), scores[..., 0]
            if not (isinstance(architecture, ModuleArchitecture) and architecture.has_loss):  # that has its own trial
                losses = models.losses(torch.zeros((1, _BATCH), dtype=torch.int64))
                models.descend(torch.full((1, _BATCH), 1 / _BATCH))
            models.store(theta.clone())
    except Exception as error:  # the user's class can raise anything
        yield f"fails when it is trained: {one_line(error)}", "let its forward be what autograd can follow"
    if not is_repeatable:
        yield "draws at random in training, outside PyTorch's generator", "draw by torch.rand and the like"
    if not isinstance(losses, Tensor) or losses.shape != (1, _BATCH):
        shown = f"{list(losses.shape)}" if isinstance(losses, Tensor) else f"a {type(losses).__name__}"
        yield f"gives losses {shown} for {_BATCH} examples of one model", f"[1, {_BATCH}] is wanted"
