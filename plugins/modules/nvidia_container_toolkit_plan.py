#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_container_toolkit_plan
short_description: Plan how containers get the GPUs of a host
description:
  - Reads what is on the host (packages, apt's sources, the driver, the running docker, the CDI spec) and returns what the role
    C(nvidia_container_toolkit) has to do, and why it may not. Changes nothing itself.
  - Whether the CDI spec is still true is not guessed. C(nvidia-ctk cdi generate) is run, and what it would write is compared with what
    lies there, so another driver, another set of GPUs and MIG are all seen.
  - Where packages have to be installed, the repository is asked for its versions, so that one that it does not have is refused before
    anything changes. That index is not checked by a signature, and decides nothing else.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  state:
    description:
      - V(absent) plans to give back what the role brought.
    type: str
    choices: [present, absent]
    default: present
  version:
    description:
      - The version of all four packages, with or without the revision of the package.
    type: str
    required: true
  hold:
    description:
      - Whether the packages are kept from being upgraded.
    type: bool
    default: false
  repository:
    description:
      - NVIDIA's repository of the toolkit.
    type: dict
    required: true
    suboptions:
      url:
        description: Address of the flat repository; C($(ARCH)) is apt's name of the machine.
        type: str
      key_url:
        description: Address of its key.
        type: str
      fingerprints:
        description: Full fingerprints of the keys that the file has to hold, and no others.
        type: list
        elements: str
  architecture:
    description:
      - apt's name of the machine.
    type: str
    default: amd64
  mode:
    description:
      - How containers ask for GPUs. V(cdi) by the Container Device Interface of docker, V(legacy) by the runtime C(nvidia), and V(auto)
        by CDI where docker knows it.
    type: str
    choices: [auto, cdi, legacy]
    default: auto
  allow_disruption:
    description:
      - Whether the toolkit may be removed under containers that use a GPU.
    type: bool
    default: false
  planned:
    description:
      - In check mode, what earlier tasks of the run would have made. It is taken as there (C(roles/common/vars/planned.yml)).
    type: dict
    default: {}
seealso:
  - module: rigwright.workstation.docker_plan
"""

EXAMPLES = r"""
- name: Plan the toolkit
  rigwright.workstation.nvidia_container_toolkit_plan:
    version: 1.20.1
    repository:
      url: https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)
      key_url: https://nvidia.github.io/libnvidia-container/gpgkey
      fingerprints: [C95B321B61E88C1809C4F759DDCAE044F796ECB0]
  register: plan
"""

RETURN = r"""
mode:
  description: How containers ask for GPUs.
  returned: success
  type: str
  sample: cdi
reason:
  description: Why it is this mode.
  returned: success
  type: str
  sample: docker 26.1.5 knows CDI
requirements:
  description: What speaks against the request, as M(rigwright.workstation.require) takes it.
  returned: success
  type: list
  elements: dict
  sample: []
findings:
  description: What is left to do, as M(rigwright.workstation.finding) takes it.
  returned: success
  type: list
  elements: dict
  sample: []
install:
  description: The packages to install, each with its version. Empty when all are there.
  returned: success
  type: list
  elements: str
  sample: [nvidia-container-toolkit=1.20.1-1]
hold:
  description: The packages to put on hold.
  returned: success
  type: list
  elements: str
  sample: []
unhold:
  description: The packages to take off hold, which the role had put there.
  returned: success
  type: list
  elements: str
  sample: []
remove:
  description: The packages that came with the role.
  returned: success
  type: list
  elements: str
  sample: []
remove_paths:
  description: What the packages have written, and do not take along when they go.
  returned: success
  type: list
  elements: str
  sample: []
package_files:
  description: Files that have to be in place before the packages, as M(rigwright.workstation.config_files) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/apt/preferences.d/rigwright-nvidia-container-toolkit, content: "Package: ..."}]
package_files_due:
  description: Whether any of them is not as it should be.
  returned: success
  type: bool
key:
  description: The keys of the repository's key file as one armor block, if it holds the right keys and nothing else.
  returned: success
  type: str
  sample: ""
directories:
  description: The directories that the files need.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/udev/rules.d}]
files:
  description: The configuration files.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/udev/rules.d/71-rigwright-nvidia.rules, content: "..."}]
units:
  description: The units, as M(rigwright.workstation.systemd_units) takes them. The service that writes the spec is listed when it is stale.
  returned: success
  type: list
  elements: dict
  sample: [{name: nvidia-cdi-refresh.path, enabled: true}]
