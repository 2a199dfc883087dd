/* Products of bf16 by pairs of steps (ir/tile/pairs.h) in Tile IR: block form and explicit
 * form in the interpreter, and where the processor has the instruction its code, on one
 * thread and two, have the bits of a model that is written from the definition. Sizes at all
 * edges, several parts of k, turned operands, a prologue whose value behind the end of k is
 * infinite, numbers that are denormal, infinite or NaN. */
#include "tests/jit/jit_test.h"

#include "devices/cpu_pool.h"
#include "ir/tile/pairs.h"
#include "ir/tile/product/product.h"
#include "lib/convert_bits.h"
#include "tests/skip.h"

typedef struct Case {
  int m, n, k, steps, pack;
  bool ta, tb, prologue, odd; /* odd: numbers */
} Case;

enum { MOST = 300 * 300, MB = 96, NB = 192 };
static uint16_t a[MOST], b[MOST], c[MOST];
static uint16_t got[2][MOST], expected[2][MOST];

static uint16_t value(bool odd) {
  uint32_t kind = rnd() % 256;
  if (odd && kind < 3) return (uint16_t)(kind == 0 ? 0x7f80 : kind == 1 ? 0xff80 : 0x7fc0);
  if (odd && kind < 12) return (uint16_t)(rnd() & 0x807f);
  if (odd && kind < 20) return (uint16_t)(rnd() & 0x8fff); /* products that are denormal */
  return bf16_of_f32((float)(1 + rnd() % 2000) / 512 * (rnd() % 2 ? 1 : -1));
}

/* ---- the model */
static float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static float factor(const uint16_t *x, int line, int k, int lines, int deep, bool transposed,
                    bool inverse) {
  if (k >= deep) return 0;
  float f = f32_of_bf16(x[transposed ? k * lines + line : line * deep + k]);
  return flushed(inverse ? f32_of_bf16(bf16_of_f32(1 / f)) : f);
}

static float model(const Case *x, TsTilePairs unit, int i, int j) {
  float sum = 0, chain[2] = {0, 0};
  bool line = unit == TS_PAIRS_amx_bf16;
  for (int k = 0; k < (x->k + 31) / 32 * 32; k++) {
    int at = line ? k : k ^ 1; /* the odd step comes first */
    if (!line && at >= x->k + x->k % 2) continue;
    float *s = line ? &chain[k % 2] : &sum;
    float y = factor(a, i, at, x->m, x->k, x->ta, x->prologue);
    /* B's columns are its lines. */
    *s = flushed(fmaf(y, factor(b, j, at, x->n, x->k, !x->tb, false), *s));
    if (line && k % 32 == 31)
      sum = flushed(sum + flushed(chain[0] + chain[1])), chain[0] = chain[1] = 0;
  }
  return sum;
}

static void models(const Case *x, TsTilePairs unit) {
  for (int i = 0; i < x->m; i++)
    for (int j = 0; j < x->n; j++) {
      int at = i * x->n + j;
      float sum = model(x, unit, i, j);
      expected[0][at] = bf16_of_f32(sum);
      expected[1][at] = bf16_of_f32((sum > 0 || sum != sum ? sum : 0) + f32_of_bf16(c[at]));
    }
}

/* ---- the kernel */
static TsTile *block_form(const Case *x, const char *unit) {
  char text[4000], head[64] = "", before[300] = "";
  int rows = (x->m + MB - 1) / MB, cols = (x->n + NB - 1) / NB;
  int sa[2] = {x->ta ? 1 : x->k, x->ta ? x->m : 1};
  int sb[2] = {x->tb ? 1 : x->n, x->tb ? x->k : 1};
  snprintf(head, sizeof head, "%s%.0d %s%.0d", x->steps ? "depth " : "", x->steps,
           x->pack ? "pack " : "", x->pack);
  if (x->prologue)
    snprintf(before, sizeof before,
             "    %%s1 = cast %%s : f32[%d,%d]\n    %%s2 = const {value=1} : f32[%d,%d]\n"
             "    %%s3 = div %%s2, %%s1 : f32[%d,%d]\n    %%s4 = cast %%s3 : bf16[%d,%d]\n",
             MB, x->k, MB, x->k, MB, x->k, MB, x->k);
  int n = snprintf(
      text, sizeof text,
      "tile @p(%%a: bf16[%d,%d] strides [%d,%d], %%b: bf16[%d,%d] strides [%d,%d], "
      "%%c: bf16[%d,%d]) -> (%%y: bf16[%d,%d], %%z: bf16[%d,%d]) target avx512 tile %dx%d %s "
      "{\n"
      "  for %%i in 0..%d parallel {\n    %%p = mod %%i, %d : i64[]\n"
      "    %%q = floordiv %%i, %d : i64[]\n    %%m = mul %%p, %d : i64[]\n"
      "    %%n = mul %%q, %d : i64[]\n    %%o = const : f32[%d,%d]\n"
      "    %%s = load %%a[%%m, 0] {edge=true} : bf16[%d,%d]\n%s"
      "    %%t = load %%b[0, %%n] {edge=true} : bf16[%d,%d]\n"
      "    %%u = mma %%%s, %%t, %%o {unit=\"%s\"} : f32[%d,%d]\n"
      "    %%v = cast %%u : bf16[%d,%d]\n    store %%y[%%m, %%n] = %%v {edge=true}\n"
      "    %%w = load %%c[%%m, %%n] {edge=true} : bf16[%d,%d]\n"
      "    %%d = cast %%w : f32[%d,%d]\n    %%e = relu %%u : f32[%d,%d]\n"
      "    %%f = add %%e, %%d : f32[%d,%d]\n    %%g = cast %%f : bf16[%d,%d]\n"
      "    store %%z[%%m, %%n] = %%g {edge=true}\n  }\n}\n",
      x->m, x->k, sa[0], sa[1], x->k, x->n, sb[0], sb[1], x->m, x->n, x->m, x->n, x->m, x->n,
      MB, NB, head, rows * cols, rows, rows, MB, NB, MB, NB, MB, x->k, before, x->k, NB,
      x->prologue ? "s4" : "s", unit, MB, NB, MB, NB, MB, NB, MB, NB, MB, NB, MB, NB, MB, NB);
  TsError err = {0};
  TsTile *k = n < (int)sizeof text ? ts_tile_parse(text, &err) : NULL;
  if (!k) failed++, printf("%s\n%s\n", err.message, text);
  return k;
}

