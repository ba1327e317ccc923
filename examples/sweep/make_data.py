"""Generate training.npz: the first samples of the keyword model's training data, for fine-tuning its pruned versions.

python make_data.py    # needs only numpy; less than ten seconds
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "keyword_spotting"))

from make_model import SEEDS, dataset  # noqa: E402  # next to the model

SAMPLES = 1200

if __name__ == "__main__":
    x, y = dataset(SEEDS["training"], SAMPLES)
    np.savez_compressed(FOLDER / "training.npz", x=x, y=y)
