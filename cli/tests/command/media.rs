//! Media flows, and flows of MXL.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};

use loom_media::mxl::{FlowReader, FlowWriter};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{json, loom, said, scratch};

/// Smaller sizes, for a program without optimisation.
const FEW: [&str; 8] = ["media", "send", "--video", "192x108@50", "--seconds", "1", "--slices", "3"];

fn is_present(provider: &str) -> bool {
    let is_present = loom(&["info", "--provider", provider]).status.success();
    if !is_present {
        eprintln!("skipped: libfabric has no {provider}");
    }
    is_present
}

fn flows(report: &Value) -> Vec<&Value> {
    let targets = report["targets"].as_array().unwrap().iter();
    targets.flat_map(|target| target["flows"].as_array().unwrap()).collect()
}

#[test]
fn media_flows_are_verified_by_each_target() {
    let files = [scratch("frame.png"), scratch("tone.wav")];
    let [png, wav] = files.each_ref().map(|file| file.to_str().unwrap());
    for (provider, audio) in
        [("soft", "8@48000"), ("loom-tcp", "2@48000"), ("shm", "2@48000"), ("tcp;ofi_rxm", "2@48000")]
    {
        let options = ["--provider", provider, "--audio", audio, "--block", "480", "--targets", "2", "--json"];
        let report = json(&[&FEW[..], &options, &["--png", png, "--wav", wav]].concat());
        assert_eq!((&report["provider"], flows(&report).len()), (&provider.into(), 4), "{report}");
        for flow in flows(&report) {
            let number = |name: &str| flow[name].as_u64().unwrap_or_else(|| panic!("{name}: {flow}"));
            assert!(number("complete") > 0 && number("wrong") == 0, "{provider}: {report}");
            assert!(flow["lapped"].is_u64(), "{provider}: {report}");
        }
        let [png, wav] = files.each_ref().map(|file| std::fs::read(file).unwrap());
        assert_eq!(png[16..24], [192_u32.to_be_bytes(), 108_u32.to_be_bytes()].concat());
        let channels = audio.split('@').next().unwrap().parse::<u8>().unwrap();
        assert_eq!((&wav[..4], wav[22]), (&b"RIFF"[..], channels));
        assert!(wav.len() > 480 * 4 * usize::from(channels));
    }
}

#[test]
fn an_interrupted_flow_ends_at_its_targets_and_prints_arrivals() {
    for provider in ["soft", "loom-tcp", "shm", "tcp;ofi_rxm"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loom"));
        command.args(["media", "send", "--video", "192x108@50", "--audio", "none", "--seconds", "600"]);
        let mut child = command.args(["--provider", provider]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().contains("loom media: video 192x108@50"));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let rest: Vec<_> = lines.map(Result::unwrap).collect();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{provider}: {rest:?}");
    }
}

#[test]
fn a_wrong_byte_of_a_frame_is_found_by_its_target() {
    for provider in ["soft", "shm"] {
        let wrong = ["--provider", provider, "--audio", "none", "--corrupt", "1000"];
        assert!(said(1, &[&FEW[..], &wrong].concat()).1.contains("1 of video have wrong bytes"), "{provider}");
    }
}

#[test]
fn media_flows_go_on_when_targets_are_killed_and_started() {
    for provider in ["soft", "loom-tcp", "tcp;ofi_rxm"] {
        let options = ["--provider", provider, "--targets", "2", "--kill-after", "0.8", "--audio", "none"];
        let options = [&options[..], &["--json"]].concat();
        let report = json(&[&["media", "send", "--video", "192x108@50", "--seconds", "3"], &options[..]].concat());
        let number = |of: &Value, name: &str| of[name].as_u64().unwrap();
        assert!(number(&report, "frames_sent") > 0, "{provider}: {report}");
        assert!(flows(&report).iter().all(|flow| number(flow, "wrong") == 0), "{provider}: {report}");
        assert!(flows(&report).iter().any(|flow| number(flow, "complete") > 0), "{provider}: {report}");
        assert!(report["targets"].as_array().unwrap().iter().all(|target| number(target, "number") > 2), "{report}");
        // The second target comes too late.
        let late = ["media", "send", "--video", "192x108@1", "--slices", "1", "--audio", "none"];
        let late = [&late[..], &["--seconds", "0.11", "--kill-after", "0.1", "--provider", provider]].concat();
        assert!(said(1, &late).1.contains("no video arrived"), "{provider}");
    }
    let refused = [&FEW[..], &["--provider", "shm", "--kill-after", "1"]].concat();
    assert!(said(1, &refused).1.contains("other peers of shm may not survive"));
}

