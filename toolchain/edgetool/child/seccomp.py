"""Takes system calls from this process for good, with Linux's seccomp: sockets, and reaching into other processes."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from dataclasses import dataclass

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2  # linux/prctl.h, linux/seccomp.h
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EACCES
# Classic BPF, linux/bpf_common.h: load a word of what is asked, jump if equal, jump if at least, return.
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER, ARCHITECTURE = 0, 4  # where they lie in struct seccomp_data
X32 = 0x40000000  # x86-64's second table of calls
# io_uring opens sockets without the call; truncate is what Landlock learnt last to refuse.
CALLS = "socket truncate ptrace process_vm_readv process_vm_writev io_uring_setup pidfd_getfd".split()


@dataclass(frozen=True, slots=True)
class Machine:
    """An architecture as the kernel names it (linux/audit.h), and its numbers for CALLS."""

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
    """Let CALLS fail with EACCES in this process and all that it starts; False where the system cannot do that."""
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
    """struct sock_filter of each instruction: code, how many to skip if true and if false, operand."""
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
