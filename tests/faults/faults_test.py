"""Faults of the machine and of its owner: kills, full and read-only disks, files that change, no memory, a wrong clock.

Each test says in its first line what happens to the program and what must come of it; `make faults` prints them as a table, together
(--all) with the kills, lost ranks and cut networks that tests/end_to_end has.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ["DARKFORMER"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "gemma-tiny"
KILLS = int(os.environ.get("DARKFORMER_KILLS", "8"))
GIB = 1 << 30

BACKWARDS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
static long steps;
int clock_gettime(clockid_t id, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(id, now);
  if (id == CLOCK_REALTIME) now->tv_sec -= 3600 * __sync_add_and_fetch(&steps, 1);
  return result;
}
time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
int gettimeofday(struct timeval* now, void* zone) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec, now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}
"""


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def may_mount():
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.text = self.root / "text.txt"
        words = "four more years of peace and work for all the people of these states".split()
        chance = random.Random(1)
        self.text.write_text("\n".join(" ".join(chance.choices(words, k=20)) for _ in range(200)) + "\n")

    def tearDown(self):
        self.folder.cleanup()

    def run_program(self, *arguments, **options):
        return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300, **options)

    def expect_one_line(self, done, *parts):
        self.assertEqual(done.returncode, 1, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line.startswith("darkformer")]
        self.assertEqual(len(lines), 1, done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])

    def convert(self, out):
        return ["convert", "--no-fit", MODEL, "--attention", "dark", "--features", "32", "--centre", "--data", self.text, "--out",
                out, "--threads", "1"]

    def finetune(self, out, *more):
        return ["finetune", MODEL, "--data", self.text, "--cache", self.root / "cache", "--context", "32", "--batch", "2", "--steps",
                "6", "--checkpoint-every", "1", "--keep", "2", "--held-out", "0", "--out", out, "--threads", "1", "--quiet", *more]

    def in_namespace(self, script, *arguments):
        """Runs a shell script that may mount; $1... are the arguments."""
        if not may_mount():
            self.skipTest("this system does not let us mount")
        return subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", *map(str, arguments)], capture_output=True, text=True,
                              check=False, timeout=300)

    def test_kill_convert(self):
        """convert killed at random moments: the folder is whole or not there, the original as it was"""
        before = files_of(MODEL)
        start = time.monotonic()
        self.assertEqual(self.run_program(*self.convert(self.root / "whole")).returncode, 0)
        usual = time.monotonic() - start
        want = files_of(self.root / "whole")
        chance = random.Random(2)
        for number in range(KILLS):
            out = self.root / f"out-{number}"
            process = subprocess.Popen([PROGRAM, *map(str, self.convert(out))], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.3, 1.0) * usual)
            process.kill()
            process.wait()
            if out.exists():
                self.assertEqual(files_of(out), want)
            else:
                self.assertEqual(self.run_program(*self.convert(out)).returncode, 0)
                self.assertEqual(files_of(out), want)
        self.assertEqual(files_of(MODEL), before)
        left = [path.name for path in self.root.iterdir() if ".partial" in path.name]
        self.assertEqual(left, [])

    def test_full_disk_convert(self):
        """a disk that fills up while convert writes: one line, nothing half-written"""
        disk = self.root / "disk"
        disk.mkdir()
        done = self.in_namespace('mount -t tmpfs -o size=1m none "$1"; shift; d=$1; shift; "$@"; code=$?; ls -A "$d"; exit $code',
                                 disk, disk, PROGRAM, *self.convert(disk / "out"))
        self.expect_one_line(done, "No space left")
        self.assertEqual(done.stdout.strip(), "")

    def test_file_size_limit(self):
        """a limit on the size of files (ulimit -f): one line, nothing half-written"""
        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        done = self.run_program(*self.convert(self.root / "out"), "--cache", self.root / "cache", preexec_fn=limited)
        self.expect_one_line(done, "File too large")

        def limited_more():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, 100 << 10))
        done = self.run_program("analyze", MODEL, "--data", self.text, "--cache", self.root / "cache", "--tokens", "128", "--context", "64",
                                "--threads", "1", "--out", self.root / "out", preexec_fn=limited_more)
        self.expect_one_line(done, "File too large")
        self.assertEqual([path.name for path in self.root.iterdir() if "out" in path.name], [])

    def test_full_disk_finetune(self):
        """a disk that fills up while a checkpoint is written: the last one is intact, and the run goes on when there is room"""
        disk = self.root / "disk"
        disk.mkdir()
        self.assertEqual(self.run_program(*self.finetune(self.root / "whole")).returncode, 0)
        want = (self.root / "whole" / "final" / "model.safetensors").read_bytes()
        script = ('d=$1; shift; o=$1; shift; mount -t tmpfs -o size=30m none "$d"; "$@"; first=$?; '
                  'mount -o remount,size=400m "$d"; "$@" --resume; second=$?; cp "$d/run/final/model.safetensors" "$o"; '
                  'echo "codes $first $second"; exit 0')
        done = self.in_namespace(script, disk, self.root / "result", PROGRAM, *self.finetune(disk / "run"))
        self.assertIn("codes 1 0", done.stdout, done.stderr)
        self.assertIn("No space left", done.stderr)
        self.assertIn("the last good checkpoint is", done.stderr)
        self.assertEqual((self.root / "result").read_bytes(), want)

    def test_read_only_folder(self):
        """a folder that cannot be written: one line, at once"""
        folder = self.root / "fixed"
        folder.mkdir()
        script = 'd=$1; shift; mount --bind "$d" "$d" && mount -o remount,ro,bind "$d"; "$@"'
        for command in (self.convert(folder / "out"), self.finetune(folder / "run"),
                        ["logits", MODEL, "--ids", "2,5", "--out", folder / "logits"]):
            done = self.in_namespace(script, folder, PROGRAM, *command)
            self.expect_one_line(done, str(folder))
            self.assertRegex(done.stderr, "[Rr]ead-only")

    def changing_model(self, change):
        """generate on a copy of the model that `change` is applied to in the middle."""
        copy = self.root / "model"
        shutil.copytree(MODEL, copy)
        process = subprocess.Popen([PROGRAM, "generate", str(copy), "--prompt", "The people", "-n", "3000", "--ignore-eos", "--threads",
                                    "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(30)
        change(copy / "model.safetensors")
        _, errors = process.communicate(timeout=300)
        return process.returncode, errors.decode()

    def test_cut_while_mapped(self):
        """weights cut short while they are in use: one line, exit code 1"""
        code, errors = self.changing_model(lambda file: os.truncate(file, 4096))
        self.assertEqual(code, 1, errors)
        self.assertIn("cut short", errors)
        self.assertEqual(len(errors.splitlines()), 1, errors)

    def test_removed_while_mapped(self):
        """weights removed while they are in use: the program goes on"""
        code, errors = self.changing_model(lambda file: file.unlink())
        self.assertEqual(code, 0, errors)

    def test_no_memory(self):
        """a limit on memory: one line that says so, and the run can be started again"""
        def limited():
            resource.setrlimit(resource.RLIMIT_AS, (int(1.5 * GIB), int(1.5 * GIB)))
        run = self.root / "run"
        done = self.run_program("finetune", MODEL, "--data", self.text, "--cache", self.root / "cache", "--context", "1024", "--batch",
                                "64", "--micro-batch", "64", "--steps", "1", "--held-out", "0", "--out", run, "--threads", "1",
                                "--quiet", preexec_fn=limited)
        self.expect_one_line(done, "memory")

    def test_clock_backwards(self):
        """a clock that runs backwards: the same bits"""
        if shutil.which("cc") is None and shutil.which("g++") is None:
            self.skipTest("no C compiler")
        source, library = self.root / "clock.c", self.root / "clock.so"
        source.write_text(BACKWARDS)
        compiler = shutil.which("cc") or shutil.which("g++")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        self.assertEqual(self.run_program(*self.finetune(self.root / "usual", "--tensorboard")).returncode, 0)
        done = self.run_program(*self.finetune(self.root / "back", "--tensorboard"), env=dict(os.environ, LD_PRELOAD=str(library)))
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("final/model.safetensors", "checkpoints/step-6/optimizer.safetensors"):
            self.assertEqual((self.root / "usual" / name).read_bytes(), (self.root / "back" / name).read_bytes())

    def test_two_runs_one_folder(self):
        """a second run into a folder in use is refused, with --resume too; the first is as if alone"""
        run = self.root / "run"
        endless = [PROGRAM, *map(str, self.finetune(run))]
        endless[endless.index("--steps") + 1] = "100000"
        first = subprocess.Popen(endless, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not (run / "checkpoints" / "step-2").exists() and first.poll() is None:
            time.sleep(0.01)
        for more in ([], ["--resume"]):
            second = subprocess.run([*endless, *more], capture_output=True, text=True, check=False)
            self.assertNotEqual(second.returncode, 0, second)
            self.assertEqual(second.stderr.count("\n"), 1, second.stderr)
        first.send_signal(signal.SIGINT)
        _, errors = first.communicate(timeout=300)
        self.assertIn("stopped after step", errors)
        steps = [json.loads(line)["step"] for line in (run / "log.jsonl").read_text().splitlines()]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))


class Table(unittest.TextTestResult):
    """One line a fault: what happens, and whether what must come of it came."""

    def line(self, test, verdict):
        self.stream.writeln(f"{verdict:8} {time.monotonic() - self.began:6.1f} s  {test.shortDescription()}")

    def startTest(self, test):
        self.began = time.monotonic()
        unittest.TestResult.startTest(self, test)

    def addSuccess(self, test):
        unittest.TestResult.addSuccess(self, test)
        self.line(test, "ok")

    def addFailure(self, test, err):
        unittest.TestResult.addFailure(self, test, err)
        self.line(test, "FAILED")

    def addError(self, test, err):
        unittest.TestResult.addError(self, test, err)
        self.line(test, "FAILED")

    def addSkip(self, test, reason):
        unittest.TestResult.addSkip(self, test, reason)
        self.line(test, "skipped")
        self.stream.writeln(f"{'':19}{reason}")


# Faults of long ways, tested beside what else is tested of them.
ELSEWHERE = ("resume_test.Resume.test_killed_runs_end_with_the_same_bits",
             "linearize_test.Linearize.test_killed_and_called_again_it_ends_the_same",
             "reproduce_test.Reproduce.test_killed_and_called_again_it_gives_the_same",
             "ranks_test.Ranks.test_a_killed_rank_ends_the_others",
             "ranks_test.Ranks.test_a_stopped_rank_ends_the_others",
             "ranks_test.Ranks.test_a_cut_network_ends_both_ranks")


def tests_to_run(everything):
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromTestCase(Faults)
    if everything:
        sys.path.insert(0, str(ROOT / "tests" / "end_to_end"))
        suite = unittest.TestSuite([suite, loader.loadTestsFromNames(ELSEWHERE)])
    return suite


if __name__ == "__main__":
    done = unittest.TextTestRunner(resultclass=Table).run(tests_to_run("--all" in sys.argv[1:]))
    sys.exit(not done.wasSuccessful())
