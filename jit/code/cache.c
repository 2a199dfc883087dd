/* Entries are files <key in hex>.o, or .t for text; the former with a head that says under which
 * key they were written, how long they are and what their hash is. The time of last change is
 * that of last use, to the hour. */
#include "jit/code/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "jit/code/sha256.h"
#include "lib/file.h"

enum { VERSION = 2, HOUR = 3600, NAME = 2 * TS_CACHE_KEY + 2 };
static const int64_t usual_limit = (int64_t)512 << 20, largest = (int64_t)64 << 20;

typedef struct Head {
  char magic[8];
  uint32_t version, unused;
  uint64_t nbytes;
  uint8_t key[TS_CACHE_KEY], hash[TS_SHA256];
} Head;

static const char magic[8] = "TSKERN\n";

static void hash_of(const void *data, size_t nbytes, uint8_t hash[TS_SHA256]) {
  TsSha256 s;
  ts_sha256_begin(&s);
  ts_sha256_add(&s, data, nbytes);
  ts_sha256_end(&s, hash);
}

/* ---- the folder */
static void make_folders(const TsCache *c) {
  char path[sizeof c->folder]; /* a copy: other threads read the folder meanwhile */
  strcpy(path, c->folder);
  for (char *p = path + 1; *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    mkdir(path, 0700);
    *p = '/';
  }
  mkdir(path, 0700);
}

static void refuse(TsCache *c, const char *name, const char *why) {
  if (c->verbose)
    fprintf(stderr, "[jit cache %s%s%s: not used: %s]\n", c->folder, *name ? "/" : "", name,
            why);
}

/* Looked at each time, by the descriptor that is then used: what the name means may change. Links
 * on the way are the user's own matter, where they lead is looked at. */
static int open_folder(TsCache *c, bool make) {
  int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  if (!*c->folder) return -1;
  int fd = open(c->folder, flags);
  if (fd < 0 && errno == ENOENT && make) {
    make_folders(c);
    fd = open(c->folder, flags);
  }
  const char *why = fd < 0 ? NULL : ts_file_foreign(fd, true);
  if (!why) return fd;
  close(fd);
  if (c->verbose && !__atomic_exchange_n(&c->told, true, __ATOMIC_RELAXED)) refuse(c, "", why);
  return -1;
}

/* Bytes that may be written before the entries are counted. */
static int64_t patience(int64_t limit) { return limit / 64; }

/* Most processes write less than that, so each begins somewhere on the way: of many short ones
 * some count, as often as one long one would. */
static int64_t somewhere(int64_t limit) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  uint64_t mixed = ((uint64_t)t.tv_nsec ^ (uint64_t)getpid() << 32) * 0x9e3779b97f4a7c15u;
  return (int64_t)((mixed >> 32) % (uint64_t)(patience(limit) + 1));
}

void ts_cache_open_at(TsCache *c, const char *folder, int64_t limit) {
  *c = (TsCache){.limit = limit, .unseen = somewhere(limit)};
  if (!folder || strlen(folder) + NAME + 32 > sizeof c->folder) return;
  strcpy(c->folder, folder);
}

void ts_cache_open(TsCache *c) {
  char path[512] = "";
  const char *own = getenv("TESSERA_CACHE"), *xdg = getenv("XDG_CACHE_HOME");
  const char *home = getenv("HOME");
  int n = 0;
  if (own && *own)
    n = strcmp(own, "off") ? snprintf(path, sizeof path, "%s", own) : 0;
  else if (xdg && *xdg == '/')
    n = snprintf(path, sizeof path, "%s/tessera", xdg);
  else if (home && *home == '/')
    n = snprintf(path, sizeof path, "%s/.cache/tessera", home);
  ts_cache_open_at(c, n > 0 && n < (int)sizeof path ? path : NULL, usual_limit);
}

static TsCache usual;
static void open_usual(void) { ts_cache_open(&usual); }

TsCache *ts_cache_usual(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_usual);
  return &usual;
}

void ts_cache_verbose(TsCache *c, bool on) {
  c->verbose = on;
  __atomic_store_n(&c->told, false, __ATOMIC_RELAXED);
  int folder = on ? open_folder(c, false) : -1; /* says at once what there is to say */
  if (folder >= 0) close(folder);
}

