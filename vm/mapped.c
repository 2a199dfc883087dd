/* See vm/mapped.h. */
#include "vm/mapped.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"

/* A tensor's storage over the file. */
typedef struct Over {
  struct Over *next, **link;
  TsMapped *file;
  TsStorage *storage;
} Over;

struct TsMapped {
  TsMapped *next; /* never freed, but used again: the handler may walk at any time */
  _Atomic(char *) at;
  size_t len;
  int refs, fd, watch;
  struct timespec changed; /* when the file was, last */
  _Atomic size_t cut;      /* from here on its bytes are gone; len: none are */
  Over *over;
  char name[160]; /* for messages */
};

static _Atomic(TsMapped *) first;
static atomic_bool changed; /* look after the files */
static int notify = -1;
static struct sigaction before;

/* ---- what tells of changes */
static void on_bus(int number, siginfo_t *info, void *context) {
  char *at = info->si_addr;
  for (TsMapped *m = info->si_code > 0 ? first : NULL; m; m = m->next) {
    char *from = m->at;
    if (!from || at < from || at >= from + m->len) continue;
    char *page = (char *)((uintptr_t)at & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1));
    size_t cut = (size_t)(page - from), was = m->cut;
    if (mmap(page, m->len - cut, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
      break;
    while (cut < was && !atomic_compare_exchange_weak(&m->cut, &was, cut)) {
    }
    changed = true;
    ts_cpu_lose();
    return;
  }
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  } else {
    signal(number, SIG_DFL);
    raise(number);
  }
}

static void *watch(void *arg) {
  (void)arg;
  _Alignas(struct inotify_event) char events[4096];
  for (;;) {
    ssize_t n = read(notify, events, sizeof events);
    if (n > 0)
      changed = true;
    else if (errno != EINTR)
      return NULL;
  }
}

static void start(void) {
  struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &before);
  if ((notify = inotify_init1(IN_CLOEXEC)) < 0) return;
  sigset_t all, old;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old); /* Ctrl-C is for others */
  int failed = pthread_create(&thread, NULL, watch, NULL);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (!failed) {
    pthread_detach(thread);
    return;
  }
  close(notify);
  notify = -1;
}

static void begin_watch(TsMapped *m) {
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", m->fd);
  m->watch = notify < 0 ? -1 : inotify_add_watch(notify, path, IN_MODIFY);
}

/* A file that is mapped twice has one watch. */
static void end_watch(TsMapped *m) {
  if (m->watch < 0) return;
  for (TsMapped *o = first; o; o = o->next)
    if (o != m && o->refs && o->watch == m->watch) return;
  inotify_rm_watch(notify, m->watch);
}

/* ---- mappings */
static TsMapped *take_entry(void) {
  for (TsMapped *m = first; m; m = m->next)
    if (!m->refs) return m;
  TsMapped *m = ts_work_take(sizeof *m);
  if (!m) return NULL;
  *m = (TsMapped){.next = first};
  first = m;
  return m;
}

TsMapped *ts_mapped_open(int fd, const char *path, size_t len) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static char nothing[1];
  struct stat st;
  pthread_once(&once, start);
  TsMapped *m = take_entry();
  if (!m) return errno = ENOMEM, NULL;
  m->fd = fd, m->over = NULL, m->watch = -1;
  if (fd >= 0) begin_watch(m); /* before its state is read: what changes from then on is told */
  bool failed = fd >= 0 && fstat(fd, &st);
  int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;
  char *at = failed ? MAP_FAILED : nothing;
  if (len && !failed) at = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (at == MAP_FAILED) return NULL;
  m->refs = 1, m->len = len, m->cut = len;
  if (fd >= 0) m->changed = st.st_mtim;
  size_t n = strlen(path), kept = sizeof m->name - 1;
  snprintf(m->name, sizeof m->name, "%s%s", n > kept ? ".." : "",
           n > kept ? path + n - kept + 2 : path);
  m->at = at;
  return m;
}

void ts_mapped_unref(TsMapped *m) {
  if (--m->refs) return;
  char *at = m->at;
  end_watch(m);
  m->at = NULL;
  if (m->len) munmap(at, m->len);
  if (m->fd >= 0) close(m->fd);
}

const char *ts_mapped_bytes(const TsMapped *m, size_t *len) { return *len = m->len, m->at; }

/* ---- tensors */
static void leave(void *arg) {
  Over *o = arg;
  *o->link = o->next;
  if (o->next) o->next->link = o->link;
  ts_mapped_unref(o->file);
  ts_work_give(o);
}

static TsTensor *tensor_over(TsContext *c, TsMapped *m, const TsMeta *meta, char *at) {
  Over *o = ts_work_take(sizeof *o);
  TsTensor *t = o ? ts_tensor_wrap(c, meta, at, leave, o) : NULL;
  if (!o) ts_error_memory(&c->err);
  if (!t) return ts_work_give(o), NULL;
  *o = (Over){.next = m->over, .link = &m->over, .file = m, .storage = t->storage};
  if (m->over) m->over->link = &o->next;
  m->over = o;
  m->refs++;
  return t;
}

TsTensor *ts_mapped_tensor(TsContext *c, TsMapped *m, const TsMeta *meta, size_t offset) {
  size_t nbytes = (size_t)ts_meta_nbytes(meta);
  char *at = m->at + offset;
  int align = meta->dtype == TS_DT_mxfp4 ? 1 : ts_dtypes[meta->dtype].nbytes;
  if (nbytes && (uintptr_t)at % (uintptr_t)align == 0) return tensor_over(c, m, meta, at);
  TsTensor *t = ts_tensor_new(c, meta);
  if (t && nbytes) memcpy(t->storage->host, at, nbytes);
  return t;
}

/* ---- losses */
bool ts_mapped_changed(void) { return atomic_load_explicit(&changed, memory_order_relaxed); }

void ts_mapped_doubt(void) { changed = true; }

/* A copy on another device stays. */
static void lose(TsStorage *s) {
  s->valid &= ~1u;
  s->lost = !s->valid;
}

static void look(TsMapped *m) {
  struct stat st;
  bool other = !fstat(m->fd, &st) && (st.st_mtim.tv_sec != m->changed.tv_sec ||
                                      st.st_mtim.tv_nsec != m->changed.tv_nsec);
  size_t from = other ? 0 : m->cut;
  for (Over *o = m->over; o; o = o->next)
    if ((size_t)((char *)o->storage->host - m->at) + (size_t)o->storage->nbytes > from)
      lose(o->storage);
}

static int explain(TsContext *c, const TsMapped *m) {
  ts_error_set(&c->err, TS_ERR_io, "%s was changed by another program while it was in use",
               m->name);
  return ts_error_hint(&c->err,
                       "load it again; tessera.save never changes a file that is loaded");
}

int ts_mapped_settle(TsContext *c) {
  if (!ts_mapped_changed()) return 0;
  changed = false;
  const TsMapped *cut = NULL;
  for (TsMapped *m = first; m; m = m->next) {
    if (!m->refs || m->fd < 0) continue;
    look(m);
    if (m->cut < m->len) cut = m;
  }
  return ts_cpu_take_loss() && cut ? explain(c, cut) : 0;
}

int ts_mapped_check(TsContext *c, int n, TsTensor *const *in) {
  if (ts_mapped_settle(c)) return -1;
  for (int i = 0; i < n; i++)
    if (in[i] && in[i]->storage->lost) return ts_mapped_lost(in[i]->storage);
  return 0;
}

int ts_mapped_lost(const TsStorage *s) {
  return explain(s->ctx, ((Over *)s->release_arg)->file);
}
