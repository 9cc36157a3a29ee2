#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_host_info
short_description: Gather facts about GPUs and driver of a host, and about what a change of driver depends on
description:
  - Reads files below C(/proc), C(/sys), C(/boot), C(/var/lib) and C(/etc). It needs no driver, and the only program that it
    runs is C(apt-cache policy), of the sources and of packages.
  - An unknown value is empty, or null for a boolean.
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
  root:
    description:
      - Read the system below this directory, one that is mounted there for example. Its processes are then not those of this host.
    type: path
    default: /
notes:
  - Run it as root. Another user cannot see the variables of EFI, nor who has the GPU open.
"""

EXAMPLES = r"""
- name: Gather facts about GPUs, driver and kernels
  rigwright.workstation.gpu_host_info:
  register: gpu_host

- name: Show when a reboot is due
  ansible.builtin.debug:
    msg: "The module is {{ gpu_host.driver.loaded }}, the libraries are {{ gpu_host.driver.library }}: reboot"
  when: gpu_host.driver.matches is false
"""

RETURN = r"""
month:
  description: Year and month at which this was read, as the end of a driver branch is compared with.
  returned: always
  type: str
  sample: "2026-11"
system:
  description: Name of the distribution, its version and codename.
  returned: always
  type: dict
  sample: {distribution: Debian, version: "13", codename: trixie}
gpus:
  description: NVIDIA's display controllers, by PCI address.
  returned: always
  type: list
  elements: dict
  sample:
    - address: "0000:01:00.0"
      name: "AD102 [GeForce RTX 4090]"
      kernel_driver: nvidia
      device_id: "2684"
      known: true
      chip: AD10x
      generation: Ada
      compute_capability: "8.9"
      mig: false
      bf16: true
  contains:
    name:
      description: The driver's name for the card, or that of C(pci.ids), or empty.
      type: str
    kernel_driver:
      description: The kernel driver that is bound, such as V(nvidia), V(nouveau) or V(vfio-pci), or empty.
      type: str
    known:
      description: Whether the id is in the collection's data. A card that is not counts as one of the newest generation.
      type: bool
nvswitch:
  description: Whether NVSwitch chips are there, which need the fabric manager.
  returned: always
  type: bool
driver:
  description: The driver that is loaded and the libraries that are installed.
  returned: always
  type: dict
  sample:
    loaded: 580.95.05
    modules: open
    libraries: {cuda: 580.95.05, nvidia-ml: 580.95.05}
    library: 580.95.05
    matches: true
    nouveau: false
  contains:
    loaded:
      description: Version of the loaded module, or empty.
      type: str
    modules:
      description: V(open) or V(closed), or empty when none is loaded.
      type: str
    libraries:
      description: Versions of C(libcuda) and C(libnvidia-ml).
      type: dict
    library:
      description: The version of C(libnvidia-ml), otherwise that of C(libcuda).
      type: str
    matches:
      description: Whether module and library are of one version, null where one of them is missing.
      type: bool
    nouveau:
      description: Whether nouveau is loaded.
      type: bool
holders:
  description: Processes that have C(/dev/nvidia*) open.
  returned: always
  type: list
  elements: dict
  sample: [{pid: 1421, command: python3, user: alice, devices: [/dev/nvidia0, /dev/nvidiactl]}]
secure_boot:
  description: Secure Boot, and the key with which DKMS signs modules.
  returned: always
  type: dict
  contains:
    state:
      description: V(enabled), V(disabled), V(unsupported) without EFI, or V(unknown) where its variables are not mounted.
      type: str
    certificate:
      description: The file with the key's certificate, or empty when there is none.
      type: str
    enrolled:
      description: Whether shim trusts the key.
      type: bool
    pending:
      description: Whether the key waits to be confirmed at the console, at the next boot.
      type: bool
  sample: {state: enabled, certificate: /var/lib/dkms/mok.pub, enrolled: false, pending: true}
module_obstacles:
  description: Settings that keep the driver's module from loading, in files of modprobe or on the kernel's command line.
  returned: always
  type: list
  elements: dict
  contains:
    setting:
      description: The line or the parameter.
      type: str
    file:
      description: The file that has it.
      type: str
  sample: [{setting: alias nvidia off, file: /lib/modprobe.d/blacklist-nvidia.conf}]
