"""An agent of NIXL with the UCX back end, which writes a list of descriptors to itself. benches/src/sets/nixl.rs drives it.

Arguments: descriptors, bytes of each. Prints `ready` or an error; then for each line of the input two numbers of nanoseconds: until a list
was posted, and until it was done.
"""
import signal
import sys
import time

# Ends a call that does not return, too.
signal.alarm(120)
count, size = int(sys.argv[1]), int(sys.argv[2])
try:
    import numpy as np
    from nixl_cu12._api import nixl_agent, nixl_agent_config

    # Its thread would only disturb: writes to itself make progress in these calls.
    agent = nixl_agent("a", nixl_agent_config(enable_prog_thread=False, backends=["UCX"]))
    source, target = np.full(count * size, 0x5A, dtype=np.uint8), np.zeros(count * size, dtype=np.uint8)
    for memory in source, target:
        agent.register_memory([(memory.ctypes.data, count * size, 0, "")], "DRAM")

    def descriptors(memory, step):
        rows = np.zeros((count, 3), dtype=np.uint64)
        rows[:, 0] = memory.ctypes.data + np.arange(count) * step % count * size
        rows[:, 1] = size
        return agent.get_xfer_descs(rows, "DRAM")

    handle = agent.initialize_xfer("WRITE", descriptors(source, 7919), descriptors(target, 104_729), "a")
except Exception as error:
    print(f"{type(error).__name__}: {error}".splitlines()[0], flush=True)
    sys.exit(0)
print("ready", flush=True)
for _ in sys.stdin:
    target[:] = 0
    begin = time.perf_counter_ns()
    state = agent.transfer(handle)
    posted = time.perf_counter_ns() - begin
    while state == "PROC":
        state = agent.check_xfer_state(handle)
    done = time.perf_counter_ns() - begin
    if state != "DONE" or not (target == 0x5A).all():
        sys.exit(f"the transfer is {state}, or bytes are missing")
    print(posted, done, flush=True)
