"""tools/check_tree.py finds the faults in made-up files."""
import tempfile
import unittest
from pathlib import Path

import check_tree

PREAMBLE = """#define OPEN {
namespace x {
const char* text = R"x( { )x";  // {
constexpr int kMany[] = {
%s};
template <class T>
  requires std::is_trivially_copyable_v<T>
class Holder {
 public:
  explicit Holder(int a) : a_{a}, b_('{') { check(1'000); }

 private:
  int a_, b_;
};
""" % (
    "  1,\n" * 100
)


def function(lines):
    """A function of so many lines, the signature's two and the closing brace among them."""
    return "int f(int a,\n      int b) {\n" + "  if (a) { a = {b}; }\n" * (lines - 3) + "}\n"


class CheckTree(unittest.TestCase):
    def check(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_text(text)
            root, check_tree.ROOT = check_tree.ROOT, Path(folder)
            try:
                return check_tree.check(path)
            finally:
                check_tree.ROOT = root

    def test_functions(self):
        before = PREAMBLE.count("\n")
        for text, expected in [
            (PREAMBLE + function(60) + function(60) + "}\n", []),
            (PREAMBLE + function(61) + "}\n", [f"a.cpp:{before + 1}: a function of 61 lines, at most 60"]),
            (
                PREAMBLE + "struct S {\n" + function(99) + "};\n}\n",
                [f"a.cpp:{before + 2}: a function of 99 lines, at most 60"],
            ),
            (
                function(70).replace("int f(", "TEST(A, B) // "),
                ["a.cpp:1: a function of 70 lines, at most 60"],
            ),
        ]:
            self.assertEqual(self.check("a.cpp", text), expected)

    def test_lines(self):
        wide = "x" * 111
        self.assertEqual(self.check("a.py", "x" * 110 + "\n"), [])
        self.assertEqual(self.check("a.py", f"\n{wide}\n"), ["a.py:2: 111 columns, at most 110"])
        self.assertEqual(self.check("a.md", f"| {wide} |\n"), [])
        self.assertEqual(self.check("a.md", f"{wide} |\n"), ["a.md:1: 113 columns, at most 110"])
        self.assertEqual(self.check("a.md", f"https://github.com/{wide}\n"), [])
        self.assertEqual(self.check("a.inc", wide + "\n"), [])
        self.assertEqual(self.check("a.cpp", f'const char* s = R"x(\n{wide}\n)x";\n'), [])

    def test_files_and_paths(self):
        self.assertEqual(self.check("a.py", "\n" * 801), ["a.py: 801 lines, at most 800"])
        (found,) = self.check("a.py", "open('/" + "home/me/x')\n")
        self.assertIn("a path of one machine", found)


if __name__ == "__main__":
    unittest.main()
