"""Mirrors as apt and pip meet them: the depot is the live mirror, /stale on it an old one, a closed port a dead one."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from harness.depot import apt_repository
from harness.depot import lifecycle as depot
from harness.sandbox import fingerprint, lab
from harness.sandbox.clients import Entry, Machine

LAB = lab.read("molecule")
DEPOT = f"http://{lab.DEPOT}"
DEAD = "http://127.0.0.9:9/debian"
LIVE = f"{DEPOT}/debian"
STALE = f"{DEPOT}/stale/debian"
LINES = "/etc/apt/sources.list"
STANZAS = "/etc/apt/sources.list.d/debian.sources"
PACKAGE = "hello"  # small, without dependencies, on no host yet

Apply = Callable[..., Any]


def codename(target: Machine) -> str:
    return target.must(". /etc/os-release && echo $VERSION_CODENAME").strip()


def requested_paths(target: Machine, since: int) -> list[str]:
    """Return the paths that a host requested from the depot since its log had this many lines."""
    return [str(line["path"]) for line in depot.requests()[since:] if line["client"] == str(target.host.address)]


def age_days(release: str) -> float:
    """Return the age of the depot's copy of the archive in days, so that the tests pass with a snapshot of any age."""
    with urllib.request.urlopen(f"{LIVE}/dists/{release}-updates/InRelease", timeout=30) as answer:  # noqa: S310
        date = re.search(r"^Date: (.+)$", answer.read().decode(), re.MULTILINE)
    assert date
    return (time.time() - parsedate_to_datetime(date[1]).timestamp()) / 86400


def sources(target: Machine) -> str:
    return target.must(f"cat {STANZAS}")


def test_a_dead_first_mirror_is_reported_and_put_last(apply: Apply, targets: list[Machine]) -> None:
    result = apply(variables={"mirrors_recheck": True})

    assert result.rc == 0, result.output
    for target in targets:
        assert result.findings(target.host.name)["mirrors.choice"] == "warn"
        assert target.must("cat /etc/apt/mirrors/debian.list") == f"{LIVE}\tpriority:1\n{DEAD}\tpriority:2\n"


def test_apt_uses_the_second_mirror_if_the_first_is_dead(apply: Apply, targets: list[Machine]) -> None:
    # Unchecked, the dead mirror stays first, as a mirror that dies after it was chosen.
    result = apply(variables={"mirrors_check": False})
    assert result.rc == 0, result.output
    for target in targets:
        assert target.must("cat /etc/apt/mirrors/debian.list") == f"{DEAD}\tpriority:1\n{LIVE}\tpriority:2\n"
        requests = len(depot.requests())

        output = target.must(f"apt-get install --yes --no-install-recommends {PACKAGE} 2>&1", seconds=120)

        assert f"Ign:1 {DEAD}" in output or f"Ign:2 {DEAD}" in output
        assert target.must(PACKAGE) == "Hello, world!\n"
        assert [path for path in requested_paths(target, requests) if re.search(rf"/{PACKAGE}_.*\.deb$", path)]
        target.must(f"dpkg --purge {PACKAGE} && apt-get clean")


def test_apt_knows_every_source_once(target: Machine) -> None:
    output = target.must("apt-get update -o APT::Update::Error-Mode=any 2>&1 && apt-cache policy 2>&1", seconds=120)

    assert "configured multiple times" not in output
    assert f"{DEPOT}/debian {codename(target)} InRelease" in output


def test_security_stays_with_the_distribution(target: Machine) -> None:
    security = next(stanza for stanza in sources(target).split("\n\n") if f"{codename(target)}-security" in stanza)

    assert "URIs: mirror+file:/etc/apt/mirrors/debian.list" in sources(target)
    assert "mirror+file" not in security
    assert DEPOT not in security


def test_security_mirror_is_set_on_request_and_restored(apply: Apply, targets: list[Machine]) -> None:
    before = [sources(target) for target in targets]

    followed = apply(variables={"mirrors_security": True})

    assert followed.rc == 0, followed.output
    for target in targets:
        assert f"{DEPOT}/debian-security\tpriority:1\n" in target.must("cat /etc/apt/mirrors/debian-security.list")
    assert apply().rc == 0
    assert [sources(target) for target in targets] == before


def test_the_second_run_asks_no_mirror(apply: Apply, targets: list[Machine]) -> None:
    assert apply().rc == 0
    requests = len(depot.requests())

    result = apply()

    assert set(result.changed().values()) == {0}
    assert [requested_paths(target, requests) for target in targets] == [[] for _target in targets]


def test_a_stale_mirror_is_refused_with_its_age(apply: Apply, targets: list[Machine]) -> None:
    before = [fingerprint.of(target) for target in targets]
    age = max(age_days(codename(target)) for target in targets)

    result = apply(variables={"mirrors_apt_urls": [STALE], "mirrors_max_age_days": int(age) + 15})

    assert result.rc != 0
    found = re.search(
        rf"{STALE}: its newest release is ([\d.]+) days old, the limit is {int(age) + 15} days", result.text
    )
    assert found, result.output
    assert abs(float(found[1]) - age - 30) < 2
    assert "mirrors_apt_urls" in result.output
    assert [fingerprint.of(target) for target in targets] == before


