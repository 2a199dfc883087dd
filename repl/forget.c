#include "repl/forget.h"

#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* The program itself comes first. */
static int forget(struct dl_phdr_info *info, size_t size, void *arg) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  (void)size, (void)arg;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *h = &info->dlpi_phdr[i];
    if (h->p_type != PT_LOAD || (h->p_flags & PF_W)) continue;
    uintptr_t from = (uintptr_t)(info->dlpi_addr + h->p_vaddr) / page * page;
    uintptr_t to = (uintptr_t)(info->dlpi_addr + h->p_vaddr + h->p_memsz) / page * page;
    if (to > from) madvise((void *)from, to - from, MADV_DONTNEED);
  }
  return 1;
}

void ts_forget_start(void) { dl_iterate_phdr(forget, NULL); }
