"""Scenarios from Python: mappings, text, and objects in place of models, data and topologies."""

import hashlib
import io

import networkx as nx
import numpy as np
import pytest
import torch

import netfl
from netfl.access import NetworkAccess
from netfl.errors import ScenarioError
from netfl.learning.model import Mlp
from netfl.network.channel import LogDistance, Rayleigh
from netfl.streams import Streams

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
LEARNERS = {"FedAvg": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_epochs": 1}}


@pytest.fixture(autouse=True)
def objects(tmp_path, monkeypatch):
    monkeypatch.setenv("NETFL_CACHE", str(tmp_path / "cache"))


def scenario(**changes):
    """Return a scenario as a mapping."""
    return {
        "name": "python",
        "users": 4,
        "rounds": np.int64(6),
        "access": {"kind": "stationary", "deliveries": 2, "rho": [0.25] * 4},
        "data": (X, Y),
        "partition": "iid",
        "model": Mlp(hidden=(8,)),
        "learners": LEARNERS,
    } | changes


class Pairs(torch.utils.data.Dataset):
    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return torch.from_numpy(X[index]), int(Y[index])


def test_load_accepts_mappings_text_and_scenarios():
    first = netfl.load(scenario())
    assert (first.users, first.rounds, first.model) == (4, 6, Mlp(hidden=(8,)))
    assert netfl.load(first.to_yaml()) == first
    assert netfl.load(first, {"rounds": 3}).rounds == 3
    assert netfl.load(scenario(), {"model.hidden": [5]}).model.hidden == (5,)


def test_load_accepts_models_as_objects():
    channel = [LogDistance(exponent=3, frequency="868 MHz"), Rayleigh(coherence=10)]
    access = NetworkAccess.model_validate({"topology": {"kind": "star", "radius": 100}, "channel": channel})
    assert access.channel == tuple(channel)
    assert channel[0].frequency == 868e6


@pytest.mark.parametrize("examples", [(X, Y), Pairs(), {"examples": (X, Y), "test": (X[:20], Y[:20])}])
def test_arrays_are_stored_in_a_file_named_by_content(examples):
    first, second = (netfl.load(scenario(data=examples)).data for _ in range(2))
    assert first == second
    assert first.shape == (4,)
    assert first.classes == 2
    stored = np.load(first.file)
    assert (stored["x"] == X).all()
    assert (stored["label"] == Y).all()
    assert (first.test is not None) == isinstance(examples, dict)


def test_module_is_trained_from_its_weights(tmp_path):
    module = torch.nn.Linear(4, 2)
    run = netfl.run(scenario(model=module, record={"versions": True}), tmp_path / "instance", device="cpu")
    start = run.versions("FedAvg")[0]
    assert {name: start[name].tolist() for name in start} == {
        name: part.tolist() for name, part in module.state_dict().items()
    }
    assert netfl.load(run.folder / "scenario.yaml").update_bits == 32 * 10


def test_modified_stored_module_is_refused(tmp_path):
    model = netfl.load(scenario(model=torch.nn.Linear(4, 2))).model
    (path,) = (tmp_path / "cache/objects").glob("*.pt")
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ScenarioError, match="its content has changed"):
        netfl.load(scenario(model={"kind": "module", "module": model.module}))


def test_pickle_outside_the_cache_is_refused(tmp_path):
    content = io.BytesIO()
    torch.save(torch.nn.Linear(4, 2), content)
    path = tmp_path / f"{hashlib.sha256(content.getvalue()).hexdigest()[:16]}.pt"
    path.write_bytes(content.getvalue())
    with pytest.raises(ScenarioError, match="is not the digest of a stored object"):
        netfl.load(scenario(model={"kind": "module", "module": f"stored:{path.with_suffix('')}"}))


def test_graph_becomes_a_topology():
    graph = nx.Graph(rate="10 Mbps")
    graph.add_node("core", role="server", x_m=0.0, y_m=0.0)
    graph.add_node("mast", role="tower", x_m=np.float64(500.0), y_m=0.0)
    graph.add_edge("core", "mast", delay_s=0.002)
    access = {"topology": {"graph": graph, "placement": {"kind": "disk", "radius": 100}}}
    layout = NetworkAccess.model_validate(access).topology.open(3, Streams(1))
    assert layout.graph.edges["server", "tower:mast"] == {"rate_bps": 1e7, "delay_s": 0.002}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (scenario(users=0), "users: should be greater than or equal to 1 (0)"),
        (scenario(model=7), "model: a model of model is needed"),
        (scenario(model=torch.nn.Linear), "missing 2 required positional arguments"),
        (scenario(data={"examples": [1, 2]}), "cannot be stacked"),
        ("name: text\nusers: many\n", "the text:2: users: not a whole number ('many')"),
        (7, "a scenario cannot be read from int"),
    ],
)
def test_invalid_sources_raise_scenario_errors(source, message):
    with pytest.raises(ScenarioError) as error:
        netfl.load(source)
    assert message in str(error.value)


def test_errors_of_objects_name_their_class_and_do_not_print_them():
    module = torch.nn.Sequential(torch.nn.Linear(9, 2))
    with pytest.raises(ScenarioError) as error:
        netfl.load(scenario(), {"model": module})
    assert str(error.value).startswith("overrides={'model': …}: model.module: fails on examples of shape [3, 4]: ")
    assert "('Sequential'); " in str(error.value)
    with pytest.raises(ScenarioError) as error:
        netfl.load(scenario(), {"data": X})
    assert "\n" not in str(error.value)
    with pytest.raises(ScenarioError) as error:
        netfl.load(scenario(), {"data": {"examples": (X, Y)}, "users": np.int64(0)})
    assert str(error.value).startswith("overrides={'users': 0}: users: should be")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "cnn"}, "model.channels: missing; give it a value, such as channels: [6, 16]"),
        ({"model": "perceptron"}, ", svm, or package.module:Class of your own"),
        ({"model": "lgistic"}, "; did you mean 'logistic'?"),
    ],
)
def test_remedies_give_an_example_or_mention_models_of_the_user(changes, message):
    with pytest.raises(ScenarioError) as error:
        netfl.load(scenario(**changes))
    assert str(error.value).endswith(message)


def test_a_mapping_that_contains_itself_is_a_located_error():
    inner = {}
    inner["selection"] = [inner]
    nested = 0
    for _ in range(2000):
        nested = [nested]
    with pytest.raises(ScenarioError, match=r"access\.selection\.0: contains itself; write a copy of the values"):
        netfl.load(scenario(access=inner))
    with pytest.raises(ScenarioError, match=r"contains itself"):
        netfl.load(scenario(), {"access": inner})
    with pytest.raises(ScenarioError, match=r"description\.0\.0\.0: more than 100 lists and mappings"):
        netfl.load(scenario(description=nested))
    shared = [0.25] * 4  # one list at two places is no cycle
    assert netfl.load(scenario(access={"kind": "stationary", "deliveries": 2, "rho": shared}, description=str(shared)))


def test_two_keys_that_are_the_same_text_are_an_error():
    with pytest.raises(ScenarioError, match=r"learners\.1: two keys are the same text \('1'\); leave one of them out"):
        netfl.load(scenario(learners={1: LEARNERS["FedAvg"], "1": LEARNERS["FedAvg"]}))