#[test]
fn raw_frames_from_a_file_arrive_at_a_listening_process() {
    let (raw, png) = (scratch("frames.v210"), scratch("raw.png"));
    // Two frames of 192 by 108 in white: all components of 10 bits.
    let white = [0x200_u32 | 940 << 10 | 0x200 << 20, 940 | 0x200 << 10 | 940 << 20].map(u32::to_le_bytes).concat();
    std::fs::write(&raw, white.repeat(2 * 512 * 108 / 8)).unwrap();
    for provider in ["loom-tcp", "tcp;ofi_rxm"] {
        let receive = ["media", "receive", "--provider", provider, "--listen", "127.0.0.1:0", "--png"];
        let mut listener = Command::new(env!("CARGO_BIN_EXE_loom"));
        listener.args(receive).arg(&png).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut listener = listener.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(listener.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
        let to = ["--provider", provider, "--to", address, "--audio", "none", "--raw", raw.to_str().unwrap()];
        said(0, &[&FEW[..], &to].concat());
        let output = listener.wait_with_output().unwrap();
        let table = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && table.contains("video") && table.contains("lapped"), "{table}");
        assert!(std::fs::metadata(&png).unwrap().len() > 100);
    }
    let wrong = [&FEW[..], &["--raw", "/proc/self/exe"]].concat();
    assert!(said(1, &wrong).1.contains("not frames of 55296"));
}

