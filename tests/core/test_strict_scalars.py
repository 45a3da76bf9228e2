"""Numbers of a scenario are read from numbers alone, and booleans from booleans alone."""

from typing import Annotated, Literal

import numpy as np
import pytest
from pydantic import Field
from support.error_messages import assert_messages

from netfl.core.spec import ByForm, Spec
from netfl.errors import ScenarioError
from netfl.units import Seconds


class Numbers(Spec):
    """A model with all forms of numbers."""

    count: int = 0
    share: float = 0.0
    flag: bool = False
    listed: tuple[tuple[int, float], ...] = ()
    weights: dict[int, float] = Field(default_factory=dict)
    either: Annotated[bool | Annotated[int, Field(ge=1)], ByForm()] = False
    batch: Annotated[Annotated[int, Field(ge=1)] | Literal["full"], ByForm()] = 1
    duration: Seconds = 0.0


@pytest.mark.parametrize("value", [8.0, 1e12])
def test_whole_floats_are_whole_numbers(value):
    assert Numbers(count=value) == Numbers(count=int(value))


@pytest.mark.parametrize("value", [10**12 + 1, 1e19, 10**19, -(10**30), 1e300])
def test_numbers_that_overflow_in_arrays_are_refused(value):
    """YAML reads ``1e19`` as a float, and the same digits as an integer."""
    with pytest.raises(ScenarioError, match=r"Numbers\.count: too large a number"):
        Numbers(count=value)
    assert Bounded(seed=2**100).seed == 2**100


class Bounded(Spec):
    """A model with a maximum of its own."""

    seed: Annotated[int, Field(ge=0, lt=2**128)] = 0


NO_NUMBERS = [
    ({"count": True}, "count: not a whole number (True); write a whole number"),
    ({"count": "8.0"}, "count: not a whole number ('8.0'); write 8.0 without quotes"),
    ({"count": " 8 "}, "count: not a whole number (' 8 '); write 8"),
    ({"count": "+8"}, "count: not a whole number ('+8'); write 8 without quotes"),
    ({"count": "1_0"}, "count: not a whole number ('1_0'); write 10"),
    ({"count": 2.5}, "count: not a whole number (2.5); write a whole number"),
    ({"count": "9" * 5000}, "count: not a whole number … write a whole number of fewer digits"),
    ({"count": np.True_}, "count: not a whole number … write a whole number"),
    ({"share": False}, "share: not a number (False); write a number"),
    ({"share": "10 %"}, "share: not a number ('10 %'); write 0.1"),
    ({"share": "0,5"}, "share: not a number ('0,5'); write 0.5"),
    ({"share": "1,000"}, "share: not a number ('1,000'); write a number"),
    ({"share": 10**400}, "share: not a finite number … write a finite number"),
    ({"share": 10**5000}, "share: not a finite number (too long to print); write a finite number"),
    ({"flag": 1}, "flag: neither true nor false (1); write true or false"),
    ({"flag": "yes"}, "flag: neither true nor false ('yes'); write true or false"),
    ({"listed": [[1, True]]}, "listed.0.1: not a number (True); write a number"),
    ({"weights": {"1_0": 1.0}}, "weights.1_0: not a whole number ('1_0'); write 10"),
    ({"weights": {"1": "2"}}, "weights.1: not a number ('2'); write 2 without quotes"),
    ({"either": "no"}, "either: not a whole number ('no'); write a whole number"),
    ({"batch": True}, "batch: not a whole number (True); write a whole number"),
    ({"duration": True}, "duration: not a number (True); write a number"),
    ({"duration": "8.0"}, "duration: not a number with a unit ('8.0'); write a number in s, … '20 ms'"),
]


@pytest.mark.parametrize(("fields", "message"), NO_NUMBERS, ids=[message[:40] for _, message in NO_NUMBERS])
def test_only_numbers_are_numbers(fields, message):
    with pytest.raises(ScenarioError) as raised:
        Numbers(**fields)
    assert_messages([str(raised.value).removeprefix("Numbers.")], [message])


def test_integral_numbers_and_those_of_numpy_are_whole_numbers():
    numbers = Numbers(count=1e3, share=np.float32(0.5), flag=np.True_, weights={"0": 1, 7: 2.5}, batch=np.int64(8))
    assert numbers == Numbers(count=1000, share=0.5, flag=True, weights={0: 1.0, 7: 2.5}, batch=8)
    assert [type(value) for value in (numbers.count, numbers.share, numbers.batch)] == [int, float, int]
    assert Numbers(either=True).either is True
    assert Numbers(either=4).either == 4
