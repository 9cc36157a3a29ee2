#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_plan
short_description: Plan the NVIDIA driver of a host, and see whether it is as planned
description:
  - Reads GPUs, kernels, packages and what is loaded (M(rigwright.workstation.gpu_host_info)), chooses source, branch, module flavour and
    scope where nobody has, asks C(apt-get --simulate) what the change would come to, and returns what makes the host so, for
    M(rigwright.workstation.require), M(rigwright.workstation.nvidia_driver_packages), M(rigwright.workstation.config_files) and
    M(rigwright.workstation.systemd_units). Changes nothing itself.
  - Which driver serves which GPU is data of the collection (C(docs/gpu_data.md)).
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
  - rigwright.workstation.nvidia_repository
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  state:
    description: Whether the host has the driver, or what the role brought is given back.
    type: str
    choices: [present, absent]
    default: present
  host_name:
    description: What the host is called in messages.
    type: str
    default: this host
  source:
    description: Where packages come from.
    type: str
    default: auto
  branch:
    description: Driver branch.
    type: str
    default: auto
  modules:
    description: Open or closed kernel modules.
    type: str
    default: auto
  scope:
    description: For computing alone, or for a desktop as well.
    type: str
    default: auto
  gpus:
    description: PCI device ids to plan for instead of the cards that are there.
    type: list
    elements: str
    default: []
  toolkits:
    description: CUDA versions that have to run.
    type: list
    elements: str
    default: []
  lock:
    description: Whether driver, libraries and kernel are held as one.
    type: bool
    default: true
  upgrade:
    description: Whether the newest release of the branch, and the newest kernel, are installed. Refreshes apt's lists but in check mode.
    type: bool
    default: false
  interrupt:
    description: Whether the driver may change while programs use the GPU.
    type: bool
    default: false
  ignore_build_failures:
    description: Whether a driver that is known not to build for the kernel is tried.
    type: bool
    default: false
  free_bytes:
    description: Room that a change needs, in bytes.
    type: int
    default: 10737418240
  module_options:
    description: Options of the kernel module.
    type: dict
    default: {}
  mok_password:
    description: Password with which a person confirms the signing key at the console.
    type: str
    default: ""
notes:
  - Run it as root. Another user cannot see who has the GPU open.
seealso:
  - module: rigwright.workstation.gpu_host_info
  - module: rigwright.workstation.nvidia_driver_packages
"""

EXAMPLES = r"""
- name: Plan branch 580
  rigwright.workstation.nvidia_driver_plan:
    branch: "580"
  register: plan

- name: Refuse what cannot work
  rigwright.workstation.require:
    that: "{{ plan.requirements }}"
"""

RETURN = r"""
source:
  description: Where the driver comes from.
  returned: always
  type: str
  sample: cuda_repository
branch:
  description: Its branch, 0 where none can serve.
  returned: always
  type: int
  sample: 580
modules:
  description: Its kernel modules.
  returned: always
  type: str
  sample: open
scope:
  description: What it is for.
  returned: always
  type: str
  sample: compute
reasons:
  description: Why each of them.
  returned: always
  type: list
  elements: str
  sample: ["branch 580: long term branch, supported until 2028-06"]
requirements:
  description: What has to be so, as M(rigwright.workstation.require) takes it.
  returned: always
  type: list
  elements: dict
  sample: [{ok: false, variable: nvidia_driver_branch, problem: "is 42, which is unknown", remedy: "use one of auto, 580"}]
repository:
  description: What M(rigwright.workstation.cuda_repository) takes, empty when it is not needed.
  returned: always
  type: dict
  sample: {directory: debian13, architecture: x86_64}
change:
  description: The transaction, as M(rigwright.workstation.nvidia_driver_packages) takes it, empty when there is none.
  returned: always
  type: dict
  sample: {branch: 580, install: [nvidia-driver-pinning-580, nvidia-driver-cuda], remove: []}
shown:
  description: The packages before and after, a line each.
  returned: always
  type: dict
  sample: {before: "", after: "nvidia-driver-cuda 580.159.04-1\n"}
going:
  description: Packages that go with the role.
  returned: always
  type: list
  elements: str
  sample: []
pending:
  description: Whether packages or holds are not yet as planned, or dpkg has to finish some first.
  returned: always
  type: bool
  sample: true
unsettled:
  description: Whether an earlier change was cut short, waits for its proof since before a reboot, or dpkg has to finish packages first.
  returned: always
  type: bool
  sample: false
unfinished:
  description: Packages that dpkg has begun with and not finished. Those of the driver always, others where apt would come to them as well.
  returned: always
  type: list
  elements: str
  sample: []
source_files:
  description: The source of the archive's components, as M(rigwright.workstation.config_files) takes it, in place before packages change.
  returned: always
  type: list
  elements: dict
  sample: []
