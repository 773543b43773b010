#!/usr/bin/env python3
"""clang's thread-safety analysis of all files that say which mutex guards what; and that it finds a fault.

usage: thread_safety.py BUILD     BUILD: a configured and built folder, for what is generated there. The last line:
"passed failed", a file being one test.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

import rules

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COMPILER = "clang++-14"
ANNOTATED = re.compile(r"\bABSL_(GUARDED_BY|PT_GUARDED_BY|EXCLUSIVE_LOCKS_REQUIRED|LOCKS_EXCLUDED)\(")
# As rules.py: no headers of CUDA where there is no toolkit.
LEFT_OUT = ("compute/cuda/",)
PLANTED = """#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
class Planted {
 public:
  int Get() { return value_; }
 private:
  soapstone::Mutex mutex_;
  int value_ ABSL_GUARDED_BY(mutex_) = 0;
};
int Use(Planted* planted) { return planted->Get(); }
"""


def analyse(build, text):
    """What clang says of a translation unit. Empty: nothing."""
    command = [COMPILER, "-std=c++20", "-fsyntax-only", "-Wthread-safety", "-Werror", "-x", "c++", "-I", str(ROOT),
               "-isystem", build, "-isystem", os.path.join(build, "wire"), "-"]
    done = subprocess.run(command, cwd=ROOT, input=text, stderr=subprocess.PIPE, text=True)
    return done.stderr if done.returncode != 0 else ""


def main(build):
    tree = rules.Tree(ROOT)
    names = set()
    for name in tree.of(rules.CPP):
        if not name.startswith(LEFT_OUT) and ANNOTATED.search(tree.text(name)):
            source = str(pathlib.PurePath(name).with_suffix(".cc"))
            names.add(source if source in tree.files else name)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = pool.map(lambda name: (name, analyse(build, f'#include "{name}"\n')), sorted(names))
        for name, text in said:
            if text:
                failed += 1
                print(f"{name}: {text}", file=sys.stderr)
    if "requires holding mutex 'mutex_'" not in analyse(build, PLANTED):
        failed += 1
        print("a planted fault was not found", file=sys.stderr)
    print(len(names) + 1 - failed, failed)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
