"""Sizes of messages, as runs state them: billing of learners with different payloads, and what codecs save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netfl.access.replay import Replay
from netfl.errors import ScenarioError
from netfl.learning.codec import NUMBER_BITS
from netfl.learning.payload import largest_payload, list_payloads, model_payload
from netfl.results.formatting import format_setting, percent
from netfl.scenario import yaml_document
from netfl.scenario.scenario import Scenario
from netfl.types import Payload


@dataclass(frozen=True)
class Billing:
    """Sizes that an access bills to learners, and the sizes that they send.

    Args:
        kind: ``largest``: the largest payload among the learners; ``given``: the size that the access states;
            ``recorded``: the costs are those of a recording.
        payloads: the payload of each learner.
        billed: the sizes that are billed to all; ``None`` for ``recorded``.
    """

    kind: str
    payloads: Mapping[str, Payload]
    billed: Payload | None

    @property
    def note(self) -> str:
        """The sentence below tables of costs."""
        sent = list_payloads(self.payloads)
        if self.kind == "largest":
            return f"Costs: all learners are billed the largest payload, {self.billed}; {sent}."
        if self.kind == "given":
            return f"Costs: the scenario gives the size of all messages, {self.billed}; by their payloads, {sent}."
        return f"Costs: those of the recording, whatever the learners send; by their payloads, {sent}."

    @property
    def facts(self) -> dict[str, str]:
        """Entry of the manifest, which `billing_note` and `billing_kind` read."""
        return {"billing": self.kind, "note": self.note}

    @property
    def metrics(self) -> dict[str, float]:
        """Final metrics: the sizes that are billed, and those that each learner sends."""
        metrics: dict[str, float] = {}
        if self.billed is not None:
            metrics |= {
                "billed_uplink_bits": self.billed.uplink_bits,
                "billed_downlink_bits": self.billed.downlink_bits,
            }
        for learner, payload in self.payloads.items():
            metrics[f"{learner}.payload_uplink_bits"] = payload.uplink_bits
            metrics[f"{learner}.payload_downlink_bits"] = payload.downlink_bits
        return metrics


def billing_of(scenario: Scenario) -> Billing | None:
    """Return the billing of *scenario*; ``None`` where each learner is billed what it sends."""
    if scenario.model is None or scenario.data is None or not scenario.learners:
        return None
    payloads = scenario.payloads
    info = scenario.access.info
    if info.billing != "recorded" and info.update_bits is None:  # the access bills what is sent
        if len({*payloads.values()}) == 1:
            return None
        return Billing("largest", payloads, largest_payload(payloads))
    model = model_payload(scenario.learners, scenario.model, scenario.data, scenario.codecs)
    if all(payload == model for payload in payloads.values()):  # the usual size, without more for any learner
        return None
    if info.billing == "recorded":
        return Billing("recorded", payloads, None)
    assert info.update_bits is not None
    return Billing("given", payloads, Payload(info.update_bits, info.update_bits))


def cost_notes(scenario: Scenario) -> list[str]:
    """Return the sentences on costs that are not those of the messages that the learners send."""
    notes = []
    if (billing := billing_of(scenario)) is not None:
        notes.append(billing.note)
    if note := recording_note(scenario):
        notes.append(note)
    return notes


def codec_note(scenario: Scenario) -> str:
    """Return a sentence on the codecs of *scenario* and the sizes of its messages; empty without codecs."""
    codecs = scenario.codecs
    if not codecs.named or scenario.model is None or scenario.data is None:
        return ""
    whole = model_payload(scenario.learners, scenario.model, scenario.data)
    coded = model_payload(scenario.learners, scenario.model, scenario.data, codecs)
    parts = []
    settings = scenario.plain()
    if codecs.up is not None:
        name = _codec_name(settings["codec"])
        parts.append(_coded_size(f"updates by {name}", coded.uplink_bits, whole.uplink_bits))
    if codecs.down is not None:
        name = _codec_name(settings["codec_down"])
        parts.append(_coded_size(f"versions by {name}", coded.downlink_bits, whole.downlink_bits))
    return f"Encoded: {'; '.join(parts)}, in place of {NUMBER_BITS} bits a number."


def recording_note(scenario: Scenario) -> str:
    """Return a sentence on the codecs of a replayed run, where they are not those of *scenario*; else empty.

    A recording without a scenario, such as one of real devices, does not state its codecs.
    """
    access = scenario.access
    if not isinstance(access, Replay) or scenario.model is None or scenario.data is None:
        return ""
    path = access.folder / "scenario.yaml"
    if not path.is_file():
        return ""
    try:
        recorded = yaml_document.read(path).data
    except ScenarioError:  # the tables are enough for a replay
        return ""
    settings = scenario.plain()
    parts = []
    for key, messages in (("codec", "updates"), ("codec_down", "versions")):
        here = _codec_name(settings[key]) or "no codec"
        there = _codec_name(recorded.get(key)) or "no codec"
        if here != there:
            parts.append(f"{messages} have {there} there, and {here} here")
    if not parts:
        return ""
    return f"Bits, times and lost parts are those of the recording: {'; '.join(parts)}."


def _codec_name(settings: Any) -> str:
    """Return the kind of a codec with its other *settings* in parentheses; empty for ``none``."""
    if isinstance(settings, str):
        settings = {"kind": settings}
    if not isinstance(settings, Mapping) or settings.get("kind") == "none":
        return ""
    kind = str(settings.get("kind"))
    values = []
    for name, value in settings.items():
        if name != "kind" and value is not None:
            values.append(f"{name}: {format_setting(value)}")
    if not values:
        return kind
    return f"{kind} ({', '.join(values)})"


def _coded_size(encoded: str, coded_bits: float, whole_bits: float) -> str:
    return f"{encoded}, {coded_bits:,.0f} bits ({percent(coded_bits / whole_bits)} of {whole_bits:,.0f})"


def billing_note(manifest: Mapping[str, Any]) -> str:
    """Return the sentence of a run's manifest about its billing; empty without one."""
    return _entry(manifest, "note")


def billing_kind(manifest: Mapping[str, Any]) -> str:
    """Return the kind of billing in a run's manifest, as in `Billing`; empty without one."""
    return _entry(manifest, "billing")


def _entry(manifest: Mapping[str, Any], key: str) -> str:
    """Return a text of the entry on payloads; empty where a manifest has none, or it is damaged."""
    entry = manifest.get("payload")
    text = entry.get(key) if isinstance(entry, Mapping) else None
    return text if isinstance(text, str) else ""