source_pending:
  description: Whether that source is not yet as planned.
  returned: always
  type: bool
  sample: false
directories:
  description: The directories that the files need.
  returned: always
  type: list
  elements: dict
  sample: []
files:
  description: What apt, its helpers and the persistence daemon are told once the packages are as planned.
  returned: always
  type: list
  elements: dict
  sample: [{path: /etc/apt/apt.conf.d/52rigwright-nvidia-driver, content: "Unattended-Upgrade::Package-Blacklist {};\n"}]
modprobe_files:
  description: What modprobe is told, as M(rigwright.workstation.config_files) takes it.
  returned: always
  type: list
  elements: dict
  sample: [{path: /etc/modprobe.d/rigwright-nvidia-driver.conf, content: "blacklist nouveau\n"}]
initramfs_kernel:
  description: The kernel that boots next, whose initramfs holds a copy of what modprobe is told; empty when it has none.
  returned: always
  type: str
  sample: 6.1.0-32-amd64
units:
  description: Units, as M(rigwright.workstation.systemd_units) takes them.
  returned: always
  type: list
  elements: dict
  sample: [{name: nvidia-persistenced.service, enabled: true}]
secure_boot:
  description: V(off), V(signed), V(enrolled), V(pending), or V(enroll) when the key has to be handed to the firmware.
  returned: always
  type: str
  sample: "off"
mok_certificate:
  description: The certificate of the key that signs the module, empty when there is none.
  returned: always
  type: str
  sample: /var/lib/dkms/mok.pub
gpus:
  description: How many NVIDIA GPUs there are.
  returned: always
  type: int
  sample: 1
reboot:
  description: Why a reboot is due.
  returned: always
  type: list
  elements: str
  sample: [driver 570.195.03 is loaded and will be replaced]
findings:
  description: What is left to do, as M(rigwright.workstation.finding) takes it.
  returned: always
  type: list
  elements: dict
  sample: [{id: nvidia_driver.reboot, status: pass, evidence: no reboot is due, remedy: ""}]
proofs:
  description: What the role promises, and whether it is so.
  returned: always
  type: list
  elements: dict
  sample: [{id: nvidia_driver.matches, status: pass, evidence: "module 580.159.04, libraries 580.159.04", remedy: ""}]
