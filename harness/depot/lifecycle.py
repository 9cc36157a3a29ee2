"""The depot: one container that serves what roles download, so that tests run the roles' real download code without the internet.

It has a package cache (squid) and an HTTP server laid out as the upstream sites are (`files/server.py`). Programs
written in Go are built from committed wrappers (`files/frp/<version>/go.mod`, go.sum) unless the official release can be had.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import docker
import docker.errors
import yaml

from harness.progress import say, step
from harness.sandbox import engine, images
from harness.sandbox import lab as labs
from harness.sandbox.engine import NETWORK, wait_for
from harness.sandbox.lab import CACHE, DEPOT, NUMBER, ROOT, Refusal
from harness.sandbox.lab import STATE as SANDBOX

APT_PORT = 3142
FILES = ROOT / "harness/depot/files"
STATE = SANDBOX / "depot"
BUILDS = CACHE / "builds"
WWW = STATE / "www"
CHECKSUMS = STATE / "checksums.json"
REQUESTS = STATE / "log" / "requests.jsonl"
FRP = "fatedier/frp/releases/download"
RELEASES = ROOT / "roles" / "common" / "vars" / "main" / "releases.yml"
BASE_IMAGE = "debian12"
INSTALL = "apt-get install --yes --no-install-recommends squid && apt-get clean"


# --- What it serves ---


def build(versions: Iterable[str]) -> None:
    """Make sure that the depot holds these versions of frp."""
    for version in versions:
        folder = WWW / FRP / f"v{version}"
        archive = folder / f"frp_{version}_linux_amd64.tar.gz"
        if archive.exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        data = once(archive.name, partial(frp, version))
        (folder / "frp_sha256_checksums.txt").write_text(f"{hashlib.sha256(data).hexdigest()}  {archive.name}\n")
        archive.with_suffix(".part").write_bytes(data)
        archive.with_suffix(".part").rename(archive)
    lists = sorted((WWW / FRP).glob("v*/frp_sha256_checksums.txt"))
    checksums = {file.parent.name[1:]: {"amd64": file.read_text().split()[0]} for file in lists}
    CHECKSUMS.write_text(json.dumps({"frp": checksums}, indent=1))


def frp(version: str) -> bytes:
    return official_frp(version) or built_frp(version)


def once(name: str, make: Callable[[], bytes]) -> bytes:
    """Return what `make` returns, cached for the depots of all sandboxes. They have copies: a test may publish other bytes in its own."""
    kept = BUILDS / name
    with engine.making("builds"):
        if not kept.exists():
            BUILDS.mkdir(parents=True, exist_ok=True)
            kept.with_suffix(".part").write_bytes(make())
            kept.with_suffix(".part").rename(kept)
    return kept.read_bytes()


def folder_once(name: str, make: Callable[[], Mapping[str, bytes]]) -> dict[str, bytes]:
    """Return the files that `make` returns, cached as those of `once`."""
    kept = BUILDS / name
    with engine.making("builds"):
        if not kept.exists():
            unfinished = kept.with_suffix(".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            for file, content in make().items():
                (unfinished / file).write_bytes(content)
            unfinished.rename(kept)
    return {path.name: path.read_bytes() for path in sorted(kept.iterdir())}


def official_frp(version: str) -> bytes | None:
    """Return the release archive from its publisher; None if it cannot be reached or is not among the pinned versions.

    Raises Refusal when the archive is not the pinned one.
    """
    release = yaml.safe_load(RELEASES.read_text())["__common_releases"]["frp"]
    pinned = release["checksums"].get(version, {}).get("amd64")
    if pinned is None:
        return None
    address = f"{release['url']}/v{version}/frp_{version}_linux_amd64.tar.gz"
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310
            data: bytes = answer.read()
    except (urllib.error.URLError, TimeoutError) as error:
        say(f"{address} cannot be had ({error}): building frp {version} instead", style="")
        return None
    if hashlib.sha256(data).hexdigest() != pinned:
        raise Refusal(
            f"{address} is not the release that {RELEASES.relative_to(ROOT)} pins: somebody changed it on its way"
        )
    return data


def built_frp(version: str) -> bytes:
    """Build frp from its committed go.mod and go.sum, packed as the release is. The same sources give the same bytes."""
    source = FILES / "frp" / version
    environment = os.environ | {"CGO_ENABLED": "0", "GOOS": "linux", "GOARCH": "amd64"}
    with step(f"build frp {version}"), tempfile.TemporaryDirectory() as folder:
        command = [
            "go",
            "build",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags=-s -w",
            "-tags=noweb",
            "-o",
            f"{folder}/",
            "tool",
        ]
        try:
            subprocess.run(command, cwd=source, env=environment, check=True)
        except FileNotFoundError:
            raise Refusal(
                "frp has to be built, and go is missing: install Go 1.25 or newer and put it on PATH"
            ) from None
        except subprocess.CalledProcessError:
            raise Refusal(f"go did not build frp {version}: its words are above; Go 1.25 or newer is needed") from None
        license_of = ["go", "list", "-m", "-f", "{{.Dir}}/LICENSE", "github.com/fatedier/frp"]
        text = subprocess.run(license_of, cwd=source, check=True, capture_output=True, text=True).stdout.strip()
        files = {
            "frpc": (Path(folder, "frpc"), 0o755),
            "frps": (Path(folder, "frps"), 0o755),
            "LICENSE": (Path(text), 0o644),
        }
        return pack(
            {f"frp_{version}_linux_amd64/{name}": (path.read_bytes(), mode) for name, (path, mode) in files.items()}
        )


def pack(files: dict[str, tuple[bytes, int]]) -> bytes:
    """Return a tar.gz of `{name: (content, mode)}` that depends on nothing else: no time, no user."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), compresslevel=1, mtime=0)


