"""Writes the files that tests/fuzz/io.lua reads: by NumPy and by the safetensors package.
All hold the numbers 0 to 5 in two rows, but for scalar.npy (7), empty.npy, u8_large.npy and parts of .npz.
Needs numpy, torch, safetensors."""
import os

import numpy as np
import torch
from safetensors.torch import save_file

here = os.path.dirname(os.path.abspath(__file__))
x = np.arange(6.0).reshape(2, 3)
np.save(f"{here}/c_order.npy", x)
np.save(f"{here}/fortran.npy", np.asfortranarray(x.astype(np.float32)))
with open(f"{here}/version2.npy", "wb") as f:
    np.lib.format.write_array(f, x.astype(np.int32), version=(2, 0))
np.save(f"{here}/scalar.npy", np.int64(7))
np.save(f"{here}/empty.npy", np.zeros((0, 3), np.float32))
np.save(f"{here}/bool.npy", x.astype(bool))
np.save(f"{here}/complex.npy", x.astype(np.complex64))
np.save(f"{here}/half.npy", x.astype(np.float16))
np.savez(f"{here}/stored.npz", a=x, b=np.asfortranarray(x.astype("<f4")), c=np.uint16([1, 65535]))
np.savez_compressed(f"{here}/packed.npz", a=x, big=np.zeros((300, 40), np.int32), d=x.astype(">i2"),
                    e=np.array([True, False]))
for name, kind in {"turned": ">f8", "turned_complex": ">c8", "turned_half": ">f2", "turned_long": ">i8", "u2": "<u2",
                   "u4": ">u4", "u8": "<u8"}.items():
    np.save(f"{here}/{name}.npy", x.astype(kind))
np.save(f"{here}/u8_large.npy", np.array([1, 2**63], np.uint64))
t = torch.arange(6).reshape(2, 3)
kinds = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
         torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2]
save_file({str(k).split(".")[1]: t.to(k) for k in kinds}, f"{here}/others.safetensors", {"made": "elsewhere"})
