"""Conditions on the values of a sweep point, such as ``alpha > 0.5 and gamma == 0``.

A condition has arithmetic and comparisons only; no code is executed.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netfl.errors import suggest


def _comparable(left: object, right: object) -> bool:
    """Refuse to compare a text with a number, which are never equal; quantities are compared as they are written."""
    if isinstance(left, str) != isinstance(right, str):
        raise TypeError(f"{left!r} cannot be compared with {right!r}")
    return True


def _number(value: object) -> Any:
    """Refuse arithmetic with texts and lists, whose multiples fill the memory."""
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value


_OPERATIONS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: lambda left, right: _number(left) + _number(right),
    ast.Sub: lambda left, right: _number(left) - _number(right),
    ast.Mult: lambda left, right: _number(left) * _number(right),
    ast.Div: lambda left, right: _number(left) / _number(right),
    ast.Eq: lambda left, right: _comparable(left, right) and left == right,
    ast.NotEq: lambda left, right: _comparable(left, right) and left != right,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, among: value in among,
    ast.NotIn: lambda value, among: value not in among,
}
_ALLOWED = (
    ast.Constant, ast.List, ast.Tuple, ast.UnaryOp, ast.Not, ast.USub, ast.BoolOp, ast.And, ast.Or, ast.BinOp,
    ast.Compare, ast.Load,
)  # fmt: skip
_QUOTED = re.compile(r"`([^`]*)`")


@dataclass(frozen=True)
class Condition:
    """A parsed condition.

    Names are those of axes.  A name that is not a Python name, such as ``FED-CVaR-AVG.lr``, is written in backquotes.

    >>> Condition.read("alpha > 0.5 and `A.lr` in [1, 2]", ["alpha", "A.lr"]).holds({"alpha": 1.0, "A.lr": 2})
    True

    Args:
        text: the text of the condition.
        tree: its syntax tree, with the names of axes.
    """

    text: str
    tree: ast.expr

    @classmethod
    def read(cls, text: str, names: Sequence[str]) -> Condition:
        """Parse the condition *text* on axes named *names*.

        Raises:
            ValueError: it is not a valid condition.
        """
        quoted = dict(enumerate(_QUOTED.findall(text)))
        places = iter(quoted)
        try:
            tree = ast.parse(_QUOTED.sub(lambda _: f"_{next(places)}", text).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two if it is nested deeply
            raise ValueError("not a condition; write one such as alpha > 0.5 and gamma == 0") from None
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                if re.fullmatch(r"_\d+", node.id):
                    node.id = quoted[int(node.id[1:])]
                if node.id not in names:
                    raise ValueError(f"'{node.id}' is not an axis; {suggest(node.id, names)}")
            elif not isinstance(node, _ALLOWED) and type(node) not in _OPERATIONS:
                raise ValueError(
                    f"{type(node).__name__.lower()} is not allowed in a condition; compare axes and values"
                )
        return cls(text, tree)

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Return whether the condition holds for *values*, by the names of axes.

        Raises:
            ValueError: the values cannot be compared.
        """
        try:
            return bool(_value(self.tree, values))
        except (TypeError, ValueError, ZeroDivisionError, OverflowError, RecursionError) as error:
            raise ValueError(f"'{self.text}': {error}") from None


def _value(node: ast.AST, values: Mapping[str, Any]) -> Any:
    """Return the value of an expression, for *values* by the names of axes."""
    if isinstance(node, ast.Constant | ast.Name):
        return node.value if isinstance(node, ast.Constant) else values[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(element, values) for element in node.elts]
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, values)
        return not inner if isinstance(node.op, ast.Not) else -inner
    if isinstance(node, ast.BoolOp):
        decide = all if isinstance(node.op, ast.And) else any
        return decide(_value(operand, values) for operand in node.values)
    if isinstance(node, ast.BinOp):
        left = _value(node.left, values)
        right = _value(node.right, values)
        return _OPERATIONS[type(node.op)](left, right)
    if not isinstance(node, ast.Compare):
        raise TypeError(f"a {type(node).__name__.lower()} cannot be evaluated")
    parts = [_value(part, values) for part in (node.left, *node.comparators)]
    pairs = zip(node.ops, parts, parts[1:], strict=False)
    return all(_OPERATIONS[type(op)](left, right) for op, left, right in pairs)
