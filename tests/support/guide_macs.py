"""MACs that the documentation shows: those of the guides, of the contract, and of ``netfl new mac``."""

import inspect
import textwrap
from importlib.resources import files
from itertools import takewhile
from string import Template
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.core.descriptions import example
from netfl.network import mac as family
from netfl.network.mac import Mac
from netfl.scenario.yaml_document import parse
from netfl.types import Law
from netfl.units import Seconds
from support.doc_pages import PAGES, blocks

_NAMES = {"Mac": Mac, "Law": Law, "Seconds": Seconds, "Field": Field, "Annotated": Annotated, "np": np}


def guide_macs():
    """Return every MAC of the documentation, by the place where it is and the name of its class."""
    sources = {"netfl new mac": Template(_template()).substitute(model="Turns", name="turns")}
    for page in PAGES:
        sources |= {f"{page.stem}, {block.name}": block.text for block in blocks(page) if _defines_mac(block)}
    found = {"contract, Polling": contract_example()}
    for place, source in sources.items():
        found |= {f"{place}, {model.__name__}": model for model in _macs_of(source)}
    return found


def contract_example():
    """Return the MAC in the docstring of the contract."""
    _, _, text = inspect.getdoc(family).partition("in turn::\n")
    code = "\n".join(takewhile(lambda line: not line or line.startswith(" "), text.splitlines()))
    (model,) = _macs_of(textwrap.dedent(code))
    return model


def settings_of(model):
    """Return the settings in the example of a MAC."""
    return {key: value for key, value in parse(example(model), model.__name__).items() if key != "kind"}


def _defines_mac(block):
    return block.language == "python" and "(Mac):" in block.text


def _macs_of(source):
    names = dict(_NAMES)
    exec(compile(source, "documentation", "exec"), names)
    return [each for each in names.values() if inspect.isclass(each) and issubclass(each, Mac) and each is not Mac]


def _template():
    return (files("netfl.cli") / "templates" / "mac.txt").read_text("utf-8")
