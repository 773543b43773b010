// soapstone-server: one server process of a job.
#include "apps/daemon/node_main.h"

int main(int argc, char** argv) {
  return soapstone::apps::NodeMain(soapstone::wire::Role::kServer, argc, argv);
}
