/* The table of words: each has one of two places by its hash, where the older one makes
 * room. Bytes and tokens lie in one room; when it is full all is forgotten, which bounds the
 * memory. */
#include "text/words.h"

#include <stdlib.h>
#include <string.h>

enum { SETS = 1 << 15, ROOM = 8 << 20, LONGEST = 255, MOST = 64 };

typedef struct Word {
  uint32_t hash, at; /* the upper half of the hash; where its tokens lie, then its bytes */
  uint8_t n, nt;     /* n 0: nothing here */
} Word;

struct TsWords {
  Word set[SETS][2];
  uint32_t used; /* of the room, in units of 4 bytes */
  uint32_t room[ROOM / 4];
};

TsWords *ts_words_new(void) {
  /* Pages that are not touched cost nothing. */
  return calloc(1, sizeof(TsWords));
}

void ts_words_free(TsWords *w) { free(w); }

int ts_words_find(const TsWords *w, uint64_t hash, const char *s, uint32_t n, TsTokens *to,
                  TsError *err) {
  if (n > LONGEST) return 0;
  const Word *set = w->set[hash % SETS];
  for (int i = 0; i < 2; i++) {
    const Word *k = &set[i];
    if (k->hash != (uint32_t)(hash >> 32) || k->n != n) continue;
    const uint32_t *at = w->room + k->at;
    if (memcmp(at + (size_t)k->nt * 3, s, n)) continue;
    if (to->room - to->n < k->nt) {
      for (uint32_t t = 0; t < k->nt; t++)
        if (ts_tokens_add(to, (int32_t)at[t * 3], at[t * 3 + 1], at[t * 3 + 2], err)) return -1;
      return 1;
    }
    if (k->nt) memcpy(to->at + to->n, at, (size_t)k->nt * sizeof(TsToken));
    to->n += k->nt;
    return 1;
  }
  return 0;
}

void ts_words_keep(TsWords *w, uint64_t hash, const char *s, uint32_t n, const TsToken *t,
                   uint32_t nt) {
  if (n > LONGEST || nt > MOST || !n) return;
  uint32_t need = nt * 3 + (n + 3) / 4;
  if (need > ROOM / 4 - w->used) {
    memset(w->set, 0, sizeof w->set);
    w->used = 0;
  }
  Word *set = w->set[hash % SETS];
  set[1] = set[0];
  set[0] = (Word){(uint32_t)(hash >> 32), w->used, (uint8_t)n, (uint8_t)nt};
  if (nt) memcpy(w->room + w->used, t, nt * sizeof *t);
  memcpy(w->room + w->used + nt * 3, s, n);
  w->used += need;
}
