# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The run of smoke_test: train in one place after the other, and compare the GPUs that each place sees."""

from __future__ import annotations

import os
import pwd
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import facts, findings, plan, process
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.request import (
    CUDA,
    ENVIRONMENT,
    Place,
    Request,
    duplicates,
    places,
)

# What a program of another user may have of root's environment: where programs and the GPU's libraries are. The rest may be secret.
_PUBLIC = re.compile(r"PATH|LD_LIBRARY_PATH|LANG|LANGUAGE|LC_\w+|TZ|(CUDA|NVIDIA|NCCL|CUDNN)_\w+|OMP_NUM_THREADS")


class Trainer:
    """Trains in one place after the other."""

    def __init__(self, params: Request, user: pwd.struct_passwd, host: facts.Host) -> None:
        self.params, self.user, self.host = params, user, host

    def train(self, place: Place) -> findings.Report:
        """Run the training program in a place, and return its report."""
        params = self.params
        device = plan.device_for(place, self.host)
        arguments = plan.python_arguments(device, params["epochs"], params["accuracy"], params["timeout_s"])
        if place.kind == ENVIRONMENT:
            return self.train_in_environment(place, arguments)
        gpu_options = params["gpu_options"] if device == CUDA else []
        return self.train_in_container(place, gpu_options, arguments)

    def train_in_environment(self, place: Place, arguments: list[str]) -> findings.Report:
        """Run the program with an interpreter of the host, as the user of the request."""
        user = self.user
        variables = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "CUDA_CACHE_DISABLE": "1"}
        given = (
            os.environ if os.geteuid() else {name: os.environ[name] for name in os.environ if _PUBLIC.fullmatch(name)}
        )
        options: process.AsUser = {"env": {**given, **variables}}
        if os.geteuid() == 0:
            groups = os.getgrouplist(user.pw_name, user.pw_gid)
            options.update({"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups})
        try:
            outcome = self.execute([place.python, *arguments], **options)
        except OSError as error:
            return {"reason": "no_interpreter", "words": f"{place.python}: {error.strerror} (as {user.pw_name})"}
        return findings.report_of(place, outcome)

    def train_in_container(self, place: Place, gpu_options: list[str], arguments: list[str]) -> findings.Report:
        """Run the program in a container, and remove the container."""
        try:
            daemon = process.execute(["docker", "version", "--format", "{{.Server.Version}}"], process.ANSWER_S)
        except OSError as error:
            return {"reason": "no_docker", "words": f"docker: {error.strerror}"}
        if daemon.status != 0:
            return {"reason": "no_docker", "words": " ".join(daemon.stderr.split())}
        if process.execute(["docker", "image", "inspect", place.image], process.ANSWER_S).status != 0:
            return {"reason": "no_image", "words": f"docker has no image {place.image}"}
        container = f"rigwright-smoke-test-{os.getpid()}"
        user = f"{self.user.pw_uid}:{self.user.pw_gid}"
        command = plan.container_command(place, container, user, gpu_options, arguments)
        try:
            outcome = self.execute(command)
        finally:
            # The container goes on running after its client was killed.
            process.execute(["docker", "rm", "--force", "--volumes", container], process.ANSWER_S)
        return findings.report_of(place, outcome)

    def execute(self, command: list[str], **options: t.Any) -> process.Outcome:
        """Run a command with the training program on its standard input."""
        limit = self.params["timeout_s"] + process.GRACE_S
        return process.execute(command, limit, self.params["program"], **options)


def run(params: Request) -> list[Finding]:
    """Train in every requested place, and return the findings.

    :raises Refusal: two places have the same finding, or there is no such user.
    """
    chosen = places(params["environments"], params["images"], params["device"])
    same = duplicates(chosen)
    if same:
        raise Refusal(f"{', '.join(same)} is listed twice: give each a `name` of its own")
    try:
        user = pwd.getpwnam(params["user"]) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    except KeyError:
        raise Refusal(f"There is no user {params['user']}: set `user` to one that exists") from None
    host = facts.read_host()
    trainer = Trainer(params, user, host)
    reports = [(place, trainer.train(place)) for place in chosen]
    return [
        *(findings.judge(place, report) for place, report in reports),
        findings.compare(host, reports, params["gpu_options"], wanted=params["device"] == CUDA),
    ]
