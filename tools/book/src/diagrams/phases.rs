//! The phases of one stage's two barriers, and why one end begins at parity 1 and the other at 0. What is drawn is
//! what a model of an mbarrier does.

use crate::svg::{At, Drawing, Fill};

/// An mbarrier, as far as waits see it (PTX ISA, "Phase of the mbarrier object").
#[derive(Default)]
struct Barrier {
    completed: u32,
}

impl Barrier {
    /// Whether a wait for the phase of this parity passes: phases complete one after the other, and that of the other
    /// parity is the one in progress.
    fn passes(&self, parity: u32) -> bool {
        self.completed % 2 != parity
    }

    fn complete(&mut self) {
        self.completed += 1;
    }
}

/// One end's turns at a stage: it waits for its parity, which then changes.
struct End {
    parity: u32,
}

impl End {
    fn turn(&mut self, barrier: &Barrier) -> (u32, bool) {
        let waited = (self.parity, barrier.passes(self.parity));
        self.parity ^= 1;
        waited
    }
}

/// What happens at a stage, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Event {
    /// An end waits on a barrier for a parity; whether it passes at once.
    Wait { producer: bool, parity: u32, passes: bool },
    /// A fill has landed: a phase of the full barrier completes.
    Landed,
    /// The consumers have released the stage: a phase of the empty barrier completes.
    Released,
}

/// `fills` fills of one stage, each wait as early as it can be.
fn events(fills: u32) -> Vec<Event> {
    let (mut full, mut empty) = (Barrier::default(), Barrier::default());
    let (mut producer, mut consumer) = (End { parity: 1 }, End { parity: 0 });
    let mut events = Vec::new();
    for _ in 0..fills {
        let (parity, passes) = producer.turn(&empty);
        events.push(Event::Wait { producer: true, parity, passes });
        if !passes {
            empty.complete();
            events.push(Event::Released);
        }
        let (parity, passes) = consumer.turn(&full);
        events.push(Event::Wait { producer: false, parity, passes });
        if !passes {
            full.complete();
            events.push(Event::Landed);
        }
    }
    events
}

/// Three fills of one stage.
pub fn draw() -> String {
    let events = events(3);
    let (left, step, width) = (104.0, 60.0, 780);
    let mut drawing = Drawing::new(width, 268);
    let (producer, empty, full, consumer) = (34.0, 76.0, 146.0, 216.0);
    for (y, name) in [(producer, "producer"), (empty + 14.0, "empty"), (full + 14.0, "full"), (consumer, "consumers")] {
        drawing.text((14.0, y), At::Right, 14.0, name);
    }
    let x_of = |at: usize| left + step * (at as f64 + 0.5);
    let end = f64::from(width) - 14.0;
    for (y, completes) in [(empty, Event::Released), (full, Event::Landed)] {
        let mut start = left;
        let mut ends: Vec<f64> =
            events.iter().enumerate().filter(|(_, event)| **event == completes).map(|(at, _)| x_of(at)).collect();
        ends.push(end);
        for (phase, until) in ends.into_iter().enumerate() {
            let text = format!("phase {phase}, parity {}", phase % 2);
            // The last phase may have just begun.
            let text = if until - start > 110.0 { text } else { phase.to_string() };
            drawing.cell((start + 1.0, y), (until - start - 2.0, 28.0), Fill::Color(phase % 2), 12.0, &text);
            start = until;
        }
    }
    for (at, event) in events.iter().enumerate() {
        let x = x_of(at);
        match event {
            Event::Wait { producer: by_producer, parity, passes } => {
                let (y, to) = if *by_producer { (producer, empty) } else { (consumer, full + 28.0) };
                let from = if *by_producer { y + 22.0 } else { y - 22.0 };
                drawing.text((x, y - 7.0), At::Middle, 12.0, &format!("wait {parity}"));
                drawing.note((x, y + 9.0), At::Middle, 11.0, if *passes { "passes" } else { "blocks" });
                drawing.arrow(&[(x, from), (x, to)]);
            }
            Event::Landed => {
                drawing.line(&[(x, full - 8.0), (x, full + 36.0)]);
                drawing.note((x, full - 17.0), At::Middle, 11.0, "bytes landed");
            }
            Event::Released => {
                drawing.line(&[(x, empty - 8.0), (x, empty + 36.0)]);
                drawing.note((x, empty + 44.0), At::Middle, 11.0, "released");
            }
        }
    }
    drawing.note(
        (14.0, 254.0),
        At::Right,
        12.0,
        "A wait for parity p passes when the phase in progress has the other parity: the last one of parity p is over.",
    );
    drawing.finish()
}

#[cfg(test)]
mod tests {
    use super::{Event, events};

    #[test]
    fn the_producer_passes_once_and_then_waits_for_releases() {
        let wait = |producer, parity, passes| Event::Wait { producer, parity, passes };
        assert_eq!(
            events(3),
            [
                wait(true, 1, true),
                wait(false, 0, false),
                Event::Landed,
                wait(true, 0, false),
                Event::Released,
                wait(false, 1, false),
                Event::Landed,
                wait(true, 1, false),
                Event::Released,
                wait(false, 0, false),
                Event::Landed,
            ]
        );
    }
}
