"""The matrix instructions of this machine's processor; LLVM is loaded when first used, not by this import."""

from tcu.cpu.device import Cpu as Cpu
from tcu.cpu.device import find_cpu as find_cpu
from tcu.cpu.errors import CpuError as CpuError
from tcu.cpu.mma import multiply_accumulate as multiply_accumulate
from tcu.cpu.mma import own_instruction as own_instruction
