// Reading and writing safetensors.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <utility>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/base/printable.h"

namespace darkformer {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little endian and mapped");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's own limit
constexpr const char* kMetadata = "__metadata__";

// A JSON parser keeps the last of two equal keys in silence; here they are an error.
class UniqueKeys {
 public:
  explicit UniqueKeys(const std::string& source) : source_(source) {}

  bool keep(int depth, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::object_start) {
      keys_.resize(std::max<std::size_t>(keys_.size(), depth + 2));
      keys_[depth + 1].clear();
    } else if (event == Json::parse_event_t::key) {
      const auto& name = value.get_ref<const std::string&>();
      const bool first = keys_[depth].insert(name).second;
      require(first, source_, ": \"", printable(name), "\" is in the header twice");
    }
    return true;
  }

 private:
  const std::string& source_;
  std::vector<std::set<std::string>> keys_;  // of the open object at each depth
};

// The header's text, after the checks that need no JSON.
std::string_view header_text(const MappedFile& file) {
  const std::string source = file.path().string();
  const std::string_view text = file.text();
  require(!text.empty(), source, ": is empty");
  require(text.size() >= kLengthBytes, source, ": cut short: ", count_text(text.size(), "byte"));
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(text[i]);
  }
  require(length <= kLongestHeader, source, ": not a safetensors file: its header would have ",
          length, " bytes");
  const std::size_t rest = text.size() - kLengthBytes;
  require(length <= rest, source, ": cut short: header of ", count_text(length, "byte"), ", got ",
          rest);
  const std::string_view header = text.substr(kLengthBytes, length);
  require(header.starts_with('{'), source,
          ": not a safetensors file: its header is no JSON object");
  return header;
}

// Where and how long a tensor says it is.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// One entry of the header, read with errors that name it.
class EntryReader {
 public:
  EntryReader(const std::string& source, const std::string& name, const Json& entry)
      : where_(source + ": tensor '" + printable(name) + "'"), entry_(entry) {
    require(entry.is_object(), where_, ": its entry in the header is no object");
  }

  DType dtype() const {
    const Json& value = member("dtype");
    require(value.is_string(), where_, ": dtype is no string");
    const auto& name = value.get_ref<const std::string&>();
    const auto found = find_dtype(name);
    require(found.has_value(), where_, ": unknown dtype ", printable(name));
    return *found;
  }

  std::vector<std::int64_t> shape() const {
    std::vector<std::int64_t> sizes;
    const Json& value = member("shape");
    require(value.is_array(), where_, ": shape is no list");
    for (const Json& size : value) {
      constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
      require(size.is_number_unsigned() && size.get<std::uint64_t>() <= kMost, where_,
              ": shape holds ", printable(size.dump()));
      sizes.push_back(size.get<std::int64_t>());
    }
    return sizes;
  }

  Extent extent(std::uint64_t buffer) const {
    const Json& value = member("data_offsets");
    require(value.is_array() && value.size() == 2 && value[0].is_number_unsigned() &&
                value[1].is_number_unsigned(),
            where_, ": data_offsets must be two whole numbers");
    const Extent extent{value[0].get<std::uint64_t>(), value[1].get<std::uint64_t>()};
    require(extent.begin <= extent.end && extent.end <= buffer, where_, ": its bytes [",
            extent.begin, ", ", extent.end, ") are not within the ", count_text(buffer, "byte"),
            " of data (file cut short?)");
    return extent;
  }

  void check_size(const TensorView& tensor) const {
    const auto wanted = tensor_bytes(tensor.dtype, tensor.shape);
    require(wanted.has_value(), where_, ": absurd shape ", shape_text(tensor.shape));
    require(*wanted == tensor.bytes, where_, ": ", dtype_name(tensor.dtype), " of shape ",
            shape_text(tensor.shape), " needs ", count_text(*wanted, "byte"),
            ", the file gives it ", tensor.bytes);
  }

 private:
  const Json& member(const char* key) const {
    const auto found = entry_.find(key);
    require(found != entry_.end(), where_, ": no ", key);
    return *found;
  }

  std::string where_;
  const Json& entry_;
};

TensorView read_entry(const std::string& source,
                      const std::string& name,
                      const Json& entry,
                      std::span<const std::byte> buffer) {
  const EntryReader reader(source, name, entry);
  TensorView tensor;
  tensor.name = name;
  tensor.dtype = reader.dtype();
  tensor.shape = reader.shape();
  const Extent extent = reader.extent(buffer.size());
  tensor.data = buffer.data() + extent.begin;
  tensor.bytes = extent.end - extent.begin;
  reader.check_size(tensor);
  return tensor;
}

