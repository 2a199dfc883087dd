/* Matrix products on a GPU (ir/tile/gpu/product.c, jit/gpu/roles.h). Without one it says so.
 *
 * With no argument, or a word (bf16, epilogue, f32) for a part: correctness of every layout,
 * tile and type and of ragged sizes. 16 bits against f64 on the host, within a bound, and with
 * the same bits for all tiles; f32 and f64 against the VM's product, bit by bit.
 *
 * With --bench, and a word (bf16, f32, limit, tiles, gpt) for a part: TFLOP/s in bursts, beside
 * cuBLAS where it is found. A burst: the device idles for 70 ms, then works for about 10 ms;
 * bursts of all kernels of a shape take turns, and each has its median. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/tile/gpu/product.h"
#include "lib/convert_bits.h"
#include "tests/jit/gpu/device.h"
#include "tests/skip.h"
#include "vm/gemm/gemm.h"
#include "vm/core/kernels.h"

/* ---- kernels */
typedef Loaded Kernel;

static Kernel load(const TsGpuProduct *p) { return load_tile(ts_tile_gpu_product(p, &err)); }

static int blocks(const Kernel *k) { return gpu->processors / k->info.cluster; }

static void run(const Kernel *k, void *const *arg, int64_t m, int64_t n, int64_t depth) {
  int64_t dim[4] = {m, n, depth, blocks(k)};
  launch_tile(k, arg, dim);
}

/* ---- data */
static void put(TsDtype d, void *x, int64_t i, float v) {
  if (d == TS_DT_f32)
    ((float *)x)[i] = v;
  else if (d == TS_DT_f64)
    ((double *)x)[i] = (double)v * (1 + 0x1p-30 * (double)(rnd() & 255));
  else if (d == TS_DT_fp8_e4m3)
    ((uint8_t *)x)[i] = e4m3_of_f32(v);
  else
    ((uint16_t *)x)[i] = d == TS_DT_bf16 ? bf16_of_f32(v) : f16_of_f32(v);
}

static double get(TsDtype d, const void *x, int64_t i) {
  if (d == TS_DT_f32) return (double)((const float *)x)[i];
  if (d == TS_DT_f64) return ((const double *)x)[i];
  if (d == TS_DT_fp8_e4m3) return (double)f32_of_e4m3(((const uint8_t *)x)[i]);
  uint16_t u = ((const uint16_t *)x)[i];
  return (double)(d == TS_DT_bf16 ? f32_of_bf16(u) : f32_of_f16(u));
}

static void *numbers(TsDtype d, int64_t n) {
  void *x = malloc((size_t)n * ts_dtypes[d].nbytes + 16);
  for (int64_t i = 0; i < n; i++) put(d, x, i, normal());
  return x;
}

static void *transposed(TsDtype d, const void *x, int64_t rows, int64_t cols) {
  size_t size = ts_dtypes[d].nbytes;
  char *y = malloc((size_t)(rows * cols) * size + 16);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++)
      memcpy(y + (size_t)(j * rows + i) * size, (const char *)x + (size_t)(i * cols + j) * size,
             size);
  return y;
}

/* ---- correctness */
enum { AGAIN = 10 };

typedef struct Problem {
  TsDtype in, out;
  int64_t m, n, k;
  void *a[2], *b[2];  /* on the device, straight and turned */
  void *ha, *hb;      /* on the host, straight */
  double *sum;        /* in f64 */
  float *bias, *more; /* of the epilogue, on the host as f32 */
  /* results of the first kernel, of this one, of it some runs later */
  void *first, *got, *again;
  void *dc, *dbias, *dmore;
} Problem;

static Problem pose(TsDtype in, TsDtype out, int64_t m, int64_t n, int64_t k) {
  Problem p = {.in = in, .out = out, .m = m, .n = n, .k = k};
  size_t each = ts_dtypes[in].nbytes, size = (size_t)(m * n) * ts_dtypes[out].nbytes;
  p.ha = numbers(in, m * k), p.hb = numbers(in, k * n);
  void *ta = transposed(in, p.ha, m, k), *tb = transposed(in, p.hb, k, n);
  p.a[0] = on_device(p.ha, (int64_t)each * m * k),
  p.a[1] = on_device(ta, (int64_t)each * m * k);
  p.b[0] = on_device(p.hb, (int64_t)each * k * n),
  p.b[1] = on_device(tb, (int64_t)each * k * n);
  p.first = calloc(1, size + 16), p.got = calloc(1, size + 16);
  p.again = calloc(1, size + 16);
  p.dc = on_device(NULL, (int64_t)size);
  free(ta), free(tb);
  return p;
}

