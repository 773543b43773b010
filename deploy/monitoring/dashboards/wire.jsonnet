// What goes between the nodes: how many bytes and what for, what waits, and what was not taken.
local b = import 'board.libsonnet';

local summed(by, series) = 'sum by (%s) (%s)' % [by, b.rate(series)];

b.board('wire', 'wire', [
  [
    b.lines('Sent, by what it is for', [[summed('cause', 'soapstone_sent_bytes_total'), '{{cause}}']], 'Bps', stacked=true),
    b.lines('Received, by what it is for', [[summed('cause', 'soapstone_received_bytes_total'), '{{cause}}']], 'Bps', stacked=true),
  ],
  [
    b.lines('Sent, by node', [[summed('instance', 'soapstone_sent_bytes_total'), '{{instance}}']], 'Bps'),
    b.lines('Received, by node', [[summed('instance', 'soapstone_received_bytes_total'), '{{instance}}']], 'Bps'),
  ],
  [
    b.lines('Through shared memory, of what is sent', [[
      '%s / %s' % [summed('instance', 'soapstone_shared_bytes_total'), summed('instance', 'soapstone_sent_bytes_total')],
      '{{instance}}',
    ]], 'percentunit'),
    b.lines('Waiting to be taken', [[b.of('soapstone_queued_bytes'), '{{instance}}']], 'bytes'),
  ],
  [
    b.lines('Messages a second', [
      [b.rate('soapstone_sent_messages_total'), '{{instance}} sent'],
      [b.rate('soapstone_received_messages_total'), '{{instance}} received'],
    ]),
    b.lines('Messages not taken', [
      [b.of('soapstone_rejected_messages_total'), '{{instance}} rejected'],
      [b.of('soapstone_dropped_messages_total'), '{{instance}} dropped'],
    ]),
  ],
  [
    b.lines('Strangers', [[b.of('soapstone_strangers_total'), '{{instance}}']]),
    b.lines('Connections that failed their proof', [[
      'sum by (cause) (%s)' % b.of('soapstone_proof_faults_total'),
      '{{cause}}',
    ]]),
    b.lines('Connections that failed in the handshake', [[
      'sum by (cause) (%s)' % b.of('soapstone_handshake_failures_total'),
      '{{cause}}',
    ]]),
    b.lines('Open descriptors', [[b.of('process_open_fds'), '{{instance}}']]),
  ],
])
