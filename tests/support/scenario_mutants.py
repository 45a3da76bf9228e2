"""Mutants of scenario files, and what `netfl check` makes of each.

A mutant is a scenario with one to three changes: values of wrong types, hostile numbers and texts, keys renamed,
dropped, moved or doubled, lists for scalars, huge counts, and odd YAML.  `examine` reads and checks mutants in
processes of their own, with limits of time and memory.
``python benchmarks/mutated_scenarios.py`` prints what thousands gave.
"""

import copy
import json
import os
import random
import re
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from functools import cache
from io import StringIO
from pathlib import Path

import jsonschema
from typer.main import get_command

import netfl
from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.scenario import yaml_document
from netfl.scenario.json_schema import scenario_schema
from support.random_scenarios import WRONG_VALUES

ROOT = Path(__file__).parents[2]
"""The folder that contains ``scenarios/``."""
LIMIT_S, LIMIT_BYTES = 20.0, 2 << 30
"""Processor time and memory of the check of one mutant."""
TEXTS = (
    "10%", "10 %", "0,1", "1,000", "1_000", "+8", " 8 ", "8.0", "0x10", "1e3", "ten", "none", "null", "true", "no",
    "x" * 10_000, "9" * 5_000, "[" * 200, "a b", "a/b", "../../etc/passwd", "/dev/zero", "-", "--out", "~", "ü" * 50,
    "\x1b[31mred", "a\x00b", "line\nline", "tab\tbed", "\u202eright", "\x85", "\ud7ff", "5 mbps", "10 kms", "3 dBW",
    "1 s", "-5 m", "1e400 s", "inf", "-inf", "nan", "0.1 0.2", "1/3", "1:30", "12:00:00", "2026-13-45",
)  # fmt: skip
"""Texts that users write, or that should harm a program."""
COUNTS = (0, -1, 2, 10**4, 10**6, 10**7, 10**9, 2**31, 2**53 + 1, 2**63, 10**18, 10**30, 10**400)
"""Counts."""
NUMBERS = (0.0, -0.0, -1.0, 1e-300, 5e-324, 1e-12, 0.5, 1.0, 1.0000001, 1e6, 1e12, 1e18, 1e300, -1e300)
"""Numbers, many of them too large or too small."""
FOREIGN_KEYS = (
    "clients", "num_clients", "num_rounds", "epochs", "local_epochs", "optimizer", "lr", "learning_rate", "batch",
    "batch_size", "mac", "topology", "channel", "radio", "strategy", "algorithm", "dataset", "seed", "kind", "alpha",
    "Users", "user", "", " ", "1", "x" * 300, "\x1b[2J", "a.b", "null",
)  # fmt: skip
"""Keys of other programs, of other sections, and of nobody."""
RAW_VALUES = (
    '!!python/object/apply:os.system ["true"]', "!!binary eA==", "!!set {a, b}", "!unknown x", "*nowhere", "&a [*a]",
    "&a {b: *a}", "{", "[1", "]", "'open", '"open', "|", ">", "? x", "- 1", "%TAG", "@x", "`x`", "0o17", "0b11", "1_0",
    ".nan", ".inf", "-.inf", "~", "2026-01-01", "12:30:45", "{<<: {a: 1}}", "{? [1, 2] : 3}", '"\\x1b[31m"',
    "\t1", "1 # 2", "1: 2: 3", "--- x", "...", "<<", "=", "!!float 3", "!!str 3", "!!int x", "[[[[[[[[]]]]]]]]",
)  # fmt: skip
"""Values in YAML, some of them broken."""


@dataclass
class Outcome:
    """Result of the check of a mutant.

    Args:
        number: the number of the mutant.
        scenario: the file from which it was made.
        changes: its changes.
        forbidden: the rule that it breaks; empty if it may be valid.
        exit_code: of `netfl check`.
        failure: an exception that is no error of netfl, or a limit that was passed; empty if none.
        seconds: processor time of the check.
        peak_bytes: largest memory of the process, beyond what it held before.
        faults: each error as (text, is located, has a remedy).
    """

    number: int
    scenario: str
    changes: list[str]
    forbidden: str = ""
    exit_code: int = 0
    failure: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0
    faults: list[tuple[str, bool, bool]] = field(default_factory=list)

    @property
    def problem(self) -> str:
        """The fault of netfl in words; empty if it read or refused the mutant as it should."""
        if self.failure:
            return self.failure
        if self.forbidden and self.exit_code == 0:
            return f"accepted, though {self.forbidden}"
        if self.seconds > LIMIT_S:
            return f"took {self.seconds:.0f} s"
        if self.peak_bytes > LIMIT_BYTES:
            return f"took {self.peak_bytes / 1e9:.1f} GB"
        return ""


