"""Clients of Flower's older strategy interface (`flwr.server.strategy`), addressed as one exchange.

Flower sends each client its own message, from a pool of threads.  On a `netfl.flower.NetworkGrid` all messages of a
round must be known before the network simulates it, so `fit_clients` and `evaluate_clients` take the place of Flower's
functions of the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flwr.app import Message
from flwr.common import Code
from flwr.server.client_proxy import ClientProxy

Instructions = Sequence[tuple[ClientProxy, Any]]
ResultsAndFailures = tuple[list[tuple[ClientProxy, Any]], list[Any]]


def fit_clients(
    client_instructions: Instructions, max_workers: int | None, timeout: float | None, group_id: int
) -> ResultsAndFailures:
    """Train all clients in one exchange, and return their results and failures."""
    return _exchange("fit", client_instructions, timeout, group_id)


def evaluate_clients(
    client_instructions: Instructions, max_workers: int | None, timeout: float | None, group_id: int
) -> ResultsAndFailures:
    """Evaluate on all clients in one exchange, and return their results and failures."""
    return _exchange("evaluate", client_instructions, timeout, group_id)


def _exchange(method: str, instructions: Instructions, timeout_s: float | None, group_id: int) -> ResultsAndFailures:
    """Send what *method* of each client sends, and let it return what it makes of the reply."""
    results: list[tuple[ClientProxy, Any]] = []
    failures: list[Any] = []
    proxies: list[Any] = [proxy for proxy, _ in instructions]
    grids = {proxy.node_id: proxy.grid for proxy in proxies}
    mailboxes = {proxy.node_id: _Mailbox() for proxy in proxies}
    try:
        # a first call of each puts its message into its mailbox
        for proxy, instruction in instructions:
            _call(proxy, method, instruction, timeout_s, group_id, mailboxes)

        # all messages are one exchange; a reply is better than an error
        grid = next(iter(grids.values()))
        sent = [mailbox.message for mailbox in mailboxes.values() if mailbox.message is not None]
        for reply in grid.send_and_receive(sent):
            mailbox = mailboxes.get(reply.metadata.src_node_id)
            if mailbox is not None and (mailbox.reply is None or reply.has_content()):
                mailbox.reply = reply

        # a second call of each finds the reply there
        for proxy, instruction in instructions:
            result = _call(proxy, method, instruction, timeout_s, group_id, mailboxes)
            if isinstance(result, BaseException):
                failures.append(result)
            elif result.status.code == Code.OK:
                results.append((proxy, result))
            else:
                failures.append((proxy, result))
    finally:
        for proxy in proxies:
            proxy.grid = grids[proxy.node_id]
    return results, failures


def _call(
    proxy: Any, method: str, instruction: Any, timeout_s: float | None, group_id: int, mailboxes: dict[int, _Mailbox]
) -> Any:
    """Call *method* of a client with its mailbox in place of the grid; return its result, or its exception."""
    proxy.grid = mailboxes[proxy.node_id]
    try:
        return getattr(proxy, method)(instruction, timeout=timeout_s, group_id=group_id)
    except Exception as error:
        return error


class _NoReplyYetError(Exception):
    """The mailbox of a client has its message, and no reply yet."""


class _Mailbox:
    """The grid of one client, which first keeps its message, then returns the reply.

    Attributes:
        message: the message.
        reply: the reply to it.
    """

    def __init__(self) -> None:
        self.message: Message | None = None
        self.reply: Message | None = None

    def send_and_receive(self, messages: Sequence[Message], **_: Any) -> list[Message]:
        """Return the reply if it is there; otherwise keep the message."""
        if self.reply is None:
            (self.message,) = messages
            raise _NoReplyYetError
        return [self.reply]
