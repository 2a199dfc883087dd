/* See lib/file.h. */
#include "lib/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *ts_file_foreign(int fd, bool folder) {
  struct stat st;
  if (fstat(fd, &st)) return strerror(errno);
  if (folder ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode))
    return folder ? "it is no folder" : "it is no plain file";
  if (st.st_uid != geteuid()) return "it belongs to another user";
  if (st.st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it";
  return NULL;
}

bool ts_file_read(int fd, void *to, size_t n) {
  for (char *p = to; n;) {
    ssize_t got = read(fd, p, n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    p += got, n -= (size_t)got;
  }
  return true;
}

bool ts_file_write(int fd, const void *from, size_t n) {
  for (const char *p = from; n;) {
    ssize_t put = write(fd, p, n);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    p += put, n -= (size_t)put;
  }
  return true;
}

/* ---- new files */
static uint64_t unforeseen(void) {
  uint64_t v;
  if (getrandom(&v, sizeof v, GRND_NONBLOCK) == (ssize_t)sizeof v) return v;
  struct timespec t; /* early after the machine's start: O_EXCL alone has to do */
  clock_gettime(CLOCK_REALTIME, &t);
  return ((uint64_t)t.tv_nsec << 32 ^ (uint64_t)t.tv_sec ^ (uint64_t)getpid() << 16) *
         0x9e3779b97f4a7c15u;
}

void ts_file_name(const char *before, char name[TS_FILE_NAME]) {
  snprintf(name, TS_FILE_NAME, "%s%016llx", before, (unsigned long long)unforeseen());
}

int ts_file_new(int folder, const char *before, int mode, char name[TS_FILE_NAME]) {
  for (int attempt = 0; attempt < 16; attempt++) {
    ts_file_name(before, name);
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

int ts_file_open(const char *path, size_t *size, const char **why) {
  struct stat st;
  *why = NULL;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    if (errno == ENXIO) *why = "not a plain file"; /* a socket, a device that is not there */
    return -1;
  }
  if (!fstat(fd, &st) && S_ISREG(st.st_mode)) return *size = (size_t)st.st_size, fd;
  close(fd);
  *why = S_ISDIR(st.st_mode) ? "it is a folder" : "not a plain file";
  return -1;
}

bool ts_file_is_temporary(const char *name) {
  enum { DIGITS = 16 };
  size_t n = sizeof TS_FILE_TEMPORARY - 1;
  return !strncmp(name, TS_FILE_TEMPORARY, n) && strlen(name) == n + DIGITS &&
         strspn(name + n, "0123456789abcdef") == DIGITS;
}

bool ts_file_is_named(int fd, int folder, const char *name) {
  struct stat open, named;
  return !fstat(fd, &open) && !fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

DIR *ts_file_list(int folder) {
  int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = own < 0 ? NULL : fdopendir(own);
  if (!dir && own >= 0) close(own);
  return dir;
}

/* ---- replacing */
enum { MOST_LINKS = 40 };

static void drop_leftover(int folder, const char *name) {
  struct stat st;
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1 &&
      !flock(fd, LOCK_EX | LOCK_NB) && ts_file_is_named(fd, folder, name))
    unlinkat(folder, name, 0);
  close(fd);
}

static void drop_leftovers(int folder) {
  DIR *dir = ts_file_list(folder);
  for (struct dirent *d; dir && (d = readdir(dir));)
    if (ts_file_is_temporary(d->d_name)) drop_leftover(folder, d->d_name);
  if (dir) closedir(dir);
}

/* Nobody else may lead a save elsewhere by a link in a folder that all may write to, such as
 * /tmp: what the kernel's protected_symlinks says of files that are opened. */
static bool may_follow(const char *path, const struct stat *link) {
  char folder[TS_FILE_PATH];
  struct stat st;
  strcpy(folder, path);
  char *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = 0;
  if (stat(slash ? folder : ".", &st)) return false;
  bool shared = (st.st_mode & S_ISVTX) && (st.st_mode & S_IWOTH);
  return !shared || link->st_uid == geteuid() || link->st_uid == st.st_uid;
}

/* The name behind all links: of a file, or of one that is not there yet. */
static int follow(char path[TS_FILE_PATH]) {
  char to[TS_FILE_PATH];
  struct stat st;
  for (int attempt = 0; attempt < MOST_LINKS; attempt++) {
    if (lstat(path, &st)) return errno == ENOENT ? 0 : -1;
    if (!S_ISLNK(st.st_mode)) return 0;
    if (!may_follow(path, &st)) return errno = EACCES, -1;
    ssize_t n = readlink(path, to, sizeof to - 1);
    if (n < 0) return -1;
    to[n] = 0;
    char *slash = strrchr(path, '/');
    size_t kept = *to == '/' || !slash ? 0 : (size_t)(slash - path) + 1;
    if (kept + (size_t)n >= TS_FILE_PATH) return errno = ENAMETOOLONG, -1;
    memcpy(path + kept, to, (size_t)n + 1);
  }
  return errno = ELOOP, -1;
}

static int open_folder(TsReplace *r, const char *path) {
  char real[TS_FILE_PATH];
  if (strlen(path) >= sizeof real) return errno = ENAMETOOLONG, -1;
  strcpy(real, path);
  if (follow(real)) return -1;
  char *slash = strrchr(real, '/'), *base = slash ? slash + 1 : real;
  if (!*base || !strcmp(base, ".") || !strcmp(base, "..")) return errno = EISDIR, -1;
  if (strlen(base) >= sizeof r->base) return errno = ENAMETOOLONG, -1;
  strcpy(r->base, base);
  if (slash) slash[slash == real] = 0;
  const char *folder = slash ? real : ".";
  r->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (r->folder < 0 && errno == EACCES)
    r->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return r->folder < 0 ? -1 : 0;
}

static int look_at_old(TsReplace *r) {
  struct stat st;
  if (fstatat(r->folder, r->base, &st, AT_SYMLINK_NOFOLLOW)) return errno == ENOENT ? 0 : -1;
  if (!S_ISREG(st.st_mode)) {
    r->why = S_ISDIR(st.st_mode) ? "it is a folder" : "it is no plain file";
    return -1;
  }
  if (faccessat(r->folder, r->base, W_OK, AT_EACCESS)) return -1;
  r->there = true;
  r->mode = st.st_mode & 0777, r->owner = st.st_uid, r->group = st.st_gid;
  return 0;
}

/* Locked, and still under its name: whoever tidies up may have come in between. */
static int open_new(TsReplace *r) {
  for (int attempt = 0; attempt < 8; attempt++) {
    r->fd = ts_file_new(r->folder, TS_FILE_TEMPORARY, r->there ? 0600 : 0666, r->name);
    if (r->fd < 0) return -1;
    bool taken = flock(r->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (!taken && ts_file_is_named(r->fd, r->folder, r->name)) return 0;
    close(r->fd);
  }
  return errno = EAGAIN, -1;
}

int ts_replace_begin(TsReplace *r, const char *path) {
  *r = (TsReplace){.fd = -1, .folder = -1};
  if (open_folder(r, path)) return -1;
  drop_leftovers(r->folder);
  if (!look_at_old(r) && !open_new(r)) return 0;
  int saved = errno;
  close(r->folder);
  errno = saved;
  return -1;
}

/* Where the group cannot be kept, its members get what all others had. */
static int keep_rights(TsReplace *r) {
  struct stat st;
  if (!r->there) return 0;
  if (fstat(r->fd, &st)) return -1;
  if (st.st_uid != r->owner && fchown(r->fd, r->owner, (gid_t)-1)) errno = 0;
  if (st.st_gid != r->group && fchown(r->fd, (uid_t)-1, r->group))
    r->mode = (r->mode & 0707u) | (r->mode & 07u) << 3;
  return fchmod(r->fd, r->mode);
}

int ts_replace_end(TsReplace *r, bool good) {
  int saved = errno;
  if (good && (keep_rights(r) || fsync(r->fd))) good = false, saved = errno;
  if (good && renameat(r->folder, r->name, r->folder, r->base)) good = false, saved = errno;
  if (good && fsync(r->folder) && errno != EINVAL && errno != EBADF && errno != EROFS)
    saved = errno, r->why = "it is replaced, but the folder cannot be written to the disk";
  if (!good) unlinkat(r->folder, r->name, 0);
  if (close(r->fd) && good && errno != EINTR) saved = errno, good = false;
  close(r->folder);
  errno = saved;
  return good && !r->why ? 0 : -1;
}
