"""Signatures of SavedModels: which is taken, with which inputs, and what it brings along.

SavedModels that reach out of themselves are refused by the operation's name, before any of them runs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert.load_saved_model import EXTERNAL_ACCESS, HARMLESS_PREFIXES, SAVER, check_graphs, load_saved_model
from edgetool.convert.tflite import ConverterOptions, convert, order_of
from edgetool.errors import EdgetoolError, InvalidModelError, UnsupportedModelError, UsageError
from edgetool.model.reader import read_model

tf = pytest.importorskip("tensorflow", reason="needs the convert extra")


class Several(tf.Module):  # type: ignore[misc, name-defined]
    """Functions that share a variable, beside a table that one of them reads."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(np.arange(12, dtype=np.float32).reshape(4, 3))
        keys, values = tf.constant([0, 1, 2], tf.int64), tf.constant([0.0, 10.0, 20.0])
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1.0)

    def two(self, zeta: Any, alpha: Any) -> Any:
        return {"sum": alpha @ self.weight + zeta, "other": zeta * 2}

    def image(self, image: Any) -> Any:
        return {"part": tf.reshape(image[:, :4, :4], (-1, 48))}

    def lookup(self, key: Any) -> Any:
        return {"value": self.table.lookup(key)}

    def text(self, text: Any) -> Any:
        return {"length": tf.strings.length(text)}

    def double(self, x: Any) -> Any:
        return {"double": x * 2}

    def nothing(self) -> Any:
        return {"sum": tf.reduce_sum(self.weight)}


# Name of a signature -> the method that it calls, and what it takes.
SIGNATURES: dict[str, tuple[str, list[Any]]] = {
    "two": ("two", [tf.TensorSpec((None, 3)), tf.TensorSpec((None, 4))]),
    "image": ("image", [tf.TensorSpec((None, None, None, 3), name="image")]),
    "lookup": ("lookup", [tf.TensorSpec((None, 2), tf.int64)]),
    "text": ("text", [tf.TensorSpec((None,), tf.string)]),
    "any_rank": ("double", [tf.TensorSpec(None)]),
    "scalar": ("double", [tf.TensorSpec(())]),
    "eight": ("double", [tf.TensorSpec((8, 4))]),
    "nothing": ("nothing", []),
}


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("several")
    module = Several()
    functions = {
        name: tf.function(getattr(module, method), input_signature=taken)
        for name, (method, taken) in SIGNATURES.items()
    }
    tf.saved_model.save(module, str(path), signatures=functions)
    return path


def load(path: Path, signature: str | None = None, shapes: Any = ()) -> Any:
    return load_saved_model(tf, path, trust_model_code=False, signature=signature, input_shapes=shapes)


def test_several_signatures_are_listed_with_their_inputs_and_outputs(several: Path) -> None:
    for signature, kind in ((None, UnsupportedModelError), ("tow", UsageError)):
        with pytest.raises(kind) as caught:
            load(several, signature)
        reported = str(caught.value)
        assert "two(alpha: float32 (None, 4), zeta: float32 (None, 3)) -> other: float32 (None, 3), sum: " in reported
        assert "image(image: float32 (None, None, None, 3)) -> part: float32 (None, 48)" in reported
        assert "any_rank(x: float32 of any rank)" in reported
        assert "--signature" in reported


def test_a_signature_can_be_selected_by_name(several: Path) -> None:
    found = load(several, "two")
    assert [(spec.name, spec.shape) for spec in found.specs] == [("alpha", (4,)), ("zeta", (3,))]
    assert found.output_names == ("other", "sum")
    alpha, zeta = np.ones((1, 4), np.float32), np.full((1, 3), 0.5, np.float32)
    other, total = found.call([tf.constant(alpha), tf.constant(zeta)])
    np.testing.assert_allclose(other, zeta * 2)
    np.testing.assert_allclose(total, [[18.5, 22.5, 26.5]])


