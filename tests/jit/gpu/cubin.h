/* Machine code of sm_70 to sm_90, as far as tests read it: 16 bytes an instruction, the operation
 * in the lowest 12 bits, and in the highest bits by which of six counters its result says that
 * it is there (110-112, 7: by none), and for which of them it waits before it begins (116-121).
 *
 * A role that has read a stage says so at a barrier, and the copy engine refills the stage. What is
 * said does not wait for reads of shared memory that are still under way: the code has to, by
 * an instruction that needs what was read or a fence. Reads come in the order in which they
 * began, so a wait for one is a wait for those before it. */
#ifndef TESTS_JIT_GPU_CUBIN_H
#define TESTS_JIT_GPU_CUBIN_H

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  CUBIN_READ_MATRIX = 0x83b, /* LDSM */
  CUBIN_READ = 0x984,        /* LDS */
  CUBIN_ARRIVE = 0x9a7,      /* SYNCS.ARRIVE */
  CUBIN_FENCE = 0x992,       /* MEMBAR */
  CUBIN_NOWHERE = 0xff       /* RZ: the read is there to take time */
};

/* Where code says that it has read what it may still be reading; -1: nowhere. */
static inline int64_t cubin_late_read(const unsigned char *code, size_t nbytes) {
  int begun = 0, there = 0, told[6] = {0};
  for (size_t at = 0; at + 16 <= nbytes; at += 16) {
    uint64_t low, high;
    memcpy(&low, code + at, 8), memcpy(&high, code + at + 8, 8);
    unsigned op = low & 0xfff, to = low >> 16 & 0xff;
    unsigned by = high >> 46 & 7, awaits = high >> 52 & 63;
    for (int i = 0; i < 6; i++)
      if (awaits >> i & 1 && told[i] > there) there = told[i];
    if (op == CUBIN_FENCE) there = begun;
    if (op == CUBIN_ARRIVE && there < begun) return (int64_t)at;
    if ((op != CUBIN_READ_MATRIX && op != CUBIN_READ) || to == CUBIN_NOWHERE) continue;
    begun++;
    if (by < 6) told[by] = begun;
  }
  return -1;
}

static inline void cubin_sections(const unsigned char *file, size_t nbytes, char *complaint,
                                  size_t size) {
  Elf64_Ehdr head;
  if (nbytes < sizeof head) return;
  memcpy(&head, file, sizeof head);
  for (int i = 0; i < head.e_shnum; i++) {
    Elf64_Shdr s;
    size_t at = (size_t)head.e_shoff + (size_t)i * sizeof s;
    if (at + sizeof s > nbytes) return;
    memcpy(&s, file + at, sizeof s);
    if (!(s.sh_flags & SHF_EXECINSTR) || s.sh_offset + s.sh_size > nbytes) continue;
    int64_t late = cubin_late_read(file + s.sh_offset, s.sh_size);
    if (late >= 0)
      snprintf(complaint, size, "at 0x%llx a stage is left whose reads are under way",
               (unsigned long long)late);
  }
}

/* Says into complaint what is wrong of a file of machine code, nothing if nothing is. */
static inline void late_reads(const char *path, char *complaint, size_t size) {
  FILE *f = fopen(path, "rb");
  unsigned char *file = NULL;
  long n = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
  if (n > 0) rewind(f), file = malloc((size_t)n);
  if (!file || fread(file, 1, (size_t)n, f) != (size_t)n)
    snprintf(complaint, size, "no code was written");
  else
    cubin_sections(file, (size_t)n, complaint, size);
  free(file);
  if (f) fclose(f);
}

#endif
