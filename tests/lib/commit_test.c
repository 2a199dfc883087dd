/* Folders that are written whole or not at all, while another process sweeps: what it does between
 * two steps of the writer, and the other way round, is done at the call of flock in between. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/commit.h"

static int failures;
static char dir[64];
static TsCommit commit;

static void check(bool ok, const char *what) {
  if (ok) return;
  failures++;
  printf("commit: %s: %m\n", what);
}

/* ---- what happens at the next flock, before it */
static void (*before)(int fd);
static int held = -1;

int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how);
int __wrap_flock(int fd, int how) {
  void (*now)(int) = before;
  before = NULL;
  if (now) now(fd);
  return __real_flock(fd, how);
}

static bool is_whole(const char *text, size_t n) { return n == 4 && !memcmp(text, "done", 4); }
static void sweep(void) { ts_commit_sweep(dir, "mark", "manifest", "head", is_whole); }

static bool there(const char *name, const char *file) {
  char path[400];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s%s%s", dir, name, *file ? "/" : "", file);
  return !stat(path, &st);
}

static int nfolder(void) {
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
  DIR *d = ts_file_list(fd);
  for (struct dirent *e; d && (e = readdir(d));) n += *e->d_name != '.' || e->d_name[1] == 't';
  if (d) closedir(d);
  close(fd);
  return n;
}

static void put_manifest(void) {
  int fd = ts_commit_open(&commit, "manifest");
  check(fd >= 0 && ts_file_write(fd, "head, more", 10) && !ts_commit_close(&commit, fd),
        "manifest");
}

static void end(const char *name) {
  check(!ts_commit_end(&commit, name, "mark", "done", 4), name);
  check(there(name, "mark") && there(name, "manifest"), name);
}

static void end_one(int fd) {
  (void)fd;
  end("one");
}
static void sweep_now(int fd) {
  (void)fd;
  sweep();
}
static void hold(int fd) {
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  held = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  check(!__real_flock(held, LOCK_EX | LOCK_NB), "another's lock");
}

/* The sweeper has opened the folder under its temporary name; the writer ends before it looks at the
 * lock: what is whole by then stays. */
static void ends_meanwhile(void) {
  check(!ts_commit_begin(&commit, dir), "begin");
  put_manifest();
  before = end_one;
  sweep();
  check(!before && there("one", "mark") && there("one", "manifest"), "it ends meanwhile");
}

/* The folder is there, and swept before its writer has locked it; then with the sweeper at it. */
static void begins_meanwhile(void) {
  before = sweep_now;
  check(!ts_commit_begin(&commit, dir) && !before, "swept before it is locked");
  put_manifest();
  end("two");
  before = hold;
  check(!ts_commit_begin(&commit, dir) && held >= 0, "locked by the sweeper");
  put_manifest();
  end("three");
  close(held);
  sweep(); /* what it left */
}

/* A folder in the making is kept, one without a mark whose writer is gone is not, nor a temporary one. */
static void leftovers(void) {
  char path[128];
  check(!ts_commit_begin(&commit, dir), "begin");
  put_manifest();
  sweep();
  check(there(commit.temporary, "manifest"), "it is being written");
  char left[TS_FILE_NAME];
  strcpy(left, commit.temporary);
  close(commit.folder), close(commit.parent); /* as if killed */
  sweep();
  check(!there(left, ""), "a temporary folder that nobody writes");
  check(!ts_commit_begin(&commit, dir), "begin");
  put_manifest();
  end("four");
  snprintf(path, sizeof path, "%s/four/mark", dir);
  unlink(path);
  sweep();
  check(!there("four", ""), "a folder without a mark");
  check(nfolder() == 3, "the others are there");
}

static int open_descriptors(void) {
  DIR *d = opendir("/proc/self/fd");
  int n = 0;
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

int main(void) {
  const char *folder = getenv("TMPDIR");
  snprintf(dir, sizeof dir, "%.40s/commit_test.XXXXXX", folder && *folder ? folder : "/tmp");
  if (!mkdtemp(dir)) return 1;
  int n = open_descriptors();
  ends_meanwhile();
  begins_meanwhile();
  leftovers();
  static const char *const names[] = {"one", "two", "three"};
  for (int i = 0; i < 3; i++) check(!ts_commit_remove(dir, names[i]), names[i]);
  check(ts_commit_remove(dir, "one"), "removed twice");
  check(nfolder() == 0 && open_descriptors() == n, "nothing is left open");
  rmdir(dir);
  if (!failures) printf("commit: ok\n");
  return failures != 0;
}
