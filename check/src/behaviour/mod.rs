//! Tests of behaviour, written once and run on every machine.
//!
//! Each test is a function over a [`Machine`](crate::machine::Machine). `behaviours!` makes a
//! `#[test]` of each for one machine, so a new test needs one line in the list below and is then
//! run on all of them.

pub mod buddy;
pub mod cache;
pub mod depth;
pub mod fallback;
pub mod limits;
pub mod misuse;
pub mod numa;
pub mod script;
pub mod together;

/// Makes a test of each behaviour for a machine.
///
/// Tests of `one_model` are run by the machine as a whole; those of `many_models` begin a run for
/// each case, because CPUs work at the same time or because one run would be too long.
#[macro_export]
macro_rules! behaviours {
    ($machine:ty) => {
        $crate::behaviours!(@one_model $machine;
            buddy {
                pages_of_a_split_block_come_out_in_ascending_order
                the_smallest_fit_is_taken_from_the_head
                a_freed_block_is_reused_first
                buddies_merge_as_far_as_they_are_free
                merging_put_off_leaves_single_pages_apart
                pages_left_apart_join_when_a_larger_block_is_wanted
                merging_ends_at_the_largest_order
                a_block_that_will_soon_merge_goes_to_the_tail
                large_blocks_go_to_the_head
                pageblocks_of_different_types_merge
                isolated_blocks_stay_apart
                isolation_moves_free_pages
                isolation_cuts_larger_blocks
                isolation_reaches_pageblocks_at_the_edge
                pages_of_isolated_blocks_bypass_the_caches
            }
            fallback {
                whole_pageblocks_change_hands
                a_pageblock_that_is_half_free_is_claimed
                pages_alike_count_towards_a_claim
                lists_and_block_types_disagree_only_until_6_9
                a_failed_claim_takes_the_largest_then_the_smallest
                movable_requests_take_the_smallest_of_small_blocks
                each_type_has_its_order_of_preference
                a_refill_steals_page_by_page
                a_refill_goes_on_in_a_claimed_pageblock
                cma_is_for_movable_requests_only
                cma_goes_first_while_it_is_the_larger_half
                the_reserve_is_no_fallback
            }
            cache {
                a_refill_keeps_physical_order
                a_freed_page_is_taken_next
                refills_in_a_row_double
                a_refill_takes_what_there_is
                higher_orders_are_cached_since_5_14
                whole_pageblocks_are_cached
                a_bulk_request_is_served_from_one_list
                lent_pages_go_home
                bulk_frees_went_round_the_lists
                bulk_frees_empty_list_after_list
                bulk_frees_grow_by_the_rule_of_their_release
                a_run_of_high_order_frees_empties_the_cache
                reclaim_caps_a_cache
                a_disabled_cache_holds_nothing
                drains_of_others_were_queued
                drains_of_others_are_immediate_since_6_0
                an_idle_cache_decays
                a_quiet_remote_cache_expires
                a_high_fraction_fixes_the_limit
            }
            limits {
                pages_without_blocks_do_not_serve_an_order
                mixing_types_boosts_the_marks
                whole_pageblocks_boost_nothing
                nodes_are_asked_nearest_first
            }
            numa {
                allocations_count_as_hit_miss_foreign_local_other
                bulk_requests_count_each_page
            }
            misuse {
                every_kind_of_misuse_is_told_apart
                a_block_is_freed_once
                refused_frees_change_nothing
            }
        );
        $crate::behaviours!(@many_models $machine;
            depth {
                each_right_reaches_its_own_depth
                the_highest_zone_is_kept
                a_lower_zone_keeps_its_reserve
                the_reserve_grows_to_a_hundredth_and_is_given_back_last
                a_large_block_is_reserved_and_given_back_as_a_whole
            }
            together {
                no_count_is_lost_when_cpus_work_together
                two_cpus_take_and_free
                pages_come_home_from_another_cpu
                drains_do_not_lose_pages_of_a_working_cpu
            }
        );
    };
    (@one_model $machine:ty; $($module:ident { $($test:ident)+ })+) => {
        $(
            mod $module {
                $(
                    #[test]
                    fn $test() {
                        let test = $crate::behaviour::$module::$test::<$machine>;
                        <$machine as $crate::machine::Machine>::run(test);
                    }
                )+
            }
        )+
    };
    (@many_models $machine:ty; $($module:ident { $($test:ident)+ })+) => {
        $(
            mod $module {
                $(
                    #[test]
                    fn $test() {
                        $crate::behaviour::$module::$test::<$machine>();
                    }
                )+
            }
        )+
    };
}
