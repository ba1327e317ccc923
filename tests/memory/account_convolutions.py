"""Models of convolutions, dense layers, pooling, reductions and recurrent layers, in all types and odd sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgetool.model.types import DType, Model
from tests.memory.account_net import Net

FLOAT32, INT8, INT16, INT32, INT4 = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.INT4


def conv(
    net: Net,
    x: int,
    channels: int,
    kernel: tuple[int, int],
    *,
    bias: bool = True,
    axis: int | None = 0,
    stride: int = 1,
    dilation: int = 1,
    padding: str = "SAME",
    weights: int | None = None,
    groups: int = 1,
) -> int:
    """CONV_2D."""
    batch, height, width, depth = net.tensors[x].shape
    inputs = [x, net.filter(channels, *kernel, depth // groups, like=x, axis=axis) if weights is None else weights]
    if bias:
        inputs.append(net.biases(channels, like=x))
    size = _windows(height, kernel[0], stride, dilation, padding), _windows(width, kernel[1], stride, dilation, padding)
    return net.op(
        "CONV_2D",
        inputs,
        batch,
        *size,
        channels,
        stride_w=stride,
        stride_h=stride,
        padding=padding,
        dilation_w_factor=dilation,
        dilation_h_factor=dilation,
        fused_activation_function="RELU6",
    )


def depthwise(
    net: Net,
    x: int,
    kernel: tuple[int, int],
    *,
    multiplier: int = 1,
    stride: int = 1,
    dilation: int = 1,
    padding: str = "SAME",
    bias: bool = True,
) -> int:
    """DEPTHWISE_CONV_2D."""
    batch, height, width, depth = net.tensors[x].shape
    channels = depth * multiplier
    inputs = [x, net.filter(1, *kernel, channels, like=x, axis=3)]
    if bias:
        inputs.append(net.biases(channels, like=x))
    size = _windows(height, kernel[0], stride, dilation, padding), _windows(width, kernel[1], stride, dilation, padding)
    return net.op(
        "DEPTHWISE_CONV_2D",
        inputs,
        batch,
        *size,
        channels,
        stride_w=stride,
        stride_h=stride,
        dilation_w_factor=dilation,
        dilation_h_factor=dilation,
        padding=padding,
        depth_multiplier=multiplier,
    )


def transposed(net: Net, x: int, channels: int, kernel: tuple[int, int], *, stride: int, bias: bool = True) -> int:
    """TRANSPOSE_CONV, SAME."""
    batch, height, width, depth = net.tensors[x].shape
    shape = (batch, height * stride, width * stride, channels)
    inputs = [net.constant(shape), net.filter(channels, *kernel, depth, like=x), x]
    if bias:
        inputs.append(net.biases(channels, like=x))
    return net.op(
        "TRANSPOSE_CONV", inputs, *shape, dtype=net.tensors[x].dtype, padding="SAME", stride_w=stride, stride_h=stride
    )


def dense(net: Net, x: int, units: int, *, axis: int | None = None, bias: bool = True, keep: bool = False) -> int:
    """FULLY_CONNECTED of the last dimension."""
    *batch, depth = net.tensors[x].shape
    inputs = [x, net.filter(units, depth, like=x, axis=axis), net.biases(units, like=x) if bias else -1]
    return net.op("FULLY_CONNECTED", inputs, *batch, units, keep_num_dims=keep)


def pool(net: Net, code: str, x: int, size: int, stride: int, padding: str = "SAME") -> int:
    """A pooling operator with square windows."""
    batch, height, width, depth = net.tensors[x].shape
    shape = [_windows(side, size, stride, 1, padding) for side in (height, width)]
    return net.op(
        code,
        [x],
        batch,
        *shape,
        depth,
        padding=padding,
        stride_w=stride,
        stride_h=stride,
        filter_width=size,
        filter_height=size,
    )


def _windows(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    return -(-size // stride) if padding == "SAME" else -(-(size - (kernel - 1) * dilation) // stride)


def convolutions(dtype: DType) -> Model:
    """An image through every kind of convolution, odd in all sizes."""
    net = Net(1)
    x = first = net.arena(1, 9, 11, 3, dtype=dtype)
    x = conv(net, x, 7, (3, 3), stride=2)
    x = depthwise(net, x, (3, 3))
    x = conv(net, x, 5, (1, 1), bias=False)
    x = depthwise(net, x, (5, 3), dilation=2)
    x = conv(net, x, 19, (2, 3), dilation=2, axis=None)
    x = conv(net, x, 19, (3, 3), padding="VALID")
    x = transposed(net, x, 6, (3, 3), stride=2)
    return net.model([first], [x])


def depth_multipliers() -> Model:
    """A depth multiplier of 5 on one channel, then 2 on five."""
    net = Net(2)
    x = net.arena(1, 7, 5, 1)
    y = depthwise(net, x, (3, 3), multiplier=5, stride=2)
    return net.model([x], [depthwise(net, y, (2, 2), multiplier=2, padding="VALID", bias=False)])


def batches_of_two() -> Model:
    """Images and matrices in batches of two."""
    net = Net(3)
    x = net.arena(2, 6, 6, 5)
    y = depthwise(net, conv(net, x, 9, (3, 3), stride=2), (3, 3))
    y = net.op("RESHAPE", [pool(net, "AVERAGE_POOL_2D", y, 3, 3, "VALID"), net.constant([2, 9])], 2, 9)
    return net.model([x], [net.softmax(dense(net, y, 3))])


def sequence_of_one_row() -> Model:
    """Convolutions over time: images of height 1."""
    net = Net(4)
    x = net.arena(1, 1, 40, 6)
    y = conv(net, x, 8, (1, 5))
    y = conv(net, y, 12, (1, 3), stride=2, padding="VALID")
    return net.model([x], [depthwise(net, y, (1, 3))])


def grouped_and_wide_transposed() -> Model:
    """A grouped convolution; transposed ones of 20 channels that CMSIS-NN turns around, with stride 1 and 3."""
    net = Net(5)
    x = net.arena(1, 5, 4, 8)
    y = conv(net, x, 20, (3, 3), groups=2)
    y = transposed(net, y, 5, (3, 2), stride=2)
    return net.model([x], [transposed(net, y, 3, (3, 3), stride=3, bias=False)])


def four_bit_weights() -> Model:
    """int4 filters, which are unpacked to scratch."""
    net = Net(6)
    x = net.arena(1, 6, 6, 4)
    y = conv(net, x, 6, (3, 3), weights=net.noise(6, 3, 3, 4, dtype=INT4, axis=0))
    weights = net.noise(1, 3, 3, 6, dtype=INT4, axis=3)
    y = net.op(
        "DEPTHWISE_CONV_2D", [y, weights, net.biases(6, like=y)], 1, 6, 6, 6, stride_w=1, stride_h=1, depth_multiplier=1
    )
    y = net.op("RESHAPE", [y, net.constant([1, 216])], 1, 216)
    weights = net.noise(5, 216, dtype=INT4)
    return net.model([x], [net.op("FULLY_CONNECTED", [y, weights, net.biases(5, like=y)], 1, 5)])


def dense_layers(dtype: DType) -> Model:
    """FULLY_CONNECTED of matrices and of more dimensions, with and without a bias."""
    net = Net(7)
    x = net.arena(2, 3, 12, dtype=dtype)
    y = dense(net, x, 8, keep=True)
    y = dense(net, y, 5, bias=False, keep=True)
    y = net.op("RESHAPE", [y, net.constant([2, 15])], 2, 15)
    return net.model([x], [dense(net, y, 3)])


def dense_per_channel() -> Model:
    """FULLY_CONNECTED with a scale per unit."""
    net = Net(8)
    x = net.arena(1, 33)
    return net.model([x], [dense(net, dense(net, x, 17, axis=0), 4, axis=0, bias=False)])


def dense_with_moving_weights() -> Model:
    """FULLY_CONNECTED whose weights are the output of another operator."""
    net = Net(9)
    x, weights = net.arena(2, 6), net.arena(4, 6, scale=1 / 128)
    y = net.op("FULLY_CONNECTED", [x, net.op("RELU", [weights], scale=1 / 128), net.biases(4, like=x)], 2, 4)
    return net.model([x, weights], [y])


def matrix_products(dtype: DType) -> Model:
    """BATCH_MATMUL as it is and with both operands transposed, one of them constant."""
    net = Net(10)
    a, b = net.arena(2, 5, 3, dtype=dtype), net.arena(2, 3, 7, dtype=dtype)
    y = net.op("BATCH_MATMUL", [a, b], 2, 5, 7)
    other = net.noise(2, 9, 5, dtype=dtype, scale=1 / 64)
    return net.model([a, b], [net.op("BATCH_MATMUL", [y, other], 2, 7, 9, adj_x=True, adj_y=True)])


def pooling(dtype: DType) -> Model:
    """Average and maximum over odd windows."""
    net = Net(11)
    x = net.arena(1, 11, 9, 5, dtype=dtype)
    y = pool(net, "MAX_POOL_2D", x, 3, 2)
    y = pool(net, "AVERAGE_POOL_2D", y, 2, 1, "VALID")
    if dtype == FLOAT32:
        y = pool(net, "L2_POOL_2D", y, 2, 2)
    return net.model([x], [y])


def reductions(dtype: DType) -> Model:
    """Sums, means and extremes over one or more axes, kept or not; the position of the largest and smallest."""
    net = Net(12)
    x = net.arena(1, 4, 6, 5, dtype=dtype)
    y = net.op("MEAN", [x, net.constant([1, 2])], 1, 1, 1, 5, keep_dims=True)
    z = net.op("SUM", [x, net.constant([-1])], 1, 4, 6, keep_dims=False)
    outputs = [y, z]
    if dtype != INT16:
        w = net.op("REDUCE_MAX", [x, net.constant([3])], 1, 4, 6, keep_dims=False)
        outputs.append(net.op("REDUCE_MIN", [w, net.constant([1, 2])], 1, keep_dims=False))
        for code in ("ARG_MAX", "ARG_MIN"):
            outputs.append(net.op(code, [x, net.scalar(3)], 1, 4, 6, dtype=INT32, output_type="INT32"))
    return net.model([x], outputs)


def all_true() -> Model:
    """REDUCE_ALL."""
    net = Net(13)
    x = net.arena(3, 4, 2, dtype=DType.BOOL)
    return net.model([x], [net.op("REDUCE_ALL", [x, net.constant([1])], 3, 2, keep_dims=False)])


def running_sums(dtype: DType) -> Model:
    """CUMSUM both ways."""
    net = Net(14)
    x = net.arena(3, 4, 5, dtype=dtype)
    y = net.op("CUMSUM", [x, net.scalar(1)], exclusive=True)
    return net.model([x], [net.op("CUMSUM", [y, net.scalar(-1)], reverse=True)])


def normalized(dtype: DType) -> Model:
    """SOFTMAX of several rows; for int8 its logarithm and L2_NORMALIZATION, too."""
    net = Net(15)
    x = net.arena(3, 7, dtype=dtype)
    scale = {INT8: 1 / 256, INT16: 1 / 32768}.get(dtype)
    y = net.op("SOFTMAX", [x], scale=scale, zero_point=-128 if dtype == INT8 else 0, beta=1.0)
    if dtype == INT16:
        return net.model([x], [y])
    z = net.op("LOG_SOFTMAX", [x], scale=16 / 256 if dtype == INT8 else None, zero_point=127 if dtype == INT8 else 0)
    w = net.op("L2_NORMALIZATION", [x], scale=1 / 128 if dtype == INT8 else None)
    return net.model([x], [y, z, w])


def softmax_to_int16() -> Model:
    """SOFTMAX of int8 with an int16 result."""
    net = Net(16)
    x = net.arena(1, 9)
    return net.model([x], [net.op("SOFTMAX", [x], dtype=INT16, scale=1 / 65536, zero_point=-32768, beta=1.0)])


def svdf(net: Net, x: int, *, rank: int, units: int, memory: int) -> int:
    """SVDF; int8 with int16 time weights and state."""
    batch, depth = net.tensors[x].shape
    filters, float32 = units * rank, net.tensors[x].dtype == FLOAT32
    inner = FLOAT32 if float32 else INT16
    inputs = [
        x,
        net.filter(filters, depth, like=x, axis=None),
        net.noise(filters, memory, dtype=inner, scale=1 / 4096),
        net.noise(units, dtype=FLOAT32 if float32 else INT32, scale=2**-23),
        net.arena(batch, memory * filters, dtype=inner, is_variable=True),
    ]
    return net.op("SVDF", inputs, batch, units, rank=rank, fused_activation_function="RELU")


def filtered_sequences(dtype: DType) -> Model:
    """Two SVDF in a row with their state."""
    net = Net(17)
    x = net.arena(2, 10, dtype=dtype)
    return net.model([x], [svdf(net, svdf(net, x, rank=2, units=6, memory=5), rank=1, units=3, memory=4)])


def lstm(dtype: DType, *, time_major: bool) -> Model:
    """UNIDIRECTIONAL_SEQUENCE_LSTM without peepholes, as TFLM takes it."""
    net = Net(18)
    batch, steps, depth, state = 2, 5, 3, 6
    x = net.arena(*((steps, batch) if time_major else (batch, steps)), depth, dtype=dtype, scale=1 / 128)
    bias = {INT8: INT32, INT16: DType.INT64, FLOAT32: FLOAT32}[dtype]
    inputs = [
        x,
        *(net.filter(state, depth, like=x, axis=None) for _ in range(4)),
        *(net.filter(state, state, like=x, axis=None) for _ in range(4)),
        *[-1] * 3,
        *(net.noise(state, dtype=bias, scale=1 / 16384) for _ in range(4)),
        *[-1] * 2,
        net.arena(batch, state, dtype=dtype, scale=1 / 128 if dtype == INT8 else 1 / 32768, is_variable=True),
        net.arena(batch, state, dtype=FLOAT32 if dtype == FLOAT32 else INT16, scale=1 / 4096, is_variable=True),
        *[-1] * 4,
    ]
    shape = (*net.tensors[x].shape[:2], state)
    scale = 1 / 128 if dtype == INT8 else 1 / 32768
    y = net.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        *shape,
        scale=None if dtype == FLOAT32 else scale,
        fused_activation_function="TANH",
        time_major=time_major,
        cell_clip=10.0,
        proj_clip=0.0,
    )
    return net.model([x], [y])


def _of(make: Callable[..., Model], *given: Any, **named: Any) -> Callable[[], Model]:
    return lambda: make(*given, **named)


BY_TYPE = (
    (convolutions, (FLOAT32, INT8, INT16)),
    (dense_layers, (FLOAT32, INT8, INT16)),
    (matrix_products, (FLOAT32, INT8, INT16)),
    (pooling, (FLOAT32, INT8, INT16)),
    (reductions, (FLOAT32, INT8, INT16)),
    (running_sums, (FLOAT32, INT8)),
    (normalized, (FLOAT32, INT8, INT16)),
    (filtered_sequences, (FLOAT32, INT8)),
)
MODELS: dict[str, Callable[[], Model]] = {
    **{f"{make.__name__}-{dtype.name.lower()}": _of(make, dtype) for make, dtypes in BY_TYPE for dtype in dtypes},
    **{
        make.__name__: make
        for make in (
            depth_multipliers,
            batches_of_two,
            sequence_of_one_row,
            grouped_and_wide_transposed,
            four_bit_weights,
            dense_per_channel,
            dense_with_moving_weights,
            all_true,
            softmax_to_int16,
        )
    },
    "lstm-int8": _of(lstm, INT8, time_major=False),
    "lstm-int16-time-major": _of(lstm, INT16, time_major=True),
    "lstm-float32": _of(lstm, FLOAT32, time_major=False),
}
