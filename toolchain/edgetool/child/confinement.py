"""What a child may use and reach: limits of the system, no network, no file outside its folder."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from edgetool.child.landlock import write_only_in
from edgetool.child.seccomp import refuse_calls

# What is denied, how, and what is to be told where the system cannot.
DENIED: tuple[tuple[str, Callable[[Path], bool]], ...] = (
    ("the network", lambda folder: refuse_calls()),
    ("files outside its folder", write_only_in),
)
# At the hard limit the system kills: a little later, for the signal at the soft one to tell why.
MORE_SECONDS = 1


def limit(memory_bytes: int | None, cpu_seconds: int, file_bytes: int) -> None:
    """Bound the data segment with private mappings, the time of the processors and each file; no core is dumped.

    A lower limit that this process was started with stays; none can be raised again.
    """
    if os.name != "posix":
        return
    import resource

    wanted = {
        resource.RLIMIT_DATA: memory_bytes,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_CORE: 0,
    }
    for kind, size in wanted.items():
        if size is None:
            continue
        with contextlib.suppress(ValueError, OSError):  # a system that has it otherwise keeps its own limit
            soft, hard = resource.getrlimit(kind)
            set_already = [given for given in (soft, hard) if given != resource.RLIM_INFINITY]
            wanted_soft = min([size, *set_already])
            most = wanted_soft + MORE_SECONDS if kind == resource.RLIMIT_CPU else wanted_soft
            resource.setrlimit(kind, (wanted_soft, most if hard == resource.RLIM_INFINITY else min(most, hard)))


def confine(folder: Path) -> tuple[str, ...]:
    """Take from this process all that DENIED names, for good; what the system cannot take is returned.

    To be called before there is a second thread, which would keep it.
    """
    return tuple(name for name, deny in DENIED if not deny(folder))


def die_with_parent(parent: int) -> None:
    """On Linux ask the kernel to kill this process when its parent goes, however it goes."""
    if sys.platform != "linux":
        return
    import ctypes

    pr_set_pdeathsig = 1  # linux/prctl.h
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:  # it went before the request took effect
        os._exit(1)
