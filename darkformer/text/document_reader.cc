// Picks the reader for a file.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/document_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "darkformer/base/error.h"
#include "darkformer/text/byte_source.h"
#include "darkformer/text/json_lines_reader.h"
#include "darkformer/text/line_reader.h"
#include "darkformer/text/plain_text_reader.h"

namespace darkformer {
namespace {

std::string lower_extension(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return extension;
}

// The ending without .gz and .zst.
std::string text_extension(const std::filesystem::path& path) {
  const std::string extension = lower_extension(path);
  const bool packed = extension == ".gz" || extension == ".zst";
  return packed ? lower_extension(path.stem()) : extension;
}

std::optional<TextFormat> named_format(const std::filesystem::path& path) {
  const std::string extension = text_extension(path);
  if (extension == ".txt" || extension == ".text") {
    return TextFormat::kPlainText;
  }
  if (extension == ".jsonl" || extension == ".json" || extension == ".ndjson") {
    return TextFormat::kJsonLines;
  }
  return std::nullopt;
}

// '\0' if there is nothing but space in the first bytes.
char first_character(const std::filesystem::path& path) {
  std::array<char, 4096> buffer;
  const auto source = open_bytes(path);
  std::string_view text(buffer.data(), source->read(buffer.data(), buffer.size()));
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  const std::size_t found = text.find_first_not_of(" \t\r\n");
  return found == std::string_view::npos ? '\0' : text[found];
}

}  // namespace

TextFormat text_format(const std::filesystem::path& path) {
  if (const auto named = named_format(path)) {
    return *named;
  }
  return first_character(path) == '{' ? TextFormat::kJsonLines : TextFormat::kPlainText;
}

bool has_unknown_ending(const std::filesystem::path& path) {
  return !named_format(path) && !text_extension(path).empty();
}

std::unique_ptr<DocumentReader> open_documents(const std::filesystem::path& path,
                                               const ReaderOptions& options) {
  auto source = open_bytes(path);  // first, so that a missing file is named as such
  if (text_format(path) == TextFormat::kJsonLines) {
    return std::make_unique<JsonLinesReader>(std::move(source), path.string(), options);
  }
  return std::make_unique<PlainTextReader>(std::move(source), path.string(), options);
}

}  // namespace darkformer
