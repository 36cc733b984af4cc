//! Running kernels with planted faults.

use sim::gemm::{Error, checked_gemm};
use sim::{Control, Finding, Kind, Program, Schedule};

use crate::edit::Text;
use crate::problem::{Problem, text};

const CONTROL: Control<'static> = Control { trace: false, progress: None, threads: 1 };

/// A kernel and the product that it is run on.
pub struct Plant {
    pub entry: &'static str,
    pub size: [usize; 3],
    pub multiprocessors: usize,
    /// Clusters that share a tile.
    pub parts: u32,
}

/// Schedules that a fault must show under, each of them: what is missing is found whatever the order.
pub fn schedules() -> Vec<Schedule> {
    ["timed", "random:1", "random:2", "random:3", "late:async", "early:async", "late:warp4", "early:warp4"]
        .iter()
        .map(|text| text.parse().unwrap_or_else(|error| panic!("{error}")))
        .collect()
}

impl Plant {
    /// Runs the kernel with a change under a schedule.
    pub fn run(&self, change: &dyn Fn(&mut Text), schedule: &Schedule) -> Option<Box<Finding>> {
        let mut problem = Problem::new(self.entry, self.size).shared(self.parts);
        problem.multiprocessors = self.multiprocessors;
        let mut changed = Text::new(text(self.entry));
        change(&mut changed);
        let program = Program::load(&changed.text(), self.entry).unwrap_or_else(|error| panic!("{error}"));
        match checked_gemm(&program, problem.config, &problem.product(), &problem.reference, schedule, CONTROL) {
            Ok(_) => None,
            Err(Error::Finding(finding)) => Some(finding),
            Err(error) => panic!("{error}"),
        }
    }

    /// Asserts that nothing is found in the kernel as it is.
    pub fn is_clean(&self) {
        for schedule in schedules() {
            if let Some(finding) = self.run(&|_| {}, &schedule) {
                panic!("{finding}");
            }
        }
    }

    /// Asserts that under every schedule the change is found as one of `kinds`, and that the message of the
    /// first kind contains `word`.
    pub fn finds(&self, kinds: &[Kind], word: &str, change: impl Fn(&mut Text)) {
        self.finds_one_of(kinds, &[word], change);
    }

    /// As [`Plant::finds`], where the schedule decides which of `words` the message of the first kind contains.
    pub fn finds_one_of(&self, kinds: &[Kind], words: &[&str], change: impl Fn(&mut Text)) {
        for schedule in schedules() {
            let finding =
                self.run(&change, &schedule).unwrap_or_else(|| panic!("{schedule}: nothing found; expected {kinds:?}"));
            assert!(kinds.contains(&finding.kind), "{schedule}: expected {kinds:?}, found {finding}");
            if finding.kind == kinds[0] {
                assert!(
                    words.iter().any(|word| finding.message.contains(word)),
                    "{schedule}: none of {words:?} in {finding}"
                );
            }
            assert_eq!(finding.schedule, schedule.to_string());
            assert_eq!(finding.kernel, self.entry);
        }
    }
}