static void forget(Problem *p) {
  int64_t each = ts_dtypes[p->in].nbytes, size = p->m * p->n * ts_dtypes[p->out].nbytes;
  for (int i = 0; i < 2; i++) {
    gpu->free(gpu, p->a[i], each * p->m * p->k + 256);
    gpu->free(gpu, p->b[i], each * p->k * p->n + 256);
  }
  gpu->free(gpu, p->dc, size + 256);
  free(p->ha), free(p->hb), free(p->sum), free(p->first), free(p->got), free(p->again);
}

static void sums_f64(Problem *p) {
  p->sum = calloc((size_t)(p->m * p->n), sizeof *p->sum);
  double *row = malloc(sizeof *row * (size_t)(p->k * p->n));
  for (int64_t i = 0; i < p->k * p->n; i++) row[i] = get(p->in, p->hb, i);
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t l = 0; l < p->k; l++) {
      double a = get(p->in, p->ha, i * p->k + l);
      for (int64_t j = 0; j < p->n; j++) p->sum[i * p->n + j] += a * row[l * p->n + j];
    }
  free(row);
}

static void name_of(const Problem *p, const TsGpuProduct *x, char *to, size_t room) {
  snprintf(to, room, "%s>%s %c%c %dx%d c%d st%d%s %lldx%lldx%lld", ts_dtype_name(p->in),
           ts_dtype_name(p->out), x->transposed_a ? 'T' : 'N', x->transposed_b ? 'T' : 'N',
           x->rows, x->cols, x->cluster, x->stages, x->late ? " late" : "", (long long)p->m,
           (long long)p->n, (long long)p->k);
}

static void wrong(const char *name, const char *what, double value) {
  failed++;
  printf("WRONG %s: %s %.4g\n", name, what, value);
}

/* Root of the mean square, against that of the right numbers. */
static double distance(const Problem *p) {
  double off = 0, all = 0;
  for (int64_t i = 0; i < p->m * p->n; i++) {
    double want = p->sum[i], d = get(p->out, p->got, i) - want;
    off += d * d, all += want * want;
  }
  double r = sqrt(off / all);
  return r == r ? r : INFINITY;
}

static void compute(Problem *p, const TsGpuProduct *x) {
  Kernel k = load(x);
  size_t size = (size_t)(p->m * p->n) * ts_dtypes[p->out].nbytes;
  memset(p->got, 0xff, size);
  MUST(gpu->upload(gpu, p->dc, p->got, (int64_t)size, &err));
  void *arg[5] = {p->a[x->transposed_a], p->b[x->transposed_b]};
  int n = 2;
  if (x->bias) arg[n++] = p->dbias;
  if (x->residual) arg[n++] = p->dmore;
  arg[n] = p->dc;
  alarm(30);
  run(&k, arg, p->m, p->n, p->k);
  MUST(gpu->download(gpu, p->got, p->dc, (int64_t)size, &err));
  for (int i = 0; i < AGAIN; i++) run(&k, arg, p->m, p->n, p->k);
  MUST(gpu->download(gpu, p->again, p->dc, (int64_t)size, &err));
  alarm(0);
  if (memcmp(p->got, p->again, size)) failed++, printf("WRONG: other bits at a later run\n");
  unload_tile(&k);
}

static void show(const Problem *p) {
  for (int64_t i = 0, n = 0; i < p->m * p->n && n < 6; i++) {
    double got = get(p->out, p->got, i), want = p->sum[i];
    if (fabs(got - want) <= 0.05 * (fabs(want) + sqrt((double)p->k))) continue;
    printf("  [%lld,%lld] %g, not %g\n", (long long)(i / p->n), (long long)(i % p->n), got,
           want);
    n++;
  }
}

