"""The choice between tuned and lean kernels: less memory, never other outputs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from edgetool.codegen.native.lower import NativeProgram, lower
from edgetool.codegen.native.plan import native_problem, place_buffers
from edgetool.codegen.native.scratch import MAX_CHOICES, kernel_choices
from edgetool.memory.bound import live_bytes
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from tests.codegen.native.host import compare_all
from tests.codegen.native.test_networks import networks, supported
from tests.memory.account_net import Net

NETWORKS = 40


def ladder() -> Model:
    """Return convolutions with smaller and smaller images and the same channels: scratch matters less and less."""
    net = Net(seed=4)
    x = source = net.arena(1, 12, 12, 8, zero_point=1)
    for size in (12, 6, 3):
        filters = net.filter(8, 3, 3, 8, like=x, axis=0)
        stride = 12 // size if size == 12 else 2
        x = net.op(
            "CONV_2D", [x, filters], 1, size, size, 8, scale=1.0, stride_h=stride, stride_w=stride, padding="SAME"
        )
    return net.model([source], [x])


def live(program: NativeProgram) -> int:
    return max(size for _, size in live_bytes(native_problem(program)))


def test_choices_go_from_the_memory_of_lean_kernels_to_all_tuned_kernels() -> None:
    tuned, lean = lower(ladder()), lower(ladder(), lean=True)
    choices = kernel_choices(tuned, lean)
    assert choices[-1] == tuned
    assert live(choices[0]) == live(lean) < live(tuned)
    assert all(live(first) < live(second) for first, second in pairwise(choices))
    counts = [sum(a == b for a, b in zip(choice.steps, tuned.steps, strict=True)) for choice in choices]
    assert counts == sorted(set(counts))


def test_operators_without_two_kernels_leave_no_choice() -> None:
    program = lower(ladder(), lean=True)
    assert kernel_choices(program, program) == (program,)


def test_the_number_of_choices_is_limited() -> None:
    tuned = lower(ladder())
    chain = [
        replace(step, operator=number, scratch_bytes=10_000 + 64 * number)
        for number, step in enumerate(tuned.steps * 20)
    ]
    many = replace(tuned, steps=tuple(chain))
    lean = replace(many, steps=tuple(replace(step, scratch_bytes=0) for step in many.steps))
    choices = kernel_choices(many, lean)
    assert len(choices) == MAX_CHOICES
    assert live(choices[0]) == live(lean)
    assert choices[-1] == many


@pytest.mark.slow
def test_each_choice_computes_the_same_outputs() -> None:
    trials = []
    for trial in supported(networks(70_000), NETWORKS, Counter()).values():
        model = read_model(trial.blob)
        for program in kernel_choices(lower(model), lower(model, lean=True)):
            trials.append(replace(trial, program=program, memory=place_buffers(program)))
    assert len(trials) > NETWORKS  # some have a choice
    assert compare_all(trials) == [None] * len(trials)
