# shellcheck shell=bash disable=SC2154
# Sanitizers and fuzzing. A part of `.ci/run`.

step_fuzz() { # every fuzz target for a short while, with AddressSanitizer, and a planted bug as control, another one each day
    nightly || { skip "no nightly toolchain"; return 0; }
    packages g++
    cargo_tool cargo-fuzz 0.13.2
    # Beside each other: most of both is building what cannot be split.
    local log plant
    log=$(mktemp)
    fuzz/campaign plant >"$log" 2>&1 &
    plant=$!
    fuzz/campaign check 20
    wait "$plant" || { cat "$log"; die "the control"; }
    cat "$log"
    rm -f "$log"
}

step_asan() { # AddressSanitizer over the tests, with a planted fault as control; among all steps over libfabric's providers every other day
    nightly || { skip "no nightly toolchain"; return 0; }
    libfabric
    # Leaks are not looked for: some tests forget handles on purpose, and libfabric keeps pools.
    # Copies of exposed memory as a loop of atomic bytes: assembly is not seen.
    export RUSTFLAGS="-Zsanitizer=address --cfg loom_byte_copies" ASAN_OPTIONS=detect_leaks=0 CARGO_TARGET_DIR=$PWD/target/asan
    local tests=(cargo +nightly test --locked --target "$TARGET" --workspace --features "$FEATURES")
    # The walks over every sequence are left to the step `test`, random ones to the step `fuzz`: it plays the same worlds. So is
    # what only counts: bytes, credits, places of addresses. The sanitizer has an `mlock` of its own, which locks nothing.
    programs "${tests[@]}" --lib --test it --test layers --test allocators --test runtime \
        --test groups -- --skip refusals:: --skip echo_server:: --skip every_sequence --skip teams_run --skip group_of_1000 --skip random:: --skip locked_memory_is_locked_or_refused \
        --skip memory:: --skip credit_always_comes_back --skip ordinary_addresses_are_found --skip handles_of_another_table \
        --skip every_operation_brings --skip schedules:: --skip iovecs::threads --skip atomics:: --skip peer_counters:: --skip sleeping:: --skip work_table::
    programs "${tests[@]}" --test libfabric -- groups:: group_connections::
    if [ -n "$EVERYTHING" ] && ((DAY % 2 == 0)); then
        skip "AddressSanitizer over libfabric's providers: it is valgrind's day"
    else
        asan_over_libfabric "${tests[@]}"
    fi
    # One seed, another one each day.
    LOOM_SEED=$((1 + DAY % 199)) tested "${tests[@]}" --test fault_injection
    local plant
    for plant in plants_a_use_after_free plants_a_write_from_freed_memory; do
        fails_with "AddressSanitizer: heap-use-after-free" "${tests[@]}" --test workspace -- --ignored "$plant"
    done
}

# Parts of the program `providers` that check processes, hosts and runtimes.
NOT_OF_OBJECTS=(--skip process_death:: --skip hosts:: --skip async_over_providers:: --skip async_descriptors:: --skip forked_children::)

asan_over_libfabric() {
    # Other allocators than the global one are none of the sanitizer's, and some providers show it nothing that others do not. The
    # programs that are not here run under valgrind.
    programs "$@" --test libfabric -- raw:: regions:: shm_processes::
    programs "$@" --test providers -- "${NOT_OF_OBJECTS[@]}" --skip collectives:: --skip multicast:: \
        --skip soft-static-arena --skip soft-pools --skip soft-bumpalo --skip net:: --skip udp:: --skip sockets-dgram::
}

# The program of a test, which valgrind runs itself.
test_program() {
    cargo test --locked --quiet --no-run --workspace --features "$FEATURES" --test "$1" --message-format json |
        python3 -c 'import json, sys
print(*{m["executable"] for m in map(json.loads, sys.stdin) if m.get("executable")})'
}

# What a test program does under valgrind, which sees what libfabric reads and writes, too: no invalid access.
under_valgrind() {
    timeout 600 valgrind --quiet --error-exitcode=9 --fair-sched=yes --suppressions=.ci/valgrind.supp "$@" --test-threads 1
}