def test_one_stale_mirror_of_several_is_left_out(apply: Apply, targets: list[Machine]) -> None:
    age = max(age_days(codename(target)) for target in targets)

    result = apply(variables={"mirrors_apt_urls": [STALE, LIVE], "mirrors_max_age_days": int(age) + 15})

    assert result.rc == 0, result.output
    for target in targets:
        assert f"URIs: {LIVE}\n" in sources(target)
        assert "/stale" not in sources(target)
        assert result.findings(target.host.name)["mirrors.choice"] == "warn"


def test_when_all_mirrors_are_dead_nothing_changes(apply: Apply, targets: list[Machine]) -> None:
    before = [fingerprint.of(target) for target in targets]

    result = apply(variables={"mirrors_apt_urls": [DEAD, f"{DEPOT}/nothing/debian"]})

    assert result.rc != 0
    output = result.text
    assert f"{DEAD}: Could not connect to 127.0.0.9:9" in output
    assert f"{DEPOT}/nothing/debian: no {codename(targets[0])}-updates (404" in output
    assert [fingerprint.of(target) for target in targets] == before


def test_a_mirror_that_apt_does_not_trust_is_taken_back(apply: Apply, targets: list[Machine]) -> None:
    # Taken unseen, the old copy's signature does not hold: apt-get update fails, and every file goes back.
    before = [fingerprint.of(target) for target in targets]

    result = apply(variables={"mirrors_apt_urls": [STALE], "mirrors_check": False})

    assert result.rc != 0
    assert "apt-get update" in result.output
    assert [fingerprint.of(target) for target in targets] == before


def test_check_mode_changes_nothing(apply: Apply, targets: list[Machine]) -> None:
    before = [fingerprint.of(target) for target in targets]

    result = apply(variables={"mirrors_apt_urls": [LIVE], "mirrors_hf_endpoint": DEPOT}, check=True)

    assert result.rc == 0, result.output
    assert [result.changed()[target.host.name] for target in targets] == [1] * len(targets)
    assert [fingerprint.of(target) for target in targets] == before


def test_an_unknown_profile_is_refused(apply: Apply, targets: list[Machine]) -> None:
    before = [fingerprint.of(target) for target in targets]

    result = apply(variables={"mirrors_profile": "tsinghua"})

    assert result.rc != 0
    assert (
        "mirrors_profile must be one of: none, tuna, ustc, bfsu, aliyun, cernet, custom, got: tsinghua" in result.text
    )
    assert [fingerprint.of(target) for target in targets] == before


def test_pip_conf_keeps_other_settings_and_is_restored(apply: Apply, targets: list[Machine]) -> None:
    own = "# Ask Ann.\n[global]\ntimeout = 60\nindex-url = https://old.example/simple\n"
    for target in targets:
        target.put({"/etc/pip.conf": Entry(own.encode(), mode=0o640)})

    assert apply(variables={"mirrors_pip_url": "https://mirror.example/simple"}).rc == 0

    for target in targets:
        assert target.must("cat /etc/pip.conf") == (
            "# Ask Ann.\n[global]\nindex-url = https://mirror.example/simple\ntimeout = 60\n"
        )
    assert apply().rc == 0
    for target in targets:
        assert target.must("cat /etc/pip.conf; stat --format %a /etc/pip.conf; rm /etc/pip.conf") == f"{own}640\n"


def test_every_service_is_configured(apply: Apply, targets: list[Machine]) -> None:
    result = apply(
        variables={
            "mirrors_uv_url": "https://mirror.example/simple",
            "mirrors_conda_url": "https://mirror.example/anaconda/cloud",
            "mirrors_hf_endpoint": "https://hf.example",
        },
    )

    assert result.rc == 0, result.output
    generator = "/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator"
    for target in targets:
        assert target.must("bash --login -c 'echo $HF_ENDPOINT'") == "https://hf.example\n"
        assert "HF_ENDPOINT=https://hf.example\n" in target.must(generator)
        assert 'url = "https://mirror.example/simple"\ndefault = true\n' in target.must("cat /etc/uv/uv.toml")
        condarc = target.must("cat /etc/conda/condarc.d/rigwright-mirrors.yml")
        assert "conda-forge: https://mirror.example/anaconda/cloud\n" in condarc


