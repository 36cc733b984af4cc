//! Instructions: one function per family of opcodes.
//!
//! Modifiers are taken in the order in which the PTX ISA lists them; what is left over is an error.

use super::operand::scalar_type;
use super::{Parser, space};
use crate::ast::*;
use crate::error::{Error, Result};
use crate::lex::Token;

/// The modifiers of an opcode: what follows its first dot.
struct Modifiers<'a> {
    opcode: &'a str,
    words: Vec<&'a str>,
    taken: usize,
    line: u32,
}

impl<'a> Modifiers<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.taken).copied()
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.taken += usize::from(found);
        found
    }

    fn eat_any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.eat(word))
    }

    fn error(&self, message: impl std::fmt::Display) -> Error {
        Error::new(self.line, format!("`{}`: {message}", self.name()))
    }

    /// The opcode with its modifiers, cut short where it is long.
    fn name(&self) -> String {
        let mut name = self.opcode.to_string();
        for word in &self.words {
            name.push('.');
            name.push_str(word);
        }
        name.chars().take(120).collect()
    }

    fn unknown(&self, wanted: &str) -> Error {
        match self.peek() {
            Some(word) => self.error(format!("expected {wanted}, found `.{word}`")),
            None => self.error(format!("lacks {wanted}")),
        }
    }

    fn need(&mut self, word: &str) -> Result<()> {
        if self.eat(word) { Ok(()) } else { Err(self.unknown(&format!("`.{word}`"))) }
    }

    fn need_all(&mut self, words: &[&str]) -> Result<()> {
        words.iter().try_for_each(|word| self.need(word))
    }

    /// The value that stands beside the next word in `table`, if it is there.
    fn pick<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        let word = self.peek()?;
        let found = table.iter().find(|row| row.0 == word)?;
        self.taken += 1;
        Some(found.1)
    }

    fn need_pick<T: Copy>(&mut self, table: &[(&str, T)], wanted: &str) -> Result<T> {
        self.pick(table).ok_or_else(|| self.unknown(wanted))
    }

    fn ty(&mut self) -> Result<Type> {
        let ty = self.peek().and_then(scalar_type).ok_or_else(|| self.unknown("a type"))?;
        self.taken += 1;
        Ok(ty)
    }

    fn ty_of(&mut self, allowed: &[Type]) -> Result<Type> {
        let at = self.taken;
        let ty = self.ty()?;
        if allowed.contains(&ty) {
            return Ok(ty);
        }
        self.taken = at;
        Err(self.unknown("a type that this instruction has"))
    }

    fn rounding(&mut self) -> Option<Rounding> {
        self.pick(&[
            ("rn", Rounding::Nearest),
            ("rna", Rounding::NearestAway),
            ("rz", Rounding::Zero),
            ("rm", Rounding::Down),
            ("rp", Rounding::Up),
        ])
    }

    fn space(&mut self) -> Option<Space> {
        let found = space(self.peek()?)?;
        self.taken += 1;
        Some(found)
    }

    fn scope(&mut self) -> Option<Scope> {
        self.pick(&[("cta", Scope::Cta), ("cluster", Scope::Cluster), ("gpu", Scope::Gpu), ("sys", Scope::System)])
    }

    fn need_scope(&mut self) -> Result<Scope> {
        self.scope().ok_or_else(|| self.unknown("a scope"))
    }

    /// `.shared`, `.shared::cta` or `.shared::cluster`; generic if none is given.
    fn shared_space(&mut self) -> Space {
        match self.peek() {
            Some("shared" | "shared::cta") => {
                self.taken += 1;
                Space::Shared
            }
            Some("shared::cluster") => {
                self.taken += 1;
                Space::Cluster
            }
            _ => Space::Generic,
        }
    }

    fn end(&self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(word) => Err(self.error(format!("unknown modifier `.{word}`"))),
        }
    }
}

const INTEGERS: &[Type] = &[Type::U16, Type::U32, Type::U64, Type::S16, Type::S32, Type::S64];
const FLOATS: &[Type] = &[Type::F16, Type::F16x2, Type::Bf16, Type::Bf16x2, Type::F32, Type::F64];
const BITS: &[Type] = &[Type::B16, Type::B32, Type::B64];

const COMPARES: &[(&str, Compare)] = &[
    ("eq", Compare::Eq),
    ("ne", Compare::Ne),
    ("lt", Compare::Lt),
    ("le", Compare::Le),
    ("gt", Compare::Gt),
    ("ge", Compare::Ge),
    ("lo", Compare::Lt),
    ("ls", Compare::Le),
    ("hi", Compare::Gt),
    ("hs", Compare::Ge),
    ("equ", Compare::Equ),
    ("neu", Compare::Neu),
    ("ltu", Compare::Ltu),
    ("leu", Compare::Leu),
    ("gtu", Compare::Gtu),
    ("geu", Compare::Geu),
    ("num", Compare::Num),
    ("nan", Compare::Nan),
];

const BOOLS: &[(&str, BoolOp)] = &[("and", BoolOp::And), ("or", BoolOp::Or), ("xor", BoolOp::Xor)];

const REDUCTIONS: &[(&str, ReduceOp)] = &[
    ("add", ReduceOp::Add),
    ("min", ReduceOp::Min),
    ("max", ReduceOp::Max),
    ("and", ReduceOp::And),
    ("or", ReduceOp::Or),
    ("xor", ReduceOp::Xor),
    ("inc", ReduceOp::Increment),
    ("dec", ReduceOp::Decrement),
];

/// A label that the end of its scope replaces.
const UNRESOLVED: Label = Label(u32::MAX);

impl<'a> Parser<'a> {
    /// `[@p] opcode.modifiers operands;`
    pub(super) fn instruction(&mut self) -> Result<()> {
        let guard = if self.eat('@') { Some(self.pred_use()?) } else { None };
        let line = self.line();
        let opcode = self.word("an instruction")?;
        let mut words = Vec::new();
        while let Some(Token::Dotted(word)) = self.peek() {
            if words.len() >= 32 {
                return Err(self.error("more than 32 modifiers"));
            }
            words.push(word);
            self.at += 1;
        }
        let mut modifiers = Modifiers { opcode, words, taken: 0, line };
        let op = self.operation(&mut modifiers)?;
        if self.peek() != Some(Token::Punctuation(';')) {
            return Err(self.unexpected(&format!("`;` after the operands of `{}`", modifiers.name())));
        }
        self.at += 1;
        self.entry.body.push(Instruction { op, guard, line, source: self.location });
        Ok(())
    }

