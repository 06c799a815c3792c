// Decoding: one token of attention against the context before it, of a whole model against a loop
// that only reads its weights, and of several sequences at once against one.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <iomanip>
#include <ostream>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/system_info.h"
#include "darkformer/base/threads.h"
#include "darkformer/commands/bench_decode_runs.h"
#include "darkformer/commands/bench_parts.h"
#include "darkformer/commands/bench_timing.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

// Keys and values of 8 heads of 256 are 1 GiB here.
constexpr std::int64_t kLongestCache = 65536;

struct DecodeRow {
  std::int64_t size, features, context, state_bytes, cache_bytes;
  Timing step, exact;
};

void print_decode_head(const BenchOptions& options, std::ostream& out) {
  out << count_text(threads(), "thread") << ", " << count_text(options.heads, "head")
      << "; one token of attention, medians of " << clock_name() << " (us) and their spread\n"
      << "head feat  context      state   features spread      cache      exact spread    ratio\n";
}

void print(const DecodeRow& row, std::ostream& out) {
  const auto time = [&](const Timing& timing) {
    out << std::setprecision(1) << std::setw(11) << 1e6 * timing.seconds << std::setprecision(0)
        << std::setw(6) << 100 * timing.spread << "%";
  };
  out << std::fixed << std::setw(4) << row.size << std::setw(5) << row.features << std::setw(9)
      << row.context << std::setw(11) << bytes_text(row.state_bytes);
  time(row.step);
  if (row.exact.measured()) {
    out << std::setw(11) << bytes_text(row.cache_bytes);
    time(row.exact);
    out << std::setprecision(1) << std::setw(8) << row.exact.seconds / row.step.seconds << "x";
  }
  out << std::endl;
}

OrderedJson json_of(const DecodeRow& row) {
  OrderedJson object;
  object["threads"] = threads(), object["clock"] = clock_name(), object["head_size"] = row.size,
  object["features"] = row.features, object["context"] = row.context,
  object["state_bytes"] = row.state_bytes, object["seconds"] = row.step.seconds,
  object["spread"] = row.step.spread;
  if (row.exact.measured()) {
    object["cache_bytes"] = row.cache_bytes, object["exact_seconds"] = row.exact.seconds,
    object["exact_spread"] = row.exact.spread;
  }
  return object;
}

void measure_decode_shape(const BenchOptions& options,
                          std::size_t shape,
                          Context& context,
                          OrderedJson& rows) {
  const std::vector<std::int64_t> contexts =
      options.lengths.empty() ? std::vector<std::int64_t>{1024, 8192, 65536, 1 << 20}
                              : options.lengths;
  for (const std::int64_t tokens : contexts) {
    context.stop_if_interrupted("stopped; the rows above are complete");
    FeatureDecode features(options.heads, options.head_sizes[shape], options.features[shape],
                           tokens);
    DecodeRow row{options.head_sizes[shape],
                  options.features[shape],
                  tokens,
                  features.state_bytes(),
                  0,
                  {},
                  {}};
    if (tokens <= kLongestCache) {
      const ExactDecode exact(options.heads, options.head_sizes[shape], tokens);
      row.cache_bytes = exact.cache_bytes();
      const std::vector<Timing> timings =
          time_in_turn({[&] { features.step(); }, [&] { exact.step(); }}, 0.1);
      row.step = timings[0], row.exact = timings[1];
    } else {
      row.step = time_runs([&] { features.step(); }, 0.1);
    }
    if (!context.common.json) {
      print(row, context.out);
    }
    rows.push_back(json_of(row));
  }
}

