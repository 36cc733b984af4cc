//! A kernel made of a few instructions.

use sim::{Access, Argument, Control, Finding, Launch, Memory, Options, Program, Schedule, run};

/// The PTX around a body. Parameter 0 is the address of `out`, parameter 1 that of `input`.
pub fn module(bounds: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 dynamic[];\n\
         .visible .entry k(.param .u64 out, .param .u64 input)\n{bounds}\n{{\n\
         .reg .pred %p<20>;\n.reg .b16 %h<20>;\n.reg .b32 %r<40>;\n.reg .b64 %d<20>;\n\
         ld.param.u64 %d0, [out];\nld.param.u64 %d1, [input];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, dynamic;\n\
         mul.wide.u32 %d2, %r0, 4;\nadd.u64 %d2, %d2, %d0;\n{body}\nret;\n}}\n"
    )
}

/// A body to run, and how.
pub struct Case {
    pub bounds: &'static str,
    pub body: String,
    pub grid: u32,
    pub cluster: u32,
    pub threads: u32,
    pub input: Vec<u32>,
    pub options: Options,
}

impl Case {
    pub fn new(threads: u32, body: &str) -> Case {
        let options = Options { livelock_limit: 100_000, ..Options::default() };
        Case { bounds: "", body: body.to_string(), grid: 1, cluster: 1, threads, input: vec![0; 64], options }
    }

    pub fn run(&self, schedule: &Schedule) -> Result<Vec<u32>, Box<Finding>> {
        let program = Program::load(&module(self.bounds, &self.body), "k").unwrap_or_else(|error| panic!("{error}"));
        let mut memory = Memory::new();
        let out = memory.insert("out", &[0; 1024], Access::ReadWrite);
        let input: Vec<u8> = self.input.iter().flat_map(|x| x.to_le_bytes()).collect();
        let input = memory.insert("input", &input, Access::Read);
        let launch = Launch {
            grid: [self.grid, 1, 1],
            cluster: [self.cluster, 1, 1],
            block: [self.threads, 1, 1],
            shared_bytes: 8192,
            arguments: vec![Argument::U64(memory.address(out)), Argument::U64(memory.address(input))],
        };
        run(&program, &launch, &mut memory, &self.options, schedule, Control::default())?;
        Ok(memory.bytes(out).chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// The results, which must be the same under every schedule.
    pub fn results(&self) -> Vec<u32> {
        let first = self.run(&Schedule::Timed).unwrap_or_else(|finding| panic!("{finding}"));
        for seed in 0..20 {
            let again = self.run(&Schedule::Random(seed)).unwrap_or_else(|finding| panic!("{finding}"));
            assert_eq!(first, again, "seed {seed}");
        }
        first
    }

    pub fn finding(&self) -> Box<Finding> {
        self.run(&Schedule::Random(1)).expect_err("a finding")
    }
}
