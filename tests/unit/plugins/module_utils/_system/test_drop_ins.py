# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a host that are stronger than a drop-in, beyond the samples of tests/contract/test_overrides.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system import drop_ins

OWN = "/etc/systemd/system/x.service.d/rigwright.conf"
UNIT = "[Unit]\nRequiresMountsFor=/a\n[Service]\nNice=5\nExecStart=\nExecStart=/usr/bin/x \\\n  -a\nEnvironment=A=1\n"


def lost(root: Path, path: str, **texts: str) -> list[str]:
    for name, text in texts.items():
        file = root / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return drop_ins.overridden(Tree(str(root)), path)


@pytest.mark.parametrize(
    ("other", "text", "expected"),
    [
        ("/etc/systemd/system/x.service.d/override.conf", "[Service]\nNice=0\n", []),
        ("/run/systemd/system/x.service.d/zz.conf", "[Service]\nNice=0\n", ["Service.Nice"]),
        ("/usr/lib/systemd/system/x.service.d/zz.conf", "[Service]\nNice=\n", ["Service.Nice"]),
        ("/etc/systemd/system/x.service.d/zz.conf", "[Unit]\nNice=0\n", []),
        ("/etc/systemd/system/x.service.d/zz.conf", "[Service]\nExecStart=/usr/bin/y\n", []),
        (
            "/etc/systemd/system/x.service.d/zz.conf",
            "[Service]\nExecStart=\nExecStart=/usr/bin/y\n",
            ["Service.ExecStart"],
        ),
        ("/etc/systemd/system/x.service.d/zz.conf", "[Service]\nEnvironment=B=2\n", []),
        ("/etc/systemd/system/x.service.d/zz.conf", "[Service]\nEnvironment=\n", ["Service.Environment A"]),
        ("/etc/systemd/system/x.service.d/zz.conf", "[Unit]\nRequiresMountsFor=/other\nOnCalendar=daily\n", []),
        ("/etc/systemd/system/x.service.d/zz.conf", "[Unit]\nRequiresMountsFor=\n", ["Unit.RequiresMountsFor"]),
        ("/etc/systemd/system/service.d/zz.conf", "[Service]\nNice=0\n", ["Service.Nice"]),
        ("/etc/systemd/system/socket.d/zz.conf", "[Service]\nNice=0\n", []),
        ("/etc/systemd/system/x.service.d/zz.conf", "[Service]\n# Nice=0\n;Nice=0\nNice=5\n", []),
    ],
)
def test_drop_in_that_is_read_later_wins(tmp_path: Path, other: str, text: str, expected: list[str]) -> None:
    assert lost(tmp_path, OWN, **{OWN: UNIT, other: text}) == [f"{name} ({other})" for name in expected]


