'''Channel family: gain of the link between a user and its tower.

A link's channel is a list of models, such as a path loss, a shadowing and a fading.  Their gains in dB add up.  A gain
is negative where a signal becomes weaker; only `distance_gain` takes a loss, the negative of a gain.

To add a model, write a file in this package, or a class in your own package, that derives from `Channel`.  `open`
returns the gains of one network: a `StaticGain`, a `BlockGain`, a `distance_gain`, or your own `LinkGain`.  Draws come
from the given streams, keyed by user and block, so that they do not depend on the order of calls.  A complete model::

    import numpy as np

    from netfl.network.channel import BlockGain, Channel
    from netfl.types import Law
    from netfl.units import Probability

    class Blockage(Channel):
        """Block fading with two values: a path is blocked with probability p, and then loses 10 dB.

        Example::

            kind: mylab.blockage:Blockage
            p: 0.2
        """

        p: Probability = 0.2
        """Probability that a path is blocked."""

        def open(self, layout, streams):
            field = streams.field("blocked")
            gain_db = lambda users, block: np.where(field.uniform(users, block) < self.p, -10.0, 0.0)
            return BlockGain(gain_db, coherence_s=1.0, peak_db=0.0)

        def laws(self):
            draw = lambda streams, size: self.open(None, streams).gain_db(np.arange(size), 0.0)
            variance = 100 * self.p * (1 - self.p)
            return (Law("gain, dB", "-10 with probability p, else 0", draw, mean=-10 * self.p, variance=variance),)

Optional parts: the coherence time of a fading (`Channel.coherence_s`), whether a mean signal is without it
(`Channel.has_fast_fading`), the gain between two users (`Channel.between_users_db`), the carrier of the model
(`Channel.carrier_hz`), the distance within which a path loss no longer falls (`Channel.near_limit`), and what
contradicts the motion of users (`Channel.motion_misfit`); gains that differ between the frequency channels of a MAC
(`Channel.is_frequency_selective`, `Channel.on_channels`, `LinkGain.channel_gains_db`); for a medium other than air its
noise (`Channel.noise_dbm`), the speed of its signals (`Channel.speed_m_s`) and their delay (`Channel.delay_s`); and for
a model that reads measured data the radio (`Channel.fitted`), what its data lack (`Channel.data_misfit`,
`Channel.missing_towers`) and whether they contain the path loss (`Channel.has_path_loss`).
'''

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.core.kinds import exported_models
from netfl.core.plugins import Overridable
from netfl.core.spec import Spec
from netfl.errors import Fault, ModelError
from netfl.network.channel._motion_pace import MotionPace
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.network.periods import period_of, periods_of
from netfl.streams import Streams
from netfl.types import Floats, Ints

LinkLoss = Callable[[Ints, Floats], Floats]
"""``loss(users, distance_m)``: the loss in dB of each user's link at its distance, ``[n]``."""
MinLoss = Callable[[Ints], Floats]
"""``min_loss(users)``: the smallest loss in dB that each user's link can have, ``[n]``."""

_AHEAD, _MAX_CACHED = 64, 4096
"""Blocks that are drawn ahead for a user, and users for whom they are kept."""
_NO_DRAWS = np.empty(0)


class OutsideDataError(ModelError):
    """The run needs a gain that the data of a channel do not hold."""


@dataclass(frozen=True, slots=True)
class NearLimit:
    """Distance to the tower within which users have the path loss at this distance.

    Args:
        distance_m: the distance.
        reason: why the loss is the same for all nearer users, as a clause of a warning.
        remedy: what to do about users within it.
    """

    distance_m: float
    reason: str = "its loss no longer falls"
    remedy: str = "place users farther away"


