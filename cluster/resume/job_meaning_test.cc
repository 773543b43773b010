#include "cluster/resume/job_meaning.h"

#include "cluster/job_config.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

wire::JobConfig Example() {
  wire::JobConfig config;
  config.set_model("lenet5");
  config.mutable_training()->set_epochs(3);
  config.mutable_training()->set_batch(64);
  config.mutable_cluster()->set_servers(2);
  config.mutable_cluster()->set_workers(3);
  config.mutable_training()->set_micro_batches(6);
  FillDefaults(&config);
  return config;
}

TEST(JobMeaningTest, ProcessesPlacesAndTimesDoNotCount) {
  const wire::JobConfig job = Example();
  wire::JobConfig other = job;
  wire::Cluster* cluster = other.mutable_cluster();
  cluster->set_servers(5);
  cluster->set_workers(6);
  cluster->set_shards_per_server(2);
  cluster->set_scheduler("tcp://elsewhere:1");
  cluster->set_heartbeat_timeout_s(60);
  cluster->set_bucket_bytes(4096);
  cluster->set_strategy("lab.strategy.textproto");
  cluster->set_teams(2);
  other.mutable_output()->set_model_path("m.safetensors");
  other.mutable_training()->set_stragglers("slow:workers=1,factor=2");
  other.mutable_data()->set_path("/other/place");
  EXPECT_EQ(DifferenceOf(job, other), "");
  EXPECT_EQ(MeaningDigest(job, 7), MeaningDigest(other, 7));
  EXPECT_NE(MeaningDigest(job, 7), MeaningDigest(job, 8));
}

TEST(JobMeaningTest, WhatBitsDependOnDoesAndIsNamed) {
  const wire::JobConfig job = Example();
  const auto differs = [&](auto change, const std::string& said) {
    wire::JobConfig other = job;
    change(&other);
    EXPECT_EQ(DifferenceOf(job, other), said);
    EXPECT_NE(MeaningDigest(job, 7), MeaningDigest(other, 7)) << said;
  };
  using Config = wire::JobConfig*;
  differs([](Config c) { c->set_model("mlp"); }, "model is \"lenet5\" there, and \"mlp\" here");
  differs([](Config c) { c->set_policy("async"); }, "policy is \"bsp\" there, and \"async\" here");
  differs([](Config c) { c->mutable_training()->set_seed(9); },
          "training.seed is 0 there, and 9 here");
  differs([](Config c) { c->mutable_training()->set_micro_batches(3); },
          "training.micro_batches is 6 there, and 3 here");
  differs([](Config c) { c->mutable_training()->set_epochs(4); },
          "training.epochs is 3 there, and 4 here");
  differs([](Config c) { c->mutable_cluster()->set_precision("bf16"); },
          "cluster.precision is \"float32\" there, and \"bf16\" here");
}

}  // namespace
}  // namespace soapstone::apps
