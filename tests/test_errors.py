"""Errors of netfl: their names, their texts, and their copies."""

import copy
import errno
import os
import pickle

import numpy as np
import pytest
import torch

import netfl
from netfl.errors import Fault, MachineError, ModelError, NetflError, ScenarioError, cannot_write, model_errors

ERRORS = [
    NetflError("no"),
    MachineError("the disk is full"),
    ScenarioError([Fault("users", "not a number", "x", "write a number", "a.yaml:3"), Fault("", "too late")]),
    ModelError("tdma", "KeyError: 3", user=4, time_s=60.0),
]


@pytest.mark.parametrize("error", ERRORS)
def test_errors_stand_at_the_top_of_the_package(error):
    assert getattr(netfl, type(error).__name__) is type(error)


@pytest.mark.parametrize("error", ERRORS)
def test_copies_of_errors_are_whole(error):
    for duplicate in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error), type(error)(*error.args)):
        assert type(duplicate) is type(error)
        assert str(duplicate) == str(error)
        assert vars(duplicate) == vars(error)


def test_the_text_of_an_error_has_all_of_its_parts():
    assert str(ERRORS[2]) == "a.yaml:3: users: not a number ('x'); write a number\ntoo late"
    assert str(ERRORS[3]) == "tdma, user 4, at 60 s of simulated time: KeyError: 3"


@pytest.mark.parametrize("allocate", [lambda: np.empty(1 << 58), lambda: torch.empty(1 << 58), lambda: bytes(1 << 58)])
def test_a_lack_of_memory_is_no_error_of_a_model(allocate):
    with pytest.raises(MachineError, match=r"not enough memory: mine, at 3 s of simulated time: \w*Error"):  # noqa: SIM117
        with model_errors("mine", 3.0):
            allocate()


def test_other_errors_name_the_model():
    with pytest.raises(ModelError, match="mine, at 3 s of simulated time: RuntimeError: no"), model_errors("mine", 3.0):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "free some space on this disk, or choose a folder on another one"),
        (errno.EACCES, "check its permissions, or choose another folder"),
        (errno.EROFS, "check its permissions, or choose another folder"),
        (errno.ENAMETOOLONG, "choose a shorter name"),
        (errno.ENOTDIR, "check the path, or choose another one"),
    ],
)
def test_an_error_of_the_system_says_what_helps(code, remedy):
    reason = os.strerror(code)
    assert str(cannot_write(OSError(code, reason, "a.csv"), "folder")) == f"cannot write a.csv: {reason}; {remedy}"
    assert str(cannot_write(OSError(code, reason), "folder")) == f"cannot write folder: {reason}; {remedy}"
