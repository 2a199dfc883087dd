/* See jit/code/patches.h. On disk a patch is an entry of text beside the code:
 *
 *   tessera patch 1
 *   key 5f0c..
 *   level tile
 *   was 12.1 us
 *   now 10.2 us
 *   kernel mul add gelu
 *   version 0.1
 *   text 812
 *   tile @f(..
 *   hash 9a..
 *
 * Whatever is not exactly so is none. That there are patches in a folder says an entry of its own,
 * so that programs without any ask once. */
#include "jit/code/patches.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/code/cache.h"
#include "jit/code/kernel.h"
#include "jit/code/sha256.h"
#include "lib/text.h"

typedef struct Known {
  uint8_t key[32];
  bool there;   /* false: the disk has none */
  bool damaged; /* it has one that is not whole */
  TsPatchEntry e;
} Known;

static struct {
  pthread_mutex_t lock;
  Known *known;
  int n, cap;
  bool looked, on_disk; /* whether the folder was asked, and has patches */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- keys */
static void hash_of(const char *text, size_t n, uint8_t hash[32]) {
  TsSha256 s;
  ts_sha256_begin(&s);
  ts_sha256_add(&s, text, n);
  ts_sha256_end(&s, hash);
}

static void marker(uint8_t key[32]) {
  static const char name[] = "tessera patches are here";
  hash_of(name, sizeof name, key);
}

void ts_patches_key(const TsTile *usual, const int64_t *dim, const TsTarget *t, int threads,
                    uint8_t key[32]) {
  TsText salt = {0};
  ts_text_format(&salt, "patch 1 threads %d", ts_target_gpu(t) ? 0 : threads);
  for (int i = 0; i < usual->ndim; i++) ts_text_format(&salt, " %lld", (long long)dim[i]);
  ts_kernel_key(usual, t, salt.at ? salt.at : "", key);
  ts_text_free(&salt);
}

/* ---- the disk */
static void hex(const uint8_t *bytes, char text[65]) {
  for (int i = 0; i < 32; i++) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

/* The text of an entry that is whole, for free(). */
static bool parse(const char *at, size_t n, const uint8_t *key, TsPatchEntry *e) {
  char want[65], got[65], level[16];
  uint8_t hash[32];
  int head = 0, size = 0;
  hex(key, want);
  if (sscanf(at, "tessera patch 1\nkey %64[0-9a-f]\nlevel %15[a-z]\nwas %lf us\nnow %lf us\n",
             got, level, &e->was_usec, &e->usec) != 4)
    return false;
  const char *text = strstr(at, "\ntext ");
  if (strcmp(got, want) || !text || sscanf(text, "\ntext %d\n%n", &size, &head) != 1 || !head)
    return false;
  size_t body = (size_t)(text - at) + strlen("\ntext ");
  while (body < n && at[body] != '\n') body++;
  body++;
  if (size < 0 || body + (size_t)size + 1 + 5 + 64 + 1 != n) return false;
  hash_of(at, body + (size_t)size + 1, hash);
  hex(hash, want);
  const char *end = at + body + size + 1;
  if (memcmp(end, "hash ", 5) || memcmp(end + 5, want, 64)) return false;
  e->schedule = !strcmp(level, "schedule");
  e->on_disk = true;
  return (e->text = strndup(at + body, (size_t)size)) != NULL;
}

static const char taken_back[] = "none\n";

static void read_disk(Known *k) {
  size_t n;
  char *text = ts_cache_read_text(ts_cache_usual(), k->key, &n);
  k->there = text && strlen(text) == n && parse(text, n, k->key, &k->e);
  k->damaged = text && !k->there && strcmp(text, taken_back);
  free(text);
}

/* NULL, or why it is not there now. */
static const char *write_disk(const uint8_t *key, const TsPatchEntry *e, const char *what) {
  TsText t = {0};
  char name[65];
  uint8_t hash[32], mark[32];
  hex(key, name);
  ts_text_format(&t, "tessera patch 1\nkey %s\nlevel %s\nwas %.4g us\nnow %.4g us\n", name,
                 e->schedule ? "schedule" : "tile", e->was_usec, e->usec);
  ts_text_format(&t, "kernel %.*s\nversion %s\ntext %zu\n", (int)strcspn(what, "\n"), what,
                 TS_VERSION, strlen(e->text));
  ts_text_str(&t, e->text);
  ts_text_char(&t, '\n');
  if (!t.failed) {
    hash_of(t.at, t.len, hash);
    hex(hash, name);
    ts_text_format(&t, "hash %s\n", name);
  }
  const char *why = "out of memory";
  if (!t.failed) {
    marker(mark);
    why = ts_cache_write_text(ts_cache_usual(), key, t.at, t.len);
    if (!why) why = ts_cache_write_text(ts_cache_usual(), mark, "tessera patches\n", 16);
  }
  ts_text_free(&t);
  return why;
}

/* ---- the table */
static Known *find(const uint8_t *key) {
  for (int i = 0; i < all.n; i++)
    if (!memcmp(all.known[i].key, key, 32)) return &all.known[i];
  return NULL;
}

static Known *enter(const uint8_t *key) {
  Known *k = find(key);
  if (k) return k;
  if (all.n == all.cap) {
    int cap = all.cap ? 2 * all.cap : 16;
    Known *more = realloc(all.known, sizeof *more * (size_t)cap);
    if (!more) return NULL;
    all.known = more, all.cap = cap;
  }
  k = &all.known[all.n++];
  *k = (Known){.there = false};
  memcpy(k->key, key, 32);
  return k;
}

static void forget(Known *k) {
  free((char *)(uintptr_t)k->e.text);
  k->there = k->damaged = false, k->e = (TsPatchEntry){.text = NULL};
}

static bool on_disk(void) {
  uint8_t mark[32];
  size_t n;
  if (all.looked) return all.on_disk;
  marker(mark);
  char *text = ts_cache_read_text(ts_cache_usual(), mark, &n);
  all.looked = true;
  all.on_disk = text != NULL;
  free(text);
  return all.on_disk;
}

bool ts_patches_any(void) {
  pthread_mutex_lock(&all.lock);
  bool any = on_disk() || all.n;
  pthread_mutex_unlock(&all.lock);
  return any;
}

bool ts_patches_find(const uint8_t key[32], TsPatchEntry *e) {
  pthread_mutex_lock(&all.lock);
  Known *k = find(key);
  if (!k && on_disk() && (k = enter(key))) read_disk(k);
  bool there = k && k->there;
  if (there) {
    *e = k->e;
    there = (e->text = strdup(k->e.text)) != NULL;
  }
  pthread_mutex_unlock(&all.lock);
  return there;
}

bool ts_patches_damaged(const uint8_t key[32]) {
  pthread_mutex_lock(&all.lock);
  Known *k = find(key);
  bool damaged = k && k->damaged;
  pthread_mutex_unlock(&all.lock);
  return damaged;
}

int ts_patches_keep(const uint8_t key[32], const TsPatchEntry *e, const char *what,
                    TsError *err) {
  const char *why = NULL;
  char *text = strdup(e->text);
  pthread_mutex_lock(&all.lock);
  Known *k = text ? enter(key) : NULL;
  if (k) {
    forget(k);
    k->there = true, k->e = *e, k->e.text = text;
    if (e->on_disk) {
      why = write_disk(key, e, what);
      k->e.on_disk = !why;
      all.on_disk = all.on_disk || !why;
    }
  } else {
    free(text);
  }
  pthread_mutex_unlock(&all.lock);
  if (!k) return ts_error_memory(err);
  if (!why) return 0;
  ts_error_set(err, TS_ERR_value, "it is kept for this process, not for later ones: %s", why);
  return ts_error_hint(err, "the folder is $TESSERA_CACHE, else $XDG_CACHE_HOME/tessera, else "
                            "~/.cache/tessera");
}

bool ts_patches_drop(const uint8_t key[32]) {
  TsPatchEntry old;
  bool there = ts_patches_find(key, &old);
  if (there) free((char *)(uintptr_t)old.text);
  pthread_mutex_lock(&all.lock);
  Known *k = find(key);
  if (there && k) {
    if (k->e.on_disk)
      ts_cache_write_text(ts_cache_usual(), key, taken_back, strlen(taken_back));
    forget(k);
  }
  pthread_mutex_unlock(&all.lock);
  return there;
}

void ts_patches_forget(void) {
  pthread_mutex_lock(&all.lock);
  for (int i = 0; i < all.n; i++) forget(&all.known[i]);
  free(all.known);
  all.known = NULL;
  all.n = all.cap = 0;
  all.looked = all.on_disk = false;
  pthread_mutex_unlock(&all.lock);
}
