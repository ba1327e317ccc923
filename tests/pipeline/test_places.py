"""Plans whose head, tail and model are in memories that the user chose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.errors import UsageError
from edgetool.memory.account import account_separate
from edgetool.memory.planner import PlanRequest
from edgetool.model.reader import read_model
from edgetool.model.writer import write_model
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.reporting import Described
from edgetool.report.document import Report
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from edgetool.target.types import Target
from tests.memory.account_models import MODELS

BOARD = load_target("nucleo-h743zi2")
# Its order and layout cannot be improved, so that its plan is TFLM's.
NAME = "long_chain"
STOCK = PlanRequest("original", "tflm")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("places") / "model.tflite"
    file.write_bytes(write_model(MODELS[NAME]()))
    return file


def board_with(**size_bytes: int) -> Target:
    """Return the board with regions of these sizes; "_" in a name stands for "-"."""
    sizes = {name.replace("_", "-"): size for name, size in size_bytes.items()}
    return replace(
        BOARD,
        regions=tuple(
            replace(region, size_bytes=sizes.get(region.name, region.size_bytes)) for region in BOARD.regions
        ),
    )


def planned(path: Path, place: str, target: Target = BOARD) -> Report:
    return plan_model(path, target, request=STOCK, place=place)


def errors(report: Report) -> list[str]:
    return [finding.message for finding in report.findings if finding.level == "error"]


def test_each_part_has_its_size_and_its_memory(path: Path) -> None:
    separate = account_separate(read_model(path.read_bytes()), platform_of(BOARD))
    report = planned(path, "head=dtcm,tail=d3-sram")
    assert [(item.part, item.memory, item.bytes, item.fits) for item in report.places] == [
        ("head", "dtcm", separate.head_arena_bytes, True),
        ("tail", "d3-sram", separate.tail_arena_bytes, True),
        ("model", "flash", path.stat().st_size, True),
    ]
    assert report.memory is not None
    assert (report.memory.region, report.memory.arena_fits, report.memory.model_fits) == ("dtcm", True, True)
    assert errors(report) == []


@pytest.mark.parametrize("part", ["head", "tail", "model"])
def test_a_memory_fits_exactly_or_is_refused_with_its_missing_bytes(path: Path, part: str) -> None:
    place = "head=dtcm,tail=d3-sram,model=d2-sram"
    memory = {"head": "dtcm", "tail": "d3_sram", "model": "d2_sram"}[part]
    size = next(item.bytes for item in planned(path, place).places if item.part == part)
    assert errors(planned(path, place, board_with(**{memory: size}))) == []
    report = planned(path, place, board_with(**{memory: size - 1}))
    name = memory.replace("_", "-")
    assert errors(report) == [f"{name} has {size - 1:,} bytes, 1 fewer than are placed there ({part} {size:,})"]
    assert [item.part for item in report.places if item.fits is False] == [part]
    assert report.memory is not None
    assert (report.memory.arena_fits, report.memory.model_fits) == (part == "model", part != "model")


def test_parts_in_one_memory_need_room_for_their_sum(path: Path) -> None:
    place = "head=dtcm,tail=dtcm"
    head, tail, _ = (item.bytes for item in planned(path, place).places)
    assert errors(planned(path, place, board_with(dtcm=head + tail))) == []
    (error,) = errors(planned(path, place, board_with(dtcm=head + tail - 16)))
    assert error.endswith(f"16 fewer than are placed there (head {head:,} + tail {tail:,})")


def test_an_arena_too_large_for_any_one_memory_can_fit_in_two(path: Path) -> None:
    place = "head=axi-sram,tail=dtcm"
    head, tail, _ = (item.bytes for item in planned(path, place).places)
    small = board_with(axi_sram=head, dtcm=tail, d2_sram=16, d3_sram=16)
    single = plan_model(path, small, request=STOCK)
    assert single.memory is not None
    assert single.memory.arena_fits is False
    assert errors(planned(path, place, small)) == []


def test_the_page_judges_the_same_places(path: Path) -> None:
    described: list[Described] = []
    small = board_with(dtcm=16)
    report = plan_model(path, small, request=STOCK, place="head=dtcm,tail=d3-sram", described=described)
    (page,) = described
    assert page.report.places == report.places
    assert page.report.memory == report.memory
    assert errors(page.report) == errors(report) != []


def test_places_need_a_target_and_an_arena(path: Path) -> None:
    with pytest.raises(UsageError, match="memories of a target"):
        plan_model(path, None, place="head=dtcm,tail=dtcm")
    with pytest.raises(UsageError, match="neither constants nor shared buffers"):
        plan_model(path, BOARD, request=PlanRequest(constants_in_ram=True), place="head=dtcm,tail=dtcm")
