"""check_lines: green on a right file, red on each kind of wrong line."""
import unittest

from tool_testing import ToolTest

RIGHT = "// Adds numbers.\n// SPDX-License-Identifier: Apache-2.0\nint x;\n"


class CheckLines(ToolTest):
    def check(self, text):
        self.write("darkformer/base/a.cc", text)
        return self.run_tool("check_lines", "--root", self.root)

    def test_right_file_is_green(self):
        self.assertEqual(self.check(RIGHT)[0], 0)
        self.assertEqual(self.check(RIGHT + "// " + "ü" * 97 + "\n")[0], 0)

    def test_wrong_lines_are_red(self):
        for text, line in [
            ("int x;\n" + RIGHT, 1),
            (RIGHT.replace("numbers.\n//", "numbers."), 1),
            (RIGHT + "// " + "x" * 98 + "\n", 4),
            (RIGHT + "int y; \n", 4),
            (RIGHT + "\tint y;\n", 4),
        ]:
            code, printed = self.check(text)
            self.assertEqual(code, 1, text)
            self.assertIn(f"darkformer/base/a.cc:{line}:", printed)


if __name__ == "__main__":
    unittest.main()
