// Runs in a folder: resumed to the same bits, interrupted, out of disk, not finite.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/training_run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <limits>

#include "darkformer/base/interrupt.h"
#include "darkformer/base/jsonl.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/text/test_files.h"
#include "darkformer/training/test_runs.h"

namespace darkformer::training_run_test {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// What a line says, without what depends on the clock and the machine's load.
std::string steady(Json line) {
  line.erase("tokens_per_second");
  line.erase("memory");
  return line.dump();
}

class TrainingRun : public ::testing::Test {
 protected:
  RunOptions options(const std::string& name) const {
    RunOptions options;
    options.folder = scratch_.path() / name;
    options.steps = 12;
    options.checkpoint_every = 3;
    options.evaluate_every = 2;
    options.held_out = split_.held_out;
    options.resume_command = "resume it";
    return options;
  }

  static std::shared_ptr<Decoder> model_of(const std::optional<Checkpoint>& start) {
    return start ? load_model(start->folder, {.trains = [](const std::string&) { return true; }})
                 : tiny_model();
  }

  // As a new process would: from the last checkpoint if there is one.
  RunResult go(const RunOptions& options) const {
    const auto start = RunCheckpoints(options.folder, options.keep).latest();
    Trainer trainer(model_of(start), tiny_batches(split_), tiny_training());
    return run_training(trainer, options, start);
  }

  void expect_same(const RunOptions& a, const RunOptions& b) const {
    for (const char* name :
         {"final/model.safetensors", "final/config.json", "checkpoints/step-12/model.safetensors",
          "checkpoints/step-12/optimizer.safetensors", "checkpoints/step-12/training_state.json"}) {
      EXPECT_TRUE(bytes_of(a.folder / name) == bytes_of(b.folder / name)) << name;
    }
  }

  ScratchFolder scratch_;
  CorpusSplit split_ = tiny_corpus(scratch_.path());
};

TEST_F(TrainingRun, WritesItsFolder) {
  const RunOptions run = options("run");
  const RunResult result = go(run);
  EXPECT_EQ(result.state.step, 12);
  const std::vector<Json> lines = read_jsonl(run.folder / "log.jsonl");
  ASSERT_EQ(lines.size(), 12U);
  for (const char* key : {"step", "tokens", "loss", "accuracy", "gradient_norm", "learning_rate",
                          "factor_learning_rate", "tokens_per_second", "spikes", "skipped",
                          "memory", "covariance_condition", "held_out_loss", "held_out_accuracy"}) {
    EXPECT_TRUE(lines.back().contains(key)) << key;
  }
  EXPECT_FALSE(lines.front().contains("held_out_loss"));
  EXPECT_EQ(lines.back()["covariance_condition"].size(), 2U);
  EXPECT_GE(lines.back()["covariance_condition"][1], 1.0);
  // The last two checkpoints and the best stay.
  ASSERT_TRUE(result.best.has_value());
  EXPECT_TRUE(fs::exists(result.best->folder));
  EXPECT_TRUE(fs::exists(run.folder / "checkpoints/step-12/model.safetensors"));
  EXPECT_TRUE(fs::exists(run.folder / "checkpoints/step-9"));
  EXPECT_EQ(fs::exists(run.folder / "checkpoints/step-3"), result.best->state.step == 3);
  EXPECT_EQ(load_model(run.folder / "final")->config().draw_index, 2);
}

TEST_F(TrainingRun, StoppedAndResumedItHasTheSameBits) {
  const RunOptions whole = options("whole");
  go(whole);
  const RunOptions parts = options("parts");
  // Ctrl-C after each of the first seven steps, whether a checkpoint is due or not.
  set_interrupted(true);
  for (int stop = 0; stop < 7; ++stop) {
    EXPECT_THROW(go(parts), Interrupted) << stop;
    EXPECT_EQ(RunCheckpoints(parts.folder, 2).latest()->state.step, stop + 1);
  }
  set_interrupted(false);
  go(parts);
  expect_same(whole, parts);
  const auto want = read_jsonl(whole.folder / "log.jsonl");
  const auto got = read_jsonl(parts.folder / "log.jsonl");
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(steady(got[i]), steady(want[i]));
  }
}

