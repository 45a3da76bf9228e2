"""The mutants of a module: small changes inside of its functions."""

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
_SWAPS |= {other: one for one, other in _SWAPS.items()}


def swapped(node: cst.Name | cst.SimpleString) -> Iterator[cst.CSTNode]:
    """The least for the most, one side for the other."""
    if node.value in _SWAPS:
        yield node.with_changes(value=_SWAPS[node.value])


def negated(node: cst.If | cst.While) -> Iterator[cst.CSTNode]:
    """The other way round."""
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
    """A change: its function, the line before and after, the text of the whole module; and what became of it."""

    function: str
    was: str
    now: str
    text: str
    outcome: str = ""
    by: str = ""

    @property
    def name(self) -> tuple[str, str, str]:
        """What it is known by in `mutation.toml`."""
        return self.function, self.was, self.now


class Finder(cst.CSTVisitor):
    """Finds all nodes in bodies of functions, and what they may become."""

    def __init__(self) -> None:
        self.found: list[tuple[str, cst.CSTNode, cst.CSTNode]] = []
        self._inside: list[str] = []
        self._functions = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Note its mutants; go on into it unless it says nothing of what is done."""
        if isinstance(node, cst.Annotation | cst.Decorator):
            return False
        if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "strict":
            return False  # a guard against what never is
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
                    self.found += [(".".join(self._inside), node, other) for other in operator(node)]
        return True


def mutants(path: Path, most: int, rng: random.Random) -> tuple[int, list[Mutant]]:
    """How many mutants a module has, and at most so many of them, drawn at random."""
    text, finder = path.read_text(), Finder()
    module = cst.parse_module(text)
    module.visit(finder)
    drawn = []
    for place in sorted(rng.sample(range(len(finder.found)), min(most, len(finder.found)))):
        function, node, other = finder.found[place]
        changed = module.deep_replace(node, other).code  # type: ignore[union-attr]
        lines = list(unified_diff(text.splitlines(), changed.splitlines(), n=0, lineterm=""))[3:]
        was, now = (" ".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+")
        drawn.append(Mutant(function, was, now, changed))
    return len(finder.found), drawn
