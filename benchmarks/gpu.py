"""Local training on a GPU: equality with the CPU, waits of the host, and the speed for 1 to 1,000 lanes.

Three checks come first: mini-batches equal those of the CPU to the bit, versions equal them up to rounding, and rounds
run while PyTorch makes every wait of the host an error.  Then each model is recorded as a CUDA graph and compared with
a plain PyTorch loop on the same GPU; rounds of one local step show the time of aggregation; and rounds of the MLP and
of Table 1's CNN are timed.  Each result is stored in a JSON file as soon as it is there, printed as a row in Markdown,
and written into docs/speed.md by a second call.

    python benchmarks/gpu.py [--device cuda] [--precision float32] [--out benchmarks/gpu.json]
    python benchmarks/gpu.py --page                        # write the stored results into docs/speed.md
    python benchmarks/gpu.py --device cpu --quick --out runs/gpu.json    # without a GPU: a test of this program
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from learning import rounds
from models import CASES, Case, netfl_turn, plain_turn
from models import make_learner as make_lanes

from netfl.learning.aggregation import Aggregation
from netfl.learning.aggregation.afl import Afl
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.fedvarp import Fedvarp
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.aggregation.relay import Relay
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.cohort import Cohort
from netfl.learning.data import Dataset
from netfl.learning.learner import BatchedLearner, LearningTask
from netfl.learning.minibatches import BatchSampler
from netfl.learning.model import Model
from netfl.learning.model.cnn import Cnn
from netfl.learning.model.mlp import Mlp
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.erm import Erm
from netfl.learning.spec import EvaluateSpec, LearnerSpec, LocalWork
from netfl.learning.tensors import DTYPES, device_of
from netfl.learning.user_data import ReplicaData
from netfl.streams import Streams

STORED, PAGE = Path(__file__).with_suffix(".json"), Path(__file__).parent.parent / "docs/speed.md"
USERS, BATCH = 30, 128
TABLE_1_STEPS = 20 * 5 * 6000 * 20 * 16
"""Steps of all lanes of Table 1: learners, replicas, rounds, passes, and mini-batches of a pass."""
TOLERANCE = {"float64": 1e-9, "float32": 1e-2, "tf32": 3e-2, "bf16": 2e-1}
"""Largest accepted distance from the CPU's versions, relative to the change in the rounds.

Below float64 a rounding may move an input of a ReLU or of a maximum to the other side, which changes a step by about
one hundredth of its size.  Whether the GPU computes the same is decided in float64.
"""
RULES: dict[str, Aggregation] = {
    "average": Average(),
    "fedau": Fedau(),
    "scaffold": Scaffold(),
    "mifa": Mifa(),
    "fedvarp": Fedvarp(),
    "qfedavg": Qfedavg(q=1.0),
    "afl": Afl(lr_lambda=0.1),
}


@dataclass(frozen=True)
class Workload:
    """A model and its data.

    Args:
        name: name in the table.
        model: the model.
        shape: shape of an example.
        products: products in the forward pass of an example.
        steps: local steps of a round.
        samples: examples of each user.
    """

    name: str
    model: Model
    shape: tuple[int, ...]
    products: float
    steps: int
    samples: int


MLP = Workload("MLP 784-128-128-10", Mlp(hidden=(128, 128)), (784,), 118_016, 160, 2048)
CNN = Workload(
    "CNN of Table 1",
    Cnn(channels=(6, 16), kernel=5, padding=2, hidden=(120, 84), activation="leaky_relu"),
    (1, 28, 28),
    28 * 28 * 6 * 25 + 14 * 14 * 16 * 6 * 25 + 784 * 120 + 120 * 84 + 84 * 10,
    320,
    2000,
)


@dataclass(frozen=True)
class Recording:
    """Local training of a model on the GPU, beside a plain PyTorch loop on the same GPU.

    Args:
        model: name of the model.
        is_recorded: whether the steps of a round are replayed as a CUDA graph.
        distance: between the versions of the GPU and of the CPU, relative to their change.
        plain_ms: time of a step of the plain loop, which trains one model.
        direct_ms: time of a step of the first round, with one lane.
        recording_s: time of the round in which the steps are recorded.
        replayed_ms: time of a step of a replayed round, with one lane.
        lanes: number of lanes of the last measurement.
        lane_ms: time of a step of each of these lanes.
    """

    model: str
    is_recorded: bool
    distance: float
    plain_ms: float
    direct_ms: float
    recording_s: float
    replayed_ms: float
    lanes: int
    lane_ms: float


@dataclass(frozen=True)
class AggregationTime:
    """Time of a round with three deliveries and one small local step.

    Args:
        rule: name of the aggregation rule.
        lanes: number of learners in one replica.
        round_ms: median time of a round.
    """

    rule: str
    lanes: int
    round_ms: float


@dataclass(frozen=True)
class Timing:
    """Speed of one shape.

    Args:
        workload: name of the model.
        lanes: number of lanes.
        lane_steps_per_s: local steps of all lanes in a second.
        tflops: floating-point operations a second, counted as three times those of the forward pass, in 10^12.
        utilisation: share of the time with a kernel on the GPU, as the driver reports it; ``None`` if it does not.
        memory_gb: largest memory of the tensors, on a GPU.
        table_1_hours: time for all steps of Table 1, for its CNN.
    """

    workload: str
    lanes: int
    lane_steps_per_s: float
    tflops: float
    utilisation: float | None
    memory_gb: float | None
    table_1_hours: float | None


def examples(workload: Workload) -> Dataset:
    """Return random examples, as their values do not change the time."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((USERS * workload.samples, *workload.shape), dtype=np.float32)
    y = rng.integers(10, size=len(x))
    return Dataset(x, y, x[:100], y[:100], 10)


