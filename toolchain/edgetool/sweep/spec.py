"""Read a sweep.toml into a SweepSpec, with resolved paths.

read_spec is strict: before anything runs, it checks that every key is known, every value is possible, and every file
exists. Functions such as integer, level and path_in parse the value of one key, and raise UsageError if it is invalid;
value_of and list_of note such errors with the key. read_targets resolves each target at once, so that an error about a
target names its key too.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Collection, Mapping, Sized
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from edgetool.convert.request import (
    DEFAULT_SAMPLES,
    MAX_SAMPLES,
    NORMALISATION,
    PRUNING_METHODS,
    BuilderArgument,
    ConvertRequest,
    PruningMethod,
)
from edgetool.errors import EdgetoolError, SettingsError, UsageError, did_you_mean, problems_as_error
from edgetool.estimate.native import require_estimated
from edgetool.gate.limits import MemoryBudget, parse_budget, parse_percent
from edgetool.pipeline.output import check_readable, read_file
from edgetool.pipeline.targets import is_path
from edgetool.sweep.front import AXES
from edgetool.sweep.metrics import PRECISIONS
from edgetool.target.load import MAX_EXTRA_MACS, load_target, parse_target
from edgetool.target.quantity import (
    CLOCK_EXPECTED,
    ENERGY_EXPECTED,
    LONG_TIME_EXPECTED,
    SIZE_EXPECTED,
    TIME_EXPECTED,
    parse_clock,
    parse_energy,
    parse_long_time,
    parse_size,
    parse_time,
)
from edgetool.target.toml import MAX_FILE_BYTES, Section, toml_table, toml_text
from edgetool.target.types import Target


def read_toml_text(path: Path, *, what: str) -> str:
    """Return the file's text. what: "a sweep.toml", for messages. Raises UsageError if it is not a text file."""
    blob = read_file(path, what=what, max_bytes=MAX_FILE_BYTES)
    return toml_text(blob, where=str(path), fix=f"specify {what}", error=SettingsError)


def read_toml(path: Path, *, what: str) -> dict[str, Any]:
    """Return the file's table. Raises UsageError; a syntax error names line and column."""
    text = read_toml_text(path, what=what)
    return toml_table(text, where=str(path), fix="see docs/sweep.md", error=SettingsError)


Strategy = Literal["grid", "search"]


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """A target as the user specifies it.

    label: its name in tables, unique in the sweep. name: that of a packaged profile, or the path of the user's profile.
    profile: the text of the user's profile, None for a packaged one. overrides: keyword arguments of
    Target.with_overrides.
    """

    label: str
    name: str
    profile: str | None = None
    overrides: tuple[tuple[str, bool | float | str], ...] = ()


@dataclass(frozen=True, slots=True)
class Pruning:
    """Structured pruning.

    levels: the fractions of channels to remove, ascending and distinct. method: how channels are ranked. exclude: names
    or patterns (fnmatch) of layers that are not pruned.
    """

    levels: tuple[float, ...] = (0.0,)
    method: PruningMethod = "l1"
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FineTune:
    """Training after pruning; level 0 is not trained, because nothing is removed.

    data: an .npz file with x (or an array per input) and y. loss: the name of a Keras loss, None for the one that fits
    y and the output.
    """

    data: Path
    epochs: int = 1
    learning_rate: float = 1e-3
    batch_size: int = 32
    loss: str | None = None


