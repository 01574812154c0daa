# shellcheck shell=bash disable=SC2154
# Formatting, lints, documentation, packages, and builds. A part of `.ci/run`.

# Succeeds if a workflow for hosted runners calls exactly the existing steps.
workflow_has_steps() {
    local called different
    called=$(sed -n 's/^ *step: \[\(.*\)\]$/\1/p' "$1" | tr -d ' ' | tr , '\n')
    different=$(comm -3 <(printf '%s\n' semver "${STEPS[@]}" | sort -u) <(sort -u <<<"$called") | xargs)
    [ -z "$different" ] || { echo "in the workflow alone, or in .ci/run alone: $different"; return 1; }
}

step_prose() { # Checks that habits of prose in comments and pages are within their budgets, with a control
    command -v python3 >/dev/null || packages python3
    .ci/prose.py
    fails_with "over its budget" .ci/prose.py --plant
}

step_format() { # Checks formatting, that planted bugs apply, and that the hosted workflow calls every step, with a control
    workflow_has_steps .github/workflows/ci.yml
    fails_with "alone: planted tsan" workflow_has_steps <(sed 's/\btsan\b/planted/' .github/workflows/ci.yml)
    cargo fmt --all --check
    cargo fmt --manifest-path fuzz/Cargo.toml --check
    cargo fmt --manifest-path benches/Cargo.toml --check
    cargo fmt --manifest-path examples/freestanding/Cargo.toml --check
    # Detects changed code around a planted bug here, instead of after an hour.
    local patch
    for patch in fuzz/plants/*.patch; do git apply --check "$patch" || die "$patch does not apply"; done
}

step_module_order() { # Checks the dependencies between modules of the core for circles and order, with controls
    command -v python3 >/dev/null || packages python3
    .ci/module_order
    fails_with "a circle: soft -> atomic -> buffer -> soft" .ci/module_order --plant
    fails_with "buffer/mod.rs uses any_error, which stands below it" .ci/module_order --plant
    fails_with "buffer/mod.rs uses soft, which stands below it" .ci/module_order --plant
    fails_with "soft/network/mod.rs uses delivery, which stands below it" .ci/module_order --plant
    fails_with "soft/delivery/send.rs uses receive, which stands below it" .ci/module_order --plant
    fails_with "transport/fabric.rs uses endpoint, which stands below it" .ci/module_order --plant
}

step_clippy() { # Runs clippy, with warnings as errors. Among all steps, each package outside of the workspace every third day
    linked_libfabric
    cargo clippy --locked --workspace --all-targets --features "$FEATURES" -- -D warnings
    # Without libfabric, which the command always has, and then linked with it.
    cargo clippy --locked --workspace --exclude loom-fabric-cli -- -D warnings
    [ -z "$EVERYTHING" ] || skip "lints of two thirds of the packages outside of the workspace: they have their turn on other days"
    if has_its_turn 0 of 3; then
        cargo clippy --locked --features libfabric-linked --target-dir target/linked -- -D warnings
        CARGO_TARGET_DIR=$PWD/target/freestanding \
            cargo clippy --locked --manifest-path examples/freestanding/Cargo.toml --target "$TARGET" -- -D warnings
    fi
    if has_its_turn 1 of 3; then
        cargo clippy --locked --manifest-path benches/Cargo.toml --target-dir target/benches --all-targets -- -D warnings
        cargo clippy --locked --manifest-path benches/Cargo.toml --target-dir target/benches --no-default-features -- -D warnings
    fi
    if has_its_turn 2 of 3; then cargo clippy --locked --manifest-path fuzz/Cargo.toml --all-targets -- -D warnings; fi
}

step_docs() { # Runs rustdoc without a libfabric, with warnings as errors, and checks that items without an example do not increase, with a control. Among all steps, a third of the packages alone each day
    # Like docs.rs.
    DOCS_RS=1 PKG_CONFIG=/bin/false LIBCLANG_PATH=/nonexistent RUSTDOCFLAGS="-D warnings" \
        cargo doc --locked --workspace --no-deps --all-features --target-dir target/linked
    [ -e target/linked/doc/loom_fabric/ofi/index.html ] || die "the module ofi is not documented"
    local package number=0
    [ -z "$EVERYTHING" ] || skip "the documentation of two thirds of the packages by themselves: they have their turn on other days"
    for package in loom-fabric loom-fabric-core loom-fabric-alloc loom-fabric-async loom-fabric-deferred loom-fabric-group loom-fabric-media loom-fabric-static loom-fabric-tagged loom-fabric-tcp loom-fabric-transfer loom-fabric-updates; do
        number=$((number + 1))
        has_its_turn $((number % 3)) of 3 || continue
        RUSTDOCFLAGS="-D warnings" cargo doc --locked --quiet -p "$package" --no-deps --no-default-features
    done
    nightly || { skip "items without an example: no nightly toolchain"; return 0; }
    # With the features of items, like docs.rs.
    RUSTDOCFLAGS="-D warnings --cfg docsrs" cargo +nightly doc --locked --quiet -p loom-fabric-alloc --no-deps --all-features --target-dir target/docsrs
    grep -q 'Available on.*<code>os</code>' target/docsrs/doc/loom_alloc/os/index.html || die "items lack their features"
    command -v python3 >/dev/null || packages python3
    .ci/examples
}

# Prints the declarations of this machine's headers, without the exported functions, which
# `ofi::Library` finds.
bindings() {
    rm -rf target/linked/debug/build/loom-fabric-*
    cargo check --locked --quiet --features libfabric-linked --target-dir target/linked >&2 || return
    sed -E 's/unsafe extern "C" \{[^}]*\}//g' target/linked/debug/build/loom-fabric-*/out/libfabric.rs
}