/* One kernel: near the right numbers, and the bits of the first one. */
static void check(Problem *p, const TsGpuProduct *x, double bound, bool *first) {
  char name[120];
  name_of(p, x, name, sizeof name);
  compute(p, x);
  size_t size = (size_t)(p->m * p->n) * ts_dtypes[p->out].nbytes;
  double d = p->sum ? distance(p) : 0;
  if (!(d <= bound)) wrong(name, "relative error", d), show(p);
  if (*first)
    memcpy(p->first, p->got, size);
  else if (memcmp(p->first, p->got, size))
    wrong(name, "other bits than the first tile", 0);
  if (*first) printf("%s: relative error %.3g\n", name, d);
  *first = false;
}

static const struct {
  int rows, cols, cluster;
} tiles[] = {{128, 256, 2}, {128, 256, 1}, {128, 64, 2},  {128, 64, 1},  {192, 192, 2},
             {192, 192, 1}, {128, 192, 2}, {128, 192, 1}, {192, 128, 1}, {128, 128, 2},
             {128, 128, 1}, {64, 64, 1},   {64, 64, 2},   {64, 256, 1}};

static void all_tiles(Problem *p, int ntile, double bound) {
  bool first = true;
  bool eight = ts_dtypes[p->in].nbytes == 1;
  for (int layout = eight ? 2 : 0; layout < (eight ? 3 : 4); layout++)
    for (int i = 0; i < ntile; i++) {
      TsGpuProduct x =
          ts_gpu_product(p->in, p->out, layout & 1, layout & 2, tiles[i].rows, tiles[i].cols);
      x.cluster = tiles[i].cluster;
      if (layout == 3) x.stages = 3, x.group = 2;
      if (layout == 2) x.limit = 2;
      if (layout < 2) ts_gpu_product_settle(&x, 1 << 20);
      check(p, &x, bound, &first);
    }
}

static void check_narrow(TsDtype in, TsDtype out, int64_t m, int64_t n, int64_t k, int ntile,
                         double bound) {
  Problem p = pose(in, out, m, n, k);
  if (m * n * k < (int64_t)1 << 33) sums_f64(&p);
  all_tiles(&p, ntile, bound);
  forget(&p);
}

/* bias, relu, residual: in f32, rounded once. */
static void check_epilogue(TsDtype in, TsDtype out, int64_t m, int64_t n, int64_t k) {
  Problem p = pose(in, out, m, n, k);
  sums_f64(&p);
  void *bias = numbers(out, n), *more = numbers(out, m * n);
  p.dbias = on_device(bias, n * ts_dtypes[out].nbytes);
  p.dmore = on_device(more, m * n * ts_dtypes[out].nbytes);
  for (int64_t i = 0; i < m * n; i++) {
    double x = p.sum[i] + get(out, bias, i % n);
    p.sum[i] = (x > 0 ? x : 0) + get(out, more, i);
  }
  bool first = true;
  for (int layout = 0; layout < 4; layout++) {
    TsGpuProduct x = ts_gpu_product(in, out, layout & 1, layout & 2, 0, 0);
    x.bias = x.residual = true, x.activation = TS_OP_relu;
    check(&p, &x, out == TS_DT_bf16 ? 3e-3 : 3e-5, &first);
  }
  free(bias), free(more);
  forget(&p);
}

/* Against the VM's product. */
static void check_exact(TsDtype d, int64_t m, int64_t n, int64_t k) {
  Problem p = pose(d, d, m, n, k);
  size_t size = (size_t)(m * n) * ts_dtypes[d].nbytes;
  TsGemm g = {.in = ts_gemm_type(d),
              .out = ts_gemm_type(d),
              .batch = 1,
              .m = m,
              .n = n,
              .k = k,
              .a = p.ha,
              .a_rs = k,
              .a_cs = 1,
              .b = p.hb,
              .b_rs = n,
              .b_cs = 1,
              .c = p.first,
              .c_rs = n,
              .c_cs = 1};
  MUST(ts_gemm(&g, &ts_kernels_use(NULL)->gemm));
  for (int layout = 0; layout < 4; layout++) {
    TsGpuProduct x = ts_gpu_product(d, d, layout & 1, layout & 2, 0, 0);
    char name[120];
    name_of(&p, &x, name, sizeof name);
    compute(&p, &x);
    if (!memcmp(p.first, p.got, size)) {
      printf("%s: the VM's bits\n", name);
      continue;
    }
    int64_t i = 0;
    while (!memcmp((char *)p.first + i, (char *)p.got + i, 1)) i++;
    wrong(name, "other bits than the VM, from element", (double)(i / ts_dtypes[d].nbytes));
  }
  forget(&p);
}

