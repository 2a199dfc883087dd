/* Many runs of a kernel in one launch: the table that the host makes and the code that reads
 * it, emulated beside the interpreter run by run, and PTX through ptxas if that is
 * installed. */
#include <stdint.h>

#include "jit/gpu/gpu.h"
#include "jit/compile/llvm.h"
#include "tests/jit/gpu/ptxas.h"

/* Rounds of a warp, of which a block does several, and of a block; a size that all share. */
static const char *const kernels[] = {
    "tile @step<N,B>(%x: f32[N], %g: bf16[N]) -> (%y: f32[N], %h: bf16[N]) {\n"
    "  %n = dim {index=0} : i64[]\n"
    "  %b = dim {index=1} : i64[]\n"
    "  %r = bitcast %b : f64[]\n"
    "  %s = cast %r : f32[]\n"
    "  for %i in 0..%n step 1024 parallel {\n"
    "    %a = load %x[%i] {edge=true} : f32[1024]\n"
    "    %c = load %g[%i] {edge=true} : bf16[1024]\n"
    "    %d = cast %c : f32[1024]\n"
    "    %t = broadcast %s : f32[1024]\n"
    "    %e = fma %d, %t, %a : f32[1024]\n"
    "    %f = cast %e : bf16[1024]\n"
    "    store %y[%i] = %e {edge=true}\n"
    "    store %h[%i] = %f {edge=true}\n"
    "  }\n}\n",
    "tile @rows<N,B>(%x: f32[N,40], %g: bf16[N,40]) -> (%y: f32[N], %h: bf16[N,40]) {\n"
    "  %n = dim {index=0} : i64[]\n"
    "  for %i in 0..%n parallel {\n"
    "    %a = load %x[%i, 0] : f32[40]\n"
    "    %c = load %g[%i, 0] : bf16[40]\n"
    "    %s = sum %a {axis=0} : f32[]\n"
    "    store %y[%i] = %s\n"
    "    store %h[%i, 0] = %c\n"
    "  }\n}\n"};

enum { RUNS = 9, PARAMS = 4, WIDE = 40 };
static const int64_t size[RUNS] = {1, 7, 1024, 3000, 5, 0, 4096, 129, 64};

static int64_t bytes_of(const TsTile *k, int param, int64_t n) {
  const TsTileType *t = &k->param[param]->type;
  return n * (t->rank > 1 ? WIDE : 1) * ts_dtypes[t->dtype].nbytes;
}

static void fill(const TsTile *k, int param, void *at, int64_t nbytes, uint32_t seed) {
  bool wide = k->param[param]->type.dtype == TS_DT_f32;
  for (int64_t i = 0; i < nbytes / (wide ? 4 : 2); i++) {
    seed = seed * 1664525 + 1013904223;
    float v = (float)(int32_t)seed * 0x1p-30f;
    uint32_t bits;
    memcpy(&bits, &v, 4);
    if (wide)
      memcpy((char *)at + 4 * i, &v, 4);
    else
      ((uint16_t *)at)[i] = (uint16_t)(bits >> 16);
  }
}

static int compare(const TsTile *k) {
  TsError err = {0};
  void *want[RUNS * PARAMS], *got[RUNS * PARAMS];
  int64_t dim[RUNS * 2];
  double b = 0.37;
  int bad = 0;
  for (int i = 0; i < RUNS; i++) {
    dim[2 * i] = size[i];
    memcpy(&dim[2 * i + 1], &b, 8);
    for (int p = 0; p < PARAMS; p++) {
      int64_t nbytes = bytes_of(k, p, size[i]);
      want[PARAMS * i + p] = calloc(1, (size_t)nbytes + 64);
      got[PARAMS * i + p] = aligned_alloc(64, (size_t)((nbytes + 127) & -64));
      fill(k, p, want[PARAMS * i + p], nbytes, (uint32_t)(i * 7 + p));
      memcpy(got[PARAMS * i + p], want[PARAMS * i + p], (size_t)nbytes);
    }
  }
  for (int i = 0; i < RUNS && !bad; i++)
    bad = ts_tile_run(k, want + PARAMS * i, dim + 2 * i, &err);
  if (!bad) bad = ts_gpu_emulate_many(k, RUNS, got, dim, &err);
  if (bad) printf("%s: %s\n", k->name, err.message);
  for (int i = 0; i < RUNS * PARAMS && !bad; i++)
    if (memcmp(want[i], got[i], (size_t)bytes_of(k, i % PARAMS, size[i / PARAMS])))
      bad = printf("%s: run %d, parameter %d differs\n", k->name, i / PARAMS, i % PARAMS);
  for (int i = 0; i < RUNS * PARAMS; i++) free(want[i]), free(got[i]);
  return bad != 0;
}

static bool ptxas;

static int assembles(const TsTile *k, const TsTarget *t) {
  TsGpuCode code;
  TsError err = {0};
  if (ts_gpu_code(k, t, TS_GPU_batch, &code, &err))
    return printf("%s: %s\n", k->name, err.message), 1;
  TsText ptx = {.at = code.image, .len = code.size};
  bool local = strstr(code.image, ".local") != NULL;
  if (local) printf("%s: uses local memory\n", k->name);
  Assembled a = {.spills = 0};
  if (ptxas) a = assemble(&ptx, t->cpu);
  if (*a.complaint) printf("%s: %s\n%s\n", k->name, a.complaint, code.image);
  int most = ts_gpu_batch_most(&code);
  ts_gpu_code_free(&code);
  return local || *a.complaint || a.spills || most < RUNS;
}

int main(void) {
  int bad = 0;
  TsError err = {0};
  if (!*ts_llvm_version()) return skip("no LLVM");
  ptxas = has_ptxas();
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels && !bad; i++) {
    TsTile *k = ts_tile_parse(kernels[i], &err);
    if (!k) return printf("%s\n", err.message), 1;
    bad = compare(k) || assembles(k, ts_target("sm_80")) || assembles(k, ts_target("sm_90a"));
    ts_tile_free(k);
  }
  return bad;
}
