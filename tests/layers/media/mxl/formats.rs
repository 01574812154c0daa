//! Flow definitions and target infos.

use loom_media::mxl::{BounceBuffer, FlowDefinition, FlowFormat, MxlError, TargetInfo};
use loom_media::{FlowLayout, GrainLayout, Rate, SampleLayout};

use super::{audio, definition, video};

const HISTORY: u64 = 200_000_000;

#[test]
fn definitions_have_the_sizes_of_mxl() {
    let video = |rest: &str| {
        let rest = format!(r#""format":"urn:x-nmos:format:video","frame_width":1920,"frame_height":1080,{rest}"#);
        FlowDefinition::parse(&definition(&rest)).unwrap()
    };
    for (rest, rate, (len, lines), slots) in [
        (r#""media_type":"video/v210","grain_rate":{"numerator":50,"denominator":2}"#, (25, 1), (5_529_600, 1080), 5),
        (
            r#""media_type":"video/v210a","grain_rate":{"numerator":30000,"denominator":1001}"#,
            (30_000, 1001),
            (8_294_400, 1080),
            5,
        ),
        (
            r#""media_type":"video/v210","grain_rate":{"numerator":25},"interlace_mode":"interlaced_tff""#,
            (50, 1),
            (2_764_800, 540),
            10,
        ),
    ] {
        let found = video(rest);
        let FlowLayout::Grains(layout, count) = found.layout(HISTORY).unwrap() else { panic!("{found:?}") };
        assert_eq!(
            (found.rate, layout.payload_len(), layout.slices, count),
            (Rate::new(rate.0, rate.1), len, lines, slots)
        );
        assert_eq!(layout.header, 8192);
        assert!(found.fits(&FlowLayout::Grains(layout.with_slot_align(1), 99)));
        assert!(!found.fits(&FlowLayout::Grains(layout.with_header(0), 5)));
        assert!(found.layout(HISTORY / 1000).is_err() && found.layout(u64::MAX).is_err());
    }
    let data = r#""format":"urn:x-nmos:format:data","media_type":"video/smpte291","grain_rate":{"numerator":60}"#;
    let data = FlowDefinition::parse(&definition(data)).unwrap().layout(HISTORY).unwrap();
    assert!(matches!(data, FlowLayout::Grains(layout, 12) if layout.len() == 12_288));
    let sound = FlowDefinition::parse(&audio()).unwrap();
    assert_eq!(sound.format, FlowFormat::Audio { channels: 2, word: 4 });
    let ring = SampleLayout { word: 4, channels: 2, period: 19_456, len: 19_456 };
    assert_eq!(sound.layout(HISTORY), Ok(FlowLayout::Samples(ring)));
    assert!(sound.fits(&FlowLayout::Samples(SampleLayout { period: 48, len: 96, ..ring })));
    assert!(!sound.fits(&FlowLayout::Samples(SampleLayout { channels: 3, ..ring })));
    assert!(sound.layout(u64::MAX).is_err());
}

#[test]
fn wrong_definitions_are_refused_by_their_key() {
    let group = "urn:x-nmos:tag:grouphint/v1.0";
    for (from, to, key) in [
        ("{", "", "JSON"),
        ("5fbec3b1", "5fbec3b", "id"),
        ("5fbec3b1-", "5fbec3b1+", "id"),
        ("197ed\"", "197ed0\"", "id"),
        ("a flow", "", "label"),
        ("\"a:b\"", "", group),
        ("\"a:b\"", "\"a:\"", group),
        ("\"a:b\"", "\"a:b:c\"", group),
        ("\"a:b\"", "7", group),
        ("format:video", "format:mux", "format"),
        ("video/v210", "video/raw", "media_type"),
        ("\"numerator\":25", "\"numerator\":0", "grain_rate"),
        ("\"numerator\":25", "\"numerator\":4294967296", "grain_rate"),
        ("\"denominator\":1", "\"denominator\":-1", "grain_rate"),
        (":96", ":1", "frame_width"),
        (":96", ":7681", "frame_width"),
        (":17", ":4321", "frame_height"),
        (":17", ":17,\"interlace_mode\":\"interlaced_bff\"", "frame_height"),
        (":17", ":17,\"interlace_mode\":7", "interlace_mode"),
    ] {
        let json = video().replacen(from, to, 1);
        assert_eq!(FlowDefinition::parse(&json), Err(MxlError::Definition(key)), "{json}");
    }
    for (from, to, key) in [
        ("\"channel_count\":2", "\"channel_count\":0", "channel_count"),
        ("\"bit_depth\":32", "\"bit_depth\":40", "bit_depth"),
        ("\"sample_rate\"", "\"rate\"", "sample_rate"),
    ] {
        assert_eq!(FlowDefinition::parse(&audio().replacen(from, to, 1)), Err(MxlError::Definition(key)));
    }
}

const REGION: &str = r#"{"addr":"139976062988288","len":"5537792","rkey":"10388505740678628654"}"#;

fn shm() -> String {
    format!(
        r#"{{"addressFormat":9,"fabricAddress":"Zmlfc2htOi8vbXhsdDI3NDA5OjA6MAA=","id":"4897904136796543443","provider":"shm","regions":[{REGION},{REGION}]}}"#
    )
}

fn sound() -> String {
    let regions = vec![r#"{"addr":"0","len":"3856","rkey":"18446744073709551615"}"#; 41].join(",");
    format!(
        r#"{{"addressFormat":2,"bounceBufferInfo":{{"entryCount":"41","entrySize":"3856"}},"fabricAddress":"AgCS838AAAEAAAAAAAAAAA==","id":"7","provider":"tcp","regions":[{regions}]}}"#
    )
}

#[test]
fn infos_of_mxl_are_parsed_and_written_with_the_same_bytes() {
    let info = TargetInfo::parse(&shm()).unwrap();
    assert_eq!(info.fabric_address, b"fi_shm://mxlt27409:0:0\0");
    assert_eq!(
        (info.id, info.regions.len(), info.regions[1].rkey),
        (4_897_904_136_796_543_443, 2, 10_388_505_740_678_628_654)
    );
    assert_eq!(info.to_string(), shm());
    let sample = TargetInfo::parse(&sound()).unwrap();
    assert_eq!(sample.bounce_buffer, Some(BounceBuffer { entry_count: 41, entry_size: 3856 }));
    assert_eq!(sample.to_string(), sound());
    // Slashes of base64 are escaped.
    let slashes = TargetInfo { fabric_address: vec![0xff; 16], address_format: 2, ..info.clone() };
    let json = slashes.to_string();
    assert!(json.contains(r#""fabricAddress":"\/\/\/\/\/\/\/\/\/\/\/\/\/\/\/\/\/\/\/\/\/w==""#), "{json}");
    assert_eq!(TargetInfo::parse(&json), Ok(slashes.clone()));
    assert_eq!(TargetInfo::parse(&json.replace("\\/", "/")), Ok(slashes));
    // Any order, spaces, unknown keys.
    let other = format!(
        r#"{{ "regions": [{REGION}, {REGION}], "version": {{"a": []}}, "provider": "shm", "id": "4897904136796543443",
            "fabricAddress": "Zmlfc2htOi8vbXhsdDI3NDA5OjA6MAA=", "addressFormat": 9 }}"#
    );
    assert_eq!(TargetInfo::parse(&other), Ok(info));
}

#[test]
fn infos_are_of_one_kind_of_flow() {
    let hd = FlowLayout::Grains(GrainLayout::v210(1920, 1080).with_header(8192), 9);
    let stereo = FlowLayout::Samples(SampleLayout { word: 4, channels: 2, period: 48, len: 96 });
    let (video, sound) = (TargetInfo::parse(&shm()).unwrap(), TargetInfo::parse(&sound()).unwrap());
    assert_eq!((video.fits(&hd), sound.fits(&stereo)), (Ok(()), Ok(())));
    let wrong_kind = Err(MxlError::TargetInfo("bounceBufferInfo"));
    assert_eq!((video.fits(&stereo), sound.fits(&hd)), (wrong_kind, wrong_kind));
    let small = FlowLayout::Grains(GrainLayout::v210(1280, 720).with_header(8192), 9);
    assert_eq!(video.fits(&small), Err(MxlError::TargetInfo("regions")));
    let seven = FlowLayout::Samples(SampleLayout { word: 4, channels: 7, period: 48, len: 96 });
    assert_eq!(sound.fits(&seven), wrong_kind);
}

#[test]
fn wrong_infos_are_refused_by_their_key() {
    let regions = format!("[{REGION},{REGION}]");
    for (from, to, key) in [
        ("{", "", "JSON"),
        (":9,", ":0,", "addressFormat"),
        (":9,", ":\"9\",", "addressFormat"),
        (":9,", ":5,", "addressFormat"),
        (":9,", ":2,", "fabricAddress"),
        ("Zmlf", "Zml", "fabricAddress"),
        ("Zmlfc2htOi8vbXhsdDI3NDA5OjA6MAA=", "", "fabricAddress"),
        ("\"4897904136796543443\"", "4897904136796543443", "id"),
        ("4897904136796543443", "+4897904136796543443", "id"),
        ("4897904136796543443", "18446744073709551616", "id"),
        ("\"provider\"", "\"other\"", "provider"),
        ("\"regions\"", "\"other\"", "regions"),
        (regions.as_str(), "[]", "regions"),
        ("5537792", "5537793", "regions"),
        ("139976062988288", "18446744073709551615", "regions"),
        ("139976062988288", "", "addr"),
        ("\"rkey\"", "\"key\"", "rkey"),
        ("\"id\"", r#""bounceBufferInfo":{"entryCount":"2","entrySize":"5537793"},"id""#, "bounceBufferInfo"),
        ("\"id\"", r#""bounceBufferInfo":{"entryCount":"3","entrySize":"5537792"},"id""#, "bounceBufferInfo"),
        ("\"id\"", r#""bounceBufferInfo":{"entryCount":"2"},"id""#, "entrySize"),
    ] {
        let json = shm().replacen(from, to, 1);
        assert_eq!(TargetInfo::parse(&json), Err(MxlError::TargetInfo(key)), "{json}");
    }
    let many = shm().replace(&regions, &format!("[{}]", vec![REGION; (1 << 16) + 1].join(",")));
    assert_eq!(TargetInfo::parse(&many), Err(MxlError::TargetInfo("regions")));
}
