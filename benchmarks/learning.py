"""The cost of local training, compared with a plain PyTorch loop and with the bare arithmetic.

netfl does all the work of a run between two evaluations: it draws shuffles, looks up bases, gathers mini-batches,
trains, aggregates and makes the next version.  The sides take turns many times and medians are compared, so that other
load on the machine affects all of them.  With one thread, processor time is measured.  `whole_run.py` measures a run
from its scenario to its tables.

    python benchmarks/learning.py [--threads 1] [--turns 30] [--steps 10] [--only WORD] [--minima]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from floors import FIG2, LOGISTIC, LR, MLP, USERS, Turn, Workload, examples, floor, plain

from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.relay import Relay
from netfl.learning.learner import BatchedLearner, LearningTask
from netfl.learning.model.logistic import Logistic
from netfl.learning.model.mlp import Mlp
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.erm import Erm
from netfl.learning.spec import EvaluateSpec, LearnerSpec
from netfl.learning.user_data import ReplicaData
from netfl.streams import Streams
from netfl.types import Delivery, Round

SHORT = 10
"""Steps of a round with a bar of its own."""
UNEVEN = tuple(int(2000 * rank**-0.8) for rank in range(1, USERS + 1))


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Args:
        workload: the model and its data.
        learners: number of learners.
        replicas: number of replicas.
        delivered: deliveries in a round of a replica.
        floor: whether the bar is a multiple of the floor, otherwise of the plain loop.
        bar: the largest cost of a step of a lane, as such a multiple; 0 for no bar.
        short_bar: the same for rounds of ten steps.
    """

    workload: Workload
    learners: int
    replicas: int
    delivered: int = 1
    floor: bool = True
    bar: float = 0.0
    short_bar: float = 0.0


ROWS = (
    Row(MLP, 1, 1, bar=1.05, short_bar=1.1),
    Row(MLP, 1, 8, bar=1.04, short_bar=1.06),
    Row(MLP, 2, 4, bar=1.04, short_bar=1.06),
    Row(MLP, 8, 1, bar=1.04, short_bar=1.06),
    Row(MLP, 1, 1, delivered=10, bar=1.05, short_bar=1.1),
    Row(FIG2, 1, 1, floor=False),
    Row(FIG2, 1, 32, floor=False, bar=1 / 7),
    Row(FIG2, 2, 16, floor=False, bar=1 / 7),
    Row(FIG2, 32, 1, floor=False, bar=1 / 7),
    Row(FIG2, 1, 100, floor=False),
    Row(LOGISTIC, 1, 1, floor=False),
    Row(LOGISTIC, 1, 32, floor=False, bar=0.1),
    Row(LOGISTIC, 2, 16, floor=False, bar=0.1),
    Row(LOGISTIC, 32, 1, floor=False, bar=0.1),
    Row(LOGISTIC, 1, 100, floor=False),
    Row(LOGISTIC, 1, 1, delivered=10, floor=False),
)


def specs(workload: Workload, learners: int, delivered: int, **amount: int) -> dict[str, LearnerSpec]:
    """Return the learners; every second one has the CVaR objective."""
    objectives = [Cvar(alpha=0.1, gamma=0.1, lr_t=LR) if i % 2 else Erm() for i in range(learners)]
    aggregation = Relay() if delivered == 1 else Average()
    options_: dict[str, Any] = {"lr": LR, "batch_size": workload.batch, "aggregation": aggregation, **amount}
    return {f"learner {i}": LearnerSpec(objective=objective, **options_) for i, objective in enumerate(objectives)}


def make_learner(
    workload: Workload, specs_: dict[str, LearnerSpec], replicas: int, sizes: Sequence[int]
) -> BatchedLearner:
    """Return the learner of users with given numbers of examples."""
    data, (*hidden, _) = examples(workload, sum(sizes)), workload.sizes[1:]
    model = Mlp(hidden=tuple(hidden), output="softmax" if workload.softmax else "logits") if hidden else Logistic()
    split = np.split(np.arange(len(data.train_y)), np.cumsum(sizes)[:-1])
    return BatchedLearner(
        LearningTask(
            learners=specs_,
            model=model,
            replicas=[ReplicaData(replica, data, split, Streams(replica)) for replica in range(replicas)],
            evaluate=EvaluateSpec(every=10**9),
            rounds=10**9,
            device="cpu",
        )
    )


def ours(row: Row) -> Turn:
    """Return a turn of netfl: one round of all lanes."""
    learner = make_learner(
        row.workload,
        specs(row.workload, row.learners, row.delivered, local_steps=row.workload.steps),
        row.replicas,
        [row.workload.samples] * USERS,
    )
    delivered = rounds(row.replicas, row.delivered)

    working = learner.working if torch.get_num_threads() > 1 else nullcontext

    def turn() -> int:
        with working():
            learner.step(next(delivered))
        return row.workload.steps * row.learners * row.replicas * row.delivered

    return turn


