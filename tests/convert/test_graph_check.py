"""SavedModels that reach out of themselves are refused by the operation's name, before any of them runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgetool.convert.graph_check import HARMLESS, REACHES_OUT, SAVER, check_graphs
from edgetool.convert.load_saved_model import load_saved_model
from edgetool.errors import InvalidModelError, UnsupportedModelError

tf = pytest.importorskip("tensorflow", reason="needs the convert extra")
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


# What the function of a SavedModel does with a file, and the operation by which it is told.
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
def test_an_operation_that_reaches_out_is_refused_by_name(tmp_path: Path, name: str) -> None:
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


@pytest.mark.parametrize("where", ["signature", "main op"])
def test_saving_when_the_model_is_loaded_or_called_is_refused(tmp_path: Path, where: str) -> None:
    model = of_tensorflow_1(tmp_path / "old")
    graph = model.meta_graphs[0]
    if where == "main op":
        graph.collection_def["saved_model_main_op"].node_list.value.append("save/control_dependency")
    else:
        (result,) = (node for node in graph.graph_def.node if node.name == "mul")
        result.input.append("^save/SaveV2")
    with pytest.raises(UnsupportedModelError, match="SaveV2"):
        check_graphs(written(tmp_path / "saving", model))


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../b", "C:\\x", "\\\\host\\share"])
def test_an_asset_outside_is_refused(tmp_path: Path, name: str) -> None:
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    model.meta_graphs.add().asset_file_def.add(filename=name)
    with pytest.raises(UnsupportedModelError, match="outside the SavedModel"):
        check_graphs(written(tmp_path / "model", model))
    model.meta_graphs[0].asset_file_def[0].filename = "words/list..txt"
    check_graphs(written(tmp_path / "model", model))


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    content = saved(tmp_path / "model", lambda: None) / "saved_model.pb"
    content.write_bytes(content.read_bytes()[:-40])
    with pytest.raises(InvalidModelError, match="damaged or truncated"):
        check_graphs(tmp_path / "model")


# ---- the table against TensorFlow's own list

# Arguments by which an operation is told a place outside of its graph.
PLACE = re.compile(r"(^|_)(files?|filenames?|filename|path|dir|logdir|directory|address|url|urls|uri|prefix)$")
PLACE_WITH_MORE = re.compile(r"^(file|path|vocab_file)_|_path_|_file$|descriptor_source")
# These have such an argument, and reach nothing with it.
INSIDE = {
    "SetStatsAggregatorDataset",
    "ShardedFilename",
    "ShardedFilespec",
}


def test_every_operation_that_is_told_a_place_is_refused() -> None:
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
    refused = {name for name in found if any(pattern.fullmatch(name) for pattern in REACHES_OUT)}
    assert found - refused - SAVER - set(HARMLESS) - INSIDE == set()
