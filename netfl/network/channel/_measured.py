"""Tables of measured links, in CSV or Parquet: what they hold, and the gains that follow from it.

A table has one of the columns `QUANTITIES`.  With the power P of ``radio``, its bandwidth B and the noise N in it, the
gain of a link in dB is

- ``gain_db``: the value;
- ``snr_db``: SNR - (P - N);
- ``rsrp_dbm``: RSRP - ``reference_power``;
- ``rate_bps``: SNR - (P - N) for the SNR at which the capacity is the rate r, r = B log2(1 + snr).

No link amplifies: a value that gives a gain of 0 dB or more is refused.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, PrivateAttr

from netfl.core.kinds import kind_of
from netfl.errors import Fault, ScenarioError, prefix_faults, suggest
from netfl.files.cells import parse_numbers
from netfl.files.schema import (
    NAME,
    PATH_GAIN,
    RATE,
    RECEIVED_POWER,
    SNR,
    FileColumn,
    FileSchema,
    value_doubts,
)
from netfl.files.tables import UserTable, read_table
from netfl.network.channel import Channel
from netfl.network.layout import Layout
from netfl.types import Floats, Law, ScenarioFacts
from netfl.units import DecibelMilliwatts

QUANTITIES = {"gain_db": PATH_GAIN, "snr_db": SNR, "rsrp_dbm": RECEIVED_POWER, "rate_bps": RATE}
"""Columns of which a table has one, with what they hold."""
NO_COVERAGE = {"gain_db": PATH_GAIN.lowest, "snr_db": -200.0, "rsrp_dbm": RECEIVED_POWER.lowest, "rate_bps": 0.0}
"""Values of a place without coverage; -200 dB is the SNR of a rate of 0."""
_LINEAR_DB = 0.01
"""Largest magnitude of gains that are probably ratios: a link without a loss."""
_LEAST_NATS = 1e-20
"""Capacity per hertz that stands for a rate of 0: an SNR of -200 dB."""
_MAX_LISTED = 8
"""Users or towers that an error lists."""


@dataclass(frozen=True, slots=True)
class GainScale:
    """Conversion of measured values to gains in dB.

    Args:
        shift_db: gain of a link whose value (for a rate, whose SNR) is 0 dB or dBm.
        bandwidth_hz: bandwidth B, if the values are rates in bit/s; ``None`` for values in dB or dBm.
    """

    shift_db: float = 0.0
    bandwidth_hz: float | None = None

    def gain_db(self, values: Floats) -> Floats:
        """Return the gains of *values*, of the same shape."""
        if self.bandwidth_hz is None:
            return values + self.shift_db
        return capacity_snr_db(values / self.bandwidth_hz) + self.shift_db


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTable:
    """The valid rows of a table, in the order of the file.

    Args:
        quantity: one of `QUANTITIES`, the column of *values*.
        values: the measured values, ``[rows]``.
        columns: the other columns of the table by name, ``[rows]`` each.
        towers: the name of each row's tower, ``[rows]``; ``None`` if the table has no column ``tower``.
        table: the rows in the file, for messages.
        unused: values of ``missing`` that no row has.
    """

    quantity: str
    values: Floats
    columns: dict[str, NDArray[Any]]
    towers: NDArray[Any] | None
    table: UserTable
    unused: tuple[float, ...] = ()

    @property
    def file_name(self) -> str:
        """Name of the file."""
        return self.table.path.name

    def place(self, row: int) -> str:
        """Return the file and the line of a row, for messages."""
        return self.table.place(row)


@dataclass(frozen=True, slots=True)
class _RadioLevels:
    """Power of a sender, noise and bandwidth of the radio, which turn SNRs and rates into gains."""

    power_dbm: float
    noise_dbm: float
    bandwidth_hz: float


class Measured(Channel):
    """Base class of channels that read their gains from a table."""

    file_schema: ClassVar[FileSchema]
    """The declared columns of the file."""

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV or Parquet file; a relative path starts at the current directory."""
    missing: tuple[float, ...] | None = None
    """Numbers that stand for no measurement, such as ``[0, 255]``; by default a warning names numbers that probably do.
    An empty list states that all numbers are measurements."""
    reference_power: DecibelMilliwatts | None = None
    """For ``rsrp_dbm``: the power that the measured tower sent, of which RSRP is the received one; for LTE and NR the
    power of the reference signal in one resource element (EPRE)."""

    _levels: _RadioLevels | None = PrivateAttr(default=None)

    @property
    def has_path_loss(self) -> bool:
        return True

    @property
    def needs_radio(self) -> bool:
        return self.measured.quantity in {"snr_db", "rate_bps"}

    def fitted(self, power_dbm: float, noise_dbm: float, bandwidth_hz: float) -> Self:
        copy = self.model_copy()
        copy._levels = _RadioLevels(power_dbm, noise_dbm, bandwidth_hz)
        return copy

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        try:
            self.check_users(facts.users)
        except ScenarioError as error:
            yield from error.faults

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("nothing is drawn: the file gives the values"),)

    def check_users(self, users: int) -> None:
        """Check the file for a scenario of *users* users.

        Raises:
            ScenarioError: the file cannot be used; keys are relative to the model.
        """
        _ = self.measured

    @cached_property
    def measured(self) -> MeasuredTable:
        """The rows of the file.

        Raises:
            ScenarioError: the file cannot be used; keys are relative to the model.
        """
        with prefix_faults("file"):
            measured = self._read(read_table(self.file))
        self._check_reference(measured.quantity)
        return measured

    def doubts(self) -> Iterator[str]:
        """Yield doubts about values in the file that may stand for no measurement, with the name of the file."""
        measured = self.measured
        column = self.file_schema[measured.quantity]
        values = measured.values
        if column.empty:
            values = values[values != NO_COVERAGE[measured.quantity]]
        for doubt in value_doubts(column, values, self.missing):
            yield f"{measured.file_name}: {doubt}"
        for value in measured.unused:
            yield f"{measured.file_name}: no row has the value {value:g}, which is listed in missing; leave it out"

    def weak_signal_remedy(self, needed_snr_db: float, bandwidth_hz: float) -> str:
        """Return what to do if the values of the file are too small for the SNR that users need in *bandwidth_hz*.

        The power of the radio and the places of users are named only where they change the SNR.
        """
        measured = self.measured
        quantity = measured.quantity
        largest = float(measured.values.max())
        if quantity == "rate_bps":
            needed_bps = bandwidth_hz * math.log2(1.0 + 10.0 ** (needed_snr_db / 10.0))
            needed = f", and {needed_bps:.4g} bit/s are needed"
            remedies = ["check its unit"]
        elif quantity == "snr_db":
            needed = f", and {needed_snr_db:.4g} dB are needed"
            remedies = ["check its unit"]
        else:
            needed = ""
            remedies = ["check its unit", "raise radio.power"]
        if "x_m" in measured.columns:
            remedies.append("place users where the map has a better value")
        remedies.append("lower the rate or the SNR that the reception needs")
        return f"the largest {quantity} in {measured.file_name} is {largest:.4g}{needed}: {', or '.join(remedies)}"

    def read_measured(self, table: UserTable) -> MeasuredTable:
        """Return the rows of *table*, whose errors are marked in it, and which the caller checks.

        Raises:
            ScenarioError: the table has no row, lacks a column, has several quantities, a column that is not read, or
                gains that are no decibels; the keys are empty.
        """
        lacks_values = not any(quantity in table for quantity in QUANTITIES)
        table.check_headings(self.file_schema, [*QUANTITIES] if lacks_values else ())
        quantity = _quantity(table)
        column = self.file_schema[quantity]
        if quantity == "rsrp_dbm" and self.reference_power is not None:
            remedy = "reference_power is the radiated power, with the gain of the antenna"
            column = replace(column, quantity=column.quantity.limited_to(self.reference_power, remedy))
        missing = self.missing or ()
        unused = tuple(value for value in missing if not table.is_missing(column, [value]).any())
        if missing and not column.empty:
            table = table.take(~table.is_missing(column, missing))
        if not len(table):
            raise ScenarioError([Fault("", f"{table.path.name} has no rows", None, "give measured values")])
        if quantity == "gain_db":
            _check_decibels(table, column, missing)
        empty = NO_COVERAGE[quantity] if column.empty else None
        values = table.numbers(column, empty=empty, missing=missing)
        columns: dict[str, NDArray[Any]] = {}
        for place in self.file_schema:
            if place.is_needed:
                columns[place.name] = table.users(place) if place.quantity.form == "user" else table.numbers(place)
        towers = None
        if "tower" in table:
            towers = table.names(self.file_schema["tower"]).astype(str).astype(object)
        return MeasuredTable(quantity, values, columns, towers, table, unused)

    def check_gains(self) -> None:
        """Check that the SNRs or rates of the file give no gain of 0 dB or more.

        Raises:
            ScenarioError: one does; the key is ``file``.
        """
        measured = self.measured
        quantity = measured.quantity
        levels = self._levels
        if quantity not in {"snr_db", "rate_bps"} or levels is None:
            return
        gains_db = self.scale().gain_db(measured.values)
        limit_db = levels.power_dbm - levels.noise_dbm
        remedy = (
            f"without any loss, radio.power gives an SNR of {limit_db:.4g} dB in its noise: check the unit "
            "of the value, and that of radio.bandwidth"
        )

        def describe(cell: object) -> Fault:
            return Fault("", "more than the radio's power can give", cell, remedy)

        with prefix_faults("file"):
            measured.table.refuse_cells(quantity, gains_db >= 0.0, describe)
            measured.table.check()

    def scale(self) -> GainScale:
        """Return the conversion of the values of the file to gains."""
        quantity = self.measured.quantity
        if quantity == "gain_db":
            return GainScale()
        if quantity == "rsrp_dbm":
            return GainScale(-(self.reference_power or 0.0))
        levels = self._levels
        if levels is None:
            raise ValueError(f"{quantity} has no gain without a radio: call fitted() first")
        shift_db = levels.noise_dbm - levels.power_dbm
        if quantity == "snr_db":
            return GainScale(shift_db)
        return GainScale(shift_db, levels.bandwidth_hz)

    def missing_towers(self, layout: Layout) -> Sequence[str]:
        if len(layout.towers) == 1:
            return ()
        return [name for name in layout.towers if not self.has_links(name, layout.users)]

    def has_links(self, tower: str, users: int) -> bool:
        """Return whether the file has the links of all *users* to *tower*."""
        towers = self.measured.towers
        return towers is not None and tower in towers

    def check_towers(self, layout: Layout) -> None:
        """Check that the towers of the file exist.

        Raises:
            ScenarioError: one does not; the key is ``file``.
        """
        measured = self.measured
        if measured.towers is None:
            return
        is_unknown = ~np.isin(measured.towers, np.array(layout.towers, object))
        if is_unknown.any():
            row = int(np.argmax(is_unknown))
            name = str(measured.towers[row])
            problem = f"{measured.place(row)}: column tower: no such tower"
            raise ScenarioError([Fault("file", problem, name, suggest(name, layout.towers))])

    @abstractmethod
    def _read(self, table: UserTable) -> MeasuredTable:
        """Return the rows of *table*, with all errors of the file raised; keys are empty."""

    def _check_reference(self, quantity: str) -> None:
        if quantity == "rsrp_dbm" and self.reference_power is None:
            problem = f"missing: {self.file.name} has the received power rsrp_dbm"
            remedy = "give the power that the measured tower sent, such as 18 dBm"
            raise ScenarioError([Fault("reference_power", problem, None, remedy)])
        if quantity != "rsrp_dbm" and self.reference_power is not None:
            problem = f"no effect: {self.file.name} has {quantity}, not rsrp_dbm"
            raise ScenarioError([Fault("reference_power", problem, self.reference_power, "leave it out")])


