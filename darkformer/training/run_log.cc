// Steps as JSON lines and as events.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/run_log.h"

#include <fstream>

#include "darkformer/base/system_info.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

// Every number of a line, tensorboard's way: covariance_condition/3 for layer 3.
Scalars scalars_of(const OrderedJson& line) {
  Scalars scalars;
  for (const auto& [key, value] : line.items()) {
    if (value.is_number() && key != "step") {
      scalars.emplace_back(key, value.get<double>());
    } else if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        scalars.emplace_back(concat(key, "/", i), value[i].get<double>());
      }
    }
  }
  return scalars;
}

}  // namespace

OrderedJson step_json(const StepReport& report, const StepFacts& facts) {
  OrderedJson line;
  line["step"] = report.step;
  line["tokens"] = facts.tokens;
  line["loss"] = report.loss;
  line["accuracy"] = report.accuracy;
  line["gradient_norm"] = report.gradient_norm;
  line["learning_rate"] = report.rate;
  line["factor_learning_rate"] = report.factor_rate;
  if (report.distillation_loss != 0) {
    line["distillation_loss"] = report.distillation_loss;
  }
  if (report.attention_distance != 0) {
    line["attention_distance"] = report.attention_distance;
  }
  line["tokens_per_second"] = facts.tokens_per_second;
  line["spike"] = report.spike;
  line["spikes"] = facts.spikes;
  line["skipped"] = facts.skipped;
  line["memory"] = memory_info().resident;
  if (!facts.covariance_condition.empty()) {
    line["covariance_condition"] = facts.covariance_condition;
  }
  if (facts.held_out_loss) {
    line["held_out_loss"] = *facts.held_out_loss;
    line["held_out_accuracy"] = facts.held_out_accuracy.value_or(0);
  }
  return line;
}

void cut_log(const fs::path& file, std::int64_t step) {
  if (!fs::exists(file)) {
    return;
  }
  std::ifstream stream(file, std::ios::binary);
  require(stream.is_open(), file.string(), ": cannot be opened for reading");
  std::uintmax_t kept = 0;
  std::string line;
  // The last line of a killed run may lack its end: then eof() is set, and it goes.
  while (std::getline(stream, line) && !stream.eof()) {
    const Json json = parse_json(line, file.string());
    if (get_value<std::int64_t>(json, "step", file.string()) > step) {
      break;
    }
    kept += line.size() + 1;
  }
  stream.close();
  fs::resize_file(file, kept);
}

RunLog::RunLog(const fs::path& run, std::int64_t step, bool tensorboard) {
  const fs::path file = run / "log.jsonl";
  cut_log(file, step);
  lines_ = std::make_unique<JsonlWriter>(file, JsonlWriter::Mode::kAppend);
  if (tensorboard) {
    events_ = std::make_unique<EventFile>(run / "tensorboard", step + 1);
  }
}

void RunLog::write(const StepReport& report, const StepFacts& facts) {
  const OrderedJson line = step_json(report, facts);
  lines_->write(line);
  if (events_) {
    events_->write(report.step, scalars_of(line));
  }
}

}  // namespace darkformer
