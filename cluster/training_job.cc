#include "cluster/training_job.h"

#include "glog/logging.h"
#include "worker/device/executor.h"
#include "worker/device/sparse_executor.h"

namespace soapstone::cluster {

void Complete(TrainingJob* job) {
  using Outline = std::vector<worker::OpOutline>;
  CHECK(job->layout != nullptr) << "a job has a layout";
  job->worker_layout =
      job->specs.policy.decentralised()
          ? std::make_shared<const wire::Layout>(wire::Layout::Whole(job->layout->params()))
          : job->layout;
  if (job->tables != nullptr) {
    job->train_samples = job->tables->data().train.size();
    job->ops = std::make_shared<const Outline>(worker::SparseOutline(*job->tables));
  } else if (job->graph != nullptr) {
    CHECK(job->data != nullptr) << "a model of tensors has data";
    job->train_samples = job->data->train.size();
    job->ops = std::make_shared<const Outline>(worker::OutlineOf(*job->graph));
  }
}

}  // namespace soapstone::cluster
