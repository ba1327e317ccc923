"""Pins that cannot be, and capacities below what is alive at once."""

from __future__ import annotations

import json

import pytest

from edgetool.errors import FailedCheckError, InvalidModelError
from edgetool.memory.instances import check_capacity, check_pins, naive_bytes, read_instance
from edgetool.memory.layout.solve import solve

# A network of two dense layers whose weights are loaded before use: bytes, and the offsets that were published for it
# as optimal, at a height of 692,352.
PUBLISHED = {
    "input": (784, 0),
    "input int8": (784, 21632),
    "conv weights": (288, 21632),
    "conv bias": (32, 21632),
    "conv output": (21632, 0),
    "pooled": (5408, 21632),
    "reshaped": (5408, 0),
    "dense weights": (692224, 0),
    "dense bias": (128, 0),
    "dense output": (128, 692224),
    "class weights": (1280, 0),
    "class bias": (12, 0),
    "class output": (12, 1280),
    "float output": (12, 0),
}
STEPS = {
    "quantize": (["input"], "input int8"),
    "conv": (["input int8", "conv weights", "conv bias"], "conv output"),
    "pool": (["conv output"], "pooled"),
    "reshape": (["pooled"], "reshaped"),
    "dense": (["reshaped", "dense weights", "dense bias"], "dense output"),
    "classify": (["dense output", "class weights", "class bias"], "class output"),
    "dequantize": (["class output"], "float output"),
}


def published(*, pinned: bool) -> str:
    tensors: dict[str, dict[str, object]] = {}
    for name, (size, offset) in PUBLISHED.items():
        constant = name.endswith(("weights", "bias"))
        tensors[name] = {"size": size, "constant": constant, **({"offset": offset} if pinned else {})}
    operators = [{"name": name, "inputs": inputs, "outputs": [output]} for name, (inputs, output) in STEPS.items()]
    return json.dumps({"tensors": tensors, "operators": operators, "alignment": 4})


def test_the_published_plan_has_seven_collisions() -> None:
    instance = read_instance(published(pinned=True), constants_in_ram=True)
    with pytest.raises(InvalidModelError) as caught:
        check_pins(instance)
    assert "7 conflicts between pinned offsets" in caught.value.what
    pairs = [
        ("input int8", "conv weights", "conv"),
        ("input int8", "conv bias", "conv"),
        ("conv weights", "conv bias", "conv"),
        ("reshaped", "dense weights", "dense"),
        ("reshaped", "dense bias", "dense"),
        ("dense weights", "dense bias", "dense"),
        ("class weights", "class bias", "classify"),
    ]
    assert len(caught.value.details) == len(pairs)
    for one, other, operator in pairs:
        (line,) = [text for text in caught.value.details if f"({one!r})" in text and f"({other!r})" in text]
        assert line.endswith(f"({operator!r})")


def test_our_layout_of_the_same_network_is_proven() -> None:
    instance = read_instance(published(pinned=False), constants_in_ram=True)
    assert naive_bytes(instance.problem) == 728132
    layout = solve(instance.problem)
    assert (layout.height, layout.lower_bound, layout.optimal) == (697888, 697888, True)


HEADER = "id,lower,upper,size,alignment,offset,alias\n"


def test_collisions_name_both_rows_and_the_moment() -> None:
    instance = read_instance(HEADER + "a,0,4,10,,0,\nb,3,6,10,,9,\nc,4,5,9,,0,\nd,5,6,5,,19,\n")
    with pytest.raises(InvalidModelError) as caught:
        check_pins(instance)
    assert caught.value.details == ()
    assert caught.value.what == "row 2 ('a') and row 3 ('b') overlap (bytes 0 to 10 and 9 to 19) at time 3"


@pytest.mark.parametrize(
    ("rows", "capacity", "words"),
    [
        ("a,0,4,10,16,8,\n", None, "row 2 ('a') is at 8, which is not a multiple of its alignment 16"),
        ("a,0,4,10,,8,\n", 17, "row 2 ('a') is pinned to end at 18, above the capacity of 17"),
        (
            "a,0,4,10,,0,x\nb,9,10,10,,8,x\n",
            None,
            "row 2 ('a') and row 3 ('b') share the alias 'x', but are pinned to 0 and 8",
        ),
        (
            "a,0,2,5,,0,x\nb,4,6,9,,,x\nc,3,4,1,,8,\n",
            None,
            "row 2 ('a') and 1 more with the same alias and row 4 ('c') overlap",
        ),
        (f"a,0,2,{2**62},,,\nb,0,2,{2**62},,,\n", None, "the sizes add up to 2**63 bytes or more"),
    ],
)
def test_other_impossible_pins(rows: str, capacity: int | None, words: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        check_pins(read_instance(HEADER + rows), capacity)
    assert words in caught.value.what


@pytest.mark.parametrize(
    "rows",
    [
        "a,0,4,10,,0,\nb,0,4,10,,10,\n",
        "a,0,4,10,,0,\nb,4,9,10,,0,\n",
        "a,0,4,10,,0,\nb,0,4,0,,5,\n",
        "a,0,4,10,,0,\nb,0,4,0,,500,\n",
        "a,0,4,10,,,\nb,0,4,10,,0,\n",
        "a,0,4,10,,0,x\nb,2,6,12,,0,x\n",
        "a,0,4,10,,0,x\nb,2,6,12,,,x\nc,2,6,12,,12,\n",
    ],
    ids=["side by side", "one after the other", "empty", "empty and far", "one is free", "alias", "beside an alias"],
)
def test_pins_that_can_be(rows: str) -> None:
    check_pins(read_instance(HEADER + rows), 24)


def test_a_capacity_below_the_live_bytes_names_moment_and_buffers() -> None:
    rows = "".join(f"b{i},{i},20,{10 + i},,,\n" for i in range(12))
    instance = read_instance(HEADER + rows + "gone,0,11,1000,,,\nfree,11,12,0,,,\n")
    check_capacity(instance, 1165)
    with pytest.raises(FailedCheckError) as caught:
        check_capacity(instance, 1164)
    assert "1,165 B are live at time 10" in caught.value.what
    assert caught.value.details[:2] == ("1,000 B  row 14 ('gone')", "20 B  row 12 ('b10')")
    assert caught.value.details[-1] == "46 B  in 4 more"
    with pytest.raises(FailedCheckError, match="1,165"):
        check_capacity(instance, 0)


def test_an_alias_counts_once() -> None:
    instance = read_instance(HEADER + "a,0,2,10,,,x\nb,1,4,12,,,x\n")
    assert naive_bytes(instance.problem) == 12
    check_capacity(instance, 12)


def test_the_moment_of_a_graph_is_an_operator() -> None:
    with pytest.raises(FailedCheckError, match=r"697,888 B are live at operator 4 \('dense'\)"):
        check_capacity(read_instance(published(pinned=False), constants_in_ram=True), 692352)


def test_a_long_list_of_collisions_is_cut_with_a_message() -> None:
    rows = "".join(f"b{i},0,2,4,,0,\n" for i in range(5000))
    with pytest.raises(InvalidModelError, match="thousands of conflicts between pinned offsets") as caught:
        check_pins(read_instance(HEADER + rows))
    assert len(caught.value.details) == 10_001
    assert caught.value.details[-1] == "and 1 more" or "more than these 10,000 pairs" in caught.value.details[-1]
