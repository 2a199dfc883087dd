/* Products with a matrix that is packed once. */
#include "vm/gemm/panels.h"

#include "vm/gemm/job.h"

typedef struct Packing {
  const TsPanels *p;
  GemmSide side;
} Packing;

static void pack(void *arg, int64_t lo, int64_t hi, int worker) {
  const Packing *g = arg;
  const TsPanels *p = g->p;
  int64_t nr = p->acc->round_nr;
  (void)worker;
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++)
    ts_gemm_panel(&g->side, 0, p->at + i * p->step, (int)nr, i * nr,
                  gemm_min(nr, p->n - i * nr), 0, p->k);
}

int ts_panels_open(TsPanels *p, TsGemmType type, const TsGemmKernels *k, int64_t rows,
                   int64_t columns, const void *b, int64_t b_rs, int64_t b_cs) {
  const TsGemmAcc *acc = type == TS_GEMM_f64 ? k->f64 : k->f32;
  int64_t nr = acc->round_nr;
  *p = (TsPanels){.acc = acc, .n = columns, .k = rows, .count = gemm_div(columns, nr)};
  p->step = gemm_up(nr * rows * acc->nbytes, 64);
  /* Packing stores whole vectors. */
  if (!(p->at = ts_work_take(p->count * p->step + 64))) return -1;
  Packing g = {.p = p,
               .side = {.p = b,
                        .is = b_cs,
                        .ks = b_rs,
                        .pack = acc->pack_b[type],
                        .size = acc->nbytes,
                        .i_reals = 1,
                        .k_reals = 1}};
  ts_cpu_parallel(p->count, (1 << 16) / (nr * rows + 1) + 1, pack, &g);
  return 0;
}

void ts_panels_close(TsPanels *p) {
  ts_work_give(p->at);
  p->at = NULL;
}

void ts_panels_multiply(const TsPanels *p, int64_t rows, const void *a, int64_t a_rs, void *c,
                        int64_t c_rs, int64_t lo, int64_t hi) {
  int64_t nr = p->acc->round_nr, size = p->acc->nbytes;
  int64_t groups = gemm_div(rows, p->acc->round_mr); /* of nearly as many rows each */
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++)
    for (int64_t g = 0; g < groups; g++) {
      int64_t row = g * rows / groups, end = (g + 1) * rows / groups;
      p->acc->round((int)(end - row), (int)gemm_min(nr, p->n - i * nr), p->k,
                    (const char *)a + row * a_rs * size, a_rs, 1, p->at + i * p->step,
                    (char *)c + (row * c_rs + i * nr) * size, c_rs, false);
    }
}
