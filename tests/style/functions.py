"""The functions of a file and how long they are; of C++, the fields of its classes too, by its braces."""
import ast
import re

# What a comment, a string or a character says is no code; its line breaks are kept. An apostrophe between digits is no
# character's.
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
                      r"(?:\bu8|(?<![0-9a-fA-F]))'(?:\\.|[^'\\\n])+'", re.S)
SCOPE = re.compile(r"^\s*(inline\s+)?namespace\b|^\s*extern\s*$")
INITIALISER = re.compile(r"\)\s*(noexcept\s*)?:.*(?<!noexcept)(?<!try)[\w>]\s*$", re.S)  # S() : a_{1}
TYPE = re.compile(r"\b(class|struct|union|enum)\b[^()]*$")
PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"  # two deep
LAMBDA = re.compile(r"\[[^\[\]]*\]\s*(?:" + PARENTHESES + r")?\s*(?:mutable|noexcept|constexpr|\s|->[\s\w:<>,*&]+)*$")
# Whose braces hold what must compile: requires requires(T t) {. Those behind F() requires(N > 4) { are a function's.
REQUIREMENT = re.compile(r"(?:\brequires|[=(!]|&&|\|\|)\s*requires\s*(?:" + PARENTHESES + r")?\s*$")


def code(text):
    """The text without comments, strings and preprocessor lines, line for line."""
    text = NOT_CODE.sub(lambda match: "\n" * match.group().count("\n"), text)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", lambda match: "\n" * match.group().count("\n"), text, flags=re.M)


CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b")
MACRO = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)+[^\n]*", re.M)


def ways(text):
    """A program where the first half of each #if is there, and where the second is, line for line: each half may have
    braces that the other has too."""
    lines = text.split("\n")
    stack, halves, with_second = [], [], set()
    for number, line in enumerate(lines):
        match = CONDITION.match(line)
        if match and match[1].startswith("if"):
            stack.append((number, 1))
        elif match and match[1] in {"elif", "else"} and stack:
            stack[-1] = (stack[-1][0], 2)
            with_second.add(stack[-1][0])
        elif match and stack:
            stack.pop()
        halves.append(list(stack))
    yield "\n".join("" if any(half == 2 for _, half in within) else line for line, within in zip(lines, halves))
    if with_second:
        yield "\n".join("" if any(half == 1 and at in with_second for at, half in within) else line
                        for line, within in zip(lines, halves))


def functions(text):
    """[(line of its brace, lines to the closing one, what stands before it)] of each function, and of each macro. What
    is defined within one counts there."""
    found = {(text.count("\n", 0, match.start()) + 1, match[0].count("\n"), match[0].partition("\n")[0])
             for match in MACRO.finditer(text)}
    for way in ways(text):
        found.update(functions_of_one_way(way))
    return sorted(found)


def is_open(before):
    """Whether it ends within parentheses, or within what a lambda keeps."""
    return before.count("(") > before.count(")") or before.count("[") > before.count("]")


def functions_of_one_way(text):
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
            elif LAMBDA.search(before):
                kind = "function"
            elif is_open(before) or REQUIREMENT.search(before):  # a default argument's
                scopes.append(("value", line, before))
                continue
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
            if kind == "value":
                before = head + "{}"
                continue
            if kind == "function":
                found.append((begin, line - begin, head))
            goes_on = kind == "initialiser" or is_open(head)  # behind a lambda that is an argument
            before = LAMBDA.sub("", head) + "{}" if goes_on else ""
        elif char == ";":
            before = ""
        else:
            before += char
    return found


def functions_of_python(text):
    """The same of Python; what is defined within a function counts there."""
    found = []

    def visit(node):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append((child.lineno, child.end_lineno - child.lineno, child.name))
            else:
                visit(child)
    try:
        visit(ast.parse(text))
    except SyntaxError as error:
        return [(error.lineno or 1, len(text.splitlines()), "cannot be read as Python")]
    return found


# How a function, or a method, begins: its brace may come on a later line.
JAVASCRIPT = re.compile(r"^( *)(?!\()(?:[^/(]*\bfunction\b.*|.*=>\s*\(?\{|static \{|"
                        r"(?:export |async |static |get |set |\*)*"
                        r"(?!(?:if|for|while|switch|catch|else|do|return)\b)[\w$#]+\s*\([^;]*\{)$")


def functions_of_javascript(text):
    """The same of JavaScript, whose closing brace stands below the beginning of the line that opens it."""
    found, ended = [], 0
    lines = [line.rstrip() for line in NOT_CODE.sub(lambda match: "\n" * match[0].count("\n"), text).splitlines()]
    for number, line in enumerate(lines, 1):
        match = JAVASCRIPT.match(line)
        if not match or number < ended:
            continue
        last = next((at for at in range(number, len(lines)) if lines[at].startswith(match[1] + "}")), len(lines))
        ended = last + 1
        found.append((number, last + 1 - number, line.strip()))
    return found


CLASS = re.compile(r"\bclass\s+(?:alignas\([^()]*\)\s*)?(\w+)[^()]*(?:<[^;]*)?$")
NO_FIELD = re.compile(r"^(using|friend|static|typedef|enum|template|struct|class|return)\b")
FIELD = re.compile(r"\b([a-z]\w*_)\s*(?:\[[^\]]*\]\s*)*(?::\s*\d+\s*)?(?=\{\}|=|,|$)")


def fields_of(statement):
    """The names that a declaration at class scope gives to fields: they end with an underscore."""
    statement = re.sub(r"^\s*(?:(?:public|private|protected)\s*:\s*)+", "", statement).strip()
    if NO_FIELD.match(statement):
        return []
    statement = re.sub(r"\b(?:ABSL_\w+|alignas)\s*" + PARENTHESES, "", statement)
    before = None
    while before != statement:
        before, statement = statement, re.sub(r"<[^<>]*>", "", statement)
    return [] if "(" in statement.partition("=")[0] else FIELD.findall(statement)


def fields(text):
    """[(line of its brace, class, how many fields it has)] of each class that is not a struct."""
    found = []
    scopes = []  # of each open brace: (class or None, line, text of that level, fields)
    level, line = "", 1
    for char in code(text):
        if char == "\n":
            line += 1
        if char == "{":
            match = CLASS.search(level)
            enum = re.search(r"\benum\b[^;]*$", level)
            scopes.append((match[1] if match and not enum else None, line, level, []))
            level = ""
        elif char == "}" and scopes:
            name, begin, level, names = scopes.pop()
            if name is not None:
                found.append((begin, name, len(names)))
            # A function's body ends its declaration; an initialiser's goes on.
            level = "" if "(" in re.sub(r"<[^<>]*>", "", level.partition("=")[0]) else level + "{}"
        elif char == ";":
            if scopes and scopes[-1][0] is not None:
                scopes[-1][3].extend(fields_of(level))
            level = ""
        else:
            level += char
    return found
