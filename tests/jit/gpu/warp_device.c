/* Products of warps (ir/tile/gpu/warp_product.c) on a GPU. Without one it says so.
 *
 * With no argument, or a word (bits, f32, i8, tf32, steps, peak) for a part: 16 bits on the
 * matrix unit near f64, with the same bits for all tiles and layouts, and how many of them are
 * those of the kernels with roles; chains of multiply-adds and whole numbers bit by bit as the
 * VM's. steps: what the unit's sums are, for docs/numerics.md.
 *
 * With --bench and perhaps a word (bf16, tiles, i8, tf32, f32, strict): TFLOP/s in bursts
 * beside cuBLAS where it is found. */
#include <dlfcn.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "ir/tile/gpu/product.h"
#include "ir/tile/gpu/warp_product.h"
#include "lib/convert_bits.h"
#include "tests/jit/gpu/device.h"
#include "tests/skip.h"
#include "vm/gemm/gemm.h"
#include "vm/core/kernels.h"

static TsGpuMachine machine;

/* ---- data */
static float get(TsDtype d, const void *x, int64_t i) {
  if (d == TS_DT_f32) return ((const float *)x)[i];
  uint16_t u = ((const uint16_t *)x)[i];
  return d == TS_DT_bf16 ? f32_of_bf16(u) : f32_of_f16(u);
}

