/* See lib/commit.h. */
#include "lib/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 1000, FOLDERS = 8 };

static int open_folder(int at, const char *name) {
  return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Not every file system writes folders down by itself, nor lets it be asked. */
static int sync_folder(int fd) {
  return fsync(fd) && errno != EINVAL && errno != EROFS ? -1 : 0;
}

/* With those above it. */
static int make_folder(const char *dir) {
  char path[TS_FILE_PATH];
  if (strlen(dir) >= sizeof path) return errno = ENAMETOOLONG, -1;
  strcpy(path, dir);
  for (char *p = path + 1; *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    if (mkdir(path, 0777) && errno != EEXIST) return -1;
    *p = '/';
  }
  return mkdir(path, 0777) && errno != EEXIST ? -1 : 0;
}

/* ---- removing */
static void unlink_all(int folder) {
  DIR *d = ts_file_list(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) unlinkat(folder, e->d_name, 0);
  if (d) closedir(d);
}

/* Under another name first: what is left of it, if the program is killed, tells what it is. Where the
 * name has become another folder's meanwhile, that one gets it back. */
static int remove_open(int parent, int folder, const char *name) {
  char other[TS_FILE_NAME];
  bool plain = !ts_file_is_temporary(name);
  if (plain)
    ts_file_name(TS_FILE_TEMPORARY, other);
  else
    strcpy(other, name);
  if (plain && renameat(parent, name, parent, other)) return -1;
  if (!ts_file_is_named(folder, parent, other)) {
    if (plain) renameat(parent, other, parent, name);
    return errno = ENOENT, -1;
  }
  unlink_all(folder);
  return unlinkat(parent, other, AT_REMOVEDIR);
}

int ts_commit_remove(const char *dir, const char *name) {
  int parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int folder = parent < 0 ? -1 : open_folder(parent, name);
  int failed = folder < 0 ? -1 : remove_open(parent, folder, name), saved = errno;
  if (folder >= 0) close(folder);
  if (parent >= 0) close(parent);
  return errno = saved, failed;
}

static size_t read_head(int folder, const char *name, char *to, size_t most) {
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, to, most);
  if (fd >= 0) close(fd);
  return n < 0 ? 0 : (size_t)n;
}

static bool is_leftover(int folder, const char *name, const char *mark, const char *manifest,
                        const char *head, bool (*whole)(const char *, size_t)) {
  char text[256];
  struct stat st;
  if (fstat(folder, &st) || st.st_uid != geteuid()) return false;
  if (ts_file_is_temporary(name)) return true;
  size_t n = strlen(head);
  if (read_head(folder, manifest, text, n < sizeof text ? n : sizeof text) != n) return false;
  return !memcmp(text, head, n) && !whole(text, read_head(folder, mark, text, sizeof text));
}

void ts_commit_sweep(const char *dir, const char *mark, const char *manifest, const char *head,
                     bool (*whole)(const char *text, size_t n)) {
  int parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = parent < 0 ? NULL : ts_file_list(parent);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    int folder = open_folder(parent, e->d_name);
    if (folder < 0) continue;
    if (!flock(folder, LOCK_EX | LOCK_NB) &&           /* else somebody writes it, */
        ts_file_is_named(folder, parent, e->d_name) && /* or it was written by now */
        is_leftover(folder, e->d_name, mark, manifest, head, whole))
      remove_open(parent, folder, e->d_name);
    close(folder);
  }
  if (d) closedir(d);
  if (parent >= 0) close(parent);
}

/* ---- writing */
/* Locked, and still under its name: whoever tidies up may have come in between. */
static int new_folder(TsCommit *c) {
  for (int attempt = 0; attempt < FOLDERS; attempt++) {
    ts_file_name(TS_FILE_TEMPORARY, c->temporary);
    if (mkdirat(c->parent, c->temporary, 0777)) return c->temporary[0] = 0, -1;
    c->folder = open_folder(c->parent, c->temporary);
    if (c->folder < 0 && errno != ENOENT) return -1;
    bool taken = c->folder < 0 || (flock(c->folder, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK);
    if (!taken && ts_file_is_named(c->folder, c->parent, c->temporary)) return 0;
    if (c->folder >= 0) close(c->folder);
    c->folder = -1, c->temporary[0] = 0;
  }
  return errno = EAGAIN, -1;
}

int ts_commit_begin(TsCommit *c, const char *dir) {
  *c = (TsCommit){.parent = -1, .folder = -1};
  if (make_folder(dir)) return -1;
  if ((c->parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) return -1;
  if (!new_folder(c)) return 0;
  ts_commit_drop(c);
  return -1;
}

int ts_commit_open(TsCommit *c, const char *file) {
  snprintf(c->at, sizeof c->at, "%s", file);
  return openat(c->folder, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

int ts_commit_close(TsCommit *c, int fd) {
  int failed = fsync(fd), saved = errno;
  if (close(fd) && !failed && errno != EINTR) failed = -1, saved = errno;
  if (!failed) c->at[0] = 0;
  return errno = saved, failed ? -1 : 0;
}

static int give_name(TsCommit *c, const char *name) {
  for (int i = 0; i < ATTEMPTS; i++) {
    int n = i ? snprintf(c->name, sizeof c->name, "%s~%d", name, i)
              : snprintf(c->name, sizeof c->name, "%s", name);
    if (n >= (int)sizeof c->name) return errno = ENAMETOOLONG, -1;
    struct stat st;
    if (!fstatat(c->parent, c->name, &st, AT_SYMLINK_NOFOLLOW)) continue;
    if (!renameat(c->parent, c->temporary, c->parent, c->name)) return 0;
    if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) return -1;
  }
  return -1;
}

int ts_commit_end(TsCommit *c, const char *name, const char *mark, const char *text, size_t n) {
  if (sync_folder(c->folder) || give_name(c, name)) return -1;
  strcpy(c->temporary, c->name);
  if (sync_folder(c->parent)) return -1;
  int fd = ts_commit_open(c, mark);
  if (fd < 0) return -1;
  bool put = ts_file_write(fd, text, n);
  int saved = errno;
  if (ts_commit_close(c, fd)) return -1;
  if (!put) return errno = saved, -1;
  if (sync_folder(c->folder)) return -1;
  close(c->folder);
  close(c->parent);
  return 0;
}

void ts_commit_drop(TsCommit *c) {
  int saved = errno;
  if (c->folder >= 0) {
    unlink_all(c->folder);
    close(c->folder);
  }
  if (c->parent >= 0) {
    if (c->temporary[0]) unlinkat(c->parent, c->temporary, AT_REMOVEDIR);
    close(c->parent);
  }
  errno = saved;
}
