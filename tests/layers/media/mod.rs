//! Media flows: grains and samples from an initiator to targets that come, go, and fall behind.
//!
//! Faults of MXL's fabrics, by their numbers, and the tests that show loom without them (`m` is
//! `mxl::connections`, `c` is `mxl::connectionless`):
//!
//! | fault | tests |
//! |---|---|
//! | 1 parts without order | `grains::slices_become_valid_in_order_while_their_writes_overtake_each_other`, `samples::blocks_with_reordered_writes_are_whole_when_they_are_reported`, `c::bursts_of_slices_arrive_whole_and_in_order` |
//! | 2 a refused part, 3 failed writes | `grains::each_grain_is_complete_or_lapped_when_operations_fail`, `m::ends::a_wrong_key_ends_transfers_with_an_error`, `m::ends::a_target_that_hangs_delays_no_other` |
//! | 4 one receive for immediate data | `c::a_burst_without_polls_between_ends_in_one_poll`, `soft::modes::writes` of the core |
//! | 5 lapped without a report | `targets::a_stalled_target_keeps_its_grains_and_delays_no_other`, `m::a_slow_target_reports_each_grain_once_as_complete_or_lapped`, `fabrics::arrivals` of the package, `c::queues::a_target_that_overruns_its_queue_reports_it_and_delays_no_other` |
//! | 6 bad immediate data, 11 no header | `m::immediate_data_that_fits_no_grain_is_rejected_and_the_target_goes_on` |
//! | 7 another port, 13 no report of an end | `m::ends::an_initiator_connects_again_to_a_target_at_the_same_address` |
//! | 8 the listener is closed | `m::ends::a_second_initiator_is_rejected_until_the_first_one_leaves`, `m::ends::strangers_and_peers_that_die_while_connecting_do_not_close_the_target` |
//! | 9 lost in front of a shutdown, 14 lost by a removal | `m::ends::grains_sent_before_a_disconnection_are_reported_before_it`, `c::a_target_that_is_removed_under_load_has_each_grain_that_ends_well`, `targets::a_target_that_is_removed_under_load_ends_all_its_transfers` |
//! | 10 fewer valid slices | `grains::slices_become_valid_in_order_while_their_writes_overtake_each_other` |
//! | 12 a write of no bytes | `c::grains_arrive_whole_in_slices_and_as_headers` and `peers_in_c::a_target_in_c_receives_grains_slices_and_headers`: a header is one write |
//! | 15, 16, 18 memory of errors, states and closing | `targets::a_thousand_setups_and_teardowns_return_all_memory`, `c::a_thousand_targets_and_initiators_are_opened_and_closed`, `fault_injection` of the core, AddressSanitizer over all of these |
//! | 17 no node | `peers_in_c` over `shm`, in which loom has none |
//! | 19 `max_msg_size` | `transfer::moving`, in MXL's mode `fabrics::tests` of the package |
//! | 20 infos of another kind | `mxl::formats::wrong_infos_are_refused_by_their_key`, `m::targets_of_other_flows_providers_and_addresses_are_refused` |
//! | 21 headers of samples are reused | `samples_arrive_over_the_ends_of_both_rings`: each transfer has a block |
//! | 22, 26 one completion for each call, blocking progress | `c::queues::one_poll_completes_a_burst`, `m::ends::connections_and_idle_polls_take_less_time_than_those_of_mxl` |
//! | 23 readers | `rings`, `mxl::readers`, `mxl::files`, `mxl::fabric::grains_that_the_writer_overwrites_are_not_reported_as_sent_or_complete` |
//! | 24 allocation | the program `no_alloc` |
//! | 25 queues for one direction | all queues have both, `peers_in_c` over both versions |
//! | 27, 28 the demo | `peers_in_c` over `shm`, between two processes, `a_flow_of_mxl_goes_from_one_domain_to_another` of the command |

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod grains;
mod mxl;
mod random;
mod rings;
mod samples;
mod sequences;
mod targets;
mod world;

/// Checks that each error text has a remedy behind a colon, in lower case.
#[test]
fn errors_of_the_package_name_their_remedies() {
    let (mut folders, mut texts) = (vec![concat!(env!("CARGO_MANIFEST_DIR"), "/layers/media/src").into()], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir::<std::path::PathBuf>(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            for kind in ["Invalid(", "Flow(", "=>"] {
                for text in source.split(kind).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"')) {
                    let text = text.split('"').next().unwrap();
                    // The cause of a failed call follows in its message.
                    let is_sentence = text.contains(' ') && text != "a system call failed";
                    assert!(!is_sentence || text.contains(": "), "{}: {text}", path.display());
                    texts += usize::from(is_sentence);
                }
            }
        }
    }
    assert!(texts > 50, "{texts} texts");
}
