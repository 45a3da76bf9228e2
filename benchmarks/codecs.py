"""The cost of a codec, as a part of a round of eight lanes with one delivery.

The model is the MLP 784-128-128-10 with 160 local steps.  Rounds with and without each codec take turns, so that other
load on the machine affects all of them.  Shown are the medians of the turns' processor times; a codec's cost is the
time within `netfl.learning.update_coding.UpdateCoder.code`, which other load disturbs less than the difference of two
rounds.

    OMP_NUM_THREADS=1 python benchmarks/codecs.py [--batch 128] [--turns 8]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from floors import MLP, USERS, Workload, examples
from learning import rounds, specs
from rich.console import Console
from rich.table import Table
from torch import Tensor

from netfl.learning.codec import Codec, Codecs
from netfl.learning.codec.bfloat16 import Bfloat16
from netfl.learning.codec.float16 import Float16
from netfl.learning.codec.qsgd import Qsgd
from netfl.learning.codec.rand_k import RandK
from netfl.learning.codec.sign import Sign
from netfl.learning.codec.top_k import TopK
from netfl.learning.codec.uniform import Uniform
from netfl.learning.learner import BatchedLearner, LearningTask
from netfl.learning.model.mlp import Mlp
from netfl.learning.spec import EvaluateSpec
from netfl.learning.user_data import ReplicaData
from netfl.streams import Streams

BAR = 0.1
"""The largest cost of a codec, as a part of a round without one."""
LANES = 8
CODECS: Mapping[str, Codec] = {
    "float16": Float16(),
    "bfloat16": Bfloat16(),
    "uniform, 8 bits": Uniform(bits_per_parameter=8),
    "qsgd, 4 bits, buckets of 512": Qsgd(bits_per_parameter=4, bucket=512),
    "sign": Sign(),
    "top_k, 1 %": TopK(share=0.01),
    "rand_k, 5 %": RandK(share=0.05),
}


class CodedLearner:
    """A learner whose rounds, and the coding within them, are timed.

    Args:
        workload: the model and its data.
        codec: of updates; ``None`` for none.
        learners: number of learners; the replicas make up `LANES` lanes.
    """

    def __init__(self, workload: Workload, codec: Codec | None, learners: int) -> None:
        data = examples(workload)
        split = np.split(np.arange(len(data.train_y)), USERS)
        replicas = LANES // learners
        task = LearningTask(
            learners=specs(workload, learners, 1, local_steps=workload.steps),
            model=Mlp(hidden=workload.sizes[1:-1]),
            replicas=[ReplicaData(replica, data, split, Streams(replica)) for replica in range(replicas)],
            evaluate=EvaluateSpec(every=10**9),
            rounds=10**9,
            device="cpu",
            codecs=Codecs(codec),
        )
        self.rounds_s: list[float] = []
        self.coding_s: list[float] = []
        self._learner = BatchedLearner(task)
        self._rounds = rounds(replicas, 1)
        coder = self._learner._coder
        if coder is not None:
            coder.code = partial(self._time_coding, coder.code)  # type: ignore[method-assign]

    def step(self) -> None:
        """Do a round, and note its processor time."""
        delivered = next(self._rounds)
        begin = time.process_time()
        self._learner.step(delivered)
        self.rounds_s.append(time.process_time() - begin)

    def _time_coding(self, code: Callable[..., Tensor], *arguments: object) -> Tensor:
        begin = time.process_time()
        coded = code(*arguments)
        self.coding_s.append(time.process_time() - begin)
        return coded


def measured(workload: Workload, learners: int, turns: int) -> Table:
    """Return the table of all codecs."""
    plain = CodedLearner(workload, None, learners)
    coded = {name: CodedLearner(workload, codec, learners) for name, codec in CODECS.items()}
    for _ in range(turns):
        plain.step()
        for learner in coded.values():
            learner.step()

    lanes = f"{learners} learners" if learners > 1 else f"{LANES} replicas"
    round_s = statistics.median(plain.rounds_s)
    title = f"{lanes}, {1e3 * round_s:.0f} ms a round"
    table = Table("codec", "coding", "part of a round", f"bar {BAR:.0%}", title=title)
    for name, learner in coded.items():
        coding_s = statistics.median(learner.coding_s)
        share = coding_s / round_s
        table.add_row(name, f"{1e3 * coding_s:.1f} ms", f"{share:.1%}", "met" if share <= BAR else "MISSED")
    return table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", type=int, default=MLP.batch, help="examples in a mini-batch")
    parser.add_argument("--turns", type=int, default=8, help="rounds of each side")
    options = parser.parse_args()
    torch.set_num_threads(1)
    workload = replace(MLP, batch=options.batch)
    console = Console(width=100)
    for learners in (LANES, 1):
        console.print(measured(workload, learners, options.turns))


if __name__ == "__main__":
    main()
