"""The catalogue of matrix units: what each one computes, as a table of parameters."""

from tcu.units.arithmetic import AlignedSum as AlignedSum
from tcu.units.arithmetic import Arithmetic as Arithmetic
from tcu.units.arithmetic import ExactBlock as ExactBlock
from tcu.units.arithmetic import ExactInteger as ExactInteger
from tcu.units.arithmetic import FlushedTree as FlushedTree
from tcu.units.arithmetic import FusedChain as FusedChain
from tcu.units.arithmetic import GroupedSum as GroupedSum
from tcu.units.arithmetic import LateSum as LateSum
from tcu.units.catalogue import CATALOGUE as CATALOGUE
from tcu.units.instruction import Evidence as Evidence
from tcu.units.instruction import Instruction as Instruction
from tcu.units.instruction import Standing as Standing
from tcu.units.instruction import Unit as Unit
from tcu.units.lookup import DEFAULT_UNIT as DEFAULT_UNIT
from tcu.units.lookup import find_instruction as find_instruction
from tcu.units.lookup import find_scale as find_scale
from tcu.units.lookup import get_unit as get_unit
from tcu.units.lookup import input_formats as input_formats
from tcu.units.lookup import product_instruction as product_instruction
from tcu.units.lookup import units_with as units_with
