/* PTX of persistent programs: of a norm, a product with roles and a map, and of kernels of
 * threads alone; assembled where ptxas is found. Nothing of it goes by a cache that does not
 * see what other tasks write, and products do not wait for each other. */
#include "ir/tile/gpu/product.h"
#include "jit/compile/llvm.h"
#include "jit/gpu/persistent.h"
#include "tests/jit/gpu/ptxas.h"

static int failures;

static const char norm[] =
    "tile @norm(%x: bf16[2048], %w: bf16[2048]) -> (%y: bf16[2048]) target sm_90a {\n"
    "  %z = const : i64[]\n  %n = const {value=1} : i64[]\n"
    "  for %r in %z..%n parallel {\n"
    "    %a = load %x[%z] : bf16[2048]\n    %b = cast %a : f32[2048]\n"
    "    %v = load %w[%z] : bf16[2048]\n    %c = cast %v : f32[2048]\n"
    "    %q = mul %b, %b : f32[2048]\n    %s = sum %q {axis=0} : f32[]\n"
    "    %t = sqrt %s : f32[]\n    %u = broadcast %t : f32[2048]\n    %d = div %b, %u : "
    "f32[2048]\n"
    "    %e = mul %d, %c : f32[2048]\n    %f = cast %e : bf16[2048]\n    store %y[%z] = %f\n  "
    "}\n}\n";

static const char map[] =
    "tile @map<N>(%x: bf16[N]) -> (%y: bf16[N]) target sm_90a {\n"
    "  %n = dim {index=0} : i64[]\n  %z = const : i64[]\n"
    "  for %r in %z..%n step 1024 parallel {\n"
    "    %a = load %x[%r] {edge=true} : bf16[1024]\n    %b = cast %a : f32[1024]\n"
    "    %c = add %b, %b : f32[1024]\n    %d = cast %c : bf16[1024]\n"
    "    store %y[%r] = %d {edge=true}\n  }\n}\n";

static void tell(const void *of, const char *what) {
  printf("%s: %s\n", (const char *)of, what);
}
static void say(const char *of, const char *what) { failures++, tell(of, what); }

static void add(TsPersistent *p, const TsTile *k, const uint64_t *arg, const int64_t *dim) {
  TsPersistentPhase phase[16];
  TsError err = {0};
  uint64_t scratch[TS_PERSISTENT_SCRATCH] = {1 << 30};
  if (ts_gpu_persistent_phases(k, ts_target("sm_90a"), phase, &err) ||
      ts_persistent_add(p, k, arg, scratch, dim, phase, &err))
    say(k->name, err.message);
}

static int count(const char *text, const char *word) {
  int n = 0;
  for (; (text = strstr(text, word)); text += strlen(word)) n++;
  return n;
}

static void judge_program(const TsPersistent *p, const char *name, int parts, bool ptxas) {
  TsGpuPersistent code;
  TsError err = {0};
  TsText ptx = {0};
  if (ts_persistent_check(p, &err)) say(name, err.message);
  if (ts_gpu_persistent_text(p, ts_target("sm_90a"), &code, &ptx, &err)) {
    say(name, err.message);
  } else {
    if (strstr(ptx.at, ".nc.") || strstr(ptx.at, "global.nc"))
      say(name, "a load that sees no other task");
    if (count(ptx.at, "setmaxnreg") != (parts > 1 ? parts : 0)) say(name, "registers move");
    if (strstr(ptx.at, "griddepcontrol")) say(name, "a task waits for a launch");
    if (count(ptx.at, ".entry") != 1 || strstr(ptx.at, ".func")) say(name, "not one function");
    if (ptxas) failures += judge(&ptx, "sm_90a", 0, name, tell);
  }
  ts_text_free(&ptx);
}

static TsTile *product_of(TsError *err) {
  TsGpuProduct x = ts_gpu_product(TS_DT_bf16, TS_DT_bf16, false, true, 128, 128);
  x.cluster = 1;
  return ts_tile_gpu_product(&x, err);
}

/* norm, product, map; then norm once more over what nobody has written since. */
static void roles(bool ptxas) {
  TsError err = {0};
  TsTile *n = ts_tile_parse(norm, &err), *m = ts_tile_parse(map, &err), *k = product_of(&err);
  TsPersistent *p = ts_persistent_new();
  int64_t sizes[8] = {1, 2048, 2048, 132}, length[1] = {2048};
  if (!n || !m || !k) say("kernels", err.message);
  if (n && m && k && p) {
    enum { X = 1 << 16, W = 2 << 16, Y = 3 << 16, V = 1 << 24, Z = 4 << 16, U = 5 << 16 };
    add(p, n, (uint64_t[]){X, W, Y}, NULL);
    add(p, k, (uint64_t[]){Y, V, Z}, sizes);
    add(p, m, (uint64_t[]){Z, U}, length);
    add(p, n, (uint64_t[]){X, W, Y}, NULL);
    add(p, m, (uint64_t[]){U, X}, length);
    add(p, n, (uint64_t[]){X, W, Y}, NULL); /* X is another one now */
    if (ts_persistent_spare(p) != 1 || p->ntask != 5)
      say("spare", "not the task that was done before");
    if (ts_persistent_plan(p, 132, 132, &err)) say("plan", err.message);
    judge_program(p, "roles", 3, ptxas);
  }
  ts_persistent_free(p);
  ts_tile_free(n), ts_tile_free(m), ts_tile_free(k);
}

static void threads(bool ptxas) {
  TsError err = {0};
  TsTile *n = ts_tile_parse(norm, &err), *m = ts_tile_parse(map, &err);
  TsPersistent *p = ts_persistent_new();
  int64_t length[1] = {2048};
  if (n && m && p) {
    add(p, n, (uint64_t[]){1 << 16, 2 << 16, 3 << 16}, NULL);
    add(p, m, (uint64_t[]){3 << 16, 4 << 16}, length);
    if (ts_persistent_plan(p, 264, 264, &err)) say("plan", err.message);
    judge_program(p, "threads", 1, ptxas);
  } else {
    say("kernels", err.message);
  }
  ts_persistent_free(p);
  ts_tile_free(n), ts_tile_free(m);
}

int main(void) {
  if (!*ts_llvm_version()) return skip("no LLVM");
  bool ptxas = has_ptxas();
  roles(ptxas);
  threads(ptxas);
  return failures != 0;
}
