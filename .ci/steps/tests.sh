# shellcheck shell=bash disable=SC2154
# Tests, in their forms. A part of `.ci/run`.

step_test() { # Runs the tests, over the software transport and every software provider. Among all steps, programs that the compiler refuses every sixth day
    libfabric
    local docs log said failed= left=() without=()
    if [ -n "$EVERYTHING" ]; then
        # Separate steps run `fault_injection` and `no_alloc`.
        without=(--without fault_injection,no_alloc)
        has_its_turn 1 of 6 || { left=(-- --skip refusals::); skip "programs that the compiler refuses: they have their turn on other days"; }
    fi
    log=$(mktemp)
    # In parallel, because most of the time is spent on building.
    tested cargo test --locked --workspace --features "$FEATURES" --doc >"$log" 2>&1 &
    docs=$!
    (programs "${without[@]}" cargo test --locked --workspace --features "$FEATURES" "${left[@]}") || failed="the test programs"
    patiently "the programs of the documentation" wait "$docs" || failed+=" the programs of the documentation"
    cat "$log"
    rm "$log"
    [ -z "$failed" ] || die "$failed"
    said=$(cargo test --locked --workspace --features "$FEATURES" --test allocators userfaultfd -- --nocapture 2>&1) ||
        die "$said"
    if grep -q "skipped: userfaultfd" <<<"$said"; then skip "tests of userfaultfd, which this system does not allow"; fi
}

step_newer() { # Runs the tests over libfabric again, with libfabric 2.5.1 at run time
    libfabric
    local folder
    folder=$(newer_libfabric)
    [ -n "$folder" ] || die "there is no libfabric.so.1 in the wheel"
    # With the features of the step `test`, which has built these programs already.
    LD_LIBRARY_PATH=$folder programs cargo test --locked --workspace --features "$FEATURES" "${LIBFABRIC_TESTS[@]}"
    # The same programs without a library, over the transports in Rust, with shared memory.
    local command=(cargo test --locked --workspace --features "$FEATURES" --test providers)
    LOOM_SHARED=65536 LOOM_LIBFABRIC=/without/libfabric.so.1 programs "${command[@]}" --test no_alloc
    fails_with "TcpAttr::shared_memory" env LOOM_SHARED=1 "${command[@]}" -- transports::loom-tcp::a_peek_finds
    # The control: trials of loom-tcp, without trials of libfabric's providers.
    local trials
    trials=$(LOOM_LIBFABRIC=/without/libfabric.so.1 cargo test --locked --workspace --features "$FEATURES" --test providers -- --list)
    [[ $trials == *::loom-tcp::* && $trials != *::shm::* ]] || die "the trials without a library are others: $trials"
    has_its_turn 1 of 6 || { skip "allocations over libfabric 2.5.1: they have their turn on other days"; return 0; }
    LD_LIBRARY_PATH=$folder programs cargo test --locked --workspace --features "$FEATURES" --test no_alloc
}

step_tls() { # Tests loom-tcp with TLS, and behaviours and allocations over it. Those, among all steps, every third day
    libfabric
    cargo clippy --locked --quiet -p loom-fabric-tcp --all-targets --features tls -- -D warnings
    tested cargo test --locked -p loom-fabric-tcp --features tls
    has_its_turn 2 of 3 || { skip "behaviours and allocations over TLS: they have their turn on other days"; return 0; }
    local command=(cargo test --locked --workspace --features "$FEATURES,loom-fabric-test-support/tls")
    programs "${command[@]}" --test providers -- loom-tcp
    LOOM_LIBFABRIC=/without/libfabric.so.1 programs "${command[@]}" --test no_alloc
    # The control: connections require a good certificate.
    fails_with "EKEYREJECTED" env LOOM_EXPIRED=1 "${command[@]}" --test providers -- connected::loom-tcp::closing_reaches_the_peer
}

step_untested() { # Runs the tests over libfabric with every provider treated as untested, over both versions. Among all steps, one version every sixth day
    has_its_turn 1 of 6 || { skip "libfabric as untested: it has its turn on other days"; return 0; }
    libfabric
    local folder said versions
    versions=("" "$(newer_libfabric)")
    [ -n "${versions[1]}" ] || die "there is no libfabric.so.1 in the wheel"
    if [ -n "$EVERYTHING" ]; then
        versions=("${versions[DAY / 6 % 2]}")
        skip "one version of libfabric as untested: the other one has its turn on other days"
    fi
    for folder in "${versions[@]}"; do
        LOOM_UNTESTED=1 LD_LIBRARY_PATH=$folder programs cargo test --locked --workspace --features "$FEATURES" \
            "${LIBFABRIC_TESTS[@]}" --test no_alloc
    done
    # The control: without the variable some provider counts as tested.
    examples_and_command
    local info=("$COMMAND" info --provider shm)
    said=$(LOOM_UNTESTED=1 "${info[@]}") || die "info"
    [[ $said == *shm*"Not tested"* ]] || die "shm counts as tested: $said"
    said=$("${info[@]}") || die "info"
    [[ $said == *shm* && $said != *"Not tested"* ]] || die "shm does not count as tested: $said"
}