def test_source_of_a_third_party_is_left_alone(apply: Apply, targets: list[Machine]) -> None:
    # It leads nowhere and its key is missing, as with a repository that moved.
    theirs = f"deb [signed-by=/etc/apt/keyrings/theirs.asc] {DEPOT}/theirs/debian {{}} main\n"
    for target in targets:
        text = theirs.format(codename(target)).encode()
        target.put({"/etc/apt/sources.list.d/theirs.list": Entry(text)})

    result = apply(variables={"mirrors_apt_urls": [LIVE]})

    assert result.rc == 0, result.output
    for target in targets:
        remaining = target.must("cat /etc/apt/sources.list.d/theirs.list; rm /etc/apt/sources.list.d/theirs.list")
        assert remaining == theirs.format(codename(target))


@pytest.mark.both_releases
def test_both_source_formats_are_merged_and_restored(apply: Apply, targets: list[Machine]) -> None:
    # As after an upgrade: with both files as they are, apt warns that every package source is configured twice.
    assert apply(variables={"mirrors_state": "absent"}).rc == 0
    stray, before = [], []
    for target in targets:
        lines = f"deb {LIVE} {codename(target)} main\n"
        stanza = f"Types: deb\nURIs: {LIVE}\nSuites: {codename(target)}\nComponents: main contrib\n"
        added = {LINES: lines} if target.run(f"test -e {LINES}").rc else {STANZAS: stanza}
        target.put({path: Entry(text.encode()) for path, text in added.items()})
        stray.append(next(iter(added)))
        before.append(target.must(f"sha256sum {LINES} {STANZAS}"))

    assert apply().rc == 0

    for target in targets:
        assert target.run(f"test -e {LINES}").rc != 0
        assert "configured multiple times" not in target.must("apt-get update 2>&1", seconds=120)
        # As cloud-init or a person does it later.
        target.put({LINES: Entry(f"deb {LIVE} {codename(target)} main non-free\n".encode())})
    assert apply().rc == 0
    for target in targets:
        assert target.run(f"test -e {LINES}").rc != 0
        assert re.search(r"^Components:.*\bnon-free\b", sources(target), re.MULTILINE)

    assert apply(variables={"mirrors_state": "absent"}).rc == 0
    assert [target.must(f"sha256sum {LINES} {STANZAS}") for target in targets] == before
    for target, path in zip(targets, stray, strict=True):
        target.must(f"rm {path}")


@pytest.mark.both_releases
def test_verify_reports_a_mirror_that_died(
    applied: Apply, verified: Callable[..., dict[str, dict[str, str]]], targets: list[Machine]
) -> None:
    def statuses(urls: list[str]) -> list[str]:
        """Return what the proof says of the mirrors on each host, after it has passed everything else."""
        found = verified({"mirrors_apt_urls": urls, "mirrors_max_age_days": 3650}).values()
        assert all({status for name, status in host.items() if name != "mirrors.apt"} == {"pass"} for host in found)
        return [host["mirrors.apt"] for host in found]

    applied({"mirrors_apt_urls": [LIVE, DEAD], "mirrors_check": False})

    assert statuses([LIVE]) == ["pass"] * len(targets)
    assert statuses([LIVE, DEAD]) == ["warn"] * len(targets)
    for target in targets:
        target.must(f"echo '{DEAD}' > /etc/apt/mirrors/debian.list")
    assert statuses([LIVE, DEAD]) == ["fail"] * len(targets)


def fake_package(name: str, version: str, *files: str) -> bytes:
    """Return a package with these configuration files, each with the package's version as its content."""
    contents = {file.lstrip("/"): f"{version}\n".encode() for file in files}
    conffiles = {"DEBIAN/conffiles": "".join(f"{file}\n" for file in files).encode()}
    package = apt_repository.Package(name, version, source="fake-base", architecture="all")
    return apt_repository.build(package, contents | conffiles)


def test_an_archive_newer_than_the_image_is_no_difference(target: Machine) -> None:
    image = {"/root/base.deb": Entry(fake_package("fake-base", "1.0-1", "/etc/fake-base.conf"))}
    archive = {
        "/root/base.deb": Entry(
            fake_package("fake-base", "1.0-1+deb13u1", "/etc/fake-base.conf", "/etc/fake-base.new")
        ),
        "/root/tool.deb": Entry(fake_package("fake-tool", "1.0-1+deb13u1", "/etc/fake-tool.conf")),
    }
    target.put(image)
    target.must("dpkg --install /root/base.deb && rm /root/base.deb")
    before = fingerprint.of(target)
    try:
        target.put(archive)
        target.must("dpkg --install /root/base.deb /root/tool.deb && rm /root/base.deb /root/tool.deb")
        upgraded = fingerprint.without_packages(before, fingerprint.of(target))
        target.must("echo edited >>/etc/fake-base.conf")
        edited = fingerprint.without_packages(before, fingerprint.of(target))
    finally:
        target.must("dpkg --purge fake-tool fake-base")

    assert fingerprint.difference(before, upgraded) == []
    assert [line.split(": ")[:2] for line in fingerprint.difference(before, edited)] == [
        ["changed", "file /etc/fake-base.conf"]
    ]
