"""Transmit queue of answers: at most one frame of each user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from netfl.network.evaluation_rounds import ANSWERS
from netfl.network.event_log import Ending, EventLog
from netfl.network.message import Message
from netfl.network.radio.transmission import Frames
from netfl.network.radio.tx_queue import TxQueue
from netfl.types import Floats, Ints, Users

_NO_BASE = -1


@dataclass(slots=True, eq=False, kw_only=True)
class Answer(Message):
    """The answer of a user to an evaluation.

    Args:
        number: number of the evaluation.
        on_end: called with the answer, and whether it has come.
        attempts: number of attempts over the air.
    """

    number: int
    on_end: Callable[[Answer, bool], None]
    attempts: int = 0

    def end(self, log: EventLog, ending: Ending, time_s: float) -> None:
        self.on_end(self, False)

    def arrive(self) -> None:
        """Note that the answer is at the server."""
        self.on_end(self, True)


class AnswerQueue(TxQueue):
    """Answers of the users of one cell.

    Args:
        ids: numbers of the users in the network.
        bits: size of an answer.
    """

    def __init__(self, ids: Users, bits: float, tower: str, log: EventLog) -> None:
        size = len(ids)
        self.ids = ids
        self.max_bits = bits
        self.log = log
        self.ready_s = np.full(size, np.inf)
        self.on_air = np.zeros(size, np.bool_)
        self._tower = tower
        self._answers: dict[int, Answer] = {}

    def put(self, user: int, answer: Answer, ready_s: float) -> None:
        """Let *user*, by its number here, send *answer* from *ready_s* on; an older one that waits has no effect."""
        self._answers[user] = answer
        self.ready_s[user] = ready_s

    def drop(self, user: int) -> None:
        """Take out the answer of *user*, unless it is on the air."""
        if not self.on_air[user] and self._answers.pop(user, None) is not None:
            self.ready_s[user] = np.inf

    def bits(self, users: Users) -> float | Floats:
        return self.max_bits

    def lengths(self, now_s: float) -> Ints:
        return (self.on_air | (self.ready_s <= now_s)).astype(np.int64)

    def launch(self, users: Users, now_s: float) -> Frames:
        answers = [self._answers[user] for user in users.tolist()]
        for answer in answers:
            answer.attempts += 1
        self.on_air[users] = True
        self.log.uplink_bits += self.max_bits * len(users)
        return Frames(users, self.max_bits, answers, _NO_BASE, ANSWERS)

    def end(self, frames: Frames, causes: Sequence[str], limit: int | None, now_s: float) -> list[Message]:
        messages = list[Message]()
        repeats = 0
        for user, answer, cause in zip(frames.users.tolist(), frames.handle, causes, strict=True):
            self.on_air[user] = False
            is_replaced = self._answers.get(user) is not answer  # by that of a later evaluation
            if cause and not is_replaced and (limit is None or answer.attempts < limit):
                repeats += 1
                continue
            if not is_replaced:
                del self._answers[user]
                self.ready_s[user] = np.inf
            if cause:
                answer.end(self.log, Ending.of_failure(cause, limit, self._tower), now_s)
            else:
                messages.append(answer)
        self.log.count_failures(repeats, now_s)
        return messages

    def defer(self, users: Users, until_s: Floats) -> None:
        self.ready_s[users] = until_s
        for user in users[np.isinf(until_s)].tolist():  # it is disconnected for good
            answer = self._answers.pop(user, None)
            if answer is not None:
                answer.on_end(answer, False)

    def refresh(self, now_s: float) -> None:
        """Do nothing, as answers are put in by events."""

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        self._answers.clear()
        self.ready_s[:] = np.inf
