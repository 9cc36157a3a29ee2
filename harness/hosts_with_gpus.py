"""The targets of the molecule lab as machines with two GPUs: kernel, NVML and the kernel's lines in the journal are imitated.

python -m harness.hosts_with_gpus
    machine.put({STATE: state(gpu__1__lost="1")})                        # the second GPU falls off the bus
    machine.must("logger --tag kernel 'NVRM: Xid (PCI:0000:42:00): 109'")   # and what the kernel says
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from harness import engine, imitated_nvml, lab
from harness.clients import Entry, Machine
from harness.imitated_gpu import DRIVER, gpus, imitate_driver

GPUS = imitated_nvml.cards(["RTX 4090", "RTX 4090"])
LIBRARY = f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{DRIVER}"
STATE = f"/usr/lib/firmware/nvidia/{DRIVER}/gsp_imitated.bin"
# A container's kernel is that of its machine. What the imitated one says stands in the journal under its name, and this finds it.
JOURNALCTL = b"""#!/bin/sh
for word; do
    shift
    case $word in --dmesg) set -- "$@" --identifier=kernel ;; *) set -- "$@" "$word" ;; esac
done
exec /usr/bin/journalctl "$@"
"""


def state(**changes: str | None) -> Entry:
    """The state of the imitated NVML, with facts by their whole names; None takes one away."""
    facts = {
        **imitated_nvml.initial_state(GPUS, DRIVER),
        **{key.replace("__", "."): value for key, value in changes.items()},
    }
    return Entry(imitated_nvml.as_text({key: value for key, value in facts.items() if value is not None}, 1).encode())


def prepare(machine: Machine) -> None:
    described = [{**card, "uuid": gpu.uuid} for card, gpu in zip(gpus(["2684", "2684"]), GPUS, strict=True)]
    imitate_driver(machine, described)
    machine.put(
        {
            LIBRARY: Entry(imitated_nvml.library(DRIVER).read_bytes(), mode=0o755),
            STATE: state(),
            "/usr/local/bin/journalctl": Entry(JOURNALCTL, mode=0o755),
        }
    )
    machine.must("logger --tag kernel 'Linux version, imitated'")


if __name__ == "__main__":
    client = engine.connect()
    with ThreadPoolExecutor() as pool:
        list(pool.map(prepare, [Machine(client, host) for host in lab.read("molecule").group("targets")]))