static bool wanted(const char *word, const char *name) { return !*word || !strcmp(word, name); }

static void check_units(void) {
  check_narrow(TS_DT_bf16, TS_DT_bf16, 1000, 1088, 192, 14, 2e-3);
  check_narrow(TS_DT_bf16, TS_DT_f32, 1000, 1088, 200, 14, 3e-5);
  check_narrow(TS_DT_f16, TS_DT_f16, 264, 520, 1032, 5, 4e-4);
  check_narrow(TS_DT_bf16, TS_DT_bf16, 4096, 4096, 64, 8, 2e-3);
  check_narrow(TS_DT_bf16, TS_DT_bf16, 2048, 2304, 1024, 5, 2e-3);
  check_narrow(TS_DT_bf16, TS_DT_bf16, 8, 8, 8, 5, 3e-3);
}

static void check_eight(void) {
  check_narrow(TS_DT_fp8_e4m3, TS_DT_bf16, 1000, 1088, 400, 14, 3e-3);
  check_narrow(TS_DT_fp8_e4m3, TS_DT_f32, 264, 520, 1040, 5, 2e-3);
  check_narrow(TS_DT_fp8_e4m3, TS_DT_bf16, 2048, 2304, 1024, 5, 3e-3);
}

static void check_epilogues(void) {
  check_epilogue(TS_DT_bf16, TS_DT_bf16, 1000, 1088, 192);
  check_epilogue(TS_DT_bf16, TS_DT_f32, 1000, 1088, 192);
}

static void check_chains(void) {
  check_exact(TS_DT_f32, 1000, 1088, 204);
  check_exact(TS_DT_f32, 516, 388, 1028);
  check_exact(TS_DT_f32, 4, 4, 4);
  check_exact(TS_DT_f64, 300, 310, 150);
}

/* ---- cuBLAS, if this machine has it */
typedef int Blas(void *handle, int opa, int opb, int m, int n, int k, const void *alpha,
                 const void *a, int ta, int lda, const void *b, int tb, int ldb,
                 const void *beta, void *c, int tc, int ldc, int compute, int algo);
static Blas *blas;
static void *blas_handle;

static void *symbol(void *library, const char *name) {
  return library ? dlsym(library, name) : NULL;
}

static void find_blas(void) {
  static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so",
                                      "/usr/local/cuda/lib64/libcublas.so.13",
                                      "/usr/local/cuda/lib64/libcublas.so"};
  void *library = NULL, *f[3];
  for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
  f[0] = symbol(library, "cublasCreate_v2"), f[1] = symbol(library, "cublasSetStream_v2");
  f[2] = symbol(library, "cublasGemmEx");
  int (*create)(void **), (*set_stream)(void *, void *);
  memcpy(&create, &f[0], sizeof create), memcpy(&set_stream, &f[1], sizeof set_stream);
  if (!f[0] || !f[1] || !f[2] || ts_driver_enter(gpu, &err) || create(&blas_handle)) {
    printf("no cuBLAS here: %s\n", library ? "it does not start" : dlerror());
    return;
  }
  memcpy(&blas, &f[2], sizeof blas);
  set_stream(blas_handle, ((TsDriven *)gpu->state)->work);
}

/* Row-major C = A B is column-major C' = B' A'. */
static void run_blas(TsDtype d, bool ta, bool tb, void *const *arg, int m, int n, int k) {
  enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14, COMPUTE_32F = 68, COMPUTE_64F = 70 };
  static const float one = 1, zero = 0;
  static const double one64 = 1, zero64 = 0;
  bool wide = d == TS_DT_f64;
  int t = d == TS_DT_f32 ? R_32F : wide ? R_64F : d == TS_DT_f16 ? R_16F : R_16BF;
  int code = blas(blas_handle, tb, ta, n, m, k, wide ? (const void *)&one64 : &one, arg[1], t,
                  tb ? k : n, arg[0], t, ta ? m : k, wide ? (const void *)&zero64 : &zero,
                  arg[2], t, n, wide ? COMPUTE_64F : COMPUTE_32F, -1);
  if (code) printf("cublasGemmEx: %d\n", code), exit(1);
}

