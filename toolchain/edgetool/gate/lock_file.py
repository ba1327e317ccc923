"""The text of edgetool.lock: JSON with sorted keys, one figure and one operator a line, the same for the same figures.

It is committed, merged and edited by people: whatever is not exactly what edgetool writes is told by its line or key.

What the lock file keeps of a model on a target: where the figures come from, the figures, and what they rest on.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from edgetool.errors import UsageError
from edgetool.gate.anatomy import Alive, Anatomy, OperatorId, OperatorPart
from edgetool.report.document import Report
from edgetool.report.json import plain
from edgetool.target.types import Target

Value = int | float | None

# Words of a profile that are no figures: a sentence put better changes nothing, nor does what kernels take.
WORDS = frozenset(
    ["sources", "note", "basis", "clock_source", "description", "document", "rank_limits", "takes", "vendor"]
)
# The figures of a lock, by their names in the document, and those that every model has.
FIGURES = (
    *("arena_bytes", "used_bytes", "head_bytes", "tail_bytes", "model_bytes", "parameters"),
    *("macs", "bytes_moved", "instructions", "accuracy_float", "accuracy_quantized"),
    *("latency_ms", "latency_ms_low", "latency_ms_high", "energy_uj", "energy_uj_low", "energy_uj_high"),
)
ALWAYS = frozenset(["arena_bytes", "model_bytes"])
NS_PER_MS = 10**6
DIGITS = 6  # of what is not counted but estimated


@dataclass(frozen=True, slots=True)
class Entry:
    """One model on one target.

    versions: of edgetool, of the converter (None where the file does not tell), of the runtime, and the hash of the
    profile. anatomy is None where the arena is not known.
    """

    sha256: str
    kernels: str
    versions: Mapping[str, str | None]
    figures: Mapping[str, Value]
    anatomy: Anatomy | None = None


def profile_hash(target: Target) -> str:
    """SHA-256 over every figure of the target as it is used, in a canonical form.

    Its words do not count, nor which of its kernel sets is used: that has a line of its own.
    """
    figures = {key: value for key, value in _figures_only(plain(target)).items() if key != "kernels"}
    text = json.dumps(figures, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _figures_only(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _figures_only(item) for key, item in value.items() if key not in WORDS}
    return [_figures_only(item) for item in value] if isinstance(value, list) else value


def entry_of(report: Report, target: Target, anatomy: Anatomy | None, *, tool: str, converter: str | None) -> Entry:
    """The entry of a report with arena and estimate; anatomy is that of its arena."""
    runtime = target.runtime
    return Entry(
        sha256=report.model.sha256,
        kernels=target.kernels,
        versions={
            "edgetool": tool,
            "converter": converter,
            "runtime": f"{runtime.name} ({runtime.tflm_commit[:12]})",
            "profile": profile_hash(target),
        },
        figures=_figures(report),
        anatomy=None if anatomy is None else _with_costs(anatomy, report),
    )


def _figures(report: Report) -> dict[str, Value]:
    """Every figure by its name in the document."""
    arena, estimate = report.arena, report.estimate
    figures: dict[str, Value] = {"model_bytes": report.model.bytes, "parameters": report.model.parameters}
    if arena is not None:
        # A lower bound is no size that could grow.
        figures["arena_bytes"] = None if arena.is_lower_bound else arena.bytes
        figures["used_bytes"] = None if arena.is_lower_bound else arena.used_bytes
        figures |= {"head_bytes": arena.head_bytes, "tail_bytes": arena.tail_bytes}
    if estimate is not None:
        figures |= {"macs": estimate.macs, "bytes_moved": estimate.bytes_moved, "instructions": estimate.instructions}
        for name, band in (("latency_ms", estimate.latency_ms), ("energy_uj", estimate.energy_uj)):
            if band is not None:
                figures |= {name: round(band.value, DIGITS)}
                figures |= {f"{name}_low": round(band.low, DIGITS), f"{name}_high": round(band.high, DIGITS)}
    accuracy = None if report.quantization is None else report.quantization.accuracy
    if accuracy is not None:
        figures |= {"accuracy_float": round(accuracy.float, DIGITS)}
        figures |= {"accuracy_quantized": round(accuracy.quantized, DIGITS)}
    return figures


def _with_costs(anatomy: Anatomy, report: Report) -> Anatomy:
    """With the bytes of constants and the time of every operator."""
    if report.estimate is None:
        return anatomy
    timed = report.estimate.latency_ms is not None
    costs = {
        (item.subgraph, item.index): (item.parameter_bytes, round(item.ms.value * NS_PER_MS) if timed else 0)
        for item in report.estimate.operators
    }
    parts = []
    for part in anatomy.operators:
        constants, ns = costs.get((part.operator.subgraph, part.operator.index), (0, 0))
        parts.append(replace(part, constants=constants, ns=ns))
    return replace(anatomy, operators=tuple(parts))


SCHEMA = "edgetool-lock/1"
INLINE_DEPTH = 5  # an operator's figures stand in one line
LONGEST_KEY = 200
MOST_CHARACTERS = 32 * 2**20
MOST_VALUES = 2_000_000  # Python's objects take twenty times the room of an empty list's two characters
ANEW = "restore the committed file, or delete it and recreate it with 'edgetool check --update'"

# By path of the model relative to the lock's folder, then by name of the target.
Lock = Mapping[str, Mapping[str, Entry]]

COSTS = ("constants", "live", "ns", "scratch", "tail")


def lock_text(lock: Lock) -> str:
    """The file. parse_lock gives the same lock back."""
    entries = {path: {name: _entry_value(entry) for name, entry in targets.items()} for path, targets in lock.items()}
    return _json({"schema": SCHEMA, "entries": entries}, 0) + "\n"


def parse_lock(text: str, *, where: str) -> Lock:
    """The lock of a text. Raises UsageError naming the line or the key of what is not as edgetool writes it."""
    if len(text) > MOST_CHARACTERS or sum(map(text.count, ",[{")) > MOST_VALUES:
        raise UsageError("is too large for a lock file", where=where, fix=ANEW)
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        merge = any(line.startswith(("<<<<<<<", "=======", ">>>>>>>")) for line in text.splitlines())
        fix = "accept either side of the merge, then run 'edgetool check --update'" if merge else ANEW
        raise UsageError(f"is not JSON: {error.msg}", where=f"{where}: line {error.lineno}", fix=fix) from None
    except _NotALockError as error:
        raise UsageError(str(error), where=where, fix=ANEW) from None
    except (ValueError, RecursionError):
        raise UsageError("is not JSON written by edgetool", where=where, fix=ANEW) from None
    return _Reader(where).lock(value)


class _NotALockError(ValueError):
    """What Python's JSON takes and a lock file never has."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise _NotALockError(f"has the key {twice[:100]!r} twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise _NotALockError(f"{text} is not a valid number")


