"""The rules of docs/STYLE.md that a machine can check, each a function of a tree: it returns what is wrong, a line each,
"file:line: what". style_test.py holds the tree to them, and plants a fault for each."""
import functools
import os
import pathlib
import re
import subprocess

import examples
import pages
from comments import CMAKE, CPP, FOREIGN, kind_of, prose
from functions import NOT_CODE, fields, functions, functions_of_javascript, functions_of_python

# All kinds of files that there are: of another one no rule would know what to look at.
KINDS = CPP | {".proto", ".py", ".cmake", ".sh", ".md", ".txt", ".textproto", ".js", ".css", ".html", ".svg", ".png", ".json",
               ".yaml", ".yml", ".jsonnet", ".libsonnet", ".conf", ".service", ".target", ".example", ".sbatch",
               ".packages", ".patch"}
WITHOUT_A_SUFFIX = {"check", "quickstart", ".ci/run", "tests/tidied", "deploy/try", "deploy/image/Containerfile",
                    "deploy/image/build", "deploy/sandbox/kubernetes", "deploy/sandbox/kubernetes_build",
                    "deploy/sandbox/pause_image", "deploy/sandbox/slurm", "experiment/web/LICENSE.uPlot", ".clang-format", ".clang-tidy",
                    ".gitignore"}
DATA = ("data/digits/digits.csv.gz", "tests/fuzz/corpus/")  # files of any kind but programs
PICTURES = {".png"}
LINES_MAX = 500
FUNCTION_LINES_MAX = 60
KERNEL_LINES_MAX = 120
FIELDS_MAX = 15
# What the Engine, the Shard and the Simulator are made of.
ROOMS_OF_PARTS = {"worker", "worker/program", "server/shard", "scheduler/planner/blocks", "scheduler/planner/timeline",
                  "scheduler/planner/simulator"}
FOLDER_FILES_MAX = 40
# Folders with files for each operator, whose name says where to look (operators.py), each message or each decision.
FILES_BY_NAME = {"compute/cpu", "compute/cuda", "docs/decisions", "models/ops", "tests/fuzz/corpus/frame"}
TOP_FOLDERS_MAX = 25
NOT_SOURCES = {".git", "build", "runs"}  # as .gitignore
CLANG_FORMAT = "clang-format-14"
FORMATTED_AT_ONCE = 40
# A field that is made from the folder for what tests leave, and what makes it this test's own.
FIXTURES_FOLDER = re.compile(r"\b\w+_ = [^;]*\b(?:TempDir|temp_directory_path)\(\)[^;]*;")
OF_ONE_TEST = re.compile(r"name\(\)|getpid\(\)")
FORBIDDEN_STEMS = {"common", "util", "utils", "misc", "helper", "helpers", "manager"}
# A file's name in prose, with or without its folder.
FILE_NAME = re.compile(r"(?<![\w/.<>{}*$~-])((?:[\w.-]+/)*[\w-]+\.(?:h|cc|cu|cuh|py|proto|txt|sh|md|textproto|cmake|"
                       r"yml|yaml|js|css))\b(?![\w/(])")
# Of other kinds, and of several dots, where a top-level folder begins it: runs.csv may be a reader's.
FILE_BY_FOLDER = re.compile(r"(?<![\w/.<>{}*$~-])((?:[\w-]+/)(?:[\w.-]+/)*[\w.-]*\w\.\w+)\b(?![\w/(*])")
FOLDER_NAME = re.compile(r"(?<![\w/.<>{}*$~-])((?:[\w.-]+/)+)(?![\w/<>{}*$~(-]|\.\w)")
BRACES = re.compile(r"(\b[\w./-]+)\{(\w*(?:,\w+)+)\}([\w.]*)")  # x.{h,cc}, x{,_test}.cc
# Names of the reader's own files in examples, and of other projects'.
FILES_ELSEWHERE = {"job.textproto", "spec.textproto", "recorded-job.textproto", "graph.txt", "train.txt", "file.cc",
                   "NAME_fuzz.cc", "omp.h", "linux/tcp.h", "dnnl-config.cmake", "onnx.proto", "x.h", "x.cc",
                   "x_test.cc", "x_format.h", "base/planted.h", "keys/kustomization.yaml",
                   "absl/base/thread_annotations.h", "Node.js"}
