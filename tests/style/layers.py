"""Who includes whom: the edges of the tree are those of layers.txt, a line a room: "room: rooms below it". A room is a
folder, or a sub-folder that has a line of its own."""
import os
import pathlib
import re

from comments import CPP, without_comments

# Each kind of include, be it by a digraph, with blanks or lines broken anywhere; and what it names.
DIRECTIVE = re.compile(r"^[^\S\n]*(?:#|%:)[^\S\n]*(?:include(?:_next)?|import)\b[^\S\n]*([^\n]*)", re.M)
LITERAL = re.compile(r'[<"]([^<>"]+)[">]$')
TESTS = "tests"  # of nobody's
ALL_CODE = ("tests", "bench")
NO_ROOMS = (*ALL_CODE, "cmake")
FOREIGN = {  # what only one layer may touch
    "zmq": {"security", "transport"},
    "google/protobuf": {"cluster", "security", "wire"},
    "wire/frame.pb": {"wire"},
    "(?:cuda|cudnn|cublas|curand|nvml|nccl|nvrtc|cooperative_groups)": {"compute"},
    "(?:oneapi/)?dnnl": {"compute"},
    "png": {"models"},
    "(?:absl/synchronization/)?(?:shared_)?(?:mutex|condition_variable)": {"base"},  # base/mutex.h is for all
    "(?:semaphore|latch|barrier)": {"base"},
}
FOREIGN_TYPES = (re.compile(r"\bstd::(?:\w+_)?(?:mutex|condition_variable\w*|semaphore|latch|barrier)\b|"
                            r"\babsl::(?:(?:Reader|Writer)?Mutex\w*|CondVar|Barrier|BlockingCounter)\b|\b(?:mtx|cnd|sem)_t\b|"
                            r"\bstd::(?:once_flag|call_once)\b|"
                            r"\bpthread_(?:mutex|cond|rwlock|spin|spinlock|barrier)_\w+"), {"base"})
# The machine's date, which may jump: for what people read alone, in the files named. All else takes
# base/steady_clock.h, or time as a value.
DATE = re.compile(r"absl::(Now|Time|UnixEpoch|InfiniteFuture|InfinitePast|GetCurrentTimeNanos)\b|"
                  r"\b(system|file|utc|tai|high_resolution)_clock|file_time_type::clock|CLOCK_REALTIME|CLOCK_TAI|"
                  r"gettimeofday|timespec_get|sem_timedwait|mq_timed\w+|\bftime\(|\btime\((nullptr|NULL|0|&|\{\})|"
                  r"\b(Await|Wait|LockWhen)\w*With(Timeout|Deadline)\b")
DATE_IS_MEANT = {
    "apps/cli/train_command.cc",  # the name of a job's folder
    "apps/loop/log_output.cc",  # a log line's
    "apps/node/event_reports.cc",  # an event's, for who reads it
    "tests/cluster/programs/shifted_date.cc",  # moves it
}
# By which Abseil's names of the date are written without absl::, or behind another word.
ABSL_BY_ANOTHER_NAME = re.compile(r"\bnamespace\s+(\w+\s*=\s*)?(::)?absl\s*;")


OF_TESTS = "tests of "


def read_layers(tree):
    """{room: the rooms that it may include}; and the same of what its tests may besides."""
    lines = [line.partition(":")[::2] for line in tree.text("tests/style/layers.txt").splitlines()
             if line and not line.startswith("#")]
    rooms = {room for room, _ in lines if not room.startswith(OF_TESTS)}
    allowed, of_tests = {}, {}
    for room, below in lines:
        several = allowed if room in rooms else of_tests
        several[room.removeprefix(OF_TESTS)] = {each for name in below.split() for each in named(name, rooms)} - {room}
    return allowed, of_tests


def named(name, rooms):
    """"models/*" names models and all rooms in it."""
    if not name.endswith("/*"):
        return {name}
    return {room for room in rooms if room == name[:-2] or room.startswith(name[:-1])}


def room_of(folder, rooms):
    """The innermost room that a folder lies in; empty: none."""
    path = pathlib.PurePath(folder)
    return next((str(p) for p in [path, *path.parents] if str(p) in rooms), "")


def includes(text):
    """[(line, what it includes; None where a macro says what)] of a program."""
    code = re.sub(r"\\\n", "", without_comments(text))
    return [(code.count("\n", 0, match.start()) + 1, literal[1] if (literal := LITERAL.match(match[1].strip())) else None)
            for match in DIRECTIVE.finditer(code)]


def file_included(tree, folder, included):
    """The path, from the root, of what a file of a folder includes."""
    beside = os.path.normpath(os.path.join(folder, included))
    return beside if included.startswith(".") or beside in tree.known else os.path.normpath(included)


