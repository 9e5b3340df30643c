"""Operations on arrays in the host's memory, by the model of a unit.

All surfaces come through here, PyTorch's operators and Dask's tasks too, in whatever thread they are: so here the work leaves the
floating-point environment of its caller, once for all that an operation does.
"""

from tcu.engines.host.cross_entropy import cross_entropy as _cross_entropy
from tcu.engines.host.cross_entropy import cross_entropy_gradient as _cross_entropy_gradient
from tcu.engines.host.engine import execute as _execute
from tcu.engines.host.fft import fft as _fft
from tcu.engines.host.matmul import multiply as _multiply
from tcu.engines.host.matmul import multiply_segments as _multiply_segments
from tcu.engines.host.polyval import polyval as _polyval
from tcu.engines.host.row_functions import scaled as _scaled
from tcu.model.ieee_environment import ieee

cross_entropy = ieee(_cross_entropy)
cross_entropy_gradient = ieee(_cross_entropy_gradient)
execute = ieee(_execute)
fft = ieee(_fft)
multiply = ieee(_multiply)
multiply_segments = ieee(_multiply_segments)
polyval = ieee(_polyval)
scaled = ieee(_scaled)
