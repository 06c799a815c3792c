// Whole models of every family: what a walk sees, and fits that are stopped and gone on with.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/conversion/model_fit.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "darkformer/base/checksum.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/conversion/fit_store.h"
#include "darkformer/conversion/layer_walk.h"
#include "darkformer/model/conversion.h"
#include "darkformer/model/observed_mixer.h"
#include "darkformer/model/small_decoder.h"

namespace darkformer::model_fit_test {
namespace {

using at::Tensor;

Tensor some_ids(std::int64_t windows = 5, std::int64_t tokens = 20) {
  auto generator = at::detail::createCPUGenerator(3);
  return at::randint(0, 58, {windows, tokens}, generator, at::kLong);
}

std::vector<std::int64_t> all_layers(const Decoder& model) {
  std::vector<std::int64_t> layers;
  for (std::int64_t i = 0; i < model.layers(); ++i) {
    layers.push_back(i);
  }
  return layers;
}

AttentionSpec spec_of(const Decoder& model, std::int64_t layer) {
  AttentionSpec spec = small_dark_spec();
  spec.rank = model.config().head_dim_of(layer);
  spec.gate = true;
  return spec;
}

ModelFitHooks hooks_of(Decoder& model) {
  return {[&model](std::int64_t layer, const RowExamples&) {
    if (model.config().owns_keys(layer)) {
      convert_layer(model, layer, spec_of(model, layer));
    }
  }};
}

ModelFitOptions short_fit(const FitStore* store = nullptr) {
  ModelFitOptions options;
  options.rows = {.parts = {FitPart::kFactor, FitPart::kGate}, .steps = 4};
  options.store = store;
  return options;
}

std::vector<Tensor> tensors_of(const Decoder& model) {
  std::vector<Tensor> tensors;
  for (const auto& item : model.named_parameters()) {
    tensors.push_back(item.value().detach().clone());
  }
  return tensors;
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b[i])) {
      return false;
    }
  }
  return true;
}

// Queries and keys of a layer as the model's own forward pass makes them.
std::pair<Tensor, Tensor> seen_by(Decoder& model, std::int64_t layer, const Tensor& ids) {
  const at::NoGradGuard no_gradients;
  const auto attention = model.block(layer)->attention();
  const std::shared_ptr<Mixer> mixer = attention->mixer();
  std::pair<Tensor, Tensor> seen;
  attention->set_mixer(observed_mixer(mixer, [&](const MixerCall& call) {
    seen = {call.q.clone(), call.k.clone()};
  }));
  model.forward(ids);
  attention->set_mixer(mixer);
  return seen;
}

TEST(ModelFit, WalksAsTheModelRuns) {
  for (const Family family : all_families()) {
    const auto model = small_decoder(small_config(family));
    const Tensor ids = some_ids(3, 20);
    LayerWalk walk(*model, ids);
    for (std::int64_t layer = 0; layer < model->layers(); ++layer) {
      ASSERT_EQ(walk.layer(), layer);
      const RowExamples x = walk.look();
      const auto [q, k] = seen_by(*model, layer, ids);
      EXPECT_TRUE(at::allclose(x.q, q, 1e-5, 1e-5));
      EXPECT_TRUE(at::allclose(x.k, k, 1e-5, 1e-5));
      layer % 2 == 0 ? walk.pass() : walk.run_again();
    }
  }
}

TEST(ModelFit, FitsEveryLayerOfEveryFamilyToWhatTheConvertedOnesBelowMakeOfTheText) {
  for (const Family family : all_families()) {
    const auto model = small_decoder(small_config(family));
    const std::vector<std::int64_t> layers = all_layers(*model);
    const Tensor ids = some_ids();
    std::vector<Tensor> read;
    ModelFitHooks hooks = hooks_of(*model);
    const auto convert = hooks.convert;
    hooks.convert = [&](std::int64_t layer, const RowExamples& x) {
      read.push_back(x.q.clone());
      convert(layer, x);
    };
    const std::vector<RowFit> fits = fit_model(*model, ids, layers, short_fit(), hooks);
    ASSERT_EQ(fits.size(), layers.size());
    for (const std::int64_t layer : layers) {
      const RowFit& fit = fits[static_cast<std::size_t>(layer)];
      EXPECT_EQ(fit.after.size(), 4U);
      EXPECT_TRUE(at::allclose(read[static_cast<std::size_t>(layer)],
                               seen_by(*model, layer, ids).first, 1e-4, 1e-4))
          << "layer " << layer << " reads the layers below it as they are in the end";
    }
  }
}

