"""NVIDIA's wheels in the depot, laid out as a package index is (PEP 503), for roles that install them with pip.

python -m harness.wheels nvidia-cudnn-cu13 9.12.0.46 f3befad5...   hand the real wheel on, downloaded once, by its SHA-256
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import depot
from harness.lab import Refusal
from harness.progress import step


def download(project: str, version: str, sha256: str) -> bytes:
    """The wheel as this machine's own pip gets it. Raises Refusal when it cannot be had or has another SHA-256."""
    with step(f"download {project} {version}"), tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "requirements.txt")
        wanted.write_text(f"{project}=={version} --hash=sha256:{sha256}\n")
        options = ("--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", f"--requirement={wanted}")
        command = (sys.executable, "-m", "pip", "download", *options, f"--dest={folder}")
        if subprocess.run(command, check=False).returncode != 0:
            raise Refusal(f"{project} {version} cannot be had: pip says above why")
        (wheel,) = Path(folder).glob("*.whl")
        return wheel.read_bytes()


def name_of(project: str, version: str) -> str:
    """The file name that pip expects of a wheel for every Python and this kind of machine."""
    return f"{project.replace('-', '_')}-{version}-py3-none-manylinux_2_27_x86_64.whl"


def page(project: str) -> str:
    """The index's page of a project: every file that lies beside it."""
    files = sorted((depot.WWW / "simple" / project).glob("*.whl"))
    return "".join(f'<a href="{file.name}">{file.name}</a>\n' for file in files)


def hand_on(project: str, version: str, sha256: str) -> None:
    """Have the depot serve the real wheel under /simple/, as an index would."""
    name = name_of(project, version)
    folder = depot.WWW / "simple" / project
    folder.mkdir(parents=True, exist_ok=True)
    content = depot.once(name, lambda: download(project, version, sha256))
    if hashlib.sha256(content).hexdigest() != sha256:
        raise Refusal(f"{depot.BUILDS / name} is not what was downloaded: remove it")
    (folder / name).write_bytes(content)
    (folder / "index.html").write_text(page(project))


@contextmanager
def publish(project: str, version: str, content: bytes) -> Iterator[None]:
    """Serve `content` as a wheel for the time of the block."""
    with depot.publish(f"simple/{project}/{name_of(project, version)}", content):
        (depot.WWW / "simple" / project / "index.html").write_text(page(project))
        yield
    (depot.WWW / "simple" / project / "index.html").write_text(page(project))


if __name__ == "__main__":
    hand_on(*sys.argv[1:])