/* ---- bursts */
enum { MOST_KERNELS = 13, BURSTS = 5 };

typedef struct Runner {
  char name[48];
  Kernel *kernel; /* NULL: cuBLAS */
  double msec[BURSTS];
} Runner;

typedef struct Shape {
  TsDtype d;
  bool ta, tb;
  int64_t m, n, k;
  void *arg[3];
} Shape;

static void start(const Runner *r, const Shape *s) {
  if (r->kernel)
    run(r->kernel, s->arg, s->m, s->n, s->k);
  else
    run_blas(s->d, s->ta, s->tb, s->arg, (int)s->m, (int)s->n, (int)s->k);
}

static double burst(const Runner *r, const Shape *s, int times) {
  static void *from, *to;
  double usec = 0;
  if (!from) MUST(gpu->run->event_new(gpu, &from, &err));
  if (!to) MUST(gpu->run->event_new(gpu, &to, &err));
  MUST(gpu->synchronize(gpu, &err));
  usleep(70000);
  start(r, s);
  MUST(gpu->run->event_record(gpu, from, NULL, &err));
  for (int i = 0; i < times; i++) start(r, s);
  MUST(gpu->run->event_record(gpu, to, NULL, &err));
  MUST(gpu->run->event_wait(gpu, to, &err));
  MUST(gpu->run->event_usec(gpu, from, to, &usec, &err));
  return usec * 1e-3 / times;
}

static void measure(Runner *r, int n, const Shape *s) {
  int order[MOST_KERNELS];
  double flop = 2.0 * (double)s->m * (double)s->n * (double)s->k, peer = 0;
  for (int i = 0; i < n; i++) order[i] = i, start(&r[i], s);
  int times = (int)(10e-3 / (flop / (s->d == TS_DT_f32   ? 45e12
                                     : s->d == TS_DT_f64 ? 25e12
                                                         : 700e12)));
  if (times < 1) times = 1;
  if (times > 400) times = 400;
  alarm(60);
  for (int b = 0; b < BURSTS; b++) {
    for (int i = n - 1; i > 0; i--) {
      int j = (int)(rnd() % (uint64_t)(i + 1)), x = order[i];
      order[i] = order[j], order[j] = x;
    }
    for (int i = 0; i < n; i++) r[order[i]].msec[b] = burst(&r[order[i]], s, times);
  }
  alarm(0);
  printf("%-5s %c%c %5lldx%5lldx%5lld ", ts_dtype_name(s->d), s->ta ? 'T' : 'N',
         s->tb ? 'T' : 'N', (long long)s->m, (long long)s->n, (long long)s->k);
  for (int i = 0; i < n; i++) {
    qsort(r[i].msec, BURSTS, sizeof(double), by_time);
    double speed = flop / r[i].msec[BURSTS / 2] * 1e-9;
    if (!r[i].kernel) peer = speed;
    printf(" %s %.1f", r[i].name, speed);
    if (peer > 0 && r[i].kernel) printf(" (%.3f)", speed / peer);
  }
  printf("\n");
  fflush(stdout);
}

static void *random_device(TsDtype d, int64_t n) {
  enum { CHUNK = 16 << 20 };
  static void *chunk[TS_DT_COUNT];
  int64_t each = ts_dtypes[d].nbytes;
  if (!chunk[d]) chunk[d] = numbers(d, CHUNK);
  char *at = on_device(NULL, n * each);
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t now_n = n - i < CHUNK ? n - i : CHUNK;
    MUST(gpu->upload(gpu, at + i * each, chunk[d], now_n * each, &err));
  }
  return at;
}

typedef struct Plan {
  const char *name;
  int rows, cols, cluster, stages, group, limit, buffers; /* 0: as usual, -1: none */
  int late;                                               /* -1: not */
} Plan;

