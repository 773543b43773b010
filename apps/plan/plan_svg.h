// The timeline of a planned step as a drawing for pages and printers: SVG 1.1, without scripts.
// Text from values.
#pragma once

#include <string>

#include "apps/plan/plan_tracks.h"

namespace soapstone::apps {

// 1000 units wide, whatever the step. A row a device, then a row a link and a server that does
// anything, with an axis of time, a legend, and bars told apart by colour and by pattern. Rows that
// are equal task for task are one, links always, devices where there are more than 16; of more than
// 40 rows those that are busy longest are drawn. What is narrower than a unit is one bar with what
// follows it. So the text stays below a megabyte, however many tasks there are. Names of operators
// may have any bytes.
std::string PlanSvg(const DrawnStep& step);

}  // namespace soapstone::apps
