/* Products in text by hand, whose rounds are whatever blocks the text says: at multiples of their
 * size or not, on top of each other, shifted, the last one pushed inside, steps and registers as the
 * head has them; what follows at the block or elsewhere. What is compiled has the bits of the
 * interpreter and touches nothing beside its results; nothing is refused. (Reads beside the
 * arguments are found by ASan: each has memory of its own size.) */
#include "tests/jit/jit_test.h"

#include "devices/cpu_pool.h"
#include "ir/tile/product/product.h"
#include "jit/build/build.h"
#include "tests/skip.h"

enum { GUARD = 4096 /* elements before and behind a result */ };

/* How the position of a block comes about. */
typedef enum Walk {
  WALK_whole,   /* i * block */
  WALK_pushed,  /* min(i * block, size - block) */
  WALK_closer,  /* i * (block - 1), with blocks that overlap */
  WALK_shifted, /* i * block + 1, the first row or column is left out */
  WALK_far,     /* one block more than there are */
  WALK_COUNT
} Walk;

typedef struct Case {
  int m, n, k, mb, nb, batch;
  Walk down, across;
  bool ta, tb, dear;
  int end; /* of what follows */
  int high, steps, pack;
  bool half; /* rows of A are f16 */
} Case;

enum {
  END_usual,
  END_row,    /* one row of r for all */
  END_scalar, /* the element of r at the block's corner */
  END_early,  /* r is read before the product */
  END_COUNT
};

static int rounds_of(Walk w, int size, int block) {
  int n = w == WALK_closer && block > 1 ? (size + block - 2) / (block - 1)
                                        : (size + block - 1) / block;
  return n + (w == WALK_far);
}

static int place(char *to, size_t room, const Case *x, bool down, const char *round) {
  Walk w = down ? x->down : x->across;
  int block = down ? x->mb : x->nb, size = down ? x->m : x->n, step = block;
  const char *name = down ? "m" : "n";
  if (w == WALK_closer && block > 1) step = block - 1;
  if (w == WALK_pushed)
    return snprintf(to, room,
                    "    %%%s0 = mul %s, %d : i64[]\n    %%%s1 = minimum %%%s0, %d : i64[]\n"
                    "    %%%s = maximum %%%s1, 0 : i64[]\n",
                    name, round, step, name, name, size - block, name, name);
  if (w == WALK_shifted)
    return snprintf(to, room,
                    "    %%%s0 = mul %s, %d : i64[]\n    %%%s = add %%%s0, 1 : i64[]\n", name,
                    round, step, name, name);
  return snprintf(to, room, "    %%%s = mul %s, %d : i64[]\n", name, round, step);
}

static void heads(TsText *t, const Case *x) {
  int sa[2] = {x->ta ? 1 : x->k, x->ta ? x->m : 1},
      sb[2] = {x->tb ? 1 : x->n, x->tb ? x->k : 1};
  ts_text_format(
      t,
      "tile @p(%%a: %s[%d,%d,%d] strides [%d,%d,%d], %%b: f32[%d,%d] strides [%d,%d], "
      "%%c: f32[%d], %%r: f32[%d,%d]) -> (%%y: f32[%d,%d,%d], %%z: f32[%d,%d,%d]) target cpu",
      x->half ? "f16" : "f32", x->batch, x->m, x->k, x->m * x->k, sa[0], sa[1], x->k, x->n,
      sb[0], sb[1], x->n, x->m, x->n, x->batch, x->m, x->n, x->batch, x->m, x->n);
  if (x->high) ts_text_format(t, " high %d", x->high);
  if (x->steps) ts_text_format(t, " depth %d", x->steps);
  if (x->pack) ts_text_format(t, " pack %d", x->pack);
  ts_text_format(t, " {\n");
}

