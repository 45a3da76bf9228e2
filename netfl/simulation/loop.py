"""The main loop of a run: the network delivers, the learners train, the server broadcasts, the observers look on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from netfl.simulation.learning_session import LearningSession
from netfl.simulation.observers import OutageTracker
from netfl.simulation.setup import RunSetup
from netfl.simulation.simulation import Simulation, access_errors, model_errors
from netfl.types import LearnerReport, RoundBatch, RunObserver, RunProgress


def run_rounds(setup: RunSetup, learning: LearningSession, observers: Sequence[RunObserver]) -> bool:
    """Run all rounds of all replicas, or until an observer stops the run.

    In each round the access of each replica delivers updates to its server, and the learners compute the next version
    of every lane as one batch.  The access receives their report with the broadcast of that version.

    Args:
        setup: the prepared run, with the recorders of its replicas.
        learning: the learners; without them rounds may be simulated in batches.
        observers: called in their order after each round.

    Returns:
        Whether all rounds are over.
    """
    outages = OutageTracker(setup.contexts[0].recorder)
    setup = setup.with_recorders([outages, *(context.recorder for context in setup.contexts[1:])])
    simulations = [Simulation(setup.scenario, replica, setup=setup) for replica in setup.replicas]
    batches = [batch for simulation in simulations if (batch := simulation.batches())] if learning.is_trace else []
    if batches:
        return _run_batches(setup, batches, observers)
    report = evaluation = learning.start()
    _announce(report, [0.0] * len(simulations), observers)
    for index in range(1, setup.scenario.steps + 1):
        if any(observer.stop for observer in observers):
            break
        rounds = [simulation.step(report=report.to(place)) for place, simulation in enumerate(simulations)]
        with model_errors("learning", rounds[0].closed_s):
            report = learning.step(rounds)
        evaluation = report if report.metrics else evaluation
        progress = RunProgress(
            round=index,
            rounds=setup.scenario.steps,
            time_s=rounds[0].closed_s,
            delivered=tuple(delivery.user for delivery in rounds[0].deliveries),
            down=outages.down,
            metrics=evaluation.metrics,
            lanes=learning.lanes,
            results=rounds,
            diverged=learning.diverged,
        )
        for observer in observers:
            observer.on_round(progress)
        _announce(report, [each.closed_s for each in rounds], observers)
    else:
        for place, simulation in enumerate(simulations):
            simulation.finish(report.to(place))
        return True
    for simulation in simulations:
        simulation.close()
    return False


def _run_batches(setup: RunSetup, replicas: Sequence[Iterator[RoundBatch]], observers: Sequence[RunObserver]) -> bool:
    """Run rounds that no learner uses in batches of arrays."""
    index, batches = 0, zip(*replicas, strict=True)
    while index < setup.scenario.steps and not any(observer.stop for observer in observers):
        with access_errors(setup.scenario, 0.0):
            results = next(batches)
        first = results[0]
        index, delivered = int(first.index[-1]), first.user[len(first.user) - first.delivered[-1] :]
        progress = RunProgress(
            index, setup.scenario.steps, float(first.closed_s[-1]), tuple(delivered.tolist()), results=results
        )
        for observer in observers:
            observer.on_round(progress)
    return index == setup.scenario.steps


def _announce(report: LearnerReport, closed_s: Sequence[float], observers: Sequence[RunObserver]) -> None:
    """Pass an evaluation on to the observers."""
    if report.metrics:
        for observer in observers:
            observer.on_metrics(report, closed_s)
