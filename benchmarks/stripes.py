"""Arenas of models in stripes, each run on real TFLM and compared with the original bit by bit.

    python -m benchmarks.stripes [FILE... --max-extra-macs PERCENT] [--core cortex-m7] [--kernels reference]
    python -m benchmarks.stripes --architectures [--heads] [--max-extra-macs PERCENT] [--samples 0]

Without files, it takes the models of MODELS, each with its own budget: those in the folder --data that are there, and
networks that benchmarks/networks builds and keeps in --work. For each model, it prints the arena with TFLM's own
planner, with order, layout and overlap, and with stripes, on the core and in bytes; the heads without and with; the
extra multiply-accumulates; the regions; and the processor time of the search for stripes. The planned file runs on the
`tflite-micro` package of this machine, which has the reference kernels: plans for other kernels keep their distances,
too. --samples 0 omits this.

--architectures takes the twenty public architectures of ARCHITECTURES, with random weights, and one budget for all.
With --heads, the heads are made small instead of the arenas, as for tails in another memory, which may take as much as
the arena with TFLM's own planner. The last line has the geometric means by which heads and arenas are smaller than with
TFLM's own planner, and by which the fewest live bytes of any regions within the limit are smaller than its heads.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from benchmarks.networks.files import network_file

from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import run_model
from edgetool.memory.account import ArenaAccount
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.memory.problem import Effort
from edgetool.memory.striping import StripePlanner
from edgetool.model.edit import in_order, renumbered, with_metadata, without_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.operators.registry import operator_costs
from edgetool.passes.ends import trim_ends
from edgetool.passes.stripes import Region
from edgetool.target.load import load_target
from edgetool.target.platform import Platform, platform_of

SAMPLES = 4
PLAN_NODES = 100_000  # search nodes for the plan without stripes
# The extra multiply-accumulates of each model at most, in percent.
MODELS = {
    "tinyengine/tinyengine_vww.tflite": 1.0,
    "mlperf/vww_96_int8.tflite": 2.0,
    "tflm/person_detect.tflite": 4.0,
    "mlperf/pretrainedResnet_quant.tflite": 8.0,
    "mlperf/kws_ref_model.tflite": 0.0,
    "mobilenet_025_128": 1.0,
    "mobilenet_v2_035_96": 5.0,
    "mobilenet_v2_100_224": 9.0,
}


# Networks for images and sounds as published, in their usual sizes for small devices.
ARCHITECTURES = (
    "resnet8_32",
    "ds_cnn_49",
    "mobilenet_025_128",
    "person_detect_96",
    "mcunet_vww_80",
    "squeezenet_224",
    "unet_128",
    "resnet56_32",
    "shufflenet_v2_224",
    "mobilenet_v3_small_224",
    "mobilenet_100_224",
    "mobilenet_v2_035_96",
    "mobilenet_v2_100_224",
    "efficientnet_lite0_224",
    "tiny_yolo_224",
    "resnet18_224",
    "inception_192",
    "xception_299",
    "densenet121_224",
    "nasnet_mobile_224",
)
HEADER = (
    f"{'model':<32} {'limit':>6} {'TFLM':>10} {'overlap':>10} {'stripes':>10} {'head':>10} {'least':>10} "
    f"{'of':>10} {'ratio':>6} {'extra':>7}  output regions"
)


@dataclass(frozen=True, slots=True)
class Row:
    """A model with its accounts: with TFLM's own planner, with overlap, and with stripes, those with overlap if none
    are better. least_bytes: the fewest live bytes of any regions within the limit. is_equal: whether the outputs are
    those of the model; None if it did not run.
    """

    name: str
    max_extra_macs_percent: float
    stock: ArenaAccount
    overlapping: ArenaAccount
    striped: ArenaAccount
    least_bytes: int
    extra_macs_percent: float
    regions: tuple[Region, ...]
    is_equal: bool | None
    seconds: float

    @property
    def head_ratio(self) -> float:
        """How many times the head of TFLM's own planner is larger."""
        return self.stock.head_bytes / self.striped.head_bytes

    @property
    def arena_ratio(self) -> float:
        """How many times the arena of TFLM's own planner is larger."""
        return self.stock.bytes / self.striped.bytes

    def line(self) -> str:
        """Return the line of the table."""
        regions = ", ".join(f"{region.first}-{region.last} x {region.stripes}" for region in self.regions) or "none"
        verdict = {None: "-", True: "equal", False: "DIFFER"}[self.is_equal]
        return (
            f"{self.name:<32} {self.max_extra_macs_percent:>5g}% {self.stock.bytes:>10,} {self.overlapping.bytes:>10,} "
            f"{self.striped.bytes:>10,} {self.striped.head_bytes:>10,} {self.least_bytes:>10,} "
            f"{self.stock.head_bytes:>10,} {self.head_ratio:>6.2f} {self.extra_macs_percent:>6.2f}%  {verdict:<6} "
            f"{regions} ({self.seconds:.1f} s)"
        )


