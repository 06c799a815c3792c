// The same tokens and probes for every part.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/attribution.h"

#include <algorithm>
#include <iomanip>
#include <ostream>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/evaluation/evaluator.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

constexpr ProbeTask kTasks[] = {ProbeTask::kCopy, ProbeTask::kRecall};
constexpr std::int64_t kProbeText = 65536;  // tokens of the text that lend theirs to the probe
constexpr int kName = 20, kNumber = 13;

class Measuring {
 public:
  Measuring(const AttributionRun& run, const EvaluationWindows& windows, Context& context)
      : run_(run),
        windows_(windows),
        context_(context),
        probe_(probe_tokens(windows, kProbeText)) {}

  PartResult measure(const std::string& name,
                     const std::shared_ptr<Decoder>& model,
                     Progress& shown) {
    PartResult result{name, text(model), {}};
    shown.advance();
    for (const ProbeTask task : kTasks) {
      for (const std::int64_t distance : run_.distances) {
        stop_if_asked();
        result.probe.push_back(
            run_probe(model, task, probe_, distance, static_cast<std::uint64_t>(seed())));
        shown.advance();
      }
    }
    return result;
  }

 private:
  std::int64_t seed() const { return context_.common.seed; }
  void stop_if_asked() const {
    context_.stop_if_interrupted("stopped; nothing is kept of an evaluation");
  }

  Measures text(const std::shared_ptr<Decoder>& model) const {
    Evaluator evaluator(model);
    for (std::int64_t first = 0; first < windows_.size();) {
      if (evaluator.result().all.tokens >= run_.tokens) {
        break;
      }
      stop_if_asked();
      const TokenBatch batch = windows_.read_batch(first, run_.rows);
      evaluator.add(batch);
      first += batch.rows;
    }
    return evaluator.result().all;
  }

  const AttributionRun& run_;
  const EvaluationWindows& windows_;
  Context& context_;
  ProbeTokens probe_;
};

}  // namespace

std::vector<PartResult> attribute(const AttributionRun& run,
                                  const std::shared_ptr<Decoder>& model,
                                  const std::shared_ptr<Decoder>& base,
                                  const EvaluationWindows& windows,
                                  Context& context) {
  if (run.parts.empty()) {
    return {};
  }
  Measuring measuring(run, windows, context);
  const std::size_t models = run.parts.size() + (base ? 1 : 0);
  Progress shown = context.progress(
      "attribution",
      static_cast<std::int64_t>(models * (1 + std::size(kTasks) * run.distances.size())),
      "measurements");
  std::vector<PartResult> results;
  for (const AttentionPart part : run.parts) {
    const PartOverlay overlay(*model, part);
    results.push_back(measuring.measure(attention_part_name(part), model, shown));
  }
  if (base) {
    results.push_back(measuring.measure("base", base, shown));
  }
  return results;
}

void print_attribution(const std::vector<PartResult>& results, std::ostream& out) {
  if (results.empty()) {
    return;
  }
  const PartResult& first = results.front();
  out << "\nThe same weights with a part of the attention, on "
      << count_text(first.text.tokens, "token") << " of the text";
  out << (first.probe.empty() ? ".\n"
                              : "; copy and recall: random tokens found again at a distance.\n");
  out << std::left << std::setw(kName) << "component" << std::right << std::setw(kNumber) << "loss"
      << std::setw(kNumber) << "accuracy";
  for (const ProbeScore& score : first.probe) {
    out << std::setw(kNumber) << concat(probe_task_name(score.task), " ", score.distance);
  }
  out << '\n' << std::fixed << std::setprecision(4);
  for (const PartResult& result : results) {
    out << std::left << std::setw(kName) << result.name << std::right << std::setw(kNumber)
        << result.text.loss() << std::setw(kNumber) << result.text.accuracy();
    for (const ProbeScore& score : result.probe) {
      out << std::setw(kNumber) << score.measures.accuracy();
    }
    out << '\n';
  }
}

}  // namespace darkformer
