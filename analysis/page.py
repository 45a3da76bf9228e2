"""The page docs/reproduction.md, and the sentence about it in README.md, written from the stored results."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reproduction import Experiment, Order, Result, Row
from run_results import (
    MOST_REPLICAS,
    WINDOW,
    agreement,
    difference,
    estimate,
    holds,
    lost_pairs,
    prediction_half,
    replicas_to_agree,
    replicas_to_decide,
)
from wording import listed, signed, spread

from netfl.results.statistics import ConfidenceInterval

OTHER_SETTINGS = "other settings"
"""Runs exist, but none at the authors' settings."""
LONG = 24
"""Longer tables are folded."""
WIDTH = 120
"""Characters of a line of prose."""
BEGIN = "<!-- claims: written by `python analysis/paper.py --page` -->\n"
END = "<!-- end of claims -->"
"""Marks around the generated sentence of README.md."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

_HEAD = """# Papers reproduced

<!-- Written by `python analysis/paper.py --page` from analysis/results. Change analysis/, not this page. -->

This page compares the published results of {papers} papers with runs of netfl.

**{claims}**

{unnamed}

{counting}

**A gain at equal step sizes may be that of a larger step**, because a CVaR objective steps further on users above t.
The sections of Fig. 3, Fig. 4 and our own experiments therefore also compare with FedAvg at larger steps, on the same
traces. [Findings](findings.md) tune all learners by one rule.

Every experiment of the papers is a scenario in `scenarios/paper/`. Our own experiments are in `scenarios/beyond/`. To
repeat an experiment and compare it with its paper, run:

```
netfl run scenarios/paper/fig3.yaml --override full --out runs/paper/fig3
python analysis/paper.py fig3 --runs runs/paper
```

The second command prints the tables of the experiment, draws its plots, stores our values in `analysis/results/`, and
writes this page again. No value of ours is typed by hand. [Data](data.md) describes how to get the data sets.

## Overview

| experiment | run | orders that agree | values that agree | open | disagree | untested | sensitivity | hours missing |
|---|---|---|---|---|---|---|---|---|
{overview}

