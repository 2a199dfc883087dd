/* The hash table of tokens. */
#include "text/vocab.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text/tree.h"

typedef struct TsVocabSlot {
  uint32_t hash, n;
  int32_t id;
  const char *s; /* NULL while it is empty */
} TsVocabSlot;

typedef struct TsVocabText {
  struct TsVocabText *next;
  size_t used, room;
  char at[];
} TsVocabText;

enum { TEXT = 1 << 18, SPARSE = 1 << 20 };

uint64_t ts_vocab_salt(void) {
  struct timespec now;
  void *somewhere = malloc(1);
  clock_gettime(CLOCK_MONOTONIC, &now);
  uint64_t salt = (uint64_t)now.tv_nsec * UINT64_C(0x9e3779b97f4a7c15) + (uintptr_t)somewhere;
  free(somewhere);
  return salt;
}

static uint64_t mix(uint64_t a, uint64_t b) {
  __uint128_t p = (__uint128_t)a * b;
  return (uint64_t)p ^ (uint64_t)(p >> 64);
}

uint64_t ts_vocab_hash(const char *s, size_t n, uint64_t salt) {
  const uint64_t k = UINT64_C(0xa0761d6478bd642f), m = UINT64_C(0xe7037ed1a0b428db);
  uint64_t h = salt ^ n * m, a, b = 0;
  for (; n > 16; s += 16, n -= 16) {
    memcpy(&a, s, 8);
    memcpy(&b, s + 8, 8);
    h = mix(a ^ k ^ h, b ^ m);
  }
  a = b = 0;
  if (n >= 8) {
    memcpy(&a, s, 8);
    memcpy(&b, s + n - 8, 8);
  } else if (n >= 4) {
    uint32_t lo, hi;
    memcpy(&lo, s, 4);
    memcpy(&hi, s + n - 4, 4);
    a = lo, b = hi;
  } else if (n) {
    a = (uint64_t)(unsigned char)s[0] << 16 | (uint64_t)(unsigned char)s[n / 2] << 8 |
        (unsigned char)s[n - 1];
  }
  return mix(mix(a ^ k, b ^ h), m ^ h);
}

int32_t ts_vocab_find_hashed(const TsVocab *v, const char *s, size_t n, uint64_t hash) {
  if (!v->nslot) return -1;
  uint32_t mask = v->nslot - 1, h = (uint32_t)(hash >> 32);
  for (uint32_t i = (uint32_t)hash & mask;; i = (i + 1) & mask) {
    const TsVocabSlot *at = &v->slot[i];
    if (!at->s) return -1;
    if (at->hash == h && at->n == n && !memcmp(at->s, s, n)) return at->id;
  }
}

int32_t ts_vocab_find(const TsVocab *v, const char *s, size_t n) {
  if (n > v->longest) return -1;
  return ts_vocab_find_hashed(v, s, n, ts_vocab_hash(s, n, v->salt));
}

static TsVocabSlot *slot_of(TsVocabSlot *slot, uint32_t nslot, const char *s, size_t n,
                            uint64_t hash) {
  uint32_t mask = nslot - 1, h = (uint32_t)(hash >> 32);
  for (uint32_t i = (uint32_t)hash & mask;; i = (i + 1) & mask)
    if (!slot[i].s || (slot[i].hash == h && slot[i].n == n && !memcmp(slot[i].s, s, n)))
      return &slot[i];
}

static bool grow(TsVocab *v) {
  uint32_t nslot = v->nslot ? v->nslot * 2 : 1024;
  TsVocabSlot *slot = calloc(nslot, sizeof *slot);
  if (!slot) return false;
  for (uint32_t i = 0; i < v->nslot; i++) {
    const TsVocabSlot *old = &v->slot[i];
    if (old->s)
      *slot_of(slot, nslot, old->s, old->n, ts_vocab_hash(old->s, old->n, v->salt)) = *old;
  }
  free(v->slot);
  v->slot = slot;
  v->nslot = nslot;
  return true;
}

static const char *keep(TsVocab *v, const char *s, size_t n) {
  if (!v->text || v->text->room - v->text->used < n + 1) {
    size_t room = n + 1 > TEXT ? n + 1 : TEXT;
    TsVocabText *more = malloc(sizeof *more + room);
    if (!more) return NULL;
    *more = (TsVocabText){v->text, 0, room};
    v->text = more;
  }
  char *at = v->text->at + v->text->used;
  memcpy(at, s, n);
  at[n] = 0;
  v->text->used += n + 1;
  return at;
}

static bool room_for(TsVocab *v, uint32_t id) {
  if (id < v->room) return true;
  uint32_t room = v->room ? v->room * 2 : 1024;
  if (room <= id) room = id + 1;
  TsVocabToken *at = realloc(v->at, room * sizeof *at);
  if (!at) return false;
  memset(at + v->room, 0, (room - v->room) * sizeof *at);
  v->at = at;
  v->room = room;
  return true;
}

int ts_vocab_add(TsVocab *v, const char *s, size_t n, int64_t id, TsError *err) {
  char name[64];
  if (!v->salt) v->salt = ts_vocab_salt() | 1;
  if (id < 0 || id > (int64_t)v->n * 64 + SPARSE)
    return ts_error_set(err, TS_ERR_format, "token '%s' has the id %lld, among %u tokens",
                        ts_tree_shown(s, n, name), (long long)id, v->n);
  if (v->n >= v->nslot / 2 && !grow(v)) return ts_error_memory(err);
  TsVocabSlot *at = slot_of(v->slot, v->nslot, s, n, ts_vocab_hash(s, n, v->salt));
  if (!room_for(v, (uint32_t)id)) return ts_error_memory(err);
  if (!at->s) {
    const char *own = keep(v, s, n);
    if (!own) return ts_error_memory(err);
    *at = (TsVocabSlot){(uint32_t)(ts_vocab_hash(s, n, v->salt) >> 32), (uint32_t)n, 0, own};
    v->n++;
    if (n > v->longest) v->longest = (uint32_t)n;
  } else if (v->at[at->id].s == at->s) {
    v->at[at->id] = (TsVocabToken){0};
  }
  at->id = (int32_t)id;
  v->at[id] = (TsVocabToken){at->s, at->n};
  if ((uint32_t)id >= v->end) v->end = (uint32_t)id + 1;
  return 0;
}

void ts_vocab_free(TsVocab *v) {
  for (TsVocabText *t = v->text, *next; t; t = next) {
    next = t->next;
    free(t);
  }
  free(v->slot);
  free(v->at);
  *v = (TsVocab){0};
}