static TsGpuProduct plan_of(const Plan *x, const Shape *s) {
  int nsm = gpu->processors;
  TsDtype out = ts_dtypes[s->d].nbytes == 1 ? TS_DT_bf16 : s->d;
  TsGpuProduct p = ts_gpu_product_for(s->d, out, s->ta, s->tb, s->m, s->n, s->k, 1, nsm, true);
  if (x->rows) p = ts_gpu_product(s->d, out, s->ta, s->tb, x->rows, x->cols);
  if (x->cluster) p.cluster = x->cluster;
  if (x->late >= 0) ts_gpu_product_settle(&p, s->k);
  if (x->stages) p.stages = x->stages;
  if (x->group) p.group = x->group;
  if (x->limit) p.limit = x->limit < 0 ? 0 : x->limit;
  if (x->buffers) p.buffers = x->buffers;
  return p;
}

static void bench(TsDtype d, int layout, int64_t m, int64_t n, int64_t k, int nplan,
                  const Plan *plan) {
  Shape s = {.d = d, .ta = layout & 1, .tb = layout & 2, .m = m, .n = n, .k = k};
  Kernel kernel[MOST_KERNELS];
  Runner r[MOST_KERNELS] = {{.name = "cuBLAS"}};
  int64_t each = ts_dtypes[d].nbytes;
  s.arg[0] = random_device(d, m * k), s.arg[1] = random_device(d, k * n);
  int64_t wide = each == 1 ? 2 : each;
  s.arg[2] = on_device(NULL, m * n * wide);
  int count = blas && each > 1;
  for (int i = 0; i < nplan; i++) {
    TsGpuProduct p = plan_of(&plan[i], &s);
    kernel[i] = load(&p);
    r[count] = (Runner){.kernel = &kernel[i]};
    snprintf(r[count++].name, sizeof r[0].name, "%s", plan[i].name);
  }
  measure(r, count, &s);
  for (int i = 0; i < nplan; i++) unload_tile(&kernel[i]);
  int64_t size[3] = {m * k * each, k * n * each, m * n * wide};
  for (int i = 0; i < 3; i++) gpu->free(gpu, s.arg[i], size[i] + 256);
}

/* Layouts in the order NN NT TN TT: bit 0 turns A, bit 1 turns B. */
static const int layouts[4] = {0, 2, 1, 3};

static void bench_bf16(void) {
  static const int64_t shape[][3] = {
      {4096, 4096, 4096}, {8192, 8192, 8192}, {8192, 16384, 4096}, {16384, 16384, 16384}};
  static const Plan plan[] = {{.name = "ours"}};
  for (int i = 0; i < 4; i++)
    for (int l = 0; l < 4; l++)
      bench(TS_DT_bf16, layouts[l], shape[i][0], shape[i][1], shape[i][2], 1, plan);
}

/* What ts_gpu_product_for() chooses, and what it chooses from. */
static void bench_tiles(void) {
  static const int64_t shape[][3] = {
      {1024, 1024, 1024},  {2048, 2048, 2048}, {3072, 3072, 3072}, {1000, 1000, 1000},
      {8192, 1024, 28672}, {128, 50304, 768},  {512, 8192, 8192},  {16, 4096, 4096},
      {64, 8192, 8192},    {32768, 768, 768},  {32768, 2304, 768}};
  static const Plan plan[] = {
      {.name = "chosen"},
      {"256c2", 128, 256, 2, 0, 0, 0, 0, 0},
      {"256", 128, 256, 1, 0, 0, 0, 0, 0},
      {"192x192c2", 192, 192, 2, 0, 0, 0, 0, 0},
      {"192x192", 192, 192, 1, 0, 0, 0, 0, 0},
      {"192x192b2", 192, 192, 1, 3, 0, 0, 2, 0},
      {"192c2", 128, 192, 2, 0, 0, 0, 0, 0},
      {"192x128", 192, 128, 1, 0, 0, 0, 0, 0},
      {"128", 128, 128, 1, 0, 0, 0, 0, 0},
      {"64", 128, 64, 1, 0, 0, 0, 0, 0},
      {"64x64", 64, 64, 1, 0, 0, 0, 0, 0},
  };
  for (int i = 0; i < 11; i++)
    bench(TS_DT_bf16, 2, shape[i][0], shape[i][1], shape[i][2], 11, plan);
}

