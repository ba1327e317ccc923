"""What stops compiling when the memory is too small, in C and C++ of every version."""

from __future__ import annotations

from edgetool.firmware.c_names import comment_text
from edgetool.firmware.c_text import comment, defines
from edgetool.firmware.spec import TargetSpec


def target_memory(macro: str, target: TargetSpec, in_sram: str, in_flash: str) -> str:
    """The sizes of the target's memories; in_sram and in_flash name what they hold ("arena", "model")."""
    if target.sram_bytes is None and target.flash_bytes is None:
        return comment(["Memory of the target: not known. Define the limits below to have it checked."])
    region = comment_text(target.region) if target.region is not None else "SRAM"
    text = comment([f"Memory of the target: {region} holds the {in_sram}, flash the {in_flash}."])
    known = (("SRAM", target.sram_bytes), ("FLASH", target.flash_bytes))
    return text + defines(*((f"{macro}_TARGET_{kind}_BYTES", size) for kind, size in known if size is not None))


def assertions(name: str, macro: str, target: TargetSpec, in_sram: tuple[str, str], in_flash: tuple[str, str]) -> str:
    """Limits from the target, or from the user, and the assertions on them.

    in_sram, in_flash: what the memory holds ("arena"), and the last words of the macro that has the size of that
    ("ARENA_BYTES").
    """
    text = comment(
        [
            "Does it fit: this stops compiling when it does not.",
            "To set limits of your own, define before this header is included:",
            f"  {macro}_SRAM_LIMIT_BYTES   what you can spare for the {in_sram[0]}",
            f"  {macro}_FLASH_LIMIT_BYTES  what you can spare for the {in_flash[0]}",
        ]
    )
    for memory, known, (what, size) in (
        ("SRAM", target.sram_bytes, in_sram),
        ("FLASH", target.flash_bytes, in_flash),
    ):
        limit = f"{macro}_{memory}_LIMIT_BYTES"
        if known is not None:
            text += f"#ifndef {limit}\n#define {limit} {macro}_TARGET_{memory}_BYTES\n#endif\n"
        check = f"typedef char {name}_{what}_exceeds_{memory}_LIMIT_BYTES[({limit}) >= {macro}_{size} ? 1 : -1];\n"
        text += check if known is not None else f"#ifdef {limit}\n{check}#endif\n"
    return text