TEMPLATE, PREFIXED = "/etc/systemd/system/x@.service", "/etc/systemd/system/rigwright-a-b.service"


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        (PREFIXED, "/etc/systemd/system/rigwright-.service.d/z.conf", "Service.Nice"),
        (PREFIXED, "/run/systemd/system/rigwright-a-.service.d/z.conf", "Service.Nice"),
        (PREFIXED, "/etc/systemd/system/rigwright-a-c-.service.d/z.conf", ""),
        (PREFIXED, "/etc/systemd/system/rigwright-.socket.d/z.conf", ""),
        (TEMPLATE, "/etc/systemd/system/x@1.service.d/z.conf", "Service.Nice"),
        (TEMPLATE, "/etc/systemd/system/x@1.service", "all of it"),
        (TEMPLATE, "/etc/systemd/system/x@.service.d/z.conf", "Service.Nice"),
        (TEMPLATE, "/etc/systemd/system/xy@1.service.d/z.conf", ""),
        (f"{TEMPLATE}.d/a.conf", "/etc/systemd/system/x@1.service.d/a.conf", "all of it"),
    ],
)
def test_drop_in_of_a_type_a_prefix_or_an_instance(tmp_path: Path, own: str, other: str, expected: str) -> None:
    texts = {own: "[Service]\nNice=5\n", other: "[Service]\nNice=0\n"}
    assert lost(tmp_path, own, **texts) == [f"{expected} ({other})"] * bool(expected)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#clear U::B;", ["u::b"]),
        ('U::B # "3"\n  "2";', ["u::b"]),
        ("#clear U;", ["u::b", "u::l::"]),
        ("#clear U::L;", ["u::l::"]),
        ('U { L:: "y"; L { "z"; }; };', []),
        ('U::B "1"; // it is', []),
        ('U::B "1"; // "2"; U::B "2";', []),
        ('# U::B "2";\nU::B "2";', ["u::b"]),
        ('/* U::B "2"; */ A "http://x"; U::B "2";', ["u::b"]),
    ],
)
def test_options_of_apt(tmp_path: Path, text: str, found: list[str]) -> None:
    own, other = "/etc/apt/apt.conf.d/80x", "/etc/apt/apt.conf.d/90x"
    texts = {own: '// Ours.\nU::B "1";\nU::L:: "x";\n', other: f"// Theirs.\n{text}\n"}
    assert lost(tmp_path, own, **texts) == [f"{name} ({other})" for name in found]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$nrconf{override_rc} = {};", True),
        ("delete $nrconf{override_rc};", True),
        ("delete $nrconf{override_rc}{qr(^x)};", True),
        ("$nrconf{override_rc}->{qr(^x)} = 1;", True),
        ("$nrconf{override_rc}{qr(^x)} = 0; # as it is", False),
        ("$nrconf{override_rc}{qr(^y)} = 1;", False),
        ("$nrconf{override} = {};", False),
        ("if ($nrconf{override_rc} == 1) {", False),
    ],
)
def test_options_of_needrestart(tmp_path: Path, text: str, found: bool) -> None:
    own, other = "/etc/needrestart/conf.d/a.conf", "/etc/needrestart/conf.d/b.conf"
    texts = {own: "# Ours.\n$nrconf{override_rc}{qr(^x)} = 0;\n", other: f"# Theirs.\n{text}\n"}
    assert lost(tmp_path, own, **texts) == [f"$nrconf{{override_rc}}{{qr(^x)}} ({other})"] * found


def test_comment_after_a_value_of_yaml_is_none_of_it(tmp_path: Path) -> None:
    own, other = "/etc/conda/condarc.d/a.yml", "/etc/conda/condarc.d/b.yml"
    assert lost(tmp_path, own, **{own: "a: x\nb: '#1'\n", other: "a: x # it is\nb: '#1' # too\n"}) == []


def test_file_of_a_stronger_directory_takes_its_place(tmp_path: Path) -> None:
    control = "/etc/systemd/system.control/x.service.d/rigwright.conf"
    assert lost(tmp_path, OWN, **{OWN: UNIT, control: ""}) == [f"all of it ({control})"]


def test_masked_unit_is_out_of_force(tmp_path: Path) -> None:
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    (tmp_path / "etc/systemd/system/x.service").symlink_to("/dev/null")
    assert lost(tmp_path, OWN, **{OWN: UNIT}) == ["all of it (masked)"]


@pytest.mark.parametrize(("name", "read"), [("zz", True), ("zz.conf", True), ("zz.dpkg-old", False)])
def test_apt_leaves_out_other_endings(tmp_path: Path, name: str, read: bool) -> None:
    own = "/etc/apt/apt.conf.d/80rigwright-x"
    texts = {own: 'Acquire::Retries "3";\n', f"/etc/apt/apt.conf.d/{name}": 'Acquire { Retries "0"; };\n'}
    assert lost(tmp_path, own, **texts) == [f"acquire::retries (/etc/apt/apt.conf.d/{name})"] * read


def test_main_file_of_pins_comes_first(tmp_path: Path) -> None:
    own, main = "/etc/apt/preferences.d/rigwright-x", "/etc/apt/preferences"
    pin = "Package: x\nPin: version 1\nPin-Priority: {}\n"
    texts = {own: pin.format(1001), main: pin.format(-1), "/etc/apt/preferences.d/zz": pin.format(2)}
    assert lost(tmp_path, own, **texts) == [f"x ({main})"]


def test_a_value_that_goes_on_is_compared_as_a_whole(tmp_path: Path) -> None:
    other = "/etc/profile.d/zz.sh"
    own = "/etc/profile.d/rigwright-x.sh"
    texts = {own: 'if [ -d "/a b" ]; then export A="/a b"; fi\n', other: "export A='/a b'\nexport AB=1\n"}
    assert lost(tmp_path, own, **texts) == []


def test_no_value_is_shown(tmp_path: Path) -> None:
    other = "/etc/systemd/system/x.service.d/zz.conf"
    found = lost(tmp_path, OWN, **{OWN: UNIT, other: "[Service]\nEnvironment=A=hunter2\n"})
    assert found == [f"Service.Environment A ({other})"]
