"""Makes training.npz: the first samples that the keyword model was trained with, to train its pruned versions again.

python make_data.py    # needs numpy alone; under ten seconds
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "keyword_spotting"))

from make_model import SEEDS, dataset  # noqa: E402  # beside the model

SAMPLES = 1200

if __name__ == "__main__":
    x, y = dataset(SEEDS["training"], SAMPLES)
    np.savez_compressed(FOLDER / "training.npz", x=x, y=y)
