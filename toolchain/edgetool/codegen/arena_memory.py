"""The array that is an arena, in a C++ file, and what the user may define for it."""

from __future__ import annotations


def options(file: str, macro: str, *, exact: bool) -> list[str]:
    """Lines for a comment: what may be defined for the compilation of the file that has the array.

    macro: the prefix of the arena's macros. exact: whether its size is known, and not only from below.
    """
    lines = [
        f"The arena is in {file}. The following macros may be defined when that file is compiled:",
        f"  {macro}_ARENA_SECTION      the attribute placed before the arena, to put it in its own section:",
        "                     __attribute__((section(...)))",
    ]
    if exact:
        return [
            *lines,
            f"  {macro}_ARENA_EXTRA_BYTES  bytes to add to {macro}_ARENA_BYTES, for another version of TFLM",
        ]
    return [
        *lines,
        f"  {macro}_ARENA_BYTES        its size, which you must define: only a lower bound is known.",
        "                     Start with a large value and reduce it on the device",
    ]


def array(name: str, macro: str, *, exact: bool) -> str:
    """The array NAME_arena, by the macros of the header that has its size or lower bound."""
    text = f"#ifndef {macro}_ARENA_SECTION\n#define {macro}_ARENA_SECTION\n#endif\n"
    if exact:
        text += f"#ifndef {macro}_ARENA_EXTRA_BYTES\n#define {macro}_ARENA_EXTRA_BYTES 0\n#endif\n"
        size = f"{macro}_ARENA_BYTES + ({macro}_ARENA_EXTRA_BYTES)"
    else:
        text += (
            f"#ifndef {macro}_ARENA_BYTES\n"
            f'#error "the exact arena size is unknown: define {macro}_ARENA_BYTES, larger than'
            f' {macro}_ARENA_LOWER_BOUND_BYTES"\n#endif\n'
        )
        size = f"{macro}_ARENA_BYTES"
    text += f"\nalignas({macro}_ARENA_ALIGNMENT) {macro}_ARENA_SECTION static uint8_t {name}_arena[{size}];\n"
    if not exact:
        text += (
            f"static_assert(sizeof({name}_arena) >= {macro}_ARENA_LOWER_BOUND_BYTES,\n"
            f'              "{name}_arena needs at least " {macro}_TEXT({macro}_ARENA_LOWER_BOUND_BYTES)\n'
            f'              " bytes, but {macro}_ARENA_BYTES is " {macro}_TEXT({macro}_ARENA_BYTES));\n'
        )
    return text + (
        f"#ifdef {macro}_SRAM_LIMIT_BYTES\nstatic_assert(sizeof({name}_arena) <= ({macro}_SRAM_LIMIT_BYTES),\n"
        f'              "{name}_arena takes " {macro}_TEXT({size})\n'
        f'              " bytes, but {macro}_SRAM_LIMIT_BYTES is " {macro}_TEXT({macro}_SRAM_LIMIT_BYTES));\n#endif\n'
    )