@dataclass
class Mutant:
    """A changed scenario: its text, its changes, and the rule that it breaks for sure, if any."""

    text: str
    changes: list[str]
    forbidden: str = ""


class LimitError(BaseException):
    """The check of a mutant took too long."""


def scenario_files() -> list[Path]:
    """Return all scenario files of the repository."""
    return sorted((ROOT / "scenarios").rglob("*.yaml"))


@cache
def plain(path: Path):
    """Return a scenario file as plain data."""
    return yaml_document.parse(path.read_text(encoding="utf-8"), path.name)


def mutate(data, rng: random.Random) -> Mutant:
    """Return a mutant of the scenario *data*."""
    data = copy.deepcopy(data)
    changes = [rng.choice(CHANGES)(data, rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    text = yaml_document.dump(data)
    forbidden = ""
    if rng.random() < 0.15:
        text, change, forbidden = rng.choice(TEXT_CHANGES)(text, rng)
        changes.append(change)
    return Mutant(text, changes, forbidden)


def places(part, above=()):
    """Yield each (key, container, entry) below one part of plain data."""
    entries = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for name, entry in entries:
        yield (*above, name), part, entry
        yield from places(entry, (*above, name))


def _pick(data, rng, wanted=lambda container, entry: True):
    """Return a random (key, container, entry) that is *wanted*; one of all if there is none."""
    found = [*places(data)] or [(("name",), data, None)]
    chosen = [place for place in found if wanted(place[1], place[2])]
    return rng.choice(chosen or found)


def _shown(key):
    return ".".join(map(str, key))


def _replace(data, rng):
    """Replace a value by one of a wrong type."""
    key, container, _ = _pick(data, rng)
    container[key[-1]] = copy.deepcopy(rng.choice(WRONG_VALUES))
    return f"{_shown(key)} = {container[key[-1]]!r}"


def _write_text(data, rng):
    """Replace a value that is not a container by a text."""
    key, container, _ = _pick(data, rng, lambda _, entry: not isinstance(entry, dict | list))
    container[key[-1]] = rng.choice(TEXTS)
    return f"{_shown(key)} = {container[key[-1]][:40]!r}"


def _scale(data, rng):
    """Replace a number by a hostile one."""
    key, container, entry = _pick(data, rng, lambda _, entry: type(entry) in {int, float})
    container[key[-1]] = rng.choice(COUNTS if isinstance(entry, int) else NUMBERS)
    return f"{_shown(key)} = {str(container[key[-1]])[:40]}"


def _scale_quantity(data, rng):
    """Change the number or the unit of a quantity."""
    pattern = re.compile(r"([-+0-9.e]+) (\S+)")
    key, container, entry = _pick(data, rng, lambda _, entry: isinstance(entry, str) and pattern.fullmatch(entry))
    if match := pattern.fullmatch(str(entry)):
        number = rng.choice((match[1], *map(str, NUMBERS)))
        unit = rng.choice((match[2], match[2].upper(), match[2].lower(), "s", "km", "kg", "dB", "bps", "", "hours"))
        container[key[-1]] = f"{number} {unit}".strip()
    return f"{_shown(key)} = {container[key[-1]]!r}"


def _rename(data, rng):
    """Rename a key: misspell it, or give it the name that another program has."""
    key, container, _ = _pick(data, rng, lambda container, _: isinstance(container, dict))
    if isinstance(container, dict) and key[-1] in container:
        name = str(key[-1])
        new = rng.choice((*FOREIGN_KEYS, name + "s", name[:-1], name.upper(), name.replace("_", "-"), name[::-1]))
        container[new] = container.pop(key[-1])
        return f"{_shown(key)} renamed {new[:40]!r}"
    return ""


def _drop(data, rng):
    """Drop an entry."""
    key, container, _ = _pick(data, rng)
    if key[-1] in container or isinstance(container, list):
        del container[key[-1]]
    return f"without {_shown(key)}"


def _move(data, rng):
    """Move an entry of a mapping into another mapping, or to the top."""
    key, container, _ = _pick(data, rng, lambda container, _: isinstance(container, dict))
    if not isinstance(container, dict) or key[-1] not in container:
        return ""
    entry = container.pop(key[-1])
    target_key, target = (), data
    others = [(name, part) for name, _, part in places(data) if isinstance(part, dict)]
    if others and rng.random() < 0.6:
        target_key, target = rng.choice(others)
    target[key[-1]] = entry
    return f"{_shown(key)} moved to {_shown(target_key) or 'the top'}"


def _add(data, rng):
    """Add a key."""
    key, _, part = _pick(data, rng, lambda _, entry: isinstance(entry, dict))
    target = part if isinstance(part, dict) and rng.random() < 0.6 else data
    new = rng.choice(FOREIGN_KEYS)
    target[new] = copy.deepcopy(rng.choice((1, 0.1, "x", {"kind": "star"}, [1], None)))
    return f"{_shown(key) if target is part else 'top'}: {new[:40]!r} added"


def _wrap(data, rng):
    """Put a value into a list, replace a list by its first entry, or change a list into a mapping and back."""
    key, container, entry = _pick(data, rng)
    if isinstance(entry, list):
        new = rng.choice((entry[0] if entry else None, {str(i): item for i, item in enumerate(entry)}, entry * 2))
    elif isinstance(entry, dict):
        new = rng.choice(([entry], [*entry], [*entry.values()], entry.get("kind", "x"), [[entry]]))
    else:
        new = rng.choice(([entry], {"value": entry}, {str(entry): None}, [[entry]], str(entry)))
    container[key[-1]] = copy.deepcopy(new)
    return f"{_shown(key)} = {str(new)[:60]}"


def _swap(data, rng):
    """Swap two values."""
    (key, container, entry), (other, place, value) = _pick(data, rng), _pick(data, rng)
    if key[: len(other)] == other or other[: len(key)] == key:
        return ""
    container[key[-1]], place[other[-1]] = copy.deepcopy(value), copy.deepcopy(entry)
    return f"{_shown(key)} and {_shown(other)} swapped"


def _lengthen(data, rng):
    """Make a list very long, or nest a value deeply."""
    key, container, entry = _pick(data, rng)
    if isinstance(entry, list) and entry:
        container[key[-1]] = [entry[0]] * rng.choice((0, 3, 300, 20_000))
        return f"{_shown(key)} has {len(container[key[-1]])} entries"
    for _ in range(rng.choice((3, 30))):
        entry = rng.choice(([entry], {"kind": entry}))
    container[key[-1]] = entry
    return f"{_shown(key)} nested"


CHANGES = (_replace, _replace, _replace, _write_text, _write_text, _write_text, _scale, _scale, _scale_quantity)
CHANGES += (_rename, _rename, _drop, _move, _move, _add, _wrap, _wrap, _swap, _lengthen)


def _double_line(text, rng):
    """Write a key twice."""
    lines = text.splitlines()
    index = rng.choice([index for index, line in enumerate(lines) if re.match(r"\w+: \S", line)] or [0])
    lines.insert(index, lines[index])
    return "\n".join(lines) + "\n", f"line {index + 1} twice", "a key occurs twice"


def _write_raw(text, rng):
    """Write odd YAML as the value of a key."""
    lines = text.splitlines()
    index = rng.choice([index for index, line in enumerate(lines) if re.match(r"\s*[\w.]+: \S", line)] or [0])
    value = rng.choice(RAW_VALUES)
    lines[index] = f"{lines[index].partition(': ')[0]}: {value}"
    return "\n".join(lines) + "\n", f"line {index + 1}: {lines[index]}", ""


def _damage_text(text, rng):
    """Cut the text, indent a line, or insert a character."""
    at = rng.randrange(len(text))
    inserted = rng.choice(("\t", "\x00", "\x1b", "\u2028", ":", "- ", "}", '"', "#", "\n", "  ", "\ufeff"))
    return rng.choice((text[:at], text[:at] + inserted + text[at:], text[at:])), f"damaged at {at}", ""


TEXT_CHANGES = (_double_line, _write_raw, _write_raw, _damage_text)


@cache
def _schema():
    return jsonschema.Draft7Validator(scenario_schema())


def broken_rule(scenario: Path) -> str:
    """Return the first rule of the JSON Schema that an accepted scenario breaks; empty if none."""
    data = yaml_document.parse(scenario.read_text(encoding="utf-8"), scenario.name)
    error = next(_schema().iter_errors(json.loads(json.dumps(data))), None)
    return "" if error is None else f"the schema forbids {_shown(error.absolute_path)}: {error.message[:200]}"


@cache
def _command():
    return get_command(app)


def check(path: Path, outcome: Outcome) -> None:
    """Load the scenario in *path* and check it by `netfl check`; add what they gave to *outcome*.

    The command prints the errors of a refused scenario as they are, so that it checks one in ten of these.
    """

    def stop(*_):
        raise LimitError

    _reset_peak()
    held_bytes = _peak_bytes()  # of the process before, which may have run other tests
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S, 1.0)
    start_s = time.process_time()
    output, errors = StringIO(), StringIO()
    try:
        try:
            netfl.load(path)
        except ScenarioError as error:
            outcome.faults = [(str(fault), bool(fault.where), bool(fault.remedy)) for fault in error.faults]
            outcome.exit_code = error.exit_code
            errors.write(str(error))
        with redirect_stdout(output), redirect_stderr(errors):
            try:
                if not outcome.faults or outcome.number % 10 == 0:
                    outcome.exit_code = _command().main(["check", str(path)], "netfl", standalone_mode=False) or 0
            except SystemExit as end:
                outcome.exit_code = int(end.code or 0)
        if outcome.faults and outcome.exit_code != 2:
            outcome.failure = f"load refuses it, but check ends with {outcome.exit_code}"
        elif outcome.exit_code == 1:
            outcome.failure = f"check ends with 1: {errors.getvalue()[:300]}"
        elif outcome.exit_code == 0 and not outcome.forbidden:
            outcome.forbidden = broken_rule(path)
        elif not outcome.faults and outcome.exit_code == 2:  # errors of the points, overrides and the dry run
            lines = errors.getvalue().splitlines()
            outcome.faults = [(line, line.startswith(str(path)), "; " in line) for line in lines if line.strip()]
    except LimitError:
        outcome.failure = f"took more than {LIMIT_S:g} s"
    except MemoryError:
        outcome.failure = f"took more than {LIMIT_BYTES / 2**30:g} GiB"
    except Exception:
        outcome.failure = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
    outcome.seconds = time.process_time() - start_s
    outcome.peak_bytes = _peak_bytes() - held_bytes
    if re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", output.getvalue() + errors.getvalue()):
        outcome.failure = outcome.failure or "a control character is printed"


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak_bytes() -> int:
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) << 10


