# Copyright: the Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the versions of a release on a host, and unpack an archive without trusting its paths.

Content of ``/opt/<name>``::

    0.70.1/                   an unpacked archive, never changed once it is in place
    0.70.1/.rigwright.json    the receipt: which archive it came from and the digest of each file
    .rigwright/<user>.json    the record of a user: the versions it chose, newest choice first, and its links
    .rigwright/work/          unfinished files; what an interrupted run has left here is removed
"""

from __future__ import annotations

import bz2
import hashlib
import os
import posixpath
import re
import shutil
import tarfile
import typing as t
import zlib

from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories

RECEIPT = ".rigwright.json"

# The state of a version whose files are not those of its receipt.
DAMAGED = "damaged"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]*")
_CHECKSUM = re.compile(r"sha256:[0-9a-fA-F]{64}")


class ReleaseError(Exception):
    """A request or an archive that cannot be installed; the text names the cause and the remedy."""


class ReleaseRequest(t.TypedDict):
    """The parameters of ``release_archive``. Version, address and checksum are None to remove a release."""

    name: str
    user: str | None
    state: str
    version: str
    url: str
    checksum: str
    programs: dict[str, str] | None
    strip_components: int
    keep: int
    install_root: str
    timeout: int
    retries: int
    deadline: int
    max_mib: int


class Record(t.NamedTuple):
    """What one user of a release relies on."""

    versions: list[str]
    """The version in use, then those kept for going back."""
    links: list[str]


NOTHING = Record([], [])


class State(t.NamedTuple):
    """A release as one user of it sees it, before or after a run: the run applies the difference."""

    archives: dict[str, str]
    """Checksum of the archive that each version was unpacked from, or ``damaged``."""
    record: Record
    links: dict[str, str]
    """Where each link of this user leads to."""
    leftovers: bool
    """Whether an interrupted run left something."""


def check_request(params: ReleaseRequest) -> None:
    """Refuse what no release can satisfy.

    :raises ReleaseError: the parameter, what is wrong with it and what it should be.
    """
    for key, name in (("name", params["name"]), ("user", params["user"]), ("version", params["version"])):
        if name is not None and not _NAME.fullmatch(name):
            raise ReleaseError(
                f"{key} is {name!r}. Set `{key}` to letters, digits and ._+~- that begin with a letter or digit."
            )
    if params["checksum"] is not None and not _CHECKSUM.fullmatch(params["checksum"]):
        raise ReleaseError(
            f"checksum is {params['checksum']!r}. Set `checksum` to sha256: and the 64 hexadecimal digits that the publisher states."
        )
    for key, number, least in (
        ("strip_components", params["strip_components"], 0),
        ("keep", params["keep"], 0),
        ("retries", params["retries"], 0),
        ("deadline", params["deadline"], 1),
        ("max_mib", params["max_mib"], 1),
    ):
        if number < least:
            raise ReleaseError(f"{key} is {number}. Set `{key}` to {least} or more.")
    for link, program in (params["programs"] or {}).items():
        if not posixpath.isabs(link) or posixpath.normpath(link) != link:
            raise ReleaseError(
                f"programs has the link {link!r}. Set its keys to absolute paths, such as /usr/local/bin/x."
            )
        if not isinstance(program, str) or _leads_out(program) or posixpath.normpath(program) != program:
            raise ReleaseError(
                f"programs has {program!r} for {link}. Set its values to paths inside the archive, after `strip_components`."
            )


def wanted_links(base: str, version: str, programs: dict[str, str]) -> dict[str, str]:
    """Return the links into the directory of a version: each is switched atomically and belongs to one version."""
    return {link: f"{base}/{version}/{program}" for link, program in programs.items()}


def plan_present(
    current: State, others: list[Record], *, version: str, checksum: str, links: dict[str, str], keep: int
) -> State:
    """Return the wanted state: the version in use, the newest ``keep`` choices before it, and the versions that other users need."""
    before = [previous for previous in current.record.versions if previous != version and previous in current.archives]
    record = Record([version, *before][: keep + 1], sorted(links))
    return State({**_relied_on(current.archives, [record, *others]), version: checksum}, record, links, leftovers=False)


def plan_absent(current: State, others: list[Record]) -> State:
    """Return the wanted state without this user: only the versions that other users need."""
    return State(_relied_on(current.archives, others), NOTHING, {}, leftovers=False)


def changed_links(current: State, wanted: State) -> list[str]:
    """Return the links that lead to another program afterwards, or to none."""
    replaced = any(current.archives.get(version) != wanted.archives[version] for version in wanted.record.versions[:1])
    paths = current.links.keys() | wanted.links.keys()
    return sorted(path for path in paths if replaced or current.links.get(path) != wanted.links.get(path))


def _relied_on(archives: dict[str, str], records: list[Record]) -> dict[str, str]:
    relied_on = {version for record in records for version in record.versions}
    return {version: archive for version, archive in archives.items() if version in relied_on}


def find_damage(directory: str, digests: dict[str, str], programs: t.Iterable[str]) -> list[str]:
    """List the programs that are not, byte for byte and executable, what the receipt's digests say."""
    damaged = []
    for program in programs:
        path = os.path.join(directory, program)
        intact = program in digests and _is_program(path) and sha256(path) == digests[program]
        if not intact:
            damaged.append(program)
    return damaged


