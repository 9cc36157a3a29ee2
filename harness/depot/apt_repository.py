"""Repositories for apt as the harness makes them: packages, indexes, signatures. What one holds is the business of its own module.

`cuda_repository`, `docker_repository` and `container_toolkit` are such modules. The .deb files are real, and the index is really signed.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.depot import lifecycle as depot
from harness.sandbox.lab import Refusal

# Packages and indexes carry this date, so the same sources give the same bytes. Seconds since 1970: 2026-01-01.
EPOCH = 1767225600
DATE = "Thu, 01 Jan 2026 00:00:00 +0000"


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
            f"{command[0]} is missing, which the depot's packages are made with: apt-get install gcc gnupg dpkg"
        ) from None


# --- Packages ---


@dataclass(frozen=True)
class Package:
    """The control file of a package. `relations` are fields such as Depends with their entries."""

    name: str
    version: str
    source: str
    architecture: str = "amd64"
    relations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """Return the name of its file, without the version's epoch, as in apt's archives."""
        return f"{self.name}_{self.version.partition(':')[2] or self.version}_{self.architecture}.deb"

    def control(self, size_kib: int) -> str:
        """Return the package's control file. `size_kib`: its size when installed."""
        fields = {
            "Package": self.name,
            "Source": self.source,
            "Version": self.version,
            "Architecture": self.architecture,
            "Maintainer": "Rigwright's tests <root@localhost>",
            "Installed-Size": str(size_kib),
            **{name: ", ".join(entries) for name, entries in self.relations.items() if entries},
            "Section": "multiverse/devel",
            "Priority": "optional",
            "Description": f"fake of the package {self.name}",
        }
        return "".join(f"{name}: {value}\n" for name, value in fields.items())


def build(package: Package, files: Mapping[str, bytes]) -> bytes:
    """Build the package with these files as a .deb. Programs and scripts, known by their first bytes, are executable."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        fill(root, files)
        return pack(package, root)


def fill(root: Path, files: Mapping[str, bytes]) -> None:
    root.mkdir(exist_ok=True)
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
        (root / name).chmod(0o755 if content.startswith((b"#!", b"\x7fELF")) else 0o644)


def pack(package: Package, root: Path) -> bytes:
    """Build the package with the tree below `root`, which may have scripts in DEBIAN, as a .deb."""
    for path in root.rglob("*"):
        if not path.is_symlink():  # modes as in git, whatever this user's umask
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    root.chmod(0o755)
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    control = root / "DEBIAN"
    control.mkdir(exist_ok=True)
    control.chmod(0o755)
    (control / "control").write_text(package.control(-(-size // 1024)))
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, package.file)
        run("dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", str(root), str(archive))
        return archive.read_bytes()


def recipe(*sources: Path) -> str:
    """Return the name of a build of these files and trees: other sources, another name."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for source in sources:
        for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if path.is_file():
                digest.update(f"{path.name} {path.stat().st_mode}".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


# --- The index ---


def packages_index(debs: Mapping[str, bytes]) -> str:
    """Return the text of `Packages` for these .deb files, by their paths from the Release file."""
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


def indexes(packages: str, place: str = "") -> dict[str, bytes]:
    """Return the text of `Packages`, plain and compressed, at a path such as `stable/binary-amd64/`."""
    text = packages.encode()
    return {f"{place}Packages": text, f"{place}Packages.gz": gzip.compress(text, mtime=0)}


def release_file(files: Mapping[str, bytes], **fields: str) -> str:
    """Return the text of `Release` for these indexes, with fields such as Origin and Label."""
    lines = [f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}" for name, content in sorted(files.items())]
    head = {**fields, "Architectures": "amd64", "Date": DATE}
    return "".join(f"{name}: {value}\n" for name, value in head.items()) + "SHA256:\n" + "\n".join(lines) + "\n"


# --- Its signature ---


@dataclass(frozen=True)
class Key:
    """A signing key. `public` is armored as vendors publish it, `keyring` the same in binary; `fingerprint` has 40 digits."""

    secret: bytes
    public: bytes
    keyring: bytes
    fingerprint: str


@contextmanager
def gnupg(secret: bytes) -> Iterator[Callable[..., bytes]]:
    """Yield `gpg(*arguments, text="")`, which knows this secret key and no other."""
    with tempfile.TemporaryDirectory() as home:  # its path is short, since gpg-agent's socket is in it

        def gpg(*arguments: str, text: str = "") -> bytes:
            return run("gpg", "--homedir", home, "--batch", "--quiet", *arguments, text=text)

        try:
            if secret:
                gpg("--import", text=secret.decode())
            yield gpg
        finally:
            run("gpgconf", "--homedir", home, "--kill", "all")


def signing_key(digest: str = "SHA256") -> Key:
    """Return the key of the depot's repositories, created once. `digest` is the digest of the key's self-signature."""

    def make() -> bytes:
        with gnupg(b"") as gpg:
            name = "fake repository <root@localhost>"
            wanted = ("rsa2048", "sign", "never")
            gpg("--passphrase", "", "--cert-digest-algo", digest, "--quick-generate-key", name, *wanted)
            return gpg("--armor", "--export-secret-keys")

    secret = depot.once(f"repository-key-{digest.lower()}.asc", make)
    with gnupg(secret) as gpg:
        found = re.search(rb"^fpr:+([0-9A-F]{40}):", gpg("--with-colons", "--list-keys"), re.MULTILINE)
        if found is None:
            raise Refusal(f"{depot.BUILDS}/repository-key-*.asc hold no key: remove them, they are made again")
        return Key(secret, gpg("--armor", "--export"), gpg("--export"), found[1].decode())


def signed(release: str, key: Key) -> dict[str, bytes]:
    """Return the Release file with its two signatures."""
    with gnupg(key.secret) as gpg:
        sign = ("--digest-algo", "SHA256", "--armor")
        return {
            "Release": release.encode(),
            "InRelease": gpg(*sign, "--clearsign", text=release),
            "Release.gpg": gpg(*sign, "--detach-sign", text=release),
        }
