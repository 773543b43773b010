// How the workers get on: who is ahead, who is slow, and what their time goes to.
local b = import 'board.libsonnet';

local share = 'avg by (cause) (%s)' % b.rate('soapstone_worker_time_seconds_total');

b.board('worker', 'workers', [
  [
    b.lines('Clocks', [[b.of('soapstone_worker_clocks'), 'worker {{worker}}']]),
    b.lines('Clocks ahead of the slowest', [[
      '%s - on (job) group_left () min by (job) (%s)' % [b.of('soapstone_worker_clocks'), b.of('soapstone_worker_clocks')],
      'worker {{worker}}',
    ]]),
  ],
  [
    b.lines('Samples a second', [[b.rate('soapstone_worker_samples_total'), 'worker {{worker}}']], stacked=true),
    b.lines('Own time a step over the median', [[b.of('soapstone_worker_slowdown_ratio'), 'worker {{worker}}']]),
  ],
  [
    b.lines('Time of a worker, on average', [[share, '{{cause}}']], 'percentunit', stacked=true),
    b.lines('Waiting for the policy', [[
      b.rate('soapstone_worker_time_seconds_total', 'cause="policy"'),
      'worker {{worker}}',
    ]], 'percentunit'),
  ],
  [
    b.lines('Steps a second, as workers say', [[b.rate('soapstone_clocks_total'), '{{instance}}']]),
    b.lines('Samples a second, as workers say', [[b.rate('soapstone_samples_total'), '{{instance}}']]),
    b.lines('Time, as workers say', [['sum by (cause) (%s)' % b.rate('soapstone_time_seconds_total'), '{{cause}}']], stacked=true),
  ],
  [
    b.number('Workers without series of their own', b.of('soapstone_workers_omitted')),
    b.number('Steps not made', 'sum by (job) (%s)' % b.of('soapstone_skipped_steps_total')),
    b.number('Updates left out', 'sum by (job) (%s)' % b.of('soapstone_left_out_updates_total')),
  ],
])
