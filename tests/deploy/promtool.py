"""Programs of Debian's package `prometheus`, unpacked beside the build's: installed, it would start a service."""
import os
import shutil
import subprocess
import tempfile

NAMES = ("promtool", "prometheus")


def promtool(programs):
    """Its path, or None where it cannot be had. `programs`: the folder of the build's programs."""
    return shutil.which("promtool") or _unpacked(programs, "promtool")


def prometheus(programs):
    """The same of the server."""
    return shutil.which("prometheus") or _unpacked(programs, "prometheus")


def _unpacked(programs, name):
    build = os.path.dirname(os.path.abspath(programs))
    path = os.path.join(build, "prometheus", name)
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=build) as work:  # two may be at it: what is there is whole
            script = "apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb ."
            subprocess.run(["timeout", "60", "sh", "-c", script], cwd=work, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            for each in NAMES:
                found = os.path.join(work, "usr/bin", each)
                if os.path.exists(found):
                    os.replace(found, os.path.join(build, "prometheus", each))
    return path if os.path.exists(path) else None
