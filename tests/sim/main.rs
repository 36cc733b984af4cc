//! The compiled kernels in the simulator: right answers and no findings under many schedules, and planted
//! faults that are all found.

mod clean;
mod cluster_faults;
mod description;
mod edit;
mod faults;
mod gemv_faults;
mod hardware;
mod ladder_faults;
mod parts_faults;
mod plant;
mod problem;
mod turn_faults;
mod wide_faults;
