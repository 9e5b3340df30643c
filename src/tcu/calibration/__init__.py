"""Machines fitted to real hardware, and how well they predict it; which algorithms are fastest on it."""

from tcu.calibration.calibrate import Calibration as Calibration
from tcu.calibration.calibrate import Prediction as Prediction
from tcu.calibration.calibrate import calibrate as calibrate
from tcu.calibration.fit import Fit as Fit
from tcu.calibration.fit import Sample as Sample
from tcu.calibration.fit import fit_machine as fit_machine
