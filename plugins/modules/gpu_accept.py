#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_accept
short_description: Measure GPUs, and judge them by their own clocks, units and links
description:
  - Each GPU multiplies matrices, copies its memory and transfers data over PCIe, one GPU after the other. Meanwhile the module samples
    clocks, power, temperature and clock event reasons ten times a second.
  - Then all GPUs run at once. Most of their free memory is filled with patterns and compared. Two or more are loaded together, copy to
    each other, and add up numbers through NCCL. Each GPU has its own process. A process that hangs is killed, and its GPU has failed.
  - Judges products by multiprocessors and the clock under load, copies by the memory's clock and bus, PCIe by the link under load. A
    GPU that is held back by heat or by its power supply has another verdict than one that is slow at a good clock.
  - Compares every product with the first one, bit by bit, and the first one with double precision. Reads counters of ECC, rows and PCIe
    and the kernel's log before and after.
  - Keeps the figures of a GPU that passed as its baseline, and compares later runs with it.
  - Needs nvidia-ml-py, and any Python of the host with PyTorch and CUDA. Without PyTorch nothing is measured, and nothing passes.
  - A GPU that is in use, divided by MIG, or lost is not measured.
  - Shows how many GPUs it measures and about how long it takes, and a line for each part of the measurement.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - It measures in check mode, too, since it changes no setting. It writes no baseline then.
  diff_mode:
    support: full
    details:
      - The diff shows the baselines.
options:
  gpus:
    description:
      - GPUs to measure, by UUID, PCI address or index. Empty measures all.
    type: list
    elements: str
    default: []
  python:
    description:
      - An interpreter that has PyTorch with CUDA.
    type: path
    default: python3
  user:
    description:
      - The user that runs the interpreter, if the module runs as root.
    type: str
    default: nobody
  quick:
    description:
      - Five seconds of warm-up and windows of two, instead of 30 and ten. The card is then still warming up.
    type: bool
    default: false
  warm_up_s:
    description:
      - Seconds of load before the measurement, 3600 at most. 30, or 5 with O(quick), unless given.
    type: float
  window_s:
    description:
      - Seconds of each window, 0.5 to 3600. 10, or 2 with O(quick), unless given. PCIe is measured for one second at most.
    type: float
  windows:
    description:
      - Windows of each test, 1000 at most. The median counts.
    type: int
    default: 3
  minutes:
    description:
      - Minutes of burn-in after the measurement - products and copies in turn, with every result compared. 0 omits it, 10080 (a week)
        is the most.
    type: float
    default: 0
  memory_share:
    description:
      - Part of the free memory that is filled with patterns and compared word by word. 0 omits it.
    type: float
    default: 0.9
  baseline:
    description:
      - V(keep) compares with the baseline, and writes one for a GPU that passed and has none.
      - V(renew) replaces it by this run's figures if the GPU passed.
      - V(ignore) neither reads nor writes a baseline.
    type: str
    choices: [keep, renew, ignore]
    default: keep
  progress_file:
    description:
      - File to which lines of progress are added. Set by the action of this name, which shows them.
    type: path
  directory:
    description:
      - Directory of the baselines, one file for each UUID. It is refused where users other than root may write in it or above it.
    type: path
    default: /var/lib/rigwright_gpu_accept
seealso:
  - name: NVIDIA DCGM diagnostics
    description: Another test, with floors by model.
    link: https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/dcgm-diagnostics.html
"""

EXAMPLES = r"""
- name: Measure all GPUs, each for almost five minutes
  rigwright.workstation.gpu_accept:
    python: /opt/conda/envs/torch/bin/python
  register: accept

- name: Record findings
  rigwright.workstation.finding:
    findings: "{{ accept.findings }}"

- name: Burn in one GPU for an hour
  rigwright.workstation.gpu_accept:
    python: /opt/conda/envs/torch/bin/python
    gpus: ["0000:41:00.0"]
    minutes: 60
"""

RETURN = r"""
verdict:
  description: The worst of all GPUs, in the order V(passed), V(slower), V(power), V(cooling), V(hardware), V(not_measured).
  returned: success
  type: str
  sample: passed
