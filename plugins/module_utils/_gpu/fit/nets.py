# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layers of torchvision's ResNet, VGG and ViT, and of an LSTM, as figures for one image or one series. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import families, parts, wording
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

RESNETS = {
    "resnet18": ((2, 2, 2, 2), False, 64, 1),
    "resnet34": ((3, 4, 6, 3), False, 64, 1),
    "resnet50": ((3, 4, 6, 3), True, 64, 1),
    "resnet101": ((3, 4, 23, 3), True, 64, 1),
    "resnet152": ((3, 8, 36, 3), True, 64, 1),
    "resnext50_32x4d": ((3, 4, 6, 3), True, 4, 32),
    "resnext101_32x8d": ((3, 4, 23, 3), True, 8, 32),
    "wide_resnet50_2": ((3, 4, 6, 3), True, 128, 1),
    "wide_resnet101_2": ((3, 4, 23, 3), True, 128, 1),
}
_VGG = {"vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}
VGGS = {**_VGG, **{f"{name}_bn": depths for name, depths in _VGG.items()}}
# Patch, layers, heads, width, inner width.
VITS = {
    "vit_b_16": (16, 12, 12, 768, 3072),
    "vit_b_32": (32, 12, 12, 768, 3072),
    "vit_l_16": (16, 24, 16, 1024, 4096),
    "vit_l_32": (32, 24, 16, 1024, 4096),
    "vit_h_14": (14, 32, 16, 1280, 5120),
}
NAMES = (*RESNETS, *VGGS, *VITS)
CLASSES = 1000


class Convolution(t.NamedTuple):
    """One convolution: its operations, the elements that it reads and writes, and its weights."""

    flops: int
    elements: int
    weights: int


class Layers(t.NamedTuple):
    """The kernels of a convolutional network for one image: convolutions, and the elements that the others write or, in pooling, read.

    *biases* are added by a kernel of their own.
    """

    convolutions: tuple[Convolution, ...]
    norms: int
    activations: int
    sums: int
    pooled: int
    biases: int


class Net(t.NamedTuple):
    """A network without attention, for one item: an image, or a series of one step.

    *saved* are elements that the backward pass needs, *indices* those of eight bytes, *largest* what is held at once
    without a backward pass, *flops* of the forward pass, *outputs* elements that convolutions write.
    """

    parameters: int
    saved: int
    indices: int
    largest: int
    flops: int
    kernels: int
    outputs: int = 0
    layers: Layers | None = None


class Counter:
    """Adds up the layers of a convolutional network."""

    def __init__(self, image: int, channels: int = 3) -> None:
        self.side, self.channels = image, channels
        self.parameters = self.indices = self.flops = self.kernels = self.largest = self.outputs = 0
        self.saved = channels * image * image
        # What a residual connection holds meanwhile.
        self.held = 0
        self.convolutions: list[Convolution] = []
        self.norms = self.activations = self.sums = self.pooled = self.biases = 0

    def size(self) -> int:
        """Return the elements of the current output."""
        return self.channels * self.side * self.side

    def convolution(self, channels: int, kernel: int, stride: int = 1, groups: int = 1, bias: bool = False) -> None:
        """Add a convolution that keeps the side, but for its stride."""
        before = self.size()
        self.side = (self.side - 1) // stride + 1
        weights = self.channels // groups * kernel * kernel * channels
        self.parameters += weights + (channels if bias else 0)
        flops = 2 * weights * self.side * self.side
        self.flops += flops
        self.channels = channels
        self.convolutions.append(Convolution(flops, before + self.size(), weights))
        self.biases += self.size() if bias else 0
        self.largest = max(self.largest, 5 * (before + self.size()) // 4)
        self.outputs += self.size()
        self.kernels += 1

    def activate(self) -> None:
        """Add an activation in place, which saves its output."""
        self.activations += self.size()
        self.saved += self.size()

    def normalize(self, activated: bool = True) -> None:
        """Add a batch norm, which saves its input, and an activation."""
        self.parameters += 2 * self.channels
        self.largest = max(self.largest, 2 * self.size() + self.held)
        self.saved += self.size()
        self.norms += self.size()
        if activated:
            self.activate()
        # The norm counts its batches, too.
        self.kernels += 3

    def pool(self, kernel_side: int) -> None:
        """Add a pooling of half the side, which keeps the places of maxima."""
        self.pooled += self.size()
        self.side = (self.side + 1) // 2 if kernel_side == 3 else self.side // 2
        self.indices += self.size()
        self.saved += self.size()
        self.kernels += 1

    def linear(self, inputs: int, outputs: int) -> None:
        """Add a linear layer."""
        self.parameters += inputs * outputs + outputs
        self.flops += 2 * inputs * outputs
        self.convolutions.append(Convolution(2 * inputs * outputs, inputs + outputs, inputs * outputs))
        self.saved += inputs
        self.kernels += 1

    def net(self) -> Net:
        """Return the sums."""
        return Net(
            self.parameters,
            self.saved,
            self.indices,
            self.largest,
            self.flops,
            self.kernels,
            self.outputs,
            Layers(tuple(self.convolutions), self.norms, self.activations, self.sums, self.pooled, self.biases),
        )


def resnet(name: str, image: int) -> Net:
    """Return a ResNet of torchvision."""
    depths, bottleneck, group_width, groups = RESNETS[name]
    count = Counter(image)
    count.convolution(64, 7, 2)
    count.normalize()
    count.pool(3)
    for stage, depth in enumerate(depths):
        planes = 64 << stage
        width = planes * group_width // 64 * groups if bottleneck else planes
        outputs = planes * (4 if bottleneck else 1)
        for number in range(depth):
            stride = 2 if stage and not number else 1
            inputs, side = count.channels, count.side
            count.held = count.size()
            layers = [(width, 1, 1, 1), (width, 3, stride, groups), (outputs, 1, 1, 1)]
            for channels, kernel, step, split in layers if bottleneck else [(planes, 3, stride, 1), (planes, 3, 1, 1)]:
                count.convolution(channels, kernel, step, split)
                count.normalize()
            if stride != 1 or inputs != outputs:
                after = count.side
                count.held = count.size()
                count.channels, count.side = inputs, side
                count.convolution(outputs, 1, stride)
                count.normalize(False)
                count.side = after
            count.sums += count.size()
    count.linear(count.channels, CLASSES)
    return count.net()


def vgg(name: str, image: int) -> Net:
    """Return a VGG of torchvision."""
    count = Counter(image)
    for stage, depth in enumerate(VGGS[name]):
        for _number in range(depth):
            count.convolution(min(64 << stage, 512), 3, bias=True)
            if name.endswith("_bn"):
                count.normalize()
            else:
                count.activate()
        count.pool(2)
    for inputs, outputs in ((512 * 49, 4096), (4096, 4096), (4096, CLASSES)):
        count.linear(inputs, outputs)
        # Dropout keeps a copy besides the activation.
        count.saved += outputs if outputs != CLASSES else 0
    return count.net()


def lstm(config: JsonObject) -> Net:
    """Return one step of torch.nn.LSTM with a classifier.

    :raises Refusal: a size is missing.
    """
    for field in families.LSTM_FIELDS:
        parts.whole(config.get(field), field)
    other = sorted(set(config) - {*families.LSTM_FIELDS, "model_type"})
    if other:
        raise Refusal(f"`model`: an LSTM has no field {wording.name(other[0])}: give {', '.join(families.LSTM_FIELDS)}")
    inputs, hidden, layers = config["input_size"], config["hidden_size"], config["num_layers"]
    gates = 4 * hidden * (inputs + (layers - 1) * hidden + layers * (hidden + 2))
    parameters = gates + hidden * config["num_labels"] + config["num_labels"]
    # cuDNN reserves the four gates, the cell and its input for each step, besides the output.
    saved = inputs + layers * 8 * hidden
    return Net(parameters, saved, 0, 5 * (5 * hidden + inputs) // 4, 2 * gates, 2 * layers)


def net(name: str, image: int) -> Net:
    """Return a convolutional network of torchvision."""
    return resnet(name, image) if name in RESNETS else vgg(name, image)


def transformer(name: str, image: int) -> families.Model:
    """Return a ViT of torchvision as a model with attention."""
    patch, layers, heads, width, inner = VITS[name]
    config = {
        "model_type": "vit",
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "image_size": image,
        "patch_size": patch,
        "num_labels": CLASSES,
    }
    return families.read(config)
