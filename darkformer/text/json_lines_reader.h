// One JSON object a line, the document under one of its keys: C4's form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "darkformer/text/document_reader.h"
#include "darkformer/text/line_reader.h"

namespace darkformer {

// Each object is one document in one piece. Blank lines are no documents and not broken; nor are
// empty strings.
class JsonLinesReader final : public DocumentReader {
 public:
  JsonLinesReader(std::unique_ptr<ByteSource> source,
                  std::string name,
                  const ReaderOptions& options);

  bool next(DocumentPiece& piece) override;
  std::uint64_t stored_bytes_used() const override { return lines_.source().stored_bytes_used(); }

 private:
  bool parse(std::string_view line);

  LineReader lines_;
  BrokenLines broken_;
  std::string field_;
  std::string text_;
};

}  // namespace darkformer