step_strict() { # Runs the examples and the programs of the documentation over a strict software network, with a control. Among all steps, the latter every sixth day
    libfabric
    examples_and_command
    local docs=(env LOOM_STRICT=1 timeout 600 cargo test --locked --workspace --features "$FEATURES" --doc --)
    (
        export LOOM_STRICT=1
        "$EXAMPLES/hello"
        "$EXAMPLES/framed"
        "$EXAMPLES/arena"
        "$EXAMPLES/embedded_runtime" --seconds 1
        timeout 120 "$PINGPONG"
        "$COMMAND" pingpong --sizes 1,64,65536 --iterations 200
        "$COMMAND" pingpong --sizes 1,64,65536 --iterations 200 --threads 1
        tested timeout 600 cargo test --locked --workspace --features "$FEATURES" --test layers -- echo_server::clients_over_soft
        tested timeout 600 cargo test --locked --workspace --features "$FEATURES" --example kv
    )
    has_its_turn 5 of 6 || { skip "documentation over a strict network: it has its turn on other days"; return 0; }
    # These require features that a strict network lacks. Two of them post without a retry.
    tested "${docs[@]}" --skip tagged_peek --skip op_table::peek --skip multi_recv --skip completion::Piece --skip send_unsignaled --skip layers/group/src/lib.rs --skip layers/group/src/../README.md --skip 'A>::tagged_send' \
        --skip layers/tagged/src/lib.rs --skip layers/tagged/src/../README.md --skip carrier::WithPeer --skip endpoint::TaggedEndpoint --skip layers/tagged/src/operation.rs \
        --skip 'layers/updates/src/lib.rs - (line' --skip layers/updates/src/../README.md \
        --skip src/tokio --skip finish::FinishPeek --skip kind::Peeks --skip requirement::MultiRecvs
    fails_with "Error: Again" "${docs[@]}" tagged_peek
}

step_fault_injection() { # Tests the behaviours under every fault of the software transport, with a tenth of 200 seeds, and a control
    libfabric
    # Built like the step `allocations`.
    local run=(cargo test --locked --release --features libfabric --test fault_injection)
    tested "${run[@]}"
    fails_with "a fault was not injected" env LOOM_FAULT=none LOOM_SEEDS=1 "${run[@]}"
}

step_allocations() { # Tests allocations in the release profile, with controls
    libfabric
    tested cargo test --locked --release --features libfabric --test no_alloc
}

step_replay() { # Replays the fuzz targets' seeds and regressions, on stable
    CARGO_TARGET_DIR=$PWD/target/fuzz-replay tested cargo test --locked --manifest-path fuzz/Cargo.toml
}

step_model() { # Checks the lock-free parts with the model checker loom, with controls in the models. Among all steps, every sixth day
    has_its_turn 3 of 6 || { skip "the model checker: it has its turn on other days"; return 0; }
    # Only the checker, which takes most of the time, is optimised.
    RUSTFLAGS="--cfg loom_model" CARGO_TARGET_DIR=$PWD/target/model tested cargo test --locked \
        --config 'profile.dev.package.loom.opt-level=3' --config 'profile.dev.package.generator.opt-level=3' \
        -p loom-fabric-core -p loom-fabric-alloc -p loom-fabric-async -p loom-fabric-transfer --features loom-fabric-transfer/std --lib model
}

step_quick() { # For use between edits, by name only: format, lints, feature sets, the core, the allocators, and the behaviours over soft and shm
    libfabric
    step_format
    step_prose
    step_module_order
    step_features
    cargo clippy --locked --workspace --all-targets --features "$FEATURES" -- -D warnings
    local tests=(cargo test --locked --workspace --features "$FEATURES")
    programs "${tests[@]}" --lib --test it --test allocators -- --skip refusals::
    programs "${tests[@]}" --test providers -- transports::soft::
    programs "${tests[@]}" --test providers -- transports::shm::
}
