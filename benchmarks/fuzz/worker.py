"""The process that works: takes blocks of numbers on its input, answers each with a line of JSON.

    python -m benchmarks.fuzz.worker JUDGE HEARTBEAT_FILE SEED

Whoever started it reads in the heartbeat file which number it is at, and kills it where it hangs.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from struct import pack_into
from types import FrameType
from typing import Any

from benchmarks.fuzz.inputs import Inputs, inputs
from benchmarks.fuzz.tally import Tally

# By name the modules, others by their own name, whose `judge_number(name, inputs, number)` gives "" or why a file was
# refused. Each imports what the others' environments lack.
JUDGES = {
    "edgetool": "benchmarks.fuzz.judge",
    "litert": "benchmarks.fuzz.peer_litert",
    "litert-reference": "benchmarks.fuzz.peer_litert",
    "vela": "benchmarks.fuzz.peer_vela",
}
SLOW_SECONDS = 1.0  # of CPU time: more is a hang
ALARM_SECONDS = 5.0  # of CPU time, after which Python code is stopped where it is
MAX_BYTES = 4 << 30  # of data beyond the baseline, before allocation fails
SHOWN_LINES = 4


class AlarmError(Exception):
    """The time for one file is over."""


@dataclass(kw_only=True)
class Block(Tally):
    """What the numbers from `first` on gave."""

    first: int


def run_block(
    judge: Callable[[int], str], first: int, count: int, skip: set[int], beat: Callable[[int], None], baseline: int
) -> Block:
    """Judge the numbers of a block but for those to skip; `beat` is told each before it is taken.

    baseline: the resident bytes that no file is to be blamed for.
    """
    block = Block(first=first, count=count)
    for number in range(first, first + count):
        if number in skip:
            continue
        beat(number)
        began = time.process_time()
        try:
            with _alarm(ALARM_SECONDS):
                reason = judge(number)
        except Exception as error:  # whatever comes is what is looked for
            block.breaches.append({"number": number, "kind": type(error).__name__, "text": _told(error)})
        else:
            block.accepted += not reason
            block.refused.update([reason] if reason else [])
        seconds = time.process_time() - began
        if seconds > SLOW_SECONDS and (not block.breaches or block.breaches[-1]["number"] != number):
            seconds = min(seconds, _seconds_again(judge, number))
            if seconds > SLOW_SECONDS:
                block.breaches.append({"number": number, "kind": "slow", "text": f"{seconds:.1f} s"})
        block.slowest = max(block.slowest, (seconds, number))
        extra_bytes = peak_bytes() - baseline
        if extra_bytes > block.largest[0]:  # a peak stays: the first that reached it is to blame
            block.largest = (extra_bytes, number)
        block.seconds += seconds
    return block


def _seconds_again(judge: Callable[[int], str], number: int) -> float:
    """The CPU time of another go: what else a machine does can double that of one."""
    began = time.process_time()
    with suppress(AlarmError), _alarm(ALARM_SECONDS):
        judge(number)
    return time.process_time() - began


@contextmanager
def _alarm(seconds: float) -> Any:
    def ring(_: int, __: FrameType | None) -> None:
        raise AlarmError(f"more than {seconds} s of CPU time")

    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def peak_bytes() -> int:
    """The most resident memory since the peak was reset; getrusage would count the parent's before exec as well."""
    status = Path("/proc/self/status").read_bytes()
    return int(status.partition(b"VmHWM:")[2].split(None, 1)[0]) * 1024


def reset_peak() -> int:
    """Begin to measure the peak of resident memory anew (Linux); what it is now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_bytes()


def _told(error: Exception) -> str:
    """What happened and where, innermost last."""
    frames = traceback.extract_tb(error.__traceback__)[-SHOWN_LINES:]
    places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
    return f"{str(error)[:300]} [{places}]"


def main() -> None:
    """Serve blocks until the input ends."""
    name, heartbeat, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries print
    source = inputs(seed)
    judge_number: Callable[[str, Inputs, int], str] = import_module(JUDGES.get(name, name)).judge_number
    with heartbeat.open("r+b") as file, mmap.mmap(file.fileno(), 8) as shared:
        # What all inputs share, and what the first makes a process load, is no file's doing.
        for sound in source.seeds:
            sound.warm()
        judge_number(name, source, 0)
        gc.collect()
        gc.freeze()
        baseline = reset_peak()
        _limit_memory(baseline)
        for line in sys.stdin:
            order = json.loads(line)
            baseline = min(baseline, reset_peak())
            block = run_block(
                lambda number: judge_number(name, source, number),
                order["first"],
                order["count"],
                set(order["skip"]),
                lambda number: pack_into("<q", shared, 0, number),
                baseline,
            )
            channel.write(json.dumps(vars(block)) + "\n")
            channel.flush()


def _limit_memory(baseline: int) -> None:
    limit = baseline + MAX_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    main()