// A whole model: every token reads every weight once.
OrderedJson measure_model(ModelDecode& model, Context& context) {
  const std::vector<Timing> timings =
      time_in_turn({[&] { model.step(); }, [&] { model.read_weights(); }}, 1.0);
  const double bytes = static_cast<double>(model.weight_bytes());
  const double share = timings[1].seconds / timings[0].seconds;
  if (!context.common.json) {
    context.out << std::fixed << count_text(threads(), "thread") << ": whole model of "
                << bytes_text(model.weight_bytes()) << ": " << std::setprecision(1)
                << 1.0 / timings[0].seconds << " tokens/s, " << bytes / timings[0].seconds * 1e-9
                << " GB/s of weights; a plain read loop " << bytes / timings[1].seconds * 1e-9
                << " GB/s; share " << std::setprecision(0) << 100 * share << "%" << std::endl;
  }
  OrderedJson object;
  object["threads"] = threads(), object["clock"] = clock_name(),
  object["weight_bytes"] = model.weight_bytes(), object["seconds"] = timings[0].seconds,
  object["spread"] = timings[0].spread, object["read_seconds"] = timings[1].seconds,
  object["read_spread"] = timings[1].spread, object["share_of_read"] = share;
  return object;
}

constexpr std::int64_t kSampledTokens = 32;

// Sampling by a whole model: every step reads the weights once, however many sequences there are.
void measure_batches(const BenchOptions& options,
                     ModelDecode& model,
                     Context& context,
                     OrderedJson& batches) {
  std::vector<std::function<void()>> bodies;
  for (const std::int64_t batch : options.batch) {
    bodies.emplace_back([&model, batch] { model.sample(batch, kSampledTokens); });
  }
  const std::vector<Timing> timings = time_in_turn(bodies, 0.5);
  if (!context.common.json) {
    context.out << count_text(threads(), "thread") << ": sampling sequences of " << kSampledTokens
                << " tokens, medians of " << clock_name()
                << "\nat once   tokens/s spread   ratio\n";
  }
  for (std::size_t i = 0; i < timings.size(); ++i) {
    const auto tokens = static_cast<double>(options.batch[i] * kSampledTokens);
    const double sequences =
        static_cast<double>(options.batch[i]) / static_cast<double>(options.batch[0]);
    const double ratio = sequences / ratio_in_turn(timings[i], timings[0]);
    if (!context.common.json) {
      context.out << std::fixed << std::setw(7) << options.batch[i] << std::setprecision(1)
                  << std::setw(11) << tokens / timings[i].seconds << std::setprecision(0)
                  << std::setw(6) << 100 * timings[i].spread << "%" << std::setprecision(2)
                  << std::setw(7) << ratio << "x" << std::endl;
    }
    OrderedJson object;
    object["threads"] = threads(), object["clock"] = clock_name(),
    object["batch"] = options.batch[i], object["tokens_per_second"] = tokens / timings[i].seconds,
    object["spread"] = timings[i].spread, object["ratio"] = ratio;
    batches.push_back(object);
  }
}

}  // namespace

void bench_decode(const BenchOptions& options, Context& context) {
  check_shapes(options);
  for (std::size_t i = 0; i < options.features.size(); ++i) {
    check_decode(options.head_sizes[i], options.features[i]);
  }
  ModelDecode model = options.model ? ModelDecode(*options.model) : ModelDecode();
  OrderedJson rows = OrderedJson::array(), models = OrderedJson::array(),
              batches = OrderedJson::array();
  for (const int count : thread_counts(context.common)) {
    const ThreadCount use(count);
    if (!context.common.json) {
      print_decode_head(options, context.out);
    }
    for (std::size_t i = 0; i < options.features.size(); ++i) {
      measure_decode_shape(options, i, context, rows);
    }
  }
  for (const int count : thread_counts(context.common)) {
    context.stop_if_interrupted("stopped; the rows above are complete");
    const ThreadCount use(count);
    models.push_back(measure_model(model, context));
    context.stop_if_interrupted("stopped; the rows above are complete");
    measure_batches(options, model, context, batches);
  }
  if (context.common.json) {
    OrderedJson result;
    result["heads"] = options.heads, result["rows"] = rows, result["models"] = models,
    result["batches"] = batches;
    context.print_json(result);
  }
}

}  // namespace darkformer
