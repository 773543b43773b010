#include "tests/check/team_jobs.h"

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "consistency/catalogue.h"
#include "strategy/lowering.h"
#include "strategy/order.h"
#include "strategy/pieces.h"
#include "strategy/window.h"

namespace soapstone::check {

std::shared_ptr<const cluster::TrainingJob> TeamJobOf(const models::Graph& model,
                                                      const planner::OpGraph& plan,
                                                      const planner::Strategy& strategy,
                                                      const TeamJobOptions& options) {
  const planner::Order order = planner::CanonicalOrder(plan, strategy, options.seats);
  const absl::StatusOr<planner::TeamProgram> whole = planner::Lower(plan, strategy, order);
  absl::StatusOr<planner::Pieces> pieces = planner::PiecesOf(plan, strategy);
  if (!whole.ok() || !pieces.ok()) return nullptr;
  auto team = std::make_shared<cluster::TeamJob>();
  team->shape = {.teams = options.teams, .seats = options.seats};
  team->evaluation_batch = static_cast<uint64_t>(plan.batch);
  team->evaluation_batches = options.evaluation_batches;
  team->plan.seats = options.seats;
  team->plan.owned = planner::KeptByHolders(strategy.synchronization);
  team->plan.window = options.window;
  team->plan.pieces = *std::move(pieces);
  team->plan.holders = planner::HoldersOf(team->plan.pieces, plan, strategy);
  team->plan.params = planner::SpecsOf(team->plan.pieces, model.params());
  team->plan.leads = planner::LeadsOf(whole->messages, options.seats, options.window);
  team->plan.steps[plan.batch] =
      *planner::Lower(plan, strategy, planner::ForwardFirst(order, team->plan.leads));
  const uint32_t servers = team->plan.owned ? options.seats : options.servers;
  auto job = std::make_shared<cluster::TrainingJob>();
  job->specs.policy = *consistency::ParsePolicy(options.policy);
  job->layout = std::make_shared<const wire::Layout>(*wire::Layout::BuildOfPieces(
      team->plan.params, team->plan.holders,
      {.shard_count = servers * team->sets(), .bucket_bytes = uint64_t{1} << 30}));
  job->worker_layout = job->layout;
  job->ops = std::make_shared<const std::vector<worker::OpOutline>>();
  job->batch = job->train_samples = options.teams * static_cast<uint64_t>(plan.batch);
  job->micro_batches = options.teams * static_cast<uint32_t>(plan.micro_batches);
  job->total_clocks = options.clocks;
  job->workers = options.teams * options.seats;
  job->team = std::move(team);
  return job;
}

}  // namespace soapstone::check
