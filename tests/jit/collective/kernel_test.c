/* Kernels of collectives: their text is read again, and their PTX taken by ptxas, for the oldest and
 * the newest GPUs; a device that meets nobody says who was missing. "print" prints PTX. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "devices/flags.h"
#include "jit/collective/kernel.h"
#include "jit/collective/push.h"
#include "jit/compile/llvm.h"
#include "jit/gpu/gpu.h"
#include "tests/jit/gpu/ptxas.h"

enum { SPILLS = 64 /* bytes, of numbers of 64 bits */ };

static int failed, spills = SPILLS;
static bool prints, ptxas;

static void fail(const char *what, const char *why) {
  failed++;
  fprintf(stderr, "%s: %s\n", what, why);
}

static void check_text(const char *what, const TsTile *k) {
  TsText text = {0}, why = {0};
  TsError err = {0};
  ts_tile_text(k, &text);
  TsTile *read = ts_tile_parse(text.at, &err);
  if (!read)
    fail(what, err.message);
  else if (!ts_tile_equal(k, read, &why))
    fail(what, why.at);
  if (read && ts_tile_check(read, NULL, &err)) fail(what, err.message);
  ts_tile_free(read);
  ts_text_free(&text), ts_text_free(&why);
}

static void check_code(const char *what, const TsTile *k, int meetings, const TsTarget *t) {
  TsGpuCode code = {0};
  TsError err = {0};
  if (!t || !ts_llvm_present()) return;
  if (ts_gpu_code(k, t, TS_GPU_aligned, &code, &err)) {
    fail(what, err.message);
    return;
  }
  if (prints) puts(code.image);
  int met = 0;
  for (const char *at = code.image; (at = strstr(at, "ld.acquire.sys")); at++) met++;
  if (met != meetings) fail(what, "it does not meet as often as it should");
  if (strstr(code.image, "ld.global.nc")) fail(what, "a cache keeps what others write");
  TsText ptx = {.at = code.image, .len = strlen(code.image)};
  Assembled a = {.spills = 0};
  if (ptxas) a = assemble(&ptx, t->cpu);
  if (*a.complaint) fail(what, a.complaint);
  if (a.spills > spills) fail(what, "registers are spilled");
  if (getenv("PTXAS")) printf("%s: %d registers, %d spilled\n", what, a.registers, a.spills);
  ts_gpu_code_free(&code);
}

static void check(const char *what, TsTile *k, int meetings, TsError *err) {
  static const unsigned units[] = {TS_UNIT_mma, TS_UNIT_roles};
  if (!k) {
    fail(what, err->message);
    return;
  }
  check_text(what, k);
  for (int i = 0; i < 2; i++) {
    const TsTarget *t = ts_target_with(units[i]);
    if (t) k->target = t->name, check_code(what, k, meetings, t);
  }
  ts_tile_free(k);
}

/* Summands of n devices, or of a tree of so many leaves. */
static TsSumKernel sum_of(int n, int leaves, int nout, int width, TsDtype of, TsDtype to) {
  TsSumKernel s = {.name = "sum",
                   .n = n,
                   .nout = nout,
                   .leaves = leaves,
                   .width = width,
                   .tile = TS_SUM_TILE,
                   .threads = TS_SUM_THREADS,
                   .op = TS_OP_add,
                   .of = of,
                   .to = to};
  for (int p = 0; p < n; p++) {
    int lo = p * leaves / n, hi = (p + 1) * leaves / n;
    s.nsum += ts_leaves_subtrees(leaves, lo, hi, s.level + s.nsum, s.place + s.nsum);
  }
  return s;
}

/* That the first of n devices has. */
static int leaves_of(int n, int leaves) {
  int level[TS_SUM_MOST], place[TS_SUM_MOST];
  return ts_leaves_subtrees(leaves, 0, leaves / n, level, place);
}