part:
  description: What C(daemon.json) has to say. Empty when docker needs to be told nothing.
  returned: success
  type: dict
  sample: {features: {cdi: true}}
apply:
  description: Whether docker has to be configured with the part of this role, or without it.
  returned: success
  type: bool
stale:
  description: Why the CDI spec, or the links that belong to it, are not as the driver says. Empty when they are.
  returned: success
  type: str
  sample: ""
devices:
  description: The names of the CDI devices that the driver has now.
  returned: success
  type: list
  elements: str
  sample: ["0", "GPU-...", all]
"""

import dataclasses
import json
import os
import re
import shlex
import stat
import tempfile
import typing as t
import urllib.error

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import STATUS, parse_status
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.sources import SOURCES_LIST, SOURCES_PARTS
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import STORE, Record, Store
from ansible_collections.rigwright.workstation.plugins.module_utils._core.openpgp import Invalid, armored, parse_keys
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit as toolkit
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.api import ask, running_containers
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.plan import DAEMON_JSON, describe_containers
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import read_driver

ROOT = "/"
PACKAGE_SET = "nvidia_container_toolkit_packages"
CTK = "/usr/bin/nvidia-ctk"
SETTINGS = "/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"
OUTPUT = "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH"
# nvidia-fs and the switches of NVLink have nodes that containers do not get.
NODE = re.compile(r"nvidia([0-9]+|ctl|-modeset|-uvm(-tools)?)")


def read_docker() -> toolkit.Docker | None:
    """What a docker that runs can do for GPUs; None when none answers."""
    try:
        info = ask("/info")
        _running, gpu = describe_containers(running_containers())
    except (OSError, ValueError):
        return None
    return toolkit.Docker(tuple(info.get("Runtimes") or ()), bool(info.get("CDISpecDirs")), gpu)


def settings_of(text: str) -> dict[str, str]:
    """The variables of an environment file of systemd (systemd.exec(5)), as the refresh service gets them."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith(("#", ";")):
            found[name] = " ".join(shlex.split(value))
    return found


def missing_links(tree: Tree) -> list[str]:
    """The device nodes of the GPUs that /dev/char has no link to."""
    found = []
    for name in tree.names("/dev"):
        if NODE.fullmatch(name):
            about = os.stat(tree.at(f"/dev/{name}"))
            number = f"{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}"
            if stat.S_ISCHR(about.st_mode) and not tree.exists(f"/dev/char/{number}"):
                found.append(f"/dev/{name}")
    return found


def names_in(spec: str) -> tuple[str, ...]:
    """The devices of a CDI spec, in YAML as nvidia-ctk writes it or in JSON."""
    return tuple(re.findall(r"""^ {4,8}(?:- )?"?name"?: "?([^"\n,]+)"?,?$""", spec, re.MULTILINE))


def read_refresh(module: AnsibleModule, tree: Tree, loaded: bool) -> toolkit.Refresh:
    """What the driver says now beside what the spec says."""
    if not tree.exists(CTK):
        return toolkit.Refresh(stale="there is no CDI spec yet")
    if not loaded:
        return toolkit.Refresh(problem="the driver is not loaded")
    settings = settings_of(tree.text(SETTINGS))
    path = settings.get(OUTPUT, toolkit.SPEC)
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, os.path.basename(path))
        rc, _out, err = module.run_command([CTK, "cdi", "generate"], environ_update={**settings, OUTPUT: made})
        if rc != 0 or not os.path.exists(made):
            return toolkit.Refresh(problem=(err.strip().splitlines() or [f"nvidia-ctk ended with {rc}"])[-1])
        now = Tree("/").text(made)
    links = missing_links(tree)
    stale = ""
    if tree.text(path) != now:
        stale = f"{path} was not as the driver says" if tree.exists(path) else f"there was no {path}"
    elif links:
        stale = f"/dev/char had no links to {', '.join(links)}"
    return toolkit.Refresh(stale=stale, devices=names_in(now))


def read_available(url: str, architecture: str) -> list[str]:
    """The versions that the repository has of all four packages; none when it cannot be asked, and apt will say why."""
    address = f"{url.replace('$(ARCH)', architecture).rstrip('/')}/Packages"
    try:
        with open_url(address, timeout=30, http_agent="rigwright") as answer:
            text = answer.read().decode("utf-8", errors="replace")
    except (urllib.error.URLError, OSError, ValueError):
        return []
    versions: dict[str, set[str]] = {}
    for block in text.split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in block.splitlines() if not line.startswith(" "))
        versions.setdefault(fields.get("Package", ""), set()).add(fields.get("Version", ""))
    return sorted(set.intersection(*(versions.get(name, set()) for name in toolkit.PACKAGES)))


