"""Check that memory plans change no output, and that their accounts are exact: random networks on TFLM.

    python -m benchmarks.plan_soundness [--count 1000] [--first 0]

Each network runs without a plan, with the best order and layout (outputs overlap inputs), with random regions in
stripes, and with the stripes that edgetool chooses, on the `tflite-micro` package of this machine. The outputs must be
the same bit by bit; arena_used_bytes and the smallest arena in which TFLM gives these outputs must be those of the
account. The layouts must pass the checker, and the plan that is read back from the file must be valid and have the same
account. A network depends on its number only. Prints how many files of each form ran, and every disagreement; the exit
status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.kernels.random_network import random_image_network, random_network
from tests.execute.many_arenas import Arena, measure_arenas

from edgetool.errors import InvalidModelError, UnsupportedModelError
from edgetool.memory.account import ArenaAccount, account_model
from edgetool.memory.checker import check_layout
from edgetool.memory.planner import Plan, PlanRequest, plan_memory
from edgetool.memory.problem import Effort
from edgetool.memory.striping import GROWTHS, plan_stripes
from edgetool.model.edit import in_order, renumbered, with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.views import with_views
from edgetool.model.writer import write_model
from edgetool.operators.rows import ROWS
from edgetool.passes.stripes import Region, RowGraph, stripe
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of

BUILD = platform_of(load_target("x86-64"))
MAX_EXTRA_MACS = 4.0
NODES = 2_000  # search nodes of each layout
MAX_LENGTH, MAX_STRIPES = 7, 6  # of random regions
BATCH = 100  # networks that are measured together


@dataclass(frozen=True, slots=True)
class Form:
    """A file of a model, the account of its plan, and what is wrong without running it."""

    name: str
    file: bytes
    account: ArenaAccount
    wrong: tuple[str, ...] = ()


def drawn_regions(model: Model, random: Random) -> Iterator[Region]:
    """Yield random regions that can run in stripes, one behind the other."""
    first, operators = 0, model.main.operators
    graph = RowGraph(model.main)
    while first < len(operators):
        last = min(first + random.randrange(MAX_LENGTH), len(operators) - 1)
        heights = [size for i in operators[last].outputs for size in model.main.tensors[i].shape[ROWS : ROWS + 1]]
        stripes = random.randint(2, min(max([2, *heights]), MAX_STRIPES))
        region = Region(first, last, stripes, random.random() < 0.5, random.choice((0, 0, *GROWTHS)))
        if graph.copies(region) is not None:
            yield region
            first = last
        first += 1


def forms(model: Model, random: Random) -> Iterator[Form]:
    """Yield the file without a plan, and those with one."""
    yield Form("without a plan", write_model(model), account_model(model, BUILD))
    effort, request = Effort(node_limit=NODES), PlanRequest(file_plan="replace")
    plan = plan_memory(model, BUILD, request, effort)
    ordered = renumbered(in_order(model, plan.order))
    yield _planned("overlap", ordered, plan)
    if regions := list(drawn_regions(ordered, random)):
        striped = stripe(ordered, regions)
        made = with_views(striped.model, striped.views)
        with suppress(UnsupportedModelError):  # TFLM would place scratch buffers in tensors with views
            yield _planned("random stripes", made, plan_memory(made, BUILD, request, effort))
    base = plan_memory(ordered, BUILD, PlanRequest(file_plan="replace", order="original"), effort)
    found = plan_stripes(ordered, base, BUILD, request, effort, max_extra_macs=MAX_EXTRA_MACS)
    if found is not None:
        yield _planned("chosen stripes", found.model, found.plan)


def _planned(name: str, model: Model, plan: Plan) -> Form:
    """Return the form of a model in the order of its plan; the account is that of what is read back."""
    assert plan.account is not None
    wrong = [violation.message for violation in check_layout(plan.problem, plan.layout)]
    file = write_model(with_metadata(model, METADATA_NAME, encode_plan(model, plan.offsets)) if plan.offsets else model)
    account = plan.account
    try:
        again = plan_memory(read_model(file), BUILD, PlanRequest(file_plan="only")).account
    except InvalidModelError as error:
        wrong.append(f"the file is refused: {error}")
    else:
        assert again is not None
        if (again.used_bytes, again.bytes) != (account.used_bytes, account.bytes):
            wrong.append(f"planned {account.used_bytes} and {account.bytes}, read {again.used_bytes}, {again.bytes}")
        account = again
    return Form(name, file, account, tuple(wrong))


def disagreements(form: Form, ran: Arena, stock: Arena) -> Iterator[str]:
    """Yield what differs between a form, the account of it, and the model without a plan on TFLM."""
    yield from form.wrong
    if ran.allocation is None:
        yield f"it does not run: {ran.refusal}"
        return
    if ran.outputs != stock.outputs:
        yield "the outputs differ"
    if ran.allocation.total != form.account.used_bytes:
        yield f"TFLM uses {ran.allocation.total} bytes, the account says {form.account.used_bytes}"
    if ran.smallest != form.account.bytes:
        yield f"the smallest arena is {ran.smallest} bytes, the account says {form.account.bytes}"


def network(number: int) -> Model:
    """Return a random network: every other one mostly computes images row by row."""
    random = Random(f"plans {number}")
    return read_model(write_model(random_network(random) if number % 2 == 0 else random_image_network(random)))


def judge(models: Sequence[tuple[str, Model]], seen: Counter[str]) -> list[str]:
    """Return the disagreements of named models; `seen` counts the forms that ran on TFLM."""
    made = [(name, form) for name, model in models for form in forms(model, Random(name))]
    with tempfile.TemporaryDirectory() as folder:
        processes = min(len(models), 2)
        arenas = measure_arenas([form.file for _, form in made], Path(folder), processes=processes)
    wrong = []
    stock = arenas[0]
    for (name, form), ran in zip(made, arenas, strict=True):
        if form.name == "without a plan":
            stock = ran
        if stock.allocation is None:
            seen["not run by TFLM"] += form.name == "without a plan"
            continue
        seen[form.name] += 1
        wrong += [f"{name}, {form.name}: {text}" for text in disagreements(form, ran, stock)]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plan_soundness", description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    seen: Counter[str] = Counter()
    count = 0
    numbers = range(options.first, options.first + options.count)
    for start in numbers[::BATCH]:
        batch = numbers[start - options.first :][:BATCH]
        wrong = judge([(f"network {number}", network(number)) for number in batch], seen)
        print("\n".join([*wrong, f"up to {batch[-1]}: {dict(seen)}"]), flush=True)
        count += len(wrong)
    print(f"{options.count} networks, {count} disagreements")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
