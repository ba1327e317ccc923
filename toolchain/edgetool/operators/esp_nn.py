"""ESP-NN: the sizes of its scratch buffers, and how much of them its kernels write, in bytes.

The sizes are those that its functions esp_nn_get_*_scratch_size return in the versions from 1.0.0 to 1.2.3. The chip
selects the kernels: the ESP32-S3 and the ESP32-P4 (from 1.1.0) have their own, all others run generic C, whose
convolutions need no scratch. A build of plain C (NN_ANSI_C) needs none at all. Sources: esp_nn_conv_esp32s3.c,
esp_nn_depthwise_conv_s8_esp32s3.c, esp_nn_conv_esp32p4.c, esp_nn_softmax_opt.c.

Some of these functions choose between the cases of a kernel by other conditions than the kernel itself. `*_written`
returns the bytes that the kernel uses of a scratch buffer that is aligned to 16 bytes, as TFLM aligns it.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.model.types import DType
from edgetool.operators.call import Call, Request, integer_option, scratch
from edgetool.operators.cmsis_nn import Convolution
from edgetool.target.types import EspNN

CODES = frozenset("ADD AVERAGE_POOL_2D CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED MAX_POOL_2D MUL SOFTMAX".split())
VECTOR_BYTES = 16
INT16_BYTES = 2
INT32_BYTES = 4
P4_KERNELS = (1, 1, 0)  # the first version with kernels for the ESP32-P4
P4_EDGES = (1, 1, 2)  # the first that pads the end of an input on the ESP32-P4
WIDER_GAP = (1, 2, 0)  # the first with 32 instead of 16 bytes for aligning int16 data
WIDE_KERNELS = (1, 2, 1)  # the first with more cases on the ESP32-S3
P4_TILES = (1, 2, 3)  # the first with more cases on the ESP32-P4, and with a larger margin on the ESP32-S3
GROUPS = (1, 2, 3)  # the first with grouped convolutions
FULL_INPUT_BYTES = 40 * 1024  # up to this size, a depthwise convolution pads its whole input at once
FULL_INT16_BYTES = 48 * 1024  # up to this size, it widens filter and input to int16 at once
L1_BYTES = 32 * 1024  # L1D_BUDGET


def build_of(call: Call) -> EspNN | None:
    """Return the build of ESP-NN whose kernel runs the operator; None if a reference kernel does (esp_nn/*.cc)."""
    if call.operator.code not in CODES or call.platform.esp_nn is None:
        return None
    operands = [call.input(0), call.input(1), call.output()]
    tensors = [tensor for tensor in operands if tensor is not None]
    int8 = all(tensor.dtype == DType.INT8 for tensor in tensors)
    undilated = all(integer_option(call, f"dilation_{side}_factor", 1) == 1 for side in "hw")
    elementwise = call.operator.code in ("ADD", "MUL")
    equal = not elementwise or len({tensor.shape for tensor in tensors}) == 1
    return call.platform.esp_nn if int8 and undilated and equal else None


def requested(size_bytes: int) -> Iterator[Request]:
    """Yield the request for a scratch buffer, none if the size is 0."""
    if size_bytes > 0:
        yield scratch("ESP-NN scratch buffer", size_bytes)


def conv_scratch(c: Convolution, build: EspNN) -> int:
    """Return the scratch size of a convolution (esp_nn_get_conv_scratch_size)."""
    if build.variant == "esp32s3":
        return _conv_s3(c, build.version)
    if build.variant == "esp32p4" and build.version >= P4_KERNELS:
        return _conv_p4(c) if build.version >= P4_TILES else _conv_before_tiles(c, margin=32)
    return 0


def depthwise_scratch(c: Convolution, build: EspNN) -> int:
    """Return the scratch size of a depthwise convolution (esp_nn_get_depthwise_conv_scratch_size)."""
    if build.variant != "esp32s3":
        return 0
    return _depthwise_s3(c) if build.version >= WIDE_KERNELS else _depthwise_s3_before_1_2_1(c, build.version)


def softmax_scratch(width: int, build: EspNN) -> int:
    """Return the scratch size of a softmax over rows of `width` elements (esp_nn_get_softmax_scratch_size)."""
    return 0 if build.variant == "ansi" else width * INT32_BYTES


def conv_written(c: Convolution, build: EspNN) -> int:
    """Return the bytes of the scratch buffer that a convolution writes; at most its size, if that is enough."""
    tiled = build.variant == "esp32p4" and build.version >= P4_TILES and _runs_in_tiles(c)
    return _written_by_tiles(c) if tiled else conv_scratch(c, build)


def depthwise_written(c: Convolution, build: EspNN) -> int:
    """Return the bytes of the scratch buffer that a depthwise convolution writes; 0 if it uses none."""
    if build.variant != "esp32s3":
        return 0
    return _depthwise_s3_written(c, wide=build.version >= WIDE_KERNELS)


def softmax_written(depth: int, build: EspNN) -> int:
    """Return the bytes of the scratch buffer that a softmax over `depth` elements writes."""
    return 0 if build.variant == "ansi" else depth * INT32_BYTES


def misreads_padding(c: Convolution, build: EspNN) -> bool:
    """Return whether a convolution takes other values than those of the padding, at its right or lower edge.

    The ESP32-S3 pads both sides alike, and until version 1.2.0 only if the first side is padded. On the ESP32-P4, an
    input that is padded only at the end was not padded until 1.1.1; since then, its last row is right if the window
    has three rows. Plain C, which runs instead if the channels of the filter seem to differ from those of the input, is
    right.
    """
    right = (c.out_width - 1) * c.stride_width + c.kernel_width - c.in_width - c.pad_width
    bottom = (c.out_height - 1) * c.stride_height + c.kernel_height - c.in_height - c.pad_height
    padded = bool(c.pad_width or c.pad_height)
    short_rows = c.kernel_width * c.in_channels < VECTOR_BYTES
    if build.version >= GROUPS and not (build.filter_channels and c.kernel_channels == c.in_channels):
        return False
    if build.variant == "esp32s3":
        handled = build.version >= WIDE_KERNELS and (not padded or (short_rows and c.column >= VECTOR_BYTES))
        return not handled and (right > c.pad_width or bottom > c.pad_height)
    if build.variant != "esp32p4" or build.version < P4_KERNELS or padded:
        return False
    if build.version < P4_EDGES:
        return right > 0 or bottom > 0
    handled = build.version >= P4_TILES and short_rows
    return not handled and bottom > 0 and c.kernel_height != 3


def ignores_groups(c: Convolution, build: EspNN) -> bool:
    """Return whether a grouped convolution is computed as one whose filters read all channels of the input.

    From version 1.2.3 on, only some kernels of the ESP32-P4 and the generic one for 1x1 windows do so, if TFLM passes
    the channels of the filter.
    """
    if c.kernel_channels == c.in_channels:
        return False
    if build.version < GROUPS or not build.filter_channels:
        return True
    padded = bool(c.pad_width or c.pad_height)
    short_rows = c.kernel_width * c.in_channels < VECTOR_BYTES
    runs_generic = build.variant == "generic"
    if build.variant == "esp32p4":
        if _is_pointwise(c) or padded or (short_rows and c.column >= VECTOR_BYTES):
            return True
        runs_generic = short_rows
    return runs_generic and c.kernel_height == c.kernel_width == 1


def _conv_s3(c: Convolution, version: tuple[int, int, int]) -> int:
    margin = 64 if version >= P4_TILES else 32
    row = c.kernel_width * c.in_channels
    if version < WIDE_KERNELS or _is_pointwise(c):
        return _conv_before_tiles(c, margin)
    if row < VECTOR_BYTES <= c.column:
        column = _round_up(c.column, VECTOR_BYTES)
        return c.out_channels * (INT32_BYTES + column) + column + 2 * VECTOR_BYTES + margin
    aligned_filter = _round_up(row, VECTOR_BYTES) * c.kernel_height * c.out_channels
    right, bottom = (max(0, beyond) for beyond in _beyond(c))
    edges = _image(c, right, bottom) if right or bottom else 0
    return _conv_before_tiles(c, margin) + aligned_filter + edges


def _conv_before_tiles(c: Convolution, margin: int) -> int:
    """Return the size for a filter and an input with padded channels, on the ESP32-S3 and the ESP32-P4."""
    if _is_pointwise(c):
        channels = _round_up(c.in_channels, 8)
        pixels = c.in_height * c.in_width
        padded = pixels * channels if c.in_channels % 8 else 0
        transposed = 2 * 8 * channels if pixels >= 8 else 0
        return padded + channels * c.out_channels + transposed + margin
    padded = _image(c, 2 * c.pad_width, 2 * c.pad_height) if c.pad_width or c.pad_height else 0
    return padded + _filter(c, _round_up(c.in_channels, VECTOR_BYTES)) + margin + c.out_channels * INT32_BYTES


def _conv_p4(c: Convolution) -> int:
    margin, sums = 32, c.out_channels * INT32_BYTES
    if _is_pointwise(c):
        short = c.in_channels < VECTOR_BYTES
        return sums + c.out_channels * VECTOR_BYTES + 32 + margin if short else _conv_before_tiles(c, margin)
    unpadded = not (c.pad_width or c.pad_height)
    if unpadded and c.kernel_width * c.in_channels >= VECTOR_BYTES:
        return _conv_before_tiles(c, margin)
    if c.column >= VECTOR_BYTES:
        return sums + c.column + margin
    if unpadded:
        channels = _tile_channels(c)
        return sums + _filter(c, channels) + c.in_height * c.in_width * channels + margin
    if _image(c, 2 * c.pad_width, 2 * c.pad_height) + sums <= L1_BYTES:
        return _conv_before_tiles(c, margin)
    rows = _tile_rows(c, sums, fallback=1)
    return sums + _filter(c, _tile_channels(c)) + (rows + 2 * c.pad_height) * _tile_row(c) + margin


def _runs_in_tiles(c: Convolution) -> bool:
    """Return whether the ESP32-P4 runs a padded convolution with a small window in tiles of rows."""
    return not _is_pointwise(c) and c.column < VECTOR_BYTES and bool(c.pad_width or c.pad_height)


def _written_by_tiles(c: Convolution) -> int:
    """Return the bytes written for tiles whose pixels have 16 channels, unlike in the size function's estimate."""
    sums = c.out_channels * INT32_BYTES
    used = sums + _filter(c, _tile_channels(c))
    whole = (c.in_height + 2 * c.pad_height) * _tile_row(c)
    all_rows = (c.out_height - 1) * c.stride_height + c.kernel_height
    rows = all_rows if used + whole <= L1_BYTES else _tile_rows(c, sums, fallback=c.out_height)
    return used + (rows + c.pad_height) * _tile_row(c)


def _tile_rows(c: Convolution, sums: int, *, fallback: int) -> int:
    """Return the rows of the input of a tile; those of `fallback` output rows if not even one row fits."""
    budget = L1_BYTES - sums - _filter(c, _tile_channels(c))
    first = c.kernel_height * _tile_row(c)
    outputs = fallback
    if budget > 0 and first <= budget:
        outputs = min((budget - first) // (c.stride_height * _tile_row(c)) + 1, c.out_height)
    return (outputs - 1) * c.stride_height + c.kernel_height


def _tile_row(c: Convolution) -> int:
    return (c.in_width + 2 * c.pad_width) * _tile_channels(c)


def _tile_channels(c: Convolution) -> int:
    """Return the channels of a pixel in a tile: a multiple of a vector, so that a row of the window fills one."""
    return _round_up(-(-VECTOR_BYTES // c.kernel_width), VECTOR_BYTES)


def _depthwise_s3_before_1_2_1(c: Convolution, version: tuple[int, int, int]) -> int:
    margin = 32 if version >= WIDER_GAP else 16
    multiplier = _multiplier(c)
    eights = multiplier == 1 and c.in_channels % 8 == 0 and _is_3x3(c)
    if eights and c.in_channels % VECTOR_BYTES == 0:
        return _depthwise_filter(c) + _padded_input(c) + VECTOR_BYTES
    if eights or multiplier % 4 == 0:
        return INT16_BYTES * (_depthwise_filter(c) + _image(c)) + margin
    return 32


def _depthwise_s3(c: Convolution) -> int:
    """Return the size on the ESP32-S3 from version 1.2.1 on."""
    multiplier = _multiplier(c)
    widened = INT16_BYTES * (_depthwise_filter(c) + _image(c)) + 32
    if multiplier == 1 and c.in_channels % 8 == 0:
        if not _is_3x3(c):
            strip = INT16_BYTES * (_depthwise_filter(c) + c.in_width * c.kernel_height * c.in_channels) + 32
            return widened if widened - 32 <= FULL_INT16_BYTES else strip
        if c.in_channels % VECTOR_BYTES == 0:
            padded = _padded_input(c)
            if padded > FULL_INPUT_BYTES:
                padded = _strip(c)
            return _depthwise_filter(c) + padded + VECTOR_BYTES
        if c.in_channels >= 12:
            right, bottom = (max(0, beyond) for beyond in _beyond(c))
            return _padded_channels(c, 2 * c.pad_width + right, 2 * c.pad_height + bottom) + 64
        return widened
    if multiplier == 1 and c.in_channels > 3:
        return _padded_int16(c) + VECTOR_BYTES
    return widened if multiplier % 4 == 0 else 32


def _depthwise_s3_written(c: Convolution, *, wide: bool) -> int:
    """Return the bytes that the ESP32-S3's kernel writes; wide: as of version 1.2.1."""
    multiplier = _multiplier(c)
    filter_bytes = _depthwise_filter(c)
    gap = VECTOR_BYTES - filter_bytes % VECTOR_BYTES  # between filter and input, in elements
    widened = INT16_BYTES * (filter_bytes + gap + _image(c))
    if multiplier == 1 and c.in_channels % 8 == 0:
        vectors = c.in_channels % VECTOR_BYTES == 0
        if not _is_3x3(c):
            if not wide:
                return 0
            if INT16_BYTES * (filter_bytes + _image(c)) <= FULL_INT16_BYTES:
                return widened
            return INT16_BYTES * (filter_bytes + gap + c.kernel_height * c.in_width * c.in_channels)
        if vectors and (c.pad_height, c.pad_width) in ((0, 0), (1, 1)):
            padded = _padded_input(c)
            if wide and c.pad_height and padded > FULL_INPUT_BYTES:
                padded = _strip(c)
            return filter_bytes + (gap + padded if padded else 0)
        if wide and c.in_channels >= 12:
            right, bottom = _beyond(c)
            width = 2 * c.pad_width + max(0, right - 2 * c.pad_width)
            height = 2 * c.pad_height + max(0, bottom - 2 * c.pad_height)
            return _padded_channels(c, width, height) + VECTOR_BYTES
        return widened
    if wide and multiplier == 1 and c.in_channels > 3:
        return _padded_int16(c)
    return widened if multiplier % 4 == 0 else 0


def _padded_input(c: Convolution) -> int:
    """Return the bytes of the padded input; 0 if it needs no padding."""
    width, height = _depthwise_pads(c)
    return _image(c, width, height) if width or height else 0


def _strip(c: Convolution) -> int:
    """Return the bytes of the padded rows of the input that one row of the output needs."""
    return (c.in_width + _depthwise_pads(c)[0]) * c.kernel_height * c.in_channels


def _depthwise_pads(c: Convolution) -> tuple[int, int]:
    """Return the columns and rows added to the input: on both sides if it is padded at all, else at the end."""
    return (2 * c.pad_width, 2 * c.pad_height) if c.pad_width or c.pad_height else _beyond(c)


def _padded_channels(c: Convolution, width: int, height: int) -> int:
    """Return the bytes of filter, padded input and output, with channels in whole vectors."""
    channels = _round_up(c.in_channels, VECTOR_BYTES)
    image = (c.in_width + width) * (c.in_height + height)
    return channels * (c.kernel_height * c.kernel_width + image + c.out_height * c.out_width)


def _padded_int16(c: Convolution) -> int:
    """Return the bytes of filter and input in int16, the output, and three values of a channel, each aligned."""
    channels = _round_up(c.in_channels, 8)
    size = 0
    for elements, bytes_each in (
        (c.kernel_height * c.kernel_width, INT16_BYTES),
        (c.in_height * c.in_width, INT16_BYTES),
        (c.out_height * c.out_width, 1),
        (3, INT32_BYTES),
    ):
        size = _round_up(size, VECTOR_BYTES) + elements * channels * bytes_each
    return size


def _beyond(c: Convolution) -> tuple[int, int]:
    """Return the columns and rows that the kernels read beyond the input, without padding, in whole strides."""
    return (
        c.out_width * c.stride_width + c.kernel_width - 1 - c.in_width,
        c.out_height * c.stride_height + c.kernel_height - 1 - c.in_height,
    )


def _multiplier(c: Convolution) -> int:
    return c.out_channels // c.in_channels


def _is_3x3(c: Convolution) -> bool:
    return c.kernel_height == c.kernel_width == 3


def _is_pointwise(c: Convolution) -> bool:
    unit = c.kernel_height == c.kernel_width == c.stride_height == c.stride_width == 1
    return unit and not (c.pad_height or c.pad_width)


def _image(c: Convolution, width: int = 0, height: int = 0) -> int:
    """Return the elements of the input with this many columns (width) and rows (height) of padding."""
    return (c.in_width + width) * (c.in_height + height) * c.in_channels


def _filter(c: Convolution, channels: int) -> int:
    return c.kernel_height * c.kernel_width * channels * c.out_channels


def _depthwise_filter(c: Convolution) -> int:
    return c.kernel_height * c.kernel_width * c.in_channels * _multiplier(c)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
