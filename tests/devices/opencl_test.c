/* OpenCL's devices by their functions alone: memory, queues, events, programs that are none.
 * With the runtime of scripts/python.sh, or what OCL_ICD_VENDORS says. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices/device.h"
#include "jit/compile/llvm.h"
#include "jit/gpu/gpu.h"
#include "tests/skip.h"

static TsError err;
static int bad;

#define CHECK(what)                                                                            \
  do {                                                                                         \
    if (!(what)) bad = 1, printf("line %d: %s: %s\n", __LINE__, #what, err.message);           \
    ts_error_clear(&err);                                                                      \
  } while (0)

enum { N = 5000 };

static const char twice[] = "tile @twice<N>(%x: f32[N]) -> (%y: f32[N]) {\n"
                            "  %n = dim {index=0} : i64[]\n"
                            "  for %i in 0..%n step 1024 parallel {\n"
                            "    %a = load %x[%i] {edge=true} : f32[1024]\n"
                            "    %b = add %a, %a : f32[1024]\n"
                            "    store %y[%i] = %b {edge=true}\n"
                            "  }\n}\n";

static void test_memory(TsDevice *d) {
  int64_t live = d->live;
  char *here = malloc(N), *back = malloc(N);
  for (int i = 0; i < N; i++) here[i] = (char)(i * 7);
  void *a = d->alloc(d, N, &err), *b = d->alloc(d, N, &err);
  CHECK(a && b && a != b && d->live == live + 2 * N);
  CHECK(!d->upload(d, a, here, N, &err));
  CHECK(!d->copy(d, b, d, a, N, &err));
  CHECK(!d->download(d, back, b, N, &err) && !memcmp(here, back, N));
  CHECK(!d->upload(d, a, here, 0, &err));
  d->free(d, a, N);
  void *c = d->alloc(d, N - 10, &err); /* of the same class: the block that was freed */
  CHECK(c == a);
  d->run->hold(d, true);
  d->free(d, c, N - 10);
  d->trim(d);
  CHECK(d->alloc(d, N, &err) == a); /* nothing went back */
  d->run->hold(d, false);
  d->free(d, a, N), d->free(d, b, N);
  d->trim(d);
  CHECK(d->live == live);
  CHECK(!d->alloc(d, INT64_C(1) << 50, &err) && err.code == TS_ERR_memory);
  CHECK(d->live == live);
  free(here), free(back);
}

static void test_order(TsDevice *d) {
  const TsDeviceRun *r = d->run;
  void *stream = NULL, *from = NULL, *to = NULL, *none = NULL;
  double usec = -1;
  CHECK(!r->stream_new(d, &stream, &err));
  CHECK(!r->event_new(d, &from, &err) && !r->event_new(d, &to, &err) &&
        !r->event_new(d, &none, &err));
  CHECK(!r->event_record(d, from, NULL, &err));
  CHECK(!r->stream_wait(d, stream, from, &err) && !r->stream_wait(d, stream, none, &err));
  CHECK(!r->event_record(d, to, stream, &err) && !r->event_record(d, to, stream, &err));
  CHECK(!r->event_wait(d, to, &err) && !r->event_wait(d, none, &err));
  CHECK(!r->event_usec(d, from, to, &usec, &err) && usec >= 0);
  CHECK(r->event_usec(d, from, none, &usec, &err) && strstr(err.message, "without a time"));
  r->event_free(d, from), r->event_free(d, to), r->event_free(d, none);
  r->stream_free(d, stream);
  CHECK(!d->synchronize(d, &err));
}

