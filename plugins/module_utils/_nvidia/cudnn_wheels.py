# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIA's wheels of cuDNN, unpacked for every compiler and program of a host.

The files below ``/opt/cudnn``::

    cuda13-9.12.0.46/     headers and libraries of one wheel, never changed once in place, with a receipt
    cuda13                -> cuda13-9.12.0.46, for users who want cuDNN of one CUDA
    default               -> cuda13, the target of the links in /usr/local
    .work/                unfinished work; what an interrupted run left here is worthless

What has no receipt, and every other link, belongs to others.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import stat
import typing as t
import zipfile

from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories

BASE = "/opt/cudnn"
RECEIPT = ".rigwright.json"
VERSION = re.compile(r"\d+(\.\d+)+")
# Names and targets of our links below BASE. The names with a dot are about to replace the others.
LINKS = re.compile(r"(cuda\d+|\.cuda\d+\.rigwright) -> cuda\d+-[\d.]+|(default|\.default\.rigwright) -> cuda\d+")
# The directories that compilers and the linker search by default. No package has files in them (FHS, /usr/local).
PLACES = {"include": "/usr/local/include", "lib": "/usr/local/lib", "pkgconfig": "/usr/local/lib/pkgconfig"}
MEMBERS = re.compile(r"nvidia/cudnn/(include/[\w.-]+\.h|lib/[\w.-]+\.so[\w.]*)|[\w.-]+\.dist-info/licenses/([\w.-]+)")

PKGCONFIG = """\
prefix={prefix}
Name: cudnn
Description: NVIDIA cuDNN for CUDA {cuda}
Version: {version}
Libs: -L${{prefix}}/lib -lcudnn
Cflags: -I${{prefix}}/include
"""


class WheelError(Exception):
    """A wheel cannot be installed. The text names the cause and the remedy."""


class Wheel(t.NamedTuple):
    """cuDNN for one major version of CUDA. *sha256* has a checksum for each kind of machine."""

    cuda: int
    version: str
    sha256: tuple[str, ...]

    @property
    def directory(self) -> str:
        return f"cuda{self.cuda}-{self.version}"

    @property
    def requirement(self) -> str:
        """Return a line for `pip download --require-hashes`."""
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in self.sha256)
        return f"nvidia-cudnn-cu{self.cuda}=={self.version} {hashes}\n"


def unpack(wheel: str, directory: str, cuda: int, version: str) -> None:
    """Unpack headers, libraries and licence of a wheel into a new directory, and add what the linker needs.

    A wheel names its libraries by soname alone: ``-lcudnn`` needs ``libcudnn.so``.

    :raises WheelError: there is no header or no library in it, or it is damaged.
    """
    sizes: dict[str, int] = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                found = MEMBERS.fullmatch(member.filename)
                if found:
                    path = found.group(1) or found.group(2)
                    place = os.path.join(directory, path)
                    make_directories(os.path.dirname(place))
                    with archive.open(member) as source, open(place, "xb") as target:
                        while block := source.read(1 << 20):
                            target.write(block)
                    os.chmod(place, 0o644)
                    sizes[path] = member.file_size
    except (zipfile.BadZipFile, EOFError) as error:
        raise WheelError(f"it is no complete wheel ({error})") from error
    if "include/cudnn.h" not in sizes or not any(path.startswith("lib/libcudnn.so") for path in sizes):
        raise WheelError("it has no cudnn.h or no libcudnn.so")
    for path in sizes:
        library = re.fullmatch(r"lib/(\w+\.so)\.\d+", path)
        if library:
            os.symlink(posixpath.basename(path), os.path.join(directory, "lib", library.group(1)))
    make_directories(os.path.join(directory, "pkgconfig"))
    with open(os.path.join(directory, "pkgconfig", "cudnn.pc"), "w", encoding="ascii") as file:
        file.write(PKGCONFIG.format(prefix=f"{BASE}/cuda{cuda}", cuda=cuda, version=version))
    with open(os.path.join(directory, RECEIPT), "w", encoding="utf-8") as file:
        json.dump(sizes, file, indent=1, sort_keys=True)


def is_whole(directory: str) -> bool:
    """Return whether every file of the receipt exists in its size."""
    try:
        with open(os.path.join(directory, RECEIPT), encoding="utf-8") as file:
            sizes: dict[str, int] = json.load(file)
    except (OSError, ValueError):
        return False
    return isinstance(sizes, dict) and all(_size(os.path.join(directory, path)) == size for path, size in sizes.items())


def _size(path: str) -> int:
    try:
        found = os.lstat(path)
    except OSError:
        return -1
    return found.st_size if stat.S_ISREG(found.st_mode) else -1


def wanted_links(wheels: t.Sequence[Wheel], names: t.Mapping[str, t.Iterable[str]]) -> dict[str, str]:
    """Return every link and its target. *names* has the files of the default wheel in each of PLACES."""
    if not wheels:
        return {}
    links = {f"{BASE}/cuda{wheel.cuda}": wheel.directory for wheel in wheels}
    links[f"{BASE}/default"] = f"cuda{wheels[0].cuda}"
    for folder, place in PLACES.items():
        links.update({f"{place}/{name}": f"{BASE}/default/{folder}/{name}" for name in names.get(folder, ())})
    return links
