"""Reader of the JSON files of LEAF, and the base of data in that form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.core.plugins import one_line
from netfl.errors import Fault, ScenarioError
from netfl.files import open_file
from netfl.files.arrays import as_single, nested_numbers
from netfl.files.json_documents import parse_json
from netfl.learning.data import Dataset
from netfl.learning.data._splits import choose_users
from netfl.learning.data._user_files import FileColumns, UserExamples, raise_fault
from netfl.streams import Streams
from netfl.types import ScenarioFacts

_Examples = tuple[NDArray[np.float32], NDArray[Any]]
"""Features and labels of one user."""


class LeafData(UserExamples):
    """Data of LEAF: a folder of JSON files, or a folder with such folders ``train`` and ``test``.

    A file holds ``{"users": [name, …], "user_data": {name: {"x": [[…], …], "y": [label, …]}}}``.
    """

    main_key: ClassVar[str] = "folder"
    test_key: ClassVar[str] = "folder"
    test_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The share of each user's examples that is kept for testing, rounded down; 0.2 by default.  Not for a folder with
    test examples."""
    users: Annotated[int, Field(ge=1)] | None = None
    """Users to choose at random; all by default."""
    min_samples: Annotated[int, Field(ge=1)] = 1
    """Fewest training examples of a user; others are left out."""

    @property
    def source(self) -> Path:
        """The folder."""
        raise NotImplementedError

    @property
    def has_test(self) -> bool:
        return (self.source / "test").is_dir()

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if not self.source.is_dir():
            remedy = "make it with LEAF (https://leaf.cmu.edu): preprocess.sh writes train/ and test/ into data/"
            yield Fault("folder", "the folder does not exist", str(self.source), remedy)
        elif self.has_test and self.test_share is not None:
            yield Fault("test_share", "has no effect: the folder has test examples", self.test_share, "leave it out")

    def load(self, streams: Streams) -> Dataset:
        if not self.source.is_dir():
            raise ScenarioError([*self.faults(ScenarioFacts(users=1, rounds=1, classes=None))])
        return super().load(streams)

    def read_part(self, key: str) -> FileColumns:
        train = self.source / "train"
        if not train.is_dir():
            train = self.source
        users = self._choose(read_leaf(train))
        if key == "test":
            tested = read_leaf(self.source / "test")
            users = {name: tested[name] for name in users if name in tested}
            if not users:
                problem = "no user of train/ has examples in test/: LEAF split by users, not by examples"
                raise_fault("", problem, str(self.source), "make it again with the split by samples (-t sample)")
        x = np.concatenate([features for features, _ in users.values()])
        y = np.concatenate([labels for _, labels in users.values()])
        names = np.repeat([*users], [len(labels) for _, labels in users.values()])
        return FileColumns(x.reshape(len(x), *self.shape), y, names)

    def _choose(self, users: Mapping[str, _Examples]) -> dict[str, _Examples]:
        """Return the users with enough examples, or some of them at random."""
        names = sorted(users)
        sizes = np.array([len(users[name][1]) for name in names], np.int64)
        rng = Streams(self.seed).rng("leaf", "users")
        chosen = [names[index] for index in choose_users(sizes, self.min_samples, self.users, rng)]
        return {name: users[name] for name in chosen}

    def _source(self, key: str) -> str:
        return str(self.source)

    @property
    def _reading_remedy(self) -> str:
        return "check the JSON files, and the keys features and labels"


def read_leaf(folder: Path) -> dict[str, _Examples]:
    """Return features and labels of each user in the JSON files of *folder*; users with none are left out.

    Raises:
        ScenarioError: there is no file, or one is not of LEAF's form; the key is empty.
    """
    users: dict[str, _Examples] = {}
    files = sorted(folder.glob("*.json"))
    if not files:
        raise_fault("", "has no .json files", str(folder), "name the folder with train/ and test/, or with the files")
    for path in files:
        try:
            with open_file(path) as file:
                content = parse_json(file.read().decode("utf-8-sig"))
            _check_counts(content)
            for name, examples in content["user_data"].items():
                x = as_single(nested_numbers(examples["x"]))
                y = nested_numbers(examples["y"])
                if len(x) != len(y):
                    raise_fault("", f"{path.name}: user {name} has {len(x)} examples and {len(y)} labels", str(folder))
                if name in users:  # also in an earlier file
                    earlier_x, earlier_y = users[name]
                    x = np.concatenate([earlier_x, x])
                    y = np.concatenate([earlier_y, y])
                if len(y):
                    users[name] = (x, y)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise_fault("", f"{path.name} is not of LEAF's form: {one_line(error)}", str(folder), "make it again")
    return users


def _check_counts(content: Mapping[str, Any]) -> None:
    """Check that ``users`` and ``num_samples``, where a file has them, agree with ``user_data``.

    Raises:
        ValueError: they do not.
    """
    data = content["user_data"]
    names = content.get("users", [*data])
    if sorted(names) != sorted(data):
        differing = sorted({*names} ^ {*data}) or [name for name in names if names.count(name) > 1]
        raise ValueError(f"users and user_data differ in {', '.join(differing[:8])}")
    counts = content.get("num_samples", [len(data[name]["y"]) for name in names])
    if len(counts) != len(names):
        raise ValueError(f"num_samples has {len(counts)} entries for {len(names)} users")
    for name, count in zip(names, counts, strict=True):
        if len(data[name]["y"]) != count:
            raise ValueError(f"user {name} has {len(data[name]['y'])} labels, but num_samples says {count}")
