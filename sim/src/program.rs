//! One entry of a PTX module, made ready to run.

use ptx::ast::*;

use crate::alu;
use crate::report::Place;
use crate::shared::SHARED_BASE;

/// No instruction: the reconvergence point of a branch that has none.
pub const NOWHERE: u32 = u32::MAX;

/// The function of an arithmetic instruction.
#[derive(Clone, Copy)]
pub(crate) enum Function {
    None,
    Unary(alu::Unary),
    Binary(alu::Binary),
    Ternary(alu::Ternary),
    Compare(alu::Comparison),
}

/// Where a variable lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum VariablePlace {
    /// Shared address.
    Shared(u32),
    /// Global or constant memory; the launch gives its address.
    Global,
}

/// A program: an entry with all that running it needs to know.
pub struct Program {
    pub(crate) entry: Entry,
    pub(crate) variables: Vec<Variable>,
    pub(crate) places: Vec<VariablePlace>,
    /// Bytes of statically declared shared memory; the dynamic part starts at the next multiple of its
    /// alignment.
    pub(crate) static_shared: u32,
    /// Offset of dynamic shared memory from [`SHARED_BASE`].
    pub(crate) dynamic_offset: u32,
    pub(crate) functions: Vec<Function>,
    /// Instructions at which other agents may notice this one: scheduling points.
    pub(crate) visible: Vec<bool>,
    /// For each branch, where its sides meet again.
    pub(crate) reconvergence: Vec<u32>,
    /// A bit mask for each register: the bits that its type has.
    pub(crate) register_masks: Vec<u64>,
    /// Registers that each instruction names.
    pub(crate) operands: Vec<Box<[u32]>>,
    /// Whether blocks may talk through global memory, so that they must run together.
    pub(crate) blocks_talk: bool,
    /// Whether a grid waits for the one before it (`griddepcontrol.wait`), and so may be launched to overlap with it.
    pub(crate) waits_for_grids: bool,
    lines: Vec<String>,
    files: Vec<(u32, String)>,
}

/// Why a program cannot be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// The text is not PTX that the parser knows.
    Parse(ptx::Error),
    /// There is no such entry.
    NoEntry {
        /// The name asked for.
        entry: String,
        /// Names that there are, cut short.
        known: String,
    },
    /// An instruction that the model does not cover.
    Unsupported {
        /// PTX line.
        line: u32,
        /// What.
        what: String,
    },
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Parse(error) => error.fmt(f),
            LoadError::NoEntry { entry, known } => write!(f, "the module has no entry `{entry}`; it has {known}"),
            LoadError::Unsupported { line, what } => write!(f, "PTX line {line}: the simulator does not model {what}"),
        }
    }
}

impl std::error::Error for LoadError {}

