"""Codecs by themselves: their sizes, bounds of their errors, draws, and errors of scenarios."""

import ast
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from support import plain_codecs
from support.error_messages import assert_messages

import netfl
from netfl.errors import ModelError, ScenarioError
from netfl.learning import codec as family
from netfl.learning.codec import Codec, top_k
from netfl.learning.codec.bfloat16 import Bfloat16
from netfl.learning.codec.float16 import Float16
from netfl.learning.codec.none import Whole
from netfl.learning.codec.qsgd import Qsgd
from netfl.learning.codec.rand_k import RandK
from netfl.learning.codec.sign import Sign
from netfl.learning.codec.top_k import TopK
from netfl.learning.codec.uniform import Uniform
from netfl.learning.codec_draws import CodecDraws
from netfl.simulation.setup import prepare_run
from netfl.streams import Streams


def draws_of(updates, seed=1, base=0, dtype=torch.float64):
    keys = np.tile(Streams(seed).field("codec").key, (updates, 1))
    zeros = np.zeros(updates, np.int64)
    return CodecDraws(keys, np.arange(updates), zeros + base, zeros, torch.empty(0, dtype=dtype))


def read(codec, change):
    """Return what the receiver reads of the rows of *change*, ``[updates, parameters]``."""
    rows = torch.as_tensor(change)[:, None]
    before = rows.clone()
    decoded = codec.decode(codec.encode(rows, draws_of(len(rows), dtype=rows.dtype)))
    assert torch.equal(rows.nan_to_num(), before.nan_to_num())
    return decoded[:, 0]


def changes(updates=50, parameters=40, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((updates, parameters)))


@pytest.mark.parametrize(
    ("codec", "bits"),
    [
        (Whole(), 32_000),
        (Float16(), 16_000),
        (Bfloat16(), 16_000),
        (Uniform(bits_per_parameter=3), 3_064),
        (Qsgd(bits_per_parameter=4), 4_032),
        (Qsgd(bits_per_parameter=4, bucket=300), 4_128),
        (Sign(), 1_032),
        (TopK(share=0.01), 10 * (32 + 10)),
        (TopK(share=1e-9), 32 + 10),
        (RandK(share=0.02), 640),
    ],
)
def test_sizes(codec, bits):
    assert codec.bits(1000) == bits


def test_sparse_codecs_send_as_many_numbers_as_they_state():
    for codec in (TopK(share=0.3), RandK(share=0.3)):
        encoded = codec.encode(changes(5, 41)[:, None], draws_of(5))
        assert encoded.values.shape == (5, 1, codec.count(41))
        assert (encoded.positions.diff(dim=-1) > 0).all()


def test_no_file_imports_torch_at_its_head():
    for path in Path(family.__file__).parent.glob("*.py"):
        for statement in ast.parse(path.read_text()).body:
            names = []
            if isinstance(statement, ast.Import):
                names = [name.name for name in statement.names]
            elif isinstance(statement, ast.ImportFrom):
                names = [statement.module]
            assert "torch" not in names, path


def test_relative_errors_of_floats():
    v = changes() + 1.0
    assert ((read(Float16(), v) - v).abs() <= v.abs() * 2.0**-11 + 2.0**-25).all()
    assert ((read(Bfloat16(), v) - v).abs() <= v.abs() * 2.0**-8).all()


@pytest.mark.parametrize("bits", [1, 4, 16])
def test_uniform_errs_by_half_a_step_at_most(bits):
    v = changes()
    step = (v.amax(1) - v.amin(1))[:, None] / (2**bits - 1)
    decoded = read(Uniform(bits_per_parameter=bits), v)
    assert ((decoded - v).abs() <= 0.5001 * step).all()
    for row in decoded:
        assert len(row.unique()) <= 2**bits


@pytest.mark.parametrize("codec", [Uniform(bits_per_parameter=3), Qsgd(bits_per_parameter=3), Sign(), TopK(share=0.1)])
def test_changes_of_zeros_are_read_as_zeros(codec):
    assert not read(codec, torch.zeros(2, 6)).any()