def examine(numbers, seed: int = 0, batch: int = 50) -> Iterator[Outcome]:
    """Yield the outcome of each mutant of *numbers*; each batch of them has its own process.

    A mutant depends on the seed and its number alone.  A batch whose process dies is one outcome with a failure, for
    the mutant that was being checked.
    """
    files = scenario_files()
    numbers = [*numbers]
    _command(), _schema()
    for start in range(0, len(numbers), batch):
        yield from _examine_batch(numbers[start : start + batch], seed, files)


def mutant(number: int, seed: int, files: list[Path]) -> tuple[Path, Mutant]:
    """Return the mutant of a number and the file from which it is made."""
    origin = files[number % len(files)]
    return origin, mutate(plain(origin), random.Random(f"{seed}/{number}"))


def _examine_batch(numbers, seed, files):
    """Yield the outcomes of mutants that a process of their own examines."""
    numbers = [*numbers]
    while numbers:
        with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as report:
            child = os.fork()
            if not child:
                _work(numbers, seed, files, Path(report.name))
            _, status = os.waitpid(child, 0)
            outcomes = [Outcome(**json.loads(line)) for line in report]
        if status and outcomes:
            outcomes[-1].failure = outcomes[-1].failure or f"the process ended with status {status}"
        last = {outcome.number: outcome for outcome in outcomes}  # a mutant is noted before and after its check
        yield from last.values()
        numbers = [number for number in numbers if number not in last] if status and outcomes else []


def _work(numbers, seed, files, report):
    """Check mutants in this process, with limited memory, and end it."""
    status = 1
    try:
        space = Path("/proc/self/statm").read_text().split()[0]
        limit = int(space) * os.sysconf("SC_PAGE_SIZE") + LIMIT_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        os.chdir(ROOT)  # files of scenarios are named from there
        with tempfile.TemporaryDirectory() as folder, report.open("a", encoding="utf-8") as lines:
            os.environ["NETFL_DATA"] = folder  # what this machine has takes no part
            for number in numbers:
                origin, made = mutant(number, seed, files)
                outcome = Outcome(number, str(origin.relative_to(ROOT)), made.changes, made.forbidden)
                path = Path(folder) / "s.yaml"
                path.write_text(made.text, encoding="utf-8", errors="surrogatepass")
                print(json.dumps(asdict(outcome)), file=lines, flush=True)
                check(path, outcome)
                print(json.dumps(asdict(outcome)), file=lines, flush=True)
        status = 0
    finally:
        os._exit(status)
