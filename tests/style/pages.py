"""Rules of what docs say: their tables agree with the lists in the code that they show, the flags that they name exist,
and their links lead somewhere. Each is a function of a rules.Tree, as those of rules.py."""
import os
import pathlib
import re

PAGE_OF_FLAGS = {  # of each file that registers flags, where they stand besides docs/jobs.md
    "apps/checkpoint_command/checkpoint_flags.cc": "docs/durability.md",
    "apps/cli/models_flags.cc": "docs/models.md",
    "apps/cli/node_flags.cc": "docs/operations.md",
    "apps/data/data_flags.cc": "docs/jobs.md",
    "apps/experiment/experiment_flags.cc": "docs/experiments.md",
    "apps/experiment/replay_flags.cc": "docs/simulation.md",
    "apps/experiment/simulate_flags.cc": "docs/simulation.md",
    "apps/plan/plan_flags.cc": "docs/planner.md",
    "apps/predict/predict_flags.cc": "docs/predict.md",
    "apps/profile/profile_flags.cc": "docs/models.md",
}
FLAGS_OF_OTHERS = {"--from-file", "--help", "--gtest_filter", "--output-on-failure", "--storage", "--test-dir", "--tool"}
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9_-]*[a-z0-9](?![\w-])")
REGISTERED = re.compile(r'add_(?:option|flag|argument)\w*(?:<[^;()]*>)?\(\s*"([^"]+)"')
LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"`[^`]*`")
PROSE_CHARACTERS_MAX = 120


def long_lines(tree):
    """Lines of pages with more than 120 characters that could be broken: prose, but no table, code or picture."""
    found = []
    for name in tree.of({".md"}):
        fenced, code, blank = False, False, True
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            fenced ^= line.lstrip().startswith("```")
            code = line.startswith("    ") and (code or blank)
            blank = not line.strip()
            breakable = " " in CODE.sub("", line).strip() and not line.lstrip().startswith(("|", "#", "!["))
            if len(line) > PROSE_CHARACTERS_MAX and breakable and not (fenced or code):
                found.append(f"{name}:{number}: a line of {len(line)} characters; at most {PROSE_CHARACTERS_MAX}")
    return found


def table(text, heading):
    """[(line number, cells)] of the first table below a heading, without its head."""
    rows, below = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            below = line.lstrip("# ") == heading
        elif below and line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip())[1:-1]
            rows.append((number, [cell.strip() for cell in cells]))
        elif rows:
            break
    return rows[2:]


def quoted(cell):
    """What stands between back quotes."""
    return [word.strip("`") for word in CODE.findall(cell)]


def name_of(cell):
    """The first of these; the cell, where it has none."""
    return (quoted(cell) or [cell])[0]


def differences(page, rows, listed, what, where):
    """rows: {name: (line, said)} of a page; listed: {name: said} of the code. Where they are not the same."""
    if not listed:
        return [f"{where}:1: no list of {what}s"]
    last = max((line for line, _ in rows.values()), default=1)
    found = [f"{page}:{last}: no row for the {what} {name}" for name in listed if name not in rows]
    for name, (line, said) in rows.items():
        if name not in listed:
            found.append(f"{page}:{line}: there is no {what} {name} in {where}")
        elif said != listed[name]:
            found.append(f"{page}:{line}: {what} {name}: {said} here, {listed[name]} in {where}")
    return found


def part(text, begin, end):
    """What stands between the first match of begin and the next of end; nothing where there is none."""
    opened = re.search(begin, text)
    if not opened:
        return ""
    closed = re.compile(end, re.M).search(text, opened.end())
    return text[opened.end():closed.start() if closed else len(text)]


def zoo(tree):
    """{model of the zoo: what it is}."""
    return dict(re.findall(r'\{"(\w+)",\s*"([^"]*)",\s*Build', tree.text("models/zoo/zoo.cc")))


def models_that_differ(tree):
    """Models of the zoo beside the table of docs/models.md: names and what they are."""
    page = "docs/models.md"
    rows = {name_of(cells[0]): (line, cells[1]) for line, cells in table(tree.text(page), "The zoo")}
    return differences(page, rows, zoo(tree), "model", "models/zoo/zoo.cc")


