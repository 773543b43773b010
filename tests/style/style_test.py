#!/usr/bin/env python3
"""The tree keeps the rules of docs/STYLE.md that a machine can check; and each rule finds the fault that is planted for
it in a copy of the tree, and nothing else there.

usage: style_test.py [TEST...]     the last line: "passed failed"
"""
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import examples
import layers
import operators
import pages
import rules
from functions import fields, functions

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RULES = [rules.misformatted, rules.too_long, rules.too_many_fields, rules.crowded, rules.named_for_nothing, rules.of_no_kind,
         rules.top_folders_that_differ,
         rules.files_that_are_gone,
         rules.forbidden_words,
         rules.policies_without_a_row, rules.pictures_without_a_command, layers.against_layers, layers.circles,
         layers.dependencies_that_are_no_layers, layers.foreign_types, layers.dates, *operators.RULES,
         *pages.RULES, *examples.RULES]


def long_function(lines):
    return "void Long() {\n" + "  Step();\n" * (lines - 1) + "}\n"


def large_class(fields_count):
    return "class Planted {\n" + "".join(f"  int field_{i}_ = 0;\n" for i in range(fields_count)) + "};\n"


# What is written at the end of a file of the copy, and what is said then.
PLANTED = {
    "misformatted": ("base/spec.cc", "int  Misformatted( );\n", r"base/spec.cc:\d+: clang-format would change it"),
    "a function of 61 lines": ("base/spec.cc", long_function(61), r"base/spec.cc:\d+: a function of 61 lines.*Long"),
    "a function of 60 lines": ("base/spec.cc", long_function(60), None),
    "a function of 61 lines with a default argument": (
        "base/spec.cc", long_function(61).replace("()", "(Spec s = {}, int n = int{3})", 1),
        r"base/spec.cc:\d+: a function of 61 lines"),
    "a lambda of 61 lines": ("base/spec.cc", long_function(61).replace("void Long() ", "const auto kLong = [] "),
                             r"base/spec.cc:\d+: a function of 61 lines"),
    "a test of 61 lines beside kernels": ("compute/cuda/cuda_test.cc", long_function(61),
                                          r"compute/cuda/cuda_test.cc:\d+: a function of 61 lines"),
    "a kernel of 121 lines": ("compute/cuda/conv2d.cu", long_function(121),
                              r"compute/cuda/conv2d.cu:\d+: a function of 121 lines"),
    "a kernel of 120 lines": ("compute/cuda/conv2d.cu", long_function(120), None),
    "a script of 501 lines": ("tests/style/planted.py", "# Line.\n" * 501, r"tests/style/planted.py:501: a file of 501"),
    "a page's script of 501 lines": ("observe/status/page/planted.js", "// Line.\n" * 501, r".*planted.js:501: a file of 501"),
    "a script of 501 lines that has no suffix": ("quickstart", "# Line.\n" * 501, r"quickstart:501: a file of 5\d\d lines"),
    "a function of 61 lines in Python": ("tests/style/planted.py", "def long():\n" + "    step()\n" * 61,
                                         r"tests/style/planted.py:1: a function of 61 lines.*long"),
    "a method of 61 lines": ("tests/style/planted.py", "class A:\n    async def long(self):\n" + "        step()\n" * 61,
                             r"tests/style/planted.py:2: a function of 61 lines.*long"),
    "a function of 60 lines in Python": ("tests/style/planted.py", "def long():\n" + "    step()\n" * 60, None),
    "a function of 61 lines in JavaScript": (
        "observe/status/page/draw.js", "const long = (a, b) => {\n" + "  step();\n" * 60 + "};\n",
        r".*draw.js:\d+: a function of 61 lines.*long"),
    "a function of 60 lines in JavaScript": (
        "observe/status/page/draw.js", "function long() {\n" + "  step();\n" * 59 + "}\n", None),
    "a method of 61 lines in JavaScript whose head takes two": (
        "observe/status/page/draw.js", "class A {\n  async draw(x,\n             y) {  // at\n" + "    step();\n" * 60 + "  }\n}\n",
        None),
    "a method of 61 lines in JavaScript, begun on one line": (
        "observe/status/page/draw.js", "class A {\n  async draw(x, y) {  // at\n" + "    step();\n" * 60 + "  }\n}\n",
        r".*draw.js:\d+: a function of 61 lines.*draw"),
    "short functions within one that is called at once": (
        "observe/status/page/draw.js", "(() => {\n" + "  function a() {\n    step();\n  }\n" * 30 + "})();\n", None),
    "a lambda of 61 lines that is handed over": (
        "base/spec.cc", "const bool kB = Register(\"sum\", [](const std::function<void(int)>& done) {\n" + "  Step();\n" * 60 + "});\n",
        r"base/spec.cc:\d+: a function of 61 lines"),
    "a long function behind an apostrophe between digits": (
        "base/spec.cc", "bool Few(char c) { return 1'000 > c && c == '{'; }\n" + long_function(61),
        r"base/spec.cc:\d+: a function of 61 lines.*Long"),
    "short functions with two heads": (
        "base/spec.cc", "namespace p {\n#ifdef A\nvoid F() {\n#else\nvoid G() {\n#endif\n}\n" + "void H() {\n  Step();\n}\n" * 25 +
        "}  // namespace p\n", None),
    "a macro of 61 lines": ("base/spec.cc", "#define LONG() \\\n" + "  Step(); \\\n" * 60 + "  End();\n",
                            r"base/spec.cc:\d+: a function of 61 lines.*LONG"),
    "what Python cannot read": ("tests/style/planted.py", "def f(:\n" + "    step()\n" * 61,
                                r"tests/style/planted.py:1: a function of 62 lines.*cannot be read as Python"),
    "a script among data": ("data/digits/planted.py", "# Line.\n" * 501, r"data/digits/planted.py:501: a file of 501"),
    "501 lines without the last one's end": ("base/planted.h", "#pragma once\n" + "// Line.\n" * 499 + "// Last.",
                                             r"base/planted.h:501: a file of 501"),
    "a file of another kind": ("worker/planted.cpp", "int Planted() { return 0; }\n",
                               r"worker/planted.cpp:1: a file of a kind that no rule knows"),
    "a part of a file": ("worker/planted.inc", "int Planted();\n", r"worker/planted.inc:1: a file of a kind"),
    "a header of another kind": ("worker/planted.hpp", "#pragma once\n", r"worker/planted.hpp:1: a file of a kind"),
    "a file without a kind": ("worker/planted", "Nothing.\n", r"worker/planted:1: a file of a kind"),
    "a file of 501 lines": ("base/planted.h", "#pragma once\n" + "// Line.\n" * 500, r"base/planted.h:501: a file of 501"),
    "a file of 500 lines": ("base/planted.h", "#pragma once\n" + "// Line.\n" * 499, None),
    "a class of 16 fields": ("server/shard/planted.h", "#pragma once\n" + large_class(16),
                             r"server/shard/planted.h:2: Planted has 16 fields; at most 15"),
    "a class of 16 fields that are aligned": (
        "server/shard/planted.h", "#pragma once\n" + large_class(16).replace("  int", "  alignas(64) std::atomic<int>"),
        r"server/shard/planted.h:2: Planted has 16 fields"),
    "a class of 16 fields of bits": (
        "server/shard/planted.h", "#pragma once\n" + large_class(16).replace(" = 0;", " : 3;"),
        r"server/shard/planted.h:2: Planted has 16 fields"),
    "a class of 16 guarded fields": (
        "server/shard/planted.h", "#pragma once\n" + large_class(16).replace(" = 0;", " ABSL_GUARDED_BY(m());"),
        r"server/shard/planted.h:2: Planted has 16 fields"),
    "a class of 15 fields": ("server/shard/planted.h", "#pragma once\n" + large_class(15), None),
    "a class of 16 fields elsewhere": ("base/planted.h", "#pragma once\n" + large_class(16), None),
    "a name that says nothing": ("base/utils.h", "#pragma once\n", r"base/utils.h:1: a file named utils"),
    "a header without a guard": ("base/planted.h", "int Planted();\n", r"base/planted.h:1: without #pragma once"),
    "operators under a name of their own": ("compute/cuda/normalization.cc", '#include "compute/cuda/operators.h"\n',
                                            r"compute/cuda/normalization.cc:1: named for no operator"),
    "kernels under a name of their own": ("compute/cuda/loss.cu", '#include "compute/cuda/kernels.h"\n',
                                          r"compute/cuda/loss.cu:1: named for no operator"),
    "another backend's helper": ("compute/reference/gemm.h", "#pragma once\n",
                                 r"compute/reference/gemm.h:1: named for no operator"),
    "kernels of an operator": ("compute/cuda/transpose.cu", '#include "compute/cuda/kernels.h"\n', None),
    "a test beside operators": ("compute/cuda/normalization_test.cc", '#include "compute/cuda/operators.h"\n', None),
    "an include against the layers": ("consistency/catalogue.cc", '#include "wire/message.h"\n',
                                      r"consistency/catalogue.cc:\d+: consistency may not include wire"),
    "an include by another spelling": ("consistency/catalogue.cc", '#include <wire/message.h>\n',
                                       r"consistency/catalogue.cc:\d+: consistency may not include wire"),
    "an include from where it lies": ("consistency/catalogue.cc", '#include "../wire/message.h"\n',
                                      r"consistency/catalogue.cc:\d+: consistency may not include wire"),
    "an include through another room": ("consistency/catalogue.cc", '#include "base/../wire/message.h"\n',
                                        r"consistency/catalogue.cc:\d+: consistency may not include wire"),
    "an include from beside": ("scheduler/broken_links.cc", '#include "planner/search/searcher.h"\n',
                               r"scheduler/broken_links.cc:\d+: scheduler may not include scheduler/planner/search"),
    "an include by a digraph": ("consistency/catalogue.cc", '%:include "wire/message.h"\n',
                                r"consistency/catalogue.cc:\d+: consistency may not include wire"),
    "an include with a comment in it": ("consistency/catalogue.cc", '# /* a */ include /* b */ "wire/message.h"  // c\n',
                                        r"consistency/catalogue.cc:\d+: consistency may not include wire"),
    "an include over two lines": ("consistency/catalogue.cc", '#incl\\\nude \\\n"wire/message.h"\n',
                                  r"consistency/catalogue.cc:\d+: consistency may not include wire"),
    "an include by a macro": ("consistency/catalogue.cc", '#define WHAT "wire/message.h"\n#include WHAT\n',
                              r"consistency/catalogue.cc:\d+: an include whose file a macro names"),
    "an include in a comment": ("consistency/catalogue.cc", '// #include "wire/message.h"\n/*\n#include "wire/message.h"\n*/\n',
                                None),
    "a room whose name begins as that of tests": ("tests_of_planted/one.h", "#pragma once\n", r".*tests_of_planted is no room"),
    "a dependency by CMake's own words": ("consistency/peers/CMakeLists.txt", "target_link_libraries(soapstone_peers soapstone_wire)\n",
                                          r"consistency/peers/CMakeLists.txt:1: consistency/peers may not depend on wire"),
    "a dependency that is no layer": ("consistency/peers/CMakeLists.txt", "soapstone_library(peers DEPS wire)\n",
                                      r"consistency/peers/CMakeLists.txt:1: consistency/peers may not depend on wire"),
    "an include of what is for tests": ("worker/engine.cc", '#include "tests/check/policy_space.h"\n',
                                        r"worker/engine.cc:\d+: worker may not include tests"),
    "a room that nobody knows": ("planted/one.h", "#pragma once\n", r"planted/one.h:1: planted is no room"),
    "an include into another room": ("scheduler/broken_links.cc", '#include "strategy/machine.h"\n',
                                     r"scheduler/broken_links.cc:\d+: scheduler may not include strategy"),
    "what tests alone may include": ("models/runtime/graph_runner.cc", '#include "compute/reference/backend.h"\n',
                                     r"models/runtime/graph_runner.cc:\d+: models/runtime may not include compute/reference"),
    "the same in a test": ("models/runtime/graph_runner_device_test.cc", '#include "compute/reference/backend.h"\n', None),
    "a circle": ("tests/style/layers.txt", "top: down\ndown: top\n", r"tests/style/layers.txt:1: a circle among down, top"),
    "a forbidden word": ("docs/wire.md", "The {word} is sent first.\n", r"docs/wire.md:\d+: {word} is \S+ now"),
    "a forbidden word in a name": ("base/spec.cc", "int leaf_range_count;\n", r"base/spec.cc:\d+: LeafRange is \S+ now"),
    "a forbidden constant as a variable": ("base/spec.cc", "int all_leaves;\n", r"base/spec.cc:\d+: kAllLeaves is \S+ now"),
    "a forbidden word written as one": ("base/spec.cc", "int pricelist;\n", r"base/spec.cc:\d+: PriceList is \S+ now"),
    "a forbidden word with a hyphen": ("docs/wire.md", "The price-list.\n", r"docs/wire.md:\d+: PriceList is \S+ now"),
    "a forbidden word's plural": ("base/spec.cc", "// Of MAILERS.\n", r"base/spec.cc:\d+: Mailer is \S+ now"),
    "a forbidden word in a script": ("cmake/setup.sh", "# The enrolment.\n", r"cmake/setup.sh:\d+: Enrolment is \S+ now"),
    "a forbidden word in a job": ("examples/a9a-ftrl.textproto", "# The {word}.\n", r".*a9a-ftrl.textproto:\d+: {word} is"),
    "a forbidden word in a rule": ("deploy/monitoring/rules.yml", "# The {word}.\n", r".*rules.yml:\d+: {word} is"),
    "a forbidden word on a web page": ("observe/status/page/index.html", "<p>{word}</p>\n", r".*index.html:\d+: {word} is"),
    "a forbidden word in its script": ("observe/status/page/draw.js", "// The {word}.\n", r".*draw.js:\d+: {word} is"),
    "a forbidden word in its style": ("observe/status/page/board.css", "/* {word} */\n", r".*board.css:\d+: {word} is"),
    "a forbidden word in an example": ("docs/extending/planted.patch", "+// The {word}.\n", r".*planted.patch:\d+: {word} is"),
    "a forbidden word in a script without a suffix": ("deploy/try", "# The {word}.\n", r"deploy/try:\d+: {word} is"),
    "a file with a forbidden name": ("base/move_maker.h", "#pragma once\n", r"base/move_maker.h:1: MoveMaker is \S+ now"),
    "what only holds its letters": ("base/spec.cc", "int indices;\n", None),
    "a file that is gone": ("base/spec.cc", "// See base/gone.h.\n", r"base/spec.cc:\d+: there is no base/gone.h"),
    "a file that is gone, in a block": ("base/spec.cc", "/* See\n   base/gone.h. */\n", r"base/spec.cc:\d+: there is no base/gone.h"),
    "a file that is gone, in a docstring": ("tests/golden/planted.py", 'def f():\n    """See\n    base/gone.h."""\n',
                                            r".*planted.py:3: there is no base/gone.h"),
    "a file that is gone, in what builds": ("base/CMakeLists.txt", "# See base/gone.h.\n", r".*CMakeLists.txt:\d+: .*base/gone.h"),
    "a file that is gone, in a job": ("examples/a9a-ftrl.textproto", "# See base/gone.h.\n", r".*:\d+: there is no base/gone.h"),
    "a file that is gone, in a rule": ("deploy/monitoring/rules.yml", "# See base/gone.h.\n", r".*:\d+: there is no base/gone.h"),
    "a file that is gone, on a web page": ("observe/status/page/index.html", "<!-- See\nbase/gone.h. -->\n",
                                           r".*:\d+: there is no base/gone.h"),
    "a file that is gone, in a script without a suffix": ("deploy/try", "# See base/gone.h.\n", r".*:\d+: there is no base/gone.h"),
    "a web page that is gone": ("base/spec.cc", "// See observe/status/page/gone.js.\n", r".*: there is no observe/status/page/gone.js"),
    "a file of several dots that is gone": ("docs/wire.md", "As `examples/gone.machine.textproto`.\n",
                                            r".*: there is no examples/gone.machine.textproto"),
    "a pair of files of which one is gone": ("base/spec.cc", "// In base/spec_test.{h,cc}.\n", r".*: there is no base/spec_test.h"),
    "a file that is gone, behind an apostrophe between digits": (
        "base/spec.cc", "constexpr int kMax = 10'000;  // it's in base/gone.h\n", r".*: there is no base/gone.h"),
    "a reader's own file": ("docs/wire.md", "It writes `runs/table.json`, and `table.html`.\n", None),
    "a page that names what is gone": ("docs/wire.md", "It is in `wire/gone.cc`.\n", r"docs/wire.md:\d+: .*wire/gone.cc"),
    "a foreign library": ("server/shard/ledger.cc", "#include <zmq.h>\n", r"server/shard/ledger.cc:\d+: zmq outside security, transport"),
    "a mutex of another kind": ("server/shard/ledger.cc", "#include <mutex>\n", r"server/shard/ledger.cc:\d+: mutex outside base"),
    "a mutex that some header brings": ("server/shard/ledger.cc", "std::mutex m;\n", r"server/shard/ledger.cc:\d+: a mutex of another kind"),
    "Abseil's mutex": ("server/shard/ledger.cc", '#include "absl/synchronization/mutex.h"\n',
                       r"server/shard/ledger.cc:\d+: absl/synchronization/mutex outside base"),
    "device code": ("worker/program/program.cc", "#include <cuda_runtime.h>\n", r"worker/program/program.cc:\d+: cuda outside compute"),
    "the date": ("server/shard/ledger.cc", "absl::Time Now() { return absl::Now(); }\n", r"server/shard/ledger.cc:\d+: .*date"),
    "the date in a comment": ("server/shard/ledger.cc", "// absl::Now() jumps.\n", None),
    "a long line of a page": ("docs/wire.md", "\nA word " + "and another " * 10 + "end.\n", r"docs/wire.md:\d+: a line of \d+ characters"),
    "a long line of code": ("docs/wire.md", "\n    soapstone" + " models" * 20 + "\n", None),
    "a flag that no program has": ("docs/wire.md", "Give it `--planted`.\n",
                                   r"docs/wire.md:\d+: no program has the flag --planted"),
    "a flag that no page has": ("apps/plan/plan_flags.cc", 'void Add(CLI::App* a) { a->add_flag("--planted"); }\n',
                                r"apps/plan/plan_flags.cc:1: docs/jobs.md and docs/planner.md say nothing of --planted"),
    "an exit code that no page has": ("base/exit_codes.h", "inline constexpr int kExitPlanted = 99;\n",
                                      r"docs/operations.md:\d+: no row for the exit code 99"),
    "an example with data that nobody can find": (
        "examples/mnist-lenet5.textproto", 'data { path: "../../shared/mnist" }\n',
        r"examples/mnist-lenet5.textproto:\d+: ../../shared/mnist is of no set of `soapstone data`"),
    "a link to what is gone": ("docs/wire.md", "See [the folder](../planted).\n", r"docs/wire.md:\d+: there is no planted"),
    "a link to a folder": ("docs/wire.md", "See [the folder](../wire/config).\n", None),
    "a link to no heading": ("docs/wire.md", "See [the jobs](jobs.md#planted).\n",
                             r"docs/wire.md:\d+: docs/jobs.md has no heading for #planted"),
    "an example that touches one file more": (
        "docs/extending/message.patch",
        "diff --git a/wire/planted.h b/wire/planted.h\nnew file mode 100644\n--- /dev/null\n+++ b/wire/planted.h\n"
        "@@ -0,0 +1 @@\n+#pragma once\n", r"docs/EXTENDING.md:\d+: message: no row for wire/planted.h"),
    "a longer way for newcomers": ("sim/world.h", "// Line.\n" * 300, r"docs/EXTENDING.md:1: 7 files to read, of 1\d\d\d lines"),
    "a link to a heading": ("docs/wire.md", "See [the jobs](jobs.md#injected-delays).\n", None),
}

