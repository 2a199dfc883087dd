/* What all drivers of tests have that have no GPU, over host memory. Streams do their work at
 * once, but for uploads and downloads, which are done when somebody waits, so that a missing
 * wait shows. fake_fail() lets the n-th call of a function fail. Handles are looked up: one
 * that was destroyed, or is another device's, is an error, and said by fake_complaint(). After
 * fake_any() no code runs: for tests that count calls. After fake_hold(1) loading code takes
 * until fake_hold(0). Who includes it defines before FAKE_FIRST, the device that a thread has
 * in the beginning, and the codes INVALID, OUT_OF_MEMORY and ILLEGAL_ADDRESS. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices/driver/driver.h"

enum { NDEVICE = 2, MOST = 4096 };

/* ---- for tests */
void fake_fail(const char *call, int after, int code);
long fake_count(const char *call);
long fake_calls(void);
long fake_blocks(void);
long fake_used(void);
void fake_limit(long nbytes);
void fake_any(void);
void fake_hold(int on);
const char *fake_complaint(void); /* the first misuse since the last question, or "" */

static char failing[64], complaint[200];
static int fail_after, fail_code;
static long used, limit = 256L << 20, nblocks;
static struct {
  char *at;
  size_t nbytes;
  int device;
} block[MOST];
static struct {
  const char *name;
  long n;
} counted[96];

void fake_fail(const char *call, int after, int code) {
  snprintf(failing, sizeof failing, "%s", call);
  fail_after = after, fail_code = code;
}
long fake_blocks(void) { return nblocks; }
long fake_used(void) { return used; }
void fake_limit(long nbytes) { limit = nbytes; }
const char *fake_complaint(void) {
  static char text[sizeof complaint];
  memcpy(text, complaint, sizeof text);
  complaint[0] = 0;
  return text;
}
static bool any;
void fake_any(void) { any = true; }
/* Code is loaded when it is let go. */
static atomic_int held;
void fake_hold(int on) { held = on; }

static long *counter(const char *call) {
  int i = 0;
  while (counted[i].name && strcmp(counted[i].name, call)) i++;
  if (!counted[i].name) counted[i].name = strdup(call);
  return &counted[i].n;
}
/* Threads that compile load code, and one fetches. */
static pthread_mutex_t entering = PTHREAD_MUTEX_INITIALIZER;
long fake_count(const char *call) {
  pthread_mutex_lock(&entering);
  long n = *counter(call);
  pthread_mutex_unlock(&entering);
  return n;
}
long fake_calls(void) {
  long n = 0;
  for (int i = 0; counted[i].name; i++) n += counted[i].n;
  return n;
}

static int count_call(const char *call) {
  pthread_mutex_lock(&entering);
  ++*counter(call);
  bool fails = fail_after > 0 && !strcmp(call, failing) && --fail_after == 0;
  pthread_mutex_unlock(&entering);
  return fails ? fail_code : 0;
}

static int wrong(int code, const char *call, const char *format, ...) {
  char text[120];
  va_list a;
  va_start(a, format);
  vsnprintf(text, sizeof text, format, a);
  va_end(a);
  if (!complaint[0]) snprintf(complaint, sizeof complaint, "%s: %s", call, text);
  return code;
}

/* One at a time in what follows; the lock is left with the block. */
static pthread_mutex_t inside = PTHREAD_MUTEX_INITIALIZER;
static int lock(void) { return pthread_mutex_lock(&inside); }
static void unlock(int *locked) {
  if (!*locked) pthread_mutex_unlock(&inside);
}
#define ENTER_AS(call)                                                                         \
  int bad_ = count_call(call);                                                                 \
  if (bad_) return bad_;                                                                       \
  __attribute__((cleanup(unlock), unused)) int locked_ = lock()
/* ---- devices: the thread's, by number and one; 0: none yet */
static _Thread_local int current = FAKE_FIRST;

static int is_current(const char *call, int device) {
  if (device == current) return 0;
  return wrong(INVALID, call, "of device %d, the thread's is %d", device - 1, current - 1);
}

/* ---- handles */
typedef struct Handle {
  struct Handle *next;
  const char *kind;
  int device;
} Handle;
static Handle *handles;

