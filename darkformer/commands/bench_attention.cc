// Feature attention and exact attention beside their rivals in plain ATen calls, checked, then
// timed.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/threads.h"
#include "darkformer/commands/bench_attention_runs.h"
#include "darkformer/commands/bench_parts.h"
#include "darkformer/commands/bench_timing.h"
#include "darkformer/commands/blas_core.h"
#include "darkformer/kernels/yardstick.h"

namespace darkformer {
namespace {

// The square of a long sequence would take minutes, and the rival keeps it in memory.
constexpr std::int64_t kLongestExact = 16384, kLongestRivalExact = 4096;
// A backward pass makes 2.5 times the products of a forward pass.
constexpr double kBothOverForward = 3.5;

// Ratios are those of ratio_in_turn (bench_timing.h).
struct Pass {
  Timing ours, rival;
  double gflops = 0.0;    // useful operations of ours, 0 where they are not counted
  double peak = 0.0;      // of all threads
  double share = 0.0;     // of that peak
  double ratio = 0.0;     // the rival's time over ours
  double speed_up = 0.0;  // the time on one thread over ours, 0 where it was not measured
};

struct AttentionRow {
  std::int64_t size, features, length, bytes;
  Pass forward, both, exact_forward, exact_both;
};

// In turn, because a shared machine changes its speed by a third from one minute to the next.
Pass measure_pass(const std::function<void()>& ours,
                  const std::function<void()>& rival,
                  bool with_rival,
                  double flops = 0.0) {
  const auto on_one_thread = [](const std::function<void()>& body) {
    return [body] {
      const ThreadCount one(1);
      body();
    };
  };
  const bool scaling = threads() > 1 && flops > 0.0;
  kernels::Yardstick yardstick;
  std::vector<std::function<void()>> bodies = {ours, on_one_thread([&] { yardstick.run(); })};
  if (scaling) {
    bodies.push_back(on_one_thread(ours));
  }
  if (with_rival) {
    bodies.push_back(rival);
  }
  const std::vector<Timing> timings = time_in_turn(bodies);
  Pass pass;
  pass.ours = timings[0];
  pass.gflops = flops / pass.ours.seconds / 1e9;
  const double peak_gflop = threads() * kernels::Yardstick::kGflop;
  pass.peak = peak_gflop / timings[1].seconds;
  pass.share = ratio_in_turn(timings[1], pass.ours) * flops / 1e9 / peak_gflop;
  if (scaling) {
    pass.speed_up = ratio_in_turn(timings[2], pass.ours);
  }
  if (with_rival) {
    pass.rival = timings.back();
    pass.ratio = ratio_in_turn(pass.rival, pass.ours);
  }
  return pass;
}

AttentionRow measure_row(const BenchOptions& options,
                         std::int64_t size,
                         std::int64_t features,
                         std::int64_t length) {
  const AttentionRuns runs(options.heads, length, size, features);
  // Useful operations: features of q and k (4 T D F) and the two products with the state (4 T F
  // Dv), per head.
  const double flops = 8.0 * static_cast<double>(length) * static_cast<double>(size) *
                       static_cast<double>(features) * static_cast<double>(options.heads);
  AttentionRow row{size, features, length, runs.bytes(), {}, {}, {}, {}};
  row.forward = measure_pass([&] { runs.features_forward(); },
                             [&] { runs.rival_features_forward(); }, options.rivals, flops);
  row.both = measure_pass([&] { runs.features_both(); }, [&] { runs.rival_features_both(); },
                          options.rivals, kBothOverForward * flops);
  if (options.exact && length <= kLongestExact) {
    const bool rival = options.rivals && length <= kLongestRivalExact;
    row.exact_forward =
        measure_pass([&] { runs.exact_forward(); }, [&] { runs.rival_exact_forward(); }, rival);
    row.exact_both =
        measure_pass([&] { runs.exact_both(); }, [&] { runs.rival_exact_both(); }, rival);
  }
  return row;
}

// The length from which a forward pass with features is faster than exact attention: lengths are
// doubled until it is, and the logarithm of the ratio is interpolated. 0: not up to kLongestExact.
std::int64_t crossing(const BenchOptions& options, std::int64_t size, std::int64_t features) {
  double before = 0.0;
  for (std::int64_t length = 32; length <= kLongestExact; length *= 2) {
    const AttentionRuns runs(options.heads, length, size, features);
    const std::vector<Timing> timings =
        time_in_turn({[&] { runs.features_forward(); }, [&] { runs.exact_forward(); }}, 0.05);
    const double gain = std::log2(timings[1].seconds / timings[0].seconds);
    if (gain >= 0.0) {
      const double share = length == 32 ? 1.0 : -before / (gain - before);
      return static_cast<std::int64_t>(
          std::lround(static_cast<double>(length) / 2.0 * std::exp2(share)));
    }
    before = gain;
  }
  return 0;
}

void print_times(double value, std::ostream& out) {
  if (value > 0.0) {
    out << std::setprecision(1) << std::setw(6) << value << "x";
  } else {
    out << std::setw(7) << "-";
  }
}

// As wide whatever was measured, so that all rows have the same columns.
void print_pass(const Pass& pass, bool share, std::ostream& out) {
  if (!pass.ours.measured()) {
    out << std::setw(10) << "-" << std::setw(5) << "-" << std::setw(7) << "-";
    return;
  }
  out << std::setprecision(2) << std::setw(10) << 1e3 * pass.ours.seconds << std::setprecision(0)
      << std::setw(4) << 100 * pass.ours.spread << "%";
  if (share) {
    out << std::setw(5) << 100 * pass.share << "%";
  }
  if (share && threads() > 1) {
    print_times(pass.speed_up, out);
  }
  print_times(pass.ratio, out);
}

void print(const AttentionRow& row, bool exact, std::ostream& out) {
  out << std::fixed << std::setw(4) << row.size << std::setw(5) << row.features << std::setw(7)
      << row.length << std::setprecision(1) << std::setw(7)
      << static_cast<double>(row.bytes) * 1e-6;
  print_pass(row.forward, true, out);
  print_pass(row.both, true, out);
  if (exact) {
    print_pass(row.exact_forward, false, out);
    print_pass(row.exact_both, false, out);
  }
  out << std::endl;
}

void print_attention_head(const BenchOptions& options, std::ostream& out) {
  const std::string core = blas_core();
  out << count_text(threads(), "thread") << ", " << count_text(options.heads, "head")
      << ", causal; medians of " << clock_name()
      << " (ms) and their spread; peak: share of the rate of 256 x 256 products;\nrival: the same "
         "in plain ATen calls"
      << (core.empty() ? "" : ", OpenBLAS core " + core)
      << ", as times of ours; MB: q, k, v and the output"
      << (threads() > 1 ? ";\n1 thr: the time on one thread, as times of ours; "
                          "shares and ratios are those of the fastest runs\n"
                        : "\n");
  std::ostringstream titles, names;
  titles << std::string(23, ' ');
  names << "head feat length     MB";
  const auto columns = [&](const std::string& title, bool share) {
    std::ostringstream of_pass;
    of_pass << std::setw(10) << "time" << std::setw(5) << "" << (share ? "  peak" : "")
            << (share && threads() > 1 ? "  1 thr" : "") << "  rival";
    names << of_pass.str();
    titles << " " << std::left << std::setfill('-')
           << std::setw(static_cast<int>(of_pass.str().size()) - 1) << "-- " + title + " ";
  };
  columns("features forward", true);
  columns("+ backward", true);
  if (options.exact) {
    columns("exact forward", false);
    columns("+ backward", false);
  }
  out << titles.str() << "\n" << names.str() << "\n";
}

OrderedJson json_of(const Pass& pass) {
  OrderedJson object;
  object["seconds"] = pass.ours.seconds, object["spread"] = pass.ours.spread;
  if (pass.gflops > 0.0) {
    object["gflops"] = pass.gflops, object["peak_gflops"] = pass.peak,
    object["share_of_peak"] = pass.share;
  }
  if (pass.speed_up > 0.0) {
    object["speed_up"] = pass.speed_up;
  }
  if (pass.rival.measured()) {
    object["rival_seconds"] = pass.rival.seconds, object["rival_spread"] = pass.rival.spread,
    object["ratio"] = pass.ratio;
  }
  return object;
}

OrderedJson json_of(const AttentionRow& row) {
  OrderedJson object;
  object["threads"] = threads(), object["clock"] = clock_name();
  object["head_size"] = row.size, object["features"] = row.features, object["length"] = row.length,
  object["bytes"] = row.bytes;
  object["forward"] = json_of(row.forward);
  object["forward_backward"] = json_of(row.both);
  if (row.exact_forward.ours.measured()) {
    object["exact_forward"] = json_of(row.exact_forward);
    object["exact_forward_backward"] = json_of(row.exact_both);
  }
  return object;
}

void measure_attention_shape(const BenchOptions& options,
                             std::size_t shape,
                             Context& context,
                             OrderedJson& rows) {
  const std::int64_t size = options.head_sizes[shape], features = options.features[shape];
  const std::vector<std::int64_t> lengths =
      options.lengths.empty() ? std::vector<std::int64_t>{1024, 4096} : options.lengths;
  const std::int64_t from = options.exact ? crossing(options, size, features) : 0;
  for (const std::int64_t length : lengths) {
    context.stop_if_interrupted("stopped; the rows above are complete");
    const AttentionRow row = measure_row(options, size, features, length);
    if (!context.common.json) {
      print(row, options.exact, context.out);
    }
    OrderedJson object = json_of(row);
    if (options.exact) {
      object["features_win_from"] = from;
    }
    rows.push_back(object);
  }
  if (options.exact && !context.common.json) {
    context.out << "     features beat exact attention (forward) from a length of " << from << ", "
                << std::setprecision(1) << static_cast<double>(from) / static_cast<double>(features)
                << " times their number\n";
  }
}

}  // namespace

void bench_attention(const BenchOptions& options, Context& context) {
  check_shapes(options);
  OrderedJson rows = OrderedJson::array();
  for (std::size_t i = 0; i < options.features.size(); ++i) {
    AttentionRuns(1, 150, options.head_sizes[i], options.features[i]).check_against_reference();
    AttentionRuns(2, 512, options.head_sizes[i], options.features[i]).check_against_rivals();
  }
  for (const int count : thread_counts(context.common)) {
    const ThreadCount use(count);
    if (!context.common.json) {
      print_attention_head(options, context.out);
    }
    for (std::size_t i = 0; i < options.features.size(); ++i) {
      measure_attention_shape(options, i, context, rows);
    }
  }
  if (context.common.json) {
    OrderedJson result;
    result["heads"] = options.heads, result["blas"] = blas_core(), result["rows"] = rows;
    context.print_json(result);
  }
}

}  // namespace darkformer
