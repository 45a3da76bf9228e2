"""Calls of the ClientApp of each user, whose effects count only once its reply is used."""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode

from netfl.core.remedies import argument
from netfl.errors import ModelError, NetflError
from netfl.flower.call_limits import CallTimeoutError, KeptFolder, limited_time
from netfl.flower.examples import NetworkContext
from netfl.simulation.setup import RunSetup
from netfl.streams import Streams

FIRST_NODE = 1000
"""Flower's number of the node of user 0; that of user k is higher by k.  Flower reserves the numbers 0 and 1."""

RUN_ID = 1
_TRAIN = "train"
"""Category of the messages of training, before the action."""
_NUMPY = "numpy.ndarray"
"""Flower's name of the form of an array that NumPy has written."""
_LOG = logging.getLogger("flwr")


@dataclass(frozen=True, eq=False)
class ClientReply:
    """A reply of a ClientApp that has no effect yet.

    Args:
        message: the reply, or an error if the ClientApp raised an exception.
        before: the context with which it was called.
        after: the context that counts if the reply is used; after an exception the one before, as in Flower.
        error: the exception.
    """

    message: Message
    before: NetworkContext
    after: NetworkContext
    error: Exception | None = None


class ClientCalls:
    """The ClientApp of all users, and the context of each.

    A call gets a copy of the user's context, which replaces the context when the reply is used.  The global generators
    of Python, NumPy and torch are seeded for each message and restored after the call: a reply does not depend on the
    calls before it.

    Args:
        setup: the prepared scenario, of one replica.
        client_app: the ClientApp.
        run_config: ``context.run_config``.
        limit_s: wall-clock seconds that a call may take.
        clock: returns the simulated time, for errors.

    Attributes:
        folder: the working directory, which a call does not change.
        calls: number of replies that were used.
        errors: exceptions among them, as text.
    """

    def __init__(
        self,
        setup: RunSetup,
        client_app: ClientApp,
        run_config: Mapping[str, Any],
        limit_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self.folder = KeptFolder()
        self._setup = setup
        self._client_app = client_app
        self._run_config = run_config
        self._streams = setup.scenario.streams_of(setup.replicas[0]).at("flower")
        self._contexts: dict[int, NetworkContext] = {}
        self.calls = 0
        self.errors: list[str] = []

    def server_context(self) -> NetworkContext:
        """Return a context for a ServerApp."""
        return self._new_context(None, 0, {}, RecordDict())

    def reply_to(self, message: Message, user: int) -> ClientReply:
        """Call the ClientApp of *user* with a copy of *message*.

        Raises:
            ModelError: the call does not end, or ends the process.
        """
        before = self._context_of(user)
        after = self._new_context(user, before.node_id, before.node_config, deepcopy(before.state))
        message_id = message.metadata.message_id
        try:
            with (
                self._kept_folder(user),
                seeded(self._streams, "client", user, message_id),
                limited_time(self._limit_s),
            ):
                reply: Any = self._client_app(deepcopy(message), after)
            if not isinstance(reply, Message):
                raise TypeError(f"the ClientApp returned {type(reply).__name__} instead of a Message")  # noqa: TRY301
        except NetflError:
            raise
        except CallTimeoutError:
            limit = argument("call_limit_s", "--call-limit")
            problem = f"has not replied within {self._limit_s:g} s; correct it, or allow more with {limit}"
            raise self._error(problem, user) from None
        except SystemExit as error:
            raise self._error(f"SystemExit: {error}; a ClientApp returns a reply", user) from error
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            failure = error_reply(message, ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason)
            return ClientReply(failure, before, before, error)
        reply = deepcopy(reply)
        reply.metadata.__dict__["_message_id"] = _reply_number(message)
        return ClientReply(reply, before, after)

    def use(self, reply: ClientReply, user: int) -> Message:
        """Let a current reply of *user* take effect, and return its message.

        Raises:
            ModelError: a trained array has numbers that are not finite, which any mean would pass on to all users.
        """
        is_result = reply.before is not reply.after  # and no exception
        if is_result and _is_of_training(reply.message):
            problem = _find_infinite(reply.message.content)
            if problem:
                raise self._error(f"replies with {problem}; a smaller step size may help", user)
        self._contexts[user] = reply.after
        self.calls += 1
        if reply.error is not None:
            self.errors.append(f"user {user}: {type(reply.error).__name__}: {reply.error}")
            _LOG.error("The ClientApp of user %d raised an exception", user, exc_info=reply.error)
        return reply.message

    def is_current(self, reply: ClientReply, user: int) -> bool:
        """Return whether the context of *user* is still that with which the reply was computed."""
        return reply.before is self._contexts.get(user)

    @contextmanager
    def _kept_folder(self, user: int) -> Iterator[None]:
        """Restore the working directory after the call of a *user*."""
        try:
            yield
        finally:
            self.folder.restore(f"the ClientApp of user {user}")

    def _error(self, problem: str, user: int) -> ModelError:
        return ModelError("ClientApp", problem, user, self._clock())

    def _context_of(self, user: int) -> NetworkContext:
        if user not in self._contexts:
            config = {"partition-id": user, "num-partitions": self._setup.scenario.users}
            self._contexts[user] = self._new_context(user, FIRST_NODE + user, config, RecordDict())
        return self._contexts[user]

    def _new_context(
        self, user: int | None, node_id: int, node_config: Mapping[str, Any], state: RecordDict
    ) -> NetworkContext:
        return NetworkContext(
            self._setup,
            user,
            run_id=RUN_ID,
            node_id=node_id,
            node_config=dict(node_config),
            state=state,
            run_config=dict(self._run_config),
        )


def error_reply(message: Message, code: int, reason: str) -> Message:
    """Return the error that answers *message*."""
    reply = Message(Error(code=code, reason=reason), reply_to=message)
    reply.metadata.__dict__["_message_id"] = _reply_number(message)
    return reply


def _is_of_training(message: Message) -> bool:
    category, _, _ = message.metadata.message_type.partition(".")
    return category == _TRAIN and message.has_content()


def _find_infinite(content: RecordDict) -> str:
    """Return the first array with numbers that are not finite, in words; empty if there is none."""
    for name, record in content.array_records.items():
        for key, array in record.items():
            if array.stype != _NUMPY:  # the app has its own form
                continue
            values = array.numpy()
            if values.dtype.kind in "fc" and not np.isfinite(values).all():
                kind = "NaN" if np.isnan(values).any() else "an infinite number"
                return f"{kind} in array '{key}' of '{name}'"
    return ""


def _reply_number(message: Message) -> str:
    return f"reply-{message.metadata.message_id}"


@contextmanager
def seeded(streams: Streams, *purpose: str | int) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and, once it is imported, torch; restore their states at the end."""
    python_seed, numpy_seed, torch_seed = streams.rng(*purpose).integers(0, 2**32, 3).tolist()
    python_state = random.getstate()
    numpy_state = np.random.get_state()  # noqa: NPY002
    random.seed(python_seed)
    np.random.seed(numpy_seed)  # noqa: NPY002
    with ExitStack() as restored:
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            devices = torch.cuda.device_count() if torch.cuda.is_initialized() else 0
            restored.enter_context(torch.random.fork_rng(range(devices)))
            torch.manual_seed(torch_seed)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002
