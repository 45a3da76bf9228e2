"""Rates and probabilities of users, as a scenario states them."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field

from netfl.core.rates import Zipf, ZipfChances
from netfl.core.spec import ByForm, Spec
from netfl.core.spec_errors import PerUser, invalid
from netfl.streams import Streams
from netfl.types import Floats
from netfl.units import PositiveProbability

_SUM_TOLERANCE = 1e-3


class LabelCorrelation(Spec):
    """Dependence of a user's probability on its labels.

    ``p_n = max(minimum, mean * C * <kappa_n, q>)``, at most 1, with ``C`` labels, ``kappa_n`` the shares of the labels
    in user n's data, and ``q`` one draw from the symmetric Dirichlet distribution over labels (Wang and Ji, "A
    lightweight method for tackling unknown participation statistics in federated averaging", ICLR 2024).
    """

    concentration: Annotated[float, Field(gt=0)] = 0.1
    """Concentration of the Dirichlet distribution; the smaller, the fewer labels have a high probability."""
    minimum: PositiveProbability = 0.02
    """Lower bound of the probability."""
    mean: PositiveProbability = 0.1
    """Mean probability before the minimum is applied."""


class LabelCorrelated(Spec):
    """Probabilities that follow the users' labels."""

    label_correlated: LabelCorrelation
    """Parameters of the dependence; an empty mapping for the published values."""


def _check_sum(rates: tuple[float, ...]) -> tuple[float, ...]:
    if not any(rates):
        raise invalid("all rates are 0", "give a user a rate above 0")
    if abs(sum(rates) - 1) > _SUM_TOLERANCE:
        raise invalid(f"the rates sum to {sum(rates):.6g}, not to 1", "divide each by their sum")
    return rates


_Rates = Annotated[
    tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...], Field(min_length=1), AfterValidator(_check_sum)
]
Rho = Annotated[_Rates | Zipf | Literal["random_simplex"], ByForm(), PerUser("{zipf: 1.0}, or random_simplex")]
"""A list with one rate for each user, ``{zipf: power}``, or ``random_simplex``."""
_List = Annotated[tuple[PositiveProbability, ...], Field(min_length=1)]
Chances = Annotated[_List | PositiveProbability | ZipfChances | LabelCorrelated, ByForm()]
"""A list with one probability for each user, one for all, ``{zipf: power}``, or ``{label_correlated: {…}}``."""


def normalized_rates(rho: Rho, users: int, streams: Streams) -> Floats:
    """Return the rates of all users, ``[users]``, normalized to sum to 1."""
    if isinstance(rho, Zipf):
        raw = rho.weights(users)
    elif isinstance(rho, tuple):
        raw = np.array(rho)
    else:  # random_simplex
        raw = np.sort(streams.rng("rho").random(users))[::-1]
    return np.asarray(raw / raw.sum())


def correlated_rates(form: LabelCorrelation, label_mix: Floats, streams: Streams) -> Floats:
    """Return the users' probabilities, given the shares of the labels in their data, ``[users, classes]``."""
    classes = label_mix.shape[1]
    q = streams.rng("labels").dirichlet(np.full(classes, form.concentration))  # [classes]
    return np.asarray(np.clip(form.mean * classes * (label_mix @ q), form.minimum, 1.0))