static TsTile *block_form(const Case *x) {
  TsText t = {0};
  TsError err = {0};
  char at[400];
  int rows = rounds_of(x->down, x->m, x->mb), cols = rounds_of(x->across, x->n, x->nb);
  heads(&t, x);
  ts_text_format(&t,
                 "  for %%i in 0..%d parallel {\n    %%l = floordiv %%i, %d : i64[]\n"
                 "    %%j = mod %%i, %d : i64[]\n    %%p = mod %%j, %d : i64[]\n"
                 "    %%q = floordiv %%j, %d : i64[]\n",
                 rows * cols * x->batch, rows * cols, rows * cols, rows, rows);
  place(at, sizeof at, x, true, "%p"), ts_text_format(&t, "%s", at);
  place(at, sizeof at, x, false, "%q"), ts_text_format(&t, "%s", at);
  const char *early = "    %%d = load %%r[%%m, %%n] {edge=true} : f32[%d,%d]\n";
  if (x->end == END_early) ts_text_format(&t, early, x->mb, x->nb);
  ts_text_format(
      &t,
      "    %%o = const : f32[%d,%d]\n    %%s%s = load %%a[%%l, %%m, 0] {edge=true} : "
      "%s[%d,%d]\n",
      x->mb, x->nb, x->half ? "0" : "", x->half ? "f16" : "f32", x->mb, x->k);
  if (x->half) ts_text_format(&t, "    %%s = cast %%s0 : f32[%d,%d]\n", x->mb, x->k);
  ts_text_format(
      &t,
      "    %%t = load %%b[0, %%n] {edge=true} : f32[%d,%d]\n"
      "    %%u = mma %%s, %%t, %%o : f32[%d,%d]\n"
      "    %%v = load %%c[%%n] {edge=true} : f32[%d]\n"
      "    %%w = broadcast %%v {axes=[1]} : f32[%d,%d]\n    %%x = add %%u, %%w : f32[%d,%d]\n"
      "    store %%y[%%l, %%m, %%n] = %%x {edge=true}\n",
      x->k, x->nb, x->mb, x->nb, x->nb, x->mb, x->nb, x->mb, x->nb);
  if (x->end == END_usual) ts_text_format(&t, early, x->mb, x->nb);
  if (x->end == END_row)
    ts_text_format(&t,
                   "    %%d0 = load %%r[0, %%n] {edge=true} : f32[%d]\n"
                   "    %%d = broadcast %%d0 {axes=[1]} : f32[%d,%d]\n",
                   x->nb, x->mb, x->nb);
  if (x->end == END_scalar)
    ts_text_format(&t,
                   "    %%d0 = load %%r[%%m, %%n] {edge=true} : f32[]\n"
                   "    %%d = broadcast %%d0 : f32[%d,%d]\n",
                   x->mb, x->nb);
  ts_text_format(&t,
                 "    %%e = %s %%x : f32[%d,%d]\n    %%f = mul %%e, %%d : f32[%d,%d]\n"
                 "    store %%z[%%l, %%m, %%n] = %%f {edge=true}\n  }\n}\n",
                 x->dear ? "gelu_erf" : "relu", x->mb, x->nb, x->mb, x->nb);
  TsTile *k = t.failed ? NULL : ts_tile_parse(t.at, &err);
  if (!k) failed++, printf("%s\n%s\n", err.message, t.at);
  ts_text_free(&t);
  return k;
}

/* ---- arguments */
typedef struct Arguments {
  void *at[6];
  float *room[2]; /* of the results, with guards */
  size_t n;       /* elements of a result */
} Arguments;

static void *numbers(TsDtype d, size_t n) {
  void *x = malloc(n * ts_dtypes[d].nbytes);
  for (size_t i = 0; i < n; i++) {
    float v = (float)((int)(rnd() % 2001) - 1000) / 512;
    if (d == TS_DT_f32)
      ((float *)x)[i] = v;
    else
      ((uint16_t *)x)[i] = (uint16_t)(0x3000 + rnd() % 0x1000); /* of f16 */
  }
  return x;
}

static Arguments arguments(const Case *x) {
  Arguments a = {.n = (size_t)(x->batch * x->m * x->n)};
  size_t of_a = (size_t)(x->batch * x->m * x->k);
  a.at[0] = numbers(x->half ? TS_DT_f16 : TS_DT_f32, of_a);
  a.at[1] = numbers(TS_DT_f32, (size_t)(x->k * x->n));
  a.at[2] = numbers(TS_DT_f32, (size_t)x->n);
  a.at[3] = numbers(TS_DT_f32, (size_t)(x->m * x->n));
  for (int i = 0; i < 2; i++) {
    a.room[i] = malloc((a.n + 2 * GUARD) * sizeof(float));
    a.at[4 + i] = a.room[i] + GUARD;
  }
  return a;
}

