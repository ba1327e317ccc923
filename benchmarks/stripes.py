"""Arenas of models in stripes, each run on real TFLM and compared with the original bit by bit.

    python -m benchmarks.stripes [FILE... --max-extra-macs PERCENT] [--core cortex-m7] [--kernels reference]

Without files, it takes the models of MODELS, each with its own budget: those in the folder --data that are there, and
networks that benchmarks/networks builds and keeps in --work. For each model, it prints the arena with TFLM's own
planner, with order, layout and overlap, and with stripes, on the core and in bytes; the extra multiply-accumulates; the
regions; and the processor time of the search for stripes. The planned file runs on the `tflite-micro` package of this
machine, which has the reference kernels: plans for other kernels keep their distances, too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.networks.files import network_file

from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import run_model
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.memory.problem import Effort
from edgetool.memory.striping import plan_stripes
from edgetool.model.edit import in_order, renumbered, with_metadata, without_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.operators.registry import operator_costs
from edgetool.passes.ends import trim_ends
from edgetool.target.load import load_target
from edgetool.target.platform import Platform, platform_of

SAMPLES = 4
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


def row(path: Path, platform: Platform, percent: float) -> tuple[str, bool]:
    """Return a line of the table, and whether the outputs are equal."""
    model, _ = trim_ends(read_model(path.read_bytes()), "int8")
    model = read_model(write_model(without_metadata(model, METADATA_NAME)))
    request = PlanRequest(file_plan="replace")
    first = plan_memory(model, platform, request)
    ordered = renumbered(in_order(model, first.order))
    base = plan_memory(ordered, platform, replace(request, order="original"))
    assert base.account is not None
    assert first.stock is not None
    start = time.process_time()
    found = plan_stripes(ordered, base, platform, request, Effort(), max_extra_macs=percent / 100)
    seconds = time.process_time() - start
    names = f"{path.name:<32} {percent:>5g}% {first.stock.bytes:>10,} {base.account.bytes:>10,}"
    if found is None:
        return f"{names} {'-':>10} {'-':>7}  {'-':<5} none ({seconds:.1f} s)", True
    assert found.plan.offsets is not None
    file = with_metadata(found.model, METADATA_NAME, encode_plan(found.model, found.plan.offsets))
    is_equal = outputs_equal(model, file)
    extra = 100 * found.striped.extra_macs / sum(cost.macs for cost in operator_costs(model))
    regions = ", ".join(f"{region.first}-{region.last} x {region.stripes}" for region in found.regions)
    verdict = "equal" if is_equal else "DIFFER"
    return f"{names} {found.arena_bytes:>10,} {extra:>6.2f}%  {verdict:<6} {regions} ({seconds:.1f} s)", is_equal


def outputs_equal(model: Model, file: Model) -> bool:
    """Return whether both compute the same on TFLM."""
    inputs = random_inputs(model, SAMPLES, seed=0)
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
    parser.add_argument("--max-extra-macs", type=float, default=5.0, metavar="PERCENT", help="for the given files")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of models/, without files")
    parser.add_argument("--work", type=Path, default=Path("build/networks"), help="folder of built networks")
    parser.add_argument("--core", default="cortex-m7")
    parser.add_argument("--kernels", default="reference")
    options = parser.parse_args(arguments)
    platform = platform_of(replace(load_target(options.core), kernels=options.kernels))
    budgets = dict.fromkeys(options.files, options.max_extra_macs) or models_at_hand(options.data, options.work)
    print(f"{options.core}, {options.kernels} kernels")
    print(f"{'model':<32} {'limit':>6} {'TFLM':>10} {'overlap':>10} {'stripes':>10} {'extra':>7}  output regions")
    is_equal = True
    for path, percent in budgets.items():
        line, same = row(path, platform, percent)
        print(line, flush=True)
        is_equal &= same
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
