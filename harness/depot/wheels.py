"""Wheels in the depot, laid out as a package index is (PEP 503), for roles that install them with pip or uv.

python -m harness.depot.wheels nvidia-cudnn-cu13 9.12.0.46 f3befad5...   hand the real wheel on, downloaded once, by its SHA-256
python -m harness.depot.wheels roles/common/files/python.txt             hand on all that a list with hashes has
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.depot import lifecycle as depot
from harness.progress import step
from harness.sandbox import engine
from harness.sandbox.lab import Refusal

# Those of Debian 12 and 13: some wheels are for one of them.
PYTHONS = ("3.11", "3.13")


def download(requirements: Path, folder: Path, *more: str) -> None:
    """Download wheels with this machine's pip. Raises Refusal when one is unavailable or has another SHA-256."""
    options = (
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        f"--requirement={requirements}",
        *more,
    )
    if subprocess.run((sys.executable, "-m", "pip", "download", *options, f"--dest={folder}"), check=False).returncode:
        raise Refusal("wheels cannot be had: pip says above why")


def download_one(project: str, version: str, sha256: str) -> bytes:
    """Download a wheel by its SHA-256. Raises Refusal as `download` does."""
    with step(f"download {project} {version}"), tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "requirements.txt")
        wanted.write_text(f"{project}=={version} --hash=sha256:{sha256}\n")
        download(wanted, Path(folder))
        (wheel,) = Path(folder).glob("*.whl")
        return wheel.read_bytes()


def name_of(project: str, version: str) -> str:
    """Return the file name that pip expects of a wheel for every Python and this kind of machine."""
    return f"{project.replace('-', '_')}-{version}-py3-none-manylinux_2_27_x86_64.whl"


def page(project: str) -> str:
    """Return the index page of a project, which lists every file next to it."""
    files = sorted((depot.WWW / "simple" / project).glob("*.whl"))
    return "".join(f'<a href="{file.name}">{file.name}</a>\n' for file in files)


def hand_on(project: str, version: str, sha256: str) -> None:
    """Serve the real wheel from the depot under /simple/, as an index would."""
    name = name_of(project, version)
    folder = depot.WWW / "simple" / project
    folder.mkdir(parents=True, exist_ok=True)
    content = depot.once(name, lambda: download_one(project, version, sha256))
    if hashlib.sha256(content).hexdigest() != sha256:
        raise Refusal(f"{depot.BUILDS / name} is not what was downloaded: remove it")
    (folder / name).write_bytes(content)
    (folder / "index.html").write_text(page(project))


def hand_on_list(requirements: Path) -> None:
    """Serve the wheels of a list of requirements with hashes for this kind of machine from the depot."""
    kept = depot.BUILDS / f"wheels-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]}"
    with engine.making("builds"):
        if not kept.exists():
            with step(f"download the wheels of {requirements.name}"):
                staged = kept.with_suffix(".part")
                for version in PYTHONS:
                    download(requirements, staged, f"--python-version={version}")
                staged.rename(kept)
    for wheel in kept.glob("*.whl"):
        project = wheel.name.partition("-")[0].replace("_", "-").lower()
        folder = depot.WWW / "simple" / project
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, folder)
        (folder / "index.html").write_text(page(project))


@contextmanager
def publish(project: str, version: str, content: bytes) -> Iterator[None]:
    """Serve `content` as a wheel for the time of the block."""
    with depot.publish(f"simple/{project}/{name_of(project, version)}", content):
        (depot.WWW / "simple" / project / "index.html").write_text(page(project))
        yield
    (depot.WWW / "simple" / project / "index.html").write_text(page(project))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        hand_on_list(Path(sys.argv[1]))
    else:
        hand_on(*sys.argv[1:])