impl Program {
    /// Reads `text` and makes its entry `entry` ready.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn load(text: &str, entry: &str) -> Result<Program, LoadError> {
        let module = ptx::parse(text).map_err(LoadError::Parse)?;
        let Some(found) = module.entry(entry) else {
            let names: Vec<_> = module.entries.iter().take(8).map(|e| format!("`{}`", e.name)).collect();
            let known = if names.is_empty() { "none".to_string() } else { names.join(", ") };
            return Err(LoadError::NoEntry { entry: entry.to_string(), known });
        };
        let found = found.clone();
        let mut functions = Vec::with_capacity(found.body.len());
        for instruction in &found.body {
            functions.push(
                function(&instruction.op).map_err(|what| LoadError::Unsupported { line: instruction.line, what })?,
            );
        }
        let mask = |register: &Register| match register.ty.bytes() {
            1 => 0xff,
            2 => 0xffff,
            4 => 0xffff_ffff,
            _ => u64::MAX,
        };
        let operands = |instruction: &Instruction| instruction.op.registers().iter().map(|r| r.0).collect();
        let mut program = Program {
            register_masks: found.registers.iter().map(mask).collect(),
            operands: found.body.iter().map(operands).collect(),
            visible: found.body.iter().map(|i| visible(&i.op)).collect(),
            reconvergence: reconvergence(&found.body),
            blocks_talk: found.body.iter().any(|i| talks(&i.op)),
            waits_for_grids: found.body.iter().any(|i| i.op == Op::GridDependencyWait),
            entry: found,
            variables: module.variables,
            places: Vec::new(),
            static_shared: 0,
            dynamic_offset: 0,
            functions,
            lines: text.lines().map(str::to_string).collect(),
            files: module.files,
        };
        program.place_variables()?;
        Ok(program)
    }

    fn place_variables(&mut self) -> Result<(), LoadError> {
        let mut end = 0u64;
        let mut dynamic_align = 16;
        for variable in &self.variables {
            match (variable.space, variable.bytes) {
                (Space::Shared, Some(bytes)) => {
                    let start = end.next_multiple_of(variable.align);
                    self.places.push(VariablePlace::Shared(SHARED_BASE + start as u32));
                    end = start + bytes;
                    if end > 1 << 20 {
                        return Err(LoadError::Unsupported {
                            line: variable.line,
                            what: format!("more than 1 MiB of shared variables (`{}`)", variable.name),
                        });
                    }
                }
                (Space::Shared, None) => {
                    dynamic_align = variable.align.max(dynamic_align);
                    // Its address follows once all others are placed.
                    self.places.push(VariablePlace::Shared(0));
                }
                (Space::Global | Space::Const, Some(bytes)) if bytes <= 1 << 30 => {
                    self.places.push(VariablePlace::Global);
                }
                (space, _) => {
                    return Err(LoadError::Unsupported {
                        line: variable.line,
                        what: format!("variables in {space:?} memory (`{}`)", variable.name),
                    });
                }
            }
        }
        self.static_shared = end as u32;
        // Dynamic shared memory starts at a multiple of its declared alignment, as an address.
        let base = (u64::from(SHARED_BASE) + end).next_multiple_of(dynamic_align) as u32;
        self.dynamic_offset = base - SHARED_BASE;
        for (variable, place) in self.variables.iter().zip(&mut self.places) {
            if variable.space == Space::Shared && variable.bytes.is_none() {
                *place = VariablePlace::Shared(base);
            }
        }
        Ok(())
    }

    /// The entry.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Shared address of the first byte of dynamic shared memory.
    pub fn dynamic_shared(&self) -> u32 {
        SHARED_BASE + self.dynamic_offset
    }

    /// Where instruction `pc` stands.
    pub fn place(&self, pc: u32) -> Place {
        let Some(instruction) = self.entry.body.get(pc as usize) else {
            return Place::NONE;
        };
        let line = instruction.line;
        let text = self.lines.get(line as usize - 1).map_or("", |text| text.trim());
        let mut short: String = text.chars().take(160).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        let name = |at: SourceLine| {
            let file = self.files.iter().find(|file| file.0 == at.file).map_or("?", |file| file.1.as_str());
            format!("{file}:{}", at.line)
        };
        // What a pointer's method or the like does is said where it is called.
        let standard =
            |at: &SourceLine| self.files.iter().any(|file| file.0 == at.file && file.1.contains("/core/src/"));
        let source = instruction.source.map(|own| {
            // An instruction of an inlined function has that function's line; the line before it in another
            // file is usually the caller's.
            let before = self.entry.body[..pc as usize].iter().rev().filter_map(|i| i.source).take(256);
            let mut lines = std::iter::once(own).chain(before).filter(|at| at.line > 0 && !standard(at));
            let Some(at) = lines.next() else { return name(own) };
            match lines.find(|other| other.file != at.file) {
                Some(caller) => format!("{}, after {}", name(at), name(caller)),
                None => name(at),
            }
        });
        Place { line, text: short, source }
    }

    /// PTX line of instruction `pc`.
    pub fn line(&self, pc: u32) -> u32 {
        self.entry.body.get(pc as usize).map_or(0, |i| i.line)
    }
}

