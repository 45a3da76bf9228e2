"""Scenarios of the reproduced papers and of further experiments: complete, and run in a short form."""

from pathlib import Path
from types import SimpleNamespace

import drawing
import numpy as np
import pandas as pd
import paper
import pytest
from matplotlib.figure import Figure
from run_results import result_path

import netfl
from netfl.streams import Streams

ROOT = Path(__file__).parents[1]
FEDAU = [
    f"fedau_{process}_{data}" for process in ("bernoulli", "markov", "cyclic") for data in ("cifar10", "fashion_mnist")
]
NAMES = [
    *("fig2a", "fig2b", "fig2c", "fig3", "fig4", "table1", *FEDAU, "qffl_synthetic", "qffl_shakespeare"),
    *("qffl_vehicle", "qffl_sent140"),
    *("afl_adult", "afl_fashion_mnist", "divergence_iid", "divergence_one_class", "divergence_two_class"),
]
BEYOND = ["cvar_bernoulli", "cvar_markov", "cvar_cyclic", "cvar_emergent", "rivals", "alpha_rho"]
NETWORKS = ["block_assignment", "fedcs"]
"""Scenarios of ours whose results are those of the network, with learning as a sweep over its policies."""
FILES = [*(f"paper/{name}" for name in NAMES), *(f"beyond/{name}" for name in BEYOND)]
SHAPES = {"mnist": [1, 28, 28], "fashion_mnist": [1, 28, 28], "cifar10": [3, 32, 32]}
BY_HAND = {"vehicle": ([100], None), "sent140": ([25], 50)}
"""Shapes and numbers of tokens of data that this project does not have."""
REAL = {"adult": "adult", "shakespeare": "shakespeare"}


def path_of(name):
    return ROOT / f"scenarios/{name}.yaml"


@pytest.fixture(scope="module")
def fake_images(tmp_path_factory):
    """Return a function that writes learnable random images of a shape and number of labels."""
    folder, files = tmp_path_factory.mktemp("made-up"), {}

    def of(shape, labels):
        key = (*shape, labels)
        if key not in files:
            rng, label = np.random.default_rng(1), np.arange(3000) % labels
            x = (rng.random((labels, int(np.prod(shape))))[label] + rng.random((3000, int(np.prod(shape))))) / 2
            files[key] = folder / f"{'-'.join(map(str, key))}.npz"
            np.savez(files[key], x=x.reshape(-1, *shape).astype(np.float32), label=label)
        file = str(files[key])
        return {"kind": "arrays", "file": file, "features": shape, "labels": labels, "test_share": 0.1}

    return of


@pytest.fixture
def fake_users(tmp_path):
    """Return a function that writes random examples of users, as vectors or as tokens."""

    def of(kind, users):
        shape, tokens = BY_HAND[kind]
        rng, count = np.random.default_rng(2), 12 * users
        x = rng.normal(size=(count, *shape)) if tokens is None else rng.integers(0, tokens, (count, *shape))
        label, user = rng.integers(0, 2, count), np.arange(count) % users
        np.savez(tmp_path / "users.npz", x=x.astype(np.float32), label=label, user=user)
        file = str(tmp_path / "users.npz")
        data = {"kind": "arrays", "file": file, "features": shape, "labels": 2, "validation_share": 0.2}
        return data | ({} if tokens is None else {"tokens": tokens})

    return of


def test_every_scenario_belongs_to_an_experiment():
    assert sorted(NAMES) == sorted(path.stem for path in (ROOT / "scenarios/paper").iterdir())
    assert sorted([*BEYOND, *NETWORKS]) == sorted(path.stem for path in (ROOT / "scenarios/beyond").iterdir())
    run = {part.scenario for experiment_ in paper.EXPERIMENTS.values() for part in experiment_.parts.values()}
    assert run == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_scenario_has_quick_and_full_form(name):
    plain, quick, full = (netfl.load(path_of(name), named=named) for named in ((), ("quick",), ("full",)))
    assert {"quick", "full"} <= set(plain.overrides)
    assert quick != full
    assert full.rounds == plain.rounds
    has_splits = name.removeprefix("paper/") in {"qffl_synthetic", "qffl_vehicle", "qffl_sent140"}
    assert full.replicas >= 3 or has_splits  # which are separate runs
    assert quick.rounds <= plain.rounds