def models_of_tables_that_differ(tree):
    """Models over tables beside the table of docs/tables.md."""
    code, page = "models/tables/sparse_model.cc", "docs/tables.md"
    entries = part(tree.text(code), r"> SparseModels\(\) \{", r"^}")
    listed = dict.fromkeys(re.findall(r'\{"(\w+)",\s*"', entries))
    for name in re.findall(r"std::string\((k\w+Name)\)", entries):
        listed.update(dict.fromkeys(re.findall(name + r' = "(\w+)"', tree.text("models/tables/dlrm.h"))))
    rows = {name_of(cells[0]).split(":")[0]: (line, None)
            for line, cells in table(tree.text(page), "Tables: rows by key")}
    return differences(page, rows, listed, "model", code)


def searchers(tree):
    """Names of the planner's searchers."""
    named = r' name\(\) const override \{ return "(\w+)"; \}'
    return [found for name in sorted(tree.known) if name.startswith("scheduler/planner/") and name.endswith(".h")
            for found in re.findall(named, tree.text(name))]


def searchers_that_differ(tree):
    """Searchers of the planner beside the table of docs/planner.md."""
    page, where = "docs/planner.md", "scheduler/planner/searchers/searcher_list.cc"
    rows = {name: (line, None) for line, cells in table(tree.text(page), "Searchers") for name in quoted(cells[0])}
    return differences(page, rows, dict.fromkeys(searchers(tree)), "searcher", where)


def counts_that_are_wrong(tree):
    """Where README says of how many models and searchers there are another number than the code has."""
    words = ("none one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
             "seventeen eighteen nineteen twenty").split()
    found = []
    for what, pattern, count in (("models", r"\b(\w+) models on CPUs", len(zoo(tree))),
                                 ("searchers", r"\b(\w+) searchers\b", len(searchers(tree)))):
        said = re.search(pattern, tree.text("README.md"))
        right = words[count] if count < len(words) else str(count)
        if not said or said[1] != right:
            found.append(f"README.md:1: {said[1] if said else 'no number of'} {what}; there are {right}")
    return found


def public_data(tree):
    """Names of the public data sets of `soapstone data`."""
    return re.findall(r'\{\.name = "(\w+)",', tree.text("apps/data/public_data.cc"))


def public_data_that_differ(tree):
    """Public data sets beside the table of docs/jobs.md."""
    page = "docs/jobs.md"
    rows = {name_of(cells[0]): (line, None) for line, cells in table(tree.text(page), "Public data")}
    return differences(page, rows, dict.fromkeys(public_data(tree)), "data set", "apps/data/public_data.cc")


def data_from_elsewhere(tree):
    """Examples and experiments whose data are no set of `soapstone data`, in data/ by its name; and pages that name
    data beside the project."""
    found = []
    for name in tree.of({".textproto"}):
        if not name.startswith(("examples/", "experiment/specs/")):
            continue
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            for path in re.findall(r'path: "([^"]*)"', line):
                there = os.path.normpath(os.path.join(os.path.dirname(name), path)).split(os.sep)
                if there[0] != "data" or not set(there[1:2]) & set(public_data(tree)):
                    found.append(f"{name}:{number}: {path} is of no set of `soapstone data`")
    for name in tree.of({".md"}):
        found += [f"{name}:{number}: data beside the project" for number, line in
                  enumerate(tree.text(name).splitlines(), 1) if "shared/data" in line]
    return found


def claims_without_a_result(tree):
    """Claims in README whose numbers no result of their experiment in docs/experiments.md rounds to."""
    results = tree.text("docs/experiments.md").partition("\n## Results\n")[2]
    found = []
    for number, cells in table(tree.text("README.md"), "Policies, measured"):
        spec, said = name_of(cells[1]), " ".join(cells[2:])
        below = part(results, rf"\n\*\*`{re.escape(spec)}`\*\*", r"^\*\*`")
        rounded = []
        for row in below.splitlines():
            numbers = re.search(r"\| (\d[\d.]*) \| ([\d.]+) to ([\d.]+) \|", row)
            if numbers:
                verdict = ": not supported" if "not supported" in row else ""
                ratio, low, high = (f"{float(each):.1f}" for each in numbers.groups())
                rounded.append(f"{ratio} {low} to {high}{verdict}")
        if said not in rounded:
            found.append(f"README.md:{number}: docs/experiments.md has no result of {spec} that is {said}")
    return found


