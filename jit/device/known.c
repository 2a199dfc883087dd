/* See jit/device/known.h. An entry of the disk cache whose name is the hash of the graph's
 * text and of the device; nothing depends on it but when kernels are looked for. */
#include "jit/device/known.h"

#include <string.h>

#include "jit/code/cache.h"
#include "jit/code/sha256.h"

static bool key_of(const TsDevice *d, const TsGraph *g, uint8_t key[TS_CACHE_KEY]) {
  TsText text = {0};
  TsSha256 s;
  ts_text_format(&text, "promoted on %s %s driver %d\n", d->kind, ts_target_of(d)->name,
                 d->driver);
  ts_graph_text(g, &text);
  bool whole = !text.failed;
  ts_sha256_begin(&s);
  ts_sha256_add(&s, text.at, text.len);
  ts_sha256_end(&s, key);
  ts_text_free(&text);
  return whole;
}

/* A simulated device loads nothing. */
static bool loads(const TsDevice *d) { return d->run && d->run->launch; }

bool ts_known_has(const TsDevice *d, const TsGraph *g) {
  uint8_t key[TS_CACHE_KEY];
  return loads(d) && key_of(d, g, key) && ts_cache_has(ts_cache_usual(), key);
}

void ts_known_add(const TsDevice *d, const TsGraph *g) {
  uint8_t key[TS_CACHE_KEY];
  if (loads(d) && key_of(d, g, key) && !ts_cache_has(ts_cache_usual(), key))
    ts_cache_write(ts_cache_usual(), key, "promoted", 8);
}
