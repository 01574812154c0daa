# shellcheck shell=bash disable=SC2154
# Sanitizers and fuzzing. A part of `.ci/run`.

step_fuzz() { # Runs every fuzz target briefly with AddressSanitizer, with a planted bug as control, another one each time. Among all steps, every sixth day
    has_its_turn 0 of 6 || { skip "fuzzing: it has its turn on other days"; return 0; }
    nightly || { skip "no nightly toolchain"; return 0; }
    packages g++
    cargo_tool cargo-fuzz 0.13.2
    # In parallel, because most of both is a build that does not scale.
    local log plant
    log=$(mktemp)
    fuzz/campaign plant >"$log" 2>&1 &
    plant=$!
    fuzz/campaign check 20
    wait "$plant" || { cat "$log"; die "the control"; }
    cat "$log"
    rm -f "$log"
}

step_asan() { # Runs the tests with AddressSanitizer, with a planted fault as control. Among all steps, a third of them every sixth day
    has_its_turn 2 of 6 || { skip "AddressSanitizer: it has its turn on other days"; return 0; }
    local DAY=$((DAY / 6))
    nightly || { skip "no nightly toolchain"; return 0; }
    libfabric
    # Without a search for leaks: some tests forget handles on purpose, and libfabric keeps pools.
    # Copies of exposed memory are a loop of atomic bytes, because assembly is not instrumented.
    export RUSTFLAGS="-Zsanitizer=address --cfg loom_byte_copies" ASAN_OPTIONS=detect_leaks=0 CARGO_TARGET_DIR=$PWD/target/asan
    local tests=(cargo +nightly test --locked --target "$TARGET" --workspace --features "$FEATURES")
    [ -z "$EVERYTHING" ] || skip "AddressSanitizer over two thirds of the tests: they have their turn on other days"
    # The step `test` walks over every sequence, and the step `fuzz` plays random ones in the same
    # worlds. Tests that only count (bytes, credits, slots of addresses) are omitted, too. The
    # sanitizer has its own `mlock`, which locks no memory.
    local left=(--skip refusals:: --skip echo_server:: --skip every_sequence --skip teams_run --skip group_of_1000 --skip random:: --skip locked_memory_is_locked_or_refused
        --skip memory:: --skip credit_always_comes_back --skip ordinary_addresses_are_found --skip handles_of_another_table
        --skip every_operation_brings --skip schedules:: --skip iovecs::threads --skip atomics:: --skip peer_counters:: --skip sleeping:: --skip work_table::)
    if has_its_turn 0 of 3; then
        programs "${tests[@]}" --lib --test it -- "${left[@]}"
    fi
    if has_its_turn 1 of 3; then
        programs "${tests[@]}" --test layers --test allocators --test runtime --test groups -- "${left[@]}"
        programs "${tests[@]}" --test libfabric -- groups:: group_connections::
        # One seed, another one each day.
        LOOM_SEED=$((1 + DAY % 199)) tested "${tests[@]}" --test fault_injection
    fi
    if has_its_turn 2 of 3; then
        # The sanitizer does not see other allocators than the global one, and some providers show
        # it no more than others do. Valgrind runs the omitted programs.
        programs "${tests[@]}" --test libfabric -- raw:: regions:: shm_processes::
        programs "${tests[@]}" --test providers -- "${NOT_OF_OBJECTS[@]}" --skip collectives:: --skip multicast:: \
            --skip soft-static-arena --skip soft-pools --skip soft-bumpalo --skip net:: --skip udp:: --skip sockets-dgram::
    fi
    local plant
    for plant in plants_a_use_after_free plants_a_write_from_freed_memory; do
        fails_with "AddressSanitizer: heap-use-after-free" "${tests[@]}" --test workspace -- --ignored "$plant"
    done
}

# Parts of the program `providers` that check processes, hosts and runtimes.
NOT_OF_OBJECTS=(--skip process_death:: --skip hosts:: --skip async_over_providers:: --skip async_descriptors:: --skip forked_children::)

# Prints the path of a test program, for valgrind.
test_program() {
    cargo test --locked --quiet --no-run --workspace --features "$FEATURES" --test "$1" --message-format json |
        python3 -c 'import json, sys
print(*{m["executable"] for m in map(json.loads, sys.stdin) if m.get("executable")})'
}

# Runs a test program under valgrind, which also sees accesses by libfabric, without an invalid
# access. A search for leaks at the end would take longer than the tests.
under_valgrind() {
    timeout 600 valgrind --quiet --leak-check=no --error-exitcode=9 --fair-sched=yes --suppressions=.ci/valgrind.supp "$@" --test-threads 1
}

