# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of nvidia-smi on this machine, to compare with."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from xml.etree import ElementTree

import pytest


@pytest.fixture(scope="session")
def nvidia_smi() -> Callable[..., list[dict[str, str]]]:
    """Return a function that reads fields: `nvidia_smi("name", "uuid")` has a row for each GPU, and numbers without their units."""

    def ask(*fields: str) -> list[dict[str, str]]:
        query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
        lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
        return [dict(zip(fields, row, strict=True)) for row in csv.reader(lines, skipinitialspace=True)]

    return ask


@pytest.fixture(scope="session")
def nvidia_smi_xml() -> dict[str, ElementTree.Element]:
    """Return everything that nvidia-smi reports of each GPU, by UUID."""
    done = subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, text=True, check=True)
    # NVIDIA's own program has written it.
    found = ElementTree.fromstring(done.stdout).findall("gpu")  # noqa: S314
    return {gpu.findtext("uuid") or "": gpu for gpu in found}
