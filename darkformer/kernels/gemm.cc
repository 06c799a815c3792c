// Matrix products on oneDNN's dnnl_sgemm, which is row-major and runs on OpenMP's threads; small
// ones in tiles of our own.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/gemm.h"

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cassert>

#include "darkformer/base/error.h"
#include "darkformer/base/threads.h"
#include "darkformer/kernels/small_gemm.h"

namespace darkformer::kernels {
namespace {

// Below this many multiply-adds one product cannot feed two threads (gemm_bench, batch cases).
constexpr std::size_t kSmallProduct = std::size_t{192} * 192 * 192;

[[maybe_unused]] bool leading_dimensions_fit(const Gemm& g) {
  return g.lda >= (g.trans_a ? g.m : g.k) && g.ldb >= (g.trans_b ? g.k : g.n) && g.ldc >= g.n;
}

// C <- beta C
void scale_rows(const Gemm& g) {
  for (std::size_t i = 0; i < g.m; ++i) {
    float* row = g.c + i * g.ldc;
    if (g.beta == 0.0F) {
      std::fill(row, row + g.n, 0.0F);
    } else {
      std::transform(row, row + g.n, row, [&](float c) { return g.beta * c; });
    }
  }
}

dnnl_dim_t dim(std::size_t size) {
  return static_cast<dnnl_dim_t>(std::max<std::size_t>(1, size));
}

// oneDNN's products keep data far below the stack pointer, where a signal handler's frame would
// overwrite it (oneDNN 2.6.3: an interval timer beside dnnl_sgemm corrupts the heap within a
// second). So no thread that works on a product takes signals while it does: they wait a moment, or
// go to another thread.
class SignalsHeld {
 public:
  SignalsHeld() { pthread_sigmask(SIG_BLOCK, &all(), &before_); }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  // OpenMP's workers never need signals, so they hold them for good. Threads come and go with the
  // size of teams: ask each time.
  static void in_workers() {
    on_each_worker([] { pthread_sigmask(SIG_BLOCK, &all(), nullptr); });
  }

 private:
  static const sigset_t& all() {
    static const sigset_t set = [] {
      sigset_t full;
      sigfillset(&full);
      for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
        sigdelset(&full, fault);
      }
      return full;
    }();
    return set;
  }

  sigset_t before_;
};

Gemm shifted(Gemm g, const GemmBatch& batch, std::size_t i) {
  g.a += i * batch.stride_a;
  g.b += i * batch.stride_b;
  g.c += i * batch.stride_c;
  return g;
}

}  // namespace

void gemm(const Gemm& g) {
  assert(leading_dimensions_fit(g));
  if (g.m == 0 || g.n == 0) {
    return;
  }
  if (g.k == 0 || g.alpha == 0.0F) {
    scale_rows(g);
    return;
  }
  if (is_small(g)) {
    small_gemm(g);
    return;
  }
  const SignalsHeld held;
  SignalsHeld::in_workers();
  // oneDNN itself stays on one thread when called inside an OpenMP parallel region.
  const dnnl_status_t status =
      dnnl_sgemm(g.trans_a ? 'T' : 'N', g.trans_b ? 'T' : 'N', dim(g.m), dim(g.n), dim(g.k),
                 g.alpha, g.a, dim(g.lda), g.b, dim(g.ldb), g.beta, g.c, dim(g.ldc));
  require(status == dnnl_success, "gemm: oneDNN refused a product of ", g.m, " x ", g.k, " by ",
          g.k, " x ", g.n, " with status ", static_cast<int>(status), "; out of memory?");
}

void gemm_batch(const Gemm& first, const GemmBatch& batch) {
  const bool small = first.m * first.n * first.k <= kSmallProduct;
  if (small || batch.count >= static_cast<std::size_t>(threads())) {
    parallel_for(batch.count, [&](std::size_t i) { gemm(shifted(first, batch, i)); });
    return;
  }
  for (std::size_t i = 0; i < batch.count; ++i) {
    gemm(shifted(first, batch, i));
  }
}

}  // namespace darkformer::kernels
