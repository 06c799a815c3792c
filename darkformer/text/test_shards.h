// Toy tokenizers and shards for tests of the data path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "darkformer/text/token_encoder.h"
#include "darkformer/text/token_shard.h"

namespace darkformer {

// Every byte is a token: id = 3 + byte; 1 is EOS and 2 is BOS, as in Gemma.
inline TokenEncoder byte_encoder(std::int32_t vocabulary = 259, std::uint64_t fingerprint = 77) {
  const auto encode = [](std::string_view text) {
    std::vector<std::int32_t> ids;
    for (const char letter : text) {
      ids.push_back(3 + static_cast<unsigned char>(letter));
    }
    return ids;
  };
  return {encode, 2, 1, vocabulary, fingerprint};
}

using Ids = std::vector<std::int64_t>;

inline Ids shard_ids(const TokenShard& shard) {
  Ids ids(static_cast<std::size_t>(shard.info().tokens));
  shard.copy(0, shard.info().tokens, ids.data());
  return ids;
}

using Documents = std::vector<std::vector<std::int32_t>>;

// `count` documents of 1 to `longest` ids; no two tokens in a row are the same, no two documents
// are.
inline Documents make_documents(int count, std::size_t longest, std::int32_t vocabulary = 259) {
  Documents documents;
  std::int32_t id = 0;
  for (int d = 0; d < count; ++d) {
    documents.emplace_back(1 + static_cast<std::size_t>(d) * 7919 % longest);
    for (std::int32_t& token : documents.back()) {
      token = 3 + (id = (id + 1 + d) % (vocabulary - 3));
    }
  }
  return documents;
}

// The packed stream, written out:  BOS ids EOS  of each document.
inline Ids packed(const Documents& documents) {
  Ids stream;
  for (const auto& document : documents) {
    stream.push_back(2);
    stream.insert(stream.end(), document.begin(), document.end());
    stream.push_back(1);
  }
  return stream;
}

// Writes a shard with these documents and opens it.
inline std::shared_ptr<const TokenShard> make_shard(const std::filesystem::path& path,
                                                    const Documents& documents,
                                                    const TokenEncoder& encoder = byte_encoder()) {
  TokenShardWriter writer(path, encoder, 0);
  for (const auto& document : documents) {
    writer.append(document);
    writer.end_document();
  }
  writer.commit();
  return std::make_shared<TokenShard>(path, ShardCheck::kFull);
}

}  // namespace darkformer
