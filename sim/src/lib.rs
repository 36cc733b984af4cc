//! A model of a Hopper GPU that runs PTX on a CPU and finds races and deadlocks in it.
//!
//! [`Program::load`] reads one entry of a PTX module, [`run`] runs a [`Launch`] of it over a [`Memory`]
//! under a [`Schedule`]. The model knows what TMA, mbarriers and wgmma may and may not do: loads land late
//! and in any order, accumulators are in flight until they are waited for, ordinary stores are invisible to
//! the async proxy until a fence. What a kernel may not rely on is a [`Finding`].

pub mod alu;
pub mod clock;
mod cluster;
pub mod description;
mod exec;
pub mod float;
pub mod gemm;
mod global;
pub mod launch;
pub mod mbarrier;
pub mod memory;
pub mod program;
pub mod report;
mod run;
pub mod schedule;
mod shared;
pub mod tensor_core;
pub mod tensor_map;
pub mod timing;
pub mod trace;
mod warp;

pub use launch::{Argument, Launch, Options, Role};
pub use memory::{Access, BufferId, Memory};
pub use program::{LoadError, Program};
pub use report::{Finding, Kind};
pub use run::{Control, Explored, Outcome, explore, run};
pub use schedule::Schedule;
pub use tensor_map::TensorMap;
