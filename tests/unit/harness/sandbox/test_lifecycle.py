"""What the sandbox decides before it touches docker: package archives, labs, routes, fingerprints, archives of files."""

from __future__ import annotations

import io
import ipaddress
import sys
import tarfile
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.depot import content
from harness.depot import lifecycle as depot
from harness.sandbox import clients, engine, fingerprint, images, lab
from harness.sandbox import lifecycle as sandbox
from harness.sandbox.lab import Host, Refusal

# ---- The Debian archive among the machine's sources ----------------------------------------------------------------------

DEBIAN = """\
'http://mirror.example/debian/dists/bookworm/InRelease' mirror.example_debian_dists_bookworm_InRelease 0
'http://mirror.example/debian/dists/bookworm-updates/InRelease' mirror.example_debian_dists_bookworm-updates_InRelease 0
'https://safe.example/debian-security/dists/bookworm-security/InRelease' safe.example_InRelease 0
'http://mirror.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' mirror.example_Packages 0
'https://vendor.example/linux/debian/dists/bookworm/InRelease' vendor.example_InRelease 0
"""


def test_the_archive_is_the_one_with_updates_and_security():
    assert images.archive_of(DEBIAN) == images.Archive(
        "http://mirror.example/debian", "https://safe.example/debian-security"
    )


def test_security_source_defaults_to_next_to_the_archive():
    only_updates = "\n".join(line for line in DEBIAN.splitlines() if "security" not in line)
    found = images.archive_of(only_updates)
    assert found == images.Archive("http://mirror.example/debian", "http://mirror.example/debian-security")


@pytest.mark.parametrize(
    "uris", ["", "'https://vendor.example/linux/debian/dists/bookworm/InRelease' vendor.example_InRelease 0\n"]
)
def test_a_machine_without_debians_archive_has_none(uris):
    assert images.archive_of(uris) is None


def test_other_distribution_is_refused_with_the_variable(monkeypatch):
    monkeypatch.delenv("RIGWRIGHT_DEBIAN_MIRROR", raising=False)
    monkeypatch.setattr("harness.sandbox.images.platform.freedesktop_os_release", lambda: {"ID": "ubuntu"})
    with pytest.raises(Refusal, match="RIGWRIGHT_DEBIAN_MIRROR"):
        images.archive()


def test_the_chosen_mirror_wins(monkeypatch):
    monkeypatch.setenv("RIGWRIGHT_DEBIAN_MIRROR", "http://near.example/debian/")
    assert images.archive() == images.Archive("http://near.example/debian", "http://near.example/debian-security")


def test_both_forms_of_sources_say_the_same():
    archive = images.Archive("http://a.example/debian", "http://b.example/debian-security")
    assert archive.one_line("bookworm").splitlines() == [
        "deb http://a.example/debian bookworm main",
        "deb http://a.example/debian bookworm-updates main",
        "deb http://b.example/debian-security bookworm-security main",
    ]
    paragraphs = [paragraph.splitlines() for paragraph in archive.deb822("trixie").split("\n\n")]
    assert [paragraph[1:3] for paragraph in paragraphs] == [
        ["URIs: http://a.example/debian", "Suites: trixie trixie-updates"],
        ["URIs: http://b.example/debian-security", "Suites: trixie-security"],
    ]


def test_an_image_is_named_by_its_recipe(monkeypatch):
    monkeypatch.setattr(images, "apt_options", list)
    monkeypatch.setenv("RIGWRIGHT_DEBIAN_MIRROR", "http://near.example/debian")
    near = images.reference("debian12")
    assert near == images.reference("debian12")
    assert near != images.reference("debian13")
    monkeypatch.setenv("RIGWRIGHT_DEBIAN_MIRROR", "http://far.example/debian")
    assert near != images.reference("debian12")


def test_image_is_built_again_in_another_week(monkeypatch):
    monkeypatch.setattr(images, "recipe", lambda _name: ["mmdebstrap"])
    names = []
    for day in (datetime(2026, 11, 16), datetime(2026, 11, 22), datetime(2026, 11, 23)):  # Monday, Sunday, Monday
        monkeypatch.setattr(images, "datetime", SimpleNamespace(now=lambda _zone, day=day: day))
        images.week.cache_clear()
        names.append(images.reference("debian12"))
    assert names[0] == names[1] != names[2]
    monkeypatch.setattr(images, "datetime", SimpleNamespace(now=lambda _zone: datetime(2026, 11, 30)))
    assert images.reference("debian12") == names[2], "a program that runs into the next week keeps its image"
    images.week.cache_clear()


