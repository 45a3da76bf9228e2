"""The complete models in the docstrings of network families work."""

import importlib
import inspect
import itertools
import math
import textwrap
from typing import Annotated

import networkx
import numpy as np
import pytest
from pydantic import Field

from netfl import types, units
from netfl.core.spec import Spec
from netfl.network.layout import Layout
from netfl.network.message import Packet
from netfl.streams import Streams
from netfl.testing.laws import check_laws

STREAMS = Streams(11)


def model_of(family):
    """Return the model in the docstring of a family."""
    contract = importlib.import_module(f"netfl.network.{family}")
    _, _, text = inspect.cleandoc(contract.__doc__).partition("::\n\n")
    code = "\n".join(itertools.takewhile(lambda line: not line or line.startswith(" "), text.splitlines()))
    shared = {"Annotated": Annotated, "Field": Field, "itertools": itertools, "networkx": networkx, "np": np}
    names = {**vars(types), **vars(units), **vars(contract), **shared, "__name__": "mylab"}
    exec(textwrap.dedent(code), names)
    (model,) = (
        member
        for member in names.values()
        if inspect.isclass(member) and issubclass(member, Spec) and member.__module__ == "mylab"
    )
    return model


def message(number):
    return Packet(0, 100.0, number)


def test_channel():
    model = model_of("channel")(p=0.25)
    assert check_laws(model, STREAMS.at("channel"), 100_000) == []
    gain = model.open(Layout(networkx.Graph(), np.zeros((1000, 2))), STREAMS).gain_db(np.arange(1000), 3.0)
    assert set(gain.tolist()) == {0.0, -10.0}


def test_reception():
    model = model_of("reception")(middle=5.0, rate=50e3)
    chance = model.success(np.array([-1000.0, 5.0, 5.0 + math.log(3), 1000.0]), 1e6, 100.0)
    assert chance == pytest.approx([0, 0.5, 0.75, 1])
    assert not model.can_follow_fading()
    assert model.threshold_db(1e6) == pytest.approx(5 - math.log(1e9), abs=1e-6)


def test_queue():
    buffer = model_of("queue")(capacity=2).open(1e6, STREAMS)
    dropped = [len(buffer.push(message(number), 0.0)) for number in range(3)]
    assert (dropped, len(buffer)) == ([0, 0, 1], 2)
    assert [buffer.pop(1.0).flow for _ in range(2)] == [1, 0]
    assert buffer.pop(2.0) is None


def test_routing():
    graph = networkx.Graph([("tower:0", "router:0"), ("router:0", "server"), ("router:1", "server")])
    for node in graph:
        graph.nodes[node]["role"] = node.partition(":")[0]
    table = model_of("routing")().open(Layout(graph, np.zeros((1, 2))), None, STREAMS)
    assert table.fixed
    assert table.route("tower:0", 0.0) == ("tower:0", "router:0", "server")
    assert table.hop("tower:0", message(0), 0.0) == "router:0"
    assert table.hop("elsewhere", message(0), 0.0) is None


def test_round():
    model = model_of("round")()
    assert [model.is_complete(delivered, 5) for delivered in range(5)] == [False, False, False, True, True]


def test_traffic():
    model = model_of("traffic")(every=2.0, size={"distribution": "fixed", "mean": 800.0})
    times_s = [next_[0].tolist() for next_ in itertools.islice(model.blocks(0, 1e6, STREAMS), 3)]
    assert times_s == [[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]]


def test_theory():
    assert [law.quantity for law in model_of("theory")().laws()] == ["none"]
