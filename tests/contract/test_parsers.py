# SPDX-License-Identifier: GPL-3.0-or-later
"""What reads the output of a program accounts for each line (plugins/module_utils/_core/lines.py).

Whatever splits a text into lines is a parser that uses `lines.parse`, or a reader that is listed with its reason.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import facts as docker
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import apply as mode
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import facts as smoke
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import boot, storage
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import apt_transaction
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import directories, disks

from tests.contract.sources import CHECKOUT, literal, nodes

SPLITTERS = ("splitlines", "findall", "finditer")
# By function: why no line is lost there.
READERS = {
    "_apt/mirror_verify.py:sources": "looks for one complaint of apt; update's status decides on the others",
    "_apt/packages.py:_paragraphs": "a file of dpkg or apt",
    "_apt/archive.py:_without": "a block of a file",
    "_apt/mirror_plan.py:read_releases": "looks for two fields of a file of apt",
    "_apt/pip_conf.py:_lines": "a file, of which each line is kept",
    "_apt/sources.py:_parse_deb822": "a file, of which each line is kept",
    "_apt/sources.py:_parse_one_line": "a file, of which each line is kept",
    "_samba/config.py:_foreign_sections": "a file: parameters that nobody knows are kept as they are",
    "_samba/config.py:read_sections": "a file of the role, and testparm's output, which has parameters alone",
    "_samba/config.py:unknown_parameters": "looks for complaints; testparm's status decides on the others",
    "_samba/facts.py:connected": "a table of the kernel: a line of another form is an error",
    "_samba/facts.py:interfaces": "a table of the kernel: a line of another form is an error",
    "_samba/plan.py:_try": "complaints of testparm, all of which are shown",
    "_samba/verify.py:anonymous": "all of an answer that is no refusal fails",
    "_samba/verify.py:shares": "a share that is not found fails",
    "_ssh/access.py:_options": "the options of one key",
    "_ssh/access.py:_read_keys": "a file of keys: each line is one, or a problem",
    "_ssh/access.py:grants_root": "a rule of sudo that is not known grants nothing",
    "_ssh/access.py:parse_shadow": "a file of the host",
    "_ssh/config.py:ensure_include": "a file, of which each line is kept",
    "_ssh/config.py:parse_config": "each line of `sshd -T` is a keyword and its value",
    "_ssh/config.py:read_lines": "a file: a line without a setting is a comment, or sshd refuses it",
    "_ssh/config.py:reroot": "a file, of which each line is kept",
    "_ssh/config.py:split_values": "words of a value",
    "_ssh/run.py:__init__": "keys of the request: each line is one, or a comment",
    "_ssh/verify.py:jail": "counts for people: without any, the whole output is shown",
    "_ssh/verify.py:ways_in": "without a method, the whole answer is shown, and fails",
}
FILE, KERNEL, TEXT, ASKED, SEARCH, VALUE = (
    "a file of the host, of a package or of the role",
    "a table or log of the kernel, whose lines have one form",
    "what a program says to people; its status decides, and the text is shown",
    "output of a form that the command asks for, or of our own program: a line of another form is an error",
    "looks for one thing, and reports where it is missing",
    "parts of a value, no lines",
)
GROUPS = {
    FILE: """
        _bare_metal/files.py:edit_fstab _bare_metal/files.py:edit_crypttab _bare_metal/plan.py:_switched_off _core/bundle.py:imported
        _core/owners.py:user_names _dataset_cache/text.py:read_sums _docker/gpu_toolkit_facts.py:settings_of
        _docker/gpu_toolkit_facts.py:names_in _docker/gpu_toolkit_facts.py:read_available _docker/plan.py:with_containerd_root
        _docker/rootless.py:parse_ranges _firewall/findings.py:opened_by _gpu/usage/attribution.py:_owners_of
        _manifest/machine.py:conda _manifest/machine.py:manifest _manifest/packages.py:installed
        _nvidia/apt_transaction.py:preferences_parts _nvidia/cuda_environment.py:_read_lines _nvidia/cuda_plan.py:released_files
        _nvidia/facts.py:_library_directories _nvidia/facts.py:_dkms_certificate _nvidia/gpus.py:_pci_names _nvidia/grub.py:read_menu
        _nvidia/grub.py:default_of _nvidia/kept_packages.py:listed_files _nvidia/kept_packages.py:_drop_missing_conffiles
        _nvidia/kernels.py:_module_path _system/modprobe.py:_lines _nvidia/package_facts.py:read_system
        _nvidia/package_facts.py:_blocks _nvidia/package_facts.py:parse_sources _nvidia/package_facts.py:read_pins
        _storage/apply.py:apply _storage/facts.py:kernel_options _storage/fstab.py:split _system/unit_files.py:joined
        _system/drop_ins.py:_of_apt _system/drop_ins.py:_of_yaml _system/shell_variables.py:_commands _system/mounts.py:fstab_lines
        _ssh/plan.py:overridden _xrdp/facts.py:password_kinds _xrdp/ini.py:sections _xrdp/ini.py:problem _xrdp/ini.py:_blocks
    """,
    KERNEL: """
        _backup/placement.py:mount_of _dataset_cache/leases.py:lockers _docker/facts.py:parse_routes _gpu/accept/run.py:new_xids
        _gpu/health/xid_log.py:_lines _gpu/usage/attribution.py:paths_of _manifest/storage.py:parse_swaps _status/machine.py:counters
        _status/machine.py:processors _status/machine.py:memory _status/machine.py:network _system/listeners.py:parse_table
        _system/listeners.py:_groups _firewall/others.py:iptables_drop _system/mounts.py:parse_mountinfo
    """,
    TEXT: """
        _backup/import_tar.py:unpack _backup/restic_outcome.py:plain _backup/restic_outcome.py:judge _backup/unread.py:unread
        _backup/verify.py:state _bare_metal/backup.py:losses _docker/checks.py:refusal_problems _docker/facts.py:validate_options
        _docker/gpu_toolkit_facts.py:read_refresh _docker/verify.py:socket _firewall/facts.py:try_out _frp/frpc.py:visitor_problem
        _frp/frpc.py:login_problem _gpu/fit/run.py:_run _gpu/health/verify.py:read_report _gpu/usage/verify.py:read_snapshot
        _gpu/usage/verify.py:metrics_finding _nvidia/cuda_repository.py:complaint _nvidia/cudnn_apply.py:install
        _nvidia/dpkg.py:last_lines _status/verify.py:of_program _storage/verify.py:fstab _system/notifier.py:emit
        _ssh/trial.py:effective
    """,
    ASKED: """
        _backup/import_tar.py:back_up _backup/restic_outcome.py:messages _bare_metal/first_boot.py:read_machine _core/forked.py:result
        _core/lines.py:match_lines _dataset_cache/verify.py:run _gpu/mps/apply.py:partitions_of _gpu/mps/control.py:parse_pids
        _gpu/mps/control.py:csv_rows _gpu/mps/probe.py:read _gpu/smoke/findings.py:report_of _manifest/storage.py:parse_mdadm
        _nvidia/dpkg.py:packages _storage/apply.py:partition _storage/facts.py:point _storage/facts.py:holds_files
        _system/systemd.py:parse_show _xrdp/facts.py:parse_logins _xrdp/facts.py:_logins _xrdp/gnome_remote_desktop.py:parse_sessions
        _xrdp/gnome_remote_desktop.py:parse_status _xrdp/grdctl.py:sessions
    """,
    SEARCH: """
        _docker/gpu_toolkit_verify.py:__init__ _docker/gpu_toolkit_verify.py:with_all _docker/gpu_toolkit_verify.py:with_none
        _docker/gpu_toolkit_verify.py:with_one _gpu/smoke/facts.py:missing_of _manifest/storage.py:parse_dumpe2fs
        _manifest/storage.py:parse_xfs_info _nvidia/apt_transaction.py:parse_simulation _storage/facts.py:features
        _system/sandboxing.py:check
    """,
    VALUE: """
        _backup/retention.py:within_s _gpu/processes.py:has_wrong_processes _gpu/smoke/findings.py:_version _manifest/document.py:_short
        _nvidia/cuda_repository.py:forget_index _nvidia/versions.py:version_key _system/fail2ban.py:_seconds
        _backup/excludes.py:_shape
    """,
}


def splitters(text: str) -> Iterator[str]:
    """Yield the innermost functions that split a text into lines or find many things in it."""
    for function in [node for node in nodes(text) if isinstance(node, ast.FunctionDef)]:
        inner = {
            id(node)
            for each in ast.walk(function)
            if isinstance(each, ast.FunctionDef) and each is not function
            for node in ast.walk(each)
        }
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and id(node) not in inner]
        if any(map(is_splitter, calls)):
            yield function.name


def is_splitter(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    by_line = call.func.attr == "split" and literal(next(iter(call.args), None)).startswith("\n")
    return by_line or call.func.attr in SPLITTERS


def found() -> set[str]:
    folder = CHECKOUT / "plugins/module_utils"
    return {
        f"{path.relative_to(folder)}:{name}"
        for path in sorted(folder.rglob("*.py"))
        for name in splitters(path.read_text())
    }


def test_each_reader_of_lines_is_a_parser_or_has_a_reason() -> None:
    assert found() == {*READERS, *(name for names in GROUPS.values() for name in names.split())}


def test_rule_finds_its_flaw() -> None:
    assert list(splitters("def f(text):\n    return text.splitlines()\n")) == ["f"]
    assert list(splitters("def f(text):\n    return text.split('\\n')\n")) == ["f"]
    assert list(splitters("def f(text):\n    return lines.parse('x', text, FORMS)\n")) == []
    assert list(splitters("def f(text):\n    def g():\n        return re.findall('x', text)\n    return g()\n")) == [
        "g"
    ]


MANIFEST = CHECKOUT / "tests/unit/fixtures/manifest"
UUID = "00000000-0000-0000-0000-000000000001"
# A parser, what its program prints, and how many things that is.
PARSED: dict[str, tuple[Callable[[str], Any], str, int]] = {
    "apt-cache madison": (
        lambda text: docker.read_available(lambda _command: (0, text, ""), "x"),
        " docker-ce | 5:28.1.1-1 | https://mirror.example.org trixie/stable amd64 Packages\n"
        "docker.io | 26.1.5-1 | https://mirror.example.org trixie/main Sources\n",
        2,
    ),
    "apt-get --simulate": (
        lambda text: apt_transaction.parse_simulation(0, text, "").install,
        "NOTE: This is only a simulation!\nReading package lists...\nRemv a [1]\nPurg b [1]\nInst c [1] (2 Debian:13 [all]) []\n"
        "Inst d (2 Debian:13 [amd64])\nConf c (2 Debian:13 [all])\n",
        2,
    ),
    "blkid": (disks.parse_export, "DEVNAME=/dev/sda1\nLABEL=a\\ =b\nTYPE=ext4\n", 3),
    "btrfs": (storage.parse_btrfs, (MANIFEST / "btrfs_show.txt").read_text(), 1),
    "efibootmgr": (
        lambda text: boot.parse_efibootmgr(text)["entries"],
        "BootCurrent: 0001\nBootNext: 0002\nBoot0009  off\n" + (MANIFEST / "efibootmgr.txt").read_text(),
        4,
    ),
    "nvidia-smi -L": (
        lambda text: smoke.read_listing(text)[0],
        f"GPU 0: NVIDIA A100 (UUID: GPU-{UUID})\n  MIG 1g.5gb     Device  0: (UUID: MIG-{UUID})\n",
        1,
    ),
    "nvidia-smi compute-policy": (
        mode.parse_policies,
        "+------+\n| GPU compute policies:   |\n| GPU  Name  Value  |\n|======|\n|   0   Timeslice   Default  |\n+------+\n",
        1,
    ),
    "xfs_quota": (directories.parse_limits, "#0  0 0 0 00 [--------]\n#7  1 0 4 00 [--------]\n\n", 2),
}


@pytest.mark.parametrize("program", PARSED)
def test_line_of_an_unknown_form_is_reported(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parse, text, count = PARSED[program]
    warnings: list[str] = []
    monkeypatch.setattr(lines, "_warn", warnings.append)
    assert len(parse(text)) == count
    assert warnings == []
    odd = "Inst" if program.startswith("apt-get") else "an odd line"
    assert len(parse(f"{text}{odd}\n")) == count
    assert len(warnings) == 1 and odd in warnings[0]
