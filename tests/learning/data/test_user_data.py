"""Data sets with users: synthetic sets, and published sets in their file formats."""

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
from netfl.learning.data._splits import held_out_sizes, split_by_user
from netfl.learning.data.adult import Adult
from netfl.learning.data.sent140 import Sent140
from netfl.learning.data.shakespeare import LETTERS, Shakespeare, read_roles
from netfl.learning.data.synthetic import Synthetic
from netfl.learning.data.vehicle import Vehicle
from netfl.streams import Streams
from netfl.types import ScenarioFacts


def all_examples(data):
    """Return x, y and user of all examples of all parts."""
    parts = (data.train_x, data.train_y, data.train_user), (data.test_x, data.test_y, data.test_user)
    parts += ((data.validation.x, data.validation.y, data.validation.user),) if data.validation is not None else ()
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


@pytest.mark.parametrize(("validation", "test"), [(0.1, 0.1), (0.0, 0.3), (0.3, 0.6)])
def test_each_user_is_split_separately(validation, test):
    counts = np.array([1, 2, 9, 10, 11, 57, 100])
    user = np.random.default_rng(0).permutation(np.repeat(np.arange(7), counts))
    parts = split_by_user(user, validation, test, np.random.default_rng(1))
    assert np.sort(np.concatenate(parts)).tolist() == list(range(counts.sum()))
    for number, count in enumerate(counts.tolist()):
        sizes = [int((user[rows] == number).sum()) for rows in parts]
        tenths = [round(10 * share) * count // 10 for share in (validation, test)]
        assert sizes == [count - sum(tenths), *tenths]
        assert sizes[0] >= 1


@pytest.mark.parametrize(("validation", "test"), [(0.1, 0.1), (0.0, 0.3), (0.3, 0.6)])
def test_a_test_share_is_rounded_up_as_in_the_code_of_qffl(validation, test):
    """The published code cuts at ``int(0.8 n)`` and ``int(0.9 n)``; here the cuts are in whole tenths."""
    counts = np.arange(2, 300)
    sizes = held_out_sizes(counts, validation, test, "up")
    first, second = 10 - round(10 * (validation + test)), 10 - round(10 * test)
    for place, count in enumerate(counts.tolist()):
        cuts = [max(first * count // 10, 1), max(second * count // 10, first * count // 10, 1)]
        assert [sizes[0][place], sizes[1][place]] == [count - cuts[1], cuts[1] - cuts[0]]
    if validation == test == 0.1:
        assert (sizes[0] == -(-counts // 10)).all()
        assert [int(0.9 * count) for count in counts.tolist()] == (counts - sizes[0]).tolist()


@pytest.mark.parametrize("rounding", ["down", "up"])
def test_a_single_example_is_for_training(rounding):
    assert [size.tolist() for size in held_out_sizes(np.array([1]), 0.3, 0.6, rounding)] == [[0], [0]]


class TestSynthetic:
    def test_test_share_is_rounded_up_on_request(self):
        down, up = (Synthetic(users=20, test_rounding=rounding).load(Streams(3)) for rounding in ("down", "up"))
        whole = np.bincount(all_examples(down)[2])
        assert (np.bincount(up.test_user) == -(-whole // 10)).all()
        assert (np.bincount(up.train_user) == 8 * whole // 10).all()
        order = [np.lexsort(all_examples(data)[0].T) for data in (down, up)]
        np.testing.assert_array_equal(
            *(all_examples(data)[0][rows] for data, rows in zip((down, up), order, strict=True))
        )

    def test_users_are_split_80_10_10(self):
        data = Synthetic().load(Streams(3))
        counts = [np.bincount(user) for user in (data.train_user, data.validation.user, data.test_user)]
        whole = np.sum(counts, axis=0)
        assert len(whole) == 100
        assert whole.min() >= 50
        assert (counts[1] == whole // 10).all()
        assert (counts[2] == whole // 10).all()
        assert (data.train_x.dtype, data.train_y.dtype, data.train_x.shape[1]) == (np.float32, np.int64, 60)

    def test_the_set_depends_on_its_seed_and_the_split_on_its_own(self):
        data, other_run, other_split, other_seed = (
            Synthetic(users=20, **settings).load(Streams(run))
            for run, settings in [(0, {}), (1, {}), (0, {"split": 1}), (0, {"seed": 1})]
        )
        assert (data.train_x == other_run.train_x).all()
        assert data.train_x.shape == other_split.train_x.shape
        assert not (data.train_x == other_split.train_x).all()
        assert (np.sort(all_examples(data)[0], axis=0) == np.sort(all_examples(other_split)[0], axis=0)).all()
        assert len(all_examples(other_seed)[0]) != len(all_examples(data)[0])

    def test_moments_equal_those_of_the_paper(self):
        """Compare v_k - B_k, x - v_k and the spread of v_k of 400 users with their distributions by z-scores."""
        data = Synthetic(users=400, alpha=0, beta=2.0, sigma=0.5).load(Streams(0))
        x, _, user = all_examples(data)
        centers = np.stack([x[user == number].mean(axis=0) for number in range(400)])
        within = np.concatenate([x[user == number] - centers[number] for number in range(400)])
        j = np.arange(1, 61)
        freedom = len(x) - 400
        z = ((within**2).sum(axis=0) / freedom / j**-1.2 - 1) / np.sqrt(2 / freedom)
        assert np.abs(z).max() < 4.5
        total = centers.mean(axis=1)  # B_k + the mean of 60 N(0, 1)
        assert abs(total.var() / (4 + 1 / 60) - 1) < 4.5 * np.sqrt(2 / 400)
        rest = (centers - total[:, None])[:, 20:].var() / (1 - 1 / 60)
        assert abs(rest - 1) < 0.05

    @pytest.mark.parametrize(("version", "same"), [("non_iid", []), ("iid", range(40)), ("hybrid", range(20))])
    def test_users_share_a_distribution_by_variant(self, version, same):
        """The shared linear model labels exactly the data of users who share the distribution."""
        synthetic = Synthetic(variant=version, users=40, sigma=0.1, seed=2)
        streams = Streams(2).at("synthetic")
        rng = streams.rng("shared")
        rng.standard_normal(2)
        weights, offsets = rng.standard_normal((60, 10)), rng.standard_normal(10)
        x, y, user = all_examples(synthetic.load(Streams(0)))
        correct = (x @ weights + offsets).argmax(axis=1) == y
        accuracy = np.array([correct[user == number].mean() for number in range(40)])
        assert (accuracy > 0.999).nonzero()[0].tolist() == list(same)
        centers = np.array([np.abs(x[user == number].mean(axis=0)).max() for number in range(40)])
        assert (centers < 0.6).nonzero()[0].tolist() == list(same)

    @pytest.mark.parametrize(("version", "sigma"), [("non_iid", 2.0), ("iid", 1.0), ("hybrid", 1.0)])
    def test_sizes_follow_the_published_generators(self, version, sigma):
        """Deciles of ⌊lognormal(4, σ)⌋ + 50 for 2000 users have z-scores below 4.5."""
        synthetic = Synthetic(variant=version, users=2000)
        sizes = synthetic.draw_sizes(Streams(0), 2000)
        assert sizes.min() >= 50
        deciles = np.quantile(sizes - 50, [0.1, 0.5, 0.9])
        expected = np.exp(4 + sigma * np.array([-1.2816, 0, 1.2816]))
        assert np.abs(np.log((deciles + 0.5) / expected)).max() < 4.5 * sigma * 1.75 / np.sqrt(2000)
        assert (sizes == Synthetic(variant=version, sigma=sigma, users=2000).draw_sizes(Streams(0), 2000)).all()

    def test_alpha_shifts_all_scores_equally(self):
        """α shifts the scores of all classes equally, so labels change only by rounding."""
        sets = [Synthetic(alpha=alpha, users=4).load(Streams(0)) for alpha in (0, 1)]
        assert (sets[0].train_x == sets[1].train_x).all()
        assert (sets[0].train_y == sets[1].train_y).mean() > 0.9  # u_k adds the same to every score, up to rounding

    @pytest.mark.parametrize(
        "settings",
        [{"version": "iid", "alpha": 1}, {"users": 0}, {"alpha": -1}, {"test_share": 0.5, "validation_share": 0.5}],
    )
    def test_invalid_settings_are_errors(self, settings):
        with pytest.raises(ScenarioError):
            Synthetic(**settings)


class TestAdult:
    @pytest.mark.slow
    def test_the_published_set(self, real_data):
        folder = real_data("adult")
        data = Adult().load(Streams(0))
        assert data.train_x.shape == (32_561, 99)
        assert (data.test_x.shape, Adult().shape, data.classes) == ((16_281, 99), (99,), 2)
        assert (data.train_y.sum(), data.test_y.sum()) == (7_841, 3_846)
        text = gzip.decompress((folder / "adult.data.gz").read_bytes()).decode()
        doctorates = len(re.findall(r", Doctorate, ", text))
        assert np.bincount(data.train_user).tolist() == [doctorates, 32_561 - doctorates] == [413, 32_148]
        fields = data.train_x.sum(axis=1)
        assert set(fields.tolist()) <= {5.0, 6.0, 7.0, 8.0}
        assert (fields < 8).sum() == 2_399
        for category in ("Tech-support", "Never-worked", "Holand-Netherlands", "Female", "Husband"):
            assert (data.train_x.sum(axis=0) == len(re.findall(rf", {category}(?=,)", text))).any()


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
    def test_roles_contain_their_text(self):
        assert len(LETTERS) == 80
        assert read_roles(PLAY) == {
            "KING": "First words, and more. Second third. Fourth.",
            "FOOL": "Mine. Hush! One. Two.",
        }
        assert read_roles("\tSONNETS\n\nFROM fairest creatures") == {}

    def test_examples_are_windows_of_letters(self, place_files):
        text = "".join(chr(97 + i % 26) for i in range(300))
        play = "\nSCENE\tHere.\n" + "".join(f"KING\t{text[i : i + 50]}\n" for i in range(0, 300, 50))
        play += "".join(f"FOOL\t{word}\n" for word in ("a", "b", "c"))
        place_files("shakespeare", {"plays/a.txt": play.encode()})
        whole = " ".join(text[i : i + 50] for i in range(0, 300, 50))
        data = Shakespeare(test_share=0.5, validation_share=0).load(Streams(0))
        count = len(whole) - 80
        assert len(data.train_y) == count - count // 2
        assert len(data.test_y) == count // 2 - 79
        for x, y, first in [(data.train_x, data.train_y, 0), (data.test_x, data.test_y, count - count // 2 + 79)]:
            for position in (0, 5, len(y) - 1):
                assert (
                    "".join(LETTERS[int(token)] for token in x[position])
                    == whole[first + position : first + position + 80]
                )
                assert LETTERS[y[position]] == whole[first + position + 80]
        assert set(data.train_user.tolist()) == {0}
        assert Shakespeare().tokens == data.classes == 80
        with pytest.raises(ScenarioError, match="1 users have at least 64 examples"):
            Shakespeare(users=2).load(Streams(0))

    @pytest.mark.slow
    def test_the_published_plays(self, real_data):
        real_data("shakespeare")
        data = Shakespeare(users=31).load(Streams(0))
        assert data.train_x.shape[1:] == (80,)
        assert len(np.bincount(data.train_user)) == 31
        assert np.bincount(data.train_user).min() >= 64 * 0.8
        gaps = data.train_x[1:, :-1] == data.train_x[:-1, 1:]
        assert gaps.all(axis=1).sum() == len(data.train_x) - 31  # the windows of each role move by one letter
        texts = [read_roles(file.data.decode("ascii")) for file in cache.read_files("shakespeare")]
        letters = sum(len(text) for play in texts for text in play.values())
        assert sum(map(len, texts)) == pytest.approx(1129, rel=0.05)  # LEAF's numbers, of another edition
        assert letters == pytest.approx(4.226e6, rel=0.05)
        assert all(role == role.upper() for play in texts for role in play)


class TestVehicle:
    def test_sensors_are_standardised_and_split(self, place_files):
        rng = np.random.default_rng(0)
        counts = [40, 10, 25]
        cells = np.empty((2, 3, 1), object)
        for sensor, count in enumerate(counts):
            x = rng.normal(sensor, 1 + sensor, (count, 100))
            x[:, 7] = 3.0
            cells[0, sensor, 0], cells[1, sensor, 0] = x, rng.choice([-1.0, 1.0], (count, 1))
        file = io.BytesIO()
        savemat(file, {"X": cells[0], "Y": cells[1]})
        place_files("vehicle", {"vehicle.mat": file.getvalue()})
        data = Vehicle(validation_share=0, test_share=0.2).load(Streams(0))
        assert np.bincount(data.train_user).tolist() == [32, 8, 20]
        assert np.bincount(data.test_user).tolist() == [8, 2, 5]
        x, y, user = all_examples(data)
        for sensor in range(3):
            examples = x[user == sensor]
            raw = cells[0, sensor, 0]
            expected = (raw - raw.mean(axis=0)) / np.where(raw.std(axis=0) > 0, raw.std(axis=0), 1)
            assert np.abs(np.sort(examples, axis=0) - np.sort(expected, axis=0)).max() < 1e-5
            assert y[user == sensor].sum() == (cells[1, sensor, 0] == 1).sum()

    def test_other_files_are_errors(self, place_files):
        file = io.BytesIO()
        savemat(file, {"X": np.zeros((3, 100)), "Y": np.zeros(3)})
        place_files("vehicle", {"vehicle.mat": file.getvalue()})
        with pytest.raises(MachineError, match="cannot be read as the cells X and Y"):
            Vehicle().load(Streams(0))


@pytest.fixture
def tweets(place_files):
    """An archive of Sentiment140 with tweets of three accounts."""
    texts_of_users = {"ann": ["Good good day!"] * 6, "bob": ["bad, day"] * 5, "cy": ["rare"] * 2}
    lines = [
        f'"{4 if name == "ann" else 0}","{number}","Mon","NO_QUERY","{name}","{text}"'
        for name, texts in texts_of_users.items()
        for number, text in enumerate(texts)
    ]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("training.1600000.processed.noemoticon.csv", "\n".join(lines).encode("latin-1"))
    place_files("sent140", {"trainingandtestdata.zip": file.getvalue()})


class TestSent140:
    def test_tweets_become_rows_of_tokens(self, tweets):
        sent140 = Sent140(min_samples=5, max_words=5, vocabulary=5, test_share=0.2, validation_share=0.2)
        data = sent140.load(Streams(0))
        assert np.bincount(data.train_user).tolist() == [4, 3]
        assert np.bincount(data.test_user).tolist() == [1, 1]
        # counts in training: good 8, day 7, ! 4, "," and bad 3 each; ties are in alphabetical order
        rows = {tuple(row) for row in data.train_x.astype(int).tolist()}
        assert rows == {(1, 1, 2, 3, 0), (0, 4, 2, 0, 0)}
        assert (data.train_y == (data.train_user == 0)).all()
        assert (sent140.tokens, sent140.shape) == (5, (5,))
        with pytest.raises(ScenarioError, match="2 users have at least 5 examples"):
            Sent140(users=3, min_samples=5).load(Streams(0))

    def test_tweets_become_means_of_vectors(self, tweets, tmp_path):
        file = tmp_path / "glove.txt"
        file.write_text("the 9 9\ngood 1 0.5\nday 4 -1\n! 0 3\n, 2 2\n", encoding="utf-8")
        sent140 = Sent140(min_samples=2, test_share=0.2, glove={"file": file, "dimensions": 2})
        x, y, user = all_examples(sent140.load(Streams(0)))
        assert (sent140.tokens, sent140.shape, x.dtype) == (None, (2,), np.float32)
        expected = {0: [(1 + 1 + 4) / 4, (0.5 + 0.5 - 1 + 3) / 4], 1: [(2 + 4) / 2, (2 - 1) / 2], 2: [0, 0]}
        assert (x == np.array([expected[number] for number in user.tolist()], np.float32)).all()
        assert (y == (user == 0)).all()

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("good 1 2 3\n", r"glove\.dimensions: line 1 of .* has 3 numbers \(2\)"),
            ("good 1\n", r"glove\.dimensions: line 1 of .* has 1 numbers"),
            ("a 1 2\ngood 1", r"glove\.dimensions: line 2 of .* has 1 numbers"),
            ("a 1 2\ngood 1 x\n", r"glove\.file: cannot be read: could not convert string to float: 'x'"),
            (b"\xff\xfe", r"glove\.file: cannot be read"),
        ],
    )
    def test_invalid_vectors_are_errors(self, tweets, tmp_path, text, problem):
        file = tmp_path / "glove.txt"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        sent140 = Sent140(min_samples=5, glove={"file": file, "dimensions": 2})
        with pytest.raises(ScenarioError, match=problem):
            sent140.load(Streams(0))

    def test_missing_vectors_are_an_error_before_the_run(self, tmp_path):
        sent140 = Sent140(glove={"file": tmp_path / "no.txt", "dimensions": 50})
        (error,) = sent140.glove.faults(ScenarioFacts(3, 1))
        assert (error.key, "glove.6B.zip" in error.remedy) == ("file", True)
        with pytest.raises(ScenarioError, match="vocabulary: has no effect with glove"):
            Sent140(vocabulary=50, glove={"file": tmp_path / "no.txt", "dimensions": 50})


def test_a_share_that_leaves_no_test_example_is_an_error():
    """Else the loss before the first round is that of no examples, and training seems to diverge."""
    with pytest.raises(ScenarioError, match=r"test_share: leaves none of \d+ examples for testing"):
        Synthetic(alpha=1, beta=1, users=20, test_share=1e-12).load(Streams(1))
