"""Writes the models of other frameworks that the tests convert: `python -m tests.convert.foreign.make_models`.

It needs the extras torch and onnx, and the onnx exporter of PyTorch that is based on TorchScript, which is in PyTorch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def networks() -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Return networks with seeded weights in evaluation mode, and the shapes of their samples."""
    import torch
    from torch import nn

    class Images(nn.Module):
        """Convolutions with all kinds of padding, a residual connection and a classifier of flattened pixels."""

        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
            self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
            self.pointwise = nn.Conv2d(8, 8, 1)
            self.classifier = nn.Linear(8 * 4 * 4, 5)

        def forward(self, image: Any) -> Any:
            image = nn.functional.max_pool2d(self.stem(image), 2)
            image = image + self.pointwise(torch.relu(self.depthwise(image)))
            return self.classifier(image.flatten(1))

    class Sequences(nn.Module):
        """A convolution over time and a recurrent layer."""

        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(6, 8, 3, padding=1)
            self.cell = nn.GRU(8, 8, batch_first=True)
            self.scores = nn.Linear(8, 4)

        def forward(self, frames: Any) -> Any:
            steps = torch.relu(self.conv(frames)).transpose(1, 2)
            return self.scores(self.cell(steps)[0][:, -1])

    built = {}
    for name, kind, shape in (("images", Images, (3, 16, 16)), ("sequences", Sequences, (6, 8))):
        torch.manual_seed(5)
        network = kind().eval()
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
        built[name] = (network, shape)
    return built


def quantized(network: Any, shape: tuple[int, ...]) -> Any:
    """Return the program of a network in int8, with scales that PyTorch calibrates."""
    import torch
    from litert_torch.quantize.pt2e_quantizer import PT2EQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    settings = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=False)
    samples = torch.randn(16, *shape, generator=torch.Generator().manual_seed(3))
    prepared = prepare_pt2e(torch.export.export(network, (samples[:1],)).module(), PT2EQuantizer().set_global(settings))
    for sample in samples:
        prepared(sample[None])
    return torch.export.export(convert_pt2e(prepared), (samples[:1],))


def write_all(directory: Path) -> None:
    import torch

    network, shape = networks()["images"]
    torch.export.save(quantized(network, shape), str(directory / "images_int8.pt2"))
    for name, (network, shape) in networks().items():
        example = torch.zeros(2, *shape)
        batch = torch.export.Dim("batch", min=1, max=64)
        program = torch.export.export(network, (example,), dynamic_shapes=({0: batch},), strict=False)
        torch.export.save(program, str(directory / f"{name}.pt2"))
        torch.onnx.export(
            network,
            (example[:1],),
            str(directory / f"{name}.onnx"),
            dynamo=False,
            opset_version=17,
            input_names=["signal"],
            output_names=["scores"],
            dynamic_axes={"signal": {0: "batch"}},
        )


if __name__ == "__main__":
    write_all(HERE)
