"""reproduction_tables: puts claims into a page, and leaves it alone when there are none."""
import json
import unittest

from tool_testing import ToolTest

PAGE = "# Results\n<!-- claims -->\nearlier\n<!-- end -->\nafter\n"
CLAIMS = [
    {"experiment": "one", "name": "a", "statement": "A beats B", "measure": "A minus B", "above": 0, "mean": 0.125, "low": 0.1, "high": 0.15,
     "values": [0.12, 0.13], "verdict": "holds",
     "terms": [{"run": "r/a", "quantity": "accuracy", "mean": 0.5, "low": 0.4, "high": 0.6},
               {"run": "r/b", "quantity": "accuracy", "mean": 0.25, "low": None, "high": None}]},
    {"experiment": "one", "name": "b", "statement": "not done", "measure": "nothing", "above": 0, "mean": None, "low": None, "high": None,
     "values": [], "verdict": "not measured", "terms": [{"run": "r/a", "quantity": "accuracy", "mean": 0.5, "low": 0.4, "high": 0.6}]},
    {"experiment": "variance", "name": "Lemma 1", "statement": "|x| is unbiased", "measure": "0.1 errors", "verdict": "holds"},
]


class ReproductionTables(ToolTest):
    def test_claims_are_put_in(self):
        page = self.write("page.md", PAGE)
        self.write("out/claims.json", json.dumps(CLAIMS))
        code, text = self.run_tool("reproduction_tables", self.root / "out", "--page", page)
        self.assertEqual(code, 0, text)
        filled = page.read_text()
        self.assertIn("### one\n\n| statement |", filled)
        self.assertIn("| A beats B | A minus B | 0.125 [0.1, 0.15] | holds |\n", filled)
        self.assertIn("| not done | nothing | – | not measured |\n", filled)
        self.assertIn("| Lemma 1 | \\|x\\| is unbiased | 0.1 errors | holds |\n", filled)
        self.assertIn("| `r/b` | accuracy | 0.25 |\n", filled)
        self.assertEqual(filled.count("`r/a`"), 1)
        self.assertTrue(filled.endswith("<!-- end -->\nafter\n"))
        self.assertNotIn("earlier", filled)
        self.assertEqual(self.run_tool("reproduction_tables", self.root / "out", "--page", page)[0], 0)
        self.assertEqual(page.read_text(), filled)

    def test_bad_input_leaves_the_page(self):
        page = self.write("page.md", PAGE)
        for text in (None, "{", '[{"experiment": "one"}]', "7"):
            if text is not None:
                self.write("out/claims.json", text)
            code, said = self.run_tool("reproduction_tables", self.root / "out", "--page", page)
            self.assertEqual(code, 1, said)
            self.assertIn("claims.json", said)
            self.assertEqual(page.read_text(), PAGE)
        self.write("out/claims.json", json.dumps(CLAIMS))
        self.assertEqual(self.run_tool("reproduction_tables", self.root / "out", "--page", self.write("bare.md", "# Results\n"))[0], 1)


if __name__ == "__main__":
    unittest.main()
