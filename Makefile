# Every task of the project; `make help` lists them. Commands are quiet, so that the standard output of test-gpu and
# test-sim is the program's alone and their standard error is the hook's log.
SHELL := /bin/bash
.DEFAULT_GOAL := hook
.DELETE_ON_ERROR:

CARGO ?= cargo
CC ?= gcc
CXX ?= g++
PYTHON ?= python3

HOOK := libcuda_hook.so
ANALYZE := target/release/hook-analyze
OUT := out

# The lab's settings; `make test-gpu CUDA_MEM_QUOTA_MB=256` changes one.
CUDA_MEM_QUOTA_MB ?= 128
CUDA_CORE_RATE ?= 5
CUDA_CORE_CAPACITY ?= 3
LAB = CUDA_MEM_QUOTA_MB=$(CUDA_MEM_QUOTA_MB) CUDA_CORE_RATE=$(CUDA_CORE_RATE) CUDA_CORE_CAPACITY=$(CUDA_CORE_CAPACITY)

HOOK_SOURCES := $(shell find hook/src hook/event/src -name '*.rs') hook/Cargo.toml hook/event/Cargo.toml Cargo.toml Cargo.lock
ANALYZE_SOURCES := $(shell find analyze/src analyze/templates analyze/fonts hook/event/src -type f) analyze/Cargo.toml Cargo.toml Cargo.lock
SIM_SOURCES := $(wildcard cuda/sim/*.c cuda/sim/*.h cuda/sim/*.map cuda/sim/include/*.h)
SIM_CFLAGS := -std=c11 -O2 -Wall -Wextra -Werror -fPIC -pthread

# NVIDIA's compiler from PyPI, where `make nvcc` puts it.
NVCC_DIR := .nvcc
NVCC_ROOT := $(NVCC_DIR)/nvidia/cu13
NVCC_PACKAGES := nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-nvvm==13.0.88
NVCC_LOCAL := $(NVCC_ROOT)/bin/nvcc
NVCC ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard $(NVCC_LOCAL)))
# The program that test-sim runs: nvcc's where `make nvcc` was run, else g++'s.
SIM_PROGRAM = $(if $(wildcard $(NVCC_LOCAL)),build/nvcc/test_hook,build/sim/test_hook)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 20

.PHONY: hook
hook: $(HOOK) ## build the hook, ./libcuda_hook.so (the default)

# A machine with a GPU may lack cargo: a library that was built elsewhere is used as it is.
$(HOOK): $(HOOK_SOURCES)
	@if command -v $(CARGO) >/dev/null; then \
	  $(CARGO) build -q --release -p cuda-hook && cp target/release/libcuda_hook.so $@.new && mv $@.new $@; \
	elif [ -f $@ ]; then echo "cargo is not installed: using the $@ that is here" >&2; touch $@; \
	else echo "cargo is not installed (https://rustup.rs) and there is no $@ built elsewhere" >&2; exit 2; fi

.PHONY: analyze
analyze: $(ANALYZE) ## build hook-analyze, target/release/hook-analyze

$(ANALYZE): $(ANALYZE_SOURCES)
	@$(CARGO) build --release -p hook-analyze
	@touch $@

# The command finds the hook in ../lib. Man page and completions are made from its flags.
PREFIX ?= /usr/local
MAN_PAGE := share/man/man1/hook-analyze.1
BASH_COMPLETIONS := share/bash-completion/completions/hook-analyze
ZSH_COMPLETIONS := share/zsh/site-functions/_hook-analyze
FISH_COMPLETIONS := share/fish/vendor_completions.d/hook-analyze.fish
INTO = $(DESTDIR)$(PREFIX)

.PHONY: install
install: $(HOOK) $(ANALYZE) ## hook, command, man page, completions into PREFIX=/usr/local (DESTDIR= before it)
	@install -D -m 755 $(HOOK) $(INTO)/lib/$(HOOK)
	@install -D -m 755 $(ANALYZE) $(INTO)/bin/hook-analyze
	@install -d $(dir $(addprefix $(INTO)/,$(MAN_PAGE) $(BASH_COMPLETIONS) $(ZSH_COMPLETIONS) $(FISH_COMPLETIONS)))
	@$(ANALYZE) --man-page > $(INTO)/$(MAN_PAGE)
	@$(ANALYZE) --completions bash > $(INTO)/$(BASH_COMPLETIONS)
	@$(ANALYZE) --completions zsh > $(INTO)/$(ZSH_COMPLETIONS)
	@$(ANALYZE) --completions fish > $(INTO)/$(FISH_COMPLETIONS)
	@echo "installed in $(INTO): bin/hook-analyze, lib/$(HOOK), man page, completions"

.PHONY: uninstall
uninstall: ## remove what install put there
	@rm -f $(addprefix $(INTO)/,lib/$(HOOK) bin/hook-analyze $(MAN_PAGE) $(BASH_COMPLETIONS) $(ZSH_COMPLETIONS) $(FISH_COMPLETIONS))

.PHONY: test
test: $(HOOK) ## preload `ls`: the hook loads, prints its two lines, harms nothing
	@mkdir -p build
	@$(LAB) LD_PRELOAD=./$(HOOK) ls > build/test.out 2> build/test.err; code=$$?; \
	cat build/test.out; cat build/test.err >&2; \
	[ $$code = 0 ] || { echo "ls under the hook ended with $$code" >&2; exit 1; }; \
	grep -q '^\[HOOK\] 显存配额: ' build/test.err && grep -q '^\[HOOK\] 算力限速: ' build/test.err || \
	  { echo "the hook's two lines are missing: it was not loaded (file ./$(HOOK), CUDA_HOOK_LOG)" >&2; exit 1; }

.PHONY: test-gpu
test-gpu: gpu-there build/gpu/test_hook $(HOOK) ## the lab's test program on a GPU: make test-gpu 2> hook.log
	@rm -f hook.jsonl
	@$(LAB) LD_PRELOAD=./$(HOOK) build/gpu/test_hook

.PHONY: gpu-there
gpu-there:
	@nvidia-smi -L 2>/dev/null | grep -q '^GPU' || { echo "an NVIDIA GPU is needed: nvidia-smi finds none. Without one \`make test-sim\` runs the test program on a stand-in runtime, \`make bench-hook\` measures there" >&2; exit 2; }
	@[ -n "$(NVCC)" ] || { echo "nvcc is needed: none on the PATH. \`make nvcc\` fetches it; NVCC=/path/to/nvcc names one" >&2; exit 2; }

.PHONY: test-sim
test-sim: build/sim/libcudart.so.13 $(SIM_PROGRAM) $(HOOK) ## the same program without a GPU, on the stand-in runtime
	@rm -f hook.jsonl
	@$(LAB) LD_LIBRARY_PATH=build/sim LD_PRELOAD=./$(HOOK) $(SIM_PROGRAM)

# The stand-ins call and hand out their own functions, whoever else has one of that name: -Bsymbolic.
build/sim/libcuda.so.1: $(SIM_SOURCES)
	@mkdir -p build/sim
	@$(CC) $(SIM_CFLAGS) -shared cuda/sim/libcuda*.c -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic \
	  -Wl,--version-script=cuda/sim/libcuda.map -o $@
	@ln -sf libcuda.so.1 build/sim/libcuda.so

# One object for the shared and for the static runtime.
build/sim/cudart.o: $(SIM_SOURCES)
	@mkdir -p build/sim
	@$(CC) $(SIM_CFLAGS) -r -nostdlib cuda/sim/cudart*.c -o $@

# The driver is opened when the first call needs it, from beside the runtime unless LD_LIBRARY_PATH has one.
build/sim/libcudart.so.13: build/sim/cudart.o cuda/sim/cudart.map | build/sim/libcuda.so.1
	@$(CC) -shared -pthread build/sim/cudart.o -Wl,-soname,libcudart.so.13 -Wl,-Bsymbolic '-Wl,-rpath,$$ORIGIN' \
	  -Wl,--version-script=cuda/sim/cudart.map -o $@
	@ln -sf libcudart.so.13 build/sim/libcudart.so

build/sim/libcudart_static.a: build/sim/cudart.o | build/sim/libcuda.so.1
	@rm -f $@
	@$(AR) rcs $@ build/sim/cudart.o

build/sim/test_hook: cuda/test_hook.cu build/sim/libcudart.so.13
	@$(CXX) -x c++ -std=c++17 -O1 -Icuda/sim/include cuda/test_hook.cu -Lbuild/sim -lcudart -o $@

SIM_TEST := $(CXX) -std=c++17 -Wall -Wextra -Werror -pthread -Icuda/sim/include

build/sim/test_libcuda: cuda/sim/test_libcuda.cpp cuda/sim/test_libcuda_own.h build/sim/libcuda.so.1
	@$(SIM_TEST) $< -Lbuild/sim -lcuda -o $@

build/sim/test_cudart: cuda/sim/test_cudart.cpp build/sim/libcudart.so.13
	@$(SIM_TEST) $< -Lbuild/sim -lcudart -o $@

build/sim/test_cudart_static: cuda/sim/test_cudart.cpp build/sim/libcudart_static.a
	@$(SIM_TEST) $< build/sim/libcudart_static.a -o $@

# A driver with nothing in it: to the runtime the same as none, on machines that have a real one too.
build/sim/none/libcuda.so.1:
	@mkdir -p build/sim/none
	@$(CC) -shared -x c /dev/null -Wl,-soname,libcuda.so.1 -o $@

.PHONY: nvcc
nvcc: $(NVCC_LOCAL) ## fetch NVIDIA's nvcc 13 from PyPI into .nvcc; test-sim then runs what it compiles

$(NVCC_LOCAL):
	@rm -rf $(NVCC_DIR)
	@$(PYTHON) -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps --target $(NVCC_DIR) $(NVCC_PACKAGES) >&2
	@ln -sf libcudart.so.13 $(NVCC_ROOT)/lib/libcudart.so
	@$@ --version >&2

build/nvcc/%: cuda/%.cu $(NVCC_LOCAL)
	@mkdir -p build/nvcc
	@$(NVCC_LOCAL) --cudart=shared -L$(NVCC_ROOT)/lib $< -o $@

NVCC_HOME = $$(dirname $$(dirname $$(readlink -f $(NVCC))))

build/gpu/plain_hook.so: hook/benches/programs/plain_hook.c
	@mkdir -p build/gpu
	@$(CC) -O2 -fPIC -shared -I$(NVCC_HOME)/include $< -o $@ -ldl

# The runtime library lies beside the compiler, in lib64 (CUDA's installer) or lib (PyPI).
build/gpu/%: cuda/%.cu
	@mkdir -p build/gpu
	@root=$$(dirname $$(dirname $$(readlink -f $(NVCC)))); lib=$$root/lib64; [ -d $$lib ] || lib=$$root/lib; \
	$(NVCC) --cudart=shared -L$$lib -Xlinker -rpath,$$lib $< -o $@

.PHONY: demo
demo: $(HOOK) $(ANALYZE) build/sim/libcudart.so.13 $(SIM_PROGRAM) ## from nothing to log, chart and report, without a GPU
	@mkdir -p $(OUT)
	@rm -f $(OUT)/hook.log $(OUT)/hook.jsonl $(OUT)/timeline.svg $(OUT)/report*
	@$(LAB) CUDA_HOOK_EVENTS=$(OUT)/hook.jsonl LD_LIBRARY_PATH=build/sim LD_PRELOAD=./$(HOOK) $(SIM_PROGRAM) 2> $(OUT)/hook.log \
	  || { cat $(OUT)/hook.log >&2; exit 1; }
	@$(ANALYZE) $(OUT)/hook.log --plot $(OUT)/timeline.svg --report $(OUT)/report.md
	@echo; echo "In $(CURDIR)/$(OUT):"; ls -1 $(OUT)

# Sizes and rounds: LINES=, RECORDS=, ROUNDS=; GROWTH=1 adds a tenth and ten times the lines (8 GB of disk), GROWTH=only leaves the rest out.
BENCH_PYTHON := build/bench/venv/bin/python
.PHONY: bench-analyze
bench-analyze: $(ANALYZE) $(BENCH_PYTHON) ## hook-analyze beside rg, grep, Python, pandas, polars, DuckDB and jq
	@PYTHON=$(CURDIR)/$(BENCH_PYTHON) DIR=$(CURDIR)/build/bench $(CARGO) bench -q -p hook-analyze --bench throughput

# SECONDS= is bash's own variable, so it is passed on under another name.
.PHONY: fuzz-analyze
fuzz-analyze: ## damage logs at random and read them in every way: SECONDS=60, SEED=
	@SECONDS_TO_RUN=$(or $(SECONDS),60) $(CARGO) run -q --release -p hook-analyze --example fuzz

# Begins with the logs of the tests in pieces. What reaches something new is kept in fuzz/corpus; what fails ends the run
# and lies in fuzz/artifacts/TARGET: kept in analyze/tests/data/crashes/TARGET it is tried again by an ordinary test.
FUZZ_TARGETS ?= readers records inputs reports submissions settings
.PHONY: fuzz-guided
fuzz-guided: fuzz-begin ## the same led by coverage, a minute for each target: SECONDS=60, FUZZ_TARGETS= (nightly Rust, cargo-fuzz)
	@for target in $(FUZZ_TARGETS); do $(MAKE) -s fuzz-target-$$target || exit 1; done

.PHONY: fuzz-begin
fuzz-begin:
	@$(CARGO) +nightly fuzz --version >/dev/null 2>&1 || \
	  { echo "this fuzzing needs a nightly compiler and cargo-fuzz: \`rustup toolchain install nightly\`, \`cargo install cargo-fuzz\`" >&2; exit 2; }
	@mkdir -p $(addprefix fuzz/corpus/,$(FUZZ_TARGETS) readers records reports)
	@for from in fuzz/seeds analyze/tests/data/crashes; do [ ! -d $$from ] || cp -r $$from/. fuzz/corpus || exit 1; done
	@for log in analyze/tests/data/*.log analyze/tests/data/*.jsonl fuzz/seeds/readers/*; do \
	  split -C 4K $$log fuzz/corpus/readers/$${log##*/}- && split -l 3 $$log fuzz/corpus/records/$${log##*/}- && \
	  split -C 8K $$log fuzz/corpus/reports/$${log##*/}- || exit 1; done
	@$(CARGO) +nightly fuzz build --fuzz-dir fuzz --sanitizer none

fuzz-target-%:
	@$(CARGO) +nightly fuzz run --fuzz-dir fuzz --sanitizer none $* -- -max_total_time=$(or $(SECONDS),60) \
	  -dict=fuzz/words.dict -max_len=8192 -timeout=20 -rss_limit_mb=1024 -print_final_stats=1

FUZZ ?= reports/$(shell date +%F)-fuzz
.PHONY: fuzz-campaign
fuzz-campaign: fuzz-begin ## fuzz-guided and fuzz-analyze, counted in a table: SECONDS=60 for each, JOBS=1 at once, FUZZ=folder
	@SECONDS_TO_RUN=$(or $(SECONDS),60) JOBS=$(or $(JOBS),1) FUZZ_TARGETS="$(FUZZ_TARGETS)" $(PYTHON) reports/fuzz.py $(FUZZ)

FAULTS ?= reports/$(shell date +%F)-faults
.PHONY: fault-campaign
fault-campaign: $(HOOK) build/sim/libcudart.so.13 ## full disks, forks, signals, other preloaded libraries, valgrind: TRIES=3, FAULTS=folder
	@TRIES=$(or $(TRIES),3) $(PYTHON) reports/faults.py $(FAULTS)

# What can't be installed is left out of the comparison, with a word.
$(BENCH_PYTHON):
	@mkdir -p build/bench
	@$(PYTHON) -m venv build/bench/venv
	@$@ -m pip install -q --disable-pip-version-check pandas polars duckdb >&2 || true

# The library that draws the charts of `hook-analyze --html`; npm, which is needed for this alone, checks what it fetches.
UPLOT_VERSION := 1.6.32
.PHONY: uplot
uplot: ## fetch the chart library of --html again, from npm: UPLOT_VERSION=
	@rm -rf build/uplot && mkdir -p build/uplot
	@npm pack --silent --pack-destination build/uplot uplot@$(UPLOT_VERSION) >/dev/null
	@tar -xzf build/uplot/uplot-$(UPLOT_VERSION).tgz -C build/uplot
	@cp build/uplot/package/LICENSE build/uplot/package/dist/uPlot.iife.min.js build/uplot/package/dist/uPlot.min.css analyze/assets/uplot/

.PHONY: check
check: check-format check-lint check-test check-model check-doc check-sim check-nvcc check-readme check-charts check-install check-reports check-unsafe check-deny ## everything that must be green
	@echo "make check: green"

.PHONY: check-format
check-format: ## formatting
	@$(CARGO) fmt --all --check

.PHONY: check-lint
check-lint: ## clippy, warnings denied
	@$(CARGO) clippy --release --workspace --all-targets -- -D warnings

# Doc tests are cargo's own; nextest does not run them.
.PHONY: check-test
check-test: $(HOOK) build/sim/libcudart.so.13 build/sim/test_hook build/sim/test_cudart_static ## unit, property and black-box tests
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  CUDA_HOOK_SO=$(CURDIR)/$(HOOK) $(CARGO) nextest run --release --workspace --features hook-event/read && \
	  $(CARGO) test -q --release --doc -p hook-analyze; \
	else CUDA_HOOK_SO=$(CURDIR)/$(HOOK) $(CARGO) test --release --workspace --features hook-event/read; fi

# Its own target folder: another configuration would rebuild everything in the usual one.
.PHONY: check-model
check-model: ## every order of threads through the accounts and the rings, by model checking
	@RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/model $(CARGO) test -q --release -p cuda-hook --lib model

.PHONY: bench-hook
bench-hook: $(HOOK) build/sim/libcudart.so.13 ## what the hook costs a launch, an allocation, a start, beside no hook and a plain one
	@CUDA_HOOK_SO=$(CURDIR)/$(HOOK) $(CARGO) bench -q -p cuda-hook --features hook-event/read --bench cost

# On a quiet machine, where it takes about ten minutes; `make bench LINES=300000 RECORDS=200000 ROUNDS=2` is for a look.
.PHONY: bench
bench: ## one table: the hook's costs and the analyser's speed beside their peers, in build/bench.md (with a GPU: bench-gpu too)
	@CARGO=$(CARGO) $(PYTHON) reports/bench.py build

# HAMI_CORE=PATH: HAMi-core's source, to compare with. A folder with results is not written again.
.PHONY: gpu-proof
gpu-proof: ## all that only a GPU shows, in build/gpu-proof (or PROOF=FOLDER), 8 minutes at most; HAMI_CORE=
	@reports/gpu-proof.sh $(or $(PROOF),build/gpu-proof)

.PHONY: bench-gpu
bench-gpu: gpu-there $(HOOK) build/gpu/cost build/gpu/plain_hook.so ## what the hook costs on a GPU, beside no hook, a plain one and HAMI_CORE= (PLAIN=, HAMI=: other libraries)
	@if [ -n "$(HAMI_CORE)" ] && [ ! -f "$(HAMI_CORE)/build/libvgpu.so" ]; then \
	  CUDA_HOME=$(NVCC_HOME) bash "$(HAMI_CORE)/build.sh" > build/hami-build.txt 2>&1 || \
	  echo "HAMi-core is left out: its build.sh failed, build/hami-build.txt says why" >&2; fi
	@HOOK=$(CURDIR)/$(HOOK) PLAIN=$(or $(PLAIN),$(CURDIR)/build/gpu/plain_hook.so) \
	  HAMI=$(or $(HAMI),$(abspath $(addsuffix /build/libvgpu.so,$(HAMI_CORE)))) $(PYTHON) reports/gpu-cost.py build/gpu-cost

.PHONY: check-reports
check-reports: ## the scripts under reports/ that make tables
	@$(PYTHON) -m unittest discover -q -s reports

.PHONY: check-doc
check-doc: ## documentation, warnings denied
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc -q --release --workspace --no-deps --document-private-items

# The stand-ins by themselves, then the lab's program as g++ builds it: output as the course prints it, log as the course's.
.PHONY: check-sim
check-sim: $(HOOK) $(addprefix build/sim/,test_libcuda test_cudart test_cudart_static none/libcuda.so.1 test_hook) ## the stand-in driver and runtime, and the lab's program on them
	@for test in test_libcuda test_cudart test_cudart_static; do \
	  LD_LIBRARY_PATH=build/sim build/sim/$$test > build/$$test.out || { cat build/$$test.out; exit 1; }; done
	@LD_LIBRARY_PATH=build/sim/none build/sim/test_cudart_static --without-driver
	@relocations=$$(readelf -rW build/sim/libcuda.so.1 build/sim/libcudart.so.13) && ! grep -E ' _*cu(da)?[A-Z]' <<< "$$relocations" || \
	  { echo "a stand-in reaches its own functions by name: another library could step in between" >&2; exit 1; }
	@imports=$$(nm -D --undefined-only build/sim/test_cudart_static) && ! grep -E ' _*cu' <<< "$$imports" || \
	  { echo "a program with the static runtime imports from CUDA" >&2; exit 1; }
	@.ci/lab build/sim/test_hook

.PHONY: check-nvcc
check-nvcc: $(HOOK) build/sim/libcudart.so.13 build/nvcc/test_hook build/nvcc/triple ## the same as real nvcc builds it, and a <<<>>> program
	@.ci/entry-points $(NVCC_ROOT)/include | diff hook/tests/it/entry_points.txt - || \
	  { echo "the headers have other entry points than hook/tests/it/entry_points.txt"; exit 1; }
	@.ci/lab build/nvcc/test_hook
	@rm -f build/triple.jsonl
	@$(LAB) CUDA_HOOK_EVENTS=build/triple.jsonl CUDA_HOOK_LOG=off LD_LIBRARY_PATH=build/sim LD_PRELOAD=./$(HOOK) build/nvcc/triple
	@[ $$(grep -c '"sym":"__cudaLaunchKernel".*"kernel":"_Z' build/triple.jsonl) = 5 ] || \
	  { echo "launches by <<<>>> are not recorded with their kernel's name:"; cat build/triple.jsonl; exit 1; }

.PHONY: check-readme
check-readme: demo build/sim/test_hook ## the commands that the READMEs and docs/ show
	@.ci/readme README.md
	@.ci/readme README.zh-CN.md
	@for page in docs/*.md; do .ci/readme $$page || exit 1; done

.PHONY: check-install
check-install: $(HOOK) $(ANALYZE) build/sim/test_hook ## install into a folder, use what is there, uninstall
	@.ci/install

.PHONY: check-unsafe
check-unsafe: ## unsafe code by file, and that it is under hook/src/ffi alone
	@.ci/unsafe

# Advisories are apart: their list is a git repository, and what is green today must not be red tomorrow by itself.
DENY_THERE = $(CARGO) deny --version >/dev/null 2>&1
.PHONY: check-deny
check-deny: ## licences, sources and duplicates of what is linked (cargo-deny)
	@if $(DENY_THERE); then $(CARGO) deny --log-level error check licenses bans sources; \
	else echo "check-deny left out: \`cargo install cargo-deny --locked\` (5 minutes) installs what it needs" >&2; fi

.PHONY: check-advisories
check-advisories: ## known vulnerabilities of what is linked (cargo-deny; fetches RustSec's list from GitHub)
	@$(DENY_THERE) || { echo "check-advisories needs cargo-deny: \`cargo install cargo-deny --locked\`" >&2; exit 2; }
	@$(CARGO) deny check advisories

.PHONY: check-reproducible
check-reproducible: ## two builds of the hook in different folders are the same to the byte
	@.ci/reproducible

# Its own target folder, as another compiler would rebuild everything.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
.PHONY: check-msrv
check-msrv: ## everything compiles with the oldest Rust that Cargo.toml states
	@if $(CARGO) +$(MSRV).0 --version >/dev/null 2>&1; then \
	  CARGO_TARGET_DIR=target/msrv $(CARGO) +$(MSRV).0 check -q --workspace --all-targets --features hook-event/read && \
	  echo "compiles with $$($(CARGO) +$(MSRV).0 --version)"; \
	else echo "check-msrv left out: \`rustup toolchain install $(MSRV).0\` installs what it needs" >&2; fi

.PHONY: check-charts
check-charts: demo ## the charts: xmllint accepts them, and a root without any font draws the same PNGs
	@.ci/charts

# Committed, so that nobody needs this but who changes the program's words: FONT= names NotoSansCJK-Regular.ttc.
.PHONY: font
font: ## the font that PNG charts carry, anew from the program's own strings (fetches fontTools)
	@[ -x build/font/bin/python ] || { $(PYTHON) -m venv build/font && build/font/bin/pip install -q --disable-pip-version-check fonttools==4.68.0 >&2; }
	@build/font/bin/python analyze/fonts/subset.py $(FONT)

# DuckDB and PySpark from PyPI, in an environment of their own.
SCALE := build/scale
SCALE_LOGS ?= 300

$(SCALE)/venv: reports/sql/requirements.txt
	@rm -rf $@
	@$(PYTHON) -m venv $@ && $@/bin/pip install -q --disable-pip-version-check -r reports/sql/requirements.txt || { rm -rf $@; exit 1; }

.PHONY: check-scale
check-scale: $(ANALYZE) $(SCALE)/venv ## the summary as SQL, in DuckDB and Spark, over many logs (fetches both; needs Java 17)
	@command -v java >/dev/null || { echo "check-scale needs Java 17 for Spark: none on the PATH" >&2; exit 2; }
	@rm -rf $(SCALE)/logs $(SCALE)/calls
	@$(PYTHON) reports/sql/generate.py $(SCALE)/logs $(SCALE_LOGS)
	@$(ANALYZE) $(SCALE)/logs/*.jsonl --json --parquet $(SCALE)/calls --partition-by date,host > $(SCALE)/figures.json
	@$(SCALE)/venv/bin/python reports/sql/check.py $(SCALE)/calls $(SCALE)/figures.json

.PHONY: clean
clean: ## remove everything that was built (but not .nvcc)
	@$(CARGO) clean -q
	@rm -rf build $(OUT) $(HOOK) fuzz/target