@pytest.mark.parametrize("name", ["fedcs", pytest.param("block_assignment", marks=pytest.mark.slow)])
def test_quick_form_of_a_network_runs(name, fake_images, tmp_path):
    plain = netfl.load(path_of(f"beyond/{name}"))
    overrides = {"rounds": 2}
    if name == "block_assignment":  # which depends on the amounts of data
        overrides |= {"data": fake_images([1, 28, 28], 10), "partition.counts": [100] * 15}
    for named in {*plain.overrides} - {"quick"} | {""}:
        scenario = netfl.load(path_of(f"beyond/{name}"), overrides, ("quick", *filter(None, [named])))
        assert netfl.trace(scenario, tmp_path / f"run_{named}", progress=False).status == "done"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"), [("block_assignment", {"partition.counts": [100] * 15}), ("fedcs", {"users": 200})]
)
def test_quick_form_of_a_network_learns(name, changes, fake_images, tmp_path):
    plain = netfl.load(path_of(f"beyond/{name}"))
    overrides = {"rounds": 2, "replicas": 1, "evaluate.every": 1, "tuning": None, "sweep": None} | changes
    overrides["data"] = fake_images([1, 28, 28], 10)
    policies = next(iter(plain.sweep.grid.values()))
    path = next(iter(plain.sweep.grid))
    for number, policy in enumerate(policies):
        scenario = netfl.load(path_of(f"beyond/{name}"), {**overrides, path: policy}, ("quick",))
        run = netfl.run(scenario, tmp_path / f"run-{number}", progress=False)
        assert run.status == "done"
        assert run.metrics["value"].notna().all()


@pytest.mark.parametrize("experiment", paper.EXPERIMENTS.values(), ids=[*paper.EXPERIMENTS])
def test_rows_and_orders_name_existing_learners(experiment):
    scenarios = {name: part.load() for name, part in experiment.parts.items()}
    learners = {name: {*each.learners, *each.evaluation.choose} for name, each in scenarios.items()}
    for row in experiment.rows:
        assert all(row.learner in learners[part] for part in row.parts), row
    for order in experiment.orders:
        assert all(order.above in learners[part] for part in order.parts), order
        assert all(order.below in learners[part] for part in order.against or order.parts), order


