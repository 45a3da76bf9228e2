"""Conditions on the values of a point, such as ``alpha > 0.5 and gamma == 0``: arithmetic and comparisons, no code."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netfl.errors import suggest


def _alike(left: object, right: object) -> bool:
    """Refuse to compare a word with a number, which would never be equal: quantities are seen as they are written."""
    if isinstance(left, str) != isinstance(right, str):
        raise TypeError(f"{left!r} cannot be compared with {right!r}")
    return True


_OPERATIONS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Eq: lambda left, right: _alike(left, right) and left == right,
    ast.NotEq: lambda left, right: _alike(left, right) and left != right,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, among: value in among,
    ast.NotIn: lambda value, among: value not in among,
}
_MOST_SIGNS = 1_000
_MOST_DEPTH = 50
_QUOTED = re.compile(r"`([^`]*)`")


@dataclass(frozen=True)
class Condition:
    """A condition as it is written.

    Names are those of axes; one that is no Python name, such as ``FED-CVaR-AVG.lr``, stands in backquotes.

    >>> Condition.read("alpha > 0.5 and `A.lr` in [1, 2]", ["alpha", "A.lr"]).holds({"alpha": 1.0, "A.lr": 2})
    True

    Args:
        text: what is written.
        tree: what that means.
        quoted: the names in backquotes, in their order.
    """

    text: str
    tree: ast.expr
    quoted: tuple[str, ...]

    @classmethod
    def read(cls, text: str, names: Sequence[str]) -> Condition:
        """The condition *text* on axes called *names*.

        Raises:
            ValueError: it is none, in words.
        """
        if len(text) > _MOST_SIGNS:
            raise ValueError(f"a condition of {len(text)} characters; {_MOST_SIGNS} are possible")
        quoted = tuple(_QUOTED.findall(text))
        places = iter(range(len(quoted)))
        try:
            tree = ast.parse(_QUOTED.sub(lambda _: f"_{next(places)}", text).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError("no condition; write one such as alpha > 0.5 and gamma == 0") from None
        found = cls(text, tree, quoted)
        for node in ast.walk(tree):
            found._check(node, names)
        if _deep(tree):
            raise ValueError(f"a condition of more than {_MOST_DEPTH} levels; write several")
        return found

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether it holds for *values*, by the names of axes.

        Raises:
            ValueError: they cannot be compared as it wants them compared.
        """
        try:
            return bool(self._value(self.tree, values))
        except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
            raise ValueError(str(error)) from None

    def _name(self, node: ast.Name) -> str:
        """The axis that a name stands for."""
        return self.quoted[int(node.id[1:])] if re.fullmatch(r"_\d+", node.id) else node.id

    def _check(self, node: ast.AST, names: Sequence[str]) -> None:
        """Refuse what is neither a value, an axis, arithmetic nor a comparison."""
        if isinstance(node, ast.Name):
            if (name := self._name(node)) not in names:
                raise ValueError(f"'{name}' is no axis; {suggest(name, names)}")
        elif not isinstance(node, _ALLOWED) and type(node) not in _OPERATIONS:
            raise ValueError(f"{type(node).__name__.lower()} has no place in a condition; compare axes and values")

    def _value(self, node: ast.AST, values: Mapping[str, Any]) -> Any:
        """What a part of it comes to."""
        if isinstance(node, ast.Constant | ast.Name):
            return node.value if isinstance(node, ast.Constant) else values[self._name(node)]
        if isinstance(node, ast.List | ast.Tuple):
            return [self._value(one, values) for one in node.elts]
        if isinstance(node, ast.UnaryOp):
            inner = self._value(node.operand, values)
            return not inner if isinstance(node.op, ast.Not) else -inner
        if isinstance(node, ast.BoolOp):
            decide = all if isinstance(node.op, ast.And) else any
            return decide(self._value(one, values) for one in node.values)
        if isinstance(node, ast.BinOp):
            left, right = self._value(node.left, values), self._value(node.right, values)
            for side in (left, right):
                if not isinstance(side, int | float):  # or 'x' * 10**9 would fill the memory
                    raise TypeError(f"{side!r} is no number to reckon with")
            return _OPERATIONS[type(node.op)](left, right)
        if not isinstance(node, ast.Compare):
            raise TypeError(f"a {type(node).__name__.lower()} cannot be decided")
        parts = [self._value(one, values) for one in (node.left, *node.comparators)]
        pairs = zip(node.ops, parts, parts[1:], strict=False)
        return all(_OPERATIONS[type(op)](left, right) for op, left, right in pairs)


def _deep(tree: ast.AST) -> bool:
    """Whether the parts of *tree* are too many levels within each other; found level by level, not by recursion."""
    level, depth = [tree], 0
    while level and depth <= _MOST_DEPTH:
        level, depth = [child for node in level for child in ast.iter_child_nodes(node)], depth + 1
    return bool(level)


_ALLOWED = (
    ast.Constant, ast.List, ast.Tuple, ast.UnaryOp, ast.Not, ast.USub, ast.BoolOp, ast.And, ast.Or, ast.BinOp,
    ast.Compare, ast.Load,
)  # fmt: skip
