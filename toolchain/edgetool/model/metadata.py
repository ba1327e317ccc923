"""The metadata of a model file: TFLM's offline memory plan, edgetool's record of it, and the converter's name.

The offline plan passes a layout to an unmodified TFLM. Its format (micro_allocation_info.cc, GetOfflinePlannedOffsets):
int32 words, little endian: version, subgraph count, n, then n offsets, one for each tensor of all subgraphs in order.
-1 leaves a tensor to the runtime. TFLM checks only n, so whoever writes a plan must make sure that it is safe.

The record says for which build a plan was made. A layout leaves room for the scratch buffers of one kernel set on one
kind of core; with another, the same file still runs, but may need a larger arena.

The changes say what edgetool changed in the model before it was planned: its operators cannot be found in the file.

The converter is read from conversion_metadata.fbs (TensorFlow Lite): ConversionMetadata{environment},
Environment{tensorflow_version}. It is only informative, so malformed metadata counts as absent.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from struct import error, unpack_from
from typing import Any

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.model.edit import with_metadata
from edgetool.model.types import Model

METADATA_NAME = "OfflineMemoryAllocation"
PLAN_VERSION = 1
PLANNED_AT_RUN_TIME = -1
HEADER_WORDS = 3
# Custom operators that contain an accelerator's command stream, including tensor addresses (Arm's Vela writes
# "ethos-u"). Their plan must not change.
COMPILED_OPERATORS = frozenset(["ethos-u"])
MAX_OFFSET = 2**31 - 1

RECORD_METADATA_NAME = "edgetool.plan"
MAX_RECORD_BYTES = 4096
MAX_RECORD_TEXT = 100
MAX_COUNT = 2**63

CHANGES_METADATA_NAME = "edgetool.changes"

CONVERSION = "CONVERSION_METADATA"
MINIMUM_RUNTIME = "min_runtime_version"
LONGEST_VERSION = 40
ENVIRONMENT, TENSORFLOW_VERSION = 0, 0  # the number of the field in its table


def encode_plan(model: Model, offsets: Mapping[tuple[int, int], int]) -> bytes:
    """Return the plan's payload for offsets by (subgraph, tensor). All other tensors are left to the runtime.

    Raises UnsupportedModelError if an offset exceeds what a plan can represent, or if compiled operators rely on the
    plan that the file has.
    """
    if keeps_own_plan(model):
        raise UnsupportedModelError(
            f"{', '.join(sorted(COMPILED_OPERATORS))} operators contain addresses from the plan in the file",
            fix="keep the file's own plan",
        )
    highest = max(offsets.values(), default=0)
    if highest > MAX_OFFSET:
        raise UnsupportedModelError(
            f"a tensor would be placed at {highest:,}, which exceeds the 32-bit offsets of a plan",
            fix="check the shapes of the model: no microcontroller has that much memory",
        )
    words = [offsets.get(key, PLANNED_AT_RUN_TIME) for key in model.tensor_keys]
    return struct.pack(f"<{HEADER_WORDS + len(words)}i", PLAN_VERSION, len(model.subgraphs), len(words), *words)


def has_plan(model: Model) -> bool:
    """Return whether the file has a plan, whatever its length."""
    return any(entry.name == METADATA_NAME for entry in model.metadata)


def decode_plan(model: Model) -> dict[tuple[int, int], int] | None:
    """Return the offsets by (subgraph, tensor) of the plan in the file; None if it has none.

    TFLM reads every entry of that name and takes the last. Raises InvalidModelError when one of them cannot be a plan
    for this model (TFLM would fail, or read past its end).
    """
    payloads = [entry.data for entry in model.metadata if entry.name == METADATA_NAME]
    if not payloads:
        return None
    keys = model.tensor_keys
    for payload in payloads:
        count = len(payload) // 4 - HEADER_WORDS
        claimed = struct.unpack_from("<i", payload, 8)[0] if count >= 0 else None
        if claimed != len(keys) or count < len(keys):
            raise InvalidModelError(
                f"the plan has {max(count, 0)} offsets, but declares {claimed}; the model has {len(keys)} tensors",
                where=f"metadata {METADATA_NAME}",
                fix="create a new plan with 'edgetool plan --replan -o'",
            )
    return dict(zip(keys, struct.unpack_from(f"<{len(keys)}i", payloads[-1], 4 * HEADER_WORDS), strict=True))


def unchecked_offsets(model: Model) -> dict[tuple[int, int], int]:
    """Return the offsets of the plan in the file, safe or not. Raises InvalidModelError as decode_plan does."""
    return {key: offset for key, offset in (decode_plan(model) or {}).items() if offset != PLANNED_AT_RUN_TIME}


def keeps_own_plan(model: Model) -> bool:
    """Return whether the file has a plan that compiled operators rely on."""
    compiled = any(op.custom_code in COMPILED_OPERATORS for graph in model.subgraphs for op in graph.operators)
    return compiled and decode_plan(model) is not None


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """The build that a plan is for.

    arena_bytes: what AllocateTensors needs there; None if it is not exact. overlaps: the number of outputs that share
    bytes with an input of their operator, which only kernels that read and write in a suitable order permit.
    """

    tool: str
    core: str
    kernels: str
    runtime: str
    arena_bytes: int | None
    overlaps: int = 0


def encode_record(record: PlanRecord) -> bytes:
    """Return the payload of the metadata entry: JSON in ASCII."""
    return json.dumps(asdict(record), separators=(",", ":"), sort_keys=True).encode("ascii")


def decode_record(model: Model) -> PlanRecord | None:
    """Return the record in the file; None if there is none, or if edgetool did not write it."""
    values = _object(model, RECORD_METADATA_NAME)
    if values is None:
        return None
    values.setdefault("overlaps", 0)  # earlier versions did not write it
    if values.keys() != {field.name for field in fields(PlanRecord)}:
        return None
    arena_bytes, overlaps = values.pop("arena_bytes"), values.pop("overlaps")
    texts = all(
        isinstance(text, str) and text.isprintable() and len(text) <= MAX_RECORD_TEXT for text in values.values()
    )
    if not texts or not (arena_bytes is None or type(arena_bytes) is int) or type(overlaps) is not int:
        return None
    return PlanRecord(arena_bytes=arena_bytes, overlaps=overlaps, **values)


@dataclass(frozen=True, slots=True)
class StripedRegion:
    """Operators of the model before, by position, the first and the last inclusive, and the number of stripes."""

    first: int
    last: int
    stripes: int


@dataclass(frozen=True, slots=True)
class ModelChanges:
    """What edgetool changed in a model.

    optimized: whether the clean-up removed or replaced operators or channels. regions: the operators that were copied
    for stripes. macs: the multiply-accumulates without stripes; extra_macs: those that stripes compute again.
    """

    optimized: bool = False
    regions: tuple[StripedRegion, ...] = ()
    macs: int = 0
    extra_macs: int = 0

    @property
    def extra_macs_percent(self) -> float:
        """Return the extra multiply-accumulates in percent of those without stripes."""
        return 100 * self.extra_macs / self.macs if self.macs else 0.0


def with_changes(model: Model, changes: ModelChanges) -> Model:
    """Return the model with these changes in its metadata."""
    values = {**asdict(changes), "regions": [[item.first, item.last, item.stripes] for item in changes.regions]}
    payload = json.dumps(values, separators=(",", ":"), sort_keys=True).encode("ascii")
    return with_metadata(model, CHANGES_METADATA_NAME, payload)


def changes_of(model: Model) -> ModelChanges:
    """Return the changes in the metadata of a model; none if it has no such entry, or if edgetool did not write it."""
    values = _object(model, CHANGES_METADATA_NAME)
    if values is None or values.keys() != {field.name for field in fields(ModelChanges)}:
        return ModelChanges()
    regions = values["regions"]
    rows = regions if isinstance(regions, list) and all(isinstance(row, list) for row in regions) else [[None]]
    numbers = [values["macs"], values["extra_macs"], *(number for row in rows for number in row)]
    if any(type(number) is not int or not 0 <= number < MAX_COUNT for number in numbers):
        return ModelChanges()
    if any(len(row) != len(fields(StripedRegion)) for row in rows) or type(values["optimized"]) is not bool:
        return ModelChanges()
    return ModelChanges(**{**values, "regions": tuple(StripedRegion(*row) for row in rows)})


def _object(model: Model, name: str) -> dict[str, Any] | None:
    """Return the JSON object in the last metadata entry of that name, None if there is none."""
    payload = next((entry.data for entry in reversed(model.metadata) if entry.name == name), b"")
    if not 0 < len(payload) <= MAX_RECORD_BYTES:
        return None
    try:
        # Payloads are padded to the alignment of constants.
        values = json.loads(payload.rstrip(b"\0").decode("ascii"))
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def converter_of(model: Model) -> str | None:
    """Return the converter ("TensorFlow 2.21.0") or, if unknown, the minimum runtime ("for TensorFlow Lite 2.9.0")."""
    payloads = {entry.name: entry.data for entry in model.metadata}
    version = _tensorflow_version(payloads.get(CONVERSION, b""))
    if version is not None:
        return f"TensorFlow {version}"
    minimum = _version(payloads.get(MINIMUM_RUNTIME, b"").rstrip(b"\0"))
    return None if minimum is None else f"for TensorFlow Lite {minimum}"


def _tensorflow_version(blob: bytes) -> str | None:
    try:
        environment = _field(blob, unpack_from("<I", blob, 0)[0], ENVIRONMENT)
        text = None if environment is None else _field(blob, environment, TENSORFLOW_VERSION)
        if text is None:
            return None
        (length,) = unpack_from("<I", blob, text)
    except error:  # an offset beyond the end
        return None
    return _version(blob[text + 4 : text + 4 + length]) if length <= LONGEST_VERSION else None


def _field(blob: bytes, table: int, number: int) -> int | None:
    """Return the position of the data that an offset field points to; None if the table omits the field."""
    vtable = table - unpack_from("<i", blob, table)[0]
    if vtable < 0:
        return None
    entry = 4 + 2 * number
    if unpack_from("<H", blob, vtable)[0] < entry + 2:
        return None
    (offset,) = unpack_from("<H", blob, vtable + entry)
    if not offset:
        return None
    return int(table + offset + unpack_from("<I", blob, table + offset)[0])


def _version(text: bytes) -> str | None:
    if not 0 < len(text) <= LONGEST_VERSION or any(not 0x20 < byte < 0x7F for byte in text):
        return None
    return text.decode("ascii")
