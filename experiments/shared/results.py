"""Results of an experiment by kind and seed, in a file that is whole after each run, and runs on all cores."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor


class Results:
    def __init__(self, file):
        self.file, self.lock = file, threading.Lock()
        file.parent.mkdir(parents=True, exist_ok=True)
        self.found = json.loads(file.read_text()) if file.exists() else {}

    def get(self, kind, seed):
        return self.found.get(kind, {}).get(seed)

    def put(self, kind, seed, result):
        with self.lock:
            self.found.setdefault(kind, {})[seed] = json.loads(json.dumps(result))  # as it will be read again
            self.file.with_suffix(".new").write_text(json.dumps(self.found, indent=1))
            self.file.with_suffix(".new").rename(self.file)
            print(kind, seed, result, flush=True)

    def fill(self, kinds, seeds, measure):
        """What is missing: measure(kind, seed) on each core. The first failure is raised when all have ended."""
        def one(kind, seed):
            if self.get(kind, seed) is None:
                self.put(kind, seed, measure(kind, seed))

        with ThreadPoolExecutor(os.cpu_count()) as cores:
            for done in [cores.submit(one, kind, seed) for seed in seeds for kind in kinds]:
                done.result()


def folder_name(kind, seed):
    return f"{kind.replace(', ', '-').replace(' ', '-')}-{seed}"


def mean_and_range(values):
    return f"{sum(values) / len(values):.3f} ({min(values):.3f}–{max(values):.3f})"
