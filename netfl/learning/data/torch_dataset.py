"""A data set that a Python function of the user makes, such as a `torch.utils.data.Dataset`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from netfl.core.plugins import PluginError, import_plugin, one_line
from netfl.core.spec import OnlyWith
from netfl.learning.data._in_memory import stack
from netfl.learning.data._user_files import FileColumns, UserExamples, check_token_rows, raise_fault

_Features = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


class TorchDataset(UserExamples):
    """A `torch.utils.data.Dataset` of the user, with items ``(x, label)`` or ``(x, label, user)``.

    Items may also be mappings with the keys ``x`` (or ``image``), ``label`` and, optionally, ``user``.  ``x`` is a
    tensor, an array, or an image of Pillow, whose pixels become 0 to 1.  All items are read once, before the run, with
    the transforms of the data set; these should not draw at random.

    Example::

        kind: torch_dataset
        dataset: my_data:make
        args: {train: true}
        test: my_data:make
        test_args: {train: false}
        features: [1, 8, 8]
        labels: 10
    """

    main_key: ClassVar[str] = "dataset"
    dataset: str
    """Function or class that returns the data set, as ``package.module:name``; a file in the current folder can be the
    package."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the function."""
    test: str | None = None
    """Function that returns the test examples; without it a part of ``dataset`` is kept for testing."""
    test_args: Annotated[dict[str, Any], OnlyWith("test")] = Field(default_factory=dict)
    """Keyword arguments of ``test``."""
    features: _Features
    """The shape of one example: ``[columns]``, or ``[channels, rows, columns]`` of an image."""
    tokens: Annotated[int, Field(ge=2, le=2**24)] | None = None
    """The number of different tokens, if an example is a row of tokens such as words."""

    @model_validator(mode="after")
    def _check_tokens(self) -> TorchDataset:
        check_token_rows(self.tokens, self.features)
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return self.features

    def read_part(self, key: str) -> FileColumns:
        if key == "dataset":
            name = self.dataset
            args = self.args
        else:
            name = self.test or ""
            args = self.test_args
        try:
            make = import_plugin(name)
        except PluginError as error:
            raise_fault("", error.problem, name, error.remedy)
        try:
            examples = make(**args)
            length = len(examples)
        except Exception as error:  # the user's function can raise anything
            problem = f"fails with the arguments {args}: {one_line(error)}"
            raise_fault("", problem, name, "return a Dataset with __len__ and __getitem__")
        if not length:
            raise_fault("", "returns no examples", name, "return a Dataset with at least one")
        arrays = stack(examples)
        return FileColumns(arrays["x"], arrays["label"], arrays.get("user"))

    @property
    def _reading_remedy(self) -> str:
        return "let its items be (x, label) or (x, label, user), all of one shape"
