"""Where head, tail and model of models lie on boards with several memories, and the estimated time of an inference.

    python -m benchmarks.places MODEL.tflite... [--board NAME...]

For each model and board: whether a single arena fits, and the placement of `--place auto` with the bytes of each part.
Each model is planned for the board with edgetool's own plan.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from edgetool.errors import TargetError
from edgetool.gate.text import duration
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.places import in_places
from edgetool.pipeline.planning import planned_for
from edgetool.pipeline.source import open_tflite
from edgetool.pipeline.targets import resolve_named

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
    estimate = analyse(planned.source, placed.target, plan=analysis.plan).estimate
    latency = None if estimate is None else estimate.latency_ms
    time = (
        "unknown"
        if latency is None
        else f"{duration(latency.value)} ({duration(latency.low)} to {duration(latency.high)})"
    )
    return (model.stem, board, arena, *cells, time)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--board", action="append")
    given = parser.parse_args()
    print("| model | board | single arena | head | tail | model | time |")
    print("|---|---|---|---|---|---|---|")
    for model in given.models:
        for board in given.board or BOARDS:
            print(f"| {' | '.join(row(model, board))} |")


if __name__ == "__main__":
    main()
