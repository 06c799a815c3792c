// The loop of decoding: logits, a pick, its text, the next state.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/generation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/evaluation/stop_strings.h"
#include "darkformer/model/decoder.h"
#include "darkformer/model/nonfinite.h"

namespace darkformer {
namespace {

// Ids to text, up to a stop string.
class TextStream {
 public:
  TextStream(const std::optional<Tokenizer>& tokenizer, const std::vector<std::string>& stop)
      : stop_(stop) {
    require(tokenizer.has_value() || stop.empty(), "generation: stop strings need a tokenizer");
    if (tokenizer) {
      decoder_.emplace(*tokenizer);
      size_ = tokenizer->size();
    }
  }

  // Ids beyond the tokenizer (padding rows of the embedding) have no text.
  std::string push(std::int64_t id) {
    return decoder_ && id < size_ ? stop_.push(decoder_->push(static_cast<std::int32_t>(id))) : "";
  }
  std::string finish() {
    const std::string rest = decoder_ ? stop_.push(decoder_->finish()) : "";
    return rest + stop_.finish();
  }
  bool stopped() const { return stop_.stopped(); }

 private:
  std::optional<StreamDecoder> decoder_;
  std::int64_t size_ = 0;
  StopStrings stop_;
};

std::int64_t pick(const Decoder& model, const DecoderState& state, Sampler& sampler) {
  const at::Tensor logits = model.logits(state.hidden).contiguous();  // (1,1,V)
  const std::span<const float> row(logits.data_ptr<float>(),
                                   static_cast<std::size_t>(logits.numel()));
  require_finite(row, model, state.position + 1);
  return sampler.pick(row);
}

}  // namespace

void require_finite(std::span<const float> logits, const Decoder& model, std::int64_t token) {
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) {
    fail("token ", token, ": some logits are not finite; ", find_nonfinite(model).cause());
  }
}

std::string_view end_reason_name(EndReason reason) {
  switch (reason) {
    case EndReason::kMaxTokens:
      return "max tokens";
    case EndReason::kEndOfText:
      return "end of text";
    case EndReason::kStopString:
      return "stop string";
    case EndReason::kInterrupted:
      return "interrupted";
  }
  return "";
}

Generation generate(Decoder& model,
                    DecoderState& state,
                    const std::optional<Tokenizer>& tokenizer,
                    const GenerationOptions& options,
                    const std::function<void(std::int64_t id, const std::string& text)>& each) {
  require(state.hidden.defined() && state.hidden.size(0) == 1,
          "generation: needs the state of one sequence that has begun");
  const at::NoGradGuard no_gradients;
  const auto ends = [&](std::int64_t id) {
    return std::find(options.end_ids.begin(), options.end_ids.end(), id) != options.end_ids.end();
  };
  Sampler sampler(options.sampler);
  TextStream stream(tokenizer, options.stop);
  Generation result;
  const auto emit = [&](std::int64_t id, const std::string& text) {
    result.text += text;
    each(id, text);
  };
  while (std::ssize(result.ids) < options.max_tokens) {
    if (!result.ids.empty()) {
      model.extend(at::full({1, 1}, result.ids.back(), at::kLong), state);
    }
    if (interrupted()) {
      result.end = EndReason::kInterrupted;
      break;
    }
    const std::int64_t id = pick(model, state, sampler);
    if (ends(id)) {
      result.end = EndReason::kEndOfText;
      break;
    }
    result.ids.push_back(id);
    emit(id, stream.push(id));
    if (stream.stopped()) {
      result.end = EndReason::kStopString;
      break;
    }
  }
  emit(-1, stream.finish());
  if (stream.stopped()) {
    result.end = EndReason::kStopString;
  }
  return result;
}

}  // namespace darkformer