static void *handle_new(size_t size, const char *kind) {
  Handle *h = calloc(1, size);
  h->kind = kind, h->device = current;
  h->next = handles;
  return handles = h;
}

static Handle *handle_of(const void *of, const char *kind) {
  Handle *h = handles;
  while (h && (h != of || strcmp(h->kind, kind))) h = h->next;
  return h;
}

/* kind: of what it has to be, alive. */
static int check(const char *call, const void *of, const char *kind) {
  return handle_of(of, kind) ? 0 : wrong(INVALID, call, "no %s that lives", kind);
}

static int check_here(const char *call, const void *of, const char *kind) {
  Handle *h = handle_of(of, kind);
  return h ? is_current(call, h->device) : check(call, of, kind);
}

static int handle_free(const char *call, void *of, const char *kind) {
  Handle **at = &handles;
  if (check_here(call, of, kind)) return INVALID;
  while (*at != of) at = &(*at)->next;
  *at = (*at)->next;
  free(of);
  return 0;
}
#define MUST(x)                                                                                \
  do {                                                                                         \
    int code_ = (x);                                                                           \
    if (code_) return code_;                                                                   \
  } while (0)

/* ---- copies that wait to be done, in the order in which they were asked for */
static struct {
  void *to;
  const void *from;
  size_t nbytes;
} later[MOST];
static int nlater;

static void flush(void) {
  for (int i = 0; i < nlater; i++) memcpy(later[i].to, later[i].from, later[i].nbytes);
  nlater = 0;
}
static void put_off(void *to, const void *from, size_t nbytes) {
  if (nlater == MOST) flush();
  later[nlater].to = to, later[nlater].from = from, later[nlater++].nbytes = nbytes;
}

/* A copy beyond a block is what a GPU calls an illegal address. device 0: whosever it is. */
static int is_inside(const char *call, const void *at, size_t nbytes, int device) {
  const char *p = at;
  for (int i = 0; i < nblocks; i++)
    if (p >= block[i].at && p + nbytes <= block[i].at + block[i].nbytes)
      return !device || device == block[i].device
                 ? 0
                 : wrong(ILLEGAL_ADDRESS, call, "memory of another device");
  return wrong(ILLEGAL_ADDRESS, call, "%zu bytes that are of no block", nbytes);
}

/* ---- memory */
static int block_new(const char *call, void **at, size_t nbytes) {
  if (!current) return wrong(INVALID, call, "of no device");
  if (used + (long)nbytes > limit || nblocks == MOST) return OUT_OF_MEMORY;
  void *p = aligned_alloc(512, (nbytes + 511) / 512 * 512);
  if (!p) return OUT_OF_MEMORY;
  memset(p, 0xa5, nbytes < 4096 ? nbytes : 4096);
  *at = p;
  block[nblocks].at = p, block[nblocks].device = current, block[nblocks++].nbytes = nbytes;
  used += (long)nbytes;
  return 0;
}
static int block_free(const char *call, void *at) {
  flush(); /* a real one waits for the device as well */
  for (int i = 0; i < nblocks; i++) {
    if (block[i].at != at) continue;
    used -= (long)block[i].nbytes;
    block[i] = block[--nblocks];
    free(at);
    return 0;
  }
  return wrong(INVALID, call, "no block begins there");
}
static struct {
  char *at;
  size_t nbytes;
} pinned[64];
static bool is_pinned(const char *at) {
  for (int i = 0; i < 64; i++)
    if (pinned[i].at && at >= pinned[i].at && at < pinned[i].at + pinned[i].nbytes) return true;
  return false;
}
static int pinned_new(void **at, size_t nbytes) {
  if (!(*at = malloc(nbytes))) return OUT_OF_MEMORY;
  int i = 0;
  while (i < 63 && pinned[i].at) i++;
  pinned[i].at = *at, pinned[i].nbytes = nbytes;
  return 0;
}
static int pinned_free(const char *call, void *at) {
  flush();
  if (!is_pinned(at)) return wrong(INVALID, call, "no such memory");
  for (int i = 0; i < 64; i++)
    if (pinned[i].at == at) pinned[i].at = NULL;
  free(at);
  return 0;
}
