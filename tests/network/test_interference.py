"""The family of interference: formulas, a model of a user's own, and errors; `radio.test_medium` has more cases."""

from dataclasses import replace

import numpy as np
import pytest
from support.guide_models import of_family
from support.small_network import PLAIN, make, play

from netfl.access.network import NetworkAccess
from netfl.core.kinds import kind_of
from netfl.errors import ScenarioError
from netfl.network.interference import DisturbedFrames, Interference, OverlappingFrames
from netfl.network.interference.capture import Capture
from netfl.network.interference.collide import Collide
from netfl.network.interference.sinr import Sinr

FIRST_COME = "mylab.first_come:FirstCome"
ALOHA = {"mac": {"kind": "pure_aloha", "backoff": "1 s", "max_attempts": 1}}


def overlapping(signal, others=(), start_s=0.0, end_s=1.0, alone=None):
    """Return frames of linear SNRs *signal*; *others* are (start, end, SNRs) of other transmissions."""
    signal = np.array(signal, float)
    return DisturbedFrames(
        users=np.arange(len(signal)),
        mode=0,
        start_s=start_s,
        end_s=end_s,
        snr_db=10.0 * np.log10(signal),
        alone=np.ones(len(signal)) if alone is None else np.array(alone),
        others=[OverlappingFrames(np.arange(len(snr)), 1, a, b, np.array(snr)) for a, b, snr in others],
        received_over=lambda disturbance: np.asarray(signal / disturbance, float),
    )


def test_interference_is_the_largest_sum_at_one_time():
    """The others have 2 until 0.5 and 3 from 0.4 on: 5 in between; then 3 and 4 + 1 from 0.8 on: 8."""
    frames = overlapping([6.0, 1.0], [(-1, 0.5, [2.0]), (0.4, 2.0, [3.0]), (0.8, 2.0, [4.0, 1.0])])
    assert frames.interference() == pytest.approx([8.0 + 1.0, 8.0 + 6.0])
    assert frames.interference(mode=0) == pytest.approx([1.0, 6.0])
    assert frames.interference(mode=1) == pytest.approx([8.0, 8.0])
    assert overlapping([6.0], [(-1, 0.5, [2.0])], start_s=0.5).interference() == pytest.approx([0.0])


def test_the_worst_moment_is_that_of_all_moments():
    """Bursts of a jammer, which have a power for each frame, beside other frames; the frame lasts from 0 to 1."""
    rng = np.random.default_rng(3)
    for count in (1, 2, 7, 40):
        starts_s = rng.uniform(-0.5, 1.0, count).round(2)
        ends_s = starts_s + rng.uniform(0.01, 0.5, count).round(2)
        powers = rng.exponential(size=(count, 2))
        bursts = [*zip(starts_s.tolist(), ends_s.tolist(), powers, strict=True)]
        frames = replace(overlapping([6.0, 1.0], [(0.25, 0.75, [2.0, 1.0])]), bursts=bursts)
        moments_s = np.maximum([*starts_s, 0.25], 0.0)
        is_on_air = (starts_s <= moments_s[:, None]) & (moments_s[:, None] < ends_s)  # [moments, bursts]
        of_others = 3.0 * ((moments_s >= 0.25) & (moments_s < 0.75))
        worst = np.max(is_on_air @ powers + of_others[:, None], axis=0)
        assert frames.interference() == pytest.approx(worst + np.array([1.0, 6.0]), rel=1e-12)
        assert frames.burst_power() == pytest.approx((is_on_air[:-1] @ powers).max(0))


def test_a_frame_may_meet_any_number_of_bursts():
    """Ten thousand, of which two never meet: the time grows with their number, not with its square."""
    starts_s = np.linspace(0.0, 1.0, 10_000, endpoint=False)
    bursts = [(start_s, start_s + 5e-5, np.array([2.0])) for start_s in starts_s.tolist()]
    assert replace(overlapping([6.0]), bursts=bursts).interference() == pytest.approx([2.0])


