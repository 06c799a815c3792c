// Writing, checking, choosing and removing checkpoint folders.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/run_checkpoints.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/checksum.h"
#include "darkformer/base/error.h"
#include "darkformer/base/log.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStateFile = "training_state.json";
constexpr const char* kOptimizerFile = "optimizer.safetensors";

// Block by block: a file of many GiB, mapped as a whole, would count as memory of the process.
std::string file_checksum(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  require(stream.is_open(), file.string(), ": cannot be opened for reading");
  std::vector<char> block(std::size_t{1} << 20U);
  Checksum sum;
  while (stream.read(block.data(), static_cast<std::streamsize>(block.size())) ||
         stream.gcount() > 0) {
    sum.update(block.data(), static_cast<std::size_t>(stream.gcount()));
  }
  require(!stream.bad(), file.string(), ": cannot be read");
  return to_hex(sum.value());
}

OrderedJson checksums_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  OrderedJson sums = OrderedJson::object();
  for (const fs::path& file : files) {
    sums[file.filename().string()] = file_checksum(file);
  }
  return sums;
}

// Why a checkpoint cannot be used; empty: it can.
std::string fault_of(const fs::path& folder) {
  try {
    const Json state = read_json(folder / kStateFile);
    parse_training_state(state, (folder / kStateFile).string());
    const auto sums =
        get_value<Json>(state, "checksums", kStateFile).get<std::map<std::string, std::string>>();
    for (const auto& [name, sum] : sums) {
      if (file_checksum(folder / name) != sum) {
        return concat(name, " is not as it was written (wrong checksum)");
      }
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

bool is_leftover(const std::string& name) {
  return name.starts_with(".step-") && (name.ends_with(".partial") || name.ends_with(".old"));
}

void remove_folder(const fs::path& folder) {
  std::error_code failed;
  fs::remove_all(folder, failed);
  if (failed) {
    log_warning(folder.string(), ": cannot be removed: ", failed.message());
  }
}

bool is_better(const Checkpoint& a, const Checkpoint& b) {
  return a.state.held_out_loss.has_value() &&
         (!b.state.held_out_loss || *a.state.held_out_loss < *b.state.held_out_loss);
}

}  // namespace

fs::path RunCheckpoints::save(const TrainingState& state,
                              const Decoder& model,
                              const Optimizer& optimizer,
                              const fs::path& companions) const {
  const fs::path target = folder_ / concat("step-", state.step);
  AtomicDirectory directory(target);
  write_model_files(directory.path(), model, {.companions = companions});
  optimizer.save(directory.path() / kOptimizerFile);
  OrderedJson json = training_state_json(state);
  json["checksums"] = checksums_of(directory.path());
  write_json(directory.path() / kStateFile, json);
  directory.commit();
  prune();
  return target;
}

std::vector<Checkpoint> RunCheckpoints::all() const {
  std::vector<Checkpoint> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder_, none)) {
    if (!entry.path().filename().string().starts_with("step-")) {
      continue;
    }
    const fs::path file = entry.path() / kStateFile;
    try {
      found.push_back({entry.path(), parse_training_state(read_json(file), file.string())});
    } catch (const Error& error) {
      log_warning("checkpoint left out: ", error.what());
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Checkpoint& a, const Checkpoint& b) { return a.state.step < b.state.step; });
  return found;
}

bool RunCheckpoints::empty() const {
  std::error_code none;
  const fs::directory_iterator entries(folder_, none);
  return std::none_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with("step-");
  });
}

std::optional<Checkpoint> RunCheckpoints::latest() const {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder_, none)) {
    if (is_leftover(entry.path().filename().string())) {
      remove_folder(entry.path());
    }
  }
  std::vector<Checkpoint> found = all();
  for (; !found.empty(); found.pop_back()) {
    const std::string fault = fault_of(found.back().folder);
    if (fault.empty()) {
      return found.back();
    }
    log_warning("checkpoint left out: ", found.back().folder.string(), ": ", fault);
  }
  return std::nullopt;
}

std::optional<Checkpoint> RunCheckpoints::best() const {
  std::optional<Checkpoint> best;
  for (const Checkpoint& checkpoint : all()) {
    if (checkpoint.state.held_out_loss && (!best || is_better(checkpoint, *best))) {
      best = checkpoint;
    }
  }
  return best;
}

void RunCheckpoints::prune() const {
  const std::vector<Checkpoint> found = all();
  const std::optional<Checkpoint> kept = best();
  const std::int64_t surplus = static_cast<std::int64_t>(found.size()) - keep_;
  for (std::int64_t i = 0; i < surplus; ++i) {
    const Checkpoint& checkpoint = found[static_cast<std::size_t>(i)];
    if (!kept || checkpoint.folder != kept->folder) {
      remove_folder(checkpoint.folder);
    }
  }
}

}  // namespace darkformer
