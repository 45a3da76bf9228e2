"""A small suite of the table of rules, and rows made without a run."""

from contextlib import contextmanager

import numpy as np

from netfl.rule_table import suite
from netfl.rule_table.rows import TableRow
from netfl.rule_table.suite import rules_of
from netfl.scenario import examples

SUITE = """
name: table_tiny
seed: 1
users: 6
rounds: 8
replicas: 2
access: {kind: bernoulli, probability: 0.5}
data: {kind: blobs, centers: [[0, 0], [3, 3]], samples: 90}
partition: {kind: blocks, blocks: {rare: {users: [5], classes: [1]}}}
model: logistic
learners:
  FedAvg: &local {objective: erm, aggregation: {kind: average, weights: equal}, local_steps: 2, batch_size: 4, lr: 0.1}
  known p: {<<: *local, aggregation: known_participation}
  FedAU: {<<: *local, aggregation: {kind: fedau, cutoff: 50}}
  CVaR: {<<: *local, objective: {kind: cvar, alpha: 0.5, gamma: 0, lr_t: 0.01}}
  CVaR over FedAU:
    {<<: *local, objective: {kind: cvar, alpha: 0.5, gamma: 0, lr_t: 0.01}, aggregation: {kind: fedau, cutoff: 50}}
tuning:
  by: accuracy
  trials: 3
  replicas: 1
  per: replica
  learners: {FedAU: {aggregation.cutoff: {from: 5, to: 500}}}
evaluate: {every: 2, validation: 0.2, targets: [0.5]}
record: none
overrides:
  bernoulli: {access.kind: bernoulli}
  tdma:
    access:
      kind: network
      round: {kind: available, deadline: 30 s}
      topology: {kind: star, radius: 40 m}
      radio: {power: 10 dBm, bandwidth: 2 MHz, noise_figure: 10 dB}
      channel: [{kind: log_distance, exponent: 3, reference_distance: 1 m, frequency: 2.45 GHz}]
      reception: {kind: snr_threshold, threshold: 6 dB, rate: 250 kbps}
      mac: {kind: tdma, slot: 10 ms}
      broadcast_rate: 250 kbps
      compute: {speed: 500}
      energy: {transmit: 80 mW, receive: 60 mW, idle: 1 mW}
"""


@contextmanager
def small_suite(folder, monkeypatch):
    """Put the suite ``tiny``, below *folder*, in the place of those of netfl; yields the folder of its rows."""
    table = folder / "netfl/scenarios/table"
    table.mkdir(parents=True)
    (table / "tiny.yaml").write_text(SUITE)
    monkeypatch.setattr(examples, "__file__", str(folder / "netfl/scenario/examples.py"))
    _forget_suites()
    yield table / "rows"
    _forget_suites()


def _forget_suites():
    suite.datasets.cache_clear()
    suite._suite.cache_clear()


def rule_named(name, dataset="tiny"):
    return next(rule for rule in rules_of(dataset) if rule.name == name)


def make_row(cell, rule, values, **fields):
    """Return a row with accuracies *values*, ``[replicas]``, and the settings of the rule in the cell."""
    scenario = cell.scenario(rule)
    (learner,) = scenario.plain()["learners"].values()
    accuracies = {name: np.round(values, 5).tolist() for name in ("rare_accuracy", "accuracy", "worst")}
    return TableRow(
        learner=suite.portable(learner),
        ranges={key: dict(each) for key, each in rule.ranges.items()},
        values={**accuracies, **fields.pop("costs", {})},
        chosen={"lr": [0.1] * len(values)},
        state="tuned",
        core_s=fields.pop("core_s", 60.0),
        netfl="0.2.0",
        **fields,
    )
