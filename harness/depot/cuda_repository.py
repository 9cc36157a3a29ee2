"""A fake of NVIDIA's CUDA repository for apt, which the depot serves at `/compute/cuda/repos/<distribution>/x86_64/`.

Its content is data: `files/nvidia/packages.yml` and the trees of files next to it. The packages are real .deb files with NVIDIA's
names and relations. The index is really signed, and the host really builds the DKMS source of a driver. Only the programs in the
packages do nothing, and say so. A test breaks the repository for the time of a `with` block: `broken_index`, `sha1_key`, `unreachable`.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.depot import apt_repository
from harness.depot import lifecycle as depot
from harness.depot.apt_repository import Key, run, signing_key
from harness.progress import step
from harness.sandbox.lab import DEPOT

FILES = depot.FILES / "nvidia"
TABLE = FILES / "packages.yml"
REPOSITORIES = "compute/cuda/repos"
DISTRIBUTIONS = ("debian12", "debian13")
KEYRING = "cuda-keyring"
KEYRINGS = depot.STATE / "cuda_keyrings.json"
LIBRARIES = "usr/lib/x86_64-linux-gnu"


# --- Packages ---


@dataclass(frozen=True)
class Package(apt_repository.Package):
    """One line of the table with its values filled in. `links` maps a path to its target; paths are relative to the root."""

    values: Mapping[str, str] = field(default_factory=dict)
    carries: str | None = None
    libraries: tuple[Mapping[str, str], ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)


def packages(table: Mapping[str, Any] | None = None) -> list[Package]:
    """Return every package of the table, of each version."""
    sets: Mapping[str, Any] = table or yaml.safe_load(TABLE.read_text())
    return [
        package(name, {**each, **described.get("with", {})}, {**group, **described})
        for group in sets.values()
        for each in group["each"]
        for name, described in group["packages"].items()
    ]


def package(name: str, values: Mapping[str, str], described: Mapping[str, Any]) -> Package:
    def fill(text: str, values: Mapping[str, str] = values) -> str:
        return text.format_map(values)

    values = {key: fill(value) for key, value in values.items()}
    version, name = fill(described["version"], values), fill(name, values)
    values |= {"version": version, "name": name}
    relations = ("depends", "recommends", "provides", "conflicts", "replaces")
    return Package(
        name=name,
        version=version,
        source=described.get("source", name),
        architecture=described.get("architecture", "amd64"),
        values=values,
        relations={
            key.capitalize(): tuple(fill(entry, values) for entry in described[key])
            for key in relations
            if key in described
        },
        carries=described.get("carries"),
        libraries=tuple(
            {key: fill(value, values) for key, value in library.items()} for library in described.get("libraries", ())
        ),
        links={fill(path, values): fill(target, values) for path, target in described.get("links", {}).items()},
    )


def build(package: Package, more: Mapping[str, bytes] | None = None) -> bytes:
    """Return the package as a .deb, with `more` files than its tree has.

    Raises Refusal when a tool that builds it is missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        apt_repository.fill(root, more or {})
        if package.carries:
            fill_tree(FILES / package.carries, root, package.values)
        for library in package.libraries:
            build_library(library, root, package.values)
            apt_repository.fill(root, {"DEBIAN/triggers": b"activate-noawait ldconfig\n"})
        for link, target in package.links.items():
            (root / link).parent.mkdir(parents=True, exist_ok=True)
            (root / link).symlink_to(target)
        return apt_repository.pack(package, root)


def fill_tree(source: Path, target: Path, values: Mapping[str, str]) -> None:
    """Copy a tree, with `@name@` in names and in contents replaced by the values."""

    def fill(text: str) -> str:
        return re.sub(r"@(\w+)@", lambda found: values[found[1]], text)

    for path in sorted(source.rglob("*")):
        if path.is_file():
            copy = target / fill(str(path.relative_to(source)))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(fill(path.read_text()))
            copy.chmod(path.stat().st_mode)


