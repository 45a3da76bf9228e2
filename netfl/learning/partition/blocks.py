"""Blocks of users in trouble of a named kind: labels that only they hold, or examples that contradict others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.core.spec import ByForm, OnlyWith, Spec, no_effect
from netfl.errors import CONTROLS, Fault
from netfl.learning.blocks import OTHERS, Block
from netfl.learning.data import Labels
from netfl.learning.partition import Partition, RankingSource
from netfl.learning.partition._allocation import RowDealer
from netfl.learning.partition._user_ranking import ranking_faults
from netfl.streams import Streams
from netfl.types import Ints, ScenarioFacts

_Label = Annotated[int, Field(ge=0)]
_Name = Annotated[str, Field(pattern=rf"^[^\s/@.:{CONTROLS}]+$", max_length=100)]
_UserList = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]


class BlockOfUsers(Spec):
    """The users of one block, the labels that only they hold, and the labels that they give in place of others.

    A block without ``classes``, ``relabel`` and ``rotate`` holds what all others hold: its accuracy shows what few
    deliveries alone do.
    """

    users: Annotated[Annotated[int, Field(ge=1)] | _UserList, ByForm()]
    """Their number, of the users with the lowest participation that no earlier block takes; or a list of users."""
    classes: Labels | None = None
    """The labels that only this block holds (absence); its users share the examples of each, and hold no others."""
    common: Annotated[bool, OnlyWith("classes")] = False
    """The users also hold shares of the labels that no block holds alone; always so without ``classes``."""
    relabel: Annotated[dict[_Label, _Label], Field(min_length=1)] | None = None
    """The label that the users give in place of a label of the data, such as ``{3: 5, 5: 3}`` (conflict)."""
    rotate: Literal[90, 180, 270] | None = None
    """The angle in degrees, against the clock, by which the users see the images of the data turned (conflict for a
    small model)."""

    @property
    def holds_common(self) -> bool:
        """True if the users hold shares of the labels that no block holds alone."""
        return self.common or self.classes is None


class Blocks(Partition):
    """Named blocks of users hold labels that nobody else holds, or contradict the others about common labels.

    - ``classes``: a class that is absent elsewhere (*absence*).  Between two visits of such users the model may forget
      it; larger weights do not help, memory does.
    - ``relabel``: the same inputs have other labels (*conflict*, concept shift; Kairouz et al., "Advances and open
      problems in federated learning", 2021; with swapped labels).  No model fits all users.
    - ``rotate``: the same labels belong to other inputs (feature shift; with rotated images, as the clusters of Ghosh
      et al., "An efficient framework for clustered federated learning", NeurIPS 2020).  A large model fits all users; a
      small one, such as `logistic`, must choose (*conflict*).

    Blocks take the users from the lowest participation on, in the order in which they stand here.  The examples of all
    labels without a block of their own are shuffled, and distributed in equal shares to the other users and to the
    blocks that hold common labels.

    Training examples, validation examples and the metrics of a user are as this user sees and labels them.  The metrics
    of a block are those of the test examples, in the mix that its users hold, as they see and label them.  ``accuracy``
    and ``loss`` of all examples are those of the data, which the majority sees.

    Example::

        kind: blocks
        by: rho
        blocks:
          remote: {users: 2, classes: [8, 9]}
          dialect: {users: 3, relabel: {3: 5, 5: 3}}
    """

    by: RankingSource = "rho"
    """Source of participation rates for blocks that state a number of users: ``rho``, the rates that the access states;
    ``distance`` from the tower, the farthest being the rarest; or ``prerun``, a run of the access without learning."""
    blocks: Annotated[dict[_Name, BlockOfUsers], Field(min_length=1)]
    """The blocks, by name."""

    @property
    def ranking_source(self) -> RankingSource | None:
        """``by``; ``None`` if all blocks list their users."""
        if any(isinstance(block.users, int) for block in self.blocks.values()):
            return self.by
        return None

    @property
    def rare_labels(self) -> tuple[int, ...]:
        """The labels that a block holds alone."""
        return tuple(label for block in self.blocks.values() for label in block.classes or ())

    def user_blocks(self, users: int, ranking: Ints | None) -> tuple[Block, ...]:
        listed_users: set[int] = set()
        for block in self.blocks.values():
            if not isinstance(block.users, int):
                listed_users.update(block.users)
        rarest_users: list[int] = []  # that no block has, from the lowest participation on
        if ranking is not None:
            rarest_users = [user for user in ranking[::-1].tolist() if user not in listed_users]
        blocks = []
        for name, block in self.blocks.items():
            if isinstance(block.users, int):
                members = rarest_users[: block.users]
                rarest_users = rarest_users[block.users :]
            else:
                members = [*block.users]
            user_ids = np.sort(np.array(members, np.int64))
            quarter_turns = (block.rotate or 0) // 90
            blocks.append(Block(name, user_ids, dict(block.relabel or {}), quarter_turns))
        return tuple(blocks)

    def split(self, labels: Ints, users: int, ranking: Ints | None, streams: Streams) -> list[Ints]:
        blocks = self.user_blocks(users, ranking)
        holds_common = np.ones(users, bool)
        for block in blocks:
            holds_common[block.users] = self.blocks[block.name].holds_common
        common_rows = np.flatnonzero(~np.isin(labels, self.rare_labels))
        dealer = RowDealer(users, streams.rng("blocks"))
        if len(common_rows):
            dealer.deal(common_rows, np.flatnonzero(holds_common))
        for block in blocks:
            for label in self.blocks[block.name].classes or ():
                dealer.deal(np.flatnonzero(labels == label), block.users)
        return dealer.rows()

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.ranking_source is None:
            yield from no_effect(self, ["by"], "because all blocks list their users")
        else:
            yield from ranking_faults(self.by, facts)
        yield from self._user_faults(facts)
        yield from self._class_faults(facts)
        for name, block in self.blocks.items():
            if name == OTHERS:
                yield Fault(f"blocks.{name}", "is the name of the users in no block", None, "use another name")
            for fault in self._relabel_faults(block, facts):
                yield fault.under(f"blocks.{name}.relabel")
            for fault in _rotation_faults(block, facts):
                yield fault.under(f"blocks.{name}.rotate")

    def _user_faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield the errors of users: unknown ones, users of two blocks, and too many."""
        block_of: dict[int, str] = {}
        in_blocks = 0
        for name, block in self.blocks.items():
            key = f"blocks.{name}.users"
            if isinstance(block.users, int):
                in_blocks += block.users
                continue
            yield from facts.unknown_users(key, block.users)
            in_blocks += len(block.users)
            for user in block.users:
                if user in block_of:
                    problem = f"user {user} is listed twice, here and in block '{block_of[user]}'"
                    yield Fault(key, problem, [*block.users], "list each user once")
                block_of[user] = name
        if in_blocks > facts.users:
            problem = f"the blocks have {in_blocks} users, the scenario has {facts.users}"
            yield Fault("blocks", problem, None, "use smaller blocks, or more users")

    def _class_faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield the errors of classes: unknown ones, classes of two blocks, and labels that no user holds."""
        block_of: dict[int, str] = {}
        for name, block in self.blocks.items():
            for index, label in enumerate(block.classes or ()):
                key = f"blocks.{name}.classes.{index}"
                if facts.classes is not None and label >= facts.classes:
                    yield Fault(key, _known_labels(facts.classes), label, "use one of them")
                if label in block_of:
                    problem = f"block '{block_of[label]}' holds it alone"
                    yield Fault(key, problem, label, "name each class in one block")
                block_of[label] = name
        if facts.classes is None:
            return
        common_labels = facts.classes - len([label for label in block_of if label < facts.classes])
        holders = [name for name, block in self.blocks.items() if block.holds_common]
        users_without = sum(_count_users(block) for block in self.blocks.values() if not block.holds_common)
        if common_labels and users_without >= facts.users:
            problem = f"no user holds the {common_labels} labels that no block holds alone"
            yield Fault("blocks", problem, None, "leave users for them, or set common: true")
        elif not common_labels and holders:
            problem = "other blocks hold all labels alone"
            yield Fault(f"blocks.{holders[0]}", problem, None, "name fewer classes in them")
        elif not common_labels and users_without < facts.users:
            problem = f"the classes of blocks leave none for the other {facts.users - users_without} users"
            yield Fault("blocks", problem, None, "name fewer classes")

    def _relabel_faults(self, block: BlockOfUsers, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield the errors of the labels that the users of *block* give, with keys relative to ``relabel``."""
        alone: dict[int, str] = {}  # the block that holds a label alone, if that is another one
        for name, other in self.blocks.items():
            if other is not block:
                alone |= dict.fromkeys(other.classes or (), name)
        for label, given in (block.relabel or {}).items():
            key = str(label)
            if facts.classes is not None and max(label, given) >= facts.classes:
                yield Fault(key, _known_labels(facts.classes), _arrow(label, given), "use two of them")
            elif label == given:
                yield Fault(key, "changes nothing", _arrow(label, given), "give another label, or leave it out")
            elif label in alone:
                problem = f"the block does not hold label {label}, which block '{alone[label]}' holds alone"
                yield Fault(key, problem, _arrow(label, given), "relabel a label that its users hold")
            elif label in (block.classes or ()):
                problem = f"contradicts nobody, as this block holds label {label} alone"
                yield Fault(key, problem, _arrow(label, given), "relabel a label that other users hold, too")
            elif not block.holds_common:
                problem = f"the block holds its classes only, not label {label}"
                remedy = "set common: true, so that its users also hold the labels of others"
                yield Fault(key, problem, _arrow(label, given), remedy)
            elif given in alone:
                problem = f"block '{alone[given]}' holds label {given} alone"
                yield Fault(key, problem, _arrow(label, given), "give a label that others hold, too")


def _rotation_faults(block: BlockOfUsers, facts: ScenarioFacts) -> Iterator[Fault]:
    """Yield the error of examples that cannot be turned by the angle of *block*."""
    if block.rotate is None or facts.example_shape is None:
        return
    shape = facts.example_shape
    stated = " x ".join(map(str, shape))
    if len(shape) != 3:
        yield Fault("", f"turns images, and the examples have the shape {stated}", block.rotate, "leave it out")
    elif block.rotate != 180 and shape[1] != shape[2]:
        yield Fault("", f"changes the shape of the images, {stated}", block.rotate, "use 180")


def _count_users(block: BlockOfUsers) -> int:
    """Return the number of users of *block*."""
    if isinstance(block.users, int):
        return block.users
    return len(block.users)


def _known_labels(classes: int) -> str:
    return f"the data have labels 0 to {classes - 1}"


def _arrow(label: int, given: int) -> str:
    """Return an entry of ``relabel`` as text."""
    return f"{label}: {given}"
