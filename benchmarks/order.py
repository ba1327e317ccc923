"""Measure what the best order of operators saves, in live bytes and in the arena, and how long the search takes.

    python -m benchmarks.order [NAME or FILE.tflite...] [--work DIR] [--quick] [--verify SAMPLES]

Without a name, the networks of BRANCHED are measured, or with --quick those that take at most a minute.
Networks that are not in DIR yet are built and converted there, which takes minutes (extra `convert`). --verify writes
each reordered file with `edgetool plan` and runs it with `edgetool verify` against the converted one (extra `verify`).

Live bytes are those of the tensors in the arena, sizes rounded up to 16, both ends of a lifetime included. "greedy"
chooses the operator that leaves the fewest bytes live; edgetool's search ends after --seconds. Seconds are CPU time,
the median of --rounds. The peer is the exact dynamic program of tflite-tools, if `tflite_tools` is on PYTHONPATH; it is
stopped after --peer-seconds, and does not round sizes up.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.networks import NETWORKS
from benchmarks.networks.files import network_file

from edgetool.memory.lifetimes import layout_problem, timeline
from edgetool.memory.order.evaluate import OrderResult, check_order, peak
from edgetool.memory.order.network import network_of
from edgetool.memory.order.solve import greedy, solve_order
from edgetool.memory.planner import PlanRequest, order_problem, plan_memory
from edgetool.memory.problem import Effort
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of

# Networks of benchmarks/networks whose operators can run in many orders, and a chain.
BRANCHED = (
    "mobilenet_025_128",
    "randwire_cifar",
    "randwire_deep",
    "randwire_wide",
    "darts_cifar",
    "darts_imagenet",
    "randwire_imagenet",
    "inception_192",
    "xception_299",
    "densenet121_224",
    "nasnet_mobile_224",
)
QUICK = ("mobilenet_025_128", "randwire_cifar", "darts_cifar")
TARGET = "cortex-m7"
LIVE = (
    "network",
    "operators",
    "converter",
    "breadth-first",
    "longest-path",
    "greedy",
    "edgetool",
    "bound",
    "proof",
    "CPU seconds",
    "tflite-tools",
)
ARENA = ("network", "TFLM's planner", "best layout", "best order and layout", "CPU seconds", "verified")
# The peer stores every set of tensors that it has visited, and recurses once per operator.
PEER = """
import sys
sys.setrecursionlimit(100_000)
from tflite_tools.tflite_model import TFLiteModel
print(TFLiteModel.load_from_file(sys.argv[1]).compute_best_peak_memory_usage()[0])
"""


@dataclass(frozen=True, slots=True)
class LiveBytes:
    """The maximum live bytes in each order of a model, and the CPU seconds of the search."""

    converter: int
    breadth_first: int
    longest_path: int
    greedy: int
    ours: OrderResult
    seconds: float


@dataclass(frozen=True, slots=True)
class ArenaBytes:
    """arena.bytes of the unchanged file, with edgetool's layout, and with its order as well; CPU seconds of the last
    plan."""

    stock: int
    layout: int
    order: int
    seconds: float


def live_bytes(model: Model, rounds: int, limit_seconds: float) -> LiveBytes:
    """Return the live bytes of every order, checked and measured by code that the search does not use."""
    times = timeline(model)
    problem = order_problem(model, layout_problem(model, times), times.operators)
    others = [solve_order(problem, Effort(), strategy=name).order for name in ("breadth-first", "longest-path")]
    network = network_of(problem)
    others.append(tuple(network.operators[index] for index in greedy(network)))
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        ours = solve_order(problem, _for_seconds(limit_seconds))
        taken.append(time.process_time() - started)
    for order in (*others, ours.order):
        check_order(problem, order)
    assert ours.peak_bytes == peak(problem, ours.order)
    converter = peak(problem, range(len(problem.reads)))
    return LiveBytes(converter, *(peak(problem, order) for order in others), ours, statistics.median(taken))


def _for_seconds(limit: float) -> Effort:
    """Return an effort with a limit on the CPU time, as with --time-limit."""
    end = time.process_time() + limit
    return Effort(node_limit=None, stop=lambda: time.process_time() > end)


def arena_bytes(model: Model) -> ArenaBytes:
    platform = platform_of(load_target(TARGET))
    layout = plan_memory(model, platform, request=PlanRequest(file_plan="replace", order="original"))
    started = time.process_time()
    order = plan_memory(model, platform, request=PlanRequest(file_plan="replace", order="optimal"))
    taken = time.process_time() - started
    assert order.stock is not None
    assert order.account is not None
    assert layout.account is not None
    return ArenaBytes(order.stock.bytes, layout.account.bytes, order.account.bytes, taken)


def peer(path: Path, limit_seconds: float) -> str:
    """Return the result of tflite-tools, and its wall time in seconds."""
    if importlib.util.find_spec("tflite_tools") is None:
        return "not installed"
    started = time.perf_counter()
    command = [sys.executable, "-c", PEER, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        return f"> {limit_seconds:.0f} s"
    if done.returncode:
        return f"fails: {(done.stderr.strip().splitlines() or ['?'])[-1][:60]}"
    return f"{int(done.stdout):,} in {time.perf_counter() - started:.1f} s"


def verified(path: Path, samples: int) -> str:
    """Return whether the reordered file gives the same outputs in the reported arena, and the time of the commands."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / path.name)
        commands = (
            ("plan", str(path), "--target", TARGET, "--order", "optimal", "--replan", "-o", out),
            ("verify", out, "--original", str(path), "--samples", str(samples)),
        )
        for command in commands:
            done = subprocess.run(
                [sys.executable, "-m", "edgetool", *command], capture_output=True, text=True, check=False
            )
            if done.returncode:
                print(done.stderr, file=sys.stderr)
                return f"no: {command[0]} ends with {done.returncode}"
    return f"yes, in {time.perf_counter() - started:.0f} s"


