"""What local training costs, beside a plain PyTorch loop and beside the same arithmetic with nothing around it.

netfl's side does all that a run does between two evaluations: it draws shuffles, looks up bases, gathers mini-batches,
trains, aggregates and makes the next version.  The sides take turns, many times, and medians are compared, so that
another load on the machine meets all of them; with one thread it is the processor's time that counts, which leaves out
what others get of it.  `whole_run.py` measures a run from its scenario to its tables.

    python benchmarks/learning.py [--threads 1] [--turns 30] [--steps 10] [--only WORD]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from floors import FIG2, LOGISTIC, LR, MLP, USERS, Turn, World, examples, floor, plain

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

UNEVEN = tuple(int(2000 * rank**-0.8) for rank in range(1, USERS + 1))


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Args:
        world: what is trained.
        learners: how many of them.
        replicas: how many of them.
        heard: users in a round of a replica.
        floor: whether the bar is a multiple of the floor; of a plain loop otherwise.
        bar: the most that a lane's step may cost, as such a multiple; 0 for no bar.
    """

    world: World
    learners: int
    replicas: int
    heard: int = 1
    floor: bool = True
    bar: float = 0.0


ROWS = (
    Row(MLP, 1, 1, bar=1.08),
    Row(MLP, 1, 8, bar=1.05),
    Row(MLP, 2, 4, bar=1.05),
    Row(MLP, 8, 1, bar=1.05),
    Row(MLP, 1, 1, heard=10, bar=1.08),
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
    Row(LOGISTIC, 1, 1, heard=10, floor=False),
)


def specs(world: World, learners: int, heard: int, **amount: int) -> dict[str, LearnerSpec]:
    """Learners, every second of them with the CVaR for its objective."""
    objectives = [Cvar(alpha=0.1, gamma=0.1, lr_t=LR) if i % 2 else Erm() for i in range(learners)]
    aggregation = Relay() if heard == 1 else Average()
    how: dict[str, Any] = {"lr": LR, "batch_size": world.batch, "aggregation": aggregation, **amount}
    return {f"learner {i}": LearnerSpec(objective=one, **how) for i, one in enumerate(objectives)}


def school(world: World, told: dict[str, LearnerSpec], replicas: int, sizes: Sequence[int]) -> BatchedLearner:
    """What trains users that hold so many examples."""
    data, (*hidden, _) = examples(world, sum(sizes)), world.sizes[1:]
    model = Mlp(hidden=tuple(hidden), output="softmax" if world.softmax else "logits") if hidden else Logistic()
    split = np.split(np.arange(len(data.train_y)), np.cumsum(sizes)[:-1])
    return BatchedLearner(
        LearningTask(
            learners=told,
            model=model,
            replicas=[ReplicaData(replica, data, split, Streams(replica)) for replica in range(replicas)],
            evaluate=EvaluateSpec(every=10**9),
            rounds=10**9,
            device="cpu",
        )
    )


def ours(row: Row) -> Turn:
    """One round of all lanes."""
    learner = school(
        row.world,
        specs(row.world, row.learners, row.heard, local_steps=row.world.steps),
        row.replicas,
        [row.world.held] * USERS,
    )
    heard = rounds(row.replicas, row.heard)

    working = learner.working if torch.get_num_threads() > 1 else nullcontext

    def turn() -> int:
        with working():
            learner.step(next(heard))
        return row.world.steps * row.learners * row.replicas * row.heard

    return turn


def rounds(replicas: int, heard: int) -> Iterator[list[Round]]:
    """Rounds of some users, drawn at random, who all start from the newest version."""
    rng, index = np.random.default_rng(1), 0
    drawn = rng.permuted(np.tile(np.arange(USERS), (64, replicas, 1)), axis=2)[..., :heard].tolist()
    while True:
        index += 1
        own = (tuple(Delivery(user, index - 1, 0.0, 1.0) for user in users) for users in drawn[index % len(drawn)])
        yield [Round(index, 0.0, 1.0, deliveries, index - 1) for deliveries in own]


def uneven() -> tuple[Turn, Turn]:
    """A round of users with sizes that follow a power law, and each of them in a round of its own; in epochs."""
    learners = [school(MLP, specs(MLP, 1, heard, local_epochs=1), 1, UNEVEN) for heard in (2, 1)]
    steps, index = sum(-(-size // MLP.batch) for size in UNEVEN), [0, 0]

    def a_round(side: int, users: Sequence[int]) -> None:
        base, index[side] = index[side], index[side] + 1
        heard = tuple(Delivery(user, base, 0.0, 1.0) for user in users)
        learners[side].step([Round(base + 1, 0.0, 1.0, heard, base)])

    def together() -> int:
        a_round(0, range(USERS))
        return steps

    def alone() -> int:
        for user in range(USERS):
            a_round(1, [user])
        return steps

    return together, alone


def clock() -> float:
    """Seconds: of the processor where one thread works, on the wall otherwise."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def seconds(turn: Turn, at_least: float = 0.05) -> float:
    """Time per local step of a lane, over enough turns to measure."""
    steps, begin = 0, clock()
    while (spent := clock() - begin) < at_least:
        steps += turn()
    return spent / steps


def medians(sides: Sequence[Turn], turns: int) -> list[float]:
    """Of the time per local step, in microseconds, each side's turn after the other's."""
    for side in sides:
        seconds(side, 0.1)
    found = [[seconds(side) for side in sides] for _ in range(turns)]
    return [1e6 * statistics.median(own) for own in zip(*found, strict=True)]


def verdict(ratio: float, bar: float) -> str:
    """What is to be said of a bar."""
    return f"{bar:.3f} {'met' if ratio <= bar else 'MISSED'}" if bar else ""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="torch's threads, on all sides")
    parser.add_argument("--turns", type=int, default=30, help="how often the sides take turns")
    parser.add_argument(
        "--steps", type=int, default=0, help="local steps of a user in a round, in place of the papers'"
    )
    parser.add_argument("--only", default="", help="only rows with this word in their name")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {options.threads} thread(s); medians of {options.turns} turns; us a lane's step")
    print(f"{'model':30} {'learners x replicas x heard':27} {'plain':>7} {'floor':>7} {'netfl':>7} /plain /floor  bar")
    chosen = (row for row in ROWS if options.only in row.world.name)
    for row in (replace(row, world=replace(row.world, steps=options.steps or row.world.steps)) for row in chosen):
        shared, lanes = row.replicas * row.heard == 1, row.learners * row.replicas * row.heard
        sides = [plain(row.world), floor(row.world, lanes, shared), ours(row)]
        loop, least, own = medians(sides, options.turns)
        shape = f"{row.learners} x {row.replicas} x {row.heard}"
        said = verdict(own / (least if row.floor else loop), row.bar)
        figures = f"{loop:7.1f} {least:7.1f} {own:7.1f} {own / loop:6.3f} {own / least:6.3f}"
        print(f"{row.world.name:30} {shape:27} {figures}  {said}", flush=True)
    if options.only in "uneven":
        together, alone = medians(uneven(), options.turns)
        print(
            f"uneven: {', '.join(map(str, UNEVEN))} examples, together {together:.1f}, one by one {alone:.1f}: ", end=""
        )
        print(f"{together / alone:.3f}", flush=True)


if __name__ == "__main__":
    main()