def against_layers(tree):
    """Includes from a room into one that is not below it, and those by which nobody can tell."""
    allowed, of_tests = read_layers(tree)
    found = []
    for name in tree.of(CPP):
        folder = str(pathlib.PurePath(name).parent)
        room = room_of(folder, allowed)
        if not room:
            if pathlib.PurePath(folder).parts[:1] not in [(top,) for top in NO_ROOMS]:
                found.append(f"{name}:1: {folder} is no room of tests/style/layers.txt")
            continue
        is_test = name.endswith("_test.cc")
        below = allowed[room] | (of_tests.get(room, set()) if is_test else set())
        for line, included in includes(tree.text(name)):
            if included is None:
                found.append(f"{name}:{line}: an include whose file a macro names")
                continue
            path = file_included(tree, folder, included)
            target = room_of(os.path.dirname(path), allowed)
            if pathlib.PurePath(path).parts[0] == TESTS and not is_test:
                target = TESTS
            if target and target != room and target not in below:
                found.append(f"{name}:{line}: {room} may not include {target}")
    return found


def circles(tree):
    """Rooms that include each other, be it through others."""
    rest = {room: set(below) for room, below in read_layers(tree)[0].items()}
    while rest:
        free = [room for room, below in rest.items() if not below & rest.keys()]
        if not free:
            return [f"tests/style/layers.txt:1: a circle among {', '.join(sorted(rest))}"]
        for room in free:
            del rest[room]
    return []


def dependencies_that_are_no_layers(tree):
    """DEPS of a folder's library that layers.txt does not have."""
    allowed, _ = read_layers(tree)
    found = []
    for room, below in allowed.items():
        name = f"{room}/CMakeLists.txt"
        if name not in tree.known or room in {"apps", "experiment"}:
            continue
        said = re.sub("#.*", "", tree.text(name))
        lists = re.findall(r"soapstone_library\([^()]*?DEPS([^()]*)\)|target_link_libraries\(([^()]*)\)", said)
        named = {word.strip('"') for several in lists for words in several if not re.match(r"\s*\w+_test\b", words)
                 for word in words.split()}
        if re.search(r"^\s*link_libraries\(", said, re.M | re.I):
            found.append(f"{name}:1: link_libraries, which is for all targets: DEPS instead")
        found += [f"{name}:1: a dependency that a variable names: {word}" for word in sorted(named) if "$" in word]
        dependencies = {d for d in allowed if d in named or "soapstone_" + d.replace("/", "_") in named} - {room}
        found += [f"{name}:1: {room} may not depend on {other}" for other in sorted(dependencies - below)]
    return found


def foreign_types(tree):
    """Libraries that are met outside the one layer that is to hide them."""
    found = []
    for name in tree.of(CPP):
        layer = name.partition("/")[0]
        if layer in ALL_CODE:
            continue
        if layer not in FOREIGN_TYPES[1]:
            found += [f"{name}:{number}: a mutex of another kind than base/mutex.h's"
                      for number, line in enumerate(without_comments(tree.text(name)).split("\n"), 1)
                      if FOREIGN_TYPES[0].search(line)]
        for line, included in includes(tree.text(name)):
            for pattern, homes in FOREIGN.items():
                match = re.match("(" + pattern + r")[\w]*([./]|$)", included or "")
                if match and layer not in homes:
                    found.append(f"{name}:{line}: {match[1]} outside {', '.join(sorted(homes))}")
    return found


def dates(tree):
    """Where the date is asked for, and is not meant; files on the list for nothing."""
    found = []
    for name in tree.of(CPP):
        text = without_comments(tree.text(name))
        lines = [number for number, line in enumerate(text.split("\n"), 1) if DATE.search(line)]
        found += [f"{name}:{text.count(chr(10), 0, match.start()) + 1}: names Abseil's date without absl::"
                  for match in ABSL_BY_ANOTHER_NAME.finditer(text)]
        if name not in DATE_IS_MEANT:
            found += [f"{name}:{number}: asks for the machine's date, which may jump" for number in lines]
        elif not lines:
            found.append(f"{name}:1: does not ask for the date, and is on the list of those that may")
    return found


def graph(tree):
    """The rooms and who includes whom, in Graphviz' language: what includes a room that includes another is drawn once."""
    allowed = {room: set(below) for room, below in read_layers(tree)[0].items()}

    def reached(room, seen):
        for other in allowed[room]:
            if other not in seen:
                seen.add(other)
                reached(other, seen)
        return seen

    lines = ["digraph rooms {", "  rankdir=BT;"]
    for room, below in allowed.items():
        through = {far for near in below for far in reached(near, set())}
        lines += [f'  "{room}" -> "{other}";' for other in sorted(below - through)]
    return "\n".join([*lines, "}"])


if __name__ == "__main__":  # layers.py: prints it, as for: dot -Tsvg
    from rules import Tree
    print(graph(Tree(pathlib.Path(__file__).resolve().parent.parent.parent)))
