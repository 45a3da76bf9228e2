"""Scenarios whose runs are exported, and a helper that calls the command line."""

from typer.testing import CliRunner

from netfl.cli import app
from netfl.types import RunObserver

NETWORK = """\
name: <radio> "a"
users: 6
rounds: 30
replicas: 2
record: all
access:
  kind: network
  round: {kind: first, m: 2}
  topology: {kind: tree, fanout: [1, 2], ring: 200 m, radius: 200 m, rate: 1 Mbps, delay: 10 ms}
  radio: {power: 14 dBm, bandwidth: 125 kHz}
  channel: [{kind: log_distance, exponent: 2.5, frequency: 868 MHz}]
  reception: {kind: snr_threshold, threshold: 0 dB, rate: 50 kbps}
  mac: {kind: slotted_aloha, probability: 0.2}
  compute: {speed: 1, samples: 5}
  broadcast_rate: 50 kbps
  update_size: 10 kB
  outages:
    - {kind: renewal, nodes: towers, up: {distribution: exponential, mean: 500 s}, down: {distribution: fixed, mean: 2}}
    - kind: renewal
      nodes: users
      up: {distribution: exponential, mean: 200 s}
      down: {distribution: exponential, mean: 10 s}
"""
DIRECT = "name: direct\nusers: 7\nrounds: 300\nreplicas: 2\naccess: {kind: bernoulli, probability: 0.4}\n"


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


class Stopping(RunObserver):
    """Stops a run after some rounds."""

    def __init__(self, after):
        self.after, self.stop = after, False

    def on_start(self, start):
        pass

    def on_round(self, progress):
        self.stop = progress.round >= self.after
