# SPDX-License-Identifier: GPL-3.0-or-later
"""Make docs/gpu_data.md from the data: ``PYTHONPATH=collections:. .venv/bin/python -m tests.unit.support.nvidia.catalogue_page``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data

PAGE = Path(__file__).parents[4] / "docs/gpu_data.md"

HEAD = """\
# GPUs, drivers and toolkits: the data

Made from `plugins/module_utils/_nvidia/catalogue.py` and `package_catalogue.py`: change these files, not this page. Each line names its
source. *unverified* means that nobody has confirmed it, *measured* that it was observed.

A card whose PCI id is in none of the ranges is newer than the data and is planned as one of the newest generation. Without a request, an
installed driver that fits stays. Otherwise the branch is the first of
{preferred} that the GPUs and the source have.
"""


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    names = list(columns)
    lines = [names, ["---"] * len(names), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def ids(chip: str) -> str:
    return ", ".join(f"{row.first:04x}-{row.last:04x}" for row in data.PCI_RANGES if row.chip == chip)


def branches(archive: package_data.Archive) -> str:
    return ", ".join(f"{number} ({', '.join(modules)})" for number, modules in archive.branches.items())


def render() -> str:
    """Return the whole page."""
    sections = {
        "Generations": table(
            ("generation", "modules", "last branch", "first CUDA", "last CUDA", "bf16", "source"),
            (
                (
                    row.name,
                    ", ".join(row.modules),
                    row.highest_branch or "",
                    row.lowest_cuda or "",
                    row.highest_cuda or "",
                    "yes" if row.bf16 else "",
                    row.source,
                )
                for row in data.GENERATIONS
            ),
        ),
        "Chips and PCI ids": f"Ranges: {data.PCI_RANGES_SOURCE}.\n\n"
        + table(
            ("chip", "generation", "compute capability", "PCI ids", "first driver", "MIG", "source"),
            (
                (
                    row.name,
                    row.generation,
                    row.compute_capability,
                    ids(row.name),
                    row.lowest_driver,
                    "yes" if row.mig else "",
                    row.source,
                )
                for row in data.CHIPS
            ),
        )
        + f"\nCards that a later driver was the first to list ({data.LATER_CARDS_SOURCE}):\n\n"
        + table(
            ("first driver", "PCI ids"),
            (
                (release, ", ".join(f"{device:04x}" for device in devices))
                for release, devices in data.LATER_CARDS.items()
            ),
        )
        + f"\nMIG also: {', '.join(f'{device:04x}' for device in sorted(data.MIG_DEVICES))} ({data.MIG_DEVICES_SOURCE})."
        + f" Not: {', '.join(f'{device:04x}' for device in sorted(data.NO_MIG_DEVICES))} ({data.NO_MIG_DEVICES_SOURCE}).\n",
        "Last libraries": "Newer ones have no kernels for these generations.\n\n"
        + table(("generation", "cuDNN", "PyTorch's wheels for CUDA", "source"), data.LAST_LIBRARIES),
        "Driver branches": table(
            ("branch", "kind", "supported until", "newest CUDA", "modules", "from generation", "source"),
            (
                (
                    row.number,
                    row.kind.replace("_", " "),
                    row.ends,
                    row.highest_cuda,
                    ", ".join(row.modules),
                    row.lowest_generation,
                    row.source,
                )
                for row in data.BRANCHES
            ),
        ),
        "CUDA toolkits": "With the minimum a toolkit runs by minor-version compatibility: PTX that a program brings along cannot be\n"
        "compiled, and features that need the newer driver fail.\n\n"
        + table(("CUDA", "driver", "minimum", "source"), data.TOOLKITS),
        "Archives": table(
            ("system", "branches (modules)", "components", "source"),
            (
                (f"{row.distribution} {row.version}", branches(row), ", ".join(row.components), row.source)
                for row in package_data.ARCHIVES
            ),
        ),
        "CUDA repository": f"Below `{package_data.CUDA_REPOSITORY_URL}`; `{package_data.CUDA_KEYRING_PACKAGE}`:"
        f" {package_data.CUDA_KEYRING_SOURCE}.\n"
        f"apt 3 refuses the key {', '.join(sorted(package_data.REFUSED_KEYS))}: {package_data.REFUSED_KEYS_SOURCE}.\n\n"
        + table(
            ("system", "directory", "key", "SHA-256 of the keyring package", "architectures", "from branch", "source"),
            (
                (
                    f"{row.distribution} {row.version}",
                    row.directory,
                    row.key,
                    ", ".join(f"{name}: `{digest}`" for name, digest in row.keyring_sha256.items()),
                    ", ".join(row.architectures.values()),
                    row.lowest_branch,
                    row.source,
                )
                for row in package_data.CUDA_REPOSITORIES
            ),
        ),
        "Which source when nobody says": table(
            ("distribution", "sources", "reason"),
            ((row.distribution, ", ".join(row.sources), row.source) for row in package_data.DEFAULT_SOURCES),
        ),
        "Packages": "`{branch}` is the branch, `{server}` is `-server` with NVSwitch, `{kernel}` the kernel's flavour.\n\n"
        + table(
            (
                "source",
                "distribution",
                "from branch",
                "scope",
                "modules",
                "packages",
                "built by DKMS",
                "prebuilt",
                "pinning",
                "source of the names",
            ),
            (
                (
                    *(row.source, row.distribution, row.lowest_branch or "", row.scope, row.modules),
                    *(" ".join(names) for names in (row.packages, row.dkms, row.prebuilt, row.pinning)),
                    row.evidence,
                )
                for row in package_data.PACKAGE_SETS
            ),
        )
        + "\n"
        + table(
            ("source", "distribution", "from branch", "fabric manager", "source of the name"),
            ((*row[:2], row.lowest_branch or "", *row[3:]) for row in package_data.FABRIC_MANAGERS),
        ),
        "What does not build": "From the first up to, and without, the last.\n\n"
        + table(
            ("drivers", "kernels", "not in the archive of", "reason", "source"),
            (
                (
                    " to ".join(row.drivers),
                    " to ".join(row.kernels).replace(" to 10000", " on"),
                    ", ".join(row.patched_archives),
                    row.reason,
                    row.source,
                )
                for row in data.BUILD_FAILURES
            ),
        ),
        "Keys for Secure Boot": table(("distribution", "private key", "certificate", "source"), package_data.MOK_KEYS),
    }
    head = HEAD.format(preferred=", ".join(map(str, data.PREFERRED_BRANCHES)))
    return head + "".join(f"\n## {title}\n\n{text}" for title, text in sections.items())


if __name__ == "__main__":
    PAGE.write_text(render())
