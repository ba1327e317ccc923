"""For what an offline plan was made, written beside it into the file: TFLM itself checks nothing.

A layout leaves room for the scratch buffers of one kernel set on one kind of core; with another the same file still
runs, but may need a larger arena.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from edgetool.model.types import Model

METADATA_NAME = "edgetool.plan"
MAX_BYTES = 4096
MAX_TEXT = 100


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """The build that a plan is for. arena_bytes: what AllocateTensors needs there; None where it is not exact."""

    tool: str
    core: str
    kernels: str
    runtime: str
    arena_bytes: int | None


def encode_record(record: PlanRecord) -> bytes:
    """The payload of the metadata entry: JSON, ASCII."""
    return json.dumps(asdict(record), separators=(",", ":"), sort_keys=True).encode("ascii")


def decode_record(model: Model) -> PlanRecord | None:
    """The record in the file; None when there is none, or it is not one of ours."""
    payload = next((entry.data for entry in reversed(model.metadata) if entry.name == METADATA_NAME), b"")
    if not 0 < len(payload) <= MAX_BYTES:
        return None
    try:
        # Payloads are padded to the alignment of constants.
        values = json.loads(payload.rstrip(b"\0").decode("ascii"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or values.keys() != {field.name for field in fields(PlanRecord)}:
        return None
    arena_bytes = values.pop("arena_bytes")
    texts = all(isinstance(text, str) and text.isprintable() and len(text) <= MAX_TEXT for text in values.values())
    if not texts or not (arena_bytes is None or type(arena_bytes) is int):
        return None
    return PlanRecord(arena_bytes=arena_bytes, **values)
