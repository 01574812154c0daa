# shellcheck shell=bash disable=SC2034
# Functions shared by the steps. A part of `.ci/run`.

TARGET=x86_64-unknown-linux-gnu
TOOLS=$PWD/target/ci
FEATURES=libfabric,log,serde,tcp,loom-fabric-core/std,loom-fabric-alloc/allocator-api2-02,loom-fabric-alloc/os,loom-fabric-alloc/bytes,loom-fabric-alloc/bytemuck,loom-fabric-async/tokio,loom-fabric-deferred/std,loom-fabric-group/pmi,loom-fabric-media/mxl,loom-fabric-static/std,loom-fabric-tagged/serde,loom-fabric-tagged/std,loom-fabric-tcp/std,loom-fabric-transfer/std,loom-fabric-updates/std
# Tests over libfabric's providers that both versions run.
LIBFABRIC_TESTS=(--test libfabric --test providers --test layers)
# Some providers' libraries install signal handlers that print backtraces.
export IPATH_NO_BACKTRACE=1 HFI_NO_BACKTRACE=1
export CARGO_TERM_COLOR=never
# A version of libfabric without tables in tests/behaviours fails.
export LOOM_PAGE=check

say() { printf '\n== %s\n' "$*"; }

die() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

# Reports that a step cannot run here, and the reason.
skip() { echo "SKIPPED: $*"; echo "$step" >>"$SKIPPED"; }

# Installs missing Debian packages. Options of `apt-get install` come first.
packages() {
    local missing=() options=() package
    while [[ $1 == -* ]]; do options+=("$1"); shift; done
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null)" = "install ok installed" ] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    echo "installing ${missing[*]}"
    mkdir -p "$TOOLS"
    # Steps run in parallel.
    (
        flock 9
        "${as_root[@]}" apt-get update -qq
        DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq "${options[@]}" "${missing[@]}" >/dev/null
    ) 9>"$TOOLS/apt.lock"
}

libfabric() { packages gcc libfabric-dev pkg-config; }
# Packages to link libfabric.
linked_libfabric() { packages gcc libfabric-dev libclang-dev pkg-config; }

# Runs a command that may be silent for minutes, and prints a line every 30 s.
patiently() {
    local what=$1 begin=$SECONDS ticker status=0
    shift
    # The sleeping process does not hold the output open. The loop ends with the script.
    while sleep 30 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do echo "... $what: $((SECONDS - begin)) s"; done 2>/dev/null &
    ticker=$!
    "$@" || status=$?
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    return "$status"
}

# Examples and the command, built like the step `test`: only their behaviour is tested.
EXAMPLES=target/debug/examples
COMMAND=target/debug/loom
PINGPONG=target/debug/pingpong
examples_and_command() { patiently "building examples and the command" cargo build --locked --quiet --workspace --features "$FEATURES" --examples --bins; }

# Day of the year. In a run of all steps, parts that take too long for each run alternate by day.
DAY=$((10#$(date +%j)))
# Succeeds if a part of a step (`0 of 3`) runs. In a run of all steps only the part of the day runs.
# A step run by name runs all parts.
has_its_turn() { [ -z "$EVERYTHING" ] || ((DAY % $3 == $1)); }

nightly() { rustup toolchain list 2>/dev/null | grep -q '^nightly'; }

# Installs a version of a cargo tool from crates.io under target/ci.
cargo_tool() {
    grep -qsF "\"$1 $2 " "$TOOLS/.crates.toml" ||
        cargo install --quiet --debug --locked --force "$1" --version "$2" --root "$TOOLS" --target-dir "$TOOLS/build"
}

# Runs a command. Fails if the command fails, or if its test runners executed no test.
tested() {
    local log passed
    log=$(mktemp)
    "$@" 2>&1 | tee "$log" || die "$*"
    passed=$(grep -oE '[0-9]+ passed' "$log" | awk '{ sum += $1 } END { print sum + 0 }')
    rm -f "$log"
    [ "$passed" -gt 0 ] || die "no test ran: $*"
    echo "$passed tests passed"
}

# Builds test programs, and runs them two at a time, with the checks of `tested`.
programs() {
    command -v python3 >/dev/null || packages python3
    tested .ci/test_programs "$@"
}

# Runs a command that must fail with this text in its output.
fails_with() {
    local wanted=$1 log
    shift
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then cat "$log"; die "the control passed: $*"; fi
    grep -qF "$wanted" "$log" || { cat "$log"; die "the control failed without '$wanted': $*"; }
    rm -f "$log"
    echo "control: fails with '$wanted', as it has to"
}

# Waits until the number of running jobs is below a limit.
jobs_below() { while [ "$(jobs -rp | wc -l)" -ge "$1" ]; do wait -n || true; done; }

# Prints the folder of libfabric 2.5.1, from the Python package mpich.
newer_libfabric() {
    local folder=$TOOLS/mpich
    if [ ! -e "$folder/done" ]; then
        command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1 || packages python3 python3-pip >&2
        rm -rf "$folder" && mkdir -p "$folder"
        python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$folder" mpich==5.0.2 >&2
        python3 -m zipfile -e "$folder"/mpich-*.whl "$folder" >&2
        touch "$folder/done"
    fi
    find "$folder" -name libfabric.so.1 -printf '%h\n' -quit
}

# Prints the path of a Python interpreter with NIXL 1.5.1, or the reason of a failure.
nixl_python() {
    local folder=$TOOLS/nixl log=$TOOLS/nixl.log
    if [ ! -e "$folder/done" ]; then
        rm -rf "$folder"
        mkdir -p "$TOOLS"
        python3 -m venv "$folder" >"$log" 2>&1 &&
            timeout 120 "$folder/bin/pip" install --quiet --retries 1 --no-deps nixl-cu12==1.5.1 numpy >>"$log" 2>&1 ||
            { echo "nixl-cu12 cannot be installed: $(grep -v '^$' "$log" | tail -n 1)"; return 1; }
        touch "$folder/done"
    fi
    echo "$folder/bin/python"
}

# Prints the folder of MPICH 5.0.2 from the same package, and makes its programs executable.
newer_mpich() {
    local folder
    folder=$(dirname "$(dirname "$(newer_libfabric)")")
    chmod +x "$folder"/bin/*
    echo "$folder"
}
