"""Ctrl-C while the program's libraries still load: one line and exit code 1, as later on."""
# SPDX-License-Identifier: Apache-2.0
import os
import resource
import signal
import subprocess
import time
import unittest

PROGRAM = os.environ["DARKFORMER"]
TICKS = os.sysconf("SC_CLK_TCK")


def start(*arguments):
    return subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def catches_interrupts(process):
    with open(f"/proc/{process.pid}/status") as lines:
        caught = next(line for line in lines if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1


def seconds_used(process):
    """CPU time, so that a loaded machine changes nothing."""
    with open(f"/proc/{process.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def whole_start():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([PROGRAM, "--version"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class EarlySignal(unittest.TestCase):
    def test_a_line_from_before_the_libraries_on(self):
        whole = whole_start()
        for number in (signal.SIGINT, signal.SIGTERM):
            process = start("--version")
            while not catches_interrupts(process):  # the linker is still at work
                self.assertIsNone(process.poll(), "it ended and never caught a signal")
                time.sleep(0.001)
            used = seconds_used(process)
            process.send_signal(number)
            errors = process.communicate()[1]
            self.assertEqual((process.returncode, errors), (1, "darkformer: stopped; nothing was begun\n"))
            self.assertLess(used, 0.6 * whole, "it is caught only when the libraries are there")

    def test_ignored_signals_stay_ignored(self):
        process = subprocess.Popen(["sh", "-c", 'trap "" INT; exec "$0" --version', PROGRAM], stdout=subprocess.PIPE, text=True)
        while process.poll() is None and not os.readlink(f"/proc/{process.pid}/exe").endswith("darkformer"):
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        self.assertIn("darkformer ", process.communicate()[0])
        self.assertEqual(process.returncode, 0)


unittest.main()