/// The function of an instruction; an error names what the model does not cover.
fn function(op: &Op) -> Result<Function, String> {
    let gone = |what: String| move || what;
    Ok(match op {
        Op::Unary { op, ty, mode, .. } => Function::Unary(
            alu::unary(*op, *ty, *mode).ok_or_else(gone(format!("{op:?} on {ty:?} with these modifiers")))?,
        ),
        Op::Binary { op, ty, mode, .. } => Function::Binary(
            alu::binary(*op, *ty, *mode).ok_or_else(gone(format!("{op:?} on {ty:?} with these modifiers")))?,
        ),
        Op::Ternary { op, ty, mode, .. } => Function::Ternary(
            alu::ternary(*op, *ty, *mode).ok_or_else(gone(format!("{op:?} on {ty:?} with these modifiers")))?,
        ),
        Op::SetPredicate { cmp, ty, ftz, .. } => {
            let found = if *ftz { None } else { alu::compare(*cmp, *ty) };
            Function::Compare(found.ok_or_else(gone(format!("comparison {cmp:?} of {ty:?}")))?)
        }
        Op::Convert { to, from, mode, .. } if !alu::converts(*to, *from, *mode) => {
            return Err(format!("conversion from {from:?} to {to:?} with these modifiers"));
        }
        Op::ConvertPair { mode, .. } if mode.sat || mode.ftz => return Err("this conversion to a pair".to_string()),
        Op::Load { space: Space::Local, .. } | Op::Store { space: Space::Local, .. } => {
            return Err("local memory".to_string());
        }
        Op::ConvertAddress { space: Space::Local, .. } => return Err("local memory".to_string()),
        Op::Atomic { op, ty, .. } if ty.float() && *ty != Type::F32 => {
            return Err(format!("atomic {op:?} on {ty:?}"));
        }
        Op::CopyAsync { .. } | Op::CopyAsyncCommit | Op::CopyAsyncWait { .. } | Op::CopyAsyncArrive { .. } => {
            return Err("`cp.async` (only `cp.async.bulk`)".to_string());
        }
        Op::Bulk(Bulk::Peer { .. }) => {
            return Err("bulk copies from one block's shared memory to another's".to_string());
        }
        Op::Bulk(Bulk::TensorReduce { op, .. }) => return Err(format!("the tensor reduction {op:?}")),
        Op::Wgmma(w) if w.d_type != Type::F32 || !matches!(w.a_type, Type::F16 | Type::Bf16) => {
            return Err(format!("wgmma of {:?} with {:?} accumulators", w.a_type, w.d_type));
        }
        _ => Function::None,
    })
}

/// Whether another agent may notice that an instruction ran.
fn visible(op: &Op) -> bool {
    matches!(
        op,
        Op::Exit
            | Op::Trap
            | Op::Breakpoint
            | Op::Nanosleep { .. }
            | Op::Fence(_)
            | Op::BarrierSync { .. }
            | Op::BarrierArrive { .. }
            | Op::WarpSync { .. }
            | Op::ClusterArrive { .. }
            | Op::ClusterWait { .. }
            | Op::MbarrierInit { .. }
            | Op::MbarrierInvalidate { .. }
            | Op::MbarrierArrive { .. }
            | Op::MbarrierExpectTx { .. }
            | Op::MbarrierCompleteTx { .. }
            | Op::MbarrierWait { .. }
            | Op::Bulk(_)
            | Op::Wgmma(_)
            | Op::WgmmaFence
            | Op::WgmmaCommit
            | Op::WgmmaWait { .. }
            | Op::Atomic { .. }
            | Op::SetMaxRegisters { .. }
    ) || matches!(op, Op::Load { order, .. } | Op::Store { order, .. } if *order != Semantics::Weak)
}

/// Whether an instruction may let blocks of different clusters see each other.
fn talks(op: &Op) -> bool {
    let global = |space: Space| matches!(space, Space::Global | Space::Generic);
    match op {
        Op::Atomic { space, .. } => global(*space),
        Op::Load { space, order, .. } | Op::Store { space, order, .. } => global(*space) && *order != Semantics::Weak,
        _ => false,
    }
}

