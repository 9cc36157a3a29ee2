#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: smoke_test
short_description: Train a small network in environments and containers, and compare the GPUs that they see
description:
  - Hands a training program to interpreters of the host and to containers, one after the other, and says how each fared.
  - The program is read from standard input. Nothing is written to the host, and containers are gone afterwards. They have no network.
  - A program that is not done in time is ended, with all that it started.
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
      - Nothing is ever changed.
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
          - What it is called in findings.
        type: str
        required: true
      python:
        description:
          - Its interpreter, Python 3.9 or newer with PyTorch and scikit-learn.
        type: path
        required: true
      device:
        description:
          - V(auto) demands CUDA on a host that has an NVIDIA GPU, and takes the processor elsewhere.
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
          - What it is called in findings. Empty takes the image.
        type: str
        default: ""
      python:
        description:
          - The interpreter in the image.
        type: str
        default: python3
      device:
        description:
          - V(auto) demands CUDA on a host that has an NVIDIA GPU, and takes the processor elsewhere.
        type: str
        choices: [auto, cpu, cuda]
        default: auto
  device:
    description:
      - V(cuda) demands that the host has an NVIDIA GPU; V(cpu) leaves its GPUs alone.
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
      - How often the network sees every digit.
    type: int
    default: 20
  accuracy:
    description:
      - The share of the held-out digits that the network has to get right.
    type: float
    default: 0.95
  timeout_s:
    description:
      - Seconds that each place is given.
    type: int
    default: 300
  user:
    description:
      - The user as whom the program runs, if the module runs as root.
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

- name: Record the findings
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
  description: What the program says of itself in each place.
  returned: always
  type: list
  elements: dict
  contains:
    reason:
      description: Why it did not do what it was asked for. Empty when it did.
      type: str
    words:
      description: The words for it.
      type: str
    gpus:
      description: The GPUs that the CUDA driver shows a program there.
      type: list
      elements: dict
    accuracy:
      description: The share of the held-out digits that the network got right.
      type: float
    seconds_per_epoch:
      description: The median of the epochs.
      type: float
    peak_memory_bytes:
      description: The most memory that the process had.
      type: int
    peak_gpu_memory_bytes:
      description: The most that PyTorch took of the GPU's.
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

import contextlib
import dataclasses
import os
import pwd
import signal
import subprocess
import threading
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import training_smoke as smoke
from ansible_collections.rigwright.workstation.plugins.module_utils._system import pci

ROOT = "/"
# Of what a program writes: the account is one line, and a wrong program may never stop.
KEPT_BYTES = 65536
# A program ends itself at the limit; this much later it is ended, with what else was started.
GRACE_S = 20
# Answers of nvidia-smi and docker.
ANSWER_S = 60


def keep_end(pipe: t.IO[bytes], kept: bytearray) -> None:
    """Read until the end, and keep no more than the last words."""
    with contextlib.suppress(OSError):
        while True:
            piece = os.read(pipe.fileno(), KEPT_BYTES)
            if not piece:
                break
            kept += piece
            del kept[:-KEPT_BYTES]


