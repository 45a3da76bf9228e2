"""Routes of messages of users that are exempt from outages."""

from __future__ import annotations

from functools import partial
from typing import Any

from netfl.network.backhaul.routes import Routes
from netfl.network.counterfactual import Exemptions
from netfl.network.counterfactual.port import BypassPort
from netfl.network.message import Message


class BypassRoutes(Routes):
    """Routes with a `BypassPort` for each link, on which users exempt from outages send as if all nodes were up.

    Args:
        parts: the arguments of `Routes`.
    """

    def __init__(self, exemptions: Exemptions, *parts: Any) -> None:
        super().__init__(*parts)
        self._exemptions = exemptions
        self._new_port = partial(BypassPort, exemptions)

    def _next_hop(self, node: str, message: Message) -> str | None:
        if self._exemptions.cover("outage", message):
            return self._layout.route(node)[1]
        return super()._next_hop(node, message)
