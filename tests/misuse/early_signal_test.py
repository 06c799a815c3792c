"""Ctrl-C while the program's libraries still load: one line and exit code 1, as later on."""
# SPDX-License-Identifier: Apache-2.0
import fcntl
import os
import signal
import subprocess
import time
import unittest

PROGRAM = os.environ["DARKFORMER"]


def start_and_pause():
    """The program while its libraries wait to be started, and the pipe that holds it there.

    The linker names each library before it starts it. Some 300 names do not fit into the smallest pipe: the
    program waits for a reader, however fast or slow the machine is.
    """
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    process = subprocess.Popen(
        [PROGRAM, "--version"], stdout=subprocess.DEVNULL, stderr=writer, env={**os.environ, "LD_DEBUG": "files"}
    )
    os.close(writer)
    lines = open(reader, "rb", buffering=0)  # a buffer of ours would let it run on
    for line in lines:
        if b"calling init:" in line:
            return process, lines
    raise AssertionError("the linker named no library")


class EarlySignal(unittest.TestCase):
    def test_a_line_from_before_the_libraries_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process, lines = start_and_pause()
            process.send_signal(number)
            with lines:
                rest = lines.read().decode()
            self.assertEqual(process.wait(), 1)
            self.assertTrue(rest.endswith("darkformer: stopped; nothing was begun\n"), rest[-200:])
            self.assertNotIn("libtorch", rest, "it is caught only when the libraries are there")

    def test_ignored_signals_stay_ignored(self):
        process = subprocess.Popen(["sh", "-c", 'trap "" INT; exec "$0" --version', PROGRAM], stdout=subprocess.PIPE, text=True)
        while process.poll() is None and not os.readlink(f"/proc/{process.pid}/exe").endswith("darkformer"):
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        self.assertIn("darkformer ", process.communicate()[0])
        self.assertEqual(process.returncode, 0)


unittest.main()
