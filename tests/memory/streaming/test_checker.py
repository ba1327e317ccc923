"""The checker of plans of rows against a brute-force executor, and each of its messages."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import InternalError
from edgetool.memory.streaming.checker import require_valid_rows, row_plan_problems
from edgetool.memory.streaming.problem import Firing, RowOperator, RowPlan, RowProblem, RowTensor

from .executor import Executor, SimplePlanner, separate_plan
from .problems import row_problems

HUGE = 1 << 70


def most_bytes(problem: RowProblem) -> int:
    """Return what all rows and scratch take side by side, with their alignments and the largest unit of offsets."""
    rows = sum(item.rows * (item.row_bytes + item.alignment + 64) for item in problem.tensors)
    return rows + sum(item.scratch_bytes + 4 + 64 for item in problem.operators)


def breaks_rules(problem: RowProblem, plan: RowPlan) -> bool:
    """Return whether a plan is invalid whatever it computes. Nothing else is: the executor judges all the rest.

    The rules: the plan is of this problem; its memory is not larger than all rows and scratch with their alignments;
    everything is inside; groups are aligned, rows of a group lie behind each other, scratch is aligned to 4; operators
    of a sequential problem run in its order.
    """
    if len(plan.offsets) != problem.row_count or len(plan.scratch) != len(problem.operators):
        return True
    if any(
        len(offsets) != len(item.firings) * any(firing.scratch_bytes for firing in item.firings)
        for offsets, item in zip(plan.scratch, problem.operators, strict=True)
    ):
        return True
    places = list(zip(plan.offsets, problem.row_sizes(), strict=True))
    scratch = [
        (offset, firing.scratch_bytes)
        for offsets, item in zip(plan.scratch, problem.operators, strict=True)
        for offset, firing in zip(offsets, item.firings, strict=bool(offsets))
        if firing.scratch_bytes
    ]
    if not 0 <= plan.memory_bytes <= most_bytes(problem) or any(
        o < 0 or o + n > plan.memory_bytes for o, n in places + scratch
    ):
        return True
    if any(offset % 4 for offset, _ in scratch):
        return True
    for index, tensor in enumerate(problem.tensors):
        offsets = [plan.offsets[row] for row in problem.rows_of(index)]
        groups = [offsets[first : first + tensor.group] for first in range(0, tensor.rows, tensor.group)]
        if any(group[0] % tensor.alignment for group in groups):
            return True
        if any(b - a != tensor.row_bytes for group in groups for a, b in pairwise(group)):
            return True
    return problem.sequential and list(plan.schedule) != sorted(plan.schedule)


def verdict_of(problem: RowProblem, executor: Executor, plan: RowPlan) -> str:
    """Return what a plan is, without the checker."""
    if breaks_rules(problem, plan):
        return "broken rule"
    return "wrong bytes" if executor.error(plan) else "valid"


def assert_judged_rightly(problem: RowProblem, plan: RowPlan, verdict: str) -> None:
    problems = row_plan_problems(problem, plan)
    assert bool(problems) == (verdict != "valid"), f"{verdict}, but the checker says {problems}: {plan}"


class Mutator:
    """Changes of a plan, most of them to plans that are almost or only just valid."""

    def __init__(self, problem: RowProblem, generator: random.Random) -> None:
        self.problem, self.generator = problem, generator
        self.sizes = problem.row_sizes()
        self.blocks = [
            (list(rows[first : first + tensor.group]), tensor.alignment)
            for index, tensor in enumerate(problem.tensors)
            for rows in [problem.rows_of(index)]
            for first in range(0, tensor.rows, tensor.group)
        ]
        self.grouped = [row for block, _ in self.blocks if len(block) > 1 for row in block]
        self.with_scratch = [
            (number, i, firing.scratch_bytes)
            for number, item in enumerate(problem.operators)
            for i, firing in enumerate(item.firings)
            if firing.scratch_bytes
        ]
        self.close = [
            (row, firing.writes[0], distance)
            for operator in problem.operators
            for firing in operator.firings
            for row, distance in firing.overlaps
            if firing.writes
        ]
        self.block_of = {row: (block, alignment) for block, alignment in self.blocks for row in block}

    def mutate(self, plan: RowPlan) -> tuple[str, RowPlan]:
        """Return the kind of a mutation and the mutant, which may be equal to the plan."""
        kinds: list[Callable[[RowPlan], RowPlan]] = [self.nudge, self.nudge, self.exchange]
        kinds += [self.move_block] * 6
        kinds += [self.swap_steps] * 3 + [self.drop_step, self.double_step, self.move_step, self.resize]
        kinds += [self.move_scratch] * 2 * bool(self.with_scratch) + [self.separate] * bool(self.grouped)
        kinds += [self.approach] * 4 * bool(self.close)
        kind = self.generator.choice(kinds)
        return kind.__name__, kind(plan)

    def move_block(self, plan: RowPlan) -> RowPlan:
        """Move a group of rows to where another row begins or ends."""
        block, alignment = self.generator.choice(self.blocks)
        return self._moved(plan, block, self._place(plan, sum(self.sizes[row] for row in block), alignment))

    def nudge(self, plan: RowPlan) -> RowPlan:
        """Move a group of rows by a byte or by its alignment."""
        block, alignment = self.generator.choice(self.blocks)
        by = self.generator.choice([-1, 1, -alignment, alignment])
        return self._moved(plan, block, plan.offsets[block[0]] + by)

    def exchange(self, plan: RowPlan) -> RowPlan:
        """Exchange two groups of rows."""
        (first, _), (second, _) = self.generator.choice(self.blocks), self.generator.choice(self.blocks)
        a, b = plan.offsets[first[0]], plan.offsets[second[0]]
        return self._moved(self._moved(plan, first, b), second, a)

    def separate(self, plan: RowPlan) -> RowPlan:
        """Move a row of a group alone."""
        row = self.generator.choice(self.grouped)
        return self._moved(plan, [row], self._place(plan, self.sizes[row], 1))

    def approach(self, plan: RowPlan) -> RowPlan:
        """Move one of two rows that may overlap: to exactly the distance, or one byte closer, or one alignment."""
        row, written, distance = self.generator.choice(self.close)
        distance -= self.generator.choice([0, 0, 1])
        moved, fixed, sign = (row, written, 1) if self.generator.random() < 0.5 else (written, row, -1)
        block, alignment = self.block_of[moved]
        offset = plan.offsets[fixed] + sign * distance
        first = offset - (plan.offsets[moved] - plan.offsets[block[0]])
        if self.generator.random() < 0.5:
            first -= first % alignment
        return self._moved(plan, block, first)

    def move_scratch(self, plan: RowPlan) -> RowPlan:
        """Move the scratch of a firing, or that of all firings of its operator."""
        number, firing, size = self.generator.choice(self.with_scratch)
        offset = plan.scratch[number][firing] + self.generator.choice([-1, 1])
        if self.generator.random() < 0.8:
            offset = self._place(plan, size, 4)
        scratch = list(plan.scratch)
        offsets = list(scratch[number])
        offsets[firing] = offset
        scratch[number] = tuple(offsets) if self.generator.random() < 0.7 else (offset,) * len(offsets)
        return replace(plan, scratch=tuple(scratch))

    def swap_steps(self, plan: RowPlan) -> RowPlan:
        """Swap two steps, mostly neighbours of different operators."""
        schedule = list(plan.schedule)
        different = [step for step, (a, b) in enumerate(pairwise(schedule)) if a != b]
        if different and self.generator.random() < 0.8:
            first = self.generator.choice(different)
            second = first + 1
        else:
            first, second = (self.generator.randrange(len(schedule)) for _ in range(2))
        schedule[first], schedule[second] = schedule[second], schedule[first]
        return replace(plan, schedule=tuple(schedule))

    def move_step(self, plan: RowPlan) -> RowPlan:
        schedule = list(plan.schedule)
        step = schedule.pop(self.generator.randrange(len(schedule)))
        schedule.insert(self.generator.randint(0, len(schedule)), step)
        return replace(plan, schedule=tuple(schedule))

    def drop_step(self, plan: RowPlan) -> RowPlan:
        step = self.generator.randrange(len(plan.schedule))
        return replace(plan, schedule=plan.schedule[:step] + plan.schedule[step + 1 :])

    def double_step(self, plan: RowPlan) -> RowPlan:
        step = self.generator.randrange(len(plan.schedule))
        return replace(plan, schedule=plan.schedule[: step + 1] + plan.schedule[step:])

    def resize(self, plan: RowPlan) -> RowPlan:
        """Let the memory end with the highest row or scratch, a byte earlier, at the limit, or a byte behind it."""
        ends = [offset + size for offset, size in zip(plan.offsets, self.sizes, strict=True)]
        ends += [plan.scratch[number][firing] + size for number, firing, size in self.with_scratch]
        most = most_bytes(self.problem)
        return replace(plan, memory_bytes=self.generator.choice([max(ends), max(ends) - 1, most, most + 1]))

    def _moved(self, plan: RowPlan, rows: list[int], offset: int) -> RowPlan:
        offsets = list(plan.offsets)
        for row in rows:
            offsets[row] = offset
            offset += self.sizes[row]
        return replace(plan, offsets=tuple(offsets))

    def _place(self, plan: RowPlan, size: int, alignment: int) -> int:
        """Return an offset right behind or in front of another row, mostly aligned, and mostly inside the memory."""
        row = self.generator.randrange(self.problem.row_count)
        behind = plan.offsets[row] + self.sizes[row]
        offset = self.generator.choice([behind, behind, plan.offsets[row] - size, plan.offsets[row]])
        if self.generator.random() < 0.9:
            offset += -offset % alignment
        return offset if 0 <= offset <= plan.memory_bytes - size else offset * self.generator.randint(0, 1)


def judge_mutants(problems: int, mutants: int) -> Counter[tuple[str, str]]:
    """Judge mutants of three plans of each problem, and mutants of valid ones; return how many of a kind are what."""
    counts: Counter[tuple[str, str]] = Counter()

    @settings(max_examples=problems, database=None)
    @given(row_problems(), st.integers(0, 2**32))
    def judge(problem: RowProblem, seed: int) -> None:
        generator = random.Random(seed)
        executor = Executor(problem)
        mutator = Mutator(problem, generator)
        tight = [SimplePlanner(problem, generator, overlaps=overlaps).plan() for overlaps in (False, True)]
        loose = separate_plan(problem)
        for plan in (loose, *tight):
            assert verdict_of(problem, executor, plan) == "valid"
            assert_judged_rightly(problem, plan, "valid")
            slack = generator.choice([0, 4, 16])
            plan = replace(plan, memory_bytes=min(plan.memory_bytes + slack, loose.memory_bytes))
            for _ in range(mutants // 3):
                # Most changes break a plan: for half of the mutants, some attempts are made to get a valid one.
                for _ in range(generator.choice([1, 5])):
                    kind, mutant = mutator.mutate(plan)
                    verdict = verdict_of(problem, executor, mutant)
                    if verdict == "valid" and mutant != plan:
                        break
                if mutant == plan:
                    continue
                assert_judged_rightly(problem, mutant, verdict)
                counts[kind, verdict] += 1
                if verdict == "valid" and generator.random() < 0.5:
                    plan = mutant

    judge()
    return counts


def shares(counts: Counter[tuple[str, str]]) -> dict[str, float]:
    """Return the share of each verdict."""
    return {
        verdict: sum(count for (_, item), count in counts.items() if item == verdict) / counts.total()
        for verdict in ("valid", "wrong bytes", "broken rule")
    }


def test_mutants_are_judged_as_the_executor_judges_them() -> None:
    counts = judge_mutants(problems=25, mutants=24)
    assert counts.total() >= 400
    assert min(shares(counts).values()) > 0.03


@pytest.mark.slow
def test_ten_thousand_mutants_are_judged_as_the_executor_judges_them() -> None:
    counts = judge_mutants(problems=450, mutants=33)
    assert counts.total() >= 10_000
    assert shares(counts)["valid"] >= 1 / 3
    assert shares(counts)["wrong bytes"] >= 1 / 4
    for kind in ("approach", "exchange", "move_block", "move_scratch", "move_step", "nudge", "swap_steps"):
        assert {verdict for name, verdict in counts if name == kind} == {"valid", "wrong bytes", "broken rule"}
    for kind in ("drop_step", "double_step", "separate"):
        assert counts[kind, "wrong bytes"] + counts[kind, "broken rule"] > 0


NUMBERS = st.one_of(st.integers(-9, 99), st.integers(-HUGE, HUGE), st.sampled_from([1 << 40, 1 << 60, 1 << 63]))


@st.composite
def damaged_plans(draw: st.DrawFn) -> tuple[RowProblem, RowPlan]:
    """A problem and a plan of which one or two fields hold other numbers, more of them or fewer."""
    problem = draw(row_problems())
    plan = separate_plan(problem)
    for _ in range(draw(st.integers(1, 2))):
        field = draw(st.sampled_from(["schedule", "offsets", "scratch", "memory_bytes"]))
        if field == "memory_bytes":
            plan = replace(plan, memory_bytes=draw(NUMBERS))
            continue
        of_operator = draw(st.integers(0, len(plan.scratch) - 1)) if field == "scratch" and plan.scratch else 0
        values: list[int] = list(plan.scratch[of_operator] if field == "scratch" else getattr(plan, field))
        for _ in range(draw(st.integers(1, 3))):
            place = draw(st.integers(0, len(values)))
            values[place : place + draw(st.integers(0, 2))] = draw(st.lists(NUMBERS, max_size=2))
        plan = RowPlan(
            tuple(values) if field == "schedule" else plan.schedule,
            tuple(values) if field == "offsets" else plan.offsets,
            tuple(
                tuple(values) if field == "scratch" and i == of_operator else offsets
                for i, offsets in enumerate(plan.scratch)
            ),
            plan.memory_bytes,
        )
    return problem, plan


@given(damaged_plans())
def test_damaged_plans_are_judged_without_exceptions(damaged: tuple[RowProblem, RowPlan]) -> None:
    problem, plan = damaged
    assert_judged_rightly(problem, plan, verdict_of(problem, Executor(problem), plan))


@given(row_problems(), st.sampled_from([1 << 32, 1 << 60, HUGE]))
def test_huge_memory_is_rejected_instead_of_allocated(problem: RowProblem, huge: int) -> None:
    plan = separate_plan(problem)
    far = replace(plan, memory_bytes=huge, offsets=tuple(huge - 64 for _ in plan.offsets))
    for damaged in (far, replace(plan, memory_bytes=huge)):
        assert row_plan_problems(problem, damaged) == [
            f"{huge} bytes of memory are not between 0 and {most_bytes(problem)}"
        ]


# Rows 0 and 1 are given, 2 and 3 are what copies compute from them, 4 and 5 are sums, 6 and 7 are kept.
CASE = RowProblem(
    (
        RowTensor("in", 2, 4, group=2, given=True),
        RowTensor("copy", 2, 4, alignment=2),
        RowTensor("sum", 2, 4),
        RowTensor("out", 2, 4, group=2, kept=True),
    ),
    (
        RowOperator("COPY", (Firing((0,), (2,), ((0, 1),)), Firing((1,), (3,), ((1, 1),)))),
        RowOperator("SUM", tuple(Firing((row,), (4, 5), scratch_bytes=3) for row in (2, 3)), accumulates=True),
        RowOperator("LAST", (Firing((4, 5), (6, 7)),)),
    ),
)
VALID = RowPlan((0, 1, 0, 1, 2), (0, 4, 8, 8, 16, 20, 24, 28), ((), (12, 12), ()), 32)
SEQUENTIAL = replace(CASE, sequential=True)


def changed(
    offsets: dict[int, int] | None = None,
    scratch: int = 12,
    schedule: tuple[int, ...] = (),
    second: int | None = None,
) -> RowPlan:
    """Return the valid plan with some rows, the scratch (of the second call, if given) or the schedule changed."""
    places = tuple((offsets or {}).get(row, offset) for row, offset in enumerate(VALID.offsets))
    both = scratch, scratch if second is None else second
    return RowPlan(schedule or VALID.schedule, places, ((), both, ()), VALID.memory_bytes)


SHARED = "shares bytes with a row that it writes"
MESSAGES = [
    (CASE, replace(VALID, offsets=VALID.offsets[1:]), "the plan is of another problem"),
    (CASE, replace(VALID, scratch=((), (12, 12))), "the plan is of another problem"),
    (CASE, replace(VALID, scratch=((), (12,), ())), "the plan is of another problem"),
    (CASE, replace(VALID, scratch=((), (12, 12), (12,))), "the plan is of another problem"),
    (CASE, replace(VALID, memory_bytes=-1), f"-1 bytes of memory are not between 0 and {most_bytes(CASE)}"),
    (
        CASE,
        replace(VALID, memory_bytes=most_bytes(CASE) + 1),
        f"{most_bytes(CASE) + 1} bytes of memory are not between 0 and {most_bytes(CASE)}",
    ),
    (CASE, replace(VALID, memory_bytes=31), "row 1 of out is outside the memory"),
    (CASE, changed({2: -2}), "row 0 of copy is outside the memory"),
    (CASE, changed({1: 5}), "row 1 of in is not behind row 0"),
    (CASE, changed({2: 9}), "row 0 of copy is not aligned"),
    (CASE, changed(scratch=-4), "the scratch of SUM is outside the memory or not aligned"),
    (CASE, changed(scratch=30), "the scratch of SUM is outside the memory or not aligned"),
    (CASE, changed(scratch=13), "the scratch of SUM is outside the memory or not aligned"),
    (CASE, changed(second=-1), "the scratch of SUM is outside the memory or not aligned"),
    (CASE, changed(second=8), "step 3: SUM: its scratch shares bytes with row 1 of copy, which it reads"),
    (CASE, changed(schedule=(0, 1, 0, 1, 3)), "step 4: operator 3 does not exist"),
    (CASE, changed(schedule=(-1, 0, 1, 0, 1)), "step 0: operator -1 does not exist"),
    (CASE, changed(schedule=(0, 1, 0, 1, 2, 2)), "step 5: LAST fires once too often"),
    (SEQUENTIAL, VALID, "step 1: SUM fires before an operator that must come first"),
    (CASE, changed(schedule=(1, 0, 0, 1, 2)), "step 0: SUM reads row 0 of copy, which is not complete"),
    (CASE, changed(schedule=(0, 1, 0, 2, 1)), "step 3: LAST reads row 0 of sum, which is not complete"),
    (CASE, changed(schedule=(0, 0, 1, 1, 2)), "step 2: SUM reads row 0 of copy, which is not there"),
    (CASE, changed({2: 2, 3: 12}), "step 0: COPY: row 0 of copy is too close to row 0 of in, which it reads"),
    (CASE, changed({2: 4}), "step 2: COPY reads row 1 of in, which is not there"),
    (CASE, changed({3: 18}), "step 3: SUM reads row 0 of sum, which is not there"),
    (CASE, changed(scratch=8), "step 1: SUM: its scratch shares bytes with row 0 of copy, which it reads"),
    (CASE, changed(scratch=20), "step 1: SUM: its scratch shares bytes with a row that it writes"),
    (CASE, changed({4: 18}), "step 1: SUM: row 0 of sum shares bytes with another row that it writes"),
    (
        CASE,
        changed({4: 11}, scratch=24),
        "step 1: SUM: row 0 of copy, which it reads, shares bytes with a row that it writes",
    ),
    (
        CASE,
        changed({6: 20, 7: 24}),
        "step 4: LAST: row 1 of sum, which it reads, shares bytes with a row that it writes",
    ),
    (CASE, changed(schedule=(0, 1, 0, 1)), "LAST fires 0 times instead of 1"),
    (CASE, changed(schedule=(0, 1, 2)), "step 2: LAST reads row 0 of sum, which is not complete"),
]


def test_the_plan_of_the_cases_is_valid() -> None:
    assert row_plan_problems(CASE, VALID) == []
    assert row_plan_problems(SEQUENTIAL, changed({3: 12}, scratch=24, schedule=(0, 0, 1, 1, 2))) == []
    assert row_plan_problems(CASE, changed(scratch=24, second=0)) == []
    require_valid_rows(CASE, VALID)


@pytest.mark.parametrize(("problem", "plan", "message"), MESSAGES)
def test_messages_name_the_step_the_operator_and_the_row(problem: RowProblem, plan: RowPlan, message: str) -> None:
    assert row_plan_problems(problem, plan) == [message]
    assert verdict_of(problem, Executor(problem), plan) != "valid"
    with pytest.raises(InternalError) as caught:
        require_valid_rows(problem, plan)
    assert str(caught.value) == f"a plan of rows is invalid: {message}"


def test_inputs_that_share_bytes_are_rejected_even_if_nothing_reads_them() -> None:
    problem = RowProblem((RowTensor("a", 1, 4, given=True), RowTensor("b", 1, 4, given=True)), ())
    plan = RowPlan((), (0, 3), (), 8)
    assert row_plan_problems(problem, plan) == ["row 0 of a shares bytes with another input"]
    assert row_plan_problems(problem, replace(plan, offsets=(0, 4))) == []


def test_kept_rows_must_be_there_at_the_end() -> None:
    tensors = (RowTensor("first", 1, 4, kept=True), RowTensor("second", 1, 4), RowTensor("never", 1, 4, kept=True))
    operators = (RowOperator("A", (Firing((), (0,)),)), RowOperator("B", (Firing((), (1,)),)))
    problem = RowProblem(tensors[:2], operators)
    plan = RowPlan((0, 1), (0, 3), ((), ()), 8)
    assert row_plan_problems(problem, plan) == ["row 0 of first, which is kept, is not there after the last step"]
    assert row_plan_problems(problem, replace(plan, schedule=(1, 0))) == []
    problem = RowProblem(tensors, operators)
    plan = RowPlan((0, 1), (0, 4, 8), ((), ()), 12)
    assert row_plan_problems(problem, plan) == ["row 0 of never, which is kept, is not there after the last step"]


def test_the_distance_counts_from_where_the_first_row_would_be() -> None:
    """The third row that is written, at 20, is written after eight bytes, as if the first one were at 12."""
    tensors = (RowTensor("in", 1, 4, given=True), RowTensor("out", 3, 4), RowTensor("spare", 1, 32))
    problem = RowProblem(tensors, (RowOperator("BAND", (Firing((0,), (1, 2, 3), ((0, 7),)),)),))
    executor = Executor(problem)
    for first in (0, 28):
        for offset in range(4, 25):
            plan = RowPlan((0,), (offset, first, 32, 20, 0), ((),), 36)
            valid = offset <= 16 or offset >= 19
            assert (row_plan_problems(problem, plan) == []) == valid
            assert (executor.error(plan) is None) == valid


def test_state_is_in_its_place_whatever_the_distance() -> None:
    tensors = (RowTensor("state", 1, 4, given=True, kept=True), RowTensor("out", 1, 4, kept=True))
    problem = RowProblem(tensors, (RowOperator("STEP", (Firing((0,), (0, 1), ((0, 9),)),)),), sequential=True)
    assert row_plan_problems(problem, RowPlan((0,), (0, 4), ((),), 8)) == []
    assert row_plan_problems(problem, RowPlan((0,), (0, 3), ((),), 8)) != []


def test_given_rows_are_complete_before_they_are_written() -> None:
    tensors = (RowTensor("state", 1, 4, given=True, kept=True), RowTensor("out", 1, 4))
    operators = (RowOperator("READ", (Firing((0,), (1,)),)), RowOperator("ASSIGN", (Firing((1,), (0,)),)))
    problem = RowProblem(tensors, operators, sequential=True)
    plan = RowPlan((0, 1), (0, 4), ((), ()), 8)
    assert row_plan_problems(problem, plan) == []
    assert Executor(problem).error(plan) is None


def test_the_last_rows_of_a_ring_are_computed_before_they_are_read() -> None:
    tensors = (RowTensor("ring", 3, 4, group=3, given=True, kept=True, computed=1), RowTensor("out", 1, 4, kept=True))
    operators = (RowOperator("FEED", (Firing((), (2,)),)), RowOperator("READ", (Firing((1, 2), (3,)),)))
    problem = RowProblem(tensors, operators)
    plan = RowPlan((0, 1), (0, 4, 8, 12), ((), ()), 16)
    assert row_plan_problems(problem, plan) == []
    assert Executor(problem).error(plan) is None
    swapped = replace(plan, schedule=(1, 0))
    assert row_plan_problems(problem, swapped) == ["step 0: READ reads row 2 of ring, which is not complete"]
    assert Executor(problem).error(swapped) is not None
    # The rows that the next step finds in the ring must stay, also those that nothing has read.
    shared = replace(plan, offsets=(0, 4, 8, 0), memory_bytes=12)
    assert row_plan_problems(problem, shared) == ["row 0 of ring, which is kept, is not there after the last step"]
    assert Executor(problem).error(shared) is not None


def test_rows_without_bytes_share_none() -> None:
    tensors = (RowTensor("in", 1, 4, given=True), RowTensor("out", 1, 0, kept=True))
    problem = RowProblem(tensors, (RowOperator("NONE", (Firing((0,), (1,)),)),))
    assert row_plan_problems(problem, RowPlan((0,), (0, 2), ((),), 4)) == []


def test_a_row_that_operators_write_in_parts_is_complete_after_the_last_and_must_stay() -> None:
    tensors = (RowTensor("parts", 1, 4), RowTensor("other", 1, 4), RowTensor("out", 1, 4, kept=True))
    firings = (Firing((), (0,)), Firing((), (0,)), Firing((), (1,)), Firing((0,), (2,)))
    problem = RowProblem(tensors, tuple(RowOperator(name, (item,)) for name, item in zip("ABCD", firings, strict=True)))
    plan = RowPlan((0, 1, 3, 2), (0, 3, 7), ((),) * 4, 11)
    assert row_plan_problems(problem, plan) == []
    assert row_plan_problems(problem, replace(plan, schedule=(2, 1, 0, 3))) == []
    for schedule in ((0, 3, 1, 2), (1, 3, 0, 2)):
        message = "step 1: D reads row 0 of parts, which is not complete"
        assert row_plan_problems(problem, replace(plan, schedule=schedule)) == [message]
    message = "step 2: B reads row 0 of parts, which is not there"
    assert row_plan_problems(problem, replace(plan, schedule=(0, 2, 1, 3))) == [message]
