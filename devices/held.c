/* Locks, and what is made once, of libraries that are left by a jump where memory runs out
 * (ts_memory_on_refusal): whoever leaves with one of them in hand leaves it closed for the whole
 * process, and who comes next waits for ever. So the linker leads these calls here (Makefile,
 * --wrap), and what is asked for between them is given (devices/heap.c). */
#include "devices/held.h"

#include <pthread.h>

int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __real_pthread_mutex_trylock(pthread_mutex_t *m);
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __real_pthread_rwlock_rdlock(pthread_rwlock_t *l);
int __real_pthread_rwlock_wrlock(pthread_rwlock_t *l);
int __real_pthread_rwlock_tryrdlock(pthread_rwlock_t *l);
int __real_pthread_rwlock_trywrlock(pthread_rwlock_t *l);
int __real_pthread_rwlock_unlock(pthread_rwlock_t *l);
int __real_pthread_once(pthread_once_t *once, void (*make)(void));
int __real___cxa_guard_acquire(void *guard);
void __real___cxa_guard_release(void *guard);
void __real___cxa_guard_abort(void *guard);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_rwlock_rdlock(pthread_rwlock_t *l);
int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t *l);
int __wrap_pthread_rwlock_tryrdlock(pthread_rwlock_t *l);
int __wrap_pthread_rwlock_trywrlock(pthread_rwlock_t *l);
int __wrap_pthread_rwlock_unlock(pthread_rwlock_t *l);
int __wrap_pthread_once(pthread_once_t *once, void (*make)(void));
int __wrap___cxa_guard_acquire(void *guard);
void __wrap___cxa_guard_release(void *guard);
void __wrap___cxa_guard_abort(void *guard);

_Thread_local int ts_held;

int __wrap_pthread_mutex_lock(pthread_mutex_t *m) {
  int failed = __real_pthread_mutex_lock(m);
  ts_held += !failed;
  return failed;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *m) {
  int failed = __real_pthread_mutex_trylock(m);
  ts_held += !failed;
  return failed;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m) {
  ts_held--;
  return __real_pthread_mutex_unlock(m);
}

int __wrap_pthread_rwlock_rdlock(pthread_rwlock_t *l) {
  int failed = __real_pthread_rwlock_rdlock(l);
  ts_held += !failed;
  return failed;
}

int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t *l) {
  int failed = __real_pthread_rwlock_wrlock(l);
  ts_held += !failed;
  return failed;
}

int __wrap_pthread_rwlock_tryrdlock(pthread_rwlock_t *l) {
  int failed = __real_pthread_rwlock_tryrdlock(l);
  ts_held += !failed;
  return failed;
}

int __wrap_pthread_rwlock_trywrlock(pthread_rwlock_t *l) {
  int failed = __real_pthread_rwlock_trywrlock(l);
  ts_held += !failed;
  return failed;
}

int __wrap_pthread_rwlock_unlock(pthread_rwlock_t *l) {
  ts_held--;
  return __real_pthread_rwlock_unlock(l);
}

int __wrap_pthread_once(pthread_once_t *once, void (*make)(void)) {
  ts_held++;
  int failed = __real_pthread_once(once, make);
  ts_held--;
  return failed;
}

/* Of a variable of C++ that is made when it is first met: 1, and this thread makes it. */
int __wrap___cxa_guard_acquire(void *guard) {
  int mine = __real___cxa_guard_acquire(guard);
  ts_held += mine;
  return mine;
}

void __wrap___cxa_guard_release(void *guard) {
  ts_held--;
  __real___cxa_guard_release(guard);
}

void __wrap___cxa_guard_abort(void *guard) {
  ts_held--;
  __real___cxa_guard_abort(guard);
}
