"""Mutants of modules: small changes inside their functions."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

import libcst as cst
from mutmut.mutation import mutators

_SWAPS = {"min": "max", "minimum": "maximum", "floor": "ceil", "any": "all", '"left"': '"right"'}
_SWAPS |= {second: first for first, second in _SWAPS.items()}

_WITH_OPERATOR = cst.BinaryOperation, cst.UnaryOperation, cst.BooleanOperation, cst.ComparisonTarget, cst.AugAssign


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
    ((cst.BaseCompOp, cst.Break, cst.Continue), mutators.operator_keywords),
    (_WITH_OPERATOR, mutators.operator_swap_op),
    (cst.IfExp, mutators.operator_if_exp),
    ((cst.Name, cst.SimpleString), swapped),
    ((cst.If, cst.While), negated),
]


@dataclass
class Mutant:
    """A change: its function, the line before and after, the text of the module, and the outcome."""

    path: str
    function: str
    line: int
    was: str
    now: str
    text: str
    outcome: str = ""
    by: str = ""


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


def draw_mutants(paths: Sequence[Path], most: int, seed: int) -> tuple[int, list[Mutant]]:
    """Return the number of mutants of all modules and a random sample of at most *most*.

    Each mutant has a random number of its own, so changes of other functions leave the sample nearly as it is.
    """
    candidates = []
    for path in paths:
        finder = Finder()
        cst.parse_module(path.read_text()).visit(finder)
        counts: Counter[str] = Counter()
        for place, (function, _, _) in enumerate(finder.found):
            counts[function] += 1
            candidates.append((random.Random(f"{seed} {path} {function} {counts[function]}").random(), path, place))
    drawn = sorted(candidates)[:most]
    return len(candidates), [mutant_of(path, place) for _, path, place in drawn]


def mutant_of(path: Path, place: int) -> Mutant:
    """Return one of the mutants of a module."""
    text = path.read_text()
    finder = Finder()
    module = cst.parse_module(text)
    module.visit(finder)
    function, node, mutation = finder.found[place]
    changed = module.deep_replace(node, mutation).code  # type: ignore[union-attr]
    _, _, header, *lines = unified_diff(text.splitlines(), changed.splitlines(), n=0, lineterm="")
    line = int(re.findall(r"\d+", header)[0])
    was, now = (" ".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+")
    return Mutant(str(path), function, line, was, now, changed)
