//! Clock, power and energy while something runs, read from NVML by a thread of its own.
//!
//! NVML is loaded when a benchmark starts; where there is none, the benchmark goes on without these
//! figures.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::NVML_FI_DEV_POWER_INSTANT;

use super::stats::median;
use crate::cuda::DeviceInfo;

/// Time from one reading to the next.
const INTERVAL: Duration = Duration::from_millis(2);
/// How long readings are kept: longer than the longest window.
const KEPT: Duration = Duration::from_secs(30);

/// One reading.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    clock_mhz: Option<f64>,
    power_w: Option<f64>,
    /// Energy since the driver was loaded.
    energy_j: Option<f64>,
}

/// What was read during a window of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Clock of the multiprocessors, in MHz: the median.
    pub clock_mhz: Option<f64>,
    /// Power, in watts: from the energy counter where the window is long enough for it, otherwise the
    /// median of the power readings.
    pub power_w: Option<f64>,
    /// Power from the energy counter, in watts: the window's energy over its time.
    pub counted_power_w: Option<f64>,
}

/// What NVML says once.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Version of the driver.
    pub driver: Option<String>,
    /// Power limit in force, in watts.
    pub power_limit_w: Option<f64>,
    /// Highest clock of the multiprocessors, in MHz.
    pub max_clock_mhz: Option<f64>,
}

/// Version of the driver, where NVML says it.
pub fn driver_version() -> Option<String> {
    Nvml::init().ok()?.sys_driver_version().ok()
}

/// A thread that reads until it is dropped.
pub struct Monitor {
    readings: Arc<Mutex<Vec<Reading>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    facts: Facts,
}

impl Monitor {
    /// Starts reading `device`.
    ///
    /// # Errors
    /// In words, when there is no NVML or it does not know the device.
    pub fn start(device: &DeviceInfo) -> Result<Monitor, String> {
        let nvml = Nvml::init().map_err(|error| error.to_string())?;
        let facts = {
            let found = nvml.device_by_pci_bus_id(&*device.pci_bus_id).map_err(|error| error.to_string())?;
            Facts {
                driver: nvml.sys_driver_version().ok(),
                power_limit_w: found.enforced_power_limit().ok().map(from_milli),
                max_clock_mhz: found.max_clock_info(Clock::SM).ok().map(f64::from),
            }
        };
        let readings = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (readings, stop, bus) = (readings.clone(), stop.clone(), device.pci_bus_id.clone());
            std::thread::Builder::new()
                .name(String::from("nvml"))
                .spawn(move || read_until(&nvml, &bus, &readings, &stop))
                .map_err(|error| error.to_string())?
        };
        Ok(Monitor { readings, stop, thread: Some(thread), facts })
    }

    /// What NVML said at the start.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What was read from `start` to `end`.
    pub fn window(&self, start: Instant, end: Instant) -> Window {
        summarise(&self.readings.lock().unwrap_or_else(PoisonError::into_inner), start, end)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has stopped too.
            let _ = thread.join();
        }
    }
}

fn from_milli(value: u32) -> f64 {
    f64::from(value) * 1e-3
}

fn read_until(nvml: &Nvml, bus: &str, readings: &Mutex<Vec<Reading>>, stop: &AtomicBool) {
    let Ok(device) = nvml.device_by_pci_bus_id(bus) else { return };
    // The plain power reading is an average over a second on Hopper; the field is the present value.
    let instant_power = || match device.field_values_for(&[FieldId(NVML_FI_DEV_POWER_INSTANT)]).ok()?.pop()?.ok()?.value
    {
        Ok(SampleValue::U32(milliwatts)) => Some(from_milli(milliwatts)),
        _ => None,
    };
    while !stop.load(Ordering::Relaxed) {
        let reading = Reading {
            clock_mhz: device.clock_info(Clock::SM).ok().map(f64::from),
            power_w: instant_power().or_else(|| device.power_usage().ok().map(from_milli)),
            energy_j: device.total_energy_consumption().ok().map(|millijoules| millijoules as f64 * 1e-3),
            at: Instant::now(),
        };
        {
            let mut readings = readings.lock().unwrap_or_else(PoisonError::into_inner);
            // Dropping them in bulk keeps the cost of a reading constant.
            if readings.len() > 2 * (KEPT.as_millis() / INTERVAL.as_millis()) as usize {
                readings.retain(|old| reading.at.duration_since(old.at) < KEPT);
            }
            readings.push(reading);
        }
        std::thread::sleep(INTERVAL);
    }
}

fn summarise(readings: &[Reading], start: Instant, end: Instant) -> Window {
    let within: Vec<&Reading> = readings.iter().filter(|reading| (start..=end).contains(&reading.at)).collect();
    let counted_power_w = counted_power(&within);
    Window {
        clock_mhz: median(within.iter().filter_map(|reading| reading.clock_mhz)),
        power_w: counted_power_w.or_else(|| median(within.iter().filter_map(|reading| reading.power_w))),
        counted_power_w,
    }
}

/// Mean power between the first and the last step of the energy counter. The counter is brought up to
/// date some tens of times a second, so the ends of a window say nothing; its steps do.
fn counted_power(readings: &[&Reading]) -> Option<f64> {
    let steps: Vec<(Instant, f64)> = readings
        .windows(2)
        .filter_map(|pair| {
            let (before, after) = (pair[0].energy_j?, pair[1].energy_j?);
            (after > before).then_some((pair[1].at, after))
        })
        .collect();
    let (&(first_at, first), &(last_at, last)) = (steps.first()?, steps.last()?);
    let seconds = last_at.duration_since(first_at).as_secs_f64();
    // A few steps only: the error of their times would show.
    const SHORTEST: f64 = 0.3;
    (seconds >= SHORTEST).then(|| (last - first) / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device at 500 W whose counter is brought up to date every 100 ms, and which runs at 1400 MHz in the
    /// middle second of three.
    fn readings(start: Instant) -> Vec<Reading> {
        (0..1500)
            .map(|i| {
                let milliseconds = 2 * i;
                Reading {
                    at: start + Duration::from_millis(milliseconds),
                    clock_mhz: Some(if (1000..2000).contains(&milliseconds) { 1400.0 } else { 1980.0 }),
                    power_w: Some(480.0),
                    energy_j: Some((milliseconds / 100) as f64 * 50.0),
                }
            })
            .collect()
    }

    #[test]
    fn windows_take_only_what_was_read_in_them() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let window = summarise(&readings(start), at(1050), at(1950));
        assert_eq!(window.clock_mhz, Some(1400.0));
        assert!((window.counted_power_w.unwrap() - 500.0).abs() < 1e-6, "{window:?}");
        assert_eq!(window.power_w, window.counted_power_w);
    }

    #[test]
    fn short_windows_fall_back_to_power_readings() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let window = summarise(&readings(start), at(500), at(510));
        assert_eq!((window.power_w, window.counted_power_w), (Some(480.0), None));
        assert_eq!(summarise(&readings(start), at(9000), at(9500)), Window::default());
    }

    #[test]
    fn a_counter_that_is_missing_gives_no_power() {
        let start = Instant::now();
        let mut readings = readings(start);
        readings.iter_mut().for_each(|reading| reading.energy_j = None);
        let window = summarise(&readings, start, start + Duration::from_secs(3));
        assert_eq!((window.power_w, window.counted_power_w), (Some(480.0), None));
    }
}