static void check_sums(void) {
  static const TsDtype types[][2] = {{TS_DT_f32, TS_DT_f32},   {TS_DT_f32, TS_DT_bf16},
                                     {TS_DT_bf16, TS_DT_bf16}, {TS_DT_f16, TS_DT_f16},
                                     {TS_DT_f64, TS_DT_f64},   {TS_DT_i32, TS_DT_i32},
                                     {TS_DT_i64, TS_DT_i64}};
  for (int n = 2; n <= 8; n += n < 4 ? 1 : 4)
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
      for (int shares = 0; shares < 2; shares++)
        for (int eight = 0; eight < 2; eight++) {
          char what[80];
          TsError err = {0};
          if (n > 3 && i > 1) continue;
          TsSumKernel s =
              sum_of(n, eight ? 8 : n, shares ? n : 1,
                     ts_dtypes[types[i][0]].nbytes == 8 ? 4 : 8, types[i][0], types[i][1]);
          snprintf(what, sizeof what, "%d devices, %d leaves, %s to %s, %s", n, s.leaves,
                   ts_dtype_name(s.of), ts_dtype_name(s.to), shares ? "shares" : "whole");
          check(what, ts_sum_kernel(&s, "sm_80", &err), 2, &err);
          s.pushes = true, s.nown = leaves_of(n, s.leaves), s.apart = shares;
          strcat(what, ", pushed");
          if (ts_sum_params(&s) <= TS_SUM_PARAMS && ts_sum_rounds(&s))
            check(what, ts_sum_kernel(&s, "sm_80", &err), 1 + shares, &err);
          strcat(what, " once");
          s.once = true, s.threads = 128, s.tile = s.threads * 16 / ts_dtypes[s.of].nbytes;
          if (ts_sum_params(&s) <= TS_SUM_MOST)
            check(what, ts_sum_kernel(&s, "sm_80", &err), 1 + shares, &err);
        }
}

/* Trees in which devices have several subtrees each: so many tiles do not stay in registers. */
static void check_many(void) {
  static const int list[][2] = {{8, 56}, {8, 100}, {12, 100}, {16, 16}};
  spills = INT_MAX;
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    for (int shares = 0; shares < 2; shares++) {
      int n = list[i][0];
      char what[80];
      TsError err = {0};
      TsSumKernel s =
          sum_of(n, list[i][1], shares ? n : 1, 8, TS_DT_f32, shares ? TS_DT_bf16 : TS_DT_f32);
      s.tile = TS_SUM_TILE / 2;
      snprintf(what, sizeof what, "%d devices, %d leaves, %d summands, %s", n, s.leaves, s.nsum,
               shares ? "shares" : "whole");
      check(what, ts_sum_kernel(&s, "sm_80", &err), 2, &err);
      s.pushes = true, s.nown = leaves_of(n, s.leaves), s.apart = shares;
      strcat(what, ", pushed");
      if (ts_sum_params(&s) <= TS_SUM_PARAMS && ts_sum_rounds(&s))
        check(what, ts_sum_kernel(&s, "sm_80", &err), 1 + shares, &err);
    }
  spills = SPILLS;
}

static void check_pushes(void) {
  static const struct {
    int n, nin, nout, width, across;
    TsDtype word;
  } list[] = {{2, 1, 2, 4, 1, TS_DT_i32}, {2, 2, 2, 4, 64, TS_DT_i32},
              {3, 3, 3, 1, 8, TS_DT_i32}, {4, 1, 4, 1, 1, TS_DT_u8},
              {2, 0, 0, 1, 1, TS_DT_i32}, {8, 8, 8, 4, 1024, TS_DT_i32}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    for (int way = 0; way < 3; way++) {
      char what[40];
      TsError err = {0};
      TsPushKernel p = {.n = list[i].n,
                        .nin = list[i].nin,
                        .nout = list[i].nout,
                        .width = list[i].width,
                        .across = list[i].across,
                        .word = list[i].word,
                        .tile = TS_SUM_TILE,
                        .threads = TS_SUM_THREADS,
                        .rooms = way > 0};
      if (way && p.nout) p.nfar = p.nget = p.nout - 1, p.nout = 1;
      if (way == 2) p.once = true;
      if (way == 2 && p.across < 512) p.threads = 128, p.tile = 512;
      snprintf(what, sizeof what, "push %zu, way %d", i, way);
      check(what, ts_push_kernel(&p, "sm_80", &err), way ? 1 : 2, &err);
    }
}

/* Rank 0 of two, run alone. */
static void check_alone(void) {
  TsSumKernel s = sum_of(2, 2, 1, 8, TS_DT_f32, TS_DT_f32);
  TsError err = {0};
  TsTile *k = ts_sum_kernel(&s, "sm_80", &err);
  float x[8] = {1}, y[8];
  int32_t *words = calloc((size_t)ts_flags_words(2), sizeof *words);
  void *arg[] = {x, x, words, y, words, words};
  int64_t dim[] = {1, 1, 1, 0, 1};
  if (!k || !ts_tile_run(k, arg, dim, &err) || !strstr(err.message, "the other 1 devices"))
    fail("a run alone", err.message);
  ts_tile_free(k);
  free(words);
}

int main(int argc, char **argv) {
  prints = argc > 1 && !strcmp(argv[1], "print");
  ptxas = has_ptxas();
  check_sums();
  check_many();
  check_pushes();
  check_alone();
  return failed != 0;
}
