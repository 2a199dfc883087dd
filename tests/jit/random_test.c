/* Compiled kernels beside the interpreter: the kernels of tests/ir/tile_random.h, for every
 * instruction set of this machine; every bit of the results must agree. [count] [seed] */
#include "jit/compile/compile.h"
#include "jit/compile/llvm.h"
#include "tests/ir/tile_random.h"
#include "tests/skip.h"

static int complain(const TsTile *k, const char *target, const char *why) {
  TsText t = {0};
  ts_tile_text(k, &t);
  printf("%s: %s\n%.8000s\n", target, why, t.at);
  ts_text_free(&t);
  return 1;
}

static TsKernel *compiled(const TsTile *k, const TsTarget *t, TsError *err) {
  TsTile *v = ts_tile_vectorise(k, t, err), *e = v ? ts_tile_expand(v, err) : NULL;
  bool legal = e && !ts_tile_check(e, t, err);
  TsKernel *made = legal ? ts_kernel_compile(e, t, err) : NULL;
  ts_tile_free(v);
  ts_tile_free(e);
  return made;
}

/* Streaming stores ask for alignment, so results lie at several places within a vector. */
static int compare(const TsTile *k, const TsTarget *t, void *const *arg, int64_t shift) {
  TsError err = {0};
  char *block[16] = {0};
  void *got[16];
  int64_t where;
  int bad = 0;
  TsKernel *kernel = compiled(k, t, &err);
  if (!kernel) return complain(k, t->name, err.message);
  for (int i = 0; i < k->nparam; i++) {
    int64_t nbytes = bytes_of(&k->param[i]->type);
    got[i] = arg[i];
    if (i < k->nin) continue;
    block[i] = aligned_alloc(64, (size_t)((nbytes + 64 + 63) & -64));
    got[i] = block[i] + shift * ts_dtypes[k->param[i]->type.dtype].nbytes;
    memset(got[i], 0x5a, (size_t)nbytes);
  }
  if (ts_kernel_run(kernel, got, extent, &err)) bad = complain(k, t->name, err.message);
  for (int i = k->nin; i < k->nparam; i++) {
    if (!bad && !same(&k->param[i]->type, got[i], arg[i], &where)) {
      char why[100];
      snprintf(why, sizeof why, "parameter %d differs at %lld", i, (long long)where);
      bad = complain(k, t->name, why);
    }
    free(block[i]);
  }
  ts_kernel_free(kernel);
  return bad;
}

static int check(const TsTile *k) {
  static const char *const name[] = {"avx512", "avx2", "base"};
  TsError err = {0};
  void *arg[16];
  make_arguments(k, arg);
  int bad = ts_tile_run(k, arg, extent, &err) ? complain(k, "interpreter", err.message) : 0;
  for (int i = 0; i < 3 && !bad; i++) {
    const TsTarget *t = ts_jit_target(name[i]);
    if (t) bad = compare(k, t, arg, rnd(3) ? 0 : rnd(4));
  }
  for (int i = 0; i < k->nparam; i++) free(arg[i]);
  return bad;
}

int main(int argc, char **argv) {
  int bad = 0, n = argc > 1 ? atoi(argv[1]) : 48;
  TsError err = {0};
  if (argc > 2) state = (uint64_t)atoll(argv[2]);
  if (!*ts_llvm_version()) return skip("no LLVM");
  for (size_t i = 0; i < sizeof written / sizeof *written && !bad; i++) {
    TsTile *k = ts_tile_parse(written[i], &err);
    bad = !k || check(k);
    ts_tile_free(k);
  }
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
