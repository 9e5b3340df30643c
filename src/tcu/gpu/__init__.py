"""The same MMA on real tensor cores; CUDA is loaded when first used, not by this import."""

from tcu.gpu.arrays import dtype_of as dtype_of
from tcu.gpu.arrays import ordinal_of as ordinal_of
from tcu.gpu.device import Gpu as Gpu
from tcu.gpu.device import find_gpu as find_gpu
from tcu.gpu.device import gpu_count as gpu_count
from tcu.gpu.errors import CompileError as CompileError
from tcu.gpu.errors import DriverError as DriverError
from tcu.gpu.errors import ExtraMissingError as ExtraMissingError
from tcu.gpu.errors import GpuError as GpuError
from tcu.gpu.errors import KernelCacheWarning as KernelCacheWarning
from tcu.gpu.errors import NoGpuError as NoGpuError
from tcu.gpu.errors import TuningError as TuningError
from tcu.gpu.errors import TuningWarning as TuningWarning
from tcu.gpu.errors import UnsupportedInstructionError as UnsupportedInstructionError
from tcu.gpu.kernels import KERNELS as KERNELS
from tcu.gpu.kernels import Kernel as Kernel
from tcu.gpu.kernels import find_kernel as find_kernel
from tcu.gpu.kernels import supported as supported
from tcu.gpu.mma import multiply_accumulate as multiply_accumulate
