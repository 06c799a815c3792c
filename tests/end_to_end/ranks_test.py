"""Several processes train one model: they agree, and when one is gone all end, with one line, in time."""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from random_text import write_random_text

PROGRAM = os.environ["DARKFORMER"]
TIMEOUT = 4  # seconds without an answer, as given to the ranks
SLACK = 25   # seconds that a loaded machine may take besides


def log_of(run):
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def children_of(process):
    """Process ids by rank."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if parent == process.pid:
                    variables = dict(pair.split("=", 1) for pair in (folder / "environ").read_text().split("\0") if "=" in pair)
                    found[int(variables["RANK"])] = int(folder.name)
            except (OSError, KeyError, IndexError):
                pass  # it ended meanwhile, or is not a rank yet
    return found


def state_of(pid):
    """A letter: R running, S asleep, T stopped, Z ended; none if it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def is_alive(pid):
    return state_of(pid) not in ("", "Z")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.text = cls.root / "text.txt"
        write_random_text(cls.text)
        # A model and its tokens, so that the runs below start at once.
        cls.run_to_the_end("base", "pretrain", *cls.shape(), "--steps", "1")
        cls.model = cls.root / "base" / "final"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @staticmethod
    def shape():
        return ("--vocabulary", "340", "--layers", "2", "--hidden", "32", "--heads", "2", "--head-dim", "16",
                "--attention", "dark", "--features", "16")

    @classmethod
    def command(cls, run, kind, *more):
        model = (cls.model,) if kind == "finetune" else ()
        return [str(word) for word in
                (PROGRAM, kind, *model, "--data", cls.text, "--out", cls.root / run, "--cache", cls.root / "cache",
                 "--context", "48", "--batch", "8", "--lr", "1e-3", "--held-out", "0.1", "--threads", "1", "--quiet", *more)]

    @classmethod
    def run_to_the_end(cls, run, kind, *more, **extra):
        done = subprocess.run(cls.command(run, kind, *more), capture_output=True, text=True, check=False, **extra)
        assert done.returncode == 0, done.stderr
        return done

    def wait_for_steps(self, run, processes):
        log = self.root / run / "log.jsonl"
        while all(process.poll() is None for process in processes) and not (log.exists() and log.read_text().count("\n") >= 3):
            time.sleep(0.02)

    def start(self, run, *more):
        """A long run that has made its first steps; its ranks by number."""
        process = subprocess.Popen(self.command(run, "finetune", "--timeout", TIMEOUT, "--steps", "100000", *more),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for_steps(run, [process])
        self.assertIsNone(process.poll(), process.stderr.read() if process.poll() is not None else "")
        return process, children_of(process)

    def expect_end(self, process, ranks, *words):
        """All ranks are gone in time, and one line says why."""
        began = time.monotonic()
        _, errors = process.communicate(timeout=120)
        self.assertLess(time.monotonic() - began, TIMEOUT + SLACK)
        self.assertEqual(process.returncode, 1, errors)
        self.assertEqual(errors.count("\n"), 1, errors)
        for word in words:
            self.assertIn(word, errors)
        self.assertFalse([rank for rank, pid in ranks.items() if is_alive(pid)], "ranks are left")
        return errors

    def test_1_2_and_4_ranks_agree(self):
        logs = {}
        for count in (1, 2, 4):
            self.run_to_the_end(f"agree-{count}", "finetune", "--nproc", count, "--steps", "6", "--recompute")
            logs[count] = log_of(self.root / f"agree-{count}")
        for count in (2, 4):
            for want, got in zip(logs[1], logs[count]):
                self.assertEqual(want["tokens"], got["tokens"])
                self.assertAlmostEqual(want["loss"], got["loss"], delta=1e-4 * want["loss"])
            # Before the first update only the order of the sums differs.
            for key in ("loss", "gradient_norm"):
                self.assertAlmostEqual(logs[1][0][key], logs[count][0][key], delta=1e-5 * logs[1][0][key])

    def test_pretrain_learns_its_vocabulary_once(self):
        self.run_to_the_end("fresh", "pretrain", *self.shape(), "--steps", "3", "--nproc", "2")
        self.run_to_the_end("alone", "pretrain", *self.shape(), "--steps", "3")
        self.assertEqual((self.root / "fresh/final/tokenizer.model").read_bytes(),
                         (self.root / "alone/final/tokenizer.model").read_bytes())
        self.assertAlmostEqual(log_of(self.root / "fresh")[-1]["loss"], log_of(self.root / "alone")[-1]["loss"], delta=1e-3)

    def test_a_killed_rank_ends_the_others(self):
        """one of three ranks is killed: all end at once, with one line that names it"""
        for rank in (0, 1):
            process, ranks = self.start(f"killed-{rank}", "--nproc", "3")
            self.assertEqual(sorted(ranks), [0, 1, 2])
            os.kill(ranks[rank], signal.SIGKILL)
            self.expect_end(process, ranks, f"rank {rank} was killed by signal 9", "no checkpoint yet")

    def test_a_stopped_rank_ends_the_others(self):
        """one of three ranks is stopped (SIGSTOP): all end within the time limit, and fewer ranks go on"""
        process, ranks = self.start("briefly-stopped", "--nproc", "2")
        os.kill(ranks[1], signal.SIGSTOP)
        time.sleep(1)
        os.kill(ranks[1], signal.SIGCONT)
        time.sleep(TIMEOUT)
        self.assertIsNone(process.poll(), "a stop shorter than the limit ended the run")
        process.send_signal(signal.SIGHUP)  # and a closed terminal saves
        self.expect_end(process, ranks, "stopped after step", "--resume")
        process, ranks = self.start("stopped", "--nproc", "3", "--checkpoint-every", "2")
        os.kill(ranks[1], signal.SIGSTOP)
        errors = self.expect_end(process, ranks, "rank 1 did not answer", "go on after step ", "--resume")
        # Fewer ranks go on from there.
        command = errors[errors.index("with: darkformer ") + len("with: darkformer "):].split()
        step = int(errors.split("go on after step ")[1].split()[0])
        done = subprocess.run([PROGRAM, *command, "--nproc", "1", "--steps", str(step + 2)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line["step"] for line in log_of(self.root / "stopped")], list(range(1, step + 3)))

    def test_a_killed_launcher_leaves_nobody_behind(self):
        process, ranks = self.start("launcher", "--nproc", "2")
        process.kill()
        process.communicate()
        deadline = time.monotonic() + SLACK
        while any(is_alive(pid) for pid in ranks.values()) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse([rank for rank, pid in ranks.items() if is_alive(pid)])

    def test_ctrl_c_saves_once_and_says_how_to_go_on(self):
        process, ranks = self.start("interrupted", "--nproc", "2")
        process.send_signal(signal.SIGINT)
        errors = self.expect_end(process, ranks, "stopped after step", "--resume")
        self.assertEqual(errors.count("saved as"), 1)

    def test_ctrl_z_pauses_all(self):
        """the launcher and its ranks, until they are continued"""
        process, ranks = self.start("paused", "--nproc", "2")
        process.send_signal(signal.SIGTSTP)
        everybody, deadline = [process.pid, *ranks.values()], time.monotonic() + SLACK
        while [state_of(pid) for pid in everybody] != ["T"] * 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual([state_of(pid) for pid in everybody], ["T"] * 3)
        before = len(log_of(self.root / "paused"))
        process.send_signal(signal.SIGCONT)
        while len(log_of(self.root / "paused")) < before + 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        self.expect_end(process, ranks, "stopped after step", "--resume")
        self.assertGreaterEqual(len(log_of(self.root / "paused")), before + 3)

    def test_two_signals_at_once_are_one(self):
        """as timeout(1) sends them: the work is saved"""
        process, ranks = self.start("twice", "--nproc", "2")
        process.terminate()
        process.terminate()
        self.expect_end(process, ranks, "stopped after step", "saved as", "--resume")

    def test_a_signal_to_one_rank_stops_all(self):
        process, ranks = self.start("evicted", "--nproc", "2")
        os.kill(ranks[1], signal.SIGTERM)
        self.expect_end(process, ranks, "stopped after step", "--resume")

    def test_from_4_ranks_onto_1(self):
        more = ("--steps", "8", "--checkpoint-every", "4")
        self.run_to_the_end("whole", "finetune", *more)
        self.run_to_the_end("moved", "finetune", "--nproc", "4", *more)
        # As if the run had ended after step 4.
        shutil.rmtree(self.root / "moved/checkpoints/step-8")
        shutil.rmtree(self.root / "moved/final")
        self.run_to_the_end("moved", "finetune", "--nproc", "1", "--resume", *more)
        whole, moved = log_of(self.root / "whole"), log_of(self.root / "moved")
        self.assertEqual([line["step"] for line in moved], [line["step"] for line in whole])
        for want, got in zip(whole, moved):
            self.assertAlmostEqual(want["loss"], got["loss"], delta=1e-4 * want["loss"])
        state = json.loads((self.root / "moved/checkpoints/step-8/training_state.json").read_text())
        self.assertEqual(state["ranks"], 1)

    def test_a_failing_rank_is_named_once(self):
        done = subprocess.run(self.command("too-few", "finetune", "--nproc", "16", "--steps", "2"),
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("cannot be shared among 16 ranks", done.stderr)

    def test_two_launchers_are_refused(self):
        done = subprocess.run(self.command("two-launchers", "finetune", "--nproc", "2", "--steps", "2"),
                              capture_output=True, text=True, check=False, env=self.environment(0, 2, "127.0.0.1", 1))
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("RANK and WORLD_SIZE say that a launcher has", done.stderr)

    def environment(self, rank, ranks, host, port):
        return dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR=host, MASTER_PORT=str(port))

    def start_by_environment(self, run, host, port, prefixes, *more):
        """Ranks as a cluster starts them: the same command on each machine."""
        return [subprocess.Popen([*prefix, *self.command(run, "finetune", "--timeout", TIMEOUT, *more)],
                                 env=self.environment(rank, len(prefixes), host, port),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for rank, prefix in enumerate(prefixes)]

    def expect_both_done(self, processes):
        ends = [(process.communicate(timeout=120)[1], process.returncode) for process in processes]
        self.assertEqual([code for _, code in ends], [0] * len(ends), ends)

    def expect_each_tells(self, processes, pattern):
        """All end in time, each with one line of its own."""
        began = time.monotonic()
        for process in processes:
            _, errors = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 1, errors)
            self.assertEqual(errors.count("\n"), 1, errors)
            self.assertRegex(errors, pattern)
        self.assertLess(time.monotonic() - began, TIMEOUT + SLACK)

    def test_ranks_by_environment(self):
        self.expect_both_done(self.start_by_environment("environment", "127.0.0.1", free_port(), [[], []], "--steps", "3"))
        self.assertEqual(len(log_of(self.root / "environment")), 3)

    def test_ranks_by_environment_each_tell_of_a_lost_one(self):
        processes = self.start_by_environment("lost", "127.0.0.1", free_port(), [[], [], []], "--steps", "100000")
        self.wait_for_steps("lost", processes)
        processes[2].kill()
        processes[2].communicate()
        self.expect_each_tells(processes[:2], "rank [01] of 3: another rank ")

    def test_ranks_with_other_options_are_refused(self):
        port = free_port()
        processes = [self.start_rank("apart", rank, 2, port, "--weight-decay", decay) for rank, decay in enumerate(("0", "0.1"))]
        ends = [(process.communicate(timeout=120)[1], process.returncode) for process in processes]
        self.assertEqual([code for _, code in ends], [1, 1], ends)
        self.assertIn("has other options than rank 0", ends[0][0])

    def start_rank(self, run, rank, ranks, port, *more):
        """One rank as by hand, in a shell of its own."""
        return subprocess.Popen(self.command(run, "finetune", "--steps", "3", *more),
                                env=self.environment(rank, ranks, "127.0.0.1", port),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_ranks_that_count_differently_are_refused(self):
        for counts in ((2, 3), (3, 2)):
            port = free_port()
            processes = [self.start_rank(f"counts-{counts[0]}", rank, ranks, port) for rank, ranks in enumerate(counts)]
            self.expect_each_tells(processes, f"WORLD_SIZE is {counts[1]} for rank 1 and {counts[0]} for rank 0")

    def test_a_rank_that_is_there_twice_is_refused(self):
        port = free_port()
        processes = [self.start_rank("twice-there", rank, 3, port) for rank in (0, 1, 1)]
        ends = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]
        self.assertEqual([code for _, code in ends], [1, 1, 1], ends)
        self.assertIn("RANK is 1 for two processes", ends[1][0] + ends[2][0])

    def test_a_listener_that_is_no_rank(self):
        """one that says nothing can be left by SIGTERM, one that says something else is told of"""
        for answer, pattern in ((None, "stopped while it waited for an answer of rank 0"),
                                (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not answer as rank 0 does"),
                                ("reset", "darkformer")):
            with self.subTest(answer=answer), socket.create_server(("127.0.0.1", 0)) as server:
                process = self.start_rank("foreign", 1, 2, server.getsockname()[1])
                connections = [server.accept()[0]]
                time.sleep(1)
                if answer == "reset":
                    for connection in connections:  # with words unread
                        connection.close()
                elif answer:
                    connections[0].sendall(answer)
                else:
                    process.terminate()
                self.expect_each_tells([process], pattern)
                for connection in connections:
                    connection.close()

    def test_a_rank_alone_can_be_stopped(self):
        """one that waits for the others ends soon after SIGTERM, with one line"""
        for rank in (0, 1):
            with self.subTest(rank=rank):
                process = self.start_rank(f"alone-{rank}", rank, 2, free_port())
                time.sleep(3)
                self.assertIsNone(process.poll(), "it should be waiting")
                process.terminate()
                began = time.monotonic()
                _, errors = process.communicate(timeout=60)
                self.assertLess(time.monotonic() - began, SLACK)
                self.assertEqual(process.returncode, 1, errors)
                self.assertRegex(errors.splitlines()[-1], f"rank {rank} of 2: stopped while it waited for ")

    @contextlib.contextmanager
    def two_networks(self):
        """Two machines as far as the network goes: the names of their namespaces, which are also those of their ends of the wire."""
        names = [f"dark{os.getpid()}{side}" for side in "ab"]
        made = subprocess.run(["ip", "netns", "add", names[0]], capture_output=True, check=False) if shutil.which("ip") else None
        if made is None or made.returncode != 0:
            self.skipTest("no right to make network namespaces, or no ip command")
        try:
            for command in (["ip", "netns", "add", names[1]],
                            ["ip", "link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name", names[1],
                             "netns", names[1]],
                            *(["ip", "-n", name, "addr", "add", f"10.77.0.{i + 1}/24", "dev", name]
                              for i, name in enumerate(names)),
                            *(["ip", "-n", name, "link", "set", device, "up"] for name in names for device in ("lo", name))):
                subprocess.run(command, check=True)
            yield names
        finally:
            for name in names:
                subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def test_two_network_namespaces(self):
        with self.two_networks() as names:
            self.expect_both_done(self.start_by_environment(
                "network", "10.77.0.1", 29511, [["ip", "netns", "exec", name] for name in names], "--steps", "3"))
            self.assertEqual(len(log_of(self.root / "network")), 3)

    def test_a_cut_network_ends_both_ranks(self):
        """the network between two machines is cut: each rank ends within the time limit, with one line"""
        with self.two_networks() as names:
            processes = self.start_by_environment(
                "cut", "10.77.0.1", 29512, [["ip", "netns", "exec", name] for name in names], "--steps", "100000")
            self.wait_for_steps("cut", processes)
            subprocess.run(["ip", "-n", names[1], "link", "set", names[1], "down"], check=True)
            self.expect_each_tells(processes, "rank [01] of 2: another rank ")


if __name__ == "__main__":
    unittest.main()
