"""A fake of Docker's repository for apt, which the depot serves at `/linux/debian/` as download.docker.com does.

Its packages have Docker's names, relations and version scheme, and the programs in them are Debian's own docker of the same release:
`docker-ce` really runs containers. Each release has two versions, so that a pin has something to hold and an upgrade somewhere to go; their
programs differ by the version at their end, which nobody reads. What Debian 12 does not have (buildx, compose) is an empty package.
A test breaks it for the time of a `with` block: `another_key`.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.depot import apt_repository
from harness.depot import lifecycle as depot
from harness.depot.apt_repository import Key, Package, run
from harness.progress import step
from harness.sandbox import engine, images
from harness.sandbox.lab import DEPOT, Refusal

ROOT = "linux/debian"
ABOUT = depot.STATE / "docker_repository.json"
SUITES = {"debian12": ("12", "bookworm"), "debian13": ("13", "trixie")}
POOL = "pool/stable/amd64"
# Debian's packages that the programs come from, as far as a release has them.
SOURCES = ("docker.io", "docker-cli", "docker-buildx", "docker-compose", "containerd", "runc", "tini", "rootlesskit")
DOWNLOAD = (
    "cd /srv && apt-get {proxy} -qq update"
    " && apt-cache pkgnames | grep --line-regexp --fixed-strings {names} | xargs apt-get {proxy} -qq download"
)

UNITS = "lib/systemd/system"
# As debhelper writes it; an upgrade restarts docker, as Docker's own packages do.
POSTINST = """\
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
{prepare}
for unit in {units}; do
    deb-systemd-helper unmask $unit >/dev/null || true
    deb-systemd-helper enable $unit >/dev/null || true
done
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload || true
    if [ -n "$2" ]; then action=restart; else action=start; fi
    deb-systemd-invoke $action {units} || true
fi
"""
PRERM = """\
#!/bin/sh
set -e
[ "$1" != remove ] || deb-systemd-invoke stop {units} || true
"""


@dataclass(frozen=True)
class Contents:
    """The contents of a package of Docker: `programs` maps its paths to those in Debian's packages."""

    programs: Mapping[str, str]
    units: Sequence[str] = ()
    depends: Sequence[str] = ()
    conflicts: Sequence[str] = ()
    provides: Sequence[str] = ()
    prepare: str = ":"
    versioned: bool = True


PLUGINS = "usr/libexec/docker/cli-plugins"
CONTENTS = {
    "docker-ce": Contents(
        {
            "usr/bin/dockerd": "usr/sbin/dockerd",
            "usr/bin/docker-proxy": "usr/sbin/docker-proxy",
            "usr/bin/docker-init": "usr/bin/tini-static",
        },
        units=("docker.service", "docker.socket"),
        depends=("containerd.io", "docker-ce-cli", "iptables"),
        conflicts=("docker.io",),
        prepare="getent group docker >/dev/null || groupadd --system docker",
    ),
    "docker-ce-cli": Contents({"usr/bin/docker": "usr/bin/docker"}, conflicts=("docker.io", "docker-cli")),
    "docker-ce-rootless-extras": Contents(
        {
            "usr/bin/rootlesskit": "usr/bin/rootlesskit",
            "usr/bin/rootlesskit-docker-proxy": "usr/bin/rootlesskit-docker-proxy",
            "usr/bin/dockerd-rootless.sh": "usr/share/docker.io/contrib/dockerd-rootless.sh",
            "usr/bin/dockerd-rootless-setuptool.sh": "usr/share/docker.io/contrib/dockerd-rootless-setuptool.sh",
        },
        depends=("docker-ce", "dbus-user-session"),
        conflicts=("rootlesskit",),
    ),
    "containerd.io": Contents(
        {
            "usr/bin/containerd": "usr/bin/containerd",
            "usr/bin/containerd-shim-runc-v2": "usr/bin/containerd-shim-runc-v2",
            "usr/bin/ctr": "usr/bin/ctr",
            "usr/bin/runc": "usr/sbin/runc",
        },
        units=("containerd.service",),
        depends=("libseccomp2",),
        conflicts=("containerd", "runc"),
        provides=("containerd", "runc"),
        versioned=False,
    ),
    "docker-buildx-plugin": Contents({f"{PLUGINS}/docker-buildx": f"{PLUGINS}/docker-buildx"}, versioned=False),
    "docker-compose-plugin": Contents({f"{PLUGINS}/docker-compose": f"{PLUGINS}/docker-compose"}, versioned=False),
}
LIBRARIES = ("libc6", "libdevmapper", "libsystemd")


# --- Packages ---


def debian_packages(distribution: str) -> dict[str, bytes]:
    """Download Debian's packages on a host of a release through the depot's cache, and return `{file: content}`."""
    client = engine.connect()
    proxy = f"-o Acquire::http::Proxy=http://{DEPOT}:{depot.APT_PORT}"
    names = " ".join(f"-e {name}" for name in SOURCES)
    container = client.containers.create(
        images.reference(distribution),
        ["sh", "-c", DOWNLOAD.format(proxy=proxy, names=names)],
        labels=engine.LABELS,
        network=engine.NETWORK,
    )
    try:
        container.start()
        if container.wait()["StatusCode"] != 0:
            raise Refusal(f"Debian's docker cannot be downloaded:\n{container.logs(tail=15).decode(errors='replace')}")
        stream, _about = container.get_archive("/srv")
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as tar:
            members = [member for member in tar if member.isfile() and member.name.endswith(".deb")]
            return {Path(member.name).name: tar.extractfile(member).read() for member in members}  # type: ignore[union-attr]
    finally:
        container.remove(force=True, v=True)


