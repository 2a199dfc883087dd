/* What LLVM's SPIR-V is looked at for. */
#ifndef TS_JIT_COMPILE_SPIRV_H
#define TS_JIT_COMPILE_SPIRV_H

#include <stddef.h>

/* Whether each id of a module is defined once, and is below the bound. LLVM 22 keeps the labels
 * of modules before by the addresses of their functions: a function that comes to lie where one
 * lay has that one's, which may be the ids of something else. 1 or 0; -1: no memory to look. */
int ts_spirv_sound(const void *module, size_t nbytes);
/* The same of LLVM's text. */
int ts_spirv_sound_text(const void *text, size_t nbytes);

#endif
