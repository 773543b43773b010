// soapstone-scheduler: one scheduler process of a job.
#include "apps/daemon/node_main.h"

int main(int argc, char** argv) {
  return soapstone::apps::NodeMain(soapstone::wire::Role::kScheduler, argc, argv);
}
