/* Loads what LLVM emits for one kernel: a relocatable ELF object whose only undefined symbols
 * are functions of a fixed list. A linker in general is not wanted here: the code generator
 * emits five kinds of relocations, and a kernel is one file. */
#ifndef TS_JIT_OBJECT_H
#define TS_JIT_OBJECT_H

#include <stddef.h>

#include "lib/error.h"

typedef struct TsObject {
  char *at; /* mapped memory */
  size_t nbytes;
} TsObject;

/* Finds the addresses of n functions; one that the object lacks is an error. Nothing of `elf`
 * is needed afterwards. The bytes may be damaged: whatever they are, this gives code or an
 * error. */
int ts_object_load(TsObject *o, const void *elf, size_t nbytes, int n, const char *const *name,
                   void **address, TsError *err);
void ts_object_unload(TsObject *o);

#endif
