#include "devices/work.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "devices/memory.h"

enum {
  LINE = 64,
  PAGE = 4096,
  LEAST = PAGE,     /* smaller ones are malloc's */
  MAPPED = 1 << 16, /* larger ones are pages of their own */
  SPARE = 4,        /* a block serves requests of this part of it */
  NSLOT = 24,       /* blocks kept at most, */
  MOST = 64 << 20   /* and their bytes */
};

/* Stands in the line before a block. */
typedef struct Head {
  int64_t nbytes, front; /* of the block, and of what lies before it */
  uint64_t used;         /* clock of its return */
} Head;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *kept[NSLOT];
static int nkept;
static int64_t bytes;
static uint64_t now;

static bool is_mapped(int64_t nbytes) {
#ifdef __SANITIZE_ADDRESS__ /* which shall see overruns */
  return false;
#endif
  return nbytes >= MAPPED;
}

static Head *head(void *at) { return (Head *)(void *)((char *)at - LINE); }

static void *make(int64_t nbytes) {
  int64_t front = nbytes < LEAST ? LINE : PAGE, all = front + nbytes;
  int64_t whole = (all + front - 1) / front * front;
  char *p =
      is_mapped(nbytes) ? ts_memory_map(all) : aligned_alloc((size_t)front, (size_t)whole);
  if (!p) return NULL;
  *head(p + front) = (Head){.nbytes = nbytes, .front = front};
  return p + front;
}

static void unmake(void *at) {
  Head *h = head(at);
  char *p = (char *)at - h->front;
  if (is_mapped(h->nbytes))
    munmap(p, (size_t)(h->front + h->nbytes));
  else
    free(p);
}

static void *leave(int i) {
  void *at = kept[i];
  bytes -= head(at)->nbytes;
  kept[i] = kept[--nkept];
  return at;
}

static int oldest(void) {
  int found = 0;
  for (int i = 1; i < nkept; i++)
    if (head(kept[i])->used < head(kept[found])->used) found = i;
  return found;
}

/* The smallest that is large enough, of these the one used last. */
static void *find(int64_t nbytes) {
  int found = -1;
  for (int i = 0; i < nkept; i++) {
    int64_t n = head(kept[i])->nbytes;
    if (n < nbytes || n / SPARE > nbytes) continue;
    int64_t best = found < 0 ? INT64_MAX : head(kept[found])->nbytes;
    if (n < best || (n == best && head(kept[i])->used > head(kept[found])->used)) found = i;
  }
  return found < 0 ? NULL : leave(found);
}

static void *take(int64_t nbytes) {
  if (nbytes < 0 || nbytes > ts_memory_machine()) return NULL;
  pthread_mutex_lock(&lock);
  bool refused = ts_memory_should_fail();
  void *at = refused || nbytes < LEAST ? NULL : find(nbytes);
  pthread_mutex_unlock(&lock);
  if (at || refused) return at;
#ifndef __SANITIZE_ADDRESS__
  if (nbytes >= LEAST) nbytes = (nbytes + PAGE - 1) / PAGE * PAGE;
#endif
  at = make(nbytes);
  return at || !ts_memory_reclaim() ? at : make(nbytes);
}

void *ts_work_take(int64_t nbytes) { return ts_memory_spoiled(take(nbytes), nbytes); }

void ts_work_give(void *at) {
  if (!at) return;
  int64_t n = head(at)->nbytes;
  bool keep = n >= LEAST && n <= MOST;
#ifdef __SANITIZE_ADDRESS__
  keep = false;
#endif
  if (!keep) {
    unmake(at);
    return;
  }
  void *out[NSLOT];
  int nout = 0;
  pthread_mutex_lock(&lock);
  while (nkept && (nkept == NSLOT || bytes + n > MOST)) out[nout++] = leave(oldest());
  head(at)->used = ++now;
  kept[nkept++] = at;
  bytes += n;
  pthread_mutex_unlock(&lock);
  while (nout) unmake(out[--nout]);
}

void ts_work_trim(void) {
  pthread_mutex_lock(&lock);
  while (nkept) unmake(leave(nkept - 1));
  pthread_mutex_unlock(&lock);
}

int64_t ts_work_kept(void) {
  pthread_mutex_lock(&lock);
  int64_t n = bytes;
  pthread_mutex_unlock(&lock);
  return n;
}
