"""The complete models of the guides and of the family contracts, imported as the plug-ins of a reader."""

import importlib
import inspect
import itertools
import math
import re
import sys
import textwrap
from functools import cache
from types import ModuleType
from typing import Annotated, Any, Literal

import networkx
import numpy as np
from pydantic import Field

from netfl import units
from netfl.core.descriptions import example
from netfl.core.family_members import base_of
from netfl.core.kinds import FAMILIES
from netfl.core.spec import Spec
from netfl.network.layout import Layout
from netfl.network.placement.disk import Disk
from netfl.scenario.yaml_document import parse
from netfl.types import Law
from support.doc_pages import PAGES, blocks

_KIND = re.compile(r"^ +kind: ([\w.]+:\w+)$", re.MULTILINE)
"""The kind in the example of a plug-in."""
_KNOWN = {"np": np, "networkx": networkx, "itertools": itertools, "math": math, "Field": Field, "Annotated": Annotated,
          "Literal": Literal, "Any": Any, "Law": Law, "Disk": Disk, "Layout": Layout}  # fmt: skip
"""Names that the blocks of a contract use without an import."""


def of_family(family: str) -> dict[str, dict[str, Any]]:
    """Return the settings of the models of a network family, by kind."""
    models = {kind: model for kind, model in _all_models().items() if issubclass(model, base_of(family))}
    return {kind: parse(example(model), kind) for kind, model in models.items()}


@cache
def _all_models() -> dict[str, type[Spec]]:
    """Import each block that defines a model of the network; return the models by kind."""
    found = {}
    for text, names in [*_contract_blocks(), *_guide_blocks()]:
        for kind in _KIND.findall(text):
            name, _, class_name = kind.partition(":")
            if name not in sys.modules:
                _import(name, text, names)
            model = getattr(sys.modules[name], class_name, None)
            if inspect.isclass(model) and issubclass(model, Spec) and not inspect.isabstract(model):
                found[kind] = model
    return found


def _contract_blocks():
    """Yield the blocks of code in the docstrings of families, and the names that they use."""
    for family in FAMILIES:
        if family.startswith("network/"):
            package = importlib.import_module("netfl." + family.replace("/", "."))
            for block in re.findall(r"::\n\n((?:(?:    .*)?\n)+)", package.__doc__ or ""):
                yield textwrap.dedent(block), vars(units) | vars(package) | _KNOWN


def _guide_blocks():
    """Yield the files of guides that define models of the network."""
    for page in PAGES:
        for block in blocks(page):
            if block.language == "python" and block.name and "from netfl.network." in block.text:
                yield block.text, {}


def _import(name, text, names):
    """Execute *text* as the module *name*."""
    package, _, _ = name.rpartition(".")
    if package:
        sys.modules.setdefault(package, ModuleType(package))
    module = sys.modules[name] = ModuleType(name)
    vars(module).update({key: value for key, value in names.items() if not key.startswith("__")})
    exec(compile(text, name, "exec"), vars(module))
