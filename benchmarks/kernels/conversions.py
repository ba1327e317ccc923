"""Compare converted Keras models on optimised kernels with the same models on reference kernels.

    python -m benchmarks.kernels.conversions CORE --reference COMMAND --optimised COMMAND [--only MODEL...]
        [--into benchmarks/kernels/measured/conversions.csv] [--note LINE...]

CORE is that of the target cortex-CORE, for example m7. Each COMMAND is as in `python -m benchmarks.kernels`. The models
have random weights and inputs, which the seeds below determine, and layers whose operators some kernels get wrong. Each
is converted twice: without a build, so that no fault is avoided, and for the target, as `edgetool convert` does. The
first runs on both sets of kernels, the second, which contains its memory plan, on the optimised ones. The columns
"before" and "after" state how both differ from the first on the reference kernels.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.kernels.batch import Run, run_batch, write_batch
from benchmarks.kernels.compare import Comparison, compare

from edgetool.convert.request import ConvertRequest, QuantizeScheme
from edgetool.memory.planner import PlanRequest
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.pipeline.convert import convert_for
from edgetool.pipeline.planning import planned_for
from edgetool.pipeline.source import Source
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

MEASURED = Path(__file__).parent / "measured" / "conversions.csv"
WEIGHTS_SEED = 7
INPUTS = 4  # per model; their seed is the name of the model


@dataclass(frozen=True, slots=True)
class Network:
    """A Keras model: the shape of its input, its layers after that, and the precision."""

    shape: tuple[int, ...]
    build: Callable[[Any, Any], Any]
    scheme: QuantizeScheme = "int8"


def _unet(layers: Any, x: Any) -> Any:
    skips = []
    for units in (4, 8):
        x = layers.Conv2D(units, 3, padding="same", activation="relu")(x)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(12, 3, padding="same", activation="relu")(x)
    for units, skip in ((8, skips[1]), (4, skips[0])):
        x = layers.Conv2DTranspose(units, 4, strides=2, padding="same", activation="relu")(x)
        x = layers.Concatenate()([x, skip])
        x = layers.Conv2D(units, 3, padding="same", activation="relu")(x)
    return layers.Conv2D(2, 1, activation="softmax")(x)


def _decoder(layers: Any, x: Any) -> Any:
    x = layers.Reshape((4, 4, 12))(layers.Dense(192, activation="relu")(x))
    for units, kernel in ((8, 5), (6, 4), (3, 5)):
        x = layers.Conv2DTranspose(units, kernel, strides=2, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    return layers.Conv2D(1, 3, padding="same", activation="tanh")(x)


def _transposed(units: int, kernel: int | tuple[int, int], strides: int | tuple[int, int], **options: Any) -> Any:
    options = {"padding": "same", **options}
    return lambda layers, x: layers.Conv2DTranspose(units, kernel, strides=strides, **options)(x)


def _grouped(**options: Any) -> Any:
    return lambda layers, x: layers.Conv2D(8, 3, groups=2, padding="same", activation="relu", **options)(x)


NETWORKS: Mapping[str, Network] = {
    "transpose-4x4": Network((8, 8, 8), _transposed(4, 4, 2)),
    "transpose-5x5": Network((7, 9, 8), _transposed(6, 5, 2)),
    "transpose-2x2-by-3": Network((6, 5, 4), _transposed(5, 2, 3)),
    "transpose-3x4-by-1x2": Network((6, 5, 6), _transposed(4, (3, 4), (1, 2))),
    "transpose-4x4-relu": Network((8, 8, 8), _transposed(4, 4, 2, activation="relu")),
    "transpose-4x4-valid": Network((8, 8, 8), _transposed(4, 4, 2, padding="valid")),
    "transpose-4x4-relu-int16": Network((8, 8, 8), _transposed(4, 4, 2, activation="relu"), "int16x8"),
    "unet": Network((16, 16, 3), _unet),
    "unet-int16": Network((16, 16, 3), _unet, "int16x8"),
    "decoder": Network((16,), _decoder),
    "grouped": Network((8, 8, 4), _grouped()),
    "grouped-without-bias": Network((8, 8, 4), _grouped(use_bias=False)),
    "grouped-int16": Network((8, 8, 4), _grouped(), "int16x8"),
    "conv-without-bias-int16": Network((8, 8, 4), lambda layers, x: layers.Conv2D(8, 3, use_bias=False)(x), "int16x8"),
    "depthwise-row": Network(
        (1, 40, 1), lambda layers, x: layers.DepthwiseConv2D((1, 5), depth_multiplier=8, padding="same")(x)
    ),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One converted model on one core.

    operators: those of the model for the target. rewrites: what convert reported on faults that it avoided. before,
    after: the comparison of the optimised kernels with the reference kernels, without and with these rewrites.
    """

    model: str
    target: str
    core: str
    before: str
    after: str
    arena_before: int
    arena: int
    bytes_before: int
    bytes: int
    operators: str
    rewrites: str


