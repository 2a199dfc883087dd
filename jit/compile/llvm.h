/* LLVM, contained: one call compiles one kernel in a context of its own, in any thread.
 * Whatever goes wrong inside is an error text. The program may be built without LLVM; then
 * these fail with a sentence. */
#ifndef TS_JIT_LLVM_H
#define TS_JIT_LLVM_H

#include <stdbool.h>
#include <stddef.h>

#include "ir/tile/tile.h"
#include "jit/code/target.h"

bool ts_llvm_present(void);
/* "22.1.8", or "" without LLVM. */
const char *ts_llvm_version(void);

/* A relocatable object, for free(). The kernel is in explicit form and expanded. passes: NULL
 * for the usual ones, or a pipeline in the words of opt, for measurements. */
int ts_llvm_object(const TsTile *k, const TsTarget *t, const char *passes, void **object,
                   size_t *nbytes, TsError *err);
/* Code that is not the CPU's phases: emit adds functions to the empty module of e. The result
 * is added to text: an object's bytes, assembly (of NVPTX: PTX), or IR. passes as above. */
struct TsEmit;
typedef void TsLlvmEmit(struct TsEmit *e, void *arg);
typedef enum TsLlvmForm { TS_LLVM_object, TS_LLVM_assembly, TS_LLVM_ir } TsLlvmForm;
int ts_llvm_emit(const TsTile *k, const TsTarget *t, const char *passes, TsLlvmForm form,
                 TsLlvmEmit *emit, void *arg, TsText *text, TsError *err);
/* The LLVM IR after the passes, or the assembly. */
int ts_llvm_text(const TsTile *k, const TsTarget *t, bool assembly, TsText *text, TsError *err);
/* For tests: of so many compiles from now on each ends within LLVM, which would end the process:
 * an instruction of another machine is asked for. */
void ts_llvm_break(int compiles);

#endif
