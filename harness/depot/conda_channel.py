"""A small conda channel: real packages (.conda and .tar.bz2) with an index, which solvers and installers take as any other.

Its packages are data: `files/conda/packages.yml`. Tests make packages of their own with `Package` and `write`. Formats: conda's
documentation of packages and of repodata.json; CEP 20 has noarch python, and `.conda` is a zip of two tar.zst.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
import zstandard

from harness.depot import lifecycle as depot

TABLE = depot.FILES / "conda" / "packages.yml"
# The directory of channels by name, as below conda's `channel_alias`.
PLACE = depot.WWW / "conda" / "conda-forge"
SUBDIRS = ("linux-64", "noarch")

# Packages carry this date, so the same sources give the same bytes. Seconds since 1970: 2026-01-01.
EPOCH = 1767225600

# The placeholder of the prefix in files. An installer replaces it with the real prefix, which must not be longer.
PLACEHOLDER = "/placehold".ljust(255, "_")


@dataclass(frozen=True)
class Package:
    """One build of a package. `files` and `links` are by their path below the prefix; a file in bin/ may be run.

    `noarch`: None for this kind of machine, or "python" or "generic". `wrong_hash`: the index states another SHA-256 than the archive's.
    """

    name: str
    version: str
    build: str = "0"
    noarch: str | None = None
    form: str = ".conda"
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    entry_points: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    wrong_hash: bool = False

    @property
    def subdir(self) -> str:
        return "noarch" if self.noarch else "linux-64"

    @property
    def stem(self) -> str:
        return f"{self.name}-{self.version}-{self.build}"

    @property
    def file(self) -> str:
        return self.stem + self.form

    def index(self) -> dict[str, Any]:
        """Return info/index.json, which the channel's index repeats."""
        return {
            "name": self.name,
            "version": self.version,
            "build": self.build,
            "build_number": int(self.build.rpartition("_")[2]),
            "depends": list(self.depends),
            "constrains": list(self.constrains),
            "subdir": self.subdir,
            "license": "GPL-3.0-or-later",
            "timestamp": EPOCH * 1000,
            **({"noarch": self.noarch} if self.noarch else {"arch": "x86_64", "platform": "linux"}),
        }

    def contents(self) -> dict[str, bytes]:
        """Return the files of the archive."""
        return {
            path: text.replace("@version@", self.version).replace("@prefix@", PLACEHOLDER).encode()
            for path, text in sorted(self.files.items())
        }

    def about(self) -> dict[str, bytes]:
        """Return the files of info/."""
        rows: list[dict[str, Any]] = [
            {
                "_path": path,
                "path_type": "hardlink",
                "sha256": hashlib.sha256(content).hexdigest(),
                "size_in_bytes": len(content),
                **({"file_mode": "text", "prefix_placeholder": PLACEHOLDER} if PLACEHOLDER.encode() in content else {}),
            }
            for path, content in self.contents().items()
        ]
        rows += [{"_path": path, "path_type": "softlink"} for path in sorted(self.links)]
        documents: dict[str, Any] = {
            "info/index.json": self.index(),
            "info/about.json": {"summary": "a package of Rigwright's tests"},
            "info/paths.json": {"paths": rows, "paths_version": 1},
        }
        if self.noarch == "python":
            noarch = {"type": "python", "entry_points": list(self.entry_points)}
            documents["info/link.json"] = {"noarch": noarch, "package_metadata_version": 1}
        lines = "".join(f"{row['_path']}\n" for row in rows)
        return {"info/files": lines.encode(), **{path: encode(value) for path, value in documents.items()}}


def encode(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()


# --- Archives ---


def tar(files: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    """Return a tar of files and links."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mtime = len(content), EPOCH
            entry.mode = 0o755 if path.startswith("bin/") else 0o644
            archive.addfile(entry, io.BytesIO(content))
        for path, target in links.items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname, entry.mtime = tarfile.SYMTYPE, target, EPOCH
            archive.addfile(entry)
    return stream.getvalue()


def pack(package: Package) -> bytes:
    """Return the archive of a package."""
    about, contents = package.about(), package.contents()
    if package.form == ".tar.bz2":
        return bz2.compress(tar({**about, **contents}, package.links))
    stream = io.BytesIO()
    parts = {
        "metadata.json": encode({"conda_pkg_format_version": 2}),
        f"pkg-{package.stem}.tar.zst": zstandard.compress(tar(contents, package.links)),
        f"info-{package.stem}.tar.zst": zstandard.compress(tar(about, {})),
    }
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return stream.getvalue()


# --- The channel ---


def read_table() -> list[Package]:
    """Return the packages of the table."""
    return [from_row(row) for row in yaml.safe_load(TABLE.read_text())]


def from_row(row: Mapping[str, Any]) -> Package:
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    match values.pop("carries", None):
        case "python":
            values.update(fake_python(values["version"]))
        case "conda":
            values.update(fake_conda())
    return Package(**values)


def fake_conda() -> dict[str, Mapping[str, str]]:
    """Return the files of the fake conda, which finds environments by their names and activates them."""
    source = TABLE.parent / "fake"
    return {
        "files": {
            "bin/conda": "#!@prefix@/bin/python\n" + (source / "conda").read_text(),
            "etc/profile.d/conda.sh": (source / "conda.sh").read_text(),
        }
    }


def fake_python(version: str) -> dict[str, Mapping[str, str]]:
    """Return links to the host's own Python, and the file that makes the prefix its home (PEP 405)."""
    short = version.rpartition(".")[0]
    settings = f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {version}\n"
    return {
        "files": {"pyvenv.cfg": settings, f"lib/python{short}/site-packages/README.txt": "packages for Python\n"},
        "links": {
            f"bin/python{short}": f"/usr/bin/python{short}",
            "bin/python3": f"python{short}",
            "bin/python": "python3",
        },
    }


def write(folder: Path, packages: Iterable[Package]) -> None:
    """Write archives and indexes. Earlier packages leave the index, and their archives stay."""
    records: dict[str, dict[str, dict[str, Any]]] = {subdir: {} for subdir in SUBDIRS}
    for package in packages:
        content = pack(package)
        path = folder / package.subdir / package.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        stated = content[::-1] if package.wrong_hash else content
        records[package.subdir][package.file] = {
            **package.index(),
            "md5": hashlib.md5(stated, usedforsecurity=False).hexdigest(),
            "sha256": hashlib.sha256(stated).hexdigest(),
            "size": len(content),
        }
    for subdir, entries in records.items():
        index = {
            "info": {"subdir": subdir},
            "packages": {name: entry for name, entry in entries.items() if name.endswith(".tar.bz2")},
            "packages.conda": {name: entry for name, entry in entries.items() if name.endswith(".conda")},
            "removed": [],
            "repodata_version": 1,
        }
        (folder / subdir).mkdir(parents=True, exist_ok=True)
        (folder / subdir / "repodata.json").write_bytes(encode(index))


def put() -> None:
    """Serve the channel of the table from the depot."""
    write(PLACE, read_table())
