/* Kernels on a GPU beside the interpreter of Tile IR, bit by bit: every pointwise row and cast,
 * written families, rows of many lengths, random kernels. Without a GPU it says so and passes.
 *
 *   device_test [part] [count] [seed]   compares; parts: families rows operators random
 *   device_test --bench [word]          speed of kernels bound by memory, beside a copy's
 */
#include "jit/gpu/gpu.h"
#include "jit/compile/llvm.h"
#include "tests/ir/tile_random.h"
#include "tests/jit/gpu/bench.h"
#include "tests/jit/gpu/families.h"
#include "tests/jit/gpu/ops.h"
#include "tests/skip.h"

static TsDevice *gpu;
static int bad, done, refused;

static void complain(const TsTile *k, const char *why) {
  TsText t = {0};
  ts_tile_text(k, &t);
  printf("FAILED %s\n%.3000s\n", why, t.at);
  ts_text_free(&t);
  bad++;
}

static void *place(int64_t nbytes, int64_t shift) {
  TsError err = {0};
  char *p = gpu->alloc(gpu, nbytes + 64, &err);
  if (!p) printf("%s\n", err.message), exit(1);
  return p + shift;
}

/* Results lie at multiples of 16 bytes, or one element behind. */
static void compare(const TsTile *k, void *const *arg, bool aligned) {
  TsError err = {0};
  void *at[64], *host[64];
  int64_t where;
  void *g = open_threads(gpu, k, &err);
  if (!g) {
    complain(k, err.message), refused++;
    return;
  }
  for (int i = 0; i < k->nparam; i++) {
    int64_t nbytes = bytes_of(&k->param[i]->type);
    int64_t shift = aligned ? 0 : ts_dtypes[k->param[i]->type.dtype].nbytes;
    at[i] = place(nbytes, shift);
    host[i] = malloc((size_t)nbytes + 1);
    memcpy(host[i], arg[i], (size_t)nbytes);
    if (i >= k->nin) memset(host[i], 0x5a, (size_t)nbytes);
    if (gpu->upload(gpu, at[i], host[i], nbytes, &err)) complain(k, err.message);
  }
  if (ts_device_threads.run(g, NULL, at, extent, &err) || gpu->synchronize(gpu, &err)) {
    complain(k, err.message);
    exit(1); /* the context is lost */
  }
  for (int i = k->nin; i < k->nparam; i++) {
    int64_t nbytes = bytes_of(&k->param[i]->type);
    if (gpu->download(gpu, host[i], at[i], nbytes, &err)) complain(k, err.message), exit(1);
    if (same(&k->param[i]->type, host[i], arg[i], &where)) continue;
    char why[160];
    int size = ts_dtypes[k->param[i]->type.dtype].nbytes;
    uint64_t x = 0, y = 0;
    memcpy(&x, (char *)host[i] + where * size, (size_t)size);
    memcpy(&y, (char *)arg[i] + where * size, (size_t)size);
    snprintf(why, sizeof why, "%s parameter %d (%s) differs at %lld: %llx, not %llx",
             aligned ? "" : "not aligned:", i, k->param[i]->name ? k->param[i]->name : "",
             (long long)where, (unsigned long long)x, (unsigned long long)y);
    complain(k, why);
    break;
  }
  for (int i = 0; i < k->nparam; i++) {
    int64_t shift = aligned ? 0 : ts_dtypes[k->param[i]->type.dtype].nbytes;
    gpu->free(gpu, (char *)at[i] - shift, bytes_of(&k->param[i]->type) + 64);
    free(host[i]);
  }
  ts_device_threads.free(g);
  done++;
}

/* After so many failures more of them tell nothing. */
static inline bool enough(void) { return bad >= 12; }

static void check(TsTile *k, bool corners, bool both) {
  TsError err = {0};
  void *arg[64];
  if (!k || enough()) return;
  make_arguments(k, arg);
  for (int i = 0; i < k->nin && corners; i++) fill_corners(&k->param[i]->type, arg[i]);
  if (ts_tile_run(k, arg, extent, &err))
    complain(k, err.message);
  else
    compare(k, arg, true);
  if (both && !enough()) compare(k, arg, false);
  for (int i = 0; i < k->nparam; i++) free(arg[i]);
}

static void check_text(const char *text, bool both) {
  TsError err = {0};
  TsTile *k = ts_tile_parse(text, &err);
  if (!k) printf("%s\n%s\n", err.message, text), bad++;
  check(k, strstr(text, "@corners") != NULL, both);
  ts_tile_free(k);
}

static void check_ops(void) {
  for (size_t i = 0; i < sizeof ops_types / sizeof *ops_types; i++) {
    TsTile *k;
    for (int op = 0; (k = ops_kernel(ops_types[i], &op)); ts_tile_free(k))
      check(k, true, false);
    check(k = cast_kernel(ops_types[i]), true, true);
    ts_tile_free(k);
  }
  static const TsDtype narrow[] = {TS_DT_f16, TS_DT_bf16, TS_DT_fp8_e4m3, TS_DT_fp8_e5m2};
  for (int i = 0; i < 4; i++) {
    TsTile *k = cast_kernel(narrow[i]);
    check(k, true, false);
    ts_tile_free(k);
  }
}

static void check_rows(void) {
  static const int length[] = {1,    2,     3,     5,     8,     17,    31,    32,   33,   64,
                               100,  127,   128,   129,   255,   256,   257,   384,  511,  768,
                               1000, 1024,  1025,  1536,  2048,  3000,  4096,  4097, 5000, 8192,
                               8200, 12288, 16384, 16392, 20000, 50304, 100001};
  for (size_t i = 0; i < sizeof length / sizeof *length; i++)
    for (int f = 0; f < BENCH_ROWS; f++) {
      if (length[i] > 16384 && f % 3) continue;
      for (int half = 0; half < 2; half++) {
        if (half && f % 2) continue;
        char text[4000];
        bench_text(text, sizeof text, f, half ? "bf16" : "f32", length[i] > 4096 ? 2 : 5,
                   length[i]);
        check_text(text, false);
      }
    }
}

static void check_families(void) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) check_text(families[i], true);
  for (size_t i = 0; i < sizeof written / sizeof *written; i++) check_text(written[i], true);
}

static void check_random(int n) {
  for (int i = 0; i < n && !enough(); i++) {
    TsTile *k = random_kernel(i);
    check(k, false, i % 4 == 0);
    ts_tile_free(k);
  }
}

static void report(const char *part) {
  printf("%s: %d compared, %d failed, %d without code\n", part, done, bad, refused);
  fflush(stdout);
}

int main(int argc, char **argv) {
  TsError err = {0};
  const char *part = argc > 1 ? argv[1] : "";
  if (!*ts_llvm_version()) return skip("no LLVM");
  for (int i = 0; i < ts_device_count(); i++)
    if (!gpu && !strcmp(ts_device_at(i)->kind, "cuda")) gpu = ts_device_at(i);
  if (!gpu) return skip("no GPU");
  if (ts_device_use(gpu, &err)) return printf("%s\n", err.message), 1;
  if (!strcmp(part, "--bench")) return bench_all(gpu, argc > 2 ? argv[2] : "");
  if (argc > 3) state = (uint64_t)atoll(argv[3]);
  if (!*part || !strcmp(part, "families")) check_families(), report("families");
  if (!*part || !strcmp(part, "rows")) check_rows(), report("rows");
  if (!*part || !strcmp(part, "operators")) check_ops(), report("operators");
  if (!*part || !strcmp(part, "random"))
    check_random(argc > 2 ? atoi(argv[2]) : 60), report("random");
  return bad > 0;
}
