// JSON lines: parse, take the field, count what does not fit.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/json_lines_reader.h"

#include <utility>

#include "darkformer/base/error.h"
#include "darkformer/base/json.h"

namespace darkformer {

JsonLinesReader::JsonLinesReader(std::unique_ptr<ByteSource> source,
                                 std::string name,
                                 const ReaderOptions& options)
    : lines_(std::move(source), name, options.max_line_bytes),
      broken_(report_, options.broken),
      field_(options.text_field) {
  report_.file = std::move(name);
}

bool JsonLinesReader::next(DocumentPiece& piece) {
  std::string_view line;
  while (lines_.next(line)) {
    report_.lines = lines_.line_number();
    const bool blank = line.find_first_not_of(" \t") == std::string_view::npos;
    if (!blank && parse(line) && !text_.empty()) {
      ++report_.documents;
      piece = {text_, true, true};
      return true;
    }
  }
  broken_.finish();
  return false;
}

bool JsonLinesReader::parse(std::string_view line) {
  static const std::string source = "JSON";
  try {
    text_ = get_value<std::string>(parse_json(line, source), field_, source);
    return true;
  } catch (const Error& error) {
    broken_.add(lines_.line_number(), error.what());
    return false;
  }
}

}  // namespace darkformer
