"""Prints "passed failed skipped" of a ctest JUnit file; says which tests failed, and which
were skipped, on standard error.

usage: junit_counts.py RESULTS.xml CTEST.log SHARDS
SHARDS: a folder. A test with a file of its name in it, by GoogleTest, ran many tests, which are
counted instead of it. RESULTS.xml.again, where it is there, has the tests that failed and ran once
more: that run counts, and which passed only then is said. RESULTS.xml.failed gets the names of what failed.
Without a readable file the run counts as one failure.
"""
import collections
import os
import sys
import xml.etree.ElementTree as ElementTree


class Counts:
    def __init__(self):
        self.of = collections.Counter()
        self.failed = []

    def skip(self, name):
        self.of["skipped"] += 1
        print(f"SKIPPED {name}", file=sys.stderr)

    def fail(self, name, output):
        self.of["failed"] += 1
        lines = (output or "").strip().splitlines()
        print(f"FAILED {name}", *lines[-40:], sep="\n  ", file=sys.stderr)
        self.failed.append(name)


def count_shard(path, counts):
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        failures = case.findall("failure")
        if failures:
            counts.fail(name, "\n".join(failure.get("message") for failure in failures))
        elif case.get("result") == "completed":
            counts.of["passed"] += 1
        elif case.get("result") == "skipped":
            counts.skip(name)


def was_skipped(case):
    """Whether a test said so itself. What ctest could not start (no program, no folder) is not run either."""
    skipped = case.find("skipped")
    return skipped is not None and (case.get("status") == "disabled" or "SKIP_" in skipped.get("message", ""))


def count(case, shards, counts):
    path = os.path.join(shards, f"{case.get('name')}.xml")
    failed_before = counts.of["failed"]
    many = os.path.exists(path)
    if many:
        count_shard(path, counts)
    status = case.get("status")
    if status == "run":
        counts.of["passed"] += 0 if many else 1
    elif was_skipped(case):
        counts.skip(case.get("name"))
    elif counts.of["failed"] == failed_before:  # or what failed in it is counted
        counts.fail(case.get("name"), case.findtext("system-out") or case.get("status"))


def cases_of(path):
    return ElementTree.parse(path).getroot().findall("testcase")


def after_second_run(path, case, again):
    """The case that counts: the second run's, where a failed one has run again."""
    second = again.get(case.get("name"))
    if case.get("status") != "fail" or second is None or was_skipped(second):
        return case
    if second.get("status") == "run":
        lines = (case.findtext("system-out") or "").strip().splitlines()
        print(f"UNSTEADY {case.get('name')}: failed beside others, passed alone", *lines[-15:], sep="\n  ",
              file=sys.stderr)
        with open(f"{path}.unsteady", "a") as file:
            file.write(f"{case.get('name')}\n")
    return second


def main():
    path, log, shards = sys.argv[1:4]
    counts = Counts()
    try:
        cases = cases_of(path)
        again = {}
        if os.path.exists(f"{path}.again"):
            again = {case.get("name"): case for case in cases_of(f"{path}.again")}
        for case in cases:
            count(after_second_run(path, case, again), shards, counts)
    except (OSError, ElementTree.ParseError) as error:
        print(f"check: no results: {error}; see {log}", file=sys.stderr)
        cases = []
    if not cases:
        counts.of["failed"] = 1
    with open(f"{path}.failed", "w") as file:
        file.writelines(f"{name}\n" for name in counts.failed)
    print(counts.of["passed"], counts.of["failed"], counts.of["skipped"])


if __name__ == "__main__":
    main()
