//! UCX, measured by its own benchmark `ucx_perftest` between two processes over shared memory.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::far::on_the_other_core;
use crate::Failure;

/// Messages of a run, and of its warm-up.
pub(super) const MESSAGES: u32 = 10_000;
const WARM_UP: u32 = 1_000;

/// Maximum time in which a client connects to the server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Server process. Dropping it ends the process, even without a client.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already if the run succeeded.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn perftest() -> Command {
    let mut command = Command::new("ucx_perftest");
    // The path may lead to another libfabric, and to the libraries of another UCX beside it.
    command.env_remove("LD_LIBRARY_PATH");
    // By default it polls without locks.
    command.env("UCX_TLS", "shm").env("UCX_LOG_LEVEL", "error").stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// Returns `true` if `ucx_perftest` is installed, and prints a message otherwise.
pub(super) fn is_there() -> bool {
    let missing =
        perftest().arg("-h").stdout(Stdio::null()).status().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    if missing {
        println!("ucx: skipped, there is no ucx_perftest (Debian has it in the package ucx-utils)");
    }
    !missing
}

/// Returns nanoseconds of a half round trip with tagged messages of `len` bytes: the median of a
/// run's messages, which interruptions by the operating system do not change.
pub(super) fn half_round_trip(len: usize) -> Result<f64, Failure> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port().to_string();
    let _server = Server(on_the_other_core(|| perftest().args(["-p", &port]).stdout(Stdio::null()).spawn())?);
    let begin = Instant::now();
    loop {
        let (len, messages, warm_up) = (len.to_string(), MESSAGES.to_string(), WARM_UP.to_string());
        let client = perftest()
            .args(["127.0.0.1", "-p", &port, "-t", "tag_lat", "-s", &len, "-n", &messages, "-w", &warm_up, "-f", "-v"])
            .output()?;
        if client.status.success() {
            return microseconds(&String::from_utf8_lossy(&client.stdout)).map(|median| median * 1e3);
        }
        // The server does not listen yet.
        if begin.elapsed() > PATIENCE {
            return Err(format!("ucx_perftest: {}", client.status).into());
        }
    }
}

/// Returns the median of its table: `iterations,50.0_percentile_lat,...`, and a line of numbers.
fn microseconds(table: &str) -> Result<f64, Failure> {
    let numbers = table.lines().last().filter(|_| table.contains("50.0_percentile_lat"));
    let median = numbers.and_then(|line| line.split(',').nth(1)?.parse::<f64>().ok());
    Ok(median.filter(|median| *median > 0.0).ok_or("ucx_perftest prints another table")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_read_from_the_table_and_another_table_is_an_error() {
        let table = "iterations,50.0_percentile_lat,avg_lat,overall_lat\n20000,0.481,23.612,23.612\n";
        assert_eq!(microseconds(table).expect("the table"), 0.481);
        assert!(microseconds("iterations,50.0_percentile_lat\n").is_err());
        assert!(microseconds("20000,0.481\n").is_err());
    }
}