step_bindings() { # Makes bindings/libfabric-1.17.rs from the headers of libfabric 1.17. By name only
    linked_libfabric
    [ "$(pkg-config --modversion libfabric)" = 1.17.0 ] || die "these are not the headers of libfabric 1.17"
    bindings >bindings/new && mv bindings/new bindings/libfabric-1.17.rs
}

step_packages() { # Checks that every package is complete and that the declarations match the headers, with controls
    linked_libfabric
    command -v python3 >/dev/null || packages python3
    local folder=$PWD/target/packages wanted verified=()
    # Cargo would reuse packages of the same version that were compiled before.
    rm -rf "$folder/package" "$folder/publish"
    # In a run of all steps, features has built each alone.
    [ -z "$EVERYTHING" ] || verified=(--no-verify)
    cargo package --workspace --exclude loom-fabric-test-support --exclude pingpong --no-verify --locked --allow-dirty --target-dir "$folder"
    cargo publish --workspace --dry-run "${verified[@]}" --locked --allow-dirty --target-dir "$folder/publish"
    .ci/packages "$folder/package"
    fails_with "loom-fabric-core: PLANTED is not in the package" .ci/packages --plant "$folder/package"
    if [ "$(pkg-config --modversion libfabric)" = 1.17.0 ]; then
        cmp <(bindings) bindings/libfabric-1.17.rs || die ".ci/run bindings"
        # Also of the other processor, with its C library.
        packages libc6-dev-arm64-cross
        local -x BINDGEN_EXTRA_CLANG_ARGS="--target=aarch64-linux-gnu -isystem /usr/aarch64-linux-gnu/include"
        cmp <(bindings) bindings/libfabric-1.17.rs || die "the declarations of aarch64 are others"
        BINDGEN_EXTRA_CLANG_ARGS+=" -include PLANTED.h"
        fails_with PLANTED.h bindings
    else
        skip "comparing bindings/libfabric-1.17.rs, which needs the headers of libfabric 1.17"
    fi
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    if rustc "+$wanted" --version >/dev/null 2>&1; then
        cargo "+$wanted" check --locked --workspace --features "$FEATURES" --target-dir "$folder/oldest"
    elif [[ $(rustc --version) != "rustc $wanted."* ]]; then
        skip "the oldest Rust, $wanted, which is not installed"
    fi
}

