"""NVIDIA's Container Toolkit in a repository for apt, which the depot serves at `/libnvidia-container/` as nvidia.github.io does.

The programs are the real ones: `nvidia-ctk`, `nvidia-container-runtime`, `nvidia-container-runtime-hook` and `nvidia-cdi-hook`, built
from a committed go.mod and go.sum (`files/nvidia-container-toolkit/<version>/`). Units, settings, the udev rule and package scripts
are those of the same module's sources, and the packages have NVIDIA's names, versions and relations. libnvidia-container is C, and in no
module: `libnvidia-container1` and `libnvidia-container-tools` are fakes, whose `nvidia-container-cli` refuses everything. So what
needs it fails here: the runtime in its mode "legacy", and `--gpus` of a docker that does not know CDI.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from harness.depot import apt_repository
from harness.depot import lifecycle as depot
from harness.depot.apt_repository import Key, Package
from harness.progress import step
from harness.sandbox.lab import DEPOT, Refusal

MODULE = "github.com/NVIDIA/nvidia-container-toolkit"
FILES = depot.FILES / "nvidia-container-toolkit"
VERSIONS = tuple(sorted(path.name for path in FILES.iterdir()))
ROOT = "libnvidia-container"
FLAT = "stable/deb/amd64"
ABOUT = depot.STATE / "container_toolkit.json"
PROGRAMS = {
    "nvidia-container-toolkit-base": ("nvidia-ctk", "nvidia-container-runtime", "nvidia-cdi-hook"),
    "nvidia-container-toolkit": ("nvidia-container-runtime-hook",),
}
WITH_UNITS = ("nvidia-container-toolkit-base",)
CLI = """\
#!/bin/sh
echo "nvidia-container-cli: fake: libnvidia-container is missing (harness/depot/container_toolkit.py)" >&2
exit 1
"""


# --- Programs and files of a version ---


def build(version: str) -> dict[str, bytes]:
    """Build the programs of a version and return them by their names (a minute and a half)."""
    source = FILES / version
    with step(f"build NVIDIA's Container Toolkit {version}"), tempfile.TemporaryDirectory() as folder:
        # As its Makefile does: NVML is looked up while the program runs.
        flags = f"-s -w -X {MODULE}/internal/info.version={version}"
        command = ["go", "build", "-trimpath", "-buildvcs=false", f"-ldflags={flags}", "-o", f"{folder}/", "tool"]
        try:
            subprocess.run(
                command,
                cwd=source,
                env=os.environ | {"CGO_ENABLED": "1", "CGO_CFLAGS": "-O2 -Wno-deprecated-declarations"},
                check=True,
            )
        except FileNotFoundError:
            raise Refusal("go is missing: install Go 1.25 or newer and put it on PATH") from None
        except subprocess.CalledProcessError:
            raise Refusal(f"go did not build NVIDIA's Container Toolkit {version}: its words are above") from None
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def sources(version: str) -> Path:
    """Return the folder of the module's sources; Go downloads them where they are missing."""
    command = ["go", "mod", "download", "-json", MODULE]
    answer = subprocess.run(command, cwd=FILES / version, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Path(json.loads(answer)["Dir"])


def installed(root: Path, package: str, version: str) -> dict[str, bytes]:
    """Return the files of `packaging/debian/<package>.install`, without programs, and the package's scripts."""
    files = {}
    for line in (root / f"packaging/debian/{package}.install").read_text().splitlines():
        name, folder = line.split()
        for path in root.glob(f"deployments/*/{name}"):
            files[f"{folder.strip('/')}/{name}".replace("lib/", "usr/lib/", 1)] = path.read_bytes()
    for script in ("preinst", "postinst", "prerm", "postrm"):
        path = root / f"packaging/debian/{package}.{script}"
        text = path.read_text() if path.exists() else "#!/bin/sh\nset -e\n#DEBHELPER#\n"
        added = removed_conffiles(root, package, version) + (helper(root, script) if package in WITH_UNITS else "")
        if path.exists() or added:
            files[f"DEBIAN/{script}"] = text.replace("#DEBHELPER#\n", added).encode()
    conffiles = [f"/{name}" for name in files if name.startswith("etc/")]
    return files | ({"DEBIAN/conffiles": "".join(f"{name}\n" for name in conffiles).encode()} if conffiles else {})


def removed_conffiles(root: Path, package: str, version: str) -> str:
    """Return debhelper's lines for `<package>.maintscript`: since 1.20 they remove the units of earlier versions from /etc."""
    path = root / f"packaging/debian/{package}.maintscript"
    lines = path.read_text().replace("@VERSION@", version).splitlines() if path.exists() else []
    return "".join(f'dpkg-maintscript-helper {line} -- "$@"\n' for line in lines)


UNITS = "nvidia-cdi-refresh.path nvidia-cdi-refresh.service"
# debhelper's autoscripts: postinst-systemd-enable and postinst-systemd-start; postrm-systemd.
DEBHELPER = {
    "postinst": f"""\
for unit in {UNITS}; do
    if deb-systemd-helper --quiet was-enabled $unit; then
        deb-systemd-helper enable $unit >/dev/null || true
    else
        deb-systemd-helper update-state $unit >/dev/null || true
    fi
done
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
    deb-systemd-invoke start {UNITS} >/dev/null || true
fi
""",
    "postrm": f"""\
if [ "$1" = "purge" ] && [ -x /usr/bin/deb-systemd-helper ]; then
    deb-systemd-helper purge {UNITS} >/dev/null || true
fi
""",
}


def helper(root: Path, script: str) -> str:
    """Return debhelper's lines for units that `dh --with systemd` finds in /usr/lib; until 1.19 they are in /etc."""
    rules = (root / "packaging/debian/rules").read_text()
    return DEBHELPER.get(script, "") if "--with systemd" in rules else ""


def packages(version: str) -> dict[str, bytes]:
    """Build the four packages of a version and return `{file: content}`."""
    full = f"{version}-1"
    same = {
        "nvidia-container-toolkit": (
            f"nvidia-container-toolkit-base (= {full})",
            f"libnvidia-container-tools (= {full})",
            "libnvidia-container-tools (<< 2.0.0)",
        ),
        "nvidia-container-toolkit-base": (),
        "libnvidia-container-tools": (f"libnvidia-container1 (>= {full})",),
        "libnvidia-container1": (),
    }
    programs, root = build(version), sources(version)
    debs = {}
    for name, depends in same.items():
        files = {f"usr/bin/{program}": programs[program] for program in PROGRAMS.get(name, ())}
        if name in PROGRAMS:
            files |= installed(root, name, full)
        elif name == "libnvidia-container-tools":
            files |= {"usr/bin/nvidia-container-cli": CLI.encode()}
        package = Package(name, full, "nvidia-container-toolkit", relations={"Depends": depends})
        debs[package.file] = apt_repository.build(package, files)
    return debs


def pool(version: str) -> dict[str, bytes]:
    """Return the packages of a version, built once for the depots of all sandboxes."""
    recipe = apt_repository.recipe(Path(__file__), FILES / version)
    return depot.folder_once(f"container-toolkit-{version}-{recipe}", lambda: packages(version))


# --- In the depot ---


def repository(versions: Iterable[str], key: Key) -> dict[str, bytes]:
    """Return every file of the flat repository."""
    debs = {name: content for version in versions for name, content in pool(version).items()}
    indexes = apt_repository.indexes(apt_repository.packages_index(debs))
    release = apt_repository.release_file(indexes, Origin="NVIDIA", Label="NVIDIA Container Toolkit")
    return debs | indexes | apt_repository.signed(release, key)


def put() -> None:
    """Make sure that the depot has the repository, and that ABOUT has its addresses and the fingerprint of its key."""
    key = apt_repository.signing_key()
    files = repository(VERSIONS, key)
    depot.put(ROOT, {"gpgkey": key.public, **{f"{FLAT}/{name}": content for name, content in files.items()}})
    about = {
        "url": f"http://{DEPOT}/{ROOT}/stable/deb/$(ARCH)",
        "key_url": f"http://{DEPOT}/{ROOT}/gpgkey",
        "fingerprints": [key.fingerprint],
    }
    ABOUT.write_text(json.dumps(about, indent=1))


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in build(VERSIONS[-1]).items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o755)


if __name__ == "__main__":
    main(sys.argv[1:])