@pytest.mark.parametrize("bucket", [None, 16, 64])
@pytest.mark.parametrize("bits", [2, 4])
def test_qsgd_is_without_bias_and_within_its_variance(bits, bucket):
    """The bound of lemma 3.1, in each bucket, over many draws of one change."""
    size = 4000
    codec = Qsgd(bits_per_parameter=bits, bucket=bucket)
    v = changes(1, 40).expand(size, -1)
    errors = read(codec, v) - v
    for start in range(0, 40, bucket or 40):
        part = slice(start, start + (bucket or 40))
        count = v[0, part].numel()
        norm = float(v[0, part].norm())
        step = norm / codec.levels
        share = v[0, part].abs() / step % 1.0
        spread = step * (share * (1 - share)).sqrt()
        assert (errors[:, part].mean(0).abs() < 6 * spread / size**0.5 + 1e-12).all()
        bound = min(count / codec.levels**2, count**0.5 / codec.levels) * norm**2
        assert float(errors[:, part].square().sum(1).mean()) < bound


def test_rand_k_is_without_bias_and_has_its_variance():
    size = 4000
    codec = RandK(share=0.25)
    v = changes(1, 40).expand(size, -1)
    errors = read(codec, v) - v
    assert (errors.mean(0) / (errors.std(0) / size**0.5)).abs().max() < 5
    squares = errors.square().sum(1)
    stated = (40 / 10 - 1) * float(v[0].square().sum())
    assert abs(float(squares.mean()) - stated) < 5 * float(squares.std()) / size**0.5


@pytest.mark.parametrize(
    ("codec", "delta"),
    [(TopK(share=0.25), 0.25), (RandK(share=1, error_feedback=True), 1.0), (Sign(), 1 / 40)],
)
def test_codecs_with_feedback_are_contractions(codec, delta):
    """``‖C(v) - v‖² ≤ (1 - δ) ‖v‖²``, with δ = k/d, or ‖v‖₁² / (d ‖v‖₂²) ≥ 1/d for signs."""
    v = changes()
    assert ((read(codec, v) - v).square().sum(1) <= (1 - delta) * v.square().sum(1) + 1e-12).all()


def test_a_gpu_finds_the_same_places():
    sizes = torch.tensor(np.random.default_rng(0).integers(5, size=(3, 2, 30))).float()
    for count in (1, 7, 30):
        assert torch.equal(top_k._largest(sizes, count), top_k._largest_on_host(sizes, count))


def test_equal_numbers_are_sent_from_the_first_on():
    v = torch.tensor([[1.0, -2.0, 2.0, 2.0, 0.5]])
    assert read(TopK(share=0.4), v).tolist() == [[0.0, -2.0, 2.0, 0.0, 0.0]]


@pytest.mark.parametrize("codec", [TopK(share=0.4), Sign(), Qsgd(bits_per_parameter=3), Uniform(bits_per_parameter=2)])
def test_a_change_that_is_not_finite_stays_so(codec):
    """So that training that diverges is found."""
    for broken in (torch.nan, torch.inf):
        v = torch.tensor([[1.0, broken, broken, broken, 0.5]])
        assert not read(codec, v).isfinite().all()


def test_draws_are_those_of_the_stream():
    draws = draws_of(3, base=7)
    expected = plain_codecs.words(Streams(1).field("codec"), 2, 7, 0, 11)
    assert draws.uniform(11)[2, 0].tolist() == [(word >> 8) / 2**24 for word in expected.tolist()]
    numbers = draws.uniform(1000)
    assert 0 <= float(numbers.min()) < float(numbers.max()) < 1
    assert torch.equal(numbers.float(), draws_of(3, base=7, dtype=torch.float32).uniform(1000))


def test_all_sets_are_equally_likely():
    chosen = draws_of(6000).choose(4, 2)[:, 0]
    assert (chosen[:, 0] < chosen[:, 1]).all()
    counts = torch.bincount(chosen[:, 0] * 4 + chosen[:, 1], minlength=16)
    possible = counts[[1, 2, 3, 6, 7, 11]]
    assert possible.sum() == 6000
    assert (possible - 1000).abs().max() < 5 * 1000**0.5


LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2}
SCENARIO = {
    "name": "coded", "users": 4, "rounds": 3, "access": {"kind": "bernoulli", "probability": 0.9},
    "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 60}, "partition": "iid", "model": "logistic",
    "learners": {"plain": LEARNER},
}  # fmt: skip
ERASING = {"grain": "packet", "mtu": "60 bit", "loss": "erase"}
NETWORK = {
    "kind": "network", "topology": {"kind": "star", "radius": "100 m"},
    "radio": {"power": "20 dBm", "bandwidth": "1 MHz"},
    "channel": [{"kind": "log_distance", "exponent": 2.5, "frequency": "868 MHz"}],
    "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "50 kbps"}, "mac": "round_robin",
    "compute": {"speed": 100}, "broadcast_rate": "50 kbps", "round": {"kind": "first", "m": 2},
}  # fmt: skip


