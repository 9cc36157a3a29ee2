# SPDX-License-Identifier: GPL-3.0-or-later
"""What other files of a host put out of force is a finding that names them, for each file that a role writes.

Of a drop-in, `_system/drop_ins.py` finds it. Any other file has a finding of its own, or the reason why nothing overrides it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_state import STORE
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system import drop_ins

from tests.contract.sources import CHECKOUT, PYTHON, YAML, resolved

TEMPLATES = sorted(path for path in CHECKOUT.glob("roles/*/templates/**/*.j2"))
PATH = re.compile(
    r"/etc/[\w.@/-]*\w\.d/[\w.@-]*[\w@]|/etc/systemd/(?:system|user)/[\w@-]+\.(?:service|socket|target|timer|path)\b"
)
# The finding that names what another file overrides, or that compares what is in force.
FINDINGS = {
    "/etc/docker/daemon.json": "docker.options",
    "/etc/fail2ban/jail.d/rigwright.local": "ssh.jail_overridden",
    "/etc/fail2ban/jail.d/rigwright-xrdp.local": "xrdp.jail_overridden",
    "/etc/nftables.d/rigwright.nft": "firewall.in_force",
    "/etc/nftables.d/rigwright": "firewall.in_force",
    "/etc/samba/smb.conf": "samba.overridden",
    "/etc/ssh/sshd_config.d/00-rigwright.conf": "ssh.overridden",
    "/etc/xrdp/sesman.ini": "xrdp.overridden",
    "/etc/xrdp/xrdp.ini": "xrdp.overridden",
}
ADDS, PROGRAM, NAMED, READ = (
    "it adds to what is there, and no other file takes that back",
    "a program: what it prints or answers is its own",
    "the one file that a file of the role names",
    "the role reads it, and does not write it",
)
REASONS = {
    ADDS: (
        "/etc/apt/sources.list.d/",
        "/etc/avahi/services/rigwright-samba.service",
        "/usr/share/gdm/greeter/autostart/rigwright-remote-desktop.desktop",
        "/etc/frpc/conf.d/tunnels.toml",
        "/etc/ld.so.conf.d/rigwright-cuda.conf",
        "/etc/udev/rules.d/71-rigwright-nvidia.rules",
    ),
    NAMED: (
        "/etc/fail2ban/filter.d/rigwright-xrdp.conf",
        "/etc/samba/rigwright-listen.conf",
        "/etc/xrdp/rigwright-startwm.sh",
    ),
    PROGRAM: ("/etc/polkit-1/", "/etc/systemd/user-environment-generators/", "/etc/update-motd.d/60-rigwright-status"),
    READ: ("/etc/initramfs-tools/conf.d/resume",),
}
# A file of the role, what the host says against it, and where. By the form of the path.
UNIT = (
    "[Service]\nNice=5\nEnvironment=A=1 B=2\n",
    "[Service]\nNice=1\nEnvironment=B=3\n",
    ["Service.Nice", "Service.Environment B"],
)
ENVIRONMENT = ("A=1\nB=2\n", "A=2\nB=$B:3\n", ["A"])
SHELL = ("export A=1 # one\nB=2\n", "export A=2\nB=$B:3 # more\n", ["A"])
DATA = ("a:\n  b: 1\nc: [x]\n", "a: # no\n  b: 2\n", ["a.b"])
SAMPLES = {
    "/etc/cloud/": DATA,
    "/etc/conda/": DATA,
    "/etc/systemd/": UNIT,
    "/etc/modprobe.d/": ("options nvidia A=1 B=2\n", "options nvidia A=2\n", ["nvidia A"]),
    "/etc/environment.d/": ENVIRONMENT,
    "/etc/profile.d/": SHELL,
    "/etc/apt/apt.conf.d/": ('A::B "1";\nA::L:: "x";\n', '/* no */\na { b "2"; l:: "y"; };\n', ["a::b"]),
    "/etc/apt/preferences.d/": (
        "Package: a b\nPin: version 1\nPin-Priority: 1001\n",
        "Explanation: no\nPackage: *\nPin: version 9\nPin-Priority: 1\n\nPackage: b*\nPin: version 2\nPin-Priority: 1001\n",
        ["b"],
    ),
    "/etc/needrestart/conf.d/": ("$nrconf{a}{qr(^x)} = 0;\n", "$nrconf{a}{qr(^x)} = 1; # no\n", ["$nrconf{a}{qr(^x)}"]),
}
# The comments of each form.
COMMENTS = {
    **dict.fromkeys(SAMPLES, ("# {}\n",)),
    "/etc/systemd/": ("# {}\n", "; {}\n", "# {} \\\n"),
    "/etc/environment.d/": ("# {}\n", "; {}\n", "# {} \\\n"),
    "/etc/profile.d/": ("# {}\n", "# {} \\\n"),
    "/etc/apt/apt.conf.d/": ("// {}\n", "# {}\n", "/* {}\n{} */\n"),
}


def written() -> set[str]:
    """Return the paths of templates, and those of files with others beside them that the sources name."""
    templates = {
        f"/{path.relative_to(CHECKOUT).as_posix().split('/templates/')[1].removesuffix('.j2')}" for path in TEMPLATES
    }
    found = {path for file in [*PYTHON, *YAML] for path in PATH.findall(resolved(file.read_text()))} | templates
    folders = {
        path for path in found if path.endswith((".d", "/_")) or any(other.startswith(f"{path}/") for other in found)
    }
    return found - folders


WRITTEN = sorted(written())
FORMED = [path for path in WRITTEN if drop_ins.form_of(path)]


def test_each_file_has_a_form_a_finding_or_a_reason() -> None:
    reasons = tuple(prefix for prefixes in REASONS.values() for prefix in prefixes)
    assert [
        path for path in WRITTEN if path not in FORMED and path not in FINDINGS and not path.startswith(reasons)
    ] == []
    assert [prefix for prefix in reasons if not any(path.startswith(prefix) for path in WRITTEN)] == []
    assert len(FORMED) > 25


def test_each_finding_is_made_and_tested() -> None:
    code = "".join(path.read_text() for path in PYTHON)
    tests = "".join(path.read_text() for path in (CHECKOUT / "tests/unit").rglob("*.py"))
    for path, identifier in FINDINGS.items():
        assert path in code or path in WRITTEN, path
        _role, _dot, name = identifier.partition(".")
        assert f'"{identifier}"' in code or f'{{role}}.{name}"' in code, identifier
        assert identifier in tests or f'"{name}"' in tests, identifier


def other_of(path: str) -> str:
    """Return the path of a file that is stronger than one of a role."""
    if path.startswith("/etc/systemd/") and ".d/" not in path:
        return f"{path}.d/zz.conf"
    folder, _slash, name = path.rpartition("/")
    return f"{folder}/{'00' if 'preferences' in folder else 'zz'}{Path(name).suffix}"


def place(tree: Tree, path: str, text: str) -> None:
    Path(tree.at(path)).parent.mkdir(parents=True, exist_ok=True)
    Path(tree.at(path)).write_text(text)


def placed(root: Path, path: str, texts: dict[str, str]) -> Tree:
    """Return a host with these files, of which the first is in a set of the role x."""
    tree = Tree(str(root))
    for name, text in texts.items():
        place(tree, name, text)
    state = {"kind": "missing", "mode": None, "uid": None, "gid": None, "mtime_ns": None, "secret": False}
    place(
        tree, f"{STORE}/x/manifest.json", json.dumps({"transaction": "1", "paths": {path: {**state, "written": "0"}}})
    )
    return tree


def sample_of(path: str) -> tuple[str, str, list[str]]:
    return next(sample for prefix, sample in SAMPLES.items() if path.startswith(prefix))


@pytest.mark.parametrize("path", FORMED)
def test_overriding_file_is_found(tmp_path: Path, path: str) -> None:
    own, others, names = sample_of(path)
    (found,) = drop_ins.findings(placed(tmp_path, path, {path: own, other_of(path): others}), "x")
    assert found["status"] == "warn" and found["id"] == "x.drop_ins"
    assert found["evidence"].endswith(f"{path}: {', '.join(f'{name} ({other_of(path)})' for name in names)}")


@pytest.mark.parametrize("path", FORMED)
def test_comment_hides_nothing_and_sets_nothing(tmp_path: Path, path: str) -> None:
    own, others, names = sample_of(path)
    comments = next(forms for prefix, forms in COMMENTS.items() if path.startswith(prefix))
    for comment in comments:
        head = comment.replace("{}", 'Of the role; it\'s "quoted", http://x')
        files = {path: head + own + head, other_of(path): head + others}
        found = drop_ins.overridden(placed(tmp_path, path, files), path)
        assert found == [f"{name} ({other_of(path)})" for name in names], comment
        commented = "".join(comment.replace("{}", line) for line in others.splitlines() if "*/" not in line)
        assert drop_ins.overridden(placed(tmp_path, path, {path: own, other_of(path): commented}), path) == [], comment


@pytest.mark.parametrize("path", FORMED)
def test_file_that_says_the_same_is_none(tmp_path: Path, path: str) -> None:
    own, _others, _names = sample_of(path)
    (found,) = drop_ins.findings(placed(tmp_path, path, {path: own, other_of(path): own}), "x")
    assert found["status"] == "pass"