# Three parts of the providers, by their names in tests.
PROVIDER_PARTS=("::soft ::strict:: ::shm:: ::sm2:: ::net::" "::tcp" "::sockets ::udp scalable::")

step_valgrind() { # Tests closing and forgetting under valgrind, over every provider of both versions, with a planted fault as control. Among all steps, over a third of them with one version each day
    libfabric
    packages valgrind python3
    local name folder controls versions others
    local -A programs
    for name in providers libfabric workspace; do
        programs[$name]=$(test_program "$name")
    done
    controls=${programs[workspace]}
    versions=("" "$(newer_libfabric)")
    # AddressSanitizer runs the tests that stop at every moment of long transfers, and those of
    # forms of the software network.
    local left=(--skip threads_close --skip closing_in_the_middle --skip closed_in_the_middle_of_a_message --skip closed_in_the_middle_of_messages
        --skip closed_in_the_middle_of_writes --skip shared:: --skip a_thread_closes --skip soft-asking:: --skip soft-lanes:: --skip collectives:: --skip multicast:: "${NOT_OF_OBJECTS[@]}")
    local part of_another_part
    if [ -n "$EVERYTHING" ]; then
        versions=("${versions[DAY / 3 % 2]}")
        for part in 0 1 2; do
            has_its_turn "$part" of 3 && continue
            for of_another_part in ${PROVIDER_PARTS[part]}; do left+=(--skip "$of_another_part"); done
        done
        skip "valgrind over one version of libfabric, and two thirds of its providers: they have their turn on other days"
    fi
    for folder in "${versions[@]}"; do
        LD_LIBRARY_PATH=$folder tested under_valgrind "${programs[providers]}" clos "${left[@]}"
    done &
    others=$!
    for folder in "${versions[@]}"; do
        LD_LIBRARY_PATH=$folder tested under_valgrind "${programs[providers]}" forgotten "${left[@]}" --skip clos
        if has_its_turn 0 of 3; then LD_LIBRARY_PATH=$folder tested under_valgrind "${programs[providers]}" multicast::; fi
        if has_its_turn 1 of 3; then LD_LIBRARY_PATH=$folder tested under_valgrind "${programs[providers]}" collectives::; fi
        if has_its_turn 2 of 3; then LD_LIBRARY_PATH=$folder tested under_valgrind "${programs[libfabric]}" counters:: device::; fi
    done
    if has_its_turn 1 of 3; then tested under_valgrind "${programs[libfabric]}" raw:: --skip bytes_move_at_the_shared_level; fi
    wait "$others" || die "under valgrind"
    fails_with "Invalid read" under_valgrind "$controls" --ignored plants_a_use_after_free
    # In a provider, which is not instrumented, as in the tests of closing orders.
    local faults fault
    faults=$(mktemp)
    gcc -O1 -o "$faults" tests/provider_faults/faults.c -lfabric
    for fault in rxm rxd; do
        fails_with "Invalid read" timeout 600 valgrind --quiet "$faults" "$fault-sleep-after-an-endpoint-was-closed-crashes"
    done
    rm -f "$faults"
}

step_tsan() { # Runs the threaded tests of the software transport with ThreadSanitizer, with a planted race as control. Among all steps, every sixth day
    has_its_turn 4 of 6 || { skip "ThreadSanitizer: it has its turn on other days"; return 0; }
    nightly || { skip "no nightly toolchain"; return 0; }
    # Copies of exposed memory are a loop of atomic bytes, because assembly is not instrumented.
    export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg loom_byte_copies" CARGO_TARGET_DIR=$PWD/target/tsan
    export TSAN_OPTIONS="suppressions=$PWD/.ci/tsan.supp halt_on_error=1"
    local tests=(cargo +nightly test --locked --target "$TARGET" --workspace --features loom-fabric-core/std,loom-fabric-async/std,loom-fabric-group/std,loom-fabric-tagged/std)
    # Not over tokio: std's locks, which are not instrumented, synchronise its queues.
    programs "${tests[@]}" --lib --test providers --test it --test allocators --test layers --test runtime --test groups \
        -- thread --skip tokio:: --skip refusals::
    # One at a time: threads joined by the test program itself appear to race with the next user of
    # their memory.
    tested "${tests[@]}" --test it -- peer_table:: regions:: --skip every_sequence --skip handles_of_another_table \
        --test-threads 1
    # Faults between threads, with a check that faults occur.
    local fault
    for fault in delay fail kill; do
        LOOM_FAULT=$fault LOOM_SEEDS=2 tested "${tests[@]}" --test fault_injection -- thread --test-threads 1
    done
    fails_with "ThreadSanitizer: data race" "${tests[@]}" --test workspace -- --ignored plants_a_data_race
}
