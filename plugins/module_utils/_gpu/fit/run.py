# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the options of a job to its answer: trace where a model has to be built, and estimate."""

from __future__ import annotations

import json
import os
import subprocess
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts, bundle
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import answer, memory, nets, source
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.cards import Card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import Request, parse
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import host

TRACE_S = 300
_TRACE = f"{bundle.PACKAGE}._gpu.fit.trace"
# Parts of PyTorch's MemTracker, and ours.
_TRACED = {
    "parameter": "weights",
    "buffer": "weights",
    "gradient": "gradients",
    "optstate": "optimizer",
    "activation": "activations",
    "temp": "workspace",
    "inputs": "activations",
}


class Fit:
    """Estimates jobs. Files are read and models traced once each."""

    def __init__(self, python: str = "", user: str = "nobody") -> None:
        self.python, self.user = python, user

    def estimate(
        self,
        job: t.Mapping[str, t.Any],
        cards: t.Sequence[Card],
        baseline: t.Any = None,
        available: int | None = None,
    ) -> answer.Answer:
        """Return the answer for a job.

        :raises Refusal: it cannot be estimated.
        """
        given = {key: value for key, value in job.items() if value is not None}
        model = str(given.pop("model", ""))
        if source.is_entry(model):
            return self._traced(given, {"entry": os.path.abspath(model)}, cards, baseline, available)
        if "torchvision" in given and given["torchvision"] not in nets.NAMES and self.python:
            return self._traced(given, {"torchvision": given["torchvision"]}, cards, baseline, available)
        return answer.estimate(parse(source.described(given, model)), cards, baseline=baseline, available=available)

    def on_host(self, job: t.Mapping[str, t.Any], found: t.Sequence[host.HostCard]) -> answer.Answer:
        """Return the answer for the cards of a host, with their own memory and rates."""
        answers = [self.estimate(job, [row.card], row.baseline, row.memory_bytes) for row in found]
        return {**answers[0], "cards": [card for found_answer in answers for card in found_answer["cards"]]}

    def _traced(
        self,
        given: t.Mapping[str, t.Any],
        origin: t.Mapping[str, str],
        cards: t.Sequence[Card],
        baseline: t.Any,
        available: int | None,
    ) -> answer.Answer:
        if given.get("task", "train") not in ("train", "infer"):
            raise Refusal(
                "`task`: a traced model is trained or infers: add adapters in its entry point, and give train"
            )
        if given.get("gpus", 1) != 1:
            raise Refusal("`gpus`: a traced model runs on one GPU: give its config.json for several")
        # A small LSTM takes the place of the network while the options are checked.
        shape = {"model_type": "lstm", "input_size": 1, "hidden_size": 1, "num_layers": 1, "num_labels": 1}
        options = {key: value for key, value in given.items() if key != "torchvision"}
        request = parse({"name": next(iter(origin.values())), "sequence": 1, **options, "config": shape})
        request = request._replace(image=request.image or (224 if "torchvision" in origin else 0))
        first = self.trace(request, origin)
        second = self.trace(request._replace(batch=request.batch * 2), origin)
        per_item = {
            name: max(0.0, (second["parts"].get(name, 0) - size) / request.batch)
            for name, size in first["parts"].items()
        }

        def need(sized: Request) -> memory.Memory:
            parts = dict.fromkeys(memory.PARTS, 0.0)
            for name, size in first["parts"].items():
                more = per_item[name] * (sized.batch - request.batch)
                parts[_TRACED.get(name, "workspace")] += max(0.0, size + more)
            parts["workspace"] += memory.WORKSPACE_MIB * memory.MIB
            return memory.enclose(sized, [parts], "traced")

        activations = per_item.get("activation", 0.0)
        net = nets.Net(
            parameters=first["parameters"],
            saved=int(activations / request.element),
            indices=0,
            largest=0,
            flops=first["flops"] // request.batch,
            kernels=first["layers"],
        )
        sized = request._replace(net=net, recurrent=False)
        return answer.estimate(sized, cards, need, "traced", baseline, available)

    def trace(self, request: Request, origin: t.Mapping[str, str]) -> dict[str, t.Any]:
        """Run the tracing program for one batch.

        :raises Refusal: there is no PyTorch, or the model cannot be built.
        """
        if not self.python:
            raise Refusal(
                "`python` is missing: a Python entry point is traced, so name an interpreter that has PyTorch"
            )
        wanted = {**request._asdict(), **origin}
        wanted = {key: value for key, value in wanted.items() if isinstance(value, (str, int, bool))}
        line = [self.python, "-I", "-c", bundle.source_of(_TRACE), json.dumps(wanted)]
        try:
            done = subprocess.run(line, capture_output=True, text=True, timeout=TRACE_S, check=False, **self._as_user())
            found = json.loads(done.stdout.splitlines()[-1])
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Refusal(f"`python`: {self.python} did not trace the model: {error}"[:400]) from error
        except (ValueError, IndexError) as error:
            raise Refusal(
                f"`model` could not be traced: {done.stderr.strip()[-300:] or 'no result'}: correct it"
            ) from error
        if found.get("failed") == "no_torch":
            raise Refusal(
                f"`python`: {self.python} has no PyTorch: name an interpreter that has it, or give a config.json"
            )
        if found.get("failed") == "recurrent":
            raise Refusal(
                "`model` has recurrent layers, whose memory on a GPU a trace does not see: give an LSTM as a file (docs/gpu_fit.md)"
            )
        if "failed" in found:
            raise Refusal(f"`model` could not be traced: {found['message']}: correct the entry point")
        return t.cast("dict[str, t.Any]", found)

    def _as_user(self) -> dict[str, t.Any]:
        """Return options of a process: root does not run the code of a model as root."""
        if os.geteuid() != 0:
            return {}
        entry = accounts.user(self.user)
        if entry is None:
            raise Refusal(f"There is no user {self.user}: set `user` to one that exists")
        own = {"PATH": os.defpath, "HOME": entry.pw_dir, "LC_ALL": "C.UTF-8"}
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [], "cwd": "/", "env": own}
