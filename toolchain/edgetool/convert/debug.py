"""Measure on the calibration samples how much each layer loses by quantization. In the child process only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool import child
from edgetool.convert.lite import interpreter
from edgetool.convert.quantizer import LayerMap, QuantizerSettings, consumer_layers, layer_tensors, quantize
from edgetool.errors import UsageError
from edgetool.model.reader import read_model
from edgetool.model.types import Model, Operator

Reals = npt.NDArray[np.float64]
VERIFY = "NumericVerify"
MAX_SAMPLES = 100
BINS = 32
MIN_GAIN_DB = 3.0  # half the noise
MAX_LAYERS_KEPT_FLOAT = 3  # layers that are kept in float, one at a time, to measure the gain
# A layer is rated by the worst quarter of its channels: a sum over all channels hides how much the others lose because
# of one channel with a wide range, and the worst channel alone may be almost zero.
QUANTILE = 0.25
FLOAT32_EPSILON = 2.0**-23  # of a value, by which the next one differs


@dataclass(slots=True)
class _TensorStatistics:
    """Sums over the samples of a quantized tensor and its float counterpart, per channel (the last axis)."""

    operator: Operator
    layer: str | None
    cut: bool  # the layer is inserted later, and has no operator here that could stay in float
    scale: float
    zero_point: int
    signal: Reals | None = None
    noise: Reals | None = None
    low: Reals | None = None
    high: Reals | None = None
    count: int = 0
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))

    def add(self, expected: Reals, quantized: npt.NDArray[Any]) -> None:
        """Add one sample."""
        channels = expected.shape[-1] if expected.ndim > 1 else 1
        reals = expected.reshape(-1, channels)
        error = (quantized.astype(np.float64).reshape(-1, channels) - self.zero_point) * self.scale - reals
        signal, noise = np.square(reals).sum(axis=0), np.square(error).sum(axis=0)
        low, high = reals.min(axis=0), reals.max(axis=0)
        if self.signal is None or self.noise is None or self.low is None or self.high is None:
            self.signal, self.noise, self.low, self.high = signal, noise, low, high
        else:
            self.signal, self.noise = self.signal + signal, self.noise + noise
            self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)
        self.count += reals.size
        first, last = self.span
        places = np.floor((reals.ravel() - first) / (last - first) * BINS).astype(np.int64)
        self.counts += np.bincount(np.clip(places, 0, BINS - 1), minlength=BINS)

    @property
    def span(self) -> tuple[float, float]:
        """The range of real values of the type's 256 steps, extended by half a step at both ends."""
        return (-128.5 - self.zero_point) * self.scale, (127.5 - self.zero_point) * self.scale

    @property
    def sqnr_db(self) -> float | None:
        """The SQNR of the worst quarter of channels; None if all are without noise or zero."""
        assert self.signal is not None
        assert self.noise is not None
        nonzero = (self.signal > 0) & (self.noise > 0)
        if not nonzero.any():
            return None
        return float(np.quantile(10 * np.log10(self.signal[nonzero] / self.noise[nonzero]), QUANTILE, method="lower"))

    @property
    def widest_channel(self) -> tuple[int, float]:
        """The channel with the widest range, and the ratio of its range to the median range.

        A range below float32's rounding of the widest counts as that rounding: the quotient would be meaningless.
        """
        assert self.low is not None
        assert self.high is not None
        reach = np.maximum(np.abs(self.low), np.abs(self.high))
        reaches = np.maximum(reach[reach > 0], reach.max() * FLOAT32_EPSILON)
        if not reaches.size:
            return 0, 1.0
        return int(reach.argmax()), float(reach.max() / np.median(reaches))

    def to_json(self, classes: Mapping[str, str]) -> dict[str, Any]:
        """Return the statistics as JSON."""
        assert self.noise is not None
        assert self.low is not None
        assert self.high is not None
        channel, times = self.widest_channel
        return {
            "name": self.layer or "",
            "layer_class": classes.get(self.layer or "", ""),
            "operator": self.operator.label,
            "sqnr_db": self.sqnr_db,
            "rmse_over_scale": math.sqrt(float(self.noise.sum()) / self.count) / self.scale,
            "scale": self.scale,
            "minimum": float(self.low.min()),
            "maximum": float(self.high.max()),
            "channels": len(self.low),
            "widest_channel": channel,
            "widest_over_median": times,
            "histogram": {"low": self.span[0], "high": self.span[1], "counts": self.counts.tolist()},
            "kept_float": [],
            "kept_float_sqnr_db": None,
        }


