/* Winners on disk. A file is text, for people, and ends with the hash of what stands before:
 *
 *   tessera tune 1
 *   key 5f0c..
 *   choice unroll 4
 *   was 12.1 us
 *   now 10.2 us
 *   kernel mul add gelu at model.lua:3
 *   threads 2
 *   machine AMD EPYC ..
 *   version 0.1
 *   date 2026-01-31T12:00:00Z
 *   hash 9a..
 *
 * Whatever is not exactly so is none, and the next winner replaces it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jit/code/cache.h"
#include "jit/code/sha256.h"
#include "jit/tune/tune.h"

const char *ts_tune_machine(void) {
  static _Thread_local char name[96];
  char line[256];
  FILE *f = *name ? NULL : fopen("/proc/cpuinfo", "re");
  while (f && fgets(line, sizeof line, f)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) || !colon) continue;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    break;
  }
  if (f) fclose(f);
  return *name ? name : "unknown";
}

static void hex(const uint8_t *bytes, char text[65]) {
  for (int i = 0; i < 32; i++) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

static void hash_text(const char *text, size_t n, char out[65]) {
  TsSha256 s;
  uint8_t hash[TS_SHA256];
  ts_sha256_begin(&s);
  ts_sha256_add(&s, text, n);
  ts_sha256_end(&s, hash);
  hex(hash, out);
}

/* The lines but the last, which must be their hash. */
static bool whole(char *text, size_t n) {
  char want[65];
  char *end = strstr(text, "\nhash ");
  if (!end || strlen(text) != n) return false;
  size_t body = (size_t)(end + 1 - text);
  hash_text(text, body, want);
  return n == body + 5 + 64 + 1 && !memcmp(end + 6, want, 64) && text[n - 1] == '\n';
}

static bool parse(char *text, size_t n, const uint8_t *key, TsTuneEntry *e) {
  char want[65], got[65], choice[128] = "";
  int at = 0;
  hex(key, want);
  if (!whole(text, n)) return false;
  if (sscanf(text, "tessera tune 1\nkey %64[0-9a-f]\nchoice%n", got, &at) != 1 || !at)
    return false;
  char *line = text + at;
  size_t len = strcspn(line, "\n");
  if (strcmp(want, got) || len >= sizeof choice || (len && *line != ' ')) return false;
  if (len) memcpy(choice, line + 1, len - 1), choice[len - 1] = 0;
  if (!ts_sched_choice_parse(choice, &e->choice)) return false;
  return sscanf(line + len, "\nwas %lf us\nnow %lf us\n", &e->was_usec, &e->usec) == 2;
}

bool ts_tune_read(const uint8_t key[32], TsTuneEntry *e) {
  size_t n;
  char *text = ts_cache_read_text(ts_cache_usual(), key, &n);
  bool good = text && parse(text, n, key, e);
  free(text);
  return good;
}

void ts_tune_write(const uint8_t key[32], const TsTuneEntry *e, const char *what, int threads,
                   const char *machine) {
  TsText t = {0}, choice = {0};
  char name[65], hash[65], date[32];
  time_t now = time(NULL);
  struct tm tm;
  hex(key, name);
  ts_sched_choice_text(&e->choice, &choice);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
  ts_text_format(&t, "tessera tune 1\nkey %s\nchoice%s%s\nwas %.4g us\nnow %.4g us\n", name,
                 choice.len ? " " : "", choice.len ? choice.at : "", e->was_usec, e->usec);
  ts_text_format(&t, "kernel %.*s\nthreads %d\nmachine %s\nversion %s\ndate %s\n",
                 (int)strcspn(what, "\n"), what, threads, machine, TS_VERSION, date);
  if (!t.failed && !choice.failed) {
    hash_text(t.at, t.len, hash);
    ts_text_format(&t, "hash %s\n", hash);
    if (!t.failed) ts_cache_write_text(ts_cache_usual(), key, t.at, t.len);
  }
  ts_text_free(&t);
  ts_text_free(&choice);
}

void ts_tune_forget(void) { ts_cache_clear_texts(ts_cache_usual()); }
