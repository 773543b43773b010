// What the dashboards are made of: series of chosen jobs, panels, and rows of them, as Grafana reads them.
//   job.jsonnet and its neighbours import it; each prints one dashboard.
local chosen = 'job=~"$job"';
local source = { type: 'prometheus', uid: '${source}' };

{
  // A series of the jobs that are chosen above the panels; `labels` such as 'role="server"'.
  of(series, labels=''):: '%s{%s%s}' % [series, chosen, if labels == '' then '' else ', ' + labels],
  // How much of it there was in a second.
  rate(series, labels=''):: 'rate(%s[$__rate_interval])' % self.of(series, labels),
  // What so many of a histogram's numbers are at most, by these labels.
  quantile(q, series, by):: 'histogram_quantile(%s, sum by (le, %s) (%s))' % [q, by, self.rate(series + '_bucket')],

  // [expression, legend]: '{{worker}}' is the label's value.
  lines(title, targets, unit='short', stacked=false):: {
    type: 'timeseries',
    title: title,
    targets: [{ expr: target[0], legendFormat: target[1] } for target in targets],
    fieldConfig: {
      defaults: {
        unit: unit,
        custom: {
          fillOpacity: if stacked then 40 else 0,
          stacking: { mode: if stacked then 'normal' else 'none' },
        },
      },
      overrides: [],
    },
  },
  number(title, expression, unit='short', legend=''):: {
    type: 'stat',
    title: title,
    targets: [{ expr: expression, legendFormat: legend }],
    fieldConfig: { defaults: { unit: unit }, overrides: [] },
    options: { textMode: if legend == '' then 'value' else 'value_and_name', reduceOptions: { calcs: ['lastNotNull'] } },
  },
  heat(title, series):: {
    type: 'heatmap',
    title: title,
    targets: [{ expr: 'sum by (le) (%s)' % $.rate(series + '_bucket'), legendFormat: '{{le}}', format: 'heatmap' }],
    options: { calculate: false, yAxis: { axisPlacement: 'left' } },
  },

  // Rows of panels that share the width of 24; a row of numbers is half as high as one of lines.
  board(uid, title, rows):: {
    local height(row) = if row[0].type == 'stat' then 4 else 8,
    local top(i) = std.foldl(function(sum, row) sum + height(row), rows[0:i], 0),
    local placed(i) = [
      rows[i][j] {
        id: 100 * i + j + 1,
        datasource: source,
        targets: [
          super.targets[k] { datasource: source, refId: std.char(std.codepoint('A') + k) }
          for k in std.range(0, std.length(super.targets) - 1)
        ],
        gridPos: {
          x: std.floor(24 / std.length(rows[i])) * j,
          y: top(i),
          w: std.floor(24 / std.length(rows[i])),
          h: height(rows[i]),
        },
      }
      for j in std.range(0, std.length(rows[i]) - 1)
    ],
    uid: 'soapstone-' + uid,
    title: 'Soapstone: ' + title,
    tags: ['soapstone'],
    schemaVersion: 36,
    refresh: '5s',
    time: { from: 'now-30m', to: 'now' },
    templating: { list: [
      { name: 'source', label: 'Prometheus', type: 'datasource', query: 'prometheus' },
      { name: 'job', type: 'query', datasource: source, query: 'label_values(soapstone_job_info, job)', refresh: 2, includeAll: true, multi: true, allValue: '.+', current: { text: 'All', value: '$__all' } },
    ] },
    panels: std.flatMap(placed, std.range(0, std.length(rows) - 1)),
  },
}
