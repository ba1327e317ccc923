"""What the C++ files say of a model: its registrations against a second reading of the file, its refusals, its runs.

A model's name that cannot be that of files and in C is reported, with the one that is used.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgetool.codegen.spec import HeaderSpec, HeaderTarget, ProgramSpec, Registration
from edgetool.codegen.tflm.runner import ops_header
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from edgetool.operators.entry import OperatorEntry
from edgetool.pipeline.firmware import name_findings, output_name, program_spec, with_same_kernels
from edgetool.pipeline.source import Source, open_tflite
from edgetool.target.load import load_runtime, load_target
from tests import graphs
from tests.conftest import model_files, over_models
from tests.graphs import chain
from tests.model.builders import Builder, conv_model, if_model, options, residual_model

RUNTIME = load_runtime("tflm-2026-08")


def spec_of(
    source: Source,
    custom: dict[str, OperatorEntry] | None = None,
    target: str | None = "cortex-m7",
    kernels: str | None = None,
    **values: Any,
) -> ProgramSpec:
    header = HeaderSpec(
        name="m",
        tool_version="0.1.0",
        model_sha256=source.sha256,
        model_bytes=len(source.blob),
        target=HeaderTarget("cortex-m7", "cortex-m7", "cmsis-nn"),
        arena_bytes=None,
        arena_is_lower_bound=True,
        layout_bytes=0,
        lower_bound_bytes=0,
        tensors=(),
        inputs=(),
        outputs=(),
    )
    device = None if target is None else load_target(target).with_overrides(kernels=kernels)
    return program_spec(source, header, device, custom, **values)


def source_of(model: Model) -> Source:
    return Source("m.tflite", write_model(model), model)


def unwritten(model: Model) -> Source:
    """A source whose bytes nobody reads."""
    return Source("m.tflite", b"", model)


def custom_model(*codes: str) -> Model:
    build = Builder()
    x = y = build.activation([1, 4, 4, 2])
    for code in codes:
        x, before = build.activation([1, 4, 4, 2]), x
        build.operator("CUSTOM", [before], [x], custom_code=code)
    return build.model([y], [x])


def method_for(code: str) -> str:
    """The method by TFLM's habit of naming: ADD and the words of the operator, in letters of any case."""
    return "add" + code.replace("_", "").lower()


def test_methods_are_named_after_their_operators() -> None:
    for code, method in RUNTIME.resolver:
        assert method.lower() == method_for(code)


