/* The device layer of NVIDIA's GPUs (cases.h). Without arguments over a driver of the
 * test's own (fake_cuda.c); with "real" on the first GPU of this machine, where bandwidths are
 * printed. */
#include "devices/driver/cuda_api.h"
#include "tests/skip.h"

#define KIND         "cuda"
#define OTHER_DEVICE "cuda:1"
#define FIND_CALL    "cuLibraryGetKernel"
#define LAUNCH_CALL  "cuLaunchKernelEx"
#define LOAD_CALL    "cuLibraryLoadData"
#define BLOCK_TEXT   "cuLaunchKernelEx: CUDA_ERROR_INVALID"
#define FATAL_TEXT   "ILLEGAL_ADDRESS (700)"
enum { FATAL = 700, FULL = 2 };

static const char wrong_code[] = ".version 7.0\n.target sm_80\n.address_size 64\n.bad\n";
static const char triple[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry triple(.param .u64 p, .param .u32 q) {\n"
    ".reg .pred c; .reg .f32 f; .reg .b32 i, n, t, w; .reg .b64 a, o;\n"
    "ld.param.u64 a, [p]; ld.param.u32 n, [q]; cvta.to.global.u64 a, a;\n"
    "mov.u32 i, %ctaid.x; mov.u32 w, %ntid.x; mov.u32 t, %tid.x; mad.lo.s32 i, i, w, t;\n"
    "setp.ge.s32 c, i, n; @c ret;\n"
    "mul.wide.s32 o, i, 4; add.s64 a, a, o;\n"
    "ld.global.f32 f, [a]; mul.f32 f, f, 0f40400000; st.global.f32 [a], f; ret; }\n";
static const size_t triple_nbytes = sizeof triple;
static const char triple_name[] = "triple";
enum { triple_elements = 256, triple_threads = 256 };

#include "tests/devices/driver/cases.h"

int main(int argc, char **argv) {
  static const char *const opens[] = {"cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
                                      "cuStreamCreate", "cuEventCreate"};
  bool real = argc > 1 && !strcmp(argv[1], "real");
  if (!real) setenv("TESSERA_LIBCUDA", "self", 1);
  TsDevice *d = ts_device_find("cuda:0", &err);
  if (!d) {
    if (real) return skip(err.message);
    return printf("cuda: %s\n", err.message), 1;
  }
  if (!real) test_open(d, 4, opens);
  test_target(d, "sm_80", "gfx942");
  test_all(d, real);
  return failures != 0;
}
