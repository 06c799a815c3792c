"""A model of Gemma 2B's shape loads and generates within 8 GiB of memory."""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["DARKFORMER"]
RANDOM_MODEL = os.environ["RANDOM_MODEL"]

# gemma-2b; all else are the defaults of its class.
CONFIG = {"model_type": "gemma", "architectures": ["GemmaForCausalLM"], "hidden_size": 2048, "intermediate_size": 16384,
          "num_attention_heads": 8, "num_hidden_layers": 18, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000}
WEIGHT_BYTES = 5_012_344_832  # 2,506,172,416 parameters in bfloat16
LIMIT = 8 << 30


class LargeModel(unittest.TestCase):
    def test_2b_generates_within_8_gib(self):
        with tempfile.TemporaryDirectory() as name:
            if shutil.disk_usage(name).free < WEIGHT_BYTES + (1 << 30):
                self.skipTest("needs 6 GB of disk space in the temporary folder")
            folder = pathlib.Path(name)
            (folder / "config.json").write_text(json.dumps(CONFIG))
            subprocess.run([RANDOM_MODEL, folder / "config.json", folder / "2b"], check=True)
            writing = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            ids = ",".join(str(2 + 7 * i) for i in range(300))  # more than one block of the prompt
            done = subprocess.run([PROGRAM, "generate", folder / "2b", "--ids", ids, "-n", "4", "--json"],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout.splitlines()[-1])
        print("tokens a second: prompt", result["prompt_tokens_per_second"], "decode", result["decode_tokens_per_second"])
        self.assertGreaterEqual(len(result["ids"]), 1)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print("peak memory in MiB: writing", writing >> 10, "generating", peak >> 10)
        self.assertLess(peak << 10, LIMIT)


if __name__ == "__main__":
    unittest.main()