def exit_codes_that_differ(tree):
    """Exit codes beside the table of docs/operations.md."""
    code, page = "base/exit_codes.h", "docs/operations.md"
    listed = dict.fromkeys(re.findall(r"\bkExit\w+\s*(?:=|\{)\s*([^;{}]+?)\s*\}?;", tree.text(code)))
    rows = {cells[0]: (line, None) for line, cells in table(tree.text(page), "Exit codes")}
    return differences(page, rows, listed, "exit code", code)


def messages_that_differ(tree):
    """Types of messages beside the table of docs/wire.md: names and numbers."""
    code, page = "wire/message.h", "docs/wire.md"
    types = part(tree.text(code), r"enum class MessageType\b[^{]*\{", r"^};")
    listed = dict(re.findall(r"\bk(\w+)\s*(?:=\s*(\d+))?\s*(?:,|$)", re.sub(r"//.*", "", types), re.M))
    listed.pop("None", None)
    rows = {cells[1]: (line, cells[0]) for line, cells in table(tree.text(page), "Message types")}
    return differences(page, rows, listed, "message", code)


def header_fields_that_differ(tree):
    """Fields of the header beside the table of docs/wire.md: their numbers, and the kinds of body."""
    code, page = "wire/frame.proto", "docs/wire.md"
    header = part(tree.text(code), r"message Header \{", r"^}")
    body = part(header, r"oneof body \{", r"^  }")
    rows, bodies = {}, {}
    for line, cells in table(tree.text(page), "The header"):
        for first, last in re.findall(r"(\d+)(?:–(\d+))?", cells[1]):
            for number in range(int(first), int(last or first) + 1):
                rows[str(number)] = (line, None)
        if cells[0] == "body":
            bodies = {name.strip(): (line, None) for name in cells[3].split(",")}
    fields = dict.fromkeys(re.findall(r"\w+ = (\d+);", header))
    kinds = dict.fromkeys(re.findall(r"^\s*(\w+) \w+ = \d+;", body, re.M))
    return (differences(page, rows, fields, "field of number", code) +
            differences(page, bodies, kinds, "body", code))


def job_flags(tree):
    """{field of a job: its flag}, by the list in cluster/."""
    for name in sorted(tree.known):
        if name.startswith("cluster/") and name.endswith(".cc"):
            entries = part(tree.text(name), r"constexpr JobField \w+\[\] = \{", r"^};")
            if entries:
                return {path: f"--{flag}" for flag, path in re.findall(r'\{"(\w+)",\s*"([\w.]+)",', entries)}
    return {}


def job_fields(text, message="JobConfig", above=""):
    """The fields of a message of job.proto and of those within it, as paths: "training.epochs"."""
    fields = []
    body = part(text, rf"message {message} \{{", r"^}")
    for kind, name in re.findall(r"^\s*(?:repeated |optional )?(\w+|map<[^>]*>) (\w+) = \d+;", body, re.M):
        if f"message {kind} " in text:
            fields += job_fields(text, kind, f"{above}{name}.")
        else:
            fields.append(above + name)
    return fields


def job_fields_that_differ(tree):
    """Fields of a job and their flags beside the table of docs/jobs.md; each field of the schema has a flag."""
    page, schema = "docs/jobs.md", "wire/config/job.proto"
    listed = job_flags(tree)
    rows = {}
    for line, cells in table(tree.text(page), "Fields"):
        for field, flag in zip(quoted(cells[0]), quoted(cells[1])):
            rows[field] = (line, flag)
    found = differences(page, rows, listed, "field", "cluster/job_fields.cc")
    return found + [f"{schema}:1: the field {field} has no flag" for field in job_fields(tree.text(schema))
                    if field not in listed]


def registered(tree, name):
    """Flags that a program's file registers."""
    return {flag for names in REGISTERED.findall(tree.text(name)) for flag in FLAG.findall(names)}


