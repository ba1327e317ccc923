"""The memory of the operators' code, which --place sets for native code and for TFLM."""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.codegen.spec import PlacedCode
from edgetool.finding import Finding
from edgetool.target.places import FLASH_KINDS
from edgetool.target.types import MemoryRegion


def code_part(region: MemoryRegion) -> str:
    """Return the part of PlacedInfo: code in RAM is a copy."""
    return "code" if region.kind in FLASH_KINDS else "code copy"


def placed_code(region: MemoryRegion | None, files: Sequence[str]) -> PlacedCode | None:
    """Return where the firmware has the code of these files; None if it is not placed."""
    if region is None:
        return None
    is_copied = region.kind not in FLASH_KINDS
    return PlacedCode(region.name, region.size_bytes, region.base_address, tuple(files), is_copied)


def code_finding(region: MemoryRegion, size_bytes: int | None, core: str, where: str | None) -> Finding:
    """State what the code takes, and that no time is claimed for it: profiles do not state how fast code is fetched."""
    takes = f"takes about {size_bytes:,} bytes of" if size_bytes is not None else "is not counted in"
    why = "" if size_bytes is not None else f", because its size is unknown for {core}"
    text = f"the code of the operators {takes} {region.name}{why}; the estimate does not depend on where code is"
    return Finding("code-placed", text, where=where)