- **Run**: *full* means that all replicas of all runs at the authors' settings exist. Otherwise the column counts the
  replicas that exist, of those in the plan. *Other settings*: there are only runs with fewer rounds, a smaller model,
  or less or other data. *No data*: we may not distribute the data. [Hours](#hours) lists what is missing, and why.
- **Orders**: the paper claims that a value is greater with one learner or setting than with another.
- **Values**: the paper prints a value, or words such as "about 50 %".
- A claim counts once, and only if a run has the settings of its authors. **Untested** claims have no such run yet.
- **Sensitivity**: rows of other settings, such as other pixel scales, fewer rounds or other step sizes. They show how
  much the settings matter. They are no claims, and no row of them agrees or disagrees.
- Experiments named *Beyond* are our own. They do not count as published claims.

## How to read the tables

- **Ours** is the mean over replicas and over the evaluations of the last {window} rounds. Runs of fewer than {short:,}
  rounds use their last quarter. A single evaluation depends strongly on the user whose update was delivered last. The
  number after ± is the half width of the 95 % interval of Student's t over replicas, from three on. Where the interval
  leaves the possible values, both ends stand in its place, and * marks the end that is cut.
- **Last round** is the mean over replicas of the last evaluation.
- **Difference**, beside a published value, is ours minus the published value.
- **Predicted** is the half width of the 95 % prediction interval: a further run, or the mean of as many runs as were
  published, lies within it with this probability, if it differs from ours by chance alone. For n replicas with the
  half width h it is h √(1 + n/k) for the mean of k runs. A published mean over splits of one draw of the data counts as
  one run, and so does a value of Table 2 of q-FFL, which names no number of runs.
- **Agrees** is *yes* if the published value lies in the prediction interval, otherwise *no*. The published ±, mostly a
  standard deviation of five runs, and half a unit of the last digit are added on both sides. If the paper gives only
  words ("about 50"), we compare with the range in parentheses. It is *open*, never *yes*, if there is one replica, or
  if our interval is wider than the effect that the paper claims on this metric: such an interval also holds values that
  contradict the claim. The effect is the largest difference of two published values of which the paper claims an order.
  The number of replicas that would make the interval narrow enough follows, or *runs differ too much* if no number
  would. Where the paper claims no order, as for most accuracies of all users, no width is asked for, and *yes* says
  less: that holds for {unchecked} of the {agreeing} values that agree. The width is that of our interval alone. The
  published ± is added to it for the comparison, and that of AFL is the wider of the two, so that its values may agree
  although they are some points away.
- **Holds** compares a claimed order replica by replica, on the same traces. It is *yes* or *no* if the interval of the
  difference excludes 0. It is *open* if the interval includes 0, if there is only one replica, or if training diverged
  in some replicas, so that the others are no fair choice. *Not run*: the second learner has no run yet; its hours
  follow. *Diverged*: its training diverged in every replica.
- **Decided by** is the number of replicas at which an open order would be decided, if mean and spread stay as they are.
  A single replica has no spread, so at least 2 are needed.
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

With a GPU, `--together` trains all replicas that a run lacks in one batch.

| experiment | hours done | hours missing | what is missing |
|---|---|---|---|
{hours}

<details><summary>Hours of every run</summary>

| run | replicas | hours done | hours missing | why |
|---|---|---|---|---|
{runs}

</details>
"""


@dataclass(frozen=True)
class Claims:
    """Claims of one experiment compared with our runs: "yes", "no" or "open" for each.

    Args:
        run: how far the experiment was run: ``full``, ``other settings``, ``2 of 9 replicas``, ``not run``, or ``no
            data`` if every run needs more than time.
        orders: one verdict for each claimed order that was tested.
        values: one verdict for each published value that was tested.
        untested: number of claims without a run at the authors' settings.
        sensitivity: number of rows with results at other settings.
    """

    run: str
    orders: Sequence[str]
    values: Sequence[str]
    untested: int = 0
    sensitivity: int = 0

    def count(self, answer: str) -> int:
        """Return the number of orders and values with this verdict."""
        return [*self.orders, *self.values].count(answer)


def count_claims(experiment: Experiment, results: Mapping[str, Result]) -> Claims:
    """Compare the claims of an experiment with its runs at the authors' settings."""
    authors = {name: part for name, part in experiment.parts.items() if part.is_authors}
    done = sum(experiment.count_done(name, results.get(name)) for name in authors)
    wanted = sum(part.replicas for part in authors.values())
    if authors and done == wanted:
        run = "full"
    elif done:
        run = f"{done} of {wanted} replicas"
    elif results:
        run = OTHER_SETTINGS
    else:
        run = "no data" if all(part.needs for part in authors.values()) else "not run"
    if not experiment.paper:
        return Claims(run, _verdicts(experiment.orders, results), [])
    orders = [order for order in experiment.orders if experiment.is_claim(order)]
    rows = [row for row in experiment.rows if experiment.is_claim(row)]
    of_orders = _verdicts(orders, results)
    of_values = [answer_of(experiment, row, results) for row in rows if _has_row(row, results)]
    untested = len(orders) + len(rows) - len(of_orders) - len(of_values)
    other_rows = [row for row in experiment.rows if not experiment.is_authors(row) and _has_row(row, results)]
    other_orders = _verdicts([order for order in experiment.orders if not experiment.is_claim(order)], results)
    return Claims(run, of_orders, of_values, untested, len(other_rows) + len(other_orders))


def _verdicts(orders: Sequence[Order], results: Mapping[str, Result]) -> list[str]:
    """Return the verdict on each order that has results."""
    return [holds(results, order) for order in orders if _has_order(order, results)]


def answer_of(experiment: Experiment, row: Row, results: Mapping[str, Result]) -> str:
    """Return whether the published value of a row agrees with our runs."""
    if row.published is None:
        raise ValueError(f"{row.label} has no published value")
    return agreement(estimate(results, row), row.published, experiment.effect(row))


def claims_sentence(experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]]) -> str:
    """Return the number of tested claims that agree with our runs, as a sentence, without experiments of our own."""
    claims = [count_claims(each, results[each.name]) for each in experiments if each.paper]
    yes, still_open, no = (sum(each.count(answer) for each in claims) for answer in ("yes", "open", "no"))
    runs = [each.run for each in claims]
    full, other, lacking, absent = (runs.count(word) for word in ("full", OTHER_SETTINGS, "no data", "not run"))
    partial = len(runs) - full - other - lacking - absent
    forms = [
        "1 experiment is run in full" if full == 1 else f"{full} experiments are run in full",
        *([f"{partial} in part"] if partial else []),
        *([f"{other} at other settings only"] if other else []),
        *([f"{absent} not yet"] if absent else []),
        *([f"{lacking} not, because the data cannot be distributed"] if lacking else []),
    ]
    papers = count_papers(experiments).capitalize()
    papers += " paper makes" if papers == "One" else " papers make"
    tested = yes + still_open + no
    untested = sum(each.untested for each in claims)
    sentences = [
        f"{papers} {tested + untested} claims.",
        f"We could test {tested}: {yes} agree with our runs, {still_open} are open and {no} disagree.",
    ]
    if untested:
        sentences.append(f"The other {untested} need data or computing time that we lack.")
    sentences.append("A claim is tested at the settings of its authors, as far as these are published.")
    return " ".join([*sentences, f"{listed(forms)}."])