# What is written in the place of what in a file of the copy, and what is said then.
REPLACED = {
    "an operator without files": ("compute/op.h", "SoftmaxCrossEntropy>;", "SoftmaxCrossEntropy, PlantedNorm2d>;",
                                  "PlantedNorm2d has no planted_norm2d.cc in models/ops, compute/reference, compute/cpu, "
                                  "compute/cuda"),
    "no list of operators": ("compute/op.h", "using Operator =", "using Operands =", "compute/op.h:1: no list of operators"),
    "a policy without a row": ("docs/consistency.md", r"\| `essp.*\n", "", "no row for the policy essp"),
    "a policy over two lines without a row": ("consistency/catalogue.cc", r'\{"ssp", "ssp:s=N", &ParseSsp,',
                                              '{"sspp",\n     "sspp:s=N",\n     &ParseSsp,', "no row for the policy sspp"),
    "a policy with another parser": ("consistency/catalogue.cc", r'\{"ssp", "ssp:s=N", &ParseSsp,',
                                     '{"sspp", "sspp:s=N", [](const Spec& spec) { return ParseSsp(spec); },',
                                     "consistency/catalogue.cc:1: no list of policies"),
    "a policy without an address": ("consistency/catalogue.cc", r'\{"ssp", "ssp:s=N", &ParseSsp,', '{"sspp", "sspp:s=N", ParseSsp,',
                                    "no row for the policy sspp"),
    "a policy of another form": ("consistency/catalogue.cc", r'\{"ssp", "ssp:s=N", &ParseSsp,',
                                 '{kName, "ssp:s=N", &ParseSsp,', "consistency/catalogue.cc:1: no list of policies"),
    "a folder that has no row": ("ARCHITECTURE.md", r"\nexamples/ .*\n", "\n", "nothing of the folder examples"),
    "an example whose place has changed": ("wire/frame.proto", "ServerProgress server_progress = 38;", "ServerProgress reads = 38;",
                                           "docs/extending/message.patch:1: the example does not apply: "),
    "an example's file without a row": ("docs/EXTENDING.md", r"\| `wire/frame.proto` .*\n", "",
                                        "message: no row for wire/frame.proto, which the patch touches"),
    "a file that an example does not touch": ("docs/EXTENDING.md", r"\| `wire/frame.proto` (.*\n)",
                                              r"\g<0>| `wire/frame.h` \1", "message: the patch does not touch wire/frame.h"),
    "another number of files": ("docs/EXTENDING.md", r"(\[a message\]\(#a-message\) \| )4", r"\g<1>3",
                                "message: 3 files of 4 here, 4 of 4 in its patch"),
    "a model without a row": ("docs/models.md", r"\| `rnntc`.*\n", "", "no row for the model rnntc"),
    "a model that is something else": ("models/zoo/zoo.cc", "two hidden layers", "three hidden layers",
                                       "model mlp: two hidden layers, ReLU here, three hidden layers, ReLU in"),
    "a row without a model": ("docs/models.md", r"(\| `rnntc`.*\n)", r"\1| `rnntd` | nothing |\n",
                              "there is no model rnntd in models/zoo/zoo.cc"),
    "a model over tables without a row": ("docs/tables.md", r"\| `skip_gram.*\n", "", "no row for the model skip_gram"),
    "another one": ("docs/tables.md", r"\| `dlrm.*\n", "", "no row for the model dlrm"),
    "a searcher without a row": ("docs/planner.md", r"\| `greedy`.*\n", "", "no row for the searcher greedy"),
    "a number that is no more": ("README.md", "fifteen searchers", "fourteen searchers",
                                 "README.md:1: fourteen searchers; there are fifteen"),
    "a data set without a row": ("docs/jobs.md", r"\| `a9a` .*\n", "", "no row for the data set a9a"),
    "a claim of README that no experiment made": ("README.md", r"\| 2\.1 \| 1\.6 to 2\.7 \|", "| 2.6 | 1.6 to 2.7 |",
                                                  "docs/experiments.md has no result of policy-zoo that is 2.6 1.6 to 2.7"),
    "an exit code without a row": ("docs/operations.md", r"\| 79 .*\n", "", "no row for the exit code 79"),
    "a message without a row": ("docs/wire.md", r"\| 12 \| Evaluated .*\n", "", "no row for the message Evaluated"),
    "a message of another number": ("wire/message.h", "kFinished = 33", "kFinished = 34",
                                    "message Finished: 33 here, 34 in wire/message.h"),
    "a field of the header without a row": ("docs/wire.md", "35–38", "35–37", "no row for the field of number 38"),
    "a body that the header's row lacks": ("docs/wire.md", ", ServerProgress \\|", " |", "no row for the body ServerProgress"),
    "a field of a job without a row": ("docs/jobs.md", r"\| `cluster.isa`.*\n", "", "no row for the field cluster.isa"),
    "a field of a job under another flag": ("docs/jobs.md", "`training.seed` \\| `--seed`", "`training.seed` | `--seeds`",
                                            "field training.seed: --seeds here, --seed in cluster/job_fields.cc"),
    "a field of a job without a flag": ("wire/config/job.proto", r"(  uint32 epochs = 1;)", r"\1\n  uint32 planted = 99;",
                                        "the field training.planted has no flag"),
}


