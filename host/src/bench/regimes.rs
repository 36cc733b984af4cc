//! The two ways to time an arm.

use std::time::{Duration, Instant};

use super::arm::Arm;
use super::monitor::{Monitor, Window};
use super::results::Sample;
use crate::cuda::{Device, Event, Stream};
use crate::error::Result;

/// An arm with what timing it needs.
pub struct Runner<'a> {
    /// The arm.
    pub arm: Box<dyn Arm + 'a>,
    /// Its sets of inputs.
    sets: usize,
    /// The set of the next launch.
    next: usize,
    /// Products of a burst, and of a chunk of a slot.
    burst: usize,
    chunk: usize,
    /// What a launch takes of the host, in seconds, where that may matter.
    launch_seconds: Option<f64>,
}

/// A chunk of a slot is about so long: long enough that waiting for it costs nothing, short enough that
/// a slot ends in time.
const CHUNK: Duration = Duration::from_millis(20);
/// More launches than this fill the driver's queue and gain nothing.
const MOST_LAUNCHES: usize = 20_000;

/// A product that takes longer than this, in seconds, hides what its launch takes of the host.
const HIDES_LAUNCHING: f64 = 50e-6;
/// Launches by which that is measured: fewer than the driver's queue holds.
const LAUNCHES: usize = 200;

/// How many products of `seconds` each take about `length`.
pub fn products_for(length: Duration, seconds: f64) -> usize {
    ((length.as_secs_f64() / seconds.max(1e-7)).round() as usize).clamp(1, MOST_LAUNCHES)
}

/// What [`burst`] measured.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// Time of one product, in seconds.
    pub seconds: f64,
    /// When the device began and ended, by the clock of the host.
    pub span: (Instant, Instant),
}

/// Launches `arm` once, then `products` times, and times the latter with events. The first launch lets the
/// host get ahead of the device, so that what is timed is the device and not the launching.
pub fn burst(
    stream: &Stream,
    events: &(Event, Event),
    products: usize,
    mut launch: impl FnMut() -> Result<()>,
) -> Result<Burst> {
    launch()?;
    events.0.record(stream)?;
    let begun = Instant::now();
    for _ in 0..products {
        launch()?;
    }
    events.1.record(stream)?;
    events.1.synchronize()?;
    Ok(Burst { seconds: events.1.seconds_since(&events.0)? / products as f64, span: (begun, Instant::now()) })
}

impl<'a> Runner<'a> {
    /// Measures roughly how long `arm` takes, so that bursts and chunks come out at the length wanted.
    pub fn new(arm: Box<dyn Arm + 'a>, sets: usize, stream: &Stream, burst_length: Duration) -> Result<Self> {
        let mut runner = Runner { arm, sets, next: 0, burst: 0, chunk: 0, launch_seconds: None };
        let events = (Event::new(stream.device())?, Event::new(stream.device())?);
        let mut products = 3;
        // Twice: a second look at what is short, with a burst that is not.
        let mut seconds = 0.0;
        for _ in 0..2 {
            seconds = burst(stream, &events, products, || runner.launch(stream))?.seconds;
            products = products_for(burst_length, seconds);
        }
        runner.burst = products;
        runner.chunk = products_for(CHUNK, seconds);
        if seconds < HIDES_LAUNCHING {
            let begun = Instant::now();
            for _ in 0..LAUNCHES {
                runner.launch(stream)?;
            }
            runner.launch_seconds = Some(begun.elapsed().as_secs_f64() / LAUNCHES as f64);
            stream.synchronize()?;
        }
        Ok(runner)
    }

    /// What a launch takes of the host, in seconds, where the product is so short that it may matter: a product
    /// cannot be measured to take less.
    pub fn launch_seconds(&self) -> Option<f64> {
        self.launch_seconds
    }

    fn launch(&mut self, stream: &Stream) -> Result<()> {
        let set = self.next;
        self.next = (self.next + 1) % self.sets;
        self.arm.launch(stream, set)
    }
}

/// Stream, events and monitor: what every sample is taken with.
pub struct Timer<'a> {
    stream: &'a Stream,
    monitor: Option<&'a Monitor>,
    events: (Event, Event),
}

impl<'a> Timer<'a> {
    /// On `stream`, with clock and power where there is a monitor.
    pub fn new(stream: &'a Stream, monitor: Option<&'a Monitor>) -> Result<Self> {
        let device: &Device = stream.device();
        Ok(Timer { stream, monitor, events: (Event::new(device)?, Event::new(device)?) })
    }

    fn window(&self, start: Instant, end: Instant) -> Window {
        self.monitor.map(|monitor| monitor.window(start, end)).unwrap_or_default()
    }

    /// Rested: pauses, then times one burst.
    pub fn rested(&self, runner: &mut Runner<'_>, round: usize, pause: Duration) -> Result<Sample> {
        self.stream.synchronize()?;
        std::thread::sleep(pause);
        let products = runner.burst;
        let burst = burst(self.stream, &self.events, products, || runner.launch(self.stream))?;
        let window = self.window(burst.span.0, burst.span.1);
        Ok(Sample {
            round,
            products,
            seconds: burst.seconds,
            baseline_seconds: None,
            clock_mhz: window.clock_mhz,
            power_w: window.power_w,
            joules: None,
        })
    }

    /// Sustained: runs back to back for `slot`, and times what comes after the first `settle` of it.
    ///
    /// Chunks are queued so that the device always has the next one while the host waits for the last.
    pub fn sustained(&self, runner: &mut Runner<'_>, round: usize, slot: Duration, settle: Duration) -> Result<Sample> {
        let begun = Instant::now();
        let mut previous = self.queue_chunk(runner)?;
        // The event before the first chunk that is timed, when it was reached, and the chunks since.
        let mut timed: Option<(Event, Instant, usize)> = None;
        loop {
            let end = self.queue_chunk(runner)?;
            previous.synchronize()?;
            timed = match timed {
                None if begun.elapsed() >= settle => Some((previous, Instant::now(), 1)),
                None => None,
                Some((first, started, chunks)) if begun.elapsed() >= slot => {
                    end.synchronize()?;
                    let products = (chunks + 1) * runner.chunk;
                    let seconds = end.seconds_since(&first)? / products as f64;
                    let window = self.window(started, Instant::now());
                    return Ok(Sample {
                        round,
                        products,
                        seconds,
                        baseline_seconds: None,
                        clock_mhz: window.clock_mhz,
                        power_w: window.power_w,
                        joules: window.counted_power_w.map(|power| power * seconds),
                    });
                }
                Some((first, started, chunks)) => Some((first, started, chunks + 1)),
            };
            previous = end;
        }
    }

    /// Queues one chunk of `runner` and returns the event at its end.
    fn queue_chunk(&self, runner: &mut Runner<'_>) -> Result<Event> {
        for _ in 0..runner.chunk {
            runner.launch(self.stream)?;
        }
        let end = Event::new(self.stream.device())?;
        end.record(self.stream)?;
        Ok(end)
    }

    /// Keeps the device busy with `runner` for `length`.
    pub fn warm(&self, runner: &mut Runner<'_>, length: Duration) -> Result<()> {
        self.sustained(runner, 0, length, Duration::ZERO).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_have_at_least_one_product_and_not_too_many() {
        let ten = Duration::from_millis(10);
        assert_eq!(products_for(ten, 1.4e-3), 7);
        assert_eq!(products_for(ten, 1.0), 1);
        assert_eq!(products_for(ten, 0.0), MOST_LAUNCHES);
    }
}
