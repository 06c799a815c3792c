"""darkformer variance, analyze and report, and their pages in a real browser: no errors, charts drawn, legends that toggle, phone, dark, print."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = os.environ["DARKFORMER"]
ROOT = Path(__file__).resolve().parent.parent.parent

# Runs behind the page's own script and leaves what it saw in the title.
PROBE = """
<script>
(() => {
  const ink = (canvas) => {
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let count = 0;
    for (let i = 3; i < pixels.length; i += 4) count += pixels[i] > 0;
    return count;
  };
  setTimeout(() => {
    const canvases = [...document.querySelectorAll('canvas')];
    const before = canvases.map(ink);
    const first = document.querySelector('.legend');
    const button = first.querySelector('button');
    button.click();
    const pressed = button.getAttribute('aria-pressed');
    setTimeout(() => {
      const after = ink(canvases[0]);
      button.click();
      document.title = 'PROBE' + JSON.stringify({
        errors: window.probeErrors, charts: canvases.length, least: Math.min(...before),
        pressed, less: after !== before[0], again: button.getAttribute('aria-pressed'),
        wide: document.documentElement.scrollWidth - window.innerWidth,
        dark: getComputedStyle(document.body).backgroundColor,
        heat: document.querySelectorAll('.heat td[title]').length,
        statements: document.querySelectorAll('.verdict').length,
        command: document.querySelector('footer pre').textContent,
      });
    }, 50);
  }, 50);
})();
</script>
"""
CATCH = """<script>
window.probeErrors = [];
addEventListener('error', (event) => window.probeErrors.push(String(event.message)));
console.error = (...words) => window.probeErrors.push(words.join(' '));
</script>"""


def browse(page, *flags):
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               "--enable-logging=stderr", "--virtual-time-budget=8000", *flags, page.as_uri()]
    with tempfile.TemporaryDirectory() as profile:
        return subprocess.run([*command[:1], f"--user-data-dir={profile}", *command[1:]], capture_output=True, text=True,
                              timeout=240, check=True)


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

    def probe(self, *flags, folder=None):
        folder = folder or self.out
        page = (folder / "report.html").read_text()
        probed = folder / "probed.html"
        probed.write_text(page.replace("<main>", CATCH + "<main>", 1).replace("</body>", PROBE + "</body>"))
        done = browse(probed, "--dump-dom", *flags)
        # The browser's hint about reading pixels is for the probe.
        said = [line for line in done.stderr.splitlines() if "CONSOLE" in line and "willReadFrequently" not in line]
        self.assertEqual(said, [])
        found = re.search(r"<title>PROBE(.*?)</title>", done.stdout, re.S)
        self.assertTrue(found, done.stdout[:300])
        return json.loads(found.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))

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
        lines = sum(f["type"] == "lines" for s in self.results["sections"] for f in s["figures"])
        for flags in (["--window-size=1200,900"], ["--window-size=500,900"],
                      ["--window-size=1200,900", "--blink-settings=preferredColorScheme=0"]):
            with self.subTest(flags=flags):
                seen = self.probe(*flags)
                self.assertEqual(seen["errors"], [])
                self.assertEqual(seen["charts"], lines)
                self.assertGreater(seen["least"], 1000)
                self.assertEqual((seen["pressed"], seen["again"], seen["less"]), ("false", "true", True))
                self.assertLessEqual(seen["wide"], 0)
                self.assertGreater(seen["heat"], 10)
                self.assertEqual(seen["statements"], len(self.results["statements"]))
                self.assertIn("darkformer variance --out", seen["command"])
                self.assertEqual(seen["dark"] == "rgb(13, 17, 23)", "preferredColorScheme=0" in flags[-1])

    def test_the_page_of_an_analysis(self):
        text, to = self.out.parent / "text.txt", self.out.parent / "analysis"
        text.write_text("\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md"))[:6]))
        subprocess.run([PROGRAM, "analyze", ROOT / "models" / "gemma-tiny", "--data", text, "--context", "64", "--tokens", "2048",
                        "--out", to], capture_output=True, check=True)
        results = json.loads((to / "results.json").read_text())
        for width in (1200, 500):
            seen = self.probe(f"--window-size={width},900", folder=to)
            self.assertEqual(seen["errors"], [])
            self.assertEqual(seen["charts"], sum(f["type"] == "lines" for s in results["sections"] for f in s["figures"]))
            self.assertGreater(seen["least"], 1000)
            self.assertLessEqual(seen["wide"], 0)
            self.assertGreater(seen["heat"], 100)
            self.assertEqual(seen["statements"], len(results["statements"]))
            self.assertIn("darkformer analyze", seen["command"])

    def test_it_prints(self):
        paper = self.out / "report.pdf"
        browse(self.out / "report.html", f"--print-to-pdf={paper}")
        self.assertEqual(paper.read_bytes()[:4], b"%PDF")


class RunPage(unittest.TestCase):
    """darkformer report on logs: two runs, one of them long enough to be drawn as means with a band."""

    probe = Report.probe

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
                seen = self.probe(f"--window-size={width},900", folder=folder)
                self.assertEqual(seen["errors"], [])
                self.assertEqual(seen["charts"], 5)
                self.assertGreater(seen["least"], 1000)
                self.assertEqual((seen["pressed"], seen["again"], seen["less"]), ("false", "true", True))
                self.assertLessEqual(seen["wide"], 0)
                self.assertIn("darkformer report", seen["command"])


if __name__ == "__main__":
    assert shutil.which("chromium"), "the program chromium is missing (make packages installs it)"
    unittest.main()
