// The state as JSON; doubles come back with the same bits.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/training_state.h"

#include <charconv>

#include "darkformer/base/checksum.h"
#include "darkformer/base/error.h"

namespace darkformer {
namespace {

constexpr std::int64_t kFormat = 1;

std::uint64_t from_hex(const std::string& text, const std::string& source) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  require(error == std::errc() && end == text.data() + text.size(), source, ": '", text,
          "' is not a hexadecimal number");
  return value;
}

}  // namespace

OrderedJson training_state_json(const TrainingState& state) {
  OrderedJson json;
  json["format_version"] = kFormat;
  json["step"] = state.step;
  json["tokens"] = state.tokens;
  json["optimizer_steps"] = state.optimizer_steps;
  json["spikes"] = state.spikes;
  json["skipped"] = state.skipped;
  json["epoch"] = state.position.epoch;
  json["window"] = state.position.index;
  json["data"] = to_hex(state.position.fingerprint);
  json["recent_losses"] = state.recent_losses;
  json["threads"] = state.threads;
  json["ranks"] = state.ranks;
  if (state.held_out_loss) {
    json["held_out_loss"] = *state.held_out_loss;
  }
  return json;
}

TrainingState parse_training_state(const Json& json, const std::string& source) {
  const auto number = [&](const char* key) { return get_value<std::int64_t>(json, key, source); };
  require(number("format_version") <= kFormat, source, ": format_version is ",
          number("format_version"), ", this program knows up to ", kFormat, "; use a newer one");
  TrainingState state;
  state.step = number("step");
  state.tokens = number("tokens");
  state.optimizer_steps = number("optimizer_steps");
  state.spikes = number("spikes");
  state.skipped = number("skipped");
  state.position = {number("epoch"), number("window"),
                    from_hex(get_value<std::string>(json, "data", source), source)};
  state.threads = number("threads");
  state.ranks = find_value<std::int64_t>(json, "ranks", source).value_or(1);
  state.held_out_loss = find_value<double>(json, "held_out_loss", source);
  for (const Json& loss : get_value<Json>(json, "recent_losses", source)) {
    require(loss.is_number(), source, ": recent_losses holds something that is no number");
    state.recent_losses.push_back(loss.get<double>());
  }
  return state;
}

}  // namespace darkformer
