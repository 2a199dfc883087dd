/* How long compiles take and how fast kernels are: `make jit-speed`. No test.
 *   speed compile   the first kernel of a process, later ones, one from the disk cache
 *   speed passes    pipelines beside each other: time and size of three kernels
 *   speed run       GB/s and GFLOP/s beside the kernels in C */
#include <unistd.h>

#include "devices/cpu_pool.h"
#include "tests/jit/jit_test.h"
#include "vm/core/kernels.h"

/* y = gelu_tanh's shape of work over f32: a chain of `steps` multiply-adds and a division */
static Made chain(int64_t n, int steps) {
  Made m = make("chain");
  TsTileVal x = param(&m, TS_DT_f32, 1, &n, false), y = param(&m, TS_DT_f32, 1, &n, true);
  TsTileType tile = ts_tile_vector(TS_DT_f32, 64);
  TsTileLoop l =
      ts_tile_for(&m.b, ts_tile_index(&m.b, 0), ts_tile_index(&m.b, n), 64, true, 0, NULL);
  TsTileVal v = ts_tile_load(&m.b, x, &l.i, &tile, NULL), r = v;
  TsTileVal c = ts_tile_const(&m.b, 0.999, &tile), one = ts_tile_const(&m.b, 1, &tile);
  for (int i = 0; i < steps; i++) r = ts_tile_op3(&m.b, TS_OP_fma, r, c, v);
  r = ts_tile_op2(&m.b, TS_OP_add, ts_tile_op1(&m.b, TS_OP_abs, r), one);
  r = ts_tile_op2(&m.b, TS_OP_div, v, r);
  ts_tile_store(&m.b, y, &l.i, r, NULL);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  return m;
}

static Made row_sum(int64_t rows, int64_t n) {
  int64_t dim[2] = {rows, n};
  Made m = make("row_sum");
  TsTileVal from = param(&m, TS_DT_f32, 2, dim, false),
            to = param(&m, TS_DT_f32, 1, &rows, true);
  TsTileType lanes = ts_tile_vector(TS_DT_f32, 256), one = ts_tile_scalar(TS_DT_f32);
  TsTileVal zero = ts_tile_index(&m.b, 0);
  TsTileLoop r = ts_tile_for(&m.b, zero, ts_tile_index(&m.b, rows), 1, true, 0, NULL);
  TsTileVal acc = ts_tile_const(&m.b, -0.0, &lanes);
  TsTileLoop l = ts_tile_for(&m.b, zero, ts_tile_index(&m.b, n), 256, false, 1, &acc);
  TsTileVal v = ts_tile_load(&m.b, from, (TsTileVal[]){r.i, l.i}, &lanes, NULL);
  v = ts_tile_op2(&m.b, TS_OP_add, l.carry[0], v);
  ts_tile_for_end(&m.b, &l, &v, &acc);
  TsAttr axis = {.type = TS_ATTR_int};
  acc = ts_tile_emit1(&m.b, TS_TILE_sum, 1, &acc, &axis, &one);
  ts_tile_store(&m.b, to, &r.i, acc, NULL);
  ts_tile_for_end(&m.b, &r, NULL, NULL);
  return m;
}

