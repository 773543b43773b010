// The dashboard: the page that draws how a job is from /statusz.json, as its files in page/ were
// when the program was built.
#pragma once

#include <memory>
#include <string>

#include "observe/status/http_server.h"

namespace soapstone::status {

// What is served at "/" and the paths that the page asks for besides; null: it is none of them.
std::unique_ptr<HttpPage> DashboardFile(const std::string& path);

// The page as one file that shows this status, asks for nothing, and needs no server. `status`: the
// text of /statusz.json.
std::string SavedDashboard(const std::string& status);

}  // namespace soapstone::status
