"""A judge under which each of the first inputs ends in another way."""

from __future__ import annotations

import os
import signal
import time

from benchmarks.fuzz.inputs import Inputs

DIES, HANGS, RAISES, REFUSED, LARGE = 1, 2, 3, 4, 5
LARGE_BYTES = 100_000_000


def judge_number(_: str, __: Inputs, number: int) -> str:
    if number == DIES:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == HANGS:
        time.sleep(60)
    if number == RAISES:
        raise ZeroDivisionError("as it happens")
    if number == LARGE:
        assert len(b"x" * int(str(LARGE_BYTES))) == LARGE_BYTES  # every page touched, and at run time
    return "refused" if number == REFUSED else ""
