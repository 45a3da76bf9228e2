"""How many examples a set has is known, roughly, before it is read."""

import pytest

from netfl.learning.data.adult import Adult
from netfl.learning.data.blobs import Blobs
from netfl.learning.data.cifar10 import Cifar10
from netfl.learning.data.cifar100 import Cifar100
from netfl.learning.data.cinic10 import Cinic10
from netfl.learning.data.digits import Digits
from netfl.learning.data.fashion_mnist import FashionMnist
from netfl.learning.data.mnist import Mnist
from netfl.learning.data.sent140 import Sent140
from netfl.learning.data.shakespeare import Shakespeare
from netfl.learning.data.synthetic import Synthetic
from netfl.learning.data.vehicle import Vehicle
from netfl.streams import Streams

MADE_UP = [
    Blobs(centers=[[0, 0], [3, 3], [6, 0]], samples=500, test_share=0.3),
    Digits(test_share=0.3),
    Synthetic(version="iid", users=2000, validation_share=0.2),
]
READ = {
    "mnist": Mnist(),
    "mnist, two digits": Mnist(only=[3, 8]),
    "fashion_mnist": FashionMnist(),
    "cifar10": Cifar10(),
    "adult": Adult(),
    "shakespeare": Shakespeare(),
    "shakespeare, some": Shakespeare(users=300),
}
PUBLISHED = {
    Cifar100(coarse=True): (50_000, 10_000),
    Cinic10(): (90_000, 90_000),
    Cinic10(with_validation=True): (180_000, 90_000),
    Vehicle(test_share=0.2, validation_share=0.1): (43_695 * 0.7, 43_695 * 0.2),
}


@pytest.mark.parametrize("model", MADE_UP, ids=lambda model: type(model).__name__)
def test_of_those_that_are_made_up(model):
    there = model.load(Streams(0))
    assert model.counts == pytest.approx((len(there.train_y), len(there.test_y)), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
def test_of_those_that_are_read(real_data, name):
    real_data(name.partition(",")[0])
    there = READ[name].load(Streams(0))
    assert READ[name].counts == pytest.approx((len(there.train_y), len(there.test_y)), rel=0.2)


@pytest.mark.parametrize(("model", "counts"), PUBLISHED.items(), ids=lambda one: type(one).__name__)
def test_of_those_that_are_published(model, counts):
    assert model.counts == pytest.approx(counts)


def test_where_it_takes_reading_them_nothing_is_told():
    assert Sent140().counts is None