step_deny() { # Checks licences, sources and duplicates of the dependencies of users (deny.toml), and security advisories if available, with controls
    local deny planted
    cargo_tool cargo-deny 0.20.2
    deny=("$TOOLS/bin/cargo-deny" --locked --workspace)
    "${deny[@]}" check bans licenses sources
    if "${deny[@]}" fetch db >/dev/null 2>&1; then
        "${deny[@]}" check --disable-fetch advisories
    else
        skip "advisories, whose database cannot be had"
    fi
    planted=$(mktemp --suffix .toml)
    sed 's/"MIT", //; s/crates.io-index/planted/; /crate = "allocator-api2"/d' deny.toml >"$planted"
    deny+=(--config "$planted" check)
    fails_with "error[rejected]" "${deny[@]}" licenses
    fails_with "error[source-not-allowed]" "${deny[@]}" sources
    # Only one of the packages has it twice.
    fails_with "error[duplicate]" "${deny[@]}" bans
    rm "$planted"
}

step_semver() { # Checks public names against the newest release and the version, with a control. By name only
    linked_libfabric
    local semver release planted
    cargo_tool cargo-semver-checks 0.51.0
    semver=("$TOOLS/bin/cargo-semver-checks" semver-checks)
    release=$(git tag --list 'v*' --sort=-version:refname --merged | head -1)
    [ -n "$release" ] || { skip "there is no release yet: compared with HEAD"; release=HEAD; }
    "${semver[@]}" --workspace --all-features --baseline-rev "$release"
    planted=$(mktemp -d)
    git clone --quiet . "$planted"
    sed -i '/^pub use ownership::Owns;/d' "$planted/loom-alloc/src/lib.rs"
    fails_with "trait loom_alloc::Owns, previously in" "${semver[@]}" --manifest-path "$planted/loom-alloc/Cargo.toml" --baseline-root .
    rm -rf "$planted"
}

step_features() { # Builds every set of features, and checks the dependencies of the core. Among all steps, a third of the sets each day
    linked_libfabric
    local package sets features targets number=0
    [ -z "$EVERYTHING" ] || skip "two thirds of the sets of features: they have their turn on other days"
    # A program with loom alone: every target of the repository's package without libfabric.
    cargo check --locked --quiet --all-targets
    while read -r package sets; do
        # The core's tests must build, too.
        targets=()
        [ "$package" != loom-fabric-core ] || targets=(--all-targets)
        for features in "" $sets; do
            number=$((number + 1))
            has_its_turn $((number % 3)) of 3 || continue
            echo "$package: [$features]"
            cargo check --locked --quiet "${targets[@]}" -p "$package" --no-default-features --features "$features"
        done
    done <<'SETS'
loom-fabric std libfabric tcp log,serde std,libfabric,log,serde,tcp libfabric-linked
loom-fabric-core std log serde std,log,serde
loom-fabric-alloc allocator-api2-02 os bytes bytemuck
loom-fabric-async std tokio
loom-fabric-deferred std
loom-fabric-group std pmi
loom-fabric-media std mxl
loom-fabric-static std
loom-fabric-tagged std serde
loom-fabric-tcp std
loom-fabric-transfer std
loom-fabric-updates std
SETS
    local tree crates
    # With libfabric, but without its headers, pkg-config and libclang.
    PKG_CONFIG=/bin/false LIBCLANG_PATH=/nonexistent cargo build --locked --quiet --features libfabric --target-dir target/bare
    crates=$(cargo tree --locked -e normal,build --features libfabric --prefix none | awk '{ print $1 }' | sort -u | wc -l)
    [ "$crates" -le 12 ] || die "loom with libfabric has $crates crates"
    fails_with "needs libfabric" env PKG_CONFIG=/bin/false cargo check --locked --features libfabric-linked --target-dir target/bare
    tree=$(cargo tree --locked -e normal -p loom-fabric-core --prefix none --no-dedupe | awk '{ print $1 }' | sort -u | tr '\n' ' ')
    echo "loom-fabric-core depends on: $tree"
    [ "$tree" = "allocator-api2 bitflags byteorder hash32 heapless loom-fabric-core spin stable_deref_trait " ] ||
        die "the core's dependencies have changed"
    tree=$(cargo tree --locked -e normal,no-proc-macro -p loom-fabric-tcp --prefix none --no-dedupe | awk '{ print $1 }' | sort -u | tr '\n' ' ')
    echo "loom-fabric-tcp depends on: $tree"
    [ "$tree" = "allocator-api2 bitflags byteorder hash32 heapless linux-raw-sys loom-fabric-core loom-fabric-tcp rustix spin stable_deref_trait " ] ||
        die "the dependencies of loom-fabric-tcp have changed"
    tree=$(cargo tree --locked -e normal,no-proc-macro -p loom-fabric-core --features log,serde --prefix none --no-dedupe |
        awk '{ print $1 }' | sort -u | tr '\n' ' ')
    echo "with log and serde on: $tree"
    [ "$tree" = "allocator-api2 bitflags byteorder hash32 heapless log loom-fabric-core serde serde_core spin stable_deref_trait " ] ||
        die "the core's dependencies with log and serde have changed"
}

