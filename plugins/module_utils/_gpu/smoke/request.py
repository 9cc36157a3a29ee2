# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The places of a smoke test: interpreters of the host, and containers."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

AUTO = "auto"
CPU = "cpu"
CUDA = "cuda"
DEVICES = (AUTO, CPU, CUDA)
ENVIRONMENT = "environment"
IMAGE = "image"


@dataclass(frozen=True)
class Place:
    """An interpreter of the host, or an image, to train in."""

    kind: str
    name: str
    python: str
    image: str = ""
    device: str = AUTO

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def finding(self) -> str:
        slug = re.sub(r"[^A-Za-z0-9_-]+", "-", self.name).strip("-")
        return f"smoke_test.{self.kind}.{slug or 'unnamed'}"


class PlaceRow(t.TypedDict):
    """A place as a user names it."""

    name: str
    python: str
    image: t.NotRequired[str]
    device: str


class Request(t.TypedDict):
    """The options of the role, and the program that trains."""

    environments: list[PlaceRow]
    images: list[PlaceRow]
    device: str
    user: str
    gpu_options: list[str]
    epochs: int
    accuracy: float
    timeout_s: int
    program: str


def places(environments: t.Iterable[PlaceRow], images: t.Iterable[PlaceRow], device: str) -> list[Place]:
    """Return the places in the module's parameters.

    :param device: for places whose own device is auto.
    """
    rows = [
        *((ENVIRONMENT, row["name"], "", row) for row in environments),
        *((IMAGE, row["name"] or row["image"], row["image"], row) for row in images),
    ]
    return [
        Place(kind, name, row["python"], image, device if row["device"] == AUTO else row["device"])
        for kind, name, image, row in rows
    ]


def duplicates(chosen: t.Sequence[Place]) -> list[str]:
    """Return the titles of places that share the id of a finding."""
    ids = [place.finding for place in chosen]
    return sorted({place.title for place in chosen if ids.count(place.finding) > 1})
