"""Number formats: bits to values and back, one number or whole arrays at a time."""

from tcu.formats.array import decode_array as decode_array
from tcu.formats.array import encode_array as encode_array
from tcu.formats.array import round_array as round_array
from tcu.formats.format import FORMATS as FORMATS
from tcu.formats.format import Format as Format
from tcu.formats.format import format_of as format_of
from tcu.formats.format import get_format as get_format
from tcu.formats.scalar import Number as Number
from tcu.formats.scalar import Overflow as Overflow
from tcu.formats.scalar import Rounding as Rounding
from tcu.formats.scalar import decode as decode
from tcu.formats.scalar import encode as encode
from tcu.formats.scalar import round_to as round_to
