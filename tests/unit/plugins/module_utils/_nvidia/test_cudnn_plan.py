# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_plan import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_plan import (
    MAJORS,
    PINNED,
    WHEELS,
    Plan,
    Request,
    majors_of,
    plan_absent,
    plan_present,
    read_wheels,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import version_key

BARE = Host("Debian", "13", "x86_64", free_bytes={"/opt": 100 * 1024**3})


def having(*names: str, **changes: Any) -> Host:
    return dataclasses.replace(BARE, packages={name: Package("1") for name in names}, **changes)


def refusals(plan: Plan) -> str:
    return "\n".join(f"{row['variable']} {row['problem']}: {row['remedy']}" for row in plan.requirements)


@pytest.mark.parametrize(
    ("host", "majors"),
    [
        (BARE, []),
        (having("cuda-toolkit-12-9", "cuda-toolkit-12-8", "cuda-toolkit-13-0"), [13, 12]),
        (having("cuda-toolkit-12-9", "cuda-toolkit-13-0", alternatives={"cuda": "/usr/local/cuda-12.9"}), [12, 13]),
        (having("cuda-toolkit-13-config-common", "cuda-toolkit-config-common"), []),
        (dataclasses.replace(BARE, packages={"nvidia-cuda-toolkit": Package("12.4.131~12.4.1-2")}), [12]),
    ],
)
def test_the_default_toolkit_s_cuda_comes_first(host, majors):
    assert majors_of(host) == majors


def test_toolkits_of_the_repository_get_its_packages():
    plan = plan_present(having("cuda-toolkit-13-0", "gcc", "libc6-dev"), Request())

    assert (plan.source, plan.install, plan.wheels) == ("cuda_repository", ["cudnn9-cuda-13"], [])
    assert refusals(plan) == ""


def test_the_archive_s_toolkit_gets_the_wheel():
    host = dataclasses.replace(BARE, packages={"nvidia-cuda-toolkit": Package("12.4.131~12.4.1-2")})

    plan = plan_present(host, Request())

    assert plan.source == "wheel"
    assert plan.wheels == [{"cuda": 12, "version": PINNED, "sha256": list(WHEELS[PINNED][12])}]
    assert plan.install == ["gcc", "libc6-dev", "zlib1g", "libstdc++6", "python3-pip"]


def test_another_source_takes_the_packages_of_the_first_away():
    host = having("cudnn9-cuda-13", "gcc", "libc6-dev", installed=frozenset({"cudnn9-cuda-13"}))

    plan = plan_present(host, Request("wheel", (13,)))

    assert plan.remove == ["cudnn9-cuda-13"]
    assert plan.installed == []


def test_absent_removes_only_packages_of_nvidia():
    tools = ("gcc", "libc6-dev", "zlib1g", "libstdc++6", "python3-pip")
    plan = plan_present(having(), Request("cuda_repository", (13,)))
    host = having("cudnn9-cuda-13", *tools, installed=frozenset(plan.installed))

    assert plan_absent(host).remove == ["cudnn9-cuda-13"]


def test_a_wheel_of_the_user_s_own():
    plan = plan_present(BARE, Request("wheel", (12,), "9.99.0.1", read_wheels({"9.99.0.1": {"12": ["ab" * 32]}})))

    assert refusals(plan) == ""
    assert plan.wheels == [{"cuda": 12, "version": "9.99.0.1", "sha256": ["ab" * 32]}]


@pytest.mark.parametrize(
    ("wheels", "message"),
    [
        ({"9.99.0.1": ["ab" * 32]}, "9.99.0.1 has no table of checksums"),
        ({"9.99.0.1": {"cu12": ["ab" * 32]}}, "9.99.0.1 has no table of checksums"),
        ({"9.99.0.1": {12: "ab" * 32}}, "not a SHA-256 of 64 hexadecimal digits in a list"),
        ({"9.99.0.1": {12: ["ab"]}}, "not a SHA-256 of 64 hexadecimal digits in a list"),
        ({"9.99.0.1": {12: []}}, "not a SHA-256 of 64 hexadecimal digits in a list"),
        ({"../../../x": {12: ["ab" * 32]}}, "../../../x is no version of cuDNN"),
    ],
)
def test_invalid_table_of_wheels_is_refused(wheels, message):
    with pytest.raises(ValueError, match=message):
        read_wheels(wheels)


@pytest.mark.parametrize(
    ("host", "request_", "message"),
    [
        (BARE, Request(), "cudnn_cuda_majors is empty, and no CUDA toolkit is installed"),
        (
            BARE,
            Request("wheel", (11, 13)),
            "cudnn_cuda_majors has 11, and there is no cuDNN 9 for that: choose among 12, 13",
        ),
        (BARE, Request("wheel", (13, 13)), "cudnn_cuda_majors has a number twice"),
        (
            BARE,
            Request("wheel", (13,), "9.0.0.312"),
            "cudnn_version is 9.0.0.312, of which no SHA-256 is known for CUDA 13",
        ),
        (
            BARE,
            Request("cuda_repository", (13,), PINNED),
            f"cudnn_version is {PINNED}, and the repository gives its newest",
        ),
        (
            Host("Debian", "12", "aarch64"),
            Request("cuda_repository", (12,)),
            "NVIDIA has none that is known for Debian 12 on aarch64: set it to wheel",
        ),
        (
            dataclasses.replace(BARE, free_bytes={"/opt": 3 * 1024**3}),
            Request("wheel", (13, 12)),
            "cudnn_cuda_majors needs 4 GiB, and /opt has 3.0 GiB left",
        ),
    ],
)
def test_impossible_request_is_refused_with_a_remedy(host, request_, message):
    assert message in refusals(plan_present(host, request_))


def test_every_pinned_wheel_has_a_checksum_for_each_machine():
    for version, majors in WHEELS.items():
        assert re.fullmatch(r"9\.\d+\.\d+\.\d+", version)
        # 9.12 is the first for CUDA 13.
        assert tuple(sorted(majors)) == (MAJORS if version_key(version) >= version_key("9.12") else (12,))
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for sums in majors.values() for digest in sums)
        assert all(len(set(sums)) == 2 for sums in majors.values())


@pytest.mark.parametrize(
    "request_",
    [
        Request(),
        Request("wheel"),
        Request("cuda_repository"),
        Request(cuda_majors=(13,)),
        Request("wheel", (13,), PINNED),
    ],
)
def test_old_card_beside_a_newer_one_is_named_and_allowed(request_):
    plan = plan_present(having("cuda-toolkit-13-0", generations=("Pascal", "Ada")), request_)
    alone = plan_present(having("cuda-toolkit-13-0", generations=("Ada",)), request_)
    assert refusals(plan) == "" and alone.findings == []
    assert (plan.source, plan.majors, plan.install, plan.wheels) == (
        alone.source,
        alone.majors,
        alone.install,
        alone.wheels,
    )
    evidence = "the GPU of Pascal has no kernels in this cuDNN, which is for Ada"
    assert [(row["id"], row["status"], row["evidence"]) for row in plan.findings] == [("cudnn.gpus", "warn", evidence)]


def test_cudnn_with_kernels_for_all_cards_is_worth_no_finding():
    plan = plan_present(having(generations=("Pascal", "Ada")), Request("wheel", (12,), "9.10.2.21"))
    assert (refusals(plan), plan.findings) == ("", [])


def test_refusal_names_no_version_that_nobody_named():
    found = refusals(plan_present(having(generations=("Pascal", "Volta")), Request("wheel", (13,))))
    assert "is the last for Pascal" in found and "cudnn_version" not in found
