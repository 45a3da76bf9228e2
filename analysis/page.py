"""The folder docs/reproduction, and the sentences about it in README.md, written from the stored results.

It has an index, a page for each paper, and tables as CSV: see `tables`.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import tables
from agreement import MOST_REPLICAS, NO, OPEN, YES, Comparison
from claims import (
    EXTREME,
    KINDS,
    NO_EFFECT,
    Claim,
    chosen_sentence,
    claims_of,
    claims_sentence,
    count_papers,
    count_sensitivity,
    counts,
    has_order,
    has_row,
    is_diverged,
    is_shown,
    lacks_control,
    state,
    states_sentence,
    tally,
)
from reproduction import Experiment, Order, Result, Row
from run_results import WINDOW, compare, difference, estimate, holds, lost_pairs, replicas_to_decide
from wording import listed, signed, spread

from netfl.results.statistics import MIN_REPLICAS, ConfidenceInterval

PAGES = {
    "Federated Learning Under Restricted User Availability": "user_availability",
    "A Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging": "fedau",
    "Fair Resource Allocation in Federated Learning": "q_ffl",
    "User Selection in Federated Learning": "weight_divergence",
    "": "own_experiments",
}
"""The name of the page of each paper, by its title, and of that of our own experiments."""
OWN = "Experiments of our own"
"""The title of the page of our own experiments."""
LONG = 24
"""Longer tables are folded."""
WIDTH = 120
"""Characters of a line of prose."""
BEGIN = "<!-- claims: written by `python analysis/paper.py --page` -->\n"
END = "<!-- end of claims -->"
"""Marks around the generated sentences of README.md."""
_COMMENT = (
    "<!-- Written by `python analysis/paper.py --page` from analysis/results. Change analysis/, not this page. -->"
)
_INDEX = """# Papers reproduced

{comment}

These pages compare the published results of {papers} papers with runs of netfl.

{pages}

Two more papers have pages of their own, without verdicts of the rule below. Their hypotheses were written before the
runs:

- [Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge](fedcs.md)
- [A Joint Learning and Communications Framework for Federated Learning over Wireless Networks](block_assignment.md)

**{claims}**

{counts}

{states}

{chosen}

## What a verdict says

One rule decides all rows (`analysis/agreement.py`). **It was chosen in November 2026, when the results that it judges
were known**, and was committed, with the margins of all values, before the verdicts were computed by it.

- **Values**: d is ours minus published, and d ± q its 95 % interval by Welch. The margin M is half of the effect that
  the paper claims on this metric: the largest difference of two published values of which it claims an order. The value
  *agrees* if the whole interval lies within the margin, |d| + q ≤ M. It *disagrees* if the whole interval lies outside,
  |d| - q > M. Else it is *open*. A small difference can agree although it is no chance, and a wide interval never does.
- **Values without a claimed effect** have no margin that follows from the paper. Theirs is M = 2 s and half a unit of
  the last digit, for the published standard deviation s. They are counted apart: "agrees" says less there.
- **Values of 0 or 100 %** are counted apart, too, as they agree under any rule if ours have no room either.
- **Orders** agree if the 95 % interval of the paired difference has the claimed sign, disagree if it has the opposite
  sign, and are open if it includes 0.
- All are open with fewer than three replicas, or if training diverged in some: the others would be a choice by result.
- **What was published**: a mean of k runs with their standard deviation (SD). Where our copy of a paper names neither
  k nor the meaning of ±, the row says *assumed*. A single published value has no spread, and is taken as one more run
  of ours. So is a mean over splits of one draw of the data where our replicas are draws: its ± says nothing of other
  draws. The interval is then wider than that of five runs would be.
- Of words ("about 50 %") d is the distance of ours beyond the range in parentheses.

{margins}

## Overview

The columns of orders, and of values with a claimed effect, without one, and of 0 or 100 %, have the numbers of claims
that agree/are open/disagree.

| experiment | run | orders | with effect | without | 0 or 100 % | untested | other settings | hours missing |
|---|---|---|---|---|---|---|---|---|
{overview}

