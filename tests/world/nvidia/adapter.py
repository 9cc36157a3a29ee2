"""Build the inputs of cases about the driver, CUDA, cuDNN, the health and the sharing of GPUs, and hand them to the code."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest import mock

import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import cards as health_cards
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import links, xid_log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import verdict as health_verdict
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import boot, parted
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import run as mig
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import parse_name
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import control
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import request as mps
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import request as sharing
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import facts as smoke_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.process import Outcome
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.request import Place
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import (
    cuda_facts,
    cuda_plan,
    cudnn_plan,
    gpus,
    kernels,
    package_facts,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import facts as driver_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_environment import set_environment
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_plan import plan_driver
from ansible_collections.rigwright.workstation.plugins.module_utils._system import pci

from harness.fakes.nvml import fake
from tests.unit.support.nvidia import hosts


class NotPlanned(Exception):
    """The requirements that a plan found not to be met."""


REFUSALS = (NotPlanned, Refusal, mig.Stopped)
CARDS = "/sys/bus/pci/devices"
DISPLAY = "0x030000"


def tree(files: Mapping[str, str | bytes], links_to: dict[str, str] | None = None) -> Tree:
    """Lay out files and links in a directory of their own."""
    root = Path(tempfile.mkdtemp())
    for path, content in files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    for path, target in (links_to or {}).items():
        link = root / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    return Tree(str(root))


def pci_files(cards: list[Any]) -> tuple[dict[str, str | bytes], dict[str, str]]:
    files: dict[str, str | bytes] = {}
    bound = {}
    for card in cards:
        place = f"{CARDS}/{card['address']}"
        files |= {
            f"{place}/vendor": "0x10de\n",
            f"{place}/device": f"0x{card['device']}\n",
            f"{place}/class": card.get("class", DISPLAY) + "\n",
        }
        if card.get("driver"):
            bound[f"{place}/driver"] = f"../../../bus/pci/drivers/{card['driver']}"
        if card.get("physfn"):
            bound[f"{place}/physfn"] = f"../{card['physfn']}"
    return files, bound


def checked(plan: Any) -> Any:
    if plan.requirements:
        raise NotPlanned("; ".join(f"{row['variable']} {row['problem']}: {row['remedy']}" for row in plan.requirements))
    return plan


# nvidia_driver


def next_kernel(
    files: dict[str, str],
    newest: str,
    menu: str,
    running: str = "6.8.0-87-generic",
    kernels_there: tuple[str, ...] = (),
) -> str:
    """Return the kernel of the next boot. *menu* is grub.cfg, *newest* the target of /boot/vmlinuz."""
    images = {f"/boot/vmlinuz-{release}": "" for release in kernels_there or (newest, running)}
    host = tree(
        {**images, "/proc/sys/kernel/osrelease": f"{running}\n", "/boot/grub/grub.cfg": menu, **files},
        {"/boot/vmlinuz": f"vmlinuz-{newest}"},
    )
    return str(kernels.next_kernel(host)["release"])


def secure_boot(distribution: str, files: dict[str, str], variables: dict[str, str]) -> Any:
    """Return whether the key of DKMS is trusted. *variables* has the certificates in each EFI variable, by its whole name."""
    place = "/sys/firmware/efi/efivars"
    efi = {f"{place}/{name}": b"\x06\x00\x00\x00" + text.encode() for name, text in variables.items()}
    enabled = {f"{place}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": b"\x06\x00\x00\x00\x01"}
    found = driver_facts.read_secure_boot(tree({**files, **efi, **enabled}), distribution)
    return {"certificate": found["certificate"], "enrolled": found["enrolled"]}


def driver(
    cards: list[Any],
    distribution: str = "Debian",
    version: str = "13",
    codename: str = "trixie",
    request: Any | None = None,
    files: dict[str, str] | None = None,
) -> Any:
    """Plan the driver of a host with these cards; other files as on a host with nouveau."""
    root = Path(tempfile.mkdtemp())
    record = hosts.lay_out("nouveau_bound", root)
    for place in (root / CARDS.lstrip("/")).glob("*"):
        for file in place.glob("*"):
            file.unlink()
        place.rmdir()
    devices, bound = pci_files(cards)
    for path, content in {**devices, **(files or {})}.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    for path, target in bound.items():
        (root / path.lstrip("/")).symlink_to(target)
    facts = driver_facts.gather(Tree(str(root)), lambda names: record.get("policy" if names else "sources", ""))
    system = {"distribution": distribution, "version": version, "codename": codename}
    plan = checked(plan_driver({**facts, "month": hosts.MONTH, "system": system}, request or {}))
    return {"branch": plan.branch, "modules": plan.modules}


def switch(cards: list[Any]) -> bool:
    return gpus.has_nvswitch(tree(*pci_files(cards)))


def pins(files: dict[str, str]) -> list[Any]:
    return [{"packages": row["packages"], "priority": row["priority"]} for row in package_facts.read_pins(tree(files))]


def loaded(text: str) -> list[str]:
    """Return version and kind of the driver that is loaded."""
    found = driver_facts.read_driver(tree({"/proc/driver/nvidia/version": text}))
    return [found["loaded"], found["modules"]]


def headers(release: str, offered: list[str], packages: tuple[str, ...] = ()) -> list[str]:
    """Return the headers that are installed for a kernel that has none, where apt offers these packages."""
    names = package_facts.wanted_names({"distribution": "Debian"}, packages, {release})
    policy = {name: [{"version": "1", "origins": ["other"]}] for name in offered if name in names}
    host = tree({"/proc/sys/kernel/osrelease": f"{release}\n", f"/boot/vmlinuz-{release}": ""})
    rows = kernels.read_kernels(host, {name: {"version": "1"} for name in packages}, policy)
    return [row["headers_package"] for row in rows if row["headers_available"]]


def dkms(files: dict[str, str]) -> list[list[str]]:
    return [[row["kernel"], row["state"], row["error"]] for row in kernels.read_dkms(tree(files))]


# cuda and cudnn


def _host(
    cards: list[Any], packages: list[str], driver_version: str, distribution: str, version: str, roots: Any
) -> cuda_plan.Host:
    files, bound = pci_files(cards)
    release = f"ID={distribution.lower()}\nVERSION_ID={version}\n"
    files |= {"/etc/os-release": release, "/sys/module/nvidia/version": f"{driver_version}\n"}
    found = cuda_facts.read_host(tree(files, bound), "cuda")
    return dataclasses.replace(
        found,
        machine="x86_64",
        packages={name: Package(version) for name, version in (text.split("=") for text in packages)},
        roots=roots or {},
        free_bytes={},
    )


def cuda(
    cards: list[Any],
    driver_version: str,
    packages: tuple[str, ...] = (),
    distribution: str = "Ubuntu",
    version: str = "24.04",
    toolkits: tuple[str, ...] = (),
    roots: dict[str, str] | None = None,
) -> list[str]:
    host = _host(cards, list(packages), driver_version, distribution, version, roots)
    return checked(cuda_plan.plan_present(host, cuda_plan.Request(toolkits=tuple(toolkits)))).toolkits


def environment(text: str) -> str:
    return set_environment(text, "/usr/local/cuda")


def cudnn(
    cards: list[Any],
    driver_version: str,
    packages: tuple[str, ...] = (),
    distribution: str = "Ubuntu",
    version: str = "24.04",
    request: Any | None = None,
) -> Any:
    """Plan cuDNN; return the packages of the repository, and the newest minor version of the wheels."""
    host = _host(cards, list(packages), driver_version, distribution, version, None)
    wanted = request or {}
    if "wheels" in wanted:
        wanted = {**wanted, "wheels": cudnn_plan.read_wheels(wanted["wheels"])}
    plan = checked(cudnn_plan.plan_present(host, cudnn_plan.Request(**wanted)))
    minors = {".".join(row["version"].split(".")[:2]) for row in plan.wheels}
    return {"repository": [name for name in plan.install if "cudnn" in name], "wheels": sorted(minors)}


# gpu_health


def xids(text: str) -> list[list[Any]]:
    """Return code, address, process and verdict of each Xid in a log."""
    found = xid_log.read(text).xids
    return [[xid.code, xid.pci_address, xid.pid, xid.process, xid_log.verdict_of(xid)] for xid in found]


def unsupported(text: str) -> list[str]:
    return sorted(xid_log.read(text).unsupported)


def not_used(text: str, cards: list[Any]) -> list[str]:
    """Return why NVML shows none of the cards of a host, by the kernel's log."""
    files, bound = pci_files(cards)
    host = tree({**files, "/sys/module/nvidia/version": ""}, {**bound, "/proc/self/ns/pid": "pid:[4026531836]"})
    found = health_cards.read(host, cast(Any, _empty), [])
    health_cards.add_without_driver(found, host, xid_log.read(text), {})
    signs: list[Any] = [
        {**card, "absence": card.get("absent") and {"what": card["absent"], "boots": 2}} for card in found.cards
    ]
    return [health_verdict.judge(sign, [], {})["reasons"][0]["what"] for sign in signs]


