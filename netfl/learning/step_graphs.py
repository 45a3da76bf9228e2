"""Recorded local training and draws: on a GPU, all steps of a round are launched at once as a CUDA graph.

A step of the MLP launches 44 kernels, and a launch takes longer than such a kernel.  `StepGraphs` records the steps of
jobs of one shape, and replays them in later rounds on other values.  A graph reads its inputs from memory that it
keeps; nothing else may change from round to round.
"""

from __future__ import annotations

import gc
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from netfl.errors import PluginCallError

_LOG = logging.getLogger(__name__)
_CAPACITY = 64
"""Number of graphs that are kept, two for a shape of rounds; the one that was not used for longest is dropped."""
_REFUSALS = (RuntimeError, PluginCallError)
"""Errors of a recording: of PyTorch, and of a part from outside netfl that meets the former."""
Inputs = Sequence[Tensor | None]


class RecordedSteps(Protocol):
    """Recorded calls of a function without arguments, which returns `output`."""

    output: Tensor

    def replay(self) -> None:
        """Run the function again; its result overwrites `output`."""


class CudaGraph:
    """A CUDA graph of a function.

    Args:
        device: the GPU.
        pool: memory that the graphs of a learner share, because they run one after the other.  PyTorch forgets it with
            the last of these graphs, so another learner needs its own.
        function: launches kernels on existing memory, and does not read their results.
    """

    def __init__(self, device: torch.device, pool: Any, function: Callable[[], Tensor]) -> None:
        self._device = device
        with torch.cuda.device(device):
            # a first call on a stream of its own: libraries allocate their workspaces before the recording
            current = torch.cuda.current_stream()
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                function()
            current.wait_stream(stream)

            self._graph = torch.cuda.CUDAGraph()
            with _kept_generator(device), _no_collection(), torch.cuda.graph(self._graph, pool=pool):
                self.output = function()

    def replay(self) -> None:
        """Launch the graph."""
        with torch.cuda.device(self._device):
            self._graph.replay()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect garbage, and none in the context: a graph that is freed during a recording makes the recording fail."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _kept_generator(device: torch.device) -> Iterator[None]:
    """Give PyTorch's generator of *device* a new state of the same values if the context fails.

    A recording that fails leaves the state bound to the graph, and later draws would raise an error.
    """
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    values = generator.get_state()
    try:
        yield
    except _REFUSALS:
        generator.graphsafe_set_state(torch.Generator(device).graphsafe_get_state())
        generator.set_state(values)
        raise


@dataclass(frozen=True, slots=True)
class _KeptGraph:
    function: Callable[..., Tensor]  # a graph reads memory that it does not own
    inputs: Inputs
    recorded: RecordedSteps


class StepGraphs:
    """Graphs of functions of tensors, one for each key.

    A function is recorded when its key occurs for the second time, because recording takes longer than a call.  If that
    fails, for example because a part from outside netfl reads values, all later calls are direct.

    Args:
        record: records a function.
    """

    def __init__(self, record: Callable[[Callable[[], Tensor]], RecordedSteps]) -> None:
        self._record = record
        self._is_usable = True
        self._graphs: OrderedDict[Hashable, _KeptGraph | None] = OrderedDict()

    def run(self, key: Hashable, function: Callable[..., Tensor], inputs: Inputs) -> Tensor:
        """Return ``function(*inputs)``.

        Args:
            key: equal for calls that differ in the values of their inputs only.
            function: its result depends on the inputs, and on nothing else that changes between calls of one key.
            inputs: tensors, or ``None``; their shapes may differ between keys.
        """
        shapes = tuple(None if value is None else (value.shape, value.dtype) for value in inputs)
        key = (key, shapes)
        if not self._is_usable or key not in self._graphs:  # a key that occurs once is not worth a recording
            self._keep(key, None)
            return function(*inputs)
        graph = self._graphs[key] or self._record_function(function, inputs)
        if graph is None:  # the recording failed
            return function(*inputs)
        self._keep(key, graph)
        for static, value in zip(graph.inputs, inputs, strict=True):
            if static is not None and value is not None:
                static.copy_(value, non_blocking=True)
        graph.recorded.replay()
        return graph.recorded.output.clone()

    def _record_function(self, function: Callable[..., Tensor], inputs: Inputs) -> _KeptGraph | None:
        static = [None if value is None else value.clone(memory_format=torch.contiguous_format) for value in inputs]
        try:
            recorded = self._record(lambda: function(*static))
        except _REFUSALS as error:
            _LOG.warning("local training is not recorded as a CUDA graph: %s", error)
            self._is_usable = False
            return None
        return _KeptGraph(function, static, recorded)

    def _keep(self, key: Hashable, graph: _KeptGraph | None) -> None:
        self._graphs[key] = graph
        self._graphs.move_to_end(key)
        if len(self._graphs) > _CAPACITY:
            self._graphs.popitem(last=False)


def run_recorded(graphs: StepGraphs | None, key: Hashable, function: Callable[..., Tensor], inputs: Inputs) -> Tensor:
    """Return ``function(*inputs)``, by `StepGraphs.run` if there are *graphs*."""
    if graphs is None:
        return function(*inputs)
    return graphs.run(key, function, inputs)


def open_graphs(device: torch.device) -> StepGraphs | None:
    """Return graphs for *device*; ``None`` if it has none."""
    if device.type != "cuda":
        return None
    return StepGraphs(partial(CudaGraph, device, torch.cuda.graph_pool_handle()))
