"""CMakeLists.txt for the generated files: a standalone project, or a part of the user's.

How TFLM is built, and where its headers are, follows its Makefile and create_tflm_tree.py; a tree of the latter is
compiled as the Makefile in it does.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.codegen import c_names
from edgetool.codegen.c_names import comment_text
from edgetool.codegen.spec import Data, ProgramSpec, SharedArenaSpec
from edgetool.codegen.templates import TemplateValue, fill


def cmake_lists(project: ProgramSpec | SharedArenaSpec, *, data: Data = "array", profile: bool = False) -> str:
    """Return the text of CMakeLists.txt for one model, or for several that share an arena.

    Its libraries are NAME_model and NAME_runner for each model, and GROUP_arena if they share one. As a standalone
    project, it also has the program NAME_main (GROUP_main) of main.cc, and with `profile` a program NAME_profile for
    each model, which is built only on request.
    """
    shared = project if isinstance(project, SharedArenaSpec) else None
    programs = project.programs if isinstance(project, SharedArenaSpec) else (project,)
    name = c_names.model_identifier(shared.name if shared is not None else programs[0].header.name)
    runners = [f"{c_names.model_identifier(spec.header.name)}_runner" for spec in programs]
    libraries = [_runner(spec, None if shared is None else f"{name}_arena") for spec in programs]
    return fill(
        "cmake/CMakeLists.cmake",
        my_models=", ".join(comment_text(spec.header.name) for spec in programs),
        my_version=comment_text(programs[0].header.tool_version),
        my_runners=", ".join(runners),
        my_project=name,
        MY_INCBIN=data == "incbin",
        MY_MODELS=[{"my_model": c_names.model_identifier(spec.header.name)} for spec in programs],
        MY_LIBRARIES=[*([] if shared is None else [_arena(shared)]), *libraries],
        MY_PROGRAMS=_programs(name, programs, runners, profile),
    )


def _arena(spec: SharedArenaSpec) -> dict[str, TemplateValue]:
    return {
        **c_names.model_names(spec.name),
        "my_target": f"{c_names.model_identifier(spec.name)}_arena",
        "my_links": "tflm",
        "MY_UNKNOWN": spec.exact_arena_bytes is None,
        "MY_CUSTOM": False,
    }


def _runner(spec: ProgramSpec, arena: str | None) -> dict[str, TemplateValue]:
    name = c_names.model_identifier(spec.header.name)
    return {
        **c_names.model_names(spec.header.name),
        "my_target": f"{name}_runner",
        "my_links": f"{name}_model tflm" if arena is None else f"{name}_model {arena} tflm",
        "MY_UNKNOWN": arena is None and spec.header.exact_arena_bytes is None,
        "MY_CUSTOM": any(registration.method is None for registration in spec.registrations),
    }


def _programs(
    name: str, programs: Sequence[ProgramSpec], runners: Sequence[str], profile: bool
) -> list[dict[str, TemplateValue]]:
    """Return the programs of a standalone project."""
    items: list[dict[str, TemplateValue]] = [
        {"my_target": f"{name}_main", "my_source": "main.cc", "my_links": " ".join(runners)}
    ]
    for spec, runner in zip(programs, runners, strict=True) if profile else ():
        target = f"{c_names.model_identifier(spec.header.name)}_profile"
        # It may need different flags or a different board from the rest.
        items.append({"my_target": target, "my_source": f"EXCLUDE_FROM_ALL {target}.cc", "my_links": runner})
    return items
