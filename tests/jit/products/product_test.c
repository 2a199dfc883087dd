/* Products of blocks (ir/tile/product/product.c): sizes at the edges of register tiles and blocks,
 * straight and turned operands, cheap and dear rows behind the product. The block form and the
 * explicit form in the interpreter, machine code of every instruction set on one thread and on
 * two, and a chain of fmaf in plain C have the same bits. */
#include "tests/jit/jit_test.h"

#include "devices/cpu_pool.h"
#include "ir/tile/product/product.h"
#include "tests/skip.h"

typedef struct Case {
  int m, n, k, mb, nb;
  bool ta, tb, dear;
} Case;

enum { MOST = 700 * 700 };
static float a[MOST], b[MOST], c[MOST], r[MOST], want[2][MOST], got[2][MOST];

static float value(void) { return (float)((int)(rnd() % 2001) - 1000) / 512; }

static void fill(float *x) {
  for (int i = 0; i < MOST; i++) x[i] = value();
}

static TsTile *block_form(const Case *x) {
  char text[4000];
  int rows = (x->m + x->mb - 1) / x->mb, cols = (x->n + x->nb - 1) / x->nb, mb = x->mb,
      nb = x->nb;
  int sa[2] = {x->ta ? 1 : x->k, x->ta ? x->m : 1},
      sb[2] = {x->tb ? 1 : x->n, x->tb ? x->k : 1};
  int n = snprintf(
      text, sizeof text,
      "tile @p(%%a: f32[%d,%d] strides [%d,%d], %%b: f32[%d,%d] strides [%d,%d], %%c: f32[%d], "
      "%%r: f32[%d,%d]) -> (%%y: f32[%d,%d], %%z: f32[%d,%d]) target cpu tile %dx%d {\n"
      "  for %%i in 0..%d parallel {\n    %%p = mod %%i, %d : i64[]\n"
      "    %%q = floordiv %%i, %d : i64[]\n    %%m = mul %%p, %d : i64[]\n"
      "    %%n = mul %%q, %d : i64[]\n    %%o = const : f32[%d,%d]\n"
      "    %%s = load %%a[%%m, 0] {edge=true} : f32[%d,%d]\n"
      "    %%t = load %%b[0, %%n] {edge=true} : f32[%d,%d]\n"
      "    %%u = mma %%s, %%t, %%o : f32[%d,%d]\n"
      "    %%v = load %%c[%%n] {edge=true} : f32[%d]\n"
      "    %%w = broadcast %%v {axes=[1]} : f32[%d,%d]\n    %%x = add %%u, %%w : f32[%d,%d]\n"
      "    store %%y[%%m, %%n] = %%x {edge=true}\n"
      "    %%d = load %%r[%%m, %%n] {edge=true} : f32[%d,%d]\n"
      "    %%e = %s %%x : f32[%d,%d]\n    %%f = mul %%e, %%d : f32[%d,%d]\n"
      "    store %%z[%%m, %%n] = %%f {edge=true}\n  }\n}\n",
      x->m, x->k, sa[0], sa[1], x->k, x->n, sb[0], sb[1], x->n, x->m, x->n, x->m, x->n, x->m,
      x->n, mb, nb, rows * cols, rows, rows, mb, nb, mb, nb, mb, x->k, x->k, nb, mb, nb, nb, mb,
      nb, mb, nb, mb, nb, x->dear ? "gelu_erf" : "relu", mb, nb, mb, nb);
  TsError err = {0};
  TsTile *k = n < (int)sizeof text ? ts_tile_parse(text, &err) : NULL;
  if (!k) failed++, printf("%s\n%s\n", err.message, text);
  return k;
}

static bool agree(const Case *x, const char *what) {
  size_t nbytes = sizeof(float) * (size_t)(x->m * x->n);
  if (!memcmp(want[0], got[0], nbytes) && !memcmp(want[1], got[1], nbytes)) return true;
  failed++;
  printf("%s: %dx%dx%d %d%d blocks %dx%d dear %d\n", what, x->m, x->k, x->n, x->ta, x->tb,
         x->mb, x->nb, x->dear);
  return false;
}

