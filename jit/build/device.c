/* See jit/build/device.h. */
#include "jit/build/device.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/tile/sequence.h"
#include "jit/code/queue.h"
#include "lib/thread.h"

enum { MOST_THREADS = 8 };

typedef struct One {
  const TsTile *k;
  uint8_t key[32];
  TsDeviceKernel *open;
} One;

struct TsDeviceSet {
  TsDevice *d;
  One *one;
  int n;
  atomic_int next;
  atomic_bool full; /* memory ran out */
};

/* ---- which there are */
static int count(int n, const TsTile *const *k) {
  int all = 0;
  for (int i = 0; i < n; i++) all += !k[i] ? 0 : k[i]->sequence ? k[i]->sequence->n : 1;
  return all;
}

static void add(TsDeviceSet *s, const TsTile *k) {
  One *o = &s->one[s->n++];
  o->k = k;
  ts_device_kernel_key(k, o->key);
}

static int by_key(const void *a, const void *b) {
  return memcmp(((const One *)a)->key, ((const One *)b)->key, sizeof((const One *)a)->key);
}

static void drop_equal(TsDeviceSet *s) {
  int kept = 0;
  qsort(s->one, (size_t)s->n, sizeof *s->one, by_key);
  for (int i = 0; i < s->n; i++)
    if (!i || by_key(&s->one[i], &s->one[kept - 1])) s->one[kept++] = s->one[i];
  s->n = kept;
}

TsDeviceSet *ts_device_set(TsDevice *d, int n, const TsTile *const *k, TsError *err) {
  TsDeviceSet *s = calloc(1, sizeof *s);
  if (s) s->one = calloc((size_t)count(n, k) + 1, sizeof *s->one);
  if (!s || !s->one) return free(s), ts_error_memory(err), NULL;
  s->d = d;
  for (int i = 0; i < n; i++) {
    if (k[i] && !k[i]->sequence) add(s, k[i]);
    for (int j = 0; k[i] && k[i]->sequence && j < k[i]->sequence->n; j++)
      add(s, k[i]->sequence->step[j].k);
  }
  drop_equal(s);
  return s;
}

/* Half of the processors: the program goes on meanwhile. */
static int threads_for(const TsDeviceSet *s) {
  long n = sysconf(_SC_NPROCESSORS_ONLN) / 2;
  if (n > MOST_THREADS) n = MOST_THREADS;
  if (n > s->n) n = s->n;
  return n < 1 || s->d->simulated ? 1 : (int)n;
}

double ts_device_set_usec(const TsDeviceSet *s) {
  double usec = 0;
  for (int i = 0; i < s->n; i++)
    usec += ts_device_kernel_cost(s->d, s->one[i].k, s->one[i].key);
  return usec / threads_for(s);
}

bool ts_device_set_known(const TsDeviceSet *s) {
  for (int i = 0; i < s->n; i++)
    if (!ts_device_kernel_known(s->d, s->one[i].k, s->one[i].key)) return false;
  return true;
}

/* ---- opening */
static void *open_some(void *arg) {
  TsDeviceSet *s = arg;
  for (int i; (i = atomic_fetch_add(&s->next, 1)) < s->n;) {
    TsError err = {0};
    s->one[i].open = ts_device_kernel_open_as(s->d, s->one[i].k, s->one[i].key, &err);
    if (!s->one[i].open && err.code == TS_ERR_memory) atomic_store(&s->full, true);
  }
  return NULL;
}

int ts_device_set_open(TsDeviceSet *s, TsError *err) {
  pthread_t thread[MOST_THREADS];
  int n = 0;
  for (int most = threads_for(s) - 1; n < most; n++)
    if (!ts_thread_start(&thread[n], TS_QUEUE_STACK, open_some, s)) break;
  open_some(s);
  while (n-- > 0) pthread_join(thread[n], NULL);
  return atomic_load(&s->full) ? ts_error_memory(err) : 0;
}

void ts_device_set_free(TsDeviceSet *s) {
  for (int i = 0; s && i < s->n; i++) ts_device_kernel_free(s->one[i].open);
  if (s) free(s->one);
  free(s);
}
