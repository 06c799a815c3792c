// config.json, plain and converted; what is accepted is written and read back the same.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/model_config.h"
#include "fuzz/input.h"

using namespace darkformer;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::expect_error_or_success([&] {
    const ModelConfig config = parse_model_config(fuzz::text_of(data, size), "config.json");
    const std::string written = model_config_text(config);
    const ModelConfig again = parse_model_config(written, "written config.json");
    fuzz::require_true(model_config_text(again) == written, "a config changes when written twice");
  });
  return 0;
}
