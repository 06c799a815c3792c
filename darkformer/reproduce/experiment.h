// An experiment of the paper as data: which runs, which curves, which claims.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "darkformer/base/json.h"

namespace darkformer::reproduce {

// A contestant: options of convert (none: the base model as it is), and of training beside those
// that all share.
struct Arm {
  std::string name, label;
  OrderedJson convert, train;
};

// Runs that differ in arm, seed and grid values alone.
struct RunGroup {
  std::string name;     // unique in its experiment
  std::string command;  // finetune, pretrain, convert, covariance, bench or variance
  std::string budget;   // name of the number of steps; empty: no training
  std::vector<std::string> arms;
  OrderedJson options;                                   // of training, for all arms alike
  std::map<std::string, std::vector<OrderedJson>> grid;  // option -> its values
  bool one_seed = false;
  bool evaluate = true;  // measure the trained model on the held-out text
  bool spectra = false;  // measure q, k and Sigma along the training
};

// weight * quantity of runs (see RunSelector).
struct Term {
  double weight = 1;
  std::string run, quantity;
};

// "group/arm", "experiment:group/arm", and either with "?option=value": with this grid value.
struct RunSelector {
  std::string experiment, group, arm;
  std::vector<std::pair<std::string, OrderedJson>> grid;
};
RunSelector parse_selector(const std::string& text, const std::string& experiment);

// The sum of the terms, over that of `over` where there are any, should be above `above`.
struct Claim {
  std::string name, statement, measure;
  std::vector<Term> terms, over;
  std::vector<std::pair<std::string, OrderedJson>> where;  // grid values the runs must have
  std::string sample = "seed";  // or a grid option: one value for each seed and grid value
  double above = 0;
};

// A line for each arm of a group, with a band over seeds (or over a grid option).
struct Chart {
  std::string title, group, quantity, x, y_label, note;  // x: "step" or a grid option
  std::vector<std::pair<std::string, OrderedJson>> where;
  bool log_x = false, log_y = false;
};

struct Experiment {
  std::string name, title, paper, statement;
  std::vector<std::string> text;
  std::map<std::string, double> minutes;  // on two cores, by scale
  std::vector<RunGroup> groups;
  std::vector<Claim> claims;
  std::vector<Chart> charts;
};

// What a scale decides: model, texts, sizes and budgets.
struct Scale {
  std::string name, model;
  std::vector<std::string> data, held_out;
  std::int64_t seeds = 1;
  std::int64_t grid_values = 0;  // of each grid option that many are tried, spread evenly; 0: all
  std::int64_t checkpoints = 8;  // in each run
  OrderedJson train, pretrain, convert, evaluate, covariance, bench;  // options
  std::map<std::string, std::int64_t> budgets;                        // name -> steps
  std::vector<double> spectra;                                        // at these shares of the run
};

struct Library {
  std::vector<Experiment> experiments;  // in the order of the page
  std::map<std::string, Arm> arms;
  std::map<std::string, Scale> scales;
};

Experiment parse_experiment(const OrderedJson& json, const std::string& source);
std::map<std::string, Arm> parse_arms(const OrderedJson& json, const std::string& source);
// A scale may name another as "like", which may do so too, and repeat only what differs.
std::map<std::string, Scale> parse_scales(const OrderedJson& json, const std::string& source);

// Checks that arms, budgets and runs that are named exist. Error naming the experiment.
void check_library(const Library& library);

// The experiments that were compiled in (experiments/ of the source tree).
const Library& library();

}  // namespace darkformer::reproduce
