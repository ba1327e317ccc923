"""Generate the example: the keyword-spotting network in PyTorch, trained and exported as .pt2 and .onnx.

The data is that of examples/keyword_spotting. Everything is seeded.

    python make_model.py    # needs torch and onnx; about a minute on two cores
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "keyword_spotting"))

from make_model import EVALUATION, LABELS, SEEDS, TRAINING, dataset  # type: ignore[import-not-found]  # noqa: E402

EPOCHS, BATCH, RATE = 12, 50, 3e-3


class KeywordSpotting(nn.Module):
    """The depthwise separable network of the Keras example; input (N, 1, 49, 10), output (N, 6) probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.pad = nn.ZeroPad2d((1, 1, 4, 5))
        self.stem = self.block(nn.Conv2d(1, 48, (10, 4), stride=2, bias=False))
        self.blocks = nn.Sequential(*(self.separable(48, width) for width in (48, 48, 64)))
        self.word = nn.Linear(64, len(LABELS))

    @staticmethod
    def block(convolution: nn.Conv2d) -> nn.Sequential:
        return nn.Sequential(convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU())

    def separable(self, inputs: int, outputs: int) -> nn.Sequential:
        depthwise = nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs, bias=False)
        return nn.Sequential(*self.block(depthwise), *self.block(nn.Conv2d(inputs, outputs, 1, bias=False)))

    def forward(self, mfcc: torch.Tensor) -> torch.Tensor:
        features = self.blocks(self.stem(self.pad(mfcc)))
        return torch.softmax(self.word(features.mean((2, 3))), 1)


def tensors(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs with their channels first, and classes."""
    x, y = dataset(seed, count)
    return torch.from_numpy(x.astype(np.float32).transpose(0, 3, 1, 2)), torch.from_numpy(y.astype(np.int64))


def train(model: Any) -> None:
    x, y = tensors(SEEDS["training"], TRAINING)
    steps = EPOCHS * len(x) // BATCH
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH):
            loss = nn.functional.nll_loss(torch.log(model(x[rows]) + 1e-7), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def main() -> None:
    torch.manual_seed(SEEDS["weights"])
    model = KeywordSpotting()
    train(model)
    model.eval()
    x, y = tensors(SEEDS["evaluation"], EVALUATION)
    accuracy = float((model(x).argmax(1) == y).float().mean())
    print(f"{sum(p.numel() for p in model.parameters())} parameters, evaluation: accuracy {accuracy:.1%}")

    example = (x[:1].clone(),)  # the file contains all that a view refers to
    torch.export.save(torch.export.export(model, example), str(FOLDER / "keyword_spotting.pt2"))
    torch.onnx.export(
        model,
        example,
        str(FOLDER.parent / "onnx" / "keyword_spotting.onnx"),
        dynamo=False,
        opset_version=17,
        input_names=["mfcc"],
        output_names=["word"],
    )


if __name__ == "__main__":
    main()