def operators_in(blob: bytes) -> set[str]:
    """Builtins and custom codes that some operator of the file has, by LiteRT's own reader."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    names = {code: name for name, code in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(blob))
    found = set()
    for graph in model.subgraphs:
        for operator in graph.operators or ():
            code = model.operatorCodes[operator.opcodeIndex]
            builtin = max(code.builtinCode, code.deprecatedBuiltinCode)
            found.add(code.customCode.decode() if names[builtin] == "CUSTOM" else names[builtin])
    return found


@pytest.mark.slow
@over_models(model_files())
def test_every_real_model_has_its_operators_or_is_refused(path: Path) -> None:
    source = open_tflite(path)
    used = operators_in(source.blob)
    known = dict((*RUNTIME.resolver, *RUNTIME.custom_resolver))
    lacking = used - known.keys()
    if lacking:
        with pytest.raises(UnsupportedModelError) as refused:
            spec_of(source)
        assert any(name in refused.value.what for name in lacking)
        assert refused.value.exit_code == 3
        return
    spec = spec_of(source)
    assert Counter((item.operator, item.method) for item in spec.registrations) == Counter(
        (name, known[name]) for name in used
    )
    text = ops_header(spec)
    assert f"#define M_OP_COUNT {len(used)}\n" in text
    assert text.count("resolver.Add") == len(used)


def test_an_operator_that_tflm_lacks_is_refused_with_what_to_do() -> None:
    with pytest.raises(UnsupportedModelError, match=r"has no kernel for GELU \(1x\)") as refused:
        spec_of(unwritten(graphs.chain([4, 4], "GELU")))
    assert "--project header" in str(refused.value)
    assert "--custom-operators" not in str(refused.value)


def test_a_custom_operator_is_the_users_or_refused() -> None:
    source = source_of(custom_model("MyOp", "SignalWindow", "MyOp"))
    with pytest.raises(UnsupportedModelError, match=r"MyOp \(2x\)") as refused:
        spec_of(source)
    assert "--custom-operators" in str(refused.value)
    window = Registration("SignalWindow", "AddWindow")
    assert spec_of(source, {"MyOp": OperatorEntry("MyOp")}).registrations == (Registration("MyOp", None), window)
    method = OperatorEntry("MyOp", resolver_method="AddMine")
    assert spec_of(source, {"MyOp": method}).registrations == (Registration("MyOp", "AddMine"), window)
    replaced = {"MyOp": method, "SignalWindow": OperatorEntry("SignalWindow", resolver_method="AddMyWindow")}
    assert spec_of(source, replaced).registrations[1] == Registration("SignalWindow", "AddMyWindow")


def functions_of(model: Model, target: str | None = "cortex-m7", **overrides: Any) -> dict[str, str | None]:
    """The function of each operator."""
    spec = spec_of(unwritten(model), target=target, **overrides)
    assert all(bool(item.function) == bool(item.header) for item in spec.registrations)
    return {item.operator: item.function for item in spec.registrations}


def test_int8_models_register_kernels_for_int8() -> None:
    assert functions_of(residual_model()) == {
        "CONV_2D": "Register_CONV_2D_INT8",
        "DEPTHWISE_CONV_2D": "Register_DEPTHWISE_CONV_2D_INT8",
        "ADD": "Register_ADD_INT8",
        "AVERAGE_POOL_2D": "Register_AVERAGE_POOL_2D_INT8",
        "RESHAPE": None,
        "FULLY_CONNECTED": "Register_FULLY_CONNECTED_INT8",
        "SOFTMAX": "Register_SOFTMAX_INT8",
    }


@pytest.mark.parametrize(("target", "kernels"), [("cortex-m7", "reference"), ("riscv32", None), (None, None)])
def test_reference_and_unknown_kernels_are_for_all_types(target: str | None, kernels: str | None) -> None:
    assert set(functions_of(conv_model(), target, kernels=kernels).values()) == {None}


def add_model(*types: DType) -> Model:
    """A sum of each type."""
    build = Builder()
    inputs, outputs = [], []
    for dtype in types:
        a, b, y = (build.tensor([1, 4], dtype) for _ in range(3))
        build.operator("ADD", [a, b], [y])
        inputs += [a, b]
        outputs.append(y)
    return build.model(inputs, outputs)


def test_one_operator_of_another_type_requires_the_general_kernel() -> None:
    assert functions_of(add_model(DType.INT8, DType.INT8)) == {"ADD": "Register_ADD_INT8"}
    assert functions_of(add_model(DType.INT16)) == {"ADD": "Register_ADD_INT16"}
    assert functions_of(add_model(DType.INT8, DType.INT16)) == {"ADD": None}
    assert functions_of(add_model(DType.INT8, DType.FLOAT32)) == {"ADD": None}


def test_all_subgraphs_count() -> None:
    narrow, wide = add_model(DType.INT8), add_model(DType.INT16)
    for other, function in ((narrow, "Register_ADD_INT8"), (wide, None)):
        model = replace(narrow, subgraphs=(narrow.main, replace(other.main, index=1)))
        assert functions_of(model) == {"ADD": function}


def test_a_custom_operator_with_the_name_of_a_builtin_one_has_its_own_kernel() -> None:
    custom = {"ADD": OperatorEntry("ADD", resolver_method="AddMine")}
    assert spec_of(source_of(custom_model("ADD")), custom).registrations == (Registration("ADD", "AddMine"),)


def test_models_of_one_firmware_share_the_general_kernel() -> None:
    narrow, wide, real = (spec_of(unwritten(add_model(dtype))) for dtype in (DType.INT8, DType.INT16, DType.FLOAT32))
    assert with_same_kernels([narrow, wide]) == (narrow, wide)
    for program in with_same_kernels([narrow, wide, real]):
        assert program.registrations == (Registration("ADD", "AddAdd"),)
    other = spec_of(unwritten(conv_model()))
    assert with_same_kernels([other, real]) == (other, real)


def test_a_description_is_for_custom_operators_alone() -> None:
    with pytest.raises(UnsupportedModelError, match="GELU"):
        spec_of(unwritten(graphs.chain([4, 4], "GELU")), {"GELU": OperatorEntry("GELU", resolver_method="AddGelu")})


def test_operators_count_once_and_in_the_order_of_their_use() -> None:
    spec = spec_of(source_of(if_model()))
    names = [registration.operator for registration in spec.registrations]
    assert names[0] == "IF"
    assert len(names) == len(set(names)) > 1
    build = Builder()
    x = y = build.activation([1, 4])
    for version in (1, 2):
        x, before = build.activation([1, 4]), x
        build.operator("RELU", [before], [x], version=version)
    model = build.model([y], [x])
    assert len(model.operator_codes) == 2
    assert spec_of(source_of(model)).registrations == (Registration("RELU", "AddRelu"),)


def test_the_remaining_fields() -> None:
    model = conv_model()
    spec = spec_of(source_of(model), shared_arena="shared")
    assert spec.commit == RUNTIME.tflm_commit
    assert spec.runtime == "tflm-2026-08"
    assert spec.shared_arena == "shared"
    assert spec.events == len(model.main.operators)
    assert spec.clock_hz == load_target("cortex-m7").clock_hz
    assert spec.resource_variables == 0
    assert program_spec(source_of(model), spec.header, None, None).clock_hz is None


def test_events_count_the_operators_of_called_subgraphs() -> None:
    model = if_model()
    assert spec_of(source_of(model)).events == sum(len(graph.operators) for graph in model.subgraphs)


def endless() -> Model:
    """A WHILE whose end depends on the data; another subgraph is never called."""
    boolean = graphs.tensor(1, 1, dtype=DType.BOOL)
    loop = graphs.operator(0, "WHILE", [0], [1], "WhileOptions", cond_subgraph_index=1, body_subgraph_index=2)
    return graphs.model(
        graphs.graph([graphs.tensor(0, 1), graphs.tensor(1, 1)], [loop], [0], [1]),
        graphs.graph([graphs.tensor(0, 1), boolean], [graphs.operator(0, "CAST", [0], [1])], [0], [1], 1),
        graphs.graph([graphs.tensor(0, 1), graphs.tensor(1, 1)], [graphs.operator(0, "ABS", [0], [1])], [0], [1], 2),
        graphs.graph([graphs.tensor(0, 1), graphs.tensor(1, 1)], [graphs.operator(0, "NEG", [0], [1])], [0], [1], 3),
    )


def test_events_that_depend_on_the_data_are_not_known() -> None:
    spec = spec_of(unwritten(endless()))
    assert spec.events is None
    assert [registration.operator for registration in spec.registrations] == ["WHILE", "CAST", "ABS", "NEG"]


def test_resource_variables_are_counted_once_each() -> None:
    build = Builder()
    x = build.activation([1, 4])
    build.operator("RELU", [x], [y := build.activation([1, 4])])
    for name in ("a", "b", "a"):
        handle = build.tensor([1], DType.RESOURCE)
        build.operator("VAR_HANDLE", [], [handle], options("VarHandleOptions", shared_name=name))
        build.operator("ASSIGN_VARIABLE", [handle, y], [])
    assert spec_of(unwritten(build.model([x], [y]))).resource_variables == 2


LONG = "a_keyword_spotting_model_of_the_third_generation"


@pytest.mark.parametrize("stem", ["kws", "my-model v2", "kws.int8", "A" * 31])
def test_a_name_that_is_kept_is_not_reported(stem: str) -> None:
    assert name_findings(Path(f"{stem}.tflite"), None) == ()


@pytest.mark.parametrize(
    ("stem", "what"),
    [
        (LONG, "is shortened to"),
        ("x" * 200, "is shortened to"),
        ("8bit", "is not a valid C name and becomes"),
        ("modèle", "is not a valid C name and becomes"),
        ("register", "is not a valid C name and becomes"),
        ("stdint", "is not a valid C name and becomes"),
    ],
)
def test_the_name_that_is_used_is_reported(stem: str, what: str) -> None:
    path = Path(f"{stem}.tflite")
    (finding,) = name_findings(path, None)
    assert (finding.rule, finding.level) == ("name-changed", "note")
    assert f"{what} {output_name(path, None)!r} in files and in C; choose one with --name" in finding.message
    assert len(finding.message) < 200
    assert name_findings(path, "kws") == ()


def edgetool(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "edgetool", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", ["convert", "emit"])
def test_the_commands_report_it(command: str, tmp_path: Path) -> None:
    path = tmp_path / f"{LONG}.tflite"
    path.write_bytes(write_model(chain([32, 32])))
    used = output_name(path, None)
    text = " ".join(edgetool(command, path, "--target", "cortex-m7", "-o", tmp_path / "out").split())
    assert f"'{LONG}' is shortened to '{used}' in files and in C; choose one with --name" in text
    assert (tmp_path / "out" / f"{used}.h").is_file()
    named = edgetool(command, path, "--target", "cortex-m7", "-o", tmp_path / "own", "--name", "kws", "--json")
    assert "name-changed" not in {finding["rule"] for finding in json.loads(named)["findings"]}


def test_models_that_share_an_arena_are_renamed_by_their_files(tmp_path: Path) -> None:
    for stem, sizes in (("small", [32, 32]), (LONG, [16, 16])):
        (tmp_path / f"{stem}.tflite").write_bytes(write_model(chain(sizes)))
    files = [tmp_path / "small.tflite", tmp_path / f"{LONG}.tflite"]
    text = edgetool("emit", *files, "--shared-arena", "--target", "cortex-m7", "-o", tmp_path / "out")
    assert "rename the file to get another" in " ".join(text.split())
