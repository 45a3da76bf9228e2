"""Creation of a user's `torch.nn.Module`."""

from __future__ import annotations

import inspect
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from netfl.core.plugins import PluginError, import_plugin, one_line
from netfl.errors import Fault, ScenarioError
from netfl.files import STORED, read_object, stored_object
from netfl.learning.module_training import ModuleParts

HOOK_REMEDY = (
    "users train copies of it without the hook: use register_full_backward_hook of a module, or change forward"
)
"""Remedy of a module with a hook on a parameter."""


def create_module(name: str, args: Mapping[str, Any], seed: int = 0) -> nn.Module:
    """Create the module with PyTorch's generator at *seed*; the state of the generator is restored.

    Args:
        name: ``package.module:Class``, or ``stored:DIGEST`` for an instance that a scenario in Python was given.
        args: keyword arguments of the class.
        seed: seed of its random draws.

    Raises:
        ScenarioError: there is no such class, or it cannot be created with *args*.
    """
    if name.startswith(STORED):
        module: nn.Module = load_stored(name, "module")
        return module
    try:
        module_class = import_plugin(name)
    except PluginError as error:
        raise ScenarioError([Fault("module", error.problem, name, error.remedy)]) from error
    if not (inspect.isclass(module_class) and issubclass(module_class, nn.Module)):
        remedy = "derive it from torch.nn.Module; for one derived from netfl.learning.model.Model, use 'kind'"
        raise ScenarioError([Fault("module", "is not a torch.nn.Module", name, remedy)])
    try:
        with torch.inference_mode(False), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            module = module_class(**args)
    except Exception as error:  # the user's class can raise anything
        problem = f"'{name}' cannot be created with them: {one_line(error)}"
        raise ScenarioError(
            [Fault("args", problem, dict(args), "give the arguments of its __init__ by name")]
        ) from error
    return module


def load_stored(name: str, key: str) -> Any:
    """Return a stored object.  Its file is a pickle that this user wrote: a scenario cannot name any other.

    Args:
        name: ``stored:DIGEST``.
        key: the key of the scenario that names it.

    Raises:
        ScenarioError: there is no such file, or it cannot be loaded.
    """
    try:
        content = read_object(stored_object(name.removeprefix(STORED), ".pt"))
        return torch.load(io.BytesIO(content), weights_only=False)
    except Exception as error:  # a class that is no longer there can raise anything
        problem = f"cannot be loaded: {one_line(error)}"
        raise ScenarioError([Fault(key, problem, name, f"give the {key} again, or its name")]) from error


def flatten_parameters(module: nn.Module) -> NDArray[np.float64]:
    """Return what an update carries, parameters and buffers, as one flat array."""
    return np.concatenate([part.detach().double().numpy().ravel() for part in ModuleParts.of(module).sent.values()])


def find_hooked_parameter(module: nn.Module) -> str | None:
    """Return the first parameter with a hook on its gradient: neither copies nor files of the parameter have it."""
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            return name
    return None
