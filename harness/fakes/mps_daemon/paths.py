# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of the fake MPS daemon, for the command line as well: this file imports little, so that commands start fast."""

from __future__ import annotations

import os


def pipe_directory() -> str:
    return os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")  # noqa: S108
