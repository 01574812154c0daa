//! Numbers of the vocabulary: its constants are compared by name with the headers of the bindings,
//! in both directions. Constants of newer headers are printed.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

use bitflags::Flags;
use loom_core::vocabulary::{
    Access, AddressFormat, AvType, BusType, Caps, CollectiveOp, CompOrder, CompletionFlags, Counted, CqDataEntry,
    CqEntry, CqErrEntry, CqFormat, CqMsgEntry, CqTaggedEntry, ENDPOINT_OPTIONS, EndpointType, Errno, EventKind,
    FabricAddr, HmemIface, LinkState, MemoryKey, Mode, MrFlags, MrMode, MsgOrder, OpFlags, ParamType, Progress,
    Protocol, ResourceMgmt, Threading, TrafficClass, WaitObj,
};

use loom_fabric::ofi::sys;

const BINDINGS: &str = include_str!(env!("LOOM_LIBFABRIC_BINDINGS"));

/// Second names of constants: the header's name, and the name of the number in the vocabulary.
const ALIASES: &[(&str, &str)] = &[
    ("FI_ATOMICS", "FI_ATOMIC"),
    ("FI_TRANSMIT", "FI_SEND"),
    ("FI_EVENT", "FI_COMPLETION"),
    ("FI_EWOULDBLOCK", "FI_EAGAIN"),
];

/// Numbers with one bit that are not flags of the vocabulary's types.
const ELSEWHERE: &[&str] = &[
    // Not flags.
    "FI_PROV_SPECIFIC",
    "FI_ERRNO_OFFSET",
    "FI_COLLECTIVE_OFFSET",
    "FI_LOG_PROV_FILTERED",
    "FI_MAJOR_VERSION",
    // Bits with different meanings in libfabric 1 and 2.
    "FI_VARIABLE_MSG",
    "FI_EXACT_DIRECTED_RECV",
    // Flags of fi_ep_bind and fi_getinfo.
    "FI_SELECTIVE_COMPLETION",
    "FI_PROV_ATTR_ONLY",
    "FI_NUMERICHOST",
    "FI_RESCAN",
    // Flags of address vectors.
    "FI_AUTH_KEY",
    "FI_SYMMETRIC",
    "FI_SYNC_ERR",
    "FI_FIREWALL_ADDR",
    "FI_UNIVERSE",
    "FI_BARRIER_SET",
    "FI_BROADCAST_SET",
    "FI_ALLTOALL_SET",
    "FI_ALLREDUCE_SET",
    "FI_ALLGATHER_SET",
    "FI_REDUCE_SCATTER_SET",
    "FI_REDUCE_SET",
    "FI_SCATTER_SET",
    "FI_GATHER_SET",
    // Flags of buffered receives and of fi_query_atomic.
    "FI_REG_MR",
    "FI_FETCH_ATOMIC",
    "FI_COMPARE_ATOMIC",
];

struct Constant {
    /// C's enumeration, or `u32` and `u64` for macros.
    of: &'static str,
    value: u64,
}

type Constants = BTreeMap<&'static str, Constant>;

/// Returns every `pub const FI_NAME : type = number ;`
fn header_constants() -> Constants {
    let mut constants = Constants::new();
    for item in BINDINGS.split("pub const ").skip(1) {
        let Some((declaration, _)) = item.split_once(';') else { continue };
        let Some((left, value)) = declaration.split_once('=') else { continue };
        let Some((name, of)) = left.split_once(':') else { continue };
        if let Ok(value) = value.trim().parse() {
            constants.insert(name.trim(), Constant { of: of.trim(), value });
        }
    }
    constants.retain(|name, _| name.starts_with("FI_"));
    constants
}

struct Comparison {
    header: Constants,
    /// Names in types of the vocabulary.
    known: BTreeSet<String>,
    wrong: Vec<String>,
    compared: usize,
}

impl Comparison {
    /// Compares a constant with the first candidate that the header has.
    fn compare(&mut self, group: &str, candidates: &[String], value: u64) {
        self.known.extend(candidates.iter().cloned());
        match candidates.iter().find_map(|name| self.header.get(name.as_str()).map(|found| (name, found))) {
            None => println!("{group}: {} is not in these headers", candidates.join(" or ")),
            // A constant that libfabric 2 has removed has no bits there.
            Some((name, found)) if found.value == 0 && value != 0 => println!("{group}: {name} is not any more"),
            Some((name, found)) => {
                self.compared += 1;
                if found.value != value {
                    self.wrong.push(format!("{group}: {name} is {:#x}, not {value:#x}", found.value));
                }
            }
        }
    }

