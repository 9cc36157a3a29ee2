# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the options of a job to its answer: trace where a model has to be built, and estimate."""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts, bundle
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import (
    answer,
    memory,
    nets,
    source,
    wording,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.cards import Card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import Request, parse
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.rows import Answer
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import process

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import host
    from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.trace import Traced

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
        # A program starts in the root directory.
        self.python = os.path.abspath(python) if os.sep in python else python
        self.user = user
        self._traces: dict[tuple[object, ...], Traced] = {}

    def estimate(
        self,
        job: JsonObject,
        cards: t.Sequence[Card],
        baseline: t.Any = None,
        available: int | None = None,
    ) -> Answer:
        """Return the answer for a job.

        :raises Refusal: it cannot be estimated.
        """
        given = {key: value for key, value in job.items() if value is not None}
        model = str(given.pop("model", ""))
        if source.is_entry(model):
            return self._traced(given, {"entry": os.path.abspath(model)}, cards, baseline, available)
        if self.python and model not in nets.NAMES and source.is_name(model):
            return self._traced(given, {"torchvision": model}, cards, baseline, available)
        return answer.estimate(parse(source.described(given, model)), cards, baseline=baseline, available=available)

    def on_host(self, job: JsonObject, found: t.Sequence[host.HostCard]) -> Answer:
        """Return the answer for the cards of a host, with their own memory and rates."""
        answers = [self.estimate(job, [row.card], row.baseline, row.memory_bytes) for row in found]
        answers[0]["cards"] = [card for found_answer in answers for card in found_answer["cards"]]
        return answers[0]

    def _traced(
        self,
        given: JsonObject,
        origin: t.Mapping[str, str],
        cards: t.Sequence[Card],
        baseline: t.Any,
        available: int | None,
    ) -> Answer:
        if given.get("task", "train") not in ("train", "infer"):
            raise Refusal(
                "`task`: a traced model is trained or infers: add adapters in its entry point, and give train"
            )
        if given.get("gpus", 1) != 1:
            raise Refusal("`gpus`: a traced model runs on one GPU: give its config.json for several")
        # An empty network is in its place while the options are checked.
        name = source.title(os.path.basename(next(iter(origin.values()))))
        request = parse({"name": name, "sequence": 1, **given}, nets.Net(0, 0, 0, 0, 0, 0))
        request = request._replace(net=None, image=request.image or (224 if "torchvision" in origin else 0))
        first = self.trace(request, origin)
        second = self.trace(request._replace(batch=request.batch * 2), origin)
        growing = [
            {name: max(0.0, (twice.get(name, 0) - size) / request.batch) for name, size in phase.items()}
            for phase, twice in zip(first["phases"], second["phases"])
        ]

        def need(sized: Request) -> memory.Memory:
            found = []
            for phase, per_item in zip(first["phases"], growing):
                parts = dict.fromkeys(memory.PARTS, 0.0)
                for name, size in phase.items():
                    more = per_item[name] * (sized.batch - request.batch)
                    parts[_TRACED.get(name, "workspace")] += max(0.0, size + more)
                parts["workspace"] += memory.WORKSPACE_MIB * memory.MIB
                found.append(parts)
            return memory.enclose(sized, found, "traced")

        activations = growing[0].get("activation", 0.0)
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

    def trace(self, request: Request, origin: t.Mapping[str, str]) -> Traced:
        """Run the tracing program for one batch.

        :raises Refusal: there is no PyTorch, or the model cannot be built.
        """
        if not self.python:
            raise Refusal(
                "`python` is missing: a Python entry point is traced, so name an interpreter that has PyTorch"
            )
        wanted = {**request._asdict(), **origin}
        wanted = {key: value for key, value in wanted.items() if isinstance(value, (str, int, bool))}
        key = (request, *origin.items())
        if key not in self._traces:
            self._traces[key] = self._run(json.dumps(wanted))
        return self._traces[key]

    def _run(self, wanted: str) -> Traced:
        line = [self.python, "-I", "-B", "-", wanted]
        try:
            done = process.execute(line, TRACE_S, bundle.source_of(_TRACE), **self._as_user())
        except OSError as error:
            raise Refusal(
                f"`python`: {self.python} cannot be started ({error.strerror}): name an interpreter"
            ) from error
        if done.status is None:
            raise Refusal(
                f"`model` was not traced in {TRACE_S} seconds: correct the entry point, or give a smaller batch"
            )
        try:
            found = json.loads(done.stdout)
            found = found if "failed" in found else {**found, "phases": [dict(phase) for phase in found["phases"]]}
        except (ValueError, TypeError, KeyError) as error:
            last = (done.stderr.strip().splitlines() or [f"it ended with status {done.status} and no result"])[-1]
            raise Refusal(f"`model` could not be traced: {wording.printable(last)[-300:]}: correct it") from error
        if found.get("failed") == "no_torch":
            raise Refusal(
                f"`python`: {self.python} has no PyTorch: name an interpreter that has it, or give a config.json"
            )
        if found.get("failed") == "recurrent":
            raise Refusal(
                "`model` has recurrent layers, whose memory on a GPU a trace does not see: give an LSTM as a file (docs/gpu_fit.md)"
            )
        if found.get("failed") == "values":
            raise Refusal(
                "`model` could not be traced: its code, or PyTorch's, reads values of tensors, and a trace has only their shapes: "
                "move what depends on values out of the entry point's model, or give a config.json"
            )
        if "failed" in found:
            message = wording.printable(" ".join(str(found.get("message")).split()))
            raise Refusal(f"`model` could not be traced: {message}: correct the entry point")
        return t.cast("Traced", found)

    def _as_user(self) -> process.AsUser:
        """Return options of a process: root does not run the code of a model as root."""
        if os.geteuid() != 0:
            return {}
        entry = accounts.user(self.user)
        if entry is None:
            raise Refusal(f"There is no user {self.user}: set `user` to one that exists")
        own = {"PATH": os.defpath, "HOME": entry.pw_dir}
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [], "env": own}
