# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Request GPUs in containers as users do, and return what was found."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.gpu_toolkit import CDI, LEGACY
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.verify import shortened
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.nvidia_smi import DONE

Params = t.Mapping[str, t.Any]
Outcome = tuple[int, str, str]

IMAGE = "rigwright-verify-gpu"
# The image has programs of the host: nothing is downloaded. The toolkit adds the files of the driver.
CREATE = f"""\
set -e -o pipefail
programs="$(command -v sh) $(command -v ls)"
libraries=$(for program in $programs "$(command -v nvidia-smi)"; do ldd "$program"; done | grep -o '/[^ ):]*' | sort -u)
tar --create --dereference $programs $libraries | docker import - {IMAGE}
"""
# The client of docker waits for ever after docker's CDI has crashed (docs/nvidia_container_toolkit.md).
RUN = ["timeout", "--kill-after=5", "120", "docker", "run", "--rm", "--network", "none"]
LOOK = "echo devices:; ls /dev; nvidia-smi -L"
UUID = re.compile(r"UUID: ([^)]+)")
ERROR_LENGTH = 500


def request_for(mode: str, device: str) -> list[str]:
    """Return the options of ``docker run`` that request a GPU by its UUID, or ``all``."""
    return {
        CDI: ["--device", f"nvidia.com/gpu={device}"],
        LEGACY: ["--runtime", "nvidia", "--env", f"NVIDIA_VISIBLE_DEVICES={device}"],
    }[mode]


class Containers:
    """Containers that request one GPU, all of them, and none."""

    def __init__(self, run: t.Callable[..., Outcome], plan: Params) -> None:
        self.call = run
        devices = [name for name in plan["devices"] if re.match("(GPU|MIG)-", name)]
        # The first GPU, or part of one (MIG).
        self.wanted = (devices or ["GPU-of-none"])[0]
        self.request = request_for(plan["mode"], self.wanted)
        self.on_host = UUID.findall(self._run(["nvidia-smi", "-L"])[1])
        status, _text, error = self._run(["bash", "-c", CREATE])
        self.image_error = error if status != 0 else ""
        try:
            self.one, self.all, self.none = (
                self._run([*RUN, *how, IMAGE, "sh", "-c", LOOK])
                for how in (self.request, request_for(plan["mode"], "all"), [])
            )
        finally:
            self._run(["docker", "image", "rm", "--force", IMAGE])

    def findings(self) -> list[Finding]:
        return [self.with_one(), self.with_all(), self.with_none()]

    def _run(self, command: list[str]) -> Outcome:
        # The variables are those of the scripts.
        return self.call(command, expand_user_and_vars=False)

    def _error(self, output: str) -> str:
        return shortened((self.image_error or output).strip(), ERROR_LENGTH)

    def with_one(self) -> Finding:
        """Check that a container gets the requested GPU alone."""
        status, text, error = self.one
        uuids = UUID.findall(text)
        nodes = re.findall(r"(?m)^nvidia[0-9]+$", text)
        # NVML also names the GPU that a part belongs to.
        alone = len(nodes) == 1 and (len(uuids) == 1 or self.wanted.startswith("MIG-"))
        return finding(
            "nvidia_container_toolkit.one",
            "pass" if self.wanted in uuids and alone else "fail",
            f"of the requested {self.wanted}, a container has {', '.join(uuids + nodes)}"
            if status in DONE
            else self._error(error or text),
            f"try it: docker run --rm {' '.join(self.request)} debian nvidia-smi -L",
        )

    def with_all(self) -> Finding:
        """Check that a container gets all GPUs of the host."""
        status, text, error = self.all
        uuids = UUID.findall(text)
        return finding(
            "nvidia_container_toolkit.all",
            "pass" if self.on_host and uuids == self.on_host else "fail",
            f"the host has {', '.join(self.on_host)}, a container that requests all has {', '.join(uuids)}"
            if status in DONE
            else self._error(error or text),
            "run the role again after a change of the driver, the cards or MIG",
        )

    def with_none(self) -> Finding:
        """Check that a container without a request gets no GPU."""
        _status, text, error = self.none
        listed = "devices:" in text
        nodes = re.findall("nvidia.*", text)
        return finding(
            "nvidia_container_toolkit.none",
            "pass" if listed and not nodes else "fail",
            f"a container that requests no GPU has {', '.join(nodes) or 'none'}" if listed else self._error(error),
            "check default-runtime in daemon.json: with nvidia, every image that names a GPU gets it",
        )


def state_findings(plan: Params) -> list[Finding]:
    """Return the findings on the CDI spec and on docker's options."""
    refused = "; ".join(f"{row['variable']} {row['problem']}" for row in plan["requirements"])
    return [
        finding(
            "nvidia_container_toolkit.spec",
            "fail" if plan["stale"] else "pass",
            plan["stale"] or f"the CDI spec has the devices of the driver: {', '.join(plan['devices'])}",
            "run the role again; `journalctl -u nvidia-cdi-refresh` has the messages of nvidia-ctk",
        ),
        finding(
            "nvidia_container_toolkit.docker",
            "fail" if plan["apply"] or refused else "pass",
            refused
            or (
                "docker does not have the options for GPUs yet"
                if plan["apply"]
                else f"{plan['mode']}: {plan['reason']}"
            ),
            "run the role again; a restart of docker waits while containers use a GPU (docker.pending)",
        ),
    ]


def findings(run: t.Callable[..., Outcome], plan: Params) -> list[Finding]:
    """Return the findings of the plan and of containers."""
    return [*state_findings(plan), *Containers(run, plan).findings()]