static void test_programs(TsDevice *d) {
  uint32_t wrong[] = {0x07230203, 0x00010200, 0, 8, 0, 2u << 16 | 17, 6, 1u << 16 | 9999};
  void *module = NULL, *kernel = NULL;
  CHECK(d->run->module_new(d, "no code", 7, &module, &err) &&
        strstr(err.message, "opencl:0: clCreateProgramWithIL: CL_INVALID_VALUE (-30)"));
  CHECK(d->run->module_new(d, wrong, sizeof wrong, &module, &err) &&
        strstr(err.message, "opencl:0: cl"));
  TsTile *k = ts_tile_parse(twice, &err);
  TsGpuCode code = {0};
  CHECK(k && !ts_gpu_code(k, ts_target_of(d), TS_GPU_aligned, &code, &err));
  CHECK(!d->run->module_new(d, code.image, code.size, &module, &err));
  CHECK(d->run->kernel(d, module, "absent", 0, &kernel, &err) &&
        strstr(err.message, "clCreateKernel: CL_INVALID_KERNEL_NAME (-46)"));
  CHECK(!d->run->kernel(d, module, "phase0", 0, &kernel, &err));
  float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
  for (int i = 0; i < N; i++) x[i] = (float)i;
  void *a = d->alloc(d, N * 4, &err), *b = d->alloc(d, N * 4, &err);
  int64_t n = N;
  void *args[] = {&a, &b, &n};
  TsLaunch l = {.kernel = kernel,
                .grid = {(N + 1023) / 1024, 1, 1},
                .block = {(uint32_t)code.phase[0].threads, 1, 1},
                .args = args,
                .pointers = 2,
                .words = 1};
  uint64_t queued = d->queued;
  CHECK(!d->upload(d, a, x, N * 4, &err) && !d->run->launch(d, &l, &err));
  CHECK(d->queued == queued + 2);
  CHECK(!d->download(d, y, b, N * 4, &err));
  for (int i = 0; i < N; i++)
    if (y[i] != 2 * x[i]) bad = 1;
  /* Synchronizing waits for streams: b and a become twice the other, by turns, in one. */
  void *back[] = {&b, &a, &n}, *stream = NULL;
  enum { TURNS = 40 };
  CHECK(!d->run->stream_new(d, &stream, &err));
  l.stream = stream;
  for (int i = 0; i < TURNS; i++) {
    l.args = args;
    CHECK(!d->run->launch(d, &l, &err));
    l.args = back;
    CHECK(!d->run->launch(d, &l, &err));
  }
  CHECK(!d->synchronize(d, &err) && !d->download(d, y, a, N * 4, &err));
  for (int i = 0; i < N; i++) CHECK(y[i] == ldexpf(x[i], 2 * TURNS));
  d->run->stream_free(d, stream);
  l.stream = NULL, l.args = args;
  l.block[0] *= 2; /* the code says how many it has */
  CHECK(d->run->launch(d, &l, &err) &&
        strstr(err.message, "clEnqueueNDRangeKernel: CL_INVALID_WORK_GROUP_SIZE (-54)"));
  l.words = 2;
  args[1] = &b;
  void *more[] = {&a, &b, &n, &n};
  l.args = more;
  CHECK(d->run->launch(d, &l, &err) && strstr(err.message, "clSetKernelArg: "));
  d->free(d, a, N * 4), d->free(d, b, N * 4);
  d->run->module_free(d, module);
  ts_gpu_code_free(&code);
  ts_tile_free(k);
  free(x), free(y);
}

static void find_runtime(void) {
  char at[2048], path[2100];
  if (getenv("OCL_ICD_VENDORS") || !getcwd(at, sizeof at - 40)) return;
  strcat(at, "/build/python/opencl");
  snprintf(path, sizeof path, "%s/cpu.icd", at);
  if (!access(path, R_OK)) setenv("OCL_ICD_VENDORS", at, 1);
}

int main(void) {
  find_runtime();
  TsDevice *d = ts_device_find("opencl:0", &err);
  if (!ts_llvm_present()) return skip("no LLVM");
  if (!d) return skip(err.message);
  CHECK(!ts_device_use(d, &err));
  CHECK(d->only_named && !d->host_memory && ts_target_gpu(d->target));
  if (bad) return 1;
  test_memory(d);
  test_order(d);
  test_programs(d);
  char text[160] = "";
  d->describe(d, text, sizeof text);
  CHECK(strstr(text, "OpenCL") && strstr(text, "MiB in tensors"));
  return bad;
}