SafetensorsMetadata read_metadata(const Json& entry, const std::string& source) {
  SafetensorsMetadata metadata;
  require(entry.is_object(), source, ": __metadata__ is no object");
  for (const auto& [key, value] : entry.items()) {
    require(value.is_string(), source, ": __metadata__ '", printable(key), "' is no string");
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

// Sorted by place, each tensor must begin where the one before ended, and the last one must end
// with the file.
void check_cover(const std::vector<TensorView>& tensors,
                 std::span<const std::byte> buffer,
                 const std::string& source) {
  const std::byte* end = buffer.data();
  for (const TensorView& tensor : tensors) {
    require(tensor.data == end, source, ": tensor '", printable(tensor.name),
            tensor.data < end ? "' overlaps the one before it" : "' leaves a hole before it",
            " (at byte ", tensor.data - buffer.data(), ", wanted ", end - buffer.data(), ")");
    end += tensor.bytes;
  }
  const auto left = buffer.data() + buffer.size() - end;
  require(left == 0, source, ": has ", count_text(left, "byte"), " after the last tensor");
}

void sort_by_place(std::vector<TensorView>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    return a.data != b.data     ? a.data < b.data
           : a.bytes != b.bytes ? a.bytes < b.bytes
                                : a.name < b.name;
  });
}

}  // namespace

bool is_aligned(const TensorView& tensor) {
  const std::uint64_t bytes = std::max<std::uint64_t>(dtype_bits(tensor.dtype) / 8, 1);
  return reinterpret_cast<std::uintptr_t>(tensor.data) % bytes == 0;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::string source = path.string();
  const std::string_view text = header_text(file_);
  UniqueKeys unique(source);
  const Json header = parse_filtered_json(
      text, source + " header",
      [&](int depth, auto event, Json& value) { return unique.keep(depth, event, value); });
  const std::size_t start = kLengthBytes + text.size();
  const std::span<const std::byte> buffer(file_.data() + start, file_.size() - start);
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      metadata_ = read_metadata(entry, source);
    } else {
      tensors_.push_back(read_entry(source, name, entry, buffer));
    }
  }
  sort_by_place(tensors_);
  check_cover(tensors_, buffer, source);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    index_.emplace(tensors_[i].name, i);
  }
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

TensorSource copy_of(const TensorView& tensor) {
  const std::span<const std::byte> bytes(tensor.data, tensor.bytes);
  return {tensor.name, tensor.dtype, tensor.shape, [bytes] { return bytes; }};
}

namespace {

std::uint64_t source_bytes(const TensorSource& tensor, const std::string& file) {
  const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
  require(bytes.has_value(), file, ": tensor '", printable(tensor.name), "': absurd shape ",
          shape_text(tensor.shape));
  return *bytes;
}

void sort_for_file(std::vector<TensorSource>& tensors, const std::string& file) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorSource& a, const TensorSource& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
  std::set<std::string_view> names = {kMetadata};
  for (const TensorSource& tensor : tensors) {
    const bool first = names.insert(tensor.name).second;
    require(first, file, ": tensor '", printable(tensor.name), "' would be written twice");
  }
}

// The length, the JSON and the spaces that align the first tensor to 8 bytes.
std::string make_header(const std::vector<TensorSource>& tensors,
                        const SafetensorsMetadata& metadata,
                        const std::string& file) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += std::string("\"") + kMetadata + "\":" + Json(metadata).dump();
  }
  std::uint64_t begin = 0;
  for (const TensorSource& tensor : tensors) {
    const std::uint64_t end = begin + source_bytes(tensor, file);
    OrderedJson entry;
    entry["dtype"] = dtype_name(tensor.dtype);
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {begin, end};
    text += (text.size() > 1 ? "," : "") + Json(tensor.name).dump() + ":" + entry.dump();
    begin = end;
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  require(text.size() <= kLongestHeader, file, ": its header would be ", text.size(), " bytes");
  std::string length;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  }
  return length + text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path,
                       std::vector<TensorSource> tensors,
                       const SafetensorsMetadata& metadata) {
  const std::string file = path.string();
  sort_for_file(tensors, file);
  AtomicFile out(path);
  out.write(make_header(tensors, metadata, file));
  for (const TensorSource& tensor : tensors) {
    const std::span<const std::byte> bytes = tensor.read();
    require(bytes.size() == source_bytes(tensor, file), file, ": tensor '", printable(tensor.name),
            "' of shape ", shape_text(tensor.shape), " has ", count_text(bytes.size(), "byte"));
    out.write(bytes.data(), bytes.size());
  }
  out.commit();
}

}  // namespace darkformer
