"""Layers of PyTorch, channels first, with the weights that Keras's have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from benchmarks.foreign.layers import Layers, Padding, Pair, pads, pair
from torch import nn
from torch.nn import functional

# By the name of a layer, its arrays in the order of Keras.
Weights = Mapping[str, Sequence[Any]]
ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "elu": functional.elu,
    "gelu": functional.gelu,
    "hard_sigmoid": functional.hardsigmoid,
    "hard_swish": functional.hardswish,
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.125),
    "relu": torch.relu,
    "relu6": functional.relu6,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "softmax": lambda x: torch.softmax(x, -1),
    "tanh": torch.tanh,
}


class TorchNetwork(nn.Module):
    """A network whose layers become its modules when it is first called."""

    def __init__(self, network: Callable[..., Any], weights: Weights) -> None:
        super().__init__()
        self._network, self._weights = network, weights

    def forward(self, *inputs: Any) -> Any:
        return self._network(TorchLayers(self, self._weights), *inputs)


class Embedding(nn.Module):
    """Projects frames, and adds a learned vector to each."""

    def __init__(self, steps: int, features: int, width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(features, width, bias=False)
        self.positions = nn.Parameter(torch.zeros(steps, width))

    def forward(self, x: Any) -> Any:
        return self.projection(x) + self.positions


class TorchLayers(Layers):
    """Takes each layer from the network, after adding it to the network with its weights the first time."""

    def __init__(self, network: nn.Module, weights: Weights) -> None:
        super().__init__()
        self._network, self._weights = network, weights

    def _module(self, kind: str, make: Callable[[], nn.Module], load: Callable[..., dict[str, Any]]) -> nn.Module:
        name = self.name(kind)
        if not hasattr(self._network, name):
            module = make()
            arrays = {key: torch.from_numpy(np.array(a, np.float32)) for key, a in load(*self._weights[name]).items()}
            module.load_state_dict({**module.state_dict(), **arrays})
            self._network.add_module(name, module.eval())
        module = getattr(self._network, name)
        assert isinstance(module, nn.Module)
        return module

    def channels(self, x: Any) -> int:
        return int(x.shape[1])

    def _convolved(self, kind: str, x: Any, channels: int, kernel: Pair, padding: Padding, **options: Any) -> Any:
        sizes = (int(x.shape[2]), int(x.shape[3]))  # ONNX's exporter would compute with them, and divide otherwise
        (top, bottom), (left, right) = pads(padding, sizes, kernel, options["stride"])
        symmetric = top == bottom and left == right
        if not symmetric:
            x = functional.pad(x, (left, right, top, bottom))
        layer = self._module(
            kind,
            lambda: nn.Conv2d(x.shape[1], channels, kernel, padding=(top, left) if symmetric else 0, **options),
            lambda weight, *bias: {
                "weight": weight.transpose(2, 3, 0, 1) if kind == "depthwise" else weight.transpose(3, 2, 0, 1),
                **dict(zip(["bias"], bias, strict=False)),
            },
        )
        return layer(x)

    def conv(
        self,
        x: Any,
        channels: int,
        kernel: int | Pair = 1,
        stride: int = 1,
        *,
        padding: Padding = "even",
        groups: int = 1,
        bias: bool = True,
    ) -> Any:
        options = {"stride": stride, "groups": groups, "bias": bias}
        return self._convolved("conv", x, channels, pair(kernel), padding, **options)

    def depthwise(
        self, x: Any, kernel: int = 3, stride: int = 1, *, padding: Padding = "even", bias: bool = False
    ) -> Any:
        channels = self.channels(x)
        options = {"stride": stride, "groups": channels, "bias": bias}
        return self._convolved("depthwise", x, channels, pair(kernel), padding, **options)

    def conv_transpose(self, x: Any, channels: int) -> Any:
        layer = self._module(
            "conv_transpose",
            lambda: nn.ConvTranspose2d(x.shape[1], channels, 2, 2),
            lambda weight, bias: {"weight": weight.transpose(3, 2, 0, 1), "bias": bias},
        )
        return layer(x)

    def causal_conv(self, x: Any, channels: int, kernel: int, dilation: int = 1) -> Any:
        layer = self._module(
            "causal_conv",
            lambda: nn.Conv1d(x.shape[1], channels, kernel, dilation=dilation),
            lambda weight, bias: {"weight": weight.transpose(2, 1, 0), "bias": bias},
        )
        return layer(functional.pad(x, ((kernel - 1) * dilation, 0)))

    def conv_1d(self, x: Any, channels: int, kernel: int, stride: int = 1) -> Any:
        layer = self._module(
            "conv_1d",
            lambda: nn.Conv1d(x.shape[1], channels, kernel, stride, padding=kernel // 2),
            lambda weight, bias: {"weight": weight.transpose(2, 1, 0), "bias": bias},
        )
        return layer(x)

    def norm(self, x: Any) -> Any:
        kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[x.ndim]
        layer = self._module(
            "norm",
            lambda: kind(x.shape[1], eps=1e-3),
            lambda gamma, beta, mean, variance: {
                "weight": gamma,
                "bias": beta,
                "running_mean": mean,
                "running_var": variance,
            },
        )
        return layer(x)

    def layer_norm(self, x: Any) -> Any:
        layer = self._module(
            "layer_norm",
            lambda: nn.LayerNorm(x.shape[-1], eps=1e-5),
            lambda gamma, beta: {"weight": gamma, "bias": beta},
        )
        return layer(x)

    def act(self, x: Any, kind: str) -> Any:
        return ACTIVATIONS[kind](x)

    def dense(self, x: Any, units: int) -> Any:
        layer = self._module(
            "dense",
            lambda: nn.Linear(x.shape[-1], units),
            lambda weight, bias: {"weight": weight.T, "bias": bias},
        )
        return layer(x)

    def flat_dense(self, x: Any, units: int) -> Any:
        channels, height, width = x.shape[1:]
        layer = self._module(
            "flat_dense",
            lambda: nn.Linear(channels * height * width, units),
            lambda weight, bias: {
                "weight": weight.reshape(height, width, channels, units).transpose(3, 2, 0, 1).reshape(units, -1),
                "bias": bias,
            },
        )
        return layer(x.flatten(1))

    def pool(self, x: Any, kind: Literal["max", "average"], size: int = 2, stride: int | None = None) -> Any:
        pool = functional.max_pool2d if kind == "max" else functional.avg_pool2d
        return pool(x, size, stride or size, padding=1 if size == 3 else 0)

    def mean(self, x: Any, *, keep: bool = False) -> Any:
        x = functional.adaptive_avg_pool2d(x, 1)
        return x if keep else x.flatten(1)

    def mean_steps(self, x: Any) -> Any:
        return x.mean(-1)

    def mean_frames(self, x: Any) -> Any:
        return x.mean(1)

    def concat(self, parts: list[Any]) -> Any:
        return torch.cat(parts, 1)

    def halves(self, x: Any) -> tuple[Any, Any]:
        first, second = x.chunk(2, 1)
        return first, second

    def shuffle(self, x: Any, groups: int) -> Any:
        batch, channels, height, width = x.shape
        return x.view(batch, groups, channels // groups, height, width).transpose(1, 2).reshape(x.shape)

    def upsample(self, x: Any) -> Any:
        return functional.interpolate(x, scale_factor=2, mode="nearest")

    def frames(self, x: Any) -> Any:
        return x.permute(0, 2, 3, 1).flatten(2)

    def tokens(self, x: Any) -> Any:
        return x.flatten(2).transpose(1, 2)

    def swap(self, x: Any) -> Any:
        return x.transpose(1, 2)

    def embed(self, x: Any, width: int) -> Any:
        layer = self._module(
            "embed",
            lambda: Embedding(x.shape[1], x.shape[2], width),
            lambda weight, positions: {"projection.weight": weight.T, "positions": positions},
        )
        return layer(x)

    def attention(self, x: Any, heads: int) -> Any:
        width = x.shape[-1]

        def load(*arrays: Any) -> dict[str, Any]:
            kernels = [array.reshape(width, width).T for array in arrays[0:6:2]]
            return {
                "in_proj_weight": np.concatenate(kernels),
                "in_proj_bias": np.concatenate([array.reshape(-1) for array in arrays[1:6:2]]),
                "out_proj.weight": arrays[6].reshape(width, width).T,
                "out_proj.bias": arrays[7],
            }

        layer = self._module("attention", lambda: nn.MultiheadAttention(width, heads, batch_first=True), load)
        return layer(x, x, x, need_weights=False)[0]

    def recurrent(self, x: Any, kind: Literal["gru", "lstm"], units: int) -> Any:
        # Gates: Keras's GRU has update, reset, new, and PyTorch's reset, update, new; those of the LSTM are the same.
        order = (1, 0, 2) if kind == "gru" else (0, 1, 2, 3)

        def gates(array: Any) -> Any:
            parts = np.split(array, len(order), -1)
            return np.concatenate([parts[place] for place in order], -1)

        def load(kernel: Any, recurrent: Any, bias: Any) -> dict[str, Any]:
            inner, outer = bias if kind == "gru" else (bias, np.zeros_like(bias))
            return {
                "weight_ih_l0": gates(kernel).T,
                "weight_hh_l0": gates(recurrent).T,
                "bias_ih_l0": gates(inner),
                "bias_hh_l0": gates(outer),
            }

        layer = nn.GRU if kind == "gru" else nn.LSTM
        return self._module(kind, lambda: layer(x.shape[-1], units, batch_first=True), load)(x)[0][:, -1]
