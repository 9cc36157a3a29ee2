#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Gather facts of the GPUs of a host, their modes and their processes
description:
  - Reads all GPUs through NVML, by NVIDIA's own binding, and further facts from C(/proc), C(/sys) and CDI specs. It changes nothing.
  - A value that a card does not support is null, never 0. Names end with the unit, as in C(limit_w).
  - The module does not fail for a lost GPU, nor for a driver that is missing, not loaded, or was upgraded while an older one runs.
    RV(driver.problem) and RV(gpus[].problem) have a stable name and a next step. The facts of GPUs then come from the PCI bus, with the
    same keys.
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
      - The module changes nothing.
requirements:
  - nvidia-ml-py, in the Python that runs the module or in C(/opt/rigwright/python). Without it, RV(driver.problem) has the reason.
notes:
  - Run it as root. Other users cannot see the owners of processes, nor the environment of MPS.
  - In a container NVML lists no process outside of it, see RV(sees_all_processes).
seealso:
  - module: rigwright.workstation.gpu_host_info
  - module: rigwright.workstation.gpu_mode
"""

EXAMPLES = r"""
- name: Gather facts of GPUs
  rigwright.workstation.gpu_info:
  register: gpu

- name: Show why NVML does not answer
  ansible.builtin.debug:
    msg: "{{ gpu.driver.problem.nvml_error }}: {{ gpu.driver.problem.next_step }}"
  when: gpu.driver.problem is not none

- name: List the processes of the GPUs
  ansible.builtin.debug:
    msg: "{{ gpu.gpus | map(attribute='processes') | select | flatten }}"
"""

RETURN = r"""
gpus:
  description:
    - The GPUs in NVML's order, then those that only PCI shows, whose C(index) is null.
    - A value is null where the card or its driver does not have it.
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: NVML's number. It may change at a reboot.
      type: int
    uuid:
      description: The permanent name of the card.
      type: str
    name:
      description: The model by the driver, or by the PCI id.
      type: str
    pci_address:
      description: In the format of the kernel. A lost GPU has it where only one GPU is lost.
      type: str
    problem:
      description: The error of a GPU that does not answer, with C(nvml_error), C(function) and C(next_step). Null for other GPUs.
      type: dict
    unreadable:
      description: Single values that could not be read, with the error. Unsupported values are not listed.
      type: list
      elements: dict
    kernel_driver:
      description: The kernel driver that is bound, such as V(nvidia) or V(vfio-pci).
      type: str
    serial:
      description: Serial number of the board.
      type: str
    brand:
      description: NVML's brand, such as V(geforce), V(nvidia_rtx) or V(nvidia).
      type: str
    architecture:
      description: Such as V(ampere).
      type: str
    compute_capability:
      description: Such as V(9.0).
      type: str
    pci_device_id:
      description: Vendor and device, as in V(10de:2335).
      type: str
    pci_subsystem_id:
      description: Vendor and device of the board.
      type: str
    minor:
      description: The number in C(/dev/nvidia0).
      type: int
    numa_node:
      description: The NUMA node of the GPU. Null on a machine without NUMA.
      type: int
    cpu_affinity:
      description: The processors near the GPU, as a list of the kernel.
      type: str
    board_part:
      description: Part number of the board.
      type: str
    vbios:
      description: Version of the VBIOS.
      type: str
    inforom:
      description: Versions of the InfoROM and of its parts V(oem), V(ecc) and V(power).
      type: dict
    gsp_firmware:
      description: Version of the firmware of the GPU's own processor.
      type: str
    memory:
      description:
        - Bytes in total, reserved, used and free. Used bytes do not include reserved ones, unless C(reserved_bytes) is null.
        - Also the highest clock, the width of the bus, and the resulting bandwidth.
        - C(bar1) has the bytes of the window through which the host and other devices reach the memory.
      type: dict
    compute:
      description: >-
        Cores, SMs, the highest clock, and the dense peak by type of number (in C(peak_tflops)) from them. Data sheets often
        use a lower clock, which the card keeps under load.
      type: dict
    pcie:
      description: >-
        Generation and width; C(gpu_max_generation) is the card's own, C(max_generation) that of card and slot. Current values are lower
        while the card is idle. C(sent_kb_s) and C(received_kb_s) are the traffic of the last 20 ms.
      type: dict
    nvlink:
      description: >-
        Count of links, active ones, their version, and each link's state, speed and other end. C(sent_kib) and C(received_kib) are the
        payload of all links since the driver was loaded. Null for a card without links.
      type: dict
    fabric:
      description:
        - The state of the GPU in the fabric of a machine with NVSwitch; null for a GPU without a fabric, and before Hopper.
        - C(state) is V(not_started), V(in_progress) or V(completed), C(status) the fabric manager's result as NVML names it.
          C(health) and C(summary) show what is degraded, null where the driver does not report it. CUDA starts only on a completed fabric.
      type: dict
      sample: {state: completed, status: SUCCESS, clique: 0, summary: healthy}
    modes:
      description:
        - C(persistence), C(compute_mode) (V(default), V(exclusive_process), V(prohibited)), C(accounting) and C(display_active).
        - C(ecc) and C(mig) have C(current) and C(pending), C(ecc) also C(default), and are null where the card has no such mode.
          C(mig.resetless) - MIG can be switched without a reset.
      type: dict
    mig_devices:
      description: The compute instances of MIG with uuid, profile, ids, placement in slices of memory, SMs and memory.
      type: list
      elements: dict
    power:
      description: >-
        Draw and limits in watts. C(limit_w) is the configured limit, C(enforced_limit_w) the effective one. C(energy_j) are joules
        since the driver was loaded.
      type: dict
    clocks:
      description: >-
        Current and highest clocks, the performance state, and the reasons why clocks are not higher, such as V(idle), V(sw_power_cap),
        V(sw_thermal) or V(power_brake). NVML does not report locked clocks. C(locked_mhz) are the clocks that
        M(rigwright.workstation.gpu_mode) has locked since the driver was loaded, null without any. C(application_mhz) are the clocks of
        compute programs, C(default_application_mhz) their defaults.
      type: dict
    temperature:
      description: >-
        Degrees of GPU and memory, thresholds, and on newer cards the margin up to the slowdown with limits for it. A margin can be 0 or
        less.
      type: dict
    fans_percent:
      description: Speed of each fan. Null for a card without fans of its own.
      type: list
      elements: int
    utilization:
      description: >-
        Share of the time in which GPU, memory, encoder, decoder, and the engines for JPEG and optical flow were busy. Null within MIG.
      type: dict
    counters:
      description:
        - C(recovery_action) is the driver's own advice, such as V(none), V(reset) or V(reboot).
        - Remapped rows with the banks by their spare rows, retired pages, errors of ECC, SRAM, PCIe and NVLink (those of NVLink 5 in
          C(nvlink_5), null for an older one), pending repairs, and nanoseconds of throttling.
        - C(inforom_valid) - the checksums of the InfoROM are right.
        - C(ecc_locations) are the errors by location, C(sram) those of SRAM by kind and source.
      type: dict
    processes:
      description:
        - The processes of the GPU. C(kind) is V(compute), V(graphics), V(mps_server) or V(mps_client).
        - C(user) and C(command) are null for a process that is not visible.
        - C(sm_percent), C(memory_percent), C(encoder_percent) and C(decoder_percent) are its share in the latest sample, null without one.
      type: list
      elements: dict
    sharing:
      description: >-
        How programs share the GPU. C(mode) is V(time_slicing), V(mps), V(mig), V(exclusive) or V(prohibited); C(mps_servers) are
        process ids; C(slices) is the number of MIG devices.
      type: dict
  sample:
    - index: 0
      uuid: GPU-5a4bb6c2-8a6c-11ee-b9d1-0242ac120002
      name: NVIDIA H200
      pci_address: "0000:41:00.0"
      compute_capability: "9.0"
      memory: {total_bytes: 150754820096, reserved_bytes: 626847744, used_bytes: 0, free_bytes: 150127972352}
      modes: {persistence: true, compute_mode: default, ecc: {current: true, pending: true}}
      power: {draw_w: 76.2, limit_w: 700.0, min_limit_w: 200.0, max_limit_w: 700.0}
      processes: [{pid: 4242, kind: compute, memory_bytes: 536870912, user: alice, command: python3 train.py}]
      sharing: {mode: time_slicing, mps_servers: [], slices: 0}
      problem: null