@dataclass(frozen=True, slots=True)
class Builder:
    """A Python function of the user: module.function(**parameters) returns a Keras model.

    path: the module's file. files: other files of the user that it imports. parameters: the values of each parameter,
    in the order of the sweep.toml.
    """

    path: Path
    module: str
    function: str
    files: tuple[Path, ...] = ()
    parameters: tuple[tuple[str, tuple[BuilderArgument, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Search:
    """A search instead of the whole grid.

    trials: per target. batch: trials per target that are proposed at once. objectives: keys of AXES to optimize.
    """

    trials: int = 40
    batch: int = 4
    objectives: tuple[str, ...] = ("accuracy", "latency_ms")


@dataclass(frozen=True, slots=True)
class SweepLimits:
    """The limits for variants, besides the memory of their target; None is no limit.

    budgets: reported only. active_budget: rejects variants that exceed it. reserve_bytes, reserve_flash_bytes: kept
    free in RAM and in flash. min_accuracy: 0 to 1. max_accuracy_loss: percentage points below the float original.
    """

    budgets: tuple[MemoryBudget, ...] = ()
    active_budget: MemoryBudget | None = None
    reserve_bytes: int = 0
    reserve_flash_bytes: int = 0
    max_latency_ms: float | None = None
    max_energy_uj: float | None = None
    min_accuracy: float | None = None
    max_accuracy_loss: float | None = None


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """A sweep as specified by a sweep.toml.

    optimize: whether converted models are cleaned up. max_extra_macs: the multiply-accumulates that plans may compute
    again, in percent; None for what each target says.

    Exactly one of model (.h5, .keras; SavedModel and .tflite cannot be pruned) and builder is set. calibration,
    evaluate, mean, std, scale, offset, samples and seed are options of the conversion. job_seconds: the time limit of a
    job.
    """

    name: str
    model: Path | None
    builder: Builder | None
    precisions: tuple[str, ...]
    targets: tuple[TargetSpec, ...]
    pruning: Pruning = field(default_factory=Pruning)
    fine_tune: FineTune | None = None
    calibration: Path | None = None
    evaluate: Path | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    offset: tuple[float, ...] | None = None
    samples: int = DEFAULT_SAMPLES
    seed: int = 0
    strategy: Strategy = "grid"
    search: Search = field(default_factory=Search)
    limits: SweepLimits = field(default_factory=SweepLimits)
    trust_model_code: bool = False
    job_seconds: float = 3600.0
    optimize: tuple[bool, ...] = (True,)
    max_extra_macs: tuple[float | None, ...] = (None,)


T = TypeVar("T")

MAX_CHARACTERS = 1000  # of a string
MAX_JOB_SECONDS = 30 * 24 * 3600
ACCURACY_EXPECTED = 'an accuracy such as 0.9 or "90%"'
BUILDER_EXPECTED = 'a builder such as "module:function"'
LOSS_EXPECTED = 'percentage points such as "2%"'


def value_of(section: Section, name: str, parse: Callable[[object], T]) -> T | None:
    """Return the parsed value of the key; None if it is absent, or if `parse` raises a UsageError, which is noted."""
    section.taken.add(name)
    if not section.has(name):
        return None
    try:
        return parse(section.table[name])
    except UsageError as error:
        section.note(name, error.what, error.fix)
        return None


def list_of(section: Section, name: str, parse: Callable[[object], T], example: str) -> tuple[T, ...] | None:
    """Return the parsed items of a list, which must be distinct and not empty; None if the key is absent or invalid.

    An invalid item is noted with its position.
    """
    section.taken.add(name)
    if not section.has(name):
        return None
    items = section.table[name]
    if not isinstance(items, list) or not items:
        section.note(name, "is an empty list" if items == [] else f"must be a list, not {_shown(items)}", example)
        return None
    before, values, shown = len(section.problems), list[T](), list[str]()
    for i, item in enumerate(items):
        key = f"{name}[{i}]"
        try:
            parsed = parse(item)
        except UsageError as error:
            section.note(key, error.what, error.fix)
            continue
        if parsed in values:
            # 1, 1.0 and true are equal, so that tables and fronts would not distinguish their variants.
            same = shown[values.index(parsed)]
            as_what = f": it equals {same}" if same != _shown(item) else ""
            section.note(key, f"{_shown(item)} is listed twice{as_what}", "remove one of them")
        values.append(parsed)
        shown.append(_shown(item))
    return tuple(values) if len(section.problems) == before else None


def choice(choices: Collection[str]) -> Callable[[object], str]:
    """Return a parser for one of the choices."""

    def parse(value: object) -> str:
        if isinstance(value, str) and value in choices:
            return value
        guess = did_you_mean(value, choices) if isinstance(value, str) else None
        raise UsageError(f"{_shown(value)} is not one of {', '.join(choices)}", fix=guess)

    return parse


def integer(low: int, high: int) -> Callable[[object], int]:
    """Return a parser for an integer from low to high."""

    def parse(value: object) -> int:
        if type(value) is int and low <= value <= high:
            return value
        raise UsageError(f"{_shown(value)} is not an integer from {low} to {high}")

    return parse


def number_between(low: float, high: float) -> Callable[[object], float]:
    """Return a parser for a number from low to high."""

    def parse(value: object) -> float:
        number = _number(value)
        if number is None or not low <= number <= high:  # also rejects NaN
            raise UsageError(f"{_shown(value)} is not a number from {low:g} to {high:g}")
        return number

    return parse


def pattern(value: object) -> str:
    """Parse a name or pattern: a line of printable text."""
    text = _text(value, "a string")
    if len(text) > MAX_CHARACTERS or not text.isprintable():
        raise UsageError(f"{_shown(value)} is not a single line of at most {MAX_CHARACTERS} printable characters")
    return text


def is_name(text: str) -> bool:
    """Return whether Python accepts the text as the name of a parameter."""
    return text.isidentifier() and not keyword.iskeyword(text)


def module_and_function(value: object) -> tuple[str, str]:
    """Parse "module:function" into its two parts."""
    module, colon, function = _text(value, BUILDER_EXPECTED).partition(":")
    if not colon or not is_name(module) or not is_name(function):
        raise UsageError(
            f"{_shown(value)} is not {BUILDER_EXPECTED}", fix="module.py must be in the folder of the sweep.toml"
        )
    return module, function


def level(value: object) -> float:
    """Parse a fraction of the channels: from 0 to less than 1."""
    number = _number(value)
    if number is None or not 0 <= number < 1:
        raise UsageError(
            f"{_shown(value)} is not a level: a number in the range 0 to less than 1",
            fix="0.25 removes a quarter of the channels",
        )
    return number + 0.0  # turns -0.0 into 0.0


def parameter(value: object) -> BuilderArgument:
    """Parse an argument for the builder: a finite number, a string or a boolean."""
    if isinstance(value, str) and len(value) > MAX_CHARACTERS:
        raise UsageError(f"is a string of more than {MAX_CHARACTERS} characters")
    if isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise UsageError(f"{_shown(value)} is not a finite number, a string or a boolean")


def numbers(value: object) -> tuple[float, ...]:
    """Parse a finite number, or a list of them."""
    parsed = [_number(item) for item in (value if isinstance(value, list) else [value])]
    finite = [number for number in parsed if number is not None and math.isfinite(number)]
    if not parsed or len(finite) < len(parsed):
        raise UsageError(
            f"{_shown(value)} is not a number or a list of numbers", fix="use one number, or one per channel"
        )
    return tuple(finite)


def size_bytes(value: object) -> int:
    """Parse a size in bytes: "64KiB" or a number of bytes."""
    if type(value) is int and value >= 0:
        return value
    return parse_size(_text(value, SIZE_EXPECTED))


def latency_ms(value: object) -> float:
    """Parse a time above 0, and return milliseconds."""
    return _above_zero(parse_time(_text(value, TIME_EXPECTED)), value)


def energy_uj(value: object) -> float:
    """Parse an energy above 0, and return microjoules."""
    return _above_zero(parse_energy(_text(value, ENERGY_EXPECTED)), value)


def accuracy(value: object) -> float:
    """Parse a fraction from 0 to 1: 0.9 or "90%"."""
    number = parse_percent(value) / 100 if isinstance(value, str) else _number(value)
    if number is None or not 0 <= number <= 1:
        raise UsageError(f"{_shown(value)} is not {ACCURACY_EXPECTED}")
    return number


def accuracy_loss(value: object) -> float:
    """Parse percentage points: "2%"."""
    return parse_percent(_text(value, LOSS_EXPECTED))


def job_seconds(value: object) -> float:
    """Parse the time limit of a job: "1h", or a number of seconds."""
    number = parse_long_time(value) if isinstance(value, str) else _number(value)
    if number is None or not 0 < number <= MAX_JOB_SECONDS:
        raise UsageError(f"{_shown(value)} is not a number of seconds or {LONG_TIME_EXPECTED}, up to 30 days")
    return number


def path_in(folder: Path, *, suffix: str = "") -> Callable[[object], Path]:
    """Return a parser for the path of a readable file or directory, relative to the sweep.toml's folder."""

    def parse(value: object) -> Path:
        path = folder / _text(value, "a path", quote=True)
        try:
            check_readable(path)
        except EdgetoolError as error:
            fix = "paths are relative to the sweep.toml's folder"
            raise UsageError(f"{_shown(value)} {error.what}", fix=fix) from None
        if suffix and (path.is_dir() or path.suffix.lower() != suffix):
            raise UsageError(f"{_shown(value)} is not an {suffix} file")
        return path

    return parse


def _number(value: object) -> float | None:
    """Return a TOML integer or float as a float; infinity if the integer is too large, None for another type."""
    if type(value) is float:
        return value
    if type(value) is not int:
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _text(value: object, expected: str, *, quote: bool = False) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise UsageError(f"{_shown(value)} is not {expected}{', in quotes' if quote else ''}")


def _above_zero(number: float, value: object) -> float:
    if number <= 0:
        raise UsageError(f"{_shown(value)} is too small", fix="use more than 0")
    return number


def _shown(value: Any) -> str:
    """Return the value for a message: booleans as in TOML, and long values truncated."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


EXAMPLE = 'write targets = ["cortex-m4", {name = "my-board.toml", clock = "80MHz"}]'
MAX_LABEL = 60
# Key -> keyword of Target.with_overrides, in the order in which it applies them: the region of the arena before its
# size.
OVERRIDES: Mapping[str, str] = {
    "clock": "clock_hz",
    "arena_region": "arena_region",
    "sram": "sram_bytes",
    "flash": "flash_bytes",
    "kernels": "kernels",
    "runtime": "runtime",
    "scratch_budget": "scratch_budget_bytes",
    "row_input": "row_input",
    "row_output": "row_output",
    "max_extra_macs": "max_extra_macs",
    "max_weights_per_row": "max_weights_per_row_bytes",
    "incremental": "incremental",
}


@dataclass(frozen=True, slots=True)
class _ParsedTarget:
    """A target. overrides_text: added to its label if another target has the same name, unless the user set a label."""

    spec: TargetSpec
    overrides_text: str
    has_user_label: bool


def read_targets(section: Section, folder: Path) -> tuple[TargetSpec, ...]:
    """Return the targets of the key "targets", with distinct labels; problems are noted."""
    section.taken.add("targets")
    items = section.table.get("targets")
    if not isinstance(items, list) or not items:
        section.note("targets", "is missing" if items is None else "must be a non-empty list of targets", EXAMPLE)
        return ()
    parsed_targets = []
    for i, item in enumerate(items):
        key = f"targets[{i}]"
        table = {"name": item} if isinstance(item, str) else item
        if not isinstance(table, Mapping):
            section.note(key, "must be a name or a table", EXAMPLE)
            continue
        inner = Section(table, section.problems, section.key(key))
        parsed = _read(inner, folder)
        if parsed is not None:
            parsed_targets.append((key, parsed))
    return _labelled(section, parsed_targets)


def _read(section: Section, folder: Path) -> _ParsedTarget | None:
    before = len(section.problems)
    name = section.text("name")
    label = section.text("label", required=False)
    if len(label) > MAX_LABEL:
        section.note("label", f"is longer than {MAX_LABEL} characters")
    values = {key: _override(section, key) for key in OVERRIDES}
    section.finish()
    if len(section.problems) > before:
        return None
    profile, target = _resolved(section, name, folder)
    for key, value in values.items():
        if target is None:
            return None
        if value is not None:
            target = _overridden(section, key, target, value)
    if target is None:
        return None
    overrides = tuple((OVERRIDES[key], value) for key, value in values.items() if value is not None)
    text = " ".join(_override_text(key, section.table[key]) for key, value in values.items() if value is not None)
    profile_name = target.name if profile is None else name
    return _ParsedTarget(TargetSpec(label or target.name, profile_name, profile, overrides), text, bool(label))


def _override(section: Section, key: str) -> bool | float | str | None:
    if key == "clock":
        return value_of(section, key, _clock_hz)
    if key in ("sram", "flash", "scratch_budget", "max_weights_per_row"):
        return value_of(section, key, size_bytes)
    if key in ("row_input", "row_output"):
        return value_of(section, key, _flag) or None
    if key == "max_extra_macs":
        return value_of(section, key, _percent)
    if key == "incremental":
        return value_of(section, key, _rows)
    return section.text(key, required=False) or None


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise UsageError(f"{value!r} is not true or false")


def _percent(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise UsageError(f"{value!r} is not a percentage, such as 5")


def _rows(value: object) -> int:
    if type(value) is int and value > 0:
        return value
    raise UsageError(f"{value!r} is not a number of rows")


def _clock_hz(value: object) -> int:
    if type(value) is int:
        return value
    if isinstance(value, str):
        return parse_clock(value)
    raise UsageError(f"{value!r} is not {CLOCK_EXPECTED}")


def _resolved(section: Section, name: str, folder: Path) -> tuple[str | None, Target | None]:
    """Return the text of the user's profile, None for a packaged one, and the target."""
    try:
        if not is_path(name):
            return None, load_target(name)
        path = folder / name
        text = read_toml_text(path, what="a target profile")
        return text, parse_target(text, where=str(path))
    except EdgetoolError as error:
        where = f"{error.where}: " if error.where else ""
        section.note("name", f"{where}{error.what}", error.fix)
        return None, None


def _overridden(section: Section, key: str, target: Target, value: bool | float | str) -> Target | None:
    override: dict[str, Any] = {OVERRIDES[key]: value}
    try:
        overridden = target.with_overrides(**override)
        if overridden.runtime.is_native:
            require_estimated(overridden)
        return overridden
    except EdgetoolError as error:
        section.note(key, error.what, error.fix)
        return None


def _override_text(key: str, value: object) -> str:
    """Return an override as part of a label: "80MHz", "sram 128KiB", "row_input"."""
    if key == "clock":
        return f"{value} Hz" if type(value) is int else f"{value}"
    return key if value is True else f"{key} {value}"


def _labelled(section: Section, targets: list[tuple[str, _ParsedTarget]]) -> tuple[TargetSpec, ...]:
    """Add their overrides to the labels of targets with the same name, and note labels that are not distinct."""
    labels = [target.spec.label for _, target in targets]
    specs: dict[str, TargetSpec] = {}
    for key, target in targets:
        spec = target.spec
        if labels.count(spec.label) > 1 and not target.has_user_label and target.overrides_text:
            spec = replace(spec, label=f"{spec.label} {target.overrides_text}")
        if spec.label in specs:
            section.note(
                key, f"{spec.label!r} is listed twice", 'remove one of them, or set a different label = "..." for one'
            )
        specs[spec.label] = spec
    return tuple(specs.values())


Keys = Mapping[str, tuple[str, Callable[[object], Any]]]  # key -> name of the field, and parser of the value

MAX_GRID = 100_000
MAX_SEED = 2**32 - 1
# Options that only the user who runs the sweep can set, not its file.
COMMAND_LINE_OPTIONS = {"trust_model_code": "--trust-model-code", "jobs": "--jobs", "scheduler": "--scheduler"}
LIMITS: Keys = {
    "active_memory_budget": ("active_budget", parse_budget),
    "reserve": ("reserve_bytes", size_bytes),
    "reserve_flash": ("reserve_flash_bytes", size_bytes),
    "max_latency": ("max_latency_ms", latency_ms),
    "max_energy": ("max_energy_uj", energy_uj),
    "min_accuracy": ("min_accuracy", accuracy),
    "max_accuracy_loss": ("max_accuracy_loss", accuracy_loss),
}


def read_spec(path: Path, *, trust_model_code: bool = False) -> SweepSpec:
    """Read a sweep.toml. Paths in it are relative to its folder.

    Raises SettingsError naming file and key, with further problems as its details; UsageError if the file cannot be
    read, or has a builder without trust_model_code.
    """
    where = str(path)
    top = Section(read_toml(path, what="a sweep.toml"), [])
    spec = _spec(top, path, trust_model_code=trust_model_code)
    for name, option in COMMAND_LINE_OPTIONS.items():
        if top.has(name):
            top.taken.add(name)
            top.note(name, "cannot be set in the file", f"pass {option} to 'edgetool sweep run'")
    top.finish()
    if top.problems:
        raise problems_as_error(top.problems, where, SettingsError)
    if spec.builder is not None and not trust_model_code:
        raise UsageError(
            f"{spec.builder.path.name} would be run on this machine",
            where=f"{where}: builder",
            fix="use --trust-model-code if you trust its author",
        )
    return spec


def _spec(top: Section, path: Path, *, trust_model_code: bool) -> SweepSpec:
    """Return the sweep, which is invalid if problems were noted."""
    folder = path.parent
    file, data = path_in(folder), path_in(folder, suffix=".npz")
    model, builder = value_of(top, "model", file), _builder(top, folder)
    _check_model(top, model)
    spec = SweepSpec(
        name=top.text("name", required=False) or path.stem,
        model=model,
        builder=builder,
        precisions=list_of(top, "precisions", choice(PRECISIONS), 'as in precisions = ["int8"]') or ("int8",),
        targets=read_targets(top, folder),
        optimize=list_of(top, "optimize", _flag, "as in optimize = [false, true]") or (True,),
        max_extra_macs=list_of(
            top, "max_extra_macs", number_between(0, MAX_EXTRA_MACS), "as in max_extra_macs = [0, 2, 5]"
        )
        or (None,),
        pruning=_pruning(top, model),
        fine_tune=_fine_tune(top, data),
        search=_search(top),
        limits=_limits(top),
        trust_model_code=trust_model_code,
        **_fields(
            top,
            {
                "calibration": ("calibration", file),
                "evaluate": ("evaluate", data),
                **{name: (name, numbers) for name in NORMALISATION},
                "samples": ("samples", integer(1, MAX_SAMPLES)),
                "seed": ("seed", integer(0, MAX_SEED)),
                "strategy": ("strategy", choice(get_args(Strategy))),
                "job_timeout": ("job_seconds", job_seconds),
            },
        ),
    )
    _check_normalisation(top, spec)
    _check_size(top, spec)
    return spec


def _fields(section: Section, table: Keys) -> dict[str, Any]:
    """Return the fields that the file sets; the others keep their defaults."""
    values = {field: value_of(section, key, parse) for key, (field, parse) in table.items()}
    return {field: value for field, value in values.items() if value is not None}


def _check_model(top: Section, model: Path | None) -> None:
    if top.has("model") == top.has("builder"):
        what = (
            "both a model and a builder are specified"
            if top.has("model")
            else "neither a model nor a builder is specified"
        )
        top.note("model", what, 'write model = "model.keras", or builder = "module:function"')
    if model is not None and model.suffix.lower() == ".tflite":
        top.note("model", f"{model.name} is already converted", "specify the Keras model it was converted from")


def _builder(top: Section, folder: Path) -> Builder | None:
    name = value_of(top, "builder", module_and_function)
    files = list_of(top, "builder_files", path_in(folder, suffix=".py"), 'as in builder_files = ["blocks.py"]')
    parameters = _parameters(top)
    for key in ("builder_files", "parameters"):
        if top.has(key) and not top.has("builder"):
            top.note(key, "requires a builder, but none is specified", 'write builder = "module:function"')
    if name is None:
        return None
    module, function = name
    path = folder / f"{module}.py"
    if not path.is_file():
        top.note(
            "builder", f"there is no {module}.py beside the sweep.toml", "specify the name of a module in that folder"
        )
    return Builder(path, module, function, files or (), parameters)


def _parameters(top: Section) -> tuple[tuple[str, tuple[BuilderArgument, ...]], ...]:
    section = top.optional("parameters")
    if section is None:
        return ()
    parameters = []
    for name in section.table:
        if not is_name(name):
            section.note(name, "is not a valid Python parameter name")
        values = list_of(section, name, parameter, f"as in {name[:40]} = [0.5, 1.0]")
        parameters.append((name, values or ()))
    return tuple(parameters)


def _pruning(top: Section, model: Path | None) -> Pruning:
    section = top.optional("pruning")
    if section is None:
        return Pruning()
    levels = list_of(section, "levels", level, "as in levels = [0, 0.25, 0.5]")
    exclude = list_of(section, "exclude", pattern, 'as in exclude = ["head_*"]')
    method = _fields(section, {"method": ("method", choice(PRUNING_METHODS))})
    section.finish()
    if model is not None and model.is_dir() and any(levels or ()):
        section.note("levels", "a SavedModel cannot be pruned", "provide the model as .keras or .h5, or omit levels")
    return Pruning(tuple(sorted(levels or (0.0,))), exclude=exclude or (), **method)


def _fine_tune(top: Section, data: Callable[[object], Path]) -> FineTune | None:
    section = top.optional("fine_tune")
    if section is None:
        return None
    path = value_of(section, "data", data)
    if not section.has("data"):
        section.note("data", "is missing", "specify an .npz file with training data x and y")
    fields = _fields(
        section,
        {
            "epochs": ("epochs", integer(1, 100_000)),
            "learning_rate": ("learning_rate", number_between(1e-12, 1e3)),
            "batch_size": ("batch_size", integer(1, 10**6)),
            "loss": ("loss", pattern),
        },
    )
    section.finish()
    return FineTune(path or Path(), **fields)


def _search(top: Section) -> Search:
    section = top.optional("search")
    if section is None:
        return Search()
    fields = _fields(
        section,
        {"trials": ("trials", integer(1, MAX_GRID)), "batch": ("batch", integer(1, 1000))},
    )
    objectives = list_of(section, "objectives", choice(AXES), 'as in objectives = ["accuracy", "latency_ms"]')
    section.finish()
    return Search(objectives=objectives or Search().objectives, **fields)


def _limits(top: Section) -> SweepLimits:
    budgets = list_of(top, "memory_budgets", parse_budget, 'as in memory_budgets = ["64KiB", "256KiB:flash"]')
    return SweepLimits(budgets=budgets or (), **_fields(top, LIMITS))


def _check_normalisation(top: Section, spec: SweepSpec) -> None:
    """Check the normalisation as the conversion does, whose errors name its options; it applies to fine-tuning too."""
    try:
        ConvertRequest(
            path=Path(),
            calibration=spec.calibration,
            evaluate=spec.evaluate or (spec.fine_tune.data if spec.fine_tune is not None else None),
            **{name: getattr(spec, name) for name in NORMALISATION},
        )
    except UsageError as error:
        key = (error.where or next(name for name in NORMALISATION if getattr(spec, name) is not None)).lstrip("-")
        top.note(key, error.what.replace("--", ""), error.fix.replace("--", "") if error.fix else None)


def _check_size(top: Section, spec: SweepSpec) -> None:
    lists: list[Sized] = [spec.pruning.levels, spec.precisions, spec.targets, spec.optimize, spec.max_extra_macs]
    lists += [values for _, values in spec.builder.parameters] if spec.builder else []
    variants = math.prod(len(values) for values in lists)
    if spec.strategy == "grid" and variants > MAX_GRID:
        top.note(
            "strategy",
            f"the grid has {variants:,} variants, but at most {MAX_GRID:,} can be run",
            'write strategy = "search", or shorten a list',
        )
