"""Batches of dense networks with hand-written gradients.

Hidden activations are ``[models, batch, width]``, but the last layer's output is ``[models, classes, batch]``: classes
are few, and arithmetic along the batch vectorises.  For the same reason each weight matrix is stored with its longer
side innermost.  A step of SGD is part of the matrix product that forms the gradient.  A single model is computed
without the dimension of the models: such products are faster, and have the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from netfl.learning.architecture import Architecture, BatchedModel
from netfl.learning.model import _initialization
from netfl.learning.model._initialization import Biases, Start
from netfl.streams import Streams
from netfl.types import Floats

_ATEN: Any = torch.ops.aten
_SLOPE = 0.01

ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Any], Callable[[Tensor, Tensor], Any]]] = {
    "relu": (torch.relu_, lambda grad, out: _ATEN.threshold_backward.grad_input(grad, out, 0, grad_input=grad)),
    "leaky_relu": (
        lambda z: torch.nn.functional.leaky_relu_(z, _SLOPE),
        lambda grad, out: _ATEN.leaky_relu_backward.grad_input(grad, out, _SLOPE, True, grad_input=grad),
    ),
    "tanh": (torch.tanh_, lambda grad, out: _ATEN.tanh_backward.grad_input(grad, out, grad_input=grad)),
}
"""Activations in place, and the in-place product of a gradient with their derivative, a function of the output."""


class Products(NamedTuple):
    """Products of matrices, or of batches of them.

    Args:
        add: the sum of a matrix and a product, as `torch.addmm` and `torch.baddbmm`.
        multiply: a product, as `torch.mm` and `torch.bmm`.
        subtract: subtracts a product from a matrix in place.
        subtract_sum: subtracts the sum over the last dimension of a matrix from a vector in place.  The third argument
            is a vector of ones.
    """

    add: Callable[..., Tensor]
    multiply: Callable[..., Tensor]
    subtract: Callable[[Tensor, Tensor, Tensor], object]
    subtract_sum: Callable[[Tensor, Tensor, Tensor], object]


def _round(first: Tensor, second: Tensor) -> Tensor:
    """Return the product of factors that are rounded to bfloat16."""
    return torch.matmul(first.bfloat16(), second.bfloat16())


def _add_rounded(term: Tensor, first: Tensor, second: Tensor, out: Tensor | None = None) -> Tensor:
    return torch.add(term, _round(first, second), out=out)


def _multiply_rounded(first: Tensor, second: Tensor, out: Tensor) -> Tensor:
    return out.copy_(_round(first, second))


def _subtract_sum(vector: Tensor, matrix: Tensor, _: Tensor) -> Tensor:
    return vector.sub_(matrix.sum(-1))


SINGLE = Products(
    torch.addmm,
    torch.mm,
    lambda value, first, second: value.addmm_(first, second, alpha=-1),
    lambda vector, matrix, ones: vector.addmv_(matrix, ones, alpha=-1),  # one call instead of two
)
BATCHED = Products(
    torch.baddbmm,
    torch.bmm,
    lambda value, first, second: value.baddbmm_(first, second, alpha=-1),
    _subtract_sum,
)
ROUNDED = Products(
    _add_rounded,
    _multiply_rounded,
    lambda value, first, second: value.sub_(_round(first, second)),
    _subtract_sum,
)


class Dense(Architecture):
    """Linear layers between *sizes* with an activation between them, under the loss of *stack*."""

    def __init__(
        self,
        sizes: Sequence[int],
        starts: Sequence[Start],
        stack: Callable[[Tensor, Sequence[int]], DenseStack],
        biases: Biases = "default",
    ) -> None:
        self._parts = _initialization.dense_parameters(sizes, starts, biases=biases)
        self._size = _initialization.count_parameters(self._parts)
        self._sizes = tuple(sizes)
        self._stack = stack

    @property
    def size(self) -> int:
        return self._size

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        return _initialization.parameter_shapes(self._parts)

    def start(self, streams: Streams) -> Floats:
        return _initialization.draw_parameters(self._parts, streams)

    def open(self, theta: Tensor, trained: bool = True) -> DenseStack:
        stack = self._stack(theta, self._sizes)
        if trained and self.has_bf16_products and theta.dtype == torch.float32:
            stack.round_products()
        return stack


class _Layer:
    """One linear layer of all models; `activate` selects the models in use."""

    weight: Tensor
    bias: Tensor
    turned: Tensor
    row: Tensor
    column: Tensor
    _stored_weight: Tensor  # of the models in use, as it lies in memory

    def __init__(self, weight: Tensor, bias: Tensor, is_owned: bool) -> None:
        """Copy *weight*, ``[models, out, in]``, and *bias*, ``[models, out]``, to the layout of this class.

        With *is_owned* they have this layout, and may be overwritten.
        """
        _, fan_out, fan_in = weight.shape
        self._is_turned = fan_out > fan_in  # the longer side lies innermost
        self._weights = weight.mT if self._is_turned else weight
        self._biases = bias
        if not is_owned:
            self._weights = self._weights.clone(memory_format=torch.contiguous_format)
            self._biases = self._biases.clone(memory_format=torch.contiguous_format)
        self.activate(bias.shape[0])

    @property
    def stored(self) -> tuple[Tensor, Tensor]:
        """Weights and biases of all models, in their layout."""
        return self._weights, self._biases

    def activate(self, models: int) -> None:
        """Use the first *models*: set `weight`, ``[models, out, in]``, and `bias`, ``[models, out]``.

        `turned`, ``[models, in, out]``, `row`, ``[models, 1, out]``, and `column`, ``[models, out, 1]``, are views of
        them, which would otherwise be created in every step.  A single model has no first dimension.
        """
        used = 0 if models == 1 else slice(models)
        self._stored_weight = self._weights[used]
        self.weight = self._stored_weight.mT if self._is_turned else self._stored_weight
        self.turned = self.weight.mT
        self.bias = self._biases[used]
        self.row = self.bias.unsqueeze(-2)
        self.column = self.bias.unsqueeze(-1)

    def descend(self, grad: Tensor, inputs: Tensor, products: Products, ones: Tensor) -> None:
        """Subtract the gradient: ``W -= G X`` and ``b -= G 1``, with G = *grad*, X = *inputs* and 1 = *ones*.

        Args:
            grad: gradient of the outputs, ``[models, out, batch]``, or without the first dimension.
            inputs: ``[models, batch, in]``, or without the first dimension.
            products: computes the product of both.
            ones: ``[batch]``.
        """
        if self._is_turned:
            products.subtract(self._stored_weight, inputs.mT, grad.mT)  # (G X)ᵀ = Xᵀ Gᵀ
        else:
            products.subtract(self._stored_weight, grad, inputs)
        products.subtract_sum(self.bias, grad, ones)


class DenseStack(BatchedModel):
    """Several dense networks under a cross-entropy.

    Layer l has the outputs ``a_l = activate(a_{l-1} W_lᵀ + b_l)``; the last one, ``z``, has no activation.  The loss of
    an example with the label y is ``-log p_y`` with ``p = softmax(z)``, or ``p = softmax(softmax(z))`` with *softmax*.
    """

    # the last step; a single model has no first dimension
    _inputs: Tensor  # a_0, [models, batch, in]
    _output: Tensor  # z, [models, classes, batch]
    _fed: Tensor  # input of the cross-entropy, [models, classes, batch]
    _log: Tensor  # log p, [models, classes, batch]
    _labels: Tensor  # [models, 1, batch]
    _ones: Tensor  # [batch]

    def __init__(self, theta: Tensor, sizes: Sequence[int], activation: str = "relu", softmax: bool = False) -> None:
        self._sizes = sizes
        self._softmax = softmax
        self._activate, self._derive = ACTIVATIONS[activation]

        self._flat: Tensor | None = None
        if len(theta) == 1 and all(fan_out <= fan_in for fan_in, fan_out in pairwise(sizes)):
            # the layers of a single model may be views of one vector, as no weight is stored turned
            self._flat = theta.new_empty(1, theta.shape[1] + 1)  # with t, see `finish`
            self._flat[:, :-1] = theta
            self._layers = [_Layer(weight, bias, is_owned=True) for weight, bias in _parts(self._flat, sizes)]
        else:
            self._layers = [_Layer(weight, bias, is_owned=False) for weight, bias in _parts(theta, sizes)]

        self._has_rounded_products = False
        self._x: Tensor | None = None  # examples of the last step

        # what `_resize` prepares for steps of one extent: of models and batch
        self._extent = torch.Size((len(theta), 0))
        self._is_single = False
        self._products = BATCHED
        self._forward: list[tuple[Tensor, Tensor, Tensor]] = []  # b, Wᵀ and outputs of each hidden layer
        self._backward: list[tuple[_Layer, Tensor, Tensor]] = []  # layers from the last, inputs, their gradients

    def round_products(self) -> None:
        """Round the factors of products to bfloat16 in the next steps."""
        self._has_rounded_products = True

    def scores(self, x: Tensor) -> Tensor:
        if x is not self._x:  # often the same memory in all steps
            if x.shape[:2] != self._extent:
                self._resize(*x.shape[:2])
            self._x = x
            self._inputs = x[0].flatten(1) if self._is_single else x.flatten(2)
        outputs = self._inputs
        for bias, turned, hidden in self._forward:
            sums = self._products.add(bias, outputs, turned, out=hidden)  # a Wᵀ + b
            outputs = self._activate(sums)
        last = self._layers[-1]
        self._output = self._products.add(last.column, last.weight, outputs.mT)  # zᵀ = W aᵀ + b
        return self._output.mT.view(*self._extent, -1)

    def losses(self, y: Tensor) -> Tensor:
        self.take_labels(y)
        return self._log.gather(-2, self._labels).view(y.shape).neg_()

    def take_labels(self, y: Tensor) -> None:
        self._fed = self._output
        if self._softmax:
            self._fed = torch.softmax(self._output, -2)
        self._log = torch.log_softmax(self._fed, -2)
        self._labels = self._beside_output(y)

    def slopes(self, weights: Tensor) -> Tensor:
        """Return the gradient of the weighted losses by the last layer's output, in its shape."""
        probability = self._log.exp_()  # log p is not used again
        grad = probability.scatter_(-2, self._labels, -1.0, reduce="add")  # ∂ℓ/∂f = p - 1[label], with the input f
        grad.mul_(self._beside_output(weights))
        if self._softmax:  # f = softmax(z): ∂ℓ/∂z = f (∂ℓ/∂f - Σ_c f_c ∂ℓ/∂f_c)
            mean = (grad * self._fed).sum(-2, keepdim=True)
            grad = self._fed * (grad - mean)
        return grad

    def descend(self, weights: Tensor, into: Tensor | None = None) -> None:
        """Back-propagate; each layer is updated as soon as the gradient of its inputs is known.

        Args:
            weights: ``[models, batch]``.
            into: output for the gradient of the first layer's inputs, ``[models, batch, inputs]``; optional.
        """
        grad = self.slopes(weights)  # of the outputs of a layer, [models, out, batch]
        for layer, inputs, below in self._backward:
            self._products.multiply(grad.mT, layer.weight, out=below)  # gradient of the inputs: Gᵀ W
            self._derive(below, inputs)  # and through the activation that made them
            layer.descend(grad, inputs, self._products, self._ones)
            grad = below.mT
        first = self._layers[0]
        if into is not None:
            self._products.multiply(grad.mT, first.weight, out=into.view(self._inputs.shape))
        first.descend(grad, self._inputs, self._products, self._ones)

    def values(self, models: int) -> list[Tensor]:
        return [part[:models] for layer in self._layers for part in layer.stored]

    def store(self, into: Tensor) -> None:
        if self._flat is not None:
            into.copy_(self._flat[:, :-1])
            return
        self._extent = torch.Size((0, 0))  # a further step has to select its models again
        self._x = None
        for layer, (weight, bias) in zip(self._layers, _parts(into, self._sizes), strict=True):
            layer.activate(len(into))
            weight.copy_(layer.weight)
            bias.copy_(layer.bias)

    def finish(self, t: Tensor, size: int) -> Tensor:
        if self._flat is None:
            return super().finish(t, size)
        self._flat[:, -1] = t
        return self._flat

    def _resize(self, models: int, batch: int) -> None:
        """Use the first *models* with *batch* examples each: allocate hidden layers and their gradients."""
        if models != self._extent[0]:
            for layer in self._layers:
                layer.activate(models)
        self._extent = torch.Size((models, batch))
        self._is_single = models == 1
        if self._has_rounded_products:
            self._products = ROUNDED
        elif self._is_single:
            self._products = SINGLE
        else:
            self._products = BATCHED

        like = self._layers[0].bias
        shape = (batch,) if self._is_single else (models, batch)
        self._ones = like.new_ones(batch)
        hidden = [like.new_empty((*shape, size)) for size in self._sizes[1:-1]]
        gradients = [like.new_empty(outputs.shape) for outputs in hidden]
        self._forward = [
            (layer.row, layer.turned, outputs) for layer, outputs in zip(self._layers[:-1], hidden, strict=True)
        ]
        self._backward = [*zip(self._layers[1:], hidden, gradients, strict=True)]
        self._backward.reverse()

    def _beside_output(self, values: Tensor) -> Tensor:
        """Return *values*, ``[models, batch]``, with the dimensions of the output; a single class."""
        return values if self._is_single else values[:, None]