    /// Compares a flag type. `prefixes` stand before the vocabulary's names in the header.
    fn flags<F: Flags>(&mut self, group: &str, prefixes: &[&str])
    where
        F::Bits: Into<u64>,
    {
        for flag in F::FLAGS.iter().filter(|flag| flag.is_named()) {
            let candidates: Vec<_> = prefixes.iter().map(|prefix| format!("{prefix}{}", flag.name())).collect();
            self.compare(group, &candidates, flag.value().bits().into());
        }
    }

    /// Compares an enumeration. In the header, its members have the same type as `member`.
    fn enumeration(&mut self, group: &str, named: &[(Option<&'static str>, u32)], member: &str, others: &[&str]) {
        let mut names = BTreeSet::new();
        for (name, value) in named {
            let name = format!("FI_{}", name.expect("a named value has a name"));
            self.compare(group, std::slice::from_ref(&name), u64::from(*value));
            names.insert(name);
        }
        let of = self.header.get(member).unwrap_or_else(|| panic!("{group}: no {member} in the headers")).of;
        for (name, constant) in &self.header {
            if constant.of == of && !names.contains(*name) && !others.contains(name) {
                self.wrong.push(format!("{group} lacks {name} = {}", constant.value));
            }
        }
    }

    /// Reports macros that `wanted` selects and no flag type has.
    fn all_known(&mut self, group: &str, others: &[&str], wanted: impl Fn(&str, &Constant) -> bool) {
        let mut looked_at = 0;
        for (name, constant) in &self.header {
            if !wanted(name, constant) || others.contains(name) {
                continue;
            }
            looked_at += 1;
            let listed = ALIASES.iter().find(|(alias, _)| alias == name).map_or(*name, |(_, listed)| *listed);
            if !self.known.contains(listed) {
                self.wrong.push(format!("{group} lacks {name} = {:#x}", constant.value));
            } else if self.header.get(listed).is_some_and(|found| found.value != constant.value) {
                self.wrong.push(format!("{name} is no second name of {listed}"));
            }
        }
        println!("{group}: {looked_at} constants of the headers looked for");
        assert!(looked_at > 0, "{group}: nothing of it in the headers");
    }
}

fn is_macro(constant: &Constant) -> bool {
    matches!(constant.of, "u32" | "u64" | "i32")
}

fn is_errno(name: &str, constant: &Constant) -> bool {
    let rest = name.strip_prefix("FI_E").unwrap_or_default();
    !rest.is_empty()
        && name["FI_".len()..].chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit())
        && (1..512).contains(&constant.value)
        && !matches!(name, "FI_ENABLE")
}

macro_rules! enumeration {
    ($comparison:expr, $Type:ident, $member:literal $(, except $other:literal)*) => {
        let named: Vec<_> = $Type::NAMED.iter().map(|value| (value.name(), value.as_raw())).collect();
        $comparison.enumeration(stringify!($Type), &named, $member, &[$($other),*]);
    };
}

#[test]
fn every_constant_has_the_headers_value() {
    let header = header_constants();
    println!("{} constants in the headers", header.len());
    let mut all = Comparison { header, known: BTreeSet::new(), wrong: Vec::new(), compared: 0 };

    enumeration!(all, Threading, "FI_THREAD_SAFE");
    enumeration!(all, Progress, "FI_PROGRESS_AUTO");
    enumeration!(all, ResourceMgmt, "FI_RM_ENABLED");
    enumeration!(all, AvType, "FI_AV_TABLE");
    // The second name of zero.
    enumeration!(all, BusType, "FI_BUS_PCI", except "FI_BUS_UNKNOWN");
    enumeration!(all, WaitObj, "FI_WAIT_NONE");
    enumeration!(all, CqFormat, "FI_CQ_FORMAT_CONTEXT");
    enumeration!(all, LinkState, "FI_LINK_UP");
    enumeration!(all, ParamType, "FI_PARAM_SIZE_T");
    enumeration!(all, EndpointType, "FI_EP_RDM");
    enumeration!(all, EventKind, "FI_CONNREQ");
    enumeration!(all, AddressFormat, "FI_FORMAT_UNSPEC");
    enumeration!(all, Protocol, "FI_PROTO_UNSPEC");
    enumeration!(all, HmemIface, "FI_HMEM_SYSTEM");
    enumeration!(all, CollectiveOp, "FI_BARRIER");
    // A bit that marks DSCP values, and the first number of the named classes less one.
    enumeration!(all, TrafficClass, "FI_TC_UNSPEC", except "FI_TC_DSCP", except "FI_TC_LABEL");

    all.flags::<MrFlags>("MrFlags", &["FI_", "FI_MR_"]);
    all.flags::<MrMode>("MrMode", &["FI_MR_"]);
    all.all_known("MrMode and MrFlags", &["FI_MR_UNSPEC", "FI_MR_COMPLETE"], |name, _| name.starts_with("FI_MR_"));
    all.flags::<MsgOrder>("MsgOrder", &["FI_ORDER_"]);
    all.flags::<CompOrder>("CompOrder", &["FI_ORDER_"]);
    all.all_known("MsgOrder and CompOrder", &["FI_ORDER_NONE"], |name, _| name.starts_with("FI_ORDER_"));
    all.compare("MsgOrder", &["FI_ORDER_NONE".into()], MsgOrder::NONE.bits());
    all.flags::<Caps>("Caps", &["FI_"]);
    all.flags::<Mode>("Mode", &["FI_"]);
    all.flags::<Counted>("Counted", &["FI_"]);
    all.flags::<Access>("Access", &["FI_"]);
    all.flags::<OpFlags>("OpFlags", &["FI_"]);
    all.flags::<CompletionFlags>("CompletionFlags", &["FI_"]);

    for (name, number) in ENDPOINT_OPTIONS {
        all.compare("EndpointOption", &[format!("FI_OPT_{name}")], u64::from(*number));
    }
    // A level, sizes that no provider has, and a structure.
    let others = ["ENDPOINT", "SEND_BUF_SIZE", "RECV_BUF_SIZE", "TX_SIZE", "RX_SIZE", "XPU_TRIGGER"]
        .map(|it| format!("FI_OPT_{it}"));
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    all.all_known("EndpointOption", &others, |name, _| name.starts_with("FI_OPT_") && !name.contains("EFA"));

    for number in 1..4096 {
        let errno = Errno::from_raw(number);
        if let Some(name) = errno.name() {
            all.compare("Errno", &[format!("FI_{name}")], u64::from(number.unsigned_abs()));
        }
    }
    all.all_known("Errno", &["FI_ERRNO_MAX"], is_errno);
    all.all_known("flags", ELSEWHERE, |name, constant| {
        is_macro(constant) && constant.value > 1 && constant.value.is_power_of_two() && !is_errno(name, constant)
    });

    println!("{} constants compared", all.compared);
    assert!(all.compared > 240, "only {} constants were compared", all.compared);
    assert!(all.wrong.is_empty(), "{}", all.wrong.join("\n"));
}

/// Compares macros with casts, which bindgen leaves out, with libfabric's own types.
#[test]
fn addresses_and_keys_have_libfabrics_width() {
    assert_eq!(size_of::<FabricAddr>(), size_of::<loom_fabric::ofi::sys::fi_addr_t>());
    assert_eq!(size_of::<MemoryKey>(), size_of::<u64>());
    assert_eq!(FabricAddr::UNSPEC.0, u64::MAX);
}

macro_rules! laid_out_alike {
    ($($Ours:ident is $theirs:ident { $($field:ident),+ })+) => {$({
        use loom_fabric::ofi::sys::$theirs as Theirs;
        let ours = [$((stringify!($field), offset_of!($Ours, $field), size_of_val(&$Ours::default().$field))),+];
        let theirs = [$((stringify!($field), offset_of!(Theirs, $field), size_of_val(&Theirs::default().$field))),+];
        assert_eq!(ours, theirs);
        assert_eq!(align_of::<$Ours>(), align_of::<Theirs>());
    })+};
}

#[test]
fn entries_of_queues_are_laid_out_alike() {
    laid_out_alike! {
        CqEntry is fi_cq_entry { op_context }
        CqMsgEntry is fi_cq_msg_entry { op_context, flags, len }
        CqDataEntry is fi_cq_data_entry { op_context, flags, len, buf, data }
        CqTaggedEntry is fi_cq_tagged_entry { op_context, flags, len, buf, data, tag }
        CqErrEntry is fi_cq_err_entry {
            op_context, flags, len, buf, data, tag, olen, err, prov_errno, err_data, err_data_size
        }
    }
    assert_eq!(size_of::<CqEntry>(), size_of::<sys::fi_cq_entry>());
    assert_eq!(size_of::<CqMsgEntry>(), size_of::<sys::fi_cq_msg_entry>());
    assert_eq!(size_of::<CqDataEntry>(), size_of::<sys::fi_cq_data_entry>());
    assert_eq!(size_of::<CqTaggedEntry>(), size_of::<sys::fi_cq_tagged_entry>());
    // Headers from 1.20 on have the last field, which is `src_addr`.
    let without = offset_of!(CqErrEntry, src_addr);
    assert!([without, size_of::<CqErrEntry>()].contains(&size_of::<sys::fi_cq_err_entry>()));
}

/// Checks that the comparison reports a wrong value, a missing constant and an unknown one.
#[test]
fn differences_are_noticed() {
    let constant = |value| Constant { of: "u32", value };
    let header = Constants::from([("FI_A", constant(2)), ("FI_B", constant(4))]);
    let mut all = Comparison { header, known: BTreeSet::new(), wrong: Vec::new(), compared: 0 };
    all.compare("test", &["FI_A".into()], 2);
    assert!(all.wrong.is_empty());
    all.compare("test", &["FI_A".into()], 3);
    assert_eq!(all.wrong.len(), 1);
    all.compare("test", &["FI_NEWER".into()], 8);
    assert_eq!((all.wrong.len(), all.compared), (1, 2));
    all.all_known("test", &[], |_, _| true);
    assert_eq!(all.wrong.len(), 2);
    assert!(all.wrong[1].contains("FI_B"));
}

/// The declarations of the loaded library.
const DECLARED: &str = include_str!("../../bindings/libfabric-1.17.rs");

/// Fields that later headers have in an anonymous union, between the same neighbours.
const IN_UNIONS: [&str; 2] = ["Offset of field: fi_domain_attr::data_progress", "Offset of field: fi_mr_attr::mr_iov"];

/// Sizes of structures, and offsets of their fields, as `bindgen` asserts them. Excludes anonymous
/// unions, which it numbers, and structures between providers, which loom does not use.
fn layouts(bindings: &str) -> BTreeMap<&str, usize> {
    let assertions = bindings.split("[\"").skip(1).filter_map(|item| item.split_once("\"]"));
    let number = |rest: &str| rest.split_once("- ")?.1.split_once("usize]")?.0.parse().ok();
    let is_left_out = |name: &str| ["__bindgen_ty_", "_peer", "_owner"].iter().any(|part| name.contains(part));
    let of_libfabric = |(name, _): &(&str, &str)| {
        !is_left_out(name)
            && ["Size of ", "Offset of field: "]
                .iter()
                .any(|kind| name.strip_prefix(kind).is_some_and(|of| of.starts_with("fi")))
    };
    assertions.filter(of_libfabric).filter_map(|(name, rest)| Some((name, number(rest)?))).collect()
}

/// Returns layouts that differ from the declared ones. Structures may be longer and have more
/// fields.
fn differences<'a>(declared: &BTreeMap<&'a str, usize>, found: &BTreeMap<&str, usize>) -> Vec<&'a str> {
    let differs = |(name, number): (&&'a str, &usize)| match found.get(name) {
        Some(longer) if name.starts_with("Size of ") => (longer < number).then_some(*name),
        Some(other) => (other != number).then_some(*name),
        None => (!IN_UNIONS.contains(name)).then_some(*name),
    };
    declared.iter().filter_map(differs).collect()
}

#[test]
fn structures_of_the_headers_begin_as_those_of_1_17() {
    let (declared, found) = (layouts(DECLARED), layouts(BINDINGS));
    assert!(declared.len() > 500, "{} layouts", declared.len());
    let appended: Vec<_> = found.keys().filter(|name| !declared.contains_key(*name)).collect();
    println!("not in 1.17: {appended:?}");
    assert_eq!(differences(&declared, &found), [""; 0]);
    // The control: a moved field, and a missing one.
    let mut others = found.clone();
    others.insert("Offset of field: fi_info::caps", 16);
    others.remove("Offset of field: fi_info::mode");
    others.insert("Size of fi_info", 8);
    let found = differences(&declared, &others);
    assert_eq!(found, ["Offset of field: fi_info::caps", "Offset of field: fi_info::mode", "Size of fi_info"]);
}
