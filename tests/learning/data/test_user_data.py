"""Data whose examples belong to users: made up, and read from files in the forms in which sets are published."""

from __future__ import annotations

import gzip
import io
import re
import zipfile

import numpy as np
import pytest
from scipy.io import savemat

from netfl.errors import MachineError, ScenarioError
from netfl.learning.data import _download as cache
from netfl.learning.data._splits import split_by_user
from netfl.learning.data.adult import Adult
from netfl.learning.data.sent140 import Sent140
from netfl.learning.data.shakespeare import LETTERS, Shakespeare, read_roles
from netfl.learning.data.synthetic import Synthetic
from netfl.learning.data.vehicle import Vehicle
from netfl.streams import Streams
from netfl.types import ScenarioFacts


def joined(data):
    """All examples of all parts: x, y and user."""
    parts = (data.train_x, data.train_y, data.train_user), (data.test_x, data.test_y, data.test_user)
    parts += ((data.validation.x, data.validation.y, data.validation.user),) if data.validation is not None else ()
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


@pytest.mark.parametrize(("validation", "test"), [(0.1, 0.1), (0.0, 0.3), (0.3, 0.6)])
def test_each_user_is_split_for_itself(validation, test):
    counts = np.array([1, 2, 9, 10, 11, 57, 100])
    user = np.random.default_rng(0).permutation(np.repeat(np.arange(7), counts))
    parts = split_by_user(user, validation, test, np.random.default_rng(1))
    assert np.sort(np.concatenate(parts)).tolist() == list(range(counts.sum()))
    for who, count in enumerate(counts.tolist()):
        held = [int((user[rows] == who).sum()) for rows in parts]
        tenths = [round(10 * share) * count // 10 for share in (validation, test)]
        assert held == [count - sum(tenths), *tenths]
        assert held[0] >= 1


class TestSynthetic:
    def test_parts_are_eighty_ten_ten_of_each_user(self):
        data = Synthetic().load(Streams(3))
        counts = [np.bincount(user) for user in (data.train_user, data.validation.user, data.test_user)]
        whole = np.sum(counts, axis=0)
        assert len(whole) == 100
        assert whole.min() >= 50
        assert (counts[1] == whole // 10).all()
        assert (counts[2] == whole // 10).all()
        assert (data.train_x.dtype, data.train_y.dtype, data.train_x.shape[1]) == (np.float32, np.int64, 60)

    def test_the_set_is_fixed_and_only_the_split_differs(self):
        one, same, cut, other = (
            Synthetic(users=20, **more).load(Streams(run))
            for run, more in [(0, {}), (1, {}), (0, {"split": 1}), (0, {"seed": 1})]
        )
        assert (one.train_x == same.train_x).all()
        assert one.train_x.shape == cut.train_x.shape
        assert not (one.train_x == cut.train_x).all()
        assert (np.sort(joined(one)[0], axis=0) == np.sort(joined(cut)[0], axis=0)).all()
        assert len(joined(other)[0]) != len(joined(one)[0])

    def test_moments_are_those_of_the_paper(self):
        """Over 400 users: v_k - B_k, x - v_k, and the spread of v_k, each against its own law by a z-score."""
        data = Synthetic(users=400, alpha=0, beta=2.0, sigma=0.5).load(Streams(0))
        x, _, user = joined(data)
        middles = np.stack([x[user == who].mean(axis=0) for who in range(400)])
        within = np.concatenate([x[user == who] - middles[who] for who in range(400)])
        j = np.arange(1, 61)
        freedom = len(x) - 400
        z = ((within**2).sum(axis=0) / freedom / j**-1.2 - 1) / np.sqrt(2 / freedom)
        assert np.abs(z).max() < 4.5
        total = middles.mean(axis=1)  # B_k + the mean of 60 N(0, 1)
        assert abs(total.var() / (4 + 1 / 60) - 1) < 4.5 * np.sqrt(2 / 400)
        rest = (middles - total[:, None])[:, 20:].var() / (1 - 1 / 60)
        assert abs(rest - 1) < 0.05

    @pytest.mark.parametrize(("version", "same"), [("non_iid", []), ("iid", range(40)), ("hybrid", range(20))])
    def test_who_shares_one_distribution(self, version, same):
        """A linear model fitted to one user's data labels those of the users who share it, and no others'."""
        made = Synthetic(variant=version, users=40, sigma=0.1, seed=2)
        own = Streams(2).at("synthetic")
        rng = own.rng("shared")
        rng.standard_normal(2)
        weights, offsets = rng.standard_normal((60, 10)), rng.standard_normal(10)
        x, y, user = joined(made.load(Streams(0)))
        right = (x @ weights + offsets).argmax(axis=1) == y
        by_whom = np.array([right[user == who].mean() for who in range(40)])
        assert (by_whom > 0.999).nonzero()[0].tolist() == list(same)
        middles = np.array([np.abs(x[user == who].mean(axis=0)).max() for who in range(40)])
        assert (middles < 0.6).nonzero()[0].tolist() == list(same)

    @pytest.mark.parametrize(("version", "sigma"), [("non_iid", 2.0), ("iid", 1.0), ("hybrid", 1.0)])
    def test_sizes_are_those_of_the_published_generators(self, version, sigma):
        """⌊lognormal(4, σ)⌋ + 50 for each of 2000 users: its deciles, whose z-scores stay below 4.5."""
        made = Synthetic(variant=version, users=2000)
        sizes = made.draw_sizes(Streams(0), 2000)
        assert sizes.min() >= 50
        deciles = np.quantile(sizes - 50, [0.1, 0.5, 0.9])
        known = np.exp(4 + sigma * np.array([-1.2816, 0, 1.2816]))
        assert np.abs(np.log((deciles + 0.5) / known)).max() < 4.5 * sigma * 1.75 / np.sqrt(2000)
        assert (sizes == Synthetic(variant=version, sigma=sigma, users=2000).draw_sizes(Streams(0), 2000)).all()

    def test_models_differ_as_alpha_says(self):
        """With α = 0 and no noise in b, W the same law: labels spread over all classes; α only shifts every class."""
        u = [Synthetic(alpha=alpha, users=4).load(Streams(0)) for alpha in (0, 1)]
        assert (u[0].train_x == u[1].train_x).all()
        assert (u[0].train_y == u[1].train_y).mean() > 0.9  # u_k adds the same to every score, up to rounding

    @pytest.mark.parametrize(
        "wrong",
        [{"version": "iid", "alpha": 1}, {"users": 0}, {"alpha": -1}, {"test_share": 0.5, "validation_share": 0.5}],
    )
    def test_what_cannot_be_is_refused(self, wrong):
        with pytest.raises(ScenarioError):
            Synthetic(**wrong)


class TestAdult:
    @pytest.mark.slow
    def test_the_real_one(self, real_data):
        folder = real_data("adult")
        data = Adult().load(Streams(0))
        assert data.train_x.shape == (32_561, 99)
        assert (data.test_x.shape, Adult().shape, data.classes) == ((16_281, 99), (99,), 2)
        assert (data.train_y.sum(), data.test_y.sum()) == (7_841, 3_846)
        text = gzip.decompress((folder / "adult.data.gz").read_bytes()).decode()
        doctors = len(re.findall(r", Doctorate, ", text))
        assert np.bincount(data.train_user).tolist() == [doctors, 32_561 - doctors] == [413, 32_148]
        fields = data.train_x.sum(axis=1)
        assert set(fields.tolist()) <= {5.0, 6.0, 7.0, 8.0}
        assert (fields < 8).sum() == 2_399
        for word in ("Tech-support", "Never-worked", "Holand-Netherlands", "Female", "Husband"):
            assert (data.train_x.sum(axis=0) == len(re.findall(rf", {word}(?=,)", text))).any()


PLAY = """\tA PLAY

KING\tof somewhere.

SCENE\tSomewhere.

\tACT I

SCENE I\tA room.

\t[Enter KING and
\tFOOL]

KING\tFirst words,
\tand more.

Fool\tMine. [Aside]  Hush!

KING\tSecond|

\t[Exit
\tFool]

\tthird.


\tA PLAY

ACT II

KING\tFourth.

FOOL\tOne.

FOOL\tTwo.
"""


class TestShakespeare:
    def test_roles_say_what_stands_there(self):
        assert len(LETTERS) == 80
        assert read_roles(PLAY) == {
            "KING": "First words, and more. Second third. Fourth.",
            "FOOL": "Mine. Hush! One. Two.",
        }
        assert read_roles("\tSONNETS\n\nFROM fairest creatures") == {}

    def test_examples_are_the_letters_before_and_the_next(self, placed):
        text = "".join(chr(97 + i % 26) for i in range(300))
        play = "\nSCENE\tHere.\n" + "".join(f"KING\t{text[i : i + 50]}\n" for i in range(0, 300, 50))
        play += "".join(f"FOOL\t{word}\n" for word in ("a", "b", "c"))
        placed("shakespeare", {"plays/a.txt": play.encode()})
        whole = " ".join(text[i : i + 50] for i in range(0, 300, 50))
        data = Shakespeare(test_share=0.5, validation_share=0).load(Streams(0))
        count = len(whole) - 80
        assert len(data.train_y) == count - count // 2
        assert len(data.test_y) == count // 2 - 79
        for x, y, first in [(data.train_x, data.train_y, 0), (data.test_x, data.test_y, count - count // 2 + 79)]:
            for at in (0, 5, len(y) - 1):
                assert "".join(LETTERS[int(token)] for token in x[at]) == whole[first + at : first + at + 80]
                assert LETTERS[y[at]] == whole[first + at + 80]
        assert set(data.train_user.tolist()) == {0}
        assert Shakespeare().tokens == data.classes == 80
        with pytest.raises(ScenarioError, match="1 users have at least 64 examples"):
            Shakespeare(users=2).load(Streams(0))

    @pytest.mark.slow
    def test_the_real_plays(self, real_data):
        real_data("shakespeare")
        data = Shakespeare(users=31).load(Streams(0))
        assert data.train_x.shape[1:] == (80,)
        assert len(np.bincount(data.train_user)) == 31
        assert np.bincount(data.train_user).min() >= 64 * 0.8
        gaps = data.train_x[1:, :-1] == data.train_x[:-1, 1:]
        assert gaps.all(axis=1).sum() == len(data.train_x) - 31  # one text for each role, moved on by one letter
        texts = [read_roles(file.data.decode("ascii")) for file in cache.read_files("shakespeare")]
        letters = sum(len(text) for play in texts for text in play.values())
        assert sum(map(len, texts)) == pytest.approx(1129, rel=0.05)  # LEAF's figures, of another edition
        assert letters == pytest.approx(4.226e6, rel=0.05)
        assert all(role == role.upper() for play in texts for role in play)


class TestVehicle:
    def test_sensors_are_standardised_and_split(self, placed):
        rng = np.random.default_rng(0)
        counts = [40, 10, 25]
        cells = np.empty((2, 3, 1), object)
        for at, count in enumerate(counts):
            x = rng.normal(at, 1 + at, (count, 100))
            x[:, 7] = 3.0
            cells[0, at, 0], cells[1, at, 0] = x, rng.choice([-1.0, 1.0], (count, 1))
        into = io.BytesIO()
        savemat(into, {"X": cells[0], "Y": cells[1]})
        placed("vehicle", {"vehicle.mat": into.getvalue()})
        data = Vehicle(validation_share=0, test_share=0.2).load(Streams(0))
        assert np.bincount(data.train_user).tolist() == [32, 8, 20]
        assert np.bincount(data.test_user).tolist() == [8, 2, 5]
        x, y, user = joined(data)
        for at in range(3):
            own = x[user == at]
            raw = cells[0, at, 0]
            expected = (raw - raw.mean(axis=0)) / np.where(raw.std(axis=0) > 0, raw.std(axis=0), 1)
            assert np.abs(np.sort(own, axis=0) - np.sort(expected, axis=0)).max() < 1e-5
            assert y[user == at].sum() == (cells[1, at, 0] == 1).sum()

    def test_other_files_are_refused(self, placed):
        into = io.BytesIO()
        savemat(into, {"X": np.zeros((3, 100)), "Y": np.zeros(3)})
        placed("vehicle", {"vehicle.mat": into.getvalue()})
        with pytest.raises(MachineError, match="cannot be read as the cells X and Y"):
            Vehicle().load(Streams(0))


@pytest.fixture
def tweets(placed):
    """Sentiment140's archive with the tweets of three accounts."""
    said = {"ann": ["Good good day!"] * 6, "bob": ["bad, day"] * 5, "cy": ["rare"] * 2}
    lines = [
        f'"{4 if who == "ann" else 0}","{at}","Mon","NO_QUERY","{who}","{text}"'
        for who, texts in said.items()
        for at, text in enumerate(texts)
    ]
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        archive.writestr("training.1600000.processed.noemoticon.csv", "\n".join(lines).encode("latin-1"))
    placed("sent140", {"trainingandtestdata.zip": into.getvalue()})


class TestSent140:
    def test_tweets_become_rows_of_tokens(self, tweets):
        made = Sent140(min_samples=5, max_words=5, vocabulary=5, test_share=0.2, validation_share=0.2)
        data = made.load(Streams(0))
        assert np.bincount(data.train_user).tolist() == [4, 3]
        assert np.bincount(data.test_user).tolist() == [1, 1]
        # in training: good 8, day 7, ! 4, and "," and bad 3 each, of which the alphabet puts "," first
        rows = {tuple(row) for row in data.train_x.astype(int).tolist()}
        assert rows == {(1, 1, 2, 3, 0), (0, 4, 2, 0, 0)}
        assert (data.train_y == (data.train_user == 0)).all()
        assert (made.tokens, made.shape) == (5, (5,))
        with pytest.raises(ScenarioError, match="2 users have at least 5 examples"):
            Sent140(users=3, min_samples=5).load(Streams(0))

    def test_tweets_become_means_of_vectors(self, tweets, tmp_path):
        file = tmp_path / "glove.txt"
        file.write_text("the 9 9\ngood 1 0.5\nday 4 -1\n! 0 3\n, 2 2\n", encoding="utf-8")
        made = Sent140(min_samples=2, test_share=0.2, glove={"file": file, "dimensions": 2})
        x, y, user = joined(made.load(Streams(0)))
        assert (made.tokens, made.shape, x.dtype) == (None, (2,), np.float32)
        known = {0: [(1 + 1 + 4) / 4, (0.5 + 0.5 - 1 + 3) / 4], 1: [(2 + 4) / 2, (2 - 1) / 2], 2: [0, 0]}
        assert (x == np.array([known[one] for one in user.tolist()], np.float32)).all()
        assert (y == (user == 0)).all()

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("good 1 2 3\n", r"glove\.dimensions: line 1 of .* has 3 numbers \(2\)"),
            ("good 1\n", r"glove\.dimensions: line 1 of .* has 1 numbers"),
            ("a 1 2\ngood 1", r"glove\.dimensions: line 2 of .* has 1 numbers"),
            ("a 1 2\ngood 1 x\n", r"glove\.file: cannot be read: could not convert string to float: 'x'"),
            (b"\xff\xfe", r"glove\.file: cannot be read"),
        ],
    )
    def test_other_vectors_are_refused(self, tweets, tmp_path, text, said):
        file = tmp_path / "glove.txt"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        made = Sent140(min_samples=5, glove={"file": file, "dimensions": 2})
        with pytest.raises(ScenarioError, match=said):
            made.load(Streams(0))

    def test_missing_vectors_are_a_fault_before_the_run(self, tmp_path):
        made = Sent140(glove={"file": tmp_path / "no.txt", "dimensions": 50})
        (fault,) = made.glove.faults(ScenarioFacts(3, 1))
        assert (fault.key, "glove.6B.zip" in fault.remedy) == ("file", True)
        with pytest.raises(ScenarioError, match="vocabulary: has no effect with glove"):
            Sent140(vocabulary=50, glove={"file": tmp_path / "no.txt", "dimensions": 50})