def make_learner(
    workload: Workload, specs: dict[str, LearnerSpec], replicas: int, device: str, precision: str, data: Dataset
) -> BatchedLearner:
    """Return learners in some replicas that share the data."""
    split = np.split(np.arange(len(data.train_y)), USERS)
    return BatchedLearner(
        LearningTask(
            learners=specs,
            model=workload.model,
            replicas=[ReplicaData(replica, data, split, Streams(replica)) for replica in range(replicas)],
            evaluate=EvaluateSpec(every=10**9),
            rounds=10**9,
            device=device,
            dtype=DTYPES[precision],
            products=precision if precision in {"tf32", "bf16"} else None,
        )
    )


def is_equal_in_draws(device: str) -> bool:
    """Return whether the mini-batches drawn on *device* are those of the CPU."""
    cohort = Cohort(np.array([0, 1, 1]), np.array([3, 2**31 + 1, 5]), np.array([7, 2**30, 0]), ())
    sizes, streams = np.array([2000, 317, 64]), [Streams(1), Streams(2)]
    drawn = [
        BatchSampler(streams, torch.device(where)).draw(cohort, sizes, LocalWork(BATCH, 3, None)).places
        for where in ("cpu", device)
    ]
    return bool(np.array_equal(*(torch.as_tensor(places).cpu().numpy() for places in drawn)))


def distances(workload: Workload, rules: Sequence[str], device: str, precision: str) -> dict[str, float]:
    """Return the distance between the versions of *device* and of the CPU, relative to their change, by rule.

    The CPU computes in float64 if *precision* is float64, otherwise in float32.
    """
    small = replace(workload, samples=200)
    data, found = examples(small), {}
    for name in rules:
        rule = RULES[name]
        ends = []
        for where, kind in ((device, precision), ("cpu", "float64" if precision == "float64" else "float32")):
            specs = {
                "erm": LearnerSpec(objective=Erm(), aggregation=rule, lr=0.01, batch_size=BATCH, local_steps=5),
                "cvar": LearnerSpec(
                    objective=Cvar(alpha=0.3, gamma=0.3, lr_t=1e-3), aggregation=rule, lr=0.01, batch_size=BATCH,
                    local_steps=5,
                ),
            }  # fmt: skip
            learner, drawn = make_learner(small, specs, 2, where, kind, data), rounds(2, 5)
            start = learner.version(1)
            with learner.working():
                for _ in range(4):
                    learner.step(next(drawn))
            ends.append(learner.version(1))
        found[name] = float(np.linalg.norm(ends[0] - ends[1]) / np.linalg.norm(ends[1] - start))
    return found