    fn operation(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        match m.opcode {
            "neg" => self.unary(m, UnaryOp::Neg),
            "abs" => self.unary(m, UnaryOp::Abs),
            "cnot" => self.unary(m, UnaryOp::Cnot),
            "clz" => self.unary(m, UnaryOp::Clz),
            "popc" => self.unary(m, UnaryOp::Popc),
            "brev" => self.unary(m, UnaryOp::Brev),
            "bfind" => {
                let op = if m.eat("shiftamt") { UnaryOp::FindTopShift } else { UnaryOp::FindTop };
                self.unary(m, op)
            }
            "rcp" => self.unary(m, UnaryOp::Reciprocal),
            "sqrt" => self.unary(m, UnaryOp::Sqrt),
            "rsqrt" => self.unary(m, UnaryOp::ReciprocalSqrt),
            "ex2" => self.unary(m, UnaryOp::Ex2),
            "lg2" => self.unary(m, UnaryOp::Lg2),
            "sin" => self.unary(m, UnaryOp::Sin),
            "cos" => self.unary(m, UnaryOp::Cos),
            "tanh" => self.unary(m, UnaryOp::Tanh),
            "not" => self.not(m),
            "add" => self.binary(m, BinaryOp::Add),
            "sub" => self.binary(m, BinaryOp::Sub),
            "mul" => self.multiply(m),
            "div" => self.binary(m, BinaryOp::Div),
            "rem" => self.binary(m, BinaryOp::Rem),
            "min" => self.binary(m, BinaryOp::Min),
            "max" => self.binary(m, BinaryOp::Max),
            "copysign" => self.binary(m, BinaryOp::CopySign),
            "and" => self.logic(m, BinaryOp::And, BoolOp::And),
            "or" => self.logic(m, BinaryOp::Or, BoolOp::Or),
            "xor" => self.logic(m, BinaryOp::Xor, BoolOp::Xor),
            "shl" => self.shift(m, BinaryOp::Shl),
            "shr" => self.shift(m, BinaryOp::Shr),
            "mad" => self.multiply_add(m),
            "fma" => {
                let mode = float_mode(m);
                self.ternary(m, TernaryOp::Fma, mode, FLOATS)
            }
            "bfe" => self.ternary(
                m,
                TernaryOp::FieldExtract,
                FloatMode::default(),
                &[Type::U32, Type::U64, Type::S32, Type::S64],
            ),
            "sad" => self.ternary(m, TernaryOp::AbsoluteDifference, FloatMode::default(), INTEGERS),
            "prmt" => self.ternary(m, TernaryOp::Permute, FloatMode::default(), &[Type::B32]),
            "shf" => self.funnel_shift(m),
            "bfi" => self.field_insert(m),
            "lop3" => self.lop3(m),
            "setp" => self.set_predicate(m),
            "selp" => self.select(m),
            "mov" => self.mov(m),
            "cvt" => self.convert(m),
            "cvta" => self.convert_address(m),
            "isspacep" => {
                let space = m.space().ok_or_else(|| m.unknown("a state space"))?;
                m.end()?;
                let dst = self.pred()?;
                self.comma()?;
                Ok(Op::IsSpace { space, dst, a: self.operand()? })
            }
            "ld" => self.load(m),
            "st" => self.store(m),
            "atom" => self.atomic(m, true),
            "red" => self.atomic(m, false),
            "prefetch" => self.prefetch(m),
            "createpolicy" => {
                m.need("fractional")?;
                self.cache_hints(m);
                m.need("b64")?;
                m.end()?;
                let dst = self.reg()?;
                if self.eat(',') {
                    self.operand()?;
                }
                Ok(Op::CreatePolicy { dst })
            }
            "bra" => self.branch(m),
            "ret" | "exit" => {
                m.eat("uni");
                m.end()?;
                Ok(Op::Exit)
            }
            "trap" => m.end().map(|()| Op::Trap),
            "brkpt" => m.end().map(|()| Op::Breakpoint),
            "nanosleep" => {
                m.need("u32")?;
                m.end()?;
                Ok(Op::Nanosleep { time: self.operand()? })
            }
            "membar" => {
                let scope =
                    m.need_pick(&[("cta", Scope::Cta), ("gl", Scope::Gpu), ("sys", Scope::System)], "a scope")?;
                m.end()?;
                Ok(Op::Fence(Fence::Memory { sequential: true, scope }))
            }
            "fence" => fence(m),
            "bar" | "barrier" => self.barrier(m),
            "mbarrier" => self.mbarrier(m),
            "cp" => self.copy(m),
            "wgmma" => self.wgmma(m),
            "mma" => self.mma(m),
            "ldmatrix" => self.matrix(m, true),
            "stmatrix" => self.matrix(m, false),
            "shfl" => self.shuffle(m),
            "vote" => self.vote(m),
            "redux" => {
                m.need("sync")?;
                let op = m.need_pick(&REDUCTIONS[..6], "an operation")?;
                let ty = m.ty_of(&[Type::U32, Type::S32, Type::B32])?;
                m.end()?;
                let dst = self.reg()?;
                self.comma()?;
                let a = self.operand()?;
                self.comma()?;
                Ok(Op::Redux { op, ty, dst, a, mask: self.operand()? })
            }
            "activemask" => {
                m.need("b32")?;
                m.end()?;
                Ok(Op::ActiveMask { dst: self.reg()? })
            }
            "elect" => {
                m.need("sync")?;
                m.end()?;
                let dst = self.reg_or_sink()?;
                self.expect('|')?;
                let elected = self.pred()?;
                self.comma()?;
                Ok(Op::Elect { dst, elected, mask: self.operand()? })
            }
            "mapa" => {
                let space = m.shared_space();
                let ty = m.ty_of(&[Type::U32, Type::U64])?;
                m.end()?;
                let dst = self.reg()?;
                self.comma()?;
                let a = self.operand()?;
                self.comma()?;
                Ok(Op::MapAddress { space, ty, dst, a, rank: self.operand()? })
            }
            "getctarank" => {
                let space = m.shared_space();
                m.ty_of(&[Type::U32, Type::U64])?;
                m.end()?;
                let dst = self.reg()?;
                self.comma()?;
                Ok(Op::CtaRank { space, dst, a: self.operand()? })
            }
            "setmaxnreg" => {
                let increase = m.need_pick(&[("inc", true), ("dec", false)], "`.inc` or `.dec`")?;
                m.need_all(&["sync", "aligned", "u32"])?;
                m.end()?;
                let count = self.small("a number of registers")?;
                if !(24..=256).contains(&count) || count % 8 != 0 {
                    return Err(m.error(format!("{count} is not a multiple of 8 from 24 to 256")));
                }
                Ok(Op::SetMaxRegisters { increase, count })
            }
            "griddepcontrol" => {
                let wait =
                    m.need_pick(&[("wait", true), ("launch_dependents", false)], "`.wait` or `.launch_dependents`")?;
                m.end()?;
                Ok(if wait { Op::GridDependencyWait } else { Op::GridDependencyLaunch })
            }
            _ => Err(m.error("unknown instruction")),
        }
    }