def test_open_sizes_are_given(several: Path) -> None:
    assert load(several, "image", [[None, [8, 6, 3]]]).specs[0].shape == (8, 6, 3)
    with pytest.raises(UsageError, match=r"fails with inputs of shape \(1, 2, 2, 3\): .*12 values") as caught:
        load(several, "image", [("image", (2, 2, 3))])
    assert caught.value.where == "--input-shape"


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("image", r"\(None, None, 3\).*--input-shape image=SIZE,SIZE,3"),
        ("text", "input 'text' is of type string"),
        ("any_rank", "input 'x' has an unknown rank"),
        ("scalar", "input 'x' is a scalar without a batch dimension"),
        ("eight", r"fixed to a batch of 8, \(8, 4\).*tf.TensorSpec\(\(None, 4\)\)"),
        ("nothing", "has no inputs"),
    ],
)
def test_unusable_signatures_are_reported(several: Path, signature: str, said: str) -> None:
    with pytest.raises(EdgetoolError, match=said) as caught:
        load(several, signature)
    assert caught.value.exit_code == 3


def test_the_table_of_another_signature_does_not_come_along(several: Path, tmp_path: Path) -> None:
    """TensorFlow Lite has no operator for tables, and would refuse the whole model."""
    model = load(several, "two")
    assert len(model.tracked) == 1
    assert load(several, "lookup").tracked.table is not None
    rng = np.random.default_rng(0)
    samples = [rng.normal(size=(4, *spec.shape)).astype(np.float32) for spec in model.specs]
    content = convert(
        tf, model, samples, ConverterOptions("float32", "float32", False), tmp_path, lambda step: None
    ).content
    order = order_of(content, model)
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    for detail, index in zip(interpreter.get_input_details(), order.inputs, strict=True):
        interpreter.set_tensor(detail["index"], samples[index][:1])
    interpreter.invoke()
    expected = model.call([tf.constant(array[:1]) for array in samples])
    for detail, index in zip(interpreter.get_output_details(), order.outputs, strict=True):
        np.testing.assert_allclose(interpreter.get_tensor(detail["index"]), expected[index], rtol=1e-5)


def test_what_keras_exports(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    series = keras.Input((None, 3), name="series")
    model = keras.Model({"series": series}, {"last": keras.layers.Conv1D(2, 3)(series), "first": series * 2})
    model.export(str(tmp_path / "exported"), verbose=False)
    for signature in (None, "serve"):
        found = load(tmp_path / "exported", signature, [("series", (9, 3))])
        assert [(spec.name, spec.shape) for spec in found.specs] == [("series", (9, 3))]
        assert found.output_names == ("first", "last")


def test_what_keras_2_saves(tmp_path: Path) -> None:
    old = pytest.importorskip("tf_keras")
    image = old.Input((None, None, 3), name="image")
    pooled = old.layers.GlobalAveragePooling2D()(old.layers.Conv2D(2, 3)(image))
    old.Model(image, old.layers.Dense(2)(pooled)).save(str(tmp_path / "saved"))
    found = load(tmp_path / "saved", None, [(None, (8, 8, 3))])
    assert [(spec.name, spec.shape) for spec in found.specs] == [("image", (8, 8, 3))]
    assert [tuple(output.shape) for output in found.call([tf.zeros((1, 8, 8, 3))])] == [(1, 2)]


raw = tf.raw_ops


def save_v2(path: str) -> None:
    raw.SaveV2(prefix=path, tensor_names=["x"], shape_and_slices=[""], tensors=[tf.constant(1.0)])


def restore_v2(path: str) -> None:
    raw.RestoreV2(prefix=path, tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.float32])


def cached(path: str) -> None:
    for _ in tf.data.Dataset.range(3).cache(path):
        pass


def summary(path: str) -> None:
    writer = raw.SummaryWriter()
    raw.CreateSummaryFileWriter(writer=writer, logdir=path, max_queue=1, flush_millis=1, filename_suffix="")


