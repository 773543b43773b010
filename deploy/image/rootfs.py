#!/usr/bin/env python3
"""Makes an image's root file system: programs, and of an extracted system the libraries that they load.

  rootfs.py PROGRAMS EXTRACTED ROOTFS [FILE=PLACE...]

PROGRAMS is a folder of ELF programs; each is stripped and goes to /usr/bin. The dynamic loader and every
library that is needed, by a program or by another library, comes from EXTRACTED (as mmdebstrap's variant
`extract` leaves it), with the copyright file of its package's folder. FILE=PLACE copies further files.
Ends with 78 and one line where a library is not in EXTRACTED.
"""
import pathlib
import re
import shutil
import subprocess
import sys

USER = 65532
LIBRARY_FOLDERS = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib", "usr/lib", "lib64")


class Missing(Exception):
    pass


def needed(file):
    """The names of the libraries that an ELF file asks for, and its loader."""
    dynamic = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    headers = subprocess.run(["readelf", "-l", file], capture_output=True, text=True, check=True).stdout
    return names + [pathlib.Path(p).name for p in re.findall(r"interpreter: (.+)\]", headers)]


def library(extracted, name):
    for folder in LIBRARY_FOLDERS:
        path = extracted / folder / name
        if path.exists():
            return path
    return None


def closure(programs, extracted):
    """All libraries that the programs load, by name; each a path in `extracted`."""
    found = {}
    waiting = [(name, str(program)) for program in programs for name in needed(program)]
    while waiting:
        name, by = waiting.pop()
        if name in found:
            continue
        path = library(extracted, name)
        if path is None:
            raise Missing(f"{name}, which {by} needs, is not among what rootfs.packages installs")
        found[name] = path
        waiting += [(other, name) for other in needed(path)]
    return found


def place(source, target, mode):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def make(programs, extracted, rootfs, extra):
    names = sorted(p.name for p in programs.iterdir() if p.is_file())
    for name in names:
        place(programs / name, rootfs / "usr/bin" / name, 0o755)
        subprocess.run(["strip", rootfs / "usr/bin" / name], check=True)
    for name, path in sorted(closure([rootfs / "usr/bin" / n for n in names], extracted).items()):
        folder = "lib64" if name.startswith("ld-linux") else "usr/lib/x86_64-linux-gnu"
        place(path.resolve(), rootfs / folder / name, 0o755)
    for link in ("lib/x86_64-linux-gnu",):
        (rootfs / link).parent.mkdir(parents=True, exist_ok=True)
        (rootfs / link).symlink_to("../usr/lib/x86_64-linux-gnu")
    for pair in extra:
        source, target = pair.split("=")
        place(pathlib.Path(source), rootfs / target.lstrip("/"), 0o644)
    etc = rootfs / "etc"
    etc.mkdir()
    (etc / "passwd").write_text(f"root:x:0:0::/:/\nsoapstone:x:{USER}:{USER}::/out:/\n")
    (etc / "group").write_text(f"root:x:0:\nsoapstone:x:{USER}:\n")
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    for folder in ("tmp", "out"):
        (rootfs / folder).mkdir(mode=0o777)
        (rootfs / folder).chmod(0o1777)


def main():
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 78
    try:
        make(*map(pathlib.Path, sys.argv[1:4]), sys.argv[4:])
    except Missing as missing:
        print(f"rootfs: {missing}", file=sys.stderr)
        return 78
    return 0


if __name__ == "__main__":
    sys.exit(main())