# ---- Labs ----------------------------------------------------------------------------------------------------------------


def listing(address: str) -> dict:
    variables = {
        "sandbox_lab": "x",
        "sandbox_frp_versions": ["1.0"],
        "sandbox_host": address,
        "sandbox_image": "debian12",
    }
    return {"_meta": {"hostvars": {"a": variables}}, "all": {"children": ["targets"]}, "targets": {"hosts": ["a"]}}


def test_a_lab_is_read_from_its_inventory():
    found = lab.parse(Path("x.yml"), listing("1.10"))
    a = Host("x", "a", lab.SUBNET.network_address + 256 + 10, "debian12", frozenset({"targets"}))
    assert found.hosts == found.group("targets") == (a,)
    assert found.host("a").container == f"rigwright-{lab.NUMBER}-x-a"
    assert found.group("helpers") == ()


@pytest.mark.parametrize("address", ["10.2.0.7", 1.1, "1.256"])  # 1.1 is what YAML makes of 1.10 without quotes
def test_invalid_address_is_refused_with_the_hosts_name(address):
    with pytest.raises(Refusal, match="sandbox_host of a"):
        lab.parse(Path("x.yml"), listing(address))


def test_sandbox_number_is_part_of_its_addresses():
    assert lab.read_number("77") == 77
    assert lab.SUBNET.supernet_of(ipaddress.IPv4Network(f"{lab.DEPOT}/32"))


@pytest.mark.parametrize("number", ["256", "-1", "10.1", "x"])
def test_number_without_a_network_is_refused(number):
    with pytest.raises(Refusal, match="RIGWRIGHT_SANDBOX"):
        lab.read_number(number)


@pytest.mark.parametrize("name", lab.names())
def test_labs_use_known_images_and_own_addresses(name):
    mine = lab.read(name)
    assert {host.image for host in mine.hosts} <= images.SUITES.keys()
    others = [host.address for other in lab.names() if other != name for host in lab.read(other).hosts]
    assert not {host.address for host in mine.hosts}.intersection([lab.DEPOT, *others])


# ---- Addresses that are in use -------------------------------------------------------------------------------------------

ROUTES = """\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	0	00000000	0	0	0
eth0	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
wg0	0000D50A	00000000	0001	0	0	0	0000FFFF	0	0	0
"""


@pytest.mark.skipif(sys.byteorder != "little", reason="the kernel writes this table in the machine's byte order")
def test_routes_are_read_without_the_default_route(tmp_path):
    table = tmp_path / "route"
    table.write_text(ROUTES)
    assert [str(route) for route in engine.host_routes(table)] == ["192.0.2.0/24", "10.213.0.0/16"]


def test_free_numbers_avoid_other_sandboxes_and_networks(tmp_path):
    first = lab.NUMBER
    owners = {first: tmp_path, first + 1: lab.ROOT, first + 2: tmp_path / "is gone"}
    routes = [lab.subnet(first + 1), ipaddress.IPv4Network(f"10.{first + 3}.7.0/24")]
    assert list(engine.free_numbers(owners, routes))[:3] == [first + 1, first + 2, first + 4]


def test_wait_that_times_out_names_its_condition():
    def refused() -> None:
        raise ConnectionRefusedError

    with pytest.raises(Refusal, match="in vain for sshd on a"):
        engine.wait_for(refused, "sshd on a", seconds=0)


# ---- Fingerprints --------------------------------------------------------------------------------------------------------


def test_difference_names_added_removed_and_changed_entries():
    before = {"file /a": "0644 0:0 1", "file /b": "0644 0:0 2", "unit c.service": "enabled running"}
    after = {"file /a": "0600 0:0 1", "unit c.service": "enabled running", "package d": "1.0"}
    assert fingerprint.difference(before, before) == []
    assert fingerprint.difference(before, after) == [
        "changed: file /a: 0644 0:0 1 -> 0600 0:0 1",
        "gone: file /b",
        "new: package d",
    ]


