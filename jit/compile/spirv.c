/* See jit/compile/spirv.h. */
#include "jit/compile/spirv.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- ids that were defined */
typedef struct Seen {
  uint8_t *bit;
  size_t bound;
} Seen;

static bool once(Seen *s, uint32_t id) {
  if (!id || id >= s->bound || s->bit[id / 8] >> id % 8 & 1) return false;
  s->bit[id / 8] |= (uint8_t)(1 << id % 8);
  return true;
}

static bool begin(Seen *s, size_t bound) {
  *s = (Seen){calloc(1, bound / 8 + 1), bound};
  return s->bit != NULL;
}

/* ---- modules. Numbers of instructions are those of SPIR-V's specification. */
enum { HEAD = 5, BOUND = 3, MAGIC = 0x07230203 };

/* Which word of an instruction is its result; 0: it has none. */
static int result_of(unsigned op) {
  static const uint16_t none[] = {0,   2,   3,   4,   5,   6,   8,   10,  14,  15,
                                  16,  17,  39,  56,  62,  63,  64,  71,  72,  74,
                                  75,  224, 225, 228, 246, 247, 249, 250, 251, 252,
                                  253, 254, 255, 256, 257, 317, 330, 331, 4458};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    if (op == none[i]) return 0;
  bool untyped = op == 7 || op == 11 || (op >= 19 && op <= 38) || op == 73 || op == 248 ||
                 op == 4456; /* a type of cooperative matrices */
  return untyped ? 1 : 2;
}

int ts_spirv_sound(const void *module, size_t nbytes) {
  const uint32_t *word = module;
  size_t n = nbytes / sizeof *word, size;
  Seen seen;
  if (n < HEAD || word[0] != MAGIC) return 0;
  if (!begin(&seen, word[BOUND])) return -1;
  bool sound = true;
  for (size_t i = HEAD; i < n && sound; i += size) {
    size = word[i] >> 16;
    int at = result_of(word[i] & 0xffff);
    sound = size > (size_t)at && i + size <= n && (!at || once(&seen, word[i + at]));
  }
  free(seen.bit);
  return sound;
}

int ts_spirv_sound_text(const void *text, size_t nbytes) {
  Seen seen;
  bool sound = true;
  if (!begin(&seen, nbytes + 1)) return -1; /* an id takes more than a byte */
  for (const char *at = text, *end = at + nbytes; at && at < end && sound;) {
    const char *line = at;
    at = memchr(line, '\n', (size_t)(end - line));
    at = at ? at + 1 : end;
    char *behind;
    if (at - line < 3 || line[0] != '\t' || line[1] != '%') continue;
    unsigned long id = strtoul(line + 2, &behind, 10);
    if (!strncmp(behind, " = ", 3)) sound = once(&seen, (uint32_t)id);
  }
  free(seen.bit);
  return sound;
}
