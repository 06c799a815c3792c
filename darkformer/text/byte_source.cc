// Plain, gzip (zlib) and zstd files behind one stream interface.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/byte_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"

namespace darkformer {
namespace {

constexpr std::size_t kSourceBufferBytes = std::size_t{1} << 18;

// A file with a look-ahead buffer.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path)
      : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
    require(descriptor_ >= 0, name(), ": cannot open: ", last_error());
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::string name() const { return path_.string(); }
  std::uint64_t used() const { return used_; }

  // What is buffered and not used yet; empty only at the end of the file.
  std::string_view ahead() {
    if (begin_ == end_) {
      refill();
    }
    return {buffer_.data() + begin_, end_ - begin_};
  }
  void use(std::size_t count) {
    begin_ += count;
    used_ += count;
  }
  // The first bytes of the file, fewer than asked only if the file is shorter. Call before anything
  // is used.
  std::string_view first_bytes(std::size_t count) {
    while (end_ < count && read_more()) {
    }
    return {buffer_.data(), std::min(end_, count)};
  }

 private:
  static std::string last_error() { return std::generic_category().message(errno); }

  void refill() {
    begin_ = 0;
    end_ = 0;
    read_more();
  }
  bool read_more() {
    ssize_t got = 0;
    do {
      got = ::read(descriptor_, buffer_.data() + end_, buffer_.size() - end_);
    } while (got < 0 && errno == EINTR);
    require(got >= 0, name(), ": cannot read: ", last_error());
    end_ += static_cast<std::size_t>(got);
    return got > 0;
  }

  std::filesystem::path path_;
  int descriptor_;
  std::vector<char> buffer_ = std::vector<char>(kSourceBufferBytes);
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t used_ = 0;
};

class PlainBytes final : public ByteSource {
 public:
  explicit PlainBytes(std::unique_ptr<InputFile> file) : file_(std::move(file)) {}

  std::size_t read(char* out, std::size_t capacity) override {
    const std::string_view ahead = file_->ahead();
    const std::size_t count = std::min(ahead.size(), capacity);
    std::memcpy(out, ahead.data(), count);
    file_->use(count);
    return count;
  }
  std::uint64_t stored_bytes_used() const override { return file_->used(); }

 private:
  std::unique_ptr<InputFile> file_;
};

[[noreturn]] void fail_cut_short(const InputFile& file, const char* kind) {
  fail(file.name(), ": the ", kind, " data ends too early, after ", count_text(file.used(), "byte"),
       "; the file is cut short, fetch it again");
}

[[noreturn]] void fail_corrupt(const InputFile& file, const char* kind, const char* reason) {
  fail(file.name(), ": corrupt ", kind, " data near byte ", file.used(), " (", reason,
       "); fetch the file again");
}

class GzipBytes final : public ByteSource {
 public:
  explicit GzipBytes(std::unique_ptr<InputFile> file) : file_(std::move(file)) {
    constexpr int kGzipOnly = 16;  // added to the window bits: zlib's sign for a gzip header
    require(inflateInit2(&stream_, MAX_WBITS + kGzipOnly) == Z_OK, "zlib does not start");
  }
  ~GzipBytes() override { inflateEnd(&stream_); }
  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;

  std::size_t read(char* out, std::size_t capacity) override {
    const std::size_t limit = std::min(capacity, std::size_t{1} << 30);  // zlib counts in 32 bits
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(limit);
    while (stream_.avail_out == limit && (!member_ended_ || next_member())) {
      inflate_some();
    }
    return limit - stream_.avail_out;
  }
  std::uint64_t stored_bytes_used() const override { return file_->used(); }

