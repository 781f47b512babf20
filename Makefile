# The commands of heed. CMake and Ninja do the work; see HACKING.md.
#   make demo      translate a dozen English sentences into Chinese and draw the attention behind them
#   make test      install what is missing, build everything, run all tests
#   make examples  build the examples, run each once and compare what it prints; says where the programs are
#   make results   train and evaluate for minutes, and compare with the figures in the documents
#   make bench     measure the attention kernels and the matrix product against the processor's own peak
#   make compare   build BASE=<commit> and this tree, and compare their benchmarks (ROUNDS=9 LINES="matmul decode:i8")
#   make sanitize  the whole suite under AddressSanitizer and UndefinedBehaviorSanitizer
#   make soak      100,000 random attention problems against the oracle (hours; CASES=1000 for fewer)
#   make kills     kill random processes of trainings 200 times; all must end with the same bits (KILLS=20 for fewer)
#   make fuzz      libFuzzer on every parser, FUZZ_SECONDS=60 each, after the malformed files of the tests; with clang's sanitizers
#   make portable  build without any special kernel and run the tests of that path (not those that start processes)
#   make neon      compile the kernels for 64-bit ARM and run the attention's tests on an emulated processor
#   make format    clang-format over the tree
#   make together  check that the files of each folder compile as one file
#   make packages  install the Debian packages that all of this needs
#   make tidy      clang-tidy over src/ and include/, with the checks of .clang-tidy (half an hour; FILES="src/nn/norm.cc" for fewer)

BUILD ?= build/release
JOBS ?= $(shell nproc)
CONFIGURE = cmake -S . -G Ninja
# Debian's interpreter: the one that Debian's pybind11 and NumPy are for.
PYTHON = -DPYTHON_EXECUTABLE=/usr/bin/python3
# `make demo` leaves the benchmarks out, to be quick; everything else builds them into the program.
BENCH = -DHEED_BUILD_BENCH=ON
# Three tests for two cores: some of them wait for processes, for a browser or for the disk.
CTEST = ctest --output-on-failure --no-tests=error -j $(shell expr $(JOBS) \* 3 / 2)

.PHONY: all demo test examples results bench compare soak kills sanitize fuzz portable neon format together tidy packages build-packages clean

all: build-packages
	@$(CONFIGURE) -B $(BUILD) $(BENCH) >/dev/null
	cmake --build $(BUILD) -j $(JOBS) --target heed_program

packages:
	@tools/install_packages.sh

build-packages:
	@tools/install_packages.sh build

demo: build-packages
	@$(CONFIGURE) -B $(BUILD) -DHEED_BUILD_TESTS=OFF -DHEED_BUILD_EXAMPLES=OFF -DHEED_BUILD_BENCH=OFF >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target heed_program
	@demo/run.sh $(BUILD)/bin/heed

test: packages
	$(CONFIGURE) -B $(BUILD) -DHEED_BUILD_TESTS=ON -DHEED_BUILD_EXAMPLES=ON -DHEED_BUILD_PYTHON=ON $(BENCH) $(PYTHON) >/dev/null
	cmake --build $(BUILD) -j $(JOBS)
	cd $(BUILD) && $(CTEST)
	@tools/list_skips.py $(BUILD)

examples: build-packages
	@$(CONFIGURE) -B $(BUILD) -DHEED_BUILD_TESTS=OFF -DHEED_BUILD_EXAMPLES=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target examples
	@cd $(BUILD) && $(CTEST) -R '^example[.]'
	@echo "The examples are in $(BUILD)/examples. Run one with: $(BUILD)/examples/formula"

results: build-packages
	$(CONFIGURE) -B $(BUILD) >/dev/null
	cmake --build $(BUILD) -j $(JOBS) --target heed_program
	tools/check_results.py $(BUILD)/bin/heed

bench: build-packages
	$(CONFIGURE) -B $(BUILD) $(BENCH) >/dev/null
	cmake --build $(BUILD) -j $(JOBS) --target heed_program
	$(BUILD)/bin/heed bench attention
	$(BUILD)/bin/heed bench decode
	$(BUILD)/bin/heed bench options
	$(BUILD)/bin/heed bench scaling
	$(BUILD)/bin/heed bench matmul

ROUNDS ?= 5
compare: build-packages
	@test -n "$(BASE)" || { echo "make compare needs BASE=<commit>" >&2; exit 1; }
	@$(CONFIGURE) -B $(BUILD) $(BENCH) >/dev/null
	cmake --build $(BUILD) -j $(JOBS) --target heed_program
	@tools/compare_benchmarks.py --base "$(BASE)" --now $(BUILD)/bin/heed --rounds "$(ROUNDS)" --jobs $(JOBS) $(LINES)

KILLS ?= 200
kills: packages
	$(CONFIGURE) -B $(BUILD) >/dev/null
	cmake --build $(BUILD) -j $(JOBS) --target heed_program heed_mpi
	tests/distributed/mpirun_test.py $(BUILD)/bin/heed --only kills --kills $(KILLS)

CASES ?= 100000
soak: packages
	$(CONFIGURE) -B $(BUILD) -DHEED_BUILD_TESTS=ON >/dev/null
	cmake --build $(BUILD) -j $(JOBS) --target soak
	$(BUILD)/tests/soak --cases $(CASES)

sanitize: packages
	$(CONFIGURE) -B build/sanitize -DHEED_SANITIZE=ON -DHEED_BUILD_TESTS=ON -DHEED_BUILD_EXAMPLES=ON >/dev/null
	cmake --build build/sanitize -j $(JOBS)
	cd build/sanitize && ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 $(CTEST)

FUZZ_SECONDS ?= 60
fuzz:
	@tools/install_packages.sh fuzz
	@cmake -S tests/fuzz -G Ninja -B build/fuzz -DCMAKE_CXX_COMPILER=clang++ >/dev/null
	cmake --build build/fuzz -j $(JOBS)
	build/fuzz/malformed_test
	JOBS=$(JOBS) tests/fuzz/run.sh build/fuzz $(FUZZ_SECONDS) $(TARGETS)

portable: packages
	$(CONFIGURE) -B build/portable -DHEED_PORTABLE_ONLY=ON -DHEED_BUILD_TESTS=ON -DHEED_BUILD_EXAMPLES=OFF >/dev/null
	cmake --build build/portable -j $(JOBS)
	cd build/portable && $(CTEST) -E '^(distributed|serve)[.]|^attention[.]across'

neon:
	tools/test_neon.sh

format:
	git ls-files '*.cc' '*.h' | xargs clang-format -i

tidy:
	@tools/install_packages.sh tidy
	@$(CONFIGURE) -B build/tidy -DHEED_PRECOMPILED_HEADERS=OFF -DHEED_UNITY_BUILD=OFF -DHEED_BUILD_PYTHON=ON $(BENCH) $(PYTHON) >/dev/null
	@tools/tidy.sh build/tidy $(JOBS) $(FILES)

together:
	@tools/install_packages.sh
	@$(CONFIGURE) -B build/together -DHEED_PRECOMPILED_HEADERS=OFF -DHEED_UNITY_BUILD=OFF -DHEED_BUILD_TESTS=ON \
	  -DHEED_BUILD_EXAMPLES=ON -DHEED_BUILD_PYTHON=ON $(BENCH) $(PYTHON) >/dev/null
	@tools/check_together.py build/together

clean:
	rm -rf build
