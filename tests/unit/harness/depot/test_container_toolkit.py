"""The packages of NVIDIA's Container Toolkit are laid out as its own packaging says, for versions before and after 1.20."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.depot import container_toolkit

POSTINST = "#!/bin/sh\nset -e\n#DEBHELPER#\nexit 0\n"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Return a part of the module's sources, with units where 1.20 has them."""
    files = {
        "packaging/debian/nvidia-container-toolkit-base.install": (
            "nvidia-ctk /usr/bin\nnvidia-cdi-refresh.path /lib/systemd/system/\n"
            "nvidia-cdi-refresh.env /etc/nvidia-container-toolkit/\n"
        ),
        "packaging/debian/nvidia-container-toolkit-base.postinst": POSTINST,
        "packaging/debian/rules": "%:\n\tdh $@ --with systemd\n",
        "deployments/systemd/nvidia-cdi-refresh.path": "[Path]\n",
        "deployments/systemd/nvidia-cdi-refresh.env": "# settings\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_files_are_where_the_packaging_has_them(sources: Path) -> None:
    files = container_toolkit.installed(sources, "nvidia-container-toolkit-base", "1.20.1-1")
    assert files["usr/lib/systemd/system/nvidia-cdi-refresh.path"] == b"[Path]\n"
    assert files["DEBIAN/conffiles"] == b"/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env\n"
    assert b"deb-systemd-invoke start nvidia-cdi-refresh.path" in files["DEBIAN/postinst"]
    assert b"#DEBHELPER#" not in files["DEBIAN/postinst"]


def test_until_1_19_the_script_itself_enables_the_units(sources: Path) -> None:
    (sources / "packaging/debian/rules").write_text("%:\n\tdh $@\n")
    files = container_toolkit.installed(sources, "nvidia-container-toolkit-base", "1.20.1-1")
    assert files["DEBIAN/postinst"] == b"#!/bin/sh\nset -e\nexit 0\n"


def test_units_of_earlier_versions_go_from_etc(sources: Path) -> None:
    line = "rm_conffile /etc/systemd/system/x.path @VERSION@~ nvidia-container-toolkit-base\n"
    (sources / "packaging/debian/nvidia-container-toolkit-base.maintscript").write_text(line)
    files = container_toolkit.installed(sources, "nvidia-container-toolkit-base", "1.20.1-1")
    wanted = b'helper rm_conffile /etc/systemd/system/x.path 1.20.1-1~ nvidia-container-toolkit-base -- "$@"\n'
    scripts = [files[f"DEBIAN/{script}"] for script in ("preinst", "postinst", "prerm", "postrm")]
    assert all(wanted in script for script in scripts)


def test_both_versions_have_their_sums() -> None:
    assert len(container_toolkit.VERSIONS) == 2
    for version in container_toolkit.VERSIONS:
        text = (container_toolkit.FILES / version / "go.sum").read_text()
        assert f"{container_toolkit.MODULE} v{version} h1:" in text