/* Training of a GPT-2: forward, by the input, by the weight. */
static void bench_gpt(void) {
  static const struct {
    int layout;
    int64_t m, n, k;
  } shape[] = {
      {0, 32768, 2304, 768},  {0, 32768, 768, 768},   {0, 32768, 3072, 768},
      {0, 32768, 768, 3072},  {2, 32768, 768, 2304},  {2, 32768, 3072, 768},
      {1, 768, 2304, 32768},  {1, 768, 768, 32768},   {1, 768, 3072, 32768},
      {1, 3072, 768, 32768},  {2, 32768, 50304, 768}, {0, 32768, 768, 50304},
      {1, 50304, 768, 32768},
  };
  static const Plan wide[] = {{.name = "chosen"},
                              {.name = "not late", .late = -1},
                              {"256c2", 128, 256, 2, 0, 0, 0, 0, 0},
                              {"256", 128, 256, 1, 0, 0, 0, 0, 0},
                              {"192c2", 128, 192, 2, 0, 0, 0, 0, 0},
                              {"128c2", 128, 128, 2, 0, 0, 0, 0, 0}};
  static const Plan deep[] = {{.name = "chosen"},
                              {"128x64", 128, 64, 1, 0, 0, 0, 0, 0},
                              {"128", 128, 128, 1, 0, 0, 0, 0, 0}};
  for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
    bool is_deep = shape[i].layout == 1 && shape[i].m < 50304;
    bench(TS_DT_bf16, shape[i].layout, shape[i].m, shape[i].n, shape[i].k, is_deep ? 3 : 6,
          is_deep ? deep : wide);
  }
}

static void bench_limit(void) {
  static const Plan plan[] = {{.name = "none", .limit = -1},
                              {.name = "16", .limit = 16},
                              {.name = "32", .limit = 32},
                              {.name = "64", .limit = 64}};
  bench(TS_DT_bf16, 2, 16384, 16384, 16384, 4, plan);
  bench(TS_DT_bf16, 2, 8192, 8192, 8192, 4, plan);
  bench(TS_DT_bf16, 2, 8192, 1024, 28672, 4, plan);
}

static void bench_eight(void) {
  static const Plan plan[] = {{.name = "chosen"},
                              {"256c2", 128, 256, 2, 0, 0, 0, 0, 0},
                              {"256", 128, 256, 1, 0, 0, 0, 0, 0},
                              {"192x192c2", 192, 192, 2, 0, 0, 0, 0, 0},
                              {"256c2 g4", 128, 256, 2, 0, 4, 0, 0, 0},
                              {"256c2 g16", 128, 256, 2, 0, 16, 0, 0, 0}};
  bench(TS_DT_fp8_e4m3, 2, 8192, 8192, 8192, 6, plan);
  bench(TS_DT_fp8_e4m3, 2, 4096, 4096, 4096, 3, plan);
}

static void bench_exact(void) {
  static const Plan plan[] = {{.name = "ours"}};
  for (int64_t n = 4096; n <= 8192; n *= 2)
    for (int l = 0; l < 4; l++) bench(TS_DT_f32, layouts[l], n, n, n, 1, plan);
  bench(TS_DT_f64, 0, 4096, 4096, 4096, 1, plan);
}

int main(int argc, char **argv) {
  bool measures = argc > 1 && !strcmp(argv[1], "--bench");
  const char *word = argc > 2 ? argv[2] : "";
  setvbuf(stdout, NULL, _IOLBF, 0);
  gpu = ts_device_find("cuda:0", &err);
  if (!gpu || !gpu->run || !ts_target_has(gpu->target, TS_UNIT_roles))
    return skip("no GPU that has the unit");
  MUST(ts_device_use(gpu, &err));
  if (!measures) {
    word = argc > 1 ? argv[1] : "";
    if (wanted(word, "bf16")) check_units();
    if (wanted(word, "epilogue")) check_epilogues();
    if (wanted(word, "fp8")) check_eight();
    if (wanted(word, "f32")) check_chains();
    printf("%s\n", failed ? "FAILED" : "all right");
    return failed != 0;
  }
  find_blas();
  if (wanted(word, "bf16")) bench_bf16();
  if (wanted(word, "fp8")) bench_eight();
  if (wanted(word, "f32")) bench_exact();
  if (wanted(word, "limit")) bench_limit();
  if (wanted(word, "tiles")) bench_tiles();
  if (wanted(word, "gpt")) bench_gpt();
  return 0;
}