@contextmanager
def _empty() -> Iterator[Any]:
    """Stand for an NVML that has no card."""
    yield mock.Mock(cards=list)


def sxids(text: str) -> list[list[Any]]:
    """Return code, NVSwitch and verdict of each SXid in a log."""
    return [[sxid.code, sxid.switch, sxid.verdict] for sxid in xid_log.read(text).sxids]


def nvlinks(cards: list[Any]) -> list[list[str]]:
    """Return what is wrong with the NVLinks of each card."""
    signs: list[Any] = [
        {
            "name": card["name"],
            "nvlink": {
                "count": card["count"],
                "active": card["active"],
                "links": [{"link": number, "active": number < card["active"]} for number in range(card["count"])],
            },
            "modes": {"mig": {"current": None}},
            "fabric": card.get("fabric"),
        }
        for card in cards
    ]
    expected: list[Any] = [{**card, "expected_nvlinks": links.expected_links(card, signs)} for card in signs]
    return [[row.what for row in links._nvlinks(card)] for card in expected]


# gpu_sharing


def mig_parted(text: str, selected: str, devices: dict[int, str]) -> dict[int, Any]:
    """Read a configuration of nvidia-mig-parted: mode, and how many of which profile each GPU gets."""
    ids = {index: (int(device, 16), 0) for index, device in devices.items()}
    found = parted.read(yaml.safe_load(text), selected, ids)
    return {
        index: [row.mode, {entry["profile"]: entry["count"] for entry in row.layout}] for index, row in found.items()
    }


