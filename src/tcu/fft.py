"""Fourier transforms whose bits are the same in every batch, along every axis, on every CPU and every GPU.

The functions are those of ``numpy.fft``, with the same parameters and conventions, and SciPy's cosine and sine transforms.
A transform is computed by a plan (:mod:`tcu.plan.fft`) that says every operation; it depends on the length and the format alone.
"""

from tcu.surfaces.convolution import convolve as convolve
from tcu.surfaces.convolution import correlate as correlate
from tcu.surfaces.cosines import dct as dct
from tcu.surfaces.cosines import dst as dst
from tcu.surfaces.cosines import idct as idct
from tcu.surfaces.cosines import idst as idst
from tcu.surfaces.fft import error_bound as error_bound
from tcu.surfaces.fft import fft as fft
from tcu.surfaces.fft import fft2 as fft2
from tcu.surfaces.fft import fftfreq as fftfreq
from tcu.surfaces.fft import fftn as fftn
from tcu.surfaces.fft import fftshift as fftshift
from tcu.surfaces.fft import hfft as hfft
from tcu.surfaces.fft import ifft as ifft
from tcu.surfaces.fft import ifft2 as ifft2
from tcu.surfaces.fft import ifftn as ifftn
from tcu.surfaces.fft import ifftshift as ifftshift
from tcu.surfaces.fft import ihfft as ihfft
from tcu.surfaces.fft import irfft as irfft
from tcu.surfaces.fft import irfft2 as irfft2
from tcu.surfaces.fft import irfftn as irfftn
from tcu.surfaces.fft import rfft as rfft
from tcu.surfaces.fft import rfft2 as rfft2
from tcu.surfaces.fft import rfftfreq as rfftfreq
from tcu.surfaces.fft import rfftn as rfftn

__all__ = [
    "fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn", "hfft", "ihfft",
    "fftshift", "ifftshift", "fftfreq", "rfftfreq", "dct", "idct", "dst", "idst", "convolve", "correlate", "error_bound",
]  # fmt: skip
