# shellcheck shell=bash disable=SC2154
# Several hosts, as network namespaces. A part of `.ci/run`.

# Removes the two hosts.
no_hosts() {
    ip netns del "$1-a" 2>/dev/null || true
    ip netns del "$1-b" 2>/dev/null || true
}

step_hosts() { # Runs the command, `fi_pingpong`, `kv_cache`, and one transfer of each kind between two network namespaces, if the machine permits them
    libfabric
    packages iproute2 libfabric-bin
    local name=loom-$BASHPID host error
    error=$(ip netns add "$name-a" 2>&1) || { skip "no network namespaces: $error"; return 0; }
    # shellcheck disable=SC2064
    trap "no_hosts $name" EXIT
    ip netns add "$name-b"
    ip link add "veth-a$BASHPID" netns "$name-a" type veth peer name "veth-b$BASHPID" netns "$name-b" ||
        { skip "no veth pairs"; return 0; }
    for host in a b; do
        ip -n "$name-$host" addr add "10.77.0.$([ $host = a ] && echo 1 || echo 2)/24" dev "veth-$host$BASHPID"
        ip -n "$name-$host" link set "veth-$host$BASHPID" up
        ip -n "$name-$host" link set lo up
    done
    examples_and_command
    local at_a=(ip netns exec "$name-a") at_b=(ip netns exec "$name-b") server played=0
    # A small number: on a busy machine a round can take as long as all programs' turns on a
    # processor, and over `ofi_rxd` several times that.
    local few=(--sizes 1,64,65536,1M --iterations 5)
    while read -r provider; do
        [ "$provider" = loom-tcp ] || fi_info -p "$provider" >/dev/null 2>&1 || { skip "$provider: not in this libfabric"; continue; }
        timeout 300 "${at_a[@]}" "$COMMAND" pingpong "${few[@]}" --provider "$provider" --node 10.77.0.1 --listen 10.77.0.1:17601 &
        server=$!
        timeout 300 "${at_b[@]}" "$COMMAND" pingpong "${few[@]}" --provider "$provider" --node 10.77.0.2 --connect 10.77.0.1:17601 ||
            die "between two hosts over $provider"
        wait "$server" || die "the listening host over $provider"
        played=$((played + 1))
    done <<'PROVIDERS'
loom-tcp
tcp;ofi_rxm
net
sockets
udp;ofi_rxd
PROVIDERS
    while read -r provider kind; do
        fi_info -p "$provider" >/dev/null 2>&1 || { skip "$provider: not in this libfabric"; continue; }
        timeout 300 "${at_a[@]}" "$EXAMPLES/fi_pingpong" -p "$provider" -e "$kind" -c -I 20 &
        server=$!
        timeout 300 "${at_b[@]}" "$EXAMPLES/fi_pingpong" -p "$provider" -e "$kind" -c -I 20 10.77.0.1 ||
            die "between two hosts over $provider $kind"
        wait "$server" || die "the listening host over $provider $kind"
        played=$((played + 1))
    done <<'PAIRS'
tcp msg
net msg
sockets msg
udp dgram
PAIRS
    [ "$played" -gt 0 ] || die "nothing was played"
    local command bench said
    while read -r command provider; do
        bench=("$COMMAND" "$command" --provider "$provider" --sizes 8,64K --iterations 50)
        timeout 300 "${at_a[@]}" "${bench[@]}" --node 10.77.0.1 --listen 10.77.0.1:17603 &
        server=$!
        said=$(timeout 300 "${at_b[@]}" "${bench[@]}" --node 10.77.0.2 --connect 10.77.0.1:17603) || die "loom $command between two hosts"
        wait "$server" || die "the listening host of loom $command"
        [[ $said == *"no byte wrong"* ]] || die "loom $command between two hosts: $said"
    done <<'COMMANDS'
bench tcp;ofi_rxm
transfer tcp;ofi_rxm
transfer loom-tcp
COMMANDS
    local decoder="ip netns exec $name-b $EXAMPLES/kv_cache decode --provider 'tcp;ofi_rxm' --node 10.77.0.2"
    timeout 120 "${at_a[@]}" "$EXAMPLES/kv_cache" --provider 'tcp;ofi_rxm' --node 10.77.0.1 --kill --decoder "$decoder" ||
        die "kv_cache between two hosts"
    # One transfer of each kind, over both versions.
    local folder kinds=(cargo test --locked --workspace --features "$FEATURES" --test providers -- hosts::between::) kind="write with immediate data"
    export LOOM_HOSTS=$name-a,$name-b
    for folder in "" "$(newer_libfabric)"; do
        tested env LD_LIBRARY_PATH="$folder" timeout 300 "${kinds[@]}"
    done
    fails_with "else arrives than was sent: $kind" env LOOM_FLIPS="$kind" timeout 300 "${kinds[@]}peers::tcp"
    # Without the cable no data arrives.
    ip -n "$name-b" link set "veth-b$BASHPID" down
    fails_with "cannot connect to 10.77.0.1:17602" timeout 30 "${at_b[@]}" "$COMMAND" pingpong \
        --provider 'tcp;ofi_rxm' --node 10.77.0.2 --connect 10.77.0.1:17602 --timeout 1
}

# Removes four hosts and the cables between them.
no_lan() { local host; for host in a b c d; do ip netns del "$1-$host" 2>/dev/null || true; done; }

step_multicast() { # Tests multicast groups between four network namespaces on one network, if the machine permits them
    libfabric
    packages iproute2
    local name=loom-$BASHPID host number=1 error folder
    error=$(ip netns add "$name-a" 2>&1) || { skip "no network namespaces: $error"; return 0; }
    # shellcheck disable=SC2064
    trap "no_lan $name" EXIT
    # The first host has the switch, which forwards all packets to all hosts.
    ip -n "$name-a" link add lan type bridge mcast_snooping 0 2>/dev/null || { skip "no bridges"; return 0; }
    ip -n "$name-a" addr add 10.78.0.1/24 dev lan
    ip -n "$name-a" link set lan up
    ip -n "$name-a" route add 239.0.0.0/8 dev lan
    for host in b c d; do
        number=$((number + 1))
        ip netns add "$name-$host"
        ip link add "to-$host" netns "$name-a" type veth peer name lan netns "$name-$host" ||
            { skip "no veth pairs"; return 0; }
        ip -n "$name-a" link set "to-$host" master lan up
        ip -n "$name-$host" addr add "10.78.0.$number/24" dev lan
        ip -n "$name-$host" link set lan up
        ip -n "$name-$host" route add 239.0.0.0/8 dev lan
    done
    export LOOM_HOSTS=$name-a,$name-b,$name-c,$name-d
    # With the features of the step `test`, which has built this program already.
    local hosts=(timeout 300 cargo test --locked --workspace --features "$FEATURES" --test providers -- --ignored multicast::hosts::)
    for folder in "" "$(newer_libfabric)"; do
        tested env LD_LIBRARY_PATH="$folder" "${hosts[@]}"
    done
    fails_with "after leaving" env LOOM_STAYS=1 "${hosts[@]}members"
}
