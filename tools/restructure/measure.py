"""The figures that the redesign is judged by: python tools/restructure/measure.py [folder below netfl]."""

import ast
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path("netfl")
FAMILIES = {
    *("access", "access/selection", "network/topology", "network/placement", "network/motion", "network/channel"),
    *("network/reception", "network/mac", "network/queue", "network/routing", "network/outage", "network/traffic"),
    *("network/round", "network/theory", "learning/data", "learning/partition", "learning/model"),
    *("learning/objective", "learning/schedule", "learning/aggregation"),
}
OPENINGS = "What Who Whose Which Whether How Where It They Those These All Both As".split()
below = sys.argv[1] if len(sys.argv) > 1 else ""
files = {}
for path in sorted(ROOT.rglob("*.py")):
    parts = list(path.with_suffix("").parts)
    files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
importers = defaultdict(set)
lines = docs = bad = 0
long, areas, openings = [], Counter(), Counter()
for module, path in files.items():
    text = path.read_text()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                there = full if full in files else node.module
                if there in files and there != module:
                    importers[there].add(module)
    if not str(path).startswith(str(ROOT / below)):
        continue
    count = text.count("\n")
    lines += count
    areas[path.parts[1]] += count
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            if doc := ast.get_docstring(node):
                docs += 1
                word = re.match(r"\W*(\w+)", doc)
                if word and word[1] in OPENINGS:
                    bad += 1
                    openings[f"{path}"] += 1
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if len([a for a in given if a.arg not in {"self", "cls"}]) >= 6:
                long.append(f"{path}:{node.lineno} {node.name}")
single = [
    module
    for module, path in files.items()
    if len(importers[module]) == 1
    and path.name != "__init__.py"
    and "/".join(path.parts[1:-1]) not in FAMILIES
    and str(path).startswith(str(ROOT / below))
]
print(f"{lines} lines in {len(files)} files; entries at the top: {len([*ROOT.iterdir()])}")
print(f"docstrings that open with What, Who, ...: {bad} of {docs} = {100 * bad / max(1, docs):.1f} %")
print(f"functions with 6 or more parameters: {len(long)}")
print(f"modules with exactly one importer outside families: {len(single)}")
if below or "-v" in sys.argv:
    print(*long, *single, *openings.items(), sep="\n")
print(dict(areas))
