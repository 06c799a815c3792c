// The parts of `darkformer bench`, one file each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "darkformer/commands/command.h"

namespace darkformer {

struct BenchOptions {
  std::string what = "attention";
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> head_sizes = {64, 64, 256};
  std::vector<std::int64_t> features = {64, 256, 256};
  std::int64_t heads = 8;
  std::vector<std::string> kinds = {"exact", "performer", "dark", "lfk", "constant", "random"};
  std::int64_t tokens = 4096;
  std::vector<std::int64_t> batch = {1, 16};
  bool rivals = true, exact = true;
  std::optional<std::filesystem::path> model;

  void visit(auto&& field) {
    field("what", what, "what to measure",
          {.positional = true,
           .required = true,
           .choices = {"attention", "decode", "train", "gemm"}});
    field("lengths", lengths, "tokens of a sequence; gemm: sizes of the matrices",
          {.minimum = 1, .maximum = 1 << 22, .empty_means = "what suits the part"});
    field("head-sizes", head_sizes, "head sizes, one for each of --features",
          {.minimum = 1, .maximum = 1024});
    field("features", features, "random features; train takes the first",
          {.minimum = 1, .maximum = 65536});
    field("heads", heads, "query heads, each with its own keys", {.minimum = 1, .maximum = 256});
    field("kinds", kinds, "train: kinds of attention",
          {.choices = {"exact", "performer", "dark", "lfk", "constant", "random"}});
    field("tokens", tokens, "train: tokens of a step; one sequence where it is longer",
          {.minimum = 1, .maximum = 1 << 22});
    field("rivals", rivals, "attention: beside the same in plain ATen calls");
    field("exact", exact, "attention: exact attention too, and where features overtake it");
    field("batch", batch, "decode: sequences that the model samples at once, each of these numbers",
          {.minimum = 1, .maximum = 4096});
    field("model", model, "decode: model folder whose weights are read",
          {.empty_means = "random ones"});
  }
};

// UsageError: not as many head sizes as numbers of features.
void check_shapes(const BenchOptions& options);

// --threads, or without it one and two (where there are two).
std::vector<int> thread_counts(const CommonOptions& common);

void bench_attention(const BenchOptions& options, Context& context);
void bench_decode(const BenchOptions& options, Context& context);
void bench_gemm(const BenchOptions& options, Context& context);
void bench_train(const BenchOptions& options, Context& context);

}  // namespace darkformer
