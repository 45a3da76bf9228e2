"""Move modules and rename top-level names across the whole repository, from a mapping file.

Usage: python restructure.py MAPPING [--root DIR] [--dry]

Lines of the mapping (paths below ``netfl``, dots; # comments):

    keeping -> simulation.checkpoints          move a module or a package (a package moves with what is in it)
    staging:Stage -> RunSetup                  rename a top-level name of a module (named by its OLD module)

Imports, references, dotted names and file paths in code, tests, docs and settings are rewritten.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import libcst as cst
import libcst.metadata as md

TEXT = {".md", ".toml", ".yaml", ".yml", ".txt", ".json", ".cff", ".j2", ".html", ".cfg", ""}
PACKAGE = "netfl"


def module_of(path: Path) -> str:
    parts = list(path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Plan:
    def __init__(self, text: str, root: Path) -> None:
        self.root = root
        self.files = {module_of(p.relative_to(root)): p.relative_to(root) for p in (root / PACKAGE).rglob("*.py")}
        self.moves: dict[str, str] = {}
        self.names: dict[tuple[str, str], str] = {}
        self.merged: set[str] = set()
        for line in (raw.split("#")[0].strip() for raw in text.splitlines()):
            if not line:
                continue
            old, new = (part.strip() for part in re.split("->|=>", line))
            if "=>" in line:
                self.merged.add(f"{PACKAGE}.{old}")
            if ":" in old:
                module, name = old.split(":")
                self.names[f"{PACKAGE}.{module}" if module else PACKAGE, name] = new
            else:
                self.moves[f"{PACKAGE}.{old}"] = f"{PACKAGE}.{new}"
        missing = [m for m in self.moves if m not in self.files]
        if missing:
            raise SystemExit(f"no such modules: {missing}")
        self.origin: dict[tuple[str, str], tuple[str, str]] = {}
        self.defined: dict[str, set[str]] = {}
        for module, path in self.files.items():
            tree = ast.parse((root / path).read_text())
            self.defined[module] = set()
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGE):
                    for alias in node.names:
                        self.origin[module, alias.asname or alias.name] = (node.module, alias.name)
            for node in tree.body:
                if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                    self.defined[module].add(node.name)
                elif isinstance(node, ast.Assign):
                    self.defined[module] |= {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    self.defined[module].add(node.target.id)
        unknown = [key for key in self.names if key[1] not in self.defined.get(key[0], set())]
        if unknown:
            raise SystemExit(f"no such names: {unknown}")

    def module(self, old: str) -> str:
        """The new dotted name of a module, by the longest package that moves."""
        best = max((m for m in self.moves if old == m or old.startswith(m + ".")), key=len, default=None)
        return old if best is None else self.moves[best] + old[len(best) :]

    def offered(self, new: str) -> set[str]:
        """The names that the old modules of a new one define, as they are called then."""
        return {self.name(old, name) for old in self.files if self.module(old) == new for name in self.defined[old]}

    def resolve(self, module: str, name: str) -> tuple[str, str]:
        """Where a name that a module offers is defined."""
        seen = set()
        while (
            name not in self.defined.get(module, set()) and (module, name) in self.origin and (module, name) not in seen
        ):
            seen.add((module, name))
            module, name = self.origin[module, name]
        return module, name

    def name(self, module: str, name: str) -> str:
        """The new name of what a module offers under a name."""
        return self.names.get(self.resolve(module, name), name)

    def path(self, old: Path) -> Path:
        module = module_of(old)
        new = self.module(module)
        if new == module:
            return old
        parts = new.split(".")
        if old.name == "__init__.py":
            # a package that has other files stays a package; one file alone becomes a module
            stays = any(m.startswith(module + ".") and self.module(m).startswith(new + ".") for m in self.files)
            return Path(*parts, "__init__.py") if stays else Path(*parts[:-1], parts[-1] + ".py")
        return Path(*parts[:-1], parts[-1] + ".py")

    def text(self, text: str) -> str:
        """Dotted names and paths in strings, comments and prose."""

        def dotted(match: re.Match[str]) -> str:
            whole = match.group(0)
            parts, tail = whole.split("."), ""
            for end in range(len(parts), 0, -1):
                head = ".".join(parts[:end])
                if head in self.files:
                    rest = parts[end:]
                    if rest:
                        rest[0] = self.name(head, rest[0])
                    return ".".join([self.module(head), *rest])
            return whole + tail

        def filed(match: re.Match[str]) -> str:
            path = Path(match.group(0))
            if path.suffix == ".py" and module_of(path) in self.files:
                return str(self.path(path))
            module = ".".join(path.parts)
            if path.suffix == "" and module in self.files:
                return self.module(module).replace(".", "/") + ("/" if match.group(0).endswith("/") else "")
            return match.group(0)

        text = re.sub(rf"(?<![\w./-]){PACKAGE}(?:\.[A-Za-z_]\w*)+", dotted, text)
        text = re.sub(rf"(?<![\w.-]){PACKAGE}(?:/[\w]+)+(?:\.py)?/?", filed, text)

        def ticked(match: re.Match[str]) -> str:
            hits = {new for (_, old), new in self.names.items() if old == match.group(2)}
            defined = sum(match.group(2) in names for names in self.defined.values())
            proper = match.group(2).lstrip("_")[:1].isupper()
            new = hits.pop() if proper and len(hits) == 1 and defined == 1 else match.group(2)
            return match.group(1) + new + match.group(3)

        return re.sub(r"(`)([A-Za-z_]\w*)(`|\()", ticked, text)


class Rewrite(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (md.ScopeProvider, md.ParentNodeProvider)

    def __init__(self, plan: Plan, module: str | None) -> None:
        self.plan, self.here = plan, module
        self.renamed: dict[cst.CSTNode, str] = {}
        self.attributes: dict[cst.CSTNode, str] = {}
        self.notes: list[str] = []
        self.exported: dict[cst.CSTNode, str] = {}
        self.unqualified: dict[cst.CSTNode, str] = {}
        self.home = plan.module(module) if module else None
        self.offered = plan.offered(self.home) if module else set()

    def visit_Module(self, node: cst.Module) -> None:
        scopes = {s for s in self.metadata[md.ScopeProvider].values() if s is not None}
        taken = {a.name for s in scopes for a in s.assignments}
        for scope in scopes:
            for assignment in scope.assignments:
                if isinstance(assignment, md.ImportAssignment):
                    self._imported(assignment, taken)
                elif isinstance(scope, md.GlobalScope) and isinstance(assignment, md.Assignment) and self.here:
                    new = self.plan.names.get((self.here, assignment.name))
                    if new:
                        self._rename(assignment, new)

    def _imported(self, assignment, taken) -> None:
        node = assignment.node
        if not isinstance(node, cst.ImportFrom) or node.module is None:
            return
        module = dotted_name(node.module)
        if not module.startswith(PACKAGE):
            return
        for alias in node.names if not isinstance(node.names, cst.ImportStar) else ():
            name = alias.name.value
            local = alias.asname.name.value if alias.asname else name
            if local != assignment.name:
                continue
            full = f"{module}.{name}"
            if full in self.plan.files:
                new = self.plan.module(full).rsplit(".", 1)[1]
                for access in assignment.references:
                    parent = self.metadata[md.ParentNodeProvider][access.node]
                    if isinstance(parent, cst.Attribute) and parent.value is access.node:
                        other = self.plan.name(full, parent.attr.value)
                        if self.plan.module(full) == self.home:
                            self.unqualified[parent] = other
                        elif other != parent.attr.value:
                            self.attributes[parent.attr] = other
                if alias.asname is None and new != name:
                    if new in taken:
                        self.notes.append(f"{full}: {new} is taken; kept as {name}")
                    else:
                        self._references(assignment, new)
            elif alias.asname is None or local == name:
                new = self.plan.name(module, name)
                if new != name:
                    if new in taken:
                        self.notes.append(f"{full}: {new} is taken")
                    self._references(assignment, new)

    def _rename(self, assignment, new: str) -> None:
        node = assignment.node
        name = node.name if isinstance(node, (cst.FunctionDef, cst.ClassDef)) else node
        if isinstance(name, cst.Name):
            self.renamed[name] = new
        self._references(assignment, new)

    def _references(self, assignment, new: str) -> None:
        for access in assignment.references:
            node = access.node
            if isinstance(node, cst.Name):
                self.renamed[node] = new
            elif isinstance(node, cst.Attribute):
                while isinstance(node, cst.Attribute):
                    node = node.value
                self.renamed[node] = new

    def leave_Attribute(self, original, updated):
        return cst.Name(self.unqualified[original]) if original in self.unqualified else updated

    def leave_Name(self, original, updated):
        new = self.renamed.get(original) or self.attributes.get(original)
        return updated.with_changes(value=new) if new else updated

    def visit_Assign(self, node: cst.Assign) -> None:
        target = node.targets[0].target
        if isinstance(target, cst.Name) and target.value == "__all__" and self.here and hasattr(node.value, "elements"):
            for element in node.value.elements:
                if isinstance(element.value, cst.SimpleString):
                    name = element.value.raw_value
                    new = self.plan.name(self.here, name)
                    if new != name:
                        self.exported[element.value] = f'"{new}"'

    def leave_SimpleString(self, original, updated):
        if original in self.exported:
            return updated.with_changes(value=self.exported[original])
        return updated.with_changes(value=self.plan.text(updated.value))

    def leave_FormattedStringText(self, original, updated):
        return updated.with_changes(value=self.plan.text(updated.value))

    def leave_Comment(self, original, updated):
        return updated.with_changes(value=self.plan.text(updated.value))

    def leave_SimpleStatementLine(self, original, updated):
        if len(original.body) != 1 or not isinstance(original.body[0], cst.ImportFrom):
            return updated
        node = original.body[0]
        if node.module is None or isinstance(node.names, cst.ImportStar):
            return updated
        module = dotted_name(node.module)
        if not module.startswith(PACKAGE):
            return updated
        groups: dict[str, list[cst.ImportAlias]] = {}
        for alias in node.names:
            name, full = alias.name.value, f"{module}.{alias.name.value}"
            if self.home and self.plan.module(full if full in self.plan.files else module) == self.home:
                if alias.asname and alias.asname.name.value != name:
                    self.notes.append(f"{full}: own module, imported as {alias.asname.name.value}")
                if full in self.plan.files or self.plan.name(module, name) in self.offered:
                    continue
            if full in self.plan.files:
                home, new = self.plan.module(full).rsplit(".", 1)
            else:
                home, new = self.plan.module(module), self.plan.name(module, name)
            asname = alias.asname
            if (
                asname is None
                and full in self.plan.files
                and new != name
                and any(n.startswith(f"{full}:") for n in self.notes)
            ):
                asname = cst.AsName(name=cst.Name(name))
            elif asname is not None and asname.name.value == name and full not in self.plan.files:
                asname = cst.AsName(name=cst.Name(new))  # a name that is offered on: X as X
            groups.setdefault(home, []).append(cst.ImportAlias(name=cst.Name(new), asname=asname))
        lines = []
        for index, (home, aliases) in enumerate(groups.items()):
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            statement = cst.ImportFrom(
                module=cst.parse_expression(home),
                names=[a.with_changes(comma=comma) for a in aliases[:-1]] + aliases[-1:],
                lpar=None,
                rpar=None,
            )
            line = updated.with_changes(body=[statement])
            if index:
                line = line.with_changes(leading_lines=[])
            lines.append(line)
        if not lines:
            return cst.RemoveFromParent()
        return cst.FlattenSentinel(lines)


def dotted_name(node) -> str:
    return node.value if isinstance(node, cst.Name) else f"{dotted_name(node.value)}.{node.attr.value}"


def main() -> None:
    mapping, root = Path(sys.argv[1]), Path(sys.argv[sys.argv.index("--root") + 1] if "--root" in sys.argv else ".")
    dry = "--dry" in sys.argv
    plan = Plan(mapping.read_text(), root)
    tracked = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    results: dict[Path, list[tuple[str, bool, str]]] = {}
    gone: list[Path] = []
    for name in filter(None, tracked):
        path = Path(name)
        source = root / path
        if name == "CHANGELOG.md" or name.startswith("tools/") or not source.is_file():
            continue
        inside = path.parts[0] == PACKAGE and path.suffix == ".py"
        if path.suffix == ".py":
            wrapper = md.MetadataWrapper(cst.parse_module(source.read_text()))
            rewrite = Rewrite(plan, module_of(path) if inside else None)
            after = wrapper.visit(rewrite).code
            for note in rewrite.notes:
                print(f"{path}: {note}")
        elif path.suffix in TEXT and source.stat().st_size < 1_000_000:
            try:
                after = plan.text(source.read_text())
            except UnicodeDecodeError:
                continue
        else:
            continue
        new = plan.path(path) if inside else path
        if new != path:
            gone.append(path)
        module = module_of(path)
        results.setdefault(new, []).append((module, module in plan.merged, after))
    data = []
    for name in filter(None, tracked):
        path = Path(name)
        if path.parts[0] == PACKAGE and path.suffix != ".py":
            new = Path(*plan.module(".".join(path.parent.parts)).split("."), path.name)
            if new != path and (root / path).exists():
                data.append((path, new))
    if dry:
        print(f"{len(gone)} files move")
    final = {}
    for new, parts in results.items():
        if len(parts) == 1:
            final[new] = parts[0][2]
        else:
            final[new] = combine(plan, new, parts)
    if dry:
        return
    for path in gone:
        (root / path).unlink()
    for path, new in data:
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "mv", str(path), str(new)], cwd=root, check=True)
        if new in final or path in final:
            final[new] = final.pop(path, final.get(new))
    for new, text in final.items():
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        (root / new).write_text(text)
    print(f"{len(final)} files written, {len(gone) + len(data)} moved")


def pieces(text: str):
    """The docstring, imports, imports for types, and the rest of a module."""
    tree, lines = ast.parse(text), text.split("\n")
    doc = ast.get_docstring(tree, clean=False)
    drop: set[int] = set()
    imports: list[str] = []
    typed: list[str] = []
    if doc is not None:
        drop |= set(range(tree.body[0].lineno, tree.body[0].end_lineno + 1))

    def names(node, into):
        if isinstance(node, ast.Import):
            into.extend(f"import {a.name}" + (f" as {a.asname}" if a.asname else "") for a in node.names)
        else:
            into.extend(
                f"from {node.module} import {a.name}" + (f" as {a.asname}" if a.asname else "") for a in node.names
            )

    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names(node, imports)
            drop |= set(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for each in node.body:
                if isinstance(each, (ast.Import, ast.ImportFrom)):
                    names(each, typed)
            drop |= set(range(node.lineno, node.end_lineno + 1))
    rest = "\n".join(line for number, line in enumerate(lines, 1) if number not in drop).strip("\n")
    return doc, imports, typed, rest


def combine(plan: Plan, new: Path, parts: list[tuple[str, bool, str]]) -> str:
    """One module of several: those that others of them need come first."""
    old = {module for module, _, _ in parts}
    needs = {}
    for module in old:
        tree = ast.parse((plan.root / plan.files[module]).read_text())
        needs[module] = {
            found
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
            for found in (f"{node.module}.{alias.name}", plan.resolve(node.module, alias.name)[0], node.module)
            if found in old and found != module
        }
    order: list[str] = []

    def place(module: str, above=()) -> None:
        if module in above:
            print(f"{new}: cycle through {module}")
            return
        for each in sorted(needs[module]):
            place(each, (*above, module))
        if module not in order:
            order.append(module)

    for module, _, _ in sorted(parts, key=lambda p: (p[1], p[0])):
        place(module)
    texts = {module: pieces(text) for module, _, text in parts}
    primary = [module for module, merged, _ in parts if not merged]
    if len(primary) != 1:
        print(f"{new}: primaries {primary}")
    defined: dict[str, str] = {}
    for module in order:
        for node in ast.parse(texts[module][3]).body:
            named = (
                [node.name]
                if isinstance(node, (ast.FunctionDef, ast.ClassDef))
                else [
                    t.id for t in getattr(node, "targets", [getattr(node, "target", None)]) if isinstance(t, ast.Name)
                ]
                if isinstance(node, (ast.Assign, ast.AnnAssign))
                else []
            )
            for each in named:
                if each in defined and each != "__all__":
                    print(f"{new}: {each} is in {defined[each]} and in {module}")
                defined[each] = module
    imports = sorted({line for module in order for line in texts[module][1]} - {"from __future__ import annotations"})
    bound: dict[str, str] = {}
    for line in imports:
        local = line.split()[-1]
        if local in bound:
            print(f"{new}: {bound[local]} / {line}")
        bound[local] = line
        if local in defined:
            print(f"{new}: {line} / defined in {defined[local]}")
    typed = sorted({line for module in order for line in texts[module][2]} - set(imports))
    bodies = []
    for module in order:
        doc, _, _, rest = texts[module]
        if module not in primary and doc:
            rest = "\n".join(f"# {line}".rstrip() for line in doc.strip().split("\n")) + "\n\n\n" + rest
        bodies.append(rest)
    doc = texts[primary[0]][0] if primary else texts[order[0]][0]
    text = f'"""{doc}"""\n\nfrom __future__ import annotations\n\n' + "\n".join(imports) + "\n"
    if typed:
        text += "\nif TYPE_CHECKING:\n" + "\n".join(f"    {line}" for line in typed) + "\n"
    return text + "\n\n" + "\n\n\n".join(bodies) + "\n"


main()