/* Row softmax without the exponential: max, difference, square, sum, product with 1 / s. */
static Made softmax(int64_t rows, int64_t n) {
  int64_t dim[2] = {rows, n};
  Made m = make("softmax");
  TsTileVal from = param(&m, TS_DT_f32, 2, dim, false), to = param(&m, TS_DT_f32, 2, dim, true);
  TsTileType lanes = ts_tile_vector(TS_DT_f32, 256), one = ts_tile_scalar(TS_DT_f32);
  TsTileVal zero = ts_tile_index(&m.b, 0), end = ts_tile_index(&m.b, n);
  TsAttr axis = {.type = TS_ATTR_int};
  TsTileLoop r = ts_tile_for(&m.b, zero, ts_tile_index(&m.b, rows), 1, true, 0, NULL);
  TsTileVal most = ts_tile_const(&m.b, -INFINITY, &lanes),
            sum = ts_tile_const(&m.b, -0.0, &lanes);
  TsTileLoop a = ts_tile_for(&m.b, zero, end, 256, false, 1, &most);
  TsTileVal v = ts_tile_load(&m.b, from, (TsTileVal[]){r.i, a.i}, &lanes, NULL);
  TsTileVal more = ts_tile_op2(&m.b, TS_OP_gt, v, a.carry[0]);
  v = ts_tile_op3(&m.b, TS_OP_where, more, v, a.carry[0]);
  ts_tile_for_end(&m.b, &a, &v, &most);
  most = ts_tile_emit1(&m.b, TS_TILE_max, 1, &most, &axis, &one);
  most = ts_tile_broadcast(&m.b, most, &lanes, NULL);
  TsTileLoop b = ts_tile_for(&m.b, zero, end, 256, false, 1, &sum);
  v = ts_tile_load(&m.b, from, (TsTileVal[]){r.i, b.i}, &lanes, NULL);
  v = ts_tile_op2(&m.b, TS_OP_sub, v, most);
  v = ts_tile_op2(&m.b, TS_OP_mul, v, v);
  ts_tile_store(&m.b, to, (TsTileVal[]){r.i, b.i}, v, NULL);
  v = ts_tile_op2(&m.b, TS_OP_add, b.carry[0], v);
  ts_tile_for_end(&m.b, &b, &v, &sum);
  sum = ts_tile_emit1(&m.b, TS_TILE_sum, 1, &sum, &axis, &one);
  sum = ts_tile_op2(&m.b, TS_OP_div, ts_tile_const(&m.b, 1, &one), sum);
  sum = ts_tile_broadcast(&m.b, sum, &lanes, NULL);
  TsTileLoop c = ts_tile_for(&m.b, zero, end, 256, false, 0, NULL);
  v = ts_tile_load(&m.b, to, (TsTileVal[]){r.i, c.i}, &lanes, NULL);
  ts_tile_store(&m.b, to, (TsTileVal[]){r.i, c.i}, ts_tile_op2(&m.b, TS_OP_mul, v, sum), NULL);
  ts_tile_for_end(&m.b, &c, NULL, NULL);
  ts_tile_for_end(&m.b, &r, NULL, NULL);
  return m;
}

/* A tile of mr x nr from packed panels, `times` times over. */
static Made product(int64_t mr, int64_t nr, int64_t kc, int64_t times) {
  int64_t da[2] = {kc, mr}, db[2] = {kc, nr}, dc[2] = {mr, nr};
  Made m = make("product");
  TsTileVal pa = param(&m, TS_DT_f32, 2, da, false), pb = param(&m, TS_DT_f32, 2, db, false);
  TsTileVal pc = param(&m, TS_DT_f32, 2, dc, true), zero = ts_tile_index(&m.b, 0);
  TsTileType tile = ts_tile_type(TS_DT_f32, 2, dc), row = ts_tile_vector(TS_DT_f32, nr),
             col = ts_tile_vector(TS_DT_f32, mr);
  TsTileLoop p = ts_tile_for(&m.b, zero, ts_tile_index(&m.b, times), 1, true, 0, NULL);
  TsTileVal acc = ts_tile_const(&m.b, 0, &tile);
  TsTileLoop l = ts_tile_for(&m.b, zero, ts_tile_index(&m.b, kc), 1, false, 1, &acc);
  TsTileVal at[2] = {l.i, zero};
  TsTileVal in[3] = {ts_tile_load(&m.b, pa, at, &col, NULL),
                     ts_tile_load(&m.b, pb, at, &row, NULL), l.carry[0]};
  TsTileVal next = ts_tile_emit1(&m.b, TS_TILE_outer, 3, in, NULL, &tile);
  if (l.stmt) ((TsAttr *)(uintptr_t)ts_tile_attr(l.stmt, "unroll"))->i = 2;
  ts_tile_for_end(&m.b, &l, &next, &acc);
  ts_tile_store(&m.b, pc, (TsTileVal[]){zero, zero}, acc, NULL);
  ts_tile_for_end(&m.b, &p, NULL, NULL);
  return m;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, by_size);
  return x[n / 2];
}