    fn unary(&mut self, m: &mut Modifiers<'a>, op: UnaryOp) -> Result<Op> {
        let approximate = matches!(
            op,
            UnaryOp::Reciprocal
                | UnaryOp::Sqrt
                | UnaryOp::ReciprocalSqrt
                | UnaryOp::Ex2
                | UnaryOp::Lg2
                | UnaryOp::Sin
                | UnaryOp::Cos
                | UnaryOp::Tanh
        );
        let mut mode = FloatMode::default();
        if approximate && !m.eat("approx") {
            mode.rounding = Some(m.rounding().ok_or_else(|| m.unknown("`.approx` or a rounding"))?);
        }
        mode.ftz = m.eat("ftz");
        let allowed: &[Type] = match op {
            UnaryOp::Neg | UnaryOp::Abs => &[
                Type::S16,
                Type::S32,
                Type::S64,
                Type::F16,
                Type::F16x2,
                Type::Bf16,
                Type::Bf16x2,
                Type::F32,
                Type::F64,
            ],
            UnaryOp::Not | UnaryOp::Cnot => BITS,
            UnaryOp::Clz | UnaryOp::Popc | UnaryOp::Brev => &[Type::B32, Type::B64],
            UnaryOp::FindTop | UnaryOp::FindTopShift => &[Type::U32, Type::U64, Type::S32, Type::S64],
            _ => &[Type::F16, Type::F32, Type::F64],
        };
        let ty = m.ty_of(allowed)?;
        m.end()?;
        let dst = self.reg()?;
        self.comma()?;
        Ok(Op::Unary { op, ty, mode, dst, a: self.operand()? })
    }

    fn not(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        if !m.eat("pred") {
            return self.unary(m, UnaryOp::Not);
        }
        m.end()?;
        let dst = self.pred()?;
        self.comma()?;
        Ok(Op::PredMove { dst, a: self.pred_operand()?, negate: true })
    }

    /// Destination, two sources.
    fn binary_operands(&mut self, op: BinaryOp, ty: Type, mode: FloatMode) -> Result<Op> {
        let dst = self.reg()?;
        self.comma()?;
        let a = self.operand()?;
        self.comma()?;
        Ok(Op::Binary { op, ty, mode, dst, a, b: self.operand()? })
    }

    fn binary(&mut self, m: &mut Modifiers<'a>, op: BinaryOp) -> Result<Op> {
        let mode = float_mode(m);
        let at = m.taken;
        let ty = m.ty()?;
        let allowed = match op {
            BinaryOp::Rem => INTEGERS.contains(&ty),
            BinaryOp::CopySign => matches!(ty, Type::F32 | Type::F64),
            BinaryOp::Div => INTEGERS.contains(&ty) || matches!(ty, Type::F32 | Type::F64),
            _ => INTEGERS.contains(&ty) || FLOATS.contains(&ty),
        };
        let integer_mode = mode == FloatMode { sat: mode.sat && ty == Type::S32, ..FloatMode::default() };
        if !allowed || (!ty.float() && !integer_mode) {
            m.taken = at;
            return Err(m.unknown("a type that this instruction and its modifiers have"));
        }
        m.end()?;
        self.binary_operands(op, ty, mode)
    }

    fn multiply(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let Some(op) = m.pick(&[("lo", BinaryOp::Mul), ("hi", BinaryOp::MulHigh), ("wide", BinaryOp::MulWide)]) else {
            let mode = float_mode(m);
            let ty = m.ty_of(FLOATS)?;
            m.end()?;
            return self.binary_operands(BinaryOp::Mul, ty, mode);
        };
        let wide = &[Type::U16, Type::U32, Type::S16, Type::S32];
        let ty = m.ty_of(if op == BinaryOp::MulWide { wide } else { INTEGERS })?;
        m.end()?;
        self.binary_operands(op, ty, FloatMode::default())
    }

    fn logic(&mut self, m: &mut Modifiers<'a>, op: BinaryOp, pred: BoolOp) -> Result<Op> {
        if m.eat("pred") {
            m.end()?;
            let dst = self.pred()?;
            self.comma()?;
            let a = self.pred_operand()?;
            self.comma()?;
            return Ok(Op::PredBinary { op: pred, dst, a, b: self.pred_operand()? });
        }
        let ty = m.ty_of(BITS)?;
        m.end()?;
        self.binary_operands(op, ty, FloatMode::default())
    }

    fn shift(&mut self, m: &mut Modifiers<'a>, op: BinaryOp) -> Result<Op> {
        let ty = m.ty()?;
        if !(BITS.contains(&ty) || (op == BinaryOp::Shr && INTEGERS.contains(&ty))) {
            return Err(m.error("has no such type"));
        }
        m.end()?;
        self.binary_operands(op, ty, FloatMode::default())
    }

    fn ternary(&mut self, m: &mut Modifiers<'a>, op: TernaryOp, mode: FloatMode, allowed: &[Type]) -> Result<Op> {
        let ty = m.ty_of(allowed)?;
        m.end()?;
        let dst = self.reg()?;
        self.comma()?;
        let a = self.operand()?;
        self.comma()?;
        let b = self.operand()?;
        self.comma()?;
        Ok(Op::Ternary { op, ty, mode, dst, a, b, c: self.operand()? })
    }

    fn multiply_add(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        match m.pick(&[("lo", TernaryOp::Mad), ("hi", TernaryOp::MadHigh), ("wide", TernaryOp::MadWide)]) {
            Some(TernaryOp::MadWide) => {
                self.ternary(m, TernaryOp::MadWide, FloatMode::default(), &[Type::U16, Type::U32, Type::S16, Type::S32])
            }
            Some(op) => self.ternary(m, op, FloatMode::default(), INTEGERS),
            None => {
                // On sm_20 and later a floating `mad` is `fma`.
                let mode = float_mode(m);
                self.ternary(m, TernaryOp::Fma, mode, &[Type::F32, Type::F64])
            }
        }
    }