def read_deb(deb: bytes) -> tuple[dict[str, str], dict[str, bytes]]:
    """Return the fields of a package, and its files by their paths; files in /lib count as in /usr/lib."""
    with tempfile.NamedTemporaryFile(suffix=".deb") as file:
        file.write(deb)
        file.flush()
        control = run("dpkg-deb", "--field", file.name).decode()
        tree = run("dpkg-deb", "--fsys-tarfile", file.name)
    fields = dict(re.findall(r"^(\S+): (.*)$", control, re.MULTILINE))
    with tarfile.open(fileobj=io.BytesIO(tree)) as tar:
        files = {
            re.sub(r"^\./(lib/)?", lambda found: f"usr/{found[1]}" if found[1] else "", member.name): tar.extractfile(
                member
            ).read()  # type: ignore[union-attr]
            for member in tar
            if member.isfile()
        }
    return fields, files


def packages(distribution: str) -> dict[str, bytes]:
    """Build Docker's packages for a release and return `{file: content}`."""
    files: dict[str, bytes] = {}
    about: dict[str, dict[str, str]] = {}
    for deb in debian_packages(distribution).values():
        fields, found = read_deb(deb)
        about[fields["Package"]] = fields
        files |= found
    number, codename = SUITES[distribution]
    *line, patch = numbers(about["docker.io"]["Version"])
    libraries = [
        entry for entry in re.split(r", *", about["docker.io"]["Depends"]) if entry.split()[0].startswith(LIBRARIES)
    ]
    debs = {}
    for name, contents in CONTENTS.items():
        releases = ((*line, patch - 1), (*line, patch)) if contents.versioned else (numbers(version_of(name, about)),)
        for release in releases:
            upstream = f"{'.'.join(map(str, release))}-1~debian.{number}~{codename}"
            relations = {
                "Depends": (*contents.depends, *(libraries if name == "docker-ce" else ())),
                "Conflicts": contents.conflicts,
                "Replaces": contents.conflicts,
                "Provides": contents.provides,
            }
            version = f"{'5:' if contents.versioned else ''}{upstream}"
            package = Package(
                name, version, name, relations={key: tuple(entries) for key, entries in relations.items()}
            )
            debs[package.file] = apt_repository.build(package, build_files(contents, files, upstream))
    return debs


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as `20.10.24+dfsg1-1`."""
    found = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", version)
    if found is None:
        raise Refusal(f"Debian's docker has an invalid version: {version}")
    return tuple(int(part) for part in found[1].split("."))


def version_of(name: str, about: Mapping[str, Mapping[str, str]]) -> str:
    """Return the version of the Debian package behind a package with a version of its own."""
    source = {"containerd.io": "containerd", "docker-buildx-plugin": "docker-buildx"}.get(name, "docker-compose")
    return about.get(source, {"Version": "0.0.1"})["Version"]


def build_files(contents: Contents, files: Mapping[str, bytes], version: str) -> dict[str, bytes]:
    """Return programs, units and scripts of a package."""
    end = f"\n{version}\n".encode()
    found = {path: files[source] + end for path, source in contents.programs.items() if source in files}
    for unit in contents.units:
        text = files[f"usr/{UNITS}/{unit}"].replace(b"/usr/sbin/dockerd", b"/usr/bin/dockerd")
        found[f"usr/{UNITS}/{unit}"] = text
    if contents.units:
        values = {"units": " ".join(contents.units), "prepare": contents.prepare}
        found["DEBIAN/postinst"] = POSTINST.format_map(values).encode()
        found["DEBIAN/prerm"] = PRERM.format_map(values).encode()
    return found


def pool(distribution: str) -> dict[str, bytes]:
    """Return the packages of a release, built once for the depots of all sandboxes."""

    def make() -> dict[str, bytes]:
        with step(f"build the packages of the fake Docker repository for {distribution}"):
            return packages(distribution)

    image = images.reference(distribution).rpartition(":")[2]
    return depot.folder_once(f"docker-packages-{distribution}-{image}-{apt_repository.recipe(Path(__file__))}", make)


# --- In the depot ---


def suite(distribution: str, key: Key) -> dict[str, bytes]:
    """Return every file of the suite of a release, relative to the root of the repository."""
    codename = SUITES[distribution][1]
    top = f"dists/{codename}"
    debs = {f"{top}/{POOL}/{name}": content for name, content in pool(distribution).items()}
    indexes = apt_repository.indexes(apt_repository.packages_index(debs), "stable/binary-amd64/")
    named = {"Origin": "Docker", "Label": "Docker CE", "Suite": codename, "Codename": codename, "Components": "stable"}
    files = indexes | apt_repository.signed(apt_repository.release_file(indexes, **named), key)
    return debs | {f"{top}/{name}": content for name, content in files.items()}


def put() -> None:
    """Make sure that the depot has the repository, and that ABOUT has its address and the fingerprint of its key."""
    key = apt_repository.signing_key()
    wanted = {"gpg": key.public}
    for distribution in SUITES:
        wanted |= suite(distribution, key)
    depot.put(ROOT, wanted)
    about = {"url": f"http://{DEPOT}/{ROOT}", "fingerprints": [key.fingerprint]}
    ABOUT.write_text(json.dumps(about, indent=1))


@contextmanager
def another_key() -> Iterator[None]:
    """Serve the repository under another key, as a compromised mirror would: key file and signatures match each other."""
    other_key = apt_repository.signing_key("SHA512")
    with ExitStack() as published:
        published.enter_context(depot.publish(f"{ROOT}/gpg", other_key.public))
        for _number, codename in SUITES.values():
            release = (depot.WWW / ROOT / "dists" / codename / "Release").read_text()
            for name, content in apt_repository.signed(release, other_key).items():
                published.enter_context(depot.publish(f"{ROOT}/dists/{codename}/{name}", content))
        yield