next_kernel:
  description: The kernel that boots next.
  returned: always
  type: dict
  contains:
    release:
      description: What C(uname -r) will say.
      type: str
    evidence:
      description: How sure that is. V(grub.cfg) is the entry that grub chooses, V(link) is C(/vmlinuz), V(highest) is a guess
        from C(/boot), V(running) stands for no kernel in C(/boot).
      type: str
  sample: {release: 6.12.107+deb13-amd64, evidence: grub.cfg}
kernels:
  description: The running kernel and the installed ones.
  returned: always
  type: list
  elements: dict
  contains:
    release:
      description: What C(uname -r) says.
      type: str
    upstream:
      description: The version of kernel.org, as far as the package or the kernel names it.
      type: str
    running:
      description: Whether it runs.
      type: bool
    next:
      description: Whether it boots next.
      type: bool
    headers:
      description: Whether modules can be built for it.
      type: bool
    headers_package:
      description: The package with its headers.
      type: str
    headers_available:
      description: Whether a configured source has that package.
      type: bool
    module:
      description: NVIDIA's module for it, below C(/lib/modules/<release>), or empty.
      type: str
    dkms:
      description: Builds of DKMS for it; C(state) is V(installed), V(built) or V(failed), with C(log) and its first C(error).
      type: list
      elements: dict
packages:
  description: Installed packages of NVIDIA, CUDA and the kernel.
  returned: always
  type: dict
  sample: {nvidia-driver: {version: 550.163.01-2, hold: false, status: installed, origin: archive}}
package_source:
  description:
    - Where the driver comes from. V(none), V(archive), V(cuda_repository), V(other) for another repository, V(unknown) for one
      that no source has any more and no pin identifies, V(run) for a C(.run) file, or V(mixed).
    - V(foreign) stands for libraries of no package, such as those that a container gets from its host.
  returned: always
  type: str
available:
  description: The versions that apt's sources have of packages that a driver may consist of, and their origins.
  returned: always
  type: dict
  sample: {nvidia-open: [{version: 580.95.05-1, origins: [cuda_repository]}]}
holds:
  description: The packages that dpkg holds, whatever they are.
  returned: always
  type: list
  elements: str
pins:
  description: Preferences of apt for NVIDIA's packages.
  returned: always
  type: list
  elements: dict
  sample: [{file: /etc/apt/preferences.d/cuda-repository-pin-600, packages: "*", pin: "release l=NVIDIA CUDA", priority: 600}]
repositories:
  description: Sources of apt that are NVIDIA's CUDA repository.
  returned: always
  type: list
  elements: dict
  sample:
    - file: /etc/apt/sources.list.d/cuda-debian12-x86_64.list
      url: https://mirror.example/compute/cuda/repos/debian12/x86_64/
      directory: debian12
run_installer:
  description: What NVIDIA's C(.run) file has left.
  returned: always
  type: dict
  sample: {installed: true, version: 550.54.14, paths: [/usr/bin/nvidia-uninstall, /var/log/nvidia-installer.log]}
virtualization:
  description: V(container), V(vm) or V(none), with its name where it is known.
  returned: always
  type: dict
  sample: {kind: vm, name: KVM}
desktop:
  description: The display manager, and whether a graphical session is installed at all.
  returned: always
  type: dict
  sample: {display_manager: gdm3, present: true}
free_bytes:
  description: Bytes that root may still write.
  returned: always
  type: dict
  sample: {"/": 52818759680, "/boot": 52818759680, "/usr": 52818759680, "/var": 52818759680}
"""

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import facts as nvidia_facts


def main() -> None:
    module = HostModule(
        argument_spec={"root": {"type": "path", "default": "/"}},
        supports_check_mode=True,
    )
    root = module.params["root"]
    apt_cache = module.get_bin_path("apt-cache")

    def policy(names: list[str]) -> str:
        if apt_cache is None:
            return ""
        below = [] if root == "/" else ["-o", f"Dir={root}"]
        rc, out, _err = module.run_command([apt_cache, *below, "policy", *names])
        return out if rc == 0 else ""

    module.exit_json(changed=False, **nvidia_facts.gather(nvidia_facts.Tree(root), policy))


if __name__ == "__main__":
    main()
