"""The fake GPU machine shows what NVIDIA's module shows, and shows no module that would not load."""

from __future__ import annotations

import ctypes
import fnmatch
import os
import subprocess

import pynvml
import pytest

from harness.fakes import gpu_host as fake_gpu_host
from harness.fakes import nvml as fake_nvml
from harness.fakes.gpu_host_files import boot

GPU = {"address": "0000:41:00.0", "device": "2684", "class": "030000"}
OPEN = {
    "version": "580.159.04",
    "license": "Dual MIT/GPL",
    "srcversion": "7EB9",
    "vermagic": "6.1.0-56-amd64 SMP mod_unload",
}
CLOSED = {**OPEN, "license": "NVIDIA"}


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Redirect the folders that the kernel shows into tmp_path."""
    for name in ("PCI", "MODULES", "PROC"):
        monkeypatch.setattr(boot, name, tmp_path / name)
    (tmp_path / "PCI/drivers").mkdir(parents=True)
    nodes = []
    monkeypatch.setattr(os, "mknod", lambda path, mode, number: nodes.append((path, oct(mode), number)))
    monkeypatch.setattr(os, "umask", lambda _mask: None)
    return nodes


@pytest.mark.parametrize(
    ("about", "banner"),
    [
        (OPEN, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  "),
        (CLOSED, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  "),
    ],
)
def test_loaded_module_shows_its_version_and_kind(kernel, about, banner):
    boot.load([GPU], about, [])
    first, second = (boot.PROC / "nvidia/version").read_text().splitlines()
    assert first.startswith(banner)
    assert second.startswith("GCC version:  gcc version ")
    assert (boot.MODULES / "nvidia/version").read_text() == "580.159.04\n"
    assert (boot.PROC / "nvidia/gpus/0000:41:00.0/information").is_file()


def test_every_gpu_has_a_node_that_can_be_held_open(kernel):
    boot.load([GPU, {**GPU, "address": "0000:42:00.0"}], OPEN, [])
    assert [path for path, _mode, _number in kernel] == ["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1"]
    assert {(mode, number) for _path, mode, number in kernel} == {("0o20666", os.makedev(1, 3))}


def test_options_of_the_module_show_where_the_driver_shows_them(kernel):
    boot.load([GPU], OPEN, ["NVreg_RestrictProfilingToAdminUsers=0"])
    assert (boot.PROC / "nvidia/params").read_text() == "RestrictProfilingToAdminUsers: 0\n"
    assert (boot.MODULES / "nvidia/parameters/NVreg_RestrictProfilingToAdminUsers").read_text() == "0\n"


def test_a_bound_device_and_its_driver_name_each_other(kernel):
    boot.add_device(GPU)
    boot.bind([GPU], "nvidia")
    device = boot.PCI / "devices/0000:41:00.0"
    assert (device / "driver").resolve() == boot.PCI / "drivers/nvidia"
    assert (boot.PCI / "drivers/nvidia/0000:41:00.0").resolve() == device
    assert (device / "vendor").read_text() + (device / "device").read_text() == "0x10de\n0x2684\n"
    assert (device / "config").read_bytes()[:4] == bytes.fromhex("de108426")


@pytest.mark.parametrize(
    "alias", ["pci:v000010DEd*sv*sd*bc03sc00i00*", "pci:v000010DEd*sv*sd*bc03sc*i*"]
)  # nvidia's, nouveau's
def test_a_device_is_one_that_nvidia_and_nouveau_are_for(alias):
    assert fnmatch.fnmatchcase(boot.modalias(GPU), alias)


def test_a_module_of_another_kernel_does_not_load():
    assert boot.why_not("6.1.0-56-amd64", OPEN, {}) is None
    problem = boot.why_not("6.1.0-57-amd64", OPEN, {})
    assert problem == "nvidia: version magic '6.1.0-56-amd64' should be '6.1.0-57-amd64'"


def test_refused_version_fails_with_the_given_message():
    refuses = {"580.159.04": "NVRM: RmInitAdapter failed!"}
    assert boot.why_not("6.1.0-56-amd64", OPEN, refuses) == "NVRM: RmInitAdapter failed!"
    assert boot.why_not("6.1.0-56-amd64", {**OPEN, "version": "570.195.03"}, refuses) is None


def test_programs_see_the_kernel_of_proc(tmp_path):
    (tmp_path / "uname.so").write_bytes(fake_gpu_host.uname_library())
    release = subprocess.run(
        ["uname", "-r"],
        env={**os.environ, "LD_PRELOAD": str(tmp_path / "uname.so")},
        capture_output=True,
        text=True,
        check=True,
    )
    with open("/proc/sys/kernel/osrelease") as file:
        assert (release.stdout, release.stderr) == (file.read(), "")


# --- The driver's NVML ---


def on_host(cards, tmp_path, monkeypatch):
    """Make NVML of this process read the state that a host with these cards would have."""
    ((path, entry),) = fake_gpu_host.table(cards, "580.159.04").items()
    state = tmp_path / "state"
    state.write_bytes(entry.content)
    monkeypatch.setenv(fake_nvml.STATE, str(state))
    ctypes.CDLL(str(fake_nvml.library()))
    return path


def test_the_state_is_in_the_firmware_directory_of_a_driver(tmp_path, monkeypatch):
    path = on_host(fake_gpu_host.gpus(["2684"]), tmp_path, monkeypatch)
    assert path == "/usr/lib/firmware/nvidia/580.159.04/gsp_fake.bin"


def test_other_cards_are_another_version_of_the_state():
    def serial(devices):
        (entry,) = fake_gpu_host.table(fake_gpu_host.gpus(devices)).values()
        assert entry.content
        return entry.content.splitlines()[0]

    assert len({serial(devices) for devices in (["2684"], ["2684", "2684"], ["2330"])}) == 3
    assert serial(["2684"]) == serial(["2684"])


def test_without_its_device_node_a_program_has_no_driver(tmp_path, monkeypatch):
    on_host(fake_gpu_host.gpus(["2684", "2330"]), tmp_path, monkeypatch)
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        pynvml.nvmlInit()


def test_a_card_that_no_model_is_for_is_named():
    with pytest.raises(ValueError, match="no fake model has the PCI id 1234"):
        fake_gpu_host.table([{"device": "1234", "uuid": "GPU-1", "address": "0000:41:00.0"}])


def test_names_in_proc_are_those_of_the_cards(kernel):
    boot.load([{**GPU, "name": "NVIDIA GeForce RTX 4090"}], OPEN, [])
    text = (boot.PROC / "nvidia/gpus/0000:41:00.0/information").read_text()
    assert text.startswith("Model:           NVIDIA GeForce RTX 4090\n")


def test_mig_capabilities_have_the_numbers_of_the_driver():
    minors = boot.mig_minors(2)
    wanted = {
        "config": 1,
        "monitor": 2,
        "gpu0/gi0/access": 3,
        "gpu0/gi0/ci0/access": 4,
        "gpu0/gi1/access": 12,
        "gpu1/gi0/access": 138,
    }
    assert {name: minors[name] for name in wanted} == wanted
    assert len(minors) == 2 + 2 * 135
