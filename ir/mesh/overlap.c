/* See ir/mesh/overlap.h. */
#include "ir/mesh/overlap.h"

#include <stddef.h>
#include <string.h>

static const struct {
  const char *kind;
  double meets, link, flops, memory;
  bool beside;
  int64_t engines;
  int spare, tiles;
} rows[] = {
#define ROW(kind, meets, link, flops, memory, beside, engines, spare, tiles)                   \
  {kind, meets, link, flops, memory, beside, engines, spare, tiles},
#include "ir/mesh/overlap.def"
#undef ROW
};

enum {
  MEETINGS = 5, /* a bucket takes as long as so many of them, which then cost little of it */
  AHEAD = 64 << 20, /* twice what is brought together at once (slots.c) */
};

/* Whoever asks for it on devices without a row wants to see what a plan would be on those that
 * have one. */
TsOverlap ts_overlap_of(const char *kind, const TsOverlapAsked *asked) {
  size_t n = sizeof rows / sizeof *rows, at = 0;
  while (at < n && strcmp(rows[at].kind, kind)) at++;
  TsOverlap o = {.on = asked->on > 0 || (!asked->on && at < n && rows[at].beside)};
  if (at == n) at = 0;
  o.meets = rows[at].meets, o.link = rows[at].link;
  o.flops = rows[at].flops, o.memory = rows[at].memory;
  o.bucket = asked->bucket ? asked->bucket : (int64_t)(MEETINGS * o.meets * o.link);
  o.ahead = asked->ahead ? asked->ahead : AHEAD;
  o.chunks = asked->chunks;
  o.engines = asked->engines ? asked->engines : rows[at].engines;
  o.spare = rows[at].spare, o.tiles = rows[at].tiles;
  o.least = asked->on > 0 ? 0 : o.meets;
  return o;
}
