/* Kernels that are opened on a device, several at a time: memory that runs out there is told, whichever
 * allocation it is, and never swallowed. */
#include <stdbool.h>
#include <stdio.h>

#include "devices/device.h"
#include "devices/memory.h"
#include "ir/tile/text.h"
#include "jit/build/device.h"

static int failed, told;
#define CHECK(x)                                                                               \
  ((x) ? (void)0 : (void)(failed++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

static TsTile *kernel(void) {
  TsError err = {0};
  TsTile *k = ts_tile_parse("tile @k<M>(%x: f32[M]) -> (%y: f32[M]) {\n"
                            "  %M = dim {index=0} : i64[]\n"
                            "  for %r in 0..%M parallel {\n"
                            "    %a = load %x[%r] : f32[]\n"
                            "    store %y[%r] = %a\n"
                            "  }\n"
                            "}\n",
                            &err);
  if (!k) printf("%s\n", err.message), failed++;
  return k;
}

/* True: an allocation failed. */
static bool once(TsDevice *d, const TsTile *k, int n) {
  TsError err = {0};
  const TsTile *both[2] = {k, NULL};
  ts_memory_fail_after(n, false);
  TsDeviceSet *s = ts_device_set(d, 2, both, &err);
  int bad = !s || ts_device_set_open(s, &err);
  bool came = ts_memory_fail_after(0, false) < 0;
  CHECK(!bad || err.code == TS_ERR_memory);
  CHECK(bad || !err.code);
  CHECK(!bad || came);
  told += bad;
  ts_device_set_free(s);
  return came;
}

int main(void) {
  TsError err = {0};
  TsDevice *d = ts_device_find("sim:0", &err);
  TsTile *k = kernel();
  int n = 1;
  if (!d || !k) return printf("%s\n", err.message), 1;
  while (n < 100 && once(d, k, n)) n++;
  CHECK(n > 2 && n < 100);
  CHECK(told >= n / 2); /* some can be done without: a kernel's name, what is kept for later */
  ts_tile_free(k);
  if (!failed) printf("sets of kernels: fine\n");
  return failed != 0;
}