/// For each branch, the first instruction that every way on from it passes (its immediate
/// postdominator), where threads that went different ways meet again. Ways that end in a trap do not
/// count.
fn reconvergence(body: &[Instruction]) -> Vec<u32> {
    let n = body.len();
    // Node n is the exit.
    let successors = |pc: usize| -> [Option<usize>; 2] {
        let next = Some(pc + 1);
        match &body[pc].op {
            Op::Branch { target, .. } => [Some(target.0 as usize), if body[pc].guard.is_some() { next } else { None }],
            Op::Exit => [Some(n), if body[pc].guard.is_some() { next } else { None }],
            Op::Trap => [if body[pc].guard.is_some() { next } else { None }, None],
            _ => [next, None],
        }
    };
    let mut predecessors = vec![Vec::new(); n + 1];
    for pc in 0..n {
        for next in successors(pc).into_iter().flatten() {
            predecessors[next].push(pc);
        }
    }
    // Postorder of the reversed graph from the exit, without recursion.
    let mut order = vec![usize::MAX; n + 1];
    let mut sequence = Vec::with_capacity(n + 1);
    let mut seen = vec![false; n + 1];
    let mut stack = vec![(n, 0)];
    seen[n] = true;
    while let Some((node, i)) = stack.pop() {
        if let Some(&before) = predecessors[node].get(i) {
            stack.push((node, i + 1));
            if !seen[before] {
                seen[before] = true;
                stack.push((before, 0));
            }
        } else {
            order[node] = sequence.len();
            sequence.push(node);
        }
    }
    // Cooper, Harvey and Kennedy's iteration on the reversed graph.
    let mut dominator = vec![usize::MAX; n + 1];
    dominator[n] = n;
    let mut changed = true;
    while changed {
        changed = false;
        for &node in sequence.iter().rev() {
            if node == n {
                continue;
            }
            let mut best = usize::MAX;
            for next in successors(node).into_iter().flatten() {
                if dominator[next] == usize::MAX {
                    continue;
                }
                if best == usize::MAX {
                    best = next;
                    continue;
                }
                let mut other = next;
                while best != other {
                    while order[best] < order[other] {
                        best = dominator[best];
                    }
                    while order[other] < order[best] {
                        other = dominator[other];
                    }
                }
            }
            if dominator[node] != best {
                dominator[node] = best;
                changed = true;
            }
        }
    }
    let mut out = vec![NOWHERE; n];
    for (pc, meets) in out.iter_mut().enumerate() {
        if matches!(body[pc].op, Op::Branch { .. }) && dominator[pc] < n {
            *meets = dominator[pc] as u32;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(body: &str) -> Program {
        let text = format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 dynamic[];\n\
             .shared .align 8 .b8 fixed[40];\n.entry k() {{ .reg .pred %p<4>; .reg .b32 %r<9>;\n{body}\n}}"
        );
        Program::load(&text, "k").unwrap()
    }

    #[test]
    fn branches_meet_again() {
        let program = load(
            "@%p1 bra A; mov.u32 %r1, 1; bra B; A: mov.u32 %r1, 2; B: @%p2 bra T; @%p3 bra E; L: @%p1 bra L; E: ret; T: trap;",
        );
        // The pcs of: bra A, bra T, bra E, bra L.
        assert_eq!(program.reconvergence[0], 4);
        assert_eq!(program.reconvergence[4], 5, "the way to the trap does not count");
        assert_eq!(program.reconvergence[5], 7);
        assert_eq!(program.reconvergence[6], 7);
    }

    #[test]
    fn variables_are_placed() {
        let program = load("ret;");
        assert_eq!(program.static_shared, 40);
        assert_eq!(program.dynamic_shared(), 2048);
    }

    #[test]
    fn what_is_not_modelled_is_said_with_its_line() {
        let error = Program::load(".version 8.0\n.entry k() {\n.reg .b32 %r<3>;\nadd.rz.f32 %r0, %r1, %r2;\n}", "k");
        let Err(LoadError::Unsupported { line, .. }) = error else { panic!() };
        assert_eq!(line, 4);
        assert!(matches!(Program::load(".version 8.0", "k"), Err(LoadError::NoEntry { .. })));
    }
}
