"""Turn the targets of the molecule lab into machines with two fake GPUs: driver, NVML and kernel messages.

python -m harness.fakes.gpu_hosts
    machine.put(state(gpu__1__lost="1"))                                    # the second GPU falls off the bus
    machine.must("logger --tag kernel 'NVRM: Xid (PCI:0000:42:00): 109'")   # and the message of the kernel
"""

from __future__ import annotations

import json
import zlib
from concurrent.futures import ThreadPoolExecutor

from harness.fakes import nvml as fake_nvml
from harness.fakes.gpu_host import gpus, install_fake_driver, table
from harness.sandbox import engine, lab
from harness.sandbox.clients import Entry, Machine

GPUS = gpus(["2684", "2684"])
# A container has the kernel of its machine. The messages of the fake kernel are in the journal under its name, and this finds them. It
# ignores the boot: Debian 12's systemd shows the machine's own boot id to a unit that has no access to the kernel's settings.
JOURNALCTL = b"""#!/bin/sh
for word; do
    shift
    case $word in
    --dmesg) set -- "$@" --identifier=kernel ;;
    --boot) ;;
    *) set -- "$@" "$word" ;;
    esac
done
exec /usr/bin/journalctl "$@"
"""


def state(**changes: str | None) -> dict[str, Entry]:
    """Return the state of NVML, as `Machine.put` takes it, with changed facts by their whole names. None removes a fact."""
    ((path, entry),) = table(GPUS).items()
    facts = dict(line.split("=", 1) for line in (entry.content or b"").decode().splitlines())
    facts = {key: value for key, value in facts.items() if key not in ("!serial", "~end")}
    others = {**facts, **{key.replace("__", "."): value for key, value in changes.items()}}
    remaining = {key: value for key, value in others.items() if value is not None}
    # A program that runs reads the state again when its serial number is another.
    serial = zlib.crc32(json.dumps(remaining, sort_keys=True).encode())
    return {path: Entry(fake_nvml.as_text(remaining, serial).encode())}


def prepare(machine: Machine) -> None:
    install_fake_driver(machine, GPUS)
    machine.put({"/usr/local/bin/journalctl": Entry(JOURNALCTL, mode=0o755)})
    machine.must("logger --tag kernel 'Linux version, fake'")


if __name__ == "__main__":
    client = engine.connect()
    with ThreadPoolExecutor() as pool:
        list(pool.map(prepare, [Machine(client, host) for host in lab.read("molecule").group("targets")]))