class Channel(Spec):
    """Base class of channel models."""

    @abstractmethod
    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        """Return the gains of the links of *layout*, with draws from *streams*.

        Args:
            layout: positions: the number of ``users``; the length ``distance_m`` of each one's link, to its tower, and
                ``user_xy_m`` at time 0; ``moving``, and ``distances_m(users, time_s)`` if so.  A model is opened again
                for the links of all users to another tower, with a layout and streams of their own.
            streams: random streams of this model alone.

        Raises:
            netfl.errors.ScenarioError: the model is not valid for *layout*.
        """

    @property
    def speed_m_s(self) -> float:
        """Speed of signals; by default the speed of light."""
        return LIGHT_M_S

    @property
    def coherence_s(self) -> float:
        """Time after which fading may have changed the gain, in s; infinity without fading."""
        return math.inf

    def coherence_in(self, layout: Layout) -> float:
        """Return `coherence_s` for users that move as in *layout*, by the fastest."""
        return self.coherence_s

    @property
    def has_fast_fading(self) -> bool:
        """True if the gain is fast fading, which the mean signal of a tower is without."""
        return False

    @property
    def carrier_hz(self) -> float | None:
        """Carrier frequency that the model is given; ``None`` without one.

        A fading that follows the motion takes its carrier from the other models of the link.
        """
        return None

    def motion_misfit(self, pace: MotionPace) -> str:
        """Return how the changes of the gain contradict the motion of the users, with a remedy; empty if they do not.

        The text is a warning, after the key and the kind of the model.
        """
        return ""

    @property
    def is_frequency_selective(self) -> bool:
        """True if the gain differs between the frequency channels of a MAC, so that it needs a MAC with several."""
        return False

    def on_channels(self, centres_hz: Floats) -> Self:
        """Return this model for frequency channels with these centres, ``[channels]``; by default the model itself.

        Centres have a common offset.  Only a model that `is_frequency_selective` needs them.
        """
        return self

    @property
    def near_limit(self) -> NearLimit | None:
        """Distance to the tower within which the loss of the path no longer falls; ``None`` without one."""
        return None

    @property
    def has_delay(self) -> bool:
        """True if propagation takes a time that counts: by default with signals that are slower than light."""
        return self.speed_m_s < LIGHT_M_S

    def delay_s(self, distance_m: Floats) -> Floats:
        """Return the propagation delay of links with the given distances on the map, ``[n]``.

        Only a model that `has_delay` is asked, and only if its `LinkGain.delay_s` states none.
        """
        return np.asarray(distance_m / self.speed_m_s)

    def noise_dbm(self, bandwidth_hz: float) -> float | None:
        """Return the noise power of the medium in the band, or ``None`` if the receiver's thermal noise applies.

        The power has the reference of ``radio.power``, so that an SNR in dB is power + gain - noise.

        Raises:
            netfl.errors.ScenarioError: the model is not valid in a band of *bandwidth_hz*.
        """
        return None

    @property
    def has_path_loss(self) -> bool:
        """True if the gain contains the path loss of the link, so that another model of it would count it twice."""
        return False

    @property
    def holds_between_users(self) -> bool:
        """True if it states the gain between two users, too: `between_users_db`.

        A MAC whose users sense each other by power asks for it.
        """
        return False

    def between_users_db(self, distance_m: Floats) -> Floats:
        """Return the gain between two users at each distance, ``[n]``; asked only of one that `holds_between_users`."""
        return np.zeros(len(distance_m))

    @property
    def needs_radio(self) -> bool:
        """True if `fitted` needs one radio for all users: if the model has it, unless it overrides this."""
        return type(self).fitted is not Channel.fitted

    def fitted(self, power_dbm: float, noise_dbm: float, bandwidth_hz: float) -> Self:
        """Return this model for links of that power, noise and bandwidth; by default the model itself.

        The power contains the gains of both antennas.  A model whose data are SNRs or rates converts them to gains by
        these numbers.
        """
        return self

    def data_misfit(self, layout: Layout, end_s: float) -> Fault | None:
        """Return where the data of the model end before a run does that ends at *end_s*; ``None`` if they do not.

        The key of the error is relative to the model.  A time of infinity stands for a run whose end is not known.
        """
        return None

    def missing_towers(self, layout: Layout) -> Sequence[str]:
        """Return the towers for which the data of the model have no links of users of other cells."""
        return ()


class LinkGain(Overridable, ABC):
    """Gains that a channel model gives the links of one network."""

    @abstractmethod
    def gain_db(self, users: Ints, time_s: ArrayLike) -> Floats:
        """Return the power gain (negative for a loss) of each user's link to its tower at *time_s*, in dB, ``[n]``.

        The gain is a function of (user, time): repeated calls, in any order, return the same values.
        """

    @abstractmethod
    def peak_db(self, users: Ints) -> Floats:
        """Return the gain that each link exceeds with a probability under 1e-9 at any one time, in dB, ``[n]``.

        A user whose SNR at this gain is below the reception threshold is unreachable, which is reported as an error.
        """

    @property
    def hold_s(self) -> float:
        """Length of the blocks, counted from time 0, in which the gain is (nearly) constant, in s.

        Infinity for a gain that does not change during a transmission.
        """
        return math.inf

    def delay_s(self, users: Ints, time_s: float) -> Floats | None:
        """Return the propagation delay of each user's link at *time_s*, ``[n]``, if the model knows it.

        ``None`` if it follows from the distance on the map, by `Channel.delay_s`.
        """
        return None

    def channel_gains_db(self, users: Ints) -> Floats | None:
        """Return the gain of each user's link on each frequency channel above `gain_db`, in dB, ``[n, channels]``.

        They do not change with time.  `gain_db` is their mean, that of signals without a channel.  ``None``: the gain
        is the same on all channels.
        """
        return None