class Stopped : public std::exception {};

TEST(ModelFit, GoesOnAfterAStopToTheSameBits) {
  for (const Family family : {Family::kLlama, Family::kGemma4}) {
    const ScratchFolder scratch;
    const auto whole = small_decoder(small_config(family));
    const std::vector<std::int64_t> layers = all_layers(*whole);
    const std::vector<RowFit> wanted =
        fit_model(*whole, some_ids(), layers, short_fit(), hooks_of(*whole));

    const FitStore store(scratch.path() / "fit", 17);
    const auto first = small_decoder(small_config(family));
    ModelFitHooks hooks = hooks_of(*first);
    std::int64_t left = 12;  // into the second layer
    hooks.advance = [&](std::int64_t steps) {
      if ((left -= steps) < 0) {
        throw Stopped();
      }
    };
    EXPECT_THROW(fit_model(*first, some_ids(), layers, short_fit(&store), hooks), Stopped);
    ASSERT_EQ(store.layers(), 1);

    const auto second = small_decoder(small_config(family));
    hooks = hooks_of(*second);
    std::int64_t at_once = 0;
    hooks.advance = [&](std::int64_t steps) { at_once = std::max(at_once, steps); };
    const std::vector<RowFit> fits =
        fit_model(*second, some_ids(), layers, short_fit(&store), hooks);
    EXPECT_EQ(at_once, 8) << "layer 0 is not fitted again";
    EXPECT_TRUE(same(tensors_of(*second), tensors_of(*whole)));
    for (std::size_t i = 0; i < fits.size(); ++i) {
      EXPECT_EQ(fits[i].after, wanted[i].after);
    }
    store.remove();
    EXPECT_FALSE(std::filesystem::exists(scratch.path() / "fit"));
  }
}

TEST(ModelFit, TakesNoLayerOfAnotherFitAndNoDamagedOne) {
  const ScratchFolder scratch;
  const std::filesystem::path folder = scratch.path() / "fit";
  const auto model = small_decoder(small_config(Family::kLlama));
  convert_layer(*model, 0, spec_of(*model, 0));
  Mixer& mixer = *model->block(0)->attention()->mixer();
  const FitStore store(folder, 1);
  EXPECT_FALSE(store.load(0, mixer));
  store.save(0, mixer, {{1.0, 2.0}, {0.5, 0.25}});
  ASSERT_TRUE(store.load(0, mixer));
  EXPECT_EQ(store.load(0, mixer)->after, (std::vector<double>{0.5, 0.25}));
  EXPECT_FALSE(store.load(1, mixer));
  const FitStore another(folder, 2);
  EXPECT_FALSE(another.load(0, mixer));
  another.save(0, mixer, {{3.0, 3.0}, {3.0, 3.0}});
  EXPECT_EQ(store.load(0, mixer)->after, (std::vector<double>{0.5, 0.25})) << "lost to another fit";
  EXPECT_EQ(store.layers(), 1);
  AttentionSpec other = spec_of(*model, 0);
  other.features = 20;
  convert_layer(*model, 1, other);
  const std::filesystem::path own = folder / to_hex(1);
  std::filesystem::copy_file(own / "layer-0.safetensors", own / "layer-1.safetensors");
  EXPECT_FALSE(store.load(1, *model->block(1)->attention()->mixer()));
  std::filesystem::resize_file(own / "layer-0.safetensors", 100);
  EXPECT_FALSE(store.load(0, mixer));
}

TEST(ModelFit, OrdersLayersByTheirFits) {
  ModelConfig config;
  config.layers = 5, config.shared_layers = 2;
  config.layer_kinds.assign(5, LayerKind::kFull);
  const std::int64_t owner = config.key_layer(4);
  const auto fit_of = [](double a, double b) { return RowFit{{9, 9}, {a, b}}; };
  const std::vector<RowFit> fits = {fit_of(0.1, 0.5), fit_of(0.2, 0.2), fit_of(0.0, 0.1),
                                    fit_of(1.0, 1.0), fit_of(1.0, 3.0)};
  EXPECT_EQ(worst_layers(config, {0, 1, 2, 3, 4}, fits, 2), (std::vector<std::int64_t>{owner, 0}));
  EXPECT_EQ(worst_layers(config, {0, 1}, {fits[0], fits[1]}, 5), (std::vector<std::int64_t>{0, 1}));
  EXPECT_TRUE(worst_layers(config, {0, 1}, {fits[0], fits[1]}, 0).empty());
}

}  // namespace
}  // namespace darkformer::model_fit_test
