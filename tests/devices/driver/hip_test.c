/* The device layer of AMD's GPUs (cases.h). Without arguments over a driver of the
 * test's own (fake_hip.c), which reads the code object of a kernel and runs what it does here;
 * with "real" on the first GPU of this machine. */
#include "devices/driver/hip_api.h"
#include "jit/compile/llvm.h"
#include "jit/gpu/gpu.h"
#include "tests/devices/driver/fake_hip.h"
#include "tests/skip.h"

#define KIND         "hip"
#define OTHER_DEVICE "hip:1"
#define FIND_CALL    "hipModuleGetFunction"
#define LAUNCH_CALL  "hipModuleLaunchKernel"
#define LOAD_CALL    "hipModuleLoadData"
#define BLOCK_TEXT   "hipModuleLaunchKernel: hipErrorInvalidValue"
#define FATAL_TEXT   "hipErrorIllegalAddress (700)"
enum { FATAL = 700, FULL = 2 };

static const char *triple, triple_name[] = "phase0", wrong_code[64] = "no ELF";
static size_t triple_nbytes;
static uint32_t triple_threads;
enum { triple_elements = 1024 };

#include "tests/devices/driver/cases.h"

static const char kernel[] = "tile @triple<N>() -> (%x: f32[N]) {\n"
                             "  %n = dim {index=0} : i64[]\n"
                             "  for %i in 0..%n step 1024 parallel {\n"
                             "    %a = load %x[%i] {edge=true} : f32[1024]\n"
                             "    %b = const {value=3} : f32[1024]\n"
                             "    %c = mul %a, %b : f32[1024]\n"
                             "    store %x[%i] = %c {edge=true}\n"
                             "  }\n}\n";

static int run(const FakeHipLaunch *l) {
  float *x = *(float **)l->arg[0];
  int64_t n = *(int64_t *)l->arg[1];
  if (l->code != triple || l->narg != 2) return 1;
  for (int64_t i = 0; i < n && i < l->grid[0] * triple_elements; i++) x[i] *= 3;
  return 0;
}

/* Targets by the processor's name: its own row, or its family's. */
static void test_names(void) {
  static const char *const name[][2] = {{"gfx942:sramecc+:xnack-", "gfx942"},
                                        {"gfx1100", "gfx1100"},
                                        {"gfx906:sramecc-:xnack-", "gfx9-generic"},
                                        {"gfx1036", "gfx10-3-generic"},
                                        {"gfx1151", "gfx11-generic"},
                                        {"gfx1201", "gfx12-generic"},
                                        {"gfx940", "gfx9-4-generic"},
                                        {"gfx908:sramecc+:xnack-", NULL},
                                        {"gfx803", NULL}};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    TsDevice d = {.name = "hip:0"};
    char text[200];
    setenv("FAKE_HIP_CODE", name[i][0], 1);
    ts_hip_device(&d);
    d.describe(&d, text, sizeof text);
    CHECK(d.target == (name[i][1] ? ts_target(name[i][1]) : NULL));
    CHECK(!name[i][1] == !!strstr(text, "no kernels: there is no code for it"));
  }
  unsetenv("FAKE_HIP_CODE");
}

/* Code of another processor is refused, with both names. */
static void test_other(TsDevice *d, const TsTile *k) {
  TsGpuCode code;
  void *module = NULL;
  CHECK(!ts_gpu_code(k, ts_target("gfx1100"), TS_GPU_loose, &code, &err));
  CHECK(d->run->module_new(d, code.image, code.size, &module, &err));
  CHECK(strstr(err.message, "hipModuleLoadData: hipErrorNoBinaryForGpu (209)"));
  CHECK(strstr(err.hint, "gfx942"));
  ts_gpu_code_free(&code);
}

/* What a program must not do is found by the driver of the test: else nothing would be known by
 * its silence. */
static void test_misuse(TsDevice *d) {
  enum { NBYTES = 4 << 20 };
  const TsDeviceRun *r = d->run;
  TsDevice *other = ts_device_find("hip:1", &err);
  int64_t n = NBYTES / 4;
  void *module = NULL, *function = NULL, *stream = NULL, *gone = d->alloc(d, NBYTES, &err);
  void *at = d->alloc(d, NBYTES, &err), *there = other->alloc(other, NBYTES, &err);
  CHECK(!r->module_new(d, triple, triple_nbytes, &module, &err));
  CHECK(!r->kernel(d, module, triple_name, 0, &function, &err));
  CHECK(!r->stream_new(d, &stream, &err));
  d->free(d, gone, NBYTES);
  d->trim(d);
  TsLaunch l = {.kernel = function,
                .stream = stream,
                .grid = {(uint32_t)(n / triple_elements), 1, 1},
                .block = {triple_threads, 1, 1},
                .args = (void *[]){&gone, &n}};
  CHECK(r->launch(d, &l, &err) && strstr(fake_complaint(), "an address of no block"));
  l.args = (void *[]){&there, &n};
  CHECK(r->launch(d, &l, &err) && strstr(fake_complaint(), "is not open to this one"));
  CHECK(d->reach(d, other) && !r->launch(d, &l, &err));
  l.args = (void *[]){&at, &n};
  l.shared = 65 << 10;
  CHECK(r->launch(d, &l, &err) && strstr(fake_complaint(), "bytes of a block"));
  l.shared = 0;
  r->stream_free(d, stream);
  CHECK(r->launch(d, &l, &err) && strstr(fake_complaint(), "no stream that lives"));
  l.stream = NULL;
  CHECK(!r->launch(d, &l, &err));
  r->module_free(d, module);
  CHECK(r->launch(d, &l, &err) && strstr(fake_complaint(), "no kernel that lives"));
  d->free(d, at, NBYTES);
  other->free(other, there, NBYTES);
  no_complaint();
}

int main(int argc, char **argv) {
  static const char *const opens[] = {"hipSetDevice", "hipStreamCreateWithFlags",
                                      "hipEventCreateWithFlags"};
  bool real = argc > 1 && !strcmp(argv[1], "real");
  TsGpuCode code;
  if (!ts_llvm_present()) return skip("no LLVM");
  if (!real) setenv("TESSERA_LIBHIP", "self", 1);
  if (!real) CHECK(!ts_hip_load());
  if (!real) test_names();
  TsDevice *d = ts_device_find("hip:0", &err);
  if (!d) {
    if (real) return skip(err.message);
    return printf("hip: %s\n", err.message), 1;
  }
  TsTile *k = ts_tile_parse(kernel, &err);
  if (!k || ts_gpu_code(k, ts_target_of(d), TS_GPU_loose, &code, &err))
    return printf("hip: %s\n", err.message), 1;
  triple = code.image, triple_nbytes = code.size;
  triple_threads = (uint32_t)code.phase[0].threads;
  fake_hip_run(run);
  if (!real) test_open(d, 3, opens);
  test_target(d, "gfx1100", "sm_80");
  if (!real) test_other(d, k);
  test_all(d, real);
  if (!real) test_misuse(d);
  ts_gpu_code_free(&code);
  ts_tile_free(k);
  return failures != 0;
}
