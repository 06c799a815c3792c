"""generate as a process: standard input, streaming, Ctrl-C, a closed pipe."""
import os
import pathlib
import signal
import subprocess
import unittest

PROGRAM = os.environ["DARKFORMER"]
MODEL = str(pathlib.Path(__file__).resolve().parent.parent / "golden" / "gemma1")


def run(*arguments, **options):
    return subprocess.run([PROGRAM, "generate", MODEL, *arguments], capture_output=True, check=False, **options)


class Generate(unittest.TestCase):
    def test_standard_input_is_a_prompt(self):
        given = run("--prompt", "The cost", "-n", "8", "--temp", "1")
        self.assertEqual((given.returncode, given.stderr), (0, b""))
        self.assertEqual(run("-n", "8", "--temp", "1", input=b"The cost").stdout, given.stdout)
        self.assertEqual(run("--file", "-", "-n", "8", "--temp", "1", input=b"The cost").stdout, given.stdout)

    def test_stats_go_to_standard_error(self):
        done = run("--prompt", "The cost", "-n", "8", "--stats")
        self.assertEqual(done.returncode, 0)
        for part in (b"prompt", b"decode", b"state", b"a second"):
            self.assertIn(part, done.stderr)

    def test_text_streams_and_ctrl_c_ends_it(self):
        arguments = [PROGRAM, "generate", MODEL, "--ids", "2", "-n", "100000000", "--temp", "3"]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.assertNotEqual(process.stdout.read(20), b"")  # long before the end
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"stopped after", errors)

    def test_a_full_disk_behind_the_output_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM, "generate", MODEL, "--prompt", "a", "-n", "8"],
                                  stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count(b"\n"), 1)


if __name__ == "__main__":
    unittest.main()
