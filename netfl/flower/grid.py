"""The grid: Flower's messages over a simulated network.

A train exchange is one round of the network.  `NetworkGrid.send_and_receive` sends the messages of a strategy as the
broadcast of the round, and runs the ClientApp of each user whose update the network delivers: nothing else is computed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, Literal, Self, get_args

import numpy as np
from flwr.app import Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common import DEFAULT_TTL
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.serverapp import Grid

from netfl.access import OpenAccess
from netfl.errors import Fault, NetflError, ScenarioError
from netfl.flower import versions
from netfl.flower.examples import NetworkContext
from netfl.registry import kind_of
from netfl.results.tables import EventRecorder, MemoryTable
from netfl.scenario.scenario import Scenario, ScenarioSource, as_scenario
from netfl.simulation.setup import RunSetup, locate_faults, prepare_run
from netfl.types import OUTCOMES, Delivery, Event, Ints, Recorder, Round, RoundControls

Sizes = Literal["arrays", "scenario"]
"""Source of the sizes of updates and broadcasts: the records in the messages, or the scenario."""

Evaluation = Literal["direct", "network"]
"""Path of evaluate messages: past the network, without time, or through it as rounds of their own."""

FIRST_NODE = 1000
"""Flower's number of the node of user 0; that of user k is higher by k.  Flower reserves the numbers 0 and 1."""

RUN_ID = 1
_BITS = 8
_LOG = logging.getLogger("flwr")


class GridObserver:
    """Observer of a `NetworkGrid`; derive from it and override what is needed."""

    def before_round(self) -> None:
        """Observe that a round of the network is about to begin; an exception ends the ServerApp."""

    def after_round(self, round: Round) -> None:
        """Observe a round of the network, before a ClientApp runs."""


@dataclass
class _Request:
    """A train message, or an evaluate message that crosses the network.

    Args:
        message: the message.
        user: the user that it is for.
        timeout_s: simulated seconds after which a reply counts no more.
        version: the version of the model, as the network numbers them, with which it was sent first.
        opened_s: when that was.
    """

    message: Message
    user: int
    timeout_s: float
    version: int = -1
    opened_s: float = math.nan

    @property
    def category(self) -> str:
        """``train`` or ``evaluate``."""
        return _category(self.message)

    @property
    def number(self) -> str:
        """Flower's number of the message."""
        return str(self.message.metadata.message_id)