def test_files_of_a_role_are_not_those_of_a_new_package():
    before = {
        "package sudo": "1.9",
        "file /etc/sudoers": "0440 0:0 1 +sudo",
        "file /etc/default": "0755 0:0 directory +sudo",
    }
    new = {
        "package fail2ban": "1.0",
        "unit fail2ban.service": "enabled running +fail2ban",
        "file /etc/default": "0755 0:0 directory +fail2ban +sudo",
        "file /etc/fail2ban/jail.conf": "0644 0:0 2 +fail2ban",
    }
    remaining = {
        "unit frps.service": "enabled running",
        "file /etc/fail2ban/jail.d/rigwright.conf": "0644 0:0 3",
        "file /etc/sudoers": "0440 0:0 9 +sudo",
    }
    after = fingerprint.without_packages(before, before | new | remaining)
    assert after == before | remaining


# ---- Archives ------------------------------------------------------------------------------------------------------------


def test_an_archive_of_the_depot_depends_only_on_its_files():
    files = {"frp/frps": (b"program", 0o755), "frp/LICENSE": (b"words", 0o644)}
    data = depot.pack(files)
    assert data == depot.pack(dict(reversed(files.items())))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert [(entry.name, entry.mode, entry.mtime, entry.uid) for entry in tar] == [
            ("frp/LICENSE", 0o644, 0, 0),
            ("frp/frps", 0o755, 0, 0),
        ]


def test_files_put_on_a_host_keep_mode_and_owner():
    entries = {"/home/owner/.ssh": clients.Entry(None, 0o700, 1000), "/etc/x": clients.Entry(b"", 0o640)}
    with tarfile.open(fileobj=io.BytesIO(clients.pack(entries))) as tar:
        found = {entry.name: (entry.isdir(), entry.mode, entry.uid) for entry in tar}
    assert found == {"home/owner/.ssh": (True, 0o700, 1000), "etc/x": (False, 0o640, 0)}


def test_published_bytes_are_served_inside_the_block_only(tmp_path, monkeypatch):
    monkeypatch.setattr(depot, "WWW", tmp_path)
    (tmp_path / "real").write_bytes(b"real")
    with depot.publish("real", b"tampered"), depot.publish("extra/deep", b"new"):
        assert (tmp_path / "real").read_bytes() == b"tampered"
        assert (tmp_path / "extra/deep").read_bytes() == b"new"
    assert (tmp_path / "real").read_bytes() == b"real"
    assert not (tmp_path / "extra/deep").exists()


def test_an_official_release_with_other_bytes_is_refused(monkeypatch):
    monkeypatch.setattr("harness.depot.lifecycle.urllib.request.urlopen", lambda *_, **__: io.BytesIO(b"tampered"))
    with pytest.raises(Refusal, match="is not the release"):
        depot.official_frp("0.70.1")


def test_a_version_that_is_not_pinned_is_never_downloaded(monkeypatch):
    monkeypatch.setattr(
        "harness.depot.lifecycle.urllib.request.urlopen", lambda *_, **__: pytest.fail("it was downloaded")
    )
    assert depot.official_frp("0.0.1") is None


# ---- No host may touch this machine --------------------------------------------------------------------------------------


def test_hosts_get_no_capability_over_the_machine():
    assert not {"SYS_MODULE", "SYS_RAWIO", "SYS_BOOT", "ALL"}.intersection(sandbox.CAPABILITIES)
    assert len(sandbox.CAPABILITIES) == len(set(sandbox.CAPABILITIES))


def test_hosts_get_no_device_of_the_machine_but_loop_devices():
    loop, loop_control = "b 7:", "c 10:237 "
    assert all(rule.startswith((loop, loop_control)) for rule in sandbox.LOOP_DEVICE_RULES)


def test_lab_with_unknown_depot_content_is_refused():
    with pytest.raises(Refusal, match="serves no 'cudda': name one of conda, container_toolkit, cuda"):
        content.put(["cudda"])


@pytest.mark.parametrize("name", lab.names())
def test_labs_of_the_checkout_use_only_what_the_depot_serves(name):
    assert set(lab.read(name).serves) <= content.SERVED.keys()
