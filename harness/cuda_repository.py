"""An imitation of NVIDIA's CUDA repository for apt, which the depot serves at `/compute/cuda/repos/<distribution>/x86_64/`.

What it holds is data: `depot_files/nvidia/packages.yml` and the trees of files beside it. The packages are real .deb files with NVIDIA's
names and relations, the index is really signed, and a driver's DKMS source is really built on the host; only what they carry does
nothing, and says so. A test breaks the repository for the time of a `with` block: `broken_index`, `sha1_key`, `unreachable`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness import depot
from harness.lab import DEPOT, Refusal
from harness.progress import step

FILES = depot.FILES / "nvidia"
TABLE = FILES / "packages.yml"
REPOSITORIES = "compute/cuda/repos"
DISTRIBUTIONS = ("debian12", "debian13")
KEYRING = "cuda-keyring"
KEYRINGS = depot.STATE / "cuda_keyrings.json"
LIBRARIES = "usr/lib/x86_64-linux-gnu"

# Packages and indexes carry this date, so the same sources give the same bytes. Seconds since 1970: 2026-01-01.
EPOCH = 1767225600
DATE = "Thu, 01 Jan 2026 00:00:00 +0000"


# --- Packages ---


@dataclass(frozen=True)
class Package:
    """One line of the table with its values filled in. `links` maps a path to its target; paths are relative to the root."""

    name: str
    version: str
    source: str
    architecture: str
    values: Mapping[str, str]
    relations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    carries: str | None = None
    libraries: tuple[Mapping[str, str], ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return f"{self.name}_{self.version}_{self.architecture}.deb"

    def control(self, size_kib: int) -> str:
        """The package's control file. `size_kib`: what it takes when installed."""
        fields = {
            "Package": self.name,
            "Source": self.source,
            "Version": self.version,
            "Architecture": self.architecture,
            "Maintainer": "Rigwright's tests <root@localhost>",
            "Installed-Size": str(size_kib),
            **{name: ", ".join(entries) for name, entries in self.relations.items()},
            "Section": "multiverse/devel",
            "Priority": "optional",
            "Description": f"imitation of the package {self.name}",
        }
        return "".join(f"{name}: {value}\n" for name, value in fields.items())


def packages(table: Mapping[str, Any] | None = None) -> list[Package]:
    """Every package of the table, of each version."""
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
    """The package as a .deb, with `more` files than its tree has: programs and scripts may be run, as their first bytes tell.

    Raises Refusal when a tool that builds it is missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        control = root / "DEBIAN"
        control.mkdir(parents=True)
        if package.carries:
            fill_tree(FILES / package.carries, root, package.values)
        for name, content in (more or {}).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
            (root / name).chmod(0o755 if content.startswith((b"#!", b"\x7fELF")) else 0o644)
        for library in package.libraries:
            build_library(library, root, package.values)
            (control / "triggers").write_text("activate-noawait ldconfig\n")
        for link, target in package.links.items():
            (root / link).parent.mkdir(parents=True, exist_ok=True)
            (root / link).symlink_to(target)
        for path in root.rglob("*"):
            if not path.is_symlink():  # modes as in git, whatever this user's umask
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        root.chmod(0o755)
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        (control / "control").write_text(package.control(-(-size // 1024)))
        run("dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", str(root), f"{folder}/{package.file}")
        return Path(folder, package.file).read_bytes()


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
    """A shared library with this soname, and the link that programs find it by."""
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


def run(*command: str, text: str = "", environment: Mapping[str, str] | None = None) -> bytes:
    """Run a tool and return its output. Raises Refusal with the way out when it is missing."""
    try:
        return subprocess.run(
            command,
            check=True,
            input=text.encode(),
            stdout=subprocess.PIPE,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "LC_ALL": "C", **(environment or {})},
        ).stdout
    except FileNotFoundError:
        raise Refusal(
            f"{command[0]} is missing, which the imitated CUDA repository is made with: apt-get install gcc gnupg dpkg"
        ) from None


def pool() -> dict[str, bytes]:
    """Every package but the keyring and the index of them, `{file: content}`; built once for the depots of all sandboxes."""
    sources = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(FILES.rglob("*")):
        if path.is_file():
            sources.update(f"{path.relative_to(FILES)} {path.stat().st_mode}".encode() + path.read_bytes())

    def make() -> dict[str, bytes]:
        with step("build the packages of the imitated CUDA repository"):
            debs = {wanted.file: build(wanted) for wanted in packages() if wanted.name != KEYRING}
            return {**debs, "Packages": packages_index(debs).encode()}

    return depot.folder_once(f"cuda-packages-{sources.hexdigest()[:12]}", make)


# --- The index and its signature ---


@contextmanager
def gnupg(key: bytes) -> Iterator[Callable[..., bytes]]:
    """Give `gpg(*arguments, text="")`, which knows this secret key and no other."""
    with tempfile.TemporaryDirectory() as home:  # its path is short: gpg-agent's socket lies in it

        def gpg(*arguments: str, text: str = "") -> bytes:
            return run("gpg", "--homedir", home, "--batch", "--quiet", *arguments, text=text)

        try:
            if key:
                gpg("--import", text=key.decode())
            yield gpg
        finally:
            run("gpgconf", "--homedir", home, "--kill", "all")


def signing_key(digest: str = "SHA256") -> bytes:
    """The secret key of the repository, made once. `digest` is what the key's signature of itself is made with."""

    def make() -> bytes:
        with gnupg(b"") as gpg:
            name = "imitated CUDA repository <root@localhost>"
            made = (
                "--passphrase",
                "",
                "--cert-digest-algo",
                digest,
                "--quick-generate-key",
                name,
                "rsa2048",
                "sign",
                "never",
            )
            gpg(*made)
            return gpg("--armor", "--export-secret-keys")

    return depot.once(f"cuda-repository-key-{digest.lower()}.asc", make)


