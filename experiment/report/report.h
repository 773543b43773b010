// What an experiment leaves behind, as text: the page, and its runs as CSV and JSON. Made from
// results only, so that the same runs give the same files. Writes no file.
#pragma once

#include <string>

#include "experiment/results.h"

namespace soapstone::experiment {

// One self-contained page: data, charts, styles and programs are inside, nothing is loaded.
std::string ReportPage(const Results& results);

// The page's data as JSON: what its charts and tables show.
std::string ReportData(const Results& results);

// A line a finished run, tuning runs too, with a heading; in the order of the matrix.
std::string RunsCsv(const Results& results);
// {"experiment": digest, "runs": [...]}, as in the registry.
std::string RunsJson(const Results& results);

}  // namespace soapstone::experiment
