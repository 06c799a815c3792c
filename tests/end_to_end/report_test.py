"""darkformer variance, analyze and report, and their pages in a real browser: no errors, charts drawn, legends that toggle, phone, dark, print."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from browser import browse, charts_of, check_page

PROGRAM = os.environ["DARKFORMER"]
ROOT = Path(__file__).resolve().parent.parent.parent


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.out = Path(cls.folder.name) / "variance"
        done = subprocess.run([PROGRAM, "variance", "--out", cls.out, "--json"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        cls.summary = json.loads(done.stdout.splitlines()[-1])
        cls.results = json.loads((cls.out / "results.json").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_statement_has_a_verdict_and_a_number(self):
        names = " ".join(s["name"] for s in self.summary["statements"])
        for name in ("Lemma 2.1", "Lemma 3.1", "Theorem 3.2, item 1", "Theorem 3.2, item 2", "Equation 4", "Proposition 4.1"):
            self.assertIn(name, names)
        for s in self.summary["statements"]:
            self.assertIn(s["verdict"], ("holds", "caveat"), s)
            self.assertRegex(s["number"], r"\d")

    def test_the_same_seed_gives_the_same_results(self):
        again = self.out.parent / "again"
        subprocess.run([PROGRAM, "variance", "--out", again, "--quiet", "--threads", "1"], capture_output=True, check=True)
        self.assertEqual(json.loads((again / "results.json").read_text())["sections"], self.results["sections"])

    def test_the_page_needs_nothing_from_outside(self):
        page = (self.out / "report.html").read_text()
        self.assertFalse(re.search(r"(src|href)\s*=\s*\"(?!data:)", page))

    def test_charts_are_drawn_and_toggle(self):
        dark = "--blink-settings=preferredColorScheme=0"
        for width, flags in ((1200, []), (500, []), (1200, [dark])):
            with self.subTest(width=width, flags=flags):
                seen = check_page(self, self.out / "report.html", charts_of(self.results), "darkformer variance --out", width, *flags)
                self.assertGreater(seen["heat"], 10)
                self.assertEqual(seen["statements"], len(self.results["statements"]))
                self.assertEqual(seen["dark"] == "rgb(13, 17, 23)", bool(flags))

    def test_the_page_of_an_analysis(self):
        text, to = self.out.parent / "text.txt", self.out.parent / "analysis"
        text.write_text((ROOT / "LICENSE").read_text(encoding="utf-8"))  # English, and it does not change
        subprocess.run([PROGRAM, "analyze", ROOT / "models" / "gemma-tiny", "--data", text, "--context", "64", "--tokens", "2048",
                        "--out", to], capture_output=True, check=True)
        results = json.loads((to / "results.json").read_text())
        for width in (1200, 500):
            seen = check_page(self, to / "report.html", charts_of(results), "darkformer analyze", width)
            self.assertGreater(seen["heat"], 100)
            self.assertEqual(seen["statements"], len(results["statements"]))

    def test_it_prints(self):
        paper = self.out / "report.pdf"
        browse(self.out / "report.html", f"--print-to-pdf={paper}")
        self.assertEqual(paper.read_bytes()[:4], b"%PDF")


class RunPage(unittest.TestCase):
    """darkformer report on logs: two runs, one of them long enough to be drawn as means with a band."""

    def test_curves_of_two_runs(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            for name, steps in (("short", 40), ("long", 3000)):
                (folder / name).mkdir()
                with open(folder / name / "log.jsonl", "w") as log:
                    for step in range(1, steps + 1):
                        line = {"step": step, "tokens": 100 * step, "loss": 2 + 8 / step + step % 3 / 9, "accuracy": 0.3,
                                "gradient_norm": 1 + step % 5, "learning_rate": 1e-3 / step, "tokens_per_second": 90 + step % 7}
                        if step % 10 == 0:
                            line["held_out_loss"] = 2.1 + 8 / step
                        log.write(json.dumps(line) + "\n")
                (folder / name / "run.toml").write_text(f'command = "finetune"\n[options]\nsteps = {steps}\n')
            subprocess.run([PROGRAM, "report", folder / "short", folder / "long", "--out", folder / "report.html"],
                           capture_output=True, check=True)
            for width in (1200, 500):
                check_page(self, folder / "report.html", 5, "darkformer report", width)


if __name__ == "__main__":
    unittest.main()
