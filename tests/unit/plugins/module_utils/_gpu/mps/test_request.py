# SPDX-License-Identifier: GPL-3.0-or-later
"""What a request for MPS daemons comes to, and what is refused before anything is written."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import (
    Device,
    Namespace,
    Partition,
    Wanted,
    advised_percentage,
    driver_major,
    find,
    protocol_for,
    size_mib,
    wanted,
)

A, B, MIG = "GPU-aaaaaaaa", "GPU-bbbbbbbb", "MIG-cccccccc"
H200 = Device(A, "0", "0000:41:00.0", "NVIDIA H200", capability=(9, 0), memory_mib=143771)
SECOND = Device(B, "1", "0000:42:00.0", "NVIDIA H200", capability=(9, 0), memory_mib=143771)
DIVIDED = Device(A, "0", "0000:41:00.0", "NVIDIA H200", divided=True, capability=(9, 0))
INSTANCE = Device(MIG, parent=A, capability=(9, 0), memory_mib=20000)


def read(*devices: Device, driver: str = "580.159.04", root: str = "/run/nvidia-mps", **request: Any) -> Wanted:
    return wanted(
        [cast(Any, {"name": "team", **request})], devices or (H200, SECOND), driver, root, "/var/log/nvidia-mps"
    )


def refusal(*devices: Device, **request: Any) -> str:
    (text,) = read(*devices, **request).refusals
    return text


def test_a_request_becomes_a_daemon_with_uuids() -> None:
    parsed = read(
        devices=["0", "00000000:42:00.0"], active_thread_percentage=50, memory_limits={"all": "10G", "1": "512M"}
    )
    (daemon,) = parsed.daemons
    assert parsed.refusals == []
    assert (daemon.devices, daemon.memory_mib) == ((A, B), {A: 10240, B: 512})
    assert (daemon.pipe, daemon.log, daemon.protocol) == (
        "/run/nvidia-mps/team",
        "/var/log/nvidia-mps/team",
        2,
    )


def test_no_devices_means_all_undivided_gpus() -> None:
    assert read(DIVIDED, INSTANCE, SECOND).daemons[0].devices == (B,)


@pytest.mark.parametrize("word", [A, A.upper(), "0", "0000:41:00.0", "00000000:41:00.0", "0000:41:00.0 "])
def test_device_is_found_by_each_of_its_names(word: str) -> None:
    assert find([SECOND, H200], word) is H200


@pytest.mark.parametrize("word", ["", "2", "GPU-", "00", "0000:43:00.0"])
def test_unknown_device_names_are_not_found(word: str) -> None:
    assert find([SECOND, H200, INSTANCE], word) is None


@pytest.mark.parametrize(
    ("text", "mib"), [("20G", 20480), ("512M", 512), ("0G", None), ("20", None), ("1.5G", None), ("20GB", None)]
)
def test_a_size_is_an_integer_with_g_or_m(text: str, mib: int | None) -> None:
    assert size_mib(text) == mib


# --- Traps of gpu.md 2.4 to 2.6 and what is refused ---


def test_memory_limit_of_another_gpu_is_refused() -> None:
    assert "would drop all its limits" in refusal(devices=["0"], memory_limits={"0": "1G", "1": "1G"})
    assert A in refusal(devices=["0"], memory_limits={"7": "1G"})


def test_unknown_uuid_is_refused_on_protocol_3() -> None:
    text = refusal(devices=["GPU-none"], driver="615.71.09")
    assert text == f"daemons[team].devices: no device is 'GPU-none'; there are 0 = {A}, 1 = {B}"


def test_a_divided_gpu_is_refused_and_its_instances_are_named() -> None:
    assert refusal(DIVIDED, INSTANCE, devices=["0"]).endswith(f"name one of {MIG}")


def test_mig_instance_needs_compute_mode_default() -> None:
    assert read(DIVIDED, INSTANCE, devices=[MIG]).refusals == []
    exclusive = Device(MIG, parent=A, compute_mode="EXCLUSIVE_PROCESS")
    assert "not EXCLUSIVE_PROCESS" in refusal(DIVIDED, exclusive, devices=[MIG])


def test_a_daemon_has_one_instance() -> None:
    other = Device("MIG-dddddddd", parent=A)
    assert "a daemon has one MIG instance" in refusal(DIVIDED, INSTANCE, other, devices=[MIG, other.uuid])


def test_an_exclusive_gpu_takes_the_server_of_one_daemon() -> None:
    exclusive = Device(A, "0", compute_mode="EXCLUSIVE_PROCESS")
    requests: list[Any] = [{"name": name, "devices": ["0"]} for name in ("vision", "speech")]
    assert wanted(requests[:1], [exclusive], "580.1", "/run/m", "/l").refusals == []
    (text,) = wanted(requests, [exclusive], "580.1", "/run/m", "/l").refusals
    assert "vision and speech share" in text


def test_a_prohibited_gpu_is_refused() -> None:
    assert "PROHIBITED" in refusal(Device(A, "0", compute_mode="PROHIBITED"))


@pytest.mark.parametrize("percentage", [0, -1, 101])
def test_a_percentage_is_1_to_100(percentage: int) -> None:
    assert refusal(active_thread_percentage=percentage).endswith(f"{percentage} is not possible; 1 to 100 is")


def test_percentage_with_static_partitions_is_refused() -> None:
    parts = [{"name": "a", "device": "0", "chunks": 8}]
    assert "is ignored where there are partitions" in refusal(
        devices=["0"], active_thread_percentage=50, partitions=parts
    )
    assert read(devices=["0"], partitions=parts).daemons[0].partitions == (Partition("a", A, 8),)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"name": "a", "device": "1", "chunks": 8}, "has no device '1'"),
        ({"name": "a", "device": "0", "chunks": 0}, "0 chunks are not possible"),
        ({"name": "a b", "device": "0", "chunks": 1}, "is no name"),
    ],
)
def test_impossible_partition_is_refused(part: Any, message: str) -> None:
    assert message in refusal(devices=["0"], partitions=[part])


def test_partitions_have_names_of_their_own() -> None:
    parts = [{"name": "a", "device": "0", "chunks": 1}] * 2
    assert "two have the same name" in refusal(devices=["0"], partitions=parts)


def test_one_user_and_all_users_exclude_each_other() -> None:
    assert "exclude each other" in refusal(user="alice", multiuser=True)


def test_an_old_card_has_no_server_for_all_users() -> None:
    assert "needs Volta" in refusal(dataclasses.replace(H200, capability=(6, 1)), multiuser=True)
    assert not read(dataclasses.replace(H200, capability=None), multiuser=True).refusals


def test_too_long_socket_path_is_refused() -> None:
    assert "a socket may have 107" in refusal(root=f"/run/{'x' * 100}")


@pytest.mark.parametrize("name", ["", "1st", "a/b", "a b", "x" * 33, "ä"])
def test_a_name_that_makes_no_unit_is_refused(name: str) -> None:
    assert "is no name" in refusal(name=name)


def test_duplicate_names_are_refused() -> None:
    (text,) = wanted([{"name": "a"}, {"name": "a"}], [H200], "580.1", "/run/m", "/l").refusals
    assert "a is there twice" in text


def test_a_v100_is_volta_and_takes_48_clients_and_limits() -> None:
    v100 = Device(A, "0", capability=(7, 0), memory_mib=16384)
    assert read(v100, active_thread_percentage=50, clients=48).refusals == []
    assert "are too many: MPS takes 48" in refusal(v100, clients=49)


def test_older_cards_have_no_limits_and_16_clients() -> None:
    pascal = Device(A, "0", capability=(6, 1))
    assert "older than Volta" in refusal(pascal, active_thread_percentage=50)
    assert "MPS takes 16" in refusal(pascal, clients=17)


# --- Advice ---


@pytest.mark.parametrize(("clients", "percentage"), [(1, 100), (2, 100), (3, 67), (4, 50), (8, 25), (48, 4)])
def test_nvidia_advises_100_by_half_of_the_clients(clients: int, percentage: int) -> None:
    assert advised_percentage(clients) == percentage


def test_percentage_that_differs_from_the_advice_is_reported() -> None:
    ampere = dataclasses.replace(H200, name="NVIDIA A100", capability=(8, 0))
    parsed = read(ampere, clients=4, active_thread_percentage=25)
    assert (parsed.refusals, parsed.advice) == (
        [],
        ["team: NVIDIA advises 50 % for 4 clients, 100 / (0.5 n); it is 25 %"],
    )
    assert read(clients=4, active_thread_percentage=50).advice == []
    assert read(clients=2).advice == []


@pytest.mark.parametrize("percentage", [20, 30, 40, 60, 65, 70, 75, 80])
def test_percentage_with_wrong_matrix_products_is_reported(percentage: int) -> None:
    parsed = read(active_thread_percentage=percentage)
    (text,) = parsed.advice
    assert (parsed.refusals, parsed.daemons[0].percentage) == ([], percentage)
    assert text.startswith(f"team: {percentage} % is none") and "10, 50, 90, 100 %" in text


@pytest.mark.parametrize("percentage", [None, 10, 50, 90, 100])
def test_percentage_with_right_products_has_no_advice(percentage: int | None) -> None:
    assert read(active_thread_percentage=percentage).advice == []


@pytest.mark.parametrize("capability", [(8, 0), (10, 0), None])
def test_unmeasured_cards_have_no_advice_on_percentages(capability: tuple[int, int] | None) -> None:
    assert read(dataclasses.replace(H200, capability=capability), active_thread_percentage=70).advice == []


def test_a_percentage_of_an_instance_was_not_measured() -> None:
    (text,) = read(DIVIDED, INSTANCE, devices=[MIG], active_thread_percentage=50).advice
    assert "on Hopper (100 %)" in text
    assert read(DIVIDED, INSTANCE, devices=[MIG], active_thread_percentage=100).advice == []


def test_percentages_of_namespaces_are_reported_once() -> None:
    namespaces = [{"name": "a", "active_thread_percentage": 70}, {"name": "b"}, {"name": "c"}]
    parsed = read(driver="615.10", namespaces=namespaces, active_thread_percentage=20)
    assert [text.split(" is ")[0] for text in parsed.advice] == ["team: 20 %", "team: 70 %"]


def test_limit_above_the_memory_is_reported() -> None:
    assert "limits nothing" in read(devices=["0"], memory_limits={"0": "200G"}).advice[0]


# --- Protocol 3 ---


@pytest.mark.parametrize(
    ("requested", "driver", "protocol"),
    [("auto", "580.159.04", 2), ("auto", "615.71.09", 3), ("2", "615.71.09", 2), ("auto", "", 2)],
)
def test_protocol_3_is_from_driver_615_on(requested: str, driver: str, protocol: int) -> None:
    assert protocol_for(requested, driver) == protocol
    assert driver_major("615.71.09") == 615


def test_protocol_3_on_an_older_driver_is_refused() -> None:
    assert "3 needs driver 615, this is 580.159.04" in refusal(protocol="3")


def test_namespaces_need_protocol_3() -> None:
    assert "need protocol 3" in refusal(namespaces=[{"name": "eval"}])


def test_namespace_gets_the_limits_of_its_daemon() -> None:
    parsed = read(
        driver="615.71.09",
        active_thread_percentage=50,
        memory_limits={"all": "10G"},
        priority="below_normal",
        namespaces=[
            {"name": "eval"},
            {"name": "fast", "active_thread_percentage": 80, "memory_limit": "4G", "priority": "normal"},
        ],
    )
    assert parsed.daemons[0].namespaces == (Namespace("eval", 50, 10240, 1), Namespace("fast", 80, 4096, 0))


@pytest.mark.parametrize("name", ["Eval", "a-b", "default", ""])
def test_a_name_that_makes_no_namespace_is_refused(name: str) -> None:
    assert "is no name" in refusal(driver="615.71.09", namespaces=[{"name": name}])


def test_a_server_of_protocol_3_has_one_limit_of_memory() -> None:
    assert "the same for each device" in refusal(driver="615.1", memory_limits={"0": "1G", "1": "2G"})
    assert "name every device" in refusal(driver="615.1", memory_limits={"0": "1G"})
    assert read(driver="615.1", name="Team-A", memory_limits={"all": "1G"}).daemons[0].server == "team_a"


def test_absent_daemon_can_name_removed_devices() -> None:
    assert read(state="absent", devices=["GPU-gone"], memory_limits={"GPU-gone": "1G"}).refusals == []