GENERATED = re.compile(r"\.pb\.(h|cc)$")
SAYS_WHAT_WAS = "docs/decisions/"
PICTURES_SCRIPT = "bench/scripts/pictures.py"
PICTURES_FOLDER = "docs/pictures"
PLANTS = "tests/style/plants.py"  # names what is not there, to plant it


FILE = re.compile(r"[\w.+@/-]+", re.A)  # what a path consists of
FUNCTIONS = {**dict.fromkeys(CPP, functions), ".py": functions_of_python, ".js": functions_of_javascript}


@functools.lru_cache(maxsize=None)
def text_of(path, written_ns):
    """What a file holds that was written then: rules read the same ones again and again."""
    del written_ns
    return path.read_text()


class Tree:
    """The files of a checkout that git knows; of a copy, or where git knows nothing, all that there are but what is
    built. The rules look at `files`, all or some of them."""

    def __init__(self, root, is_copy=False, only=None, known=None):
        self.root = pathlib.Path(root)
        done = None
        if known is not None:
            self.known, self.files = known, sorted(known) if only is None else only
            return
        if not is_copy:
            done = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                                  stdout=subprocess.PIPE)
        if done is not None and done.returncode == 0:
            self.known = {name for name in os.fsdecode(done.stdout).split("\0") if name and (self.root / name).is_file()}
        else:
            paths = [path.relative_to(root) for path in self.root.rglob("*") if path.is_file()]
            self.known = {str(path) for path in paths if path.parts[0] not in NOT_SOURCES and
                          "__pycache__" not in path.parts}
        self.files = sorted(self.known) if only is None else only

    def of(self, suffixes):
        return [name for name in self.files if os.path.splitext(name)[1] in suffixes]

    def is_text(self, name):
        suffix = pathlib.PurePath(name).suffix
        is_data = name.startswith(DATA) and suffix not in FUNCTIONS
        return suffix not in PICTURES and not is_data and name not in FOREIGN

    def texts(self):
        """(name, text) of what people wrote here."""
        return [(name, self.text(name)) for name in self.files if self.is_text(name)]

    def programs(self):
        """Those of them that say something to a machine."""
        return [(name, text) for name, text in self.texts() if kind_of(name, text) not in {"", ".md", ".svg"}]

    def text(self, name):
        path = self.root / name
        return text_of(path, path.stat().st_mtime_ns)


def misformatted(tree):
    """Where clang-format would change a file of C++."""
    names = tree.of(CPP)
    found = []
    for first in range(0, len(names), FORMATTED_AT_ONCE):
        done = subprocess.run([CLANG_FORMAT, "--dry-run", "-Werror", *names[first:first + FORMATTED_AT_ONCE]],
                              cwd=tree.root, stderr=subprocess.PIPE, text=True)
        found += [f"{match[1]}: clang-format would change it" for match in
                  re.finditer(r"^(\S+:\d+):\d+: error: code should be clang-formatted", done.stderr, re.M)]
    return found


def never_formatted(tree):
    """Where clang-format is told to leave C++ as it is."""
    return [f"{name}:{number}: formatting is turned off" for name in tree.of(CPP)
            for number, line in enumerate(tree.text(name).splitlines(), 1) if "clang-format off" in line]


def too_long(tree):
    """Programs of more than 500 lines, strategies that a planner wrote apart; functions of more than 60, and of CUDA's
    files of more than 120."""
    found = []
    for name, text in tree.programs():
        if name.endswith(".strategy.textproto"):
            continue
        kind = kind_of(name, text)
        lines = len(text.splitlines())
        if lines > LINES_MAX:
            found.append(f"{name}:{LINES_MAX + 1}: a file of {lines} lines; at most {LINES_MAX}")
        most = KERNEL_LINES_MAX if kind in {".cu", ".cuh"} else FUNCTION_LINES_MAX
        find = FUNCTIONS.get(kind, lambda text: [])
        found += [f"{name}:{line}: a function of {lines} lines; at most {most}: {head}"
                  for line, lines, head in find(text) if lines > most]
    return found


def of_no_kind(tree):
    """Files of a kind that no rule knows: a .cpp or an .inc would be looked at by none."""
    return [f"{name}:1: a file of a kind that no rule knows" for name in tree.files
            if not name.startswith(DATA) and name not in WITHOUT_A_SUFFIX
            and pathlib.PurePath(name).suffix not in KINDS]


def badly_named(tree):
    """Files whose names have a blank, or what is not ASCII: other programs break them in two, or quote them."""
    return [f"{name}:1: a name of more than letters, digits and ._-+@" for name in tree.files if not FILE.fullmatch(name)]