@dataclass(frozen=True, slots=True)
class Row:
    """All measurements of one model."""

    name: str
    operators: int
    live: LiveBytes
    arena: ArenaBytes
    peer: str
    verified: str

    @property
    def succeeded(self) -> bool:
        """Whether the order is within 1 % of the lower bound, and the verification succeeded."""
        ours = self.live.ours
        return ours.peak_bytes <= 1.01 * ours.lower_bound and not self.verified.startswith("no:")

    def live_cells(self) -> tuple[str, ...]:
        live, ours = self.live, self.live.ours
        sizes = (live.converter, live.breadth_first, live.longest_path, live.greedy, ours.peak_bytes, ours.lower_bound)
        numbers = tuple(f"{size:,}" for size in sizes)
        return (self.name, str(self.operators), *numbers, ours.proof, f"{live.seconds:.2f}", self.peer)

    def arena_cells(self) -> tuple[str, ...]:
        sizes = (self.arena.stock, self.arena.layout, self.arena.order)
        return (self.name, *(f"{size:,}" for size in sizes), f"{self.arena.seconds:.2f}", self.verified)


def measure(path: Path, arguments: argparse.Namespace) -> Row:
    model = read_model(path.read_bytes(), name=path.name)
    return Row(
        name=path.stem,
        operators=len(model.main.operators),
        live=live_bytes(model, arguments.rounds, arguments.seconds),
        arena=arena_bytes(model),
        peer=peer(path, arguments.peer_seconds),
        verified=verified(path, arguments.verify) if arguments.verify else "not asked",
    )


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Return a markdown table with numbers aligned to the right."""
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'---:|' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="NAME or FILE.tflite")
    parser.add_argument("--work", type=Path, help="folder of the converted networks; a temporary one if not given")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10, help="of CPU time for each search")
    parser.add_argument("--verify", type=int, default=0, metavar="SAMPLES")
    parser.add_argument("--peer-seconds", type=float, default=150)
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.models or (QUICK if arguments.quick else BRANCHED):
            path = network_file(name, arguments.work or Path(temporary)) if name in NETWORKS else Path(name)
            print(path.stem, file=sys.stderr, flush=True)
            rows.append(measure(path, arguments))
    print("\n".join(table(LIVE, [row.live_cells() for row in rows])), end="\n\n")
    print("\n".join(table(ARENA, [row.arena_cells() for row in rows])))
    return int(not all(row.succeeded for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
