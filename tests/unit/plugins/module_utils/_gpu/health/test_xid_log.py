# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the kernel's log from several drivers."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_log as log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.xid_log import Xid

OFF_THE_BUS = "NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python3, GPU has fallen off the bus."
NOON = datetime.datetime(2026, 11, 22, 12, 0, 0, tzinfo=datetime.UTC).timestamp()


def entry(message: Any, time: float = NOON) -> str:
    """Return a line of `journalctl -k -o json`."""
    return json.dumps({"MESSAGE": message, "__REALTIME_TIMESTAMP": str(int(time * 1e6)), "_TRANSPORT": "kernel"})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (OFF_THE_BUS, Xid(79, "0000:41:00", None, 1234, "python3", None, "GPU has fallen off the bus.")),
        (
            "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            Xid(79, "0000:05:00", text="GPU has fallen off the bus."),
        ),
        ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", Xid(79, "0000:01:00", text="GPU has fallen off the bus.")),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", Xid(14, "0000:03:00", text="Channel 00000001")),
        ("NVRM: Xid (PCI:0000:05:00): 99999, unknown error", Xid(99999, "0000:05:00", text="unknown error")),
        ("NVRM: Xid (PCI:0000:05:00): 62", Xid(62, "0000:05:00")),
        (
            "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No",
            Xid(94, "0000:01:00", None, 7194, gpu_instance=5, text="Contained: CE User Channel (0x9). RST: No, D-RST: No"),
        ),
        (
            "NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 13, pid=9, name=a, Graphics Exception",
            Xid(13, "0000:3b:00", None, 9, "a", 1, "Graphics Exception"),
        ),
        (
            "NVRM: Xid (PCI:0010:9B:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s of waiting, twice",
            Xid(119, "0010:9b:00", None, 2024380, "nvidia-smi", None, "Timeout after 6s of waiting, twice"),
        ),
        ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", Xid(79, "0000:18:00", text="GPU has fallen off the bus")),
        ("NVRM: GPU at 0000:41:00.0 has fallen off the bus.", Xid(79, "0000:41:00", text="GPU has fallen off the bus")),
        ("NVRM: GPU 18:00.0: GPU has fallen off the bus.", Xid(79, "0000:18:00", text="GPU has fallen off the bus")),
    ],
)  # fmt: skip
def test_every_shape_of_an_xid_is_read(line: str, expected: Xid) -> None:
    assert log.parse_line(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (invalid): some error",
        "NVRM: Xid (PCI:0000:66:00): abc, pid=2280636",
        "NVRM: GPU at PCI:0000:41:00: GPU-8f2c1a90-5d3e-4b7a-9c61-2e0f4d7b8a15",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05",
        "usb 1-1: Xid (PCI:0000:41:00): 79, no",
        "",
    ],
)
def test_other_lines_are_no_xid(line: str) -> None:
    assert log.parse_line(line) is None


@pytest.mark.parametrize(
    ("line", "time"),
    [
        (entry(OFF_THE_BUS), NOON),
        (entry(list(OFF_THE_BUS.encode())), NOON),
        (f"2026-11-22T13:00:00+0100 host kernel: {OFF_THE_BUS}", NOON),
        (f"2026-11-22T12:00:00+00:00 host kernel: {OFF_THE_BUS}", NOON),
        (f"2026-11-22T12:00:00.123456+00:00 host kernel: {OFF_THE_BUS}", NOON),
        (f"2026-11-22T12:00:00,123456+00:00 {OFF_THE_BUS}", NOON),
        (f"[ 3600.000000] {OFF_THE_BUS}", NOON),
        (f"kern  :warn  : [ 3600.000000] {OFF_THE_BUS}", NOON),
        (f"[Sun Nov 22 12:00:00 2026] {OFF_THE_BUS}", datetime.datetime(2026, 11, 22, 12, 0, 0).timestamp()),
        (f"<4>{OFF_THE_BUS}", None),
    ],
)
def test_an_xid_has_the_time_of_its_line(line: str, time: float | None) -> None:
    (found,) = log.parse(line, booted=NOON - 3600)
    assert (found.code, found.pid, found.time) == (79, 1234, time)


def test_dmesg_has_no_time_without_the_time_of_the_boot() -> None:
    assert [xid.time for xid in log.parse(f"[ 3600.0] {OFF_THE_BUS}")] == [None]


def test_invalid_utf_8_and_truncated_lines_hide_nothing() -> None:
    odd = list(b"NVRM: Xid (PCI:0000:41:00): 31, pid=7, name=\xff\xfe, Ch 00000008")
    text = "\n".join(['{"MESSAGE":"usb"}', entry(odd), entry(None), entry(OFF_THE_BUS), '{"MESSAGE":"NVRM: Xid (PCI'])
    assert [(xid.code, xid.pid) for xid in log.parse(text)] == [(31, 7), (79, 1234)]


@pytest.mark.parametrize("name", ["a\u2028b", "a\x85b", "a\x0bb", "a\x1cb"])
def test_name_with_a_line_break_hides_no_xid(name: str) -> None:
    message = f"NVRM: Xid (PCI:0000:41:00): 79, pid=7, name={name}, GPU has fallen off the bus."
    for line in (message, json.dumps({"MESSAGE": message}, ensure_ascii=False)):
        (xid,) = log.parse(f"{line}\n")
        assert (xid.code, xid.pid, xid.text) == (79, 7, "GPU has fallen off the bus.")