def _json(value: Any, depth: int) -> str:
    """Sorted, ASCII, two spaces a level; in one line from INLINE_DEPTH on."""
    if not isinstance(value, dict) or not value or depth >= INLINE_DEPTH:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    indent = "  " * (depth + 1)
    lines = [f"{indent}{json.dumps(key)}: {_json(value[key], depth + 1)}" for key in sorted(value)]
    return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"


def _entry_value(entry: Entry) -> dict[str, Any]:
    value: dict[str, Any] = {
        "sha256": entry.sha256,
        "kernels": entry.kernels,
        "versions": dict(entry.versions),
        "figures": dict(entry.figures),
    }
    return value if entry.anatomy is None else {**value, **_anatomy_value(entry.anatomy)}


def _anatomy_value(anatomy: Anatomy) -> dict[str, Any]:
    return {
        "peak": {
            "moment": anatomy.moment,
            "during": _key(anatomy.during),
            "busiest": _key(anatomy.busiest),
            "bytes": anatomy.bytes,
            "head_bytes": anatomy.peak_head,
            "tail_bytes": anatomy.peak_tail,
            "planned_head_bytes": anatomy.head_bytes,
            "whole_tail_bytes": anatomy.tail_bytes,
        },
        "head": {
            f"tensor {item.name}" if item.scratch_of is None else f"scratch {_key(item.scratch_of)}": item.bytes
            for item in anatomy.alive
        },
        "tail": dict(anatomy.own),
        "operators": {
            str(_key(part.operator)): {name: size for name in COSTS if (size := getattr(part, name))}
            for part in anatomy.operators
        },
    }


def _key(operator: OperatorId | None) -> str | None:
    """ "0007 CONV_2D", in another subgraph "1:0007 CONV_2D"."""
    if operator is None:
        return None
    place = f"{operator.subgraph}:" if operator.subgraph else ""
    return f"{place}{operator.index:04} {operator.label}"