TEST_F(TrainingRun, InterruptedItSaysHowToGoOn) {
  set_interrupted(true);
  try {
    go(options("run"));
    ADD_FAILURE() << "not interrupted";
  } catch (const Interrupted& stop) {
    const std::string text = stop.what();
    EXPECT_NE(text.find("step-1"), std::string::npos) << text;
    EXPECT_NE(text.find("resume it"), std::string::npos) << text;
  }
  set_interrupted(false);
}

TEST_F(TrainingRun, ABrokenCheckpointIsLeftOut) {
  const RunOptions whole = options("whole");
  go(whole);
  const RunOptions parts = options("parts");
  go(parts);
  // One bit of the newest weights.
  const fs::path file = parts.folder / "checkpoints/step-12/model.safetensors";
  std::string bytes = bytes_of(file);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  fs::remove_all(parts.folder / "final");
  EXPECT_EQ(RunCheckpoints(parts.folder, 2).latest()->state.step, 9);
  go(parts);
  expect_same(whole, parts);
}

// A limit on the size of files stands for a full disk: writes fail in the same way.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(TrainingRun, AFullDiskLeavesTheLastCheckpoint) {
  const RunOptions whole = options("whole");
  go(whole);
  RunOptions full = options("full");
  full.steps = 3;
  go(full);
  fs::remove_all(full.folder / "final");
  full.steps = 12;
  {
    const FileSizeLimit limit(20'000);
    try {
      go(full);
      ADD_FAILURE() << "the checkpoint was written";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      EXPECT_NE(text.find("step-3"), std::string::npos) << text;
      EXPECT_NE(text.find("resume it"), std::string::npos) << text;
    }
  }
  EXPECT_EQ(RunCheckpoints(full.folder, 2).latest()->state.step, 3);
}

// Finite weights whose results are not: the step may be skipped. A weight that is not finite ends
// the run. The lines say which gradient or weight it is.
TEST_F(TrainingRun, NotFiniteStopsOrIsSkipped) {
  constexpr float kHuge = std::numeric_limits<float>::max();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (const float weight : {kHuge, kInfinite}) {
    for (const bool skip : {false, true}) {
      RunOptions run = options(concat(skip ? "skip" : "stop", weight));
      run.steps = 3;
      run.checkpoint_every = 2;
      go(run);
      run.steps = 6;
      run.skip_nonfinite = skip;
      const auto start = RunCheckpoints(run.folder, 2).latest();
      const auto model = model_of(start);
      {
        const at::NoGradGuard no_gradients;
        model->named_parameters()["model.layers.1.mlp.up_proj.weight"].fill_(weight);
      }
      Trainer trainer(model, tiny_batches(split_), tiny_training());
      if (skip && weight == kHuge) {
        EXPECT_EQ(run_training(trainer, run, start).state.skipped, 3);
        continue;
      }
      const std::string error = error_of([&] { run_training(trainer, run, start); });
      EXPECT_TRUE(contains(error, "step-3")) << error;
      EXPECT_TRUE(contains(error, weight == kHuge ? "but not the gradient of model."
                                                  : "model.layers.1.mlp.up_proj.weight holds NaN"))
          << error;
    }
  }
}

TEST_F(TrainingRun, FinalInBfloat16) {
  RunOptions run = options("run");
  run.steps = 2;
  run.final_bfloat16 = true;
  run.tensorboard = true;
  go(run);
  const auto model = load_model(run.folder / "final");
  EXPECT_EQ(model->embedding()->value().scalar_type(), at::kBFloat16);
  EXPECT_FALSE(fs::is_empty(run.folder / "tensorboard"));
}

TEST(TrainingState, ComesBackFromJson) {
  TrainingState state{.step = 7, .tokens = 1234, .optimizer_steps = 6, .spikes = 2, .skipped = 1};
  state.position = {1, 5, 0xFEDCBA9876543210U};
  state.recent_losses = {1.0 / 3, 2.5e-300, 4};
  state.held_out_loss = 0.1;
  state.threads = 2;
  const std::string text = training_state_json(state).dump();
  EXPECT_EQ(parse_training_state(parse_json(text, "state"), "state"), state);
  Json newer = parse_json(text, "state");
  newer["format_version"] = 2;
  EXPECT_THROW(parse_training_state(newer, "state"), Error);
}

}  // namespace
}  // namespace darkformer::training_run_test
