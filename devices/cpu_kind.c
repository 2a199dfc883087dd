#include "devices/cpu_kind.h"

#include <stdatomic.h>
#include <unistd.h>

int64_t ts_cpu_first_cache(void) {
  static atomic_llong known; /* asking is slow in virtual machines */
  int64_t nbytes = atomic_load_explicit(&known, memory_order_relaxed);
  if (nbytes) return nbytes;
#ifdef _SC_LEVEL1_DCACHE_SIZE
  nbytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
#endif
  if (nbytes <= 0) nbytes = 32 << 10;
  atomic_store_explicit(&known, nbytes, memory_order_relaxed);
  return nbytes;
}

bool ts_cpu_is_amd(void) {
#if defined __x86_64__
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}