def too_many_fields(tree):
    """Classes of more than 15 fields among the parts of the Engine, the Shard and the Simulator."""
    return [f"{name}:{line}: {what} has {count} fields; at most {FIELDS_MAX}" for name in tree.of({".h", ".cc"})
            if str(pathlib.PurePath(name).parent) in ROOMS_OF_PARTS
            for line, what, count in fields(tree.text(name)) if count > FIELDS_MAX]


def folders_of_all_tests(tree):
    """Folders and files of a fixture that are not named for its test: a fixture's tests run at the same time."""
    found = []
    for name in tree.files:
        if name.endswith("_test.cc"):
            text = tree.text(name)
            found += [f"{name}:{text.count(chr(10), 0, at.start()) + 1}: a folder of all tests of a fixture; name it for the test"
                      for at in FIXTURES_FOLDER.finditer(text) if not OF_ONE_TEST.search(at.group())]
    return found


def crowded(tree):
    """Folders of more than 40 files; a top level of more than 25 folders."""
    files = {}
    for name in tree.known:
        folder = name.rpartition("/")[0] or "."
        files[folder] = files.get(folder, 0) + 1
    found = [f"{folder}:1: a folder of {count} files; at most {FOLDER_FILES_MAX}" for folder, count in sorted(files.items())
             if count > FOLDER_FILES_MAX and folder not in FILES_BY_NAME]
    top = {folder.partition("/")[0] for folder in files if folder != "."}
    top = {folder for folder in top if not folder.startswith(".")}
    if len(top) > TOP_FOLDERS_MAX:
        found.append(f".:1: {len(top)} folders at the top; at most {TOP_FOLDERS_MAX}")
    return found


def top_folders_that_differ(tree):
    """Top-level folders beside the tree of ARCHITECTURE.md."""
    page = "ARCHITECTURE.md"
    if page not in tree.files:
        return []
    drawn = pages.part(tree.text(page), r"\n## The tree\n\s*```\n", r"^```")
    rows = set(re.findall(r"^(\w[\w-]*)/ ", drawn, re.M))
    there = {name.partition("/")[0] for name in tree.known if "/" in name and not name.startswith(".")}
    return ([f"{page}:1: nothing of the folder {folder}" for folder in sorted(there - rows)] +
            [f"{page}:1: there is no folder {folder}" for folder in sorted(rows - there)])


def named_for_nothing(tree):
    """Files that are named for no thing, and headers that may be included twice."""
    found = [f"{name}:1: a file named {path.stem}" for name in tree.files
             if (path := pathlib.PurePath(name)).stem in FORBIDDEN_STEMS or path.parent.name in FORBIDDEN_STEMS]
    return found + [f"{name}:1: without #pragma once" for name in tree.of({".h"}) if "#pragma once" not in tree.text(name)]


def files_that_are_gone(tree):
    """Comments and pages that name a file, or a folder, which is not there."""
    known = tree.known | examples.made_by_examples(tree)
    tops = {name.partition("/")[0] for name in known if "/" in name}
    known |= {str(above) for folder in {name.rpartition("/")[0] for name in known}
              for above in (pathlib.PurePath(folder), *pathlib.PurePath(folder).parents)}
    stems = {name.rpartition("/")[2] for name in known}
    found = []
    for name, text in tree.texts():
        if name.startswith((SAYS_WHAT_WAS, PLANTS)):
            continue
        here = pathlib.PurePath(name).parent
        for number, said in prose(name, text):
            said = BRACES.sub(lambda match: " ".join(match[1] + each + match[3] for each in match[2].split(",")), said)
            named = {match[1] for match in FILE_NAME.finditer(said)}
            named |= {match[1] for pattern in (FILE_BY_FOLDER, FOLDER_NAME) for match in pattern.finditer(said)
                      if match[1].partition("/")[0] in tops}
            for file in sorted(named):
                path = GENERATED.sub(".proto", file.rstrip("/"))
                there = path in known or os.path.normpath(here / path) in known or ("/" not in path and path in stems)
                if not there and file not in FILES_ELSEWHERE:
                    found.append(f"{name}:{number}: there is no {file}")
    return found


def words(glossary):
    """{word that is not used: the one that is}, by the glossary's last table."""
    _, found, table = glossary.partition("\n## Words that are not used")
    rows = re.findall(r"^\| `([^`|]+)` \| `?([^`|]+)`? \|", table, re.M) if found else []
    return dict(rows)


