"""Frequency division: users send at the same time, each in its share of the band."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Annotated, Any, Literal

import numpy as np
import simpy
from pydantic import Field, model_validator

from netfl.core.spec import OnlyWith
from netfl.core.spec_errors import PerUser
from netfl.errors import Fault, ScenarioError
from netfl.network._band_division import BandRequest, divide_in_proportion, fill_water, finish_together
from netfl.network.layout import Layout
from netfl.network.mac import Mac, ShareBounds
from netfl.network.mac._unslotted import collapse_if_equal
from netfl.network.radio.bench import BenchSetup, MacTestBench, saturated_users
from netfl.network.radio.cell import Cell
from netfl.network.radio.spectrum import WHOLE_BAND, Spectrum
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law, ScenarioFacts
from netfl.units import Bandwidth, DecibelMilliwatts

_LAW_USERS = 5
_NO_BLOCK = -1
"""Block of a user that has none."""
_ROUNDING = 1e-9
"""Amount by which shares may exceed the band, as rounding."""


class Fdma(Mac):
    """Users send at the same time, each in its share of the band (frequency-division multiple access, FDMA).

    In a share s of the band B, a user has s times the rate of the mode that it picks, and s times the noise at its full
    power: its SNR is snr / s, 7 dB more in a fifth of the band.  At capacity, as with the reception ``shannon`` without
    ``rate``, it sends s B log2(1 + snr / s) bit/s.  Shares do not overlap, so that no frames of a cell collide; a share
    holds for a whole frame.

    ``band`` is B, the band of each cell.  A radio of the bandwidth B_i < B uses a share of at most B_i / B, whatever
    the division.  What is left over is divided among the others by the same rule, and is idle if all are at their
    limits: of 5 MHz, equal shares of radios of 1, 5 and 5 MHz are 1, 2 and 2 MHz.  A radio that is wider than the band
    uses a part of its own bandwidth.  Rates of modes are those of the radio: a mode of 1 Mbit/s in B_i has w / B_i of
    that in a width w.

    ``division`` gives the shares; snr_i and bits_i are the SNR of user i in the whole band and the size of its frame:

    - ``equal``: 1/n for each of n users, those of ``among``.  To give each of the m users of a round B/m until its
      end, set ``division: allocated`` and the network's ``allocation: equal``.
    - ``given``: those in ``shares``, whoever else sends.
    - ``allocated``: those that the network's ``allocation``, or the caller of `netfl.Simulation.step`, gives as a round
      opens (``controls={"share": …}``); equal until then.  A user with a share of 0 takes no part in the round, and
      sends nothing.  An allocation divides the part of the band that frames of users without a new share leave free.
      Where frames of former shares are on the air, and the band does not hold them and the new ones, the new ones wait
      until it does.
    - ``blocks``: the band is R blocks of equal width, one for each power in ``interference``, which others that are not
      part of the network have at the towers in this block.  An ``allocation`` assigns the blocks, one user each and one
      to a user, as a round opens.  A frame of a former round delays the user that has its block now.  In a block with
      the interference I a user has the SINR P h / (I + B N_0 / R), from which it sets its rate where the rates follow
      the SNR.
    - ``need``: all frames of a division end at the same time T, as early as possible: Σ s_i = 1, where bits_i = T s_i B
      log2(1 + snr_i / s_i).  A frame that has all of its radio's bandwidth may end later.  Under a reception with
      modes, s_i is in proportion to the airtime of the frame in the whole band; a user that picks a faster mode in its
      share ends earlier.
    - ``water_filling``: s_i = snr_i / Σ snr_j, which makes the sum of the rates as large as it can be, B log2(1 + Σ
      snr_j).  Narrow radios have s_i = min(B_i / B, snr_i / μ), with μ for a sum of 1.  Users with a weak signal have
      small shares and send for a long time.

    ``among`` says who has shares, and so what idle time and users that join or leave do to them:

    - ``users``: all users of the cell, all the time, selected and connected or not.  A user sends as soon as it has a
      frame.  The share of one without a frame stays idle: a user that joins or leaves the backlog changes no share.  n
      saturated users with shares s_i each send every T / s_i, where a frame of the whole band takes T.
    - ``backlog``: the users that have a frame when the band is free.  The tower divides the band among them, and again
      when all of their frames have ended.  A user that has a frame later waits until then, and shares whose frames have
      ended stay idle.  A user that is cut off has no share.

    With ``shared_air``, cells have one band, and the place of each share in it matters.  Frames of two cells interfere
    in the part of the band that both have: a frame j of the power P_j in a width w_j has the density P_j / w_j, and so
    the power P_j o_ij / w_j in its overlap o_ij with the share of i.  The SINR of i is that of its whole share.
    ``placement`` gives the places, beside those of frames that are on the air: ``random``, each frame or division in an
    order that the tower draws, with the idle rest of the band at a place that it draws, too; ``ordered``, side by side
    from the lower edge of the band, in the order of the users' numbers.  Where what is free is not in one piece, a
    frame may have several parts.  Blocks have the places of their numbers.  Rates and divisions do not know the
    interference of other cells: give the reception a ``margin``, or repeats.

    Idle time changes nothing: a division depends on the users that have a frame, and on their present SNR.
    One user has the whole band, as in ``round_robin`` without polls.  To divide the band among the backlog, the tower
    knows at once and without cost the sizes of frames and who is up, and for ``need`` and ``water_filling`` the SNRs.
    A. Goldsmith, "Wireless Communications", 2005, §14.2.1; ``water_filling``: R. S. Cheng and S. Verdú, IEEE Trans.
    Inf. Theory 39(3), 1993.

    Example::

        kind: fdma
        division: equal
        max_attempts: 20
    """

    division: Literal["equal", "given", "allocated", "blocks", "need", "water_filling"] = "equal"
    """Rule of the shares."""
    band: Annotated[
        Annotated[Bandwidth, Field(gt=0)] | None,
        OnlyWith("division", "equal", "given", "allocated", "need", "water_filling"),
    ] = None
    """B, the width of the band that the users of each cell divide; ``null`` is the largest bandwidth of a user's radio.
    Blocks divide that of the radio, which all users then have."""
    placement: Annotated[
        Literal["random", "ordered"], OnlyWith("division", "equal", "given", "allocated", "need", "water_filling")
    ] = "random"
    """Place of each share in the band, with ``shared_air``: drawn, or from the lower edge by the numbers of users."""
    interference: Annotated[
        tuple[DecibelMilliwatts, ...] | None, OnlyWith("division", "blocks", needed=True), Field(min_length=1)
    ] = None
    """I, the power of the interference from outside of the network in each block of the band."""
    shares: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...] | None, OnlyWith("division", "given", needed=True), PerUser()
    ] = None
    """Fraction of the band of each user, in the order of their numbers; those of a cell add up to at most 1, and none
    is wider than the radio of the user."""
    among: Literal["users", "backlog"] | None = None
    """Users that have shares: all ``users`` of the cell, or those of the ``backlog`` when the band is free; ``null`` is
    ``backlog``, but ``users`` for ``given``; only ``equal`` allows both."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""

    @model_validator(mode="after")
    def _check_among(self) -> Fdma:
        if self.among == "users" and self.division in {"need", "water_filling"}:
            raise ValueError(
                f"division: {self.division} follows the frames that wait, so that among: users has no meaning; leave "
                "among out"
            )
        if self.among == "backlog" and (self.division == "given" or self.is_allocated):
            raise ValueError(
                f"division: {self.division} holds whoever else sends, so that among: backlog has no meaning; leave "
                "among out"
            )
        return self

    @property
    def attempt_limit(self) -> int | None:
        return self.max_attempts

    @property
    def observes(self) -> tuple[str, ...]:
        if self.is_fixed or self.is_allocated:
            return ()
        if self.division == "equal":  # among the users of the backlog that are up
            return ("user_up",)
        if self.division == "need":
            return ("snr_db", "rate_bps", "user_up")
        return ("snr_db", "user_up")

    @property
    def divides_band(self) -> bool:
        return True

    @property
    def band_hz(self) -> float | None:
        return self.band

    @property
    def shared_air_keys(self) -> tuple[str, ...]:
        return ("placement",)

    @property
    def has_contention(self) -> bool:
        return self.division != "given"

    @property
    def control_ranges(self) -> dict[str, tuple[float, float]]:
        if self.division == "allocated":
            return {"share": (0.0, 1.0)}
        return {}

    @property
    def block_interference_dbm(self) -> Floats | None:
        if self.interference is None:
            return None
        return np.array(self.interference)

    @property
    def is_allocated(self) -> bool:
        """True if users get their shares as a round opens."""
        return self.division in {"allocated", "blocks"}

    @property
    def is_fixed(self) -> bool:
        """True if each user has one share all the time, whatever others do."""
        return self.division == "given" or self.among == "users"

    def max_frames_hz(self, airtime_s: float, longest_s: float, delay_s: float) -> float:
        """Return the rate of a user that has the whole band, in the fastest mode, if no frame is given up."""
        if self.max_attempts is not None:  # frames that are given up leave, too
            return np.inf
        return 1.0 / airtime_s

    def share_bounds(self, layout: Layout, limits: Floats) -> ShareBounds:
        if self.shares is not None:
            given = np.array(self.shares)
            return ShareBounds(given, given)
        if self.interference is not None:
            block = np.full(layout.users, 1.0 / len(self.interference))
            return ShareBounds(block, block)
        equal = np.zeros(layout.users)
        for tower in range(len(layout.towers)):
            in_cell = np.flatnonzero(layout.tower_at_start == tower)
            equal[in_cell] = _equal_shares(limits[in_cell])
        if self.is_fixed:
            return ShareBounds(equal, equal)
        smallest = np.zeros(layout.users)
        if self.division == "equal":  # among the backlog
            smallest = equal
        return ShareBounds(smallest, limits)

    def notes(self, users: int, max_selected: int) -> Iterator[str]:
        if self.division == "given":
            yield "band: each user has its share of access.mac.shares all the time, whether it sends or not"
        elif self.division == "blocks":
            yield "band: a user has one block of access.mac.interference, which the allocation assigns as a round opens"
        elif self.division == "allocated":
            yield (
                "band: each user has the share that an allocation, or a caller, gives it as a round opens; with "
                f"allocation: equal, {_equal_share(max_selected)}"
            )
        elif self.is_fixed:
            idle = ""
            if max_selected < users:
                idle = f"; {users - max_selected} or more take no part in a round, and their shares stay idle"
            yield f"band: {_equal_share(users)} of a cell all the time, whether it sends or not (among: users){idle}"
        elif self.division == "equal":
            shares = "all of it for one user"
            if max_selected > 1:
                shares = f"{_equal_share(max_selected)}, all of it for one"
            yield (
                "band: the tower divides it equally among the users that have a frame when it is free (among: backlog)"
                f": {shares}"
            )
        else:
            yield (
                "band: the tower divides it among the users that have a frame when it is free "
                f"(division: {self.division}), all of it for one"
            )

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.shares is not None and len(self.shares) != facts.users:
            problem = f"{len(self.shares)} shares for {facts.users} users"
            yield Fault("shares", problem, None, "give one for each user, in the order of their numbers")

    def layout_faults(self, layout: Layout) -> Iterator[Fault]:
        if self.shares is None:
            return
        in_cell = np.bincount(layout.tower_at_start, weights=self.shares, minlength=len(layout.towers))
        if in_cell.max() <= 1.0 + _ROUNDING:
            return
        worst = int(in_cell.argmax())
        problem = f"the shares of the users of {layout.towers[worst]} add up to more than the band"
        yield Fault("shares", problem, float(f"{in_cell[worst]:.6g}"), "give fractions that add up to at most 1")

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        if self.is_allocated:
            return self._serve_allocated(cell)
        if self.is_fixed:
            return self._serve_fixed(cell)
        return self._serve_backlog(cell)

    def _serve_fixed(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Let each user send in its share as soon as it has a frame; do not wait for the ends.

        When users have come or left, shares are those of the users that are present.  Frames on the air keep theirs;
        new ones wait until they fit beside them.

        Raises:
            ScenarioError: the shares of the users that have come together add up to more than the band.
        """
        is_present = cell.is_present
        shares = self._fixed_shares(cell)
        placement = _Placement(cell, self.placement, shares)
        has_moved = False
        while True:
            cell.changes()  # discard them: the backlog shows all that matters here
            if cell.is_present is not is_present:
                is_present = cell.is_present
                shares = self._fixed_shares(cell)
                placement.change_shares()
                has_moved = True
            backlog = cell.backlog()
            if not backlog.size:
                yield cell.wait_for_backlog()
                continue
            if has_moved:
                needed = float(cell.shares_on_air().sum()) + float(shares[backlog].sum())
                if needed > 1.0 + _ROUNDING:
                    yield cell.wait_for_change()
                    continue
            cell.attempt(
                backlog,
                limit=self.max_attempts,
                share=collapse_if_equal(shares[backlog]),
                spectrum=placement.of(backlog, shares[backlog]),
            )

    def _fixed_shares(self, cell: Cell) -> Floats:
        """Return the share that each user that is present has whatever others do, ``[size]``; 0 for the others."""
        if self.shares is None:
            return _equal_shares_of_present(cell)
        shares = np.where(cell.is_present, np.array(self.shares)[cell.ids], 0.0)
        _check_total(cell, shares, "shares")
        return shares

    def _serve_allocated(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Let each user send in its present share, if the frames on the air leave the band for all that wait.

        Raises:
            ScenarioError: the shares add up to more than the band.
        """
        no_blocks = np.full(cell.size, _NO_BLOCK)
        last_shares = np.zeros(cell.size)  # with which each user last began to send
        last_blocks = no_blocks.copy()
        placement = _Placement(cell, self.placement)
        while True:
            cell.changes()
            shares = _allocated_shares(cell)
            blocks = cell.controls.get("block", no_blocks)
            is_sending = cell.transmit_path.is_sending()
            backlog = cell.backlog()
            backlog = backlog[shares[backlog] > 0.0]
            if self.division == "blocks":  # a frame of a former round delays its own block alone
                is_delayed = np.isin(blocks[backlog], last_blocks[is_sending])
                backlog = backlog[~is_delayed]
            if not backlog.size:
                later_s = cell.ready_s[(shares > 0.0) & (cell.ready_s > cell.env.now)]
                yield cell.wait_for_change(float(later_s.min(initial=np.inf)))
                continue
            needed = float(last_shares[is_sending].sum()) + float(shares[backlog].sum())
            if needed > 1.0 + _ROUNDING:  # frames of former shares have to end
                yield cell.wait_for_change()
                continue
            last_shares[backlog] = shares[backlog]
            last_blocks[backlog] = blocks[backlog]
            if self.division == "blocks":
                spectrum = placement.of_blocks(blocks[backlog], shares[backlog])
            else:
                spectrum = placement.of(backlog, shares[backlog])
            share = collapse_if_equal(shares[backlog])
            cell.attempt(backlog, limit=self.max_attempts, share=share, spectrum=spectrum)

    def _serve_backlog(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Divide the band among the users of the backlog, and again when their frames have ended."""
        placement = _Placement(cell, self.placement)
        while True:
            cell.changes()
            backlog = cell.backlog()
            if not backlog.size:
                yield cell.wait_for_backlog()
                continue
            users = np.array(cell.drop_silent(backlog.tolist()), np.int64)
            if not users.size:
                continue  # the others have left the backlog until they are up
            shares = self._divide(cell, users)
            spectrum = placement.of(users, shares)
            yield cell.attempt(users, limit=self.max_attempts, share=collapse_if_equal(shares), spectrum=spectrum)

    def _divide(self, cell: Cell, users: Ints) -> Floats:
        """Return the share of each of *users*, ``[n]``."""
        limits = cell.max_shares(users)
        if self.division == "equal":
            return _equal_shares(limits)
        if self.division == "need" and not cell.follows_snr:
            return divide_in_proportion(cell.band_airtimes_s(users), limits)
        bits = np.broadcast_to(np.array(cell.sizes(users), float), len(users))
        request = BandRequest(cell.band_snr_db(users) - cell.snr_gap_db, bits, limits)
        if self.division == "need":
            return finish_together(request)
        return fill_water(request)

    def laws(self) -> tuple[Law, ...]:
        """Claim the time between the frames of a user of share s, for frames that take T in the whole band: T / s.

        The cell has no noise, so that the divisions of the backlog are equal.
        """
        shares = np.full(_LAW_USERS, 1.0 / _LAW_USERS)
        if self.shares is not None:
            shares = np.array(self.shares)
        users = len(shares)

        def normalised_gaps(streams: Streams, size: int) -> Floats:
            """Return s / T times the time between two frames of a user, rounded to 9 digits."""
            bench = MacTestBench(BenchSetup(self, users, 1.0, streams), saturated_users)
            last_s = np.zeros(users)
            gaps = list[float]()
            place = 0
            while len(gaps) < size:
                bench.env.step()
                for (_, _, received_s), user in zip(bench.deliveries[place:], bench.users[place:], strict=True):
                    gaps.append((received_s - last_s[user]) * shares[user])
                    last_s[user] = received_s
                    place += 1
            return np.round(gaps[:size], 9)

        statement = f"1 for {users} users that always have something to send"
        return (Law("time between frames, in T / s", statement, normalised_gaps, mean=1.0, variance=0.0),)


class _Placement:
    """Places of the shares of a cell in the band; they matter if cells share the air.

    Args:
        cell: the cell.
        rule: ``random`` or ``ordered``.
        lasting_shares: shares of all users that last for the run, ``[size]``; ``None`` if they change.
    """

    def __init__(self, cell: Cell, rule: Literal["random", "ordered"], lasting_shares: Floats | None = None) -> None:
        self._cell = cell
        self._rule = rule
        self._lasting: Spectrum | None = None
        if rule == "ordered" and lasting_shares is not None:
            self._lasting = WHOLE_BAND.place_in_order(lasting_shares)
        self._draws = cell.streams.field("placement")
        self._drawn = 0  # times that an order was drawn

    def change_shares(self) -> None:
        """Place frames beside those on the air from now on, as the shares of the cell change."""
        self._lasting = None

    def of(self, users: Ints, shares: Floats) -> Spectrum | None:
        """Return the places of the *shares* of *users*, ``[n]``, in what is free; ``None`` if they do not matter."""
        cell = self._cell
        if not cell.shares_air:
            return None
        if self._lasting is not None:
            return self._lasting.select(users.tolist())
        free = cell.free_spectrum()
        if self._rule == "ordered":
            return free.place_in_order(shares)
        numbers = np.append(cell.ids[users], cell.tower.number)  # that of the tower stands for what is idle
        keys = self._draws.uniform(numbers, self._drawn)
        self._drawn += 1
        return free.place_by_keys(shares, keys)

    def of_blocks(self, blocks: Floats, shares: Floats) -> Spectrum | None:
        """Return the places of these *blocks*, ``[n]``, which have equal *shares*; ``None`` if they do not matter."""
        if not self._cell.shares_air:
            return None
        return Spectrum.from_edges(blocks * shares, (blocks + 1.0) * shares)


def _equal_share(users: int) -> str:
    """Return the equal share of each of some users as text.

    >>> _equal_share(8)
    '1/8 for each of 8 users'
    """
    return f"1/{users} for each of {users} users"


def _equal_shares(limits: Floats) -> Floats:
    """Return equal shares of users, but for those at their *limits*, ``[n]``."""
    return divide_in_proportion(np.ones(len(limits)), limits)


def _allocated_shares(cell: Cell) -> Floats:
    """Return the share that each user has now, ``[size]``; of a wider one, a radio uses its bandwidth."""
    shares = cell.controls.get("share")
    if shares is None:
        return _equal_shares_of_present(cell)
    _check_total(cell, shares, "controls.share")
    return np.minimum(shares, cell.max_shares(np.arange(cell.size)))


def _equal_shares_of_present(cell: Cell) -> Floats:
    """Return equal shares of the users that are at the tower now, but for those at their limits, ``[size]``."""
    present = np.flatnonzero(cell.is_present)
    shares = np.zeros(cell.size)
    if present.size:
        shares[present] = _equal_shares(cell.max_shares(present))
    return shares


def _check_total(cell: Cell, shares: Floats, key: str) -> None:
    """Raise an error with this *key* if the *shares* of the users of a cell add up to more than the band."""
    total = float(shares.sum())
    if total > 1.0 + _ROUNDING:
        problem = f"the shares of the users of {cell.tower.name} add up to more than the band"
        remedy = "give fractions that add up to at most 1"
        raise ScenarioError([Fault(key, problem, float(f"{total:.6g}"), remedy)])