def profile(name: str) -> list[Any]:
    return list(parse_name(name))


def mps_refused(daemons: list[Any], devices: list[Any], driver_version: str) -> list[str]:
    """Return the options of daemons that are refused."""
    found = [
        mps.Device(**{**row, "capability": (row["capability"][0], row["capability"][1]), "uuid": f"GPU-{number}"})
        for number, row in enumerate(devices)
    ]
    refusals = mps.wanted(daemons, found, driver_version, "/run/p", "/run/l").refusals
    return [text.partition("].")[2].partition(":")[0] for text in refusals]


class _Module:
    """An AnsibleModule for a host where a reset ends as given."""

    check_mode = False

    def __init__(self, rc: int, text: str) -> None:
        self.answer = (rc, text, "")

    def run_command(self, args: list[str], *_rest: Any, **_options: Any) -> tuple[int, str, str]:
        return self.answer if args[0] == "nvidia-smi" else (0, "", "")

    def get_bin_path(self, arg: str, required: bool = False, opt_dirs: Any = None) -> str:
        return arg

    def warn(self, warning: str) -> None:
        pass


def mig_without_reset(
    reset: str, rc: int, mode: str = "enabled", card: str = "A100 40GB", before: str = "disabled"
) -> Any:
    """Request MIG where a reset fails, reboot, and request it again: what the first run needs, and the mode after both."""
    layout = (
        [{"profile": "3g.20gb", "count": 2, "start": None, "compute_instances": None}] if mode == "enabled" else None
    )
    request = {
        "devices": ["all"],
        "mode": mode,
        "layout": layout,
        "mig_parted": None,
        "when_busy": "fail",
        "busy_timeout": 1,
        "allow_reset": "gpu",
        "stop_services": [],
        "keep_instances": True,
        "persist": "unit",
        "refresh_cdi": "never",
    }
    root = tempfile.mkdtemp()
    with fake([card]) as machine:
        if before == "enabled":
            machine.change({"gpu.0.mig.mode": "1", "gpu.0.mig.pending": "1"})
        results = []
        for _number in range(2):
            with Nvml() as nvml:
                results.append(mig.run(_Module(rc, reset), nvml, request, boot.PROGRAM, root))
            machine.reboot()
        return {"first": results[0]["needs"], "second": results[1]["needs"], "mode": results[1]["gpus"][0]["mode"]}