def flags_without_a_word(tree):
    """Flags of the commands that neither docs/jobs.md nor the command's page has."""
    found = []
    for name in sorted(tree.known):
        if name.startswith("apps/") and name.endswith("_flags.cc"):
            pages = {"docs/jobs.md", PAGE_OF_FLAGS.get(name, "docs/jobs.md")}
            said = {flag for page in pages for flag in FLAG.findall(tree.text(page))}
            found += [f"{name}:1: {' and '.join(sorted(pages))} say nothing of {flag}"
                      for flag in sorted(registered(tree, name) - said)]
        elif name.startswith("apps/") and name.endswith(".cc") and not name.endswith("_test.cc"):
            found += [f"{name}:1: the flag {flag} is in no *_flags.cc" for flag in sorted(registered(tree, name))]
    return found


def flags_that_are_not(tree):
    """Pages that name a flag which no program, script or test has."""
    pages = tree.of({".md"})
    if not pages:
        return []
    there = set(FLAGS_OF_OTHERS) | set(job_flags(tree).values())
    there |= set(FLAG.findall(tree.text("check")))
    for name in tree.known:
        if name.startswith(("apps/", "bench/", "tests/")) and name.endswith((".cc", ".py")) and "style" not in name:
            there |= registered(tree, name) | set(re.findall(r'set_version_flag\("(--\w+)"', tree.text(name)))
    return [f"{name}:{number}: no program has the flag {flag}" for name in pages
            for number, line in enumerate(tree.text(name).splitlines(), 1) for flag in FLAG.findall(line)
            if flag not in there]


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
            for heading in headings}


def links_that_lead_nowhere(tree):
    """Links of pages to files and headings that are not there."""
    found = []
    pages = tree.of({".md"})
    folders = {str(above) for name in tree.known for above in pathlib.PurePath(name).parents} if pages else set()
    for name in pages:
        text, here = tree.text(name), pathlib.PurePath(name).parent
        for number, line in enumerate(text.splitlines(), 1):
            for link in LINK.findall(line):
                file, _, anchor = link.partition("#")
                if re.match(r"\w+:", link):
                    continue
                path = os.path.normpath(here / file) if file else name
                if path not in tree.known and path not in folders:
                    found.append(f"{name}:{number}: there is no {path}")
                elif anchor and anchor not in anchors(tree.text(path)):
                    found.append(f"{name}:{number}: {path} has no heading for #{anchor}")
    return found


def tests_that_are_not(tree):
    """Tests of processes that docs/durability.md names, `ClassTest` or `ClassTest.test_name`, and nobody has."""
    page = "docs/durability.md"
    if page not in tree.of({".md"}):
        return []
    texts = [tree.text(name) for name in tree.known if re.match(r"tests/(cluster|durability)/\w+_test\.py$", name)]
    there = {name for text in texts for name in re.findall(r"^class (\w+)|^    def (test_\w+)", text, re.M)}
    there = {name for pair in there for name in pair}
    return [f"{page}:{number}: there is no {part}"
            for number, line in enumerate(tree.text(page).splitlines(), 1)
            for of, test in re.findall(r"`([A-Z]\w*Test)(?:\.(test_\w+))?`", line)
            for part in (of, test) if part and part not in there]


def a_path_that_is_too_long(tree):
    """The files that docs/EXTENDING.md has a newcomer read have at most 1,200 lines in all."""
    page, most = "docs/EXTENDING.md", 1200
    rows = table(tree.text(page), "From the front page to a world")
    names = [os.path.normpath("docs/" + LINK.search(cells[0])[1]) for _, cells in rows]
    lines = sum(tree.text(name).count("\n") for name in names if name in tree.known)
    if not names or lines > most:
        return [f"{page}:1: {len(names)} files to read, of {lines} lines; at most {most}"]
    return []


RULES = [long_lines, models_that_differ, models_of_tables_that_differ, searchers_that_differ, counts_that_are_wrong,
         public_data_that_differ, data_from_elsewhere, claims_without_a_result, exit_codes_that_differ,
         messages_that_differ, header_fields_that_differ, job_fields_that_differ, flags_without_a_word,
         flags_that_are_not, links_that_lead_nowhere, tests_that_are_not, a_path_that_is_too_long]
