// The page of a linearization: before and after, what each component does, the training, the way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "darkformer/base/json.h"
#include "darkformer/report/results.h"

namespace darkformer {

// What the stages gave, each as its command printed it.
struct LinearizeFacts {  // NOLINT(bugprone-exception-escape): moving JSON does not throw
  OrderedJson base, converted, tuned;       // eval of the original, the converted and the finetuned
  OrderedJson analysis;                     // analyze; null: it was left out
  OrderedJson conversion;                   // convert
  std::vector<std::filesystem::path> logs;  // log.jsonl of transfer and finetune, in their order
  std::vector<std::string> commands;        // the same by hand
};

// The sections and statements; command and settings are the caller's.
report::Results linearize_results(const LinearizeFacts& facts);

}  // namespace darkformer
