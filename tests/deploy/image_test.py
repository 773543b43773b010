#!/usr/bin/env python3
"""The container image's recipe: one user, no shell, no stranger's base; and every library that a program of the build
loads comes with a package that deploy/image/rootfs.packages names, or with one that such a package needs.

  image_test.py BIN
Ends with 77 where packages are not Debian's."""
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = None
PROGRAMS = ("soapstone", "soapstone-scheduler", "soapstone-server", "soapstone-worker")


def text_of(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "LC_ALL": "C"}).stdout


def packages():
    return {line for line in (ROOT / "deploy/image/rootfs.packages").read_text().split("\n")
            if line and not line.startswith("#")}


def all_needed(names):
    """Packages that are installed with `names`: these, and what they depend on, by the machine's own list."""
    rows = text_of("dpkg-query", "-W", "-f", "${Package}\t${Pre-Depends}, ${Depends}\n").splitlines()
    depends = {name: {re.split(r"[ :(]", each.strip())[0] for each in re.split(r"[,|]", on) if each.strip()}
               for name, on in (row.split("\t") for row in rows)}
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += depends.get(name, ())
    return found


@functools.cache
def package_of(library):
    """The package that a path is of, which may lie in /lib as the loader says or in /usr/lib."""
    path = os.path.realpath(library)
    for each in (path, path.removeprefix("/usr"), "/usr" + path):
        owner = text_of("dpkg", "-S", each)
        if owner:
            return owner.split(":")[0]
    return None


@functools.cache
def loaded(program):
    """Paths of the libraries that the program itself asks for."""
    names = re.findall(r"\(NEEDED\).*\[(.+)\]", text_of("readelf", "-d", program))
    paths = dict(re.findall(r"^\s*(\S+) => (/\S+)", text_of("ldd", program), re.M))
    return [paths[name] for name in names if name in paths]


def left_out(names):
    """Libraries of the programs that no package among `names`, and what these need, brings."""
    brought = all_needed(names)
    libraries = {path for program in PROGRAMS for path in loaded(f"{BIN}/{program}")}
    return {path for path in libraries if package_of(path) not in brought}


class ImageTest(unittest.TestCase):
    def test_every_library_comes_along(self):
        self.assertGreater(len(loaded(f"{BIN}/soapstone-server")), 10)
        self.assertEqual(left_out(packages()), set())

    def test_every_package_is_needed(self):
        # So a package that is not listed is noticed as well.
        for name in sorted(packages()):
            rest = all_needed(packages() - {name})
            if name not in rest:
                with self.subTest(name):
                    self.assertNotEqual(left_out(packages() - {name}), set())

    def test_one_user_and_no_stranger(self):
        text = (ROOT / "deploy/image/Containerfile").read_text()
        self.assertRegex(text, r"(?m)^USER 65532:65532$")
        self.assertNotRegex(text, r"(?m)^ADD ")
        self.assertEqual(re.findall(r"(?m)^FROM (.*)$", text), ["scratch"])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        sys.exit(78)
    BIN = os.path.abspath(sys.argv.pop(1))
    if not shutil.which("dpkg-query") or not shutil.which("readelf"):
        print("SKIPPED: no dpkg or no readelf", file=sys.stderr)
        sys.exit(77)
    unittest.main()