 private:
  void inflate_some() {
    const std::string_view ahead = file_->ahead();
    if (ahead.empty()) {
      fail_cut_short(*file_, "gzip");
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(ahead.data()));
    stream_.avail_in = static_cast<uInt>(ahead.size());
    const int status = inflate(&stream_, Z_NO_FLUSH);
    file_->use(ahead.size() - stream_.avail_in);
    if (status != Z_OK && status != Z_STREAM_END) {
      fail_corrupt(*file_, "gzip", stream_.msg != nullptr ? stream_.msg : zError(status));
    }
    member_ended_ = status == Z_STREAM_END;
  }
  // Goes to the next member; false at the end of the file. Zero bytes between and after members are
  // padding (tapes, tar).
  bool next_member() {
    for (std::string_view ahead = file_->ahead(); !ahead.empty(); ahead = file_->ahead()) {
      const std::size_t zeros = std::min(ahead.find_first_not_of('\0'), ahead.size());
      file_->use(zeros);
      if (zeros < ahead.size()) {
        inflateReset(&stream_);
        member_ended_ = false;
        return true;
      }
    }
    return false;
  }

  std::unique_ptr<InputFile> file_;
  z_stream stream_{};
  bool member_ended_ = false;
};

class ZstdBytes final : public ByteSource {
 public:
  explicit ZstdBytes(std::unique_ptr<InputFile> file)
      : file_(std::move(file)), stream_(ZSTD_createDStream()) {
    require(stream_ != nullptr, "zstd does not start");
    // Published corpora are often packed with --long=31. A small file that wants two gigabytes of
    // memory is no corpus.
    is_large_ = file_->first_bytes(kSourceBufferBytes).size() == kSourceBufferBytes;
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax,
                           sizeof(void*) == 8 && is_large_ ? 31 : 27);
  }

  std::size_t read(char* out, std::size_t capacity) override {
    ZSTD_outBuffer output{out, capacity, 0};
    while (output.pos == 0 && step(output)) {
    }
    return output.pos;
  }
  std::uint64_t stored_bytes_used() const override { return file_->used(); }

 private:
  // Decompresses some; false at the end of the file.
  bool step(ZSTD_outBuffer& output) {
    const std::string_view ahead = file_->ahead();
    if (ahead.empty() && frame_ended_) {
      return false;
    }
    ZSTD_inBuffer input{ahead.data(), ahead.size(), 0};
    const std::size_t status = ZSTD_decompressStream(stream_.get(), &output, &input);
    file_->use(input.pos);
    require(is_large_ || ZSTD_getErrorCode(status) != ZSTD_error_frameParameter_windowTooLarge,
            file_->name(), ": zstd: asks for more than 128 MiB of memory, too much for a file of ",
            "this size; unpack it with zstd -d --long=31");
    if (ZSTD_isError(status) != 0) {
      fail_corrupt(*file_, "zstd", ZSTD_getErrorName(status));
    }
    frame_ended_ = status == 0;
    // No input left and nothing came out: the frame wants bytes that are not there.
    if (ahead.empty() && output.pos == 0 && !frame_ended_) {
      fail_cut_short(*file_, "zstd");
    }
    return true;
  }

  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::unique_ptr<InputFile> file_;
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool is_large_ = false;
  bool frame_ended_ = false;
};

bool is_gzip(std::string_view first) {
  return first.starts_with("\x1f\x8b");
}

bool is_zstd(std::string_view first) {
  const bool skippable =
      first.size() >= 4 && (first[0] & 0xF0) == 0x50 && first.substr(1, 3) == "\x2a\x4d\x18";
  return first.starts_with("\x28\xb5\x2f\xfd") || skippable;
}

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path) {
  std::error_code ignored;  // a path that cannot be looked at fails below, with its reason
  require(!std::filesystem::is_directory(path, ignored), path.string(),
          ": is a folder; name a file in it");
  auto file = std::make_unique<InputFile>(path);
  const std::string_view first = file->first_bytes(4);
  if (is_gzip(first)) {
    return std::make_unique<GzipBytes>(std::move(file));
  }
  if (is_zstd(first)) {
    return std::make_unique<ZstdBytes>(std::move(file));
  }
  const std::string extension = path.extension().string();
  require(extension != ".gz" && extension != ".zst", path.string(), ": named ", extension,
          first.empty() ? " but is empty" : " but its first bytes are not of that format",
          "; fetch it again or rename it");
  return std::make_unique<PlainBytes>(std::move(file));
}

}  // namespace darkformer
