# SPDX-License-Identifier: GPL-3.0-or-later
"""The menu of GRUB, and the entry that it boots. The kernel that this comes to: test_kernels.py."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.grub import Entry, read_menu, select

MENU = [
    Entry({"Debian", "simple"}, kernel="6.2"),
    Entry({"More", "advanced"}, [Entry({"Old"}, kernel="6.1"), Entry({"a>b"}, kernel="5.9")]),
    Entry({"Firmware"}),
]


@pytest.mark.parametrize(
    ("default", "kernel"),
    [
        ("0", "6.2"),
        ("simple", "6.2"),
        ("1>1", "5.9"),
        ("1> 0", "6.1"),
        ("More>Old", "6.1"),
        ("advanced>a>>b", "5.9"),
        ("advanced", "6.1"),
        ("Old", "6.2"),
        ("9", "6.2"),
        ("2", ""),
    ],
)
def test_default_selects_an_entry(default: str, kernel: str) -> None:
    entry = select(MENU, default)
    assert entry and entry.kernel == kernel


def test_menu_has_its_submenus_and_no_functions() -> None:
    text = (
        "function load_video {\n  insmod all_video\n}\n"
        "menuentry 'A' --class os $menuentry_id_option 'a' {\n\tlinux /boot/vmlinuz-6.2 ro\n}\n"
        "submenu \"B\" {\n\tmenuentry 'C' {\n\t\tif [ ${x} = y ]; then insmod z; fi\n\t\tlinux /vmlinuz-6.1\n\t}\n}\n"
        "menuentry 'D' {\n\tchainloader +1\n}\n"
    )
    assert read_menu(text) == [
        Entry({"A", "a"}, kernel="6.2"),
        Entry({"B"}, [Entry({"C"}, kernel="6.1")]),
        Entry({"D"}),
    ]


def test_empty_menu_selects_nothing() -> None:
    assert select([], "0") is None
