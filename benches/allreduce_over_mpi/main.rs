//! All-reduce compared with MPICH, over the same provider and libfabric: `LOOM_MPICH=FOLDER cargo
//! bench --bench allreduce_over_mpi`.
//!
//! The folder contains MPICH as the Python package `mpich` carries it: its programs in `bin`
//! (`mpiexec.hydra` must be executable), `lib` and `include`. `cc` builds the side of MPI. The
//! sides run in turns, each in its own processes. If there are more ranks than processors, waiting
//! ranks yield on both sides.

#![allow(clippy::unwrap_used, reason = "it fails by panicking")]

#[path = "../measure/mod.rs"]
mod measure;
mod rank;

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use crate::measure::{median, metric, ratio};

const LAUNCHES: usize = 5;
/// Bytes, blocks, and all-reduces in a block.
const SIZES: [[&str; 3]; 2] = [["8", "15", "1000"], ["1048576", "15", "5"]];

fn main() {
    let arguments: Vec<_> = env::args().collect();
    match env::var("LOOM_MPICH") {
        _ if arguments.get(1).is_some_and(|side| side == "loom") => rank::run(&arguments),
        Ok(folder) => compare(Path::new(&folder)),
        Err(_) => println!("skipped: LOOM_MPICH does not name the folder of an MPICH"),
    }
}

fn compare(mpich: &Path) {
    let built = env::temp_dir().join(format!("loom-allreduce-{}", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/allreduce_over_mpi/mpi.c");
    let libraries = [mpich.join("lib"), mpich.join("lib/mpich")];
    let cc = Command::new("cc")
        .args(["-O2", source, "-o"])
        .arg(&built)
        .arg("-I")
        .arg(mpich.join("include"))
        .arg(mpich.join("lib/libmpi.so.12"))
        .arg("-Wl,--allow-shlib-undefined")
        .status();
    assert!(cc.unwrap().success(), "the side of MPI is built");
    let path = env::join_paths(&libraries).unwrap();
    let loom = env::current_exe().unwrap();
    for (provider, name) in [("shm", "shm"), ("tcp;ofi_rxm", "tcp_rxm")] {
        for ranks in ["2", "4"] {
            let mut figures = [const { [const { Vec::new() }; 2] }; 2];
            for _ in 0..LAUNCHES {
                for (side, of) in ["mpi", "loom"].into_iter().zip(&mut figures) {
                    let program = if side == "mpi" { &built } else { &loom };
                    let mut launch = Command::new(mpich.join("bin/mpiexec.hydra"));
                    launch.args(["-n", ranks]).arg(program).arg(side);
                    for [bytes, blocks, each] in SIZES {
                        launch.args([bytes, blocks, each]);
                    }
                    // Over the provider only: MPICH also has shared memory and UCX.
                    launch.envs([
                        ("MPIR_CVAR_CH4_NETMOD", "ofi"),
                        ("MPIR_CVAR_NOLOCAL", "1"),
                        ("MPIR_CVAR_DEBUG_SUMMARY", "1"),
                    ]);
                    launch.env("FI_PROVIDER", provider).env("LD_LIBRARY_PATH", &path).env("MPIEXEC_TIMEOUT", "60");
                    let output = launch.output().unwrap();
                    let said = String::from_utf8_lossy(&output.stdout);
                    let why = || format!("{side} over {provider}: {said}{}", String::from_utf8_lossy(&output.stderr));
                    assert!(output.status.success(), "{}", why());
                    assert!(said.contains(&format!("libfabric provider: {provider} ")), "another provider: {}", why());
                    for ([bytes, ..], of) in SIZES.iter().zip(of) {
                        let line = said.lines().find_map(|line| line.strip_prefix(&format!("median {bytes} ")));
                        of.push(line.and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_else(|| panic!("{}", why())));
                    }
                }
            }
            let [mpi, loom] = &figures;
            for ((size, mpi), loom) in ["8B", "1MiB"].iter().zip(mpi).zip(loom) {
                println!("{provider}, {size}, {ranks} ranks: MPICH {:.0} ns, loom {:.0} ns", median(mpi), median(loom));
                let of = if ranks == "2" { String::new() } else { format!(".{ranks}_ranks") };
                metric(&format!("allreduce_over_mpi.{name}.{size}{of}"), ratio(loom, mpi), "ratio");
            }
        }
    }
    _ = fs::remove_file(built);
}
