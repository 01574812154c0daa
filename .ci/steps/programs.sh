# shellcheck shell=bash disable=SC2154
# Programs of the tree: the command, the examples, and peers of libfabric's own program. A part of
# `.ci/run`.

# Runs a command with its output in a file.
into() {
    local file=$1
    shift
    "$@" >"$file"
}

# Fails unless a report of `loom media send --json` has frames sent, arrived, and right.
frames_arrived() {
    python3 - "$1" <<'CHECK'
import json, sys
report = json.load(open(sys.argv[1]))
flows = [flow for target in report["targets"] for flow in target["flows"]]
sent, wrong = report["frames_sent"], sum(flow["wrong"] for flow in flows)
arrived = sum(flow["complete"] for flow in flows if flow["kind"] == "video")
result = f"{sent} frames sent, {arrived} arrived at targets not killed, {wrong} frames and blocks are wrong"
if sent <= 300 or arrived <= 30 or wrong:
    sys.exit(f"too few frames, or wrong ones: {result}")
print(result)
CHECK
}

step_command() { # Tests the command `loom`, and runs it on this machine, with a control
    libfabric
    packages python3
    tested cargo test --locked -p loom-fabric-cli
    examples_and_command
    local program=$COMMAND provider run video report
    "$program" info
    for provider in soft loom-tcp shm tcp 'tcp;ofi_rxm'; do
        "$program" info --words --provider "$provider" | grep -q "$provider" || die "there is no $provider"
    done
    # The machine may have a fault, such as a small /dev/shm.
    "$program" doctor || [ $? -eq 1 ]
    "$program" bench --provider soft,loom-tcp,'tcp;ofi_rxm' --sizes 8,4K --iterations 200
    "$program" transfer --provider loom-tcp --sizes 4K,1M --iterations 20
    # A soak of media flows with targets that die and are replaced. Without optimisation, targets
    # in processes that share two cores lose frames of 1080p60, but not of the smaller picture.
    report=$(mktemp)
    for run in 'soft 1920x1080@60' 'tcp;ofi_rxm 640x360@60'; do
        read -r provider video <<<"$run"
        patiently "media over $provider" into "$report" "$program" media send --provider "$provider" --video "$video" --slices 4 --block 480 --targets 2 --seconds 15 --kill-after 3 --json ||
            { cat "$report"; die "media over $provider"; }
        frames_arrived "$report" || die "media over $provider"
    done
    # The controls: the second target comes too late for a frame, and the first frame is wrong.
    fails_with "no video arrived" "$program" media send --video 192x108@1 --slices 1 --audio none --seconds 0.11 --kill-after 0.1
    "$program" media send --video 192x108@1 --slices 1 --audio none --seconds 0.11 --kill-after 0.1 --json >"$report" 2>/dev/null || true
    fails_with "too few frames" frames_arrived "$report"
    fails_with "have wrong bytes" "$program" media send --video 192x108@50 --audio none --seconds 1 --kill-after 60 --corrupt 1000
    rm -f "$report"
    # The control: the command detects a wrong environment.
    fails_with "is FI_PROVIDER set" env FI_PROVIDER=no-such-provider "$program" doctor
}

# Waits until a server of `fi_pingpong`'s protocol accepts connections on its port, or has ended.
listening() {
    local server=$1 port=$2 _
    for _ in {1..100}; do
        ss -ltn "sport = :$port" | grep -q LISTEN && return 0
        kill -0 "$server" 2>/dev/null || return 0
        sleep 0.1
    done
}

# Runs a server and a client of `fi_pingpong`'s protocol, with a port and the same options. Succeeds
# if both succeed, and prints their output otherwise.
between() {
    local server=$1 client=$2 port=$3 first failed=0 log
    shift 3
    log=$(mktemp)
    timeout 300 "$server" -B "$port" "$@" >"$log" 2>&1 &
    first=$!
    listening "$first" "$port"
    timeout 300 "$client" -P "$port" "$@" 127.0.0.1 >>"$log" 2>&1 || failed=1
    wait "$first" || failed=1
    [ "$failed" -eq 0 ] || cat "$log"
    rm -f "$log"
    return "$failed"
}

# Runs loom as server and as client of libfabric's own `fi_pingpong`, at this port and the next.
# Writes failures into a file.
plays_both() {
    local provider=$1 kind=$2 mode=$3 port=$4 into=$5 loom=${6:-$EXAMPLES/fi_pingpong}
    local options=(-p "$provider" -e "$kind" -m "$mode" -c -I 20)
    between fi_pingpong "$loom" "$port" "${options[@]}" >"$into" 2>&1 || echo "as client over $provider, $kind, $mode" >>"$into"
    between "$loom" fi_pingpong "$((port + 1))" "${options[@]}" >>"$into" 2>&1 || echo "as server over $provider, $kind, $mode" >>"$into"
}