def printed(path: str) -> None:
    tf.print("hostile", output_stream=f"file://{path}")


def sampled(path: str) -> None:
    raw.FixedUnigramCandidateSampler(
        true_classes=[[0]], num_true=1, num_sampled=1, unique=True, range_max=2, vocab_file=path
    )


def decoded(path: str) -> None:
    raw.DecodeProtoV2(
        bytes=[b""], message_type="a", field_names=[], output_types=[], descriptor_source=path, sanitize=False
    )


# What the function of a SavedModel does with a file, and the operation that the message names.
HOSTILE: dict[str, Callable[[str], Any]] = {
    "ReadFile": tf.io.read_file,
    "WriteFile": lambda path: tf.io.write_file(path, "hostile"),
    "MatchingFiles": tf.io.matching_files,
    "PrintV2": printed,
    "SaveV2": save_v2,
    "RestoreV2": restore_v2,
    "MergeV2Checkpoints": lambda path: raw.MergeV2Checkpoints(checkpoint_prefixes=[path], destination_prefix=path),
    "RangeDataset": cached,
    "TextLineDataset": lambda path: raw.TextLineDataset(filenames=[path], compression_type="", buffer_size=0),
    "SummaryWriter": summary,
    "EagerPyFunc": lambda path: tf.py_function(lambda: 1.0, [], tf.float32),
    "DebugIdentityV3": lambda path: raw.DebugIdentityV3(input=1.0, debug_urls=[f"file://{path}"]),
    "WholeFileReaderV2": lambda path: raw.WholeFileReaderV2(),
    "FixedUnigramCandidateSampler": sampled,
    "DecodeProtoV2": decoded,
}


def saved(path: Path, act: Callable[[], Any], *, nested: bool = False) -> Path:
    """A SavedModel whose signature does that, in a branch of a branch if nested."""

    def serve(x: Any) -> Any:
        if nested:
            tf.cond(x[0, 0] > 9, lambda: tf.cond(x[0, 0] > 8, lambda: (act(), 1.0)[1], lambda: 2.0), lambda: 3.0)
        else:
            act()
        return {"y": x * 2.0}

    module = tf.Module()
    module.serve = tf.function(serve, input_signature=[tf.TensorSpec((None, 2), name="x")])
    tf.saved_model.save(module, str(path), signatures=module.serve)
    return path


@pytest.mark.parametrize("name", HOSTILE)
def test_an_operation_with_external_access_is_rejected_by_name(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    path = saved(tmp_path / "model", lambda: HOSTILE[name](str(outside)))
    with pytest.raises(UnsupportedModelError, match=rf"{name} \('.*'\), which .*--trust-model-code") as caught:
        load_saved_model(tf, path, trust_model_code=False)
    assert caught.value.where == str(path)
    assert not outside.exists()


@pytest.mark.parametrize("name", ["PrintV2", "SaveV2"])
def test_it_is_found_in_branches_as_well(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path / "model", lambda: HOSTILE[name](str(tmp_path / "outside")), nested=True)
    with pytest.raises(UnsupportedModelError, match=name):
        check_graphs(path)


def test_a_table_that_a_file_fills_when_it_is_loaded_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("1\n2\n")
    lookup = tf.lookup
    keys = lookup.TextFileInitializer(
        str(tmp_path / "words"), tf.int64, lookup.TextFileIndex.LINE_NUMBER, tf.int64, lookup.TextFileIndex.WHOLE_LINE
    )
    module = tf.Module()
    module.table = lookup.StaticHashTable(keys, -1)
    tf.saved_model.save(module, str(tmp_path / "model"))
    with pytest.raises(UnsupportedModelError, match="InitializeTableFromTextFileV2"):
        check_graphs(tmp_path / "model")


@pytest.mark.parametrize("stream", ["stderr", "stdout", "log(info)"])
def test_printing_is_no_harm(tmp_path: Path, stream: str) -> None:
    check_graphs(saved(tmp_path / "model", lambda: raw.PrintV2(input="hello", output_stream=stream)))


# ---- by hand: what no exporter writes


def written(path: Path, model: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / "saved_model.pb").write_bytes(model.SerializeToString())
    return path


def of_tensorflow_1(folder: Path) -> Any:
    """The protocol buffer of a graph with a variable and a saver, as TensorFlow 1 saves it."""
    from tensorflow.core.protobuf import saved_model_pb2

    old = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = old.placeholder(tf.float32, (None, 2), name="x")
        y = x * old.get_variable("v", initializer=[1.0, 2.0])
        with old.Session(graph=graph) as session:
            session.run(old.global_variables_initializer())
            old.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y})
    model = saved_model_pb2.SavedModel()
    model.ParseFromString((folder / "saved_model.pb").read_bytes())
    return model


