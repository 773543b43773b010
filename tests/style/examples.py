"""Rules of the worked examples of docs/EXTENDING.md: each is a patch that applies to the tree, touches the files that
its section names, and no more than it may. tests/extending builds all of them together."""
import pathlib
import re
import subprocess

import pages

PAGE = "docs/EXTENDING.md"
FOLDER = "docs/extending"
# How many files each may touch, tests and docs among them; of an operator besides its kernels.
FILES_MAX = {"message": 4, "policy": 5, "operator": 11, "link": 3}
KERNEL_FOLDERS = ("compute/reference/", "compute/cpu/", "compute/cuda/")
KERNEL = "a kernel"  # how the row of a kernel's file begins


def patch_of(example):
    return f"{FOLDER}/{example}.patch"


def touched(patch):
    """{file of a patch: whether the patch makes it}."""
    return {name: bool(made) for name, made in
            re.findall(r"^diff --git a/\S+ b/(\S+)\n(new file mode \d+\n)?", patch, re.M)}


def made_by_examples(tree):
    """Files that a patch makes: a page may name them."""
    return {name for patch in tree.known if patch.startswith(FOLDER + "/") and patch.endswith(".patch")
            for name, made in touched(tree.text(patch)).items() if made}


def rows_of(text, example):
    """[(line, file, why)] of the example's table: of the first whose caption names its patch."""
    rows, below = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            below = False
        if f"]({pathlib.PurePath(FOLDER).name}/{example}.patch)" in line and not line.startswith("|"):
            below = True
        match = re.match(r"\| `([^`]+)` \| (.*) \|$", line)
        if below and match:
            rows.append((number, match[1], match[2]))
    return rows


def why_not(tree, name):
    """Where a patch does not apply to the tree; None where it does."""
    done = subprocess.run(["git", "apply", "--check", name], cwd=tree.root, stderr=subprocess.PIPE, text=True)
    said = [line.removeprefix("error: ") for line in done.stderr.splitlines() if "does not apply" not in line]
    return "; ".join(said) if done.returncode != 0 else None


def counts_that_differ(example, files, rows, summary):
    """What the page says of an example beside its patch."""
    listed = {file for _, file, _ in rows}
    line = rows[-1][0] if rows else 1
    found = [f"{PAGE}:{line}: {example}: no row for {file}, which the patch touches"
             for file in sorted(set(files) - listed)]
    found += [f"{PAGE}:{at}: {example}: the patch does not touch {file}" for at, file, _ in rows if file not in files]
    if found:
        return found
    kernels = {file for _, file, why in rows if why.startswith(KERNEL)}
    found += [f"{PAGE}:{line}: {example}: {file} is no kernel" for file in sorted(kernels)
              if example != "operator" or not file.startswith(KERNEL_FOLDERS)]
    count, most = len(set(files) - kernels), FILES_MAX[example]
    if count > most:
        return [f"{PAGE}:{line}: {example}: {count} files; at most {most}"]
    said = summary.get(example)
    if said is None:
        found.append(f"{PAGE}:1: no row for the example {example}")
    elif said[1:] != (str(count), str(most)):
        found.append(f"{PAGE}:{said[0]}: {example}: {said[1]} files of {said[2]} here, {count} of {most} in its patch")
    return found


def summaries(text):
    """{example: (line, files, at most)} of the page's first table of them."""
    return {match[1]: (number, cells[1], cells[2])
            for number, cells in pages.table(text, "Worked examples")
            if (match := re.search(r"extending/(\w+)\.patch", cells[-1]))}


def examples_that_are_stale(tree):
    """Worked examples that do not apply to the tree any more, or of which the page says something else."""
    text = tree.text(PAGE)
    said = summaries(text)
    found = []
    for example in FILES_MAX:
        name = patch_of(example)
        if name not in tree.known:
            found.append(f"{PAGE}:1: there is no {name}")
            continue
        files = touched(tree.text(name))
        if not {PAGE, name, *files} & set(tree.files):
            continue
        why = why_not(tree, name)
        if why is not None:
            found.append(f"{name}:1: the example does not apply: {why}; mend the patch")
        found += counts_that_differ(example, files, rows_of(text, example), said)
    return found


RULES = [examples_that_are_stale]
