/* Kernels of a GPU where there is none: the code of a thread emulated on the host beside the
 * interpreter of Tile IR, bit by bit, and PTX through ptxas if that is installed.
 * [count] [seed] */
#include "jit/gpu/gpu.h"
#include "jit/compile/llvm.h"
#include "jit/device/stand_in.h"
#include "tests/ir/tile_random.h"
#include "tests/jit/gpu/bench.h"
#include "tests/jit/gpu/families.h"
#include "tests/jit/gpu/ops.h"
#include "tests/jit/gpu/ptxas.h"

static int complain(const TsTile *k, const char *what, const char *why) {
  TsText t = {0};
  ts_tile_text(k, &t);
  printf("%s: %s\n%.8000s\n", what, why, t.at);
  ts_text_free(&t);
  return 1;
}

/* Results lie at multiples of 16 bytes, or not. */
static int compare(const TsTile *k, void *const *arg, bool aligned) {
  TsError err = {0};
  char *block[32] = {0};
  void *got[32];
  int64_t where;
  for (int i = 0; i < k->nparam; i++) {
    int64_t nbytes = bytes_of(&k->param[i]->type);
    block[i] = aligned_alloc(64, (size_t)((nbytes + 64 + 63) & -64));
    got[i] = block[i] + (aligned ? 0 : ts_dtypes[k->param[i]->type.dtype].nbytes);
    if (i < k->nin)
      memcpy(got[i], arg[i], (size_t)nbytes);
    else
      memset(got[i], 0x5a, (size_t)nbytes);
  }
  int bad =
      ts_gpu_emulate(k, aligned, got, extent, &err) ? complain(k, "emulated", err.message) : 0;
  for (int i = k->nin; i < k->nparam && !bad; i++) {
    if (same(&k->param[i]->type, got[i], arg[i], &where)) continue;
    char why[100];
    snprintf(why, sizeof why, "parameter %d differs at %lld", i, (long long)where);
    bad = complain(k, aligned ? "emulated" : "emulated, not aligned", why);
  }
  for (int i = 0; i < k->nparam; i++) free(block[i]);
  return bad;
}

static bool have_ptxas;

/* ---- the order of launches, in the text of PTX */
enum { MOST_LINES = 20000 };
typedef struct Lines {
  const char *at[MOST_LINES];
  bool seen[MOST_LINES];
  int n;
} Lines;

static bool has(const char *line, const char *word) {
  const char *at = strstr(line, word), *end = strchr(line, '\n');
  return at && (!end || at < end);
}

static int line_of(const Lines *l, const char *label) {
  size_t n = strcspn(label, ";\n");
  for (int i = 0; i < l->n; i++)
    if (!strncmp(l->at[i], label, n) && l->at[i][n] == ':') return i;
  return l->n;
}

/* Whether some way from line i on comes to a write before it has waited. */
static bool writes_at_once(Lines *l, int i) {
  for (; i < l->n && !l->seen[i]; i++) {
    const char *line = l->at[i], *jump = has(line, "bra") ? strstr(line, "$L") : NULL;
    l->seen[i] = true;
    if (has(line, "griddepcontrol.wait") || has(line, "ret;")) return false;
    if (has(line, "st.global") || has(line, "\tred.global") || has(line, "atom.global"))
      return true;
    if (jump && writes_at_once(l, line_of(l, jump))) return true;
    if (jump && !has(line, "@")) return false;
  }
  return false;
}