static void clear(void) { memset(got, 0x55, sizeof got); }

static void agree(const Case *x, const char *unit, const char *what) {
  size_t nbytes = sizeof(uint16_t) * (size_t)(x->m * x->n);
  bool same = !memcmp(expected[0], got[0], nbytes) && !memcmp(expected[1], got[1], nbytes);
  if (same) return;
  failed++;
  printf("%s, %s: %dx%dx%d turned %d%d steps %d pack %d prologue %d odd %d\n", unit, what, x->m,
         x->k, x->n, x->ta, x->tb, x->steps, x->pack, x->prologue, x->odd);
}

static void code(const Case *x, const TsTile *explicit_form, const TsTarget *t, void **arg) {
  TsError err = {0};
  TsTile *k = ts_tile_expand(explicit_form, &err);
  TsKernel *kernel = k ? ts_kernel_compile(k, t, &err) : NULL;
  if (!kernel) failed++, printf("%s: %s\n", t->pairs, err.message);
  for (int threads = 1; kernel && threads <= 2; threads++) {
    ts_cpu_set_threads(threads);
    clear();
    CHECK(!ts_kernel_run(kernel, arg, NULL, &err));
    agree(x, t->pairs, "code");
  }
  ts_kernel_free(kernel);
  ts_tile_free(k);
}

/* Where the instruction is missing its code is still made. */
static void assembly(const TsTile *explicit_form, const TsTarget *t) {
  TsError err = {0};
  TsText text = {0};
  TsTile *k = ts_tile_expand(explicit_form, &err);
  const char *word = strcmp(t->pairs, "amx_bf16") ? "vdpbf16ps" : "tdpbf16ps";
  CHECK(k && !ts_llvm_text(k, t, true, &text, &err));
  CHECK(text.at && strstr(text.at, word));
  ts_text_free(&text);
  ts_tile_free(k);
}

static void one(const Case *x, const char *unit, const TsTarget *real) {
  TsError err = {0};
  void *arg[5] = {a, b, c, got[0], got[1]};
  TsTarget t = real ? *real : (TsTarget){.name = "avx512", .vector_bytes = 64};
  bool has =
      real && real->pairs && (!strcmp(unit, "avx512_bf16") || !strcmp(unit, real->pairs));
  t.registers = 32, t.fma = true, t.pairs = unit;
  TsTile *block = block_form(x, unit);
  if (!block) return;
  models(x, ts_tile_pairs_named(unit));
  if (ts_tile_check(block, &t, &err)) failed++, printf("%s\n", err.message);
  clear();
  if (ts_tile_run(block, arg, NULL, &err)) failed++, printf("block: %s\n", err.message);
  agree(x, unit, "block");
  TsTile *k = ts_tile_product(block, &t, &err);
  if (!k || ts_tile_check(k, &t, &err)) failed++, printf("%s\n", err.message);
  clear();
  if (k && ts_tile_run(k, arg, NULL, &err)) failed++, printf("explicit: %s\n", err.message);
  agree(x, unit, "explicit");
  if (k && ts_llvm_present() && real) has ? code(x, k, &t, arg) : assembly(k, &t);
  ts_tile_free(k);
  ts_tile_free(block);
}

static int below(int n) { return (int)(rnd() % (unsigned)n); }

int main(void) {
  static const char *const unit[] = {"amx_bf16", "avx512_bf16"};
  const TsTarget *real = ts_jit_target("avx512");
  setenv("TESSERA_CACHE", "off", 1);
  for (int i = 0; i < 40; i++) {
    Case x = {.m = 1 + below(70), .n = 1 + below(70), .k = 1 + below(100)};
    if (i % 6 == 5) x.m = 1 + below(280), x.n = 1 + below(280), x.k = 1 + below(280);
    if (i % 7 == 3) x.m = 96, x.n = 64, x.k = 64;
    if (i % 3 == 1) x.steps = 32 << below(3);
    x.pack = below(3);
    x.ta = below(3) == 0, x.tb = below(3) == 0, x.odd = below(2);
    x.prologue = !x.ta && below(4) == 0;
    for (int k = 0; k < MOST; k++) a[k] = value(x.odd && !x.prologue);
    for (int k = 0; k < MOST; k++) b[k] = value(x.odd), c[k] = value(x.odd);
    for (int u = 0; u < 2; u++) one(&x, unit[u], real);
  }
  if (!ts_llvm_present())
    skip("no LLVM: nothing is compiled");
  else if (!real || !real->pairs)
    skip("this CPU has no instruction for pairs of bf16: their code is read, not run");
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
