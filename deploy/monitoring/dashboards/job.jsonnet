// How the job is: how far, how fast, and whether all of it is there.
local b = import 'board.libsonnet';

b.board('job', 'job', [
  [
    b.number('Phase', b.of('soapstone_job_phase') + ' == 1', legend='{{phase}}'),
    b.number('Ended with', b.of('soapstone_job_end_code')),
    b.number('Clock of the slowest worker', b.of('soapstone_job_clocks')),
    b.number('Clocks of a worker', b.of('soapstone_job_clocks_target')),
    b.number('To go', b.of('soapstone_job_remaining_seconds'), 's'),
    b.number('Nodes', b.of('soapstone_job_members'), legend='{{role}}s'),
    b.number('Job', b.of('soapstone_job_info', 'role="scheduler"'), legend='{{model}}, {{policy}}'),
    b.number('Security', 'count by (encryption, authentication) (%s)' % b.of('soapstone_security_info'), legend='{{encryption}}, {{authentication}}'),
    b.number('Program', 'count by (version) (%s)' % b.of('soapstone_build_info'), legend='{{version}}'),
  ],
  [
    b.lines('Samples a second', [[b.rate('soapstone_job_samples_total'), 'samples']]),
    b.lines('Loss', [[b.of('soapstone_job_loss'), 'loss']]),
    b.lines('Clocks since the newest checkpoint', [
      [b.of('soapstone_job_clocks') + ' - ' + b.of('soapstone_checkpoint_clock'), 'since the newest'],
      [b.of('soapstone_checkpoint_interval_clocks'), 'from one to the next'],
    ]),
    b.lines('Replicas lost', [[b.of('soapstone_replicas_missing'), 'replicas']]),
    b.lines('Nodes that take part', [[b.of('soapstone_job_members'), '{{role}}s']]),
  ],
  [
    b.lines('Processors', [[b.rate('process_cpu_seconds_total'), '{{instance}}']]),
    b.lines('Resident memory', [[b.of('process_resident_memory_bytes'), '{{instance}}']], 'bytes'),
    b.lines('Up for', [['time() - ' + b.of('process_start_time_seconds'), '{{instance}}']], 's'),
  ],
  [
    b.lines('Longest without a heartbeat', [[b.of('soapstone_heartbeat_gap_seconds'), '{{instance}}']], 's'),
    b.lines('Late heartbeats a second', [[b.rate('soapstone_heartbeats_late_total'), '{{instance}}']]),
    b.lines('Turns of the loop, 99 of 100', [[b.quantile(0.99, 'soapstone_loop_turn_seconds', 'instance'), '{{instance}}']], 's'),
    b.lines('Guarantee broken', [
      [b.of('soapstone_shard_violations_total'), 'shard {{shard}}'],
      [b.of('soapstone_violations_total'), '{{instance}}'],
    ]),
  ],
])