static TsKernel *compiled(Made m) {
  TsError err = {0};
  TsKernel *k = ts_kernel_compile(m.k, ts_jit_target(NULL), &err);
  if (!k) printf("%s\n", err.message), exit(1);
  ts_tile_free(m.k);
  return k;
}

/* Milliseconds of one run, a median. */
static double run_time(const TsKernel *k, void *const *arg) {
  enum { TIMES = 41 };
  double t[TIMES];
  TsError err;
  for (int i = 0; i < TIMES; i++) {
    double begun = msec();
    ts_kernel_run(k, arg, NULL, &err);
    t[i] = msec() - begun;
  }
  return median(t, TIMES);
}

static void compile_times(void) {
  char folder[] = "/tmp/jit-speed-XXXXXX", command[64];
  if (!mkdtemp(folder)) exit(1);
  setenv("TESSERA_CACHE", folder, 1);
  for (int round = 0; round < 3; round++)
    for (int kind = 0; kind < 3; kind++) {
      int64_t n = 4096 + 256 * round;
      Made m = kind == 0 ? chain(n, 30) : kind == 1 ? softmax(8, n) : product(12, 32, n, 1);
      double begun = msec();
      TsKernel *k = compiled(m);
      printf("%-10s %s %6.2f ms, %zu bytes\n",
             kind == 0   ? "chain"
             : kind == 1 ? "softmax"
                         : "product",
             !round && !kind ? "first" : "later", msec() - begun, k->object_bytes);
      ts_kernel_free(k);
    }
  double t[21];
  for (int i = 0; i < 21; i++) {
    Made m = softmax(8, 4096);
    double begun = msec();
    TsKernel *k = compiled(m);
    t[i] = msec() - begun;
    if (!k->cached) printf("not cached\n");
    ts_kernel_free(k);
  }
  printf("%-10s cached %6.3f ms\n", "softmax", median(t, 21));
  snprintf(command, sizeof command, "rm -r %s", folder);
  if (system(command)) exit(1);
}

static void passes(void) {
  static const char *const list[] = {
      "",
      "function(instcombine<no-verify-fixpoint>,simplifycfg)",
      "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg)",
      "function(early-cse,simplifycfg,loop-mssa(licm),early-cse)",
      "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-"
      "cse)",
      "default<O1>",
      "default<O2>"};
  for (int p = 0; p < 7; p++) {
    printf("%s\n", *list[p] ? list[p] : "none");
    for (int kind = 0; kind < 3; kind++) {
      double t[9], ran;
      void *object = NULL;
      size_t n = 0;
      TsError err = {0};
      int64_t size = kind == 2 ? 256 : kind == 1 ? 2048 : 8192;
      Made m = kind == 0   ? chain(size, 30)
               : kind == 1 ? softmax(4, size)
                           : product(12, 32, size, 8);
      for (int i = 0; i < 9; i++) {
        free(object);
        double begun = msec();
        if (ts_llvm_object(m.k, ts_jit_target(NULL), list[p], &object, &n, &err))
          printf("%s\n", err.message), exit(1);
        t[i] = msec() - begun;
      }
      TsKernel k;
      static float a[1 << 16], b[1 << 16], c[1 << 16];
      for (int i = 0; i < 1 << 16; i++) a[i] = b[i] = (float)(i % 100) / 64;
      ts_kernel_outline(&k, m.k, ts_jit_target(NULL), &err);
      if (ts_kernel_load(&k, object, n, &err)) printf("%s\n", err.message), exit(1);
      ran = run_time(&k, (void *[]){a, kind == 2 ? b : c, c});
      ts_object_unload(&k.object);
      printf("  %-8s compiles in %6.2f ms to %5zu bytes, runs %7.2f us\n",
             kind == 0   ? "chain"
             : kind == 1 ? "softmax"
                         : "product",
             median(t, 9), n, ran * 1e3);
      free(object);
      ts_tile_free(m.k);
    }
  }
}

