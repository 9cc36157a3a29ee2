"""Images of sandbox hosts: what a bare Debian server has, made with mmdebstrap from the machine's own package sources.

An image is named by the hash of its recipe (`rigwright/debian12:<hash>`), so a change of the recipe or of the machine's sources
makes a new one. So does a new week: an image holds package lists, and an archive does not keep for long what they name.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import docker
import docker.errors
from docker.models.images import Image

from harness.progress import step
from harness.sandbox import engine
from harness.sandbox.lab import Refusal

LABEL = "rigwright"
SETUP = Path(__file__).with_name("image_setup.sh")

PACKAGES = (
    *("systemd", "systemd-sysv", "libpam-systemd", "dbus", "procps", "iproute2", "sudo"),
    *("openssh-server", "openssh-client", "openssl", "ca-certificates", "python3", "python3-apt"),
    *("sshpass", "netcat-openbsd"),  # the hands of a client that tries passwords and ports
)


@dataclass(frozen=True)
class Suite:
    """A Debian release. The two common forms of package sources are both in use: one-line until 12, deb822 since 13."""

    codename: str
    deb822: bool


SUITES = {"debian12": Suite("bookworm", deb822=False), "debian13": Suite("trixie", deb822=True)}


@dataclass(frozen=True)
class Archive:
    """Where this machine gets Debian packages: the base addresses of the main archive and of the security updates."""

    main: str
    security: str

    def one_line(self, codename: str) -> str:
        return (
            f"deb {self.main} {codename} main\n"
            f"deb {self.main} {codename}-updates main\n"
            f"deb {self.security} {codename}-security main\n"
        )

    def deb822(self, codename: str) -> str:
        paragraph = (
            "Types: deb\nURIs: {}\nSuites: {}\nComponents: main\n"
            "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
        )
        return "\n".join(
            [
                paragraph.format(self.main, f"{codename} {codename}-updates"),
                paragraph.format(self.security, f"{codename}-security"),
            ]
        )


def archive_of(uris: str) -> Archive | None:
    """Find Debian's archive in what `apt-get update --print-uris` says; None when the machine does not use one.

    Only Debian itself has the suites `<codename>-updates` and `<codename>-security`, which distinguishes it from the other repositories.
    """
    found = re.findall(r"^'(https?://\S+)/dists/[a-z]+-(updates|security)/InRelease'", uris, re.MULTILINE)
    bases = {suite: base for base, suite in found}
    if "updates" not in bases:
        return None
    return Archive(bases["updates"], bases.get("security", bases["updates"] + "-security"))


def archive() -> Archive:
    """Return the archive that images are made from and that the depot passes on.

    :raises Refusal: no archive is known.
    """
    chosen = os.environ.get("RIGWRIGHT_DEBIAN_MIRROR", "").rstrip("/")
    if chosen:
        return Archive(chosen, f"{chosen}-security")
    found = None
    if platform.freedesktop_os_release()["ID"] == "debian":
        uris = subprocess.run(["apt-get", "update", "--print-uris"], check=True, capture_output=True, text=True).stdout
        found = archive_of(uris)
    if not found:
        raise Refusal(
            "This machine has no Debian archive among its package sources: set RIGWRIGHT_DEBIAN_MIRROR to the address of a "
            "Debian mirror (its security archive is expected next to it, with the ending -security)"
        )
    return found


def apt_options() -> list[str]:
    """Return this machine's apt options about dates of its archive (a frozen mirror has old ones), which the sandbox needs too."""
    dump = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
    return re.findall(r'^(?:Acquire::Check-(?:Valid-Until|Date)) ".+";$', dump, re.MULTILINE)


def recipe(name: str) -> list[str]:
    """Return the mmdebstrap command, without its output."""
    suite, source = SUITES[name], archive()
    if suite.deb822:
        path, sources = "/etc/apt/sources.list.d/debian.sources", source.deb822(suite.codename)
    else:
        path, sources = "/etc/apt/sources.list", source.one_line(suite.codename)
    return [
        "mmdebstrap",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        # A host starts with current package lists, as one that was just installed does.
        "--skip=cleanup/apt/lists",
        "--skip=cleanup/apt/cache",
        '--aptopt=Acquire::Languages "none"',
        *(f"--aptopt={option}" for option in apt_options()),
        "--dpkgopt=force-unsafe-io",
        f"--customize-hook={SETUP}",
        f'--customize-hook=rm -f "$1"/etc/apt/sources.list; printf %s \'{sources}\' >"$1"{path}',
        # Every host would make apt's cache. It counts with files of the same times, and mmdebstrap makes none later than its own start.
        '--customize-hook=find "$1"/etc/apt "$1"/var/lib/apt/lists "$1"/var/lib/dpkg/status -exec touch --date "1 hour ago" {} +',
        '--customize-hook=chroot "$1" apt-get clean; chroot "$1" apt-cache gencaches',
        suite.codename,
        "-",
        *source.one_line(suite.codename).splitlines(),
    ]


@functools.cache
def week() -> str:
    """Return the week in which this program started: a program that runs into the next week needs no new image."""
    return datetime.now(UTC).strftime("%G-W%V")


def reference(name: str) -> str:
    """Return the name of an image: `rigwright/<name>:<hash of the recipe and of this week>`."""
    text = " ".join(recipe(name)).replace(str(SETUP), SETUP.read_text())
    return f"rigwright/{name}:{hashlib.sha256(f'{text} {week()}'.encode()).hexdigest()[:12]}"


def ensure(client: docker.DockerClient, name: str) -> Image:
    """Return the image `name`, making it first where it is missing (about a minute)."""
    wanted = reference(name)
    try:
        return client.images.get(wanted)
    except docker.errors.ImageNotFound:
        with step(f"make the image {name} with mmdebstrap"):
            return make(client, wanted, recipe(name))


def ensure_all(client: docker.DockerClient, names: set[str]) -> None:
    """Make the missing ones of these images side by side."""
    with engine.making("images"), ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: ensure(client, name), sorted(names)))


def make(client: docker.DockerClient, wanted: str, command: list[str]) -> Image:
    unfinished = f"{wanted}-unfinished"
    repository, tag = unfinished.split(":")
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        except FileNotFoundError:
            raise Refusal("mmdebstrap is missing: run script/bootstrap --sandbox") from None
        client.api.import_image(
            process.stdout, repository, tag, changes=[f"LABEL {LABEL}=image", 'CMD ["/sbin/init"]'], stream_src=True
        )
        status = process.wait()
        if status == 0:
            client.images.get(unfinished).tag(wanted)
            remove_older(client, wanted)
        client.images.remove(unfinished)
        if status != 0:
            log.seek(0)
            tail = "\n".join(log.read().decode(errors="replace").splitlines()[-15:])
            raise Refusal(f"mmdebstrap failed:\n{tail}")
    return client.images.get(wanted)


def remove_older(client: docker.DockerClient, wanted: str) -> None:
    """Remove what earlier recipes made of this image, unless a host still runs it."""
    for image in client.images.list(wanted.split(":")[0]):
        for tag in set(image.tags) - {wanted, f"{wanted}-unfinished"}:
            with contextlib.suppress(docker.errors.APIError):  # in use: a conflict
                client.images.remove(tag)


def remove_all(client: docker.DockerClient) -> None:
    for image in client.images.list(filters={"label": f"{LABEL}=image"}):
        client.images.remove(image.attrs["Id"], force=True)