gpus:
  description: The report of each GPU.
  returned: success
  type: list
  elements: dict
  contains:
    index:
      description: NVML's index.
      type: int
    uuid:
      description: Its UUID. Null for a GPU that is lost.
      type: str
    name:
      description: Its model.
      type: str
    pci_address:
      description: Its PCI address.
      type: str
    verdict:
      description:
        - V(passed) - no problem. RV(gpus[].notes) lists what could not be judged.
        - V(slower) - more than 5 % below its baseline, or a clock below 60 % of the highest one without a reason.
        - V(power) - the power brake, or its hardware without a reason, held it back.
        - V(cooling) - heat held it back, or it is more than 8 degrees Celsius warmer than its baseline at equal power.
        - V(hardware) - slow at a good clock, a wrong result, memory that does not keep a pattern, a counter that rose, an Xid, a PCIe link
          below the capability of card and slot, or a program that hangs.
        - V(not_measured) - there are no figures, or not of all tests. RV(gpus[].problems) has the reason.
      type: str
    problems:
      description: The problems - C(verdict), C(test), C(evidence), C(next_step).
      type: list
      elements: dict
    notes:
      description: What could not be judged or compared, and other remarks.
      type: list
      elements: str
    tests:
      description:
        - For C(matmul_bf16), C(matmul_fp16), C(matmul_fp32), C(matmul_tf32), C(matmul_fp8), C(matmul_fp64) (C(tflops)), as far as the card
          has them, and C(copy), C(h2d), C(d2h) and both ways at once in C(h2d_d2h) (C(gb_s), 10^9 bytes a second) - C(value) (median),
          C(values), C(unit), C(ceiling), C(efficiency), C(clock_mhz), C(memory_clock_mhz), C(power_w) (mean), C(temperature_c) (highest),
          C(thermal_share), C(power_brake_share), C(hw_slowdown_share) and C(low_clock_share) of the samples, C(reasons), C(samples),
          C(pcie_generation), C(pcie_width), C(wrong).
        - A value that the card does not report is null.
      type: dict
    checksums:
      description: SHA-256 of the first product of each kind, the same on all healthy GPUs of a model with the same PyTorch.
      type: dict
    driver:
      description: Version of the driver.
      type: str
    torch:
      description: Version of PyTorch. Null for a GPU that was not measured, as are the next four.
      type: str
    side:
      description: Rows and columns of the matrices.
      type: int
    power_limit_w:
      description: The power limit in force, in watts.
      type: float
    warm_up_s:
      description: Seconds of warm-up.
      type: float
    window_s:
      description: Seconds of a window.
      type: float
    burn_in_windows:
      description: Windows of the burn-in.
      type: int
    memory_test:
      description:
        - The memory that was filled with patterns - C(free_bytes), C(tested_bytes), C(share), C(patterns), C(seconds), C(gb_s),
          C(wrong) words, and the C(first) of them with pattern, offset, address, expected and found value, and the bits that differ.
          Null where it was omitted.
      type: dict
    together:
      description:
        - The rates while all GPUs are loaded, as in RV(gpus[].tests), with the rate C(alone) and the C(share) of it. Empty with one GPU.
      type: dict
  sample:
    - index: 0
      uuid: GPU-8f2c1a90-5d3e-4b7a-9c61-2e0f4d7b8a15
      name: NVIDIA H200
      pci_address: "0000:41:00.0"
      verdict: passed
      problems: []
      notes: []
      tests: {copy: {value: 4300.0, unit: gb_s, ceiling: 4814.3, efficiency: 0.8932, wrong: 0}}
links:
  description: The measurements between GPUs.
  returned: success
  type: dict
  contains:
    verdict:
      description: The worst verdict.
      type: str
    pairs:
      description:
        - Copies from each GPU to each other GPU - C(gpus) (NVML's indices, from and to), C(link) (V(nvlink) or V(pcie)), C(peer_access),
          C(gb_s), C(latency_us) of a copy of four bytes, C(ceiling), C(efficiency) and C(wrong).
      type: list
      elements: dict
    all_reduce:
      description:
        - NCCL's sum over all GPUs, with C(gb_s) calculated as the bus bandwidth of nccl-tests. Null where it was not measured.
      type: dict
    problems:
      description: As RV(gpus[].problems).
      type: list
      elements: dict
    skipped:
      description: The reasons why C(pairs) or C(all_reduce) were not measured.
      type: dict
  sample:
    verdict: passed
    pairs: []
    all_reduce: null
    problems: []
    skipped: {pairs: "1 GPU could be measured, and it takes two", all_reduce: "1 GPU could be measured, and it takes two"}
findings:
  description:
    - One finding for each GPU, one for copies between them and one for the all-reduce, as M(rigwright.workstation.finding) takes them.
    - V(slower) and V(not_measured) are warnings. Tests that need two GPUs, or NCCL, are skipped without them.
  returned: success
  type: list
  elements: dict
  sample:
    - id: gpu_accept.GPU-8f2c1a90-5d3e-4b7a-9c61-2e0f4d7b8a15
      status: pass
      evidence: "NVIDIA H200, passed: copy 4300 gb_s (89%)"
      remedy: ""
"""

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import open_problem
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import request, run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml, respawn_where_needed
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal


def main() -> None:
    module = HostModule(
        argument_spec={
            "gpus": {"type": "list", "elements": "str", "default": []},
            "python": {"type": "path", "default": "python3"},
            "user": {"type": "str", "default": "nobody"},
            "quick": {"type": "bool", "default": False},
            "warm_up_s": {"type": "float"},
            "window_s": {"type": "float"},
            "windows": {"type": "int", "default": 3},
            "minutes": {"type": "float", "default": 0},
            "memory_share": {"type": "float", "default": 0.9},
            "baseline": {"type": "str", "choices": ["keep", "renew", "ignore"], "default": "keep"},
            "progress_file": {"type": "path"},
            "directory": {"type": "path", "default": "/var/lib/rigwright_gpu_accept"},
        },
        supports_check_mode=True,
    )
    respawn_where_needed(module)
    try:
        request.validate(module.params)
        if module.params["baseline"] != "ignore":
            problem = open_problem([module.params["directory"]], "directory")
            if problem:
                raise Refusal(problem)
        with Nvml() as nvml:
            result = run.run(module, nvml)
    except Refusal as error:
        module.fail_json(msg=f"{error}. Nothing was measured.")
    except NvmlError as error:
        module.fail_json(msg=str(error), **error.as_result())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
