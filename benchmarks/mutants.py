"""Mutants of a module: small changes inside its functions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

import libcst as cst
from mutmut.mutation import mutators

_SWAPS = {"min": "max", "minimum": "maximum", "floor": "ceil", "any": "all", '"left"': '"right"'}
_SWAPS |= {second: first for first, second in _SWAPS.items()}


def swapped(node: cst.Name | cst.SimpleString) -> Iterator[cst.CSTNode]:
    """Yield the node with the opposite name, such as max for min."""
    if node.value in _SWAPS:
        yield node.with_changes(value=_SWAPS[node.value])


def negated(node: cst.If | cst.While) -> Iterator[cst.CSTNode]:
    """Yield the statement with a negated condition."""
    test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    yield node.with_changes(test=cst.UnaryOperation(cst.Not(cst.SimpleWhitespace(" ")), test))


OPERATORS: list[tuple[Any, Any]] = [
    (cst.BaseNumber, mutators.operator_number),
    (cst.Name, mutators.operator_name),
    (cst.AugAssign, mutators.operator_augmented_assignment),
    (cst.UnaryOperation, mutators.operator_remove_unary_ops),
    (cst.CSTNode, mutators.operator_keywords),
    (cst.CSTNode, mutators.operator_swap_op),
    (cst.IfExp, mutators.operator_if_exp),
    ((cst.Name, cst.SimpleString), swapped),
    ((cst.If, cst.While), negated),
]


@dataclass
class Mutant:
    """A change: its function, the line before and after, the text of the module, and the outcome."""

    function: str
    was: str
    now: str
    text: str
    outcome: str = ""
    by: str = ""

    @property
    def name(self) -> tuple[str, str, str]:
        """The key of the mutant in `mutation.toml`."""
        return self.function, self.was, self.now


class Finder(cst.CSTVisitor):
    """Finds all nodes in bodies of functions and their mutations."""

    def __init__(self) -> None:
        self.found: list[tuple[str, cst.CSTNode, cst.CSTNode]] = []
        self._inside: list[str] = []
        self._functions = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Note the mutations of a node; skip annotations, decorators and `laws`."""
        if isinstance(node, cst.Annotation | cst.Decorator):
            return False
        if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "strict":
            return False  # a guard that never triggers
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            function = isinstance(node, cst.FunctionDef)
            if node.name.value == "laws":
                return False
            self._inside.append(node.name.value)
            self._functions += function
            node.body.visit(self)
            self._functions -= function
            self._inside.pop()
            return False
        if self._functions:
            for kind, operator in OPERATORS:
                if isinstance(node, kind):
                    self.found += [(".".join(self._inside), node, mutation) for mutation in operator(node)]
        return True


def mutants(path: Path, most: int, rng: random.Random) -> tuple[int, list[Mutant]]:
    """Return the number of mutants of a module and a random sample of at most *most*."""
    text, finder = path.read_text(), Finder()
    module = cst.parse_module(text)
    module.visit(finder)
    drawn = []
    for place in sorted(rng.sample(range(len(finder.found)), min(most, len(finder.found)))):
        function, node, mutation = finder.found[place]
        changed = module.deep_replace(node, mutation).code  # type: ignore[union-attr]
        lines = list(unified_diff(text.splitlines(), changed.splitlines(), n=0, lineterm=""))[3:]
        was, now = (" ".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+")
        drawn.append(Mutant(function, was, now, changed))
    return len(finder.found), drawn