def unnamed_sentences(experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]]) -> str:
    """Return how many of the tested claims need a setting that their paper leaves open, and these settings."""
    tested = []
    cells = []
    for each in experiments:
        claims = count_claims(each, results[each.name])
        count = len(claims.orders) + len(claims.values)
        if each.unnamed and count:
            tested.append(count)
            cells.append(f"{each.title} ({each.unnamed})")
    if not cells:
        return ""
    return (
        f"Of the tested claims, {sum(tested)} are of experiments whose papers leave a setting open, which is then "
        f"ours: {'; '.join(cells)}."
    )


COUNTED_BEFORE = (
    "Until November 2026 this page counted a claim once for each setting in which it was tested, and called it "
    "agreement if two intervals overlapped. So it had 131 claims, of which 66 agreed, 45 were open and 20 disagreed. "
    "Now a claim counts at its authors' settings only, and a published value is compared with a prediction interval."
)


def counting_sentences(experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]]) -> str:
    """Return how claims were counted before, and how many rows of other settings the page has."""
    rows = sum(count_claims(each, results[each.name]).sensitivity for each in experiments if each.paper)
    return f"{COUNTED_BEFORE} {rows} rows of other settings are no claims; they show how much the settings matter."


def count_unchecked(experiment: Experiment, results: Mapping[str, Result]) -> int:
    """Return the number of values that agree, and on whose metric the paper claims no effect."""
    claims = [row for row in experiment.rows if experiment.is_claim(row) and _has_row(row, results)]
    without_effect = [row for row in claims if math.isnan(experiment.effect(row))]
    return sum(answer_of(experiment, row, results) == "yes" for row in without_effect)


def count_papers(experiments: Sequence[Experiment]) -> str:
    """Return the number of papers in words."""
    return _NUMBERS[len({experiment.paper for experiment in experiments} - {""})]


