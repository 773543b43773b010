# Tests of processes that take long and are one more of a kind of which ./check --ci has another: ./check --long runs
# them. A name that no test has is an error.
set(SOAPSTONE_LONG_TESTS
  cluster.BrokenLinkTest.test_allreduce cluster.BrokenLinkTest.test_eager cluster.BrokenLinkTest.test_easgd
  cluster.BrokenLinkTest.test_localsgd cluster.BrokenLinkTest.test_softsync cluster.BrokenLinkTest.test_tree
  cluster.BrokenTeamLinkTest.test_shared_memory cluster.BrokenTeamLinkTest.test_zeromq
  cluster.DateJumpTest.test_shared_memory cluster.DateJumpTest.test_zeromq
  cluster.LaunchCiTest.test_ten_of_ten_end_well
  cluster.LostLinkCiTest.test_a_newcomer_that_does_not_reach_a_server
  cluster.LostLinkCiTest.test_of_two_workers_the_one_with_more_broken_links
  cluster.LostLinkCiTest.test_only_what_the_server_sends
  cluster.NonFiniteTest.test_one_odd_gradient_is_left_out
  cluster.StalledLinkTest.test_others_over_streams cluster.StalledLinkTest.test_others_over_zeromq
  cluster.StatusCiTest.test_a_loop_that_stands_still_is_told_within_a_minute
  cluster.StoppedNodeCiTest.test_a_peer_where_nobody_waits_for_another
  cluster.StoppedNodeCiTest.test_a_server_under_async
  cluster.TeamsCiTest.test_it_may_where_workers_keep_the_parameters
  cluster.TeamsCiTest.test_the_first_team_is_spared_as_the_last_is
  cluster.TeamsCiTest.test_under_bsp_a_lost_team_may_come_again
  cluster.ZooTrainingTest.test_rnnlm cluster.ZooTrainingTest.test_transformer_lm
  dashboard.DashboardCiTest.test_memory_is_flat
  durability.AlignedCiTest.test_no_update_is_lost_nor_applied_twice
  durability.BestTest.test_a_job_with_a_strategy
  durability.LeavingCiTest.test_a_stopped_server_and_no_checkpoint_in_time
  durability.LeavingCiTest.test_but_one_leave_at_once
  durability.ReplanCiTest.test_into_the_checkpoints_of_the_job durability.ReplanCiTest.test_what_passes_changes_nothing
  durability.ReplicasLongTest.test_fifty_servers_killed
  durability.StopCiTest.test_again_and_again_at_random_moments
  durability.TableResumeCiTest.test_each_model_of_tables_killed_at_random_moments
  durability.TableResumeCiTest.test_other_policies_go_on
  durability.ToldToEndCiTest.test_all_at_once_at_random_moments
  durability.ToldToEndCiTest.test_who_comes_again_has_not_asked
  launch.LongJobCiTest.test_a_job_of_more_than_a_minute
  strategy.PoliciesCiTest.test_averaging_with_split_parameters
  strategy.PoliciesCiTest.test_bits_of_the_others_that_have_one_hash
  strategy.PoliciesCiTest.test_of_peers_with_split_parameters
  strategy.PoliciesCiTest.test_of_servers_with_split_parameters
  strategy.PoliciesCiTest.test_of_servers_with_split_samples_too)

# Gives a test the label if it is one of them.
function(soapstone_long_test name)
  if(name IN_LIST SOAPSTONE_LONG_TESTS)
    set_tests_properties(${name} PROPERTIES LABELS long-cluster TIMEOUT 900)
    set_property(GLOBAL APPEND PROPERTY SOAPSTONE_LONG_TESTS_FOUND ${name})
  endif()
endfunction()

function(soapstone_check_long_tests)
  get_property(found GLOBAL PROPERTY SOAPSTONE_LONG_TESTS_FOUND)
  list(REMOVE_ITEM SOAPSTONE_LONG_TESTS ${found})
  if(SOAPSTONE_LONG_TESTS)
    message(FATAL_ERROR "tests/long_tests.cmake names tests that are not: ${SOAPSTONE_LONG_TESTS}")
  endif()
endfunction()
