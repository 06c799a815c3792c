// Fitted layers on disk until the whole model is: a fit that was stopped goes on where it was.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "darkformer/conversion/row_fit.h"

namespace darkformer {

// One safetensors file a layer, each written whole or not at all, in a folder of its fit.
class FitStore {
 public:
  // `key`: a number that all that decides the fits goes into; fits of other keys are left alone.
  FitStore(std::filesystem::path folder, std::uint64_t key);

  // Gives the mixer the tensors that were kept of this layer, and what its fit was; nothing where
  // there is no such file, or where it is damaged or another fit's.
  std::optional<RowFit> load(std::int64_t layer, Mixer& mixer) const;
  // Error: the disk is full, ...
  void save(std::int64_t layer, const Mixer& mixer, const RowFit& fit) const;
  // How many layers are kept.
  std::int64_t layers() const;
  // The model is written: nothing need be kept, of this fit and of others.
  void remove() const;

 private:
  std::filesystem::path file_of(std::int64_t layer) const;

  std::filesystem::path folder_;
  std::string key_;
};

}  // namespace darkformer