static void *numbers(TsDtype d, int64_t n) {
  void *x = malloc((size_t)n * 8 + 16);
  for (int64_t i = 0; i < n; i++) {
    float v = normal();
    if (d == TS_DT_f32)
      ((float *)x)[i] = v;
    else if (d == TS_DT_f64)
      ((double *)x)[i] = (double)v * (1 + 0x1p-30 * (double)(rnd() & 255));
    else if (d == TS_DT_i8)
      ((int8_t *)x)[i] = (int8_t)(rnd() >> 20);
    else
      ((uint16_t *)x)[i] = d == TS_DT_bf16 ? bf16_of_f32(v) : f16_of_f32(v);
  }
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

typedef struct Problem {
  TsDtype in, out;
  int64_t m, n, k;
  void *ha, *hb, *a[2], *b[2], *c;
  char *got, *first;
  size_t size;
} Problem;

static Problem pose(TsDtype in, TsDtype out, int64_t m, int64_t n, int64_t k) {
  Problem p = {.in = in, .out = out, .m = m, .n = n, .k = k};
  int64_t each = ts_dtypes[in].nbytes;
  p.size = (size_t)(m * n) * ts_dtypes[out].nbytes;
  p.ha = numbers(in, m * k), p.hb = numbers(in, k * n);
  void *ta = transposed(in, p.ha, m, k), *tb = transposed(in, p.hb, k, n);
  p.a[0] = on_device(p.ha, each * m * k), p.a[1] = on_device(ta, each * m * k);
  p.b[0] = on_device(p.hb, each * k * n), p.b[1] = on_device(tb, each * k * n);
  p.c = on_device(NULL, (int64_t)p.size);
  p.got = calloc(1, p.size + 16), p.first = calloc(1, p.size + 16);
  free(ta), free(tb);
  return p;
}

static void forget(Problem *p) {
  int64_t each = ts_dtypes[p->in].nbytes;
  for (int i = 0; i < 2; i++) {
    gpu->free(gpu, p->a[i], each * p->m * p->k + 256);
    gpu->free(gpu, p->b[i], each * p->k * p->n + 256);
  }
  gpu->free(gpu, p->c, (int64_t)p->size + 256);
  free(p->ha), free(p->hb), free(p->got), free(p->first);
}

/* ---- correctness */
static void compute(Problem *p, TsTile *tile, bool ta, bool tb, int blocks) {
  Loaded k = load_tile(tile);
  memset(p->got, 0xff, p->size);
  MUST(gpu->upload(gpu, p->c, p->got, (int64_t)p->size, &err));
  void *arg[3] = {p->a[ta], p->b[tb], p->c};
  int64_t dim[4] = {p->m, p->n, p->k, blocks};
  alarm(30);
  for (int i = 0; i < 5; i++) launch_tile(&k, arg, dim);
  MUST(gpu->download(gpu, p->got, p->c, (int64_t)p->size, &err));
  alarm(0);
  unload_tile(&k);
}

static int granularity(const Problem *p, bool ta, bool tb) {
  int64_t each = ts_dtypes[p->in].nbytes, a = (ta ? p->m : p->k) * each,
          b = (tb ? p->k : p->n) * each, c = p->n * ts_dtypes[p->out].nbytes;
  int bytes = 16;
  while (bytes > 4 && (a % bytes || b % bytes || c % bytes)) bytes /= 2;
  return bytes;
}

static void by_warps(Problem *p, TsGpuWarpUnit unit, int layout, int rows, int cols) {
  bool ta = layout & 1, tb = layout & 2;
  TsGpuWarpProduct x = ts_gpu_warp_product(p->in, p->out, unit, ta, tb, rows, cols, &machine);
  x.bytes = granularity(p, ta, tb);
  compute(p, ts_tile_gpu_warp_product(&x, machine.target, &err), ta, tb,
          ts_gpu_warp_product_blocks(&x, &machine));
}

/* The kernel with roles that this GPU has for the same; tile NULL: it has none. */
static TsGpuProduct roles_of(TsGpuWarpUnit unit, TsDtype in, TsDtype out, int layout, int64_t m,
                             int64_t n, int64_t k) {
  bool ta = layout & 1, tb = layout & 2;
  if (unit == TS_GPU_UNIT_tf32) return ts_gpu_product_tf32(m, n, k, machine.processors);
  return ts_gpu_product_for(in, out, ta, tb, m, n, k, 1, machine.processors, true);
}

static void by_roles(Problem *p, TsGpuWarpUnit unit, int layout) {
  TsGpuProduct x = roles_of(unit, p->in, p->out, layout, p->m, p->n, p->k);
  compute(p, ts_tile_gpu_product(&x, &err), layout & 1, layout & 2,
          machine.processors / x.cluster);
}

static bool has_roles(const Problem *p) {
  int64_t a = ts_dtypes[p->in].nbytes, c = ts_dtypes[p->out].nbytes;
  return ts_target_has(gpu->target, TS_UNIT_roles) && p->m * a % 16 == 0 &&
         p->k * a % 16 == 0 && p->n * a % 16 == 0 && p->n * c % 16 == 0;
}

static void wrong(const Problem *p, const char *what, double value) {
  failed++;
  printf("WRONG %s %lldx%lldx%lld: %s %.4g\n", ts_dtype_name(p->in), (long long)p->m,
         (long long)p->n, (long long)p->k, what, value);
}

/* Root of the mean square of the error, against that of the right numbers. */
static double distance(const Problem *p) {
  double off = 0, all = 0;
  float *b = malloc(sizeof *b * (size_t)(p->k * p->n));
  double *row = malloc(sizeof *row * (size_t)p->n);
  for (int64_t i = 0; i < p->k * p->n; i++) b[i] = get(p->in, p->hb, i);
  for (int64_t i = 0; i < p->m; i++) {
    memset(row, 0, sizeof *row * (size_t)p->n);
    for (int64_t l = 0; l < p->k; l++) {
      double a = (double)get(p->in, p->ha, i * p->k + l);
      for (int64_t j = 0; j < p->n; j++) row[j] += a * (double)b[l * p->n + j];
    }
    for (int64_t j = 0; j < p->n; j++) {
      double d = (double)get(p->out, p->got, i * p->n + j) - row[j];
      off += d * d, all += row[j] * row[j];
    }
  }
  free(b), free(row);
  double r = sqrt(off / all);
  return r == r ? r : INFINITY;
}

static const int tiles[][2] = {{128, 256}, {128, 128}, {64, 128}, {64, 64}};

static void near(TsGpuWarpUnit unit, TsDtype in, TsDtype out, int64_t m, int64_t n, int64_t k,
                 double bound) {
  Problem p = pose(in, out, m, n, k);
  for (int layout = 0; layout < 4; layout++)
    for (int i = 0; i < 4; i++) {
      bool first = !layout && !i;
      if ((layout + i) % 4 && !first && layout != 2) continue; /* each takes time to compile */
      by_warps(&p, unit, layout, tiles[i][0], tiles[i][1]);
      double d = first ? distance(&p) : 0;
      if (!(d <= bound)) wrong(&p, "relative error", d);
      if (first) memcpy(p.first, p.got, p.size);
      if (first)
        printf("%s>%s %lldx%lldx%lld: relative error %.3g\n", ts_dtype_name(in),
               ts_dtype_name(out), (long long)m, (long long)n, (long long)k, d);
      if (memcmp(p.first, p.got, p.size)) wrong(&p, "other bits, layout", layout * 10 + i);
    }
  if (has_roles(&p)) {
    by_roles(&p, unit, 2);
    int64_t other = 0, each = ts_dtypes[out].nbytes;
    for (int64_t i = 0; i < m * n; i++)
      other += memcmp(p.first + i * each, p.got + i * each, (size_t)each) != 0;
    printf("  beside wgmma: %lld of %lld differ\n", (long long)other, (long long)(m * n));
  }
  forget(&p);
}

/* Against the VM's product. */
static void exact(TsGpuWarpUnit unit, TsDtype in, TsDtype out, int64_t m, int64_t n,
                  int64_t k) {
  Problem p = pose(in, out, m, n, k);
  TsGemm g = {.in = ts_gemm_type(in), .out = ts_gemm_type(out), .batch = 1, .m = m, .n = n};
  g.k = k, g.a = p.ha, g.a_rs = k, g.a_cs = 1, g.b = p.hb, g.b_rs = n, g.b_cs = 1;
  g.c = p.first, g.c_rs = n, g.c_cs = 1;
  MUST(ts_gemm(&g, &ts_kernels_use(NULL)->gemm));
  for (int layout = in == TS_DT_i8 ? 2 : 0; layout < (in == TS_DT_i8 ? 3 : 4); layout++) {
    for (int i = 0; i < (unit == TS_GPU_UNIT_fma ? 1 : 4); i++) {
      bool chain = unit == TS_GPU_UNIT_fma;
      by_warps(&p, unit, layout, chain ? 0 : tiles[i][0], chain ? 0 : tiles[i][1]);
      if (memcmp(p.first, p.got, p.size)) wrong(&p, "other bits than the VM, layout", layout);
    }
    bool narrow = ts_dtypes[in].nbytes == 2; /* which multiply-adds have no roles for */
    if (has_roles(&p) && !narrow) by_roles(&p, unit, layout);
    if (memcmp(p.first, p.got, p.size)) wrong(&p, "roles: other bits, layout", layout);
  }
  printf("%s>%s %lldx%lldx%lld: compared with the VM\n", ts_dtype_name(in), ts_dtype_name(out),
         (long long)m, (long long)n, (long long)k);
  forget(&p);
}

/* ---- what the unit's sums are: one instruction of 16 steps, two of 8, and the sum cut off */
static const char steps_ptx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry steps(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 py) {\n"
    ".reg .b32 a<4>, b<2>, t;\n.reg .f32 c<4>, x<4>, y<4>;\n.reg .b64 pa_, pb_, pc_, py_, o;\n"
    "mov.u32 t, %tid.x;\n"
    "ld.param.u64 pa_, [pa];\nld.param.u64 pb_, [pb];\n"
    "ld.param.u64 pc_, [pc];\nld.param.u64 py_, [py];\n"
    "mul.wide.u32 o, t, 16;\nadd.u64 pa_, pa_, o;\nadd.u64 pc_, pc_, o;\nadd.u64 py_, py_, o;\n"
    "mul.wide.u32 o, t, 8;\nadd.u64 pb_, pb_, o;\n"
    "ld.global.v4.b32 {a0, a1, a2, a3}, [pa_];\nld.global.v2.b32 {b0, b1}, [pb_];\n"
    "ld.global.v4.f32 {c0, c1, c2, c3}, [pc_];\n"
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {x0, x1, x2, x3}, {a0, a1, a2, a3},"
    " {b0, b1}, {c0, c1, c2, c3};\n"
    "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {y0, y1, y2, y3}, {a0, a1}, {b0},"
    " {c0, c1, c2, c3};\n"
    "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {y0, y1, y2, y3}, {a2, a3}, {b1},"
    " {y0, y1, y2, y3};\n"
    "st.global.v4.f32 [py_], {x0, x1, x2, x3};\nst.global.v4.f32 [py_+512], {y0, y1, y2, y3};\n"
    "ret;\n}\n";

static float toward_zero(double x) {
  float f = (float)x;
  return fabs((double)f) > fabs(x) ? nextafterf(f, 0) : f;
}

static void check_steps(void) {
  enum { ROUNDS = 400 };
  void *module, *function, *da = on_device(NULL, 512), *db = on_device(NULL, 256),
                           *dc = on_device(NULL, 512), *dy = on_device(NULL, 1024);
  int64_t n = 0, eight = 0, cut = 0, nearest = 0;
  MUST(gpu->run->module_new(gpu, steps_ptx, strlen(steps_ptx) + 1, &module, &err));
  MUST(gpu->run->kernel(gpu, module, "steps", 0, &function, &err));
  for (int r = 0; r < ROUNDS; r++) {
    uint16_t a[256], b[128];
    float c[128], y[256];
    for (int i = 0; i < 256; i++) a[i] = bf16_of_f32(normal());
    for (int i = 0; i < 128; i++) b[i] = bf16_of_f32(normal()), c[i] = normal() * 8;
    MUST(gpu->upload(gpu, da, a, 512, &err));
    MUST(gpu->upload(gpu, db, b, 256, &err));
    MUST(gpu->upload(gpu, dc, c, 512, &err));
    void *args[4] = {&da, &db, &dc, &dy};
    TsLaunch l = {.kernel = function, .grid = {1, 1, 1}, .block = {32, 1, 1}, .args = args};
    MUST(gpu->run->launch(gpu, &l, &err));
    MUST(gpu->download(gpu, y, dy, 1024, &err));
    for (int t = 0; t < 32; t++)
      for (int q = 0; q < 4; q++) {
        int row = t / 4 + q / 2 * 8, col = t % 4 * 2 + q % 2;
        double sum = (double)c[t * 4 + q];
        for (int k = 0; k < 16; k++) {
          /* where thread and register of (row, k) and (k, col) are */
          int ta = row % 8 * 4 + k % 8 / 2, ra = row / 8 + k / 8 * 2;
          int tb = col * 4 + k % 8 / 2, rb = k / 8;
          sum += (double)f32_of_bf16(a[(ta * 4 + ra) * 2 + k % 2]) *
                 (double)f32_of_bf16(b[(tb * 2 + rb) * 2 + k % 2]);
        }
        float x = y[t * 4 + q];
        n++, eight += x != y[128 + t * 4 + q];
        cut += x != toward_zero(sum), nearest += x != (float)sum;
      }
  }
  printf("steps: of %lld sums of 16 products and a number, %lld differ from two instructions of"
         " 8, %lld from the exact sum cut off, %lld from it rounded\n",
         (long long)n, (long long)eight, (long long)cut, (long long)nearest);
}

/* ---- the most that the unit does: products of registers, 8 warps a multiprocessor */
static void check_peak(void) {
  enum { SUMS = 32, ROUNDS = 4000, CALLS = 5 };
  TsText t = {0};
  void *module, *function, *from, *to;
  double usec, most = 0;
  ts_text_format(&t, ".version 8.0\n.target sm_80\n.address_size 64\n"
                     ".visible .entry peak(.param .u64 py) {\n.reg .pred p;\n"
                     ".reg .b32 n, a<4>, b<2>;\n.reg .f32 c<128>;\n.reg .b64 y;\n"
                     "mov.u32 n, %%tid.x;\nmov.u32 a0, n;\nmov.u32 a1, n;\nmov.u32 a2, n;\n"
                     "mov.u32 a3, n;\nmov.u32 b0, n;\nmov.u32 b1, n;\n");
  for (int i = 0; i < 4 * SUMS; i++) ts_text_format(&t, "mov.f32 c%d, 0f00000000;\n", i);
  ts_text_format(&t, "mov.u32 n, %d;\nL:\n", ROUNDS);
  for (int i = 0; i < 4 * SUMS; i += 4)
    ts_text_format(&t,
                   "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {c%d, c%d, c%d, "
                   "c%d}, {a0, a1, a2, a3}, {b0, b1}, {c%d, c%d, c%d, c%d};\n",
                   i, i + 1, i + 2, i + 3, i, i + 1, i + 2, i + 3);
  ts_text_format(&t, "sub.u32 n, n, 1;\nsetp.ne.u32 p, n, 0;\n@p bra L;\n"
                     "ld.param.u64 y, [py];\n");
  for (int i = 0; i < 4 * SUMS; i++)
    ts_text_format(&t, "st.global.f32 [y+%d], c%d;\n", 4 * i, i);
  ts_text_format(&t, "ret;\n}\n");
  MUST(gpu->run->module_new(gpu, t.at, t.len + 1, &module, &err));
  MUST(gpu->run->kernel(gpu, module, "peak", 0, &function, &err));
  MUST(gpu->run->event_new(gpu, &from, &err));
  MUST(gpu->run->event_new(gpu, &to, &err));
  void *y = on_device(NULL, 512), *args[1] = {&y};
  TsLaunch l = {.kernel = function, .block = {256, 1, 1}, .args = args};
  l.grid[0] = (uint32_t)machine.processors, l.grid[1] = l.grid[2] = 1;
  for (int i = 0; i < CALLS; i++) {
    usleep(50000);
    MUST(gpu->run->event_record(gpu, from, NULL, &err));
    MUST(gpu->run->launch(gpu, &l, &err));
    MUST(gpu->run->event_record(gpu, to, NULL, &err));
    MUST(gpu->run->event_wait(gpu, to, &err));
    MUST(gpu->run->event_usec(gpu, from, to, &usec, &err));
    double speed = 4096.0 * SUMS * ROUNDS * 8 * machine.processors / usec * 1e-6;
    if (speed > most) most = speed;
  }
  printf("mma.sync of registers: %.1f TFLOP/s\n", most);
  ts_text_free(&t);
}

/* ---- cuBLAS, if this machine has it */
typedef int Blas(void *handle, int opa, int opb, int m, int n, int k, const void *alpha,
                 const void *a, int ta, int lda, const void *b, int tb, int ldb,
                 const void *beta, void *c, int tc, int ldc, int compute, int algo);
static Blas *blas;
static void *blas_handle;

static void find_blas(void) {
  static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so",
                                      "/usr/local/cuda/lib64/libcublas.so"};
  void *library = NULL, *f[3] = {NULL};
  for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
  if (!library) return;
  f[0] = dlsym(library, "cublasCreate_v2"), f[1] = dlsym(library, "cublasSetStream_v2");
  f[2] = dlsym(library, "cublasGemmEx");
  int (*create)(void **), (*set_stream)(void *, void *);
  memcpy(&create, &f[0], sizeof create), memcpy(&set_stream, &f[1], sizeof set_stream);
  if (!f[0] || !f[1] || !f[2] || ts_driver_enter(gpu, &err) || create(&blas_handle)) return;
  memcpy(&blas, &f[2], sizeof blas);
  set_stream(blas_handle, ((TsDriven *)gpu->state)->work);
}

typedef struct Shape {
  TsDtype in, out;
  TsGpuWarpUnit unit;
  int layout;
  int64_t m, n, k;
  void *arg[3];
} Shape;

/* Row-major C = A B is column-major C' = B' A'. */
static int run_blas(const Shape *s) {
  enum { R_32F = 0, R_8I = 3, R_32I = 10, R_16F = 2, R_16BF = 14 };
  enum { OF_32F = 68, OF_32I = 72, OF_TF32 = 77 };
  static const float one = 1, zero = 0;
  static const int whole_one = 1, whole_zero = 0;
  bool whole = s->in == TS_DT_i8, ta = s->layout & 1, tb = s->layout & 2;
  int t = whole ? R_8I : s->in == TS_DT_f32 ? R_32F : s->in == TS_DT_f16 ? R_16F : R_16BF;
  int how = whole ? OF_32I : s->unit == TS_GPU_UNIT_tf32 ? OF_TF32 : OF_32F;
  int m = (int)s->m, n = (int)s->n, k = (int)s->k;
  return blas(blas_handle, tb, ta, n, m, k, whole ? (const void *)&whole_one : &one, s->arg[1],
              t, tb ? k : n, s->arg[0], t, ta ? m : k,
              whole ? (const void *)&whole_zero : &zero, s->arg[2], whole ? R_32I : t, n, how,
              -1);
}

/* ---- bursts: the device idles for 50 ms, then works for about 10 ms */
enum { MOST = 8, BURSTS = 5 };

typedef struct Runner {
  char name[40];
  Loaded kernel;
  int blocks; /* 0: cuBLAS */
  double msec[BURSTS];
} Runner;

static void start(const Runner *r, const Shape *s) {
  int64_t dim[4] = {s->m, s->n, s->k, r->blocks};
  if (r->blocks)
    launch_tile(&r->kernel, s->arg, dim);
  else
    run_blas(s);
}

static double burst(const Runner *r, const Shape *s, int times) {
  static void *from, *to;
  double usec = 0;
  if (!from) MUST(gpu->run->event_new(gpu, &from, &err));
  if (!to) MUST(gpu->run->event_new(gpu, &to, &err));
  MUST(gpu->synchronize(gpu, &err));
  usleep(50000);
  start(r, s);
  MUST(gpu->run->event_record(gpu, from, NULL, &err));
  for (int i = 0; i < times; i++) start(r, s);
  MUST(gpu->run->event_record(gpu, to, NULL, &err));
  MUST(gpu->run->event_wait(gpu, to, &err));
  MUST(gpu->run->event_usec(gpu, from, to, &usec, &err));
  return usec * 1e-3 / times;
}

static void measure(Runner *r, int n, const Shape *s, double speed) {
  double flop = 2.0 * (double)s->m * (double)s->n * (double)s->k, peer = 0;
  int times = (int)(10e-3 / (flop / (speed * 1e12)));
  times = times < 1 ? 1 : times > 400 ? 400 : times;
  alarm(60);
  for (int b = 0; b < BURSTS; b++)
    for (int i = 0; i < n; i++) {
      int j = (i + b) % n;
      r[j].msec[b] = burst(&r[j], s, times);
    }
  alarm(0);
  printf("%-4s %s%c%c %5lldx%5lldx%5lld ", ts_dtype_name(s->in),
         s->unit == TS_GPU_UNIT_fma    ? "fma "
         : s->unit == TS_GPU_UNIT_tf32 ? "tf32 "
                                       : "",
         s->layout & 1 ? 'T' : 'N', s->layout & 2 ? 'T' : 'N', (long long)s->m, (long long)s->n,
         (long long)s->k);
  for (int i = 0; i < n; i++) {
    qsort(r[i].msec, BURSTS, sizeof(double), by_time);
    double now = flop / r[i].msec[BURSTS / 2] * 1e-9;
    if (!r[i].blocks) peer = now;
    printf(" %s %.1f", r[i].name, now);
    if (peer > 0 && r[i].blocks) printf(" (%.3f)", now / peer);
  }
  printf("\n");
}

typedef struct Plan {
  const char *name;
  int rows, cols, stages, group; /* 0: as usual */
} Plan;

static Runner runner(const Shape *s, const Plan *x) {
  bool ta = s->layout & 1, tb = s->layout & 2;
  TsGpuWarpProduct p =
      ts_gpu_warp_product_for(s->in, s->out, s->unit, ta, tb, s->m, s->n, &machine);
  if (x->rows)
    p = ts_gpu_warp_product(s->in, s->out, s->unit, ta, tb, x->rows, x->cols, &machine);
  if (x->stages) p.stages = x->stages;
  if (x->group) p.group = x->group;
  Runner r = {.kernel = load_tile(ts_tile_gpu_warp_product(&p, machine.target, &err)),
              .blocks = ts_gpu_warp_product_blocks(&p, &machine)};
  snprintf(r.name, sizeof r.name, "%s", x->name);
  return r;
}

static Runner with_roles(const Shape *s) {
  TsGpuProduct p = roles_of(s->unit, s->in, s->out, s->layout, s->m, s->n, s->k);
  return (Runner){.name = "roles",
                  .kernel = load_tile(ts_tile_gpu_product(&p, &err)),
                  .blocks = machine.processors / p.cluster};
}

static void bench(TsGpuWarpUnit unit, TsDtype in, TsDtype out, int layout, int64_t m, int64_t n,
                  int64_t k, double speed, bool roles, int nplan, const Plan *plan) {
  Shape s = {.in = in, .out = out, .unit = unit, .layout = layout, .m = m, .n = n, .k = k};
  Runner r[MOST] = {{.name = "cuBLAS"}};
  int64_t each = ts_dtypes[in].nbytes, size[3] = {m * k * each, k * n * each};
  size[2] = m * n * ts_dtypes[out].nbytes;
  for (int i = 0; i < 3; i++) {
    void *x = i < 2 ? numbers(in, (size[i] < 16 << 20 ? size[i] : 16 << 20) / each) : NULL;
    s.arg[i] = on_device(NULL, size[i]);
    for (int64_t at = 0; x && at < size[i]; at += 16 << 20)
      MUST(gpu->upload(gpu, (char *)s.arg[i] + at, x,
                       size[i] - at < 16 << 20 ? size[i] - at : 16 << 20, &err));
    free(x);
  }
  int count = blas && !run_blas(&s) ? 1 : 0;
  for (int i = 0; i < nplan; i++) r[count++] = runner(&s, &plan[i]);
  if (roles) r[count++] = with_roles(&s);
  measure(r, count, &s, speed);
  for (int i = 0; i < count; i++)
    if (r[i].blocks) unload_tile(&r[i].kernel);
  for (int i = 0; i < 3; i++) gpu->free(gpu, s.arg[i], size[i] + 256);
}

static const Plan chosen[] = {{.name = "warps"}};
static const Plan some[] = {{.name = "chosen"},        {"256", 128, 256, 0, 0},
                            {"256s3", 128, 256, 3, 0}, {"128", 128, 128, 0, 0},
                            {"128s2", 128, 128, 2, 0}, {"64x128", 64, 128, 0, 0}};

static void bench_all(const char *word) {
#define WANTED(w) (!*word || !strcmp(word, w))
  TsDtype b = TS_DT_bf16, f = TS_DT_f32, i8 = TS_DT_i8, i32 = TS_DT_i32;
  TsGpuWarpUnit mma = TS_GPU_UNIT_mma, fma = TS_GPU_UNIT_fma, tf32 = TS_GPU_UNIT_tf32;
  bool roles = ts_target_has(gpu->target, TS_UNIT_roles);
  for (int l = 0; l < 4 && WANTED("bf16"); l++) {
    bench(mma, b, b, l, 4096, 4096, 4096, 500, roles, 1, chosen);
    bench(mma, b, b, l, 8192, 8192, 8192, 500, roles && l == 2, 1, chosen);
  }
  if (WANTED("tiles")) {
    bench(mma, b, b, 2, 8192, 8192, 8192, 500, false, 6, some);
    bench(mma, b, b, 0, 4096, 4096, 4096, 500, false, 6, some);
    bench(mma, b, b, 2, 1024, 1024, 1024, 300, false, 6, some);
    bench(mma, b, b, 2, 512, 8192, 1024, 300, false, 6, some);
  }
  if (WANTED("i8")) {
    bench(mma, i8, i32, 2, 4096, 4096, 4096, 900, roles, 1, chosen);
    bench(mma, i8, i32, 2, 8192, 8192, 8192, 900, roles, 1, chosen);
  }
  for (int l = 0; l < 4 && WANTED("tf32"); l++)
    bench(tf32, f, f, l, 4096, 4096, 4096, 250, roles && l == 2, 1, chosen);
  if (WANTED("tf32")) bench(tf32, f, f, 2, 8192, 8192, 8192, 250, roles, 1, chosen);
  for (int l = 0; l < 4 && WANTED("f32"); l++)
    bench(fma, f, f, l, 4096, 4096, 4096, 45, roles, 1, chosen);
  for (int l = 0; l < 4 && WANTED("strict"); l++)
    bench(fma, b, b, l, 4096, 4096, 4096, 45, false, 1, chosen);
}

static void check_all(const char *word) {
  TsDtype b = TS_DT_bf16, h = TS_DT_f16, f = TS_DT_f32;
  TsGpuWarpUnit mma = TS_GPU_UNIT_mma, fma = TS_GPU_UNIT_fma, tf32 = TS_GPU_UNIT_tf32;
  if (WANTED("bits")) {
    near(mma, b, b, 1000, 1088, 192, 2e-3);
    near(mma, b, f, 1000, 1088, 200, 3e-5);
    near(mma, h, h, 264, 520, 1032, 4e-4);
    near(mma, b, b, 300, 262, 1026, 2e-3);
    near(mma, b, f, 512, 768, 2048, 3e-5);
    near(mma, b, b, 8, 8, 8, 3e-3);
  }
  if (WANTED("tf32"))
    near(tf32, f, f, 1000, 1088, 196, 1e-3), near(tf32, f, f, 70, 130, 37, 1e-3);
  if (WANTED("f32")) {
    exact(fma, f, f, 1000, 1088, 204), exact(fma, f, f, 515, 388, 1027);
    exact(fma, TS_DT_f64, TS_DT_f64, 300, 310, 150);
    exact(fma, b, b, 516, 388, 1030), exact(fma, b, f, 136, 264, 2048);
    exact(fma, h, h, 1000, 1088, 204);
  }
  if (WANTED("i8")) {
    exact(mma, TS_DT_i8, TS_DT_i32, 1000, 1088, 400),
        exact(mma, TS_DT_i8, TS_DT_i32, 70, 72, 132);
    exact(mma, TS_DT_i8, TS_DT_i32, 512, 768, 8192);
  }
  if (WANTED("steps")) check_steps();
  if (WANTED("peak")) check_peak();
}

int main(int argc, char **argv) {
  bool measures = argc > 1 && !strcmp(argv[1], "--bench");
  setvbuf(stdout, NULL, _IOLBF, 0);
  gpu = ts_device_find("cuda:0", &err);
  if (!gpu || !gpu->run || !ts_target_has(gpu->target, TS_UNIT_mma))
    return skip("no GPU that has the unit");
  MUST(ts_device_use(gpu, &err));
  static TsTarget oldest;
  oldest = *ts_target("sm_80");
  oldest.shared_bytes = gpu->target->shared_bytes;
  machine = (TsGpuMachine){&oldest, gpu->processors};
  if (measures) {
    find_blas();
    bench_all(argc > 2 ? argv[2] : "");
    return 0;
  }
  check_all(argc > 1 ? argv[1] : "");
  printf("%s\n", failed ? "FAILED" : "all right");
  return failed != 0;
}