def test_the_saver_of_tensorflow_1_may_read_the_models_own_file_only(tmp_path: Path) -> None:
    model = of_tensorflow_1(tmp_path / "old")
    check_graphs(tmp_path / "old")
    load_saved_model(tf, tmp_path / "old", trust_model_code=False)
    graph = model.meta_graphs[0].graph_def
    (restore,) = (node for node in graph.node if node.op == "RestoreV2")
    restore.input[0] = "elsewhere"
    with pytest.raises(UnsupportedModelError, match=r"RestoreV2 \('save/RestoreV2'\)"):
        check_graphs(written(tmp_path / "restoring", model))


@pytest.mark.parametrize("name", ["XlaCallModule", "XlaCustomCallV2"])
def test_native_code_is_refused(tmp_path: Path, name: str) -> None:
    """A module of StableHLO may call any function of the process by its name."""
    model = of_tensorflow_1(tmp_path / "old")
    model.meta_graphs[0].graph_def.node.add(name="native", op=name)
    with pytest.raises(UnsupportedModelError, match=rf"{name} \('native'\), which calls Python or native code"):
        check_graphs(written(tmp_path / "native", model))


MODULES = Path(__file__).parent / "jax_files"


def calls_module(path: Path, module: bytes, shape: tuple[int, ...], result: tuple[int, ...]) -> Path:
    """A SavedModel as JAX exports it."""
    from tensorflow.compiler.tf2xla.python import xla

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec(shape, tf.float32, name="x")])
        def serve(self, x: Any) -> Any:
            (y,) = xla.call_module([x], version=10, module=module, Sout=[result], Tout=[tf.float32], platforms=["CPU"])
            return {"y": y}

    model = Model()
    tf.saved_model.save(model, str(path), signatures=model.serve)
    return path


def test_what_jax_exports(tmp_path: Path) -> None:
    path = calls_module(tmp_path / "jax", (MODULES / "dense.mlirbc").read_bytes(), (1, 8), (1, 3))
    model = load(path)
    (scores,) = model.call([tf.ones((1, 8))])
    assert float(tf.reduce_sum(scores)) == pytest.approx(1.0)
    converted = convert(tf, model, (), ConverterOptions("float32", "float32", False), tmp_path, lambda step: None)
    operators = [operator.label for operator in read_model(converted.content).main.operators]
    assert operators == ["FULLY_CONNECTED", "TANH", "FULLY_CONNECTED", "SOFTMAX"]


@pytest.mark.parametrize("change", ["custom call", "text", "functions"])
def test_a_module_of_jax_that_may_call_functions_is_refused(tmp_path: Path, change: str) -> None:
    name = "custom_call" if change == "custom call" else "dense"
    module = (MODULES / f"{name}.mlirbc").read_bytes()
    model = of_tensorflow_1(tmp_path / "old")
    call = model.meta_graphs[0].graph_def.node.add(name="native", op="XlaCallModule")
    call.attr["module"].s = b"module @jit {}" if change == "text" else module
    if change == "functions":
        call.attr["function_list"].list.func.add(name="f")
    with pytest.raises(UnsupportedModelError, match=r"XlaCallModule \('native'\), which calls Python or native code"):
        check_graphs(written(tmp_path / "native", model))


