//! Formats of MXL.

mod formats;

const ID: &str = "5fbec3b1-1b0f-417d-9059-8b94a47197ed";

fn definition(rest: &str) -> String {
    format!(r#"{{"id":"{ID}","label":"a flow","tags":{{"urn:x-nmos:tag:grouphint/v1.0":["a:b"]}},{rest}}}"#)
}

/// Five slots of 17 slices of 256 bytes.
fn video() -> String {
    definition(
        r#""format":"urn:x-nmos:format:video","media_type":"video/v210","grain_rate":{"numerator":25,"denominator":1},
        "frame_width":96,"frame_height":17"#,
    )
}

/// Two channels of 19,456 samples of 4 bytes.
fn audio() -> String {
    definition(
        r#""format":"urn:x-nmos:format:audio","sample_rate":{"numerator":48000},"channel_count":2,"bit_depth":32"#,
    )
}