def feed(pipe: t.IO[bytes], text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        pipe.write(text.encode())
    with contextlib.suppress(BrokenPipeError):
        pipe.close()


def execute(command: t.Sequence[str], seconds: float, text: str = "", **options: t.Any) -> smoke.Outcome:
    """Run a program to its end, or end it and its children at the limit.

    :raises OSError: it cannot be started.
    """
    # run_command has no limit of time, and ends no children.
    process = subprocess.Popen(  # pylint: disable=ansible-bad-function
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        start_new_session=True,
        **options,
    )
    kept = (bytearray(), bytearray())
    pipes = t.cast("tuple[t.IO[bytes], ...]", (process.stdin, process.stdout, process.stderr))
    threads = [
        threading.Thread(target=feed, args=(pipes[0], text), daemon=True),
        *(threading.Thread(target=keep_end, args=pair, daemon=True) for pair in zip(pipes[1:], kept)),
    ]
    for thread in threads:
        thread.start()
    limit = time.monotonic() + seconds
    in_time = False
    try:
        # Not reaped yet, it keeps the number of its group from being anybody else's.
        while not in_time and time.monotonic() < limit:
            time.sleep(0.05)
            in_time = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for thread in threads:
        thread.join(ANSWER_S)
    stdout, stderr = (bytes(words).decode(errors="replace") for words in kept)
    return smoke.Outcome(process.returncode if in_time else None, stdout, stderr)


def look_at_host() -> smoke.Host:
    devices = len(pci.nvidia_devices(Tree(ROOT), pci.DISPLAY))
    try:
        outcome = execute(["nvidia-smi", "-L"], ANSWER_S)
    except OSError as error:
        return smoke.Host(devices, words=f"nvidia-smi: {error.strerror}")
    if outcome.status != 0:
        return smoke.Host(devices, words=" ".join(f"{outcome.stdout} {outcome.stderr}".split()))
    listed, divided = smoke.read_listing(outcome.stdout)
    return smoke.Host(devices, listed, divided=divided)


class Runner:
    """Trains in one place after the other."""

    def __init__(self, params: dict[str, t.Any], user: pwd.struct_passwd, host: smoke.Host) -> None:
        self.params, self.user, self.host = params, user, host

    def train(self, place: smoke.Place) -> smoke.Account:
        p = self.params
        device = smoke.device_for(place, self.host)
        arguments = smoke.python_arguments(device, p["epochs"], p["accuracy"], p["timeout_s"])
        if place.kind == smoke.ENVIRONMENT:
            return self.train_in_environment(place, arguments)
        gpu_options = p["gpu_options"] if device == smoke.CUDA else []
        return self.train_in_container(place, gpu_options, arguments)

    def train_in_environment(self, place: smoke.Place, arguments: list[str]) -> smoke.Account:
        user = self.user
        own = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "CUDA_CACHE_DISABLE": "1"}
        options: dict[str, t.Any] = {"env": {**os.environ, **own}}
        if os.geteuid() == 0:
            groups = os.getgrouplist(user.pw_name, user.pw_gid)
            options.update(user=user.pw_uid, group=user.pw_gid, extra_groups=groups)
        try:
            outcome = self.run([place.python, *arguments], **options)
        except OSError as error:
            return {"reason": "no_interpreter", "words": f"{place.python}: {error.strerror} (as {user.pw_name})"}
        return smoke.account_of(place, outcome)

    def train_in_container(self, place: smoke.Place, gpu_options: list[str], arguments: list[str]) -> smoke.Account:
        try:
            daemon = execute(["docker", "version", "--format", "{{.Server.Version}}"], ANSWER_S)
        except OSError as error:
            return {"reason": "no_docker", "words": f"docker: {error.strerror}"}
        if daemon.status != 0:
            return {"reason": "no_docker", "words": " ".join(daemon.stderr.split())}
        if execute(["docker", "image", "inspect", place.image], ANSWER_S).status != 0:
            return {"reason": "no_image", "words": f"docker has no image {place.image}"}
        container = f"rigwright-smoke-test-{os.getpid()}"
        user = f"{self.user.pw_uid}:{self.user.pw_gid}"
        command = smoke.container_command(place, container, user, gpu_options, arguments)
        try:
            outcome = self.run(command)
        finally:
            # A client that was ended leaves its container running.
            execute(["docker", "rm", "--force", "--volumes", container], ANSWER_S)
        return smoke.account_of(place, outcome)

    def run(self, command: list[str], **options: t.Any) -> smoke.Outcome:
        return execute(command, self.params["timeout_s"] + GRACE_S, self.params["program"], **options)


def main() -> None:
    device = {"type": "str", "choices": list(smoke.DEVICES), "default": smoke.AUTO}
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
            # Kept out of the journal and of -vvv, where it would be most of what there is.
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
    params = module.params
    places = smoke.places(params["environments"], params["images"], params["device"])
    same = smoke.twice(places)
    if same:
        module.fail_json(msg=f"{', '.join(same)} is there twice: give each a `name` of its own. Nothing was run.")
    try:
        user = pwd.getpwnam(params["user"]) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    except KeyError:
        module.fail_json(msg=f"There is no user {params['user']}: set `user` to one that exists. Nothing was run.")
    host = look_at_host()
    runner = Runner(params, user, host)
    accounts = [(place, runner.train(place)) for place in places]
    findings = [smoke.judge(place, account) for place, account in accounts]
    findings.append(smoke.compare(host, accounts, params["gpu_options"], wanted=params["device"] == smoke.CUDA))
    module.exit_json(
        changed=False,
        host=dataclasses.asdict(host),
        places=[{"name": place.name, "kind": place.kind, **account} for place, account in accounts],
        findings=findings,
    )


if __name__ == "__main__":
    main()
