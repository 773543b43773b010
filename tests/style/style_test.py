#!/usr/bin/env python3
"""The tree keeps the rules of docs/STYLE.md that a machine can check; and each rule finds the fault that is planted for
it in a copy of the tree, and nothing else there.

usage: style_test.py [TEST...]     the last line: "passed failed"
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import examples
import layers
import operators
import pages
import rules
from functions import fields, functions
from plants import PLANTED, REPLACED

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RULES = [rules.misformatted, rules.never_formatted, rules.too_long, rules.too_many_fields, rules.crowded,
         rules.folders_of_all_tests,
         rules.named_for_nothing, rules.of_no_kind, rules.badly_named, rules.top_folders_that_differ,
         rules.files_that_are_gone,
         rules.forbidden_words,
         rules.policies_without_a_row, rules.pictures_without_a_command, layers.against_layers, layers.circles,
         layers.dependencies_that_are_no_layers, layers.foreign_types, layers.dates, *operators.RULES,
         *pages.RULES, *examples.RULES]
# clang-format is a process for each plant, and has a test of its own.
RULES_OF_PLANTS = [each for each in RULES if each is not rules.misformatted]


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
        return {line for rule in RULES_OF_PLANTS for line in rule(tree)}

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
                if said is None:
                    self.assertEqual(found, set())
                    continue
                self.assertEqual(len(found), 1, found)
                self.assertRegex(found.pop(), "^" + said.replace("{word}", re.escape(self.word)))

    def test_what_clang_format_would_change_is_found(self):
        name = "base/spec.cc"
        self.assertEqual(rules.misformatted(rules.Tree(self.copy, True, only=[name])), [])
        self.plant(name, "int  Misformatted();\n")
        found = rules.misformatted(rules.Tree(self.copy, True, only=[name]))
        self.restore(name)
        self.assertEqual(len(found), 1, found)
        self.assertRegex(found[0], r"^base/spec.cc:\d+: clang-format would change it$")

    def test_each_fault_that_takes_a_place_is_found(self):
        for what, (name, pattern, instead, said) in REPLACED.items():
            with self.subTest(what):
                before = self.found_before(name)
                path = self.copy / name
                text, times = re.subn(pattern, instead, path.read_text())
                path.write_text(text)
                found = self.found(name) - before
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


class TreeTest(unittest.TestCase):

    def test_git_knows_files_of_any_name(self):
        names = {"größe.h", "a name.h", "b/plain.h"}
        with tempfile.TemporaryDirectory(prefix="soapstone-style-") as folder:
            subprocess.run(["git", "init", "--quiet", folder], check=True)
            for name in names:
                path = pathlib.Path(folder, name)
                path.parent.mkdir(exist_ok=True)
                path.write_text("#pragma once\n")
            self.assertEqual(rules.Tree(folder).known, names)


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
