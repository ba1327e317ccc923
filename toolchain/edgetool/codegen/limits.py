"""What stops compiling when the memory is too small, in C and C++ of every version."""

from __future__ import annotations

from edgetool.codegen.c_names import comment, comment_text, defines
from edgetool.codegen.spec import TargetSpec


def target_memory(macro: str, target: TargetSpec, in_sram: str, in_flash: str) -> str:
    """The sizes of the target's memories; in_sram and in_flash name what they hold ("arena", "model")."""
    if target.sram_bytes is None and target.flash_bytes is None:
        return comment(["Memory of the target: unknown. Define the limits below to have it checked."])
    region = comment_text(target.region) if target.region is not None else "SRAM"
    text = comment([f"Memory of the target: {region} for the {in_sram}, flash for the {in_flash}."])
    known = (("SRAM", target.sram_bytes), ("FLASH", target.flash_bytes))
    return text + defines(*((f"{macro}_TARGET_{kind}_BYTES", size) for kind, size in known if size is not None))


# Both macros of a check are expanded into its message, so that the compiler prints the two numbers.
_CHECKS = """\
#if (defined(__cplusplus) && __cplusplus >= 201103L) || (defined(_MSVC_LANG) && _MSVC_LANG >= 201103L)
#define {macro}_REQUIRE(condition, name, message) static_assert(condition, message)
#elif !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define {macro}_REQUIRE(condition, name, message) _Static_assert(condition, message)
#else
#define {macro}_REQUIRE(condition, name, message) typedef char name[(condition) ? 1 : -1]
#endif
#define {macro}_TEXT_OF(value) #value
#define {macro}_TEXT(value) {macro}_TEXT_OF(value)
"""


def check_macros(macro: str) -> str:
    """The helper macros of `limit_check`, with this prefix."""
    return _CHECKS.format(macro=macro)


def limit_check(macro: str, subject: str, needed: str, limit: str, *, typedef: str) -> str:
    """A declaration that fails to compile if the macro `needed` is more than the macro `limit`.

    In C11 and C++11 and later the message has both values. Before, an array type called `typedef` has a negative size.
    macro: the prefix that `check_macros` was given.
    """
    least = "at least " if needed.endswith("_LOWER_BOUND_BYTES") else ""
    return (
        f"{macro}_REQUIRE(({limit}) >= {needed}, {typedef},\n"
        f'    "{subject} needs {least}" {macro}_TEXT({needed})\n'
        f'    " bytes, but {limit} is " {macro}_TEXT({limit}));\n'
    )


def assertions(name: str, macro: str, target: TargetSpec, in_sram: tuple[str, str], in_flash: tuple[str, str]) -> str:
    """Limits from the target, or from the user, and the assertions on them.

    in_sram, in_flash: what the memory holds ("arena"), and the last words of the macro that has the size of that
    ("ARENA_BYTES").
    """
    text = comment(
        [
            "Compilation fails here if a limit is exceeded.",
            "To set your own limits, define the following before including this header:",
            f"  {macro}_SRAM_LIMIT_BYTES   memory available for the {in_sram[0]}",
            f"  {macro}_FLASH_LIMIT_BYTES  memory available for the {in_flash[0]}",
        ]
    )
    for memory, known, (what, size) in (
        ("SRAM", target.sram_bytes, in_sram),
        ("FLASH", target.flash_bytes, in_flash),
    ):
        limit = f"{macro}_{memory}_LIMIT_BYTES"
        if known is not None:
            text += f"#ifndef {limit}\n#define {limit} {macro}_TARGET_{memory}_BYTES\n#endif\n"
        needed = f"{macro}_{size}"
        check = limit_check(
            macro, f"{name}_{what}", needed, limit, typedef=f"{name}_{what}_exceeds_{memory}_LIMIT_BYTES"
        )
        text += check if known is not None else f"#ifdef {limit}\n{check}#endif\n"
    return text
