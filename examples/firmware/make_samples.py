"""Generate spot_samples.h: samples of ../keyword_spotting as the model takes them, and the outputs of TFLM.

The samples are the first of each class in evaluation.npz. TFLM's Python package runs the model with its reference
kernels, whose outputs native code has bit by bit.

    pip install tflite-micro numpy
    python make_samples.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tflite_micro import runtime

HERE = Path(__file__).parent
MODEL = HERE.parent / "keyword_spotting" / "keyword_spotting.tflite"
EVALUATION = HERE.parent / "keyword_spotting" / "evaluation.npz"
LABELS = ("silence", "unknown", "ai", "ia", "ou", "ue")
COLUMNS = 24
START = """\
/* The first sample of each class in keyword_spotting/evaluation.npz, and TFLM's outputs; from make_samples.py. */
#ifndef EXAMPLE_SPOT_SAMPLES_H
#define EXAMPLE_SPOT_SAMPLES_H

#include <stdint.h>

"""

Int8 = npt.NDArray[np.int8]


def main() -> None:
    """Write the header."""
    with np.load(EVALUATION) as data:
        samples = [data["x"][data["y"] == label][0] for label in range(len(LABELS))]
    interpreter = runtime.Interpreter.from_file(str(MODEL))
    details = interpreter.get_input_details(0)
    inputs = [quantized(sample, details) for sample in samples]
    outputs = [invoke(interpreter, values) for values in inputs]
    names = ", ".join(f'"{label}"' for label in LABELS)
    text = [
        START,
        f"#define SPOT_SAMPLES {len(LABELS)}\n#define SPOT_CLASSES {len(LABELS)}\n\n",
        f"static const char *const spot_labels[SPOT_CLASSES] = {{{names}}};\n\n",
        f"static const int8_t spot_inputs[SPOT_SAMPLES][{inputs[0].size}] = {{\n",
        *(f"    {{ /* {label} */\n{rows(values)}    }},\n" for label, values in zip(LABELS, inputs, strict=True)),
        "};\n\n/* The score of each class: probability * 256 - 128. */\n",
        "static const int8_t spot_expected[SPOT_SAMPLES][SPOT_CLASSES] = {\n",
        *(f"    {{{', '.join(map(str, values.tolist()))}}},\n" for values in outputs),
        "};\n\n#endif\n",
    ]
    (HERE / "spot_samples.h").write_text("".join(text), encoding="ascii", newline="\n")


def quantized(sample: npt.NDArray[Any], details: dict[str, Any]) -> Int8:
    """Return the sample in the input's scale and zero point."""
    (scale,), (zero_point,) = (details["quantization_parameters"][name] for name in ("scales", "zero_points"))
    steps = np.round(sample.astype(np.float32) / scale) + zero_point
    values: Int8 = np.clip(steps, -128, 127).astype(np.int8).reshape(details["shape"])
    return values


def invoke(interpreter: runtime.Interpreter, values: Int8) -> Int8:
    """Return TFLM's output."""
    interpreter.set_input(values, 0)
    interpreter.invoke()
    output: Int8 = interpreter.get_output(0).reshape(-1)
    return output


def rows(values: Int8) -> str:
    """Return the values as lines of C."""
    flat = [str(value) for value in values.reshape(-1).tolist()]
    lines = (", ".join(flat[start : start + COLUMNS]) for start in range(0, len(flat), COLUMNS))
    return "".join(f"        {line},\n" for line in lines)


if __name__ == "__main__":
    main()
