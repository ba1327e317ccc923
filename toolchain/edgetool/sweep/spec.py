"""What a sweep is asked to do: a sweep.toml as types, its paths resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from edgetool.convert.request import DEFAULT_SAMPLES, Method, Value
from edgetool.gate.limits import Budget

Strategy = Literal["grid", "search"]


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """A target as the user names it.

    label: how tables call it, unique in the sweep. name: of a packaged profile; profile: the text of the user's own
    instead, None for a packaged one. overrides: of Target.with_overrides, by keyword.
    """

    label: str
    name: str
    profile: str | None = None
    overrides: tuple[tuple[str, int | str], ...] = ()


@dataclass(frozen=True, slots=True)
class Pruning:
    """Structured pruning: the shares of channels to remove, ascending and distinct; how channels are ranked; the
    layers to leave alone, by name or pattern (fnmatch)."""

    levels: tuple[float, ...] = (0.0,)
    method: Method = "l1"
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FineTune:
    """Training after pruning; never of level 0, which is the identity.

    data: an .npz with x (or an array per input) and y. loss: a name of Keras's, None for the one that fits y and the
    output.
    """

    data: Path
    epochs: int = 1
    learning_rate: float = 1e-3
    batch_size: int = 32
    loss: str | None = None


@dataclass(frozen=True, slots=True)
class Builder:
    """The user's Python: module.function(**parameters) returns a Keras model.

    path: the module's file. files: further files of the user's that it imports. parameters: the values of each, in the
    order of the file.
    """

    path: Path
    module: str
    function: str
    files: tuple[Path, ...] = ()
    parameters: tuple[tuple[str, tuple[Value, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Search:
    """A search instead of the whole grid: trials per target, how many are asked for at once, and what is sought."""

    trials: int = 40
    batch: int = 4
    objectives: tuple[str, ...] = ("accuracy", "latency_ms")


@dataclass(frozen=True, slots=True)
class SweepLimits:
    """What a variant must keep to be accepted, beside the memories of its target; None is none.

    budgets are tracked, active_budget rejects. reserve_bytes are kept free of RAM, reserve_flash_bytes of flash.
    min_accuracy: 0 to 1. max_accuracy_loss: in percentage points against the float original.
    """

    budgets: tuple[Budget, ...] = ()
    active_budget: Budget | None = None
    reserve_bytes: int = 0
    reserve_flash_bytes: int = 0
    max_latency_ms: float | None = None
    max_energy_uj: float | None = None
    min_accuracy: float | None = None
    max_accuracy_loss: float | None = None


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """Exactly one of model (.h5, .keras; SavedModel and .tflite cannot be pruned) and builder is given.

    calibration, evaluate, mean, std, scale, offset, samples and seed are those of a conversion.
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
