"""darkformer convert on a small model of each family: folders that load, run, decode, and turn back."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = os.environ["DARKFORMER"]
GOLDEN = Path(__file__).parent.parent / "golden"
EMBEDDED = GOLDEN.parent.parent / "models" / "gemma-tiny"
TEXT = "Linear attention reads a long text in linear time. " * 40


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)


def floats(file):
    """The one float32 tensor of a safetensors file."""
    start = 8 + int.from_bytes(file[:8], "little")
    return struct.unpack(f"<{(len(file) - start) // 4}f", file[start:])


class Convert(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def good(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def logits(self, model):
        file = self.out / "logits.safetensors"
        self.good("logits", model, "--ids", "2,17,44,101,9,300,12,7,7,250,81,33", "--out", file)
        data = file.read_bytes()
        file.unlink()
        return data

    def test_every_kind_of_every_family(self):
        for family in ("gemma1", "gemma2", "gemma3"):
            for kind in ("performer", "dark", "lfk", "hedgehog", "window", "constant", "random"):
                with self.subTest(family=family, kind=kind):
                    to = self.out / f"{family}-{kind}"
                    text = self.good("convert", "--no-fit", GOLDEN / family, "--attention", kind, "--out", to,
                                     *(("--window", "3") if kind == "window" else ()))
                    self.assertIn("converted", text)
                    config = json.loads((to / "config.json").read_text())
                    self.assertEqual(config["architectures"], ["DarkGemmaForCausalLM"])
                    self.assertIn(kind, {layer["attention"] for layer in config["darkformer"]["layers"]})
                    self.assertNotEqual(self.logits(to), self.logits(GOLDEN / family))

    def test_fitted_kinds_are_fitted_saved_and_loaded(self):
        model = GOLDEN / "gemma1"
        text = self.out / "text.txt"
        text.write_text("The cost of a thing is the amount of life it takes. " * 40)
        for kind in ("importance", "oprf", "sderf", "aderf"):
            with self.subTest(kind=kind):
                to = self.out / kind
                self.good("convert", "--no-fit", model, "--attention", kind, "--centre", "--features", "24", "--data", text, "--out", to,
                          *(["--clip", "0.1"] if kind == "importance" else []))
                header = (to / "model.safetensors").read_bytes()
                header = json.loads(header[8:8 + int.from_bytes(header[:8], "little")])
                tensors = {name.rsplit(".", 1)[1] for name in header if ".dark." in name}
                wanted = {"draws", "log_weights", "query_center", "key_center"}
                self.assertEqual(tensors, wanted | ({"factor", "key_factor"} if kind == "aderf" else set()))
                self.assertNotEqual(self.logits(to), self.logits(model))
                result = json.loads(self.good("eval", to, "--data", text, "--context", "32", "--json").splitlines()[-1])
                self.assertGreater(result["tokens"], 100)
                self.assertTrue(self.good("generate", to, "--prompt", "The cost", "-n", "4"))
                # A state that belongs to these draws, and not to others.
                state = self.out / "state"
                self.good("generate", to, "--prompt", "The cost", "-n", "1", "--save-state", state)
                self.good("generate", to, "--load-state", state, "-n", "2")
                self.assertEqual(run("generate", model, "--load-state", state).returncode, 1)

    def test_there_and_back_again(self):
        for family in ("gemma1", "gemma2", "gemma3"):
            with self.subTest(family=family):
                there, back = self.out / f"{family}-there", self.out / f"{family}-back"
                self.good("convert", "--no-fit", GOLDEN / family, "--attention", "dark", "--layers", "all", "--window", "4", "--out", there)
                self.good("convert", "--no-fit", there, "--attention", "exact", "--out", back)
                self.assertEqual(self.logits(back), self.logits(GOLDEN / family))
                config = json.loads((back / "config.json").read_text())
                original = json.loads((GOLDEN / family / "config.json").read_text())
                self.assertEqual(config.get("architectures"), original.get("architectures"))
                self.assertNotIn("darkformer", config)

    def test_near_keys_by_the_models_kernel(self):
        """The default where there is a factor of its own; until the factor moves, both kernels are the same."""
        def near(*options):
            to = self.out / "-".join(("near", *options))
            self.good("convert", "--no-fit", GOLDEN / "gemma1", "--attention", *options, "--out", to)
            layers = json.loads((to / "config.json").read_text())["darkformer"]["layers"]
            return layers[0].get("near_kernel"), to

        kernel, by_model = near("dark", "--window", "4")
        self.assertEqual(kernel, "model")
        kernel, by_factor = near("dark", "--window", "4", "--near", "factor")
        self.assertIsNone(kernel)
        for a, b in zip(floats(self.logits(by_model)), floats(self.logits(by_factor))):
            self.assertAlmostEqual(a, b, delta=1e-3)
        self.assertNotEqual(self.logits(near("dark", "--window", "4", "--rank", "5")[1]),
                            self.logits(near("dark", "--window", "4", "--rank", "5", "--near", "factor")[1]))
        self.assertEqual(near("dark", "--sinks", "2")[0], "model")
        self.assertNotEqual(self.logits(near("dark", "--window", "4", "--far-keys", "all")[1]), self.logits(by_model))
        for options in (["dark"], ["dark", "--window", "4", "--rope", "before"], ["performer", "--window", "4"]):
            self.assertIsNone(near(*options)[0], options)

    def with_tokenizer(self, family):
        """A copy of a golden folder, with gemma1's tokenizer: all three have its vocabulary."""
        folder = self.out / family
        shutil.copytree(GOLDEN / family, folder)
        shutil.copyfile(GOLDEN / "gemma1" / "tokenizer.model", folder / "tokenizer.model")
        return folder

    def test_every_command_works_on_the_result(self):
        text = self.out / "text.txt"
        text.write_text(TEXT)
        for model in (EMBEDDED, *map(self.with_tokenizer, ("gemma1", "gemma2", "gemma3"))):
            for kind in ("performer", "dark"):
                with self.subTest(model=model.name, kind=kind):
                    to, run_folder, back = (self.out / f"{model.name}-{kind}-{part}" for part in ("to", "run", "back"))
                    self.good("convert", "--no-fit", model, "--attention", kind, "--centre", "--data", text, "--out", to)
                    self.logits(to)
                    self.good("finetune", to, "--data", text, "--steps", "2", "--context", "32", "--batch", "2", "--out", run_folder)
                    measured = json.loads(self.good("eval", run_folder / "final", "--data", text, "--context", "64",
                                                    "--against", model, "--json").splitlines()[-1])
                    self.assertGreater(measured["kl"], 0)
                    self.assertNotEqual(self.good("generate", run_folder / "final", "--prompt", "Linear", "-n", "20",
                                                  "--ignore-eos").strip(), "")
                    self.good("convert", "--no-fit", to, "--attention", "exact", "--out", back)
                    self.assertEqual(self.logits(back), self.logits(model))

    def test_nothing_to_turn_back(self):
        done = run("convert", "--no-fit", GOLDEN / "gemma1", "--attention", "exact", "--out", self.out / "x")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done)
        self.assertIn("exact already", done.stderr)

    def test_sliding_layers_stay_exact_unless_asked(self):
        to = self.out / "g3"
        result = json.loads(self.good("convert", "--no-fit", GOLDEN / "gemma3", "--attention", "dark", "--out", to, "--json").splitlines()[-1])
        self.assertEqual(result["layers"], [5])
        self.assertGreater(result["break_even_tokens"], 0)
        result = json.loads(self.good("convert", "--no-fit", GOLDEN / "gemma3", "--attention", "dark", "--layers", "0-2,5", "--keep-exact", "1",
                                      "--out", self.out / "some", "--json").splitlines()[-1])
        self.assertEqual(result["layers"], [0, 2, 5])

    def test_ranks_by_their_share_of_the_variance(self):
        """the more it is to hold the higher the rank, and the whole of it is the head size"""
        text = self.out / "text.txt"
        text.write_text("the sky is blue and the sea is deep " * 200)
        ranks = []
        for share in ("0.3", "0.9", "1"):
            to = self.out / f"share-{share}"
            result = json.loads(self.good("convert", "--no-fit", GOLDEN / "gemma1", "--attention", "dark", "--rank-share", share, "--data", text,
                                          "--context", "64", "--out", to, "--json").splitlines()[-1])
            ranks.append([spec["rank"] for spec in result["specs"]])
            self.good("logits", to, "--ids", "2,3,4", "--out", self.out / "logits.safetensors")
        self.assertEqual(set(ranks[2]), {json.loads((GOLDEN / "gemma1" / "config.json").read_text())["head_dim"]})
        self.assertTrue(all(a < b <= c for a, b, c in zip(*ranks)), ranks)

    def test_wrong_usage(self):
        model = GOLDEN / "gemma1"
        for arguments, words in (
                (["--attention", "dark", "--own-tokens", "8", "--out", self.out / "x"], "--own-tokens"),
                (["--attention", "dark", "--centre", "--own-tokens", "8", "--data", model / "config.json", "--out", self.out / "x"], "--own-tokens"),
                (["--attention", "dark", "--rank-share", "0.9", "--rank", "4", "--data", model / "config.json", "--out", self.out / "x"], "exclude"),
                (["--attention", "dark", "--rank-share", "0.9", "--rope", "before", "--data", model / "config.json", "--out", self.out / "x"], "full rank"),
                (["--attention", "dark", "--rank-share", "0", "--data", model / "config.json", "--out", self.out / "x"], "above 0"),
                (["--attention", "lfk", "--rank-share", "0.9", "--data", model / "config.json", "--out", self.out / "x"], "no meaning"),
                (["--attention", "dork", "--out", self.out / "x"], "dark"),
                (["--attention", "dark", "--layers", "9", "--out", self.out / "x"], "layer 9"),
                (["--attention", "dark", "--layers", "2-1", "--out", self.out / "x"], "backwards"),
                (["--attention", "dark"], "--out"),
                (["--attention", "dark", "--rank", "17", "--out", self.out / "x"], "rank"),
                (["--attention", "performer", "--rank", "4", "--out", self.out / "x"], "rank"),
                (["--attention", "dark", "--window", "99999999999", "--out", self.out / "x"], "window"),
                (["--attention", "constant", "--window", "4", "--out", self.out / "x"], "no meaning"),
                (["--attention", "window", "--out", self.out / "x"], "give --window N"),
                (["--attention", "window", "--window", "4", "--sinks", "1", "--out", self.out / "x"], "no meaning"),
                (["--attention", "exact", "--features", "4", "--out", self.out / "x"], "no meaning"),
                (["--attention", "aderf", "--rank", "4", "--data", model / "config.json", "--out", self.out / "x"], "rank"),
                (["--attention", "sderf", "--clip", "0.1", "--data", model / "config.json", "--out", self.out / "x"], "--clip"),
                (["--attention", "importance", "--clip", "0", "--data", model / "config.json", "--out", self.out / "x"], "--clip"),
                (["--attention", "sderf", "--init", "whiten", "--data", model / "config.json", "--out", self.out / "x"], "--init"),
                (["--attention", "hedgehog", "--features", "7", "--out", self.out / "x"], "even"),
                (["--attention", "hedgehog", "--centre", "--data", model / "config.json", "--out", self.out / "x"], "no centres"),
                (["--attention", "hedgehog", "--iid", "--out", self.out / "x"], "no draws"),
                (["--attention", "hedgehog", "--window", "4", "--near", "factor", "--out", self.out / "x"], "model's own"),
                (["--attention", "hedgehog", "--init", "whiten", "--data", model / "config.json", "--out", self.out / "x"], "--init"),
                (["--attention", "dark", "--gate", "--out", self.out / "x"], "--window"),
                (["--attention", "dark", "--near", "model", "--out", self.out / "x"], "--window"),
                (["--attention", "dark", "--far-keys", "all", "--out", self.out / "x"], "--window"),
                (["--attention", "window", "--window", "4", "--near", "model", "--out", self.out / "x"], "no meaning"),
                (["--attention", "dark", "--window", "4", "--rope", "before", "--near", "model", "--out", self.out / "x"], "rotation"),
                (["--attention", "dark", "--tokens", "8", "--out", self.out / "x"], "--tokens"),
                (["--attention", "dark", "--keep-exact", "all", "--out", self.out / "x"], "--keep-exact"),
                (["--attention", "dark", "--rope", "before", "--rank", "4", "--out", self.out / "x"], "before")):
            done = run("convert", "--no-fit", model, *arguments)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done)
            self.assertIn(words, done.stderr)
        done = run("convert", "--no-fit", model, "--attention", "dark", "--out", model)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done)
        self.assertIn("own folder", done.stderr)
        done = run("convert", "--no-fit", model, "--attention", "dark", "--out", model / "sub")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done)
        self.assertIn("inside the model's own folder", done.stderr)
        self.assertEqual(list(self.out.iterdir()), [])

    def test_the_original_is_not_touched(self):
        before = {file.name: file.read_bytes() for file in (GOLDEN / "gemma1").iterdir()}
        self.good("convert", "--no-fit", GOLDEN / "gemma1", "--attention", "dark", "--out", self.out / "a")
        self.assertEqual(before, {file.name: file.read_bytes() for file in (GOLDEN / "gemma1").iterdir()})
        done = run("convert", "--no-fit", GOLDEN / "gemma1", "--attention", "dark", "--out", self.out / "a")
        self.assertEqual(done.returncode, 2)
        self.assertIn("holds a model already", done.stderr)

    def test_files_of_others_are_not_touched(self):
        """also where the folder holds the original, or is a link"""
        shutil.copytree(GOLDEN / "gemma1", self.out / "models" / "mine")
        (self.out / "models" / "note.txt").write_text("keep me")
        (self.out / "link").symlink_to(self.out / "models")
        (self.out / "empty").mkdir()
        (self.out / "link-to-empty").symlink_to(self.out / "empty")
        for out in ("models", "link"):
            done = run("convert", "--no-fit", self.out / "models" / "mine", "--attention", "dark", "--out", self.out / out)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done)
            self.assertIn("holds other files already", done.stderr)
        self.assertEqual((self.out / "models" / "note.txt").read_text(), "keep me")
        self.assertTrue((self.out / "models" / "mine" / "config.json").exists())
        self.good("convert", "--no-fit", GOLDEN / "gemma1", "--attention", "dark", "--out", self.out / "link-to-empty")
        self.assertTrue((self.out / "empty" / "config.json").exists())

    def text(self):
        file = self.out / "text.txt"
        file.write_text("".join(f"The {i}th cat saw {i * 7 % 13} mice by the old mill. " for i in range(400)))
        return file

    def fitted(self, name, *more):
        words = ["convert", EMBEDDED, "--data", self.text(), "--window", "4", "--fit-tokens", "640", "--fit-context", "32",
                 "--fit-steps", "12", *more, "--out", self.out / name]
        return words

    def test_the_fit_brings_every_head_closer_and_leaves_the_weights(self):
        result = json.loads(self.good(*self.fitted("a", "--json", "--fit-report", self.out / "page")).splitlines()[-1])
        self.assertLess(result["fit"]["row_kl_after"], 0.8 * result["fit"]["row_kl_before"])
        heads = [len(layer["after"]) for layer in result["fit"]["layers"]]
        self.assertEqual(len(set(heads)), 1)
        self.assertTrue(all(spec["learned_draws"] and spec["own_key_factor"] for spec in result["specs"]))
        self.assertIn("After the fit", (self.out / "page" / "report.html").read_text())
        self.assertIn("row KL", self.good(*self.fitted("b")))
        self.assertEqual(self.logits(self.out / "a"), self.logits(self.out / "b"), "the same command gives the same bits")
        self.good("convert", self.out / "a", "--attention", "exact", "--out", self.out / "back")
        self.assertEqual(self.logits(self.out / "back"), self.logits(EMBEDDED))

    def test_a_fit_that_was_killed_goes_on_to_the_same_bits(self):
        self.good(*self.fitted("whole"))
        words = [PROGRAM, *map(str, self.fitted("killed"))]
        kept = self.out / ".killed.fit"
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            while child.poll() is None and not list(kept.glob("*/layer-0.safetensors")):
                time.sleep(0.002)
            child.kill()
        self.assertTrue(kept.exists() or (self.out / "killed").exists())
        if not (self.out / "killed").exists():
            self.good(*words[1:])
        self.assertEqual(self.logits(self.out / "killed"), self.logits(self.out / "whole"))
        self.assertFalse(kept.exists())

    def test_the_paper_s_covariance_alone(self):
        result = json.loads(self.good(*self.fitted("m", "--fit-what", "factor", "--json")).splitlines()[-1])
        self.assertNotIn("learned_draws", result["specs"][0])
        self.assertNotIn("own_key_factor", result["specs"][0])
        plain = json.loads(self.good("convert", EMBEDDED, "--no-fit", "--out", self.out / "plain", "--json").splitlines()[-1])
        self.assertNotIn("fit", plain)
        self.assertNotIn("centre", plain["specs"][0])

    def test_the_worst_layers_stay_exact(self):
        every = json.loads(self.good(*self.fitted("every", "--json")).splitlines()[-1])
        some = json.loads(self.good(*self.fitted("some", "--json", "--keep-worst", "2")).splitlines()[-1])
        self.assertEqual(some["fit"], every["fit"])
        means = {layer["layer"]: sum(layer["after"]) for layer in every["fit"]["layers"]}
        worst = sorted(sorted(means, key=means.get)[-2:])
        self.assertEqual(some["kept_exact"], worst)
        self.assertEqual(some["layers"], [i for i in every["layers"] if i not in worst])
        config = json.loads((self.out / "some" / "config.json").read_text())
        self.assertEqual([i for i, spec in enumerate(config["darkformer"]["layers"]) if spec["attention"] == "exact"], worst)
        self.assertIn("left exact, where the fit came out worst", self.good(*self.fitted("told", "--keep-worst", "1")))

    def test_what_the_fit_refuses(self):
        for word, *more in (("nothing is fitted", "--no-fit", "--fit-steps", "3"), ("nothing to fit", "--attention", "sderf", "--fit"),
                            ("--rope before", "--rope", "before", "--fit"), ("nothing is fitted", "--attention", "constant", "--fit-steps", "3"),
                            ("--fit-what", "--fit-what", "everything"), ("nothing is fitted", "--no-fit", "--keep-worst", "1"),
                            ("--fit-what gate", "--fit-what", "factor", "gate"), ("--fit-what key-factor", "--attention", "lfk", "--fit-what", "key-factor"),
                            ("another --fit-report", "--fit-report", EMBEDDED.parent), ("one folder", "--fit-report", self.out / "x"),
                            ("leaves nothing to convert", "--keep-worst", "100")):
            done = run("convert", EMBEDDED, *more, "--out", self.out / "x")
            self.assertEqual(done.returncode, 2, more)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
        short = self.out / "short.txt"
        short.write_text("Hi.")
        done = run("convert", EMBEDDED, "--data", short, "--out", self.out / "x")
        self.assertEqual(done.returncode, 1)
        self.assertIn("to fit to", done.stderr)


if __name__ == "__main__":
    unittest.main()