static void clear(Arguments *a) {
  for (int i = 0; i < 2; i++) memset(a->room[i], 0x55, (a->n + 2 * GUARD) * sizeof(float));
}

static void free_arguments(Arguments *a) {
  for (int i = 0; i < 4; i++) free(a->at[i]);
  for (int i = 0; i < 2; i++) free(a->room[i]);
}

/* ---- a case */
static void show(const Case *x, const char *what, const TsTarget *t) {
  failed++;
  printf("%s: %s: %d x %dx%dx%d %d%d blocks %dx%d, walks %d %d, dear %d end %d high %d steps "
         "%d pack "
         "%d half %d\n",
         t->name, what, x->batch, x->m, x->k, x->n, x->ta, x->tb, x->mb, x->nb, x->down,
         x->across, x->dear, x->end, x->high, x->steps, x->pack, x->half);
}

static void compiled(const Case *x, const TsTile *block, const TsTarget *t, Arguments *a,
                     float *const want[2]) {
  TsError err = {0};
  TsKernel *kernel = ts_build_compile(block, t, &err);
  if (!kernel) {
    show(x, err.message, t);
    return;
  }
  clear(a);
  if (ts_kernel_run(kernel, a->at, NULL, &err)) show(x, err.message, t);
  for (int i = 0; i < 2; i++)
    if (memcmp(want[i], a->room[i], (a->n + 2 * GUARD) * sizeof(float)))
      show(x, i ? "other bits in z, or beside it" : "other bits in y, or beside it", t);
  ts_kernel_free(kernel);
}

/* Whether the pass for products takes it. */
static bool one(const Case *x, bool all) {
  static const char *const name[] = {"avx512", "avx2", "base"};
  TsError err = {0};
  TsTile *block = block_form(x);
  if (!block) return false;
  Arguments a = arguments(x);
  float *want[2];
  bool taken = ts_tile_is_product(block, ts_jit_target("avx2"));
  clear(&a);
  if (ts_tile_run(block, a.at, NULL, &err)) failed++, printf("interpreter: %s\n", err.message);
  for (int i = 0; i < 2; i++) {
    size_t nbytes = (a.n + 2 * GUARD) * sizeof(float);
    want[i] = malloc(nbytes);
    memcpy(want[i], a.room[i], nbytes);
  }
  for (int i = 0; i < 3; i++) {
    const TsTarget *t = ts_jit_target(name[i]);
    if (t && t->triple && (all || t->vector_bytes == 32)) compiled(x, block, t, &a, want);
  }
  for (int i = 0; i < 2; i++) free(want[i]);
  free_arguments(&a);
  ts_tile_free(block);
  return taken;
}

static int pick(int n) { return (int)(rnd() % (uint64_t)n); }

static Case any(void) {
  static const int rows[] = {24, 48, 96}, columns[] = {192, 384};
  Case x = {.m = 1 + pick(110),
            .n = 1 + pick(210),
            .k = 1 + pick(40),
            .mb = rows[pick(3)],
            .nb = columns[pick(2)],
            .batch = 1 + pick(3),
            .ta = pick(2),
            .tb = pick(2),
            .dear = pick(4) == 0,
            .end = pick(2) ? END_usual : pick(END_COUNT),
            .pack = pick(3),
            .half = pick(4) == 0};
  if (pick(4) == 0) x.n += 190; /* several blocks across */
  if (pick(4) == 0) x.k += 40, x.steps = 1 + pick(60);
  if (pick(3) == 0) x.high = (int[]){6, 12, 4}[pick(3)];
  if (pick(5) == 0) x.mb = 1 + pick(60), x.nb = 1 + pick(200);
  if (pick(3)) x.down = (Walk)pick(WALK_COUNT);
  if (pick(3)) x.across = (Walk)pick(WALK_COUNT);
  return x;
}

int main(int argc, char **argv) {
  int count = argc > 1 ? atoi(argv[1]) : 60, taken = 0;
  setenv("TESSERA_CACHE", "off", 1);
  if (!ts_llvm_present()) skip("no LLVM: nothing is compiled");
  ts_cpu_set_threads(1); /* blocks that overlap are written by one after the other */
  for (int i = 0; i < count; i++) {
    Case x = any();
    taken += one(&x, i % 8 == 0);
  }
  /* The pass has its part, and so has the vectoriser. */
  CHECK(taken > count / 10 && taken < count);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
