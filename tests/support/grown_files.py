"""Large files of any form, grown from a small one: many records whose numbers all differ, and single huge numbers.

A reader needs memory and time in proportion to its file.  One that lays its records out in a grid, or in an array as
long as its largest number, does not; `check_bounds` finds it.
"""

import io
import re
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from support.file_readers import Reader

RECORDS = 6_000
FIRST = 1_000
"""First of the different numbers; those of the small file are below."""
HUGE = (10**9, 2**52)
"""Numbers that are whole, and that no array can have as its length."""
BYTES_PER_BYTE = 250
"""Memory for each byte of a file: cells of CSV are objects of Python before they are arrays."""
FIXED_BYTES = 10e6
SECONDS_PER_BYTE = 30e-6
FIXED_S = 4.0
TRACED = 3.0
"""How many times as long a reader takes while its memory is traced: 2 to 4 were measured."""
_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:e\d+)?(?![\w.])")
_RECORDS = {
    "xml": re.compile(rb"<(?:vehicle|node)\b[^<]*?(?:/>|>.*?</node>)", re.DOTALL),
    "json": re.compile(rb"\{[^{}]*\}"),
    "gml": re.compile(rb"node \[.*?\]", re.DOTALL),
    "lines": re.compile(rb"[^\n]+\n\Z"),
}
"""One record of a text, by its form."""


def form_of(reader: Reader) -> str:
    """Return the form of the files of a reader; empty for forms without records of text."""
    suffix = Path(reader.file).suffix
    forms = {".xml": "xml", ".graphml": "xml", ".json": "json", ".gml": "gml", ".csv": "lines", ".edges": "lines"}
    return {".txt": "lines", ".parquet": "parquet"}.get(suffix, forms.get(suffix, ""))


def grown(data: bytes, form: str) -> Iterator[bytes]:
    """Yield large files, and files with huge numbers, of the same form as *data*.

    In each, the numbers at all places of a record differ from record to record, or at all places but one.
    """
    if form == "parquet":
        yield from _grown_tables(pd.read_parquet(io.BytesIO(data)))
        return
    records = [*_RECORDS[form].finditer(data)]
    if not records:
        return
    record = records[-1]
    between = b"," if form == "json" else b"\n" * (form != "lines")
    before = data[: record.end()] + between
    after = data[record.end() :]
    pieces = _NUMBER.split(record[0])
    numbers = _NUMBER.findall(record[0])
    for constant in range(-1, len(numbers)):
        many = (_filled(pieces, numbers, constant, b"%d" % (FIRST + place)) for place in range(RECORDS))
        yield before + between.join(many) + after
        if constant >= 0:
            for huge in HUGE:
                kept = [b"%d" % huge if place == constant else number for place, number in enumerate(numbers)]
                yield before + _filled(pieces, kept, None, b"") + after


def _filled(pieces: list[bytes], numbers: list[bytes], constant: int | None, number: bytes) -> bytes:
    """Return a record with *number* at all places but *constant*; with its own *numbers* if that is ``None``."""
    parts = [pieces[0]]
    for place, own in enumerate(numbers):
        parts += [own if constant is None or place == constant else number, pieces[place + 1]]
    return b"".join(parts)


def _grown_tables(frame: pd.DataFrame) -> Iterator[bytes]:
    numeric = [*frame.select_dtypes("number")]
    many = pd.concat([frame.iloc[-1:]] * RECORDS, ignore_index=True)
    for constant in ["", *numeric]:
        columns = {name: range(RECORDS) for name in numeric if name != constant}
        yield many.assign(**columns).to_parquet(index=False)
        if constant:
            for huge in HUGE:
                yield frame.assign(**{constant: huge}).to_parquet(index=False)


def check_bounds(reader: Reader, folder: Path, data: bytes, stated_bytes: float = 0.0) -> None:
    """Check that a reader needs memory and time in proportion to a file, or no more than *stated_bytes*.

    Raises:
        AssertionError: it needs more.
    """
    start_s = time.process_time()
    tracemalloc.start()
    try:
        reader.target(folder, data)
        _, peak = tracemalloc.get_traced_memory()
    except MemoryError:
        raise AssertionError(f"asks for more memory than there is: {data[:80]!r}") from None
    finally:
        tracemalloc.stop()
    passed_s = (time.process_time() - start_s) / TRACED
    size = len(reader.pack(data))
    assert peak <= max(FIXED_BYTES + BYTES_PER_BYTE * size, stated_bytes), (
        f"{peak / size:.0f} bytes for each: {data[:80]!r}"
    )
    assert passed_s <= FIXED_S + SECONDS_PER_BYTE * size, f"{passed_s:.1f} s for {size} bytes: {data[:80]!r}"
