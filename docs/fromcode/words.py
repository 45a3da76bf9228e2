"""Conversion of docstrings and tables to Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
_STRANGE = re.compile(r"\\|<|(?<!\*)\*(?!\*)|\[|\]|\$|\{|(?<!\w)_|_(?!\w)")


def prose(text: str) -> str:
    """Return a cleaned docstring as Markdown: paragraphs, lists, and indented text as code."""
    parts = []
    for block in re.split(r"\n{2,}", text.strip("\n")):
        if block.startswith("    "):
            parts.append(f"```text\n{_dedented(block)}\n```")
        elif block.startswith("- "):
            items = block.removeprefix("- ").split("\n- ")
            parts.append("\n".join(f"- {line(item)}" for item in items))
        else:
            parts.append(line(block[:-1] if block.endswith("::") else block))
    return "\n\n".join(parts)


def line(text: str) -> str:
    """Return a paragraph in one line, with the special characters of Markdown escaped outside code."""
    pieces = _CODE.split(" ".join(text.split()))
    return "".join(
        piece if index % 2 else _STRANGE.sub(lambda found: "\\" + found[0], piece) for index, piece in enumerate(pieces)
    )


def capital(text: str) -> str:
    """Return a text with an initial capital."""
    return text[:1].upper() + text[1:]


def code(text: str, language: str) -> str:
    """Return a block of code."""
    return f"```{language}\n{text}\n```"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, of cells in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in lines)


def literal(text: str) -> str:
    """Return a name or value as code, or an empty text unchanged."""
    return f"`{text}`" if text else ""


def page(*parts: str) -> str:
    """Return a page from its parts; the first part is the title."""
    return f"# {parts[0]}\n\n" + "\n\n".join(part for part in parts[1:] if part) + "\n"


def rst(*lines: str) -> str:
    """Return a block of Sphinx directives."""
    return code("\n".join(lines), "{eval-rst}")


def _dedented(block: str) -> str:
    """Return an indented block without its common indentation."""
    lines = block.splitlines()
    least = min(len(one) - len(one.lstrip()) for one in lines if one.strip())
    return "\n".join(one[least:] for one in lines)
