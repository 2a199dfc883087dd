/* The history file: one entry a line, with \n, \r and \\ escaped.

   Several prompts may write it at once. A save takes a lock on the file, reads what others have
   written, appends its own new entries, and renames a new file over the old one, so a reader or
   a crash sees either file whole. The rename leaves waiters with a lock on the old file: they
   notice that the path names another one and start again. */
#include "repl/edit/history.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/file.h"
#include "repl/edit/term.h"
#include "repl/edit/text.h"

#define FILE_MAX  ((off_t)8 << 20)   /* only the end of a larger file is read */
#define ENTRY_MAX ((size_t)64 << 10) /* longer ones are not saved */

static void escape(TsEditText *out, const char *entry) {
  for (; *entry; entry++) {
    const char *text = *entry == '\n' ? "\\n" : *entry == '\r' ? "\\r" : "\\\\";
    int plain = *entry != '\n' && *entry != '\r' && *entry != '\\';
    ts_edit_text_append(out, plain ? entry : text, plain ? 1 : 2);
  }
  ts_edit_text_append(out, "\n", 1);
}

static void unescape(char *line) {
  char *to = line;
  for (char *from = line; *from; from++) {
    if (*from == '\\' && from[1]) {
      from++;
      *to++ = *from == 'n' ? '\n' : *from == 'r' ? '\r' : *from;
    } else {
      *to++ = *from;
    }
  }
  *to = 0;
}

/* Reads the file's whole lines. */
static int read_lines(int fd, TsEditText *out) {
  char block[16384];
  off_t size = lseek(fd, 0, SEEK_END), start = size > FILE_MAX ? size - FILE_MAX : 0;
  if (lseek(fd, start, SEEK_SET) < 0) return -1;
  ssize_t got;
  while ((got = read(fd, block, sizeof block)) > 0)
    if (ts_edit_text_append(out, block, (size_t)got) < 0) return -1;
  if (got < 0) return -1;
  if (start > 0) {
    size_t cut = ts_edit_text_line_end(out, 0);
    ts_edit_text_erase(out, 0, cut < out->size ? cut + 1 : cut);
  }
  if (out->size && out->data[out->size - 1] != '\n') ts_edit_text_append(out, "\n", 1);
  return out->failed ? -1 : 0;
}

/* Where the last `lines` lines begin. */
static size_t tail_start(const TsEditText *text, size_t lines) {
  size_t at = text->size;
  for (; at > 0; lines--) {
    if (lines == 0) return at;
    at = ts_edit_text_line_start(text, at - 1);
  }
  return 0;
}

static void add_lines(TsEditHistory *h, TsEditText *lines) {
  for (size_t at = tail_start(lines, TS_EDIT_HISTORY_MAX); at < lines->size;) {
    size_t end = ts_edit_text_line_end(lines, at);
    lines->data[end] = 0;
    unescape(lines->data + at);
    ts_edit_history_add(h, lines->data + at);
    at = end + 1;
  }
  h->unsaved = 0;
}

/* The file that a link names, so that a rename does not replace the link. */
static char *resolve(const char *path) {
  char *real = realpath(path, NULL);
  return real ? real : strdup(path);
}

int ts_edit_history_load(TsEditHistory *h, const char *path) {
  h->path = resolve(path);
  int fd = h->path ? open(h->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW) : -1;
  if (fd < 0) return -1;
  TsEditText lines = {0};
  int status = ts_file_foreign(fd, false) ? -1 : read_lines(fd, &lines);
  close(fd);
  if (status == 0) add_lines(h, &lines);
  ts_edit_text_free(&lines);
  return status;
}

static void make_parents(const char *path) {
  char folder[PATH_MAX];
  if (strlen(path) >= sizeof folder) return;
  strcpy(folder, path);
  for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(folder, 0700);
    *slash = '/';
  }
}

static int open_file(const char *path) {
  int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW,
      fd = open(path, flags, 0600);
  if (fd < 0 && errno == ENOENT) {
    make_parents(path);
    fd = open(path, flags, 0600);
  }
  if (fd < 0 || !ts_file_foreign(fd, false)) return fd;
  close(fd);
  return -1;
}

static int same_file(int fd, const char *path) {
  struct stat held, named;
  return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

/* A descriptor that holds the lock of the file the path names; without the lock where the file
   system knows none; -1 when it cannot be had. */
static int open_locked(const char *path, int wait_ms) {
  for (;; wait_ms -= 2) {
    int fd = open_file(path);
    if (fd < 0) return -1;
    int locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (locked && same_file(fd, path)) return fd;
    if (!locked && errno != EWOULDBLOCK && errno != EINTR) return fd;
    close(fd);
    if (wait_ms <= 0) return -1;
    poll(NULL, 0, 2);
  }
}

static int is_last_line(const TsEditText *lines, const char *line, size_t size) {
  return size <= lines->size && memcmp(lines->data + lines->size - size, line, size) == 0 &&
         (size == lines->size || lines->data[lines->size - size - 1] == '\n');
}

static int append_unsaved(const TsEditHistory *h, TsEditText *lines) {
  for (size_t i = h->count - h->unsaved; i < h->count; i++) {
    TsEditText line = {0};
    if (strlen(h->entries[i]) > ENTRY_MAX) continue;
    escape(&line, h->entries[i]);
    if (!line.failed && !is_last_line(lines, line.data, line.size))
      ts_edit_text_append(lines, line.data, line.size);
    lines->failed |= line.failed;
    ts_edit_text_free(&line);
  }
  return lines->failed ? -1 : 0;
}

/* Writes the last lines beside the file and renames them over it. */
static int replace(const char *path, int old_fd, const TsEditText *lines) {
  char name[PATH_MAX];
  if (snprintf(name, sizeof name, "%s.XXXXXX", path) >= (int)sizeof name) return -1;
  int fd = mkostemp(name, O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat old;
  size_t start = tail_start(lines, TS_EDIT_HISTORY_MAX);
  int bad =
      ts_edit_term_write(fd, ts_edit_text_string(lines) + start, lines->size - start) < 0 ||
      fstat(old_fd, &old) < 0 || fchmod(fd, old.st_mode & 0777) < 0;
  bad |= close(fd) < 0;
  if (!bad && rename(name, path) == 0) return 0;
  unlink(name);
  return -1;
}

int ts_edit_history_save(TsEditHistory *h, int wait_ms) {
  if (!h->path || h->unsaved == 0) return 0;
  int fd = open_locked(h->path, wait_ms);
  if (fd < 0) return -1;
  TsEditText lines = {0};
  int status = read_lines(fd, &lines);
  if (status == 0) status = append_unsaved(h, &lines);
  if (status == 0) status = replace(h->path, fd, &lines);
  if (status == 0) h->unsaved = 0;
  ts_edit_text_free(&lines);
  close(fd);
  return status;
}