    fn funnel_shift(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let left = m.need_pick(&[("l", true), ("r", false)], "`.l` or `.r`")?;
        let wrap = m.need_pick(&[("wrap", true), ("clamp", false)], "`.wrap` or `.clamp`")?;
        let op = match (left, wrap) {
            (true, true) => TernaryOp::FunnelLeftWrap,
            (true, false) => TernaryOp::FunnelLeftClamp,
            (false, true) => TernaryOp::FunnelRightWrap,
            (false, false) => TernaryOp::FunnelRightClamp,
        };
        self.ternary(m, op, FloatMode::default(), &[Type::B32])
    }

    fn field_insert(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let ty = m.ty_of(&[Type::B32, Type::B64])?;
        m.end()?;
        let dst = self.reg()?;
        self.comma()?;
        let a = self.operand()?;
        self.comma()?;
        let b = self.operand()?;
        self.comma()?;
        let position = self.operand()?;
        self.comma()?;
        Ok(Op::FieldInsert { ty, dst, a, b, position, length: self.operand()? })
    }

    fn lop3(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        m.need("b32")?;
        m.end()?;
        let dst = self.reg()?;
        self.comma()?;
        let a = self.operand()?;
        self.comma()?;
        let b = self.operand()?;
        self.comma()?;
        let c = self.operand()?;
        self.comma()?;
        let table = self.constant("a truth table")?;
        let table = u8::try_from(table).map_err(|_| m.error(format!("truth table {table} is above 255")))?;
        Ok(Op::Lop3 { dst, a, b, c, table })
    }

    fn set_predicate(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let cmp = m.need_pick(COMPARES, "a comparison")?;
        let combine = m.pick(BOOLS);
        let ftz = m.eat("ftz");
        let ty = m.ty()?;
        if !(BITS.contains(&ty)
            || INTEGERS.contains(&ty)
            || matches!(ty, Type::F16 | Type::Bf16 | Type::F32 | Type::F64))
        {
            return Err(m.error("has no such type"));
        }
        m.end()?;
        let dst = self.pred_or_sink()?;
        let complement = if self.eat('|') { self.pred_or_sink()? } else { None };
        self.comma()?;
        let a = self.operand()?;
        self.comma()?;
        let b = self.operand()?;
        let combine = match combine {
            Some(op) => {
                self.comma()?;
                Some((op, self.pred_operand()?))
            }
            None => None,
        };
        Ok(Op::SetPredicate { cmp, ty, ftz, combine, dst, complement, a, b })
    }

    fn select(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let ty = m.ty()?;
        m.end()?;
        let dst = self.reg()?;
        self.comma()?;
        let a = self.operand()?;
        self.comma()?;
        let b = self.operand()?;
        self.comma()?;
        Ok(Op::Select { ty, dst, a, b, pred: self.pred_operand()? })
    }

    fn mov(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let ty = m.ty()?;
        m.end()?;
        if ty == Type::Pred {
            let dst = self.pred()?;
            self.comma()?;
            return Ok(Op::PredMove { dst, a: self.pred_operand()?, negate: false });
        }
        if self.at_brace() {
            let dst = self.destinations()?;
            self.comma()?;
            check_parts(m, ty, dst.len())?;
            return Ok(Op::Unpack { ty, dst, a: self.operand()? });
        }
        let dst = self.reg()?;
        self.comma()?;
        if self.at_brace() {
            let parts = self.operands_in_braces()?;
            check_parts(m, ty, parts.len())?;
            return Ok(Op::Pack { ty, dst, parts });
        }
        Ok(Op::Move { ty, dst, a: self.operand()? })
    }

    fn convert(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let mut mode = FloatMode {
            rounding: m.rounding().or_else(|| {
                m.pick(&[
                    ("rni", Rounding::Nearest),
                    ("rzi", Rounding::Zero),
                    ("rmi", Rounding::Down),
                    ("rpi", Rounding::Up),
                ])
            }),
            ..FloatMode::default()
        };
        mode.relu = m.eat("relu");
        mode.ftz = m.eat("ftz");
        mode.sat = m.eat("sat");
        let to = m.ty()?;
        let from = m.ty()?;
        m.end()?;
        let dst = self.reg()?;
        self.comma()?;
        let a = self.operand()?;
        if matches!(to, Type::F16x2 | Type::Bf16x2) {
            if from != Type::F32 {
                return Err(m.error("packs two values of type `.f32` only"));
            }
            self.comma()?;
            return Ok(Op::ConvertPair { to, mode, dst, a, b: self.operand()? });
        }
        let known = |ty: Type| !matches!(ty, Type::B8 | Type::B16 | Type::B32 | Type::B64 | Type::B128 | Type::Pred);
        let packed = |ty: Type| matches!(ty, Type::F16x2 | Type::Bf16x2 | Type::E4m3 | Type::E5m2);
        if !known(to) || !known(from) || packed(from) || packed(to) {
            return Err(m.error("converts no such pair of types"));
        }
        Ok(Op::Convert { to, from, mode, dst, a })
    }

    fn convert_address(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let to = m.eat("to");
        let space = m.space().ok_or_else(|| m.unknown("a state space"))?;
        m.ty_of(&[Type::U32, Type::U64])?;
        m.end()?;
        let dst = self.reg()?;
        self.comma()?;
        Ok(Op::ConvertAddress { space, to, dst, a: self.operand()? })
    }

    /// Hints that change no value: caching, eviction, prefetch size. Returns whether a cache policy
    /// operand follows.
    fn cache_hints(&mut self, m: &mut Modifiers<'a>) -> bool {
        let mut policy = false;
        loop {
            if m.eat("L2::cache_hint") {
                policy = true;
            } else if !m.eat_any(&[
                "L1::evict_normal",
                "L1::evict_unchanged",
                "L1::evict_first",
                "L1::evict_last",
                "L1::no_allocate",
                "L2::evict_normal",
                "L2::evict_first",
                "L2::evict_last",
                "L2::64B",
                "L2::128B",
                "L2::256B",
            ]) {
                return policy;
            }
        }
    }

    fn cache_policy(&mut self, present: bool) -> Result<()> {
        if present {
            self.comma()?;
            self.reg()?;
        }
        Ok(())
    }

    fn order(&mut self, m: &mut Modifiers<'a>, table: &[(&str, Semantics)]) -> Result<(Semantics, Option<Scope>)> {
        let order = m.pick(table).unwrap_or(Semantics::Weak);
        let scope = match order {
            Semantics::Weak | Semantics::Volatile => None,
            _ => Some(m.need_scope()?),
        };
        Ok((order, scope))
    }

    fn vector(&mut self, m: &mut Modifiers<'a>) -> usize {
        m.pick(&[("v2", 2), ("v4", 4)]).unwrap_or(1)
    }

