//! Transfers over the software transport, also with faults, and over providers of libfabric.
//! Topology of machines.
//!
//! Jobs of other engines, and their tests:
//!
//! | job | test |
//! |---|---|
//! | list of interfaces | `cli/tests/command` |
//! | asynchronous ping-pong | `examples/async_pingpong.rs` |
//! | windows of pages | benchmark set `pages` |
//! | early and repeated counts, no order, receives of writes | [`faults`]`::when_the_count_is_reached_every_byte_has_arrived_in_any_order` |
//! | dropped futures, abandoned transfers | [`agent`]`::an_abandoned_transfer_goes_on_and_its_slot_returns` |
//! | topology from fixtures | [`topology`]`::eight_accelerators_have_four_of_thirty_two_cards_each` |
//! | single, paged, strided, subsets, blocks of 0 bytes, 1 to 4 rails in turn, reads, writes | [`moving`]`::all_plans_move_their_bytes_over_one_to_4_rails` |
//! | exact partition | `every_length_is_divided_exactly` in `layers/transfer/src/plan.rs`, fuzz target `transfer` |
//! | scatter, groups of peers, more than 256 peers | [`messages`]`::peers_far_beyond_the_address_vectors_take_turns_in_them` |
//! | one end after an error | [`faults`]`::a_failed_operation_ends_its_transfer_once_and_the_next_succeeds` |
//! | counters instead of callbacks, telemetry | [`agent`]`::many_threads_submit_to_one_agent_and_all_bytes_arrive` |
//! | prepared lists, posted again | [`moving`]`::a_request_is_submitted_again_from_its_outcome_without_a_walk_over_its_plan` |
//! | notifications after their data | [`messages`]`::notifications_follow_their_data_in_any_order_of_arrival` |
//! | notifications in fragments | [`messages`]`::notifications_of_all_lengths_follow_their_data` |
//! | handshake | [`hellos`]`::engines_that_do_not_fit_refuse_each_other_with_the_reason` |
//! | partial metadata | [`agent`]`::metadata_over_tcp_connects_agents_on_two_threads` |
//! | loopback | [`moving`]`::a_transfer_to_itself_is_a_copy_and_moves_all_bytes` |
//! | cancel | [`ends`]`::a_cancelled_transfer_ends_once_with_the_bytes_that_went_out` |
//! | a failed write ends the receiver's wait | [`waits`]`::a_failure_that_ended_no_wait_ends_later_ones_until_it_is_reported` |
//! | the rail's key, key 0 | [`ends`]`::keys_of_two_rails_in_the_wrong_order_fail_at_the_owner`, `every_key_is_kept_in_its_place` in `layers/transfer/src/remote.rs` |
//! | `FI_MORE` flushed on each rail | [`faults`]`::a_batch_that_is_refused_in_its_middle_is_flushed` |

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod agent;
mod ends;
mod faults;
mod hellos;
mod messages;
mod moving;
mod sides;
mod silence;
mod topology;
mod waits;