class StyleTest(unittest.TestCase):
    """A test for each rule, made below."""


def of_the_tree(rule):
    def test(self):
        found = rule(rules.Tree(ROOT))
        self.assertEqual(found, [], "\n" + "\n".join(found))
    return test


for each in RULES:
    setattr(StyleTest, f"test_{each.__name__}", of_the_tree(each))


class PlantedTest(unittest.TestCase):
    """In a copy of the tree."""

    @classmethod
    def setUpClass(cls):
        cls.copy = pathlib.Path(tempfile.mkdtemp(prefix="soapstone-style-"))
        cls.known = rules.Tree(ROOT).known
        cls.before = {}  # what the rules say of a file in which nothing is planted
        for name in cls.known:
            (cls.copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, cls.copy / name)
        cls.word = next(iter(rules.words((ROOT / "docs/GLOSSARY.md").read_text())))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.copy)

    def found(self, name):
        """What the rules say of the copy's file, and of the tree as a whole."""
        tree = rules.Tree(self.copy, True, only=[name], known=self.known | {name})
        return {line for rule in RULES for line in rule(tree)}

    def found_before(self, name):
        if not (self.copy / name).exists():
            return set()
        if name not in self.before:
            self.before[name] = self.found(name)
        return self.before[name]

    def plant(self, name, text):
        path = self.copy / name
        path.parent.mkdir(exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + text)

    def restore(self, name):
        (self.copy / name).unlink()
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, self.copy / name)

    def test_each_planted_fault_is_found(self):
        for what, (name, text, said) in PLANTED.items():
            with self.subTest(what):
                text = text.replace("{word}", self.word)
                before = self.found_before(name)
                self.plant(name, text)
                found = self.found(name) - before
                self.restore(name)
                if what != "misformatted":  # planted without a look at the lines around it
                    found = {line for line in found if "clang-format" not in line}
                if said is None:
                    self.assertEqual(found, set())
                    continue
                self.assertEqual(len(found), 1, found)
                self.assertRegex(found.pop(), "^" + said.replace("{word}", re.escape(self.word)))

    def test_each_fault_that_takes_a_place_is_found(self):
        for what, (name, pattern, instead, said) in REPLACED.items():
            with self.subTest(what):
                before = self.found_before(name)
                path = self.copy / name
                text, times = re.subn(pattern, instead, path.read_text())
                path.write_text(text)
                found = {line for line in self.found(name) - before if "clang-format" not in line}
                self.restore(name)
                if "example" not in what:  # planted beside what an example changes
                    found = {line for line in found if "the example does not apply" not in line}
                self.assertEqual(times, 1)
                self.assertEqual(len(found), 1, found)
                self.assertIn(said, found.pop())

    def test_pictures_that_nothing_makes_are_found(self):
        self.plant("docs/planted.md", "![one](pictures/one.png)\n![plan](pictures/plan.svg)\n")
        found = self.found("docs/planted.md")
        self.restore("docs/planted.md")
        self.assertEqual(found, {
            "docs/planted.md:1: no command makes the picture pictures/one.png",
            "docs/planted.md:1: there is no docs/pictures/one.png",
            "docs/planted.md:2: it does not say what makes the picture pictures/plan.svg"})

    def test_an_example_that_takes_more_files_than_it_may_is_found(self):
        patch, page = "docs/extending/message.patch", "docs/EXTENDING.md"
        self.plant(patch, "diff --git a/wire/planted.h b/wire/planted.h\nnew file mode 100644\n--- /dev/null\n"
                          "+++ b/wire/planted.h\n@@ -0,0 +1 @@\n+#pragma once\n")
        text = (self.copy / page).read_text()
        row = "| `wire/frame.proto` |"
        (self.copy / page).write_text(text.replace(row, "| `wire/planted.h` | one more |\n" + row, 1))
        found = self.found(patch)
        self.restore(patch)
        self.restore(page)
        self.assertEqual(len(found), 1, found)
        self.assertIn("message: 5 files; at most 4", found.pop())

    def test_an_operator_that_is_renamed_in_one_backend_is_found(self):
        self.assertEqual(operators.operators_by_other_names(rules.Tree(self.copy, True)), [])
        (self.copy / "compute/cuda/batch_norm.cc").rename(self.copy / "compute/cuda/norm.cc")
        found = operators.operators_by_other_names(rules.Tree(self.copy, True))
        (self.copy / "compute/cuda/norm.cc").rename(self.copy / "compute/cuda/batch_norm.cc")
        self.assertEqual(len(found), 2, found)
        self.assertEqual(found[0], "compute/cuda/norm.cc:1: named for no operator of compute/op.h, and not among "
                                   "compute/cuda's helpers")
        self.assertRegex(found[1], r"^compute/op.h:\d+: BatchNorm has no batch_norm.cc in compute/cuda$")

    def test_a_helper_that_is_gone_is_found(self):
        (self.copy / "compute/cpu/gemm.h").rename(self.copy / "gemm.h")
        found = operators.operators_by_other_names(rules.Tree(self.copy, True))
        (self.copy / "gemm.h").rename(self.copy / "compute/cpu/gemm.h")
        self.assertEqual(found, ["tests/style/operators.py:1: compute/cpu has no helper gemm"])

    def test_a_crowded_folder_is_found(self):
        self.assertEqual(rules.crowded(rules.Tree(self.copy, True)), [])
        for i in range(41):
            self.plant(f"data/planted/{i}.h", "#pragma once\n")
        for i in range(26):
            self.plant(f"planted_{i}/one.h", "#pragma once\n")
        found = rules.crowded(rules.Tree(self.copy, True))
        for i in range(41):
            self.restore(f"data/planted/{i}.h")
        for i in range(26):
            self.restore(f"planted_{i}/one.h")
        self.assertEqual(len(found), 2)
        self.assertEqual(found[0], "data/planted:1: a folder of 41 files; at most 40")
        self.assertRegex(found[1], r"^\.:1: \d+ folders at the top; at most 25$")