def test_it_may_not_read_it_when_it_is_called(tmp_path: Path) -> None:
    """Then it would read the file that its own default names."""
    model = of_tensorflow_1(tmp_path / "old")
    node(model, "mul").input.append("^save/RestoreV2")
    with pytest.raises(UnsupportedModelError, match=r"RestoreV2 \('save/RestoreV2'\)"):
        check_graphs(written(tmp_path / "reading", model))


def node(model: Any, name: str) -> Any:
    (found,) = (node for node in model.meta_graphs[0].graph_def.node if node.name == name)
    return found


def in_collection(key: str) -> Callable[[Any], None]:
    return lambda model: model.meta_graphs[0].collection_def[key].node_list.value.append("save/control_dependency")


def as_variable(key: str, field: str) -> Callable[[Any], None]:
    from tensorflow.core.framework import variable_pb2

    def change(model: Any) -> None:
        variable = variable_pb2.VariableDef(**{"initializer_name": "v/Assign", field: "save/SaveV2"})
        model.meta_graphs[0].collection_def[key].bytes_list.value.append(variable.SerializeToString())

    return change


def as_output(change: Callable[[Any], None]) -> Callable[[Any], None]:
    return lambda model: change(model.meta_graphs[0].signature_def["serving_default"].outputs["more"])


def as_component(output: Any) -> None:
    output.composite_tensor.components.add(name="save/control_dependency:0")


def as_values(output: Any) -> None:
    output.coo_sparse.values_tensor_name = "save/control_dependency:0"


# How a SavedModel of TensorFlow 1 has its saver write: what runs when it is loaded or called comes to depend on it.
STARTS: dict[str, Callable[[Any], None]] = {
    "a signature": lambda model: node(model, "mul").input.append("^save/SaveV2"),
    "a sparse output": as_output(as_values),
    "an output of several tensors": as_output(as_component),
    "the main op": in_collection("saved_model_main_op"),
    "the older main op": in_collection("legacy_init_op"),
    "initializers": in_collection("saved_model_initializers"),
    "a table": in_collection("table_initializer"),
    "restoring": lambda model: node(model, "save/restore_all").input.append("^save/SaveV2"),
    "a local variable's initializer": as_variable("local_variables", "initializer_name"),
    "a variable's initializer": as_variable("variables", "initializer_name"),
    "a variable's first value": as_variable("trainable_variables", "initial_value_name"),
    "a variable's value": as_variable("model_variables", "snapshot_name"),
}


@pytest.mark.parametrize("start", STARTS)
def test_saving_when_the_model_is_loaded_or_called_is_refused(tmp_path: Path, start: str) -> None:
    model = of_tensorflow_1(tmp_path / "old")
    STARTS[start](model)
    with pytest.raises(UnsupportedModelError, match="SaveV2"):
        check_graphs(written(tmp_path / "saving", model))


def test_a_model_of_tensorflow_1_with_all_that_it_may_keep_passes(tmp_path: Path) -> None:
    """Its savers, its variables, local ones as well, and a table."""
    old = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = old.placeholder(tf.float32, (None, 2), name="x")
        local = old.get_local_variable("l", initializer=[3.0, 4.0], use_resource=True)
        table = old.lookup.StaticHashTable(old.lookup.KeyValueTensorInitializer([1], [2.0]), -1.0)
        y = (
            x * old.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
            + local
            + table.lookup(tf.constant([1]))
        )
        old.train.Saver()
        saver = old.train.Saver(sharded=True)
        old.add_to_collection("savers", saver)
        with old.Session(graph=graph) as session:
            session.run([old.global_variables_initializer(), old.local_variables_initializer()])
            session.run(old.tables_initializer())
            builder = old.saved_model.Builder(str(tmp_path / "old"))
            signature = old.saved_model.predict_signature_def({"x": x}, {"y": y})
            builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, saver=saver)
            builder.save()
    loaded = load_saved_model(tf, tmp_path / "old", trust_model_code=False)
    assert loaded.call([tf.ones((1, 2))])[0].numpy().tolist() == [[6.0, 8.0]]