def errors_of(**changes):
    with pytest.raises(ScenarioError) as error:
        netfl.load(SCENARIO | changes)
    return [str(fault) for fault in error.value.faults]


@pytest.mark.parametrize(
    ("changes", "patterns"),
    [
        ({"codec": "topk"}, ["codec: no such codec … top_k"]),
        ({"codec": "quantization"}, ["codec: no such codec … 'qsgd'"]),
        (
            {"codec": {"kind": "qsgd", "bits": 4}},
            ["codec.bits: unknown key … 'bits_per_parameter'"],
        ),
        ({"codec": {"kind": "top_k", "share": 0}}, ["codec.share: … more than 0"]),
        ({"codec_down": "sign"}, ["codec_down: … whole version … float16"]),
        (
            {"codec": "sign", "access": NETWORK | {"update_size": "1 kB"}},
            ["access.update_size: … the codec of this scenario … leave"],
        ),
        (
            {"codec": "sign", "access": NETWORK | {"transport": {"assumed_compression": 2}}},
            ["access.transport.assumed_compression: has no effect because the codec"],
        ),
        (
            {"access": NETWORK | {"transport": {"compression": 2}}},
            ["access.transport.compression: unknown key … 'assumed_compression'"],
        ),
        (
            {"access": NETWORK | {"transport": {"compression_down": 2}}},
            ["access.transport.compression_down: unknown key … 'assumed_compression_down'"],
        ),
        (
            {"codec": "sign", "learners": {}, "data": None, "partition": None, "model": None},
            ["codec: has no effect without learners"],
        ),
        (
            {"access": NETWORK | {"transport": ERASING}},
            ["learners.plain.aggregation: cannot take updates … 'average' … average_received"],
        ),
        (
            {"codec": "sign", "learners": {"plain": LEARNER | {"aggregation": "scaffold"}}},
            ["learners.plain.aggregation: computes … 'sign' changes ('scaffold') … leave the codec out"],
        ),
        (
            {
                "codec": {"kind": "qsgd", "bits_per_parameter": 4},
                "learners": {"plain": LEARNER | {"aggregation": {"kind": "fedavgm", "inner": "scaffold"}}},
            },
            ["learners.plain.aggregation: computes … 'qsgd' changes ('fedavgm')"],
        ),
        (
            {"codec": "support.plugin_codecs:Unsized"},
            ["codec: its method 'bits' gives 0 for 1000 parameters ('support"],
        ),
    ],
)
def test_errors_of_scenarios(changes, patterns):
    assert_messages(errors_of(**changes), patterns)


def test_broadcasts_of_scaffold_may_be_coded():
    learners = {"plain": LEARNER | {"aggregation": "scaffold"}}
    scenario = netfl.load(SCENARIO | {"codec": "none", "codec_down": "float16", "learners": learners})
    assert scenario.learners["plain"].aggregation.needs_whole_models


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("Bare", "codec: its method 'encode' gives tensor [2, 3, 7], not an Encoded"),
        ("Short", "codec: its method 'decode' gives tensor [2, 3, 6], not tensor [2, 3, 7]"),
        ("Writing", "codec: its method 'encode' writes into its argument change"),
        ("Failing", "codec: its method 'encode' fails on test values: RuntimeError: no … line"),
        ("HalfPrecision", "codec: its method 'decode' gives tensor [2, 3, 7] of float16, not tensor [2, 3, 7]"),
        ("SinglePrecision", "codec: its method 'decode' gives tensor [2, 3, 7], not tensor [2, 3, 7] of float64"),
        ("Hidden", "codec: its method 'encode' gives positions, but 'is_sparse' … write is_sparse"),
        ("MixedUpdates", "codec: what is read of an update depends on the updates … each row"),
        ("MixedLanes", "codec: what is read of an update depends on the updates and lanes … each row"),
        ("OwnDraws", "codec: what is read of an update depends on … draw from draws only"),
    ],
)
def test_errors_of_codecs_of_users(kind, pattern):
    with pytest.raises(ScenarioError) as error:
        prepare_run(netfl.load(SCENARIO | {"codec": f"support.plugin_codecs:{kind}"}))
    assert_messages([str(fault) for fault in error.value.faults], [pattern])


@pytest.mark.parametrize("kind", ["Shown", "Dithered"])
def test_correct_codecs_of_users_are_accepted(kind):
    prepare_run(netfl.load(SCENARIO | {"codec": f"support.plugin_codecs:{kind}"}))


