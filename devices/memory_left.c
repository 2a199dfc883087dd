/* How much memory the machine has left for this program, and what may be taken of it.
 *
 * The system grants more than it has and ends a process when pages are written, so a program that
 * grows without an end (a recursion, a list of tensors) would be ended, or others would. Growth is
 * counted instead, and before it exceeds a part of what is left the system is asked again: some
 * microseconds for many megabytes. A rest is left to everybody else. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices/memory.h"

enum {
  MIB = 1 << 20,
  MOST_CREDIT = 64 * MIB, /* taken by a thread before it asks again; of what is left, */
  PART = 16,              /* one part of so many */
  REST_PART = 32,         /* of the machine's memory stays free, */
  MOST_REST = 1 << 30     /* but not more than this */
};

_Thread_local int64_t ts_memory_credit = MOST_CREDIT;
static atomic_llong pretended = -1;

/* ---- what the system says. No call here allocates. */
static int64_t number_in(const char *path, const char *key) {
  char text[8192];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return -1;
  text[n] = 0;
  const char *at = *key ? strstr(text, key) : text;
  if (!at) return -1;
  at += strlen(key);
  at += strspn(at, ": \t");
  return *at >= '0' && *at <= '9' ? strtoll(at, NULL, 10) : -1; /* "max" is no number */
}

/* Control groups limit a container; the page cache they count is given back before anybody is
 * refused. Without a limit, or where there are none: as much as you like. */
static int64_t left_in_group(const char *folder) {
  static const char *const name[2][2] = {{"memory.max", "memory.current"},
                                         {"memory.limit_in_bytes", "memory.usage_in_bytes"}};
  int64_t left = INT64_MAX;
  char path[512];
  for (int v = 0; v < 2; v++) {
    snprintf(path, sizeof path, "%s/%s", folder, name[v][0]);
    int64_t most = number_in(path, "");
    if (most < 0) continue;
    snprintf(path, sizeof path, "%s/%s", folder, name[v][1]);
    int64_t used = number_in(path, "");
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    int64_t cached = number_in(path, "\ninactive_file");
    if (used >= 0) left = most - used + (cached > 0 ? cached : 0);
  }
  return left;
}

static int64_t left_in_groups(void) {
  static const char *const folder[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/memory"};
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < sizeof folder / sizeof *folder; i++) {
    int64_t left = left_in_group(folder[i]);
    if (left < least) least = left;
  }
  return least;
}

int64_t ts_memory_left(void) {
  int64_t machine = ts_memory_machine(), rest = machine / REST_PART;
  int64_t left = number_in("/proc/meminfo", "MemAvailable"), group = left_in_groups();
  left = left < 0 ? machine : left * 1024;
  if (group < left) left = group;
  if (rest > MOST_REST) rest = MOST_REST;
  return left > rest ? left - rest : 0;
}

/* ---- what may be taken */
void ts_memory_pretend(int64_t left) {
  atomic_store(&pretended, left);
  ts_memory_credit = left < 0 ? MOST_CREDIT : 0;
}

/* For tests: nothing is given back. */
static int64_t pretend_less(int64_t n) {
  int64_t left = atomic_load(&pretended);
  if (n <= left) atomic_fetch_sub(&pretended, n);
  return left;
}

bool ts_memory_pretends(void) {
  return atomic_load_explicit(&pretended, memory_order_relaxed) >= 0;
}

bool ts_memory_look(int64_t n) {
  bool real = !ts_memory_pretends();
  int64_t left = real ? ts_memory_left() : pretend_less(n);
  ts_memory_credit = 0;
  if (n > left) return false;
  int64_t part = (left - n) / PART;
  if (real) ts_memory_credit = part < MOST_CREDIT ? part : MOST_CREDIT;
  return true;
}