class NetworkGrid(Grid):
    """Flower's `Grid` on the simulated network of a scenario.

    Strategies and ClientApps run on it unmodified::

        with netfl.flower.NetworkGrid("rural_outage", client_app) as grid:
            result = FedAvg().start(grid, initial_arrays=arrays, num_rounds=10)

    **Nodes.**  Every user is a node, connected or not.  Its ``context.node_config`` has ``partition-id``, the number of
    the user, and ``num-partitions``.  ``context.state`` is kept between messages.

    **Train messages.**  One `send_and_receive` is one round of the network.  The users that it addresses are the
    selected users, and its largest message is the broadcast.  The access and its round rule decide which updates are
    delivered, and when.  Only then the ClientApps of the delivered updates run, in the order of arrival.  Every other
    message is answered by an error whose reason names the outcome: `REPLY_MESSAGE_UNAVAILABLE`, or `NODE_UNAVAILABLE`
    if the message had not reached the user when the round closed.  Where the network delivers an update of an earlier
    round, as with ``round: asynchronous``, its reply is among those of the round in which it arrives.

    **Asynchronous strategies.**  `push_messages` sends with the next round, and `pull_messages` simulates a round if
    none of the replies is there yet.  A message stays pending until its update is delivered, or ends otherwise.

    **Other messages.**  Query messages and, by default, evaluate messages are answered at once, by all users.

    **Timeouts** are simulated seconds from the start of the round, as is the TTL of a message, if it is given.  A reply
    that arrives later is an error.  The round itself still closes by the rule of the scenario.

    **Sizes.**  The size of a broadcast is that of the arrays in the message, in the form in which Flower sends them.
    The size of a reply must be known before its ClientApp runs.  In the first exchange it is that of the broadcast,
    then that of the arrays in the largest reply of the last round with replies.  Replies to evaluate messages have the
    size of all their records.

    Args:
        scenario: a scenario, or any other input of `netfl.load`; its learners do not run.
        client_app: the ClientApp of all users.
        run_config: ``context.run_config`` of the apps.
        sizes: ``arrays`` as above, or ``scenario`` for the sizes that ``netfl run`` uses.
        evaluation: ``network`` sends evaluate messages through the network, each exchange as a round of its own.
        max_update_bits: size of the largest reply, for which the network is designed; by default that of the first
            broadcast.
        setup: the prepared scenario with the recorder of one replica; by default it is prepared here, and events are
            kept in memory.
        observer: an observer.

    Attributes:
        scenario: the scenario.
        setup: the prepared scenario.
        app_calls: number of calls of the ClientApp.
        app_errors: errors that the ClientApp raised, as text.

    Raises:
        ScenarioError: the scenario cannot be simulated, or Flower cannot drive it.
    """

    def __init__(
        self,
        scenario: ScenarioSource,
        client_app: ClientApp,
        *,
        run_config: Mapping[str, bool | float | int | str] | None = None,
        sizes: Sizes = "arrays",
        evaluation: Evaluation = "direct",
        max_update_bits: float | None = None,
        setup: RunSetup | None = None,
        observer: GridObserver | None = None,
    ) -> None:
        _check_choice("sizes", sizes, get_args(Sizes))
        _check_choice("evaluation", evaluation, get_args(Evaluation))
        self.scenario = as_scenario(scenario)
        check_scenario(self.scenario)
        self._client_app = client_app
        self._run_config = dict(run_config or {})
        self._sizes = sizes
        self._evaluation = evaluation
        self._max_update_bits = max_update_bits
        self._observer = observer or GridObserver()
        self.app_calls = 0
        self.app_errors: list[str] = []

        # the network: opened in the first round, when the sizes of the messages are known
        self._events = MemoryTable("events")
        if setup is None:
            setup = prepare_run(self.scenario, replicas=range(1))
            setup = setup.with_recorders([EventRecorder(self._events, 0, self.scenario.keeping)])
        self._recorder = _OutcomeRecorder(setup.contexts[0].recorder)
        self.setup = setup.with_recorders([self._recorder])
        self._controls = RoundControls(can_select=self.scenario.access.info.has_selection)
        self._access: OpenAccess | None = None

        # messages, and the apps that answer them
        self._run = versions.empty_run(RUN_ID)
        self._contexts: dict[int, NetworkContext] = {}
        self._messages = 0
        self._waiting: list[_Request] = []
        self._requests: dict[int, list[_Request]] = {}
        self._replies: dict[str, Message] = {}
        self._early: dict[str, list[Message]] = {}
        self._reply_bits: dict[str, float] = {}
        self._is_closed = False
        self._lock = RLock()
        self._resources = ExitStack()
        self._resources.enter_context(versions.task_identity(RUN_ID, SUPERLINK_NODE_ID))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def time_s(self) -> float:
        """Simulated time: when the last round closed; 0 before the first."""
        return 0.0 if self._access is None else self._access.time_s

    @property
    def round(self) -> int:
        """Number of the last round of the network; 0 before the first."""
        return 0 if self._access is None else self._access.round

    @property
    def access(self) -> OpenAccess | None:
        """The access of the scenario, with its network; ``None`` before the first round."""
        return self._access

    @property
    def events(self) -> Any:
        """Events recorded so far, as a DataFrame with the columns of the events table; empty with another setup."""
        recorder = self._recorder.inner
        if isinstance(recorder, EventRecorder):
            recorder.flush()
        return self._events.read().to_pandas()

    def server_context(self) -> NetworkContext:
        """Return a context for a ServerApp."""
        return self._new_context(None, 0, {})

    def finish(self) -> None:
        """End the run after the last round that the ServerApp needed: outstanding updates end as ``unfinished``."""
        if self._access is not None:
            with locate_faults(self.scenario, "access"):
                self._access.finish()
        self.close()

    def close(self) -> None:
        """End the simulation; the grid answers no more."""
        self._is_closed = True
        if self._access is not None:
            self._access.close()
        self._resources.close()

    def set_run(self, run: Any) -> None:
        """Set Flower's description of the run."""
        self._run = run

    @property
    def run(self) -> Any:
        """Flower's description of the run."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Create a message; `flwr.app.Message` does the same."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the numbers of the nodes of all users."""
        self._check_open()
        return list(range(FIRST_NODE, FIRST_NODE + self.scenario.users))

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages: train messages with the next round, others at once.

        Returns:
            The numbers of the messages, for `pull_messages`.

        Raises:
            ValueError: a message is for a node that does not exist.
        """
        with self._lock:
            self._check_open()
            return [self._push(message, math.inf) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to messages that have arrived; simulate a round if there are none yet."""
        with self._lock:
            self._check_open()
            wanted = set(message_ids)
            is_pending = any(request.number in wanted for request in self._waiting)
            if is_pending and not wanted & self._replies.keys():
                for reply in self._run_round():
                    self._store(reply)
            return [self._replies.pop(name) for name in [*self._replies] if name in wanted]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages, and return all replies.

        Train messages are one round of the network.  The replies include updates of earlier rounds that arrive in it.

        Args:
            messages: the messages.
            timeout: simulated seconds after which a reply is an error.

        Raises:
            ValueError: a message is for a node that does not exist, or a node has two messages.
            ScenarioError: all rounds of the scenario are over.
        """
        with self._lock:
            self._check_open()
            pushed = {self._push(message, math.inf if timeout is None else timeout): None for message in messages}
            requests = [request for request in self._waiting if request.number in pushed]
            replies = []
            if requests:
                others = {request.number for request in self._waiting} - pushed.keys()
                for reply in self._run_round():
                    if reply.metadata.reply_to_message_id in others:
                        self._store(reply)
                    else:
                        replies.append(reply)
                for request in requests:
                    if request in self._waiting:  # its update is still outstanding
                        self._waiting.remove(request)
                        replies.append(self._failure(request))
            return [*(self._replies.pop(name) for name in pushed if name in self._replies), *replies]

    def _push(self, message: Message, timeout_s: float) -> str:
        """Send a message with the next round, or answer it now; return its number."""
        metadata, user = message.metadata, self._user_of(message)
        self._messages += 1
        fields = {"_message_id": f"{self._messages}", "_run_id": RUN_ID, "_src_node_id": SUPERLINK_NODE_ID}
        metadata.__dict__.update(fields)
        if _category(message) == "train" or (_category(message) == "evaluate" and self._evaluation == "network"):
            ttl_s = math.inf if metadata.ttl == DEFAULT_TTL else float(metadata.ttl)
            self._waiting.append(_Request(message, user, min(timeout_s, ttl_s)))
        else:
            self._store(self._execute(message, user))
        return str(metadata.message_id)

    def _store(self, reply: Message) -> None:
        self._replies[reply.metadata.reply_to_message_id] = reply

    def _run_round(self) -> list[Message]:
        """Simulate the next round for all waiting requests, and return the replies of updates that ended in it."""
        requests = [*self._waiting]
        category = requests[0].category
        users = {request.user for request in requests}
        if {request.category for request in requests} != {category}:
            raise ValueError("train and evaluate messages cannot share a round; send them one after the other")
        if len(users) < len(requests):
            raise ValueError("two messages are on the way to one node; wait for the reply to the first")
        self._observer.before_round()
        result = self._step(requests)
        for request in requests:
            if request.version < 0:  # it was sent in this round
                request.version = result.index - 1
                request.opened_s = result.opened_s
                self._requests.setdefault(request.user, []).append(request)
        self._observer.after_round(result)
        replies = self._early.pop(category, [])
        for delivery in result.deliveries:
            answered, reply = self._answer(delivery)
            if answered is None or reply is None:
                continue
            if answered.category == category:
                replies.append(reply)
            else:  # of an earlier exchange: it is among the replies of the next one of its category
                self._early.setdefault(answered.category, []).append(reply)
        sizes = [_reply_bits(category, reply.content) for reply in replies if reply.has_content()]
        if sizes:
            self._reply_bits[category] = max(sizes)
        for request in requests:
            is_late = result.closed_s - request.opened_s > request.timeout_s
            if request in self._waiting and (is_late or self._recorder.has_failed(request.user)):
                self._waiting.remove(request)
                replies.append(self._failure(request))
        self._forget(result)
        return replies

    def _answer(self, delivery: Delivery) -> tuple[_Request | None, Message | None]:
        """Return the request that a delivered update answers, and the reply of its ClientApp, or an error if late."""
        request = self._request_of(delivery)
        if request is None:
            return None, None
        is_waiting = request in self._waiting
        delay_s = delivery.arrived_s - request.opened_s
        if is_waiting:
            self._waiting.remove(request)
        if delay_s <= request.timeout_s:
            return request, self._execute(request.message, request.user)
        if not is_waiting:
            return request, None
        reason = f"the update arrived after {delay_s:.6g} s, later than the timeout of {request.timeout_s:g} s"
        return request, self._error(request.message, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, reason)

    def _bits(self, requests: Sequence[_Request]) -> tuple[float, float]:
        """Return the size of each update and of the broadcast of *requests*."""
        contents = [request.message.content for request in requests]
        category = requests[0].category
        broadcast_bits = max(map(_array_bits, contents))
        if category in self._reply_bits:
            update_bits = self._reply_bits[category]
        elif category == "train":
            update_bits = broadcast_bits
        else:
            update_bits = max(map(_content_bits, contents)) - broadcast_bits
        return max(update_bits, _BITS), max(broadcast_bits, _BITS)

    def _step(self, requests: Sequence[_Request]) -> Round:
        """Simulate the next round, in which the users of *requests* may take part."""
        if self._sizes == "arrays":
            self._set_sizes(*self._bits(requests))
        if self._access is None:
            self._access = self._open_access()
        if self._access.is_done:
            count = self.scenario.steps
            problem = f"the ServerApp needs more than the {count} rounds of the scenario"
            raise ScenarioError([Fault("rounds", problem, count, "--set more rounds")])
        self._recorder.clear()
        self._controls.selected = self._selected([request.user for request in requests])
        with locate_faults(self.scenario, "access"):
            return self._access.next_round()

    def _set_sizes(self, update_bits: float, broadcast_bits: float) -> None:
        """Set the sizes of the next round, which must fit into what the network is designed for."""
        design_bits = self._controls.design_bits or self._max_update_bits or max(update_bits, broadcast_bits)
        if update_bits > design_bits:
            problem = f"a reply has {update_bits:g} bits, and the network is designed for {design_bits:g}"
            remedy = (
                "give the size of the largest update (--max-update-bits), or reply with the types of the first "
                "broadcast: FedAdam, for example, sends float64 from its second round on"
            )
            raise ScenarioError([Fault("max_update_bits", problem, self._max_update_bits, remedy)])
        self._controls.design_bits = design_bits
        self._controls.broadcast_bits = broadcast_bits
        self._controls.update_bits = np.full(self.scenario.users, update_bits)

    def _open_access(self) -> OpenAccess:
        """Open the access, designed for the sizes of the first round."""
        context = replace(self.setup.contexts[0], controls=self._controls)
        bits = self._controls.design_bits
        if bits is not None:
            context = replace(context, uplink_bits=bits, downlink_bits=bits)
        setup = replace(self.setup, contexts=[context])
        return setup.open_access(setup.replicas[0])

    def _selected(self, users: Sequence[int]) -> Ints | None:
        """Return the selection to impose; ``None`` for an access without one, which needs all users."""
        if self._controls.can_select:
            return np.sort(np.array(users, np.int64))
        if len(users) < self.scenario.users:
            kind = kind_of(type(self.scenario.access))
            problem = "no selection can be imposed on this access"
            raise ScenarioError([Fault("access", problem, kind, "let the strategy sample all nodes")])
        return None

    def _request_of(self, delivery: Delivery) -> _Request | None:
        """Return the newest request that the user of *delivery* had when its base was sent; ``None`` without one."""
        known = [each for each in self._requests.get(delivery.user, ()) if each.version <= delivery.base]
        return known[-1] if known else None

    def _forget(self, result: Round) -> None:
        """Forget requests whose updates can no longer be delivered."""
        for user, known in self._requests.items():
            newest = [each for each in known if each.version <= result.oldest][-1:]
            kept = [each for each in known if each.version > result.oldest or each in self._waiting]
            self._requests[user] = [*(each for each in newest if each not in kept), *kept]

    def _failure(self, request: _Request) -> Message:
        """Return the reply to a request whose update was not delivered in its round."""
        ended, code = self._recorder.ended.get(request.user), ErrorCode.REPLY_MESSAGE_UNAVAILABLE
        if self._recorder.has_failed(request.user) and ended is not None:
            cause = f" ({ended.detail})" if ended.detail else ""
            reason = f"update {ended.outcome}{cause} at {ended.time_s:.6g} s of simulated time"
        elif request.user in self._recorder.received:
            reason = f"update outstanding when the round closed at {self.time_s:.6g} s of simulated time"
        else:
            code = ErrorCode.NODE_UNAVAILABLE
            reason = f"user not reached when the round closed at {self.time_s:.6g} s of simulated time"
        return self._error(request.message, code, reason)

    def _error(self, message: Message, code: int, reason: str) -> Message:
        user = self._user_of(message)
        reply = Message(Error(code=code, reason=f"user {user}: {reason}"), reply_to=message)
        reply.metadata.__dict__["_message_id"] = f"reply-{message.metadata.message_id}"
        return reply

    def _execute(self, message: Message, user: int) -> Message:
        """Run the ClientApp of *user* for a message, and return its reply, or the error that it raised."""
        if user not in self._contexts:
            config = {"partition-id": user, "num-partitions": self.scenario.users}
            self._contexts[user] = self._new_context(user, FIRST_NODE + user, config)
        self.app_calls += 1
        try:
            reply: Any = self._client_app(deepcopy(message), self._contexts[user])
            if not isinstance(reply, Message):
                raise TypeError(f"the ClientApp returned {type(reply).__name__} instead of a Message")  # noqa: TRY301
        except NetflError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            self.app_errors.append(f"user {user}: {text}")
            _LOG.exception("The ClientApp of user %d raised an exception", user)
            return self._error(message, ErrorCode.CLIENT_APP_RAISED_EXCEPTION, text)
        reply = deepcopy(reply)
        reply.metadata.__dict__["_message_id"] = f"reply-{message.metadata.message_id}"
        return reply

    def _new_context(self, user: int | None, node_id: int, config: dict[str, Any]) -> NetworkContext:
        return NetworkContext(
            self.setup,
            user,
            run_id=RUN_ID,
            node_id=node_id,
            node_config=config,
            state=RecordDict(),
            run_config=dict(self._run_config),
        )

    def _user_of(self, message: Message) -> int:
        user = message.metadata.dst_node_id - FIRST_NODE
        if not 0 <= user < self.scenario.users:
            raise ValueError(f"there is no node {message.metadata.dst_node_id}; get_node_ids() returns the nodes")
        return int(user)

    def _check_open(self) -> None:
        if self._is_closed:
            raise versions.run_ended()


@dataclass(frozen=True, slots=True)
class _EndedUpdate:
    """An update that ended, and the version that it started from; -1 if the access does not state it."""

    outcome: str
    detail: str
    time_s: float
    base: int


class _OutcomeRecorder:
    """Recorder that passes all events on, and keeps what happened to the users of one round.

    Attributes:
        inner: the receiver of the events.
        ended: the update of each user that ended last, from the newest version.
        received: users that received a version.
    """

    def __init__(self, inner: Recorder) -> None:
        self.inner = inner
        self.final_metrics, self.add_rows = inner.final_metrics, inner.add_rows
        self.ended: dict[int, _EndedUpdate] = {}
        self.received: set[int] = set()
        self._versions: dict[int, int] = {}

    def clear(self) -> None:
        """Forget the round."""
        self.ended.clear()
        self.received.clear()

    def has_failed(self, user: int) -> bool:
        """Return whether the update of *user* from its newest version ended without a delivery."""
        ended = self.ended.get(user)
        if ended is None or ended.outcome in {"delivered", "superseded"}:
            return False
        return ended.base < 0 or ended.base >= self._versions.get(user, -1)

    def wants(self, kind: str) -> bool:
        """Return whether events of *kind* are needed here or by the receiver."""
        return kind in OUTCOMES or kind == "received" or self.inner.wants(kind)

    def record(self, event: Event) -> None:
        """Pass on one event or many."""
        self.inner.record(event)
        if event.kind != "received" and event.kind not in OUTCOMES:
            return
        columns = np.broadcast_arrays(event.user, np.asarray(event.time_s, float), np.asarray(event.value, float))
        for number, at_s, version in zip(*(column.ravel().tolist() for column in columns), strict=True):
            base = -1 if math.isnan(version) else int(version)
            if event.kind == "received":
                self.received.add(number)
                self._versions[number] = base
            elif number not in self.ended or base >= self.ended[number].base:
                self.ended[number] = _EndedUpdate(event.kind, event.detail, at_s, base)


def check_scenario(scenario: Scenario) -> None:
    """Check that Flower can drive *scenario*.

    Raises:
        ScenarioError: it has no rounds, or its access needs the reports of netfl's learners.
    """
    faults = []
    if scenario.rounds is None:
        faults.append(Fault("duration", "Flower needs rounds", scenario.duration, "give rounds instead"))
    if scenario.access.info.is_closed_loop:
        problem = "the access needs the reports of netfl's learners, which do not run under Flower"
        faults.append(Fault("access", problem, kind_of(type(scenario.access)), "use another selection, or another MAC"))
    if faults:
        raise ScenarioError(scenario.located(faults))


def _check_choice(key: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ScenarioError([Fault(key, "no such value", value, f"write {' or '.join(known)}")])


def _category(message: Message) -> str:
    """Return the part of the type of a message before its action: ``train``, ``evaluate``, ``query`` or another."""
    return str(message.metadata.message_type).partition(".")[0]


def _array_bits(content: RecordDict) -> float:
    return float(_BITS * sum(record.count_bytes() for record in content.array_records.values()))


def _reply_bits(category: str, content: RecordDict) -> float:
    """Return the size of a reply: of its arrays, or of all records where these are metrics."""
    return _array_bits(content) if category == "train" else _content_bits(content)


def _content_bits(content: RecordDict) -> float:
    """Return the size of all records of a message."""
    return float(_BITS * sum(record.count_bytes() for record in content.values()))
