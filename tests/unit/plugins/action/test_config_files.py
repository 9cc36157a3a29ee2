# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of config_files, as a play calls it."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).parents[4]
# As in a run of ansible-playbook: the collection is imported by Ansible's loader.
MAKE_PROGRAM = """\
import sys
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder

_AnsibleCollectionFinder([sys.argv[1]])._install()
from ansible_collections.rigwright.workstation.plugins.action import config_files

sys.stdout.write(config_files._program("/x", "_backup.cli"))
"""


@pytest.mark.parametrize("label", ["files", "directories"])
def test_numeric_mode_is_refused_on_the_target(run_tasks, tmp_path, label):
    entry = {"path": str(tmp_path / "new"), "mode": 0o644, **({"content": "x\n"} if label == "files" else {})}
    done = run_tasks([{"rigwright.workstation.config_files": {"name": "test", label: [entry]}}], "--check")
    assert done.rc != 0 and "mode must be octal text in quotes" in done.output


def test_a_released_file_has_its_content_rendered(run_tasks, tmp_path):
    entry = {"path": str(tmp_path / "new"), "content": "theirs\n", "state": "released"}
    done = run_tasks([{"rigwright.workstation.config_files": {"name": "test", "files": [entry]}}], "--check", "--diff")
    assert done.rc == 0 and "+theirs" in done.output


@pytest.mark.parametrize(("due", "rc"), [(True, 0), (False, 2)])
def test_check_mode_expects_directories_of_earlier_tasks(run_tasks, tmp_path, due, rc):
    install = {"ansible.builtin.debug": {"msg": "fail2ban"}, "changed_when": due, "register": "__ssh_installed"}
    files = [{"path": str(tmp_path / "jail.d/ssh.local"), "content": ""}]
    done = run_tasks([install, {"rigwright.workstation.config_files": {"name": "test", "files": files}}], "--check")
    assert done.rc == rc, done.output
    assert ("no such directory" in done.output) is (rc != 0)
    assert "[WARNING]" not in done.output


def test_the_diff_of_a_program_names_the_version(run_tasks, tmp_path):
    files = [{"path": str(tmp_path / "_tool.py"), "content": "import os\n"}]
    done = run_tasks([{"rigwright.workstation.config_files": {"name": "test", "files": files}}], "--check", "--diff")
    version = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text())["version"]
    assert f"+program _tool.py of rigwright.workstation {version}, 10 bytes, sha256 " in done.output
    assert "import os" not in done.output


def test_program_is_written_as_one_file(run_tasks, tmp_path):
    place = tmp_path / "rigwright-backup"
    files = [{"path": str(place), "mode": "0755", "program": "_backup.cli"}]
    task = {"rigwright.workstation.config_files": {"name": "test", "files": files}}
    done = run_tasks([task], "--check", "--diff")
    assert done.rc == 0 and "+program rigwright-backup of rigwright.workstation" in done.output

    # Ansible's own loader finds the sources on a controller.
    maker = subprocess.run(
        [sys.executable, "-c", MAKE_PROGRAM, CHECKOUT / "collections"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    place.write_bytes(base64.b64decode(maker.stdout))
    place.chmod(0o755)
    shown = subprocess.run([place, "--help"], capture_output=True, text=True, check=False)
    assert "import-tar" in shown.stdout, shown.stderr


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("_core.nothing", "_core.nothing is no private module"),
        ("_core.lock", "has no main()"),
        ("", "is no private module"),
    ],
)
def test_module_that_is_no_program_is_refused(run_tasks, tmp_path, entry, problem):
    files = [{"path": str(tmp_path / "tool"), "program": entry}]
    done = run_tasks([{"rigwright.workstation.config_files": {"name": "test", "files": files}}], "--check")
    assert done.rc != 0
    assert problem in " ".join(done.output.split())


def test_absent_program_is_not_built(run_tasks, tmp_path):
    files = [{"path": str(tmp_path / "tool"), "program": "_core.nothing", "state": "absent"}]
    done = run_tasks([{"rigwright.workstation.config_files": {"name": "test", "files": files}}], "--check")
    assert done.rc == 0, done.output


def test_secret_of_data_is_masked_however_a_check_prints_it(run_tasks, tmp_path):
    secrets = {"password": 'correct"horse-battery', "key": "LINEONESECRET11\nLINETWOSECRET22\n"}
    for print_it in ("cat %s; exit 1", "sed 's/[\\\\]n/\\n/g' %s; exit 1"):
        files = [
            {"path": str(tmp_path / "x.json"), "data": secrets, "secret": True, "validate": f'sh -c "{print_it}"'},
        ]
        done = run_tasks([{"rigwright.workstation.config_files": {"name": "test", "files": files}}], "--check")
        assert done.rc != 0 and "is refused by" in done.output
        for part in ("horse-battery", "LINEONESECRET11", "LINETWOSECRET22"):
            assert part not in done.output


def test_secrets_of_frp_are_masked(run_tasks, tmp_path):
    """Mask what a program prints of the files of frpc and frps: passwords, tokens, and their own further keys."""
    secrets = {
        "frpc.toml": {
            "webServer": {"user": "admin", "password": "ADMINPASSWORD64"},
            "extra": {"meta": "EXTRASECRET11"},
        },
        "tunnels.toml": {"proxies": [{"name": "ssh", "secretKey": "SERVICESECRET22"}], "visitors": []},
        "token": "TOKENSECRET33",
    }
    for name, content in secrets.items():
        source = {"content": content} if isinstance(content, str) else {"data": content}
        files = [{"path": str(tmp_path / name), **source, "secret": True, "validate": 'sh -c "cat %s; exit 1"'}]
        done = run_tasks([{"rigwright.workstation.config_files": {"name": "test", "files": files}}], "--check")
        assert done.rc != 0 and "is refused by" in done.output
        assert "********" in done.output
        for word in ("ADMINPASSWORD64", "EXTRASECRET11", "SERVICESECRET22", "TOKENSECRET33"):
            assert word not in done.output
