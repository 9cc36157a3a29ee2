#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_fit
short_description: Estimate whether a training or an inference fits on a GPU, and how fast it will be
description:
  - Returns the memory of a job by part with an interval, and for each card whether it fits, the largest batch, the speed with an interval,
    and the energy of a step. It needs no GPU and no PyTorch, and changes nothing.
  - Figures come from the shapes of the model (C(formula), C(table)). A Python entry point is run on tensors without memory (C(traced)).
  - How far predictions were from what an H100 measured is in the page C(docs/gpu_fit.md) of the collection.
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
options:
  model:
    description:
      - A configuration of Hugging Face (C(config.json), or its directory), a name of torchvision, or C(FILE.py:FUNCTION), a function that
        returns a model.
      - The path is on the host that runs the module. A field that may change the shape of the model and is not known is refused; others
        widen the interval.
    type: str
    required: true
  task:
    description:
      - V(lora) and V(qlora) train adapters of a frozen model, with V(lora) in fp32.
      - With V(qlora) linear layers have four bits (NF4 with double quantization), and adapters are in bf16. A paged optimizer
        is counted as if it stayed on the card, but in the lower end of the interval.
    type: str
    choices: [train, lora, qlora, infer]
    default: train
  batch:
    description: Images or sequences of one step - of each GPU, and of all with V(tensor).
    type: int
    default: 1
  sequence:
    description: Tokens of a sequence, or of the prompt.
    type: int
  image:
    description: Pixels of one side of an image.
    type: int
  new_tokens:
    description: Tokens that an inference adds to the prompt, with a KV cache.
    type: int
  dtype:
    description:
      - V(amp) is autocast to bf16 with weights in fp32, as C(bf16=True) of Trainer; V(bf16_amp) has weights in bf16 under autocast.
      - With V(qlora), V(amp) is peft's C(prepare_model_for_kbit_training) - what has not four bits is in fp32.
    type: str
    choices: [fp32, amp, bf16, fp16, bf16_amp]
    default: bf16
  optimizer:
    description: V(sgd) has momentum. V(adamw) is fused.
    type: str
    choices: [sgd_plain, sgd, adamw, adamw_foreach, paged_adamw, adamw_8bit, paged_adamw_8bit, adafactor]
    default: adamw
  checkpointing:
    description: Whether activations are calculated again in the backward pass, layer by layer.
    type: bool
    default: false
  lora_rank:
    description: Rank of the adapters. Other tasks refuse another value than the default.
    type: int
    default: 16
  lora_targets:
    description: Layers that get adapters - queries and values of V(attention), or V(all) linear layers.
    type: str
    choices: [attention, all]
    default: attention
  channels_last:
    description: Whether a convolutional network has its memory format channels_last.
    type: bool
    default: false
  chunked_loss:
    description: Whether logits are calculated a part at a time, as fused losses (Liger, torchtune) do.
    type: bool
    default: false
  optimizer_in_backward:
    description: Whether each weight is updated in the backward pass, so that its gradient is released at once.
    type: bool
    default: false
  compile:
    description: Whether C(torch.compile) fuses kernels.
    type: bool
    default: false
  offload:
    description:
      - What the memory of the host holds. V(optimizer) is the state of the optimizer and its step.
      - V(activations) is what layers save for the backward pass.
    type: str
    choices: [none, optimizer, activations]
    default: none
  half:
    description: The type of 16 bits that autocast works in. Norms of convolutional networks are slower in bf16.
    type: str
    choices: [bf16, fp16]
    default: bf16
  gpus:
    description: Number of GPUs that share a job.
    type: int
    default: 1
  sharing:
    description: How they share it.
    type: str
    choices: [none, ddp, fsdp, tensor]
    default: none
  all_reduce_gb_s:
    description: Bus rate of an all-reduce, for the speed of several GPUs, as M(rigwright.workstation.gpu_accept) returns it in C(links).
    type: float
  cards:
    description:
      - Names of cards, as NVIDIA or C(nvidia-smi) has them.
      - Empty takes the cards of this host, with their own memory and the rates that M(rigwright.workstation.gpu_accept) measured.
    type: list
    elements: str
    default: []
  directory:
    description: The baselines of M(rigwright.workstation.gpu_accept), for the cards of this host.
    type: path
    default: /var/lib/rigwright_gpu_accept
  python:
    description: An interpreter that has PyTorch, to trace a Python entry point.
    type: path
  user:
    description: The user that runs the code of an entry point, where the module runs as root.
    type: str
    default: nobody
