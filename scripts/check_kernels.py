#!/usr/bin/env python3
"""Compiles the kernels' text as the worker does at its start, with the toolkit's NVRTC: no GPU is needed.

  CUDA_HOME=... scripts/check_kernels.py [COMPUTE_CAPABILITY]      (default: 90)

Prints what NVRTC says and ends with 1 if it refuses the text. The libraries beside NVRTC must be in reach of the loader:
LD_LIBRARY_PATH=$CUDA_HOME/lib64.
"""
import ctypes, os, re, sys

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "worker", "src", "kernels")
names = re.findall(r'include_str!\("(\w+\.cu)"\)', open(os.path.join(folder, "device.rs")).read())
assert names, "device.rs names no kernels"
source = b"".join(open(os.path.join(folder, name), "rb").read() for name in names)

nvrtc = ctypes.CDLL(os.path.join(os.environ["CUDA_HOME"], "lib64", "libnvrtc.so"))
program, size = ctypes.c_void_p(), ctypes.c_size_t()
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels", 0, None, None) == 0
capability = sys.argv[1] if len(sys.argv) > 1 else "90"
options = (ctypes.c_char_p * 2)(f"--gpu-architecture=compute_{capability}".encode(), b"--fmad=false")
code = nvrtc.nvrtcCompileProgram(program, len(options), options)
nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
log = ctypes.create_string_buffer(size.value)
nvrtc.nvrtcGetProgramLog(program, log)
print(log.value.decode() or f"{', '.join(names)}: compiled for compute_{capability}")
sys.exit(code != 0)
