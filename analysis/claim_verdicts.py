"""All claims of the papers with the verdict of the former rule beside that of `agreement`, and their counts.

It reads the stored results alone:

    python analysis/claim_verdicts.py
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import paper
from agreement import NO, OPEN, YES
from claims import KINDS, SETTINGS, Claim, all_claims, claims_sentence, counts, tally
from tables import former_verdicts, key


def text(claims: Sequence[Claim]) -> str:
    """Return the table of all tested claims, and how many claims changed from one verdict to another.

    Args:
        claims: the tested claims.
    """
    former = former_verdicts()
    lines = [f"{'former':7} {'now':7} {'settings':8} claim"]
    for claim in claims:
        kind = KINDS[claim.kind] + (", after results" if claim.is_after_results else "")
        words = f"{claim.experiment.name}: {claim.item.label} ({kind})"
        lines.append(f"{former.get(key(claim), '-'):7} {claim.answer:7} {claim.settings:8} {words}")
    lines += ["", f"{'former':7} " + " ".join(f"{answer:>5}" for answer in (YES, OPEN, NO))]
    for before in (YES, OPEN, NO):
        changed = [claim.answer for claim in claims if former.get(key(claim)) == before]
        lines.append(f"{before:7} " + " ".join(f"{changed.count(answer):5}" for answer in (YES, OPEN, NO)))
    lines += ["", "agree/open/disagree"]
    for kind, words in KINDS.items():
        for who, where in SETTINGS.items():
            found = tally(claim for claim in claims if (claim.kind, claim.settings) == (kind, who))
            lines.append(f"{words}, {where}: {found}")
    return "\n".join(lines)


def main() -> None:
    """Print the claims."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    results, experiments = paper.read_all_results(), [*paper.EXPERIMENTS.values()]
    print(text([claim for claim in all_claims(experiments, results) if claim.is_tested]))
    print(f"\n{claims_sentence(experiments, results)}\n\n{counts(experiments, results)}")


if __name__ == "__main__":
    main()