topology:
  description: Each pair of GPUs (by their C(index)), the connection between them, and whether they can access each other's memory.
  returned: always
  type: list
  elements: dict
  sample: [{gpus: [0, 1], level: numa_node, p2p_read: ok, p2p_nvlink: ok}]
driver:
  description: The driver that is loaded and the libraries that are installed.
  returned: always
  type: dict
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
    nvml:
      description: Version of NVML, null where it does not answer.
      type: str
    cuda:
      description: The newest CUDA that the driver supports by itself.
      type: str
    problem:
      description: >-
        The error of NVML where it does not answer. C(nvml_error) is for example V(LIB_RM_VERSION_MISMATCH) after an upgrade without a
        reboot, V(DRIVER_NOT_LOADED), V(LIBRARY_NOT_FOUND) or V(BINDING_NOT_FOUND). Null where it answers.
      type: dict
  sample:
    loaded: 580.95.05
    modules: open
    libraries: {cuda: 590.48.01, nvidia-ml: 590.48.01}
    library: 590.48.01
    matches: false
    nouveau: false
    nvml: null
    cuda: null
    problem:
      nvml_error: LIB_RM_VERSION_MISMATCH
      function: nvmlInit
      next_step: >-
        the driver was upgraded while the old one is loaded: reboot, or end what uses the GPUs and load the module again
secure_boot:
  description: V(enabled), V(disabled), V(unsupported) without EFI, or V(unknown).
  returned: always
  type: str
  sample: disabled
services:
  description: Whether NVIDIA's daemons run.
  returned: always
  type: dict
  sample: {persistenced: true, fabricmanager: false, dcgm: false}
mps_daemons:
  description: Control daemons of MPS, with the directory of their pipes where it is visible and not the default.
  returned: always
  type: list
  elements: dict
  sample: [{pid: 911, user: root, pipe_directory: /run/nvidia-mps/vision}]
container_toolkit:
  description: >-
    Whether NVIDIA's Container Toolkit is installed, and the CDI specs for this driver with their age. C(matches) - the spec is for
    the loaded driver.
  returned: always
  type: dict
  sample:
    installed: true
    cdi_specs: [{path: /var/run/cdi/nvidia.yaml, age_seconds: 86400, driver: 580.95.05, matches: true}]
sees_all_processes:
  description: Whether process ids are the host's own, so that RV(gpus[].processes) has all of them.
  returned: always
  type: bool
  sample: true
"""

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import inventory as gpu_inventory
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml

ROOT = "/"


def main() -> None:
    module = HostModule(argument_spec={}, supports_check_mode=True)
    nvml.respawn_where_possible()
    module.exit_json(changed=False, **gpu_inventory.gather(Tree(ROOT)))


if __name__ == "__main__":
    main()
