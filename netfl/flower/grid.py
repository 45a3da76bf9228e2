"""The grid: Flower's messages over a simulated network.

A train exchange is one round of the network.  `NetworkGrid.send_and_receive` sends the messages of a strategy as the
broadcast of the round, and uses the reply of each user whose update the network delivers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from threading import RLock, get_ident
from typing import Any, Literal, NoReturn, Self, get_args

import numpy as np
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common import DEFAULT_TTL
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.serverapp import Grid

from netfl.access import OpenAccess
from netfl.core.kinds import kind_of
from netfl.core.remedies import argument, changed
from netfl.errors import Fault, NetflError, ScenarioError
from netfl.flower import versions
from netfl.flower.app_notes import AppActivity
from netfl.flower.client_calls import FIRST_NODE, RUN_ID, ClientCalls, ClientReply, error_reply
from netfl.flower.examples import NetworkContext
from netfl.flower.message_sizes import has_arrays, message_bits
from netfl.flower.node_waits import NodePolls, checked_client_manager
from netfl.results.tables import EventRecorder, MemoryTable
from netfl.scenario.scenario import Scenario, ScenarioSource, as_scenario
from netfl.simulation.setup import RunSetup, locate_faults, prepare_run
from netfl.types import OUTCOMES, Delivery, Event, Ints, Recorder, Round, RoundControls

Sizes = Literal["messages", "scenario"]
"""Source of the sizes of updates and broadcasts: the records in the messages, or the scenario."""

Replies = Literal["delivered", "all"]
"""Replies that are computed: those that the network delivers, or those of all users that receive a message."""

Evaluation = Literal["direct", "network"]
"""Path of evaluate messages: past the network, without time, or through it as rounds of their own."""


class GridObserver:
    """Observer of a `NetworkGrid`; derive from it and override what is needed."""

    def on_call(self) -> None:
        """Observe a call of the grid by the ServerApp; an exception ends the ServerApp."""

    def before_round(self) -> None:
        """Observe that a round of the network is about to begin; an exception ends the ServerApp."""

    def after_round(self, round: Round) -> None:
        """Observe a round of the network, before the replies of its deliveries are used."""

    def on_time_over(self) -> None:
        """Observe that the duration is over after at least one round; an exception ends the ServerApp."""


@dataclass(eq=False)
class _Request:
    """A train message, or an evaluate message that crosses the network.

    Args:
        message: the message.
        user: the user that it is for.
        bits: its size.
        timeout_s: simulated seconds after which a reply counts no more.
        version: the version of the model, as the network numbers them, with which it was sent first.
        opened_s: when that was.
        reply: the reply, if it is computed already.
        is_used: the reply has taken effect on the context of the user.
        is_waiting: no reply and no error has answered the message.
        is_delivered: a reply has arrived, in time or not.
    """

    message: Message
    user: int
    bits: float
    timeout_s: float
    version: int = -1
    opened_s: float = math.nan
    reply: ClientReply | None = None
    is_used: bool = False
    is_waiting: bool = True
    is_delivered: bool = False

    @property
    def is_sent(self) -> bool:
        """The message has been part of a round."""
        return self.version >= 0

    @property
    def category(self) -> str:
        """``train`` or ``evaluate``."""
        return _category(self.message)

    @property
    def kind(self) -> tuple[int, str, float]:
        """User, type and size of the message; replies to messages of one kind are taken to be of one size."""
        return self.user, str(self.message.metadata.message_type), self.bits

    @property
    def number(self) -> str:
        """Flower's number of the message."""
        return str(self.message.metadata.message_id)


@dataclass(frozen=True, eq=False)
class _Arrival:
    """A reply, or an error in its place, that the ServerApp has not fetched.

    Args:
        number: Flower's number of the message that it answers.
        reply: the reply.
        late_for: the category of the message, if an error has answered it in an earlier exchange; otherwise empty.
    """

    number: str
    reply: Message
    late_for: str = ""


