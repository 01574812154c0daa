#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they fail by panicking")]

mod media;

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

fn loom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loom")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(status: i32, arguments: &[&str]) -> (String, String) {
    let Output { status: ended, stdout, stderr } = loom(arguments);
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(ended.code(), Some(status), "{arguments:?}: {stdout}{stderr}");
    (stdout, stderr)
}

fn output_with(variable: (&str, &str), arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loom"));
    let output = command.args(arguments).env(variable.0, variable.1).stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&said(0, arguments).0).unwrap()
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn info_has_the_software_transport() {
    let report = json(&["info", "--json"]);
    let offers = report["offers"].clone();
    assert!(offers.as_array().unwrap().iter().any(|offer| offer["provider"] == "soft"), "{offers}");
    let topology = &report["topology"];
    assert!(topology["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty()), "{topology}");
    let cards: Vec<_> = topology["cards"].as_array().unwrap().iter().map(|card| &card["name"]).collect();
    for offer in offers.as_array().unwrap() {
        assert!(offer["card"].is_null() || cards.contains(&&offer["card"]), "{topology}: {offer}");
        assert!(offer["card"].is_null() || !["soft", "shm"].map(Value::from).contains(&offer["provider"]), "{offer}");
    }
    let table = said(0, &["info"]).0;
    assert!(table.contains("ON REQUEST"), "{table}");
    // Providers grant sources only on request, because sources have a cost.
    let offers = json(&["info", "--json", "--provider", "tcp;ofi_rxm"])["offers"].clone();
    for (caps, has) in [("caps", false), ("caps_on_request", true)] {
        let caps = offers[0][caps].as_array().unwrap().iter().any(|name| name == "SOURCE");
        assert_eq!(caps, has, "{offers}");
    }
    let (media, _) = said(0, &["info", "--media"]);
    assert!(media.contains("soft") && media.contains("127.0.0.1:0") && !media.contains("sockets-dgram"), "{media}");
    // MXL's providers: connections over TCP, and endpoints without them over shm.
    for (provider, kind) in [("tcp", "msg"), ("loom-tcp", "msg"), ("loom-tcp", "rdm"), ("shm", "rdm")] {
        let has = |line: &str| line.split_whitespace().take(2).eq([provider, kind]);
        assert!(media.lines().any(has), "{provider} {kind}: {media}");
    }
    assert!(!media.contains("dgram"), "{media}");
    assert_eq!(json(&["info", "--media", "--provider", "soft", "--json"])["offers"].as_array().map(Vec::len), Some(1));
    assert!(said(0, &["info", "--type", "rdm", "--caps", "tagged,FI_RMA"]).0.contains("soft"));
    assert!(said(1, &["info", "--provider", "shm", "--caps", "multicast"]).1.contains("nothing here fits"));
    assert!(said(2, &["info", "--caps", "magic"]).1.contains("there is no capability `MAGIC`"));
}

#[test]
fn doctor_gives_advice_on_every_finding_that_is_not_good() {
    let output = loom(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    for subject in ["loom", "libfabric", "path", "versions", "/dev/shm", "memlock", "descriptors", "infiniband"] {
        assert!(findings.iter().any(|finding| finding["subject"] == subject), "{subject}: {report}");
    }
    for finding in findings {
        assert_eq!(finding["advice"].is_null(), finding["level"] == "good", "{finding}");
        if finding["subject"] == "infiniband" && !std::path::Path::new("/dev/infiniband").exists() {
            assert_eq!(finding["level"], "note", "{finding}");
        }
    }
    let wrong = findings.iter().filter(|finding| finding["level"] == "wrong").count();
    assert_eq!(report["wrong"], wrong);
    assert_eq!(output.status.code(), Some(i32::from(wrong > 0)));
}

#[test]
fn doctor_names_variables_that_change_behaviour() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loom"));
    let output = command.args(["doctor"]).env("LOOM_UNTESTED", "1\u{1b}[2J").env("LOOM_OTHER", "x").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("LOOM_UNTESTED=1 [2J"), "{text}");
    let mut other = text.lines().skip_while(|line| !line.contains("LOOM_OTHER=x"));
    assert!(other.nth(1).unwrap().contains("loom's own tests"), "{text}");
    for (value, why) in [("tcp", "no other providers than these"), ("^shm", "leaves these providers out")] {
        let (_, text) = output_with(("FI_PROVIDER", value), &["doctor"]);
        assert!(text.contains(why), "{value}: {text}");
    }
}

#[test]
fn without_a_library_the_software_transport_works_and_the_way_to_it_is_named() {
    let text = scratch("no-library.so");
    std::fs::write(&text, "text").unwrap();
    for (path, reason) in [("/no/such/libfabric.so.1", "No such file"), (text.to_str().unwrap(), "too short")] {
        let with = |arguments: &[&str]| output_with(("LOOM_LIBFABRIC", path), arguments);
        let (status, said) = with(&["doctor"]);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains(path) && said.contains(reason) && said.contains("apt-get install libfabric1"), "{said}");
        let (status, said) = with(&["info"]);
        assert!(status == Some(0) && said.contains("soft") && said.contains(path), "{said}");
        let (status, said) = with(&["bench", "--sizes", "8", "--iterations", "200"]);
        assert!(status == Some(0) && said.contains("no byte wrong"), "{said}");
        let (status, _) = with(&["bench", "--provider", "shm", "--sizes", "8"]);
        assert_eq!(status, Some(1));
    }
}

