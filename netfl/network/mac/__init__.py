'''The MAC family: how the users of one cell share its medium.

A MAC is one SimPy process per cell, written as a generator over a `netfl.network.radio.cell.Cell`: wait until a user
has a frame, decide which users send, let them send, repeat.  A frame is an update, a segment of one, or a packet.  The
MAC keeps its state in local variables, as arrays over the cell's users, which are numbered 0 … ``cell.size - 1``.

**To write a MAC**, derive a class from `Mac` and define `Mac.serve` and ``laws``; the fields of the class are its YAML
keys.  All other members have defaults.  `Mac.serve` uses these members of the cell:

- ``cell.ready_s``: time from which each user has a frame, ``[size]``, in s; infinity if it has none.  Values may lie in
  the future, because the end of a training is known in advance.
- ``cell.backlog()``: users that have a frame now and are not sending.
- ``yield cell.wait_for_backlog()``: wait until there is a backlog.  If there is one, no time passes: each pass of the
  loop must also attempt, or wait for a time or a slot.
- ``received = yield cell.attempt(users)``: let these users send at once, and wait until they end.  ``received``
  is true for each user whose frame was received.  Users that failed stay in the backlog; a user that is disconnected
  leaves it until it is up again.  Options:

  - ``duration_s``: time on the air; by default the airtime of each frame.
  - ``limit``: attempts that a frame has; by default no limit.
  - ``channel``, ``mode`` (of the reception): one for all users, or an array.  A MAC whose channels are at several
    frequencies states them in `Mac.channels_hz`.
  - ``begin_s``: exact start of the slot, for slotted MACs: the rounding of consecutive slots does not add up.
  - ``share``: fraction of the band that each user has to itself: nobody interferes, and each has that fraction of the
    rate and of the noise.  One for all or an array.  A MAC that uses it states `Mac.divides_band` and
    `Mac.share_bounds`.  The radio of a user may be narrower than the band: no share is above
    ``cell.max_shares(users)``.  ``cell.band_snr_db(users)`` is the SNR in the whole band.
  - ``spectrum``: places of these shares in the band, of `netfl.network.radio.spectrum`, which matter if
    ``cell.shares_air``; by default side by side in the lowest parts of ``cell.free_spectrum()``.

  - ``power_db``: power of each frame above that of the radio, at most 0; a MAC that uses it states `Mac.sets_power`.
    By default the power control of the network decides.
  - ``slot``: a `netfl.network.radio.reserved_slot.ReservedSlot` of a schedule, which begins at the tower and comes
    again in each period.  A frame that outlasts it continues in the next ones.  The sender begins
    ``cell.delays_s(users)`` before.
  - ``is_group=True``: the tower lets these users send at once, and they choose their rates for the interference of each
    other.  A MAC that uses it states `Mac.sends_groups`.

- Attempts may overlap: without ``yield``, a MAC starts an attempt and does not wait for its end.  Frames on the same
  channel at the same time interfere.  The medium decides the outcome: all collide, the strongest is captured, or each
  is compared with its SINR threshold.  A user has one frame on the air at a time.
- A frame ends when all of it has arrived at the tower, propagation delay included.  Where users send independently, do
  not wait for the ends of others: they may come after the next slot begins.  ``cell.clear_s`` is the time at which the
  last frame on the air ends.
- ``cell.changes()``: users whose ``ready_s`` is new, or whose attempt failed, since the last call.  ``yield
  cell.wait_for_change(by_s)``: wait for such a change, or until *by_s*.  A MAC that plans ahead from ``ready_s`` uses
  both.
- ``cell.sizes(users)``: bits of the next frames; a single value if all are equal.
- Values of users that the MAC has declared in `Mac.observes`, as they are now.  To read another ends the run with an
  error.

  - ``snr_db``: ``cell.snr_db(users)``.
  - ``rate_bps``: ``cell.modes(users)``, the mode in which each would send, and ``cell.airtimes_s(users)`` of the next
    frames.
  - ``user_up``: ``cell.connected(users)``, whether each and the tower, or another that hears it, are up.
  - ``backlog``: ``cell.backlog_lengths()``, the frames of each user, behind its next one, too.

- ``cell.user_metrics``: metrics of users that `Mac.user_metrics` requests (``norm``, ``loss``, ``age``), updated when a
  round opens: one array ``[size]`` per name, NaN where unknown; empty before the first update.  No others are given.
- Slots: slot k begins at k · slot_s.  ``cell.next_slot(slot_s, after=k)`` is the first slot after slot k that has not
  begun, and ``yield cell.wait_until(slot * slot_s)`` waits for it; neither is disturbed by the rounding of the clock.
  Frames that end as the slot begins have ended after that wait.
  ``cell.ready_slots(users, slot_s)`` are the slots from which users have their frames.
- Where users send independently, `netfl.network.mac._slotted.SlottedCell.serve` and
  `netfl.network.mac._unslotted.UnslottedCell.serve` are the whole loop.
- ``cell.devices``: what the MAC knows of its users that is theirs, such as a duty cycle or a backoff, so that it goes
  along when they move to other towers.  Set it to a `netfl.network.radio.device_state.DeviceState`; without one, users
  that come are as the MAC knows their numbers.  ``cell.is_present`` has the users that are at the tower.
- ``cell.jamming``: the jammer of the network, or ``None``.  Users that listen before they send find the medium busy
  while ``cell.jamming.timeline.is_busy(start_s, end_s)``; ``cell.jammer_dbm()`` is its power at each user.  All other
  MACs need not know of it.
- ``cell.give_up(user)``: end the frame of a user that has never found the medium free.  A MAC that uses it states
  `Mac.can_fail_access`.
- ``cell.streams``: random streams of the cell.  ``cell.streams.rng(name)`` is a NumPy generator; `BufferedDraws` keeps
  the draws of each user apart.  ``cell.env``: the clock; ``cell.ids``: numbers of the users in the network.

**What a MAC states.**  Three statements are tested for every MAC of netfl:

- `Mac.idle_time`: what the time does in which nobody has anything to send; by default nothing.
- `Mac.repeats_alike`: whether frames that have collided meet again at each repeat; by default not.
- `Mac.has_fixed_order`: whether users that are equal in all else are served by their numbers; by default not.  A MAC
  that selects the best user decides ties by `TieBreaker`.

`Mac.observer` states who reads the values that it observes: the ``tower``, by default, or the ``users``, each its own.
A tower that reads them without `Mac.observation_s`, the time that it takes to get them, sees what no real tower can:
`netfl check` warns of that.  Not declared are who has a frame and from when, the sizes of frames, the outcomes of the
MAC's own attempts, and the settings by a caller: a user knows them of itself, and a tower that polls a user or has
heard it learns them.  ``cell.ready_s`` of the future is for the plans of users; a scheduler should not rank by it.

`Mac.airtime_faults` yields a `netfl.errors.Fault` for each problem: ``Fault(key, problem, value, remedy)``, where the
key is the one below ``mac``.  `Mac.laws` states what the draws follow and how to measure it; the cell of
`netfl.network.radio.bench` is made for that.

A complete MAC, which polls the users of the backlog in turn::

    class Polling(Mac):
        """A tower that polls the users of the backlog in turn.

        Example::

            kind: mylab.polling:Polling
            poll: 1 ms
        """

        has_fixed_order = True  # the next number is next

        poll: Annotated[Seconds, Field(ge=0)] = 0.001
        """Duration of one poll."""

        def serve(self, cell):
            turn = 0
            while True:
                yield cell.wait_for_backlog()
                backlog = cell.backlog()
                turn = min(backlog, key=lambda user: (user - turn - 1) % cell.size)
                yield cell.env.timeout(self.poll)
                if turn in cell.backlog():  # its frame was not replaced or lost during the poll
                    yield cell.attempt(np.array([turn]))

        def laws(self):
            return (Law.none("draws nothing"),)

`docs/howto/mac.md` has a complete MAC in slots, with random draws, a check of its slot, and a property.
'''

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.errors import Fault
from netfl.network.channel import Channel
from netfl.network.layout import Layout
from netfl.network.radio.cell import Cell
from netfl.network.radio.radios import Radio
from netfl.network.radio.receiver import ReceiverLimits
from netfl.network.reception import Reception
from netfl.types import QUERIES, Floats, Ints

