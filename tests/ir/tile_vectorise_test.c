/* The pass from block form to explicit form: random kernels of maps, rows, columns and sums in
 * two phases, at sizes that straddle vectors, lanes and leaves. The interpreter runs both
 * forms; every bit of the outputs must agree, for each kind of vectors, and the explicit form
 * must pass the check. The first failing kernel is printed. With a path: the explicit form of
 * that kernel for each target, as text. */
#include "tests/ir/tile_random.h"

static const TsTarget targets[] = {
    {.name = "avx512", .vector_bytes = 64, .registers = 32, .fma = true},
    {.name = "avx2", .vector_bytes = 32, .registers = 16, .fma = true},
    {.name = "base", .vector_bytes = 16, .registers = 16},
};
enum { NTARGET = 3, ARENA = 1 << 22 };

static int complain(const char *what, const char *target, const TsTile *a, const TsTile *b,
                    const char *why) {
  TsText t = {0};
  printf("%s on %s: %s\n", what, target, why);
  ts_tile_text(a, &t);
  if (b) ts_tile_text(b, &t);
  printf("%.16000s\n", t.at);
  ts_text_free(&t);
  return 1;
}

static int compare(const TsTile *k, const TsTarget *target, void **arg, void **want) {
  TsError err = {0};
  char why[200];
  int64_t where;
  void *got[16];
  int bad = 0;
  TsTile *e = ts_tile_vectorise(k, target, &err);
  if (!e) return complain("refused", target->name, k, NULL, err.message);
  if (ts_tile_check(e, target, &err)) bad = complain("check", target->name, k, e, err.message);
  for (int i = 0; i < k->nparam; i++) {
    got[i] = i < k->nin ? arg[i] : malloc((size_t)bytes_of(&k->param[i]->type) + 64);
    if (i >= k->nin) memset(got[i], 0x5a, (size_t)bytes_of(&k->param[i]->type));
  }
  if (!bad && ts_tile_run(e, got, extent, &err))
    bad = complain("run", target->name, k, e, err.message);
  for (int i = k->nin; i < k->nparam; i++) {
    if (!bad && !same(&k->param[i]->type, got[i], want[i], &where)) {
      snprintf(why, sizeof why, "result %d differs at %lld: %g, want %g", i, (long long)where,
               (double)((float *)got[i])[where], (double)((float *)want[i])[where]);
      bad = complain("bits", target->name, k, e, why);
    }
    free(got[i]);
  }
  ts_tile_free(e);
  return bad;
}

static int check(const TsTile *k) {
  TsError err = {0};
  void *arg[16];
  int bad = ts_tile_check(k, NULL, &err) ? complain("made", "cpu", k, NULL, err.message) : 0;
  make_arguments(k, arg);
  if (!bad && ts_tile_run(k, arg, extent, &err))
    bad = complain("run", "block", k, NULL, err.message);
  for (int t = 0; t < NTARGET && !bad; t++) bad = compare(k, &targets[t], arg, arg);
  for (int i = 0; i < k->nparam; i++) free(arg[i]);
  return bad;
}

static int check_written(void) {
  TsError err = {0};
  int bad = 0;
  static const int64_t most[] = {0, 1, 2, 255, 256, 257, 4096, 4097};
  for (size_t i = 0; i < sizeof written / sizeof *written && !bad; i++) {
    TsTile *k = ts_tile_parse(written[i], &err);
    if (!k) return printf("%s\n", err.message), 1;
    for (size_t j = 0; j < (k->ndim ? 8 : 1) && !bad; j++) extent[0] = most[j], bad = check(k);
    ts_tile_free(k);
  }
  return bad;
}

static int show(const char *path) {
  TsError err = {0};
  char *text = calloc(1, ARENA);
  FILE *f = fopen(path, "r");
  if (!f || !text || !fread(text, 1, ARENA - 1, f)) return 1;
  TsTile *k = ts_tile_parse(text, &err);
  if (!k) return printf("%s\n", err.message), 1;
  for (int i = 0; i < NTARGET; i++) {
    TsTile *e = ts_tile_vectorise(k, &targets[i], &err);
    TsText t = {0};
    if (e) ts_tile_text(e, &t);
    printf("%s\n", e ? t.at : err.message);
    if (e && ts_tile_check(e, &targets[i], &err)) printf("check: %s\n", err.message);
    ts_tile_free(e);
  }
  return check(k);
}

int main(int argc, char **argv) {
  int bad, n = argc > 1 ? atoi(argv[1]) : 120;
  if (argc > 1 && !n) return show(argv[1]);
  if (argc > 2) state = (uint64_t)atoll(argv[2]);
  bad = check_written();
  for (int i = 0; i < n && !bad; i++) {
    uint64_t seed = state;
    TsTile *k = random_kernel(i);
    bad = !k || check(k);
    if (bad) printf("kernel %d, state %llu\n", i, (unsigned long long)seed);
    ts_tile_free(k);
  }
  if (!bad) printf("%d kernels\n", n);
  return bad;
}
