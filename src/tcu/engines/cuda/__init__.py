"""Operations on arrays in a GPU's memory, on that GPU; CUDA is loaded when first used, not by this import."""

from tcu.engines.cuda.cross_entropy import cross_entropy as cross_entropy
from tcu.engines.cuda.cross_entropy import cross_entropy_gradient as cross_entropy_gradient
from tcu.engines.cuda.engine import execute as execute
from tcu.engines.cuda.fft import fft as fft
from tcu.engines.cuda.index_sums import sum_by_index as sum_by_index
from tcu.engines.cuda.limbs import modular as modular
from tcu.engines.cuda.limbs import multiply_limbs as multiply_limbs
from tcu.engines.cuda.limbs import product_on_gpu as product_on_gpu
from tcu.engines.cuda.limbs import transform_rows as transform_rows
from tcu.engines.cuda.matmul import constant_factor as constant_factor
from tcu.engines.cuda.matmul import multiply as multiply
from tcu.engines.cuda.matmul import multiply_segments as multiply_segments
from tcu.engines.cuda.matmul import vector_factor as vector_factor
from tcu.engines.cuda.mma import mma as mma
from tcu.engines.cuda.polyval import polyval as polyval
from tcu.engines.cuda.row_functions import norms_times as norms_times
from tcu.engines.cuda.row_functions import weighted_norm as weighted_norm
from tcu.engines.cuda.row_gradients import log_gradient as log_gradient
from tcu.engines.cuda.row_gradients import row_gradient as row_gradient
from tcu.engines.cuda.row_gradients import variance_gradient as variance_gradient