- **Run**: *full* means that all replicas of all runs at the authors' settings exist. Otherwise the column counts the
  replicas that exist, of those in the plan. *Other settings*: there are only runs with fewer rounds, a smaller model,
  or less or other data. *No data*: we may not distribute the data. [Hours](#hours) lists what is missing, and why.
- A claim counts once, and only if a run has the settings of its authors. **Untested** claims have no such run yet.
- **Other settings**: {sensitivity} rows with other pixel scales, fewer rounds or other step sizes. They show how much
  the settings matter. They are no claims. The CSV file of each experiment has them.
- Experiments named *Beyond* are our own. They do not count as published claims.

**A gain at equal step sizes may be that of a larger step**, because a CVaR objective steps further on users above t.
The sections of Fig. 3, Fig. 4 and our own experiments therefore also compare with FedAvg at larger steps, on the same
traces. [Findings](../findings.md) tune all learners by one rule.

## Repeat an experiment

Every experiment of the papers is a scenario in `scenarios/paper/`. Our own experiments are in `scenarios/beyond/`. To
repeat an experiment and compare it with its paper, run:

```
netfl run scenarios/paper/fig3.yaml --override full --out runs/paper/fig3
python analysis/paper.py fig3 --runs runs/paper
```

The second command prints the tables of the experiment, draws its plots, stores our values in `analysis/results/`, and
writes these pages again. No value of ours is typed by hand. [Data](../data.md) describes how to get the data sets.

## How to read the tables

- **Ours** is the mean over replicas and over the evaluations of the last {window} rounds. Runs of fewer than {short:,}
  rounds use their last quarter. A single evaluation depends strongly on the user whose update was delivered last. The
  number after ± is the half width of the 95 % interval of Student's t over replicas, from three on. Where the interval
  leaves the possible values, both ends stand in its place, and * marks the end that is cut.
- **Holds** compares an order replica by replica, on the same traces. *Not run*: the second learner has no run yet; its
  hours follow. *Diverged*: its training diverged in every replica.
- **Decided by**, and the number after *open*, is the number of replicas that would decide a claim, if mean and spread
  stay as they are. *Not by more replicas*: the published value is not exact enough, or the difference is about as large
  as the margin.
- **CSV files** have all rows of an experiment with the last evaluation, those at other settings included. *Setting* is
  *authors* or *other*. The columns *half* and *q* are half widths of 95 % intervals.
- **Plots** show the replicas whose curves are stored; the oldest results have none.
- **Hours** are those of one thread of a shared machine with two cores and no GPU, often beside other runs. Those
  marked *GPU* are of an NVIDIA H100, which trains all replicas of a run together. Hours of missing replicas are those
  of the existing ones on a CPU or, without any, estimated from a run of a few rounds.

## Hours

`analysis/campaign.py` makes these runs, the cheap ones first, and continues what is unfinished:

```
python analysis/campaign.py --list
python analysis/campaign.py --hours 2.5
```

With a GPU, `--together` trains all replicas that a run lacks in one batch. [runs.csv](runs.csv) has every run with its
command, its replicas and its hours.

| experiment | hours done | hours missing | what is missing |
|---|---|---|---|
{hours}

```{{toctree}}
:hidden:

{toctree}
fedcs
block_assignment
```
"""


def write_between_marks(path: Path, text: str) -> None:
    """Put a text between the marks of README.md."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path} has no lines {BEGIN.strip()!r} and {END!r}. Add both.")
    path.write_text(f"{before}{begin}{text}\n{end}{after}", encoding="utf-8")


def readme_text(experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]]) -> str:
    """Return the text of README.md on the papers: how many claims agree, by kind and by who chose the settings."""
    return "\n\n".join([_wrapped(claims_sentence(experiments, results)), counts(experiments, results)])


def files(
    experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]], plots: Path
) -> dict[str, str]:
    """Return the texts of the folder by the names of the files: the index, the pages of the papers, and the tables.

    Args:
        experiments: in their order.
        results: the stored results of each, by part.
        plots: the folder of the plots; the pages show those that exist.
    """
    found = {"index.md": _index(experiments, results)}
    for paper in dict.fromkeys(each.paper for each in experiments):
        of_paper = [each for each in experiments if each.paper == paper]
        lines = [f"# {paper or OWN}", "", _COMMENT]
        for each in of_paper:
            lines += ["", *section(each, results[each.name], plots)]
        found[f"{PAGES[paper]}.md"] = "\n".join(lines) + "\n"
    for each in experiments:
        found[f"{each.name}.csv"] = tables.rows_of(each, results[each.name])
    found["runs.csv"] = tables.runs(experiments, results)
    found["margins.csv"] = tables.margins(experiments)
    found["verdicts.csv"] = tables.verdicts(experiments, results)
    return found


