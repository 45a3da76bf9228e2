"""Mutants of scenario files are read, or refused with located errors that state what would do."""

import pytest
from support.scenario_mutants import examine

MUTANTS = 300
"""Number of mutants; `benchmarks/mutated_scenarios.py` checks more and others."""
MIN_REMEDIES = 0.99
"""Share of located errors that state what would do."""


@pytest.mark.slow
@pytest.mark.thorough
def test_mutants_are_read_or_refused_with_remedies():
    outcomes = [*examine(range(MUTANTS))]
    assert len(outcomes) == MUTANTS
    assert [(outcome.number, outcome.problem) for outcome in outcomes if outcome.problem] == []
    faults = [fault for outcome in outcomes for fault in outcome.faults]
    assert [text for text, is_located, _ in faults if not is_located] == []
    without = [text for text, _, has_remedy in faults if not has_remedy]
    assert len(without) <= (1 - MIN_REMEDIES) * len(faults), without
