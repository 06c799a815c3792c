// From experiments to the command lines that make them up, each once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "darkformer/reproduce/experiment.h"

namespace darkformer::reproduce {

// One call of the program in the folder of the reproduction. Its name holds a checksum of its
// arguments and of what it reads: what was done with others is never taken for it.
struct Job {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<std::string> needs;  // names of jobs to be done before
  std::string makes;               // a folder that only a finished job leaves whole; may be empty
  bool resumes = false;            // goes on with what an interrupted one left in `makes`
  bool alone = false;              // is timed: nothing may run beside it
  double work = 1;                 // about how long, in steps of training
};

// A run of a group as the claims see it, and the jobs that tell about it.
struct PlannedRun {
  std::string experiment, group, command, arm;
  std::int64_t seed = 1;
  std::map<std::string, OrderedJson> grid;
  std::int64_t steps = 0;
  std::string folder;                // of the training run, relative; empty: none
  std::string main_job, evaluation;  // names of jobs; empty: none
  std::vector<std::pair<double, std::string>> spectra;  // share of the run -> job
  OrderedJson settings;                                 // what the page shows
};

struct Plan {
  std::vector<Job> jobs;  // in an order in which they could be done one by one
  std::vector<PlannedRun> runs;
};

// What the user chose. Paths as the children will see them, which run in another folder.
struct Inputs {
  std::string model;
  std::vector<std::string> data, held_out;
  std::int64_t seeds = 1, first_seed = 1;
  std::uint64_t contents = 0;  // of the model and the texts: other bytes are other jobs
};

Plan make_plan(const Library& library,
               const std::vector<std::string>& experiments,
               const Scale& scale,
               const Inputs& inputs);

// {"lr": 0.1, "centre": true, "lengths": [1, 2]} -> --lr 0.1 --centre --lengths 1 2.
std::vector<std::string> option_arguments(const OrderedJson& options);

// `count` of the values, the first and the last among them; all when count is 0.
std::vector<OrderedJson> spread_values(const std::vector<OrderedJson>& values, std::int64_t count);

}  // namespace darkformer::reproduce
