// Continues a sequence token by token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "darkformer/evaluation/sampler.h"
#include "darkformer/model/decoder_state.h"
#include "darkformer/text/tokenizer.h"

namespace darkformer {

class Decoder;

struct GenerationOptions {
  std::int64_t max_tokens = 128;
  SamplerOptions sampler = {};
  std::vector<std::int64_t> end_ids = {};  // end the text; not part of it
  std::vector<std::string> stop = {};      // stop strings, likewise; they need a tokenizer
  bool is_answer = false;                  // a text of its own, not one that goes on the prompt's
};

enum class EndReason { kMaxTokens, kEndOfText, kStopString, kInterrupted };
// "max tokens", "end of text", "stop string", "interrupted".
std::string_view end_reason_name(EndReason reason);

struct Generation {
  std::vector<std::int64_t> ids;
  std::string text;  // empty without a tokenizer
  EndReason end = EndReason::kMaxTokens;
};

// Goes on from a state that has read at least one token (of one sequence). `each` gets every id
// with the text that has become certain with it, and once -1 with the rest. Polls interrupted().
Generation generate(Decoder& model,
                    DecoderState& state,
                    const std::optional<Tokenizer>& tokenizer,
                    const GenerationOptions& options,
                    const std::function<void(std::int64_t id, const std::string& text)>& each);

// For token number `token`. Error that names the weight to blame: a logit is not finite.
void require_finite(std::span<const float> logits, const Decoder& model, std::int64_t token);

}  // namespace darkformer
