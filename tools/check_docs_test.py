"""check_docs: green on true pages, red on each kind of untruth."""
import unittest

from tool_testing import ToolTest

CLI = """# Command reference
## Options of every command
| option | meaning |
|---|---|
| `--seed N` | seed |

## info
| option | meaning |
|---|---|
| `MODEL` | folder |
| `-n, --count N` | count |
"""

README = """# Title
See [the reference](docs/cli.md#info), [here](#title), [outside](https://example.org/x) and `docs/cli.md`.
![picture](docs/picture.svg)
```sh
make test
darkformer info m --count 3 --seed 1 > out.txt
darkformer --version
```
"""


class CheckDocs(ToolTest):
    def setUp(self):
        super().setUp()
        self.write("Makefile", "test: build ## run\nbuild:\n")
        self.write("docs/cli.md", CLI)
        self.write("docs/picture.svg", "<svg/>")
        self.write("README.md", README)
        self.program = self.write("program", f"#!/bin/sh\ncat <<'END'\n{CLI}END\n")
        self.program.chmod(0o755)

    def check(self, *arguments):
        return self.run_tool("check_docs", "--root", self.root, *arguments)

    def test_true_pages_are_green(self):
        code, text = self.check("--program", self.program)
        self.assertEqual(code, 0, text)

    def test_untruths_are_red(self):
        for line, complaint in [
            ("[x](docs/none.md)", "no such file"),
            ("![x](docs/none.svg)", "no such file"),
            ("[x](docs/cli.md#none)", "no such heading"),
            ("`docs/none.md`", "docs/none.md does not exist"),
            ("run `make tset`", "make tset"),
            ("run `darkformer inof m`", "darkformer inof"),
            ("run `darkformer info m --cuont 3`", "--cuont"),
            ("run `darkformer --versoin`", "--versoin"),
            ("```sh\nmake nothing\n```", "make nothing"),
        ]:
            self.write("README.md", README + line + "\n")
            code, text = self.check()
            self.assertEqual(code, 1, line)
            self.assertIn(complaint, text)
            self.assertIn("README.md:", text)

    def test_stale_reference_is_red(self):
        self.write("docs/cli.md", CLI.replace("count |", "number |"))
        code, text = self.check("--program", self.program)
        self.assertEqual(code, 1)
        self.assertIn("stale", text)


if __name__ == "__main__":
    unittest.main()