class HingeStack(DenseStack):
    """Several linear layers under the multiclass hinge loss; a single output separates two classes.

    The loss of an example with the outputs s and the label y is ``max(0, 1 + max_{j≠y} s_j - s_y)``.  With a single
    output f it is ``max(0, 1 - f)`` for label 1, and ``max(0, 1 + f)`` for label 0.
    """

    _has_loss: Tensor  # whether the loss of each example is above 0, [models, 1, batch]
    _rivals: Tensor  # j, the best of the other classes, [models, 1, batch]

    def scores(self, x: Tensor) -> Tensor:
        """Return the outputs, or -f/2 and f/2 for a single one."""
        outputs = super().scores(x)
        if outputs.shape[2] > 1:
            return outputs
        return torch.cat((-outputs, outputs), 2) / 2

    def take_labels(self, y: Tensor) -> None:
        self.losses(y)

    def losses(self, y: Tensor) -> Tensor:
        self._labels = self._beside_output(y)
        if self._output.shape[-2] == 1:
            margins = self._output * (2 * self._labels - 1)
            self._has_loss = margins < 1
            return (1 - margins).clamp_(min=0).view(y.shape)
        score = self._output.gather(-2, self._labels)
        others = self._output.scatter(-2, self._labels, -torch.inf)
        best_other, self._rivals = others.max(-2, keepdim=True)
        hinges = 1 + best_other - score
        self._has_loss = hinges > 0
        return hinges.clamp_(min=0).view(y.shape)

    def slopes(self, weights: Tensor) -> Tensor:
        """Return the gradient: plus the weight at the rival, minus the weight at the label; 0 if the loss is 0."""
        of_examples = self._beside_output(weights) * self._has_loss
        if self._output.shape[-2] == 1:
            return of_examples * (1 - 2 * self._labels)
        grad = torch.zeros_like(self._output)
        grad.scatter_(-2, self._rivals, of_examples)
        return grad.scatter_(-2, self._labels, -of_examples)


def _parts(theta: Tensor, sizes: Sequence[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield views of each layer's weights, ``[models, out, in]``, and biases, ``[models, out]``."""
    begin = 0
    for fan_in, fan_out in pairwise(sizes):
        middle = begin + fan_in * fan_out
        end = middle + fan_out
        yield theta[:, begin:middle].view(-1, fan_out, fan_in), theta[:, middle:end]
        begin = end