def rounds(replicas: int, delivered: int) -> Iterator[list[Round]]:
    """Yield rounds of random users that all start from the newest version."""
    rng, index = np.random.default_rng(1), 0
    drawn = rng.permuted(np.tile(np.arange(USERS), (64, replicas, 1)), axis=2)[..., :delivered].tolist()
    while True:
        index += 1
        deliveries_ = (
            tuple(Delivery(user=user, base=index - 1, sent_s=0.0, arrived_s=1.0) for user in users)
            for users in drawn[index % len(drawn)]
        )
        yield [
            Round(index=index, opened_s=0.0, closed_s=1.0, deliveries=deliveries, oldest=index - 1)
            for deliveries in deliveries_
        ]


def uneven() -> tuple[Turn, Turn]:
    """Return turns of epochs of users with unequal sizes: all in one round, and one round each."""
    learners = [make_learner(MLP, specs(MLP, 1, delivered, local_epochs=1), 1, UNEVEN) for delivered in (2, 1)]
    steps, index = sum(-(-size // MLP.batch) for size in UNEVEN), [0, 0]

    def a_round(side: int, users: Sequence[int]) -> None:
        base, index[side] = index[side], index[side] + 1
        delivered = tuple(Delivery(user=user, base=base, sent_s=0.0, arrived_s=1.0) for user in users)
        learners[side].step([Round(index=base + 1, opened_s=0.0, closed_s=1.0, deliveries=delivered, oldest=base)])

    def together() -> int:
        a_round(0, range(USERS))
        return steps

    def alone() -> int:
        for user in range(USERS):
            a_round(1, [user])
        return steps

    return together, alone


def clock() -> float:
    """Return processor time with one thread, otherwise wall-clock time, in seconds."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def seconds(turn: Turn, at_least: float = 0.05) -> float:
    """Return the time per local step of a lane, measured over several turns."""
    steps, begin = 0, clock()
    while (spent := clock() - begin) < at_least:
        steps += turn()
    return spent / steps


def medians(
    sides: Sequence[Turn], turns: int, select: Callable[[Sequence[float]], float] = statistics.median
) -> list[float]:
    """Return the median time per local step in microseconds, or what *select* returns; the sides take turns."""
    for side in sides:
        seconds(side, 0.1)
    timings = [[seconds(side) for side in sides] for _ in range(turns)]
    return [1e6 * select(timings_) for timings_ in zip(*timings, strict=True)]


def verdict(ratio: float, bar: float) -> str:
    """Return whether the bar is met, as text."""
    return f"{bar:.3f} {'met' if ratio <= bar else 'MISSED'}" if bar else ""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="torch's threads, on all sides")
    parser.add_argument("--turns", type=int, default=30, help="number of turns of each side")
    parser.add_argument(
        "--steps", type=int, default=0, help="local steps of a user in a round, instead of those of the papers"
    )
    parser.add_argument("--only", default="", help="only rows with this word in their name")
    parser.add_argument("--minima", action="store_true", help="compare minima, on a machine with other load")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    select, name = (min, "minima") if options.minima else (statistics.median, "medians")
    print(f"torch {torch.__version__}, {options.threads} thread(s); {name} of {options.turns} turns; us a lane's step")
    print(
        f"{'model':30} {'learners x replicas x delivered':31} {'plain':>7} {'floor':>7} {'netfl':>7} /plain /floor  bar"
    )
    selected = (row for row in ROWS if options.only in row.workload.name)
    for row in (
        replace(row, workload=replace(row.workload, steps=options.steps or row.workload.steps)) for row in selected
    ):
        shared, lanes = row.replicas * row.delivered == 1, row.learners * row.replicas * row.delivered
        sides = [plain(row.workload), floor(row.workload, lanes, shared), ours(row)]
        loop, bare, netfl_us = medians(sides, options.turns, select)
        shape = f"{row.learners} x {row.replicas} x {row.delivered}"
        bar = row.short_bar if row.floor and row.workload.steps == SHORT else row.bar
        outcome = verdict(netfl_us / (bare if row.floor else loop), bar)
        figures = f"{loop:7.1f} {bare:7.1f} {netfl_us:7.1f} {netfl_us / loop:6.3f} {netfl_us / bare:6.3f}"
        print(f"{row.workload.name:30} {shape:31} {figures}  {outcome}", flush=True)
    if options.only in "uneven":
        together, alone = medians(uneven(), options.turns)
        print(
            f"uneven: {', '.join(map(str, UNEVEN))} examples, together {together:.1f}, one by one {alone:.1f}: ", end=""
        )
        print(f"{together / alone:.3f}", flush=True)


if __name__ == "__main__":
    main()