class GraphTest(unittest.TestCase):

    def test_the_rooms_are_drawn_each_over_what_it_includes(self):
        drawn = layers.graph(rules.Tree(ROOT))
        self.assertIn('  "consistency/peers" -> "consistency";', drawn)
        self.assertNotIn('  "consistency/peers" -> "base";', drawn)  # through consistency


class FunctionsTest(unittest.TestCase):

    def test_what_is_a_function(self):
        text = '''namespace a {
// void Comment() {
struct S : public T {
  S() : a_{1}, b_(2) {
    Call("}");
  }
  int Get() const { return a_; }
  std::vector<int> list = {1,
                           2};
};
constexpr int kTable[] = {1, 2};
template <typename T>
T Two(T a,
      T b) {
  const auto twice = [](T x) {
    return 2 * x;
  };
  if (a) { return twice(b); }
  return a;
}
TEST_F(Some, Thing) {
  Do('{');
}
}  // namespace a
'''
        self.assertEqual([(line, lines) for line, lines, _ in functions(text)], [(4, 2), (7, 0), (14, 6), (21, 2)])


class FieldsTest(unittest.TestCase):

    def test_what_is_a_field(self):
        text = '''namespace a {
class B final : public C {
 public:
  explicit B(int x) : x_(x), y_{1} { z_ = 0; }
  int x() const { return x_; }
  static int Made(int made_);
  struct Inner {
    int inner_ = 0;
  };
  enum class Kind { kOne };

 private:
  class D {
    int d_;
  };
  friend class E;
  using F = int;
  void Do();  // int comment_;
  const int x_, y_;
  std::map<int, std::function<void(int)>> z_;
  std::atomic<bool> done_ = false;
  int table_[2][3] = {{1, 2}};
  SteadyTime at_ = SteadyTime::Past();
  B* next_ ABSL_GUARDED_BY(mutex_) = nullptr;
};
}  // namespace a
'''
        self.assertEqual(fields(text), [(13, "D", 1), (2, "B", 7)])


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=0)
    failed = len(program.result.failures) + len(program.result.errors)
    print(max(program.result.testsRun - failed, 0), failed)
    sys.exit(failed > 0)