def row(path: Path, platform: Platform, percent: float, samples: int, *, heads: bool) -> Row:
    """Plan a model with and without stripes, and run the planned file with `samples` random inputs."""
    model, _ = trim_ends(read_model(path.read_bytes()), "int8")
    model = read_model(write_model(without_metadata(model, METADATA_NAME)))
    request, effort = PlanRequest(file_plan="replace"), Effort(node_limit=PLAN_NODES)
    first = plan_memory(model, platform, request, effort)
    ordered = renumbered(in_order(model, first.order))
    base = plan_memory(ordered, platform, replace(request, order="original"), effort)
    start = time.process_time()
    assert first.stock is not None
    room = first.stock.bytes if heads else None
    planner = StripePlanner(ordered, base, platform, request, max_extra_macs=percent / 100, tail_room=room)
    found = planner.smallest(Effort())
    seconds = time.process_time() - start
    best, file, extra_macs = (
        (base, ordered, 0) if found is None else (found.plan, found.model, found.striped.extra_macs)
    )
    assert base.account is not None
    assert best.account is not None
    if best.offsets is not None:
        file = with_metadata(file, METADATA_NAME, encode_plan(file, best.offsets))
    return Row(
        name=path.name,
        max_extra_macs_percent=percent,
        stock=first.stock,
        overlapping=base.account,
        striped=best.account,
        least_bytes=planner.least_live_bytes,
        extra_macs_percent=100 * extra_macs / sum(cost.macs for cost in operator_costs(model)),
        regions=() if found is None else found.regions,
        is_equal=outputs_equal(model, file, samples) if samples else None,
        seconds=seconds,
    )


def outputs_equal(model: Model, file: Model, samples: int) -> bool:
    """Return whether both compute the same on TFLM."""
    inputs = random_inputs(model, samples, seed=0)
    outputs = [run_model(write_model(item), inputs, engine="tflm") for item in (model, file)]
    return all(np.array_equal(one, other) for one, other in zip(*outputs, strict=True))


def models_at_hand(data: Path, work: Path) -> dict[Path, float]:
    """Return the files of MODELS with their budgets; names those that are not there."""
    found = {}
    for name, percent in MODELS.items():
        path = data / "models" / name if name.endswith(".tflite") else network_file(name, work)
        if path.is_file():
            found[path] = percent
        else:
            print(f"{name} is not in {data / 'models'}", file=sys.stderr)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stripes", description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--architectures", action="store_true", help="the networks of ARCHITECTURES")
    parser.add_argument("--max-extra-macs", type=float, default=5.0, metavar="PERCENT", help="except for MODELS")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of models/, for MODELS")
    parser.add_argument("--work", type=Path, default=Path("build/networks"), help="folder of built networks")
    parser.add_argument("--heads", action="store_true", help="make the heads small, for tails in another memory")
    parser.add_argument("--core", default="cortex-m7")
    parser.add_argument("--kernels", default="reference")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="random inputs with which planned files run")
    options = parser.parse_args(arguments)
    platform = platform_of(replace(load_target(options.core), kernels=options.kernels))
    if options.architectures:
        options.files += [network_file(name, options.work) for name in ARCHITECTURES]
    budgets = dict.fromkeys(options.files, options.max_extra_macs) or models_at_hand(options.data, options.work)
    print(f"{options.core}, {options.kernels} kernels")
    print(HEADER)
    rows = []
    for path, percent in budgets.items():
        rows.append(row(path, platform, percent, options.samples, heads=options.heads))
        print(rows[-1].line(), flush=True)
    heads, arenas, least = (
        statistics.geometric_mean(ratios)
        for ratios in zip(
            *((r.head_ratio, r.arena_ratio, r.stock.head_bytes / r.least_bytes) for r in rows), strict=True
        )
    )
    print(
        f"{len(rows)} models, geometric mean: heads {heads:.2f} times smaller, arenas {arenas:.2f} times; "
        f"live bytes {least:.2f} times at most"
    )
    return 1 if any(row.is_equal is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
