"""The fake CUDA repository: NVIDIA's names and rules, an index that apt can trust, and the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest

from harness.depot import apt_repository, cuda_repository
from harness.depot import lifecycle as depot
from harness.depot.apt_repository import Key
from harness.depot.cuda_repository import Package
from harness.sandbox import lab


@pytest.fixture(autouse=True)
def no_keys_of_the_user(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("GNUPGHOME", str(tmp_path_factory.mktemp("gnupg")))


@pytest.fixture(scope="module")
def table() -> list[Package]:
    return cuda_repository.packages()


def named(table: list[Package], name: str, version: str) -> Package:
    return next(package for package in table if (package.name, package.version) == (name, version))


# ---- What the table says -------------------------------------------------------------------------------------------------


def test_no_package_is_there_twice(table):
    files = [package.file for package in table]
    assert len(files) == len(set(files))


def test_a_branch_has_a_metapackage_of_its_own_up_to_580(table):
    names = {package.name for package in table}
    assert {"cuda-drivers-570", "cuda-drivers-580", "cuda-drivers", "nvidia-fabricmanager-570"} <= names
    assert not {"cuda-drivers-590", "nvidia-fabricmanager-590"} & names
    assert {"nvidia-driver-pinning-570", "nvidia-driver-pinning-580", "nvidia-driver-pinning-590"} <= names


def test_metapackage_does_not_pin_its_parts(table):
    relations = named(table, "nvidia-open", "580.105.08-1").relations
    assert "nvidia-kernel-open-dkms (>= 580.105.08-1)" in relations["Depends"]


def test_the_parts_of_a_driver_are_held_to_one_version(table):
    assert "libcuda1 (= 590.48.01-1)" in named(table, "nvidia-driver-cuda", "590.48.01-1").relations["Depends"]


def test_the_two_flavours_of_the_module_exclude_each_other(table):
    assert "nvidia-kernel-dkms" in named(table, "nvidia-kernel-open-dkms", "580.159.04-1").relations["Conflicts"]
    assert "nvidia-kernel-open-dkms" in named(table, "nvidia-kernel-dkms", "580.159.04-1").relations["Conflicts"]


def test_every_dependency_on_a_package_of_nvidias_can_be_met(table):
    provided = {name for package in table for name in (package.name, *package.relations.get("Provides", ()))}
    of_debian = {"dkms", "zlib1g", "xserver-xorg-core"}
    wanted = {
        alternative.split()[0]
        for package in table
        for relation in ("Depends", "Recommends")
        for entry in package.relations.get(relation, ())
        for alternative in entry.split(" | ")
    }
    assert wanted - of_debian <= provided


# ---- Packages ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def unpack(tmp_path):
    def unpack(deb: bytes) -> Path:
        (tmp_path / "x.deb").write_bytes(deb)
        subprocess.run(["dpkg-deb", "--raw-extract", tmp_path / "x.deb", tmp_path / "x"], check=True)
        return tmp_path / "x"

    return unpack


@pytest.mark.parametrize("name", ["nvidia-kernel-open-dkms", "libnvidia-ml1", "nvidia-driver-cuda"])
def test_the_same_sources_give_the_same_bytes(table, name):
    package = named(table, name, "580.159.04-1")
    assert cuda_repository.build(package) == cuda_repository.build(package)


@pytest.mark.parametrize(
    ("name", "license_of_module"), [("nvidia-kernel-open-dkms", "Dual MIT/GPL"), ("nvidia-kernel-dkms", "NVIDIA")]
)
def test_the_source_of_a_module_says_version_and_licence(table, unpack, name, license_of_module):
    root = unpack(cuda_repository.build(named(table, name, "570.195.03-1")))
    source = (root / "usr/src/nvidia-570.195.03/nvidia.c").read_text()
    assert f'MODULE_LICENSE("{license_of_module}")' in source
    assert 'MODULE_VERSION("570.195.03")' in source
    assert "@" not in (root / "DEBIAN/postinst").read_text()


def test_a_library_has_its_soname_and_its_link(table, unpack):
    root = unpack(cuda_repository.build(named(table, "libnvidia-ml1", "590.48.01-1")))
    link = root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    assert link.readlink() == Path("libnvidia-ml.so.590.48.01")
    assert b"libnvidia-ml.so.1\0" in link.read_bytes()


def test_programs_and_scripts_can_be_run(table, unpack):
    root = unpack(cuda_repository.build(named(table, "nvidia-persistenced", "580.159.04-1")))
    modes = {name: (root / name).stat().st_mode & 0o777 for name in ("usr/bin/nvidia-persistenced", "DEBIAN/postinst")}
    assert set(modes.values()) == {0o755}


# ---- The repository ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def key(tmp_path_factory) -> Key:
    """Return a signing key that is stored nowhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depot, "BUILDS", tmp_path_factory.mktemp("builds"))
        return apt_repository.signing_key()


