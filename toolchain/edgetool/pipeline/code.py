"""The bytes of the code that a model's firmware links, from the measured tables or from the user's own library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgetool.estimate.flash import CodeSize, library_code, measured_bytes, measured_code
from edgetool.model.types import Model
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.registrations import registrations_of
from edgetool.target.code_sizes import (
    CodeBuild,
    CodeSizes,
    Registered,
    load_code_sizes,
    load_registrations,
    load_version_factors,
)
from edgetool.target.types import CodeOptions, Target


def code_of(model: Model, target: Target, custom: Mapping[str, OperatorEntry] | None = None) -> CodeSize | None:
    """Return the size of the code that TFLM's firmware of a model links; None if it is unknown for the target.

    Raises LibraryError if the user's library does not define what the firmware needs.
    """
    runtime, options = target.runtime, target.code_options or CodeOptions()
    if runtime.is_native:
        return None
    registrations = _registered(model, target, custom)
    measured = runtime.newest or runtime.name
    sizes, build = _sizes(target)
    if options.libraries:
        from edgetool.pipeline.libraries import read_libraries  # few users give their library

        linker = read_libraries(options.libraries, target.core)
        where = ", ".join(Path(each).name for each in options.libraries)
        return library_code(linker, load_registrations(measured), sizes, build, registrations, where)
    if sizes is None:
        return None
    factor = load_version_factors().get((runtime.name, target.kernels))
    if factor is None:
        return None
    return measured_code(sizes, build, registrations, factor, runtime.name)


def library_bytes(
    models: Sequence[Model], target: Target, custom: Mapping[str, OperatorEntry] | None = None
) -> int | None:
    """Return the code of TFLM and its kernels that a firmware with these models links; None if it was not measured."""
    runtime, (sizes, build) = target.runtime, _sizes(target)
    factor = load_version_factors().get((runtime.name, target.kernels))
    if sizes is None or factor is None:
        return None
    registrations = [item for model in models for item in _registered(model, target, custom)]
    return round(measured_bytes(sizes, build, registrations, "library") * factor.value)


def _registered(model: Model, target: Target, custom: Mapping[str, OperatorEntry] | None) -> list[Registered]:
    return [
        Registered(item.operator, item.method or "", item.function or "")
        for item in registrations_of(model, target.runtime, target.kernels, custom or {})
    ]


def _sizes(target: Target) -> tuple[CodeSizes | None, CodeBuild]:
    """Return the table of the core and its column for the target's build; no table if none has the build."""
    options, runtime = target.code_options or CodeOptions(), target.runtime
    sizes = load_code_sizes(runtime.newest or runtime.name, target.core.name)
    build = CodeBuild(target.kernels, options.optimization or "O2", options.c_library or "newlib")
    return (None if sizes is None or str(build) not in sizes.builds else sizes), build
