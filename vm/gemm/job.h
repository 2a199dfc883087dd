/* What the files of the matrix product's driver share: the problem in the form
 * in which it runs, and the buffers. Not for others; they use vm/gemm/gemm.h. */
#ifndef TS_VM_GEMM_JOB_H
#define TS_VM_GEMM_JOB_H

#include <stddef.h>

#include "vm/gemm/gemm.h"
#include "devices/cpu_pool.h"
#include "devices/work.h"

/* One operand, seen as [i][k]: i counts rows of A or columns of B. */
typedef struct GemmSide {
  const char *p;
  int64_t is, ks;       /* element strides */
  const int64_t *batch; /* offsets or NULL */
  TsGemmFill *fill;
  void *fill_arg;
  TsGemmPack *pack;
  int size;    /* bytes of an element */
  int i_reals; /* numbers that one element makes along i and along k */
  int k_reals;
} GemmSide;

/* The product as it runs: perhaps transposed (C' = B' A'), complex numbers as
 * their parts, a batch over one B folded into the rows. */
typedef struct GemmJob {
  const TsGemm *g;
  const TsGemmAcc *acc;
  GemmSide x, y; /* the operand of the rows, of the columns */
  int64_t batch, m, n, k;
  int64_t c_rs, c_cs; /* of C, in elements, as m and n stand here */
  int64_t fold;       /* rows of one batch matrix of the caller, if folded, else 0 */
  int reals;          /* 2 if complex: n and k are doubled */
  int c_size;         /* bytes of an element of C */
  bool swapped;       /* m and n are the caller's n and m */
  bool direct;        /* C's own rows are the accumulators */
  bool ends;          /* rows have something to do when they are done */
} GemmJob;

/* How a job is computed, and the buffers for it. */
typedef enum GemmWay {
  GEMM_SMALL,  /* operands stay in place */
  GEMM_SKINNY, /* few rows: B is read once, where it lies */
  GEMM_ROUNDS, /* blocks of C, each by one thread, with columns packed on the way */
  GEMM_PACKED  /* columns are packed for all threads */
} GemmWay;

typedef struct GemmPlan {
  GemmWay way;
  bool serial;
  int64_t kc, mc, nc;   /* packed: block of k; rows of an item; columns packed at once */
  int64_t group;        /* columns of an item */
  int64_t strip;        /* columns that stay in L2 */
  int64_t pack_columns; /* columns packed by one item, a multiple of nr */
  int64_t pieces;       /* rounds: of the rows */
  bool x_stays;         /* rounds: rows are read where they lie */
  int64_t m_chunk;      /* rows worked on before columns are packed again */
  size_t y_bytes;       /* packed columns that all workers read */
  size_t acc_bytes;     /* accumulators that outlive a block of k and are not C */
  size_t worker_bytes;  /* of each worker */
  size_t own_bytes;     /* its last part: accumulators of one panel by a strip */
  size_t nbytes;        /* all of it */
} GemmPlan;

static inline int64_t gemm_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t gemm_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}
static inline int64_t gemm_div(int64_t n, int64_t d) { return (n + d - 1) / d; }

static inline void gemm_spread(bool serial, int64_t n, int64_t grain, TsTask *task, void *arg) {
  if (!serial) {
    ts_cpu_parallel(n, grain, task, arg);
    return;
  }
  for (int64_t i = 0; i < n && !ts_cpu_interrupted(); i += grain)
    task(arg, i, gemm_min(i + grain, n), 0);
}

/* Packs elements [i0, i0 + n) x [k0, k0 + nk) of a side as one panel. */
void ts_gemm_panel(const GemmSide *s, int64_t batch, char *dst, int width, int64_t i0,
                   int64_t n, int64_t k0, int64_t nk);

/* Address of accumulator (row, col) in C itself, for direct jobs. */
char *ts_gemm_at(const GemmJob *j, int64_t batch, int64_t row, int64_t col);

/* Bias, callback, rounding and store of finished accumulators, rows x cols from
 * (row, col), ld numbers between the rows. */
void ts_gemm_end(const GemmJob *j, int64_t batch, int64_t row, int64_t rows, int64_t col,
                 int64_t cols, char *acc, int64_t ld);

/* The four ways, for one matrix of the batch; mem holds p->nbytes. */
void ts_gemm_small(const GemmJob *j, const GemmPlan *p, int64_t batch, char *mem);
void ts_gemm_skinny(const GemmJob *j, const GemmPlan *p, int64_t batch, char *mem);
void ts_gemm_rounds(const GemmJob *j, const GemmPlan *p, int64_t batch, char *mem);
void ts_gemm_packed(const GemmJob *j, const GemmPlan *p, int64_t batch, char *mem);

void ts_gemm_plan_rounds(const GemmJob *j, GemmPlan *p, int threads, bool natural);

#endif