def wait_for(device: torch.device) -> None:
    """Wait until the GPU has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def time_turns(turn: Callable[[], object], device: torch.device, turns: int) -> float:
    """Return the median duration of *turns* turns in seconds."""
    found = []
    for _ in range(turns):
        wait_for(device)
        begin = time.perf_counter()
        turn()
        wait_for(device)
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


class _Warnings(logging.Handler):
    """Keeps the warnings of a logger."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def check_recording(case: Case, device: str, lanes: int, turns: int) -> Recording:
    """Record local training of a model, compare it with the CPU, and time it."""
    where, warnings = device_of(device), _Warnings()
    logger = logging.getLogger("netfl.learning.step_graphs")
    logger.addHandler(warnings)
    try:
        ends, times = [], []
        for place in (device, "cpu"):
            learner = make_lanes(case, 1, place)
            start, turn = learner.version(0), netfl_turn(learner)
            with learner.working():
                times += [time_turns(turn, where, 1) for _ in range(4)]
            ends.append(learner.version(0))
        distance = float(np.linalg.norm(ends[0] - ends[1]) / np.linalg.norm(ends[1] - start))
        step_ms = []
        for count in (1, lanes):
            learner = make_lanes(case, count, device)
            turn = netfl_turn(learner)
            with learner.working():
                time_turns(turn, where, 3)
                step_ms.append(1e3 * time_turns(turn, where, turns) / (count * case.steps))
    finally:
        logger.removeHandler(warnings)
    plain = plain_turn(case, 1, device)
    time_turns(plain, where, 2)
    plain_ms = 1e3 * time_turns(plain, where, turns) / case.steps
    for text in warnings.texts:
        print(f"{case.name}: {text}")
    direct_ms = 1e3 * times[0] / case.steps
    return Recording(
        case.name, not warnings.texts, distance, plain_ms, direct_ms, times[1], step_ms[0], lanes, step_ms[1]
    )


def time_aggregation(name: str, lanes: int, device: str, turns: int) -> AggregationTime:
    """Time rounds with three deliveries in which training is small."""
    small = replace(MLP, samples=64)
    spec = LearnerSpec(objective=Erm(), aggregation=RULES[name], lr=0.01, batch_size=8, local_steps=1)
    specs = {f"{lane}": spec for lane in range(lanes)}
    learner, drawn = make_learner(small, specs, 1, device, "float32", examples(small)), rounds(1, 3)
    with learner.working():
        time_turns(lambda: learner.step(next(drawn)), device_of(device), 3)
        round_s = time_turns(lambda: learner.step(next(drawn)), device_of(device), turns)
    return AggregationTime(name, lanes, 1e3 * round_s)


@contextmanager
def waits_are_errors(device: torch.device) -> Iterator[None]:
    """Make every wait of the host for a GPU an error."""
    if device.type != "cuda":
        yield
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def time_rounds(workload: Workload, lanes: int, device: str, precision: str, seconds: float, data: Dataset) -> Timing:
    """Time rounds in which one user of each lane is delivered."""
    objective = Cvar(alpha=0.3, gamma=0.3, lr_t=5e-4)
    work = {"lr": 0.01, "batch_size": BATCH, "local_steps": workload.steps}
    spec = LearnerSpec(objective=objective, aggregation=Relay(), **work)
    learner, drawn = make_learner(workload, {"cvar": spec}, lanes, device, precision, data), rounds(lanes, 1)
    where = device_of(device)
    wait: Callable[[], object] = (lambda: torch.cuda.synchronize(where)) if where.type == "cuda" else (lambda: None)
    with learner.working():
        for _ in range(3):  # the second round of a shape is recorded as a graph
            learner.step(next(drawn))
        wait()
        if where.type == "cuda":
            torch.cuda.reset_peak_memory_stats(where)
        count, begin = 0, time.perf_counter()
        with sampled_utilisation(where) as samples, waits_are_errors(where):
            while count == 0 or time.perf_counter() - begin < seconds:
                learner.step(next(drawn))
                count += 1
                if count % 4 == 0:  # the host may not run ahead without limit
                    with allowed_wait(where):
                        wait()
            with allowed_wait(where):
                wait()
        spent = time.perf_counter() - begin
    speed = count * lanes * workload.steps / spent
    return Timing(
        workload.name,
        lanes,
        speed,
        speed * 6 * BATCH * workload.products / 1e12,
        float(np.mean(samples)) / 100 if samples else None,
        torch.cuda.max_memory_allocated(where) / 1e9 if where.type == "cuda" else None,
        TABLE_1_STEPS / speed / 3600 if workload.name == CNN.name else None,
    )


@contextmanager
def allowed_wait(device: torch.device) -> Iterator[None]:
    """Allow waits of the host in the context."""
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("default")
    yield
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("error")