class StaticGain(LinkGain):
    """One gain for each user that does not change with time.

    Args:
        gain_db: gains in dB, ``[users]``.

    Attributes:
        all_db: the gains of all users.
    """

    def __init__(self, gain_db: ArrayLike) -> None:
        self.all_db: Floats = np.asarray(gain_db, float)

    def gain_db(self, users: Ints, time_s: ArrayLike) -> Floats:
        return self.all_db[users]

    def peak_db(self, users: Ints) -> Floats:
        return self.all_db[users]


class BlockGain(LinkGain):
    """Block fading: one draw for each user and each coherence time.  Block k of all users starts at k coherence times.

    Args:
        draw_db: ``draw_db(users, blocks)`` returns the gains in dB, ``[n]``.
        coherence_s: length of a block.
        peak_db: gain that is exceeded with a probability under 1e-9.
    """

    def __init__(
        self,
        draw_db: Callable[[Ints, NDArray[np.uint64]], Floats],
        coherence_s: float,
        peak_db: float,
    ) -> None:
        self._draw_db = draw_db
        self._coherence_s = coherence_s
        self._peak_db = peak_db
        self._drawn_ahead: dict[int, tuple[int, Floats]] = {}  # of a user, the first block and the gains from it on

    @property
    def hold_s(self) -> float:
        return self._coherence_s

    def gain_db(self, users: Ints, time_s: ArrayLike) -> Floats:
        if isinstance(time_s, float):
            number = period_of(time_s, self._coherence_s)
            if len(users) == 1:
                return self._single(users, number)
            return self._draw_db(users, np.array(number, np.uint64))
        block = periods_of(time_s, self._coherence_s).astype(np.uint64)
        if len(users) == 1 and block.size == 1:
            return self._single(users, block.item())
        return self._draw_db(users, block)

    def peak_db(self, users: Ints) -> Floats:
        return np.full(len(users), self._peak_db)

    def _single(self, users: Ints, block: int) -> Floats:
        """Return the draw of one user; for successive blocks, several are drawn at once and kept."""
        user = int(users[0])
        first_block, gains_db = self._drawn_ahead.get(user, (-_AHEAD, _NO_DRAWS))
        if not 0 <= block - first_block < len(gains_db):
            is_successive = 0 <= block - first_block < 2 * _AHEAD
            if len(self._drawn_ahead) >= _MAX_CACHED:
                self._drawn_ahead.clear()
            if is_successive:
                blocks = np.arange(block, block + _AHEAD, dtype=np.uint64)
                users = np.full(_AHEAD, user)
            else:  # the user may not be asked again for long
                blocks = np.array([block], np.uint64)
            first_block = block
            gains_db = self._draw_db(users, blocks)
            self._drawn_ahead[user] = first_block, gains_db
        return gains_db[block - first_block : block - first_block + 1]


class _MovingGain(LinkGain):
    def __init__(self, layout: Layout, loss_db: LinkLoss, min_loss_db: MinLoss) -> None:
        self._layout = layout
        self._loss_db = loss_db
        self._min_loss_db = min_loss_db

    def gain_db(self, users: Ints, time_s: ArrayLike) -> Floats:
        return -self._loss_db(users, self._layout.distances_m(users, time_s))

    def peak_db(self, users: Ints) -> Floats:
        return -self._min_loss_db(users)


def distance_gain(layout: Layout, loss_db: Callable[[Floats], Floats], min_loss_db: float | None = None) -> LinkGain:
    """Return the gains of links whose loss follows from their distance, computed once if no user moves.

    Args:
        layout: positions of users and towers.
        loss_db: the loss in dB, positive where a signal becomes weaker, at each distance in m, ``[n]``; finite from
            distance 0 on.
        min_loss_db: the smallest loss; by default the loss at distance 0.
    """
    bound = None if min_loss_db is None else lambda users: np.full(len(users), min_loss_db)
    return link_gain(layout, lambda _, distance_m: loss_db(distance_m), bound)


def link_gain(layout: Layout, loss_db: LinkLoss, min_loss_db: MinLoss | None = None) -> LinkGain:
    """Return the gains of links whose loss follows from the user and the distance; see `distance_gain`."""
    if not layout.moving:
        return StaticGain(-loss_db(np.arange(layout.users), layout.distance_m))
    return _MovingGain(layout, loss_db, min_loss_db or (lambda users: loss_db(users, np.zeros(len(users)))))


__getattr__ = exported_models(__name__)
