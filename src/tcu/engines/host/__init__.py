"""Operations on arrays in the host's memory, by the model of a unit."""

from tcu.engines.host.cross_entropy import cross_entropy as cross_entropy
from tcu.engines.host.cross_entropy import cross_entropy_gradient as cross_entropy_gradient
from tcu.engines.host.engine import execute as execute
from tcu.engines.host.fft import fft as fft
from tcu.engines.host.matmul import multiply as multiply
from tcu.engines.host.matmul import multiply_segments as multiply_segments
from tcu.engines.host.polyval import polyval as polyval
from tcu.engines.host.row_functions import scaled as scaled
