/* Hash tables by text or address: open addressing, at most half full. */
#include "ir/text/map.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash_of(const char *key, int len) {
  uint64_t h = (uintptr_t)key;
  if (len != TS_KEY_ADDRESS) {
    h = 0xcbf29ce484222325u;
    for (int i = 0; i < len; i++) h = (h ^ (unsigned char)key[i]) * 0x100000001b3u;
  }
  h = (h ^ h >> 31) * 0x9e3779b97f4a7c15u;
  return (uint32_t)(h >> 32);
}

static bool is_key(const TsMapSlot *s, const char *key, int len, uint32_t hash) {
  if (s->hash != hash || s->len != len) return false;
  return len == TS_KEY_ADDRESS ? s->key == key : !memcmp(s->key, key, (size_t)len);
}

static TsMapSlot *probe(const TsTextMap *m, const char *key, int len, uint32_t hash) {
  for (size_t i = hash & (m->nslot - 1);; i = (i + 1) & (m->nslot - 1))
    if (!m->slot[i].key || is_key(&m->slot[i], key, len, hash)) return &m->slot[i];
}

TsMapSlot *ts_text_map_find(const TsTextMap *m, const void *key, int len) {
  if (!m->nslot) return NULL;
  TsMapSlot *s = probe(m, key, len, hash_of(key, len));
  return s->key ? s : NULL;
}

static bool grow(TsTextMap *m) {
  TsTextMap bigger = {.nslot = m->nslot ? m->nslot * 2 : 16, .used = m->used};
  if (m->used * 2 < m->nslot) return true;
  if (!(bigger.slot = calloc(bigger.nslot, sizeof *bigger.slot))) return false;
  for (size_t i = 0; i < m->nslot; i++) {
    const TsMapSlot *s = &m->slot[i];
    if (s->key) *probe(&bigger, s->key, s->len, s->hash) = *s;
  }
  free(m->slot);
  *m = bigger;
  return true;
}

TsMapSlot *ts_text_map_enter(TsTextMap *m, const void *key, int len) {
  if (!grow(m)) return NULL;
  uint32_t hash = hash_of(key, len);
  TsMapSlot *s = probe(m, key, len, hash);
  if (s->key) return s;
  m->used++;
  *s = (TsMapSlot){.key = key, .len = len, .hash = hash};
  return s;
}

void ts_text_map_free(TsTextMap *m) {
  free(m->slot);
  *m = (TsTextMap){0};
}
