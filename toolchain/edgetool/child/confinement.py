"""The confinement of a child process: resource limits, no network, and no file outside its folder.

With Linux's seccomp, system calls for sockets and for access to other processes fail. With Linux's Landlock, the
process can write in one folder only. Both are permanent, and apply to everything that the process starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2  # linux/prctl.h, linux/seccomp.h
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EACCES
# Classic BPF, linux/bpf_common.h: load a word of the call's data, jump if equal, jump if at least, return.
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER, ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
X32 = 0x40000000  # bit that marks calls of the x32 ABI
# io_uring opens sockets without that call; older versions of Landlock do not cover truncate.
REFUSED_CALLS = "socket truncate ptrace process_vm_readv process_vm_writev io_uring_setup pidfd_getfd".split()


@dataclass(frozen=True, slots=True)
class Machine:
    """An architecture as the kernel names it (linux/audit.h), and its numbers for REFUSED_CALLS."""

    architecture: int
    numbers: tuple[int, ...]


GENERIC = (198, 45, 117, 270, 271, 425, 438)  # asm-generic/unistd.h
MACHINES = {
    "x86_64": Machine(0xC000003E, (41, 76, 101, 310, 311, 425, 438)),
    "aarch64": Machine(0xC00000B7, GENERIC),
    "riscv64": Machine(0xC00000F3, GENERIC),
}


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse_calls() -> bool:
    """Make REFUSED_CALLS fail with EACCES in this process and its descendants. Return False if the system cannot."""
    machine = MACHINES.get(platform.machine())
    if platform.system() != "Linux" or machine is None or struct.calcsize("P") != 8:
        return False
    code = _filter(machine)
    program = _Program(len(code) // 8, code)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(program), 0, 0) == 0)


def _filter(machine: Machine) -> bytes:
    """Return a struct sock_filter per instruction: code, instructions to skip if true and if false, operand."""
    steps = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, machine.architecture),
        (RETURN, 0, 0, KILL),  # calls by another architecture's numbers
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, X32),
        (RETURN, 0, 0, REFUSE),
    ]
    for number in machine.numbers:
        steps += [(EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE)]
    steps.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


# The same numbers on every architecture (linux/unistd.h) and bits of linux/landlock.h.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG = 1
RULE_PATH_BENEATH = 1
WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
# Rights to remove, create and move entries.
FOLDER = sum(1 << bit for bit in range(4, 14))
# No device, socket or pipe may be created in the folder.
SPECIAL = 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11
# Abstract sockets and signals reach only processes that are confined as well.
SCOPES = 0b11
# Renaming from folder to folder came with the second version, refusing truncate(2) with the third, scopes with the
# sixth.
MIN_LANDLOCK, WITH_TRUNCATE, WITH_NETWORK, WITH_SCOPES = 2, 3, 4, 6
DEVICES = ("/dev/null",)


class _Ruleset(ctypes.Structure):
    """struct landlock_ruleset_attr."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def write_only_in(folder: Path) -> bool:
    """Restrict writing by this process and its descendants to `folder`. Return False if the system cannot."""
    if sys.platform != "linux":
        return False
    version = _call(CREATE_RULESET, 0, 0, VERSION_FLAG)
    if version < MIN_LANDLOCK:
        return False
    handled = WRITE_FILE | FOLDER | (TRUNCATE if version >= WITH_TRUNCATE else 0)
    attributes = _Ruleset(handled, 0, SCOPES)
    size = 24 if version >= WITH_SCOPES else 16 if version >= WITH_NETWORK else 8
    rules = _call(CREATE_RULESET, ctypes.addressof(attributes), size, 0)
    if rules < 0:
        return False
    try:
        allowed = [(str(folder), handled & ~SPECIAL)]
        allowed += [(device, handled & (WRITE_FILE | TRUNCATE)) for device in DEVICES]
        return all(_allow(rules, *rule) for rule in allowed) and _restrict(rules)
    finally:
        os.close(rules)


def _allow(rules: int, path: str, access: int) -> bool:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(access, opened)
        return _call(ADD_RULE, rules, RULE_PATH_BENEATH, ctypes.addressof(rule), 0) == 0
    finally:
        os.close(opened)


def _restrict(rules: int) -> bool:
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return _call(RESTRICT_SELF, rules, 0) == 0


def _call(number: int, *arguments: int) -> int:
    """Return the result of a system call, -1 if it fails or does not exist."""
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    return int(call(ctypes.c_long(number), *(ctypes.c_ulong(argument) for argument in arguments)))


# What is denied, by its name in messages, and the function that denies it.
RESTRICTIONS: tuple[tuple[str, Callable[[Path], bool]], ...] = (
    ("the network", lambda folder: refuse_calls()),
    ("files outside its folder", write_only_in),
)
# The kernel kills the process at the hard limit, which is slightly higher, so that the signal at the soft limit
# identifies the cause.
KILL_DELAY_SECONDS = 1


def limit(memory_bytes: int | None, cpu_seconds: int, file_bytes: int) -> None:
    """Limit the data segment (including private mappings), the CPU time and the size of each file; dump no core.

    A lower limit that the process was started with remains; no limit can be raised again.
    """
    if os.name != "posix":
        return
    import resource

    limits = {
        resource.RLIMIT_DATA: memory_bytes,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_CORE: 0,
    }
    for kind, size in limits.items():
        if size is None:
            continue
        with contextlib.suppress(ValueError, OSError):  # the system may not support a limit
            soft, hard = resource.getrlimit(kind)
            current = [value for value in (soft, hard) if value != resource.RLIM_INFINITY]
            new_soft = min([size, *current])
            new_hard = new_soft + KILL_DELAY_SECONDS if kind == resource.RLIMIT_CPU else new_soft
            resource.setrlimit(kind, (new_soft, new_hard if hard == resource.RLIM_INFINITY else min(new_hard, hard)))


def confine(folder: Path) -> tuple[str, ...]:
    """Apply RESTRICTIONS to this process permanently. Return the names of those that the system does not support.

    Call it before a second thread starts, which would not be restricted.
    """
    return tuple(name for name, deny in RESTRICTIONS if not deny(folder))


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends for any reason; Linux only."""
    if sys.platform != "linux":
        return
    import ctypes

    pr_set_pdeathsig = 1  # linux/prctl.h
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the request took effect
        os._exit(1)