static void name_of(const uint8_t *key, char kind, char name[NAME + 1]) {
  for (int i = 0; i < TS_CACHE_KEY; i++) snprintf(name + 2 * i, 3, "%02x", key[i]);
  snprintf(name + 2 * TS_CACHE_KEY, 3, ".%c", kind);
}

static bool is_entry(const char *name, const char *kinds) {
  size_t len = strlen(name);
  return len == NAME && strspn(name, "0123456789abcdef") == len - 2 && name[len - 2] == '.' &&
         strchr(kinds, name[len - 1]);
}

/* ---- reading */
/* Does not wait for the other end of a pipe that somebody put there, and follows no link. */
static int open_entry(TsCache *c, const uint8_t *key, char kind) {
  char name[NAME + 1];
  int folder = open_folder(c, false);
  if (folder < 0) return -1;
  name_of(key, kind, name);
  int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  close(folder);
  const char *why = fd < 0 ? NULL : ts_file_foreign(fd, false);
  if (fd < 0 && errno == ELOOP) why = "it is a link";
  if (!why) return fd;
  if (fd >= 0) close(fd);
  refuse(c, name, why);
  return -1;
}

/* Whose bytes are those that were written under this key, as far as the head tells. */
static bool read_head(int fd, const uint8_t *key, Head *h, struct stat *st) {
  return !fstat(fd, st) && ts_file_read(fd, h, sizeof *h) && !memcmp(h->magic, magic, 8) &&
         h->version == VERSION && !memcmp(h->key, key, TS_CACHE_KEY) &&
         h->nbytes <= (uint64_t)largest && (uint64_t)st->st_size == sizeof *h + h->nbytes;
}

static void *read_entry(int fd, const uint8_t *key, size_t *nbytes) {
  Head h;
  uint8_t hash[TS_SHA256];
  struct stat st;
  if (!read_head(fd, key, &h, &st)) return NULL;
  void *data = malloc(h.nbytes ? h.nbytes : 1);
  if (!data) return NULL;
  if (ts_file_read(fd, data, h.nbytes)) {
    hash_of(data, h.nbytes, hash);
    if (!memcmp(hash, h.hash, sizeof hash)) {
      if (time(NULL) - st.st_mtime > HOUR) futimens(fd, NULL);
      return *nbytes = h.nbytes, data;
    }
  }
  free(data);
  return NULL;
}

void *ts_cache_read(TsCache *c, const uint8_t key[TS_CACHE_KEY], size_t *nbytes) {
  int fd = open_entry(c, key, 'o');
  if (fd < 0) return NULL;
  void *data = read_entry(fd, key, nbytes);
  close(fd);
  return data;
}

bool ts_cache_has(TsCache *c, const uint8_t key[TS_CACHE_KEY]) {
  Head h;
  struct stat st;
  int fd = open_entry(c, key, 'o');
  bool there = fd >= 0 && read_head(fd, key, &h, &st);
  if (fd >= 0) close(fd);
  return there;
}

/* ---- writing */
/* h NULL: without a head. */
static bool write_file(TsCache *c, const char *name, const Head *h, const void *data,
                       size_t nbytes) {
  char temporary[TS_FILE_NAME];
  int folder = open_folder(c, true);
  int fd = folder < 0 ? -1 : ts_file_new(folder, "new-", 0600, temporary);
  bool good = fd >= 0;
  if (good) {
    good = (!h || ts_file_write(fd, h, sizeof *h)) && ts_file_write(fd, data, nbytes);
    good = !close(fd) && good && !renameat(folder, temporary, folder, name);
    if (!good) unlinkat(folder, temporary, 0);
  }
  if (folder >= 0) close(folder);
  return good;
}

static bool write_entry(TsCache *c, const uint8_t *key, const void *data, size_t nbytes) {
  char name[NAME + 1];
  Head h = {.version = VERSION, .nbytes = nbytes};
  memcpy(h.magic, magic, 8);
  memcpy(h.key, key, sizeof h.key);
  hash_of(data, nbytes, h.hash);
  name_of(key, 'o', name);
  return write_file(c, name, &h, data, nbytes);
}

