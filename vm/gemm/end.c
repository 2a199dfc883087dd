/* The matrix product's way in and out: addresses of panels and of accumulators,
 * and what happens to a finished row. */
#include "vm/gemm/job.h"

void ts_gemm_panel(const GemmSide *s, int64_t batch, char *dst, int width, int64_t i0,
                   int64_t n, int64_t k0, int64_t nk) {
  if (s->fill) {
    s->fill(s->fill_arg, dst, width, batch, i0, n, k0, nk);
    return;
  }
  int64_t at = s->batch ? s->batch[batch] : 0;
  at += i0 / s->i_reals * s->is + k0 / s->k_reals * s->ks;
  s->pack(dst, width, s->p + at * s->size, s->is, s->ks, n, nk);
}

char *ts_gemm_at(const GemmJob *j, int64_t batch, int64_t row, int64_t col) {
  int64_t at = j->g->c_batch ? j->g->c_batch[batch] : 0;
  return (char *)j->g->c + (at + row * j->c_rs) * j->c_size + col * j->acc->nbytes;
}

/* One row of the caller's matrix, columns [col, col + n) in elements. */
static void end_row(const GemmJob *j, int64_t batch, int64_t row, int64_t col, int64_t n,
                    char *acc) {
  const TsGemm *g = j->g;
  int64_t rs = j->swapped ? j->c_cs : j->c_rs, cs = j->swapped ? j->c_rs : j->c_cs;
  int64_t at = (g->c_batch ? g->c_batch[batch] : 0) + row * rs + col * cs;
  if (j->fold) {
    batch = row / j->fold;
    row %= j->fold;
  }
  if (g->bias) {
    const char *bias = (const char *)g->bias + col * g->bias_stride * j->reals * j->acc->nbytes;
    j->acc->bias(acc, bias, g->bias_stride, n, j->reals);
  }
  if (g->finish) g->finish(g->finish_arg, acc, batch, row, col, n);
  if (!j->direct) j->acc->store[g->out]((char *)g->c + at * j->c_size, cs, acc, n);
}

static void gather(int nbytes, char *dst, const char *src, int64_t ld, int64_t n) {
  if (nbytes == 4) {
    for (int64_t i = 0; i < n; i++) ((uint32_t *)dst)[i] = ((const uint32_t *)src)[i * ld];
  } else {
    for (int64_t i = 0; i < n; i++) ((uint64_t *)dst)[i] = ((const uint64_t *)src)[i * ld];
  }
}

void ts_gemm_end(const GemmJob *j, int64_t batch, int64_t row, int64_t rows, int64_t col,
                 int64_t cols, char *acc, int64_t ld) {
  int nbytes = j->acc->nbytes;
  if (!j->swapped) {
    for (int64_t i = 0; i < rows; i++, acc += ld * nbytes) {
      end_row(j, batch, row + i, col / j->reals, cols / j->reals, acc);
    }
    return;
  }
  /* The caller's rows are columns here: at most mr rows stand under each other. */
  uint64_t piece[32];
  for (int64_t i = 0; i < cols; i++) {
    gather(nbytes, (char *)piece, acc + i * nbytes, ld, rows);
    end_row(j, batch, col + i, row, rows, (char *)piece);
  }
}
