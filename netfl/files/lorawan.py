"""Logs of LoRaWAN network servers: one uplink in each line, as JSON.

Two forms are read, also mixed in one file:

- ChirpStack v4, the event ``up`` of its integrations: ``deviceInfo.devEui``, ``fCnt``, ``time``, ``rxInfo`` with
  ``gatewayId``, ``rssi`` and ``snr``, and ``txInfo`` with ``frequency`` and ``modulation.lora``.
- The Things Stack v3, the uplinks of its integrations: ``end_device_ids``, ``received_at`` and ``uplink_message`` with
  ``f_cnt``, ``rx_metadata`` (``gateway_ids``, ``rssi``, ``snr``) and ``settings``; also below a key ``result``, as its
  storage writes them.

Both servers leave out a field that is 0, so that a missing counter, RSSI or SNR is 0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netfl.core.remedies import argument
from netfl.errors import Fault, ScenarioError, suggest
from netfl.files import open_text, raise_unreadable
from netfl.files.json_documents import parse_json
from netfl.files.recordings import Recording, fill_times
from netfl.files.tables import limit_faults

COUNTERS = 1 << 16
"""Values of a frame counter on the air (LoRaWAN 1.0.4, 4.3.1.5); servers mostly store it with 32 bits."""
MAX_GAP = 16_384
"""Largest step of a counter that a server accepts (MAX_FCNT_GAP of the LoRaWAN regional parameters, 1.0.3)."""
MAX_ROUNDS = 1_000_000
"""Rounds of a recording."""
COPY_S = 300.0
"""Time after a frame in which a line with its counter is a duplicate: a copy that came late, or a repeated frame."""
SLOWEST_FACTOR = 12
FASTEST_FACTOR = 5
NO_LORA_MODE = 7
"""Mode of a frame that is not LoRa: the data rate of FSK in the band EU868."""
_REMEDY = "name a file with one uplink of ChirpStack v4 or The Things Stack v3 in each line, in JSON"
_BROKER = "packetbroker"
"""Name that The Things Stack gives to all gateways of other networks."""


@dataclass(frozen=True, slots=True)
class Reception:
    """Reception of a frame at a gateway, as the gateway reports it: RSSI in dBm, SNR in dB."""

    rssi_dbm: float
    snr_db: float


@dataclass(slots=True)
class LorawanFrame:
    """One frame of a device, with all gateways that have received it.

    Args:
        device: EUI or name of the device.
        counter: frame counter as it stands in the log.
        time: time of the log.
        line: line of the log.
        receptions: receptions by the names of the gateways; empty for a frame that nobody received.
        frequency_hz: carrier frequency; NaN if it is not in the log.
        spreading_factor: of LoRa; 0 for other modulations.
        bandwidth_hz: of LoRa; 0 for other modulations.
        session: number of the session, from 0: a counter that starts over begins another one.
        number: counter in its session without wraps at 2^16.
    """

    device: str
    counter: int
    time: datetime
    line: int
    receptions: dict[str, Reception]
    frequency_hz: float = math.nan
    spreading_factor: int = 0
    bandwidth_hz: int = 0
    session: int = 0
    number: int = 0

    @property
    def data_rate(self) -> str:
        """Data rate as a word, such as ``SF7BW125``."""
        if self.spreading_factor == 0:
            return "other"
        return f"SF{self.spreading_factor}BW{self.bandwidth_hz / 1000:g}"

    @property
    def mode(self) -> int:
        """Number of the mode: 12 less the spreading factor, as the data rates 0 to 5 of the band EU868."""
        if self.spreading_factor == 0:
            return NO_LORA_MODE
        return SLOWEST_FACTOR - self.spreading_factor


@dataclass(frozen=True, slots=True)
class LorawanLog:
    """Frames of a log, device by device in the order of time, without duplicates.

    Args:
        frames: received frames by device.
        gateways: names of all gateways, in the order of their receptions: the one with the most is first.
        duplicates: number of lines that belong to a frame of another line.
        other_lines: number of lines that are no uplinks, such as joins.
        name: name of the file.
    """

    frames: Mapping[str, Sequence[LorawanFrame]]
    gateways: Sequence[str]
    duplicates: int
    other_lines: int
    name: str

    @property
    def devices(self) -> list[str]:
        """Names of the devices in alphabetical order."""
        return sorted(self.frames)

    def sessions(self, device: str) -> int:
        """Return the number of sessions of a device: one more than its counter has started over."""
        return self.frames[device][-1].session + 1

    def missing(self, device: str) -> int:
        """Return how many counters of a device are missing between those of the log."""
        missing = 0
        for frame, later in pairwise(self.frames[device]):
            if frame.session == later.session:
                missing += later.number - frame.number - 1
        return missing

    def choose_device(self, device: str | None = None) -> str:
        """Return *device*, or the only one of the log.

        Raises:
            ScenarioError: there is no such device, or several and none is named; the key is ``device``.
        """
        if device is None and len(self.frames) == 1:
            return self.devices[0]
        if device is None:
            first_lines = {name: min(frame.line for frame in frames) for name, frames in self.frames.items()}
            first, second = sorted(first_lines, key=lambda name: (first_lines[name], name))[:2]
            problem = (
                f"{self.name}:{first_lines[second]}: another device than {first}, and each has counters of its own"
            )
            remedy = f"name one as {argument('device')}, or take the devices for users"
            raise ScenarioError([Fault("", problem, second, remedy)])
        if device not in self.frames:
            raise ScenarioError(
                [Fault(argument("device"), f"not in {self.name}", device, suggest(device, self.devices))]
            )
        return device

    def table(self, device: str | None = None) -> pd.DataFrame:
        """Return the frames of a device, one row for each counter.

        The columns are ``session``, ``frame`` (the counter without wraps), ``counter`` (that of the log), ``time_s``
        from the first frame on, ``frequency_mhz``, ``data_rate``, and for each gateway ``rssi_dbm_NAME`` and
        ``snr_db_NAME``.  A counter that is not in the log is a row without values.

        Raises:
            ScenarioError: see `choose_device`.
        """
        device = self.choose_device(device)
        rows = self._rounds(device)
        begin = next(frame.time for _, _, frame in rows if frame is not None)
        table = []
        for session, number, frame in rows:
            row: dict[str, Any] = {"session": session, "frame": number}
            if frame is not None:
                row |= {"counter": frame.counter, "time_s": (frame.time - begin).total_seconds()}
                row |= {"frequency_mhz": frame.frequency_hz / 1e6, "data_rate": frame.data_rate}
                for gateway, reception in frame.receptions.items():
                    row |= {f"rssi_dbm_{gateway}": reception.rssi_dbm, f"snr_db_{gateway}": reception.snr_db}
            table.append(row)
        of_gateways = [
            f"{value}_{gateway}" for gateway in self._gateways_of(device) for value in ("rssi_dbm", "snr_db")
        ]
        columns = ["session", "frame", "counter", "time_s", "frequency_mhz", "data_rate", *of_gateways]
        return pd.DataFrame(table, columns=columns).astype({"counter": "Int64"})

    def recording_of_gateways(self, device: str | None = None) -> Recording:
        """Return the gateways as users and the counters of a device as rounds.

        A round lasts from its frame to the next one.  A counter that is not in the log is a round without deliveries,
        at a time between its neighbours.  The users are the gateways that have received a frame of this device.

        Raises:
            ScenarioError: see `choose_device`.
        """
        device = self.choose_device(device)
        rows = self._rounds(device)
        gateways = self._gateways_of(device)
        begin = self.frames[device][0].time
        logged_s = [math.nan if frame is None else (frame.time - begin).total_seconds() for _, _, frame in rows]
        opened_s, closed_s = fill_times(np.array(logged_s))
        deliveries = []
        for index, (_, _, frame) in enumerate(rows, start=1):
            if frame is None:
                continue
            for user, gateway in enumerate(gateways):
                if gateway in frame.receptions:
                    deliveries.append((index, user, frame, frame.receptions[gateway].snr_db))
        round_ = np.array([index for index, *_ in deliveries], np.int64)
        return Recording(
            opened_s=opened_s,
            closed_s=closed_s,
            round=round_,
            user=np.array([user for _, user, *_ in deliveries], np.int64),
            arrived_s=opened_s[round_ - 1],
            names=gateways,
            snr_db=np.array([snr_db for *_, snr_db in deliveries]),
            mode=np.array([frame.mode for _, _, frame, _ in deliveries], np.int64),
        )

    def recording_of_devices(self, round_s: float) -> Recording:
        """Return the devices as users, and windows of *round_s* seconds as rounds.

        A user delivers in a window in which a frame of its device was received by any gateway: once, with its first
        frame and the SNR at the gateway that received it best.

        Raises:
            ScenarioError: there are more rounds than memory has room for; the key is ``round_s``.
        """
        begin = min(frames[0].time for frames in self.frames.values())
        first: dict[tuple[int, int], LorawanFrame] = {}
        for user, device in enumerate(self.devices):
            for frame in self.frames[device]:
                window = int((frame.time - begin).total_seconds() // round_s)
                first.setdefault((window, user), frame)
        rounds = max(window for window, _ in first) + 1
        if rounds > MAX_ROUNDS:
            problem = f"the log has {rounds} windows of this length, more than {MAX_ROUNDS}"
            raise ScenarioError([Fault(argument("round_s", "--round"), problem, round_s, "take longer rounds")])
        order = sorted((window, frame.time, user) for (window, user), frame in first.items())
        taken = [first[window, user] for window, _, user in order]
        opened_s = np.arange(rounds, dtype=np.float64) * round_s
        closed_s = opened_s + float(round_s)
        round_ = np.array([window + 1 for window, *_ in order], np.int64)
        arrived_s = np.array([(frame.time - begin).total_seconds() for frame in taken])
        return Recording(
            opened_s=opened_s,
            closed_s=closed_s,
            round=round_,
            user=np.array([user for *_, user in order], np.int64),
            # a division that was rounded must not put an arrival outside of its window
            arrived_s=np.clip(arrived_s, opened_s[round_ - 1], closed_s[round_ - 1]),
            names=self.devices,
            snr_db=np.array([max(each.snr_db for each in frame.receptions.values()) for frame in taken]),
            mode=np.array([frame.mode for frame in taken], np.int64),
        )

    def _gateways_of(self, device: str) -> list[str]:
        """Return the gateways that have received a frame of a device, those with the most receptions of all first."""
        known = {gateway for frame in self.frames[device] for gateway in frame.receptions}
        return [gateway for gateway in self.gateways if gateway in known]

    def _rounds(self, device: str) -> list[tuple[int, int, LorawanFrame | None]]:
        """Return session, number and frame for each counter of a device, ``None`` for a missing one.

        Raises:
            ScenarioError: there are too many; the key is empty.
        """
        counters = len(self.frames[device]) + self.missing(device)
        if counters > MAX_ROUNDS:
            problem = f"{self.name}: the counters of {device} span {counters} frames, more than {MAX_ROUNDS}"
            raise ScenarioError([Fault("", problem, None, "read a part of the log")])
        rows: list[tuple[int, int, LorawanFrame | None]] = []
        last: LorawanFrame | None = None
        for frame in self.frames[device]:
            if last is not None and last.session == frame.session:
                rows += [(frame.session, number, None) for number in range(last.number + 1, frame.number)]
            rows.append((frame.session, frame.number, frame))
            last = frame
        return rows


@dataclass(slots=True)
class _Lines:
    """Uplinks of a log, and the errors of its lines."""

    uplinks: list[LorawanFrame] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    other_lines: int = 0


def read_lorawan(path: Path) -> LorawanLog:
    """Read the log of a LoRaWAN network server.

    Lines are sorted by time for each device.  Then a frame counter

    - that is that of a frame of the last five minutes is a duplicate: its gateways are added to this frame;
    - that is lower, but at most 16,384 steps further modulo 2^16, has wrapped: its frame is the next one;
    - that is otherwise not higher, or more than 16,384 higher, begins another session, as after a join or a reset.

    A gateway that stands twice in a frame, as one with two antennas, counts with its higher SNR.

    Args:
        path: a text file, of any size.

    Raises:
        ScenarioError: with each line that cannot be read, or a file without uplinks; the keys are empty.
    """
    lines = _Lines()
    try:
        with open_text(path, is_limited=False) as text:
            for number, line in enumerate(text, start=1):
                if line.strip():
                    _read_line(lines, path, number, line)
                if lines.faults and not (lines.uplinks or lines.other_lines):
                    break  # another kind of file, in which all lines are wrong
    except (OSError, UnicodeDecodeError) as error:
        raise_unreadable(path, error, _REMEDY)
    if lines.faults:
        raise ScenarioError(limit_faults(lines.faults))
    if not lines.uplinks:
        problem = f"{path.name} has no uplinks in {lines.other_lines} lines"
        raise ScenarioError([Fault("", problem, None, _REMEDY)])
    of_devices: dict[str, list[LorawanFrame]] = defaultdict(list)
    for uplink in lines.uplinks:
        of_devices[uplink.device].append(uplink)
    frames = {}
    for device, uplinks in of_devices.items():
        uplinks.sort(key=lambda uplink: uplink.time)  # stable: lines of one time keep their order
        frames[device] = _number_frames(uplinks)
    kept = sum(map(len, frames.values()))
    return LorawanLog(frames, _sorted_gateways(frames), len(lines.uplinks) - kept, lines.other_lines, path.name)


def _sorted_gateways(frames: Mapping[str, Sequence[LorawanFrame]]) -> list[str]:
    counts: dict[str, int] = defaultdict(int)
    for of_device in frames.values():
        for frame in of_device:
            for gateway in frame.receptions:
                counts[gateway] += 1
    return sorted(counts, key=lambda gateway: (-counts[gateway], gateway))


def _number_frames(uplinks: Sequence[LorawanFrame]) -> list[LorawanFrame]:
    """Return the frames of a device without duplicates, with their sessions and numbers."""
    frames: list[LorawanFrame] = []
    latest: dict[int, LorawanFrame] = {}
    """The last frame with each counter."""
    for uplink in uplinks:
        equal = latest.get(uplink.counter)
        if equal is not None and (uplink.time - equal.time).total_seconds() <= COPY_S:
            _add_receptions(equal.receptions, uplink.receptions)
            continue
        if frames:
            last = frames[-1]
            uplink.session = last.session
            uplink.number = _next_number(last, uplink.counter)
            if uplink.number < 0:
                uplink.session += 1
                uplink.number = uplink.counter
        else:
            uplink.number = uplink.counter
        frames.append(uplink)
        latest[uplink.counter] = uplink
    return frames


def _next_number(last: LorawanFrame, counter: int) -> int:
    """Return the number of a frame with this *counter* after *last*; -1 if its session has ended."""
    step = counter - last.counter
    if last.counter < COUNTERS and step < 0:  # a counter of 16 bits may have wrapped
        step %= COUNTERS
    if 0 < step <= MAX_GAP:
        return last.number + step
    return -1


def _add_receptions(receptions: dict[str, Reception], others: Mapping[str, Reception]) -> None:
    for gateway, reception in others.items():
        present = receptions.get(gateway)
        if present is None or reception.snr_db > present.snr_db:
            receptions[gateway] = reception


class _LineError(ValueError):
    """A line is wrong: problem, value and remedy."""


def _read_line(lines: _Lines, path: Path, number: int, line: str) -> None:
    """Read one line, and add its uplink, or its error, to *lines*."""
    try:
        uplink = _parse_line(line, number)
    except _LineError as error:
        problem, value, remedy = error.args
        lines.faults.append(Fault("", f"{path.name}:{number}: {problem}", value, remedy))
        return
    if uplink is None:
        lines.other_lines += 1
    else:
        lines.uplinks.append(uplink)


def _parse_line(line: str, number: int) -> LorawanFrame | None:
    """Return the uplink of a line; ``None`` for another event.

    Raises:
        _LineError: the line is no object of JSON, or a value of its uplink is wrong.
    """
    try:
        content = parse_json(line)
    except ValueError as error:
        reason = str(error).partition(": line")[0]
        remedy = "remove the line if it is cut, as the last one of a log that is still written"
        if line.lstrip().startswith("["):
            remedy = "write one object in each line, as jq -c '.[]' does"
        raise _LineError(f"not JSON: {reason}", line.strip()[-30:], remedy) from None
    if isinstance(content, dict) and isinstance(content.get("result"), dict):
        content = content["result"]  # as the storage of The Things Stack writes it
    if not isinstance(content, dict):
        remedy = "write one object in each line, as jq -c '.[]' does"
        raise _LineError("not an object of JSON", line.strip()[:30], remedy)
    if "devEUI" in content or "applicationID" in content:
        remedy = "only ChirpStack v4 is read, whose uplinks have deviceInfo.devEui"
        raise _LineError("an event of ChirpStack v3", None, remedy)
    if "uplink_message" in content:
        return _things_stack(content, number)
    if "rxInfo" in content and "deviceInfo" in content:
        return _chirpstack(content, number)
    return None


def _chirpstack(event: Mapping[str, Any], line: int) -> LorawanFrame:
    info = _object(event, "deviceInfo")
    receptions = [(_text(each, "gatewayId", "rxInfo.").lower(), each) for each in _objects(event, "rxInfo")]
    sent = _object(event, "txInfo")
    lora = _object(_object(sent, "modulation", "txInfo."), "lora", "txInfo.modulation.")
    time = event.get("time")
    if time is None:  # servers without a clock at the gateway give that of the network server
        time = _time_of_receptions([reception for _, reception in receptions])
    factor, bandwidth_hz = _modulation(lora, "spreadingFactor")
    return LorawanFrame(
        device=_text(info, "devEui", "deviceInfo.").lower(),
        counter=_counter(event, "fCnt"),
        time=_time(time, "time"),
        line=line,
        receptions=_receptions(receptions),
        frequency_hz=_number(sent, "frequency", math.nan),
        spreading_factor=factor,
        bandwidth_hz=bandwidth_hz,
    )


def _time_of_receptions(receptions: Sequence[Mapping[str, Any]]) -> object:
    """Return the first time that the gateways of ChirpStack state; ``None`` if they state none."""
    for reception in receptions:
        for key in ("nsTime", "gwTime", "time"):
            if key in reception:
                return reception[key]
    return None


def _things_stack(event: Mapping[str, Any], line: int) -> LorawanFrame:
    uplink = _object(event, "uplink_message")
    ids = _object(event, "end_device_ids")
    if "dev_eui" in ids:
        device = str(ids["dev_eui"]).lower()
    else:
        device = _text(ids, "device_id", "end_device_ids.")
    receptions = [(_gateway_name(each), each) for each in _objects(uplink, "rx_metadata")]
    sent = _object(uplink, "settings")
    lora = _object(_object(sent, "data_rate", "settings."), "lora", "settings.data_rate.")
    factor, bandwidth_hz = _modulation(lora, "spreading_factor")
    return LorawanFrame(
        device=device,
        counter=_counter(uplink, "f_cnt"),
        time=_time(uplink.get("received_at", event.get("received_at")), "received_at"),
        line=line,
        receptions=_receptions(receptions),
        frequency_hz=_number(sent, "frequency", math.nan),
        spreading_factor=factor,
        bandwidth_hz=bandwidth_hz,
    )


def _gateway_name(reception: Mapping[str, Any]) -> str:
    """Return the EUI of a gateway of The Things Stack, or else its name; of another network, what the broker gives."""
    ids = _object(reception, "gateway_ids", "rx_metadata.")
    name = _text(ids, "gateway_id", "rx_metadata.gateway_ids.")
    if name != _BROKER:
        return str(ids.get("eui", name)).lower()
    broker = _object(reception, "packet_broker", "rx_metadata.")
    for key in ("forwarder_gateway_eui", "forwarder_gateway_id"):
        forwarder = broker.get(key)
        if isinstance(forwarder, dict):  # a wrapped text
            forwarder = forwarder.get("value")
        if forwarder:
            return str(forwarder).lower()
    return name


def _receptions(named: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Reception]:
    if not named:
        raise _LineError("no gateway has received this uplink", None, "remove the line")
    receptions: dict[str, Reception] = {}
    for name, values in named:
        rssi_dbm = _number(values, "rssi", 0.0, (-200.0, 50.0))
        snr_db = _number(values, "snr", 0.0, (-50.0, 50.0))
        _add_receptions(receptions, {name: Reception(rssi_dbm, snr_db)})
    return receptions


def _modulation(lora: Mapping[str, Any], factor_key: str) -> tuple[int, int]:
    """Return spreading factor and bandwidth in Hz; 0 and 0 without LoRa."""
    if not lora:
        return 0, 0
    factor = _number(lora, factor_key, 0.0, (FASTEST_FACTOR, SLOWEST_FACTOR))
    bandwidth_hz = _number(lora, "bandwidth", 0.0, (7_800.0, 1_700_000.0))
    return int(factor), int(bandwidth_hz)


def _object(content: Mapping[str, Any], key: str, above: str = "") -> Mapping[str, Any]:
    """Return the object of a *key*; empty if it is left out."""
    value = content.get(key, {})
    if not isinstance(value, dict):
        raise _LineError(f"{above}{key} is not an object", value, "check which program wrote the line")
    return value


def _objects(content: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    values = content.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise _LineError(f"{key} is not a list of objects", None, "check which program wrote the line")
    yield from values


def _text(content: Mapping[str, Any], key: str, above: str = "") -> str:
    value = content.get(key)
    if not isinstance(value, str) or not value:
        raise _LineError(f"{above}{key} is missing", value, "check which program wrote the line")
    return value


def _number(
    content: Mapping[str, Any], key: str, default: float, limits: tuple[float, float] = (-math.inf, math.inf)
) -> float:
    """Return a number; text with digits is one, as JSON of Protocol Buffers writes 64 bits."""
    if key not in content:
        return default
    value = content[key]
    number = math.nan
    if not isinstance(value, bool):
        with suppress(TypeError, ValueError):
            number = float(value)
    if not limits[0] <= number <= limits[1]:
        problem = f"{key} is not a number from {limits[0]:g} to {limits[1]:g}"
        if math.isinf(limits[1]):
            problem = f"{key} is not a number"
        raise _LineError(problem, value, "correct or remove the line")
    return number


def _counter(content: Mapping[str, Any], key: str) -> int:
    number = _number(content, key, 0.0)
    if not (number.is_integer() and 0.0 <= number < 1 << 32):
        remedy = "a counter is a whole number from 0 to 2^32 - 1"
        raise _LineError(f"{key} is not a frame counter", content[key], remedy)
    return int(number)


def _time(value: object, key: str) -> datetime:
    remedy = "write a time such as 2024-03-30T08:00:00Z"
    if value is None:
        raise _LineError(f"{key} is missing", None, remedy)
    if not isinstance(value, str):
        raise _LineError(f"{key} is not a time in ISO 8601", value, remedy)
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise _LineError(f"{key} is not a time in ISO 8601", value, remedy) from None
    if time.tzinfo is None:
        raise _LineError(f"{key} has no time zone", value, remedy)
    return time