def write_between_marks(path: Path, sentence: str) -> None:
    """Put the sentence between the marks of README.md."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path} has no lines {BEGIN.strip()!r} and {END!r}. Add both.")
    path.write_text(f"{before}{begin}{_wrapped(sentence)}\n{end}{after}", encoding="utf-8")


def text(experiments: Sequence[Experiment], results: Mapping[str, Mapping[str, Result]], plots: Path) -> str:
    """Return the page.

    Args:
        experiments: in their order.
        results: the stored results of each, by part.
        plots: the folder of the plots; the page shows those that exist.
    """
    overview = "\n".join(_overview(each, results[each.name]) for each in experiments)
    head = _HEAD.format(
        papers=count_papers(experiments),
        claims=_wrapped(claims_sentence(experiments, results), WIDTH - 4),
        unchecked=sum(count_unchecked(each, results[each.name]) for each in experiments),
        agreeing=sum(count_claims(each, results[each.name]).values.count("yes") for each in experiments if each.paper),
        unnamed=_wrapped(unnamed_sentences(experiments, results)),
        counting=_wrapped(counting_sentences(experiments, results)),
        overview=overview,
        hours="\n".join(_hours(each, results[each.name]) for each in experiments),
        runs="\n".join(row for each in experiments for row in _hours_of_runs(each, results[each.name])),
        window=WINDOW,
        short=4 * WINDOW,
    )
    lines = [head.rstrip("\n")]
    for each in experiments:
        lines += ["", *section(each, results[each.name], plots)]
    return "\n".join(lines) + "\n"


def section(experiment: Experiment, results: Mapping[str, Result], plots: Path | None = None) -> Iterator[str]:
    """Yield the lines of the section of one experiment."""
    yield f"## {experiment.title}"
    yield ""
    yield _wrapped(f"{experiment.claim} ({experiment.citation}.)")
    yield ""
    for name in experiment.plot_names:
        if plots is not None and (plots / name).exists():
            yield f"![{experiment.title}](reproduction/{name})"
            yield ""
    yield from _runs(experiment, results)
    rows = [row for row in experiment.rows if _has_row(row, results) or _is_diverged(row, results)]
    orders = [order for order in experiment.orders if _is_shown(order, results)]
    if experiment.paper:
        yield from _values(experiment, [row for row in rows if experiment.is_authors(row)], results)
        yield from _orders(experiment, [order for order in orders if experiment.is_claim(order)], results)
        yield from _untested(experiment, results)
        rows = [row for row in rows if not experiment.is_authors(row)]
        orders = [order for order in orders if not experiment.is_claim(order)]
        if rows or orders:
            yield ""
            yield "<details><summary>Sensitivity: other settings, no claims</summary>"
            yield from _values(experiment, rows, results)
            yield from _orders(experiment, orders, results)
            yield ""
            yield "</details>"
    else:
        yield from _folded_values(experiment, rows, results)
        yield from _orders(experiment, orders, results)
    remarks = experiment.remarks(results) if results else ""
    if remarks:
        yield ""
        yield "\n\n".join(_wrapped(paragraph) for paragraph in remarks.split("\n\n"))


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
    name = "claimed order" if experiment.is_claim(orders[0]) else "order"
    yield ""
    yield f"| {name} | difference | replicas | holds | decided by |"
    yield "|---|---|---|---|---|"
    for order in orders:
        if _lacks_control(order, results):
            hours = sum(experiment.hours_missing(part, None) for part in order.against)
            yield f"| {order.label} | – | 0 | not run | {_missing_hours(hours)} |"
            continue
        found = difference(results, order)
        if not found.replicas:
            yield f"| {order.label} | – | 0 | diverged |  |"
            continue
        answer = holds(results, order)
        decided = ""
        if lost := lost_pairs(results, order):
            answer = f"open: diverged in {lost} of {found.replicas + lost}"
        elif answer == "open":
            decided = _decided_by(found)
        cells = [order.label, signed(found, order.digits), str(found.replicas), answer, decided]
        yield f"| {' | '.join(cells)} |"


def _untested(experiment: Experiment, results: Mapping[str, Result]) -> Iterator[str]:
    """Yield a sentence on the claims without a run."""
    count = count_claims(experiment, results).untested
    if count:
        yield ""
        yield f"{count} claim{' is' if count == 1 else 's are'} untested: no run has the settings of the authors yet."


def _wrapped(paragraph: str, width: int = WIDTH) -> str:
    """Break a paragraph into lines, never before a sign that would begin a list or before %; lists keep their lines."""
    if paragraph.startswith(("- ", "| ")):
        return paragraph
    kept = re.sub(r" ([-+*=]) ", "\0\\1\0", " ".join(paragraph.split())).replace(" %", "\0%")
    return textwrap.fill(kept, width, break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def _overview(experiment: Experiment, results: Mapping[str, Result]) -> str:
    """Return the row of an experiment in the table on top."""
    claims = count_claims(experiment, results)
    title = experiment.title
    anchor = "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter in "-_")
    cells = [f"[{title}](#{anchor})", claims.run]
    cells += [f"{each.count('yes')} of {len(each)}" if each else "–" for each in (claims.orders, claims.values)]
    missing = sum(
        experiment.hours_missing(name, results.get(name)) for name, part in experiment.parts.items() if part.turn
    )
    cells += [str(claims.count("open")), str(claims.count("no"))]
    cells += [str(claims.untested), str(claims.sensitivity), _missing_hours(missing)]
    return f"| {' | '.join(cells)} |"


def _runs(experiment: Experiment, results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the table of the runs and their commands; shortened forms without a run are left out."""
    yield "| run | command | rounds | replicas | hours |"
    yield "|---|---|---|---|---|"
    for name, part in experiment.parts.items():
        result = results.get(name)
        if result is None and not part.turn:
            continue
        replicas = len(result.replicas) if result else 0
        extended = f", then `netfl extend DIR --replicas {replicas}`" if replicas > part.replicas else ""
        rounds = result.content["rounds"] if result else part.settings["rounds"]
        short = "" if part.full else " (shortened)"
        missing = experiment.hours_missing(name, result)
        cells = [name, f"`{part.command}`{extended}", f"{rounds:,}{short}", _replicas(experiment, name, result)]
        cells.append(_times(result, _duration) if result else f"{_missing_hours(missing)} missing")
        yield f"| {' | '.join(cells)} |"


def _replicas(experiment: Experiment, name: str, result: Result | None) -> str:
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
    return f"| {experiment.title} | {spent} | {_missing_hours(sum(missing.values()))} | {why} |"


