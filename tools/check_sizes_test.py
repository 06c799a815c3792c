"""check_sizes: reports what is over its size, and is red only when asked to be strict."""
import unittest

from tool_testing import ToolTest


class CheckSizes(ToolTest):
    def test_small_things_are_green(self):
        self.write("darkformer/base/a.cc", "// A.\nint f(int a, int b) {\n  return a + b;\n}\n")
        code, text = self.run_tool("check_sizes", "--root", self.root, "--strict")
        self.assertEqual(code, 0, text)
        self.assertIn("1 functions, median 3", text)

    def test_large_things_are_reported(self):
        body = "  g();\n" * 80
        self.write("darkformer/base/a.cc", f"int f(int a,\n      int b) {{\n{body}}}\n" + "int x;\n" * 400)
        self.write("darkformer/base/b.h", "int h(" + ", ".join(f"int a{i}" for i in range(9)) + ") {\n  return 1;\n}\n")
        code, text = self.run_tool("check_sizes", "--root", self.root)
        self.assertEqual(code, 0, text)
        self.assertIn("darkformer/base/a.cc: 483 lines", text)
        self.assertIn("darkformer/base/a.cc:1: function of 83 lines", text)
        self.assertIn("darkformer/base/b.h:1: 9 parameters", text)
        self.assertEqual(self.run_tool("check_sizes", "--root", self.root, "--strict")[0], 1)


if __name__ == "__main__":
    unittest.main()
