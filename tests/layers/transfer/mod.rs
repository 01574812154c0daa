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
//! | a signal with the last part | [`signals`]`::a_signal_arrives_once_after_all_bytes` |
//! | dropped futures, abandoned transfers | [`agent`]`::an_abandoned_transfer_goes_on_and_its_slot_returns` |
//! | topology from fixtures | [`topology`]`::eight_accelerators_have_four_of_thirty_two_cards_each` |
//! | single, paged, strided, subsets, blocks of 0 bytes, 1 to 4 rails in turn, reads, writes | [`moving`]`::all_plans_move_their_bytes_over_one_to_4_rails` |
//! | exact partition | `every_length_is_divided_exactly` in `layers/transfer/src/plan.rs`, fuzz target `transfer` |
//! | scatter | [`registrations`]`::a_scatter_reaches_its_peers_and_fails_for_the_removed_one_alone` |
//! | groups of peers, more than 256 peers | [`messages`]`::peers_far_beyond_the_address_vectors_take_turns_in_them` |
//! | one end after an error | [`faults`]`::a_failed_operation_ends_its_transfer_once_and_the_next_succeeds` |
//! | counters instead of callbacks, telemetry | [`agent`]`::many_threads_submit_to_one_agent_and_all_bytes_arrive` |
//! | prepared lists, posted again | [`moving`]`::a_request_is_submitted_again_from_its_outcome_without_a_walk_over_its_plan` |
//! | notifications after their data | [`messages`]`::notifications_follow_their_data_in_any_order_of_arrival` |
//! | notifications in fragments | [`messages`]`::notifications_of_all_lengths_follow_their_data` |
//! | handshake | [`hellos`]`::engines_that_do_not_fit_refuse_each_other_with_the_reason` |
//! | partial metadata | [`agent`]`::metadata_over_tcp_connects_agents_on_two_threads` |
//! | loopback | [`moving`]`::a_transfer_to_itself_is_a_copy_and_moves_all_bytes` |
//! | cancel | [`ends`]`::a_cancelled_transfer_ends_once_with_the_bytes_that_went_out` |
//!
//! Faults of other engines, and tests that would show them here:
//!
//! | fault | test |
//! |---|---|
//! | lost tail of a divided range | `every_length_is_divided_exactly` in `layers/transfer/src/plan.rs` |
//! | key or descriptor of another rail, key 0, keys cut to 32 bits | [`ends`]`::keys_of_two_rails_in_the_wrong_order_fail_at_the_owner`, `every_key_is_kept_in_its_place` in `layers/transfer/src/remote.rs` |
//! | success after an error, two errors of one transfer | [`faults`]`::a_failed_operation_ends_its_transfer_once_and_the_next_succeeds` |
//! | errors of a queue without an effect | [`faults`]`::a_failed_queue_ends_transfers_and_is_reported_once` |
//! | last writes of a rail that are never posted | [`faults`]`::announced_operations_are_flushed_on_each_rail` |
//! | registration by address alone | [`registrations`]`::memory_that_is_registered_again_has_its_new_length_and_access` |
//! | success of a copy that was not done | [`moving`]`::a_transfer_to_itself_is_a_copy_and_moves_all_bytes` |
//! | memory freed under operations | [`ends`]`::memory_in_use_is_not_deregistered`, [`faults`]`::an_engine_is_dropped_amid_operations` |
//! | endless "try again" | [`ends`]`::a_deadline_ends_a_transfer_and_counts_its_operations_in_flight` |
//! | a receiver that waits for a failed write | [`waits`]`::a_failed_transfer_ends_the_waits_for_its_value` |
//! | arrivals before the wait, several waiters | [`faults`]`::when_the_count_is_reached_every_byte_has_arrived_in_any_order` |
//! | notifications doubled, mixed or ahead of their data | [`messages`]`::notifications_follow_their_data_in_any_order_of_arrival`, [`messages`]`::many_transfers_share_few_numbers` |
//! | credits lost when a receive is refused | [`messages`]`::released_numbers_return_together_and_at_once_to_a_peer_that_waits` |
//! | a panic or a gone peer that ends the worker | [`agent`]`::a_plan_that_panics_ends_its_transfer_alone`, [`ends`]`::a_removed_peer_ends_its_transfers_and_others_continue` |
//! | calls that wait for each other | [`agent`]`::calls_on_the_threads_of_agents_do_not_wait_for_themselves` |
//! | set-up that starves while both sides wait | [`agent`]`::metadata_over_tcp_connects_agents_on_two_threads` |
//! | addresses that are never removed | [`ends`]`::peers_come_and_go_beyond_the_number_of_slots` |

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod agent;
mod ends;
mod faults;
mod hellos;
mod messages;
mod moving;
mod registrations;
mod sides;
mod signals;
mod silence;
mod topology;
mod waits;
