//! Memory of a small deployment, compared with the tables of `sums.md`.

use std::alloc::Layout;
use std::mem::size_of;

use loom_core::allocator_api2::alloc::Global;
use loom_core::av::{Av, AvAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Endpoint;
use loom_core::error::OpenError;
use loom_core::info::Info;
use loom_core::transport::Transport;

const DEPTH: usize = 1024;
const PEERS: usize = 1024;
/// Buffers of the queue.
type Buf = Box<[u8]>;

/// Rows of the table: object, place, and number of bytes.
fn rows<T: Transport + 'static>(info: &Info<T>) -> Vec<(String, &'static str, usize)> {
    let domain = Domain::open(info).expect("it opens");
    let size = |layout: Result<Layout, OpenError>| layout.expect("the sizes are small").size();
    let queue = size(CqAttr { endpoints: 1, ..CqAttr::new(DEPTH) }.layout::<T, Buf, Global>());
    let vector = size(AvAttr::new(PEERS).layout::<T, Global>(&domain));
    vec![
        ("domain".into(), "allocator", size(Domain::layout::<Global>(info))),
        ("its handle".into(), "by value", size_of::<Domain<'_, T>>()),
        ("address vector of 1,024 peers".into(), "allocator", vector),
        ("its handle".into(), "by value", size_of::<Av<'_, T>>()),
        ("queue of 1,024 operations, with its endpoint".into(), "allocator", queue),
        ("its handle".into(), "by value", size_of::<Cq<'_, T, Buf>>()),
        ("endpoint".into(), "by value", size_of::<Endpoint<'_, T, Buf>>()),
    ]
}

/// Formats a number with commas.
fn number(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<_> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).expect("digits")).collect();
    groups.join(",")
}

fn table<T: Transport + 'static>(info: &Info<T>) -> String {
    let rows = rows(info);
    let sum: usize = rows.iter().map(|(.., bytes)| bytes).sum();
    let mut table = String::from("| | from | bytes |\n|---|---|---:|\n");
    for (what, place, bytes) in rows {
        table += &format!("| {what} | {place} | {} |\n", number(bytes));
    }
    table + &format!("| **sum** | | **{}** |\n", number(sum))
}

/// Prints the table, and finds it in `sums.md`.
pub(crate) fn is_documented<T: Transport + 'static>(name: &str, info: &Info<T>) {
    let table = table(info);
    println!("{name}\n{table}");
    assert!(include_str!("sums.md").contains(&table), "sums.md does not have the table of {name}:\n{table}");
}
