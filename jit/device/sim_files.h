/* What the simulated device keeps in folders, for tests that give its kernels to others: to an
 * assembler, to an emulator of a GPU that is not here. */
#ifndef TS_JIT_SIM_FILES_H
#define TS_JIT_SIM_FILES_H

#include "devices/device.h"
#include "ir/tile/tile.h"

/* TESSERA_SIM_PTX names a folder: the code of each kernel goes there, without and with marks, as it
 * is for the oldest GPU; kernels with roles of newer ones are left out. */
void ts_sim_files_code(const TsTile *k);

/* TESSERA_SIM_OBJECTS names a folder: launches go there, a file each, if the device's target takes
 * objects: lines of text, an empty one, bytes. *out: NULL where none is wanted or the launch is large.
 *
 *   target gfx942
 *   object 8424                  bytes of the code object, which come first behind the lines
 *   phase phase0 256 3 4096      name, threads of a block, blocks, bytes of dynamic shared memory
 *   memory 140702 0 512 f32      of a parameter: address that it had, bytes before and from it on,
 *                                dtype; its bytes before the launch, and
 *                                behind those of all parameters what is there afterwards
 *   scratch 1024                 bytes; these addresses are arguments behind the parameters
 *   dim 7                        then symbolic sizes, 8 bytes each
 */
typedef struct TsSimFile TsSimFile;
int ts_sim_file_begin(TsDevice *d, const TsTile *k, bool aligned, void *const *at,
                      const int64_t *dim, TsSimFile **out, TsError *err);
void ts_sim_file_end(TsSimFile *f, int failed); /* NULL: nothing */

#endif
