/* The choice of an instruction set. */
#include "vm/core/kernels.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "vm/core/copy.h"

static bool have_avx512(void) {
#if defined __x86_64__
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

/* F16C and LZCNT are older than FMA and BMI2, and not every compiler knows their names. */
static bool have_avx2(void) {
#if defined __x86_64__
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
#else
  return false;
#endif
}

static bool have_base(void) { return true; }

#define FILL_avx512(name, type) ts_kernels_##name##_avx512(&k->name);
#define FILL_avx2(name, type)   ts_kernels_##name##_avx2(&k->name);
#define FILL_base(name, type)   ts_kernels_##name##_base(&k->name);

#if defined __x86_64__
static void fill_avx512(TsKernels *k) { TS_KERNEL_GROUPS(FILL_avx512) }
static void fill_avx2(TsKernels *k) { TS_KERNEL_GROUPS(FILL_avx2) }
#endif
static void fill_base(TsKernels *k) { TS_KERNEL_GROUPS(FILL_base) }

static struct {
  const char *name;
  bool (*have)(void);
  void (*fill)(TsKernels *);
  bool filled;
  TsKernels k;
} isa[] = {
#if defined __x86_64__
    {.name = "avx512", .have = have_avx512, .fill = fill_avx512},
    {.name = "avx2", .have = have_avx2, .fill = fill_avx2},
#endif
    {.name = "base", .have = have_base, .fill = fill_base},
};

bool ts_kernels_have(const char *name) {
  for (size_t i = 0; i < sizeof isa / sizeof *isa; i++)
    if (!strcmp(name, isa[i].name)) return isa[i].have();
  return false;
}

const TsKernels *ts_kernels_of(const char *name) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  const TsKernels *found = NULL;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < sizeof isa / sizeof *isa && !found; i++) {
    if ((name && strcmp(name, isa[i].name)) || !isa[i].have()) continue;
    if (!isa[i].filled) isa[i].fill(&isa[i].k);
    isa[i].filled = true;
    isa[i].k.isa = isa[i].name;
    found = &isa[i].k;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

const TsKernels *ts_kernels_use(const char *name) {
  const TsKernels *k = ts_kernels_of(name);
  if (k) ts_copy_use(&k->copy, &k->convert);
  return k;
}
