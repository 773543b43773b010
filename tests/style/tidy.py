#!/usr/bin/env python3
"""clang-tidy of all files that are not as they were when it last found nothing; and that it finds a fault.

usage: tidy.py BUILD [--rest | --whole] [--write]     BUILD: a configured and built folder, for what is generated there
  --rest    also files that nobody has looked at yet: what is left of a whole run that was ended
  --whole   all files, not only those that differ from tests/tidied
  --write   tests/tidied says of each file that was looked at whether nothing was found, as soon as that is known

tests/tidied has a line a file: the first digits of its SHA-256, behind a "-" where nobody has looked at it as it is, and
its name; and one for .clang-tidy: where that differs, or there is no record, all files are looked at. So is a file without
a line, and one that was changed since. (Digests and no
commit: what continuous integration checks out may have no history.) The last line printed: "passed failed", a file being
one test.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import rules

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TIDY = "clang-tidy-14"
RECORD = "tests/tidied"
RULES = ".clang-tidy"
# Headers of CUDA, which are not there without a toolkit.
LEFT_OUT = ("compute/cuda/",)
# Half the time of a file is its headers: so many of a folder are one translation unit.
TOGETHER = 8
DIGITS = 16
NOT_YET = "-"
DIAGNOSTIC = re.compile(r"^(\S+?):(\d+):\d+: (?:warning|error): (.*) \[([\w.,-]+)\]$", re.M)
# The unit itself is no file of the tree: it includes .cc files.
CHECKS = "-bugprone-suspicious-include"
PLANTED = "class planted_badly {};\n"


def digest(root, name):
    return hashlib.sha256((root / name).read_bytes()).hexdigest()[:DIGITS]


def record(root):
    """{file: the digest with which nothing was found; behind NOT_YET: with which nobody looked}"""
    path = root / RECORD
    if not path.exists():
        return {}
    return {name: value for value, name in (line.split() for line in path.read_text().splitlines() if not line.startswith("#"))}


def files(root):
    return [name for name in rules.Tree(root).of({".h", ".cc"}) if not name.startswith(LEFT_OUT)]


def changed(root, names, rest=False):
    """Of `names`, those that are not as they were; all of them, where the checks are not or there is no record. With `rest`
    also those that nobody has looked at."""
    tidied = record(root)
    if tidied.get(RULES) != digest(root, RULES):
        return list(names)
    return [name for name in names
            if rest and tidied.get(name, "").startswith(NOT_YET) or
            tidied.get(name, "").removeprefix(NOT_YET) != digest(root, name)]


def header_of(name):
    """The header of a source's name, where the source includes it; else None."""
    path = pathlib.PurePath(name)
    header = str(path.with_suffix(".h"))
    if path.suffix != ".cc" or not (ROOT / header).exists():
        return None
    return header if f'#include "{header}"' in (ROOT / name).read_text() else None


def batches(names):
    """Lists of files that are looked at as one translation unit: of one folder, tests apart. A header is looked at in its
    source's, where that uses it."""
    with_sources, groups = {header_of(name) for name in names}, {}
    for name in names:
        path = pathlib.PurePath(name)
        if name in with_sources:
            continue
        groups.setdefault((str(path.parent), path.stem.endswith("_test")), []).append(name)
    for _, group in sorted(groups.items()):
        for first in range(0, len(group), TOGETHER):
            yield group[first:first + TOGETHER]


def seen_in(batch, wanted):
    """The files of `wanted` that are looked at with a batch: those, and the headers of its sources."""
    headers = {header_of(name) for name in batch}
    return [name for name in wanted if name in batch or name in headers]


def findings(root, build, batch, wanted):
    """{"file:line: what"} of the files `wanted`, as clang-tidy sees them in a unit that includes all of `batch`."""
    with tempfile.TemporaryDirectory(prefix="soapstone-tidy-") as folder:
        unit = pathlib.Path(folder, "unit.cc")
        unit.write_text("".join(f'#include "{name}"\n' for name in batch))
        lines = json.dumps([{"name": str(root / name)} for name in wanted])
        command = [TIDY, "--quiet", f"--config-file={root / RULES}", f"--checks={CHECKS}", f"--header-filter=^{re.escape(str(root))}/",
                   f"--line-filter={lines}", str(unit), "--", "-std=c++20", "-I", str(root), "-isystem", build,
                   "-isystem", f"{build}/tests/fuzz/corpus_test",
                   "-isystem", os.path.join(build, "wire"), f'-DSOAPSTONE_SOURCE_DIR="{root}"',
                   f'-DSOAPSTONE_BINARY_DIR="{build}"', "-Wno-unused-function", "-Wno-pragma-once-outside-header"]
        done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = {f"{os.path.relpath(file, root)}:{line}: {what} [{check.split(',')[0]}]" for file, line, what, check in
            DIAGNOSTIC.findall(done.stdout)}
    if not said and done.returncode != 0:
        said = {f"{batch[0]}:1: clang-tidy failed: {done.stdout.strip()[-2000:]}"}
    return said


