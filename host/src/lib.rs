//! Matrix product for NVIDIA Hopper GPUs.
