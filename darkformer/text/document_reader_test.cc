// Documents from every format: whole, odd line ends, broken lines, long lines, cut short, empty.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/document_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/text/test_files.h"

namespace darkformer::document_reader_test {
namespace {

using Documents = std::vector<std::string>;

// Joins the pieces of each document and checks their flags.
Documents read_documents(DocumentReader& reader, std::size_t* pieces = nullptr) {
  Documents documents;
  bool open = false;
  DocumentPiece piece;
  while (reader.next(piece)) {
    EXPECT_EQ(piece.begins_document, !open);
    if (piece.begins_document) {
      documents.emplace_back();
    }
    documents.back() += piece.text;
    open = !piece.ends_document;
    if (pieces != nullptr) {
      ++*pieces;
    }
  }
  EXPECT_FALSE(open);
  EXPECT_FALSE(reader.next(piece)) << "stays at the end";
  return documents;
}

class DocumentReaderTest : public testing::Test {
 protected:
  std::filesystem::path put(const std::string& name, const std::string& bytes) const {
    write_bytes(folder_.path() / name, bytes);
    return folder_.path() / name;
  }
  Documents read(const std::string& name,
                 const std::string& bytes,
                 const ReaderOptions& options = {}) {
    const auto reader = open_documents(put(name, bytes), options);
    const Documents documents = read_documents(*reader);
    report_ = reader->report();
    return documents;
  }
  std::string error(const std::string& name,
                    const std::string& bytes,
                    const ReaderOptions& options = {}) {
    return error_of([&] { read(name, bytes, options); });
  }
  ScratchFolder folder_;
  ReadReport report_;
};

const char* const kTwoObjects = "{\"text\":\"one\\n\\u00e9\",\"url\":\"u\"}\n{\"text\":\"two\"}\n";
const Documents kTwoDocuments = {"one\n\xC3\xA9", "two"};

TEST_F(DocumentReaderTest, EveryNameAndPacking) {
  for (const std::string name : {"a.jsonl", "a.json", "a.ndjson", "a.JSONL", "a.other", "none"}) {
    EXPECT_EQ(read(name, kTwoObjects), kTwoDocuments) << name;
    EXPECT_EQ(read(name + ".gz", gzip(kTwoObjects)), kTwoDocuments) << name;
    EXPECT_EQ(read(name + ".zst", zstd(kTwoObjects)), kTwoDocuments) << name;
  }
  for (const std::string name : {"a.txt", "a.text", "a.TXT", "a.other", "none"}) {
    EXPECT_EQ(read(name, "text\n"), Documents{"text\n"}) << name;
    EXPECT_EQ(read(name + ".gz", gzip("text\n")), Documents{"text\n"}) << name;
    EXPECT_EQ(read(name + ".zst", zstd("text\n")), Documents{"text\n"}) << name;
  }
  EXPECT_EQ(read("json.txt", "{\"text\": 1}"), Documents{"{\"text\": 1}"}) << "the name goes first";
}

TEST_F(DocumentReaderTest, JsonLinesOddities) {
  EXPECT_EQ(read("a.jsonl", ""), Documents{});
  EXPECT_EQ(read("a.jsonl", "{\"text\":\"no end\"}"), Documents{"no end"});
  EXPECT_EQ(read("a.jsonl", "{\"text\":\"a\"}\r\n\r\n  \n{\"text\":\"b\"}\r\n"),
            (Documents{"a", "b"}));
  EXPECT_EQ(report_.lines, 4);
  EXPECT_EQ(report_.documents, 2);
  EXPECT_EQ(report_.broken_lines, 0);
  EXPECT_EQ(read("a.jsonl", "\xEF\xBB\xBF{\"text\":\"marked\"}\n"), Documents{"marked"});
  EXPECT_EQ(read("a.jsonl", "{\"text\":\"\"}\n{\"text\":\"x\"}\n"), Documents{"x"});
  EXPECT_EQ(report_.broken_lines, 0) << "an empty text is not broken";
  EXPECT_EQ(read("a.jsonl", "{\"text\":\"a\\r\\nb\"}\n"), Documents{"a\r\nb"})
      << "escaped text as is";
}

TEST_F(DocumentReaderTest, AnotherField) {
  ReaderOptions options;
  options.text_field = "content";
  EXPECT_EQ(read("a.jsonl", "{\"content\":\"x\",\"text\":\"y\"}\n", options), Documents{"x"});
}

TEST_F(DocumentReaderTest, EachKindOfBrokenLineIsCounted) {
  const std::string cases[][2] = {{"{\"text\": \"cut", "not valid JSON"},
                                  {"not json", "not valid JSON"},
                                  {"{\"text\":\"x\"} {\"text\":\"y\"}", "not valid JSON"},
                                  {"{\"text\":\"\xFF\"}", "not valid JSON"},
                                  {"{\"text\":\"\\ud800\"}", "not valid JSON"},
                                  {"{\"body\":\"x\"}", "\"text\" is missing"},
                                  {"{\"text\":null}", "\"text\" is missing"},
                                  {"{\"text\":5}", "must be a string"},
                                  {"{\"text\":\"x\",\"n\":1e999}", "not valid JSON"},
                                  {"[1,2]", "\"text\" is missing"},
                                  {"17", "\"text\" is missing"}};
  for (const auto& [line, reason] : cases) {
    EXPECT_EQ(read("a.jsonl", "{\"text\":\"a\"}\n" + line + "\n{\"text\":\"b\"}\n"),
              (Documents{"a", "b"}));
    EXPECT_EQ(report_.broken_lines, 1) << line;
    EXPECT_EQ(report_.first_broken_line, 2) << line;
    EXPECT_TRUE(contains(report_.first_broken_reason, reason));
    EXPECT_TRUE(contains(report_.summary(), "1 broken (first: line 2: JSON"));
  }
}

TEST_F(DocumentReaderTest, AReasonIsShortAndPrintable) {
  read("a.jsonl", "{\"text\":\"" + std::string(100000, 'x') + "\xFF\n");
  EXPECT_EQ(report_.broken_lines, 1);
  EXPECT_LT(report_.first_broken_reason.size(), 250U);
  for (const char letter : report_.first_broken_reason) {
    EXPECT_TRUE(letter >= ' ' && letter <= '~');
  }
}

std::string lines(int good, int broken) {
  std::string text;
  for (int i = 0; i < broken; ++i) {
    text += "broken\n";
  }
  for (int i = 0; i < good; ++i) {
    text += "{\"text\":\"good\"}\n";
  }
  return text;
}

TEST_F(DocumentReaderTest, TooManyBrokenLinesAreAnError) {
  EXPECT_EQ(read("a.jsonl", lines(5, 10)).size(), 5U) << "ten are always allowed";
  const std::string message = error("a.jsonl", lines(5, 11));
  EXPECT_TRUE(contains(message, "a.jsonl: 11 broken lines in the first 16 (10 allowed)"));
  EXPECT_TRUE(contains(message, "the first is line 1: JSON:1:"));
  EXPECT_EQ(read("a.jsonl", lines(1980, 20)).size(), 1980U)
      << "1 % is allowed, even all at the start";
  EXPECT_TRUE(contains(error("a.jsonl", lines(1979, 21)),
                       "21 broken lines in the first 2000 (20 allowed)"));
  EXPECT_EQ(read("a.jsonl", lines(10, 10)).size(), 10U);
}

TEST_F(DocumentReaderTest, AHopelessFileFailsEarly) {
  const std::string message = error("a.jsonl", lines(0, 100000));
  EXPECT_TRUE(contains(message, "101 broken lines in the first 101 (100 allowed)"));
}

TEST_F(DocumentReaderTest, TheLimitCanBeSet) {
  ReaderOptions strict;
  strict.broken = {0, 0};
  EXPECT_TRUE(contains(error("a.jsonl", lines(1000, 1), strict), "1 broken line in"));
  ReaderOptions loose;
  loose.broken = {1, 0};
  EXPECT_EQ(read("a.jsonl", lines(1, 5000), loose).size(), 1U);
}

TEST_F(DocumentReaderTest, AHugeLineIsAnErrorWithItsNumber) {
  ReaderOptions options;
  options.max_line_bytes = 1000;
  const std::string good = "{\"text\":\"" + std::string(989, 'x') + "\"}";  // 1000 bytes
  EXPECT_EQ(read("a.jsonl", good + "\n" + good, options).size(), 2U);
  EXPECT_TRUE(contains(error("a.jsonl", good + "\n" + good + " \n", options),
                       "a.jsonl line 2: longer than 1000 bytes"));
  options.piece_bytes = 100;
  EXPECT_EQ(read("a.txt", std::string(1000, 'x') + "\nend", options).size(), 1U);
  EXPECT_TRUE(contains(error("a.txt", "1\n2\n" + std::string(1001, 'x') + "\nend", options),
                       "a.txt line 3: longer than 1000 bytes"));
  EXPECT_TRUE(contains(error("a.txt.gz", gzip("1\n" + std::string(5000000, 'x')), options),
                       "line 2: longer than 1000 bytes"));
}

TEST_F(DocumentReaderTest, PlainTextIsKeptToTheByte) {
  for (const std::string text :
       {"a", "a\n", "\n", "\n\n\n", " a \n\n b\t\n", "a\rb", "a\r", "\xC3\xA9"}) {
    EXPECT_EQ(read("a.txt", text), Documents{text});
  }
  EXPECT_EQ(read("a.txt", ""), Documents{});
  EXPECT_EQ(read("a.txt", "a\r\n\r\nb\r\n"), Documents{"a\n\nb\n"});
  EXPECT_EQ(read("a.txt", "a\r\r\nb"), Documents{"a\r\nb"});
  EXPECT_EQ(read("a.txt", "\xEF\xBB\xBFmarked"), Documents{"marked"});
  EXPECT_EQ(read("a.txt", "\xEF\xBB\xBF"), Documents{});
}

TEST_F(DocumentReaderTest, LinesOfPlainTextAreCounted) {
  read("a.txt", "1\n2\n3");
  EXPECT_EQ(report_.lines, 3);
  read("a.txt", "1\n2\n3\n");
  EXPECT_EQ(report_.lines, 3);
  EXPECT_EQ(report_.documents, 1);
}

TEST_F(DocumentReaderTest, PiecesEndAfterRunsOfLineEnds) {
  std::string text;
  for (int i = 0; i < 20000; ++i) {
    text += std::string(i % 97, 'x') + std::string(1 + i % 5, '\n');
  }
  for (const std::size_t piece_bytes : {1, 1000, 100000}) {
    ReaderOptions options;
    options.piece_bytes = piece_bytes;
    const auto reader = open_documents(put("a.txt", text), options);
    std::string all;
    int pieces = 0;
    DocumentPiece piece;
    for (; reader->next(piece); ++pieces) {
      all += piece.text;
      EXPECT_TRUE(piece.ends_document || (piece.text.ends_with('\n') && text[all.size()] != '\n'));
    }
    EXPECT_EQ(all, text);
    EXPECT_GT(pieces, 6);
  }
}

TEST_F(DocumentReaderTest, PiecesOfALargeFileAreBounded) {
  std::string text;
  while (text.size() < 3000000) {
    text += "A line of ordinary text, forty-odd bytes.\r\n";
  }
  const auto reader = open_documents(put("a.txt.zst", zstd(text)));
  std::size_t total = 0;
  std::size_t pieces = 0;
  DocumentPiece piece;
  for (; reader->next(piece); ++pieces) {
    EXPECT_LE(piece.text.size(), std::size_t{1} << 19);
    total += piece.text.size();
  }
  EXPECT_GT(pieces, 5U);
  EXPECT_EQ(total, text.size() - text.size() / 43);
  EXPECT_EQ(reader->stored_bytes_used(), std::filesystem::file_size(folder_.path() / "a.txt.zst"));
}

TEST_F(DocumentReaderTest, EndlessLineEndsStayBounded) {
  ReaderOptions options;
  options.max_line_bytes = 1000;
  options.piece_bytes = 100;
  const std::string text(2000000, '\n');
  const auto reader = open_documents(put("a.txt", text), options);
  std::size_t pieces = 0;
  EXPECT_EQ(read_documents(*reader, &pieces), Documents{text});
  EXPECT_GT(pieces, 4U);
}

TEST_F(DocumentReaderTest, SeparatorsSplitDocuments) {
  for (const std::string separator : {"<|end|>", "\n\n\n", "\n---\n", "x"}) {
    for (const std::size_t piece_bytes : {1, 5, 64, 100000}) {
      ReaderOptions options;
      options.separator = separator;
      options.piece_bytes = piece_bytes;
      const std::string text = separator + "first\n\nline" + separator + separator + "second" +
                               separator + "third" + separator;
      EXPECT_EQ(read("a.txt", text, options), (Documents{"first\n\nline", "second", "third"}))
          << separator << " in pieces of " << piece_bytes;
      EXPECT_EQ(report_.documents, 3);
    }
  }
}

// Most of the text is separators, so that reads end inside them; small pieces are cut where reads
// end.
TEST_F(DocumentReaderTest, SeparatorsAcrossReads) {
  ReaderOptions options;
  options.separator = "\n<|end|>\n<|of text|>\n";
  std::string text;
  Documents documents;
  for (int i = 0; i < 40000; ++i) {
    documents.push_back(std::to_string(i) + (i % 3 == 0 ? "\n<|end|>\n<|" : "\n"));
    text += (i > 0 ? options.separator : "") + documents.back();
  }
  for (const std::size_t piece_bytes : {1, 30, 100000}) {
    options.piece_bytes = piece_bytes;
    EXPECT_EQ(read("a.txt", text, options), documents);
    EXPECT_EQ(read("a.txt.gz", gzip(text), options), documents);
  }
}

TEST_F(DocumentReaderTest, BrokenLinesOfPlainText) {
  EXPECT_EQ(read("a.txt",
                 "good\nb\xFF"
                 "d\nalso good\n\xC3"),
            Documents{"good\nalso good\n"});
  EXPECT_EQ(report_.broken_lines, 2);
  EXPECT_EQ(report_.first_broken_line, 2);
  EXPECT_EQ(report_.first_broken_reason, "invalid UTF-8 at byte 2 of the line");
  EXPECT_EQ(report_.lines, 4);
  std::string latin;
  for (int i = 0; i < 11; ++i) {
    latin += "caf\xE9\n";
  }
  EXPECT_TRUE(
      contains(error("a.txt", latin), "a.txt: 11 broken lines in the first 11 (10 allowed)"));
  EXPECT_EQ(read("a.txt", "\xFF"), Documents{""}) << "a document of which nothing is left";
  EXPECT_EQ(report_.documents, 0);
}

TEST_F(DocumentReaderTest, CutShortAndMissing) {
  const std::string packed = gzip(lines(20000, 0));
  EXPECT_TRUE(
      contains(error("c4.json.gz", packed.substr(0, packed.size() - 5)), "c4.json.gz: the gzip"));
  EXPECT_TRUE(contains(error("c4.json.gz", packed.substr(0, packed.size() - 5)), "cut short"));
  EXPECT_TRUE(
      contains(error_of([&] { open_documents(folder_.path() / "none.txt"); }), "cannot open"));
  EXPECT_TRUE(contains(error_of([&] { open_documents(folder_.path() / "none"); }), "cannot open"));
}

}  // namespace
}  // namespace darkformer::document_reader_test