def repeated_path_loss(channels: Sequence[Channel]) -> str:
    """Return what is wrong with a measured channel beside a path loss, which it contains already; empty if nothing."""
    path_losses = [channel for channel in channels if channel.has_path_loss]
    if len(path_losses) < 2 or not any(isinstance(channel, Measured) for channel in path_losses):
        return ""
    kinds = " and ".join(kind_of(type(channel)) for channel in path_losses)
    return (
        f"{kinds} contain the path loss, and their gains add up; a measured gain replaces a path loss: keep one of them"
    )


def link_schema(reader: str, *places: FileColumn, empty: str = "", memory: str = "its rows") -> FileSchema:
    """Return the declaration of a table with the columns *places*, one of `QUANTITIES`, and perhaps ``tower``.

    *empty* is what a value that is empty or minus infinity means; without it, such a value is an error.
    """
    quantities = (
        FileColumn(name, quantity, is_needed=False, empty=empty, takes_infinity=bool(empty), missing_key="missing")
        for name, quantity in QUANTITIES.items()
    )
    tower = FileColumn("tower", NAME, is_needed=False)
    return FileSchema(reader, *places, *quantities, tower, others="refused", memory=memory)


def _quantity(table: UserTable) -> str:
    """Return the measured quantity of a table.

    Raises:
        ScenarioError: it has none, or several; the key is empty.
    """
    name = table.path.name
    present = [quantity for quantity in QUANTITIES if quantity in table]
    if not present:
        problem = f"{name} has no measured values"
        remedy = f"give one of the columns {', '.join(QUANTITIES)}"
        raise ScenarioError([Fault("", problem, None, remedy)])
    if len(present) > 1:
        problem = f"{name} has {' and '.join(present)}, which may contradict each other"
        raise ScenarioError([Fault("", problem, None, "leave all but one out")])
    return present[0]