    fn access_type(&mut self, m: &mut Modifiers<'a>, lanes: usize) -> Result<Type> {
        let ty = m.ty()?;
        if matches!(ty, Type::Pred | Type::F16x2 | Type::Bf16x2 | Type::Tf32 | Type::E4m3 | Type::E5m2) {
            return Err(m.error("has no such type"));
        }
        if ty.bytes() * lanes as u64 > 16 {
            return Err(m.error("moves more than 16 bytes"));
        }
        Ok(ty)
    }

    fn load(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let (order, scope) = self.order(
            m,
            &[
                ("weak", Semantics::Weak),
                ("volatile", Semantics::Volatile),
                ("relaxed", Semantics::Relaxed),
                ("acquire", Semantics::Acquire),
            ],
        )?;
        let space = m.space().unwrap_or(Space::Generic);
        m.eat_any(&["ca", "cg", "cs", "lu", "cv"]);
        m.eat("nc");
        let policy = self.cache_hints(m);
        let lanes = self.vector(m);
        let ty = self.access_type(m, lanes)?;
        m.end()?;
        let dst = self.destinations()?;
        if dst.len() != lanes {
            return Err(m.error(format!("loads {lanes} values, but has {} destinations", dst.len())));
        }
        self.comma()?;
        let address = self.address()?;
        self.cache_policy(policy)?;
        Ok(Op::Load { space, order, scope, ty, dst, address })
    }

    fn store(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let (order, scope) = self.order(
            m,
            &[
                ("weak", Semantics::Weak),
                ("volatile", Semantics::Volatile),
                ("relaxed", Semantics::Relaxed),
                ("release", Semantics::Release),
            ],
        )?;
        let space = m.space().unwrap_or(Space::Generic);
        m.eat_any(&["wb", "cg", "cs", "wt"]);
        let policy = self.cache_hints(m);
        let lanes = self.vector(m);
        let ty = self.access_type(m, lanes)?;
        m.end()?;
        let address = self.address()?;
        self.comma()?;
        let src = self.sources()?;
        if src.len() != lanes {
            return Err(m.error(format!("stores {lanes} values, but has {} sources", src.len())));
        }
        self.cache_policy(policy)?;
        Ok(Op::Store { space, order, scope, ty, address, src })
    }

    fn atomic(&mut self, m: &mut Modifiers<'a>, returns: bool) -> Result<Op> {
        let order = m
            .pick(&[
                ("relaxed", Semantics::Relaxed),
                ("acquire", Semantics::Acquire),
                ("release", Semantics::Release),
                ("acq_rel", Semantics::AcquireRelease),
            ])
            .unwrap_or(Semantics::Relaxed);
        let scope = m.scope().unwrap_or(Scope::Gpu);
        let space = m.space().unwrap_or(Space::Generic);
        let op = m.need_pick(
            &[
                ("add", AtomicOp::Add),
                ("min", AtomicOp::Min),
                ("max", AtomicOp::Max),
                ("and", AtomicOp::And),
                ("or", AtomicOp::Or),
                ("xor", AtomicOp::Xor),
                ("exch", AtomicOp::Exchange),
                ("cas", AtomicOp::CompareAndSwap),
                ("inc", AtomicOp::Increment),
                ("dec", AtomicOp::Decrement),
            ],
            "an operation",
        )?;
        m.eat("noftz");
        let policy = self.cache_hints(m);
        let ty = m.ty()?;
        let allowed: &[Type] = match op {
            AtomicOp::Add => &[
                Type::U32,
                Type::S32,
                Type::U64,
                Type::S64,
                Type::F32,
                Type::F64,
                Type::F16,
                Type::F16x2,
                Type::Bf16,
                Type::Bf16x2,
            ],
            AtomicOp::Min | AtomicOp::Max => &[Type::U32, Type::S32, Type::U64, Type::S64],
            AtomicOp::CompareAndSwap => &[Type::B16, Type::B32, Type::B64],
            AtomicOp::Increment | AtomicOp::Decrement => &[Type::U32],
            _ => &[Type::B32, Type::B64],
        };
        if !allowed.contains(&ty) || (!returns && matches!(op, AtomicOp::Exchange | AtomicOp::CompareAndSwap)) {
            return Err(m.error("has no such operation on this type"));
        }
        m.end()?;
        let mut dst = None;
        if returns {
            dst = self.reg_or_sink()?;
            self.comma()?;
        }
        let address = self.address()?;
        self.comma()?;
        let a = self.operand()?;
        let mut b = None;
        if op == AtomicOp::CompareAndSwap {
            self.comma()?;
            b = Some(self.operand()?);
        }
        self.cache_policy(policy)?;
        Ok(Op::Atomic { op, order, scope, space, ty, dst, address, a, b })
    }

    fn prefetch(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let space = m.space().unwrap_or(Space::Generic);
        if m.eat("tensormap") {
            m.end()?;
            return Ok(Op::PrefetchTensorMap { address: self.address()? });
        }
        if !m.eat_any(&["L1", "L2", "L2::evict_last", "L2::evict_normal"]) {
            return Err(m.unknown("a cache level"));
        }
        m.end()?;
        Ok(Op::Prefetch { space, address: self.address()? })
    }

    fn branch(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let uniform = m.eat("uni");
        m.end()?;
        let name = self.word("a label")?;
        let index = self.entry.body.len();
        self.scope().pending.push((index, name));
        Ok(Op::Branch { target: UNRESOLVED, uniform })
    }

    fn barrier(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        if m.eat("cluster") {
            let arrive = m.need_pick(&[("arrive", true), ("wait", false)], "`.arrive` or `.wait`")?;
            let order = m
                .pick(&[
                    ("release", Semantics::Release),
                    ("relaxed", Semantics::Relaxed),
                    ("acquire", Semantics::Acquire),
                ])
                .unwrap_or(if arrive { Semantics::Release } else { Semantics::Acquire });
            if arrive == (order == Semantics::Acquire) {
                return Err(m.error("arrives with `.release` or `.relaxed` and waits with `.acquire`"));
            }
            let aligned = m.eat("aligned");
            m.end()?;
            return Ok(if arrive { Op::ClusterArrive { order, aligned } } else { Op::ClusterWait { aligned } });
        }
        if m.opcode == "bar" && m.eat("warp") {
            m.need("sync")?;
            m.end()?;
            return Ok(Op::WarpSync { mask: self.operand()? });
        }
        m.eat("cta");
        let arrive = m.need_pick(&[("sync", false), ("arrive", true)], "`.sync` or `.arrive`")?;
        // `bar` is `barrier.….aligned`.
        let aligned = m.eat("aligned") || m.opcode == "bar";
        m.end()?;
        let id = self.operand()?;
        if arrive {
            self.comma()?;
            return Ok(Op::BarrierArrive { id, count: self.operand()?, aligned });
        }
        let count = if self.eat(',') { Some(self.operand()?) } else { None };
        Ok(Op::BarrierSync { id, count, aligned })
    }

