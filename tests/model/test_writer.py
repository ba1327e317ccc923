"""Writing a model: nothing is lost, constants are aligned, contradictions are refused."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from struct import unpack_from

import pytest
from hypothesis import given

from edgetool.errors import InternalError, UnsupportedModelError
from edgetool.model import writer
from edgetool.model.flatbuffer import Record
from edgetool.model.reader import read_model
from edgetool.model.types import Metadata, Model, Options, Quantization
from edgetool.model.writer import write_model, write_root
from tests.conftest import examples
from tests.model.attacks import field_at, records
from tests.model.builders import conv_model, if_model, options, residual_model
from tests.model.strategies import models


@examples(150)
@given(models())
def test_any_model_survives(model: Model) -> None:
    written = write_model(model)
    assert read_model(written) == model
    assert write_model(read_model(written)) == written


@examples(50)
@given(models())
def test_payloads_start_at_multiples_of_16(model: Model) -> None:
    written = write_model(model)
    for record in records(written)["buffers"]:
        if record["data"]:
            at = field_at(written, record, "data")
            start = at + unpack_from("<I", written, at)[0] + 4
            assert start % 16 == 0
            assert written[start : start + len(record["data"])] == record["data"]


def test_the_same_model_gives_the_same_bytes() -> None:
    assert write_model(residual_model()) == write_model(residual_model())


def test_old_runtimes_find_the_operator_code_where_they_look() -> None:
    codes = records(write_model(if_model()))["operator_codes"]
    assert [code["deprecated_builtin_code"] for code in codes] == [code["builtin_code"] for code in codes]
    late = replace(if_model().operator_codes[0], code="GELU")
    graph = replace(if_model().main, operators=())
    written = write_model(replace(if_model(), operator_codes=(late,), subgraphs=(graph,)))
    (code,) = records(written)["operator_codes"]
    assert (code["deprecated_builtin_code"], code["builtin_code"]) == (127, 150)


def test_unknown_fields_are_not_lost_silently() -> None:
    model = replace(conv_model(), unknown_fields=("Operator.field 14",))
    with pytest.raises(UnsupportedModelError, match="would be lost") as caught:
        write_model(model)
    assert caught.value.where == "Operator.field 14"


def test_a_model_beyond_2_gib_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_FILE_BYTES", 100)
    with pytest.raises(UnsupportedModelError, match="bytes of constants"):
        write_model(conv_model())


def broken_models() -> dict[str, Model]:
    model = conv_model()
    graph = model.main
    tensor, operator = graph.tensors[1], graph.operators[0]

    def with_tensor(**changes: object) -> Model:
        tensors = (graph.tensors[0], replace(tensor, **changes), *graph.tensors[2:])
        return replace(model, subgraphs=(replace(graph, tensors=tensors),))

    def with_operator(**changes: object) -> Model:
        return replace(model, subgraphs=(replace(graph, operators=(replace(operator, **changes),)),))

    return {
        "tensor without its data": with_tensor(data=None),
        "tensor with other data": with_tensor(data=b"\0" * 216),
        "tensor of another buffer": with_tensor(buffer=2),
        "operator of another code": with_operator(code="ADD"),
        "operator of another version": with_operator(version=9),
        "metadata with other data": replace(model, metadata=(Metadata("m", b"x", 1),)),
        "option that the table lacks": with_operator(options=Options("Conv2DOptions", (("stride", 1),))),
        "option that cannot be": with_operator(options=options("Conv2DOptions", padding="NARROW")),
    }


@pytest.mark.parametrize("model", broken_models().values(), ids=broken_models())
def test_contradictions_are_refused(model: Model) -> None:
    with pytest.raises(InternalError):
        write_model(model)


def test_absent_fields_are_not_written() -> None:
    """An empty table is its vtable and nothing else."""
    assert len(write_root(Record("Model", 0, {}))) <= 24


def test_what_is_no_number_equals_itself() -> None:
    """Else a file with one would never read back equal."""
    nan, model = float("nan"), conv_model()
    tensors = model.main.tensors
    odd = replace(tensors[0], quantization=Quantization((nan,), (0,), 0, minimum=(nan, 1.0, nan)))
    blob = write_model(replace(model, subgraphs=(replace(model.main, tensors=(odd, *tensors[1:])),)))
    assert read_model(blob) == read_model(blob)
    assert [isnan(value) for value in read_model(blob).main.tensors[0].quantization.minimum] == [True, False, True]