class _Reader:
    """One pass over the values of a file."""

    def __init__(self, where: str) -> None:
        self.where = where

    def fail(self, key: str, what: str) -> NoReturn:
        raise UsageError(what, where=f"{self.where}: {key[:LONGEST_KEY]}" if key else self.where, fix=ANEW)

    def lock(self, value: Any) -> Lock:
        if not isinstance(value, dict) or "schema" not in value:
            self.fail("", "is not an edgetool lock file: it has no schema")
        schema = value["schema"]
        if schema != SCHEMA:
            if isinstance(schema, str) and schema.startswith("edgetool-lock/"):
                fix = "use the edgetool that wrote it, or delete it and recreate it with 'edgetool check --update'"
                raise UsageError(
                    f"has schema {schema[:40]!r}; this version supports {SCHEMA}", where=self.where, fix=fix
                )
            self.fail("schema", f"is not an edgetool lock file: its schema is {str(schema)[:40]!r}")
        found = self.object(value, "", {"schema", "entries"})
        entries = self.object(found["entries"], "entries")
        return {
            path: {
                name: self.entry(item, f"entries.{path}.{name}")
                for name, item in self.object(targets, f"entries.{path}").items()
            }
            for path, targets in entries.items()
        }

    def entry(self, value: Any, key: str) -> Entry:
        base = {"sha256", "kernels", "versions", "figures"}
        parts = {"peak", "head", "tail", "operators"}
        whole = isinstance(value, dict) and not parts.isdisjoint(value)
        found = self.object(value, key, base | parts if whole else base)
        names = {"edgetool", "converter", "runtime", "profile"}
        versions = self.object(found["versions"], f"{key}.versions", names)
        figures = self.object(found["figures"], f"{key}.figures")
        if unknown := sorted(set(figures) - set(FIGURES)):
            self.fail(f"{key}.figures.{unknown[0]}", "is not a figure that edgetool knows")
        if missing := sorted(ALWAYS - set(figures)):
            self.fail(f"{key}.figures", f"does not contain {missing[0]!r}")
        return Entry(
            sha256=self.text(found["sha256"], f"{key}.sha256"),
            kernels=self.text(found["kernels"], f"{key}.kernels"),
            versions={
                name: None if item is None and name == "converter" else self.text(item, f"{key}.versions.{name}")
                for name, item in versions.items()
            },
            figures={name: self.figure(item, f"{key}.figures.{name}") for name, item in figures.items()},
            anatomy=self.anatomy(found, key) if whole else None,
        )

    def anatomy(self, found: dict[str, Any], key: str) -> Anatomy:
        sizes = ("bytes", "head_bytes", "tail_bytes", "planned_head_bytes", "whole_tail_bytes")
        at = f"{key}.peak"
        peak = self.object(found["peak"], at, {"moment", "during", "busiest", *sizes})
        size = {name: self.size(peak[name], f"{at}.{name}") for name in sizes}
        operators = self.object(found["operators"], f"{key}.operators")
        tail = self.object(found["tail"], f"{key}.tail")
        head = self.object(found["head"], f"{key}.head")
        alive = [self.alive(name, item, f"{key}.head") for name, item in head.items()]
        parts = [self.part(name, item, f"{key}.operators.{name}") for name, item in operators.items()]
        for part, ids in (
            ("head", [item.scratch_of or item.name for item in alive]),
            ("operators", [part.operator for part in parts]),
        ):
            if len(set(ids)) < len(ids):
                self.fail(f"{key}.{part}", "names an operator twice")
        return Anatomy(
            bytes=size["bytes"],
            moment=self.text(peak["moment"], f"{at}.moment"),
            during=self.operator(peak["during"], f"{at}.during"),
            peak_head=size["head_bytes"],
            peak_tail=size["tail_bytes"],
            head_bytes=size["planned_head_bytes"],
            tail_bytes=size["whole_tail_bytes"],
            busiest=self.operator(peak["busiest"], f"{at}.busiest"),
            alive=tuple(sorted(alive, key=lambda item: (-item.bytes, item.name))),
            own=tuple(sorted((name, self.size(item, f"{key}.tail.{name}")) for name, item in tail.items())),
            operators=tuple(sorted(parts, key=lambda part: part.operator)),
        )

    def alive(self, name: str, value: Any, key: str) -> Alive:
        kind, _, rest = name.partition(" ")
        size = self.size(value, f"{key}.{name}")
        if kind == "scratch":
            operator = self.operator(rest, f"{key}.{name}")
            return Alive(str(operator), size, operator)
        if kind != "tensor":
            self.fail(f"{key}.{name}", "is neither a tensor nor scratch")
        return Alive(rest, size)

    def part(self, name: str, value: Any, key: str) -> OperatorPart:
        operator = self.operator(name, key)
        assert operator is not None
        costs = self.object(value, key)
        if unknown := sorted(set(costs) - set(COSTS)):
            self.fail(f"{key}.{unknown[0]}", "unknown key")
        return OperatorPart(operator, **{cost: self.size(costs.get(cost, 0), f"{key}.{cost}") for cost in COSTS})

    def operator(self, value: Any, key: str) -> OperatorId | None:
        if value is None:
            return None
        place, _, label = self.text(value, key).partition(" ")
        subgraph, colon, index = place.rpartition(":")
        numbers = [subgraph, index] if colon else ["0", index]
        if not all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers):
            self.fail(key, 'is not an operator such as "0007 CONV_2D"')
        return OperatorId(int(numbers[0]), int(numbers[1]), label)

    def object(self, value: Any, key: str, names: set[str] | None = None) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.fail(key, "is not an object")
        if names is not None:
            if missing := sorted(names - set(value)):
                self.fail(key, f"does not contain the key {missing[0]!r}")
            if unknown := sorted(set(value) - names):
                self.fail(f"{key}.{unknown[0]}".lstrip("."), "unknown key")
        return value

    def text(self, value: Any, key: str) -> str:
        if not isinstance(value, str):
            self.fail(key, "is not a string")
        return value

    def size(self, value: Any, key: str) -> int:
        if type(value) is not int or not 0 <= value < 2**63:
            self.fail(key, "is not an integer number of bytes or nanoseconds")
        return value

    def figure(self, value: Any, key: str) -> Value:
        if value is None:
            return None
        if type(value) not in (int, float) or not 0 <= value < 1e18:
            self.fail(key, "is not a valid number")
        if key.endswith("_bytes"):
            return self.size(value, key)
        number: int | float = value
        return number