def _index(experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]]) -> str:
    """Return the page of the folder."""
    titles = dict.fromkeys(each.paper for each in experiments)
    pages = [f"- [{title or OWN}]({PAGES[title]}.md)" for title in titles]
    states = (
        f"{states_sentence(experiments, results)} A claim is tested at the settings of its authors, as far as these "
        "are published. Where they are not, we had to choose:"
    )
    margins = (
        "The margins of all published values, tested or not, are in [margins.csv](margins.csv). Until this rule, a "
        "value agreed if it lay in the prediction interval of our replicas, to which the published spread and the "
        f"rounding were added: {_former()}. [verdicts.csv](verdicts.csv) has both verdicts on each claim, and `python "
        "analysis/claim_verdicts.py` prints them from the stored results. Before that, until November 2026, a claim "
        "counted once for each setting in which it was tested, and agreed if two intervals overlapped: 66 of 131 "
        "agreed, 45 were open and 20 disagreed."
    )
    return _INDEX.format(
        comment=_COMMENT,
        papers=count_papers(experiments),
        pages="\n".join(pages),
        claims=_wrapped(claims_sentence(experiments, results), WIDTH - 4),
        counts=counts(experiments, results),
        margins=_wrapped(margins),
        states=_wrapped(states),
        chosen=chosen_sentence(experiments, results),
        overview="\n".join(_overview(each, results[each.name]) for each in experiments),
        sensitivity=sum(count_sensitivity(each, results[each.name]) for each in experiments),
        hours="\n".join(_hours(each, results[each.name]) for each in experiments),
        window=WINDOW,
        short=4 * WINDOW,
        toctree="\n".join(PAGES[title] for title in titles),
    )


def _former() -> str:
    """Return how many claims agreed, were open and disagreed by the former rule."""
    answers = [*tables.former_verdicts().values()]
    yes, still_open, no = (answers.count(answer) for answer in (YES, OPEN, NO))
    return f"{yes} of {len(answers)} claims agreed, {still_open} were open and {no} disagreed"


def section(experiment: Experiment, results: Mapping[str, Result], plots: Path | None = None) -> Iterator[str]:
    """Yield the lines of the section of one experiment.

    Args:
        experiment: the experiment.
        results: its results, by part.
        plots: the folder of the plots, for a page, which has a link to the rows of other settings, and their orders
            only if no claim is tested. By default the section is printed, with all these rows.
    """
    yield f"## {experiment.title}"
    yield ""
    yield _wrapped(f"{experiment.claim} ({experiment.citation}.)")
    yield ""
    for name in experiment.plot_names:
        if plots is not None and (plots / name).exists():
            yield f"![{experiment.title}]({name})"
            yield ""
    if experiment.paper and experiment.chosen:
        yield _wrapped(f"**Chosen by us:** {experiment.chosen}.")
        yield ""
    shown = [name for name, part in experiment.parts.items() if name in results or part.turn]
    if experiment.paper and plots is not None:
        shown = [name for name in shown if experiment.parts[name].is_authors] or shown
    yield from _runs(experiment, shown, results)
    rows = [row for row in experiment.rows if has_row(row, results) or is_diverged(results, row)]
    orders = [order for order in experiment.orders if is_shown(order, results)]
    if experiment.paper:
        yield from _folded_values(experiment, [row for row in rows if experiment.is_authors(row)], results)
        yield from _orders(experiment, [order for order in orders if experiment.is_claim(order)], results)
        yield from _untested(experiment, results)
        yield from _history(experiment, orders, results)
        is_tested = any(claim.is_tested for claim in claims_of(experiment, results))
        if plots is None:
            yield from _values(experiment, [row for row in rows if not experiment.is_authors(row)], results)
        if plots is None or not is_tested:
            others = [order for order in orders if not experiment.is_claim(order) and not order.came_first]
            yield from _orders(experiment, others, results)
        if plots is not None:
            yield from _link_to_other_settings(experiment, results)
    else:
        yield from _folded_values(experiment, rows, results)
        yield from _orders(experiment, orders, results)
    remarks = experiment.remarks(results) if results else ""
    if remarks:
        yield ""
        yield "\n\n".join(_wrapped(paragraph) for paragraph in remarks.split("\n\n"))


