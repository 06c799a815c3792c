// Buckets, and the hooks that tell when one is full.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/gradient_buckets.h"

#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>

namespace darkformer {
namespace {

using torch::autograd::variable_list;

class AfterAccumulation : public torch::autograd::FunctionPostHook {
 public:
  explicit AfterAccumulation(std::function<void()> call) : call_(std::move(call)) {}

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

struct Slot {
  at::Tensor parameter;
  at::Tensor gradient = {};  // its place in a bucket
  std::size_t bucket = 0;
  bool reached = false;  // by any pass of the step
  // The graph itself does not keep it.
  std::shared_ptr<torch::autograd::Node> accumulator = nullptr;
};

struct Bucket {
  at::Tensor values;
  std::size_t slots = 0;
  std::size_t missing = 0;  // gradients of the last pass that have not arrived
};

}  // namespace

struct GradientBuckets::State {
  std::shared_ptr<Ranks> ranks;
  std::vector<Slot> slots;
  std::vector<Bucket> buckets;
  std::vector<std::function<void()>> sums;  // of the buckets [0, sums.size()), under way
  bool sending = false;

  void arrived(Slot& slot) {
    slot.reached = true;
    if (sending) {
      --buckets[slot.bucket].missing;
      send_full();
    }
  }
  // In the order of the buckets, which is the same on all ranks, whatever arrives first.
  void send_full() {
    while (sums.size() < buckets.size() && buckets[sums.size()].missing == 0) {
      sums.push_back(ranks->start_sum(buckets[sums.size()].values));
    }
  }
};

GradientBuckets::GradientBuckets(const std::vector<TrainedParameter>& parameters,
                                 std::shared_ptr<Ranks> ranks,
                                 std::int64_t bytes)
    : state_(std::make_shared<State>()) {
  state_->ranks = std::move(ranks);
  const std::int64_t limit = bytes / static_cast<std::int64_t>(sizeof(float));
  std::vector<std::int64_t> sizes;
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    const std::int64_t count = parameter->value.numel();
    if (sizes.empty() || sizes.back() + count > limit) {
      sizes.push_back(0);
    }
    sizes.back() += count;
    state_->slots.push_back({.parameter = parameter->value, .bucket = sizes.size() - 1});
  }
  for (const std::int64_t size : sizes) {
    state_->buckets.push_back({.values = at::zeros({size})});
  }
  std::vector<std::int64_t> used(sizes.size(), 0);
  for (std::size_t i = 0; i < state_->slots.size(); ++i) {
    Slot& slot = state_->slots[i];
    const std::int64_t count = slot.parameter.numel();
    Bucket& bucket = state_->buckets[slot.bucket];
    slot.gradient = bucket.values.narrow(0, used[slot.bucket], count).view(slot.parameter.sizes());
    used[slot.bucket] += count;
    ++bucket.slots;
    slot.accumulator = torch::autograd::impl::grad_accumulator(slot.parameter);
    // A weak pointer: the state holds the accumulator, which holds the hook.
    slot.accumulator->add_post_hook(
        std::make_unique<AfterAccumulation>([weak = std::weak_ptr<State>(state_), i] {
          if (const auto state = weak.lock()) {
            state->arrived(state->slots[i]);
          }
        }));
  }
}

void GradientBuckets::begin() {
  state_->sums.clear();
  state_->sending = false;
  for (Bucket& bucket : state_->buckets) {
    bucket.values.zero_();
    bucket.missing = bucket.slots;
  }
  for (Slot& slot : state_->slots) {
    slot.reached = false;
    slot.parameter.mutable_grad() = slot.gradient;
  }
}

void GradientBuckets::send_when_ready() {
  state_->sending = true;
}

void GradientBuckets::finish() {
  // What the last pass did not reach goes now, as it is.
  for (Bucket& bucket : state_->buckets) {
    bucket.missing = 0;
  }
  state_->send_full();
  for (const std::function<void()>& wait : state_->sums) {
    wait();
  }
  state_->sums.clear();
  state_->sending = false;
  for (Slot& slot : state_->slots) {
    if (!slot.reached) {
      slot.parameter.mutable_grad() = at::Tensor();
    }
  }
}

std::size_t GradientBuckets::count() const {
  return state_->buckets.size();
}

std::size_t GradientBuckets::sent() const {
  return state_->sums.size();
}

}  // namespace darkformer
