"""The page docs/reproduction.md, written from what is kept of the runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kept import WINDOW, agreement, difference, spread
from reproduction import Experiment, Order, Part, Result, Row

from netfl.results.statistics import ConfidenceInterval

LONG = 24
"""Tables of more rows than this are folded."""

_HEAD = f"""# The papers, reproduced

<!-- Written by `python analysis/paper.py --page` from analysis/results.  Edit those, or analysis/. -->

Every experiment of the papers is a scenario in `scenarios/paper/`, and each of ours beyond them one in
`scenarios/beyond/`.  This page is written from the summaries of the runs, which are in `analysis/results/`; none of
our figures is typed in.

- **Ours** is the mean over replicas and over the evaluations of the last {WINDOW} rounds, of short runs of the last
  quarter, as single rounds swing with the user who was heard last; behind ± is the half width of the 95 % interval of
  Student's t over replicas.  *Last round* is the mean over replicas alone.
- **Agrees** says whether ours meets what was published with its ±, often a standard deviation; *open* where ours is
  wider than its mean, or one replica lies outside.  What was published as words is given the range that is named.
- **Claimed** orders are compared replica by replica, on the same traces: *yes* and *no* where the interval of the
  difference leaves out 0, *open* where it does not, or where one replica has none.
- Wall times are of one thread of a shared machine with two cores and no GPU, often beside other runs; of a run
  that was extended, those of its first replicas.

Run one of them, and put it beside the paper:

```
netfl run scenarios/paper/fig3.yaml --override full --out runs/paper/fig3
python analysis/paper.py fig3 --runs runs/paper
```
"""


def text(experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]], pictures: Path) -> str:
    """The page.

    Args:
        experiments: in their order.
        results: of each, what is kept of its parts.
        pictures: the folder of the pictures; those that are there are shown.
    """
    lines = [_HEAD, "| experiment | run | orders as claimed | figures that agree |", "|---|---|---|---|"]
    lines += [_overview(one, results[one.name]) for one in experiments]
    for one in experiments:
        lines += ["", *section(one, results[one.name], pictures)]
    return "\n".join(lines) + "\n"


def section(one: Experiment, results: Mapping[str, Result], pictures: Path | None = None) -> Iterator[str]:
    """The part of the page that one experiment has, line by line."""
    yield f"## {one.title}"
    yield ""
    yield f"{one.claim}  ({one.source}.)"
    yield ""
    for name in one.pictures:
        if pictures is not None and (pictures / name).exists():
            yield f"![{one.title}](reproduction/{name})"
            yield ""
    yield from _runs(one, results)
    rows = [row for row in one.rows if _told_of(row, results)]
    if rows:
        folded = len(rows) > LONG
        yield ""
        if folded:
            yield f"<details><summary>All {len(rows)} figures</summary>"
            yield ""
        yield from _figures(rows, results)
        if folded:
            yield ""
            yield "</details>"
    orders = [order for order in one.orders if _there(order, results)]
    if orders:
        yield ""
        yield "| claimed | difference | so here |"
        yield "|---|---|---|"
        for order in orders:
            found = difference(results, order)
            yield f"| {order.label} | {_signed(found, order.digits)} | {_verdict(found)} |"
    remarks = one.remarks(results) if results else ""
    if remarks:
        yield ""
        yield remarks


def _overview(one: Experiment, results: Mapping[str, Result]) -> str:
    """One row of the table on top: of the paper's whole runs, and of shortened ones where there is no other."""
    whole = [name for name, part in one.parts.items() if part.full]
    done = [name for name in whole if name in results]
    counted = {name: results[name] for name in done} or results
    orders = [_verdict(difference(counted, order)) for order in one.orders if _there(order, counted)]
    agree = [
        agreement(spread(counted, row), row.published) for row in one.rows if row.published and _told_of(row, counted)
    ]
    how = (
        "full"
        if done == whole
        else f"{len(done)} of {len(whole)} in full"
        if done
        else "shortened"
        if results
        else "not run"
    )
    anchor = "".join(letter for letter in one.title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")
    held = f"{orders.count('yes')} of {len(orders)}" if orders else "–"
    met = f"{agree.count('yes')} of {len(agree)}" if agree else "–"
    return f"| [{one.title}](#{anchor}) | {how} | {held} | {met} |"


def _runs(one: Experiment, results: Mapping[str, Result]) -> Iterator[str]:
    """What was run, and how to run it."""
    yield "| run | command | rounds | replicas | wall time |"
    yield "|---|---|---|---|---|"
    for name, part in one.parts.items():
        found = results.get(name)
        more = found.told["replicas"] if found else 0
        extended = f", then `netfl extend DIR --replicas {more}`" if more > part.replicas else ""
        yield f"| {name} | `{part.command}`{extended} | {_told(found, part)} |"


def _told(result: Result | None, part: Part) -> str:
    """Rounds, replicas and time of a part that was run."""
    if result is None:
        return "not run | | "
    told = result.told
    short = "" if part.full else " (shortened)"
    diverged = f"; diverged: {', '.join(told['diverged'])}" if told["diverged"] else ""
    return f"{told['rounds']:,}{short} | {told['replicas']}{diverged} | {_clock(told['wall_s'])}"


def _figures(rows: Sequence[Row], results: Mapping[str, Result]) -> Iterator[str]:
    """The table of figures."""
    published = any(row.published for row in rows)
    yield "| | published | ours | last round | apart | agrees |" if published else "| | ours | last round |"
    yield "|---|---|---|---|---|---|" if published else "|---|---|---|"
    for row in rows:
        found, last = spread(results, row), spread(results, row, last=True)
        ours = f"{_number(found.mean, row.digits)}{_half(found, row.digits)}"
        cells = [row.label, ours, _number(last.mean, row.digits)]
        if published:
            cells[1:1] = [_words(row)]
            cells += _beside(found, row)
        yield f"| {' | '.join(cells)} |"


def _beside(found: ConfidenceInterval, row: Row) -> list[str]:
    """How far a figure lies from the published one, and whether they agree."""
    if row.published is None:
        return ["", ""]
    apart = found.mean - row.published.value
    return [
        "" if math.isnan(apart) else f"{apart:+.{row.digits}f}",
        agreement(found, row.published),
    ]


def _words(row: Row) -> str:
    """A published figure as text."""
    told = row.published
    if told is None:
        return ""
    if told.text:
        return f"{told.text} ({told.low:g} to {told.high:g})"
    return _number(told.value, row.digits) + (f" ± {told.spread:.{row.digits}f}" if told.spread else "")


def _verdict(found: ConfidenceInterval) -> str:
    """Whether a claimed order holds."""
    if not found.clear:
        return "open"
    return "yes" if found.mean > 0 else "no"


def _told_of(row: Row, results: Mapping[str, Result]) -> bool:
    """Whether all is there that a row is about."""
    return all(part in results for part in row.parts)


def _there(order: Order, results: Mapping[str, Result]) -> bool:
    """Whether all is there that an order is about."""
    return all(part in results for part in (*order.parts, *order.against))


def _signed(found: ConfidenceInterval, digits: int) -> str:
    """A difference with its interval."""
    return f"{found.mean:+.{digits}f}{_half(found, digits)}"


def _half(found: ConfidenceInterval, digits: int) -> str:
    """The half interval behind ±, if there is one."""
    return "" if math.isnan(found.half) else f" ± {found.half:.{digits}f}"


def _number(value: float, digits: int) -> str:
    """A figure."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def _clock(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
