"""Takes from this process, with Linux's Landlock, the right to write anywhere but in one folder."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from edgetool.child.seccomp import PR_SET_NO_NEW_PRIVS

# The same numbers on every architecture (linux/unistd.h) and bits of linux/landlock.h.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG = 1
RULE_PATH_BENEATH = 1
WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
# To remove and make entries, to move them between folders.
FOLDER = sum(1 << bit for bit in range(4, 14))
# Of what lies in the folder no device, socket or pipe may be made.
SPECIAL = 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11
# Abstract sockets and signals reach only what is confined as well.
SCOPES = 0b11
# Renaming from folder to folder came with the second version, refusing truncate(2) with the third, scopes with the
# sixth.
NEEDED, WITH_TRUNCATE, WITH_NETWORK, WITH_SCOPES = 2, 3, 4, 6
DEVICES = ("/dev/null",)


class _Ruleset(ctypes.Structure):
    """struct landlock_ruleset_attr."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def write_only_in(folder: Path) -> bool:
    """Let this process and all that it starts write in `folder` alone; False where the system cannot do that."""
    if sys.platform != "linux":
        return False
    version = _call(CREATE_RULESET, 0, 0, VERSION_FLAG)
    if version < NEEDED:
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
    """The system call's result, -1 when it fails or is not there."""
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    return int(call(ctypes.c_long(number), *(ctypes.c_ulong(argument) for argument in arguments)))