def _history(experiment: Experiment, orders: Sequence[Order], results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the order of events, and the orders at the settings that came first."""
    if not experiment.history:
        return
    yield ""
    yield _wrapped(experiment.history)
    first = [order for order in orders if order.came_first]
    if first:
        answers = tally(Claim(experiment, order, holds(results, order)) for order in first if has_order(order, results))
        yield ""
        yield _wrapped(f"At the settings that came first, agree/open/disagree would be {answers}:")
        yield from _orders(experiment, first, results)


def _link_to_other_settings(experiment: Experiment, results: Mapping[str, Result]) -> Iterator[str]:
    """Yield a link to the rows of other settings."""
    count = count_sensitivity(experiment, results)
    if count:
        rows = "1 row" if count == 1 else f"{count} rows"
        yield ""
        yield f"[{experiment.name}.csv]({experiment.name}.csv) also has {rows} of other settings, which are no claims."


def _folded_values(experiment: Experiment, rows: Sequence[Row], results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the table of metrics, folded if it is long."""
    folded = len(rows) > LONG
    if folded:
        yield ""
        yield f"<details><summary>All {len(rows)} values</summary>"
    yield from _values(experiment, rows, results)
    if folded:
        yield ""
        yield "</details>"


def _orders(experiment: Experiment, orders: Sequence[Order], results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the table of orders; those whose second run is missing have its hours."""
    if not orders:
        return
    claims = any(experiment.is_claim(order) for order in orders)
    name = "claimed order" if claims else "order"
    yield ""
    yield f"| {name} | difference | replicas | holds | decided by |"
    yield "|---|---|---|---|---|"
    for order in orders:
        label = f"{order.label} (claim added after results)" if claims and order.after_results else order.label
        if lacks_control(order, results):
            hours = sum(experiment.hours_missing(part, None) for part in order.against)
            yield f"| {label} | – | 0 | not run | {missing_hours(hours)} |"
            continue
        found = difference(results, order)
        if not found.replicas:
            yield f"| {label} | – | 0 | diverged |  |"
            continue
        answer = holds(results, order)
        decided = ""
        if lost := lost_pairs(results, order):
            answer = f"open: diverged in {lost} of {found.replicas + lost}"
        elif answer == OPEN:
            decided = _decided_by(found)
        cells = [label, signed(found, order.digits), str(found.replicas), answer, decided]
        yield f"| {' | '.join(cells)} |"


def _untested(experiment: Experiment, results: Mapping[str, Result]) -> Iterator[str]:
    """Yield a sentence on the claims without a run."""
    count = sum(not claim.is_tested for claim in claims_of(experiment, results))
    if count:
        yield ""
        yield _wrapped(
            f"{count} claim{' is' if count == 1 else 's are'} untested: no run has the settings of the authors yet. "
            f"[{experiment.name}.csv]({experiment.name}.csv) has their published values and margins."
        )


def _wrapped(paragraph: str, width: int = WIDTH) -> str:
    """Break a paragraph into lines, never before a sign that would begin a list or before %; lists keep their lines."""
    if paragraph.startswith(("- ", "| ")):
        return paragraph
    kept = re.sub(r" ([-+*=]) ", "\0\\1\0", " ".join(paragraph.split())).replace(" %", "\0%")
    return textwrap.fill(kept, width, break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def _overview(experiment: Experiment, results: Mapping[str, Result]) -> str:
    """Return the row of an experiment in the table on top."""
    claims = claims_of(experiment, results)
    title = experiment.title
    anchor = "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter in "-_")
    cells = [f"[{title}]({PAGES[experiment.paper]}.md#{anchor})", state(experiment, results)]
    cells += [tally(claim for claim in claims if claim.kind == kind) for kind in KINDS]
    missing = sum(
        experiment.hours_missing(name, results.get(name)) for name, part in experiment.parts.items() if part.turn
    )
    untested = sum(not claim.is_tested for claim in claims)
    cells += [str(untested), str(count_sensitivity(experiment, results)), missing_hours(missing)]
    return f"| {' | '.join(cells)} |"


def _runs(experiment: Experiment, shown: Sequence[str], results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the table of some runs and their commands, folded if it is long."""
    folded = len(shown) > LONG
    if folded:
        yield f"<details><summary>All {len(shown)} runs</summary>"
        yield ""
    yield "| run | command | rounds | replicas | hours |"
    yield "|---|---|---|---|---|"
    for name in shown:
        part, result = experiment.parts[name], results.get(name)
        replicas = len(result.replicas) if result else 0
        extended = f", then `netfl extend DIR --replicas {replicas}`" if replicas > part.replicas else ""
        rounds = result.content["rounds"] if result else part.settings["rounds"]
        short = "" if part.full else " (shortened)"
        missing = experiment.hours_missing(name, result)
        cells = [name, f"`{part.command}`{extended}", f"{rounds:,}{short}", count_replicas(experiment, name, result)]
        cells.append(times(result, _duration) if result else f"{missing_hours(missing)} missing")
        yield f"| {' | '.join(cells)} |"
    if folded:
        yield ""
        yield "</details>"


def count_replicas(experiment: Experiment, name: str, result: Result | None) -> str:
    """Return the replicas that exist, of those in the plan if some are missing."""
    wanted, done = experiment.parts[name].replicas, experiment.count_done(name, result)
    count = f"{len(result.replicas)}" if result and done == wanted else f"{done} of {wanted}"
    diverged = [f"{learner} in {number}" for learner, number in result.diverged.items()] if result else []
    return f"{count}; diverged: {', '.join(diverged)}" if diverged else count


def _hours(experiment: Experiment, results: Mapping[str, Result]) -> str:
    """Return the row of an experiment in the table of hours."""
    planned = {name: part for name, part in experiment.parts.items() if part.turn}
    done = sum(result.core_s for result in results.values()) / 3600
    gpu = sum(result.gpu_s for result in results.values()) / 3600
    missing = {name: experiment.hours_missing(name, results.get(name)) for name in planned}
    replicas = sum(part.replicas - experiment.count_done(name, results.get(name)) for name, part in planned.items())
    needs = [*dict.fromkeys(planned[name].needs for name, hours in missing.items() if hours and planned[name].needs)]
    why = f"{replicas} replica{'' if replicas == 1 else 's'}: {listed(needs or ['time'])}" if replicas else "nothing"
    spent = f"{done:.1f}" + (f" + {gpu:.2f} GPU" if gpu else "")
    return f"| {experiment.title} | {spent} | {missing_hours(sum(missing.values()))} | {why} |"


def missing_hours(hours: float) -> str:
    """Return hours as text; those of a run without an estimate are unknown."""
    return "unknown" if math.isnan(hours) else f"{hours:.1f} h" if hours else "0"


def _decided_by(found: ConfidenceInterval) -> str:
    """Return the number of replicas that would decide an open order or value, as text."""
    if found.replicas < 2:
        return f"at least {MIN_REPLICAS} replicas"
    number = replicas_to_decide(found)
    return f"more than {MOST_REPLICAS:,} replicas" if number is None else f"about {number} replicas"


def _values(experiment: Experiment, rows: Sequence[Row], results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the table of metrics; claims have columns for the comparison."""
    if not rows:
        return
    claimed = any(experiment.is_claim(row) for row in rows)
    head = ["", "ours", "replicas"]
    if claimed:
        head[1:1] = ["agrees", "difference", "margin", "published", "of"]
    elif any(row.published for row in rows):
        head[1:1] = ["published"]
    yield ""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        found = estimate(results, row)
        ours = "diverged"
        if found.replicas:
            ours = f"{_number(found.mean, row.digits)}{spread(found, row.digits, row.metric, row.scale)}"
        cells = [row.label, ours, str(found.replicas)]
        if claimed:
            cells[1:1] = _compared(experiment, row, results)
        elif "published" in head:
            cells[1:1] = [_published(row)]
        yield f"| {' | '.join(cells)} |"


def _compared(experiment: Experiment, row: Row, results: Mapping[str, Result]) -> list[str]:
    """Return the verdict, the difference from the published value with its interval, the margin, and this value."""
    if row.published is None:
        return [""] * 5
    effect = experiment.effect(row)
    found = compare(results, row, effect)
    claim = Claim(experiment, row, found.answer)
    remark = {NO_EFFECT: " (no effect)", EXTREME: " (0 or 100 %)"}.get(claim.kind, "")
    return [
        found.answer if found.answer != OPEN else f"open: {_needed(found)}",
        signed(found.interval, row.digits),
        f"{found.margin:.{tables.margin_digits(row)}f}{remark}",
        _published(row),
        row.published.basis,
    ]


def _needed(found: Comparison) -> str:
    """Return the number of replicas that would decide an open value, as text."""
    if math.isnan(found.half):
        return "no interval"
    return "not by more replicas" if found.needed is None else f"about {found.needed} replicas"


def _published(row: Row) -> str:
    """Return a published value as text."""
    published = row.published
    if published is None:
        return ""
    if published.text:
        range_of_words = [f"{end:g}" for end in dict.fromkeys(published.ends)]
        return f"{published.text} ({' to '.join(range_of_words)})"
    spread = f" ± {published.spread:.{row.digits}f}" if published.spread else ""
    return _number(published.value, row.digits) + spread


def _number(value: float, digits: int) -> str:
    """Return a value as text."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def times(result: Result, text: Callable[[float], str]) -> str:
    """Return the times of a run on CPUs and on GPUs, by *text*."""
    parts = [text(result.core_s)] if result.core_s or not result.gpu_s else []
    return " + ".join([*parts, f"{text(result.gpu_s)} GPU"] if result.gpu_s else parts)


def _duration(seconds: float) -> str:
    """Return a time in a suitable unit."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
