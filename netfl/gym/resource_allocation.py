"""Environment in which the agent sets how the users of a MAC send."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from netfl.access.network import NetworkAccess
from netfl.errors import Fault, ScenarioError
from netfl.gym.environment import NetworkEnvironment
from netfl.network.mac import Mac
from netfl.network.mac._bases import SlottedMac
from netfl.network.mac.controlled import Controlled
from netfl.network.mac.slotted_aloha import Aloha
from netfl.registry import kind_of
from netfl.scenario.scenario import Scenario
from netfl.types import Floats, Round

Control = Literal["probability", "channel", "power"]
"""Setting of a user; an action has them in this order."""
ActionForm = Literal["flat", "dict"]


class ResourceAllocation(NetworkEnvironment[Any]):
    """The agent sets transmission probability, channel and power of each user for the next round.

    The MAC is `netfl.network.mac.controlled`, slotted ALOHA with settings of each user.  If the scenario has another
    MAC, `controlled` takes its place, with the same slot, channels, probability and limit of attempts where that MAC
    has them; without a probability it is 1 / users.

    A **flat** action is a vector from -1 to 1, ``[controls * users]``: all probabilities, then all channels, then all
    powers.  With u = (x + 1) / 2, a probability is ``min_probability ** (1 - u)``, which is 1 for x = 1; a channel is
    ``floor(u * channels)``; a power is ``low + u * (high - low)`` dB relative to that of the radio.  A **dict** has the
    probabilities as they are, ``Box(0, 1)``; the channels, ``MultiDiscrete``; and u of the powers, ``Box(0, 1)``.

    Args:
        scenario: the scenario, which must simulate a network with a MAC; see
            `netfl.gym.environment.NetworkEnvironment`.
        controls: settings of the agent: ``probability``; ``channel``, if the MAC has several; ``power``, if there is a
            radio; ``None`` for all.
        action: form of an action, ``flat`` or ``dict``.
        power_range: least and largest power in dB relative to that of the radio.
        min_probability: probability of a flat action of -1.
        options: further arguments of `netfl.gym.environment.NetworkEnvironment`.

    Raises:
        ScenarioError: an argument is wrong, or the scenario has no MAC.
    """

    def __init__(
        self,
        scenario: Any = "gym/resource_allocation",
        *,
        controls: Sequence[Control] | None = None,
        action: ActionForm = "flat",
        power_range: tuple[float, float] = (-20.0, 0.0),
        min_probability: float = 1e-3,
        **options: Any,
    ) -> None:
        super().__init__(scenario, **options)
        access = self.scenario.access
        assert isinstance(access, NetworkAccess)
        assert isinstance(access.mac, Controlled)
        self.channels = access.mac.channels
        known: list[Control] = ["probability"]
        if self.channels > 1:
            known.append("channel")
        if access.radio is not None:
            known.append("power")
        faults = [*_control_faults(controls, known), *_range_faults(action, power_range, min_probability)]
        if faults:
            raise ScenarioError(faults)
        self.controls: tuple[Control, ...] = tuple(name for name in known if controls is None or name in controls)
        self._form = action
        self._power_range = power_range
        self._min_probability = min_probability
        parts: dict[Control, spaces.Space[Any]] = {
            "probability": spaces.Box(0.0, 1.0, (self.users,)),
            "channel": spaces.MultiDiscrete([self.channels] * self.users),
            "power": spaces.Box(0.0, 1.0, (self.users,)),
        }
        if action == "flat":
            self.action_space = spaces.Box(-1.0, 1.0, (len(self.controls) * self.users,))
        else:
            self.action_space = spaces.Dict({name: parts[name] for name in self.controls})

    def _prepare(self, scenario: Scenario) -> Scenario:
        access = scenario.access
        if not isinstance(access, NetworkAccess) or access.mac is None:
            problem = "there is no network with a MAC whose resources could be allocated"
            raise ScenarioError([Fault("access", problem, kind_of(type(access)), "use kind: network, with a mac")])
        if isinstance(access.mac, Controlled):
            return scenario
        return scenario.at({"access.mac": _controlled(access.mac, scenario.users)})

    def settings(self, action: Any) -> dict[str, Floats]:
        """Return the settings that an action stands for: probabilities, channels from 0, and powers in dB.

        Raises:
            ScenarioError: *action* is not in the action space.
        """
        if self._form == "flat":
            values = np.asarray(action, float)
            if values.shape != self.action_space.shape or not (np.abs(values) <= 1.0).all():
                raise self._not_an_action(action)
            shares: dict[str, Floats] = dict(
                zip(self.controls, (values.reshape(-1, self.users) + 1.0) / 2.0, strict=True)
            )
            if "probability" in shares:
                shares["probability"] = self._min_probability ** (1.0 - shares["probability"])
            if "channel" in shares:
                shares["channel"] = np.minimum(np.floor(shares["channel"] * self.channels), self.channels - 1.0)
        else:
            if not isinstance(action, dict) or set(action) != set(self.controls):
                raise self._not_an_action(action)
            shares = {name: np.asarray(action[name], float) for name in self.controls}
            highest = {"probability": 1.0, "channel": self.channels - 1.0, "power": 1.0}
            for name, share in shares.items():
                if share.shape != (self.users,) or not ((share >= 0.0) & (share <= highest[name])).all():
                    raise self._not_an_action(action)
        if "power" in shares:
            low, high = self._power_range
            shares["power"] = low + shares["power"] * (high - low)
        return shares

    def _simulate(self, action: Any) -> Round:
        result = self.simulation.step(controls=None if action is None else self.settings(action))
        assert result is not None  # only a duration, which environments refuse, ends rounds
        return result

    def _not_an_action(self, action: Any) -> ScenarioError:
        return ScenarioError([Fault("action", "not in the action space", action, f"give one of {self.action_space}")])


def _controlled(mac: Mac, users: int) -> dict[str, Any]:
    """Return the MAC that replaces *mac*, with its settings."""
    settings: dict[str, Any] = {"probability": 1.0 / users, "max_attempts": mac.attempt_limit}
    if isinstance(mac, SlottedMac):
        settings |= {"channels": mac.channel_count, "slot": mac.slot}
    if isinstance(mac, Aloha | Controlled) and mac.probability is not None:
        settings["probability"] = mac.probability
    return {"kind": "controlled", **settings}


def _control_faults(controls: Sequence[str] | None, known: Sequence[str]) -> Iterator[Fault]:
    if controls is not None and (isinstance(controls, str) or not controls):
        yield Fault("controls", "not a list of settings", controls, f"give some of {', '.join(known)}")
        return
    for name in controls or ():
        if name not in known:
            remedy = f"use {', '.join(known)}; channel needs several channels, power needs a radio"
            yield Fault("controls", "has no effect on this scenario", name, remedy)


def _range_faults(action: str, power_range: tuple[float, float], min_probability: float) -> Iterator[Fault]:
    if action not in {"flat", "dict"}:
        yield Fault("action", "no such form of actions", action, "use flat or dict")
    if not power_range[0] < power_range[1]:
        yield Fault(
            "power_range", "not a least and a larger power", power_range, "give two numbers of dB, as in (-20, 0)"
        )
    if not 0.0 < min_probability < 1.0:
        yield Fault(
            "min_probability", "not between 0 and 1", min_probability, "give a small probability, such as 0.001"
        )
