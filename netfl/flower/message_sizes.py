"""Sizes of Flower's messages: those of all records in them, without the headers of Flower's protocol."""

from __future__ import annotations

from flwr.app import ConfigRecord, Message, RecordDict

BITS = 8
"""Bits of a byte, and the size of a message without records."""


def message_bits(message: Message) -> float:
    """Return the size of *message* in bits: of its records, or of the reason of an error."""
    if message.has_error():
        size = len((message.error.reason or "").encode())
    else:
        size = sum(map(_record_bytes, message.content.values()))
    return float(max(BITS * size, BITS))


def has_arrays(content: RecordDict) -> bool:
    """Return whether an `ArrayRecord` of *content* holds an array."""
    return any(len(record) for record in content.array_records.values())


def _record_bytes(record: object) -> int:
    """Return the size of a record; Flower's own count refuses a ConfigRecord with an empty value."""
    if not isinstance(record, ConfigRecord):
        return int(record.count_bytes())  # type: ignore[attr-defined]
    size = 0
    for key, value in record.items():
        values = value if isinstance(value, list) else [value]
        size += len(key) + sum(map(_value_bytes, values))
    return size


def _value_bytes(value: bool | float | str | bytes) -> int:
    """Return the size of a value of a ConfigRecord, whose numbers have 64 bits."""
    if isinstance(value, bool):
        return 1
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, bytes):
        return len(value)
    return 8