    fn mbarrier_order(&mut self, m: &mut Modifiers<'a>) -> Result<Option<(Semantics, Scope)>> {
        let order = m.pick(&[
            ("release", Semantics::Release),
            ("acquire", Semantics::Acquire),
            ("relaxed", Semantics::Relaxed),
        ]);
        order.map(|order| Ok((order, m.need_scope()?))).transpose()
    }

    fn mbarrier(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let word = m.peek();
        m.taken += 1;
        match word {
            Some("init") => {
                let space = m.shared_space();
                m.need("b64")?;
                m.end()?;
                let barrier = self.address()?;
                self.comma()?;
                Ok(Op::MbarrierInit { space, barrier, count: self.operand()? })
            }
            Some("inval") => {
                let space = m.shared_space();
                m.need("b64")?;
                m.end()?;
                Ok(Op::MbarrierInvalidate { space, barrier: self.address()? })
            }
            Some(word @ ("expect_tx" | "complete_tx")) => {
                self.mbarrier_order(m)?;
                let space = m.shared_space();
                m.need("b64")?;
                m.end()?;
                let barrier = self.address()?;
                self.comma()?;
                let bytes = self.operand()?;
                Ok(if word == "expect_tx" {
                    Op::MbarrierExpectTx { space, barrier, bytes }
                } else {
                    Op::MbarrierCompleteTx { space, barrier, bytes }
                })
            }
            Some(word @ ("arrive" | "arrive_drop")) => self.mbarrier_arrive(m, word == "arrive_drop"),
            Some(word @ ("test_wait" | "try_wait")) => {
                let parity = m.eat("parity");
                self.mbarrier_order(m)?;
                let space = m.shared_space();
                m.need("b64")?;
                m.end()?;
                let dst = self.pred()?;
                self.comma()?;
                let barrier = self.address()?;
                self.comma()?;
                let phase = self.operand()?;
                let phase = if parity { WaitPhase::Parity(phase) } else { WaitPhase::State(phase) };
                let block = word == "try_wait";
                if block && self.eat(',') {
                    // The hint of how long to wait, in nanoseconds: changes no result.
                    self.operand()?;
                }
                Ok(Op::MbarrierWait { space, barrier, phase, block, dst })
            }
            Some("pending_count") => {
                m.need("b64")?;
                m.end()?;
                let dst = self.reg()?;
                self.comma()?;
                Ok(Op::MbarrierPendingCount { dst, state: self.operand()? })
            }
            _ => {
                m.taken = 0;
                Err(m.unknown("an operation on mbarriers"))
            }
        }
    }

    fn mbarrier_arrive(&mut self, m: &mut Modifiers<'a>, drop: bool) -> Result<Op> {
        let expect = m.eat("expect_tx");
        let no_complete = !expect && m.eat("noComplete");
        let order = self.mbarrier_order(m)?;
        let space = m.shared_space();
        m.need("b64")?;
        m.end()?;
        let mut state = None;
        if self.peek() != Some(Token::Punctuation('[')) {
            state = self.reg_or_sink()?;
            self.comma()?;
        }
        let barrier = self.address()?;
        let operand = if expect || no_complete || self.peek() == Some(Token::Punctuation(',')) {
            self.comma()?;
            Some(self.operand()?)
        } else {
            None
        };
        let (expect_tx, count) = if expect { (operand, None) } else { (None, operand) };
        Ok(Op::MbarrierArrive { barrier, arrive: Arrive { space, expect_tx, count, drop, no_complete, state, order } })
    }

    /// `cp.async…` and `cp.reduce.async.bulk.tensor…`
    fn copy(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        if m.eat("reduce") {
            m.need_all(&["async", "bulk", "tensor"])?;
            let dimensions = dimensions(m)?;
            m.need("global")?;
            source_shared(m)?;
            let op = m.need_pick(REDUCTIONS, "an operation")?;
            m.eat("tile");
            m.need("bulk_group")?;
            let policy = m.eat("L2::cache_hint");
            m.end()?;
            let dst = self.tensor_address(dimensions)?;
            self.comma()?;
            let src = self.address()?;
            self.cache_policy(policy)?;
            return Ok(Op::Bulk(Bulk::TensorReduce { op, dst, src }));
        }
        m.need("async")?;
        if m.eat("bulk") {
            return self.bulk(m).map(Op::Bulk);
        }
        if m.eat("commit_group") {
            m.end()?;
            return Ok(Op::CopyAsyncCommit);
        }
        if m.eat("wait_group") {
            m.end()?;
            return Ok(Op::CopyAsyncWait { pending: self.small("a number of groups")?, all: false });
        }
        if m.eat("wait_all") {
            m.end()?;
            return Ok(Op::CopyAsyncWait { pending: 0, all: true });
        }
        if m.eat("mbarrier") {
            m.need("arrive")?;
            let no_increment = m.eat("noinc");
            m.shared_space();
            m.need("b64")?;
            m.end()?;
            return Ok(Op::CopyAsyncArrive { barrier: self.address()?, no_increment });
        }
        let through_l1 = m.need_pick(&[("ca", true), ("cg", false)], "`.ca` or `.cg`")?;
        source_shared(m)?;
        m.need("global")?;
        let policy = self.cache_hints(m);
        m.end()?;
        let dst = self.address()?;
        self.comma()?;
        let src = self.address()?;
        self.comma()?;
        let bytes = self.small("a number of bytes")?;
        if !(bytes == 16 || (through_l1 && (bytes == 4 || bytes == 8))) {
            return Err(m.error(format!("copies 16 bytes, or with `.ca` 4 or 8, not {bytes}")));
        }
        let mut source = None;
        if !policy && self.eat(',') {
            source = Some(self.operand()?);
        }
        self.cache_policy(policy)?;
        Ok(Op::CopyAsync { dst, src, bytes, source })
    }

