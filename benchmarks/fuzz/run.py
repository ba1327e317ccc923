"""A run over many numbers: worker processes, restarted when they die, and a file that keeps what is done."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from struct import unpack
from typing import Any

from benchmarks.fuzz.inputs import ROOT, inputs
from benchmarks.fuzz.tally import Tally

BLOCK = 500  # numbers that are judged, or judged again, as one
POLL_SECONDS = 0.5
WORKER_FAILED = "died with exit status 1"  # an exception of the worker itself
GRACE_SECONDS = 1.0  # for a process to end by itself, when its pipe is closed


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run. python: the interpreter of the workers. stall_seconds: of the clock, before one is killed."""

    judge: str
    first: int
    count: int
    seed: int
    jobs: int
    state: Path
    python: str = sys.executable
    stall_seconds: float = 60.0

    @property
    def log(self) -> Path:
        """The file that keeps what is done: the digest of the inputs, then a line for each block."""
        return self.state / f"{self.judge}-{self.seed}.jsonl"


def run(plan: Plan, tell: Callable[[Tally, float], None] = lambda total, seconds: None) -> Tally:
    """Run what is not done yet, and sum up everything. Raises ValueError where the state is that of other inputs.

    tell: called after each block with the sum so far and the seconds that an input takes.
    """
    plan.state.mkdir(parents=True, exist_ok=True)
    digest = inputs(plan.seed).digest
    done = _done(plan, digest)
    total = Tally()
    wanted = range(plan.first, plan.first + plan.count, BLOCK)
    for first in wanted:
        if first in done:
            total.add(done[first])
    blocks = iter([first for first in wanted if first not in done])
    lock, stop, began, before = threading.Lock(), threading.Event(), time.monotonic(), total.count

    def job() -> None:
        try:
            with _Worker(plan, stop) as worker:
                while not stop.is_set():
                    with lock:
                        first = next(blocks, None)
                    if first is None:
                        return
                    block = worker.block(first, min(BLOCK, plan.first + plan.count - first))
                    if block is not None:
                        with lock, plan.log.open("a", encoding="utf-8") as log:
                            log.write(json.dumps(block) + "\n")
                            total.add(block)
                            tell(total, (time.monotonic() - began) / (total.count - before))
        except BaseException:
            stop.set()  # the others end as well
            raise

    with ThreadPoolExecutor(plan.jobs) as pool:
        jobs = [pool.submit(job) for _ in range(plan.jobs)]
        try:
            for one in jobs:
                one.result()
        finally:  # also on Ctrl-C: blocks that are done stay done
            stop.set()
    return total


def _done(plan: Plan, digest: str) -> dict[int, dict[str, Any]]:
    """The blocks that an earlier run finished, by their first number. A last line that was cut off is taken out."""
    text = plan.log.read_text(encoding="utf-8") if plan.log.exists() else ""
    header, *lines = text.split("\n")[:-1] or [json.dumps({"digest": digest})]
    if json.loads(header)["digest"] != digest:
        raise ValueError(f"{plan.log} is of other inputs: the seeds or the mutators changed; remove it")
    plan.log.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
    return {block["first"]: block for block in map(json.loads, lines)}


class _Worker:
    """A worker process that is started again when it dies or hangs."""

    def __init__(self, plan: Plan, stop: threading.Event) -> None:
        self.plan, self.stop = plan, stop
        self.process: subprocess.Popen[str] | None = None
        descriptor, name = tempfile.mkstemp(prefix="fuzz-heartbeat-")
        os.write(descriptor, bytes(8))
        os.close(descriptor)
        self.heartbeat = Path(name)

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self.heartbeat.unlink()

    def block(self, first: int, count: int) -> dict[str, Any] | None:
        """The result of a block; None when the run was stopped. A number that kills the worker is a breach."""
        lost: list[dict[str, Any]] = []
        while not self.stop.is_set():
            skip = [breach["number"] for breach in lost]
            line, cause = self._answer({"first": first, "count": count, "skip": skip})
            if line:
                block: dict[str, Any] = json.loads(line)
                block["breaches"] += lost
                return block
            if cause:
                number = unpack("<q", self.heartbeat.read_bytes())[0]
                if cause == WORKER_FAILED or not first <= number < first + count or number in skip:
                    raise RuntimeError(f"a worker of {self.plan.judge} {cause} by no file's doing")
                lost.append({"number": number, "kind": cause.split()[0], "text": cause})
        return None

    def _answer(self, order: dict[str, Any]) -> tuple[str, str]:
        """The worker's line, or why there is none: it "died ..." or "hangs ..."; neither where the run is stopped."""
        process = self.process = self.process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return "", self._end()
        beat, since = b"", time.monotonic()
        while not self.stop.is_set():
            if select.select([process.stdout], [], [], POLL_SECONDS)[0]:
                line = process.stdout.readline()
                return line, "" if line else self._end()
            now = self.heartbeat.read_bytes()
            if now != beat:
                beat, since = now, time.monotonic()
            elif time.monotonic() - since > self.plan.stall_seconds:
                self._end()
                return "", f"hangs for more than {self.plan.stall_seconds:.0f} s"
        return "", ""

    def _start(self) -> subprocess.Popen[str]:
        paths = (str(ROOT / "toolchain"), str(ROOT))
        self.heartbeat.write_bytes(b"\xff" * 8)
        return subprocess.Popen(
            [
                self.plan.python,
                "-m",
                "benchmarks.fuzz.worker",
                self.plan.judge,
                str(self.heartbeat),
                str(self.plan.seed),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if self.plan.judge != "edgetool" else None,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "PYTHONHASHSEED": "0",
                "TF_CPP_MIN_LOG_LEVEL": "3",
            },
            start_new_session=True,  # Ctrl-C is ours
        )

    def _end(self) -> str:
        """End the process, if there is one; how it ended."""
        process, self.process = self.process, None
        if process is None:
            return ""
        if self.stop.is_set():
            process.kill()
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        code = process.returncode
        return f"died of signal {-code}" if code < 0 else f"died with exit status {code}"