@pytest.mark.parametrize("kept", ["function", "bare_concrete_function"])
def test_a_function_that_only_an_object_names_is_looked_at(tmp_path: Path, kept: str) -> None:
    path = saved(tmp_path / "model", lambda: None)
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    model.ParseFromString((path / "saved_model.pb").read_bytes())
    graph = model.meta_graphs[0]
    hidden = graph.graph_def.library.function.add()
    hidden.signature.name = "hidden"
    hidden.node_def.add(name="saver", op="SaveV2")
    check_graphs(written(tmp_path / "unnamed", model))
    owner = graph.object_graph_def.nodes.add()
    if kept == "function":
        owner.function.concrete_functions.append("hidden")
    else:
        owner.bare_concrete_function.concrete_function_name = "hidden"
    with pytest.raises(UnsupportedModelError, match=r"SaveV2 \('saver'\)"):
        check_graphs(written(tmp_path / "named", model))


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../b", "C:\\x", "\\\\host\\share"])
def test_an_asset_outside_is_refused(tmp_path: Path, name: str) -> None:
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    model.meta_graphs.add().asset_file_def.add(filename=name)
    with pytest.raises(UnsupportedModelError, match="outside the SavedModel"):
        check_graphs(written(tmp_path / "model", model))
    model.meta_graphs[0].asset_file_def[0].filename = "words/list..txt"
    check_graphs(written(tmp_path / "model", model))


@pytest.mark.parametrize("name", ["../../etc/passwd", "words.txt"])
def test_an_asset_that_tensorflow_1_keeps_is_looked_at_as_well(tmp_path: Path, name: str) -> None:
    from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

    model = saved_model_pb2.SavedModel()
    kept = model.meta_graphs.add().collection_def["saved_model_assets"].any_list.value
    kept.add().Pack(meta_graph_pb2.AssetFileDef(filename=name))
    kept.add().Pack(meta_graph_pb2.TensorInfo(name="/no/asset"))
    with pytest.raises(UnsupportedModelError, match="outside") if ".." in name else contextlib.nullcontext():
        check_graphs(written(tmp_path / "model", model))


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    content = saved(tmp_path / "model", lambda: None) / "saved_model.pb"
    content.write_bytes(content.read_bytes()[:-40])
    with pytest.raises(InvalidModelError, match="damaged or truncated"):
        check_graphs(tmp_path / "model")


# ---- the table against TensorFlow's own list

# Arguments that refer an operation to a place outside of its graph.
PLACE = re.compile(r"(^|_)(files?|filenames?|filename|path|dir|logdir|directory|address|url|urls|uri|prefix)$")
PLACE_WITH_MORE = re.compile(r"^(file|path|vocab_file)_|_path_|_file$|descriptor_source")
# These have such an argument, and reach nothing with it.
INSIDE = {
    "SetStatsAggregatorDataset",
    "ShardedFilename",
    "ShardedFilespec",
}


def test_every_operation_that_takes_a_path_is_rejected() -> None:
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    operations = op_def_pb2.OpList()
    operations.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    found = {
        operation.name
        for operation in operations.op
        for argument in (*operation.input_arg, *operation.attr)
        if PLACE.search(argument.name) or PLACE_WITH_MORE.search(argument.name)
    }
    assert len(found) > 50
    refused = {name for name in found if any(pattern.fullmatch(name) for pattern in EXTERNAL_ACCESS)}
    assert found - refused - SAVER - set(HARMLESS_PREFIXES) - INSIDE == set()
