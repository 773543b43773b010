"""The functions of a C++ file and how long they are, by its braces."""
import re

# What a comment, a string or a character says is no code; its line breaks are kept.
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
SCOPE = re.compile(r"^\s*(inline\s+)?namespace\b|^\s*extern\s*$")
INITIALISER = re.compile(r"\)\s*(noexcept\s*)?:.*(?<!noexcept)(?<!try)[\w>]\s*$", re.S)  # S() : a_{1}
TYPE = re.compile(r"\b(class|struct|union|enum)\b[^()]*$")


def code(text):
    """The text without comments, strings and preprocessor lines, line for line."""
    text = NOT_CODE.sub(lambda match: "\n" * match.group().count("\n"), text)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", lambda match: "\n" * match.group().count("\n"), text, flags=re.M)


def functions(text):
    """[(line of its brace, lines to the closing one, what stands before it)] of each function. What is defined within
    one counts there."""
    found = []
    scopes = []  # of each open brace: "scope" (of declarations), "function" with its line, or "other"
    before, line = "", 1
    for char in code(text):
        if char == "\n":
            line += 1
        if char == "{":
            inside = any(kind == "function" for kind, _, _ in scopes)
            if inside:
                kind = "other"
            elif SCOPE.search(before.strip()) or TYPE.search(before):
                kind = "scope"
            elif "(" in before and not re.search(r"=\s*$|\(\s*$|,\s*$", before):
                kind = "function"
            else:
                kind = "other"
            if kind == "function" and INITIALISER.search(before):
                kind = "initialiser"
            scopes.append((kind, line, " ".join(before.split())))
            before = ""
        elif char == "}":
            if not scopes:
                continue
            kind, begin, head = scopes.pop()
            if kind == "function":
                found.append((begin, line - begin, head))
            before = head + "{}" if kind == "initialiser" else ""
        elif char == ";":
            before = ""
        else:
            before += char
    return found