def test_each_model_judges_by_its_formula():
    frames = overlapping([6.0, 1.0], [(0.0, 1.0, [0.5])], alone=[0.7, 0.6])
    assert Collide().success(frames).tolist() == [0.0, 0.0]
    assert Capture(margin=6.0).success(frames).tolist() == [0.7, 0.0], "6 / 1.5 = 4 > 3.98"
    assert Capture(margin=6.1).success(frames).tolist() == [0.0, 0.0], "10^0.61 = 4.07"
    assert Sinr().success(frames) == pytest.approx([6.0 / 2.5, 1.0 / 7.5]), "over noise and interference"


def test_models_by_kind_and_by_name_are_the_same():
    for text, model in (
        ("collide", Collide()),
        ("sinr", Sinr()),
        ({"kind": "capture", "margin": 3.0}, Capture(margin=3)),
    ):
        access, _, _ = make(2, 1, interference=text)
        assert access.interference == model
    assert make(2, 1)[0].interference == Collide()


def test_first_come_captures():
    """The model of the guide: of frames at 0, 0.5 and 1.2 s, of 1 s each, the first is received."""
    assert FIRST_COME in of_family("network/interference")
    access, _, _ = make(3, 1, interference=FIRST_COME)
    model = access.interference
    assert kind_of(type(model)) == FIRST_COME
    assert not model.receives_several
    assert not model.loses_all
    spans = [(0.0, 1.0), (0.5, 1.5), (1.2, 2.2)]
    received = []
    for place, (start_s, end_s) in enumerate(spans):
        others = [(a, b, [1.0]) for number, (a, b) in enumerate(spans) if number != place and a < end_s and b > start_s]
        received += model.success(overlapping([1.0], others, start_s, end_s)).tolist()
    assert received == [1.0, 0.0, 0.0]
    assert model.success(overlapping([1.0, 9.0])).tolist() == [0.0, 0.0], "they begin together"


def test_model_of_a_user_decides_in_the_network():
    """Two users send updates of 1 s; user 1 ends its training half a second later, within the frame of user 0."""
    assert FIRST_COME in of_family("network/interference")
    later = ALOHA | {"compute": {"speed": [2.0, 1.0], "samples": 1}, "round": {"kind": "first", "deadline": 5.0}}
    outcomes = {}
    for interference in ("collide", FIRST_COME):
        rounds, _ = play(2, 1, **later, interference=interference)
        outcomes[interference] = [delivery.user for delivery in rounds[0].deliveries]
    assert outcomes == {"collide": [], FIRST_COME: [0]}


class Answer(Interference):
    """A model that answers what a test needs."""

    answer: object = None

    def success(self, frames):
        if self.answer is None:
            raise ZeroDivisionError("no answer")
        return self.answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "fails: ZeroDivisionError: no answer"),
        (1.0, "gives a single number for 1 frames"),
        ([0.5, 0.5], "gives 2 values for 1 frames"),
        ([1.5], "gives 1.5 for a frame of user"),
        ([float("nan")], "gives nan for a frame of user"),
    ],
)
def test_answers_of_a_user_s_model_are_checked(answer, words):
    together = ALOHA | {"compute": {"speed": [2.0, 1.0], "samples": 1}, "round": {"kind": "first", "deadline": 5.0}}
    with pytest.raises(ScenarioError) as error:
        play(2, 1, **together, interference=Answer(answer=answer))
    (fault,) = error.value.faults
    assert fault.key.endswith("interference")
    assert words in fault.problem
    assert "return a probability for each frame" in fault.remedy


def test_capture_is_refused_at_its_old_place():
    with pytest.raises(ScenarioError) as error:
        NetworkAccess(**PLAIN, capture=6.0)
    (fault,) = error.value.faults
    assert fault.key.endswith("capture")
    assert fault.remedy == "write interference: {kind: capture, margin: 6.0 dB}"
    assert make(2, 1, capture=None)[0].interference == Collide(), "null meant none"


def test_margin_must_not_be_negative():
    with pytest.raises(ScenarioError) as error:
        NetworkAccess(**PLAIN, interference={"kind": "capture", "margin": -1.0})
    (fault,) = error.value.faults
    assert fault.key.endswith("interference.margin")
    assert fault.remedy == "write 0 or more"