_BLOCK = 16
"""Draws of a user that are generated at once."""
_MAX_BUFFERED = 50_000
"""Numbers that are generated in advance for all users of a cell; in a large cell each user needs few of them."""


_EQUAL = 1e-12
"""Difference of two values, relative to the larger and to 1, up to which they are equal."""

CELL_VALUES = ("backlog", "rate_bps", "snr_db", "user_up")
"""Present values of users that a MAC can observe, of `netfl.types.OBSERVATIONS`."""

IdleTime = Literal["no_effect", "expires"]
"""Effect of idle time on a MAC, see `Mac.idle_time`."""


@dataclass(frozen=True, slots=True)
class ShareBounds:
    """Smallest and largest fraction of the band that each user ever has to itself, ``[users]`` each.

    A smallest one of 0 has no lower bound.
    """

    smallest: Floats
    largest: Floats


class Mac(Spec):
    """Base class of all MACs."""

    has_fixed_order: ClassVar[bool] = False
    """True if the numbers of users decide the order in which equal users are served, as in a schedule or a rotation."""

    sets_power: ClassVar[bool] = False
    """True if it gives frames powers, ``power_db`` of `netfl.network.radio.cell.Cell.attempt`."""

    makes_sums: ClassVar[bool] = False
    """True if all users with an update send at once, and the MAC ends those that a sum in the air leaves out."""

    takes_whole_slots: ClassVar[bool] = False
    """True if a frame that outlasts its slot takes further ones, so that the last one is not filled."""

    sends_groups: ClassVar[bool] = False
    """True if it lets several users of a cell send at once on one channel, of whom all should be received.  It needs an
    interference with `netfl.network.interference.Interference.receives_several`."""

    def usual_groups(self, mean_snr_db: Floats) -> list[Ints]:
        """Return the users that it lets send at once where all of a cell have something to send, by their places.

        It matters with `sends_groups`, and fits links that have their mean SNRs, ``[n]``.
        """
        return []

    @property
    def needs_full_power(self) -> bool:
        """True if it takes the power of each frame for that of the radio, so that no ``power_control`` may lower it."""
        return False

    @property
    def needs_fixed_towers(self) -> bool:
        """True if what it knows of its users cannot move with them to other towers, so that they have to stay."""
        return False

    @property
    def idle_time(self) -> IdleTime:
        """Effect of the time in which no user of the cell has a frame to send or on the air.

        - ``no_effect``: none.  After a pause of any length, the MAC decides and draws as it would have without it.  In
          a schedule by the clock, this holds for pauses of whole periods.
        - ``expires``: what the MAC remembers expires with the time, at most to the state of its start.  After a long
          pause, a longer one changes nothing.
        """
        return "no_effect"

    @property
    def repeats_alike(self) -> bool:
        """True if users whose frames have collided repeat them together, as nothing is drawn before a repeat.

        They collide again, until one of them has nothing to send; `netfl check` warns of that.
        """
        return False

    @property
    def attempt_limit(self) -> int | None:
        """Attempts after which a frame is given up; ``None`` is no limit."""
        return None

    @property
    def receiver_limits(self) -> ReceiverLimits | None:
        """Limits of what a tower receives at once; ``None`` for none.  A frame must be sent in one piece."""
        return None

    @property
    def tower_answers(self) -> bool:
        """True if towers send frames of the MAC to users, such as acknowledgements."""
        return False

    @abstractmethod
    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Control the medium of *cell* for the whole run."""

    @property
    def rate_bps(self) -> float | None:
        """Bit rate of its frames, the lowest where there are several; ``None`` leaves it to the reception."""
        return None

    @property
    def rates_bps(self) -> tuple[float, ...]:
        """Bit rates that its frames can have, where it sets them; empty if it leaves them to the reception."""
        return () if self.rate_bps is None else (self.rate_bps,)

    @property
    def sets_modes(self) -> bool:
        """True if it sends each frame in the mode of the reception that has the rate of the frame."""
        return False

    @property
    def max_payload_bits(self) -> float | None:
        """Largest payload of one frame; ``None`` is no limit.  Larger updates are sent in segments."""
        return None

    @property
    def bandwidth_hz(self) -> float | None:
        """Bandwidth that its airtimes assume, which the radio must match; ``None`` leaves it to the radio."""
        return None

    def channels_hz(self, bandwidth_hz: float) -> Floats | None:
        """Return the centre frequency of each of its frequency channels, ``[channels]``; ``None`` for one channel.

        Gains and noise may differ between them.  A common offset of the frequencies has no effect.

        Args:
            bandwidth_hz: largest bandwidth of a user's radio.
        """
        return None

    @property
    def codes_per_channel(self) -> int:
        """Number of ``channel`` values of `Cell.attempt` on one frequency channel, such as orthogonal codes.

        The value c is on the frequency channel c // `codes_per_channel`.
        """
        return 1

    @property
    def frequency_keys(self) -> tuple[str, ...]:
        """Dotted names of those of its keys that are set, and have an effect only on gains that differ by frequency."""
        return ()

    @property
    def has_carrier_sense(self) -> bool:
        """True if users listen before they send; they sense the users of their cell only."""
        return False

    @property
    def senses_by_power(self) -> bool:
        """True if users that listen sense only those whose power they receive, so that powers matter to it."""
        return False

    @property
    def can_fail_access(self) -> bool:
        """True if it gives up frames whose users never find the medium free, by `Cell.give_up`; they are counted."""
        return False

    def jammer_faults(self) -> Iterator[Fault]:
        """Yield the errors of this MAC beside a jammer; keys are relative to this model."""
        yield from ()

    @property
    def divides_band(self) -> bool:
        """True if users send at the same time in shares of the band, so that no frames of a cell interfere."""
        return False

    @property
    def shared_air_keys(self) -> tuple[str, ...]:
        """Names of its fields that have an effect only if cells share the air."""
        return ()

    @property
    def has_contention(self) -> bool:
        """False if each user has its share of the band whatever the others of its cell have to send."""
        return True

    @property
    def block_interference_dbm(self) -> Floats | None:
        """Interference from outside of the network in each of its blocks, ``[blocks]``, where the band is blocks.

        Blocks have equal widths.  ``None`` for a band that is no blocks.
        """
        return None

    @property
    def band_hz(self) -> float | None:
        """Width of the band of each cell that it divides; ``None`` for the largest bandwidth of a user's radio."""
        return None

    def share_bounds(self, layout: Layout, limits: Floats) -> ShareBounds | None:
        """Return the shares of the band that users can have; ``None`` if each uses the whole band.

        Args:
            layout: cells and users.
            limits: largest share that the radio of each user can use, ``[users]``.
        """
        return None

    @property
    def control_ranges(self) -> Mapping[str, tuple[float, float]]:
        """Least and largest value of each setting of a user that `netfl.Simulation.step` can change, by its name.

        The MAC reads them from ``cell.controls``, ``[size]`` each, which wake it for all users when they change.
        """
        return {}

    @property
    def user_metrics(self) -> frozenset[str]:
        """Metrics of users that it needs: of `netfl.types.QUERIES`, which close the loop to learning, and ``age``."""
        return frozenset()

    @property
    def observes(self) -> tuple[str, ...]:
        """Values of users that it reads as they are when it decides: of `CELL_VALUES`; other values are not given."""
        return ()

    @property
    def observer(self) -> Literal["tower", "users"]:
        """Reader of the values that it observes.

        - ``tower``: the tower, those of all users of its cell, as a scheduler does.
        - ``users``: each user its own, as in a distributed MAC, which has no scheduler.
        """
        return "tower"

    @property
    def observation_s(self) -> float:
        """Time that a decision by such values takes; with 0, `netfl check` warns of what the tower sees for nothing."""
        return 0.0

    @property
    def declared(self) -> frozenset[str]:
        """Names of the values of users that it may read, `observes` and `user_metrics`, and of those that it sets."""
        settings = {"power_db"} if self.sets_power else set()
        return frozenset(self.observes) | self.user_metrics | settings

    @property
    def needs_learner_metrics(self) -> bool:
        """True if it needs metrics that learners compute."""
        return bool(self.user_metrics & {*QUERIES})

    def max_airtime_s(self, bits: float, slowest_bps: float) -> float:
        """Return the longest possible airtime of a frame, in s.

        Args:
            bits: payload of the frame.
            slowest_bps: rate of the slowest mode of the reception, for a MAC that does not set the rate itself.
        """
        return bits / (self.rate_bps or slowest_bps)

    def frame_times_s(self, bits: float, snr_db: Floats, airtime_s: Floats) -> tuple[Floats, Floats]:
        """Return the airtime of a frame, and the least time from its start to that of the next, ``[n]`` each, in s.

        Args:
            bits: payload of the frame.
            snr_db: SNR of each user, ``[n]``; infinity without a radio.
            airtime_s: its airtime in the mode that the reception chooses, ``[n]``.
        """
        if self.rate_bps is not None:
            airtime_s = np.full(len(snr_db), bits / self.rate_bps)
        return airtime_s, airtime_s

    def turn_s(self, users: int, slowest_s: float) -> float:
        """Return the time from one turn of a user to its next, where each has one frame in each; 0 without such turns.

        Args:
            users: number of users of the cell.
            slowest_s: airtime of the largest frame at the lowest rate.
        """
        return 0.0

    def max_frames_hz(self, airtime_s: float, longest_s: float, delay_s: float) -> float:
        """Return an upper bound on the frames per second that leave a cell in the long run; infinity if there is none.

        The bound may assume that one frame at a time is received on a channel.

        Args:
            airtime_s: lower bound on the mean airtime of a frame.
            longest_s: airtime of the longest frame.
            delay_s: largest propagation delay of a signal.
        """
        return math.inf

    def reception_faults(self, reception: Reception) -> Iterator[Fault]:
        """Yield the errors of a *reception* that this MAC cannot use; keys are relative to the reception."""
        yield from ()

    def radio_faults(
        self, radio: Radio | None, channels: Sequence[Channel], reception: Reception | None
    ) -> Iterator[Fault]:
        """Yield the errors of this MAC with the radio parts of a network; keys are relative to this model."""
        yield from ()

    def late_frame_warnings(self, mean_s: float, longest_s: float, delay_s: float) -> Iterator[str]:
        """Yield warnings about frames that end later than the MAC expects.

        Args:
            mean_s: airtime of a frame of the mean size, in the slowest mode of the reception.
            longest_s: airtime of the largest frame in this mode; infinity if sizes have no upper limit.
            delay_s: largest propagation delay of a signal.
        """
        yield from ()

    def warnings(self, fastest_s: float, slowest_s: float) -> Iterator[str]:
        """Yield warnings about settings that are valid but rarely intended.

        Args:
            fastest_s: airtime of the largest frame in the fastest mode of the reception.
            slowest_s: airtime of the largest frame in the slowest mode.
        """
        yield from ()

    def notes(self, users: int, max_selected: int) -> Iterator[str]:
        """Yield sentences on what its settings give a user, which `netfl check` prints.

        Args:
            users: number of users of the largest cell.
            max_selected: largest number of them that take part in a round.
        """
        yield from ()

    def link_warnings(self, bits: float, mean_snr_db: Callable[[], Floats]) -> Iterator[str]:
        """Yield warnings about users whose frames cannot be received in the mode that the MAC sets.

        Args:
            bits: payload of the largest frame.
            mean_snr_db: computes the mean SNR of each user, ``[users]``.
        """
        yield from ()

    def airtime_faults(self, airtime_s: float) -> Iterator[Fault]:
        """Yield the errors of a scenario in which one update takes *airtime_s*; keys are relative to this model.

        It is that of the largest frame in the slowest mode of the reception; infinity if rates follow the SNR.
        """
        yield from ()

    def layout_faults(self, layout: Layout) -> Iterator[Fault]:
        """Yield the errors of a scenario with these cells and users; keys are relative to this model."""
        yield from ()


