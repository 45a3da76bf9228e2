"""Where published data sets are to be had, which files they are, and what their sums are."""

from __future__ import annotations

from dataclasses import dataclass

from netfl.learning.data._plays import PLAYS

File = tuple[str, str]
"""A file's name below the folder of its set, and the SHA-256 of its content; the MD5, or no sum, where a set that is
downloaded by hand publishes nothing better."""


@dataclass(frozen=True, slots=True)
class Source:
    """A published set.

    Args:
        folder: its folder in the cache.
        url: where its files are to be had: what stands before their names or, if *by_hand*, a page.
        files: its files, in the order in which they are read.
        by_hand: whether a person has to download them.
        instead: files that do as well, if all of them are there.
    """

    folder: str
    url: str
    files: tuple[File, ...]
    by_hand: bool = False
    instead: tuple[File, ...] = ()


def _idx(*sums: str) -> tuple[File, ...]:
    """The four files of a set in MNIST's form."""
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple((f"{name}-ubyte.gz", sum_) for name, sum_ in zip(names, sums, strict=True))


_TORONTO = "https://www.cs.toronto.edu/~kriz/"

SOURCES = {
    "mnist": Source(
        "mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        _idx(
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "fashion_mnist": Source(
        "fashion-mnist",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        _idx(
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
    "cifar10": Source(
        "cifar-10",
        _TORONTO,
        (("cifar-10-binary.tar.gz", "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),),
        instead=(
            ("data_batch_1.bin", "0def081c410489f98b3935c2d405fc7436d23377894a5d6a710ce1fad8082588"),
            ("data_batch_2.bin", "391e29575970440c9827ff440ffa1280ff77ca6eb244d5c1faba4cff7aa00dc5"),
            ("data_batch_3.bin", "121076ec0d3c7be3f1a6e3e94430ab5bb10bdb03bdf439c59ec721c0c800071e"),
            ("data_batch_4.bin", "ff251e0cad6f90227932ee79ff8eab028f9446e0bdebab02033743cff03b5147"),
            ("data_batch_5.bin", "fac1f56413e32aeecd42ad369e7f1955716e6e67e356724576492ef12a21a825"),
            ("test_batch.bin", "3f7010f5855423b8de3f72b1ee0acb6dd69d8d7dbde577bf05bcf82ed272d6c1"),
        ),
    ),
    "cifar100": Source(
        "cifar-100",
        _TORONTO,
        (("cifar-100-binary.tar.gz", "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"),),
    ),
    "cinic10": Source(
        "cinic-10",
        "https://doi.org/10.7488/ds/2448",
        (("CINIC-10.tar.gz", "6ee4d0c996905fe93221de577967a372"),),
        by_hand=True,
    ),
    "svhn": Source(
        "svhn",
        "http://ufldl.stanford.edu/housenumbers/",
        (
            ("train_32x32.mat", "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"),
            ("test_32x32.mat", "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"),
        ),
        by_hand=True,  # its page has no https
    ),
    "adult": Source(
        "adult",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/",
        (
            ("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
            ("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
        ),
    ),
    "shakespeare": Source(
        "shakespeare",
        "https://github.com/martin-gorner/tensorflow-rnn-shakespeare/tree/master/shakespeare",
        PLAYS,
        by_hand=True,
    ),
    "vehicle": Source(
        "vehicle", "https://github.com/litian96/fair_flearn/tree/master/data/vehicle", (("vehicle.mat", ""),), True
    ),
    "sent140": Source(
        "sent140",
        "https://cs.stanford.edu/people/alecmgo/",
        (("trainingandtestdata.zip", "004a3772c8a7ff9bbfeb875880f47f0679d93fc63e5cf9cff72d54a8a6162e57"),),
    ),
}
"""The sets that come as files, by the kind of the data that reads them."""