#[test]
fn a_flow_of_mxl_goes_from_one_domain_to_another() {
    const ID: &str = "5fbec3b1-1b0f-417d-9059-8b94a47197ed";
    let video = r#""format":"urn:x-nmos:format:video","media_type":"video/v210","grain_rate":{"numerator":50},
        "frame_width":96,"frame_height":17"#;
    let audio =
        r#""format":"urn:x-nmos:format:audio","sample_rate":{"numerator":48000},"channel_count":2,"bit_depth":32"#;
    let mut runs = vec![
        (video, "tcp", "loom-tcp"),
        (audio, "loom-tcp", "tcp"),
        (video, "tcp", "tcp"),
        (audio, "loom-tcp", "loom-tcp"),
    ];
    if is_present("shm") {
        runs.extend([(video, "shm", "shm"), (audio, "shm", "shm")]);
    }
    for (format, from_provider, to_provider) in runs {
        let [from, to] =
            ["from", "to"].map(|name| Path::new("/dev/shm").join(format!("loom-{name}-{}", process::id())));
        for folder in [&from, &to] {
            std::fs::create_dir(folder).unwrap();
        }
        let definition =
            format!(r#"{{"id":"{ID}","label":"a","tags":{{"urn:x-nmos:tag:grouphint/v1.0":["a:b"]}},{format}}}"#);
        let file = scratch("flow.json");
        std::fs::write(&file, &definition).unwrap();
        let mut writer = FlowWriter::create(&from, &definition).unwrap();
        let loom = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_loom"));
            command.arg("mxl").args(arguments).args(["--seconds", "60"]).stdin(Stdio::null());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let [from_text, to_text] = [&from, &to].map(|folder| folder.to_str().unwrap());
        let mut receiver = loom(&[
            "receive",
            "--domain",
            to_text,
            "--definition",
            file.to_str().unwrap(),
            "--once",
            "--provider",
            to_provider,
        ]);
        let mut lines = BufReader::new(receiver.stdout.take().unwrap()).lines();
        let info = scratch("info.json");
        std::fs::write(&info, lines.next().unwrap().unwrap()).unwrap();
        let sender = loom(&[
            "send",
            "--domain",
            from_text,
            "--flow",
            ID,
            "--info",
            info.to_str().unwrap(),
            "--provider",
            from_provider,
        ]);
        let reader = FlowReader::open(&to, ID.parse().unwrap()).unwrap();
        let (begin, mut arrived) = (Instant::now(), 0);
        for index in 1_u64.. {
            let value = index.to_le_bytes()[0];
            assert!(begin.elapsed() < Duration::from_secs(60), "{arrived} of 10 arrived");
            if format == video {
                writer.grain(index).unwrap().copy_from(8192, &[value; 17 * 256]).unwrap();
                writer.commit_grain(index, 17, false).unwrap();
                let mut slot = vec![0; 8192 + 17 * 256];
                let read = reader.read_grain(index, 17, &mut slot, Duration::from_millis(20));
                if read.is_ok_and(|header| header.index == index) {
                    assert!(slot[8192..].iter().all(|byte| *byte == value));
                    arrived += 1;
                }
            } else {
                let start = 480 * index;
                writer.samples().unwrap().copy_from(1, start, &[value; 4 * 480]).unwrap();
                writer.commit_samples(start, 480).unwrap();
                let mut samples = vec![0; 4 * 480];
                if reader.read_samples(1, start, &mut samples, Duration::from_millis(20)).is_ok() {
                    assert!(samples.iter().all(|byte| *byte == value));
                    arrived += 1;
                }
            }
            if arrived == 10 {
                break;
            }
        }
        drop(writer);
        let output = sender.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        if to_provider == "shm" {
            kill_process(Pid::from_child(&receiver), Signal::INT).unwrap();
        }
        let figures = lines.next().unwrap().unwrap();
        let complete: u64 = figures.split(' ').next().unwrap().parse().unwrap();
        let expected = if format == video { 10 } else { 4800 };
        assert!(complete >= expected && figures.ends_with(" 0 invalid, 0 lost"), "{figures}");
        let status = receiver.wait().unwrap().code();
        assert_eq!(status, Some(if to_provider == "shm" { 130 } else { 0 }));
        std::fs::remove_dir(&from).unwrap();
        std::fs::remove_dir(&to).unwrap();
    }
    let port =
        ["mxl", "receive", "--domain", "/dev/shm", "--definition", "flow.json", "--provider", "shm", "--port", "9"];
    assert!(said(2, &port).1.contains("have no address to choose"));
    let unknown = ["mxl", "send", "--domain", "/dev/shm", "--flow", ID, "--info", "/dev/null"];
    assert!(said(1, &unknown).1.contains("opening the flow"));
}

#[test]
fn flows_of_mxl_to_silent_or_killed_peers_end_with_their_losses() {
    const ID: &str = "5fbec3b1-1b0f-417d-9059-8b94a47197ed";
    let definition = format!(
        r#"{{"id":"{ID}","label":"a","tags":{{"urn:x-nmos:tag:grouphint/v1.0":["a:b"]}},
        "format":"urn:x-nmos:format:video","media_type":"video/v210","grain_rate":{{"numerator":50}},
        "frame_width":96,"frame_height":17}}"#
    );
    let [from, to] =
        ["lost", "lost-to"].map(|name| Path::new("/dev/shm").join(format!("loom-{name}-{}", process::id())));
    for folder in [&from, &to] {
        std::fs::create_dir(folder).unwrap();
    }
    let (file, info) = (scratch("lost-flow.json"), scratch("lost-info.json"));
    std::fs::write(&file, &definition).unwrap();
    let mut writer = FlowWriter::create(&from, &definition).unwrap();
    let [from_text, to_text, file, info] = [&from, &to, &file, &info].map(|path| path.to_str().unwrap());
    let loom = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loom"));
        command.arg("mxl").args(arguments).args(["--seconds", "60", "--provider", "loom-tcp"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let receive = |options: &[&str]| {
        let mut receiver = loom(&[&["receive", "--domain", to_text, "--definition", file][..], options].concat());
        let mut lines = BufReader::new(receiver.stdout.take().unwrap()).lines();
        std::fs::write(info, lines.next().unwrap().unwrap()).unwrap();
        (receiver, lines)
    };
    let send = ["send", "--domain", from_text, "--flow", ID, "--info", info];

    let (mut receiver, mut figures) = receive(&["--once", "--silence", "1"]);
    let mut sender = loom(&send);
    assert_eq!(figures.next().unwrap().unwrap(), "0 grains, 0 invalid, 0 lost");
    assert!(receiver.wait().unwrap().success());
    sender.kill().unwrap();
    sender.wait().unwrap();

    let (mut receiver, _) = receive(&[]);
    let mut sender = loom(&send);
    let mut errors = BufReader::new(sender.stderr.take().unwrap()).lines();
    assert_eq!(errors.next().unwrap().unwrap(), "connected");
    receiver.kill().unwrap();
    receiver.wait().unwrap();
    errors.next().unwrap().unwrap();
    for index in 1..=5 {
        writer.commit_grain(index, 17, false).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let unreached = loom(&[&send[..], &["--wait", "1"]].concat()).wait_with_output().unwrap();
    drop(writer);
    let output = sender.wait_with_output().unwrap();
    let figures = String::from_utf8(output.stdout).unwrap();
    assert!(figures.starts_with("0 grains, 0 invalid, ") && !figures.contains(" 0 lost"), "{figures}");
    assert_eq!(output.status.code(), Some(1), "{figures}");
    let text = String::from_utf8(unreached.stderr).unwrap();
    assert!(unreached.status.code() == Some(1) && text.contains("no target was reached"), "{text}");
    std::fs::remove_dir_all(&from).unwrap();
    std::fs::remove_dir_all(&to).unwrap();
}

#[test]
fn media_formats_that_cannot_be_are_named() {
    for (options, why) in [
        (&["--video", "0x1@1"][..], "video is like 1920x1080@60"),
        (&["--audio", "65@48000"], "audio is like 2@48000"),
        (&["--video", "none", "--audio", "none"], "there is no flow"),
        (&["--video", "192x4@50", "--slices", "5"], "--slices has at most"),
        (&["--corrupt", "5529600"], "below 5529600"),
        (&["--audio", "none", "--wav", "x"], "--wav is for audio"),
        (&["--png", "x", "--kill-after", "1"], "not with --kill-after"),
        (&["--to", "127.0.0.1:1"], "the software transport lives in the memory of one process"),
    ] {
        let arguments = [&["media", "send"][..], options].concat();
        assert!(said(2, &arguments).1.contains(why), "{options:?}");
    }
    assert!(said(2, &["media", "receive"]).1.contains("--provider takes another one"));
    assert!(said(1, &["media", "send", "--provider", "no-such"]).1.contains("no provider `no-such`"));
}