"""

import dataclasses
import platform
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._apt import components as archive
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import (
    EXTENDED_STATES,
    STATUS,
    parse_automatic,
    parse_status,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import driver_change as change
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import driver_plan as plan
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import facts as gpu
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_facts import (
    REPOSITORY_OPTIONS,
    repository_at,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_choice import (
    Request,
    in_use,
    plan_driver,
)

ROOT = "/"
PERSISTENCE_UNITS = [f"{where}/{plan.PERSISTENCE}" for where in ("/usr/lib/systemd/system", "/lib/systemd/system")]

# Options of the module that plan_driver takes under the same name.
REQUEST = (
    *("source", "branch", "modules", "scope", "gpus", "toolkits", "lock", "interrupt", "ignore_build_failures"),
    *("free_bytes", "host_name"),
)


class Reader:
    """What the plan is made from."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: dict[str, t.Any] = module.params
        self.tree = Tree(ROOT)

    def run(self, command: t.Sequence[str]) -> tuple[int, str, str]:
        rc, out, err = self.module.run_command(list(command), environ_update=change.ENVIRONMENT)
        return rc, out, err

    def look(self) -> tuple[plan.Seen, change.Change | None]:
        if self.params["upgrade"] and not self.module.check_mode:
            # What is newest, apt knows only of lists that are.
            self.run(["apt-get", "update", "--quiet"])
        facts = gpu.gather(self.tree, lambda names: self.run(["apt-cache", "policy", *names])[1])
        try:
            record = change.Record.load(self.tree)
        except change.Stuck as error:
            self.module.fail_json(msg=f"{error}.")
        request = {key: self.params[key] for key in REQUEST} | {"own_holds": record.held}
        planned = plan_driver(facts, request)
        wanted = plan.change_of(facts, planned, self.params["upgrade"]) if self.params["state"] == "present" else None
        simulation = None
        if wanted and plan.has_lists(facts, planned):
            simulation = change.simulate(self.run, self.tree, wanted)
            if not simulation.error and not simulation.install and not simulation.remove:
                wanted = None
        seen = plan.Seen(
            facts=facts,
            plan=planned,
            record=record,
            request=Request.from_dict(request),
            boot=self.tree.text(change.BOOT_ID).strip(),
            simulation=simulation,
            packages=parse_status(self.tree.text(STATUS)),
            automatic=parse_automatic(self.tree.text(EXTENDED_STATES)),
            unfinished=gpu.read_unfinished(self.tree),
            persistence_unit=next(filter(None, map(self.tree.text, PERSISTENCE_UNITS)), ""),
        )
        return seen, wanted

    def components_source(self, seen: plan.Seen) -> str | None:
        """The source of the archive's components that hold the driver, where one is missing."""
        if not seen.plan.components:
            return None
        _rc, out, _err = self.run(archive.COMMAND)
        targets = archive.parse_targets(out)
        return archive.component_source(
            targets, seen.facts["system"]["distribution"], seen.plan.components, plan.ARCHIVE_SOURCE
        )

    def repository(self, seen: plan.Seen) -> dict[str, str]:
        """What the module cuda_repository takes."""
        planned = seen.plan.repository
        if not planned or seen.plan.refused:
            return {}
        architecture = planned["architectures"].get(platform.machine(), "x86_64")
        return repository_at(planned["directory"], architecture, planned["keyring_sha256"], self.params["repository"])

    def differ(self, path: str, files: t.Iterable[t.Mapping[str, str]]) -> bool:
        """Whether a file is not as planned; one that is not planned must not be there."""
        return self.tree.text(path) != next((row["content"] for row in files if row["path"] == path), "")

    def initramfs_kernel(self, seen: plan.Seen) -> str:
        """The kernel that boots next, when it does so from an initramfs."""
        release = str(seen.kernel.get("release", ""))
        there = self.tree.exists(change.UPDATE_INITRAMFS) and self.tree.exists(f"/boot/initrd.img-{release}")
        return release if there else ""


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "host_name": {"type": "str", "default": "this host"},
            "source": {"type": "str", "default": "auto"},
            "branch": {"type": "str", "default": "auto"},
            "modules": {"type": "str", "default": "auto"},
            "scope": {"type": "str", "default": "auto"},
            "gpus": {"type": "list", "elements": "str", "default": []},
            "toolkits": {"type": "list", "elements": "str", "default": []},
            "lock": {"type": "bool", "default": True},
            "upgrade": {"type": "bool", "default": False},
            "interrupt": {"type": "bool", "default": False},
            "ignore_build_failures": {"type": "bool", "default": False},
            "free_bytes": {"type": "int", "default": data.FREE_BYTES},
            "module_options": {"type": "dict", "default": {}},
            "mok_password": {"type": "str", "default": "", "no_log": True},
            "repository": {"type": "dict", "default": {}, "options": REPOSITORY_OPTIONS},
        },
        supports_check_mode=True,
    )
    params = module.params
    reader = Reader(module)
    seen, wanted = reader.look()
    planned, record = seen.plan, seen.record
    absent = params["state"] == "absent"
    going = plan.leaving(seen) if absent else []
    half_done = [] if absent else plan.to_complete(seen, wanted)
    loose = set(seen.locked) - set(seen.facts["holds"]) if params["lock"] else set(record.held)
    reboot = plan.reboot_reasons(seen, None if absent else wanted)
    requirements, pending = plan.requirements(seen, wanted, params), bool(wanted or loose or half_done)
    if absent:
        requirements = [in_use(seen.facts, params["interrupt"])] if going or record.replaced else []
        pending = bool(record.baseline or record.brought or record.held)
    sources, files, modprobe = [], [], []
    if not absent and not planned.refused:
        sources = plan.source_files(reader.components_source(seen))
        files = plan.apt_files(seen, params["lock"])
        if seen.built or wanted:
            files += plan.persistence_files(seen)
        modprobe = plan.modprobe_files(seen, wanted, params["module_options"])
    module.exit_json(
        changed=False,
        source=planned.source,
        branch=planned.branch,
        modules=planned.modules,
        scope=planned.scope,
        reasons=planned.reasons,
        requirements=requirements,
        repository=reader.repository(seen),
        change=dataclasses.asdict(wanted) if wanted else {},
        shown=plan.transaction_lines(seen, wanted),
        going=going,
        pending=pending,
        unsettled=record.is_unsettled(seen.boot) or bool(half_done),
        unfinished=half_done,
        source_files=sources,
        source_pending=reader.differ(plan.ARCHIVE_SOURCE, sources),
        directories=plan.directories(files),
        files=files,
        modprobe_files=modprobe,
        initramfs_kernel=reader.initramfs_kernel(seen),
        units=plan.units(seen),
        secure_boot=planned.secure_boot,
        mok_certificate=seen.facts["secure_boot"]["certificate"],
        gpus=len(seen.facts["gpus"]),
        reboot=reboot,
        findings=plan.findings(seen, wanted, reboot),
        proofs=plan.proofs(seen, wanted, reboot, params["lock"]),
    )


if __name__ == "__main__":
    main()
