// eval on the golden model: components and probe of a converted one, on request of an exact one.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/commands/program_testing.h"

namespace darkformer::eval_test {
namespace {

class Eval : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_CACHE_HOME", path("cache").c_str(), 1);
    std::string text;
    for (int i = 0; i < 40; ++i) {
      text += "The cost of the " + std::to_string(i * i * 7919 % 1000) + " things is known.\n";
    }
    write_bytes(path("text.txt"), text);
  }

  std::string path(const std::string& name) const { return (scratch_.path() / name).string(); }
  std::string exact() const { return golden_folder("gemma1").string(); }

  std::string converted(const std::vector<std::string>& options) const {
    std::vector<std::string> arguments = {"convert",        "--no-fit",  exact(), "--data",
                                          path("text.txt"), "--context", "64",    "--out",
                                          path("model"),    "--threads", "1"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, kExitDone) << outcome.errors;
    return path("model");
  }

  Outcome eval(const std::string& model, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> arguments = {"eval",      model, "--data",    path("text.txt"),
                                          "--context", "48",  "--threads", "1"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run(arguments);
  }

  ScratchFolder scratch_;
};

std::vector<std::string> components(const Json& result) {
  std::vector<std::string> names;
  for (const Json& part : result["attribution"]) {
    names.push_back(part["component"]);
  }
  return names;
}

TEST_F(Eval, AConvertedModelIsTakenApart) {
  const std::string model = converted({"--window", "4", "--features", "16"});
  const Outcome outcome = eval(model, {"--json", "--against", exact(), "--probe", "12,20"});
  ASSERT_EQ(outcome.code, kExitDone) << outcome.errors;
  const Json result = outcome.json();
  EXPECT_EQ(components(result), (std::vector<std::string>{"full", "window only", "linear only",
                                                          "constant far field", "base"}));
  const Json& parts = result["attribution"];
  EXPECT_EQ(parts[0]["loss"], result["loss"]);  // the text is short: the same tokens
  for (std::size_t i = 1; i < parts.size(); ++i) {
    EXPECT_NE(parts[i]["loss"], result["loss"]) << parts[i]["component"];
    EXPECT_EQ(parts[i]["tokens"], result["tokens"]);
  }
  const Json& probe = parts[0]["probe"];
  ASSERT_EQ(probe.size(), 4U);
  EXPECT_EQ(probe[1]["task"], "copy");
  EXPECT_EQ(probe[1]["distance"], 20);
  EXPECT_EQ(probe[1]["tokens"], 8 * 19);
  EXPECT_EQ(probe[2]["task"], "recall");

  const Outcome table = eval(model, {"--probe", "12"});
  EXPECT_NE(table.out.find("constant far field"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("copy 12"), std::string::npos) << table.out;
  EXPECT_FALSE(eval(model, {"--json", "--no-attribution"}).json().contains("attribution"));
}

TEST_F(Eval, WithoutAWindowFullIsLinear) {
  const std::string model = converted({"--features", "16"});
  EXPECT_EQ(components(eval(model, {"--json", "--probe", "8"}).json()),
            (std::vector<std::string>{"full", "constant far field"}));
}

TEST_F(Eval, AnExactModelIsProbedOnRequest) {
  EXPECT_FALSE(eval(exact(), {"--json"}).json().contains("attribution"));
  EXPECT_EQ(components(eval(exact(), {"--json", "--probe", "8"}).json()),
            (std::vector<std::string>{"full"}));
  expect_failure(eval(exact(), {"--probe", "9999999"}), {"--probe", "9999999", "positions"});
}

TEST_F(Eval, TheGateStartsFromTheTextsNearMass) {
  const auto loss = [&](const std::vector<std::string>& more) {
    std::vector<std::string> options = {"--window", "4", "--features", "16"};
    options.insert(options.end(), more.begin(), more.end());
    const double value = eval(converted(options), {"--json", "--no-attribution"}).json()["loss"];
    std::filesystem::remove_all(path("model"));
    return value;
  };
  const double calibrated = loss({});
  EXPECT_NE(calibrated, loss({"--gate-bias", "0"}));
  EXPECT_EQ(calibrated, loss({}));
  EXPECT_NEAR(loss({"--gate-scale", "1"}), loss({"--no-gate"}), 1e-5);  // c = 1, b = 0
}

}  // namespace
}  // namespace darkformer::eval_test
