"""Where models lie on boards with several memories, and the estimated time of an inference.

    python -m benchmarks.places MODEL.tflite... [--board NAME...] [--native]

For each model and board: whether a single arena fits, and the placement of `--place auto` with the bytes of each part:
head, tail and model on TFLM, or arena and constants of native code. Each model is planned for the board with edgetool's
own plan.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from edgetool.errors import FailedCheckError, TargetError
from edgetool.gate.text import duration
from edgetool.pipeline.analysis import Analysis, analyse
from edgetool.pipeline.native import NativeModel, native_model
from edgetool.pipeline.places import in_places
from edgetool.pipeline.planning import planned_for
from edgetool.pipeline.source import open_tflite
from edgetool.pipeline.targets import resolve_named

COLUMNS = ("model", "board", "single arena", "head", "tail", "model", "time")
NATIVE_COLUMNS = ("model", "board", "one memory", "time", "`--place auto`", "copied constants", "time")
NATIVE_BOARDS = ("stm32h747i-disco", "disco-f746ng", "mimxrt1170-evk", "stm32n6570-dk", "rpi-pico")
BOARDS = ("stm32h747i-disco", "disco-f746ng", "mimxrt1170-evk", "stm32n6570-dk", "esp32-p4")


def row(model: Path, board: str) -> tuple[str, ...]:
    """Return the cells of a model on a board."""
    target, source = resolve_named(board), open_tflite(model)
    assert target is not None
    planned = planned_for(source, target)
    analysis = planned.analysis
    assert analysis.fit is not None
    assert analysis.plan.account is not None
    arena = f"{analysis.plan.account.bytes:,}{'' if analysis.fit.arena_fits else ' (too large)'}"
    try:
        placed = in_places(planned.source, analysis, target, "auto")
    except TargetError:
        return (model.stem, board, arena, "does not fit", "", "", "")
    cells = [f"{item.bytes:,} in {item.memory}" for item in placed.parts]
    return (model.stem, board, arena, *cells, time_of(analyse(planned.source, placed.target, plan=analysis.plan)))


def native_row(model: Path, board: str) -> tuple[str, ...]:
    """Return the cells of a model as native code on a board."""
    target, source = resolve_named(board), open_tflite(model)
    assert target is not None
    target = target.with_overrides(runtime="native")
    plan = native_model(source, target)
    arena = f"{plan.planned.memory.arena_bytes:,}{by_rows(plan)}"
    cells = (model.stem, board, arena, time_of(plan.analysis))
    try:
        placed = native_model(source, target, place="auto")
    except FailedCheckError:
        return (*cells, "does not fit", "", "")
    arena_parts = [f"{part.size_bytes:,} in {part.memory}" for part in placed.planned.memory.parts]
    assert placed.planned.placed is not None
    copied = placed.planned.placed.info.copied_bytes
    arena = " and ".join(arena_parts) + by_rows(placed)
    return (*cells, arena, f"{copied:,}" if copied else "", time_of(placed.analysis))


def by_rows(model: NativeModel) -> str:
    """Return how a plan of rows is marked in the table."""
    return " in rows" if model.planned.rows is not None else ""


def time_of(analysis: Analysis) -> str:
    """Return the estimated time with its band."""
    latency = None if analysis.estimate is None else analysis.estimate.latency_ms
    if latency is None:
        return "unknown"
    return f"{duration(latency.value)} ({duration(latency.low)} to {duration(latency.high)})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--board", action="append")
    parser.add_argument("--native", action="store_true")
    given = parser.parse_args()
    columns = NATIVE_COLUMNS if given.native else COLUMNS
    print(f"| {' | '.join(columns)} |")
    print("|---" * len(columns) + "|")
    for model in given.models:
        for board in given.board or (NATIVE_BOARDS if given.native else BOARDS):
            cells = native_row(model, board) if given.native else row(model, board)
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