def saved_keras(name: str, network: Network, folder: Path) -> Path:
    """Save the model with random weights, among them biases and the statistics of normalizations."""
    import keras

    keras.utils.set_random_seed(WEIGHTS_SEED)
    start = keras.Input(network.shape)
    model = keras.Model(start, network.build(keras.layers, start))
    generator = Random(name)
    for weights in model.weights:
        if weights.name in ("bias", "beta", "moving_mean"):
            weights.assign([generator.uniform(-0.5, 0.5) for _ in range(weights.shape[0])])
    path = folder / f"{name}.keras"
    model.save(path)
    return path


@dataclass(frozen=True, slots=True)
class Converted:
    """A model before and after the faults of kernels were avoided, with the notes on that.

    arenas: those of both models. bytes_before: the size of the planned original.
    """

    name: str
    original: Source
    planned: Source
    notes: tuple[str, ...]
    arenas: tuple[int, int]
    bytes_before: int

    @property
    def inputs(self) -> Iterator[bytes]:
        """The inputs of both, which are integers."""
        random = Random(self.name)
        main = self.original.model.main
        for _ in range(INPUTS):
            yield b"".join(random.randbytes(main.tensors[index].size_bytes) for index in main.inputs)


def converted(name: str, network: Network, target: Target, folder: Path) -> Converted:
    """Convert the model without a build and for the target."""
    request = ConvertRequest(saved_keras(name, network, folder), quantize=network.scheme, compare=False)
    results = []
    for platform in (None, platform_of(target)):
        workdir = Path(tempfile.mkdtemp(dir=folder))
        results.append(
            convert_for(
                request,
                target.runtime,
                name=name,
                workdir=workdir,
                kernels=target.kernels,
                platform=platform,
            )
        )
    first, second = results
    sources = [Source(name, result.conversion.tflite, result.model) for result in results]
    planned = [planned_for(source, target, PlanRequest()) for source in sources]
    arenas = [item.analysis.plan.account for item in planned]
    notes = tuple(note for note in second.conversion.notes if note not in first.conversion.notes)
    assert arenas[0] is not None
    assert arenas[1] is not None
    return Converted(
        name, sources[0], planned[1].source, notes, (arenas[0].bytes, arenas[1].bytes), len(planned[0].source.blob)
    )


def worst(model: Model, expected: list[Run], actual: list[Run]) -> Comparison:
    """Return the worst comparison of several inputs."""
    comparisons = [compare(model, *pair) for pair in zip(expected, actual, strict=True)]
    return max(comparisons, key=lambda each: (each.outcome != "equal", each.share))


def rows(items: list[Converted], target: Target, core: str, reference: str, optimised: str) -> Iterator[Row]:
    """Run all models on the core, and compare them."""
    with tempfile.TemporaryDirectory() as folder:
        batches = Path(folder) / "original", Path(folder) / "planned"
        for batch, blobs in zip(
            batches, ([each.original.blob for each in items], [each.planned.blob for each in items]), strict=True
        ):
            write_batch(batch, [(blob, data) for blob, item in zip(blobs, items, strict=True) for data in item.inputs])
        count = INPUTS * len(items)
        expected, before, after = (
            list(run_batch(command, batch, count, Path(folder) / "result"))
            for command, batch in ((reference, batches[0]), (optimised, batches[0]), (optimised, batches[1]))
        )
    for index, item in enumerate(items):
        own = slice(index * INPUTS, (index + 1) * INPUTS)
        model = item.original.model
        yield Row(
            item.name,
            target.name,
            core,
            str(worst(model, expected[own], before[own])),
            str(worst(model, expected[own], after[own])),
            *item.arenas,
            item.bytes_before,
            len(item.planned.blob),
            " ".join(operator.label for operator in read_model(item.planned.blob).main.operators),
            "; ".join(item.notes),
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("core")
    parser.add_argument("--reference", required=True, metavar="COMMAND")
    parser.add_argument("--optimised", required=True, metavar="COMMAND")
    parser.add_argument("--only", nargs="*", default=(), metavar="MODEL")
    parser.add_argument("--into", type=Path, default=MEASURED, metavar="CSV")
    parser.add_argument("--note", action="append", default=[], help="a line at the start of the CSV: commits, flags")
    options = parser.parse_args()
    target = load_target(f"cortex-{options.core}")
    with tempfile.TemporaryDirectory() as folder:
        items = [
            converted(name, network, target, Path(folder))
            for name, network in NETWORKS.items()
            if not options.only or name in options.only
        ]
    measured = list(rows(items, target, options.core, options.reference, options.optimised))
    for row in measured:
        print(f"{row.model:<28} {row.target:<12} before {row.before:<20} after {row.after:<10} {row.operators}")
    _write(options.into, options.note, measured)
    return 0


def _write(path: Path, notes: list[str], measured: list[Row]) -> None:
    """Write the rows, after those of other targets and models that the file already has."""
    names = [field.name for field in fields(Row)]
    replaced = {(row.model, row.target) for row in measured}
    kept: list[dict[str, Any]] = []
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        notes = notes or [line.removeprefix("# ") for line in lines if line.startswith("#")]
        kept = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    table = [row for row in kept if (row["model"], row["target"]) not in replaced] + [asdict(row) for row in measured]
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {line}\n" for line in notes)
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        order = {name: place for place, name in enumerate(NETWORKS)}
        writer.writerows(sorted(table, key=lambda row: (order.get(row["model"], len(order)), row["target"])))


if __name__ == "__main__":
    raise SystemExit(main())