def signed(release: str, key: bytes) -> dict[str, bytes]:
    """The Release file with its two signatures, and the public key under the name that NVIDIA's has: the end of its fingerprint."""
    with gnupg(key) as gpg:
        fingerprint = re.search(rb"^fpr:+([0-9A-F]{40}):", gpg("--with-colons", "--list-keys"), re.MULTILINE)
        if fingerprint is None:
            raise Refusal(f"{depot.BUILDS}/cuda-repository-key-*.asc hold no key: remove them, they are made again")
        sign = ("--digest-algo", "SHA256", "--armor")
        return {
            "Release": release.encode(),
            "InRelease": gpg(*sign, "--clearsign", text=release),
            "Release.gpg": gpg(*sign, "--detach-sign", text=release),
            f"{fingerprint[1].decode()[-8:]}.pub": gpg("--armor", "--export"),
        }


def keyring(distribution: str, key: bytes) -> tuple[str, bytes]:
    """The package cuda-keyring for a distribution: file and content."""
    table = yaml.safe_load(TABLE.read_text())["keyring"]
    values = {"distribution": distribution, "address": f"http://{DEPOT}/{REPOSITORIES}/{distribution}/x86_64/"}
    described = table["packages"][KEYRING]
    found = package(KEYRING, {**table["each"][0], **values}, {**table, **described})
    with gnupg(key) as gpg:
        public = gpg("--export")
    return found.file, build(found, {"usr/share/keyrings/cuda-archive-keyring.gpg": public})


def packages_index(debs: Mapping[str, bytes]) -> str:
    """The text of `Packages` for these .deb files."""
    return "".join(
        control_of(content)
        + f"Filename: ./{file}\nSize: {len(content)}\n"
        + "".join(f"{name}: {hashlib.new(name, content).hexdigest()}\n" for name in ("SHA1", "SHA256"))
        + "\n"
        for file, content in sorted(debs.items())
    )


def control_of(deb: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".deb") as file:
        file.write(deb)
        file.flush()
        return run("dpkg-deb", "--field", file.name).decode()


def release_file(indexes: Mapping[str, bytes], label: str = "NVIDIA CUDA", **more: str) -> str:
    """The text of `Release` for these indexes. `more` are further fields, or other values."""
    fields = {"Origin": "NVIDIA", "Label": label, "Architectures": "amd64", "Date": DATE, **more}
    lines = [
        f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}" for name, content in sorted(indexes.items())
    ]
    head = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return head + "SHA256:\n" + "\n".join(lines) + "\n"


def repository(distribution: str, key: bytes) -> dict[str, bytes]:
    """Every file of the flat repository of a distribution."""
    file, content = keyring(distribution, key)
    files = pool()
    text = files["Packages"] + packages_index({file: content}).encode()
    indexes = {"Packages": text, "Packages.gz": gzip.compress(text, mtime=0)}
    return files | {file: content} | indexes | signed(release_file(indexes), key)


# --- In the depot ---


def folder(distribution: str) -> str:
    """Where the depot has the repository, relative to its root."""
    return f"{REPOSITORIES}/{distribution}/x86_64"


def put(distributions: Iterable[str] = DISTRIBUTIONS) -> None:
    """Make sure that the depot has the repositories, and that KEYRINGS has the checksums of their keyring packages."""
    checksums = {}
    for distribution in distributions:
        place = depot.WWW / folder(distribution)
        wanted = repository(distribution, signing_key())
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name, content in wanted.items():
            (place / name).write_bytes(content)
        checksums[distribution] = checksum_of_keyring(wanted)
    KEYRINGS.write_text(json.dumps(checksums, indent=1))


def checksum_of_keyring(files: Mapping[str, bytes]) -> str:
    file = next(name for name in files if name.startswith(f"{KEYRING}_"))
    return hashlib.sha256(files[file]).hexdigest()


@contextmanager
def broken_index(distribution: str) -> Iterator[None]:
    """Packages that are not those that the signed Release file names, as of an upload that was cut short."""
    with ExitStack() as published:
        for name in ("Packages", "Packages.gz"):
            content = (depot.WWW / folder(distribution) / name).read_bytes()
            published.enter_context(depot.publish(f"{folder(distribution)}/{name}", content[: len(content) // 2]))
        yield


@contextmanager
def sha1_key(distribution: str) -> Iterator[str]:
    """The repository with a key that has signed itself with SHA1, as NVIDIA's 3bf863cc; gives the checksum of its keyring package."""
    wanted = repository(distribution, signing_key("SHA1"))
    with ExitStack() as published:
        for name, content in wanted.items():
            file = depot.WWW / folder(distribution) / name
            if not file.exists() or file.read_bytes() != content:
                published.enter_context(depot.publish(f"{folder(distribution)}/{name}", content))
        yield checksum_of_keyring(wanted)


@contextmanager
def unreachable(distribution: str) -> Iterator[None]:
    """Nothing where the repository is: every file of it is answered with status 404."""
    place = depot.WWW / folder(distribution)
    hidden = place.with_name("hidden")
    place.rename(hidden)
    try:
        yield
    finally:
        hidden.rename(place)
