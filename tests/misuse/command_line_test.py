"""The program as a process: exit codes, one-line errors, help and version."""
import os
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["DARKFORMER"]
MODEL = "models/gemma-tiny"


def run(*arguments, **options):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, **options)


class CommandLine(unittest.TestCase):
    def expect_usage_error(self, arguments, *parts):
        done = run(*arguments)
        self.assertEqual(done.returncode, 2, done)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_version_names_libraries_and_machine(self):
        done = run("--version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for part in ("darkformer ", "commit", "libtorch", "oneDNN", "SIMD", "threads", "CPU"):
            self.assertIn(part, done.stdout)

    def test_help_lists_commands(self):
        done = run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("completion", done.stdout)
        self.assertNotIn("docs ", done.stdout)

    def test_command_help_has_an_example(self):
        done = run("completion", "--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("Example:", done.stdout)
        for flag in ("--json", "--threads", "--seed", "--verbose", "--quiet"):
            self.assertIn(flag, done.stdout)

    def test_no_command(self):
        self.expect_usage_error([], "command is missing", "--help")

    def test_unknown_command_gets_the_nearest_name(self):
        self.expect_usage_error(["completoin"], "'completoin'", "did you mean 'completion'?")

    def test_unknown_flag_gets_the_nearest_name(self):
        self.expect_usage_error(["completion", "bash", "--thread", "2"], "'--thread'", "did you mean '--threads'?")

    def test_wrong_values(self):
        self.expect_usage_error(["completion", "bash", "--threads", "two"], "--threads", "whole number", "'two'")
        self.expect_usage_error(["completion", "tcsh"], "SHELL", "bash")
        self.expect_usage_error(["completion"], "SHELL is missing")

    def test_full_output_is_a_failure(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "docs"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1)

    def expect_failure(self, done, *parts):
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_a_loop_of_links(self):
        with tempfile.TemporaryDirectory() as folder:
            loop = os.path.join(folder, "loop")
            os.symlink(loop, loop)
            for arguments in (["generate", loop, "--prompt", "a"], ["report", loop, "--out", "page.html"]):
                done = run(*arguments)
                self.expect_failure(done, loop, "Too many levels of symbolic links")
                self.assertNotIn("filesystem error", done.stderr)

    def test_a_cache_that_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            text = os.path.join(folder, "text.txt")
            with open(text, "w") as file:
                file.write("My fellow citizens. " * 50)
            done = run("eval", MODEL, "--data", text, "--quiet", env={**os.environ, "XDG_CACHE_HOME": "/dev/null"})
            self.expect_failure(done, "/dev/null/darkformer", "--cache or XDG_CACHE_HOME names another folder")

    def test_a_table_is_said_to_be_read_as_text(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, is_told in (("table.csv", True), ("noending", False)):
                text = os.path.join(folder, name)
                with open(text, "w") as file:
                    file.write("a,b\n1,2\n" * 9)
                done = run("eval", MODEL, "--data", text, "--cache", folder, "--context", "16", "--quiet")
                self.assertEqual(done.returncode, 0, done)
                self.assertEqual(f"{text}: read as plain text" in done.stderr, is_told, done.stderr)

    def test_wrong_simd_target_is_a_failure(self):
        done = run("--version", env={**os.environ, "DARKFORMER_SIMD": "mmx"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("DARKFORMER_SIMD=mmx", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