CALL_LIMIT_S = 3600.0
"""Wall-clock seconds that a call of a ClientApp may take, by default."""


class NetworkGrid(Grid):
    """Flower's `Grid` on the simulated network of a scenario.

    Strategies and ClientApps run on it unmodified::

        with netfl.flower.NetworkGrid("rural_outage", client_app) as grid:
            result = FedAvg().start(grid, initial_arrays=arrays, num_rounds=10)

    **Nodes.**  Every user is a node, connected or not.  Its ``context.node_config`` has ``partition-id``, the number of
    the user, and ``num-partitions``.  ``context.state`` is kept between messages.  An app that waits for more nodes is
    refused.

    **Train messages.**  One `send_and_receive` is one round of the network.  The users that it addresses are the
    selected users, and its largest message is the broadcast.  The access and its round rule decide which updates are
    delivered, and when.  The ClientApps of the delivered updates reply, in the order of arrival.  Every other message
    is answered by an error whose reason names the outcome: `REPLY_MESSAGE_UNAVAILABLE`, or `NODE_UNAVAILABLE` if the
    message had not reached the user when the round closed.  Where the network delivers an update of an earlier round,
    as with ``round: asynchronous``, its reply is among those of the round in which it arrives.  One update carries the
    replies to all messages that a user has received.

    **Asynchronous strategies.**  `push_messages` sends with the next round, and `pull_messages` simulates a round if
    none of the replies is there yet.  A message stays pending until its update is delivered, or ends otherwise.  What
    was pushed precedes what follows: a round is simulated before the next exchange, the next message to the same node,
    any message that is answered at once, and the end.

    **Other messages.**  Query messages and, by default, evaluate messages are answered at once, by all users.

    **Timeouts** are simulated seconds from the start of the round, as is the TTL of a message, if it is given.  A reply
    that arrives later is an error.  The round itself still closes by the rule of the scenario.

    **Sizes.**  A message has the size of all its records.  The size of a reply must be known before the network sends
    it.  It is that of the user's last reply to a message of the same type and size.  Where there is none, the ClientApp
    is called in advance.  Its reply is used if the network delivers it, and has no effect on the context otherwise.

    **Random numbers.**  Python's, NumPy's and torch's global generators are seeded for each call of a ClientApp, by the
    seed of the scenario, the user and the message.  They are restored after the call.

    Args:
        scenario: a scenario, or any other input of `netfl.load`; its learners do not run.
        client_app: the ClientApp of all users.
        run_config: ``context.run_config`` of the apps.
        sizes: ``messages`` as above, or ``scenario`` for the sizes that ``netfl run`` uses.
        replies: ``all`` lets every user that receives a message reply, delivered or not: its context goes on as on a
            real device, and all sizes are those of the replies themselves.
        evaluation: ``network`` sends evaluate messages through the network, each exchange as a round of its own.
        max_update_bits: size of the largest update, for which a network is designed; by default that of the largest
            message or reply of the first round.
        call_limit_s: wall-clock seconds that a call of a ClientApp may take, so that one that never returns is an
            error.  It holds in the main thread of systems with timers, and not inside of a compiled function.
        setup: the prepared scenario with the recorder of one replica; by default it is prepared here, and events are
            kept in memory.
        observer: an observer.

    Attributes:
        scenario: the scenario.
        setup: the prepared scenario.
        clients: the ClientApps, with the number of replies and their errors.
        activity: counts of what the app did.

    Raises:
        ScenarioError: the scenario cannot be simulated, or Flower cannot drive it.
    """

    def __init__(
        self,
        scenario: ScenarioSource,
        client_app: ClientApp,
        *,
        run_config: Mapping[str, bool | float | int | str] | None = None,
        sizes: Sizes = "messages",
        replies: Replies = "delivered",
        evaluation: Evaluation = "direct",
        max_update_bits: float | None = None,
        call_limit_s: float = CALL_LIMIT_S,
        setup: RunSetup | None = None,
        observer: GridObserver | None = None,
    ) -> None:
        _check_choice("sizes", sizes, get_args(Sizes))
        _check_choice("replies", replies, get_args(Replies))
        _check_choice("evaluation", evaluation, get_args(Evaluation))
        self.scenario = as_scenario(scenario)
        check_scenario(self.scenario)
        self._replies = replies
        self._evaluation = evaluation
        self._max_update_bits = max_update_bits
        self._observer = observer or GridObserver()

        # the network: opened in the first round, when the sizes of the messages are known
        self._events = MemoryTable("events")
        if setup is None:
            setup = prepare_run(self.scenario, replicas=range(1))
            own_metrics = self.scenario.access.info.metrics
            recorder = EventRecorder(self._events, 0, self.scenario.keeping, own_metrics=own_metrics)
            setup = setup.with_recorders([recorder])
        self._recorder = _OutcomeRecorder(setup.contexts[0].recorder)
        self.setup = setup.with_recorders([self._recorder])
        self._info = self.scenario.access.info
        self._is_sized = sizes == "messages" and self._info.can_resize_updates
        self._controls = RoundControls(can_select=self._info.has_selection)
        self._access: OpenAccess | None = None
        self._first_bits = 0.0

        # messages, and the apps that answer them
        self.clients = ClientCalls(self.setup, client_app, dict(run_config or {}), call_limit_s, lambda: self.time_s)
        self.activity = AppActivity()
        self._run = versions.empty_run(RUN_ID)
        self._messages = 0
        self._waiting: list[_Request] = []
        self._requests: dict[int, list[_Request]] = {}
        self._arrivals: list[_Arrival] = []
        self._reply_bits: dict[tuple[int, str, float], float] = {}

        # the thread of the ServerApp, besides which older versions of Flower have others
        self._polls = NodePolls(self.scenario.users)
        self._thread = get_ident()
        self._is_closed = False
        self._lock = RLock()
        self._resources = ExitStack()
        self._resources.enter_context(versions.task_identity(RUN_ID, SUPERLINK_NODE_ID))
        self._resources.enter_context(checked_client_manager(self.scenario.users))

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
        return self.clients.server_context()

    def finish(self) -> None:
        """End the run after the last round that the ServerApp needed: outstanding updates end as ``unfinished``.

        Messages that no round has sent get one, if the scenario has rounds left.
        """
        while self._unsent and (self._access is None or not self._access.is_done):
            self._run_round(self._unsent[0].category)
        if self._access is not None:
            with locate_faults(self.scenario, "access"):
                self._access.finish()
        self.close()

    def close(self) -> None:
        """End the simulation; the grid answers no more."""
        self._is_closed = True
        self.activity.waiting = len(self._waiting)
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
        """Return the numbers of the nodes of all users.

        Raises:
            ScenarioError: the app asks again and again, and so waits for more nodes.
        """
        self._check_open()
        if get_ident() == self._thread:
            self._polls.add()
        return list(range(FIRST_NODE, FIRST_NODE + self.scenario.users))

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages: train messages with the next round, others at once.

        Returns:
            The numbers of the messages, for `pull_messages`.

        Raises:
            ValueError: a message is for a node that does not exist; none is sent.
        """
        with self._lock:
            self._check_open()
            batch = self._addressed(messages)
            # what was pushed precedes the next message to the same node, and messages that are answered at once
            users_with_unsent = {request.user for request in self._unsent}
            if any(user in users_with_unsent or not self._is_networked(message) for message, user in batch):
                self._run_pending()
            return self._send(batch, math.inf)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to messages that have arrived; simulate a round if there are none yet."""
        with self._lock:
            self._check_open()
            wanted = set(message_ids)
            pending = [request for request in self._waiting if request.number in wanted]
            if pending and not any(arrival.number in wanted for arrival in self._arrivals):
                self._run_round(pending[0].category)
            return self._fetch(wanted)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages, and return all replies.

        Train messages are one round of the network.  The replies include updates of earlier rounds that arrive in it.

        Args:
            messages: the messages.
            timeout: simulated seconds after which a reply is an error.

        Raises:
            ValueError: a message is for a node that does not exist; none is sent.
            ScenarioError: all rounds of the scenario are over, or the network is not designed for the replies.
        """
        with self._lock:
            self._check_open()
            batch = self._addressed(messages)
            self._run_pending()
            numbers = set(self._send(batch, math.inf if timeout is None else timeout))
            requests = [request for request in self._waiting if request.number in numbers]
            categories = dict.fromkeys(request.category for request in requests)
            for category in categories:
                self._run_round(category)
            for request in requests:
                if request.is_waiting:  # its update is still outstanding
                    self._fail(request)
            return self._fetch(numbers, categories)

    @property
    def _unsent(self) -> list[_Request]:
        """Messages that were pushed since the last round."""
        return [request for request in self._waiting if not request.is_sent]

    def _addressed(self, messages: Iterable[Message]) -> list[tuple[Message, int]]:
        """Return messages with their users, before one of them is sent."""
        self._polls.restart()
        batch = []
        for message in messages:
            user = message.metadata.dst_node_id - FIRST_NODE
            if not 0 <= user < self.scenario.users:
                raise ValueError(f"there is no node {message.metadata.dst_node_id}; get_node_ids() returns the nodes")
            batch.append((message, int(user)))
        return batch

    def _is_networked(self, message: Message) -> bool:
        """Return whether a message crosses the network."""
        category = _category(message)
        return category == "train" or (category == "evaluate" and self._evaluation == "network")

    def _send(self, batch: Sequence[tuple[Message, int]], timeout_s: float) -> list[str]:
        """Send messages with the next round, or answer them now; return their numbers."""
        bits_of: dict[int, float] = {}  # by content, which the messages of a strategy share
        numbers = []
        for message, user in batch:
            metadata = message.metadata
            self._messages += 1
            fields = {"_message_id": f"{self._messages}", "_run_id": RUN_ID, "_src_node_id": SUPERLINK_NODE_ID}
            metadata.__dict__.update(fields)
            numbers.append(metadata.message_id)
            content = id(message.content)
            if content not in bits_of:
                bits_of[content] = message_bits(message)
            bits = bits_of[content]
            if self._is_networked(message):
                ttl_s = math.inf if metadata.ttl == DEFAULT_TTL else float(metadata.ttl)
                self._waiting.append(_Request(message, user, bits, min(timeout_s, ttl_s)))
            else:
                reply = self.clients.use(self.clients.reply_to(message, user), user)
                self._arrivals.append(_Arrival(metadata.message_id, reply))
                self.activity.add_direct(_category(message), bits + message_bits(reply))
        return numbers

    def _fetch(self, numbers: Collection[str], categories: Collection[str] = ()) -> list[Message]:
        """Return the replies to some messages, and the late replies of some *categories*, in the order of arrival."""
        fetched: list[Message] = []
        kept: list[_Arrival] = []
        for arrival in self._arrivals:
            if arrival.number in numbers or arrival.late_for in categories:
                fetched.append(arrival.reply)
            else:
                kept.append(arrival)
        self._arrivals = kept
        return fetched

    def _run_pending(self) -> None:
        """Simulate rounds for the messages that were pushed since the last round, as they precede what follows."""
        while self._unsent:
            self._run_round(self._unsent[0].category)

    def _run_round(self, category: str) -> None:
        """Simulate the next round, for all waiting messages of a category; its replies arrive."""
        requests = [request for request in self._waiting if request.category == category]
        self._observer.before_round()
        try:
            result = self._step(requests)
        except NetflError:  # the messages are refused, and the grid stays usable
            self._waiting = [request for request in self._waiting if request.is_sent]
            raise
        for request in requests:
            if not request.is_sent:
                request.version = result.index - 1
                request.opened_s = result.opened_s
                self._requests.setdefault(request.user, []).append(request)
        self._observer.after_round(result)

        before = len(self._arrivals)
        if self._replies == "all":  # also those that the network does not deliver
            self._use_received(result)
        for delivery in result.deliveries:
            for request in self._answered_by(delivery.user, delivery.base):
                self._answer(request, delivery)
        for request in requests:
            is_late = result.closed_s - request.opened_s > request.timeout_s
            if request.is_waiting and (is_late or self._recorder.has_failed(request.user)):
                self._fail(request)
        self._forget(result)

        contents = [request.message.content for request in requests]
        new_replies = [arrival.reply for arrival in self._arrivals[before:]]
        contents += [reply.content for reply in new_replies if reply.has_content()]
        self.activity.add_exchange(has_arrays=any(map(has_arrays, contents)))

    def _answer(self, request: _Request, delivery: Delivery) -> None:
        """Let the reply to a request arrive with a delivered update, or an error if it is late."""
        delay_s = delivery.arrived_s - request.opened_s
        was_waiting = request.is_waiting
        request.is_delivered = True
        if delay_s <= request.timeout_s:
            late_for = "" if was_waiting else request.category
            self._settle(request, self._use(request), late_for)
        elif was_waiting:
            reason = f"the update arrived after {delay_s:.6g} s, later than the timeout of {request.timeout_s:g} s"
            self._settle(request, self._error(request, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, reason))

    def _settle(self, request: _Request, reply: Message, late_for: str = "") -> None:
        """Let the answer to a request arrive."""
        if request.is_waiting:
            request.is_waiting = False
            self._waiting.remove(request)
        self._arrivals.append(_Arrival(request.number, reply, late_for))

    def _compute(self, request: _Request) -> ClientReply:
        """Return the reply to a request, which takes effect once it is used."""
        reply = request.reply
        if reply is not None and (request.is_used or self.clients.is_current(reply, request.user)):
            return reply
        # not computed yet, or from a context that another reply of the user has replaced
        reply = self.clients.reply_to(request.message, request.user)
        request.reply = reply
        bits = message_bits(reply.message)
        if request.is_sent and self._is_sized and bits != self._reply_bits[request.kind]:
            self.activity.resized += 1
        self._reply_bits[request.kind] = bits
        return reply

    def _use(self, request: _Request) -> Message:
        """Let the reply to a request take effect, and return it."""
        reply = self._compute(request)
        if request.is_used:
            return reply.message
        request.is_used = True
        return self.clients.use(reply, request.user)

    def _use_received(self, result: Round) -> None:
        """Let the replies of all users that have received their message take effect."""
        for user in self._requests:
            version = self._recorder.received_version(user, result.index - 1)
            for request in self._answered_by(user, version):
                self._use(request)

    def _step(self, requests: Sequence[_Request]) -> Round:
        """Simulate the next round, in which the users of *requests* may take part."""
        if self._access is not None and self._access.is_done:
            self._refuse_round(self._access.round)
        selected = self._selected({request.user for request in requests})
        if self._is_sized:
            self._set_sizes(requests)
        if self._access is None:
            self._access = self._open_access()
        self._recorder.clear()
        self._controls.selected = selected
        with locate_faults(self.scenario, "access"):
            result = self._access.next_round()
        if result is None:
            self._refuse_round(self._access.round)
        return result

    def _refuse_round(self, done: int) -> NoReturn:
        """Raise the error of a round after the *done* ones, the last of the scenario."""
        count = self.scenario.rounds
        if done == count:
            problem = f"the ServerApp needs more than the {count} rounds of the scenario"
            raise ScenarioError([Fault("rounds", problem, count, f"give it more: {changed('rounds', '…')}")])
        if done:  # without any round, the duration is an error in any run
            self._observer.on_time_over()
        problem = f"the duration is over before round {done + 1} of the ServerApp closes"
        remedy = f"give it more: {changed('duration', '…')}"
        raise ScenarioError([Fault("duration", problem, self.scenario.duration, remedy)])

    def _set_sizes(self, requests: Sequence[_Request]) -> None:
        """Set the sizes of the next round: of the update of each user, and of the broadcast."""
        # of each user: one update carries the replies to all its messages
        update_bits: dict[int, float] = {}
        sent_bits: dict[int, float] = {}
        for request in requests:
            if self._replies == "all" or request.kind not in self._reply_bits:
                self._compute(request)
            update_bits[request.user] = update_bits.get(request.user, 0.0) + self._reply_bits[request.kind]
            sent_bits[request.user] = sent_bits.get(request.user, 0.0) + request.bits
        largest_bits = max(update_bits.values())
        broadcast_bits = max(sent_bits.values())

        # the first round decides what the network is designed for
        controls = self._controls
        if controls.design_bits is None:
            controls.design_bits = self._max_update_bits or max(largest_bits, broadcast_bits)
            controls.update_bits = np.full(self.scenario.users, largest_bits)
            self._first_bits = largest_bits
        if self._info.is_networked and largest_bits > controls.design_bits:
            raise self._growth(largest_bits, controls.design_bits)
        assert controls.update_bits is not None
        controls.update_bits = controls.update_bits.copy()  # the network may still hold those of the last round
        controls.update_bits[[*update_bits]] = [*update_bits.values()]
        controls.broadcast_bits = broadcast_bits

    def _growth(self, bits: float, design_bits: float) -> ScenarioError:
        """Return the error of an update that is larger than those that the network is designed for."""
        problem = f"the largest update has {bits:g} bits"
        if bits > self._first_bits:
            problem = f"the largest update has grown from {self._first_bits:g} to {bits:g} bits"
        problem += f", and the network is designed for {design_bits:g}"
        remedy = f"give the size of the largest update of the run: {argument('max_update_bits')}"
        return ScenarioError([Fault(argument("max_update_bits"), problem, self._max_update_bits, remedy)])

    def _open_access(self) -> OpenAccess:
        """Open the access, designed for the sizes of the first round."""
        context = replace(self.setup.contexts[0], controls=self._controls)
        bits = self._controls.design_bits
        if bits is not None:
            context = replace(context, uplink_bits=bits, downlink_bits=bits)
        setup = replace(self.setup, contexts=[context])
        return setup.open_access(setup.replicas[0])

    def _selected(self, users: set[int]) -> Ints | None:
        """Return the selection to impose; ``None`` for an access without one, which needs all users."""
        if self._controls.can_select:
            return np.array(sorted(users), np.int64)
        if len(users) < self.scenario.users:
            kind = kind_of(type(self.scenario.access))
            problem = "no selection can be imposed on this access"
            raise ScenarioError([Fault("access", problem, kind, "let the strategy sample all nodes")])
        return None

    def _answered_by(self, user: int, base: int) -> list[_Request]:
        """Return the requests that an update of *user* answers which starts from version *base*.

        These are the newest that the user had when this version was sent, and those before it that still wait.
        """
        sent_by_then = [request for request in self._requests.get(user, ()) if request.version <= base]
        if not sent_by_then:
            return []
        newest = sent_by_then[-1].version
        answered = []
        for request in sent_by_then:
            is_asked = request.is_waiting or request.version == newest
            if is_asked and not request.is_delivered:
                answered.append(request)
        return answered

    def _forget(self, result: Round) -> None:
        """Forget requests whose updates can no longer be delivered."""
        for user, requests in self._requests.items():
            older = [request for request in requests if request.version <= result.oldest]
            newest_older = older[-1].version if older else -1  # an update from it may still arrive
            kept = []
            for request in requests:
                is_recent = request.version > result.oldest or request.version == newest_older
                if is_recent or request.is_waiting:
                    kept.append(request)
            self._requests[user] = kept

    def _fail(self, request: _Request) -> None:
        """Answer a request whose update was not delivered in its round by an error."""
        code = ErrorCode.REPLY_MESSAGE_UNAVAILABLE
        ended = self._recorder.ended.get(request.user)
        if self._recorder.has_failed(request.user) and ended is not None:
            cause = f" ({ended.detail})" if ended.detail else ""
            reason = f"update {ended.outcome}{cause} at {ended.time_s:.6g} s of simulated time"
        elif request.user in self._recorder.received:
            reason = f"update outstanding when the round closed at {self.time_s:.6g} s of simulated time"
        else:
            code = ErrorCode.NODE_UNAVAILABLE
            reason = f"user not reached when the round closed at {self.time_s:.6g} s of simulated time"
        self._settle(request, self._error(request, code, reason))

    def _error(self, request: _Request, code: int, reason: str) -> Message:
        return error_reply(request.message, code, f"user {request.user}: {reason}")

    def _check_open(self) -> None:
        if self._is_closed:
            raise versions.run_ended()
        if get_ident() == self._thread:
            self._observer.on_call()


_RECEPTIONS = ("received", "held")
"""Kinds of events by which a version reaches a user."""


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
        received: users that received a version that was new to them.
    """

    def __init__(self, inner: Recorder) -> None:
        self.inner = inner
        self.final_metrics = inner.final_metrics
        self.round_metrics = inner.round_metrics
        self.add_rows = inner.add_rows
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

    def received_version(self, user: int, version: int) -> int:
        """Return the newest version that *user* received; -1 without one.

        A direct access states only outcomes: a user with an outcome received *version*, that of the round.
        """
        ended = self.ended.get(user)
        if ended is not None and ended.base < 0:
            return version
        return self._versions.get(user, -1)

    def wants(self, kind: str) -> bool:
        """Return whether events of *kind* are needed here or by the receiver."""
        return self.inner.wants(kind) or kind in OUTCOMES or kind in _RECEPTIONS

    def record(self, event: Event) -> None:
        """Pass on one event or many."""
        self.inner.record(event)
        if event.kind not in _RECEPTIONS and event.kind not in OUTCOMES:
            return
        columns = np.broadcast_arrays(event.user, np.asarray(event.time_s, float), np.asarray(event.value, float))
        users, times_s, versions_of_users = (column.ravel().tolist() for column in columns)
        for user, at_s, version in zip(users, times_s, versions_of_users, strict=True):
            base = -1 if math.isnan(version) else int(version)
            if event.kind in _RECEPTIONS:
                if base > self._versions.get(user, -1):  # else it begins from a version that it has had before
                    self.received.add(user)
                    self._versions[user] = base
            elif user not in self.ended or base >= self.ended[user].base:
                self.ended[user] = _EndedUpdate(event.kind, event.detail, at_s, base)


