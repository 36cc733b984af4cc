//! What the simulator finds, and how it says so.

/// A class of fault.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Shared memory is read while a copy to it is still on its way, or before anything orders the copy
    /// before the read.
    ReadBeforeLanded,
    /// Shared memory is written while a wgmma or a copy out of it may still read it.
    OverwriteWhileRead,
    /// Two accesses to shared or global memory of which at least one writes, with nothing between that orders them.
    Race,
    /// The async proxy reads or overwrites what ordinary stores wrote, without a proxy fence between.
    MissingProxyFence,
    /// A register is touched while a wgmma uses it.
    RegisterInFlight,
    /// A wgmma uses registers that were written after the last `wgmma.fence`, or there was none.
    MissingWgmmaFence,
    /// Nothing can go on.
    Deadlock,
    /// Instructions run, but nothing changes.
    Livelock,
    /// A phase completed although copies that signal its barrier were still on their way.
    WrongExpectTx,
    /// A thread arrives twice in one phase.
    DoubleArrival,
    /// An mbarrier or named barrier is counted beyond what it can hold.
    BarrierOverflow,
    /// An mbarrier is used before its initialisation is visible, or there is none.
    UninitialisedBarrier,
    /// A thread or block leaves while copies, arrivals or peers still need it.
    ExitOutstanding,
    /// A thread of a cluster reaches a block that has left, or may have.
    PeerExited,
    /// `setmaxnreg` asks for what cannot be, or the warps of a warpgroup disagree.
    Registers,
    /// An `.aligned` instruction, or one with a member mask, is executed by other threads than it must.
    Divergence,
    /// An address is not a multiple of what the access needs.
    Misaligned,
    /// An access outside every buffer, or outside the block's shared memory.
    OutOfBounds,
    /// Shared memory is read that nothing wrote.
    UninitialisedRead,
    /// Global memory is touched before `griddepcontrol.wait`, while the grid before may still write it.
    BeforeGridWait,
    /// The swizzle of a matrix descriptor is not the one that the tile was copied with.
    SwizzleMismatch,
    /// An operand is not what the instruction allows.
    InvalidOperand,
    /// A tile other than the kernel's plan says was multiplied.
    WrongTile,
    /// The result differs from the reference.
    WrongResult,
    /// `trap`, or `brkpt`.
    Trap,
    /// The launch does not fit the entry.
    Launch,
}

impl Kind {
    /// A short name: `read-before-landed`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::ReadBeforeLanded => "read-before-landed",
            Kind::OverwriteWhileRead => "overwrite-while-read",
            Kind::Race => "race",
            Kind::MissingProxyFence => "missing-proxy-fence",
            Kind::RegisterInFlight => "register-in-flight",
            Kind::MissingWgmmaFence => "missing-wgmma-fence",
            Kind::Deadlock => "deadlock",
            Kind::Livelock => "livelock",
            Kind::WrongExpectTx => "wrong-expect-tx",
            Kind::DoubleArrival => "double-arrival",
            Kind::BarrierOverflow => "barrier-overflow",
            Kind::UninitialisedBarrier => "uninitialised-barrier",
            Kind::ExitOutstanding => "exit-outstanding",
            Kind::PeerExited => "peer-exited",
            Kind::Registers => "registers",
            Kind::Divergence => "divergence",
            Kind::Misaligned => "misaligned",
            Kind::OutOfBounds => "out-of-bounds",
            Kind::UninitialisedRead => "uninitialised-read",
            Kind::BeforeGridWait => "before-grid-wait",
            Kind::SwizzleMismatch => "swizzle-mismatch",
            Kind::InvalidOperand => "invalid-operand",
            Kind::WrongTile => "wrong-tile",
            Kind::WrongResult => "wrong-result",
            Kind::Trap => "trap",
            Kind::Launch => "launch",
        }
    }
}

/// Where in the program something happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Line of the PTX text; 0 where no single instruction is meant.
    pub line: u32,
    /// That line, trimmed and cut short.
    pub text: String,
    /// `file:line` of the source, where the PTX has line information.
    pub source: Option<String>,
}

impl Place {
    /// No single instruction.
    pub const NONE: Place = Place { line: 0, text: String::new(), source: None };
}

/// One fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Its class.
    pub kind: Kind,
    /// The entry.
    pub kernel: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// The instruction at fault.
    pub place: Place,
    /// The threads, in words.
    pub threads: String,
    /// What else helps to understand it.
    pub notes: Vec<String>,
    /// What happened before, oldest first.
    pub history: Vec<String>,
    /// The schedule that showed it, as [`crate::schedule::Schedule`] prints.
    pub schedule: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {}", self.kind.name(), self.message)?;
        writeln!(f, "  kernel   {}", self.kernel)?;
        if !self.threads.is_empty() {
            writeln!(f, "  threads  {}", self.threads)?;
        }
        if self.place.line > 0 {
            writeln!(f, "  ptx      line {}: {}", self.place.line, self.place.text)?;
        }
        if let Some(source) = &self.place.source {
            writeln!(f, "  source   {source}")?;
        }
        if !self.schedule.is_empty() {
            writeln!(f, "  schedule {}", self.schedule)?;
        }
        for note in &self.notes {
            writeln!(f, "  note     {note}")?;
        }
        if !self.history.is_empty() {
            writeln!(f, "  history, oldest first:")?;
            for line in &self.history {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Finding {}
