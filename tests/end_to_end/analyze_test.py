"""darkformer analyze, and conversions by its advice: every family, the page, bounded memory, what is refused."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = os.environ["DARKFORMER"]
ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
EMBEDDED = ROOT / "models" / "gemma-tiny"


def english(pages):
    """Some that is in the tree anyway."""
    return "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md"))[:pages])


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)


def floats_of(file, ending):
    """The float32 numbers of all tensors with such a name."""
    data = file.read_bytes()
    length, = struct.unpack_from("<Q", data)
    places = [entry["data_offsets"] for name, entry in json.loads(data[8:8 + length]).items() if name.endswith(ending)]
    return [number for first, last in places
            for number in struct.unpack_from(f"<{(last - first) // 4}f", data, 8 + length + first)]


def peak_memory(*arguments):
    """Bytes resident at most, of one run."""
    process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    return usage.ru_maxrss * 1024


class Analyze(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = Path(self.folder.name)
        self.text = self.out / "text.txt"
        self.text.write_text(english(4))

    def tearDown(self):
        self.folder.cleanup()

    def good(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 0, (arguments, done.stderr))
        return done.stdout

    def refused(self, code, words, *arguments):
        done = run(*arguments, "--quiet")
        self.assertEqual((done.returncode, done.stderr.count("\n"), done.stdout), (code, 1, ""), done)
        for word in words:
            self.assertIn(word, done.stderr)

    def with_tokenizer(self, family):
        """A copy of a golden folder, with gemma1's tokenizer: all three have its vocabulary."""
        folder = self.out / family
        shutil.copytree(GOLDEN / family, folder)
        shutil.copyfile(GOLDEN / "gemma1" / "tokenizer.model", folder / "tokenizer.model")
        return folder

    def analyze(self, model, *arguments):
        to = self.out / f"{model.name}-analysis"
        self.good("analyze", model, "--data", self.text, "--context", "64", "--tokens", "4096", "--out", to, *arguments)
        return to

    def works(self, model):
        """eval and generate do."""
        result = json.loads(self.good("eval", model, "--data", self.text, "--context", "64", "--max-tokens", "512",
                                      "--json").splitlines()[-1])
        self.assertGreater(result["tokens"], 100)
        self.assertNotEqual(self.good("generate", model, "--prompt", "Linear", "-n", "8", "--ignore-eos").strip(), "")

    def test_every_family_by_its_advice(self):
        for model in (EMBEDDED, *map(self.with_tokenizer, ("gemma1", "gemma2", "gemma3"))):
            with self.subTest(model=model.name):
                to = self.analyze(model)
                analysis = json.loads((to / "analysis.json").read_text())
                for layer in analysis["layers"]:
                    self.assertTrue(layer["advice"]["reason"])
                    self.assertEqual(bool(layer["estimators"]), layer["sliding_window"] == 0)
                by, auto, small = (self.out / f"{model.name}-{name}" for name in ("by", "auto", "small"))
                self.good("convert", "--no-fit", model, "--attention", "sderf", "--centre", "--analysis", to / "analysis.json", "--out", by)
                self.works(by)
                gated = self.out / f"{model.name}-gated"
                self.good("convert", "--no-fit", model, "--attention", "dark", "--window", "8", "--analysis", to, "--out", gated)
                biases = floats_of(gated / "model.safetensors", ".gate_bias")
                self.assertTrue(biases and all(biases), "gates start from the analysis")
                self.good("convert", "--no-fit", model, "--analysis", to, "--auto", "--out", auto)
                self.works(auto)
                config = json.loads((auto / "config.json").read_text())
                advised = [layer["advice"]["attention"]["attention"] for layer in analysis["layers"]]
                self.assertEqual([layer["attention"] for layer in config["darkformer"]["layers"]], advised)
                # The smallest budget there is, by the message that refuses a smaller one.
                done = run("convert", "--no-fit", model, "--analysis", to, "--auto", "--budget", "1", "--out", small)
                self.assertEqual(done.returncode, 1)
                least = int(re.search(r"takes (\d+) bytes", done.stderr).group(1))
                result = json.loads(self.good("convert", "--no-fit", model, "--analysis", to, "--auto", "--budget", least, "--out", small,
                                              "--json").splitlines()[-1])
                self.assertEqual(result["state_bytes"], least)
                self.works(small)

    def test_gates_start_as_the_help_says(self):
        """c is 0 where the text is known, by --data or --analysis, whatever the bias; 0.5 elsewhere"""
        gate = (EMBEDDED, "--attention", "dark", "--window", "8")
        data = ("--data", self.text, "--context", "64", "--tokens", "2048")
        for name, more, scale, bias in (("plain", (), 0.5, 0), ("data", (*data, "--gate-bias", "1"), 0, 1),
                                        ("analysis", ("--analysis", self.analyze(EMBEDDED), "--gate-bias", "1"), 0, 1)):
            self.good("convert", "--no-fit", *gate, *more, "--out", self.out / name)
            weights = self.out / name / "model.safetensors"
            self.assertEqual(set(floats_of(weights, ".gate_scale")), {scale}, name)
            self.assertEqual(set(floats_of(weights, ".gate_bias")), {bias}, name)

    def test_the_same_again(self):
        model = GOLDEN / "gemma1"
        first = self.analyze(model)
        texts = {name: (first / name).read_bytes() for name in ("analysis.json", "moments.safetensors")}
        self.analyze(model)
        self.assertEqual(texts, {name: (first / name).read_bytes() for name in texts})

    def test_the_page(self):
        to = self.analyze(EMBEDDED)
        results = json.loads((to / "results.json").read_text())
        titles = [figure["title"] for section in results["sections"] for figure in section["figures"]]
        for part in ("What to convert each layer to", "Measured error of the best", "Spectra of keys", "On the last 16 keys"):
            self.assertTrue(any(part in title for title in titles), part)
        names = [statement["name"] for statement in results["statements"]]
        self.assertTrue(any("Errors are predicted" in name for name in names))
        page = (to / "report.html").read_text()
        self.assertFalse(re.search(r"(src|href)\s*=\s*\"(?!data:)", page))

    def test_memory_does_not_grow_with_the_text(self):
        model = GOLDEN / "gemma1"
        short, long = self.out / "short.txt", self.out / "long.txt"
        short.write_text(english(4)[:8000])
        long.write_text(english(4)[:8000] * 20)
        peaks = []
        for text in (short, long):
            common = ("--data", text, "--context", "64", "--cache", self.out / "cache")
            self.good("eval", model, *common, "--max-tokens", "64")  # tokenises
            peaks.append(peak_memory("analyze", model, *common, "--tokens", "100000000", "--features", "4", "--out",
                                     self.out / text.stem))
        # The tokens themselves are mapped from the disk, two bytes each.
        self.assertLess(peaks[1] - peaks[0], 16 << 20, peaks)

    def test_folding(self):
        model = GOLDEN / "gemma1"
        plain, folded, later = self.out / "plain", self.out / "folded", self.out / "later"
        options = ("--attention", "dark", "--rope", "before", "--init", "whiten-match", "--data", self.text, "--context", "64")
        self.good("convert", "--no-fit", model, *options, "--out", plain)
        self.assertIn("for good", self.good("convert", "--no-fit", model, *options, "--fold", "--out", folded))
        self.good("convert", "--no-fit", plain, "--fold", "--out", later)
        loss = [json.loads(self.good("eval", which, "--data", self.text, "--context", "64", "--max-tokens", "2000",
                                     "--json").splitlines()[-1])["loss"] for which in (plain, folded, later)]
        self.assertAlmostEqual(loss[0], loss[1], places=3)
        self.assertAlmostEqual(loss[0], loss[2], places=3)
        self.works(later)
        self.refused(1, ["folded", "original"], "convert", "--no-fit", folded, "--attention", "exact", "--out", self.out / "x")
        self.refused(1, ["normed"], "convert", "--no-fit", self.with_tokenizer("gemma3"), *options, "--fold", "--out", self.out / "x")
        self.refused(1, ["no dark layer"], "convert", "--no-fit", model, "--fold", "--out", self.out / "x")
        dark = self.out / "dark"
        self.good("convert", "--no-fit", model, "--attention", "dark", "--out", dark)
        self.refused(1, ["after the rotation"], "convert", "--no-fit", dark, "--fold", "--out", self.out / "x")
        for arguments, word in (
                (["--attention", "dark", "--fold"], "--rope before"),
                (["--attention", "sderf", "--rope", "before", "--fold", "--data", self.text], "--attention dark"),
                (["--attention", "dark", "--rope", "before", "--fold"], "identity"),
                (["--attention", "dark", "--rope", "before", "--rank", "4", "--init", "whiten", "--data", self.text, "--fold"], "rank"),
                (["--fold", "--window", "4"], "--window")):
            self.refused(2, [word], "convert", "--no-fit", model, *arguments, "--out", self.out / "x")

    def test_what_is_refused(self):
        model = GOLDEN / "gemma1"
        to = self.analyze(model)
        x = ("--out", self.out / "x")
        self.refused(1, ["another model"], "convert", "--no-fit", self.with_tokenizer("gemma2"), "--analysis", to, "--auto", *x)
        self.refused(1, ["another model"], "convert", "--no-fit", EMBEDDED, "--attention", "dark", "--analysis", to, *x)
        self.refused(1, ["nowhere"], "convert", "--no-fit", model, "--analysis", self.out / "nowhere", "--auto", *x)
        self.refused(1, ["bytes"], "convert", "--no-fit", model, "--analysis", to, "--auto", "--budget", "10", *x)
        self.refused(2, ["16777216"], "analyze", model, "--data", self.text, "--features", "100000000", *x)
        for arguments, word in ((["--auto"], "--analysis"), (["--budget", "9"], "--auto"),
                                (["--analysis", to, "--data", self.text], "exclude"),
                                (["--analysis", to, "--auto", "--features", "8"], "--features"),
                                (["--analysis", to, "--auto", "--attention", "dark"], "--attention")):
            self.refused(2, [word], "convert", "--no-fit", model, *arguments, *x)
        (to / "moments.safetensors").write_bytes((to / "moments.safetensors").read_bytes()[:5000])
        self.refused(1, ["moments.safetensors"], "convert", "--no-fit", model, "--attention", "dark", "--centre", "--analysis", to, *x)
        short = self.out / "short.txt"
        short.write_text("A short text.")
        self.refused(1, ["--context"], "analyze", model, "--data", short, *x)
        dark = self.out / "dark"
        self.good("convert", "--no-fit", model, "--attention", "dark", "--out", dark)
        self.refused(1, ["layer 0", "dark"], "analyze", dark, "--data", self.text, "--context", "64", *x)
        self.assertFalse((self.out / "x").exists())


if __name__ == "__main__":
    unittest.main()
