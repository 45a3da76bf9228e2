"""Move top-level names from one module to another: python tools/restructure/move.py netfl.old netfl.new name ...

Definitions move as they stand; imports of them are rewritten everywhere.  The imports of the old module are copied
(`ruff check --fix` removes what is too many).  Qualified uses such as ``tables.name`` are printed, to be changed by
hand.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path


def path_of(module: str) -> Path:
    path = Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [t.id for t in node.targets if isinstance(t, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def main() -> None:
    old, new, *names = sys.argv[1:]
    source, target = path_of(old), path_of(new)
    text = source.read_text()
    lines, tree = text.split("\n"), ast.parse(text)
    taken, drop = [], set()
    for index, node in enumerate(tree.body):
        if set(names_of(node)) & set(names):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            last = node.end_lineno
            after = tree.body[index + 1] if index + 1 < len(tree.body) else None
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(after, ast.Expr):
                last = after.end_lineno  # its docstring
            taken.append("\n".join(lines[first - 1 : last]))
            drop |= set(range(first, last + 1))
    if missing := set(names) - {n for node in tree.body for n in names_of(node)}:
        raise SystemExit(f"{old} does not define {missing}")
    imports = [
        ast.unparse(node)
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom)) and getattr(node, "module", "") not in {"__future__", new}
    ]
    source.write_text("\n".join(line for number, line in enumerate(lines, 1) if number not in drop))
    if not target.exists():
        target.write_text('"""TODO."""\n\nfrom __future__ import annotations\n')
    head = target.read_text()
    body = ast.parse(head).body
    at = max((n.end_lineno for n in body if isinstance(n, (ast.Import, ast.ImportFrom))), default=body[0].end_lineno)
    rows = head.split("\n")
    target.write_text("\n".join([*rows[:at], *imports, *rows[at:], "", "", *[f"{each}\n\n" for each in taken]]))
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True)
    for name in files.stdout.split():
        path = Path(name)
        if path.suffix not in {".py", ".md", ".toml", ".j2"} or name.startswith("tools/") or not path.exists():
            continue
        before = after = path.read_text()
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(before)):
                if isinstance(node, ast.ImportFrom) and node.module == old and any(a.name in names for a in node.names):
                    segment = ast.get_source_segment(before, node)
                    stay = [a for a in node.names if a.name not in names]
                    go = [a for a in node.names if a.name in names]
                    parts = [ast.unparse(ast.ImportFrom(old, stay, 0))] if stay else []
                    if path != target:
                        parts.append(ast.unparse(ast.ImportFrom(new, go, 0)))
                    indent = "\n" + " " * node.col_offset
                    after = after.replace(segment, indent.join(parts) or "pass")
        for each in names:
            after = re.sub(rf"\b{re.escape(old)}\.{each}\b", f"{new}.{each}", after)
            short = old.rsplit(".", 1)[1]
            if path.suffix == ".py" and re.search(rf"(?<![\w.]){short}\.{each}\b", after):
                print(f"{path}: {short}.{each}")
        if after != before:
            path.write_text(after)
    if any(re.search(rf"\b{name}\b", source.read_text()) for name in names):
        print(f"{source} still uses some of them: import them there")


main()