# Prints the folder of the headers of libfabric 2.1 from Debian 13, with the library of
# `newer_libfabric` to link.
newer_headers() {
    local folder=$TOOLS/headers library deb uri
    if [ ! -e "$folder/done" ]; then
        library=$(newer_libfabric)
        rm -rf "$folder" && mkdir -p "$folder"
        deb=$folder/libfabric-dev.deb
        uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -1)
        /usr/lib/apt/apt-helper download-file "${uri%/}/pool/main/libf/libfabric/libfabric-dev_2.1.0-1.1_amd64.deb" "$deb" \
            SHA256:0c827978d96c2c84bb4065d14f2cc2f6774c2145a2e6ad84dc3e7c25956abb0a >&2 || return 0
        dpkg-deb -x "$deb" "$folder" && ln -sf "$library/libfabric.so.1" "$folder/usr/lib/x86_64-linux-gnu/libfabric.so"
        touch "$folder/done"
    fi
    echo "$folder"
}

step_headers() { # Links libfabric with the headers of libfabric 2, and checks that names and numbers are equal. Among all steps, every sixth day
    has_its_turn 5 of 6 || { skip "the headers of libfabric 2.1: they have their turn on other days"; return 0; }
    linked_libfabric
    local folder library
    folder=$(newer_headers)
    [ -n "$folder" ] || { skip "the headers of libfabric 2.1 cannot be had"; return 0; }
    library=$(newer_libfabric)
    export PKG_CONFIG_LIBDIR=$folder/usr/lib/x86_64-linux-gnu/pkgconfig PKG_CONFIG_SYSROOT_DIR=$folder CARGO_TARGET_DIR=$PWD/target/headers
    tested env LD_LIBRARY_PATH="$library" cargo test --locked --features libfabric-linked --lib
    tested env LD_LIBRARY_PATH="$library" cargo test --locked --features libfabric-linked --test libfabric -- headers:: discovery:: raw:: device::
    grep -q 'FI_MAJOR_VERSION : u32 = 2 ;' target/headers/debug/build/loom-fabric-*/out/libfabric.rs || die "other headers were used"
}

step_freestanding() { # Runs the program without std, alloc and libc, also without an operating system, with controls
    packages binutils
    packages --no-install-recommends qemu-system-x86 || true
    CARGO_TARGET_DIR=$PWD/target/freestanding examples/freestanding/check
    command -v qemu-system-x86_64 >/dev/null || skip "booting without an operating system: qemu-system-x86 cannot be installed"
}
