# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernels of a convolutional network, each with what limits it: matrix units, bandwidth, or multiprocessors. Pure.

An H200 has the multiprocessors of an H100 and 1.4 times its bandwidth: norms, poolings and conversions of layouts took as long on both,
sums and activations followed the bandwidth (docs/gpu_fit.md, "Convolutional networks"). So a card with little bandwidth for each
multiprocessor is not limited by them.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import nets
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.load import Load


class Pace(t.NamedTuple):
    """Elements that a multiprocessor handles in a cycle: in the forward and the backward pass of training, and in inference."""

    forward: float
    backward: float
    inference: float


# Read off the kernels' own times on our H100 and H200, and compared with the H200 with half and a quarter of its multiprocessors.
# Convolutions reach the share of large products that linear layers reach, and all kernels this share of the rate of copies.
SHARE, STREAM = 0.897, 0.90
# Operations of a convolution in a cycle: a multiprocessor's memory feeds no more, whatever its matrix units could do.
FED = 1800.0
# By the type of 16 bits, and whether channels are last: cuDNN has no norms for bf16 beside weights in fp32, and PyTorch's own do them.
NORMS = {
    ("fp16", True): Pace(4.0, 1.5, 1.5),
    ("fp16", False): Pace(0.8, 0.43, 1.3),
    ("bf16", True): Pace(1.13, 0.9, 1.5),
    ("bf16", False): Pace(0.5, 0.35, 1.3),
}
POOL = Pace(1.15, 0.6, 1.15)
# Without channels_last biases have a kernel of their own, and cuDNN converts the layout around each convolution.
BIAS, CONVERTED = 1.29, 5.3

# What a compiler leaves of the bytes of kernels without products, in training, whose norms need their means first, and in inference.
COMPILED, COMPILED_INFERENCE = 0.8, 0.6


def _products(convolutions: t.Sequence[nets.Convolution], batch: int, element: int) -> list[Load]:
    return [
        Load(
            each.flops * batch / SHARE,
            beside=element * (each.elements * batch + each.weights) / STREAM,
            cycles=each.flops * batch / FED,
        )
        for each in convolutions
    ]


def _stream(elements: float, passes: int, element: int, pace: float = 0.0) -> Load:
    """Return kernels that read or write so many times what a layer has."""
    return Load(beside=passes * element * elements / STREAM, cycles=elements / pace if pace else 0.0)


def forward(layers: nets.Layers, batch: int, element: int, half: str, channels_last: bool, trains: bool) -> list[Load]:
    """Return the kernels of the forward pass."""
    norms = NORMS[half, channels_last]
    found = _products(layers.convolutions, batch, element)
    found += [
        # Training reads what it norms twice, first for its mean.
        _stream(layers.norms * batch, 3 if trains else 2, element, norms.forward if trains else norms.inference),
        _stream(layers.activations * batch, 2, element),
        _stream(layers.sums * batch, 3, element),
        _stream(layers.pooled * batch, 1, element, POOL.forward),
    ]
    if not channels_last:
        found += [_stream(layers.biases * batch, 2, element, BIAS), _converted(layers, batch, element)]
    return found


def _converted(layers: nets.Layers, batch: int, element: int) -> Load:
    return _stream(sum(each.elements for each in layers.convolutions) * batch, 1, element, CONVERTED)


def backward(layers: nets.Layers, batch: int, element: int, half: str, channels_last: bool) -> list[Load]:
    """Return the kernels of the backward pass: gradients of the inputs, and of the weights."""
    found = [*_products(layers.convolutions[1:], batch, element), *_products(layers.convolutions, batch, element)]
    found += [
        _stream(layers.norms * batch, 5, element, NORMS[half, channels_last].backward),
        _stream(layers.activations * batch, 3, element),
        _stream(layers.sums * batch, 3, element),
        _stream(layers.pooled * batch, 2, element, POOL.backward),
        _stream(layers.biases * batch, 1, element),
    ]
    return found if channels_last else [*found, _converted(layers, batch, element).times(2)]


def compiled(loads: t.Iterable[Load], trains: bool) -> list[Load]:
    """Return what remains where a compiler fuses kernels without products: a part of their bytes, in its own kernels."""
    part = COMPILED if trains else COMPILED_INFERENCE
    return [load if load.tensor else load._replace(beside=load.beside * part, cycles=0.0) for load in loads]