def package_records(tree: Tree) -> dict[str, Record]:
    """What is remembered of each path of the set of files that goes before the packages."""
    return Store(PACKAGE_SET, tree.at(STORE)).load()


def read_host(module: AnsibleModule) -> toolkit.Host:
    """:raises ValueError: the role's own record is damaged."""
    tree = Tree(ROOT)
    driver = read_driver(tree)
    brought = tree.text(toolkit.BROUGHT)
    paths = [SOURCES_LIST, *(f"{SOURCES_PARTS}/{name}" for name in tree.names(SOURCES_PARTS))]
    return toolkit.Host(
        packages=parse_status(tree.text(STATUS)),
        sources={path: tree.text(path) for path in paths if path.endswith((".list", ".sources"))},
        put_away=[
            path
            for path, record in package_records(tree).items()
            if path.startswith(SOURCES_PARTS) and not record.written
        ],
        driver_loaded=driver["loaded"],
        driver_library=driver["library"],
        daemon_json=tree.text(DAEMON_JSON),
        part=tree.text(toolkit.PART),
        docker=read_docker(),
        refresh=read_refresh(module, tree, bool(driver["loaded"])),
        service_enabled=tree.exists(f"/etc/systemd/system/multi-user.target.wants/{toolkit.SERVICE}"),
        settings_there=tree.exists(toolkit.RUNTIME_FOLDER),
        brought=json.loads(brought) if brought else None,
        docker_comes=module.check_mode and bool(module.params["planned"].get("docker")),
        driver_comes=module.check_mode and bool(module.params["planned"].get("driver")),
    )


def read_key(wanted: t.Sequence[str]) -> str:
    """The keys of the key file, written anew, if it holds these and nothing else."""
    try:
        keys = parse_keys(Tree(ROOT).bytes(toolkit.KEY))
    except Invalid:
        return ""
    right = sorted(keys.fingerprints) == sorted(one.replace(" ", "").upper() for one in wanted)
    return armored(keys.packets) if right else ""


def package_files_due(plan: toolkit.Plan, key: str) -> bool:
    """Whether the set of files that goes before the packages is another one than lies there."""
    tree = Tree(ROOT)
    wanted = {entry["path"]: entry["content"] for entry in plan.package_files if "content" in entry}
    gone = [entry["path"] for entry in plan.package_files if "content" not in entry]
    files = {path for path, record in package_records(tree).items() if record.written}
    return (
        not key
        or tree.text(toolkit.KEY) != key
        or files != {*wanted, toolkit.KEY}
        or any(tree.text(path) != content for path, content in wanted.items())
        or any(tree.exists(path) for path in gone)
    )


def main() -> None:
    repository = {
        "url": {"type": "str"},
        "key_url": {"type": "str", "no_log": False},
        "fingerprints": {"type": "list", "elements": "str"},
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "version": {"type": "str", "required": True},
            "hold": {"type": "bool", "default": False},
            "repository": {"type": "dict", "required": True, "options": repository},
            "architecture": {"type": "str", "default": "amd64"},
            "mode": {
                "type": "str",
                "choices": [toolkit.AUTO, toolkit.CDI, toolkit.LEGACY],
                "default": toolkit.AUTO,
            },
            "allow_disruption": {"type": "bool", "default": False},
            "planned": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        host = read_host(module)
    except (ValueError, KeyError, TypeError) as error:
        module.fail_json(
            msg=f"{toolkit.BROUGHT}, which the role wrote itself, is damaged ({error}): restore or remove it. Nothing was changed."
        )
    present = params["state"] == "present"
    plan = toolkit.plan_present(host, params) if present else toolkit.plan_absent(host, params)
    if plan.install and not plan.requirements:
        available = read_available(params["repository"]["url"], params["architecture"])
        plan = toolkit.plan_present(dataclasses.replace(host, available=available), params)
    key = read_key(params["repository"]["fingerprints"]) if present else ""
    module.exit_json(
        changed=False,
        **dataclasses.asdict(plan),
        key=key,
        package_files_due=package_files_due(plan, key),
        devices=list(host.refresh.devices),
    )


if __name__ == "__main__":
    main()
