/* Made-up operands of kernels that are measured: see jit/tune/state.h. */
#include <stdio.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "jit/tune/state.h"

void ts_tune_fill(TsDtype d, char *at, int64_t nbytes) {
  uint64_t x = 88172645463325252ull;
  int each = ts_dtypes[d].nbytes;
  for (int64_t i = 0; i + each <= nbytes; i += each) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    uint64_t v = (x >> 20) % 7 + 1, sign = x >> 63;
    if (d == TS_DT_f32) v = 0x3f000000u | (x >> 41 & 0x7fffff) | sign << 31;
    if (d == TS_DT_f64) v = 0x3fe0000000000000ull | (x >> 12 & 0xfffffffffffffull) | sign << 63;
    if (d == TS_DT_f16) v = 0x3800u | (x >> 30 & 0x3ff) | sign << 15;
    if (d == TS_DT_bf16) v = 0x3f00u | (x >> 30 & 0x7f) | sign << 15;
    if (d == TS_DT_bool) v = sign;
    memcpy(at + i, &v, (size_t)each);
  }
}

const char *ts_tune_untried(const char *otherwise) {
  return ts_cpu_interrupted() ? "not measured: interrupted" : otherwise;
}

void ts_tune_say(char *why, size_t room, const char *what, const char *message) {
  int n = (int)strcspn(message, "\n");
  snprintf(why, room, "%s%s%.*s", what, n ? ": " : "", n, message);
}
