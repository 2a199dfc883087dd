/* See jit/code/texts.h. */
#include "jit/code/texts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 512 };

typedef struct Kept {
  struct Kept *next, *newer; /* in its bucket; in the order in which they came */
  uint32_t hash;
  size_t nkey, n;
  char at[]; /* the key, then the text */
} Kept;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Kept *bucket[BUCKETS], *oldest, *newest;
static size_t bytes;

static Kept *find(const TsText *key, uint32_t hash) {
  for (Kept *k = bucket[hash % BUCKETS]; k; k = k->next)
    if (k->hash == hash && k->nkey == key->len && !memcmp(k->at, key->at, key->len)) return k;
  return NULL;
}

static void drop_oldest(void) {
  Kept *k = oldest, **at = &bucket[k->hash % BUCKETS];
  while (*at != k) at = &(*at)->next;
  *at = k->next;
  if (!(oldest = k->newer)) newest = NULL;
  bytes -= k->nkey + k->n;
  free(k);
}

bool ts_texts_find(const TsText *key, TsText *to) {
  uint32_t hash = ts_text_hash(key->at, key->len);
  pthread_mutex_lock(&lock);
  const Kept *k = find(key, hash);
  if (k) ts_text_add(to, k->at + k->nkey, k->n);
  pthread_mutex_unlock(&lock);
  return k != NULL;
}

void ts_texts_keep(const TsText *key, const char *text, size_t n) {
  uint32_t hash = ts_text_hash(key->at, key->len);
  Kept *k = n + key->len <= TS_TEXTS_BYTES ? malloc(sizeof *k + key->len + n) : NULL;
  if (!k) return;
  *k = (Kept){.hash = hash, .nkey = key->len, .n = n};
  memcpy(k->at, key->at, key->len);
  memcpy(k->at + key->len, text, n);
  pthread_mutex_lock(&lock);
  if (find(key, hash)) { /* another thread was as fast */
    free(k);
  } else {
    while (bytes + k->nkey + n > TS_TEXTS_BYTES) drop_oldest();
    k->next = bucket[hash % BUCKETS];
    bucket[hash % BUCKETS] = k;
    if (newest) newest->newer = k;
    newest = k;
    if (!oldest) oldest = k;
    bytes += k->nkey + n;
  }
  pthread_mutex_unlock(&lock);
}

size_t ts_texts_bytes(void) {
  pthread_mutex_lock(&lock);
  size_t n = bytes;
  pthread_mutex_unlock(&lock);
  return n;
}

void ts_texts_drop(void) {
  pthread_mutex_lock(&lock);
  while (oldest) drop_oldest();
  pthread_mutex_unlock(&lock);
}