def test_xids_after_a_moment_or_without_a_time_count() -> None:
    xids = [Xid(13, "0000:41:00", NOON - 10), Xid(31, "0000:41:00", NOON), Xid(43, "0000:41:00")]
    assert [xid.code for xid in log.since(xids, NOON)] == [31, 43]
    assert log.since(xids, None) == xids


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("from 0x0 (None) to 0x1 (GPU Reset Required)", "RESET_GPU"),
        ("from 0x0 (None) to 0x1 (PF FLR)", "RESET_GPU"),
        ("from 0x0 (None) to 0x2 (Node Reboot Required)", "REBOOT"),
        ("from 0x0 (None) to 0x2 (OS Reboot)", "REBOOT"),
        ("from 0x0 (None) to 0x4 (Drain and Reset)", "RESET_GPU"),
        ("from 0x1 (GPU Reset Required) to 0x0 (None)", "PASS"),
        ("from 0x0 (None) to 0x63 (Something New)", "RESET_GPU"),
    ],
)
def test_xid_154_names_the_action_in_any_drivers_text(text: str, verdict: str) -> None:
    xid = log.parse_line(f"NVRM: Xid (PCI:0000:41:00): 154, GPU recovery action changed {text}")
    assert xid and log.verdict_of(xid) == verdict


def test_xid_154_without_an_action_is_monitored() -> None:
    assert log.verdict_of(Xid(154, "0000:41:00", text="GPU recovery action")) == "MONITOR"


@pytest.mark.parametrize(("severity", "verdict"), [("Fatal   ", "RESET_GPU"), ("Nonfatal", "MONITOR")])
def test_xid_of_nvlink_5_states_if_it_is_fatal(severity: str, verdict: str) -> None:
    xid = log.parse_line(f"NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  {severity} XC0 i0 Link 00 (0x021405c6 0x0)")
    assert xid and log.verdict_of(xid) == verdict
    assert log.verdict_of(Xid(149, "0009:01:00")) == "RESET_GPU"


@pytest.mark.parametrize(
    ("source", "verdict"),
    [("0x004505c6", "RESET_GPU"), ("0x026505c6", "MONITOR"), ("0x028505c6", "MONITOR"), ("0x02a505c6", "RESET_GPU")],
)
def test_two_fatal_link_events_of_xid_149_need_no_reset(source: str, verdict: str) -> None:
    xid = log.parse_line(
        f"NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 ({source} 0x00000000)"
    )
    assert xid and log.verdict_of(xid) == verdict


DEAD = [
    "NVRM: The NVIDIA GPU 0000:18:00.0",
    "NVRM: (PCI ID: 10de:2330) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
]


@pytest.mark.parametrize(
    "text",
    [
        entry("\n".join(DEAD)),
        "\n".join(map(entry, DEAD)),
        "[ 3600.000000] " + "\n               ".join(DEAD),
        "\n".join(f"[ 3600.000000] {line}" for line in ["NVRM: The NVIDIA GPU 0000:17:00.0", *DEAD]),
    ],
)
def test_dead_gpu_is_parsed_over_several_lines(text: str) -> None:
    assert [(xid.code, xid.pci_address) for xid in log.parse(text, NOON - 3600)] == [(79, "0000:18:00")]


def test_an_xid_13_names_its_place_on_the_chip() -> None:
    text = "Graphics SM Warp Exception on (GPC 1, TPC 3, SM 0): Out Of Range Address"
    assert (Xid(13, "0000:41:00", text=text).place, Xid(13, "0000:41:00").place) == ("GPC 1, TPC 3", "")


def test_the_driver_names_gpus_that_it_does_not_support() -> None:
    text = "NVRM: The NVIDIA GPU 0000:05:00.0 (PCI ID: 10de:1b80)\nNVRM: installed in this system is not supported by open\n"
    assert log.read(entry(text)).unsupported == {"0000:05:00"}
    assert log.read(entry(text)).xids == []


def test_xid_45_names_its_cause() -> None:
    xid = log.parse_line("NVRM: Xid (PCI:0000:dc:00): 45, pid=1, name=a, Ch 00000001 caused by previous Xid 149")
    assert xid and (xid.cause, Xid(45, "0000:dc:00").cause) == (149, None)


@pytest.mark.parametrize(
    "address", ["0000:41:00.0", "00000000:41:00.0", "0000:41:00", "00000000:41:00.0".upper(), "41:00.0"]
)
def test_an_address_is_the_same_in_any_form(address: str) -> None:
    assert log.normal_address(address) == "0000:41:00"


def test_result_has_the_line_and_the_catalogue() -> None:
    result = Xid(109, "0000:41:00", NOON, 7, "train").as_result()
    assert result["name"] == "Context Switch Timeout Error"
    assert (result["code"], result["action"], result["verdict"], result["pid"]) == (109, "RESET_GPU", "RESET_GPU", 7)


@pytest.mark.parametrize("message", ["[1e99]", "[300]", '["N"]', "[[[78]]]", "[" * 100_000])
def test_foreign_json_line_is_left_out(message: str) -> None:
    xid = "NVRM: Xid (PCI:0000:41:00): 79, pid=1"
    assert [found.code for found in log.parse(f'{{"MESSAGE":{message}}}\n{{"MESSAGE": {{"NVRM":1}}}}\n{xid}')] == [79]


@pytest.mark.parametrize(
    "stamp",
    [
        "2026-13-01T10:00:00+00:00 h kernel:",
        "2026-01-01T25:00:00 h",
        "[Foo Bar 99 10:00:00 2026]",
        "0000-00-00T00:00:00",
    ],
)
def test_xid_with_an_impossible_time_counts_without_it(stamp: str) -> None:
    found = log.parse(f"{stamp} NVRM: Xid (PCI:0000:41:00): 79, pid=1")
    assert [(xid.code, xid.time) for xid in found] == [(79, None)]


def test_code_of_thousands_of_digits_is_no_xid() -> None:
    assert log.parse(f"NVRM: Xid (PCI:0000:41:00): {'9' * 5000}") == []