step_valgrind() { # closing and forgetting under valgrind, over every provider of both versions, with a planted fault as control; among all steps one version every other day
    libfabric
    packages valgrind python3
    if [ -n "$EVERYTHING" ] && ((DAY % 2)); then
        skip "valgrind: it is AddressSanitizer's day"
        return 0
    fi
    local name folder controls versions others
    local -A programs
    for name in providers libfabric workspace; do
        programs[$name]=$(test_program "$name")
    done
    controls=${programs[workspace]}
    versions=("" "$(newer_libfabric)")
    # Those that go through every moment of long transfers are left to AddressSanitizer.
    local short=(--skip threads_close --skip closing_in_the_middle --skip closed_in_the_middle_of_a_message --skip closed_in_the_middle_of_writes)
    if [ -n "$EVERYTHING" ]; then
        versions=("${versions[DAY / 2 % 2]}")
        skip "one version of libfabric under valgrind: the other one has its turn on other days"
    fi
    for folder in "${versions[@]}"; do
        for name in clos forgotten; do
            LD_LIBRARY_PATH=$folder tested under_valgrind "${programs[providers]}" "$name" "${short[@]}" "${NOT_OF_OBJECTS[@]}" \
                --skip connected:: --skip scalable:: --skip collectives:: --skip multicast::
        done
    done &
    others=$!
    for folder in "${versions[@]}"; do
        for name in collectives:: multicast::; do
            LD_LIBRARY_PATH=$folder tested under_valgrind "${programs[providers]}" "$name"
        done
        LD_LIBRARY_PATH=$folder tested under_valgrind "${programs[libfabric]}" counters:: device::
        for name in clos forgotten; do
            LD_LIBRARY_PATH=$folder tested under_valgrind "${programs[providers]}" "$name" "${short[@]}" "${NOT_OF_OBJECTS[@]}" \
                --skip shared:: --skip a_thread_closes --skip transports:: --skip collectives:: --skip multicast::
        done
    done
    tested under_valgrind "${programs[libfabric]}" raw:: --skip bytes_move_at_the_shared_level
    wait "$others" || die "under valgrind"
    fails_with "Invalid read" under_valgrind "$controls" --ignored plants_a_use_after_free
    # In a provider, which is not instrumented, as the tests of closing orders would.
    local faults fault
    faults=$(mktemp)
    gcc -O1 -o "$faults" tests/faults/faults.c -lfabric
    for fault in rxm rxd; do
        fails_with "Invalid read" timeout 600 valgrind --quiet "$faults" "$fault-sleep-after-an-endpoint-was-closed-crashes"
    done
    rm -f "$faults"
}

step_tsan() { # ThreadSanitizer over the threaded tests of the software transport, with a planted race as control
    nightly || { skip "no nightly toolchain"; return 0; }
    # Copies of exposed memory as a loop of atomic bytes: assembly is not seen.
    export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg loom_byte_copies" CARGO_TARGET_DIR=$PWD/target/tsan
    export TSAN_OPTIONS="suppressions=$PWD/.ci/tsan.supp halt_on_error=1"
    local tests=(cargo +nightly test --locked --target "$TARGET" --workspace --features loom-fabric-core/std,loom-fabric-async/std,loom-fabric-group/std,loom-fabric-tagged/std)
    # Not over tokio: its queues are synchronised by std's locks, which are not instrumented.
    programs "${tests[@]}" --lib --test providers --test it --test allocators --test layers --test runtime --test groups \
        -- thread --skip tokio:: --skip refusals::
    # One at a time: threads that the test program itself has waited for look like a race with whatever uses their memory next.
    tested "${tests[@]}" --test it -- peer_table:: regions:: --skip every_sequence --skip handles_of_another_table \
        --test-threads 1
    # Faults between threads, and a check that there are some.
    local fault
    for fault in delay fail kill; do
        LOOM_FAULT=$fault LOOM_SEEDS=2 tested "${tests[@]}" --test fault_injection -- thread --test-threads 1
    done
    fails_with "ThreadSanitizer: data race" "${tests[@]}" --test workspace -- --ignored plants_a_data_race
}
