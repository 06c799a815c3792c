// An options struct with every type of field, for the tests of this folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/commands/command.h"

namespace darkformer {

struct ExampleOptions {
  std::filesystem::path model;
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path out;
  std::string kind = "dark";
  std::string prompt;
  std::int64_t features = 256;
  double rate = 1e-3;
  bool centre = false;
  bool orthogonal = true;
  std::optional<std::int64_t> rank;
  std::optional<double> top_p;
  std::optional<std::string> stop;
  std::optional<std::filesystem::path> against;
  std::vector<std::int64_t> ids;
  std::vector<double> scales;
  std::vector<std::string> layers;

  void visit(auto&& field) {
    field("model", model, "model folder", {.positional = true, .required = true});
    field("inputs", inputs, "text files", {.positional = true});
    field("out", out, "folder to write", {.required = true, .value_name = "DIR"});
    field("kind", kind, "attention", {.choices = {"exact", "dark", "lfk"}});
    field("prompt", prompt, "text to go on from");
    field("features", features, "random features", {.letter = 'F', .minimum = 1, .maximum = 65536});
    field("rate", rate, "learning rate", {.minimum = 0});
    field("centre", centre, "subtract the means");
    field("orthogonal", orthogonal, "orthogonal draws");
    field("rank", rank, "rank of the factor", {.minimum = 1, .empty_means = "the head size"});
    field("top-p", top_p, "nucleus", {.maximum = 1});
    field("stop", stop, "text to stop at");
    field("against", against, "model to compare with");
    field("ids", ids, "token ids");
    field("scales", scales, "scales");
    field("layers", layers, "layers");
  }
};

}  // namespace darkformer
