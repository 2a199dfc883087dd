/* See jit/build/warm.h. */
#include "jit/build/warm.h"

#include <stdlib.h>

#include "jit/build/build.h"
#include "jit/compile/llvm.h"

/* Elements with a choice and a function; rows with a largest one and a sum. */
static const char *const usual[] = {
    "tile @warm<N>(%x: f32[N], %y: f32[N]) -> (%z: f32[N]) tile 4096 {\n"
    "  %n = dim {index=0} : i64[]\n"
    "  for %i in 0..%n step 4096 parallel {\n"
    "    %a = load %x[%i] {edge=true} : f32[4096]\n"
    "    %b = load %y[%i] {edge=true} : f32[4096]\n"
    "    %c = mul %a, %b : f32[4096]\n"
    "    %d = relu %c : f32[4096]\n"
    "    %e = sub %d, %a : f32[4096]\n"
    "    %f = exp %e : f32[4096]\n"
    "    %g = maximum %f, %b : f32[4096]\n"
    "    store %z[%i] = %g {edge=true}\n"
    "  }\n"
    "}\n",
    "tile @warm(%x: f32[512,512]) -> (%y: f32[512,512]) tile 1x512 {\n"
    "  for %i in 0..512 parallel {\n"
    "    %a = load %x[%i, 0] : f32[512]\n"
    "    %b = max %a {axis=0} : f32[]\n"
    "    %c = broadcast %b : f32[512]\n"
    "    %d = sub %a, %c : f32[512]\n"
    "    %e = sum %d {axis=0} : f32[]\n"
    "    %f = broadcast %e : f32[512]\n"
    "    %g = div %d, %f : f32[512]\n"
    "    store %y[%i, 0] = %g\n"
    "  }\n"
    "}\n"};

static int compile(const char *text, const TsTarget *t, TsError *err) {
  void *object = NULL;
  size_t n;
  TsTile *k = ts_tile_parse(text, err);
  TsTile *plain = k ? ts_build_explicit(k, t, false, err) : NULL;
  int failed = !plain || ts_llvm_object(plain, t, NULL, &object, &n, err) ? -1 : 0;
  free(object);
  ts_tile_free(plain);
  ts_tile_free(k);
  return failed;
}

int ts_warm_compile(const TsTarget *target, TsError *err) {
  int failed = 0;
  for (size_t i = 0; i < sizeof usual / sizeof *usual && !failed; i++)
    failed = compile(usual[i], target, err);
  return failed;
}

static void run(TsQueueJob *job) {
  TsError ignored = {0};
  ts_warm_compile(((TsWarm *)job)->target, &ignored);
}

void ts_warm_begin(TsWarm *w, TsQueue *queue, const TsTarget *target) {
  if (w->begun || !target || ts_queue_length(queue)) return;
  w->begun = true;
  w->target = target;
  w->job.run = run;
  ts_queue_add(queue, &w->job);
}