@pytest.fixture
def small(monkeypatch):
    """Return a repository of one package: the tests need the index, and do not build it every time."""

    def pool() -> dict[str, bytes]:
        wanted = cuda_repository.packages()[0]
        debs = {wanted.file: cuda_repository.build(wanted)}
        return {**debs, "Packages": apt_repository.packages_index(debs).encode()}

    monkeypatch.setattr(cuda_repository, "pool", pool)


def without_signatures(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name not in ("InRelease", "Release.gpg")}


@pytest.mark.usefixtures("small")
def test_release_file_names_packages_and_they_name_files(key, tmp_path):
    files = cuda_repository.repository("debian12", key)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    root = tmp_path / "keyring"
    subprocess.run(["dpkg-deb", "--extract", tmp_path / "cuda-keyring_1.1-1_all.deb", root], check=True)
    keyring = root / "usr/share/keyrings/cuda-archive-keyring.gpg"
    subprocess.run(["gpgv", "--keyring", keyring, tmp_path / "Release.gpg", tmp_path / "Release"], check=True)
    subprocess.run(["gpgv", "--keyring", keyring, tmp_path / "InRelease"], check=True)

    release, index = files["Release"].decode(), files["Packages"].decode()
    for name in ("Packages", "Packages.gz"):
        assert f" {hashlib.sha256(files[name]).hexdigest()} {len(files[name])} {name}\n" in release
    stanzas = re.findall(r"^Filename: \./(\S+)\nSize: (\d+)\n(?:.+\n)*SHA256: (\w+)$", index, re.MULTILINE)
    assert {name for name, _size, _sum in stanzas} == {name for name in files if name.endswith(".deb")}
    for name, size, checksum in stanzas:
        assert (int(size), checksum) == (len(files[name]), hashlib.sha256(files[name]).hexdigest())


@pytest.mark.usefixtures("small")
def test_an_index_that_was_changed_on_its_way_does_not_pass(key, tmp_path):
    files = cuda_repository.repository("debian12", key)
    (tmp_path / "InRelease").write_bytes(files["InRelease"].replace(b"NVIDIA CUDA", b"NVIDIA CUBA"))
    public = next(name for name in files if name.endswith(".pub"))
    subprocess.run(["gpg", "--dearmor", "--output", tmp_path / "key.gpg"], input=files[public], check=True)
    checked = subprocess.run(["gpgv", "--keyring", tmp_path / "key.gpg", tmp_path / "InRelease"], check=False)
    assert checked.returncode != 0


@pytest.mark.usefixtures("small")
def test_repository_depends_only_on_its_sources_and_key(key):
    first, second = (cuda_repository.repository("debian13", key) for _step in range(2))
    assert without_signatures(first) == without_signatures(second)


def test_the_weak_key_has_signed_itself_with_sha1(tmp_path, monkeypatch):
    monkeypatch.setattr(depot, "BUILDS", tmp_path)
    packets = {}
    for digest in ("SHA256", "SHA1"):
        secret = apt_repository.signing_key(digest).secret
        packets[digest] = subprocess.run(
            ["gpg", "--list-packets"], input=secret, capture_output=True, check=True
        ).stdout
    assert b"digest algo 2," in packets["SHA1"]
    assert b"digest algo 2," not in packets["SHA256"]


# ---- In the depot --------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path, monkeypatch, key) -> Path:
    monkeypatch.setattr(depot, "WWW", tmp_path / "www")
    monkeypatch.setattr(cuda_repository, "KEYRINGS", tmp_path / "keyrings.json")
    monkeypatch.setattr(cuda_repository, "signing_key", lambda _digest="SHA256": key)
    return tmp_path / "www"


@pytest.mark.usefixtures("small")
def test_the_checksums_are_those_of_the_keyrings_that_are_served(served, tmp_path):
    cuda_repository.put()
    checksums = json.loads((tmp_path / "keyrings.json").read_text())
    assert checksums.keys() == set(cuda_repository.DISTRIBUTIONS)
    for distribution, checksum in checksums.items():
        deb = served / cuda_repository.folder(distribution) / "cuda-keyring_1.1-1_all.deb"
        assert hashlib.sha256(deb.read_bytes()).hexdigest() == checksum
    source = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], check=True, capture_output=True).stdout
    assert f"http://{lab.DEPOT}/compute/cuda/repos/debian13/x86_64/ /\n".encode() in source


@pytest.mark.usefixtures("small")
def test_a_broken_repository_is_whole_again_after_the_block(served):
    cuda_repository.put(["debian12"])
    place = served / cuda_repository.folder("debian12")
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    with cuda_repository.broken_index("debian12"):
        for name in ("Packages", "Packages.gz"):
            assert (place / name).read_bytes() != before[name]
        assert (place / "InRelease").read_bytes() == before["InRelease"]
    with cuda_repository.unreachable("debian12"):
        assert not place.exists()
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
