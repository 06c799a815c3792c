"""performance_tables: fills the tables of a page, and leaves it alone when a benchmark fails."""
import stat
import unittest

from tool_testing import ToolTest

PAGE = """# Speed
<!-- darkformer bench gemm --lengths 8 -->
old
<!-- end -->
words between
<!-- darkformer bench train -->
<!-- end -->
"""


class PerformanceTables(ToolTest):
    def program(self, body):
        file = self.write("darkformer", "#!/bin/sh\n" + body)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file

    def test_tables_are_filled(self):
        page = self.write("page.md", PAGE)
        program = self.program('[ "$1" = --version ] && { echo darkformer 1; echo "CPU   Z80"; exit; }\necho "ran $*"\n')
        code, text = self.run_tool("performance_tables", program, "--page", page)
        self.assertEqual(code, 0, text)
        filled = page.read_text()
        self.assertIn("<!-- darkformer bench gemm --lengths 8 -->\n```text\nran bench gemm --lengths 8\n```\ndarkformer 1; Z80;", filled)
        self.assertIn("ran bench train\n", filled)
        self.assertIn("words between", filled)
        self.assertNotIn("old", filled)
        # Once more: the tables are replaced, not added.
        self.assertEqual(self.run_tool("performance_tables", program, "--page", page, "--only", "gemm")[0], 0)
        self.assertEqual(page.read_text(), filled)

    def test_a_failure_leaves_the_page(self):
        page = self.write("page.md", PAGE)
        program = self.program('[ "$1" = --version ] && { echo darkformer 1; exit; }\necho "darkformer: broken" >&2; exit 1\n')
        code, text = self.run_tool("performance_tables", program, "--page", page)
        self.assertEqual(code, 1)
        self.assertIn("bench gemm --lengths 8: darkformer: broken", text)
        self.assertEqual(page.read_text(), PAGE)

    def test_a_page_without_tables_is_an_error(self):
        program = self.program("echo darkformer 1\n")
        self.assertEqual(self.run_tool("performance_tables", program, "--page", self.write("page.md", "# Speed\n"))[0], 1)


if __name__ == "__main__":
    unittest.main()
