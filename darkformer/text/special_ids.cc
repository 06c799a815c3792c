// Special pieces by what the files say, then by the names that families use.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/special_ids.h"

#include <initializer_list>
#include <system_error>

#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/base/mapped_file.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostSettingsBytes = std::uintmax_t{64} << 20;

// "name", {"content": "name"} or null.
std::string piece_name(const Json& object, const char* key, const std::string& source) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_object()) {
    return find_value<std::string>(*found, "content", source).value_or("");
  }
  return find_value<std::string>(object, key, source).value_or("");
}

// A template, or a list of named ones of which "default" counts.
std::string read_chat_template(const Json& object, const std::string& source) {
  const auto found = object.find("chat_template");
  if (found == object.end() || !found->is_array()) {
    return find_value<std::string>(object, "chat_template", source).value_or("");
  }
  for (const Json& one : *found) {
    if (one.is_object() && find_value<std::string>(one, "name", source).value_or("") == "default") {
      return find_value<std::string>(one, "template", source).value_or("");
    }
  }
  return {};
}

void read_names(const fs::path& file, TokenizerSettings& settings) {
  const std::string source = file.string();
  const Json json = read_json(file);
  require(json.is_object(), source, ": must be an object");
  const auto take = [&](const char* key, std::string& name) {
    std::string said = piece_name(json, key, source);
    if (name.empty()) {
      name = std::move(said);
    }
  };
  take("bos_token", settings.bos);
  take("eos_token", settings.eos);
  take("pad_token", settings.pad);
  if (!settings.add_bos) {
    settings.add_bos = find_value<bool>(json, "add_bos_token", source);
  }
  if (settings.chat_template.empty()) {
    settings.chat_template = read_chat_template(json, source);
  }
}

bool is_there(const fs::path& file) {
  std::error_code error;
  const bool there = fs::is_regular_file(file, error);
  if (there) {
    require(fs::file_size(file) <= kMostSettingsBytes, file.string(), ": is larger than ",
            kMostSettingsBytes >> 20, " MiB; not a file of settings");
  }
  return there;
}

// The first of these that is there and is no ordinary piece, as <unk> is in Qwen's vocabularies.
std::int32_t first_of(const TextEncoder& encoder, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const std::int32_t id = encoder.find(name);
    if (id >= 0 && encoder.pieces()[static_cast<std::size_t>(id)].type != PieceType::kNormal) {
      return id;
    }
  }
  return -1;
}

}  // namespace

TokenizerSettings read_tokenizer_settings(const fs::path& folder) {
  TokenizerSettings settings;
  if (is_there(folder / "chat_template.jinja")) {
    settings.chat_template = MappedFile(folder / "chat_template.jinja").text();
  }
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (is_there(folder / name)) {
      read_names(folder / name, settings);
    }
  }
  return settings;
}

SpecialIds find_special_ids(const TextEncoder& encoder,
                            const TokenizerSettings& settings,
                            const std::string& template_bos,
                            const std::string& unk) {
  SpecialIds ids;
  if (!template_bos.empty()) {
    ids.bos = encoder.find(template_bos);
  } else if (settings.add_bos.value_or(false)) {
    ids.bos = first_of(encoder, {settings.bos});
  } else if (!settings.add_bos) {
    // Llama 3 puts it there by its post-processor, which early files and copies lack.
    ids.bos = first_of(encoder, {"<|begin_of_text|>", "<s>", "<bos>"});
  }
  ids.eos = first_of(
      encoder, {settings.eos, "</s>", "<|end_of_text|>", "<|endoftext|>", "<|im_end|>", "<eos>"});
  ids.pad = first_of(encoder, {settings.pad, "<pad>", "<|finetune_right_pad_id|>"});
  ids.unk = first_of(encoder, {unk, "<unk>"});
  return ids;
}

}  // namespace darkformer
