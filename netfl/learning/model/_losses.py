"""Loss functions of modules: the built-in ones, those of users, and a trial of these on made-up scores."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from netfl.core.plugins import PluginError, import_plugin, one_line
from netfl.errors import Fault, ScenarioError
from netfl.files import STORED
from netfl.learning.architecture import Loss
from netfl.learning.model._user_module import load_stored

_BATCH = 3


def _mean_over_outputs(loss: Callable[..., Tensor]) -> Loss:
    return lambda scores, y: loss(scores, y, reduction="none").mean(1)


NUMERIC: dict[str, Loss] = {
    "mse": _mean_over_outputs(functional.mse_loss),
    "mae": _mean_over_outputs(functional.l1_loss),
    "huber": _mean_over_outputs(functional.huber_loss),
}
"""Losses of regressions by name: the mean over the outputs of an example.  Huber's δ is 1."""


def find_loss(name: str) -> Loss | None:
    """Return the loss *name* of a scenario; ``None`` for the cross-entropy, of which models have the gradient.

    Raises:
        ScenarioError: there is no such function.
    """
    if name == "cross_entropy":
        return None
    if name in NUMERIC:
        return NUMERIC[name]
    try:
        loss: Loss = load_stored(name, "loss") if name.startswith(STORED) else import_plugin(name)
    except PluginError as error:
        raise ScenarioError([Fault("loss", error.problem, name, error.remedy)]) from error
    if inspect.isclass(loss) or not callable(loss):
        remedy = "name a function of scores and labels, or an instance of a class such as torch.nn.HuberLoss"
        raise ScenarioError([Fault("loss", "is not a function", name, remedy)])
    return loss


def loss_faults(name: str, classes: int, is_regression: bool) -> Iterator[Fault]:
    """Yield the first problem of the loss *name* for such labels or targets."""
    try:
        loss = find_loss(name)
    except ScenarioError as error:
        yield from error.faults
        return
    if is_regression and loss is None:
        remedy = "use loss: mse, mae or huber, or a function of your own"
        yield Fault("loss", "needs labels, but the targets of these data are numbers", name, remedy)
    elif not is_regression and name in NUMERIC:
        remedy = "use cross_entropy, or give 'targets' in place of 'labels' in the data"
        yield Fault("loss", "needs targets that are numbers, but these data have labels", name, remedy)
    elif loss is not None and name not in NUMERIC:
        shown = f"a {type(loss).__name__}" if name.startswith(STORED) else name
        with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
            for problem, remedy in _problems(loss, classes, is_regression):
                yield Fault("loss", problem, shown, remedy)
                return


def _problems(loss: Loss, classes: int, is_regression: bool) -> Iterator[tuple[str, str]]:
    """Yield problems with remedies.  Only the first is taken: what follows it may fail."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((_BATCH, classes), generator=generator, requires_grad=True)
    if is_regression:
        y = torch.randn((_BATCH, classes), generator=generator)
        y_format = f"targets [{_BATCH}, {classes}]"
    else:
        y = torch.arange(_BATCH) % classes
        y_format = f"labels [{_BATCH}], int64"
    contract = f"it gets scores [{_BATCH}, {classes}] and {y_format}, and returns the loss of each example, [{_BATCH}]"
    losses = slopes = scores
    try:
        losses = loss(scores, y.clone())
        single = loss(scores[:1], y[:1].clone())
        if isinstance(losses, Tensor):
            (slopes,) = torch.autograd.grad(losses.sum(), scores)
    except Exception as error:  # the user's function can raise anything
        yield f"fails on made-up scores: {one_line(error)}", contract
    if not isinstance(losses, Tensor) or losses.shape != (_BATCH,):
        remedy = contract
        if isinstance(losses, Tensor) and losses.ndim == 0:
            remedy = f"return the loss of each example, [{_BATCH}]: with reduction='none', not the mean"
        elif isinstance(losses, Tensor) and losses.shape == (_BATCH, classes):
            remedy = "return the loss of each example: the mean over the outputs, .mean(1)"
        yield f"gives {_shape(losses)} for {_BATCH} examples, not [{_BATCH}]", remedy
    if not torch.isfinite(losses).all() or not torch.isfinite(slopes).all():
        yield "gives a loss, or a gradient, that is not finite for made-up scores", "correct it"
    if not torch.allclose(losses[:1], single, rtol=1e-3, atol=1e-5):
        yield "gives an example another loss in another batch", "let the loss of an example depend on it alone"


def _shape(losses: object) -> str:
    return f"{[*losses.shape]}" if isinstance(losses, Tensor) else f"a {type(losses).__name__}"