step_interop() { # Runs libfabric's own fi_pingpong as the peer, server and client, with a check of every byte
    libfabric
    packages libfabric-bin iproute2
    examples_and_command
    # Below the kernel's ephemeral ports.
    local loom=$EXAMPLES/fi_pingpong ends port=17610 pair over_tcp
    ends=$(mktemp -d)
    # Loom without libfabric, beside the original over libfabric.
    over_tcp=$(mktemp)
    printf '#!/bin/sh\nexec "%s" "$@" -p loom-tcp\n' "$loom" >"$over_tcp"
    chmod +x "$over_tcp"
    while read -r provider kind mode side; do
        # libfabric 2 has no `net`.
        fi_info -p "$provider" >/dev/null 2>&1 || { skip "$provider: not in this libfabric"; continue; }
        jobs_below 4
        plays_both "$provider" "$kind" "$mode" "$port" "$ends/$provider $kind $mode $side" ${side:+"$over_tcp"} &
        port=$((port + 2))
    done <<'PAIRS'
tcp;ofi_rxm rdm msg
tcp;ofi_rxm rdm tagged
net rdm msg
net rdm tagged
shm rdm msg
shm rdm tagged
sockets rdm msg
sockets rdm tagged
udp;ofi_rxd rdm msg
udp;ofi_rxd rdm tagged
udp dgram msg
sockets dgram msg
tcp msg msg
net msg msg
sockets msg msg
sockets msg tagged
net rdm msg loom-tcp
net rdm tagged loom-tcp
net msg msg loom-tcp
tcp msg msg loom-tcp
PAIRS
    jobs_below 1
    for pair in "$ends"/*; do
        [ -e "$pair" ] || die "nothing was played"
        [ ! -s "$pair" ] || die "$(cat "$pair")"
        echo "$(basename "$pair"): as server and as client"
    done
    rm -rf "$ends" "$over_tcp"
    # Without -c loom sends other bytes than the peer checks.
    timeout 300 "$loom" -B 17592 -p shm -e rdm -S 64 >/dev/null 2>&1 &
    local careless=$!
    listening "$careless" 17592
    fails_with "Error at iteration=1" timeout 300 fi_pingpong -P 17592 -p shm -e rdm -S 64 -c 127.0.0.1
    kill "$careless" 2>/dev/null || true
    wait "$careless" || true
}

step_pingpong() { # Runs the example and `loom pingpong`, in one process and between two
    libfabric
    packages python3
    examples_and_command
    local program=("$COMMAND" pingpong) provider server built
    local few=(--sizes 1,64,65536 --iterations 200)
    for provider in '' loom-tcp shm 'tcp;ofi_rxm'; do
        timeout 120 "$PINGPONG" ${provider:+"$provider"}
    done
    # The README's first program is built from few packages.
    built=$(cargo tree --locked -p pingpong -e normal,build --prefix none --no-dedupe | sort -u | wc -l)
    [ "$built" -le 20 ] || die "pingpong is built from $built packages"
    "${program[@]}" "${few[@]}" --json | python3 -m json.tool >/dev/null
    "${program[@]}" "${few[@]}" --threads 1
    for provider in loom-tcp shm 'tcp;ofi_rxm'; do
        "${program[@]}" "${few[@]}" --provider "$provider"
        timeout 60 "${program[@]}" "${few[@]}" --provider "$provider" --listen 127.0.0.1:17601 &
        server=$!
        timeout 60 "${program[@]}" "${few[@]}" --provider "$provider" --connect 127.0.0.1:17601
        wait "$server" || die "the listening side over $provider"
    done
    fails_with "unexpected argument '--no-such-option'" "${program[@]}" --no-such-option
    fails_with "cannot connect to 127.0.0.1:17602" timeout 30 "${program[@]}" --provider shm --connect 127.0.0.1:17602 --timeout 1
}

# Waits until a program listens at a port.
wait_for_port() {
    for _ in $(seq 200); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return 0; fi
        sleep 0.1
    done
    die "nobody listens at port $1"
}

step_examples() { # Runs the examples, over the software transport and libfabric
    libfabric
    examples_and_command
    local provider server executor
    "$EXAMPLES/hello"
    "$EXAMPLES/arena"
    "$EXAMPLES/embedded_runtime" --seconds 1
    "$EXAMPLES/framed"
    timeout 60 "$EXAMPLES/processes" 1000 | grep "second process: exit status: 0" || die "processes"
    for provider in loom-tcp shm 'tcp;ofi_rxm'; do
        timeout 60 "$EXAMPLES/hello" "$provider"
        timeout 60 "$EXAMPLES/framed" "$provider"
        timeout 60 "$EXAMPLES/arena" --provider "$provider"
        timeout 60 "$EXAMPLES/embedded_runtime" --seconds 1 --provider "$provider"
    done
    for executor in own tokio-busy tokio-sleep tokio-hybrid; do
        timeout 60 "$EXAMPLES/async_pingpong" --rounds 2000 --executor "$executor"
        timeout 60 "$EXAMPLES/async_pingpong" --rounds 2000 --executor "$executor" --provider loom-tcp
        timeout 60 "$EXAMPLES/async_pingpong" --rounds 2000 --executor "$executor" --provider 'tcp;ofi_rxm'
    done
    fails_with "shm: the queue" timeout 60 "$EXAMPLES/async_pingpong" --rounds 10 --executor tokio-sleep --provider shm
    for provider in soft loom-tcp shm 'tcp;ofi_rxm'; do
        timeout 120 "$EXAMPLES/scatter_gather" --rounds 20 --provider "$provider"
        fails_with "has other bytes" timeout 120 "$EXAMPLES/scatter_gather" --rounds 1 --garble --provider "$provider"
    done
    fails_with 'provider `no-such-provider`' timeout 60 "$EXAMPLES/scatter_gather" --provider no-such-provider
    for provider in soft loom-tcp shm 'tcp;ofi_rxm'; do
        timeout 120 "$EXAMPLES/tune_collectives" --longest 4096 --provider "$provider" | grep 'Table {'
    done
    fails_with "two members or more" timeout 60 "$EXAMPLES/tune_collectives" --members 1
    for provider in soft loom-tcp shm 'tcp;ofi_rxm'; do
        timeout 120 "$EXAMPLES/kv_cache" --provider "$provider" | grep -qx "32 requests verified by 1 decoders" || die "kv_cache over $provider"
        timeout 120 "$EXAMPLES/kv_cache" --provider "$provider" --kill | grep -qx "32 requests verified by 2 decoders" ||
            die "kv_cache over $provider, with a killed decoder"
    done
    for provider in soft loom-tcp shm 'tcp;ofi_rxm'; do
        timeout 120 "$EXAMPLES/media_flow" --provider "$provider" | grep -qx "60 frames to 2 targets" || die "media_flow over $provider"
    done
    fails_with "no records" timeout 60 "$EXAMPLES/kv_cache" --decoder false
    # The test program `layers` tests clients that die, killed processes, and draining under load.
    "$EXAMPLES/echo_server" --listen 127.0.0.1:17640 --admin 127.0.0.1:17641 &
    server=$!
    wait_for_port 17641
    timeout 60 "$EXAMPLES/echo_server" --connect 127.0.0.1:17640
    grep -qx "100 messages" </dev/tcp/127.0.0.1/17641 || die "the echo server has not counted 100 messages"
    kill -INT "$server"
    wait "$server" || die "Ctrl-C has not drained the echo server"
    head -c 10000000 /dev/urandom >target/long-value
    for provider in loom-tcp shm 'tcp;ofi_rxm'; do
        "$EXAMPLES/kv" serve --provider "$provider" --at 127.0.0.1:17642 &
        server=$!
        wait_for_port 17642
        timeout 60 "$EXAMPLES/kv" put long --at 127.0.0.1:17642 <target/long-value
        timeout 60 "$EXAMPLES/kv" get long --at 127.0.0.1:17642 | cmp - target/long-value
        timeout 60 "$EXAMPLES/kv" delete long --at 127.0.0.1:17642
        fails_with "ENOENT" timeout 60 "$EXAMPLES/kv" get long --at 127.0.0.1:17642
        kill -INT "$server"
        wait "$server" || die "the key-value server over $provider"
    done
    rm target/long-value
    fails_with "the block is too small" "$EXAMPLES/arena" --mib 20
    fails_with 'provider `no-such-provider`' "$EXAMPLES/embedded_runtime" --provider no-such-provider
}

step_launchers() { # Exchanges bytes between ranks started by the launchers of MPICH 4.0 and 5.0
    packages mpich
    examples_and_command
    local launcher ranks said right=0
    for launcher in /usr/bin/mpiexec.hydra "$(newer_mpich)/bin/mpiexec.hydra"; do
        echo "$("$launcher" --version | sed -n 's/^ *Version: */hydra /p')"
        for ranks in 1 2 4; do
            said=$(timeout 300 "$launcher" -n "$ranks" "$EXAMPLES/launched" 2>&1) || die "$ranks ranks: $said"
            [ "$(grep -c " of $ranks: .* rounds are right" <<<"$said")" = "$ranks" ] || die "$ranks ranks: $said"
            right=$((right + ranks))
        done
        fails_with "rank 3 gives other bytes" timeout 300 env LOOM_FLIPS=1 "$launcher" -n 4 "$EXAMPLES/launched"
    done
    fails_with "PMI_FD" "$EXAMPLES/launched"
    [ "$right" = 14 ] || die "$right ranks of 14"
    echo "$right ranks exchanged bytes"
}
