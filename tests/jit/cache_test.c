/* The disk cache: what is written is read, damage is noticed and mended, what others could
 * have written is not used, several processes write at once, the bound holds, and folders
 * that cannot be used are silent. SHA-256 against the examples of FIPS 180-4. */
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jit/code/cache.h"
#include "jit/code/sha256.h"

static int failed;
static char folder[64] = "/tmp/tessera-cache-XXXXXX";

#define CHECK(x)                                                                               \
  ((x) ? (void)0 : (void)(failed++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

static void hash_by(bool plain, const char *text, int times, const char *hex) {
  TsSha256 s;
  uint8_t digest[TS_SHA256];
  char got[2 * TS_SHA256 + 1];
  ts_sha256_begin(&s);
  s.plain |= plain;
  for (int i = 0; i < times; i++) ts_sha256_add(&s, text, strlen(text));
  ts_sha256_end(&s, digest);
  for (int i = 0; i < TS_SHA256; i++) snprintf(got + 2 * i, 3, "%02x", digest[i]);
  if (strcmp(got, hex)) failed++, printf("sha256 of %s: %s\n", text, got);
}

/* By the processor's instructions, where it has them, and without. */
static void hash_is(const char *text, int times, const char *hex) {
  hash_by(false, text, times, hex);
  hash_by(true, text, times, hex);
}

static void hashes(void) {
  hash_is("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  hash_is("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  hash_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  hash_is("aaaaaaaaaa", 100000,
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void key_of(int i, uint8_t key[TS_CACHE_KEY]) {
  memset(key, 0, TS_CACHE_KEY);
  memcpy(key, &i, sizeof i);
}

static char value_of(int i, size_t at) { return (char)((size_t)i * 31 + at * 7 + at / 256); }

static void put(TsCache *c, int i, size_t n) {
  uint8_t key[TS_CACHE_KEY];
  char *data = malloc(n + 1);
  key_of(i, key);
  for (size_t k = 0; k < n; k++) data[k] = value_of(i, k);
  ts_cache_write(c, key, data, n);
  free(data);
}

/* 1: there with the right bytes, 0: not there, -1: wrong */
static int look(TsCache *c, int i, size_t n) {
  uint8_t key[TS_CACHE_KEY];
  size_t got;
  key_of(i, key);
  char *data = ts_cache_read(c, key, &got);
  if (!data) return 0;
  bool good = got == n;
  for (size_t k = 0; good && k < n; k++) good = data[k] == value_of(i, k);
  free(data);
  return good ? 1 : -1;
}

static void name_of(int i, char path[256]) {
  uint8_t key[TS_CACHE_KEY];
  key_of(i, key);
  int n = snprintf(path, 256, "%s/", folder);
  for (int k = 0; k < TS_CACHE_KEY; k++)
    n += snprintf(path + n, 256 - (size_t)n, "%02x", key[k]);
  snprintf(path + n, 256 - (size_t)n, ".o");
}

enum { HEAD = 88, ALL = HEAD + 400 };

static void damage(TsCache *c) {
  char path[256];
  name_of(7, path);
  for (long at = 0; at < ALL + 40; at += 9) {
    put(c, 7, 400);
    CHECK(look(c, 7, 400) == 1);
    FILE *f = fopen(path, "r+b");
    if (!f) return (void)failed++;
    int was = 0;
    if (at < ALL)
      fseek(f, at, SEEK_SET), was = fgetc(f), fseek(f, at, SEEK_SET), fputc(was ^ 16, f);
    fclose(f);
    /* the head has bytes that mean nothing */
    CHECK(look(c, 7, 400) == 0 || at >= ALL || (at >= 12 && at < 16));
    if (truncate(path, at < ALL ? at : ALL - 1)) failed++;
    CHECK(look(c, 7, 400) == 0);
  }
  put(c, 7, 400);
  CHECK(look(c, 7, 400) == 1);
}

/* A pipe under an entry's name is none, and nobody waits at it. */
static void pipes(TsCache *c) {
  char path[256];
  size_t n;
  uint8_t key[TS_CACHE_KEY];
  for (int text = 0; text < 2; text++) {
    name_of(9, path);
    if (text) path[strlen(path) - 1] = 't';
    CHECK(!mkfifo(path, 0600));
    key_of(9, key);
    CHECK(text ? !ts_cache_read_text(c, key, &n) : look(c, 9, 10) == 0);
    unlink(path);
  }
}

/* An entry under another one's name is none. */
static void swapped(TsCache *c) {
  char one[256], other[256];
  put(c, 20, 300), put(c, 21, 300);
  name_of(20, one), name_of(21, other);
  CHECK(!rename(one, other) && look(c, 21, 300) == 0 && look(c, 20, 300) == 0);
  uint8_t key[TS_CACHE_KEY];
  key_of(21, key);
  CHECK(!ts_cache_has(c, key));
  unlink(other);
}

static void give(const char *path, uid_t to) {
  if (!geteuid()) CHECK(!chown(path, to, (gid_t)-1));
}

/* What others own, or may write to, is not used: neither read nor written nor tidied up. */
static void foreign(TsCache *c) {
  static const mode_t open_to[] = {0620, 0602, 0666, 0777};
  char path[256], elsewhere[300];
  size_t n;
  uint8_t key[TS_CACHE_KEY];
  key_of(30, key), name_of(30, path);
  put(c, 30, 100);
  CHECK(look(c, 30, 100) == 1);
  for (size_t i = 0; i < sizeof open_to / sizeof *open_to; i++) {
    CHECK(!chmod(path, open_to[i]) && look(c, 30, 100) == 0 && !ts_cache_has(c, key));
    CHECK(!chmod(path, 0600) && look(c, 30, 100) == 1);
    CHECK(!chmod(folder, 0700 | (open_to[i] & 022)) && look(c, 30, 100) == 0);
    put(c, 31, 100);
    ts_cache_write_text(c, key, "text", 4);
    ts_cache_clear_texts(c), ts_cache_trim(c);
    CHECK(!chmod(folder, 0700) && look(c, 31, 100) == 0 && look(c, 30, 100) == 1);
    CHECK(!ts_cache_read_text(c, key, &n));
  }
  if (!geteuid()) {
    give(path, 1);
    CHECK(look(c, 30, 100) == 0);
    give(path, 0), give(folder, 1);
    CHECK(look(c, 30, 100) == 0);
    give(folder, 0);
  }
  snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
  CHECK(!rename(path, elsewhere) && !symlink(elsewhere, path) && look(c, 30, 100) == 0);
  struct stat st;
  put(c, 30, 100); /* takes the link's place */
  CHECK(look(c, 30, 100) == 1 && !lstat(path, &st) && (st.st_mode & 07777) == 0600);
  unlink(elsewhere);
}

/* Two threads find the folder missing at the same time. */
static void *put_many(void *c) {
  for (int i = 0; i < 20; i++) put(c, 200 + i, 100);
  return NULL;
}

static void threads(void) {
  TsCache c;
  pthread_t other;
  char deep[128];
  snprintf(deep, sizeof deep, "%s/c/d/e", folder);
  ts_cache_open_at(&c, deep, 1 << 20);
  c.unseen = 0; /* it begins anywhere */
  CHECK(!pthread_create(&other, NULL, put_many, &c));
  put_many(&c);
  CHECK(!pthread_join(other, NULL) && c.unseen == 2 * 20 * (HEAD + 100));
  for (int i = 0; i < 20; i++) CHECK(look(&c, 200 + i, 100) == 1);
}

/* Four processes write and read the same keys. */
static void together(TsCache *c) {
  pid_t child[4];
  for (int p = 0; p < 4; p++) {
    if ((child[p] = fork())) continue;
    int bad = 0;
    for (int i = 0; i < 300; i++) {
      put(c, 100 + i % 10, 3000);
      bad |= look(c, 100 + (i * 7 + p) % 10, 3000) < 0;
    }
    _exit(bad);
  }
  for (int p = 0; p < 4; p++) {
    int status;
    CHECK(waitpid(child[p], &status, 0) == child[p] && status == 0);
  }
  for (int i = 0; i < 10; i++) CHECK(look(c, 100 + i, 3000) == 1);
}

static int64_t total(int *others) {
  int64_t n = 0;
  DIR *dir = opendir(folder);
  *others = 0;
  for (struct dirent *d; dir && (d = readdir(dir));) {
    struct stat st;
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
    if (stat(path, &st) || !S_ISREG(st.st_mode)) continue;
    n += st.st_size;
    *others += strstr(d->d_name, ".o") == NULL;
  }
  if (dir) closedir(dir);
  return n;
}

static void bound(void) {
  TsCache c;
  int others;
  char path[256];
  name_of(0, path);
  path[strlen(folder) + 1] = 'x'; /* a name as long as ours, and somebody else's */
  FILE *f = fopen(path, "w");
  if (!f || fputs("mine", f) < 0 || fclose(f)) failed++;
  ts_cache_open_at(&c, folder, 100000);
  for (int i = 0; i < 100; i++) {
    put(&c, 1000 + i, 5000);
    if (i > 50) CHECK(look(&c, 1000 + i, 5000) == 1);
  }
  ts_cache_trim(&c);
  CHECK(total(&others) <= 100000 && total(&others) > 50000 && others == 0);
  CHECK(look(&c, 1099, 5000) == 1 && look(&c, 1000, 5000) == 0);
  CHECK(!access(path, F_OK));
  put(&c, 5000, 200000); /* larger than all */
  CHECK(look(&c, 5000, 200000) == 0);
}

/* Programs that write an entry or two and end: none of them sees much, and the bound holds. */
static void bound_of_many(void) {
  TsCache c;
  int others;
  for (int i = 0; i < 800; i++) {
    ts_cache_open_at(&c, folder, 1000000);
    put(&c, 10000 + i, 5000);
  }
  CHECK(total(&others) < 1250000 && total(&others) > 800000);
}

static void unusable(void) {
  TsCache c;
  ts_cache_open_at(&c, "/proc/nowhere/tessera", 1 << 20);
  put(&c, 1, 100);
  CHECK(look(&c, 1, 100) == 0);
  ts_cache_trim(&c);
  setenv("TESSERA_CACHE", "off", 1);
  ts_cache_open(&c);
  CHECK(!*c.folder);
  put(&c, 1, 100);
  CHECK(look(&c, 1, 100) == 0);
  unsetenv("TESSERA_CACHE"), unsetenv("HOME"), unsetenv("XDG_CACHE_HOME");
  ts_cache_open(&c);
  CHECK(!*c.folder);
  setenv("HOME", "/home/me", 1);
  ts_cache_open(&c);
  CHECK(!strcmp(c.folder, "/home/me/.cache/tessera"));
  setenv("XDG_CACHE_HOME", "/cache", 1);
  ts_cache_open(&c);
  CHECK(!strcmp(c.folder, "/cache/tessera"));
}

int main(void) {
  TsCache c;
  char command[128], deep[128];
  if (!mkdtemp(folder)) return 1;
  hashes();
  snprintf(deep, sizeof deep, "%s/a/b", folder);
  ts_cache_open_at(&c, deep, 1 << 20); /* folders are made when they are needed */
  CHECK(look(&c, 1, 10) == 0);
  put(&c, 1, 10);
  struct stat st;
  CHECK(look(&c, 1, 10) == 1 && !stat(deep, &st) && (st.st_mode & 0777) == 0700);
  ts_cache_open_at(&c, folder, 1 << 20);
  put(&c, 2, 0);
  CHECK(look(&c, 2, 0) == 1 && look(&c, 3, 0) == 0);
  damage(&c);
  pipes(&c);
  swapped(&c);
  foreign(&c);
  threads();
  together(&c);
  bound();
  bound_of_many();
  unusable();
  snprintf(command, sizeof command, "rm -r %s", folder);
  if (system(command)) failed++;
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