def _hours_of_runs(experiment: Experiment, results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the rows of the runs of an experiment in the table of all runs."""
    for name, part in experiment.parts.items():
        result = results.get(name)
        missing = experiment.hours_missing(name, result) if part.turn else 0.0
        if result or missing:
            done = _times(result, lambda seconds: f"{seconds / 3600:.2f}") if result else "0"
            why = (part.needs or "time") if missing else ""
            cells = [experiment.stem(name), _replicas(experiment, name, result), done, _missing_hours(missing), why]
            yield f"| {' | '.join(cells)} |"


def _missing_hours(hours: float) -> str:
    """Return hours as text; those of a run without an estimate are unknown."""
    return "unknown" if math.isnan(hours) else f"{hours:.1f} h" if hours else "0"


def _decided_by(found: ConfidenceInterval) -> str:
    """Return the number of replicas that would decide an open order or value, as text."""
    if found.replicas < 2:
        return "at least 2 replicas"
    number = replicas_to_decide(found)
    return f"more than {MOST_REPLICAS:,} replicas" if number is None else f"about {number} replicas"


def _values(experiment: Experiment, rows: Sequence[Row], results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the table of metrics; claims have columns for the comparison."""
    if not rows:
        return
    published = any(row.published for row in rows)
    claimed = any(experiment.is_claim(row) for row in rows)
    head = ["", *(["published"] if published else []), "ours", "replicas", "last round"]
    head += ["difference", "predicted", "agrees"] if claimed else []
    yield ""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        found, last = estimate(results, row), estimate(results, row, last=True)
        ours = "diverged"
        if found.replicas:
            ours = f"{_number(found.mean, row.digits)}{spread(found, row.digits, row.metric, row.scale)}"
        cells = [row.label, ours, str(found.replicas), _number(last.mean, row.digits)]
        if published:
            cells[1:1] = [_published(row)]
        if claimed:
            cells += _compared(experiment, row, results)
        yield f"| {' | '.join(cells)} |"


def _compared(experiment: Experiment, row: Row, results: Mapping[str, Result]) -> list[str]:
    """Return the difference from the published value, the prediction interval, and whether the value agrees."""
    if row.published is None:
        return ["", "", ""]
    found = estimate(results, row)
    effect = experiment.effect(row)
    apart = found.mean - row.published.value
    half = prediction_half(found, row.published.runs)
    answer = agreement(found, row.published, effect)
    if answer == "open" and found.replicas < 2:
        answer += ": at least 2 replicas"
    elif answer == "open":
        count = replicas_to_agree(found, row.published, effect)
        answer += ": runs differ too much" if count is None else f": about {count} replicas"
    return [
        "" if math.isnan(apart) else f"{apart:+.{row.digits}f}",
        "–" if math.isnan(half) else f"± {half:.{row.digits}f}",
        answer,
    ]


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


def _has_row(row: Row, results: Mapping[str, Result]) -> bool:
    """Return whether a part of a row has results with its metric."""
    return estimate(results, row).replicas > 0


def _has_order(order: Order, results: Mapping[str, Result]) -> bool:
    """Return whether two parts of an order have results with its metric in the same replica."""
    return difference(results, order).replicas > 0


def _is_diverged(row: Row, results: Mapping[str, Result]) -> bool:
    """Return whether the learner of a row has been run, and diverged in every replica."""
    known = [results[part] for part in row.parts if part in results]
    return not _has_row(row, results) and any(result.values(row.learner, row.metric) for result in known)


def _is_shown(order: Order, results: Mapping[str, Result]) -> bool:
    """Return whether an order has results, or could have them: its second learner diverged, or has not been run."""
    second = Row(order.label, order.against or order.parts, order.below, order.metric)
    return _has_order(order, results) or _lacks_control(order, results) or _is_diverged(second, results)


def _lacks_control(order: Order, results: Mapping[str, Result]) -> bool:
    """Return whether the runs of the first learner exist, and none of the second one, such as of larger steps."""
    is_known = any(results[part].values(order.above, order.metric) for part in order.parts if part in results)
    return is_known and bool(order.against) and not any(part in results for part in order.against)


def _number(value: float, digits: int) -> str:
    """Return a value as text."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def _times(result: Result, text: Callable[[float], str]) -> str:
    """Return the times of a run on CPUs and on GPUs, by *text*."""
    parts = [text(result.core_s)] if result.core_s or not result.gpu_s else []
    return " + ".join([*parts, f"{text(result.gpu_s)} GPU"] if result.gpu_s else parts)


def _duration(seconds: float) -> str:
    """Return a time in a suitable unit."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