def mps_pids(text: str) -> list[int]:
    return control.parse_pids(text)


def mps_answer(command: str, output: str, status: int = 0) -> str:
    """Ask a daemon that answers so; return its answer, or the name of the error."""
    daemon = control.Control(lambda *_arguments: (status, output, ""), control.PROGRAM, "/run/p", "/run/l")
    try:
        return daemon.ask(command)
    except control.MpsError as error:
        return error.name


# smoke_test


def smoke_report(stdout: str, stderr: str = "", status: int = 0) -> Any:
    return findings.report_of(Place("image", "world", "python3", "world:1"), Outcome(status, stdout, stderr))


def listing(text: str) -> list[Any]:
    uuids, divided = smoke_facts.read_listing(text)
    return [list(uuids), divided]


def smoke_listed(status: int, stdout: str) -> list[str]:
    """Return the UUIDs of a host whose nvidia-smi ends so."""
    with mock.patch.object(smoke_facts, "execute", return_value=Outcome(status, stdout, "")):
        return list(smoke_facts.read_host().listed)


def smoke_gpus(cards: list[Any], listed: str) -> str:
    """Compare what the bus has with what nvidia-smi and a program of the host list: the status of the finding."""
    uuids, divided = smoke_facts.read_listing(listed)
    files, bound = pci_files(cards)
    bus = tree(files, {**bound, "/proc/self/ns/pid": "pid:[4026531836]"})
    count = len(pci.nvidia_devices(bus, pci.DISPLAY))
    missing = smoke_facts.missing_of(bus, listed)
    host = smoke_facts.Host(count, uuids, divided=divided, missing=missing)
    report: Any = {"reason": "", "driver": "CUDA_SUCCESS", "gpus": [{"uuid": uuid} for uuid in uuids]}
    place = Place("environment", "world", "/usr/bin/python3")
    return findings.compare(host, [(place, report)], [], wanted=True)["status"]


def smoke_remedy(message: str, names: list[str]) -> list[str]:
    """Return those of *names* that the remedy for a failed training has."""
    report: Any = {"reason": "training", "words": message, "driver": "CUDA_SUCCESS", "gpus": []}
    text = findings.remedy(Place("environment", "world", "/usr/bin/python3"), report)
    return [name for name in names if name in text]


def advice(name: str, capability: tuple[int, int], entry: Any) -> str:
    """Return the status of the finding about a choice for a card."""
    card = Card("0", 0, f"GPU-{name}", name, "0000:01:00.0")
    gpu = sharing.Gpu(card, False, (capability[0], capability[1]))
    return sharing.findings([gpu], {card.uuid: entry})[0]["status"]
