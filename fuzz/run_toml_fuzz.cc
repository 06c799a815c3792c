// run.toml and --config files: every type of option.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/run_toml.h"
#include "fuzz/input.h"

using namespace darkformer;

namespace {

struct Options {
  bool flag = false;
  std::int64_t steps = 1;
  double rate = 0.5;
  std::string kind = "all";
  std::filesystem::path out;
  std::optional<std::int64_t> batch;
  std::optional<std::filesystem::path> teacher;
  std::vector<std::int64_t> lengths;
  std::vector<double> rates;
  std::vector<std::filesystem::path> data;

  void visit(auto&& field) {
    field("flag", flag, "");
    field("steps", steps, "", {.minimum = 1, .maximum = 100});
    field("lr", rate, "", {.minimum = 0});
    field("train", kind, "", {.choices = {"all", "attention"}});
    field("out", out, "");
    field("batch", batch, "");
    field("teacher", teacher, "");
    field("lengths", lengths, "", {.minimum = 1});
    field("rates", rates, "");
    field("data", data, "");
  }
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::input_file("run.toml", fuzz::text_of(data, size));
  fuzz::expect_error_or_success([&] {
    Options options;
    std::vector<Field> fields = fields_of(options);
    read_run_toml(path, "finetune", fields);
    fuzz::require_true(options.steps >= 1 && options.steps <= 100, "a number out of its range");
  });
  return 0;
}
