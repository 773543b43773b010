// How the shards serve: what becomes of updates, how stale reads are, and who waits.
local b = import 'board.libsonnet';

local mean(series) = 'sum by (shard) (%s) / sum by (shard) (%s)' % [b.rate(series + '_sum'), b.rate(series + '_count')];

b.board('shard', 'shards', [
  [
    b.lines('Updates a second, by outcome', [[
      'sum by (outcome) (%s)' % b.rate('soapstone_shard_updates_total'),
      '{{outcome}}',
    ]], stacked=true),
    b.lines('Updates applied a second', [[
      b.rate('soapstone_shard_updates_total', 'outcome="applied"'),
      'shard {{shard}}',
    ]]),
  ],
  [
    b.heat('Reads by lag, clocks', 'soapstone_shard_read_lag_clocks'),
    b.lines('Lag of reads, clocks', [
      [b.quantile('0.99', 'soapstone_shard_read_lag_clocks', 'shard'), 'shard {{shard}}, 99%'],
      [mean('soapstone_shard_read_lag_clocks'), 'shard {{shard}}, mean'],
    ]),
  ],
  [
    b.heat('Updates by staleness, clocks', 'soapstone_shard_update_staleness_clocks'),
    b.lines('Staleness of updates, clocks', [
      [b.quantile('0.99', 'soapstone_shard_update_staleness_clocks', 'shard'), 'shard {{shard}}, 99%'],
      [mean('soapstone_shard_update_staleness_clocks'), 'shard {{shard}}, mean'],
    ]),
  ],
  [
    b.lines('Frontier, clocks', [[b.of('soapstone_shard_frontier_clocks'), 'shard {{shard}}']]),
    b.lines('Reads that wait for the policy', [[b.of('soapstone_shard_parked_pulls'), 'shard {{shard}}']]),
  ],
  [
    b.lines('Updates held', [[b.of('soapstone_shard_held_bytes'), 'shard {{shard}}']], 'bytes'),
    b.lines('Resident memory of servers', [[
      '%s and on (job, instance) %s' % [b.of('process_resident_memory_bytes'), b.of('soapstone_job_info', 'role="server"')],
      '{{instance}}',
    ]], 'bytes'),
  ],
])