LONG = {"paper/table1", *(f"paper/{name}" for name in FEDAU if name.endswith("cifar10"))}
"""Scenarios whose quick form is slow; others have the same models and shapes of data."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in FILES]
)
def test_quick_form_runs(name, fake_images, fake_users, tmp_path, real_data):
    plain = netfl.load(path_of(name), named=("quick",))
    kind = plain.model_dump(mode="json")["data"]["kind"]
    overrides = {"rounds": 2, "evaluate.every": 1, "replicas": 1}
    if kind in SHAPES:
        augmentation = {} if plain.data.augment is None else {"augment": plain.data.augment.model_dump()}
        overrides["data"] = fake_images(SHAPES[kind], plain.data.classes) | augmentation
    if plain.evaluation.sets:
        overrides["evaluate.sets"] = {"raw": {"seed": 1}}
    if kind in BY_HAND:
        overrides["data"] = fake_users(kind, plain.users)
    if kind in REAL:
        real_data(REAL[kind])
    if kind == "shakespeare":
        overrides |= {"data.min_samples": 64, "data.validation_share": 0.89, "rounds": 1, "model.hidden": 8}
    netfl.run(netfl.load(path_of(name), overrides, ("quick",)), tmp_path / "run")
    run = netfl.open_run(tmp_path / "run")
    assert run.status == "done"
    assert not run.diverged
    last = run.metrics[(run.metrics["metric"] == "accuracy") & (run.metrics["group"] == "")]
    assert set(last["learner"]) == set(run.learners)
    assert last["value"].between(0, 1).all()


@pytest.mark.parametrize(("panel", "outputs"), [("fig2a", 3), ("fig2b", 4), ("fig2c", 3)])
def test_panels_of_fig_2_share_their_model(panel, outputs):
    scenario = netfl.load(path_of(f"paper/{panel}"), named=("full",))
    network = scenario.model.open((2,), outputs)
    layout = {"layers.0.weight": (64, 2), "layers.0.bias": (64,)}
    layout |= {"layers.1.weight": (outputs, 64), "layers.1.bias": (outputs,)}
    assert network.layout == layout
    start = iter(network.start(Streams(1)))
    for name, shape in layout.items():
        values = np.array([next(start) for _ in range(np.prod(shape))])
        assert (values == 0).all() if name.endswith("weight") else (values != 0).all()


@pytest.mark.parametrize("process", ["bernoulli", "markov", "cyclic"])
@pytest.mark.parametrize("block", ["full", "quick"])
def test_fedau_augments_cifar_only(process, block):
    cifar, fashion = (
        netfl.load(path_of(f"paper/fedau_{process}_{data}"), named=(block,)).data
        for data in ("cifar10", "fashion_mnist")
    )
    assert (cifar.augment.crop, cifar.augment.flip) == (4, True)
    assert fashion.augment is None


def test_fedau_guide_augments_as_the_paper():
    scenario = netfl.load(path_of("learning/cifar_fedau"), named=("paper",))
    assert scenario.data == netfl.load(path_of("paper/fedau_bernoulli_cifar10")).data
    assert scenario.rounds == 10000


@pytest.mark.parametrize(("name", "rounds"), [("afl_adult", 600), ("afl_fashion_mnist", 6000)])
def test_afl_has_published_settings(name, rounds):
    scenario = netfl.load(path_of(f"paper/{name}"), named=("full",))
    assert scenario.rounds == rounds
    for learner in scenario.learners.values():
        assert (learner.batch_size, learner.local_epochs) == ("full", 1)
    if name == "afl_adult":
        assert {learner.lr for learner in scenario.learners.values()} == {0.1}
        assert scenario.learners["AFL"].aggregation.lr_lambda == 0.1


@pytest.mark.slow
def test_afl_with_fixed_lambda_equals_equal_weights(real_data, tmp_path):
    real_data("adult")
    overrides = {"rounds": 4, "evaluate.every": 1, "replicas": 1, "record": {"versions": True}}
    run = netfl.run(netfl.load(path_of("paper/afl_adult"), overrides, ("full",)), tmp_path / "run")
    fixed, equal = run.versions("AFL, fixed λ"), run.versions("equal weights")
    for index in range(5):
        for name, value in fixed[index].items():
            np.testing.assert_allclose(value, equal[index][name], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("panel", "rounds"), [("fig2a", 1100), ("fig2c", 2500)])
def test_rare_class_is_learned_by_cvar_and_not_by_fedavg(panel, rounds, tmp_path):
    quarter = {"batch_size": 400, "lr": 0.004}  # the same distance in a quarter of the steps
    overrides = {f"learners.{name}.{key}": quarter[key] for name in ("FedAvg", "FED-CVaR-AVG") for key in quarter}
    overrides |= {"learners.FED-CVaR-AVG.objective.lr_t": 0.004, "rounds": rounds, "evaluate.every": 50}
    netfl.run(netfl.load(path_of(f"paper/{panel}"), overrides), tmp_path / "run")
    last = netfl.open_run(tmp_path / "run").summary
    assert last["FedAvg.accuracy/class:2.last_tenth"] == 0
    assert last["FED-CVaR-AVG.accuracy/class:2.last_tenth"] > 0.6  # single rounds vary, and depend on the processor
    assert last["FED-CVaR-AVG.accuracy.last_tenth"] > last["FedAvg.accuracy.last_tenth"]


@pytest.mark.slow
def test_one_class_users_diverge_more_than_iid_users(fake_images, tmp_path):
    found = {}
    for case in ("iid", "one_class"):
        overrides = {"data": fake_images(SHAPES["mnist"], 10), "replicas": 1, "rounds": 3}
        netfl.run(netfl.load(path_of(f"paper/divergence_{case}"), overrides, ("quick",)), tmp_path / case)
        found[case] = netfl.open_run(tmp_path / case).summary["FedAvg.weight_divergence.last_tenth"]
    assert found["one_class"] > 2 * found["iid"]


PAGES_BY_HAND = {"block_assignment.md", "fedcs.md"}
"""Pages of an allocation and a selection, which are no experiments of `analysis/paper.py`."""


@pytest.mark.slow
def test_pages_equal_stored_results():
    folder, results = paper.DOCS / "reproduction", paper.read_all_results()
    written = paper.page.files([*paper.EXPERIMENTS.values()], results, folder)
    stored = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.suffix != ".png"}
    assert stored.keys() - written.keys() == PAGES_BY_HAND
    assert written == {name: text for name, text in stored.items() if name not in PAGES_BY_HAND}


def test_stored_results_and_plots_belong_to_experiments():
    known = {
        result_path(experiment_, part, paper.RESULTS)
        for experiment_ in paper.EXPERIMENTS.values()
        for part in experiment_.parts
    }
    others = {
        "checkpoints",
        "cvar_map",
        "findings",
        "measured",
        "others",
        "block_assignment.csv",
        "former_verdicts.csv",
        "rural_outage.csv",
        "timeout_fresh.csv",
        "timeout_grid.csv",
    }
    assert {*paper.RESULTS.iterdir()} - {paper.RESULTS / name for name in others} <= known
    drawn = {
        paper.DOCS / "reproduction" / name
        for experiment_ in paper.EXPERIMENTS.values()
        for name in experiment_.plot_names
    }
    of_others = {paper.DOCS / "reproduction" / "blocks.png"}
    assert {*(paper.DOCS / "reproduction").glob("*.png")} - of_others <= drawn


def fake_run(part):
    """Return a fake run of *part* for plots; each metric is 0.2, 0.4 and 0.6 in three rounds."""
    scenario = part.load()
    learners = [*scenario.learners, *scenario.evaluation.choose]
    names = ["accuracy", "rare_accuracy", "accuracy_users_worst10", "accuracy_users_variance", "weight_divergence"]
    metrics = [(name, "") for name in names]
    metrics += [("accuracy@raw", group) for group in ("", "class:8", "class:9")]
    metrics += [("accuracy", f"{kind}:{number}") for kind in ("class", "user") for number in range(10)]
    rows = [
        (replica, 10 * index, float(index), learner, metric, group, 0.2 * index)
        for replica in range(2)
        for learner in learners
        for metric, group in metrics
        for index in (1, 2, 3)
    ]
    table = pd.DataFrame(rows, columns=["replica", "round", "time_s", "learner", "metric", "group", "value"])
    summary = {f"{learner}.rare_accuracy.last_tenth": 0.5 for learner in learners}
    return SimpleNamespace(metrics=table, learners=learners, summary=summary)


@pytest.mark.parametrize("name", [name for name in paper.EXPERIMENTS if name != "fig2"])
@pytest.mark.slow
def test_every_experiment_is_plotted(name, tmp_path):
    experiment = paper.EXPERIMENTS[name]
    runs = {name_: fake_run(part) for name_, part in experiment.parts.items()}
    drawn = experiment.draw_plots(runs, tmp_path)
    assert [path.name for path in drawn] == experiment.plot_names
    figure = Figure(layout="constrained")
    if experiment.draw is not None:
        shown = experiment.separate_plots[:1] or experiment.shown or [*runs]
        experiment.draw({part: runs[part] for part in shown}, figure)
        lines = [line for ax in figure.axes for line in ax.lines if len(line.get_xdata()) == 3]
        assert all(list(line.get_xdata()) == [10, 20, 30] for line in lines)
        assert all(line.get_ydata()[2] == pytest.approx(3 * line.get_ydata()[0]) for line in lines)
        assert lines or name == "alpha_rho"


def test_panels_with_shared_axis_show_all_curves():
    def metrics(value):
        rows = [("A", 0, at, "accuracy", "", value * at) for at in (0, 1)]
        return pd.DataFrame(rows, columns=["learner", "replica", "round", "metric", "group", "value"])

    panels = {"low": (metrics(0.1), "accuracy"), "high": (metrics(0.9), "accuracy")}
    axes = drawing.row(Figure(), panels, ["A"])
    for ax in axes:
        low, high = ax.get_ylim()
        assert low <= 0
        assert high >= 90
