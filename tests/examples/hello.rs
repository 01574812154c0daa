//! First program of the README, which shows the same code as the example. It runs unchanged over
//! each transport.

use super::hello;
use loom_fabric::{Network, NetworkAttr};

#[test]
fn first_program_runs_over_the_software_transport() {
    assert_eq!(hello(&Network::new(NetworkAttr::default()).unwrap().info()).unwrap(), b"hello");
}

#[test]
fn first_program_runs_unchanged_over_a_strict_network() {
    let network = Network::new(NetworkAttr { strict: true, ..NetworkAttr::DEFAULT }).unwrap();
    assert_eq!(hello(&network.info()).unwrap(), b"hello");
}

#[test]
fn first_program_runs_unchanged_over_tcp_in_rust() {
    let info = loom_tcp::query(&loom_fabric::Hints::default(), loom_tcp::TcpAttr::DEFAULT).unwrap();
    assert_eq!(hello(&info).unwrap(), b"hello");
}

#[cfg(feature = "libfabric")]
#[test]
fn first_program_runs_unchanged_over_providers_of_libfabric() {
    use loom_fabric::{Caps, Hints, Local, Ofi};

    for provider in ["shm", "tcp;ofi_rxm", "sockets"] {
        let hints = Hints { caps: Caps::MSG, ..Hints::local(provider) };
        let info = Ofi::<Local>::query(&hints).unwrap().next().expect("every libfabric has it");
        assert_eq!(hello(&info).unwrap(), b"hello", "{provider}");
    }
}

#[test]
fn first_program_of_the_readme_is_the_example() {
    let example = include_str!("../../examples/hello.rs");
    let begin = example.find("/// Sends a message").unwrap();
    let end = begin + example[begin..].find("\n}\n").unwrap() + 3;
    let program = &example[begin..end];
    assert!(program.lines().filter(|line| line.starts_with("    ") && !line.contains("//")).count() <= 15);
    assert!(
        include_str!("../../README.md").contains(program),
        "README.md has another first program than examples/hello.rs"
    );
}