class TieBreaker:
    """Choice among users of equal merit: a uniform draw for each user and tie, whatever the numbers of the users."""

    def __init__(self, cell: Cell) -> None:
        self._draws = cell.streams.field("tie")
        self._ids = cell.ids
        self._ties = 0  # that a draw has decided

    def pick_largest(self, users: Ints, merit: Floats) -> int:
        """Return the one of *users* with the largest merit, ``[n]``; one at random of those with an equal merit."""
        best = float(merit.max())
        slack = _EQUAL * max(1.0, abs(best)) if math.isfinite(best) else 0.0  # infinite values are equal exactly
        tied = users[merit >= best - slack]
        if len(tied) == 1:
            return int(tied[0])
        draws = self._draws.uniform(self._ids[tied], self._ties)
        self._ties += 1
        return int(tied[draws.argmax()])


class BufferedDraws:
    """The sequence of draws of each user of a cell, independent of when other users draw.

    Some draws of a user are generated at once, and up to `_MAX_BUFFERED` of all users; their number changes no draw.

    Args:
        draw: ``draw(ids, index)`` returns the index-th draw of each user, for arrays of one shape.
        ids: numbers of the users in the network.
    """

    def __init__(self, draw: Callable[[Ints, Ints], NDArray[Any]], ids: Ints) -> None:
        self._draw = draw
        self._ids = ids
        self._count = np.zeros(len(ids), np.int64)  # draws that each user has taken
        self._block = min(_BLOCK, max(1, _MAX_BUFFERED // max(1, len(ids))))
        self._buffer = np.empty((len(ids), self._block))  # the block of draws that each user takes from

    def next(self, users: Ints) -> Floats:
        """Return the next draw of each of *users*, ``[n]``."""
        count = self._count[users]
        offset = count % self._block
        is_used_up = offset == 0
        if is_used_up.any():
            refilled = users[is_used_up]
            index = self._count[refilled][:, None] + np.arange(self._block)
            ids = np.broadcast_to(self._ids[refilled][:, None], index.shape)
            self._buffer[refilled] = self._draw(ids, index)
        self._count[users] = count + 1
        return np.asarray(self._buffer[users, offset])

    def next_of(self, user: int) -> float:
        """Return the next draw of one user."""
        count = int(self._count[user])
        offset = count % self._block
        if offset == 0:
            index = np.arange(count, count + self._block)
            self._buffer[user] = self._draw(np.full(self._block, self._ids[user]), index)
        self._count[user] = count + 1
        return float(self._buffer[user, offset])


__getattr__ = exported_models(__name__)