    fn bulk(&mut self, m: &mut Modifiers<'a>) -> Result<Bulk> {
        if m.eat("commit_group") {
            m.end()?;
            return Ok(Bulk::Commit);
        }
        if m.eat("wait_group") {
            let read = m.eat("read");
            m.end()?;
            return Ok(Bulk::Wait { pending: self.small("a number of groups")?, read });
        }
        if m.eat("prefetch") {
            m.need("tensor")?;
            let dimensions = dimensions(m)?;
            m.need_all(&["L2", "global"])?;
            m.eat("tile");
            let policy = m.eat("L2::cache_hint");
            m.end()?;
            let src = self.tensor_address(dimensions)?;
            self.cache_policy(policy)?;
            return Ok(Bulk::TensorPrefetch { src });
        }
        let tensor = if m.eat("tensor") { Some(dimensions(m)?) } else { None };
        match m.space() {
            Some(Space::Global) => self.bulk_store(m, tensor),
            Some(Space::Cluster | Space::Shared) => self.bulk_load(m, tensor),
            _ => Err(m.unknown("`.shared::cluster` or `.global`")),
        }
    }

    fn bulk_store(&mut self, m: &mut Modifiers<'a>, tensor: Option<usize>) -> Result<Bulk> {
        source_shared(m)?;
        if tensor.is_some() {
            m.eat("tile");
        }
        m.need("bulk_group")?;
        let policy = m.eat("L2::cache_hint");
        m.end()?;
        let bulk = if let Some(dimensions) = tensor {
            let dst = self.tensor_address(dimensions)?;
            self.comma()?;
            Bulk::TensorStore { dst, src: self.address()? }
        } else {
            let dst = self.address()?;
            self.comma()?;
            let src = self.address()?;
            self.comma()?;
            Bulk::Store { dst, src, bytes: self.operand()? }
        };
        self.cache_policy(policy)?;
        Ok(bulk)
    }

    fn bulk_load(&mut self, m: &mut Modifiers<'a>, tensor: Option<usize>) -> Result<Bulk> {
        let from_peer = tensor.is_none() && m.eat("shared::cta");
        if !from_peer {
            m.need("global")?;
        }
        if tensor.is_some() {
            m.eat("tile");
        }
        m.need("mbarrier::complete_tx::bytes")?;
        let many = !from_peer && m.eat("multicast::cluster");
        let policy = m.eat("L2::cache_hint");
        m.end()?;
        let dst = self.address()?;
        self.comma()?;
        if let Some(dimensions) = tensor {
            let src = self.tensor_address(dimensions)?;
            self.comma()?;
            let barrier = self.address()?;
            let multicast = self.multicast_mask(many)?;
            self.cache_policy(policy)?;
            return Ok(Bulk::TensorLoad { dst, src, barrier, multicast });
        }
        let src = self.address()?;
        self.comma()?;
        let bytes = self.operand()?;
        self.comma()?;
        let barrier = self.address()?;
        let multicast = self.multicast_mask(many)?;
        self.cache_policy(policy)?;
        Ok(if from_peer {
            Bulk::Peer { dst, src, bytes, barrier }
        } else {
            Bulk::Load { dst, src, bytes, barrier, multicast }
        })
    }

    fn multicast_mask(&mut self, present: bool) -> Result<Option<Operand>> {
        if !present {
            return Ok(None);
        }
        self.comma()?;
        self.operand().map(Some)
    }

    fn wgmma(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let which = m.peek();
        m.taken += 1;
        m.need_all(&["sync", "aligned"])?;
        match which {
            Some("fence") => m.end().map(|()| Op::WgmmaFence),
            Some("commit_group") => m.end().map(|()| Op::WgmmaCommit),
            Some("wait_group") => {
                m.end()?;
                Ok(Op::WgmmaWait { pending: self.small("a number of groups")? })
            }
            Some("mma_async") => self.wgmma_mma(m),
            _ => {
                m.taken = 0;
                Err(m.unknown("an operation of wgmma"))
            }
        }
    }

    fn wgmma_mma(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        let [rows, n, k] = shape(m)?;
        let d_type = m.ty_of(&[Type::F32, Type::F16])?;
        let sources = [Type::F16, Type::Bf16, Type::Tf32, Type::E4m3, Type::E5m2];
        let a_type = m.ty_of(&sources)?;
        let b_type = m.ty_of(&sources)?;
        m.end()?;
        let bits = match a_type {
            Type::Tf32 => 32,
            Type::F16 | Type::Bf16 => 16,
            _ => 8,
        };
        if a_type != b_type && bits != 8 {
            return Err(m.error("the types of A and B differ"));
        }
        if d_type == Type::F16 && matches!(a_type, Type::Bf16 | Type::Tf32) {
            return Err(m.error("this type accumulates in `.f32` only"));
        }
        if rows != 64 || n == 0 || n > 256 || n % 8 != 0 || k * bits != 256 {
            return Err(m.error(format!("the shape must be m64, n a multiple of 8 up to 256, k{}", 256 / bits)));
        }
        let d = self.regs_in_braces()?;
        let wanted = if d_type == Type::F16 { n / 4 } else { n / 2 };
        if d.len() != wanted as usize {
            return Err(m.error(format!("D takes {wanted} registers, not {}", d.len())));
        }
        self.comma()?;
        let a = if self.at_brace() {
            let regs = self.regs_in_braces()?;
            if regs.len() != 4 {
                return Err(m.error(format!("A takes 4 registers, not {}", regs.len())));
            }
            WgmmaA::Registers(regs)
        } else {
            WgmmaA::Descriptor(self.operand()?)
        };
        self.comma()?;
        let b = self.operand()?;
        self.comma()?;
        let scale_d = match self.pred_operand()? {
            PredOperand::Use(pred) => ScaleD::Pred(pred),
            PredOperand::Const(value) => ScaleD::Const(value),
        };
        let mut negate = [false; 2];
        for flag in &mut negate {
            self.comma()?;
            *flag = match self.constant("1 or -1")? as i64 {
                1 => false,
                -1 => true,
                other => return Err(m.error(format!("a scale must be 1 or -1, not {other}"))),
            };
        }
        let mut transpose = [false; 2];
        // 16-bit types say how each operand lies in shared memory; A in registers has no such flag.
        let flags: &mut [bool] = match (bits == 16, &a) {
            (false, _) => &mut [],
            (true, WgmmaA::Descriptor(_)) => &mut transpose,
            (true, WgmmaA::Registers(_)) => &mut transpose[1..],
        };
        for flag in flags {
            self.comma()?;
            *flag = match self.constant("0 or 1")? {
                0 => false,
                1 => true,
                other => return Err(m.error(format!("a transpose flag must be 0 or 1, not {other}"))),
            };
        }
        Ok(Op::Wgmma(Box::new(Wgmma { n, k, d_type, a_type, b_type, d, a, b, scale_d, negate, transpose })))
    }