#[test]
fn bench_measures_every_size_and_draws() {
    let file = scratch("bench.svg");
    let file = file.to_str().unwrap();
    let soft = ["bench", "--provider", "soft", "--iterations", "200"];
    let report = json(&[&soft[..], &["--sizes", "8,4K", "--json", "--svg", file]].concat());
    let rows = report["providers"][0]["results"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{report}");
    for row in rows {
        assert!(row["half_round_trip_ns"]["median"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["flow"]["messages_per_second"]["median"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["verified_messages"].as_u64().unwrap() > 64, "{row}");
        assert!(row["disturbed"].is_boolean(), "{row}");
    }
    assert_eq!(report["warning"].is_string(), rows.iter().any(|row| row["disturbed"] == true), "{report}");
    for name in ["host", "kernel"] {
        assert!(report[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {report}");
    }
    assert!(report["time_unix_seconds"].as_u64().unwrap() > 1_700_000_000, "{report}");
    assert!(report.get("processor").is_some(), "{report}");
    assert!(report["libfabric"].is_string(), "{report}");
    assert_eq!(report["interrupted"], false);
    assert_eq!(std::fs::read_to_string(file).unwrap().matches("<polyline").count(), 3);
    assert!(said(0, &[&soft[..], &["--sizes", "8"]].concat()).0.contains("no byte wrong"));
}

#[test]
fn a_drawing_that_cannot_be_written_ends_a_bench_at_once() {
    let lost = ["bench", "--provider", "soft", "--iterations", "10000000", "--svg", "/no/such/folder/x.svg"];
    let (stdout, stderr) = said(1, &lost);
    assert!(stdout.is_empty() && stderr.contains("cannot write the drawing") && stderr.contains("--svg"), "{stderr}");
}

#[test]
fn a_bench_without_results_leaves_no_new_drawing() {
    let (new, old) = (scratch("new.svg"), scratch("old.svg"));
    let _ = std::fs::remove_file(&new);
    std::fs::write(&old, "old").unwrap();
    for file in [&new, &old] {
        said(1, &["bench", "--provider", "magic", "--svg", file.to_str().unwrap()]);
    }
    assert!(!new.exists());
    assert_eq!(std::fs::read_to_string(old).unwrap(), "old");
}

#[test]
fn progress_is_shown_on_a_terminal() {
    for command in ["bench", "pingpong", "transfer"] {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let terminal = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let terminal = OpenOptions::new().write(true).open(terminal).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_loom"));
        program.args([command, "--provider", "soft", "--sizes", "64", "--iterations", "50", "--json"]);
        let mut child = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(terminal).spawn().unwrap();
        drop(program);
        assert!(child.wait().unwrap().success());
        let mut said = [0; 4096];
        let length = File::from(master).read(&mut said).unwrap();
        let said = String::from_utf8_lossy(&said[..length]);
        assert!(said.contains(": 64 B ..."), "{command}: {said}");
    }
}

#[test]
fn pingpong_verifies_and_finds_a_wrong_byte() {
    let few = ["pingpong", "--sizes", "1,64", "--iterations", "50"];
    assert_eq!(json(&[&few[..], &["--json"]].concat())["results"].as_array().unwrap().len(), 6);
    assert!(said(0, &[&few[..], &["--threads", "1"]].concat()).0.contains("no byte wrong"));
    assert!(said(1, &[&few[..], &["--corrupt", "3"]].concat()).1.contains("byte 3 is"));
}

#[test]
fn wrong_options_are_named() {
    for (arguments, why) in [
        (&["--no-such-option"][..], "--no-such-option"),
        (&["dance"], "dance"),
        (&["bench", "--sizes", "0"], "sizes are from 1 B"),
        (&["bench", "--sizes", "1,,2"], "sizes are from 1 B"),
        (&["bench", "--iterations", "0"], "--iterations"),
        (&["bench", "--provider", "soft,"], "names between commas"),
        (&["bench", "--timeout", "nan"], "takes seconds"),
        (&["bench", "--provider", "soft", "--processes", "2"], "in the memory of one process"),
        (&["bench", "--listen"], "need a provider of libfabric"),
        (&["bench", "--listen", "--svg", "x.svg"], "cannot be used with"),
        (&["bench", "--node", "127.0.0.1"], "need a provider of libfabric"),
        (&["bench", "--provider", "soft", "--node", "127.0.0.1"], "has no addresses of this machine"),
        (&["bench", "--sizes", "2G"], "to 1 GiB"),
        (&["bench", "--listen", "--connect", "a:1"], "cannot be used with"),
        (&["pingpong", "--listen"], "in the memory of one process"),
        (&["pingpong", "--provider", "soft", "--listen"], "in the memory of one process"),
        (&["pingpong", "--provider", "soft", "--node", "127.0.0.1"], "has no addresses of this machine"),
        (&["pingpong", "--provider", "soft,shm"], "takes one name"),
        (&["pingpong", "--provider", "shm", "--transport", "soft"], "--provider is enough"),
        (&["pingpong", "--provider", "soft", "--transport", "libfabric"], "--provider is enough"),
        (&["pingpong", "--corrupt", "9", "--sizes", "1"], "offset of a byte"),
        (&["pingpong", "--threads", "3"], "--threads"),
        (&["transfer", "--listen"], "in the memory of one process"),
        (&["transfer", "--node", "127.0.0.1"], "has no addresses of this machine"),
        (&["transfer", "--provider", "soft,shm"], "takes one name"),
        (&["transfer", "--read", "--write"], "cannot be used with"),
        (&["transfer", "--rails", "17"], "--rails"),
        (&["transfer", "--windows", "0"], "--windows"),
        (&["transfer", "--corrupt", "9", "--sizes", "1"], "offset of a byte"),
        (&["info", "--json", "--words"], "cannot be used with"),
        (&["completions", "emacs"], "emacs"),
        (&["man"], "FOLDER"),
    ] {
        let (_, stderr) = said(2, arguments);
        assert!(stderr.contains(why), "{arguments:?}: {stderr}");
    }
}

#[test]
fn every_command_has_help_completions_and_a_page() {
    for command in ["info", "doctor", "bench", "pingpong", "transfer", "media", "mxl", "completions", "man"] {
        assert!(said(0, &[command, "--help"]).0.contains("Usage: loom"), "{command}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let (text, _) = said(0, &["completions", shell]);
        assert!(text.contains("pingpong") && text.contains("doctor"), "{shell}");
    }
    let folder = scratch("man");
    said(0, &["man", folder.to_str().unwrap()]);
    let page = std::fs::read_to_string(folder.join("loom-bench.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("processes"), "{page}");
    assert!(said(1, &["man", "/proc/no/folder"]).1.contains("cannot write manual pages"));
}

#[test]
fn an_interrupted_measurement_prints_its_partial_result() {
    for (name, head, tail) in [("bench", "messages/s", "messages verified"), ("transfer", "GiB/s", "no byte wrong")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loom"));
        // Each measurement takes a good part of a second.
        let sizes = ["8"; 64].join(",");
        command.args([name, "--provider", "soft", "--sizes", &sizes]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let heads = lines.by_ref().map(Result::unwrap).find(|line| line.contains(head));
        assert!(heads.is_some());
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let rest: Vec<_> = lines.map(Result::unwrap).collect();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(rest.last().unwrap().contains(tail), "{rest:?}");
    }
}

#[test]
fn bench_runs_between_two_processes() {
    for provider in ["shm", "tcp;ofi_rxm"] {
        let arguments =
            ["bench", "--provider", provider, "--processes", "2", "--sizes", "8,64K", "--iterations", "100", "--json"];
        let report = json(&arguments);
        assert_eq!(report["providers"][0]["place"], "two processes", "{report}");
        assert_eq!(report["providers"][0]["results"].as_array().unwrap().len(), 2, "{report}");
    }
}

#[test]
fn missing_peers_and_providers_are_named() {
    let nothing = ["bench", "--provider", "shm", "--connect", "127.0.0.1:1", "--timeout", "0.2"];
    assert!(said(1, &nothing).1.contains("cannot connect to 127.0.0.1:1"));
    let nothing = ["bench", "--provider", "shm", "--listen", "127.0.0.1:0", "--timeout", "0.2"];
    assert!(said(1, &nothing).1.contains("no process connected"));
    let (stdout, stderr) = said(1, &["bench", "--provider", "soft,magic", "--sizes", "8", "--iterations", "50"]);
    assert!(stderr.contains("no provider `magic`") && stdout.contains("soft"), "{stdout}{stderr}");
}

#[test]
fn doctor_describes_each_fault() {
    let (text, _) = said(0, &["doctor", "--faults"]);
    assert!(text.contains("known faults of the providers"), "{text}");
    let fault = text.lines().find(|line| line.contains("sockets-garbage-crashes-a-listener"));
    assert!(fault.is_some_and(|line| line.contains("Garbage that a stranger sends")), "{text}");
    assert!(!text.contains("docs/limits.md"), "{text}");
    let output = Command::new(env!("CARGO_BIN_EXE_loom")).arg("doctor").env("FI_PROVIDER", "nosuch").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("is FI_PROVIDER set") && !text.contains("known fault"), "{text}");
}

#[test]
fn a_provider_that_is_not_there_is_named_with_the_variable_that_hides_it() {
    let arguments = ["bench", "--provider", "tcp;ofi_rxm", "--sizes", "8"];
    let (_, said) = output_with(("FI_PROVIDER", "nosuch"), &arguments);
    assert!(said.contains("it has none") && said.contains("FI_PROVIDER=nosuch leaves out all other"), "{said}");
    let (_, said) = output_with(("FI_PROVIDER", "^shm"), &["bench", "--provider", "shm", "--sizes", "8"]);
    assert!(said.contains("no provider `shm`") && said.contains("FI_PROVIDER=^shm leaves out shm"), "{said}");
    let (_, said) = self::said(1, &["info", "--provider", "nosuch"]);
    assert!(said.contains("no provider `nosuch` here; it has") && said.contains("tcp;ofi_rxm"), "{said}");
    let (_, said) = self::said(1, &["pingpong", "--provider", "tcp"]);
    assert!(said.contains("EP_MSG") && said.contains("`tcp;ofi_rxm` and `net`"), "{said}");
}

#[test]
fn a_bench_of_two_processes_without_the_usual_providers_fails() {
    let (status, said) = output_with(("FI_PROVIDER", "nosuch"), &["bench", "--processes", "2"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("are not here") && said.contains("FI_PROVIDER=nosuch leaves out"), "{said}");
}

/// `shm` with a single receive cannot measure batches of messages. `tcp;ofi_rxm` does not read its
/// variable.
#[test]
fn a_usual_provider_that_fails_does_not_end_a_bench() {
    let run = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loom"));
        command.args(["bench", "--processes", "2", "--sizes", "8", "--iterations", "50", "--timeout", "5", "--json"]);
        let output = command.args(options).env("FI_SHM_RX_SIZE", "1").stdin(Stdio::null()).output();
        let Output { status, stdout, stderr } = output.unwrap();
        let (report, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
        assert_eq!(status.code(), Some(1), "{report}{stderr}");
        (serde_json::from_str::<Value>(&report).unwrap(), stderr)
    };
    let measured = |report: &Value| -> Vec<String> {
        let parts = report["providers"].as_array().unwrap().iter();
        let parts = parts.filter(|part| !part["results"].as_array().unwrap().is_empty());
        parts.map(|part| part["provider"].as_str().unwrap().to_owned()).collect()
    };
    let (report, stderr) = run(&[]);
    assert_eq!(measured(&report), ["tcp;ofi_rxm"], "{report}{stderr}");
    assert_eq!(stderr.matches("loom: shm: ").count(), 1, "{stderr}");
    assert!(stderr.contains(report["failure"].as_str().unwrap()), "{report}{stderr}");
    let (report, stderr) = run(&["--provider", "shm,tcp;ofi_rxm"]);
    assert_eq!(measured(&report), [""; 0], "{report}{stderr}");
}

#[test]
fn an_address_that_is_not_here_names_its_option() {
    for command in ["bench", "pingpong", "transfer"] {
        let arguments =
            [command, "--provider", "tcp;ofi_rxm", "--node", "1.2.3.4", "--sizes", "8", "--iterations", "50"];
        let (stdout, stderr) = said(1, &arguments);
        assert!(stdout.is_empty() && stderr.contains("--node"), "{stdout}{stderr}");
    }
}

#[test]
fn endpoints_in_shared_memory_refuse_an_address() {
    for command in ["bench", "pingpong", "transfer", "info"] {
        let (stdout, stderr) = said(1, &[command, "--provider", "shm", "--node", "127.0.0.1"]);
        assert!(stdout.is_empty(), "{command}: {stdout}");
        assert!(stderr.contains("have no address to choose; leave --node out"), "{command}: {stderr}");
        assert!(!stderr.contains("`listen`"), "{command}: {stderr}");
    }
}

#[test]
fn providers_are_chosen_alike_by_bench_and_pingpong() {
    let few = ["--sizes", "8", "--iterations", "50", "--json"];
    let names = |processes: &str| -> Vec<String> {
        let report = json(&[&["bench", "--processes", processes][..], &few].concat());
        let providers = report["providers"].as_array().unwrap();
        providers.iter().map(|it| it["provider"].as_str().unwrap().to_owned()).collect()
    };
    let one = names("1");
    assert!(one.first().unwrap() == "soft" && one.last().unwrap() == "tcp;ofi_rxm", "{one:?}");
    assert_eq!(names("2"), ["shm", "tcp;ofi_rxm"]);
    for arguments in [
        &["pingpong", "--provider", "tcp;ofi_rxm"][..],
        &["pingpong", "--provider", "tcp;ofi_rxm", "--transport", "libfabric"],
    ] {
        assert_eq!(json(&[arguments, &few].concat())["provider"], "tcp;ofi_rxm");
    }
    assert_eq!(json(&[&["pingpong", "--provider", "soft"][..], &few].concat())["provider"], "soft");
}

#[test]
fn transfers_verify_pages_and_count_their_arrival() {
    let file = scratch("transfer.svg");
    let few = ["transfer", "--sizes", "1K,64K", "--iterations", "20", "--json"];
    let wide = ["--windows", "1,8", "--rails", "1,2,4", "--svg", file.to_str().unwrap()];
    for (threads, place) in [("1", "one thread"), ("2", "two threads")] {
        let report = json(&[&few[..], &wide, &["--threads", threads]].concat());
        assert_eq!((&report["place"], &report["direction"]), (&place.into(), &"write".into()), "{report}");
        let rows = report["results"].as_array().unwrap();
        assert_eq!(rows.len(), 12, "{report}");
        for row in rows {
            assert_eq!((&row["verified_pages"], &row["pages_of_a_round"]), (&8.into(), &20.into()), "{row}");
            assert!(row["bytes_per_second"]["median"].as_f64().unwrap() > 0.0, "{row}");
        }
        // Verified pages, trials of twice a window, and 9 rounds, each page in one write.
        assert_eq!(report["writes_counted"], 12 * (8 + 9 * 20) + 6 * (2 + 16), "{report}");
    }
    assert_eq!(std::fs::read_to_string(file).unwrap().matches("<polyline").count(), 2 * 6);
    let report = json(&[&few[..], &["--read", "--provider", "tcp;ofi_rxm", "--rails", "2"]].concat());
    assert_eq!((&report["direction"], &report["writes_counted"]), (&"read".into(), &0.into()), "{report}");
    let (table, _) = said(0, &["transfer", "--sizes", "4M", "--windows", "3", "--rails", "3", "--iterations", "3"]);
    assert!(table.contains("GiB/s") && table.contains("3 pages verified, no byte wrong"), "{table}");
    // 4 pieces of 1 MiB of each page.
    assert!(table.contains(&format!("{} writes counted", 4 * (3 + 6 + 9 * 3))), "{table}");
}

#[test]
fn a_wrong_byte_of_a_page_is_found_by_its_target() {
    for direction in ["--write", "--read"] {
        for threads in ["1", "2"] {
            let few = ["--sizes", "64,4K", "--iterations", "9", "--rails", "2"];
            let wrong = [&["transfer", direction, "--corrupt", "100", "--threads", threads][..], &few].concat();
            assert!(said(1, &wrong).1.contains("pages of 4 KiB, round 0: byte 100 is"), "{direction} {threads}");
        }
    }
}

#[test]
fn transfers_run_between_two_processes_that_agree() {
    let play = |provider, listens: &[&str], connects: &[&str]| {
        let few = ["transfer", "--provider", provider, "--sizes", "4K", "--rails", "1,2", "--iterations", "9"];
        let mut listener = Command::new(env!("CARGO_BIN_EXE_loom"));
        listener.args(few).args(["--listen", "127.0.0.1:0"]).args(listens).stderr(Stdio::piped());
        let mut listener = listener.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(listener.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
        let output = loom(&[&few[..], &["--connect", address, "--json"], connects].concat());
        stderr.read_to_string(&mut line).unwrap();
        assert_eq!(listener.wait().unwrap().code(), output.status.code(), "{line}");
        (output, line)
    };
    for (provider, direction) in [("shm", "--write"), ("tcp;ofi_rxm", "--write"), ("tcp;ofi_rxm", "--read")] {
        let (output, listener) = play(provider, &[direction], &[direction]);
        assert!(output.status.success() && listener.contains("done"), "{output:?}{listener}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["place"], &report["provider"]), (&"two processes".into(), &provider.into()), "{report}");
        assert_eq!(report["results"].as_array().unwrap().len(), 4, "{report}");
    }
    let (output, listener) = play("tcp;ofi_rxm", &["--read"], &[]);
    assert!(!output.status.success() && listener.contains("different options"), "{output:?}{listener}");
}
