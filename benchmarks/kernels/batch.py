"""Batches of models for an emulated core, and what the core reports about them; runner.cc is the other side."""

from __future__ import annotations

import shlex
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FILLS = 3  # previous contents of the memory: zeros, ones, noise
STATUS = ("ok", "malformed", "refused", "failed", "too large", "inputs do not fit", "crashed")
CRASHED = STATUS.index("crashed")
# Flags of a run: memory outside the outputs changed. Bit 0: the inputs, which several operators may overwrite;
# bit 4 is only informative.
INPUTS_CHANGED, OUTSIDE = 0b1, 0b101110
MAX_SECONDS = 5.0  # without a new result


@dataclass(frozen=True, slots=True)
class Run:
    """One model in three fills of the memory. outputs: the bytes of all outputs, empty unless the status is "ok"."""

    status: str
    arena_bytes: int
    flags: tuple[int, ...]
    outputs: tuple[bytes, ...]

    @property
    def stable(self) -> bool:
        """Whether the outputs are the same whatever the memory contained before."""
        return len(set(self.outputs)) <= 1

    @property
    def wrote_outside(self) -> bool:
        """Whether memory outside the tensors changed: the model, or memory that nothing uses."""
        return self.status == "ok" and any(flags & OUTSIDE for flags in self.flags)

    @property
    def wrote_inputs(self) -> bool:
        """Whether the inputs changed."""
        return self.status == "ok" and any(flags & INPUTS_CHANGED for flags in self.flags)


def write_batch(path: Path, cases: Sequence[tuple[bytes, bytes]]) -> None:
    """Write pairs of a model and the bytes of its inputs."""
    with path.open("wb") as file:
        file.write(b"EKB1" + struct.pack("<I", len(cases)))
        for model, inputs in cases:
            file.write(struct.pack("<II", len(model), len(inputs)) + model + inputs)


def read_results(path: Path) -> dict[int, Run]:
    """Return the runs by the index of their case; a last record that is incomplete is ignored."""
    data, at = (path.read_bytes() if path.exists() else b""), 0
    runs: dict[int, Run] = {}
    while at + 16 <= len(data):
        index, status, arena_bytes, output_bytes = struct.unpack_from("<IIII", data, at)
        at += 16
        if at + FILLS * (4 + output_bytes) > len(data):
            break
        flags, outputs = [], []
        for _ in range(FILLS):
            flags.append(struct.unpack_from("<I", data, at)[0])
            outputs.append(data[at + 4 : at + 4 + output_bytes])
            at += 4 + output_bytes
        runs[index] = Run(STATUS[status], arena_bytes, tuple(flags), tuple(outputs) if status == 0 else ())
    return runs


def run_batch(command: str, batch: Path, count: int, result: Path) -> Iterator[Run]:
    """Run the emulator's command on a batch and yield one run per case.

    The command contains {batch}, {result} and {first}. If the program dies, it starts again behind the case at which it
    died, which counts as crashed.
    """
    result.unlink(missing_ok=True)
    first, crashed = 0, set()
    while first < count:
        _run_until_done(shlex.split(command.format(batch=batch, result=result, first=first)), result)
        done = max(read_results(result), default=-1)
        if done < count - 1:
            crashed.add(max(done, first - 1) + 1)
        first = max(done, first - 1) + 2 if done < count - 1 else count
    runs = read_results(result)
    for index in range(count):
        yield runs.get(index, Run("crashed", 0, (0,) * FILLS, ()))


def _run_until_done(command: Sequence[str], result: Path) -> None:
    """Run the command until it ends, or until it has stopped writing results."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    size, changed = -1, time.monotonic()
    while process.poll() is None:
        time.sleep(0.2)
        now = result.stat().st_size if result.exists() else 0
        if now != size:
            size, changed = now, time.monotonic()
        elif time.monotonic() - changed > MAX_SECONDS:
            process.kill()
    process.wait()