def check_scenario(scenario: Scenario) -> None:
    """Check that Flower can drive *scenario*.

    Raises:
        ScenarioError: it has no rounds, or its access needs the reports of netfl's learners, erases parts of updates or
            merges models below the server.
    """
    faults = []
    access = scenario.access
    kind = kind_of(type(access))
    if access.info.can_erase:
        problem = "the access erases parts of updates, but messages of Flower arrive whole or not at all"
        faults.append(Fault("access", problem, kind, "lose whole updates: loss: drop"))
    if access.merging_nodes(scenario.users):
        problem = "nodes of the access merge models below the server, but Flower has one server"
        faults.append(Fault("access", problem, kind, "use another access"))
    if not scenario.has_rounds:
        faults.append(Fault("duration", "Flower needs rounds", scenario.duration, "add access.round"))
    if access.info.is_closed_loop:
        problem = "the access needs the reports of netfl's learners, which do not run under Flower"
        faults.append(Fault("access", problem, kind, "use another selection, or another MAC"))
    if faults:
        raise ScenarioError(scenario.located(faults))


def _check_choice(key: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ScenarioError([Fault(key, "no such value", value, f"write {' or '.join(choices)}")])


def _category(message: Message) -> str:
    """Return the part of the type of a message before its action: ``train``, ``evaluate``, ``query`` or another."""
    return str(message.metadata.message_type).partition(".")[0]
