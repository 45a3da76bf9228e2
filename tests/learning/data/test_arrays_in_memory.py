"""Arrays from Python: checks when the scenario is loaded, and rows of tokens."""

import numpy as np
import pytest
import torch

import netfl
from netfl.errors import ScenarioError
from netfl.learning.data import Data, Dataset
from netfl.learning.data.arrays import Arrays
from netfl.streams import Streams
from netfl.types import Law

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 12)).astype(np.float32)
LABEL = np.arange(60) % 3
TOKENS = RNG.integers(20, size=(60, 12))


class Reader(torch.nn.Module):
    def __init__(self, tokens=20):
        super().__init__()
        self.embedding = torch.nn.Embedding(tokens, 4)
        self.gru = torch.nn.GRU(4, 5, batch_first=True)
        self.out = torch.nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.gru(self.embedding(x))[0][:, -1])


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NETFL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def load(data, model="logistic"):
    learner = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_epochs": 1}
    access = {"kind": "bernoulli", "probability": 0.5}
    scenario = {"name": "arrays", "users": 3, "rounds": 2, "access": access, "partition": "iid", "data": data}
    return netfl.load(scenario | {"model": model, "learners": {"FedAvg": learner}})


def test_integer_arrays_with_the_key_tokens_train_a_recurrent_module(tmp_path):
    scenario = load({"examples": (TOKENS, LABEL), "tokens": 20}, Reader())
    assert (scenario.data.tokens, scenario.data.shape, scenario.data.classes) == (20, (12,), 3)
    run = netfl.run(scenario, tmp_path / "run", device="cpu")
    assert netfl.load(run.folder / "scenario.yaml").data == scenario.data


def test_the_model_lstm_takes_arrays_of_tokens():
    assert load({"examples": (TOKENS, LABEL), "tokens": 20}, {"kind": "lstm", "hidden": 4}).update_bits > 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((X, LABEL[:-1]), "data: label is an array [59], but x has 60 examples; give each example one label, [60]"),
        ((X, LABEL, LABEL[:5]), "data: user is an array [5], but x has 60 examples; give each example one user, [60]"),
        ((X, np.eye(3)[LABEL]), "data: label is an array [60, 3]; give one label for each example; for one-hot rows"),
        ((X, LABEL.astype(str)), "data: label has the type <U21; number the labels from 0, such as by numpy.unique("),
        ((X, LABEL + 1), "data: label begins at 1; labels count from 0: subtract 1, or give the number of labels"),
        ((X, LABEL - 1), "data: label has the value -1, which is none of 0 to 1; number the labels from 0"),
        ((X, LABEL / 2), "data: label has the value 0.5, which is none of 0 to 1"),
        ({"examples": (X, LABEL), "labels": 2}, "data: label has the value 2, which is none of 0 to 1"),
        (
            (X[:, 0], LABEL),
            "data: x is an array [60] of float32; give numbers [examples, *features], such as x[:, None]",
        ),
        ((X.astype(str), LABEL), "data: x is an array [60, 12] of <U32; give numbers"),
        ((X * np.float32("nan"), LABEL), "data: x: example 0 (from 0) holds a feature that is no finite number"),
        ({"examples": (X, LABEL), "test": (X[:, 1:], LABEL)}, "data.test: x has examples of shape [11], but those for"),
        ({"examples": (TOKENS, LABEL), "tokens": 19}, "which is none of the tokens 0 to 18"),
        ({"examples": (X, LABEL), "tokens": 19}, "which is none of the tokens 0 to 18"),
        ({"examples": (TOKENS[..., None], LABEL), "tokens": 20}, "data: tokens needs rows, not features of [12, 1]"),
    ],
)
def test_arrays_that_are_no_examples_are_refused_when_the_scenario_is_loaded(data, message, cache):
    with pytest.raises(ScenarioError) as raised:
        load(data)
    assert message in str(raised.value)
    assert str(cache) not in str(raised.value)


@pytest.mark.parametrize("label", [LABEL[:, None], LABEL == 0, LABEL.astype(float), LABEL.astype(np.uint8)])
def test_labels_may_be_a_column_or_of_another_type_of_numbers(label):
    assert load((X, label)).data.classes == label.max().astype(int) + 1


def test_the_number_of_labels_may_be_larger_than_the_largest_label():
    assert load({"examples": (X, LABEL + 1), "labels": 5}).data.classes == 5


def test_a_list_of_two_pairs_is_two_examples():
    assert load({"examples": [(X[0], 0), (X[1], 1)]}).data.shape == (12,)


@pytest.mark.parametrize(
    ("x", "label", "message"),
    [
        (TOKENS + 1, LABEL, "holds 20, which is none of the tokens 0 to 19"),
        (TOKENS, np.eye(3)[LABEL], "holds labels [60, 3]"),
    ],
)
def test_files_with_other_tokens_or_one_hot_labels_are_refused(tmp_path, x, label, message):
    np.savez(tmp_path / "a.npz", x=x, label=label)
    with pytest.raises(ScenarioError) as raised:
        Arrays(file=tmp_path / "a.npz", features=(12,), labels=3, tokens=20).load(Streams(0))
    assert message in str(raised.value)


class Words(Data):
    """Rows of one word, which is also the label."""

    tokens: int = 4

    @property
    def classes(self):
        return self.tokens

    @property
    def shape(self):
        return (1,)

    def load(self, streams):
        y = np.arange(40) % self.tokens
        x = y[:, None].astype(np.float32)
        return Dataset(x, y, x, y, self.classes)

    def laws(self):
        return (Law.none("all words in turn"),)


def test_a_data_class_may_have_a_field_tokens():
    assert (Words(tokens=7).tokens, Words().tokens) == (7, 4)
    assert load(Words(tokens=5), {"kind": "lstm", "hidden": 4}).data.tokens == 5


def test_a_module_with_an_embedding_is_told_that_the_data_are_not_declared_as_tokens():
    with pytest.raises(ScenarioError, match="give their number, such as 'tokens: 20' of kind: arrays"):
        load((TOKENS, LABEL), Reader())


@pytest.mark.parametrize("rows", [10, 19])
def test_an_embedding_with_fewer_rows_than_tokens_is_refused(rows):
    with pytest.raises(ScenarioError, match=f"the data have 20 tokens, an embedding has {rows}: enlarge it"):
        load({"examples": (TOKENS, LABEL), "tokens": 20}, Reader(rows))