def _check_decibels(table: UserTable, column: FileColumn, missing: Sequence[float]) -> None:
    """Check that gains are neither ratios nor losses, which all have the sign or the size of another quantity.

    Raises:
        ScenarioError: they are; the key is empty.
    """
    gains_db = parse_numbers(table.columns[column.name], takes_durations=False)
    gains_db = gains_db[np.isfinite(gains_db) & ~table.is_missing(column, missing)]
    if len(gains_db) < 2:
        return
    lowest, highest = gains_db.min(), gains_db.max()
    span = f"from {lowest:.4g} to {highest:.4g}"
    problem = remedy = ""
    if np.abs(gains_db).max() <= _LINEAR_DB or (lowest >= 0.0 and highest < 1.0):
        problem = f"{table.path.name}: column gain_db holds ratios of powers instead of decibels: all are {span}"
        remedy = "write 10 lg of each, such as -98 for 1.6e-10"
    elif lowest >= 1.0 and lowest < highest:
        problem = f"{table.path.name}: column gain_db holds losses instead of gains: all are {span}"
        remedy = "a loss is a negative gain: change their sign"
    if problem:
        raise ScenarioError([Fault("", problem, None, remedy)])


def capacity_snr_db(efficiency: Floats) -> Floats:
    """Return the SNR in dB at which the capacity of a link is *efficiency* bit/s/Hz, log2(1 + snr), of any size.

    >>> capacity_snr_db(np.array([1.0, 2.0])).round(6).tolist()
    [0.0, 4.771213]
    """
    nats = np.maximum(efficiency * math.log(2.0), _LEAST_NATS)
    return np.asarray(10.0 / math.log(10.0) * (nats + np.log(-np.expm1(-nats))))


def listed(names: Sequence[object]) -> str:
    """Return the first of some users or towers, for a message."""
    shown = ", ".join(map(str, names[:_MAX_LISTED]))
    return f"{shown} …" if len(names) > _MAX_LISTED else shown
