"""Break docstring lines of more than 120 characters, as `ruff check` reports them: python tools/restructure/wrap.py"""

import ast
import re
import subprocess
from collections import defaultdict
from pathlib import Path

for _ in range(4):
    done = subprocess.run(
        [".venv/bin/ruff", "check", "--select", "E501", "--output-format", "concise", "netfl", "tests", "analysis", "docs"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = defaultdict(list)
    for match in re.finditer(r"^(\S+?):(\d+):\d+: E501", done.stdout, re.M):
        found[match[1]].append(int(match[2]))
    if not found:
        break
    for name, numbers in found.items():
        text = Path(name).read_text()
        lines, inside = text.split("\n"), set()
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                inside |= set(range(node.lineno, node.end_lineno + 1))
        for number in sorted(numbers, reverse=True):
            line = lines[number - 1]
            if number not in inside or (line.rstrip().endswith('"""') and line.count('"""') == 2):
                print(f"{name}:{number}: by hand")
                continue
            cut = line.rfind(" ", 0, 121)
            indent = re.match(r"\s*", line)[0] + ("  " if re.match(r"\s*- ", line) else "")
            if number in inside and re.match(r"\s+\w+: ", line) and not re.match(r"\s*(- |\")", line):
                indent += "    "
            rest = line[cut + 1 :]
            after = lines[number] if number < len(lines) else ""
            same = (
                re.match(r"\s*", after)[0] == indent
                and after.strip()
                and not re.match(r"\s*(- |\w+: |\"\"\"|>>>|Args|Raises)", after)
            )
            if same:
                lines[number - 1 : number + 1] = [line[:cut], f"{indent}{rest} {after.strip()}"]
            else:
                lines[number - 1 : number] = [line[:cut], indent + rest]
        Path(name).write_text("\n".join(lines))
