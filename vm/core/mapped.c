/* See vm/core/mapped.h. */
#include "vm/core/mapped.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "lib/file.h"

/* A tensor's storage over the file. */
typedef struct Over {
  struct Over *next, **link;
  TsMapped *file;
  TsStorage *storage;
} Over;

/* One over a file is in a list and never freed, but used again: handler and thread may walk at any
 * time. It keeps no descriptor, of which a process has few. */
struct TsMapped {
  TsMapped *next;
  _Atomic(char *) at;
  size_t len;
  int refs;
  bool memory;        /* of no file: the bytes stand behind this */
  atomic_int watch;   /* inotify's number, or -1 */
  atomic_bool told;   /* the file may have changed */
  _Atomic size_t cut; /* from here on its bytes are gone; len: none are */
  size_t lost;        /* from here on they cannot be read any more */
  struct stat state;  /* when it was mapped */
  char *path;
  Over *over;
};

enum { SMALL = 64 << 10, HEADER = (sizeof(TsMapped) + 63) / 64 * 64 };

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
    m->told = changed = true;
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

static void tell(int number) {
  for (TsMapped *m = first; m; m = m->next)
    if (number < 0 || m->watch == number) m->told = changed = true;
}

static void *watch(void *arg) {
  (void)arg;
  _Alignas(struct inotify_event) char events[4096];
  for (;;) {
    ssize_t n = read(notify, events, sizeof events);
    if (n <= 0 && errno != EINTR) return NULL;
    for (char *at = events; at < events + n;) {
      const struct inotify_event *e = (void *)at;
      if (e->mask & (IN_MODIFY | IN_Q_OVERFLOW)) tell(e->wd); /* -1: some were lost */
      at += sizeof *e + e->len;
    }
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

static int begin_watch(int fd) {
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return notify < 0 ? -1 : inotify_add_watch(notify, path, IN_MODIFY);
}

/* A file that is mapped twice has one watch. */
static void end_watch(TsMapped *m) {
  int number = m->watch;
  m->watch = -1;
  for (TsMapped *o = first; o && number >= 0; o = o->next)
    if (o->watch == number) return;
  if (number >= 0) inotify_rm_watch(notify, number);
}

/* ---- mappings */
static TsMapped *take_entry(void) {
  for (TsMapped *m = first; m; m = m->next)
    if (!m->refs) return m;
  TsMapped *m = ts_work_take(sizeof *m);
  if (!m) return NULL;
  *m = (TsMapped){.next = first, .watch = -1};
  first = m;
  return m;
}

TsMapped *ts_mapped_memory(size_t len) {
  TsMapped *m = ts_work_take((int64_t)(HEADER + len));
  if (!m) return errno = ENOMEM, NULL;
  *m = (TsMapped){.refs = 1, .memory = true, .len = len, .cut = len, .lost = len};
  m->at = (char *)m + HEADER;
  return m;
}

static TsMapped *read_small(int fd, size_t len) {
  TsMapped *m = ts_mapped_memory(len);
  if (!m) return NULL;
  errno = EIO; /* of a file that has become shorter */
  if (ts_file_read(fd, m->at, len)) return m;
  int saved = errno;
  ts_mapped_unref(m);
  return errno = saved, NULL;
}

static void end(TsMapped *m) {
  end_watch(m);
  free(m->path);
  m->path = NULL;
}

TsMapped *ts_mapped_open(int fd, const char *path, size_t len) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (len <= SMALL) return read_small(fd, len);
  pthread_once(&once, start);
  TsMapped *m = take_entry();
  if (!m || !(m->path = strdup(path))) return errno = ENOMEM, NULL;
  m->over = NULL;
  m->told = false;
  m->watch = begin_watch(fd); /* before its state is read: what changes from then on is told */
  char *at = MAP_FAILED;
  if (!fstat(fd, &m->state)) at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (at == MAP_FAILED) {
    int saved = errno;
    end(m);
    return errno = saved, NULL;
  }
  m->refs = 1, m->len = m->lost = len, m->cut = len;
  m->at = at;
  return m;
}

void ts_mapped_unref(TsMapped *m) {
  if (--m->refs) return;
  if (m->memory) {
    ts_work_give(m);
    return;
  }
  char *at = m->at;
  end(m);
  m->at = NULL;
  munmap(at, m->len);
}

const char *ts_mapped_bytes(const TsMapped *m, size_t *len) { return *len = m->len, m->at; }

/* ---- tensors */
/* Of bytes that cannot be read any more. A copy on another device stays. */
static void lose(Over *o) {
  TsStorage *s = o->storage;
  if ((size_t)((char *)s->host - o->file->at) + (size_t)s->nbytes <= o->file->lost) return;
  s->valid &= ~1u;
  s->lost = !s->valid;
}

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
  lose(o);
  return t;
}

TsTensor *ts_mapped_tensor(TsContext *c, TsMapped *m, const TsMeta *meta, size_t offset) {
  size_t nbytes = (size_t)ts_meta_nbytes(meta);
  char *at = m->at + offset;
  int align = ts_dtype_in_blocks(meta->dtype) ? 1 : ts_dtypes[meta->dtype].nbytes;
  bool few = m->memory && nbytes <= SMALL;
  if (nbytes && !few && (uintptr_t)at % (uintptr_t)align == 0)
    return tensor_over(c, m, meta, at);
  TsTensor *t = ts_tensor_new(c, meta);
  if (t && nbytes) memcpy(t->storage->host, at, nbytes);
  return t;
}

/* ---- losses */
bool ts_mapped_changed(void) { return atomic_load_explicit(&changed, memory_order_relaxed); }

void ts_mapped_doubt(const TsTensor *t) {
  const TsStorage *s = t->storage;
  if (s->release == leave) ((Over *)s->release_arg)->file->told = changed = true;
}

/* Of one that was replaced or removed nobody can tell but who told. */
static bool is_changed(const TsMapped *m) {
  const struct stat *was = &m->state;
  struct stat st;
  if (stat(m->path, &st) || st.st_ino != was->st_ino || st.st_dev != was->st_dev) return true;
  return st.st_mtim.tv_sec != was->st_mtim.tv_sec || st.st_mtim.tv_nsec != was->st_mtim.tv_nsec;
}

static void look(TsMapped *m) {
  size_t from = is_changed(m) ? 0 : m->cut;
  if (from < m->lost) m->lost = from;
  for (Over *o = m->over; o; o = o->next) lose(o);
}

static int explain(TsContext *c, const TsMapped *m) {
  size_t n = strlen(m->path), most = 160;
  ts_error_set(&c->err, TS_ERR_io, "%s%s was changed by another program while it was in use",
               n > most ? ".." : "", n > most ? m->path + n - most : m->path);
  return ts_error_hint(&c->err,
                       "load it again; tessera.save never changes a file that is loaded");
}

int ts_mapped_settle(TsContext *c) {
  if (!ts_mapped_changed()) return 0;
  changed = false;
  const TsMapped *cut = NULL;
  for (TsMapped *m = first; m; m = m->next) {
    if (!m->refs) continue;
    if (atomic_exchange(&m->told, false)) look(m);
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
