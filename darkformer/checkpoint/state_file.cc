// Saving and loading decode states.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/state_file.h"

#include <charconv>

#include "darkformer/base/checksum.h"
#include "darkformer/base/error.h"
#include "darkformer/checkpoint/tensor_bytes.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "darkformer-state";
constexpr const char* kVersion = "1";

std::string layer_name(std::size_t layer, std::size_t tensor) {
  return concat("layers.", layer, ".", tensor);
}

void add_to_checksum(const TensorSource& tensor, KeyBuilder& key) {
  key.add(tensor.name).add(dtype_name(tensor.dtype)).add(shape_text(tensor.shape));
  const auto bytes = tensor.read();
  key.add(checksum(bytes.data(), bytes.size()));
}

std::string checksum_of(const std::vector<TensorSource>& tensors, const std::string& position) {
  KeyBuilder key;
  key.add(position);
  for (const TensorSource& tensor : tensors) {
    add_to_checksum(tensor, key);
  }
  return to_hex(key.value());
}

// In one fixed order: hidden, then the layers.
std::vector<TensorSource> sources_of(const DecoderState& state) {
  std::vector<TensorSource> sources = {source_of("hidden", state.hidden)};
  for (std::size_t layer = 0; layer < state.layers.size(); ++layer) {
    const auto& tensors = state.layers[layer].tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      sources.push_back(source_of(layer_name(layer, i), tensors[i]));
    }
  }
  return sources;
}

class StateReader {
 public:
  StateReader(const fs::path& path, const Decoder& model) : file_(path), model_(model) {}

  DecoderState read() const {
    require(entry("format") == kFormat, name(), ": not a saved state of darkformer");
    require(entry("format_version") == kVersion, name(), ": its format_version is ",
            entry("format_version"), ", this program reads ", kVersion);
    const std::string wanted = to_hex(fingerprint(model_));
    require(entry("fingerprint") == wanted, name(), ": belongs to another model (fingerprint ",
            entry("fingerprint"), ", this one has ", wanted, "); read the prompt again");
    DecoderState state = read_tensors();
    require(checksum_of(sources_of(state), entry("position")) == entry("checksum"), name(),
            ": is damaged (its checksum does not fit); read the prompt again");
    return state;
  }

 private:
  std::string name() const { return file_.path().string(); }

  std::string entry(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    return found == file_.metadata().end() ? "" : found->second;
  }

  std::int64_t position() const {
    const std::string text = entry("position");
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    require(code == std::errc{} && end == text.data() + text.size() && value > 0, name(),
            ": is damaged (position '", text, "'); read the prompt again");
    return value;
  }

  // Every tensor of the file has its place, or the file is not ours.
  DecoderState read_tensors() const {
    DecoderState state;
    state.position = position();
    const TensorView* hidden = file_.find("hidden");
    require(hidden != nullptr, name(), ": is damaged (tensor 'hidden' is missing)");
    state.hidden = copied_tensor(*hidden);
    std::size_t found = 1;
    state.layers.resize(static_cast<std::size_t>(model_.layers()));
    for (std::size_t layer = 0; layer < state.layers.size(); ++layer) {
      auto& tensors = state.layers[layer].tensors;
      while (const TensorView* view = file_.find(layer_name(layer, tensors.size()))) {
        tensors.push_back(copied_tensor(*view));
        ++found;
      }
    }
    require(found == file_.tensors().size(), name(), ": is damaged (it has other tensors)");
    return state;
  }

  SafetensorsFile file_;
  const Decoder& model_;
};

}  // namespace

void save_state(const fs::path& file, const DecoderState& state, const Decoder& model) {
  require(state.hidden.defined(), file.string(), ": a state that has read nothing is not saved");
  const std::string position = std::to_string(state.position);
  std::vector<TensorSource> sources = sources_of(state);
  const std::string sum = checksum_of(sources, position);
  write_safetensors(file, std::move(sources),
                    {{"format", kFormat},
                     {"format_version", kVersion},
                     {"fingerprint", to_hex(fingerprint(model))},
                     {"position", position},
                     {"checksum", sum}});
}

DecoderState load_state(const fs::path& file, const Decoder& model) {
  return StateReader(file, model).read();
}

bool is_state_file(const fs::path& path) {
  try {
    const SafetensorsFile file(path);
    const auto format = file.metadata().find("format");
    return format != file.metadata().end() && format->second == kFormat;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace darkformer