void ts_cache_write(TsCache *c, const uint8_t key[TS_CACHE_KEY], const void *data,
                    size_t nbytes) {
  int64_t all = (int64_t)(sizeof(Head) + nbytes);
  if (!*c->folder || all > largest || all > c->limit) return;
  if (!write_entry(c, key, data, nbytes)) return;
  int64_t unseen = __atomic_add_fetch(&c->unseen, all, __ATOMIC_RELAXED);
  if (unseen > patience(c->limit)) ts_cache_trim(c);
}

/* ---- text */
enum { LONGEST_TEXT = 65536 };

char *ts_cache_read_text(TsCache *c, const uint8_t key[TS_CACHE_KEY], size_t *nbytes) {
  char *text = NULL;
  struct stat st;
  int fd = open_entry(c, key, 't');
  if (fd < 0) return NULL;
  if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size <= LONGEST_TEXT)
    text = calloc(1, (size_t)st.st_size + 1);
  if (text && !ts_file_read(fd, text, *nbytes = (size_t)st.st_size)) {
    free(text);
    text = NULL;
  }
  if (text && time(NULL) - st.st_mtime > HOUR) futimens(fd, NULL);
  close(fd);
  return text;
}

const char *ts_cache_write_text(TsCache *c, const uint8_t key[TS_CACHE_KEY], const char *text,
                                size_t nbytes) {
  char name[NAME + 1];
  if (!*c->folder) return "there is no folder for it";
  if (nbytes > LONGEST_TEXT) return "it has more than 64 KiB";
  name_of(key, 't', name);
  return write_file(c, name, NULL, text, nbytes) ? NULL : "its folder cannot be written";
}

static DIR *list_folder(TsCache *c) {
  int folder = open_folder(c, false);
  DIR *dir = folder < 0 ? NULL : fdopendir(folder);
  if (!dir && folder >= 0) close(folder);
  return dir;
}

void ts_cache_clear_texts(TsCache *c) {
  DIR *dir = list_folder(c);
  if (!dir) return;
  for (struct dirent *d; (d = readdir(dir));) {
    if (is_entry(d->d_name, "t")) unlinkat(dirfd(dir), d->d_name, 0);
  }
  closedir(dir);
}

/* ---- the bound */
typedef struct Entry {
  char name[NAME + 1];
  int64_t nbytes;
  struct timespec used;
} Entry;

static int older(const void *a, const void *b) {
  const Entry *x = a, *y = b;
  if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

/* What a process that was killed left behind. */
static void drop_stale(int dir, const char *name, const struct stat *st) {
  if (!strncmp(name, "new-", 4) && st->st_uid == geteuid() && time(NULL) - st->st_mtime > HOUR)
    unlinkat(dir, name, 0);
}

static Entry *list_entries(DIR *dir, size_t *n, int64_t *total) {
  Entry *list = NULL;
  size_t cap = 0;
  *n = 0, *total = 0;
  for (struct dirent *d; (d = readdir(dir));) {
    struct stat st;
    if (fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
      continue;
    drop_stale(dirfd(dir), d->d_name, &st);
    if (!is_entry(d->d_name, "ot")) continue;
    if (*n == cap) {
      Entry *more = realloc(list, (cap = cap ? 2 * cap : 64) * sizeof *list);
      if (!more) break;
      list = more;
    }
    Entry *e = &list[(*n)++];
    memcpy(e->name, d->d_name, NAME + 1);
    e->nbytes = st.st_size;
    e->used = st.st_mtim;
    *total += st.st_size;
  }
  return list;
}

/* Down to seven eighths, so that the next write does not begin again. */
void ts_cache_trim(TsCache *c) {
  DIR *dir = list_folder(c);
  __atomic_store_n(&c->unseen, 0, __ATOMIC_RELAXED);
  if (!dir) return;
  size_t n;
  int64_t total;
  Entry *list = list_entries(dir, &n, &total);
  if (total > c->limit) {
    qsort(list, n, sizeof *list, older);
    for (size_t i = 0; i < n && total > c->limit / 8 * 7; i++)
      if (!unlinkat(dirfd(dir), list[i].name, 0)) total -= list[i].nbytes;
  }
  free(list);
  closedir(dir);
}