def debug_quantization(
    settings: QuantizerSettings,
    calibrated: bytes,
    rows: Callable[[], Sequence[Mapping[str, Any]]],
    layers: LayerMap,
    progress: child.Progress,
) -> dict[str, Any]:
    """Return the loss of each layer as JSON, the worst layer first.

    Each quantized operator is compared with its float counterpart on the same inputs, the results of the quantized
    operators before it: the loss of one layer is not attributed to those after it. Of a layer with several operators,
    the worst is reported. `rows` returns samples by the names of the signature's inputs.

    layers: each as in report.layer_loss.LayerLoss. The worst few are kept in float alone, and, if the gain is small,
    together with the layers that read them: kept_float names these, kept_float_sqnr_db is the resulting SQNR of the
    model's worst output, and sqnr_db that of the model as it is.
    """
    progress("measuring each layer")
    samples = list(rows())[:MAX_SAMPLES]
    verified = quantize(settings, calibrated, verify=True).content
    seen = _measure(verified, samples, layers)
    worst: dict[str, _TensorStatistics] = {}
    for item in sorted(seen, key=_sqnr_key):
        worst.setdefault(item.layer or f"operator {item.operator.index}", item)
    entries = [item.to_json(layers.classes) for item in worst.values()]
    fixed = {item.layer for item in seen if item.cut}
    expected = _outputs(calibrated, samples)
    baseline = _worst_output(expected, _outputs(quantize(settings, calibrated).content, samples))

    def sqnr_keeping(names: Sequence[str]) -> float | None:
        try:
            denied = layer_tensors(calibrated, layers, names)
        except UsageError:
            return None
        content = quantize(settings, calibrated, denied=denied).content
        return _worst_output(expected, _outputs(content, samples))

    def best_kept(name: str) -> tuple[list[str], float | None]:
        alone = sqnr_keeping([name])
        if alone is not None and alone > (baseline or 0.0) + MIN_GAIN_DB:
            return [name], alone
        names = [name, *consumer_layers(calibrated, layers, name)]
        together = sqnr_keeping(names)
        return (
            (names, together) if together is not None and together > (alone or 0.0) + MIN_GAIN_DB else ([name], alone)
        )

    for entry in [entry for entry in entries if entry["name"] not in ("", *fixed)][:MAX_LAYERS_KEPT_FLOAT]:
        progress(f"keeping {entry['name']} in float")
        entry["kept_float"], entry["kept_float_sqnr_db"] = best_kept(entry["name"])
    return {"layers": entries, "sqnr_db": baseline, "samples": len(samples)}


def _sqnr_key(item: _TensorStatistics) -> float:
    return math.inf if item.sqnr_db is None else item.sqnr_db


def _measure(verified: bytes, samples: Sequence[Mapping[str, Any]], layers: LayerMap) -> list[_TensorStatistics]:
    model = read_model(verified)
    graph = model.main
    producers = {index: operator for operator in graph.operators for index in operator.outputs}
    pairs: list[tuple[int, int, _TensorStatistics]] = []
    for operator in graph.operators:
        if operator.custom_code != VERIFY:
            continue
        quantized, real = operator.inputs
        baseline = graph.tensors[quantized].per_tensor
        if baseline is None or quantized not in producers:
            continue
        producer = producers[quantized]
        layer = layers.layer_of(producer, model)
        end = layers.cut_layer_of(producer, model) if layer is None else None
        pairs.append((quantized, real, _TensorStatistics(producer, layer or end, end is not None, *baseline)))
    # The converter writes the verifiers of an operator with several results in random order: see quantizer.
    pairs.sort(key=lambda pair: (producers[pair[0]].index, producers[pair[0]].outputs.index(pair[0])))
    runner = _Runner(verified, keep=True)
    for row in samples:
        runner.run(row)
        for quantized, real, item in pairs:
            item.add(runner.tensor(real).astype(np.float64), runner.tensor(quantized))
    return [item for _, _, item in pairs if item.count]


def _outputs(content: bytes, samples: Sequence[Mapping[str, Any]]) -> list[Reals]:
    """Return the real-valued outputs, (samples, ...) each, in the signature's order."""
    runner = _Runner(content)
    rows = [runner.run(row) for row in samples]
    return [np.stack(values) for values in zip(*rows, strict=True)]


def _worst_output(expected: Sequence[Reals], actual: Sequence[Reals]) -> float | None:
    ratios_db = []
    for reference, quantized in zip(expected, actual, strict=True):
        signal, noise = float(np.square(reference).sum()), float(np.square(reference - quantized).sum())
        if signal > 0 and noise > 0:
            ratios_db.append(10 * math.log10(signal / noise))
    return min(ratios_db, default=None)


class _Runner:
    """A .tflite of one signature on TensorFlow Lite's interpreter, with inputs and outputs in real numbers."""

    def __init__(self, content: bytes, *, keep: bool = False) -> None:
        self._interpreter = interpreter(content, keep_tensors=keep)
        (signature,) = _signatures(read_model(content))
        self._inputs, self._outputs = signature
        self._details = {
            detail["index"]: detail
            for detail in (*self._interpreter.get_input_details(), *self._interpreter.get_output_details())
        }

    def run(self, row: Mapping[str, Any]) -> list[Reals]:
        """Return the outputs for one sample: arrays with a batch of 1 by the names of the inputs."""
        for name, index in self._inputs:
            scale, zero_point = self._details[index]["quantization"]
            dtype = self._details[index]["dtype"]
            values = np.asarray(row[name])
            if scale:
                limits = np.iinfo(dtype)
                values = np.clip(np.round(values / scale) + zero_point, limits.min, limits.max)
            self._interpreter.set_tensor(index, values.astype(dtype))
        self._interpreter.invoke()
        return [self._real(index) for _, index in self._outputs]

    def tensor(self, index: int) -> npt.NDArray[Any]:
        """Return a tensor's stored values after a run."""
        return np.asarray(self._interpreter.get_tensor(index))

    def _real(self, index: int) -> Reals:
        scale, zero_point = self._details[index]["quantization"]
        values = self.tensor(index).astype(np.float64)
        return (values - zero_point) * scale if scale else values


NamedTensors = tuple[tuple[str, int], ...]


def _signatures(model: Model) -> list[tuple[NamedTensors, NamedTensors]]:
    return [
        (signature.inputs, tuple(sorted(signature.outputs))) for signature in model.signatures if not signature.subgraph
    ]
