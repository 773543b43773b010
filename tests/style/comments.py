"""What people say in a file: the comments and docstrings of each kind that the tree has, line by line."""
import ast
import functools
import pathlib
import re
import warnings

CPP = {".h", ".cc", ".cu", ".cuh"}
SLASHES = CPP | {".proto", ".js", ".css", ".jsonnet", ".libsonnet"}  # // to the end of the line, /* to */
HASHES = {".cmake", ".sh", ".textproto", ".yaml", ".yml", ".conf", ".service", ".target", ".example", ".sbatch",
          ".packages", ".jsonnet"}
MARKED = {".html", ".svg"}  # <!-- to -->
PAGES = {".md"}
# Files by whose name, not its end, one knows what they are: CMake's, and scripts that say so themselves.
CMAKE = "CMakeLists.txt"
FOREIGN = ("experiment/web/uPlot.iife.min.js", "experiment/web/uPlot.min.css")  # a library's

# A comment, or a string, in which nothing is one.
PIECE = re.compile(r'(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|(?P<raw>R"(?P<mark>\w*)\(.*?\)(?P=mark)")|'
                   r'"(?:\\.|[^"\\\n])*"|(?:\bu8|(?<![0-9a-fA-F]))\'(?:\\.|[^\'\\\n])+\'', re.S)


def kind_of(name, text):
    """The suffix by which comments are known; of a script without one, its language's; "" of what has none."""
    path = pathlib.PurePath(name)
    if name in FOREIGN:
        return ""
    if path.name == CMAKE:
        return ".cmake"
    if path.suffix in SLASHES | HASHES | MARKED | PAGES | {".py"}:
        return path.suffix
    if text.startswith("#!"):
        return ".py" if "python" in text.partition("\n")[0] else ".sh"
    return ".sh" if path.name == "Containerfile" else ""


@functools.lru_cache(maxsize=None)
def without_comments(text):
    """A program of C++ without its comments, line for line; strings stay."""
    def blank(match):
        is_comment = match["line"] is not None or match["block"] is not None
        return "\n" * match[0].count("\n") + " " if is_comment else match[0]
    return PIECE.sub(blank, text)


def lines_from(first, text):
    yield from enumerate(text.split("\n"), first)


def of_slashes(text):
    for match in PIECE.finditer(text):
        if match["line"] is not None or match["block"] is not None:
            yield from lines_from(text.count("\n", 0, match.start()) + 1, match[0])


def of_python(text):
    """Docstrings, and what follows a # (a string's too, which does no harm)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError:
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            first, last = node.lineno, node.end_lineno
            yield from lines_from(first, "\n".join(text.splitlines()[first - 1:last]))
    yield from of_hashes(text)


def of_hashes(text):
    for number, line in enumerate(text.splitlines(), 1):
        _, found, comment = line.partition("#")
        if found:
            yield number, comment


def of_marks(text):
    for match in re.finditer(r"<!--(.*?)-->", text, re.S):
        yield from lines_from(text.count("\n", 0, match.start()) + 1, match[1])


@functools.lru_cache(maxsize=None)
def prose(name, text):
    """[(line number, what is said there)] of a page, or of the comments of a program."""
    kind = kind_of(name, text)
    if kind in PAGES:
        return list(enumerate(text.splitlines(), 1))
    if kind == ".py":
        return sorted(set(of_python(text)))
    found = list(of_slashes(text)) if kind in SLASHES else []
    found += of_hashes(text) if kind in HASHES else []
    return found + list(of_marks(text)) if kind in MARKED else found
