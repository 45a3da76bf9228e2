"""Rates and probabilities of users, as a scenario states them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, TypeAdapter
from pydantic_core import PydanticCustomError

from netfl.network.rates import Zipf, ZipfChances
from netfl.registry import Spec
from netfl.streams import Streams

_RATES: TypeAdapter[tuple[float, ...]] = TypeAdapter(
    Annotated[tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...], Field(min_length=1)]
)
_SHARES: TypeAdapter[tuple[float, ...]] = TypeAdapter(
    Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1)]
)
_SHARE: TypeAdapter[float] = TypeAdapter(Annotated[float, Field(gt=0, le=1)])
_SUM_TOLERANCE = 1e-3


class LabelCorrelation(Spec):
    """Dependence of a user's probability on its labels.

    ``p_n = max(minimum, mean * C * <kappa_n, q>)``, at most 1, with ``C`` labels, ``kappa_n`` the shares of the labels
    in user n's data, and ``q`` one draw from the symmetric Dirichlet distribution over labels (Wang and Ji, "A
    lightweight method for tackling unknown participation statistics in federated averaging", ICLR 2024).
    """

    concentration: Annotated[float, Field(gt=0)] = 0.1
    """Concentration of the Dirichlet distribution; the smaller, the fewer labels have a high probability."""
    minimum: Annotated[float, Field(gt=0, le=1)] = 0.02
    """Lower bound of the probability."""
    mean: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Mean probability before the minimum is applied."""


class LabelCorrelated(Spec):
    """Probabilities that follow the users' labels."""

    label_correlated: LabelCorrelation
    """Parameters of the dependence; an empty mapping for the published values."""


def read_rho(value: Any) -> object:
    """Validate rates by the form in which they are written, so that an error names the wrong entry."""
    if isinstance(value, Zipf) or value == "random_simplex":
        return value
    if isinstance(value, Mapping):
        return Zipf.model_validate(value)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise PydanticCustomError("rho", "no rates", {"remedy": "write a list, {zipf: 1.0}, or random_simplex"})
    rates = _RATES.validate_python(value)
    total = sum(rates)
    if abs(total - 1) > _SUM_TOLERANCE:
        problem = f"the rates sum to {total:.6g}, not to 1"
        raise PydanticCustomError("rho", problem, {"remedy": "divide each by their sum"})
    return rates


def _read_probability(value: Any) -> object:
    if isinstance(value, LabelCorrelated | ZipfChances):
        return value
    if isinstance(value, Mapping):
        return (LabelCorrelated if "label_correlated" in value else ZipfChances).model_validate(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _SHARES.validate_python(value)
    if isinstance(value, bool):
        raise PydanticCustomError("probability", "no probability", {"remedy": "write a number, a list, or {zipf: 1.0}"})
    return _SHARE.validate_python(value)


Rho = Annotated[tuple[float, ...] | Zipf | Literal["random_simplex"], BeforeValidator(read_rho)]
"""A list with one rate for each user, ``{zipf: power}``, or ``random_simplex``."""
Chances = Annotated[tuple[float, ...] | float | ZipfChances | LabelCorrelated, BeforeValidator(_read_probability)]
"""A list with one probability for each user, one for all, ``{zipf: power}``, or ``{label_correlated: {…}}``."""


def normalized_rates(
    rho: tuple[float, ...] | Zipf | Literal["random_simplex"], users: int, streams: Streams
) -> NDArray[Any]:
    """Return the rates of all users, ``[users]``, normalized to sum to 1."""
    if isinstance(rho, Zipf):
        raw = rho.weights(users)
    elif isinstance(rho, tuple):
        raw = np.array(rho)
    else:
        raw = np.sort(streams.rng("rho").random(users))[::-1]
    return np.asarray(raw / raw.sum())


def correlated_rates(form: LabelCorrelation, label_mix: NDArray[np.float64], streams: Streams) -> NDArray[np.float64]:
    """Return the users' probabilities, given the shares of the labels in their data, ``[users, classes]``."""
    classes = label_mix.shape[1]
    preference = streams.rng("labels").dirichlet(np.full(classes, form.concentration))
    return np.asarray(np.clip(form.mean * classes * (label_mix @ preference), form.minimum, 1.0))
