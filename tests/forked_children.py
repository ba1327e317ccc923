"""Children of edgetool.child that are forked from a server, which has imported the libraries that they need.

A runtime's import takes half a second of CPU time. A forked child has its own environment, confinement and limits; it
differs from one that is started in the seed of its hashes, and in its parent.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

import pytest

from edgetool.child import process, serving
from edgetool.child.confinement import die_with_parent

ROOT = Path(__file__).resolve().parents[1]
# By the module that runs in a child: what its server imports. Any other module gets a process of its own.
PRELOADED = {
    "edgetool.execute.worker": ("edgetool.execute.run", "tflite_micro", "ai_edge_litert.interpreter"),
}
MAX_REQUEST_BYTES = 2**17


@contextlib.contextmanager
def forked() -> Iterator[None]:
    """Fork the children of this process until the block ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "start", _fork_or_start)
        yield


@dataclass(slots=True)
class ForkedChild:
    """What edgetool.child.process uses of a subprocess.Popen."""

    pid: int
    stdout: IO[bytes]
    keeper: socket.socket
    returncode: int | None = field(default=None, init=False)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, as Popen.wait does."""
        if self.returncode is None:
            self.keeper.settimeout(timeout)
            try:
                self.returncode = int(self.keeper.recv(MAX_REQUEST_BYTES))
            except TimeoutError:
                raise subprocess.TimeoutExpired("a forked child", timeout or 0.0) from None
            self.keeper.close()
        return self.returncode

    def kill(self) -> None:
        """Kill the child; its keeper has not reaped it yet."""
        os.kill(self.pid, signal.SIGKILL)


_start = process.start


def _fork_or_start(module: str, workdir: Path, *, trusted: bool, own_group: bool) -> Any:
    """What edgetool.child.process.start does; packages from other places than the server's need a process."""
    libraries = PRELOADED.get(module)
    if libraries is None or not own_group or os.environ.get("PYTHONPATH", "") != PACKAGES:
        return _start(module, workdir, trusted=trusted, own_group=own_group)
    request = {
        "module": module,
        "workdir": str(workdir),
        "environment": process.environment(os.environ, workdir, trusted=trusted),
        "cwd": str(Path.cwd()),
    }
    reading, writing = os.pipe()
    keeper, link = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with link:
        socket.send_fds(_server(libraries), [json.dumps(request).encode()], [writing, link.fileno()])
    os.close(writing)
    return ForkedChild(int(keeper.recv(MAX_REQUEST_BYTES)), os.fdopen(reading, "rb"), keeper)


PACKAGES = os.environ.get("PYTHONPATH", "")


@cache
def _server(libraries: tuple[str, ...]) -> socket.socket:
    """Start a server, which ends when this process does, and return the socket for its requests."""
    ours, its = socket.socketpair(type=socket.SOCK_SEQPACKET)
    # What the libraries store in the user's home as they are imported.
    home = tempfile.TemporaryDirectory()
    atexit.register(home.cleanup)
    with its:
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(its.fileno()), *libraries],
            cwd=ROOT,
            env=process.environment(os.environ, Path(home.name), trusted=False),
            stdin=subprocess.DEVNULL,
            pass_fds=[its.fileno()],
        )
    return ours


def serve(requests: socket.socket, libraries: list[str]) -> None:
    """Import the libraries, and fork a child for each request until there are no more."""
    for name in libraries:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
    server = os.getpid()
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 2)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _keep(server, json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(server: int, request: dict[str, Any], output: int, link: int) -> NoReturn:
    """Fork the child, report its process id and its exit status, and reap it when nobody can kill it any more."""
    die_with_parent(server)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    keeper = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(link)
        _become_child(keeper, output=output, **request)
    os.setpgid(child, child)
    os.close(output)
    parent = socket.socket(fileno=link)
    parent.send(str(child).encode())
    ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    with contextlib.suppress(OSError):  # the parent has ended
        parent.send(str(status).encode())
        parent.recv(1)
    os._exit(0)


def _become_child(
    keeper: int, *, module: str, workdir: str, environment: dict[str, str], cwd: str, output: int
) -> NoReturn:
    """What edgetool.child.__main__ does in a process that has just been started."""
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for target, source in ((0, nowhere), (1, output), (2, nowhere)):
            os.dup2(source, target)
        os.closerange(3, max(nowhere, output) + 1)
        del sys.path[0]  # this file's place, which a child does not search
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None
        serving.die_with_parent = lambda parent: die_with_parent(keeper)
        serving.prepare(Path(workdir))
        sys.argv[:] = [module, workdir]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