/* On sm_90 the launch before may still run: each entry waits for it, before it writes. */
static bool waits_to_write(const char *ptx) {
  static Lines l;
  for (const char *at = strstr(ptx, ".entry "); at;) {
    const char *next = strstr(at + 1, ".entry "), *end = next ? next : at + strlen(at);
    bool waits = false;
    memset(&l, 0, sizeof l);
    for (; at && at < end && l.n < MOST_LINES;
         at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
      l.at[l.n++] = at, waits |= has(at, "griddepcontrol.wait");
    if (!waits || writes_at_once(&l, 0)) return false;
    at = next;
  }
  return true;
}

/* PTX is legal, and keeps what is in registers there. */
static int illegal(const TsTile *k, const char *target, bool local) {
  const TsTarget *t = ts_target(target);
  TsGpuCode code;
  TsError err = {0};
  if (ts_gpu_code(k, t, TS_GPU_aligned, &code, &err)) return complain(k, t->cpu, err.message);
  int bad = 0;
  if (!local && strstr(code.image, ".local")) bad = complain(k, t->cpu, "uses local memory");
  if (ts_target_has(t, TS_UNIT_early) && !waits_to_write(code.image))
    bad = complain(k, t->cpu, "writes before the launch in front of it is over");
  if (!bad && have_ptxas) {
    Assembled a = assemble(&(TsText){.at = code.image, .len = code.size}, t->cpu);
    if (*a.complaint) bad = complain(k, t->cpu, a.complaint), printf("%s\n", code.image);
  }
  ts_gpu_code_free(&code);
  return bad;
}

static int check(const TsTile *k, bool corners, bool ptx) {
  TsError err = {0};
  void *arg[32];
  make_arguments(k, arg);
  for (int i = 0; i < k->nin && corners; i++) fill_corners(&k->param[i]->type, arg[i]);
  int bad = ts_tile_run(k, arg, extent, &err) ? complain(k, "interpreter", err.message) : 0;
  if (!bad) bad = compare(k, arg, true) || compare(k, arg, false);
  if (!bad && ptx) bad = illegal(k, "sm_80", true) || illegal(k, "sm_90a", true);
  for (int i = 0; i < k->nparam; i++) free(arg[i]);
  return bad;
}

static int texts(const char *const *list, size_t n) {
  TsError err = {0};
  int bad = 0;
  for (size_t i = 0; i < n && !bad; i++) {
    TsTile *k = ts_tile_parse(list[i], &err);
    if (!k) return printf("%s\n%s\n", err.message, list[i]), 1;
    bad = check(k, strstr(list[i], "@corners") != NULL, true);
    ts_tile_free(k);
  }
  return bad;
}

/* All rows and casts. */
static int operators(void) {
  static const TsDtype narrow[] = {TS_DT_f16, TS_DT_bf16, TS_DT_fp8_e4m3, TS_DT_fp8_e5m2};
  int bad = 0;
  TsTile *k;
  for (size_t i = 0; i < sizeof ops_types / sizeof *ops_types; i++) {
    for (int op = 0; !bad && (k = ops_kernel(ops_types[i], &op)); ts_tile_free(k))
      bad = check(k, true, true);
    if (!bad) bad = check(k = cast_kernel(ops_types[i]), true, true), ts_tile_free(k);
  }
  for (int i = 0; i < 4 && !bad; i++)
    bad = check(k = cast_kernel(narrow[i]), true, true), ts_tile_free(k);
  return bad;
}

/* Lengths around those where the form of a row changes; of these and the families each `share`-th. */
static int rows(size_t share) {
  static const int length[] = {1, 3, 31, 64, 129, 256, 1000, 1024, 4097, 8192, 12288, 20000};
  int bad = 0;
  char text[4000];
  for (size_t i = 0; i < sizeof length / sizeof *length && !bad; i++)
    for (int f = 0; f < BENCH_ROWS && !bad; f++) {
      if ((i + (size_t)f) % share) continue;
      bench_text(text, sizeof text, f, (i + (size_t)f) % 3 ? "f32" : "bf16", 2, length[i]);
      bad = texts((const char *const[]){text}, 1);
    }
  for (int f = BENCH_ROWS; f < BENCH && !bad; f++) {
    bench_text(text, sizeof text, f, f % 2 ? "f32" : "bf16", 200, 130);
    bad = texts((const char *const[]){text}, 1);
  }
  return bad;
}

/* 1 / x has a branch unless bounds of x are known. */
static int bounded(void) {
  static const char text[] = "tile @bounded<N>(%x: f32[N], %y: f32[N]) -> (%z: f32[N]) {\n"
                             "  %n = dim {index=0} : i64[]\n"
                             "  for %i in 0..%n step 256 parallel {\n"
                             "    %a = load %x[%i] {edge=true} : f32[256]\n"
                             "    %b = load %y[%i] {edge=true} : f32[256]\n"
                             "    %c = gelu_erf %a : f32[256]\n"
                             "    %d = sigmoid %b : f32[256]\n"
                             "    %e = add %c, %d : f32[256]\n"
                             "    store %z[%i] = %e {edge=true}\n"
                             "  }\n}\n";
  TsError err = {0};
  TsGpuCode code;
  TsTile *k = ts_tile_parse(text, &err);
  if (!k) return printf("%s\n%s\n", err.message, text), 1;
  int bad = ts_gpu_code(k, ts_target("sm_90a"), TS_GPU_aligned, &code, &err)
                ? complain(k, "bounded", err.message)
                : 0;
  if (!bad && (strstr(code.image, "rcp.rn") || strstr(code.image, "div.rn")))
    bad = complain(k, "bounded", "divides by the way for all numbers");
  if (!bad) ts_gpu_code_free(&code);
  ts_tile_free(k);
  return bad;
}

/* Random kernels may hold what has no code yet: that is said, and nothing else. */
static bool refused(const TsTile *k) {
  TsGpuCode code;
  TsError err = {0};
  if (ts_gpu_code(k, ts_target("sm_90a"), TS_GPU_aligned, &code, &err))
    return strstr(err.message, "pairs of more than one row") != NULL;
  ts_gpu_code_free(&code);
  return false;
}

/* Functions of the device, which nothing but the device has. */
static int functions(void) {
  static const char *const word[] = {"ex2.approx.ftz.f32", "rcp.approx.ftz.f32",
                                     "lg2.approx.ftz.f32"};
  TsError err = {0};
  TsGpuCode code;
  TsTile *k = ts_stand_in_functions();
  int bad = !k || ts_tile_check(k, NULL, &err) || illegal(k, "sm_90a", false);
  if (!bad && !ts_gpu_code(k, ts_target("sm_90a"), TS_GPU_aligned, &code, &err)) {
    for (int i = 0; i < 3; i++)
      if (!strstr(code.image, word[i])) bad = complain(k, word[i], "is not there");
    ts_gpu_code_free(&code);
  }
  ts_tile_free(k);
  return bad;
}

int main(int argc, char **argv) {
  int without = 0, n = argc > 1 ? atoi(argv[1]) : 24;
  if (argc > 2) state = (uint64_t)atoll(argv[2]);
  if (!*ts_llvm_version()) return skip("no LLVM");
  have_ptxas = has_ptxas();
  int bad = texts(families, sizeof families / sizeof *families) ||
            texts(written, sizeof written / sizeof *written) || rows(n < 24 ? 4 : 1) || operators() ||
            bounded() || functions();
  for (int i = 0; i < n && !bad; i++) {
    uint64_t seed = state;
    TsTile *k = random_kernel(i);
    bool has = k && !refused(k);
    without += !has;
    bad = !k || (has && check(k, false, i < 6));
    if (bad) printf("kernel %d, state %llu\n", i, (unsigned long long)seed);
    ts_tile_free(k);
  }
  if (!bad) printf("%d kernels, %d without code\n", n, without);
  return bad || without > n / 4 + 1;
}