static void speeds(void) {
  enum { N = 1 << 24, L2 = 1 << 16 };
  float *x = aligned_alloc(64, N * 4), *y = aligned_alloc(64, N * 4);
  for (int i = 0; i < N; i++) x[i] = (float)(i % 1000) / 512, y[i] = 0;
  for (int i = 0; i < 2; i++) {
    int64_t n = i ? N : L2;
    TsKernel *k = compiled(chain(n, 2));
    double t = run_time(k, (void *[]){x, y});
    printf("short chain %8lld elements  %6.1f GB/s\n", (long long)n, (double)n * 8 / t * 1e-6);
    ts_kernel_free(k);
    k = compiled(chain(n, 30));
    t = run_time(k, (void *[]){x, y});
    printf("long chain  %8lld elements  %6.1f GB/s %6.1f GFLOP/s\n", (long long)n,
           (double)n * 8 / t * 1e-6, (double)n * 63 / t * 1e-6);
    ts_kernel_free(k);
  }
  const TsKernels *kernels = ts_kernels_use(NULL);
  for (int i = 0; i < 2; i++) {
    int64_t n = 4096, rows = i ? N / n : L2 / n;
    TsKernel *k = compiled(row_sum(rows, n));
    double t = run_time(k, (void *[]){x, y}), c[41];
    TsReduceRows r = {
        .op = TS_RED_SUM, .map = TS_MAP_none, .x = x, .rows = rows, .ld = n, .n = n, .out = y};
    for (int j = 0; j < 41; j++) {
      double begun = msec();
      kernels->reduce.rows[TS_RED_F32](&r);
      c[j] = msec() - begun;
    }
    printf("row sum     %8lld elements  %6.1f GB/s, kernel in C %6.1f GB/s\n",
           (long long)(rows * n), (double)(rows * n) * 4 / t * 1e-6,
           (double)(rows * n) * 4 / median(c, 41) * 1e-6);
    ts_kernel_free(k);
  }
  const TsGemmAcc *g = kernels->gemm.f32;
  for (int i = 0; i < 3; i++) {
    int64_t mr = i == 0   ? 12
                 : i == 1 ? g->mr
                          : 8,
            nr = i == 0   ? 32
                 : i == 1 ? g->nr
                          : 48,
            kc = 192;
    enum { TIMES = 2000 };
    TsKernel *k = compiled(product(mr, nr, kc, TIMES));
    double t = run_time(k, (void *[]){x, x + kc * mr, y}), c[41];
    for (int j = 0; j < 41; j++) {
      double begun = msec();
      for (int r = 0; r < TIMES; r++)
        g->full(g->mr, g->nr, kc, x, 1, g->mr, x + kc * mr, g->nr, y, g->nr, false);
      c[j] = msec() - begun;
    }
    printf("product %2lldx%2lld x %lld  %6.1f GFLOP/s, kernel in C %dx%d %6.1f GFLOP/s\n",
           (long long)mr, (long long)nr, (long long)kc,
           (double)(2 * mr * nr * kc) * TIMES / t * 1e-6, g->mr, g->nr,
           (double)(2 * g->mr * g->nr * kc) * TIMES / median(c, 41) * 1e-6);
    ts_kernel_free(k);
  }
  free(x), free(y);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "run";
  ts_cpu_set_threads(1);
  if (!strcmp(what, "compile"))
    compile_times();
  else
    setenv("TESSERA_CACHE", "off", 1);
  if (!strcmp(what, "passes")) passes();
  if (!strcmp(what, "run")) speeds();
  return failed;
}
