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
        for line in (raw.split("#")[0].strip() for raw in text.splitlines()):
            if not line:
                continue
            old, new = (part.strip() for part in line.split("->"))
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
            new = hits.pop() if len(hits) == 1 and defined == 1 else match.group(2)
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
                        if other != parent.attr.value:
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
    written = moved = 0
    for name in filter(None, tracked):
        path = Path(name)
        if name == "CHANGELOG.md" or name.startswith("tools/"):
            continue
        source = root / path
        if not source.is_file() or source.stat().st_size > 1_000_000:
            continue
        inside = path.parts[0] == PACKAGE and path.suffix == ".py"
        if path.suffix == ".py":
            before = source.read_text()
            wrapper = md.MetadataWrapper(cst.parse_module(before))
            rewrite = Rewrite(plan, module_of(path) if inside else None)
            after = wrapper.visit(rewrite).code
            for note in rewrite.notes:
                print(f"{path}: {note}")
        elif path.suffix in TEXT:
            try:
                before = source.read_text()
            except UnicodeDecodeError:
                continue
            after = plan.text(before)
        else:
            continue
        if after != before:
            written += 1
            if not dry:
                source.write_text(after)
        new = plan.path(path) if inside else path
        if new != path:
            moved += 1
            if not dry:
                (root / new).parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(["git", "mv", str(path), str(new)], cwd=root, check=True)
    # data files of packages that move
    for name in filter(None, tracked):
        path = Path(name)
        if path.parts[0] == PACKAGE and path.suffix != ".py":
            package = ".".join(path.parent.parts)
            new = Path(*plan.module(package).split("."), path.name)
            if new != path and (root / path).exists():
                moved += 1
                if not dry:
                    (root / new).parent.mkdir(parents=True, exist_ok=True)
                    subprocess.run(["git", "mv", str(path), str(new)], cwd=root, check=True)
    print(f"{written} files rewritten, {moved} moved")


main()
