// Writing and checking token shards.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/token_shard.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <fstream>
#include <limits>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"

namespace darkformer {
namespace {

constexpr std::array<char, 8> kMagic = {'D', 'A', 'R', 'K', 'T', 'O', 'K', 'S'};
constexpr std::uint32_t kVersion = 1;

// The first bytes of the file as they are, little-endian; docs/file_formats.md explains them.
struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t token_bytes = 0;
  std::uint64_t tokenizer = 0;
  std::uint64_t source_key = 0;
  std::uint64_t tokens = 0;
  std::uint64_t documents = 0;
  std::uint64_t lines = 0;
  std::uint64_t broken_lines = 0;
  std::int32_t bos = 0;
  std::int32_t eos = 0;
  std::int32_t vocabulary = 0;
  std::array<std::uint32_t, 9> reserved{};  // zero
  std::uint64_t data_checksum = 0;
  std::uint64_t header_checksum = 0;  // of all bytes before it
};
static_assert(sizeof(Header) == 128);

constexpr std::size_t kDocumentBytes = 16;
constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 48;
constexpr std::size_t kShardBufferBytes = std::size_t{1} << 20;

std::uint64_t header_checksum(const Header& header) {
  return checksum(&header, offsetof(Header, header_checksum));
}

std::uint32_t token_bytes_for(std::int32_t vocabulary) {
  return vocabulary <= std::numeric_limits<std::uint16_t>::max() + 1 ? 2 : 4;
}

// The document table starts at a multiple of 8.
std::uint64_t padding(std::uint64_t id_bytes) {
  return (8 - id_bytes % 8) % 8;
}

Header make_header(const ShardInfo& info) {
  Header header;
  header.token_bytes = token_bytes_for(info.vocabulary);
  header.tokenizer = info.tokenizer;
  header.source_key = info.source_key;
  header.tokens = static_cast<std::uint64_t>(info.tokens);
  header.documents = static_cast<std::uint64_t>(info.documents);
  header.lines = static_cast<std::uint64_t>(info.lines);
  header.broken_lines = static_cast<std::uint64_t>(info.broken_lines);
  header.bos = info.bos;
  header.eos = info.eos;
  header.vocabulary = info.vocabulary;
  header.data_checksum = info.checksum;
  header.header_checksum = header_checksum(header);
  return header;
}

ShardInfo make_info(const Header& header) {
  return {.tokenizer = header.tokenizer,
          .source_key = header.source_key,
          .bos = header.bos,
          .eos = header.eos,
          .vocabulary = header.vocabulary,
          .tokens = static_cast<std::int64_t>(header.tokens),
          .documents = static_cast<std::int64_t>(header.documents),
          .lines = static_cast<std::int64_t>(header.lines),
          .broken_lines = static_cast<std::int64_t>(header.broken_lines),
          .checksum = header.data_checksum};
}

template <class Stored>
void widen(const std::byte* from, std::int64_t count, std::int64_t* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    Stored id;
    std::memcpy(&id, from + static_cast<std::size_t>(i) * sizeof(id), sizeof(id));
    out[i] = id;
  }
}

std::uint64_t load_word(const std::byte* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

constexpr const char* kMakeAgain = "; delete it and tokenise the text again";

}  // namespace

TokenShardWriter::TokenShardWriter(const std::filesystem::path& path,
                                   const TokenEncoder& encoder,
                                   std::uint64_t source_key)
    : path_(path), file_(path) {
  const auto known = [&](std::int32_t id) { return id >= 0 && id < encoder.vocabulary; };
  require((known(encoder.bos) || encoder.bos == -1) && known(encoder.eos), path.string(), ": BOS ",
          encoder.bos, " or EOS ", encoder.eos, " is outside the vocabulary of ",
          encoder.vocabulary);
  info_.tokenizer = encoder.fingerprint;
  info_.source_key = source_key;
  info_.bos = encoder.bos;
  info_.eos = encoder.eos;
  info_.vocabulary = encoder.vocabulary;
  const Header header = make_header(info_);
  file_.write(&header, sizeof(header));  // its place; commit() fills it in
}

void TokenShardWriter::append(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    require(id >= 0 && id < info_.vocabulary, path_.string(), ": the tokenizer gave id ", id,
            ", outside its vocabulary of ", info_.vocabulary);
  }
  document_hash_.update(ids.data(), ids.size_bytes());
  info_.tokens += static_cast<std::int64_t>(ids.size());
  if (token_bytes_for(info_.vocabulary) == 4) {
    write(ids.data(), ids.size_bytes());
    return;
  }
  narrow_.assign(ids.begin(), ids.end());
  write(narrow_.data(), narrow_.size() * sizeof(std::uint16_t));
}

void TokenShardWriter::end_document() {
  const auto end = static_cast<std::uint64_t>(info_.tokens);
  if (end > (documents_.empty() ? 0 : documents_.back().end)) {
    documents_.push_back({end, document_hash_.value()});
    info_.documents = static_cast<std::int64_t>(documents_.size());
  }
  document_hash_ = Checksum();
}

void TokenShardWriter::set_lines(std::int64_t lines, std::int64_t broken) {
  info_.lines = lines;
  info_.broken_lines = broken;
}

