"""Which form of recurrent layers is taken, and what is said of the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgetool.convert.lowering.cut_open import carry_states
from edgetool.model.draft import Draft
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Graph, Model, Operator, Quantization, Signature, Tensor
from edgetool.model.writer import write_model
from edgetool.pipeline.convert import WORSE_DB, RnnPrice, cheapest, only_finding, price_of, rnn_finding
from edgetool.pipeline.source import Source
from edgetool.target.load import load_target

prices = st.builds(
    RnnPrice, st.sampled_from(["fused", "unrolled"]), st.none() | st.integers(0, 9), st.integers(1, 9), st.just(1)
)
qualities = st.none() | st.floats(-10, 60)


@given(st.lists(prices, min_size=1, max_size=4))
def test_the_cheapest_is_never_beaten(several: list[RnnPrice]) -> None:
    chosen = cheapest(several)
    for other in several:
        if other.total_bytes is not None:
            assert chosen.total_bytes is not None
            assert chosen.total_bytes <= other.total_bytes
    if chosen.total_bytes is None:
        assert chosen.file_bytes == min(price.file_bytes for price in several)


@given(st.lists(st.tuples(prices, qualities), min_size=1, max_size=4))
def test_what_is_much_worse_than_the_best_is_not_taken(several: list[tuple[RnnPrice, float | None]]) -> None:
    given_ = [replace(price, sqnr_db=quality) for price, quality in several]
    chosen = cheapest(given_)
    for other in given_:
        if chosen.sqnr_db is not None and other.sqnr_db is not None:
            assert chosen.sqnr_db >= other.sqnr_db - WORSE_DB


def test_the_first_wins_a_tie() -> None:
    fused, unrolled = RnnPrice("fused", 3, 5, 1), RnnPrice("unrolled", 4, 4, 9)
    assert cheapest([fused, unrolled]) is fused
    assert cheapest([unrolled, fused]) is unrolled


def test_the_finding_tells_both_prices() -> None:
    fused, unrolled = RnnPrice("fused", 2048, 4640, 4, 37.25), RnnPrice("unrolled", None, 50328, 175)
    finding = rnn_finding(fused, [unrolled], ["lstm"])
    assert (finding.rule, finding.level, finding.where) == ("rnn-form", "note", None)
    assert finding.message.startswith("layer 'lstm' was converted to one operator per LSTM (--rnn fused)")
    assert (
        "--rnn fused): 2,048 bytes of arena and 4,640 bytes of flash, with 4 operators and an SQNR of 37.2 dB"
        in finding.message
    )
    assert (
        "--rnn unrolled) would take an arena of unknown size and 50,328 bytes of flash, with 175 operators"
        in finding.message
    )


def test_the_finding_names_the_layers() -> None:
    price = RnnPrice("fused", 2048, 4640, 4)
    assert rnn_finding(price, [], ["a", "b", "c"]).message.startswith("layers 'a', 'b' and 'c' were converted to")
    assert only_finding([f"l{i}" for i in range(9)], "300 copies").message == (
        "layers 'l0', 'l1', 'l2', 'l3', 'l4', 'l5' and 3 more were converted to one operator per LSTM: "
        "one copy per time step (--rnn unrolled) does not work: 300 copies"
    )


def test_a_form_that_is_left_out_is_told() -> None:
    fused, unrolled = RnnPrice("fused", 10, 10, 4, -0.1), RnnPrice("unrolled", 99, 99, 40, 35.0)
    assert cheapest([fused, unrolled]) is unrolled
    finding = rnn_finding(unrolled, [fused], ["lstm"])
    assert finding.message.endswith("4 operators and an SQNR of -0.1 dB (rejected: more than 6 dB worse)")


def _cut_model() -> Model:
    """input + state -> output, which is the next state, too."""
    scale = Quantization((0.5,), (0,), 0)
    names = ("input", "state", "output")
    tensors = tuple(Tensor(i, name, (1, 4), DType.INT8, None, scale, False) for i, name in enumerate(names))
    graph = Graph(0, "main", tensors, (), (0, 1), (2,))
    signature = Signature("serving_default", 0, (("input", 0), ("given", 1)), (("output", 2), ("taken", 2)))
    draft = Draft(Model(3, "", (), (graph,), (None,), signatures=(signature,)))
    add: Operator = draft.make("ADD", [0, 1], [2], version=2)
    draft.operators.append(add)
    return draft.finish()


def test_a_carried_state_is_priced_and_written() -> None:
    model = carry_states(_cut_model(), (("layer/state_0", "given", "taken"),))
    assert [name for name, _ in model.signatures[0].inputs] == ["input"]
    assert [name for name, _ in model.signatures[0].outputs] == ["output"]
    assert Counter(operator.label for operator in model.main.operators) == {"ADD": 1, "QUANTIZE": 1}
    blob = write_model(model)
    assert read_model(blob) == model
    price = price_of("unrolled", Source("m.tflite", blob, model), load_target("cortex-m7"), sqnr_db=40.0)
    assert price.arena_bytes is not None
    assert price.arena_bytes > 0
    assert price.file_bytes >= len(blob)
    assert price.operators == 2
    assert np.isfinite(price.total_bytes or np.nan)