def build_library(library: Mapping[str, str], root: Path, values: Mapping[str, str]) -> None:
    """Build a shared library with this soname, and the link by which programs find it."""
    folder = root / library.get("folder", LIBRARIES)
    folder.mkdir(parents=True, exist_ok=True)
    defined = [f"-D{key}={value}" for key, value in values.items() if value.isdecimal()]
    source = FILES / "sources" / library.get("source", "library.c")
    run(
        *("gcc", "-shared", "-nostdlib", "-s", "-Wl,--build-id=none", f"-Wl,-soname,{library['soname']}", *defined),
        *("-o", str(folder / library["name"]), str(source)),
    )
    if library["soname"] != library["name"]:
        (folder / library["soname"]).symlink_to(library["name"])


def pool() -> dict[str, bytes]:
    """Return every package but the keyring, and their index, as `{file: content}`. They are built once for the depots of all sandboxes."""

    def make() -> dict[str, bytes]:
        with step("build the packages of the fake CUDA repository"):
            debs = {wanted.file: build(wanted) for wanted in packages() if wanted.name != KEYRING}
            return {**debs, "Packages": apt_repository.packages_index(debs).encode()}

    return depot.folder_once(f"cuda-packages-{apt_repository.recipe(Path(__file__), FILES)}", make)


def keyring(distribution: str, key: Key) -> tuple[str, bytes]:
    """Return file and content of the package cuda-keyring for a distribution."""
    table = yaml.safe_load(TABLE.read_text())["keyring"]
    values = {"distribution": distribution, "address": f"http://{DEPOT}/{REPOSITORIES}/{distribution}/x86_64/"}
    described = table["packages"][KEYRING]
    found = package(KEYRING, {**table["each"][0], **values}, {**table, **described})
    return found.file, build(found, {"usr/share/keyrings/cuda-archive-keyring.gpg": key.keyring})


def repository(distribution: str, key: Key) -> dict[str, bytes]:
    """Return every file of the flat repository of a distribution. The public key is named as NVIDIA's: the end of its fingerprint."""
    file, content = keyring(distribution, key)
    files = pool()
    indexes = apt_repository.indexes(files["Packages"].decode() + apt_repository.packages_index({file: content}))
    release = apt_repository.release_file(indexes, Origin="NVIDIA", Label="NVIDIA CUDA")
    public = {f"{key.fingerprint[-8:]}.pub": key.public}
    return files | {file: content} | indexes | apt_repository.signed(release, key) | public


# --- In the depot ---


def folder(distribution: str) -> str:
    """Return the folder of the repository, relative to the depot's root."""
    return f"{REPOSITORIES}/{distribution}/x86_64"


def put(distributions: Iterable[str] = DISTRIBUTIONS) -> None:
    """Make sure that the depot has the repositories, and that KEYRINGS has the checksums of their keyring packages."""
    checksums = {}
    for distribution in distributions:
        wanted = repository(distribution, signing_key())
        depot.put(folder(distribution), wanted)
        checksums[distribution] = checksum_of_keyring(wanted)
    KEYRINGS.write_text(json.dumps(checksums, indent=1))


def checksum_of_keyring(files: Mapping[str, bytes]) -> str:
    file = next(name for name in files if name.startswith(f"{KEYRING}_"))
    return hashlib.sha256(files[file]).hexdigest()


@contextmanager
def broken_index(distribution: str) -> Iterator[None]:
    """Serve packages that the signed Release file does not name, as after an interrupted upload."""
    with ExitStack() as published:
        for name in ("Packages", "Packages.gz"):
            content = (depot.WWW / folder(distribution) / name).read_bytes()
            published.enter_context(depot.publish(f"{folder(distribution)}/{name}", content[: len(content) // 2]))
        yield


@contextmanager
def sha1_key(distribution: str) -> Iterator[str]:
    """Serve the repository with a key that has signed itself with SHA1, as NVIDIA's 3bf863cc. Yield the checksum of its keyring package."""
    wanted = repository(distribution, signing_key("SHA1"))
    with ExitStack() as published:
        for name, content in wanted.items():
            file = depot.WWW / folder(distribution) / name
            if not file.exists() or file.read_bytes() != content:
                published.enter_context(depot.publish(f"{folder(distribution)}/{name}", content))
        yield checksum_of_keyring(wanted)


@contextmanager
def unreachable(distribution: str) -> Iterator[None]:
    """Answer every file of the repository with status 404."""
    place = depot.WWW / folder(distribution)
    hidden = place.with_name("hidden")
    place.rename(hidden)
    try:
        yield
    finally:
        hidden.rename(place)
