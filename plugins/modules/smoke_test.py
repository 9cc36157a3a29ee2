#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: smoke_test
short_description: Train a small network in environments and containers, and compare the GPUs that they see
description:
  - Runs a training program with interpreters of the host and in containers, one after the other, and returns the report of each.
  - The interpreter reads the program from standard input. The module writes nothing to the host. Containers have no network, and are
    removed at the end.
  - A program that exceeds its time limit is killed, with its children.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - It trains in check mode, too, since it changes nothing.
  diff_mode:
    support: none
    details:
      - The module changes nothing.
options:
  program:
    description:
      - The training program, C(train_digits.py) of the role C(smoke_test).
    type: str
    required: true
  environments:
    description:
      - Environments to train in.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description:
          - Its name in findings.
        type: str
        required: true
      python:
        description:
          - Its interpreter, Python 3.9 or newer with PyTorch and scikit-learn.
        type: path
        required: true
      device:
        description:
          - V(auto) requires CUDA on a host with an NVIDIA GPU, and uses the processor elsewhere.
        type: str
        choices: [auto, cpu, cuda]
        default: auto
  images:
    description:
      - Images of containers to train in. They are not pulled.
    type: list
    elements: dict
    default: []
    suboptions:
      image:
        description:
          - The image, as docker takes it.
        type: str
        required: true
      name:
        description:
          - Its name in findings. Empty uses the image.
        type: str
        default: ""
      python:
        description:
          - The interpreter in the image.
        type: str
        default: python3
      device:
        description:
          - V(auto) requires CUDA on a host with an NVIDIA GPU, and uses the processor elsewhere.
        type: str
        choices: [auto, cpu, cuda]
        default: auto
  device:
    description:
      - V(cuda) requires that the host has an NVIDIA GPU. V(cpu) uses no GPU.
    type: str
    choices: [auto, cpu, cuda]
    default: auto
  gpu_options:
    description:
      - Options of C(docker run) that give a container its GPUs.
    type: list
    elements: str
    default: [--device, nvidia.com/gpu=all]
  epochs:
    description:
      - Epochs of the training.
    type: int
    default: 20
  accuracy:
    description:
      - The share of the held-out digits that the network has to recognise.
    type: float
    default: 0.95
  timeout_s:
    description:
      - Time limit of each training in seconds.
    type: int
    default: 300
  user:
    description:
      - The user that runs the program, if the module runs as root.
    type: str
    default: nobody
"""

EXAMPLES = r"""
- name: Train in an environment and in a container
  rigwright.workstation.smoke_test:
    program: "{{ lookup('ansible.builtin.file', 'train_digits.py') }}"
    environments:
      - {name: torch, python: /opt/conda/envs/torch/bin/python}
    images:
      - {image: "lab/pytorch:2.9"}
  register: smoke_test

- name: Record findings
  rigwright.workstation.finding:
    findings: "{{ smoke_test.findings }}"
"""

RETURN = r"""
host:
  description: The host's NVIDIA GPUs, by the PCI bus and by C(nvidia-smi -L).
  returned: always
  type: dict
  sample: {devices: 1, listed: [GPU-8f2c1a90-5d3e-4b7a-9c61-2e0f4d7b8a15], words: "", divided: false}
places:
  description: The report of the program in each place.
  returned: always
  type: list
  elements: dict
  contains:
    reason:
      description: The reason of a failure. Empty for a training that succeeded.
      type: str
    words:
      description: The message of a failure.
      type: str
    gpus:
      description: The GPUs that the CUDA driver shows in this place.
      type: list
      elements: dict
    accuracy:
      description: The share of the held-out digits that the network recognised.
      type: float
    seconds_per_epoch:
      description: The median over the epochs.
      type: float
    peak_memory_bytes:
      description: The peak memory of the process.
      type: int
    peak_gpu_memory_bytes:
      description: The peak memory of PyTorch on the GPU.
      type: int
  sample:
    - name: torch
      kind: environment
      reason: ""
      words: ""
      device: cuda
      device_name: NVIDIA H100 80GB HBM3
      torch: 2.11.0+cu130
      cuda: "13.0"
      driver: CUDA_SUCCESS
      driver_cuda: "13.0"
      gpus: [{uuid: GPU-8f2c1a90-5d3e-4b7a-9c61-2e0f4d7b8a15, name: NVIDIA H100 80GB HBM3}]
      epochs: 20
      seconds_per_epoch: 0.03
      held_out: 359
      accuracy: 0.98
      peak_memory_bytes: 1288490188
      peak_gpu_memory_bytes: 18874368
findings:
  description: One for each place and one for the GPUs that they see, as M(rigwright.workstation.finding) takes them.
  returned: always
  type: list
  elements: dict
  sample: [{id: smoke_test.environment.torch, status: pass, evidence: "environment torch: PyTorch ...", remedy: ""}]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.request import AUTO, DEVICES


def main() -> None:
    device = {"type": "str", "choices": list(DEVICES), "default": AUTO}
    environment = {
        "name": {"type": "str", "required": True},
        "python": {"type": "path", "required": True},
        "device": device,
    }
    image = {
        "image": {"type": "str", "required": True},
        "name": {"type": "str", "default": ""},
        "python": {"type": "str", "default": "python3"},
        "device": device,
    }
    module = AnsibleModule(
        argument_spec={
            # The program is long: keep it out of the journal and of -vvv.
            "program": {"type": "str", "required": True, "no_log": True},
            "environments": {"type": "list", "elements": "dict", "default": [], "options": environment},
            "images": {"type": "list", "elements": "dict", "default": [], "options": image},
            "device": device,
            "gpu_options": {"type": "list", "elements": "str", "default": ["--device", "nvidia.com/gpu=all"]},
            "epochs": {"type": "int", "default": 20},
            "accuracy": {"type": "float", "default": 0.95},
            "timeout_s": {"type": "int", "default": 300},
            "user": {"type": "str", "default": "nobody"},
        },
        supports_check_mode=True,
    )
    try:
        result = run.run(module.params)
    except Refusal as error:
        module.fail_json(msg=f"{error}. Nothing was run.")
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