seealso:
  - module: rigwright.workstation.gpu_accept
  - module: rigwright.workstation.gpu_info
"""

EXAMPLES = r"""
- name: Estimate fine-tuning on two cards
  rigwright.workstation.gpu_fit:
    model: /srv/models/llama-8b/config.json
    task: lora
    batch: 2
    sequence: 2048
    checkpointing: true
    cards: [RTX 4090, H100]
  delegate_to: localhost
  register: fit

- name: Refuse a job that does not fit on this host
  rigwright.workstation.gpu_fit:
    model: resnet50
    batch: 256
    dtype: amp
  register: fit
  failed_when: fit is failed or fit.cards | selectattr("fits", "equalto", "no") | list | length > 0
"""

RETURN = r"""
name:
  description: The name of the model.
  returned: success
  type: str
  sample: resnet50
basis:
  description: C(formula) and C(table) calculate from shapes; C(traced) ran the model without memory.
  returned: success
  type: str
  sample: table
need_gib:
  description:
    - Memory of one GPU in GiB - the C(total), its interval C(low) to C(high), the C(tensors) alone, and C(parts).
    - The interval has what a process was seen to hold by NVML in nine of ten cases. The allocator releases a part when memory is short.
  returned: success
  type: dict
  sample: {total: 13.74, low: 10.62, high: 19.47, tensors: 10.81, parts: {weights: 0.1}}
need_bytes:
  description: The same in bytes; the parts add up to the total.
  returned: success
  type: dict
  sample: {total: 14753456128, low: 11403206656, high: 20905132032, parts: {weights: 102228128}}
notes:
  description: What widens the interval, and how it was calculated.
  returned: success
  type: list
  elements: str
  sample: ["basis table: calculated from shapes, no model was built"]
cards:
  description: The answer for each card.
  returned: success
  type: list
  elements: dict
  contains:
    card:
      description: Its name in the table.
      type: str
    fits:
      description: V(yes), V(no), or V(tight) where the memory of the card is within the interval.
      type: str
    memory_gib:
      description: Memory that programs can use.
      type: float
    max_batch:
      description: The largest batch whose whole interval fits. 0 where not even one fits.
      type: int
    rate:
      description: Images or tokens a second; whole sequences where an entry point takes them.
      type: float
    rate_low:
      description: The lower end of its interval.
      type: float
    rate_high:
      description: The upper end of its interval.
      type: float
    unit:
      description: Unit of the rate.
      type: str
    step_s:
      description: Seconds of a step, or of all new tokens.
      type: float
    prompt_s:
      description: Seconds of the prompt's own pass before the first new token; the rate leaves it out. Null without new tokens.
      type: float
    joules:
      description: Energy of the same, of all GPUs.
      type: float
    decides:
      description: V(matrix units), V(bandwidth), or the V(host) that starts the kernels.
      type: str
    rates_from:
      description: V(baseline) of gpu_accept, or the data V(sheet).
      type: str
    notes:
      description: What the figures leave out.
      type: list
      elements: str
  sample:
    - card: RTX 4090
      fits: "yes"
      memory_gib: 23.5
      max_batch: 312
      rate: 1140.0
      rate_low: 601.0
      rate_high: 2170.0
      unit: images/s
      step_s: 0.224
      prompt_s: null
      joules: 72.9
      decides: bandwidth
      rates_from: sheet
      notes: []
"""

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import cards, host, request, run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.options import JOB
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import respawn_where_possible
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

OTHERS = ("cards", "directory", "python", "user")


def main() -> None:
    module = HostModule(
        argument_spec={
            **JOB,
            "gpus": {"type": "int", "default": 1},
            "sharing": {"type": "str", "choices": list(request.SHARING), "default": "none"},
            "all_reduce_gb_s": {"type": "float"},
            "cards": {"type": "list", "elements": "str", "default": []},
            "directory": {"type": "path", "default": "/var/lib/rigwright_gpu_accept"},
            "python": {"type": "path"},
            "user": {"type": "str", "default": "nobody"},
        },
        supports_check_mode=True,
    )
    params = module.params
    job = {name: value for name, value in params.items() if name not in OTHERS}
    fit = run.Fit(params["python"] or "", params["user"])
    try:
        if params["cards"]:
            result = fit.estimate(job, list(dict.fromkeys(cards.find(name) for name in params["cards"])))
        else:
            respawn_where_possible()
            result = fit.on_host(job, host.read_cards(params["directory"]))
    except Refusal as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
