//! Of a type of the program's, somebody has to say what its bits are.

#[derive(Clone, Copy)]
enum Kind {
    Part,
    Last,
}

loom_core::data_layout! {
    struct Part {
        transfer: u32 = 20,
        kind: Kind = 1,
    }
}

fn main() {
    let _ = [Kind::Part, Kind::Last];
}
