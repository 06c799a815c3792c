"""The completion script, sourced in bash, offers commands, flags, choices and files."""
import os
import subprocess
import unittest

COMPLETION = subprocess.run([os.environ["DARKFORMER"], "completion", "bash"], capture_output=True, text=True,
                            check=True).stdout
SCRIPT = COMPLETION + r"""
set -euo pipefail
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_darkformer
printf '%s\n' "${COMPREPLY[@]+"${COMPREPLY[@]}"}"
"""


def complete(*words):
    done = subprocess.run(["bash", "-c", SCRIPT, "bash", "darkformer", *words], capture_output=True, text=True,
                          check=True, cwd=os.path.dirname(os.path.abspath(__file__)))
    assert done.stderr == "", done.stderr
    return done.stdout.split()


class Completion(unittest.TestCase):
    def test_commands(self):
        self.assertIn("completion", complete("comp"))
        self.assertIn("--version", complete("--v"))
        self.assertNotIn("docs", complete(""))

    def test_flags(self):
        self.assertEqual(complete("completion", "--th"), ["--threads"])
        self.assertIn("--help", complete("completion", "bash", "--"))

    def test_choices(self):
        self.assertEqual(complete("completion", "b"), ["bash"])

    def test_numbers_have_no_guess(self):
        self.assertEqual(complete("completion", "bash", "--threads", ""), [])

    def test_unknown_commands_get_files(self):
        self.assertEqual(complete("other", "completion_t"), ["completion_test.py"])

    def test_sourcing_registers_it(self):
        done = subprocess.run(["bash", "-c", 'source <("$DARKFORMER" completion bash); complete -p darkformer'],
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "complete -F _darkformer darkformer")


if __name__ == "__main__":
    unittest.main()
