"""What single layers lose when quantized, as types. Field names are the JSON's own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often values fell into bins of one width; low and high are the outer edges, in real numbers."""

    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayerLoss:
    """One layer's output, quantized, against the same operator in float on the same inputs.

    name and layer_class are the Keras layer's, "" where it is not known; operator is what it became, the worst of
    several. sqnr_db: of the worst quarter of its channels; null where nothing is lost. rmse_over_scale: the error in
    quantization steps; rounding alone is about 0.29. minimum, maximum: of the float values. widest_channel reaches
    widest_over_median times as far as the median channel does. histogram: of the float values, over what the 256 steps
    reach. kept_float_sqnr_db: that of the model's worst output with the layers of kept_float in float; null where that
    was not tried.
    """

    name: str
    layer_class: str
    operator: str
    sqnr_db: float | None
    rmse_over_scale: float
    scale: float
    minimum: float
    maximum: float
    channels: int
    widest_channel: int
    widest_over_median: float
    histogram: Histogram
    kept_float: tuple[str, ...] = ()
    kept_float_sqnr_db: float | None = None