static void clear(void) { memset(got, 0x55, sizeof got); }

static void chains(const Case *x) {
  for (int i = 0; i < x->m; i++)
    for (int j = 0; j < x->n; j++) {
      float sum = 0;
      for (int k = 0; k < x->k; k++)
        sum = fmaf(a[x->ta ? k * x->m + i : i * x->k + k],
                   b[x->tb ? j * x->k + k : k * x->n + j], sum);
      got[0][i * x->n + j] = sum + c[j];
    }
  memcpy(got[1], want[1], sizeof got[1]); /* the functions behind have tests of their own */
}

static void code(const Case *x, const TsTile *explicit_form, const TsTarget *t, void **arg) {
  TsError err = {0};
  TsTile *k = ts_tile_expand(explicit_form, &err);
  TsKernel *kernel = k ? ts_kernel_compile(k, t, &err) : NULL;
  if (!kernel) failed++, printf("%s: %s\n", t->name, err.message);
  for (int threads = 1; kernel && threads <= 2; threads++) {
    ts_cpu_set_threads(threads);
    clear();
    CHECK(!ts_kernel_run(kernel, arg, NULL, &err));
    agree(x, t->name);
  }
  ts_kernel_free(kernel);
  ts_tile_free(k);
}

static void one(const Case *x, bool compile) {
  static const char *const name[] = {"avx512", "avx2", "base"};
  TsError err = {0};
  void *arg[6] = {a, b, c, r, want[0], want[1]};
  TsTile *block = block_form(x);
  if (!block) return;
  CHECK(!ts_tile_check(block, NULL, &err));
  if (ts_tile_run(block, arg, NULL, &err)) failed++, printf("block: %s\n", err.message);
  arg[4] = got[0], arg[5] = got[1];
  chains(x);
  agree(x, "chains");
  for (int i = 0; i < 3; i++) {
    const TsTarget *t = ts_jit_target(name[i]);
    CHECK(!t || ts_tile_is_product(block, t));
    TsTile *k = t ? ts_tile_product(block, t, &err) : NULL;
    if (!k) {
      if (t) failed++, printf("%s\n", err.message);
      continue;
    }
    if (ts_tile_check(k, t, &err)) failed++, printf("%s\n", err.message);
    clear();
    if (ts_tile_run(k, arg, NULL, &err)) failed++, printf("explicit: %s\n", err.message);
    if (!agree(x, "explicit")) printf("for %s\n", name[i]);
    if (compile && ts_llvm_present() && t->triple) code(x, k, t, arg);
    ts_tile_free(k);
  }
  ts_tile_free(block);
}

int main(void) {
  setenv("TESSERA_CACHE", "off", 1);
  if (!ts_llvm_present()) skip("no LLVM: nothing is compiled");
  skip_isas();
  fill(a), fill(b), fill(c), fill(r);
  for (int i = 0; i < 40; i++) {
    Case x = {.m = 1 + (int)(rnd() % 70),
              .n = 1 + (int)(rnd() % 70),
              .k = 1 + (int)(rnd() % 70),
              .mb = 24,
              .nb = 192,
              .ta = rnd() % 2,
              .tb = rnd() % 2,
              .dear = rnd() % 4 == 0};
    if (rnd() % 4 == 0) x.mb = 96;
    one(&x, i % 4 == 0);
  }
  /* Steps of k, rows too far apart to stay, several blocks both ways. */
  static const Case large[] = {
      {.m = 31, .n = 200, .k = 397, .mb = 24, .nb = 192, .ta = true},
      {.m = 50, .n = 33, .k = 601, .mb = 48, .nb = 192},
      {.m = 25, .n = 193, .k = 515, .mb = 24, .nb = 192, .tb = true, .dear = true},
      {.m = 37, .n = 53, .k = 144, .mb = 40, .nb = 48, .ta = true, .dear = true},
      {.m = 150, .n = 20, .k = 389, .mb = 168, .nb = 192, .ta = true, .tb = true},
  };
  for (size_t i = 0; i < sizeof large / sizeof *large; i++) one(&large[i], true);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
