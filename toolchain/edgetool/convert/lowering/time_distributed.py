"""TimeDistributed: Keras unrolls it into slices of any rank and a PACK; steps can be a batch instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgetool.convert.lowering.context import Lower, LowerContext
from edgetool.convert.lowering.walk import children

# What TFLM runs with a batch of one only, or what keeps state from call to call.
ONE_AT_A_TIME = frozenset(
    "RNN SimpleRNN LSTM GRU Bidirectional ConvLSTM1D ConvLSTM2D ConvLSTM3D StackedRNNCells TimeDistributed".split()
)


def _time_distributed(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    tf, inner = context.tf, layer.layer
    as_batch = not ONE_AT_A_TIME & set(_classes(inner))

    def call(inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        masked = mask is not None and getattr(inner, "_call_has_mask_arg", False)
        if masked or not inputs.shape.is_fully_defined():
            return context.original(inputs, training=training, mask=mask)
        batch, steps, *rest = inputs.shape.as_list()
        options = {"training": training} if getattr(inner, "_call_has_training_arg", False) else {}
        if as_batch:
            return _unmerged(tf, inner.call(tf.reshape(inputs, (batch * steps, *rest)), **options), batch, steps)
        flat = tf.reshape(inputs, (batch, steps, -1))
        outputs = [
            tf.expand_dims(inner.call(tf.reshape(flat[:, step], (batch, *rest)), **options), 1) for step in range(steps)
        ]
        return tf.concat(outputs, 1)

    return call


def _unmerged(tf: Any, outputs: Any, batch: int, steps: int) -> Any:
    return tf.reshape(outputs, (batch, steps, *outputs.shape[1:]))


def _classes(layer: Any) -> list[str]:
    return [
        *(kind.__name__ for kind in type(layer).__mro__),
        *(name for child in children(layer) for name in _classes(child)),
    ]


RULES: dict[str, Lower] = {"TimeDistributed": _time_distributed}
