"""Environment in which the agent sets how users send and compute, and how long a round lasts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from netfl.access.network import NetworkAccess
from netfl.core.kinds import kind_of
from netfl.errors import Fault, ScenarioError
from netfl.gym.environment import NetworkEnvironment
from netfl.network.allocation import MIN_FREQUENCY
from netfl.network.mac import Mac
from netfl.network.mac._bases import SlottedMac
from netfl.network.mac.controlled import Controlled
from netfl.network.mac.slotted_aloha import Aloha
from netfl.scenario.scenario import Scenario
from netfl.types import Floats, Round

Control = Literal["probability", "channel", "share", "power", "frequency", "deadline"]
CONTROLS: tuple[Control, ...] = ("probability", "channel", "share", "power", "frequency", "deadline")
"""Settings in their order in an action, those of each user before that of the round."""
_OF_THE_ROUND: Control = "deadline"
"""The setting of which there is one for all users."""
_NEEDS: dict[str, str] = {
    "probability": "a radio and a MAC other than fdma",
    "channel": "several channels",
    "share": "mac: {kind: fdma, division: allocated}",
    "power": "a radio",
    "frequency": "compute.cycles",
    "deadline": "an access.round with a deadline",
}
"""Part of a network that each setting needs."""
_OF_ANY_MAC = {"power", "frequency", "deadline"}
"""Settings that need no MAC of their own."""
ActionForm = Literal["flat", "dict"]


class ResourceAllocation(NetworkEnvironment[Any]):
    """The agent sets probability, channel, share of the band, power and frequency of each user, and a round's deadline.

    A network has some of these **controls**:

    - ``probability`` and ``channel`` are those of the MAC `netfl.network.mac.controlled`, slotted ALOHA with settings
      of each user.  It takes the place of another MAC, with the same slot, channels, probability and limit of attempts
      where that MAC has them; without a probability it is 1 / users.  The MAC stays if it divides the band, or if
      *controls* names neither.
    - ``share`` is that of the band of `netfl.network.mac.fdma` with ``division: allocated``.  A user with a share of 0
      takes no part in the round.
    - ``power`` is that of the radio.
    - ``frequency`` is that of the processor, if ``compute`` has ``cycles``.  At a fraction φ of the frequency f, the c
      cycles of a training take c / (φ f) seconds and κ c (φ f)² joules, where κ is the ``capacitance`` of ``energy``.
    - ``deadline`` is the time from the opening of the next round to its close at the latest, as a fraction of the
      deadline of ``access.round``.  It is one number for all users, and must be named in *controls*.

    The agent takes the place of an ``allocation``, which decides on shares, powers and frequencies.  With ``deadline``
    alone, the MAC and an allocation stay.

    A **flat** action is a vector from -1 to 1: the settings of all users for one control after the other, in the order
    above, ``[users]`` each, and one number for the deadline.  With u = (x + 1) / 2, a setting is

    - probability: ``min_probability ** (1 - u)``, which is 1 for x = 1.
    - channel: ``floor(u * channels)``.
    - share: u.
    - power: ``low + u * (high - low)`` dB relative to that of the radio.
    - frequency: ``low + u * (high - low)``, a fraction of that of the processor.
    - deadline: ``low + u * (high - low)``, a fraction of that of ``access.round``.

    A **dict** has the probabilities and shares as they are, ``Box(0, 1)``; the channels, ``MultiDiscrete``; and u of
    the powers, the frequencies and the deadline, ``Box(0, 1)``.  That of the deadline is ``[1]``.  In both forms,
    shares of a cell that add up to more than the band are divided by their sum.

    Args:
        scenario: the scenario, which must simulate a network, with a MAC for settings of users; see
            `netfl.gym.environment.NetworkEnvironment`.
        controls: names of the settings of the agent; ``None`` for all settings of users that the network has.
        action: form of an action, ``flat`` or ``dict``.
        power_range: least and largest power in dB relative to that of the radio.
        min_probability: probability of a flat action of -1.
        frequency_range: least and largest frequency as a fraction of that of the processor.
        deadline_range: least and largest deadline as a fraction of that of ``access.round``; it may be more than 1.
        options: further arguments of `netfl.gym.environment.NetworkEnvironment`.

    Raises:
        ScenarioError: an argument is wrong, the scenario has no MAC, or its band is blocks.
    """

    def __init__(
        self,
        scenario: Any = "gym/resource_allocation",
        *,
        controls: Sequence[Control] | None = None,
        action: ActionForm = "flat",
        power_range: tuple[float, float] = (-20.0, 0.0),
        min_probability: float = 1e-3,
        frequency_range: tuple[float, float] = (0.1, 1.0),
        deadline_range: tuple[float, float] = (0.1, 1.0),
        **options: Any,
    ) -> None:
        faults = [
            *_form_faults(controls, action),
            *_range_faults(power_range, min_probability, frequency_range, deadline_range),
        ]
        if faults:
            raise ScenarioError(faults)
        self._keeps_mac = controls is not None and _OF_ANY_MAC.issuperset(controls)
        self._sets_users = controls is None or set(controls) != {_OF_THE_ROUND}
        super().__init__(scenario, **options)

        access = self.scenario.access
        assert isinstance(access, NetworkAccess)
        known = _controls_of(access)
        faults = [*_control_faults(controls, known)]
        if faults:
            raise ScenarioError(faults)
        if controls is None:
            self.controls = tuple(name for name in known if name != _OF_THE_ROUND)
        else:
            self.controls = tuple(name for name in known if name in controls)
        self.channels = 1
        if "channel" in access.control_ranges:
            self.channels = int(access.control_ranges["channel"][1]) + 1

        self._form = action
        self._power_range = power_range
        self._min_probability = min_probability
        self._frequency_range = frequency_range
        self._deadline_range = deadline_range
        self._rule_deadline_s = _deadline_s(access)
        parts: dict[Control, spaces.Space[Any]] = {
            "probability": spaces.Box(0.0, 1.0, (self.users,)),
            "channel": spaces.MultiDiscrete([self.channels] * self.users),
            "share": spaces.Box(0.0, 1.0, (self.users,)),
            "power": spaces.Box(0.0, 1.0, (self.users,)),
            "frequency": spaces.Box(0.0, 1.0, (self.users,)),
            "deadline": spaces.Box(0.0, 1.0, (1,)),
        }
        if action == "flat":
            self.action_space = spaces.Box(-1.0, 1.0, (sum(map(self._size, self.controls)),))
        else:
            self.action_space = spaces.Dict({name: parts[name] for name in self.controls})

    def _prepare(self, scenario: Scenario) -> Scenario:
        access = scenario.access
        if isinstance(access, NetworkAccess) and not self._sets_users:
            return scenario
        if not isinstance(access, NetworkAccess) or access.mac is None:
            problem = "there is no network with a MAC whose resources could be allocated"
            raise ScenarioError([Fault("access", problem, kind_of(type(access)), "use kind: network, with a mac")])
        mac = access.mac
        if mac.block_interference_dbm is not None:
            problem = "the band of the MAC is blocks, which only an allocation assigns"
            remedy = "use division: allocated, or the environment UserSelection"
            raise ScenarioError([Fault("access.mac", problem, kind_of(type(mac)), remedy)])
        if access.allocation is not None:
            scenario = scenario.at({"access.allocation": None})
        if self._keeps_mac or mac.divides_band or "probability" in mac.control_ranges:
            return scenario
        if access.radio is None:  # the other MAC needs one
            return scenario
        return scenario.at({"access.mac": _controlled(mac, scenario.users)})

    def settings(self, action: Any) -> dict[str, Floats]:
        """Return the settings that an action stands for, by control, ``[users]`` each; the deadline is ``[1]``.

        These are probabilities, channels from 0, shares of the band, powers in dB relative to that of the radio,
        frequencies as fractions of those of the processors, and the deadline of the round in seconds.

        Raises:
            ScenarioError: *action* is not in the action space.
        """
        if self._form == "flat":
            settings = self._flat_settings(action)
        else:
            settings = self._dict_settings(action)
        if "share" in settings:
            settings["share"] = self._fit_into_band(settings["share"])
        if "power" in settings:
            settings["power"] = _within(self._power_range, settings["power"])
        if "frequency" in settings:
            settings["frequency"] = _within(self._frequency_range, settings["frequency"])
        if "deadline" in settings:
            assert self._rule_deadline_s is not None  # otherwise there is no such control
            settings["deadline"] = self._rule_deadline_s * _within(self._deadline_range, settings["deadline"])
        return settings

    def _size(self, control: Control) -> int:
        """Return how many numbers an action has for a control."""
        return 1 if control == _OF_THE_ROUND else self.users

    def _flat_settings(self, action: Any) -> dict[str, Floats]:
        """Return the settings of a flat action, with shares before they are fitted, and u of those with a range."""
        x = np.asarray(action, float)
        if x.shape != self.action_space.shape or not (np.abs(x) <= 1.0).all():
            raise self._not_an_action(action)
        u = (x + 1.0) / 2.0
        settings: dict[str, Floats] = {}
        begin = 0
        for name in self.controls:
            end = begin + self._size(name)
            settings[name] = u[begin:end]
            begin = end
        if "probability" in settings:
            settings["probability"] = self._min_probability ** (1.0 - settings["probability"])
        if "channel" in settings:
            settings["channel"] = np.minimum(np.floor(settings["channel"] * self.channels), self.channels - 1.0)
        return settings

    def _dict_settings(self, action: Any) -> dict[str, Floats]:
        """Return the settings of a mapping, with shares before they are fitted, and u of those with a range."""
        if not isinstance(action, dict) or set(action) != set(self.controls):
            raise self._not_an_action(action)
        settings: dict[str, Floats] = {}
        for name in self.controls:
            values = np.asarray(action[name], float)
            highest = self.channels - 1.0 if name == "channel" else 1.0
            if values.shape != (self._size(name),) or not ((values >= 0.0) & (values <= highest)).all():
                raise self._not_an_action(action)
            settings[name] = values
        return settings

    def _fit_into_band(self, share: Floats) -> Floats:
        """Return the shares, divided by the sum of their cell where it is more than the band, ``[users]``."""
        tower_of = self._tower_of()
        in_cell = np.bincount(tower_of, weights=share)
        return np.asarray(share / np.maximum(in_cell, 1.0)[tower_of])

    def _simulate(self, action: Any) -> Round:
        controls = None
        deadline_s = None
        if action is not None:
            controls = self.settings(action)
            if "deadline" in controls:
                deadline_s = float(controls.pop("deadline")[0])
        result = self.simulation.step(controls=controls, deadline_s=deadline_s)
        assert result is not None  # only a duration, which environments refuse, ends rounds
        return result

    def _not_an_action(self, action: Any) -> ScenarioError:
        return ScenarioError([Fault("action", "not in the action space", action, f"give one of {self.action_space}")])


def _controls_of(access: NetworkAccess) -> tuple[Control, ...]:
    """Return the controls that a network has, in their order in an action."""
    names = set(access.control_ranges)
    if access.compute is None or access.compute.cycles is None:  # its processors have no frequency
        names.discard("frequency")
    if _deadline_s(access) is not None:
        names.add("deadline")
    return tuple(name for name in CONTROLS if name in names)


def _deadline_s(access: NetworkAccess) -> float | None:
    """Return the deadline of the rule of the round, if it has one."""
    if access.round is None:
        return None
    return access.round.deadline_s


def _within(bounds: tuple[float, float], u: Floats) -> Floats:
    """Return the value at the place *u* between two bounds: the first for 0, the second for 1."""
    low, high = bounds
    return low + u * (high - low)


def _controlled(mac: Mac, users: int) -> dict[str, Any]:
    """Return the MAC that replaces *mac*, with its settings."""
    settings: dict[str, Any] = {"probability": 1.0 / users, "max_attempts": mac.attempt_limit}
    if isinstance(mac, SlottedMac):
        settings |= {"channels": mac.channel_count, "slot": mac.slot}
    if isinstance(mac, Aloha | Controlled) and mac.probability is not None:
        settings["probability"] = mac.probability
    return {"kind": "controlled", **settings}


def _control_faults(controls: Sequence[str] | None, known: Sequence[str]) -> Iterator[Fault]:
    """Controls that the network does not have, or a network that has none."""
    needs = ", ".join(f"{name} needs {need}" for name, need in _NEEDS.items() if name != "probability")
    if not known:
        yield Fault("access", "nothing of this network can be set by an agent", None, needs)
        return
    if controls is None and [*known] == [_OF_THE_ROUND]:
        remedy = f"use controls=['deadline'], or change the network: {needs}"
        yield Fault("access", "no setting of users exists in this network", None, remedy)
        return
    for name in controls or ():
        if name not in _NEEDS:
            yield Fault("controls", "no such setting", name, f"use {', '.join(known)}")
        elif name not in known:
            remedy = f"use {', '.join(known)}; {name} needs {_NEEDS[name]}"
            yield Fault("controls", "has no effect on this scenario", name, remedy)


def _form_faults(controls: Sequence[str] | None, action: str) -> Iterator[Fault]:
    if controls is not None and (isinstance(controls, str) or not controls):
        yield Fault("controls", "not a list of settings", controls, f"give some of {', '.join(CONTROLS)}")
    if action not in {"flat", "dict"}:
        yield Fault("action", "no such form of actions", action, "use flat or dict")


def _range_faults(
    power_range: tuple[float, float],
    min_probability: float,
    frequency_range: tuple[float, float],
    deadline_range: tuple[float, float],
) -> Iterator[Fault]:
    if not power_range[0] < power_range[1]:
        remedy = "give two numbers of dB, as in (-20, 0)"
        yield Fault("power_range", "not a least and a larger power", power_range, remedy)
    if not 0.0 < min_probability < 1.0:
        remedy = "give a small probability, such as 0.001"
        yield Fault("min_probability", "not between 0 and 1", min_probability, remedy)
    if not MIN_FREQUENCY <= frequency_range[0] < frequency_range[1] <= 1.0:
        problem = f"not a least and a larger fraction from {MIN_FREQUENCY:g} to 1"
        yield Fault("frequency_range", problem, frequency_range, "give two fractions, as in (0.1, 1)")
    if not 0.0 < deadline_range[0] < deadline_range[1] < np.inf:
        problem = "not a least and a larger fraction above 0"
        yield Fault("deadline_range", problem, deadline_range, "give two fractions, as in (0.1, 1)")