def _is_program(path: str) -> bool:
    # By its mode: os.access() would call every program damaged where the disk is mounted noexec.
    return os.path.isfile(path) and os.stat(path).st_mode & 0o111 == 0o111


def sha256(path: str) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return sha256_of(file)


def sha256_of(file: t.IO[bytes]) -> str:
    """Return the SHA-256 of an open file from its beginning, in hexadecimal digits."""
    digest = hashlib.sha256()
    file.seek(0)
    for block in iter(lambda: file.read(1 << 20), b""):
        digest.update(block)
    return digest.hexdigest()


def _leads_out(path: str) -> bool:
    return posixpath.isabs(path) or ".." in path.split("/")


def select_members(members: t.Iterable[tarfile.TarInfo], strip: int) -> dict[str, tarfile.TarInfo]:
    """Map the paths to make to the members of an archive, or refuse the archive.

    The rules are those of Python's own data filter (PEP 706), which Python 3.9 may lack, and one more: no path is
    used twice, so that nothing is ever written through a link that the archive has made itself.

    :raises ReleaseError: a member leads out of the archive, or is neither a file, a directory nor a link.
    """
    selected: dict[str, tarfile.TarInfo] = {}
    for member in members:
        if _leads_out(member.name):
            raise ReleaseError(f"{member.name} leads out of the archive")
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            raise ReleaseError(f"{member.name} is neither a file, a directory nor a link")
        parts = [part for part in member.name.split("/") if part not in ("", ".")][strip:]
        if not parts:
            continue
        path = "/".join(parts)
        if member.issym():
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), member.linkname))
            if _leads_out(target):
                raise ReleaseError(f"{member.name} is a link to {member.linkname}, out of the archive")
        parents = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        if any(parent in selected and not selected[parent].isdir() for parent in parents):
            raise ReleaseError(f"{member.name} is below a file or a link")
        if path in selected and not (member.isdir() and selected[path].isdir()):
            raise ReleaseError(f"{member.name} is there twice")
        selected[path] = member
    return selected


def unpack(archive: t.IO[bytes], directory: str, strip: int) -> dict[str, str]:
    """Unpack an open tar archive into a new directory and return the digest of each file.

    Everything belongs to the user who runs this. Modes are 0755 for directories and programs, 0644 for other files.

    :raises ReleaseError: the archive is damaged or its members are refused; the directory may then hold a part of it.
    """
    digests = {}
    os.mkdir(directory)
    os.chmod(directory, 0o755)  # noqa: S103 - programs for all users
    try:
        archive.seek(0)
        with tarfile.open(fileobj=archive) as tar:
            for path, member in select_members(tar, strip).items():
                place = os.path.join(directory, path)
                make_directories(place if member.isdir() else os.path.dirname(place))
                if member.issym():
                    os.symlink(member.linkname, place)
                elif not member.isdir():
                    _write(tar, member, place)
                    digests[path] = sha256(place)
    except (tarfile.TarError, EOFError, KeyError, zlib.error) as error:
        raise ReleaseError(f"it is no complete tar archive ({error})") from error
    return digests


def is_program(url: str) -> str:
    """Return the name of a single compressed program that an address leads to; empty for archives."""
    name = posixpath.basename(url)
    return name[: -len(".bz2")] if name.endswith(".bz2") and not name.endswith(".tar.bz2") else ""


def unpack_program(compressed: t.IO[bytes], directory: str, name: str) -> dict[str, str]:
    """Unpack a single program from an open file, as ``restic_0.19.1_linux_amd64.bz2``, into a new directory and return its digest.

    :raises ReleaseError: it is damaged; the directory may then hold a part of it.
    """
    os.mkdir(directory)
    os.chmod(directory, 0o755)  # noqa: S103 - programs for all users
    place = os.path.join(directory, name)
    compressed.seek(0)
    try:
        with bz2.open(compressed) as content, open(place, "xb") as file:
            shutil.copyfileobj(content, file, 1 << 20)
    except (OSError, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ReleaseError(f"it is no complete bzip2 file ({error})") from error
    os.chmod(place, 0o755)  # noqa: S103 - a program for all users
    return {name: sha256(place)}


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, place: str) -> None:
    # A hard link is written as a file of its own: extractfile follows it, inside the archive only.
    content = tar.extractfile(member)
    if content is None:
        raise ReleaseError(f"{member.name} has no content")
    with content, open(place, "xb") as file:
        shutil.copyfileobj(content, file, 1 << 20)
    os.chmod(place, 0o755 if member.mode & 0o111 else 0o644)
