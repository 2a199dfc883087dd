/* One step of the matrix unit on a GPU of compute capability 9.0, beside ir/tile/run/unit.c, bit by
 * bit: sums of 16 products of bf16 and f16 of every kind of number. Without a GPU it says so.
 * With --vectors it prints tests/ir/unit_vectors.h. */
#include <math.h>
#include <string.h>

#include "ir/tile/run/run.h"
#include "tests/jit/gpu/device.h"
#include "tests/skip.h"

enum { M = 16, N = 8, K = 16, STEPS = 512, KINDS = 5, KEPT = 8 };

/* A step: a[16,16], b[16,8], sums[16,8] in rows. A warp of block i takes step i; thread 4g +
 * t has rows g and g + 8 of a, column g of b, and columns 2t, 2t + 1 of the sums. */
static const char ptx[] =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry unit(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 pf) {\n"
    "  .reg .b64 a, b, c, w;\n  .reg .b32 i, l, g, t, x, f, a<4>, b<2>;\n  .reg .f32 c<4>;\n"
    "  .reg .b16 h<4>;\n  .reg .pred p;\n"
    "  ld.param.u64 a, [pa];\n  ld.param.u64 b, [pb];\n  ld.param.u64 c, [pc];\n"
    "  ld.param.u32 f, [pf];\n  mov.u32 i, %ctaid.x;\n  mov.u32 l, %tid.x;\n"
    "  shr.u32 g, l, 2;\n  and.b32 t, l, 3;\n"
    "  mad.wide.u32 a, i, 512, a;\n  mad.wide.u32 b, i, 256, b;\n  mad.wide.u32 c, i, 512, c;\n"
    "  shl.b32 x, t, 2;\n  mad.lo.u32 x, g, 32, x;\n  cvt.u64.u32 w, x;\n  add.u64 a, a, w;\n"
    "  ld.global.b32 a0, [a];\n  ld.global.b32 a1, [a+256];\n"
    "  ld.global.b32 a2, [a+16];\n  ld.global.b32 a3, [a+272];\n"
    "  shl.b32 x, g, 1;\n  mad.lo.u32 x, t, 32, x;\n  cvt.u64.u32 w, x;\n  add.u64 b, b, w;\n"
    "  ld.global.b16 h0, [b];\n  ld.global.b16 h1, [b+16];\n"
    "  ld.global.b16 h2, [b+128];\n  ld.global.b16 h3, [b+144];\n"
    "  mov.b32 b0, {h0, h1};\n  mov.b32 b1, {h2, h3};\n"
    "  shl.b32 x, t, 3;\n  mad.lo.u32 x, g, 32, x;\n  cvt.u64.u32 w, x;\n  add.u64 c, c, w;\n"
    "  ld.global.f32 c0, [c];\n  ld.global.f32 c1, [c+4];\n"
    "  ld.global.f32 c2, [c+256];\n  ld.global.f32 c3, [c+260];\n"
    "  setp.ne.u32 p, f, 0;\n"
    "  @p mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {c0,c1,c2,c3}, {a0,a1,a2,a3}, "
    "{b0,b1}, "
    "{c0,c1,c2,c3};\n"
    "  @!p mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {c0,c1,c2,c3}, {a0,a1,a2,a3}, "
    "{b0,b1}, {c0,c1,c2,c3};\n"
    "  st.global.f32 [c], c0;\n  st.global.f32 [c+4], c1;\n"
    "  st.global.f32 [c+256], c2;\n  st.global.f32 [c+260], c3;\n  ret;\n}\n";

/* ---- numbers, by their bits: sign, exponent in [low, low + n), any mantissa */
static uint32_t number(int bits, int mantissa, int low, int n) {
  uint32_t r = (uint32_t)(rnd() >> 20), sign = (uint32_t)(rnd() >> 60 & 1) << (bits - 1);
  uint32_t e = (uint32_t)low + (uint32_t)(rnd() >> 33) % (uint32_t)n;
  return sign | e << mantissa | (r & ((1u << mantissa) - 1));
}

/* Of any size; small, so that some sums are subnormal; near one; with zeros; with infinite ones
 * and NaN. */
static uint32_t of_kind(int kind, int bits, int mantissa) {
  int top = (1 << (bits - 1 - mantissa)) - 1, one = top / 2;
  switch (kind) {
  case 0: return number(bits, mantissa, 0, top);
  case 1: return number(bits, mantissa, bits == 32 ? 0 : one / 2 > 7 ? one / 2 - 4 : 0, 8);
  case 2: return number(bits, mantissa, one - 3, 6);
  case 3: return rnd() % 3 ? (uint32_t)(rnd() >> 63) << (bits - 1) : of_kind(0, bits, mantissa);
  default:
    return rnd() % 100 ? of_kind(2, bits, mantissa)
                       : (uint32_t)top << mantissa | (uint32_t)(rnd() % 2 << (mantissa - 1));
  }
}

typedef struct Steps {
  uint16_t a[STEPS][M * K], b[STEPS][K * N];
  uint32_t c[STEPS][M * N], d[STEPS][M * N];
} Steps;

static void fill(Steps *s, bool f16, int kind) {
  int mantissa = f16 ? 10 : 7;
  for (int i = 0; i < STEPS; i++) {
    for (int e = 0; e < M * K; e++) s->a[i][e] = (uint16_t)of_kind(kind, 16, mantissa);
    for (int e = 0; e < K * N; e++)
      s->b[i][e] = (uint16_t)of_kind(kind == 4 ? 2 : kind, 16, mantissa);
    for (int e = 0; e < M * N; e++) s->c[i][e] = of_kind(e % 2 ? kind : 3, 32, 23);
  }
}

static void run_on_gpu(void *function, Steps *s, uint32_t f16) {
  void *a = on_device(s->a, sizeof s->a), *b = on_device(s->b, sizeof s->b);
  void *c = on_device(s->c, sizeof s->c);
  void *args[] = {&a, &b, &c, &f16};
  TsLaunch l = {.kernel = function, .grid = {STEPS, 1, 1}, .block = {32, 1, 1}, .args = args};
  MUST(gpu->run->launch(gpu, &l, &err));
  MUST(gpu->download(gpu, s->d, c, sizeof s->d, &err));
  gpu->free(gpu, a, (int64_t)sizeof s->a + 256);
  gpu->free(gpu, b, (int64_t)sizeof s->b + 256);
  gpu->free(gpu, c, (int64_t)sizeof s->c + 256);
}

static bool same(uint32_t x, uint32_t y) {
  bool both = (x << 1) > 0xff000000u && (y << 1) > 0xff000000u; /* NaN */
  return x == y || both;
}

static int compare(Steps *s, bool f16) {
  int wrong = 0;
  for (int i = 0; i < STEPS; i++) {
    MUST(ts_tile_run_unit(f16 ? TS_DT_f16 : TS_DT_bf16, M, N, K, s->a[i], s->b[i],
                          (float *)(void *)s->c[i], NULL));
    for (int e = 0; e < M * N; e++) wrong += !same(s->c[i][e], s->d[i][e]);
  }
  return wrong;
}

/* An element of some steps: 16 factors, 16 factors, the sum before and behind. */
static void print_vectors(const Steps *s, bool f16) {
  for (int i = 0; i < KEPT; i++) {
    int row = i % M, col = i * 3 % N;
    printf("    {%d, {", f16);
    for (int k = 0; k < K; k++) printf("%s0x%x", k ? ", " : "", s->a[i][row * K + k]);
    printf("},\n     {");
    for (int k = 0; k < K; k++) printf("%s0x%x", k ? ", " : "", s->b[i][k * N + col]);
    printf("},\n     0x%x, 0x%x},\n", s->c[i][row * N + col], s->d[i][row * N + col]);
  }
}

int main(int argc, char **argv) {
  static Steps s;
  bool vectors = argc > 1 && !strcmp(argv[1], "--vectors");
  void *module, *function;
  gpu = ts_device_find("cuda:0", &err);
  if (!gpu) return skip("no GPU");
  if (!ts_target_has(gpu->target, TS_UNIT_wgmma)) return skip("a GPU without wgmma");
  MUST(ts_device_use(gpu, &err));
  MUST(gpu->run->module_new(gpu, ptx, strlen(ptx) + 1, &module, &err));
  MUST(gpu->run->kernel(gpu, module, "unit", 0, &function, &err));
  if (vectors)
    printf("/* Steps of a matrix unit of compute capability 9.0, as an H200 made them: written "
           "by\n"
           " * tests/jit/gpu/unit_device.c --vectors. */\n"
           "static const struct {\n  int f16;\n  uint16_t a[16], b[16];\n"
           "  uint32_t before, behind;\n} unit_vectors[] = {\n");
  for (int f16 = 0; f16 < 2; f16++)
    for (int kind = 0; kind < KINDS; kind++) {
      fill(&s, f16, kind);
      run_on_gpu(function, &s, (uint32_t)f16);
      if (vectors) {
        print_vectors(&s, f16);
        continue;
      }
      int wrong = compare(&s, f16);
      printf("%s, kind %d: %d of %d differ\n", f16 ? "f16" : "bf16", kind, wrong,
             STEPS * M * N);
      failed += wrong > 0;
    }
  gpu->run->module_free(gpu, module);
  if (vectors) printf("};\n");
  if (!vectors) printf("%d passed, %d failed\n", 2 * KINDS - failed, failed);
  return failed != 0;
}