def look_at(root, build, batch, wanted):
    """As findings(); where the batch cannot be one unit, for two of its files have something of one name, file by file."""
    said = findings(root, build, batch, wanted)
    if len(batch) > 1 and any("clang-diagnostic-error" in line or "clang-tidy failed" in line for line in said):
        said = set().union(*(findings(root, build, [name], wanted) for name in batch))
    return said


def look_and_digest(root, build, batch, wanted):
    """(as look_at(), {file: its digest}): of before the look, since a file may be changed during it."""
    digests = {name: digest(root, name) for name in seen_in(batch, wanted)}
    return look_at(root, build, batch, wanted), digests


def planted(build):
    """Whether a fault is found in a source, in a header in a room below a room, and in one with a digit in its name."""
    with tempfile.TemporaryDirectory(prefix="soapstone-tidy-") as folder:
        root = pathlib.Path(folder).resolve()
        (root / RULES).write_text((ROOT / RULES).read_text())
        names = ["base/planted.cc", "base/planted.h", "server/room/planted64.h"]
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            text = PLANTED.replace("badly", pathlib.PurePath(name).name.replace(".", "_"))
            (root / name).write_text(('#include "base/planted.h"\n' if name.endswith(".cc") else "#pragma once\n") + text)
        said = {line for batch in batches(names) for line in look_at(root, build, batch, names)}
        return [name for name in names if not any(line.startswith(name) and "identifier-naming" in line for line in said)]


class Record:
    """tests/tidied, as it is while files are looked at."""

    def __init__(self, root, names):
        before = record(root)
        same_rules = before.get(RULES) == digest(root, RULES)
        self.root = root
        self.tidied = {name: before[name] if name in before and same_rules else NOT_YET + digest(root, name)
                       for name in names if not before or not same_rules or name in before}
        self.tidied[RULES] = digest(root, RULES)

    def take(self, digests, found_in):
        """Nothing was found in those that were looked at, as they were then, but for those that something was found in."""
        self.tidied.update(digests)
        for name in found_in:
            self.tidied.pop(name, None)  # as a new one: it is looked at until nothing is found
        lines = ["# What clang-tidy last found nothing in (tests/style/tidy.py BUILD --write)."]
        lines += [f"{value} {name}" for name, value in sorted(self.tidied.items())]
        (self.root / RECORD).write_text("\n".join(lines) + "\n")


def main(arguments):
    build = os.path.abspath(arguments.build)
    names = files(ROOT)
    wanted = names if arguments.whole else changed(ROOT, names, arguments.rest)
    tidied = Record(ROOT, names) if arguments.write else None
    began, said, done = time.monotonic(), set(), 0
    todo = list(batches(wanted))
    for name in planted(build):
        said.add(f"{name}:1: a planted fault was not found")
        print(f"{name}: a planted fault was not found", file=sys.stderr)
        tidied, todo = None, []  # whoever does not find that finds nothing
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        looks = [pool.submit(look_and_digest, ROOT, build, batch, wanted) for batch in todo]
        for look in looks:
            found, digests = look.result()
            done += 1
            for line in sorted(found - said):
                print(line, file=sys.stderr, flush=True)
            said |= found
            if tidied:
                tidied.take(digests, {line.partition(":")[0] for line in said})
            if sys.stderr.isatty():
                print(f"\r{done} of {len(todo)} units, {time.monotonic() - began:.0f} s", end="", file=sys.stderr)
    failed = len({line.partition(":")[0] for line in said})
    print(len(wanted) + 1 - failed, failed)
    return failed > 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rest", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--write", action="store_true")
    sys.exit(main(parser.parse_args()))
