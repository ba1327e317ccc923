"""Write the modules of StableHLO beside this file, as they are in SavedModels of JAX: `python write.py`; needs jax."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

# The names of source files in modules are without folders.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")


def write(folder: Path) -> None:
    """dense: two dense layers. custom_call: a decomposition that calls a function of the process."""
    random = np.random.default_rng(0)
    first, second = (random.normal(size=shape).astype(np.float32) for shape in ((8, 6), (6, 3)))
    modules = {
        "dense": (lambda x: jax.nn.softmax(jnp.tanh(x @ first) @ second), (1, 8)),
        "custom_call": (jnp.linalg.cholesky, (1, 4, 4)),
    }
    for name, (function, shape) in modules.items():
        exported = export.export(jax.jit(function))(np.ones(shape, np.float32))
        (folder / f"{name}.mlirbc").write_bytes(exported.mlir_module_serialized)


if __name__ == "__main__":
    write(Path(__file__).parent)
