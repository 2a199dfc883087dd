/* Kernels with roles whose parameters lie where the copy engine cannot read: what is copied in and
 * out, with rows apart and strides of either sign. The device is one of this file, whose launch
 * reads and writes elements one by one. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/gpu/warp_product.h"
#include "jit/compile/llvm.h"
#include "jit/device/kind.h"
#include "tests/skip.h"

enum { N = 64, ROOM = 4 * N * N, FILL = 0x5a5a, PARAMS = 3 };

static const TsTile *kernel;
static int failed, launches, blocks;

#define CHECK(x)                                                                               \
  do {                                                                                         \
    if (!(x)) printf("%s:%d: %s\n", __FILE__, __LINE__, #x), failed++;                         \
  } while (0)

/* ---- a device */
static void *fake_alloc(TsDevice *d, int64_t nbytes, TsError *err) {
  (void)d, (void)err;
  void *at = aligned_alloc(256, (size_t)(nbytes + 255) & ~(size_t)255);
  if (at) memset(at, 0x77, (size_t)nbytes), blocks++;
  return at;
}
static void fake_free(TsDevice *d, void *at, int64_t nbytes) {
  (void)d, (void)nbytes;
  free(at), blocks--;
}
static int fake_copy(TsDevice *d, void *to, TsDevice *source, const void *from, int64_t nbytes,
                     TsError *err) {
  (void)d, (void)source, (void)err;
  memcpy(to, from, (size_t)nbytes);
  return 0;
}
static int fake_module(TsDevice *d, const void *code, size_t nbytes, void **module,
                       TsError *err) {
  (void)d, (void)code, (void)nbytes, (void)err;
  *module = &launches;
  return 0;
}
static void fake_module_free(TsDevice *d, void *module) { (void)d, (void)module; }
static int fake_kernel(TsDevice *d, void *module, const char *name, int shared, void **k,
                       TsError *err) {
  (void)d, (void)module, (void)name, (void)shared, (void)err;
  *k = &launches;
  return 0;
}

static uint16_t number(int param, int64_t i) { return (uint16_t)(param * 20000 + i); }

static uint16_t *element(const TsTileType *t, uint16_t *at, int64_t i) {
  return at + i / N * t->stride[0] + i % N * t->stride[1];
}

/* Inputs have their numbers, the result gets them. */
static int fake_launch(TsDevice *d, const TsLaunch *l, TsError *err) {
  (void)d, (void)err;
  launches++;
  for (int p = 0; p < PARAMS; p++) {
    uint16_t *at = *(uint16_t **)l->args[p];
    const TsTileType *t = &kernel->param[p]->type;
    CHECK((uintptr_t)at % 16 == 0);
    int64_t wrong = 0;
    for (int64_t i = 0; i < N * N; i++)
      if (p == PARAMS - 1)
        *element(t, at, i) = number(p, i);
      else
        wrong += *element(t, at, i) != number(p, i);
    CHECK(!wrong);
  }
  return 0;
}

/* ---- a case */
static uint16_t *place(const TsTileType *t, uint16_t *room, int shift) {
  int64_t first = 0;
  for (int i = 0; i < 2; i++)
    if (t->stride[i] < 0) first -= (N - 1) * t->stride[i];
  return room + first + shift;
}

static void run(TsDevice *d, TsTile *k, const int64_t stride[PARAMS][2], int shift) {
  static _Alignas(64) uint16_t room[PARAMS][ROOM];
  TsError err = {0};
  uint8_t key[32];
  void *arg[PARAMS];
  int64_t dim[TS_TILE_DIMS] = {N, N, N, 1, 1, 1, 1, 1}, others = 0, wrong = 0;
  /* Its code is that of rows one behind the other: what is looked at is where parameters lie. */
  for (int p = 0; p < PARAMS; p++) k->param[p]->type.strided = false;
  ts_device_kernel_key(k, key);
  void *g = ts_device_roles.open(d, k, key, &err);
  for (int p = 0; p < PARAMS; p++) {
    TsTileType *t = &k->param[p]->type;
    t->strided = true;
    memcpy(t->stride, stride[p], sizeof stride[p]);
    for (int i = 0; i < ROOM; i++) room[p][i] = FILL;
    uint16_t *at = arg[p] = place(t, room[p], shift);
    for (int64_t i = 0; i < N * N && p < PARAMS - 1; i++) *element(t, at, i) = number(p, i);
  }
  kernel = k, launches = 0;
  if (!g || ts_device_roles.run(g, NULL, arg, dim, &err)) failed++, printf("%s\n", err.message);
  CHECK(launches == 1);
  const TsTileType *t = &k->param[PARAMS - 1]->type;
  uint16_t *at = arg[PARAMS - 1], *last = room[PARAMS - 1];
  for (int64_t i = 0; i < N * N; i++) {
    uint16_t *x = element(t, at, i);
    wrong += *x != number(PARAMS - 1, i);
    *x = FILL;
  }
  for (int i = 0; i < ROOM; i++) others += last[i] != FILL;
  CHECK(!wrong && !others);
  if (g) ts_device_roles.free(g);
  CHECK(!blocks);
}

static void sizes(void) {
  TsTileType t = ts_tile_type(TS_DT_bf16, 2, (int64_t[]){ts_tile_dim(0), 3});
  int64_t below, above, dim[] = {5}, none[] = {0};
  ts_tile_reach(&t, dim, &below, &above);
  CHECK(below == 0 && above == 30);
  t.strided = true, t.stride[0] = -10, t.stride[1] = 2;
  ts_tile_reach(&t, dim, &below, &above);
  CHECK(below == 80 && above == 10);
  ts_tile_reach(&t, none, &below, &above);
  CHECK(below == 0 && above == 0);
}

int main(void) {
  static const int64_t stride[][PARAMS][2] = {
      {{N, 1}, {N, 1}, {N, 1}},           {{N + 3, 1}, {1, N}, {2 * N, 1}},
      {{-N, 1}, {N, -1}, {-N, 1}},        {{-N - 5, -1}, {-1, N}, {N + 1, -1}},
      {{-2 * N, 1}, {N, 1}, {-2 * N, 1}},
  };
  const TsGpuMachine machine = {ts_target("sm_80"), 4};
  TsDeviceRun run_of = {.module_new = fake_module,
                        .module_free = fake_module_free,
                        .kernel = fake_kernel,
                        .launch = fake_launch};
  TsDevice d = {.name = "fake:0",
                .target = machine.target,
                .alloc = fake_alloc,
                .free = fake_free,
                .copy = fake_copy,
                .run = &run_of};
  TsError err = {0};
  sizes();
  if (!ts_llvm_present()) return skip("no LLVM") + failed;
  setenv("TESSERA_CACHE", "off", 1);
  TsGpuWarpProduct p = ts_gpu_warp_product(TS_DT_bf16, TS_DT_bf16, TS_GPU_UNIT_mma, false,
                                           false, 64, 64, &machine);
  TsTile *k = ts_tile_gpu_warp_product(&p, machine.target, &err);
  if (!k) return printf("%s\n", err.message), 1;
  for (size_t i = 0; i < sizeof stride / sizeof *stride; i++)
    for (int shift = 0; shift < 10; shift += 3) run(&d, k, stride[i], shift);
  ts_tile_free(k);
  if (!failed) puts("parameters at any address: ok");
  return failed != 0;
}