@pytest.mark.parametrize("key", ["codec", "codec_down"])
def test_divergence_names_the_codec(key, tmp_path):
    """The versions of `codec_down` are NaN from version 0 on, from which users train."""
    with pytest.raises(ModelError, match=r"or 'support\.plugin_codecs:Broken' returned such numbers"):
        netfl.run(netfl.load(SCENARIO | {key: "support.plugin_codecs:Broken"}), tmp_path / "run", device="cpu")


@pytest.mark.parametrize("codec", ["sign", {"kind": "top_k", "share": 0.4}])
def test_the_air_carries_the_bits_of_the_codec(codec, tmp_path):
    """Logistic regression on two numbers has six parameters."""
    scenario = netfl.load(SCENARIO | {"codec": codec, "codec_down": "float16", "access": NETWORK})
    bits = scenario.codec.bits(6)
    run = netfl.run(scenario, tmp_path / "run", device="cpu")
    sent = run.rounds["uplink_bits"].to_numpy()
    assert (sent % bits == 0).all()
    assert (sent > 0).any()
    assert (run.rounds["downlink_bits"].to_numpy() % 96 == 0).all()


def test_buffers_t_and_what_a_rule_sends_travel_whole():
    objective = {"kind": "cvar", "alpha": 0.3, "lr_t": 0.1}
    learners = {"one": LEARNER | {"aggregation": "support.plugin_payloads:Returning", "objective": objective}}
    model = {"kind": "module", "module": "support.training_modules:Normed"}
    data = np.zeros((30, 4), np.float32), np.arange(30) % 3
    scenario = netfl.load(SCENARIO | {"codec": "sign", "learners": learners, "model": model, "data": data})
    theta, buffers = 4 * 6 + 6 + 12 + 6 * 3 + 3, 12
    assert scenario.update_bits == theta + 32 + 32 * (buffers + 1) + 32 * (theta + 1)


@pytest.mark.slow
def test_a_replay_learns_as_the_network_did(tmp_path):
    coded = SCENARIO | {"codec": {"kind": "qsgd", "bits_per_parameter": 3}, "rounds": 12}
    live = netfl.run(netfl.load(coded | {"access": NETWORK}), tmp_path / "live", device="cpu")
    access = {"kind": "replay", "run": str(tmp_path / "live")}
    replayed = netfl.run(netfl.load(coded | {"access": access}), tmp_path / "replay", device="cpu")
    assert live.metrics["value"].equals(replayed.metrics["value"])


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["average_received", "average_all"])
def test_a_replay_of_erasures_learns_as_the_network_did(tmp_path, rule):
    channel = [*NETWORK["channel"], {"kind": "rayleigh", "coherence": "1 ms"}]
    radio = {"power": "0 dBm", "bandwidth": "1 MHz"}
    access = NETWORK | {"transport": ERASING, "channel": channel, "radio": radio}
    access |= {"mac": {"kind": "round_robin", "max_attempts": 1}, "topology": {"kind": "star", "radius": "1.5 km"}}
    learners = {"plain": LEARNER | {"aggregation": rule}}
    coded = SCENARIO | {"codec": "float16", "rounds": 30, "learners": learners}
    live = netfl.run(netfl.load(coded | {"access": access}), tmp_path / "live", device="cpu")
    erasures = live.table("erasures")
    assert len(erasures) > 5
    assert (erasures["part"] < erasures["parts"]).all()
    replay = coded | {"access": {"kind": "replay", "run": str(tmp_path / "live")}}
    replayed = netfl.run(netfl.load(replay), tmp_path / "replay", device="cpu")
    assert live.metrics["value"].equals(replayed.metrics["value"])
    assert erasures.equals(replayed.table("erasures"))
    whole = SCENARIO | {"rounds": 30, "learners": {"plain": LEARNER}, "access": replay["access"]}
    with pytest.raises(ScenarioError, match="cannot take updates"):
        netfl.load(whole)


def test_the_example_of_the_contract_is_complete():
    block = family.__doc__[family.__doc__.index("    class ") :].partition("\n\n- A codec")[0]
    names = {"Codec": Codec, "Encoded": family.Encoded, "__name__": "example"}
    exec(textwrap.dedent(block), names)
    halves = names["Halves"](step=0.5)
    assert halves.bits(3) == 24
    assert read(halves, torch.tensor([[0.3, -0.2, 100.0]])).tolist() == [[0.5, -0.0, 63.5]]


def test_every_codec_is_a_codec():
    assert all(issubclass(kind, Codec) for kind in (Whole, Float16, Bfloat16, Uniform, Qsgd, Sign, TopK, RandK))
