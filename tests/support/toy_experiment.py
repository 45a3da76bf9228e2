"""A small experiment below a folder of its own, for tests of stored results and of campaigns."""

from dataclasses import replace

import paper
import reproduction
from reproduction import Experiment, Order, Part, Row

SCENARIO = """
name: toy
seed: 3
users: 3
rounds: 30
access: {kind: "support.slow_access:Slow", pause: 0.0}
data: {kind: blobs, centers: [[0, 0], [1, 1]], samples: 60}
partition: iid
model: logistic
learners:
  A: {objective: erm, aggregation: average, lr: 0.1, batch_size: 4, local_steps: 2}
  B: {objective: erm, aggregation: average, lr: 0.01, batch_size: 4, local_steps: 2}
evaluate: {every: 5}
record: {events: none, versions: 30}
checkpoint: {rounds: 3}
overrides:
  full: {replicas: 3}
  slow: {access.pause: 0.03}
"""
PARTS = {
    "main": Part("toy", ("full",), turn=1, core_hours=0.01),
    "other": Part("toy", ("full", "slow"), turn=1, core_hours=0.05),
}
TOY = Experiment(
    name="toy",
    title="Toy: one",
    source="Fig. 1",
    claim="It works.",
    parts=PARTS,
    rows=[Row(f"{part}: {learner}", (part,), learner, "accuracy") for part in PARTS for learner in ("A", "B")],
    orders=[Order(f"{part}: higher with A", (part,), "accuracy", "A", "B") for part in PARTS],
    paper="A paper",
)


def use(folder, set_value=setattr):
    """Make *folder* the project of the toy: its scenarios, stored results and page; return the experiment."""
    (folder / "scenarios").mkdir(parents=True, exist_ok=True)
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "scenarios/toy.yaml").write_text(SCENARIO)
    (folder / "README.md").write_text(f"{paper.page.BEGIN}{paper.page.END}\n")
    experiment = replace(TOY, parts={name: replace(part) for name, part in PARTS.items()})
    set_value(reproduction, "ROOT", folder)
    set_value(paper, "EXPERIMENTS", {"toy": experiment})
    set_value(paper.page, "PAGES", {"A paper": "toy"})
    for name, path in (("RESULTS", "results"), ("DOCS", "docs"), ("README", "README.md")):
        set_value(paper, name, folder / path)
    return experiment