void TokenShardWriter::commit() {
  static_assert(sizeof(Document) == kDocumentBytes);
  end_document();
  const std::uint64_t zero = 0;
  write(&zero,
        padding(static_cast<std::uint64_t>(info_.tokens) * token_bytes_for(info_.vocabulary)));
  write(documents_.data(), documents_.size() * sizeof(Document));
  flush();
  info_.checksum = data_checksum_.value();
  const Header header = make_header(info_);
  file_.overwrite(0, &header, sizeof(header));
  file_.commit();
}

void TokenShardWriter::write(const void* bytes, std::size_t size) {
  data_checksum_.update(bytes, size);
  buffer_.append(static_cast<const char*>(bytes), size);
  if (buffer_.size() >= kShardBufferBytes) {
    flush();
  }
}

void TokenShardWriter::flush() {
  file_.write(buffer_);
  buffer_.clear();
}

TokenShard::TokenShard(const std::filesystem::path& path, ShardCheck check) : file_(path) {
  read_header();
  check_documents();
  if (check == ShardCheck::kFull) {
    require(checksum(at(sizeof(Header)), file_.size() - sizeof(Header)) == info_.checksum,
            file_.path().string(), ": the checksum of the tokens is wrong: the file is corrupt",
            kMakeAgain);
  }
}

void TokenShard::read_header() {
  const std::string name = file_.path().string();
  require(file_.text().starts_with(std::string_view(kMagic.data(), kMagic.size())), name,
          ": not a token shard");
  require(file_.size() >= sizeof(Header), name, ": the token shard is cut short in its header",
          kMakeAgain);
  Header header;
  std::memcpy(&header, file_.data(), sizeof(header));
  require(header.version == kVersion, name, ": token shard of version ", header.version,
          ", this program reads version ", kVersion, kMakeAgain);
  require(header.header_checksum == header_checksum(header), name,
          ": the checksum of the header is wrong: the file is corrupt", kMakeAgain);
  info_ = make_info(header);
  token_bytes_ = header.token_bytes;
  // What no writer of ours writes, but would lead astray: sizes that overflow, another width.
  require(token_bytes_ == token_bytes_for(info_.vocabulary) && header.tokens < kMostTokens &&
              header.documents <= header.tokens,
          name, ": the header of the token shard contradicts itself", kMakeAgain);
  const std::uint64_t id_bytes = header.tokens * token_bytes_;
  documents_offset_ = sizeof(Header) + id_bytes + padding(id_bytes);
  const std::uint64_t size = documents_offset_ + header.documents * kDocumentBytes;
  require(file_.size() >= size, name,
          ": the token shard is cut short: ", count_text(file_.size(), "byte"), " of ", size,
          kMakeAgain);
  require(file_.size() == size, name, ": the token shard has ",
          count_text(file_.size() - size, "byte"), " too many", kMakeAgain);
}

// The ends rise strictly up to the number of tokens, so no document can lead outside the file.
void TokenShard::check_documents() const {
  std::int64_t last = 0;
  bool rising = true;
  for (std::int64_t d = 0; d < info_.documents; ++d) {
    const std::int64_t end = document_end(d);
    rising = rising && end > last;
    last = end;
  }
  require(rising && last == info_.tokens, file_.path().string(),
          ": the document table of the token shard is corrupt", kMakeAgain);
}

void TokenShard::require_tokenizer(std::uint64_t fingerprint) const {
  require(info_.tokenizer == fingerprint, file_.path().string(), ": made with tokenizer ",
          to_hex(info_.tokenizer), ", but this model has tokenizer ", to_hex(fingerprint),
          "; tokenise the text with the model's own");
}

std::int64_t TokenShard::document_end(std::int64_t d) const {
  assert(d >= 0 && d < info_.documents);
  return static_cast<std::int64_t>(
      load_word(at(documents_offset_ + static_cast<std::uint64_t>(d) * kDocumentBytes)));
}

std::uint64_t TokenShard::document_hash(std::int64_t d) const {
  assert(d >= 0 && d < info_.documents);
  return load_word(at(documents_offset_ + static_cast<std::uint64_t>(d) * kDocumentBytes + 8));
}

void TokenShard::copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const {
  assert(begin >= 0 && count >= 0 && begin + count <= info_.tokens);
  const std::byte* from = at(sizeof(Header) + static_cast<std::uint64_t>(begin) * token_bytes_);
  if (token_bytes_ == 2) {
    widen<std::uint16_t>(from, count, out);
  } else {
    widen<std::int32_t>(from, count, out);
  }
  const bool sound = std::all_of(
      out, out + count, [this](std::int64_t id) { return id >= 0 && id < info_.vocabulary; });
  require(sound, file_.path().string(), ": token ids outside the vocabulary: the file is corrupt",
          kMakeAgain);
}

bool is_token_shard(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) {
    return false;  // opening a pipe would wait for a writer
  }
  std::array<char, kMagic.size()> first{};
  std::ifstream file(path, std::ios::binary);
  return file.read(first.data(), first.size()) && first == kMagic;
}

}  // namespace darkformer
