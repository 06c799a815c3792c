"""api_pages: pages that hold the contracts, red when a header or a docstring has changed since."""
import unittest

from tool_testing import ToolTest

HEADER = """// Adds tensors,
// quickly.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace darkformer::ops {

// The sum of both.
int add(int a, int b);

}  // namespace darkformer::ops
"""
MODULE = '''"""Sums."""
class Sum:
    """A sum."""
    first: int = 3

    def __init__(self, a, *, b=2):
        pass

    def add(self, c):
        """One more."""

    def _hidden(self):
        """Not shown."""


def total(a, *others):
    """Of all."""
'''


class ApiPages(ToolTest):
    def setUp(self):
        super().setUp()
        self.write("cmake/PublicHeaders.cmake", "set(DARKFORMER_PUBLIC_HEADERS\n  ops/add.h)\n")
        self.write("darkformer/ops/add.h", HEADER)
        self.write("python/darkformer/__init__.py", '"""A package."""\nfrom .sums import Sum, total\n')
        self.write("python/darkformer/sums.py", MODULE)
        (self.root / "docs").mkdir()

    def run_pages(self, *arguments):
        return self.run_tool("api_pages", "--root", self.root, *arguments)

    def test_pages_hold_the_contracts(self):
        self.assertEqual(self.run_pages()[0], 0)
        cpp, python = ((self.root / "docs" / name).read_text() for name in ("api_cpp.md", "api_python.md"))
        self.assertIn("## ops/add.h\nAdds tensors, quickly.\n", cpp)
        self.assertIn("#include <darkformer/ops/add.h>\n\n// The sum of both.\nint add(int a, int b);\n```", cpp)
        self.assertIn("Sum(a, *, b=2)\n    A sum.\n\n    first: int = 3\n\n    add(c)\n        One more.\n```", python)
        self.assertIn("total(a, *others)\n    Of all.\n", python)
        self.assertNotIn("Not shown", python)

    def test_stale_pages_are_red(self):
        self.assertEqual(self.run_pages("--check")[0], 1)
        self.run_pages()
        self.assertEqual(self.run_pages("--check"), (0, ""))
        self.write("darkformer/ops/add.h", HEADER.replace("of both", "of the two"))
        code, printed = self.run_pages("--check")
        self.assertEqual((code, printed), (1, "docs/api_cpp.md is stale; run: tools/api_pages\n"))
        self.write("python/darkformer/sums.py", MODULE.replace("Of all", "Of everything"))
        self.assertIn("api_python.md", self.run_pages("--check")[1])


if __name__ == "__main__":
    unittest.main()