def put(place: str, files: Mapping[str, bytes]) -> None:
    """Serve these files, and no others, below a place."""
    shutil.rmtree(WWW / place, ignore_errors=True)
    for name, content in files.items():
        path = WWW / place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@contextmanager
def publish(path: str, content: bytes) -> Iterator[None]:
    """Serve `content` at `/<path>` for the time of the block, for example a tampered archive; what was there comes back."""
    file = WWW / path
    before = file.read_bytes() if file.exists() else None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    try:
        yield
    finally:
        if before is None:
            file.unlink()
        else:
            file.write_bytes(before)


def requests() -> list[dict[str, str | int]]:
    """Return the requests to the HTTP server so far, oldest first: client, method, path, status."""
    return [json.loads(line) for line in REQUESTS.read_text().splitlines()]


# --- The container ---


def reference() -> str:
    recipe = images.reference(BASE_IMAGE) + INSTALL
    return f"rigwright/depot:{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def ensure_image(client: docker.DockerClient) -> str:
    """Make the depot's image where it is missing: the base image and squid."""
    wanted = reference()
    try:
        client.images.get(wanted)
    except docker.errors.ImageNotFound:
        base = images.ensure(client, BASE_IMAGE)
        with step("make the image depot"):
            container = client.containers.create(
                base,
                ["sh", "-c", INSTALL],
                environment={"DEBIAN_FRONTEND": "noninteractive"},
                labels=engine.LABELS,
            )
            try:
                container.start()
                if container.wait()["StatusCode"] != 0:
                    tail = container.logs(tail=15).decode(errors="replace")
                    raise Refusal(f"The depot's image cannot be made; apt-get says:\n{tail}")
                repository, tag = wanted.split(":")
                container.commit(repository, tag, changes=[f"LABEL {images.LABEL}=image"])
                images.remove_older(client, wanted)
            finally:
                container.remove(force=True, v=True)
    return wanted


def up(client: docker.DockerClient) -> None:
    """Make sure that the depot runs at its address: on the sandbox network for the hosts, on docker's own for the archive."""
    with engine.making("images"):
        image = ensure_image(client)
    source = images.archive()
    version = hashlib.sha256(image.encode())
    for path in sorted(FILES.glob("*.*")):
        version.update(path.read_bytes())
    label = f"{version.hexdigest()[:12]} {source.main} {source.security}"
    for container in engine.containers(client, "rigwright.depot"):
        if container.status == "running" and container.labels.get("rigwright.depot") == label:
            return
        container.remove(force=True, v=True)
    for folder in (WWW, REQUESTS.parent, STATE / "squid"):
        folder.mkdir(parents=True, exist_ok=True)
    with step("start the depot"):
        container = client.containers.create(
            image,
            ["bash", "/srv/depot/start.sh"],
            name=f"rigwright-{NUMBER}-depot",
            hostname="depot",
            init=True,
            labels=engine.LABELS | {"rigwright.depot": label},
            environment={"DEBIAN_MAIN": source.main, "DEBIAN_SECURITY": source.security},
            volumes={
                str(FILES): {"bind": "/srv/depot", "mode": "ro"},
                str(WWW): {"bind": "/srv/www", "mode": "ro"},
                str(REQUESTS.parent): {"bind": "/srv/log", "mode": "rw"},
                str(STATE / "squid"): {"bind": "/var/cache/squid", "mode": "rw"},
            },
        )
        client.networks.get(NETWORK).connect(container, ipv4_address=str(DEPOT))
        container.start()
        wait_until_ready()


def wait_until_ready() -> None:
    def serves(address: str) -> bool | None:
        try:
            with urllib.request.urlopen(address, timeout=2):  # noqa: S310
                return True
        except urllib.error.HTTPError:
            return True

    wait_for(lambda: serves(f"http://{DEPOT}/"), "the depot's HTTP server")
    wait_for(lambda: serves(f"http://{DEPOT}:{APT_PORT}/"), "the depot's package cache")


def clean() -> None:
    """Remove what was downloaded and built."""
    for folder in (STATE, BUILDS):
        shutil.rmtree(folder, ignore_errors=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lab", choices=labs.names(), default="molecule", help="the lab whose depot it is (default: molecule)"
    )


def main(args: argparse.Namespace) -> int:
    client = engine.connect()
    engine.ensure_network(client)
    build(labs.read(args.lab).frp_versions)
    up(client)
    say(f"http://{DEPOT}/ serves {WWW}, port {APT_PORT} caches packages, {REQUESTS} has the requests")
    return 0
