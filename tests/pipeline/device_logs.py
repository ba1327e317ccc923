"""Logs as profile firmware prints them, with the figures that a test wants."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Sequence
from typing import Any

SHA256 = "ab" * 32
# Name, depth, mean and least ticks of each operator.
EVENTS = (("CONV_2D", 0, 7000, 6900), ("WHILE", 0, 2500, 2500), ("ADD", 1, 2000, 1990), ("SOFTMAX", 0, 400, 400))


def numbered(lines: Sequence[str]) -> list[str]:
    """The lines with their mark, number and CRC."""
    marked = [f"edgetool-profile {number} {line}" for number, line in enumerate(lines)]
    return [f"{line} *{crc_hqx(line.encode('ascii'), 0xFFFF):04x}" for line in marked]


def profile_lines(
    *,
    model: str = "kws",
    sha256: str = SHA256,
    core: str = "cortex-m4",
    kernels: str = "cmsis-nn",
    runtime: str = "tflm-2026-08",
    source: str = "dwt",
    hz: int = 120_000_000,
    clock_hz: int | None = None,
    events: Sequence[tuple[str, int, int, int]] = EVENTS,
    total: tuple[int, int, int] | None = None,
    used: int = 5000,
    **others: Any,
) -> list[str]:
    """The lines of a profile. others: dropped, varies, overflows, shared, declared, kept, lines, runs, version."""
    spent = sum(mean for _, depth, mean, _ in events if depth == 0)
    mean, least, most = total or (spent + 100, spent, spent + 200)
    kept, declared = others.get("kept", len(events)), others.get("declared", 5008)
    flags = " ".join(f"{key}={others.get(key, 0)}" for key in ("dropped", "varies", "overflows"))
    texts = [
        f"begin version={others.get('version', 1)} model={model} tool=0.1.0",
        f"model sha256={sha256}",
        f"build core={core} kernels={kernels} runtime={runtime}",
        f"time source={source} ticks_hz={hz} clock_hz={hz if clock_hz is None else clock_hz} "
        f"runs={others.get('runs', 10)}",
        *(
            f"event index={index} depth={depth} mean={ticks} min={fastest} name={name}"
            for index, (name, depth, ticks, fastest) in enumerate(events)
        ),
        f"total mean={mean} min={least} max={most}",
        f"events kept={kept} {flags}",
        f"arena used={used} declared={declared} shared={others.get('shared', 0)}",
        f"end lines={others.get('lines', len(events) + 8)}",
    ]
    return numbered(texts)


def log_of(*profiles: Sequence[str], end: str = "\r\n") -> bytes:
    """The bytes of a log of these profiles."""
    return "".join(f"{line}{end}" for lines in profiles for line in lines).encode("latin-1")