    fn mma(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        m.need_all(&["sync", "aligned"])?;
        let shape = shape(m)?;
        m.need_all(&["row", "col"])?;
        let d_type = m.ty_of(&[Type::F32])?;
        let ab_type = m.ty_of(&[Type::F16, Type::Bf16])?;
        let b_type = m.ty()?;
        let c_type = m.ty()?;
        m.end()?;
        if b_type != ab_type || c_type != d_type {
            return Err(m.error("the types must be f32, A's, A's, f32"));
        }
        let (a_count, b_count) = match shape {
            [16, 8, 8] => (2, 1),
            [16, 8, 16] => (4, 2),
            _ => return Err(m.error("the shape must be m16n8k8 or m16n8k16")),
        };
        let d = self.regs_in_braces()?;
        self.comma()?;
        let a = self.operands_in_braces()?;
        self.comma()?;
        let b = self.sources()?;
        self.comma()?;
        let c = self.operands_in_braces()?;
        if (d.len(), a.len(), b.len(), c.len()) != (4, a_count, b_count, 4) {
            return Err(m.error(format!("takes 4, {a_count}, {b_count} and 4 registers")));
        }
        Ok(Op::Mma(Box::new(Mma { shape, d_type, ab_type, d, a, b, c })))
    }

    fn matrix(&mut self, m: &mut Modifiers<'a>, load: bool) -> Result<Op> {
        m.need_all(&["sync", "aligned", "m8n8"])?;
        let count = m.need_pick(&[("x1", 1), ("x2", 2), ("x4", 4)], "`.x1`, `.x2` or `.x4`")?;
        let transpose = m.eat("trans");
        if m.shared_space() == Space::Cluster {
            return Err(m.error("works on this block's shared memory only"));
        }
        m.need("b16")?;
        m.end()?;
        let bad = |found: usize| m.error(format!("takes {count} registers, not {found}"));
        if load {
            let dst = self.regs()?;
            if dst.len() != count {
                return Err(bad(dst.len()));
            }
            self.comma()?;
            return Ok(Op::LoadMatrix { transpose, dst, address: self.address()? });
        }
        let address = self.address()?;
        self.comma()?;
        let src = self.sources()?;
        if src.len() != count {
            return Err(bad(src.len()));
        }
        Ok(Op::StoreMatrix { transpose, address, src })
    }

    fn shuffle(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        m.need("sync")?;
        let mode = m.need_pick(
            &[
                ("up", ShuffleMode::Up),
                ("down", ShuffleMode::Down),
                ("bfly", ShuffleMode::Butterfly),
                ("idx", ShuffleMode::Index),
            ],
            "a mode",
        )?;
        m.need("b32")?;
        m.end()?;
        let dst = self.reg()?;
        let valid = if self.eat('|') { self.pred_or_sink()? } else { None };
        self.comma()?;
        let a = self.operand()?;
        self.comma()?;
        let lane = self.operand()?;
        self.comma()?;
        let clamp = self.operand()?;
        self.comma()?;
        Ok(Op::Shuffle { mode, dst, valid, a, lane, clamp, mask: self.operand()? })
    }

    fn vote(&mut self, m: &mut Modifiers<'a>) -> Result<Op> {
        m.need("sync")?;
        let mode = m.need_pick(
            &[("all", VoteMode::All), ("any", VoteMode::Any), ("uni", VoteMode::Uniform), ("ballot", VoteMode::Ballot)],
            "a mode",
        )?;
        let ballot = mode == VoteMode::Ballot;
        m.need(if ballot { "b32" } else { "pred" })?;
        m.end()?;
        let (mut dst, mut dst_pred) = (None, None);
        if ballot {
            dst = Some(self.reg()?);
        } else {
            dst_pred = Some(self.pred()?);
        }
        self.comma()?;
        let a = self.pred_operand()?;
        self.comma()?;
        Ok(Op::Vote { mode, dst_pred, dst, a, mask: self.operand()? })
    }
}

/// `.rnd.ftz.sat` in the orders that the PTX ISA allows.
fn float_mode(m: &mut Modifiers<'_>) -> FloatMode {
    let mut mode = FloatMode::default();
    if !m.eat_any(&["approx", "full"]) {
        mode.rounding = m.rounding();
    }
    mode.ftz = m.eat("ftz");
    mode.nan = m.eat("NaN");
    mode.sat = m.eat("sat");
    mode.relu = m.eat("relu");
    mode
}

fn fence(m: &mut Modifiers<'_>) -> Result<Op> {
    let fence = if m.eat("mbarrier_init") {
        m.need_all(&["release", "cluster"])?;
        Fence::MbarrierInit
    } else if m.eat("proxy") {
        match m.pick(&[("async", true), ("alias", false)]) {
            Some(true) => match m.space() {
                None => Fence::ProxyAsync(Space::Generic),
                Some(space @ (Space::Global | Space::Shared | Space::Cluster)) => Fence::ProxyAsync(space),
                Some(_) => return Err(m.error("fences `.global`, `.shared::cta` or `.shared::cluster`")),
            },
            Some(false) => Fence::ProxyAlias,
            None => return Err(m.unknown("a proxy")),
        }
    } else {
        let sequential = m.pick(&[("sc", true), ("acq_rel", false)]).unwrap_or(false);
        Fence::Memory { sequential, scope: m.need_scope()? }
    };
    m.end()?;
    Ok(Op::Fence(fence))
}

fn check_parts(m: &Modifiers<'_>, ty: Type, parts: usize) -> Result<()> {
    let fits = match ty.bytes() {
        2 => parts == 2,
        4 | 8 => parts == 2 || parts == 4,
        _ => false,
    };
    if fits { Ok(()) } else { Err(m.error(format!("does not split into {parts} parts"))) }
}

/// `.1d` to `.5d`
fn dimensions(m: &mut Modifiers<'_>) -> Result<usize> {
    m.need_pick(&[("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)], "a number of dimensions")
}

/// `.shared` or `.shared::cta`, of this block.
fn source_shared(m: &mut Modifiers<'_>) -> Result<()> {
    if m.eat_any(&["shared::cta", "shared"]) { Ok(()) } else { Err(m.unknown("`.shared::cta`")) }
}

/// `.m64n128k16`
fn shape(m: &mut Modifiers<'_>) -> Result<[u32; 3]> {
    let word = m.peek().unwrap_or_default();
    let parts = word.strip_prefix('m').and_then(|rest| {
        let (rows, rest) = rest.split_once('n')?;
        let (columns, depth) = rest.split_once('k')?;
        let number = |text: &str| text.parse::<u32>().ok().filter(|&value| value <= 1024);
        Some([number(rows)?, number(columns)?, number(depth)?])
    });
    let shape = parts.ok_or_else(|| m.unknown("a shape such as `.m64n128k16`"))?;
    m.taken += 1;
    Ok(shape)
}