@contextmanager
def sampled_utilisation(device: torch.device) -> Iterator[list[int]]:
    """Sample the utilisation of a GPU in per cent; empty if the driver's Python package is missing."""
    samples: list[int] = []
    done = threading.Event()

    def sample() -> None:
        with suppress(Exception):  # the package nvidia-ml-py is optional
            while not done.wait(0.2):
                samples.append(torch.cuda.utilization(device))

    thread = threading.Thread(target=sample, daemon=True)
    if device.type == "cuda":
        thread.start()
    try:
        yield samples
    finally:
        done.set()
        if device.type == "cuda":
            thread.join()


def describe(device: torch.device) -> str:
    """Return the name of a device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "CPU"


def timing_rows(timings: Sequence[Timing]) -> list[str]:
    """Return the table of speeds in Markdown."""
    lines = [
        "| model | lanes | lane-steps a second | TFLOP/s | utilisation | memory, GB | hours for Table 1 |",
        "|---|---|---|---|---|---|---|",
    ]
    for timing in timings:
        numbers = (timing.utilisation, timing.memory_gb, timing.table_1_hours)
        texts = ["" if value is None else f"{value:.2f}" for value in numbers]
        speed = f"{timing.lane_steps_per_s:,.0f} | {timing.tflops:.3f}"
        lines.append(f"| {timing.workload} | {timing.lanes} | {speed} | {' | '.join(texts)} |")
    return lines


def recording_rows(recordings: Sequence[Recording]) -> list[str]:
    """Return the table of models in Markdown."""
    heading = [
        "| model | recorded | distance from the CPU | plain loop, ms a step | first round | replayed round | "
        "in many lanes, ms a lane-step | recording, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return heading + [
        f"| {found.model} | {'yes' if found.is_recorded else 'no'} | {found.distance:.1e} | {found.plain_ms:.2f} | "
        f"{found.direct_ms:.2f} | {found.replayed_ms:.2f} | {found.lane_ms:.3f} ({found.lanes}) | "
        f"{found.recording_s:.2f} |"
        for found in recordings
    ]


def aggregation_rows(times: Sequence[AggregationTime]) -> list[str]:
    """Return the table of aggregation in Markdown: one row for each rule, one column for each number of lanes."""
    lanes = sorted({found.lanes for found in times})
    lines = [
        f"| aggregation | {' | '.join('1 lane' if count == 1 else f'{count} lanes' for count in lanes)} |",
        "|---" * (len(lanes) + 1) + "|",
    ]
    for rule in dict.fromkeys(found.rule for found in times):
        of_rule = {found.lanes: f"{found.round_ms:.1f}" for found in times if found.rule == rule}
        lines.append(f"| `{rule}` | {' | '.join(of_rule.get(count, '') for count in lanes)} |")
    return lines


def page_text(stored: Mapping[str, Any] | None) -> str:
    """Return the generated part of `PAGE`.

    Args:
        stored: the results of `main`; ``None`` if there are none.
    """
    if stored is None:
        return "No GPU has measured this yet."
    largest = [
        f"{max(max(each.values()) for each in found.values()):.2g} in {precision}"
        for precision, found in stored["distances"].items()
    ]
    lines = [
        f"Measured on {stored['device']} with torch {stored['torch']}, in {stored['precision']}. The mini-batches "
        f"{'equal' if stored['draws_are_equal'] else 'differ from'} those of the CPU. The largest distance from the "
        f"versions of the CPU, relative to their change in four rounds, is {' and '.join(largest)}. No round made the "
        "host wait.",
        "",
        *timing_rows([Timing(**timing) for timing in stored["timings"]]),
    ]
    if stored["recordings"]:
        lines += [
            "",
            "Models beside a plain PyTorch loop on the same GPU, which trains one model. The first round launches each "
            "step; later rounds replay a graph.",
            "",
            *recording_rows([Recording(**found) for found in stored["recordings"]]),
        ]
    if stored["aggregation"]:
        lines += [
            "",
            "Rounds of the MLP with three deliveries and one local step of 8 examples, in ms; so nearly all of it is "
            "aggregation and the host's work:",
            "",
            *aggregation_rows([AggregationTime(**found) for found in stored["aggregation"]]),
        ]
    return "\n".join(lines)


def write_page(stored: Mapping[str, Any] | None, page: Path) -> None:
    """Write the results between the marks of *page*."""
    begin, end = "<!-- gpu: begin -->\n", "<!-- gpu: end -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(f"{before}{begin}\n{page_text(stored)}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, or cpu")
    parser.add_argument("--precision", default="float32", choices=["float32", "tf32", "bf16"])
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 3, 10, 30, 100, 300, 1000])
    parser.add_argument("--seconds", type=float, default=10.0, help="time of each measurement")
    parser.add_argument("--limit", type=float, default=60.0, help="leave out rows that would take longer, in seconds")
    parser.add_argument("--quick", action="store_true", help="few steps, examples and lanes")
    parser.add_argument("--out", type=Path, default=STORED, help="file of the results")
    parser.add_argument("--page", type=Path, nargs="?", const=PAGE, help="write the results of --out into this page")
    return parser.parse_args(arguments)


class Results:
    """Results in a JSON file, which is written after each of them.

    Args:
        path: the file.
        about: the device, the version of PyTorch, and the precision.
    """

    def __init__(self, path: Path, about: Mapping[str, str]) -> None:
        self._path = path
        self.values: dict[str, Any] = {**about, "distances": {}, "recordings": [], "aggregation": [], "timings": []}
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, kind: str, result: Recording | AggregationTime | Timing, row: str) -> None:
        """Keep a result, and print its *row*."""
        self.values[kind].append(asdict(result))
        print(row, flush=True)
        self.store()

    def store(self) -> None:
        """Write the file."""
        self._path.write_text(json.dumps(self.values, indent=1) + "\n", encoding="utf-8")


def is_equal_to_the_cpu(results: Results, workloads: Sequence[Workload], rules: Sequence[str], device: str) -> bool:
    """Compare mini-batches and versions with those of the CPU; return whether they are accepted."""
    values = results.values
    values["draws_are_equal"] = is_right = is_equal_in_draws(device)
    print(f"mini-batches equal those of the CPU: {'yes' if is_right else 'NO'}")
    for precision in dict.fromkeys(("float64", values["precision"])):
        found = {workload.name: distances(workload, rules, device, precision) for workload in workloads}
        values["distances"][precision] = found
        largest = max(max(each.values()) for each in found.values())
        is_close = largest <= TOLERANCE[precision]
        is_right &= is_close
        verdict = "(accepted)" if is_close else "(TOO LARGE)"
        print(f"largest distance from the CPU in {precision}: {largest:.2g} {verdict}", flush=True)
    results.store()
    return is_right


def time_workload(results: Results, workload: Workload, options: argparse.Namespace) -> None:
    """Time rounds of a model for each number of lanes."""
    data, speed = examples(workload), float("inf")
    for lanes in options.lanes:
        rounds_s = 5 * lanes * workload.steps / speed  # three rounds before the measurement, and at least one in it
        if rounds_s > options.limit:
            print(f"| {workload.name} | {lanes} | left out, longer than {options.limit:g} s |", flush=True)
            continue
        timing = time_rounds(workload, lanes, options.device, options.precision, options.seconds, data)
        speed = timing.lane_steps_per_s
        results.add("timings", timing, timing_rows([timing])[-1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks and the timings, or write the page; return 1 if a check fails."""
    options = parse(arguments)
    if options.page is not None:
        stored = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else None
        write_page(stored, options.page)
        return 0
    workloads, rules, cases, lanes, turns = [MLP, CNN], [*RULES], [*CASES], (1, 100), 7
    if options.quick:
        options.lanes, options.seconds, rules, lanes, turns = [1, 2], 0.0, ["scaffold"], (1, 2), 1
        workloads = [replace(workload, steps=4, samples=150) for workload in workloads]
        cases = [case for case in CASES if case.name == "fedau grey"]
    about = {"device": describe(device_of(options.device)), "torch": torch.__version__, "precision": options.precision}
    print(", ".join(about.values()))
    results = Results(options.out, about)
    is_right = is_equal_to_the_cpu(results, workloads, rules, options.device)
    for case in cases if options.precision == "float32" else ():
        recording = check_recording(case, options.device, 2 if options.quick else 32, turns)
        is_right &= recording.is_recorded
        results.add("recordings", recording, recording_rows([recording])[-1])
    for name in rules:
        for count in lanes:
            found = time_aggregation(name, count, options.device, turns)
            results.add("aggregation", found, f"| {name} | {count} | {found.round_ms:.1f} ms |")
    for workload in workloads:
        time_workload(results, workload, options)
    return 0 if is_right else 1


if __name__ == "__main__":
    raise SystemExit(main())
