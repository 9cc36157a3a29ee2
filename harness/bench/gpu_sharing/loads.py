"""The loads of the bench, each a function that does one step. The models are defined here, so that only PyTorch is needed.

R32, R256  training ResNet-50, bf16, channels last, 224 x 224 pixels, batch 32 or 256 (256 fills the card)
G          training GPT-2 124M, bf16, 8 sequences of 1024 tokens
S          training ResNet-18 on 32 x 32 pixels, bf16, batch 64: the processor that launches its kernels is the limit
L          training an LSTM of 2 x 512, bf16, batch 64, 64 steps: many short kernels
B          an elementwise product over 4 GiB: the bandwidth of the memory is the limit
Q          inference with ResNet-50, bf16, batch 8, 5 ms of the host between two requests
cpu        arithmetic of the processor, to test the bench without a GPU

All data are random and in the memory of the GPU.
"""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from typing import Any

Step = Callable[[], Any]

# Approximate GiB of GPU memory of a load, until the true figure is known. They decide which loads stay next to it.
MEMORY_GIB = {"R32": 5, "R256": 26, "G": 14, "S": 2, "L": 2, "B": 9, "Q": 2, "cpu": 0}
# Seconds that the host pauses after each step.
PAUSE_S = {"Q": 0.005}
SEED = 6


def build(name: str) -> Step:
    """Build a load; return its step."""
    if name == "cpu":
        return lambda: sum(number * number for number in range(20000))
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(SEED)
    return BUILDERS[name](torch)


def free() -> None:
    """Release the memory of unloaded loads."""
    torch: Any = importlib.import_module("torch")
    gc.collect()
    torch.cuda.empty_cache()


def resnet(torch: Any, depths: tuple[int, ...], bottleneck: bool, classes: int, small: bool) -> Any:
    """Build ResNet as in He et al., arXiv 1512.03385.

    :param small: the variant for 32 x 32 pixels, with a 3 x 3 stem that keeps the size.
    """
    nn = torch.nn

    def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> Any:
        return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            outputs = width * 4 if bottleneck else width
            layers = (
                [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
                if bottleneck
                else [(inputs, width, 3, stride), (width, width, 3, 1)]
            )
            parts: list[Any] = []
            for layer in layers:
                parts += [convolution(*layer), nn.BatchNorm2d(layer[1]), nn.ReLU(inplace=True)]
            self.body = nn.Sequential(*parts[:-1])
            same = stride == 1 and inputs == outputs
            self.shortcut = (
                nn.Identity()
                if same
                else nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
            )

        def forward(self, x: Any) -> Any:
            return nn.functional.relu(self.body(x) + self.shortcut(x), inplace=True)

    stem = [convolution(3, 64, 3 if small else 7, 1 if small else 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    if not small:
        stem.append(nn.MaxPool2d(3, 2, 1))
    blocks: list[Any] = []
    channels = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for number in range(depth):
            blocks.append(Block(channels, width, 2 if number == 0 and stage > 0 else 1))
            channels = width * 4 if bottleneck else width
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def gpt2(
    torch: Any, layers: int = 12, heads: int = 12, width: int = 768, vocabulary: int = 50304, length: int = 1024
) -> Any:
    """Build GPT-2 124M, with the vocabulary padded to a multiple of 64, as usual."""
    nn, functional = torch.nn, torch.nn.functional

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, steps, _width = x.shape
            mixed = self.mix(self.before(x)).view(batch, steps, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            attended = functional.scaled_dot_product_attention(mixed[0], mixed[1], mixed[2], is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, steps, width))
            return x + self.narrow(functional.gelu(self.wide(self.after(x)), approximate="tanh"))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.layers = nn.Sequential(*(Layer() for _layer in range(layers)))
            self.last, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
            nn.init.normal_(self.tokens.weight, std=0.02)
            self.head.weight = self.tokens.weight

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
            return self.head(self.last(self.layers(x))).flatten(0, 1)

    return Model()


def training(torch: Any, model: Any, inputs: Any, targets: Any, optimizer: Any) -> Step:
    """Return a training step."""
    device = inputs.device.type

    def step() -> Any:
        with torch.autocast(device, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


def place(torch: Any) -> str:
    """Return the device of the data."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def as_it_is(model: Any) -> Any:
    return model


def train_resnet50(torch: Any, batch: int, side: int = 224, spread: Callable[[Any], Any] = as_it_is) -> Step:
    """Build the training of ResNet-50; *spread* makes of the model one of several GPUs."""
    device = place(torch)
    model = resnet(torch, (3, 4, 6, 3), True, 1000, False).to(device, memory_format=torch.channels_last)
    images = torch.randn(batch, 3, side, side, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (batch,), device=device)
    model = spread(model)
    return training(torch, model, images, labels, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))


def train_resnet18(torch: Any, batch: int = 64) -> Step:
    """Build the training of ResNet-18."""
    device = place(torch)
    model = resnet(torch, (2, 2, 2, 2), False, 10, True).to(device, memory_format=torch.channels_last)
    images = torch.randn(batch, 3, 32, 32, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (batch,), device=device)
    return training(torch, model, images, labels, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))


def train_gpt2(
    torch: Any, batch: int = 8, length: int = 1024, spread: Callable[[Any], Any] = as_it_is, **sizes: int
) -> Step:
    """Build the training of GPT-2."""
    device = place(torch)
    model = spread(gpt2(torch, length=length, **sizes).to(device))
    tokens = torch.randint(0, 50257, (batch, length + 1), device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")
    return training(torch, model, tokens[:, :-1], tokens[:, 1:].flatten(), optimizer)


def train_lstm(torch: Any, batch: int = 64, length: int = 64) -> Step:
    """Build the training of an LSTM."""
    nn, device = torch.nn, place(torch)

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(256, 512, 2, batch_first=True), nn.Linear(512, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    model = Model().to(device)
    series = torch.randn(batch, length, 256, device=device)
    labels = torch.randint(0, 10, (batch,), device=device)
    return training(torch, model, series, labels, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))


def multiply(torch: Any, numbers: int = 1 << 30) -> Step:
    """Build the elementwise product."""
    device = place(torch)
    pair = [torch.randn(numbers, device=device), torch.empty(numbers, device=device)]

    def step() -> Any:
        torch.mul(pair[0], 1.0000001, out=pair[1])
        pair.reverse()
        return pair[0][:1]

    return step


def infer_resnet50(torch: Any, batch: int = 8) -> Step:
    """Build the inference with ResNet-50."""
    device = place(torch)
    model = resnet(torch, (3, 4, 6, 3), True, 1000, False).to(device, torch.bfloat16).eval()
    model = model.to(memory_format=torch.channels_last)
    images = torch.randn(batch, 3, 224, 224, device=device, dtype=torch.bfloat16).to(memory_format=torch.channels_last)

    def step() -> Any:
        begun = time.monotonic()
        with torch.inference_mode():
            answer = model(images)
        # A request is complete when its result is in memory of the host.
        answer.float().cpu()
        return time.monotonic() - begun

    return step


BUILDERS: dict[str, Callable[[Any], Step]] = {
    "R32": lambda torch: train_resnet50(torch, 32),
    "R256": lambda torch: train_resnet50(torch, 256),
    "G": train_gpt2,
    "S": train_resnet18,
    "L": train_lstm,
    "B": multiply,
    "Q": infer_resnet50,
}
