/* See devices/driver/spirv.h. */
#include "devices/driver/spirv.h"

#include <string.h>

const TsTarget *ts_spirv_target(const TsSpirvDevice *d) {
  enum { THREADS = 1024, TOLD = 4 << 10 /* bytes by which threads without sub-groups tell */ };
  static const char *const best[] = {"pvc", "cooperative", "dg2", "tgllp"};
  for (size_t i = 0; i < sizeof best / sizeof *best && d->warps; i++) {
    const TsTarget *t = ts_target(best[i]);
    if (!t || t->single == d->f64 || (t->half && !d->half)) continue;
    if (t->matrix == TS_MATRIX_cooperative && !d->cooperative) continue;
    if (t->matrix == TS_MATRIX_dpas && d->no_dpas) continue;
    if (t->shared_bytes <= d->shared && d->threads >= (t->threads ? t->threads : THREADS))
      return t;
  }
  const TsTarget *plain = ts_target(d->cpu ? "spirv_cpu" : "spirv");
  return plain && plain->shared_bytes + TOLD <= d->shared ? plain : NULL;
}

/* Capabilities stand in front of everything else. */
bool ts_spirv_wants_f64(const void *module, size_t nbytes) {
  enum { HEAD = 5, OP_CAPABILITY = 17, FLOAT64 = 10 };
  const uint32_t *word = module;
  for (size_t i = HEAD; i + 1 < nbytes / sizeof *word; i += 2) {
    if (word[i] != (2u << 16 | OP_CAPABILITY)) return false;
    if (word[i + 1] == FLOAT64) return true;
  }
  return false;
}

/* Names stand in front of all functions. */
bool ts_spirv_wants_large(const void *module, size_t nbytes) {
  enum { HEAD = 5, OP_NAME = 5, OP_FUNCTION = 54, AT = 2 /* where the text begins */ };
  const uint32_t *word = module;
  size_t n = nbytes / sizeof *word, size, own = sizeof TS_TARGET_LARGE;
  for (size_t i = HEAD; i < n && (word[i] & 0xffff) != OP_FUNCTION; i += size) {
    size = word[i] >> 16;
    if (!size || i + size > n) return false;
    bool fits = size > AT && (size - AT) * sizeof *word >= own;
    if ((word[i] & 0xffff) == OP_NAME && fits && !memcmp(word + i + AT, TS_TARGET_LARGE, own))
      return true;
  }
  return false;
}