def parts(name):
    """"MakeHTTPPages_" as ("make", "http", "pages"); a constant's k is no part."""
    return tuple(part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", re.sub(r"^k(?=[A-Z])", "", name)))


def has_word(name, word):
    """Whether parts of a name are those of a word, or of its plural."""
    *first, last = word
    ends = {last, last + "s", last + "es"}
    if first and not {"".join(first) + end for end in ends}.isdisjoint(name):
        return True  # written as one
    return any(name[at:at + len(first)] == tuple(first) and name[at + len(first)] in ends
               for at in range(len(name) - len(first)))


def forbidden_words(tree):
    """Where code, a page or a file's name uses a word that the glossary has given up for another: alone or in a longer
    name, in whatever case, of one or of several."""
    gone = words(tree.text("docs/GLOSSARY.md"))
    if not gone:
        return ["docs/GLOSSARY.md:1: no table of words that are not used"]
    gone_parts = {word: parts(word) for word in gone}
    pattern = re.compile("|".join(sorted({"[-_]?".join(each) for each in gone_parts.values()}, key=len, reverse=True)), re.I)
    found = []
    for name in tree.files:
        if name == "docs/GLOSSARY.md" or name.startswith((SAYS_WHAT_WAS, PLANTS)):
            continue
        for number, line in [(1, name), *enumerate(tree.text(name).splitlines() if tree.is_text(name) else [], 1)]:
            if not pattern.search(line):
                continue
            found += [f"{name}:{number}: {word} is {gone[word]} now" for word, its in gone_parts.items()
                      if any(has_word(parts(said), its) for said in re.findall(r"\w+(?:-\w+)*", line))]
    return found


MODES = re.compile(r"\bmode=(\w+(?:\\?\|\w+)*)")


def of_modes(policy, spec):
    """{"gossip:mode=dpsgd", ...}: a policy with each mode that a spec has; itself where that has none."""
    modes = MODES.search(spec)
    return {f"{policy}:mode={mode}" for mode in re.findall(r"\w+", modes[1])} if modes else {policy}


def policies_without_a_row(tree):
    """Policies of the catalogue that the table of docs/consistency.md does not have, with each mode."""
    where, page = "consistency/catalogue.cc", "docs/consistency.md"
    text = tree.text(where)
    entries = pages.part(text, r"PolicyEntry kEntries\[\] = \{", r"^};")
    policies = dict(re.findall(r'\{\s*"(\w+)",\s*"([^"]*)"', entries))
    code = NOT_CODE.sub("", entries)
    between = re.sub(r"\{[^{}]*\}", "", code).replace(",", "")  # nothing: no macro's entries, no #include
    tables = re.findall(r"<PolicyEntry\b|\bPolicyEntry\s*(?:\w+\s*)?[\[={]", text)
    if not policies or len(policies) != code.count("{") or between.strip() or len(tables) != 1:
        return [f"{where}:1: no list of policies"]
    rows = set()
    for _, cells in pages.table(tree.text(page), "Consistency policies"):
        name, _, arguments = pages.name_of(cells[0]).partition(":")
        rows |= of_modes(name, arguments if MODES.search(arguments) else policies.get(name, ""))
    return [f"{page}:1: no row for the policy {name}" for policy, spec in policies.items()
            for name in sorted(of_modes(policy, spec) - rows)]


def pictures_without_a_command(tree):
    """Pictures on a page that bench/scripts/pictures.py does not make, or whose page does not say so."""
    made = set(re.findall(r'^    "([\w.-]+)": ', tree.text(PICTURES_SCRIPT), re.M))
    if not made:
        return [f"{PICTURES_SCRIPT}:1: no list of pictures"]
    found = []
    for name in tree.of({".md"}):
        text = tree.text(name)
        for number, line in enumerate(text.splitlines(), 1):
            for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+)", line):
                path = os.path.normpath(pathlib.PurePath(name).parent / target)
                folder, file = os.path.split(path)
                if folder != PICTURES_FOLDER or file not in made:
                    found.append(f"{name}:{number}: no command makes the picture {target}")
                elif path not in tree.known:
                    found.append(f"{name}:{number}: there is no picture {target}")
                elif PICTURES_SCRIPT not in text:
                    found.append(f"{name}:{number}: it does not say what makes the picture {target}")
    return found
