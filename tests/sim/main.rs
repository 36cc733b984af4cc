//! The compiled kernels in the simulator: right answers and no findings under many schedules, and planted
//! faults that are all found.

mod clean;
mod edit;
mod faults;
mod problem;
